"""The tableau against oracles not derived from the code: the printed card, the sources' sentences, two vector files.

Rules A2, A3, A6, D1-D7 of the house.
"""

import csv
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from controller.core import rules
from controller.core.cards import RANKS, Card, Slot, total

VECTORS = Path(__file__).parent.parent / "vectors"
OPENING = (Slot.P1, Slot.B1, Slot.P2, Slot.B2)

# The house's card, as printed: Banker's two cards down, Player's third card across (- none), D draws, S stands.
CARD = """
   -  A 2 3 4 5 6 7 8 9 T J Q K
0  D  D D D D D D D D D D D D D
1  D  D D D D D D D D D D D D D
2  D  D D D D D D D D D D D D D
3  D  D D D D D D D S D D D D D
4  D  S D D D D D D S S S S S S
5  D  S S S D D D D S S S S S S
6  S  S S S S S D D S S S S S S
7  S  S S S S S S S S S S S S S
"""


def cards(text: str) -> tuple[Card, ...]:
    return tuple(Card.parse(name) for name in text.split())


def pair_of(points: int) -> tuple[Card, Card]:
    """Two cards with this total."""
    return Card.parse((RANKS[points - 1] if points else "Q") + "S"), Card.parse("KH")


def opening(player: int, banker: int) -> tuple[Card, ...]:
    (p1, p2), (b1, b2) = pair_of(player), pair_of(banker)
    return p1, b1, p2, b2


def matrix() -> Iterator[tuple[int, str, bool]]:
    header, *rows = CARD.strip("\n").splitlines()
    for row in rows:
        banker, *cells = row.split()
        for third, cell in zip(header.split(), cells, strict=True):
            yield int(banker), third, cell == "D"


def test_the_printed_card_has_all_its_cells() -> None:
    assert len(list(matrix())) == 8 * 14


@pytest.mark.parametrize(("banker", "third", "draws"), list(matrix()))
def test_banker_draws_as_printed(banker: int, third: str, draws: bool) -> None:
    """D4, D5, with real ranks: a ten-valued third card counts 0 whatever its face (bug_reports 69)."""
    stands = third == "-"
    for suit, player in product("SHDC", (6, 7) if stands else range(6)):
        dealt = opening(player, banker) + (() if stands else (Card.parse(third + suit),))
        assert rules.next_slot(dealt) is (Slot.B3 if draws else None)


def third_cards() -> list[dict[str, str]]:
    with (VECTORS / "third_card.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_row_of_the_third_card_vectors_holds() -> None:
    rows = third_cards()
    assert len(rows) == 532
    for row in rows:
        dealt = opening(int(row["player2"]), int(row["banker2"]))
        player_draws, banker_draws = row["player_draws"] == "1", row["banker_draws"] == "1"
        assert (rules.next_slot(dealt) is Slot.P3) == player_draws, row
        if player_draws:
            dealt += (pair_of(int(row["player3_value"]))[0],)
        assert (rules.next_slot(dealt) is Slot.B3) == banker_draws, row


def as_the_sources_say(values: tuple[int, ...]) -> tuple[list[int], list[int], int]:
    """S0 2.3.5.1 and S2 in their own order: the hands of these six values, and how many of the six are dealt."""
    player, banker = [values[0], values[2]], [values[1], values[3]]
    rest = list(values[4:])
    two_of_player, two_of_banker = sum(player) % 10, sum(banker) % 10
    if two_of_player in (8, 9) or two_of_banker in (8, 9):
        return player, banker, 4
    third = None
    if two_of_player <= 5:
        third = rest.pop(0)
        player.append(third)
    draws_on = {3: "123456790", 4: "234567", 5: "4567", 6: "67", 7: ""}
    draws = two_of_banker <= 5 if third is None else two_of_banker <= 2 or str(third) in draws_on[two_of_banker]
    if draws:
        banker.append(rest.pop(0))
    return player, banker, 6 - len(rest)


def test_every_sequence_of_six_values_is_dealt_as_the_sources_say() -> None:
    """All 10^6 (bug_reports 70): what a prefix decides, it decides for every card after it."""
    faces = [pair_of(value)[0] for value in range(10)]
    sequences = 0
    for four in product(range(10), repeat=4):
        dealt = tuple(faces[value] for value in four)
        fifth = rules.next_slot(dealt)
        for value in range(10) if fifth is not None else (0,):
            player, banker, count = as_the_sources_say((*four, value, 0))
            if fifth is None:
                assert count == 4
                sequences += 100
                continue
            assert fifth is (Slot.P3 if len(player) == 3 else Slot.B3)
            more = rules.next_slot((*dealt, faces[value])) is Slot.B3
            assert more == (count == 6)
            assert len(player) in (2, 3)
            assert len(banker) in (2, 3)
            sequences += 10
    assert sequences == 10**6


def test_the_first_four_cards_go_player_banker_player_banker() -> None:
    """D1, from every face."""
    dealt = cards("9S 9H 9D 9C")
    assert tuple(rules.next_slot(dealt[:count]) for count in range(4)) == OPENING


@pytest.mark.parametrize("dealt", ["AS 2H 3D 4C 5S 6H", "TS 5H KD QC 5D 9C", "KS 6H QD AC 9S", "KS 2H 6D AC 5S"])
def test_a_complete_round_takes_no_more(dealt: str) -> None:
    assert rules.next_slot(cards(dealt)) is None


@pytest.mark.parametrize(
    ("hand", "natural"),
    [
        ("8S KH", True),
        ("4S 5H", True),
        ("KS 7H", False),
        ("8S", False),
        ("2S 3H 4D", False),
        ("AS 2H 5D", False),
        ("5S 3H KD", True),
    ],
)
def test_natural_is_eight_or_nine_on_the_first_two(hand: str, natural: bool) -> None:
    """D2: a three-card 8 or 9 is none (bug_reports 70)."""
    assert rules.is_natural(cards(hand)) == natural


@pytest.mark.parametrize(
    ("hand", "pair"),
    [("TS TH", True), ("TS JS", False), ("QH KH", False), ("8H 8H", True), ("AS 2S AS", False), ("5S 5D KC", True)],
)
def test_pair_is_of_rank_on_the_first_two(hand: str, pair: bool) -> None:
    """E: 10-J is no pair, whatever follows; eight decks hold eight of a face."""
    assert rules.is_pair(cards(hand)) == pair


@pytest.mark.parametrize(
    ("hand", "points"),
    [("AS 2H 4D", 7), ("AS 2H 9D", 2), ("8S 4H", 2), ("8S 7H", 5), ("AS 3H 5D", 9), ("JS 2H AD", 3), ("TS KH QD", 0)],
)
def test_worked_examples_of_the_sources(hand: str, points: int) -> None:
    """S0 2.1.3.2, S2, S3; the last is *baccarat* (A6)."""
    assert total(cards(hand)) == points


def test_nine_beats_three() -> None:
    """S3: Player A 3 5 beats Banker J 2 A."""
    assert rules.outcome(total(cards("AS 3H 5D")), total(cards("JS 2H AD"))) == "player"


def test_the_higher_count_wins_and_equal_is_a_tie() -> None:
    """D7 over all counts (bug_reports 75)."""
    for player, banker in product(range(10), repeat=2):
        expected = {1: "player", -1: "banker", 0: "tie"}[(player > banker) - (player < banker)]
        assert rules.outcome(player, banker) == expected


def test_every_hand_of_the_shoe_vectors_is_dealt_alike() -> None:
    hands = 0
    for line in (VECTORS / "shoes.jsonl").read_text().splitlines():
        shoe = json.loads(line)
        events = [(Slot(name), Card.parse(card)) for name, card in shoe["events"] if name in set(Slot)]
        for hand in shoe["hands"]:
            slots: list[Slot] = []
            dealt: list[Card] = []
            while (slot := rules.next_slot(tuple(dealt))) is not None:
                laid, card = events.pop(0)
                assert laid is slot, hand
                slots.append(slot)
                dealt.append(card)
            player, banker = rules.split(tuple(slots), tuple(dealt))
            assert (list(player), list(banker)) == (hand["P"], hand["B"])
            assert rules.outcome(total(player), total(banker))[0].upper() == hand["outcome"]
            hands += 1
        assert events == []
    assert hands == 826
