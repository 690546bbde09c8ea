"""The table's side of the sensor head's protocol (firmware/protocol/README.md): who speaks, what it told, what is owed.

Knows no port and no clock: bytes and times come in, what the head reports goes out, `take` has what is to be sent. An
event is acknowledged when the caller says that it is durable, and each is handed out once for each run of the program:
the journal's key, boot and sequence, makes that once for ever.
"""

import struct
from collections import Counter, deque
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from . import frame, messages
from .frame import CRC16, Frames
from .messages import (
    Ack,
    AskHello,
    AskLevels,
    AskThresholds,
    Event,
    Flag,
    FromHead,
    Heartbeat,
    Hello,
    Kind,
    Levels,
    MessageError,
    Name,
    Refused,
    Seen,
    SelfTest,
    SetThresholds,
    Tested,
)
from .movements import (
    MS,
    Ambiguous,
    CardOut,
    CutOut,
    CutWaiting,
    Fault,
    Lid,
    Line,
    Mouth,
    Report,
    Returned,
    TwoOut,
    Well,
    Why,
)

STRANGER = struct.Struct("<BBBBBIBH")  # how the HELLO of every protocol begins
BYTE_BITS = 10  # start, eight bits, stop
OVERHEAD_BYTES = messages.FRAME_BYTES - messages.BODY_BYTES
NOT_KNOWN = 0xFFFFFFFF  # HELLO.last_ms
LOST_NOT_KNOWN = 0xFF  # HELLO.lost
NOT_SEEN = 0xFFFF  # EVENT.covered_ms, EVENT.lag_100us
HALF = 1 << 31  # of a clock that goes round at 2^32
CLOCK_PERCENT = 1  # a resonator is 0.5 % exact
ASKS_MAX = 3
RESTARTS_MAX = 5  # within RESTLESS_NS: more than whoever tries its plug makes
STRANGE_AFTER = 5  # good frames in a row that are no message of the protocol: not noise, but another program
RESTLESS_NS = 30_000 * MS
SILENCE_NS, HELLO_NS, ANSWER_NS = (ms * MS for ms in (messages.SILENCE_MS, messages.HELLO_MS, messages.ANSWER_MS))

Question = AskThresholds | SetThresholds | AskLevels | SelfTest
Answer = messages.Thresholds | Levels | Tested | Refused

_ANSWERS: dict[type, type] = {
    AskThresholds: messages.Thresholds,
    SetThresholds: messages.Thresholds,
    AskLevels: Levels,
    SelfTest: Tested,
}
_LINES = {
    messages.Line.INNER: Line.INNER,
    messages.Line.OUTER: Line.OUTER,
    messages.Line.CUT: Line.CUT,
    messages.Line.PRESENT: Line.PRESENT,
    messages.Line.LID: Line.LID,
}
_BITS = {Seen.INNER: Line.INNER, Seen.OUTER: Line.OUTER, Seen.CUT: Line.CUT, Seen.PRESENT: Line.PRESENT}
_UNTOLD = {Line.PRESENT: Why.BLIND}  # why a line is at fault that no event told of, where it is not STUCK
_COUNTED = {  # what `Session.counts` calls an event, as the sensors on pins do
    Kind.CARD: "card",
    Kind.TWO: "two",
    Kind.CUT: "cut",
    Kind.PULLBACK: "pullback",
    Kind.REVERSE: "returned",
    Kind.AMBIGUOUS: "ambiguous",
    Kind.GLITCH: "glitch",
}


class Trouble(StrEnum):
    """Why the head is of no use."""

    SILENT = "silent"  # nothing that a head says comes from the port
    DEAF = "deaf"  # it speaks, and does not hear
    RESTARTS = "restarts"  # it begins anew again and again
    VERSION = "version"  # it speaks another protocol
    STRANGE = "strange"  # it sends what the protocol does not know, or contradicts itself


class Told(NamedTuple):
    """A report; `key` is the boot and sequence of the event, for `Session.durable`. None: of no one event."""

    report: Report
    key: tuple[int, int] | None


class Down(NamedTuple):
    """The head is of no use."""

    at: int
    trouble: Trouble


class Up(NamedTuple):
    """The head is there, and its events come."""

    at: int


class Answered(NamedTuple):
    """The answer to `ask`; None: there was none."""

    answer: Answer | None


Output = Told | Down | Up | Answered


class _Sign(NamedTuple):
    """A sign of life: the head's clock was at `uptime_ms` at `at`."""

    boots: int
    uptime_ms: int
    at: int


class _Asked(NamedTuple):
    question: Question
    at: int
    times: int


class Session:
    """One head, for as long as the program runs. Times are monotonic ns; `fresh` gives a random name, 1 to 2^32 - 1.

    `connect` when a port is open and `disconnect` when it is lost; between them `feed` what comes, `elapse` at `due`,
    and send what `take` has after each of them. `hello` and `beat` are the head's last, `counts` what it told by kind.
    """

    def __init__(self, fresh: Callable[[], int]) -> None:
        self.counts: Counter[str] = Counter()
        self.frames = Frames(CRC16, messages.FRAME_BYTES)
        self.hello: Hello | None = None
        self.beat: Heartbeat | None = None
        self.trouble: Trouble | None = None
        self.up = False
        self._caught_up = False
        self._fresh = fresh
        self._connected = False
        self._boot: int | None = None  # the name of the head's boot, once it bears it
        self._offer: Name | None = None  # sent, and not yet borne
        self._expected = 1  # the event that is to come
        self._acked = 0  # every event up to this one is durable
        self._durable: set[int] = set()  # and these beyond it
        self._last: _Sign | None = None
        self._seen: Seen | None = None
        self._shown: dict[Line, bool] = {}  # mouth and lid as they were told
        self._faulty: dict[Line, bool] = {}  # the faults as they were told
        self._clock = 0  # of the last event, so that none comes before another
        self._heard = 0  # when a good message came, or the port was opened
        self._asked_hello = 0
        self._restarts = deque[int](maxlen=RESTARTS_MAX)  # when the head restarted
        self._unheard: int | None = None  # since when the head goes on as if the table had said nothing
        self._first = 0  # the event that the last heartbeat called the first to wait
        self._missed: int | None = None  # since when the event that is to come waits at the head, and does not come
        self._strange = 0
        self._question: _Asked | None = None
        self._out = bytearray()
        self._owes_ack = False
        self._told: list[Output] = []

    # --- what the caller does -------------------------------------------------------------------------------

    def connect(self, at: int) -> None:
        self.frames.restart()
        self._out.clear()
        self._out += frame.END  # ends what another program may have left on the line
        self._connected, self.up, self.trouble = True, False, None
        self._heard, self._unheard, self._missed, self._strange = at, None, None, 0
        self._ask_hello(at)

    def disconnect(self) -> list[Output]:
        self._connected, self.up, self._owes_ack = False, False, False
        self._out.clear()
        return self._give_up()

    def feed(self, data: bytes, at: int) -> list[Output]:
        """What is sure by these bytes, which came by `at`."""
        for body in self.frames.feed(data):
            began = at - (len(body) + OVERHEAD_BYTES) * BYTE_BITS * 1_000_000_000 // messages.BAUD
            try:
                message = self._decode(body)
            except MessageError:
                self.counts["strange"] += 1
                self._strange += 1
                if self._strange >= STRANGE_AFTER:
                    self._fail(at, Trouble.STRANGE)
                continue
            if message is not None:
                self._strange = 0
                self._heard = at
                self._hear(message, began, at)
            else:
                self._heard = at
                self._fail(at, Trouble.VERSION)
        return self._outputs()

    def elapse(self, at: int) -> list[Output]:
        if not self._connected:
            return []
        if at >= self._heard + SILENCE_NS and self.trouble is not Trouble.VERSION:
            self._fail(at, Trouble.SILENT)
        if not self.up and at >= self._asked_hello + HELLO_NS:
            self._ask_hello(at)
        asked = self._question
        if asked is not None and at >= asked.at + ANSWER_NS:
            if asked.times < ASKS_MAX:
                self._send(asked.question)
                self._question = asked._replace(at=at, times=asked.times + 1)
            else:
                self._told += self._give_up()
        return self._outputs()

    @property
    def due(self) -> int | None:
        """When `elapse` will have something to do, should nothing come."""
        if not self._connected:
            return None
        dues = [] if self.trouble in (Trouble.SILENT, Trouble.VERSION) else [self._heard + SILENCE_NS]
        if not self.up:
            dues.append(self._asked_hello + HELLO_NS)
        if self._question is not None:
            dues.append(self._question.at + ANSWER_NS)
        return min(dues, default=None)

    def durable(self, key: tuple[int, int]) -> None:
        """The event with this key is in the journal, or left nothing to be put there."""
        boot, seq = key
        if boot != self._boot or seq <= self._acked:
            return
        self._durable.add(seq)
        while self._acked + 1 in self._durable:
            self._acked += 1
            self._durable.remove(self._acked)
            self._owes_ack = True

    def ask(self, question: Question, at: int) -> None:
        """Once the last question was `Answered`, and while the head is `up`."""
        assert self._question is None, "one question at a time"
        self._question = _Asked(question, at, 1)
        self._send(question)

    @property
    def caught_up(self) -> bool:
        """It is `up`, and all that it kept before was handed out."""
        return self.up and self._caught_up

    @property
    def levels(self) -> dict[Line, bool]:
        """What the lines came to when the head last told them; empty before that."""
        if self._seen is None:
            return {}
        return {line: bool(self._seen & bit) for bit, line in (*_BITS.items(), (Seen.LID, Line.LID))}

    def take(self) -> bytes:
        """What is to be sent now."""
        if self._owes_ack and self._boot is not None and self._connected:
            self._send(Ack(self._boot, self._acked))
        self._owes_ack = False
        data = bytes(self._out)
        self._out.clear()
        return data

    # --- what comes -----------------------------------------------------------------------------------------

    def _decode(self, body: bytes) -> FromHead | None:
        """The message; None: a HELLO of another protocol."""
        if len(body) > 1 and body[0] == messages.number(Hello) and body[1] != messages.PROTOCOL:
            self.counts["version"] += 1
            self.hello = _stranger(body)
            return None
        message = messages.decode(body)
        if not isinstance(message, FromHead):
            raise MessageError("the head does not say that")
        return message

    def _hear(self, message: FromHead, began: int, at: int) -> None:
        match message:
            case Hello():
                self._greet(message, began, at)
            case Event():
                self._take_event(message, began)
            case Heartbeat():
                self._feel(message, began, at)
            case _:
                self._hear_answer(message)

    def _greet(self, hello: Hello, began: int, at: int) -> None:
        """Who speaks: the boot that we know, one that somebody else named, or one that has no name yet."""
        if self._restarted(hello, began):
            self.counts["restart"] += 1
            self._restarts.append(at)
            if self._may_have_missed(hello, began):
                self._tell_lost(at)
            if self._is_restless(at):
                self._fail(at, Trouble.RESTARTS)
            self._boot = self._offer = self._last = None
        elif self._last is None and hello.boot == 0 and 0 < hello.lost < LOST_NOT_KNOWN:
            self._tell_lost(at)  # while no table was there
        self.hello, self._seen = hello, hello.seen
        self._sign(hello.boots, hello.uptime_ms, began)
        if hello.boot == 0:
            if self._offer is None or self._offer.boots != hello.boots:
                self._offer = Name(hello.boots, self._fresh())
            self._send(self._offer)
            self.up = False  # for a moment, and no fault: it is named at once, if it hears
            self._not_heard(at)
            return
        if hello.boot != self._boot:
            self._boot, self._offer = hello.boot, None
            self._expected, self._acked = hello.next, hello.next - 1
            self._missed = None
            self._durable.clear()
            self._shown.clear()
            self._faulty.clear()
        if not (self._is_restless(at) or (self._missed is not None and at >= self._missed + SILENCE_NS)):
            self._rise(at)
        self._catch_up(hello.next, at)

    def _restarted(self, hello: Hello, began: int) -> bool:
        last = self._last
        if last is None:
            return False
        if self._boot is None and hello.boot == 0 and self._stood_still(last, hello, began):
            return True
        lost_its_name = self._boot is not None and hello.boot != self._boot
        return lost_its_name or hello.boots != last.boots or _goes_back(last.uptime_ms, hello.uptime_ms)

    def _stood_still(self, last: _Sign, hello: Hello, began: int) -> bool:
        """Without a name two starts look the same, with power between them: but the clock of one boot goes on.

        By how much less a table reads late, and whoever was asked at the last start has not answered yet.
        """
        passed = began - last.at
        behind = passed - ((hello.uptime_ms - last.uptime_ms) & NOT_KNOWN) * MS
        return behind > HELLO_NS + passed * CLOCK_PERCENT // 100

    def _may_have_missed(self, hello: Hello, began: int) -> bool:
        """Whether a card can have left while the head restarted, or one that it saw before was not told."""
        last = self._last
        assert last is not None, "a restart is told from something before it"
        if hello.lost or hello.last_ms == NOT_KNOWN or (hello.boots - last.boots) & 0xFFFF != 1:
            return True
        stopped = last.at + (hello.last_ms - last.uptime_ms) * MS
        blind = began - hello.uptime_ms * MS - stopped
        return abs(blind) >= messages.PASSAGE_MS * MS

    def _catch_up(self, first: int, at: int) -> None:
        """`first` is what the head sends next: below what is durable it has not heard us, above it dropped events."""
        if first <= self._acked:
            self._owes_ack = True
        if first > self._expected:
            self._tell_lost(at)
            self._expected, self._acked = first, first - 1
            self._durable.clear()

    def _feel(self, beat: Heartbeat, began: int, at: int) -> None:
        last = self._last
        if not self.up and self.trouble in (None, Trouble.SILENT):
            self._not_heard(at)  # it does not say who it is, and is asked again and again
        if self._boot is None or last is None:
            return
        if not _goes_back(last.uptime_ms, beat.uptime_ms):
            self._sign(last.boots, beat.uptime_ms, began)
        self.beat, self._seen = beat, beat.seen
        self._catch_up(beat.next, at)
        if self.up and (beat.next > self._acked or beat.next != self._first):
            self._unheard = None
        self._first = beat.next
        if beat.next <= self._acked:
            self._not_heard(at)
        self._missed = (self._missed or at) if beat.waiting and beat.next == self._expected else None
        if self._missed is not None and at >= self._missed + SILENCE_NS:
            self._fail(at, Trouble.STRANGE)
        if self.up and beat.next + beat.waiting == self._expected:
            self._caught_up = True
        if beat.waiting == 0 and beat.next == self._expected:
            self._compare(beat, at)

    def _compare(self, beat: Heartbeat, at: int) -> None:
        """Lid, mouth and faults as they stand, where they were told otherwise or not at all."""
        for line, bit in ((Line.PRESENT, Seen.PRESENT), (Line.LID, Seen.LID)):
            level = bool(beat.seen & bit)
            if self._shown.get(line) is not level:
                self._shown[line] = level
                self._tell(Mouth(at, level) if line is Line.PRESENT else Lid(at, level))
        for bit, line in _BITS.items():
            faulty = bool(beat.faults & bit)
            if self._faulty.get(line) is not faulty:
                self._faulty[line] = faulty
                self._tell(Fault(at, line, _UNTOLD.get(line, Why.STUCK)) if faulty else Well(at, line))

    # --- events ---------------------------------------------------------------------------------------------

    def _take_event(self, event: Event, began: int) -> None:
        if self._boot is None:
            return
        if event.seq != self._expected:
            self.counts["repeat"] += event.seq < self._expected
            self.counts["early"] += event.seq > self._expected
            self._owes_ack = self._owes_ack or event.seq <= self._acked
            return
        self._expected += 1
        self._missed = None
        key = (self._boot, event.seq)
        self._clock = max(self._clock, began - event.age_ms * MS)
        if event.kind in _COUNTED:
            self.counts[_COUNTED[event.kind]] += 1
        self.counts["slow"] += Flag.SLOW in event.flags
        report = self._report(event, self._clock)
        if report is None:
            self.durable(key)
        else:
            self._told.append(Told(report, key))

    def _report(self, event: Event, at: int) -> Report | None:
        """In the words of the sensors on pins; None: evidence, which is only counted."""
        line = _LINES.get(event.line)
        match event.kind:
            case Kind.CARD:
                return CardOut(at, _measured(event.covered_ms, MS), _measured(event.lag_100us, MS // 10))
            case Kind.TWO:
                return TwoOut(at)
            case Kind.CUT:
                return CutOut(at, "head")
            case Kind.WAITING:
                return CutWaiting(at)
            case Kind.REVERSE:
                return Returned(at)
            case Kind.AMBIGUOUS:
                return Ambiguous(at, _why(event.why, Why.LOST))
            case Kind.STUCK if line is not None:
                self._faulty[line] = True
                return Fault(at, line, _why(event.why, Why.STUCK))
            case Kind.CLEAR if line is not None:
                self._faulty[line] = False
                return Well(at, line)
            case Kind.LID:
                self._shown[Line.LID] = Flag.ON in event.flags
                return Lid(at, Flag.ON in event.flags)
            case Kind.PRESENT:
                self._shown[Line.PRESENT] = Flag.ON in event.flags
                return Mouth(at, Flag.ON in event.flags)
            case _:
                return None

    # --- small things ---------------------------------------------------------------------------------------

    def _hear_answer(self, answer: Answer) -> None:
        if self._question is None:
            return
        question = self._question.question
        fits = (
            answer.message == messages.number(type(question))
            if isinstance(answer, Refused)
            else isinstance(answer, _ANSWERS[type(question)])
        )
        if fits:
            self._question = None
            self._told.append(Answered(answer))

    def _give_up(self) -> list[Output]:
        if self._question is None:
            return []
        self._question = None
        return [Answered(None)]

    def _ask_hello(self, at: int) -> None:
        self._asked_hello = at
        self._send(AskHello())

    def _sign(self, boots: int, uptime_ms: int, at: int) -> None:
        """The head's clock was at `uptime_ms` by `at`; or sooner, by its last sign: a busy table reads late."""
        last = self._last
        if last is not None:
            passed = (uptime_ms - last.uptime_ms) & NOT_KNOWN
            at = min(at, last.at + passed * MS * (100 + CLOCK_PERCENT) // 100)
        self._last = _Sign(boots, uptime_ms, at)

    def _not_heard(self, at: int) -> None:
        """The head goes on as if nothing had been said to it, as it may for a moment."""
        self._unheard = self._unheard or at
        if at >= self._unheard + SILENCE_NS:
            self._fail(at, Trouble.RESTARTS if self._is_restless(at) else Trouble.DEAF)

    def _is_restless(self, at: int) -> bool:
        return len(self._restarts) == RESTARTS_MAX and at - self._restarts[0] < RESTLESS_NS

    def _rise(self, at: int) -> None:
        if not self.up:
            self.up, self._caught_up, self.trouble, self._unheard = True, False, None, None
            self._told.append(Up(at))

    def _fail(self, at: int, trouble: Trouble) -> None:
        if self.trouble is not trouble:
            self.up, self.trouble = False, trouble
            self._told.append(Down(at, trouble))

    def _tell_lost(self, at: int) -> None:
        self.counts["ambiguous"] += 1
        self._tell(Ambiguous(at, Why.LOST))

    def _tell(self, report: Report) -> None:
        self._told.append(Told(report, None))

    def _send(self, message: messages.FromTable) -> None:
        self._out += frame.encode(messages.encode(message), CRC16, messages.FRAME_BYTES)

    def _outputs(self) -> list[Output]:
        told = self._told.copy()
        self._told.clear()
        return told


def _stranger(body: bytes) -> Hello:
    """What every protocol's HELLO says of its head, in its first twelve bytes; the rest is 0."""
    if len(body) < STRANGER.size:
        raise MessageError("a HELLO of another protocol is too short for any")
    _, protocol, major, minor, patch, build, cause, boots = STRANGER.unpack_from(body)
    return Hello(protocol, major, minor, patch, build, messages.Cause(cause & 0x0F), boots, 0, 0, 0, 0, 0, Seen(0))


def _goes_back(before_ms: int, after_ms: int) -> bool:
    """Whether the later of two readings of one clock, which goes round at 2^32 ms, is the lesser."""
    return (after_ms - before_ms) & NOT_KNOWN >= HALF


def _measured(value: int, unit_ns: int) -> int | None:
    return None if value == NOT_SEEN else value * unit_ns


def _why(why: messages.Why, otherwise: Why) -> Why:
    return otherwise if why is messages.Why.NONE else Why[why.name]
