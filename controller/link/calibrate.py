"""The sensor head's thresholds from what its channels read: empty, with a card, with the cut card.

Knows no port and no person: takes readings, gives thresholds, or says of which channel the two states are too near.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .messages import SWING_MIN, Levels, SetThresholds

CHANNELS = {  # what must differ, by channel: the step that reads as off, and the one that reads as on
    "inner": ("empty", "card"),
    "outer": ("empty", "card"),
    "cut": ("card", "cut_card"),
    "present": ("empty", "card"),
}
STEPS = ("empty", "card", "cut_card")
OFF_SHARE, ON_SHARE = 0.3, 0.7  # of the way from off to on: the rest on either side is for dust, age and warmth
WAY_MIN = round(SWING_MIN / (ON_SHARE - OFF_SHARE))  # counts


class CalibrationError(Exception):
    """The thresholds cannot be told. The text says of which channels, and what to do."""


class Spread(NamedTuple):
    """The least and the greatest that a channel read, ADC counts."""

    low: int
    high: int


def spreads(readings: Sequence[Levels]) -> dict[str, Spread]:
    """By channel; at least one reading."""
    values = {name: [getattr(levels, name) for levels in readings] for name in CHANNELS}
    return {name: Spread(min(read), max(read)) for name, read in values.items()}


def thresholds(steps: Mapping[str, Mapping[str, Spread]]) -> SetThresholds:
    """Of the spreads of all STEPS; CalibrationError."""
    missing = [step for step in STEPS if step not in steps]
    if missing:
        raise CalibrationError(f"not read yet: {', '.join(missing)}")
    found: dict[str, int] = {}
    near: list[str] = []
    for name, (off, on) in CHANNELS.items():
        clear, covered = steps[off][name], steps[on][name]
        rises = covered.low > clear.high
        begin, end = (clear.high, covered.low) if rises else (clear.low, covered.high)
        way = end - begin if rises else begin - end
        if way < WAY_MIN:
            near.append(f"{name} reads {clear.low} to {clear.high} ({off}) and {covered.low} to {covered.high} ({on})")
        found[f"{name}_on"] = begin + round((end - begin) * ON_SHARE)
        found[f"{name}_off"] = begin + round((end - begin) * OFF_SHARE)
    if near:
        raise CalibrationError(
            f"too near each other, less than {WAY_MIN} apart: {'; '.join(near)}: clean and align that sensor, lay the "
            "cards as asked, and begin anew"
        )
    return SetThresholds(**found)
