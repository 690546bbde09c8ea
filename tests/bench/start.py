"""Cold start to UP over a journal of 90 days, memory, and the CPU of an idle table."""

import json
import os
import sqlite3
import time
from hashlib import sha256
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from controller.core.records import dump_state
from controller.core.state import State
from controller.feed import row_hash
from tests.bench.report import Figure
from tests.live import LiveTable

ROWS, MESSAGES = 650_000, 1_100_000  # 50 rounds an hour, day and night, for 90 days
STARTS = 7
IDLE_S = 10.0
FILE = {"primary": "file"}


def fill(database: Path) -> None:
    """Makes the journal as large as 90 days leave it: rows and messages of the usual sizes, the last with a State.

    Boot checks the chain from the last saved State on, and reads nothing before it; that is what is measured.
    """
    saved = json.dumps(dump_state(State(seqno=MESSAGES)), separators=(",", ":")).encode()
    body = b'{"wall":0,"synchronised":true,"event":{"t":"Elapsed","at":0},"facts":[]}'
    with sqlite3.connect(database) as db:
        db.execute("DROP TRIGGER IF EXISTS row_delete")
        count = "WITH RECURSIVE c(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM c WHERE i < ?) "
        db.execute("DELETE FROM message")
        db.execute("DELETE FROM row")
        db.execute("DELETE FROM cursor")
        db.execute(
            count + "INSERT INTO row SELECT i, zeroblob(32), randomblob(420), NULL, zeroblob(32) FROM c", (1, ROWS - 1)
        )
        db.execute(
            count + "INSERT INTO message SELECT i, i * ? / ?, 'baccarat.card.dealt.v1', randomblob(640), hex(zeroblob(32)) FROM c",
            (1, MESSAGES - 1, ROWS, MESSAGES),
        )
        data = b"{}"
        digest = row_hash(bytes(32), body, [data], saved)
        db.execute("INSERT INTO row VALUES (?, ?, ?, ?, ?)", (ROWS, bytes(32), body, saved, digest))
        kept = (MESSAGES, ROWS, "baccarat.card.dealt.v1", data, sha256(data).hexdigest())
        db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", kept)
        db.execute("INSERT INTO cursor VALUES ('file', ?)", (MESSAGES,))


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
        table.start()
        table.stop()
        fill(folder / "state" / "journal.db")
        (folder / "feed.jsonl").unlink()
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
