"""The feed to a file: one message a line, the journal's exact bytes and a newline, in order (DESIGN 5).

A batch is written and synced before the cursor moves. After a crash the file may hold more than the cursor knows, or
half a line: so each start, and each new try after a fault, compares the end of the file with the outbox. What is ours
stays and is not written again, what a power cut left torn is cut off, and a file that ends in anything else is left
alone.
"""

import asyncio
import json
import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from controller.core.events import BacklogChanged, FaultGone, FaultSeen, LinkChanged, Receipt
from controller.disk import sync_folder
from controller.ports import Outbox, Submit
from controller.reporting import HIGH, LOW, is_high

BATCH = 256  # messages a sync
TAIL_MAX = 4 * 2**20  # bytes of the file's end that are compared: several batches, and the cursor is at most 1 s behind
START = b'{"specversion"'  # how every message begins (DESIGN 5)

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)


class PublisherFile:
    """`path` may be moved away while we run (the next batch makes a new file). `retry_s` is the rest after a fault.

    `high` and `low` are the backlog's marks in messages (I34); `now` is CLOCK_MONOTONIC, ns.
    """

    name = "file"

    def __init__(
        self,
        path: str | Path,
        *,
        primary: bool,
        retry_s: float = 5.0,
        high: int = HIGH,
        low: int = LOW,
        now: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._path = Path(path)
        self._now = now
        self._primary, self._retry_s, self._marks = primary, retry_s, (high, low)
        self._fault: str | None = ""  # its text; None: all is well; "": what a run before this one saw is unknown
        self._backlog: bool | None = None

    def diag(self) -> dict[str, Any]:
        """For people: the file, and `fault`: why it takes nothing."""
        fault = "not begun yet" if not self._fault and self._fault is not None else self._fault
        return {"port": str(self._path), **({"fault": fault} if fault else {})}

    async def run(self, outbox: Outbox, submit: Submit) -> None:
        """Writes until cancelled; then writes what is durable by then, unless the file fails."""
        try:
            while True:
                try:
                    await self._write(outbox, submit)
                except (OSError, UnfitError) as error:
                    self._failed(_why(self._path, error), outbox, submit)
                    await asyncio.sleep(self._retry_s)
        except asyncio.CancelledError:
            try:
                await self._append(outbox, submit, await self._resume(outbox, submit))
            except (OSError, UnfitError) as error:
                log.warning("%s", _why(self._path, error))
            raise

    async def _write(self, outbox: Outbox, submit: Submit) -> None:
        done = await self._resume(outbox, submit)
        while True:
            done = await self._append(outbox, submit, done)
            self._works(outbox, submit)
            await outbox.wait(done)

    async def _append(self, outbox: Outbox, submit: Submit, done: int) -> int:
        """Writes one batch after `done`, syncs it, moves the cursor; returns the last seqno written."""
        batch = outbox.read(done, BATCH)
        if batch:
            if batch[0].seqno != done + 1:
                log.warning("messages %d to %d are no longer in the journal: skipped", done + 1, batch[0].seqno - 1)
            await _in_thread(_append, self._path, b"".join([message.data + b"\n" for message in batch]))
            done = batch[-1].seqno
            self._advance(outbox, submit, done)
        return done

    async def _resume(self, outbox: Outbox, submit: Submit) -> int:
        """Makes the file end with a message of ours; returns the seqno of that one."""
        offset, data = await _in_thread(_tail, self._path)
        cursor = outbox.cursor(self.name)
        base, position = _find(data, outbox.generation, cursor)
        for message in outbox.read(base, data.count(b"\n", position)):
            line = message.data + b"\n"
            if not data.startswith(line, position):
                break
            base, position = message.seqno, position + len(line)
        rest = data[position:]
        if rest and not _torn(rest, follows=position > 0):
            raise UnfitError("it holds lines that are not of this feed: move it away, or name another file")
        if rest:
            log.warning("%s ends in %d bytes of a torn line: cut off", self._path, len(rest))
            await _in_thread(_truncate, self._path, offset + position)
        if base < cursor:
            log.warning("%s ends with message %d, the cursor is at %d: written again", self._path, base, cursor)
        self._advance(outbox, submit, base)
        return base

    def _advance(self, outbox: Outbox, submit: Submit, seqno: int) -> None:
        if seqno > outbox.cursor(self.name):
            outbox.advance(self.name, seqno)
            if self._primary:
                submit(Receipt(self._now(), seqno))
        self._tell_backlog(outbox, submit)

    def _tell_backlog(self, outbox: Outbox, submit: Submit) -> None:
        """Tells of a mark passed; the first time where the backlog stands, since a condition outlives us."""
        depth = outbox.head - outbox.cursor(self.name)
        high = is_high(depth, self._marks, self._backlog)
        if self._primary and high is not None and high != self._backlog:
            submit(BacklogChanged(self._now(), high=high, depth=depth))
        self._backlog = high

    def _works(self, outbox: Outbox, submit: Submit) -> None:
        if self._fault is None:
            return
        self._fault = None
        submit(FaultGone(self._now(), code="feed_file", part="file"))
        if self._primary:
            submit(LinkChanged(self._now(), up=True))

    def _failed(self, why: str, outbox: Outbox, submit: Submit) -> None:
        if why != self._fault:
            log.error("%s", why)
            self._fault = why
            submit(FaultSeen(self._now(), code="feed_file", part="file", text=why))
            if self._primary:
                submit(LinkChanged(self._now(), up=False, reason=why))
        self._tell_backlog(outbox, submit)


class UnfitError(Exception):
    """The file is not one that we may write to. The text says what to do."""


def _why(path: Path, error: OSError | UnfitError) -> str:
    if isinstance(error, OSError):
        what = f"{path}: {error.strerror or error}"
        return f"{what}: free its disk, or correct casino.file.path and the rights; the feed waits"
    return f"{path}: {error}; the feed waits"


class _Line(NamedTuple):
    generation: str
    seqno: int


def _parse(line: bytes) -> _Line | None:
    """Whose message a line is; None where it is none."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    found = _Line(told.get("generation", ""), told.get("seqno", 0))
    return found if isinstance(found.generation, str) and type(found.seqno) is int and found.seqno > 0 else None


def _find(data: bytes, generation: str, cursor: int) -> tuple[int, int]:
    """The message from which on the file is compared: its seqno, and where the line after it begins.

    That is the last line at or below the cursor, or of another generation; in a tail that holds none, its first.
    """
    first, end = (cursor, 0), data.rfind(b"\n") + 1
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        line = _parse(data[start:end])
        if line is not None and line.generation != generation:
            return cursor, end
        if line is not None and line.seqno <= cursor:
            return line.seqno, end
        if line is not None and line.seqno > cursor + 1:
            first = line.seqno, end
        elif line is not None:
            first = cursor, start
        end = start
    return first


def _torn(rest: bytes, *, follows: bool) -> bool:
    """Whether a power cut leaves such bytes: a message without its end, or blocks (of NUL) never written.

    `follows`: a line that may be kept stands before them. A file of some other kind must not be taken for a torn one.
    """
    begins = rest.split(b"\0", 1)[0]
    ours = begins.startswith(START) or (START.startswith(begins) and (follows or bool(begins)))
    return (ours or not rest.strip(b"\0")) and (b"\0" in rest or b"\n" not in rest)


# --- what blocks: run in a thread ------------------------------------------------------------------------


async def _in_thread(job: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Waits for the job's end even when cancelled: two writers at once would garble the file."""
    task = asyncio.ensure_future(asyncio.to_thread(job, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is not None:
            log.warning("stopped in a write that failed: %s", task.exception())
        raise


def _open(path: Path, flags: int) -> int:
    fd = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o640)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UnfitError("it is no regular file: name another one")
    return fd


def _tail(path: Path) -> tuple[int, bytes]:
    """The end of the file, whole lines and what follows them, made durable; and where in the file it begins."""
    fd = _open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        sync_folder(path.parent)  # the file may be new
        offset = max(0, os.fstat(fd).st_size - TAIL_MAX)
        data = b""
        while chunk := os.pread(fd, TAIL_MAX, offset + len(data)):
            data += chunk
    finally:
        os.close(fd)
    whole = data.find(b"\n") + 1 if offset else 0
    return offset + whole, data[whole:]


def _append(path: Path, data: bytes) -> None:
    fd = _open(path, os.O_WRONLY | os.O_APPEND)
    try:
        new = os.fstat(fd).st_size == 0
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
        if new:
            sync_folder(path.parent)
    finally:
        os.close(fd)


def _truncate(path: Path, size: int) -> None:
    fd = _open(path, os.O_WRONLY)
    try:
        os.ftruncate(fd, size)
        os.fsync(fd)
    finally:
        os.close(fd)
