"""The serial link to the casino: its messages, each the body of one frame (docs/serial-link.md).

Knows no port and no clock, and of the feed's messages only that they have numbers. All numbers are little-endian.
"""

import struct
from enum import Enum
from typing import NamedTuple

from .frame import CRC32, encode

VERSION = 1
LIMIT = 8_192  # bytes of a frame on the line (DESIGN 5)
WINDOW = 16  # messages sent without an acknowledgement
MESSAGE_MAX = 65_536  # bytes of a feed message: it goes in as many parts as it needs

SECOND = 1_000_000_000
HELLO_NS = SECOND  # how often an end that is not answered says hello
BEAT_NS = SECOND // 2  # how often each end says where it is: the longest time for which a lost frame goes unnoticed
AGAIN_NS = SECOND  # how long the casino's end waits for a message that it asked for, before it asks again
SILENT_NS = 5 * SECOND  # ten beats: an end that is silent so long is gone

NO_SESSION = 0
SESSIONS = 2**32

_HEAD = struct.Struct("<cI")  # kind, session
_NUMBER = struct.Struct("<I")
_PART = struct.Struct("<IBB")  # number, which part from 0, of how many
_BEAT = struct.Struct("<II")
_HELLO = struct.Struct("<BII")
_ANSWER = struct.Struct("<BI")

# The slowest line carries 960 bytes a second, and what follows a frame waits for its end.
PART_MAX = 1_024  # bytes of a message in one frame
PARTS_MAX = MESSAGE_MAX // PART_MAX
TEXT_MAX = 4_096  # bytes of a command, and of its reply


class Kind(Enum):
    """What a frame is: the first byte of its body."""

    HELLO = b"H"  # both ends
    DATA = b"D"  # the table's end from here: a message, or a part of one
    AGAIN = b"S"  # the same, outside the order: what a command asked for
    BEAT = b"B"
    REPLY = b"Y"
    ACK = b"A"  # the casino's end from here
    NAK = b"N"
    RECEIPT = b"R"
    COMMAND = b"C"


class WireError(Exception):
    """A frame that is whole, and not of this protocol. The text says what is wrong with it."""


class Told(NamedTuple):
    """One frame's body: `payload` is what follows kind and session."""

    kind: Kind
    session: int
    payload: bytes


class Hello(NamedTuple):
    """The table's: the oldest message it still has, the newest it has a receipt for, and `table/generation`."""

    version: int
    first: int
    receipt: int
    name: str


class Answer(NamedTuple):
    """The casino's: `wanted` is the first message it wants; 0: the one behind the table's last receipt."""

    version: int
    wanted: int


class Part(NamedTuple):
    """A part of a message: its `place`, from 0, of `total`."""

    number: int
    place: int
    total: int
    data: bytes


class Beat(NamedTuple):
    """The last message that was sent, and the newest receipt that came."""

    sent: int
    receipt: int


def pack(kind: Kind, session: int, payload: bytes = b"") -> bytes:
    """The frame; ValueError where the payload is too long for one."""
    return encode(_HEAD.pack(kind.value, session) + payload, CRC32, LIMIT)


def unpack(body: bytes) -> Told:
    try:
        kind, session = _HEAD.unpack_from(body)
        return Told(Kind(kind), session, body[_HEAD.size :])
    except (struct.error, ValueError):
        raise WireError(f"a frame of an unknown kind: {body[:16].hex()}") from None


def write_parts(number: int, data: bytes) -> list[bytes]:
    """The payloads of a message, as DATA or AGAIN; ValueError where it is longer than MESSAGE_MAX."""
    if not 0 < len(data) <= MESSAGE_MAX:
        raise ValueError(f"message {number} has {len(data)} bytes, not 1 to {MESSAGE_MAX}")
    pieces = [data[at : at + PART_MAX] for at in range(0, len(data), PART_MAX)]
    return [_PART.pack(number, place, len(pieces)) + piece for place, piece in enumerate(pieces)]


def read_part(payload: bytes) -> Part:
    number, place, total = _read(_PART, payload, more=True)
    part = Part(number, place, total, payload[_PART.size :])
    if not (number > 0 and place < total <= PARTS_MAX and part.data):
        raise WireError(f"no part of a message: {payload[:16].hex()}")
    return part


def write_hello(hello: Hello) -> bytes:
    return _HELLO.pack(hello.version, hello.first, hello.receipt) + hello.name.encode("ascii")


def read_hello(payload: bytes) -> Hello:
    """Of another version only that is read: what follows it may mean anything."""
    if payload[:1] != bytes([VERSION]):
        return Hello(payload[0] if payload else 0, 0, 0, "")
    name = payload[_HELLO.size :]
    if not name.isascii():
        raise WireError(f"a name that is not ASCII: {name[:32].hex()}")
    version, first, receipt = _read(_HELLO, payload, more=True)
    return Hello(version, first, receipt, name.decode("ascii"))


def write_answer(answer: Answer) -> bytes:
    return _ANSWER.pack(*answer)


def read_answer(payload: bytes) -> Answer:
    """As `read_hello`."""
    if payload[:1] != bytes([VERSION]):
        return Answer(payload[0] if payload else 0, 0)
    return Answer(*_read(_ANSWER, payload))


def write_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def read_number(payload: bytes) -> int:
    (number,) = _read(_NUMBER, payload)
    return number


def write_beat(beat: Beat) -> bytes:
    return _BEAT.pack(*beat)


def read_beat(payload: bytes) -> Beat:
    return Beat(*_read(_BEAT, payload))


def _read(form: struct.Struct, payload: bytes, *, more: bool = False) -> tuple[int, ...]:
    if len(payload) < form.size or (len(payload) > form.size and not more):
        raise WireError(f"{len(payload)} bytes where {form.size} belong")
    return form.unpack_from(payload)
