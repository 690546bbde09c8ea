"""A small complete table in memory: the real loop and feed, a journal and a clock that tests move by hand.

`async with Rig() as rig:` gives one with its first shoe not yet loaded. Nothing in it waits for real time.
"""

import asyncio
from typing import Self

from controller import feed, keys
from controller.adapters.memory import MemoryJournal
from controller.core.cards import Card
from controller.core.events import (
    CardScanned,
    Configured,
    ConfirmPressed,
    CutCardSeen,
    Elapsed,
    Event,
    JournalMade,
    LeftCounted,
    LinkChanged,
    LoadAsked,
    Receipt,
    Restarted,
    StartPressed,
)
from controller.core.facts import Phase
from controller.core.profile import Confirms, Opens, Procedure, Profile
from controller.core.view import View
from controller.loop import Loop, recover
from controller.ports import Journal, Outcome
from tests.profiles import COMMISSION

SECOND = 1_000_000_000
START_NS = 1_000 * SECOND
WALL_NS = 1_795_986_245_000_000_000  # 2026-11-29 21:04:05 UTC
GENERATION = "68f1c2d4-9be01a77"
FREE_RUNNING = Procedure(open_betting=Opens.NONE, confirm_result=Confirms.NONE, receipts=False)
BY_DEALER = Procedure()
TWO = ("dealer", "boss")


class FakeClock:
    """`ports.Clock` that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_ns = START_NS
        self.alarm: int | None = None

    def now(self) -> int:
        return self.now_ns

    def wall(self, at: int) -> tuple[int, bool]:
        return WALL_NS + at - START_NS, True

    def not_before(self, utc: int) -> None:
        assert utc <= WALL_NS + self.now_ns - START_NS, "no test goes back in time"

    def look(self) -> None:
        """It stands still."""

    def wake_at(self, at: int | None) -> None:
        self.alarm = at


class SeenPanel:
    """`ports.Panel` that keeps what it was shown."""

    def __init__(self) -> None:
        self.views: list[View] = []

    def show(self, view: View) -> None:
        self.views.append(view)


class Rig:
    """The table, running while the `async with` lasts. With an earlier rig's journal it is that table, restarted."""

    def __init__(
        self,
        procedure: Procedure = FREE_RUNNING,
        profile: Profile = COMMISSION,
        journal: Journal | None = None,
        table: str = "BAC-07",
        key: keys.TableKey | None = None,
    ) -> None:
        self.procedure, self.profile = procedure, profile
        self.journal = MemoryJournal(GENERATION) if journal is None else journal
        self.clock = FakeClock()
        self.panel = SeenPanel()
        self.key = key or keys.ephemeral()
        self.speaker = feed.Feed(table, f"/tables/{table}", "live", self.key.keyid, self.key.sign)
        state = recover(self.journal)
        self.loop = Loop(journal=self.journal, speaker=self.speaker, clock=self.clock, panels=[self.panel], state=state)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.loop.run())
        now = self.clock.now()
        if self.journal.last[0] == 0:
            await self.do(JournalMade(now, "new", self.key.public))
        await self.do(Restarted(now, "boot-1", "0.1.0", "c" * 64))
        await self.do(Configured(now, "c" * 64, (), self.procedure, self.profile))
        await self.do(LinkChanged(now, up=True))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        ended = self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if ended:
            self._task.result()  # an error of the loop is an error of the test

    @property
    def phase(self) -> Phase:
        return self.loop.state.phase

    async def do(self, event: Event) -> Outcome:
        """Submits and returns when it is durable; an error of the loop is raised here."""
        assert self._task is not None
        answer = self.loop.submit(event)
        await asyncio.wait({answer, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            self._task.result()
        return answer.result()

    async def later(self, seconds: float) -> None:
        """Moves time, and fires what is due by then."""
        self.clock.now_ns += int(seconds * SECOND)
        await self.do(Elapsed(self.clock.now()))

    async def load(self, first: str = "AS", burned: str = "2S") -> None:
        """Opens a shoe; where the house burns by the first card, it is `first`, then the `burned`."""
        await self.do(LoadAsked(self.clock.now()))
        if self.phase is Phase.BURNING:
            await self.scan(f"{first} {burned}")

    async def scan(self, cards: str) -> None:
        """Cards as a scanner sends them, a millisecond apart; `cut` is the cut card."""
        for code in cards.split():
            self.clock.now_ns += SECOND // 1000
            at = self.clock.now()
            await self.do(CutCardSeen(at, "code") if code == "cut" else CardScanned(at, Card.parse(code)))

    async def bet(self) -> None:
        """START, the whole betting time, and the receipt: the table asks for the first card."""
        await self.do(StartPressed(self.clock.now()))
        await self.later(self.procedure.betting_seconds)
        await self.do(Receipt(self.clock.now(), self.journal.head))

    async def bet_early(self, cards: str) -> None:
        """START, and cards in the betting time (I07)."""
        await self.do(StartPressed(self.clock.now()))
        await self.scan(cards)

    async def confirm(self) -> Outcome:
        """CONFIRM, a second after whatever was before."""
        self.clock.now_ns += SECOND
        return await self.do(ConfirmPressed(self.clock.now()))

    async def unload(self, left: int) -> Outcome:
        return await self.do(LeftCounted(self.clock.now(), left, by=TWO))
