"""The ten shoes of `vectors/shoes.jsonl`: oracles made apart from this project (field report 5), never made anew."""

import json
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parent / "vectors" / "shoes.jsonl"


class Shoe(NamedTuple):
    """`events` are (what, code): burn_open, burn, cut, or a slot; `hands` as the file has them; `left` cards remain."""

    seed: int
    events: tuple[tuple[str, str], ...]
    hands: tuple[dict[str, Any], ...]
    left: int
    last: int

    @property
    def codes(self) -> tuple[str, ...]:
        """What a scanner with plain codes would send, in order."""
        return tuple(code for _, code in self.events)


def _shoe(line: str) -> Shoe:
    raw = json.loads(line)
    events = tuple((what, code) for what, code in raw["events"])
    return Shoe(raw["seed"], events, tuple(raw["hands"]), raw["left"], raw["cut_at"]["hand"])


SHOES = tuple(_shoe(line) for line in FILE.read_text(encoding="ascii").splitlines())


def expected(hand: dict[str, Any]) -> dict[str, Any]:
    """A hand of the file in the feed's words: what `round.completed` must say of it."""
    names = {"P": "player", "B": "banker", "T": "tie"}
    return {
        "round": hand["n"],
        "player": hand["P"],
        "banker": hand["B"],
        "points": (hand["p"], hand["b"]),
        "outcome": names[hand["outcome"]],
        "natural": {"player": hand["p_nat"], "banker": hand["b_nat"]},
        "pair": {"player": hand["p_pair"], "banker": hand["b_pair"]},
        "lucky_six": {0: None, 2: "12", 3: "20"}[hand["lucky6"]],
    }


def told(data: dict[str, Any]) -> dict[str, Any]:
    """The same of a `round.completed` message's data."""
    player, banker, lucky = data["player"], data["banker"], data["bets"].get("lucky_six", {})
    return {
        "round": data["round"],
        "player": player["cards"],
        "banker": banker["cards"],
        "points": (player["points"], banker["points"]),
        "outcome": data["outcome"],
        "natural": data["natural"],
        "pair": data["pair"],
        "lucky_six": lucky.get("pays"),
    }
