"""The panel's pixels. The oracle is FreeType, by Pillow, with Terminus Font's own files: nothing of ours is in it."""

import gzip
import io
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from controller import frame
from controller.core.facts import Phase
from controller.core.view import Prompt, Text, View
from controller.panel import HEADLINE, LINE, STRIP, Panel21, Words
from tests.generate import stale
from tests.glyphs import CHARACTERS, SOURCES, fonts
from tests.panel_sheet import GAP, Screen, golden, picture, place, screens, sheets
from tests.test_panel import LANGUAGES, TABLE

ROOT = Path(__file__).parent.parent
EVERY = [screen for language in LANGUAGES for screen in screens(language)]


# --- the oracle -------------------------------------------------------------------------------------------


@cache
def terminus(size: str) -> ImageFont.FreeTypeFont:
    data = gzip.decompress((ROOT / "tests" / "fonts" / SOURCES[size]).read_bytes())
    return ImageFont.truetype(io.BytesIO(data), int(size.partition("x")[2]))


def write(image: Image.Image, text: str, size: str, top: int, colour: int = 1) -> None:
    """Character by character, centred."""
    width = int(size.partition("x")[0])
    left = (128 - width * len(text)) // 2
    for number, character in enumerate(text):
        ImageDraw.Draw(image).text((left + width * number, top), character, colour, terminus(size))


def expected(screen: Screen) -> Image.Image:
    strip, headline, lines = screen.panel
    image = Image.new("1", (128, 64))
    if screen.idle and not strip and len(headline) <= 8:
        write(image, headline, "16x32", 0)
    else:
        write(image, headline, "10x20", 13)
    write(image, lines[0], "8x16", 32)
    write(image, lines[1], "8x16", 48)
    if strip:
        half = 3 * len(strip)
        left, right = max(0, 64 - half - 3), min(127, 64 + half + 1)
        draw = ImageDraw.Draw(image)
        draw.rectangle((left, 0, right, 11), 1)
        draw.point([(left, 0), (right, 0), (left, 11), (right, 11)], 0)
        write(image, strip, "6x12", 0, 0)
    return image


def lit(shown: bytes) -> set[tuple[int, int]]:
    return {(x, y) for x in range(128) for y in range(64) if shown[y // 8 * 128 + x] >> y % 8 & 1}


def as_text(shown: bytes) -> str:
    return "\n" + "\n".join(frame.blocks(shown))


# --- characters -------------------------------------------------------------------------------------------


def test_every_character_that_the_panel_may_be_given_is_the_fonts_own() -> None:
    for size in SOURCES:
        width, height = map(int, size.split("x"))
        glyphs = frame._glyphs(frame.Font(width, height))
        assert set(glyphs) == {"", *CHARACTERS}
        for character in CHARACTERS:
            cell = Image.new("1", (width, height))
            ImageDraw.Draw(cell).text((0, 0), character, 1, terminus(size))
            pixels = {(x, y) for x in range(width) for y in range(height) if cell.getpixel((x, y))}
            assert pixels == lit(frame._frame(glyphs[character])), (size, character)
            assert bool(pixels) == (character != " "), (size, character)


SPANISH = "ABCDEFGHIJKLMNÑOPQRSTUVWXYZÁÉÍÓÚÜabcdefghijklmnñopqrstuvwxyzáéíóúü0123456789ªº¿?¡!.,:;-·…♠♥♦♣"


@pytest.mark.parametrize("size", SOURCES)
def test_no_two_characters_of_spanish_look_the_same(size: str) -> None:
    glyphs = frame._glyphs(frame.Font(*map(int, size.split("x"))))
    assert {*SPANISH} <= {*CHARACTERS}
    assert [pair for pair in combinations(SPANISH, 2) if glyphs[pair[0]] == glyphs[pair[1]]] == []


def test_a_character_that_no_font_has_is_a_box() -> None:
    box = lit(frame.draw(Panel21("", "", ("漢", ""))))
    assert {x for x, _ in box} == set(range(60, 67))
    assert {y for _, y in box} == set(range(32, 48))
    assert len(box) == 2 * 16 + 2 * 5


@given(st.text(max_size=40), st.text(max_size=40), st.sampled_from(Phase))
def test_what_people_and_devices_write_has_pixels(reason: str, table: str, phase: Phase) -> None:
    values = {"reason": reason, "part": reason}
    shown = View(
        phase, Prompt(Text("I31.headline", values), (Text("I31.line2", values),), (Text("strip.fault", values),))
    )
    panel = Words("es").panel(shown, table)
    for part, size in ((panel.strip, frame.SMALL), (panel.headline, frame.LARGE), ("".join(panel.lines), frame.MIDDLE)):
        assert {*part} <= {*frame._glyphs(size)}
    assert len(frame.draw(panel, idle=phase is Phase.CLOSED)) == 1024


def test_a_letter_and_its_accent_are_drawn_as_one() -> None:
    """Bug report 19: decomposed letters come from keyboards and files."""
    reason = "corazón año ¿ÑÜ?"
    drawn = {
        form: frame.draw(
            Words("es").panel(
                View(Phase.READY, Prompt(Text("I31.headline"), (Text("I31.line2", {"reason": said}),))), TABLE
            )
        )
        for form in ("NFC", "NFD")
        for said in [unicodedata.normalize(form, reason)]
    }
    assert drawn["NFC"] == drawn["NFD"]


# --- screens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_screen_is_the_words_in_the_fonts_of_the_grammar(language: str) -> None:
    for screen in screens(language):
        assert picture(screen.frame).tobytes() == expected(screen).tobytes(), as_text(screen.frame)


def test_every_string_fits() -> None:
    assert (STRIP * 6, HEADLINE * 10, LINE * 8) <= (128, 128, 128)
    for strip, headline, lines in (screen.panel for screen in EVERY):
        assert len(strip) <= STRIP
        assert len(headline) <= HEADLINE
        assert all(len(line) <= LINE for line in lines)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_two_screens_look_the_same(language: str) -> None:
    looks = defaultdict(list)
    for screen in screens(language):
        looks[screen.frame].append(screen.panel)
    assert [alike for alike in looks.values() if len(alike) > 1] == []


def test_parts_do_not_touch() -> None:
    """Each part alone, and all of them together, have as many pixels."""
    for screen in EVERY:
        strip, headline, lines = screen.panel
        parts = [
            Panel21(strip, "", ("", "")),
            Panel21("", headline, ("", "")),
            Panel21("", "", (lines[0], "")),
            Panel21("", "", ("", lines[1])),
        ]
        alone = [lit(frame.draw(part, idle=screen.idle and not strip)) for part in parts]
        assert sum(map(len, alone)) == len(lit(screen.frame)), as_text(screen.frame)


def test_the_number_of_a_table_at_rest_is_large_where_it_fits() -> None:
    def rows(headline: str, strip: str = "", *, idle: bool = True) -> int:
        pixels = lit(frame.draw(Panel21("", headline, ("", "")), idle=idle))
        return max(y for _, y in pixels) - min(y for _, y in pixels) + 1

    assert rows("BAC-07") == 20
    assert rows("TABLE-07") == 20
    assert rows("TABLE-007") == 13
    assert rows("BAC-07", idle=False) == 13


@given(st.text(st.sampled_from(CHARACTERS), max_size=40), st.booleans())
def test_what_is_too_long_is_cut(text: str, idle: bool) -> None:
    whole = frame.draw(Panel21(text, text, (text, text)), idle=idle)
    cut = Panel21(text[:STRIP], text[:HEADLINE], (text[:LINE], text[:LINE]))
    assert whole == frame.draw(cut, idle=idle and len(text) <= HEADLINE)


def test_the_test_picture_reaches_every_edge_and_says_which_way_is_up() -> None:
    shown = frame.pattern()
    edge = {(x, y) for x in range(128) for y in range(64) if x in {0, 127} or y in {0, 63}}
    assert edge <= lit(shown)
    assert frame.turned(shown) != shown


# --- golden files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_golden_screens(language: str) -> None:
    with Image.open(golden(ROOT, language)) as sheet:
        for number, screen in enumerate(screens(language)):
            x, y = place(number)
            shown = sheet.crop((x, y, x + 128, y + 64)).convert("1")
            assert shown.tobytes() == picture(screen.frame).tobytes(), (
                f"{screen.panel} is new or differs: look at it, then `make generate`{as_text(screen.frame)}"
            )


def test_fonts_and_sheets_are_made_of_what_is_there() -> None:
    assert [str(path.relative_to(ROOT)) for path in stale(ROOT, (fonts, sheets))] == []


def test_sheets_have_white_between_the_screens() -> None:
    with Image.open(golden(ROOT, "es")) as sheet:
        assert GAP > 1
        assert sheet.getpixel((0, 0)) == 255
        assert sheet.getpixel(place(0)) == 0


# --- what is sent -----------------------------------------------------------------------------------------

frames = st.one_of(
    st.sampled_from([screen.frame for screen in EVERY]),
    st.binary(min_size=1024, max_size=1024),
    st.lists(st.integers(0, 1023), max_size=60).map(lambda at: bytes(at.count(x) & 0xFF for x in range(1024))),
)


def put(shown: bytes, runs: tuple[frame.Run, ...]) -> bytes:
    memory = bytearray(shown)
    for page, column, data in runs:
        assert 0 <= page < 8
        assert 0 <= column <= column + len(data) <= 128
        memory[128 * page + column : 128 * page + column + len(data)] = data
    assert len(memory) == 1024
    return bytes(memory)


def cheapest(before: bytes, after: bytes) -> int:
    """The fewest bus bytes for one page, by trying every last run for every beginning of it."""
    best = [0]
    for end in range(1, 129):
        skipped = best[-1] if before[end - 1] == after[end - 1] else 1_000_000
        best.append(min([skipped, *(best[start] + 7 + end - start for start in range(end))]))
    return best[-1]


@given(frames, frames)
def test_what_is_sent_makes_the_new_frame_of_the_old_at_the_least_cost(old: bytes, new: bytes) -> None:
    runs = frame.diff(old, new)
    assert put(old, runs) == new
    pages = range(0, 1024, 128)
    assert frame.bus_bytes(runs) == sum(cheapest(old[at : at + 128], new[at : at + 128]) for at in pages)
    assert frame.diff(new, new) == ()


def test_turned_is_the_picture_upside_down() -> None:
    for screen in EVERY[:10]:
        assert lit(frame.turned(screen.frame)) == {(127 - x, 63 - y) for x, y in lit(screen.frame)}
        assert frame.turned(frame.turned(screen.frame)) == screen.frame


# --- in a terminal ----------------------------------------------------------------------------------------


def from_blocks(lines: list[str]) -> Iterator[tuple[int, int]]:
    for y, line in enumerate(lines):
        for x, character in enumerate(line):
            yield from [(x, 2 * y + half) for half in range(2) if character in ("▀█", "▄█")[half]]


def from_dots(lines: list[str]) -> Iterator[tuple[int, int]]:
    """By the names of the characters: `BRAILLE PATTERN DOTS-125`."""
    where = {"1": (0, 0), "2": (0, 1), "3": (0, 2), "4": (1, 0), "5": (1, 1), "6": (1, 2), "7": (0, 3), "8": (1, 3)}
    for y, line in enumerate(lines):
        for x, character in enumerate(line):
            name = unicodedata.name(character)
            for dot in name.partition("DOTS-")[2]:
                yield 2 * x + where[dot][0], 4 * y + where[dot][1]


@given(frames)
def test_a_terminal_shows_the_same_pixels(shown: bytes) -> None:
    blocks, dots = frame.blocks(shown), frame.dots(shown)
    assert ([*map(len, blocks)], [*map(len, dots)]) == ([128] * 32, [64] * 16)
    assert {*from_blocks(blocks)} == {*from_dots(dots)} == lit(shown)
