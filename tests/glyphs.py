"""The panel's fonts, made from Terminus Font's own files (`fonts/`, as Debian's xfonts-terminus has them)."""

import gzip
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from controller.panel import FOREIGN

LICENCE = "OFL.txt"
SOURCES = {  # the panel's font: Terminus Font's file
    "6x12": "ter-u12n_unicode.pcf.gz",
    "8x16": "ter-u16b_unicode.pcf.gz",
    "10x20": "ter-u20b_unicode.pcf.gz",
    "16x32": "ter-u32b_unicode.pcf.gz",
}
CHARACTERS = [chr(code) for code in range(0x3000) if not FOREIGN.match(chr(code))]
HEADER = """\
# {name} pixels: a Modified Version of Terminus Font 4.48, Copyright (C) 2019 Dimitar Toshkov Zhekov,
# under the SIL Open Font License 1.1 (OFL.txt). Made by `make generate`. A line is a character: its code, then its
# columns from left to right, each as wide as a number of {height} bits, whose lowest is the top; all hexadecimal.
"""

# The X11 "portable compiled format": tables by their type, numbers in the byte order of each table's format.
METRICS, BITMAPS, ENCODINGS = 1 << 2, 1 << 3, 1 << 5
BIG_ENDIAN, HIGH_BIT_FIRST, COMPRESSED = 1 << 2, 1 << 3, 1 << 8


class Table(NamedTuple):
    """A table of a PCF file; `at` counts from the number that holds its format."""

    data: bytes
    format: int

    def read(self, numbers: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from((">" if self.format & BIG_ENDIAN else "<") + numbers, self.data, at)


def tables(path: Path) -> dict[int, Table]:
    data = gzip.decompress(path.read_bytes())
    magic, count = struct.unpack_from("<4sI", data)
    assert magic == b"\1fcp", f"{path} is no PCF font"
    entries = [struct.unpack_from("<4I", data, 8 + 16 * i) for i in range(count)]
    return {kind: Table(data[at : at + size], form) for kind, form, size, at in entries}


def rows(path: Path, width: int, height: int) -> dict[str, list[int]]:
    """Each character's rows from the top, numbers of `width` bits whose highest is the leftmost pixel."""
    found = tables(path)
    metrics, bitmaps, encodings = found[METRICS], found[BITMAPS], found[ENCODINGS]
    assert metrics.format & COMPRESSED and bitmaps.format & HIGH_BIT_FIRST
    pad = 1 << (bitmaps.format & 3)
    stride = -(-width // (8 * pad)) * pad
    (count,) = bitmaps.read("I", 4)
    low, high, first, last, _ = encodings.read("5H", 4)
    characters = {}
    width_of_row = high - low + 1
    indices = encodings.read(f"{(last - first + 1) * width_of_row}H", 14)
    for at, index in enumerate(indices):
        if index == 0xFFFF:
            continue
        row, column = divmod(at, width_of_row)
        left, right, _, up, down = (byte - 0x80 for byte in metrics.data[6 + 5 * index : 11 + 5 * index])
        assert (left, right, up + down) == (0, width, height), "every character fills its cell"
        (start,) = bitmaps.read("I", 8 + 4 * index)
        start += 8 + 4 * count + 16
        lines = [bitmaps.data[start + stride * y : start + stride * (y + 1)] for y in range(height)]
        bits = [int.from_bytes(line, "big") >> (8 * stride - width) for line in lines]
        characters[chr((first + row) << 8 | low + column)] = bits
    return characters


def columns(lines: list[int], width: int) -> list[int]:
    """The same by columns from the left, their lowest bit the top."""
    return [sum((line >> (width - 1 - x) & 1) << y for y, line in enumerate(lines)) for x in range(width)]


def fonts(root: Path) -> Iterator[tuple[Path, bytes]]:
    """The fonts that the panel is drawn with, and their licence."""
    target = root / "controller" / "fonts"
    yield target / LICENCE, (root / "tests" / "fonts" / LICENCE).read_bytes()
    for name, source in SOURCES.items():
        width, height = map(int, name.split("x"))
        glyphs = rows(root / "tests" / "fonts" / source, width, height)
        text = HEADER.format(name=name, height=height)
        for character in CHARACTERS:
            digits = "".join(f"{column:0{height // 4}x}" for column in columns(glyphs[character], width))
            text += f"{ord(character):04x} {digits}\n"
        yield target / f"{name}.hex", text.encode("ascii")
