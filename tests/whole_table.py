"""One table in the process of its test, whole: the daemon's own life over the product's wiring, in virtual time.

Beneath it, each at its lowest honest seam: a pty or a keyboard of our own for the scanner, a request of lines for the
shoe's sensors, gpiozero's mock pins, a model of the panel on its bus. Threads and the kernel work while the clock
stands still, so that the same acts always come at the same times. Nothing here knows a rule of the game.
"""

import asyncio
import errno
import gc
import json
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gpiozero.pins.mock import MockFactory, MockPin

from controller import daemon, frame, wiring
from controller import loop as heart
from controller.adapters import journal_sqlite
from controller.adapters.display_oled import DisplayOled
from controller.adapters.edges_gpio import INVERTED, EdgesGpio
from controller.adapters.scanner_hid import ScannerHid
from controller.adapters.scanner_serial import ScannerSerial
from controller.config.models import Display
from controller.core.events import ResolveAsked
from controller.core.facts import Phase
from controller.core.state import Condition, State, evolve
from controller.core.view import View, view
from controller.feed import read_row
from controller.link.movements import Line
from controller.panel import Words
from controller.ports import Outcome
from controller.sdnotify import Notifier
from tests.adapters.test_scanner_hid import Keyboard, Machine, typed
from tests.fake_panel import FakeBus, FakeI2c, FakePanel
from tests.gpio_request import Bank, Chips
from tests.passages import MS, Level, Pull, Scene, edges
from tests.serial_pty import End
from tests.virtual_time import VirtualLoop, run

INNER, OUTER, CUT, PRESENT, LID = Line
SENSORS = {INNER: 17, OUTER: 27, CUT: 22, PRESENT: 18, LID: 23}
LAMPS = {"lamp 1": 5, "lamp 2": 6, "lamp 3": 13, "lamp 4": 19, "red": 26, "call": 14, "buzzer": 12}
BUTTONS = {"start": 16, "confirm": 20, "call": 21, "key": 4}
NAMES = {pin: name for name, pin in LAMPS.items()}
TABLE, LANGUAGE, CHIP = "BAC-07", "es", "ssd1309"
BOTH = ("D1", "J1")  # a dealer and a pit boss

SHOE = {"driver": "gpio", **{line.value: pin for line, pin in SENSORS.items()}}
PINS: dict[str, Any] = {
    "gpio": {"pin_factory": "mock"},
    "lamps": {"driver": "gpio", "timer": [5, 6, 13, 19], "red": 26, "call": 14},
    "buzzer": {"driver": "gpio", "pin": 12},
    "buttons": {"driver": "gpio", **BUTTONS},
}
PANEL = {"display": {"driver": CHIP}}
PROFILE = (Path(__file__).parent.parent / "config/profiles/seeds-commission.yaml").read_text(encoding="utf-8")
FREE_RUNNING = {"open_betting": "none", "confirm_result": "none"}


# --- the ground ---------------------------------------------------------------------------------------------


class Pin(MockPin):  # type: ignore[misc] # gpiozero has no types
    """A mock pin that tells its factory of every write."""

    def _set_state(self, value: bool) -> None:
        self.factory.wrote(self._number, bool(value))
        super()._set_state(value)


class Pins(MockFactory):  # type: ignore[misc] # gpiozero has no types
    """`writes` are (ns, pin, level), by `now`."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(pin_class=Pin)
        self.now = now
        self.writes: list[tuple[int, int, bool]] = []

    def wrote(self, number: int, value: bool) -> None:
        self.writes.append((self.now(), number, value))

    def ticks_diff(self, later: float, earlier: float) -> float:
        """Edges come at once: none has an age."""
        return 0.0


class Ground(wiring.Ground):
    """What the table stands on instead of the machine."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.bank = Bank()
        self.chips = Chips(gpiochip0=self.bank)
        self.mock = Pins(loop.now)
        self.bus = FakeBus(FakePanel(CHIP))
        self.machine = Machine()
        self.kernel = self.machine.kernel()
        for line, offset in SENSORS.items():
            self.bank.volts[offset] = line in INVERTED
        self.bank.volts[SENSORS[PRESENT]] = False  # a card lies in the mouth

    def now(self) -> int:
        return self.loop.now()

    def pins(self, name: str) -> Pins:
        assert name == "mock"
        return self.mock

    def sensors(self, lines: Mapping[Line, int]) -> EdgesGpio:
        opens: Any = self.chips.open
        return EdgesGpio(lines=lines, open_chip=opens, paths=self.chips.paths, now=self.now)

    def panel(self, display: Display, pins: object) -> FakeI2c:
        return FakeI2c(self.bus)


class Serial(End):
    """A scanner on a pty behind a link, as by-id names are."""

    driver = "serial"

    def __init__(self, link: Path) -> None:
        super().__init__(link)
        self.plug()

    @property
    def link(self) -> Path:
        return self.name

    def send(self, text: str, now: int) -> None:
        assert self.write(text.encode()) == b""


class Hid:
    """A scanner that types, behind a link."""

    driver = "hid"

    def __init__(self, link: Path, machine: Machine) -> None:
        self.link, self._machine = link, machine
        self._keyboard: Keyboard | None = None
        self._made = 0
        self.plug()

    @property
    def plugged(self) -> bool:
        return self._keyboard is not None

    def plug(self) -> None:
        self._made += 1
        path = self.link.with_name(f"event{self._made}")
        self._keyboard = self._machine.plugged[str(path)] = Keyboard()
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(path)

    def unplug(self) -> None:
        self.link.unlink(missing_ok=True)
        if self._keyboard is not None:
            self._machine.plugged.clear()
            self._keyboard.unplug(errno.ENODEV)
            self._keyboard.near.close()  # who reads has a descriptor of its own
        self._keyboard = None

    def send(self, text: str, now: int) -> None:
        """A line end is Enter; a piece without one types on."""
        assert self._keyboard is not None
        code = text.rstrip("\r\n")
        data = typed(code, at=now) if code != text else typed(code, 0, at=now)
        assert self._keyboard.far.send(data) == len(data)


# --- the table ----------------------------------------------------------------------------------------------


class WholeTable:
    """A running table. `meant` is what its panel must show; `shown` and `lamps` what an eye sees."""

    def __init__(self, loop: VirtualLoop, ground: Ground, table: wiring.Table, scanner: Serial | Hid) -> None:
        self.loop, self.ground, self.table, self.scanner = loop, ground, table, scanner
        self.serving: asyncio.Task[None] | None = None
        self.ending = False
        self._words = Words(LANGUAGE)
        self._row, self._durable = 0, State()
        self._sought: list[Callable[[], object]] = []
        (self.reader,) = [s for s in table.sources if isinstance(s, ScannerSerial | ScannerHid)]
        self.display = next((p for p in table.panels if isinstance(p, DisplayOled)), None)

    # --- what it is doing -----------------------------------------------------------------------------------

    @property
    def heart(self) -> heart.Loop:
        assert self.table.loop is not None
        return self.table.loop

    @property
    def state(self) -> State:
        return self.heart.state

    @property
    def view(self) -> View:
        return self.heart.view

    @property
    def prompt(self) -> str:
        """The key of the instruction: `draw.P3`."""
        return self.view.prompt.headline.key.removesuffix(".headline")

    @property
    def strip(self) -> list[str]:
        return [text.key.removeprefix("strip.") for text in self.view.prompt.strip]

    def standing(self, code: str, part: str = "") -> Condition | None:
        return next((c for c in self.state.conditions if c.code == code and c.part == part), None)

    def at_work(self) -> bool:
        """Whether a thread or the kernel has something of the table's in hand: the clock stands still meanwhile."""
        loop, journal = self.table.loop, self.table.journal
        if self.ending or loop is None:
            return self.ending
        if self.serving is None or self.serving.done():
            return False
        unread = loop.state.link.up and journal.head > journal.cursor("file")
        return loop.busy or unread or not all(true() for true in self._sought)

    async def until(self, true: Callable[[], object]) -> None:
        """Waits for threads and the kernel; no time passes on the table's clock."""
        self._sought.append(true)
        try:
            await asyncio.sleep(1e-6)  # above the clock's resolution, by which timers fire early
        finally:
            self._sought.remove(true)
        if self.serving is not None and self.serving.done():
            self.serving.result()

    async def settled(self) -> None:
        """All that happened is durable, published and shown."""
        await self.until(lambda: True)
        display = self.display
        if display is not None and not self.ground.bus.broken:
            await self.until(lambda: display.diag()["shows"] and self.shown == self.meant)

    async def rest(self, ms: float = 100) -> None:
        await asyncio.sleep(ms / 1e3)

    # --- what an eye sees -----------------------------------------------------------------------------------

    @property
    def shown(self) -> bytes | None:
        return self.ground.bus.panel.frame()

    @property
    def meant(self) -> bytes:
        """The frame of the view of what the disk holds."""
        seen = view(self.durable())
        return frame.draw(self._words.panel(seen, TABLE), idle=seen.phase is Phase.CLOSED)

    def durable(self) -> State:
        """What a restart would find, read from the file beside the running table."""
        path = self.folder / journal_sqlite.DATABASE
        for row, body in journal_sqlite.bodies(path, after=self._row):
            self._row = row
            for fact in read_row(body).facts:
                self._durable = evolve(self._durable, fact)
        return self._durable

    @property
    def folder(self) -> Path:
        return self.scanner.link.parent

    @property
    def burning(self) -> set[str]:
        return {name for name, pin in LAMPS.items() if self.ground.mock.pin(pin).state}

    def changes(self, since: int, until: int) -> str:
        """What lamps and buzzer did from then to then: `12000 +red -lamp 4`, ms after the first."""
        level: dict[int, bool] = {}
        told: dict[int, list[str]] = {}
        for at, pin, on in self.ground.mock.writes:
            if level.get(pin, False) is not on and since <= at < until:
                told.setdefault(round((at - since) / MS), []).append(f"{'+' if on else '-'}{NAMES[pin]}")
            level[pin] = on
        return "; ".join(f"{at} {' '.join(changes)}" for at, changes in told.items())

    # --- what hands do --------------------------------------------------------------------------------------

    async def press(self, name: str, ms: float = 120) -> None:
        pin = self.ground.mock.pin(BUTTONS[name])
        pin.drive_low()
        await self.rest(ms)
        pin.drive_high()
        await self.rest(100)

    def put(self, line: Line, level: bool) -> None:
        self.ground.bank.drive(SENSORS[line], level is not (line in INVERTED), self.loop.now())

    async def play(self, levels: Iterable[Level]) -> None:
        """What passes the sensors from now on, and until it is told."""
        start = self.loop.now()
        for at, line, level in levels:
            await self.rest((start + at - self.loop.now()) / MS)
            self.put(line, level)
        await self.rest(20)

    async def pull(self, *, cut: bool = False) -> None:
        """A card, or the cut card, leaves the shoe."""
        scene, pull = Scene(), Pull(5 * MS, 60 * MS)
        if cut:
            scene.cut(pull, 6.0)
        else:
            scene.card(pull)
        await self.play(edges(scene.spans))

    async def scan(self, code: str) -> None:
        """The label comes in two pieces; what is unplugged meanwhile takes the rest with it."""
        for piece in (code[:1], f"{code[1:]}\r\n"):
            if not self.scanner.plugged or not self.reader.opened.is_set():
                return
            before = self.heard
            self.scanner.send(piece, self.loop.now())
            await self.until(lambda before=before: self.heard != before)  # type: ignore[misc] # its own, bound at once
            await self.rest(2)

    @property
    def heard(self) -> object:
        lines = self.reader.lines
        return lines.clean, lines.dirty, lines.dropped, lines.due

    async def resolve(self, code: str, choice: str) -> Outcome:
        return await self.heart.submit(ResolveAsked(self.loop.now(), code, choice, by=BOTH))

    async def close(self) -> None:
        """After its goodbye."""
        self.scanner.unplug()


Main = Callable[[WholeTable], Coroutine[Any, Any, None]]


@asynccontextmanager
async def whole_table(
    loop: VirtualLoop,
    folder: Path,
    devices: Mapping[str, Any],
    *,
    hid: bool = False,
    refresh_s: float = 3_600.0,
    sort: type[WholeTable] = WholeTable,
) -> AsyncIterator[WholeTable]:
    """The table of a configuration whose sections beside the plain ones are `devices`, until its goodbye.

    `refresh_s` is how often, in real time, the panel is written anew.
    """
    ground = Ground(loop)
    link = folder / "scanner"
    scanner = Hid(link, ground.machine) if hid else Serial(link)
    config = {
        "table": {"id": TABLE, "language": LANGUAGE},
        "profile": "seeds-commission",
        "casino": {"primary": "file", "file": {"path": str(folder / "feed.jsonl")}},
        "storage": {"path": str(folder), "allow_volatile": True},
        "control": {"socket": str(folder / "control.sock")},
        **devices,
        "scanner": {"driver": scanner.driver, "port": str(link), **devices.get("scanner", {})},
    }
    path = folder / "table.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    table, control = wiring.build(path, ground)
    whole = sort(loop, ground, table, scanner)
    if whole.display is not None:
        whole.display._refresh_s, whole.display._retry_s = refresh_s, (0.001, 0.004)
    loop.clock.held = whole.at_work
    whole.serving = asyncio.create_task(daemon.serve(table, control, Notifier("")))
    try:
        while not (table.loop and table.loop.state.link.up):
            await whole.rest(1)
        await whole.settled()
        yield whole
        await whole.settled()
    finally:
        gc.unfreeze()
        whole.ending = True
        if not whole.serving.done():
            signal.raise_signal(signal.SIGTERM)
        await whole.serving
        await whole.close()


def at_table(folder: Path, devices: Mapping[str, Any], main: Main, **how: Any) -> None:  # noqa: ANN401 - of whole_table
    """Plays `main` at a whole table in virtual time."""

    async def whole(loop: VirtualLoop) -> None:
        async with whole_table(loop, folder, devices, **how) as table:
            await main(table)

    run(whole)


def told(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The data of every message of that type in the feed's file, in order."""
    lines = (folder / "feed.jsonl").read_text(encoding="utf-8").splitlines()
    messages = [json.loads(line) for line in lines]
    return [message["data"] for message in messages if message["type"] == f"baccarat.{kind}.v1"]
