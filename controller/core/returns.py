"""The exact return of every bet for a fresh shoe (rules E, "Exact numbers").

Every ordered draw of six cards is counted, none is simulated: the project's own `next_slot` says which of the six are
dealt, `bets.resolve` what they pay. Draws that no rule can tell apart are counted together. Takes well under a second,
which is too long for boot: `config check` and the tests ask for it.
"""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations_with_replacement
from typing import NamedTuple

from . import bets, rules
from .cards import POINTS, RANKS, Card, Slot, total
from .profile import Profile

_FACE = {points: Card.parse(rank + "S") for rank, points in reversed(POINTS.items())}  # 0 is a ten
_LENGTHS = {4: "four_cards", 5: "five_cards", 6: "six_cards"}
_TEN, _JACK = Card.parse("TS"), Card.parse("JS")

Hand = tuple[Card, ...]


class Opening(NamedTuple):
    """The first four cards as far as the rules can tell: the faces stand for all of their values, pair or no pair."""

    player: Hand
    banker: Hand


class Half(NamedTuple):
    """All that any bet may ask of one hand (`bets.Dealt`): rounds whose two halves are equal are one class."""

    points: int
    cards: int
    pair: bool
    natural: bool


@cache
def _half(hand: Hand) -> Half:
    return Half(total(hand), len(hand), rules.is_pair(hand), rules.is_natural(hand))


@lru_cache(maxsize=2)
def _classes(decks: int) -> tuple[tuple[int, Hand, Hand], ...]:
    """One round of each class that bets can tell apart, and in how many ordered six-card draws the class comes."""
    counts: dict[tuple[Half, Half], int] = {}
    hands: dict[tuple[Half, Half], tuple[Hand, Hand]] = {}
    for opening, ways in _openings(decks).items():
        left = [decks * (16 if points == 0 else 4) for points in range(10)]
        for card in (*opening.player, *opening.banker):
            left[card.points] -= 1
        for player, banker, count in _ends(opening, left, decks * 52 - 4):
            kind = (_half(player), _half(banker))
            if kind not in hands:
                hands[kind], counts[kind] = (player, banker), 0
            counts[kind] += ways * count
    return tuple((counts[kind], *hands[kind]) for kind in hands)


def _openings(decks: int) -> Counter[Opening]:
    """In how many ways, out of a fresh shoe, each opening is dealt. Only a pair of tens needs its ranks."""
    ways: Counter[Opening] = Counter()
    for player in combinations_with_replacement(RANKS, 2):
        left = dict.fromkeys(RANKS, decks * 4)
        for_player = _draw(left, *player)
        for banker in combinations_with_replacement(RANKS, 2):
            left_then = left.copy()
            ways[Opening(_hand(*player), _hand(*banker))] += for_player * _draw(left_then, *banker)
    return ways


def _draw(left: dict[str, int], first: str, second: str) -> int:
    """In how many ways these two ranks come, in either order; takes them out of what is left."""
    ways = left[first]
    left[first] -= 1
    ways *= left[second]
    left[second] -= 1
    return ways if first == second else ways * 2


def _hand(first: str, second: str) -> Hand:
    low, high = sorted((_FACE[POINTS[first]], _FACE[POINTS[second]]))
    return (low, high) if low != high or first == second else (_TEN, _JACK)


def _ends(opening: Opening, left: list[int], cards: int) -> Iterator[tuple[Hand, Hand, int]]:
    """The complete rounds after an opening: the hands, and in how many ways the other cards of six come.

    `left` counts the cards of each value, `cards` all of them.
    """
    player, banker = opening
    dealt = (player[0], banker[0], player[1], banker[1])
    fifth = rules.next_slot(dealt)
    if fifth is None:
        yield player, banker, cards * (cards - 1)
        return
    for value in range(10):
        ways = left[value]
        third = _FACE[value]
        hands = (player, (*banker, third)) if fifth is Slot.B3 else ((*player, third), banker)
        if rules.next_slot((*dealt, third)) is None:
            yield *hands, ways * (cards - 1)
            continue
        for last in range(10):
            yield hands[0], (*banker, _FACE[last]), ways * (left[last] - (last == value))


def weights(decks: int) -> dict[str, int]:
    """In how many ordered draws of six each condition of `bets.WHEN` holds (rules.md, "Exact numbers").

    Also `total`, and `four_cards`, `five_cards`, `six_cards`: how many are dealt.
    """
    found = dict.fromkeys(("total", *bets.WHEN, *_LENGTHS.values()), 0)
    for count, player, banker in _classes(decks):
        found["total"] += count
        found[_LENGTHS[len(player) + len(banker)]] += count
        round_ = bets.dealt(player, banker)
        for name, when in bets.WHEN.items():
            if when(round_):
                found[name] += count
    return found


def exact_returns(profile: Profile) -> dict[str, Fraction]:
    """What each bet gives back on average, stake included, as a share of the stake; fresh shoe of the profile's decks.

    A bet whose odds the profile leaves to the casino has no return and is left out.
    """
    names = tuple(bet.name for bet in profile.bets)
    sums: dict[str, Fraction] = {
        bet.name: Fraction(0) for bet in profile.bets if all(line.odds is not None for line in bet.pays)
    }
    everything = 0
    for count, player, banker in _classes(profile.decks):
        everything += count
        for name, result in bets.resolve(profile, names, bets.dealt(player, banker)).items():
            if name in sums and result.result == "win":
                sums[name] += count * (1 + Fraction(result.pays or 0))
            elif name in sums and result.result == "push":
                sums[name] += count
    return {name: back / everything for name, back in sums.items()}


def percent(share: Fraction) -> str:
    """A return as profiles state it: in percent, rounded to four places."""
    units = round(share * 1_000_000)
    return f"{units // 10_000}.{units % 10_000:04d}"
