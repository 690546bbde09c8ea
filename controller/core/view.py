"""What the table shows: one instruction, one strip, the lamps. Keys and values; words live in the catalogues.

`view` is a pure function of the state: levels, drawn again freely. The panel's grammar is at the top of
irregularities.md: a strip of 21 characters, a headline of 12, two lines of 16.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from .facts import Phase


@dataclass(frozen=True, slots=True)
class Text:
    """A message of the catalogue and its values: slots (`P1`), cards (`8H`), numbers."""

    key: str
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the hands do next. `strip` holds the notices, most important first: it never replaces the instruction."""

    headline: Text
    lines: tuple[Text, ...] = ()
    strip: tuple[Text, ...] = ()


class Pattern(StrEnum):
    """What the lamps say."""

    OFF = "off"
    BETTING = "betting"  # the bar goes out lamp by lamp; at `closes_at` it turns to NO_MORE by itself
    NO_MORE = "no_more"  # all red, 2 Hz, until the first card
    HELD = "held"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Lamps:
    """`opened_at`, `closes_at`: the betting time, monotonic ns. `buzz` names the closing whose sound is due: once each."""

    pattern: Pattern = Pattern.OFF
    opened_at: int = 0
    closes_at: int = 0
    call: bool = False
    buzz: str = ""


@dataclass(frozen=True, slots=True)
class View:
    phase: Phase
    prompt: Prompt
    lamps: Lamps = Lamps()
