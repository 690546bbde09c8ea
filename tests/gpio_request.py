"""A GPIO chip and a request of several lines in memory, in the shape of gpiod 2: what the kernel does to their edges.

Edges wait in one queue for all lines, which drops the oldest when it is full, behind a real descriptor that is readable
while some wait. `test_edges_gpio.py` compares the signatures with the installed package's.
"""

import errno
import os
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import gpiod
from gpiod.line import Value

RISING = gpiod.EdgeEvent.Type.RISING_EDGE.value
FALLING = gpiod.EdgeEvent.Type.FALLING_EDGE.value

Config = dict[Iterable[int | str] | int | str, gpiod.LineSettings | None]


def problem(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class Bank:
    """What is behind one chip: the volts on its lines (True: high), who else holds them, and whether it is there.

    `trouble` is the number of the error that opening gives, `broken` that of every use of a request; 0 for none.
    """

    def __init__(self, name: str = "gpiochip0", label: str = "pinctrl-bcm2711", lines: int = 58) -> None:
        self.info = gpiod.ChipInfo(name, label, lines)
        self.volts = dict.fromkeys(range(lines), False)
        self.held: dict[int, str] = {}
        self.trouble = self.broken = 0
        self.request: FakeRequest | None = None
        self.asked: list[tuple[Config, str | None, int | None]] = []

    def drive(self, offset: int, high: bool, at: int) -> None:
        self.volts[offset] = high
        if self.request is not None:
            self.request.notice(offset, high, at)

    def unplug(self, number: int = errno.ENODEV, *, wakes: bool = True) -> None:
        """Linux 6.1 wakes nobody who waits for edges; later ones do."""
        self.broken, self.trouble = number, errno.ENOENT
        if self.request is not None and wakes:
            self.request.wake()

    def plug(self) -> None:
        self.broken = self.trouble = 0


class Chips:
    """The chips by their paths: `paths` and `open` are what `EdgesGpio` is given."""

    def __init__(self, **banks: Bank) -> None:
        self.banks = {f"/dev/{name}": bank for name, bank in banks.items()}
        self.opened = 0

    def paths(self) -> list[str]:
        return [path for path, bank in self.banks.items() if bank.trouble != errno.ENOENT]

    def open(self, path: str) -> "FakeChip":
        self.opened += 1
        return FakeChip(path, self.banks[path])


class FakeChip:
    """`gpiod.Chip`."""

    def __init__(self, path: str, bank: Bank | None = None) -> None:
        assert bank is not None
        if bank.trouble:
            raise problem(bank.trouble)
        self.path = path
        self._bank = bank
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._open = False

    def get_info(self) -> gpiod.ChipInfo:
        assert self._open
        return self._bank.info

    def get_line_info(self, line: int | str) -> gpiod.LineInfo:
        assert self._open
        assert isinstance(line, int)
        holder = self._bank.held.get(line, "")
        return gpiod.LineInfo(
            offset=line,
            name=f"GPIO{line}",
            used=line in self._bank.held,
            consumer=holder,
            direction=1,
            active_low=False,
            bias=1,
            drive=1,
            edge_detection=1,
            event_clock=1,
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
        assert self._open
        self._bank.asked.append((config, consumer, event_buffer_size))
        if self._bank.held or self._bank.request is not None:
            raise problem(errno.EBUSY)
        self._bank.request = FakeRequest(self._bank, config, event_buffer_size or 16 * len(config))
        return self._bank.request


class FakeRequest:
    """`gpiod.LineRequest`."""

    def __init__(self, bank: Bank, config: Config, size: int) -> None:
        self._bank = bank
        self._settings = {
            offset: settings for offset, settings in config.items() if isinstance(offset, int) and settings
        }
        self._queue: deque[gpiod.EdgeEvent] = deque(maxlen=size)
        self._seq = 0
        self._own = dict.fromkeys(self._settings, 0)
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self.released = False

    @property
    def fd(self) -> int:
        self._check_released()
        return self._reader

    def wait_edge_events(self, timeout: float | None = None) -> bool:
        self._check_released()
        assert timeout == 0, "an event loop does not wait here"
        return bool(self._queue) or self._bank.broken != 0

    def read_edge_events(self, max_events: int | None = None) -> list[gpiod.EdgeEvent]:
        self._check_released()
        self._check_there()
        assert self._queue, "the real one would wait here"
        read = [self._queue.popleft() for _ in range(min(len(self._queue), max_events or 64))]
        if not self._queue:
            os.read(self._reader, 4096)
        return read

    def get_values(self, lines: Iterable[int | str] | None = None) -> list[Value]:
        self._check_released()
        self._check_there()
        return [Value(self._level(offset)) for offset in lines or self._settings if isinstance(offset, int)]

    def release(self) -> None:
        if not self.released:
            self.released = True
            self._bank.request = None
            os.close(self._reader)
            os.close(self._writer)

    # --- the kernel ---------------------------------------------------------------------------------------

    def notice(self, offset: int, high: bool, at: int) -> None:
        settings = self._settings[offset]
        self._seq += 1
        self._own[offset] += 1
        kind = RISING if high is not settings.active_low else FALLING
        self._queue.append(gpiod.EdgeEvent(kind, at, offset, self._seq, self._own[offset]))
        self.wake()

    def wake(self) -> None:
        os.write(self._writer, b"!")

    def _level(self, offset: int) -> bool:
        return self._bank.volts[offset] is not self._settings[offset].active_low

    def _check_released(self) -> None:
        if self.released:
            raise gpiod.exception.RequestReleasedError

    def _check_there(self) -> None:
        if self._bank.broken:
            raise problem(self._bank.broken)
