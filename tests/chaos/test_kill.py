"""SIGKILL at random moments of running shoes: nothing shown is lost, no card has two numbers, no seqno two meanings."""

import itertools
import random
import threading
import time
from pathlib import Path

import pytest

from tests.chaos.dealer import Dealer
from tests.consumer import Consumer
from tests.live import FREE_RUNNING, LiveTable
from tests.shoes import SHOES, expected, told

GONE = (OSError, ValueError)  # what a dealer sees of a table whose power was cut: no answer, or half of one


class Night:
    """A table and its dealer through power cuts; `feed` is the casino's copy, which only grows."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.feed = folder / "feed.jsonl"
        casino = {"primary": "file", "file": {"path": str(self.feed)}}
        self.table = LiveTable(folder, casino=casino, procedure=FREE_RUNNING)
        self.random = random.Random(seed)
        self._shoes = itertools.cycle(SHOES)
        self.dealt: list[int] = []  # the shoes dealt to their end, by seed
        self.shoe = next(self._shoes)
        self.dealer = Dealer(self.table, self.shoe)
        self._seqno = 0
        self._told = b""

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
        lines = self.feed.read_bytes() if self.feed.exists() else b""
        self._told = lines[: lines.rfind(b"\n") + 1]

    def deal_to_the_end_of_the_shoe(self) -> None:
        with self.table:
            self.dealer.waits_for = ""
            self._nothing_is_missing()
            done = len(self.dealt)
            while len(self.dealt) == done:
                self._step()
            seqno = self.table.status()["seqno"]
            end = time.monotonic() + 30
            while self.table.status()["backlog"]["file"] and time.monotonic() < end:
                time.sleep(0.01)
            assert self.feed.read_bytes().count(b"\n") == seqno, "every message is in the casino's copy, once"

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
        assert not self.feed.exists() or self.feed.read_bytes().startswith(self._told), "what was told stays told"


def _check(night: Night) -> None:
    consumer = Consumer().take(night.feed.read_bytes().splitlines())
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


def _cut_power(folder: Path, times: int) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    night = Night(folder, seed)
    for _ in range(times):
        night.deal_until_killed()
    night.deal_to_the_end_of_the_shoe()
    _check(night)


@pytest.mark.timeout(180)
def test_twenty_power_cuts_lose_nothing(tmp_path: Path) -> None:
    _cut_power(tmp_path, 20)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_hundred_power_cuts_lose_nothing(tmp_path: Path) -> None:
    _cut_power(tmp_path, 200)
