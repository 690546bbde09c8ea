"""A sensor head as firmware/protocol/README.md has it, without sensors: a test tells it what its sensors saw.

It stands for the firmware where many runs are wanted, or faults that a real one has seldom. Times are ns of the test's
clock; its own is in ms since its first sample, and `drift` per cent fast.
"""

import os
import select
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from controller.link import frame, messages
from controller.link.frame import CRC16, Frames
from controller.link.messages import (
    Ack,
    AskHello,
    AskLevels,
    AskThresholds,
    Cause,
    Event,
    Flag,
    Heartbeat,
    Hello,
    Kind,
    Levels,
    Line,
    MessageError,
    Name,
    Refusal,
    Refused,
    Seen,
    SelfTest,
    SetThresholds,
    Tested,
    Thresholds,
    Why,
)
from tests.serial_pty import End

MS = 1_000_000
EVIDENCE = (Kind.WAITING, Kind.PULLBACK, Kind.GLITCH)
NOTHING = Seen(0)
CHANNELS = ("inner", "outer", "cut", "present")


@dataclass
class FakeHead:
    """`feed` and `elapse` as the session has them; `take` has what it sends. `made` are its events, for the test."""

    protocol: int = messages.PROTOCOL
    build: int = 0xC0FFEE01
    boots: int = 0
    boot: int = 0
    seen: Seen = Seen.PRESENT
    faults: Seen = NOTHING
    deaf: bool = False
    moving: bool = False  # a passage is not over
    levels: dict[str, int] = field(default_factory=lambda: {"inner": 80, "outer": 90, "cut": 184, "present": 190})
    dead: Seen = NOTHING  # channels whose photodiode sees no difference
    thresholds: tuple[int, ...] = (600, 400, 600, 400, 600, 400, 400, 600)
    generation: int = 0
    stubborn: bool = False  # answers a wish for thresholds with those it had
    writes: int = 0
    made: list[tuple[int, Kind]] = field(default_factory=list)
    dropped: int = 0

    def __post_init__(self) -> None:
        self._frames = Frames(CRC16, messages.FRAME_BYTES)
        self._out = bytearray()
        self._queue: deque[tuple[int, Event]] = deque()  # when it happened
        self._next = 1
        self._began = 0
        self._cause = Cause(0)
        self._last_ms = 0xFFFFFFFF
        self._lost = 255
        self._due: dict[str, int] = {}
        self._cards = self._resent = self._overflows = 0
        self.on = False

    # --- the test's hand ------------------------------------------------------------------------------------

    def start(self, at: int, cause: Cause = Cause.POWER, *, stopped: int | None = None) -> None:
        """Its first sample is at `at`; `stopped`: its last one was then. Power alone makes it forget its counters."""
        if Cause.POWER in cause or stopped is None:
            self.boots, self._last_ms, self._lost = 1, 0xFFFFFFFF, 255
            self._cards = self._resent = self._overflows = 0
        else:
            self.boots = (self.boots + 1) & 0xFFFF
            self._last_ms = self._ms(stopped)
            self._lost = min(len(self._queue) + self.moving, 254)
        self.boot, self._next, self._cause, self.moving = 0, 1, cause, False
        self._queue.clear()
        self._frames.restart()
        self._out = bytearray(frame.END)
        self._began, self.on = at, True
        self._due = {"hello": at}

    def stop(self) -> None:
        """No power, or held in reset: nothing comes, and what was on its way is lost."""
        self.on = False
        self._out.clear()
        self._due.clear()

    def happens(self, kind: Kind, at: int, **fields: Any) -> None:  # noqa: ANN401 - fields of Event
        self.made.append((at, kind))
        if kind in (Kind.LID, Kind.PRESENT):
            bit = Seen.LID if kind is Kind.LID else Seen.PRESENT
            self.seen = self.seen | bit if Flag.ON in fields["flags"] else self.seen & ~bit
        self._cards += {Kind.CARD: 1, Kind.TWO: 2}.get(kind, 0)
        free = messages.QUEUE_EVENTS - len(self._queue)
        if free == 0 or (kind in EVIDENCE and free < messages.SPARE_EVENTS):
            self._overflows += 1
            self.dropped += 1
            return
        if free == 1:
            kind, fields = Kind.AMBIGUOUS, {"why": Why.LOST}
            self._overflows += 1
            self.dropped += 1
        empty = Event(self._next, 0, kind, Line.NONE, Why.NONE, Flag(0), 0, 0, 0)
        self._queue.append((at, empty._replace(**fields)))
        self._next += 1
        self._due["resend"] = at
        if self.boot:
            self._send_event(*self._queue[-1], at)
            self._due["resend"] = at + messages.RESEND_MS * MS

    # --- the line -------------------------------------------------------------------------------------------

    @property
    def due(self) -> int | None:
        waiting = {name for name in self._due if name == "hello" or self.boot}
        return min([self._due[name] for name in waiting], default=None) if self.on else None

    def elapse(self, at: int) -> None:
        while (due := self.due) is not None and due <= at:
            name = next(name for name in self._due if self._due[name] == due and (name == "hello" or self.boot))
            if name == "hello":
                self._hello(at)
                self._due["hello"] = at + messages.HELLO_MS * MS
            elif name == "beat":
                self._beat(at)
                self._due["beat"] = at + messages.BEAT_MS * MS
            else:
                for when, event in self._queue:
                    self._resent += 1
                    self._send_event(when, event, at)
                del self._due["resend"]
                if self._queue:
                    self._due["resend"] = at + messages.RESEND_MS * MS

    def feed(self, data: bytes, at: int) -> None:
        if not self.on or self.deaf:
            return
        for body in self._frames.feed(data):
            try:
                message = messages.decode(body)
            except MessageError:
                known = body[0] in messages._NUMBERS and body[0] >= 0x80
                self._send(Refused(body[0], Refusal.LENGTH if known else Refusal.UNKNOWN))
            else:
                self._hear(message, at)

    def take(self) -> bytes:
        data = bytes(self._out)
        self._out.clear()
        return data

    def _hear(self, message: messages.Message, at: int) -> None:
        match message:
            case AskHello():
                self._hello(at)
            case Name(boots=boots, boot=boot):
                if boots == self.boots and not self.boot:
                    self.boot = boot
                    del self._due["hello"]
                    self._due["beat"] = self._due["resend"] = at
                self._hello(at)
            case Ack(boot=boot, seq=seq):
                if boot == self.boot and seq < self._next:
                    while self._queue and self._queue[0][1].seq <= seq:
                        self._queue.popleft()
            case AskThresholds():
                self._send_thresholds()
            case SetThresholds():
                self._keep(tuple(message))
            case AskLevels():
                self._send(Levels(**self.levels, seen=self.seen, supply_mv=5000))
            case SelfTest():
                self._test()
            case _:
                self._send(Refused(messages.number(type(message)), Refusal.UNKNOWN))

    def _keep(self, wanted: tuple[int, ...]) -> None:
        if self.moving:
            self._send(Refused(messages.number(SetThresholds), Refusal.BUSY))
            return
        if any(abs(on - off) < messages.SWING_MIN for on, off in zip(wanted[::2], wanted[1::2], strict=True)):
            self._send(Refused(messages.number(SetThresholds), Refusal.RANGE))
            return
        if not self.stubborn and (wanted != self.thresholds or not self.generation):
            self.thresholds, self.generation, self.writes = wanted, self.generation + 1, self.writes + 1
        self._send_thresholds()

    def _test(self) -> None:
        if self.moving:
            self._send(Refused(messages.number(SelfTest), Refusal.BUSY))
            return
        bits = dict(zip(CHANNELS, (Seen.INNER, Seen.OUTER, Seen.CUT, Seen.PRESENT), strict=True))
        lit = {f"{name}_lit": 20 if self.dead & bit else 620 for name, bit in bits.items()}
        dark = {f"{name}_dark": 20 for name in bits}
        passed = Seen(sum(bit for bit in bits.values() if not self.dead & bit))
        self._send(Tested(passed=passed, **dark, **lit))

    # --- what it says ---------------------------------------------------------------------------------------

    def _hello(self, at: int) -> None:
        first = self._queue[0][1].seq if self._queue else self._next
        said = Hello(
            self.protocol, 1, 2, 3, self.build, self._cause, self.boots, self.boot, first, self._ms(at),
            self._last_ms, self._lost, self.seen,
        )  # fmt: skip
        self._send(said)

    def _beat(self, at: int) -> None:
        first = self._queue[0][1].seq if self._queue else self._next
        counters = (self._cards, 0, 0, self._resent, 0, self._overflows, 0)
        self._send(Heartbeat(self._ms(at), first, len(self._queue), self.seen, self.faults, 4987, *counters))

    def _send_thresholds(self) -> None:
        self._send(Thresholds(int(self.generation > 0), self.generation, *self.thresholds))

    def _send_event(self, when: int, event: Event, at: int) -> None:
        self._send(event._replace(age_ms=(at - when) // MS))

    def _send(self, message: messages.Message) -> None:
        self._out += frame.encode(messages.encode(message), CRC16, messages.FRAME_BYTES)

    def _ms(self, at: int) -> int:
        return (at - self._began) // MS & 0xFFFFFFFF


class PtyHead:
    """A fake head behind a pseudo-terminal, in a thread of its own and in real time; `path` is the port.

    `path` is a link, as under /dev/serial/by-id: it goes when the head is unplugged, and comes again with another pty.
    `hand` keeps the thread off while the test moves `head`.
    """

    def __init__(self, path: Path, head: FakeHead | None = None) -> None:
        self.path, self.head = path, head or FakeHead()
        self.hand = threading.Lock()
        self._wake_read, self._wake_write = os.pipe()
        self._line = End(path)
        self._ends = False
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self.plug()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._wake()
        self._thread.join()
        with self.hand:
            self._line.unplug()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def plug(self, cause: Cause = Cause.POWER, stopped: int | None = None, *, power: bool = True) -> None:
        """`power`: it comes with the plug; else the head had it all the time, as it does over a bad contact."""
        with self.hand:
            if not self._line.plugged:
                self._line.plug()
            if power:
                self.head.start(time.monotonic_ns(), cause, stopped=stopped)
        self._wake()

    def unplug(self, *, power: bool = True) -> None:
        with self.hand:
            if power:
                self.head.stop()
            self._line.unplug()

    def reset(self) -> None:
        """By its reset pin, for 2 ms."""
        with self.hand:
            now = time.monotonic_ns()
            self.head.stop()
            self.head.start(now, Cause.EXTERNAL, stopped=now - 2 * MS)
        self._wake()

    def happens(self, kind: Kind, **fields: Any) -> None:  # noqa: ANN401 - fields of Event
        with self.hand:
            self.head.happens(kind, time.monotonic_ns(), **fields)
        self._wake()

    @property
    def waiting(self) -> int:
        """Events without an acknowledgement."""
        with self.hand:
            return len(self.head._queue)

    def _wake(self) -> None:
        os.write(self._wake_write, b"w")

    def _run(self) -> None:
        while not self._ends:
            with self.hand:
                now, master = time.monotonic_ns(), self._line.master
                self.head.elapse(now)
                self._line.write(self.head.take())  # a real line drops what nobody reads, too
                due = self.head.due
            wait = 0.05 if due is None else min(0.05, max(0.0, (due - now) / 1e9))
            ready, _, _ = select.select([self._wake_read, *([master] if master >= 0 else [])], [], [], wait)
            if self._wake_read in ready:
                os.read(self._wake_read, 64)
            if master in ready:
                self._read()

    def _read(self) -> None:
        with self.hand:
            data = self._line.read()
            self.head.feed(data, time.monotonic_ns())
            self._line.write(self.head.take())
        if not data:  # nobody has the port open
            time.sleep(0.005)
