"""The pins of a Raspberry Pi's header for gpiozero, by way of gpiod 2. Takes no other way than the one it was told.

`factory` makes the pin factory that `gpio.pin_factory` names. `GpiodFactory` is gpiozero's on every Pi: it finds the
header's chip by its label, since numbers change with the kernel (bug report 2); the kernel stamps its edges; it has no
thread, the event loop reads the edges. A line is requested when a device first needs it and the chip is looked for
then, so that a chip that went and came back serves the next request.
"""

import asyncio
import errno
import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gpiod
from gpiod.line import Bias, Direction, Edge, Value
from gpiozero import (
    BadPinFactory,
    GPIOPinInUse,
    GPIOZeroError,
    OutputDevice,
    PinEdgeDetectUnsupported,
    PinFixedPull,
    PinInvalidBounce,
    PinInvalidEdges,
    PinInvalidFunction,
    PinInvalidPull,
    PinInvalidState,
    PinSetInput,
)
from gpiozero.pins import Factory
from gpiozero.pins.mock import MockFactory
from gpiozero.pins.pi import PiFactory, PiPin

log = logging.getLogger(__name__)

RP1 = "pinctrl-rp1"  # the header's chip on a Pi 5, 500 and CM5; behind PCIe, where RPi.GPIO cannot reach it
# The labels of the header's chip, each with the revision code of a Pi that has it. All of them have the same forty
# pins; taken from the label, they need no /proc, which a sandboxed unit may not see.
BOARDS = {RP1: 0xC04170, "pinctrl-bcm2711": 0xC03111, "pinctrl-bcm2835": 0xA02082}
EVENTS_MAX = 128  # edges that wait in the kernel, which drops the oldest (its own choice is 16)
HELD_BY_US = "baccarat-table"  # the consumer that `gpioinfo` shows, with our process id behind it

_DENIED = "not for this user: add the user to the group gpio"

OpenChip = Callable[[str], gpiod.Chip]
Paths = Callable[[], Iterable[str]]


class PinsError(BadPinFactory):  # type: ignore[misc] # gpiozero has no types
    """Pins cannot be had in the way that was chosen. The text says what to do."""


def chip_paths() -> list[str]:
    return sorted(str(path) for path in Path("/dev").glob("gpiochip*"))


def factory(name: str, *, open_chip: OpenChip = gpiod.Chip, paths: Paths = chip_paths) -> Factory:
    """The pin factory of that name: `gpiod`, `rpigpio` or `mock`. PinsError where it cannot be had."""
    if name == "gpiod":
        return GpiodFactory(open_chip=open_chip, paths=paths)
    if name == "mock":
        return MockFactory()
    if name != "rpigpio":
        raise PinsError(f"gpio.pin_factory {name!r} is not known: write gpiod, rpigpio or mock")
    if any(label == RP1 for _, _, label in _chips(open_chip, paths)[0]):
        raise PinsError("gpio.pin_factory rpigpio cannot reach the pins of a Raspberry Pi 5: write gpiod")
    try:
        from gpiozero.pins.rpigpio import RPiGPIOFactory  # noqa: PLC0415 - imports RPi.GPIO, which few tables have
    except (ImportError, RuntimeError) as error:  # RPi.GPIO answers with RuntimeError where it finds no Pi
        what = "gpio.pin_factory rpigpio needs the package RPi.GPIO, which cannot be imported"
        raise PinsError(f"{what} ({error}): pip install RPi.GPIO, or write gpiod") from error
    return RPiGPIOFactory()


def output(pins: Factory, number: int) -> OutputDevice:
    """That pin, an output that is low; the way of those who know no gpiozero: OSError where it cannot be had."""
    try:
        return OutputDevice(number, pin_factory=pins)
    except (OSError, GPIOZeroError, RuntimeError) as error:  # the last is RPi.GPIO's one word
        told = error.args
    raise OSError(*told)  # anew: the first one keeps gpiozero's half-made device alive, and that keeps the pin


def header_chip(open_chip: OpenChip, paths: Paths) -> tuple[str, str]:
    """The path and the label of the header's chip. PinsError when there is none, or more than one."""
    seen, closed = _chips(open_chip, paths)
    # Raspberry Pi OS links gpiochip4 to gpiochip0 for programs that count: one chip by two paths. Its name is its own.
    found = {name: (path, label) for path, name, label in reversed(seen) if label in BOARDS}
    if len(found) == 1:
        return found.popitem()[1]
    if found:
        many = ", ".join(sorted(f"{path} ({label})" for path, label in found.values()))
        raise PinsError(f"more than one GPIO chip says that it is the header's: {many}: remove all but one")
    looked = [f"{path} ({label})" for path, _, label in seen] + closed
    what = f"no GPIO chip has a label of the header ({', '.join(BOARDS)})"
    raise PinsError(f"{what}: is this a Raspberry Pi? Looked at {', '.join(looked) or '/dev/gpiochip*: there is none'}")


def _chips(open_chip: OpenChip, paths: Paths) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Path, name and label of every chip that opens, and what the others said."""
    seen: list[tuple[str, str, str]] = []
    closed: list[str] = []
    for path in paths():
        try:
            with open_chip(path) as chip:
                info = chip.get_info()
        except OSError as error:
            closed.append(f"{path} ({_DENIED if isinstance(error, PermissionError) else error.strerror})")
        else:
            seen.append((path, info.name, info.label))
    return seen, closed


class GpiodFactory(PiFactory):  # type: ignore[misc] # gpiozero has no types
    """gpiozero's pin factory over gpiod. Ticks are monotonic nanoseconds, an edge's the kernel's own.

    `open_chip` opens a chip by its path, as `gpiod.Chip`; `paths` lists the chips; `now` is CLOCK_MONOTONIC in ns.
    """

    def __init__(
        self, *, open_chip: OpenChip = gpiod.Chip, paths: Paths = chip_paths, now: Callable[[], int] = time.monotonic_ns
    ) -> None:
        super().__init__()
        self.pin_class = GpiodPin
        self._open_chip = open_chip
        self._paths = paths
        self._now = now
        self._consumer = f"{HELD_BY_US} {os.getpid()}"

    def ticks(self) -> int:
        return self._now()

    def ticks_diff(self, later: int, earlier: int) -> float:
        return (later - earlier) / 1e9

    def request(self, pin: "GpiodPin", offset: int, settings: gpiod.LineSettings) -> gpiod.LineRequest:
        """The line, ours alone. GPIOPinInUse names who has it; PinsError or OSError where the chip says no."""
        path, _ = header_chip(self._open_chip, self._paths)
        with self._open_chip(path) as chip:
            try:
                return chip.request_lines({offset: settings}, consumer=self._consumer, event_buffer_size=EVENTS_MAX)
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise OSError(error.errno, f"{pin.place} of {path}: {error.strerror}") from error
                holder = chip.get_line_info(offset).consumer or "the kernel"
                text = f"{pin.place} is held by {holder}: stop that program, or choose another pin"
                raise GPIOPinInUse(text) from error

    def _get_revision(self) -> int:
        return BOARDS[header_chip(self._open_chip, self._paths)[1]]


_BIAS = {"floating": Bias.DISABLED, "up": Bias.PULL_UP, "down": Bias.PULL_DOWN}
_EDGES = {"none": Edge.NONE, "rising": Edge.RISING, "falling": Edge.FALLING, "both": Edge.BOTH}


class GpiodPin(PiPin):  # type: ignore[misc] # gpiozero has no types
    """One line of the header. It is requested by the first use after a `close`, which drives an output low before.

    Its edges come by the running event loop: `when_changed` is called in the loop's thread. When edges were lost (a
    gap in their numbers: `gaps` counts them) the level is read again, and told where it differs. A line that fails to
    give its edges fails in every later use too, until it is closed: it never just falls silent.
    """

    def __init__(self, factory: GpiodFactory, info: Any) -> None:  # noqa: ANN401 - gpiozero's PinInfo
        super().__init__(factory, info)
        self.gaps = 0
        self._pull: str = info.pull or "floating"
        self._edges = "both"
        self._output = False
        self._request: gpiod.LineRequest | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # while it reads our edges
        self._seqno = 0  # of the last edge; the kernel numbers a request's from 1 on
        self._failure: OSError | None = None

    @property
    def place(self) -> str:
        """What a person looks for: the line, and the pin on the header."""
        header, spot = next(iter(self.factory.board_info.find_pin(self.info.name)))
        return f"{self.info.name} (pin {spot.number} of the header {header.name})"

    def close(self) -> None:
        """Gives the line back. Every load hangs on a driver that low switches off, and that pulls low by itself."""
        self._when_changed = None
        self._unwatch()
        request, self._request, self._failure = self._request, None, None
        if request is None:
            return
        try:
            if self._output:
                request.set_value(self._number, Value.INACTIVE)
        except OSError as error:  # raised here, it would come again when gpiozero's device is collected
            log.warning("%s could not be switched off before it was given back: %s", self.place, error.strerror)
        finally:
            self._output = False
            request.release()

    def output_with_state(self, state: bool) -> None:  # noqa: FBT001 - gpiozero's own
        self._configure(output=True, state=bool(state))

    def input_with_pull(self, pull: str) -> None:
        self._check_pull(pull)
        self._pull = pull
        self._configure(output=False)

    def _get_function(self) -> str:
        return "output" if self._output else "input"

    def _set_function(self, value: str) -> None:
        if value not in ("input", "output"):
            raise PinInvalidFunction(f"{self.place} can be input or output, not {value!r}")
        self._configure(output=value == "output")

    def _get_state(self) -> bool:
        return bool(self._line().get_value(self._number))

    def _set_state(self, value: bool) -> None:  # noqa: FBT001 - gpiozero's own
        if not self._output:
            raise PinSetInput(f"{self.place} is an input and cannot be set")
        if value not in (0, 1):
            raise PinInvalidState(f"{self.place} can be on or off, not {value!r}: it has no PWM")
        self._line().set_value(self._number, Value(value))

    def _get_pull(self) -> str:
        return self._pull

    def _set_pull(self, value: str) -> None:
        if self._output:
            raise PinFixedPull(f"{self.place} is an output and has no pull")
        self.input_with_pull(value)

    def _check_pull(self, value: str) -> None:
        if value not in _BIAS:
            raise PinInvalidPull(f"{self.place} can be pulled up, down or floating, not {value!r}")
        if self.info.pull and value != self.info.pull:
            raise PinFixedPull(f"{self.place} has a resistor that pulls it {self.info.pull}")

    def _set_bounce(self, value: float | None) -> None:
        """The kernel's debounce and gpiozero's mean different things by one word; edges come raw, or not at all."""
        if value is not None:
            raise PinInvalidBounce(f"{self.place} gives every edge: leave bounce_time out and settle them after")

    def _get_edges(self) -> str:
        return self._edges

    def _set_edges(self, value: str) -> None:
        if value not in _EDGES:
            raise PinInvalidEdges(f"{self.place} has edges none, rising, falling or both, not {value!r}")
        self._edges = value
        if self._loop is not None:
            self._configure(output=False)

    # --- the line ---------------------------------------------------------------------------------------

    def _configure(self, *, output: bool, state: bool = False) -> None:
        if output:
            self._unwatch()
        settings = gpiod.LineSettings(
            direction=Direction.OUTPUT if output else Direction.INPUT,
            bias=Bias.AS_IS if output else _BIAS[self._pull],
            edge_detection=Edge.NONE if self._loop is None else _EDGES[self._edges],
            output_value=Value(state),
        )
        if self._request is None:
            self._request = self.factory.request(self, self._number, settings)
            self._seqno = 0
        else:
            self._line().reconfigure_lines({self._number: settings})
        self._output = output

    def _line(self) -> gpiod.LineRequest:
        if self._failure is not None:
            raise OSError(self._failure.errno, f"{self.place}: {self._failure.strerror}")
        if self._request is None:
            self._configure(output=False)
        assert self._request is not None
        return self._request

    # --- its edges --------------------------------------------------------------------------------------

    def _enable_event_detect(self) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError as error:
            text = f"the edges of {self.place} are read by the running asyncio loop, and none runs here"
            raise PinEdgeDetectUnsupported(text) from error
        self._configure(output=False)
        self._loop.add_reader(self._line().fd, self._readable)

    def _disable_event_detect(self) -> None:
        self._unwatch()
        if self._request is not None:
            self._configure(output=False)

    def _unwatch(self) -> None:
        """Before the line is given back: its descriptor may be another's the moment after."""
        if self._loop is not None and self._request is not None:
            self._loop.remove_reader(self._request.fd)
        self._loop = None

    def _readable(self) -> None:
        try:
            changes = self._read(self._line())
        except OSError as error:  # a lost line is readable without end
            self._unwatch()
            self._failure = error
        else:
            self._tell(changes)

    def _read(self, request: gpiod.LineRequest) -> list[tuple[int, bool]]:
        """Time and level of each edge that waits, and of the level itself where edges were lost. OSError."""
        changes: list[tuple[int, bool]] = []
        lost = 0
        for event in request.read_edge_events():
            lost += event.line_seqno - self._seqno - 1
            self._seqno = event.line_seqno
            changes.append((event.timestamp_ns, event.event_type is gpiod.EdgeEvent.Type.RISING_EDGE))
        if lost:
            self.gaps += 1
            level = bool(request.get_value(self._number))
            if level != changes[-1][1]:
                changes.append((self.factory.ticks(), level))
        return changes

    def _tell(self, changes: list[tuple[int, bool]]) -> None:
        """A handler that raises is reported by the loop, and keeps no later edge from being told (bug report 12)."""
        for index, (ticks, level) in enumerate(changes):
            if self._when_changed is None or self._loop is None:
                return
            try:
                self._call_when_changed(ticks, level)
            except BaseException:
                self._loop.call_soon(self._tell, changes[index + 1 :])
                raise
