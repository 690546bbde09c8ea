"""The last rounds out of the journal, card by card, and in the order in which the cards were picked up (rule D10).

Reads rows from the newest back and no more of them than it needs. Tells only what was public (B10): the faces that had
a place in a round.
"""

from collections.abc import Iterable
from typing import Any

from controller import feed
from controller.core import facts as f
from controller.core.cards import Slot

ROUNDS_MAX = 100  # more than a shoe has

LAYOUT = (Slot.P1, Slot.P2, Slot.P3, Slot.B1, Slot.B2, Slot.B3)
"""The house's layout, left to right: Player before Banker (G7), a third card on the outer side of its hand (D6)."""

_Ended = f.RoundCompleted | f.RoundVoided | f.RoundCancelled


class _Recalled:
    """A round on its way back in time: from how it ended to its first card."""

    def __init__(self, fact: _Ended, time: str) -> None:
        self.fact, self.time = fact, time
        self.shoe: int | None = None
        self.cards: list[dict[str, Any]] = []
        self._known: set[int] = set()  # numbers whose last word is told: an earlier reading was wrong (I47)

    def take(self, fact: f.CardDealt | f.CardCorrected, time: str) -> None:
        if fact.n in self._known:
            return
        self._known.add(fact.n)
        if isinstance(fact, f.CardDealt):
            card = {"n": fact.n, "slot": fact.slot.value, "card": str(fact.card), "read": fact.read, "time": time}
            self.cards.insert(0, card)

    def told(self) -> dict[str, Any]:
        slots = {card["slot"]: card["card"] for card in self.cards}
        pickup = [{"slot": slot.value, "card": slots[slot]} for slot in reversed(LAYOUT) if slot in slots]
        head = {"shoe": self.shoe, "round": self.fact.round, "time": self.time}
        return {**head, **_ending(self.fact), "cards": self.cards, "pickup": pickup}


def rounds(bodies: Iterable[bytes], count: int) -> list[dict[str, Any]]:
    """The last `count` rounds that ended, oldest first, out of the bodies of journal rows, newest first.

    Each has shoe, round, time (UTC), ended (completed, voided, cancelled), what its ending says, `cards` as dealt
    {n, slot, card, read, time} and `pickup` {slot, card}. RecordError where a row cannot be read.
    """
    found: list[_Recalled] = []
    open_: _Recalled | None = None
    for body in bodies:
        row = feed.read_row(body)
        time = feed.utc(row.wall_ns)
        for fact in reversed(row.facts):
            if isinstance(fact, _Ended):
                open_ = _Recalled(fact, time) if len(found) < count else None
                found += [open_] if open_ else []
            elif isinstance(fact, f.CardDealt | f.CardCorrected) and open_ and fact.round == open_.fact.round:
                open_.take(fact, time)
            elif isinstance(fact, f.ShoeOpened):
                open_ = None
                for one in found:
                    one.shoe = one.shoe or fact.shoe
        if len(found) == count and all(one.shoe for one in found[-1:]):
            break
    return [one.told() for one in reversed(found)]


def _ending(fact: _Ended) -> dict[str, Any]:
    if isinstance(fact, f.RoundCompleted):
        return {
            "ended": "completed",
            "dummy": fact.dummy,
            "outcome": fact.outcome,
            "player": _hand(fact.player),
            "banker": _hand(fact.banker),
            "last_round": fact.last_round,
        }
    if isinstance(fact, f.RoundVoided):
        return {"ended": "voided", "dummy": fact.dummy, "reason": fact.reason, "by": list(fact.by)}
    return {"ended": "cancelled", "dummy": False, "reason": fact.reason, "by": list(fact.by)}


def _hand(hand: f.HandResult) -> dict[str, Any]:
    return {"cards": [str(card) for card in hand.cards], "points": hand.points}
