"""docs/schemas as a judge of bytes: what casino IT builds on, written apart from the code.

`validate` for messages of the feed, `validate_as` for what goes beside it. Each gives the tree it read; ValueError
where the bytes are not as every message's are, jsonschema.ValidationError where a schema says no.

Two validators read the schemas. The fast one says yes or no, so that every message of every test can be looked at
(`conftest`); the other one says what is wrong, and they must not differ.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"
SIGNED = re.compile(rb'\{.+\},"signature":"[A-Za-z0-9_-]{86}"\}', re.DOTALL)


@cache
def schemas() -> dict[str, Any]:
    """Every schema by the name of its file."""
    return {path.name: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}


@cache
def validator(name: str) -> Draft202012Validator:
    resources = [(each, Resource.from_contents(schema)) for each, schema in schemas().items()]
    return Draft202012Validator(schemas()[name], registry=Registry().with_resources(resources))


BASE = "https://schemas.invalid/"  # so that the files' relative names lead to each other; nothing is fetched


@cache
def _registry() -> jsonschema_rs.Registry:
    return jsonschema_rs.Registry([(BASE + name, schema) for name, schema in schemas().items()])


@cache
def fast(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schemas()[name], registry=_registry(), base_uri=BASE + name, offline=True)


def hold(name: str, tree: dict[str, Any]) -> None:
    """Holds a tree against a file's schema."""
    if not fast(name).is_valid(tree):
        validator(name).validate(tree)
        raise AssertionError(f"the two validators differ over {name}: {tree}")


def validate(data: bytes) -> dict[str, Any]:
    """A message of the feed: its bytes, then its members against the schema of its type."""
    if not SIGNED.fullmatch(data):
        raise ValueError(f"the signature is not the last member: {data!r}")
    tree = _tree(data)
    check(tree)
    return tree


def check(tree: dict[str, Any]) -> None:
    """A message's members, whatever bytes they came in."""
    name = f"{tree.get('type')}.json"
    if name not in schemas():
        raise ValueError(f"there is no schema for the type {tree.get('type')!r}")
    hold(name, tree)


def validate_as(name: str, data: bytes) -> dict[str, Any]:
    """What is no message of the feed, by its schema's name: state, status, receipt, command, reply."""
    tree = _tree(data)
    hold(f"{name}.json", tree)
    return tree


def _tree(data: bytes) -> dict[str, Any]:
    """One compact object in ASCII whose members have each one value."""
    tree: dict[str, Any] = json.loads(data.decode("ascii"), object_pairs_hook=_once)
    if json.dumps(tree, separators=(",", ":")).encode("ascii") != data:
        raise ValueError(f"not compact JSON: {data!r}")
    return tree


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError(f"a member occurs twice: {[name for name, _ in pairs]}")
    return members
