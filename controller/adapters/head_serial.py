"""The shoe's sensor head on a serial port: `link.session` speaks with it, here its line is opened, read and lost.

An event that moved something is acknowledged when the table's answer says that it is durable, and not before: a head
whose table lost its power tells it again, and the journal knows it by its key.
"""

import asyncio
import logging
import secrets
import termios
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from controller.core.events import Event, FaultGone, FaultSeen
from controller.link.edges import EDGES
from controller.link.messages import BAUD, PROTOCOL
from controller.link.movements import Line
from controller.link.session import Answer, Answered, Down, Output, Question, Session, Told, Trouble, Up
from controller.ports import Outcome, Submit
from controller.sensing import CODE, told
from controller.tty import TROUBLE, Tty, advise

log = logging.getLogger(__name__)

PART = "head"  # the part at fault when the head is of no use
SOURCE = "head"  # of the events' keys
INHERITED = (EDGES, "chip")  # what only sensors on pins can have at fault: of a table that had them before
OUT_MAX = 4096  # bytes that wait for the line: a line so slow, or so stuck, is no use

TEXTS = {
    Trouble.SILENT: "says nothing that is the sensor head's: check its plug and power, and that shoe.port is its port",
    Trouble.DEAF: "does not hear the table: check its RX wire, or the adapter in between",
    Trouble.VERSION: f"speaks another protocol than {PROTOCOL}: bring its firmware and this program to one version, "
    "see `tablectl head version`",
    Trouble.STRANGE: "sends what is not of its protocol: unplug it and plug it in; if it stays so, flash it anew",
}


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

    # --- for people -----------------------------------------------------------------------------------------

    def diag(self) -> dict[str, Any]:
        """`port` `open` `fault` `firmware`, each of `pins`, what `moved` by kind, the `head`'s own counters, `frames`.

        A pin is {name, active, trouble}; `active` means what `Line` says. Nothing here knows a face (B10).
        """
        session, is_open = self.session, self.opened.is_set()
        beat, levels = (session.beat, session.levels) if is_open else (None, {})
        return {
            "port": self._port,
            "open": is_open,
            "fault": self._fault or "",
            "firmware": self.firmware(),
            "pins": [
                {
                    "name": line.value,
                    "active": levels.get(line),
                    "trouble": self._troubles.get(line, ""),
                }
                for line in Line
            ],
            "moved": dict(session.counts),
            "head": {} if beat is None else {name: getattr(beat, name) for name in COUNTERS},
            "frames": {"good": session.frames.good, **session.frames.errors},
        }

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
        wait, longest = self._retry_s
        while True:
            began = self._now()
            try:
                line = _opened(self._port, self._baud)
            except TROUBLE as error:
                self._fail(_advice(error))
            else:
                await self._read(line)
            # A port that comes and goes is not opened more often than one that is not there.
            if self._now() - began > longest * 1e9:
                wait = self._retry_s[0]
            await asyncio.sleep(wait)
            wait = min(2 * wait, longest)

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
                case Up(at=at):
                    self._found(at)
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

    def _found(self, at: int) -> None:
        if self._fault:
            log.warning("sensor head: %s is there again", self._port)
        if self._fault != "":
            self._report(FaultGone(at, CODE, PART))  # also what an earlier run of the program may have left standing
        if self._inherited:
            for part in INHERITED:
                self._report(FaultGone(at, CODE, part))
        self._inherited, self._fault = False, ""
        self.opened.set()
        self.tried.set()

    def _fail(self, what: str) -> None:
        text = f"sensor head port {self._port} {what}"
        if text != self._fault:
            log.warning("%s", text)
        if not self._fault:
            self._report(FaultSeen(self._now(), CODE, PART, text))
        self._fault = text
        self.tried.set()


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
