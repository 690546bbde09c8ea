"""The real firmware at a whole table in virtual time: its chip keeps the table's clock, its bytes go through a pty."""

import asyncio
import os
import tty
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from controller.adapters.head_serial import HeadSerial
from controller.link.movements import Line
from controller.link.session import Output
from firmware.sim.bench import Way
from tests.firmware.chip import RAMP_US, Chip
from tests.whole_table import WholeTable

STEP_S = 0.005  # how far the chip may be behind the table
WAIT_MS = 5_000  # how long a test waits for what the head must tell: hundreds of sendings


class Wires:
    """`port` is what table.yaml names; the table's sensors are the chip's once they are `joined`."""

    def __init__(self, folder: Path) -> None:
        self.port = folder / "head"
        self._master, slave = os.openpty()
        tty.setraw(slave)
        os.set_blocking(self._master, False)
        self.port.symlink_to(os.ttyname(slave))
        os.close(slave)
        self._sent = self._read = 0

    @asynccontextmanager
    async def joined(self, table: WholeTable, *, errors_per_million: int, seed: int) -> AsyncIterator[HeadSerial]:
        """Until it is left the chip runs beside the table; so many bytes of a million are damaged, each way."""
        (head,) = [source for source in table.table.sources if isinstance(source, HeadSerial)]
        feed = head.session.feed

        def counted(data: bytes, at: int) -> list[Output]:
            self._read += len(data)
            return feed(data, at)

        head.session.feed = counted  # type: ignore[method-assign]
        with Chip() as chip:
            self._begin = table.loop.now()
            chip.bench.seed(seed)
            for way in Way:
                chip.bench.errors(way, errors_per_million)

            def put(line: Line, level: bool) -> None:
                chip.change((table.loop.now() - self._begin) / 1_000, line, on=level, ramp=RAMP_US)

            table.put = put  # type: ignore[method-assign]
            pump = asyncio.create_task(self._pump(table, chip))
            try:
                await reached(table, head.opened.is_set)
                yield head
                await reached(table, lambda: head.session.beat is not None and head.session.beat.waiting == 0)
            finally:
                pump.cancel()
                await asyncio.gather(pump, return_exceptions=True)
        assert pump.cancelled(), pump.exception()

    async def _pump(self, table: WholeTable, chip: Chip) -> None:
        while True:
            await asyncio.sleep(STEP_S)
            chip.bench.run((table.loop.now() - self._begin) / 1_000 - chip.bench.now)
            data = bytes(each.byte for each in chip.bench.sent())
            if data:
                assert os.write(self._master, data) == len(data)
                self._sent += len(data)
                await table.until(lambda: self._read == self._sent)
            try:
                chip.bench.receive(os.read(self._master, 4_096))
            except BlockingIOError:
                continue  # the table said nothing

    def close(self) -> None:
        os.close(self._master)
        self.port.unlink()


async def reached(table: WholeTable, true: Callable[[], object]) -> None:
    """Waits on the table's clock, as a hand does."""
    for _ in range(WAIT_MS // 5):
        if true():
            return
        await table.rest(5)
    raise AssertionError("the head did not tell it")
