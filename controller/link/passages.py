"""What the two beams of the exit saw: cards that left, went back, came back, and what cannot be told.

Takes levels that stand, in order of time, and says only what the beams prove. The table at the end is total: each place
answers both beams. A report is made at the first moment at which it is sure: the card's scan may be on its way.
"""

from collections import Counter, deque
from collections.abc import Callable
from enum import Enum, auto
from typing import ClassVar

from .cutcard import CutCard
from .movements import Ambiguous, CardOut, Line, Report, Returned, Thresholds, TwoOut, Why
from .troubles import Troubles


class Place(Enum):
    """Where the exit stands. What the beams show, inner and outer, is part of it: `-` clear, `#` covered."""

    IDLE = auto()  # - -
    ENTERING = auto()  # # -  a front between the beams
    OVER = auto()  # # #  a card over both
    DOUBT = auto()  # # -  the outer beam cleared: a front went back, or a card left with the next one behind it
    LEAVING = auto()  # - #  a tail between the beams
    TIGHT = auto()  # # #  a tail between the beams, and the inner one covered again
    POKED = auto()  # - #  from outside
    PUSHED = auto()  # # #  from outside, and the inner one too
    ODD = auto()  # - #  what covers the outer beam, and how much of it, is not known
    MUDDLE = auto()  # # #  the same, and the inner one too


class Passages:
    """The exit. `step` takes the next change of a beam, `expire` the passing of `deadline`; both add to `reports`.

    `cut` is what the reflectance sensor knows. `judged` is when the card last judged covered the inner beam, None where
    that was not seen.
    """

    def __init__(
        self,
        limits: Thresholds,
        reports: list[Report],
        troubles: Troubles,
        counts: Counter[str],
        cut: CutCard,
    ) -> None:
        self.place = Place.IDLE
        self.idle_since = 0
        self.judged: int | None = None
        self._entered: int | None = None
        self._limits = limits
        self._reports = reports
        self._troubles = troubles
        self._counts = counts
        self._cut = cut
        self._touched = False  # the card in the exit reached the outer beam before
        self._over = self._cleared = 0  # when the outer beam was covered, and the inner one cleared
        self._again = 0  # when the beam that was clear is covered a second time
        self._doubt = 0  # when DOUBT began
        self._odd = Why.OUTSIDE  # what made it ODD
        self._alone: Counter[Line] = Counter()  # how often in a row a beam saw nothing of what the other saw
        self._glitches = {line: deque[int](maxlen=limits.flicker_count) for line in (Line.INNER, Line.OUTER)}

    @property
    def deadline(self) -> int | None:
        return self._doubt + self._limits.back_ns if self.place is Place.DOUBT else None

    def restart(self, *, inner: bool, outer: bool, at: int) -> None:
        """The beams are read at `at`, and what went before is not known."""
        self._entered, self._touched = None, False
        self._over = self.idle_since = at
        self._odd = Why.OUTSIDE
        self.place = (Place.OVER if outer else Place.ENTERING) if inner else (Place.ODD if outer else Place.IDLE)

    def step(self, line: Line, covered: bool, at: int) -> None:  # noqa: FBT001 - a level is what a change is
        self.place = self._STEPS[self.place, line, covered](self, at)
        if self.place is Place.IDLE:
            self.idle_since = at

    def expire(self, at: int) -> None:
        """`deadline` has passed: the card behind the one that may have left stays where it is."""
        self.place = self._dragged()

    # --- a card on its way out ------------------------------------------------------------------------------

    def _enter(self, at: int) -> Place:
        self._entered, self._touched = at, False
        return Place.ENTERING

    def _go_back(self, at: int) -> Place:
        """A front left the inner beam again; before it left the shoe, that is counted only (I17)."""
        if self._entered is not None:
            if at - self._entered < self._limits.card_min_ns:
                self._glitch(Line.INNER, at)
            else:
                self._counts["pullback"] += 1
                if not self._touched:
                    self._one_beam(Line.OUTER, at)
        return Place.IDLE

    def _reach(self, at: int) -> Place:
        self._over = at
        return Place.OVER

    def _draw_back(self, at: int) -> Place:
        self._touched = True
        if at - self._over < self._limits.card_min_ns:  # too short for a card to have left
            self._glitch(Line.OUTER, at)
            return Place.ENTERING
        self._doubt = at
        return Place.DOUBT

    def _was_back(self, at: int) -> Place:
        """Both beams cleared from outside to inside: a hand took it back, if that was no faster than a hand is."""
        if at - self._doubt < self._limits.card_min_ns:  # a glitch of the inner beam may have hidden that it left
            self._ambiguous(at, Why.SENSORS)
        else:
            self._counts["pullback"] += 1
        return Place.IDLE

    def _reach_again(self, at: int) -> Place:
        if at - self._doubt < self._limits.dropout_ns:
            self._glitch(Line.OUTER, at)
            return Place.OVER
        self._over = at
        self._dragged()
        return Place.OVER

    def _dragged(self) -> Place:
        """Whether a card left is not known; what covers the inner beam now counts as a card that entered unseen."""
        self._ambiguous(self._doubt, Why.DRAGGED)
        self._entered = None
        return Place.ENTERING

    def _tail(self, at: int) -> Place:
        self._cleared = at
        return Place.LEAVING

    def _leave(self, at: int) -> Place:
        self._judge(at)
        return Place.IDLE

    # --- a card close behind --------------------------------------------------------------------------------

    def _follow(self, at: int) -> Place:
        self._again = at
        return Place.TIGHT

    def _tail_again(self, at: int) -> Place:
        """The card was pushed back in part and drawn on, or the next one caught up with it under the outer beam."""
        if at - self._again < self._limits.card_min_ns:
            self._glitch(Line.INNER, at)
            return Place.LEAVING
        if self._again - self._cleared < self._limits.dropout_ns:
            self._glitch(Line.INNER, at)
            self._cleared = at
            return Place.LEAVING
        self._odd = Why.TIGHT
        return Place.ODD

    def _leave_tight(self, at: int) -> Place:
        """Either the card left, and the next one entered; or it was pushed back whole, which takes it far longer."""
        if self._entered is not None:
            ways = self._limits.follow_lags * (self._over - self._entered)
            if at - self._cleared <= min(ways, self._limits.follow_ns):
                self._judge(at)
                return self._enter(self._again)
        self._ambiguous(at, Why.TIGHT)
        self._entered = None
        return Place.ENTERING

    # --- from outside ---------------------------------------------------------------------------------------

    def _poke(self, at: int) -> Place:
        self._over = at
        return Place.POKED

    def _poke_over(self, at: int) -> Place:
        if at - self._over < self._limits.card_min_ns:
            self._glitch(Line.OUTER, at)
        else:
            self._counts["poke"] += 1
            self._one_beam(Line.INNER, at)
        return Place.IDLE

    def _push(self, at: int) -> Place:
        self._again = at
        return Place.PUSHED

    def _push_in(self, at: int) -> Place:
        if at - self._over < self._limits.card_min_ns:  # a glitch, and then a card that is on its way out
            self._glitch(Line.OUTER, at)
            return self._enter(self._again)
        self._reports.append(Returned(at))
        self._counts["returned"] += 1
        self._entered = None
        return Place.ENTERING

    def _push_out(self, at: int) -> Place:
        if at - self._again < self._limits.card_min_ns:
            self._glitch(Line.INNER, at)
            return Place.POKED
        self._odd = Why.OUTSIDE
        return Place.ODD

    def _odd_out(self, at: int) -> Place:
        """If from outside: a card half put in and taken out, or one drawn under a finger that was there before it."""
        self._ambiguous(at, self._odd)
        return Place.IDLE

    def _odd_push(self, at: int) -> Place:
        return Place.MUDDLE

    def _muddle_in(self, at: int) -> Place:
        self._ambiguous(at, self._odd)
        self._entered = None
        return Place.ENTERING

    def _muddle_out(self, at: int) -> Place:
        return Place.ODD

    # --- judgements -----------------------------------------------------------------------------------------

    def _judge(self, at: int) -> None:
        """Says what it was whose tail left the outer beam."""
        cards, covered, lag = 1, None, None
        self.judged = self._entered
        if self._entered is not None:
            covered, lag = self._cleared - self._entered, self._over - self._entered
            short = (covered < self._limits.card_min_ns) + (at - self._over < self._limits.card_min_ns)
            if short == 2:
                self._glitch(Line.INNER, at)
                self._glitch(Line.OUTER, at)
                return
            if short or min(lag, at - self._cleared) < self._limits.lag_min_ns:
                self._ambiguous(at, Why.SENSORS)
                return
            cards = self._cards(lag, covered, at - self._cleared)
            self._counts["slow"] += covered > self._limits.slow_ns
        self._both_saw(at)
        share = self._cut.share(self._over, self._over + (self._cleared - self._over) // 2)
        if self._limits.cut_none < share < self._limits.cut_sure:
            self._ambiguous(at, Why.CUT)
        elif cards != 1 and (cards == 0 or share >= self._limits.cut_sure):
            self._ambiguous(at, Why.LENGTH)
        elif share >= self._limits.cut_sure:
            self._cut.left(self._over, at)
        else:
            self._counts["card" if cards == 1 else "two"] += 1
            self._reports.append(CardOut(at, covered, lag) if cards == 1 else TwoOut(at))

    def _cards(self, first: int, covered: int, last: int) -> int:
        """One card or two by the length that passed; 0: not to be told.

        From beam to beam the front took `first` and the tail `last`. The slower of the two is the speed that bears no
        doubt: a card slid out and then snatched is no longer for it. What it may have done is to stop half way out.
        """
        limits, slower, faster = self._limits, max(first, last), min(first, last)
        if covered / (slower + limits.resolution_ns) <= limits.two_min * limits.card_lags:
            return 1
        if covered / slower > limits.two_max * limits.card_lags:
            return 1
        if covered <= limits.pull_ns:
            return 2
        return 0 if slower <= limits.even * faster else 1

    def _ambiguous(self, at: int, why: Why) -> None:
        self._counts["ambiguous"] += 1
        self._reports.append(Ambiguous(at, why))

    def _glitch(self, line: Line, at: int) -> None:
        self._counts["glitch"] += 1
        times = self._glitches[line]
        times.append(at)
        if len(times) == times.maxlen and at - times[0] <= self._limits.flicker_ns:
            self._troubles.begin(at, line, Why.FLICKERS)

    def _one_beam(self, blind: Line, at: int) -> None:
        """The other beam alone saw something. A dead lamp or a torn wire shows like this, and so does a finger."""
        self._alone[blind] += 1
        if self._alone[blind] >= self._limits.blind_count:
            self._troubles.begin(at, blind, Why.BLIND)

    def _both_saw(self, at: int) -> None:
        self._alone.clear()
        for line in (Line.INNER, Line.OUTER):
            self._troubles.end(at, line, Why.BLIND)

    def restless(self, line: Line) -> int:
        """When the line last had a glitch; 0: never."""
        return self._glitches[line][-1] if self._glitches[line] else 0

    _STEPS: ClassVar[dict[tuple[Place, Line, bool], "Callable[[Passages, int], Place]"]] = {
        (Place.IDLE, Line.INNER, True): _enter,
        (Place.IDLE, Line.OUTER, True): _poke,
        (Place.ENTERING, Line.INNER, False): _go_back,
        (Place.ENTERING, Line.OUTER, True): _reach,
        (Place.OVER, Line.INNER, False): _tail,
        (Place.OVER, Line.OUTER, False): _draw_back,
        (Place.DOUBT, Line.INNER, False): _was_back,
        (Place.DOUBT, Line.OUTER, True): _reach_again,
        (Place.LEAVING, Line.INNER, True): _follow,
        (Place.LEAVING, Line.OUTER, False): _leave,
        (Place.TIGHT, Line.INNER, False): _tail_again,
        (Place.TIGHT, Line.OUTER, False): _leave_tight,
        (Place.POKED, Line.INNER, True): _push,
        (Place.POKED, Line.OUTER, False): _poke_over,
        (Place.PUSHED, Line.INNER, False): _push_out,
        (Place.PUSHED, Line.OUTER, False): _push_in,
        (Place.ODD, Line.INNER, True): _odd_push,
        (Place.ODD, Line.OUTER, False): _odd_out,
        (Place.MUDDLE, Line.INNER, False): _muddle_out,
        (Place.MUDDLE, Line.OUTER, False): _muddle_in,
    }
