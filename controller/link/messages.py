"""The sensor head's messages. Made from firmware/protocol/head.toml by generate.py there: edit that.

`encode` and `decode` are between a message and the body of its frame (`frame.py`): one byte, its number, and its
fields, little-endian. Knows no port, no clock and no order.
"""

import struct
from collections.abc import Callable
from enum import STRICT, IntEnum, IntFlag
from typing import NamedTuple

PROTOCOL = 1

# with U2X at 16 MHz 0.8 % too slow; 115200 would be 2.1 % too fast (ATmega328P data sheet, table 20-6)
BAUD = 57600
# type and fields of the longest message, with room to grow
BODY_BYTES = 40
# a body, two bytes of check, one of stuffing, the zero at the end
FRAME_BYTES = 44
# events that wait for their ACK; a card makes three at most: itself, and the mouth empty and full
QUEUE_EVENTS = 8
# free places below which what is only counted (`evidence`) is not queued
SPARE_EVENTS = 4
# all waiting events again, in order: twice a full queue's time on the wire
RESEND_MS = 100
# HELLO again, while the boot has no name
HELLO_MS = 200
# HEARTBEAT; with one byte in a hundred broken, three in a row are lost every other minute
BEAT_MS = 200
# so long without a frame, the head is lost: eight heartbeats
SILENCE_MS = 1600
# a question without an answer is asked again; an EEPROM record takes 90 ms
ANSWER_MS = 400
# the fastest draw covers a beam for so long; a head blind for less has missed no card
PASSAGE_MS = 25
# the ADC has 10 bits
LEVEL_MAX = 1023
# counts between the two thresholds of a channel: twice the noise
SWING_MIN = 40


class Kind(IntEnum):
    """What happened at the shoe."""

    CARD = 1  # one card left
    TWO = 2  # two cards left as one
    CUT = 3  # the cut card left
    WAITING = 4  # the cut card lies in the mouth; evidence
    PULLBACK = 5  # a front went back before it left; evidence
    REVERSE = 6  # a card came in from outside
    AMBIGUOUS = 7  # something moved, and how many cards left is not known: `why`
    STUCK = 8  # `line` cannot be trusted: `why`
    CLEAR = 9  # `line` can be trusted again
    GLITCH = 10  # `line` saw what is no card; evidence
    LID = 11  # the lid is open (ON) or closed
    PRESENT = 12  # a card lies in the mouth (ON) or none


class Line(IntEnum):
    """A sensor."""

    NONE = 0  # of no one sensor
    INNER = 1  # the exit's beam nearer to the cards
    OUTER = 2  # the exit's other beam
    CUT = 3  # the reflectance sensor
    PRESENT = 4  # the mouth
    LID = 5  # the lid's switch


class Why(IntEnum):
    """Why a movement is ambiguous, or a sensor at fault."""

    NONE = 0  # no reason is asked
    DRAGGED = 1  # the outer beam cleared over a covered inner one
    TIGHT = 2  # the inner beam was covered again before the last card was out
    LENGTH = 3  # too long for one card, too slow to be sure of two
    SENSORS = 4  # the beams contradict each other
    OUTSIDE = 5  # the outer beam was covered first, and no card went in
    CUT = 6  # partly a card, partly the cut card
    LOST = 7  # the queue was full: what moved since is in no event
    STUCK = 8  # covered for too long
    FLICKERS = 9  # too many glitches
    BLIND = 10  # does not see what its neighbours see


class Refusal(IntEnum):
    """Why the head does not do what it was asked."""

    UNKNOWN = 1  # no such message
    LENGTH = 2  # the message has another length
    RANGE = 3  # a threshold over level_max, or two nearer than swing_min
    BUSY = 4  # a card is at the exit, or a record is being written: ask again
    STORE = 5  # the EEPROM did not keep what was written


class Flag(IntFlag, boundary=STRICT):
    """Bits of an event."""

    SLOW = 1  # the card covered the inner beam for longer than slow_us
    ON = 2  # LID: open; PRESENT: a card is there
    ALONE = 4  # CUT: the reflectance sensor alone saw it, no beam


class Cause(IntFlag, boundary=STRICT):
    """What reset the head; more than one at power-on."""

    POWER = 1  # power came
    EXTERNAL = 2  # the reset pin: a programmer, or DTR as the port was opened
    BROWNOUT = 4  # the supply fell too low
    WATCHDOG = 8  # sampling stood still


class Seen(IntFlag, boundary=STRICT):
    """The sensors that are True, as controller/link/movements.py has it, and how the exit stands."""

    INNER = 1  # the beam is interrupted
    OUTER = 2  # the beam is interrupted
    CUT = 4  # the cut card is under the sensor
    PRESENT = 8  # a card is in the mouth
    LID = 16  # the lid is open
    MOVING = 32  # a passage is not over, or a beam has not settled


class Hello(NamedTuple):
    """Who I am. At start each hello_ms until the boot is named; and whenever asked."""

    protocol: int  # the number above
    major: int  # of the firmware's version
    minor: int  # of the firmware's version
    patch: int  # of the firmware's version
    build: int  # the first four bytes of the SHA-256 of the sources, in the order in which they are written
    cause: Cause  # of the last reset
    boots: int  # starts since power came, the first is 1; goes round
    boot: int  # the name of this boot, as NAME gave it; 0: none yet
    next: int  # the sequence of the first event that waits, or of the next to be made; the first is 1
    uptime_ms: int  # since the first sample
    last_ms: int  # uptime_ms at the last sample before the reset; 0xFFFFFFFF: not known
    lost: int  # events without an ACK that the reset lost, and one more if a passage was not over; 255: not known
    seen: Seen  # now


class Event(NamedTuple):
    """Something happened. Sent once the boot has a name, kept and sent again each resend_ms until an ACK covers it."""

    seq: int  # numbers the events of a boot without a gap, from 1 on
    age_ms: int  # from when it happened to when this frame's first byte is sent
    kind: Kind  # what
    line: Line  # STUCK, CLEAR, GLITCH: which sensor; else NONE
    why: Why  # AMBIGUOUS, STUCK: why; else NONE
    flags: Flag  # more of it
    covered_ms: int  # CARD, TWO, CUT: for how long the inner beam was covered; at most 65534, 65535: not seen
    lag_100us: int  # CARD, TWO, CUT: how long the front took from beam to beam; at most 65534, 65535: not seen
    reflected: int  # CARD, TWO, CUT: mean reflectance in the first half of the time over both beams


class Heartbeat(NamedTuple):
    """I sample and I am well.

    Each beat_ms, while the boot has a name. The counters are since power came and go round; only a power cut makes them
    0.
    """

    uptime_ms: int  # since the first sample; goes round
    next: int  # as in HELLO
    waiting: int  # events without an ACK
    seen: Seen  # now
    faults: Seen  # the lines that cannot be trusted, as STUCK and CLEAR told
    supply_mv: int  # VCC in mV, by the bandgap: 10 % exact
    cards: int  # CARD once each, TWO twice
    glitches: int  # what was too short for a card
    pullbacks: int  # fronts that went back
    resent: int  # events sent again
    bad_frames: int  # received frames that were none, and bytes with a framing error or overrun
    overflows: int  # events that found the queue full
    late_ticks: int  # samples that nobody had time for: what moved meanwhile is told as AMBIGUOUS


class Thresholds(NamedTuple):
    """The thresholds in force, as they were read back from where they are kept.

    Answers ASK_THRESHOLDS and SET_THRESHOLDS.
    """

    kept: int  # 0: no record is good, these are the firmware's own; 1: from the EEPROM
    generation: int  # of the record, one more with each that differs; 0: none
    inner_on: int  # inner beam: interrupted from here on; above inner_off or below it, as the sensor is wired
    inner_off: int  # inner beam: free from here on
    outer_on: int  # outer beam: interrupted
    outer_off: int  # outer beam: free
    cut_on: int  # reflectance: the cut card
    cut_off: int  # reflectance: a card or nothing
    present_on: int  # mouth: a card
    present_off: int  # mouth: empty


class Levels(NamedTuple):
    """What each channel reads now, means of 8 samples. Answers ASK_LEVELS."""

    inner: int  # ADC counts
    outer: int  # ADC counts
    cut: int  # ADC counts
    present: int  # ADC counts
    seen: Seen  # what the lines come to
    supply_mv: int  # VCC in mV


class Tested(NamedTuple):
    """What each channel read with its emitter off and on, in ADC counts. Answers SELF_TEST."""

    passed: Seen  # INNER, OUTER, CUT, PRESENT: the two differ by swing_min or more
    inner_dark: int  # emitters off
    outer_dark: int  # emitters off
    cut_dark: int  # emitters off
    present_dark: int  # emitters off
    inner_lit: int  # emitters on
    outer_lit: int  # emitters on
    cut_lit: int  # emitters on
    present_lit: int  # emitters on


class Refused(NamedTuple):
    """I did not do that."""

    message: int  # the number of the message that came
    why: Refusal  # why


class AskHello(NamedTuple):
    """Answered by HELLO."""


class Name(NamedTuple):
    """Names the boot, once: taken where `boots` is the head's own and it has no name. Answered by HELLO in any case."""

    boots: int  # as HELLO said
    boot: int  # random, not 0


class Ack(NamedTuple):
    """Every event of that boot up to `seq` is in the journal. Not answered."""

    boot: int  # an ACK of another boot is ignored
    seq: int  # the last event covered; one that was never made is ignored


class AskThresholds(NamedTuple):
    """Answered by THRESHOLDS."""


class SetThresholds(NamedTuple):
    """Keeps these and goes by them at once.

    Answered by THRESHOLDS when they are read back, or REFUSED. The same again writes nothing.
    """

    inner_on: int  # as in THRESHOLDS
    inner_off: int  # as in THRESHOLDS
    outer_on: int  # as in THRESHOLDS
    outer_off: int  # as in THRESHOLDS
    cut_on: int  # as in THRESHOLDS
    cut_off: int  # as in THRESHOLDS
    present_on: int  # as in THRESHOLDS
    present_off: int  # as in THRESHOLDS


class AskLevels(NamedTuple):
    """Answered by LEVELS."""


class SelfTest(NamedTuple):
    """Switches the emitters off and on, and is blind for 40 ms at most.

    Answered by TESTED, or REFUSED while a passage is not over.
    """


FromHead = Hello | Event | Heartbeat | Thresholds | Levels | Tested | Refused
FromTable = AskHello | Name | Ack | AskThresholds | SetThresholds | AskLevels | SelfTest
Message = FromHead | FromTable


class MessageError(Exception):
    """A body is no message of this protocol. The text says why."""


class _Layout(NamedTuple):
    number: int
    make: Callable[..., Message]
    fields: struct.Struct
    types: tuple[type[int], ...]
    most: tuple[int, ...]


def number(kind: type) -> int:
    """The first byte of such a message."""
    return _LAYOUTS[kind].number


def encode(message: Message) -> bytes:
    """The body of a message; ValueError where a field is over its limit."""
    layout = _LAYOUTS[type(message)]
    for name, most in zip(message._fields, layout.most, strict=True):
        value: int = getattr(message, name)
        if not 0 <= value <= most:
            raise ValueError(f"{name} is {value}, and at most {most}")
    return bytes([layout.number]) + layout.fields.pack(*message)


def decode(body: bytes) -> Message:
    """The message in a body; MessageError."""
    layout = _NUMBERS.get(body[0]) if body else None
    if layout is None:
        raise MessageError(f"no message has the number {body[:1].hex() or 'nothing'}")
    if len(body) != 1 + layout.fields.size:
        raise MessageError(f"message {layout.number} has {1 + layout.fields.size} bytes, not {len(body)}")
    values = layout.fields.unpack(body[1:])
    if any(value > most for value, most in zip(values, layout.most, strict=True)):
        raise MessageError(f"a field of message {layout.number} is over its limit")
    try:
        return layout.make(*(kind(value) for kind, value in zip(layout.types, values, strict=True)))
    except ValueError as error:
        raise MessageError(str(error)) from error


_LAYOUTS: dict[type, _Layout] = {
    Hello: _Layout(
        0x01,
        Hello,
        struct.Struct("<BBBBIBHIIIIBB"),
        (int, int, int, int, int, Cause, int, int, int, int, int, int, Seen),
        (255, 255, 255, 255, 4294967295, 255, 65535, 4294967295, 4294967295, 4294967295, 4294967295, 255, 255),
    ),
    Event: _Layout(
        0x02,
        Event,
        struct.Struct("<IIBBBBHHH"),
        (int, int, Kind, Line, Why, Flag, int, int, int),
        (4294967295, 4294967295, 255, 255, 255, 255, 65535, 65535, 1023),
    ),
    Heartbeat: _Layout(
        0x03,
        Heartbeat,
        struct.Struct("<IIBBBHHHHHHHH"),
        (int, int, int, Seen, Seen, int, int, int, int, int, int, int, int),
        (4294967295, 4294967295, 255, 255, 255, 65535, 65535, 65535, 65535, 65535, 65535, 65535, 65535),
    ),
    Thresholds: _Layout(
        0x04,
        Thresholds,
        struct.Struct("<BHHHHHHHHH"),
        (int, int, int, int, int, int, int, int, int, int),
        (1, 65535, 1023, 1023, 1023, 1023, 1023, 1023, 1023, 1023),
    ),
    Levels: _Layout(
        0x05,
        Levels,
        struct.Struct("<HHHHBH"),
        (int, int, int, int, Seen, int),
        (1023, 1023, 1023, 1023, 255, 65535),
    ),
    Tested: _Layout(
        0x06,
        Tested,
        struct.Struct("<BHHHHHHHH"),
        (Seen, int, int, int, int, int, int, int, int),
        (255, 1023, 1023, 1023, 1023, 1023, 1023, 1023, 1023),
    ),
    Refused: _Layout(
        0x07,
        Refused,
        struct.Struct("<BB"),
        (int, Refusal),
        (255, 255),
    ),
    AskHello: _Layout(
        0x81,
        AskHello,
        struct.Struct("<"),
        (),
        (),
    ),
    Name: _Layout(
        0x82,
        Name,
        struct.Struct("<HI"),
        (int, int),
        (65535, 4294967295),
    ),
    Ack: _Layout(
        0x83,
        Ack,
        struct.Struct("<II"),
        (int, int),
        (4294967295, 4294967295),
    ),
    AskThresholds: _Layout(
        0x84,
        AskThresholds,
        struct.Struct("<"),
        (),
        (),
    ),
    SetThresholds: _Layout(
        0x85,
        SetThresholds,
        struct.Struct("<HHHHHHHH"),
        (int, int, int, int, int, int, int, int),
        (1023, 1023, 1023, 1023, 1023, 1023, 1023, 1023),
    ),
    AskLevels: _Layout(
        0x86,
        AskLevels,
        struct.Struct("<"),
        (),
        (),
    ),
    SelfTest: _Layout(
        0x87,
        SelfTest,
        struct.Struct("<"),
        (),
        (),
    ),
}
_NUMBERS = {layout.number: layout for layout in _LAYOUTS.values()}
