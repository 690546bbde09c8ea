"""Facts, events and the State to plain trees and back: the form in which a night is written down for good.

A plain tree is made of dict, list, str, int, bool and None, and nothing else. The classes themselves are the schema:
each is compiled once, on its first use, from its fields and their types. A fact or an event carries its class name
as `t`, and so does a field that may hold one of several classes.

What is read back must be what was meant, years later, so this file refuses to guess: an unknown class or field, a
missing field and a wrong type are a `RecordError`. A field that is empty (None, False, 0, "", ()) and empty by default
is left out; any other default is always written, because the next version may choose another. A field that is
added later is therefore empty by default.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from . import events, facts
from .cards import DECK, Card
from .events import Event
from .facts import Fact

Plain: TypeAlias = "dict[str, Plain] | list[Plain] | str | int | bool | None"
T = TypeVar("T")

TAG = "t"
NEWER = "written by a newer version of this program, or damaged"


class RecordError(ValueError):
    """A plain tree that is no record of this version. The text says which class, which field and why."""


def dump(value: object) -> dict[str, Plain]:
    """The plain tree of a dataclass or named tuple. TypeError for a class whose fields have no plain form."""
    cls: type = type(value)
    plain: dict[str, Plain] = _record(cls).dump(value)
    return plain


def load(cls: type[T], plain: Plain) -> T:
    """The value of that class; RecordError when the tree is none."""
    key: type = cls
    value: T = _record(key).load(plain)
    return value


def dump_fact(fact: Fact) -> dict[str, Plain]:
    """`{"t": "CardDealt", …}`."""
    return _dump_tagged(fact)


def load_fact(plain: Plain) -> Fact:
    fact: Fact = _load_tagged(plain, FACTS)
    return fact


def dump_event(event: Event) -> dict[str, Plain]:
    """`{"t": "CardScanned", …}`."""
    return _dump_tagged(event)


def load_event(plain: Plain) -> Event:
    event: Event = _load_tagged(plain, EVENTS)
    return event


def _named(module: object, base: type) -> dict[str, type]:
    """The module's classes below `base`, by name; `__subclasses__` also lists those that slots=True replaced."""
    below = [cls for cls in vars(module).values() if isinstance(cls, type) and issubclass(cls, base)]
    return {cls.__name__: cls for cls in below if cls is not base}


FACTS = _named(facts, Fact)
EVENTS = _named(events, Event)


# --- the compiler: a type becomes a pair of functions ------------------------------------------------


class _Codec(NamedTuple):
    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


def _as_is(value: object) -> object:
    return value


@cache
def _codec(hint: object) -> _Codec:
    """The codec of a field's type. TypeError for a type that records do not know."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is str or hint is int or hint is bool:
        return _Codec(_as_is, _scalar(hint))
    if hint is Card:
        return _Codec(_CARDS.__getitem__, _load_card)
    if origin is tuple:
        return _many(_codec(arguments[0])) if arguments[1:] == (...,) else _fixed([_codec(each) for each in arguments])
    if origin is dict and arguments[0] is str:
        return _mapping(_codec(arguments[1]))
    if origin in (Union, type(int | None)):
        return _union(arguments)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _Codec(lambda member: member._value_, _load_enum(hint))
    if isinstance(hint, type):
        return _record(hint)
    raise TypeError(f"{hint} has no plain form")


_CARDS = {card: card[:] for card in DECK}  # a slice of a Card is a plain str


def _wrong(wanted: str, plain: object) -> RecordError:
    return RecordError(f"{wanted} is wanted, not {plain!r:.80}: {NEWER}")


def _scalar(kind: type) -> Callable[[object], object]:
    def load_scalar(plain: object) -> object:
        if type(plain) is not kind:  # exactly: True is no 1
            raise _wrong(f"a value of type {kind.__name__}", plain)
        return plain

    return load_scalar


def _load_card(plain: object) -> Card:
    if not isinstance(plain, str):
        raise _wrong("a card", plain)
    try:
        return Card.parse(plain)
    except ValueError as error:
        raise RecordError(str(error)) from None


def _load_enum(cls: type[Enum]) -> Callable[[object], Enum]:
    members = {(type(member.value), member.value): member for member in cls}

    def load_enum(plain: object) -> Enum:
        member = members.get((type(plain), plain)) if isinstance(plain, str | int) else None
        if member is None:
            raise _wrong(f"one of {', '.join(str(each.value) for each in cls)}", plain)
        return member

    return load_enum


def _list(plain: object) -> list[object]:
    if not isinstance(plain, list):
        raise _wrong("a list", plain)
    return plain


def _dict(plain: object) -> dict[str, object]:
    if not isinstance(plain, dict) or not all(isinstance(key, str) for key in plain):
        raise _wrong("an object", plain)
    return plain


def _many(item: _Codec) -> _Codec:
    """tuple[X, ...]."""
    dump, load = item
    return _Codec(
        list if dump is _as_is else lambda value: [dump(each) for each in value],
        lambda plain: tuple([load(each) for each in _list(plain)]),
    )


def _fixed(items: list[_Codec]) -> _Codec:
    """tuple[X, Y]: exactly as many."""

    def load_fixed(plain: object) -> tuple[object, ...]:
        found = _list(plain)
        if len(found) != len(items):
            raise _wrong(f"a list of {len(items)}", plain)
        return tuple([item.load(each) for item, each in zip(items, found, strict=True)])

    return _Codec(lambda value: [item.dump(each) for item, each in zip(items, value, strict=True)], load_fixed)


def _mapping(item: _Codec) -> _Codec:
    """dict[str, X]."""
    dump, load = item
    return _Codec(
        lambda value: {key: dump(each) for key, each in value.items()},
        lambda plain: {key: load(each) for key, each in _dict(plain).items()},
    )


def _union(members: tuple[Any, ...]) -> _Codec:
    """X | None, or several classes, which then carry their names."""
    classes = [member for member in members if member is not type(None)]
    some = _codec(classes[0]) if len(classes) == 1 else _any_of(classes)
    if len(classes) == len(members):
        return some
    dump, load = some
    return _Codec(
        dump if dump is _as_is else lambda value: None if value is None else dump(value),
        lambda plain: None if plain is None else load(plain),
    )


def _any_of(classes: list[type]) -> _Codec:
    names = {cls.__name__: cls for cls in classes}
    return _Codec(_dump_tagged, lambda plain: _load_tagged(plain, names))


def _dump_tagged(value: object) -> dict[str, Plain]:
    cls: type = type(value)
    plain: dict[str, Plain] = _tagged(cls).dump(value)
    return plain


def _load_tagged(plain: object, classes: Mapping[str, type]) -> Any:  # noqa: ANN401  # the tag decides the class
    tag = _dict(plain).get(TAG)
    if not isinstance(tag, str):
        raise _wrong(f'an object with the member "{TAG}"', plain)
    cls = classes.get(tag)
    if cls is None:
        raise RecordError(f"no record is called {tag!r} here: {NEWER}")
    return _tagged(cls).load(plain)


# --- classes ------------------------------------------------------------------------------------------


class _Field(NamedTuple):
    """`empty` is the type of the default where that is empty; None where the field is always written."""

    name: str
    empty: type | None
    required: bool
    codec: _Codec


@cache
def _record(cls: type) -> _Codec:
    """The codec of a dataclass or named tuple."""
    plan = _fields(cls)
    return _Codec(_dumper(plan, {}), _loader(cls, plan))


@cache
def _tagged(cls: type) -> _Codec:
    """The same, with the name of the class beside its fields."""
    plan = _fields(cls)
    load = _loader(cls, plan)
    return _Codec(
        _dumper(plan, {TAG: cls.__name__}),
        lambda plain: load({name: item for name, item in plain.items() if name != TAG}),
    )


def _fields(cls: type) -> list[_Field]:
    if is_dataclass(cls):
        found = fields(cls)
        if any(each.default_factory is not MISSING for each in found):
            raise TypeError(f"{cls.__name__}: a default that is made anew cannot be told from a written one")
        defaults = {each.name: each.default for each in found if each.default is not MISSING}
        names = [each.name for each in found]
    elif issubclass(cls, tuple) and hasattr(cls, "_field_defaults"):
        names, defaults = list(cls._fields), cls._field_defaults  # type: ignore[attr-defined]  # a NamedTuple's own
    else:
        raise TypeError(f"{cls.__name__} has no plain form: it is neither a dataclass nor a named tuple")
    if TAG in names:
        raise TypeError(f"{cls.__name__}.{TAG}: in a record this name is the class's own")
    hints = get_type_hints(cls)
    return [_Field(name, _empty(defaults, name), name not in defaults, _codec(hints[name])) for name in names]


def _empty(defaults: Mapping[str, object], name: str) -> type | None:
    """Each of these types has one empty value, so its type tells it."""
    default = defaults.get(name, MISSING)
    return type(default) if type(default) in (type(None), bool, int, str, tuple) and not default else None


def _dumper(plan: list[_Field], head: dict[str, Any]) -> Callable[[object], dict[str, Any]]:
    steps = [(field.name, field.empty, field.codec.dump) for field in plan]

    def dump_record(value: object) -> dict[str, Any]:
        plain = head.copy()
        for name, empty, dump_item in steps:
            item = getattr(value, name)
            if not item and type(item) is empty:
                continue
            plain[name] = item if dump_item is _as_is else dump_item(item)
        return plain

    return dump_record


def _loader(cls: type, plan: list[_Field]) -> Callable[[object], Any]:
    loads = {field.name: field.codec.load for field in plan}
    required = [field.name for field in plan if field.required]

    def load_record(plain: object) -> Any:  # noqa: ANN401  # a value of `cls`
        values: dict[str, Any] = {}
        for name, item in _dict(plain).items():
            if name not in loads:
                raise RecordError(f"{cls.__name__} has no field {name!r}: {NEWER}")
            try:
                values[name] = loads[name](item)
            except RecordError as error:
                raise RecordError(f"{cls.__name__}.{name}: {error}") from None
        for name in required:
            if name not in values:
                raise RecordError(f"{cls.__name__} lacks its field {name!r}, which has no default: {NEWER}")
        return cls(**values)

    return load_record
