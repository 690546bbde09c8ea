"""Ten whole shoes, dealt apart from this project, through the core: hands, results, last round and count."""

from typing import Any

import pytest

from controller.core import events as e
from controller.core import facts as f
from controller.core.cards import Card
from controller.core.facts import Phase
from controller.core.profile import Confirms, Opens, Position, Procedure, Rescan
from tests.shoes import SHOES, Shoe, expected
from tests.table.driver import PACE_NS, Table

FREE = Procedure(open_betting=Opens.NONE, confirm_result=Confirms.NONE)
LAYOUTS = {
    "free": FREE,
    "free with sensors": Procedure(open_betting=Opens.NONE, confirm_result=Confirms.NONE, sensors=True),
    "buttons and sensors": Procedure(sensors=True),
    "no sensor for the cut card": Procedure(sensors=True),
    "before the exit": Procedure(sensors=True, position=Position.BEFORE_EXIT),
    "in the shoe": Procedure(sensors=True, position=Position.IN_SHOE, rescan=Rescan.NONE),
    "by itself": Procedure(open_betting=Opens.AUTO, confirm_result=Confirms.AUTO),
}


def in_file_words(fact: f.RoundCompleted) -> dict[str, Any]:
    """A completed round as `shoes.expected` tells it."""
    lucky_six = fact.bets["lucky_six"]
    return {
        "round": fact.round,
        "player": [str(card) for card in fact.player.cards],
        "banker": [str(card) for card in fact.banker.cards],
        "points": (fact.player.points, fact.banker.points),
        "outcome": fact.outcome,
        "natural": {"player": fact.player.natural, "banker": fact.banker.natural},
        "pair": {"player": fact.player.pair, "banker": fact.banker.pair},
        "lucky_six": lucky_six.pays,
    }


QUIET = ("I18", "I19", "I20")  # the cut card is no fault of anybody's


def deal(table: Table, shoe: Shoe, *, unseen: bool = False) -> None:
    """The shoe's events; with sensors the burned cards go by face down. `unseen`: no sensor knows the cut card."""
    for what, code in shoe.events:
        if what == "cut":
            if unseen:
                table.submit(e.CardMoved(table.now))
            table.submit(e.CutCardSeen(table.now, "code"))
            if table.state.procedure.reads_ahead:
                table.submit(e.CutCardSeen(table.now, "beams"))  # where the scanner sees it, it is not out yet
        elif what == "burn" and table.state.procedure.sensors:
            table.submit(e.CardMoved(table.now))
        else:
            if what == "P1":
                table.until_card()
            table.deal(Card.parse(code))
            table.announce()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shoe", SHOES, ids=lambda shoe: f"seed {shoe.seed}")
def test_the_shoe_gives_exactly_its_rounds(shoe: Shoe, layout: str) -> None:
    table = Table(procedure=LAYOUTS[layout])
    table.submit(e.LoadAsked(table.now))

    unseen = layout == "no sensor for the cut card"  # then it is an extra card, between rounds, until its code is read
    deal(table, shoe, unseen=unseen)

    rounds = [fact for fact in table.told if type(fact) is f.RoundCompleted]
    assert [in_file_words(fact) for fact in rounds] == [expected(hand) for hand in shoe.hands]
    assert [fact.round for fact in rounds if fact.last_round] == [shoe.last]
    assert table.state.phase is Phase.UNLOADING
    raised = [fact.code for fact in table.told if type(fact) is f.IrregularityRaised]
    assert [code for code in raised if code not in (*QUIET, *(["I09"] if unseen else []))] == []
    assert not [c for c in table.state.conditions if c.code == "I09"]


@pytest.mark.parametrize("shoe", SHOES, ids=lambda shoe: f"seed {shoe.seed}")
def test_the_count_closes_the_shoe(shoe: Shoe) -> None:
    """What is left in the file is what is left by B11, and the dealer closes alone."""
    table = Table(procedure=FREE)
    table.submit(e.LoadAsked(table.now))
    deal(table, shoe)

    table.now += PACE_NS
    table.submit(e.LeftCounted(table.now, shoe.left))

    (closed,) = [fact for fact in table.told if type(fact) is f.ShoeClosed]
    burned = sum(what in ("burn_open", "burn") for what, _ in shoe.events)
    assert (closed.burned, closed.left, closed.rounds) == (burned, shoe.left, len(shoe.hands))
    assert closed.dealt == 416 - burned - shoe.left
    assert closed.reason == "cut_card"
