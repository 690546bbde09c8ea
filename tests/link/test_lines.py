"""The line assembler, tables over time. Bug reports 25 (split lines), 26 (noise), 37 (doubled terminators)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.cards import Card
from controller.core.codes import TABLES, Codes
from controller.link.lines import Line, Lines

LIMIT = 16
IDLE = 200

# What happens, in order: `at bytes` feeds (Python escapes, `-` feeds nothing), `at idle` asks; then what came out:
# `text@at` a clean line, `!text@at` a dirty one; last the counts clean, dirty, overlong, halves.
STORIES = {
    "CR ends a line": r"1 8H\r = 8H@1 = 1000",
    "LF ends a line": r"1 8H\n = 8H@1 = 1000",
    "CR LF ends one line (37)": r"1 8H\r\n = 8H@1 = 1000",
    "CR, later LF, end one line (37)": r"1 8H\r; 2 \n = 8H@1 = 1000",
    "a doubled CR ends one line (37)": r"1 8H\r\r; 2 \r = 8H@1 = 1000",
    "empty lines are none": r"1 \r\n\n\r; 2 \r = = 0000",
    "a line's time is its terminator's": r"1 8; 5 H; 9 \r = 8H@9 = 1000",
    "two codes in one chunk are two lines (25)": r"1 8H\rKD\r = 8H@1 KD@1 = 2000",
    "two equal codes in a row are two lines (37)": r"1 8H\r8H\r; 2 8H\r = 8H@1 8H@1 8H@2 = 3000",
    "a chunk may end one line and begin the next": r"1 8H\rK; 2 D\r = 8H@1 KD@2 = 2000",
    "nothing fed changes nothing": r"1 8; 2 -; 3 H\r = 8H@3 = 1000",
    "half a line is dropped after the silence (25)": r"1 8; 201 idle = = 0001",
    "half a line is kept before it": r"1 8; 200 idle; 200 H\r = 8H@200 = 1000",
    "a half is told from the line after it (25)": r"1 8; 201 idle; 202 KD\r = KD@202 = 1001",
    "the silence is measured from the last byte": r"1 8; 150 H; 340 idle; 341 \r = 8H@341 = 1000",
    "a line that went on after a silence is not trusted": r"1 8; 201 KD\r = !8KD@201 = 0100",
    "nor is its end alone": r"1 8H; 500 \r = !8H@500 = 0100",
    "the next line is": r"1 8; 201 H\r; 202 KD\r = !8H@201 KD@202 = 1100",
    "silence between lines is nothing": r"1 8H\r; 900 idle; 901 8H\r = 8H@1 8H@901 = 2000",
    "asked twice, dropped once": r"1 8; 201 idle; 900 idle; 901 KD\r = KD@901 = 1001",
    "a control byte marks the line": r"1 8\x1bH\r = !8\x1bH@1 = 0100",
    "so does NUL": r"1 8H\x00\r = !8H\x00@1 = 0100",
    "and DEL": r"1 \x7f8H\r = !\x7f8H@1 = 0100",
    "and a high byte": r"1 8H\xff\r = !8H\xff@1 = 0100",
    "a tab is no blank": r"1 8\tH\r = !8\x09H@1 = 0100",
    "vertical tab, form feed and NEL end nothing": r"1 8\x0bH\x0cK\x85D\r = !8\x0bH\x0cK\x85D@1 = 0100",
    "a blank is printable": r"1 8 H\r = 8 H@1 = 1000",
    "noise alone is a dirty line": r"1 \xfe\xff\r8H\r = !\xfe\xff@1 8H@1 = 1100",
    "16 bytes fit": r"1 0123456789ABCDEF\r = 0123456789ABCDEF@1 = 1000",
    "17 do not": r"1 0123456789ABCDEFG\r = = 0010",
    "an over-long line goes to its terminator": r"1 0123456789ABCDEFG; 2 8H; 3 \r; 4 KD\r = KD@4 = 1010",
    "over-long in pieces": r"1 0123456789ABCDEF; 2 G; 3 0123456789ABCDEFG; 4 \r8H\r = 8H@4 = 1010",
    "a silence ends an over-long line too": r"1 0123456789ABCDEFG; 201 idle; 202 8H\r = 8H@202 = 1010",
    "but not by itself": r"1 0123456789ABCDEFG; 900 8H\r; 901 KD\r = KD@901 = 1010",
}


def feed(lines: Lines, story: str) -> list[Line]:
    out: list[Line] = []
    for step in story.split("; "):
        at, what = step.strip(" ").split(" ", 1)
        if what == "idle":
            lines.idle(int(at))
        else:
            data = b"" if what == "-" else what.encode().decode("unicode_escape").encode("latin-1")
            out += lines.feed(data, int(at))
    return out


def counts(lines: Lines) -> tuple[int, int, int, int]:
    return lines.clean, lines.dirty, lines.overlong, lines.halves


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_story(story: str) -> None:
    steps, expected, counted = story.split(" =")
    lines = Lines(LIMIT, IDLE)
    out = [f"{'' if line.clean else '!'}{line.text}@{line.at}" for line in feed(lines, steps)]
    assert " ".join(out) == expected.strip()
    assert "".join(map(str, counts(lines))) == counted.strip()


def test_due_is_when_a_half_line_is_dropped() -> None:
    lines = Lines(LIMIT, IDLE)
    assert lines.due is None
    lines.feed(b"8", 10)
    assert lines.due == 210
    lines.feed(b"H", 20)
    assert lines.due == 220 and not lines.idle(219)
    lines.feed(b"\r", 30)
    assert lines.due is None and not lines.idle(10_000)
    lines.feed(b"x" * 99, 40)
    assert lines.due == 240 and lines.idle(240)
    assert lines.due is None


MIDLINE = [
    # after a restart in the middle of a line: what comes, what comes out, the halves counted
    (r"1 AD\r; 2 KD\r", ["KD"], 1),
    (r"1 NORE; 2 AD\r; 3 KD\r", ["KD"], 1),
    (r"1 AD; 201 idle; 202 KD\r", ["KD"], 1),
    (r"1 \r; 2 KD\r", ["KD"], 1),
    (r"200 idle; 201 KD\r", ["KD"], 1),
]


@pytest.mark.parametrize(("story", "texts", "halves"), MIDLINE)
def test_the_rest_of_a_line_begun_unseen_is_no_line(story: str, texts: list[str], halves: int) -> None:
    lines = Lines(LIMIT, IDLE)
    lines.restart(0, midline=True)
    assert lines.due == IDLE
    assert [line.text for line in feed(lines, story)] == texts
    assert lines.halves == halves


def test_a_restart_drops_and_counts_what_is_held() -> None:
    lines = Lines(LIMIT, IDLE)
    lines.feed(b"8", 1)
    lines.restart(1)
    assert (lines.held, lines.due, lines.halves) == (0, None, 1)
    assert [line.text for line in lines.feed(b"KD\r", 2)] == ["KD"]


@pytest.mark.parametrize("ending", [b"\r", b"\n", b"\r\n", b"\r\r", b"\n\n"])
def test_every_code_split_at_every_byte_is_one_line_with_pauses_and_none_without_its_half(ending: bytes) -> None:
    """Bug report 25: a pause within the idle time changes nothing; one past it never makes a card of a half."""
    for name, table in TABLES.items():
        codes = Codes.of(name, cut="CUT", noread="NR")
        for code in table:
            whole = code.encode() + ending
            for cut in range(1, len(whole)):
                lines = Lines(LIMIT, IDLE)
                got = lines.feed(whole[:cut], 1) + lines.feed(whole[cut:], IDLE)
                assert [(line.text, line.clean) for line in got] == [(code, True)]
                if cut < len(code) + 1:
                    lines = Lines(LIMIT, IDLE)
                    lines.feed(whole[:cut], 1)
                    assert lines.idle(IDLE + 1)
                    rest = lines.feed(whole[cut:], IDLE + 2)
                    assert not any(isinstance(codes.classify(line.text), Card) for line in rest)


@pytest.mark.parametrize("byte", range(256))
def test_any_byte_inside_a_code_makes_no_card_of_it(byte: int) -> None:
    """Bug report 26: 0x00 to 0xFF in the middle of a code, and the next code is read."""
    lines = Lines(LIMIT, IDLE)
    out = lines.feed(b"8" + bytes([byte]) + b"H\rKD\r", 1)
    if byte in b"\r\n":
        assert [(line.text, line.clean) for line in out] == [("8", True), ("H", True), ("KD", True)]
    else:
        assert [line.clean for line in out] == [0x20 <= byte < 0x7F, True]
        assert out[0].text != "8H" and out[1].text == "KD"


def test_64_kib_without_a_terminator_hold_nothing() -> None:
    """Bug report 26."""
    lines = Lines(LIMIT, IDLE)
    for start in range(0, 65_536, 4096):
        assert lines.feed(b"\x55" * 4096, start) == []
        assert lines.held <= LIMIT
    assert counts(lines) == (0, 0, 1, 0)
    assert [line.text for line in lines.feed(b"\r8H\r", 65_537)] == ["8H"]


# Mostly what matters: terminators, characters of codes, and any byte at all.
noise = st.lists(
    st.one_of(st.sampled_from([b"\r", b"\n", b"8H", b"KD\r", b"\x00"]), st.binary(max_size=40)), max_size=12
)


@given(noise)
def test_cutting_the_stream_elsewhere_changes_no_line(chunks: list[bytes]) -> None:
    """Bug reports 25 and 26, against a regular expression over the whole stream."""
    lines = Lines(LIMIT, IDLE)
    out: list[Line] = []
    for at, chunk in enumerate(chunks):
        out += lines.feed(chunk, at)
        assert lines.held <= LIMIT
    parts = re.split(rb"[\r\n]", b"".join(chunks))
    ended = [part for part in parts[:-1] if part]
    assert [line.text.encode() for line in out if line.clean] == [p for p in ended if re.fullmatch(rb"[ -~]{1,16}", p)]
    assert len(out) == len([part for part in ended if len(part) <= LIMIT])
    assert lines.overlong == len([part for part in parts if len(part) > LIMIT])
    assert (lines.clean, lines.dirty) == (sum(line.clean for line in out), sum(not line.clean for line in out))
    assert lines.held == (len(parts[-1]) if len(parts[-1]) <= LIMIT else 0)


@given(
    st.lists(st.tuples(st.integers(0, 3 * IDLE), st.one_of(st.none(), st.binary(max_size=40))), max_size=20),
    st.sampled_from([b"\r", b"\n", b"\r\n"]),
)
def test_after_any_noise_and_a_terminator_the_next_code_is_read(
    steps: list[tuple[int, bytes | None]], ending: bytes
) -> None:
    """Bug report 26: with silences of any length, and `idle` asked at any moment or never."""
    lines, at = Lines(LIMIT, IDLE), 0
    for wait, data in steps:
        at += wait
        if data is None:
            lines.idle(at)
            assert lines.due is None or lines.due > at
        else:
            for line in lines.feed(data, at):
                assert 0 < len(line.text) <= 4 * LIMIT and line.text.isascii() and line.text.isprintable()
        assert lines.held <= LIMIT
    lines.feed(ending, at)
    assert lines.feed(b"8H" + ending, at + 1) == [Line("8H", at + 1, clean=True)]
