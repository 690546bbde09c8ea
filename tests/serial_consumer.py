"""The casino's end of the serial link as an integrator would write it: from docs/serial-link.md alone.

Nothing of `controller.link` is used here. Bytes go in, bytes to send come out, times are arguments in seconds. A number
that comes again with other bytes, or a gap that was taken, is an AssertionError of the `Consumer` behind it.
"""

import json
import struct
import zlib
from hashlib import sha256


def pack(body: bytes) -> bytes:
    """COBS(body crc) 00, in the plainest way there is."""
    data, out = body + struct.pack("<I", zlib.crc32(body)), b""
    for block in data.split(b"\0"):
        while len(block) >= 254:
            out, block = out + b"\xff" + block[:254], block[254:]  # noqa: PLW2901 - the rest of the same block
        out += bytes([len(block) + 1]) + block
    return out + b"\0"


def unpack(frame: bytes) -> bytes | None:
    """The body between two zeros, None where it is damaged."""
    data, at = b"", 0
    while at < len(frame):
        code = frame[at]
        block = frame[at + 1 : at + code]
        if len(block) != code - 1:
            return None
        at += code
        data += block + (b"\0" if code < 255 and at < len(frame) else b"")
    body, crc = data[:-4], data[-4:]
    return body if body and struct.pack("<I", zlib.crc32(body)) == crc else None


class SerialConsumer:
    """`taken` is each message once, in order; what it holds outlives the program, as a database does.

    Without `says_wanted` it lets the table begin behind the last receipt, and drops what it had: `repeats`. `ahead`
    counts what was dropped because one before it was missing.
    """

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.replies: list[bytes] = []
        self.again: list[tuple[int, bytes]] = []  # what a command asked for
        self.repeats = self.ahead = self.damaged = 0
        self.says_wanted = True
        self.restart()

    def restart(self) -> None:
        """As after a crash: what was stored stays, the rest is forgotten."""
        self._buffer = b""
        self._session, self._name, self._next = 0, "", 1
        self._parts: list[bytes] = []
        self._again: list[bytes] = []
        self._heard = self._said = -1e9
        self._asked = -1e9

    def feed(self, data: bytes, now: float) -> bytes:
        """What came; what is to be said to it."""
        *frames, self._buffer = (self._buffer + data).split(b"\0")
        if len(self._buffer) > 8192:
            self._buffer = b"\xff"  # too long: never a frame
        out = b""
        for frame in frames:
            body = unpack(frame) if frame else None
            if body is not None and len(body) >= 5:
                out += self._frame(body[:1], struct.unpack_from("<I", body, 1)[0], body[5:], now)
            elif frame:
                self.damaged += 1
        return out

    def tick(self, now: float) -> bytes:
        """What is to be said after some time."""
        if self._session and now - self._heard >= 5:
            self._session = 0
        if now - self._said < (0.5 if self._session else 1.0):
            return b""
        self._said = now
        return self._ack() if self._session else pack(b"H" + struct.pack("<IBI", 0, 1, 0))

    def command(self, command: bytes) -> bytes:
        """A command, to be said now; nothing while there is no session."""
        return pack(b"C" + struct.pack("<I", self._session) + command) if self._session else b""

    def _ack(self) -> bytes:
        return pack(b"A" + struct.pack("<II", self._session, self._next - 1))

    def _receipt(self) -> bytes:
        if not self.taken:
            return b""
        generation, digest = self._name.split("/")[1], sha256(self.taken[-1]).hexdigest()
        receipt = {"generation": generation, "seqno": len(self.taken), "hash": digest}
        return pack(b"R" + struct.pack("<I", self._session) + json.dumps(receipt).encode())

    def _frame(self, kind: bytes, session: int, rest: bytes, now: float) -> bytes:
        if kind == b"H":
            return self._hello(session, rest, now)
        if session != self._session or session == 0:
            return b""
        self._heard = now
        if kind == b"D":
            return self._data(rest, now)
        if kind == b"Y":
            self.replies.append(rest)
        if kind == b"S":
            number, place, total = struct.unpack_from("<IBB", rest)
            self._again = [*(self._again if place else []), rest[6:]]
            if place == total - 1 and len(self._again) == total:
                self.again.append((number, b"".join(self._again)))
        if kind == b"B":
            sent, receipt = struct.unpack("<II", rest)
            lost = self._nak(now) if sent >= self._next else b""
            return lost + (self._receipt() if receipt < len(self.taken) else b"")
        return b""

    def _hello(self, session: int, rest: bytes, now: float) -> bytes:
        version, first, receipt = struct.unpack_from("<BII", rest)
        assert version == 1
        self._name, self._heard = rest[9:].decode("ascii"), now
        wanted = len(self.taken) + 1 if self.taken and self.says_wanted else 0
        if session != self._session:
            self._session, self._parts, self._asked = session, [], -1e9
            self._next = len(self.taken) + 1
            assert max(wanted or receipt + 1, first) <= self._next, "the table has receipts for what never came"
        return pack(b"H" + struct.pack("<IBI", session, 1, wanted))

    def _nak(self, now: float) -> bytes:
        if now - self._asked < 1:
            return b""
        self._asked = now
        return pack(b"N" + struct.pack("<II", self._session, self._next))

    def _data(self, rest: bytes, now: float) -> bytes:
        number, place, total = struct.unpack_from("<IBB", rest)
        if number < self._next:
            self.repeats += place == total - 1
            return self._ack() + self._receipt() if place == total - 1 else b""
        if number == self._next and place == 0:
            self._parts = []
        if number > self._next or place != len(self._parts):
            self._parts = []
            self.ahead += number > self._next
            nak = self._nak(now)
            self._asked = now
            return nak
        self._parts.append(rest[6:])
        if place < total - 1:
            return b""
        self.taken.append(b"".join(self._parts))
        self._parts, self._asked = [], -1e9
        self._next += 1
        return self._ack() + self._receipt()
