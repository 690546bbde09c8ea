"""The pin map, the harnesses, table.yaml, the boot lines, the parts and the pages say one thing. Bug report 66."""

import csv
import re
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from controller.config import ConfigError, models, table
from tests.harness import HARDWARE, PAGE, ROOT, Harness, Joint, Pin, harness, page, pins, read, sources, stamp

# The 40-pin header as Raspberry Pi prints it: pin 1 and 2, 3 and 4, … ; a number is a GPIO.
HEADER = (
    "3V3 5V 2 5V 3 GND 4 14 GND 15 17 18 27 GND 22 23 3V3 24 10 GND "
    "9 25 11 8 GND 7 0 1 5 GND 6 12 13 GND 19 16 26 20 GND 21"
)
ON_HEADER = {number: f"GPIO{what}" if what.isdigit() else what for number, what in enumerate(HEADER.split(), start=1)}
POWER = {"3V3", "5V", "GND", "12V", "COM"}

PINS = pins()
HARNESSES = {path.stem: harness(path) for path in sources()}
ROWS = {pin.key: pin for pin in PINS}


def test_there_is_a_harness_for_each_part_of_the_table() -> None:
    assert set(HARNESSES) == {"sensors", "lamps", "buzzer", "buttons", "panel", "scanner", "head"}


# --- the pin map ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.key)
def test_a_pin_is_where_the_header_has_it(pin: Pin) -> None:
    assert ON_HEADER[pin.header] == f"GPIO{pin.bcm}"
    assert (
        pin.direction in ("in", "out", "bus") and pin.pull in ("up", "down", "none") and pin.active in ("high", "low")
    )
    group = pin.key.split(".", 1)[0]
    held = {"shoe": "up", "buttons": "up", "lamps": "down", "buzzer": "down"}  # a lamp is off, a contact open (G10)
    assert pin.pull == held.get(group, pin.pull)
    assert pin.direction in ({"up": ("in",), "down": ("out",)}[held[group]] if group in held else ("out", "bus"))


def test_the_errors_of_table_yaml_count_pins_as_the_header_has_them() -> None:
    gpios = {number: what for number, what in ON_HEADER.items() if what not in POWER}
    assert {number: f"GPIO{gpio}" for gpio, number in enumerate(models.HEADER)} == gpios


def test_a_pin_has_one_use() -> None:
    for column in ("key", "bcm", "header", "at"):
        assert [value for value, count in Counter([getattr(pin, column) for pin in PINS]).items() if count > 1] == []


PIN_KEYS = {**table._PINS, "display": ("dc", "reset")}


def pins_of_table(text: str) -> dict[str, int]:
    """The pins in table.yaml, switched off by a # or not: key and GPIO number."""
    found: dict[str, int] = {}
    group = ""
    for line in text.splitlines():
        if heading := re.match(r"(\w+):", line):
            group = heading[1]
        entry = re.match(r" +#?(\w+): (?:(\d+)|\[([\d, ]+)\])( |$)", line)
        if entry and entry[1] in PIN_KEYS.get(group, ()):
            if entry[2]:
                found[f"{group}.{entry[1]}"] = int(entry[2])
            else:
                found |= {f"{group}.{entry[1]}.{n}": int(pin) for n, pin in enumerate(entry[3].split(","))}
    return found


def test_table_yaml_has_the_pins_of_the_map() -> None:
    written = pins_of_table((ROOT / "config" / "table.yaml").read_text(encoding="utf-8"))
    keys = {key.rsplit(".", 1)[0] if key[-1].isdigit() else key for key in written}
    assert keys == {f"{group}.{key}" for group, keys in PIN_KEYS.items() for key in keys}
    assert written == {pin.key: pin.bcm for pin in PINS if not pin.key.startswith(("i2c", "spi"))}


def test_the_boot_lines_hold_the_lamps_off_and_the_contacts_up() -> None:
    text = (HARDWARE / "config.txt").read_text(encoding="utf-8")
    lines = dict(re.findall(r"^gpio=([\d,]+)=(\w+,\w+)$", text, re.MULTILINE))
    held = {state: {int(number) for number in numbers.split(",")} for numbers, state in lines.items()}
    assert held == {
        "op,dl": {pin.bcm for pin in PINS if pin.pull == "down"},
        "ip,pu": {pin.bcm for pin in PINS if pin.direction == "in"},
    }
    assert "dtparam=i2c_arm=on,i2c_arm_baudrate=400000\n" in text and "enable_uart=0\n" in text


def test_the_scanners_page_names_what_must_give_way_to_the_uart() -> None:
    text = (ROOT / "docs/devices/scanner.md").read_text(encoding="utf-8")
    (line,) = [one for one in text.split("\n* ") if "Header's UART" in one]
    assert set(re.findall(r"`(lamps\.\w+)`", line)) == {pin.key for pin in PINS if pin.bcm in (14, 15)}
    assert "`enable_uart=1`" in line


# --- the harnesses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wired", HARNESSES.values(), ids=HARNESSES)
def test_the_labels_of_the_header_are_right(wired: Harness) -> None:
    for (name, number), label in wired.labels.items():
        if name in ("X1", "X1S"):
            assert label == ON_HEADER[int(number)]


def end_of(pin: Pin) -> tuple[str, str]:
    """What the wire of a pin must come to: the kind of its device, and the label of the pin there."""
    group, name = pin.key.split(".", 1)
    labels = {"sda": "SDA", "scl": "SCL", "sclk": "SCLK", "mosi": "MOSI", "ce0": "CS", "dc": "DC", "reset": "RES"}
    if group in ("lamps", "buzzer"):
        return (name if group == "lamps" else pin.key), "−"
    if group == "shoe":
        return name, "NO" if name == "lid" else "OUT"
    return (name, "A") if group == "buttons" else ("panel", labels[name])


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.key)
def test_a_wire_leads_from_the_header_to_its_device(pin: Pin) -> None:
    """From the header's pin to the plug that the map names; through the driver, whose OUT n is IN n; to the device."""
    found = False
    for wired in HARNESSES.values():
        for start in (("X1", str(pin.header)), ("X1S", str(pin.header))):
            if start not in wired.labels:
                continue
            found = True
            name, number = pin.at.split(".")
            net = wired.reached(start)
            assert (name, number) in net
            if name == "A1":
                assert wired.labels[name, number] == f"IN{number}"
                out = (name, str(19 - int(number)))  # a ULN2803A has each output across from its input
                assert wired.labels[out] == f"OUT{number}"
                net = wired.reached(out)
            elif name in ("J1", "J4"):
                assert wired.labels[name, number] == pin.key.split(".")[1]
            assert end_of(pin) in {(wired.kinds[name], wired.labels[name, number]) for name, number in net}
    assert found


def nets(wired: Harness) -> list[set[Joint]]:
    found: list[set[Joint]] = []
    for joint in wired.labels:
        if not any(joint in net for net in found):
            found.append(wired.reached(joint))
    return found


@pytest.mark.parametrize("wired", HARNESSES.values(), ids=HARNESSES)
def test_no_net_joins_two_things_that_must_not_meet(wired: Harness) -> None:
    """At most one GPIO in a net, and none with a supply; no two supplies but 12 V and the driver's COM."""
    for net in nets(wired):
        labels = {wired.labels[joint] for joint in net}
        gpio = {label for label in labels if label.startswith("GPIO")}
        supplies = {"12V" if label == "COM" else label for label in labels & POWER}
        assert len(gpio) + len(supplies) <= 1, sorted(labels)


def supply_of(wired: Harness, joint: Joint) -> set[str]:
    return {wired.labels[other] for other in wired.reached(joint)} & (POWER - {"COM"})


SUPPLIED = {  # the harness, a label of its devices, and what it must be joined to
    "sensors": {"+": {"5V"}, "−": {"GND"}, "C": {"GND"}},
    "lamps": {"+": {"12V"}, "COM": {"12V"}, "GND": {"GND"}},
    "buzzer": {"+": {"12V"}, "COM": {"12V"}, "GND": {"GND"}},
    "buttons": {"B": {"GND"}},
    "panel": {"VCC": {"3V3"}, "GND": {"GND"}},
    "scanner": {"5V": {"5V"}, "GND": {"GND"}, "0V": {"GND"}},
    "head": {"5V": {"5V"}, "GND": {"GND"}, "A": {"5V"}, "E": {"GND"}, "S": {"GND"}, "C": {"GND"}},
}


@pytest.mark.parametrize("name", SUPPLIED)
def test_every_device_has_its_supply(name: str) -> None:
    wired, found = HARNESSES[name], set()
    for joint, label in wired.labels.items():
        if label in SUPPLIED[name]:
            assert supply_of(wired, joint) == SUPPLIED[name][label], joint
            found.add(label)
    assert found == set(SUPPLIED[name])


def test_each_sensor_is_set_to_conduct_with_light() -> None:
    wired = HARNESSES["sensors"]
    lines = [joint for joint, label in wired.labels.items() if label == "L"]
    assert len(lines) == 4
    assert all((name, "1") in wired.reached((name, number)) for name, number in lines)


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.stem)
def test_every_wire_of_a_cable_is_used_once(path: Path) -> None:
    tree = read(path)
    used: Counter[tuple[str, object]] = Counter()
    for row in tree["connections"]:
        for part in row:
            used.update((name, wire) for name, wires in part.items() if name in tree["cables"] for wire in wires)
    expected = {(name, n + 1) for name, cable in tree["cables"].items() for n in range(cable["wirecount"])}
    assert {wire for wire in used if wire[1] != "s"} == expected and set(used.values()) == {1}


def test_a_pin_of_the_header_is_in_one_harness() -> None:
    """The panel's two ways, I²C and SPI, apart."""
    for one, other in combinations(HARNESSES.values(), 2):
        ours = {number for name, number in one.labels if name in ("X1", "X1S")}
        assert ours & {number for name, number in other.labels if name in ("X1", "X1S")} == set()


# --- the pictures -----------------------------------------------------------------------------------------


def words_of(picture: Path) -> set[str]:
    root = ET.parse(picture).getroot()
    return {" ".join("".join(node.itertext()).split()) for node in root.iter("{http://www.w3.org/2000/svg}text")}


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.stem)
def test_the_picture_is_that_of_its_source(path: Path) -> None:
    assert stamp(path) in path.with_suffix(".svg").read_text(encoding="utf-8"), "run: make docs"
    words, wired = words_of(path.with_suffix(".svg")), harness(path)
    assert {name for name, _ in wired.labels} | set(wired.labels.values()) | set(wired.kinds.values()) <= words


DISTANCES = (
    ("15 mm", "15 mm apart"),
    ("85 mm", "85 mm after"),
    ("10 mm", "10 mm from the card's edge"),
    ("4 mm: at rest", "ends 4 mm before"),
    ("4 mm: on the white", "4 mm from the other edge"),
)


def test_the_drawing_of_the_sensors_has_the_pages_distances() -> None:
    words = " ".join(words_of(HARDWARE / "placement.svg"))
    text = PAGE.read_text(encoding="utf-8")
    assert all(sensor in words for sensor in ("exit_inner", "exit_outer", "cut", "present", "lid", "scanner"))
    for drawn, told in DISTANCES:
        assert drawn in words and told in text
    assert {"8", "26"} <= words_of(HARDWARE / "placement.svg") and "8 mm before" in text and "26 mm further" in text


@pytest.mark.parametrize("line", ["pn: 0815", "pn: 08", "length: 1.5", "label: NO", "at: 12:30", "n: 1_000", "pn: 1e3"])
def test_bug_66_what_two_readers_take_for_two_things_is_found(tmp_path: Path, line: str) -> None:
    path = tmp_path / "loom.yml"
    path.write_text(f"connectors:\n  X1: {{type: x}}\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"loom\.yml:3"):
        read(path)


# --- parts and pages --------------------------------------------------------------------------------------

NOT_PARTS = {"X1S": "X1 again", "X2": "of the Pi", "X3": "with U2", "U2": "U1's other form", "P2": "with U2"}
NOT_PARTS |= {"J5": "D1", "J6": "D1", "U3A": "U3", "S10": "S5"}


def test_the_parts_list_has_every_part() -> None:
    with (HARDWARE / "BOM.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["ref", "quantity", "part", "requirement", "example", "alternatives"]
    assert all(all(row.values()) and None not in row for row in rows), "every column of every row"
    refs = [ref for row in rows for ref in row["ref"].split()]
    assert [ref for ref, count in Counter(refs).items() if count > 1] == []
    used = {name for wired in HARNESSES.values() for name in wired.kinds} - set(NOT_PARTS)
    assert used <= set(refs)
    for row in rows:
        if row["ref"][0] in "SHBK":
            assert int(row["quantity"]) == len(row["ref"].split())


def test_the_page_has_the_pin_map() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run: make docs"
