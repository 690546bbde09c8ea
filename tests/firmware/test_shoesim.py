"""The head as a process: what a daemon finds at the other end of its port, in real time."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import serial

from controller.link.frame import CRC16, Frames, encode
from controller.link.messages import (
    BAUD,
    FRAME_BYTES,
    Ack,
    AskHello,
    AskThresholds,
    Cause,
    Event,
    FromHead,
    FromTable,
    Hello,
    Kind,
    Name,
    SetThresholds,
    Thresholds,
    decode,
)
from controller.link.messages import encode as body_of
from tests.firmware.shoesim import ShoeSim
from tests.passages import MS, Pull, Scene, edges

DEADLINE = 20.0  # seconds; the machine may be busy
BOOT = 0xBEEF


class Peer:
    """The least that talks with a head: names, acknowledges, keeps what it heard."""

    def __init__(self, path: Path) -> None:
        self.port = serial.Serial(str(path), BAUD, timeout=0.05, exclusive=True)
        self.frames = Frames(CRC16, FRAME_BYTES)
        self.heard: list[FromHead] = []
        self.events: list[Event] = []

    def say(self, message: FromTable) -> None:
        self.port.write(encode(body_of(message), CRC16, FRAME_BYTES))

    def until(self, done: Callable[[], object]) -> None:
        end = time.monotonic() + DEADLINE
        while not done():
            assert time.monotonic() < end, self.heard[-3:]
            for body in self.frames.feed(self.port.read(256)):
                self.hear(decode(body))

    def hear(self, message: object) -> None:
        self.heard.append(message)
        match message:
            case Hello(boot=0, boots=boots):
                self.events.clear()
                self.say(Name(boots, BOOT))
            case Event(seq=seq):
                if seq == len(self.events) + 1:
                    self.events.append(message)
                self.say(Ack(BOOT, len(self.events)))

    def last(self, kind: type[FromHead]) -> FromHead | None:
        return next((message for message in reversed(self.heard) if isinstance(message, kind)), None)

    def wait(self, kind: type[FromHead]) -> FromHead:
        self.heard.clear()
        self.until(lambda: self.last(kind))
        found = self.last(kind)
        assert found is not None
        return found


@contextmanager
def peer(path: Path) -> Iterator[Peer]:
    end = Peer(path)
    try:
        yield end
    finally:
        end.port.close()


def a_card(sim: ShoeSim) -> None:
    scene = Scene()
    scene.card(Pull(5 * MS, 60 * MS))
    sim.play(edges(scene.spans))


def test_a_card_is_heard_once(tmp_path: Path) -> None:
    with ShoeSim(tmp_path) as sim, peer(sim.port) as table:
        table.until(lambda: len(table.events) == 2)
        a_card(sim)
        table.until(lambda: len(table.events) == 3)
        assert table.events[2].kind is Kind.CARD
        assert abs(table.events[2].covered_ms - 60) <= 1
        assert table.frames.errors == dict.fromkeys(table.frames.errors, 0)
        stats = sim.stats()
        assert (stats["resets"], stats["overruns"], stats["open"]) == (0, 0, 1)


def test_it_keeps_time(tmp_path: Path) -> None:
    """The chip's clock goes with the wall's: a busy machine makes it late for a while, and not slow."""
    with ShoeSim(tmp_path) as sim:
        begun, chip = time.monotonic(), sim.stats()["now_us"]
        end = begun + DEADLINE
        while True:
            time.sleep(0.5)
            passed, went = (time.monotonic() - begun) * 1e6, sim.stats()["now_us"] - chip
            if abs(went - passed) < 50_000:
                break
            assert time.monotonic() < end


def test_a_cable_that_is_pulled_and_put_back(tmp_path: Path) -> None:
    with ShoeSim(tmp_path) as sim:
        with peer(sim.port) as table:
            table.until(lambda: len(table.events) == 2)
            sim.command("unplug")
            assert not os.path.lexists(sim.port)
            with pytest.raises(serial.SerialException):
                table.until(lambda: False)
        a_card(sim)
        time.sleep(0.2)
        sim.command("plug")
        with peer(sim.port) as table:
            table.say(AskHello())
            table.until(lambda: table.last(Hello))
            hello = table.last(Hello)
            assert isinstance(hello, Hello)
            assert (hello.boots, hello.boot, hello.next) == (1, BOOT, 3)
            table.until(lambda: table.last(Event))
            event = table.last(Event)
            assert isinstance(event, Event)
            assert (event.seq, event.kind) == (3, Kind.CARD)


def test_a_port_that_resets_as_it_is_opened(tmp_path: Path) -> None:
    """A Nano's DTR is on its reset pin."""
    with ShoeSim(tmp_path, "--dtr-reset") as sim:
        end = time.monotonic() + DEADLINE
        while sim.stats()["now_us"] < 100_000:  # the chip has started
            assert time.monotonic() < end
        for boots in (2, 3):
            with peer(sim.port) as table:
                hello = table.wait(Hello)
                while isinstance(hello, Hello) and hello.boots < boots:
                    hello = table.wait(Hello)
                assert isinstance(hello, Hello)
                assert (hello.cause, hello.boots) == (Cause.EXTERNAL, boots)
            end = time.monotonic() + DEADLINE
            while sim.stats()["open"]:
                assert time.monotonic() < end


def test_thresholds_are_there_the_next_night(tmp_path: Path) -> None:
    wished = SetThresholds(700, 300, 650, 350, 750, 300, 350, 800)
    for night in range(2):
        with ShoeSim(tmp_path, "--eeprom", str(tmp_path / "eeprom")) as sim, peer(sim.port) as table:
            table.say(AskThresholds())
            found = table.wait(Thresholds)
            assert isinstance(found, Thresholds)
            assert found.kept == night
            table.say(wished)
            assert table.wait(Thresholds) == Thresholds(1, 1, *wished)


@pytest.mark.parametrize(
    "line", ["", "fly", "level 9 100", "level", "lid ajar", "reset gently", "fault to_head loud", "plug", "x" * 100]
)
def test_a_command_that_is_none(tmp_path: Path, line: str) -> None:
    with ShoeSim(tmp_path) as sim, pytest.raises(ValueError, match="no such command"):
        sim.command(line)
