"""Lamps and buzzer on mock pins in virtual time: whole betting times, stalls, lost pins.

Bug reports 1, 13, 14; rule C1; libraries.md G9 (gpiozero's mock counts no repeated write: ours does), G10, C4.
"""

import asyncio
import errno
import gc
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import gpiozero
import pytest
from gpiozero.pins.mock import MockFactory, MockPin
from hypothesis import given
from hypothesis import strategies as st

from controller.adapters.lamps_gpio import FIGURES, NAMES_MAX, SOUND_NS, LampsGpio, paint
from controller.adapters.pins_gpiod import GpiodFactory
from controller.core.events import Event, FaultGone, FaultSeen
from controller.core.facts import Phase
from controller.core.view import Lamps, Pattern, Prompt, Text, View
from controller.ports import Outcome
from tests import virtual_time
from tests.gpio_chips import Bank, Machine
from tests.pages import ROOT
from tests.virtual_time import START_NS, VirtualLoop

SECOND = 1_000_000_000
MS = 1_000_000
BAR, AMBER, RED, CALL, BUZZER = (5, 6, 13, 19), 24, 26, 14, 12
Wired = dict[str, Any]
WIRED: Wired = {"timer": BAR, "amber": AMBER, "red": RED, "call": CALL, "buzzer": BUZZER}
OFF = Lamps()


def view(lamps: Lamps) -> View:
    return View(Phase.BETTING, Prompt(Text("x")), lamps)


def betting(seconds: float = 20.0, *, opened_at: int = START_NS, buzz: str = "1/1/1", call: bool = False) -> Lamps:
    return Lamps(Pattern.BETTING, opened_at, opened_at + round(seconds * SECOND), call, buzz)


class Pin(MockPin):  # type: ignore[misc] # gpiozero has no types
    """A mock pin that tells its factory of every write, and fails where that says so."""

    def _set_state(self, value: bool) -> None:
        self.factory.wrote(self._number, bool(value))
        super()._set_state(value)

    def close(self) -> None:
        self.factory.closed.append((self._number, self.state))
        super().close()


class Pins(MockFactory):  # type: ignore[misc] # gpiozero has no types
    """`writes`: (ns, pin, level), the making of a device aside; `broken` pins fail."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(pin_class=Pin)
        self.now = now
        self.writes: list[tuple[int, int, bool]] = []
        self.closed: list[tuple[int, bool]] = []
        self.broken: set[int] = set()
        self.tried: list[tuple[int, int]] = []

    def wrote(self, number: int, value: bool) -> None:
        self.tried.append((self.now(), number))
        if number in self.broken:
            raise OSError(errno.ENODEV, "No such device")
        self.writes.append((self.now(), number, value))

    def of(self, number: int) -> list[tuple[int, bool]]:
        """When a pin was put on which level; the first write is its device's making, off."""
        (_, first), *rest = [(at, value) for at, pin, value in self.writes if pin == number]
        assert first is False
        return rest

    def level(self, number: int) -> bool:
        return bool(self.pin(number).state)


MakePins = Callable[[Callable[[], int]], Pins | GpiodFactory]


class Table:
    """A panel at work, and what it reported; the end of a fault that does not stand is no news, as to the table.

    `standing`: the parts of faults that the run before this one left.
    """

    def __init__(self, loop: VirtualLoop, pins: Pins | GpiodFactory, panel: LampsGpio, *standing: str) -> None:
        self.loop, self.pins, self.panel = loop, pins, panel
        self.events: list[Event] = []
        self.standing = set(standing)

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        assert event.at == self.loop.now()
        assert isinstance(event, FaultSeen | FaultGone)
        if (event.part in self.standing) is isinstance(event, FaultSeen):
            return asyncio.get_running_loop().create_future()
        self.standing ^= {event.part}
        self.events.append(event)
        return asyncio.get_running_loop().create_future()

    def show(self, lamps: Lamps) -> None:
        self.panel.show(view(lamps))

    @property
    def burning(self) -> set[int]:
        return {pin for pin in (*BAR, AMBER, RED, CALL, BUZZER) if self.pins.level(pin)}

    async def until(self, seconds: float) -> None:
        """Goes on to that moment after the start, and lets what is due then happen."""
        await asyncio.sleep(max(0.0, (START_NS - self.loop.now()) / 1e9 + seconds) + 1e-4)


@asynccontextmanager
async def at_work(loop: VirtualLoop, wired: Wired, factory: MakePins, *standing: str) -> AsyncIterator[Table]:
    pins = factory(loop.now)
    panel = LampsGpio(pins, now=loop.now, **wired)
    table = Table(loop, pins, panel, *standing)
    task = asyncio.create_task(panel.run(table.submit))
    await panel.tried.wait()
    try:
        yield table
        assert not task.done(), "a source reports until it is cancelled"
    finally:
        task.cancel()
        await asyncio.wait({task})


def play(
    main: Callable[[Table], Coroutine[Any, Any, None]],
    wired: Wired = WIRED,
    factory: MakePins = Pins,
    standing: tuple[str, ...] = (),
) -> Table:
    async def whole(loop: VirtualLoop) -> Table:
        async with at_work(loop, wired, factory, *standing) as table:
            await main(table)
        return table

    return virtual_time.run(whole)


def near(told: list[tuple[int, bool]], wanted: list[tuple[float, bool]]) -> None:
    """Each change at its moment, seconds after the start: never before, and within a millisecond."""
    assert [level for _, level in told] == [level for _, level in wanted]
    for (at, _), (seconds, _) in zip(told, wanted, strict=True):
        assert 0 <= at - START_NS - round(seconds * SECOND) < MS


# --- one betting time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1.0, 15.0, 20.0, 600.0])
@pytest.mark.parametrize("bar", [(5,), (5, 6), (5, 6, 13), (5, 6, 13, 19), tuple(range(2, 14))])
def test_the_bar_goes_out_lamp_by_lamp(bar: tuple[int, ...], seconds: float) -> None:
    async def main(table: Table) -> None:
        table.show(betting(seconds))
        await table.until(seconds)

    pins = play(main, {"timer": bar, "red": RED}).pins
    for index, pin in enumerate(bar):
        near(pins.of(pin), [(0, True), (seconds * (index + 1) / len(bar), False)])


def test_twenty_seconds_of_betting_from_start_to_the_first_card() -> None:
    """C1, and bug report 13: the whole round, write by write. The deadline needs no word from the disk."""

    async def main(table: Table) -> None:
        table.show(betting(20.0))
        await table.until(20.4)  # the disk is slow: the closing is durable 0.4 s after it sounded
        table.show(Lamps(Pattern.NO_MORE, START_NS, START_NS + 20 * SECOND, False, "1/1/1"))
        await table.until(22.6)
        table.show(OFF)  # the first card
        await table.until(30)

    pins = play(main).pins
    for index, pin in enumerate(BAR):
        near(pins.of(pin), [(0, True), (5.0 * (index + 1), False)])
    near(pins.of(AMBER), [(15, True), (20, False)])
    near(pins.of(BUZZER), [(20, True), (21, False)])
    near(pins.of(RED), [(20 + 0.25 * flash, flash % 2 == 0) for flash in range(11)] + [(22.6001, False)])
    assert pins.of(CALL) == []


def test_twenty_seconds_cost_what_the_page_says() -> None:
    """Bug reports 13 and 14: a stated number of pin writes and wake-ups, those of the flash beside them."""
    page = " ".join((ROOT / "docs" / "devices" / "lamps.md").read_text(encoding="utf-8").split())
    found = re.search(
        r"20 seconds with four timer lamps, amber lamps and the buzzer is (\d+) writes to pins and at most (\d+) "
        r"wake-ups of the program; while the red lamps flash, (\d+) writes and at most (\d+) wake-ups a second",
        page,
    )
    assert found is not None
    writes, wakes, flash_writes, flash_wakes = map(int, found.groups())
    silent: Wired = {name: pin for name, pin in WIRED.items() if name != "red"}

    async def betting_time(table: Table) -> None:
        made, before = len(table.pins.writes), table.loop.wakes
        table.show(betting(20.0))
        await table.until(20)
        table.show(OFF)  # the first card, at once
        await table.until(30)  # the sound is over; two wake-ups are this test's own
        assert len(table.pins.writes) - made == writes == 2 * len(BAR) + 4
        assert 0 < table.loop.wakes - before - 2 <= wakes

    async def flash(table: Table) -> None:
        table.show(Lamps(Pattern.NO_MORE, START_NS - SECOND, START_NS))
        await table.until(1.1)
        made, before = len(table.pins.writes), table.loop.wakes
        await table.until(11.1)
        assert len(table.pins.writes) - made == 10 * flash_writes
        assert 0 < table.loop.wakes - before - 1 <= 10 * flash_wakes

    play(betting_time, silent)
    play(flash)


def test_at_rest_nothing_wakes() -> None:
    async def main(table: Table) -> None:
        table.show(Lamps(Pattern.HELD, call=True))
        await table.until(1)
        before, writes = table.loop.wakes, len(table.pins.writes)
        await table.until(3_600)
        assert (table.loop.wakes - before, len(table.pins.writes) - writes) == (1, 0)  # the test's own sleep
        for _ in range(100):
            table.show(Lamps(Pattern.HELD, call=True))  # levels: repeated freely, written once
            await asyncio.sleep(0)
        assert len(table.pins.writes) == writes

    play(main)


def test_mock_histories_are_monotone_in_a_betting_time() -> None:
    """Bug report 13: on once, off once, no flicker; in gpiozero's own histories."""

    async def main(table: Table) -> None:
        table.show(betting(20.0))
        for moment in range(200):
            await table.until(moment / 10)
            table.show(betting(20.0, call=moment % 7 == 0))  # whatever else happens at the table meanwhile
        await table.until(20.0)
        for pin in (*BAR, AMBER):
            assert [state.state for state in table.pins.pin(pin).states] == [False, True, False]

    play(main)


# --- the deadline -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stall_at", [4.9, 9.8, 14.99, 19.7, 19.9, 19.999, 20.1, 20.9])
def test_a_stalled_loop_still_ends_with_the_right_lamps(stall_at: float) -> None:
    """Bug report 13: 300 ms in which nothing runs; right after it the picture is that moment's."""

    async def main(table: Table) -> None:
        table.show(betting(20.0))
        await table.until(stall_at)
        table.loop.stall(300 * MS)
        await asyncio.sleep(0.0001)
        at = table.loop.now()
        seconds = (at - START_NS) / SECOND
        bar = {pin for index, pin in enumerate(BAR) if seconds < 5 * (index + 1)}
        amber = {AMBER} if 15 <= seconds < 20 else set()
        red = {RED} if seconds >= 20 and (seconds - 20) % 0.5 < 0.25 else set()
        sounds = table.pins.of(BUZZER)
        assert table.burning - {BUZZER} == bar | amber | red
        assert bool(sounds) == (seconds >= 20)
        await table.until(25.05)
        assert table.burning == {RED}
        (on, _), (off, _) = table.pins.of(BUZZER)
        assert START_NS + 20 * SECOND <= on <= START_NS + 20 * SECOND + 301 * MS
        assert abs(off - on - SOUND_NS) < MS or stall_at == 20.9  # the stall may fall on its end

    play(main)


def test_a_closing_that_a_stall_hid_is_heard_when_the_card_comes() -> None:
    """Deadline, closing and first card within one stall: the next View is of the deal, the sound is due even so."""

    async def main(table: Table) -> None:
        table.show(betting(20.0))
        await table.until(19.9)
        table.loop.stall(300 * MS)
        table.show(OFF)
        await asyncio.sleep(0.01)
        assert table.burning == {BUZZER}
        await asyncio.sleep(1.0)
        assert table.burning == set()

    play(main)


def test_an_early_close_sounds_and_flashes_at_once() -> None:
    async def main(table: Table) -> None:
        table.show(betting(20.0))
        await table.until(7.13)
        table.show(Lamps(Pattern.NO_MORE, START_NS, START_NS + 20 * SECOND, False, "1/1/1"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert table.burning == {RED, BUZZER}
        await table.until(7.13 + 0.26)
        assert table.burning == {BUZZER}
        await table.until(20.1)  # the deadline that was
        assert BUZZER not in table.burning
        assert len(table.pins.of(BUZZER)) == 2

    play(main)


def test_a_betting_that_is_cancelled_is_dark_and_silent() -> None:
    async def main(table: Table) -> None:
        table.show(betting(20.0))
        await table.until(19.9)
        table.show(OFF)
        await table.until(40)
        assert table.burning == set()
        assert table.pins.of(BUZZER) == table.pins.of(RED) == []

    play(main)


def test_after_a_restart_in_closing_it_flashes_and_is_silent() -> None:
    """The sound belongs to the run of the program before: core names no closing (`Betting.heard`)."""

    async def main(table: Table) -> None:
        table.show(Lamps(Pattern.NO_MORE, START_NS - 30 * SECOND, START_NS - 10 * SECOND))
        await table.until(5.1)
        assert table.burning == {RED}
        assert table.pins.of(BUZZER) == []

    play(main)


def test_after_a_restart_in_betting_it_sounds_at_the_same_deadline() -> None:
    async def main(table: Table) -> None:
        table.show(betting(20.0, opened_at=START_NS - 12 * SECOND))
        await asyncio.sleep(0.001)
        assert table.burning == {*BAR[2:]}
        await table.until(9.5)
        near(table.pins.of(BUZZER), [(8, True), (9, False)])

    play(main)


names = st.sampled_from(["", "1/1/1", "1/2/1", "1/2/2", "2/1/1"])
shown = st.tuples(st.sampled_from(list(Pattern)), names, st.integers(0, 5), st.integers(0, 6))


@given(st.lists(shown, max_size=12))
def test_a_name_sounds_once_and_never_again(script: list[tuple[Pattern, str, int, int]]) -> None:
    """C1, "each name sounds once": whatever Views come in whatever order; a closing that came due did sound."""
    sounds: list[str] = []

    async def main(table: Table) -> None:
        due: list[str] = []
        for pattern, buzz, lasts, wait in script:
            now = table.loop.now()
            lamps = Lamps(pattern, now, now + lasts * SECOND, False, buzz)
            table.show(lamps)
            await asyncio.sleep(wait + 0.001)
            closed = pattern is Pattern.NO_MORE or (pattern is Pattern.BETTING and wait >= lasts)
            if buzz and closed and buzz not in due:
                due.append(buzz)
        table.show(OFF)
        await asyncio.sleep(2)
        sounds.extend(due)

    table = play(main)
    assert [*table.panel._sounded] == sounds
    assert len(sounds) <= NAMES_MAX
    lasting = sum(off[0] - on[0] for on, off in zip(*[iter(table.pins.of(BUZZER))] * 2, strict=True))
    assert lasting <= len(sounds) * (SOUND_NS + MS)
    assert bool(lasting) == bool(sounds)


# --- the other patterns -------------------------------------------------------------------------------------


def seen(pattern: str, seconds: int = 8) -> str:
    """What an eye sees of the red lamps, 50 pictures a second."""
    from controller.adapters.lamps_gpio import _flash

    return "".join(".#"[_flash(FIGURES[pattern], at * 20 * MS)[0]] for at in range(50 * seconds))


def test_every_pattern_has_its_figure_and_no_two_look_alike() -> None:
    assert set(Pattern) == set(FIGURES)
    visible = {name: seen(name) for name in FIGURES if name not in (Pattern.OFF, Pattern.BETTING)}
    assert len(set(visible.values())) == len(visible) == 4
    assert all("#" in figure for figure in visible.values())
    assert "." not in seen(Pattern.HELD)
    assert seen(Pattern.NO_MORE, 1) in ("#" * 13 + "." * 12 + "#" * 13 + "." * 12)  # 2 Hz
    assert "#" not in seen(Pattern.OFF) + seen(Pattern.BETTING)


@pytest.mark.parametrize(
    ("pattern", "changes"),
    [
        (Pattern.HELD, [(0, True)]),
        (Pattern.OFFLINE, [(moment, moment % 2 == 0) for moment in range(7)]),
        (Pattern.NO_MORE, [(moment / 4, moment % 2 == 0) for moment in range(26)]),
        (Pattern.MANUAL, [(at + 2 * n, at in (0, 0.4)) for n in range(4) for at in (0, 0.2, 0.4, 0.6)][:15]),
        (Pattern.OFF, []),
    ],
)
def test_the_red_lamps_tell_what_stands(pattern: Pattern, changes: list[tuple[float, bool]]) -> None:
    async def main(table: Table) -> None:
        table.show(Lamps(pattern, closes_at=START_NS))
        await table.until(6.4)
        near(table.pins.of(RED), changes)
        assert table.burning <= {RED}
        table.show(OFF)
        await table.until(7)
        assert table.burning == set()

    play(main)


@pytest.mark.parametrize("pattern", list(Pattern))
def test_the_call_lamp_stands_beside_every_pattern(pattern: Pattern) -> None:
    async def main(table: Table) -> None:
        lamps = Lamps(pattern, START_NS, START_NS + 20 * SECOND)
        for called in (True, False, True):
            table.show(Lamps(pattern, lamps.opened_at, lamps.closes_at, called))
            await asyncio.sleep(0.3)
            assert table.panel.lit["call lamp"] is (CALL in table.burning) is called

    play(main)


@pytest.mark.parametrize("wired", [{"timer": BAR, "red": RED}, {"red": RED}, {"buzzer": BUZZER}, {"call": CALL}])
def test_what_is_not_wired_is_not_missed(wired: dict[str, Any]) -> None:
    async def main(table: Table) -> None:
        table.show(betting(2.0))
        await table.until(4)
        table.show(Lamps(Pattern.HELD, call=True))
        await table.until(5)
        assert table.events == []

    pins = play(main, wired).pins
    assert {pin for _, pin, _ in pins.writes} == {*wired.get("timer", ()), *(p for p in wired.values() if p != BAR)}


@pytest.mark.parametrize(("opened", "closes"), [(0, 0), (5, 5), (9, 3), (3, 9)])
@pytest.mark.parametrize("at", [0, 2, 4, 6, 12])
def test_no_times_are_too_odd_to_paint(opened: int, closes: int, at: int) -> None:
    picture = paint(Lamps(Pattern.BETTING, opened, closes), closes, at, 4)
    assert picture.red is (at >= closes)
    assert picture.out == 4 or at < closes
    assert picture.until is not None
    assert picture.until > at


# --- lost pins ----------------------------------------------------------------------------------------------


def told(events: list[Event]) -> list[str]:
    words: list[str] = []
    for event in events:
        assert isinstance(event, FaultSeen | FaultGone)
        words.append(f"{'seen' if isinstance(event, FaultSeen) else 'gone'} {event.code} {event.part}")
    return words


def test_a_pin_that_fails_is_one_fault_and_takes_no_other_with_it() -> None:
    async def main(table: Table) -> None:
        table.pins.broken = {BAR[2], BAR[3], AMBER}
        table.show(betting(20.0))
        await table.until(14)
        assert told(table.events) == ["seen lamps lamps"]
        assert isinstance(table.events[0], FaultSeen)
        assert "timer lamp 3 on GPIO13 fails ([Errno 19] No such device)" in table.events[0].text
        assert table.burning == set()
        near(table.pins.of(BAR[1]), [(0, True), (10, False)])
        table.pins.broken = set()
        await table.until(16.1)
        assert table.burning == {BAR[3], AMBER}  # what should burn by now, does again
        await table.until(18.2)
        assert told(table.events) == ["seen lamps lamps", "gone lamps lamps"]
        await table.until(21.5)
        assert table.pins.of(BUZZER)

    play(main)


def test_pins_that_are_not_there_at_the_start_are_tried_again_and_not_too_often() -> None:
    async def main(table: Table) -> None:
        table.pins.tried.clear()
        for tenth in range(6_000):  # however often something else is shown
            table.show(Lamps(Pattern.OFF, call=tenth % 2 == 0))
            await table.until(tenth / 10)
        await table.until(600)
        assert told(table.events) == ["seen lamps lamps", "seen buzzer buzzer"]
        tries = [at for at, pin in table.pins.tried if pin == RED]
        assert 600 / 2 - 5 <= len(tries) <= 600 / 2 + 5
        table.pins.broken = set()
        table.show(Lamps(Pattern.HELD))
        await table.until(602.1)
        assert table.burning == {RED}
        await table.until(605)
        assert told(table.events)[2:] == ["gone lamps lamps", "gone buzzer buzzer"]

    def broken(now: Callable[[], int]) -> Pins:
        pins = Pins(now)
        pins.broken = {RED, BUZZER}
        return pins

    play(main, factory=broken)


def test_a_pin_that_was_well_for_a_while_is_tried_again_soon() -> None:
    async def main(table: Table) -> None:
        for start in (0, 100):
            await table.until(start)
            table.pins.broken = {RED}
            table.show(Lamps(Pattern.HELD))
            await table.until(start + 0.1)
            if start:
                table.pins.broken = set()
                await table.until(start + 0.3)
                assert table.burning == {RED}
            await table.until(start + 30)
            table.pins.broken = set()
            table.show(OFF)
            await table.until(start + 50)
        assert told(table.events) == ["seen lamps lamps", "gone lamps lamps"] * 2

    play(main)


def test_a_pin_that_comes_and_goes_is_one_fault() -> None:
    async def main(table: Table) -> None:
        table.show(Lamps(Pattern.NO_MORE, closes_at=START_NS))
        for half in range(120):
            table.pins.broken = {RED} if half % 2 else set()
            await table.until(half / 2)
        assert told(table.events) == ["seen lamps lamps"]
        table.pins.broken = set()
        await table.until(65)
        assert told(table.events) == ["seen lamps lamps", "gone lamps lamps"]

    play(main)


def test_a_lamp_that_could_not_be_made_does_not_put_out_its_successor() -> None:
    """gpiozero's devices close their pin when they are collected; the pin is the same for the next device."""

    async def main(table: Table) -> None:
        table.show(Lamps(Pattern.HELD))
        await table.until(5)
        table.pins.broken = set()
        await table.until(8)
        assert table.burning == {RED}
        gc.collect()
        assert table.burning == {RED}
        assert table.pins.pin(RED).function == "output"

    def broken(now: Callable[[], int]) -> Pins:
        pins = Pins(now)
        pins.broken = {RED}
        return pins

    play(main, factory=broken)


def test_a_chip_that_goes_and_comes_back() -> None:
    """On chips in memory, under our own factory: all lamps are lost, said once each, and shown again."""
    machine = Machine(gpiochip0=Bank("gpiochip0", "pinctrl-bcm2711"))
    bank = machine.banks["/dev/gpiochip0"]

    async def main(table: Table) -> None:
        table.show(betting(20.0, call=True))
        await table.until(2)
        bank.gone = True
        await table.until(12)
        assert told(table.events) == ["seen lamps lamps"]
        bank.gone = False
        table.show(Lamps(Pattern.HELD, call=True))
        await table.until(20)
        assert told(table.events) == ["seen lamps lamps", "gone lamps lamps"]
        assert {pin for pin in range(28) if bank.lines[pin].level} == {RED, CALL}

    def gpiod(now: Callable[[], int]) -> GpiodFactory:
        return GpiodFactory(open_chip=machine.open, paths=machine.paths, now=now)

    play(main, factory=gpiod)


@pytest.mark.parametrize("wired", [WIRED, {"buzzer": BUZZER}, {"timer": BAR, "red": RED}])
def test_what_an_earlier_run_left_ends_with_pins_that_are_well(wired: Wired) -> None:
    """Also the fault of a part that is not wired any more."""

    async def main(table: Table) -> None:
        assert told(table.events) == ["gone lamps lamps", "gone buzzer buzzer"]

    play(main, wired, standing=("lamps", "buzzer"))


def test_what_an_earlier_run_left_stands_as_long_as_the_pin_is_lost() -> None:
    async def main(table: Table) -> None:
        assert told(table.events) == ["gone buzzer buzzer"]
        await table.until(10)
        assert table.standing == {"lamps"}
        table.pins.broken = set()
        await table.until(15)
        assert told(table.events) == ["gone buzzer buzzer", "gone lamps lamps"]

    def broken(now: Callable[[], int]) -> Pins:
        pins = Pins(now)
        pins.broken = {RED}
        return pins

    play(main, factory=broken, standing=("lamps", "buzzer"))


# --- the end, and what it is made of ------------------------------------------------------------------------


def test_all_is_off_before_any_pin_is_released() -> None:
    """G10: first all dark, then given back; also while the lamps flash and the buzzer sounds."""
    machine = Machine(gpiochip0=Bank("gpiochip0", "pinctrl-rp1"))
    log = machine.banks["/dev/gpiochip0"].log

    async def main(table: Table) -> None:
        table.show(betting(0.5, call=True))
        await table.until(0.6)
        log.clear()

    def gpiod(now: Callable[[], int]) -> GpiodFactory:
        return GpiodFactory(open_chip=machine.open, paths=machine.paths, now=now)

    play(main, factory=gpiod)
    releases = [index for index, (_, what) in enumerate(log) if what == "released"]
    assert len(releases) == len(BAR) + 4
    assert {pin for pin, what in log[: releases[0]] if what is False} >= {RED, CALL, BUZZER}
    assert not any(what is True for _, what in log)


def test_a_mock_pin_is_off_when_it_is_closed() -> None:
    async def main(table: Table) -> None:
        table.show(betting(20.0, call=True))
        await table.until(1)
        assert table.burning == {*BAR, CALL}

    assert sorted(play(main).pins.closed) == sorted((pin, False) for pin in (*BAR, AMBER, RED, CALL, BUZZER))


def test_show_neither_raises_nor_touches_a_pin() -> None:
    """Before the task runs, while its pins fail, and after its end."""

    async def whole(loop: VirtualLoop) -> None:
        pins = Pins(loop.now)
        panel = LampsGpio(pins, now=loop.now, **WIRED)
        panel.show(view(betting(20.0)))
        assert pins.tried == []
        pins.broken = {*BAR}
        table = Table(loop, pins, panel)
        task = asyncio.create_task(panel.run(table.submit))
        await asyncio.sleep(0.1)
        tried = len(pins.tried)
        panel.show(view(Lamps(Pattern.HELD)))
        assert len(pins.tried) == tried
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pins.level(RED)
        task.cancel()
        await asyncio.wait({task})
        panel.show(view(OFF))

    virtual_time.run(whole)


def test_there_is_no_thread_and_no_default_factory() -> None:
    """Bug report 1: no device was made without its factory. C4: `blink` would have started a thread a lamp."""
    threads: list[list[threading.Thread]] = []

    async def main(table: Table) -> None:
        for pattern in Pattern:
            table.show(Lamps(pattern, START_NS, START_NS + SECOND, True, "1/1/1"))
            await asyncio.sleep(0.6)
            threads.append(threading.enumerate())

    before = threading.enumerate()
    play(main)
    assert threads == [before] * len(Pattern)
    assert gpiozero.Device.pin_factory is None


# --- the technician's test ----------------------------------------------------------------------------------

STEP, ALL = 0.3, 1.0  # seconds


def test_a_test_shows_each_lamp_alone_then_all_and_leaves_the_buzzer_alone() -> None:
    async def main(table: Table) -> None:
        lamps = len(WIRED) + len(BAR) - 2
        assert table.panel.test("lamps") == round(1000 * (lamps * STEP + ALL))
        for index, pin in enumerate((*BAR, AMBER, RED, CALL)):
            await table.until(STEP * index + 0.1)
            assert table.burning == {pin}
        await table.until(lamps * STEP + 0.1)
        assert table.burning == {*BAR, AMBER, RED, CALL}
        await table.until(lamps * STEP + ALL)
        assert table.burning == set()
        before = table.loop.wakes
        await table.until(60)
        assert table.loop.wakes - before == 1, "a test that is over wakes nobody: the one is ours"

    assert play(main).pins.of(BUZZER) == []


def test_the_buzzers_test_leaves_the_lamps_alone() -> None:
    async def main(table: Table) -> None:
        table.show(Lamps(Pattern.HELD))
        table.panel.test("buzzer")
        await table.until(0.1)
        assert table.burning == {RED, BUZZER}
        await table.until(10)
        assert table.burning == {RED}

    near(play(main).pins.of(BUZZER), [(0, True), (STEP + ALL, False)])


def test_a_repeated_test_begins_anew_and_is_bounded() -> None:
    async def main(table: Table) -> None:
        for _ in range(5):
            table.panel.test("buzzer")
        await table.until(STEP + ALL)
        assert table.burning == set()

    play(main)


@pytest.mark.parametrize(
    ("shown", "burning"),
    [
        (view(betting(20.0)), set(BAR)),
        (view(Lamps(Pattern.HELD)), {RED}),
        (view(Lamps(call=True)), {CALL}),
        (View(Phase.DEALING, Prompt(Text("x")), OFF), set()),
    ],
    ids=["betting", "held", "call", "a first card"],
)
def test_what_the_table_says_ends_a_test(shown: View, burning: set[int]) -> None:
    """No test may stand in the way of a signal, however it began."""

    async def main(table: Table) -> None:
        table.show(OFF)
        table.panel.test("lamps")
        table.panel.show(view(OFF))  # nothing new: a receipt came
        await table.until(0.1)
        assert table.burning == {BAR[0]}
        table.panel.show(shown)
        await table.until(0.11)
        assert table.burning == burning

    play(main)


def test_diag_tells_each_pin_and_what_is_wrong_with_it() -> None:
    async def main(table: Table) -> None:
        assert isinstance(table.pins, Pins)
        table.pins.broken.add(RED)
        table.show(Lamps(Pattern.HELD, call=True))
        await table.until(0.1)
        told = {pin["name"]: pin for pin in table.panel.diag("lamps")["pins"]}
        assert list(told) == [*(f"timer lamp {index}" for index in range(1, 5)), "amber lamp", "red lamp", "call lamp"]
        assert told["call lamp"] == {"name": "call lamp", "pin": CALL, "lit": True, "trouble": ""}
        assert told["amber lamp"]["lit"] is False
        assert told["red lamp"]["lit"] is None
        assert told["red lamp"]["trouble"].startswith(f"red lamp on GPIO{RED} fails")
        assert [pin["name"] for pin in table.panel.diag("buzzer")["pins"]] == ["buzzer"]

    play(main)
