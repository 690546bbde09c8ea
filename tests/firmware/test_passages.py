"""What the real firmware tells of passages, against their ground truth: voltages with noise, and edges that chatter.

I08, I17, I22; bug reports 6 and 7. No card is counted wrong, and what cannot be told is told as ambiguous.
"""

import random
import statistics
from collections.abc import Sequence

import pytest

from controller.link.messages import Event, Heartbeat, Kind
from controller.link.movements import Line
from tests.bench import head
from tests.firmware.chip import RAMP_US, Chip
from tests.firmware.judge import EVIDENCE, word
from tests.link.test_edges import STORIES, ended, parsed
from tests.passages import MS, Level, Scene, chatter, edges, night

NOISE_MV = 60
BEGIN_US = 50_000
LATE_US = (
    4_000  # a sample and its way through the queue, a whole millisecond of age, chatter that falls between samples
)
STORY_MOST_US = 1_500_000  # a longer one is told by the same C in test_judge.py
TRUTH = {Kind.CARD: "card", Kind.TWO: "two", Kind.CUT: "cut", Kind.REVERSE: "returned"}
UNTOLD = (*EVIDENCE, Kind.WAITING, Kind.PRESENT, Kind.LID)


def seen(levels: Sequence[Level], up: Sequence[Line], end_us: float, noise: int, seed: int) -> tuple[Chip, float]:
    """The chip after all of it, and when it began: what stands there at first is told before."""
    chip = Chip()
    for line in Line:
        chip.change(0, line, on=line in up)
    chip.bench.seed(seed)
    chip.bench.noise(noise)
    chip.run(BEGIN_US)
    begin = chip.bench.now
    chip.play(levels, begin)
    chip.run(end_us)
    return chip, begin


def in_time(times: list[tuple[float, int]]) -> bool:
    """us told, ns true: a little late, and never early (an edge is over its threshold within its ramp)."""
    return all(-RAMP_US <= at - true / 1_000 <= LATE_US for at, true in times)


def test_stories() -> None:
    """Each of them begins with the power; what the chip says is what its story says, and when."""
    told = 0
    for name, story in STORIES.items():
        up, levels, expected, _ = parsed(story)
        end_us = (ended(expected, levels) - 1_700 * MS) / 1_000
        if end_us > STORY_MOST_US:
            continue
        chip, begin = seen(levels, up, end_us, 0, 1)
        with chip:
            events = [(at, event) for at, event in chip.events if at > begin and event.kind not in EVIDENCE]
            words = [word(event.kind, event.line, event.why, event.flags) for _, event in events]
            assert words == [what for what, _ in expected], name
            assert in_time([(at - begin, true) for (at, _), (_, true) in zip(events, expected, strict=True)]), name
            told += 1
    assert told > 70


def check_night(seed: int, count: int) -> int:
    """How many stimuli there were. Chatter in two of three nights, noise in all."""
    rng = random.Random(seed)
    scene = night(rng, count, sensor=rng.uniform(-20, 14), start=20 * MS)
    levels = edges(scene.spans)
    if seed % 3:
        levels = chatter(levels, rng, rng.choice([MS // 10, MS, 3 * MS]))
    chip, begin = seen(levels, [Line.PRESENT], scene.end / 1_000 + 500_000, NOISE_MV, seed)
    with chip:
        check_truth(scene, [(at - begin, event) for at, event in chip.events if at > begin])
        cards = sum({"card": 1, "two": 2}.get(what, 0) for what, _ in scene.truth)
        chip.run(600_000)
        beat = chip.last(Heartbeat)
        assert (beat.cards, beat.late_ticks, beat.overflows, beat.bad_frames) == (cards, 0, 0, 0)
        assert chip.bench.resets == 0
    return count


def check_truth(scene: Scene, events: list[tuple[float, Event]]) -> None:
    faults = [event for _, event in events if event.kind in (Kind.STUCK, Kind.CLEAR)]
    assert {event.why.name for event in faults} <= {"BLIND", "NONE"}  # a finger may look like a dead lamp
    moved = [(at, event) for at, event in events if event.kind not in UNTOLD and event not in faults]
    assert [TRUTH.get(event.kind, event.kind.name) for _, event in moved] == [what for what, _ in scene.truth]
    assert in_time([(at, true) for (at, _), (_, true) in zip(moved, scene.truth, strict=True)])


@pytest.mark.parametrize("seed", range(3))
def test_a_night_comes_to_its_truth(seed: int) -> None:
    check_night(seed, 20)


@pytest.mark.soak
def test_a_thousand_stimuli_come_to_their_truth() -> None:
    first = random.SystemRandom().randrange(1 << 32)
    assert sum(check_night(first + number, 25) for number in range(40)) == 1_000


def doubtful() -> dict[str, tuple[list[Level], list[tuple[str, int]]]]:
    """Stories of a few movements over a full mouth that leave the exit free, the ambiguous ones among them.

    Without those in which a sample earlier or later makes another one of it.
    """
    kinds = ("card", "two", "cut:beams", "returned", "ambiguous")
    found = {}
    for name, story in STORIES.items():
        up, levels, expected, _ = parsed(story)
        lines = {level.line for level in levels}
        free = {line: level for _, line, level in levels}
        plain = up == [Line.PRESENT] and lines <= {Line.INNER, Line.OUTER, Line.CUT} and not any(free.values())
        plain = plain and not name.startswith(("just", "longer than two", "both beams at once"))
        if plain and expected and levels[-1].at < 1_000 * MS and all(what.startswith(kinds) for what, _ in expected):
            found[name] = levels, expected
    return found


def check_doubtful(seed: int, count: int) -> None:
    """One after the other, in any order, with noise and chatter: each is told as it is, whatever came before."""
    rng = random.Random(seed)
    stories = doubtful()
    at, levels, expected = 20 * MS, list[Level](), list[tuple[str, int]]()
    for name in rng.choices(sorted(stories), k=count):
        mine, told = stories[name]
        levels += [Level(at + level.at, level.line, level.level) for level in mine]
        expected += [(what, at + when) for what, when in told]
        at += mine[-1].at + rng.randint(300 * MS, 600 * MS)
    levels = chatter(levels, rng, rng.choice([MS // 10, MS]))
    chip, begin = seen(levels, [Line.PRESENT], at / 1_000 + 300_000, NOISE_MV, seed)
    with chip:
        skipped = (*UNTOLD, Kind.STUCK, Kind.CLEAR)  # fingers and halves look like a dead lamp, three in a row
        events = [(time, event) for time, event in chip.events if time > begin and event.kind not in skipped]
        assert [word(event.kind, 0, event.why, event.flags) for _, event in events] == [what for what, _ in expected]
        assert in_time([(time - begin, true) for (time, _), (_, true) in zip(events, expected, strict=True)])


def test_doubtful_movements_are_told_as_such() -> None:
    assert sum("ambiguous" in STORIES[name] for name in doubtful()) >= 12
    check_doubtful(random.Random().randrange(1 << 32), 20)


@pytest.mark.soak
def test_a_thousand_doubtful_movements_are_told_as_such() -> None:
    for number in range(40):
        check_doubtful(number, 25)


def test_a_card_is_told_at_once() -> None:
    """Debouncing and the frame's own bytes are 7 ms; a heartbeat that was on its way makes it later."""
    latencies = head.latencies(20)
    assert statistics.median(latencies) < 8
    assert max(latencies) < 15
