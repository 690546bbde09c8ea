"""Durable before visible, seen by the kernel: strace of a whole tabled, its lamps, its panel and its broker (DESIGN 2).

Each card is read, written to the journal's WAL and synced before one byte of it goes to a lamp, to the panel or to the
broker. Every sync is made slow, so that what did not wait for it shows.
"""

import re
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from controller.loop import SLOW_S
from tests.broker import Broker, Subscriber
from tests.live import wait_for
from tests.tabled import Tabled

SYNC_US = 50_000  # how much longer each sync takes
QUIET_S = 1.2  # a table that wrote nothing for so long has done all it had to: the cursors too, which wait a second
CALLS = "read,write,writev,pwrite64,fdatasync,fsync,sendto,sendmsg"
UNFINISHED, RESUMED = " <unfinished ...>", re.compile(r"^<\.\.\. \w+ resumed>")
ROOT = Path(__file__).parent.parent
BUSY = re.compile(r"/changes>, \"panel |journal\.db-wal>|baccarat/BAC-07/")
BY = ["D1", "J1"]
LAMPS = {"lamps": {"driver": "gpio", "timer": [5, 6, 13, 19], "red": 26, "call": 14}}
DEVICES = {"gpio": {"pin_factory": "mock"}, "display": {"driver": "ssd1309"}, **LAMPS}
PROCEDURE = {"open_betting": "dealer", "confirm_result": "none", "betting_seconds": 1}
SOON, ROUND = "5H", ("9H", "2D", "KS", "3C")  # a natural
EVERY_DOOR = {"lamp", "panel", "broker"}


class Call(NamedTuple):
    """A system call as strace has it, the lines on which it began and ended, and when it began, s."""

    text: str
    began: int
    ended: int
    at: float


def calls(trace: str) -> Iterator[Call]:
    unfinished: dict[str, Call] = {}
    for number, line in enumerate(trace.split("\n")[:-1]):
        pid, at, text = line.split(maxsplit=2)
        before = unfinished.pop(pid, Call("", number, number, float(at)))
        call = before._replace(text=before.text + RESUMED.sub("", text), ended=number)
        if text.endswith(UNFINISHED):
            unfinished[pid] = call
        else:
            yield call


def door(call: Call) -> str:
    """Where a call shows something: lamp, panel or broker; empty where it shows nothing."""
    if call.text.startswith(("sendto(", "sendmsg(")) and "baccarat/BAC-07/" in call.text:
        return "broker"
    written = re.match(r'write\(\d+<[^>]*/changes>, "(\w+) ', call.text)
    return written[1] if written else ""


def shown(every: Sequence[Call], code: str, after: str | None) -> tuple[set[str], set[str]]:
    """The doors that showed something between the reading of a card and its sync, and those behind it.

    `after` is the code of the next card, whose reading ends what counts. That the disk is slow is shown after a second
    (ESPERE): that is no card's.
    """

    def reading(of: str) -> Call:
        return next(c for c in every if re.match(rf'read\(\d+<[^>]*>, "{of}\\r', c.text))

    read, end = reading(code), reading(after).began if after else every[-1].ended + 1
    wal = [c for c in every if "journal.db-wal>" in c.text and c.began > read.ended]
    row = next(c.ended for c in wal if c.text.startswith("pwrite64(") and rf"\"{code}\"" in c.text)
    durable = min((c.ended for c in wal if re.match("fdatasync|fsync", c.text) and c.began > row), default=end)
    shows = [(door(c), c) for c in every if door(c) and read.ended < c.began < end]
    early = {name for name, c in shows if c.began < durable and (name == "broker" or c.at < read.at + SLOW_S)}
    return early, {name for name, c in shows if c.began > durable}


class Traced:
    """A tabled under strace, and where it writes what it shows. `mutant` as `written_changes` has them."""

    def __init__(self, folder: Path, broker: Broker, mutant: str) -> None:
        self.trace = folder / "trace"
        self.trace.touch()
        self._lines = self.trace.open()
        delay = f"inject=fdatasync,fsync:delay_enter={SYNC_US}"
        # -D: the tracer is the child of its program, which ends as any other; -y: names of open files
        strace = ("strace", "-D", "-f", "--seccomp-bpf", "-y", "-ttt", "-s", "16384", "-o", str(self.trace))
        mqtt = {"host": "127.0.0.1", "port": broker.port}
        self.table = Tabled(
            folder / "table",
            casino={"primary": "mqtt", "receipt": "broker", "mqtt": mqtt},
            procedure=PROCEDURE,
            through=(*strace, "-e", f"trace={CALLS}", "-e", delay),
            module="tests.written_changes",
            env={"PYTHONPATH": str(ROOT), "CHANGES": str(folder / "changes"), "MUTANT": mutant},
            **DEVICES,
        )

    def calls(self) -> list[Call]:
        """Of the table that was up, to its end."""
        self._lines.seek(0)
        with self._lines:
            trace = self._lines.read()
        return list(calls(trace[trace.index("READY=1") :].partition("\n")[2]))

    def settle(self) -> None:
        """Until it has done all that it had to; the red lamps may flash on."""
        since = time.monotonic()

        def quiet() -> bool:
            nonlocal since
            if [line for line in self._lines if BUSY.search(line)]:
                since = time.monotonic()
            return time.monotonic() > since + QUIET_S

        wait_for(quiet, "a table that rests")

    def card(self, code: str) -> None:
        self.table.scan(code)
        self.settle()

    def too_soon(self) -> None:
        """A shoe, burned; then a card that comes when none may (I09): it lights lamps."""
        self.table.call("shoe.load")
        self.table.scan("AS", "2S")
        wait_for(lambda: self.table.status()["phase"] == "ready", "the burn's end")
        self.settle()
        self.card(SOON)

    def round(self) -> None:
        self.table.call("round.resolve", code="I09", choice="burn", by=BY)
        self.table.call("round.start")
        wait_for(lambda: "SAQUE CARTA" in str(self.table.status()["prompt"]), "the call for the first card")
        self.settle()
        for code in ROUND:
            self.card(code)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    folder = tmp_path / "broker"
    folder.mkdir()
    with Broker(folder) as broker, Subscriber(broker.port, "baccarat/BAC-07/feed"):
        yield broker


def test_every_card_is_on_the_disk_before_it_shows(tmp_path: Path, broker: Broker) -> None:
    traced = Traced(tmp_path, broker, "")
    with traced.table:
        traced.too_soon()
        traced.round()
    every = traced.calls()
    seen = {code: shown(every, code, after) for code, after in pairwise([SOON, *ROUND, None]) if code}
    first = ROUND[0]
    assert seen[first][0] <= {"lamp"}, "the red lamps flash until the first card, whatever the disk does"
    assert {code: before for code, (before, _) in seen.items() if code != first and before} == {}
    assert seen[SOON][1] == EVERY_DOOR, "and behind it everything shows: the trace has all doors"
    assert all({"panel", "broker"} <= behind for _, behind in seen.values()), seen


@pytest.mark.parametrize(("mutant", "opened"), [("early", {"lamp", "panel"}), ("unsynced", EVERY_DOOR)])
def test_a_table_with_its_order_turned_round_is_caught(
    mutant: str, opened: set[str], tmp_path: Path, broker: Broker
) -> None:
    traced = Traced(tmp_path, broker, mutant)
    with traced.table:
        traced.too_soon()
    assert shown(traced.calls(), SOON, None)[0] >= opened
