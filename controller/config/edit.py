"""table.yaml changed in one key, and a configuration written out whole. Text in, text out: no file is touched here.

ruamel.yaml writes the text anew with every comment in its place. What comes out is read back by our own strict reader:
it must be the tree that was there with this one key changed, whatever two readers may think of a value.
"""

import copy
import io
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.scalarint import HexCapsInt
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from .models import Config
from .tree import ConfigError, Problem, Tree, Value, Where, read_tree

VALUE = "the new value"  # in the place of a file, in errors
WIDTH_MAX = 4096  # columns: no line is folded
INDENT = 2

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)


def changed(data: bytes, file: str, key: str, value: str) -> tuple[bytes, Value | None]:
    """The file's bytes with `key` (dotted, items by number) set to `value`, as it would be written there; what it was.

    None where the key was not there. A key that stood there switched off by a # is switched on. ConfigError where text,
    key or value cannot be read, or a comment would be lost; whether the value is right is not asked.
    """
    tree, problems = read_tree(data, file)
    if problems:
        raise ConfigError(problems)
    new = _read_value(value)
    where = _where(tree, key)
    wanted = _put(tree.root, where, new)
    text = data.decode("utf-8-sig")
    for base in _bases(text, tree, where):
        there = _tree_of(base)
        if there is None or _put(there, where, new) != wanted:
            continue
        written = _rewritten(base, where, value, _indents(tree))
        lost = Counter(_COMMENT.findall(base)) - Counter(_COMMENT.findall(written))
        if not lost and _tree_of(written) == wanted:
            return written.encode(), _get(tree.root, where)
    what = f"{key} cannot be set without losing comments: set the keys in it one by one, or edit the file"
    raise ConfigError([tree.problem(where, what)])


def dump(config: Config) -> str:
    """Every key with its value, defaults included, as a file that reads as the same configuration.

    Keys that are not set are left out. No secret is in it: the configuration has the names of the files that hold them.
    """
    plain, out = _plain(values(config)), io.StringIO()
    plain["display"]["address"] = HexCapsInt(config.display.address)  # as data sheets and i2cdetect have it
    _yaml().dump(plain, out)
    return out.getvalue()


def values(config: Config) -> dict[str, Any]:
    """The same as plain values, for JSON."""
    return config.model_dump(mode="json", exclude_none=True)


# --- where a key is -------------------------------------------------------------------------------------------


def _where(tree: Tree, key: str) -> Where:
    """The key's place in the tree; its last parts need not be there."""
    where: Where = ()
    node: Value | None = tree.root
    for part in key.split("."):
        if isinstance(node, list):
            if not part.isdecimal() or int(part) >= len(node):
                raise ConfigError([tree.problem(where, f"{key}: there is no item {part!r}: the first one is 0")])
            where, node = (*where, int(part)), node[int(part)]
        elif part == "" or not (node is None or isinstance(node, dict)):
            text = f"{key}: {'.'.join(map(str, where)) or 'it'} is no group of keys: name a key, as in table.language"
            raise ConfigError([tree.problem(where, text)])
        else:
            where, node = (*where, part), None if node is None else node.get(part)
    return where


def _get(node: Value | None, where: Where) -> Value | None:
    for part in where:
        if isinstance(node, dict):
            node = node.get(str(part))
        elif isinstance(node, list):
            node = node[int(part)]
    return node


def _put(root: dict[str, Value], where: Where, value: Value) -> dict[str, Value]:
    """A copy of the tree with this value there, and the groups around it."""
    whole = copy.deepcopy(root)
    node: Any = whole
    for part in where[:-1]:
        node = node.setdefault(part, {}) if isinstance(node, dict) else node[part]
    node[where[-1]] = value
    return whole


def _read_value(text: str) -> Value:
    """What the text is in the place of a value; ConfigError where it is none, or more than one."""
    told = [Problem(VALUE, 0, 0, f"{text!r} must stand on one line")] if len(text.splitlines()) > 1 else []
    if not told:
        try:
            tree, problems = read_tree(f"x: {text}\n".encode(), VALUE)
        except ConfigError as error:
            tree, problems = Tree(VALUE, {}, {}, {}, {}), list(error.errors)
        told = [problem._replace(line=0, column=0) for problem in problems]
        if not told and list(tree.root) == ["x"]:
            return tree.root["x"]
    raise ConfigError(told or [Problem(VALUE, 0, 0, f"{text!r} is more than one value: put it in quotes")])


# --- the text -------------------------------------------------------------------------------------------------


def _bases(text: str, tree: Tree, where: Where) -> Iterator[str]:
    """The texts into which the key may be written, the best first: as it is, switched on, a line more, at its end."""
    if _get(tree.root, where) is None:
        lines = text.splitlines(keepends=True)
        yield from _switched_on(lines, tree, where)
        yield from _inserted(lines, tree, where)
    yield text


def _switched_on(lines: list[str], tree: Tree, where: Where) -> Iterator[str]:
    """With the # taken away before the key, where it stands in its group and its value on its line."""
    *group, name = where
    indent = _indent(tree, tuple(group))
    if indent is None:
        return
    off = re.compile(rf"{' ' * indent}#{re.escape(str(name))}:(?= \S)")
    for at in range(_line(tree, tuple(group)), len(lines)):
        if re.match(rf" {{0,{max(indent - 1, 0)}}}[^ #\s]", lines[at]) and indent:
            return  # the next group
        if off.match(lines[at]):
            yield "".join([*lines[:at], lines[at].replace("#", "", 1), *lines[at + 1 :]])
            return


def _inserted(lines: list[str], tree: Tree, where: Where) -> Iterator[str]:
    """With lines for the key, and the groups around it that are not there, behind the last key of the group that is."""
    depth = next(at for at in range(len(where) - 1, -1, -1) if _get(tree.root, where[:at]) is not None)
    indent = _indent(tree, where[:depth])
    if indent is None:
        return
    own = [line for place, (line, _) in (*tree.keys.items(), *tree.values.items()) if place[:depth] == where[:depth]]
    new = [f"{' ' * (indent + INDENT * at)}{name}:\n" for at, name in enumerate(where[depth:])]
    new[-1] = new[-1].rstrip("\n") + " 0\n"
    last = max(own)
    if not lines[last - 1].endswith("\n"):
        new.insert(0, "\n")
    yield "".join([*lines[:last], *new, *lines[last:]])


def _indent(tree: Tree, group: Where) -> int | None:
    """How far the keys of a group stand from the left, where each has a line of its own; else None."""
    first = next((place for place in tree.keys if place[:-1] == group), None)
    if first is None or (group and tree.keys[first][0] == _line(tree, group)):
        return None
    return tree.keys[first][1] - 1


def _line(tree: Tree, group: Where) -> int:
    """The number of the line behind the group's own."""
    return tree.keys[group][0] if group in tree.keys else 0


def _rewritten(text: str, where: Where, value: str, indents: tuple[int, int]) -> str:
    yaml = _yaml(*indents)
    document = node = yaml.load(text)
    for part in where[:-1]:
        node = node[part] if isinstance(node, CommentedSeq) else node.setdefault(part, {})
    node[where[-1]] = yaml.load(f"x: {value}\n")["x"]
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _tree_of(text: str) -> dict[str, Value] | None:
    try:
        tree, problems = read_tree(text.encode(), VALUE)
    except ConfigError:
        return None
    return None if problems else tree.root


def _indents(tree: Tree) -> tuple[int, int]:
    """How far the keys of a group stand from the group's own, and the dashes of a list from its key."""
    keys = {place: where for place, where in tree.keys.items() if place[:-1] in tree.keys}
    groups = [
        column - tree.keys[place[:-1]][1] for place, (line, column) in keys.items() if line > _line(tree, place[:-1])
    ]
    items = [
        (tree.values[place], tree.keys[place[:-1]])
        for place in tree.values
        if place and place[:-1] in tree.keys and isinstance(place[-1], int)
    ]
    dashes = [at[1] - len("- ") - key[1] for at, key in items if at[0] > key[0]]
    return next(iter(groups), INDENT), next(iter(dashes), INDENT)


def _yaml(indent: int = INDENT, dash: int = INDENT) -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = WIDTH_MAX
    yaml.indent(mapping=indent, sequence=dash + 2, offset=dash)
    return yaml


def _plain(node: Any) -> Any:  # noqa: ANN401 - what JSON holds
    """For a person and for our reader: short lists on one line, and quotes where two readers could differ."""
    if isinstance(node, dict):
        return {_plain(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        items = CommentedSeq(map(_plain, node))
        if not any(isinstance(item, dict | list) for item in node):
            items.fa.set_flow_style()
        return items
    if isinstance(node, str) and _tree_of(f"x: {node}\n") != {"x": node}:
        return DoubleQuotedScalarString(node)
    return node
