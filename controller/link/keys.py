"""What a scanner that types like a keyboard has typed: the kernel's input events into bytes for `Lines`.

Knows no codes, no device and no clock. The layout is the US one, whatever the machine's is: it is what such scanners
speak when they leave the factory. A stroke that is not surely one character is none: it is handed out as a byte that
no clean line holds, so that its line is noise and never another line.
"""

import struct
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

# linux/input.h: struct input_event. Two longs of time, type, code, value: 24 bytes, 16 on a 32-bit machine.
EVENT = struct.Struct("llHHi")

# linux/input-event-codes.h
EV_SYN, EV_KEY, EV_LED = 0x00, 0x01, 0x11
SYN_REPORT, SYN_DROPPED = 0, 3
UP, DOWN, REPEAT = 0, 1, 2
LED_NUML, LED_CAPSL = 0, 1
KEY_ENTER, KEY_KPENTER = 28, 96
KEY_LEFTSHIFT, KEY_RIGHTSHIFT = 42, 54
KEY_CAPSLOCK, KEY_NUMLOCK = 58, 69
KEY_MAX = 0x2FF

ENTERS = frozenset((KEY_ENTER, KEY_KPENTER))
SHIFTS = frozenset((KEY_LEFTSHIFT, KEY_RIGHTSHIFT))
LOCKS = frozenset((KEY_CAPSLOCK, KEY_NUMLOCK))
COMMANDS = frozenset((29, 97, 56, 100, 125, 126))  # Ctrl, Alt and Meta, left and right: with them a key is no character

# The first key of a row, and what its keys type alone and with shift.
_ROWS = (
    (2, "1234567890-=", "!@#$%^&*()_+"),
    (16, "qwertyuiop[]", "QWERTYUIOP{}"),
    (30, "asdfghjkl;'`", 'ASDFGHJKL:"~'),
    (43, "\\zxcvbnm,./", "|ZXCVBNM<>?"),
    (57, " ", " "),
)
MAIN: Mapping[int, tuple[str, str]] = {
    first + index: pair for first, *signs in _ROWS for index, pair in enumerate(zip(*signs, strict=True))
}
_PAD_ROWS = ((71, "789"), (75, "456"), (79, "1230."))
PAD: Mapping[int, str] = {first + index: sign for first, row in _PAD_ROWS for index, sign in enumerate(row)}
PAD_SIGNS: Mapping[int, str] = {55: "*", 74: "-", 78: "+", 98: "/"}  # whatever NumLock and shift say

# What a keyboard must have to be a scanner of ours; a power button, a mouse or a headset has not.
TYPES = ENTERS - {KEY_KPENTER} | {key for key, (alone, _) in MAIN.items() if alone.isalnum()}

END = b"\r"
STRANGE = b"\x1a"  # SUB: a stroke that is no character
LOST = b"\x18"  # CAN: events were lost, or their order is in doubt; what the line holds is not trusted

FRAME_MAX = 64  # events: what the kernel holds for one reader; a report of a keyboard has at most 15


class Typed(NamedTuple):
    """What one report of the keyboard typed, and when: nanoseconds of the clock that the kernel stamps with."""

    at: int
    data: bytes


class Keys:
    """Input events into bytes. Shifts, the locks and which keys are down are its state; repeats by time are no strokes.

    A report is one moment. Where its events let two orders be, as with two keys pressed in it or a shift after a key,
    what it typed is not known, nor is the line. After SYN_DROPPED nothing counts until `resync`; `lost` says so.
    `caps` and `num` are the locks, toggled by the scanner's own key: at first and after a loss as `resync` sets them.
    """

    def __init__(self) -> None:
        self.lost = False
        self.caps = False
        self.num = True
        self._down: set[int] = set()
        self._rest = bytearray()
        self._frame: list[tuple[int, int]] = []

    def feed(self, data: bytes) -> list[Typed]:
        """What the whole events in `data` typed; the part of one that is left waits for its rest."""
        self._rest += data
        whole = len(self._rest) // EVENT.size * EVENT.size
        typed: list[Typed] = []
        for seconds, microseconds, kind, code, value in EVENT.iter_unpack(bytes(self._rest[:whole])):
            at = seconds * 1_000_000_000 + microseconds * 1_000
            if kind == EV_SYN and code == SYN_DROPPED:
                self._lose(at, typed)
            elif self.lost:
                continue
            elif kind == EV_SYN and code == SYN_REPORT:
                if report := self._report():
                    typed.append(Typed(at, report))
            elif kind == EV_KEY:
                self._frame.append((code, value))
                if len(self._frame) > FRAME_MAX:
                    self._lose(at, typed)
        del self._rest[:whole]
        return typed

    def resync(self, down: Iterable[int]) -> None:
        """Begins anew with these keys down, CapsLock off, NumLock on; the caller lets the scanner know of the locks."""
        self._down = set(down)
        self._frame.clear()
        self.lost, self.caps, self.num = False, False, True

    def restart(self, down: Iterable[int]) -> None:
        """As `resync`, for a device just opened: no part of an event of the one before is left."""
        self._rest.clear()
        self.resync(down)

    def _lose(self, at: int, typed: list[Typed]) -> None:
        """Ends the line, so that it is told though its Enter may be among the lost, and begins one without its head."""
        if not self.lost:
            typed.append(Typed(at, LOST + END + LOST))
        self.lost = True
        self._frame.clear()

    def _report(self) -> bytes:
        """What the report typed whose events are all here."""
        frame, self._frame = self._frame, []
        typed = b""
        pressed: list[int] = []
        for code, value in frame:
            if value == REPEAT:
                continue
            if value not in (UP, DOWN) or (value == DOWN) == (code in self._down):
                typed += LOST  # down twice, or up twice: what came between is missing
            (self._down.add if value == DOWN else self._down.discard)(code)
            if code in SHIFTS or code in LOCKS:
                if not ENTERS.issuperset(pressed):
                    typed += LOST
                self._lock(code, value)
            elif value == DOWN:
                pressed.append(code)
                typed += self._stroke(code)
        if len(pressed) > 1:
            return LOST + (END if ENTERS.intersection(pressed) else b"")
        return typed

    def _lock(self, code: int, value: int) -> None:
        if value == DOWN:
            self.caps ^= code == KEY_CAPSLOCK
            self.num ^= code == KEY_NUMLOCK

    def _stroke(self, code: int) -> bytes:
        """What this key types now."""
        commanded = not COMMANDS.isdisjoint(self._down)
        if code in ENTERS:
            return STRANGE + END if commanded else END
        sign = None if commanded else self._sign(code, shift=not SHIFTS.isdisjoint(self._down))
        return STRANGE if sign is None else sign.encode("ascii")

    def _sign(self, code: int, *, shift: bool) -> str | None:
        if code in PAD:  # with shift systems differ: a digit, or a step of the cursor
            return PAD[code] if self.num and not shift else None
        alone, shifted = MAIN.get(code, (PAD_SIGNS.get(code), PAD_SIGNS.get(code)))
        if alone is not None and alone.isalpha():
            return shifted if shift != self.caps else alone
        return shifted if shift else alone


def twins(codes: Collection[str]) -> list[tuple[str, str]]:
    """Pairs of codes typed with the same keys, as `8h` and `8H`, `1A` and `!A`: a lost shift makes one the other."""
    alone = {sign: pair[0] for pair in MAIN.values() for sign in pair}
    first: dict[str, str] = {}
    pairs: list[tuple[str, str]] = []
    for code in codes:
        keys = "".join([alone.get(sign, sign) for sign in code])
        other = first.setdefault(keys, code)
        if other != code:
            pairs.append((other, code))
    return pairs


def bits(data: bytes) -> frozenset[int]:
    """The numbers of the bits set in a bit map of the kernel's, as EVIOCGBIT and EVIOCGKEY give it on any Pi."""
    return frozenset([8 * index + bit for index, byte in enumerate(data) for bit in range(8) if byte >> bit & 1])
