"""Edges back in order, and what their numbers tell of those that are missing (bug report 4; gpiolib-cdev.c)."""

from collections import Counter

import pytest

from controller.link.movements import Edge, Line
from controller.link.order import HELD_MAX, Order

LINES = {"a": Line.INNER, "b": Line.OUTER}


def edge(word: str) -> Edge:
    """`a3/2`: the third edge of all, the second of line a; it happened at 3."""
    seq, own = word[1:].split("/")
    return Edge(LINES[word[0]], True, int(seq), int(seq), int(own))


# What is done, in order: an edge is handed over; `@t` gives up waiting for what happened before t; `restart`, `forget`.
# Then the numbers in the order in which they came out, and what was found; `lost` as of each restart and of the end.
STORIES = {
    "in order": ("a1/1 b2/1 a3/2", "1 2 3", ""),
    "two lines' in the wrong order": ("a1/1 a3/2 b2/1 a4/3", "1 2 3 4", ""),
    "the first of all too": ("b2/1 a1/1", "1 2", ""),
    "an edge waits for the one before": ("a1/1 a3/2", "1", ""),
    "but not for ever": ("a1/1 a3/2 a4/3 @3", "1 3 4", "hole"),
    "nor for what is later": ("a1/1 a3/2 @2", "1", ""),
    "two holes": ("a1/1 a3/2 a5/3 @5", "1 3 5", "hole hole"),
    "two, one of which is waited for": ("a1/1 a3/2 a5/3 @4", "1 3", "hole"),
    "what comes when its place is given up": ("a1/1 a3/2 @3 b2/1", "1 3 2", "hole late"),
    "a line's own numbers have a hole": ("a1/1 a3/3 @3", "1 3", "hole lost"),
    "from the first on": ("a2/2", "", "lost"),
    "what a restart made up for shows once": ("a1/1 b3/1 @3 restart a4/3", "1 3 4", "hole"),
    "and may be all of it": ("a1/1 b5/1 @5 restart a6/5", "1 5 6", "hole"),
    "but no more": ("a1/1 b3/1 @3 restart a4/4", "1 3 4", "hole lost"),
    "and only in the next of its line": ("a1/1 b3/1 @3 restart a4/2 a5/4", "1 3 4 5", "hole lost"),
    "and not twice": ("a1/1 b4/2 @4 restart a5/3 b6/4", "1 4 5 6", "hole lost lost"),
    "what a line showed is not made up for again": ("a1/1 a3/3 @3 restart a4/5", "1 3 4", "hole lost lost"),
    "a restart waits for nothing": ("a1/1 a3/2 restart b4/1", "1 4", ""),
    "and knows what was missing": ("a1/1 b3/1 restart a4/3", "1 4", ""),
    "and no more than that": ("a1/1 b3/1 restart a4/4", "1 4", "lost"),
    "numbered anew": ("a1/1 b2/1 forget a1/1 b2/1", "1 2 1 2", ""),
    "anew, with one that waited": ("a1/1 a3/2 forget a1/1 b2/1", "1 1 2", ""),
    "anew, and nothing known": ("a1/1 b3/1 @3 restart forget a1/2", "1 3 1", "hole lost"),
}


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    doings, expected, found = STORIES[name]
    counts: Counter[str] = Counter()
    order = Order(counts)
    out: list[Edge] = []
    for doing in doings.split():
        if doing in ("restart", "forget"):
            counts["lost"] += order.lost
            (order.restart if doing == "restart" else order.forget)()
            assert not order.lost
            assert not order.hole
            assert order.due is None
        elif doing[0] == "@":
            out += order.until(int(doing[1:]))
        else:
            out += order.take(edge(doing))
    counts["lost"] += order.lost
    assert " ".join(str(one.seq) for one in out) == expected
    assert counts == Counter(found.split())


def test_due_is_the_time_of_the_first_that_waits() -> None:
    order = Order(Counter())
    assert order.due is None
    order.take(edge("a7/1"))
    order.take(edge("a5/2"))
    assert order.due == 5


def test_what_waits_is_bounded() -> None:
    order = Order(Counter())
    out = [one.seq for number in range(2, HELD_MAX + 3) for one in order.take(edge(f"a{number}/{number - 1}"))]
    assert out == list(range(2, HELD_MAX + 3))
    assert order.hole
