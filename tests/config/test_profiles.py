"""Profiles that contradict themselves are refused with the reason (B8, C3, C5, E); the others reach the core."""

import re
from hashlib import sha256
from pathlib import Path

import pytest

from controller import config
from controller.core.profile import Burn, CutFirst, LastRound, Profile, Stage
from tests.config.cases import HOUSE, Case, cases, check, errors, whole

PROFILES = Path(__file__).parent.parent.parent / "config" / "profiles"


def parse(data: bytes, file: str = "file.yaml") -> Profile:
    return config.parse_profile(data, Path(file))


REFUSED = """
▸shoe_steps: [load]
~ decks
! 'decks' is missing here: decks in the shoe, 1 to 12

decks: ▸13
! decks must be at most 12

decks: ▸0
! decks must be at least 1

▸deks: 8
! unknown key 'deks': did you mean 'decks'?

shoe_steps: [▸wsh, load]
! shoe_steps must be 'inspect', 'wash'

▸shoe_steps: []
! shoe_steps must have at least 1

▸shoe_steps: [wash]
! load is missing: without it no shoe is ever ready

▸shoe_steps: [load, cut]
! load must be last, or followed by burn alone

▸shoe_steps: [load, ▸load]
! load must be last, or followed by burn alone
! load is listed twice

shoe_steps: [▸burn, load]
burn: first_card
! burn must be last

shoe_steps: [load, burn]
burn: ▸none
! burn is none, but shoe_steps has the step burn

burn: ▸first_card
! cards are burned, but shoe_steps has no step burn

▸burn: {fixed: 4}
! cards are burned, but shoe_steps has no step burn

▸burn: {▸fixd: 4}
! 'fixed' is missing here: how many cards
! unknown key 'fixd': did you mean 'fixed'?

burn: ▸4
! burn cannot be this, not '4' (cards burned at a new shoe (B5): first_card, none, or {fixed: 4})

burn: ▸first
! burn must be 'first_card' or 'none', not 'first': did you mean first_card?

cut_card: {rule: one_more, outside_round: play_as_last, depth: ▸11}
! the depth must be at least 12 (B8): this round and one more take up to 12 cards, and 11 can run out

cut_card: {rule: one_more, outside_round: shuffle_now, ▸depth: [11, 20]}
! the depth must be at least 12 (B8)

cut_card: {rule: one_more, outside_round: play_as_last, depth: ▸none}
! with one_more the depth must be stated (B8)

cut_card: {rule: current_is_last, outside_round: play_as_last, depth: ▸5}
! the depth must be at least 6 (B8): a last round takes up to 6 cards, and 5 can run out

cut_card: {rule: current_is_last, outside_round: play_as_last, ▸depth: [80, 60]}
! the least depth 80 is more than the greatest 60

decks: 1
cut_card: {rule: current_is_last, outside_round: play_as_last, depth: ▸52}
! the cut card would lie behind all 52 cards

cut_card: {rule: current_is_last, outside_round: play_as_last, depth: ▸nine}
! depth must be 'none', not 'nine'

cut_card: {rule: current_is_last, outside_round: play_as_last, ▸depth: [1, 2, 3]}
! depth must have at most 2

cut_card: {rule: ▸current, outside_round: ▸stop, depth: 7}
! rule must be 'current_is_last' or 'one_more', not 'current': did you mean current_is_last?
! outside_round must be 'play_as_last' or 'shuffle_now'

▸stages: []
! stages must have at least 1

stages: [{before: ▸B1}]
! the first stage must be before P1

stages: [{before: P1}, {before: P2}, {before: ▸B1}]
! B1 does not come after P2

stages: [{before: P1}, {before: ▸P1}]
! P1 does not come after P1

stages: [{before: P1}, {before: ▸B2}]
! before must be 'P1', 'B1' or 'P2', not 'B2'

stages: [{before: P1, bets: [tie, ▸tye]}]
! this profile has no bet tye: did you mean tie?

stages: [{before: P1, bets: [tie, ▸tie]}]
! tie is listed twice

stages: [{before: P1, bets: [▸dragon]}]
bets:
  ▸tie: {pays: [{when: tie, odds: casino}]}
! this profile has no bet dragon: the bets are tie
! tie opens in no stage

stages: [{before: P1, seconds: ▸0}]
! seconds must be at least 1

▸bets: {}
! bets must have at least 1

bets:
  ▸Tie Bet: {pays: [{when: tie, odds: casino}]}
! Tie Bet is not written as it must be

bets:
  b: {pays: [{when: ▸tye, odds: casino}]}
! no such condition tye: did you mean tie?

bets:
  b: {pays: [{when: ▸dragon, odds: casino}]}
! no such condition dragon: there are player_wins, banker_wins

bets:
  b: {pays: [{when: tie, odds: casino}], push: [▸banker]}
! no such condition banker: did you mean banker_

bets:
  b: {pays: [{when: tie, odds: ▸8}], exact_return: "1.0000"}
! odds must be text: write "8" in quotes (what it pays net to one

bets:
  b: {pays: [{when: tie, odds: ▸0.95}], exact_return: "1.0000"}
! 0.95: a bare decimal is not exact: write "0.95" in quotes

bets:
  b: {pays: [{when: tie, odds: ▸"1:2"}], exact_return: "1.0000"}
! odds is not written as it must be, not '1:2' (what it pays net to one, exactly

bets:
  b: {pays: [{when: tie, odds: ▸"0.50"}], exact_return: "1.0000"}
! odds is not written as it must be

bets:
  b: {pays: [{when: tie, odds: ▸"8.0"}], exact_return: "1.0000"}
! odds is not written as it must be

bets:
  b: {pays: [{when: tie, odds: ▸"+8"}], exact_return: "1.0000"}
! odds is not written as it must be

bets:
  b: {pays: [{when: tie, odds: ▸"1e3"}], exact_return: "1.0000"}
! odds is not written as it must be

bets:
  b: {pays: [{when: tie, odds: ▸"0"}], exact_return: "1.0000"}
! a win that pays nothing is a push

bets:
  b: {▸pays: []}
! pays must have at least 1

bets:
  b: {pays: [{when: tie, odds: casino}], push: [▸tie]}
! tie stands twice in this bet: it can only win or push once

bets:
  b:
    pays:
      - {when: banker_wins, odds: casino}
      - {when: ▸banker_wins_with_6, odds: "0.5"}
! banker_wins_with_6 never applies: the lines above take every such round. Put it above them

bets:
  b:
    pays:
      - {when: banker_wins_with_6_on_2, odds: casino}
      - {when: banker_wins_with_6_on_3, odds: casino}
      - {when: ▸banker_wins_with_6, odds: casino}
! banker_wins_with_6 never applies

bets:
  b: {pays: [{when: player_wins, odds: casino}, {when: banker_wins, odds: casino}], push: [tie, ▸player_pair]}
! player_pair never applies

bets:
  b: {pays: [{when: tie, odds: casino}], closes_after: ▸0}
! closes_after must be at least 1

bets:
  b: {pays: [{when: tie, odds: casino}], closes_after: ▸never}
! closes_after must be 'none', not 'never'

bets:
  ▸b: {pays: [{when: tie, odds: "8"}]}
! b declares no exact_return (E1)

bets:
  b: {pays: [{when: tie, odds: "8"}], exact_return: ▸"85.64"}
! exact_return is not written as it must be

bets:
  b: {pays: [{when: tie, odds: "8"}], exact_return: ▸85.6404}
! 85.6404: a bare decimal is not exact: write "85.6404" in quotes

bets:
  b: {pays: [{when: tie, odds: casino}], exact_return: ▸"1.0000"}
! b has odds that the casino sets

decks: ▸0
▸shoe_steps: [wash]
burn: ▸first_card
stages: [{before: ▸B1}]
bets:
  ▸b: {pays: [{when: ▸tye, odds: "8"}]}
! decks must be at least 1
! load is missing
! cards are burned, but shoe_steps has no step burn
! the first stage must be before P1
! b declares no exact_return
! no such condition tye
"""


@pytest.mark.parametrize("case", list(cases(REFUSED, HOUSE)), ids=lambda case: case.text.split("\n")[0])
def test_profiles_that_are_refused(case: Case) -> None:
    check(errors(parse, case.text), case.expected)


READINGS: dict[str, dict[str, object]] = {
    "": {"burn": Burn.NONE, "burn_count": 0, "cut_depth": (7, 7), "last_round": LastRound.CURRENT_IS_LAST},
    "burn: first_card\nshoe_steps: [load, burn]": {"burn": Burn.FIRST_CARD, "shoe_steps": ("load", "burn")},
    "burn: {fixed: 4}\nshoe_steps: [load, burn]": {"burn": Burn.FIXED, "burn_count": 4},
    "cut_card: {rule: one_more, outside_round: shuffle_now, depth: [12, 80]}": {
        "last_round": LastRound.ONE_MORE,
        "cut_first": CutFirst.SHUFFLE_NOW,
        "cut_depth": (12, 80),
    },
    "cut_card: {rule: current_is_last, outside_round: play_as_last, depth: none}": {"cut_depth": None},
    "decks: 6\nearly_close: true\nuse_early_card: true": {"decks": 6, "early_close": True, "use_early_card": True},
    "stages: [{before: P1}, {before: B1, seconds: 5, bets: [tie]}]": {
        "stages": (Stage("P1"), Stage("B1", 5, ("tie",))),  # type: ignore[arg-type] # equal to the slots
    },
}


@pytest.mark.parametrize(("text", "expected"), READINGS.items())
def test_what_the_core_is_given(text: str, expected: dict[str, object]) -> None:
    data = whole(text, HOUSE).encode()
    profile = parse(data, "/etc/house-1.yaml")
    assert {key: getattr(profile, key) for key in expected} == expected
    assert (profile.name, profile.hash) == ("house-1", sha256(data).hexdigest())


def test_bets_reach_the_core_as_written() -> None:
    text = """
bets:
  z: {pays: [{when: tie, odds: casino}], closes_after: none}
  a:
    pays: [{when: player_wins, odds: "0.5"}, {when: banker_wins, odds: "1"}]
    push: [tie]
    closes_after: 9
    exact_return: "1.0000"
"""
    house = parse(whole(text, HOUSE).encode())
    read = [(bet.name, [(line.when, line.odds) for line in bet.pays], bet.push) for bet in house.bets]
    assert read == [
        ("z", [("tie", None)], ()),
        ("a", [("player_wins", "0.5"), ("banker_wins", "1")], ("tie",)),
    ]
    assert [(bet.closes_after, bet.exact_return) for bet in house.bets] == [(None, None), (9, "1.0000")]


def test_a_return_that_is_not_so_is_told_with_the_right_one(tmp_path: Path) -> None:
    """E1: not at boot, in `config check`."""
    path = tmp_path / "house.yaml"
    text = 'bets:\n  tie: {pays: [{when: tie, odds: "9"}], exact_return: ▸"85.6404"}\n! with these odds'
    (case,) = cases(text, HOUSE)
    path.write_text(case.text)
    (problem,) = config.check_returns(config.load_profile(str(path), tmp_path), path)
    check([str(problem).removeprefix(f"{path}:")], case.expected)
    assert problem.text == (
        "with these odds and 8 decks tie returns exactly 95.1560 %, not 85.6404 %: correct the odds or the figure"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("seeds-clasic", "no such profile: did you mean seeds-classic?"),
        ("dragon", "no such profile: there are seeds-classic, seeds-commission, seeds-no-commission"),
        ("nowhere/x.yaml", "no such profile: there are none there"),
    ],
)
def test_a_profile_that_is_not_there(name: str, said: str) -> None:
    with pytest.raises(config.ConfigError, match=re.escape(said)):
        config.load_profile(name, PROFILES)


def test_a_profile_is_found_by_name_or_by_path(tmp_path: Path) -> None:
    (tmp_path / "house-2.yaml").write_text(whole("", HOUSE))
    by_path = config.load_profile(str(tmp_path / "house-2.yaml"), PROFILES)
    assert by_path == config.load_profile("house-2", tmp_path)
    assert by_path.name == "house-2"


def test_a_profile_has_a_name_that_messages_can_carry(tmp_path: Path) -> None:
    (tmp_path / "My House.yaml").write_text(whole("", HOUSE))
    with pytest.raises(config.ConfigError, match="a profile has its file's name"):
        config.load_profile(str(tmp_path / "My House.yaml"), PROFILES)
