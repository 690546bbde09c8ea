"""The file publisher: exact lines, in order, whatever a crash, a full disk or a stranger left in the file."""

import asyncio
import contextlib
import itertools
import os
import resource
import signal
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.adapters.publisher_file import TAIL_MAX, PublisherFile
from controller.core.events import BacklogChanged, FaultGone, FaultSeen, LinkChanged, Receipt
from tests.broker import until
from tests.outbox import FakeOutbox, Heard

OTHER = "00000000-ffffffff"  # a generation before this one


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 60))


def lines(outbox: FakeOutbox, first: int = 1, last: int | None = None) -> bytes:
    """The messages first..last as the file holds them."""
    return b"".join([message.data + b"\n" for message in outbox.messages[first - 1 : last]])


class Writing:
    """A running publisher; it is stopped at the end of the block, and what `run` raised is raised there."""

    def __init__(self, path: Path, outbox: FakeOutbox, *, primary: bool = True, **more: Any) -> None:  # noqa: ANN401
        self.outbox, self.heard = outbox, Heard()
        self.publisher = PublisherFile(path, primary=primary, retry_s=0.02, **more)

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self.publisher.run(self.outbox, self.heard))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    @property
    def cursor(self) -> int:
        return self.outbox.cursor("file")

    async def drained(self) -> None:
        await until(lambda: self.cursor == self.outbox.head, "the cursor at the head")

    async def fault(self) -> FaultSeen:
        await until(lambda: self.heard.of(FaultSeen), "a fault")
        return self.heard.of(FaultSeen)[-1]

    async def healed(self) -> None:
        await until(lambda: self.heard.of(FaultGone), "the end of the fault")


def test_one_message_a_line_in_order(tmp_path: Path) -> None:
    path = tmp_path / "feed.jsonl"

    async def story() -> None:
        outbox = FakeOutbox()
        outbox.add(700)
        async with Writing(path, outbox) as writing:
            await writing.drained()
            for _ in range(10):
                outbox.add(2)
                await writing.drained()
            links = writing.heard.of(LinkChanged)
            assert [link.up for link in links] == [True]
            receipts = [receipt.seqno for receipt in writing.heard.of(Receipt)]
            assert receipts == [seqno for _, seqno in outbox.moves]
            assert receipts[:3] == [256, 512, 700], "a receipt a batch"
            assert [type(event) for event in writing.heard.events].count(FaultSeen) == 0
        assert path.read_bytes() == lines(outbox)
        assert path.stat().st_mode & 0o777 == 0o640

    run(story())


def test_the_primary_is_up_before_the_first_message(tmp_path: Path) -> None:
    async def story() -> None:
        async with Writing(tmp_path / "feed.jsonl", FakeOutbox()) as writing:
            await until(lambda: writing.heard.of(LinkChanged), "the link")
            assert writing.heard.of(LinkChanged)[0].up

    run(story())


def test_who_is_not_primary_reports_faults_alone(tmp_path: Path) -> None:
    async def story() -> None:
        outbox = FakeOutbox()
        outbox.add(10)
        async with Writing(tmp_path / "gone" / "feed.jsonl", outbox, primary=False, high=5, low=2) as writing:
            await writing.fault()
            (tmp_path / "gone").mkdir()
            await writing.drained()
            await writing.healed()
            assert {type(event) for event in writing.heard.events} == {FaultSeen, FaultGone}

    run(story())


def test_a_stop_writes_what_is_durable_by_then(tmp_path: Path) -> None:
    async def story() -> None:
        outbox = FakeOutbox()
        async with Writing(tmp_path / "feed.jsonl", outbox) as writing:
            await until(lambda: writing.heard.of(LinkChanged), "the link")
            outbox.add(300)
            await asyncio.sleep(0)
            outbox.add(3)
        assert (tmp_path / "feed.jsonl").read_bytes() == lines(outbox)
        assert writing.cursor == 303

    run(story())


# --- what a crash leaves ----------------------------------------------------------------------------------

# What the file holds at the start, the cursor, and what it holds when drained, of an outbox of 12 messages: `1-4` are
# lines, `5:50` the first 50 bytes of a line (`5:-1` all but its end), `5-7@100+200` lines of which 200 bytes from the
# 100th on are NUL, `0*600` NULs; `old` before them is another generation's; what begins with # is itself.
CRASHES = {
    "no crash": "1-4 | 4 | 1-12",
    "a new file": "| 0 | 1-12",
    "the cursor behind the file": "1-7 | 4 | 1-12",
    "the cursor lost": "1-7 | 0 | 1-12",
    "all written, no cursor": "1-10 | 0 | 1-12",
    "half a line": "1-4 5:50 | 4 | 1-12",
    "a whole line but its end": "1-4 5:-1 | 4 | 1-12",
    "half the first line": "1:5 | 0 | 1-12",
    "half a line, the cursor behind": "1-7 8:9 | 2 | 1-12",
    "blocks never written": "1-4 0*5000 | 4 | 1-12",
    "nothing but such": "0*4096 | 0 | 1-12",
    "half a line and such": "1-4 5:50 0*4096 | 4 | 1-12",
    "a block lost before one that is not": "1-4 5-7@100+200 | 4 | 1-12",
    "a block lost at a line's start": "1-4 5-7@0+100 | 4 | 1-12",
    "the file behind the cursor": "1-3 | 6 | 1-12",
    "moved away": "| 6 | 7-12",
    "moved away and begun, the cursor behind": "7-8 | 4 | 7-12",
    "another generation": "old1-10 | 0 | old1-10 1-12",
    "both, the cursor lost": "old1-10 1-5 | 0 | old1-10 1-12",
    "both, the cursor behind": "old1-10 1-5 | 3 | old1-10 1-12",
    "half a line of another generation": "old1-9 old10:77 | 0 | old1-9 1-12",
    "a heading of the technician's": "#table 1-4 | 4 | #table 1-12",
}


def content(text: str, outbox: FakeOutbox, old: FakeOutbox) -> bytes:
    return b"".join(
        [_piece(word.removeprefix("old"), old if word.startswith("old") else outbox) for word in text.split()]
    )


def _piece(word: str, outbox: FakeOutbox) -> bytes:
    if word.startswith("#"):
        return word.encode() + b"\n"
    if word.startswith("0*"):
        return b"\0" * int(word[2:])
    if ":" in word:
        number, size = map(int, word.split(":"))
        return lines(outbox, number, number)[:size]
    span, _, hole = word.partition("@")
    first, last = map(int, span.split("-"))
    whole = lines(outbox, first, last)
    if hole:
        start, size = map(int, hole.split("+"))
        return whole[:start] + b"\0" * size + whole[start + size :]
    return whole


@pytest.mark.parametrize("case", CRASHES)
def test_after_a_crash_nothing_is_missing_and_nothing_is_twice(case: str, tmp_path: Path) -> None:
    before, cursor, after = CRASHES[case].split("|")
    path = tmp_path / "feed.jsonl"
    outbox, old = FakeOutbox(), FakeOutbox(generation=OTHER)
    outbox.add(10)
    old.add(10)
    outbox.forget("file", int(cursor))
    path.write_bytes(content(before, outbox, old))

    async def story() -> None:
        async with Writing(path, outbox) as writing:
            await writing.drained()
            outbox.add(2)
            await writing.drained()
            assert writing.heard.of(FaultSeen) == []
            assert [receipt.seqno for receipt in writing.heard.of(Receipt)] == [seqno for _, seqno in outbox.moves]

    run(story())
    assert path.read_bytes() == content(after, outbox, old)


@given(data=st.data())
def test_cut_at_any_byte_and_with_any_cursor_the_file_ends_whole(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cut") / "feed.jsonl"
    outbox = FakeOutbox()
    outbox.add(6)
    whole = lines(outbox)
    size = data.draw(st.integers(0, len(whole)))
    complete = whole[:size].count(b"\n")
    outbox.forget("file", data.draw(st.integers(0, complete)))
    path.write_bytes(whole[:size] + b"\0" * data.draw(st.sampled_from([0, 1, 600])))

    async def story() -> None:
        async with Writing(path, outbox) as writing:
            await writing.drained()
            await until(lambda: path.read_bytes() == whole, "the end cut off, also where nothing is to be written")

    run(story())
    assert path.read_bytes() == whole


STRANGERS = {
    "text": b"what is this\n",
    "text without an end": b"what is this",
    "other JSON": b'{"a":1}\n',
    "other JSON without an end": b'{"a":1',
    "a database": b"SQLite format 3\0\x10\0\1\1\0\x40\x20\x20\0\0",
    "a database of a megabyte": b"SQLite format 3\0" + os.urandom(2**20),
    "noise that begins with NUL": b"\0\0" + os.urandom(2**10).replace(b"\0", b"x"),
    "a line after ours": b"{ours}note\n",
    "half a line after ours": b"{ours}note",
    "a line of ours, altered": b"{altered}",
    "a message that is not in the journal": b"{whole}{beyond}",
}


@pytest.mark.parametrize("case", STRANGERS)
def test_a_file_that_ends_in_something_else_is_left_alone(case: str, tmp_path: Path) -> None:
    """A wrong path in the configuration must not cost the file that is there."""
    path = tmp_path / "feed.jsonl"

    async def story() -> None:
        outbox, longer = FakeOutbox(), FakeOutbox()
        outbox.add(5)
        longer.add(6)
        content = STRANGERS[case].replace(b"{ours}", lines(outbox, 1, 2)).replace(b"{whole}", lines(outbox))
        content = content.replace(b"{altered}", lines(outbox, 1, 3)[:-3] + b"x}\n")
        content = content.replace(b"{beyond}", lines(longer, 6))
        path.write_bytes(content)
        outbox.forget("file", 1 if b"specversion" in content else 0)
        async with Writing(path, outbox) as writing:
            fault = await writing.fault()
            assert (fault.code, fault.part) == ("feed_file", "file")
            assert str(path) in fault.text
            assert "move it away" in fault.text
            assert [link.up for link in writing.heard.of(LinkChanged)] == [False]
            assert path.read_bytes() == content
            path.rename(tmp_path / "away")
            await writing.healed()
            await writing.drained()
            assert [link.up for link in writing.heard.of(LinkChanged)] == [False, True]
            assert len(writing.heard.of(FaultSeen)) == 1, "told once, however often it is tried"
        assert path.read_bytes().endswith(lines(outbox, 5))

    run(story())


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "feed.jsonl"

    async def story() -> None:
        outbox = FakeOutbox()
        outbox.add(1_200, text="x" * 8_000)
        assert len(lines(outbox)) > 2 * TAIL_MAX
        path.write_bytes(lines(outbox, 1, 1_190) + outbox.messages[1_190].data[:4_000])
        outbox.forget("file", 3)  # further back than the tail: its first line is believed
        async with Writing(path, outbox) as writing:
            await writing.drained()
            assert writing.heard.of(Receipt)[0].seqno == 1_190
        assert path.read_bytes() == lines(outbox)

    run(story())


def test_a_file_moved_away_while_we_run_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "feed.jsonl"

    async def story() -> None:
        outbox = FakeOutbox()
        outbox.add(5)
        async with Writing(path, outbox) as writing:
            await writing.drained()
            path.rename(tmp_path / "feed.1")
            outbox.add(5)
            await writing.drained()
        assert (tmp_path / "feed.1").read_bytes() == lines(outbox, 1, 5)
        assert path.read_bytes() == lines(outbox, 6)

    run(story())


# --- faults of the disk ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(size: int) -> Iterator[None]:
    """No file of this process grows over `size` bytes: a write past it is short, and the next one fails (EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_a_full_disk_is_a_fault_and_costs_nothing(tmp_path: Path) -> None:
    """What was written of a batch stays, half a line is cut off; the marks of the backlog are told (I34)."""
    path = tmp_path / "feed.jsonl"

    async def story() -> None:
        outbox = FakeOutbox()
        outbox.add(4)
        async with Writing(path, outbox, high=20, low=10) as writing:
            await writing.drained()
            await until(lambda: writing.heard.of(LinkChanged), "the link")
            with small_disk(len(lines(outbox)) + 1_000):
                outbox.add(26)
                fault = await writing.fault()
                assert (fault.code, fault.part) == ("feed_file", "file")
                assert f"{path}: File too large: free its disk" in fault.text
                await until(lambda: writing.heard.of(BacklogChanged)[-1].high, "the mark")
                outbox.add(1)
                written = path.read_bytes()
                assert lines(outbox).startswith(written)
            await writing.healed()
            await writing.drained()
            assert [link.up for link in writing.heard.of(LinkChanged)] == [True, False, True]
            assert writing.heard.of(LinkChanged)[1].reason == fault.text
            assert [mark.high for mark in writing.heard.of(BacklogChanged)] == [False, True, False]
            assert len(writing.heard.of(FaultSeen)) == 1
        assert path.read_bytes() == lines(outbox)

    run(story())


def _absent(path: Path) -> None:
    path.parent.rmdir()


def _a_folder(path: Path) -> None:
    path.mkdir()


def _a_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [(_absent, "No such file or directory"), (_a_folder, "Is a directory"), (_a_pipe, "no regular file")],
)
def test_a_path_that_cannot_be_written_says_why(spoil: Callable[[Path], None], words: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "feed.jsonl"
    spoil(path)

    async def story() -> None:
        outbox = FakeOutbox()
        outbox.add(3)
        async with Writing(path, outbox) as writing:
            fault = await writing.fault()
            assert f"{path}: " in fault.text
            assert words in fault.text
            assert writing.heard.of(LinkChanged)[-1].reason == fault.text
            if folder.exists():
                folder.rename(tmp_path / "away")
            folder.mkdir()
            await writing.healed()
            await writing.drained()
        assert path.read_bytes() == lines(outbox)

    run(story())


def test_what_is_wrong_with_us_ends_the_run(tmp_path: Path) -> None:
    async def story() -> None:
        outbox, heard = FakeOutbox(), Heard()
        outbox.add(1)
        heard.broken = True
        with pytest.raises(LookupError, match="broken"):
            await PublisherFile(tmp_path / "feed.jsonl", primary=True).run(outbox, heard)

    run(story())


def test_a_stop_in_the_middle_of_a_write_never_garbles(tmp_path: Path) -> None:
    """Cancelled after any number of steps of the loop, then started again."""

    async def story() -> None:
        for steps in itertools.count():
            path = tmp_path / f"feed.{steps}"
            outbox = FakeOutbox()
            outbox.add(40, text="x" * 3_000)
            task = asyncio.ensure_future(PublisherFile(path, primary=True).run(outbox, Heard()))
            for _ in range(steps):
                await asyncio.sleep(0.0005)
            late = outbox.cursor("file") == outbox.head
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            outbox.add(1)
            async with Writing(path, outbox) as writing:
                await writing.drained()
            assert path.read_bytes() == lines(outbox)
            if late:
                return

    run(story())
