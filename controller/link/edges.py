"""The edges of the shoe's sensors into what moved: debounced, put in order of time, classified.

Knows no chip and no clock. Every edge has its time and its numbers; where they show that one is missing, the levels are
read again, and what was lost is a fault and never guessed (bug report 4).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from .cutcard import CutCard
from .debounce import Change, Debounce
from .movements import (
    BEAMS,
    Ambiguous,
    CardOut,
    CutOut,
    Edge,
    Lid,
    Line,
    Mouth,
    Report,
    Thresholds,
    TwoOut,
    Why,
)
from .order import Order
from .passages import Passages, Place
from .troubles import Troubles

EDGES = "edges"  # the part at fault when edges were lost


class Edges:
    """The sensors of a shoe. `lines` are those fitted: both beams or none, each of the others or not.

    It is deaf until `reread` told it every level, and again when edges were lost: edges are dropped while `deaf`. Times
    are monotonic ns; an edge that comes too late is taken for one of now. `counts` holds what is only counted: spikes,
    glitches, pull-backs and pokes, slow cards, and each kind of movement.
    """

    def __init__(self, lines: Collection[Line], limits: Thresholds | None = None) -> None:
        fitted = set(lines)
        if len(fitted & set(BEAMS)) == 1:
            raise ValueError("one exit beam cannot tell a card from one pulled back: fit exit_inner and exit_outer")
        self.lines = tuple(line for line in Line if line in fitted)
        self.beams = tuple(line for line in self.lines if line in BEAMS)
        self.limits = limits or Thresholds()
        self.counts: Counter[str] = Counter()
        self.deaf = True
        self._reports: list[Report] = []
        self._troubles = Troubles(self._reports)
        self._cut = CutCard(self.limits, self._reports, self._troubles, self.counts)
        self._passages = Passages(self.limits, self._reports, self._troubles, self.counts, self._cut)
        self._bounce: dict[Line, Debounce] = {}
        self._queue: list[tuple[Change, Line]] = []  # changes of the beams that wait for an earlier one of the other
        self._told: dict[Line, bool] = {}  # mouth and lid, as they were reported
        self._judged_to = 0  # how far in time the passages have been told
        self._unseen = 0  # cards in a row that came out of a mouth that seemed empty
        self._restless: dict[Line, int] = {}  # the flickering beams, and when they last did
        self._lost_at: int | None = None
        self._clock = 0
        self._read_at = 0
        self._order = Order(self.counts)
        self._taken = 0  # edges
        self._amiss: dict[Line, int] = {}  # lines read at another level than their edges have told, and when

    # --- what the caller does -------------------------------------------------------------------------------

    @property
    def wants_levels(self) -> bool:
        """`reread` is to be called, with levels read after the last edge was fed."""
        return self.deaf or self._order.hole

    def reread(self, levels: Mapping[Line, bool], at: int) -> list[Report]:
        """Every line's level, read at `at` or just after. While not `deaf` they are only compared."""
        if not self.deaf:
            self._order.hole = False
            self._amiss = {line: at for line, bounce in self._bounce.items() if bounce.raw is not levels[line]}
            return self._reported()
        self._clock = self._read_at = self._judged_to = at
        self._bounce = {line: Debounce(levels[line], self._clock, self._settle_ns(line)) for line in self.lines}
        self._queue.clear()
        self._order.restart()
        if self.beams:
            inner, outer = (levels[line] for line in BEAMS)
            self._passages.restart(inner=inner, outer=outer, at=self._clock)
        if Line.CUT in levels:
            self._cut.restart(level=levels[Line.CUT], at=self._clock)
        for line in self.lines:
            self._tell(line, self._clock)
            if not levels[line]:
                self._troubles.end(self._clock, line, Why.STUCK)
        self.deaf = False
        return self._reported()

    def forget(self, at: int) -> list[Report]:
        """The device is gone, and the next one numbers its edges anew. What was moving by then is `Ambiguous`."""
        if self._moving and not self.deaf:
            self._unclear(at)
        self.deaf = True
        self._amiss.clear()
        self._order.forget()
        return self._reported()

    @property
    def levels(self) -> dict[Line, bool]:
        """The level that stands on each line; empty before the first was read."""
        return {line: bounce.level for line, bounce in self._bounce.items()}

    @property
    def _moving(self) -> bool:
        """A card may be on its way through the beams."""
        began = [bounce.began for line, bounce in self._bounce.items() if line in BEAMS]
        return self._passages.place is not Place.IDLE or any(began)

    @property
    def due(self) -> int | None:
        """When `elapse` will have something to do, should no further edge come; None: not before one does."""
        dues = [due for due in (self._due(), self._order.due) if due is not None]
        return min(dues) + self.limits.late_ns if dues and not self.deaf else None

    def feed(self, edge: Edge) -> list[Report]:
        """What is sure by this edge, which is of a line fitted."""
        ready = self._order.take(edge)
        if not self.deaf:
            if self._order.lost:
                self._lose(max(edge.at, self._clock))
            else:
                self._apply(ready)
        return self._reported()

    def elapse(self, at: int) -> list[Report]:
        """What is sure at `at`, when every edge handed over by then was fed."""
        at -= self.limits.late_ns
        if not self.deaf:
            self._apply(self._order.until(at))
            self._advance(at)
        return self._reported()

    def _apply(self, edges: list[Edge]) -> None:
        for edge in edges:
            if edge.at > self._read_at and not self.deaf:
                self._advance(edge.at)
                self._taken += 1
                self._bounce[edge.line].edge(edge.level, self._clock, self._taken)
                self._amiss.pop(edge.line, None)

    # --- time -----------------------------------------------------------------------------------------------

    def _advance(self, at: int) -> None:
        """Judgements in order, each at its own time: how often time is told changes nothing."""
        while (due := self._due()) is not None and due <= at and not self.deaf:
            self._arrive(due)
        if at > self._clock and not self.deaf:
            self._arrive(at)

    def _due(self) -> int | None:
        return min(self._dues(), default=None)

    def _arrive(self, at: int) -> None:
        self._clock = max(at, self._clock)
        for line, bounce in self._bounce.items():
            began = bounce.began
            change = bounce.elapse(self._clock)
            if change is not None:
                self._changed(line, change)
            if began is None or bounce.began is not None:
                continue
            if change is None:
                self.counts["spike"] += 1
            if line in self._restless and self._clock > began[0] + self.limits.chatter_ns:
                self._restless[line] = self._clock
        self._let_pass()
        self._cut.elapse(self._clock, self._idle_since(), self._full_since())
        self._watch()

    def _dues(self) -> Iterator[int]:
        yield from (due for bounce in self._bounce.values() if (due := bounce.due) is not None)
        undecided = [began[0] for line in self.beams if (began := self._bounce[line].began) is not None]
        yield from (due for at in undecided if (due := at + self.limits.chatter_ns) > self._clock)
        if self._passages.deadline is not None and self._horizon() is None:
            yield self._passages.deadline
        cut = self._cut.due(self._idle_since(), self._full_since())
        if cut is not None:
            yield cut
        for line in self.beams:
            if self._bounce[line].level and not self._troubles.has(line, Why.STUCK):
                yield self._bounce[line].since + self.limits.stuck_ns
        yield from (at + self.limits.flicker_ns for at in self._restless.values())
        if self._lost_at is not None:
            yield self._lost_at + self.limits.lost_ns
        yield from (at + self.limits.late_ns for at in self._amiss.values())

    # --- changes --------------------------------------------------------------------------------------------

    def _changed(self, line: Line, change: Change) -> None:
        if line in BEAMS:
            self._queue.append((change, line))
            self._queue.sort()
            if not change.level:
                self._troubles.end(change.at, line, Why.STUCK)
        elif line is Line.CUT:
            alone = not self.beams or any(self._troubles.has(beam) for beam in BEAMS)
            self._cut.change(change.level, change.at, full=self._full_since() is not None, alone=alone)
        else:
            self._tell(line, change.at)

    def _horizon(self) -> tuple[int, int] | None:
        """The first edge of a beam that is not judged yet: what comes after it waits, but for no flickering beam."""
        began = [self._bounce[line].began for line in self.beams]
        return min([at for at in began if at and self._clock - at[0] < self.limits.chatter_ns], default=None)

    def _let_pass(self) -> None:
        """The beams' changes and the passages' deadline, in the order in which they happened.

        A beam that flickered makes up its mind when the other has been judged further: it counts from there.
        """
        while True:
            horizon, deadline = self._horizon(), self._passages.deadline
            change, line = self._queue[0] if self._queue else (None, None)
            if change and line and (horizon is None or change[:2] < horizon) and change.at <= (deadline or change.at):
                self._queue.pop(0)
                before = len(self._reports)
                self._judged_to = max(self._judged_to, change.at)
                self._passages.step(line, change.level, self._judged_to)
                self._moved(self._reports[before:])
            elif deadline is not None and deadline <= self._clock and (horizon is None or deadline < horizon[0]):
                self._judged_to = deadline
                self._passages.expire(deadline)
            else:
                return

    def _moved(self, reports: list[Report]) -> None:
        """What left tells on the other sensors."""
        for report in reports:
            if isinstance(report, CardOut | CutOut | TwoOut) and Line.PRESENT in self._bounce:
                mouth, entered = self._bounce[Line.PRESENT], self._passages.judged
                if mouth.level or entered is None or mouth.since > entered - self.limits.mouth_early_ns:
                    self._unseen = 0
                    self._troubles.end(report.at, Line.PRESENT, Why.BLIND)
                else:
                    self._unseen += 1
                    if self._unseen >= self.limits.blind_count:
                        self._troubles.begin(report.at, Line.PRESENT, Why.BLIND)

    def _tell(self, line: Line, at: int) -> None:
        level = self._bounce[line].level
        if line not in (Line.PRESENT, Line.LID) or self._told.get(line) is level:
            return
        self._told[line] = level
        self._reports.append(Mouth(at, level) if line is Line.PRESENT else Lid(at, level))

    # --- faults ---------------------------------------------------------------------------------------------

    def _lose(self, at: int) -> None:
        """What the sensors said since the last edge in order is worth nothing; a person counts the cards."""
        self.counts["gap"] += 1
        self._clock = at
        self._amiss.clear()
        self._troubles.begin(at, EDGES, Why.LOST)
        self._lost_at = at
        self._unclear(at)
        self.deaf = True

    def _unclear(self, at: int) -> None:
        if self.beams:
            self.counts["ambiguous"] += 1
            self._reports.append(Ambiguous(at, Why.LOST))

    def _watch(self) -> None:
        """Sensors that are stuck or flicker, and those that have come to themselves."""
        now, limits = self._clock, self.limits
        for line in self.beams:
            bounce = self._bounce[line]
            if bounce.level and now >= bounce.since + limits.stuck_ns:
                self._troubles.begin(now, line, Why.STUCK)
            if bounce.began is not None and now >= bounce.began[0] + limits.chatter_ns:
                self._troubles.begin(now, line, Why.FLICKERS)
                self._restless[line] = now
            elif self._troubles.has(line, Why.FLICKERS):
                last = self._restless[line] = max(self._restless.get(line, 0), self._passages.restless(line))
                if now >= last + limits.flicker_ns:
                    self._troubles.end(now, line, Why.FLICKERS)
                    del self._restless[line]
        if self._lost_at is not None and now >= self._lost_at + limits.lost_ns:
            self._lost_at = None
            self._troubles.end(now, EDGES, Why.LOST)
        if any(now >= at + limits.late_ns for at in self._amiss.values()):
            self._lose(now)

    # --- small things ---------------------------------------------------------------------------------------

    def _settle_ns(self, line: Line) -> int:
        slow = {Line.PRESENT: self.limits.mouth_settle_ns, Line.LID: self.limits.lid_settle_ns}
        return slow.get(line, self.limits.settle_ns)

    def _idle_since(self) -> int | None:
        if not self.beams:
            return 0
        return self._passages.idle_since if self._passages.place is Place.IDLE and not self._queue else None

    def _full_since(self) -> int | None:
        if Line.PRESENT not in self._bounce:
            return 0
        mouth = self._bounce[Line.PRESENT]
        return mouth.since if mouth.level else None

    def _reported(self) -> list[Report]:
        reports = self._reports.copy()
        self._reports.clear()
        return reports
