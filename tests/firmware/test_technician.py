"""A technician at the real firmware: `tablectl` by itself, the simulated head on its terminal."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.link.movements import Line
from tests.firmware.shoesim import ShoeSim
from tests.live import wait_for
from tests.technician import Hand, run

EXIT = (Line.INNER, Line.OUTER)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "table.yaml"
    sections = {
        "table": {"id": "BAC-07"},
        "profile": "seeds-commission",
        "shoe": {"driver": "head", "port": str(tmp_path / "head")},
        "casino": {"primary": "file", "file": {"path": str(tmp_path / "feed.jsonl")}},
        "storage": {"path": str(tmp_path), "allow_volatile": True},
        "control": {"socket": str(tmp_path / "control.sock")},
    }
    path.write_text(json.dumps(sections), encoding="utf-8")
    return path


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[ShoeSim]:
    with ShoeSim(tmp_path) as sim:
        yield sim


def tablectl(config: Path, *arguments: str) -> str:
    ran = run("--config", config, *arguments)
    assert ran.code == 0, ran.out
    return ran.out


def test_calibration_of_the_real_head(config: Path, sim: ShoeSim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty, a card over both beams, the cut card; what is kept is read back, and judges the levels rightly."""

    def lay(*covered: Line) -> Callable[[], None]:
        def laid() -> None:
            for line in (*EXIT, Line.CUT, Line.PRESENT):
                sim.change(line, on=line in covered)

        return laid

    moves = (lay(), lay(*EXIT, Line.PRESENT), lay(*EXIT, Line.CUT), lay())
    monkeypatch.setattr(sys, "stdin", Hand(*moves))
    assert "the sensor head keeps its new thresholds\n" in tablectl(config, "diag", "shoe", "--calibrate")
    lay(Line.INNER)()
    wait_for(lambda: "exit_inner     covered" in tablectl(config, "diag", "shoe"), "the covered beam")
    said = tablectl(config, "diag", "shoe")
    assert "thresholds kept\n" in said
    assert "exit_outer     clear" in said


def test_version_of_the_real_head(config: Path, sim: ShoeSim) -> None:
    told = json.loads(tablectl(config, "head", "version", "--json"))
    assert (told["protocol"], told["boots"], told["cause"]) == (1, 1, ["power"])
