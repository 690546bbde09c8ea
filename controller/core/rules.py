"""The tableau of punto banco as data, and what follows from it (rules D1-D7).

Nothing here knows of shoes, bets or time. The Banker's line for each third card of the Player is
written out as printed in the sources, so that a reader can lay it beside them.
"""

from .cards import POINTS, Card, Slot, total

STANDS_ON = 6  # the Player, and the Banker when the Player stood: 0-5 draw, 6-7 stand (D3, D4)
NATURAL = 8  # either hand on two cards: both stand (D2)

# D5: Banker's two-card total -> the values of the Player's third card on which it draws.
BANKER_DRAWS: dict[int, frozenset[int]] = {
    0: frozenset(range(10)),
    1: frozenset(range(10)),
    2: frozenset(range(10)),
    3: frozenset({0, 1, 2, 3, 4, 5, 6, 7, 9}),
    4: frozenset({2, 3, 4, 5, 6, 7}),
    5: frozenset({4, 5, 6, 7}),
    6: frozenset({6, 7}),
    7: frozenset(),
}

_OPENING = (Slot.P1, Slot.B1, Slot.P2, Slot.B2)
_PLAYER = frozenset({Slot.P1, Slot.P2, Slot.P3})


def is_natural(hand: tuple[Card, ...]) -> bool:
    """8 or 9 on the first two cards, whatever follows (E: natural bets; D2)."""
    return len(hand) >= 2 and total(hand[:2]) >= NATURAL


def is_pair(hand: tuple[Card, ...]) -> bool:
    """The first two cards have the same rank, whatever follows (E: pair bets); 10-J is no pair."""
    return len(hand) >= 2 and hand[0][0] == hand[1][0]


def next_slot(cards: tuple[Card, ...]) -> Slot | None:
    """The slot of the next card after these, in the order they were dealt; None when the round is complete.

    The sequence alone decides, wherever the dealer laid the cards (the ordering rule of irregularities.md).
    """
    count = len(cards)
    if count < 4:
        return _OPENING[count]
    player = (POINTS[cards[0][0]] + POINTS[cards[2][0]]) % 10
    banker = (POINTS[cards[1][0]] + POINTS[cards[3][0]]) % 10
    if player >= NATURAL or banker >= NATURAL:
        return None  # D2
    if player >= STANDS_ON:
        return Slot.B3 if count == 4 and banker < STANDS_ON else None  # D4
    if count == 4:
        return Slot.P3  # D3
    return Slot.B3 if count == 5 and POINTS[cards[4][0]] in BANKER_DRAWS[banker] else None  # D5


def outcome(player: int, banker: int) -> str:
    """`player`, `banker` or `tie`: the higher point count wins (D7)."""
    return "player" if player > banker else "banker" if player < banker else "tie"


def split(slots: tuple[Slot, ...], cards: tuple[Card, ...]) -> tuple[tuple[Card, ...], tuple[Card, ...]]:
    """The Player's and the Banker's cards, each in order; `slots` and `cards` are in the order of the deal."""
    player = tuple([card for slot, card in zip(slots, cards, strict=True) if slot in _PLAYER])
    return player, tuple([card for slot, card in zip(slots, cards, strict=True) if slot not in _PLAYER])
