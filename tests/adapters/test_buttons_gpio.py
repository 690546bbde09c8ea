"""The dealer's buttons on mock pins and on chips in memory, in virtual time: presses, holds, faults (I46, I47).

Bug reports 1, 4, 7, 11, 12, 14; libraries.md G6, G7, G8, C1, C2, C4.
"""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import gpiozero
import pytest
from gpiod.line import Bias
from gpiozero.pins.mock import MockFactory
from hypothesis import given
from hypothesis import strategies as st

from controller.adapters.buttons_gpio import EDGES_MAX, ButtonsGpio
from controller.adapters.pins_gpiod import GpiodFactory
from controller.core.events import (
    CallPressed,
    ConfirmHeld,
    ConfirmPressed,
    Event,
    FaultGone,
    FaultSeen,
    KeyTurned,
    StartPressed,
)
from controller.ports import Outcome
from tests import virtual_time
from tests.gpio_chips import Bank, Machine
from tests.virtual_time import START_NS, VirtualLoop

MS = 1_000_000
PINS = {"start": 16, "confirm": 20, "call": 21, "key": 4}
DEADLINE_S = 30.0
Now = Callable[[], int]


class Mock:
    """Contacts on gpiozero's mock: its edges come at once, in the thread of whoever drives the pin."""

    def __init__(self, now: Now) -> None:
        self.factory = MockFactory()
        self.factory.ticks_diff = lambda *_: 0.0  # it would tell how busy this machine is

    def put(self, name: str, *, closed: bool) -> None:
        pin = self.factory.pin(PINS[name])
        (pin.drive_low if closed else pin.drive_high)()


class Chip:
    """Contacts on a chip in memory, under our own factory: its edges have the kernel's stamps."""

    def __init__(self, now: Now) -> None:
        self.now = now
        self.machine = Machine(gpiochip0=Bank("gpiochip0", "pinctrl-bcm2711"))
        self.bank = self.machine.banks["/dev/gpiochip0"]
        self.factory = GpiodFactory(open_chip=self.machine.open, paths=self.machine.paths, now=now)

    def put(self, name: str, *, closed: bool, at: int | None = None, lose: bool = False) -> None:
        self.bank.drive(PINS[name], self.now() if at is None else at, level=False if closed else None, lose=lose)


class Table:
    """Buttons at work, and what they told: `start 5` is a StartPressed 5 ms after the start.

    The end of a fault that does not stand is no news, as to the table; `standing` are those that an earlier run left.
    """

    def __init__(self, loop: VirtualLoop, wires: Mock | Chip, buttons: ButtonsGpio, *standing: str) -> None:
        self.loop, self.wires, self.buttons = loop, wires, buttons
        self.standing = set(standing)
        self.events: list[Event] = []
        self.turns: list[tuple[int, bool]] = []

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        assert event.at <= self.loop.now()
        if isinstance(event, FaultSeen | FaultGone):
            if (event.part in self.standing) is isinstance(event, FaultSeen):
                return asyncio.get_running_loop().create_future()
            self.standing ^= {event.part}
        if isinstance(event, KeyTurned):
            self.turns.append((event.at, event.turned))
            return asyncio.get_running_loop().create_future()
        self.events.append(event)
        return asyncio.get_running_loop().create_future()

    @property
    def chip(self) -> Chip:
        assert isinstance(self.wires, Chip)
        return self.wires

    @property
    def told(self) -> list[str]:
        return [said(event) for event in self.events]

    async def at(self, ms: float) -> None:
        await asyncio.sleep(max(0.0, (START_NS - self.loop.now()) / 1e9 + ms / 1e3))


def said(event: Event) -> str:
    words = {StartPressed: "start", ConfirmPressed: "confirm", ConfirmHeld: "held", CallPressed: "call"}
    if isinstance(event, FaultSeen | FaultGone):
        assert event.code == "button"
        return f"{'fault' if isinstance(event, FaultSeen) else 'gone'} {event.part}"
    return f"{words[type(event)]} {round((event.at - START_NS) / MS)}"


Make = type[Mock] | type[Chip]
Setup = Callable[[Mock | Chip], None]


@asynccontextmanager
async def at_work(
    loop: VirtualLoop, make: Make, before: Setup | None, pins: dict[str, int], *standing: str
) -> AsyncIterator[Table]:
    wires = make(loop.now)
    if before is not None:
        before(wires)
    buttons = ButtonsGpio(wires.factory, **pins, now=loop.now)
    table = Table(loop, wires, buttons, *standing)
    task = asyncio.create_task(buttons.run(table.submit))
    await buttons.tried.wait()
    try:
        yield table
        assert not task.done(), "a source reports until it is cancelled"
    finally:
        task.cancel()
        await asyncio.wait({task})


def play(
    main: Callable[[Table], Coroutine[None, None, None]],
    make: Make = Chip,
    before: Setup | None = None,
    pins: dict[str, int] = PINS,
    standing: tuple[str, ...] = (),
) -> Table:
    async def whole(loop: VirtualLoop) -> Table:
        async with at_work(loop, make, before, pins, *standing) as table:
            await main(table)
        return table

    return virtual_time.run(whole)


async def acted(table: Table, script: str) -> None:
    """`100 start+ 180 start-`: START closes 100 ms after the start and opens at 180."""
    words = script.split()
    for moment, act in zip(words[::2], words[1::2], strict=True):
        await table.at(float(moment))
        table.wires.put(act[:-1], closed=act[-1] == "+")
    await asyncio.sleep(3)


SCRIPTS = (  # what hands did; what was told
    ("100 start+ 180 start-", "start 100"),
    ("100 call+ 180 call-", "call 100"),
    ("100 confirm+ 180 confirm-", "confirm 100"),
    ("100 confirm+ 2200 confirm-", "held 2100"),  # I47: the release is no press
    ("100 confirm+ 2099 confirm-", "confirm 100"),
    ("100 start+ 5100 start- 6000 call+ 12000 call-", "start 100, call 6000"),  # a hold is CONFIRM's alone
    ("100 start+ 102 start- 105 start+ 200 start- 203 start+ 206 start-", "start 100"),
    ("100 confirm+ 103 confirm- 106 confirm+ 300 confirm- 301 confirm+ 304 confirm-", "confirm 100"),  # bug report 7
    ("100 call+ 110 call-", ""),
    ("100 start+ 100 confirm+ 100 call+ 200 start- 200 confirm- 200 call-", "start 100, call 100, confirm 100"),
    ("100 confirm+ 150 start+ 200 start- 300 confirm-", "start 150, confirm 100"),  # told when it is known
    ("100 confirm+ 150 call+ 200 call- 2500 confirm- 2600 start+ 2700 start-", "call 150, held 2100, start 2600"),
    ("100 confirm+ 200 confirm- 300 confirm+ 400 confirm-", "confirm 100, confirm 300"),
    ("100 start+ 200 start- 240 start+ 340 start-", "start 100, start 240"),
)


@pytest.mark.parametrize("make", [Mock, Chip])
@pytest.mark.parametrize(("script", "told"), SCRIPTS)
def test_what_hands_do_is_told_once(script: str, told: str, make: Make) -> None:
    """I46, I47."""
    assert ", ".join(play(lambda table: acted(table, script), make).told) == told


def test_a_press_has_the_time_of_its_first_edge_to_the_nanosecond() -> None:
    """G7: the stamp of the kernel, however late the loop reads it."""

    async def main(table: Table) -> None:
        at = table.loop.now() + 123_456_789
        table.loop.stall(400 * MS)
        table.chip.put("start", closed=True, at=at)
        table.chip.put("start", closed=False, at=at + 3 * MS)
        table.chip.put("start", closed=True, at=at + 7 * MS)
        await asyncio.sleep(0.1)
        assert [event.at for event in table.events] == [at]

    play(main)


def test_what_a_stalled_loop_reads_late_is_judged_by_its_stamps() -> None:
    """A tap that was over within a stall of 3 s is a tap; a hold within it is a hold."""

    async def main(table: Table) -> None:
        at = table.loop.now()
        table.loop.stall(3_000 * MS)
        table.chip.put("confirm", closed=True, at=at)
        table.chip.put("confirm", closed=False, at=at + 150 * MS)
        await asyncio.sleep(0.1)
        assert table.told == ["confirm 0"]
        table.chip.put("confirm", closed=True, at=at + 500 * MS)
        table.chip.put("confirm", closed=False, at=at + 2_600 * MS)
        await asyncio.sleep(0.1)
        assert table.told == ["confirm 0", "held 2500"]

    play(main)


def test_presses_read_together_are_told_in_the_order_in_which_they_were_made() -> None:
    async def main(table: Table) -> None:
        at = table.loop.now()
        table.loop.stall(100 * MS)
        table.chip.put("call", closed=True, at=at + 10 * MS)
        table.chip.put("start", closed=True, at=at + 15 * MS)
        await asyncio.sleep(0.1)
        assert table.told == ["call 10", "start 15"]

    play(main)


def test_a_hold_is_told_while_it_is_held() -> None:
    async def main(table: Table) -> None:
        table.wires.put("confirm", closed=True)
        await table.at(1_999)
        assert table.told == []
        await table.at(2_001)
        assert table.told == ["held 2000"]
        assert table.buttons.pressed == {"start": False, "confirm": True, "call": False, "key": False}
        table.wires.put("confirm", closed=False)
        await table.at(3_000)
        assert table.told == ["held 2000"]
        assert table.buttons.pressed["confirm"] is False

    play(main)


acts = st.lists(
    st.tuples(st.sampled_from(["start", "confirm", "call"]), st.integers(0, 4_000), st.booleans()), max_size=30
)


@given(acts)
def test_no_button_changes_what_another_tells(script: list[tuple[str, int, bool]]) -> None:
    """I46: any edges of three buttons, mixed; each tells what it tells alone."""

    def told(names: tuple[str, ...]) -> list[str]:
        async def main(table: Table) -> None:
            for name, at, closed in sorted(script, key=lambda act: act[1]):
                if name in names:
                    await table.at(at)
                    table.wires.put(name, closed=closed)
            await table.at(7_000)

        return play(main).told

    together = told(("start", "confirm", "call"))
    alone = [told((name,)) for name in ("start", "confirm", "call")]
    assert sorted(together) == sorted(word for words in alone for word in words)
    for words in alone:
        assert [word for word in together if word.split()[0] in {w.split()[0] for w in words}] == words


# --- the key switch -----------------------------------------------------------------------------------------


def test_the_key_switch_tells_where_it_stands_and_each_turn() -> None:
    async def main(table: Table) -> None:
        assert table.turns == [(START_NS, False)]
        await table.at(100)
        table.wires.put("key", closed=True)
        await table.at(90_000)  # a key may stay turned: it is not stuck
        table.wires.put("key", closed=False)
        await table.at(91_000)
        assert [(round((at - START_NS) / MS), turned) for at, turned in table.turns[1:]] == [
            (100, True),
            (90_000, False),
        ]
        assert table.events == []

    play(main)


def test_a_key_that_is_turned_at_the_start_is_turned() -> None:
    async def main(table: Table) -> None:
        await table.at(100)
        table.wires.put("key", closed=False)
        await table.at(200)
        assert [turned for _, turned in table.turns] == [True, False]

    play(main, before=lambda wires: wires.put("key", closed=True))


def test_a_switch_that_is_not_wired_is_not_turned() -> None:
    """Whatever an earlier run with a switch has seen."""

    async def main(table: Table) -> None:
        await table.at(5_000)
        assert table.turns == [(START_NS, False)]

    play(main, pins={"start": 16})


# --- faults -------------------------------------------------------------------------------------------------


def test_a_stuck_button_is_a_fault_until_it_is_free() -> None:
    async def main(table: Table) -> None:
        table.wires.put("start", closed=True)
        await table.at(29_990)
        assert table.told == ["start 0"]
        await table.at(31_010)
        assert table.told == ["start 0", "fault start"]
        fault = table.events[-1]
        assert isinstance(fault, FaultSeen)
        assert "button start on GPIO16 has been closed or chattering for 30 s: free or replace it" in fault.text
        await table.at(300_000)
        table.wires.put("call", closed=True)  # the others still work
        await table.at(300_100)
        table.wires.put("call", closed=False)
        table.wires.put("start", closed=False)
        await table.at(302_000)
        assert table.told == ["start 0", "fault start", "call 300000", "gone start"]
        table.wires.put("start", closed=True)
        await table.at(302_100)
        assert table.told[4:] == ["start 302000"]

    play(main)


def test_a_button_that_is_down_at_the_start_is_not_pressed_and_is_found_out() -> None:
    async def main(table: Table) -> None:
        await table.at(31_100)
        assert table.told == ["fault confirm"]
        table.wires.put("confirm", closed=False)
        await table.at(33_000)
        assert table.told == ["fault confirm", "gone confirm"]

    play(main, before=lambda wires: wires.put("confirm", closed=True))


@pytest.mark.parametrize("pins", [PINS, {"start": 16}], ids=["all", "one"])
def test_what_an_earlier_run_left_ends_with_buttons_that_are_well(pins: dict[str, int]) -> None:
    """Also the fault of a button that is not wired any more."""

    async def main(table: Table) -> None:
        assert sorted(table.told) == sorted(f"gone {name}" for name in PINS)

    play(main, pins=pins, standing=tuple(PINS))


def test_what_an_earlier_run_left_stands_until_the_button_is_free() -> None:
    """A button that is down at the start may be stuck still: its fault neither ends nor comes twice."""

    async def main(table: Table) -> None:
        assert sorted(table.told) == ["gone call", "gone key", "gone start"]
        await table.at(40_000)
        assert table.standing == {"confirm"}
        table.wires.put("confirm", closed=False)
        await table.at(42_000)
        assert table.told[3:] == ["gone confirm"]

    def before(wires: Mock | Chip) -> None:
        wires.put("confirm", closed=True)
        wires.put("key", closed=True)  # a key may stay turned

    play(main, before=before, standing=tuple(PINS))


def test_a_chattering_contact_is_a_fault_and_no_press() -> None:
    async def main(table: Table) -> None:
        for moment in range(0, 32_000, 10):
            await table.at(moment)
            table.wires.put("call", closed=moment % 20 == 0)
        assert table.told == ["fault call"]
        await table.at(34_000)
        assert table.told == ["fault call", "gone call"]

    play(main)


def test_a_pin_that_another_program_has_is_that_buttons_fault_alone() -> None:
    """Bug report 9: it says who, and takes the pin when it is free."""

    def before(wires: Mock | Chip) -> None:
        assert isinstance(wires, Chip)
        wires.bank.lines[PINS["call"]].holder = "gpio-fan"

    async def main(table: Table) -> None:
        assert table.told == ["fault call"]
        fault = table.events[0]
        assert isinstance(fault, FaultSeen)
        assert "GPIO21 (pin 40 of the header J8) is held by gpio-fan" in fault.text
        table.wires.put("start", closed=True)
        await table.at(100)
        assert table.told == ["fault call", "start 0"]
        assert "call" not in table.buttons.pressed
        table.chip.bank.lines[PINS["call"]].holder = ""
        await table.at(2_000)
        assert table.told[2:] == ["gone call"]
        table.wires.put("call", closed=True)
        await table.at(2_100)
        assert table.told[3:] == ["call 2000"]

    play(main, before=before)


def test_a_chip_that_goes_and_comes_back_invents_no_press() -> None:
    async def main(table: Table) -> None:
        chip = table.chip
        table.wires.put("confirm", closed=True)
        await table.at(100)
        for pin in PINS.values():
            request = chip.bank.lines[pin].request
            assert request is not None
            request.hang_up()
        await table.at(5_000)
        assert table.told == ["fault start", "fault confirm", "fault call", "fault key"]
        chip.bank.lines[PINS["confirm"]].outside = None  # let go while nobody could see it
        chip.bank.lines[PINS["call"]].outside = False  # and this one pressed
        chip.bank.gone = False
        await table.at(7_000)
        assert table.told[4:] == ["gone start", "gone confirm", "gone call", "gone key"]
        table.wires.put("start", closed=True)
        await table.at(7_100)
        assert table.told[8:] == ["start 7000"]
        assert [turned for _, turned in table.turns] == [False, False]

    play(main)


def test_edges_of_a_pin_that_is_lost_before_they_are_judged_are_no_press_later() -> None:
    async def main(table: Table) -> None:
        await table.at(995)
        table.chip.put("start", closed=True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the edge is read
        table.chip.bank.gone = True
        table.loop.stall(50 * MS)  # and the look of 1 s comes before its judgement
        await table.at(1_100)
        assert table.told == ["fault start", "fault confirm", "fault call", "fault key"]
        table.chip.bank.lines[PINS["start"]].outside = None
        table.chip.bank.gone = False
        await table.at(4_000)
        assert sorted(table.told[4:]) == ["gone call", "gone confirm", "gone key", "gone start"]

    play(main)


def test_a_level_that_no_edge_tells_is_read_and_the_silence_is_a_fault() -> None:
    """Bug reports 4 and 12: edges that stop coming do not leave a dead button that looks healthy."""

    async def main(table: Table) -> None:
        await table.at(500)
        table.chip.put("confirm", closed=True, lose=True)
        await table.at(1_200)
        assert table.told == ["fault confirm"]
        fault = table.events[0]
        assert isinstance(fault, FaultSeen)
        assert "changes and tells no edge" in fault.text
        await table.at(1_500)
        table.chip.put("confirm", closed=False, lose=True)
        await table.at(3_500)
        assert table.told[1:] == ["confirm 1050"]  # found out at the look of 1 s and 50 ms later once more
        table.chip.put("confirm", closed=True)
        await table.at(4_500)
        table.chip.put("confirm", closed=False)
        await table.at(5_500)
        assert table.told[2:] == ["gone confirm", "confirm 3500"]

    play(main)


def test_a_level_that_changes_under_the_look_is_no_fault() -> None:
    """An edge may be on its way while the level is read: it has 50 ms to come."""

    async def main(table: Table) -> None:
        await table.at(999.9999)
        line = table.chip.bank.lines[PINS["start"]]
        line.outside = False  # the level is there at the look of 1 s
        await table.at(1_010)
        assert line.request is not None
        line.request.notice(START_NS + 1_000 * MS, level=False)  # and its edge after it
        await table.at(2_500)
        assert table.told == ["start 1000"]

    play(main)


def test_more_edges_than_are_kept_end_on_the_right_level() -> None:
    async def main(table: Table) -> None:
        for _ in range(EDGES_MAX):
            table.wires.put("start", closed=True)
            table.wires.put("start", closed=False)
        table.wires.put("start", closed=True)
        await table.at(100)
        assert [word.split()[0] for word in table.told] == ["start"]
        assert table.buttons.pressed["start"] is True

    play(main, Mock)


# --- threads, wake-ups, the end -----------------------------------------------------------------------------


def test_a_table_at_rest_wakes_once_a_second() -> None:
    """Bug report 14: twenty seconds without a hand are twenty looks; C4: gpiozero's Button would wake 40 times a s."""
    before = threading.enumerate()
    wakes: list[int] = []

    async def main(table: Table) -> None:
        assert threading.enumerate() == before
        start = table.loop.wakes
        await table.at(20_000)
        wakes.append(table.loop.wakes - start)
        await acted(table, "20100 confirm+ 20200 confirm-")
        wakes.append(table.loop.wakes - start - wakes[0])

    play(main)
    assert wakes[0] <= 20 + 1  # the test's own sleep
    assert wakes[1] <= 3 + 3 + 4  # looks; sleeps; two edges, each settled
    assert gpiozero.Device.pin_factory is None


def test_the_pins_keep_their_handlers() -> None:
    """G8: gpiozero refers to a handler weakly."""

    async def main(table: Table) -> None:
        gc.collect()
        await acted(table, "100 start+ 200 start-")
        assert table.told == ["start 100"]

    play(main)


def test_the_pins_are_pulled_up_while_it_runs_and_free_after() -> None:
    async def main(table: Table) -> None:
        assert {table.chip.bank.lines[pin].settings.bias for pin in PINS.values()} == {Bias.PULL_UP}

    bank = play(main).chip.bank
    assert [line.holder for line in bank.lines if line.holder] == []


def test_what_is_not_wired_is_not_missed() -> None:
    async def whole(loop: VirtualLoop) -> None:
        chip = Chip(loop.now)
        table = Table(loop, chip, ButtonsGpio(chip.factory, start=16, now=loop.now))
        task = asyncio.create_task(table.buttons.run(table.submit))
        await asyncio.sleep(60)
        assert (table.buttons.pressed, table.events) == ({"start": False}, [])
        task.cancel()
        await asyncio.wait({task})

    virtual_time.run(whole)


async def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < end, "what was waited for did not happen"
        await asyncio.sleep(0.001)


def test_an_edge_from_a_foreign_thread_wakes_the_loop() -> None:
    """Bug report 11, C1: RPi.GPIO tells its edges in a thread of its own; the loop may not sleep on to its next look.

    In real time; a machine that stood still for a second may hide it, so it has five tries.
    """

    async def whole() -> int:
        factory = MockFactory()
        buttons = ButtonsGpio(factory, start=16)
        pressed = asyncio.Event()

        def submit(event: Event) -> "asyncio.Future[Outcome]":
            pressed.set()
            return asyncio.get_running_loop().create_future()

        def press() -> None:
            time.sleep(0.05)  # by now the loop is idle, until its next look or this edge
            factory.pin(16).drive_low()

        task = asyncio.create_task(buttons.run(submit))
        await buttons.tried.wait()
        woken = 0
        for _ in range(5):
            look_at = buttons._look_at
            await until(lambda at=look_at: buttons._look_at != at)  # just after a look
            look_at = buttons._look_at
            pressed.clear()
            thread = threading.Thread(target=press)
            thread.start()
            await asyncio.wait_for(pressed.wait(), DEADLINE_S)
            thread.join()
            woken += buttons._look_at == look_at
            factory.pin(16).drive_high()
            await until(lambda: buttons.pressed == {"start": False})
            if woken:
                break
        task.cancel()
        await asyncio.wait({task})
        return woken

    assert asyncio.run(whole()) > 0


def test_an_edge_after_the_end_is_a_logged_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """C2: a thread that still tells an edge when the loop is closed gets no exception that would kill it."""
    caplog.set_level(logging.DEBUG, "controller.adapters.buttons_gpio")
    table = play(lambda table: acted(table, "100 start+ 200 start-"), Mock)
    (start, *_) = table.buttons._contacts
    start.changed(0, level=True)
    assert "came after the end" in caplog.text
    table.buttons._loop = table.loop  # the moment between the loop's end and ours
    assert table.loop.is_closed()
    start.changed(table.wires.factory.ticks(), level=True)
    assert "came after the loop's end" in caplog.text
    assert table.told == ["start 100"]


# --- what a technician sees ---------------------------------------------------------------------------------


def test_diag_tells_what_is_down_and_counts_what_was_too_short_to_see() -> None:
    async def main(table: Table) -> None:
        await acted(table, "100 start+ 200 confirm+ 300 confirm-")
        await table.at(500)
        told = {pin["name"]: pin for pin in table.buttons.diag()["pins"]}
        assert list(told) == list(PINS)
        assert told["start"] == {"name": "start", "pin": 16, "down": True, "edges": 1, "trouble": ""}
        assert (told["confirm"]["down"], told["confirm"]["edges"]) == (False, 2)
        await table.at(31_000)
        assert "start on GPIO16 has been closed" in table.buttons.diag()["pins"][0]["trouble"]

    play(main)


def test_diag_before_the_pins_are_open() -> None:
    buttons = ButtonsGpio(MockFactory(), start=16)
    assert [pin["down"] for pin in buttons.diag()["pins"]] == [None]
