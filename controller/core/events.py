"""Everything that can happen to the table, in the words of those who report it.

`at` is monotonic nanoseconds at the event's source. An event may carry `key`, (source, key): the journal keeps it
unique, so that a repeat is dropped before `decide`. `by` are staff ids, where people act.
"""

from dataclasses import dataclass, field

from .cards import Card
from .profile import Procedure, Profile

@dataclass(frozen=True, slots=True)
class Event:
    at: int
    key: tuple[str, str] | None = field(default=None, kw_only=True)
    by: tuple[str, ...] = field(default=(), kw_only=True)


# --- the shoe and the scanner -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CardMoved(Event):
    """One card left the shoe (a sensor saw it, or a card script says `skip`)."""


@dataclass(frozen=True, slots=True)
class CardScanned(Event):
    card: Card


@dataclass(frozen=True, slots=True)
class CardUnread(Event):
    """The scanner saw a card and could not read it, or its line was noise (D8)."""

    raw: str


@dataclass(frozen=True, slots=True)
class CodeUnknown(Event):
    """A whole, clean code that is in no code table (I06)."""

    raw: str


@dataclass(frozen=True, slots=True)
class CutCardSeen(Event):
    """The cut card left the shoe. `via` is the signal: code, beams, reflectance, head, manual."""

    via: str


@dataclass(frozen=True, slots=True)
class MouthChanged(Event):
    """Whether a card lies in the mouth of the shoe."""

    present: bool


# --- people: buttons and the control socket ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartPressed(Event):
    """INICIO."""


@dataclass(frozen=True, slots=True)
class ConfirmPressed(Event):
    """CONFIRMAR."""


@dataclass(frozen=True, slots=True)
class ConfirmHeld(Event):
    """CONFIRMAR held for 2 s: takes back the last scan (I47)."""


@dataclass(frozen=True, slots=True)
class CallPressed(Event):
    """LLAMAR: calls the pit boss, or cancels the call."""


@dataclass(frozen=True, slots=True)
class CloseAsked(Event):
    """Close the betting before its time; only where the profile has `early_close`."""


@dataclass(frozen=True, slots=True)
class VoidAsked(Event):
    reason: str


@dataclass(frozen=True, slots=True)
class ResolveAsked(Event):
    """A choice for a standing condition; `card` where the choice keys one in."""

    code: str
    choice: str
    card: Card | None = None


@dataclass(frozen=True, slots=True)
class LoadAsked(Event):
    """The shoe is loaded and closed."""


@dataclass(frozen=True, slots=True)
class LeftCounted(Event):
    """The number of cards counted in the shoe at its end (B11)."""

    left: int


@dataclass(frozen=True, slots=True)
class EndShoeAsked(Event):
    """End the shoe after this round: reason discretion, fault or day_end (B9)."""

    reason: str


# --- the link, the devices, the machine -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinkChanged(Event):
    """The primary publisher's link came up or went down."""

    up: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Receipt(Event):
    """The primary has receipts for every message up to and with this one."""

    seqno: int


@dataclass(frozen=True, slots=True)
class BacklogChanged(Event):
    """The primary's backlog passed its high-water mark, or fell below its low one (I34)."""

    high: bool
    depth: int


@dataclass(frozen=True, slots=True)
class FaultSeen(Event):
    """A device or part fails. `code` is a row of `conditions.py`; `text` says what to do."""

    code: str
    part: str
    text: str


@dataclass(frozen=True, slots=True)
class FaultGone(Event):
    code: str
    part: str


@dataclass(frozen=True, slots=True)
class JournalMade(Event):
    """A new generation begins: `previous` is the one before it, where there was one."""

    reason: str
    publickey: str
    previous_generation: str | None = None
    previous_seqno: int | None = None
    previous_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Configured(Event):
    """The configuration in force; the profile waits for the next shoe."""

    hash: str
    changes: tuple[str, ...]
    procedure: Procedure
    profile: Profile


@dataclass(frozen=True, slots=True)
class Restarted(Event):
    """The program started. `boot` names this run of the machine: monotonic times of another boot mean nothing."""

    boot: str
    clean: bool
    version: str
    confighash: str


@dataclass(frozen=True, slots=True)
class Stopped(Event):
    reason: str


@dataclass(frozen=True, slots=True)
class Elapsed(Event):
    """Time has passed `at`: every deadline up to it fires, in order."""
