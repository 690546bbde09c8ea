"""The dealer's panel: a 128 x 64 OLED with an SSD1306, SSD1309 or SH1106, on I2C or SPI. Nothing ever waits for it.

luma.oled knows the chips' initialisation, luma.core the buses; its drawing is not used, since it sends whole frames.
Each panel is written in page addressing, the one way that all three chips have: a page, a column, bytes. What its
memory must hold is remembered, so that only what differs is sent. A panel never tells that it lost its power for a
moment: it answers and stays dark (libraries.md O2). Hence all is written anew after every error, and once a minute.
"""

import asyncio
import errno
import fcntl
import logging
import os
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import luma.core.error
import luma.oled.device
from luma.core.interface import serial

from controller import frame
from controller.core.events import Event, FaultGone, FaultSeen
from controller.core.facts import Phase
from controller.core.view import View
from controller.panel import Words
from controller.ports import Submit

log = logging.getLogger(__name__)

CODE = "display"
PART = "display"
TEST_S = 5.0
REFRESH_S = 60.0  # the longest that a panel stays dark after a moment without power
STOP_S = 2.0  # how long the end of the program waits for a bus that hangs
LOG_S = 10.0  # the errors of so long are one line in the log

# How a panel says no (libraries.md O1): OSError, TimeoutError among them; and luma's own, which is none.
TROUBLE = (OSError, luma.core.error.Error)

DISPLAY_OFF, DISPLAY_ON = 0xAE, 0xAF  # data sheets: SSD1306 and SSD1309 table 9-1, SH1106 "Command Table"
PAGE_ADDRESSING = (0x20, 0x02)  # the SH1106 has no other, and no such command
PAGE, COLUMN_LOW, COLUMN_HIGH = 0xB0, 0x00, 0x10
# A chip goes on waiting for the rest of a command that an error broke off, and takes the next one for it. No command
# has more than six bytes after the first; those that ours have are set again after these.
NO_OPERATION = 0xE3

# linux/spi/spidev.h, with the numbers of asm-generic/ioctl.h: way, size, the letter k, number
SPI_IOC_WR_MODE = 1 << 30 | 1 << 16 | ord("k") << 8 | 1
SPI_IOC_WR_MAX_SPEED_HZ = 1 << 30 | 4 << 16 | ord("k") << 8 | 4

_SILENT = "does not answer: check its plug, its power and display.address"
_FORBIDDEN = "may not be opened by this user: add the user to the group i2c, or spi"
ADVICE: dict[int | None, str] = {
    errno.EREMOTEIO: _SILENT,
    errno.EIO: _SILENT,
    errno.ENXIO: _SILENT,
    errno.ETIMEDOUT: "holds its bus up: check its wires and their length, and the pull-ups",
    errno.ENOENT: "has no bus: turn it on in config.txt (dtparam=i2c_arm=on or spi=on), check display.bus or device",
    errno.ENODEV: "lost its bus: check the adapter's plug",
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
}


class Bus(Protocol):
    """luma's serial interface: each call raises any of TROUBLE."""

    def command(self, *command: int) -> None: ...
    def data(self, data: Sequence[int]) -> None: ...
    def cleanup(self) -> None: ...


class Place(Protocol):
    """Where a panel is; `str` names it to a technician."""

    def open(self) -> Bus:
        """Any of TROUBLE."""


@dataclass(frozen=True, slots=True)
class I2c:
    """/dev/i2c-`bus`, and the panel's address."""

    bus: int
    address: int

    def __str__(self) -> str:
        return f"0x{self.address:02X} on /dev/i2c-{self.bus}"

    def open(self) -> Bus:
        opened: Bus = serial.i2c(port=self.bus, address=self.address)
        return opened


class Kernel(NamedTuple):
    """The calls to the kernel for a bus of SPI, so that a test can stand in its place."""

    open: Callable[[str, int], int] = os.open
    write: Callable[[int, bytes], int] = os.write
    ioctl: Callable[[int, int, bytes], Any] = fcntl.ioctl
    close: Callable[[int], None] = os.close


class SpiDev:
    """A device of the kernel's spidev in the shape of the Python package of that name: what luma asks of it.

    The package would have to be compiled on every table, and does the same: to write is half a transfer (Linux,
    Documentation/spi/spidev.rst). Mode 0; OSError.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._fd = -1
        self._speed_hz = 0

    def open(self, port: int, device: int) -> None:
        self._fd = self._kernel.open(f"/dev/spidev{port}.{device}", os.O_RDWR | os.O_CLOEXEC)
        try:
            self._kernel.ioctl(self._fd, SPI_IOC_WR_MODE, b"\0")  # another program may have left another
        except OSError:
            self.close()
            raise

    @property
    def max_speed_hz(self) -> int:
        return self._speed_hz

    @max_speed_hz.setter
    def max_speed_hz(self, speed: int) -> None:
        self._kernel.ioctl(self._fd, SPI_IOC_WR_MAX_SPEED_HZ, struct.pack("=I", speed))
        self._speed_hz = speed

    def writebytes(self, data: Sequence[int]) -> None:
        """All of it at once: the kernel takes 4096 bytes, and a page of the panel has 128."""
        written = self._kernel.write(self._fd, bytes(data))
        if written != len(data):
            raise OSError(errno.EIO, f"{written} of {len(data)} bytes written")

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._kernel.close(fd)


class Output(Protocol):
    """A pin, as gpiozero's OutputDevice has it. Raises OSError."""

    def on(self) -> None: ...
    def off(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Spi:
    """/dev/spidev0.`device` at 8 MHz, and the numbers of the pins D/C and, where it is wired, reset.

    `output` opens a pin. Nothing answers on this bus: a panel that is unplugged is not noticed.
    """

    device: int
    dc: int
    reset: int | None
    output: Callable[[int], Output]
    kernel: Kernel = Kernel()  # noqa: RUF009 - a tuple of functions, the same for all

    def __str__(self) -> str:
        return f"/dev/spidev0.{self.device}"

    def open(self) -> Bus:
        pins = _Pins(self.output)
        try:
            opened: Bus = serial.spi(
                spi=SpiDev(self.kernel), gpio=pins, port=0, device=self.device, gpio_DC=self.dc, gpio_RST=self.reset
            )
        except TROUBLE:
            pins.cleanup()
            raise
        return _Closing(opened, pins)


class _Pins:
    """Pins in the shape of RPi.GPIO, which is what luma asks for."""

    OUT, LOW, HIGH = 0, False, True

    def __init__(self, output: Callable[[int], Output]) -> None:
        self._open = output
        self._pins: dict[int, Output] = {}

    def setup(self, pin: int, direction: int) -> None:
        self._pins[pin] = self._open(pin)

    def output(self, pin: int, level: bool) -> None:  # noqa: FBT001 - RPi.GPIO's own
        if level:
            self._pins[pin].on()
        else:
            self._pins[pin].off()

    def cleanup(self) -> None:
        while self._pins:
            self._pins.popitem()[1].close()


class _Closing:
    """luma frees only pins that it opened itself."""

    def __init__(self, bus: Bus, pins: _Pins) -> None:
        self.command, self.data = bus.command, bus.data
        self._bus, self._pins = bus, pins

    def cleanup(self) -> None:
        try:
            self._bus.cleanup()
        finally:
            self._pins.cleanup()


# --- the chips --------------------------------------------------------------------------------------------


class Chip(NamedTuple):
    """Luma's class, the column of the memory that the left edge of the glass shows, and what page addressing needs."""

    driver: Any
    column: int
    addressing: tuple[tuple[int, ...], ...] = ()


CHIPS = {
    "ssd1306": Chip(luma.oled.device.ssd1306, 0, (PAGE_ADDRESSING,)),
    "ssd1309": Chip(luma.oled.device.ssd1309, 0, (PAGE_ADDRESSING,)),
    "sh1106": Chip(luma.oled.device.sh1106, 2),  # its memory has 132 columns; the middle 128 have glass
}


class _Listener:
    """A bus with nothing on it: keeps the commands that luma sends when a panel's object is made."""

    def __init__(self) -> None:
        self.commands: list[tuple[int, ...]] = []

    def command(self, *command: int) -> None:
        self.commands.append(command)

    def cleanup(self) -> None:
        """Here ends the hook that luma leaves for the end of the program."""


def initialisation(chip: Chip) -> tuple[tuple[int, ...], ...]:
    """Luma's commands for a chip, but off and on: a panel that shows something need not blink.

    Luma's object is made once, on no bus, and dropped: each one leaves a hook at the end of the program (O3). The
    picture that it begins with is left out: its packing needs Image.getdata, which goes with Pillow 14 (O7).
    """
    listener = _Listener()
    silent = type("Silent", (chip.driver,), {"display": _draw_nothing})
    silent(listener)
    first, *others, last = listener.commands
    assert first[0] == DISPLAY_OFF and last == (DISPLAY_ON,), "luma begins with a dark panel and ends with a lit one"
    return (first[1:], *others, *chip.addressing)


def _draw_nothing(driver: object, image: object) -> None: ...


class Oled:
    """One panel, written by one thread; every call but `close` waits for the bus and raises any of TROUBLE.

    `chip` is a key of CHIPS; `column` is where its glass begins, for a panel that differs from its chip (O6).
    """

    def __init__(self, chip: str, place: Place, *, column: int | None = None, upside_down: bool = False) -> None:
        self.place = place
        self._initialisation = initialisation(CHIPS[chip])
        self._column = CHIPS[chip].column if column is None else column
        self._upside_down = upside_down
        self._bus: Bus | None = None
        self._memory = bytearray(frame.WIDTH * frame.PAGES)  # the panel's, once it is written

    def write(self, newest: Callable[[], bytes]) -> None:
        """All of it: initialisation, every page, on. Opens the bus where it is not open.

        `newest` gives the frame that is to be shown by now; it is asked again before each page.
        """
        if self._bus is None:
            self._bus = self.place.open()
        self._bus.command(*[NO_OPERATION] * 7)
        for command in self._initialisation:
            self._bus.command(*command)
        for page in range(frame.PAGES):
            self._send(self._bus, frame.Run(page, 0, frame.page_of(self._laid(newest()), page)))
        self._bus.command(DISPLAY_ON)

    def update(self, newest: Callable[[], bytes]) -> None:
        """What differs, after a `write`. A frame that comes meanwhile is not kept waiting behind an older one."""
        assert self._bus is not None
        shown = None
        while shown is not (wanted := newest()):
            shown = wanted
            for run in frame.diff(bytes(self._memory), self._laid(wanted)):
                self._send(self._bus, run)
                if newest() is not wanted:
                    break

    def off(self) -> None:
        """Dark, as long as the panel has power."""
        if self._bus is not None:
            self._bus.command(DISPLAY_OFF)

    def close(self) -> None:
        """The bus is free, and opened anew by the next `write`."""
        if self._bus is not None:
            with suppress(*TROUBLE):  # what was wrong with it has been told
                self._bus.cleanup()
        self._bus = None

    def _laid(self, picture: bytes) -> bytes:
        return frame.turned(picture) if self._upside_down else picture

    def _send(self, bus: Bus, run: frame.Run) -> None:
        column = self._column + run.column
        bus.command(PAGE | run.page, COLUMN_LOW | column & 0x0F, COLUMN_HIGH | column >> 4)
        bus.data(list(run.data))
        start = frame.WIDTH * run.page + run.column
        self._memory[start : start + len(run.data)] = run.data


# --- the panel of a table ---------------------------------------------------------------------------------


class DisplayOled:
    """Panel and Source: shows views in a thread of its own while `run` runs, and reports its panel's loss and return.

    `retry_s` is the first and the longest wait between two attempts at a panel that does not answer. After an error the
    panel is written anew at once, and only if that fails too it is a fault; `errors` counts them all. `now` is the
    CLOCK_MONOTONIC, ns, by which faults are told.
    """

    def __init__(
        self,
        oled: Oled,
        words: Words,
        table: str,
        *,
        refresh_s: float = REFRESH_S,
        retry_s: tuple[float, float] = (0.5, 5.0),
        stop_s: float = STOP_S,
        now: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.errors = 0
        self._oled, self._words, self._table = oled, words, table
        self._refresh_s, self._retry_s, self._stop_s = refresh_s, retry_s, stop_s
        self._now = now
        self._view: View | None = None  # the newest; the thread takes it when it can
        self._drawn: View | None = None  # what `_frame` shows
        self._frame = bytes(frame.WIDTH * frame.PAGES)
        self._pattern = self._frame  # what a test shows
        self._test_until = 0.0  # time.monotonic()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._failures = 0  # since the panel was last written whole
        self._written_at = 0.0  # when it was so for the first time after the last failure
        self._fault: str | None = None  # the text of the fault that stands; None: what stands is not known yet
        self._logged_at = -LOG_S

    def diag(self) -> dict[str, Any]:
        """For people: `place`, whether it `shows` what it should, `errors` of this run, `fault` that stands."""
        shows = self._fault == "" and not self._failures
        return {"place": str(self._oled.place), "shows": shows, "errors": self.errors, "fault": self._fault or ""}

    def test(self) -> int:
        """Shows the test pattern and says for how long, ms. It ends sooner with a view that says something else."""
        self._pattern = frame.pattern()
        self._test_until = time.monotonic() + TEST_S
        self._wake.set()
        return round(TEST_S * 1_000)

    def show(self, view: View) -> None:
        if view != self._view:
            self._test_until = 0.0
        self._view = view
        self._wake.set()

    async def run(self, submit: Submit) -> None:
        """An error of the program in the thread is raised here. When it is cancelled the panel goes dark."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def tell(event: Event) -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody hears
                loop.call_soon_threadsafe(submit, event)

        def failed(error: BaseException) -> None:
            if not over.done():
                over.set_exception(error)

        def work() -> None:
            try:
                self._work(tell)
            except Exception as error:  # noqa: BLE001 - hides nothing: in a thread it would only be printed, so it ends `run`
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(failed, error)

        self._stop.clear()
        thread = threading.Thread(target=work, name=PART, daemon=True)  # a bus that hangs must not hold the program
        thread.start()
        try:
            await over
        finally:
            self._stop.set()
            self._wake.set()
            await asyncio.to_thread(thread.join, self._stop_s)

    # --- in the thread ------------------------------------------------------------------------------------

    def _work(self, tell: Callable[[Event], None]) -> None:
        wait, longest = self._retry_s
        while not self._stop.is_set():
            try:
                self._keep(tell)
            except TROUBLE as error:
                self._oled.close()
                # A panel that comes and goes is not tried more often than one that is not there.
                if not self._failures and time.monotonic() - self._written_at > longest:
                    wait = self._retry_s[0]
                self._failures += 1
                self._lost(tell, error)
                if self._failures > 1:
                    self._stop.wait(wait)
                    wait = min(2 * wait, longest)
        with suppress(*TROUBLE):  # a panel that does not answer cannot be darkened
            self._oled.off()
        self._oled.close()

    def _keep(self, tell: Callable[[Event], None]) -> None:
        """Until stopped, or any of TROUBLE."""
        due = time.monotonic()
        while not self._stop.is_set():
            self._wake.clear()
            rest = None
            if self._view is not None:
                if time.monotonic() >= due:
                    self._oled.write(self._newest)
                    due = time.monotonic() + self._refresh_s
                    self._found(tell)
                self._oled.update(self._newest)
                now = time.monotonic()
                ends = self._test_until if self._test_until > now else due
                rest = max(0.0, min(due, ends) - now)
            self._wake.wait(rest)

    def _newest(self) -> bytes:
        """The frame of the newest view, or of a test: the same object as long as there is no newer one."""
        if time.monotonic() < self._test_until:
            return self._pattern
        view = self._view
        if view is not None and view is not self._drawn:
            panel = self._words.panel(view, self._table)
            self._frame = frame.draw(panel, idle=view.phase is Phase.CLOSED)
            self._drawn = view
        return self._frame

    def _found(self, tell: Callable[[Event], None]) -> None:
        if self._failures or self._fault is None:
            self._written_at = time.monotonic()
        if self._fault != "":  # at first too: a fault of the run before may still stand
            tell(FaultGone(self._now(), CODE, PART))
        if self._fault:
            log.warning("display %s shows again", self._oled.place)
        self._failures, self._fault = 0, ""

    def _lost(self, tell: Callable[[Event], None], error: Exception) -> None:
        self.errors += 1
        # Luma's own error stands in front of the system's.
        number = getattr(error, "errno", None) or getattr(error.__context__, "errno", None)
        text = f"display {self._oled.place} {ADVICE.get(number, f'failed ({error}): check section display')}"
        if self._failures > 1:
            if text != self._fault:
                log.warning("%s", text)
            if not self._fault:
                tell(FaultSeen(self._now(), CODE, PART, text))
            self._fault = text
        elif time.monotonic() - self._logged_at >= LOG_S:
            log.warning("display %s: error %d of this run, written anew: %s", self._oled.place, self.errors, error)
            self._logged_at = time.monotonic()
