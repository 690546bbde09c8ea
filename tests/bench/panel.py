"""The dealer's panel: what a prompt change takes on the bus, and how soon a view is handed to it."""

import asyncio
import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import median, quantiles

from controller import frame
from controller.adapters.display_oled import DisplayOled, Oled
from controller.core.events import Event
from controller.core.facts import Phase
from controller.core.view import View, view
from controller.panel import Words
from controller.ports import Outcome
from tests.bench.report import Figure
from tests.fake_panel import FakeBus, FakeI2c, FakePanel
from tests.panel_states import Table
from tests.shoes import SHOES

TABLE, LANGUAGES = "BAC-07", ("es", "en")
PACE_S = 0.01
SHOWN = 1_000  # views


def dealt() -> Iterator[tuple[View, bool]]:
    """Each view of a shoe that is dealt with every button and receipt, and whether a card brought it."""
    table = Table("receipts")
    seen = 0

    def views(word: str) -> Iterator[tuple[View, bool]]:
        nonlocal seen
        table.do(word)
        new, seen = table.seen[seen:], len(table.seen)
        yield from ((view(state), len(word) == 2) for state in new)

    yield from views("load")
    for what, code in SHOES[0].events:
        if what == "P1":
            if table.state.phase is Phase.RESULT:
                yield from views("confirm")
            if table.state.phase is Phase.UNLOADING:
                return
            for word in ("start", "tick", "receipt"):
                yield from views(word)
        if what not in ("burn_open", "burn"):  # the panel's table begins with a shoe that is ready
            yield from views(code.lower() if what == "cut" else code)


def changes(language: str) -> list[tuple[int, bool]]:
    """Bus bytes of each change of the picture, and whether a card brought it."""
    words = Words(language)
    shown = [(frame.draw(words.panel(a, TABLE), idle=a.phase is Phase.CLOSED), by_card) for a, by_card in dealt()]
    return [
        (frame.bus_bytes(frame.diff(old, new)), by_card) for (old, _), (new, by_card) in pairwise(shown) if old != new
    ]


async def handed_ms() -> list[float]:
    """From `show` to the first byte on the bus."""
    panel = FakePanel("ssd1309")
    bus = FakeBus(panel)
    display = DisplayOled(Oled("ssd1309", FakeI2c(bus)), Words("es"), TABLE)

    def submit(event: Event) -> "asyncio.Future[Outcome]":
        return asyncio.get_running_loop().create_future()

    task = asyncio.create_task(display.run(submit))
    views = [shown for shown, by_card in dealt() if by_card]
    taken = []
    display.show(views[0])
    for shown in views[1:SHOWN]:
        await asyncio.sleep(PACE_S)
        begun, shown_ns = len(bus.began_ns), time.monotonic_ns()
        display.show(shown)
        await asyncio.sleep(PACE_S)
        if len(bus.began_ns) > begun:  # else it looks like the one before
            taken.append((bus.began_ns[begun] - shown_ns) / 1e6)
    task.cancel()
    await asyncio.wait([task])
    return taken


def measure() -> list[Figure]:
    figures = []
    for language in LANGUAGES:
        sent = changes(language)
        by_card = median(size for size, card in sent if card)
        figures += [
            Figure(
                f"panel, {language}: a prompt change that a card brings, median", by_card, "bus bytes", "at most 400"
            ),
            Figure(
                f"panel, {language}: every prompt change of a shoe, median",
                median(size for size, _ in sent),
                "bus bytes",
            ),
            Figure(
                f"panel, {language}: the largest", max(size for size, _ in sent), "bus bytes", "a whole frame: 1,080"
            ),
        ]
    taken = asyncio.run(handed_ms())
    return [
        *figures,
        Figure("panel: view to bus, median", median(taken), "ms", "at most 5"),
        Figure("panel: view to bus, p99", quantiles(taken, n=100)[98], "ms"),
    ]
