"""How soon the table knows of a card that has left the outer beam.

To a whole frame in the chip's own time; and in real time to the table's disk, with the chip, its line and the daemon
each a process of its own.
"""

import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from controller.adapters import journal_sqlite
from controller.link.messages import Event, Kind
from tests.bench.report import Figure
from tests.firmware.chip import Chip
from tests.live import DEADLINE_S, wait_for
from tests.live_head import LiveHead, live_head
from tests.passages import MS, Pull, Scene, edges, pulls
from tests.shoes import SHOES

CARDS = 200
LIVE_CARDS = 100
LOOK_S = 0.0005  # how often the disk is looked at


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


def durable(count: int) -> list[float]:
    """From each card of a shoe's beginning to the row that its movement makes in the journal, in ms."""
    with TemporaryDirectory() as name, live_head(Path(name) / "table", seed=1, broken=0) as head:
        head.load()
        journal = head.table.folder / "state" / journal_sqlite.DATABASE
        return [moved(head, journal, what, code) for what, code in SHOES[4].events[:count]]


def moved(head: LiveHead, journal: Path, what: str, code: str) -> float:
    """Deals it; how soon after it was out the disk knew of it."""
    last = next(row for row, _ in journal_sqlite.bodies(journal, newest_first=True))
    out_at = head.pull(what)
    time.sleep(max(0, out_at - time.monotonic()))
    while not any(True for _ in journal_sqlite.bodies(journal, after=last)):
        assert time.monotonic() < out_at + DEADLINE_S, f"the movement of {what} is not told"
        time.sleep(LOOK_S)
    took = time.monotonic() - out_at
    if what == "burn":
        wait_for(head.is_taken, "the burned card")
    else:
        head.show(code)
    return took * 1_000


def measure() -> Iterator[Figure]:
    figures = latencies(CARDS)
    yield Figure("sensor head: card out of the outer beam -> frame whole, median", statistics.median(figures), "ms")
    yield Figure(f"  the worst of {CARDS}", max(figures), "ms", "below 15")
    lived = durable(LIVE_CARDS)
    yield Figure("  out of the beam -> on the table's disk, in real time, median", statistics.median(lived), "ms")
    yield Figure(f"  the worst of {LIVE_CARDS}", max(lived), "ms")
