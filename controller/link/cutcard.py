"""What the reflectance sensor saw: whether what passes is the cut card, whether it waits, whether the sensor is stuck.

A drawn card uncovers the next one before it is out itself. So the cut card is what lies under the sensor while the
beams' first half of a passage lasts: at its end it is already the next card, in both places that the sensor may have.
"""

from collections import Counter, deque
from itertools import pairwise

from .movements import CutOut, CutWaiting, Line, Report, Thresholds, Why
from .troubles import Troubles

CHANGES_MAX = 16  # of one passage: a sensor that changes more often cannot tell


class CutCard:
    """The sensor's line, with the cut card under it (`level`) or not; times are ns.

    `idle_since` says since when the beams have been at rest (None: they are not), `full_since` since when a card has
    lain in the mouth (None: none does); 0 stands for both where no sensor tells.
    """

    def __init__(self, limits: Thresholds, reports: list[Report], troubles: Troubles, counts: Counter[str]) -> None:
        self._limits = limits
        self._reports = reports
        self._troubles = troubles
        self._counts = counts
        self._told = -1  # when it was last told that it left
        self.restart(level=False, at=0)

    def restart(self, *, level: bool, at: int) -> None:
        """The level is read at `at`, and what went before is not known."""
        self._changes = deque([(at, level)], maxlen=CHANGES_MAX)
        self._rose_full = False  # a card lay in the mouth when the sensor saw the cut card
        self._warned = False
        self._left: int | None = None  # when the cut card left, if the sensor sees it still

    @property
    def _level(self) -> bool:
        return self._changes[-1][1]

    @property
    def _since(self) -> int:
        return self._changes[-1][0]

    def change(self, level: bool, at: int, *, full: bool, alone: bool) -> None:  # noqa: FBT001 - a level is what a change is
        """The line stands at `level` since `at`. `alone`: no beam can tell what leaves the shoe."""
        if level:
            self._rose_full = full
        else:
            seen = at - self._since
            if alone and full and self._rose_full and seen >= self._limits.cut_min_ns:
                self._tell(at, "reflectance")
            self._troubles.end(at, Line.CUT, Why.STUCK)
        self._warned, self._left = False, None
        self._changes.append((at, level))

    def share(self, begin: int, end: int) -> float:
        """The share of that time in which the cut card lay under the sensor; while that is at fault, none."""
        if self._troubles.has(Line.CUT):
            return 0.0
        if begin < self._changes[0][0] and len(self._changes) == CHANGES_MAX:
            return 0.5
        end = max(end, begin + 1)
        spans = pairwise([*self._changes, (end, False)])
        seen = sum(max(0, min(after, end) - max(at, begin)) for (at, level), (after, _) in spans if level)
        return seen / (end - begin)

    def left(self, since: int, at: int) -> None:
        """The beams saw it leave, and covered it whole since `since`. One passage is told once."""
        if self._told < since:
            self._tell(at, "beams")
        self._left = at if self._level else None

    def _tell(self, at: int, via: str) -> None:
        self._told = at
        self._counts["cut"] += 1
        self._reports.append(CutOut(at, via))

    def due(self, idle_since: int | None, full_since: int | None) -> int | None:
        """When `elapse` will have something to say, should nothing change."""
        if not self._level or full_since is None or self._troubles.has(Line.CUT):
            return None
        if self._left is not None:
            return max(self._left, full_since) + self._limits.cut_stuck_ns
        if self._warned or idle_since is None:
            return None
        return max(self._since, idle_since, full_since) + self._limits.cut_waits_ns

    def elapse(self, at: int, idle_since: int | None, full_since: int | None) -> None:
        due = self.due(idle_since, full_since)
        if due is None or at < due:
            return
        if self._left is not None:
            self._troubles.begin(at, Line.CUT, Why.STUCK)
        else:
            self._warned = True
            self._reports.append(CutWaiting(due))
