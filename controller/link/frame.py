"""Bodies of bytes as frames on a serial line: byte-stuffed, checked, each ended by a zero byte.

A frame is COBS (Cheshire and Baker, Consistent Overhead Byte Stuffing, IEEE/ACM ToN 7(2), 1999) over the body and its
check, little-endian, then 0x00. No other byte is zero, so that a reader is in step again at the next zero, whatever
was lost, added or changed before. Knows no port, no clock and no message. Holds at most one frame.
"""

import binascii
import zlib
from collections.abc import Callable
from typing import NamedTuple

END = b"\0"
BLOCK = 254  # bytes without a zero that one code byte stands before


class Check(NamedTuple):
    """A checksum of `size` bytes over a body."""

    size: int
    of: Callable[[bytes], int]


CRC16 = Check(2, lambda body: binascii.crc_hqx(body, 0xFFFF))
"""CRC-16/IBM-3740, also called CCITT-FALSE: of `123456789` it is 0x29B1."""
CRC32 = Check(4, zlib.crc32)
"""CRC-32/ISO-HDLC, that of Ethernet and zip: of `123456789` it is 0xCBF43926."""


class FrameError(Exception):
    """What came between two zeros is no frame. The text is its kind: stuffing, short, check or overlong."""


KINDS = ("stuffing", "short", "check", "overlong")


def room(limit: int, check: Check) -> int:
    """The longest body in bytes of which every one fits a frame of `limit` bytes, the zero at its end counted."""
    return (limit - len(END)) * BLOCK // (BLOCK + 1) - check.size


def encode(body: bytes, check: Check, limit: int) -> bytes:
    """The frame of a body; ValueError where the body is empty or longer than `room`."""
    if not 0 < len(body) <= room(limit, check):
        raise ValueError(f"a body of {len(body)} bytes is not 1 to {room(limit, check)}: it has no frame of {limit}")
    return stuff(body + check.of(body).to_bytes(check.size, "little")) + END


def decode(stuffed: bytes, check: Check) -> bytes:
    """The body of what stood before a zero; FrameError."""
    data = unstuff(stuffed)
    body, trailer = data[: -check.size], data[-check.size :]
    if not body:
        raise FrameError("short")
    if check.of(body) != int.from_bytes(trailer, "little"):
        raise FrameError("check")
    return body


def stuff(data: bytes) -> bytes:
    """COBS: the data without a zero, and at most one byte in each 254 longer, and one more."""
    out = bytearray()
    *inner, last = data.split(END)
    for part in inner:  # each ends in a zero, which the code byte of its last block stands for
        rest = _full_blocks(part, out)
        out.append(len(rest) + 1)
        out += rest
    rest = _full_blocks(last, out)
    if rest or not last:
        out.append(len(rest) + 1)
        out += rest
    return bytes(out)


def _full_blocks(part: bytes, out: bytearray) -> bytes:
    """Writes the blocks that stand for no zero; returns what is left of the part."""
    while len(part) >= BLOCK:
        out.append(BLOCK + 1)
        out += part[:BLOCK]
        part = part[BLOCK:]
    return part


def unstuff(stuffed: bytes) -> bytes:
    """The data of COBS; FrameError where a zero stands in it, or a block goes past its end."""
    if END in stuffed:
        raise FrameError("stuffing")
    out = bytearray()
    at = 0
    while at < len(stuffed):
        code = stuffed[at]
        after = at + code
        if after > len(stuffed):
            raise FrameError("stuffing")
        out += stuffed[at + 1 : after]
        at = after
        if code <= BLOCK and at < len(stuffed):
            out += END
    return bytes(out)


class Frames:
    """The frames of a stream, however it was cut up on the way.

    A frame has at most `limit` bytes, its zero counted; a longer one is dropped whole. Counted since the start: `good`
    frames handed out, and `errors` by kind (KINDS). Nothing between two zeros is no frame and no error. What stands
    before the first zero is handed out where it is a frame, and else is no error: the stream may have been opened in
    the middle of one.
    """

    def __init__(self, check: Check, limit: int) -> None:
        self.good = 0
        self.errors = dict.fromkeys(KINDS, 0)
        self._check, self._limit = check, limit
        self._held = bytearray()
        self._overlong = False  # in a frame that will not be handed out
        self._joined = False  # a zero has been seen

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies of the frames that end in `data`."""
        first, *rest = data.split(END)
        bodies: list[bytes] = []
        self._hold(first)
        for part in rest:
            self._end(bodies)
            self._hold(part)
        return bodies

    def restart(self) -> None:
        """Another stream begins, perhaps in the middle of a frame; what is held is dropped and not counted."""
        self._clear()
        self._joined = False

    def _hold(self, part: bytes) -> None:
        if self._overlong or len(self._held) + len(part) + len(END) > self._limit:
            self._overlong = True
            self._held.clear()
        else:
            self._held += part

    def _end(self, bodies: list[bytes]) -> None:
        error = "overlong" if self._overlong else ""
        if self._held:
            try:
                bodies.append(decode(bytes(self._held), self._check))
                self.good += 1
            except FrameError as found:
                error = str(found)
        if error and self._joined:
            self.errors[error] += 1
        self._clear()
        self._joined = True

    def _clear(self) -> None:
        self._held.clear()
        self._overlong = False
