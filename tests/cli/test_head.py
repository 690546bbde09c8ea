"""The sensor head from a technician's chair: what it sees, its test, guided calibration, version and firmware."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller import offline, wiring
from controller.adapters.journal_sqlite import claim
from controller.cli.head import calibrate
from controller.link.messages import Kind, Seen
from tests.fake_head import FakeHead, PtyHead
from tests.live import wait_for
from tests.technician import Hand, run

DONE, NO, ABSENT = 0, 1, 3
DIRECT = "tablectl: the daemon is not there, and cannot start until this ends\n"
CONFIG = """
table: {{id: BAC-07}}
profile: seeds-commission
shoe: {{driver: head, port: {folder}/head}}
casino: {{primary: file, file: {{path: {folder}/feed.jsonl}}}}
storage: {{path: {folder}, allow_volatile: true}}
control: {{socket: {folder}/control.sock}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "table.yaml"
    path.write_text(CONFIG.format(folder=tmp_path))
    return path


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[PtyHead]:
    with PtyHead(tmp_path / "head") as head:
        yield head


def test_what_the_head_sees(config: Path, bench: PtyHead) -> None:
    ran = run("--config", config, "diag", "shoe")
    assert (ran.code, ran.err) == (DONE, DIRECT)
    lines = ran.out.splitlines()
    assert lines[:3] == [
        "shoe      head, open",
        f"port      {bench.path}",
        "moved     nothing yet",
    ]
    assert "firmware  1.2.3, build c0ffee01, protocol 1, start 1 by power" in lines
    assert "thresholds the firmware's own: calibrate it" in lines
    assert "          exit_inner     clear, reads 80, covered from 600, clear from 400" in lines
    assert "          cut            no cut card, reads 184, cut card from 600, no cut card from 400" in lines


def test_self_test(config: Path, bench: PtyHead) -> None:
    bench.head.dead = Seen.OUTER
    ran = run("--config", config, "diag", "shoe", "--test")
    assert ran.code == DONE
    (inner,) = [line for line in ran.out.splitlines() if "exit_inner" in line]
    (outer,) = [line for line in ran.out.splitlines() if "exit_outer" in line]
    assert inner.endswith(", test good: dark 20, lit 620")
    assert outer.endswith(", test BAD: dark 20, lit 20")


def test_self_test_with_a_card_at_the_exit(config: Path, bench: PtyHead) -> None:
    bench.head.moving = True
    ran = run("--config", config, "diag", "shoe", "--test", "--json")
    assert json.loads(ran.out)["says"] == "the sensor head refused: a card is at the exit: take it away and try again"


EMPTY = {"inner": 80, "outer": 900, "cut": 100, "present": 60}
CARD = {"inner": 700, "outer": 200, "cut": 600, "present": 780}
CUT = {"inner": 700, "outer": 200, "cut": 200, "present": 780}


def hand(bench: PtyHead, *readings: dict[str, int]) -> Hand:
    def move(levels: dict[str, int]) -> Callable[[], None]:
        def moved() -> None:
            with bench.hand:
                bench.head.levels = levels

        return moved

    return Hand(*map(move, readings))


def test_calibration(config: Path, bench: PtyHead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", hand(bench, EMPTY, CARD, CUT, EMPTY))
    ran = run("--config", config, "diag", "shoe", "--calibrate")
    assert (ran.code, ran.err) == (DONE, DIRECT)
    assert "1 of 4: Take every card out of the shoe" in ran.out
    assert "exit_inner 700, exit_outer 200, cut 200, present 780\n" in ran.out
    assert "the sensor head keeps its new thresholds\n" in ran.out
    assert "cut card from 320, no cut card from 480" in ran.out
    assert bench.head.thresholds == (514, 266, 410, 690, 320, 480, 564, 276)
    assert bench.head.writes == 1


def test_calibration_without_a_difference(config: Path, bench: PtyHead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", hand(bench, EMPTY, CARD, CARD, EMPTY))
    ran = run("--config", config, "diag", "shoe", "--calibrate")
    assert ran.code == NO
    assert "cut reads 600 to 600 (card) and 600 to 600 (cut_card): clean and align that sensor" in ran.err
    assert bench.head.writes == 0


def test_calibration_of_a_head_that_keeps_something_else(
    config: Path, bench: PtyHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it read back is held against what it was given: it would judge cards by the old thresholds."""
    bench.head.stubborn, bench.head.generation = True, 1
    monkeypatch.setattr(sys, "stdin", hand(bench, EMPTY, CARD, CUT, EMPTY))
    ran = run("--config", config, "diag", "shoe", "--calibrate")
    assert ran.code == NO
    assert "the sensor head keeps other thresholds than it was given: flash it anew" in ran.err
    assert "keeps its new thresholds" not in ran.out


def test_calibration_wants_a_terminal(config: Path, bench: PtyHead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    ran = run("--config", config, "diag", "shoe", "--calibrate")
    assert (ran.code, ran.err) == (NO, DIRECT + "tablectl: the calibration is guided: start it in a terminal\n")


def test_calibration_is_for_the_head(config: Path) -> None:
    pins = "shoe: {driver: gpio, exit_inner: 17, exit_outer: 27}"
    config.write_text(config.read_text().replace(f"shoe: {{driver: head, port: {config.parent}/head}}", pins))
    ran = run("--config", config, "diag", "shoe", "--calibrate")
    assert ran.code == NO
    assert "only the sensor head is calibrated" in ran.err


def test_calibration_needs_the_head(config: Path) -> None:
    ran = run("--config", config, "diag", "shoe", "--calibrate")
    assert ran.code == NO
    assert "is not there: check the sensor head's plug and power" in ran.err


def test_calibration_moves_no_card_of_a_shoe_that_is_loaded() -> None:
    """A table that refuses the act does so before anybody is asked to take the cards out."""

    class RefusedError(Exception):
        pass

    asked: list[str] = []

    def see(act: str) -> dict[str, Any]:
        if act:
            raise RefusedError
        return {"driver": "head", "open": True, "fault": "", "pins": []}

    with pytest.raises(RefusedError):
        list(calibrate(see, asked.append))
    assert asked == []


# --- version --------------------------------------------------------------------------------------------------


def test_version(config: Path, bench: PtyHead) -> None:
    ran = run("--config", config, "head", "version")
    assert (ran.code, ran.out, ran.err) == (DONE, "1.2.3, build c0ffee01, protocol 1, start 1 by power\n", DIRECT)
    told: dict[str, Any] = json.loads(run("--config", config, "head", "version", "--json").out)
    assert told == {"version": "1.2.3", "build": "c0ffee01", "protocol": 1, "boots": 1, "cause": ["power"]}


def test_version_of_another_protocol(config: Path, tmp_path: Path) -> None:
    with PtyHead(tmp_path / "head", FakeHead(protocol=2)):
        ran = run("--config", config, "head", "version")
    assert (ran.code, ran.out) == (NO, "1.2.3, build c0ffee01, protocol 2, start 1 by power\n")
    assert "speaks another protocol than 1: bring its firmware and this program to one version" in ran.err


def test_version_of_no_head(config: Path) -> None:
    ran = run("--config", config, "head", "version")
    assert ran.code == NO
    assert "is not there" in ran.err


# --- firmware -------------------------------------------------------------------------------------------------

HEX = ":100000000C9434000C943E000C943E000C943E0082\n:00000001FF\n"
AVRDUDE = '#!/bin/sh\necho "$@" >"$(dirname "$0")/asked"\nexit {code}\n'


@pytest.fixture
def firmware(tmp_path: Path) -> Path:
    path = tmp_path / "head.hex"
    path.write_text(HEX)
    return path


def avrdude(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> Path:
    """A program of that name, first in the PATH; where it writes what it was asked."""
    folder.mkdir()
    program = folder / "avrdude"
    program.write_text(AVRDUDE.format(code=code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "asked"


@pytest.mark.parametrize(
    ("options", "asks"),
    [
        ((), "-p m328p -c usbasp -U flash:w:{hex}:i"),
        (("--programmer", "arduino"), "-p m328p -c arduino -P {folder}/head -b 115200 -D -U flash:w:{hex}:i"),
        (
            ("--programmer", "arduino", "--baud", "57600"),
            "-p m328p -c arduino -P {folder}/head -b 57600 -D -U flash:w:{hex}:i",
        ),
    ],
)
def test_flash(
    config: Path, firmware: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], asks: str
) -> None:
    asked = avrdude(tmp_path / "bin", monkeypatch)
    ran = run("--config", config, "head", "flash", firmware, *options)
    assert (ran.code, ran.err) == (DONE, "")
    assert asked.read_text().strip() == asks.format(hex=firmware, folder=tmp_path)


def test_flash_that_avrdude_could_not_do(
    config: Path, firmware: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    avrdude(tmp_path / "bin", monkeypatch, code=1)
    ran = run("--config", config, "head", "flash", firmware)
    assert ran.code == NO
    assert "avrdude failed (1): see what it says above" in ran.err


def test_flash_without_avrdude_names_its_package(
    config: Path, firmware: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = run("--config", config, "head", "flash", firmware)
    assert (ran.code, ran.err) == (NO, "tablectl: avrdude is not installed: sudo apt-get install -y avrdude\n")


def test_flash_while_a_table_runs(
    config: Path, firmware: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = avrdude(tmp_path / "bin", monkeypatch)
    held = claim(tmp_path)
    try:
        ran = run("--config", config, "head", "flash", firmware)
    finally:
        os.close(held)
    assert ran.code == NO
    assert "one table has one daemon, stop it first" in ran.err
    assert not asked.exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [("none.hex", "cannot be read: No such file"), ("table.yaml", "is no Intel HEX file: name the .hex that")],
)
def test_flash_of_what_is_no_firmware(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    avrdude(tmp_path / "bin", monkeypatch)
    ran = run("--config", config, "head", "flash", tmp_path / name)
    assert ran.code == NO
    assert says in ran.err


# --- a table with cards in play -------------------------------------------------------------------------------


def test_what_moved_while_the_daemon_was_down_is_left_for_it(
    config: Path, bench: PtyHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the journal left the table closed: then what is tried at the exit is nobody's card."""
    bench.happens(Kind.CARD)
    monkeypatch.setattr(wiring, "is_closed", lambda _: False)
    with offline.bench(config, "shoe") as see:
        wait_for(lambda: see("")["moved"].get("repeat", 0) >= 3, "the event, again and again")
        assert see("")["moved"]["card"] == 1
    assert bench.waiting == 1
    monkeypatch.setattr(wiring, "is_closed", lambda _: True)
    with offline.bench(config, "shoe"):
        wait_for(lambda: bench.waiting == 0, "that somebody takes the event")
