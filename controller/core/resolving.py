"""What people decide: voids, and the exits of the conditions that stand (irregularities.md, last column)."""

from collections.abc import Callable
from functools import partial

from . import conditions, events
from . import facts as f
from .betting import draw_called
from .conditions import Refused, authorise
from .dealing import begin_round
from .facts import Fact, Phase, Who
from .shoe import after_round, closed, cut_by_void, deny_cut, in_sequence, unnumbered
from .state import Condition, State, fold, round_of, shoe_of

# What the feed says of a round that a condition voided.
_REASONS = {
    "I05": "ninth_copy",
    "I06": "foreign_card",
    "I07": "card_before_time",
    "I08": "two_cards",
    "I16": "card_dropped",
    "I17": "card_returned",
    "I23": "shoe_empty",
    "I35": "recovery",
    "void_request": "casino",
}


def void_round(state: State, event: events.VoidAsked) -> tuple[Fact, ...]:
    """The pit boss voids the round in progress (I31); with no card out it is cancelled instead."""
    authorise(event.by, Who.PIT)
    return _void(state, event.reason, event.by)


def _void(state: State, reason: str, by: tuple[str, ...], then: Phase | None = None) -> tuple[Fact, ...]:
    round_, shoe = state.round, shoe_of(state)
    if round_ is None:
        raise Refused("no_round")
    unread = (f.CardOut(shoe.out + 1, 0),) if unnumbered(state) else ()
    numbers = (*round_.numbers, *(card.n for card in (*in_sequence(state), *unread)))
    cut = cut_by_void(state)
    state = fold(state, (*unread, *cut))
    then = then or after_round(state, round_.number)
    if not numbers:
        return (f.RoundCancelled(round_.number, reason, by, then),)
    voided = f.RoundVoided(round_.number, reason, round_.cards, numbers, by, then, round_.dummy)
    return (*unread, *cut, voided, *conditions.raised(state, "I31", {"reason": reason}))


REPORTED = ("I16",)  # what people see and no sensor does


def report(state: State, event: events.ReportAsked) -> tuple[Fact, ...]:
    if event.code not in REPORTED:
        raise Refused("not_reported", codes=" ".join(REPORTED))
    return () if conditions.find(state, event.code) else conditions.raised(state, event.code)


def resolve(state: State, event: events.ResolveAsked) -> tuple[Fact, ...]:
    """A choice for the earliest condition of that code; what it comes to is the row of `_CHOICES`."""
    standing = conditions.find(state, event.code)
    if standing is None:
        raise Refused("not_standing", code=event.code)
    who = standing.exits.get(event.choice)
    if who is None:
        raise Refused("no_such_choice", code=event.code, choices=" ".join(standing.exits) or "-")
    authorise(event.by, who)
    return _CHOICES[event.code, event.choice](state, standing, event)


Choice = Callable[[State, Condition, events.ResolveAsked], tuple[Fact, ...]]


def _done(c: Condition, event: events.ResolveAsked) -> f.IrregularityResolved:
    return conditions.resolved(c, event.choice, event.by)


def _only_resolve(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    return (_done(c, event),)


def _manual(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    """The pit boss keys the card in instead of its scan; `decide` takes it like one that was read."""
    if event.card is None:
        raise Refused("which_card")
    return (_done(c, event),)


def _rescan(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    raise Refused("scan_it")  # the scan itself is the cure


def _finish_then_end(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    """The round is played with the card as it lies; the shoe ends after it (I05)."""
    then = Phase.UNLOADING if state.phase is Phase.READY else None
    return (_done(c, event), f.ShoeEndQueued("fault", event.by, then))


def _void_and_end(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    if state.round is None:
        return _finish_then_end(state, c, event)
    end = f.ShoeEndQueued("fault", event.by)
    return (end, *_void(state, _REASONS[c.code], event.by, Phase.UNLOADING), _done(c, event))


def _void_round(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    return (*_void(state, _REASONS[c.code], event.by), _done(c, event))


def _remove_foreign(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    """The foreign card is put away; it was one of the cards loaded, so it keeps, or now gets, a number (I06)."""
    n = c.n if "n" in c.detail else shoe_of(state).out + 1
    return (f.CardDiscarded(n), _done(c, event))


def _burn_early(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    """The stakes go back, the card is burned, a new betting time follows (I07)."""
    burned = f.CardBurned(c.n, None, 1, 1)
    return (_done(c, event), burned, *_without_card(state, c, event.by))


def _use_early(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    return (f.CardAdmitted(c.n), _done(c, event))


def _dummy_early(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    """The stakes go back; the card is the first of a hand without bets, so that the sequence is kept (I07)."""
    if state.round and after_round(state, state.round.number) is Phase.UNLOADING:
        raise Refused("no_next_round")
    voided = _without_card(state, c, event.by)
    after = state._replace(round=None, shoe=shoe_of(state)._replace(rounds=state.round.number if state.round else 0))
    return (_done(c, event), *voided, begin_round(after, dummy=True))


def _without_card(state: State, c: Condition, by: tuple[str, ...]) -> tuple[Fact, ...]:
    """The round is void, but card n of the condition is not its card."""
    round_ = round_of(state)
    then = after_round(state, round_.number)
    return (f.RoundVoided(round_.number, _REASONS[c.code], round_.cards, round_.numbers, by, then, round_.dummy),)


def _burn_extra(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    return (f.CardBurned(c.n, None, 1, 1), _done(c, event))


def _next_extra(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    """Unseen, it becomes the first card of the next round (I09)."""
    if state.phase is Phase.UNLOADING:
        raise Refused("no_next_round")
    if shoe_of(state).aside is not None:
        raise Refused("one_aside")
    return (f.CardSetAside(c.n), _done(c, event))


def _dummy_extra(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    if state.phase is Phase.UNLOADING:
        raise Refused("no_next_round")
    if state.phase is not Phase.READY:
        raise Refused("confirm_first")
    return (_done(c, event), begin_round(state, dummy=True))


def _accept_burn(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    shoe = shoe_of(state)
    return (_done(c, event), f.BurnEnded(shoe.burn_of or 0, shoe.burn_done, event.by))


def _accept_count(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    return (_done(c, event), *closed(state, int(c.detail["left"]), event.by))


def _moved_unclear(state: State, c: Condition, event: events.ResolveAsked, *, cards: int) -> tuple[Fact, ...]:
    """So many cards left in a movement that the sensors could not judge: each gets its number now (I08).

    One that left while bets were open stays early, however long people took to say so (I07).
    """
    at = 0 if c.detail["early"] == "yes" and state.phase is not Phase.BETTING else event.at
    n = shoe_of(state).out + 1
    done = f.IrregularityResolved(c.code, c.raised, event.choice, event.by, event.at)
    return (done, *(f.CardOut(n + i, at) for i in range(cards)))


def _was_a_card(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    """With more cards of the round out, nobody knows any more which came first."""
    if state.round is not None and shoe_of(state).out > c.n:
        raise Refused("void_first")
    return (_done(c, event), *deny_cut(state))


def answer(state: State, event: events.StartPressed | events.ConfirmPressed) -> events.ResolveAsked | None:
    """The choice that a button is while the panel asks for one; None while it asks for none."""
    asked = conditions.strongest(state)
    buttons = conditions.row(asked.code).buttons if asked else None
    if asked is None or buttons is None:
        return None
    start, confirm = buttons
    return events.ResolveAsked(
        event.at, asked.code, start if type(event) is events.StartPressed else confirm, by=event.by
    )


def _lid_closed(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    if state.lid_open:
        raise Refused("lid_open")
    return (_done(c, event),)


def _differ(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    """The felt is not what the journal says: the round is void, a burn goes to the pit boss (I35)."""
    shoe = shoe_of(state)
    if state.round is None and shoe.burn_of is None:
        return (_done(c, event),)  # no card was known that could differ
    if state.round is None:
        short = conditions.raised(state, "I25", {"of": str(shoe.burn_of), "done": str(shoe.burn_done)})
        return (_done(c, event), *short)
    return (*_void(state, _REASONS["I35"], event.by), _done(c, event))


def _video_back(state: State, c: Condition, event: events.ResolveAsked) -> tuple[Fact, ...]:
    """Somebody saw that the players have their picture, whatever the server says."""
    return (_done(c, event), *draw_called(state))


_CHOICES: dict[tuple[str, str], Choice] = {
    ("I01", "rescan"): _rescan,
    ("I01", "manual"): _manual,
    ("I02", "rescan"): _rescan,
    ("I02", "manual"): _manual,
    ("I05", "finish"): _finish_then_end,
    ("I05", "void"): _void_and_end,
    ("I06", "rescan"): _only_resolve,
    ("I06", "remove"): _remove_foreign,
    ("I06", "void"): _void_round,
    ("I07", "void"): _void_round,
    ("I07", "burn"): _burn_early,
    ("I07", "use"): _use_early,
    ("I07", "dummy"): _dummy_early,
    ("I08", "order"): _only_resolve,
    ("I08", "void"): _void_round,
    ("I08", "no_card"): _only_resolve,
    ("I08", "one_card"): partial(_moved_unclear, cards=1),
    ("I08", "two_cards"): partial(_moved_unclear, cards=2),
    ("I09", "burn"): _burn_extra,
    ("I09", "next"): _next_extra,
    ("I09", "dummy"): _dummy_extra,
    ("I11", "burn"): _burn_extra,
    ("I11", "next"): _next_extra,
    ("I11", "dummy"): _dummy_extra,
    ("I16", "continue"): _only_resolve,
    ("I16", "void"): _void_round,
    ("I17", "out"): _only_resolve,
    ("I17", "void"): _void_round,
    ("I21", "noted"): _only_resolve,
    ("I22", "yes"): _only_resolve,
    ("I22", "no"): _was_a_card,
    ("I23", "void"): _void_and_end,
    ("I25", "accept"): _accept_burn,
    ("I35", "match"): _only_resolve,
    ("I35", "differ"): _differ,
    ("I39", "closed"): _lid_closed,
    ("I49", "recount"): _only_resolve,
    ("I49", "accept"): _accept_count,
    ("I53", "stands"): _only_resolve,
    ("pause", "resume"): _only_resolve,
    ("video", "back"): _video_back,
    ("void_request", "void"): _void_round,
    ("void_request", "refuse"): _only_resolve,
}
