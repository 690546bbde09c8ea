"""The parts list: what the configuration says is what stands in the table, and nothing stands there unsaid."""

import json
from pathlib import Path
from typing import Any

import pytest

from controller import wiring
from controller.config import ConfigError
from tests.live import LiveTable, wait_for

PINS = {
    "gpio": {"pin_factory": "mock"},
    "lamps": {"driver": "gpio", "timer": [5, 6, 13, 19], "red": 26, "call": 14},
    "buzzer": {"driver": "gpio", "pin": 12},
    "buttons": {"driver": "gpio", "start": 16, "confirm": 20, "call": 21, "key": 4},
}
PANEL = {"display": {"driver": "ssd1309", "interface": "i2c", "bus": 1, "address": 0x3C}}
KEYBOARD = {"scanner": {"driver": "hid", "port": "/dev/input/by-id/usb-scanner-event-kbd"}}


def _build(folder: Path, sections: dict[str, Any]) -> wiring.Table:
    config = {
        "table": {"id": "BAC-07"},
        "profile": "seeds-commission",
        "casino": {"primary": "file", "file": {"path": str(folder / "feed.jsonl")}},
        "storage": {"path": str(folder), "allow_volatile": True},
        **sections,
    }
    path = folder / "table.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    return wiring.build(path)[0]


def _names(parts: list[Any]) -> list[str]:
    return [type(part).__name__ for part in parts]


@pytest.mark.parametrize(
    ("sections", "sources", "panels"),
    [
        ({}, ["SystemClock"], []),
        (PINS, ["SystemClock", "LampsGpio", "ButtonsGpio"], ["LampsGpio"]),
        ({"gpio": PINS["gpio"], "buzzer": PINS["buzzer"]}, ["SystemClock", "LampsGpio"], ["LampsGpio"]),
        (PANEL, ["SystemClock", "DisplayOled"], ["DisplayOled"]),
        (KEYBOARD, ["SystemClock", "ScannerHid"], []),
    ],
)
def test_parts(tmp_path: Path, sections: dict[str, Any], sources: list[str], panels: list[str]) -> None:
    """A panel that may fail is a source of its own faults, and stands in both lists."""
    table = _build(tmp_path, sections)
    assert (_names(table.sources), _names(table.panels)) == (sources, panels)


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        ({"shoe": {"driver": "head", "port": "/dev/serial/by-id/head"}}, "shoe.driver: head is not part"),
        ({"display": {"driver": "sh1106", "interface": "spi", "dc": 24, "reset": 25}}, "spi is not part"),
    ],
)
def test_what_is_not_built_is_refused(tmp_path: Path, sections: dict[str, Any], text: str) -> None:
    """A driver that is named and missing would leave a table blind."""
    with pytest.raises((wiring.WiringError, ConfigError), match=text):
        _build(tmp_path, sections)


@pytest.mark.timeout(60)
def test_a_table_with_an_absent_panel_deals(tmp_path: Path) -> None:
    """Lamps and buttons on mock pins; the panel is not on this machine's bus: a fault that stops nothing (O1, O2)."""
    casino = {"primary": "file", "file": {"path": str(tmp_path / "feed.jsonl")}}
    with LiveTable(tmp_path, casino=casino, devices=PINS | PANEL) as table:
        codes = lambda: [condition["code"] for condition in table.status()["conditions"]]  # noqa: E731 - read three times
        wait_for(lambda: codes() == ["display"], "the panel's fault")
        table.call("shoe.load")
        table.scan("AS", "2S", "9H", "2D", "KS", "3C")
        wait_for(lambda: table.status()["counted"] == 1, "a round")
        assert codes() == ["display"]
        assert table.stop() == 0
