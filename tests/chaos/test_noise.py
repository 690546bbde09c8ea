"""Scanner noise: never an exception, never a wrong card (bug reports 25, 26, 37)."""

import random
import time
from pathlib import Path

from tests.live import FREE_RUNNING, LiveTable, wait_for
from tests.shoes import SHOES

CODE = b"8H\r\n"


def _table(folder: Path) -> LiveTable:
    return LiveTable(
        folder, casino={"primary": "file", "file": {"path": str(folder / "feed.jsonl")}}, procedure=FREE_RUNNING
    )


def _codes(table: LiveTable) -> list[str]:
    return [condition["code"] for condition in table.status()["conditions"]]


def _resolve(table: LiveTable) -> None:
    """What people do about a code that is no card's: the pit boss has the card read again (I06)."""
    for condition in table.status()["conditions"]:
        if condition["code"] == "I06":
            table.call("round.resolve", code="I06", choice="rescan", by=["dealer", "boss"])


def test_a_shoe_between_bursts_of_noise_gives_exactly_its_hands(tmp_path: Path) -> None:
    """Random bytes of every value between the cards of a shoe; the noise's seed is told on failure."""
    seed = random.SystemRandom().getrandbits(32)
    noise = random.Random(seed)
    shoe = SHOES[2]
    with _table(tmp_path) as table:
        table.call("shoe.load")
        for number, code in enumerate(shoe.codes):
            if number % 7 == 3:
                garbage = bytes(noise.randrange(128, 256) for _ in range(noise.randrange(1, 300)))
                table.write(garbage + b"\r")
            table.scan(code)
        wait_for(lambda: table.status()["phase"] == "unloading", f"the end of the shoe, noise of seed {seed}")
        table.call("shoe.left", left=shoe.left)
        recalled = table.call("recall", n=len(shoe.hands))["rounds"]
        assert table.pid, f"seed {seed}"
    assert len(recalled) == len(shoe.hands), f"seed {seed}"


def test_half_a_line_is_no_card_and_the_next_whole_one_is(tmp_path: Path) -> None:
    """A code cut at every place by a pause longer than the idle time: each half is noise (bug report 25)."""
    with _table(tmp_path) as table:
        table.call("shoe.load")
        table.scan("AS")  # turned up: burns one
        table.scan("2S")
        wait_for(lambda: table.status()["phase"] == "ready", "the burn's end")
        for split in range(1, len(CODE) - 2):
            table.write(CODE[:split])
            time.sleep(0.3)
            table.write(b"\r\n")
        table.write(b"8")
        time.sleep(0.05)  # a pause, but within the idle time: still one line
        table.write(b"H\r\n")
        wait_for(lambda: table.status()["slots"] == {"P1": "8H"}, "the one whole code")


def test_equal_codes_in_a_row_are_two_cards(tmp_path: Path) -> None:
    """Legal about seven times a shoe (I04 D, bug report 37)."""
    with _table(tmp_path) as table:
        table.call("shoe.load")
        table.scan("AS", "2S", "8H", "8H", "8H")
        wait_for(lambda: table.status()["slots"] == {"P1": "8H", "B1": "8H", "P2": "8H"}, "three cards")


def test_a_ninth_copy_stops_the_table_for_the_pit_boss(tmp_path: Path) -> None:
    """I05: nine of one face cannot be; the round is kept, the shoe ends after it."""
    with _table(tmp_path) as table:
        table.call("shoe.load")
        table.scan("AS", "2S", *["KD"] * 9)
        wait_for(lambda: _codes(table) == ["I05"], "the hold")
        table.call("round.resolve", code="I05", choice="finish", by=["dealer", "boss"])
        assert _codes(table) == []


def test_a_foreign_code_stops_the_table_until_the_pit_boss_has_spoken(tmp_path: Path) -> None:
    """I06: a clean code of no card; the card that follows gets its slot only after."""
    with _table(tmp_path) as table:
        table.call("shoe.load")
        table.scan("AS", "2S", "8H", "JOKER", "3C")
        wait_for(lambda: _codes(table) == ["I06"], "the hold")
        assert table.status()["slots"] == {"P1": "8H"}
        _resolve(table)
        wait_for(lambda: table.status()["slots"] == {"P1": "8H", "B1": "3C"}, "the card after the hold")
