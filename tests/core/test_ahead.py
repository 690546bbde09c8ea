"""Where the scanner reads: the same cards make the same table, and nothing is told of a card that is not out (B10)."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import feed
from controller.control.levels import levels
from controller.core import events as e
from controller.core import facts as f
from controller.core import records
from controller.core.cards import DECK, Card
from controller.core.cards import FACE as LEDGER
from controller.core.facts import Fact
from controller.core.profile import Burn, Confirms, Opens, Position, Procedure, Rescan
from controller.core.state import State
from controller.core.view import view
from controller.panel import Words
from tests.core.watch import FACE, Watch
from tests.profiles import COMMISSION
from tests.table.driver import Table

FEW = tuple(map(Card.parse, ("AS", "6D", "9H", "KC")))  # eight of each: every fourth card is its neighbour's twin
FREE = Procedure(open_betting=Opens.NONE, confirm_result=Confirms.NONE)
AFTER = replace(FREE, sensors=True)
BEFORE = replace(AFTER, position=Position.BEFORE_EXIT)
IN_SHOE = replace(AFTER, position=Position.IN_SHOE, rescan=Rescan.NONE)

Dealt = list[tuple[Card, int]]  # a card, and how often its label is read beyond the first time


def _scans(table: Table, card: Card, more: int) -> None:
    for _ in range(1 + more):
        table.submit(e.CardScanned(table.now, card))


def _moves(table: Table) -> None:
    table.submit(e.CardMoved(table.now))


def without_sensors(table: Table, dealt: Dealt) -> None:
    for card, _ in dealt:
        _scans(table, card, 0)


def after_exit(table: Table, dealt: Dealt) -> None:
    for card, more in dealt:
        _moves(table)
        _scans(table, card, more)


def before_exit(table: Table, dealt: Dealt) -> None:
    for card, more in dealt:
        _scans(table, card, more)
        _moves(table)


def in_shoe(table: Table, dealt: Dealt) -> None:
    """The next card is read before anybody draws it, and its label may be read for as long as it lies there."""
    _scans(table, *dealt[0])
    for following in [*dealt[1:], None]:
        _moves(table)
        if following:
            _scans(table, *following)


LAYOUTS: dict[str, tuple[Procedure, Callable[[Table, Dealt], None]]] = {
    "without sensors": (FREE, without_sensors),
    "after the exit": (AFTER, after_exit),
    "before the exit": (BEFORE, before_exit),
    "in the shoe": (IN_SHOE, in_shoe),
}


def loaded(procedure: Procedure, observer: Callable[[e.Event, tuple[Fact, ...], State], None]) -> Table:
    table = Table(replace(COMMISSION, burn=Burn.NONE), procedure, observer)
    table.submit(e.LoadAsked(table.now))
    return table


@pytest.mark.parametrize("layout", LAYOUTS)
@given(shoe=st.permutations(FEW * 8), more=st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=32, max_size=32))
def test_each_card_counts_once_whatever_is_read_again(layout: str, shoe: list[Card], more: list[int]) -> None:
    """Equal neighbours are two cards; a label read again is none (I04)."""
    procedure, deal = LAYOUTS[layout]
    watch = Watch(State())
    table = loaded(procedure, watch.see)
    deal(table, list(zip(shoe, more, strict=True)))
    assert table.state.shoe is not None
    ledger = [table.state.shoe.face(n) for n in range(1, table.state.shoe.out + 1)]
    assert ledger == shoe
    told = [fact.card for fact in table.told if type(fact) is f.CardDealt]
    assert told == shoe, "and each has its place, in the order of the way out"
    raised = {fact.code for fact in table.told if type(fact) is f.IrregularityRaised}
    assert raised == ({"I04"} if procedure.sensors and any(more) else set())
    watch.close(State())


# --- B10: every door, at every step ------------------------------------------------------------------------


def in_words(state: State) -> records.Plain:
    """The State as it is saved, its ledger of a letter a card written out: two letters may look like a face."""
    tree = records.dump(state)
    ledger = "" if state.shoe is None else state.shoe.faces
    shoe = tree.get("shoe")
    if isinstance(shoe, dict):
        shoe["faces"] = [str(LEDGER[letter]) for letter in ledger]
    return tree


def faces_told(event: e.Event, facts: tuple[Fact, ...], after: State) -> set[str]:
    """Every face in a journal row, the saved State, the retained state, the panel, `status` and `monitor`."""
    row = [records.dump_event(event), [records.dump_fact(fact) for fact in facts], in_words(after)]
    speaker = feed.Feed("T", "/tables/T", "live", "0" * 16, lambda _: bytes(64))
    shown = levels(after, view(after), Words("en"), "T", event.at)
    state = feed.state_message(after, speaker, "68f1c2d4-9be01a77", offset_ns=0).decode()
    doors = [json.dumps(row), state, json.dumps(shown)]
    return set(FACE.findall(" ".join(doors)))


@pytest.mark.parametrize("procedure", [BEFORE, IN_SHOE], ids=["before the exit", "in the shoe"])
@pytest.mark.parametrize("opens", [Opens.NONE, Opens.DEALER])
@given(shoe=st.permutations(DECK), early=st.sets(st.integers(0, 51), max_size=3))
def test_no_door_tells_of_a_card_that_is_in_the_shoe(
    procedure: Procedure, opens: Opens, shoe: list[Card], early: set[int]
) -> None:
    """One deck, so that a face is one card. Some cards are read while bets are open, or when none is to be drawn."""

    def look(event: e.Event, facts: tuple[Fact, ...], after: State) -> None:
        out = after.shoe.out if after.shoe else 0
        assert faces_told(event, facts, after).isdisjoint(map(str, shoe[out:]))

    table = loaded(replace(procedure, open_betting=opens), look)
    for n, card in enumerate(shoe[:12]):
        if n in early:
            table.scan(card)
        table.announce()
        if n in early:
            table.submit(e.CardUnread(table.now, f"?{card}"))
        table.until_card()
        table.scan(card)
        table.submit(e.CardMoved(table.now))
    assert table.state.shoe is not None
    assert table.state.shoe.out == 12
