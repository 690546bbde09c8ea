"""Whole shoes through every fault between table, broker and casino server, and power cuts: each round once, in order.

A real tabled behind a fault proxy, a real mosquitto, `casino.receipt: server`, and a consumer that knows the guide.
"""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

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
ON_AND_ON = FREE_RUNNING | {"offline_rounds": "allow"}
BY_ITSELF = {"open_betting": "auto", "confirm_result": "none", "betting_seconds": 1}
ENDS = ("round.completed", "round.voided", "round.cancelled")
# A card that was drawn as the power went lies before a round that is over: the pit boss's matter (I09), another test's.
# With the server gone no betting opens, and there is nothing that it could miss.
NOT_WITH_BETS = ("power_cut", "cut at DISCONNECT of the table", "server_forgets")


class Plan(NamedTuple):
    """A table's procedure, who deals at it, at least so many rounds, and the weather as `Weather.blow` has it."""

    procedure: dict[str, Any]
    dealer: type[Dealer]
    rounds: int
    pace_s: float  # between two looks of the dealer at the panel, on average
    cycles: int = 1
    patient: bool = False
    without: Collection[str] = ()
    most: int | None = None


class CalledDealer(Dealer):
    """Draws the first card of a round when the table calls for it, and never before."""

    def _deal(self, status: dict[str, Any]) -> None:
        called = any(line.startswith("SAQUE CARTA") for line in status["prompt"]["lines"])
        if status["phase"] in ("burning", "dealing") or called:
            super()._deal(status)


class Storm:
    """A night at one table: `shoes` are those begun, in order."""

    def __init__(self, table: LiveTable, server: CasinoServer, dealer: type[Dealer]) -> None:
        self.table, self.server, self._dealer = table, server, dealer
        self._supply = itertools.cycle(SHOES)
        self.shoes: list[Shoe] = []
        self.dealer = self._next_shoe()

    def _next_shoe(self) -> Dealer:
        self.shoes.append(next(self._supply))
        return self._dealer(self.table, self.shoes[-1])

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
def _storm(folder: Path, chance: random.Random, plan: Plan) -> Iterator[tuple[Storm, Weather]]:
    home = folder / "broker"
    home.mkdir()
    (home / "rights").write_text(RIGHTS.format(""))
    settings = ("persistence true", f"persistence_location {home}/", f"acl_file {home}/rights")
    with Broker(home, *settings) as broker, Proxy(broker.port) as proxy:
        server = CasinoServer(broker.port, chance)
        server.arrive(keeps_session=True)
        mqtt = {"host": "127.0.0.1", "port": proxy.port, "username": "table", "server_status": STATUS}
        casino = {"primary": "mqtt", "receipt": "server", "mqtt": mqtt, "command_keys": KEYS, "limits": "none"}
        try:
            with LiveTable(folder / "table", casino=casino, procedure=plan.procedure) as table:
                night = Storm(table, server, plan.dealer)
                yield night, Weather(home, broker, proxy, table, server, chance, night.restarted)
        finally:
            server.crash()


def _check(night: Storm, rounds: int) -> None:
    """Against the vectors, the journal and the guide, whose rules the consumer applied to each message as it came."""
    _check_bytes(night)
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


def _check_bytes(night: Storm) -> None:
    path = night.table.folder / "state" / journal_sqlite.DATABASE
    taken = night.server.consumer.raw
    assert [message.data for message in journal_sqlite.messages(path)][: len(taken)] == taken, "the journal's own bytes"


def _check_bets(night: Storm, rounds: int) -> None:
    """F1 to F3: each round that was opened has one end, and the first card of one that was cancelled never came."""
    _check_bytes(night)
    consumer = night.server.consumer
    opened = [data["roundid"] for data in consumer.data("betting.opened")]
    ends = sorted((data["round"], data["roundid"]) for kind in ENDS for data in consumer.data(kind))
    assert [roundid for _, roundid in ends] in (opened, opened[:-1]), "one end each, and the newest may be in progress"
    completed, cancelled = consumer.data("round.completed"), consumer.data("round.cancelled")
    assert len(completed) == rounds
    hands = night.shoes[0].hands
    assert [told(data) | {"round": 0} for data in completed] == [
        expected(hand) | {"round": 0} for hand in hands[: len(completed)]
    ]
    assert {data["reason"] for data in cancelled} <= {"no_answer"}
    dealt = {data["roundid"] for data in consumer.data("card.dealt")}
    assert not dealt & {data["roundid"] for data in cancelled}


def _blow(folder: Path, plan: Plan, check: Callable[[Storm, int], None]) -> str:
    """A storm from its beginning until all has arrived; what it came to, in a line."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    chance, began = random.Random(seed), time.monotonic()
    with _storm(folder, chance, plan) as (night, weather):
        faults = weather.blow(cycles=plan.cycles, patient=plan.patient, without=plan.without, most=plan.most)
        blowing = True
        while blowing or night.rounds < plan.rounds:
            blowing = blowing and next(faults, "over") is None
            if not weather.quiet:
                night.deal()
            night.server.tick()
            time.sleep(chance.expovariate(1 / plan.pace_s))
        if not plan.patient:
            weather.proxy.cut()  # and the table sends again at once what has no receipt
        night.drain()
        dealt = night.rounds
        check(night, dealt)
    server, count = night.server, weather.happened
    return (
        f"storm, seed {seed}: {dealt} rounds in {len(night.shoes)} shoes, {server.taken} messages; "
        f"{len(server.consumer.data('round.cancelled'))} rounds cancelled; "
        f"{count.total()} faults of {len(count)} kinds, {count['power_cut']} of them power cuts, "
        f"{weather.proxy.proxy.connections} connections; the server dropped {server.consumer.repeats} duplicates, "
        f"met {server.gaps} gaps and asked {server.resends} times for messages; {time.monotonic() - began:.0f} s"
    )


Told = Callable[[str], None]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Told:
    """Says it past pytest's capture: the figures of a storm belong in the log of a run that is green, too."""

    def told_(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}")

    return told_


@pytest.mark.timeout(300)
def test_a_storm_of_every_fault_loses_no_round(tmp_path: Path, tell: Told) -> None:
    tell(_blow(tmp_path, Plan(ON_AND_ON, Dealer, rounds=60, pace_s=0.03), _check))


@pytest.mark.timeout(300)
def test_with_bets_each_round_has_one_end(tmp_path: Path, tell: Told) -> None:
    plan = Plan(BY_ITSELF, CalledDealer, rounds=4, pace_s=0.02, without=NOT_WITH_BETS, most=6)
    tell(_blow(tmp_path, plan, _check_bets))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_thousand_rounds_in_a_storm(tmp_path: Path, tell: Told) -> None:
    """Beside the faults that end soon, those that the table's own clock must end: each takes up to half a minute."""
    plan = Plan(ON_AND_ON, Dealer, rounds=1_000, pace_s=0.06, cycles=3, patient=True)
    tell(_blow(tmp_path, plan, _check))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_night_with_bets_in_a_storm(tmp_path: Path, tell: Told) -> None:
    plan = Plan(BY_ITSELF, CalledDealer, rounds=50, pace_s=0.02, cycles=3, without=NOT_WITH_BETS)
    tell(_blow(tmp_path, plan, _check_bets))
