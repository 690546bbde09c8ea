"""Ten whole shoes typed as fast as the pty takes them, heard at a real broker (free-running)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker import Broker, Subscriber
from tests.consumer import Consumer
from tests.live import FREE_RUNNING, LiveTable, wait_for
from tests.shoes import SHOES, expected, told


@pytest.mark.timeout(300)
def test_ten_shoes_give_exactly_the_vectors(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    with Broker(tmp_path / "broker") as broker, Subscriber(broker.port, "baccarat/BAC-07/feed") as subscriber:
        casino = {"primary": "mqtt", "receipt": "broker", "mqtt": {"host": "127.0.0.1", "port": broker.port}}
        with LiveTable(tmp_path / "table", casino=casino, procedure=FREE_RUNNING) as table:
            for shoe in SHOES:
                table.call("shoe.load")
                table.scan(*shoe.codes)
                wait_for(lambda: table.status()["phase"] == "unloading", f"the end of shoe {shoe.seed}")
                table.call("shoe.left", left=shoe.left)
            head = table.status()["seqno"]
            wait_for(lambda: subscriber.got and len(subscriber.got) >= head, "every message at the subscriber")
            consumer = Consumer().take([message.payload for message in subscriber.got])
            live = subprocess.run(
                [sys.executable, "-m", "controller.cli", "--socket", str(table.socket), "journal", "verify"],
                check=False,
            )
            assert live.returncode == 0, "both chains and every signature hold, asked of the daemon"
    offline = subprocess.run(
        [sys.executable, "-m", "controller.cli", "--config", str(table.config), "journal", "verify"], check=False
    )
    assert offline.returncode == 0, "and with the daemon gone"
    rounds = consumer.data("round.completed")
    for number, shoe in enumerate(SHOES, 1):
        played = [told(data) for data in rounds if data["shoe"] == number]
        assert played == [expected(hand) for hand in shoe.hands], f"shoe {shoe.seed}"
        lasts = [data["round"] for data in rounds if data["shoe"] == number and data["last_round"]]
        assert lasts == [shoe.last], f"the last round of shoe {shoe.seed}"
    closed = consumer.data("shoe.closed")
    assert [data["left"] for data in closed] == [shoe.left for shoe in SHOES]
    assert all(data["dealt"] + data["burned"] + data["left"] == 416 for data in closed), "B11"
