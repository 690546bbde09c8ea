"""The heartbeat: decide, journal, evolve, show. Nothing is visible before it is durable.

One task takes all waiting events, decides each on the state the one before left, commits them once and shows once.
`submit` only puts an event in line. What the world sees is `state`, that of the last durable batch, and `view`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from . import feed
from .core import ahead
from .core.conditions import Refused
from .core.events import CASINO, Event, FaultGone, FaultSeen
from .core.facts import CommandAnswered, Fact, ShoeOpened
from .core.records import RecordError
from .core.state import State, fold
from .core.table import due, play
from .core.view import View, of_disk, of_start, view
from .ports import Clock, Journal, JournalError, Outcome, Panel, Sealed

log = logging.getLogger(__name__)

BATCH_MAX = 32  # events a commit: bounds how long a card waits behind others (DESIGN 2)
ANSWERS_MAX = 1024  # answers kept of keyed events that left no row: far more than are asked for again
IDLE_MAX = 10_000  # commands of the casino server that came to nothing: so many within IDLE_NS go on record
IDLE_NS = 86_400_000_000_000
SLOW_S = 1.0  # a commit longer than this is shown
RETRY_S = 0.5
DISK = ("disk", "journal")


class Durable(NamedTuple):
    """What a batch came to, for those who watch."""

    facts: tuple[Fact, ...]
    state: State
    view: View


class _Batch(NamedTuple):
    rows: list[Sealed]
    facts: tuple[Fact, ...]
    state: State
    chain: feed.Chain
    answers: list[tuple["asyncio.Future[Outcome]", Outcome]]


def recover(journal: Journal) -> State:
    """The state that the journal holds: the last saved one, and the facts since. Asks no rule.

    JournalError where it is damaged, or says what this version does not know.
    """
    saved, bodies = journal.recover()
    try:
        state = State() if saved is None else feed.read_saved(saved)
        rows = [feed.read_row(body) for body in bodies]
    except RecordError as error:
        raise JournalError(f"this version cannot read the journal: {error}. Start the version that wrote it") from error
    for row in rows:
        state = fold(state, row.facts)
    return state


class Loop:
    """Keeps one table. `panels` show it; `watchers` hear every durable batch (the control socket, the state topic)."""

    def __init__(
        self, *, journal: Journal, speaker: feed.Feed, clock: Clock, panels: Sequence[Panel], state: State
    ) -> None:
        row, row_hash = journal.last
        seqno, message_hash = journal.last_message
        assert state.seqno == seqno, "the state recovered is the journal's"
        self.state = state
        self.view = of_start(state)
        self.watchers: list[Callable[[Durable], None]] = []
        self._journal, self._speaker, self._clock, self._panels = journal, speaker, clock, panels
        self._chain = feed.Chain(journal.generation, seqno, message_hash, row, row_hash)
        self._queue: deque[tuple[Event, asyncio.Future[Outcome]]] = deque()
        self._answers: dict[tuple[str, str], Outcome] = {}  # of keyed events that left no row, the newest last
        self._idle: deque[int] = deque(maxlen=IDLE_MAX)  # when the newest commands that came to nothing went on record
        self._ahead = ahead.NOTHING  # what is read of a card that is not out: kept nowhere else (B10)
        self._waiting: asyncio.Future[None] | None = None
        self.pulse = 0  # grows with every batch and every try of the disk: for the watchdog

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        """Puts an event in line, at once and in order; resolves when it is durable, refused, or known as a repeat."""
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._queue.append((event, done))
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
        return done

    @property
    def busy(self) -> bool:
        """Whether events wait, or are being made durable."""
        return bool(self._queue) or self._waiting is None or self._waiting.done()

    async def run(self) -> None:
        """Until cancelled. An error of the program ends it: the journal is whole, and a restart recovers from it."""
        self._show(self.view)
        while True:
            if not self._queue:
                self._waiting = asyncio.get_running_loop().create_future()
                await self._waiting
            self.pulse += 1
            batch = self._decide()
            if batch.rows:
                await self._make_durable(batch.rows)
                self.state, self._chain = batch.state, batch.chain
                self._clock.wake_at(due(self.state))
                self._show(view(self.state))
                for watcher in self.watchers:
                    watcher(Durable(batch.facts, self.state, self.view))
            for future, outcome in batch.answers:
                if not future.done():
                    future.set_result(outcome)

    # --- decide -----------------------------------------------------------------------------------------

    def _decide(self) -> _Batch:
        batch = _Batch([], (), self.state, self._chain, [])
        for _ in range(min(len(self._queue), BATCH_MAX)):
            event, future = self._queue.popleft()
            repeat = None if event.key is None else self._repeat(batch, event.key)
            if repeat is not None:
                batch.answers.append((future, repeat))
                continue
            self._ahead, heard = ahead.hear(self._ahead, batch.state, event)
            for each in heard:
                batch = self._play(batch, each, future)
            if not heard:
                batch.answers.append((future, Outcome()))
                if event.key is not None:
                    self._keep(event.key, Outcome())
        return batch

    def _repeat(self, batch: _Batch, key: tuple[str, str]) -> Outcome | None:
        """The answer to a key that was there before, whatever may have become possible since: it acts no more."""
        if key in self._answers:
            return self._answers[key]
        body = next((row.body for row in batch.rows if row.key == key), None) or self._journal.seen(key)
        if body is None:
            return None
        told = [fact for fact in feed.read_row(body).facts if type(fact) is CommandAnswered and fact.refused]
        return Outcome(refused=(told[0].refused, told[0].values) if told else None, repeated=True)

    def _play(self, batch: _Batch, event: Event, future: "asyncio.Future[Outcome]") -> _Batch:
        """The event and the deadlines before it, sealed. Without facts no row, but for a casino's commands."""
        told: tuple[Fact, ...] = ()
        refused: tuple[str, dict[str, str]] | None = None
        state, chain = batch.state, batch.chain
        try:
            for happened, facts, after in play(state, event):
                if facts:
                    saved = after if any(type(fact) is ShoeOpened for fact in facts) else None
                    entry = feed.Entry(happened, facts, state, after, *self._clock.wall(happened.at), saved)
                    row, chain = feed.seal(self._speaker, chain, entry)
                    batch.rows.append(row)
                told += facts
                state = after
        except Refused as answer:
            refused = (answer.key, answer.values)
            log.info("refused: %s %s %s", type(event).__name__, answer.key, answer.values)
        outcome = Outcome(told, refused)
        batch = batch._replace(facts=batch.facts + told, state=state, chain=chain)
        if event.key is not None and not (batch.rows and batch.rows[-1].key == event.key):
            batch, outcome = self._without_row(batch, event, event.key, outcome)
        batch.answers.append((future, outcome))
        return batch

    def _without_row(
        self, batch: _Batch, event: Event, key: tuple[str, str], outcome: Outcome
    ) -> tuple[_Batch, Outcome]:
        """What a casino's command came to goes on record, so that the same bytes never act later.

        A server gone mad must not fill the journal: what is not on record is not decided.
        """
        if key[0] != CASINO:
            self._keep(key, outcome)
            return batch, outcome
        if len(self._idle) == IDLE_MAX and event.at - self._idle[0] < IDLE_NS:
            over = Refused("too_many")
            return batch, replace(outcome, refused=(over.key, over.values))
        self._idle.append(event.at)
        said = CommandAnswered(*(outcome.refused or ("", {})))
        entry = feed.Entry(event, (said,), batch.state, batch.state, *self._clock.wall(event.at))
        row, chain = feed.seal(self._speaker, batch.chain, entry)
        batch.rows.append(row)
        return batch._replace(chain=chain), outcome

    def _keep(self, key: tuple[str, str], outcome: Outcome) -> None:
        """Without a row no journal knows the key: who was told no must not get a yes from the same request, late."""
        self._answers[key] = replace(outcome, facts=(), repeated=True)
        if len(self._answers) > ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]

    # --- make durable -----------------------------------------------------------------------------------

    async def _make_durable(self, rows: list[Sealed]) -> None:
        """Commits, and keeps at it: a disk that fails loses nothing, it only stops the table where it is."""
        failed = ""
        slow = asyncio.get_running_loop().call_later(SLOW_S, lambda: self._show(of_disk(self.view, "wait")))
        while True:
            try:
                await self._journal.commit(rows)
                break
            except JournalError as error:
                if str(error) != failed:
                    failed = str(error)
                    log.error("the journal could not commit: %s", failed)  # noqa: TRY400 - the text says what to do
                self._show(of_disk(self.view, "stop"))
            finally:
                slow.cancel()  # from the first failure on it is ALTO that stands
            self.pulse += 1
            await asyncio.sleep(RETRY_S)
        if failed:
            self.submit(FaultSeen(self._clock.now(), *DISK, failed))

    def check_disk(self) -> None:
        """Raises or clears the disk's fault: one that failed, or is nearly full, lets no new round begin.

        Called every few seconds. A busy table is looked at the next time: while its disk fails nothing is to be added
        to what waits.
        """
        if self.busy:
            return
        stands = any((c.code, c.part) == DISK for c in self.state.conditions)
        ails = self._journal.ailing
        if ails and not stands:
            self.submit(FaultSeen(self._clock.now(), *DISK, ails))
        elif stands and not ails:
            self.submit(FaultGone(self._clock.now(), *DISK))

    # --- show -------------------------------------------------------------------------------------------

    def _show(self, shown: View) -> None:
        self.view = shown
        for panel in self._panels:
            panel.show(shown)
