"""What the machine's own texts say about a device's port: names that move, and other programs that speak on it.

Pure: the caller reads the texts and says which names the port has (the one configured, and the one it leads to).
Bug reports 28 (names), 30 (ModemManager), 31 (login shells); brltty takes some adapters for braille displays.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Row(NamedTuple):
    """A line of `doctor`: what was looked at, how it stands, in words, and what to do (empty where all is well)."""

    check: str
    status: Status
    text: str
    cure: str = ""


class Unit(NamedTuple):
    """A line of `systemctl list-units --all --plain --no-legend`."""

    name: str
    active: str


# The parts of a table that speak on a line of their own.
PARTS = {"scanner": "scanner", "hand": "hand scanner", "head": "sensor head", "casino": "casino adapter"}

# The header's UART has these names on one Pi or another; serial0 leads to one of them.
UART = re.compile(r"(serial[01]|ttyAMA[0-9]+|ttyS0)")
_USB_NUMBER = re.compile(r"/dev/(ttyUSB|ttyACM)[0-9]+")
_EVENT_NUMBER = re.compile(r"/dev/input/event[0-9]+")
_GETTY = re.compile(r"(?:serial-)?getty@(.+)\.service")
_RUNNING = ("active", "activating", "reloading")


def name_warning(driver: str, port: str, part: str = "scanner") -> str:
    """Why this name for the port of a part (of PARTS) is not to be relied on, and what to write; empty where it is.

    `driver` is serial or hid, `port` an absolute path.
    """
    what = PARTS[part]
    if driver == "serial":
        if _USB_NUMBER.fullmatch(port):
            return (
                f"{port} is a number that changes at a boot or a replug: write the {what}'s name from "
                "`ls /dev/serial/by-id`, or from /dev/serial/by-path where two have the same"
            )
        if port.startswith("/dev/input/"):
            return f"{port} is a keyboard, not a serial line: write driver: hid"
        return ""
    if port.startswith(("/dev/serial/", "/dev/tty")):
        return f"{port} is a serial line, not a keyboard: write driver: serial"
    its_name = f"write the {what}'s name from `ls /dev/input/by-id`, the one that ends in -event-kbd"
    if _EVENT_NUMBER.fullmatch(port):
        why = "is a number that changes at a boot or a replug, and may then be the technician's keyboard"
        return f"{port} {why}: {its_name}"
    if port.startswith("/dev/input/by-path/"):
        why = f"is a socket, and whatever keyboard is plugged in there would be taken for the {what}"
        return f"{port} {why}: {its_name}"
    if not port.endswith("-event-kbd"):
        return f"{port} may be no keyboard: of the {what}'s names in /dev/input/by-id, write that in -event-kbd"
    return ""


def units_of(listing: str) -> list[Unit]:
    """The units in what systemctl prints, with or without its bullets and its closing lines."""
    units: list[Unit] = []
    for line in listing.splitlines():
        words = line.replace("●", " ").replace("*", " ").split()
        if len(words) >= 4 and "." in words[0]:
            units.append(Unit(words[0], words[2]))
    return units


def serial_rows(
    names: Collection[str], *, cmdline: str, listing: str, properties: str, part: str = "scanner"
) -> list[Row]:
    """Who else speaks on the serial port of a part (of PARTS) that has these names (`/dev/serial0`, `/dev/ttyAMA0`).

    `cmdline` is /proc/cmdline, `listing` what `systemctl list-units --all --plain --no-legend` prints, `properties`
    what `udevadm info --query=property` prints of the port; empty where the port is not there.
    """
    units = units_of(listing)
    port = f"the {PARTS[part]}'s port"
    return [
        *_verdict(f"{part}.console", _consoles(names, cmdline, port), f"the kernel writes no messages on {port}"),
        *_verdict(f"{part}.login", _logins(names, units, port), f"no login waits on {port}"),
        *_verdict(f"{part}.modemmanager", _prober(units, properties, part), f"ModemManager leaves {port} alone"),
        *_verdict(f"{part}.brltty", _braille(units, properties, part), f"brltty leaves {port} alone"),
    ]


def _verdict(check: str, found: Iterable[tuple[Status, str, str]], well: str) -> list[Row]:
    rows = [Row(check, *row) for row in found]
    return rows or [Row(check, Status.OK, well)]


def _consoles(names: Collection[str], cmdline: str, port: str) -> Iterator[tuple[Status, str, str]]:
    for word in cmdline.split():
        if word.startswith("console="):
            device = word.removeprefix("console=").split(",")[0]
            if _same(device, names):
                cure = f"take {word} out of cmdline.txt on the boot partition, and start anew; raspi-config can do it"
                yield Status.FAIL, f"the kernel's messages go to {device}, which is {port}", cure


def _logins(names: Collection[str], units: Iterable[Unit], port: str) -> Iterator[tuple[Status, str, str]]:
    for unit in units:
        found = _GETTY.fullmatch(unit.name)
        if found and unit.active in _RUNNING and _same(found[1], names):
            text = f"{unit.name} reads {found[1]}, which is {port}: it takes bytes that are the table's"
            yield Status.FAIL, text, f"run: sudo systemctl mask --now {unit.name}"


def _same(device: str, names: Collection[str]) -> bool:
    """Whether a device is the port: by one of its names; and serial0 may be either of the header's UARTs."""
    own = [name.removeprefix("/dev/") for name in names]
    if device in own:
        return True
    alias = device in ("serial0", "serial1") or any(name in ("serial0", "serial1") for name in own)
    return alias and UART.fullmatch(device) is not None and any(UART.fullmatch(name) for name in own)


def _prober(units: Iterable[Unit], properties: str, part: str) -> Iterator[tuple[Status, str, str]]:
    running = any(unit.name == "ModemManager.service" and unit.active in _RUNNING for unit in units)
    if running and _is_usb(properties) and not _is_set(properties, "ID_MM_DEVICE_IGNORE"):
        text = f"ModemManager runs and may type AT commands at the {PARTS[part]} when it is plugged in"
        yield Status.WARN, text, f"{_rules(part)}, or run: sudo systemctl disable --now ModemManager"


def _braille(units: Iterable[Unit], properties: str, part: str) -> Iterator[tuple[Status, str, str]]:
    running = any(unit.name.startswith("brltty") and unit.active in _RUNNING for unit in units)
    if running and _is_usb(properties) and not _is_set(properties, "ID_BRLTTY_DEVICE_IGNORE"):
        text = "brltty runs and takes some serial adapters for braille displays"
        yield Status.WARN, text, f"{_rules(part)}, or remove brltty"


def _rules(part: str) -> str:
    return f"install 70-baccarat-table.rules in /etc/udev/rules.d and plug the {PARTS[part]} in anew"


def _is_usb(properties: str) -> bool:
    return "ID_BUS=usb" in properties.splitlines()


def _is_set(properties: str, name: str) -> bool:
    return f"{name}=1" in properties.splitlines()
