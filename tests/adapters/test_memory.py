"""The simulated ends: a fast clock, a true shoe, people who act on prompts alone, a journal as strict as a disk's."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from babel.messages.pofile import read_po

from controller import feed, keys
from controller.adapters.journal_sqlite import JournalSqlite
from controller.adapters.memory import (
    DEALER,
    DEALER_ACTS,
    NEAR_THE_BOTTOM,
    PIT,
    PIT_CHOICES,
    SECOND,
    DealerMoves,
    FastClock,
    Hands,
    MemoryJournal,
    Person,
    PitMoves,
    SimulatedShoe,
    prompt_of,
)
from controller.core.cards import DECK
from controller.core.conditions import ROWS
from controller.core.events import (
    CardMoved,
    CardScanned,
    CardUnread,
    Configured,
    CutCardSeen,
    Elapsed,
    Event,
    LinkChanged,
    Restarted,
)
from controller.core.facts import Fact, IrregularityResolved, Phase, RoundCompleted, ShoeClosed, Who
from controller.core.profile import Procedure, Profile
from controller.loop import Loop, recover
from controller.panel import LOCALE
from controller.ports import JournalError, Outcome, Sealed, Source
from tests.adapters.journal_rows import Pen
from tests.broker import until
from tests.core import oracle
from tests.profiles import CLASSIC, COMMISSION, PROFILES

FAST = 500.0
SEED = 7


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 100))


class Heard:
    """A `submit` that answers at once, and keeps what it was given."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> "asyncio.Future[Outcome]":
        self.events.append(event)
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        answer.set_result(Outcome())
        return answer


@contextlib.asynccontextmanager
async def running(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """They run while the block lasts; what one raises is raised here."""
    tasks = [asyncio.create_task(work) for work in works]
    await asyncio.sleep(0)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


# --- the clock ----------------------------------------------------------------------------------------------


def test_fast_seconds_pass_faster_and_the_wall_with_them() -> None:
    clock, real = FastClock(100.0), FastClock(1.0)
    fast_at, real_at = clock.now(), real.now()
    run(asyncio.sleep(0.02))
    passed, fast_passed = real.now() - real_at, clock.now() - fast_at
    assert fast_passed >= 50 * passed > 0
    assert clock.wall(fast_at + 7 * SECOND)[0] - clock.wall(fast_at)[0] == 7 * SECOND
    assert not clock.wall(fast_at)[1]


@pytest.mark.parametrize("alarms", [(2,), (9, 2), (None, 2), (2, 2), (2, 9, 3)])
def test_elapsed_comes_once_and_never_before_its_time(alarms: tuple[int | None, ...]) -> None:
    async def story() -> None:
        clock, heard = FastClock(FAST), Heard()
        begun = clock.now()
        async with running(clock.run(heard)):
            for seconds in alarms:
                clock.wake_at(None if seconds is None else begun + seconds * SECOND)
                await asyncio.sleep(0)
            await until(lambda: heard.events, "Elapsed")
            due = begun + (alarms[-1] or 0) * SECOND
            await until(lambda: clock.now() > due + 20 * SECOND, "time for a second one")
        (elapsed,) = heard.events
        assert isinstance(elapsed, Elapsed)
        assert elapsed.at >= due

    run(story())


def test_events_of_others_get_their_time_on_the_fast_clock() -> None:
    async def story() -> None:
        clock, heard = FastClock(FAST), Heard()
        real = FastClock(1.0)
        await asyncio.sleep(0.01)
        before = clock.now()
        clock.stamping(heard)(LinkChanged(real.now(), up=True))
        (event,) = heard.events
        assert before <= event.at <= clock.now()
        assert event == LinkChanged(event.at, up=True)

    run(story())


# --- the shoe -----------------------------------------------------------------------------------------------


async def emptied(shoe: SimulatedShoe) -> list[Event]:
    heard = Heard()
    async with running(shoe.run(heard)):
        shoe.load()
        while not (shoe.empty and heard.events and not isinstance(heard.events[-1], CardUnread)):
            await shoe.draw()
        before = len(heard.events)
        await shoe.draw()
        assert len(heard.events) == before, "an empty shoe gives nothing"
    return heard.events


def drawn(profile: Profile, **options: Any) -> list[Event]:  # noqa: ANN401
    return asyncio.run(emptied(SimulatedShoe(profile, lambda: 5, **options)))


@pytest.mark.parametrize("profile", [*PROFILES.values(), replace(CLASSIC, decks=1, cut_depth=(14, 16))])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_shoe_holds_its_decks_and_the_cut_card_at_its_depth(profile: Profile, seed: int) -> None:
    events = drawn(profile, seed=seed)
    scanned = [event.card for event in events if isinstance(event, CardScanned)]
    assert Counter(scanned) == dict.fromkeys(DECK, profile.decks)
    assert [type(event) for event in events].count(CardMoved) == profile.cards
    (cut,) = [at for at, event in enumerate(events) if isinstance(event, CutCardSeen)]
    least, greatest = profile.cut_depth or NEAR_THE_BOTTOM
    assert least <= len([event for event in events[cut:] if isinstance(event, CardScanned)]) <= greatest


def test_a_seed_is_a_shoe() -> None:
    same = [drawn(COMMISSION, seed=3, misread=0.05, double=0.05) for _ in range(2)]
    assert same[0] == same[1]
    assert drawn(COMMISSION, seed=4, misread=0.05, double=0.05) != same[0]
    faces = [[event for event in drawn(COMMISSION, seed=3, misread=misread) if isinstance(event, CardScanned)]
             for misread in (0.0, 0.5)]  # fmt: skip
    assert faces[0] == faces[1], "what the scanner does wrong changes no card"


@pytest.mark.parametrize(
    ("fault", "passage", "kinds"),
    [
        ({}, 1, [CardMoved, CardScanned]),
        ({"misread": 1.0}, 2, [CardMoved, CardUnread, CardScanned]),
        ({"double": 1.0}, 1, [CardMoved, CardScanned, CardScanned]),
    ],
)
def test_a_card_passes(fault: dict[str, float], passage: int, kinds: list[type[Event]]) -> None:
    async def story() -> None:
        shoe, heard = SimulatedShoe(COMMISSION, lambda: 5, seed=SEED, **fault), Heard()
        async with running(shoe.run(heard)):
            shoe.load()
            for _ in range(passage):
                await shoe.draw()
        assert [type(event) for event in heard.events] == kinds

    run(story())


# --- a table with people ------------------------------------------------------------------------------------


class Evening:
    """The real loop on a journal in memory, with simulated ends; `facts` are those of every durable batch."""

    def __init__(self, profile: Profile, *, dealer: bool = True, misread: float = 0.02, slips: float = 0.1) -> None:
        self.clock, self.journal, self.facts = FastClock(FAST), MemoryJournal(), list[Fact]()
        self.profile, self.refused, self.decided = profile, list[str](), list[tuple[str, str]]()
        key = keys.ephemeral()
        speaker = feed.Feed("DEMO", "/tables/DEMO", "demo", key.keyid, key.sign)
        shoe = SimulatedShoe(profile, self.clock.now, seed=SEED, misread=misread, double=misread / 2)
        self.hands = hands = Hands(
            shoe, self.clock.now, pressed=lambda _: None, refused=lambda key, _: self.refused.append(key)
        )
        pit = PitMoves(hands, lambda *choice: self.decided.append(choice))
        people = [Person(self.clock, seed=SEED, sees=pit.sees, moves=pit)]
        if dealer:
            moves = DealerMoves(hands, seed=SEED, slips=slips)
            people.append(Person(self.clock, seed=SEED, sees=prompt_of, moves=moves))
        self.loop = Loop(
            journal=self.journal,
            speaker=speaker,
            clock=self.clock,
            panels=[hands, *people],
            state=recover(self.journal),
        )
        self.loop.watchers.append(lambda durable: self.facts.extend(durable.facts))
        self.sources: list[Source] = [self.clock, shoe, hands, *people]

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        submit, now = self.loop.submit, self.clock.now()
        async with running(self.loop.run(), *[source.run(submit) for source in self.sources]):
            await submit(Restarted(now, "boot", "1", "c" * 64))
            await submit(Configured(now, "c" * 64, (), Procedure(receipts=False, sensors=True), self.profile))
            await submit(LinkChanged(now, up=True))
            yield

    def of(self, kind: type[Any]) -> list[Any]:
        return [fact for fact in self.facts if type(fact) is kind]

    @property
    def prompt(self) -> str:
        return prompt_of(self.loop.view)

    async def shows(self, prompt: str) -> None:
        await until(lambda: self.prompt == prompt, f"the prompt {prompt}; it is {self.prompt}")


def check_rounds(rounds: list[RoundCompleted]) -> None:
    """Each hand, point and outcome against the typed-in tableau."""
    for fact in rounds:
        hands = iter(fact.player.cards), iter(fact.banker.cards)
        cards = [str(next(hands[slot[0] == "B"])) for slot in fact.slots]
        assert oracle.following(cards) is None
        assert oracle.hands(cards) == ([*fact.player.cards], [*fact.banker.cards])
        assert fact.outcome == oracle.outcome(cards)
        assert (fact.player.points, fact.banker.points) == tuple(map(oracle.points, oracle.hands(cards)))


@pytest.mark.parametrize(
    "name", ["seeds-commission", *[pytest.param(name, marks=pytest.mark.soak) for name in sorted(PROFILES)[::2]]]
)
def test_a_dealer_plays_a_whole_shoe_by_the_prompts_alone(name: str) -> None:
    async def story() -> None:
        evening = Evening(PROFILES[name])
        async with evening.open():
            await until(lambda: evening.of(ShoeClosed), "the shoe's end", 90)
        (closed,) = evening.of(ShoeClosed)
        assert closed.reason == "cut_card"
        assert closed.burned + closed.dealt + closed.left == 416
        assert closed.misreads > 0
        rounds = evening.of(RoundCompleted)
        assert [fact.round for fact in rounds] == list(range(1, closed.rounds + 1))
        assert closed.rounds > 60
        assert [fact.last_round for fact in rounds] == [False] * (closed.rounds - 1) + [True]
        check_rounds(rounds)
        assert recover(evening.journal) == evening.loop.state

    run(story())


def headlines() -> Iterator[str]:
    with (LOCALE / "es" / "LC_MESSAGES" / "panel.po").open("rb") as file:
        for message in read_po(file):
            if str(message.id).endswith(".headline"):
                yield str(message.id).removesuffix(".headline")


# What only time, the link or a technician ends. The rest of the catalogue a dealer acts on, or the pit boss does.
WAITS = {"betting", "no_more", "unsure", "missing"}
WAITS |= {"offline", "disk", "limits", "enrolment", "I33", "I34", "I40", "I41"}


def test_for_every_prompt_there_is_somebody() -> None:
    first = {key.partition(".")[0] for key in headlines()}
    acts = {key.partition(".")[0] for key, act in DEALER_ACTS.items() if act is not None}
    assert acts <= first
    assert first == acts | set(PIT_CHOICES) | WAITS
    assert WAITS.isdisjoint(acts | set(PIT_CHOICES))


@pytest.mark.parametrize(("code", "choice"), PIT_CHOICES.items())
def test_the_pit_boss_chooses_what_is_his(code: str, choice: str) -> None:
    assert ROWS[code].exits[choice] is Who.PIT


Acts = Callable[[Evening], Coroutine[Any, Any, None]]


async def _ready(evening: Evening) -> None:
    await evening.shows("closed")
    await evening.hands.confirm()
    await evening.shows("step.load")
    await evening.hands.confirm()
    await evening.shows("ready")


async def _before_time(evening: Evening) -> None:
    await evening.hands.start()
    await evening.hands.draw()


async def _in_ready(evening: Evening) -> None:
    await evening.hands.draw()


async def _called(evening: Evening) -> None:
    await evening.hands.call()
    assert evening.loop.state.called


@pytest.mark.parametrize(
    ("acts", "code", "choice"),
    [(_before_time, "I07", "burn"), (_in_ready, "I09", "burn"), (_called, None, None)],
)
def test_the_pit_boss_comes_and_the_table_goes_on(acts: Acts, code: str | None, choice: str | None) -> None:
    async def story() -> None:
        evening = Evening(replace(CLASSIC, shoe_steps=("load",)), dealer=False, misread=0.0)
        async with evening.open():
            await _ready(evening)
            await acts(evening)
            await until(lambda: not (evening.loop.state.conditions or evening.loop.state.called), "the pit boss")
            assert evening.decided == ([(code, choice)] if code else [])
            resolved = [(fact.code, fact.choice, fact.by) for fact in evening.of(IrregularityResolved) if fact.by]
            assert resolved == ([(code, choice, (DEALER, PIT))] if code else [])
            await evening.hands.start()
            assert evening.loop.state.phase is Phase.BETTING
            assert evening.refused == []

    run(story())


def test_a_refused_button_is_answered() -> None:
    async def story() -> None:
        evening = Evening(replace(CLASSIC, shoe_steps=("load",)), dealer=False)
        async with evening.open():
            await evening.hands.start()
            await evening.hands.hold()
            assert evening.refused == ["not_now", "not_now"]

    run(story())


# --- the journal ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryJournal()
        return
    on_disk = JournalSqlite(tmp_path, allow_volatile=True, reserve_bytes=0)
    on_disk.open()
    yield on_disk
    on_disk.close()


def test_a_journal_keeps_what_it_is_given(journal: Any) -> None:  # noqa: ANN401 - either one
    async def story() -> None:
        pen = Pen(journal)
        assert (journal.last, journal.last_message, journal.head) == ((0, bytes(32)), (0, "0" * 64), 0)
        assert journal.recover() == (None, ())
        first = [pen.row("one", messages=2), pen.row("two", messages=0, key=("head", "1"))]
        await journal.commit(first)
        assert journal.recover() == (None, (b"one", b"two"))
        saved = [pen.row("three", saved=b"state"), pen.row("four", messages=3)]
        await journal.commit(saved)
        assert journal.recover() == (b"state", (b"four",))
        assert journal.last == (4, saved[-1].hash)
        assert journal.last_message == (6, saved[-1].messages[-1].hash)
        messages = [message for row in first + saved for message in row.messages]
        for after, limit in ((0, 10), (0, 2), (4, 1), (6, 10), (9, 10), (2, 0)):
            assert journal.read(after, limit) == messages[after : after + limit]
        assert journal.seen(("head", "1"))
        assert not journal.seen(("head", "2"))
        assert journal.ailing == ""

    run(story())


def test_a_journal_has_cursors_that_move_forward(journal: Any) -> None:  # noqa: ANN401 - either one
    async def story() -> None:
        pen = Pen(journal)
        waits = asyncio.create_task(journal.wait(2))
        await journal.commit([pen.row(messages=2)])
        await asyncio.sleep(0)
        assert not waits.done()
        await journal.commit([pen.row()])
        await waits
        for seqno, stands in ((2, 2), (1, 2), (3, 3)):
            journal.advance("file", seqno)
            assert (journal.cursor("file"), journal.cursor("mqtt")) == (stands, 0)
        with pytest.raises(ValueError, match="receipt for 4"):
            journal.advance("file", 4)

    run(story())


def _gap(pen: Pen) -> Sealed:
    pen.row()
    return pen.row()


def _other_hash(pen: Pen) -> Sealed:
    return pen.row()._replace(body=b"another")


def _other_message(pen: Pen) -> Sealed:
    row = pen.row()
    return row._replace(messages=(row.messages[0]._replace(data=b"{}"),))


def _skipped_seqno(pen: Pen) -> Sealed:
    pen.seqno += 1
    return pen.row()


def _key_again(pen: Pen) -> Sealed:
    return pen.row(key=("head", "1"))


@pytest.mark.parametrize("wrong", [_gap, _other_hash, _other_message, _skipped_seqno, _key_again])
def test_a_journal_in_memory_stores_nothing_of_a_wrong_batch(wrong: Callable[[Pen], Sealed]) -> None:
    async def story() -> None:
        journal = MemoryJournal()
        pen = Pen(journal)  # type: ignore[arg-type]
        await journal.commit([pen.row(key=("head", "1"))])
        before = journal.last, journal.head
        with pytest.raises(AssertionError):
            await journal.commit([pen.row(), wrong(pen)])
        assert (journal.last, journal.head) == before

    run(story())


def test_a_broken_journal_says_why_and_stores_nothing() -> None:
    async def story() -> None:
        journal = MemoryJournal()
        pen = Pen(journal)  # type: ignore[arg-type]
        row = pen.row()
        journal.broken = "the disk is full"
        with pytest.raises(JournalError, match="full"):
            await journal.commit([row])
        assert journal.head == 0
        journal.broken = ""
        await journal.commit([row])
        assert journal.head == 1

    run(story())
