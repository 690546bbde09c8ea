"""The driver of the dealer's panel against a model of the panels on their bus: every chip, an error at every transfer.

Bug reports 15, 18 and 20; libraries.md O1 to O7.
"""

import asyncio
import atexit
import errno
import logging
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise, product
from typing import Any

import pytest
from luma.oled import device
from PIL import Image

from controller import frame
from controller.adapters.display_oled import CHIPS, DisplayOled, I2c, Kernel, Oled, Output, Place, Spi, SpiDev
from controller.adapters.pins_gpiod import GpiodFactory, output
from controller.core.events import Event, FaultGone, FaultSeen
from controller.core.facts import Phase
from controller.core.view import View, view
from controller.panel import Panel21, Words
from controller.ports import Outcome
from tests.fake_panel import Failure, FakeBus, FakeI2c, FakePanel, FakeSpi, Heard
from tests.gpio_chips import Bank, Machine
from tests.panel_states import played

DEADLINE_S = 30.0  # how long a test waits for what must happen: generous, and reached only when it does not
WORDS, TABLE = Words("es"), "BAC-07"
CLOSED = view(played("", "").state)
FIRST, SECOND, THIRD, *_ = VIEWS = [
    view(played("", script).state) for script in ("load", "load start", "load start tick", "load start tick 2H")
]
ERRNOS = (errno.EREMOTEIO, errno.EIO, errno.ETIMEDOUT, errno.ENXIO, errno.EAGAIN)  # luma makes its own of the first two
TAKEN = (0, 1, 2, 40, 10_000)  # how much of a transfer the panel takes before it is broken off


def meant(shown: View) -> bytes:
    return frame.draw(WORDS.panel(shown, TABLE), idle=shown.phase is Phase.CLOSED)


def upside_down(picture: bytes) -> bytes:
    """Pixel by pixel."""
    lit = {(x, y) for x in range(128) for y in range(64) if picture[y // 8 * 128 + x] >> y % 8 & 1}
    column = [sum(((127 - x, 63 - y) in lit) << y for y in range(64)) for x in range(128)]
    return bytes(column[x] >> 8 * page & 0xFF for page in range(8) for x in range(128))


async def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < end, "what was waited for did not happen"
        await asyncio.sleep(0.001)


class Rig:
    """A display that runs, and what it reported."""

    def __init__(self, display: DisplayOled, panel: FakePanel) -> None:
        self.display, self.panel = display, panel
        self.events: list[Event] = []
        self.task = asyncio.get_running_loop().create_task(display.run(self.submit))

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        self.events.append(event)
        return asyncio.get_running_loop().create_future()

    @property
    def said(self) -> str:
        """`gone` first, which ends what the run before may have left, is not counted."""
        words = ["gone" if type(event) is FaultGone else "seen" for event in self.events]
        return " ".join(words[1:] if words[:1] == ["gone"] else words)

    async def show(self, shown: View, expected: bytes | None = None) -> None:
        """Returns when an eye sees it."""
        self.display.show(shown)
        await self.shows(meant(shown) if expected is None else expected)

    async def shows(self, expected: bytes) -> None:
        await until(lambda: self.panel.frame() == expected or self.task.done())
        assert not self.task.done(), self.task.exception()


@asynccontextmanager
async def running(oled: Oled, panel: FakePanel, *, refresh_s: float = 3_600.0) -> AsyncIterator[Rig]:
    rig = Rig(DisplayOled(oled, WORDS, TABLE, refresh_s=refresh_s, retry_s=(0.001, 0.004)), panel)
    try:
        yield rig
    finally:
        rig.task.cancel()
        await asyncio.wait([rig.task])
        assert not [thread for thread in threading.enumerate() if thread.name == "display"]


def on_i2c(chip: str = "ssd1309", *, blocks: bool = True) -> tuple[FakePanel, FakeBus, Oled]:
    panel = FakePanel(chip)
    bus = FakeBus(panel)
    return panel, bus, Oled(chip, FakeI2c(bus, blocks=blocks))


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


# --- the model: luma's own drawing is its oracle --------------------------------------------------------------


@pytest.mark.parametrize("chip", CHIPS)
def test_the_model_shows_what_luma_draws(chip: str) -> None:
    picture = Image.frombytes("1", (128, 64), bytes((17 * at) ** 3 % 251 for at in range(1024)))
    panel = FakePanel(chip)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Image.getdata (O7)
        oled = getattr(device, chip)(FakeI2c(FakeBus(panel)).open())
        oled.display(picture)
    seen = panel.frame()
    assert seen is not None
    for y, x in product(range(64), range(128)):
        assert bool(picture.getpixel((x, y))) == bool(seen[y // 8 * 128 + x] >> y % 8 & 1), (x, y)
    oled.hide()
    assert panel.frame() is None


def test_the_model_is_dark_after_a_moment_without_power_and_has_forgotten_its_picture() -> None:
    panel, _, oled = on_i2c("ssd1306")
    oled.write(frame.pattern)
    assert panel.frame() == frame.pattern()
    panel.lose_power()
    assert panel.frame() is None
    panel.on = panel.pumped = True
    assert panel.frame() != frame.pattern()


# --- what shows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("chip", "blocks", "turned"), [*product(CHIPS, (True, False), (False, True))])
def test_each_view_shows_and_a_table_that_stopped_shows_nothing(chip: str, blocks: bool, turned: bool) -> None:
    async def test() -> None:
        panel = FakePanel(chip)
        bus = FakeBus(panel)
        oled = Oled(chip, FakeI2c(bus, blocks=blocks), upside_down=turned)
        async with running(oled, panel) as rig:
            for shown in [CLOSED, *VIEWS, CLOSED]:
                await rig.show(shown, upside_down(meant(shown)) if turned else meant(shown))
            assert (rig.said, rig.display.errors, panel.darkened, bus.closed) == ("", 0, 0, 0)
        assert panel.frame() is None
        if blocks:  # luma closes the bus that it opened
            assert bus.closed == 1

    run(test())


def test_spi() -> None:
    async def test() -> None:
        panel = FakePanel("ssd1309")
        spi = FakeSpi(panel)
        oled = Oled("ssd1309", Spi(1, spi.dc, spi.reset, spi.output, spi.kernel))
        async with running(oled, panel, refresh_s=0.01) as rig:
            for shown in VIEWS:
                await rig.show(shown)
            assert (spi.opened, spi.settings) == ("/dev/spidev0.1", {SPI_WR_MODE: 0, SPI_WR_MAX_SPEED_HZ: 8_000_000})
            panel.lose_power()
            await rig.shows(meant(VIEWS[-1]))
        assert panel.frame() is None
        assert (spi.opened, spi.pins) == (None, {})

    run(test())


# Compiled from linux/spi/spidev.h: _IOW('k', 1, __u8) and _IOW('k', 4, __u32).
SPI_WR_MODE, SPI_WR_MAX_SPEED_HZ = 0x40016B01, 0x40046B04


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ESHUTDOWN])
def test_a_spi_bus_that_is_lost_frees_its_pins_and_is_told(number: int) -> None:
    """At the start, and in the middle."""

    async def test() -> None:
        panel = FakePanel("ssd1309")
        spi = FakeSpi(panel)
        spi.broken = number
        async with running(Oled("ssd1309", Spi(0, spi.dc, None, spi.output, spi.kernel)), panel) as rig:
            rig.display.show(FIRST)
            await until(lambda: rig.said == "seen")
            assert (spi.opened, spi.pins) == (None, {})
            spi.broken = 0
            await rig.shows(meant(FIRST))
            await until(lambda: rig.said == "seen gone")
            spi.broken = number
            rig.display.show(VIEWS[1])
            await until(lambda: rig.said == "seen gone seen")
            assert (spi.opened, spi.pins) == (None, {})
            spi.broken = 0
            await rig.shows(meant(VIEWS[1]))

    run(test())


def test_a_spi_pin_that_another_program_has_is_told_by_its_name() -> None:
    """On a chip in memory, under the factory of the table: the panel's pins are asked for like any other."""

    async def test() -> None:
        machine = Machine(gpiochip0=Bank("gpiochip0", "pinctrl-bcm2711"))
        bank = machine.banks["/dev/gpiochip0"]
        pins = GpiodFactory(open_chip=machine.open, paths=machine.paths)
        panel = FakePanel("ssd1309")
        spi = FakeSpi(panel)
        bank.lines[spi.reset].holder = "gpio-fan"

        def level(number: int) -> Output:
            """The chip's line, and the panel that hears it."""
            return Heard(output(pins, number), spi.output(number))

        async with running(Oled("ssd1309", Spi(0, spi.dc, spi.reset, level, spi.kernel)), panel) as rig:
            rig.display.show(FIRST)
            await until(lambda: rig.display.diag()["fault"])
            fault = rig.display.diag()["fault"]
            assert "GPIO25 (pin 22 of the header J8) is held by gpio-fan: stop that program" in fault
            assert not bank.lines[spi.dc].request, "what was opened is given back"
            bank.lines[spi.reset].holder = ""
            await rig.shows(meant(FIRST))
            assert bank.lines[spi.reset].level is True, "a panel in reset shows nothing"
        assert not bank.lines[spi.dc].request
        assert not bank.lines[spi.reset].request

    run(test())


def test_a_page_is_written_at_once_or_not_at_all() -> None:
    """What the kernel takes only in part would leave the panel's memory unknown."""
    panel = FakePanel("ssd1306")
    spi = FakeSpi(panel)
    part = spi.kernel._replace(write=lambda fd, data: spi.write(fd, data) // 2)
    oled = Oled("ssd1306", Spi(0, spi.dc, spi.reset, spi.output, part))
    with pytest.raises(OSError, match="bytes written"):
        oled.write(frame.pattern)


def test_a_machine_without_spi_says_so() -> None:
    """This machine's own kernel."""
    bus = SpiDev(Kernel())
    with pytest.raises(FileNotFoundError):
        bus.open(31, 0)
    bus.close()


@pytest.mark.parametrize("column", [0, 2, 4])
def test_a_panel_whose_glass_begins_elsewhere_than_its_chip_says(column: int) -> None:
    """Bug report 18: the test picture shows the shift; the right column cures it."""
    panel = FakePanel("sh1106")
    oled = Oled("sh1106", FakeI2c(FakeBus(panel)), column=column)
    oled.write(frame.pattern)
    assert (panel.frame() == frame.pattern()) == (column == 2)


def test_only_what_differs_is_sent() -> None:
    async def test() -> None:
        panel, bus, oled = on_i2c()
        async with running(oled, panel) as rig:
            await rig.show(FIRST)
            for before, after in pairwise(VIEWS):
                sent = bus.bytes
                await rig.show(after)
                assert bus.bytes - sent == frame.bus_bytes(frame.diff(meant(before), meant(after)))
            sent = bus.bytes
            rig.display.show(view(played("", "load start tick 2H").state))  # another view, the same words
            await until(lambda: rig.display._drawn is rig.display._view)
        assert bus.bytes - sent == len("AOc")  # the panel goes dark, and nothing else is sent

    run(test())


# --- errors -------------------------------------------------------------------------------------------------------


async def session(chip: str, failures: dict[int, Failure]) -> tuple[int, Rig]:
    """Two views on a panel; how many transfers that took, and the rig, which has said by then what it had to say."""
    says = "seen gone" if len(failures) > 1 else ""
    panel, bus, oled = on_i2c(chip)
    bus.failures = failures
    async with running(oled, panel) as rig:
        await rig.show(FIRST)
        await rig.show(SECOND)
        count = bus.transfers
        await until(lambda: rig.display.errors == len(failures) and rig.said == says)
        assert panel.frame() == meant(SECOND)
    return count, rig


@pytest.mark.parametrize(("chip", "in_a_row"), [*product(CHIPS, (1, 2, 3))])
def test_an_error_at_any_transfer_is_cured_and_a_second_in_a_row_is_one_fault(chip: str, in_a_row: int) -> None:
    async def test() -> None:
        count, _ = await session(chip, {})
        assert count > 30
        for number, (taken, at) in enumerate(product(TAKEN if in_a_row == 1 else TAKEN[-2:], range(count))):
            failure = Failure(ERRNOS[number % len(ERRNOS)], taken)
            _, rig = await session(chip, dict.fromkeys(range(at, at + in_a_row), failure))
            assert rig.display.errors == in_a_row, at
            assert rig.said == ("" if in_a_row == 1 else "seen gone"), at

    run(test())


def test_a_panel_that_lost_its_power_for_a_moment_is_written_anew() -> None:
    """O2: it answers and stays dark. One that has it all the time does not blink."""

    async def test() -> None:
        panel, bus, oled = on_i2c("ssd1306")
        async with running(oled, panel, refresh_s=0.02) as rig:
            for shown in (*VIEWS, *VIEWS):
                await rig.show(shown)
                panel.lose_power()
                await rig.shows(meant(shown))
            written = bus.bytes
            await until(lambda: bus.bytes > written + 5_000)
            assert (rig.said, rig.display.errors, panel.darkened) == ("", 0, 0)

    run(test())


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EREMOTEIO, "does not answer: check its plug"),
        (errno.EIO, "does not answer: check its plug"),
        (errno.ETIMEDOUT, "holds its bus up"),
        (errno.EACCES, "group i2c"),
        (errno.EPROTO, "check section display"),
    ],
)
def test_loss_and_return_are_told_once(number: int, advice: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        panel, bus, oled = on_i2c()
        async with running(oled, panel) as rig:
            await rig.show(FIRST)
            bus.broken = number
            rig.display.show(SECOND)
            await until(lambda: rig.display.errors > 10)
            panel.lose_power()
            bus.broken = 0
            await rig.shows(meant(SECOND))
            await until(lambda: rig.said == "seen gone")
            seen = next(event for event in rig.events if isinstance(event, FaultSeen))
            assert (seen.code, seen.part) == ("display", "display")
            assert advice in seen.text and "0x3C" in seen.text
            assert sum(seen.text in record.getMessage() for record in caplog.records) == 1

    caplog.set_level(logging.WARNING)
    run(test())
    assert len(caplog.records) == 3  # the first error, the loss, the return


def test_absent_at_the_start() -> None:
    async def test() -> None:
        panel, bus, oled = on_i2c()
        bus.broken = errno.EREMOTEIO
        async with running(oled, panel) as rig:
            rig.display.show(FIRST)
            await until(lambda: rig.display.errors > 5 and rig.said == "seen")
            bus.broken = 0
            await rig.shows(meant(FIRST))
            await until(lambda: rig.said == "seen gone")

    run(test())


def test_a_fault_that_an_earlier_run_left_is_ended() -> None:
    async def test() -> None:
        panel, _, oled = on_i2c()
        async with running(oled, panel) as rig:
            await rig.show(FIRST)
            await until(lambda: rig.events)
        assert [(type(event), event.code) for event in rig.events] == [(FaultGone, "display")]

    run(test())


def test_without_the_bus_it_says_how_to_turn_it_on() -> None:
    async def test() -> None:
        async with running(Oled("ssd1309", I2c(9_999, 0x3C)), FakePanel("ssd1309")) as rig:
            rig.display.show(FIRST)
            await until(lambda: rig.events)
            (event,) = rig.events
            assert isinstance(event, FaultSeen)
            assert event.text.startswith("display 0x3C on /dev/i2c-9999 has no bus: turn it on in config.txt")

    run(test())


def test_no_error_leaves_a_hook_for_the_end_of_the_program() -> None:
    """O3."""

    async def test() -> None:
        panel, bus, oled = on_i2c()
        async with running(oled, panel) as rig:
            await rig.show(FIRST)
            before = atexit._ncallbacks()
            bus.broken = errno.EIO
            rig.display.show(SECOND)
            await until(lambda: rig.display.errors > 20)
            bus.broken = 0
            await rig.shows(meant(SECOND))
            assert atexit._ncallbacks() == before

    run(test())


# --- nothing waits for it -----------------------------------------------------------------------------------------


def test_a_bus_that_hangs_holds_nobody_up_and_the_newest_view_wins() -> None:
    async def test() -> None:
        panel, bus, oled = on_i2c()
        async with running(oled, panel) as rig:
            await rig.show(FIRST)
            bus.gate.clear()
            rig.display.show(SECOND)
            begun = len(bus.began_ns)
            await until(lambda: len(bus.began_ns) > begun)  # its first transfer hangs
            for _ in range(500):
                for shown in VIEWS:
                    rig.display.show(shown)
            rig.display.show(THIRD)
            bus.gate.set()
            await rig.shows(meant(THIRD))
            # The run that hung is finished, then only what differs from the newest is sent: no view between them.
            page, column, data = frame.diff(meant(FIRST), meant(SECOND))[0]
            at = 128 * page + column
            held = meant(FIRST)[:at] + data + meant(FIRST)[at + len(data) :]
            assert len(bus.began_ns) - begun == 2 + 2 * len(frame.diff(held, meant(THIRD)))

    run(test())


def test_a_slow_bus_ends_with_the_newest_view() -> None:
    async def test() -> None:
        panel, bus, oled = on_i2c()
        bus.seconds = 0.002
        async with running(oled, panel) as rig:
            for shown in VIEWS * 5:
                rig.display.show(shown)
                await asyncio.sleep(0.005)
            await rig.show(CLOSED)

    run(test())


def test_the_end_does_not_wait_for_a_bus_that_hangs() -> None:
    async def test() -> None:
        panel, bus, oled = on_i2c()
        rig = Rig(DisplayOled(oled, WORDS, TABLE, stop_s=0.01), panel)
        await rig.show(FIRST)
        bus.gate.clear()
        rig.display.show(SECOND)
        rig.task.cancel()
        await until(rig.task.done)
        (thread,) = [thread for thread in threading.enumerate() if thread.name == "display"]
        assert thread.daemon
        bus.gate.set()
        await until(lambda: not thread.is_alive())
        assert panel.frame() is None

    run(test())


def test_a_run_after_another() -> None:
    async def test() -> None:
        panel, _, oled = on_i2c()
        display = DisplayOled(oled, WORDS, TABLE)
        for shown in VIEWS:
            rig = Rig(display, panel)
            await rig.show(shown)
            rig.task.cancel()
            await until(rig.task.done)
            assert panel.frame() is None

    run(test())


class Mute(Words):
    def panel(self, view: View, table: str) -> Panel21:
        raise ZeroDivisionError


def test_an_error_of_the_program_ends_the_run() -> None:
    async def test() -> None:
        panel, _, oled = on_i2c()
        rig = Rig(DisplayOled(oled, Mute("es"), TABLE), panel)
        rig.display.show(FIRST)
        await until(rig.task.done)
        assert isinstance(rig.task.exception(), ZeroDivisionError)

    run(test())


def test_places_name_themselves() -> None:
    places: list[Place] = [I2c(1, 0x3D), Spi(1, 24, None, FakeSpi(FakePanel("ssd1306")).output)]
    assert [str(place) for place in places] == ["0x3D on /dev/i2c-1", "/dev/spidev0.1"]


# --- the technician's test ------------------------------------------------------------------------------------


def test_a_test_shows_the_pattern_until_the_table_says_something_else() -> None:
    panel, _, oled = on_i2c()

    async def test() -> None:
        async with running(oled, panel) as rig:
            await rig.show(CLOSED)
            assert rig.display.test() == 5_000
            rig.display.show(CLOSED)  # nothing new
            await rig.shows(frame.pattern())
            assert rig.display.diag() == {"place": "0x3C on the test's bus", "shows": True, "errors": 0, "fault": ""}
            await rig.show(FIRST)

    run(test())


def test_a_test_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    panel, _, oled = on_i2c()
    monkeypatch.setattr("controller.adapters.display_oled.TEST_S", 2.0)

    async def test() -> None:
        async with running(oled, panel) as rig:
            await rig.show(CLOSED)
            rig.display.test()
            await rig.shows(frame.pattern())
            await rig.shows(meant(CLOSED))

    run(test())


def test_diag_tells_of_a_panel_that_is_not_there() -> None:
    async def test() -> None:
        async with running(Oled("ssd1309", I2c(9_999, 0x3C)), FakePanel("ssd1309")) as rig:
            assert rig.display.diag() == {"place": "0x3C on /dev/i2c-9999", "shows": False, "errors": 0, "fault": ""}
            rig.display.show(CLOSED)
            await until(lambda: rig.display.diag()["fault"])
            told = rig.display.diag()
            assert (told["shows"], "has no bus" in told["fault"]) == (False, True)
            assert told["errors"] >= 2

    run(test())
