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
from tests.link.test_edges import BURSTS, LETTERS, SEEDS, SENSORS, STORIES, ended, parsed, play, said
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


def restless(rng: random.Random, line: Line, end: int, *, even: bool = False) -> Iterator[Level]:
    """Levels at random: stretches of spikes, of chatter too long for a sound sensor, of passages, of rest.

    `even`: and stretches in which it is as long this way as that, so that nobody can judge it before their end.
    """
    at, level = 0, False
    while at < end:
        if even and rng.random() < 0.4:
            each = rng.randint(MS // 2, MS)
            for _ in range(rng.randint(40, 250)):
                at += each
                level = not level
                yield Level(at, line, level)
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


@given(seed=SEEDS)
def test_beams_that_cannot_be_judged_for_long(seed: int) -> None:
    """What such a beam shows in the end it showed long ago: before the other one did, though it is known after it."""
    rng = random.Random(seed)
    lines = {Line.INNER, Line.OUTER, rng.choice([Line.CUT, Line.PRESENT])}
    levels = sorted(level for line in sorted(lines) for level in restless(rng, line, 2_000 * MS, even=True))
    agree(levels, [], levels[-1].at + 2_000 * MS)


def unjudged(text: str) -> list[Level]:
    """Changes at their ms, as in a story; `10-80O` changes each ms from then to then, and begins covered."""
    levels: list[Level] = []
    for word in text.split():
        begin, _, until = word[:-1].partition("-")
        covered = word[-1].isupper()
        for ms in range(int(begin), int(until or begin) + 1):
            levels.append(Level(ms * MS, LETTERS[word[-1].upper()], covered))
            covered = not covered
    return sorted(levels)


UNJUDGED = {  # how the exit looks; nobody may take it for a card that left, or for one that went back
    "the outer beam was covered before the inner one": "10-80O 65I 140i 160o",
    "and another card is behind": "10-80O 65I 140i 145I 150o 200i",
    "it cleared before the inner one": "10I 20O 60-130o 120i",
    "the inner beam cleared before the outer one": "10I 20O 50-160i 110o",
}


@pytest.mark.parametrize("name", UNJUDGED)
def test_a_beam_that_flickered_proves_no_card(name: str) -> None:
    """It makes up its mind late, and then about an earlier time: from beam to beam there is none, or less (I08)."""
    levels = unjudged(UNJUDGED[name])
    agree(levels, [], levels[-1].at + 2_000 * MS)
    told, _ = judged(sampled(levels, TICK), [], levels[-1].at + 2_000 * MS)
    assert [each.word for each in told].count("card") == 0
    assert sum(each.word.startswith("ambiguous:") for each in told) == 1


def test_a_mouth_that_empties_after_the_card_was_out_saw_it() -> None:
    """Also where the outer beam flickered, so that the card is judged when the mouth has long been empty (I41)."""
    card = "P 10I 20O 70i 80-200o 100p"
    story = " ".join(
        f"{'-'.join(str(int(at) + start) for at in word[:-1].split('-') if at) or start}{word[-1]}"
        for start in (1_000, 3_000, 5_000)
        for word in card.split()
    )
    levels = unjudged(story)
    agree(levels, [], 8_000 * MS)
    told, _ = judged(sampled(levels, TICK), [], 8_000 * MS)
    assert [each.word for each in told].count("card") == 3
    assert "fault:present:blind" not in [each.word for each in told]
