"""Markdown as its readers meet it: headings, links, code spans and blocks. As much of CommonMark as the pages use."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A fenced block: its language and its lines."""

    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the tree. `prose` is its text without the fenced blocks."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def prose(self) -> str:
        return _FENCE.sub("", self.text)

    @property
    def blocks(self) -> list[Block]:
        return [Block(*found) for found in _FENCE.findall(self.text)]

    @property
    def spans(self) -> list[str]:
        return _SPAN.findall(self.prose)

    @property
    def links(self) -> list[str]:
        """The targets of links to this tree, without those of the web."""
        return [target for target in _LINK.findall(self.prose) if "://" not in target]

    @property
    def anchors(self) -> set[str]:
        """What a link may name behind the #, as forges make it of a heading."""
        return {slug(title) for _, title in _HEADING.findall(self.prose)}

    def sections(self, level: int) -> dict[str, "Page"]:
        """The parts under the headings of this level, by title; a part ends with the next of its level or above."""
        blank = _FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), self.text)  # a program's # is no heading
        headings = [match for match in _HEADING.finditer(blank) if len(match[1]) <= level]
        ends = [*(match.start() for match in headings[1:]), len(self.text)]
        return {
            match[2]: Page(self.path, self.text[match.end() : end])
            for match, end in zip(headings, ends, strict=True)
            if len(match[1]) == level
        }

    def rows(self) -> Iterator[list[str]]:
        """The cells of each row of its tables, heads and rules left out."""
        for table in re.findall(r"(?:^\|.*\|\n)+", self.prose, re.MULTILINE):
            for line in table.splitlines()[2:]:
                yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def page(name: str) -> Page:
    path = ROOT / name
    return Page(path, path.read_text(encoding="utf-8"))


def spans_of(text: str) -> list[str]:
    return _SPAN.findall(text)


def slug(title: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", title.strip().lower())
    return kept.replace(" ", "-")
