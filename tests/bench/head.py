"""How soon the sensor head tells of a card: from when it has left the outer beam to a whole frame, on the chip."""

import random
import statistics
from collections.abc import Iterator

from controller.link.messages import Event, Kind
from tests.bench.report import Figure
from tests.firmware.chip import Chip
from tests.passages import MS, Pull, Scene, edges, pulls

CARDS = 200


def latencies(count: int, seed: int = 1) -> list[float]:
    """Of so many cards, drawn as they are, in ms of the chip."""
    rng = random.Random(seed)
    told: list[float] = []
    with Chip() as chip:
        chip.run(50_000)
        for _ in range(count):
            out = one(chip, pulls(rng, rng.randint(1 * MS, 9 * MS)))
            at = next(
                at for at, message in reversed(chip.heard) if isinstance(message, Event) and message.kind is Kind.CARD
            )
            told.append((at - out) / 1_000)
            chip.heard.clear()
    return told


def one(chip: Chip, pull: Pull) -> float:
    """Draws a card from now on; returns when it had left, in us."""
    scene = Scene()
    scene.card(pull)
    begin = chip.bench.now
    chip.play(edges(scene.spans), begin)
    chip.run(pull.out / 1_000 + 15_000)
    return begin + pull.out / 1_000


def measure() -> Iterator[Figure]:
    figures = latencies(CARDS)
    yield Figure("sensor head: card out of the outer beam -> frame whole, median", statistics.median(figures), "ms")
    yield Figure(f"  the worst of {CARDS}", max(figures), "ms", "below 15")
