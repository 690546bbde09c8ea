"""The cut card at every place of a shoe, in every house, under every layout of buttons and sensors (B6, B7; I18-I20).

The oracle is the two rules as they are written, and knows nothing of phases, buttons and sensors: how many cards of
which round had left the shoe.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pytest

from controller.core import events as e
from controller.core import facts as f
from controller.core.cards import Card
from controller.core.facts import Phase
from controller.core.profile import Burn, Confirms, CutFirst, LastRound, Opens, Procedure
from tests.profiles import COMMISSION
from tests.table.driver import PACE_NS, READ_NS, Table

ROUNDS = {  # what is dealt in the round that the cut card is laid into
    "natural": "8H KD KS 2C",
    "both stand": "6H 7D KS KC",
    "banker draws": "6H 2D KS KC 5S",
    "player draws": "5H 7D KS KC 4S",
    "both draw": "2H 3D KS KC 5S 4H",
}
OTHER = "9H KD KS 2D"  # every round before and after it
LAYOUTS = {
    "buttons": Procedure(),
    "buttons and sensors": Procedure(sensors=True),
    "a file as primary": Procedure(receipts=False),
    "by itself": Procedure(open_betting=Opens.AUTO, confirm_result=Confirms.AUTO),
    "free": Procedure(open_betting=Opens.NONE, confirm_result=Confirms.NONE),
    "free with sensors": Procedure(open_betting=Opens.NONE, confirm_result=Confirms.NONE, sensors=True),
    "free up to the announcement": Procedure(open_betting=Opens.NONE),
}
BEFORE = ("burn", "ready", "betting", "closing", "asked")  # without a card of the round out; a number: with so many


class House(NamedTuple):
    one_more: bool
    shuffle_now: bool

    def __str__(self) -> str:
        return f"{'one more' if self.one_more else 'current'}, {'shuffle' if self.shuffle_now else 'play'}"


class Case(NamedTuple):
    """The cut card is drawn in round 2 (in the burn: before round 1). `unread`: the card before it has only moved."""

    house: House
    layout: str
    hand: str
    place: str | int
    unread: bool = False

    def __str__(self) -> str:
        place = f"after {self.place} of {self.hand}" if isinstance(self.place, int) else self.place
        return f"{self.house}, {self.layout}, {place}{', unread' if self.unread else ''}"


def last_round(number: int, out: int, required: int, house: House) -> int:
    """B6 and B7, for a cut card drawn when `out` of the `required` cards of round `number` had left the shoe."""
    if 0 < out < required:  # B7: "between a round's first and last required card: that round is the last"
        return number + 1 if house.one_more else number  # B6
    following = number + 1 if out else number  # B7: "at any other time ...
    return following - 1 if house.shuffle_now else following  # ... the next round is the last, or none is"


def cases() -> Iterator[Case]:
    for house, layout in product([House(*both) for both in product([False, True], repeat=2)], LAYOUTS):
        procedure = LAYOUTS[layout]
        for place in BEFORE[: 2 if procedure.open_betting is Opens.NONE else None]:
            yield Case(house, layout, "natural", place)
        for hand, cards in ROUNDS.items():
            for out in range(1, len(cards.split()) + 1):
                yield Case(house, layout, hand, out)
                if procedure.sensors:
                    yield Case(house, layout, hand, out, unread=True)


# --- playing a case ----------------------------------------------------------------------------------------


def cards(text: str) -> list[Card]:
    return [Card.parse(name) for name in text.split()]


def cut(table: Table) -> None:
    """One passage, seen by everything that can see it."""
    for via in ("beams", "reflectance", "code", "head", "manual"):
        table.submit(e.CutCardSeen(table.now, via))


def burn(table: Table, *, with_cut: bool) -> None:
    """An ace turned up, one more burned."""
    table.deal(Card.parse("AS"))
    if with_cut:
        cut(table)
    if table.state.phase is Phase.BURNING:
        if table.state.procedure.sensors or table.state.procedure.open_betting is Opens.NONE:
            table.submit(e.CardMoved(table.now))
        else:
            table.submit(e.ConfirmPressed(table.now))


def up_to(table: Table, place: str) -> None:
    if place in ("betting", "closing", "asked") and table.state.phase is Phase.READY:
        table.submit(e.StartPressed(table.now))
    if place in ("closing", "asked"):
        table.wait(15 * PACE_NS)
    if place == "asked":
        table.submit(e.Receipt(table.now, table.state.seqno))


def move_only(table: Table, card: Card) -> None:
    """The cut card follows so closely that it is seen before the card is read."""
    table.wait(PACE_NS)
    table.submit(e.CardMoved(table.now))
    table.wait(READ_NS)
    cut(table)
    table.scan(card)


def deal_with_cut(table: Table, case: Case, dealt: list[Card]) -> None:
    """The round, with the cut card behind as many of its cards as the case says."""
    table.until_card()
    for out, card in enumerate(dealt, 1):
        if out == case.place and case.unread:
            move_only(table, card)
        else:
            table.deal(card)
            if out == case.place:
                cut(table)
    table.announce()


def play_shoe(case: Case) -> Table:
    profile = replace(
        COMMISSION,
        burn=Burn.FIRST_CARD,
        last_round=LastRound.ONE_MORE if case.house.one_more else LastRound.CURRENT_IS_LAST,
        cut_first=CutFirst.SHUFFLE_NOW if case.house.shuffle_now else CutFirst.PLAY_AS_LAST,
    )
    table = Table(profile, LAYOUTS[case.layout])
    table.submit(e.LoadAsked(table.now))
    burn(table, with_cut=case.place == "burn")
    if case.place != "burn":
        table.round(iter(cards(OTHER)))
        if isinstance(case.place, str):
            up_to(table, case.place)
            cut(table)
        else:
            deal_with_cut(table, case, cards(ROUNDS[case.hand]))
    for _ in range(4):
        if table.state.phase is not Phase.UNLOADING:
            table.round(iter(cards(OTHER)))
            cut(table)  # a late echo of the passage
    return table


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_the_last_round_is_the_one_of_b6_and_b7(case: Case) -> None:
    number = 1 if case.place == "burn" else 2
    out = case.place if isinstance(case.place, int) else 0
    expected = last_round(number, out, len(ROUNDS[case.hand].split()), case.house)

    table = play_shoe(case)

    told = table.told
    (drawn,) = [i for i, fact in enumerate(told) if type(fact) is f.CutCardDrawn]
    assert [fact.last_round for fact in told if type(fact) is f.CutCardDrawn] == [expected]
    assert [fact.round for fact in told if type(fact) is f.RoundCompleted] == list(range(1, expected + 1))
    assert table.state.phase is Phase.UNLOADING, "after the last round no card is dealt until the reshuffle (B6)"
    announced = (f.BettingOpened, f.RoundBegun, f.RoundCompleted)
    after = [(fact.round, fact.last_round) for fact in told[drawn:] if isinstance(fact, announced)]
    assert after == [(number, number == expected) for number, _ in after], "what is announced is what happens"
