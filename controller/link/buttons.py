"""The edges of a button's contact into what a hand did: a press is told once, however it bounces (I46).

Knows no pin and no clock: every time is an argument, monotonic nanoseconds, and a level is True while the contact is
closed. A change counts when the contact has stood still for `settle_ns`, and is told with the time of its first edge.
A window that trusts the first edge and ignores the next ones would take the end of a long bounce for a press (bug
report 7), and a spike of the supply for a hand.
"""

from enum import StrEnum
from typing import NamedTuple

MS = 1_000_000
SETTLE_NS = 20 * MS  # above the bounce of a worn button (5 to 10 ms), below the shortest tap of a hand (40 ms)
HOLD_NS = 2_000 * MS  # a press this long undoes (I47)
STUCK_NS = 30_000 * MS  # no hand holds a button so long


class Kind(StrEnum):
    DOWN = "down"  # the contact closed
    HELD = "held"  # it has been closed for the hold time; told while it still is
    TAP = "tap"  # it opened before the hold time; `at` is when it had closed
    UP = "up"  # it opened


class Act(NamedTuple):
    kind: Kind
    at: int


class Button:
    """One contact. `edge` and `elapsed` return what a hand did, in order: DOWN, then HELD or TAP, then UP.

    It begins at `at` as `pressed`: a button that is down already was not pressed, and its release is UP alone.
    """

    def __init__(self, at: int, *, pressed: bool = False, settle_ns: int = SETTLE_NS, hold_ns: int = HOLD_NS) -> None:
        self.pressed = pressed  # the level that stands
        self.restless = at if pressed else None  # since when it is not at rest, open and still: held, shorted, chatter
        self._settle_ns = settle_ns
        self._hold_ns = hold_ns
        self._raw = pressed  # the level of the last edge
        self._last = at  # when that edge came
        self._began: int | None = None  # the first edge of the bounce under way
        self._down: int | None = None  # when the press that stands began, where it was seen to
        self._held = False

    @property
    def due(self) -> int | None:
        """When `elapsed` will have something to do, should no edge come; None: not before one does."""
        hold_at = self._hold_at
        times = [] if hold_at is None else [hold_at]
        if self._began is not None:
            times.append(self._last + self._settle_ns)
        return min(times, default=None)

    def edge(self, pressed: bool, at: int) -> list[Act]:  # noqa: FBT001 - a level is what an edge is
        """The contact is `pressed` since `at`: an edge, or a level that was read. Returns what was settled before it.

        Two edges of one level mean that one between them was lost: during a bounce that is bounce, and at rest it
        changes nothing that stands.
        """
        acts = self.elapsed(at)
        if self._began is None:
            if pressed == self.pressed:
                return acts
            self._began = at
            if self.restless is None:
                self.restless = at
        self._raw, self._last = pressed, at
        return acts

    def elapsed(self, at: int) -> list[Act]:
        """What is settled at `at`, every edge before which is known."""
        acts: list[Act] = []
        self._tell_hold(at, acts)  # before a release that came after it
        if self._began is not None and at - self._last >= self._settle_ns:
            began, self._began = self._began, None
            if self._raw != self.pressed:
                self._change(began, acts)
            if not self.pressed:
                self.restless = None
            self._tell_hold(at, acts)  # of a press that was settled, or confirmed, only now
        return acts

    @property
    def _hold_at(self) -> int | None:
        """When the press that stands is a hold; None where it cannot be, or an earlier bounce may yet end it."""
        if self._down is None or self._held:
            return None
        hold_at = self._down + self._hold_ns
        return hold_at if self._began is None or self._began >= hold_at else None

    def _tell_hold(self, at: int, acts: list[Act]) -> None:
        hold_at = self._hold_at
        if hold_at is not None and at >= hold_at:
            self._held = True
            acts.append(Act(Kind.HELD, hold_at))

    def _change(self, at: int, acts: list[Act]) -> None:
        self.pressed = self._raw
        if self.pressed:
            self._down, self._held = at, False
            acts.append(Act(Kind.DOWN, at))
            return
        if self._down is not None and not self._held:
            acts.append(Act(Kind.TAP, self._down))
        self._down = None
        acts.append(Act(Kind.UP, at))
