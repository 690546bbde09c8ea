"""A panel at the level of its bus: the model of an SSD1306, SSD1309 or SH1106 behind luma's own serial interfaces.

The model knows the data sheets and nothing of the program: it takes bytes, keeps memory and registers, and tells what
an eye would see. It can be slow, unplugged, without power for a moment, or answer any transfer with an error.
"""

import errno
import os
import random
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import smbus2
from luma.core.interface import serial

from controller.adapters.display_oled import Kernel, Output

ADDRESS = 0x3C
PAGES, HEIGHT, WIDTH = 8, 64, 128
ALL = (1 << HEIGHT) - 1  # the pixels of a column

# Commands with bytes after them, and how many; ranges of one byte are in `FakePanel._obey`.
COMMON = {0x81: 1, 0xA8: 1, 0xD3: 1, 0xD5: 1, 0xD9: 1, 0xDA: 1, 0xDB: 1}
ARGUMENTS = {
    "ssd1306": COMMON | {0x20: 1, 0x21: 2, 0x22: 2, 0x8D: 1},
    "ssd1309": COMMON | {0x20: 1, 0x21: 2, 0x22: 2, 0x8D: 1},
    "sh1106": COMMON | {0xAD: 1},
}
UNKNOWN = {"ssd1306": (), "ssd1309": (), "sh1106": (0x20, 0x8D)}  # what luma sends though the chip has no such command
HORIZONTAL, VERTICAL, PAGE = 0, 1, 2


class FakePanel:
    """What is in the panel. A command that the chip has not is an AssertionError of whoever sent it."""

    def __init__(self, chip: str, seed: int = 0) -> None:
        self.chip = chip
        self.columns = 132 if chip == "sh1106" else WIDTH
        self._random = random.Random(seed)
        self.darkened = 0  # how often it was lit and told to go dark
        self.lose_power()

    def lose_power(self) -> None:
        """For a moment: registers as after a reset, memory of noise (SSD1306 data sheet, section 8.5)."""
        self.memory = [bytearray(self._random.randbytes(self.columns)) for _ in range(PAGES)]
        self.on = self.pumped = self.remapped = self.upward = self.inverted = self.all_on = False
        self.mode = PAGE
        self.page = self.column = self.start_line = self.offset = 0
        self.multiplex = HEIGHT
        self.window = [0, self.columns - 1, 0, PAGES - 1]  # first and last column, first and last page
        self._command: list[int] = []

    # --- the bus side -------------------------------------------------------------------------------------

    def receive(self, transfer: bytes) -> None:
        """What follows the address on I2C: control bytes, commands, data (SSD1306 data sheet, section 8.1.5.2)."""
        at = 0
        while at < len(transfer):
            control = transfer[at]
            assert not control & 0x3F, f"control byte {control:#04x}"
            end = at + 2 if control & 0x80 else len(transfer)
            (self.data if control & 0x40 else self.commands)(transfer[at + 1 : end])
            at = end

    def commands(self, data: Sequence[int]) -> None:
        for byte in data:
            self._command.append(byte)
            if len(self._command) > ARGUMENTS[self.chip].get(self._command[0], 0):
                command, self._command = self._command, []
                self._obey(*command)

    def _obey(self, code: int, *values: int) -> None:
        if code < 0x20:
            shift = code & 0x10 and 4
            self.column = self.column & ~(0x0F << shift) | (code & 0x0F) << shift
        elif 0x40 <= code < 0x80:
            self.start_line = code & 0x3F
        elif 0xB0 <= code < 0xB8:
            self.page = code & 0x07
        elif code in (0xA0, 0xA1):
            self.remapped = code == 0xA1
        elif code in (0xC0, 0xC8):
            self.upward = code == 0xC8
        elif code in (0xA4, 0xA5):
            self.all_on = code == 0xA5
        elif code in (0xA6, 0xA7):
            self.inverted = code == 0xA7
        elif code in (0xAE, 0xAF):
            self.darkened += self.on and code == 0xAE
            self.on = code == 0xAF
        else:
            self._set(code, *values)

    def _set(self, code: int, *values: int) -> None:
        match code, values:
            case 0x20, [mode]:
                self.mode = mode & 0x03
            case 0x21, [first, last]:
                self.window[:2] = first, last
                self.column = first
            case 0x22, [first, last]:
                self.window[2:] = first, last
                self.page = first
            case 0x8D, [pump]:
                self.pumped = bool(pump & 0x04)
            case 0xA8, [lines]:
                self.multiplex = (lines & 0x3F) + 1
            case 0xD3, [rows]:
                self.offset = rows & 0x3F
            case 0xE3, []:
                pass  # no operation
            case ((0x81 | 0xD5 | 0xD9 | 0xDA | 0xDB | 0xAD), [_]):
                pass  # contrast, clock, pre-charge, pins, levels: nothing that a model shows
            case _:
                assert code in UNKNOWN[self.chip], f"{self.chip} has no command {code:#04x}"

    def data(self, data: Sequence[int]) -> None:
        for byte in data:
            if self.column < self.columns:
                self.memory[self.page][self.column] = byte
            self._advance()

    def _advance(self) -> None:
        first, last, top, bottom = self.window
        if self.mode == PAGE:
            self.column = min(self.column + 1, self.columns) if self.chip == "sh1106" else (self.column + 1) % WIDTH
        elif self.mode == HORIZONTAL:
            self.column = first if self.column == last else self.column + 1
            if self.column == first:
                self.page = top if self.page == bottom else self.page + 1
        else:
            self.page = top if self.page == bottom else self.page + 1
            if self.page == top:
                self.column = first if self.column == last else self.column + 1

    # --- the side of the eye ------------------------------------------------------------------------------

    def frame(self) -> bytes | None:
        """What is on the glass of the usual module, 1,024 bytes in page order; None while it is dark.

        The ribbon is above: the chip's first column is on the right, its first row below, until both are remapped.
        """
        if not self.on or (self.chip == "ssd1306" and not self.pumped):
            return None
        margin = (self.columns - WIDTH) // 2
        columns = [*zip(*self.memory, strict=True)][margin : margin + WIDTH]
        if not self.remapped:
            columns.reverse()
        glass = b"".join(
            self._lit(int.from_bytes(bytes(column), "little")).to_bytes(PAGES, "little") for column in columns
        )
        return b"".join(glass[page::PAGES] for page in range(PAGES))

    def _lit(self, column: int) -> int:
        """The pixels of a column of memory from the top of the glass, the lowest bit first."""
        shift = (self.offset + self.start_line) % HEIGHT
        lit = (column >> shift | column << HEIGHT - shift) & ALL
        lit = ALL if self.all_on else lit ^ (ALL if self.inverted else 0)
        lit &= (1 << self.multiplex) - 1
        return lit if self.upward else int(f"{lit:0{HEIGHT}b}"[::-1], 2)


class Failure(NamedTuple):
    """An error at a transfer, and how many of its bytes the panel took before."""

    number: int
    taken: int = 0


class FakeBus:
    """An SMBus with one panel, as luma uses it; `transfers` and `bytes` count what was tried on the wire.

    `failures` are by the number of the transfer, from 0; `broken`, where it is not 0, is the error of every one. `gate`
    holds every transfer up while it is not set; `seconds` is how long each takes.
    """

    def __init__(self, panel: FakePanel) -> None:
        self.panel = panel
        self.failures: dict[int, Failure] = {}
        self.broken = 0
        self.seconds = 0.0
        self.gate = threading.Event()
        self.gate.set()
        self.transfers = self.bytes = self.closed = 0
        self.began_ns: list[int] = []  # monotonic, of each transfer

    def write_i2c_block_data(self, address: int, register: int, values: list[int]) -> None:
        assert len(values) <= 32
        self._transfer(address, bytes([register, *values]))

    def i2c_rdwr(self, *messages: smbus2.i2c_msg) -> None:
        for message in messages:
            self._transfer(message.addr, bytes(list(message)))  # type: ignore[call-overload] # smbus2 has no types for its iterator

    def close(self) -> None:
        self.closed += 1

    def _transfer(self, address: int, data: bytes) -> None:
        self.began_ns.append(time.monotonic_ns())
        self.gate.wait()
        time.sleep(self.seconds)
        failure = self.failures.get(self.transfers)
        self.transfers += 1
        self.bytes += 1 + len(data)
        if self.broken or address != ADDRESS:
            failure = Failure(self.broken or errno.EREMOTEIO)
        self.panel.receive(data[: failure.taken] if failure else data)
        if failure:
            raise OSError(failure.number, "as the test wants it")


class FakeI2c:
    """The place of a panel on a FakeBus. `blocks`: the bus takes whole pages at once, as luma's own I2C bus does."""

    def __init__(self, bus: FakeBus, *, blocks: bool = True) -> None:
        self.bus, self.blocks = bus, blocks

    def __str__(self) -> str:
        return "0x3C on the test's bus"

    def open(self) -> Any:  # noqa: ANN401 - luma has no types
        interface = serial.i2c(bus=self.bus, address=ADDRESS)
        if self.blocks:  # what luma does where it opens /dev/i2c-N itself
            interface._managed, interface._i2c_msg_write = True, smbus2.i2c_msg.write
        return interface


class FakeSpi:
    """The kernel's spidev with one panel on it, and its D/C and reset pins: nothing on it ever answers.

    `broken` is the number of the error that opening gives, and every use of what is open; 0 for none. `bufsiz` is what
    the kernel takes at once: more is EMSGSIZE.
    """

    FD = 77

    def __init__(self, panel: FakePanel, bufsiz: int = 4096) -> None:
        self.panel, self.bufsiz = panel, bufsiz
        self.opened: str | None = None
        self.broken = 0
        self.settings: dict[int, int] = {}  # of an ioctl: its number and its value
        self.pins: dict[int, FakePin] = {}
        self.dc, self.reset = 24, 25

    @property
    def kernel(self) -> Kernel:
        return Kernel(self.open, self.write, self.ioctl, self.close)

    def open(self, path: str, flags: int) -> int:
        self._check()
        assert self.opened is None, "what is open cannot be opened again"
        assert flags & os.O_RDWR
        self.opened, self.settings = path, {}
        return self.FD

    def ioctl(self, fd: int, request: int, value: bytes) -> bytes:
        self._check(fd)
        assert request >> 16 & 0x3FFF == len(value), "the number of an ioctl holds the size of its value"
        self.settings[request] = int.from_bytes(value, sys.byteorder)
        return value

    def write(self, fd: int, data: bytes) -> int:
        self._check(fd)
        if len(data) > self.bufsiz:
            raise OSError(errno.EMSGSIZE, "Message too long")
        (self.panel.data if self.pins[self.dc].level else self.panel.commands)(data)
        return len(data)

    def close(self, fd: int) -> None:
        assert (fd, self.opened is not None) == (self.FD, True)
        self.opened = None

    def _check(self, fd: int = FD) -> None:
        assert fd == self.FD
        if self.broken:
            raise OSError(self.broken, "as the test wants it")

    def output(self, number: int) -> "FakePin":
        assert number not in self.pins, "a pin that is open cannot be opened again"
        self.pins[number] = FakePin(self, number)
        return self.pins[number]


class FakePin:
    """As gpiozero's OutputDevice. The panel's reset acts while it is low."""

    def __init__(self, spi: FakeSpi, number: int) -> None:
        self._spi, self._number, self.level = spi, number, False

    def on(self) -> None:
        self.level = True

    def off(self) -> None:
        self.level = False
        if self._number == self._spi.reset:
            self._spi.panel.lose_power()

    def close(self) -> None:
        del self._spi.pins[self._number]


class Heard:
    """An output whose level goes to another one, too."""

    def __init__(self, *outputs: Output) -> None:
        self._outputs = outputs

    def on(self) -> None:
        for each in self._outputs:
            each.on()

    def off(self) -> None:
        for each in self._outputs:
            each.off()

    def close(self) -> None:
        for each in self._outputs:
            each.close()
