"""`make rig`, the guest's side: the product's adapters on a real kernel's GPIO chip, keyboard, tty and I2C bus.

The chip is gpio-sim with a Pi's label, made by configfs and driven by sysfs; the display is `rig_oled`; keyboard and
serial adapter are QEMU's, plugged by the host (`run.py`). Each check is a coroutine of CHECKS: it asserts, and returns
its figures. Time is the guest's own (`run.command`): that of a slow processor, and while the host acts it races on.
"""

import asyncio
import json
import os
import random
import signal
import statistics
import sys
import time
import traceback
import tty
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import gpiozero

from controller import frame
from controller.adapters import pins_gpiod
from controller.adapters.buttons_gpio import ButtonsGpio
from controller.adapters.display_oled import CHIPS, DisplayOled, I2c, Oled
from controller.adapters.edges_gpio import INVERTED, EdgesGpio
from controller.adapters.lamps_gpio import LampsGpio
from controller.adapters.scanner_hid import ScannerHid
from controller.adapters.scanner_serial import ScannerSerial
from controller.core.cards import DECK
from controller.core.codes import Codes
from controller.core.events import CardScanned, Event, FaultGone, FaultSeen, KeyTurned, MovementUnclear
from controller.core.facts import Phase
from controller.core.view import Lamps, Pattern, Prompt, Text, View, view
from controller.link.movements import Line
from controller.panel import Words
from controller.ports import Outcome, Source
from tests.fake_panel import FakePanel
from tests.panel_states import played
from tests.passages import MS, Level, Pull, chatter, edges, night

DEADLINE_S = 600.0  # of the guest, which may take seconds of the host: how long a check waits for what must happen
S = 1_000 * MS


# --- the host, and the machine's parts ----------------------------------------------------------------------


class Host:
    """Who plugs, types and sends (`run.Hands`), on the second serial port."""

    def __init__(self, port: str) -> None:
        self._fd = os.open(port, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self._fd)

    def tell(self, **words: object) -> None:
        os.write(self._fd, json.dumps(words).encode() + b"\n")

    def do(self, name: str, **how: object) -> None:
        """Done when this returns."""
        self.tell(do=name, **how)
        while os.read(self._fd, 1) != b"\n":
            pass


class Chip:
    """A chip of gpio-sim. `plug` makes it, `unplug` takes it away whoever uses it; `pull` puts volts on a line."""

    def __init__(self, name: str, label: str) -> None:
        self._folder = Path("/sys/kernel/config/gpio-sim") / name
        self._bank = self._folder / "bank0"
        self._bank.mkdir(parents=True)
        (self._bank / "num_lines").write_text("58")
        (self._bank / "label").write_text(label)
        self._lines = Path()
        self._pulls: dict[int, int] = {}

    def plug(self) -> None:
        if (self._folder / "live").read_text() == "1\n":
            return
        (self._folder / "live").write_text("1")
        names = [path.read_text().strip() for path in (self._folder / "dev_name", self._bank / "chip_name")]
        self._lines = Path("/sys/devices/platform").joinpath(*names)

    def unplug(self) -> None:
        while self._pulls:
            os.close(self._pulls.popitem()[1])
        (self._folder / "live").write_text("0")

    def pull(self, offset: int, high: bool) -> None:
        if offset not in self._pulls:
            self._pulls[offset] = os.open(self._lines / f"sim_gpio{offset}" / "pull", os.O_WRONLY)
        os.pwrite(self._pulls[offset], b"pull-up" if high else b"pull-down", 0)

    def value(self, offset: int) -> bool:
        return (self._lines / f"sim_gpio{offset}" / "value").read_text() == "1\n"


class Machine(NamedTuple):
    host: Host
    chip: Chip  # the header's


class Step(NamedTuple):
    """What is done, and when: ns from the beginning."""

    at: int
    act: Callable[[], object]


async def play(steps: Iterable[Step]) -> int:
    """Another process does it, so that ours may sleep or be stopped; how late it was at worst, ns."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, str(_play(steps)).encode())
        except BaseException:  # noqa: BLE001 - told, and the parent misses the answer
            traceback.print_exc()
        os._exit(0)
    os.close(write)
    said = await asyncio.to_thread(os.read, read, 32)
    os.close(read)
    await asyncio.to_thread(os.waitpid, child, 0)
    assert said, "the player failed: see the console"
    return int(said)


def _play(steps: Iterable[Step]) -> int:
    late, began = 0, time.monotonic_ns()
    for at, act in steps:
        wait = began + at - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / S)
        late = max(late, -wait)
        act()
    return late


def stopped(at: int, steps: Iterable[Step]) -> list[Step]:
    """The steps, while this process is stopped."""
    me = os.getpid()
    return [Step(at, partial(os.kill, me, signal.SIGSTOP)), *steps, Step(at, partial(os.kill, me, signal.SIGCONT))]


def toggles(chip: Chip, offset: int, count: int, first: bool, at: int = 0, apart: int = 0) -> list[Step]:
    """So many edges of one line, the first one to that level; as fast as it goes, or so far apart."""
    return [Step(at + index * apart, partial(chip.pull, offset, (index % 2 == 0) is first)) for index in range(count)]


# --- the table's side ---------------------------------------------------------------------------------------


class Table:
    """Takes what a source reports, as the loop does; `heard` is when.

    The end of a fault that it never saw, of a run of the program before, is left out.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.heard: list[int] = []
        self._faults: set[tuple[str, str]] = set()

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        if isinstance(event, FaultSeen):
            self._faults.add((event.code, event.part))
        if not isinstance(event, FaultGone) or (event.code, event.part) in self._faults:
            self.events.append(event)
            self.heard.append(time.monotonic_ns())
        return asyncio.get_running_loop().create_future()

    @property
    def said(self) -> list[str]:
        return [said(event) for event in self.events]

    def forget(self) -> None:
        self.events.clear()
        self.heard.clear()

    @property
    def delays(self) -> list[int]:
        """From what happened to its event, ns."""
        return [heard - event.at for heard, event in zip(self.heard, self.events, strict=True)]


def said(event: Event) -> str:
    match event:
        case CardScanned(card=card):
            return card
        case FaultSeen(part=part):
            return f"fault:{part}"
        case FaultGone(part=part):
            return f"gone:{part}"
        case MovementUnclear(why=why):
            return f"unclear:{why}"
        case _:
            return type(event).__name__


def ms(ns: float) -> str:
    return f"{ns / MS:.1f} ms"


async def until(true: Callable[[], object], seen: Callable[[], object]) -> None:
    """Waits for it; `seen` is what there is instead."""
    end = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < end, f"what was waited for did not happen: {seen()}"
        await asyncio.sleep(0.005)


async def says(table: Table, *expected: str) -> None:
    """The table was told just that, in this order, since it forgot."""
    await until(lambda: len(table.said) >= len(expected), lambda: table.said)
    assert table.said == list(expected), f"{table.said} and not {expected}"


@asynccontextmanager
async def at_work(source: Source) -> AsyncIterator[Table]:
    table = Table()
    task = asyncio.create_task(source.run(table.submit))
    try:
        tried = getattr(source, "tried", None)
        if tried is not None:
            await tried.wait()
        yield table
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            raise RuntimeError("a source reports until it is cancelled") from task.exception()


# --- pins: lamps and buttons ----------------------------------------------------------------------------------

BAR, RED, CALL_LAMP, BUZZER = (5, 6, 13, 19), 26, 14, 12
BARS = ["1111", "0111", "0011", "0001", "0000"]
START, CONFIRM, CALL, KEY = 16, 20, 21, 4


def make_lamps() -> LampsGpio:
    return LampsGpio(pins_gpiod.factory("gpiod"), timer=BAR, red=RED, call=CALL_LAMP, buzzer=BUZZER)


async def lamps(machine: Machine) -> str:
    """A betting time on the lines: the bar goes out lamp by lamp, red flashes and the buzzer sounds at its end (C1)."""
    chip, panel = machine.chip, make_lamps()
    wired = (*BAR, RED, CALL_LAMP, BUZZER)
    async with at_work(panel) as table:
        closes = time.monotonic_ns() + 2 * S
        shown = Lamps(Pattern.BETTING, opened_at=closes - 2 * S, closes_at=closes, call=True, buzz="1/1/0")
        panel.show(View(Phase.BETTING, Prompt(Text("betting.headline")), shown))
        pictures: list[str] = []
        changed: list[int] = []
        while time.monotonic_ns() < closes + 1_900 * MS:
            picture = "".join("01"[chip.value(pin)] for pin in wired)
            if picture not in pictures[-1:]:
                pictures.append(picture)
                changed.append(time.monotonic_ns())
            await asyncio.sleep(0.002)
        assert table.events == []
    bars = [bar for bar, _ in groupby(picture[: len(BAR)] for picture in pictures)]
    assert bars in (BARS, ["0000", *BARS]), pictures
    reds, _, buzzers = ([lit for lit, _ in groupby(column)] for column in list(zip(*pictures, strict=True))[len(BAR) :])
    assert len(reds) == 9, f"four flashes: {pictures}"
    assert buzzers == ["0", "1", "0"], pictures
    assert not any(chip.value(pin) for pin in wired), "dark at the end"
    late = next(at for at, picture in zip(changed, pictures, strict=True) if picture[len(BAR)] == "1") - closes
    return f"{len(pictures)} pictures of {len(wired)} lines, red {ms(late)} after the deadline"


async def lamps_unplugged(machine: Machine) -> str:
    """The chip goes and comes back: a fault, and the picture that is due by then."""
    chip, panel = machine.chip, make_lamps()
    held = View(Phase.DEALING, Prompt(Text("draw.headline")), Lamps(Pattern.HELD, call=True))
    async with at_work(panel) as table:
        panel.show(held)
        await until(lambda: chip.value(RED) and chip.value(CALL_LAMP), partial(panel.diag, "lamps"))
        chip.unplug()
        panel.show(View(Phase.DEALING, held.prompt, Lamps(Pattern.OFF)))
        await says(table, "fault:lamps")
        panel.show(held)
        chip.plug()
        came = time.monotonic_ns()
        await until(lambda: chip.value(RED) and chip.value(CALL_LAMP), partial(panel.diag, "lamps"))
        again = time.monotonic_ns() - came
        await until(lambda: "gone:lamps" in table.said, lambda: table.said)
    return f"lit again {ms(again)} after the chip was back"


def press(chip: Chip, pin: int, at: int, held: int) -> list[Step]:
    """A worn contact: it bounces for 8 ms at both ends."""
    down, up = toggles(chip, pin, 41, False, at, MS // 5), toggles(chip, pin, 41, True, at + held, MS // 5)
    return [*down, *up]


async def buttons(machine: Machine) -> str:
    """Bouncing presses and the key switch (I46, I47). Contacts are open at first: our own pull-up holds them high."""
    source = ButtonsGpio(pins_gpiod.factory("gpiod"), start=START, confirm=CONFIRM, call=CALL, key=KEY)
    chip = machine.chip
    async with at_work(source) as table:
        steps = [
            *press(chip, START, 100 * MS, 120 * MS),
            *press(chip, CONFIRM, 500 * MS, 120 * MS),
            *press(chip, CONFIRM, 900 * MS, 2_300 * MS),
            *press(chip, KEY, 3_500 * MS, 300 * MS),
            *toggles(chip, CALL, 401, False, 4_000 * MS, MS // 4),  # chatters for 100 ms before it stays down
        ]
        await play(steps)
        hands = ("StartPressed", "ConfirmPressed", "ConfirmHeld", "KeyTurned", "KeyTurned", "CallPressed")
        await says(table, "KeyTurned", *hands)
        assert [event.turned for event in table.events if isinstance(event, KeyTurned)] == [False, True, False]
        told = sum(pin["edges"] for pin in source.diag()["pins"])
    return f"{len(steps)} edges driven, {told} told by the kernel, 4 presses and 2 turns"


async def buttons_stopped(machine: Machine) -> str:
    """Thousands of edges while the process stands still: the kernel drops the oldest; the level is right (G6)."""
    chip = machine.chip
    source = ButtonsGpio(pins_gpiod.factory("gpiod"), start=START)
    async with at_work(source) as table:
        pin = source._contacts[0].device.pin
        await play(stopped(0, toggles(chip, START, 4_001, False)))
        await until(lambda: source.pressed["start"], source.diag)
        assert pin.gaps, "edges were lost, and that was seen"
        await play([Step(0, partial(chip.pull, START, True))])
        await until(lambda: not source.pressed["start"], source.diag)
        assert table.said == ["KeyTurned", "StartPressed"], table.said
    return f"4001 edges, {source.diag()['pins'][0]['edges'] - 1} told, {pin.gaps} gap, pressed once"


async def buttons_unplugged(machine: Machine) -> str:
    chip = machine.chip
    source = ButtonsGpio(pins_gpiod.factory("gpiod"), start=START)
    async with at_work(source) as table:
        table.forget()
        chip.unplug()
        await says(table, "fault:start")
        text = next(event.text for event in table.events if isinstance(event, FaultSeen))
        chip.plug()
        await says(table, "fault:start", "gone:start")
        await play(press(chip, START, 0, 100 * MS))
        await says(table, "fault:start", "gone:start", "StartPressed")
    return f"and pressed after its return; the fault: {text}"


async def held_line(machine: Machine) -> str:
    """A line that another has is named (bug report 9)."""
    lamp = gpiozero.LED(RED, pin_factory=pins_gpiod.factory("gpiod"))
    try:
        gpiozero.LED(RED, pin_factory=pins_gpiod.factory("gpiod"))
    except gpiozero.GPIOPinInUse as error:
        return str(error)
    finally:
        lamp.close()
    raise AssertionError("a line has one owner")


# --- the shoe's sensors ---------------------------------------------------------------------------------------

DRIVEN = Path("/sys/module/gpio_sim_rig/parameters/driven")
LINES = {Line.INNER: 17, Line.OUTER: 27, Line.CUT: 22, Line.PRESENT: 18, Line.LID: 23}
NIGHTS = range(5)  # seeds
FIRST = ("MouthChanged", "LidChanged")  # the levels, when the chip is read anew
TOLD = {
    "card": "CardMoved",
    "two": "TwoCardsMoved",
    "cut": "CutCardSeen",
    "returned": "CardReturned",
}


def put(chip: Chip, line: Line, level: bool) -> None:
    chip.pull(LINES[line], level is not (line in INVERTED))


def rest(chip: Chip) -> None:
    """The sensors hold their lines: no card under way, one in the mouth, the lid closed."""
    DRIVEN.write_text("1")
    for line in LINES:
        put(chip, line, line is Line.PRESENT)


def driven(chip: Chip, levels: Iterable[Level], at: int = 0) -> list[Step]:
    return [Step(at + level.at, partial(put, chip, level.line, level.level)) for level in levels]


async def nights(machine: Machine, chatters: int) -> str:
    """Cards, the cut card, two at once, pull-backs, pokes: each told once, as it was, in order.

    Each change of level is followed by more of them for up to `chatters` ns.
    """
    heard: list[int] = []
    driven_count = told = late = 0
    for seed in NIGHTS:
        rng = random.Random(seed)
        scene = night(rng, 40)
        levels = chatter(edges(scene.spans), rng, chatters) if chatters else edges(scene.spans)
        rest(machine.chip)
        source = EdgesGpio(lines=LINES)
        async with at_work(source) as table:
            await says(table, *FIRST)
            table.forget()
            late = max(late, await play(driven(machine.chip, levels)))
            await asyncio.sleep(0.5)
            await says(table, *[TOLD[kind] for kind, _ in scene.truth])
            heard += table.delays
            told += sum(pin["edges"] for pin in source.diag()["pins"])
        driven_count += len(levels)
    what = f"{driven_count} edges driven ({ms(late)} late at worst), {told} told by the kernel; {len(heard)} movements"
    return f"{what}, each told after {ms(statistics.median(heard))} (worst {ms(max(heard))})"


async def edges_flicker(machine: Machine) -> str:
    """A beam that chatters for half a second is at fault (I41), no card is made of it, and the next card counts."""
    chip = machine.chip
    rest(chip)
    source = EdgesGpio(lines=LINES)
    async with at_work(source) as table:
        await says(table, *FIRST)
        table.forget()
        await play(toggles(chip, LINES[Line.INNER], 600, True, apart=MS * 8 // 10))
        await until(lambda: "gone:exit_inner" in table.said, lambda: table.said)
        told = table.said
        assert told.count("fault:exit_inner") == 1, told
        assert not {"CardMoved", "TwoCardsMoved"} & set(told), told
        table.forget()
        await play(driven(chip, edges(Pull(0, 150 * MS).spans())))
        await says(table, "CardMoved")
    return f"600 edges: {' '.join(told)}"


async def edges_stopped(machine: Machine) -> str:
    """Two cards, the lid and 4,000 edges while the process stands still: a fault and the levels anew, never a guess."""
    chip = machine.chip
    rest(chip)
    card = edges(Pull(0, 60 * MS).spans())
    source = EdgesGpio(lines=LINES)
    async with at_work(source) as table:
        await says(table, *FIRST)
        table.forget()
        missed = [*driven(chip, card), *driven(chip, card, 200 * MS), Step(0, partial(put, chip, Line.LID, True))]
        await play(stopped(0, [*missed, *toggles(chip, LINES[Line.INNER], 4_000, True)]))
        await says(table, "fault:edges", "unclear:lost", "LidChanged")
        await play(driven(chip, edges(Pull(0, 150 * MS).spans()), 500 * MS))
        await until(lambda: "gone:edges" in table.said, lambda: table.said)
        await says(table, "fault:edges", "unclear:lost", "LidChanged", "CardMoved", "gone:edges")
    return f"{len(missed) + 4_000} edges: {' '.join(table.said)}; {dict(source.sensors.counts)}"


async def edges_unplugged(machine: Machine) -> str:
    """The chip goes, between cards and in the middle of one, and comes back: each is told, and no card invented."""
    chip = machine.chip
    rest(chip)
    card = driven(chip, edges(Pull(0, 150 * MS).spans()))
    source = EdgesGpio(lines=LINES)
    waits: list[int] = []
    async with at_work(source) as table:
        await says(table, *FIRST)
        for under_way in (False, True, False):
            table.forget()
            await play(card)
            await says(table, "CardMoved")
            table.forget()
            if under_way:
                await play(card[:2])
                await asyncio.sleep(0.1)
            gone = time.monotonic_ns()
            chip.unplug()
            await says(table, *["unclear:lost"][:under_way], "fault:chip")
            waits.append(table.heard[-1] - gone)
            table.forget()
            chip.plug()
            await until(lambda: "gone:chip" in table.said, lambda: table.said)
            await says(table, "unclear:lost", "gone:chip")  # nobody saw what was drawn meanwhile
    return f"3 times, told after {', '.join(map(ms, waits))}"


# --- scanners -------------------------------------------------------------------------------------------------

CODES = Codes.of("plain", cut="CUT", noread="NOREAD")


def by_id(folder: str, pattern: str) -> str:
    (path,) = Path(folder).glob(pattern)
    return str(path)


async def learn(folder: str, pattern: str, machine: Machine, kind: str) -> str:
    """The name that udev gives the device, which the configuration needs before it is plugged in."""
    machine.host.do(f"plug_{kind}")
    await until(lambda: list(Path(folder).glob(pattern)), lambda: list(Path("/dev").iterdir()))
    path = by_id(folder, pattern)
    machine.host.do(f"unplug_{kind}")
    await until(lambda: not Path(path).exists(), lambda: path)
    return path


async def scans(table: Table, send: Callable[[str], object], cards: Iterable[str]) -> None:
    """One card after the other, each told before the next; then the table forgets."""
    for card in cards:
        table.forget()
        send(f"{card}\r")
        await says(table, card)
    table.forget()


async def plug_in(machine: Machine, kind: str, source: ScannerHid | ScannerSerial, table: Table) -> None:
    machine.host.do(f"plug_{kind}")
    await until(lambda: "gone:scanner" in table.said, lambda: table.said)
    assert source.opened.is_set()
    table.forget()


async def scanner(
    machine: Machine, kind: str, source: ScannerHid | ScannerSerial, send: Callable[[str], object]
) -> str:
    """Absent, plugged, fifty-two cards, pulled out in the middle of a code, plugged again, left alone, pulled out."""
    async with at_work(source) as table:
        assert table.said == ["fault:scanner"], table.said
        await plug_in(machine, kind, source, table)
        await scans(table, send, DECK)
        send("8")
        await asyncio.sleep(0.1)
        machine.host.do(f"unplug_{kind}")
        await says(table, "fault:scanner")
        await plug_in(machine, kind, source, table)
        await scans(table, send, ["9H", "9H", "TC"])
        told = await stopped_scanner(table, send)
        await scans(table, send, ["AS"])
        machine.host.do(f"unplug_{kind}")
        await says(table, "fault:scanner")
    return f"plugged in and pulled out twice, 56 cards; of ten to a stopped process: {' '.join(told)}"


async def stopped_scanner(table: Table, send: Callable[[str], object]) -> list[str]:
    """Ten cards while the process stands still: all of them, in order, or a word that some are missing."""
    table.forget()
    sent = [str(card) for card in DECK[:10]]
    await play(stopped(0, [Step(index * 300 * MS, partial(send, f"{card}\r")) for index, card in enumerate(sent)]))
    await asyncio.sleep(2.0)
    cards = [event.card for event in table.events if isinstance(event, CardScanned)]
    rest_of = iter(sent)
    assert all(card in rest_of for card in cards), f"{cards} of {sent}"
    assert len(cards) == len(sent) or len(cards) < len(table.events), "what the kernel dropped is told"
    return table.said


async def scanner_hid(machine: Machine) -> str:
    port = await learn("/dev/input/by-id", "*-event-kbd", machine, "keyboard")
    return await scanner(machine, "keyboard", ScannerHid(port=port, codes=CODES), partial(type_in, machine))


def type_in(machine: Machine, text: str) -> None:
    machine.host.do("type", text=text)


def capslock_of(port: str) -> Path:
    """The lamp of this keyboard, as the kernel shows it."""
    (lamp,) = Path("/sys/class/input", Path(port).resolve().name, "device").glob("*capslock/brightness")
    return lamp


async def keyboard_grabbed(machine: Machine) -> str:
    """Nobody else hears the keyboard; CapsLock is read as the scanner means it, and shown on its lamp."""
    port = await learn("/dev/input/by-id", "*-event-kbd", machine, "keyboard")
    source = ScannerHid(port=port, codes=CODES)
    async with at_work(source) as table:
        await plug_in(machine, "keyboard", source, table)
        other = os.open(port, os.O_RDONLY | os.O_NONBLOCK)
        await scans(table, partial(type_in, machine), ["2C"])
        try:
            heard = os.read(other, 24)
        except BlockingIOError:
            heard = b""
        os.close(other)
        assert not heard, "another program heard a card"
        lamp = capslock_of(port)
        lit: list[str] = []
        for typed, card in (("\x148h\r", "8H"), ("\x149S\r", "9S")):
            table.forget()
            type_in(machine, typed)
            await says(table, card)
            lit.append(lamp.read_text())
        assert lit == ["1\n", "0\n"], lit
        machine.host.do("unplug_keyboard")
    return "one reader; CapsLock on and off, its lamp with it"


async def scanner_serial(machine: Machine) -> str:
    port = await learn("/dev/serial/by-id", "*", machine, "serial")
    source = ScannerSerial(port=port, baud=9600, codes=CODES)
    return await scanner(machine, "serial", source, lambda text: machine.host.do("send", text=text))


# --- the display ----------------------------------------------------------------------------------------------

WORDS, TABLE = Words("es"), "BAC-07"
SINK = Path("/sys/module/rig_oled/parameters")
VIEWS = [view(played("", script).state) for script in ("load", "load start", "load start tick", "load start tick 2H")]


class Glass:
    """What stands behind the bus: the model of the panel, fed with what `rig_oled` took."""

    def __init__(self, chip: str) -> None:
        self.panel = FakePanel(chip)
        self.transfers = self.bytes = 0
        self._fd = os.open("/dev/rig_oled", os.O_RDONLY)
        self._rest = b""
        self.look()
        self.panel.lose_power()

    def look(self) -> bytes | None:
        """What an eye sees by now."""
        try:
            while True:
                self._rest += os.read(self._fd, 65_536)
        except BlockingIOError:
            pass
        while len(self._rest) >= 2 and len(self._rest) >= 2 + int.from_bytes(self._rest[:2], "big"):
            end = 2 + int.from_bytes(self._rest[:2], "big")
            self.panel.receive(self._rest[2:end])
            self._rest = self._rest[end:]
            self.transfers += 1
            self.bytes += end - 1  # the address is a byte too
        return self.panel.frame()

    def close(self) -> None:
        os.close(self._fd)
        assert (SINK / "lost").read_text() == "0\n", "the rig read all that was written"


def sink(name: str, value: int | str) -> None:
    (SINK / name).write_text(str(value))


async def shows(panel: DisplayOled, glass: Glass, shown: View) -> str:
    """The view is on the glass; what that took."""
    before, began = (glass.transfers, glass.bytes), time.monotonic_ns()
    panel.show(shown)
    meant = frame.draw(WORDS.panel(shown, TABLE), idle=shown.phase is Phase.CLOSED)
    await until(lambda: glass.look() == meant, panel.diag)
    took = time.monotonic_ns() - began
    return f"{glass.bytes - before[1]} bytes in {glass.transfers - before[0]} transfers, {ms(took)}"


async def display(machine: Machine, chip: str) -> str:
    glass = Glass(chip)
    panel = DisplayOled(Oled(chip, I2c(1, 0x3C)), WORDS, TABLE)
    async with at_work(panel) as table:
        whole = await shows(panel, glass, VIEWS[0])
        change = await shows(panel, glass, VIEWS[1])
        table.forget()
        sink("nak", 1)
        panel.show(VIEWS[2])
        await says(table, "fault:display")
        glass.look()
        glass.panel.lose_power()
        sink("nak", 0)
        again = await shows(panel, glass, VIEWS[3])
        await says(table, "fault:display", "gone:display")
    assert glass.look() is None, "dark at the end"
    glass.close()
    return f"whole {whole}; a prompt {change}; after its return {again}"


async def display_hangs(machine: Machine) -> str:
    """A stuck bus holds nothing up but the display, and the end of the program for a moment only."""
    glass = Glass("ssd1309")
    panel = DisplayOled(Oled("ssd1309", I2c(1, 0x3C)), WORDS, TABLE)
    lag = 0.0
    async with at_work(panel) as table:
        await shows(panel, glass, VIEWS[0])
        table.forget()
        sink("hang_ms", 3_000)
        panel.show(VIEWS[1])
        while "fault:display" not in table.said:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            lag = max(lag, time.monotonic() - began - 0.01)
        assert lag < 1.0, "the loop did not wait for the bus"
        fault = next(event.text for event in table.events if isinstance(event, FaultSeen))
        sink("hang_ms", 0)
        await shows(panel, glass, VIEWS[3])
        sink("hang_ms", 5_000)
        panel.show(VIEWS[2])
        await asyncio.sleep(0.5)
        stops = time.monotonic()
    took = time.monotonic() - stops
    sink("hang_ms", 0)
    glass.close()
    assert took < 4.5, "it did not wait for the bus at the end"
    return f"the loop's worst lag {lag * 1e3:.1f} ms, ended in {took:.1f} s; the fault: {fault}"


# --- all of it ------------------------------------------------------------------------------------------------

Check = Callable[[Machine], Awaitable[str]]

CHECKS: dict[str, Check] = {
    "lamps": lamps,
    "lamps, chip unplugged": lamps_unplugged,
    "a line held by another": held_line,
    "buttons": buttons,
    "buttons, process stopped": buttons_stopped,
    "buttons, chip unplugged": buttons_unplugged,
    "sensors, passages": partial(nights, chatters=0),
    "sensors, chattering": partial(nights, chatters=3 * MS),
    "sensors, a beam flickers": edges_flicker,
    "sensors, process stopped": edges_stopped,
    "sensors, chip unplugged": edges_unplugged,
    "scanner, keyboard": scanner_hid,
    "scanner, keyboard grabbed": keyboard_grabbed,
    "scanner, serial": scanner_serial,
    **{f"display, {chip}": partial(display, chip=chip) for chip in CHIPS},
    "display, bus stuck": display_hangs,
}


def main(port: str, words: list[str]) -> None:
    """Every check, or those with one of `words` in their names."""
    host = Host(port)
    Chip("other", "gpio-of-something-else").plug()  # so that the header's chip is not the first
    chip = Chip("header", "pinctrl-bcm2711")
    chip.plug()
    machine = Machine(host, chip)
    host.tell(
        say=f"guest up after {time.monotonic():.1f} s: Linux {os.uname().release}, Python {sys.version.split()[0]}"
    )
    failed = 0
    for name, check in CHECKS.items():
        if words and not any(word in name for word in words):
            continue
        DRIVEN.write_text("0")
        chip.plug()
        try:
            host.tell(say=f"ok    {name}: {asyncio.run(_coroutine(check(machine)))}")
        except Exception as error:  # noqa: BLE001 - told, counted, and the other checks still have their say
            traceback.print_exc()
            failed += 1
            host.tell(say=f"FAIL  {name}: {type(error).__name__}: {error}")
    host.tell(failed=failed)


async def _coroutine(check: Awaitable[str]) -> str:
    return await check


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
