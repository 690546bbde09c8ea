"""The parts list: what the configuration says is what stands in the table, and nothing stands there unsaid."""

import asyncio
import json
import os
import termios
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpiozero.pins.mock import MockFactory

from controller import config, frame, offline, wiring
from controller.adapters import display_oled
from controller.adapters.buttons_gpio import ButtonsGpio
from controller.adapters.clock import SystemClock
from controller.adapters.journal_sqlite import DATABASE, JournalSqlite, claim
from controller.adapters.lamps_gpio import LampsGpio
from controller.adapters.publisher_mqtt import PublisherMqtt
from controller.adapters.publisher_serial import PublisherSerial
from controller.adapters.scanner_hid import ScannerHid
from controller.adapters.scanner_serial import ScannerSerial
from controller.config.models import Display
from controller.control.parts import INNER, PARTS
from controller.core.cards import Card
from controller.core.events import (
    CardRepeated,
    CardScanned,
    CardUnread,
    ConfirmPressed,
    CutCardSeen,
    EndShoeAsked,
    Event,
    FaultSeen,
    KeyTurned,
    LidChanged,
    LoadAsked,
    MouthChanged,
    Restarted,
)
from controller.core.state import State
from controller.core.view import view
from controller.panel import Words
from controller.ports import JournalError, Outcome
from tests.fake_panel import FakeBus, FakeI2c, FakePanel, FakeSpi, Heard
from tests.live import LiveTable, RefusedError, wait_for
from tests.serial_pty import End
from tests.table_rig import TWO, Rig

PINS = {
    "gpio": {"pin_factory": "mock"},
    "lamps": {"driver": "gpio", "timer": [5, 6, 13, 19], "amber": 15, "red": 26, "call": 14},
    "buzzer": {"driver": "gpio", "pin": 12},
    "buttons": {"driver": "gpio", "start": 16, "confirm": 20, "call": 21, "key": 4},
}
PANEL = {"display": {"driver": "ssd1309", "interface": "i2c", "bus": 1, "address": 0x3C}}
SPI = {
    "gpio": {"pin_factory": "mock"},
    "display": {"driver": "sh1106", "interface": "spi", "device": 1, "dc": 24, "reset": 25},
}
SHOE = {"shoe": {"driver": "gpio", "exit_inner": 17, "exit_outer": 27, "cut": 22, "lid": 23, "present": 18}}
KEYBOARD = {"scanner": {"driver": "hid", "port": "/dev/input/by-id/usb-scanner-event-kbd"}}

HEAD = {"shoe": {"driver": "head", "port": "/dev/serial/by-id/head"}}
HAND = {"driver": "hid", "port": "/dev/input/by-id/usb-hand-event-kbd"}
LINES = [("B08", 0), ("B08", 300), ("B08", 601), ("OUT", 700), ("ERR", 800)]  # B: hearts; ms
EIGHT = Card.parse("8H")
TWO_SCANNERS = {"scanner": {"driver": "serial", "port": "/dev/ttyS9", "rescan": "hand", "hand": HAND}}


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
    ("sections", "sources", "panels", "parts"),
    [
        ({}, ["SystemClock"], [], ""),
        (PINS, ["SystemClock", "LampsGpio", "ButtonsGpio"], ["LampsGpio"], "buttons buzzer lamps"),
        ({"gpio": PINS["gpio"], "buzzer": PINS["buzzer"]}, ["SystemClock", "LampsGpio"], ["LampsGpio"], "buzzer"),
        (PANEL, ["SystemClock", "DisplayOled"], ["DisplayOled"], "display"),
        (SPI, ["SystemClock", "DisplayOled"], ["DisplayOled"], "display"),
        (KEYBOARD, ["SystemClock", "ScannerHid"], [], "scanner"),
        (SHOE, ["SystemClock", "EdgesGpio"], [], "shoe"),
        (TWO_SCANNERS, ["SystemClock", "ScannerSerial", "ScannerHid"], [], "scanner"),
        (HEAD, ["SystemClock", "HeadSerial"], [], "shoe"),
    ],
)
def test_parts(tmp_path: Path, sections: dict[str, Any], sources: list[str], panels: list[str], parts: str) -> None:
    """A panel that may fail is a source of its own faults, and stands in both lists; `diag` has each by its name."""
    table = _build(tmp_path, sections)
    assert (_names(table.sources), _names(table.panels)) == (sources, panels)
    assert sorted(table.parts) == sorted([*parts.split(), *INNER])


@pytest.mark.parametrize("off", ["lamps", "buzzer", "buttons"])
def test_a_device_that_is_left_out_has_no_pin_though_its_keys_stay(tmp_path: Path, off: str) -> None:
    table = _build(tmp_path, PINS | {off: {**PINS[off], "driver": "none"}})
    named = {
        pin["name"]
        for part in ("lamps", "buzzer")
        for one in table.sources
        if isinstance(one, LampsGpio)
        for pin in one.diag(part)["pins"]
    }
    assert ("buzzer" in named, "red lamp" in named) == (off != "buzzer", off != "lamps")
    assert any(isinstance(one, ButtonsGpio) for one in table.sources) == (off != "buttons")


def test_a_panel_on_i2c_is_where_the_table_says(tmp_path: Path) -> None:
    table = _build(tmp_path, {"display": {**PANEL["display"], "bus": 3, "address": 0x3D}})
    assert table.parts["display"].see()["place"] == "0x3D on /dev/i2c-3"


def test_both_scanners_read_as_the_table_says(tmp_path: Path) -> None:
    says = {"codes": "letter", "cut_code": "OUT", "noread_code": "ERR", "repeat_ms": 300}
    table = _build(tmp_path, {"scanner": {**TWO_SCANNERS["scanner"], **says}})
    one, two = [source for source in table.sources if isinstance(source, ScannerHid | ScannerSerial)]
    for scanner, hand in ((one, False), (two, True)):
        heard = [scanner.scans.event(text, at * 1_000_000) for text, at in LINES]
        assert heard == [
            CardScanned(0, EIGHT, hand),
            CardRepeated(300_000_000),
            CardScanned(601_000_000, EIGHT, hand),
            CutCardSeen(700_000_000, "code", hand),
            CardUnread(800_000_000, "ERR", hand),
        ]


def test_each_scanner_has_the_speed_that_the_table_says(tmp_path: Path) -> None:
    one, two = End(tmp_path / "one"), End(tmp_path / "two")
    for end in (one, two):
        end.plug()
    scanner = {"driver": "serial", "port": str(one.name), "baud": 19_200, "rescan": "hand"}
    hand = {"driver": "serial", "port": str(two.name), "baud": 38_400}
    table = _build(tmp_path, {"scanner": {**scanner, "hand": hand}})
    assert asyncio.run(_tried(table)) == []
    assert [termios.tcgetattr(end.master)[4] for end in (one, two)] == [termios.B19200, termios.B38400]
    for end in (one, two):
        end.unplug()


def test_the_scanner_for_the_hand_is_looked_at_with_the_other(tmp_path: Path) -> None:
    told = _build(tmp_path, TWO_SCANNERS).parts["scanner"].see()
    assert told["port"] == "/dev/ttyS9"
    assert {key: told["hand"][key] for key in HAND} == HAND


async def _tried(table: wiring.Table) -> list[str]:
    """The faults that the scanners tell by their first answer, good or bad."""
    told: list[str] = []

    def submit(event: Event) -> "asyncio.Future[Outcome]":
        if isinstance(event, FaultSeen):
            told.append(event.text)
        return asyncio.get_running_loop().create_future()

    scanners = [source for source in table.sources if isinstance(source, ScannerHid | ScannerSerial)]
    tasks = [asyncio.create_task(scanner.run(submit)) for scanner in scanners]
    for scanner in scanners:
        await scanner.tried.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return told


@pytest.mark.parametrize("driver", ["serial", "hid"])
def test_each_scanner_is_told_by_the_key_that_it_has_in_the_configuration(tmp_path: Path, driver: str) -> None:
    absent = str(tmp_path / "absent")
    scanner = {"driver": driver, "port": absent, "rescan": "hand", "hand": {"driver": driver, "port": f"{absent}2"}}
    table = _build(tmp_path, {"scanner": scanner})

    one, two = asyncio.run(_tried(table))
    assert one.endswith("absent is not there: check the scanner's plug and power, and the name in scanner.port")
    assert two.endswith("absent2 is not there: check the scanner's plug and power, and the name in scanner.hand.port")


LINE = {"port": "/dev/serial/by-id/usb-casino", "baud": 57_600}


@pytest.mark.parametrize(
    ("casino", "publishers", "primary"),
    [
        ({"primary": "serial", "serial": LINE}, ["PublisherSerial"], [True]),
        (
            {"primary": "file", "serial": LINE, "file": {"path": "/f"}},
            ["PublisherSerial", "PublisherFile"],
            [False, True],
        ),
        (
            {"primary": "mqtt", "mqtt": {"host": "h", "port": 1883}, "serial": LINE},
            ["PublisherMqtt", "PublisherSerial"],
            [True, False],
        ),
    ],
)
def test_publishers(tmp_path: Path, casino: dict[str, Any], publishers: list[str], primary: list[bool]) -> None:
    """One is primary, the others follow; `diag casino` is the primary's, with the line where there is one."""
    table = _build(tmp_path, {"casino": {**casino, "receipt": "broker"}})
    assert _names(table.publishers) == publishers
    assert [publisher._primary for publisher in table.publishers] == primary  # type: ignore[attr-defined]
    line = next(each for each in table.publishers if isinstance(each, PublisherSerial))
    assert (line.port, line.baud, line.table, line.receipt) == (LINE["port"], 57_600, "BAC-07", "broker")
    assert table.parts["casino"].driver == casino["primary"]


@pytest.mark.parametrize("receipt", ["broker", "server"])
def test_whose_word_is_a_receipt_is_what_the_table_says(tmp_path: Path, receipt: str) -> None:
    """A broker's word taken for the casino server's lets a card be drawn too soon, and loses what the broker loses."""
    lines = {"mqtt": {"host": "h", "port": 1883}, "serial": LINE}
    table = _build(tmp_path, {"casino": {"primary": "mqtt", "receipt": receipt, **lines}})
    told = [each.receipt for each in table.publishers if isinstance(each, (PublisherMqtt, PublisherSerial))]
    assert told == [receipt, receipt]


class Wires(wiring.Ground):
    """This machine with a panel on its SPI, and mock pins."""

    def __init__(self) -> None:
        self.shown = FakePanel("sh1106")
        self.spi = FakeSpi(self.shown)
        self.mock = MockFactory()

    def pins(self, name: str) -> MockFactory:
        return self.mock

    def panel(self, display: Display, pins: object) -> display_oled.Spi:
        place = super().panel(display, pins)
        assert isinstance(place, display_oled.Spi)

        def heard(number: int) -> display_oled.Output:
            return Heard(place.output(number), self.spi.output(number))

        return replace(place, output=heard, kernel=self.spi.kernel)


WHOLE, TURNED = frame.pattern(), frame.turned(frame.pattern())


@pytest.mark.parametrize(
    ("keys", "seen"),
    [
        ({}, WHOLE),
        ({"column_offset": 2}, WHOLE),
        ({"column_offset": 0}, None),
        ({"rotate": 0}, WHOLE),
        ({"rotate": 2}, TURNED),
    ],
)
def test_a_panel_on_spi_is_where_the_table_says(tmp_path: Path, keys: dict[str, int], seen: bytes | None) -> None:
    """From table.yaml to the bus: chip select, D/C and reset, which way is up, the glass's column (bug report 18)."""
    _build(tmp_path, {"display": {**SPI["display"], **keys}})
    ground = Wires()
    made = wiring.devices(config.load(tmp_path / "table.yaml"), ground, lambda: True, frozenset({"display"}))
    (panel,) = made.panels
    assert isinstance(panel, display_oled.DisplayOled)
    panel._oled.write(frame.pattern)
    assert ground.spi.opened == "/dev/spidev0.1"
    assert (ground.mock.pin(24).state, ground.mock.pin(25).state) == (0, 1), "a command came last; no reset stands"
    assert WHOLE != TURNED
    assert ground.shown.frame() == seen if seen else ground.shown.frame() not in (WHOLE, TURNED)
    panel._oled.close()
    assert (ground.spi.opened, ground.spi.pins) == (None, {})


# --- one part by itself -------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", PARTS)
def test_a_bench_has_one_part_and_holds_the_folder(tmp_path: Path, part: str) -> None:
    """Diagnosis and daemon never both have a device: who comes second is told who is there."""
    _build(tmp_path, PINS | PANEL | KEYBOARD | SHOE)
    path = tmp_path / "table.yaml"
    with wiring.bench(path, part) as bench:
        assert list(bench.devices.parts) == [part]
        assert len(bench.devices.sources) == 1
        for _ in range(2):
            with pytest.raises(JournalError, match=f"in use by process {os.getpid()}: one table has one daemon"):
                claim(tmp_path)
    os.close(claim(tmp_path))


def test_a_bench_waits_for_no_daemon(tmp_path: Path) -> None:
    _build(tmp_path, PINS)
    held = claim(tmp_path)
    try:
        with pytest.raises(JournalError, match="in use by process"), wiring.bench(tmp_path / "table.yaml", "lamps"):
            pass
    finally:
        os.close(held)


def test_a_panel_is_tried_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern, then what a closed table shows; at the end it is dark, and the folder is free."""
    _build(tmp_path, PANEL)
    panel = FakePanel("ssd1309")
    place = FakeI2c(FakeBus(panel))
    monkeypatch.setattr(display_oled.I2c, "open", lambda _: place.open())
    monkeypatch.setattr(display_oled, "TEST_S", 2.0)
    closed = frame.draw(Words("es").panel(view(State()), "BAC-07"), idle=True)
    names = {frame.pattern(): "pattern", closed: "closed"}
    seen: list[str] = []
    told_: list[dict[str, Any]] = []

    def look(told: dict[str, Any]) -> None:
        told_.append(told)
        now = names.get(panel.frame() or b"", "between")
        if seen[-1:] != [now]:
            seen.append(now)

    with offline.bench(tmp_path / "table.yaml", "display") as see:
        look(see("test"))
        while not ("pattern" in seen and seen[-1] == "closed"):
            time.sleep(0.005)
            look(see(""))
    steps = [name for name in seen if name != "between"]
    assert steps in (["closed", "pattern", "closed"], ["pattern", "closed"])
    assert (told_[0]["test_ms"], told_[0]["shows"], told_[0]["errors"], told_[0]["fault"]) == (2_000, True, 0, "")
    assert not panel.on
    os.close(claim(tmp_path))


async def _closed(rig: Rig) -> None:
    """As it begins."""


async def _loaded(rig: Rig) -> None:
    await rig.load()


async def _between(rig: Rig) -> None:
    await rig.load()
    await rig.do(EndShoeAsked(rig.clock.now(), "discretion", by=TWO))
    await rig.unload(414)


async def _ended(rig: Rig) -> None:
    await rig.load()
    await rig.do(EndShoeAsked(rig.clock.now(), "day_end", by=TWO))
    await rig.unload(414)


@pytest.mark.parametrize(
    ("before", "phase", "closed"),
    [(_closed, "closed", True), (_loaded, "ready", False), (_between, "preparing", False), (_ended, "closed", True)],
)
def test_the_journal_tells_whether_the_table_was_closed(
    tmp_path: Path, before: Callable[[Rig], Coroutine[Any, Any, None]], phase: str, closed: bool
) -> None:
    """Cards may be in play in every other phase, and then no code of theirs is told (B10)."""

    async def table() -> None:
        journal = JournalSqlite(tmp_path, allow_volatile=True, reserve_bytes=0)
        journal.open()
        try:
            async with Rig(journal=journal) as rig:
                await before(rig)
                assert rig.phase == phase
        finally:
            journal.close()

    path = tmp_path / DATABASE
    assert wiring.is_closed(path), "no journal: no shoe was ever loaded"
    asyncio.run(table())
    assert wiring.is_closed(path) == closed
    path.write_bytes(b"no journal")
    assert not wiring.is_closed(path)


@pytest.mark.parametrize(
    ("sections", "left"),
    [
        ({}, {"disk"}),
        (PINS, {"disk", "lamps", "buzzer", "button"}),
        (SHOE, {"disk", "I41"}),
        (KEYBOARD, {"disk", "I40"}),
        (TWO_SCANNERS, {"disk", "I40", "hand_scanner"}),
    ],
)
def test_the_fault_of_a_device_that_was_taken_out_ends_at_the_next_start(
    tmp_path: Path, sections: dict[str, Any], left: set[str]
) -> None:
    """Its own adapter, which ends it when the device is well, is not there any more."""
    table = _build(tmp_path, sections)

    async def main() -> set[str]:
        loop = table.recover()
        beating = asyncio.create_task(loop.run())
        for code in (*wiring.PART_OF, "disk"):
            await loop.submit(FaultSeen(table.clock.now(), code, "x", "fails"))
        await asyncio.gather(*table.begin())
        beating.cancel()
        await asyncio.wait([beating])
        table.journal.close()
        return {condition.code for condition in loop.state.conditions}

    assert asyncio.run(main()) == left
    assert set(wiring.PART_OF.values()) == {*PARTS, wiring.HAND}


FITTED = {"shoe": {"driver": "gpio", "exit_inner": 17, "exit_outer": 27}}


@pytest.mark.parametrize(
    ("sections", "loaded", "left"),
    [
        ({}, True, (True, False, False)),
        (FITTED, True, (True, False, False)),
        (SHOE, True, (False, True, False)),
        (HEAD, True, (False, True, False)),
        (FITTED, False, (True, True, False)),
        (PINS, True, (True, False, True)),
    ],
)
def test_what_a_sensor_said_that_was_taken_out_holds_no_table(
    tmp_path: Path, sections: dict[str, Any], loaded: bool, left: tuple[bool, bool, bool]
) -> None:
    """An empty mouth would be I23 in every round, an open lid I39 to the shoe's end. And no shoe is loaded by that.

    Nor is a key turned for ever that is not wired any more.
    """
    table = _build(tmp_path, sections)

    async def main() -> State:
        loop = table.recover()
        beating = asyncio.create_task(loop.run())
        await asyncio.gather(*table.begin())
        while loop.state.step != "load":
            await loop.submit(ConfirmPressed(table.clock.now(), by=("dealer", "pit")))
        if loaded:
            await loop.submit(LoadAsked(table.clock.now()))
        await loop.submit(LidChanged(table.clock.now(), is_open=True))
        await loop.submit(MouthChanged(table.clock.now(), present=False))
        await loop.submit(KeyTurned(table.clock.now(), turned=True))
        await asyncio.gather(*table.begin())
        beating.cancel()
        await asyncio.wait([beating])
        table.journal.close()
        return loop.state

    state = asyncio.run(main())
    assert (state.present, state.lid_open, state.key_turned) == left
    assert (state.shoe is not None) == loaded


@pytest.mark.parametrize(("boot", "lost"), [(None, True), ("", False), ("another", True)])
def test_a_new_boot_has_lost_the_time_until_the_network_sets_the_clock(
    tmp_path: Path, boot: str | None, lost: bool
) -> None:
    """`boot`: in which the journal was written last; None: there is none, empty: in this one."""
    casino = {"primary": "mqtt", "mqtt": {"host": "127.0.0.1", "port": 1883}}

    async def begun(boot: str | None) -> wiring.Table:
        table = _build(tmp_path, {"casino": casino})
        loop = table.recover()
        beating = asyncio.create_task(loop.run())
        await asyncio.gather(*table.begin())
        if boot:
            await loop.submit(Restarted(table.clock.now(), boot, "1.0", "0" * 64))
        beating.cancel()
        await asyncio.wait([beating])
        table.journal.close()
        return table

    if boot is not None:
        asyncio.run(begun(boot))
    table = asyncio.run(begun(None))
    (publisher,) = table.publishers
    assert isinstance(publisher, PublisherMqtt)
    unset = []
    for synchronised in (False, True):
        table.clock = SystemClock(synchronised=lambda: synchronised)  # noqa: B023 - asked before the next
        unset.append(publisher.time_lost())
    assert unset == [lost, False]


@pytest.mark.timeout(60)
def test_a_table_with_an_absent_panel_deals(tmp_path: Path) -> None:
    """Lamps and buttons on mock pins; the panel is not on this machine's bus: a fault that stops nothing (O1, O2)."""
    casino = {"primary": "file", "file": {"path": str(tmp_path / "feed.jsonl")}}
    with LiveTable(tmp_path, casino=casino, devices=PINS | PANEL) as table:
        codes = lambda: [condition["code"] for condition in table.status()["conditions"]]  # noqa: E731 - read three times
        wait_for(lambda: codes() == ["display"], "the panel's fault")
        table.scan("8H")
        seen = lambda: table.call("diag", part="scanner")["last"]  # noqa: E731 - read twice
        wait_for(lambda: seen() == [{"kind": "card", "text": "8H"}], "a card on a closed table")
        table.call("shoe.load")
        assert seen() == [{"kind": "card", "text": None}]
        table.scan("AS", "2S", "9H", "2D", "KS", "3C")
        wait_for(lambda: table.status()["counted"] == 1, "a round")
        wait_for(lambda: codes() == ["display"], "nothing but the panel's fault: the file is open")
        _diagnose(table)
        assert table.stop() == 0


def _diagnose(table: LiveTable) -> None:
    """What the technician sees and may do, after the first round of a shoe."""
    told = table.call("diag", part="scanner")
    assert (told["driver"], told["open"], told["counted"]["clean"]) == ("serial", True, 7)
    assert {(line["kind"], line["text"]) for line in told["last"]} == {("card", None)}
    told = table.call("diag", part="display")
    assert (told["driver"], told["shows"], "has no bus" in told["fault"]) == ("ssd1309", False, True)
    told = table.call("diag", part="lamps", act="test")
    assert told["test_ms"] == 3_100
    wait_for(lambda: any(pin["lit"] for pin in table.call("diag", part="lamps")["pins"]), "a lamp lit")
    assert [pin["down"] for pin in table.call("diag", part="buttons")["pins"]] == [False] * 4
    table.scan("8S")
    wait_for(lambda: table.status()["phase"] == "dealing", "a first card")
    wait_for(lambda: not any(pin["lit"] for pin in table.call("diag", part="lamps")["pins"]), "the test is over")
    for part in ("lamps", "buzzer", "display"):
        with pytest.raises(RefusedError, match="round_runs"):
            table.call("diag", part=part, act="test")
