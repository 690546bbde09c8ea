"""The journal on SQLite: rows and messages that never change, on the medium before `commit` returns (DESIGN 4).

It refuses storage that forgets, a second daemon in its folder, and to continue a numbering that is not its own file's:
a copy or a restored backup is set aside and a new generation begins, because one `seqno` with two texts is money paid
on the wrong card. Two things tell. `meta` holds the file's inode (with its generation number: a file deleted and
restored often gets the old inode back) and the board's serial number (a cloned card in another Pi). `journal.witness`,
beside the file, names a row that must be in it (a backup written over the file). Device numbers and machine-id are not
asked: the first follow the order of discovery, the second is new at every boot of some read-only roots. A folder
restored whole and in place, or a card's image on the same Pi, deceive both: then receipts are ahead of `head`.

One thread writes. In WAL mode with synchronous=FULL a commit is one fdatasync; checkpoints come after the answer.
"""

import asyncio
import contextlib
import errno
import fcntl
import json
import logging
import os
import queue
import re
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from controller.disk import sync_folder
from controller.ports import JournalError, Message, Recovered, Sealed

DATABASE, MAKING, LOCK, RESERVE, WITNESS = "journal.db", "journal.new", "journal.lock", "reserve", "journal.witness"
SCHEMA = "1"
LOW_BYTES = 64 << 20  # about two days of rows: time to free space before the disk is full
TAIL = 256  # newest messages held in memory, so that a publisher that keeps up asks no SQL
CURSOR_S = 1.0  # what `advance` moved is durable after this time at the latest
BUSY_S = 1.0  # how long a stranger may hold the database before a commit fails
CHECKPOINT_ROWS = 32  # rows in the WAL that are worth moving when nothing else is to do for IDLE_S
IDLE_S = 1.0
CHECKPOINT_ROWS_MAX = (
    128  # rows after which they are moved anyway: a short WAL is overwritten, not grown: a faster sync
)
CHUNK = 500  # rows that an offline reader takes in one read transaction, so that it never holds the WAL back
ROW_ZERO, MESSAGE_ZERO = bytes(32), "0" * 64

_REAL = frozenset({"ext3", "ext4", "xfs", "btrfs", "f2fs"})  # they keep what fdatasync wrote, and cannot vanish
_FS_IOC_GETVERSION = 0x80087601  # linux/fs.h, _IOR('v', 1, long) on 64 bits: the inode's generation number
_DAMAGED = (
    "Keep the folder as evidence, run `tablectl journal verify` on it, then move journal.db, journal.db-wal and "
    "journal.db-shm away together: the next start begins a new generation."
)
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE row (
  id INTEGER PRIMARY KEY, previous BLOB NOT NULL, body BLOB NOT NULL, saved BLOB, hash BLOB NOT NULL) STRICT;
CREATE INDEX row_saved ON row (id) WHERE saved IS NOT NULL;
CREATE TABLE message (
  seqno INTEGER PRIMARY KEY, row INTEGER NOT NULL, type TEXT NOT NULL, data BLOB NOT NULL, hash TEXT NOT NULL) STRICT;
CREATE TABLE seen (source TEXT, key TEXT, row INTEGER NOT NULL, PRIMARY KEY (source, key)) STRICT, WITHOUT ROWID;
CREATE TABLE cursor (publisher TEXT PRIMARY KEY, seqno INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TRIGGER row_update BEFORE UPDATE ON row BEGIN SELECT RAISE(ABORT, 'journal rows never change'); END;
CREATE TRIGGER row_delete BEFORE DELETE ON row BEGIN SELECT RAISE(ABORT, 'journal rows are never deleted'); END;
CREATE TRIGGER message_update BEFORE UPDATE ON message BEGIN SELECT RAISE(ABORT, 'messages never change'); END;
CREATE TRIGGER message_delete BEFORE DELETE ON message BEGIN SELECT RAISE(ABORT, 'messages are never deleted'); END;
"""
_LAST_ROW = "SELECT id, hash FROM row ORDER BY id DESC LIMIT 1"
_LAST_MESSAGE = "SELECT seqno, hash FROM message ORDER BY seqno DESC LIMIT 1"
_LAST_SAVED = "SELECT id FROM row INDEXED BY row_saved WHERE saved IS NOT NULL ORDER BY id DESC LIMIT 1"
_ROWS = "SELECT id, previous, body, saved, hash FROM row WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
_ROWS_BACK = "SELECT id, previous, body, saved, hash FROM row WHERE id > ? AND id <= ? ORDER BY id DESC LIMIT ?"
_MESSAGES = "SELECT row, seqno, type, data, hash FROM message WHERE seqno > ? AND seqno <= ? ORDER BY seqno LIMIT ?"
_MESSAGES_BACK = "SELECT row, seqno, type, data, hash FROM message ORDER BY seqno DESC"

log = logging.getLogger(__name__)


class _Row(NamedTuple):
    id: int
    previous: bytes
    body: bytes
    saved: bytes | None
    hash: bytes


class _Place(NamedTuple):
    """Where both chains stand: the last row and the last message."""

    row: int = 0
    row_hash: bytes = ROW_ZERO
    seqno: int = 0
    message_hash: str = MESSAGE_ZERO


class _Job(NamedTuple):
    """What the writer thread stores in one transaction, and who is told."""

    rows: tuple[Sealed, ...]
    cursors: dict[str, int]
    loop: asyncio.AbstractEventLoop | None = None
    future: "asyncio.Future[None] | None" = None


class JournalSqlite:
    """`ports.Journal` in a folder of its own. One event loop uses it, between `open` and `close`."""

    def __init__(
        self,
        folder: Path,
        *,
        allow_volatile: bool = False,
        reserve_bytes: int = 16 << 20,
        mountinfo: Path = Path("/proc/self/mountinfo"),
        board: Path = Path("/sys/firmware/devicetree/base/serial-number"),
    ) -> None:
        """`allow_volatile` takes any storage (demo, tests). `mountinfo`, `board`: where the kernel tells of both."""
        self._folder, self.path, self._making = folder, folder / DATABASE, folder / MAKING
        self._allow_volatile, self._mountinfo = allow_volatile, mountinfo
        self._reserve_bytes, self._board = reserve_bytes, board
        self._meta: dict[str, str] = {}
        self._place = _Place()  # what the loop may know
        self._stored = _Place()  # what the writer thread knows
        self._tail: deque[Message] = deque(maxlen=TAIL)
        self._cursors: dict[str, int] = {}
        self._dirty: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._held = contextlib.ExitStack()
        self._unmoved = 0  # rows in the WAL
        self._trouble = ""
        self._took_ms = 0.0  # the last transaction with rows
        self.reserve_spent = False

    # --- opening and closing ------------------------------------------------------------------------

    def open(self) -> None:
        """Takes the folder and the journal in it, or makes one. JournalError says why not, and what to do."""
        try:
            try:
                self._open()
            except (sqlite3.Error, OSError) as error:
                if not (_is_full(error, self._folder) and self._spend_reserve()):
                    raise
                self._open()
        except (sqlite3.Error, OSError) as error:
            raise JournalError(_advice(error, self._folder)) from error
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        fault = None if self._allow_volatile else storage_fault(self._folder, self._mountinfo)
        if fault is not None:
            raise JournalError(fault)
        with contextlib.ExitStack() as held:
            held.callback(os.close, claim(self._folder))
            self._take_reserve()
            self._writer = held.enter_context(contextlib.closing(self._own_generation()))
            self._meta = _meta(self._writer, self.path)
            self._place = self._stored = _place(self._writer)
            self._cursors = dict(self._writer.execute("SELECT publisher, seqno FROM cursor"))
            self._reader = held.enter_context(contextlib.closing(_read_only(self.path)))
            newest = _messages(self._reader, max(0, self.head - TAIL), self.head)
            self._tail = deque((message for _, message in newest), TAIL)
            self._witness = _make_witness(self._folder, self._testimony())
            held.callback(os.close, self._witness)
            self._held = held.pop_all()

    def close(self) -> None:
        """Stores what is in line and the cursors, and lets the folder go. Harmless when not open."""
        if self._thread is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._queue.put(_Job((), self._dirty))
            self._queue.put(None)
            self._thread.join()
            self._thread, self._timer, self._dirty = None, None, {}
        self._held.close()

    def _own_generation(self) -> sqlite3.Connection:
        """A connection to a journal that has always been this very file, on this board."""
        if not self.path.exists():
            self._begin()
        identity = self._identity(self.path)
        with contextlib.ExitStack() as held:
            connection = held.enter_context(contextlib.closing(_connect(self.path)))
            meta, place = _meta(connection, self.path), _place(connection)
            reason = self._foreign(connection, meta, place, identity)
            if reason is None:
                held.pop_all()
                return connection
            _settle(connection, self.path)
        before = {name: value for name, value in meta.items() if name.startswith("previous_")}
        if place.seqno:  # else nobody has ever heard of that generation: the one before it counts
            told = {"generation": meta["generation"], "seqno": str(place.seqno), "hash": place.message_hash}
            before = {f"previous_{name}": value for name, value in told.items()}
        self._build({"made": reason, **before}, meta["generation"])
        self._set_aside(meta["generation"])
        self._put_in_place()
        return _connect(self.path)

    def _begin(self) -> None:
        wal = Path(f"{self.path}-wal")
        if wal.exists() and wal.stat().st_size:  # SQLite would replay it into whatever journal.db is made here
            raise JournalError(
                f"{self.path} is gone but {wal.name} is here: bring it back, or move {wal.name} away too"
            )
        if not self._built():
            self._build({"made": "new"})
        self._put_in_place()

    def _built(self) -> bool:
        """Whether a whole new journal waits for its name: the power went between two renames."""
        if not self._making.exists():
            return False
        with contextlib.closing(_connect(self._making)) as connection:
            return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone())

    def _build(self, meta: dict[str, str], follows: str = "") -> None:
        """A new generation under another name: whole, or without tables, at any moment.

        Its own name is greater than that of the one which it `follows`, whatever the clock says.
        """
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._making}{suffix}").unlink(missing_ok=True)
        self._making.touch()
        seconds = max(int(time.time()), int(follows.partition("-")[0] or "0", 16) + 1)
        generation = f"{seconds:08x}-{secrets.token_hex(4)}"
        meta = {"schema": SCHEMA, "generation": generation, **meta, **self._identity(self._making)}
        with contextlib.closing(_connect(self._making)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            connection.execute("COMMIT")
            _settle(connection, self._making)

    def _set_aside(self, generation: str) -> None:
        for suffix in ("-wal", "-shm"):  # settled: they hold nothing
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        names = [f"journal-{generation}.db", *[f"journal-{generation}-{n}.db" for n in range(2, 100)]]
        aside = next((self._folder / name for name in names if not (self._folder / name).exists()), None)
        if aside is None:
            raise JournalError(f"{self._folder} holds 99 copies of generation {generation}: move them away")
        self.path.rename(aside)
        log.warning("%s is a copy or was restored: it is kept as %s and a new generation begins", self.path, aside.name)

    def _put_in_place(self) -> None:
        self._making.rename(self.path)
        sync_folder(self._folder)

    def _identity(self, path: Path) -> dict[str, str]:
        board = self._board.read_bytes().strip(b"\0\n").decode() if self._board.exists() else ""
        return {"inode": _inode(path), "board": board}

    def _foreign(
        self, connection: sqlite3.Connection, meta: dict[str, str], place: _Place, identity: dict[str, str]
    ) -> str | None:
        """Why this file may not go on with its numbers; None when it may. Without a row there is none to go on with."""
        if any(meta.get(name) != value for name, value in identity.items()):
            return "copied"
        generation, row, row_hash = _read_witness(self._folder)
        if generation != meta["generation"]:
            return "restored" if place.row else None
        found = connection.execute("SELECT hash FROM row WHERE id = ?", (row,)).fetchone()
        return None if row == 0 or found == (row_hash,) else "restored"

    # --- what it holds ------------------------------------------------------------------------------

    @property
    def generation(self) -> str:
        return self._meta["generation"]

    @property
    def made(self) -> str | None:
        """Why this generation was begun (new, copied, restored), until its first row is stored; then None."""
        return None if self._place.row else self._meta["made"]

    @property
    def previous(self) -> tuple[str, int, str] | None:
        """Generation, last seqno and last hash of the journal set aside for this one; None where there was none."""
        if "previous_generation" not in self._meta:
            return None
        return self._meta["previous_generation"], int(self._meta["previous_seqno"]), self._meta["previous_hash"]

    @property
    def last(self) -> tuple[int, bytes]:
        return self._place.row, self._place.row_hash

    @property
    def last_message(self) -> tuple[int, str]:
        return self._place.seqno, self._place.message_hash

    @property
    def head(self) -> int:
        return self._place.seqno

    @property
    def alive(self) -> bool:
        """Whether the writer thread runs: for the watchdog."""
        return self._thread is not None and self._thread.is_alive()

    def diag(self) -> dict[str, Any]:
        """For people: the file, what it holds, the room around it, and how long the last batch took to be durable."""
        return {
            "path": str(self.path),
            "generation": self.generation,
            "rows": self._place.row,
            "messages": self.head,
            "free_bytes": free_bytes(self._folder),
            "commit_ms": round(self._took_ms, 1),
            **({"fault": self.ailing} if self.ailing else {}),
        }

    @property
    def ailing(self) -> str:
        free = free_bytes(self._folder)
        if self.reserve_spent or free < LOW_BYTES:
            needed = max(LOW_BYTES, 2 * self._reserve_bytes) >> 20
            return f"{free >> 20} MiB are free under {self._folder}: free space there, {needed} MiB at least"
        return self._trouble

    def seen(self, key: tuple[str, str]) -> bytes | None:
        found = self._select("SELECT body FROM seen JOIN row ON row.id = seen.row WHERE source = ? AND key = ?", *key)
        return found[0][0] if found else None

    def read(self, after: int, limit: int) -> list[Message]:
        if after >= self.head or limit <= 0:
            return []
        skipped = after + 1 - self._tail[0].seqno
        if skipped >= 0:
            return list(islice(self._tail, skipped, skipped + limit))
        return [Message(*message) for _, *message in self._select(_MESSAGES, after, self.head, limit)]

    async def wait(self, after: int) -> None:
        while self.head <= after:
            woken = asyncio.get_running_loop().create_future()
            self._waiting.add(woken)
            try:
                await woken
            finally:
                self._waiting.discard(woken)

    def cursor(self, publisher: str) -> int:
        return self._cursors.get(publisher, 0)

    def advance(self, publisher: str, seqno: int) -> None:
        """See `Outbox`. A lower seqno changes nothing, receipts are cumulative; ValueError for one beyond `head`."""
        if seqno > self.head:
            raise ValueError(f"{publisher} has a receipt for {seqno}, but {self.generation} ends at {self.head}")
        if seqno <= self.cursor(publisher):
            return
        self._cursors[publisher] = self._dirty[publisher] = seqno
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CURSOR_S, self._store_cursors)

    def _store_cursors(self) -> None:
        self._timer = None
        if self._dirty:
            self._queue.put(_Job((), self._dirty, asyncio.get_running_loop()))
            self._dirty = {}

    def recover(self) -> Recovered:
        """See `Journal`. Reads the rows since the last saved State and no others: 90 days are millions."""
        saved = self._select(_LAST_SAVED)
        first: int = saved[0][0] if saved else 1
        rows = [_Row(*row) for row in self._select(_ROWS, first - 1, self._place.row, -1)]
        messages = self._messages_since(first)
        before = self._select("SELECT id, hash FROM row WHERE id = ?", first - 1)
        place = _Place(*before[0]) if before else _Place(first - 1)
        place = place._replace(seqno=messages[0][1].seqno - 1 if messages else self.head)
        for row, own in _paired(rows, messages):
            fault = _row_fault(place, row, own)
            if fault is not None:
                raise JournalError(f"{self.path}: {fault}. {_DAMAGED}")
            place = _after(place, row, own)
        if place[:3] != self._place[:3]:
            raise JournalError(f"{self.path}: after row {place.row} a row or a message is missing. {_DAMAGED}")
        return Recovered(rows[0].saved if saved else None, tuple([row.body for row in rows[1 if saved else 0 :]]))

    def _messages_since(self, row: int) -> list[tuple[int, Message]]:
        """Read backwards: an index of messages by row would cost every commit a page."""
        found: list[tuple[int, Message]] = []
        try:
            for owner, *message in self._reader.execute(_MESSAGES_BACK):
                if owner < row:
                    break
                found.append((owner, Message(*message)))
        except sqlite3.Error as error:
            raise JournalError(_advice(error, self._folder)) from error
        return found[::-1]

    def _select(self, sql: str, *values: object) -> list[Any]:
        try:
            return self._reader.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise JournalError(_advice(error, self._folder)) from error

    # --- the way in ---------------------------------------------------------------------------------

    async def commit(self, rows: Sequence[Sealed]) -> None:
        """See `Journal`. AssertionError for rows that do not follow the last one stored, or whose hashes are wrong.

        A caller that is cancelled does not take its rows back.
        """
        if not rows:
            return
        if not self.alive:
            raise JournalError("the journal's writer has ended: restart the program")
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._queue.put(_Job(tuple(rows), self._dirty, loop, done))
        self._dirty = {}
        await done

    def _land(self, job: _Job, error: Exception | None) -> None:
        """In the loop: what is durable becomes visible; the committer goes on before the publishers do."""
        if error is None:
            for row in job.rows:
                self._tail.extend(row.messages)
                self._place = _after(self._place, row, row.messages)
        else:
            self._dirty = job.cursors | self._dirty
        if job.future is None or job.future.done():
            _report(job, error)
        elif error is None:
            job.future.set_result(None)
        else:
            job.future.set_exception(error)
        for woken in self._waiting:
            if error is None and not woken.done():
                woken.set_result(None)

    def _write(self) -> None:
        """The writer thread. With nothing to tidy it sleeps without a timeout: an idle table wakes nobody.

        What ails is tried again though nothing is to be stored: a table that is stopped for it stores nothing.
        """
        while True:
            untidy = self._unmoved >= CHECKPOINT_ROWS or self.reserve_spent or self._trouble
            try:
                job = self._queue.get(timeout=IDLE_S if untidy else None)
            except queue.Empty:
                self._tidy(moves=self._unmoved >= CHECKPOINT_ROWS)
                continue
            if job is None:
                return
            error = self._store(job)
            if job.loop is None or job.loop.is_closed():
                _report(job, error)
            else:
                job.loop.call_soon_threadsafe(self._land, job, error)
            if error is None:
                self._tidy(moves=self._unmoved >= CHECKPOINT_ROWS_MAX)

    def _store(self, job: _Job) -> Exception | None:
        """One transaction; on a full disk once more with the reserve given up. What fails is raised in `commit`."""
        error = self._attempt(job)
        if error is not None and _is_full(error, self._folder) and self._spend_reserve():
            error = self._attempt(job)
        if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.InterfaceError):
            return error  # the program is wrong, not the disk: trying again would not help
        if isinstance(error, sqlite3.Error | OSError):
            told = JournalError(_advice(error, self._folder))
            told.__cause__ = error
            return told
        return error

    def _attempt(self, job: _Job) -> Exception | None:
        try:
            self._transaction(job)
        except Exception as error:  # noqa: BLE001 - it is raised where the commit is awaited
            if self._writer.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # then SQLite has rolled back by itself
                    self._writer.execute("ROLLBACK")
            return error
        return None

    def _transaction(self, job: _Job) -> None:
        execute, place, began = self._writer.execute, self._stored, time.monotonic()
        execute("BEGIN IMMEDIATE")
        for row in job.rows:
            fault = _row_fault(place, row, row.messages)
            assert fault is None, f"what cannot be verified is not stored: {fault}"
            execute("INSERT INTO row VALUES (?, ?, ?, ?, ?)", (row.id, row.previous, row.body, row.saved, row.hash))
            for seqno, type_, data, hash_ in row.messages:
                execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (seqno, row.id, type_, data, hash_))
            if row.key is not None:
                execute("INSERT INTO seen VALUES (?, ?, ?)", (*row.key, row.id))
            place = _after(place, row, row.messages)
        for cursor in job.cursors.items():
            execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", cursor)
        execute("COMMIT")
        if job.rows:
            self._took_ms = (time.monotonic() - began) * 1_000
        self._stored = place
        self._unmoved += len(job.rows)

    def _tidy(self, *, moves: bool) -> None:
        """After the answer, in the writer thread: witness, reserve, checkpoint. None of them can cost a row."""
        try:
            os.pwrite(self._witness, self._testimony(), 0)
            if self.reserve_spent:
                self._take_reserve()
            if moves:
                self._unmoved = 0
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._trouble = ""
        except (OSError, sqlite3.Error) as error:
            told, self._trouble = self._trouble, _advice(error, self._folder)
            if self._trouble != told:
                log.warning("every row is stored, but: %s", self._trouble)

    def _testimony(self) -> bytes:
        """Of one length in a generation and shorter than a sector, so that one write replaces it whole."""
        return f"{self.generation} {self._stored.row:020d} {self._stored.row_hash.hex()}\n".encode()

    def _take_reserve(self) -> None:
        """Allocates the reserve where it is missing, if as much again stays free."""
        path = self._folder / RESERVE
        held = path.stat().st_blocks * 512 if path.exists() else 0  # st_blocks counts 512 bytes (stat(2))
        if held < self._reserve_bytes:
            if free_bytes(self._folder) < 2 * self._reserve_bytes:
                self.reserve_spent = True
                return
            with path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, self._reserve_bytes)
                os.fsync(file.fileno())
        self.reserve_spent = False

    def _spend_reserve(self) -> bool:
        path = self._folder / RESERVE
        if not path.exists():
            return False
        path.unlink()
        self.reserve_spent = True
        log.error("the disk under %s is full: the reserve is given up so that the round can end", self._folder)
        return True


def _report(job: _Job, error: Exception | None) -> None:
    """A failure that nobody waits for."""
    if error is not None:
        log.warning("%d rows and the cursors %s are not stored: %s", len(job.rows), [*job.cursors], error)


# --- the chains: one reading of `ports.Sealed` for those who store, recover and verify ----------------


def _row_fault(place: _Place, row: _Row | Sealed, messages: Sequence[Message]) -> str | None:
    """What is wrong with the row that should follow `place`; it is named. None when nothing is."""
    if row.id != place.row + 1:
        return f"row {place.row + 1} is missing"
    if row.previous != place.row_hash:
        return f"row {row.id} does not hold the hash of the row before it"
    for seqno, message in enumerate(messages, place.seqno + 1):
        if message.seqno != seqno:
            return f"row {row.id}: message {seqno} is missing"
        if message.hash != sha256(message.data).hexdigest():
            return f"row {row.id}: message {seqno} does not match its hash"
    parts = (row.previous, row.body, *[message.data for message in messages], row.saved or b"")
    if row.hash != sha256(b"".join(parts)).digest():
        return f"row {row.id} does not match its hash"
    return None


def _feed_fault(place: _Place, row: _Row, messages: Sequence[Message], generation: str) -> str | None:
    """What is wrong with what the row's messages say of themselves, behind `place`; None when nothing is."""
    prevhash = place.message_hash
    for message in messages:
        where = f"row {row.id}: message {message.seqno}"
        try:
            told = json.loads(message.data)
        except ValueError as error:
            return f"{where} is no JSON: {error}"
        if not isinstance(told, dict):
            return f"{where} is no JSON object"
        own = {"seqno": message.seqno, "generation": generation, "type": message.type, "prevhash": prevhash}
        for name, value in own.items():
            if told.get(name) != value:
                return f"{where}: {name} should be {value}, not {told.get(name)}"
        prevhash = message.hash
    return None


def _after(place: _Place, row: _Row | Sealed, messages: Sequence[Message]) -> _Place:
    if not messages:
        return place._replace(row=row.id, row_hash=row.hash)
    return _Place(row.id, row.hash, messages[-1].seqno, messages[-1].hash)


def _paired(rows: Iterable[_Row], messages: Iterable[tuple[int, Message]]) -> Iterator[tuple[_Row, list[Message]]]:
    """Each row with its messages; both come in order. One that belongs to no row leaves a gap in the numbers."""
    groups = groupby(messages, itemgetter(0))
    owner, group = next(groups, (0, iter(())))
    for row in rows:
        own: list[Message] = []
        if owner == row.id:
            own = [message for _, message in group]
            owner, group = next(groups, (0, iter(())))
        yield row, own


# --- offline: beside a running daemon, or on any copy --------------------------------------------------


class Progress(NamedTuple):
    """How far `verify` is: so many rows of `of`, and messages, are good. `fault` tells what follows them."""

    rows: int
    messages: int
    of: int
    fault: str | None = None


def verify(path: Path, check: Callable[[bytes], str | None]) -> Iterator[Progress]:
    """Reads the whole journal and yields now and then; the last `Progress` tells the first fault, or none.

    It looks at SQLite's own structure, both chains, what each message says of itself, and asks `check` about its exact
    bytes: a text tells what is wrong with the signature. JournalError where there is no journal to read.
    """
    with _reading(path) as connection:
        generation = _meta(connection, path)["generation"]
        end = _place(connection)
        place = _Place()
        try:
            yield Progress(0, 0, end.row)
            fault = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if fault != "ok":
                yield Progress(0, 0, end.row, f"the database is damaged: {fault}")
                return
            for row, own in _paired(_rows(connection, 0, end.row), _messages(connection, 0, end.seqno)):
                fault = _row_fault(place, row, own) or _feed_fault(place, row, own, generation)
                if fault is None:
                    faults = ((message.seqno, check(message.data)) for message in own)
                    fault = next((f"row {row.id}: message {seqno}: {text}" for seqno, text in faults if text), None)
                if fault is not None:
                    yield Progress(place.row, place.seqno, end.row, fault)
                    return
                place = _after(place, row, own)
                if row.id % CHUNK == 0:
                    yield Progress(place.row, place.seqno, end.row)
        except sqlite3.DatabaseError as error:
            yield Progress(
                place.row, place.seqno, end.row, f"the database cannot be read after row {place.row}: {error}"
            )
            return
        lost = None if place == end else f"after row {place.row}: message {place.seqno + 1} belongs to no row"
        yield Progress(place.row, place.seqno, end.row, lost)


class Glance(NamedTuple):
    """What stands at the end of a journal, and its first message; `fault`: what is wrong with its last row."""

    generation: str
    rows: int
    head: int
    first: bytes | None
    fault: str | None


def glance(path: Path) -> Glance:
    """A look at a journal that takes no longer for 90 days of it. JournalError as `verify`."""
    with _reading(path) as connection:
        generation, end = _meta(connection, path)["generation"], _place(connection)
        first = next(_messages(connection, 0, min(1, end.seqno)), None)
        rows = list(_rows(connection, max(0, end.row - 2), end.row))
        last = [*_messages(connection, max(0, end.seqno - TAIL), end.seqno)]
        own = [message for owner, message in last if rows and owner == rows[-1].id]
        fault = None
        if rows:
            before = _Place(end.row - 1, rows[-2].hash if len(rows) > 1 else ROW_ZERO, end.seqno - len(own))
            fault = _row_fault(before, rows[-1], own)
        return Glance(generation, end.row, end.seqno, None if first is None else first[1].data, fault)


def bodies(path: Path, *, after: int = 0, newest_first: bool = False) -> Iterator[tuple[int, bytes]]:
    """Ids and bodies of the rows with id > `after`; stop when you have enough. JournalError as `verify`."""
    with _reading(path) as connection:
        _meta(connection, path)
        end = _place(connection).row
        rows = _rows_back(connection, after, end) if newest_first else _rows(connection, after, end)
        for row in rows:
            yield row.id, row.body


def messages(path: Path, *, after: int = 0) -> Iterator[Message]:
    """The messages with `seqno` > `after` that stand now, in order. JournalError as `verify`."""
    with _reading(path) as connection:
        _meta(connection, path)
        for _, message in _messages(connection, after, _place(connection).seqno):
            yield message


def _rows(connection: sqlite3.Connection, after: int, end: int) -> Iterator[_Row]:
    while found := connection.execute(_ROWS, (after, end, CHUNK)).fetchall():
        yield from map(_Row._make, found)
        after = found[-1][0]


def _rows_back(connection: sqlite3.Connection, after: int, end: int) -> Iterator[_Row]:
    while found := connection.execute(_ROWS_BACK, (after, end, CHUNK)).fetchall():
        yield from map(_Row._make, found)
        end = found[-1][0] - 1


def _messages(connection: sqlite3.Connection, after: int, end: int) -> Iterator[tuple[int, Message]]:
    while found := connection.execute(_MESSAGES, (after, end, CHUNK)).fetchall():
        for row, *message in found:
            yield row, Message(*message)
        after = found[-1][1]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise JournalError(f"{path} is no file: name the journal, as in /var/lib/baccarat-table/{DATABASE}")
    try:
        with contextlib.closing(_read_only(path)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise JournalError(_advice(error, path.parent)) from error


# --- the database --------------------------------------------------------------------------------------


def _connect(path: Path) -> sqlite3.Connection:
    """The connection that writes. What makes a commit durable is read back, not hoped for."""
    with contextlib.ExitStack() as held:
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        held.callback(connection.close)
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
        if (mode, synchronous) != ("wal", 2):
            raise JournalError(
                f"{path}: SQLite gives journal_mode {mode}, synchronous {synchronous}; wal and 2 (FULL) are needed: "
                "put the journal on a local disk with ext4"
            )
        held.pop_all()
    return connection


def _settle(connection: sqlite3.Connection, path: Path) -> None:
    """Brings everything into the one file, so that it may be renamed."""
    if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] != 0:
        raise JournalError(f"another program reads {path}: close it and start again")


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S, isolation_level=None)


def _meta(connection: sqlite3.Connection, path: Path) -> dict[str, str]:
    try:
        meta = dict(connection.execute("SELECT name, value FROM meta"))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise JournalError(f"{path} is no journal ({error}). {_DAMAGED}") from error
    if meta.get("schema") != SCHEMA:
        raise JournalError(
            f"{path} has schema {meta.get('schema')}, this program reads {SCHEMA}: use the version that wrote it, "
            "or move journal.db away to begin a new generation"
        )
    return meta


def _place(connection: sqlite3.Connection) -> _Place:
    row = connection.execute(_LAST_ROW).fetchone()
    message = connection.execute(_LAST_MESSAGE).fetchone()
    return _Place(*(row or (0, ROW_ZERO)), *(message or (0, MESSAGE_ZERO)))


def _is_full(error: Exception, folder: Path) -> bool:
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        # Where the WAL's index cannot grow, SQLite says I/O error.
        return code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and free_bytes(folder) < 1 << 20)
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _advice(error: Exception, folder: Path) -> str:
    """What happened and what to do, for the technician."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if _is_full(error, folder):
        return f"the disk under {folder} is full ({error}): free space there; what was not stored is tried again"
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return (
            f"the journal in {folder} cannot be opened ({error}): use it as the user that owns it, or copy "
            "journal.db and journal.db-wal together into a folder of your own"
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return f"the journal in {folder} is damaged ({error}). {_DAMAGED}"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"another program writes to the journal in {folder} ({error}): close it"
    return f"the journal in {folder} cannot be read or written ({error}): see `dmesg`; a medium that fails is replaced"


# --- the storage under it ------------------------------------------------------------------------------


def claim(folder: Path) -> int:
    """Takes the folder until the descriptor is closed. JournalError names the process that has it."""
    if not folder.is_dir():
        raise JournalError(f"{folder} is no folder: make it, and give it to the user that runs the table")
    with contextlib.ExitStack() as held:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        held.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode().strip() or "unknown"
            raise JournalError(
                f"{folder} is in use by process {owner}: one table has one daemon, stop it first"
            ) from None
        os.pwrite(descriptor, f"{os.getpid():<11}\n".encode(), 0)  # in place: a full disk must not keep a table down
        held.pop_all()
    return descriptor


def storage_fault(folder: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Why a folder may not hold a journal: its storage forgets, or can vanish; None when it may (mountinfo: proc 5)."""
    where = folder.resolve()
    found: tuple[Path, str, str, set[str]] | None = None
    for line in mountinfo.read_text(errors="surrogateescape").splitlines():
        before, _, behind = line.partition(" - ")
        point, options = before.split(" ")[4:6]
        kind, source, more = behind.split(" ")[:3]
        mount = Path(_unescaped(point))
        deeper = found is None or len(mount.parts) >= len(found[0].parts)  # of two on one point the later is on top
        if deeper and where.is_relative_to(mount):
            found = mount, kind, source, {*options.split(","), *more.split(",")}
    if found is None:
        return f"{folder} is under no mount of {mountinfo}: give storage.path a folder that exists"
    mount, kind, source, said = found
    if "ro" in said:
        return f"{folder} is on {mount}, which is mounted read-only: mount it rw, or set storage.path to a disk that is"
    cure = "set storage.path to a local disk with ext4, or storage.allow_volatile where nothing is at stake"
    if kind not in _REAL or source.startswith(("/dev/ram", "/dev/zram")):
        return f"{folder} is on {mount}, {kind} from {source}: a power cut or a network could take it away; {cure}"
    if said & {"nobarrier", "barrier=0"}:
        return f"{folder} is on {mount}, mounted without write barriers: a power cut could take rows away; {cure}"
    return None


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def _inode(path: Path) -> str:
    """The inode's number, and its generation number: drawn anew each time the filesystem gives the first out again.

    Never while a connection to the file is open: closing any descriptor of it would drop SQLite's locks (fcntl(2)).
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        generation = int.from_bytes(fcntl.ioctl(descriptor, _FS_IOC_GETVERSION, bytes(8))[:4], "little")
    except OSError as error:
        if error.errno not in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL):
            raise
        generation = 0  # tmpfs and its like have none
    finally:
        number = os.fstat(descriptor).st_ino
        os.close(descriptor)
    return f"{number}.{generation:08x}"


def _read_witness(folder: Path) -> tuple[str, int, bytes]:
    """The generation, id and hash of a row that the journal must hold; no generation where nothing tells."""
    try:
        generation, row, digest = (folder / WITNESS).read_text().split()
        return generation, int(row), bytes.fromhex(digest)
    except (FileNotFoundError, ValueError):
        return "", 0, b""


def _make_witness(folder: Path, testimony: bytes) -> int:
    """The descriptor of the witness, which tells this now."""
    path = folder / WITNESS
    if not path.exists() or path.read_bytes() != testimony:
        fresh = path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(testimony)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        sync_folder(folder)
    return os.open(path, os.O_WRONLY)


def free_bytes(folder: Path) -> int:
    """What the journal may still write under this folder."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize
