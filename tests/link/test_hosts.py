"""What doctor and config check say of a scanner's port. Bug reports 28 (names), 30 (ModemManager), 31 (logins)."""

from pathlib import Path

import pytest

from controller.link.hosts import PARTS, Row, Status, Unit, name_warning, serial_rows, units_of

ROOT = Path(__file__).parents[2]

NAMES = [  # driver, port, and words of the warning; none: it is to be relied on
    ("serial", "/dev/serial/by-id/usb-ACME_Scanner_0001-if00", ""),
    ("serial", "/dev/serial/by-path/platform-3f980000.usb-usb-0:1.2:1.0-port0", ""),
    ("serial", "/dev/serial0", ""),
    ("serial", "/dev/ttyAMA0", ""),
    ("serial", "/dev/scanner", ""),
    ("serial", "/dev/ttyUSB0", "changes at a boot or a replug"),
    ("serial", "/dev/ttyACM12", "ls /dev/serial/by-id"),
    ("serial", "/dev/input/by-id/usb-ACME-event-kbd", "write driver: hid"),
    ("hid", "/dev/input/by-id/usb-ACME_Scanner_0001-event-kbd", ""),
    ("hid", "/dev/input/by-id/usb-ACME_Scanner_0001-if01-event-kbd", ""),
    ("hid", "/dev/input/event3", "may then be the technician's keyboard"),
    ("hid", "/dev/input/by-path/platform-3f980000.usb-usb-0:1.2:1.0-event-kbd", "is a socket"),
    ("hid", "/dev/input/by-id/usb-ACME_Scanner_0001-event-mouse", "may be no keyboard"),
    ("hid", "/dev/hidraw0", "may be no keyboard"),
    ("hid", "/dev/serial/by-id/usb-ACME_Scanner_0001-if00", "write driver: serial"),
    ("hid", "/dev/ttyACM0", "write driver: serial"),
]


@pytest.mark.parametrize(("driver", "port", "words"), NAMES)
def test_bug_28_names_that_move_are_warned_about(driver: str, port: str, words: str) -> None:
    warning = name_warning(driver, port)
    assert (words in warning and warning.startswith(port)) if words else warning == ""


@pytest.mark.parametrize("part", PARTS)
def test_what_is_said_names_the_part(part: str) -> None:
    said = [name_warning("serial", "/dev/ttyUSB0", part), name_warning("hid", "/dev/input/event1", part)]
    rows = serial_rows(["/dev/ttyS0"], cmdline="console=ttyS0", listing="", properties="", part=part)
    assert {row.check.split(".")[0] for row in rows} == {part}
    said += [row.text for row in rows if row.check.endswith(("console", "login"))]
    assert all(f"the {PARTS[part]}'s " in text for text in said)


# What systemctl prints: plain, and as it is for people, with bullets and closing words.
PLAIN = """\
getty@tty1.service                 loaded    active   running Getty on tty1
serial-getty@ttyAMA0.service       loaded    active   running Serial Getty on ttyAMA0
serial-getty@ttyS0.service         loaded    inactive dead    Serial Getty on ttyS0
ModemManager.service               loaded    active   running Modem Manager
brltty-udev.service                not-found inactive dead    brltty-udev.service
"""
PRETTY = """\
  UNIT                         LOAD      ACTIVE   SUB     DESCRIPTION
  serial-getty@ttyAMA0.service loaded    active   running Serial Getty on ttyAMA0
● brltty.service               not-found inactive dead    brltty.service

LOAD   = Reflects whether the unit definition was properly loaded.
2 loaded units listed.
"""


def test_units_are_read_from_either_listing() -> None:
    assert units_of(PLAIN)[1:4] == [
        Unit("serial-getty@ttyAMA0.service", "active"),
        Unit("serial-getty@ttyS0.service", "inactive"),
        Unit("ModemManager.service", "active"),
    ]
    assert units_of(PRETTY) == [Unit("serial-getty@ttyAMA0.service", "active"), Unit("brltty.service", "inactive")]


USB = "DEVNAME=/dev/ttyUSB0\nID_BUS=usb\nID_MODEL=FT232R\n"
CALM = "root=PARTUUID=1 console=tty1 rootwait"
GETTY = "serial-getty@{}.service loaded active running Serial Getty\n"
MODEM = "ModemManager.service loaded active running Modem Manager\n"
BRLTTY = "brltty-udev.service loaded active running Braille\n"

CASES = {  # the port's names, cmdline, listing, properties -> check and status of what is not well
    "nothing": (["/dev/ttyUSB0"], CALM, "", USB, []),
    "a console on the header's UART (31)": (
        ["/dev/serial0", "/dev/ttyS0"], f"console=ttyS0,115200 {CALM}", "", "", [("console", "fail")],
    ),
    "a console by its alias (31)": (["/dev/serial0"], "console=serial0,115200", "", "", [("console", "fail")]),
    "the port by its own name": (["/dev/ttyAMA0"], "console=serial0,115200", "", "", [("console", "fail")]),
    "a console on another UART": (["/dev/ttyAMA0"], "console=ttyS0,115200", "", "", []),
    "a console on the screen": (["/dev/serial0"], "console=tty1", "", "", []),
    "the header's console and a scanner on USB": (["/dev/ttyUSB0"], "console=serial0,115200", "", USB, []),
    "a console on the USB port": (["/dev/ttyUSB0"], "console=ttyUSB0", "", USB, [("console", "fail")]),
    "a login on the port (31)": (["/dev/ttyAMA0"], CALM, GETTY.format("ttyAMA0"), "", [("login", "fail")]),
    "a login elsewhere": (["/dev/ttyUSB0"], CALM, GETTY.format("ttyAMA0") + GETTY.format("tty1"), USB, []),
    "a login that is stopped": (["/dev/ttyS0"], CALM, PLAIN, "", []),
    "both": (
        ["/dev/ttyAMA0"], "console=ttyAMA0", GETTY.format("ttyAMA0"), "", [("console", "fail"), ("login", "fail")],
    ),
    "ModemManager (30)": (["/dev/ttyUSB0"], CALM, MODEM, USB, [("modemmanager", "warn")]),
    "ModemManager that is told to keep off (30)": (
        ["/dev/ttyUSB0"], CALM, MODEM, USB + "ID_MM_DEVICE_IGNORE=1\n", [],
    ),
    "ModemManager and the header's UART": (["/dev/ttyAMA0"], CALM, MODEM, "DEVNAME=/dev/ttyAMA0\n", []),
    "brltty": (["/dev/ttyUSB0"], CALM, BRLTTY, USB, [("brltty", "warn")]),
    "brltty that is told to keep off": (["/dev/ttyUSB0"], CALM, BRLTTY, USB + "ID_BRLTTY_DEVICE_IGNORE=1\n", []),
    "a port that is not there": (["/dev/serial/by-id/x"], CALM, MODEM + BRLTTY, "", []),
}  # fmt: skip


@pytest.mark.parametrize(("names", "cmdline", "listing", "properties", "expected"), CASES.values(), ids=CASES)
def test_bug_30_31_who_else_speaks_on_the_port(
    names: list[str], cmdline: str, listing: str, properties: str, expected: list[tuple[str, str]]
) -> None:
    rows = serial_rows(names, cmdline=cmdline, listing=listing, properties=properties)
    assert {row.check for row in rows} == {f"scanner.{name}" for name in ("console", "login", "modemmanager", "brltty")}
    assert [(row.check.removeprefix("scanner."), row.status) for row in rows if row.status is not Status.OK] == expected
    assert all(bool(row.cure) == (row.status is not Status.OK) and row.text for row in rows)


def test_a_row_says_what_to_do() -> None:
    rows = serial_rows(["/dev/ttyS0"], cmdline="console=ttyS0,115200", listing="", properties="")
    assert rows[0] == Row(
        "scanner.console",
        Status.FAIL,
        "the kernel's messages go to ttyS0, which is the scanner's port",
        "take console=ttyS0,115200 out of cmdline.txt on the boot partition, and start anew; raspi-config can do it",
    )


def test_bug_30_the_rule_we_ship_sets_what_we_look_for() -> None:
    rules = (ROOT / "systemd" / "70-baccarat-table.rules").read_text(encoding="utf-8")
    assert 'ENV{ID_MM_DEVICE_IGNORE}="1"' in rules and 'ENV{ID_BRLTTY_DEVICE_IGNORE}="1"' in rules
