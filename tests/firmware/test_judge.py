"""The head judges as the table does: C and Python see the same, and say the same to the tick (I08, I17, I22, I41).

The Python judgement is held to stories and to the ground truth of nights in tests/link/test_edges.py.
"""

import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.link.movements import CardOut, Line
from tests.firmware.judge import EVIDENCE, NOT_SEEN, TICK, judged
from tests.link.test_edges import BURSTS, SEEDS, SENSORS, STORIES, ended, parsed, play, said
from tests.passages import MS, Level, chatter, edges, night, numbered, sampled

WRAPS = 2**32 - 4_000  # ticks: the head's clock goes round two seconds after it began


def agree(levels: Sequence[Level], up: Sequence[Line], end: int, begin: int = 0) -> None:
    seen = sampled(levels, TICK, 0, up)
    reports, sensors = play(numbered(seen), up=up, end=end)
    told, counts = judged(seen, up, end - sensors.limits.late_ns, begin)
    assert [(each.word, each.at) for each in told if each.kind not in EVIDENCE] == [
        (said(report), report.at) for report in reports
    ]
    assert counts == {counted: sensors.counts[counted] for counted in counts}
    cards = [(each.covered_ms, each.lag_100us) for each in told if each.word == "card"]
    assert cards == [measured(report) for report in reports if isinstance(report, CardOut)]


def measured(card: CardOut) -> tuple[int, int]:
    """As EVENT has it: whole milliseconds, tenths of them, and no more than fits."""
    if card.covered_ns is None or card.lag_ns is None:
        return NOT_SEEN, NOT_SEEN
    return min(card.covered_ns // MS, 65_534), min(card.lag_ns // (MS // 10), 65_530)


@pytest.mark.parametrize("begin", [0, WRAPS])
@pytest.mark.parametrize("name", STORIES)
def test_story(name: str, begin: int) -> None:
    up, levels, expected, _ = parsed(STORIES[name])
    agree(levels, up, ended(expected, levels), begin)


@given(seed=SEEDS, sensor=SENSORS, burst=BURSTS)
def test_night(seed: int, sensor: float, burst: int) -> None:
    rng = random.Random(seed)
    scene = night(rng, 20, sensor=sensor)
    levels = edges(scene.spans)
    agree(levels, [Line.PRESENT], scene.end + 1_000 * MS, rng.choice([0, WRAPS]))
    agree(chatter(levels, rng, burst), [Line.PRESENT], scene.end + 1_000 * MS)


def restless(rng: random.Random, line: Line, end: int) -> Iterator[Level]:
    """Levels at random: stretches of spikes, of chatter too long for a sound sensor, of passages, of rest."""
    at, level = 0, False
    while at < end:
        longest = rng.choice([1, 2, 8, 20, 60, 250]) * MS
        for _ in range(rng.randint(1, 60 if longest <= 2 * MS else 8)):
            at += rng.randint(1, longest)
            level = not level
            yield Level(at, line, level)


# A beam that flickered comes to rest; and one that made up its mind when the other had been judged further.
@example(seed=380279933, lines={Line.INNER, Line.OUTER, Line.CUT, Line.PRESENT})
@example(seed=380280122, lines=set(Line))
# So many glitches are judged in one tick that they are not all told.
@example(seed=243, lines={Line.INNER, Line.OUTER, Line.CUT})
# The cut card's own sensor says first that it left, and a beam that flickered makes up its mind about an earlier time.
@example(seed=3709, lines={Line.INNER, Line.OUTER, Line.CUT, Line.PRESENT})
# The inner beam clears, by its flicker, before the outer one is covered: there is no first half of that passage.
@example(seed=0x14C2A3, lines={Line.INNER, Line.OUTER, Line.CUT})
@given(seed=SEEDS, lines=st.sets(st.sampled_from(Line), min_size=1))
def test_whatever_the_lines_do(seed: int, lines: set[Line]) -> None:
    """No film of anything: every place comes, every fault, and every order in which beams make up their minds."""
    rng = random.Random(seed)
    levels = sorted(level for line in sorted(lines) for level in restless(rng, line, 8_000 * MS))
    agree(levels, [], levels[-1].at + 2_000 * MS)
