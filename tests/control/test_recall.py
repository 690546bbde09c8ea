"""The last rounds out of the journal: how they ended, card by card, and in pick-up order (D10)."""

from typing import Any

import pytest

from controller.control import recall
from controller.core.events import ConfirmHeld, LeftCounted, ResolveAsked, VoidAsked
from tests.control.served import run
from tests.table_rig import BY_DEALER, FREE_RUNNING, TWO, MemoryJournal, Rig


def rounds(journal: MemoryJournal, count: int = 10) -> list[dict[str, Any]]:
    return recall.rounds((row.body for row in reversed(journal.rows)), count)


def cards(one: dict[str, Any]) -> str:
    return " ".join(f"{card['slot']}:{card['card']}" for card in one["cards"])


def pickup(one: dict[str, Any]) -> str:
    return " ".join(card["card"] for card in one["pickup"])


PICKED_UP = [  # dealt, in the order of the deal; collected right to left (D6, D10, G7)
    ("8H TC 2D 9C", "9C TC 2D 8H"),
    ("2H TC 3D 7C 9S", "7C TC 9S 3D 2H"),
    ("6H TC AD 5C 4S", "4S 5C TC AD 6H"),
    ("2H TC 3D 5C 4S 6D", "6D 5C TC 4S 3D 2H"),
]


@pytest.mark.parametrize(("dealt", "picked_up"), PICKED_UP)
def test_cards_are_told_as_dealt_and_as_picked_up(dealt: str, picked_up: str) -> None:
    async def scenario() -> list[dict[str, Any]]:
        async with Rig() as rig:
            await rig.load()
            await rig.scan(dealt)
            return rounds(rig.journal)

    (one,) = run(scenario)
    assert [card["card"] for card in one["cards"]] == dealt.split()
    assert [card["n"] for card in one["cards"]] == list(range(3, 3 + len(dealt.split())))
    assert pickup(one) == picked_up


def test_a_completed_round_tells_what_its_message_said() -> None:
    async def scenario() -> list[dict[str, Any]]:
        async with Rig() as rig:
            await rig.load()
            await rig.scan("2H TC 3D 5C 4S 6D cut 8H TC 2D 9C")
            return rounds(rig.journal)

    first, second = run(scenario)
    assert {name: value for name, value in first.items() if name not in ("cards", "pickup")} == {
        "shoe": 1,
        "round": 1,
        "time": "2026-11-29T21:04:05.008Z",
        "ended": "completed",
        "dummy": False,
        "outcome": "player",
        "player": {"cards": ["2H", "3D", "4S"], "points": 9},
        "banker": {"cards": ["TC", "5C", "6D"], "points": 1},
        "last_round": False,
    }
    assert first["cards"][0] == {
        "n": 3,
        "slot": "P1",
        "card": "2H",
        "read": "scan",
        "time": "2026-11-29T21:04:05.003Z",
    }
    assert (second["round"], second["last_round"]) == (2, True)


def test_a_scan_taken_back_is_told_as_it_was_read_at_last() -> None:
    async def scenario() -> list[dict[str, Any]]:
        async with Rig(BY_DEALER) as rig:
            await rig.load()
            await rig.bet()
            await rig.scan("8H TC 2C")
            await rig.do(ConfirmHeld(rig.clock.now()))
            await rig.scan("2D 9C")
            await rig.confirm()
            await rig.bet()
            await rig.scan("8H TC")
            await rig.do(ConfirmHeld(rig.clock.now()))
            await rig.do(VoidAsked(rig.clock.now(), "no card is sure", by=TWO))
            return rounds(rig.journal)

    first, second = run(scenario)
    assert cards(first) == "P1:8H B1:TC P2:2D B2:9C"
    assert [card["read"] for card in first["cards"]] == ["scan", "scan", "rescan", "scan"]
    assert (second["ended"], second["reason"], second["by"]) == ("voided", "no card is sure", list(TWO))
    assert cards(second) == "P1:8H"  # what was taken back and never read again is not known


def test_rounds_that_were_cancelled_voided_or_dummies_are_told_too_and_no_face_that_was_not_public() -> None:
    async def scenario() -> list[dict[str, Any]]:
        async with Rig(BY_DEALER) as rig:
            await rig.load()
            await rig.bet()
            await rig.do(VoidAsked(rig.clock.now(), "a power cut", by=TWO))
            for choice in ("burn", "dummy"):
                await rig.bet_early("9D")
                await rig.do(ResolveAsked(rig.clock.now(), "I07", choice, by=TWO))
            await rig.scan("TC 2D 9C 3S 4S")
            await rig.confirm()
            return rounds(rig.journal)

    told = run(scenario)
    assert [(one["round"], one["ended"], one["dummy"]) for one in told] == [
        (1, "cancelled", False),
        (2, "voided", False),
        (3, "voided", False),
        (4, "completed", True),
    ]
    assert [one["cards"] for one in told[:3]] == [[], [], []]
    assert told[3]["cards"][0]["card"] == "9D"


def test_the_count_bounds_and_shoes_are_told_apart() -> None:
    async def scenario() -> MemoryJournal:
        async with Rig(FREE_RUNNING) as rig:
            for _ in range(3):
                await rig.load()
                await rig.scan("8H TC 2D 9C " * 2 + "cut " + "8H TC 2D 9C")
                await rig.do(LeftCounted(rig.clock.now(), 416 - 2 - 12, by=TWO))
        return rig.journal

    journal = run(scenario)
    every = [(shoe, round_) for shoe in (1, 2, 3) for round_ in (1, 2, 3)]
    for count in (1, 2, 3, 4, 7, 9, 10, 100):
        told = rounds(journal, count)
        assert [(one["shoe"], one["round"]) for one in told] == every[-count:]
        assert all(cards(one) == "P1:8H B1:TC P2:2D B2:9C" for one in told)
    assert rounds(journal, 0) == []


def test_no_more_rows_are_read_than_are_needed() -> None:
    async def scenario() -> MemoryJournal:
        async with Rig(FREE_RUNNING) as rig:
            for _ in range(3):
                await rig.load()
                await rig.scan("8H TC 2D 9C cut 8H TC 2D 9C")
                await rig.do(LeftCounted(rig.clock.now(), 416 - 2 - 8, by=TWO))
        return rig.journal

    journal = run(scenario)
    bodies = iter([row.body for row in reversed(journal.rows)])
    assert len(recall.rounds(bodies, 1)) == 1
    assert len(list(bodies)) > len(journal.rows) // 2
