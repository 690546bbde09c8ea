"""Which GPIO chip drives the header: found by its label, never by its number.

A kernel update renumbered the Pi 5's header from gpiochip4 to gpiochip0 (bug report 2); its label stayed.
"""

from collections.abc import Collection, Mapping

# Raspberry Pi kernel, `gpiodetect`: Pi 5; Pi 4; Pi 3 and Zero 2.
HEADERS = ("pinctrl-rp1", "pinctrl-bcm2711", "pinctrl-bcm2835")


class ChipError(LookupError):
    """No chip, or more than one, has the header's label. The text says what to do."""


def find_chip(labels: Mapping[str, str], wanted: Collection[str] = HEADERS) -> str:
    """The path of the one chip whose label is `wanted`; ChipError when there is none, or a second.

    `labels` has each chip once, by its real path: /dev/gpiochip4 is a link to gpiochip0 on a Pi 5.
    """
    found = sorted([path for path, label in labels.items() if label in wanted])
    if len(found) == 1:
        return found[0]
    names = " or ".join(wanted)
    if found:
        raise ChipError(f"more than one GPIO chip is labelled {names}: {' and '.join(found)}; only one may be")
    there = ", ".join([f"{path} is {label}" for path, label in sorted(labels.items())])
    raise ChipError(f"no GPIO chip is labelled {names}: {there or 'there is none; is this a Raspberry Pi?'}")
