"""A vector shoe in real time: the head's firmware, its line, `tabled` and mosquitto, each a process of its own.

One byte in a hundred is broken on the head's line, both ways. Rules B7, B11; I08, I41; bug reports 6, 22, 37.
"""

from pathlib import Path

import pytest

from tests.live import wait_for
from tests.live_head import STAFF, LiveHead, live_head
from tests.shoes import SHOES, Shoe, expected
from tests.shoes import told as in_file_words

SHOE = SHOES[4]
ROUNDS = 20
CUT_CARD = {"I18", "I19", "I20"}


def part(shoe: Shoe, rounds: int) -> tuple[tuple[str, str], ...]:
    """What lies in the shoe before the round after those."""
    firsts = [index for index, (what, _) in enumerate(shoe.events) if what == "P1"]
    return shoe.events[: firsts[rounds]]


def check_rounds(head: LiveHead, rounds: int) -> None:
    def told() -> list[object]:
        return [in_file_words(data) for data in head.told("round.completed")]

    wait_for(lambda: len(told()) == rounds, f"{rounds} rounds")
    assert told() == [expected(hand) for hand in SHOE.hands[:rounds]]


def unplug(head: LiveHead) -> None:
    """The table says that its head is gone, and the card that leaves meanwhile is told when it is back (I41)."""
    head.sim.command("unplug")
    wait_for(lambda: head.standing("I41"), "I41")
    head.draw("card")
    head.sim.command("plug")
    wait_for(lambda: not head.standing("I41"), "the head is there again")


def reset(head: LiveHead) -> None:
    """As the fuses say it stands still for 65 ms, in which a card can leave: people say that none did (I08)."""
    head.sim.command("reset", "external")
    wait_for(lambda: head.standing("I08"), "I08")
    head.table.call("round.resolve", code="I08", choice="no_card", by=STAFF, reason="none left")
    wait_for(lambda: not head.standing("I08"), "the round goes on")


def test_twenty_rounds_a_plug_pulled_and_a_reset(tmp_path: Path) -> None:
    with live_head(tmp_path, SHOE.seed) as head:
        head.load()
        events = part(SHOE, ROUNDS)
        for what, code in events:
            head.deal(what, code)
        check_rounds(head, ROUNDS)
        assert {data["code"] for data in head.told("irregularity.raised")} <= {"I04"}
        assert head.told("fault.raised") == []
        first, second, third, fourth = SHOE.events[len(events) : len(part(SHOE, ROUNDS + 1))]
        head.deal(*first)
        unplug(head)
        head.show(second[1])
        head.deal(*third)
        reset(head)
        head.deal(*fourth)
        check_rounds(head, ROUNDS + 1)
        moved = head.table.call("diag", part="shoe")["moved"]
        assert (moved["card"], moved.get("two", 0)) == (head.out, 0)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_whole_shoe(tmp_path: Path) -> None:
    with live_head(tmp_path, SHOE.seed) as head:
        head.load()
        for what, code in SHOE.events:
            head.deal(what, code)
        check_rounds(head, len(SHOE.hands))
        assert [data["round"] for data in head.told("round.completed") if data["last_round"]] == [SHOE.last]
        assert {data["code"] for data in head.told("irregularity.raised")} <= {"I04", "I22", *CUT_CARD}
        for _ in range(SHOE.left):
            head.draw("left")
        head.table.call("shoe.left", left=SHOE.left)
        (closed,) = wait_for(lambda: head.told("shoe.closed"), "the shoe is closed")
        dealt = sum(len(hand["P"]) + len(hand["B"]) for hand in SHOE.hands)
        assert (closed["dealt"], closed["left"], closed["misreads"]) == (dealt, SHOE.left, 0)
