"""Strict YAML (bug_reports 65-67): each scalar is what it looks like or an error, and no file does harm."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import config
from controller.core.cards import DECK
from tests.config.cases import TABLE, Case, cases, check, errors, whole

# As table.id: the text it is, or None where it is refused.
SCALARS: tuple[tuple[str, str | None], ...] = (
    ("BAC-07", "BAC-07"),
    ('"010"', "010"),
    ("'08'", "08"),
    ('"no"', "no"),
    ('"1.5"', "1.5"),
    ("8H", "8H"),
    ("1.2.3", "1.2.3"),
    ("07a", "07a"),
    ("nope", "nope"),
    ("on-1", "on-1"),
    ("no", None),
    ("No", None),
    ("NO", None),
    ("off", None),
    ("on", None),
    ("yes", None),
    ("y", None),
    ("N", None),
    ("True", None),
    ("true", None),
    ("null", None),
    ("Null", None),
    ("~", None),
    ("", None),
    ("010", None),
    ("08", None),
    ("007", None),
    ("7", None),
    ("-7", None),
    ("+7", None),
    ("1_000", None),
    ("0x1F", None),
    ("0X1F", None),
    ("0o17", None),
    ("0b11", None),
    ("1e3", None),
    ("1.5", None),
    (".5", None),
    ("5.", None),
    (".inf", None),
    ("-.Inf", None),
    (".NaN", None),
    ("12:30", None),
    ("12:30:45", None),
    ("1:2.5", None),
    ("2026-11-29", None),
    ("2026-11-29T21:04:05Z", None),
    ("2026-11-29 21:04", None),
    ("=", None),
    ("<<", None),
    ("99999999999999999999", None),
    ("!!str 7", None),
    ("! x", None),
    ("&a x", None),
    ("*a", None),
    ("[x]", None),
    ("{x: z}", None),
    ('"\\ud800"', None),
    ('"\\U00110000"', None),
    ('"a\\tb"', None),
)


@pytest.mark.parametrize(("scalar", "meant"), SCALARS)
def test_a_scalar_is_what_it_looks_like_or_an_error(scalar: str, meant: str | None) -> None:
    text = whole(f"table:\n  id: {scalar}\n", TABLE)
    if meant is None:
        (error,) = errors(config.parse, text)
        assert re.match(r"2:[2-9]: |1:1: an escape", error), error
        assert not re.search(r"pydantic|input|instance|NoneType", error), error
    else:
        assert config.parse(text.encode(), "file.yaml").table.id == meant


def test_every_key_is_text() -> None:
    """A code table's keys are the scanner's codes, as they are written."""
    codes = ("010", "no", "12:30", "0x3", "1e3", *(f"{1000 + index}" for index in range(5, 52)))
    rows = "".join(f"      {code}: {card}\n" for code, card in zip(codes, DECK, strict=True))
    read = config.parse(whole(f"scanner:\n  codes:\n    table:\n{rows}", TABLE).encode(), "file.yaml").scanner.codes
    assert not isinstance(read, str)
    assert read.table == dict(zip(codes, map(str, DECK), strict=True))


REFUSED = """
gpio: {pin_factory: mock}
▸---
table: {}
! a second document

▸%YAML 1.1
---
gpio: {pin_factory: mock}
! a % directive

storage: ▸&a {path: /x}
control: ▸*a
! &a is a YAML anchor
! *a is a YAML alias

▸<<: {gpio: {}}
! a key must be plain text

? ▸[a]
: b
! a key must be plain text

▸&k gpio: {}
! a key must be plain text

▸"gp\\x07io": {}
! this text holds a line break or a control character

storage:
  path: ▸|
    /x
    /y
! this text holds a line break

storage: {path: /x▸: /y}
! not YAML here or just above: while parsing a flow mapping

storage:
  path: /x▸: /y
! not YAML here or just above: mapping values are not allowed here. Put text that holds a colon in quotes

storage:
  path: /x
 ▸allow_volatile: true
! not YAML here or just above: while parsing a block mapping

storage: ▸@x
! not YAML here or just above: while scanning for the next token

gpio: {}
▸gpio: {pin_factory: ▸010}
! 'gpio' is given twice, first in line 1
! 010: readers differ on this number: write it plainly

gpio: {pin_factory: mock, ▸pin_factory: gpiod}
! 'pin_factory' is given twice, first in line 1: keep one of them

lamps:
  driver: none
  red: 26
  ▸driver: none
  ▸red: 25
! 'driver' is given twice, first in line 2
! 'red' is given twice, first in line 3

casino: {primary: mqtt, mqtt: {host: b, port: 1883, tls: {ca: /a, ▸ca: /b}}}
! 'ca' is given twice, first in line 1
"""


@pytest.mark.parametrize("case", list(cases(REFUSED, TABLE)), ids=lambda case: case.text.split("\n")[0])
def test_yaml_that_is_refused(case: Case) -> None:
    check(errors(config.parse, case.text), case.expected)


BYTES: tuple[tuple[bytes, tuple[str, ...]], ...] = (
    (b"", ("1:1: is empty",)),
    (b"# nothing\n", ("1:1: is empty",)),
    (b"---\n", ("2:1: YAML reads this as nothing", "2:1: must be a group of keys")),
    (b"- a\n", ("1:1: must be a group of keys",)),
    (b"text\n", ("1:1: must be a group of keys",)),
    (b"table: \xff\n", ("1:8: byte 0xFF is not UTF-8",)),
    (b"\xef\xbb\xbf#\n\xc3\xb1: \xc3(\n", ("2:4: byte 0xC3 is not UTF-8",)),
    (b"a: \0\n", ("1:4: character U+0000 is not allowed",)),
    (b"a: [1, 2\nb: 3\n", ("2:2: not YAML here or just above",)),
    (b'a: "b\n', ("2:1: not YAML here or just above",)),
    (b"a:\t1\n\tb: 1\rc: 2\n", ("1:3: a tab", "2:1: a tab", "2:3: not YAML", "2:6: a carriage return")),
    ("a: b\u2028\n".encode(), ("1:1: 'casino'", "1:1: 'profile'", "1:1: 'table'", "1:1: unknown", "1:5: a line sep")),
    (b"a: " + b"[" * 100_000, ("1:16: nested more than 12 deep",)),
    (b"".join(b" " * n + b"a:\n" for n in range(300)), ("14:14: nested more than 12 deep",)),
)


@pytest.mark.parametrize(("data", "expected"), BYTES)
def test_bytes_that_are_refused(data: bytes, expected: tuple[str, ...]) -> None:
    check(errors(config.parse, data), expected)


def test_windows_line_ends_and_a_byte_order_mark_are_no_error() -> None:
    text = whole("gpio: {pin_factory: mock}", TABLE)
    assert errors(config.parse, b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()) == []


def test_an_alias_bomb_is_refused_and_never_unfolded() -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 30))
    found = errors(config.parse, "l0: &l0 [x, x]\n" + levels)
    assert sum("is a YAML alias" in line for line in found) == 29 * 9


def test_a_file_indented_with_tabs_is_not_told_a_thousand_times() -> None:
    assert sum(": a tab" in line for line in errors(config.parse, "a:\n" + "\tb: 1\n" * 1_000)) == 20


@pytest.mark.parametrize("name", ["missing.yaml", "directory", "nul\0.yaml", "huge.yaml"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "huge.yaml").write_bytes(b"#" * 300_000)
    for load in (config.load, config.confighash, lambda path: config.load_profile(str(path), tmp_path)):
        with pytest.raises(config.ConfigError) as caught:
            load(tmp_path / name)
        (problem,) = caught.value.errors
        assert (problem.file, problem.line) == (str(tmp_path / name), 0)
        assert re.search(r"cannot be read: \w+|larger than 256 KiB|no such profile", problem.text)
        assert str(caught.value) == f"{tmp_path / name}: {problem.text}"


@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_no_bytes_do_harm(data: bytes) -> None:
    assert errors(config.parse, data), "a few bytes are no configuration"


@given(st.text(alphabet="ab:-?*&!%@[]{},#|>'\"\\\n x0U_~=<.", max_size=60))
def test_no_text_of_signs_does_harm(text: str) -> None:
    assert errors(config.parse, text)
