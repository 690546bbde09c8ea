"""The bytes of a serial line into lines of text, however they were cut up on the way.

Knows no codes, no port and no clock: every time is an argument, monotonic nanoseconds. What is not surely one whole
line is noise: it is counted, and at most handed out marked as such. Holds at most `limit` bytes.
"""

from typing import NamedTuple


class Line(NamedTuple):
    """A line that ended. `at` is when its terminator came.

    `clean`: `text` is what was sent, printable ASCII. Otherwise it is for people: any other byte is written in hex.
    """

    text: str
    at: int
    clean: bool


class Lines:
    """CR and LF each end a line, and an empty line is none: so CRLF and a doubled CR end one line.

    A line longer than `limit` bytes is dropped whole, to its terminator; a line that has no terminator `idle_ns` after
    its last byte is dropped. Counted since the start: `clean` and `dirty` lines handed out, `overlong` and `halves`
    dropped.
    """

    def __init__(self, limit: int, idle_ns: int) -> None:
        self.clean = self.dirty = self.overlong = self.halves = 0
        self._limit = limit
        self._idle_ns = idle_ns
        self._held = bytearray()
        self._dropping = False  # in a line that will not be handed out
        self._joined = False  # the held line went on after a silence: two halves, perhaps not of one line
        self._last = 0

    @property
    def dropped(self) -> int:
        return self.overlong + self.halves

    @property
    def held(self) -> int:
        """The bytes waiting for their terminator."""
        return len(self._held)

    @property
    def due(self) -> int | None:
        """When `idle` will drop what waits for its terminator, should nothing more come; None when nothing waits."""
        return self._last + self._idle_ns if self._held or self._dropping else None

    def feed(self, data: bytes, at: int) -> list[Line]:
        """The lines that end in `data`, which came at `at`."""
        if self._held and at - self._last >= self._idle_ns:
            self._joined = True
        first, *rest = data.replace(b"\n", b"\r").split(b"\r")
        ended: list[Line] = []
        self._hold(first)
        for part in rest:
            self._end(at, ended)
            self._hold(part)
        self._last = at
        return ended

    def idle(self, at: int) -> bool:
        """Drops half a line whose last byte is `idle_ns` old, and says whether it did. Bytes after it begin a line."""
        due = self.due
        if due is None or at < due:
            return False
        self.restart(at)
        return True

    def restart(self, at: int, *, midline: bool = False) -> None:
        """Drops what is held. With `midline`, what comes next ends a line begun unseen, and is dropped too."""
        self.halves += bool(self._held) + midline
        self._clear()
        self._dropping = midline
        self._last = at

    def _hold(self, part: bytes) -> None:
        if not part or self._dropping:
            return
        if len(self._held) + len(part) > self._limit:
            self.overlong += 1
            self._clear()
            self._dropping = True
            return
        self._held += part

    def _end(self, at: int, ended: list[Line]) -> None:
        if self._held:
            text = self._held.decode("latin-1")
            if text.isascii() and text.isprintable() and not self._joined:
                self.clean += 1
                ended.append(Line(text, at, clean=True))
            else:
                self.dirty += 1
                ended.append(Line(_escaped(text), at, clean=False))
        self._clear()

    def _clear(self) -> None:
        self._held.clear()
        self._dropping = self._joined = False


def _escaped(text: str) -> str:
    return "".join([sign if sign.isascii() and sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text])
