"""Write on the pty to message received at a subscriber, paced, beside the floor of the same run.

Both sides journal on the same disk and publish to the same mosquitto; their rounds are interleaved, so that a noisy
machine is noisy to both.
"""

import json
import os
import subprocess
import sys
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from tests.bench.report import Figure
from tests.broker import Broker, Subscriber
from tests.live import FREE_RUNNING, LiveTable, wait_for
from tests.shoes import SHOES

PACE_S = 0.05
HERE = Path(__file__).parent
CARDS = [code for what, code in SHOES[0].events if what != "cut"][:400]
CARD_TYPES = ("baccarat.card.dealt.v1", "baccarat.card.burned.v1")


class Side:
    """One program under the clock: `write` types on its line, `arrived` maps a card's number to its arrival."""

    def __init__(self, name: str, write: Callable[[bytes], None], arrived: Callable[[], dict[int, float]]) -> None:
        self.name, self._write, self._arrived = name, write, arrived
        self._sent = 0
        self.taken_ms: list[float] = []

    def card(self, lines: list[bytes]) -> None:
        """Types the card's events, the card last; waits for its message."""
        for line in lines[:-1]:
            self._write(line)
            time.sleep(0.005)
        self._sent += 1
        began = time.monotonic()
        self._write(lines[-1])
        arrived: float = wait_for(lambda: self._arrived().get(self._sent), f"{self.name}: card {self._sent}")
        self.taken_ms.append((arrived - began) * 1_000)


@contextmanager
def table_side(folder: Path, broker: Broker, preload: Path | None) -> Iterator[Side]:
    casino = {"primary": "mqtt", "receipt": "broker", "mqtt": {"host": "127.0.0.1", "port": broker.port}}
    procedure = FREE_RUNNING | {"offline_rounds": "allow"}
    with (
        Subscriber(broker.port, "baccarat/+/feed") as subscriber,
        LiveTable(folder, casino=casino, procedure=procedure, preload=preload) as table,
    ):
        table.call("shoe.load")
        wait_for(lambda: table.status()["link"]["up"], "the link")
        arrivals: dict[int, float] = {}
        taken = 0

        def arrived() -> dict[int, float]:
            nonlocal taken
            got = subscriber.got[taken:]
            taken += len(got)
            for message in got:
                told = json.loads(message.payload)
                if told["type"] in CARD_TYPES:
                    arrivals[told["data"]["n"]] = message.at
            return arrivals

        yield Side("table", table.write, arrived)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


@contextmanager
def floor_side(folder: Path, broker: Broker, preload: Path | None) -> Iterator[Side]:
    master, slave = os.openpty()
    tty.setraw(slave)
    environ = dict(os.environ) | ({"LD_PRELOAD": str(preload)} if preload else {})
    command = [sys.executable, str(HERE / "floor.py"), os.ttyname(slave), str(folder / "floor.db"), str(broker.port)]
    with (
        Subscriber(broker.port, "floor/feed", name="floor-casino", made_up=True) as subscriber,
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as floor,
    ):
        assert floor.stdout is not None
        floor.stdout.readline()
        try:
            yield Side(
                "floor",
                partial(_write_all, master),
                lambda: {json.loads(m.payload)["n"]: m.at for m in subscriber.got},
            )
        finally:
            floor.kill()
            os.close(master)
            os.close(slave)


def compare(cards: int, blind: int, preload: Path | None) -> tuple[list[float], list[float]]:
    """Milliseconds of the table and of the floor; before each card `blind` events that could not be read."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "broker").mkdir()
        with (
            Broker(folder / "broker") as broker,
            table_side(folder / "table", broker, preload) as table,
            floor_side(folder, broker, preload) as floor,
        ):
            for code in CARDS[:cards]:
                lines = [b"NOREAD\r"] * blind + [code.encode() + b"\r"]
                for side in (table, floor):
                    time.sleep(PACE_S)
                    side.card(lines)
            skip = cards // 20  # the first ones warm caches
            return table.taken_ms[skip:], floor.taken_ms[skip:]


def _figures(name: str, table: list[float], floor: list[float], target: float) -> list[Figure]:
    return [
        Figure(f"{name}: table, median", median(table), "ms"),
        Figure(f"{name}: table, p99", quantiles(table, n=100)[98], "ms"),
        Figure(f"{name}: floor, median", median(floor), "ms"),
        Figure(f"{name}: floor, p99", quantiles(floor, n=100)[98], "ms"),
        Figure(f"{name}: table / floor, medians", median(table) / median(floor), "x", f"at most {target}"),
    ]


def measure() -> list[Figure]:
    with TemporaryDirectory() as name:
        shim = Path(name) / "slow_sync.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", shim, HERE / "slow_sync.c", "-ldl"], check=True)
        return [
            *_figures("scan to subscriber", *compare(400, 0, None), 1.8),
            *_figures("the same, fdatasync +40 ms, 4 events a card", *compare(60, 3, shim), 1.4),
        ]
