"""`tablectl doctor`: what can be looked at without disturbing a table, a row each, and what to do (DESIGN 7).

Reads, asks and knocks; changes nothing. What only a running table knows comes from its control socket.
"""

import asyncio
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from . import config, keys, machine, wiring
from .config import Config, ConfigError
from .config.models import Control
from .control.client import RpcError, UnreachableError, connect
from .control.parts import PARTS
from .core.records import RecordError
from .link.hosts import Row, Status
from .ports import JournalError

RENEW = timedelta(days=30)  # a certificate that ends sooner is told of: casinos issue none in a day
ROOM = 1 << 30  # bytes: a month of rows
BEHIND = 16  # messages without a receipt that a table in play may have: the window of a publisher
AS_OWNER = "run it as the user of the table, as in sudo -u baccarat-table tablectl doctor"
DAMAGED = "run tablectl journal verify, and see A damaged journal in the technician's guide"
NODES = {"gpio": "/dev/gpiochip*", "i2c": "/dev/i2c-{bus}", "spi": "/dev/spidev0.{device}"}


class Told(NamedTuple):
    """What a running table says: its `status`, and `diag` of each part that it has."""

    status: dict[str, Any]
    parts: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Host:
    """This machine. `ask` runs its programs, `now` is UTC; `synchronised` raises OSError where it may not be asked."""

    ask: machine.Ask = machine.ask
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    synchronised: Callable[[], bool] = wiring.clock_is_synchronised
    dev: Path = Path("/dev")


def look(path: Path, socket: str | None, host: Host) -> Iterator[Row]:
    """Every row of the table of the configuration file `path`; `socket` stands for the one that the file names.

    A file that is no configuration leaves what is asked of the running table.
    """
    cfg, found = _config(path)
    yield from found
    told, row = _table(socket or (Control() if cfg is None else cfg.control).socket)
    yield row
    if told is not None:
        yield from _of_table(told)
    if cfg is None:
        return
    folder = Path(cfg.storage.path)
    closed = folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK)
    if closed:
        yield _warn("storage.folder", f"{folder} may not be looked into by this user", AS_OWNER)
    else:
        yield from _storage(cfg)
        yield from _key(cfg)
    yield _synchronised(host)
    yield from () if closed else _not_before(cfg, host)
    yield from _devices(cfg, host, seen=told is not None)
    yield from _casino(cfg, host)


def _row(check: str, status: Status, sentence: str, cure: str = "") -> Row:
    """A sentence of this program says what is wrong, a colon or semicolon, and what to do."""
    parts = None if cure else re.fullmatch(r"(.*)[:;] (.*)", sentence, re.DOTALL)
    return Row(check, status, *(parts.groups() if parts else (sentence, cure)))


def _ok(check: str, text: str) -> Row:
    return Row(check, Status.OK, text)


def _fail(check: str, sentence: str, cure: str = "") -> Row:
    return _row(check, Status.FAIL, sentence, cure)


def _warn(check: str, sentence: str, cure: str = "") -> Row:
    return _row(check, Status.WARN, sentence, cure)


# --- the configuration ----------------------------------------------------------------------------------------


def _config(path: Path) -> tuple[Config | None, list[Row]]:
    try:
        cfg = config.load(path)
        absent = config.check_packages(path, cfg)
        problems = [one for one in config.check(path, wiring.profiles_beside(path)) if one not in absent]
    except ConfigError as error:
        return None, [*map(_problem, error.errors)]
    rows = [*map(_problem, problems)]
    rows += [Row("config", Status.WARN, *_halves(one.text)) for one in config.warnings(path, lambda _: iter(()))]
    if not rows:
        rows = [_ok("config", f"{path} is good")]
    packages = [Row("packages", Status.FAIL, *_halves(one.text)) for one in absent]
    return cfg, [*rows, *(packages or [_ok("packages", "every package that the devices need is installed")])]


def _halves(text: str) -> tuple[str, str]:
    """The configuration's sentences have one colon before what to do, and others in it."""
    what, _, cure = text.partition(": ")
    return what, cure


def _problem(one: config.Problem) -> Row:
    place = f"{one.file}:{one.line}:{one.column}" if one.line else one.file
    return _fail("config", one.text, f"correct {place}, then start the table anew")


# --- the running table ----------------------------------------------------------------------------------------


def _table(socket: str) -> tuple[Told | None, Row]:
    try:
        with connect(socket) as table:
            status = table.call("status")
            parts = {part: found for part in PARTS if (found := _part(table.call, part)) is not None}
    except UnreachableError as error:
        return None, _warn("table", str(error))
    except RpcError as error:
        return None, _fail("table", str(error), "see its log: journalctl -u baccarat-table")
    text = f"table {status['table']} runs, version {status['version']}, {status['phase']}"
    return Told(status, parts), _ok("table", text)


def _part(call: Callable[..., Any], part: str) -> dict[str, Any] | None:
    """None where the table has no such part: it refuses."""
    try:
        told: dict[str, Any] = call("diag", part=part)
    except RpcError:
        return None
    return told


def _of_table(told: Told) -> Iterator[Row]:
    link = told.status["link"]
    reason = link["reason"] or "not connected yet: ask again in a moment"
    yield _ok("link", "the way to the casino is up") if link["up"] else _fail("link", reason)
    for publisher, count in told.status["backlog"].items():
        text = f"{count} messages without a receipt"
        cure = "see the rows casino; a backlog goes down by itself when the way is open"
        yield _ok(f"backlog.{publisher}", text) if count <= BEHIND else _warn(f"backlog.{publisher}", text, cure)
    for condition in told.status["conditions"]:
        yield from _standing(condition)
    for part, seen in told.parts.items():
        fault = seen.get("fault") or next((pin["trouble"] for pin in seen.get("pins", ()) if pin.get("trouble")), "")
        yield _fail(part, fault) if fault else _ok(part, f"{seen['driver']}, works")


def _standing(condition: dict[str, Any]) -> Iterator[Row]:
    """A fault has its own sentence; what people must settle has its choices. `offline` is the row `link`."""
    code, text = condition["code"], condition["detail"].get("text", "")
    if code == "offline":
        return
    if text:
        yield _fail(f"standing.{code}", text)
    else:
        exits = ", ".join(f"{choice} ({who})" for choice, who in condition["exits"].items())
        cure = f"the table's people choose: {exits}" if exits else "it ends by itself"
        yield _warn(f"standing.{code}", f"{code} stands and stops {condition['stops']}", cure)


# --- the disk, the key, the clock -------------------------------------------------------------------------------


def _storage(cfg: Config) -> Iterator[Row]:
    folder = Path(cfg.storage.path)
    try:
        found = folder.stat()
    except OSError as error:
        text = f"storage.path {folder}: {error.strerror}"
        yield _fail("storage.folder", text, "make it, and give it to the user that runs the table")
        return
    yield _folder(folder, found)
    fault = wiring.storage_fault(folder)
    if fault is None:
        yield _ok("storage.disk", f"{folder} is on a disk that survives a power cut")
    else:
        yield _row("storage.disk", Status.WARN if cfg.storage.allow_volatile else Status.FAIL, fault)
    free = wiring.free_bytes(folder)
    text = f"{free >> 20} MiB are free under {folder}"
    least = wiring.LOW_BYTES
    status = Status.FAIL if free < least else Status.WARN if free < ROOM else Status.OK
    yield Row("storage.space", status, text, f"free space there, {ROOM >> 20} MiB at least" * (status is not Status.OK))
    yield _journal(cfg)


def _folder(folder: Path, found: os.stat_result) -> Row:
    check = "storage.folder"
    if not stat.S_ISDIR(found.st_mode):
        return _fail(check, f"{folder} is no folder", "move it away and make the folder")
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return _fail(check, f"{folder} is mounted read-only", "mount it rw; a failing card is mounted so: see dmesg")
    if found.st_mode & 0o300 != 0o300:
        return _fail(check, f"{folder}: its owner may not write in it", f"run: sudo chmod u+rwx {folder}")
    if found.st_mode & 0o022:
        return _warn(check, f"{folder}: others than its owner may write in it", f"run: sudo chmod go-w {folder}")
    return _ok(check, f"{folder} belongs to {machine.user_name(found.st_uid)}, who may write in it")


def _journal(cfg: Config) -> Row:
    check, path = "storage.journal", wiring.journal_file(cfg)
    if not path.exists():
        return _ok(check, "there is no journal yet; the first start makes one")
    if not os.access(path, os.R_OK):
        return _warn(check, f"{path} may not be read by this user", AS_OWNER)
    try:
        found = wiring.glance(path)
    except JournalError as error:
        return _fail(check, str(error), DAMAGED)
    if found.fault is not None:
        return _fail(check, f"{path}: {found.fault}", DAMAGED)
    return _ok(check, f"generation {found.generation}, {found.rows} rows, {found.head} messages")


def _key(cfg: Config) -> Iterator[Row]:
    check, path = "key", Path(cfg.storage.path) / wiring.KEY_FILE
    try:
        if not path.exists():
            yield _warn(check, f"{path}: there is no key yet", "the first start of the table makes it")
            return
        alone = _owned("key.file", path, cfg)
        yield alone
        if alone.status is Status.FAIL:
            return
        if not os.access(path, os.R_OK):
            yield _warn(check, f"{path} may not be read by this user", AS_OWNER)
            return
        key, journal = keys.load(path), wiring.journal_file(cfg)
        if journal.exists() and os.access(journal, os.R_OK):
            wiring.check_signer(wiring.glance(journal).first, key.public)
        yield _ok(check, f"keyid {key.keyid}")
    except (OSError, keys.KeyFileError, wiring.WiringError, JournalError) as error:
        yield _fail(check, str(error))


def _owned(check: str, path: Path, cfg: Config) -> Row:
    """Whether a secret belongs to the user that has the journal's folder, and to nobody else."""
    found, folder = path.stat(), Path(cfg.storage.path)
    owner = folder.stat().st_uid if folder.is_dir() else found.st_uid
    if found.st_uid != owner:
        user = machine.user_name(owner)
        text = f"{path} belongs to {machine.user_name(found.st_uid)}, and the table runs as {user}"
        return _fail(check, text, f"run: sudo chown {user} {path}")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        text = f"{path}: others than its owner may use it (mode {stat.S_IMODE(found.st_mode):04o})"
        return _fail(check, text, f"run: sudo chmod 600 {path}; if anyone may have read it, replace it")
    return _ok(check, f"{path} is the table's alone")


def _synchronised(host: Host) -> Row:
    check = "clock.synchronised"
    try:
        if host.synchronised():
            return _ok(check, "the network sets the clock")
    except OSError as error:
        return _warn(check, str(error))
    cure = "start chrony or systemd-timesyncd, and let it reach a time server: timedatectl shows it"
    return _warn(check, "nobody sets the clock, and messages say synchronised false", cure)


def _not_before(cfg: Config, host: Host) -> Iterator[Row]:
    """A clock that the network sets is right, whatever an earlier run took for the time."""
    now, check, path = host.now(), "clock.journal", wiring.journal_file(cfg)
    if not os.access(path, os.R_OK):
        return
    try:
        written = datetime.fromtimestamp((wiring.last_wall_ns(path) or 0) / 1e9, UTC)
    except (JournalError, RecordError) as error:
        yield _warn(check, f"the time of the journal's last record cannot be told: {error}", DAMAGED)
        return
    if written <= now:
        yield _ok(check, f"{now:%Y-%m-%d %H:%M:%S} UTC, not before the journal's last record")
    else:
        text = f"the clock says {now:%Y-%m-%d %H:%M:%S} UTC, the journal's last record {written:%Y-%m-%d %H:%M:%S}"
        if _is_set(host):
            yield _warn(check, text, "the network sets the clock now: tell casino IT that earlier times are wrong")
        else:
            yield _fail(check, text, "set the clock; a board whose clock stops without power needs a clock chip")


# --- the devices ------------------------------------------------------------------------------------------------


def _devices(cfg: Config, host: Host, *, seen: bool) -> Iterator[Row]:
    """The ports, who else is on them, and the kernel's devices; `seen`: how they work the table has told."""
    for _, part, driver, port in config.ports(cfg):
        if part != "casino":
            yield from _port(part, driver, port, host)
    if seen:
        return
    pins = [name for name in ("lamps", "buzzer", "buttons") if getattr(cfg, name).driver == "gpio"]
    pins += ["shoe"] if cfg.shoe.driver == "gpio" else []
    if pins and cfg.gpio.pin_factory != "mock":
        yield _node("gpio", NODES["gpio"], host, "is this a Raspberry Pi, and its kernel up to date?")
    display = cfg.display
    if display.driver != "none":
        node = NODES[display.interface].format(bus=display.bus, device=display.device)
        yield _node("display", node, host, f"switch it on in config.txt: dtparam={display.interface}=on")


def _port(part: str, driver: str, port: str, host: Host) -> Iterator[Row]:
    if not Path(port).exists():
        yield _fail(f"{part}.port", f"{port} is not there", "check plug and power, and the name in table.yaml")
        return
    yield _ok(f"{part}.port", f"{port} is there")
    if driver == "serial":
        try:
            yield from machine.serial_rows(Path(port), part, ask=host.ask)
        except machine.MachineError as error:
            yield _warn(f"{part}.port", str(error))


def _node(check: str, node: str, host: Host, cure: str) -> Row:
    found = sorted(host.dev.glob(node.removeprefix("/dev/")))
    return _ok(check, f"{found[0]} is there") if found else _fail(check, f"{node} is not there", cure)


# --- the casino -------------------------------------------------------------------------------------------------


def _casino(cfg: Config, host: Host) -> Iterator[Row]:
    if cfg.casino.mqtt is not None:
        yield from _mqtt(cfg, host)
    if cfg.casino.serial is not None:
        yield from _port("casino", "serial", cfg.casino.serial.port, host)
    if cfg.casino.file is not None:
        yield _feed_file(Path(cfg.casino.file.path))


def _mqtt(cfg: Config, host: Host) -> Iterator[Row]:
    mqtt = cfg.casino.mqtt
    assert mqtt is not None, "the caller has looked"
    secrets = {"casino.password.file": mqtt.password_file, "casino.tls_key.file": mqtt.tls.key if mqtt.tls else None}
    kept = {check: Path(name) for check, name in secrets.items() if name is not None and os.access(name, os.F_OK)}
    for check, path in kept.items():
        yield _owned(check, path, cfg)
    if mqtt.tls is not None and mqtt.tls.cert is not None:
        yield _certificate(Path(mqtt.tls.cert), host.now())
    for path in kept.values():
        if not os.access(path, os.R_OK):
            yield _warn("casino.mqtt", f"{path} may not be read by this user", AS_OWNER)
            return
    try:
        found = asyncio.run(wiring.try_broker(cfg, lambda: _is_set(host)))
    except wiring.WiringError as error:
        yield _fail("casino.mqtt", str(error), "then look again: the table cannot start without its password")
        return
    if found.fault:
        yield _fail("casino.mqtt", found.fault)
        return
    yield _ok("casino.mqtt", f"{mqtt.host}:{mqtt.port} lets the table in")
    if mqtt.server_status is None:
        return
    said = {True: "is online", False: "says that it is offline", None: "has said nothing"}[found.online]
    text = f"the casino server {said} on {mqtt.server_status}"
    yield _ok("casino.server", text) if found.online else _fail("casino.server", text, "ask casino IT to start it")


def _is_set(host: Host) -> bool:
    try:
        return host.synchronised()
    except OSError:
        return False


def _certificate(path: Path, now: datetime) -> Row:
    check = "casino.tls_cert"
    try:
        begins, ends = keys.certificate_times(path)
    except keys.KeyFileError as error:
        return _fail(check, str(error))
    issue = "ask casino IT for a new certificate for this table"
    if now < begins:
        return _fail(check, f"{path} is not valid before {begins:%Y-%m-%d %H:%M} UTC", f"set the clock, or {issue}")
    if now >= ends:
        return _fail(check, f"{path} has expired on {ends:%Y-%m-%d %H:%M} UTC", issue)
    if ends - now < RENEW:
        return _warn(check, f"{path} expires on {ends:%Y-%m-%d %H:%M} UTC", issue)
    return _ok(check, f"{path} is valid until {ends:%Y-%m-%d}")


def _feed_file(path: Path) -> Row:
    check = "casino.file"
    if not path.parent.is_dir():
        return _fail(check, f"{path.parent} is no folder", "make it, or correct casino.file.path")
    if path.exists() and not path.is_file():
        return _fail(check, f"{path} is no regular file", "name another one in casino.file.path")
    return _ok(check, f"{path} is there" if path.exists() else f"{path} is made with the first message")
