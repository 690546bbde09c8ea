"""The casino's end of the serial link: every message once and in order, whatever the line does (docs/serial-link.md).

Pure: frames' bodies go in, frames come out, times are arguments (monotonic ns). It judges no message: who takes them
checks chain and signature, keeps them, and only then gives the receipt.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from . import wire
from .wire import AGAIN_NS, BEAT_NS, HELLO_NS, NO_SESSION, SILENT_NS, VERSION, Kind, Part, WireError


class Arrived(NamedTuple):
    """A message, whole. `name` is `table/generation`. `again`: a command asked for it; it stands in no order."""

    name: str
    number: int
    data: bytes
    again: bool = False


class Reply(NamedTuple):
    """The bytes of the reply to a command."""

    data: bytes


class CasinoEnd:
    """`wanted` says which message of a generation is the first not taken yet; 0: the one behind the last receipt.

    `name` is of the table that speaks, empty while none does. `repeats` and `gaps` count messages dropped as taken
    before, and messages asked for again.
    """

    def __init__(self, wanted: Callable[[str], int]) -> None:
        self.name = ""
        self.repeats = self.gaps = 0
        self._wanted = wanted
        self._session = NO_SESSION
        self._next = 0
        self._held: list[bytes] = []  # the parts of the next message that are there
        self._again: list[Part] = []  # those of one that was asked for again
        self._heard_at = self._hello_at = self._ack_at = self._nak_at = 0
        self._answer: int | None = None
        self._nak = False
        self._receipt, self._receipt_number, self._receipt_name, self._receipt_due = b"", 0, "", False
        self._commands: deque[bytes] = deque()

    def hear(self, body: bytes, now: int) -> Arrived | Reply | None:
        """Takes a frame's body; gives the message that it completes, or a reply. WireError: it makes no sense."""
        told = wire.unpack(body)
        if told.kind is Kind.HELLO:
            self._greet(wire.read_hello(told.payload), told.session, now)
            return None
        if told.session != self._session:
            return None  # `next` asks whoever speaks to say hello
        self._heard_at = now
        if told.kind is Kind.DATA:
            return self._take(wire.read_part(told.payload), now)
        if told.kind is Kind.AGAIN:
            return self._take_again(wire.read_part(told.payload))
        if told.kind is Kind.REPLY:
            return Reply(told.payload)
        if told.kind is not Kind.BEAT:
            raise WireError(f"a {told.kind.name} of the casino's own: the line gives back what is sent on it")
        beat = wire.read_beat(told.payload)
        if beat.sent >= self._next:
            self._ask(now)
        if beat.receipt < self._receipt_number:
            self._receipt_due = True
        return None

    def _greet(self, hello: wire.Hello, session: int, now: int) -> None:
        if session == NO_SESSION:
            raise WireError("a hello of no session: the line gives back what is sent on it")
        if hello.version != VERSION:
            self._hello_at = now  # the answer says which version is spoken here
            raise WireError(f"the table speaks version {hello.version} of the serial link, this end {VERSION}")
        self._heard_at = now
        if session != self._session:
            if hello.name != self._receipt_name:
                self._receipt, self._receipt_number, self._receipt_name = b"", 0, hello.name
            self._session, self.name = session, hello.name
            self._answer = self._wanted(hello.name)
            self._next = max(self._answer or hello.receipt + 1, hello.first)
            self._held, self._again = [], []
            self._nak_at, self._nak, self._receipt_due = now, False, False
        else:
            self._answer = self._next
        self._ack_at = now

    def _take(self, part: Part, now: int) -> Arrived | None:
        if part.number < self._next:
            if part.place == part.total - 1:
                self.repeats += 1
                self._ack_at, self._receipt_due = now, bool(self._receipt)
            return None
        if part.number == self._next and part.place == 0:
            self._held = []  # sent again from its beginning
        if part.number > self._next or part.place != len(self._held):
            self._held = []
            self._ask(now)
            self._nak_at = now + AGAIN_NS  # what was on its way comes first
            return None
        self._held.append(part.data)
        if len(self._held) < part.total:
            return None
        whole = Arrived(self.name, part.number, b"".join(self._held))
        self._held = []
        self._next += 1
        self._ack_at = self._nak_at = now
        self._nak = False
        return whole

    def _ask(self, now: int) -> None:
        """Asks for the next message: once for each gap, and again where it does not come."""
        if now >= self._nak_at:
            self._nak, self._nak_at = True, now + AGAIN_NS
            self.gaps += 1

    def _take_again(self, part: Part) -> Arrived | None:
        """One of which a part is lost does not arrive: who asked for it sees that, and asks again."""
        if part.place == 0:
            self._again = []
        if part.place != len(self._again) or (self._again and self._again[0].number != part.number):
            self._again = []
            return None
        self._again.append(part)
        if len(self._again) < part.total:
            return None
        whole = b"".join(each.data for each in self._again)
        self._again = []
        return Arrived(self.name, part.number, whole, again=True)

    # --- what the casino says -----------------------------------------------------------------------------

    def receipt(self, number: int, receipt: bytes) -> None:
        """Everything up to message `number` is safe here: `receipt` says so (docs/integrator.md, Receipts)."""
        self._receipt_number, self._receipt, self._receipt_due = number, receipt, True

    def command(self, command: bytes) -> None:
        """Sends a command once; ValueError over TEXT_MAX. Where no reply comes, send the same bytes again."""
        if len(command) > wire.TEXT_MAX:
            raise ValueError(f"a command of {len(command)} bytes: the serial link takes {wire.TEXT_MAX}")
        self._commands.append(command)

    # --- what goes out ------------------------------------------------------------------------------------

    def due(self, now: int) -> int:
        """When `next` is to be asked at the latest, whatever happens before."""
        return max(now, self._ack_at if self._session else self._hello_at)

    def next(self, now: int) -> bytes | None:
        """The frame to send next; None while there is none. To be asked whenever the line takes one."""
        if self._session and now - self._heard_at >= SILENT_NS:
            self._session, self.name = NO_SESSION, ""
        session = self._session
        if not session:
            if now < self._hello_at:
                return None
            self._hello_at = now + HELLO_NS
            return wire.pack(Kind.HELLO, NO_SESSION, wire.write_answer(wire.Answer(VERSION, 0)))
        if self._answer is not None:
            answer, self._answer = wire.Answer(VERSION, self._answer), None
            return wire.pack(Kind.HELLO, session, wire.write_answer(answer))
        if self._nak:
            self._nak = False
            return wire.pack(Kind.NAK, session, wire.write_number(self._next))
        if now >= self._ack_at:
            self._ack_at = now + BEAT_NS
            return wire.pack(Kind.ACK, session, wire.write_number(self._next - 1))
        if self._receipt_due:
            self._receipt_due = False
            return wire.pack(Kind.RECEIPT, session, self._receipt)
        return wire.pack(Kind.COMMAND, session, self._commands.popleft()) if self._commands else None
