"""What a round must come to, written apart from the project: the tableau as 532 typed rows, the pay tables as typed.

Knows no rule of `controller`: only the text of cards and the names of slots.
"""

import csv
from functools import cache
from pathlib import Path

_FILE = Path(__file__).parent.parent / "vectors" / "third_card.csv"
_VALUES = {"A": 1, "T": 0, "J": 0, "Q": 0, "K": 0} | {str(n): n for n in range(2, 10)}


def points(cards: list[str]) -> int:
    return sum(_VALUES[card[0]] for card in cards) % 10


@cache
def _rows() -> dict[tuple[int, int, str], tuple[bool, bool]]:
    """(Player's two cards, Banker's two cards, Player's third or nothing) -> who draws."""
    with _FILE.open(encoding="ascii", newline="") as lines:
        return {
            (int(row["player2"]), int(row["banker2"]), row["player3_value"]): (
                row["player_draws"] == "1",
                row["banker_draws"] == "1",
            )
            for row in csv.DictReader(lines)
        }


def following(cards: list[str]) -> str | None:
    """The slot of the card after these, dealt in this order; None when the round is complete."""
    if len(cards) < 4:
        return ["P1", "B1", "P2", "B2"][len(cards)]
    player, banker = points([cards[0], cards[2]]), points([cards[1], cards[3]])
    player_draws = (player, banker, "0") in _rows() and _rows()[player, banker, "0"][0]
    if player_draws:
        if len(cards) == 4:
            return "P3"
        return "B3" if len(cards) == 5 and _rows()[player, banker, str(_VALUES[cards[4][0]])][1] else None
    return "B3" if len(cards) == 4 and _rows()[player, banker, ""][1] else None


def slots(cards: list[str]) -> list[str]:
    return [str(following(cards[:count])) for count in range(len(cards))]


def hands(cards: list[str]) -> tuple[list[str], list[str]]:
    """The Player's and the Banker's cards of a round dealt in this order."""
    placed = list(zip(slots(cards), cards, strict=True))
    return [card for slot, card in placed if slot[0] == "P"], [card for slot, card in placed if slot[0] == "B"]


def outcome(cards: list[str]) -> str:
    player, banker = map(points, hands(cards))
    return "tie" if player == banker else "player" if player > banker else "banker"


def is_natural(hand: list[str]) -> bool:
    return points(hand[:2]) in (8, 9)


def is_pair(hand: list[str]) -> bool:
    return hand[0][0] == hand[1][0]


def bets(cards: list[str], *, commission: bool) -> dict[str, str]:
    """Rules E, line by line: `win:11`, `lose` or `push`."""
    player, banker = hands(cards)
    won, six = outcome(cards), points(banker) == 6
    banker_pays = "win:0.95" if commission else "win:0.5" if six else "win:1"
    lucky = {2: "win:12", 3: "win:20"}[len(banker)]
    return {
        "player": {"player": "win:1", "tie": "push", "banker": "lose"}[won],
        "banker": {"banker": banker_pays, "tie": "push", "player": "lose"}[won],
        "tie": "win:8" if won == "tie" else "lose",
        "player_pair": "win:11" if is_pair(player) else "lose",
        "banker_pair": "win:11" if is_pair(banker) else "lose",
        "lucky_six": lucky if won == "banker" and six else "lose",
        "player_natural": "win:3.5" if is_natural(player) else "lose",
        "banker_natural": "win:3.5" if is_natural(banker) else "lose",
    }
