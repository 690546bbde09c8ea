"""Lamps and buzzer: what `View.lamps` says, on pins. One task, no thread, no PWM; knows nothing of the game.

A picture is a function of the lamps, the time and nothing else, so that a late wake-up paints what is right now. Only
what changed is written. A betting time costs 2 n + 4 writes (n lamps of the bar on and off, amber and the buzzer on
and off), and four a second while the red lamps flash; a wake-up for each of these moments, and one for each View.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpiozero import LED, Buzzer, GPIOZeroError
from gpiozero.pins import Factory

from controller.core.events import FaultGone, FaultSeen
from controller.core.facts import Phase
from controller.core.view import Lamps, Pattern, View
from controller.ports import Submit

log = logging.getLogger(__name__)

LAMPS, BUZZER = "lamps", "buzzer"  # fault codes, each with the part of its name
TROUBLE = (OSError, GPIOZeroError, RuntimeError)  # how a pin says no; the last is RPi.GPIO's one word
MS = 1_000_000
SOUND_NS = 1_000 * MS  # heard over a full table, and over before the first card is turned
TEST_STEP_NS, TEST_ALL_NS = 300 * MS, 1_000 * MS  # a test: each alone, then all of them
NAMES_MAX = 16  # closings remembered as sounded; they come one after the other

# How the red lamps tell what they mean: on, off, on … for so many ms, and from the start again. One number: steady.
FIGURES: dict[str, tuple[int, ...]] = {
    Pattern.OFF: (),
    Pattern.BETTING: (),
    Pattern.NO_MORE: (250, 250),  # 2 Hz (C1)
    Pattern.HELD: (1,),
    Pattern.OFFLINE: (1_000, 1_000),
    Pattern.MANUAL: (200, 200, 200, 1_400),  # two blinks every two seconds (I42)
}


class Picture(NamedTuple):
    """What burns: of the bar all but the first `out`. It stays so until `until`; None: for good."""

    out: int
    amber: bool
    red: bool
    until: int | None


def paint(lamps: Lamps, since: int, at: int, bar: int) -> Picture:
    """The picture at `at`, monotonic ns, of a pattern that shows since `since`, on a bar of so many lamps."""
    pattern = lamps.pattern_at(at)
    if pattern is Pattern.BETTING:
        return _betting(lamps, at, bar)
    red, changes = _flash(FIGURES[pattern], at - since)
    return Picture(bar, amber=False, red=red, until=None if changes is None else since + changes)


def _betting(lamps: Lamps, at: int, bar: int) -> Picture:
    """The bar goes out lamp by lamp, the last one at the deadline; amber burns in the last quarter."""
    span = max(1, lamps.closes_at - lamps.opened_at)
    out = max(0, (at - lamps.opened_at) * bar // span)
    amber_at = lamps.closes_at - span // 4
    goes_out = [lamps.opened_at + _ceil((index + 1) * span, bar) for index in range(out, bar)]
    times = (*goes_out[:1], amber_at, lamps.closes_at)
    return Picture(out, amber=at >= amber_at, red=False, until=min(moment for moment in times if moment > at))


def _ceil(number: int, by: int) -> int:
    return -(-number // by)


def _flash(figure: Sequence[int], age: int) -> tuple[bool, int | None]:
    """Whether a figure is on at that age, ns, and the age at which that changes."""
    if len(figure) < 2:
        return bool(figure), None
    at = age % (sum(figure) * MS)
    on = True
    for length in figure:
        at -= length * MS
        if at < 0:
            break
        on = not on
    return on, age - at


class Rehearsal(NamedTuple):
    """A test of a part, `lamps` or `buzzer`, and its time, monotonic ns."""

    part: str
    began: int
    until: int


def rehearse(age: int, count: int) -> tuple[list[bool], int]:
    """What of `count` pins is on at that age, ns, of a test, and the age at which that changes or the test ends."""
    step = age // TEST_STEP_NS
    if step < count:
        return [index == step for index in range(count)], (step + 1) * TEST_STEP_NS
    return [True] * count, count * TEST_STEP_NS + TEST_ALL_NS


class _Output:
    """One pin: what it shows, and while it is lost, why."""

    def __init__(self, name: str, pin: int, part: str, make: Callable[[], Any]) -> None:
        self.name = name
        self.part = part
        self.pin = pin
        self.trouble = ""
        self.lit = False
        self._make = make
        self._device: Any = None

    @property
    def is_open(self) -> bool:
        return self._device is not None

    def put(self, *, lit: bool) -> None:
        """One write where something changes; opened, dark, where it is not. TROUBLE."""
        if self._device is None:
            self._device, self.lit = self._make(), False
        if lit != self.lit:
            (self._device.on if lit else self._device.off)()
            self.lit = lit
        self.trouble = ""

    def lose(self, error: Exception) -> None:
        self.trouble = f"{self.name} on GPIO{self.pin} fails ({error})"
        self.close()

    def close(self) -> None:
        device, self._device, self.lit = self._device, None, False
        try:
            if device is not None:
                device.close()
        except TROUBLE as error:
            log.warning("%s on GPIO%d could not be closed: %s", self.name, self.pin, error)


class LampsGpio:
    """`ports.Panel`, and the Source of its own faults: while `run` runs, the pins show what `show` was given last.

    Pins are BCM numbers: `timer` the bar as it goes out, `amber` and `red` one driver each for all lamps of the colour,
    `call` the pit boss's lamp, `buzzer`; what is None is not wired. `now` is CLOCK_MONOTONIC, ns. `retry_s` is the
    first and the longest wait before a lost pin is tried again; the fault is over when all went well for the longest.
    `tried` is set once all pins were tried. A pin that fails takes no other with it.
    """

    def __init__(
        self,
        factory: Factory,
        *,
        timer: Sequence[int] = (),
        amber: int | None = None,
        red: int | None = None,
        call: int | None = None,
        buzzer: int | None = None,
        now: Callable[[], int] = time.monotonic_ns,
        retry_s: tuple[float, float] = (0.2, 2.0),
    ) -> None:
        self.tried = asyncio.Event()
        self._now = now
        self._bar = [_lamp(factory, f"timer lamp {index + 1}", pin) for index, pin in enumerate(timer)]
        self._amber, self._red, self._call = (
            [] if pin is None else [_lamp(factory, f"{name} lamp", pin)]
            for name, pin in (("amber", amber), ("red", red), ("call", call))
        )
        self._buzzer = [] if buzzer is None else [_Output("buzzer", buzzer, BUZZER, _maker(Buzzer, buzzer, factory))]
        self._outputs = [*self._bar, *self._amber, *self._red, *self._call, *self._buzzer]
        self._lamps = Lamps()
        self._phase: Phase | None = None
        self._rehearsal: Rehearsal | None = None
        self._pattern, self._since = Pattern.OFF, 0
        self._sounded: deque[str] = deque(maxlen=NAMES_MAX)
        self._sound_until = 0
        self._retry_ns = [round(seconds * 1e9) for seconds in retry_s]
        self._wait = self._retry_ns[0]
        self._retry_at = 0
        self._well_since: int | None = None  # since when no pin is lost
        self._faults: dict[str, bool | None] = dict.fromkeys((LAMPS, BUZZER))  # whether it stands; None: not known yet
        self._woken: asyncio.Future[None] | None = None

    @property
    def lit(self) -> dict[str, bool]:
        """What each pin shows, by its name."""
        return {output.name: output.lit for output in self._outputs}

    def diag(self, part: str) -> dict[str, Any]:
        """For people, of `lamps` or `buzzer`: `pins` {name, pin, lit, trouble}; `lit` is None while not open."""
        own = [output for output in self._outputs if output.part == part]
        return {
            "pins": [
                {
                    "name": output.name,
                    "pin": output.pin,
                    "lit": output.lit if output.is_open else None,
                    "trouble": output.trouble,
                }
                for output in own
            ]
        }

    def test(self, part: str) -> int:
        """Begins a test of `lamps` or `buzzer` and says how long it lasts, ms: each pin alone, then all of them.

        It ends sooner with a view that shows other lamps, or another phase: what the lamps say comes first.
        """
        count = sum(output.part == part for output in self._outputs)
        lasts, at = count * TEST_STEP_NS + TEST_ALL_NS, self._now()
        self._rehearsal = Rehearsal(part, at, at + lasts)
        self._wake()
        return lasts // MS

    def show(self, view: View) -> None:
        self._hear(self._now())  # a closing that came due before this view is heard, whatever follows it
        if view.lamps != self._lamps or view.phase is not self._phase:
            self._rehearsal = None
        self._lamps, self._phase = view.lamps, view.phase
        self._wake()

    async def run(self, submit: Submit) -> None:
        """Shows until cancelled, and leaves all dark. A pin that is lost is a fault, `lamps` or `buzzer`."""
        try:
            while True:
                due = self._draw(self._now())
                self._report(submit)
                self.tried.set()
                await self._rest(due)
        finally:
            self._dark()

    # --- one picture ------------------------------------------------------------------------------------

    def _draw(self, at: int) -> int | None:
        """Puts the picture of this moment on the pins, and says when it changes by itself."""
        self._hear(at)
        lamps = self._lamps
        pattern = lamps.pattern_at(at)
        if pattern is not self._pattern:
            self._pattern = pattern
            self._since = min(at, lamps.closes_at) if pattern is Pattern.NO_MORE else at
        picture = paint(lamps, self._since, at, len(self._bar))
        sounds = at < self._sound_until
        wanted = (
            *[index >= picture.out for index in range(len(self._bar))],
            *[picture.amber for _ in self._amber],
            *[picture.red for _ in self._red],
            *[lamps.call for _ in self._call],
            *[sounds for _ in self._buzzer],
        )
        shown, changes = self._rehearsed(wanted, at)
        times = (picture.until, self._sound_until if sounds else None, changes, self._put(shown, at))
        return min((moment for moment in times if moment is not None), default=None)

    def _rehearsed(self, wanted: Sequence[bool], at: int) -> tuple[Sequence[bool], int | None]:
        """The picture with what a test shows in its place, and when that changes."""
        test = self._rehearsal
        if test is None or at >= test.until:
            self._rehearsal = None
            return wanted, None
        own = [output.part == test.part for output in self._outputs]
        lit, changes = rehearse(at - test.began, sum(own))
        tested = iter(lit)
        return [next(tested) if mine else old for mine, old in zip(own, wanted, strict=True)], test.began + changes

    def _hear(self, at: int) -> None:
        """A closing whose sound is due, sounds: once for its name, however often it is shown (C1)."""
        lamps = self._lamps
        if lamps.buzz and lamps.buzz not in self._sounded and lamps.pattern_at(at) is Pattern.NO_MORE:
            self._sounded.append(lamps.buzz)
            self._sound_until = at + SOUND_NS

    def _put(self, wanted: Sequence[bool], at: int) -> int | None:
        """Writes what changed, tries again what is lost, and says when to come back for that."""
        may_retry = at >= self._retry_at
        failed = False
        for output, lit in zip(self._outputs, wanted, strict=True):
            if not output.is_open and not may_retry:
                continue
            try:
                output.put(lit=lit)
            except TROUBLE as error:
                output.lose(error)
                failed = True
        first, longest = self._retry_ns
        if failed:
            self._retry_at = at + self._wait
            self._wait = min(2 * self._wait, longest)
        if not all(output.is_open for output in self._outputs):
            self._well_since = None
            return self._retry_at
        if self._well_since is None:
            self._well_since = at
        calm_at = self._well_since + longest
        if at >= calm_at:
            self._wait = first
        return calm_at if any(self._faults.values()) and at < calm_at else None

    def _is_calm(self, at: int) -> bool:
        """A pin that comes and goes is one fault, not a message at every blink."""
        return self._well_since is not None and at - self._well_since >= self._retry_ns[1]

    def _report(self, submit: Submit) -> None:
        at = self._now()
        for code, stands in self._faults.items():
            lost = [output.trouble for output in self._outputs if output.part == code and output.trouble]
            if lost and not stands:
                text = f"{lost[0]}: check its wiring, and that no other program has the pin"
                log.warning("%s", "; ".join(lost))
                self._faults[code] = True
                submit(FaultSeen(at, code, code, text))
            elif not lost and (stands is None or (stands and self._is_calm(at))):
                if stands:
                    log.warning("all pins of %s work again", code)
                self._faults[code] = False  # at first too: a fault of the run before may still stand
                submit(FaultGone(at, code, code))

    # --- the task ---------------------------------------------------------------------------------------

    async def _rest(self, due: int | None) -> None:
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        timer = None if due is None else loop.call_later(max(0, due - self._now()) / 1e9, self._wake)
        try:
            await self._woken
        finally:
            self._woken = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _dark(self) -> None:
        """All off first, then released: a released pin may float (G10), and a lamp half on says something."""
        for output in self._outputs:
            try:
                if output.is_open:
                    output.put(lit=False)
            except TROUBLE as error:
                log.warning("%s on GPIO%d could not be switched off: %s", output.name, output.pin, error)
        for output in self._outputs:
            output.close()


def _lamp(factory: Factory, name: str, pin: int) -> _Output:
    return _Output(name, pin, LAMPS, _maker(LED, pin, factory))


def _maker(device: Callable[..., Any], pin: int, factory: Factory) -> Callable[[], Any]:
    return lambda: device(pin, pin_factory=factory)
