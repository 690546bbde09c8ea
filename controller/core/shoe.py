"""The shoe: its steps, the burn, the cut card, the count at its end (rules B1-B12, A5)."""

from typing import NamedTuple

from . import conditions, events
from . import facts as f
from .cards import LETTER, Card
from .conditions import Refused, authorise
from .facts import Fact, Phase, Who
from .profile import Burn, CutFirst, LastRound, Profile
from .state import Fate, Shoe, State, Waiting, round_of, shoe_of

# Who does each step of shoe work (B1, B12); what is not named is the dealer's.
STEP_WHO = {"inspect": Who.PIT}


def burn_after(card: Card) -> int:
    """How many further cards the one turned up burns: its value, 10 or a face 10 (B5)."""
    return card.points or 10


def is_ninth(shoe: Shoe, n: int, card: Card) -> bool:
    """Whether with card `n` there are more of this face than the decks hold (I05)."""
    kept = shoe.faces[n - 1 : n] == LETTER[card]  # its face was read under a hold and is counted already
    return shoe.faces.count(LETTER[card]) - kept >= shoe.profile.decks


def has_begun(state: State) -> bool:
    """Whether the first card of the round has left the shoe, read or not (F3)."""
    round_ = state.round
    return round_ is not None and bool(round_.numbers or in_sequence(state) or unnumbered(state))


def in_sequence(state: State) -> list[Waiting]:
    """The cards that wait and may still have a place in the round: none is set aside, none is one too many."""
    shoe = shoe_of(state)
    return [w for w in shoe.waiting if w.n != shoe.aside and not conditions.surplus(state, w.n)]


def unnumbered(state: State) -> bool:
    """Whether a card is out that got no number: without sensors, one that could not be read, or a foreign one."""
    lacks = any(c.code in ("I01", "I06") and "n" not in c.detail for c in state.conditions)
    return lacks and not conditions.sees(state)


def pending_unread(state: State) -> list[int]:
    """The cards that must be read: neither burned, nor ones too many."""
    shoe = shoe_of(state)
    return [n for n in shoe.unread if shoe.fate(n) is Fate.PENDING and not conditions.surplus(state, n)]


class Counts(NamedTuple):
    burned: int
    dealt: int
    left: int


def counts(shoe: Shoe) -> Counts:
    """The cards out by fate; what was dealt, voided, a dummy's or put away counts as dealt (D12)."""
    burned, left = shoe.fates.count(Fate.BURNED), shoe.fates.count(Fate.LEFT)
    return Counts(burned, shoe.out - shoe.cut_numbers - burned - left, left)


def after_round(state: State, number: int) -> Phase:
    """Where the table goes when round `number` has ended, however it did (B6, B7, B9)."""
    shoe = shoe_of(state)
    ends = shoe.end is not None or (shoe.last_round is not None and number >= shoe.last_round)
    return Phase.UNLOADING if ends else Phase.READY


# --- shoe work ------------------------------------------------------------------------------------------


def open_table(state: State, event: events.ConfirmPressed) -> tuple[Fact, ...]:
    profile = _next_profile(state)
    return (f.TableOpened(profile.name, event.by, state.limits),)


def open_and_load(state: State, event: events.LoadAsked) -> tuple[Fact, ...]:
    """A pre-shuffled house opens the table and its first shoe in one act."""
    profile = _next_profile(state)
    if profile.shoe_steps[0] != "load":
        raise Refused("step_first", step=profile.shoe_steps[0])
    return (f.TableOpened(profile.name, event.by, state.limits), _opened(state, profile, event))


def confirm_step(state: State, event: events.ConfirmPressed) -> tuple[Fact, ...]:
    profile, step = _next_profile(state), state.step
    if step is None or step not in profile.shoe_steps:
        step = profile.shoe_steps[0]  # the profile changed between the steps
    if step == "load":
        return (_opened(state, profile, event),)
    authorise(event.by, STEP_WHO.get(step, Who.DEALER))
    following = profile.shoe_steps[profile.shoe_steps.index(step) + 1]
    return (f.ShoeStepDone(step, following, event.by, event.at),)


def load(state: State, event: events.LoadAsked) -> tuple[Fact, ...]:
    if state.step != "load":
        raise Refused("step_first", step=state.step or "")
    return (_opened(state, _next_profile(state), event),)


def _next_profile(state: State) -> Profile:
    if state.profile is None:
        raise Refused("no_profile")
    return state.profile


def _opened(state: State, profile: Profile, event: events.Event) -> f.ShoeOpened:
    burn = profile.burn_count if profile.burn is Burn.FIXED else None
    then = Phase.READY if profile.burn is Burn.NONE else Phase.BURNING
    return f.ShoeOpened(state.shoes + 1, profile, burn, then, event.by, event.at)


# --- the burn (B5) --------------------------------------------------------------------------------------


def burn_known(state: State, event: events.CardKnown) -> tuple[Fact, ...]:
    """The first card is turned up; of the others only the number counts, though a face read helps the inventory."""
    shoe = shoe_of(state)
    if shoe.burn_of is None:
        of = burn_after(event.card)
        return (f.CardBurned(event.n, event.card, of, 0),)
    return (_burned(state, event.n, 1), f.CardRead(event.n, event.card, event.read))


def burn_unseen(state: State, event: events.CardUnseen) -> tuple[Fact, ...]:
    shoe = shoe_of(state)
    if shoe.burn_of is None:
        return ()  # the one turned up must be read
    return (_burned(state, event.n, 1),)


def _burned(state: State, n: int, more: int) -> f.CardBurned:
    """The card that makes it `more` than were burned before."""
    shoe = shoe_of(state)
    assert shoe.burn_of is not None
    done = shoe.burn_done + more
    return f.CardBurned(n, None, shoe.burn_of, done, Phase.READY if done == shoe.burn_of else None)


def confirm_burn(state: State, event: events.ConfirmPressed) -> tuple[Fact, ...]:
    """Without sensors one CONFIRM says that all are burned."""
    shoe = shoe_of(state)
    if shoe.burn_of is None:
        raise Refused("burn_turn_up")
    if state.procedure.sensors:
        return _burn_short(state, shoe)
    return tuple(_burned(state, shoe.out + more, more) for more in range(1, shoe.burn_of - shoe.burn_done + 1))


def start_in_burn(state: State, event: events.StartPressed) -> tuple[Fact, ...]:
    """The dealer wants to go on before the burn is done: a mismatch, for the pit boss to accept (I25)."""
    shoe = shoe_of(state)
    if shoe.burn_of is None:
        raise Refused("burn_turn_up")
    return _burn_short(state, shoe)


def _burn_short(state: State, shoe: Shoe) -> tuple[Fact, ...]:
    if conditions.find(state, "I25"):
        raise Refused("needs_pit")
    return conditions.raised(state, "I25", {"of": str(shoe.burn_of), "done": str(shoe.burn_done)})


# --- the cut card (B4, B6, B7) --------------------------------------------------------------------------


def cut_outside(state: State, event: events.CutCardPlaced) -> tuple[Fact, ...]:
    """In the burn or in ready: the next round is the last, or none is."""
    where = "burn" if state.phase is Phase.BURNING else "between"
    drawn, *raised = _cut(state, event, where, shoe_of(state).rounds + 1)
    if shoe_of(state).profile.cut_first is CutFirst.SHUFFLE_NOW:
        return (drawn, *raised, f.ShoeEndQueued("cut_card", (), Phase.UNLOADING))
    return (drawn, *raised)


def cut_before_first(state: State, event: events.CutCardPlaced) -> tuple[Fact, ...]:
    """In betting or closing: with a card of the round out it is inside it, else before it."""
    round_, shoe = round_of(state), shoe_of(state)
    if round_.numbers:
        return cut_in_round(state, event)
    facts = _cut(state, event, "between", round_.number)
    if shoe.profile.cut_first is CutFirst.SHUFFLE_NOW:
        facts += (f.RoundCancelled(round_.number, "cut_card", (), Phase.UNLOADING),)
    return facts


def cut_in_round(state: State, event: events.CutCardPlaced) -> tuple[Fact, ...]:
    """With a card of the round out, behind which another may be required."""
    round_ = round_of(state)
    if round_.next is None:
        return cut_in_result(state, event)
    drawn = _drawn_inside(state, event.via, event.n_before, event.out_at)
    return (drawn, *conditions.raised(state, "I18", {"before": round_.next}), *_misplaced(state, event.n_before))


def _drawn_inside(state: State, via: str, n_before: int, at: int) -> f.CutCardDrawn:
    """Out between the first and the last required card of the round: it is the last, or one more is (B6)."""
    more = 1 if shoe_of(state).profile.last_round is LastRound.ONE_MORE else 0
    return f.CutCardDrawn("round", via, n_before, round_of(state).number + more, at)


def cut_in_result(state: State, event: events.CutCardPlaced) -> tuple[Fact, ...]:
    """After the last required card it belongs to the next round (I20)."""
    return _cut(state, event, "between", round_of(state).number + 1, "I20")


def _cut(state: State, event: events.CutCardPlaced, where: str, upcoming: int, code: str = "I19") -> tuple[Fact, ...]:
    none_follows = shoe_of(state).profile.cut_first is CutFirst.SHUFFLE_NOW
    last = upcoming - 1 if none_follows else upcoming
    drawn = f.CutCardDrawn(where, event.via, event.n_before, last, event.out_at)
    return (drawn, *conditions.raised(state, code, {"before": "P1"}), *_misplaced(state, event.n_before))


def _misplaced(state: State, n_before: int) -> tuple[Fact, ...]:
    """It came where the house does not put it; only a house that states the depth can tell (I21)."""
    shoe = shoe_of(state)
    if shoe.profile.cut_depth is None:
        return ()
    least, most = shoe.profile.cut_depth
    behind = shoe.profile.cards - n_before
    if least <= behind <= most:
        return ()
    return conditions.raised(state, "I21", {"why": "early" if behind > most else "late"})


def is_cut_doubtful(state: State) -> bool:
    """Whether a card's scan without a movement may mean that the cut card, which only sensors saw, was that card (I22).

    Not once the shoe is at its end: what the count then lacks is the pit boss's matter (I49).
    """
    shoe = state.shoe
    drawn = shoe.cut_drawn if shoe else None
    if shoe is None or drawn is None or state.phase is Phase.UNLOADING:
        return False
    return drawn.via not in ("code", "manual") and drawn.n_before == shoe.out


def deny_cut(state: State) -> tuple[Fact, ...]:
    """It was a card, which left when the sensors saw it: it gets its number; what the cut card decided is undone."""
    shoe = shoe_of(state)
    assert shoe.cut_drawn is not None, "what is denied was told"
    misplaced = conditions.find(state, "I21")
    ended = (conditions.resolved(misplaced, "automatic"),) if misplaced else ()
    return (*ended, f.CutCardDenied(last=shoe.end is not None), f.CardOut(shoe.out + 1, shoe.cut_drawn.at))


def cut_by_void(state: State) -> tuple[Fact, ...]:
    """The round is voided with the cut card out behind a card of it that nobody could read: it was inside (B7)."""
    passed = shoe_of(state).cut_passed
    if passed is None:
        return ()
    drawn = _drawn_inside(state, passed.via, passed.n_before, passed.at)
    return (drawn, *_misplaced(state, passed.n_before))


def left_as_card(state: State, event: events.CutCardSeen) -> bool:
    """Whether its code alone tells the cut card from a card: the sensors saw one leave, and it got a number."""
    procedure = state.procedure
    return event.via == "code" and procedure.sensors and (event.hand or not procedure.reads_ahead)


def cut_in_rest(state: State, event: events.CutCardSeen) -> tuple[Fact, ...]:
    """Drawn with what is left, and told from a card by its code alone: what was counted last is no card (A5, B11)."""
    shoe = shoe_of(state)
    if (
        not left_as_card(state, event)
        or shoe.cut
        or shoe.cut_numbers
        or not shoe.out
        or shoe.fate(shoe.out) is not Fate.LEFT
    ):
        return ()
    return (f.CutCardNumbered(shoe.out),)


# --- the end of the shoe (B9, B11) ----------------------------------------------------------------------

END_REASONS = ("discretion", "fault", "day_end")


def end_now(state: State, event: events.EndShoeAsked) -> tuple[Fact, ...]:
    return (_end(event, Phase.UNLOADING),)


def end_after_round(state: State, event: events.EndShoeAsked) -> tuple[Fact, ...]:
    return (_end(event, None),)


def _end(event: events.EndShoeAsked, then: Phase | None) -> f.ShoeEndQueued:
    if event.reason not in END_REASONS:
        raise Refused("end_reason", reasons=" ".join(END_REASONS))
    if not event.casino:  # the house may always (B9): its server is asked for no second person
        authorise(event.by, Who.PIT)
    return f.ShoeEndQueued(event.reason, event.by, then)


def close_table(state: State, event: events.EndShoeAsked) -> tuple[Fact, ...]:
    """Between shoes the day may end."""
    if event.reason != "day_end":
        raise Refused("no_shoe")
    if not event.casino:
        authorise(event.by, Who.PIT)
    return (_table_closed(state),)


def _table_closed(state: State, more_rounds: int = 0) -> f.TableClosed:
    return f.TableClosed(state.day.rounds + more_rounds, state.day.shoes, state.day.voids, state.day.misreads)


def draw_left(state: State, event: events.CardKnown | events.CardUnseen) -> tuple[Fact, ...]:
    return (f.CardLeft(event.n),)


def confirm_left(state: State, event: events.ConfirmPressed) -> tuple[Fact, ...]:
    """Counted by movement: the shoe's sensors have seen every card that was left."""
    if not state.procedure.sensors:
        raise Refused("count_left")
    return count_left(state, events.LeftCounted(event.at, counts(shoe_of(state)).left, by=event.by))


def count_left(state: State, event: events.LeftCounted) -> tuple[Fact, ...]:
    """Equal, after the cut card: the dealer closes alone. Otherwise two people (I49)."""
    shoe = shoe_of(state)
    tally = counts(shoe)
    missing = shoe.profile.cards - tally.burned - tally.dealt - event.left
    standing = conditions.find(state, "I49")
    recounted = (conditions.resolved(standing, "recount", event.by),) if standing else ()
    if missing:
        detail = {"left": str(event.left), "missing" if missing > 0 else "extra": str(abs(missing))}
        return (*recounted, *conditions.raised(state, "I49", detail))
    if _reason(shoe) != "cut_card":
        authorise(event.by, Who.PIT)
    return (*recounted, *closed(state, event.left, event.by))


def closed(state: State, left: int, by: tuple[str, ...]) -> tuple[Fact, ...]:
    shoe, profile = shoe_of(state), _next_profile(state)
    tally, reason = counts(shoe), _reason(shoe)
    fact = f.ShoeClosed(
        shoe=shoe.number,
        reason=reason,
        dealt=tally.dealt,
        burned=tally.burned,
        left=left,
        rounds=shoe.counted,
        misreads=shoe.misreads,
        by=by,
        then=Phase.PREPARING,
        step=profile.shoe_steps[0],
    )
    return (fact, _table_closed(state, shoe.counted)) if reason == "day_end" else (fact,)


def _reason(shoe: Shoe) -> str:
    return shoe.end or "cut_card"
