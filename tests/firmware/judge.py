"""The head's judgement in C, asked as a library: levels of the lines in, reports out, in the table's own words."""

import ctypes
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from controller.link.messages import Flag, Kind, Why
from controller.link.movements import Line
from firmware.sim.bench import build
from tests.passages import MS, Level

TICK = MS // 2  # ns
NOT_SEEN = 0xFFFF  # covered_ms and lag_100us where the entry was not seen
ROOM = 4096  # reports of one replay
LINES = tuple(Line)

PLAIN = {
    Kind.CARD: "card",
    Kind.TWO: "two",
    Kind.WAITING: "waiting",
    Kind.REVERSE: "returned",
    Kind.PULLBACK: "pullback",
    Kind.GLITCH: "glitch",
}
EVIDENCE = (Kind.PULLBACK, Kind.GLITCH)  # what the Python judgement only counts


class _Told(ctypes.Structure):
    _fields_: Sequence[tuple[str, type]] = [
        ("at", ctypes.c_uint32),
        ("covered_ms", ctypes.c_uint16),
        ("lag_100us", ctypes.c_uint16),
        ("kind", ctypes.c_uint8),
        ("line", ctypes.c_uint8),
        ("why", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
    ]


class Told(NamedTuple):
    at: int  # ns
    kind: Kind
    word: str  # as `said` in tests/link/test_edges.py has it
    covered_ms: int
    lag_100us: int


def word(kind: Kind, line: int, why: Why, flags: Flag) -> str:
    match kind:
        case Kind.CUT:
            return "cut:reflectance" if Flag.ALONE in flags else "cut:beams"
        case Kind.AMBIGUOUS:
            return f"ambiguous:{why.name.lower()}"
        case Kind.STUCK:
            return f"fault:{LINES[line - 1]}:{why.name.lower()}"
        case Kind.CLEAR:
            return f"well:{LINES[line - 1]}"
        case Kind.LID:
            return "open" if Flag.ON in flags else "closed"
        case Kind.PRESENT:
            return "full" if Flag.ON in flags else "empty"
    return PLAIN[kind]


@cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(build("judge") / "libjudge.so"))
    lib.replay.restype = ctypes.c_size_t
    lib.replay.argtypes = [
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_uint32,
        ctypes.POINTER(_Told),
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_uint16),
    ]
    return lib


def ticked(levels: Iterable[Level], up: Iterable[Line], end: int) -> bytes:
    """The lines in each tick until `end`, a bit each; the levels are `sampled` at whole ticks."""
    now = sum(1 << LINES.index(line) for line in up)
    shown = bytearray()
    for at, line, level in levels:
        shown += bytes([now]) * (at // TICK - len(shown))
        bit = 1 << LINES.index(line)
        now = now | bit if level else now & ~bit
    return bytes(shown + bytes([now]) * (end // TICK + 1 - len(shown)))


def judged(levels: Iterable[Level], up: Iterable[Line], end: int, begin: int = 0) -> tuple[list[Told], dict[str, int]]:
    """What the head tells of it by `end`, and what it counts; its first tick has the number `begin`."""
    shown = ticked(levels, up, end)
    room, counted = (_Told * ROOM)(), (ctypes.c_uint16 * 2)()
    count = library().replay(shown, len(shown), begin, room, ROOM, counted)
    assert count < ROOM
    told = [
        Told(
            (each.at - begin) % 2**32 * TICK,
            Kind(each.kind),
            word(Kind(each.kind), each.line, Why(each.why), Flag(each.flags)),
            each.covered_ms,
            each.lag_100us,
        )
        for each in room[:count]
    ]
    return told, dict(zip(("glitch", "pullback"), counted, strict=True))
