"""When a device is taken for no scanner: tables of what it sent. Bug reports 27 (boot banners), 30 (modems)."""

import pytest

from controller.link.doubt import STRANGE_AFTER, Doubt

# What came, in order: `c` a code, `x` none, `|` the port opened again; after each, whether it is strange.
STORIES = {
    "xxxx": "....",
    "xxxxx": "....!",
    "xxxxxxx": "....!!!",
    "c" + 20 * "x": 21 * ".",
    "xxxx" + "c" + 20 * "x": 25 * ".",
    "xxxxxxc" + 10 * "x": "....!!." + 10 * ".",
    "xxxxx|xxxxx": "....!.....!",
    "c|xxxxx": "......!",
}


@pytest.mark.parametrize(("sent", "expected"), STORIES.items(), ids=STORIES)
def test_story(sent: str, expected: str) -> None:
    doubt, told = Doubt(), ""
    for sign in sent:
        if sign == "|":
            doubt.restart()
        else:
            doubt.hear(known=sign == "c")
        told += "!" if doubt.strange else "."
    assert told == expected
    assert STRANGE_AFTER == 5
