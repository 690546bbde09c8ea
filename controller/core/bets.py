"""What a round makes of each bet: a profile's pay tables read against the cards (rules C5, C6, E).

No amounts, no stakes, no players: only whether a bet won, and what it pays to one, as the profile's own decimal string.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from .cards import Card, total
from .facts import BetResult
from .profile import Bet, Profile
from .rules import is_natural, is_pair, outcome


class Dealt(NamedTuple):
    """All that a pay table may ask of a complete round. Points are final, 0 to 9; `banker_cards` is 2 or 3."""

    outcome: str
    player_points: int
    banker_points: int
    banker_cards: int
    player_pair: bool
    banker_pair: bool
    player_natural: bool
    banker_natural: bool


def _banker_six(dealt: Dealt) -> bool:
    return dealt.banker_points == 6 and dealt.outcome == "banker"


WHEN: dict[str, Callable[[Dealt], bool]] = {
    "player_wins": lambda dealt: dealt.outcome == "player",
    "banker_wins": lambda dealt: dealt.outcome == "banker",
    "banker_wins_with_6": _banker_six,
    "banker_wins_with_6_on_2": lambda dealt: _banker_six(dealt) and dealt.banker_cards == 2,
    "banker_wins_with_6_on_3": lambda dealt: _banker_six(dealt) and dealt.banker_cards == 3,
    "tie": lambda dealt: dealt.outcome == "tie",
    "player_pair": lambda dealt: dealt.player_pair,
    "banker_pair": lambda dealt: dealt.banker_pair,
    "player_natural": lambda dealt: dealt.player_natural,
    "banker_natural": lambda dealt: dealt.banker_natural,
}
"""The conditions that a profile may name. A name once given keeps its meaning: journals and pay tables cite it."""

_LOSE = BetResult("lose")
_PUSH = BetResult("push")


def dealt(player: tuple[Card, ...], banker: tuple[Card, ...]) -> Dealt:
    """What a pay table may ask of these two hands, each in the order it was dealt."""
    player_points, banker_points = total(player), total(banker)
    return Dealt(
        outcome(player_points, banker_points),
        player_points,
        banker_points,
        len(banker),
        is_pair(player),
        is_pair(banker),
        is_natural(player),
        is_natural(banker),
    )


def open_bets(profile: Profile, counted: int, stage_index: int) -> tuple[str, ...]:
    """The bets that open in a stage of the next round, in the profile's order.

    `counted` is the number of completed rounds of the shoe (C6): a bet that closes after n is open while it is below n.
    """
    stage = profile.stages[stage_index].bets
    return tuple(
        [
            bet.name
            for bet in profile.bets
            if (bet.closes_after is None or counted < bet.closes_after) and (stage is None or bet.name in stage)
        ]
    )


def resolve(profile: Profile, opened: tuple[str, ...], round_: Dealt) -> dict[str, BetResult]:
    """What a complete round makes of exactly the bets open in it, in the profile's order.

    The first line of the pay table that applies wins; otherwise a push condition returns the stake; otherwise the
    bet loses. AssertionError for a bet that the profile does not have: silence would lose it.
    """
    results = {bet.name: _result(bet, round_) for bet in profile.bets if bet.name in opened}
    assert len(results) == len(opened), "every open bet is a bet of the profile, once"
    return results


def _result(bet: Bet, round_: Dealt) -> BetResult:
    for line in bet.pays:
        if WHEN[line.when](round_):
            return _win(line.odds)
    for when in bet.push:
        if WHEN[when](round_):
            return _PUSH
    return _LOSE


@cache
def _win(odds: str | None) -> BetResult:
    """One object for each of the few odds there are: results are frozen, and a round makes eight of them."""
    return BetResult("win", odds)
