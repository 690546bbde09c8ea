"""The keyboard wedge, tables over events. Bug reports 34 (modifiers), 35 (torn records).

The numbers of the keys and what a US keyboard types are written out here from linux/input-event-codes.h and from a
keyboard, not taken from the code under test.
"""

import string
import struct
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.codes import TABLES, Codes, Sign
from controller.link.keys import FRAME_MAX, TYPES, Keys, Typed, bits, twins
from controller.link.lines import Lines

# Numbers 1 to 83, in the order of the header; then those that are not in a row.
NAMES = (
    "esc 1 2 3 4 5 6 7 8 9 0 minus equal backspace tab q w e r t y u i o p leftbrace rightbrace enter leftctrl "
    "a s d f g h j k l semicolon apostrophe grave leftshift backslash z x c v b n m comma dot slash rightshift "
    "kpasterisk leftalt space capslock f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 numlock scrolllock "
    "kp7 kp8 kp9 kpminus kp4 kp5 kp6 kpplus kp1 kp2 kp3 kp0 kpdot"
)
NUMBER = {name: number for number, name in enumerate(NAMES.split(), start=1)}
NUMBER |= {"kpenter": 96, "rightctrl": 97, "kpslash": 98, "rightalt": 100, "leftmeta": 125, "rightmeta": 126}
SHORT = {"sl": "leftshift", "sr": "rightshift", "caps": "capslock", "num": "numlock", "cr": "enter"}

ALONE = {sign: sign for sign in string.digits + string.ascii_lowercase} | {
    "-": "minus", "=": "equal", "[": "leftbrace", "]": "rightbrace", ";": "semicolon", "'": "apostrophe",
    "`": "grave", "\\": "backslash", ",": "comma", ".": "dot", "/": "slash", " ": "space",
}  # fmt: skip
SHIFTED = {sign: sign.lower() for sign in string.ascii_uppercase} | {
    "!": "1", "@": "2", "#": "3", "$": "4", "%": "5", "^": "6", "&": "7", "*": "8", "(": "9", ")": "0",
    "_": "minus", "+": "equal", "{": "leftbrace", "}": "rightbrace", ":": "semicolon", '"': "apostrophe",
    "~": "grave", "|": "backslash", "<": "comma", ">": "dot", "?": "slash",
}  # fmt: skip


def event(kind: int, code: int, value: int, at_ns: int = 0) -> bytes:
    return struct.pack("llHHi", at_ns // 10**9, at_ns % 10**9 // 1000, kind, code, value)


REPORT, DROPPED = event(0, 0, 0), event(0, 3, 0)
ACT = {"+": 1, "-": 0, "~": 2}


def record(token: str) -> bytes:
    """`+a` down, `-a` up, `~a` repeated by time, `.` the end of a report, `!` events were dropped."""
    if token in (".", "!"):
        return REPORT if token == "." else DROPPED
    name = token[1:]
    return event(1, NUMBER[SHORT.get(name, name)], ACT[token[0]])


def records(story: str) -> bytes:
    return b"".join([record(token) for token in story.split()])


def typing(text: str) -> str:
    """The story of a person or a scanner that types `text` and Enter, each event a report of its own."""
    story = ""
    for sign in text:
        if sign in SHIFTED:
            story += f"+sl . +{SHIFTED[sign]} . -{SHIFTED[sign]} . -sl . "
        else:
            story += f"+{ALONE[sign]} . -{ALONE[sign]} . "
    return story + "+cr . -cr . "


def told(typed: Iterable[Typed]) -> str:
    """What was typed: `?` a stroke that is no character, `#` lost, `/` the end of a line."""
    return b"".join([data for _, data in typed]).decode().translate({0x1A: "?", 0x18: "#", 0x0D: "/"})


STORIES = {
    "a key": ("+8 . -8 .", "8"),
    "letters are small without shift": ("+h . -h .", "h"),
    "shift left": ("+sl . +h . -h . -sl .", "H"),
    "shift right": ("+sr . +h . -h . -sr .", "H"),
    "both, one let go": ("+sl . +sr . -sl . +h . -h . -sr . +h . -h .", "Hh"),
    "let go before the key is up (34)": ("+sl . +h . -sl . -h .", "H"),
    "pressed after the key (34)": ("+h . +sl . -h . -sl .", "h"),
    "held over keys (34)": ("+sl . +r . -r . +t . -t . -sl . +w . -w .", "RTw"),
    "every other letter shifted (34)": ("+sl . +r . -r . -sl . +t . -t . +sl . +t . -t . -sl . +w . -w .", "RtTw"),
    "caps lock": ("+caps . -caps . +h . -h . +8 . -8 .", "H8"),
    "caps lock and shift": ("+caps . -caps . +sl . +h . -h . +8 . -8 .", "h*"),
    "caps lock twice": ("+caps . -caps . +caps . -caps . +h .", "h"),
    "caps lock held is one press": ("+caps . ~caps . ~caps . -caps . +h .", "H"),
    "digits of the keypad": ("+kp1 . -kp1 . +kp0 . -kp0 . +kpdot . -kpdot .", "10."),
    "without NumLock they move a cursor": ("+num . -num . +kp1 . -kp1 . +1 . -1 .", "?1"),
    "with shift too": ("+sl . +kp1 . -kp1 . -sl .", "?"),
    "signs of the keypad know no lock": ("+num . -num . +kpslash . +kpasterisk . +kpminus . +kpplus .", "/*-+"),
    "Enter": ("+cr . -cr .", "/"),
    "Enter of the keypad": ("+kpenter . -kpenter .", "/"),
    "with shift": ("+sl . +cr . -cr . -sl .", "/"),
    "repeats by time are no strokes": ("+8 . ~8 . ~8 . -8 . +cr . ~cr . -cr .", "8/"),
    "two alike are two": ("+8 . -8 . +8 . -8 .", "88"),
    "one over the other": ("+8 . +h . -8 . -h .", "8h"),
    "the next in the report of the last's end": ("+8 . -8 +h . -h .", "8h"),
    "shift and key in one report": ("+sl +h . -h -sl .", "H"),
    "shift up and key in one report": ("+sl . -sl +h . -h .", "h"),
    "a key, then a shift in one report, may be either": ("+h +sl . -h -sl .", "h#"),
    "so may a key and the end of a shift": ("+sl . +h -sl . -h .", "H#"),
    "and a key and a lock": ("+h +caps . -h -caps .", "h#"),
    "Enter is Enter whatever the shift": ("+sl . +cr -sl . -cr .", "/"),
    "two keys in one report may be in either order": ("+2 +1 . -2 -1 .", "#"),
    "and a key with Enter": ("+2 +cr .", "#/"),
    "a function key": ("+f1 . -f1 .", "?"),
    "escape, tab, backspace": ("+esc . +tab . +backspace .", "???"),
    "a key with Ctrl": ("+leftctrl . +j . -j . -leftctrl . +j .", "??j"),
    "with Alt, a number on the keypad": ("+leftalt . +kp6 . +kp5 . -leftalt .", "???"),
    "with AltGr": ("+rightalt . +2 .", "??"),
    "with Meta": ("+leftmeta . +2 . -2 . -leftmeta . +rightmeta . +2 .", "????"),
    "Enter with Ctrl": ("+rightctrl . +cr . -cr . -rightctrl .", "??/"),
    "down twice": ("+8 . +8 . -8 .", "8#8"),
    "up twice": ("-8 . +8 . -8 .", "#8"),
    "a shift up that was not down": ("+h . -sl .", "h#"),
    "events that are no report yet": ("+8", ""),
    "after a drop nothing counts": ("+8 . ! +h . -h . +cr .", "8#/#"),
    "nor what stood in the report before it": ("+8 ! . +h .", "#/#"),
    "two drops are one": ("! . ! .", "#/#"),
}


@pytest.mark.parametrize(("story", "expected"), STORIES.values(), ids=STORIES)
def test_story(story: str, expected: str) -> None:
    assert told(Keys().feed(records(story))) == expected


def test_every_printable_character() -> None:
    signs = string.digits + string.ascii_letters + string.punctuation + " "
    assert len(signs) == 95 and set(signs) == set(ALONE) | set(SHIFTED)
    assert told(Keys().feed(records(typing(signs)))) == signs + "/"


def test_no_other_key_is_a_character() -> None:
    known = {NUMBER[name] for name in [*ALONE.values(), *NAMES.split()[54:], "enter", "kpenter", "kpslash", "capslock"]}
    known |= {NUMBER["leftshift"], NUMBER["rightshift"]} - {NUMBER[f"f{n}"] for n in range(1, 11)}
    for code in set(range(1, 0x300)) - known:
        assert told(Keys().feed(event(1, code, 1) + REPORT)) == "?", code


def test_what_is_no_key_event_types_nothing() -> None:
    """The scan code before each key (EV_MSC), a lamp (EV_LED), the repeat's settings (EV_REP), a wheel (EV_REL)."""
    others = event(4, 4, 458_789) + event(17, 1, 1) + event(20, 0, 250) + event(2, 8, 1) + event(0, 1, 0)
    assert told(Keys().feed(b"".join([others + record(token) for token in ["+8", ".", "-8", "."]]))) == "8"


def test_the_time_is_that_of_the_report() -> None:
    data = event(1, NUMBER["8"], 1, 5_000_001_000) + event(0, 0, 0, 5_000_002_000)
    assert Keys().feed(data) == [Typed(5_000_002_000, b"8")]


def test_bug_35_the_part_of_a_record_waits_for_its_rest() -> None:
    data = records(typing("8H"))
    for cut in range(len(data)):
        keys = Keys()
        assert told([*keys.feed(data[:cut]), *keys.feed(data[cut:])]) == "8H/"


def test_resync_knows_what_is_down_and_sets_the_locks() -> None:
    keys = Keys()
    keys.feed(records("+caps . -caps . +num . -num . !"))
    assert keys.lost
    keys.resync({NUMBER["leftshift"], NUMBER["8"]})
    assert not keys.lost
    assert told(keys.feed(records("+h . -h . -8 . -sl . +h . -h . +kp1 ."))) == "Hh1"


def test_restart_forgets_half_a_record() -> None:
    keys = Keys()
    keys.feed(records("+8")[:5])
    keys.restart(())
    assert told(keys.feed(records("+h ."))) == "h"


def test_a_report_without_end_is_given_up() -> None:
    keys = Keys()
    assert told(keys.feed(records("+8 -8 " * FRAME_MAX))) == "#/#"
    assert keys.lost


def test_a_keyboard_has_all_that_codes_are_made_of() -> None:
    assert {NUMBER[sign] for sign in string.digits + string.ascii_lowercase} | {NUMBER["enter"]} == TYPES


@pytest.mark.parametrize(
    ("data", "expected"), [(b"\0\0", set()), (b"\x01\x80", {0, 15}), (b"\xff", set(range(8))), (b"", set())]
)
def test_bits(data: bytes, expected: set[int]) -> None:
    assert bits(data) == expected


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (["8H", "TC", "1010"], []),
        (["8H", "8h"], [("8H", "8h")]),
        (["1A", "!A", "1a"], [("1A", "!A"), ("1A", "1a")]),
        (["A-1", "A_1"], [("A-1", "A_1")]),
        (["A1", "A1"], []),
    ],
)
def test_twins_are_typed_with_the_same_keys(codes: list[str], expected: list[tuple[str, str]]) -> None:
    assert twins(codes) == expected


@pytest.mark.parametrize("table", TABLES)
def test_no_code_of_ours_has_a_twin(table: str) -> None:
    assert twins(list(Codes.of(table, cut="CUT", noread="NOREAD").reads)) == []


# --- properties: whatever the modifiers do, never another card ----------------------------------------------

CODES = {name: Codes.of(name, cut="CUT", noread="NOREAD") for name in TABLES}
labels = st.sampled_from([(name, code) for name, codes in CODES.items() for code in codes.reads])
MODIFIERS = ("+sl", "-sl", "+sr", "-sr", "+caps", "-caps", "+num", "-num", "+leftctrl", "-leftctrl", "~sl", "~8")


def cards(typed: Iterable[Typed], codes: Codes) -> list[str]:
    """The lines that are codes, as the table would take them."""
    lines = Lines(128, 200)
    ended = [line for _, data in typed for line in lines.feed(data, 0)]
    return [line.text for line in ended if line.clean and codes.classify(line.text) is not Sign.UNKNOWN]


@given(labels, st.lists(st.tuples(st.integers(0, 80), st.sampled_from(MODIFIERS)), max_size=12), st.data())
def test_bug_34_any_order_of_modifiers_gives_the_label_or_no_card(
    label: tuple[str, str], inserted: list[tuple[int, str]], data: st.DataObject
) -> None:
    """Modifiers pressed, released, lost or doubled anywhere, and reports ended anywhere."""
    name, code = label
    tokens = typing(code).split()
    if data.draw(st.booleans()):  # the label's own shifts go wrong too
        tokens = [token for token in tokens if token[1:] != "sl" or data.draw(st.booleans())]
    tokens = [token for token in tokens if token != "." or data.draw(st.integers(0, 3))] + ["."]
    for place, token in inserted:
        tokens.insert(min(place, len(tokens)), token)
    stories = records(" ".join([*tokens, "+cr", ".", "-cr", "."]))
    assert set(cards(Keys().feed(stories), CODES[name])) <= {code}


@given(labels, st.data())
def test_bug_34_in_whatever_order_the_kernel_tells_a_report(label: tuple[str, str], data: st.DataObject) -> None:
    """Reports are what is down: some scanners leave out the empty ones, or put several keys into one."""
    name, code = label
    reports: list[set[str]] = [set()]
    for sign in code:
        keys = {"leftshift", SHIFTED[sign]} if sign in SHIFTED else {ALONE[sign]}
        together = data.draw(st.integers(0, 3)) == 0
        if data.draw(st.booleans()) or keys & reports[-1] - {"leftshift"}:
            reports.append(set())
        reports.append(keys | reports[-1] if together else keys)
    reports += [{"enter"}, set()]
    tokens: list[str] = []
    for before, after in pairwise(reports):
        changes = [f"-{key}" for key in sorted(before - after)] + [f"+{key}" for key in sorted(after - before)]
        tokens += [*data.draw(st.permutations(changes)), "."]
    assert set(cards(Keys().feed(records(" ".join(tokens))), CODES[name])) <= {code}


@given(st.lists(st.sampled_from(list(CODES["plain"].reads)), min_size=1, max_size=6), st.data())
def test_a_drop_anywhere_makes_no_card(typed: list[str], data: st.DataObject) -> None:
    """SYN_DROPPED in the place of a run of events; then the keys that are truly down."""
    tokens = "".join([typing(code) for code in typed]).split()
    first = data.draw(st.integers(0, len(tokens)))
    last = data.draw(st.integers(first, len(tokens)))
    down: set[int] = set()
    for token in tokens[:last]:
        if token != ".":
            name = token[1:]
            (down.add if token[0] == "+" else down.discard)(NUMBER[SHORT.get(name, name)])
    keys = Keys()
    got = keys.feed(records(" ".join([*tokens[:first], "!"])))
    keys.resync(down)
    got += keys.feed(records(" ".join([*tokens[last:], "."])))
    read, rest = cards(got, CODES["plain"]), iter(typed)
    assert all(code in rest for code in read), "a subsequence of what was scanned"


@given(st.lists(st.one_of(st.binary(max_size=100), st.sampled_from([records("+8 ."), REPORT, DROPPED])), max_size=12))
def test_any_bytes_at_all_and_then_the_next_code(chunks: list[bytes]) -> None:
    """Bug report 35: it never raises, and after a restart it reads."""
    keys, whole = Keys(), Keys()
    got = [typed for chunk in chunks for typed in keys.feed(chunk)]
    assert got == whole.feed(b"".join(chunks))
    assert all(data.isascii() for _, data in got)
    keys.restart(())
    assert told(keys.feed(records(typing("8H")))) == "8H/"
