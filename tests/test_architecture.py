"""What the import contracts of pyproject.toml cannot see: what pure rings use, the size of functions, swallowed faults.

Each check takes a module's name and its tree, and yields its complaints. `SINS` shows what each one finds.
"""

import ast
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCREEN = 60  # lines

CORE = ("collections", "dataclasses", "decimal", "enum", "fractions", "functools", "itertools", "re", "typing")
PURE = {  # the pure rings, and what each may import of the standard library; the contracts see to the rest
    "controller.core": CORE,
    "controller.link": (*CORE, "binascii", "struct", "zlib"),  # frames have fields and checksums
    "controller.feed": (*CORE, "base64", "datetime", "hashlib", "json"),  # what a signed message is made of
}
OURS = {  # modules that may import these of ours and no other
    "controller.core.state": ("controller.core.cards", "controller.core.facts", "controller.core.profile"),
    "controller.cli": ("controller.cli", "controller.control.client", "controller.offline"),
}
STATE = ("collections.abc", "enum", "typing")
PRINTERS = ("controller.cli", "controller.daemon")
DOORS = ("__import__", "breakpoint", "compile", "eval", "exec", "globals", "input", "open", "print")
CLOCKS = ("now", "today", "utcnow")
BROAD = ("BaseException", "Exception")

Check = Callable[[str, ast.Module], Iterator[str]]


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def imported(module: str, tree: ast.Module) -> Iterator[str]:
    """The absolute dotted name of all that is imported, wherever it stands; a package's module ends in `__init__`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*package, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def libraries() -> tuple[str, ...]:
    """The third-party libraries to which the contracts give a home."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (homes,) = [contract for contract in contracts if "exactly one home" in contract["name"]]
    return tuple(homes["forbidden_modules"])


def pure_rings_import_from_a_list(module: str, tree: ast.Module) -> Iterator[str]:
    for ring, allowed in PURE.items():
        if within(module, (ring,)):
            for name in imported(module, tree):
                if not within(name, ("controller", *allowed)):
                    yield f"{name}: {ring} may import {', '.join(allowed)}"


def pure_rings_have_no_door(module: str, tree: ast.Module) -> Iterator[str]:
    if not within(module, tuple(PURE)):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in DOORS:
            yield f"line {node.lineno}: {node.id} in a pure ring"
        elif isinstance(node, ast.Attribute) and node.attr in CLOCKS:
            yield f"line {node.lineno}: {node.attr}: time is an argument"
        elif isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await):
            yield f"line {node.lineno}: a pure ring waits for nothing"
        elif isinstance(node, ast.Global):
            yield f"line {node.lineno}: global: a pure ring remembers nothing"


def some_modules_know_few_of_ours(module: str, tree: ast.Module) -> Iterator[str]:
    for owner, allowed in OURS.items():
        if within(module, (owner,)):
            for name in imported(module, tree):
                if within(name, ("controller",)) and not within(name, allowed):
                    yield f"{name}: {owner} may import {', '.join(allowed)}"


def state_knows_no_more_than_facts(module: str, tree: ast.Module) -> Iterator[str]:
    if module == "controller.core.state":
        for name in imported(module, tree):
            if not within(name, ("controller", *STATE)):
                yield f"{name}: state.py may import {', '.join(STATE)}"


def every_library_has_a_home(module: str, tree: ast.Module) -> Iterator[str]:
    for name in imported(module, tree):
        top = name.split(".")[0]
        if top not in (*sys.stdlib_module_names, "controller", *libraries()):
            yield f"{top}: give it its home in the contract of pyproject.toml"


def every_import_is_a_statement(module: str, tree: ast.Module) -> Iterator[str]:
    """No contract sees a module that is imported by a call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in ("__import__", "import_module"):
                yield f"line {node.lineno}: {name}: write an import statement"


def functions_fit_on_a_screen(module: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > SCREEN:
                yield f"line {node.lineno}: {node.name} has {lines} lines, more than {SCREEN}"


def only_programs_print(module: str, tree: ast.Module) -> Iterator[str]:
    if not within(module, PRINTERS):
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == "print":
                yield f"line {node.lineno}: print: only {' and '.join(PRINTERS)} print"


def no_fault_is_swallowed(module: str, tree: ast.Module) -> Iterator[str]:
    """Neither `except Exception: pass`, in any spelling, nor `contextlib.suppress(Exception)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            kinds, silent = [node.type], all(isinstance(line, ast.Pass | ast.Continue | ast.Expr) for line in node.body)
            silent = silent and not any(isinstance(part, ast.Call) for line in node.body for part in ast.walk(line))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            kinds, silent = [*node.args], True
        else:
            continue
        kinds = [part for kind in kinds for part in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
        if silent and any(kind is None or ast.unparse(kind) in BROAD for kind in kinds):
            yield f"line {node.lineno}: a fault of any kind is swallowed"


def modules_say_what_they_are(module: str, tree: ast.Module) -> Iterator[str]:
    if not ast.get_docstring(tree):
        yield "no docstring: open with one sentence, what the module is and what it refuses to do"


CHECKS: tuple[Check, ...] = (
    pure_rings_import_from_a_list,
    pure_rings_have_no_door,
    some_modules_know_few_of_ours,
    state_knows_no_more_than_facts,
    every_library_has_a_home,
    every_import_is_a_statement,
    functions_fit_on_a_screen,
    only_programs_print,
    no_fault_is_swallowed,
    modules_say_what_they_are,
)

FILES = sorted((ROOT / "controller").rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_module_keeps_the_rules(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [complaint for check in CHECKS for complaint in check(module_of(path), tree)] == []


def test_the_centre_is_among_the_modules_checked() -> None:
    assert {"controller.core.cards", "controller.core.state", "controller.ports"} <= {module_of(path) for path in FILES}


def lines_of(count: int) -> str:
    """A function of so many lines."""
    return "def f():\n" + "    x = 0\n" * (count - 1)


SINS: dict[Check, tuple[tuple[str, str, str], ...]] = {  # module, what it complains of, what it lets pass
    pure_rings_import_from_a_list: (
        ("controller.core.cards", "import random", "import functools"),
        ("controller.core.cards", "from time import monotonic", "from decimal import Decimal"),
        ("controller.core.cards", "import hashlib", "from collections.abc import Iterable"),
        ("controller.core.cards", "import zlib", "from . import profile"),
        ("controller.core.cards", "import yaml", "from .profile import Profile"),
        ("controller.core.cards", "def f():\n    import os", "def f():\n    import enum"),
        ("controller.core.__init__", "import asyncio", "from .cards import Card"),
        ("controller.link.frame", "import json", "import zlib"),
        ("controller.feed", "import time", "import json, hashlib"),
    ),
    pure_rings_have_no_door: (
        ("controller.core.cards", "print()", "x = values()"),
        ("controller.core.cards", "read = open", "import re\nx = re.compile('a')"),
        ("controller.core.cards", "__import__('time')", "x = __name__"),
        ("controller.core.cards", "async def f(): ...", "def f(): ..."),
        ("controller.core.cards", "def f():\n    global x\n    x = 1", "def f():\n    x = 1"),
        ("controller.feed", "x = datetime.now(UTC)", "x = datetime(1970, 1, 1, tzinfo=UTC)"),
        ("controller.link.frame", "eval('1')", "x = 1"),
    ),
    some_modules_know_few_of_ours: (
        ("controller.core.state", "from . import rules", "from . import facts as f"),
        ("controller.core.state", "from .rules import split", "from .cards import Card"),
        ("controller.core.state", "import controller.core.rules", "import enum"),
        ("controller.cli.main", "from ..control import server", "from ..control import client"),
        ("controller.cli.main", "from .. import config", "from .. import offline"),
        ("controller.cli.__init__", "from ..core import cards", "from .main import main"),
    ),
    state_knows_no_more_than_facts: (
        ("controller.core.state", "import functools", "from typing import NamedTuple"),
        ("controller.core.state", "from decimal import Decimal", "from collections.abc import Callable"),
    ),
    every_library_has_a_home: (
        ("controller.loop", "import requests", "import asyncio, yaml"),
        ("controller.loop", "from six.moves import map", "from ruamel.yaml import YAML"),
    ),
    every_import_is_a_statement: (
        ("controller.loop", "import importlib\nimportlib.import_module('x')", "import importlib.resources"),
        ("controller.loop", "__import__('serial')", "import serial"),
    ),
    functions_fit_on_a_screen: (
        ("controller.loop", lines_of(SCREEN + 1), lines_of(SCREEN)),
        ("controller.loop", "async " + lines_of(SCREEN + 1), "async " + lines_of(SCREEN)),
    ),
    only_programs_print: (
        ("controller.loop", "print(1)", "x.print(1)"),
        ("controller.adapters.memory", "show = print", "show = write"),
    ),
    no_fault_is_swallowed: (
        ("controller.loop", "try: f()\nexcept Exception: pass", "try: f()\nexcept OSError: pass"),
        ("controller.loop", "try: f()\nexcept: ...", "try: f()\nexcept Exception: raise"),
        ("controller.loop", "try: f()\nexcept (OSError, Exception): 'why'", "try: f()\nexcept Exception: g()"),
        ("controller.loop", "for x in y:\n  try: f()\n  except BaseException: continue", "f()"),
        ("controller.loop", "with suppress(Exception): f()", "with suppress(OSError): f()"),
    ),
    modules_say_what_they_are: (("controller.loop", "x = 1", '"""The heartbeat."""'),),
}


def test_every_check_has_a_sin() -> None:
    assert set(SINS) == set(CHECKS)


@pytest.mark.parametrize(
    ("check", "module", "sin", "right"), [(check, *case) for check, cases in SINS.items() for case in cases]
)
def test_check_finds_the_sin_and_lets_the_right_pass(check: Check, module: str, sin: str, right: str) -> None:
    assert list(check(module, ast.parse(sin)))
    assert list(check(module, ast.parse(right))) == []


@pytest.mark.parametrize("module", ["controller.daemon", "controller.cli.main"])
def test_programs_print(module: str) -> None:
    assert list(only_programs_print(module, ast.parse("print(1)"))) == []
