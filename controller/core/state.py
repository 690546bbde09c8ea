"""What the table knows, and how a fact changes it. This file imports cards, profile data and facts: never the rules.

Rule 1: everything that a restart must bring back is in `State`, and only `evolve` makes one.
Rule 2: `evolve` only grows. A fact once written means for ever what it meant.

Named tuples, because a round makes a dozen of them and `_replace` is the cheapest honest copy. `check` holds the
invariants; it runs on every State made, in production too, and a broken one ends the program before anything shows.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from . import facts as f
from .cards import Card, Slot
from .facts import Deadline, Fact, Phase, Stops, Timer, Who
from .profile import Procedure, Profile


class Fate(StrEnum):
    """What became of a card that left the shoe. One at a time."""

    PENDING = "pending"
    SLOT = "slot"
    BURNED = "burned"
    DUMMY = "dummy"
    VOID = "void"
    LEFT = "left"


class Shoe(NamedTuple):
    """A loading of the shoe. `faces` and `fates` are the ledger: card n is at n - 1 (B11)."""

    number: int
    profile: Profile
    faces: tuple[Card | None, ...] = ()
    fates: tuple[Fate, ...] = ()
    unread: tuple[int, ...] = ()  # moved, no scan yet, oldest first
    waiting: tuple[int, ...] = ()  # pending, oldest first: what will be placed next
    aside: int | None = None  # I09 next: the card that will be the next round's first
    burn_of: int | None = None
    burn_done: int = 0
    cut: bool = False
    last_round: int | None = None
    end: str | None = None  # the reason for which the shoe ends after this round
    rounds: int = 0  # the number of the round begun last
    counted: int = 0  # completed rounds (C6)
    misreads: int = 0
    present: bool = True
    out_at: int = 0  # when the card that left last did

    @property
    def out(self) -> int:
        return len(self.fates)


class Round(NamedTuple):
    """The round in progress; `numbers` and `cards` in the order of the deal."""

    number: int
    bets: tuple[str, ...]
    last: bool
    dummy: bool = False
    next: Slot | None = Slot.P1
    numbers: tuple[int, ...] = ()
    slots: tuple[Slot, ...] = ()
    cards: tuple[Card, ...] = ()
    stage: int = 0
    opened_at: int = 0
    closes_at: int = 0
    closed_at: int | None = None
    closed_seqno: int | None = None
    draw: bool = True  # the prompt for the card may show
    dealt_at: int | None = None


class Condition(NamedTuple):
    """Something that stands over the phase (I-codes, device faults). `raised` is its message's seqno."""

    code: str
    stops: Stops
    exits: dict[str, Who]
    detail: dict[str, str]
    raised: int
    n: int  # the card it is about, else the last one out: the earliest prompts first
    part: str = ""


class State(NamedTuple):
    phase: Phase = Phase.CLOSED
    procedure: Procedure = Procedure()
    profile: Profile | None = None  # the one for the next shoe
    confighash: str = ""
    boot: str = ""
    step: str | None = None  # the shoe step to do next, in preparing
    shoe: Shoe | None = None
    round: Round | None = None
    last: f.RoundCompleted | f.RoundVoided | f.RoundCancelled | None = None
    conditions: tuple[Condition, ...] = ()
    deadlines: tuple[Deadline, ...] = ()
    link: bool = False
    link_reason: str = ""
    called: bool = False
    seqno: int = 0
    shoes: int = 0  # shoes opened in this generation
    day_shoes: int = 0
    day_rounds: int = 0
    day_voids: int = 0
    day_misreads: int = 0


def evolve(state: State, fact: Fact) -> State:
    """The state after a fact. Total over every kind of fact; AssertionError when an invariant breaks."""
    after = _EVOLVE[type(fact)](state, fact)
    if type(fact) in f.PUBLIC:
        after = after._replace(seqno=state.seqno + 1)
    check(after)
    assert _numbers(after) - _numbers(state) == (type(fact) is f.CardOut) or type(fact) in (f.ShoeOpened, f.ShoeClosed), (
        "only CardOut makes a card number, and nothing drops one"
    )
    return after


def check(state: State) -> None:
    """The invariants; each line is a sentence that must be true of a table."""
    shoe, round_, phase = state.shoe, state.round, state.phase
    assert (shoe is None) == (phase in _NO_SHOE), "a shoe is loaded in exactly the phases that need one"
    assert (round_ is not None) == (phase in _IN_ROUND), "a round is in progress in exactly the phases that need one"
    if shoe is None:
        return
    assert len(shoe.faces) == len(shoe.fates), "every number has one face entry and one fate"
    for n in shoe.waiting:
        assert shoe.fates[n - 1] is Fate.PENDING, "what waits is pending"
    if round_ is not None and round_.numbers:
        assert len(round_.numbers) == len(round_.cards) == len(round_.slots) <= 6
        assert shoe.fates[round_.numbers[-1] - 1] is (Fate.DUMMY if round_.dummy else Fate.SLOT)
        assert shoe.faces[round_.numbers[-1] - 1] == round_.cards[-1], "a slot shows the face of its card"
    if phase is Phase.RESULT:
        assert round_ is not None and round_.next is None, "a result has no slot open"


_NO_SHOE = frozenset({Phase.CLOSED, Phase.PREPARING})
_IN_ROUND = frozenset({Phase.BETTING, Phase.CLOSING, Phase.DEALING, Phase.RESULT})


def _numbers(state: State) -> int:
    return 0 if state.shoe is None else len(state.shoe.fates)


def is_read(shoe: Shoe, n: int) -> bool:
    return shoe.faces[n - 1] is not None


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
    index = n - 1
    fates = (*shoe.fates[:index], fate, *shoe.fates[n:])
    faces = shoe.faces if card is None else (*shoe.faces[:index], card, *shoe.faces[n:])
    return shoe._replace(
        fates=fates,
        faces=faces,
        unread=_drop(shoe.unread, n),
        waiting=_drop(shoe.waiting, n),
        aside=None if shoe.aside == n else shoe.aside,
    )


def _drop(numbers: tuple[int, ...], n: int) -> tuple[int, ...]:
    return tuple([other for other in numbers if other != n]) if numbers else numbers


def _shoe(state: State) -> Shoe:
    assert state.shoe is not None, "this fact needs a shoe"
    return state.shoe


def _round(state: State) -> Round:
    assert state.round is not None, "this fact needs a round"
    return state.round


_ROUND_TIMERS = (Timer.BETTING, Timer.GRACE, Timer.READ, Timer.CONFIRM, Timer.REMIND, Timer.EMPTY)


# --- one function a fact ---------------------------------------------------------------------------------


def _journal_opened(state: State, fact: f.JournalOpened) -> State:
    return state._replace(seqno=0)


def _table_started(state: State, fact: f.TableStarted) -> State:
    shoe = state.shoe
    return state._replace(boot=fact.boot, deadlines=fact.deadlines, link=False, shoe=shoe, called=False)


def _table_stopped(state: State, fact: f.TableStopped) -> State:
    return state


def _config_activated(state: State, fact: f.ConfigActivated) -> State:
    return state._replace(procedure=fact.procedure, profile=fact.profile, confighash=fact.hash)


def _table_opened(state: State, fact: f.TableOpened) -> State:
    assert state.profile is not None, "a table opens under a profile"
    return state._replace(
        phase=Phase.PREPARING,
        step=state.profile.shoe_steps[0],
        day_shoes=0,
        day_rounds=0,
        day_voids=0,
        day_misreads=0,
    )


def _table_closed(state: State, fact: f.TableClosed) -> State:
    return state._replace(phase=Phase.CLOSED, step=None)


def _shoe_step_done(state: State, fact: f.ShoeStepDone) -> State:
    return state._replace(step=fact.next)


def _shoe_opened(state: State, fact: f.ShoeOpened) -> State:
    shoe = Shoe(fact.shoe, fact.profile, burn_of=fact.burn)
    return state._replace(
        phase=fact.then, step=None, shoe=shoe, last=None, shoes=fact.shoe, day_shoes=state.day_shoes + 1
    )


def _card_out(state: State, fact: f.CardOut) -> State:
    shoe = _shoe(state)
    assert fact.n == shoe.out + 1, "numbers count up by one"
    shoe = shoe._replace(
        faces=(*shoe.faces, None),
        fates=(*shoe.fates, Fate.PENDING),
        waiting=(*shoe.waiting, fact.n),
        unread=(*shoe.unread, fact.n),
        out_at=fact.at,
    )
    if fact.read_by is None or any(d.timer is Timer.READ for d in state.deadlines):
        return state._replace(shoe=shoe)
    return state._replace(shoe=shoe, deadlines=_set(state, Timer.READ, fact.read_by))


def _card_read(state: State, fact: f.CardRead) -> State:
    shoe, index = _shoe(state), fact.n - 1
    faces = (*shoe.faces[:index], fact.card, *shoe.faces[fact.n :])
    shoe = shoe._replace(faces=faces, unread=_drop(shoe.unread, fact.n))
    return state._replace(shoe=shoe, deadlines=_without(state, Timer.READ))


def _card_burned(state: State, fact: f.CardBurned) -> State:
    before = _shoe(state)
    shoe = _fate(before, fact.n, Fate.BURNED, fact.card)
    if fact.card is None:
        shoe = shoe._replace(unread=before.unread)  # its scan may still come; it needs none
    shoe = shoe._replace(burn_of=fact.of, burn_done=fact.done)
    if fact.then is not None:
        shoe = shoe._replace(unread=())
    return state._replace(shoe=shoe, phase=fact.then or state.phase, deadlines=_without(state, Timer.READ))


def _burn_ended(state: State, fact: f.BurnEnded) -> State:
    return state._replace(phase=Phase.READY, shoe=_shoe(state)._replace(unread=()))


def _cut_card_drawn(state: State, fact: f.CutCardDrawn) -> State:
    shoe = _shoe(state)._replace(cut=True, last_round=fact.last_round)
    round_ = state.round
    if round_ is not None:
        round_ = round_._replace(last=round_.number >= fact.last_round)
    return state._replace(shoe=shoe, round=round_)


def _shoe_end_queued(state: State, fact: f.ShoeEndQueued) -> State:
    shoe = _shoe(state)._replace(end=fact.reason)
    return state._replace(shoe=shoe, phase=fact.then or state.phase)


def _card_left(state: State, fact: f.CardLeft) -> State:
    return state._replace(shoe=_fate(_shoe(state), fact.n, Fate.LEFT), deadlines=_without(state, Timer.READ))


def _shoe_closed(state: State, fact: f.ShoeClosed) -> State:
    return state._replace(phase=fact.then, shoe=None, step=fact.step, deadlines=())


def _round_begun(state: State, fact: f.RoundBegun) -> State:
    round_ = Round(fact.round, fact.bets, fact.last_round, fact.dummy, fact.next)
    return state._replace(phase=Phase.DEALING, shoe=_shoe(state)._replace(rounds=fact.round), round=round_)


def _betting_opened(state: State, fact: f.BettingOpened) -> State:
    round_ = state.round
    if round_ is None:
        round_ = Round(fact.round, fact.bets, fact.last_round)
    round_ = round_._replace(
        stage=fact.stage,
        next=fact.before,
        opened_at=fact.opened_at,
        closes_at=fact.closes_at,
        closed_at=None,
        closed_seqno=None,
        draw=False,
        bets=tuple(dict.fromkeys((*round_.bets, *fact.bets))),
    )
    return state._replace(
        phase=Phase.BETTING,
        round=round_,
        shoe=_shoe(state)._replace(rounds=fact.round),
        deadlines=_set(state, Timer.BETTING, fact.closes_at),
    )


def _betting_closed(state: State, fact: f.BettingClosed) -> State:
    round_ = _round(state)._replace(closed_at=fact.at, draw=fact.draw, closed_seqno=state.seqno + 1)
    after = state._replace(phase=Phase.CLOSING, round=round_, deadlines=_without(state, Timer.BETTING))
    return after._replace(deadlines=_set(after, Timer.GRACE, fact.grace_at))


def _draw_called(state: State, fact: f.DrawCalled) -> State:
    return state._replace(round=_round(state)._replace(draw=True), deadlines=_without(state, Timer.GRACE))


def _card_dealt(state: State, fact: f.CardDealt) -> State:
    round_, shoe, n = _round(state), _shoe(state), fact.n
    round_ = round_._replace(
        numbers=(*round_.numbers, n),
        slots=(*round_.slots, fact.slot),
        cards=(*round_.cards, fact.card),
        next=fact.next,
        draw=True,
    )
    shoe = _fate(shoe, n, Fate.DUMMY if round_.dummy else Fate.SLOT, fact.card)
    deadlines = _without(state, Timer.GRACE, Timer.READ) if state.deadlines else ()
    return state._replace(phase=Phase.DEALING, round=round_, shoe=shoe, deadlines=deadlines)


def _card_corrected(state: State, fact: f.CardCorrected) -> State:
    """A scan taken back: the card is the last one of the round and waits to be read again."""
    round_, shoe, index = _round(state), _shoe(state), fact.n - 1
    assert fact.after is None and round_.numbers[-1] == fact.n, "only the last scan is taken back"
    shoe = shoe._replace(
        fates=(*shoe.fates[:index], Fate.PENDING, *shoe.fates[fact.n :]),
        faces=(*shoe.faces[:index], None, *shoe.faces[fact.n :]),
        unread=(fact.n, *shoe.unread),
        waiting=(fact.n, *shoe.waiting),
    )
    round_ = round_._replace(
        numbers=round_.numbers[:-1], slots=round_.slots[:-1], cards=round_.cards[:-1], next=round_.slots[-1], dealt_at=None
    )
    phase = Phase.DEALING
    return state._replace(phase=phase, shoe=shoe, round=round_, deadlines=_without(state, Timer.CONFIRM, Timer.REMIND))


def _card_set_aside(state: State, fact: f.CardSetAside) -> State:
    shoe = _shoe(state)
    return state._replace(shoe=shoe._replace(aside=fact.n, unread=_drop(shoe.unread, fact.n)))


def _card_discarded(state: State, fact: f.CardDiscarded) -> State:
    return state._replace(shoe=_fate(_shoe(state), fact.n, Fate.VOID))


def _round_dealt(state: State, fact: f.RoundDealt) -> State:
    after = state._replace(phase=Phase.RESULT, round=_round(state)._replace(dealt_at=fact.at))
    if fact.confirm_at is None and fact.remind_at is None:
        return after
    after = after._replace(deadlines=_set(after, Timer.CONFIRM, fact.confirm_at))
    return after._replace(deadlines=_set(after, Timer.REMIND, fact.remind_at))


def _round_completed(state: State, fact: f.RoundCompleted) -> State:
    shoe = _shoe(state)
    if not fact.dummy:
        shoe = shoe._replace(counted=shoe.counted + 1)
    deadlines = _without(state, *_ROUND_TIMERS) if state.deadlines else ()
    return state._replace(
        phase=fact.then, shoe=shoe, round=None, last=fact, deadlines=deadlines, day_rounds=state.day_rounds + 1
    )


def _round_voided(state: State, fact: f.RoundVoided) -> State:
    shoe = _shoe(state)
    for n in fact.numbers:
        shoe = _fate(shoe, n, Fate.VOID)
    return _round_gone(state, fact, fact.then)._replace(shoe=shoe, day_voids=state.day_voids + 1)


def _round_cancelled(state: State, fact: f.RoundCancelled) -> State:
    return _round_gone(state, fact, fact.then)


def _round_gone(state: State, fact: f.RoundVoided | f.RoundCancelled, then: Phase) -> State:
    return state._replace(phase=then, round=None, last=fact, deadlines=_without(state, *_ROUND_TIMERS))


def _irregularity_raised(state: State, fact: f.IrregularityRaised) -> State:
    detail = fact.detail
    n = int(detail["n"]) if "n" in detail else (state.shoe.out if state.shoe else 0)
    condition = Condition(fact.code, fact.stops, fact.exits, detail, state.seqno + 1, n)
    after = state._replace(conditions=(*state.conditions, condition))
    if fact.code not in ("I01", "I02") or after.shoe is None:
        return after
    shoe = after.shoe._replace(misreads=after.shoe.misreads + 1)
    deadlines = _without(after, Timer.READ)
    return after._replace(shoe=shoe, day_misreads=after.day_misreads + 1, deadlines=deadlines)


def _irregularity_resolved(state: State, fact: f.IrregularityResolved) -> State:
    kept = tuple([c for c in state.conditions if c.raised != fact.raised])
    assert len(kept) == len(state.conditions) - 1, "what is resolved stood"
    return state._replace(conditions=kept)


def _fault_raised(state: State, fact: f.FaultRaised) -> State:
    condition = Condition(fact.code, fact.stops, fact.exits, {"text": fact.text}, state.seqno + 1, 0, fact.part)
    return state._replace(conditions=(*state.conditions, condition))


def _fault_cleared(state: State, fact: f.FaultCleared) -> State:
    return state._replace(conditions=tuple([c for c in state.conditions if c.raised != fact.raised]))


def _staff_called(state: State, fact: f.StaffCalled) -> State:
    return state._replace(called=True, deadlines=_without(state, Timer.CONFIRM))


def _call_ended(state: State, fact: f.CallEnded) -> State:
    return state._replace(called=False)


def _link_went_up(state: State, fact: f.LinkWentUp) -> State:
    return state._replace(link=True, link_reason="")


def _link_went_down(state: State, fact: f.LinkWentDown) -> State:
    return state._replace(link=False, link_reason=fact.reason)


def _mouth_seen(state: State, fact: f.MouthSeen) -> State:
    after = state._replace(deadlines=_set(state, Timer.EMPTY, fact.empty_at))
    return after if after.shoe is None else after._replace(shoe=after.shoe._replace(present=fact.present))


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
    f.CutCardDrawn: _cut_card_drawn,
    f.ShoeEndQueued: _shoe_end_queued,
    f.CardLeft: _card_left,
    f.ShoeClosed: _shoe_closed,
    f.RoundBegun: _round_begun,
    f.BettingOpened: _betting_opened,
    f.BettingClosed: _betting_closed,
    f.DrawCalled: _draw_called,
    f.CardDealt: _card_dealt,
    f.CardCorrected: _card_corrected,
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
    f.MouthSeen: _mouth_seen,
    f.TimerSpent: _timer_spent,
}
