"""A whole table with every adapter on a fake: a card's way to the panel's bus, a slow bus, and what waiting costs."""

import asyncio
import gc
import json
import os
import signal
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from controller import daemon, wiring
from controller.core.events import LoadAsked
from controller.core.view import View
from controller.sdnotify import Notifier
from tests.bench.report import Figure
from tests.bench.start import cpu_s
from tests.broker import until
from tests.live import FREE_RUNNING, wait_for
from tests.shoes import SHOES
from tests.tabled import Tabled
from tests.written_changes import Ground

CARDS = [code for what, code in SHOES[0].events if what != "cut"][:300]
ROOT = Path(__file__).parent.parent.parent
PACE_S = 0.03
SLOW_BUS_S = 1.0  # a transfer
IDLE_S, BETTING_S = 20.0, 20
PINS: dict[str, Any] = {
    "gpio": {"pin_factory": "mock"},
    "lamps": {"driver": "gpio", "timer": [5, 6, 13, 19], "amber": 24, "red": 26, "call": 14},
    "buzzer": {"driver": "gpio", "pin": 12},
    "buttons": {"driver": "gpio", "start": 16, "confirm": 20, "call": 21, "key": 4},
    "display": {"driver": "ssd1309"},
}
SHOE = {"driver": "gpio", "exit_inner": 17, "exit_outer": 27, "cut": 22, "present": 18, "lid": 23}


class Mark:
    """A panel that notes when it is shown something: the moment after the commit."""

    def __init__(self) -> None:
        self.shown_ns: list[int] = []

    def show(self, _view: View) -> None:
        self.shown_ns.append(time.monotonic_ns())


class Way(NamedTuple):
    """Of one card, ms: from the scanner's line to the end of the commit, and to the first byte on the panel's bus."""

    durable: float
    bus: float | None


@contextmanager
def scanner() -> Iterator[tuple[int, str]]:
    master, slave = os.openpty()
    tty.setraw(slave)
    try:
        yield master, os.ttyname(slave)
    finally:
        os.close(master)
        os.close(slave)


async def ways(folder: Path, *, bus_s: float, cards: list[str]) -> list[Way]:
    """Each card typed when the one before has come to rest."""
    ground = Ground(folder / "changes")
    ground.bus.seconds = bus_s
    with scanner() as (line, port):
        config = {
            "table": {"id": "BAC-07"},
            "profile": "seeds-commission",
            "procedure": FREE_RUNNING,
            "scanner": {"driver": "serial", "port": port},
            "casino": {"primary": "file", "file": {"path": str(folder / "feed.jsonl")}},
            "storage": {"path": str(folder), "allow_volatile": True},
            "control": {"socket": str(folder / "control.sock")},
            **PINS,
        }
        (folder / "table.yaml").write_text(json.dumps(config), encoding="utf-8")
        table, control = wiring.build(folder / "table.yaml", ground)
        mark = Mark()
        table.panels.insert(0, mark)
        serving = asyncio.create_task(daemon.serve(table, control, Notifier("")))
        await until(lambda: table.loop and table.loop.state.link.up, "the link")
        assert table.loop is not None
        await table.loop.submit(LoadAsked(time.monotonic_ns()))
        taken = [await _way(line, code, mark, ground) for code in cards]
        signal.raise_signal(signal.SIGTERM)
        await serving
        gc.unfreeze()
    return taken


async def _way(line: int, code: str, mark: Mark, ground: Ground) -> Way:
    await asyncio.sleep(PACE_S)
    shown, begun = len(mark.shown_ns), len(ground.bus.began_ns)
    data = code.encode() + b"\r"
    typed = time.monotonic_ns()
    assert os.write(line, data) == len(data)
    await until(lambda: len(mark.shown_ns) > shown, "what the card brings")
    durable = mark.shown_ns[shown]
    await asyncio.sleep(PACE_S)
    on_bus = [at for at in ground.bus.began_ns[begun:] if at > durable]
    return Way((durable - typed) / 1e6, (on_bus[0] - typed) / 1e6 if on_bus else None)


def to_the_bus() -> list[Figure]:
    with TemporaryDirectory() as fast, TemporaryDirectory() as slow:
        quick = asyncio.run(ways(Path(fast), bus_s=0, cards=CARDS))
        late = asyncio.run(ways(Path(slow), bus_s=SLOW_BUS_S, cards=CARDS[:60]))
    bus = [way.bus for way in quick if way.bus is not None]
    after = [way.bus - way.durable for way in quick if way.bus is not None]
    held = median(way.durable for way in late) / median(way.durable for way in quick)
    return [
        Figure("scan to the panel's bus, median", median(bus), "ms"),
        Figure("scan to the panel's bus, p99", quantiles(bus, n=100)[98], "ms"),
        Figure("journal commit to the panel's bus, median", median(after), "ms", "at most 5"),
        Figure("journal commit to the panel's bus, p99", quantiles(after, n=100)[98], "ms"),
        Figure("scan to commit: a bus of 1 s a transfer / a fast one", held, "x", "about 1"),
    ]


@contextmanager
def every_adapter(folder: Path, **sections: Any) -> Iterator[Tabled]:  # noqa: ANN401 - sections of table.yaml
    env = {"PYTHONPATH": str(ROOT), "CHANGES": str(folder / "changes")}
    with Tabled(folder, module="tests.written_changes", env=env, **PINS, **sections) as table:
        yield table


def idle() -> list[Figure]:
    """A closed table with everything that the configuration can name."""
    with TemporaryDirectory() as name, every_adapter(Path(name), shoe=SHOE) as table:
        time.sleep(3)
        cpu, woken = cpu_s(table.pid), table.wake_ups
        time.sleep(IDLE_S)
        cpu, woken = cpu_s(table.pid) - cpu, table.wake_ups - woken
    return [
        Figure("idle CPU, all adapters on fakes", cpu / IDLE_S * 100, "%", "under 0.5"),
        Figure("idle wake-ups of all threads, all adapters on fakes", woken / IDLE_S, "a second"),
    ]


def betting() -> list[Figure]:
    """Twenty seconds of betting, from START to the deadline; no shoe sensors: the burn is scanned."""
    procedure = {"open_betting": "dealer", "confirm_result": "none", "betting_seconds": BETTING_S}
    with TemporaryDirectory() as name, every_adapter(Path(name), procedure=procedure) as table:
        table.call("shoe.load")
        table.scan("AS", "2S")
        wait_for(lambda: table.status()["phase"] == "ready", "the burn's end")
        time.sleep(2)
        changes = Path(name) / "changes"
        told, cpu, woken = changes.stat().st_size, cpu_s(table.pid), table.wake_ups
        table.call("round.start")
        time.sleep(BETTING_S - 0.5)  # the deadline itself, with flash and buzzer, is the lamps' own test
        cpu, woken = cpu_s(table.pid) - cpu, table.wake_ups - woken
        lines = changes.read_text()[told:].splitlines()
    return [
        Figure("20 s of betting: writes to pins", sum(x.startswith("lamp") for x in lines), "", "at most 12"),
        Figure("20 s of betting: transfers on the panel's bus", sum(x.startswith("panel") for x in lines), ""),
        Figure("20 s of betting: wake-ups of all threads", woken, ""),
        Figure("20 s of betting: CPU", cpu / BETTING_S * 100, "%"),
    ]


def measure() -> list[Figure]:
    return [*to_the_bus(), *idle(), *betting()]
