"""Whole shoes over a bad serial line: bytes changed, lost and added, plugs pulled, both ends stopped at any moment.

The consumer is written from docs/serial-link.md and docs/integrator.md alone; it ends with every round once, in order.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller import feed
from tests.casino import OURS, command
from tests.chaos.night import Night, check
from tests.consumer import Consumer
from tests.live import DEADLINE_S, FREE_RUNNING, LiveTable, wait_for
from tests.pages import ROOT
from tests.serial_consumer import SerialConsumer
from tests.serial_noise import Noise
from tests.serial_pty import PtyLine
from tests.shoes import SHOES, expected, told

FAR = 1_000  # messages without a receipt


class SerialCasino:
    """The consumer as a program on its end of the line, which is restarted and unplugged as it likes."""

    def __init__(self, line: PtyLine) -> None:
        self.consumer = SerialConsumer()
        self.restarts = 0
        self._line = line
        self._commands: deque[bytes] = deque()
        self._restart = threading.Event()

    def restart(self) -> None:
        self._restart.set()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """A signed command, said again until its reply is there."""
        expires = feed.utc(time.time_ns() + 3_600 * 10**9)
        data = command(method, params, expires=expires)
        id_ = json.loads(data)["id"]
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            self._commands.append(data)
            with contextlib.suppress(AssertionError):
                wait_for(lambda: self._replies(id_), f"a reply to {method}", deadline_s=3)
                break
        return self._replies(id_)[0]

    def _replies(self, id_: str) -> list[dict[str, Any]]:
        return [told for told in map(json.loads, list(self.consumer.replies)) if told["id"] == id_]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        done = threading.Event()
        failed: list[BaseException] = []

        def run() -> None:
            try:
                while not done.is_set():
                    with contextlib.suppress(OSError):
                        self._speak(done)
                    time.sleep(0.01)
            except BaseException as error:  # noqa: BLE001 - raised where the test waits
                failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            if failed:
                raise failed[0]

    def _speak(self, done: threading.Event) -> None:
        """Until the port is gone, or the program is restarted: then it is opened again."""
        fd = os.open(self._line.casino_port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        out = b""
        try:
            while not done.is_set():
                data = b""
                with contextlib.suppress(BlockingIOError):
                    data = os.read(fd, 65_536)
                    if not data:
                        return
                now = time.monotonic()
                out += self.consumer.feed(data, now) + self.consumer.tick(now)
                while self._commands:
                    out += self.consumer.command(self._commands.popleft())
                with contextlib.suppress(BlockingIOError):
                    out = out[os.write(fd, out) :]
                if self._restart.is_set():
                    self._restart.clear()
                    self.restarts += 1
                    self.consumer.says_wanted = not self.consumer.says_wanted
                    self.consumer.restart()
                    return
                time.sleep(0.001)
        finally:
            os.close(fd)


class SerialNight(Night):
    """A night over a line; while `mischief` lasts, plugs are pulled and the casino's program is restarted."""

    def __init__(self, folder: Path, seed: int, rate: float) -> None:
        rng = random.Random(seed)
        self.line = PtyLine(folder, Noise(rng, rate), Noise(random.Random(seed + 1), rate))
        self.casino = SerialCasino(self.line)
        self.unplugs = 0
        self._dealt = threading.Event()
        serial = {"port": self.line.table_port, "baud": 115_200}
        super().__init__(folder, seed, {"primary": "serial", "receipt": "server", "serial": serial})

    def copy(self) -> list[bytes]:
        return list(self.casino.consumer.taken)

    @contextlib.contextmanager
    def mischief(self, rest_s: float) -> Iterator[None]:
        """Until the shoes are dealt; the noise stays to the end."""
        rng = random.Random(self.random.random())

        def run() -> None:
            while not self._dealt.wait(rng.uniform(0, 2 * rest_s)):
                ends = rng.choice([("table",), ("casino",), ("table", "casino"), ()])
                if not ends:
                    self.casino.restart()
                    continue
                self.unplugs += 1
                self.line.unplug(*ends)
                time.sleep(rng.uniform(0, 0.5))
                self.line.plug(*ends)

        thread = threading.Thread(target=run, daemon=True)
        with self.line.carrying(), self.casino.running():
            thread.start()
            try:
                yield
            finally:
                self.dealt_out()
                thread.join()

    def dealt_out(self) -> None:
        self._dealt.set()

    def _step(self) -> None:
        """No dealer is as fast as this one: where the line falls far behind, rounds stop (I34)."""
        while self._seqno - len(self.casino.consumer.taken) > FAR:
            self.table.status()  # a table that was killed meanwhile says so here
            time.sleep(0.01)
        super()._step()


def _bad_night(folder: Path, *, kills: int, shoes: int, rate: float) -> int:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    night = SerialNight(folder, seed, rate)
    night.line.plug("table", "casino")
    try:
        with night.mischief(rest_s=1.5):
            for _ in range(kills):
                night.deal_until_killed()
            night.deal_to_the_end(shoes)
    finally:
        night.line.close()
    rounds = check(night)
    hits = sum(noise.hits for noise in night.line.noises.values())
    consumer = night.casino.consumer
    print(
        f"{rounds} rounds in {len(consumer.taken)} messages, {consumer.repeats} duplicates dropped, {consumer.ahead} "
        f"frames for a gap; {hits} hits of noise on {night.line.carried} bytes, {consumer.damaged} damaged frames, "
        f"{night.unplugs} unplugs, {night.casino.restarts} restarts of the casino, {kills} kills of the table"
    )
    assert hits and consumer.damaged and night.unplugs
    return rounds


@pytest.mark.timeout(180)
def test_a_shoe_over_a_bad_line_arrives_once_and_in_order(tmp_path: Path) -> None:
    _bad_night(tmp_path, kills=2, shoes=1, rate=2e-4)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_rounds_over_a_bad_line_arrive_once_and_in_order(tmp_path: Path) -> None:
    assert _bad_night(tmp_path, kills=40, shoes=14, rate=2e-4) >= 1_000


BY_SERVER = {"open_betting": "server", "confirm_result": "none", "betting_seconds": 1}


@pytest.mark.timeout(120)
def test_the_server_opens_the_betting_over_a_bad_line_and_gets_the_round(tmp_path: Path) -> None:
    """Receipts in time (F2) and commands with an effect once, of every ten frames one is damaged."""
    line = PtyLine(tmp_path, Noise(random.Random(8), 2e-4), Noise(random.Random(9), 2e-4))
    line.plug("table", "casino")
    keys = [{"keyid": OURS.keyid, "publickey": OURS.public}]
    section = {"primary": "serial", "serial": {"port": line.table_port}, "command_keys": keys, "limits": "none"}
    casino = SerialCasino(line)
    with (
        line.carrying(),
        casino.running(),
        LiveTable(tmp_path / "table", casino=section, procedure=BY_SERVER) as table,
    ):
        wait_for(lambda: table.status()["link"]["up"], "the link")
        table.call("shoe.load", by=["D1", "J1"])
        table.scan("AS", "2S")
        wait_for(lambda: table.status()["phase"] == "ready", "the burn's end")
        assert casino.ask("ping")["result"]["table"] == "BAC-07"
        assert casino.ask("open_betting")["result"]["repeated"] in (False, True)
        wait_for(lambda: "SAQUE CARTA" in str(table.status()["prompt"]), "the receipts of the betting's end")
        table.scan("9H", "2D", "KS", "3C")
        wait_for(lambda: table.status()["counted"] == 1, "the round's end")
        generation = table.status()["generation"]
        result = casino.ask("resend", {"generation": generation, "from": 1})["result"]
        wait_for(lambda: table.status()["backlog"]["serial"] == 0, "every receipt")
    line.close()
    consumer = Consumer().take(casino.consumer.taken)
    assert [data["outcome"] for data in consumer.data("round.completed")] == ["player"]
    assert not consumer.data("round.cancelled")
    assert result["from"] == 1 and casino.consumer.again
    assert all(data == consumer.raw[number - 1] for number, data in casino.consumer.again)


@pytest.mark.timeout(120)
def test_the_reference_receiver_keeps_every_message_once(tmp_path: Path) -> None:
    """`tablectl casino listen`, stopped hard in the middle of the shoe and of a line; then its file is verified."""
    rng = random.Random(5)
    line = PtyLine(tmp_path, Noise(rng, 1e-4), Noise(rng, 1e-4))
    line.plug("table", "casino")
    casino = {"primary": "serial", "receipt": "server", "serial": {"port": line.table_port}}
    table = LiveTable(tmp_path / "table", casino=casino, procedure=FREE_RUNNING | {"offline_rounds": "allow"})
    file, shoe = tmp_path / "feed.jsonl", SHOES[3]
    program = [sys.executable, "-m", "controller.cli"]
    listen = [*program, "casino", "listen", "--serial", line.casino_port, "--file", str(file)]
    with line.carrying(), table:
        with subprocess.Popen(listen, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
            table.call("shoe.load")
            table.scan(*shoe.codes)
            wait_for(lambda: file.exists() and file.stat().st_size > 100_000, "some of it in the file")
            first.kill()
        with file.open("ab") as torn:
            torn.write(b'{"specversion":"1.0","id":"BAC')
        with (
            (tmp_path / "said").open("wb") as out,
            subprocess.Popen(listen, cwd=ROOT, stdout=out, stderr=subprocess.DEVNULL) as second,
        ):
            wait_for(lambda: table.status()["phase"] == "unloading", "the end of the shoe")
            table.call("shoe.left", left=shoe.left)
            wait_for(lambda: table.status()["backlog"]["serial"] == 0, "every receipt")
            second.kill()
    line.close()
    said = (tmp_path / "said").read_bytes().splitlines()
    lines = file.read_bytes().splitlines()
    assert said[-1] == lines[-1] and 0 < len(said) < len(lines), "what was in the file is not told again"
    consumer = Consumer().take(lines)
    assert consumer.repeats == 0 and consumer.messages[-1]["seqno"] == len(lines)
    assert [told(data) for data in consumer.data("round.completed")] == [expected(hand) for hand in shoe.hands]
    assert subprocess.run([*program, "journal", "verify", str(file)], cwd=ROOT, check=False).returncode == 0


def test_a_file_that_is_no_feed_gets_no_receipt(tmp_path: Path) -> None:
    """Nor does it need a line: what is in the file is judged first."""
    (tmp_path / "feed.jsonl").write_bytes(b'{"seqno":1}\n')
    command = [sys.executable, "-m", "controller.cli", "casino", "listen", "--serial", str(tmp_path / "none")]
    for file, says in (("feed.jsonl", "after 0 good messages: line 1,"), ("none/feed.jsonl", "cannot be written")):
        done = subprocess.run(
            [*command, "--file", str(tmp_path / file)],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1 and says in done.stderr
