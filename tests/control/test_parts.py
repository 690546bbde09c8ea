"""When a device may be tested, by the phase of the table; and what `diag` answers where it has no such device."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from controller.control import parts
from controller.control.parts import PARTS, Part
from controller.core.conditions import Refused
from controller.core.events import EndShoeAsked, StartPressed
from controller.core.state import State
from tests.control.served import run
from tests.table_rig import BY_DEALER, TWO, Rig


async def closed(rig: Rig) -> None:
    """As it begins."""


async def preparing(rig: Rig) -> None:
    await rig.confirm()


async def ready(rig: Rig) -> None:
    await rig.load()


async def betting(rig: Rig) -> None:
    await rig.load()
    await rig.bet()


async def waiting(rig: Rig) -> None:
    """The betting is open, and nobody has said yet that its time is over."""
    await rig.load()
    await rig.do(StartPressed(rig.clock.now()))


async def dealing(rig: Rig) -> None:
    await rig.load()
    await rig.scan("8H")


async def unloading(rig: Rig) -> None:
    await rig.load()
    await rig.do(EndShoeAsked(rig.clock.now(), "discretion", by=TWO))


def state_after(before: Callable[[Rig], Coroutine[Any, Any, None]]) -> State:
    async def whole() -> State:
        procedure = (BY_DEALER,) if before in (betting, waiting) else ()
        async with Rig(*procedure) as rig:
            await before(rig)
            return rig.loop.state

    return run(whole)


def answer(part: str, state: State | None, *, test: bool) -> tuple[str, dict[str, Any]]:
    """The key of a refusal, or empty and what is told; each device also tells how often it was tested."""
    begun: list[str] = []

    def begin(name: str) -> Callable[[], int]:
        def test_it() -> int:
            begun.append(name)
            return 1_500

        return test_it

    have = {
        name: Part("gpio", lambda: {"begun": list(begun)}, {"test": begin(name)})
        for name in ("lamps", "buzzer", "display")
    }
    have["scanner"] = Part("serial", lambda: {"begun": list(begun)})
    try:
        return "", parts.diag(have, part, act="test" if test else "", state=state)
    except Refused as refused:
        return refused.key, {**refused.values, "begun": begun}


SHOE, ROUND = "shoe_loaded", "round_runs"
TESTS = [  # before, its phase, the refusals of: lamps, buzzer, display
    (closed, "closed", "", "", ""),
    (preparing, "preparing", "", "", ""),
    (ready, "ready", "", "", SHOE),
    (waiting, "betting", ROUND, ROUND, ROUND),
    (betting, "closing", ROUND, ROUND, ROUND),
    (dealing, "dealing", ROUND, ROUND, ROUND),
    (unloading, "unloading", "", "", SHOE),
]


@pytest.mark.parametrize(("before", "phase", "lamps", "buzzer", "display"), TESTS)
def test_when_a_part_may_be_tested(
    before: Callable[[Rig], Coroutine[Any, Any, None]], phase: str, lamps: str, buzzer: str, display: str
) -> None:
    state = state_after(before)
    assert state.phase.value == phase
    for part, refusal in {"lamps": lamps, "buzzer": buzzer, "display": display, "scanner": "no_test"}.items():
        key, told = answer(part, state, test=True)
        assert key == refusal
        began = {"part": part, "driver": "gpio", "test_ms": 1_500, "begun": [part]}
        assert told == ({"part": part, "begun": []} if refusal else began)
        assert answer(part, state, test=False)[1]["begun"] == [], "to look is no test, and may be done at any time"


def test_where_no_table_runs_there_is_nobody_to_mislead() -> None:
    assert [answer(part, None, test=True)[0] for part in ("lamps", "buzzer", "display")] == ["", "", ""]


@pytest.mark.parametrize("test", [True, False])
def test_a_part_that_the_table_has_not(test: bool) -> None:
    assert answer("buttons", state_after(closed), test=test)[0] == "no_part"
    assert "buttons" in PARTS
