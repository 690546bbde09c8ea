"""The debounce of one line, to the nanosecond. Bug reports 6 (masked pulses), 7 (bounce counted twice)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.link.debounce import Debounce

SETTLE = 20

# Edges, `at` and the level (U up, d down); then each change, `first edge@when it was sure`, and when all is quiet.
STORIES = {
    "a change": "100U = U100@120",
    "and back": "100U 200d = U100@120 d200@220",
    "a spike is over when it has drained and been quiet": "100U 105d = quiet@130",
    "a longer one takes longer": "100U 119d = quiet@158",
    "what it weighed counts for what follows": "100U 110d 115U = U100@130",
    "but not when it has drained": "100U 105d 112U = U100@132",
    "nor when it has been quiet": "100U 105d 130U = quiet@130 U130@150",
    "a second spike begins the quiet anew": "100U 105d 120U 122d = quiet@144",
    "a burst that begins a change": "100U 103d 105U 110d 112U = U100@128",
    "a burst that ends one": "100U 200d 203U 205d = U100@120 d200@224",
    "a burst behind a change is judged by itself": "100U 121d 126U = U100@120 quiet@151",
    "a pulse of no length": "100U 100d = quiet@120",
    "a level that is told again changes nothing": "100U 110U = U100@120",
    "nor does the one that stands": "100d = ",
    "half up and half down, it does not make up its mind": "100U 110d 120U 130d 140U 150d = quiet@180",
    "a little more, and it does": "100U 110d 119U 129d 138U 148d 157U = U100@174",
}


def hear(line: Debounce, edges: str) -> str:
    said: list[str] = []

    def until(at: int) -> None:
        while (due := line.due) is not None and due <= at:
            began = line.began
            assert line.elapse(due - 1) is None
            assert (line.began, line.due) == (began, due)
            change = line.elapse(due)
            assert line.began is None
            said.append(f"{'U' if change.level else 'd'}{change.at}@{due}" if change else f"quiet@{due}")
        assert line.elapse(at) is None

    for order, word in enumerate(edges.split()):
        at, level = int(word[:-1]), word[-1] == "U"
        until(at)
        line.edge(level, at, order)
    until(1_000)
    return " ".join(said)


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    edges, expected = STORIES[name].split("=")
    assert hear(Debounce(False, 0, SETTLE), edges) == expected.strip()


@given(
    pulses=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=20),
    looks=st.lists(st.integers(0, 2_500), max_size=40),
)
def test_how_often_it_is_asked_changes_nothing(pulses: list[tuple[int, int]], looks: list[int]) -> None:
    at, doings = 0, [(look, -1, False) for look in looks]
    for order, (wait, width) in enumerate(pulses):
        doings += [(at + wait, 2 * order, True), (at + wait + width, 2 * order + 1, False)]
        at += wait + width
    told = []
    for asked in (True, False):
        line, changes = Debounce(False, 0, SETTLE), []
        for when, order, level in sorted(doings):
            if asked or order >= 0:
                changes.append(line.elapse(when))
            if order >= 0:
                line.edge(level, when, order)
        changes.append(line.elapse(5_000))
        told.append([change for change in changes if change])
    assert told[0] == told[1]
