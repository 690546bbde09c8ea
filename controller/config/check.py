"""From a tree to a model, with everything that is wrong at once: first each key for itself, then keys together.

pydantic says what is wrong in its words; `_explain` says it in ours, with what to do. Checks of keys together are rows:
the groups they read and a function. A row runs when none of its groups has an error of its own, so that one slip never
shows up twice and a check never meets half a group.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from .tree import SHOWN_MAX, Problem, Tree, Where

M = TypeVar("M", bound=BaseModel)
Findings = Iterator[tuple[Where, str]]


class Check(NamedTuple):
    """A rule over several keys: it runs when the groups of keys that it reads are each sound."""

    groups: tuple[str, ...]
    find: Callable[[Any], Findings]


def validate(
    model: type[M], tree: Tree, found: list[Problem], checks: tuple[Check, ...], sound: Mapping[str, Any]
) -> tuple[M | None, list[Problem]]:
    """The model of a tree and no problems, or None and all of them, those `found` in its text included.

    `sound` are values for the required groups: with them in the place of groups that have errors, the rest of the
    checks still run. The tree is given as JSON, since strict mode takes no tuples or enums from Python objects.
    """
    try:
        value = model.model_validate_json(json.dumps(tree.root), strict=True)
        bad: set[Any] = set()
        problems: list[Problem] = []
    except ValidationError as error:
        details = [*_told(error.errors(include_url=False))]
        places = {problem[:3] for problem in found}  # a value that is misread there is not judged again
        problems = [problem for detail in details if (problem := _explain(model, tree, detail))[:3] not in places]
        bad = {detail["loc"][0] for detail in details}
        rest = {**sound, **{key: kept for key, kept in tree.root.items() if key not in bad}}
        value = model.model_validate_json(json.dumps(rest), strict=True)
    for check in checks:
        if bad.isdisjoint(check.groups):
            problems += [tree.problem(where, text) for where, text in check.find(value)]
    problems += found
    return (None if problems else value), problems


def _told(details: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The errors worth telling: a list is not too short as well because one of its items is wrong."""
    for detail in details:
        loc = detail["loc"]
        inner = any(other["loc"][: len(loc)] == loc and other is not detail for other in details)
        if detail["type"] != "too_short" or not inner:
            yield detail


def _explain(model: type[BaseModel], tree: Tree, detail: Mapping[str, Any]) -> Problem:
    """What is wrong and what to do, at the place where it stands."""
    where = _where(tree, detail["loc"])
    around, field = _field(model, detail["loc"])
    name = str(detail["loc"][-1])
    if detail["type"] == "extra_forbidden":
        return tree.problem(where, f"unknown key {name!r}: {_known(name, around)}", at_key=True)
    if detail["type"] == "missing":
        return tree.problem(where, f"{name!r} is missing here: {field}", at_key=True)
    label = next((str(part) for part in reversed(where) if isinstance(part, str)), "this file")
    said, raw = _said(detail), tree.texts.get(where)
    if raw is None:
        shown = ""
    elif detail["type"] == "string_type":
        shown = f': write "{raw}" in quotes'
    else:
        shown = f", not {raw[:SHOWN_MAX]!r}" + _nearest(raw, said)
    return tree.problem(where, f"{label} {said}{shown}" + (f" ({field})" if field else ""))


def _said(detail: Mapping[str, Any]) -> str:
    """What is wrong: the kinds of error that a YAML tree can meet in our words, any other in pydantic's."""
    context = detail.get("ctx", {})
    words = {
        "int_type": "must be a whole number without quotes",
        "bool_type": "must be true or false without quotes",
        "string_type": "must be text",
        "tuple_type": "must be a list, as in [1, 2]",
        "dict_type": "must be a group of keys",
        "model_type": "must be a group of keys",
        "literal_error": "must be {expected}",
        "enum": "must be {expected}",
        "union_tag_invalid": "cannot be this",
        "greater_than_equal": "must be at least {ge}",
        "less_than_equal": "must be at most {le}",
        "string_too_short": "must not be empty",
        "string_too_long": "must have at most {max_length} characters",
        "string_pattern_mismatch": "is not written as it must be",
        "too_short": "must have at least {min_length}",
        "too_long": "must have at most {max_length}",
        "value_error": "{error}",
    }
    text = words.get(detail["type"])
    return text.format(**context) if text else detail["msg"]


def _nearest(raw: str, said: str) -> str:
    """The one that was meant, of those that the message names."""
    near = get_close_matches(raw, said.split("'")[1::2], 1, 0.5)
    return f": did you mean {near[0]}?" if near else ""


def _known(name: str, around: type[BaseModel] | None) -> str:
    if around is None:
        return "remove it"
    known = list(around.model_fields)
    near = get_close_matches(name, known, 1, 0.6)
    return f"did you mean {near[0]!r}?" if near else "known here are " + ", ".join(known)


def _where(tree: Tree, loc: tuple[str | int, ...]) -> Where:
    """The part of an error's location that is in the file; pydantic's also names branches and absent keys."""
    where: Where = ()
    for part in loc:
        if (*where, part) in tree.values:
            where = (*where, part)
    return where


def _field(model: type[BaseModel], loc: tuple[str | int, ...]) -> tuple[type[BaseModel] | None, str]:
    """The model whose key a location names last, and the description of the innermost key that has one."""
    around: type[BaseModel] | None = model
    here: type[BaseModel] | None = model
    text = ""
    for part in loc:
        info = here.model_fields.get(str(part)) if here is not None else None
        if info is not None:
            around, text = here, info.description or text
            here = _model_in(info.annotation)
        elif here is not None:
            around = here
    return around, text


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model that an annotation holds, under lists, choices and None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(arg) for arg in get_args(annotation))
    return next((model for model in found if model is not None), None)
