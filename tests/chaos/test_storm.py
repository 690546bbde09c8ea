"""Whole shoes through every fault between table, broker and casino server, and power cuts: each round once, in order.

A real tabled behind a fault proxy, a real mosquitto, `casino.receipt: server`, and a consumer that knows the guide.
"""

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.adapters import journal_sqlite
from tests.broker import Broker
from tests.casino import OURS
from tests.chaos.dealer import Dealer
from tests.chaos.server import STATUS, CasinoServer
from tests.chaos.weather import RIGHTS, Proxy, Weather
from tests.live import FREE_RUNNING, LiveTable
from tests.shoes import SHOES, Shoe, expected, told

KEYS = [{"keyid": OURS.keyid, "publickey": OURS.public}]
DRAIN_S = 120.0


class Storm:
    """A night at one table: `shoes` are those begun, in order."""

    def __init__(self, table: LiveTable, server: CasinoServer, chance: random.Random) -> None:
        self.table, self.server, self._random = table, server, chance
        self._supply = itertools.cycle(SHOES)
        self.shoes: list[Shoe] = []
        self.dealer = self._next_shoe()

    def _next_shoe(self) -> Dealer:
        self.shoes.append(next(self._supply))
        return Dealer(self.table, self.shoes[-1])

    def restarted(self) -> None:
        self.dealer.waits_for = ""

    def deal(self) -> None:
        if not self.dealer.step():
            self.dealer = self._next_shoe()

    @property
    def rounds(self) -> int:
        """Rounds that the table has shown as completed."""
        *closed, last = [len(shoe.hands) for shoe in self.shoes]
        counted: int | None = self.table.status()["counted"]
        if counted is None:  # no shoe is open: the last one is not yet, or no longer
            counted = last if self.dealer.drawn else 0
        return sum(closed) + counted

    def drain(self) -> None:
        """Fair weather, until nothing is on its way any more."""
        end = time.monotonic() + DRAIN_S
        while (status := self.table.status())["seqno"] > self.server.taken or status["backlog"]["mqtt"]:
            assert time.monotonic() < end, (
                f"not within {DRAIN_S:g} s: all of {status['seqno']}, not {self.server.taken}"
            )
            self.server.tick()
            time.sleep(0.01)


@contextmanager
def _storm(folder: Path, chance: random.Random) -> Iterator[tuple[Storm, Weather]]:
    home = folder / "broker"
    home.mkdir()
    (home / "rights").write_text(RIGHTS.format(""))
    settings = ("persistence true", f"persistence_location {home}/", f"acl_file {home}/rights")
    with Broker(home, *settings) as broker, Proxy(broker.port) as proxy:
        server = CasinoServer(broker.port, chance)
        server.arrive(keeps_session=True)
        mqtt = {"host": "127.0.0.1", "port": proxy.port, "username": "table", "server_status": STATUS}
        casino = {"primary": "mqtt", "receipt": "server", "mqtt": mqtt, "command_keys": KEYS, "limits": "none"}
        procedure = FREE_RUNNING | {"offline_rounds": "allow"}
        try:
            with LiveTable(folder / "table", casino=casino, procedure=procedure) as table:
                night = Storm(table, server, chance)
                yield night, Weather(home, broker, proxy, table, server, chance, night.restarted)
        finally:
            server.crash()


def _check(night: Storm, rounds: int) -> None:
    """Against the vectors, the journal and the guide, whose rules the consumer applied to each message as it came."""
    consumer, seen = night.server.consumer, Counter[int]()
    for data in consumer.data("round.completed"):
        hand = night.shoes[data["shoe"] - 1].hands[seen[data["shoe"]]]
        assert told(data) == expected(hand)
        seen[data["shoe"]] += 1
    assert list(seen) == sorted(seen)
    assert seen.total() == rounds
    assert consumer.repeats, "receipts were lost: what was sent again came twice"
    assert not consumer.data("round.voided")
    assert not consumer.data("round.cancelled")
    path = night.table.folder / "state" / journal_sqlite.DATABASE
    assert [message.data for message in journal_sqlite.messages(path)] == consumer.raw, "the journal's very bytes"


def _blow(folder: Path, *, rounds: int, cycles: int, patient: bool, pace_s: float) -> str:
    """At least so many rounds and cycles of faults; what it came to, in a line."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    chance, began = random.Random(seed), time.monotonic()
    with _storm(folder, chance) as (night, weather):
        faults = weather.blow(cycles=cycles, patient=patient)
        blowing = True
        while blowing or night.rounds < rounds:
            blowing = blowing and next(faults, "over") is None
            if not weather.quiet:
                night.deal()
            night.server.tick()
            time.sleep(chance.expovariate(1 / pace_s))
        if not patient:
            weather.proxy.cut()  # and the table sends again at once what has no receipt
        night.drain()
        dealt = night.rounds
        _check(night, dealt)
    server, count = night.server, weather.happened
    return (
        f"storm, seed {seed}: {dealt} rounds in {len(night.shoes)} shoes, {server.taken} messages; "
        f"{count.total()} faults of {len(count)} kinds, {count['power_cut']} of them power cuts, "
        f"{weather.proxy.proxy.connections} connections; the server dropped {server.consumer.repeats} duplicates, "
        f"met {server.gaps} gaps and asked {server.resends} times for messages; {time.monotonic() - began:.0f} s"
    )


@pytest.mark.timeout(300)
def test_a_storm_of_every_fault_loses_no_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = _blow(tmp_path, rounds=60, cycles=1, patient=False, pace_s=0.03)
    with capsys.disabled():
        print(f"\n{line}")


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_thousand_rounds_in_a_storm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the faults that end soon, those that the table's own clock must end: each takes up to half a minute."""
    line = _blow(tmp_path, rounds=1_000, cycles=3, patient=True, pace_s=0.06)
    with capsys.disabled():
        print(f"\n{line}")
