"""The firmware's page says what is: fuses, pins, thresholds, bounds, and the simulator's commands."""

import re
from pathlib import Path

import pytest

from controller.link.calibrate import CHANNELS, WAY_MIN, Spread, thresholds
from controller.link.messages import SWING_MIN
from firmware import bounds
from tests.firmware.shoesim import ShoeSim
from tests.pages import ROOT, page

PAGE = page("firmware/README.md")
FIRMWARE = ROOT / "firmware"
SECTIONS = PAGE.sections(2)


def table(title: str) -> list[list[str]]:
    """The rows of the table in that section."""
    return [[cell.strip("`") for cell in row] for row in SECTIONS[title].rows()]


def test_the_fuses_are_those_that_are_burned() -> None:
    burned = re.findall(r"-U ([lhe])fuse:w:(0x[0-9A-F]{2}):m", (FIRMWARE / "Makefile").read_text())
    names = {"l": "low", "h": "high", "e": "extended"}
    assert [(names[letter], value) for letter, value in burned] == [(name, value) for name, value, _ in table("Fuses")]


def test_the_fuses_mean_what_is_said() -> None:
    """ATmega328P data sheet, tables 28-6 to 28-9; a bit is programmed when it is 0."""
    low, high, extended = (int(value, 16) for _, value, _ in table("Fuses"))
    assert low & 0x80  # CKDIV8 is not programmed
    assert low & 0x3F == 0x3F  # SUT 11 and CKSEL 1111: a crystal of 8 to 16 MHz, 16K cycles and 65 ms
    assert high & 0x01  # BOOTRST is not programmed: no boot loader
    assert not high & 0x08  # EESAVE
    assert high & 0x10  # WDTON is not programmed
    assert not high & 0x20  # SPIEN
    assert high & 0xC0 == 0xC0  # neither RSTDISBL nor DWEN
    assert extended & 0x07 == 0b100  # BODLEVEL: 4.3 V


def test_the_pins_are_the_boards() -> None:
    board = (FIRMWARE / "src" / "board.h").read_text()
    names = {"PD4": "LID", "PB0": "EMITTER"}
    analog = []
    for _, chip, *_ in table("Wire it"):
        if chip in names:
            assert f"#define {names[chip]} _BV({chip})" in board
        else:
            analog.append(int(chip.removeprefix("PC")))
    assert analog == [0, 1, 2, 3]
    assert re.findall(r"ADC(\d)D", board) == ["0", "1", "2", "3"]


def test_the_thresholds_are_the_firmwares_own() -> None:
    source = (FIRMWARE / "src" / "store.c").read_text()
    own = re.search(r"own\[CHANNELS\] = \{(.*)\};", source)
    assert own is not None
    assert [list(pair) for pair in re.findall(r"\{(\d+), (\d+)\}", own[1])] == [
        [on, off] for _, on, off in table("Thresholds")
    ]
    assert f"at least {SWING_MIN} counts apart" in PAGE.prose


def test_the_example_is_what_calibration_makes() -> None:
    said = re.search(
        r"reads (\d+) free and (\d+) covered, \*off\* is (\d+) and \*on\* (\d+)\. Less than (\d+) counts", PAGE.prose
    )
    assert said is not None
    free, covered, off, on, least = map(int, said.groups())
    spread = {name: Spread(free, free) for name in CHANNELS}
    dark = {name: Spread(covered, covered) for name in CHANNELS}
    made = thresholds({"empty": spread, "card": dark | {"cut": Spread(free, free)}, "cut_card": dark})
    assert (made.inner_off, made.inner_on) == (off, on)
    assert least == WAY_MIN


def test_the_bounds_are_those_of_the_build() -> None:
    said = " ".join(PAGE.prose.split())
    assert (
        f"at most {bounds.FLASH_MOST:.0%} of the flash, {bounds.RAM_MOST:.0%} of the memory"
        f" ({bounds.STACK_MOST:.0%} with the deepest stack"
    ).replace("%", " %") in said
    assert f"{bounds.TICK_MOST:.0%} of the time between two ticks".replace("%", " %") in said


COMMANDS = [line for line, _ in table("Test it")]


def test_every_command_of_the_simulator_is_one(tmp_path: Path) -> None:
    source = (FIRMWARE / "sim" / "shoesim.c").read_text()
    known = set(re.findall(r'strcmp\(verb, "(\w+)"\)', source))
    assert {line.split()[0] for line in COMMANDS} == known
    with ShoeSim(tmp_path) as sim:
        for line in COMMANDS:
            if line != "quit":
                sim.command(line)
        sim.command("quit")
        assert sim.process.wait(20) == 0


@pytest.mark.parametrize("option", ["--pty", "--control", "--eeprom", "--speed", "--dtr-reset"])
def test_every_option_is_told(option: str) -> None:
    assert option in PAGE.text
    assert f'"{option}"' in (FIRMWARE / "sim" / "shoesim.c").read_text()


def test_links() -> None:
    for link in PAGE.links:
        target, _, anchor = link.partition("#")
        path = FIRMWARE / target
        assert path.exists(), link
        assert not anchor or anchor in page(str(path.resolve().relative_to(ROOT))).anchors, link
