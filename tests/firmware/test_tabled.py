"""The table as it is run, and the head as it is built: `tabled`, a scanner's terminal, the firmware on its chip.

In real time, one byte in a hundred broken both ways: the first rounds of a vector shoe, the cable pulled between.
"""

from pathlib import Path
from typing import Any

from controller.core.cards import Card
from controller.link.messages import PROTOCOL
from tests.consumer import Consumer
from tests.firmware.shoesim import ShoeSim
from tests.live import FREE_RUNNING, LiveTable, wait_for
from tests.passages import MS, Pull, Scene, edges
from tests.shoes import SHOES, expected, told

ROUNDS = 3
BROKEN_PER_MILLION = 10_000


class Exit:
    """The shoe's exit: draws a card, and waits until the table has heard of it."""

    def __init__(self, sim: ShoeSim, table: LiveTable) -> None:
        self.sim, self.table = sim, table
        self.drawn = 0

    def moved(self) -> int:
        counts: dict[str, Any] = self.table.call("diag", part="shoe")["moved"]
        return int(counts.get("card", 0))

    def draw(self) -> None:
        scene = Scene()
        scene.card(Pull(5 * MS, 60 * MS))
        self.drawn += 1
        self.sim.play(edges(scene.spans))
        wait_for(lambda: self.moved() == self.drawn, f"the table hears of card {self.drawn}")


def replugged(sim: ShoeSim, table: LiveTable) -> None:
    """The cable is pulled until the table says so, and put back until it is well again: a card then is one too many."""
    sim.command("unplug")
    wait_for(lambda: table.status()["conditions"], "the table misses its head")
    sim.command("plug")
    wait_for(lambda: not table.status()["conditions"], "the head is there again")


def rounds_of(folder: Path) -> list[dict[str, Any]]:
    return Consumer().take((folder / "feed.jsonl").read_bytes().splitlines()).data("round.completed")


def test_the_first_rounds_of_a_shoe(tmp_path: Path) -> None:
    shoe = SHOES[0]
    casino = {"primary": "file", "file": {"path": str(tmp_path / "feed.jsonl")}}
    with ShoeSim(tmp_path) as sim:
        for way in ("to_head", "from_head"):
            sim.command("errors", way, BROKEN_PER_MILLION)
        devices = {"shoe": {"driver": "head", "port": str(sim.port)}}
        with LiveTable(tmp_path, casino=casino, procedure=FREE_RUNNING, devices=devices) as table:
            mouth = Exit(sim, table)
            version = wait_for(lambda: table.call("diag", part="shoe").get("firmware"), "the head says who it is")
            assert version["protocol"] == PROTOCOL
            table.call("shoe.load")
            done = 0
            for what, code in shoe.events:
                if what == "P1" and done == ROUNDS:
                    break
                done += what == "P1"
                if done == 2 and what == "P1":
                    replugged(sim, table)
                mouth.draw()
                if what != "burn":
                    table.scan(str(Card.parse(code)))
            wait_for(lambda: len(rounds_of(tmp_path)) == ROUNDS, "the rounds are told")
            assert [told(data) for data in rounds_of(tmp_path)] == [expected(hand) for hand in shoe.hands[:ROUNDS]]
            assert table.status()["conditions"] == []
            assert sim.stats()["resets"] == 0
