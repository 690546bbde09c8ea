"""The C header and the Python module of the sensor head's protocol, from head.toml; `python -m tests.generate` runs it.

DefinitionError where the definition contradicts itself: a number used twice, a message too long for its frame.
"""

import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path("firmware") / "protocol"
SOURCE = HERE / "head.toml"
HEADER = HERE / "protocol.h"
MODULE = Path("controller") / "link" / "messages.py"

WIDTHS = {"u8": 1, "u16": 2, "u32": 4}
CODES = {1: "B", 2: "H", 4: "I"}  # of struct
LINE = 120

Definition = dict[str, Any]


class DefinitionError(Exception):
    """The text says what in head.toml is wrong."""


def files(root: Path) -> Iterator[tuple[Path, bytes]]:
    """A maker of tests/generate.py: both files and their bytes."""
    definition = load((root / SOURCE).read_text(encoding="utf-8"))
    yield root / HEADER, header(definition).encode()
    yield root / MODULE, module(definition).encode()


def load(text: str) -> Definition:
    definition = tomllib.loads(text)
    sets = definition["enums"] | definition["flags"]
    for name, members in sets.items():
        _unique(name, [entry["value"] for _, entry in _members(members)], 1)
    messages = definition["message"]
    _unique("message", [message["number"] for message in messages], 1)
    for message in messages:
        for field in message["fields"]:
            if field["type"] not in WIDTHS and field["type"] not in sets:
                raise DefinitionError(f"{message['name']}.{field['name']}: there is no type {field['type']}")
        size, most = body_bytes(message), definition["limits"]["body_bytes"]["value"]
        if size > most:
            raise DefinitionError(f"{message['name']} has {size} bytes, more than body_bytes ({most})")
    return definition


def _unique(name: str, values: list[int], size: int) -> None:
    if len(set(values)) != len(values) or not all(0 <= value < 1 << 8 * size for value in values):
        raise DefinitionError(f"{name}: each number is one of its own, and has {size} byte")


def _members(group: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, entry) for name, entry in group.items() if name != "doc"]


def width(kind: str) -> int:
    """Bytes of a field's type; a set of names has one."""
    return WIDTHS.get(kind, 1)


def body_bytes(message: dict[str, Any]) -> int:
    return 1 + sum(width(field["type"]) for field in message["fields"])


# --- C ------------------------------------------------------------------------------------------------------


def header(definition: Definition) -> str:
    lines = [
        "/* Messages of the sensor head. Made from head.toml by generate.py: edit that, and run `make generate`. */",
        "#ifndef HEAD_PROTOCOL_H",
        "#define HEAD_PROTOCOL_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define HEAD_PROTOCOL {definition['protocol']}u",
        "",
    ]
    for name, limit in definition["limits"].items():
        lines += _comment(limit["why"])
        lines.append(f"#define HEAD_{name.upper()} {limit['value']}{_suffix(limit['value'])}")
    lines += ["", "/* What the classification goes by. */"]
    for name, value in definition["thresholds"].items():
        lines.append(f"#define HEAD_{name.upper()} {value}{_suffix(value)}")
    for name, group in (definition["enums"] | definition["flags"]).items():
        lines += ["", *_comment(group["doc"])]
        lines += [
            f"#define HEAD_{name.upper()}_{key} {entry['value']}u /* {entry['doc']} */"
            for key, entry in _members(group)
        ]
    lines += ["", "/* Little-endian, as AVR and x86 have it; the first byte of each is its number. */"]
    for message in definition["message"]:
        lines += ["", *_c_message(message)]
    return "\n".join([*lines, "", "#endif", ""])


def _suffix(value: int) -> str:
    return "u" if value < 1 << 16 else "ul"


def _comment(text: str) -> list[str]:
    first, *rest = textwrap.wrap(text, 110)
    lines = [f"/* {first}", *(f" * {line}" for line in rest)]
    lines[-1] += " */"
    return lines


def _c_message(message: dict[str, Any]) -> Iterator[str]:
    name, low = message["name"], message["name"].lower()
    yield from _comment(f"From the {message['from']}. {message['doc']}")
    yield f"#define HEAD_{name} 0x{message['number']:02x}u"
    yield f"#define HEAD_{name}_BYTES {body_bytes(message)}u"
    yield "typedef struct __attribute__((packed)) {"
    yield "    uint8_t number;"
    for field in message["fields"]:
        yield f"    uint{8 * width(field['type'])}_t {field['name']}; /* {field['doc']} */"
    yield f"}} head_{low}_t;"
    yield f'_Static_assert(sizeof(head_{low}_t) == HEAD_{name}_BYTES, "head_{low}_t has no gaps");'


# --- Python -------------------------------------------------------------------------------------------------

TOP = '''"""The sensor head's messages. Made from firmware/protocol/head.toml by generate.py there: edit that.

`encode` and `decode` are between a message and the body of its frame (`frame.py`): one byte, its number, and its
fields, little-endian. Knows no port, no clock and no order.
"""

import struct
from collections.abc import Callable
from enum import STRICT, IntEnum, IntFlag
from typing import NamedTuple

'''

BOTTOM = '''

class MessageError(Exception):
    """A body is no message of this protocol. The text says why."""


class _Layout(NamedTuple):
    number: int
    make: Callable[..., Message]
    fields: struct.Struct
    types: tuple[type[int], ...]
    most: tuple[int, ...]


def number(kind: type) -> int:
    """The first byte of such a message."""
    return _LAYOUTS[kind].number


def encode(message: Message) -> bytes:
    """The body of a message; ValueError where a field is over its limit."""
    layout = _LAYOUTS[type(message)]
    for name, most in zip(message._fields, layout.most, strict=True):
        value: int = getattr(message, name)
        if not 0 <= value <= most:
            raise ValueError(f"{name} is {value}, and at most {most}")
    return bytes([layout.number]) + layout.fields.pack(*message)


def decode(body: bytes) -> Message:
    """The message in a body; MessageError."""
    layout = _NUMBERS.get(body[0]) if body else None
    if layout is None:
        raise MessageError(f"no message has the number {body[:1].hex() or 'nothing'}")
    if len(body) != 1 + layout.fields.size:
        raise MessageError(f"message {layout.number} has {1 + layout.fields.size} bytes, not {len(body)}")
    values = layout.fields.unpack(body[1:])
    if any(value > most for value, most in zip(values, layout.most, strict=True)):
        raise MessageError(f"a field of message {layout.number} is over its limit")
    try:
        return layout.make(*(kind(value) for kind, value in zip(layout.types, values, strict=True)))
    except ValueError as error:
        raise MessageError(str(error)) from error


'''


def module(definition: Definition) -> str:
    lines = [TOP.rstrip("\n"), "", f"PROTOCOL = {definition['protocol']}", ""]
    for name, limit in definition["limits"].items():
        lines += [f"# {line}" for line in textwrap.wrap(limit["why"], LINE - 2)]
        lines.append(f"{name.upper()} = {limit['value']}")
    for groups, base in (("enums", "IntEnum"), ("flags", "IntFlag, boundary=STRICT")):
        for name, group in definition[groups].items():
            lines += ["", "", f"class {_title(name)}({base}):", *_docstring(group["doc"]), ""]
            lines += [f"    {key} = {entry['value']}  # {entry['doc']}" for key, entry in _members(group)]
    for message in definition["message"]:
        lines += ["", "", *_py_message(message)]
    lines += ["", ""]
    for side in ("head", "table"):
        names = [_title(message["name"]) for message in definition["message"] if message["from"] == side]
        lines.append(f"From{side.title()} = {' | '.join(names)}")
    lines += ["Message = FromHead | FromTable", BOTTOM.rstrip("\n"), "", "", *_layouts(definition)]
    return "\n".join([*lines, ""])


def _title(name: str) -> str:
    return name.title().replace("_", "")


def _docstring(text: str) -> list[str]:
    """One line, or a first sentence, a blank line and the rest."""
    if len(text) + 10 <= LINE:
        return [f'    """{text}"""']
    first, _, rest = text.partition(". ")
    body = textwrap.wrap(rest, LINE - 4)
    return [f'    """{first}.', "", *(f"    {line}" for line in body), '    """']


def _py_message(message: dict[str, Any]) -> Iterator[str]:
    yield f"class {_title(message['name'])}(NamedTuple):"
    yield from _docstring(message["doc"])
    if message["fields"]:
        yield ""
    for field in message["fields"]:
        line = f"    {field['name']}: {_py_type(field['type'])}"
        comment = textwrap.wrap(field["doc"], LINE - 6)
        if len(line) + len(field["doc"]) + 4 <= LINE:
            yield f"{line}  # {field['doc']}"
        else:
            yield from (f"    # {part}" for part in comment)
            yield line


def _py_type(kind: str) -> str:
    return "int" if kind in WIDTHS else _title(kind)


def _layouts(definition: Definition) -> Iterator[str]:
    yield "_LAYOUTS: dict[type, _Layout] = {"
    for message in definition["message"]:
        fields, name = message["fields"], _title(message["name"])
        codes = "".join(CODES[width(field["type"])] for field in fields)
        types = "".join(f"{_py_type(field['type'])}, " for field in fields).strip()
        most = "".join(f"{field.get('max', (1 << 8 * width(field['type'])) - 1)}, " for field in fields).strip()
        yield f"    {name}: _Layout("
        yield f"        0x{message['number']:02X},"
        yield f"        {name},"
        yield f'        struct.Struct("<{codes}"),'
        for column in (types, most):
            flat = f"        ({column.removesuffix(',') if column.count(',') > 1 else column}),"
            if len(flat) <= LINE:
                yield flat
            else:
                yield "        ("
                yield from (f"            {part.strip()}," for part in column.split(",") if part.strip())
                yield "        ),"
        yield "    ),"
    yield "}"
    yield "_NUMBERS = {layout.number: layout for layout in _LAYOUTS.values()}"
