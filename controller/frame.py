"""The pixels of the dealer's panel: words become a frame, two frames what must be sent; it knows no device.

A frame is 1,024 bytes, 128 x 64 pixels in the order of the panels' own memory: eight pages from the top, each of 128
columns from the left, each of eight pixels whose lowest bit is on top (SSD1306 data sheet, section 8.7). While it is
drawn a picture is one number whose bit 64 * x + y is the pixel at (x, y): a character is put in place by one shift.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from .panel import HEADLINE, LINE, STRIP, Panel21

WIDTH, HEIGHT, PAGES = 128, 64, 8
FONTS = Path(__file__).parent / "fonts"  # all characters that `panel.py` lets pass

# Capitals stand on rows 16-28 of the panel, two pages instead of three, when the headline begins a row below the strip.
STRIP_TOP, HEADLINE_TOP, LINE_TOPS = 0, 13, (32, 48)
IDLE = 8  # characters of the largest font: a longer number of a table at rest stands where headlines do
MARGIN = 3  # columns of a notice's label before its first letter, and after the last one with its own blank column
ADDRESS_BYTES = 7  # a run's own on an I2C bus: the panel's address, control, three commands; the address again, control


class Font(NamedTuple):
    """Characters of one size in pixels."""

    width: int
    height: int


SMALL, MIDDLE, LARGE, HUGE = Font(6, 12), Font(8, 16), Font(10, 20), Font(16, 32)


class Run(NamedTuple):
    """Bytes that belong side by side into one page, from `column` on."""

    page: int
    column: int
    data: bytes


def draw(panel: Panel21, *, idle: bool = False) -> bytes:
    """The panel's frame: the notice as a bright label, under it headline and lines, each centred where it always is.

    `idle`: the table is at rest, and its number, which is the headline, is as large as the panel allows.
    """
    picture = 0
    for text, top in zip(panel.lines, LINE_TOPS, strict=True):
        picture |= _text(text[:LINE], MIDDLE, top)
    if idle and not panel.strip and len(panel.headline) <= IDLE:
        return _frame(picture | _text(panel.headline, HUGE, 0))
    picture |= _text(panel.headline[:HEADLINE], LARGE, HEADLINE_TOP)
    if panel.strip:
        picture |= _label(panel.strip[:STRIP])
    return _frame(picture)


def pattern() -> bytes:
    """A picture to test a panel by: its outermost pixels, and which way is up.

    A panel whose chip is another than the one configured shows it shifted, with noise at an edge (bug report 18).
    """
    full = (1 << HEIGHT) - 1
    border = _picture([full, *[1 | 1 << HEIGHT - 1] * (WIDTH - 2), full])
    return _frame(border | _text("128 x 64", LARGE, HEADLINE_TOP) | _text("/\\", MIDDLE, LINE_TOPS[0]))


def turned(frame: bytes) -> bytes:
    """The frame upside down."""
    return frame[::-1].translate(_MIRRORED)


_MIRRORED = bytes(int(f"{column:08b}"[::-1], 2) for column in range(256))


def _text(text: str, font: Font, top: int) -> int:
    glyphs, picture = _glyphs(font), 0
    left = (WIDTH - font.width * len(text)) // 2
    for at, character in enumerate(text):
        picture |= glyphs.get(character, glyphs[""]) << HEIGHT * (left + font.width * at)
    return picture << top


def _label(notice: str) -> int:
    """Dark letters on a bright ground with round corners, so that a notice is never taken for the instruction."""
    width = min(WIDTH, SMALL.width * len(notice) + 2 * MARGIN - 1)
    left = max(0, (WIDTH - SMALL.width * len(notice)) // 2 - MARGIN)
    full = (1 << SMALL.height) - 1
    end = full >> 2 << 1
    ground = _picture([end, *[full] * (width - 2), end]) << HEIGHT * left
    return ground ^ _text(notice, SMALL, STRIP_TOP)


@cache
def _glyphs(font: Font) -> dict[str, int]:
    """The font's characters; the empty string is the box that stands for one that it has not."""
    digits = font.height // 4  # of a column
    side = (1 << font.height) - 1
    glyphs = {"": _picture([side, *[1 | 1 << font.height - 1] * (font.width - 3), side])}
    for line in (FONTS / f"{font.width}x{font.height}.hex").read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            code, columns = line.split()
            numbers = [int(columns[at : at + digits], 16) for at in range(0, len(columns), digits)]
            glyphs[chr(int(code, 16))] = _picture(numbers)
    return glyphs


def _picture(columns: list[int]) -> int:
    """Columns from the left, each a number whose lowest bit is on top."""
    return int.from_bytes(b"".join(column.to_bytes(PAGES, "little") for column in columns), "little")


def _frame(picture: int) -> bytes:
    columns = picture.to_bytes(WIDTH * PAGES, "little")
    return b"".join(columns[page::PAGES] for page in range(PAGES))


# --- what must be sent ------------------------------------------------------------------------------------


def diff(old: bytes, new: bytes) -> tuple[Run, ...]:
    """What to send to a panel that shows `old` so that it shows `new`: the fewest bytes on the bus.

    Columns that are right already go along where they are no more than the bytes of another address.
    """
    runs: list[Run] = []
    for page in range(PAGES):
        before, after = page_of(old, page), page_of(new, page)
        spans: list[list[int]] = []  # first and last column
        for x in range(WIDTH) if before != after else ():
            if before[x] == after[x]:
                continue
            if spans and x - spans[-1][1] - 1 <= ADDRESS_BYTES:
                spans[-1][1] = x
            else:
                spans.append([x, x])
        runs += [Run(page, first, after[first : last + 1]) for first, last in spans]
    return tuple(runs)


def page_of(frame: bytes, page: int) -> bytes:
    """The 128 columns of a page."""
    return frame[WIDTH * page : WIDTH * (page + 1)]


def bus_bytes(runs: tuple[Run, ...]) -> int:
    """What the runs take on an I2C bus, addresses and control bytes included."""
    return sum(ADDRESS_BYTES + len(run.data) for run in runs)


# --- a frame in a terminal --------------------------------------------------------------------------------


def blocks(frame: bytes) -> list[str]:
    """The frame in half blocks, which every terminal has: 32 lines of 128 characters."""
    return ["".join(" ▀▄█"[column >> y % 8 & 0b11] for column in page_of(frame, y // 8)) for y in range(0, HEIGHT, 2)]


def dots(frame: bytes) -> list[str]:
    """The frame in braille patterns: 16 lines of 64 characters. The notice can hardly be read: give it as text too."""
    lines = []
    for y in range(0, HEIGHT, 4):
        parts = [column >> y % 8 & 0b1111 for column in page_of(frame, y // 8)]
        pairs = zip(parts[::2], parts[1::2], strict=True)
        lines.append("".join(chr(_LEFT[left] + _RIGHT[right]) for left, right in pairs))
    return lines


# Braille counts its dots down the left column, down the right one, then along the lowest row (Unicode, U+2800).
_LEFT = [0x2800 + (part & 0b0111) + (part >> 3 << 6) for part in range(16)]
_RIGHT = [((part & 0b0111) << 3) + (part >> 3 << 7) for part in range(16)]
