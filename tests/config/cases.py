"""Cases as text: a YAML file with a mark before each thing that is wrong, and below it what must be said of each.

Blocks are parted by blank lines. A line `! text` is the beginning of an error, in the order of the marks `▸` in the
file; two marks side by side are two errors in one place. The groups that a block leaves out come from a sound file, and
stand below it; `~ key` leaves one out of that too. Every error must be named, and no other may be given.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from controller.config import ConfigError

MARK = "▸"

TABLE = {
    "table": "{id: BAC-07}",
    "profile": "seeds-classic",
    "casino": "{primary: file, file: {path: /f}}",
}
HOUSE = {
    "decks": "8",
    "shoe_steps": "[load]",
    "burn": "none",
    "cut_card": "{rule: current_is_last, outside_round: play_as_last, depth: 7}",
    "stages": "[{before: P1}]",
    "bets": '{tie: {pays: [{when: tie, odds: "8"}], exact_return: "85.6404"}}',
}

Read = Callable[[bytes, str], object]


class Case(NamedTuple):
    """`expected`: `line:column: beginning` of each error, in the order of the file."""

    text: str
    expected: tuple[str, ...]


def cases(blocks: str, sound: Mapping[str, str]) -> Iterator[Case]:
    for block in re.split(r"\n\s*\n", blocks.strip("\n")):
        lines = block.split("\n")
        marked = [line for line in lines if not line.startswith(("! ", "~ "))]
        told = [line[2:] for line in lines if line.startswith("! ")]
        dropped = [line[2:] for line in lines if line.startswith("~ ")]
        expected = [f"{place}: {text}" for place, text in zip(places(marked), told, strict=True)]
        yield Case(whole("\n".join(marked).replace(MARK, ""), sound, dropped), tuple(expected))


def places(marked: list[str]) -> Iterator[str]:
    for number, line in enumerate(marked, 1):
        for before, match in enumerate(re.finditer(MARK, line)):
            yield f"{number}:{match.start() + 1 - before}"


def whole(text: str, sound: Mapping[str, str], dropped: list[str] | None = None) -> str:
    """The text, and below it the groups of a sound file that it leaves out."""
    own = set(re.findall(r"^([a-z_]+):", text, re.MULTILINE)) | set(dropped or ())
    return text.rstrip("\n") + "\n" + "".join(f"{key}: {value}\n" for key, value in sound.items() if key not in own)


def errors(read: Read, data: bytes | str) -> list[str]:
    """What is wrong with a file, each `line:column: text`; nothing when it loads. Other exceptions pass through."""
    try:
        read(data.encode() if isinstance(data, str) else data, "file.yaml")
    except ConfigError as error:
        problems = error.errors
    else:
        return []
    assert {problem.file for problem in problems} == {"file.yaml"}
    return [str(problem).removeprefix("file.yaml:").strip() for problem in problems]


def check(found: list[str], expected: tuple[str, ...]) -> None:
    said = "\n".join(["", *found])
    assert len(found) == len(expected), said
    for line, beginning in zip(found, expected, strict=True):
        assert line.startswith(beginning), f"{beginning}\n{said}"
