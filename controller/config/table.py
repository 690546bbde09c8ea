"""What the keys of table.yaml must be to each other and to this machine: devices, pins, codes, transports (DESIGN 8).

`CHECKS` and `packages` find errors, `warnings` what is allowed and seldom meant. Says nothing of whether a device is
there: that is found out by opening it.
"""

import re
import sys
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.util import find_spec
from typing import Any, NamedTuple

from controller.core.codes import Codes, CodesError
from controller.core.profile import Opens, Position, Rescan
from controller.link.hosts import name_warning
from controller.link.keys import twins

from .check import Check, Findings
from .models import HEADER, CodeTable, Config, Section

# What each driver cannot do without: group, driver, keys.
_NEEDS = (
    ("scanner", ("serial", "hid"), ("port",)),
    ("shoe", ("gpio",), ("exit_inner", "exit_outer")),
    ("shoe", ("head",), ("port",)),
    ("lamps", ("gpio",), ("timer", "red")),
    ("buzzer", ("gpio",), ("pin",)),
    ("buttons", ("gpio",), ("start", "confirm", "call")),
)
_PINS = {
    "shoe": ("exit_inner", "exit_outer", "cut", "lid", "present"),
    "lamps": ("timer", "amber", "red", "call"),
    "buzzer": ("pin",),
    "buttons": ("start", "confirm", "call", "key"),
}
_SPI_PINS = {7: "CE1", 8: "CE0", 9: "MISO", 10: "MOSI", 11: "SCLK"}
_UART = re.compile(r"/dev/(serial[01]|ttyS0|ttyAMA[0-9]+)")  # the header's own UART under its names on a Pi
_TLS_PORT = 8883  # the registered port of MQTT over TLS
_TWINS = (
    " are typed with the same keys, and a lost shift makes one of them the other (bug report 34): give one of them "
    "another code, or take a serial scanner"
)


def _primary(config: Config) -> Findings:
    casino = config.casino
    if getattr(casino, casino.primary) is None:
        example = {"mqtt": "{host: …}", "serial": "{port: …}", "file": "{path: …}"}[casino.primary]
        text = (
            f"primary is {casino.primary}, which is not set up: add {casino.primary}: {example} here, or name another"
        )
        yield ("casino", "primary"), text


def _server_opens(config: Config) -> Findings:
    if config.procedure.open_betting is Opens.SERVER and not config.casino.command_keys:
        text = "open_betting is server, but without casino.command_keys the table obeys no server: add its key"
        yield ("procedure", "open_betting"), text


def _waits_for_commands(config: Config) -> Findings:
    """What only a command can bring never comes where none is obeyed, or none can arrive."""
    casino = config.casino
    if casino.command_keys and casino.mqtt is None and casino.serial is None:
        yield ("casino", "command_keys"), "commands come by mqtt or serial, and neither is set up: add one"
    for key in ("limits", "enrolment"):
        if getattr(casino, key) == "required" and not casino.command_keys:
            yield ("casino", key), f"{key}: it comes by command, and without command_keys none is obeyed: add the key"


def _mqtt(config: Config) -> Findings:
    mqtt = config.casino.mqtt
    if mqtt is None:
        return
    where = ("casino", "mqtt")
    if mqtt.tls is None and mqtt.port == _TLS_PORT:
        yield (
            (*where, "port"),
            f"port {_TLS_PORT} speaks TLS: add tls: {{ca: …}}, or give the port without it, as a rule 1883",
        )
    if mqtt.tls is not None and (mqtt.tls.cert is None) != (mqtt.tls.key is None):
        yield (*where, "tls"), "cert and key go together: give both, or neither"
    if mqtt.password_file is not None and mqtt.username is None:
        yield (*where, "password_file"), "a password needs a username: add it"
    if mqtt.server_status is not None and mqtt.server_status.startswith(f"{mqtt.prefix}/{config.table.id}/"):
        yield (*where, "server_status"), "this is the table's own topic: give the casino server's, as in casino/status"


def _command_keys(config: Config) -> Findings:
    """A command names its key by the id: with another one it would never be obeyed."""
    keys = [key.keyid for key in config.casino.command_keys]
    for index, key in enumerate(config.casino.command_keys):
        where = ("casino", "command_keys", index, "keyid")
        if key.keyid in keys[:index]:
            yield where, f"{key.keyid} is listed twice: keep one"
        own = sha256(urlsafe_b64decode(key.publickey + "=")).hexdigest()[:16]
        if key.keyid != own:
            yield where, f"the id of this publickey is {own}, not {key.keyid}: ask casino IT for both"


def _needs(config: Config) -> Findings:
    for group, drivers, keys in _NEEDS:
        section: Section = getattr(config, group)
        driver = getattr(section, "driver")  # noqa: B009 - not every Section has one
        for key in keys:
            if driver in drivers and getattr(section, key) in (None, ()):
                yield (group, "driver"), _needed(group, driver, key, section)
    display = config.display
    if display.driver != "none" and display.interface == "spi":
        for key in ("dc", "reset"):
            if getattr(display, key) is None:
                yield ("display", "interface"), _needed("display", "spi", key, display)


def _columns(config: Config) -> Findings:
    display = config.display
    if display.driver in ("ssd1306", "ssd1309") and display.column_offset:
        text = f"the memory of {display.driver} is as wide as its glass: leave column_offset out, or write sh1106"
        yield ("display", "column_offset"), text


def _needed(group: str, driver: str, key: str, section: Section) -> str:
    return f"{group} with {driver} needs {key}: {type(section).model_fields[key].description}"


def _codes(config: Config) -> Findings:
    scanner = config.scanner
    where: tuple[str, ...] = ("scanner", "codes")
    table: str | dict[str, str]
    if isinstance(scanner.codes, CodeTable):
        where, table = (*where, "table"), scanner.codes.table
    else:
        table = scanner.codes
    try:
        codes = Codes.of(table, cut=scanner.cut_code, noread=scanner.noread_code)
    except CodesError as error:
        for key, text in error.problems:
            group, _, code = key.partition(".")
            place = ("scanner", group) if group != "codes" else (*where, code) if code else where
            yield place, f"{code or group}: {text}"
        return
    if "hid" in (scanner.driver, scanner.hand and scanner.hand.driver):
        own = {scanner.cut_code: ("scanner", "cut_code"), scanner.noread_code: ("scanner", "noread_code")}
        for first, second in twins(list(codes.reads)):
            yield own.get(second, (*where, second)), f"{second} and {first}{_TWINS}"


def _readings(config: Config) -> Findings:
    """What is read before it is out needs someone to say when it is; once out, it needs another place to be read."""
    scanner = config.scanner
    if scanner.position is not Position.AFTER_EXIT and config.shoe.driver == "none":
        text = (
            f"position is {scanner.position}, but nothing says when a card is out: set up the shoe's sensors "
            "(shoe.driver), or read cards after_exit"
        )
        yield ("scanner", "position"), text
    if scanner.position is Position.IN_SHOE and scanner.rescan is Rescan.SAME:
        yield ("scanner", "rescan"), "a scanner in_shoe reads no card that is out: write hand, or none to key it in"
    if scanner.rescan is Rescan.HAND and scanner.hand is None:
        yield ("scanner", "rescan"), "rescan is hand, but there is no such scanner: add hand: {driver: …, port: …} here"


def _ports(config: Config) -> Findings:
    """A serial line carries one device."""
    users: dict[str, str] = {}
    for where, _, _, port in ports(config):
        if port in users:
            yield where, f"{port} is {users[port]} already: one device a line"
        users.setdefault(port, ".".join(where))


class Port(NamedTuple):
    """A port that a device of the table has for itself: its key, whose it is (`hosts.PARTS`), serial or hid."""

    where: tuple[str, ...]
    part: str
    driver: str
    path: str


def ports(config: Config) -> Iterator[Port]:
    scanner, hand, shoe, casino = config.scanner, config.scanner.hand, config.shoe, config.casino.serial
    if scanner.driver != "none" and scanner.port is not None:
        yield Port(("scanner", "port"), "scanner", scanner.driver, scanner.port)
    if hand is not None:
        yield Port(("scanner", "hand", "port"), "hand", hand.driver, hand.port)
    if shoe.driver == "head" and shoe.port is not None:
        yield Port(("shoe", "port"), "head", "serial", shoe.port)
    if casino is not None:
        yield Port(("casino", "serial", "port"), "casino", "serial", casino.port)


def _pins(config: Config) -> Findings:
    """A pin has one use, and none that the board needs itself."""
    reserved = _reserved(config)
    users: dict[int, str] = {}
    for where, pin in _used_pins(config):
        name = ".".join(map(str, where))
        place = f"GPIO{pin} (pin {HEADER[pin]} of the header) of {name}"
        if pin in reserved:
            yield where, f"{place} is taken by {reserved[pin]}: choose another"
        if pin in users:
            yield where, f"{place} is {users[pin]} already: one use a pin"
        users.setdefault(pin, name)


def _reserved(config: Config) -> dict[int, str]:
    """The pins that something other than a lamp, button or sensor needs, and what."""
    pins = dict.fromkeys((0, 1), "the board's ID EEPROM")
    for where, _, _, port in ports(config):
        if _UART.fullmatch(port):  # a line of its own: an adapter on USB leaves these pins free
            pins |= dict.fromkeys((14, 15), f"the board's UART ({'.'.join(where)})")
    display = config.display
    if display.driver != "none" and display.interface == "spi":
        pins |= {pin: f"the display's SPI line {name} (display.interface)" for pin, name in _SPI_PINS.items()}
    elif display.driver != "none" and display.bus == 1:
        pins |= dict.fromkeys((2, 3), "the display's I²C line (display.interface)")
    return pins


def _used_pins(config: Config) -> Iterator[tuple[tuple[str | int, ...], int]]:
    for group, keys in _PINS.items():
        section: Any = getattr(config, group)
        for key in keys if section.driver == "gpio" else ():
            pin = getattr(section, key)
            if isinstance(pin, tuple):
                yield from (((group, key, index), one) for index, one in enumerate(pin))
            elif pin is not None:
                yield (group, key), pin
    display = config.display
    if display.driver != "none" and display.interface == "spi":
        yield from (
            (("display", key), pin) for key, pin in (("dc", display.dc), ("reset", display.reset)) if pin is not None
        )


CHECKS = (
    Check(("casino",), _primary),
    Check(("casino", "procedure"), _server_opens),
    Check(("casino",), _waits_for_commands),
    Check(("casino",), _mqtt),
    Check(("casino",), _command_keys),
    Check((), _needs),
    Check(("display",), _columns),
    Check(("scanner",), _codes),
    Check(("scanner", "shoe"), _readings),
    Check((), _ports),
    Check((), _pins),
)

SOUND: dict[str, Any] = {
    "table": {"id": "X"},
    "profile": "x",
    "casino": {"primary": "file", "file": {"path": "/x"}},
}


def warnings(config: Config) -> Findings:
    """What a table can run with and nobody should: each with what to do."""
    scanner, mqtt = config.scanner, config.casino.mqtt
    for where, part, driver, port in ports(config):
        if text := name_warning(driver, port, part):
            yield where, text
    if scanner.driver != "none" and scanner.repeat_ms:
        text = f"equal cards in a row are legal, and two scanned within {scanner.repeat_ms} ms count as one: write 0"
        yield ("scanner", "repeat_ms"), f"{text}, unless the scanner repeats a label while it sees it"
    groups = ("lamps", "buzzer", "buttons")
    if config.gpio.pin_factory == "mock" and any(getattr(config, group).driver == "gpio" for group in groups):
        yield ("gpio", "pin_factory"), "mock pins lead nowhere: no lamp burns and no button is heard; write gpiod"
    if config.gpio.pin_factory == "rpigpio" and config.buttons.driver == "gpio":
        text = "RPi.GPIO tells no edges on Linux 6.6 and newer, and then no button is heard: write gpiod"
        yield ("gpio", "pin_factory"), text
    if mqtt is not None and mqtt.username is not None and mqtt.tls is None:
        yield ("casino", "mqtt", "username"), "without tls the password crosses the network in clear: add tls: {ca: …}"
    if config.storage.allow_volatile:
        yield (
            ("storage", "allow_volatile"),
            "a journal in memory is gone with the power: write false; true is for tests",
        )


def is_installed(module: str) -> bool:
    """Whether this Python can import a module; imports at most the packages around it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def packages(config: Config, installed: Callable[[str], bool]) -> Findings:
    """The packages that the chosen devices need and that are not here (DESIGN 3): each with what to install."""
    pip = f"{sys.executable} -m pip install"
    install = f"install it, in a checkout of this version: {pip} --require-hashes -r requirements/pi.txt"
    display = config.display
    lines = [group for group in ("lamps", "buzzer", "buttons") if getattr(config, group).driver == "gpio"]
    lines += ["display"] if display.driver != "none" and display.interface == "spi" else []
    factory = config.gpio.pin_factory
    if lines and not installed("gpiozero"):
        yield (lines[0], "driver"), f"its pins need the package gpiozero: {install}"
    if lines and factory == "rpigpio" and not installed("RPi.GPIO"):
        yield ("gpio", "pin_factory"), f"rpigpio needs the package RPi.GPIO: {pip} RPi.GPIO, or write gpiod"
    if lines and not installed("gpiod"):  # whatever the factory: all of them have one home
        yield ("gpio", "pin_factory"), f"{factory} needs the package gpiod: {install}"
    if config.shoe.driver == "gpio" and not installed("gpiod"):
        yield ("shoe", "driver"), f"driver gpio needs the package gpiod: {install}"
    if display.driver != "none" and not installed("luma.oled"):
        yield ("display", "driver"), f"the display needs the package luma.oled: {install}"
