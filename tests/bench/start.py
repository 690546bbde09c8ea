"""Cold start to UP over a journal of 90 days, memory, and what an idle table costs."""

import asyncio
import json
import os
import time
from hashlib import sha256
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from controller import keys
from controller.adapters.journal_sqlite import JournalSqlite
from controller.core.records import dump
from controller.core.state import State
from controller.feed import row_hash
from controller.ports import Message, Sealed
from tests.bench.report import Figure
from tests.tabled import Tabled

ROWS, MESSAGES = 650_000, 1_100_000  # 50 rounds an hour, day and night, for 90 days
STARTS = 7
IDLE_S = 10.0
BATCH = 2_000
EMPTY = b'{"wall":0,"synchronised":true,"event":{"t":"Elapsed","at":0},"facts":[]}'


def fill(folder: Path) -> None:
    """A journal as large as 90 days leave it: rows and messages of the usual sizes, the last with a State.

    Boot checks the chain from the last saved State on, and reads nothing before it; that is what is measured.
    """
    journal = JournalSqlite(folder, allow_volatile=True)
    journal.open()
    asyncio.run(_commit(journal, keys.make(folder / "table.key").public))
    journal.close()


async def _commit(journal: JournalSqlite, signer: str) -> None:
    body, data, first = os.urandom(420), os.urandom(640), json.dumps({"data": {"publickey": signer}}).encode()
    saved = json.dumps(dump(State(seqno=MESSAGES)), separators=(",", ":")).encode()
    previous, seqno, rows = bytes(32), 0, []
    for number in range(1, ROWS + 1):
        last = number * MESSAGES // ROWS
        payloads = [(n, data if n > 1 else first) for n in range(seqno + 1, last + 1)]
        told = [Message(n, "baccarat.card.dealt.v1", sent, sha256(sent).hexdigest()) for n, sent in payloads]
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
        table = Tabled(folder)
        table.spoiled = True  # its messages are bytes of the usual size
        fill(folder / "state")
        table.start()  # not counted: an installed program has its bytecode
        starts = []
        for _ in range(STARTS):
            table.stop()
            began = time.monotonic()
            table.start()
            starts.append(time.monotonic() - began)
        time.sleep(2)
        before, woken = cpu_s(table.pid), table.wake_ups
        time.sleep(IDLE_S)
        idle = (cpu_s(table.pid) - before) / IDLE_S * 100
        woken = table.wake_ups - woken
        resident = resident_mb(table.pid)
        table.stop()
        table.close()
        size = (folder / "state" / "journal.db").stat().st_size / 1e6
    return [
        Figure("the journal of 90 days", size, "MB"),
        Figure("cold start to UP, median", median(starts), "s", "at most 0.6"),
        Figure("memory", resident, "MB", "at most 60"),
        Figure("idle CPU", idle, "%", "under 0.5"),
        Figure("idle wake-ups", woken / IDLE_S, "a second", "at most 3"),
    ]
