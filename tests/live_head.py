"""A running `tabled` whose shoe has a sensor head: the real firmware on a simulated chip, a process in real time.

Beside it a scanner on a pseudo-terminal, a real mosquitto and one subscriber. What a dealer has and nothing else.
"""

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.link.movements import Line
from tests.broker import HOST, Broker, Subscriber
from tests.firmware.shoesim import AHEAD_US, ShoeSim
from tests.head_table import passage
from tests.live import FREE_RUNNING, LiveTable, wait_for
from tests.passages import edges

BROKEN = 10_000  # bytes in a million, each way
GLANCE_S = 0.2  # how long a dealer waits before a card is shown again
SLOWEST_MS = 100  # a draw: a test has no time for slower ones, which are drawn in lock step
PAUSE_S = 0.02  # after a movement, the least until something else comes
STAFF = ["D1", "J1"]


class LiveHead:
    """`out` counts the cards that left the shoe."""

    def __init__(self, table: LiveTable, sim: ShoeSim, casino: Subscriber, rng: random.Random) -> None:
        self.table, self.sim, self.casino = table, sim, casino
        self.out = 0
        self._rng = rng
        self._told: list[dict[str, Any]] = []
        self._taken: set[int] = set()

    # --- what the casino is told ----------------------------------------------------------------------------

    def told(self, kind: str) -> list[dict[str, Any]]:
        """The data of every message of that type so far."""
        for got in self.casino.got[len(self._told) :]:
            message = json.loads(got.payload)
            self._told.append(message)
            if message["type"] in ("baccarat.card.dealt.v1", "baccarat.card.burned.v1"):
                self._taken.add(message["data"]["n"])
        return [message["data"] for message in self._told if message["type"] == f"baccarat.{kind}.v1"]

    def is_taken(self) -> bool:
        """Whether the last card has its place."""
        self.told("")
        return self.out in self._taken

    def standing(self, code: str) -> bool:
        return any(condition["code"] == code for condition in self.table.status()["conditions"])

    # --- what the dealer does -------------------------------------------------------------------------------

    def load(self) -> None:
        """By its lid."""
        self.table.call("shoe.next")
        for is_open in (True, False):
            self.sim.change(Line.LID, on=is_open)
            time.sleep(0.2)
        wait_for(lambda: self.table.status()["phase"] == "burning", "the shoe is loaded")

    def pull(self, what: str) -> float:
        """Begins to draw it; when it is out, `time.monotonic()`: too early by what the simulator's socket takes."""
        levels = edges(passage(what, self._rng, SLOWEST_MS).spans)
        began = time.monotonic()
        self.sim.play(levels)
        self.out += what != "cut"
        return began + AHEAD_US / 1e6 + levels[-1].at / 1e9

    def draw(self, what: str) -> None:
        """Returns when it is out."""
        time.sleep(max(0, self.pull(what) - time.monotonic()) + PAUSE_S)

    def show(self, code: str) -> None:
        """Over the scanner, and again where the table has not taken it: its movement was told late (I04, I22)."""
        for _ in range(20):
            self.table.scan(code)
            end = time.monotonic() + GLANCE_S
            while time.monotonic() < end:
                if self.is_taken():
                    return
                time.sleep(0.002)
            if self.standing("I22"):  # was it the cut card, just before: it was
                self.table.call("round.confirm")
        raise AssertionError(f"card {self.out} is not taken: {self.table.status()}")

    def deal(self, what: str, code: str) -> None:
        self.draw(what)
        if what == "burn":
            wait_for(self.is_taken, f"the burned card {self.out}")
        elif what != "cut":
            self.show(code)


@contextmanager
def live_head(folder: Path, seed: int, broken: int = BROKEN) -> Iterator[LiveHead]:
    """A table that is up, its shoe not loaded; `broken` bytes in a million are wrong on the head's line, each way."""
    (folder / "broker").mkdir(parents=True)
    with Broker(folder / "broker") as broker, ShoeSim(folder) as sim:
        for way in ("to_head", "from_head"):
            sim.command("errors", way, broken)
        casino = {"primary": "mqtt", "receipt": "broker", "mqtt": {"host": HOST, "port": broker.port}}
        with (
            Subscriber(broker.port, "baccarat/+/feed") as subscriber,
            LiveTable(
                folder,
                casino=casino,
                procedure=FREE_RUNNING | {"offline_rounds": "allow"},
                devices={"shoe": {"driver": "head", "port": str(sim.port)}},
            ) as table,
        ):
            wait_for(lambda: table.status()["link"]["up"], "the link")
            yield LiveHead(table, sim, subscriber, random.Random(seed))
