"""Shoes through the real firmware: voltages in, the casino's rounds out, and a bad line between head and table.

Chip, table and scanner go in lock step. Rules B7, B11; I04, I08, I22, I41; bug reports 6, 7, 37.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from controller.core import conditions
from controller.core.facts import Phase
from controller.core.state import Fate
from controller.core.state import Shoe as Loaded
from firmware.sim.bench import Cause
from tests.firmware.chip import symbols
from tests.firmware.test_chip import HANG
from tests.head_table import BROKEN, HeadTable, passage
from tests.passages import edges
from tests.shoes import SHOES, Shoe, expected
from tests.shoes import told as in_file_words
from tests.whole_table import FREE_RUNNING, INNER, LID, PINS, PRESENT, Main, WholeTable, at_table, told

GLANCE_MS = 250  # how long a dealer waits before a card is shown again
CUT_CARD = {"I18", "I19", "I20"}
LOST_MS = 2_000  # so long at most the head says nothing that is whole, before the table knows that it is lost


def at_head(folder: Path, main: Main) -> None:
    devices = {"procedure": FREE_RUNNING, "shoe": {"driver": "head", "port": str(folder / "head")}, **PINS}
    at_table(folder, devices, main, sort=HeadTable)


async def waited(table: WholeTable, true: Callable[[], bool], what: str) -> None:
    for _ in range(500):
        if true():
            return
        await table.rest(10)
    raise AssertionError(f"{what}: {table.prompt} {table.strip} {table.state.conditions}")


def loaded(table: WholeTable) -> Loaded:
    assert table.state.shoe is not None
    return table.state.shoe


async def load(table: WholeTable) -> None:
    """By its lid."""
    await table.press("confirm")
    for is_open in (True, False):
        table.put(LID, is_open)
        await table.rest(200)
    await waited(table, lambda: table.prompt == "burn.first", "the shoe is loaded")


async def show(table: WholeTable, n: int, code: str) -> None:
    """The card goes over the scanner, and again where the table has not taken it: its movement was told late (I04).

    Right behind the cut card such a scan makes the table ask whether it was one: it was (I22).
    """
    for _ in range(20):
        await table.scan(code)
        for _ in range(GLANCE_MS // 10):
            await table.rest(10)
            if table.standing("I22"):
                await table.press("confirm")
            taken = loaded(table).out >= n and n not in loaded(table).unread
            if taken and not conditions.cards_held(table.state):
                return
    raise AssertionError(f"card {n} is not taken: {table.prompt} {table.strip} {table.state.conditions}")


async def deal(table: HeadTable, events: tuple[tuple[str, str], ...], rng: random.Random, n: int = 0) -> None:
    """What lies in the shoe, one after the other; `n` cards are out."""
    for what, code in events:
        await table.draw(what, rng)
        n += what != "cut"
        if what not in ("burn", "cut"):
            if loaded(table).fates[-1:] == Fate.BURNED:  # until it is told, a scan could be a burned card's
                await waited(table, lambda n=n: loaded(table).out == n, "the first card is told")  # type: ignore[misc]
            await table.rest(rng.randint(10, 100))
            await show(table, n, code)


# --- ten shoes ------------------------------------------------------------------------------------------------


def whole(shoe: Shoe) -> Main:
    """Loads it, deals it as it lies, draws what is left and closes it; the head counts as the table does."""
    rng = random.Random(f"{shoe.seed} passages")

    async def dealt(table: WholeTable) -> None:
        assert isinstance(table, HeadTable)
        table.noisy(BROKEN, shoe.seed)
        await load(table)
        await deal(table, shoe.events, rng)
        for _ in range(shoe.left):
            await table.draw("left", rng)
        table.put(PRESENT, False)
        cards = len(shoe.events) - 1 + shoe.left
        await waited(table, lambda: (loaded(table).out, table.state.present) == (cards, False), "the shoe is empty")
        table.noisy(0, 1)
        await table.rest(LOST_MS)
        await table.press("confirm")
        await waited(table, lambda: table.state.shoe is None, "the shoe is closed")
        session, beat = table.session, table.session.beat
        assert (session.counts["card"], session.counts["cut"]) == (cards, 1)
        assert session.counts["ambiguous"] == session.counts["two"] == session.counts["returned"] == 0
        assert session.counts["pullback"] > 10
        assert beat is not None
        assert (beat.cards, beat.waiting) == (cards, 0)
        assert sum(session.frames.errors.values()) > 100
        assert beat.bad_frames > 30

    return dealt


def check(folder: Path, shoe: Shoe) -> None:
    """Its rounds, its last one and its ledger are the file's, as with sensors on pins and with none (B7, B11)."""
    at_head(folder, whole(shoe))
    rounds = told(folder, "round.completed")
    assert [in_file_words(data) for data in rounds] == [expected(hand) for hand in shoe.hands]
    assert [data["round"] for data in rounds if data["last_round"]] == [shoe.last]
    before = [what for what, _ in shoe.events].index("cut")
    drawn = [(data["n_before"], data["last_round"]) for data in told(folder, "cutcard.drawn")]
    assert drawn == [(before, shoe.last)]
    (closed,) = told(folder, "shoe.closed")
    dealt = sum(len(hand["P"]) + len(hand["B"]) for hand in shoe.hands)
    ledger = tuple(closed[key] for key in ("dealt", "burned", "left", "rounds", "misreads"))
    assert ledger == (dealt, len(shoe.events) - 1 - dealt, shoe.left, len(shoe.hands), 0)
    assert {data["code"] for data in told(folder, "irregularity.raised")} <= {"I04", "I22", *CUT_CARD}


FEW = 1  # in `make test`
IDS = [f"seed {shoe.seed}" for shoe in SHOES]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("shoe", SHOES[:FEW], ids=IDS[:FEW])
def test_a_shoe_over_a_line_that_breaks_one_byte_in_a_hundred(memory_path: Path, shoe: Shoe) -> None:
    check(memory_path, shoe)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shoe", SHOES[FEW:], ids=IDS[FEW:])
def test_more_shoes_over_such_a_line(memory_path: Path, shoe: Shoe) -> None:
    check(memory_path, shoe)


# --- a head that restarts in a round (I08) --------------------------------------------------------------------

BY_FUSE_US = 65_000  # how long a chip stands still after a reset, as its fuses are set
SHORT_US = 2_000  # shorter than any card takes
FIRST = SHOES[4].events[:4]  # the burn card turned up, one burned, two cards of the round
REST = SHOES[4].events[4:6]


async def by_fuse(table: HeadTable) -> None:
    table.chip.bench.reset(Cause.EXTERNAL, hold=BY_FUSE_US)


async def short(table: HeadTable) -> None:
    table.chip.bench.reset(Cause.BROWNOUT, hold=SHORT_US)


async def power(table: HeadTable) -> None:
    table.chip.bench.reset(Cause.POWER, hold=SHORT_US)


async def short_in_a_passage(table: HeadTable) -> None:
    table.put(INNER, True)
    await table.rest(20)
    await short(table)
    table.put(INNER, False)


async def short_before_it_is_told(table: HeadTable) -> None:
    levels = edges(passage("card", random.Random(1)).spans)
    table.chip.bench.reset(Cause.BROWNOUT, table.chip.bench.now + levels[-1].at / 1_000 + 3_000, SHORT_US)
    await table.play(levels)


async def hang(table: HeadTable) -> None:
    """The watchdog bites, after 120 ms in which nothing was judged."""
    bench, address = table.chip.bench, symbols()["hal_rest"]
    whole, resets = bench.word(address), bench.resets
    bench.patch(address, HANG)
    await waited(table, lambda: bench.resets > resets, "the watchdog bites")
    bench.patch(address, whole)


async def unplugged(table: HeadTable) -> None:
    table.cable.unplug()
    await waited(table, lambda: table.standing("I41", "head") is not None, "the head is missed")
    await table.rest(LOST_MS)
    table.cable.plug()


async def reset_while_unplugged(table: HeadTable) -> None:
    table.cable.unplug()
    await table.rest(LOST_MS)
    await by_fuse(table)
    await table.rest(LOST_MS)
    table.cable.plug()


RESTARTS: dict[str, tuple[Callable[[HeadTable], Awaitable[None]], bool]] = {  # whether people must say what moved
    "reset, as long as the fuses say": (by_fuse, True),
    "reset for less than a card takes": (short, False),
    "power": (power, True),
    "reset in a passage": (short_in_a_passage, True),
    "reset before a card is told": (short_before_it_is_told, True),
    "hang": (hang, True),
    "unplugged": (unplugged, False),
    "reset while unplugged": (reset_while_unplugged, True),
}


@pytest.mark.parametrize("name", RESTARTS)
def test_a_head_that_restarts_holds_the_round_only_where_a_card_can_be_missed(memory_path: Path, name: str) -> None:
    """Held, no card is guessed; not held, the round goes on as if nothing had been."""
    happens, holds = RESTARTS[name]
    rng = random.Random(name)

    async def main(table: WholeTable) -> None:
        assert isinstance(table, HeadTable)
        await load(table)
        await deal(table, FIRST, rng)
        await happens(table)
        await table.rest(LOST_MS)
        await waited(table, lambda: table.standing("I41", "head") is None, "the head is there again")
        assert (loaded(table).out, table.standing("I08") is not None) == (len(FIRST), holds)
        if not holds:
            await deal(table, REST, rng, len(FIRST))
            assert table.state.conditions == ()

    at_head(memory_path, main)
    if not holds:
        rounds = told(memory_path, "round.completed")
        assert [in_file_words(data) for data in rounds] == [expected(SHOES[4].hands[0])]


def test_a_card_that_people_counted_while_the_head_was_unplugged_is_no_second_one(memory_path: Path) -> None:
    """They may not wait for the head; it tells of the card all the same when it is back (I08, I41)."""
    rng = random.Random(3)

    async def main(table: WholeTable) -> None:
        assert isinstance(table, HeadTable)
        await load(table)
        await deal(table, FIRST, rng)
        table.cable.unplug()
        await waited(table, lambda: table.standing("I41", "head") is not None, "the head is missed")
        await table.draw("card", rng)
        await table.rest(GLANCE_MS)
        await table.scan(REST[0][1])
        await waited(table, lambda: table.standing("I08") is not None, "people are asked")
        assert (await table.resolve("I08", "one_card")).refused is None
        await table.scan(REST[0][1])
        await waited(table, lambda: not loaded(table).unread, "the card is read")
        before = table.session.counts["card"]
        table.cable.plug()
        await waited(table, lambda: table.session.counts["card"] > before, "the head tells of it")
        await table.rest(LOST_MS)
        assert loaded(table).out == len(FIRST) + 1
        await deal(table, REST[1:], rng, len(FIRST) + 1)

    at_head(memory_path, main)
    rounds = told(memory_path, "round.completed")
    assert [in_file_words(data) for data in rounds] == [expected(SHOES[4].hands[0])]


def test_a_card_that_leaves_while_the_head_is_unplugged_is_told_when_it_is_back(memory_path: Path) -> None:
    rng = random.Random(3)

    async def main(table: WholeTable) -> None:
        assert isinstance(table, HeadTable)
        await load(table)
        await deal(table, FIRST, rng)
        table.cable.unplug()
        await table.draw("card", rng)
        await table.rest(LOST_MS)
        assert loaded(table).out == len(FIRST)
        table.cable.plug()
        await waited(table, lambda: table.standing("I41", "head") is None, "the head is there again")
        await show(table, len(FIRST) + 1, REST[0][1])
        await deal(table, REST[1:], rng, len(FIRST) + 1)

    at_head(memory_path, main)
    rounds = told(memory_path, "round.completed")
    assert [in_file_words(data) for data in rounds] == [expected(SHOES[4].hands[0])]


# --- a cable that comes out, and people who may not wait for it (I08, I41) --------------------------------------

CARDS = 60  # of a shoe
TURNS_MAX = 300  # of people, at one card: a table that stands still is a failure and no hang
AWAY_MS = (300, 1_500, 4_000, 9_000)


class Hands:
    """A dealer, a pit boss who counts what lies there, now and then before the head is back, and its cable."""

    def __init__(self, table: HeadTable, rng: random.Random) -> None:
        self.table, self.rng, self.out = table, rng, 0
        self.cable: asyncio.Task[None] | None = None

    async def deal(self, what: str, code: str) -> None:
        if loaded(self.table).out and self.table.state.phase is Phase.READY:
            await self.turns(lambda: not self.table.state.conditions)
        elif self.table.state.phase is Phase.DEALING and self.is_plugged() and self.rng.random() < 0.25:
            self.cable = asyncio.create_task(self.come_out())
        await self.table.draw("card", self.rng)
        self.out += 1
        await self.table.rest(self.rng.choice([20, 60, 300]))
        await self.turns(lambda: self.has_place(what), "" if what == "burn" else code)

    def is_plugged(self) -> bool:
        return self.cable is None or self.cable.done()

    def has_place(self, what: str) -> bool:
        shoe = loaded(self.table)
        assert shoe.out <= self.out, "a card was invented"
        is_read = what == "burn" or self.out not in shoe.unread
        return shoe.out == self.out and is_read and self.table.standing("I08") is None

    async def turns(self, done: Callable[[], bool], code: str = "") -> None:
        for _ in range(TURNS_MAX):
            if done():
                return
            if self.table.standing("I08"):
                await self.count()
            elif code:
                await self.table.scan(code)
            await self.table.rest(300)
        raise AssertionError((self.out, self.table.prompt, self.table.state.conditions))

    async def count(self) -> None:
        if self.rng.random() < (0.1 if self.table.standing("I41", "head") else 0.5):
            choice = ("no_card", "one_card", "two_cards")[self.out - loaded(self.table).out]
            assert (await self.table.resolve("I08", choice)).refused is None

    async def come_out(self) -> None:
        away = self.rng.choice(AWAY_MS)
        await self.table.rest(self.rng.uniform(0, 400))
        self.table.cable.unplug()
        await self.table.rest(away / 2)
        if self.rng.random() < 0.3:
            self.table.chip.bench.reset(self.rng.choice([Cause.EXTERNAL, Cause.POWER]), hold=BY_FUSE_US)
        await self.table.rest(away / 2)
        self.table.cable.plug()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [7, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(8, 40))])
def test_no_card_is_lost_or_invented_by_a_cable_that_comes_out(memory_path: Path, seed: int) -> None:
    shoe, rng = SHOES[seed % len(SHOES)], random.Random(seed)

    async def main(table: WholeTable) -> None:
        assert isinstance(table, HeadTable)
        await load(table)
        hands = Hands(table, rng)
        for what, code in [event for event in shoe.events if event[0] != "cut"][:CARDS]:
            await hands.deal(what, code)
        assert hands.cable is not None
        await hands.cable
        await table.rest(2 * LOST_MS)
        assert loaded(table).out == CARDS

    at_head(memory_path, main)
    rounds = [in_file_words(data) for data in told(memory_path, "round.completed")]
    assert len(rounds) > 5
    assert rounds == [expected(hand) for hand in shoe.hands[: len(rounds)]]
    assert told(memory_path, "irregularity.raised")
