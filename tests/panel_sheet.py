"""Contact sheets of the dealer's panel: every screen that the catalogues can show, as the panel's own pixels."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from controller import frame
from controller.core.facts import Phase
from controller.core.view import view
from controller.panel import Panel21, Words
from tests.panel_states import played
from tests.test_panel import LANGUAGES, PRESCRIBED, TABLE, scenarios, views

ACROSS = 6  # screens in a row
GAP = 4  # white pixels between them; a dark border of as many is theirs
DOCS = 2  # the picture for people is so many times as large


class Screen(NamedTuple):
    panel: Panel21
    idle: bool

    @property
    def frame(self) -> bytes:
        return frame.draw(self.panel, idle=self.idle)


@cache
def screens(language: str) -> tuple[Screen, ...]:
    """Each once, in the order in which the scenarios of test_panel.py come to it."""
    words = Words(language)
    return tuple(dict.fromkeys(Screen(words.panel(shown, TABLE), shown.phase is Phase.CLOSED) for shown in views()))


def picture(shown: bytes) -> Image.Image:
    """A frame as an image, by the page order's definition: a column is eight bytes, the lowest bit on top."""
    columns = b"".join(shown[x :: frame.WIDTH] for x in range(frame.WIDTH))
    lying = Image.frombytes("1", (frame.HEIGHT, frame.WIDTH), columns, "raw", "1;R")
    return lying.transpose(Image.Transpose.TRANSPOSE)


def place(number: int, across: int = ACROSS, scale: int = 1) -> tuple[int, int]:
    """Where the pixels of a screen begin on a sheet."""
    y, x = divmod(number, across)
    border = GAP + GAP
    return border + x * (frame.WIDTH * scale + 3 * GAP), border + y * (frame.HEIGHT * scale + 3 * GAP)


def sheet(frames: Sequence[bytes], across: int = ACROSS, scale: int = 1) -> Image.Image:
    width, _ = place(across, across * 2, scale)
    _, height = place(-(-len(frames) // across), 1, scale)
    image = Image.new("1", (width - GAP, height - GAP), 1)
    for number, shown in enumerate(frames):
        x, y = place(number, across, scale)
        large = picture(shown).resize((frame.WIDTH * scale, frame.HEIGHT * scale), Image.Resampling.NEAREST)
        image.paste(0, (x - GAP, y - GAP, x + large.width + GAP, y + large.height + GAP))
        image.paste(large, (x, y))
    return image


def png(image: Image.Image) -> bytes:
    """One bit a pixel and not compressed: the same bytes whatever zlib is at hand, and git compresses them."""
    rows = image.tobytes()
    stride = (image.width + 7) // 8
    raw = b"".join(b"\0" + rows[at : at + stride] for at in range(0, len(rows), stride))  # filter 0: none
    blocks = [raw[at : at + 0xFFFF] for at in range(0, len(raw), 0xFFFF)]
    stored = b"\x78\x01"  # RFC 1950: deflate
    for number, block in enumerate(blocks, 1):
        stored += struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ 0xFFFF) + block
    stored += struct.pack(">I", zlib.adler32(raw))
    header = struct.pack(">IIBBBBB", image.width, image.height, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", stored), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def golden(root: Path, language: str) -> Path:
    return root / "tests" / "golden" / f"panel-{language}.png"


def sheets(root: Path) -> Iterator[tuple[Path, bytes]]:
    """Every screen in each language, and what irregularities.md prescribes, for people to look at."""
    for language in LANGUAGES:
        yield golden(root, language), png(sheet([screen.frame for screen in screens(language)]))
    words = Words("es")
    prescribed = []
    for scenario in scenarios(PRESCRIBED):
        shown = view(played(scenario.options, scenario.script).state)
        prescribed.append(Screen(words.panel(shown, TABLE), shown.phase is Phase.CLOSED).frame)
    yield root / "docs" / "panel.png", png(sheet(list(dict.fromkeys(prescribed)), 4, DOCS))
