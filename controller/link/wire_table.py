"""The table's end of the serial link to the casino: one session, from its hello to its end (docs/serial-link.md).

Pure: frames' bodies go in, frames come out, times are arguments (monotonic ns). Keeps no message: what is sent, and
sent again, is read from the journal's numbers each time. What ends a session ends this object; the next one is new.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from . import wire
from .wire import BEAT_NS, HELLO_NS, MESSAGE_MAX, NO_SESSION, SILENT_NS, VERSION, WINDOW, Kind, Told, WireError


class Numbered(Protocol):
    """A message of the feed: its number, and its exact bytes."""

    @property
    def seqno(self) -> int: ...

    @property
    def data(self) -> bytes: ...


class Numbers(Protocol):
    """The messages there are (as `ports.Outbox` has them)."""

    @property
    def head(self) -> int: ...

    def read(self, after: int, limit: int) -> Sequence[Numbered]: ...


class _Resend(NamedTuple):
    """What a command asked for, as far as it is still to be sent, and the reply behind it; a person's has none."""

    numbers: range
    reply: bytes


class TableEnd:
    """`name` is `table/generation`; `receipt` the last message with a receipt, moved by who weighs receipts.

    `up` from the casino's answer to the end; `ended` is why it ended, empty until then. `acked` is the message up to
    which the casino's end has all. `refused` is a message longer than MESSAGE_MAX: nothing is sent from it on. `stalls`
    counts how often `stall_ns` passed without a receipt, and all was sent again from behind the last one.
    """

    def __init__(self, name: str, numbers: Numbers, *, receipt: int, session: int, stall_ns: int, now: int) -> None:
        assert session != NO_SESSION
        self.name, self.session = name, session
        self.up, self.ended = False, ""
        self.acked = self._sent = self._receipt = receipt
        self.refused: Numbered | None = None
        self.stalls = 0
        self.first = receipt + 1  # the oldest message that can be sent
        self._numbers, self._stall_ns = numbers, stall_ns
        self._heard_at = self._moved_at = self._due = now
        self._floor = self._top = receipt  # acknowledgements are between them
        self._parts: deque[tuple[Kind, bytes]] = deque()  # of one message
        self._replies: deque[bytes] = deque()
        self._resends: deque[_Resend] = deque()
        self._reply_next = True  # else a part goes first: commands without end must not stop the feed

    # --- what the casino's end says -----------------------------------------------------------------------

    def hear(self, body: bytes, now: int) -> Told | None:
        """Takes a frame's body; gives back what is for others, RECEIPT and COMMAND. WireError: it makes no sense."""
        told = wire.unpack(body)
        if self.ended:
            return None
        if told.session == NO_SESSION and told.kind is Kind.HELLO:
            self._asked(wire.read_answer(told.payload))
            return None
        if told.session != self.session:
            return None  # of a session before this one
        self._heard_at = now
        if told.kind is Kind.HELLO:
            self._answered(wire.read_answer(told.payload), now)
        elif told.kind is Kind.ACK:
            self._acknowledged(wire.read_number(told.payload))
        elif told.kind is Kind.NAK:
            self._lacks(wire.read_number(told.payload))
        elif told.kind not in (Kind.RECEIPT, Kind.COMMAND):
            raise WireError(f"a {told.kind.name} of the table's own: the line gives back what is sent on it")
        elif self.up:
            return told
        return None

    def _asked(self, answer: wire.Answer) -> None:
        """The casino's end knows of no session: it has begun anew, or has heard nothing for long."""
        if self._speaks(answer.version) and self.up:
            self._end("the casino server begins anew")

    def _answered(self, answer: wire.Answer, now: int) -> None:
        if self.up or not self._speaks(answer.version):
            return
        wanted, head = answer.wanted or self._receipt + 1, self._numbers.head
        if wanted > head + 1:
            self._end(
                f"the casino server has message {wanted - 1} of {self.name}, and the table only {head}: "
                "is the line another table's?"
            )
            return
        start = max(wanted, self.first)
        self.up = True
        self.acked = self._sent = self._floor = self._top = start - 1
        self._moved_at = self._due = now

    def _speaks(self, version: int) -> bool:
        if version != VERSION:
            theirs = f"the casino server speaks version {version} of the serial link"
            self._end(f"{theirs}, the table version {VERSION}: update the older one")
        return version == VERSION

    def _acknowledged(self, number: int) -> None:
        if number <= self._top:
            self.acked = max(self.acked, min(number, self._sent))  # what is sent again is acknowledged again

    def _lacks(self, number: int) -> None:
        """It has all before `number`, and not that one."""
        if self._floor < number <= self._top:
            self._rewind(number - 1)

    def _rewind(self, sent: int) -> None:
        self._sent = self.acked = sent
        self._parts = deque(part for part in self._parts if part[0] is Kind.AGAIN)

    def _end(self, why: str) -> None:
        self.up, self.ended = False, self.ended or why

    # --- what others say ----------------------------------------------------------------------------------

    @property
    def receipt(self) -> int:
        return self._receipt

    def receipted(self, number: int, now: int) -> None:
        """The receipts reach up to `number` now."""
        self._receipt, self._moved_at = number, now
        if number > self._sent:
            self.acked = self._sent = number

    def reply(self, reply: bytes, resend: range = range(0)) -> None:
        """Sends a command's reply, and before it the messages of those numbers that are still there.

        ValueError where the reply is longer than TEXT_MAX.
        """
        if len(reply) > wire.TEXT_MAX:
            raise ValueError(f"a reply of {len(reply)} bytes: the serial link takes {wire.TEXT_MAX}")
        if resend:
            self._resends.append(_Resend(resend, reply))
        else:
            self._replies.append(reply)

    def send_again(self, numbers: range) -> None:
        """Sends the messages of those numbers that are still there beside the feed, once."""
        self._resends.append(_Resend(numbers, b""))

    # --- what goes out ------------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """How many replies are not on their way yet."""
        return len(self._replies) + len(self._resends)

    @property
    def due(self) -> int:
        """When `next` is to be asked at the latest, whatever happens before."""
        return self._due

    def next(self, now: int) -> bytes | None:
        """The frame to send next; None while there is none. To be asked whenever the line takes one."""
        if not self.ended and now - self._heard_at >= SILENT_NS:
            silent = "the casino server says nothing any more" if self.up else "no casino server answers"
            self._end(f"{silent}: check the cable, casino.serial.baud, and its program")
        if self.ended:
            return None
        if now >= self._due:
            self._due = now + (BEAT_NS if self.up else HELLO_NS)
            return self._beat() if self.up else self._hello()
        if not self.up:
            return None
        if not self._parts:
            self._fill(now)
        if self._replies and (self._reply_next or not self._parts):
            self._reply_next = False
            return wire.pack(Kind.REPLY, self.session, self._replies.popleft())
        if not self._parts:
            return None
        self._reply_next = True
        kind, payload = self._parts.popleft()
        return wire.pack(kind, self.session, payload)

    def _hello(self) -> bytes:
        oldest = self._numbers.read(0, 1)
        self.first = oldest[0].seqno if oldest else self._numbers.head + 1
        hello = wire.Hello(VERSION, self.first, self._receipt, self.name)
        return wire.pack(Kind.HELLO, self.session, wire.write_hello(hello))

    def _beat(self) -> bytes:
        under_way = any(kind is Kind.DATA for kind, _ in self._parts)
        return wire.pack(Kind.BEAT, self.session, wire.write_beat(wire.Beat(self._sent - under_way, self._receipt)))

    def _fill(self, now: int) -> None:
        """Takes up the next message: of the feed while the window has room, else of what was asked for again."""
        if self._sent <= self._receipt:
            self._moved_at = now
        elif now - self._moved_at >= self._stall_ns:
            self.stalls += 1
            self._moved_at = now
            back = max(self._receipt, self.first - 1)  # what the other end has may have no receipt there any more
            self._floor = min(self._floor, back)
            self._rewind(back)
        if self.refused is None and self._numbers.head > self._sent and self._sent - self.acked < WINDOW:
            self._take_up(self._numbers.read(self._sent, 1)[0])
        if not self._parts and self._resends:
            self._take_up_again()

    def _take_up(self, message: Numbered) -> None:
        if message.seqno != self._sent + 1:
            self._end(f"message {self._sent + 1} is no longer in the journal")
        elif len(message.data) > MESSAGE_MAX:
            self.refused = message
        else:
            self._parts.extend((Kind.DATA, part) for part in wire.write_parts(message.seqno, message.data))
            self._sent = message.seqno
            self._top = max(self._top, self._sent)

    def _take_up_again(self) -> None:
        numbers, reply = self._resends.popleft()
        found = self._numbers.read(numbers.start - 1, 1) if numbers else ()
        if not found or found[0].seqno >= numbers.stop:
            if reply:
                self._replies.append(reply)
            return
        message = found[0]
        self._resends.appendleft(_Resend(range(message.seqno + 1, numbers.stop), reply))
        if len(message.data) <= MESSAGE_MAX:
            self._parts.extend((Kind.AGAIN, part) for part in wire.write_parts(message.seqno, message.data))
