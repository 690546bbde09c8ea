"""Cold start to UP over a journal of 90 days, memory, and the CPU of an idle table."""

import asyncio
import json
import os
import time
from hashlib import sha256
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from controller.adapters.journal_sqlite import JournalSqlite
from controller.core.records import dump_state
from controller.core.state import State
from controller.feed import row_hash
from controller.ports import Message, Sealed
from tests.bench.report import Figure
from tests.live import LiveTable

ROWS, MESSAGES = 650_000, 1_100_000  # 50 rounds an hour, day and night, for 90 days
STARTS = 7
IDLE_S = 10.0
FILE = {"primary": "file"}
BATCH = 2_000
EMPTY = b'{"wall":0,"synchronised":true,"event":{"t":"Elapsed","at":0},"facts":[]}'


def fill(folder: Path) -> None:
    """A journal as large as 90 days leave it: rows and messages of the usual sizes, the last with a State.

    Boot checks the chain from the last saved State on, and reads nothing before it; that is what is measured.
    """
    journal = JournalSqlite(folder, allow_volatile=True)
    journal.open()
    asyncio.run(_commit(journal))
    journal.close()


async def _commit(journal: JournalSqlite) -> None:
    body, data = os.urandom(420), os.urandom(640)
    saved = json.dumps(dump_state(State(seqno=MESSAGES)), separators=(",", ":")).encode()
    previous, seqno, rows = bytes(32), 0, []
    for number in range(1, ROWS + 1):
        last = number * MESSAGES // ROWS
        told = [
            Message(n, "baccarat.card.dealt.v1", data, sha256(data).hexdigest()) for n in range(seqno + 1, last + 1)
        ]
        keeps = saved if number == ROWS else None
        digest = row_hash(previous, EMPTY if keeps else body, [message.data for message in told], keeps)
        rows.append(Sealed(number, previous, EMPTY if keeps else body, tuple(told), keeps, None, digest))
        previous, seqno = digest, last
        if len(rows) == BATCH or keeps:
            await journal.commit(rows)
            rows = []
    journal.advance("file", MESSAGES)


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("a running process has a VmRSS line")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure() -> list[Figure]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        table = LiveTable(folder, casino=FILE | {"file": {"path": str(folder / "feed.jsonl")}})
        fill(folder / "state")
        starts = []
        for _ in range(STARTS):
            began = time.monotonic()
            table.start()
            starts.append(time.monotonic() - began)
            if len(starts) < STARTS:
                table.stop()
        time.sleep(2)
        before = cpu_s(table.pid)
        time.sleep(IDLE_S)
        idle = (cpu_s(table.pid) - before) / IDLE_S * 100
        resident = resident_mb(table.pid)
        table.stop()
        size = (folder / "state" / "journal.db").stat().st_size / 1e6
    return [
        Figure("the journal of 90 days", size, "MB"),
        Figure("cold start to UP, median", median(starts), "s", "at most 0.6"),
        Figure("memory", resident, "MB", "at most 60"),
        Figure("idle CPU", idle, "%", "under 0.5"),
    ]
