"""Whole shoes through the real firmware, its port, the adapter, the table and its journal: what the feed says.

A line that damages one byte in 100, cards pulled back, the lid. The oracles are those of the vectors (field report 5):
each result once, the same last round as with sensors on pins and with none. Rules B1, B7; I04, I17.
"""

import json
import random
from pathlib import Path

import pytest

from tests.firmware.wired import Wires, reached
from tests.passages import MS, Scene, edges
from tests.shoes import SHOES, Shoe, expected
from tests.shoes import told as in_file_words
from tests.whole_table import FREE_RUNNING, LID, PINS, WholeTable, at_table, told

ERRORS_PER_MILLION = 10_000
MANY = 30  # frames, damaged, each way
QUICK = 1  # shoes; `make soak` plays all


def seen(table: WholeTable) -> tuple[int, bool]:
    """How many cards the table knows to be out, and whether the cut card is."""
    shoe = table.state.shoe
    assert shoe is not None
    return shoe.out, shoe.cut or shoe.cut_passed is not None


async def pull_back(table: WholeTable, rng: random.Random) -> None:
    """A front comes out, as far as the outer beam or not, and goes back: nothing left."""
    scene = Scene()
    over = rng.choice([0, rng.randint(20 * MS, 200 * MS)])
    scene.back(5 * MS, rng.randint(20 * MS, 80 * MS), over, rng.randint(20 * MS, 90 * MS))
    await table.play(edges(scene.spans))
    await table.rest(60)


async def deal(table: WholeTable, shoe: Shoe) -> int:
    """The shoe as it lies; a hand that draws again and again lets go. How often it did."""
    rng, let_go = random.Random(f"{shoe.seed} at the head"), 0
    await table.press("confirm")
    for is_open in (True, False):
        table.put(LID, is_open)
        await table.rest(100)
    await reached(table, lambda: table.state.shoe is not None)
    for what, code in shoe.events:
        if rng.random() < 0.05:
            await pull_back(table, rng)
            let_go += 1
        out, cut = seen(table)
        await table.pull(cut=what == "cut")
        wanted = (out, True) if what == "cut" else (out + 1, cut)
        await reached(table, lambda wanted=wanted: seen(table) == wanted)
        if what not in ("burn", "cut"):
            await table.scan(code)
        await table.rest(50)
    await table.settled()
    return let_go


@pytest.mark.parametrize(
    "shoe",
    [pytest.param(shoe, marks=[pytest.mark.soak] if n >= QUICK else []) for n, shoe in enumerate(SHOES)],
    ids=lambda shoe: f"seed {shoe.seed}",
)
def test_a_shoe_through_the_real_head(memory_path: Path, shoe: Shoe) -> None:
    wires = Wires(memory_path)

    async def main(table: WholeTable) -> None:
        async with wires.joined(table, errors_per_million=ERRORS_PER_MILLION, seed=shoe.seed) as head:
            let_go = await deal(table, shoe)
            assert table.prompt.startswith("unload"), table.prompt
            await table.rest(2_000)  # some heartbeats
            beat = head.session.beat
            assert beat is not None
            assert (beat.cards, beat.pullbacks) == (sum(what != "cut" for what, _ in shoe.events), let_go)
            assert min(sum(head.session.frames.errors.values()), beat.bad_frames) > MANY

    try:
        devices = {"procedure": FREE_RUNNING, "shoe": {"driver": "head", "port": str(wires.port)}, **PINS}
        at_table(memory_path, devices, main)
    finally:
        wires.close()
    rounds = told(memory_path, "round.completed")
    assert [in_file_words(data) for data in rounds] == [expected(hand) for hand in shoe.hands]
    assert [data["round"] for data in rounds if data["last_round"]] == [shoe.last]
    assert len(told(memory_path, "cutcard.drawn")) == 1
    raised = {data["code"] for data in told(memory_path, "irregularity.raised")}
    assert raised <= {"I18", "I19", "I20"}
    kinds = [json.loads(line)["type"] for line in (memory_path / "feed.jsonl").read_text().splitlines()]
    assert "baccarat.fault.raised.v1" not in kinds[kinds.index("baccarat.shoe.opened.v1") :]
