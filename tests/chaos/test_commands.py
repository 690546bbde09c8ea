"""A casino server and a whole `tabled` through a real mosquitto: commands over kills, and what only they can bring."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller import feed
from tests.broker import Broker, Subscriber
from tests.casino import OURS, command
from tests.consumer import Consumer
from tests.live import LiveTable, wait_for

FAR_S = 3_600
TOPIC = "baccarat/BAC-07"
STATUS = "casino/status"
BY_SERVER = {"open_betting": "server", "confirm_result": "none", "betting_seconds": 1}


class Server:
    """The casino's server: it takes the feed, gives receipts, and asks."""

    def __init__(self, subscriber: Subscriber, table: LiveTable) -> None:
        self.subscriber, self.table = subscriber, table
        self.consumer = Consumer()
        self._seen = 0

    def take(self) -> None:
        """Reads what has come, and acknowledges the newest message of the feed."""
        got, self._seen = self.subscriber.got[self._seen :], len(self.subscriber.got)
        messages = [each.payload for each in got if each.topic == f"{TOPIC}/feed"]
        if messages:
            self.consumer.take(messages)
            self.subscriber.publish(f"{TOPIC}/ack", self.consumer.receipt)

    def until(self, phase: str) -> None:
        def there() -> bool:
            self.take()
            return bool(self.table.status()["phase"] == phase)

        wait_for(there, f"phase {phase}")

    def send(self, data: bytes) -> None:
        self.subscriber.publish(f"{TOPIC}/commands", data, reply_to=f"{TOPIC}/replies/server", tag=b"x")

    def replies(self) -> list[dict[str, Any]]:
        return [json.loads(got.payload) for got in list(self.subscriber.got) if "/replies/" in got.topic]

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        data = command(method, params, expires=soon())
        id_ = json.loads(data)["id"]
        self.send(data)
        return wait_for(lambda: next((r for r in self.replies() if r["id"] == id_), None), f"a reply to {id_}")


def soon() -> str:
    return feed.utc(time.time_ns() + FAR_S * 10**9)


@contextmanager
def casino(folder: Path) -> Iterator[Server]:
    keys = [{"keyid": OURS.keyid, "publickey": OURS.public}]
    with Broker(folder) as broker, Subscriber(broker.port, f"{TOPIC}/feed", f"{TOPIC}/replies/#") as subscriber:
        subscriber.publish(STATUS, b"online", retain=True)
        mqtt = {"host": "127.0.0.1", "port": broker.port, "server_status": STATUS}
        section = {"primary": "mqtt", "receipt": "server", "mqtt": mqtt, "command_keys": keys, "enrolment": "required"}
        with LiveTable(folder / "table", casino=section, procedure=BY_SERVER) as table:
            wait_for(lambda: table.status()["link"]["up"], "the link")  # from now on the broker keeps commands for it
            yield Server(subscriber, table)


def test_a_server_enrols_the_table_limits_it_opens_and_gets_a_round(tmp_path: Path) -> None:
    with casino(tmp_path) as server:
        server.table.call("shoe.load", by=["D1", "J1"])
        server.table.scan("AS", "2S")
        server.until("ready")
        assert [c["code"] for c in server.table.status()["conditions"]] == ["limits", "enrolment"]
        assert server.ask("open_betting")["error"]["data"]["values"] == {"code": "limits"}
        assert server.ask("limits", {"limits": {"player": {"least": "10", "most": "5000"}}})["result"]
        assert server.ask("enrol", {"publickey": server.table.status()["public_key"]})["result"]
        assert server.ask("open_betting")["result"]["repeated"] is False
        server.until("closing")
        wait_for(lambda: server.take() or "SAQUE" in str(server.table.status()["prompt"]), "the call for the card")
        server.table.scan("9H", "2D", "KS", "3C")
        server.until("ready")
        wait_for(lambda: server.take() or "round.completed" in str(server.consumer.messages[-1]["type"]), "the result")


def test_commands_over_kills_act_once_and_in_order(tmp_path: Path) -> None:
    """bug_reports D47: killed at any moment, the table takes up each command where it was, and none twice."""
    with casino(tmp_path) as server:
        pauses = 12
        sent = []
        for number in range(pauses):
            for method in ("pause", "resume"):
                sent.append(command(method, expires=soon()))
                server.send(sent[-1])
            if number % 4 == 3:
                server.table.kill()
                server.table.start()
        for data in sent:  # the server does not know which of them were answered: it sends all of them again
            server.send(data)
        ids = [json.loads(data)["id"] for data in sent]
        wait_for(lambda: set(ids) <= {reply["id"] for reply in server.replies()}, "a reply to each")
        wait_for(lambda: server.take() or len(server.consumer.messages) >= server.table.status()["seqno"], "the feed")
        codes = [
            (message["type"].split(".")[2], message["data"].get("code", "pause"))
            for message in server.consumer.messages
            if message["type"].startswith("baccarat.irregularity")
        ]
        assert codes == [("raised", "pause"), ("resolved", "pause")] * pauses


def test_a_server_that_goes_takes_the_link_along(tmp_path: Path) -> None:
    with casino(tmp_path) as server:
        server.subscriber.publish(STATUS, b"offline", retain=True)
        wait_for(lambda: not server.table.status()["link"]["up"], "the link is down")
        assert "offline" in server.table.status()["link"]["reason"]
