"""The machine's clocks: intervals by the monotonic one, wall time as a label, and the alarm that core asks for."""

import ast
import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from controller.adapters.clock import SystemClock, kernel_is_synchronised
from controller.core.events import ClockStepped, Elapsed, Event
from controller.ports import Clock, Outcome, Source
from tests.broker import until

MS = 1_000_000
SECOND = 1_000_000_000
ROOT = Path(__file__).parents[2]


def test_it_is_a_clock_and_a_source() -> None:
    both: tuple[Clock, Source] = (SystemClock(), SystemClock())
    assert both[0].now() <= time.monotonic_ns()


# --- the label ----------------------------------------------------------------------------------------------


class Machine:
    """A machine's clocks that tests move: `mono` and `utc`, ns."""

    def __init__(self) -> None:
        self.mono, self.utc, self.synchronised = 1_000 * SECOND, 1_800_000_000 * SECOND, True
        self.asked = 0
        self.events: list[Event] = []
        self.clock = SystemClock(lambda: self.mono, lambda: self.utc, self.ask)

    def ask(self) -> bool:
        self.asked += 1
        return self.synchronised

    def passes(self, seconds: float, *, utc: float | None = None) -> None:
        """Time passes on both clocks; `utc` says how much on the wall's, where somebody sets or slews it."""
        self.mono += int(seconds * SECOND)
        self.utc += int((seconds if utc is None else utc) * SECOND)

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        self.events.append(event)
        return asyncio.get_running_loop().create_future()

    def steps(self) -> list[ClockStepped]:
        return [event for event in self.events if isinstance(event, ClockStepped)]


def test_wall_time_is_that_of_the_event() -> None:
    machine = Machine()
    now, utc = machine.mono, machine.utc
    assert machine.clock.wall(now) == (utc, True)
    assert machine.clock.wall(now - 3_600 * SECOND)[0] == utc - 3_600 * SECOND, "an hour ago, whatever waits since"
    assert machine.clock.wall(now + 15 * SECOND)[0] == utc + 15 * SECOND, "the betting's end"


def test_the_kernel_is_asked_every_few_seconds_whether_the_clock_is_synchronised() -> None:
    machine = Machine()
    machine.synchronised = False
    assert machine.clock.wall(machine.mono)[1] is False
    machine.synchronised = True
    machine.passes(1)
    assert machine.clock.wall(machine.mono)[1] is False
    machine.passes(5)
    assert machine.clock.wall(machine.mono)[1] is True
    assert machine.asked == 2


def test_a_kernel_that_does_not_say_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()

    def refused() -> bool:
        raise PermissionError(1, "adjtimex: Operation not permitted: the unit must allow this call")

    machine.clock = SystemClock(lambda: machine.mono, lambda: machine.utc, refused)
    for _ in range(3):
        assert machine.clock.wall(machine.mono) == (machine.utc, False)
        machine.passes(10)
    (told,) = [record.message for record in caplog.records]
    assert told.startswith("whether the clock is synchronised cannot be told: [Errno 1] adjtimex: ")


def test_this_kernel_says_yes_or_no() -> None:
    assert kernel_is_synchronised() in (True, False)


def test_no_time_is_before_the_last_record_and_then_none_is_synchronised() -> None:
    """A board without a clock chip wakes up where it was switched on first."""
    machine = Machine()
    machine.synchronised = False
    last = machine.utc + 86_400 * SECOND
    machine.clock.not_before(last)
    assert machine.clock.wall(machine.mono) == (last, False)
    machine.passes(10)
    assert machine.clock.wall(machine.mono) == (last + 10 * SECOND, False)
    machine.passes(5, utc=86_500)
    assert machine.clock.wall(machine.mono) == (machine.utc, False)


def test_a_table_that_once_woke_up_in_the_future_comes_back() -> None:
    """I38. Else every command of the casino would be expired for years, and nothing could open the betting again."""
    machine = Machine()
    machine.synchronised = False
    last = machine.utc + 20 * 365 * 86_400 * SECOND
    machine.clock.not_before(last)
    assert machine.clock.wall(machine.mono) == (last, False)
    machine.passes(10)
    machine.synchronised = True
    assert machine.clock.wall(machine.mono) == (machine.utc, True)


@pytest.mark.parametrize(
    ("seconds", "utc", "stepped"),
    [(5, 5, False), (5, 5.4, False), (5, 5.6, True), (5, 4.4, True), (5, -3600, True), (3600, 3600, False)],
)
def test_a_clock_that_was_set_is_told_with_both_times(seconds: float, utc: float, *, stepped: bool) -> None:
    """I38. What a daemon slews in five seconds is no step; a machine that slept is."""

    async def night() -> None:
        machine = Machine()
        task = asyncio.create_task(machine.clock.run(machine.submit))
        await asyncio.sleep(0)
        machine.clock.look()
        before = machine.utc
        machine.passes(seconds, utc=utc)
        machine.clock.look()
        machine.clock.look()
        told = [ClockStepped(machine.mono, before + int(seconds * SECOND), machine.utc, synchronised=True)]
        assert machine.steps() == (told if stepped else [])
        assert machine.clock.diag()["step"] == ((told[0].before, told[0].after) if stepped else None)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(night())


def test_what_diag_tells_of_it() -> None:
    machine = Machine()
    told = {"monotonic": machine.mono, "synchronised": True, "step": None}
    assert machine.clock.diag() == {"wall": machine.utc, "held": False, **told}
    lonely = Machine()
    lonely.synchronised = False
    lonely.clock.not_before(lonely.utc + SECOND)
    assert lonely.clock.diag() == {"wall": lonely.utc + SECOND, "held": True, **told, "synchronised": False}


# --- the alarm ----------------------------------------------------------------------------------------------


class Heard:
    """A running clock and what it submitted."""

    def __init__(self, now: Callable[[], int] = time.monotonic_ns) -> None:
        self.clock = SystemClock(now)
        self.events: list[Event] = []

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        self.events.append(event)
        return asyncio.get_running_loop().create_future()

    async def rings(self, count: int) -> None:
        await until(lambda: len(self.events) >= count, f"{count} alarms")


def hear(story: Callable[[Heard], Awaitable[None]], now: Callable[[], int] = time.monotonic_ns) -> None:
    async def night() -> None:
        heard = Heard(now)
        task = asyncio.create_task(heard.clock.run(heard.submit))
        await asyncio.sleep(0)
        await story(heard)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(night())


def test_it_rings_at_the_instant_or_after_it_and_never_before() -> None:

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


def test_a_timer_that_fires_early_is_set_again() -> None:
    """The loop's own timers are coarser than a deadline: the betting would end at no time, and never again (C1)."""
    behind = 0

    async def story(heard: Heard) -> None:
        nonlocal behind
        at = heard.clock.now() + MS
        heard.clock.wake_at(at)
        behind = 20 * MS  # the timer is set; when it fires the deadline is still to come
        await heard.rings(1)
        assert heard.events[0].at >= at

    hear(story, lambda: time.monotonic_ns() - behind)


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
    "adapters/publisher_mqtt.py": {"strftime", "gmtime"},  # said of a certificate
    "doctor.py": {"fromtimestamp", "now"},  # how far the clock is from the last record
    "cli/show.py": {"fromtimestamp"},  # a label is printed
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
