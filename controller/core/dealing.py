"""Cards in and out of turn, and the round from its first card to its result (rules D1-D9)."""

from . import bets, conditions, events, rules
from . import facts as f
from .betting import SECOND, close, open_stage
from .conditions import Refused
from .facts import Fact, HandResult, Phase, Timer
from .profile import Confirms, Opens, Rescan, Stage
from .shoe import after_round, is_ninth, pending_unread
from .state import Round, Shoe, State, evolve, round_of, shoe_of

CONFIRM_DEAF_NS = 700_000_000  # a CONFIRM this soon after the last card was not meant for the result (DESIGN 6)


# --- a card in its turn ----------------------------------------------------------------------------------


def first_card(state: State, event: events.CardKnown) -> tuple[Fact, ...]:
    """In closing: the card after the betting. By its stamp it may have come before the close (I07)."""
    round_ = round_of(state)
    after_close = event.out_at - _closed_at(round_)
    if after_close < 0:
        return (*_keep(state, event), *_before_time(state, event.n, seen=True))
    return deal(state, event, round_, after_close // 1_000_000)


def _closed_at(round_: Round) -> int:
    assert round_.betting is not None and round_.betting.closed_at is not None
    return round_.betting.closed_at


def next_card(state: State, event: events.CardKnown) -> tuple[Fact, ...]:
    """In dealing. A complete round waits here only while a hold keeps it from its result."""
    round_ = round_of(state)
    if round_.next is None:
        return extra_known(state, event)
    return deal(state, event, round_)


def deal(state: State, event: events.CardKnown, round_: Round, ms_after_close: int | None = None) -> tuple[Fact, ...]:
    """Card `n` takes the next slot; what follows from the faces in order is written down with it."""
    shoe, slot = shoe_of(state), round_.next
    assert slot is not None
    cards = (*round_.cards, event.card)
    following = rules.next_slot(cards)
    dealt = f.CardDealt(round_.number, event.n, slot, event.card, event.read, following, ms_after_close)
    ninth = is_ninth(shoe, event.n, event.card)
    number = event.n - shoe.cut_numbers
    if ninth or number > shoe.profile.cards:
        detail = {"n": str(event.n), "slot": slot.value, "card": str(event.card), "why": "copies" if ninth else "cards"}
        return (dealt, *conditions.raised(state, "I05", detail))
    if following is None and shoe.unread and is_unsure(evolve(state, dealt)):
        return (dealt,)  # whose scan that was must be known first
    if following is None:
        complete = round_._replace(slots=(*round_.slots, slot), cards=cards)
        return (dealt, *result(state, event.at, complete))
    if number == shoe.profile.cards:
        return (dealt, *conditions.raised(state, "I23"))
    return (dealt,)


def is_unsure(state: State) -> bool:
    """Whether one scan is missing for the cards that are out, which may be the last one's: no result stands on that."""
    return state.shoe is not None and state.shoe.unsure is not None


def open_later(state: State, at: int) -> tuple[Fact, ...]:
    """A betting time inside the round opens with the card before it."""
    round_, stages = round_of(state), shoe_of(state).profile.stages
    index = next((i for i, stage in enumerate(stages) if i and stage.before is round_.next), None)
    opened = round_.betting.stage if round_.betting else 0
    if index is None or index < opened or round_.dummy or state.procedure.open_betting is Opens.NONE:
        return ()
    return open_stage(state, at, index)


def begin(state: State, event: events.CardKnown) -> tuple[Fact, ...]:
    """In ready: a free-running table's first card; anywhere else an extra card (I09)."""
    if not _runs_free(state):
        return extra_known(state, event)
    begun = begin_round(state, dummy=False)
    round_ = Round(begun.round, begun.bets, begun.last_round, next=begun.next)
    return (begun, *deal(state, event, round_))


def _runs_free(state: State) -> bool:
    """Whether a card in ready is a round's first.

    A lost link does not undo a card that has left the shoe (F1, F3), and the scan that cures a misread is that card's.
    """
    if state.procedure.open_betting is not Opens.NONE:
        return False
    bars = [c for c in conditions.standing(state) if c.stops >= f.Stops.ROUNDS and c.code != "offline"]
    return all(conditions.row(c.code).scan_cures for c in bars)


def begin_round(state: State, *, dummy: bool) -> f.RoundBegun:
    shoe = shoe_of(state)
    number = shoe.rounds + 1
    last = after_round(state, number) is Phase.UNLOADING
    open_ = () if dummy else every_bet(shoe)
    return f.RoundBegun(number, shoe.counted, open_, last, shoe.profile.stages[0].before, dummy)


def every_bet(shoe: Shoe) -> tuple[str, ...]:
    """The bets open in a round without betting times: those of all its stages (C5, C6)."""
    stages: tuple[Stage, ...] = shoe.profile.stages
    if len(stages) == 1:
        return bets.open_bets(shoe.profile, shoe.counted, 0)
    return tuple(
        dict.fromkeys(bet for i in range(len(stages)) for bet in bets.open_bets(shoe.profile, shoe.counted, i))
    )


# --- the result ---------------------------------------------------------------------------------------------


def result(state: State, at: int, round_: Round) -> tuple[Fact, ...]:
    """The last required card is out."""
    procedure = state.procedure
    who = procedure.confirm_result
    dealt = f.RoundDealt(
        round_.number,
        round_.slots,
        round_.cards,
        at,
        at + procedure.confirm_seconds * SECOND if who is Confirms.AUTO and not state.called else None,
        at + procedure.remind_seconds * SECOND if who is Confirms.DEALER else None,
    )
    return (dealt, completed(state, round_)) if who is Confirms.NONE else (dealt,)


def completed(state: State, round_: Round) -> f.RoundCompleted:
    """The result as announced, with what each open bet makes of it (D7, D9, E)."""
    shoe = shoe_of(state)
    profile = shoe.profile
    player, banker = rules.split(round_.slots, round_.cards)
    dealt = bets.dealt(player, banker)
    then = after_round(state, round_.number)
    return f.RoundCompleted(
        round=round_.number,
        counted=shoe.counted,
        profile=profile.name,
        profilehash=profile.hash,
        player=HandResult(player, dealt.player_points, dealt.player_natural, dealt.player_pair),
        banker=HandResult(banker, dealt.banker_points, dealt.banker_natural, dealt.banker_pair),
        slots=round_.slots,
        outcome=dealt.outcome,
        bets=bets.resolve(profile, round_.bets, dealt),
        last_round=then is Phase.UNLOADING,
        dummy=round_.dummy,
        then=then,
    )


def confirm_result(state: State, event: events.ConfirmPressed) -> tuple[Fact, ...]:
    round_ = round_of(state)
    assert round_.dealt_at is not None
    if event.at < round_.dealt_at + CONFIRM_DEAF_NS:
        raise Refused("too_soon")
    return (completed(state, round_),)


def confirm_in_deal(state: State, event: events.ConfirmPressed) -> tuple[Fact, ...]:
    """The result is asked for with a third card to come (I13)."""
    round_ = round_of(state)
    if round_.next is None or len(round_.numbers) < 4:
        raise Refused("not_now")
    if conditions.find(state, "I13"):
        return ()
    return conditions.raised(state, "I13", {"slot": round_.next})


def auto_confirm(state: State) -> tuple[Fact, ...]:
    held = conditions.bars(state, f.Stops.CARDS)
    if held or state.called:
        return (f.TimerSpent(Timer.CONFIRM),)
    round_ = round_of(state)
    return (completed(state, round_),)


def remind(state: State, at: int) -> tuple[Fact, ...]:
    """The result stands unconfirmed: a reminder, then the pit boss (I28)."""
    if not conditions.find(state, "I28"):
        later = f.TimerSet(Timer.REMIND, at + state.procedure.remind_seconds * SECOND)
        return (*conditions.raised(state, "I28"), later)
    spent = f.TimerSpent(Timer.REMIND)
    return (spent,) if state.called else (f.StaffCalled(()), spent)


def take_back(state: State, event: events.ConfirmHeld) -> tuple[Fact, ...]:
    """CONFIRM held: the last scan was wrong; the card keeps its number and is read again (I47).

    Not behind the cut card: which round is the last was decided by that card's face (B7).
    """
    round_, drawn = round_of(state), shoe_of(state).cut_drawn
    if conditions.sees(state) or not round_.numbers or round_.numbers[-1] != shoe_of(state).out:
        raise Refused("nothing_to_take_back")
    if drawn is not None and drawn.n_before == round_.numbers[-1]:
        raise Refused("cut_card_behind")
    n, card, slot = round_.numbers[-1], round_.cards[-1], round_.slots[-1]
    return (f.CardCorrected(round_.number, n, card, None, (slot,), event.by, "taken_back"),)


# --- a card out of its turn ---------------------------------------------------------------------------------


def early_known(state: State, event: events.CardKnown) -> tuple[Fact, ...]:
    """In betting: the betting closes with it, the pit boss decides (I07)."""
    closed = close(state, "card_before_time", event.out_at)
    return (*_keep(state, event), *closed, *_before_time(state, event.n, seen=True))


def _keep(state: State, event: events.CardKnown) -> tuple[Fact, ...]:
    """A card that is read and gets no place: it stays pending until people decide."""
    read = f.CardRead(event.n, event.card, event.read)
    return (read,) if event.n <= shoe_of(state).out else (f.CardOut(event.n, event.out_at), read)


def early_unseen(state: State, event: events.CardUnseen) -> tuple[Fact, ...]:
    return (*close(state, "card_before_time", event.out_at), *_before_time(state, event.n, seen=False))


def _before_time(state: State, n: int, *, seen: bool) -> tuple[Fact, ...]:
    without = () if shoe_of(state).profile.use_early_card else ("use",)
    return conditions.raised(state, "I07", {"n": str(n), "seen": "yes" if seen else "no"}, without)


def extra_known(state: State, event: events.CardKnown) -> tuple[Fact, ...]:
    """A card whose face was read never becomes a card of a later round (I09)."""
    unseen = conditions.surplus(state, event.n)
    turned_up = (conditions.resolved(unseen, "automatic"),) if unseen else ()
    code = unseen.code if unseen else _extra_code(state)
    raised = conditions.raised(state, code, {"n": str(event.n), "seen": "yes"}, ("next",))
    return (*_keep(state, event), *turned_up, *raised)


def extra_unseen(state: State, event: events.CardUnseen) -> tuple[Fact, ...]:
    """It may wait for the next round only where a scanner can read it then."""
    without = ("next",) if state.procedure.rescan is Rescan.NONE else ()
    return conditions.raised(state, _extra_code(state), {"n": str(event.n), "seen": "no"}, without)


def _extra_code(state: State) -> str:
    """I11 is the extra card that the Banker, who stands on two cards, did not need."""
    round_ = state.round
    if round_ is None:
        return "I09"
    player, banker = rules.split(round_.slots, round_.cards)
    natural = rules.is_natural(player) or rules.is_natural(banker)
    return "I11" if len(banker) == 2 and not natural else "I09"


def unseen_in_ready(state: State, event: events.CardUnseen) -> tuple[Fact, ...]:
    return () if _runs_free(state) else extra_unseen(state, event)


def unseen_in_turn(state: State, event: events.CardUnseen) -> tuple[Fact, ...]:
    """Its scan is awaited; more movements than may wait for theirs hold the table (I02)."""
    round_ = round_of(state)
    if state.phase is Phase.CLOSING and event.out_at < _closed_at(round_):
        return _before_time(state, event.n, seen=False)
    if round_.next is None and is_unsure(state):
        return ()
    if round_.next is None or (shoe_of(state).aside is not None and not round_.numbers):
        return extra_unseen(state, event)  # nothing is to be drawn: the card set aside is the first
    unread = pending_unread(state)
    if len(unread) + (event.n not in unread) > state.procedure.max_pending and not conditions.find(state, "I02"):
        return conditions.misread(state, "I02", {"slot": round_.next})
    return ()
