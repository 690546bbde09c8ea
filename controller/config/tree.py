"""Strict YAML: a text becomes a tree of text, whole numbers, true and false, or errors with line and column.

YAML 1.1 and 1.2 read `no`, `010`, `12:30`, `1e3`, dates and repeated keys each in their own way, and never say so. Here
whatever two readers could take for two things is an error that says how to write what was meant; keys are always text.
Built from PyYAML's events, because they still know what the constructed value has forgotten: quotes, tags, places.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Union

import yaml

SIZE_MAX = 256 * 1024  # bytes; the largest real file, a code table of eight decks, has 10 KiB
SHOWN_MAX = 40  # characters of a value in a message
BLANKS_MAX = 20  # odd blanks named one by one; a file indented with tabs has one in every line
DEPTH_MAX = 12  # the deepest real key has 4 levels

Where = tuple[str | int, ...]
Place = tuple[int, int]
Value = Union[str, int, bool, "list[Value]", "dict[str, Value]"]


class Problem(NamedTuple):
    """Something wrong, where, and what to do. Lines and columns count from 1; 0 means the file as a whole."""

    file: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.text}"


class ConfigError(Exception):
    """A configuration cannot be used. `errors` holds everything that is wrong with it, in the order of the file."""

    def __init__(self, errors: Iterable[Problem]) -> None:
        self.errors = tuple(sorted(set(errors)))
        super().__init__("\n".join(map(str, self.errors)))


class Tree(NamedTuple):
    """A file's content, where each key and each value of it stands, and each text and number as it is written."""

    file: str
    root: dict[str, Value]
    keys: dict[Where, Place]
    values: dict[Where, Place]
    texts: dict[Where, str]

    def problem(self, where: Where, text: str, *, at_key: bool = False) -> Problem:
        """A problem at this key or value; at the nearest one around it where the file has no such key."""
        while where and where not in self.values:
            where, at_key = where[:-1], True
        # A group is found by its key: written over several lines, its value begins with another.
        places = self.keys if (at_key or where not in self.texts) and where in self.keys else self.values
        return Problem(self.file, *places[where], text)


def read_bytes(path: Path) -> bytes:
    """A configuration file's bytes; ConfigError when it cannot be read or is far too large to be one."""
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError([Problem(str(path), 0, 0, f"cannot be read: {reason}")]) from error
    if len(data) > SIZE_MAX:
        raise ConfigError([Problem(str(path), 0, 0, f"is larger than {SIZE_MAX // 1024} KiB: not a configuration")])
    return data


def read_tree(data: bytes, file: str) -> tuple[Tree, list[Problem]]:
    """The tree of a file's bytes, and every value in it that is not what it seems.

    ConfigError when there is no tree at all: not UTF-8, not YAML, empty, not a group of keys.
    """
    text = _decode(data, file)
    reader = _Reader(text, file)
    root = reader.document()
    return Tree(file, root, reader.keys, reader.values, reader.texts), reader.problems


def _decode(data: bytes, file: str) -> str:
    data = data.removeprefix(BOM_UTF8)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        text = f"byte 0x{data[error.start]:02X} is not UTF-8: save the file as UTF-8"
        raise ConfigError([Problem(file, *_place_of(before, len(before)), text)]) from error


# A tab, and what YAML takes for the end of a line but no editor does: line numbers would no longer agree.
_BLANKS = re.compile("[\t\x85\u2028\u2029]|\r(?!\n)")
_BLANK_NAMES = {"\t": "a tab", "\r": "a carriage return without a line feed"}

_ODD = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_INT = re.compile(r"-?(0|[1-9][0-9]{0,17})|0x[0-9A-Fa-f]{1,8}")
_NUMBER = re.compile(r"[-+]?(?=\.?[0-9])[0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|[-+]?0[xXoObB][0-9A-Fa-f_]+")
_TRAPS = (
    (re.compile(r"null|~|", re.IGNORECASE), "YAML reads this as nothing: give a value, or leave the key out"),
    (
        re.compile(r"y|n|yes|no|on|off|true|false", re.IGNORECASE),
        'some readers take this for yes or no: write true or false, or "{}" in quotes if it is text',
    ),
    (re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+"), 'a bare decimal is not exact: write "{}" in quotes'),
    (_NUMBER, 'readers differ on this number: write it plainly, or "{}" in quotes if it is text'),
    (
        re.compile(r"[-+]?[0-9][0-9_]*(:[0-9_]+)+(\.[0-9_]*)?"),
        'YAML reads this as a number to base 60: write "{}" in quotes',
    ),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?"), 'YAML reads this as a date: write "{}" in quotes'),
    (re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE), 'YAML reads this as a number: write "{}" in quotes'),
    (re.compile(r"=|<<"), 'YAML gives this a meaning of its own: write "{}" in quotes'),
)


class _Reader:
    """Turns one document's events into a tree. Collects problems and goes on; stops only where YAML itself does."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.keys: dict[Where, Place] = {}
        self.values: dict[Where, Place] = {}
        self.texts: dict[Where, str] = {}
        self.problems: list[Problem] = []
        for match in islice(_BLANKS.finditer(text), BLANKS_MAX):
            name = _BLANK_NAMES.get(match[0], "a line separator")
            self._problem(_place_of(text, match.start()), f"{name}: use spaces")
        # With these reported, a space in the place of each lets the rest of the file be checked too.
        self._text = _BLANKS.sub(" ", text)
        self._events: Iterator[yaml.Event] = yaml.parse(self._text, Loader=yaml.SafeLoader)

    def document(self) -> dict[str, Value]:
        """The only document of the file, which is a group of keys."""
        self._next()  # the start of the stream
        start = self._next()
        if not isinstance(start, yaml.DocumentStartEvent):
            raise self._stop((1, 1), "is empty: start from the example beside it")
        if start.version or start.tags:
            self._problem(_place(start), "a % directive: leave it out")
        event = self._next()
        root = self._node(event, ())
        if not isinstance(event, yaml.MappingStartEvent):
            raise self._stop(_place(event), "must be a group of keys, one `key: value` a line")
        self._next()  # the end of the document
        end = self._next()
        if isinstance(end, yaml.DocumentStartEvent):
            raise self._stop(_place(end), "a second document: remove this `---` and what follows")
        assert isinstance(root, dict)
        return root

    def _next(self) -> yaml.Event:
        try:
            return next(self._events)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
            said = ", ".join(filter(None, (error.context, error.problem)))
            raise self._stop(place, f"not YAML here or just above: {said}. {_hint(said)}") from error
        except yaml.reader.ReaderError as error:
            place = _place_of(self._text, error.position)
            number = ord(self._text[error.position])
            raise self._stop(place, f"character U+{number:04X} is not allowed: remove it") from error
        except (ValueError, OverflowError) as error:  # chr() and int() in PyYAML's scanner, for \U and %YAML
            raise self._stop((1, 1), f"an escape or directive is out of range ({error}): remove it") from error

    def _node(self, event: yaml.Event, where: Where) -> Value:
        place = _place(event)
        if len(where) > DEPTH_MAX:
            raise self._stop(place, f"nested more than {DEPTH_MAX} deep: no configuration is")
        self.values[where] = place
        if isinstance(event, yaml.AliasEvent):
            self.texts[where] = f"*{event.anchor}"
            self._problem(place, f"*{event.anchor} is a YAML alias: write the value itself")
            return ""
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if event.anchor is not None:
            self._problem(place, f"&{event.anchor} is a YAML anchor: leave it out")
        if event.tag is not None:
            self._problem(place, f"{event.tag} is a YAML tag: leave it out")
        if isinstance(event, yaml.ScalarEvent):
            self.texts[where] = event.value
            return self._scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return list(self._items(where))
        return dict(self._pairs(where))

    def _items(self, where: Where) -> Iterator[Value]:
        index = 0
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            yield self._node(event, (*where, index))
            index += 1

    def _pairs(self, where: Where) -> Iterator[tuple[str, Value]]:
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            place = _place(event)
            if not isinstance(event, yaml.ScalarEvent) or event.anchor or event.tag or event.value in ("", "<<"):
                self._problem(place, "a key must be plain text, without anchor, alias or tag")
                if not isinstance(event, yaml.ScalarEvent):
                    self._aside(event, where)
                self._aside(self._next(), where)
                continue
            key = (*where, event.value)
            if (first := self.keys.get(key)) is not None:
                self._problem(place, f"{event.value!r} is given twice, first in line {first[0]}: keep one of them")
                self._aside(self._next(), where)
                continue
            if self._is_odd(event):
                self._aside(self._next(), where)
                continue
            self.keys[key] = place
            yield event.value, self._node(self._next(), key)

    def _aside(self, event: yaml.Event, where: Where) -> None:
        """Reads a node that has no place in the tree, for its problems alone."""
        kept = self.keys, self.values, self.texts
        self.keys, self.values, self.texts = {}, {}, {}
        self._node(event, where)
        self.keys, self.values, self.texts = kept

    def _scalar(self, event: yaml.ScalarEvent) -> str | int | bool:
        text: str = event.value
        if event.style is not None:
            return "" if self._is_odd(event) else text
        if text in ("true", "false"):
            return text == "true"
        if _INT.fullmatch(text):
            return int(text, 16 if text.startswith("0x") else 10)
        for pattern, what in _TRAPS:
            if pattern.fullmatch(text):
                shown = text[:SHOWN_MAX]
                self._problem(_place(event), (f"{shown}: " if text else "") + what.format(shown))
                break
        return text

    def _is_odd(self, event: yaml.ScalarEvent) -> bool:
        """Whether a text holds what no key or value of ours may; the problem is noted."""
        odd = _ODD.search(event.value) is not None
        if odd:
            self._problem(_place(event), "this text holds a line break or a control character: leave it out")
        return odd

    def _problem(self, place: Place, text: str) -> None:
        self.problems.append(Problem(self.file, *place, text))

    def _stop(self, place: Place, text: str) -> ConfigError:
        return ConfigError([*self.problems, Problem(self.file, *place, text)])


def _place_of(text: str, index: int) -> Place:
    return (text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def _place(event: yaml.Event) -> Place:
    mark = event.start_mark
    assert mark is not None, "every event of a text has its place"
    return (mark.line + 1, mark.column + 1)


def _hint(said: str) -> str:
    """What usually lies behind PyYAML's words."""
    if "mapping values are not allowed" in said:
        return "Put text that holds a colon in quotes, and check the indentation"
    if "expected <block end>" in said or "could not find expected" in said:
        return "Check the indentation and that every line is `key: value`"
    return "Check brackets and quotes"
