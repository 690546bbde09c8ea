"""A night at a table whose power is cut: nothing shown is lost, no card has two numbers, no seqno two meanings."""

import itertools
import random
import threading
import time
from pathlib import Path
from typing import Any

from tests.chaos.dealer import Dealer
from tests.consumer import Consumer
from tests.live import FREE_RUNNING, LiveTable
from tests.shoes import SHOES, expected, told

GONE = (OSError, ValueError)  # what a dealer sees of a table whose power was cut: no answer, or half of one


class Night:
    """A table and its dealer through power cuts. `casino` is that section of table.yaml; else the feed is a file."""

    def __init__(self, folder: Path, seed: int, casino: dict[str, Any] | None = None) -> None:
        self._feed = folder / "feed.jsonl"
        casino = casino or {"primary": "file", "file": {"path": str(self._feed)}}
        self._publisher = casino["primary"]
        self.table = LiveTable(folder, casino=casino, procedure=FREE_RUNNING | {"offline_rounds": "allow"})
        self.random = random.Random(seed)
        self._shoes = itertools.cycle(SHOES)
        self.dealt: list[int] = []  # the shoes dealt to their end, by seed
        self.shoe = next(self._shoes)
        self.dealer = Dealer(self.table, self.shoe)
        self._seqno = 0
        self._told: list[bytes] = []

    def copy(self) -> list[bytes]:
        """The casino's copy of the messages, which only grows."""
        return self._feed.read_bytes().split(b"\n")[:-1] if self._feed.exists() else []

    def deal_until_killed(self) -> None:
        """Deals until the power is cut, at a moment that nobody chose."""
        killer = threading.Timer(self.random.uniform(0, 0.4), self.table.kill)
        self.table.start()
        self.dealer.waits_for = ""
        self._nothing_is_missing()
        killer.start()
        try:
            while killer.is_alive():
                self._step()
        except GONE:
            killer.join()
        self._told = self.copy()

    def deal_to_the_end(self, shoes: int = 1) -> None:
        """Deals until so many more shoes are closed, and every message has its receipt."""
        with self.table:
            self.dealer.waits_for = ""
            self._nothing_is_missing()
            done = len(self.dealt)
            while len(self.dealt) < done + shoes:
                self._step()
            self.dealt_out()
            seqno = self.table.status()["seqno"]
            end = time.monotonic() + 120
            while self.table.status()["backlog"][self._publisher] and time.monotonic() < end:
                time.sleep(0.01)
            assert len(self.copy()) >= seqno, "every message is in the casino's copy"

    def dealt_out(self) -> None:
        """The shoes are closed, and not every message may have its receipt."""

    def _step(self) -> None:
        if not self.dealer.step():
            self.dealt.append(self.shoe.seed)
            self.shoe = next(self._shoes)
            self.dealer = Dealer(self.table, self.shoe)
        seqno: int = self.table.status()["seqno"]
        assert seqno >= self._seqno, "what the socket has shown stays"
        self._seqno = seqno

    def _nothing_is_missing(self) -> None:
        status = self.table.status()
        assert status["seqno"] >= self._seqno, f"the socket had shown {self._seqno} messages"
        assert self.copy()[: len(self._told)] == self._told, "what was told stays told"


def check(night: Night) -> int:
    """The casino's copy against the shoes that were dealt; how many rounds it has."""
    consumer = Consumer().take(night.copy())
    rounds = consumer.data("round.completed")
    for number, seed in enumerate(night.dealt, 1):
        shoe = next(shoe for shoe in SHOES if shoe.seed == seed)
        assert [told(data) for data in rounds if data["shoe"] == number] == [expected(hand) for hand in shoe.hands]
        cards = [c for c in consumer.data("card.dealt") if c["shoe"] == number]
        codes = [code for what, code in shoe.events if what != "cut"]
        assert {card["n"]: card["card"] for card in cards} == {
            n: code for n, code in enumerate(codes, 1) if n > len(codes) - len(cards)
        }, "each physical card has the number of its place in the shoe"
    assert all(data["dealt"] + data["burned"] + data["left"] == 416 for data in consumer.data("shoe.closed"))
    return len(rounds)
