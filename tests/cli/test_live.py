"""`tablectl` beside a real `tabled`: its socket, its journal on disk, and both after a kill."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.broker import HOST, Broker, Subscriber
from tests.live import LiveTable, wait_for

REPO = Path(__file__).parents[2]


def test_a_table_is_asked_verified_killed_and_read(tmp_path: Path) -> None:
    feed = tmp_path / "feed.jsonl"
    table = LiveTable(tmp_path, casino={"primary": "file", "file": {"path": str(feed)}})

    def tablectl(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "controller.cli", "--config", str(table.config), *arguments]
        ran = subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=REPO, text=True)
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran.returncode, ran.stdout

    with table:
        assert tablectl("shoe", "load", "--by", "dealer")[0] == 0
        table.scan("AS", "2S", "2H", "TC", "3D", "5C", "4S", "6D", "8H")
        wait_for(lambda: table.status()["slots"] == {"P1": "8H"}, "the second round")
        asked = tablectl("recall", "--json")
        verified = tablectl("journal", "verify")
        assert (asked[0], verified[0]) == (0, 0)
        table.kill()
        assert table.socket.exists()
        assert tablectl("status")[0] == 3
        assert tablectl("recall", "--json") == asked
        assert tablectl("journal", "verify") == verified
        table.start()
        assert tablectl("status")[0] == 0
        assert table.status()["conditions"][0]["code"] == "I35"
        wait_for(lambda: table.status()["backlog"] == {"file": 0}, "the feed in its file")
        assert table.stop() == 0
        assert not table.socket.exists()
    assert tablectl("journal", "verify", str(feed))[0] == 0


def test_a_device_is_followed_until_the_table_stops(tmp_path: Path) -> None:
    """What is followed through the table ends with it, and takes no device from the one that starts next."""
    pins = {"gpio": {"pin_factory": "mock"}, "buttons": {"driver": "gpio", "start": 16, "confirm": 20, "call": 21}}
    feed = {"primary": "file", "file": {"path": str(tmp_path / "feed.jsonl")}}
    with LiveTable(tmp_path, casino=feed, devices=pins) as table:
        command = [sys.executable, "-m", "controller.cli", "--config", str(table.config), "diag"]
        ran = subprocess.run([*command, "buttons"], capture_output=True, timeout=60, check=True, cwd=REPO, text=True)
        assert ran.stdout.startswith("buttons   gpio\nGPIO16    start          up, 0 edges\n")
        follow = [*command, "scanner", "--watch"]
        environ = os.environ | {"BACCARAT_SOCKET": str(table.socket)}
        with subprocess.Popen(
            follow, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
        ) as follower:
            assert follower.stdout is not None
            assert follower.stderr is not None
            assert follower.stdout.readline() == "scanner   serial, open\n"
            table.call("shoe.load")
            table.scan("AS", "2S")
            lines = iter(follower.stdout.readline, "")
            assert next(line for line in lines if line.count("card") == 2) == "last      card, card\n"
            assert table.stop() == 0
            assert follower.wait(30) == 3
            assert "ask tablectl status" in follower.stderr.read()


def test_the_casino_gets_its_messages_again(tmp_path: Path) -> None:
    """Twice on the broker, in order, the same bytes; the file keeps its one copy, and says so."""
    sections: dict[str, Any] = {"primary": "file", "file": {"path": str(tmp_path / "feed.jsonl")}, "receipt": "broker"}
    with Broker(tmp_path) as broker, Subscriber(broker.port, "baccarat/BAC-07/feed") as casino:
        sections["mqtt"] = {"host": HOST, "port": broker.port}
        with LiveTable(tmp_path, casino=sections) as table:
            wait_for(lambda: set(table.status()["backlog"].values()) == {0}, "every receipt")
            head = table.status()["seqno"]
            casino.wait(lambda: len(casino.got) == head, "every message")

            def tablectl(*arguments: str) -> "subprocess.CompletedProcess[str]":
                command = [sys.executable, "-m", "controller.cli", "--socket", str(table.socket), "casino", "resend"]
                return subprocess.run(
                    [*command, *arguments], capture_output=True, timeout=60, check=False, cwd=REPO, text=True
                )

            ran = tablectl("--from", "2", "--publisher", "mqtt")
            assert (ran.returncode, ran.stdout) == (0, f"mqtt: messages 2 to {head} are sent again\n")
            casino.wait(lambda: len(casino.got) == 2 * head - 1, "all but one again")
            payloads = [got.payload for got in casino.got]
            assert payloads[head:] == payloads[1:head]
            told = table.call("diag", part="casino")
            ways = {one["name"]: one for one in told["publishers"]}
            assert (told["driver"], told["link"], told["refused"]) == ("file", "up", [])
            window = {"port": f"{HOST}:{broker.port}", "flying": 0, "window": 16}
            assert ways["mqtt"] == {"name": "mqtt", "receipt": head, "head": head, **window}
            assert ways["file"] == {"name": "file", "receipt": head, "head": head, "port": str(tmp_path / "feed.jsonl")}
            ran = tablectl("--from", "2")
            assert ran.returncode == 1
            assert "a file keeps what was written to it" in ran.stderr
            assert tablectl("--from", str(head + 1), "--publisher", "mqtt").returncode == 1
            casino.publish("baccarat/BAC-07/commands", b"nonsense")
            broker.stop()
            wait_for(lambda: "fault" in table.call("diag", part="casino")["publishers"][0], "the broker's loss")
            (refused,) = table.call("diag", part="casino")["refused"]
            assert refused["why"] == "malformed"
            assert table.call("diag", part="storage")["messages"] == table.status()["seqno"]
            assert table.call("diag", part="clock")["step"] is None
            assert table.stop() == 0
    assert len((tmp_path / "feed.jsonl").read_bytes().splitlines()) > head
