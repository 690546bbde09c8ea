"""A contact's edges into presses: tables of trains of edges, and properties over hands and bouncing metal (I46, I47).

Bug reports 4, 6, 7. Times in milliseconds.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.link.buttons import HOLD_NS, MS, SETTLE_NS, STUCK_NS, Act, Button, Kind

SETTLE = SETTLE_NS // MS
HOLD = HOLD_NS // MS
END = 1_000_000  # long after everything


def acts_of(train: list[tuple[bool, int]], polls: tuple[int, ...] = (), *, pressed: bool = False) -> list[str]:
    """What comes of edges (level, ms), with the time told at `polls` and at the end: `down 5` is DOWN at 5 ms."""
    button = Button(0, pressed=pressed)
    acts: list[Act] = []
    moments = [(at, 0, level) for level, at in train] + [(at, 1, None) for at in polls] + [(END, 1, None)]
    for at, _, level in sorted(moments, key=lambda moment: moment[:2]):
        acts += button.elapsed(at * MS) if level is None else button.edge(level, at * MS)
    assert button.due is None
    return [f"{act.kind} {act.at // MS}" for act in acts]


def train(text: str) -> list[tuple[bool, int]]:
    """`+5 -9`: closed at 5 ms, open at 9 ms."""
    return [(word[0] == "+", int(word[1:])) for word in text.split()]


CASES = (  # edges; what a hand did
    ("", ""),
    ("+10 -110", "down 10, tap 10, up 110"),
    ("+10 -12 +15 -16 +18 -110 +112 -115 +116 -118", "down 10, tap 10, up 110"),  # bounce at both ends: bug 7
    ("+10 -13", ""),  # a spike
    ("+10 -13 +60 -160", "down 60, tap 60, up 160"),  # bug 6: a spike masks no later press
    ("+10 -110 +113 -116 +160 -260", "down 10, tap 10, up 110, down 160, tap 160, up 260"),
    ("+0 -2500", "down 0, held 2000, up 2500"),  # I47
    ("+0 -1999", "down 0, tap 0, up 1999"),
    ("+0 -2000", "down 0, held 2000, up 2000"),
    ("+0 -1995 +1997 -2600", "down 0, held 2000, up 2600"),  # contact lost for a moment at the very end: still a hold
    ("+0 -1995 +1997 -2001", "down 0, tap 0, up 1995"),  # let go, bouncing over the hold's time
    ("+0 -2500 +2503 -2505", "down 0, held 2000, up 2500"),
    ("+10 +13 -110", "down 10, tap 10, up 110"),  # an edge between two of a level was lost: bug 4
    ("+10 -110 -113", "down 10, tap 10, up 110"),
    ("-85 +100 -200", "down 100, tap 100, up 200"),  # the first half of a pulse was lost: nothing to go by
    ("+10 -30 +50 -70", "down 10, tap 10, up 30, down 50, tap 50, up 70"),  # as fast as it can be told apart
    ("+10 -29 +48 -67", ""),  # no level stands long enough
)


@pytest.mark.parametrize(("edges", "acts"), CASES)
def test_a_train_of_edges_is_what_a_hand_did(edges: str, acts: str) -> None:
    assert ", ".join(acts_of(train(edges))) == acts


@pytest.mark.parametrize(
    ("edges", "acts"),
    [
        ("-500", "up 500"),  # no press was seen, so that none is told
        ("-500 +503 -505", "up 500"),
        ("-500 +700 -800", "up 500, down 700, tap 700, up 800"),
        ("", ""),  # however long it is down: it is no hold
    ],
)
def test_what_is_down_at_the_start_was_not_pressed(edges: str, acts: str) -> None:
    assert ", ".join(acts_of(train(edges), pressed=True)) == acts


def test_edges_that_come_late_together_are_judged_by_their_own_time() -> None:
    """The loop stalled from 0 to 3 s: the kernel kept the edges, and the tap is no hold."""
    button = Button(0)
    acts = [*button.edge(True, 0), *button.edge(False, 300 * MS), *button.elapsed(3_000 * MS)]
    assert [(act.kind, act.at) for act in acts] == [(Kind.DOWN, 0), (Kind.TAP, 0), (Kind.UP, 300 * MS)]


def test_due_is_when_something_is_told() -> None:
    """Nobody has to ask before: what is asked for at `due` is told then, and at no time between."""
    button = Button(0)
    assert button.due is None
    button.edge(True, 5 * MS)
    assert button.due == 5 * MS + SETTLE_NS
    assert button.elapsed(button.due - 1) == []
    assert button.elapsed(button.due) == [Act(Kind.DOWN, 5 * MS)]
    assert button.due == 5 * MS + HOLD_NS
    assert button.elapsed(button.due - 1) == []
    assert button.elapsed(button.due) == [Act(Kind.HELD, 5 * MS + HOLD_NS)]
    assert button.due is None


@pytest.mark.parametrize(
    ("edges", "at", "since"),
    [
        ("", 40_000, None),
        ("+10", 40_000, 10),  # held or shorted
        ("+10 -20000 +20005", 40_000, 10),  # a moment without contact is no rest
        ("+10 -35000", 36_000, None),
        (" ".join(f"+{at} -{at + 5}" for at in range(10, 40_000, 10)), 40_004, 10),  # chatter, which never is a press
        ("+10 -15", 60, None),
    ],
)
def test_restless_since(edges: str, at: int, since: int | None) -> None:
    button = Button(0)
    for level, moment in train(edges):
        button.edge(level, moment * MS)
    button.elapsed(at * MS)
    assert button.restless == (None if since is None else since * MS)
    assert STUCK_NS == 30_000 * MS


def ignore_window(edges: list[tuple[bool, int]], window: int = SETTLE) -> int:
    """How many presses RPi.GPIO's bouncetime makes of a train: the first edge counts, those soon after it do not."""
    presses, until = 0, -1
    for level, at in edges:
        if at >= until:
            until = at + window
            presses += level
    return presses


def test_the_choice_of_debounce_is_guarded() -> None:
    """Bug report 7: a long press whose release bounces beyond the window is two presses to a window, and one to us.

    A spike, which is no press at all, is one to a window too.
    """
    slow = train("+0 -1000 +1015 -1018 +1022 -1030")
    assert ignore_window(slow) == 2
    assert acts_of(slow) == ["down 0", "tap 0", "up 1000"]
    assert ignore_window(train("+0 -1")) == 1
    assert acts_of(train("+0 -1")) == []


# --- properties ---------------------------------------------------------------------------------------------

bounces = st.lists(st.integers(1, SETTLE - 1), max_size=8).map(lambda gaps: gaps[: len(gaps) // 2 * 2])  # back in pairs
presses = st.lists(
    st.tuples(st.integers(2 * SETTLE, 5_000), bounces, st.integers(SETTLE, 4_000), bounces), max_size=6
)  # at rest for so long; bounce as it closes; still closed for so long; bounce as it opens
polls = st.lists(st.integers(0, 50_000), max_size=8).map(tuple)


def hands(acted: list[tuple[int, list[int], int, list[int]]]) -> tuple[list[tuple[bool, int]], list[str]]:
    """The edges of those presses, and what must come of them."""
    edges: list[tuple[bool, int]] = []
    acts: list[str] = []
    at = 0
    for rest, closing, still, opening in acted:
        at += rest
        down = at
        for level, gaps, stays in ((True, closing, still), (False, opening, 0)):
            if not level:
                up = at
            edges.append((level, at))
            for index, gap in enumerate(gaps):
                at += gap
                edges.append((level == bool(index % 2), at))
            at += stays
        acts.append(f"down {down}")
        acts.append(f"tap {down}" if up - down < HOLD else f"held {down + HOLD}")
        acts.append(f"up {up}")
    return edges, acts


@given(presses, polls)
def test_bounce_neither_doubles_nor_loses_a_press(
    acted: list[tuple[int, list[int], int, list[int]]], asked: tuple[int, ...]
) -> None:
    """Bug reports 6 and 7, I46: whatever bounces, and whenever anybody asks, one press is one press, held or not."""
    edges, acts = hands(acted)
    assert acts_of(edges, asked) == acts


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20_000)), max_size=40), polls)
def test_any_edges_at_all_make_whole_presses(edges: list[tuple[bool, int]], asked: tuple[int, ...]) -> None:
    """Lost, repeated and wild edges: acts stay in order, each press is one of tap and hold and ends once."""
    acts = acts_of(sorted(edges, key=lambda edge: edge[1]), asked)
    assert re.fullmatch("(down (tap|held) up )*(down held )?", "".join(f"{act.split()[0]} " for act in acts))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20_000)), max_size=40), polls)
def test_when_it_is_asked_changes_nothing(edges: list[tuple[bool, int]], asked: tuple[int, ...]) -> None:
    ordered = sorted(edges, key=lambda edge: edge[1])
    assert acts_of(ordered, asked) == acts_of(ordered)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20_000)), min_size=1, max_size=40))
def test_the_last_level_stands(edges: list[tuple[bool, int]]) -> None:
    """Bug report 4: whatever was lost before, a level that is told last is the level in the end."""
    button = Button(0)
    ordered = sorted(edges, key=lambda edge: edge[1])
    for level, at in ordered:
        button.edge(level, at * MS)
    button.elapsed(END * MS)
    assert button.pressed is ordered[-1][0]
    assert (button.restless is None) is not button.pressed
