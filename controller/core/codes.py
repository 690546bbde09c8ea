"""What the lines of a scanner mean: one table from code to card, beside it the codes of the cut card and of a misread.

`Codes` says what one line is, `Scans` what the table is told of it: the half of every scanner's adapter that is pure.

A line is a code only when it is exactly that code: no other case, no blank at its ends, no part of it. What is in no
table is `Sign.UNKNOWN` (I06); nothing is ever guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from .cards import DECK, RANKS, Card
from .events import CardRepeated, CardScanned, CardUnread, CodeUnknown, CutCardSeen, Event

CODE_MAX = 64  # characters; a Code 128 label on a card holds about 20
REPEATS_MAX = 64  # codes remembered while they may be repeated: a table has 54


class Sign(Enum):
    """What a clean line says that names no card."""

    CUT = "cut"
    NO_READ = "no_read"
    UNKNOWN = "unknown"


Read = Card | Sign


class Problem(NamedTuple):
    """One thing wrong with the codes: the key under `scanner` (`codes.1010`, `cut_code`) and what to do about it."""

    key: str
    text: str


class CodesError(ValueError):
    """The codes contradict each other or leave cards out. `problems` has every reason at once."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join([f"{key}: {text}" for key, text in problems]))
        self.problems = problems


def _numbered(suits: str, form: str) -> dict[str, Card]:
    """Codes of a sign a suit (`suits` in the order S H C D) and a rank 01 to 13."""
    signs = dict(zip("SHCD", suits, strict=True))
    return {form.format(signs[card[1]], RANKS.index(card.rank) + 1): card for card in DECK}


TABLES: Mapping[str, Mapping[str, Card]] = {
    "plain": {str(card): card for card in DECK},  # 8H, TC
    "srr0": _numbered("1234", "{}{:02}0"),  # 1010 = ace of spades … 4130 = king of diamonds (field report 4)
    "letter": _numbered("ABCD", "{}{:02}"),  # A01 … D13
}


@dataclass(frozen=True, slots=True)
class Codes:
    """Every code of a table. Made by `of`. `tails` are the codes that another ends in: AD, where NOREAD is one."""

    reads: Mapping[str, Read]
    tails: frozenset[str]

    def classify(self, line: str) -> Read:
        return self.reads.get(line, Sign.UNKNOWN)

    @staticmethod
    def of(table: str | Mapping[str, str], *, cut: str | None = None, noread: str | None = None) -> "Codes":
        """The codes of `table` (a name of `TABLES`, or code → card for all 52), of the cut card and of a misread.

        CodesError where a code stands for two things or a card has no code or two.
        """
        problems: list[Problem] = []
        reads: dict[str, Read] = dict(_cards(table, problems))
        for key, code, sign in (("cut_code", cut, Sign.CUT), ("noread_code", noread, Sign.NO_READ)):
            if code is None:
                continue
            problems += _malformed(key, code)
            other = reads.setdefault(code, sign)
            if other is not sign:
                meaning = f"the card {other}" if isinstance(other, Card) else "the cut card"
                problems.append(Problem(key, f"{code!r} is already the code of {meaning}: choose one no card has"))
        if problems:
            raise CodesError(tuple(problems))
        tails = [code for code in reads for other in reads if other != code and other.endswith(code)]
        return Codes(reads, frozenset(tails))


class Scans:
    """Lines into events. With `repeat_ms` = 0 every code is a card: equal codes in a row are legal (DESIGN 6).

    With more, for a scanner that repeats a label while it sees it, the same code within `repeat_ms` of its last sight
    is no card: the table is told, and shows it; `repeats` counts them. `hand`: it is the scanner for the hand.
    """

    def __init__(self, codes: Codes, repeat_ms: int = 0, *, hand: bool = False) -> None:
        self.repeats = 0
        self._hand = hand
        self._codes = codes
        self._repeat_ns = repeat_ms * 1_000_000
        self._seen: dict[str, int] = {}  # code -> its last sight, the latest last

    def event(self, text: str, at: int, *, clean: bool = True, torn: bool = False) -> Event:
        """What the line `text`, ended at `at` (monotonic ns), tells the table.

        `clean`: it came whole and legible. `torn`: something before it was lost, and it may be the rest of that. Then
        a code that another ends in is no card, and an unknown one no foreign card: it is read again before anyone is
        called.
        """
        read = self._codes.classify(text) if clean else Sign.NO_READ
        if torn and (read is Sign.UNKNOWN or text in self._codes.tails):
            read = Sign.NO_READ
        if read is Sign.NO_READ:
            return CardUnread(at, text[:CODE_MAX], self._hand)
        if self._repeat_ns and self._is_repeat(text, at):
            return CardRepeated(at)
        if isinstance(read, Card):
            return CardScanned(at, read, self._hand)
        if read is Sign.CUT:
            return CutCardSeen(at, "code", self._hand)
        return CodeUnknown(at, text[:CODE_MAX], self._hand)

    def _is_repeat(self, text: str, at: int) -> bool:
        last = self._seen.pop(text, None)
        self._seen[text] = at
        if len(self._seen) > REPEATS_MAX:
            del self._seen[next(iter(self._seen))]
        if last is None or at - last > self._repeat_ns:
            return False
        self.repeats += 1
        return True


def _cards(table: str | Mapping[str, str], problems: list[Problem]) -> Mapping[str, Card]:
    """Code → card; what is wrong with the table goes to `problems`."""
    if isinstance(table, str):
        if table not in TABLES:
            names = ", ".join(TABLES)
            problems.append(
                Problem("codes", f"{table!r} is no code table: use {names}, or write code: card for all 52")
            )
        return TABLES.get(table, {})
    cards: dict[str, Card] = {}
    code_of: dict[Card, str] = {}
    for code, name in table.items():
        problems += _malformed(f"codes.{code}", code)
        try:
            card = Card.parse(name)
        except ValueError as error:
            problems.append(Problem(f"codes.{code}", str(error)))
            continue
        cards[code] = card
        first = code_of.setdefault(card, code)
        if first != code:
            problems.append(Problem(f"codes.{code}", f"{card} already has the code {first!r}: a card has one code"))
    missing = [card for card in DECK if card not in code_of]
    if missing:
        problems.append(Problem("codes", f"no code for {' '.join(missing)}: a table names all 52 cards"))
    return cards


def _malformed(key: str, code: str) -> list[Problem]:
    """Why no scanner's line could ever be this code."""
    if 0 < len(code) <= CODE_MAX and code.isascii() and code.isprintable() and code == code.strip():
        return []
    return [
        Problem(key, f"{code!r} is no code: write 1 to {CODE_MAX} printable ASCII characters, no blank at the ends")
    ]
