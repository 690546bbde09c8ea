"""The keys of table.yaml: each for itself, together, and what the core is given of them (DESIGN 3 and 8)."""

import sys
from pathlib import Path
from typing import get_args

import pytest

from controller import config
from controller.config import table
from controller.config.models import Shoe
from controller.core.profile import Confirms, Opens, Position, Procedure, Rescan
from controller.link import messages
from tests.config.cases import TABLE, Case, cases, check, errors, whole


def loaded(text: str = "") -> config.Config:
    return config.parse(whole(text, TABLE).encode(), "file.yaml")


KEYS = """
▸▸profile: p
~ table
~ casino
! 'casino' is missing here: where the results go
! 'table' is missing here: who this table is

▸table: {}
▸casino: {}
! 'id' is missing here: the table's number given by the casino
! 'primary' is missing here: mqtt, serial or file

▸tabel: {}
! unknown key 'tabel': did you mean 'table'?

▸xyz: {}
! unknown key 'xyz': known here are table, profile, procedure, gpio, scanner

lamps: {▸drivr: gpio}
! unknown key 'drivr': did you mean 'driver'?

casino: {primary: mqtt, mqtt: {host: b, port: 1883, ▸password: x}}
! unknown key 'password': did you mean 'password_file'?

casino: {primary: mqtt, mqtt: {host: b, tls: {ca: /a, ▸crt: /b}}}
! unknown key 'crt': did you mean 'cert'?

procedure: {betting_seconds: ▸'15'}
! betting_seconds must be a whole number without quotes, not '15' (the betting time

procedure: {betting_seconds: ▸0}
! betting_seconds must be at least 1, not '0'

procedure: {betting_seconds: ▸601}
! betting_seconds must be at most 600

procedure: {betting_seconds: ▸true}
! betting_seconds must be a whole number

procedure: {open_betting: ▸dealr}
! open_betting must be 'dealer', 'auto', 'server' or 'none', not 'dealr': did you mean dealer?

procedure: {offline_rounds: ▸alow}
! offline_rounds must be 'refuse' or 'allow', not 'alow': did you mean allow?

storage: {allow_volatile: ▸'true'}
! allow_volatile must be true or false without quotes

▸storage: [1]
! storage must be a group of keys

storage: ▸x
! storage must be a group of keys

storage: {path: ▸var/lib}
! path is not written as it must be, not 'var/lib'

lamps: {timer: ▸5}
! timer must be a list

lamps: {timer: [5, ▸x]}
! timer must be a whole number

lamps: {timer: [5, ▸28]}
! timer must be the number of a GPIO of the header, 0 to 27; pin 28 of the header is GPIO1, not '28'

scanner: {▸codes: [plain]}
! codes cannot be this

scanner: {codes: ▸plane}
! codes must be 'plain', 'srr0' or 'letter', not 'plane': did you mean plain?

scanner: {baud: ▸9601}
! baud must be 1200, 2400

shoe: {driver: head, port: /dev/serial/by-id/x, baud: ▸115200}
! baud must be 57600, not '115200' (speed of the sensor head's line

scanner: {cut_code: ▸' CUT'}
! cut_code is not written as it must be

scanner: {codes: {▸table: {▸"": AS}}}
! codes: no code for AS 2S
! a key must be plain text

display: {address: ▸3C}
! address must be a whole number

display: {rotate: ▸1}
! rotate must be 0 or 2

table: {id: ▸7}
! id must be text: write "7" in quotes

table: {id: ▸0x1F}
! id must be text: write "0x1F" in quotes

table: {id: ▸BAC 7}
profile: ▸../p
! id is not written as it must be, not 'BAC 7' (the table's number given by the casino
! profile is not written as it must be

table: {id: ▸a/b}
profile: ▸p.yaml
! id is not written
! profile is not written

table: {id: ▸-x}
profile: ▸P
! id is not written
! profile is not written

casino: {primary: mqtt, mqtt: {host: ▸'mqtt://b', port: 1883}}
! host is not written as it must be, not 'mqtt://b' (the broker's host name or address, without mqtt://

casino: {primary: mqtt, mqtt: {host: b, port: 1883, prefix: ▸'a/+'}}
! prefix is not written

casino: {primary: mqtt, mqtt: {host: b, port: 1883, prefix: ▸/a}}
! prefix is not written

casino: {primary: mqtt, mqtt: {host: b, port: 1883, server_status: ▸'a/#'}}
! server_status is not written

casino: {primary: mqtt, mqtt: {host: b, port: ▸70000}}
! port must be at most 65535

casino:
  primary: file
  file: {path: /f}
  command_keys: [{keyid: ▸X, publickey: ▸11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURp}]
! keyid is not written
! publickey is not written
"""


@pytest.mark.parametrize("case", list(cases(KEYS, TABLE)), ids=lambda case: case.text.split("\n")[0])
def test_keys_that_are_refused(case: Case) -> None:
    check(errors(config.parse, case.text), case.expected)


def test_a_socket_path_has_the_length_that_the_system_allows() -> None:
    check(
        errors(config.parse, whole(f"control: {{socket: /{'x' * 100}}}", TABLE)),
        ("1:19: socket must have at most 100",),
    )
    assert errors(config.parse, whole(f"control: {{socket: /{'x' * 99}}}", TABLE)) == []


TOGETHER = """
casino: {primary: ▸mqtt}
! primary is mqtt, which is not set up: add mqtt: {host: …} here

casino: {primary: ▸serial, file: {path: /f}}
! primary is serial, which is not set up: add serial: {port: …}

casino: {primary: ▸file}
! primary is file, which is not set up: add file: {path: …}

casino: {primary: mqtt, ▸mqtt: {host: b}}
! port 8883 speaks TLS: add tls: {ca: …}, or give the port without it

casino: {primary: mqtt, mqtt: {host: b, port: ▸8883}}
! port 8883 speaks TLS

casino: {primary: mqtt, mqtt: {host: b, ▸tls: {ca: /a, cert: /c}}}
! cert and key go together

casino: {primary: mqtt, mqtt: {host: b, port: 1883, password_file: ▸/p}}
! a password needs a username

casino: {primary: mqtt, mqtt: {host: b, port: 1883, server_status: ▸baccarat/BAC-07/status}}
! this is the table's own topic

procedure: {open_betting: ▸server}
! open_betting is server, but without casino.command_keys

scanner: {driver: ▸serial}
! scanner with serial needs port: the scanner: its path

scanner: {driver: ▸hid}
! scanner with hid needs port

shoe: {driver: ▸gpio, exit_outer: 5}
! shoe with gpio needs exit_inner: the exit sensor nearer the cards

shoe: {driver: ▸head}
! shoe with head needs port

lamps: {driver: ▸▸gpio}
! lamps with gpio needs red
! lamps with gpio needs timer

buzzer: {driver: ▸gpio}
! buzzer with gpio needs pin

buttons: {driver: ▸gpio, start: 5, call: 6}
! buttons with gpio needs confirm: CONFIRMAR

display: {driver: sh1106, interface: ▸▸spi}
! display with spi needs dc
! display with spi needs reset

shoe: {driver: gpio, exit_inner: 17, exit_outer: 27}
buzzer: {driver: gpio, pin: ▸17}
! GPIO17 (pin 11 of the header) of buzzer.pin is shoe.exit_inner already

lamps: {driver: gpio, timer: [5, 6, ▸5], red: ▸6, amber: ▸5}
! GPIO5 (pin 29 of the header) of lamps.timer.2 is lamps.timer.0 already
! GPIO6 (pin 31 of the header) of lamps.red is lamps.timer.1 already
! GPIO5 (pin 29 of the header) of lamps.amber is lamps.timer.0 already

display: {driver: sh1106, column_offset: 0}

display: {driver: ssd1306, column_offset: ▸2}
! the memory of ssd1306 is as wide as its glass

display: {driver: ssd1309, interface: spi, dc: 24, reset: ▸24}
! GPIO24 (pin 18 of the header) of display.reset is display.dc already

buzzer: {driver: gpio, pin: ▸2}
display: {driver: ssd1306}
! GPIO2 (pin 3 of the header) of buzzer.pin is taken by the display's I²C line (display.interface)

buzzer: {driver: gpio, pin: ▸9}
display: {driver: ssd1306, interface: spi, dc: 24, reset: 25}
! GPIO9 (pin 21 of the header) of buzzer.pin is taken by the display's SPI line MISO (display.interface)

buzzer: {driver: gpio, pin: ▸14}
scanner: {driver: serial, port: /dev/ttyAMA0}
! GPIO14 (pin 8 of the header) of buzzer.pin is taken by the board's UART (scanner.port)

buzzer: {driver: gpio, pin: ▸15}
scanner: {driver: serial, port: /dev/ttyS0}
! GPIO15 (pin 10 of the header) of buzzer.pin is taken by the board's UART (scanner.port)

buzzer: {driver: gpio, pin: 15}
scanner: {driver: none, port: /dev/ttyS0}

buzzer: {driver: gpio, pin: ▸15}
casino: {primary: serial, serial: {port: /dev/serial0}}
! GPIO15 (pin 10 of the header) of buzzer.pin is taken by the board's UART (casino.serial.port)

buzzer: {driver: gpio, pin: ▸0}
! GPIO0 (pin 27 of the header) of buzzer.pin is taken by the board's ID EEPROM

scanner: {driver: serial, port: /dev/x}
shoe: {driver: head, port: ▸/dev/x}
! /dev/x is scanner.port already

scanner: {driver: serial, port: /dev/x}
casino: {primary: serial, serial: {port: ▸/dev/x}}
! /dev/x is scanner.port already

scanner: {driver: serial, port: /dev/x, rescan: hand, hand: {driver: serial, port: ▸/dev/x}}
! /dev/x is scanner.port already

scanner: {position: ▸in_shoe, rescan: none}
! position is in_shoe, but nothing says when a card is out: set up the shoe's sensors (shoe.driver), or read cards

scanner: {position: ▸before_exit}
! position is before_exit, but nothing says when a card is out

scanner: {position: in_shoe, rescan: ▸same}
shoe: {driver: head, port: /dev/x}
! a scanner in_shoe reads no card that is out: write hand, or none to key it in

scanner: {rescan: ▸hand}
! rescan is hand, but there is no such scanner: add hand: {driver: …, port: …} here

scanner: {position: ▸before}
! position must be 'after_exit', 'before_exit' or 'in_shoe', not 'before': did you mean before_exit?

scanner: {cut_code: X, noread_code: ▸X}
! noread_code: 'X' is already the code of the cut card

scanner: {cut_code: ▸8H}
! cut_code: '8H' is already the code of the card 8H

scanner: {driver: hid, port: /dev/input/by-id/usb-x-event-kbd, cut_code: ▸8h, noread_code: ▸"*H"}
! 8h and 8H are typed with the same keys
! *H and 8H are typed with the same keys

scanner: {codes: {▸table: {X: ▸1H}}}
! codes: no code for AS 2S
! X: '1H' is no card: write rank A 2-9 T J Q K

casino:
  primary: mqtt
  mqtt: {host: b, port: 1883}
  command_keys:
    - {keyid: 21fe31dfa154a261, publickey: 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo}
    - {keyid: ▸21fe31dfa154a261, publickey: 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo}
! 21fe31dfa154a261 is listed twice

casino:
  primary: mqtt
  mqtt: {host: b, port: 1883}
  command_keys: [{keyid: ▸0123456789abcdef, publickey: 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo}]
! the id of this publickey is 21fe31dfa154a261, not 0123456789abcdef

casino:
  primary: file
  file: {path: /f}
  ▸command_keys: [{keyid: 21fe31dfa154a261, publickey: 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo}]
! commands come by mqtt or serial, and neither is set up

casino: {primary: file, file: {path: /f}, limits: ▸required, enrolment: ▸required}
! limits: it comes by command, and without command_keys none is obeyed
! enrolment: it comes by command

table: {id: ▸010}
procedure: {betting_seconds: ▸0, ▸betting_seconds: 15}
▸gpoi: {}
lamps: {driver: gpio, timer: [5], red: ▸5}
buzzer: {driver: gpio, pin: ▸99}
casino: {primary: ▸mqtt}
! 010: readers differ on this number
! betting_seconds must be at least 1
! 'betting_seconds' is given twice
! unknown key 'gpoi': did you mean 'gpio'?
! GPIO5 (pin 29 of the header) of lamps.red is lamps.timer.0 already
! pin must be the number of a GPIO of the header, 0 to 27, not '99'
! primary is mqtt, which is not set up
"""


@pytest.mark.parametrize("case", list(cases(TOGETHER, TABLE)), ids=lambda case: case.text.split("\n")[0])
def test_keys_that_contradict_each_other(case: Case) -> None:
    check(errors(config.parse, case.text), case.expected)


AGREE = """
buzzer: {driver: none, pin: 2}
display: {driver: ssd1309}

buzzer: {driver: gpio, pin: 2}
display: {driver: ssd1309, bus: 3}

buzzer: {driver: gpio, pin: 9}
display: {driver: ssd1309}

buzzer: {driver: gpio, pin: 14}
scanner: {driver: serial, port: /dev/serial/by-id/usb-x}

scanner: {driver: none, port: /dev/x}
shoe: {driver: head, port: /dev/x}

scanner: {position: in_shoe, rescan: hand, hand: {driver: serial, port: /dev/y, baud: 19200}}
shoe: {driver: head, port: /dev/z}

scanner: {position: before_exit}
shoe: {driver: gpio, exit_inner: 17, exit_outer: 27}

scanner: {rescan: none, hand: {driver: hid, port: /dev/y}}

display: {driver: ssd1309, address: 0x3D, rotate: 2}

casino: {primary: mqtt, mqtt: {host: 10.0.0.5, port: 1883}}

casino: {primary: mqtt, mqtt: {host: "fe80::1", port: 1883}}

casino: {primary: mqtt, mqtt: {host: b, tls: {ca: /a, cert: /c, key: /k}, username: u, password_file: /p}}

profile: /etc/house/mine.yaml

scanner: {driver: serial, port: /dev/serial/by-id/usb-x, cut_code: 8h}
"""


@pytest.mark.parametrize("case", list(cases(AGREE, TABLE)), ids=lambda case: case.text.split("\n")[0])
def test_keys_that_agree(case: Case) -> None:
    assert errors(config.parse, case.text) == []


WARNED = """
scanner: {driver: serial, port: ▸/dev/ttyUSB0}
! /dev/ttyUSB0 is a number that changes at a boot or a replug

scanner: {driver: hid, port: ▸/dev/input/event3}
! /dev/input/event3 is a number that changes at a boot or a replug, and may then be the technician's keyboard

scanner: {driver: hid, port: ▸/dev/serial/by-id/usb-x}
! /dev/serial/by-id/usb-x is a serial line, not a keyboard: write driver: serial

scanner: {driver: none, port: /dev/ttyUSB0, repeat_ms: 300}

shoe: {driver: head, port: ▸/dev/ttyUSB0}
! /dev/ttyUSB0 is a number that changes at a boot or a replug: write the sensor head's name

casino: {primary: serial, serial: {port: ▸/dev/ttyACM3}}
! /dev/ttyACM3 is a number that changes at a boot or a replug: write the casino adapter's name

scanner: {driver: serial, port: /dev/serial/by-id/usb-x, repeat_ms: ▸300}
! equal cards in a row are legal, and two scanned within 300 ms count as one

gpio: {pin_factory: ▸mock}
buzzer: {driver: gpio, pin: 12}
! mock pins lead nowhere

gpio: {pin_factory: mock}

gpio: {pin_factory: ▸rpigpio}
buttons: {driver: gpio, start: 5, confirm: 6, call: 7}
! RPi.GPIO tells no edges on Linux 6.6 and newer

gpio: {pin_factory: rpigpio}
buzzer: {driver: gpio, pin: 12}

casino: {primary: mqtt, mqtt: {host: b, port: 1883, username: ▸u}}
! without tls the password crosses the network in clear

casino: {primary: mqtt, mqtt: {host: b, tls: {ca: /a}, username: u}}

storage: {allow_volatile: ▸true}
scanner: {driver: serial, port: ▸/dev/ttyACM1}
! a journal in memory is gone with the power
! /dev/ttyACM1 is a number
"""


def _nothing_more(loaded_: config.Config) -> config.Findings:
    yield from ()


@pytest.mark.parametrize("case", list(cases(WARNED, TABLE)), ids=lambda case: case.text.split("\n")[0])
def test_what_is_allowed_and_seldom_meant(case: Case, tmp_path: Path) -> None:
    """It is no error; bug reports 28 (names), 66."""
    path = tmp_path / "file.yaml"
    path.write_text(case.text, encoding="utf-8")
    assert errors(config.parse, case.text) == []
    found = [str(each).removeprefix(f"{path}:") for each in config.warnings(path, _nothing_more)]
    check(found, case.expected)


def test_a_file_with_errors_has_no_warnings(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    assert config.warnings(path, _nothing_more) == []
    path.write_text("storage: {allow_volatile: true}\n", encoding="utf-8")
    assert config.warnings(path, _nothing_more) == []


def test_the_machine_warns_at_a_keys_own_place(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(whole("scanner: {driver: serial, port: /dev/serial0}", TABLE), encoding="utf-8")
    found = config.warnings(path, lambda loaded_: iter([(("scanner", "port"), f"{loaded_.scanner.port} is busy")]))
    assert [str(each) for each in found] == [f"{path}:1:33: /dev/serial0 is busy"]


# As the page prints it, its `…` filled in where a value must be one.
DESIGN_8 = """
table:     {id: BAC-07, language: es}
profile:   seeds-commission            # config/profiles/*.yaml; or a path
procedure: {open_betting: dealer, betting_seconds: 15, confirm_result: dealer, confirm_seconds: 3,
            offline_rounds: refuse, idle_lock_minutes: 5}
gpio:      {pin_factory: gpiod}
scanner:   {driver: serial, port: /dev/serial/by-id/…, baud: 9600, codes: plain, cut_code: CUT, position: after_exit,
            rescan: same, repeat_ms: 0, max_pending: 2}   # serial | hid | none; codes: plain srr0 letter table
shoe:      {driver: gpio, exit_inner: 17, exit_outer: 27, cut: 22, lid: 23, present: 18}            # gpio | head | none
lamps:     {driver: gpio, timer: [5, 6, 13, 19], red: 26, call: 14}                                 # gpio | none
buzzer:    {driver: gpio, pin: 12}
buttons:   {driver: gpio, start: 16, confirm: 20, call: 21, key: 4}
display:   {driver: ssd1309, interface: i2c, bus: 1, address: 0x3C, rotate: 0}      # ssd1306 ssd1309 sh1106 | none
casino:
  primary: mqtt
  receipt: server
  link_grace_seconds: 3
  mqtt:    {host: broker.example, port: 8883, prefix: baccarat, tls: {ca: /etc/…, cert: /etc/…, key: /etc/…},
            username: …, password_file: /etc/…, server_status: casino/status}
  serial:  {port: /dev/serial/by-id/casino, baud: 115200}
  file:    {path: /var/lib/baccarat-table/feed.jsonl}
storage:   {path: /var/lib/baccarat-table, allow_volatile: false}
control:   {socket: /run/baccarat-table/control.sock}
"""


def test_the_example_of_the_design() -> None:
    found = config.parse(DESIGN_8.encode(), "file.yaml")
    assert found.table.id == "BAC-07"
    assert found.lamps.timer == (5, 6, 13, 19)
    assert found.display.address == 60
    assert found.casino.mqtt is not None
    assert found.casino.mqtt.tls is not None
    assert found.casino.mqtt.tls.ca == "/etc/…"
    assert config.procedure_of(found) == Procedure(receipts=True, sensors=True)


PROCEDURES = {
    "": Procedure(receipts=False),
    "casino: {primary: serial, serial: {port: /p}, link_grace_seconds: 7}": Procedure(link_grace_seconds=7),
    "procedure: {open_betting: none, confirm_result: none}\nscanner: {max_pending: 3}": Procedure(
        open_betting=Opens.NONE, confirm_result=Confirms.NONE, receipts=False, max_pending=3
    ),
    "scanner: {position: in_shoe, rescan: none}\nshoe: {driver: head, port: /h}": Procedure(
        receipts=False, sensors=True, position=Position.IN_SHOE, rescan=Rescan.NONE
    ),
    "procedure: {betting_seconds: 20, confirm_result: auto, confirm_seconds: 4, offline_rounds: allow}\n"
    "shoe: {driver: head, port: /h}\ncasino: {primary: mqtt, mqtt: {host: b, port: 1883}}": Procedure(
        betting_seconds=20, confirm_result=Confirms.AUTO, confirm_seconds=4, offline_rounds=True, sensors=True
    ),
}


@pytest.mark.parametrize(("text", "expected"), PROCEDURES.items())
def test_procedure_of(text: str, expected: Procedure) -> None:
    assert config.procedure_of(loaded(text)) == expected


def test_the_sensor_head_is_offered_the_one_speed_that_it_speaks() -> None:
    """`firmware/protocol/head.toml` has it; the firmware is built for it."""
    assert get_args(Shoe.model_fields["baud"].annotation) == (messages.BAUD,)
    assert loaded("shoe: {driver: head, port: /h}").shoe.baud == messages.BAUD


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        loaded().table.id = "X"


PIP = f"{sys.executable} -m pip install"
INSTALL = f"install it, in a checkout of this version: {PIP} --require-hashes -r requirements/pi.txt"
PACKAGES = """
buzzer: {driver: none, pin: 5}

gpio: {pin_factory: ▸gpiod}
buzzer: {driver: ▸gpio, pin: 5}
! gpiod needs the package gpiod: INSTALL
! its pins need the package gpiozero: INSTALL

gpio: {pin_factory: ▸mock}
buttons: {driver: ▸gpio, start: 5, confirm: 6, call: 7}
! mock needs the package gpiod
! its pins need the package gpiozero

gpio: {pin_factory: ▸▸rpigpio}
lamps: {driver: ▸gpio, timer: [5], red: 6}
! rpigpio needs the package RPi.GPIO: PIP RPi.GPIO, or write gpiod
! rpigpio needs the package gpiod
! its pins need the package gpiozero

gpio: {pin_factory: rpigpio}

shoe: {driver: ▸gpio, exit_inner: 17, exit_outer: 27}
! driver gpio needs the package gpiod

display: {driver: ▸▸sh1106, interface: spi, dc: 24, reset: 25}
gpio: {pin_factory: ▸gpiod}
! its pins need the package gpiozero
! the display needs the package luma.oled
! gpiod needs the package gpiod

display: {driver: ▸sh1106}
! the display needs the package luma.oled: INSTALL
""".replace("INSTALL", INSTALL).replace("PIP", PIP)


@pytest.mark.parametrize("case", list(cases(PACKAGES, TABLE)), ids=lambda case: case.text.split("\n")[0])
def test_packages_that_are_missing_are_named(tmp_path: Path, case: Case) -> None:
    """DESIGN 3: choosing what is not installed is a configuration error that names the package."""
    path = tmp_path / "table.yaml"
    path.write_text(case.text)
    asked: list[str] = []

    def has_none(module: str) -> bool:
        asked.append(module)
        return False

    problems = sorted(config.check_packages(path, config.load(path), has_none))
    check([str(problem).removeprefix(f"{path}:") for problem in problems], case.expected)
    assert len(asked) == len(problems)
    assert config.check_packages(path, config.load(path), lambda _: True) == []


def test_packages_are_looked_for_in_this_python() -> None:
    assert table.is_installed("yaml")
    assert table.is_installed("xml.dom")
    assert not table.is_installed("no_such_module_anywhere")
    assert not table.is_installed("no_such_package_anywhere.inside")
