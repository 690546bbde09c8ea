"""What rounds make of bets, as lines of text (rules C5, C6, E): profile | Player | Banker -> the result of each bet."""

import json
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from controller import config
from controller.core import bets
from controller.core.cards import Card, Slot
from controller.core.facts import BetResult
from controller.core.profile import Bet, Payout, Profile, Stage

ROOT = Path(__file__).parent.parent.parent
EIGHT = ("player", "banker", "tie", "player_pair", "banker_pair", "lucky_six", "player_natural", "banker_natural")

# In the order of EIGHT: l lose, p push, a number what the bet pays.
ROUNDS = """
seeds-commission    | 8H 3S KD | TC 6D    | l 0.95 l  l  l  12 l   l
seeds-commission    | AS 3H 5D | JS 2H AD | 1 l    l  l  l  l  l   l
seeds-commission    | KS QH 2D | 4S JH 2C | l 0.95 l  l  l  20 l   l
seeds-commission    | KS 6H    | 9D 7C    | p p    8  l  l  l  l   l
seeds-commission    | 7S 9H    | 3D 3C    | p p    8  l  11 l  l   l
seeds-commission    | 4S 4H    | 9D KC    | l 0.95 l  11 l  l  3.5 3.5
seeds-commission    | 9S KH    | 4D 4C    | 1 l    l  l  11 l  3.5 3.5
seeds-commission    | 4S 4H    | 4D 4C    | p p    8  11 11 l  3.5 3.5
seeds-commission    | TS JH 6D | QD KC 6S | p p    8  l  l  l  l   l
seeds-commission    | TS TH 6D | KD KC 6S | p p    8  11 11 l  l   l
seeds-commission    | JS QH 7D | 2D 4C    | 1 l    l  l  l  l  l   l
seeds-commission    | 8H 8H    | 5D 4C    | l 0.95 l  11 l  l  l   3.5
seeds-no-commission | 8H 3S KD | TC 6D    | l 0.5  l  l  l  12 l   l
seeds-no-commission | KS QH 2D | 4S JH 2C | l 0.5  l  l  l  20 l   l
seeds-no-commission | KS QH 2D | 4S JH 3C | l 1    l  l  l  l  l   l
seeds-no-commission | KS 6H    | 9D 7C    | p p    8  l  l  l  l   l
seeds-no-commission | KS 7H    | 9D 7C    | 1 l    l  l  l  l  l   l
seeds-classic       | 8H 3S KD | TC 6D    | l 0.95 l
seeds-classic       | KS 6H    | 9D 7C    | p p    8
"""


@cache
def profile(name: str) -> Profile:
    return config.load_profile(name, ROOT / "config" / "profiles")


def cards(text: str) -> tuple[Card, ...]:
    return tuple(Card.parse(name) for name in text.split())


def spelled(result: BetResult) -> str:
    assert (result.pays is None) == (result.result != "win")
    return result.pays or result.result[0]


@pytest.mark.parametrize("line", ROUNDS.strip().splitlines())
def test_round(line: str) -> None:
    name, player, banker, expected = line.split("|")
    house = profile(name.strip())
    names = tuple(bet.name for bet in house.bets)
    results = bets.resolve(house, names, bets.dealt(cards(player), cards(banker)))
    assert tuple(results) == names == EIGHT[: len(names)]
    assert [spelled(result) for result in results.values()] == expected.split()


def test_the_example_of_the_feed() -> None:
    """DESIGN 5: the same bets, as the message holds them."""
    results = bets.resolve(profile("seeds-commission"), EIGHT, bets.dealt(cards("8H 3S KD"), cards("TC 6D")))
    assert {name: (result.result, result.pays) for name, result in results.items()} == {
        "player": ("lose", None),
        "banker": ("win", "0.95"),
        "tie": ("lose", None),
        "player_pair": ("lose", None),
        "banker_pair": ("lose", None),
        "lucky_six": ("win", "12"),
        "player_natural": ("lose", None),
        "banker_natural": ("lose", None),
    }


def two(points: int, other: str) -> tuple[Card, Card]:
    """Two cards with this total, no pair."""
    return Card.parse(("Q" if points == 0 else "A23456789"[points - 1]) + "S"), Card.parse(other + "H")


@pytest.mark.parametrize("name", ["seeds-classic", "seeds-commission", "seeds-no-commission"])
def test_exactly_one_of_player_banker_and_tie_wins(name: str) -> None:
    """Over all counts; a tie gives both main stakes back (bug_reports 75, E2)."""
    for player, banker in product(range(10), repeat=2):
        results = bets.resolve(profile(name), EIGHT[:3], bets.dealt(two(player, "K"), two(banker, "J")))
        states = tuple(results[bet].result for bet in EIGHT[:3])
        if player == banker:
            assert states == ("push", "push", "win")
        else:
            assert states == (("win", "lose", "lose") if player > banker else ("lose", "win", "lose"))


def test_every_hand_of_the_shoe_vectors() -> None:
    """Outcome, pairs, naturals and Lucky Six of ten whole shoes, from a program that is not this one."""
    house = profile("seeds-commission")
    for line in (ROOT / "tests" / "vectors" / "shoes.jsonl").read_text().splitlines():
        for hand in json.loads(line)["hands"]:
            results = bets.resolve(house, EIGHT, bets.dealt(cards(" ".join(hand["P"])), cards(" ".join(hand["B"]))))
            won = {name for name, result in results.items() if result.result == "win"}
            main = {"P": "player", "B": "banker", "T": "tie"}[hand["outcome"]]
            flags = {
                "player_pair": "p_pair",
                "banker_pair": "b_pair",
                "player_natural": "p_nat",
                "banker_natural": "b_nat",
            }
            expected = {main, *(name for name, flag in flags.items() if hand[flag])}
            expected |= {"lucky_six"} if hand["lucky6"] else set()
            assert won == expected, hand
            assert results["lucky_six"].pays == {0: None, 2: "12", 3: "20"}[hand["lucky6"]]


# Completed rounds of the shoe -> how many of EIGHT are open. Pairs close after 60, naturals after 50 (C5).
CUT_OFFS = """
seeds-commission    |   0 | player banker tie player_pair banker_pair lucky_six player_natural banker_natural
seeds-commission    |  49 | player banker tie player_pair banker_pair lucky_six player_natural banker_natural
seeds-commission    |  50 | player banker tie player_pair banker_pair lucky_six
seeds-commission    |  59 | player banker tie player_pair banker_pair lucky_six
seeds-commission    |  60 | player banker tie lucky_six
seeds-commission    | 400 | player banker tie lucky_six
seeds-no-commission |  49 | player banker tie player_pair banker_pair lucky_six player_natural banker_natural
seeds-no-commission |  50 | player banker tie player_pair banker_pair
seeds-no-commission |  60 | player banker tie
seeds-classic       | 400 | player banker tie
"""


@pytest.mark.parametrize("line", CUT_OFFS.strip().splitlines())
def test_cut_offs_count_completed_rounds(line: str) -> None:
    """C6: open for the first n completed rounds."""
    name, counted, expected = line.split("|")
    assert bets.open_bets(profile(name.strip()), int(counted), 0) == tuple(expected.split())


def test_a_stage_may_open_some_of_the_bets() -> None:
    """In the profile's order, whatever the stage's; the cut-off holds in every stage."""
    stages = (Stage(Slot.P1), Stage(Slot.B1, bets=("tie", "player_pair", "player")), Stage(Slot.P2, bets=("banker",)))
    house = replace(profile("seeds-commission"), stages=stages)
    assert bets.open_bets(house, 0, 0) == EIGHT
    assert bets.open_bets(house, 0, 1) == ("player", "tie", "player_pair")
    assert bets.open_bets(house, 60, 1) == ("player", "tie")
    assert bets.open_bets(house, 0, 2) == ("banker",)
    with pytest.raises(IndexError):
        bets.open_bets(house, 0, 3)


def test_only_open_bets_are_resolved_and_in_the_order_of_the_profile() -> None:
    round_ = bets.dealt(cards("KS 6H"), cards("9D 7C"))
    assert tuple(bets.resolve(profile("seeds-commission"), ("tie", "player"), round_)) == ("player", "tie")
    assert bets.resolve(profile("seeds-commission"), (), round_) == {}


@pytest.mark.parametrize("opened", [("player", "dragon"), ("player", "player")])
def test_a_bet_that_would_get_no_result_is_a_fault(opened: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError, match="every open bet"):
        bets.resolve(profile("seeds-classic"), opened, bets.dealt(cards("KS 6H"), cards("9D 7C")))


@pytest.mark.parametrize(
    ("player", "banker", "expected"),
    [
        ("KS 6H", "9D 7C", BetResult("push")),
        ("KS 7H", "9D 7C", BetResult("win")),
        ("KS 2H 2D", "JS 5D AC", BetResult("win", "4")),
        ("4S 4H", "JS 2D", BetResult("win", "9")),
        ("KS 2H 3D", "JS 7D", BetResult("lose")),
    ],
)
def test_the_first_line_that_applies_decides_and_pushes_come_last(
    player: str, banker: str, expected: BetResult
) -> None:
    """`pays` is absent where the profile leaves the odds to the casino."""
    lines = (
        Payout("player_natural", "9"),
        Payout("player_wins", None),
        Payout("banker_wins_with_6_on_3", "4"),
        Payout("player_pair", "1"),
    )
    house = replace(profile("seeds-classic"), bets=(Bet("house_bet", lines, push=("player_natural", "tie")),))
    results = bets.resolve(house, ("house_bet",), bets.dealt(cards(player), cards(banker)))
    assert results == {"house_bet": expected}


# Condition by condition: rounds in which it holds, rounds in which it does not.
CONDITIONS = """
player_wins             | KS 7H/9D 7C   4S 4H/JS 2D       | KS 6H/9D 7C   KS 2H 3D/JS 7D
banker_wins             | KS 2H 3D/JS 7D                   | KS 6H/9D 7C   KS 7H/9D 7C
banker_wins_with_6      | KS 2H 3D/JS 6D   KS 2H 2D/JS 5D AC | KS 6H/9D 7C   KS 7H/JS 6D   KS 2H 3D/JS 7D
banker_wins_with_6_on_2 | KS 2H 3D/JS 6D                   | KS 2H 2D/JS 5D AC   KS 6H/JS 6D
banker_wins_with_6_on_3 | KS 2H 2D/JS 5D AC                | KS 2H 3D/JS 6D   KS 6H/JS 5D AC
tie                     | KS 6H/9D 7C   KS QH 5D/JS KD 5C  | KS 7H/9D 7C   KS 2H 3D/JS 7D
player_pair             | 4S 4H/JS 2D   KS KH 3D/JS 7D     | KS QH 3D/JS 7D   AS 2H AD/JS 7D   4S 3H/JS JD 2C
banker_pair             | 4S 3H/JS JD 2C                   | 4S 4H/JS 2D   4S 3H/JS QD 2C
player_natural          | 4S 4H/JS 9D   KS 9H/JS 8D        | KS 7H/JS 8D   AS 2H 5D/JS 7D
banker_natural          | 4S 4H/JS 8D   KS 7H/JS 9D        | 4S 4H/JS 7D   KS 7H/JS 2D 6C
"""


@pytest.mark.parametrize("line", CONDITIONS.strip().splitlines())
def test_condition(line: str) -> None:
    name, holds, fails = (part.strip() for part in line.split("|"))
    for expected, rounds in ((True, holds), (False, fails)):
        for hands in rounds.split("   "):
            player, banker = hands.split("/")
            assert bets.WHEN[name](bets.dealt(cards(player), cards(banker))) is expected, hands


def test_the_vocabulary_is_fixed() -> None:
    """A name that goes would leave a house's file unreadable; one that comes needs its line above."""
    assert set(bets.WHEN) == {line.split("|")[0].strip() for line in CONDITIONS.strip().splitlines()}
