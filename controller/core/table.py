"""The centre. `decide` says what an event makes of a table; `TABLE` says it for every phase.

How to read it: an event arrives; its row and the phase's column name a cell; the cell's handler returns facts, and
those change the state (`state.evolve`). Three things come before the phase has its say, in this order:

1. the card ledger, the link and faults are recorded whatever stands (rows with one cell for every phase);
2. what stands (`conditions.py`) may hold a card back from its place, or bar START and CONFIRM (`held`);
3. only then the phase's own cell.

After the handler, `_settle` lets follow what its facts made possible: a condition that has ended, a card that
waited, a betting that opens by itself. Nothing else in the program decides anything about the game.

Rule 1: a missing cell is a failing test. Rule 2: a handler yields only the facts its cell names. Rule 3: no clock is
read here; `due` says when core wants to hear `Elapsed`. The diagram in ARCHITECTURE.md is drawn from this table.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import betting, casino, conditions, dealing, resolving, shoe, upkeep
from . import events as e
from . import facts as f
from .cards import Card
from .conditions import Refused
from .events import Event
from .facts import Fact, Phase, Stops
from .profile import Opens
from .state import State, fold, shoe_of

Handler = Callable[[State, Any], tuple[Fact, ...]]


class Cell(NamedTuple):
    """A handler, the facts it may yield, and from which strength on a standing condition refuses it."""

    handler: Handler
    yields: frozenset[type[Fact]] = frozenset()
    held: Stops | None = None

    def ask(self, state: State, event: Event) -> tuple[Fact, ...]:
        if self.held is not None and (standing := conditions.bars(state, self.held)):
            raise Refused("held", code=standing.code)
        facts = self.handler(state, event)
        assert self.yields.issuperset(map(type, facts)), "a cell yields only what it names"
        return facts


def decide(state: State, event: Event) -> tuple[Fact, ...]:
    """What the event makes of the table. Raises `Refused` where a person asks for what cannot be now.

    Deadlines up to `event.at` must have fired (`play` sees to it).
    """
    if state.conditions and isinstance(event, e.StartPressed | e.ConfirmPressed):
        event = resolving.answer(state, event) or event
    facts = TABLE[state.phase][type(event)].ask(state, event)
    return facts if _is_settled(state, facts) else _settle(state, event, facts)


def due(state: State) -> int | None:
    """When core wants to hear `Elapsed`, monotonic ns; None while it waits for nothing."""
    return state.deadlines[0].at if state.deadlines else None


def play(state: State, event: Event) -> Iterator[tuple[Event, tuple[Fact, ...], State]]:
    """What an event comes to, step by step: the deadlines before it, then itself. The loop and every test use this.

    A `Refused` is raised in its turn: what was yielded before it has happened.
    """
    if type(event) is not e.Restarted:  # the deadlines of another run of the machine mean nothing
        at = due(state)
        if at is not None and at <= event.at and type(event) is not e.Elapsed:
            time = e.Elapsed(event.at)
            facts = decide(state, time)
            state = fold(state, facts)
            yield time, facts, state
    facts = decide(state, event)
    yield event, facts, fold(state, facts)


# --- what follows from facts ------------------------------------------------------------------------------

_FOLLOWS_MAX = 2048  # above the longest chain: every card of twelve decks waited for its place
_QUIET = (f.CardDealt, f.CardBurned, f.RoundCompleted, f.RoundDealt)


def _is_settled(state: State, facts: tuple[Fact, ...]) -> bool:
    """Whether nothing can follow; the ordinary card takes this way out, everything else asks `_follows`."""
    if not facts:
        return True
    shoe = state.shoe
    if state.conditions or shoe is None or shoe.waiting or type(facts[-1]) not in _QUIET or not state.present:
        return False
    if upkeep.is_cut_missing(state, shoe, len(facts)):  # no more cards than facts
        return False
    return state.procedure.open_betting is not Opens.AUTO and len(shoe.profile.stages) == 1


def _settle(state: State, event: Event, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    after = fold(state, facts)
    for _ in range(_FOLLOWS_MAX):
        more = _follows(after, event)
        if not more:
            return facts
        facts += more
        after = fold(after, more)
    raise AssertionError("what follows from an event must end")


def _follows(state: State, event: Event) -> tuple[Fact, ...]:
    """The next thing that the state itself asks for; empty when it asks for nothing."""
    if ended := conditions.over(state):
        return ended
    passage = upkeep.next_to_place(state, event.at)
    if passage and (facts := _place(state, passage)):
        return facts
    round_ = state.round
    if state.phase is Phase.DEALING and round_ and not conditions.cards_held(state):
        complete = round_.next is None and not dealing.is_unsure(state)
        facts = dealing.result(state, event.at, round_) if complete else dealing.open_later(state, event.at)
        if facts:
            return facts
    opens = state.procedure.open_betting is Opens.AUTO and state.phase is Phase.READY
    if opens and not conditions.bars(state, Stops.ROUNDS):
        return betting.open_stage(state, event.at, 0)
    if missed := upkeep.cut_missing(state):
        return missed
    if type(event) is e.Elapsed and (facts := TABLE[state.phase][e.Elapsed].ask(state, event)):
        return facts
    return upkeep.arm(state, event.at)


# --- the card ledger: what a scan or a movement is, before it has a place -------------------------------------


def _moved(state: State, event: e.CardMoved) -> tuple[Fact, ...]:
    if event.card is None and upkeep.is_counted(state, event.at):  # one that was read has its face from nowhere else
        return ()
    out = upkeep.moved(state, event)
    if type(out[0]) is f.CardCameAgain:
        return out
    waits = _held(state) or bool(upkeep.unplaced(state))  # `_follows` places it in its turn
    n = state.shoe.out + 1 if state.shoe else 0
    if event.card is None:
        return out if waits else (*out, *_place(state, e.CardUnseen(event.at, n, event.at)))
    if waits:
        return (*out, f.CardRead(n, event.card, "scan"))
    return _place(state, e.CardKnown(event.at, n, event.at, event.card, "scan"))


def _scanned(state: State, event: e.CardScanned) -> tuple[Fact, ...]:
    doubtful = state.conditions or (state.shoe and state.shoe.unread)
    return _take(state, event.at, event.card, upkeep.how_read(state, event.at) if doubtful else "scan")


def _take(state: State, at: int, card: Card, read: str) -> tuple[Fact, ...]:
    """A face is known: the number it belongs to, and whether that card may have its place now."""
    shoe = shoe_of(state)
    held = _held(state)
    if not (held or shoe.waiting or shoe.unread or state.procedure.sensors):  # one scan is one card: the next number
        return _place(state, e.CardKnown(at, len(shoe.fates) + 1, at, card, read))
    numbered = upkeep.numbered(state, at)
    if numbered is None or (read == "scan" and upkeep.is_perhaps_echo(state, numbered[0], card)):
        return upkeep.unmoved(state, at)
    n, out_at = numbered
    if conditions.surplus(state, n):  # turned up: whatever holds, it is seen now
        return dealing.extra_known(state, e.CardKnown(at, n, out_at, card, read))
    waits = held or any(waiting.n < n for waiting in upkeep.unplaced(state))
    if n > shoe.out and waits:
        return (f.CardOut(n, at), f.CardRead(n, card, read))
    if waits or upkeep.has_fate(state, n):
        return (f.CardRead(n, card, read),)
    return _place(state, e.CardKnown(at, n, out_at, card, read))


def _held(state: State) -> bool:
    """Whether a card waits for its place, whatever its turn; but no hold keeps a betting open (I07)."""
    return conditions.cards_held(state) and state.phase is not Phase.BETTING


def _place(state: State, event: e.CardKnown | e.CardUnseen | e.CutCardPlaced) -> tuple[Fact, ...]:
    return TABLE[state.phase][type(event)].ask(state, event)


def _resolved(state: State, event: e.ResolveAsked) -> tuple[Fact, ...]:
    facts = resolving.resolve(state, event)
    if event.choice != "manual":
        return facts
    assert event.card is not None, "a choice that keys a card in has one"
    return (*facts, *_take(state, event.at, event.card, "manual"))


def _not_now(state: State, event: Event) -> tuple[Fact, ...]:
    raise Refused("not_now")


def _nothing(state: State, event: Event) -> tuple[Fact, ...]:
    return ()


def _evidence(state: State, event: e.CardUnread) -> tuple[Fact, ...]:
    return (f.ScanFailed(event.raw),)


# --- the table ------------------------------------------------------------------------------------------------

_RAISES = (f.IrregularityRaised, f.StaffCalled)
_COMPLETES = (f.RoundDealt, f.RoundCompleted)
_DEALS = (f.CardDealt, *_COMPLETES, f.BettingOpened, *_RAISES)
_VOIDS = (f.CardOut, f.RoundVoided, f.RoundCancelled, f.CutCardDrawn, *_RAISES)
_KEEPS = (f.CardOut, f.CardRead)
_PLACES = (*_KEEPS, f.CardBurned, f.CardLeft, f.RoundBegun, f.BettingClosed, f.IrregularityResolved, *_DEALS)
_CUTS = (f.CutCardDrawn, *_RAISES)
_CLOSES = (f.BettingClosed, *_RAISES)


def _cell(handler: Handler, *yields: type[Fact], held: Stops | None = None) -> Cell:
    return Cell(handler, frozenset(yields), held)


def _any(*cells: Cell) -> tuple[Cell, ...]:
    """One cell for every phase."""
    return cells * len(Phase)


def _each(handler: Handler, everywhere: tuple[type[Fact], ...], **more: tuple[type[Fact], ...]) -> tuple[Cell, ...]:
    """One handler for every phase; what it may yield beside, by the phase's name."""
    return tuple(_cell(handler, *everywhere, *more.get(phase.value, ())) for phase in Phase)


___ = _cell(_nothing)
no = _cell(_not_now)

_open = _cell(betting.start, f.BettingOpened, held=Stops.ROUNDS)
_server = _cell(casino.open_betting, f.BettingOpened, held=Stops.ROUNDS)
_short = _cell(shoe.start_in_burn, *_RAISES)

_day = _cell(shoe.open_table, f.TableOpened)
_step = _cell(shoe.confirm_step, f.ShoeStepDone, f.ShoeOpened)
_burns = _cell(shoe.confirm_burn, f.CardBurned, *_RAISES, held=Stops.CARDS)
_lacks = _cell(dealing.confirm_in_deal, *_RAISES, held=Stops.CARDS)
_result = _cell(dealing.confirm_result, f.RoundCompleted, held=Stops.CARDS)
_count = _cell(shoe.confirm_left, f.ShoeClosed, f.TableClosed, f.IrregularityResolved, *_RAISES)
_back = _cell(dealing.take_back, f.CardCorrected, held=Stops.CARDS)

_early = _cell(betting.close_early, f.BettingClosed)
_ask = _cell(casino.request_void, *_RAISES)
_report = _cell(resolving.report, *_RAISES)
_void = _cell(resolving.void_round, *_VOIDS)
_day_ld = _cell(shoe.open_and_load, f.TableOpened, f.ShoeOpened)
_load = _cell(shoe.load, f.ShoeOpened)
_left = _cell(shoe.count_left, f.ShoeClosed, f.TableClosed, f.IrregularityResolved, *_RAISES)
_day_end = _cell(shoe.close_table, f.TableClosed)
_end_now = _cell(shoe.end_now, f.ShoeEndQueued)
_end_aft = _cell(shoe.end_after_round, f.ShoeEndQueued)

_scan = _cell(_scanned, *_PLACES)
_move = _cell(_moved, f.CardCameAgain, *_PLACES)
_blind = _cell(upkeep.unread, f.CardCorrected, f.ScanFailed, *_RAISES)
_alien = _cell(upkeep.unknown, f.ScanFailed, *_RAISES)
_again = _cell(upkeep.repeated, *_RAISES)
_two = _cell(upkeep.two_cards, f.CardOut, f.CardCameAgain, *_CLOSES)
_dubious = _cell(upkeep.unclear, *_RAISES)
_back_in = _cell(upkeep.returned, f.CardWentBack, *_RAISES)
_sighted = _cell(upkeep.cut_waits, f.CutCardSighted)
_lid = _cell(upkeep.lid, f.LidMoved, *_RAISES)
_lid_load = _cell(upkeep.lid_in_shoe_work, f.LidMoved, f.ShoeOpened)
_noted = _cell(_evidence, f.ScanFailed)

_passed = _cell(upkeep.cut_card, f.CutCardNumbered, f.CutCardPassed)
_cut_left = _cell(shoe.cut_in_rest, f.CutCardNumbered)

_burn_k = _cell(shoe.burn_known, f.CardBurned, f.CardRead)
_ready_k = _cell(dealing.begin, f.RoundBegun, f.IrregularityResolved, *_KEEPS, *_DEALS)
_early_k = _cell(dealing.early_known, *_KEEPS, *_CLOSES)
_first_k = _cell(dealing.first_card, *_KEEPS, *_DEALS)
_next_k = _cell(dealing.next_card, f.IrregularityResolved, *_KEEPS, *_DEALS)
_extra_k = _cell(dealing.extra_known, f.IrregularityResolved, *_KEEPS, *_RAISES)
_rest = _cell(shoe.draw_left, f.CardLeft)
_burn_u = _cell(shoe.burn_unseen, f.CardBurned)
_ready_u = _cell(dealing.unseen_in_ready, *_RAISES)
_early_u = _cell(dealing.early_unseen, *_CLOSES)
_turn_u = _cell(dealing.unseen_in_turn, *_RAISES)
_extra_u = _cell(dealing.extra_unseen, *_RAISES)

_cut_out = _cell(shoe.cut_outside, f.ShoeEndQueued, *_CUTS)
_cut_1st = _cell(shoe.cut_before_first, f.RoundCancelled, *_CUTS)
_cut_rnd = _cell(shoe.cut_in_round, *_CUTS)
_cut_res = _cell(shoe.cut_in_result, *_CUTS)

_RESOLVES = _each(
    _resolved,
    (
        f.IrregularityResolved,
        f.CardAdmitted,
        f.CutCardDrawn,
        f.CutCardDenied,
        f.CardDiscarded,
        f.CardBurned,
        f.CardSetAside,
        f.ShoeEndQueued,
        *_KEEPS,
        *_RAISES,
    ),
    burning=(f.BurnEnded,),
    ready=(f.RoundBegun, *_DEALS),
    betting=(f.BettingClosed, *_VOIDS),
    closing=(f.RoundBegun, f.DrawCalled, *_DEALS, *_VOIDS),
    dealing=(*_DEALS, *_VOIDS),
    result=_VOIDS,
    unloading=(f.CardLeft, f.ShoeClosed, f.TableClosed),
)
_RESTARTS = _each(upkeep.restarted, (f.TableStarted, *_RAISES), betting=(f.RoundCancelled, f.BettingClosed))
_ELAPSES = _each(
    upkeep.elapsed,
    (f.TimerSet, f.TimerSpent, *_RAISES),
    betting=(f.BettingClosed,),
    closing=(f.DrawCalled, f.RoundCancelled),
    dealing=(f.CardCorrected,),
    result=(f.RoundCompleted,),
)

# fmt: off
_GRID: dict[type[Event], tuple[Cell, ...]] = {
    #                  closed   preparing  burning    ready     betting   closing   dealing   result    unloading
    e.StartPressed:   (no,      no,        _short,    _open,    no,       no,       no,       no,       no),
    e.ConfirmPressed: (_day,    _step,     _burns,    no,       no,       no,       _lacks,   _result,  _count),
    e.ConfirmHeld:    (no,      no,        no,        no,       no,       no,       _back,    _back,    no),
    e.CloseAsked:     (no,      no,        no,        no,       _early,   no,       no,       no,       no),
    e.VoidAsked:      (no,      no,        no,        no,       _void,    _void,    _void,    _void,    no),
    e.ReportAsked:    (no,      no,        _report,   _report,  _report,  _report,  _report,  _report,  no),
    e.LoadAsked:      (_day_ld, _load,     no,        no,       no,       no,       no,       no,       no),
    e.LeftCounted:    (no,      no,        no,        no,       no,       no,       no,       no,       _left),
    e.EndShoeAsked:   (no,      _day_end,  _end_now,  _end_now, _end_aft, _end_aft, _end_aft, _end_aft, no),
    e.OpenAsked:      (no,      no,        no,        _server,  no,       no,       no,       no,       no),
    e.VoidRequested:  (no,      no,        no,        no,       _ask,     _ask,     _ask,     _ask,     no),

    e.CardScanned:    (___,     ___,       _scan,     _scan,    _scan,    _scan,    _scan,    _scan,    _scan),
    e.CardMoved:      (___,     ___,       _move,     _move,    _move,    _move,    _move,    _move,    _move),
    e.CardUnread:     (_noted,  _noted,    _blind,    _blind,   _blind,   _blind,   _blind,   _blind,   _noted),
    e.CodeUnknown:    (_noted,  _noted,    _alien,    _alien,   _alien,   _alien,   _alien,   _alien,   _noted),
    e.CardRepeated:   (___,     ___,       _again,    _again,   _again,   _again,   _again,   _again,   ___),
    e.TwoCardsMoved:  (___,     ___,       _two,      _two,     _two,     _two,     _two,     _two,     _two),
    e.MovementUnclear: (___,    ___,       _dubious,  _dubious, _dubious, _dubious, _dubious, _dubious, _dubious),
    e.CardReturned:   (___,     ___,       _back_in,  _back_in, _back_in, _back_in, _back_in, _back_in, _back_in),
    e.LidChanged:     (_lid,    _lid_load, _lid,      _lid,     _lid,     _lid,     _lid,     _lid,     _lid),
    e.CutCardWaiting: (___,     ___,       _sighted,  _sighted, _sighted, _sighted, _sighted, _sighted, ___),
    e.CardKnown:      (___,     ___,       _burn_k,   _ready_k, _early_k, _first_k, _next_k,  _extra_k, _rest),
    e.CardUnseen:     (___,     ___,       _burn_u,   _ready_u, _early_u, _turn_u,  _turn_u,  _extra_u, _rest),
    e.CutCardSeen:    (___,     ___,       _passed,   _passed,  _passed,  _passed,  _passed,  _passed,  _cut_left),
    e.CutCardPlaced:  (___,     ___,       _cut_out,  _cut_out, _cut_1st, _cut_1st, _cut_rnd, _cut_res, ___),


    # recorded whatever stands, in every phase
    e.CallPressed:    _any(_cell(upkeep.call, f.StaffCalled, f.CallEnded)),
    e.KeyTurned:      _any(_cell(upkeep.key, f.KeyMoved)),
    e.ResolveAsked:   _RESOLVES,
    e.MouthChanged:   _any(_cell(upkeep.mouth, f.MouthSeen)),
    e.LinkChanged:    _any(_cell(upkeep.link, f.LinkWentUp, f.LinkWentDown, *_RAISES)),
    e.Receipt:        _any(_cell(betting.receipt, f.DrawCalled)),
    e.BacklogChanged: _any(_cell(upkeep.backlog, f.IrregularityResolved, *_RAISES)),
    e.PauseAsked:     _any(_cell(casino.pause, *_RAISES)),
    e.ResumeAsked:    _any(_cell(casino.resume, f.IrregularityResolved)),
    e.VideoChanged:   _any(_cell(casino.video, f.IrregularityResolved, f.DrawCalled, *_RAISES)),
    e.ResultDisputed: _any(_cell(casino.dispute, *_RAISES)),
    e.LimitsGiven:    _any(_cell(casino.limits, f.LimitsSet)),
    e.Enrolled:       _any(_cell(casino.enrol, f.TableEnrolled)),
    e.CommandRefused: _any(_cell(casino.refused, *_RAISES)),
    e.ClockStepped:   _any(_cell(upkeep.clock_stepped, f.ClockSet)),
    e.FaultSeen:      _any(_cell(upkeep.fault, f.FaultRaised, f.StaffCalled)),
    e.FaultGone:      _any(_cell(upkeep.fault_gone, f.FaultCleared)),
    e.JournalMade:    _any(_cell(upkeep.journal_made, f.JournalOpened)),
    e.Configured:     _any(_cell(upkeep.configured, f.ConfigActivated)),
    e.Restarted:      _RESTARTS,
    e.Stopped:        _any(_cell(upkeep.stopped, f.TableStopped)),
    e.Elapsed:        _ELAPSES,
}
# fmt: on

TABLE: dict[Phase, dict[type[Event], Cell]] = {
    phase: {event: cells[column] for event, cells in _GRID.items()} for column, phase in enumerate(Phase)
}
