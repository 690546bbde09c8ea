"""Cards, their values and the six places of a round (rules A1-A6, D1)."""

from collections.abc import Iterable
from enum import StrEnum

RANKS = "A23456789TJQK"
SUITS = "SHDC"
POINTS = {rank: (index + 1) % 10 if index < 9 else 0 for index, rank in enumerate(RANKS)}  # A2


class Card(str):
    """A face: rank `A 2-9 T J Q K`, then suit `S H D C`. Made by `parse`, so each of the 52 exists once."""

    __slots__ = ()

    @property
    def rank(self) -> str:
        return self[0]

    @property
    def points(self) -> int:
        """0 to 9 (A2); the suit never matters (A4)."""
        return POINTS[self[0]]

    @staticmethod
    def parse(text: str) -> "Card":
        """The card of that name; ValueError says what a card looks like."""
        card = _DECK.get(text)
        if card is None:
            raise ValueError(f"{text!r} is no card: write rank A 2-9 T J Q K, then suit S H D C, as in 8H or TC")
        return card


DECK = tuple(Card(rank + suit) for suit in SUITS for rank in RANKS)
_DECK: dict[str, Card] = {str(card): card for card in DECK}

# One letter a face, so that a shoe's ledger is a string: cheap to copy, to count and to keep.
LETTER: dict[Card, str] = dict(zip(DECK, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", strict=True))
UNKNOWN = "."
FACE: dict[str, Card | None] = {letter: card for card, letter in LETTER.items()} | {UNKNOWN: None}


def total(cards: Iterable[Card]) -> int:
    """A hand's point count: the last digit of the sum (A3)."""
    return sum([POINTS[card[0]] for card in cards]) % 10


class Slot(StrEnum):
    """A card's place in a round, in the order of the deal (D1)."""

    P1 = "P1"
    B1 = "B1"
    P2 = "P2"
    B2 = "B2"
    P3 = "P3"
    B3 = "B3"
