"""The broker goes away in betting, in dealing, for a whole shoe (F1, F2, F3, I32, I33)."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.broker import DEADLINE_S, Broker, Subscriber
from tests.consumer import Consumer
from tests.live import FREE_RUNNING, LiveTable, RefusedError, wait_for
from tests.shoes import SHOES, expected, told

BY_DEALER = {"open_betting": "dealer", "confirm_result": "dealer", "betting_seconds": 3}
BURN = ("AS", "2S")
NATURAL = ("9H", "2D", "KS", "3C")  # P1 B1 P2 B2: the Player's nine


class Casino:
    """A broker that comes and goes, the casino server's consumer behind it, a table before it."""

    def __init__(self, broker: Broker, subscriber: Subscriber, table: LiveTable) -> None:
        self.broker, self.subscriber, self.table = broker, subscriber, table

    def everything(self) -> Consumer:
        """All that the table has told, once the link is back: in order, no gap."""
        seqno = self.table.status()["seqno"]
        consumer = Consumer()
        taken = 0

        def whole() -> bool:
            nonlocal taken
            got = self.subscriber.got[taken:]
            taken += len(got)
            consumer.take([message.payload for message in got])
            return len(consumer.messages) >= seqno

        wait_for(whole, f"{seqno} messages at the subscriber")
        return consumer

    def panel(self) -> str:
        prompt = self.table.status()["prompt"]
        return " / ".join([prompt["strip"], prompt["headline"], *prompt["lines"]])

    def shows(self, text: str) -> None:
        wait_for(lambda: text in self.panel(), f"{text!r} on the panel, not {self.panel()!r}")

    def brings_back_the_broker(self) -> None:
        """The consumer first: what a broker acknowledges for nobody it throws away, which is the next step's matter."""
        returns = self.subscriber.returns()
        os.kill(self.table.pid, signal.SIGSTOP)
        self.broker.start()
        assert returns.wait(DEADLINE_S), "the consumer is back"
        os.kill(self.table.pid, signal.SIGCONT)
        self.is_up()

    def is_up(self, *, up: bool = True) -> None:
        wait_for(lambda: self.table.status()["link"]["up"] is up, f"the link {'up' if up else 'down'}")


@contextmanager
def casino(folder: Path, procedure: dict[str, Any], burn: tuple[str, ...] = BURN) -> Iterator[Casino]:
    """With the shoe loaded and `burn` burned. The broker keeps the consumer's session over its own restart."""
    (folder / "broker").mkdir()
    with Broker(folder / "broker", "persistence true", f"persistence_location {folder}/broker/") as broker:
        keys = {"primary": "mqtt", "receipt": "broker", "link_grace_seconds": 1}
        keys["mqtt"] = {"host": "127.0.0.1", "port": broker.port}
        with (
            Subscriber(broker.port, "baccarat/BAC-07/feed") as subscriber,
            LiveTable(folder / "table", casino=keys, procedure=procedure) as table,
        ):
            both = Casino(broker, subscriber, table)
            table.call("shoe.load")
            table.scan(*burn)
            wait_for(lambda: not burn or table.status()["phase"] == "ready", "the burn's end")
            both.is_up()
            yield both


@pytest.mark.timeout(90)
def test_lost_in_betting_the_round_is_cancelled_after_its_deadline(tmp_path: Path) -> None:
    """F2, F3, I33: judged at the deadline, told to the dealer, and no new round until the link is back."""
    with casino(tmp_path, BY_DEALER) as c:
        c.table.call("round.start")
        c.broker.stop()
        c.is_up(up=False)
        assert c.table.status()["phase"] == "betting", "the blip itself decides nothing"
        c.shows("CANCELADA")
        with pytest.raises(RefusedError):
            c.table.call("round.start")
        c.brings_back_the_broker()
        c.table.call("round.start")
        consumer = c.everything()
        (cancelled,) = consumer.data("round.cancelled")
        assert (cancelled["reason"], cancelled["refund"], cancelled["delayed"]) == ("no_answer", "all", True)
        assert [data["round"] for data in consumer.data("betting.opened")] == [1, 2], "the number stays used (C6)"


@pytest.mark.timeout(90)
def test_a_blip_within_the_betting_changes_nothing(tmp_path: Path) -> None:
    """F3: lost and back before the deadline."""
    with casino(tmp_path, BY_DEALER | {"betting_seconds": 8}) as c:
        c.table.call("round.start")
        c.broker.stop()
        c.is_up(up=False)
        c.brings_back_the_broker()
        c.shows("SAQUE CARTA")
        c.table.scan(*NATURAL)
        wait_for(lambda: c.table.status()["phase"] == "result", "the result")
        assert not c.everything().data("round.cancelled")


@pytest.mark.timeout(90)
def test_lost_in_dealing_the_round_is_played_to_its_end(tmp_path: Path) -> None:
    """F1, I32: the strip says so, the result goes out when the link is back."""
    with casino(tmp_path, BY_DEALER | {"betting_seconds": 1}) as c:
        c.table.call("round.start")
        c.shows("SAQUE CARTA")
        c.table.scan(*NATURAL[:2])
        wait_for(lambda: len(c.table.status()["slots"]) == 2, "two cards")
        c.broker.stop()
        c.is_up(up=False)
        assert "SIN" in c.table.status()["prompt"]["strip"], "the panel says why, beside the instruction"
        c.table.scan(*NATURAL[2:])
        c.shows("GANA JUGADOR")
        wait_for(lambda: _confirmed(c.table), "the result's 0.7 s to pass")
        with pytest.raises(RefusedError):
            c.table.call("round.start")
        c.brings_back_the_broker()
        c.table.call("round.start")
        consumer = c.everything()
        (completed,) = consumer.data("round.completed")
        assert (completed["outcome"], completed["delayed"]) == ("player", True)
        assert [card["delayed"] for card in consumer.data("card.dealt")] == [False, False, True, True]
        raised = [data["code"] for data in consumer.data("irregularity.raised")]
        assert raised == ["I32"]


def _confirmed(table: LiveTable) -> bool:
    try:
        table.call("round.confirm")
    except RefusedError:
        return False
    return True


@pytest.mark.timeout(90)
def test_a_whole_shoe_without_the_broker_arrives_when_it_is_back(tmp_path: Path) -> None:
    """`offline_rounds: allow`: dealt to the end, every message late, in order and none twice."""
    shoe = SHOES[4]
    with casino(tmp_path, FREE_RUNNING | {"offline_rounds": "allow"}, burn=()) as c:
        c.broker.stop()
        c.is_up(up=False)
        c.table.scan(*shoe.codes)
        wait_for(lambda: c.table.status()["phase"] == "unloading", "the end of the shoe")
        c.table.call("shoe.left", left=shoe.left)
        c.brings_back_the_broker()
        consumer = c.everything()
    rounds = consumer.data("round.completed")
    assert [told(data) for data in rounds] == [expected(hand) for hand in shoe.hands]
    assert all(data["delayed"] for data in rounds)


@pytest.mark.timeout(90)
def test_refused_no_betting_opens_and_the_panel_says_why(tmp_path: Path) -> None:
    """`offline_rounds: refuse`: ESPERE, SIN SERVIDOR, no abra apuestas; with the broker back the table deals."""
    with casino(tmp_path, BY_DEALER | {"betting_seconds": 1}) as c:
        c.broker.stop()
        c.is_up(up=False)
        c.shows("SIN SERVIDOR")
        with pytest.raises(RefusedError):
            c.table.call("round.start")
        c.brings_back_the_broker()
        c.table.call("round.start")
        c.shows("SAQUE CARTA")
