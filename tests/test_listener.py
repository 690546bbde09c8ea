"""The reference receiver against the publisher, in one process: order, receipts, a port that comes and goes."""

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from controller.adapters.publisher_serial import Limits, PublisherSerial
from controller.listener import Listener
from controller.ports import Answer, Message
from tests.broker import until
from tests.outbox import FakeOutbox, Heard
from tests.serial_noise import Noise
from tests.serial_pty import PtyLine

QUICK = Limits(rest_s=0.05, retry_s=(0.01, 0.05))


def ask(command: bytes, kept: bool) -> "asyncio.Future[Answer]":
    raise AssertionError("the receiver asks for nothing")


class Ear(threading.Thread):
    """Takes `count` messages, each when the one before is kept, and hangs up with the last."""

    def __init__(self, port: str, count: int, kept: Message | None = None, generation: str = "") -> None:
        super().__init__(daemon=True)
        self.taken: list[bytes] = []
        self._listener, self._count = Listener(port, 115_200), count
        if kept is not None:
            self._listener.has(f"BAC-07/{generation}", kept.seqno, kept.hash)

    def run(self) -> None:
        for message in self._listener.messages():
            self.taken.append(message)
            if len(self.taken) == self._count:
                return


def play(folder: Path, story: Callable[[PtyLine, FakeOutbox], Coroutine[Any, Any, None]], rate: float = 0.0) -> None:
    line = PtyLine(folder, Noise(random.Random(1), rate), Noise(random.Random(2), rate))
    outbox = FakeOutbox()
    publisher = PublisherSerial(
        port=line.table_port, baud=115_200, table="BAC-07", primary=True, receipt="server", ask=ask, limits=QUICK
    )

    async def main() -> None:
        tasks = [asyncio.ensure_future(task) for task in (line.carry(), publisher.run(outbox, Heard()))]
        try:
            await asyncio.wait_for(story(line, outbox), 60)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            line.close()

    asyncio.run(main())


@pytest.mark.parametrize("rate", [0.0, 5e-4])
def test_each_message_once_and_its_receipt_when_the_next_is_asked_for(tmp_path: Path, rate: float) -> None:
    async def story(line: PtyLine, outbox: FakeOutbox) -> None:
        line.plug("table", "casino")
        outbox.add(60)
        ear = Ear(line.casino_port, 60)
        ear.start()
        await until(lambda: not ear.is_alive(), "the last one, which is taken and not kept")
        if not rate:
            await until(lambda: outbox.cursor("serial") == 59, "the receipts of what was kept")
        assert outbox.cursor("serial") <= 59
        assert ear.taken == [message.data for message in outbox.messages]

    play(tmp_path, story, rate)


def test_it_asks_for_what_follows_its_own(tmp_path: Path) -> None:
    async def story(line: PtyLine, outbox: FakeOutbox) -> None:
        line.plug("table", "casino")
        outbox.add(20)
        outbox.advance("serial", 5)
        ear = Ear(line.casino_port, 8, kept=outbox.messages[11], generation=outbox.generation)
        ear.start()
        await until(lambda: len(ear.taken) == 8, "what follows")
        assert ear.taken == [message.data for message in outbox.messages[12:]]

    play(tmp_path, story)


def test_it_gives_the_receipt_of_what_it_has_kept(tmp_path: Path) -> None:
    """Stopped between a message kept and its receipt: the table, which sends nothing new, would wait for ever."""

    async def story(line: PtyLine, outbox: FakeOutbox) -> None:
        line.plug("table", "casino")
        outbox.add(12)
        outbox.advance("serial", 5)
        ear = Ear(line.casino_port, 1, kept=outbox.messages[11], generation=outbox.generation)
        ear.start()
        await until(lambda: outbox.cursor("serial") == 12, "the receipt")
        outbox.add()
        await until(lambda: not ear.is_alive(), "what follows")

    play(tmp_path, story)


def test_a_port_that_comes_late_and_goes_is_told_once_and_opened_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(line: PtyLine, outbox: FakeOutbox) -> None:
        line.plug("table")
        outbox.add(10)
        ear = Ear(line.casino_port, 20)
        ear.start()
        await until(lambda: "is not there: check the cable to the table" in caplog.text, "the word about the port")
        line.plug("casino")
        await until(lambda: len(ear.taken) == 10, "the first ten")
        line.unplug("casino")
        outbox.add(10)
        await until(lambda: "is gone: check the cable to the table" in caplog.text, "its loss")
        line.plug("casino")
        await until(lambda: len(ear.taken) == 20, "the rest")
        assert ear.taken == [message.data for message in outbox.messages]

    play(tmp_path, story)
