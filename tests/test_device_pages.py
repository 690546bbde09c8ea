"""A technician's page for each device: every sentence that its adapter may say stands there, with what to do."""

from pathlib import Path

import pytest

from controller import sensing
from controller.adapters import lamps_gpio
from controller.link.movements import Line, Why
from tests.pages import ROOT, Page, page
from tests.sentences import is_told, said_in

PAGES = {path.stem: page(f"docs/devices/{path.name}") for path in (ROOT / "docs/devices").glob("*.md")}
SPEAKS = {  # the page, and the modules whose sentences it explains
    "scanner": ("adapters/scanner_serial", "adapters/scanner_hid", "reading", "tty"),
    "shoe": ("adapters/edges_gpio", "link/chips", "sensing"),
    "head": ("adapters/head_serial", "tty", "link/calibrate"),
    "lamps": ("adapters/lamps_gpio",),
    "buzzer": ("adapters/lamps_gpio",),
    "buttons": ("adapters/buttons_gpio",),
    "display": ("adapters/display_oled",),
    "wiring": ("adapters/pins_gpiod",),
}
UNTOLD = {  # what no technician meets, or not on that page
    "head": {"end of file"},
    "scanner": {"end of file"},  # stands for EIO, and is told as that
    "display": {"of … bytes written"},  # stands for EIO, and is told as that
    "wiring": {
        "gpio.pin_factory … is not known: write gpiod, rpigpio or mock",  # the configuration's check is before it
        "the edges of … are read by the running asyncio loop, and none runs here",  # to programmers
    },
}


def sentences(name: str) -> set[str]:
    return set().union(*(said_in(ROOT / "controller" / f"{module}.py") for module in SPEAKS[name]))


@pytest.mark.parametrize("name", SPEAKS)
def test_a_page_explains_all_that_its_device_may_say(name: str) -> None:
    said = sentences(name)
    untold = {sentence for sentence in said if not is_told(sentence, PAGES[name].prose)}
    assert untold - UNTOLD.get(name, set()) == set()
    assert UNTOLD.get(name, set()) <= said, "nobody says that any more"


def test_every_page_is_held_to_its_adapter() -> None:
    assert set(SPEAKS) == set(PAGES)


@pytest.mark.parametrize("name", SPEAKS)
def test_every_message_has_why_and_what_to_do(name: str) -> None:
    rows = [row for row in PAGES[name].rows() if len(row) == 3 and row[0].startswith("`")]
    assert rows
    assert [row for row in rows if not all(row)] == []


@pytest.mark.parametrize("name", sorted(set(SPEAKS) - {"wiring"}))
def test_a_page_has_wiring_configuration_transcript_and_messages(name: str) -> None:
    one = PAGES[name]
    assert any(link.startswith("../../hardware/") and link.endswith(".svg") for link in one.links)
    assert {"yaml", "console"} <= {block.language for block in one.blocks}
    assert "What the messages mean" in one.sections(2)


def test_the_lamps_page_has_the_times_of_each_figure() -> None:
    two = [figure for figure in lamps_gpio.FIGURES.values() if len(figure) == 2]
    assert len(two) == 2
    for on, off in two:
        assert f"red: {on / 1000:g} s on, {off / 1000:g} s off" in PAGES["lamps"].text


def test_the_shoes_page_has_every_reason_for_a_doubt() -> None:
    rows = [row[0].strip("`") for row in PAGES["shoe"].rows() if len(row) == 2]
    assert rows == [why for why in Why if (Line.INNER, why) not in sensing.TEXTS]


MODULE = '''
"""Is no sentence of it."""
BROKEN = "its plug is out"
def say(number: "a note for the checker") -> None:
    assert number, "is for programmers only"
    log.debug("is for programmers too")
    log.warning("%s: line %d is cut off", f"sensor {number} has no light", number)
    raise PinInvalid(f"{number} is no such pin")
'''


def test_what_a_module_says_is_found(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(MODULE, encoding="utf-8")
    assert said_in(tmp_path / "module.py") == {"its plug is out", "line … is cut off", "sensor … has no light"}


@pytest.mark.parametrize(
    ("sentence", "text", "told"),
    [
        ("sensor … has no light", "`sensor 3 has no light: clean it`", True),
        ("find it with `fuser` and stop it", "find it with the tool", True),
        ("sensor … has no light", "`sensor 3 has light`", False),
        ("line … is cut off", "line 3\nis cut off", False),
    ],
)
def test_what_a_page_tells(sentence: str, text: str, *, told: bool) -> None:
    assert is_told(sentence, text) is told


def test_a_page_without_a_message_is_found() -> None:
    bare = Page(PAGES["lamps"].path, "# The lamps\n")
    assert [one for one in sentences("lamps") if is_told(one, bare.prose)] == []
