"""The whole table with the sensor head at its shoe: the real firmware on a simulated chip, in lock step with the table.

The chip's time is the table's: a slice of it passes after each slice of the loop's, and no time passes until what the
one sent the other has read, through a real pseudo-terminal. So the same acts give the same bytes.
"""

import asyncio
import contextlib
import itertools
import math
import os
import random
from collections.abc import Iterable

from controller import wiring
from controller.adapters.head_serial import HeadSerial
from controller.link.movements import Line
from controller.link.session import Output, Session
from firmware.sim.bench import Way
from tests.firmware.chip import SLICE_US, Chip
from tests.passages import MS, Level, Pull, Scene, edges
from tests.serial_pty import End
from tests.virtual_time import VirtualLoop
from tests.whole_table import Ground, Hid, Serial, WholeTable

BROKEN = 10_000  # bytes in a million, each way


def passage(what: str, rng: random.Random, slowest_ms: int = 300) -> Scene:
    """A card, or the `cut` card, drawn as cards are; one in ten was pulled back before, for a moment."""
    scene = Scene(end=5 * MS)
    if rng.random() < 0.1:
        lag, over, back = rng.randint(20, 90), rng.choice([0, rng.randint(13, 200)]), rng.randint(13, 100)
        scene.back(scene.end, lag * MS, over * MS, back * MS)
    pull = Pull(scene.end + 60 * MS, rng.randint(25 * MS, slowest_ms * MS), math.exp(rng.uniform(-0.6, 1.0)))
    if what == "cut":
        scene.cut(pull, 6.0)
    else:
        scene.card(pull)
    return scene


class Tapped(Session):
    """A session that counts the bytes both ways since its port was opened, so that time can wait for them."""

    def __init__(self) -> None:
        super().__init__(itertools.count(0xA0000001).__next__)
        self.is_open = False
        self.fed = self.taken = 0
        self.written = self.read = 0  # by whoever has the line's other end

    def connect(self, at: int) -> None:
        super().connect(at)
        self.is_open = True
        self.fed = self.taken = self.written = self.read = 0

    def disconnect(self) -> list[Output]:
        self.is_open = False
        return super().disconnect()

    def feed(self, data: bytes, at: int) -> list[Output]:
        self.fed += len(data)
        return super().feed(data, at)

    def take(self) -> bytes:
        data = super().take()
        self.taken += len(data)
        return data


class HeadTable(WholeTable):
    """`chip` is the head; its port is a link, as by-id names are."""

    def __init__(self, loop: VirtualLoop, ground: Ground, table: wiring.Table, scanner: Serial | Hid) -> None:
        super().__init__(loop, ground, table, scanner)
        self.chip = Chip(acknowledge=False)
        (self.head,) = [source for source in table.sources if isinstance(source, HeadSerial)]
        self.session = self.head.session = Tapped()
        self._began = loop.now()
        self.cable = End(self.folder / "head")
        self.cable.plug()
        self._work = asyncio.create_task(self._carry())

    # --- the cable ------------------------------------------------------------------------------------------

    def noisy(self, per_million: int, seed: int) -> None:
        """From now on so many of a million bytes each way have a bit that is wrong."""
        self.chip.bench.seed(seed)
        for way in Way:
            self.chip.bench.errors(way, per_million)

    def _us(self, now: int) -> float:
        return (now - self._began) / 1_000

    @property
    def _is_linked(self) -> bool:
        return self.cable.plugged and self.session.is_open

    async def _carry(self) -> None:
        bench, session = self.chip.bench, self.session
        while True:
            await asyncio.sleep(SLICE_US / 1e6)
            bench.run(self._us(self.loop.now()) - bench.now)
            data = bytes(byte.byte for byte in bench.sent())
            if not self._is_linked:
                continue  # nobody listens, and what was sent is gone
            if data:
                assert self.cable.plugged
                session.written += os.write(self.cable.master, data)
                await self.until(lambda: not self._is_linked or session.fed == session.written)
            if session.read != session.taken:
                await self.until(lambda: not self._is_linked or self._has_all())

    def _has_all(self) -> bool:
        """Whether the chip has all that the table sent it: what is there yet, it gets now."""
        assert self.cable.plugged
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.cable.master, 4_096)
            self.chip.bench.receive(data)
            self.session.read += len(data)
        return self.session.read == self.session.taken

    # --- what hands do --------------------------------------------------------------------------------------

    def put(self, line: Line, level: bool) -> None:
        self.chip.change(self._us(self.loop.now()), line, on=level)

    async def play(self, levels: Iterable[Level]) -> None:
        changes = list(levels)
        self.chip.play(changes, self._us(self.loop.now()))
        await self.rest(max(change.at for change in changes) / MS + 1)

    async def draw(self, what: str, rng: random.Random) -> None:
        """The card, or the cut card, is drawn as they are; see `passage`."""
        await self.play(edges(passage(what, rng).spans))

    async def close(self) -> None:
        await super().close()
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)
        self.cable.unplug()
        self.chip.bench.close()
