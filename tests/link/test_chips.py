"""The header's chip is found by label (bug report 2: a kernel update renumbered it)."""

from itertools import permutations

import pytest

from controller.link.chips import ChipError, find_chip

OTHERS = (("/dev/gpiochip1", "raspberrypi-exp-gpio"), ("/dev/gpiochip10", "gpio-brcmstb@107d508500"))


@pytest.mark.parametrize("label", ["pinctrl-rp1", "pinctrl-bcm2711", "pinctrl-bcm2835"])
@pytest.mark.parametrize("path", ["/dev/gpiochip0", "/dev/gpiochip4"])
def test_label_finds_the_chip_in_any_order(path: str, label: str) -> None:
    for order in permutations([(path, label), *OTHERS]):
        assert find_chip(dict(order)) == path


def test_wanted_replaces_the_labels_of_the_header() -> None:
    labels = {"/dev/gpiochip0": "pinctrl-rp1", "/dev/gpiochip2": "sim"}
    assert find_chip(labels, ["sim"]) == "/dev/gpiochip2"


NOT_ONE = {
    "none": (dict(OTHERS), "no GPIO chip is labelled pinctrl-rp1 or", "/dev/gpiochip1 is raspberrypi-exp-gpio"),
    "no chip at all": ({}, "no GPIO chip", "is this a Raspberry Pi?"),
    "a label that only begins alike": ({"/dev/gpiochip0": "pinctrl-rp1-x"}, "no GPIO chip", "is pinctrl-rp1-x"),
    "two": (
        {"/dev/gpiochip4": "pinctrl-rp1", "/dev/gpiochip0": "pinctrl-rp1"},
        "more than one GPIO chip",
        "/dev/gpiochip0 and /dev/gpiochip4",
    ),
    "two labels": (
        {"/dev/gpiochip0": "pinctrl-rp1", "/dev/gpiochip1": "pinctrl-bcm2711"},
        "more than one GPIO chip",
        "only one may be",
    ),
}


@pytest.mark.parametrize(("labels", "what", "which"), NOT_ONE.values(), ids=NOT_ONE)
def test_not_exactly_one_is_an_error(labels: dict[str, str], what: str, which: str) -> None:
    with pytest.raises(ChipError) as error:
        find_chip(labels)
    assert what in str(error.value)
    assert which in str(error.value)
