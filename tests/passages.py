"""What happens at the exit of a shoe, and its ground truth: cards drawn by hand, as spans in which lines are True.

Independent of the code under test: it moves rigid cards past sensors under a steady pull (constant acceleration) and
reads off when each one is covered. Lengths are mm, times ns. `edges` makes changes of level of the spans, which
`chatter` disturbs and `sampled` sees as a sensor head does; `numbered` gives them the kernel's numbers.
"""

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from controller.link.movements import Edge, Line

MS = 1_000_000
CARD_MM = 88.0
OUTER_MM = 15.0  # from the inner beam, which is at 0

INNER, OUTER, CUT, PRESENT, LID = Line


class Span(NamedTuple):
    """The line is True from `begin` to `end`."""

    line: Line
    begin: int
    end: int


class Level(NamedTuple):
    at: int
    line: Line
    level: bool


@dataclass(frozen=True)
class Pull:
    """A card drawn out: its front is at the inner beam at `start`, its tail `covered` later.

    `ratio` is its speed then over its speed at first: above 1 it is drawn ever faster.
    """

    start: int
    covered: int
    ratio: float = 1.0
    length: float = CARD_MM

    def front(self, mm: float) -> int:
        """When its front has come `mm` past the inner beam; before that beam at the speed it had there."""
        speed = 2 * self.length / (self.covered * (1 + self.ratio))
        gain = (self.ratio - 1) * speed / self.covered
        if mm <= 0 or abs(gain) < 1e-18:
            return self.start + round(mm / speed)
        return self.start + round((math.sqrt(speed * speed + 2 * gain * mm) - speed) / gain)

    def tail(self, mm: float) -> int:
        return self.front(self.length + mm)

    @property
    def out(self) -> int:
        return self.tail(OUTER_MM)

    def spans(self) -> list[Span]:
        return [Span(INNER, self.start, self.tail(0)), Span(OUTER, self.front(OUTER_MM), self.out)]


@dataclass
class Scene:
    """Spans and what they come to: `truth` is each movement's kind and time, in order."""

    spans: list[Span] = field(default_factory=list)
    truth: list[tuple[str, int]] = field(default_factory=list)
    end: int = 0  # when the last of it is over

    def add(self, spans: Iterable[Span], kind: str | None = None, at: int = 0) -> None:
        new = list(spans)
        self.spans += new
        self.end = max([self.end, *(span.end for span in new)])
        if kind is not None:
            self.truth.append((kind, at))

    def card(self, pull: Pull) -> None:
        self.add(pull.spans(), "card", pull.out)

    def two(self, pull: Pull, overlap: float) -> None:
        """Two cards as one, of which `overlap` mm lie on each other."""
        both = replace(pull, length=2 * pull.length - overlap)
        self.add(both.spans(), "two", both.out)

    def cut(self, pull: Pull, sensor: float, revealed: int | None = None) -> None:
        """The cut card; its sensor is at `sensor` mm, and sees it since `revealed`, or since it came there."""
        seen = pull.front(sensor) if revealed is None else revealed
        self.add([*pull.spans(), Span(CUT, seen, pull.tail(sensor))], "cut", pull.out)

    def back(self, start: int, lag: int, over: int, back: int) -> None:
        """A front comes out, is over the outer beam for `over` (0: does not reach it) and goes back in `back`."""
        reach = [Span(OUTER, start + lag, start + lag + over)] if over else []
        self.add([Span(INNER, start, start + lag + over + back), *reach])

    def returned(self, pull: Pull) -> None:
        """A card put back: the film of `pull`, run backwards from its start on."""
        turn = pull.start + pull.out
        spans = [Span(line, turn - end, turn - begin) for line, begin, end in pull.spans()]
        gone = next(span.end for span in spans if span.line is OUTER)
        self.add(spans, "returned", gone)

    def touch(self, line: Line, start: int, width: int) -> None:
        """Something covers one beam: an insect, a finger."""
        self.add([Span(line, start, start + width)])


def edges(spans: Iterable[Span]) -> list[Level]:
    """The changes of level, in order of time; spans of one line that touch are one."""
    levels: list[Level] = []
    for line in Line:
        mine = sorted((span.begin, span.end) for span in spans if span.line is line and span.end > span.begin)
        end = -(1 << 62)
        for begin, until in mine:
            if begin > end:
                levels.append(Level(begin, line, True))
            else:
                levels.pop()
            end = max(end, until)
            levels.append(Level(end, line, False))
    return sorted(levels)


def chatter(levels: Iterable[Level], rng: random.Random, longest: int) -> list[Level]:
    """Each change followed by more, 50 us to 1 ms apart, for at most `longest` and half the way to the line's next."""
    out: list[Level] = []
    following = dict.fromkeys(Line, 1 << 62)
    for at, line, level in sorted(levels, reverse=True):
        most = min(longest, (following[line] - at) // 2)
        end = at + rng.randint(most // 30, most)
        now, flip = at, level
        while now < end:
            out.append(Level(now, line, flip))
            now, flip = now + rng.randint(MS // 20, MS), not flip
        out.append(Level(max(end, at + 1), line, level))
        following[line] = at
    return sorted(out)


def sampled(levels: Iterable[Level], period: int, phase: int = 0, up: Iterable[Line] = ()) -> list[Level]:
    """What somebody sees who looks every `period`: a change is found at the next look, a pulse between two is not."""
    shown = {line: line in up for line in Line}
    now = dict(shown)
    out: list[Level] = []
    look = phase
    for at, line, level in [*levels, Level(1 << 62, INNER, False)]:
        if at > look:
            out += [Level(look, each, now[each]) for each in Line if now[each] is not shown[each]]
            shown = dict(now)
            look = phase + math.ceil((at - phase) / period) * period
        now[line] = level
    return out


def numbered(levels: Iterable[Level], first: int = 1) -> list[Edge]:
    """The edges of one request, as the kernel numbers them."""
    own = dict.fromkeys(Line, 0)
    made: list[Edge] = []
    for seq, (at, line, level) in enumerate(levels, first):
        own[line] += 1
        made.append(Edge(line, level, at, seq, own[line]))
    return made


def coalesced(levels: Iterable[Level], window: int) -> list[Edge]:
    """As the kernel numbers them when its thread runs `window` after the first interrupt of a line, or later.

    All interrupts until then are one edge: with the last one's time and number of the request, and the level then.
    """
    own = dict.fromkeys(Line, 0)
    made: dict[Line, list[tuple[int, Edge]]] = {line: [] for line in Line}
    for seq, (at, line, level) in enumerate(levels, 1):
        before = made[line]
        if before and at - before[-1][0] < window:
            began, last = before.pop()
            before.append((began, Edge(line, level, at, seq, last.line_seq)))
        else:
            own[line] += 1
            before.append((at, Edge(line, level, at, seq, own[line])))
    return sorted((edge for edges_of in made.values() for _, edge in edges_of), key=lambda edge: edge.seq)


def level_at(levels: Iterable[Level], at: int, up: Iterable[Line] = ()) -> dict[Line, bool]:
    """What is read on every line at that time."""
    now = {line: line in up for line in Line}
    now.update((line, level) for when, line, level in levels if when <= at)
    return now


def pulls(rng: random.Random, start: int) -> Pull:
    """A draw as they are: 25 to 300 ms, drawn faster or slower towards its end."""
    return Pull(start, rng.randint(25 * MS, 300 * MS), math.exp(rng.uniform(-0.6, 1.0)))


def night(rng: random.Random, count: int, *, sensor: float = 6.0, cut: bool = True, start: int = 200 * MS) -> Scene:
    """So many things in a row, at least 60 ms apart, most of them cards; the cut card once, if at all.

    `sensor` is where the reflectance sensor sits: below 0 it is over the cards in the mouth, and sees the cut card as
    soon as the card before it uncovers it. At most twice in a row one beam alone sees something: more is a fault.
    """
    scene = Scene(end=start)
    at_cut = rng.randrange(count) if cut else None
    last: Pull | None = None
    alone = 0
    for index in range(count):
        start = scene.end + rng.randint(60 * MS, 400 * MS)
        pull = pulls(rng, start)
        others = ["two", "both", "returned", "glitch", *(["in", "poke"] if alone < 2 else [])]
        what = "cut" if index == at_cut else rng.choice(["card"] * 12 + others)
        alone = 0 if what in ("card", "cut", "two") else alone + (what in ("in", "poke"))
        if what == "card":
            scene.card(pull)
        elif what == "cut":
            revealed = last.tail(sensor) if last is not None and sensor < 0 else None
            scene.cut(pull, sensor, revealed)
        elif what == "two":
            two = Pull(start, rng.randint(200 * MS, 380 * MS), math.exp(rng.uniform(-0.15, 0.15)))
            scene.two(two, rng.uniform(0, 15))
        elif what == "in":
            scene.back(start, rng.randint(20 * MS, 500 * MS), 0, rng.randint(0, 100 * MS))
        elif what == "both":
            scene.back(
                start, rng.randint(4 * MS, 90 * MS), rng.randint(13 * MS, 900 * MS), rng.randint(13 * MS, 180 * MS)
            )  # back in less than a card's least time may hide a glitch: that is told as ambiguous
        elif what == "returned":
            scene.returned(pull)
        else:
            width = rng.randint(MS // 10, 11 * MS) if what == "glitch" else rng.randint(15 * MS, 200 * MS)
            scene.touch(OUTER if what == "poke" else rng.choice([INNER, OUTER]), start, width)
        last = pull if what == "card" else None
    return scene


def shuffled(made: list[Edge], rng: random.Random, late: int) -> Iterator[tuple[int, Edge]]:
    """Each edge with the time at which it is handed over: up to `late` after it happened, a line's own in order."""
    own = dict.fromkeys(Line, 0)
    handed: list[tuple[int, int, Edge]] = []
    for edge in made:
        own[edge.line] = max(own[edge.line], edge.at + rng.randint(0, late))
        handed.append((own[edge.line], edge.line_seq, edge))
    return ((at, edge) for at, _, edge in sorted(handed))
