"""The serial publisher over pseudo-terminals, an integrator's end behind it. Bug reports 22, 23, 28, 32, 38, 41, 43."""

import asyncio
import contextlib
import gc
import os
import random
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import pytest

from controller.adapters.publisher_serial import Limits, PublisherSerial
from controller.core.events import BacklogChanged, FaultGone, FaultSeen, LinkChanged, Receipt
from controller.link.wire import MESSAGE_MAX
from controller.ports import Answer, Ask
from tests.adapters.scanned import descriptor_count
from tests.broker import until
from tests.outbox import FakeOutbox, Heard
from tests.serial_consumer import SerialConsumer, pack
from tests.serial_noise import Noise
from tests.serial_pty import PtyLine

QUICK = Limits(rest_s=0.05, retry_s=(0.01, 0.05), farewell_s=2.0)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 90))


class Casino:
    """The integrator's end on a port of its own; `deaf` takes nothing, `mute` says nothing."""

    def __init__(self, port: str) -> None:
        self.consumer = SerialConsumer()
        self.port = port
        self.deaf = self.mute = False
        self.extra = b""
        self.got = b""

    async def run(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                fd = os.open(self.port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
                try:
                    await self._speak(fd)
                finally:
                    os.close(fd)
            await asyncio.sleep(0.01)

    async def _speak(self, fd: int) -> None:
        out = b""
        while True:
            data = b""
            with contextlib.suppress(BlockingIOError):
                data = os.read(fd, 4096)
                if not data:
                    raise OSError
            now = time.monotonic()
            self.got += data
            if not self.deaf:
                said = self.consumer.feed(data, now) + self.consumer.tick(now)
                out += b"" if self.mute else said
            out, self.extra = out + self.extra, b""
            with contextlib.suppress(BlockingIOError):
                out = out[os.write(fd, out) :]
            await asyncio.sleep(0.002)


class Asked:
    """An `Ask` that answers with what a test says, when it says so."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        self.answers: list[asyncio.Future[Answer]] = []

    def __call__(self, command: bytes, kept: bool) -> "asyncio.Future[Answer]":
        assert not kept, "a line keeps nothing"
        self.commands.append(command)
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


class Table:
    """A running publisher on a line to a casino."""

    def __init__(
        self,
        folder: Path,
        outbox: FakeOutbox | None = None,
        *,
        receipt: Literal["broker", "server"] = "server",
        primary: bool = True,
        ask: Ask | None = None,
        limits: Limits = QUICK,
        rate: float = 0.0,
        seed: int = 0,
        plugged: bool = True,
    ) -> None:
        rng = random.Random(seed)
        self.line = PtyLine(folder, Noise(rng, rate), Noise(rng, rate))
        self._plugged = plugged
        self.casino = Casino(self.line.casino_port)
        self.outbox = outbox or FakeOutbox()
        self.heard = Heard()
        self.publisher = PublisherSerial(
            port=self.line.table_port,
            baud=115_200,
            table="BAC-07",
            primary=primary,
            receipt=receipt,
            ask=ask or Asked(),
            limits=limits,
        )

    async def __aenter__(self) -> Self:
        if self._plugged:
            self.line.plug("table", "casino")
        self._tasks = [asyncio.ensure_future(task) for task in (self.line.carry(), self.casino.run())]
        self.start()
        return self

    def start(self) -> None:
        self.task = asyncio.ensure_future(self.publisher.run(self.outbox, self.heard))

    async def stop(self) -> None:
        """The clean stop; what `run` raised beside its cancellation is raised here."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.line.close()

    @property
    def cursor(self) -> int:
        return self.outbox.cursor("serial")

    @property
    def links(self) -> list[bool]:
        return [link.up for link in self.heard.of(LinkChanged)]

    async def up(self, times: int = 1) -> None:
        await until(lambda: self.links.count(True) >= times, f"link up {times} times")

    async def down(self, times: int = 1) -> str:
        await until(lambda: self.links.count(False) >= times, f"link down {times} times")
        return [link.reason for link in self.heard.of(LinkChanged) if not link.up][times - 1]

    async def drained(self) -> None:
        await until(lambda: self.cursor == self.outbox.head, f"the cursor at the head; it is at {self.cursor}")
        self.check()

    def check(self) -> None:
        taken = self.casino.consumer.taken
        assert taken == [message.data for message in self.outbox.messages[: len(taken)]]
        assert len(taken) >= self.cursor


# --- the feed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("receipt", ["server", "broker"])
def test_a_backlog_and_then_each_message_as_it_comes(tmp_path: Path, receipt: Literal["broker", "server"]) -> None:
    async def story() -> None:
        outbox = FakeOutbox()
        outbox.add(200)
        outbox.add(3, "x" * 5_000)
        async with Table(tmp_path, outbox, receipt=receipt) as table:
            await table.drained()
            for _ in range(20):
                outbox.add()
                await table.drained()
            assert table.links == [True]
            receipts = [event.seqno for event in table.heard.of(Receipt)]
            assert receipts == [seqno for _, seqno in outbox.moves] and receipts[-1] == outbox.head
            assert table.casino.consumer.repeats == table.casino.consumer.damaged == 0
            told = table.publisher.diag()
            assert (told["open"], told.get("fault"), told["counted"]["sessions"]) == (True, None, 1)
            assert not [
                told["counted"][kind] for kind in ("check", "stuffing", "short", "overlong") if told["counted"][kind]
            ]

    run(story())


def test_the_casinos_receipts_alone_move_the_cursor(tmp_path: Path) -> None:
    """What only its line has is sent again after the time without a receipt, and dropped there as a repeat."""

    async def story() -> None:
        async with Table(tmp_path, limits=replace(QUICK, stall_s=0.3)) as table:
            receipt = table.casino.consumer._receipt
            table.casino.consumer._receipt = lambda: b""  # type: ignore[method-assign]
            table.outbox.add(20)
            await until(lambda: table.casino.consumer.repeats >= 20, "the messages again")
            assert table.cursor == 0 and len(table.casino.consumer.taken) == 20
            table.casino.consumer._receipt = receipt  # type: ignore[method-assign]
            assert (
                await table.down()
                == "no receipt from the casino server for 0.3 s: ask casino IT whether it takes what the table sends"
            )
            await table.drained()
            assert table.links == [True, False, True] and table.publisher.stalls > 0

    run(story())


@pytest.mark.parametrize(
    "wrong",
    [
        b'{"generation":"00000000-00000000","seqno":3,"hash":"%s"}',
        b'{"generation":"68f1c2d4-9be01a77","seqno":4,"hash":"%s"}',
        b"no receipt %s",
    ],
)
def test_a_wrong_receipt_is_none(tmp_path: Path, wrong: bytes) -> None:
    async def story() -> None:
        async with Table(tmp_path) as table:
            consumer = table.casino.consumer
            payload = b""
            consumer._receipt = lambda: pack(b"R" + consumer._session.to_bytes(4, "little") + payload)  # type: ignore[method-assign]
            table.outbox.add(3)
            payload = wrong % table.outbox.messages[2].hash.encode()
            await until(lambda: len(consumer.taken) == 3, "three messages")
            await asyncio.sleep(0.7)  # a beat: the receipt is said again
            assert table.cursor == 0
            payload = wrong % b"x"
            await asyncio.sleep(0.7)
            assert table.cursor == 0 and table.links == [True]

    run(story())


def test_after_a_restart_the_table_goes_on_behind_its_receipt(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path) as table:
            table.outbox.add(30)
            await table.drained()
            await table.stop()
            table.outbox.forget("serial", 20)  # a crash: the cursor is up to a second old
            table.outbox.add(5)
            table.start()
            await table.drained()
            assert table.casino.consumer.repeats == 0, "the casino said which one it wants"

    run(story())


def test_a_stop_sends_what_is_durable_by_then(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path) as table:
            await table.up()
            table.outbox.add(40, "x" * 1_000)
            await table.stop()
            assert len(table.casino.consumer.taken) == 40

    run(story())


def test_a_stop_does_not_wait_for_a_casino_that_says_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path, limits=replace(QUICK, farewell_s=0.2)) as table:
            await table.up()
            table.casino.deaf = True
            table.outbox.add(40)
            await asyncio.wait_for(table.stop(), 5)

    run(story())


def test_a_message_over_the_limit_stops_the_feed_at_itself_and_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path) as table:
            table.outbox.add(2)
            table.outbox.add(1, "x" * MESSAGE_MAX)
            table.outbox.add(2)
            await until(lambda: table.heard.of(FaultSeen), "the fault")
            await until(lambda: table.cursor == 2, "what is before it")
            (fault,) = table.heard.of(FaultSeen)
            assert (fault.code, fault.part) == ("feed_refused", "serial")
            assert fault.text.startswith("message 3 has 65") and "65536 of the serial link" in fault.text
            assert len(table.casino.consumer.taken) == 2

    run(story())


def test_who_is_not_primary_tells_no_link(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path, primary=False, limits=replace(QUICK, high=3, low=1)) as table:
            table.outbox.add(10)
            await table.drained()
            table.line.unplug("table")
            await until(lambda: not table.publisher.diag()["open"], "the port's loss")
            assert {type(event) for event in table.heard.events} == {FaultGone}, "of a run before this one"

    run(story())


def test_the_backlogs_marks_are_told(tmp_path: Path) -> None:
    async def story() -> None:
        outbox = FakeOutbox()
        outbox.add(10)
        async with Table(tmp_path, outbox, limits=replace(QUICK, high=8, low=4)) as table:
            await table.drained()
            marks = [(event.high, event.depth) for event in table.heard.of(BacklogChanged)]
            assert [high for high, _ in marks] == [True, False] and marks[0][1] == 10

    run(story())


# --- the line -------------------------------------------------------------------------------------------------


def test_bug_22_28_unplugged_and_back_under_another_name(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path) as table:
            for times in range(1, 4):
                await table.up(times)
                table.outbox.add(5)
                await table.drained()
                table.line.unplug("table")
                reason = await table.down(times)
                assert reason.endswith("is gone: check the cable to the casino server") or "not there" in reason
                table.outbox.add(5)
                table.line.plug("table")
            await table.drained()
            assert table.links[:6] == [True, False] * 3

    run(story())


def test_a_port_that_is_not_there_is_said_once_with_what_to_do(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path, plugged=False) as table:
            reason = await table.down()
            assert reason.startswith(f"serial port {table.line.table_port} is not there: check the cable")
            assert "casino.serial.port" in reason
            await asyncio.sleep(0.3)
            assert table.links == [False]
            table.line.plug("table", "casino")
            table.outbox.add(3)
            await table.drained()

    run(story())


def test_bug_32_unplugs_leave_no_descriptor(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path) as table:
            gc.collect()  # what other tests have left
            counts = set()
            for times in range(1, 8):
                await table.up(times)
                counts.add(descriptor_count())
                table.line.unplug("table")
                await table.down(times)
                table.line.plug("table")
            assert len(counts) == 1

    run(story())


def test_a_silent_casino_is_a_link_that_is_down(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path) as table:
            await table.up()
            table.casino.mute = True
            reason = await table.down()
            assert "says nothing any more: check the cable, casino.serial.baud, and its program" in reason
            table.casino.mute = False
            table.outbox.add(3)
            await table.drained()
            assert table.links == [True, False, True]

    run(story())


def test_a_casino_that_begins_anew_gets_all_it_lacks(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path) as table:
            table.outbox.add(10)
            await table.drained()
            table.casino.consumer.restart()
            table.outbox.add(10)
            await table.drained()
            assert table.links == [True, False, True]
            assert await table.down() == f"serial port {table.line.table_port}: the casino server begins anew"

    run(story())


def test_a_casino_that_lost_its_store_is_given_what_there_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path) as table:
            table.outbox.add(10)
            await table.drained()
            del table.casino.consumer.taken[4:]
            table.casino.consumer.restart()
            await table.up(2)
            await until(lambda: len(table.casino.consumer.taken) == 10, "the rest again")
            table.check()

    run(story())


def test_noise_before_and_between_is_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with Table(tmp_path) as table:
            await table.up()
            for junk in (b"AT\r", bytes(range(256)) * 20, b"\0" * 3_000, b"\xff" * 20_000, b"login: "):
                table.casino.extra = junk
                table.outbox.add(3)
                await table.drained()
            assert table.links == [True]
            errors = table.publisher.frames.errors
            assert errors["overlong"] and errors["check"] + errors["stuffing"]

    run(story())


def test_what_is_of_another_protocol_is_told_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Table(tmp_path) as table:
            await table.up()
            table.casino.extra = pack(b"Zwhatever") + pack(b"x")
            await until(lambda: table.publisher.strange == 2, "both told")
            table.outbox.add(3)
            await table.drained()

    run(story())
    assert "a frame of an unknown kind" in caplog.text


# --- commands -------------------------------------------------------------------------------------------------


def command(table: Table, text: bytes) -> None:
    table.casino.extra += pack(b"C" + table.casino.consumer._session.to_bytes(4, "little") + text)


async def replied(table: Table, text: bytes) -> None:
    await until(lambda: text in table.casino.got, f"the reply {text!r}")


@contextlib.asynccontextmanager
async def commanded(folder: Path) -> AsyncIterator[tuple[Table, Asked]]:
    asked = Asked()
    async with Table(folder, ask=asked) as table:
        table.outbox.add(5)
        await table.drained()
        yield table, asked


def test_a_command_is_answered_when_it_is_durable(tmp_path: Path) -> None:
    async def story() -> None:
        async with commanded(tmp_path) as (table, asked):
            command(table, b'{"id":1}')
            command(table, b'{"id":2}')
            await until(lambda: len(asked.commands) == 2, "both commands")
            assert asked.commands == [b'{"id":1}', b'{"id":2}']
            assert b"result" not in table.casino.got
            asked.answers[1].set_result(Answer(b'{"id":2,"result":2}'))
            await replied(table, b'{"id":2,"result":2}')
            asked.answers[0].set_result(Answer(b'{"id":1,"result":1}', range(2, 4)))
            await replied(table, b'{"id":1,"result":1}')
            sent = [table.casino.got.count(message.data[:200]) for message in table.outbox.messages]
            assert sent == [1, 2, 2, 1, 1]
            assert table.casino.consumer.repeats == 0, "what is sent again is beside the feed"

    run(story())


def test_a_reply_belongs_to_the_session_that_asked(tmp_path: Path) -> None:
    async def story() -> None:
        async with commanded(tmp_path) as (table, asked):
            command(table, b'{"id":1}')
            await until(lambda: asked.commands, "the command")
            table.casino.consumer.restart()
            await table.up(2)
            asked.answers[0].set_result(Answer(b'{"id":1,"late":1}'))
            command(table, b'{"id":1}')
            await until(lambda: len(asked.commands) == 2, "the same again")
            asked.answers[1].set_result(Answer(b'{"id":1,"again":1}'))
            await replied(table, b'{"id":1,"again":1}')
            assert b"late" not in table.casino.got

    run(story())


def test_a_handler_that_fails_ends_the_publisher(tmp_path: Path) -> None:
    async def story() -> None:
        async with commanded(tmp_path) as (table, asked):
            command(table, b'{"id":1}')
            await until(lambda: asked.commands, "the command")
            asked.answers[0].set_exception(LookupError("broken"))
            await asyncio.wait({table.task}, timeout=20)
            ended, table.task = table.task.exception(), asyncio.ensure_future(asyncio.sleep(0))
            assert isinstance(ended, ExceptionGroup) and ended.subgroup(LookupError) is not None

    run(story())


def test_no_more_than_sixteen_wait_for_their_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with commanded(tmp_path) as (table, asked):
            for number in range(17):
                command(table, b"%d" % number)
            await until(lambda: "ignored a command: 16 wait" in caplog.text, "the log's word")
            assert len(asked.commands) == 16
            asked.answers[0].set_result(Answer(b'{"id":0}'))
            await replied(table, b'{"id":0}')
            command(table, b"16")
            await until(lambda: len(asked.commands) == 17, "the one that was ignored")

    run(story())


def test_what_a_person_wants_again_comes_beside_the_feed(tmp_path: Path) -> None:
    """`tablectl casino resend`: once, no cursor moves, and it is nobody's reply; not while the line is down."""

    async def story() -> None:
        async with Table(tmp_path) as table:
            assert not table.publisher.resend(range(1, 2))
            table.outbox.add(40)
            await until(lambda: table.outbox.cursor("serial") == 40, "every receipt")
            moves = list(table.outbox.moves)
            assert table.publisher.resend(range(5, 41))
            table.outbox.add(1)
            consumer = table.casino.consumer
            await until(lambda: len(consumer.again) == 36 and len(consumer.taken) == 41, "all again, and the new one")
            assert consumer.again == [(message.seqno, message.data) for message in table.outbox.messages[4:40]]
            await until(lambda: table.outbox.cursor("serial") == 41, "its receipt")
            assert table.outbox.moves == [*moves, ("serial", 41)]
            assert (consumer.replies, consumer.repeats) == ([], 0)

    run(story())
