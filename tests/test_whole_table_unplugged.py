"""Devices unplugged and plugged in at random moments of a shoe: the table says so, and no card is lost or invented.

A dealer and a pit boss who do what the panel says, a shoe of the vectors, and cables that come out: before a card, in
its way through the beams, in the middle of its label. I01, I08, I40, I41; bug reports 4, 15, 22, 28, 35.
"""

import asyncio
import errno
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from controller.core.events import LeftCounted
from controller.core.facts import Phase
from tests.shoes import SHOES, Shoe, expected
from tests.shoes import told as in_file_words
from tests.whole_table import PANEL, PINS, PRESENT, SHOE, WholeTable, at_table, told

TURNS_MAX = 6_000  # of the dealer: a table that stands still is a failure and no hang
CHANCE = 0.05  # of a cable coming out, an act
PAUSE_MS = 300
LOOK_MS = 1_100  # a chip that goes and wakes nobody is found out by then


class Felt:
    """The cards as they lie, and who moves them: what the table knows of it, it knows by its devices."""

    def __init__(self, table: WholeTable, shoe: Shoe, rng: random.Random) -> None:
        self.table, self.rng, self.left = table, rng, shoe.left
        self.sensors, self.ahead = table.state.procedure.sensors, table.state.procedure.reads_ahead
        self.coming = [*reversed(shoe.events)]
        self.out: list[tuple[str, str]] = []  # the cards, in order; the cut card is `cut`
        self.cut = False
        self.cables = Cables(table, rng)
        self.asked: Counter[str] = Counter()  # what the pit boss was asked

    # --- what lies on the table -----------------------------------------------------------------------------

    def waiting(self) -> str | None:
        """The label of what was drawn last, where the table does not have it yet; empty for one face down."""
        shoe = self.table.state.shoe
        assert shoe is not None
        assert shoe.out <= len(self.out), "a card was invented"
        if self.cut and not (shoe.cut or shoe.cut_passed):
            return "CUT"
        for n, (what, code) in enumerate(self.out, 1):
            down = what == "left" or (what == "burn" and self.sensors)
            if n > shoe.out or (not down and n in shoe.unread):
                return "" if down else code
        return None

    async def draw(self) -> None:
        what, code = self.coming.pop() if self.coming else ("left", "")
        if what == "cut":
            self.cut = True
        else:
            self.out.append((what, code))
        label = "CUT" if what == "cut" else code
        if self.ahead and what != "left":
            await self.read(label)
        self.cables.may_come_out()
        if self.sensors:
            await self.table.pull(cut=what == "cut")
        if self.ahead:
            await self.table.rest(PAUSE_MS)
        elif what != "left" and not (what == "burn" and self.sensors):
            await self.read(label)

    async def read(self, label: str) -> None:
        self.cables.may_come_out()
        await self.table.scan(label)
        await self.table.rest(PAUSE_MS)

    # --- who sits there -------------------------------------------------------------------------------------

    async def turn(self) -> None:
        """What people do on what the panel says now."""
        table = self.table
        await table.until(lambda: True)
        code, phase = table.prompt.partition(".")[0], table.state.phase
        if code == "I08":
            await self.count()
        elif code in ("I40", "I41", "disk"):
            await table.rest(PAUSE_MS)
        elif phase is Phase.READY:
            await table.press("start")
        elif phase is Phase.BETTING:
            await table.rest(PAUSE_MS)
        elif phase is Phase.RESULT:
            await table.rest(1_000)
            await table.press("confirm")
        elif (label := self.waiting()) is not None:
            await (self.read(label) if label else table.rest(PAUSE_MS))
        elif phase is Phase.UNLOADING:
            await self.unload()
        else:
            assert phase in (Phase.BURNING, Phase.CLOSING, Phase.DEALING), table.prompt
            await self.draw()

    async def count(self) -> None:
        """The pit boss looks how many cards lie there of which the table does not know, once the sensors see again."""
        table, shoe = self.table, self.table.state.shoe
        assert shoe is not None
        if table.standing("I41", "chip") or table.standing("I40", "scanner"):
            await table.rest(PAUSE_MS)
            return
        choice = ("no_card", "one_card", "two_cards")[len(self.out) - shoe.out]
        self.asked[choice] += 1
        assert (await table.resolve("I08", choice)).refused is None

    async def unload(self) -> None:
        table = self.table
        left = len([what for what, _ in self.out if what == "left"])
        if not self.sensors:
            await table.heart.submit(LeftCounted(table.loop.now(), self.left, by=("D1",)))
        elif left < self.left:
            await self.draw()
        else:
            table.put(PRESENT, False)
            await table.press("confirm")


class Cables:
    """The plugs of a table: `out` counts how often each came out."""

    def __init__(self, table: WholeTable, rng: random.Random) -> None:
        self.table, self.rng = table, rng
        self.out: Counter[str] = Counter()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.names = ("scanner", "panel", *(("chip",) if table.state.procedure.sensors else ()))

    def may_come_out(self) -> None:
        name = self.rng.choice(self.names)
        before = self.tasks.get(name)
        if before is not None and before.done():
            before.result()  # what it found is the test's
        if (before is None or before.done()) and self.rng.random() < CHANCE:
            self.tasks[name] = asyncio.create_task(self._come_out(name))

    async def _come_out(self, name: str) -> None:
        table, rng = self.table, self.rng
        await table.rest(rng.uniform(0, 200))
        self.out[name] += 1
        errors = table.display.errors if table.display else 0
        wakes = name != "chip" or rng.random() < 0.5
        self._pull(name, wakes=wakes)
        length = rng.choice((rng.uniform(5, 300), rng.uniform(1_500, 6_000)))
        await table.rest(length)
        if name != "panel" and (wakes or length > LOOK_MS):
            self._is_said(*{"scanner": ("I40", "scanner"), "chip": ("I41", "chip")}[name])
        elif name == "panel" and table.display and table.display.errors > errors + 1:
            await table.until(lambda: table.standing("display", "display"))
        self._plug(name)

    def _is_said(self, code: str, part: str) -> None:
        """By the instruction, or in the strip, or under an instruction that is as strong."""
        condition, said = self.table.standing(code, part), self.table.prompt.partition(".")[0]
        assert condition is not None, f"{code} is not told"
        top = [c for c in self.table.state.conditions if c.code == said]
        assert said == code or code in self.table.strip or max(c.stops for c in top) >= condition.stops

    def _pull(self, name: str, *, wakes: bool) -> None:
        ground = self.table.ground
        if name == "scanner":
            self.table.scanner.unplug()
        elif name == "chip":
            ground.bank.unplug(wakes=wakes)
        else:
            ground.bus.broken = errno.EREMOTEIO

    def _plug(self, name: str) -> None:
        ground = self.table.ground
        if name == "scanner":
            self.table.scanner.plug()
        elif name == "chip":
            ground.bank.plug()
        else:
            ground.bus.panel.lose_power()
            ground.bus.broken = 0


def check(folder: Path, shoe: Shoe, seed: int, *, sensors: bool, hid: bool, position: str) -> None:
    """The shoe's results are the vector's, whatever came out; at its end nothing is at fault any more."""

    async def main(table: WholeTable) -> None:
        rng = random.Random(f"{seed} cables")
        for word in ("confirm", "confirm"):
            await table.press(word)
        felt = Felt(table, shoe, rng)
        for _ in range(TURNS_MAX):
            if table.state.phase is Phase.PREPARING:
                break
            await felt.turn()
        assert table.state.phase is Phase.PREPARING, (table.prompt, table.state.conditions)
        await asyncio.gather(*felt.cables.tasks.values())
        await table.rest(5_000)
        await table.settled()
        assert table.state.conditions == ()
        print(f"seed {seed}: {dict(felt.cables.out)} came out; the pit boss was asked {dict(felt.asked)}")

    devices: dict[str, Any] = {
        "procedure": {"betting_seconds": 2},
        **PINS,
        **PANEL,
        **({"shoe": SHOE} if sensors else {}),
        "scanner": {"position": position},
    }
    at_table(folder, devices, main, hid=hid, refresh_s=0.2)
    rounds = told(folder, "round.completed")
    assert [in_file_words(data) for data in rounds] == [expected(hand) for hand in shoe.hands]
    assert [data["round"] for data in rounds if data["last_round"]] == [shoe.last]
    assert told(folder, "round.voided") == told(folder, "round.cancelled") == []
    (closed,) = told(folder, "shoe.closed")
    assert closed["left"] == shoe.left
    assert len(told(folder, "fault.raised")) == len(told(folder, "fault.cleared")) > 0


LAYOUTS = {
    "gpio and serial": (True, False, "after_exit"),
    "gpio and hid": (True, True, "after_exit"),
    "none and hid": (False, True, "after_exit"),
    "gpio behind serial": (True, False, "before_exit"),
}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 100))])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_unplugged_comes_back_and_no_card_is_lost(memory_path: Path, layout: str, seed: int) -> None:
    sensors, hid, position = LAYOUTS[layout]
    shoe = SHOES[(seed + list(LAYOUTS).index(layout)) % len(SHOES)]
    check(memory_path, shoe, seed, sensors=sensors, hid=hid, position=position)
