"""The machine's clocks: intervals by the monotonic one, wall time as a label, and the alarm that core asks for."""

import ast
import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from controller.adapters import clock as clocks
from controller.adapters.clock import SystemClock
from controller.core.events import Elapsed, Event
from controller.ports import Clock, Outcome, Source
from tests.broker import until

MS = 1_000_000
SECOND = 1_000_000_000
ROOT = Path(__file__).parents[2]


def test_it_is_a_clock_and_a_source() -> None:
    both: tuple[Clock, Source] = (SystemClock(), SystemClock())
    assert both[0].now() <= time.monotonic_ns()


# --- the label ----------------------------------------------------------------------------------------------


def test_wall_time_is_that_of_the_event(tmp_path: Path) -> None:
    clock = SystemClock(tmp_path / "mark")
    before = time.time_ns()
    now, _ = clock.wall(clock.now())
    ago, _ = clock.wall(clock.now() - 3_600 * SECOND)
    ahead, _ = clock.wall(clock.now() + 15 * SECOND)
    after = time.time_ns()
    assert before - MS <= now <= after
    assert before - MS <= ago + 3_600 * SECOND <= after, "an hour ago, whatever waits in line since"
    assert before - MS <= ahead - 15 * SECOND <= after, "the betting's end"


def test_the_mark_says_that_the_clock_is_synchronised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "synchronized"
    clock = SystemClock(mark)
    assert clock.wall(clock.now())[1] is False
    mark.touch()
    assert clock.wall(clock.now())[1] is False, "it is looked for every few seconds"
    monkeypatch.setattr(clocks, "SYNC_LOOK_NS", 0)
    assert clock.wall(clock.now())[1] is True
    mark.unlink()
    assert clock.wall(clock.now())[1] is False


def test_a_machine_without_timesyncd_is_not_synchronised(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    clock = SystemClock(tmp_path / "file" / "synchronized")
    assert clock.wall(clock.now())[1] is False


# --- the alarm ----------------------------------------------------------------------------------------------


class Heard:
    """A running clock and what it submitted."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.events: list[Event] = []

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        self.events.append(event)
        return asyncio.get_running_loop().create_future()

    async def rings(self, count: int) -> None:
        await until(lambda: len(self.events) >= count, f"{count} alarms")


def hear(story: Callable[[Heard], Awaitable[None]]) -> None:
    async def night() -> None:
        heard = Heard()
        task = asyncio.create_task(heard.clock.run(heard.submit))
        await asyncio.sleep(0)
        await story(heard)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(night())


def test_it_rings_at_the_instant_or_after_it_and_never_before() -> None:
    """The loop's own timers are coarser than a deadline: one that fired early would fire nothing, and never again."""

    async def story(heard: Heard) -> None:
        chance = random.Random(7)
        for number in range(1, 101):
            at = heard.clock.now() + chance.randrange(3 * MS)
            heard.clock.wake_at(at)
            await heard.rings(number)
            event = heard.events[-1]
            assert type(event) is Elapsed and at <= event.at <= heard.clock.now()
        assert len(heard.events) == 100

    hear(story)


def test_an_instant_that_is_past_rings_at_once_and_once() -> None:
    async def story(heard: Heard) -> None:
        heard.clock.wake_at(heard.clock.now() - SECOND)
        await heard.rings(1)
        await asyncio.sleep(0.02)
        assert len(heard.events) == 1
        heard.clock.wake_at(heard.clock.now() - SECOND)
        await heard.rings(2)

    hear(story)


def test_the_same_instant_asked_for_again_rings_again() -> None:
    """A deadline may be put back to where it was, behind the alarm's back."""

    async def story(heard: Heard) -> None:
        at = heard.clock.now() + MS
        heard.clock.wake_at(at)
        await heard.rings(1)
        heard.clock.wake_at(at)
        await heard.rings(2)

    hear(story)


@pytest.mark.parametrize("instead", [None, 60_000 * MS])
def test_an_alarm_may_be_taken_back_or_put_off(instead: int | None) -> None:
    async def story(heard: Heard) -> None:
        heard.clock.wake_at(heard.clock.now() + 5 * MS)
        heard.clock.wake_at(None if instead is None else heard.clock.now() + instead)
        await asyncio.sleep(0.03)
        assert not heard.events

    hear(story)


def test_an_earlier_alarm_takes_the_place_of_a_later_one() -> None:
    async def story(heard: Heard) -> None:
        heard.clock.wake_at(heard.clock.now() + 60_000 * MS)
        heard.clock.wake_at(heard.clock.now() + MS)
        await heard.rings(1)

    hear(story)


def test_a_loop_that_was_held_up_hears_of_it_afterwards() -> None:
    async def story(heard: Heard) -> None:
        at = heard.clock.now() + MS
        heard.clock.wake_at(at)
        time.sleep(0.02)  # noqa: ASYNC251 - the loop is held up on purpose
        await heard.rings(1)
        assert len(heard.events) == 1 and heard.events[0].at >= at

    hear(story)


def test_what_is_asked_for_before_it_runs_rings_when_it_does() -> None:
    async def night() -> None:
        heard = Heard()
        heard.clock.wake_at(heard.clock.now())
        await asyncio.sleep(0.01)
        assert not heard.events
        for count in (1, 2):
            task = asyncio.create_task(heard.clock.run(heard.submit))
            await heard.rings(count)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            heard.clock.wake_at(heard.clock.now())
            await asyncio.sleep(0.01)
            assert len(heard.events) == count, "nobody is told by a clock that does not run"

    asyncio.run(night())


# --- nobody else looks at the wall --------------------------------------------------------------------------

WALL = {"time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "mktime", "strftime", "clock_settime"}
CALENDAR = {"now", "utcnow", "today", "fromtimestamp", "utcfromtimestamp"}
LABELS = {  # module: what it takes of the wall clock, and what for
    "adapters/clock.py": {"time_ns"},  # the label of an event
    "adapters/memory.py": {"time_ns"},  # the same, at a table that is simulated
    "adapters/journal_sqlite.py": {"time"},  # the generation's name
}


def wall_time_used(path: Path) -> set[str]:
    """The names of wall time that a module uses: `time.X`, `from time import X`, and any `.now()` of a calendar."""
    used: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            of_time = node.value.id == "time" and node.attr in WALL
            of_calendar = node.value.id in ("datetime", "date", "dt") and node.attr in CALENDAR
            used |= {node.attr} if of_time or of_calendar else set()
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            used |= {alias.name for alias in node.names} & WALL
    return used


def test_no_interval_is_measured_by_the_wall_clock() -> None:
    """A wall clock jumps when the network finds the time, forwards by months at a Pi without a battery (Z1)."""
    package = ROOT / "controller"
    used = {str(path.relative_to(package)): wall_time_used(path) for path in package.rglob("*.py")}
    assert len(used) > 40, "the whole program"
    assert {path: names for path, names in used.items() if names} == LABELS
