"""The journal through `kill -9`, a torn WAL, and under strace: what was acknowledged is there (bug reports 54 and 58).

A kill leaves what the kernel has; `fdatasync` before every answer is what a power cut leaves. Both are shown here.
"""

import asyncio
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from controller.adapters.journal_sqlite import DATABASE, WITNESS, JournalSqlite, verify
from tests.adapters.journal_rows import good, until

ROOT = Path(__file__).parents[2]
WAL = f"{DATABASE}-wal"


@contextmanager
def program(folder: Path, name: str, *before: str) -> Iterator[subprocess.Popen[str]]:
    command = [*before, sys.executable, "-m", "tests.adapters.journal_rows", str(folder), name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        try:
            yield child
        finally:
            child.kill()


def lines_until(child: subprocess.Popen[str], last: str) -> list[str]:
    assert child.stdout is not None
    lines = []
    for line in child.stdout:
        lines.append(line.strip())
        if lines[-1] == last:
            return lines
    raise AssertionError(f"the program ended before {last!r}: {lines[-3:]}")


# --- kill -9 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kills",
    [pytest.param(10, id="10"), pytest.param(100, id="100", marks=[pytest.mark.soak, pytest.mark.timeout(1200)])],
)
def test_nothing_acknowledged_is_lost_to_kill_9(tmp_path: Path, kills: int) -> None:
    """One journal through every kill: each start goes on where the one before was cut."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    generation, known = "", list[tuple[int, str]]()
    for _ in range(kills):
        tried, acked = _run_and_kill(tmp_path, chance)
        known += acked
        with closing(JournalSqlite(tmp_path, allow_volatile=True, reserve_bytes=0)) as journal:
            journal.open()
            assert journal.generation == (generation := generation or journal.generation), "nothing lost: it goes on"
            row, seqno = journal.last[0], journal.head
            assert (row, seqno) in tried[-2:], "the batch in hand is there or not, whole"
            assert row >= max([id_ for id_, _ in known], default=0)
            assert (journal.seen(("head", f"{row}")) is not None) == (row > 0)
            assert journal.seen(("head", f"{row + 1}")) is None
            assert journal.cursor("mqtt") <= journal.head
            journal.recover()
        assert [*verify(tmp_path / DATABASE, good)][-1] == (row, seqno, row, None)
        assert [(id_, _hash(tmp_path, id_)) for id_, _ in known] == known
    assert len(known) > kills, "the programs were killed at work"


def _run_and_kill(folder: Path, chance: random.Random) -> tuple[list[tuple[int, int]], list[tuple[int, str]]]:
    """Row and seqno at the start and after each batch that was tried; row and hash of each that was acknowledged."""
    with program(folder, "steady") as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(chance.randint(1, 200))]
        time.sleep(chance.random() * 0.005)  # anywhere between two lines
        child.kill()
        lines += child.stdout.readlines()
    words = [line.split() for line in lines]
    assert words[0][0] == "start", lines[:1]
    tried = [(int(row), int(seqno)) for kind, row, seqno, *_ in words if kind != "ack"]
    return tried, [(int(row), hash_) for kind, row, _, *rest in words if kind == "ack" for hash_ in rest]


def _hash(folder: Path, row: int) -> str:
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        return str(connection.execute("SELECT hex(hash) FROM row WHERE id = ?", (row,)).fetchone()[0]).lower()


# --- the medium loses the end ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal of 20 rows that was killed with everything in its WAL."""
    folder = tmp_path_factory.mktemp("crashed")
    with program(folder, "held") as child:
        lines_until(child, "ack 20")
        child.kill()
    assert (folder / WAL).stat().st_size > 20 * 4096
    return folder


def _cut(wal: bytes, at: int) -> bytes:
    return wal[:at]


def _zeroed(wal: bytes, at: int) -> bytes:
    return wal[:at] + bytes(len(wal) - at)


def _flipped(wal: bytes, at: int) -> bytes:
    return wal[:at] + bytes([wal[at] ^ 0x40]) + wal[at + 1 :]


@pytest.mark.parametrize("damage", [_cut, _zeroed, _flipped])
def test_a_torn_wal_recovers_to_a_prefix(tmp_path: Path, crashed: Path, damage: Callable[[bytes, int], bytes]) -> None:
    wal = (crashed / WAL).read_bytes()
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    places = sorted({0, 31, 32, len(wal) - 1, *random.Random(seed).sample(range(len(wal)), 30)})
    rows = []
    for at in places:
        shutil.copyfile(crashed / DATABASE, tmp_path / DATABASE)
        (tmp_path / WAL).write_bytes(damage(wal, at))
        (tmp_path / f"{DATABASE}-shm").unlink(missing_ok=True)
        *_, end = verify(tmp_path / DATABASE, good)
        assert (end.fault, end.rows, end.messages) == (None, end.of, end.of), (at, end)
        rows.append(end.rows)
    assert rows == sorted(rows), "the later the damage, the more is there"
    assert rows[0] == 0 and len(set(rows)) > 5 and rows[-1] in (19, 20)


@pytest.mark.parametrize("lost", [0, 1, 5])
def test_a_medium_that_lost_acknowledged_rows_does_not_use_their_numbers_again(tmp_path: Path, lost: int) -> None:
    """A card that lies about its flush: the rows were published, and are gone. Nothing lost, and it goes on."""
    folder = tmp_path / "j"
    folder.mkdir()
    with program(folder, "held") as child:
        lines_until(child, "ack 20")
        asyncio.run(until(lambda: f" {20:020d} " in (folder / WITNESS).read_text()))
        child.kill()
    wal = (folder / WAL).read_bytes()
    frames = range(32, len(wal), 24 + 4096)
    commits = [at for at in frames if wal[at + 4 : at + 8] != bytes(4)]  # sqlite.org/fileformat2.html#walformat
    assert len(commits) == 20
    end = commits[19 - lost] + 24 + 4096
    os.truncate(folder / WAL, end)
    with closing(JournalSqlite(folder, allow_volatile=True, reserve_bytes=0)) as journal:
        journal.open()
        if lost == 0:
            assert (journal.made, journal.last[0]) == (None, 20)
        else:
            assert (journal.made, journal.head) == ("restored", 0)
            assert journal.previous is not None and journal.previous[1] == 20 - lost


# --- durable before the answer -----------------------------------------------------------------------------


def test_every_commit_waits_for_its_fdatasync(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed: apt-get install strace")
    trace = tmp_path / "trace"
    (tmp_path / "j").mkdir()
    tracing = (strace, "-f", "-o", str(trace), "-e", "trace=fdatasync,fsync,write")
    with program(tmp_path / "j", "twenty", *tracing) as child:
        assert child.wait(timeout=100) == 0, "strace needs leave to trace (kernel.yama.ptrace_scope, seccomp)"
    syncs: dict[int, int] = {}
    trying = 0
    for line in trace.read_text().splitlines():
        if said := re.search(r'write\(1, "(try|ack) (\d+)', line):
            trying = int(said[2]) if said[1] == "try" else 0
        elif trying and re.search(r"(fdatasync|fsync).*\) += 0$", line):
            syncs[trying] = syncs.get(trying, 0) + 1
    assert sorted(syncs) == [*range(1, 21)], "between each try and its answer"
