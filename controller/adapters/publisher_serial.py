"""The feed on a serial line to the casino: the journal's exact bytes, at least once, in order (docs/serial-link.md).

The protocol is `link.wire_table`'s; here is the line that it runs on. Keeps no message of its own: what is sent again
is read from the outbox again. What the line or its other end does wrong ends the session, and the next one begins; what
a handler of ours raises ends `run`, so that the daemon restarts.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from controller.link.frame import CRC32, Frames
from controller.link.wire import LIMIT, MESSAGE_MAX, SECOND, SESSIONS, Kind, WireError
from controller.link.wire_table import TableEnd
from controller.ports import Answer, Ask, Outbox, Submit
from controller.reporting import HIGH, LOW, Report, no_receipt, receipted
from controller.retry import Retry
from controller.tty import LOST, TROUBLE, Tty, advise

CHECK = "the cable to the casino server"
COMMANDS_MAX = 16  # without their answer: bounds what commands may cost at once
NOISE_LOG_S = 10.0  # the noise of so long is one line in the log, and so is what makes no sense

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds; `high` and `low` are the backlog's marks in messages (I34).

    `stall_s` without a receipt sends again; `rest_s` is between two sessions; `farewell_s` bounds what a clean stop
    still sends; `retry_s` is the first and the longest wait between two attempts to open the port.
    """

    stall_s: float = 30.0
    rest_s: float = 1.0
    farewell_s: float = 2.0
    retry_s: tuple[float, float] = (0.2, 2.0)
    high: int = HIGH
    low: int = LOW


class PublisherSerial:
    """`port` (best a path under /dev/serial/by-id) at `baud`, 8N1, of table `table`.

    `receipt`: with `broker` the other end's acknowledgement is the receipt; with `server` it is the casino server's
    word, and an acknowledgement only slides the window. `ask` takes the casino server's commands. Everything here
    belongs to the loop's own thread.
    """

    name = "serial"

    def __init__(
        self,
        *,
        port: str,
        baud: int,
        table: str,
        primary: bool,
        receipt: Literal["broker", "server"],
        ask: Ask,
        limits: Limits = Limits(),
    ) -> None:
        self.port, self.baud, self.table = port, baud, table
        self.receipt, self.ask, self.limits = receipt, ask, limits
        self.frames = Frames(CRC32, LIMIT)
        self.strange = self.stalls = self.sessions = 0
        self._primary = primary
        self._line: _Line | None = None
        self._report: Report | None = None

    def diag(self) -> dict[str, Any]:
        """For people: `port` `open`, `fault` (why the link is down), and what was `counted` since the start."""
        counted = {"sessions": self.sessions, "frames": self.frames.good, **self.frames.errors}
        fault = self._report.trouble if self._report is not None else "not begun yet"
        return {
            "port": self.port,
            "open": self._line is not None,
            **({"fault": fault} if fault else {}),
            "counted": {**counted, "strange": self.strange, "stalls": self.stalls},
        }

    def resend(self, numbers: range) -> bool:
        """Sends these messages again, once, beside the feed and behind what is new; False while the line is down."""
        return self._line is not None and self._line.resend(numbers)

    async def run(self, outbox: Outbox, submit: Submit) -> None:
        """Publishes until cancelled; then sends what is durable by then, within `farewell_s`."""
        limits = self.limits
        report = Report(self.name, outbox, submit, primary=self._primary, high=limits.high, low=limits.low)
        self._report = report
        await report.run(self._keep_open(outbox, report), self._turn)

    def _turn(self) -> None:
        if self._line is not None:
            self._line.turn()

    async def _keep_open(self, outbox: Outbox, report: Report) -> None:
        retry = Retry(self.limits.retry_s, time.monotonic_ns)
        while True:
            try:
                tty = Tty(self.port, self.baud)
            except TROUBLE as error:
                lost: Exception = error
            else:
                self._line = _Line(self, tty, outbox, report)
                try:
                    lost = await self._line.run()
                finally:
                    self._line = None
            report.down(f"serial port {self.port} {advise(lost, check=CHECK, key='casino.serial')}")
            await retry.rest()


class _Line:
    """An open port, and the session on it: moved on by what comes, by room to write, the clock and the journal."""

    def __init__(self, owner: PublisherSerial, tty: Tty, outbox: Outbox, report: Report) -> None:
        self._owner, self._tty, self._outbox, self._report = owner, tty, outbox, report
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[Exception] = self._loop.create_future()
        self._out = b"\0"  # ends what a program before this one may have left unended
        self._up = self._resting = self._writing = False
        self._stalls = 0  # of this session, as far as they are told
        self._asked = 0  # commands without their answer
        self._timer: asyncio.TimerHandle | None = None
        self._noise, self._noise_at, self._strange_at = 0, -NOISE_LOG_S, -NOISE_LOG_S
        self._end = self._begin()

    async def run(self) -> Exception:
        """Until the port is lost: why. Closed on every way out."""
        self._owner.frames.restart()
        self._noise = self._errors()
        self._loop.add_reader(self._tty.fd, self._guard, self._readable)
        try:
            self.turn()
            return await asyncio.shield(self._lost)
        except asyncio.CancelledError:
            await self._farewell()
            raise
        finally:
            self._stop_timer()
            self._loop.remove_reader(self._tty.fd)
            self._loop.remove_writer(self._tty.fd)
            self._tty.close()

    def resend(self, numbers: range) -> bool:
        if not self._end.up:
            return False
        self._end.send_again(numbers)
        self.turn()
        return True

    def turn(self) -> None:
        """Moves the session on: cursor, frames, timer."""
        self._guard(self._turn)

    def _guard(self, step: Callable[[], None]) -> None:
        """What a callback raises has no caller: `run` gives it back or raises it."""
        if self._lost.done():
            return
        try:
            step()
        except LOST as error:
            self._lost.set_result(error)
        except Exception as error:  # noqa: BLE001 - hides nothing: `run` raises it
            self._lost.set_exception(error)

    # --- what comes ---------------------------------------------------------------------------------------

    def _readable(self) -> None:
        for body in self._owner.frames.feed(self._tty.read()):
            try:
                told = self._end.hear(body, time.monotonic_ns())
            except WireError as error:
                self._owner.strange += 1
                self._tell_strange(error)
                continue
            if told is not None and told.kind is Kind.RECEIPT:
                self._receipt(told.payload)
            elif told is not None:
                self._command(told.payload)
        self._tell_noise()
        self._turn()

    def _receipt(self, payload: bytes) -> None:
        if self._owner.receipt == "server":
            found = receipted(payload, self._outbox, self._cursor())
            if found is not None:
                self._advance(found)

    def _command(self, payload: bytes) -> None:
        waiting = self._asked + self._end.unsent
        if waiting >= COMMANDS_MAX:
            log.warning("%s: ignored a command: %d wait for their answers", self._owner.port, waiting)
            return
        self._asked += 1
        end = self._end
        asked = self._owner.ask(payload, False)  # noqa: FBT003 - a line keeps nothing for who comes late
        asked.add_done_callback(lambda answered: self._guard(lambda: self._reply(end, answered)))

    def _reply(self, end: TableEnd, answered: "asyncio.Future[Answer]") -> None:
        """To the session that asked: in another one it is asked again."""
        self._asked -= 1
        if answered.cancelled():
            return
        answer = answered.result()
        if end is self._end:
            try:
                end.reply(answer.reply, answer.resend)
            except ValueError as error:
                log.error("%s: %s", self._owner.port, error)  # noqa: TRY400 - the text says it all
            self._turn()

    def _errors(self) -> int:
        return sum(self._owner.frames.errors.values())

    def _tell_noise(self) -> None:
        now = time.monotonic()
        if self._errors() != self._noise and now - self._noise_at >= NOISE_LOG_S:
            count = self._errors() - self._noise
            log.warning("%s: %d frames are damaged: check the cable and casino.serial.baud", self._owner.port, count)
            self._noise, self._noise_at = self._errors(), now

    def _tell_strange(self, error: WireError) -> None:
        now = time.monotonic()
        if now - self._strange_at >= NOISE_LOG_S:
            log.warning("%s: %s", self._owner.port, error)
            self._strange_at = now

    # --- the session --------------------------------------------------------------------------------------

    def _cursor(self) -> int:
        return self._outbox.cursor(self._owner.name)

    def _begin(self) -> TableEnd:
        self._up = self._resting = False
        self._stalls = 0
        self._owner.sessions += 1
        return TableEnd(
            f"{self._owner.table}/{self._outbox.generation}",
            self._outbox,
            receipt=self._cursor(),
            session=random.randrange(1, SESSIONS),  # noqa: S311 - a number unlike the last one, no secret
            stall_ns=int(self._owner.limits.stall_s * SECOND),
            now=time.monotonic_ns(),
        )

    def _advance(self, seqno: int) -> None:
        self._outbox.advance(self._owner.name, seqno)
        self._end.receipted(seqno, time.monotonic_ns())
        self._report.receipt(seqno)
        self._report.passed(seqno)

    def _turn(self) -> None:
        if self._owner.receipt == "broker" and self._end.acked > self._cursor():
            self._advance(self._end.acked)
        self._write()
        self._tell()
        self._set_timer()

    def _write(self) -> None:
        while True:
            self._out = self._out or self._end.next(time.monotonic_ns()) or b""
            written = self._tty.write(self._out) if self._out else 0
            self._out = self._out[written:]
            if not written:
                break
        if bool(self._out) != self._writing:
            self._writing = bool(self._out)
            if self._writing:
                self._loop.add_writer(self._tty.fd, self._guard, self._turn)
            else:
                self._loop.remove_writer(self._tty.fd)

    def _tell(self) -> None:
        end = self._end
        if end.up and not self._up:
            self._up = True
            if end.first > end.receipt + 1:
                log.warning("messages %d to %d are no longer in the journal: skipped", end.receipt + 1, end.first - 1)
            self._report.up()
        if end.stalls != self._stalls:
            self._stalls = end.stalls
            self._owner.stalls += 1
            log.warning("no receipt from the casino server for %g s: sent again", self._owner.limits.stall_s)
            self._report.stalled(no_receipt(self._owner.limits.stall_s))
        if end.refused is not None:
            seqno, size = end.refused.seqno, len(end.refused.data)
            too_long = f"message {seqno} has {size} bytes, more than the {MESSAGE_MAX} of the serial link"
            self._report.refused(seqno, f"{too_long}: the feed waits: tell the maker")
        if end.ended and not self._resting:
            self._report.down(f"serial port {self._owner.port}: {end.ended}")

    def _set_timer(self) -> None:
        if self._resting:
            return
        self._stop_timer()
        self._resting = bool(self._end.ended)
        if self._resting:
            self._timer = self._loop.call_later(self._owner.limits.rest_s, self._guard, self._begin_anew)
        else:
            wait = max(0, self._end.due - time.monotonic_ns()) / SECOND
            self._timer = self._loop.call_later(wait, self._guard, self._turn)

    def _begin_anew(self) -> None:
        self._end = self._begin()
        self._turn()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _farewell(self) -> None:
        """What is durable by now, as far as the other end takes it in time."""
        until = self._loop.time() + self._owner.limits.farewell_s
        self.turn()
        while self._sending() and self._loop.time() < until:
            await asyncio.wait({self._lost}, timeout=0.01)

    def _sending(self) -> bool:
        end = self._end
        return not self._lost.done() and end.up and end.refused is None and end.acked < self._outbox.head
