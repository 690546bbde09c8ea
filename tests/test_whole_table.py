"""A whole table of wood and wire: rounds with their lamps, sounds and pictures; a bad bus; ten shoes through the pins.

Step by step the panel's memory is compared with the picture of what the disk holds. Rules B1, B7, C1, D9; I04, I19,
I46; bug reports 4, 15, 37.
"""

import errno
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.fake_panel import Failure
from tests.shoes import SHOES, Shoe, expected
from tests.shoes import told as in_file_words
from tests.whole_table import (
    BUTTONS,
    FREE_RUNNING,
    LID,
    PANEL,
    PINS,
    PRESENT,
    PROFILE,
    SHOE,
    Main,
    WholeTable,
    at_table,
    told,
)

BAR = "lamp 1 lamp 2 lamp 3 lamp 4"


async def act(table: WholeTable, word: str) -> None:
    """`confirm`, `lid`, `out` (a card nobody reads), `cut`, `3000` (ms), or a card, drawn and read."""
    if word in ("start", "confirm", "call"):
        await table.press(word)
    elif word == "lid":
        for is_open in (True, False):
            table.put(LID, is_open)
            await table.rest(50)
    elif word == "empty":
        table.put(PRESENT, False)
        await table.rest(100)
    elif word.isdigit():
        await table.rest(int(word))
    else:
        await table.pull(cut=word == "cut")
        if word not in ("out", "cut"):
            await table.scan(word)
    await table.settled()


# --- rounds, step by step -------------------------------------------------------------------------------------

# An act; the instruction, what stands in the strip, and the lamps that burn steadily after it.
ROUNDS: tuple[tuple[str, str, str, str], ...] = (
    ("confirm", "step.load", "", ""),
    ("lid", "burn.first", "", ""),
    ("2S", "burn.count", "", ""),
    ("out", "burn.count", "", ""),
    ("out", "ready", "", ""),
    ("call", "ready", "called", "call"),
    ("call", "ready", "", ""),
    ("start", "betting", "", BAR),
    ("3000", "betting", "", "lamp 2 lamp 3 lamp 4"),
    ("7000", "betting", "", "lamp 4"),
    ("3000", "draw", "no_more", "flash"),
    ("8H", "draw", "", ""),
    ("KD", "draw", "", ""),
    ("KS", "draw", "", ""),
    ("2C", "result.player", "", ""),
    ("1000", "result.player", "", ""),
    ("confirm", "ready.collect", "", ""),
    ("cut", "I19", "last", ""),
    ("start", "betting", "last", BAR),
    ("13000", "draw", "last no_more", "flash"),
    ("2H", "draw", "last", ""),
    ("TC", "draw", "last", ""),
    ("3D", "draw", "last", ""),
    ("6D", "draw.P3", "last", ""),
    ("6C", "draw.B3.with", "last", ""),
    ("9S", "result.banker", "last", ""),
    ("1000", "result.banker", "last", ""),
    ("confirm", "unload.draw", "", ""),
)


# What the lamps and the buzzer do after a START, ms after it: it takes 20 ms to be no bounce.
CLOSING = (
    "20 +lamp 1 +lamp 2 +lamp 3 +lamp 4; 3000 -lamp 1; 6000 -lamp 2; 9000 -lamp 3; 12000 -lamp 4 +red +buzzer; "
    "12250 -red; 12500 +red; 12750 -red; 13000 +red -buzzer; 13250 -red"
)

SEEN = ["630 +call; 850 -call", CLOSING, CLOSING]


def seen_at(table: WholeTable, began: list[int]) -> list[str]:
    """What lamps and buzzer did up to each START and after it, by when each act began."""
    starts = [at for at, (word, *_) in zip(began, ROUNDS, strict=True) if word == "start"]
    return [table.changes(since, until) for since, until in pairwise([began[0], *starts, table.loop.now()])]


async def play(table: WholeTable) -> list[int]:
    """The rounds and the end of the shoe; when each act began."""
    began: list[int] = []
    for index, (word, prompt, strip, burning) in enumerate(ROUNDS):
        began.append(table.loop.now())
        await act(table, word)
        seen = sorted(table.burning - {"red", "buzzer"} if burning == "flash" else table.burning)
        lamps = [] if burning == "flash" else burning.replace("lamp ", "lamp_").split()
        assert (index, table.prompt, " ".join(table.strip)) == (index, prompt, strip)
        assert (index, seen) == (index, [lamp.replace("_", " ") for lamp in lamps])
    for _ in range(39):
        await act(table, "out")
    await act(table, "empty")
    await act(table, "confirm")
    assert (table.prompt, table.state.shoe) == ("step.load", None)
    return began


def one_deck(folder: Path) -> dict[str, Any]:
    """The devices, and a house whose shoe is short."""
    (folder / "one_deck.yaml").write_text(PROFILE.replace("decks: 8", "decks: 1"), encoding="utf-8")
    return {
        "profile": str(folder / "one_deck.yaml"),
        "procedure": {"betting_seconds": 12},
        "shoe": SHOE,
        **PINS,
        **PANEL,
    }


def check_rounds(folder: Path) -> None:
    (shoe,) = told(folder, "shoe.closed")
    assert [shoe[key] for key in ("reason", "dealt", "burned", "left", "rounds", "misreads")] == [
        "cut_card", 10, 3, 39, 2, 0,
    ]  # fmt: skip
    assert [(data["outcome"], data["last_round"]) for data in told(folder, "round.completed")] == [
        ("player", False),
        ("banker", True),
    ]
    assert [data["code"] for data in told(folder, "irregularity.raised")] == ["I19"]


def test_whole_rounds(memory_path: Path) -> None:
    """The bar goes out lamp by lamp, red at 2 Hz from the deadline to the first card, one sound a closing (C1)."""
    changes: list[str] = []

    async def main(table: WholeTable) -> None:
        changes.extend(seen_at(table, await play(table)))

    at_table(memory_path, one_deck(memory_path), main)
    check_rounds(memory_path)
    assert changes == SEEN


def test_a_panel_whose_bus_hangs_delays_nothing(memory_path: Path) -> None:
    """However long a transfer takes: scans, timer, lamps, sounds and messages come at the same times."""
    changes: list[str] = []

    async def main(table: WholeTable) -> None:
        display, table.display = table.display, None  # nobody waits for a picture that does not come
        bus = table.ground.bus
        bus.gate.clear()
        sent = bus.transfers
        changes.extend(seen_at(table, await play(table)))
        assert told(memory_path, "shoe.closed"), "all of it is published before the bus goes on"
        assert bus.transfers == sent
        bus.gate.set()
        table.display = display

    at_table(memory_path, one_deck(memory_path), main)
    check_rounds(memory_path)
    assert changes == SEEN


async def worn(table: WholeTable, name: str, ms: float = 120) -> None:
    """A worn button: its contact bounces as it closes, and as it opens."""
    pin = table.ground.mock.pin(BUTTONS[name])
    for ends in (pin.drive_low, pin.drive_high):
        for drive in (pin.drive_low, pin.drive_high, pin.drive_low, pin.drive_high, ends):
            drive()
            await table.rest(3)
        await table.rest(ms)


def test_the_same_rounds_with_buttons_that_bounce(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I46: one betting a START, one result a CONFIRM, one call a CALL."""
    monkeypatch.setattr(WholeTable, "press", worn)

    async def main(table: WholeTable) -> None:
        await play(table)

    at_table(memory_path, one_deck(memory_path), main)
    check_rounds(memory_path)
    assert len(told(memory_path, "betting.opened")) == 2
    assert len(told(memory_path, "staff.called")) == 1


def test_all_buttons_at_once_do_what_the_table_asked_for(memory_path: Path) -> None:
    """I46: at every step of a round START, CONFIRM and CALL go down together; the round is the same."""

    async def all_at_once(table: WholeTable) -> None:
        pins = [table.ground.mock.pin(BUTTONS[name]) for name in ("start", "confirm", "call")]
        for pin in pins:
            pin.drive_low()
        await table.rest(120)
        for pin in pins:
            pin.drive_high()
        await table.rest(100)
        await table.settled()

    async def main(table: WholeTable) -> None:
        for word in ("confirm", "lid", "2S", "out", "out"):
            await act(table, word)
        await all_at_once(table)
        assert table.prompt == "betting"
        await all_at_once(table)  # the second CALL cancels the first
        await act(table, "13000")
        for word, prompt in (("8H", "draw"), ("KD", "draw"), ("KS", "draw"), ("2C", "result.player")):
            await act(table, word)
            assert table.prompt == prompt
            for _ in range(2):
                await all_at_once(table)
        assert table.prompt == "result.player"
        await act(table, "1000")
        await all_at_once(table)

    at_table(memory_path, one_deck(memory_path), main)
    (completed,) = told(memory_path, "round.completed")
    assert [completed[hand]["cards"] for hand in ("player", "banker")] == [["8H", "KS"], ["KD", "2C"]]
    assert [opened["round"] for opened in told(memory_path, "betting.opened")] == [1]
    assert told(memory_path, "irregularity.raised") == []


def test_a_panel_that_lost_its_power_shows_again(memory_path: Path) -> None:
    """Dark, its memory noise, and it answers as if nothing were (libraries.md O2): at every step of the rounds."""
    lost = 0

    async def main(table: WholeTable) -> None:
        settled = table.settled

        async def dims() -> None:
            nonlocal lost
            table.ground.bus.panel.lose_power()
            lost += 1
            await settled()

        table.settled = dims  # type: ignore[method-assign]
        await play(table)

    at_table(memory_path, one_deck(memory_path), main, refresh_s=0.02)
    check_rounds(memory_path)
    assert lost > len(ROUNDS)
    assert told(memory_path, "fault.raised") == []


# --- a bad bus ------------------------------------------------------------------------------------------------

ERRORS = (errno.EREMOTEIO, errno.EIO, errno.ETIMEDOUT, errno.ENXIO, errno.EAGAIN)
TAKEN = (0, 1, 2, 40, 10_000)  # how much of a transfer the panel takes before it is broken off


def test_an_error_at_every_transfer_of_every_picture(memory_path: Path) -> None:
    """Bug report 15: the round goes on, the panel is written anew at once, and it is no fault."""
    failed, last = 0, 0

    def main(number: int) -> Main:
        async def play_on_a_bad_bus(table: WholeTable) -> None:
            nonlocal failed, last
            bus = table.ground.bus
            for word, *_ in ROUNDS:
                wanted = bus.transfers + number
                bus.failures = {wanted: Failure(ERRORS[failed % 5], TAKEN[failed // 5 % 5])}
                await act(table, word)
                bus.failures = {}
                failed += bus.transfers > wanted
                last = number if bus.transfers > wanted else last
            assert table.standing("display", "display") is None

        return play_on_a_bad_bus

    number = 0
    while last == max(0, number - 1):  # the pass before met a transfer
        (place := memory_path / str(number)).mkdir()
        at_table(place, one_deck(place), main(number))
        assert [data["outcome"] for data in told(place, "round.completed")] == ["player", "banker"]
        assert told(place, "fault.raised") == []
        number += 1
    assert last >= 25  # a whole picture has more
    assert failed >= 250


def test_an_error_in_the_mending_too(memory_path: Path) -> None:
    """The panel's error at every transfer of what is written anew after an error: a fault, until it shows again."""
    numbers = 0

    async def main(table: WholeTable) -> None:
        nonlocal numbers
        bus = table.ground.bus
        met = True
        while met:
            first = bus.transfers
            bus.failures = {first: Failure(errno.EIO), first + 1 + numbers: Failure(errno.ETIMEDOUT, numbers % 3)}
            await act(table, "call")
            met = bus.transfers > first + 1 + numbers
            bus.failures = {}
            await table.until(lambda: table.standing("display", "display") is None)
            await table.settled()
            numbers += 1

    at_table(memory_path, PINS | PANEL, main)
    raised, cleared = told(memory_path, "fault.raised"), told(memory_path, "fault.cleared")
    assert {data["code"] for data in raised} == {"display"}
    assert numbers > 20
    assert numbers - 2 <= len(raised) == len(cleared) <= numbers


# --- ten shoes ------------------------------------------------------------------------------------------------


def deal(shoe: Shoe, *, sensors: bool) -> Main:
    """The shoe as it lies, dealt without buttons; where movements are seen, one card in ten is read twice (I04)."""
    slips = random.Random(f"{shoe.seed} read twice")

    async def dealt(table: WholeTable) -> None:
        for word in ("confirm", "confirm"):
            await act(table, word)
        for what, code in shoe.events:
            if sensors:
                await table.pull(cut=what == "cut")
            if not (sensors and what in ("burn", "cut")):
                for _ in range(2 if sensors and slips.random() < 0.1 else 1):
                    await table.scan(code)
            await table.rest(50)
        await table.settled()
        assert table.prompt.startswith("unload"), table.prompt

    return dealt


def deal_ahead(shoe: Shoe, position: str) -> Main:
    """Each card is read before it is out, one in ten twice: as it is drawn, or as the one before it has left."""
    slips = random.Random(f"{shoe.seed} read twice")

    async def dealt(table: WholeTable) -> None:
        if position == "in_shoe":
            await table.scan(shoe.events[0][1])  # it lies there as the shoe is loaded
        for word in ("confirm", "confirm"):
            await act(table, word)
        for index, (what, _) in enumerate(shoe.events):
            shown = index + (position == "in_shoe")
            if position == "before_exit":
                await read(table, shoe.events[shown][1])
            assert out(table) == index - cuts(index), "a card that is read is not out"
            await table.pull(cut=what == "cut")
            if position == "in_shoe" and shown < len(shoe.events):
                await read(table, shoe.events[shown][1])
            await table.rest(50)
        await table.settled()
        assert table.prompt.startswith("unload"), table.prompt

    def out(table: WholeTable) -> int:
        assert table.state.shoe is not None
        return table.state.shoe.out

    def cuts(index: int) -> int:
        return sum(what == "cut" for what, _ in shoe.events[:index])

    async def read(table: WholeTable, code: str) -> None:
        for _ in range(2 if slips.random() < 0.1 else 1):
            await table.scan(code)

    return dealt


@pytest.mark.parametrize("position", ["before_exit", "in_shoe"])
def test_a_shoe_that_is_read_ahead_gives_its_rounds(memory_path: Path, position: str) -> None:
    """What the scanner says of a card in the shoe is told when the card is out, and not before (B10)."""
    shoe = SHOES[0]
    rescan = {"rescan": "none"} if position == "in_shoe" else {}
    devices = {"shoe": SHOE, "scanner": {"position": position, **rescan}, "procedure": FREE_RUNNING, **PINS}
    at_table(memory_path, devices, deal_ahead(shoe, position))
    rounds = told(memory_path, "round.completed")
    assert [in_file_words(data) for data in rounds] == [expected(hand) for hand in shoe.hands]
    assert [data["round"] for data in rounds if data["last_round"]] == [shoe.last]
    assert len(told(memory_path, "cutcard.drawn")) == 1
    assert {data["code"] for data in told(memory_path, "irregularity.raised")} - {"I18", "I19", "I20"} == {"I04"}


@pytest.mark.parametrize("shoe", SHOES, ids=lambda shoe: f"seed {shoe.seed}")
def test_a_shoe_gives_its_rounds_with_sensors_and_without(memory_path: Path, shoe: Shoe) -> None:
    """Equal neighbours all count (bug report 37), what is read twice never does; one last round, seen or read (B7)."""
    drawn = []
    for name, devices in (("gpio", {"shoe": SHOE}), ("none", {})):
        (place := memory_path / name).mkdir()
        at_table(place, {"procedure": FREE_RUNNING, **devices, **PINS}, deal(shoe, sensors=name == "gpio"))
        rounds = told(place, "round.completed")
        assert [in_file_words(data) for data in rounds] == [expected(hand) for hand in shoe.hands]
        assert [data["round"] for data in rounds if data["last_round"]] == [shoe.last]
        drawn += [(data["where"], data["n_before"], data["last_round"]) for data in told(place, "cutcard.drawn")]
        raised = {data["code"] for data in told(place, "irregularity.raised")}
        assert raised - {"I18", "I19", "I20"} == ({"I04"} if name == "gpio" else set())
    assert len(drawn) == 2
    assert drawn[0] == drawn[1]
