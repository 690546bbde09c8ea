"""The real firmware on the simulated chip, with the table's end of the line: hears messages, says some, acknowledges.

Times are us of the chip. Lines are voltages here: a beam is light and reads low where it is free.
"""

import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from controller.link.frame import CRC16, Frames, encode
from controller.link.messages import (
    BAUD,
    FRAME_BYTES,
    Ack,
    Event,
    FromHead,
    FromTable,
    Hello,
    MessageError,
    Name,
    decode,
)
from controller.link.messages import encode as body_of
from controller.link.movements import Line
from firmware.sim.bench import Bench, Pin, build
from tests.passages import Level

M = TypeVar("M")
BYTE_US = 10 * 1_000_000 / BAUD
RAMP_US = 200  # how long an edge of a card takes over a beam's light
SLICE_US = 5_000  # how long the table takes to hear and to answer
DARK = 4_900  # mV: a sensor that sees no light
MV = {Line.INNER: (400, 4_400), Line.OUTER: (400, 4_400), Line.CUT: (900, 4_400), Line.PRESENT: (4_500, 900)}
CHANNELS = tuple(MV)  # in the order of the chip's


@cache
def elf() -> Path:
    return build("all") / "head.elf"


@cache
def symbols() -> dict[str, int]:
    """Addresses of the firmware's names, in flash or memory."""
    text = subprocess.run(["avr-nm", str(elf())], capture_output=True, text=True, check=True).stdout
    return {name: int(address, 16) & 0xFFFF for address, _, name in (line.split() for line in text.splitlines())}


class Chip:
    """A head whose mouth is full and whose exit is free, as it is switched on; `boot` is the name it gets.

    `heard` are its messages with the time at which each was whole; `events` those of them that came first, in order.
    """

    def __init__(self, *, boot: int = 0x1234, acknowledge: bool = True) -> None:
        self.bench = Bench(elf())
        self.boot = boot
        self.acknowledge = acknowledge
        self.heard: list[tuple[float, FromHead]] = []
        self.events: list[tuple[float, Event]] = []
        self.bodies: list[bytes] = []
        self.frames = Frames(CRC16, FRAME_BYTES)
        for channel, (low, _) in enumerate(MV.values()):
            self.bench.level(0, channel, low)
        self.change(0, Line.PRESENT, on=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bench.close()

    def change(self, at: float, line: Line, *, on: bool, ramp: float = 0) -> None:
        if line is Line.LID:
            self.bench.lid(at, Pin.HIGH if on else Pin.LOW)
        else:
            self.bench.level(at, CHANNELS.index(line), MV[line][on], ramp)

    def play(self, levels: Iterable[Level], begin: float, ramp: float = RAMP_US) -> None:
        """Puts the changes in line, from `begin` on; an edge is over its threshold in the middle of its ramp."""
        for at, line, level in levels:
            self.change(begin + at / 1_000 - ramp / 2, line, on=level, ramp=ramp)

    def say(self, message: FromTable) -> None:
        self.bench.receive(encode(body_of(message), CRC16, FRAME_BYTES))

    def run(self, us: float) -> None:
        """Lets time pass; what comes is heard, a new boot is named, an event in order is acknowledged."""
        end = self.bench.now + us
        while self.bench.now < end:
            self.bench.run(min(SLICE_US, max(1, end - self.bench.now)))
            for at, byte in self.bench.sent():
                for body in self.frames.feed(bytes([byte])):
                    self.hear(at, body)

    def hear(self, at: float, body: bytes) -> None:
        self.bodies.append(body)
        try:
            message = decode(body)
        except MessageError:
            return  # a frame that noise made
        assert isinstance(message, FromHead)
        self.heard.append((at, message))
        match message:
            case Hello(boot=0, boots=boots) if self.boot:
                self.events.clear()
                self.say(Name(boots, self.boot))
            case Event(seq=seq):
                if seq == len(self.events) + 1:
                    frame_us = (len(body) + 4) * BYTE_US
                    self.events.append((at - frame_us - message.age_ms * 1_000, message))
                if self.acknowledge and seq <= len(self.events):
                    self.say(Ack(self.boot, len(self.events)))

    def last(self, kind: type[M]) -> M:
        """The last message of that kind."""
        return next(message for _, message in reversed(self.heard) if isinstance(message, kind))

    def count(self, kind: type[FromHead]) -> int:
        return sum(isinstance(message, kind) for _, message in self.heard)

    def ask(self, message: FromTable, answer: type[M], us: float = 20_000) -> M:
        """Says it and returns the next message of that kind."""
        before = len(self.heard)
        self.say(message)
        self.run(us)
        return next(each for _, each in self.heard[before:] if isinstance(each, answer))
