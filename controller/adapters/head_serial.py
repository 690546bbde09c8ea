"""The shoe's sensor head on a serial port: `link.session` speaks with it, here its line is opened, read and lost.

An event that moved something is acknowledged when the table's answer says that it is durable, and not before: a head
whose table lost its power tells it again, and the journal knows it by its key.
"""

import asyncio
import logging
import secrets
import termios
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from controller.core.events import Event, FaultGone, FaultSeen
from controller.link import calibrate
from controller.link.calibrate import CalibrationError, Spread
from controller.link.edges import EDGES
from controller.link.messages import (
    BAUD,
    BEAT_MS,
    PROTOCOL,
    AskLevels,
    AskThresholds,
    Levels,
    Refusal,
    Refused,
    Seen,
    SelfTest,
    Tested,
    Thresholds,
)
from controller.link.movements import Line
from controller.link.session import Answer, Answered, Down, Output, Question, Session, Told, Trouble, Up
from controller.ports import Outcome, Submit
from controller.retry import Retry
from controller.sensing import CODE, told
from controller.tty import TROUBLE, Tty, advise

log = logging.getLogger(__name__)

PART = "head"  # the part at fault when the head is of no use
SOURCE = "head"  # of the events' keys
INHERITED = (EDGES, "chip")  # what only sensors on pins can have at fault: of a table that had them before
BEAT_S = 2 * BEAT_MS / 1_000  # within which a heartbeat comes
POLL_S, POLL_WATCHED_S = 2.0, 0.1  # how often the levels are asked for, and while somebody watches them
WATCHED_NS = 5_000_000_000  # so long after each look
READINGS = 20  # of a step of the calibration
ACT_MS = 1_500  # what an act takes, about: that many readings, or a self-test
PINS = {  # the channel of each line, and its bit in what a self-test tells; the lid has a switch and no channel
    Line.INNER: ("inner", Seen.INNER),
    Line.OUTER: ("outer", Seen.OUTER),
    Line.CUT: ("cut", Seen.CUT),
    Line.PRESENT: ("present", Seen.PRESENT),
}
OUT_MAX = 4096  # bytes that wait for the line: a line so slow, or so stuck, is no use

TEXTS = {
    Trouble.SILENT: "says nothing that is the sensor head's: check its plug and power, and that shoe.port is its port",
    Trouble.DEAF: "does not hear the table: check its RX wire, or the adapter in between",
    Trouble.RESTARTS: "restarts again and again: take a shorter or thicker cable; if it stays so, flash it anew, see "
    "`tablectl head version`",
    Trouble.VERSION: f"speaks another protocol than {PROTOCOL}: bring its firmware and this program to one version, "
    "see `tablectl head version`",
    Trouble.STRANGE: "sends what is not of its protocol: unplug it and plug it in; if it stays so, flash it anew",
}


REFUSALS = {
    Refusal.UNKNOWN: "its firmware does not know that: bring it and this program to one version",
    Refusal.LENGTH: "its firmware has another protocol: bring it and this program to one version",
    Refusal.RANGE: "the thresholds are too near each other",
    Refusal.BUSY: "a card is at the exit: take it away and try again",
    Refusal.STORE: "its memory did not keep what was written: try again, and replace it if it stays so",
}

A = TypeVar("A", Levels, Tested, Thresholds)


class AskError(Exception):
    """The head was not there to answer, or did not. The text says what to do."""


class _LostError(Exception):
    """The port is lost: `trouble` says why."""

    def __init__(self, trouble: Exception) -> None:
        super().__init__(str(trouble))
        self.trouble = trouble


class HeadSerial:
    """Source: the sensor head on `port` (best a path under /dev/serial/by-id).

    A head that is lost, silent, deaf or of another protocol is one fault I41 of the part `head`; `retry_s` is the first
    and the longest wait between two attempts to open its port. `opened` is set while the head is there; `tried` is set
    once it answered, or the first attempt failed. `fresh` names its boots, at random; `now` is monotonic ns.
    """

    def __init__(
        self,
        *,
        port: str,
        baud: int = BAUD,
        retry_s: tuple[float, float] = (0.2, 2.0),
        fresh: Callable[[], int] = lambda: secrets.randbelow((1 << 32) - 1) + 1,
        now: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.session = Session(fresh)
        self.opened = asyncio.Event()
        self.tried = asyncio.Event()
        self._port, self._baud = port, baud
        self._retry_s = retry_s
        self._now = now
        self._line: Tty | None = None
        self._out = bytearray()  # what the line has not taken yet
        self._fault: str | None = None  # the text of the head's fault that stands; None: not known yet
        self._inherited = True  # a run before this one may have left faults of other sensors
        self._troubles: dict[str, str] = {}  # those of the sensors, by part
        self._timer: asyncio.TimerHandle | None = None
        self._over: asyncio.Future[BaseException] | None = None
        self._submit: Submit | None = None
        self._asking = asyncio.Lock()
        self._answer: asyncio.Future[Answer | None] | None = None
        self._levels: Levels | None = None
        self._thresholds: Thresholds | None = None
        self._tested: Tested | None = None
        self._steps: dict[str, dict[str, Spread]] = {}  # of the calibration, as far as it is
        self._says = ""  # what the last act came to, where it failed
        self._act: asyncio.Task[None] | None = None
        self._watched = 0  # until when

    # --- for people -----------------------------------------------------------------------------------------

    def diag(self) -> dict[str, Any]:
        """`port` `open` `fault` `firmware`, each of `pins`, what `moved` by kind, the `head`'s own counters, `frames`.

        A pin is {name, active, trouble, level, on, off, test}; `active` means what `Line` says, `level` is what it
        reads in ADC counts, `on` and `off` are its thresholds, `test` is the self-test's word. `acting`: an act goes
        on; `says`: what was wrong with the last; `steps`: those of the calibration that are done. Nothing here knows a
        face (B10).
        """
        if self._act is not None and self._act.done() and not self._act.cancelled():
            self._act.result()  # a fault of the program is told here
        self._watched = self._now() + WATCHED_NS
        session, is_open = self.session, self.opened.is_set()
        beat = session.beat if is_open else None
        return {
            "port": self._port,
            "open": is_open,
            "fault": self._fault or "",
            "firmware": self.firmware(),
            "pins": [self._pin(line) for line in Line],
            "moved": dict(session.counts),
            "head": {} if beat is None else {name: getattr(beat, name) for name in COUNTERS},
            "frames": {"good": session.frames.good, **session.frames.errors},
            "thresholds": "" if self._thresholds is None else _KEPT[self._thresholds.kept],
            "acting": self._act is not None and not self._act.done(),
            "says": self._says,
            "steps": list(self._steps),
        }

    def _pin(self, line: Line) -> dict[str, Any]:
        is_open = self.opened.is_set()
        told: dict[str, Any] = {
            "name": line.value,
            "active": self.session.levels.get(line) if is_open else None,
            "trouble": self._troubles.get(line, ""),
        }
        if line in PINS:
            channel, bit = PINS[line]
            if is_open and self._levels is not None:
                told["level"] = getattr(self._levels, channel)
            if self._thresholds is not None:
                told |= {way: getattr(self._thresholds, f"{channel}_{way}") for way in ("on", "off")}
            if self._tested is not None:
                dark, lit = (getattr(self._tested, f"{channel}_{way}") for way in ("dark", "lit"))
                told["test"] = f"{'good' if self._tested.passed & bit else 'BAD'}: dark {dark}, lit {lit}"
        return told

    def act(self, name: str) -> int:
        """Begins `test`, a step of the calibration (`calibrate.STEPS`), or `keep`, its end; how long it takes, ms.

        What it came to `diag` tells, once it is not `acting` any more.
        """
        if self._act is not None:
            self._act.cancel()
        self._says = ""
        work = {"test": self._test, "keep": self._keep}.get(name, partial(self._step, name))
        self._act = asyncio.get_running_loop().create_task(self._do(work))
        return ACT_MS

    async def _do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except (AskError, CalibrationError) as error:
            self._says = str(error)

    async def _test(self) -> None:
        self._tested = None
        self._tested = _wanted(await self.ask(SelfTest()), Tested)

    async def _step(self, name: str) -> None:
        self._steps.pop(name, None)
        self._steps[name] = calibrate.spreads([await self._reading() for _ in range(READINGS)])

    async def _keep(self) -> None:
        wanted = calibrate.thresholds(self._steps)
        kept = self._thresholds = _wanted(await self.ask(wanted), Thresholds)
        if kept != (1, kept.generation, *wanted):
            raise AskError("the sensor head keeps other thresholds than it was given: flash it anew")
        self._steps.clear()

    async def _reading(self) -> Levels:
        await asyncio.sleep(ACT_MS / 1_000 / READINGS / 2)
        self._levels = _wanted(await self.ask(AskLevels()), Levels)
        return self._levels

    async def _poll(self) -> None:
        """Thresholds once a boot, levels again and again, for whoever looks."""
        while True:
            await self.opened.wait()
            try:
                if self._thresholds is None:
                    self._thresholds = _wanted(await self.ask(AskThresholds()), Thresholds)
                self._levels = _wanted(await self.ask(AskLevels()), Levels)
            except AskError as error:
                log.debug("%s", error)
                self._levels = None
            if self.session.beat is None:  # its counters come with the next one
                await asyncio.sleep(BEAT_S)
            self.tried.set()
            await asyncio.sleep(POLL_WATCHED_S if self._now() < self._watched else POLL_S)

    def firmware(self) -> dict[str, Any] | None:
        """What the head said that it is: `version`, `build` (hex), `protocol`, `boots` since power came, `cause`."""
        hello = self.session.hello
        if hello is None:
            return None
        return {
            "version": f"{hello.major}.{hello.minor}.{hello.patch}",
            "build": f"{hello.build:08x}",
            "protocol": hello.protocol,
            "boots": hello.boots,
            "cause": [cause.name.lower() for cause in hello.cause if cause.name],
        }

    async def ask(self, question: Question) -> Answer:
        """The head's answer; AskError where there is none. One at a time, in order."""
        async with self._asking:
            if self._answer is not None:
                await asyncio.wait([self._answer])  # that of somebody who went away
            if not self.opened.is_set():
                raise AskError(self._fault or f"{self._port}: the sensor head is not there yet")
            waited: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
            self._answer = waited
            self.session.ask(question, self._now())
            self._guarded(self._settle, [])
            await asyncio.wait([waited])
        answer = waited.result()
        if answer is None:
            raise AskError(f"{self._port}: the sensor head did not answer: try again")
        return answer

    # --- the line -------------------------------------------------------------------------------------------

    async def run(self, submit: Submit) -> None:
        self._submit = submit
        tasks = [asyncio.create_task(work) for work in (self._serve(), self._poll())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            if self._act is not None:
                tasks.append(self._act)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self) -> None:
        """The port, opened and read again and again."""
        retry = Retry(self._retry_s, self._now)
        while True:
            try:
                line = _opened(self._port, self._baud)
            except TROUBLE as error:
                self._fail(_advice(error))
            else:
                await self._read(line)
            await retry.rest()

    async def _read(self, line: Tty) -> None:
        """Reads until the port is lost and reported; it is closed on every way out."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[BaseException] = loop.create_future()
        self._line, self._over = line, over
        try:
            self._out.clear()
            self.session.connect(self._now())
            loop.add_reader(line.fd, self._guarded, self._readable)
            self._guarded(self._settle, [])
            lost = await over
        finally:
            self._line = self._over = None
            self._stop_timer()
            loop.remove_reader(line.fd)
            loop.remove_writer(line.fd)
            line.close()
            self.opened.clear()
            self._hand_out(self.session.disconnect())
        if not isinstance(lost, _LostError):
            raise lost
        self._fail(_advice(lost.trouble))

    def _guarded(self, work: Callable[..., None], *args: Any) -> None:  # noqa: ANN401 - whatever the work takes
        """What goes wrong in a callback ends `run`, or the port: else it would only be logged."""
        if self._over is None or self._over.done():
            return
        try:
            work(*args)
        except Exception as error:  # noqa: BLE001 -- hides nothing: `_read` raises it, or reports the lost port
            self._over.set_result(error)

    def _readable(self) -> None:
        assert self._line is not None, "read while it is open"
        try:
            data = self._line.read()
        except TROUBLE as error:
            raise _LostError(error) from error
        self._settle(self.session.feed(data, self._now()))

    def _elapsed(self) -> None:
        self._timer = None
        self._settle(self.session.elapse(self._now()))

    def _settle(self, outputs: list[Output]) -> None:
        """After whatever happened: tells the table, sends what is owed, and sets the clock for what comes next."""
        self._hand_out(outputs)
        if self.session.caught_up:
            self._well()
        self._push()
        self._stop_timer()
        due = self.session.due
        if due is not None:
            wait = max(0, due - self._now()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(wait, self._guarded, self._elapsed)

    def _push(self) -> None:
        """As much of what is to be sent as the line takes."""
        assert self._line is not None, "written to while it is open"
        self._out += self.session.take()
        try:
            if len(self._out) > OUT_MAX:
                raise OSError("it takes no more bytes")
            if self._out:
                del self._out[: self._line.write(bytes(self._out))]
        except TROUBLE as error:
            raise _LostError(error) from error
        loop = asyncio.get_running_loop()
        if self._out:
            loop.add_writer(self._line.fd, self._guarded, self._push)
        else:
            loop.remove_writer(self._line.fd)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- telling --------------------------------------------------------------------------------------------

    def _hand_out(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Told():
                    self._tell(output)
                case Up():
                    self._thresholds = None
                    self.opened.set()  # `tried` waits for the first levels: who asks once wants to see them
                case Down(trouble=trouble):
                    self.opened.clear()
                    self._fail(TEXTS[trouble])
                case Answered(answer=answer):
                    if self._answer is not None and not self._answer.done():
                        self._answer.set_result(answer)

    def _tell(self, one: Told) -> None:
        event = told(one.report)
        if isinstance(event, FaultSeen):
            log.warning("sensor head: %s", event.text)
            self._troubles[event.part] = event.text
        elif isinstance(event, FaultGone):
            self._troubles.pop(event.part, None)
        if one.key is None:
            self._report(event)
            return
        boot, seq = one.key
        answer = self._report(replace(event, key=(SOURCE, f"{boot:08x}:{seq}")))
        answer.add_done_callback(partial(self._durable, one.key))

    def _durable(self, key: tuple[int, int], answer: "asyncio.Future[Outcome]") -> None:
        """The table has it: in its journal, or it said that there is nothing to be kept."""
        if not answer.cancelled() and answer.exception() is None:
            self.session.durable(key)
            self._guarded(self._push)

    def _report(self, event: Event) -> "asyncio.Future[Outcome]":
        assert self._submit is not None, "only a head that is run reports"
        return self._submit(event)

    def _well(self) -> None:
        """It is there, and has told what it saw meanwhile: who counts the cards from now on counts none of those."""
        if self._fault == "":
            return
        if self._fault:
            log.warning("sensor head: %s is there again", self._port)
        self._report(FaultGone(self._now(), CODE, PART))  # also what an earlier run of the program may have left
        if self._inherited:
            for part in INHERITED:
                self._report(FaultGone(self._now(), CODE, part))
        self._inherited, self._fault = False, ""

    def _fail(self, what: str) -> None:
        text = f"sensor head port {self._port} {what}"
        if text != self._fault:
            log.warning("%s", text)
        if not self._fault:
            self._report(FaultSeen(self._now(), CODE, PART, text))
        self._fault = text
        self.tried.set()


_KEPT = ("the firmware's own: calibrate it", "kept")
COUNTERS = (  # of the heartbeat, as `diag` tells them
    "supply_mv",
    "uptime_ms",
    "waiting",
    "cards",
    "glitches",
    "pullbacks",
    "resent",
    "bad_frames",
    "overflows",
    "late_ticks",
)


def _wanted(answer: Answer, kind: type[A]) -> A:
    if isinstance(answer, Refused):
        raise AskError(f"the sensor head refused: {REFUSALS[answer.why]}")
    assert isinstance(answer, kind), "the session takes no other answer"
    return answer


def _advice(error: Exception) -> str:
    return advise(error, check="the sensor head's plug and power", key="shoe")


def _opened(port: str, baud: int) -> Tty:
    """The port, which keeps DTR up when it is closed (HUPCL, termios(3)): its next rise would reset a Nano."""
    line = Tty(port, baud)
    try:
        settings = termios.tcgetattr(line.fd)
        settings[2] &= ~termios.HUPCL
        termios.tcsetattr(line.fd, termios.TCSANOW, settings)
    except TROUBLE:
        line.close()
        raise
    return line
