"""What is recorded whatever stands: card numbers and readings, the link, faults, time and restarts."""

from collections.abc import Sequence

from . import betting, conditions, dealing, events
from . import facts as f
from .cards import Card
from .facts import Deadline, Fact, Phase, Timer
from .profile import Confirms, Opens
from .shoe import after_round, has_begun, in_sequence, is_cut_doubtful, left_as_card, load, pending_unread
from .state import Condition, Fate, Shoe, State, Waiting, fold, shoe_of

MILLISECOND = 1_000_000


# --- numbers and readings: movement and scan pair by order ---------------------------------------------


def moved(state: State, event: events.CardMoved) -> tuple[Fact, ...]:
    """A new number; but what was pushed back comes out first, and has one already (I17)."""
    shoe = shoe_of(state)
    return (f.CardCameAgain(),) if shoe.back else (f.CardOut(shoe.out + 1, event.at),)


def numbered(state: State, at: int) -> tuple[int, int] | None:
    """The number of the card that is read at `at`, and when it left; None: it is no new card (I04)."""
    shoe = shoe_of(state)
    if unread := awaited(state):
        n = unread[0]
        return n, next((waiting.at for waiting in shoe.waiting if waiting.n == n), at)
    if shoe.aside is not None and state.phase in (Phase.READY, Phase.BETTING, Phase.CLOSING):
        return shoe.aside, at  # it is drawn when it is turned up
    return None if conditions.sees(state) else (shoe.out + 1, at)


def awaited(state: State) -> Sequence[int]:
    """The cards whose scan may come, oldest first; that of a burned one follows its movement at once, or never does."""
    shoe = shoe_of(state)
    if state.phase is Phase.BURNING or (state.phase is Phase.READY and conditions.sees(state)):
        return shoe.unread
    return [n for n in shoe.unread if shoe.fate(n) is Fate.PENDING]


def has_fate(state: State, n: int) -> bool:
    """Whether the card that was read has its place already: a burned card's scan comes after its movement."""
    shoe = shoe_of(state)
    return n <= shoe.out and shoe.fate(n) is not Fate.PENDING


def unplaced(state: State) -> list[Waiting]:
    """The cards that wait for their place and for nothing else: none is set aside, or for people to decide."""
    shoe = shoe_of(state)
    return [w for w in shoe.waiting if w.n != shoe.aside and not conditions.about(state, w.n)] if shoe.waiting else []


def how_read(state: State, at: int) -> str:
    """`rescan` where a reading of this card had failed or was taken back, else `scan`.

    With several to be read again (I02) nobody shows one before the scans that were on their way have come.
    """
    if conditions.find(state, "I02"):
        youngest = max((waiting.at for waiting in shoe_of(state).waiting), default=0)
        return "rescan" if at - youngest >= state.procedure.read_window_ms * MILLISECOND else "scan"
    if conditions.find(state, "I01"):
        return "rescan"
    return "rescan" if awaited(state) and not conditions.sees(state) else "scan"


def is_perhaps_echo(state: State, n: int, card: Card) -> bool:
    """Whether the scan may be the last card's again, which was read while card `n` waited for its own.

    Equal neighbours are legal, so it is not dropped for being equal: if no other scan comes, both are read again.
    """
    round_, unsure = state.round, shoe_of(state).unsure is not None
    return unsure and round_ is not None and round_.numbers[-1:] == (n - 1,) and round_.cards[-1] == card


def unmoved(state: State, at: int) -> tuple[Fact, ...]:
    """A scan without a movement. With a beam or the head at fault only people can tell a card from its echo (I41)."""
    if conditions.dim(state) and state.phase is not Phase.UNLOADING:
        return unclear(state, events.MovementUnclear(at, "scan"))
    return duplicate(state)


def duplicate(state: State) -> tuple[Fact, ...]:
    """A scan without a movement: the same card seen again (I04). Never told by its code: equal neighbours are legal.

    Right behind what sensors alone took for the cut card it may be that card's own scan: the dealer says (I22).
    """
    code = "I22" if is_cut_doubtful(state) else "I04"
    if state.phase is Phase.UNLOADING or conditions.find(state, code):
        return ()
    return conditions.raised(state, code)


def unread(state: State, event: events.CardUnread) -> tuple[Fact, ...]:
    """The scanner could not read: a misread where a card is awaited (D8, I01).

    While that stands further failures say nothing new: a scanner that babbles must not fill the journal.
    """
    failed = f.ScanFailed(event.raw)
    if conditions.find(state, "I01") or conditions.find(state, "I02"):
        return ()
    if not _awaits_card(state):
        return (failed,)
    pending = pending_unread(state)
    if conditions.sees(state) and not pending:
        return (failed,)
    unsure = _unsure(state)  # the one that could not be read may be any of them
    state = fold(state, unsure)
    code = "I02" if unsure else "I01"
    return (*unsure, failed, *conditions.misread(state, code, _which(state, pending_unread(state))))


def unknown(state: State, event: events.CodeUnknown) -> tuple[Fact, ...]:
    """A clean code of no card of ours (I06): a joker, another set, somebody's label."""
    failed = f.ScanFailed(event.raw)
    if conditions.find(state, "I06"):
        return ()
    if state.shoe is None or state.phase is Phase.UNLOADING:
        return (failed,)
    pending = pending_unread(state)
    none_out = not pending and conditions.sees(state) and not conditions.dim(state)
    return (failed, *conditions.raised(state, "I06", _which(state, pending), ("remove",) if none_out else ()))


def _awaits_card(state: State) -> bool:
    """Whether the next card must be read; of the burned ones only the one turned up must."""
    match state.phase:
        case Phase.READY:
            return state.procedure.open_betting is Opens.NONE
        case Phase.DEALING:
            return state.round is not None and state.round.next is not None
        case Phase.BURNING:
            return shoe_of(state).burn_of is None
        case phase:
            return phase is Phase.CLOSING


def _which(state: State, pending: list[int]) -> dict[str, str]:
    """The card that was not read: its number, where a movement gave it one, and its slot."""
    detail = {"n": str(pending[0])} if pending else {}
    slot = "burn" if state.phase is Phase.BURNING else state.round.next if state.round else "P1"
    return detail | {"slot": str(slot)} if slot else detail


def not_read(state: State) -> tuple[Fact, ...]:
    """The window of the oldest movement without a scan is over (I01); with others behind it, I02.

    Cards each of which was read while the next one was out are unknown with it: one scan was too few for all of them,
    and nobody knows whose. Taken in order, every face would be one place too early.
    """
    spent = f.TimerSpent(Timer.READ)
    if not state.shoe or not pending_unread(state) or not (_awaits_card(state) or dealing.is_unsure(state)):
        return (spent,)
    unsure = _unsure(state)
    state = fold(state, unsure)
    pending = pending_unread(state)
    code = "I01" if len(pending) == 1 else "I02"
    if conditions.find(state, code):
        return (*unsure, spent)
    return (*unsure, *conditions.misread(state, code, _which(state, pending)))


def _unsure(state: State) -> tuple[Fact, ...]:
    """The cards of the round that are to be read again with the one that was not read, the last one first."""
    round_, first = state.round, shoe_of(state).unsure
    if state.phase is not Phase.DEALING or round_ is None or first is None:
        return ()
    dealt = reversed([*zip(round_.numbers, round_.cards, round_.slots, strict=True)])
    return tuple(
        f.CardCorrected(round_.number, n, card, None, (slot,), (), "unsure") for n, card, slot in dealt if n >= first
    )


def arm(state: State, at: int) -> tuple[Fact, ...]:
    """A time that is needed and does not run: for a scan, an empty mouth, a result, a receipt."""
    if state.shoe is None or conditions.cards_held(state):
        return ()
    procedure, running = state.procedure, {deadline.timer for deadline in state.deadlines}
    needed = (
        (Timer.READ, procedure.read_window_ms * MILLISECOND, _needs_window),
        (Timer.EMPTY, procedure.empty_ms * MILLISECOND, _is_empty),
        (Timer.CONFIRM, procedure.confirm_seconds * betting.SECOND, _confirms_itself),
        (Timer.GRACE, procedure.link_grace_seconds * betting.SECOND, _awaits_receipt),
    )
    for timer, length, needs in needed:
        if timer not in running and needs(state):
            return (f.TimerSet(timer, at + length),)
    return ()


def _needs_window(state: State) -> bool:
    misread = conditions.find(state, "I01") or (conditions.find(state, "I02") and not dealing.is_unsure(state))
    awaits = _awaits_card(state) or (state.phase is Phase.DEALING and dealing.is_unsure(state))
    return state.procedure.sensors and not misread and awaits and bool(pending_unread(state))


def _is_empty(state: State) -> bool:
    in_turn = state.phase in (Phase.CLOSING, Phase.DEALING) and state.round is not None and state.round.next is not None
    return in_turn and not state.present and conditions.sees_mouth(state) and not conditions.find(state, "I23")


def _awaits_receipt(state: State) -> bool:
    return betting.undrawn(state) is not None


def _confirms_itself(state: State) -> bool:
    return state.phase is Phase.RESULT and state.procedure.confirm_result is Confirms.AUTO and not state.called


def next_to_place(state: State, at: int) -> events.CardKnown | events.CardUnseen | events.CutCardPlaced | None:
    """The oldest that waits for its place and for nothing else, a card or the cut card."""
    shoe = state.shoe
    if shoe is None or conditions.cards_held(state):
        return None
    waiting, passed = next(iter(unplaced(state)), None), shoe.cut_passed
    if passed is not None and not any(w.n <= passed.n_before for w in in_sequence(state)):
        return events.CutCardPlaced(at, passed.via, passed.n_before, passed.at)
    if waiting is None:
        return None
    card = shoe.face(waiting.n)
    if card is None:
        return events.CardUnseen(at, waiting.n, waiting.at)
    return events.CardKnown(at, waiting.n, waiting.at, card, waiting.read or "scan")


def cut_card(state: State, event: events.CutCardSeen) -> tuple[Fact, ...]:
    """One passage, several signals: one fact. Behind a card that has no place yet it waits for that one (B7)."""
    shoe = shoe_of(state)
    if shoe.cut or shoe.cut_passed or event.at < shoe.opened_at:
        return ()
    if n := _cut_moved(state, event):
        return (f.CutCardNumbered(n), f.CutCardPassed(event.via, n - 1, event.at))
    return (f.CutCardPassed(event.via, shoe.out, event.at),)


def _cut_moved(state: State, event: events.CutCardSeen) -> int | None:
    """The number that the cut card got as it left, where only its code tells it from a card: they pair by order."""
    shoe = shoe_of(state)
    if not left_as_card(state, event):
        return None
    unread = [n for n in shoe.unread if shoe.fate(n) is Fate.PENDING]
    misread = {c.n for c in state.conditions if c.code == "I01"}  # by order, but for one that the scanner has missed
    return next((n for n in unread if n not in misread), unread[-1] if unread else None)


# --- the mouth, the link, faults ------------------------------------------------------------------------


def mouth(state: State, event: events.MouthChanged) -> tuple[Fact, ...]:
    return () if state.present == event.present else (f.MouthSeen(event.present),)


def lid(state: State, event: events.LidChanged) -> tuple[Fact, ...]:
    """Opened over a shoe that is dealt from, it is the pit boss's matter (G3, I39); its end is taken out of it open."""
    if state.lid_open == event.is_open:
        return ()
    moved = f.LidMoved(event.is_open)
    dealt_from = state.shoe is not None and state.phase is not Phase.UNLOADING
    alarm = event.is_open and dealt_from and not conditions.find(state, "I39")
    return (moved, *conditions.raised(state, "I39")) if alarm else (moved,)


def lid_in_shoe_work(state: State, event: events.LidChanged) -> tuple[Fact, ...]:
    """Closed over cards it says that the shoe is loaded (DESIGN 6)."""
    moved = lid(state, event)
    loads = bool(moved) and not event.is_open and state.present and state.step == "load"
    return (*moved, *load(state, events.LoadAsked(event.at))) if loads else moved


def is_counted(state: State, at: int) -> bool:
    """Whether what left at `at` is of the shoe before, or people have counted it (I08, I41)."""
    shoe = shoe_of(state)
    return at < max(shoe.opened_at, shoe.counted_at)


def two_cards(state: State, event: events.TwoCardsMoved) -> tuple[Fact, ...]:
    """Both get their numbers. Where their order says whose they are it is the pit boss's (I08); early ones are I07."""
    shoe = shoe_of(state)
    if is_counted(state, event.at):
        return ()
    again = min(shoe.back, 2)
    out = tuple(f.CardOut(shoe.out + 1 + i, event.at) for i in range(2 - again))
    facts = (*(f.CardCameAgain(),) * again, *out)
    if state.phase is Phase.BETTING and out:
        return (*facts, *dealing.early_unseen(state, events.CardUnseen(event.at, shoe.out + 1, event.at)))
    if again or not _awaits_card(state):
        return facts  # `_follows` places them one by one
    return (*facts, *conditions.raised(state, "I08", {"n": str(shoe.out + 1)}, ("no_card", "one_card", "two_cards")))


def unclear(state: State, event: events.MovementUnclear) -> tuple[Fact, ...]:
    """The sensors cannot tell how many cards left: people say it, nobody guesses (I08)."""
    if conditions.unclear(state):
        return ()
    betting_ = state.round.betting if state.round else None
    still_open = state.phase is Phase.BETTING or (
        state.phase is Phase.CLOSING and betting_ and betting_.closed_at and event.at < betting_.closed_at
    )
    detail = {"early": "yes" if still_open else "no", "why": event.why}
    return conditions.raised(state, "I08", detail, ("order", "void"))


def returned(state: State, event: events.CardReturned) -> tuple[Fact, ...]:
    """A card that had left was pushed back (I17): it keeps its number, which its coming out again does not change."""
    shoe = shoe_of(state)
    if shoe.back == shoe.out or event.at < shoe.opened_at:
        return ()
    back = f.CardWentBack()
    held = state.phase is Phase.UNLOADING or conditions.find(state, "I17")
    return (back,) if held else (back, *conditions.raised(state, "I17"))


def cut_waits(state: State, event: events.CutCardWaiting) -> tuple[Fact, ...]:
    shoe = shoe_of(state)
    known = shoe.cut or shoe.cut_passed or shoe.cut_waits == shoe.out
    return () if known else (f.CutCardSighted(shoe.out),)


def is_cut_missing(state: State, shoe: Shoe, more: int = 0) -> bool:
    """Whether the cut card should have come before `more` further cards; only a house with a depth can tell (I21)."""
    if shoe.profile.cut_depth is None or shoe.cut or shoe.cut_passed or state.phase is Phase.UNLOADING:
        return False
    return shoe.out + more > shoe.profile.cards - shoe.profile.cut_depth[0]


def cut_missing(state: State) -> tuple[Fact, ...]:
    if state.shoe is None or not is_cut_missing(state, state.shoe) or conditions.find(state, "I21"):
        return ()
    return conditions.raised(state, "I21", {"why": "missing"}, ("noted",))


def repeated(state: State, event: events.CardRepeated) -> tuple[Fact, ...]:
    return duplicate(state)


def empty(state: State) -> tuple[Fact, ...]:
    """The mouth stayed empty with a slot open (I23)."""
    spent = f.TimerSpent(Timer.EMPTY)
    return (spent, *conditions.raised(state, "I23")) if _is_empty(state) else (spent,)


def link(state: State, event: events.LinkChanged) -> tuple[Fact, ...]:
    if event.up:
        return () if state.link.up else (f.LinkWentUp(),)
    if not state.link.up and state.link.reason == event.reason:
        return ()
    begun = state.link.up and has_begun(state)
    return (f.LinkWentDown(event.reason), *(conditions.raised(state, "I32") if begun else ()))


def backlog(state: State, event: events.BacklogChanged) -> tuple[Fact, ...]:
    standing = conditions.find(state, "I34")
    if event.high and standing is None:
        return conditions.raised(state, "I34", {"depth": str(event.depth)})
    if not event.high and standing is not None:
        return (conditions.resolved(standing, "automatic"),)
    return ()


def fault(state: State, event: events.FaultSeen) -> tuple[Fact, ...]:
    if _fault(state, event.code, event.part):
        return ()
    row = conditions.row(event.code)
    raised = f.FaultRaised(event.code, event.part, event.text, row.stops, row.exits)
    return (raised, f.StaffCalled(())) if row.calls and not state.called else (raised,)


def fault_gone(state: State, event: events.FaultGone) -> tuple[Fact, ...]:
    return tuple(f.FaultCleared(c.code, c.part, c.raised, event.by) for c in _fault(state, event.code, event.part))


def _fault(state: State, code: str, part: str) -> list[Condition]:
    return [c for c in state.conditions if c.code == code and c.part == part]


def key(state: State, event: events.KeyTurned) -> tuple[Fact, ...]:
    """Told when it is read at the start, too: only a change is a fact."""
    return () if state.key_turned == event.turned else (f.KeyMoved(event.turned),)


def call(state: State, event: events.CallPressed) -> tuple[Fact, ...]:
    return (f.CallEnded(event.by),) if state.called else (f.StaffCalled(event.by),)


# --- the program ----------------------------------------------------------------------------------------


def journal_made(state: State, event: events.JournalMade) -> tuple[Fact, ...]:
    return (
        f.JournalOpened(
            event.reason,
            event.publickey,
            event.previous_generation,
            event.previous_seqno,
            event.previous_hash,
        ),
    )


def configured(state: State, event: events.Configured) -> tuple[Fact, ...]:
    same = (event.hash, event.procedure, event.profile) == (state.confighash, state.procedure, state.profile)
    if same:
        return ()
    return (f.ConfigActivated(event.hash, event.changes, event.by, event.procedure, event.profile),)


def clock_stepped(state: State, event: events.ClockStepped) -> tuple[Fact, ...]:
    """On record; no interval depends on it (I38)."""
    return (f.ClockSet(event.before, event.after, event.synchronised),)


def stopped(state: State, event: events.Stopped) -> tuple[Fact, ...]:
    return (f.TableStopped(event.reason),)


def restarted(state: State, event: events.Restarted) -> tuple[Fact, ...]:
    """Every deadline ends or is renewed; inside a round the cards known are confirmed against the felt (I35)."""
    deadlines = _renewed(state, event)
    started = f.TableStarted(event.version, event.boot, state.clean, event.confighash, deadlines, event.at)
    return (started, *_missed_deadline(state, deadlines, event), *_recovery(state))


def _renewed(state: State, event: events.Restarted) -> tuple[Deadline, ...]:
    round_, procedure = state.round, state.procedure
    if round_ is None:
        return ()
    if (
        round_.betting
        and state.phase is Phase.BETTING
        and state.boot == event.boot
        and round_.betting.closes_at > event.at
    ):
        return (Deadline(round_.betting.closes_at, Timer.BETTING),)
    if betting.undrawn(state):
        return (Deadline(event.at + procedure.link_grace_seconds * betting.SECOND, Timer.GRACE),)
    if state.phase is Phase.RESULT and procedure.confirm_result is Confirms.DEALER:
        return (Deadline(event.at + procedure.remind_seconds * betting.SECOND, Timer.REMIND),)
    return ()


def _missed_deadline(state: State, renewed: tuple[Deadline, ...], event: events.Restarted) -> tuple[Fact, ...]:
    """The betting's end passed unseen: nobody heard "no más apuestas", so its stakes go back (F2, F4)."""
    round_ = state.round
    if state.phase is not Phase.BETTING or round_ is None or renewed:
        return ()
    if round_.numbers:
        return betting.close(state, "timer", event.at)
    return (f.RoundCancelled(round_.number, "restart", (), after_round(state, round_.number)),)


def _recovery(state: State) -> tuple[Fact, ...]:
    round_ = state.round
    open_work = state.phase in (Phase.BURNING, Phase.CLOSING, Phase.DEALING, Phase.RESULT)
    if not (open_work or (round_ is not None and round_.numbers)) or conditions.find(state, "I35"):
        return ()
    return conditions.raised(state, "I35")


def elapsed(state: State, event: events.Elapsed) -> tuple[Fact, ...]:
    """The earliest deadline that is due, once; `decide` asks again until none is."""
    deadline = next((d for d in state.deadlines if d.at <= event.at), None)
    if deadline is None:
        return ()
    match deadline.timer:
        case Timer.BETTING:
            return betting.close(state, "timer", deadline.at)
        case Timer.GRACE:
            return betting.no_answer(state)
        case Timer.READ:
            return not_read(state)
        case Timer.CONFIRM:
            return dealing.auto_confirm(state)
        case Timer.REMIND:
            return dealing.remind(state, deadline.at)
        case Timer.EMPTY:
            return empty(state)
