"""Rows for the journal's tests, sealed by hand from the words of `ports.Sealed`; and programs to be killed and starved.

`python -m tests.adapters.journal_rows FOLDER PROGRAM`: what a program did is what it wrote, one `write` a line.
"""

import asyncio
import errno
import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from controller.adapters.journal_sqlite import DATABASE, RESERVE, JournalSqlite, verify
from controller.ports import JournalError, Message, Sealed

TYPE = "baccarat.card.dealt.v1"


class Pen:
    """Seals rows that follow a journal's last one."""

    def __init__(self, journal: JournalSqlite) -> None:
        self.generation = journal.generation
        self.id, self.hash = journal.last
        self.seqno, self.prevhash = journal.last_message

    def row(
        self,
        body: str = "",
        *,
        messages: int = 1,
        saved: bytes | None = None,
        key: tuple[str, str] | None = None,
        wrong: dict[str, object] | None = None,
    ) -> Sealed:
        """The next row. `wrong` replaces what its messages say of themselves."""
        written = []
        for _ in range(messages):
            self.seqno += 1
            told = {"type": TYPE, "generation": self.generation, "seqno": self.seqno, "prevhash": self.prevhash} | (
                wrong or {}
            )
            data = json.dumps({**told, "data": {"text": f"ñ{self.seqno}"}}, ensure_ascii=False).encode()
            self.prevhash = sha256(data).hexdigest()
            written.append(Message(self.seqno, TYPE, data, self.prevhash))
        previous, self.id = self.hash, self.id + 1
        text = (body or f'{{"event":{self.id}}}').encode()
        self.hash = sha256(previous + text + b"".join([one.data for one in written]) + (saved or b"")).digest()
        return Sealed(self.id, previous, text, tuple(written), saved, key, self.hash)


def good(data: bytes) -> str | None:
    """A check of signatures that finds none wrong."""
    return None


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def until(true: Callable[[], object]) -> None:
    """Waits for what must happen: the deadline is generous, and reached only when it does not."""
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, "what was waited for did not happen"
        await asyncio.sleep(0.01)


async def steady(folder: Path) -> None:
    """Goes on with the journal and commits batches until it is killed."""
    chance = random.Random(os.getpid())
    journal = JournalSqlite(folder, allow_volatile=True, reserve_bytes=0)
    journal.open()
    journal.recover()
    pen = Pen(journal)
    say(f"start {pen.id} {pen.seqno}")
    while True:
        batch = []
        for _ in range(chance.randint(1, 4)):
            saved = f"state {pen.id + 1}".encode() if chance.random() < 0.1 else None
            batch.append(pen.row(messages=chance.randint(0, 3), saved=saved, key=("head", f"{pen.id + 1}")))
        say(f"try {pen.id} {pen.seqno}")
        await journal.commit(batch)
        say(f"ack {pen.id} {pen.seqno} {pen.hash.hex()}")
        journal.advance("mqtt", journal.head)


async def twenty(folder: Path) -> None:
    """Commits 20 rows, one by one."""
    journal = JournalSqlite(folder, allow_volatile=True, reserve_bytes=0)
    journal.open()
    pen = Pen(journal)
    for _ in range(20):
        row = pen.row("x" * 900)
        say(f"try {row.id}")
        await journal.commit([row])
        say(f"ack {row.id}")


async def held(folder: Path) -> None:
    """The same, and waits to be killed with everything in the WAL."""
    await twenty(folder)
    await asyncio.sleep(600)


async def limited(folder: Path) -> None:
    """The WAL meets an I/O error (no file may grow), and later does not."""
    journal = JournalSqlite(folder, allow_volatile=True, reserve_bytes=1 << 20)
    journal.open()
    pen = Pen(journal)
    await journal.commit([pen.row()])
    before = journal.last, journal.head
    batch = [pen.row("x" * 5000, messages=2), pen.row(key=("head", "1"))]
    size = os.stat(f"{folder / DATABASE}-wal").st_size  # noqa: PTH116 - a program of one task
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 6000, resource.RLIM_INFINITY))
    for _ in range(3):
        try:
            await journal.commit(batch)
        except JournalError as error:
            say(f"refused: {error}")
        else:
            raise AssertionError("stored beyond the limit")
        assert (journal.last, journal.head) == before
        assert not journal.seen(("head", "1"))
        assert journal.read(1, 10) == []
        assert not journal.reserve_spent, "an I/O error is no full disk"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await journal.commit(batch)
    assert journal.last == (3, pen.hash)
    journal.close()
    assert [*verify(folder / DATABASE, good)][-1] == (3, 4, 3, None)
    say("done")


def fill(folder: Path) -> Path:
    """Leaves no block free."""
    ballast = folder / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return ballast


async def full(folder: Path) -> None:
    """A full disk: at the start, in a round, and freed again. `folder` is a small filesystem of its own."""
    journal = JournalSqlite(folder, allow_volatile=True, reserve_bytes=1 << 20)
    journal.open()
    assert (folder / RESERVE).stat().st_blocks * 512 >= 1 << 20, "really allocated"
    assert not journal.reserve_spent
    pen = Pen(journal)
    await journal.commit([pen.row()])
    journal.close()

    ballast = fill(folder)
    journal.open()
    assert journal.reserve_spent and journal.ailing, "it starts on the reserve"
    await journal.commit([pen.row()])
    ballast.unlink()
    await journal.commit([pen.row()])
    await until(lambda: not journal.reserve_spent)
    assert (folder / RESERVE).stat().st_blocks * 512 >= 1 << 20, "room again, and a reserve again"

    ballast = fill(folder)
    stored = await _until_refused(journal, pen)
    assert journal.reserve_spent and journal.ailing
    say(f"{stored} rows on the reserve")
    ballast.unlink()
    journal.close()
    journal.open()
    journal.recover()
    assert journal.last[0] == 3 + stored + 1
    journal.close()
    assert [*verify(folder / DATABASE, good)][-1].fault is None
    say("done")


async def _until_refused(journal: JournalSqlite, pen: Pen) -> int:
    """Commits on a full disk until it is refused, frees some, and stores the refused row; how many before it."""
    stored = 0
    while True:
        row = pen.row("x" * 20_000)
        before = journal.last, journal.head
        try:
            await journal.commit([row])
        except JournalError as error:
            say(f"refused: {error}")
            break
        stored += 1
        assert stored < 1000, "the disk is never full"
    assert (journal.last, journal.head) == before
    (part,) = [one for one in journal._folder.iterdir() if one.name == "ballast"]
    os.truncate(part, part.stat().st_size // 2)
    await journal.commit([row])
    assert journal.last == (row.id, row.hash)
    return stored


PROGRAMS = {program.__name__: program for program in (steady, twenty, held, limited, full)}

if __name__ == "__main__":
    asyncio.run(PROGRAMS[sys.argv[2]](Path(sys.argv[1])))
