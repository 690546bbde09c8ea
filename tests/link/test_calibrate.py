"""The sensor head's thresholds from readings: in the middle of the way, whichever way a channel goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.link.calibrate import CHANNELS, STEPS, WAY_MIN, CalibrationError, Spread, spreads, thresholds
from controller.link.messages import SWING_MIN, Levels, Seen, SetThresholds

EMPTY = {"inner": Spread(80, 90), "outer": Spread(900, 910), "cut": Spread(100, 110), "present": Spread(50, 60)}
CARD = {"inner": Spread(690, 700), "outer": Spread(200, 210), "cut": Spread(600, 620), "present": Spread(760, 780)}
CUT = {"inner": Spread(0, 0), "outer": Spread(0, 0), "cut": Spread(180, 200), "present": Spread(0, 0)}
GOOD = {"empty": EMPTY, "card": CARD, "cut_card": CUT}


def test_by_hand() -> None:
    """inner: 90 to 690, up; outer: 900 to 210, down; cut: 600 to 200, down; present: 60 to 760, up."""
    assert thresholds(GOOD) == SetThresholds(
        inner_on=510,
        inner_off=270,
        outer_on=417,
        outer_off=693,
        cut_on=320,
        cut_off=480,
        present_on=550,
        present_off=270,
    )


@pytest.mark.parametrize(
    ("step", "channel", "read", "says"),
    [
        ("card", "inner", Spread(85, 700), r"inner reads 80 to 90 \(empty\) and 85 to 700 \(card\)"),
        ("card", "outer", Spread(805, 820), r"outer reads 900 to 910 \(empty\)"),
        ("cut_card", "cut", Spread(560, 590), r"cut reads 600 to 620 \(card\) and 560 to 590 \(cut_card\)"),
        ("empty", "present", Spread(700, 700), r"present reads 700 to 700"),
    ],
)
def test_too_near(step: str, channel: str, read: Spread, says: str) -> None:
    with pytest.raises(CalibrationError, match=says):
        thresholds(GOOD | {step: GOOD[step] | {channel: read}})


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_was_left_out(step: str) -> None:
    with pytest.raises(CalibrationError, match=f"not read yet: {step}"):
        thresholds({name: read for name, read in GOOD.items() if name != step})


def test_spreads() -> None:
    readings = [Levels(*read, Seen(0), 5000) for read in ((1, 20, 3, 4), (2, 10, 3, 4))]
    assert spreads(readings) == {
        "inner": Spread(1, 2),
        "outer": Spread(10, 20),
        "cut": Spread(3, 3),
        "present": Spread(4, 4),
    }


levels = st.integers(0, 1023)
spread = st.tuples(levels, levels).map(lambda two: Spread(min(two), max(two)))


@given(st.fixed_dictionaries({step: st.fixed_dictionaries(dict.fromkeys(CHANNELS, spread)) for step in STEPS}))
def test_what_is_told_is_between_the_two_and_as_far_apart_as_the_head_wants(read: dict[str, dict[str, Spread]]) -> None:
    try:
        told = thresholds(read)
    except CalibrationError:
        return
    for name, (off, on) in CHANNELS.items():
        least, greatest = sorted([read[off][name], read[on][name]])
        high, low = sorted((getattr(told, f"{name}_on"), getattr(told, f"{name}_off")), reverse=True)
        assert least.high < low < high < greatest.low
        assert high - low >= SWING_MIN
        assert greatest.low - least.high >= WAY_MIN
