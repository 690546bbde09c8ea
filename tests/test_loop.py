"""The heartbeat: durable before visible, in order, 32 at most, once each; and what it shows of a disk that ails.

The journal here is the fake of `table_rig` behind a gate that a test opens and closes. Nothing waits for real time but
ESPERE and the retry, whose times are shortened.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from controller import loop as heart
from controller.core.cards import Card
from controller.core.events import (
    CallPressed,
    CardMoved,
    CardScanned,
    CutCardSeen,
    Elapsed,
    Event,
    LinkChanged,
    LoadAsked,
    Restarted,
    StartPressed,
    VoidAsked,
)
from controller.core.facts import CallEnded, CardBurned, CardOut, Phase, StaffCalled
from controller.core.profile import Position, Rescan
from controller.core.table import due
from controller.core.view import Pattern, View, view
from controller.loop import BATCH_MAX, Durable, recover
from controller.ports import JournalError, Outcome, Sealed
from tests.broker import until
from tests.profiles import CLASSIC
from tests.table_rig import BY_DEALER, FREE_RUNNING, SECOND, TWO, MemoryJournal, Rig

FULL = "the disk is full: free space"
WAIT, STOP = "disk.wait.headline", "disk.stop.headline"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heart, "SLOW_S", 0.2)
    monkeypatch.setattr(heart, "RETRY_S", 0.1)


class Gate(MemoryJournal):
    """A journal whose commits wait while it is shut, then fail with each of `faults` in turn; `tries` are their sizes.

    `log` takes what happens, by name, with what the test notes there itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tries: list[int] = []
        self.faults: list[Exception] = []
        self.log: list[str] = []
        self._gate = asyncio.Event()
        self._gate.set()

    def shut(self) -> None:
        self._gate.clear()
        self.tries.clear()
        self.log.clear()

    def open(self) -> None:
        self._gate.set()

    async def commit(self, rows: Sequence[Sealed]) -> None:
        self.tries.append(len(rows))
        await self._gate.wait()
        if self.faults:
            raise self.faults.pop(0)
        await super().commit(rows)
        self.log.append("durable")


class Seen:
    """A rig before a gate, and everything that it lets out: views, watchers, alarms, answers."""

    def __init__(self, rig: Rig, journal: Gate) -> None:
        self.rig, self.journal, self.loop = rig, journal, rig.loop
        self.told: list[Durable] = []
        self.answers: list[Outcome] = []
        rig.loop.watchers.append(self._hear)
        rig.clock.wake_at, rig.panel.show = self._wake_at, self._show  # type: ignore[method-assign]

    def _wake_at(self, at: int | None) -> None:
        self.journal.log.append("alarm")
        self.rig.clock.alarm = at

    def _show(self, view: View) -> None:
        self.journal.log.append("show")
        self.rig.panel.views.append(view)

    def _hear(self, durable: Durable) -> None:
        self.journal.log.append("watch")
        self.told.append(durable)

    def submit(self, *events: Event) -> "list[asyncio.Future[Outcome]]":
        futures = [self.loop.submit(event) for event in events]
        for future in futures:
            future.add_done_callback(lambda done: self._answered(done.result()))
        return futures

    def _answered(self, outcome: Outcome) -> None:
        self.journal.log.append("answer")
        self.answers.append(outcome)

    def scans(self, *codes: str) -> list[Event]:
        return [CardScanned(self.rig.clock.now(), Card.parse(code)) for code in codes]

    @property
    def headlines(self) -> list[str]:
        return [shown.prompt.headline.key for shown in self.rig.panel.views]


async def settle() -> None:
    """Lets every task do all it can without the world's help."""
    for _ in range(50):
        await asyncio.sleep(0)


def play(story: Callable[[Seen], Awaitable[None]], **rig: Any) -> None:  # noqa: ANN401 - whatever a Rig takes
    async def night() -> None:
        journal = Gate()
        async with Rig(journal=journal, **rig) as table:
            seen = Seen(table, journal)
            await story(seen)
            journal.open()
            await settle()

    asyncio.run(night())


# --- durable before visible -------------------------------------------------------------------------------


def test_nothing_is_visible_before_it_is_durable() -> None:
    async def story(seen: Seen) -> None:
        await seen.rig.load()
        state, shown, alarm, head = seen.loop.state, seen.loop.view, seen.rig.clock.alarm, seen.journal.head
        views, told = len(seen.rig.panel.views), len(seen.told)
        seen.journal.shut()
        (future,) = seen.submit(*seen.scans("8H"))
        await settle()
        assert seen.journal.tries == [1], "it is on its way to the disk"
        assert (seen.loop.state, seen.loop.view, seen.journal.head) == (state, shown, head)
        assert (seen.rig.clock.alarm, len(seen.rig.panel.views), len(seen.told)) == (alarm, views, told)
        assert not future.done()
        seen.journal.open()
        await future
        assert seen.journal.log == ["durable", "alarm", "show", "watch", "answer"], "and then everything, in this order"
        assert seen.loop.state.round is not None and seen.loop.state.round.cards == ("8H",)
        assert seen.loop.view == seen.rig.panel.views[-1] == seen.told[-1].view == view(seen.loop.state)
        assert seen.told[-1].state is seen.loop.state

    play(story)


def test_a_commit_that_is_cancelled_shows_nothing() -> None:
    """The program ends while the disk works: what it may have stored, the next start brings back."""

    async def story(seen: Seen) -> None:
        await seen.rig.load()
        seen.journal.shut()
        before = seen.loop.state
        (future,) = seen.submit(*seen.scans("8H"))
        await settle()
        assert seen.rig._task is not None
        seen.rig._task.cancel()
        await asyncio.gather(seen.rig._task, return_exceptions=True)
        assert (seen.loop.state, seen.journal.log, future.done()) == (before, [], False)
        seen.rig._task = asyncio.create_task(asyncio.sleep(60))  # for the rig's end

    play(story)


@pytest.mark.parametrize("error", [AssertionError("rows do not follow"), ValueError("no such column")])
def test_a_fault_of_the_program_ends_it_before_anything_shows(error: Exception) -> None:
    async def story(seen: Seen) -> None:
        await seen.rig.load()
        before, views = seen.loop.state, len(seen.rig.panel.views)
        seen.journal.faults = [error]
        with pytest.raises(type(error)):
            await seen.rig.do(seen.scans("8H")[0])
        assert (seen.loop.state, len(seen.rig.panel.views)) == (before, views)
        seen.rig._task = asyncio.create_task(asyncio.sleep(60))

    play(story)


def test_what_the_loop_recovers_is_what_it_was() -> None:
    """After every batch of a night with everything in it; a saved State stands in each `shoe.opened`."""

    async def story(seen: Seen) -> None:
        batches = 0

        def compare(durable: Durable) -> None:
            nonlocal batches
            batches += 1
            assert recover(seen.journal) == durable.state == seen.loop.state

        seen.loop.watchers.append(compare)
        rig = seen.rig
        await rig.load()
        await rig.bet()
        await rig.scan("8H 2D KS 3C")
        await rig.confirm()
        await rig.bet_early("9C")
        await rig.do(StartPressed(rig.clock.now()))
        await rig.do(LinkChanged(rig.clock.now(), up=False, reason="cable"))
        await rig.do(CallPressed(rig.clock.now()))
        await rig.do(VoidAsked(rig.clock.now(), "spill", by=TWO))
        await rig.later(60)
        await rig.do(Restarted(rig.clock.now(), "boot-2", "0.1.1", "d" * 64))
        assert batches > 15
        assert sum(row.saved is not None for row in seen.journal.rows) == 1

    play(story, procedure=BY_DEALER)


# --- in order, at most 32 ---------------------------------------------------------------------------------


def test_events_are_decided_in_the_order_of_their_arrival() -> None:
    """Each on the state that the one before left, though none of them is durable yet."""

    async def story(seen: Seen) -> None:
        await seen.rig.load()
        seen.journal.shut()
        seen.submit(*seen.scans("8H", "2D", "KS", "3C"))
        await settle()
        assert seen.journal.tries == [4], "all that waited is one commit"
        seen.journal.open()
        await until(lambda: len(seen.answers) == 4, "four answers")
        assert seen.loop.state.phase is Phase.READY, "the Player's natural eight, complete"
        kinds = [type(answer.facts[0]).__name__ for answer in seen.answers]
        assert kinds == ["RoundBegun", "CardDealt", "CardDealt", "CardDealt"]
        assert seen.journal.log == ["durable", "alarm", "show", "watch", *["answer"] * 4], "shown once"
        assert seen.told[-1].facts == tuple(fact for answer in seen.answers for fact in answer.facts)

    play(story)


def test_a_batch_has_at_most_32_events() -> None:
    async def story(seen: Seen) -> None:
        await seen.rig.load()
        seen.journal.shut()
        seen.submit(*[CallPressed(seen.rig.clock.now()) for _ in range(100)])
        seen.journal.open()
        await until(lambda: len(seen.answers) == 100, "a hundred answers")
        assert seen.journal.tries == [BATCH_MAX, BATCH_MAX, BATCH_MAX, 4]
        called = [type(answer.facts[0]) for answer in seen.answers]
        assert called == [StaffCalled, CallEnded] * 50

    play(story)


def test_a_submit_in_an_answer_or_a_watcher_waits_for_its_turn() -> None:
    async def story(seen: Seen) -> None:
        now = seen.rig.clock.now
        more = iter([CallPressed(now()), CallPressed(now())])

        def again(_durable: Durable) -> None:
            for event in more:
                seen.submit(event)
                break

        seen.loop.watchers.append(again)
        seen.submit(CallPressed(now()))
        await until(lambda: len(seen.answers) == 3, "three answers")
        assert [type(answer.facts[0]) for answer in seen.answers] == [StaffCalled, CallEnded, StaffCalled]

    play(story)


def test_an_event_without_facts_leaves_no_row() -> None:
    """And is answered though the disk stands still."""

    async def story(seen: Seen) -> None:
        seen.journal.shut()
        views = len(seen.rig.panel.views)
        futures = seen.submit(Elapsed(seen.rig.clock.now()), StartPressed(seen.rig.clock.now()))
        await settle()
        assert [future.result() for future in futures] == [Outcome(), Outcome((), ("not_now", {}))]
        assert (seen.journal.tries, len(seen.rig.panel.views), seen.told) == ([], views, [])

    play(story)


AHEAD = replace(FREE_RUNNING, sensors=True, position=Position.IN_SHOE, rescan=Rescan.NONE)


def test_what_is_read_of_a_card_that_is_not_out_is_written_nowhere() -> None:
    """B10: it is answered at once, and with the card's movement it is in the one row that tells of both."""

    async def story(seen: Seen) -> None:
        rig = seen.rig
        await rig.do(LoadAsked(rig.clock.now()))
        row = seen.journal.last
        read = CardScanned(rig.clock.now(), Card.parse("8H"), key=("head", "7:1"))
        assert await rig.do(read) == Outcome()
        assert await rig.do(read) == Outcome(repeated=True), "the same report is no second reading"
        assert seen.journal.last == row
        told = await rig.do(CardMoved(rig.clock.now(), key=("head", "7:2")))
        assert seen.journal.last[0] == row[0] + 1
        assert [fact.card for fact in told.facts if isinstance(fact, CardBurned)] == ["8H"]
        assert await rig.do(CardMoved(rig.clock.now(), key=("head", "7:2"))) == Outcome(repeated=True)

    play(story, procedure=AHEAD)


def test_a_restart_forgets_what_was_read_of_a_card_that_was_not_out() -> None:
    async def story(seen: Seen) -> None:
        rig = seen.rig
        await rig.do(LoadAsked(rig.clock.now()))
        await rig.do(CardScanned(rig.clock.now(), Card.parse("8H")))
        async with Rig(journal=rig.journal, procedure=AHEAD) as again:
            told = await again.do(CardMoved(again.clock.now()))
            assert [type(fact) for fact in told.facts] == [CardOut]
            assert again.loop.state.shoe is not None and again.loop.state.shoe.face(1) is None

    play(story, procedure=AHEAD)


def test_an_answer_that_nobody_waits_for_any_more_is_none() -> None:
    async def story(seen: Seen) -> None:
        seen.journal.shut()
        future = seen.loop.submit(CallPressed(seen.rig.clock.now()))
        await settle()
        future.cancel()
        seen.journal.open()
        await until(lambda: seen.loop.state.called, "the act is durable all the same")

    play(story)


# --- exactly once -----------------------------------------------------------------------------------------

KEY = ("control", "42")


def _call(seen: Seen, key: tuple[str, str] = KEY) -> Event:
    return CallPressed(seen.rig.clock.now(), key=key)


def test_a_repeat_is_acted_on_once_and_answered_again() -> None:
    async def story(seen: Seen) -> None:
        first = await seen.rig.do(_call(seen))
        assert (len(first.facts), first.repeated) == (1, False)
        rows = len(seen.journal.rows)
        assert await seen.rig.do(_call(seen)) == Outcome(repeated=True)
        assert seen.loop.state.called and len(seen.journal.rows) == rows
        other = await seen.rig.do(_call(seen, ("head", "42")))
        assert not other.repeated, "a key is its source's own"

    play(story)


def test_a_repeat_beside_its_first_is_acted_on_once() -> None:
    """Both wait for the disk: the second is answered no sooner than the first is durable."""

    async def story(seen: Seen) -> None:
        seen.journal.shut()
        futures = seen.submit(_call(seen), _call(seen), _call(seen))
        await settle()
        assert seen.journal.tries == [1] and not any(future.done() for future in futures)
        late = seen.submit(_call(seen))
        await settle()
        assert not late[0].done(), "nor does one overtake it that comes while the disk works"
        seen.journal.open()
        await until(lambda: len(seen.answers) == 4, "four answers")
        assert [answer.repeated for answer in seen.answers] == [False, True, True, True]
        assert seen.loop.state.called

    play(story)


def test_a_repeat_is_known_after_a_restart() -> None:
    async def night() -> None:
        async with Rig(BY_DEALER) as rig:
            await rig.load()
            await rig.do(StartPressed(rig.clock.now(), key=KEY))
            await rig.later(15)
            journal = rig.journal
        async with Rig(BY_DEALER, journal=journal) as again:
            assert await again.do(StartPressed(again.clock.now(), key=KEY)) == Outcome(repeated=True)

    asyncio.run(night())


@pytest.mark.parametrize(
    ("seconds", "boot", "then"),
    [(5, "boot-1", Pattern.BETTING), (15, "boot-1", Pattern.NO_MORE), (5, "boot-2", Pattern.OFFLINE)],
)
def test_until_a_start_is_durable_no_lamp_says_what_the_run_before_it_said(
    seconds: int, boot: str, then: Pattern
) -> None:
    """C1: the sound was made, the betting may be over, its times may be those of another boot."""

    async def night() -> None:
        journal = Gate()
        async with Rig(BY_DEALER, journal=journal) as rig:
            await rig.load()
            await rig.do(StartPressed(rig.clock.now()))
            await rig.later(seconds)
        again = Rig(BY_DEALER, journal=journal)
        again.clock.now_ns = rig.clock.now_ns
        journal.faults = [JournalError(FULL)]
        again.loop.submit(Restarted(again.clock.now(), boot, "0.1.0", "c" * 64))
        task = asyncio.create_task(again.loop.run())
        await until(lambda: len(again.panel.views) > 2, "the start")
        task.cancel()
        shown = [each.lamps.pattern for each in again.panel.views[:3]]
        assert shown == [Pattern.OFF, Pattern.HELD, then]
        assert then is Pattern.BETTING or not any(each.lamps.buzz for each in again.panel.views)

    asyncio.run(night())


def test_a_repeat_of_what_was_refused_is_refused_again() -> None:
    """Whoever asked was told no. The same request once more, late, must not open the betting behind their back."""

    async def story(seen: Seen) -> None:
        rig = seen.rig
        first = await rig.do(StartPressed(rig.clock.now(), key=KEY))
        assert first == Outcome((), ("not_now", {}))
        await rig.load()
        assert rig.phase is Phase.READY, "now it would be accepted"
        assert await rig.do(StartPressed(rig.clock.now(), key=KEY)) == replace(first, repeated=True)
        assert rig.phase is Phase.READY
        assert (await rig.do(StartPressed(rig.clock.now(), key=("control", "43")))).refused is None
        assert rig.phase is Phase.BETTING, "a new request is a new question"

    play(story, procedure=BY_DEALER)


def test_a_repeat_of_what_came_to_nothing_comes_to_nothing() -> None:
    """A card's passage that a closed table ignored is no card of the shoe that is loaded before its repeat."""

    async def story(seen: Seen) -> None:
        rig = seen.rig
        event = CardScanned(rig.clock.now(), Card.parse("8H"), key=("head", "7:1"))
        assert await rig.do(event) == Outcome()
        await rig.load()
        assert await rig.do(event) == Outcome(repeated=True)
        assert rig.loop.state.round is None

    play(story)


def test_what_came_to_nothing_is_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heart, "ANSWERS_MAX", 3)

    async def story(seen: Seen) -> None:
        for number in range(10):
            await seen.rig.do(StartPressed(seen.rig.clock.now(), key=("control", str(number))))
        assert [key for _, key in seen.loop._answers] == ["7", "8", "9"]

    play(story)


def test_a_repeat_after_deadlines_of_its_own_answer() -> None:
    """The deadlines that fired before a refused event have happened; their rows carry no key of its."""

    async def story(seen: Seen) -> None:
        rig = seen.rig
        await rig.load()
        await rig.do(StartPressed(rig.clock.now()))
        rig.clock.now_ns += 16 * SECOND
        late = StartPressed(rig.clock.now(), key=KEY)
        first = await rig.do(late)
        assert [type(fact).__name__ for fact in first.facts] == ["BettingClosed"] and first.refused
        assert rig.phase is Phase.CLOSING, "the deadline's facts are kept"
        assert seen.journal.rows[-1].key is None
        assert seen.told[-1].facts == first.facts, "and told"
        assert await rig.do(late) == Outcome((), first.refused, repeated=True)

    play(story, procedure=BY_DEALER)


# --- time -------------------------------------------------------------------------------------------------


def test_the_alarm_is_set_to_what_core_waits_for() -> None:
    async def story(seen: Seen) -> None:
        rig = seen.rig
        await rig.load()
        assert rig.clock.alarm is None
        await rig.do(StartPressed(rig.clock.now()))
        opened = rig.clock.now()
        assert rig.clock.alarm == due(rig.loop.state) == opened + 15 * SECOND
        rig.clock.now_ns = rig.clock.alarm
        await rig.do(Elapsed(rig.clock.now()))
        assert rig.phase is Phase.CLOSING
        assert rig.clock.alarm == due(rig.loop.state) == opened + 18 * SECOND, "the grace of the link"
        await rig.later(3)
        assert (rig.phase, rig.clock.alarm) == (Phase.READY, None), "cancelled: no answer (F2)"

    play(story, procedure=BY_DEALER)


def test_every_deadline_up_to_a_late_wake_up_fires_in_order() -> None:
    async def story(seen: Seen) -> None:
        rig = seen.rig
        await rig.load()
        await rig.do(StartPressed(rig.clock.now()))
        opened = rig.clock.now()
        rig.clock.now_ns += 3_600 * SECOND
        outcome = await rig.do(Elapsed(rig.clock.now()))
        kinds = [type(fact).__name__ for fact in outcome.facts]
        assert kinds == ["BettingClosed", "RoundCancelled", "IrregularityRaised", "IrregularityResolved"]
        assert outcome.facts[0].at == opened + 15 * SECOND, "at its own instant"  # type: ignore[attr-defined]
        assert rig.clock.alarm is None

    play(story, procedure=BY_DEALER)


def test_a_message_tells_wall_time_of_its_event() -> None:
    async def story(seen: Seen) -> None:
        await seen.rig.load()
        seen.rig.clock.now_ns += 61 * SECOND
        at = seen.rig.clock.now() - 60 * SECOND
        await seen.rig.do(CutCardSeen(at, "code"))
        assert b'"time":"2026-11-29T21:04:0' in seen.journal.messages[-1].data, "not of the commit, a minute later"

    play(story)


# --- the disk ---------------------------------------------------------------------------------------------


def test_a_slow_commit_shows_espere_and_then_what_is() -> None:
    async def story(seen: Seen) -> None:
        await seen.rig.load()
        seen.journal.shut()
        told = len(seen.told)
        (future,) = seen.submit(*seen.scans("8H"))
        await until(lambda: WAIT in seen.headlines, "ESPERE")
        assert seen.rig.panel.views[-1].phase is Phase.READY, "of the table as it is on the disk"
        assert len(seen.told) == told and not future.done()
        seen.journal.open()
        await future
        assert seen.rig.panel.views[-1] == view(seen.loop.state)
        await asyncio.sleep(1.5 * heart.SLOW_S)
        assert seen.rig.panel.views[-1] == view(seen.loop.state), "no second ESPERE"
        assert not seen.loop.state.conditions, "slowness is no fault"

    play(story)


def test_a_failing_commit_shows_alto_and_is_retried() -> None:
    async def story(seen: Seen) -> None:
        await seen.rig.load()
        before, head = seen.loop.state, seen.journal.head
        views = len(seen.rig.panel.views)
        seen.journal.shut()
        seen.journal.faults = [JournalError(FULL), JournalError(FULL)]
        futures = seen.submit(*seen.scans("8H", "2D"))
        seen.journal.open()
        await until(lambda: len(seen.journal.tries) >= 2, "a second try")
        assert {shown.prompt.headline.key for shown in seen.rig.panel.views[views:]} == {STOP}
        assert (seen.loop.state, seen.journal.head) == (before, head)
        assert not any(future.done() for future in futures)
        await asyncio.gather(*futures)
        assert seen.journal.tries[:3] == [2, 2, 2], "the same rows, whole"
        await settle()
        assert [(c.code, c.part, c.detail["text"]) for c in seen.loop.state.conditions] == [("disk", "journal", FULL)]
        assert seen.rig.panel.views[-1] == seen.loop.view == view(seen.loop.state)
        assert seen.journal.log.count("durable") == 2, "the cards, then the fault"

    play(story)


def test_the_fault_ends_when_the_disk_is_well_again() -> None:
    async def story(seen: Seen) -> None:
        rig = seen.rig
        await rig.load()
        seen.journal.faults = [JournalError(FULL)]
        await rig.do(CallPressed(rig.clock.now()))
        await settle()
        refused = await rig.do(StartPressed(rig.clock.now()))
        assert refused.refused == ("held", {"code": "disk"}), "no new round begins"
        seen.journal.ailing = "3 MiB are free"
        seen.loop.check_disk()
        await settle()
        assert len(seen.loop.state.conditions) == 1, "the first word about it stands"
        seen.journal.ailing = ""
        seen.loop.check_disk()
        await settle()
        assert seen.loop.state.conditions == ()
        assert (await rig.do(StartPressed(rig.clock.now()))).refused is None

    play(story, procedure=BY_DEALER)


def test_a_disk_that_is_nearly_full_stops_rounds_before_a_commit_fails() -> None:
    async def story(seen: Seen) -> None:
        await seen.rig.load()
        seen.loop.check_disk()
        await settle()
        assert seen.loop.state.conditions == ()
        seen.journal.ailing = "3 MiB are free"
        seen.loop.check_disk()
        await settle()
        (condition,) = seen.loop.state.conditions
        assert (condition.code, condition.detail["text"]) == ("disk", "3 MiB are free")

    play(story)


def test_while_the_disk_fails_a_look_at_it_puts_nothing_in_line() -> None:
    """Every few seconds for a whole night: what waits for such a disk must not grow."""

    async def story(seen: Seen) -> None:
        await seen.rig.load()
        seen.journal.shut()
        seen.submit(*seen.scans("8H"))
        seen.journal.ailing = "3 MiB are free"
        await settle()
        for _ in range(100):
            seen.loop.check_disk()
        assert not seen.loop._queue
        seen.journal.open()
        await settle()
        seen.loop.check_disk()
        await settle()
        assert len(seen.loop.state.conditions) == 1, "the next look tells it"

    play(story)


def test_alto_stays_while_a_retry_hangs() -> None:
    """SQLite waits a second for a stranger's lock at each try: ESPERE and ALTO must not take turns."""

    async def story(seen: Seen) -> None:
        await seen.rig.load()
        seen.journal.faults = [JournalError(FULL)]
        (future,) = seen.submit(*seen.scans("8H"))
        await until(lambda: STOP in seen.headlines, "ALTO")
        seen.journal.shut()
        await until(lambda: seen.journal.tries, "the second try")
        await asyncio.sleep(1.5 * heart.SLOW_S)
        assert seen.headlines[-1] == STOP and WAIT not in seen.headlines[1:], "the first is the start"
        seen.journal.open()
        await future

    play(story)


# --- what the watchdog asks -------------------------------------------------------------------------------


def test_busy_and_pulse_tell_of_progress() -> None:
    async def story(seen: Seen) -> None:
        await settle()
        assert not seen.loop.busy, "an idle table has nothing to do"
        pulse = seen.loop.pulse
        seen.journal.shut()
        seen.submit(CallPressed(seen.rig.clock.now()))
        assert seen.loop.busy, "it waits in line"
        await settle()
        assert seen.loop.busy and seen.loop.pulse == pulse + 1
        await settle()
        assert seen.loop.pulse == pulse + 1, "a commit that hangs is no progress"
        seen.journal.faults = [JournalError(FULL)] * 2
        seen.journal.open()
        await until(lambda: not seen.loop.busy, "the end of it")
        assert seen.loop.pulse >= pulse + 3, "a disk that fails and is asked again is not stuck"

    play(story)


def test_a_table_that_does_not_run_yet_is_busy() -> None:
    async def night() -> None:
        rig = Rig(FREE_RUNNING, CLASSIC)
        assert rig.loop.busy
        rig.loop.submit(LoadAsked(rig.clock.now()))
        assert rig.loop.busy

    asyncio.run(night())


@pytest.mark.parametrize(("seconds", "pattern"), [(None, Pattern.HELD), (0, Pattern.BETTING), (15, Pattern.NO_MORE)])
def test_the_end_of_the_betting_is_seen_and_heard_whatever_the_disk_does(seconds: int | None, pattern: Pattern) -> None:
    """DESIGN 6, C1: at that instant the lamps flash and the buzzer sounds, without waiting for the disk."""

    async def story(seen: Seen) -> None:
        rig = seen.rig
        await rig.load()
        if seconds is not None:
            await rig.do(StartPressed(rig.clock.now()))
            await rig.later(seconds)
        lamps = seen.loop.view.lamps
        seen.journal.faults = [JournalError(FULL)]
        await rig.do(CallPressed(rig.clock.now()))
        stopped = next(shown for shown in rig.panel.views if shown.prompt.headline.key == STOP)
        assert stopped.lamps.pattern is pattern
        if seconds is not None:
            assert stopped.lamps == lamps, "closes_at and the sound that is due"

    play(story, procedure=BY_DEALER)
