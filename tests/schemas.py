"""docs/schemas as a judge of bytes: what casino IT builds on, written apart from the code.

`validate` for messages of the feed, `validate_as` for what goes beside it. Each gives the tree it read; ValueError
where the bytes are not as every message's are, jsonschema.ValidationError where a schema says no.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

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
    validator(name).validate(tree)


def validate_as(name: str, data: bytes) -> dict[str, Any]:
    """What is no message of the feed, by its schema's name: state, status, receipt, command, reply."""
    tree = _tree(data)
    validator(f"{name}.json").validate(tree)
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
