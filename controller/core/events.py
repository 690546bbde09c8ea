"""Everything that can happen to the table, in the words of those who report it.

`at` is monotonic nanoseconds at the event's source. An event may carry `key`, (source, key): the journal keeps it
unique, so that a repeat is dropped before `decide`. `by` are staff ids, where people act.
"""

from dataclasses import field

from .cards import Card
from .profile import Limit, Procedure, Profile
from .record import record

CASINO = "casino"  # the source of a casino server's commands in `key`


@record
class Event:
    at: int
    key: tuple[str, str] | None = field(default=None, kw_only=True)
    by: tuple[str, ...] = field(default=(), kw_only=True)


# --- the shoe and the scanner -----------------------------------------------------------------------


@record
class CardMoved(Event):
    """One card left the shoe (a sensor saw it, or a card script says `skip`).

    `card` is its face where the scanner had read it before: no event says it sooner (B10).
    """

    card: Card | None = None


# What a scanner says; `hand`: the one for the hand, which reads cards that are out.


@record
class CardScanned(Event):
    card: Card
    hand: bool = False


@record
class CardUnread(Event):
    """The scanner saw a card and could not read it, or its line was noise (D8)."""

    raw: str
    hand: bool = False


@record
class CodeUnknown(Event):
    """A whole, clean code that is in no code table (I06)."""

    raw: str
    hand: bool = False


@record
class CutCardSeen(Event):
    """The cut card left the shoe. `via` is the signal: code, beams, reflectance, head, manual."""

    via: str
    hand: bool = False


@record
class CardRepeated(Event):
    """The scanner saw a label again within the time in which it may repeat itself; no card (I04)."""


@record
class TwoCardsMoved(Event):
    """Two cards left the shoe at once (I08)."""


@record
class MovementUnclear(Event):
    """Something moved at the exit, and how many cards left is not known; `why` is the sensors' own word (I08)."""

    why: str


@record
class CardReturned(Event):
    """A card that had left was pushed back into the shoe (I17)."""


@record
class CutCardWaiting(Event):
    """The cut card is seen at the mouth and has not left: only a warning (B7)."""


@record
class MouthChanged(Event):
    """Whether a card lies in the mouth of the shoe."""

    present: bool


@record
class LidChanged(Event):
    """The shoe's lid (G3)."""

    is_open: bool


# --- people: buttons and the control socket ---------------------------------------------------------


@record
class StartPressed(Event):
    """INICIO."""


@record
class ConfirmPressed(Event):
    """CONFIRMAR."""


@record
class ConfirmHeld(Event):
    """CONFIRMAR held for 2 s: takes back the last scan (I47)."""


@record
class CallPressed(Event):
    """LLAMAR: calls the pit boss, or cancels the call."""


@record
class KeyTurned(Event):
    """The pit boss's key switch. It says that a key is in, and not whose: who decides is named in `by` all the same."""

    turned: bool


@record
class CloseAsked(Event):
    """Close the betting before its time; only where the profile has `early_close`. `casino`: its server asks."""

    casino: bool = False


@record
class VoidAsked(Event):
    reason: str


@record
class ReportAsked(Event):
    """Somebody tells what no sensor sees: the code of an irregularity that people report (I16)."""

    code: str


@record
class ResolveAsked(Event):
    """A choice for a standing condition; `card` where the choice keys one in."""

    code: str
    choice: str
    card: Card | None = None
    reason: str = ""


@record
class LoadAsked(Event):
    """The shoe is loaded and closed."""


@record
class LeftCounted(Event):
    """The number of cards counted in the shoe at its end (B11)."""

    left: int


@record
class EndShoeAsked(Event):
    """End the shoe after this round: reason discretion, fault or day_end (B9). `casino`: its server asks."""

    reason: str
    casino: bool = False


# --- the casino server's commands (DESIGN 5) ----------------------------------------------------------------


@record
class OpenAsked(Event):
    """Open the betting; only where the server does it (`open_betting: server`)."""


@record
class PauseAsked(Event):
    """No further round until `ResumeAsked`; the one in progress is played."""

    reason: str


@record
class ResumeAsked(Event):
    """The pause is over."""


@record
class VideoChanged(Event):
    """The players' picture was lost or came back (F1, F2)."""

    up: bool


@record
class VoidRequested(Event):
    """The casino wants the round in progress voided: the pit boss at the table decides."""

    reason: str


@record
class ResultDisputed(Event):
    """The casino's evaluation of the round that message `seqno` completed is `outcome`, and ours is not (I53)."""

    seqno: int
    outcome: str


@record
class LimitsGiven(Event):
    """The stakes that the casino takes, all of them (C7)."""

    limits: tuple[Limit, ...]


@record
class Enrolled(Event):
    """The casino knows this table and its public key."""


@record
class CommandRefused(Event):
    """Something came that is no command for this table now; `why` is a word of the integrator's guide (I52)."""

    why: str


# --- the link, the devices, the machine -------------------------------------------------------------


@record
class LinkChanged(Event):
    """The primary publisher's link came up or went down."""

    up: bool
    reason: str = ""


@record
class Receipt(Event):
    """The primary has receipts for every message up to and with this one."""

    seqno: int


@record
class BacklogChanged(Event):
    """The primary's backlog passed its high-water mark, or fell below its low one (I34)."""

    high: bool
    depth: int


@record
class FaultSeen(Event):
    """A device or part fails. `code` is a row of `conditions.py`; `text` says what to do."""

    code: str
    part: str
    text: str


@record
class FaultGone(Event):
    code: str
    part: str


@record
class JournalMade(Event):
    """A new generation begins: `previous` is the one before it, where there was one."""

    reason: str
    publickey: str
    previous_generation: str | None = None
    previous_seqno: int | None = None
    previous_hash: str | None = None


@record
class Configured(Event):
    """The configuration in force; the profile waits for the next shoe."""

    hash: str
    changes: tuple[str, ...]
    procedure: Procedure
    profile: Profile


@record
class Restarted(Event):
    """The program started. `boot` names this run of the machine: monotonic times of another boot mean nothing."""

    boot: str
    version: str
    confighash: str


@record
class Stopped(Event):
    reason: str


@record
class ClockStepped(Event):
    """The wall clock was set: UTC ns `before` and `after` at the same instant."""

    before: int
    after: int
    synchronised: bool


@record
class Elapsed(Event):
    """Time has passed `at`: every deadline up to it fires, in order."""


# --- what core itself asks, once a card has its number ----------------------------------------------


@record
class CardKnown(Event):
    """Card `n`, which left the shoe at `out_at`, is to be placed; its face is known."""

    n: int
    out_at: int
    card: Card
    read: str


@record
class CutCardPlaced(Event):
    """The cut card's passage at `out_at` is to be judged: every card that came before it has its place."""

    via: str
    n_before: int
    out_at: int = 0


@record
class CardUnseen(Event):
    """Card `n` left the shoe at `out_at` and has not been read."""

    n: int
    out_at: int
