"""Rounds a second through `decide` and `evolve`, invariants on: the vectors' ten shoes, free-running."""

import time
from statistics import median

from controller.core.cards import Card
from controller.core.events import (
    CardScanned,
    Configured,
    CutCardSeen,
    Event,
    JournalMade,
    LinkChanged,
    LoadAsked,
    Restarted,
)
from controller.core.profile import Confirms, Opens, Procedure
from controller.core.state import State, evolve, fold
from controller.core.table import decide
from tests.bench.report import Figure
from tests.profiles import COMMISSION
from tests.shoes import SHOES, Shoe

SECOND = 1_000_000_000
TARGET = 8_000
FREE_RUNNING = Procedure(open_betting=Opens.NONE, confirm_result=Confirms.NONE)


def begun() -> State:
    """A free-running table with a shoe of the vectors' profile open."""
    state = State()
    for event in (
        JournalMade(1, "new", "key"),
        Restarted(2, "boot", "version", "hash"),
        Configured(3, "hash", (), FREE_RUNNING, COMMISSION),
        LinkChanged(4, up=True),
        LoadAsked(5),
    ):
        state = fold(state, decide(state, event))
    return state


def events(shoe: Shoe) -> list[Event]:
    return [
        CutCardSeen(at * SECOND, "code") if what == "cut" else CardScanned(at * SECOND, Card.parse(code))
        for at, (what, code) in enumerate(shoe.events, 10)
    ]


def rate() -> float:
    """Rounds a second of CPU over the ten shoes, the events made beforehand."""
    played = [(begun(), events(shoe), len(shoe.hands)) for shoe in SHOES]
    start = time.process_time()
    for state, happened, _ in played:
        for event in happened:
            for fact in decide(state, event):
                state = evolve(state, fact)  # noqa: PLW2901 - the state moves on
    return sum(rounds for *_, rounds in played) / (time.process_time() - start)


def measure() -> list[Figure]:
    rates = [rate() for _ in range(5)]
    return [Figure("rounds dealt a second of CPU (median of 5)", median(rates), "/s", f"at least {TARGET}")]
