"""The sensor head's own verbs of `tablectl`: its guided calibration, its version, its firmware.

What a device sees and does comes through one function, `See`, whoever holds the device.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

LOOK_S = 0.1  # how often a device is looked at that is followed: a press is seldom shorter
CALIBRATION = (  # the act, and what a person does before it
    ("empty", "Take every card out of the shoe, its mouth and its exit."),
    ("card", "Lay one card in the mouth and draw it on until it covers both exit beams. Take your hand away."),
    ("cut_card", "Lay the cut card there in its place. Take your hand away."),
    ("keep", "Take the cut card away."),
)


class See(Protocol):
    def __call__(self, act: str) -> dict[str, Any]:
        """What the device sees, as JSON has it; begins the act, if one is named."""


class CalibrationError(Exception):
    """The calibration came to nothing. The text says why, and what to do."""


def finished(see: See, told: dict[str, Any]) -> dict[str, Any]:
    """What the device tells when the act that `told` began is over."""
    time.sleep(told["test_ms"] / 1_000)
    while told.get("acting"):
        time.sleep(LOOK_S)
        told = {**see(""), "test_ms": told["test_ms"]}
    return told


def calibrate(see: See, enter: Callable[[str], object]) -> Iterator[str]:
    """Guides a person through it; yields lines for them. `enter` asks for the Enter key."""
    told = see("")
    if told["driver"] != "head":
        raise CalibrationError("only the sensor head is calibrated: sensors on pins have their thresholds built in")
    if not told["open"]:
        raise CalibrationError(told["fault"] or "the sensor head is not there")
    see(CALIBRATION[0][0])  # where the table refuses it, nobody has taken a card out of its shoe
    for number, (act, text) in enumerate(CALIBRATION, 1):
        enter(f"{number} of {len(CALIBRATION)}: {text} Then press Enter. ")
        _done(see, act)
        pins = see("")["pins"]
        yield ", ".join(f"{pin['name']} {pin['level']}" for pin in pins if "level" in pin)
    yield "the sensor head keeps its new thresholds"


def _done(see: See, act: str) -> None:
    told = finished(see, see(act))
    if told["says"]:
        raise CalibrationError(told["says"])
