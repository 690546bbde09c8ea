"""A bouncing line into levels that stand. Knows no clock, and forgets no edge that it has not judged.

It weighs time, as the sensor head's integrator does: time at the other level counts up, time at the standing one counts
down, and at `settle_ns` the level changes. So chatter is neither a second change (bug report 7) nor does it put the
change off until it ends, and a glitch leaves nothing behind that would mask what follows (bug report 6). gpiozero's and
lgpio's `bounce_time` are two other things, and each loses a fast card (G5).
"""

from typing import NamedTuple


class Change(NamedTuple):
    """A level that stands. `at` is the first edge of the burst that led to it, `order` its place among all edges."""

    at: int
    order: int
    level: bool


class Debounce:
    """One line, at `level` since `since`. Times are ns and never go back: the caller sees to that."""

    __slots__ = ("_away", "_last", "_quiet", "_settle_ns", "began", "level", "raw", "since")

    def __init__(self, level: bool, at: int, settle_ns: int) -> None:  # noqa: FBT001 - a level is what a line has
        self.level = level
        self.since = at
        self.began: tuple[int, int] | None = None  # the first edge, and its order, of what is not judged yet
        self.raw = level
        self._away = 0  # how much the other level outweighs the standing one, ns
        self._quiet = 0  # how long nothing has spoken for the other level, ns
        self._last = at
        self._settle_ns = settle_ns

    @property
    def due(self) -> int | None:
        """When `elapse` will come to a judgement, should no further edge come."""
        if self.began is None:
            return None
        if self.raw == self.level:
            return self._last + self._away + self._settle_ns - self._quiet
        return self._last + self._settle_ns - self._away

    def edge(self, level: bool, at: int, order: int) -> None:  # noqa: FBT001 - as above
        """The line is at `level` from `at` on; `elapse(at)` came before."""
        if level != self.level:
            self._quiet = 0
            self.began = self.began or (at, order)
        self.raw = level

    def elapse(self, at: int) -> Change | None:
        """The change that is sure at `at`. A burst that came to nothing is over when it has been quiet for `settle_ns`.

        So a change has the time of its burst's first edge, however the burst goes on.
        """
        passed, self._last = at - self._last, at
        if self.began is None:
            return None
        if self.raw == self.level:
            drained = min(self._away, passed)
            self._away -= drained
            self._quiet += passed - drained
            if self._quiet >= self._settle_ns:
                self.began = None
            return None
        self._away += passed
        if self._away < self._settle_ns:
            return None
        change = Change(*self.began, self.raw)
        self.level, self.since = self.raw, change.at
        self._away = self._quiet = 0
        self.began = None
        return change
