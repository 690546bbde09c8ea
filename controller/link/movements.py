"""The words of the shoe's sensors: the lines, what they say of a card's way out, and the thresholds between the two.

Two beams cross the exit. `exit_inner` is the nearer to the cards, and a card that leaves covers it first; a card is
longer than the way between them, so it covers both before it clears the first. The words are the sensor head's own.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

MS = 1_000_000  # nanoseconds


class Line(StrEnum):
    """A sensor and what True means on its line; the value is its name in the configuration."""

    INNER = "exit_inner"  # the beam is interrupted
    OUTER = "exit_outer"  # the beam is interrupted
    CUT = "cut"  # the cut card lies under the reflectance sensor, which sits before the inner beam or between the two
    PRESENT = "present"  # a card lies in the mouth, before the inner beam
    LID = "lid"  # the lid is open


BEAMS = (Line.INNER, Line.OUTER)


class Edge(NamedTuple):
    """A line changed to `level` at `at` (ns). `seq` numbers the edges of all lines, `line_seq` those of this one."""

    line: Line
    level: bool
    at: int
    seq: int
    line_seq: int


class Why(StrEnum):
    """Why a movement is ambiguous, or a sensor at fault."""

    DRAGGED = "dragged"  # the outer beam cleared over a covered inner one: gone back, or left dragging the next card
    TIGHT = "tight"  # the inner beam was covered again before the last card was out: by it, or by the next
    LENGTH = "length"  # too long for one card, too slow to be sure that two lay together
    SENSORS = "sensors"  # the beams contradict each other
    OUTSIDE = "outside"  # the outer beam was covered first, and no card went in
    CUT = "cut"  # partly a card, partly the cut card
    LOST = "lost"  # edges were lost: what moved meanwhile is not known
    STUCK = "stuck"
    FLICKERS = "flickers"
    BLIND = "blind"  # does not see what its neighbours see


class CardOut(NamedTuple):
    """One card left at `at`. It covered the inner beam for `covered_ns`, and reached the outer one after `lag_ns`.

    Both are None where its entry was not seen.
    """

    at: int
    covered_ns: int | None
    lag_ns: int | None


class TwoOut(NamedTuple):
    """Two cards left as one, overlapping: I08."""

    at: int


class CutOut(NamedTuple):
    """The cut card left: `via` "beams", or "reflectance" where no beam could tell."""

    at: int
    via: str


class CutWaiting(NamedTuple):
    """The cut card lies in the mouth. It only warns (B7)."""

    at: int


class Returned(NamedTuple):
    """A card came in from outside: one that had left (I17)."""

    at: int


class Ambiguous(NamedTuple):
    """Something moved at the exit, and how many cards left is not known."""

    at: int
    why: Why


class Mouth(NamedTuple):
    at: int
    full: bool


class Lid(NamedTuple):
    at: int
    is_open: bool


class Fault(NamedTuple):
    """A sensor cannot be trusted: a line's name, or `edges` when edges were lost."""

    at: int
    part: str
    why: Why


class Well(NamedTuple):
    """What was at fault can be trusted again."""

    at: int
    part: str


Report = CardOut | TwoOut | CutOut | CutWaiting | Returned | Ambiguous | Mouth | Lid | Fault | Well


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Times in nanoseconds. Drawn by hand, a card covers a beam for 25 to 300 ms, and 60 ms or more lie between two.

    The figures assume cards of 88 mm and beams 15 mm apart, so that a card goes from beam to beam in a sixth of the
    time in which it covers one.
    """

    late_ns: int = 1 * MS  # what happened so long ago was handed over: above the kernel's own delay (0.3 ms measured)
    settle_ns: int = 2 * MS  # a beam changes when the new level outweighs the old by so much: a burst of edges under
    # twice that invents nothing, and half of it lies inside the shortest way between the beams
    mouth_settle_ns: int = 50 * MS  # the next card slides into the mouth
    lid_settle_ns: int = 10 * MS  # a microswitch bounces
    chatter_ns: int = 50 * MS  # a beam that cannot make up its mind so long flickers, and the other one stops waiting
    card_min_ns: int = 12 * MS  # half of the fastest draw: what covers a beam for less is no card
    lag_min_ns: int = MS * 3 // 10  # from beam to beam so fast (50 m/s) goes a lamp, not a card
    dropout_ns: int = 5 * MS  # a beam that clears for less has seen no gap between cards
    back_ns: int = 200 * MS  # a hand that takes a card back moves its front from beam to beam in less
    follow_ns: int = 80 * MS  # a card whose tail is between the beams and goes on is out by then ...
    follow_lags: float = 1.5  # ... and within so many times the way its front took
    card_lags: float = 6.0  # a card's length over the distance of the beams
    resolution_ns: int = MS // 2  # how well an edge's time is known: a sensor head samples at 2 kHz
    two_min: float = 1.5  # lengths of a card from which on it is not one: halfway to two end to end
    two_max: float = 2.5  # and up to which it is two; a length greater still is a card that stopped on its way
    pull_ns: int = 400 * MS  # a card drawn in less did not stop on its way
    even: float = 1.5  # one drawn in more did, unless its tail went out at its front's speed, but for so much
    slow_ns: int = 1_500 * MS  # counted as slow
    stuck_ns: int = 30_000 * MS  # nobody holds a card half out for longer: dirt, a dead lamp, a broken wire
    flicker_count: int = 10  # glitches within `flicker_ns` make a fault, which is over after `flicker_ns` without one
    flicker_ns: int = 1_000 * MS
    blind_count: int = 3  # in a row: one may be a finger
    cut_sure: float = 0.75  # the share of the time in which a card lies under the sensor that makes it the cut card
    cut_none: float = 0.25  # and the share up to which it is an ordinary one
    cut_min_ns: int = 10 * MS  # without beams: what the sensor sees for less is no cut card
    cut_waits_ns: int = 300 * MS  # above the time for which a drawn card uncovers the next one
    cut_stuck_ns: int = 1_000 * MS  # seen so long after it left, it is the sensor that is stuck
    mouth_early_ns: int = 100 * MS  # a card that comes out of a mouth empty for longer was not seen in it
    lost_ns: int = 10_000 * MS  # edges all in order for so long: none is being lost any more
