"""The rules of the firmware's C: its rings, the length of a line and of a function, nothing that has no bound."""

import re
from pathlib import Path

import pytest

from firmware.sim.bench import FIRMWARE

SOURCES = sorted(path for folder in ("src", "test", "sim") for path in (FIRMWARE / folder).glob("*.[ch]"))
FIRM = [path for path in SOURCES if path.parent.name == "src"]
REGISTERS = {"hal.c", "board.h", "reset.c"}  # what may know them
CHIP = REGISTERS | {"hal.h", "main.c"}  # what may ask those
LINE, SCREEN = 120, 60
FUNCTION = re.compile(
    r"^(?!#|struct|enum|union|typedef)\w[^;{}=]*\([^;{}=]*\)\s*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL
)
UNBOUNDED = re.compile(r"\b(malloc|calloc|realloc|free|alloca|goto|setjmp|sprintf|strcpy|strcat)\b")


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_line_has_120_columns_and_a_function_one_screen(path: Path) -> None:
    text = path.read_text()
    assert [line for line in text.splitlines() if len(line) > LINE] == []
    functions = FUNCTION.findall(text)
    assert functions or path.suffix == ".h"
    assert [body[:80] for body in functions if body.count("\n") > SCREEN] == []


@pytest.mark.parametrize("path", FIRM, ids=name)
def test_only_the_hardware_layer_knows_registers(path: Path) -> None:
    included = set(re.findall(r'#include ["<](.+)[">]', path.read_text()))
    assert path.name in REGISTERS or not {file for file in included if file.startswith(("avr/", "util/"))}
    assert path.name in CHIP or not included & {"hal.h", "board.h"}


@pytest.mark.parametrize("path", FIRM, ids=name)
def test_nothing_has_no_bound(path: Path) -> None:
    """Recursion, calls by pointer and the stack are the build's to find (bounds.py)."""
    code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    assert UNBOUNDED.findall(code) == []
