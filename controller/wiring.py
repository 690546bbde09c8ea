"""The parts list of a table: what stands in the configuration becomes objects, top to bottom, no cleverness.

The only importer of adapters. Constructors do no I/O: a table that is built can be read and printed before it runs.
"""

import asyncio
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from . import __version__, config, feed, keys
from . import loop as heart
from .adapters import journal_sqlite, memory, panel_terminal, publisher_mqtt
from .adapters.clock import SystemClock, kernel_is_synchronised
from .adapters.head_serial import HeadSerial
from .adapters.journal_sqlite import JournalSqlite
from .adapters.keyboard import Keyboard
from .adapters.publisher_file import PublisherFile
from .adapters.publisher_mqtt import PublisherMqtt
from .adapters.publisher_serial import PublisherSerial
from .adapters.scanner_hid import Kernel, ScannerHid
from .adapters.scanner_serial import ScannerSerial
from .config.models import Config, Display, Mqtt
from .control import again, audit, parts, recall
from .control.casino import CasinoDesk
from .control.parts import Part
from .control.server import ControlServer, Desk
from .core.codes import Codes
from .core.events import Configured, Event, FaultGone, JournalMade, KeyTurned, LidChanged, MouthChanged, Restarted
from .core.facts import Phase, TableClosed
from .core.profile import Procedure, Profile
from .core.records import RecordError
from .core.state import LEADS_TO, Condition, State
from .core.view import view
from .link.movements import Line
from .panel import LanguageError, Words
from .ports import Journal, JournalError, Outcome, Panel, Publisher, Source
from .reading import Reads

if TYPE_CHECKING:
    from .adapters.display_oled import Place
    from .adapters.edges_gpio import EdgesGpio

log = logging.getLogger(__name__)

MACHINE_ID = Path("/etc/machine-id")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
KEY_FILE = "table.key"
HAND = "scanner.hand"
PART_OF = {  # whose fault a code is, by the names of `diag`, or by the key of what is fitted
    "I40": "scanner",
    "hand_scanner": HAND,
    "I41": "shoe",
    "lamps": "lamps",
    "buzzer": "buzzer",
    "button": "buttons",
    "display": "display",
}


class WiringError(Exception):
    """A table that cannot be built from its configuration. The text says what to change."""


class Ground:
    """What a table stands on: this machine. A test lays ground of its own under the same wiring.

    `kernel` is asked for keyboards.
    """

    kernel = Kernel()

    def now(self) -> int:
        """CLOCK_MONOTONIC, ns."""
        return time.monotonic_ns()

    def pins(self, name: str) -> Any:  # noqa: ANN401 - gpiozero has no types
        """The pin factory of that name; PinsError."""
        from .adapters.pins_gpiod import factory  # late, as all below: slow to load, and not every table needs it

        return factory(name)

    def sensors(self, lines: Mapping[Line, int]) -> "EdgesGpio":
        from .adapters.edges_gpio import EdgesGpio

        return EdgesGpio(lines=lines, now=self.now)

    def panel(self, display: Display, pins: Any) -> "Place":  # noqa: ANN401 - gpiozero has no types
        """Where the panel is; on SPI it needs `pins`, a factory that no other thread uses."""
        from .adapters.display_oled import I2c, Spi

        if display.interface == "i2c":
            return I2c(display.bus, display.address)
        from .adapters.pins_gpiod import output

        assert display.dc is not None, "the configuration requires it for this interface"
        return Spi(display.device, display.dc, display.reset, partial(output, pins))


@dataclass(frozen=True, slots=True)
class Rules:
    """What the table plays by, and the hash of the files that say so."""

    procedure: Procedure
    profile: Profile
    hash: str


@dataclass(slots=True)
class Devices:
    """The devices of a table: each a source, those that show a panel too, and what `diag` has of them, by name.

    `in_clear`: whether no card can be in play, so that `diag` may tell what a scanner reads.
    """

    ground: Ground
    in_clear: Callable[[], bool]
    sources: list[Source] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)


@dataclass(slots=True)
class Table:
    """The parts of one table, in the order in which they come to life. `loop` is made by `recover`.

    `fitted`: which of the sensors and of the second scanner there are, by their keys in the configuration.
    """

    speaker: feed.Feed
    public_key: str
    rules: Rules
    journal: JournalSqlite
    clock: SystemClock | memory.FastClock
    sources: list[Source] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    publishers: list[Publisher] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    fitted: frozenset[str] = frozenset()
    loop: heart.Loop | None = None
    rebooted: bool = False  # the machine was started anew since the journal's last record

    def recover(self) -> heart.Loop:
        """Opens the journal and brings the table back to where it was; the first events of this run are in line."""
        self.journal.open()
        first = self.journal.read(0, 1)
        try:
            check_signer(first[0].data if first and first[0].seqno == 1 else None, self.public_key)
        except (JournalError, WiringError):
            self.journal.close()
            raise
        state = heart.recover(self.journal)
        last = last_wall_ns(self.journal.path)
        if last is not None:
            self.clock.not_before(last)
        self.loop = heart.Loop(
            journal=self.journal, speaker=self.speaker, clock=self.clock, panels=self.panels, state=state
        )
        self.watch(self._wake_state)
        return self.loop

    @property
    def beating(self) -> heart.Loop:
        """The loop, for those who can ask only once the table is recovered."""
        assert self.loop is not None, "the table is recovered"
        return self.loop

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        return self.beating.submit(event)

    def watch(self, hear: Callable[[heart.Durable], None]) -> None:
        """Every durable batch is told to `hear`."""
        self.beating.watchers.append(hear)

    def _wake_state(self, durable: heart.Durable) -> None:
        """Whatever became durable, the retained state topic may have changed with it."""
        for publisher in self.publishers:
            if isinstance(publisher, PublisherMqtt):
                publisher.wake_state()

    def begin(self) -> list["asyncio.Future[Any]"]:
        """Puts in line what every run begins with: the journal's own beginning, the start, the configuration."""
        submit, now, made, state = self.submit, self.clock.now, self.journal.made, self.beating.state
        begun: list[asyncio.Future[Any]] = []
        if made is not None:
            generation, seqno, digest = self.journal.previous or (None, None, None)
            begun.append(submit(JournalMade(now(), made, self.public_key, generation, seqno, digest)))
        boot = BOOT_ID.read_text(encoding="ascii").strip()
        self.rebooted = boot != state.boot
        begun.append(submit(Restarted(now(), boot, __version__, self.rules.hash)))
        begun += [submit(FaultGone(now(), c.code, c.part)) for c in self._orphans()]
        begun += [submit(event) for event in self._unfitted(now())]
        rules, changes = self.rules, changed(state, self.rules)
        begun.append(submit(Configured(now(), rules.hash, changes, rules.procedure, rules.profile)))
        return begun

    def _orphans(self) -> list[Condition]:
        """The faults of devices that were taken out of the configuration: nothing else could end them."""
        there = ("", HAND, *self.parts) if HAND in self.fitted else ("", *self.parts)
        return [c for c in self.beating.state.conditions if PART_OF.get(c.code, "") not in there]

    def _unfitted(self, at: int) -> Iterator[Event]:
        """What a key or a sensor said last that is not there any more: a mouth that it saw empty would stay so (I23).

        In shoe work a lid that closes loads the shoe, and nobody has closed one.
        """
        if "buttons" not in self.parts:
            yield KeyTurned(at, turned=False)
        if f"shoe.{Line.PRESENT}" not in self.fitted:
            yield MouthChanged(at, present=True)
        if f"shoe.{Line.LID}" not in self.fitted and self.beating.state.phase is not Phase.PREPARING:
            yield LidChanged(at, is_open=False)


def check_signer(first: bytes | None, public_key: str) -> None:
    """A generation has one signer, the one that its `first` message announces (None: it has no such message)."""
    if first is None:
        return
    try:
        announced = json.loads(first)["data"]["publickey"]
    except (ValueError, LookupError, TypeError) as error:
        raise JournalError("message 1 of the journal is damaged: run `tablectl journal verify`") from error
    if announced != public_key:
        raise WiringError(
            f"table.key is not the key of this journal, which is {announced}: put that key back, or move the journal's "
            "folder away with its key and let the table begin a new one"
        )


def changed(state: State, rules: Rules) -> tuple[str, ...]:
    """The names of what differs from the configuration that the journal last had in force."""
    before, after = state.procedure, rules.procedure
    names = [f"procedure.{name}" for name in before.__slots__ if getattr(before, name) != getattr(after, name)]
    if state.profile is None or state.profile.hash != rules.profile.hash:
        names.append(f"profile.{rules.profile.name}")
    return tuple(names)


def build(path: Path, ground: Ground | None = None) -> tuple[Table, ControlServer]:
    """The table of a configuration file, on this machine where no `ground` is given.

    ConfigError, KeyFileError or WiringError say what to do.
    """
    cfg, ground = _buildable(path), ground or Ground()
    search = profiles_beside(path)
    profile = config.load_profile(cfg.profile, search)
    rules = Rules(config.procedure_of(cfg), profile, config.confighash(path, config.profile_path(cfg.profile, search)))
    folder = Path(cfg.storage.path)
    key, clock = table_key(folder / KEY_FILE), SystemClock(now=ground.now)
    table = Table(
        speaker=feed.Feed(cfg.table.id, f"/tables/{cfg.table.id}", "live", key.keyid, key.sign),
        public_key=key.public,
        rules=rules,
        journal=JournalSqlite(folder, allow_volatile=cfg.storage.allow_volatile),
        clock=clock,
    )
    table.parts = {"clock": Part("system", clock.diag), "storage": Part("sqlite", table.journal.diag)}
    made = devices(cfg, ground, lambda: table.loop is not None and table.loop.state.phase is Phase.CLOSED)
    table.sources, table.panels = [clock, *made.sources], made.panels
    table.parts |= made.parts
    table.fitted = _fitted(cfg)
    table.publishers = _publishers(cfg, table)
    return table, control_of(table, cfg)


def _buildable(path: Path) -> Config:
    cfg = config.load(path)
    if absent := config.check_packages(path, cfg):
        raise config.ConfigError(absent)
    return cfg


def profiles_beside(path: Path) -> Path:
    """Where the profiles of a configuration file lie: the folder `profiles` beside it, else those that came with us."""
    beside = path.resolve().parent / "profiles"
    return beside if beside.is_dir() else shipped_profiles()


def shipped_profiles() -> Path:
    """The profiles that came with the program: inside the installed package, or in the checkout around it."""
    package = Path(__file__).resolve().parent
    inside = package / "profiles"
    return inside if inside.is_dir() else package.parent / "config" / "profiles"


def table_key(path: Path) -> keys.TableKey:
    """The table's key; a table without one makes it, and says so: unsigned feeds are not a mode."""
    if path.exists():
        return keys.load(path)
    key = keys.make(path)
    log.warning("%s: made a new table key, %s. Give its public key to the casino: %s", path, key.keyid, key.public)
    return key


# --- device by device ---------------------------------------------------------------------------------------


def devices(
    cfg: Config, ground: Ground, in_clear: Callable[[], bool], only: frozenset[str] = frozenset(parts.PARTS)
) -> Devices:
    """The devices that the configuration names, of the parts in `only`. WiringError where one cannot be."""
    made = Devices(ground, in_clear)
    _wire_scanner(cfg, made, only)
    _wire_shoe(cfg, made, only)
    _wire_pins(cfg, made, only)
    _wire_display(cfg, made, only)
    return made


def _wire_scanner(cfg: Config, made: Devices, only: frozenset[str]) -> None:
    keys_ = cfg.scanner
    if keys_.driver == "none" or "scanner" not in only:
        return
    assert keys_.port is not None, "the configuration requires a port for this driver"
    scanner = _scanner(cfg, made, keys_.driver, keys_.port, keys_.baud)
    made.sources.append(scanner)
    made.parts["scanner"] = Part(keys_.driver, scanner.diag)
    if keys_.hand is not None:
        driver = keys_.hand.driver
        hand = _scanner(cfg, made, driver, keys_.hand.port, keys_.hand.baud, hand=True)
        made.sources.append(hand)
        both = lambda: {**scanner.diag(), "hand": {"driver": driver, **hand.diag()}}  # noqa: E731 - one part, two devices
        made.parts["scanner"] = Part(keys_.driver, both)


def _scanner(
    cfg: Config, made: Devices, driver: str, port: str, baud: int, *, hand: bool = False
) -> ScannerHid | ScannerSerial:
    reads = Reads(
        codes=codes_of(cfg),
        repeat_ms=cfg.scanner.repeat_ms,
        in_clear=made.in_clear,
        now=made.ground.now,
        hand=hand,
    )
    if driver == "hid":
        return ScannerHid(port=port, kernel=made.ground.kernel, **reads)
    return ScannerSerial(port=port, baud=baud, **reads)


def _wire_shoe(cfg: Config, made: Devices, only: frozenset[str]) -> None:
    """The shoe's sensors: the sensor head, or lines of the kernel's chip; of these only those named are fitted."""
    if cfg.shoe.driver == "none" or "shoe" not in only:
        return
    if cfg.shoe.driver == "head":
        assert cfg.shoe.port is not None, "the configuration requires a port for this driver"
        head = HeadSerial(port=cfg.shoe.port, baud=cfg.shoe.baud, now=made.ground.now)
        made.sources.append(head)
        made.parts["shoe"] = Part("head", head.diag, {name: partial(head.act, name) for name in parts.PART_ACTS})
        return
    fitted = {line: pin for line in Line if (pin := getattr(cfg.shoe, line.value)) is not None}
    sensors = made.ground.sensors(fitted)
    made.sources.append(sensors)
    made.parts["shoe"] = Part("gpio", sensors.diag)


def _fitted(cfg: Config) -> frozenset[str]:
    """The keys of the sensors that are there, the head having all, and of the scanner for the hand."""
    lines = [line for line in Line if cfg.shoe.driver == "head" or getattr(cfg.shoe, line.value) is not None]
    sensors = [] if cfg.shoe.driver == "none" else [f"shoe.{line}" for line in lines]
    return frozenset([*sensors, *([HAND] if cfg.scanner.hand else [])])


def _wire_pins(cfg: Config, made: Devices, only: frozenset[str]) -> None:
    """Lamps, buzzer and buttons: one factory, chosen by name, for all of them."""
    lamps, buzzer, buttons = cfg.lamps, cfg.buzzer, cfg.buttons
    drivers = {"lamps": lamps.driver, "buzzer": buzzer.driver, "buttons": buttons.driver}
    wired = {part for part, driver in drivers.items() if driver == "gpio" and part in only}
    if not wired:
        return
    from .adapters.buttons_gpio import ButtonsGpio  # late: slow to load, and not every table has pins
    from .adapters.lamps_gpio import LampsGpio

    pins = _pins(cfg, made)
    if wired & {"lamps", "buzzer"}:
        lit = "lamps" in wired
        shown = LampsGpio(
            pins,
            timer=lamps.timer if lit else (),
            amber=lamps.amber if lit else None,
            red=lamps.red if lit else None,
            call=lamps.call if lit else None,
            buzzer=buzzer.pin if "buzzer" in wired else None,
            now=made.ground.now,
        )
        made.panels.append(shown)
        made.sources.append(shown)
        for part in sorted(wired & {"lamps", "buzzer"}):
            made.parts[part] = Part("gpio", partial(shown.diag, part), {"test": partial(shown.test, part)})
    if "buttons" in wired:
        pressed = ButtonsGpio(
            pins, start=buttons.start, confirm=buttons.confirm, call=buttons.call, key=buttons.key, now=made.ground.now
        )
        made.sources.append(pressed)
        made.parts["buttons"] = Part("gpio", pressed.diag)


def _pins(cfg: Config, made: Devices) -> Any:  # noqa: ANN401 - gpiozero has no types
    from .adapters.pins_gpiod import PinsError  # late, as above

    try:
        return made.ground.pins(cfg.gpio.pin_factory)
    except PinsError as error:
        raise WiringError(f"gpio.pin_factory: {error}") from error


def _wire_display(cfg: Config, made: Devices, only: frozenset[str]) -> None:
    display = cfg.display
    if display.driver == "none" or "display" not in only:
        return
    from .adapters.display_oled import DisplayOled, Oled  # late: slow to load

    place = made.ground.panel(display, _pins(cfg, made) if display.interface == "spi" else None)
    oled = Oled(display.driver, place, column=display.column_offset, upside_down=display.rotate == 2)
    panel = DisplayOled(oled, words_of(cfg), cfg.table.id, now=made.ground.now)
    made.panels.append(panel)
    made.sources.append(panel)
    made.parts["display"] = Part(display.driver, panel.diag, {"test": panel.test})


def codes_of(cfg: Config) -> Codes:
    scanner = cfg.scanner
    table = scanner.codes if isinstance(scanner.codes, str) else scanner.codes.table
    return Codes.of(table, cut=scanner.cut_code, noread=scanner.noread_code)


def _publishers(cfg: Config, table: Table) -> list[Publisher]:
    casino = cfg.casino
    desk = casino_desk(table, words_of(cfg), {key.keyid: key.publickey for key in casino.command_keys})
    publishers: list[PublisherMqtt | PublisherSerial | PublisherFile] = []

    def synchronised() -> bool:
        return table.clock.wall(table.clock.now())[1]

    if casino.mqtt is not None:
        mqtt = PublisherMqtt(
            broker_of(cfg.table.id, casino.mqtt),
            primary=casino.primary == "mqtt",
            receipt=casino.receipt,
            state=lambda: state_bytes(table),
            status=lambda: status_of(table),
            ask=desk.ask,
            server_status=casino.mqtt.server_status,
            synchronised=synchronised,
            time_lost=lambda: table.rebooted and not synchronised(),
        )
        publishers.append(mqtt)
    if casino.serial is not None:
        serial = PublisherSerial(
            port=casino.serial.port,
            baud=casino.serial.baud,
            table=cfg.table.id,
            primary=casino.primary == "serial",
            receipt=casino.receipt,
            ask=desk.ask,
        )
        publishers.append(serial)
    if casino.file is not None:
        publishers.append(PublisherFile(casino.file.path, primary=casino.primary == "file", now=table.clock.now))

    def told() -> dict[str, Any]:
        link, journal = table.beating.state.link, table.journal
        ways = [
            {"name": one.name, "receipt": journal.cursor(one.name), "head": journal.head, **one.diag()}
            for one in publishers
        ]
        refused = [{"time": feed.utc(at), "why": why} for at, why in desk.refused]
        fault = {} if link.up else {"fault": link.reason}
        return {"link": "up" if link.up else "down", **fault, "publishers": ways, "refused": refused}

    table.parts["casino"] = Part(casino.primary, told)
    return list(publishers)


def casino_desk(table: Table, words: Words, command_keys: dict[str, str]) -> CasinoDesk:
    """Where the casino server's commands are answered, whatever carries them. `command_keys`: public key by keyid."""
    return CasinoDesk(
        table=table.speaker.table,
        version=__version__,
        public_key=table.public_key,
        keys=command_keys,
        verify=keys.verify,
        words=words,
        outbox=table.journal,
        submit=table.submit,
        seen=table.journal.seen,
        now=table.clock.now,
        wall=lambda: table.clock.wall(table.clock.now())[0],
    )


def broker_of(table: str, mqtt: Mqtt) -> publisher_mqtt.Broker:
    tls = None if mqtt.tls is None else publisher_mqtt.Tls(mqtt.tls.ca, mqtt.tls.cert, mqtt.tls.key)
    password = None if mqtt.password_file is None else read_secret(Path(mqtt.password_file))
    machine = MACHINE_ID.read_text(encoding="ascii").strip() if MACHINE_ID.exists() else ""
    return publisher_mqtt.Broker(
        host=mqtt.host,
        port=mqtt.port,
        table=table,
        machine=machine,
        prefix=mqtt.prefix,
        tls=tls,
        username=mqtt.username,
        password=password,
    )


def read_secret(path: Path) -> str:
    """The password in a file that nobody else may read."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").strip("\r\n")
    except OSError as error:
        raise WiringError(f"{path}: the password cannot be read: {error.strerror}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise WiringError(f"{path}: others may read this password; run: chmod 600 {path}")
    return text


def state_bytes(table: Table) -> bytes:
    now = table.clock.now()
    offset = table.clock.wall(now)[0] - now
    return feed.state_message(table.beating.state, table.speaker, table.journal.generation, offset_ns=offset)


def status_of(table: Table) -> dict[str, Any]:
    faults = sorted({c.code for c in table.beating.state.conditions if c.part})
    return {"version": __version__, "public_key": table.public_key, "faults": faults}


def backlog(journal: Journal, publishers: list[Publisher]) -> dict[str, int]:
    """Messages not yet receipted, by publisher."""
    return {publisher.name: journal.head - journal.cursor(publisher.name) for publisher in publishers}


# --- the demo: a table with simulated ends ------------------------------------------------------------------

DEMO_TABLE, DEMO_PREFIX = "DEMO", "baccarat-demo"
DEMO_STAFF = (memory.DEALER, memory.PIT)
DEMO_FEED = "feed.jsonl"
STDIN, STDOUT = 0, 1
MISREAD, DOUBLE, SLIPS = 0.02, 0.01, 0.08  # chances: one or two small mishaps in a dozen rounds


@dataclass(slots=True)
class Demo:
    """A table on this machine, and who is at it: the dealer, or the keyboard, and the pit boss."""

    table: Table
    clock: memory.FastClock
    screen: panel_terminal.TerminalPanel
    feed: Path
    people: list[Source] = field(default_factory=list)
    keyboard: Keyboard | None = None


def build_demo(
    folder: Path,
    *,
    mode: feed.Mode,
    language: str,
    speed: float,
    seed: int,
    profile: str,
    broker: str | None,
    keyboard: bool,
    title: str,
    keys_say: str,
    stop: Callable[[], None],
) -> Demo:
    """A table that can never speak as a live one: source, topics, mode and key are its own.

    `folder` takes journal and feed. `keyboard`: it is the dealer, and may call `stop`. `title` and `keys_say` stand
    over and under the picture. ConfigError, LanguageError or WiringError say what to do.
    """
    search = shipped_profiles()
    rules = Rules(
        Procedure(receipts=False, sensors=True),
        config.load_profile(profile, search),
        config.confighash(config.profile_path(profile, search)),
    )
    words, key, clock = Words(language), keys.ephemeral(), memory.FastClock(speed)
    table = Table(
        speaker=feed.Feed(DEMO_TABLE, f"/tables/{DEMO_TABLE}", mode, key.keyid, key.sign),
        public_key=key.public,
        rules=rules,
        journal=JournalSqlite(folder, allow_volatile=True, reserve_bytes=0),
        clock=clock,
    )
    path = folder / DEMO_FEED
    table.publishers = [PublisherFile(path, primary=True)]
    if broker is not None:
        table.publishers.append(_demo_publisher(broker, table, words))
    screen = panel_terminal.TerminalPanel(
        STDOUT,
        panel_terminal.Caption(DEMO_TABLE, title, str(path), keys_say),
        words,
        draws=panel_terminal.may_draw(STDOUT, os.environ),
        pixels=panel_terminal.has_pixels(os.environ),
        now=clock.now,
        speed=speed,
        sent=lambda: table.journal.cursor(PublisherFile.name),
    )
    demo = Demo(table, clock, screen, path)
    _seat(demo, seed, stop if keyboard else None)
    return demo


def _seat(demo: Demo, seed: int, stop: Callable[[], None] | None) -> None:
    """Puts shoe, hands and people at the table; with `stop` the keyboard is the dealer."""
    table, clock, screen = demo.table, demo.clock, demo.screen
    shoe = memory.SimulatedShoe(table.rules.profile, clock.now, seed=seed, misread=MISREAD, double=DOUBLE)
    hands = memory.Hands(shoe, clock.now, pressed=screen.press, refused=screen.refused)
    table.sources = [clock, shoe, hands]
    table.panels = [screen, hands]
    pit_moves = memory.PitMoves(hands, decided=screen.decided)
    pit = memory.Person(clock, seed=seed, sees=pit_moves.sees, moves=pit_moves)
    table.panels.append(pit)
    demo.people.append(pit)
    if stop is not None:
        demo.keyboard = _demo_keyboard(hands, stop)
        demo.people.append(demo.keyboard)
        return
    moves = memory.DealerMoves(hands, seed=seed, slips=SLIPS)
    dealer = memory.Person(clock, seed=seed, sees=memory.prompt_of, moves=moves)
    table.panels.append(dealer)
    demo.people.append(dealer)


def _demo_keyboard(hands: memory.Hands, stop: Callable[[], None]) -> Keyboard:
    if not os.isatty(STDIN):
        raise WiringError("--keys needs a keyboard: start it in a terminal, with nothing piped into it")

    async def leave() -> None:
        stop()

    acts = {" ": hands.draw, "\n": hands.confirm, "s": hands.start, "c": hands.call, "h": hands.hold, "q": leave}
    return Keyboard(STDIN, acts, ended=stop)


def _demo_publisher(broker: str, table: Table, words: Words) -> PublisherMqtt:
    """HOST or HOST:PORT (1883). A random machine: two demos on one broker are not one table twice."""
    try:
        where = urlsplit(f"//{broker}")
        host, port = where.hostname, where.port or 1883
    except ValueError:
        host, port = None, 0
    if host is None or where.netloc != broker or where.username is not None:
        raise WiringError(f"--broker {broker!r} is no address: write HOST or HOST:PORT, as in localhost:1883")
    return PublisherMqtt(
        publisher_mqtt.Broker(host, port, DEMO_TABLE, secrets.token_hex(4), DEMO_PREFIX),
        primary=False,
        receipt="broker",
        state=lambda: state_bytes(table),
        status=lambda: status_of(table),
        ask=casino_desk(table, words, {}).ask,
    )


# --- the control socket, and the journal read beside the daemon or without it -------------------------------


def control_of(table: Table, cfg: Config) -> ControlServer:
    """The socket of a table that is built; WiringError where its language has no words."""
    desk = Desk(
        table=cfg.table.id,
        mode=table.speaker.mode,
        version=__version__,
        public_key=table.public_key,
        words=words_of(cfg),
        outbox=table.journal,
        submit=table.submit,
        now=table.clock.now,
        state=lambda: table.beating.state,
        view=lambda: table.beating.view,
        backlog=lambda: backlog(table.journal, table.publishers),
        watch=table.watch,
        recall=lambda count: journal_rounds(journal_file(cfg), count),
        verify=lambda: verify_journal(journal_file(cfg)),
        diag=lambda part, act: parts.diag(table.parts, part, act=act, state=table.beating.state),
        resend=lambda first, publisher: again.resend(
            table.journal, _resends(table), cfg.casino.primary, table.beating.state, first=first, publisher=publisher
        ),
    )
    return ControlServer(Path(cfg.control.socket), desk)


def _resends(table: Table) -> dict[str, again.Resend | None]:
    """How each publisher sends again: a file does not."""
    able = PublisherMqtt | PublisherSerial
    return {one.name: one.resend if isinstance(one, able) else None for one in table.publishers}


def words_of(cfg: Config) -> Words:
    """The words of the table's language; WiringError where there are none."""
    try:
        return Words(cfg.table.language)
    except LanguageError as error:
        raise WiringError(str(error)) from error


class Bench(NamedTuple):
    """One part of a table that does not run, its folder held; `words` answer who asks for what cannot be."""

    devices: Devices
    words: Words


@contextmanager
def held(path: Path) -> Iterator[Config]:
    """The configuration file `path`, with the journal's folder taken: no daemon may start meanwhile.

    ConfigError, JournalError (who has the folder), WiringError.
    """
    cfg = _buildable(path)
    folder = Path(cfg.storage.path)
    try:
        claimed = journal_sqlite.claim(folder)
    except OSError as error:
        user = "run it as the user of the table, as in sudo -u baccarat-table tablectl diag"
        raise WiringError(f"{folder}: it cannot be taken: {error.strerror}: {user}") from error
    try:
        yield cfg
    finally:
        os.close(claimed)


@contextmanager
def bench(path: Path, part: str) -> Iterator[Bench]:
    """That part alone of a table that is `held`."""
    with held(path) as cfg:
        clear = is_closed(journal_file(cfg))
        made = devices(cfg, Ground(), lambda: clear, frozenset({part}))
        for panel in made.panels:
            panel.show(view(State()))
        yield Bench(made, words_of(cfg))


def is_closed(path: Path) -> bool:
    """Whether the journal left its table closed, without a shoe; a journal that cannot be read is no proof of that."""
    if not path.exists():
        return True
    try:
        for _, body in journal_sqlite.bodies(path, newest_first=True):
            for fact in reversed(feed.read_row(body).facts):
                if type(fact) in LEADS_TO:
                    return isinstance(fact, TableClosed)
    except (JournalError, RecordError) as error:
        log.warning("%s: %s", path, error)
        return False
    return True


def journal_file(cfg: Config) -> Path:
    return Path(cfg.storage.path) / journal_sqlite.DATABASE


def last_wall_ns(path: Path) -> int | None:
    """When the journal's last row was written, UTC ns; None before the first. JournalError, RecordError."""
    for _, body in journal_sqlite.bodies(path, newest_first=True):
        return feed.read_row(body).wall_ns
    return None


journal_messages = journal_sqlite.messages


def journal_rounds(path: Path, count: int) -> list[dict[str, Any]]:
    """The last rounds that ended, oldest first (`recall.rounds`). JournalError, RecordError."""
    bodies = journal_sqlite.bodies(path, newest_first=True)
    return recall.rounds((body for _, body in bodies), count)


def verify_journal(path: Path, public_key: str | None = None) -> audit.Verdict:
    """Database, both chains, every signature (by `public_key`, or the one that the journal announces). JournalError."""
    progress = None
    for progress in journal_sqlite.verify(path, audit.Signatures(keys.verify, public_key)):
        log.debug("%s: %d of %d rows are good", path, progress.rows, progress.of)
    assert progress is not None, "it yields at least once"
    return audit.Verdict(progress.rows, progress.messages, progress.fault)


# --- what the doctor looks at: no device is opened, no file changed -----------------------------------------

LOW_BYTES = journal_sqlite.LOW_BYTES
clock_is_synchronised = kernel_is_synchronised
free_bytes = journal_sqlite.free_bytes
glance = journal_sqlite.glance
storage_fault = journal_sqlite.storage_fault


async def try_broker(cfg: Config, synchronised: Callable[[], bool]) -> publisher_mqtt.Trial:
    """What the broker of the configuration does with this table; WiringError where no password can be had."""
    mqtt = cfg.casino.mqtt
    assert mqtt is not None, "the caller has looked"
    return await publisher_mqtt.trial(
        broker_of(cfg.table.id, mqtt),
        receipt=cfg.casino.receipt,
        server_status=mqtt.server_status,
        synchronised=synchronised,
    )
