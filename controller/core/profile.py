"""What a house decides: its rules of play and how its table is run. Data only; `config` reads it from YAML.

A `Profile` takes effect at the next shoe, a `Procedure` at the next event. Both reach the core as facts,
so that a recovered table is under the very rules it was under.
"""

from dataclasses import dataclass
from enum import StrEnum

from .cards import Slot


@dataclass(frozen=True, slots=True)
class Payout:
    """One line of a pay table: when it applies and what it pays net, to one, as an exact decimal string.

    `odds` is None where the profile leaves them to the casino.
    """

    when: str
    odds: str | None


@dataclass(frozen=True, slots=True)
class Bet:
    """A bet: its pay table (the first line that applies wins), what pushes it, and when it closes (C5, C6)."""

    name: str
    pays: tuple[Payout, ...]
    push: tuple[str, ...] = ()
    closes_after: int | None = None
    exact_return: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """A betting time before a slot; None takes the procedure's seconds and every bet of the profile."""

    before: Slot
    seconds: int | None = None
    bets: tuple[str, ...] | None = None


class Burn(StrEnum):
    """How many cards a new shoe burns (B5)."""

    FIRST_CARD = "first_card"
    FIXED = "fixed"
    NONE = "none"


class LastRound(StrEnum):
    """Which round is the last when the cut card appears inside one (B6)."""

    CURRENT_IS_LAST = "current_is_last"
    ONE_MORE = "one_more"


class CutFirst(StrEnum):
    """What a cut card that appears outside a round makes of the next one (B7)."""

    PLAY_AS_LAST = "play_as_last"
    SHUFFLE_NOW = "shuffle_now"


@dataclass(frozen=True, slots=True)
class Profile:
    """The house's rules. `hash` is the SHA-256 of the profile's file, `cut_depth` its least and greatest depth."""

    name: str
    hash: str
    decks: int
    shoe_steps: tuple[str, ...]
    burn: Burn
    burn_count: int
    last_round: LastRound
    cut_first: CutFirst
    cut_depth: tuple[int, int] | None
    stages: tuple[Stage, ...]
    bets: tuple[Bet, ...]
    early_close: bool = False
    use_early_card: bool = False

    @property
    def cards(self) -> int:
        return self.decks * 52


class Opens(StrEnum):
    """Who opens the betting."""

    DEALER = "dealer"
    AUTO = "auto"
    SERVER = "server"
    NONE = "none"


class Confirms(StrEnum):
    """What makes a dealt round final."""

    DEALER = "dealer"
    AUTO = "auto"
    NONE = "none"


class Position(StrEnum):
    """Where the scanner reads a card: out of the shoe, on its way out, or while it lies in the shoe."""

    AFTER_EXIT = "after_exit"
    BEFORE_EXIT = "before_exit"
    IN_SHOE = "in_shoe"


class Rescan(StrEnum):
    """Where a card that is out is read again (D8): at the same scanner, at one for the hand, or nowhere."""

    SAME = "same"
    HAND = "hand"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Limit:
    """What may be staked on a bet at this table, least and most, as exact decimal strings (C7)."""

    bet: str
    least: str
    most: str


@dataclass(frozen=True, slots=True)
class Procedure:
    """How this table is run; times in whole seconds unless the name says otherwise.

    `receipts`: the primary link answers for itself (false for a file, whose prompt comes at the commit).
    `limits` and `enrolment`: no betting opens before the casino server has told the one and done the other.
    `sensors`: movements are seen, so a scan without one is a duplicate (I04) and one without a scan a misread (I01).
    """

    open_betting: Opens = Opens.DEALER
    betting_seconds: int = 15
    confirm_result: Confirms = Confirms.DEALER
    confirm_seconds: int = 3
    offline_rounds: bool = False
    receipts: bool = True
    limits: bool = False
    enrolment: bool = False
    link_grace_seconds: int = 3
    sensors: bool = False
    max_pending: int = 2
    read_window_ms: int = 2000
    remind_seconds: int = 30
    empty_ms: int = 3000
    position: Position = Position.AFTER_EXIT
    rescan: Rescan = Rescan.SAME

    @property
    def reads_ahead(self) -> bool:
        """Whether a card is read before it is out, so that its reading waits for its movement (B10)."""
        return self.sensors and self.position is not Position.AFTER_EXIT
