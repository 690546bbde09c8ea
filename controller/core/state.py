"""What the table knows, and how a fact changes it. This file imports cards, profile data and facts: never the rules.

Rule 1: everything that a restart must bring back is in `State`, and only `evolve` makes one.
Rule 2: `evolve` only grows. A fact once written means for ever what it meant.

Named tuples, because a round makes a dozen of them and `_replace` is the cheapest honest copy. `check` holds the
invariants; it runs on every State made, in production too, and a broken one ends the program before anything shows.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from . import facts as f
from .cards import FACE, LETTER, UNKNOWN, Card, Slot
from .facts import Deadline, Fact, Phase, Stops, Timer, Who
from .profile import Limit, Procedure, Profile


class Fate(StrEnum):
    """What became of a card that left the shoe, one at a time; the value is its letter in the ledger."""

    PENDING = "p"
    SLOT = "s"
    BURNED = "b"
    DUMMY = "d"
    VOID = "v"
    LEFT = "l"
    CUT = "c"  # it was no card but the cut card


class Waiting(NamedTuple):
    """A card that is out and has no place yet; it left at `at`, and `read` says how its face came, once it has."""

    n: int
    at: int
    read: str = ""


class Shoe(NamedTuple):
    """A loading of the shoe. `faces` and `fates` are the ledger, a letter a card: card n is at n - 1 (B11)."""

    number: int
    profile: Profile
    faces: str = ""
    fates: str = ""
    unread: tuple[int, ...] = ()  # moved, no scan yet, oldest first
    unsure: int | None = None  # the first card of a row each of which was read while the next one waited for its scan
    waiting: tuple[Waiting, ...] = ()  # pending, oldest first: what will be placed next
    aside: int | None = None  # I09 next: the card that will be the next round's first
    burn_of: int | None = None
    burn_done: int = 0
    back: int = 0  # cards with a number that were pushed back into the shoe (I17)
    cut_waits: int | None = None  # the cut card was seen at the mouth behind this card
    cut: bool = False
    cut_drawn: f.CutCardDrawn | None = None  # while it may still turn out to have been a card (I22)
    cut_passed: f.CutCardPassed | None = None  # out, and not decided yet
    last_round: int | None = None
    end: str | None = None  # the reason for which the shoe ends after this round
    rounds: int = 0  # the number of the round begun last
    counted: int = 0  # completed rounds (C6)
    misreads: int = 0
    opened_at: int = 0  # what the sensor head tells of a time before is of the last shoe
    counted_at: int = 0  # the cards that it tells of a time before, people have counted

    @property
    def out(self) -> int:
        return len(self.fates)

    @property
    def cut_numbers(self) -> int:
        """How many numbers are no card's: 1 where the cut card has one."""
        return self.fates.count(Fate.CUT)

    def face(self, n: int) -> Card | None:
        return FACE[self.faces[n - 1]]

    def fate(self, n: int) -> Fate:
        return Fate(self.fates[n - 1])


class Betting(NamedTuple):
    """The betting time of a stage, open until `closed_at`.

    `draw`: the prompt for the card after it may show; `heard`: its sound belongs to an earlier run of the program.
    """

    stage: int
    opened_at: int
    closes_at: int
    closed_at: int | None = None
    closed_seqno: int | None = None
    draw: bool = False
    heard: bool = False


class Round(NamedTuple):
    """The round in progress; `numbers`, `slots` and `cards` in the order of the deal."""

    number: int
    bets: tuple[str, ...]
    last: bool
    dummy: bool = False
    betting: Betting | None = None
    next: Slot | None = Slot.P1
    numbers: tuple[int, ...] = ()
    slots: tuple[Slot, ...] = ()
    cards: tuple[Card, ...] = ()
    dealt_at: int | None = None
    manual: bool = False  # a card of it was keyed in (I42)


class Condition(NamedTuple):
    """Something that stands over the phase (I-codes, device faults). `raised` is its message's seqno."""

    code: str
    stops: Stops
    exits: dict[str, Who]
    detail: dict[str, str]
    raised: int
    n: int  # the card it is about, else the last one out: the earliest prompts first
    phase: Phase  # where the table was when it was raised
    part: str = ""


class Link(NamedTuple):
    """The primary publisher's link; `reason` says why it is down."""

    up: bool = False
    reason: str = ""


class Day(NamedTuple):
    """The gaming day's tally, told when the table closes."""

    shoes: int = 0
    rounds: int = 0
    voids: int = 0
    misreads: int = 0


class State(NamedTuple):
    """`seqno` counts the public facts: the last message's number in the feed. It stands first for `evolve`'s sake."""

    seqno: int = 0
    phase: Phase = Phase.CLOSED
    procedure: Procedure = Procedure()
    profile: Profile | None = None  # the one for the next shoe
    confighash: str = ""
    boot: str = ""
    clean: bool = True  # the program before this one said goodbye
    step: str | None = None  # the shoe step to do next, in preparing
    shoe: Shoe | None = None
    round: Round | None = None
    present: bool = True  # a card lies in the mouth, as far as anything can tell
    lid_open: bool = False
    last: f.RoundCompleted | f.RoundVoided | f.RoundCancelled | None = None
    conditions: tuple[Condition, ...] = ()
    deadlines: tuple[Deadline, ...] = ()
    link: Link = Link()
    called: bool = False
    shoes: int = 0  # shoes opened in this generation
    day: Day = Day()
    limits: tuple[Limit, ...] = ()  # empty: the casino has told none (C7)
    enrolled: bool = False
    key_turned: bool = False  # the pit boss's key is in its switch


def shoe_of(state: State) -> Shoe:
    """The shoe of a table that has one loaded; AssertionError where it has none."""
    assert state.shoe is not None, "a shoe is loaded"
    return state.shoe


def round_of(state: State) -> Round:
    """The round of a table that is in one; AssertionError where it is in none."""
    assert state.round is not None, "a round is in progress"
    return state.round


def evolve(state: State, fact: Fact) -> State:
    """The state after a fact. Total over every kind of fact; AssertionError when an invariant breaks."""
    kind = type(fact)
    after = _EVOLVE[kind](state, fact)
    if kind in f.PUBLIC:
        after = State._make((state.seqno + 1, *after[1:]))
    shoe, before = after.shoe, state.shoe
    if shoe is not before and shoe is not None and before is not None:
        grown = len(shoe.fates) - len(before.fates)
        assert grown in (0, 1), "a fact makes at most one card number, and none drops one"
    check(after)
    return after


def fold(state: State, facts: Iterable[Fact]) -> State:
    """The state after these facts, in their order."""
    for fact in facts:
        state = evolve(state, fact)
    return state


def check(state: State) -> None:
    """The invariants; each line is a sentence that must be true of a table."""
    phase, shoe, round_ = state.phase, state.shoe, state.round
    assert (shoe is None) == (phase in _NO_SHOE), "a shoe is loaded in exactly the phases that need one"
    assert (round_ is not None) == (phase in _IN_ROUND), "a round is in progress in exactly the phases that need one"
    if shoe is None:
        return
    fates = shoe.fates
    assert len(shoe.faces) == len(fates), "every number has one face entry and one fate"
    for waiting in shoe.waiting:
        assert fates[waiting.n - 1] == Fate.PENDING, "what waits is pending"
    if round_ is None:
        return
    numbers, cards = round_.numbers, round_.cards
    if numbers:
        assert len(numbers) == len(cards) == len(round_.slots) <= 6, "a round has at most six cards"
        last = numbers[-1] - 1
        assert fates[last] == (Fate.DUMMY if round_.dummy else Fate.SLOT), "a card of the round has a slot"
        assert shoe.faces[last] == LETTER[cards[-1]], "a slot shows the face of its card"
    if phase is Phase.RESULT:
        assert round_.next is None, "a result has no slot open"


# Where each fact that moves the phase may take it; the diagram in ARCHITECTURE.md is drawn from this.
LEADS_TO: dict[type[Fact], frozenset[Phase]] = {
    f.TableOpened: frozenset({Phase.PREPARING}),
    f.TableClosed: frozenset({Phase.CLOSED}),
    f.ShoeOpened: frozenset({Phase.BURNING, Phase.READY}),
    f.CardBurned: frozenset({Phase.READY}),
    f.BurnEnded: frozenset({Phase.READY}),
    f.ShoeEndQueued: frozenset({Phase.UNLOADING}),
    f.ShoeClosed: frozenset({Phase.PREPARING}),
    f.RoundBegun: frozenset({Phase.DEALING}),
    f.BettingOpened: frozenset({Phase.BETTING}),
    f.BettingClosed: frozenset({Phase.CLOSING}),
    f.CardDealt: frozenset({Phase.DEALING}),
    f.CardCorrected: frozenset({Phase.DEALING}),
    f.RoundDealt: frozenset({Phase.RESULT}),
    f.RoundCompleted: frozenset({Phase.READY, Phase.UNLOADING}),
    f.RoundVoided: frozenset({Phase.READY, Phase.UNLOADING}),
    f.RoundCancelled: frozenset({Phase.READY, Phase.UNLOADING}),
}

_NO_SHOE = frozenset({Phase.CLOSED, Phase.PREPARING})
_IN_ROUND = frozenset({Phase.BETTING, Phase.CLOSING, Phase.DEALING, Phase.RESULT})


# --- helpers: each one small change --------------------------------------------------------------------


def _set(state: State, timer: Timer, at: int | None) -> tuple[Deadline, ...]:
    """The deadlines with `timer` at `at`, or gone; earliest first."""
    rest = tuple([d for d in state.deadlines if d.timer is not timer]) if state.deadlines else ()
    if at is None:
        return rest
    return tuple(sorted((*rest, Deadline(at, timer)), key=lambda d: d.at))


def _without(state: State, *timers: Timer) -> tuple[Deadline, ...]:
    return tuple([d for d in state.deadlines if d.timer not in timers]) if state.deadlines else ()


def _fate(shoe: Shoe, n: int, fate: Fate, card: Card | None = None) -> Shoe:
    """Card `n` has this fate now and waits no longer; its face is `card` where one is given."""
    if card is not None and n == len(shoe.fates) + 1:
        return shoe._replace(fates=shoe.fates + fate, faces=shoe.faces + LETTER[card])
    return shoe._replace(
        fates=_put(shoe.fates, n, fate),
        faces=_put(shoe.faces, n, shoe.faces[n - 1 : n] or UNKNOWN if card is None else LETTER[card]),
        unread=_drop(shoe.unread, n),
        waiting=_gone(shoe.waiting, n),
        aside=None if shoe.aside == n else shoe.aside,
    )


def _put(ledger: str, n: int, letter: str) -> str:
    """The ledger with this letter at card `n`; the card that has just left is one past its end."""
    assert n <= len(ledger) + 1, "numbers count up by one"
    return ledger[: n - 1] + letter + ledger[n:]


def _drop(numbers: tuple[int, ...], n: int) -> tuple[int, ...]:
    return tuple([other for other in numbers if other != n]) if numbers else numbers


def _gone(waiting: tuple[Waiting, ...], n: int) -> tuple[Waiting, ...]:
    return tuple([other for other in waiting if other.n != n]) if waiting else waiting


_ROUND_TIMERS = (Timer.BETTING, Timer.GRACE, Timer.READ, Timer.CONFIRM, Timer.REMIND, Timer.EMPTY)


# --- one function a fact ---------------------------------------------------------------------------------


def _journal_opened(state: State, fact: f.JournalOpened) -> State:
    return state._replace(seqno=0)


def _table_started(state: State, fact: f.TableStarted) -> State:
    if state.boot != fact.boot:
        state = _in_this_boot(state, fact.at)
    round_ = state.round
    if round_ and round_.betting and round_.betting.closed_at is not None:
        round_ = round_._replace(betting=round_.betting._replace(heard=True))
    return state._replace(
        boot=fact.boot, clean=False, round=round_, deadlines=fact.deadlines, link=Link(), called=False
    )


def _in_this_boot(state: State, at: int) -> State:
    """The times of another boot mean nothing in this one: what happened then happened before `at`."""
    round_, shoe = state.round, state.shoe
    if round_ and round_.betting and round_.betting.closed_at is not None:
        round_ = round_._replace(betting=round_.betting._replace(closed_at=at))
    if round_ and round_.dealt_at is not None:
        round_ = round_._replace(dealt_at=at)
    if shoe:
        shoe = shoe._replace(waiting=tuple([waiting._replace(at=at) for waiting in shoe.waiting]))
        if passed := shoe.cut_passed:
            shoe = shoe._replace(cut_passed=f.CutCardPassed(passed.via, passed.n_before, at))
        if drawn := shoe.cut_drawn:
            drawn = f.CutCardDrawn(drawn.where, drawn.via, drawn.n_before, drawn.last_round, at)
            shoe = shoe._replace(cut_drawn=drawn)
        shoe = shoe._replace(opened_at=0, counted_at=0)
    return state._replace(round=round_, shoe=shoe)


def _table_stopped(state: State, fact: f.TableStopped) -> State:
    return state._replace(clean=True)


def _config_activated(state: State, fact: f.ConfigActivated) -> State:
    return state._replace(procedure=fact.procedure, profile=fact.profile, confighash=fact.hash)


def _table_opened(state: State, fact: f.TableOpened) -> State:
    assert state.profile is not None, "a table opens under a profile"
    return state._replace(phase=Phase.PREPARING, step=state.profile.shoe_steps[0], day=Day())


def _table_closed(state: State, fact: f.TableClosed) -> State:
    return state._replace(phase=Phase.CLOSED, step=None)


def _shoe_step_done(state: State, fact: f.ShoeStepDone) -> State:
    return state._replace(step=fact.next)


def _shoe_opened(state: State, fact: f.ShoeOpened) -> State:
    shoe = Shoe(fact.shoe, fact.profile, burn_of=fact.burn, opened_at=fact.at)
    return state._replace(
        phase=fact.then,
        step=None,
        shoe=shoe,
        last=None,
        shoes=fact.shoe,
        day=state.day._replace(shoes=state.day.shoes + 1),
    )


def _card_out(state: State, fact: f.CardOut) -> State:
    shoe = shoe_of(state)
    assert fact.n == shoe.out + 1, "numbers count up by one"
    unread = shoe.unread
    if unread and state.phase is not Phase.BURNING and not _reads_burned(shoe):
        unread = tuple([n for n in unread if shoe.fates[n - 1] != Fate.BURNED])  # nobody will read them
    return state._replace(
        shoe=shoe._replace(
            faces=shoe.faces + UNKNOWN,
            fates=shoe.fates + Fate.PENDING,
            waiting=(*shoe.waiting, Waiting(fact.n, fact.at)),
            unread=(*unread, fact.n),
        ),
        deadlines=_without(state, Timer.EMPTY),
    )


_LAG = 2  # burned cards whose scans may still come: as many as may wait elsewhere (scanner.max_pending)


def _reads_burned(shoe: Shoe) -> bool:
    """Whether this shoe's burned cards pass the scanner: they were read beside the one turned up; the last may lag.

    One read among many is no proof: it may be the next round's first card, whose scan overtook its movement.
    """
    burned = [face for face, fate in zip(shoe.faces, shoe.fates, strict=True) if fate == Fate.BURNED]
    unread = burned.count(UNKNOWN)
    return unread <= _LAG and len(burned) - unread > 1


def _card_read(state: State, fact: f.CardRead) -> State:
    shoe = shoe_of(state)
    shoe = shoe._replace(
        faces=_put(shoe.faces, fact.n, LETTER[fact.card]),
        unread=_drop(shoe.unread, fact.n),
        waiting=tuple([w._replace(read=fact.read) if w.n == fact.n else w for w in shoe.waiting]),
        aside=None if shoe.aside == fact.n else shoe.aside,
    )
    if shoe.unsure is not None:
        shoe = shoe._replace(unsure=_unsure(shoe, shoe.unsure))
    return state._replace(shoe=shoe, deadlines=_without(state, Timer.READ))


def _card_burned(state: State, fact: f.CardBurned) -> State:
    before = shoe_of(state)
    shoe = _fate(before, fact.n, Fate.BURNED, fact.card)
    if state.phase is Phase.BURNING:
        shoe = shoe._replace(burn_of=fact.of, burn_done=fact.done)
        if fact.card is None and state.procedure.sensors:
            shoe = shoe._replace(unread=before.unread)  # it needs no scan, but may still get it
    return state._replace(shoe=shoe, phase=fact.then or state.phase, deadlines=_without(state, Timer.READ))


def _burn_ended(state: State, fact: f.BurnEnded) -> State:
    return state._replace(phase=Phase.READY)


def _cut_card_passed(state: State, fact: f.CutCardPassed) -> State:
    return state._replace(shoe=shoe_of(state)._replace(cut_passed=fact))


def _cut_card_numbered(state: State, fact: f.CutCardNumbered) -> State:
    return state._replace(shoe=_fate(shoe_of(state), fact.n, Fate.CUT), deadlines=_without(state, Timer.READ))


def _cut_card_denied(state: State, fact: f.CutCardDenied) -> State:
    shoe = shoe_of(state)._replace(cut=False, cut_drawn=None, cut_waits=None, last_round=None)
    round_ = state.round._replace(last=fact.last) if state.round else None
    return state._replace(shoe=shoe, round=round_)


def _cut_card_drawn(state: State, fact: f.CutCardDrawn) -> State:
    shoe = shoe_of(state)._replace(cut=True, cut_passed=None, cut_drawn=fact, last_round=fact.last_round)
    round_ = state.round
    if round_ is not None:
        round_ = round_._replace(last=round_.number >= fact.last_round)
    return state._replace(shoe=shoe, round=round_)


def _shoe_end_queued(state: State, fact: f.ShoeEndQueued) -> State:
    shoe = shoe_of(state)._replace(end=fact.reason)
    return state._replace(shoe=shoe, phase=fact.then or state.phase)


def _card_left(state: State, fact: f.CardLeft) -> State:
    return state._replace(shoe=_fate(shoe_of(state), fact.n, Fate.LEFT), deadlines=_without(state, Timer.READ))


def _shoe_closed(state: State, fact: f.ShoeClosed) -> State:
    day = state.day._replace(rounds=state.day.rounds + fact.rounds)
    return state._replace(phase=fact.then, shoe=None, step=fact.step, deadlines=(), day=day)


def _round_begun(state: State, fact: f.RoundBegun) -> State:
    round_ = Round(fact.round, fact.bets, fact.last_round, fact.dummy, next=fact.next)
    return state._replace(phase=Phase.DEALING, shoe=shoe_of(state)._replace(rounds=fact.round), round=round_)


def _betting_opened(state: State, fact: f.BettingOpened) -> State:
    round_ = state.round
    if round_ is None:
        round_ = Round(fact.round, fact.bets, fact.last_round)
    round_ = round_._replace(
        betting=Betting(fact.stage, fact.opened_at, fact.closes_at),
        next=fact.before,
        bets=tuple(dict.fromkeys((*round_.bets, *fact.bets))),
    )
    return state._replace(
        phase=Phase.BETTING,
        round=round_,
        shoe=shoe_of(state)._replace(rounds=fact.round),
        deadlines=_set(state, Timer.BETTING, fact.closes_at),
    )


def _betting_closed(state: State, fact: f.BettingClosed) -> State:
    round_ = round_of(state)
    assert round_.betting is not None, "what closes was open"
    betting = round_.betting._replace(closed_at=fact.at, draw=fact.draw, closed_seqno=state.seqno + 1)
    round_ = round_._replace(betting=betting)
    after = state._replace(phase=Phase.CLOSING, round=round_, deadlines=_without(state, Timer.BETTING))
    return after._replace(deadlines=_set(after, Timer.GRACE, fact.grace_at))


def _draw_called(state: State, fact: f.DrawCalled) -> State:
    round_ = round_of(state)
    assert round_.betting is not None
    round_ = round_._replace(betting=round_.betting._replace(draw=True))
    return state._replace(round=round_, deadlines=_without(state, Timer.GRACE))


def _card_dealt(state: State, fact: f.CardDealt) -> State:
    round_, shoe, n = round_of(state), shoe_of(state), fact.n
    round_ = round_._replace(
        numbers=(*round_.numbers, n),
        slots=(*round_.slots, fact.slot),
        cards=(*round_.cards, fact.card),
        next=fact.next,
        manual=round_.manual or fact.read == "manual",
    )
    shoe = _fate(shoe, n, Fate.DUMMY if round_.dummy else Fate.SLOT, fact.card)
    if shoe.unread or shoe.unsure is not None:
        asked = fact.read == "rescan" and any(c.code == "I02" for c in state.conditions)  # one by one
        shown = fact.read == "manual" or asked
        shoe = shoe._replace(unsure=None if shown else _unsure(shoe, n))
    deadlines = _without(state, Timer.GRACE, Timer.READ) if state.deadlines else ()
    return state._replace(phase=Phase.DEALING, round=round_, shoe=shoe, deadlines=deadlines)


def _unsure(shoe: Shoe, n: int) -> int | None:
    if any(m > n and shoe.fates[m - 1] == Fate.PENDING for m in shoe.unread):
        return shoe.unsure or n
    return None


def _card_corrected(state: State, fact: f.CardCorrected) -> State:
    """A scan taken back: the card is the last one of the round and waits to be read again."""
    round_, shoe = round_of(state), shoe_of(state)
    assert fact.after is None and round_.numbers[-1] == fact.n, "only the last scan is taken back"
    shoe = shoe._replace(
        fates=_put(shoe.fates, fact.n, Fate.PENDING),
        faces=_put(shoe.faces, fact.n, UNKNOWN),
        unread=(fact.n, *shoe.unread),
        unsure=None,
        waiting=(Waiting(fact.n, 0), *shoe.waiting),
    )
    round_ = round_._replace(
        numbers=round_.numbers[:-1],
        slots=round_.slots[:-1],
        cards=round_.cards[:-1],
        next=round_.slots[-1],
        dealt_at=None,
    )
    deadlines = _without(state, Timer.CONFIRM, Timer.REMIND)
    return state._replace(phase=Phase.DEALING, shoe=shoe, round=round_, deadlines=deadlines)


def _card_set_aside(state: State, fact: f.CardSetAside) -> State:
    shoe = shoe_of(state)
    shoe = shoe._replace(aside=fact.n, unread=_drop(shoe.unread, fact.n))
    return state._replace(shoe=shoe, deadlines=_without(state, Timer.READ))


def _card_discarded(state: State, fact: f.CardDiscarded) -> State:
    return state._replace(shoe=_fate(shoe_of(state), fact.n, Fate.VOID), deadlines=_without(state, Timer.READ))


def _card_admitted(state: State, fact: f.CardAdmitted) -> State:
    shoe, betting = shoe_of(state), round_of(state).betting
    assert betting is not None and betting.closed_at is not None, "it came before a close"
    waiting = tuple([w._replace(at=betting.closed_at) if w.n == fact.n else w for w in shoe.waiting])
    return state._replace(shoe=shoe._replace(waiting=waiting))


def _round_dealt(state: State, fact: f.RoundDealt) -> State:
    after = state._replace(phase=Phase.RESULT, round=round_of(state)._replace(dealt_at=fact.at))
    if fact.confirm_at is None and fact.remind_at is None:
        return after
    after = after._replace(deadlines=_set(after, Timer.CONFIRM, fact.confirm_at))
    return after._replace(deadlines=_set(after, Timer.REMIND, fact.remind_at))


def _round_completed(state: State, fact: f.RoundCompleted) -> State:
    shoe = shoe_of(state)._replace(unsure=None)
    if not fact.dummy:
        shoe = shoe._replace(counted=shoe.counted + 1)
    return _round_over(state, fact, shoe)


def _round_voided(state: State, fact: f.RoundVoided) -> State:
    shoe = shoe_of(state)._replace(unsure=None)
    for n in fact.numbers:
        shoe = _fate(shoe, n, Fate.VOID)
    return _round_over(state, fact, shoe)._replace(day=state.day._replace(voids=state.day.voids + 1))


def _round_cancelled(state: State, fact: f.RoundCancelled) -> State:
    return _round_over(state, fact, shoe_of(state))


def _round_over(state: State, fact: f.RoundCompleted | f.RoundVoided | f.RoundCancelled, shoe: Shoe) -> State:
    deadlines = _without(state, *_ROUND_TIMERS)
    return state._replace(phase=fact.then, shoe=shoe, round=None, last=fact, deadlines=deadlines)


def _irregularity_raised(state: State, fact: f.IrregularityRaised) -> State:
    detail = fact.detail
    n = int(detail["n"]) if "n" in detail else (state.shoe.out if state.shoe else 0)
    condition = Condition(fact.code, fact.stops, fact.exits, detail, state.seqno + 1, n, state.phase)
    after = state._replace(conditions=(*state.conditions, condition))
    if fact.code not in ("I01", "I02") or after.shoe is None:
        return after
    shoe = after.shoe._replace(misreads=after.shoe.misreads + 1)
    deadlines = _without(after, Timer.READ)
    return after._replace(shoe=shoe, day=after.day._replace(misreads=after.day.misreads + 1), deadlines=deadlines)


def _irregularity_resolved(state: State, fact: f.IrregularityResolved) -> State:
    kept = tuple([c for c in state.conditions if c.raised != fact.raised])
    assert len(kept) == len(state.conditions) - 1, "what is resolved stood"
    shoe = state.shoe
    if fact.code == "I17" and shoe is not None:
        shoe = shoe._replace(back=0)  # people saw to it that every card is out
    if fact.code == "I22" and fact.choice == "yes" and shoe is not None:
        shoe = shoe._replace(cut_drawn=None)  # people have seen it
    if fact.counted_at and shoe is not None:
        shoe = shoe._replace(counted_at=fact.counted_at)
    return state._replace(conditions=kept, shoe=shoe)


def _fault_raised(state: State, fact: f.FaultRaised) -> State:
    detail = {"part": fact.part, "text": fact.text}
    condition = Condition(fact.code, fact.stops, fact.exits, detail, state.seqno + 1, 0, state.phase, fact.part)
    return state._replace(conditions=(*state.conditions, condition))


def _fault_cleared(state: State, fact: f.FaultCleared) -> State:
    return state._replace(conditions=tuple([c for c in state.conditions if c.raised != fact.raised]))


def _staff_called(state: State, fact: f.StaffCalled) -> State:
    return state._replace(called=True, deadlines=_without(state, Timer.CONFIRM))


def _call_ended(state: State, fact: f.CallEnded) -> State:
    return state._replace(called=False)


def _link_went_up(state: State, fact: f.LinkWentUp) -> State:
    return state._replace(link=Link(up=True))


def _link_went_down(state: State, fact: f.LinkWentDown) -> State:
    return state._replace(link=Link(up=False, reason=fact.reason))


def _limits_set(state: State, fact: f.LimitsSet) -> State:
    return state._replace(limits=fact.limits)


def _table_enrolled(state: State, fact: f.TableEnrolled) -> State:
    return state._replace(enrolled=True)


def _command_answered(state: State, fact: f.CommandAnswered) -> State:
    return state


def _clock_set(state: State, fact: f.ClockSet) -> State:
    return state


def _mouth_seen(state: State, fact: f.MouthSeen) -> State:
    return state._replace(present=fact.present, deadlines=_without(state, Timer.EMPTY))


def _lid_moved(state: State, fact: f.LidMoved) -> State:
    return state._replace(lid_open=fact.is_open)


def _key_moved(state: State, fact: f.KeyMoved) -> State:
    return state._replace(key_turned=fact.turned)


def _card_went_back(state: State, fact: f.CardWentBack) -> State:
    shoe = shoe_of(state)
    return state._replace(shoe=shoe._replace(back=shoe.back + 1))


def _card_came_again(state: State, fact: f.CardCameAgain) -> State:
    shoe = shoe_of(state)
    assert shoe.back, "what comes again had gone back"
    return state._replace(shoe=shoe._replace(back=shoe.back - 1))


def _cut_card_sighted(state: State, fact: f.CutCardSighted) -> State:
    return state._replace(shoe=shoe_of(state)._replace(cut_waits=fact.n_before))


def _timer_set(state: State, fact: f.TimerSet) -> State:
    return state._replace(deadlines=_set(state, fact.timer, fact.at))


def _scan_failed(state: State, fact: f.ScanFailed) -> State:
    return state


def _timer_spent(state: State, fact: f.TimerSpent) -> State:
    return state._replace(deadlines=_without(state, fact.timer))


_EVOLVE: dict[type[Fact], Callable[[State, Any], State]] = {
    f.JournalOpened: _journal_opened,
    f.TableStarted: _table_started,
    f.TableStopped: _table_stopped,
    f.ConfigActivated: _config_activated,
    f.TableOpened: _table_opened,
    f.TableClosed: _table_closed,
    f.ShoeStepDone: _shoe_step_done,
    f.ShoeOpened: _shoe_opened,
    f.CardOut: _card_out,
    f.CardRead: _card_read,
    f.CardBurned: _card_burned,
    f.BurnEnded: _burn_ended,
    f.CutCardPassed: _cut_card_passed,
    f.CutCardDrawn: _cut_card_drawn,
    f.CutCardDenied: _cut_card_denied,
    f.CutCardNumbered: _cut_card_numbered,
    f.ShoeEndQueued: _shoe_end_queued,
    f.CardLeft: _card_left,
    f.ShoeClosed: _shoe_closed,
    f.RoundBegun: _round_begun,
    f.BettingOpened: _betting_opened,
    f.BettingClosed: _betting_closed,
    f.DrawCalled: _draw_called,
    f.CardDealt: _card_dealt,
    f.CardCorrected: _card_corrected,
    f.CardAdmitted: _card_admitted,
    f.CardSetAside: _card_set_aside,
    f.CardDiscarded: _card_discarded,
    f.RoundDealt: _round_dealt,
    f.RoundCompleted: _round_completed,
    f.RoundVoided: _round_voided,
    f.RoundCancelled: _round_cancelled,
    f.IrregularityRaised: _irregularity_raised,
    f.IrregularityResolved: _irregularity_resolved,
    f.FaultRaised: _fault_raised,
    f.FaultCleared: _fault_cleared,
    f.StaffCalled: _staff_called,
    f.CallEnded: _call_ended,
    f.LinkWentUp: _link_went_up,
    f.LinkWentDown: _link_went_down,
    f.LimitsSet: _limits_set,
    f.TableEnrolled: _table_enrolled,
    f.CommandAnswered: _command_answered,
    f.ClockSet: _clock_set,
    f.MouthSeen: _mouth_seen,
    f.LidMoved: _lid_moved,
    f.KeyMoved: _key_moved,
    f.CutCardSighted: _cut_card_sighted,
    f.CardWentBack: _card_went_back,
    f.CardCameAgain: _card_came_again,
    f.TimerSet: _timer_set,
    f.TimerSpent: _timer_spent,
    f.ScanFailed: _scan_failed,
}
