"""One key set in a file that people write: the key changes, and no comment is lost. And a configuration as a file."""

import io
import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from controller import config
from controller.config import ConfigError, edit
from controller.config.models import Config
from controller.config.tree import Value, read_tree
from tests.config.cases import TABLE, Case, cases, whole
from tests.config.test_table import AGREE

ROOT = Path(__file__).parents[2]
SHIPPED = (ROOT / "config" / "table.yaml").read_bytes()


class Edit(NamedTuple):
    """The lines of `before` that go, and those that come in their place."""

    key: str
    value: str
    goes: str
    comes: str
    was: Value | None


BEFORE = """
# The table in the corner.
table: {id: BAC-07, language: es} # its plate

procedure:
  open_betting: dealer # INICIO
  betting_seconds: 15   # as the house states it
  #confirm_seconds: 3 # for auto

  # Lamps come next.
lamps:
  driver: none # gpio | none
  #timer: [5, 6] # the bar
  #red: 26

scanner:
  driver: serial
  port: "/dev/serial/by-id/usb-x" # two have this name
  codes:
    table:
      "1010": AS # ace
      "2010": 2S
shoe: {driver: gpio, exit_inner: 17,
       exit_outer: 27} # both
casino:
  primary: file
  file:
    path: /f # a line each

  # Commands.
  #command_keys:
  #  - {keyid: a}
  command_keys:
    - {keyid: 0123456789abcdef} # the first
# The end.
"""

EDITS = [
    Edit("procedure.betting_seconds", "20", "  betting_seconds: 15   #", "  betting_seconds: 20   #", 15),
    Edit("procedure.confirm_seconds", "5", "  #confirm_seconds: 3 # for auto", "  confirm_seconds: 5 # for auto", None),
    Edit("table.language", "en", "language: es}", "language: en}", "es"),
    Edit("table.id", '"010"', "{id: BAC-07,", '{id: "010",', "BAC-07"),
    Edit("lamps.timer", "[5]", "  #timer: [5, 6] # the bar", "  timer: [5]    # the bar", None),
    Edit("lamps.call", "14", "  #red: 26\n", "  #red: 26\n", None),
    Edit("scanner.port", "/dev/x", 'port: "/dev/serial/by-id/usb-x" #', 'port: "/dev/x" ', "/dev/serial/by-id/usb-x"),
    Edit("scanner.codes.table.1010", "KD", '"1010": AS #', '"1010": KD #', "AS"),
    Edit("scanner.codes.table.3010", "3S", '"2010": 2S\n', '"2010": 2S\n', None),
    Edit("casino.mqtt.tls.ca", "/ca", "    path: /f # a line each\n", "    path: /f # a line each\n", None),
    Edit(
        "casino.command_keys.0.keyid", "b", "{keyid: 0123456789abcdef}", "{keyid: b}               ", "0123456789abcdef"
    ),
    Edit("storage.path", "/j", "# The end.\n", "# The end.\n", None),
    Edit("scanner.repeat_ms", "0x10", "scanner:\n", "scanner:\n", None),
]


def comments(text: str) -> list[str]:
    return re.findall(r"(?:^|\s)(#.*)$", text, re.MULTILINE)


@pytest.mark.parametrize("one", EDITS, ids=lambda one: one.key)
def test_one_key_is_set_and_everything_else_stands(one: Edit) -> None:
    """The tree is held against what PyYAML, which is no part of the editor, makes of both texts."""
    assert BEFORE.count(one.goes) == 1
    new, was = edit.changed(BEFORE.encode(), "t.yaml", one.key, one.value)
    text = new.decode()
    assert one.comes in text
    assert was == one.was
    wanted = yaml.safe_load(BEFORE)
    *groups, name = one.key.split(".")
    node = wanted
    for part in groups:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    node[name] = yaml.safe_load(one.value)
    assert yaml.safe_load(text) == wanted
    kept = comments(BEFORE)
    off = f"#{name}:"
    assert [each for each in kept if each not in comments(text) and not each.startswith(off)] == []
    twice, again = edit.changed(new, "t.yaml", one.key, one.value)
    assert (twice.decode(), again) == (text, wanted_value(one.value)), "set twice it is the same file"


def wanted_value(text: str) -> Value:
    tree, _ = read_tree(f"x: {text}".encode(), "")
    return tree.root["x"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("procedure.betting_seconds", "010", "the new value: 010: readers differ on this number"),
        ("procedure.betting_seconds", "", "the new value: YAML reads this as nothing"),
        ("table.id", "no", "the new value: no: some readers take this for yes or no"),
        ("table.id", "a: b", "the new value: not YAML here"),
        ("table.id", "a\nb: 1", "the new value: 'a\\nb: 1' must stand on one line"),
        ("table.id", "[1", "the new value: not YAML here"),
        ("table.id", "*a", "the new value: *a is a YAML alias"),
        ("table.id", "!!str a", "the new value: tag:yaml.org,2002:str is a YAML tag"),
        ("table.id.x", "1", "t.yaml:3:13: table.id.x: table.id is no group of keys"),
        ("casino.command_keys.1.keyid", "a", "there is no item '1': the first one is 0"),
        ("casino.command_keys.x", "a", "there is no item 'x': the first one is 0"),
        ("casino.file", "{path: /g}", "casino.file cannot be set without losing comments"),
        ("table.", "a", "table.: table is no group of keys"),
    ],
)
def test_what_cannot_be_set(key: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        edit.changed(BEFORE.encode(), "t.yaml", key, value)
    assert said in str(error.value)


def test_a_file_with_errors_is_not_edited() -> None:
    with pytest.raises(ConfigError, match=r"t.yaml:1:13: 010: readers differ"):
        edit.changed(b"table: {id: 010}\n", "t.yaml", "table.id", "B1")


def leaves(node: Value, key: str = "") -> list[tuple[str, Value]]:
    if not isinstance(node, dict):
        return [(key, node)]
    return [leaf for name, value in node.items() for leaf in leaves(value, f"{key}.{name}" if key else name)]


def test_every_key_of_the_shipped_file_is_set_and_its_comments_stay() -> None:
    tree, _ = read_tree(SHIPPED, "t")
    for key, value in leaves(tree.root):
        new, was = edit.changed(SHIPPED, "t", key, f'"{key}"')
        assert was == value
        assert sorted(comments(new.decode())) == sorted(comments(SHIPPED.decode())), key
        assert len(new.splitlines()) == len(SHIPPED.splitlines()), "no other line moves"


def test_every_key_that_is_off_in_the_shipped_file_is_switched_on_where_it_stands() -> None:
    lines, group, found = SHIPPED.decode().splitlines(), "", 0
    for number, line in enumerate(lines):
        group = re.sub(r":.*", "", line) if re.match(r"[a-z]", line) else group
        off = re.match(r"  #(\w+): (?!#)(.+?)(?: #|$)", line)
        if off is None:
            continue
        found += 1
        new, was = edit.changed(SHIPPED, "t", f"{group}.{off[1]}", off[2])
        after = new.decode().splitlines()
        assert was is None
        assert after[number].replace(" ", "") == line.replace("#", "", 1).replace(" ", "")
        assert [*after[:number], *after[number + 1 :]] == [*lines[:number], *lines[number + 1 :]]
    assert found > 12


LAYOUTS = {  # how else people write, and what must still read the same: indentation, dashes, no last line end, BOM
    "four spaces": "a:\n    b:\n        c: 1 # c\n    d: 2\n",
    "dashes at the key": "a:\n  b: 1\nl:\n- {x: 1} # one\n- {x: 2}\n",
    "no last line end": "a:\n  b: 1",
    "BOM": "\ufeffa: {b: 1}\n",
    "lines that end with CR": "a:\r\n  b: 1 # c\r\n",
}


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_other_layouts(text: str) -> None:
    new, _ = edit.changed(text.encode(), "t", "a.new", "7")
    after = new.decode()
    wanted = yaml.safe_load(text)
    wanted["a"]["new"] = 7
    assert yaml.safe_load(after) == wanted
    assert [line for line in text.removeprefix("\ufeff").splitlines() if line not in after.splitlines()] in (
        [],
        ["a: {b: 1}"],
    )


# --- the whole of it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", list(cases(AGREE, TABLE)), ids=lambda case: case.text.split("\n")[0])
def test_what_is_shown_reads_as_the_same_configuration(case: Case) -> None:
    loaded = config.parse(case.text.encode(), "t")
    assert config.parse(edit.dump(loaded).encode(), "t") == loaded


TRICKY = ["010", "12:30", "no", "0x1F", "1e3", "2026-11-30", "null", "a #b", "- a", "'", '"', "é", "*a", "a: b", "{"]


@given(st.sampled_from(TRICKY) | st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1, max_size=12))
def test_text_that_looks_like_something_else_is_shown_in_quotes(text: str) -> None:
    _, problems = read_tree(f"x: {json.dumps(text)}".encode(), "t")
    assume(not problems)  # what no file of ours may hold is in no configuration
    out = io.StringIO()
    edit._yaml().dump(edit._plain({"x": text}), out)
    tree, problems = read_tree(out.getvalue().encode(), "t")
    assert (tree.root, problems) == ({"x": text}, [])


def test_every_default_is_shown() -> None:
    loaded = config.parse(whole("", TABLE).encode(), "t")
    shown = yaml.safe_load(edit.dump(loaded))
    assert set(shown) == set(Config.model_fields)
    assert shown["procedure"]["betting_seconds"] == 15
    assert "address: 0x3C" in edit.dump(loaded)
    assert shown == edit.values(loaded)
