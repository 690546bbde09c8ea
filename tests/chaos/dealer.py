"""A dealer with a real shoe in hand, for tests that cut the power: acts only on what the table shows.

`drawn` is how many cards of the shoe lie outside it. What the table knows of them is read off its panel and status, and
what it does not know is scanned again from the slot it asks for.
"""

import re
from typing import Any

from tests.live import LiveTable
from tests.shoes import Shoe

PEOPLE = ["dealer-3", "boss-1"]
BURN_COUNT = re.compile(r"VAN (\d+) DE \d+")
CUT_KNOWN = {"I18", "I19", "I20"}


class Dealer:
    """Deals one shoe of the vectors at a free-running table."""

    def __init__(self, table: LiveTable, shoe: Shoe) -> None:
        self.table = table
        self.cards = [code for what, code in shoe.events if what != "cut"]
        self.cut_after = next(i for i, (what, _) in enumerate(shoe.events) if what == "cut")
        self._burned = sum(what.startswith("burn") for what, _ in shoe.events)
        self._hands = [hand["cards"] for hand in shoe.hands]
        self._left = shoe.left
        self.drawn = 0
        self.known = 0  # the most cards that the table has ever shown to know
        self.waits_for = ""  # what was scanned and waits for the panel to change

    def step(self) -> bool:
        """One look at the panel and the act that it asks for; False when the shoe is closed."""
        status = self.table.status()
        if any(condition["code"] == "I35" for condition in status["conditions"]):
            self.table.call("round.resolve", code="I35", choice="match", by=PEOPLE)
            return True
        match status["phase"]:
            case "closed" | "preparing" if self.drawn:
                return False
            case "closed" | "preparing":
                self.table.call("shoe.load")
            case "unloading":
                self.table.call("shoe.left", left=self._left)
            case _:
                self._deal(status)
        return True

    def _deal(self, status: dict[str, Any]) -> None:
        known = self._known(status)
        assert known >= self.known, f"the table has shown {self.known} cards and now knows {known}"
        assert self.drawn - known in (0, 1), f"{self.drawn} cards lie on the felt, the table knows {known}"
        self.known = known
        if known < self.drawn:
            self._scan(self.cards[known])  # it has a place on the felt and none in the table
        elif self.drawn == self.cut_after and not self._knows_cut(status):
            self._scan("CUT")
        else:
            self.drawn += 1
            self.waits_for = ""
            self._scan(self.cards[self.drawn - 1])

    def _scan(self, code: str) -> None:
        """Once in a run of the table: a dealer who sees no change waits, and scans again after a power cut."""
        if self.waits_for != f"{self.drawn} {code}":
            self.waits_for = f"{self.drawn} {code}"
            self.table.scan(code)

    def _known(self, status: dict[str, Any]) -> int:
        """How many cards the table knows, off its panel."""
        if status["phase"] == "burning":
            done = BURN_COUNT.search(" ".join(status["prompt"]["lines"]))
            return 1 + int(done[1]) if done else 0
        return self._burned + sum(self._hands[: status["counted"]]) + len(status["slots"])

    def _knows_cut(self, status: dict[str, Any]) -> bool:
        codes = {condition["code"] for condition in status["conditions"]}
        return (
            bool(codes & CUT_KNOWN) or "ÚLTIMA" in status["prompt"]["strip"] or "ÚLTIMA" in status["prompt"]["headline"]
        )
