"""A scanner as a Source, whatever it is plugged into: opened, left to pause, read, lost, opened again.

An adapter opens its device and hands it over as a `Device`; all that comes after the opening is the same for each. The
event loop reads the descriptor itself, one wake-up a chunk, so that nothing ever waits for a scanner. Log lines hold
counts and never a code: no face leaves by any door before its card is placed (B10).
"""

import asyncio
import errno
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Required, TypedDict

from .core.cards import Card
from .core.codes import Codes, Scans, Sign
from .core.events import FaultGone, FaultSeen
from .link.doubt import Doubt
from .link.lines import Line, Lines
from .ports import Submit
from .retry import Retry

log = logging.getLogger(__name__)

FAULTS = {False: ("I40", "scanner"), True: ("hand_scanner", "scanner.hand")}  # code and part, a section, by `hand`
LINE_MAX = 128  # bytes: more than any code of ours, so that a foreign label is told whole (I06)
SETTLE_S = 0.05  # six characters at 1200 baud, three packets of a USB device that is asked each 16 ms
SETTLE_TRIES = 20  # a second: what never pauses is no scanner, or none that we understand
NOISE_LOG_NS = 10_000_000_000  # the noise of so long is one line in the log
HEARD_MAX = 8  # lines that `diag` shows
STRANGE = "sends nothing that is a code: check that it is the scanner, how the scanner is set up, and scanner.codes"

Piece = tuple[int, bytes]
"""Bytes of lines, and when they came: monotonic ns."""


class Heard(NamedTuple):
    """A line as `diag` tells it: what it was, and its text; None where that may not be known (B10)."""

    kind: str
    text: str | None


def never() -> bool:
    """For `in_clear`: no text is ever shown."""
    return False


class Device(Protocol):
    """An open device, ours alone. Each method raises what its adapter names as trouble when the device is lost."""

    @property
    def fd(self) -> int:
        """Readable when something came, and when the device is gone."""

    def discard(self) -> int:
        """Throws away what waits; how many bytes that was."""

    def begin(self) -> bool:
        """What comes from now on is read; whether a line may be under way whose head nobody saw."""

    def take(self, now: int) -> Sequence[Piece]:
        """What came by `now`; nothing where another program was faster. OSError with ENODEV at the end of the file."""

    def close(self) -> None:
        """Lets go of it; never raises."""


def gone() -> OSError:
    """The end of the file: what a device that was pulled out reads as."""
    return OSError(errno.ENODEV, "end of file")


class Reads(TypedDict, total=False):
    """How a scanner is read, whatever it is plugged into; what is left out is as `Reading` has it."""

    codes: Required[Codes]
    repeat_ms: int
    idle_ms: int
    retry_s: tuple[float, float]
    in_clear: Callable[[], bool]
    now: Callable[[], int]
    hand: bool


class Reading:
    """Source: the device that `connect` opens; `codes` and `repeat_ms` as `Scans` has them.

    Half a line is noise after `idle_ms` of silence. A device that is lost, or not there, or that sends no codes, is one
    fault I40 until it is read again, or sends one; `advice` says what to do of any of `trouble`, after the port's name,
    and is told the section of the configuration that the device is in.
    `retry_s` is the first and the longest wait between two attempts to open it. `opened` is set while the device is
    read: what was sent before is not taken. `tried` is set once the first attempt is over, whatever its end.
    `in_clear` says whether no card can be in play now, so that `diag` may tell what a line says. `now` is
    CLOCK_MONOTONIC, ns. `hand`: it is the scanner for the hand, which reads cards that are out; its fault is
    `hand_scanner`, and the game can do without it.
    """

    def __init__(
        self,
        *,
        port: str,
        connect: Callable[[], Device],
        trouble: tuple[type[Exception], ...],
        advice: Callable[[Exception, str], str],
        codes: Codes,
        repeat_ms: int = 0,
        idle_ms: int = 200,
        retry_s: tuple[float, float] = (0.2, 2.0),
        in_clear: Callable[[], bool] = never,
        now: Callable[[], int] = time.monotonic_ns,
        hand: bool = False,
    ) -> None:
        self.lines = Lines(LINE_MAX, idle_ms * 1_000_000)
        self.scans = Scans(codes, repeat_ms, hand=hand)
        self.doubt = Doubt()
        self.opened = asyncio.Event()
        self.tried = asyncio.Event()
        self._port = port
        self._name = f"scanner port {port}"
        self._connect = connect
        self._trouble = trouble
        self._advice = advice
        self._codes = codes
        self._retry_s = retry_s
        self._in_clear = in_clear
        self._now = now
        self._hand = hand
        self._heard: deque[Heard] = deque(maxlen=HEARD_MAX)
        self._fault: str | None = None  # the text of the fault that stands; None: what a run before this one saw
        self._timer: asyncio.TimerHandle | None = None  # set while half a line waits
        self._dropped = 0  # `lines.dropped` at the last line
        self._doubted = 0  # `lines.dropped` when it last counted for doubt
        self._logged = 0  # `lines.dropped` at the last word about it in the log
        self._logged_at = -NOISE_LOG_NS

    def diag(self) -> dict[str, Any]:
        """For people: `port` `open` `fault`, `counted` since the start, and the `last` lines {kind, text}, newest last.

        The text of a line is told only where `in_clear` held when it came, and holds now: else the line would tell a
        face before its card is placed. Its length is not told either: in a table of the house's own it may be a ten's.
        """
        lines, clear = self.lines, self._in_clear()
        counted = {name: getattr(lines, name) for name in ("clean", "dirty", "halves", "overlong")}
        return {
            "port": self._port,
            "open": self.opened.is_set(),
            "fault": self._fault or "",
            "counted": {**counted, "repeats": self.scans.repeats},
            "last": [{"kind": heard.kind, "text": heard.text if clear else None} for heard in self._heard],
        }

    async def run(self, submit: Submit) -> None:
        retry = Retry(self._retry_s, self._now)
        while True:
            try:
                device = self._connect()
            except self._trouble as error:
                self._lost(submit, error)
            else:
                await self._read(device, submit)
            await retry.rest()

    async def _read(self, device: Device, submit: Submit) -> None:
        """Reads until the device is lost and reported; it is closed on every way out."""
        try:
            await self._settle(device)
        except self._trouble as error:
            lost: Exception = error
        else:
            loop = asyncio.get_running_loop()
            over: asyncio.Future[Exception] = loop.create_future()
            loop.add_reader(device.fd, self._readable, device, submit, over)
            self._await_rest(submit)
            self.opened.set()
            self._found(submit, self._now())
            lost = await over
        finally:
            self._close(device)
        self._lost(submit, lost)

    async def _settle(self, device: Device) -> None:
        """Drops what came before the device was ours; any of trouble.

        A card scanned while nobody read has no number, and its dealer is asked to scan it again (I35): taken late, it
        would stand twice. A code under way as the device opens comes without its head, and the tail of one may be
        another: NOREAD ends in the ace of diamonds. Hence a pause; without one, the line under way is dropped.
        """
        came = waiting = 0
        for _ in range(SETTLE_TRIES):
            await asyncio.sleep(SETTLE_S)
            waiting = device.discard()
            came += waiting
            if not waiting:
                break
        if came:
            log.warning("%s: %d bytes that came as it opened are not taken", self._name, came)
        underway = device.begin()
        self.lines.restart(self._now(), midline=waiting > 0 or underway)
        self._doubted = self.lines.dropped
        self.doubt.restart()

    def _readable(self, device: Device, submit: Submit, over: "asyncio.Future[Exception]") -> None:
        """The loop calls this when the device has something, and when it is gone.

        What ends `over` wakes `_read`, which closes the device in the next turn: a lost device is readable without end.
        """
        now = self._now()
        if over.done():
            return
        try:
            lost = self._take(device, now, submit)
        except Exception as error:  # noqa: BLE001 -- hides nothing: in a callback it would only be logged, so it ends `run`
            over.set_exception(error)
            return
        if lost is not None:
            over.set_result(lost)

    def _take(self, device: Device, now: int, submit: Submit) -> Exception | None:
        """Tells the table what came; returns why the device is lost, when it is."""
        try:
            pieces = device.take(now)
        except self._trouble as error:
            return error
        for at, data in pieces:
            for line in self.lines.feed(data, at):
                self._tell(line, submit)
        self._await_rest(submit)
        return None

    def _tell(self, line: Line, submit: Submit) -> None:
        """One line to the table; where nothing sounds like a scanner, a fault and not line for line."""
        torn, self._dropped = self.lines.dropped != self._dropped, self.lines.dropped
        read = self._codes.classify(line.text) if line.clean else Sign.UNKNOWN
        known = read is not Sign.UNKNOWN
        self._heard.append(Heard(_kind(read) if line.clean else "noise", line.text if self._in_clear() else None))
        if known or not torn:
            self.doubt.hear(known=known)
        if self.doubt.strange:
            self._fail(submit, line.at, f"{self._name} {STRANGE}")
            return
        if known:
            self._found(submit, line.at)
        submit(self.scans.event(line.text, line.at, clean=line.clean, torn=torn))

    def _await_rest(self, submit: Submit) -> None:
        """Sees to it that half a line does not wait for ever, and that noise is heard of."""
        due = self.lines.due
        if due is None:
            self._stop_timer()
        elif self._timer is None:
            wait = max(0, due - self._now()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(wait, self._silent, submit)
        if self.lines.dropped != self._logged:
            self._log_noise()
        for _ in range(self.lines.dropped - self._doubted):
            self.doubt.hear(known=False)
        self._doubted = self.lines.dropped
        if self.doubt.strange:
            self._fail(submit, self._now(), f"{self._name} {STRANGE}")

    def _silent(self, submit: Submit) -> None:
        self._timer = None
        self.lines.idle(self._now())
        self._await_rest(submit)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _log_noise(self) -> None:
        now = self._now()
        if now - self._logged_at < NOISE_LOG_NS:
            return
        pieces = self.lines.dropped - self._logged
        log.warning("%s: %d pieces of noise: check the scanner's cable and settings", self._name, pieces)
        self._logged, self._logged_at = self.lines.dropped, now

    def _close(self, device: Device) -> None:
        self.opened.clear()
        self._stop_timer()
        asyncio.get_running_loop().remove_reader(device.fd)
        device.close()

    def _found(self, submit: Submit, at: int) -> None:
        if self._fault != "":
            submit(FaultGone(at, *FAULTS[self._hand]))  # also what an earlier run of the program may have left standing
        if self._fault:
            log.warning("%s is read again", self._name)
        self._fault = ""
        self.tried.set()

    def _lost(self, submit: Submit, error: Exception) -> None:
        _, section = FAULTS[self._hand]
        self._fail(submit, self._now(), f"{self._name} {self._advice(error, section)}")

    def _fail(self, submit: Submit, at: int, text: str) -> None:
        if text != self._fault:
            log.warning("%s", text)
        if not self._fault:
            submit(FaultSeen(at, *FAULTS[self._hand], text))
        self._fault = text
        self.tried.set()


def _kind(read: Card | Sign) -> str:
    return "card" if isinstance(read, Card) else _KINDS[read]


_KINDS = {Sign.CUT: "cut card", Sign.NO_READ: "misread", Sign.UNKNOWN: "unknown"}
