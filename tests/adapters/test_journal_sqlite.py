"""The journal: chains, all or none, generations, what it refuses, what it tells of damage (DESIGN 4, bug report 57)."""

import asyncio
import logging
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.adapters import journal_sqlite
from controller.adapters.journal_sqlite import (
    DATABASE,
    MAKING,
    RESERVE,
    TAIL,
    WITNESS,
    JournalSqlite,
    bodies,
    messages,
    storage_fault,
    verify,
)
from controller.ports import Journal, JournalError, Sealed
from tests.adapters.journal_rows import Pen, good, until

ROOT = Path(__file__).parents[2]


def journal_in(folder: Path, **more: bool | int | Path) -> JournalSqlite:
    options: dict[str, bool | int | Path] = {"allow_volatile": True, "reserve_bytes": 0, **more}
    return JournalSqlite(folder, **options)  # type: ignore[arg-type]


@contextmanager
def opened(folder: Path, **more: bool | int | Path) -> Iterator[JournalSqlite]:
    with closing(journal_in(folder, **more)) as journal:
        journal.open()
        yield journal


def write(folder: Path, *counts: int, saved_in: int | None = None) -> tuple[list[Sealed], str]:
    """A journal of rows with so many messages each, closed again; its rows and its generation."""
    with opened(folder) as journal:
        pen = Pen(journal)
        rows = [pen.row(messages=n, saved=b"state" if i == saved_in else None) for i, n in enumerate(counts, 1)]
        asyncio.run(journal.commit(rows))
        return rows, journal.generation


def fault_of(path: Path) -> str | None:
    return [*verify(path, good)][-1].fault


# --- what goes in comes out ------------------------------------------------------------------------------


def test_it_is_a_journal() -> None:
    journal: Journal = journal_in(Path("nowhere"))
    assert not Path("nowhere").exists(), "a constructor does no I/O"
    journal.close()  # type: ignore[attr-defined]


def test_new_journal_is_empty(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{8}", journal.generation)
        assert (journal.made, journal.previous) == ("new", None)
        assert (journal.last, journal.last_message, journal.head) == ((0, bytes(32)), (0, "0" * 64), 0)
        assert (journal.read(0, 10), journal.cursor("mqtt"), journal.recover()) == ([], 0, (None, ()))


def test_commit_is_seen_by_all_and_by_the_next_start(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        pen = Pen(journal)
        rows = [
            pen.row("one", messages=2, key=("head", "7:1")),
            pen.row("two", messages=0),
            pen.row("three", messages=1),
        ]
        asyncio.run(journal.commit(rows[:2]))
        asyncio.run(journal.commit(rows[2:]))
        sent = [message for row in rows for message in row.messages]
        generation = journal.generation
        assert journal.made is None

        def check(journal: JournalSqlite) -> None:
            assert journal.generation == generation
            assert (journal.last, journal.last_message) == ((3, rows[2].hash), (3, sent[2].hash))
            assert (journal.head, journal.read(0, 9), journal.read(1, 1)) == (3, sent, sent[1:2])
            assert journal.read(3, 9) == journal.read(0, 0) == []
            assert (
                journal.seen(("head", "7:1"))
                and not journal.seen(("head", "7:2"))
                and not journal.seen(("7:1", "head"))
            )
            assert journal.recover() == (None, (b"one", b"two", b"three"))
            assert [*bodies(tmp_path / DATABASE)] == [(1, b"one"), (2, b"two"), (3, b"three")]
            assert [*messages(tmp_path / DATABASE, after=1)] == sent[1:]

        check(journal)
    with opened(tmp_path) as journal:
        check(journal)
        assert (journal.made, journal.previous) == (None, None)


ROWS = st.tuples(st.integers(0, 3), st.booleans(), st.booleans(), st.binary(max_size=40))
STEPS = st.lists(st.one_of(st.lists(ROWS, min_size=1, max_size=4), st.just("reopen")), max_size=8)


@given(STEPS)
def test_any_batches_and_starts_give_back_what_was_stored(
    steps: list[list[tuple[int, bool, bool, bytes]] | str],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(_run_steps(Path(name), steps))


async def _run_steps(folder: Path, steps: list[list[tuple[int, bool, bool, bytes]] | str]) -> None:
    journal, kept = journal_in(folder), list[Sealed]()
    journal.open()
    pen = Pen(journal)
    for step in steps:
        if isinstance(step, str):
            journal.close()
            journal.open()
        else:
            batch = []
            for count, saves, keyed, body in step:
                key = ("head", f"{pen.id}") if keyed else None
                batch.append(pen.row(body.hex(), messages=count, saved=body + b"!" if saves else None, key=key))
            await journal.commit(batch)
            kept += batch
        sent = [message for row in kept for message in row.messages]
        saved = max((row.id for row in kept if row.saved is not None), default=0)
        assert (journal.last[0], journal.head, journal.read(0, 99)) == (len(kept), len(sent), sent)
        assert journal.recover() == (kept[saved - 1].saved if saved else None, tuple(row.body for row in kept[saved:]))
        assert all(journal.seen(row.key) for row in kept if row.key)
        assert fault_of(folder / DATABASE) is None
    journal.close()


def test_messages_older_than_the_tail_are_read_from_disk(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        pen = Pen(journal)
        rows = [pen.row(messages=3) for _ in range(TAIL)]
        asyncio.run(journal.commit(rows))
        sent = [message for row in rows for message in row.messages]
        first_held = 3 * TAIL - TAIL  # messages before the tail
        for after in (0, 1, first_held - 2, first_held - 1, first_held, first_held + 1, 3 * TAIL - 1, 3 * TAIL):
            for limit in (1, 16, TAIL + 9, 9999):
                assert journal.read(after, limit) == sent[after : after + limit], (after, limit)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("after", [0, 3, 700, 1200])
def test_bodies_of_a_span(tmp_path_factory: pytest.TempPathFactory, after: int, newest_first: bool) -> None:
    folder = tmp_path_factory.getbasetemp() / "span"
    if not folder.exists():
        folder.mkdir()
        write(folder, *[0] * 1200)
    want = [(n, f'{{"event":{n}}}'.encode()) for n in range(after + 1, 1201)]
    got = [*bodies(folder / DATABASE, after=after, newest_first=newest_first)]
    assert got == (want[::-1] if newest_first else want)


# --- all or none -------------------------------------------------------------------------------------------


def _gap(pen: Pen) -> list[Sealed]:
    return [pen.row(), pen.row()._replace(id=9)]


def _unchained(pen: Pen) -> list[Sealed]:
    return [pen.row(), pen.row()._replace(previous=bytes(32))]


def _misnumbered(pen: Pen) -> list[Sealed]:
    row = pen.row()
    return [pen.row(), row._replace(messages=(row.messages[0]._replace(seqno=7),))]


def _wrong_hash(pen: Pen) -> list[Sealed]:
    return [pen.row(), pen.row()._replace(hash=bytes(32))]


def _wrong_message_hash(pen: Pen) -> list[Sealed]:
    row = pen.row()
    return [row._replace(messages=(row.messages[0]._replace(hash="0" * 64),))]


@pytest.mark.parametrize("batch", [_gap, _unchained, _misnumbered, _wrong_hash, _wrong_message_hash])
def test_what_cannot_be_verified_is_not_stored(tmp_path: Path, batch: Callable[[Pen], list[Sealed]]) -> None:
    rows, _ = write(tmp_path, 1)
    with opened(tmp_path) as journal:
        with pytest.raises(AssertionError, match="cannot be verified"):
            asyncio.run(journal.commit(batch(Pen(journal))))
        assert (journal.last, journal.head, journal.alive) == ((1, rows[0].hash), 1, True)
        asyncio.run(journal.commit([Pen(journal).row()]))
    assert [*verify(tmp_path / DATABASE, good)][-1] == (2, 2, 2, None)


def test_a_key_that_is_there_is_the_programs_fault_and_stores_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        pen = Pen(journal)
        asyncio.run(journal.commit([pen.row(key=("head", "1"))]))
        with pytest.raises(sqlite3.IntegrityError):
            asyncio.run(journal.commit([pen.row(), pen.row(key=("head", "1"))]))
        assert journal.last[0] == 1
    assert [*verify(tmp_path / DATABASE, good)][-1] == (1, 1, 1, None)


def test_a_stranger_that_holds_the_database_is_named_and_nothing_is_stored(tmp_path: Path) -> None:
    async def run() -> None:
        row = Pen(journal).row()
        with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as stranger:
            stranger.execute("BEGIN IMMEDIATE")
            with pytest.raises(JournalError, match="another program writes"):
                await journal.commit([row])
            stranger.execute("ROLLBACK")
        assert journal.last[0] == 0
        await journal.commit([row])
        assert journal.last == (1, row.hash)

    with opened(tmp_path) as journal:
        asyncio.run(run())


def program(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )


def test_an_io_error_stores_nothing_and_a_retry_all(tmp_path: Path) -> None:
    done = program(sys.executable, "-m", "tests.adapters.journal_rows", tmp_path, "limited")
    assert done.returncode == 0, done.stderr
    *refused, last = done.stdout.splitlines()
    assert last == "done"
    assert len(refused) == 3 and all("cannot be read or written" in line for line in refused)


def test_a_full_disk_spends_the_reserve_and_loses_nothing(tmp_path: Path) -> None:
    mount = 'mount -t tmpfs -o size=4m none "$1" && shift && exec "$@"'
    inside = ["unshare", "-rm", "sh", "-c", mount, "sh", tmp_path]
    if (probe := program(*inside, "true")).returncode:
        pytest.skip(f"no filesystem can be mounted here (run as root, or allow user namespaces): {probe.stderr}")
    done = program(*inside, sys.executable, "-m", "tests.adapters.journal_rows", tmp_path, "full")
    assert done.returncode == 0, done.stdout + done.stderr
    refused, stored, last = done.stdout.splitlines()
    assert "is full" in refused and "free space" in refused
    assert int(stored.split()[0]) >= 20, "the reserve carries a round to its end"
    assert last == "done"


def test_reserve_is_really_allocated_and_made_whole(tmp_path: Path) -> None:
    size = 256 << 10
    (tmp_path / RESERVE).touch()
    os.truncate(tmp_path / RESERVE, size)  # a sparse file holds no room
    with opened(tmp_path, reserve_bytes=size) as journal:
        assert (tmp_path / RESERVE).stat().st_blocks * 512 >= size
        assert not journal.reserve_spent


def test_no_room_for_a_reserve_is_said(tmp_path: Path) -> None:
    with opened(tmp_path, reserve_bytes=1 << 60) as journal:
        assert journal.reserve_spent and "free space" in journal.ailing
        assert not (tmp_path / RESERVE).exists()


# --- publishers --------------------------------------------------------------------------------------------


def test_a_healthy_disk_does_not_ail(tmp_path: Path) -> None:
    with opened(tmp_path, reserve_bytes=4096) as journal:
        asyncio.run(journal.commit([Pen(journal).row()]))
        assert journal.ailing == ""


def test_waiters_wake_together_after_the_committer(tmp_path: Path) -> None:
    async def run() -> list[str]:
        order: list[str] = []

        async def wait(name: str, after: int) -> None:
            await journal.wait(after)
            order.append(f"{name} {journal.head}")

        async with asyncio.TaskGroup() as group:
            for name, after in (("a", 0), ("b", 0), ("c", 1), ("d", 2)):
                group.create_task(wait(name, after))
            gone = group.create_task(wait("cancelled", 0))
            await asyncio.sleep(0)
            gone.cancel()
            pen = Pen(journal)
            await journal.commit([pen.row(messages=0)])
            order.append("silent")
            await journal.commit([pen.row(messages=2)])
            order.append("told")
            await asyncio.sleep(0)
            await journal.commit([pen.row()])
        await journal.wait(2)
        assert not journal._waiting
        return order

    with opened(tmp_path) as journal:
        told = asyncio.run(run())
    assert told[:2] == ["silent", "told"]
    assert sorted(told[2:5]) == ["a 2", "b 2", "c 2"]
    assert told[5:] == ["d 3"]


def stored_cursors(folder: Path) -> dict[str, int]:
    with closing(sqlite3.connect(f"{(folder / DATABASE).as_uri()}?mode=ro", uri=True)) as connection:
        return dict(connection.execute("SELECT publisher, seqno FROM cursor"))


def test_cursors_are_durable_with_the_next_commit_or_alone_or_at_the_end(tmp_path: Path) -> None:
    async def run() -> None:
        pen = Pen(journal)
        await journal.commit([pen.row(messages=9)])
        journal.advance("mqtt", 4)
        journal.advance("mqtt", 2)
        assert (journal.cursor("mqtt"), stored_cursors(tmp_path)) == (4, {})
        await journal.commit([pen.row()])
        assert stored_cursors(tmp_path) == {"mqtt": 4}
        journal.advance("mqtt", 6)
        journal.advance("file", 1)
        await until(lambda: stored_cursors(tmp_path) == {"mqtt": 6, "file": 1})
        journal.advance("file", 2)
        with pytest.raises(ValueError, match="ends at 10"):
            journal.advance("mqtt", 11)

    with opened(tmp_path) as journal:
        asyncio.run(run())
    assert stored_cursors(tmp_path) == {"mqtt": 6, "file": 2}
    with opened(tmp_path) as journal:
        assert (journal.cursor("mqtt"), journal.cursor("file"), journal.cursor("serial")) == (6, 2, 0)


def test_cursors_that_could_not_be_stored_wait_for_the_next_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        pen = Pen(journal)
        await journal.commit([pen.row(messages=9)])
        with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as stranger:
            stranger.execute("BEGIN IMMEDIATE")
            journal.advance("mqtt", 5)
            await until(lambda: "not stored" in caplog.text)
            stranger.execute("ROLLBACK")
        await journal.commit([pen.row()])
        assert stored_cursors(tmp_path) == {"mqtt": 5}

    with caplog.at_level(logging.WARNING), opened(tmp_path) as journal:
        asyncio.run(run())


def test_a_cancelled_committer_does_not_take_its_rows_back(tmp_path: Path) -> None:
    async def run() -> None:
        task = asyncio.create_task(journal.commit([Pen(journal).row()]))
        await asyncio.sleep(0)
        task.cancel()
        await until(lambda: journal.head == 1)
        await journal.commit([Pen(journal).row()])
        assert (journal.last[0], task.cancelled()) == (2, True)

    with opened(tmp_path) as journal:
        asyncio.run(run())


def test_a_closed_journal_takes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        pen = Pen(journal)
        assert journal.alive
    assert not journal.alive
    with pytest.raises(JournalError, match="restart"):
        asyncio.run(journal.commit([pen.row()]))


def test_the_wal_is_moved_into_the_file_while_the_journal_is_open(tmp_path: Path) -> None:
    """Both when it never rests and when it does."""

    async def run() -> None:
        pen = Pen(journal)
        while os.stat(tmp_path / DATABASE).st_size < 50_000:  # noqa: PTH116
            await journal.commit([pen.row()])
            assert pen.id < 3 * journal_sqlite.CHECKPOINT_ROWS_MAX
        await journal.commit([pen.row("x" * 9000) for _ in range(journal_sqlite.CHECKPOINT_ROWS)])
        await until(lambda: os.stat(tmp_path / DATABASE).st_size > 300_000)  # noqa: PTH116

    with opened(tmp_path) as journal:
        asyncio.run(run())
    assert not Path(f"{tmp_path / DATABASE}-wal").exists()


# --- whose journal it is -----------------------------------------------------------------------------------


def test_a_copy_begins_a_new_generation(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    rows, generation = write(tmp_path / "a", 2, 1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "b") as journal:
        assert (journal.made, journal.previous) == ("copied", (generation, 3, rows[1].messages[-1].hash))
        assert journal.generation != generation and journal.last[0] == 0
        assert journal.recover() == (None, ())
        asyncio.run(journal.commit([Pen(journal).row()]))
    kept = tmp_path / "b" / f"journal-{generation}.db"
    assert [*verify(kept, good)][-1] == (2, 3, 2, None)
    assert [*verify(tmp_path / "b" / DATABASE, good)][-1] == (1, 1, 1, None)
    with opened(tmp_path / "b") as journal:
        assert (journal.made, journal.last[0]) == (None, 1)
        assert journal.previous is not None
    with opened(tmp_path / "a") as journal:
        assert (journal.generation, journal.last[0]) == (generation, 2)


def test_the_generation_after_one_has_the_greater_name(tmp_path: Path) -> None:
    """A smaller one is somebody's old feed to the casino, and a clock that nobody has set must not make one."""
    for name in "abc":
        (tmp_path / name).mkdir()
    write(tmp_path / "a", 1)
    ahead = "f0000000-00000001"
    with closing(sqlite3.connect(tmp_path / "a" / DATABASE)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = 'generation'", (ahead,))
    for source, copy in ("ab", "bc"):
        shutil.copyfile(tmp_path / source / DATABASE, tmp_path / copy / DATABASE)
        with opened(tmp_path / copy) as journal:
            assert journal.generation > ahead
            ahead = journal.generation


def test_a_renamed_folder_is_the_same_journal(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    _, generation = write(tmp_path / "a", 1)
    (tmp_path / "a").rename(tmp_path / "b")
    with opened(tmp_path / "b") as journal:
        assert (journal.generation, journal.made) == (generation, None)


def _put_back_in_place(folder: Path, backup: Path) -> None:
    shutil.copyfile(backup, folder / DATABASE)  # the inode stays


def _put_back_anew(folder: Path, backup: Path) -> None:
    (folder / DATABASE).unlink()
    shutil.copyfile(backup, folder / DATABASE)  # ext4 gives the freed inode again


@pytest.mark.parametrize(("restore", "reason"), [(_put_back_in_place, "restored"), (_put_back_anew, "copied")])
def test_a_restored_backup_begins_a_new_generation(
    tmp_path: Path, restore: Callable[[Path, Path], None], reason: str
) -> None:
    folder = tmp_path / "j"
    folder.mkdir()
    rows, generation = write(folder, 1, 1)
    shutil.copyfile(folder / DATABASE, tmp_path / "backup")
    with opened(folder) as journal:
        asyncio.run(journal.commit([Pen(journal).row()]))
    restore(folder, tmp_path / "backup")
    with opened(folder) as journal:
        assert (journal.made, journal.previous) == (reason, (generation, 2, rows[1].messages[0].hash))
        assert journal.read(0, 9) == []


@pytest.mark.parametrize("witness", [None, "", "nonsense", "68f1c2d4-9be01a77 00000000000000000001 " + "00" * 32])
def test_without_its_witness_a_journal_with_rows_is_not_continued(tmp_path: Path, witness: str | None) -> None:
    write(tmp_path, 1)
    (tmp_path / WITNESS).unlink()
    if witness is not None:
        (tmp_path / WITNESS).write_text(witness)
    with opened(tmp_path) as journal:
        assert journal.made == "restored"


def test_another_board_begins_a_new_generation(tmp_path: Path) -> None:
    boards = [tmp_path / "one", tmp_path / "two"]
    for board in boards:
        board.write_bytes(f"1000000{board.name}".encode() + b"\0")
    folder = tmp_path / "j"
    folder.mkdir()
    made = []
    for board in (boards[0], boards[0], boards[1], boards[1]):
        with opened(folder, board=board) as journal:
            made.append(journal.made)
            asyncio.run(journal.commit([Pen(journal).row()]))
    assert made == ["new", None, "copied", None]


def test_the_generation_nobody_heard_of_is_not_named(tmp_path: Path) -> None:
    """Two copies in a row, the first never used: the journal before both is the previous one."""
    for name in "abc":
        (tmp_path / name).mkdir()
    rows, generation = write(tmp_path / "a", 1)
    shutil.copyfile(tmp_path / "a" / DATABASE, tmp_path / "b" / DATABASE)
    with opened(tmp_path / "b") as journal:
        assert journal.made == "copied"
    with opened(tmp_path / "b") as journal:
        assert journal.made == "copied", "until its first row is stored"
    shutil.copyfile(tmp_path / "b" / DATABASE, tmp_path / "c" / DATABASE)
    with opened(tmp_path / "c") as journal:
        assert journal.previous == (generation, 1, rows[0].messages[0].hash)


def test_power_cut_between_the_renames(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        generation = journal.generation
    (tmp_path / DATABASE).rename(tmp_path / MAKING)
    with opened(tmp_path) as journal:
        assert (journal.generation, journal.made) == (generation, "new")
    assert not (tmp_path / MAKING).exists()


@pytest.mark.parametrize("half", [b"", None])
def test_power_cut_in_the_making(tmp_path: Path, half: bytes | None) -> None:
    """An unfinished one is made again: an empty file, and one that SQLite had begun."""
    if half is None:
        with closing(sqlite3.connect(tmp_path / MAKING)) as begun:
            begun.execute("PRAGMA journal_mode=WAL")
    else:
        (tmp_path / MAKING).write_bytes(half)
    with opened(tmp_path) as journal:
        asyncio.run(journal.commit([Pen(journal).row()]))
    assert fault_of(tmp_path / DATABASE) is None


# --- what it refuses ---------------------------------------------------------------------------------------


def test_a_second_daemon_is_refused_and_told_the_first(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        with pytest.raises(JournalError, match=rf"in use by process {os.getpid()}\b"):
            journal_in(tmp_path).open()
        asyncio.run(journal.commit([Pen(journal).row()]))
    with opened(tmp_path):
        pass


MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 179:2 / / rw,relatime shared:1 - {root} rw
30 27 0:25 / /run rw shared:5 master:2 - tmpfs tmpfs rw,size=100k
31 27 179:3 / /data rw,noatime - ext4 /dev/mmcblk0p3 rw,data=ordered
32 31 0:31 / /data/net rw - nfs4 nas:/export rw,vers=4.2
33 31 179:4 / /data/with\\040space rw - f2fs /dev/sda1 rw
34 31 179:5 / /data/ro ro,relatime - ext4 /dev/sdb1 ro
35 31 179:6 / /data/frozen rw,relatime - ext4 /dev/sdb2 ro,errors=remount-ro
36 31 179:7 / /data/hasty rw,relatime - ext4 /dev/sdb3 rw,nobarrier
37 31 252:0 / /data/zram rw - ext4 /dev/zram0 rw
38 31 0:44 / /data/covered rw - ext4 /dev/sdc1 rw
39 38 0:45 / /data/covered rw - overlay overlay rw,lowerdir=/data
40 31 0:46 / /data/usb rw - vfat /dev/sdd1 rw
"""
EXT4, OVERLAY = "ext4 /dev/mmcblk0p2", "overlay overlay"


@pytest.mark.parametrize(
    ("root", "folder", "why"),
    [
        (EXT4, "/var/lib/baccarat-table", None),
        (OVERLAY, "/var/lib/baccarat-table", "overlay"),
        (OVERLAY, "/data/journal", None),
        (EXT4, "/data", None),
        (EXT4, "/database", None),
        (OVERLAY, "/database", "overlay"),
        (EXT4, "/run/baccarat", "tmpfs"),
        (EXT4, "/data/net/x", "nfs4"),
        (EXT4, "/data/with space/x", None),
        (EXT4, "/data/ro/x", "read-only"),
        (EXT4, "/data/frozen/x", "read-only"),
        (EXT4, "/data/hasty/x", "barriers"),
        (EXT4, "/data/zram/x", "/dev/zram0"),
        (EXT4, "/data/covered/x", "overlay"),
        (EXT4, "/data/usb/x", "vfat"),
    ],
)
def test_storage(tmp_path: Path, root: str, folder: str, why: str | None) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(MOUNTS.format(root=root))
    fault = storage_fault(Path(folder), mountinfo)
    assert fault is None if why is None else fault is not None and why in fault


def test_volatile_storage_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    mountinfo, folder = tmp_path / "mountinfo", tmp_path / "j"
    folder.mkdir()
    mountinfo.write_text(f"1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / {tmp_path} rw - tmpfs tmpfs rw\n")
    with pytest.raises(JournalError, match=r"tmpfs.*allow_volatile"):
        journal_in(folder, allow_volatile=False, mountinfo=mountinfo).open()
    assert not any(folder.iterdir()), "nothing is written where nothing lasts"
    with opened(folder, allow_volatile=True, mountinfo=mountinfo) as journal:
        assert journal.made == "new"
    mountinfo.write_text("1 0 0:1 / / rw - ext4 /dev/vda rw\n")
    with opened(folder, allow_volatile=False, mountinfo=mountinfo) as journal:
        assert journal.made == "new"


def _no_folder(folder: Path) -> None:
    folder.rmdir()


def _orphan_wal(folder: Path) -> None:
    Path(f"{folder / DATABASE}-wal").write_bytes(b"x" * 100)


def _garbage(folder: Path) -> None:
    (folder / DATABASE).write_bytes(b"garbage " * 1000)


def _empty_file(folder: Path) -> None:
    (folder / DATABASE).touch()


def _other_schema(folder: Path) -> None:
    write(folder, 1)
    with closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_no_folder, "no folder: make it"),
        (_orphan_wal, "bring it back"),
        (_garbage, "evidence"),
        (_empty_file, "evidence"),
        (_other_schema, "schema 99"),
    ],
)
def test_what_it_does_not_open(tmp_path: Path, spoil: Callable[[Path], None], told: str) -> None:
    folder = tmp_path / "j"
    folder.mkdir()
    spoil(folder)
    before = sorted(folder.iterdir()) if folder.exists() else []
    for _ in range(2):
        with pytest.raises(JournalError, match=told):
            journal_in(folder).open()
    kept = sorted(folder.iterdir()) if folder.exists() else []
    assert [path for path in before if path not in kept] == [], "evidence is not touched"


def test_a_reader_keeps_a_copied_journal_from_being_set_aside(tmp_path: Path) -> None:
    """What is in the WAL would be lost with the rename."""
    (tmp_path / "a").mkdir()
    write(tmp_path / "a", 1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    path = tmp_path / "b" / DATABASE
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM row").fetchone()
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("INSERT INTO cursor VALUES ('x', 1)")
        with pytest.raises(JournalError, match="another program reads"):
            journal_in(tmp_path / "b").open()
    with opened(tmp_path / "b") as journal:
        assert journal.made == "copied"


def test_durability_is_read_back() -> None:
    with pytest.raises(JournalError, match="journal_mode memory"):
        journal_sqlite._connect(Path(":memory:"))


@pytest.mark.parametrize(
    "sql", ["UPDATE row SET body = x'00'", "DELETE FROM row", "UPDATE message SET row = 9", "DELETE FROM message"]
)
def test_rows_and_messages_never_change(tmp_path: Path, sql: str) -> None:
    write(tmp_path, 1)
    with (
        closing(sqlite3.connect(tmp_path / DATABASE)) as connection,
        pytest.raises(sqlite3.IntegrityError, match=r"never"),
    ):
        connection.execute(sql)


# --- what it finds -----------------------------------------------------------------------------------------


def tamper(path: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(sql, values)


def changed_bytes(path: Path) -> Iterator[tuple[int, str, str, tuple[object, ...]]]:
    """The row to be named, a word for the case, and the SQL that changes one byte of one cell."""
    with closing(sqlite3.connect(path)) as connection:
        for id_, *cells in connection.execute("SELECT id, previous, body, saved, hash FROM row").fetchall():
            for name, cell in zip(("previous", "body", "saved", "hash"), cells, strict=True):
                for at in {0, len(cell) // 2, len(cell) - 1} if cell else ():
                    value = cell[:at] + bytes([cell[at] ^ 1]) + cell[at + 1 :]
                    yield id_, f"{name}[{at}]", f"UPDATE row SET {name} = ? WHERE id = ?", (value, id_)
        for seqno, id_, type_, data, hash_ in connection.execute("SELECT seqno, row, type, data, hash FROM message"):
            for at in {0, len(data) // 2, len(data) - 1}:
                value = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
                yield id_, f"{seqno} data[{at}]", "UPDATE message SET data = ? WHERE seqno = ?", (value, seqno)
            yield id_, f"{seqno} hash", "UPDATE message SET hash = ? WHERE seqno = ?", ("0" + hash_[1:-1] + "g", seqno)
            yield id_, f"{seqno} type", "UPDATE message SET type = ? WHERE seqno = ?", (type_[:-1] + "2", seqno)


def test_one_changed_byte_is_found_and_named(tmp_path: Path) -> None:
    write(tmp_path, 1, 2, 0, 3, 1, saved_in=4)
    path, copy = tmp_path / DATABASE, tmp_path / "copy.db"
    cases = [*changed_bytes(path)]
    assert len(cases) > 80
    for row, what, sql, values in cases:
        shutil.copyfile(path, copy)
        tamper(copy, sql, *values)
        *_, end = verify(copy, good)
        assert end.fault is not None and f"row {row}" in end.fault, (row, what, end)
        assert end.rows == row - 1, (row, what, end)


OTHER_DAMAGE = [
    ("DELETE FROM row WHERE id = 2", 1, "row 2 is missing"),
    ("DELETE FROM row WHERE id = 5", 4, "belongs to no row"),
    ("DELETE FROM message WHERE seqno = 2", 1, "message 2 is missing"),
    ("DELETE FROM message WHERE seqno = 7", 4, "row 5"),
    ("UPDATE message SET row = 3 WHERE seqno = 3", 1, "row 2 does not match its hash"),
    ("UPDATE message SET row = 9 WHERE seqno = 7", 4, "row 5"),
    ("UPDATE message SET seqno = 70 WHERE seqno = 7", 4, "message 7 is missing"),
    ("UPDATE row SET id = 50 WHERE id = 5", 4, "row 5 is missing"),
    ("INSERT INTO message VALUES (8, 99, 'x', x'7b7d', 'y')", 5, "message 8 belongs to no row"),
    (
        "UPDATE meta SET value = '68f1c2d4-9be01a77' WHERE name = 'generation'",
        0,
        "generation should be 68f1c2d4-9be01a77",
    ),
]


@pytest.mark.parametrize(("sql", "rows", "told"), OTHER_DAMAGE)
def test_what_is_missing_or_misplaced_is_found(tmp_path: Path, sql: str, rows: int, told: str) -> None:
    write(tmp_path, 1, 2, 0, 3, 1)
    tamper(tmp_path / DATABASE, sql)
    *_, end = verify(tmp_path / DATABASE, good)
    assert end.fault is not None and told in end.fault
    assert end.rows == rows


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"prevhash": "1" * 64}, "prevhash should be"),
        ({"seqno": 4}, "seqno should be 3, not 4"),
        ({"generation": "x"}, "generation should be"),
        ({"type": "baccarat.card.burned.v1"}, "type should be"),
    ],
)
def test_what_a_message_says_of_itself_is_checked(tmp_path: Path, wrong: dict[str, object], told: str) -> None:
    write(tmp_path, 1, 1)
    with opened(tmp_path) as journal:
        asyncio.run(journal.commit([Pen(journal).row(wrong=wrong)]))
    *_, end = verify(tmp_path / DATABASE, good)
    assert end.fault is not None and "row 3: message 3" in end.fault and told in end.fault
    assert end.rows == 2


def test_signatures_are_checked_over_the_exact_bytes(tmp_path: Path) -> None:
    rows, _ = write(tmp_path, 1, 2, 1)
    asked: list[bytes] = []

    def check(data: bytes) -> str | None:
        asked.append(data)
        return "the signature is wrong" if data == rows[1].messages[1].data else None

    *_, end = verify(tmp_path / DATABASE, check)
    assert end == (1, 1, 3, "row 2: message 3: the signature is wrong")
    assert asked == [message.data for row in rows[:2] for message in row.messages]


def test_a_broken_page_is_found(tmp_path: Path) -> None:
    """SQLite's own structure; and what cannot be read at all ends in a fault as well."""
    write(tmp_path, *[1] * 200)
    data = bytearray((tmp_path / DATABASE).read_bytes())
    told = []
    for page in range(1, len(data) // 4096):
        broken = data[: page * 4096] + b"\xff" * 4096 + data[(page + 1) * 4096 :]
        (tmp_path / "copy.db").write_bytes(broken)
        try:
            told.append(fault_of(tmp_path / "copy.db"))
        except JournalError as error:  # not even `meta` can be read
            told.append(str(error))
    assert len(told) > 20
    assert [text for text in told if text is None or not re.search(r"damaged|row|no journal", text)] == []


def test_verify_reads_beside_a_running_journal(tmp_path: Path) -> None:
    async def run() -> None:
        pen = Pen(journal)
        await journal.commit([pen.row() for _ in range(1100)])
        steps = verify(tmp_path / DATABASE, good)
        seen = [next(steps)]
        for step in steps:
            seen.append(step)
            await journal.commit([pen.row(messages=2)])
        assert [step.rows for step in seen] == [0, 500, 1000, 1100]
        assert seen[-1] == (1100, 1100, 1100, None)

    with opened(tmp_path) as journal:
        asyncio.run(run())
    assert [*verify(tmp_path / DATABASE, good)][-1] == (1103, 1106, 1103, None)


@pytest.mark.parametrize("read", [lambda path: verify(path, good), bodies, messages])
@pytest.mark.parametrize(
    ("content", "told"), [(None, "is no file"), (b"", "no journal"), (b"garbage " * 999, "damaged")]
)
def test_what_is_no_journal_is_said(
    tmp_path: Path, read: Callable[[Path], Iterator[object]], content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "x.db").write_bytes(content)
    with pytest.raises(JournalError, match=told):
        next(read(tmp_path / "x.db"))


@pytest.mark.parametrize("saved_in", [None, 1, 3, 5])
def test_recovery_finds_damage_since_the_saved_state(tmp_path: Path, saved_in: int | None) -> None:
    folder, first = tmp_path / "j", saved_in or 1
    folder.mkdir()
    write(folder, 1, 2, 0, 3, 1, saved_in=saved_in)
    shutil.copyfile(folder / DATABASE, tmp_path / "good")
    named = 0
    for row, what, sql, values in [*changed_bytes(tmp_path / "good")]:
        if (row, what[:4]) == (5, "hash") or "type" in what:
            continue  # the witness tells of the one; the other is not among a row's bytes, `verify` asks the message
        shutil.copyfile(tmp_path / "good", folder / DATABASE)
        tamper(folder / DATABASE, sql, *values)
        with opened(folder) as journal:
            assert journal.made is None
            if row < first and (row, what[:4]) != (first - 1, "hash"):
                journal.recover()
            else:
                with pytest.raises(JournalError, match=f"row {max(row, first)}.*evidence"):
                    journal.recover()
                named += 1
    assert named >= 10


def test_a_changed_hash_of_the_last_row_is_told_by_the_witness(tmp_path: Path) -> None:
    _, generation = write(tmp_path, 1, 1)
    tamper(tmp_path / DATABASE, "UPDATE row SET hash = ? WHERE id = 2", bytes(32))
    with opened(tmp_path) as journal:
        assert journal.made == "restored"
    assert fault_of(tmp_path / f"journal-{generation}.db") == "row 2 does not match its hash"


def test_recovery_sees_a_message_without_a_row(tmp_path: Path) -> None:
    write(tmp_path, 1, 1, 1, saved_in=2)
    tamper(tmp_path / DATABASE, "INSERT INTO message VALUES (4, 9, 'x', x'7b7d', 'y')")
    with opened(tmp_path) as journal, pytest.raises(JournalError, match="missing"):
        journal.recover()


def test_recovery_does_not_read_the_whole_journal(tmp_path: Path) -> None:
    """90 days are millions of rows: the work is counted in steps of SQLite's own machine."""

    def steps_of(work: Callable[[], object]) -> int:
        counted = 0

        def count() -> int:
            nonlocal counted
            counted += 1
            return 0

        journal._reader.set_progress_handler(count, 10)
        work()
        return counted

    with opened(tmp_path) as journal:
        pen = Pen(journal)
        rows = [pen.row(saved=b"s" if n == 2900 else None) for n in range(3000)]
        asyncio.run(journal.commit(rows))
        assert journal.recover() == (b"s", tuple(row.body for row in rows[2901:]))
        one_scan = steps_of(lambda: journal._reader.execute("SELECT max(body) FROM row").fetchall())
        assert steps_of(journal.recover) < one_scan / 5
