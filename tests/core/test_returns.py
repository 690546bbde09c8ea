"""Exact counts and returns against the typed-in numbers of rules.md ("Exact numbers", E), and against closed forms."""

from dataclasses import replace
from fractions import Fraction
from math import perm
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import config
from controller.core import bets, returns, rules
from controller.core.cards import DECK, Card
from controller.core.profile import Bet, Payout

PROFILES = Path(__file__).parent.parent.parent / "config" / "profiles"

EIGHT_DECKS = {
    "total": 4_998_398_275_503_360,
    "player_wins": 2_230_518_282_592_256,
    "banker_wins": 2_292_252_566_437_888,
    "tie": 475_627_426_473_216,
    "banker_wins_with_6": 186_173_936_904_192 + 83_058_367_551_488,
    "banker_wins_with_6_on_2": 186_173_936_904_192,
    "banker_wins_with_6_on_3": 83_058_367_551_488,
    "player_pair": 373_374_329_013_504,
    "banker_pair": 373_374_329_013_504,
    "player_natural": 946_869_886_480_896,
    "banker_natural": 946_869_886_480_896,
    "four_cards": 1_893_735_611_458_560,
    "five_cards": 1_516_734_808_780_800,
    "six_cards": 1_587_927_855_264_000,
}

# E, "return": percent of the stake.
MAIN = {"player": "98.7649", "banker": "98.9421", "tie": "85.6404"}
SIDE = {
    "player_pair": "89.6386",
    "banker_pair": "89.6386",
    "lucky_six": "83.3164",
    "player_natural": "85.2456",
    "banker_natural": "85.2456",
}


def test_the_exact_numbers() -> None:
    assert returns.weights(8) == EIGHT_DECKS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("seeds-classic", MAIN),
        ("seeds-commission", MAIN | SIDE),
        ("seeds-no-commission", MAIN | {"banker": "98.5419"} | SIDE),
    ],
)
def test_returns_of_the_house(name: str, expected: dict[str, str]) -> None:
    """E, E1: computed, and as the file declares them."""
    profile = config.load_profile(name, PROFILES)
    assert {bet: returns.percent(share) for bet, share in returns.exact_returns(profile).items()} == expected
    assert {bet.name: bet.exact_return for bet in profile.bets} == expected
    assert config.check_returns(profile, PROFILES / f"{name}.yaml") == []


def test_the_highest_return_is_that_of_the_sources() -> None:
    """E1: S3 says 98,94 %."""
    shares = returns.exact_returns(config.load_profile("seeds-commission", PROFILES))
    assert f"{float(max(shares.values())):.2%}" == "98.94%"


@pytest.mark.parametrize("decks", [1, 2, 6, 12])
def test_counts_of_other_shoes(decks: int) -> None:
    """What can be told without dealing a round: the total, a pair, a natural on two cards."""
    found = returns.weights(decks)
    cards = decks * 52
    assert found["total"] == perm(cards, 6)
    assert found["player_wins"] + found["banker_wins"] + found["tie"] == found["total"]
    assert found["four_cards"] + found["five_cards"] + found["six_cards"] == found["total"]
    assert found["banker_wins_with_6_on_2"] + found["banker_wins_with_6_on_3"] == found["banker_wins_with_6"]
    pair = Fraction(decks * 4 - 1, cards - 1)
    of_value = [16 * decks, *([4 * decks] * 9)]
    natural = sum(
        of_value[one] * (of_value[other] - (one == other))
        for one in range(10)
        for other in range(10)
        if (one + other) % 10 >= 8
    )
    for hand in ("player", "banker"):
        assert Fraction(found[f"{hand}_pair"], found["total"]) == pair
        assert Fraction(found[f"{hand}_natural"], found["total"]) == Fraction(natural, perm(cards, 2))


def test_odds_left_to_the_casino_have_no_return() -> None:
    profile = config.load_profile("seeds-classic", PROFILES)
    open_odds = Bet("tie_at_casino_odds", (Payout("tie", None),))
    shares = returns.exact_returns(replace(profile, bets=(*profile.bets, open_odds)))
    assert set(shares) == {"player", "banker", "tie"}


def test_a_pushed_bet_gives_its_stake_back() -> None:
    """Wins as Tie does, gives the stake back when Banker wins: counted by hand from the numbers above."""
    profile = config.load_profile("seeds-classic", PROFILES)
    bet = Bet("tie_or_back", (Payout("tie", "8"),), push=("banker_wins",))
    share = returns.exact_returns(replace(profile, bets=(bet,)))["tie_or_back"]
    assert share == Fraction(9 * EIGHT_DECKS["tie"] + EIGHT_DECKS["banker_wins"], EIGHT_DECKS["total"])


HANDS = st.lists(st.sampled_from(DECK), min_size=2, max_size=3).map(tuple)


@given(HANDS, HANDS)
def test_halves_hold_all_that_a_bet_may_ask(player: tuple[Card, ...], banker: tuple[Card, ...]) -> None:
    """Rounds counted as one class are one to every bet: `Dealt` can be made of the halves alone."""
    one, other = returns._half(player), returns._half(banker)
    outcome = rules.outcome(one.points, other.points)
    made = bets.Dealt(outcome, one.points, other.points, other.cards, one.pair, other.pair, one.natural, other.natural)
    assert made == bets.dealt(player, banker)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (Fraction(1), "100.0000"),
        (Fraction(1, 3), "33.3333"),
        (Fraction(2, 3), "66.6667"),
        (Fraction(9, 8000), "0.1125"),
    ],
)
def test_percent(share: Fraction, text: str) -> None:
    assert returns.percent(share) == text
