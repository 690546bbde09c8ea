"""GPIO chips in memory, in the shape of gpiod 2: what the kernel does to a line, and what its users did to it.

`Machine` has the chips under /dev; its `open` stands for `gpiod.Chip`. A line's edges wait in a queue that drops the
oldest, as the kernel's does, behind a real descriptor that is readable while some wait. `test_pins_gpiod.py` compares
the signatures with the installed package's.
"""

import errno
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import gpiod
from gpiod.line import Bias, Direction, Edge, Value

RISING = gpiod.EdgeEvent.Type.RISING_EDGE.value
FALLING = gpiod.EdgeEvent.Type.FALLING_EDGE.value
DEFAULT_EVENTS = 16  # that the kernel keeps for a line whose user does not say

Config = dict[Iterable[int | str] | int | str, gpiod.LineSettings | None]


def problem(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@dataclass
class Line:
    """One line: who has it, what drives it from outside (None: nothing does), and its level."""

    holder: str = ""
    outside: bool | None = None
    settings: gpiod.LineSettings = field(default_factory=gpiod.LineSettings)
    request: "FakeRequest | None" = None

    @property
    def level(self) -> bool:
        if self.settings.direction is Direction.OUTPUT:
            return bool(self.settings.output_value)
        return self.settings.bias is Bias.PULL_UP if self.outside is None else self.outside


class Bank:
    """One chip. `log` is what was done to its lines: (offset, level), or (offset, "released")."""

    def __init__(self, name: str, label: str, lines: int = 54) -> None:
        self.info = gpiod.ChipInfo(name, label, lines)
        self.lines = [Line() for _ in range(lines)]
        self.log: list[tuple[int, bool | str]] = []
        self.gone = False
        self.denied = False
        self.refuses = 0  # the error number that every request gets
        self.seqno = 0

    def drive(self, offset: int, at: int, *, level: bool | None, lose: bool = False) -> None:
        """Something outside puts the line on that level at `at`, ns. `lose`: the edge never reaches the queue."""
        line = self.lines[offset]
        before = line.level
        line.outside = level
        if line.level != before and line.request is not None:
            line.request.notice(at, line.level, lose=lose)

    def check(self) -> None:
        if self.gone:
            raise problem(errno.ENODEV)


class Machine:
    """The chips by their paths; a chip may have more than one."""

    def __init__(self, **banks: Bank) -> None:
        self.banks = {f"/dev/{name}": bank for name, bank in banks.items()}
        self.opened: list[str] = []

    def paths(self) -> list[str]:
        return sorted(self.banks)

    def open(self, path: str) -> "FakeChip":
        self.opened.append(path)
        bank = self.banks.get(path)
        if bank is None or bank.gone:
            raise problem(errno.ENOENT)
        if bank.denied:
            raise problem(errno.EACCES)
        return FakeChip(path, bank)


class FakeChip:
    """`gpiod.Chip`."""

    def __init__(self, path: str, bank: Bank | None = None) -> None:
        assert bank is not None
        self.path = path
        self._bank: Bank | None = bank

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._bank = None

    def get_info(self) -> gpiod.ChipInfo:
        return self._open().info

    def get_line_info(self, line: int | str) -> gpiod.LineInfo:
        bank = self._open()
        assert isinstance(line, int)
        one = bank.lines[line]
        chosen = one.settings
        return gpiod.LineInfo(
            offset=line,
            name=f"GPIO{line}",
            used=bool(one.request or one.holder),
            consumer=one.holder,
            direction=(chosen.direction if chosen.direction is not Direction.AS_IS else Direction.INPUT).value,
            active_low=False,
            bias=chosen.bias.value,
            drive=chosen.drive.value,
            edge_detection=chosen.edge_detection.value,
            event_clock=chosen.event_clock.value,
            debounced=False,
            debounce_period_us=0,
        )

    def request_lines(
        self,
        config: Config,
        consumer: str | None = None,
        event_buffer_size: int | None = None,
        output_values: dict[int | str, Value] | None = None,
    ) -> "FakeRequest":
        bank = self._open()
        assert output_values is None
        [(offset, settings)] = config.items()
        assert isinstance(offset, int)
        line = bank.lines[offset]
        if bank.refuses:
            raise problem(bank.refuses)
        if line.request is not None or line.holder:
            raise problem(errno.EBUSY)
        line.holder = (consumer or "?")[:31]  # GPIO_MAX_NAME_SIZE of the kernel's uAPI, with its end
        line.request = FakeRequest(bank, offset, event_buffer_size or DEFAULT_EVENTS)
        line.request.apply(settings)
        return line.request

    def _open(self) -> Bank:
        if self._bank is None:
            raise gpiod.ChipClosedError
        self._bank.check()
        return self._bank


class FakeRequest:
    """`gpiod.LineRequest` of one line."""

    def __init__(self, bank: Bank, offset: int, events: int) -> None:
        self._bank = bank
        self._offset = offset
        self._events: deque[gpiod.EdgeEvent] = deque(maxlen=events)
        self._read_fd, self._write_fd = os.pipe()
        self._seqno = 0
        self._released = False

    @property
    def fd(self) -> int:
        """Ours until it is released, whatever became of the chip."""
        if self._released:
            raise gpiod.exception.RequestReleasedError
        return self._read_fd

    def release(self) -> None:
        if self._released:
            return
        self._released = True
        line = self._bank.lines[self._offset]
        line.request, line.holder, line.settings = None, "", gpiod.LineSettings()
        self._bank.log.append((self._offset, "released"))
        os.close(self._read_fd)
        os.close(self._write_fd)

    def get_value(self, line: int | str) -> Value:
        self._check(line)
        return Value(self._bank.lines[self._offset].level)

    def set_value(self, line: int | str, value: Value) -> None:
        self._check(line)
        settings = self._bank.lines[self._offset].settings
        if settings.direction is not Direction.OUTPUT:
            raise problem(errno.EPERM)
        settings.output_value = value
        self._bank.log.append((self._offset, bool(value)))

    def reconfigure_lines(self, config: Config) -> None:
        self._check(*config)  # type: ignore[arg-type]
        self.apply(config[self._offset])

    def read_edge_events(self, max_events: int | None = None) -> list[gpiod.EdgeEvent]:
        self._check()
        assert self._events, "the real one would wait here"
        count = min(len(self._events), max_events or 64)
        read = [self._events.popleft() for _ in range(count)]
        if not self._events:
            os.read(self._read_fd, 1)
        return read

    # --- for the bank and for tests ---------------------------------------------------------------------

    def apply(self, settings: gpiod.LineSettings | None) -> None:
        assert settings is not None
        self._bank.lines[self._offset].settings = settings
        if settings.direction is Direction.OUTPUT:
            self._bank.log.append((self._offset, bool(settings.output_value)))

    def notice(self, at: int, level: bool, *, lose: bool = False) -> None:
        wants = self._bank.lines[self._offset].settings.edge_detection
        if wants is Edge.NONE or wants is (Edge.FALLING if level else Edge.RISING):
            return
        self._bank.seqno += 1
        self._seqno += 1
        if lose:
            return
        if not self._events:
            os.write(self._write_fd, b"!")
        kind = RISING if level else FALLING
        self._events.append(gpiod.EdgeEvent(kind, at, self._offset, self._bank.seqno, self._seqno))

    def hang_up(self) -> None:
        """The chip is gone: what is left is readable, and every use of it fails."""
        self._bank.gone = True
        if not self._events:
            os.write(self._write_fd, b"!")

    def _check(self, *lines: int | str) -> None:
        if self._released:
            raise gpiod.exception.RequestReleasedError
        self._bank.check()
        assert all(line == self._offset for line in lines)
