"""Whole shoes over a bad serial line: bytes changed, lost and added, plugs pulled, both ends stopped at any moment.

The consumer is written from docs/serial-link.md and docs/integrator.md alone; it ends with every round once, in order.
"""

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.night import Night, check
from tests.consumer import Consumer
from tests.live import FREE_RUNNING, LiveTable, wait_for
from tests.pages import ROOT
from tests.serial_consumer import SerialConsumer
from tests.serial_noise import Noise
from tests.serial_pty import PtyLine
from tests.shoes import SHOES, expected, told


class SerialCasino:
    """The consumer as a program on its end of the line, which is restarted and unplugged as it likes."""

    def __init__(self, line: PtyLine) -> None:
        self.consumer = SerialConsumer()
        self.restarts = 0
        self._line = line
        self._restart = threading.Event()

    def restart(self) -> None:
        self._restart.set()

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
                with contextlib.suppress(BlockingIOError):
                    out = out[os.write(fd, out) :]
                if self._restart.is_set():
                    self._restart.clear()
                    self.restarts += 1
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
        f"{rounds} rounds in {len(consumer.taken)} messages, {consumer.repeats} duplicates dropped; {hits} hits of "
        f"noise on {night.line.carried} bytes, {consumer.damaged} damaged frames, {night.unplugs} unplugs, "
        f"{night.casino.restarts} restarts of the casino's program, {kills} kills of the table's"
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
    for file, says in (("feed.jsonl", "after 0 good messages: line 1:"), ("none/feed.jsonl", "cannot be written")):
        done = subprocess.run(
            [*command, "--file", str(tmp_path / file)],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1 and says in done.stderr
