"""Everything the table asserts has happened: what is journalled, and what of it is published.

A fact holds whatever the rules decided (slot, what comes next, outcome, bets, counts, deadlines), so that
`evolve` never asks them and a rule fixed tomorrow cannot rewrite last night. Fields are only ever added, with a
default; a class is never renamed. Times named `at` or `..._at` are monotonic nanoseconds. `PUBLIC` maps the facts
that casino IT reads to their message types (DESIGN 5); `feed.py` turns those into bytes.
"""

from enum import IntEnum, StrEnum

from .cards import Card, Slot
from .profile import Limit, Procedure, Profile
from .record import record


class Phase(StrEnum):
    """Where the table is in its procedure (DESIGN 6)."""

    CLOSED = "closed"
    PREPARING = "preparing"
    BURNING = "burning"
    READY = "ready"
    BETTING = "betting"
    CLOSING = "closing"
    DEALING = "dealing"
    RESULT = "result"
    UNLOADING = "unloading"


class Stops(IntEnum):
    """What a standing condition keeps from happening; the greater includes the lesser."""

    NOTHING = 0
    ROUNDS = 1
    CARDS = 2


class Who(StrEnum):
    """Who may take a condition's exit. `pit` is the pit boss, beside the dealer: two people."""

    AUTOMATIC = "automatic"
    DEALER = "dealer"
    PIT = "pit"
    TECHNICIAN = "technician"


class Timer(StrEnum):
    """The deadlines that core sets itself."""

    BETTING = "betting"
    GRACE = "grace"
    READ = "read"
    CONFIRM = "confirm"
    REMIND = "remind"
    EMPTY = "empty"


@record
class Deadline:
    at: int
    timer: Timer


@record
class Fact:
    """Something that happened. Never changed, never taken back: only followed by other facts."""


# --- the journal, the program, the table -----------------------------------------------------------


@record
class JournalOpened(Fact):
    reason: str
    publickey: str
    previous_generation: str | None = None
    previous_seqno: int | None = None
    previous_hash: str | None = None


@record
class TableStarted(Fact):
    """`deadlines` replace all that stood before; in another boot every other time kept becomes `at`."""

    version: str
    boot: str
    clean: bool
    confighash: str
    deadlines: tuple[Deadline, ...] = ()
    at: int = 0


@record
class TableStopped(Fact):
    reason: str


@record
class ConfigActivated(Fact):
    """`profile` is the one for the next shoe."""

    hash: str
    changes: tuple[str, ...]
    by: tuple[str, ...]
    procedure: Procedure
    profile: Profile


@record
class TableOpened(Fact):
    profile: str
    by: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()


@record
class TableClosed(Fact):
    rounds: int
    shoes: int
    voids: int
    misreads: int


# --- the shoe ---------------------------------------------------------------------------------------


@record
class ShoeStepDone(Fact):
    """One step of shoe work is done; `step` is its name, `next` the one that follows."""

    step: str
    next: str | None
    by: tuple[str, ...]
    at: int


@record
class ShoeOpened(Fact):
    """A loaded shoe, under `profile`. `burn` further cards are burned, None until the first is turned up (B5)."""

    shoe: int
    profile: Profile
    burn: int | None
    then: Phase
    by: tuple[str, ...] = ()
    at: int = 0


@record
class CardOut(Fact):
    """Card `n` left the shoe and is pending until it gets a fate; one that gets it at once needs no such fact."""

    n: int
    at: int


@record
class CardRead(Fact):
    """The face of a card that has no place yet (a hold stands), or that is burned."""

    n: int
    card: Card
    read: str = ""


@record
class CardBurned(Fact):
    """`card` only for the one turned up; `of` is the number of further cards to burn."""

    n: int
    card: Card | None
    of: int
    done: int
    then: Phase | None = None


@record
class BurnEnded(Fact):
    """The burn was accepted as it is (I25)."""

    of: int
    done: int
    by: tuple[str, ...]


@record
class CutCardPassed(Fact):
    """The cut card is out behind card `n_before`, which is not read yet: what it decides waits for that card (B7)."""

    via: str
    n_before: int
    at: int = 0


@record
class CutCardNumbered(Fact):
    """What got number `n` as it left was the cut card: its code says so, no sensor told it from a card."""

    n: int


@record
class CutCardDrawn(Fact):
    """`where`: burn, round or between. `last_round` is the number decided, by B7. It left at `at`; 0: nobody knows."""

    where: str
    via: str
    n_before: int
    last_round: int
    at: int = 0


@record
class CutCardDenied(Fact):
    """What the sensors took for the cut card was a card (I22). `last`: whether this round is the last all the same."""

    last: bool


@record
class ShoeEndQueued(Fact):
    """The shoe ends after this round (or now, outside one)."""

    reason: str
    by: tuple[str, ...]
    then: Phase | None = None


@record
class CardLeft(Fact):
    """A card drawn from the shoe at its end."""

    n: int


@record
class ShoeClosed(Fact):
    """`dealt` counts every card that was neither burned nor left; burned + dealt + left = cards loaded (B11)."""

    shoe: int
    reason: str
    dealt: int
    burned: int
    left: int
    rounds: int
    misreads: int
    by: tuple[str, ...]
    then: Phase
    step: str | None = None


# --- the round --------------------------------------------------------------------------------------


@record
class RoundBegun(Fact):
    """A round without a betting time: a free-running table's, or a dummy hand (no bets)."""

    round: int
    counted: int
    bets: tuple[str, ...]
    last_round: bool
    next: Slot
    dummy: bool = False


@record
class BettingOpened(Fact):
    round: int
    stage: int
    before: Slot
    seconds: int
    opened_at: int
    closes_at: int
    bets: tuple[str, ...]
    counted: int
    last_round: bool


@record
class BettingClosed(Fact):
    """`at` is the deadline's own instant where the timer ended it. `draw`: the prompt for the card needs no receipt."""

    round: int
    stage: int
    reason: str
    at: int
    draw: bool
    grace_at: int | None = None


@record
class DrawCalled(Fact):
    """The primary has the receipt of `betting.closed`: the card may be asked for."""

    round: int


@record
class CardDealt(Fact):
    """Card `n` is `slot` of the round; `next` is the slot after it, None when the round is complete."""

    round: int
    n: int
    slot: Slot
    card: Card
    read: str
    next: Slot | None
    ms_after_close: int | None = None


@record
class CardCorrected(Fact):
    """What card `n` was said to be was wrong; `after` is None until it is read again."""

    round: int
    n: int
    before: Card
    after: Card | None
    slots: tuple[Slot, ...]
    by: tuple[str, ...]
    reason: str


@record
class CardAdmitted(Fact):
    """A card that came before its time is used after all (I07 use): it counts as drawn at the close."""

    n: int


@record
class CardSetAside(Fact):
    """An unseen extra card that becomes the first card of the next round (I09 next)."""

    n: int


@record
class CardDiscarded(Fact):
    """A card out of its turn is put away with no round to go to (I06, I07, I09)."""

    n: int


@record
class RoundDealt(Fact):
    """The last required card is out; the result waits for its announcement (D9)."""

    round: int
    slots: tuple[Slot, ...]
    cards: tuple[Card, ...]
    at: int
    confirm_at: int | None = None
    remind_at: int | None = None


@record
class BetResult:
    """`result`: win, lose, push or void; `pays` is net, to one, of a win, where the profile states odds."""

    result: str
    pays: str | None = None


@record
class HandResult:
    cards: tuple[Card, ...]
    points: int
    natural: bool
    pair: bool


@record
class RoundCompleted(Fact):
    round: int
    counted: int
    profile: str
    profilehash: str
    player: HandResult
    banker: HandResult
    slots: tuple[Slot, ...]
    outcome: str
    bets: dict[str, BetResult]
    last_round: bool
    dummy: bool
    then: Phase


@record
class RoundVoided(Fact):
    """Every stake goes back. `numbers` are the cards that had this round for their fate, or none yet."""

    round: int
    reason: str
    cards: tuple[Card, ...]
    numbers: tuple[int, ...]
    by: tuple[str, ...]
    then: Phase
    dummy: bool = False
    corrects: int | None = None


@record
class RoundCancelled(Fact):
    """No card of the round left the shoe; every stake goes back (F2)."""

    round: int
    reason: str
    by: tuple[str, ...]
    then: Phase


# --- conditions, people, the link -------------------------------------------------------------------


@record
class IrregularityRaised(Fact):
    code: str
    stops: Stops
    exits: dict[str, Who]
    detail: dict[str, str]


@record
class IrregularityResolved(Fact):
    """`raised` is the seqno of the message that raised it.

    `counted_at`: people said how many cards had left by then, of which the sensors may tell later (I08); else 0.
    """

    code: str
    raised: int
    choice: str
    by: tuple[str, ...]
    counted_at: int = 0


@record
class FaultRaised(Fact):
    code: str
    part: str
    text: str
    stops: Stops
    exits: dict[str, Who]


@record
class FaultCleared(Fact):
    code: str
    part: str
    raised: int
    by: tuple[str, ...]


@record
class StaffCalled(Fact):
    by: tuple[str, ...]


@record
class CallEnded(Fact):
    by: tuple[str, ...]


@record
class LinkWentUp(Fact):
    pass


@record
class LinkWentDown(Fact):
    reason: str


@record
class LimitsSet(Fact):
    """The stakes that the casino takes, all of them (C7)."""

    limits: tuple[Limit, ...]
    by: tuple[str, ...]


@record
class TableEnrolled(Fact):
    """The casino knows this table and its public key."""

    by: tuple[str, ...]


@record
class CommandAnswered(Fact):
    """What a command of the casino server came to that left no other fact: on record, so that it never acts later.

    `refused` is the answer's prompt key, with its values; empty where there was nothing to do.
    """

    refused: str
    values: dict[str, str]


@record
class ClockSet(Fact):
    """The wall clock was set: UTC ns `before` and `after` at the same instant."""

    before: int
    after: int
    synchronised: bool


@record
class CardWentBack(Fact):
    """A card that has a number was pushed back into the shoe (I17)."""


@record
class CardCameAgain(Fact):
    """One that was pushed back is out again, under its number."""


@record
class CutCardSighted(Fact):
    """The cut card waits at the mouth, behind card `n_before`; it decides nothing before it leaves (B7)."""

    n_before: int


@record
class LidMoved(Fact):
    """The shoe's lid was opened or closed (G3)."""

    is_open: bool


@record
class KeyMoved(Fact):
    """The pit boss's key switch was turned, or turned back: evidence, and no authority of its own."""

    turned: bool


@record
class MouthSeen(Fact):
    """Whether a card lies in the mouth."""

    present: bool


@record
class TimerSet(Fact):
    timer: Timer
    at: int


@record
class TimerSpent(Fact):
    """A deadline passed that asked for nothing more."""

    timer: Timer


@record
class ScanFailed(Fact):
    """The scanner could not read something, or read no card's code; kept as evidence, `raw` as it came."""

    raw: str


PUBLIC: dict[type[Fact], str] = {
    JournalOpened: "journal.opened",
    TableStarted: "table.started",
    TableStopped: "table.stopped",
    TableOpened: "table.opened",
    TableClosed: "table.closed",
    ShoeOpened: "shoe.opened",
    ShoeClosed: "shoe.closed",
    CardBurned: "card.burned",
    BettingOpened: "betting.opened",
    BettingClosed: "betting.closed",
    CardDealt: "card.dealt",
    CardCorrected: "card.corrected",
    CutCardDrawn: "cutcard.drawn",
    RoundDealt: "round.dealt",
    RoundCompleted: "round.completed",
    RoundVoided: "round.voided",
    RoundCancelled: "round.cancelled",
    IrregularityRaised: "irregularity.raised",
    IrregularityResolved: "irregularity.resolved",
    FaultRaised: "fault.raised",
    FaultCleared: "fault.cleared",
    StaffCalled: "staff.called",
    ConfigActivated: "config.activated",
    ClockSet: "clock.stepped",
}
