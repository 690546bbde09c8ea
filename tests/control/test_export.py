"""An export as others read it: the shoes again as a script, the rounds as a table, the counts."""

import asyncio
import csv
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from controller import offline
from controller.control import export
from controller.core import events as e
from controller.core.cards import Card
from tests.profiles import COMMISSION
from tests.shoes import SHOES, Shoe
from tests.table_rig import TWO, Rig

Story = Callable[[Rig], Coroutine[Any, Any, None]]


def messages_of(story: Story) -> list[bytes]:
    async def whole() -> list[bytes]:
        async with Rig() as rig:
            await story(rig)
            return [message.data for message in rig.journal.read(0, rig.journal.head)]

    return asyncio.run(whole())


def completed(messages: list[bytes]) -> list[dict[str, Any]]:
    """The data of each round.completed, but for what a script cannot know."""
    told = [json.loads(message) for message in messages]
    return [
        {name: value for name, value in one["data"].items() if name != "roundid"}
        for one in told
        if one["type"] == "baccarat.round.completed.v1"
    ]


def played_again(lines: list[str]) -> list[dict[str, Any]]:
    return [{name: v for name, v in data.items() if name != "roundid"} for data in offline.deal(lines, COMMISSION)]


def whole_shoe(shoe: Shoe) -> Story:
    async def story(rig: Rig) -> None:
        await rig.do(e.LoadAsked(rig.clock.now()))
        await rig.scan(" ".join("cut" if what == "cut" else code for what, code in shoe.events))

    return story


@pytest.mark.parametrize("shoe", SHOES[:3], ids=lambda shoe: str(shoe.seed))
def test_a_shoe_comes_out_of_its_script_as_it_was(shoe: Shoe) -> None:
    messages = messages_of(whole_shoe(shoe))
    again = played_again(list(export.script(messages)))
    assert len(again) == len(shoe.hands)
    assert again == completed(messages)


async def mishaps(rig: Rig) -> None:
    """A void, a scan taken back, and an unread card that two people key in."""
    await rig.load()
    await rig.scan("2H TC 3D 5C")
    await rig.do(e.VoidAsked(rig.clock.now(), "spill", by=TWO))
    await rig.scan("8H TC 2S")
    await rig.do(e.ConfirmHeld(rig.clock.now()))
    await rig.scan("2D")
    await rig.do(e.CardUnread(rig.clock.now(), "NOREAD"))
    await rig.do(e.ResolveAsked(rig.clock.now(), "I01", "manual", Card.parse("9C"), by=TWO))


async def nothing(rig: Rig) -> None:
    """A table that has only begun."""


async def two_shoes(rig: Rig) -> None:
    await mishaps(rig)
    await rig.do(e.EndShoeAsked(rig.clock.now(), "discretion", by=TWO))
    await rig.do(e.LeftCounted(rig.clock.now(), COMMISSION.cards - 10, by=TWO))  # burned 2, dealt 4 and 4
    await rig.load()
    await rig.scan("2S TC 3D 9H 2D TH 7C")


@pytest.mark.parametrize("story", [mishaps, two_shoes])
def test_what_went_wrong_stands_in_the_script(story: Story) -> None:
    messages = messages_of(story)
    assert played_again(list(export.script(messages))) == completed(messages)


def test_a_span_without_the_beginning_of_a_shoe_has_no_script() -> None:
    messages = messages_of(mishaps)
    assert list(export.script(messages[6:])) == []


def test_rounds_as_a_table() -> None:
    rows = list(csv.DictReader(export.rounds(messages_of(mishaps))))
    assert [row["ended"] for row in rows] == ["voided", "completed"]
    assert tuple(rows[0]) == export.COLUMNS
    void, natural = rows
    assert (void["reason"], void["by"], void["outcome"], void["player"]) == ("spill", "dealer boss", "", "")
    assert (natural["round"], natural["counted"]) == ("2", "0")
    assert (natural["player"], natural["banker"]) == ("8H 2D", "TC 9C")
    assert (natural["player_points"], natural["banker_points"], natural["outcome"]) == ("0", "9", "banker")
    assert (natural["natural"], natural["pair"], natural["last_round"]) == ("banker", "", "False")
    assert "banker=win:0.95" in natural["bets"].split()


def test_counts() -> None:
    told = export.stats(messages_of(two_shoes))
    assert [shoe["shoe"] for shoe in told["shoes"]] == [1, 2]
    first, second = told["shoes"]
    counts = {"completed": 1, "voided": 1, "cancelled": 0, "dealt": 8, "misreads": 1, "manual": 1, "corrected": 1}
    assert {name: first[name] for name in export.COUNTS} == counts
    assert (first["closed"] is None, second["closed"]) == (False, None)
    assert {name: told["total"][name] - second[name] for name in export.COUNTS} == counts
    assert (told["codes"], told["faults"]) == ({"I01": 1, "I31": 1}, {})  # the shoe was ended early
    assert export.stats(messages_of(nothing))["shoes"] == []
