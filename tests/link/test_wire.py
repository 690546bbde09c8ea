"""The casino's serial link: its bytes, then both ends over lines of every kind, in their own time (bug report 38)."""

import json
import random
import re
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.link import wire
from controller.link.frame import CRC32, Frames
from controller.link.wire import LIMIT, MESSAGE_MAX, PART_MAX, SECOND, TEXT_MAX, WINDOW, Beat, Kind, WireError
from controller.link.wire_casino import Arrived, CasinoEnd, Reply
from controller.link.wire_table import TableEnd
from tests.pages import page
from tests.serial_consumer import SerialConsumer
from tests.serial_noise import Noise

NAME = "BAC-07/68f1c2d4-9be01a77"
S = 0x01020304

# --- the bytes ------------------------------------------------------------------------------------------------

HEX = "04030201"  # the session

# Kind, payload as it is written, the body's bytes: typed in from docs/serial-link.md.
BODIES: dict[str, tuple[Kind, bytes, str]] = {
    "hello": (
        Kind.HELLO,
        wire.write_hello(wire.Hello(1, 1, 1040, NAME)),
        f"48{HEX}010100000010040000{NAME.encode().hex()}",
    ),
    "answer": (Kind.HELLO, wire.write_answer(wire.Answer(1, 1041)), f"48{HEX}0111040000"),
    "data": (Kind.DATA, wire.write_parts(1041, b"{}")[0], f"44{HEX}1104000000017b7d"),
    "beat": (Kind.BEAT, wire.write_beat(Beat(1041, 1040)), f"42{HEX}1104000010040000"),
    "ack": (Kind.ACK, wire.write_number(1041), f"41{HEX}11040000"),
    "nak": (Kind.NAK, wire.write_number(1042), f"4e{HEX}12040000"),
    "receipt": (Kind.RECEIPT, b"{}", f"52{HEX}7b7d"),
    "command": (Kind.COMMAND, b"{}", f"43{HEX}7b7d"),
    "reply": (Kind.REPLY, b"{}", f"59{HEX}7b7d"),
    "again": (Kind.AGAIN, wire.write_parts(7, b"{}")[0], f"53{HEX}0700000000017b7d"),
}


@pytest.mark.parametrize(("kind", "payload", "body"), BODIES.values(), ids=BODIES)
def test_a_frame_is_what_the_page_says(kind: Kind, payload: bytes, body: str) -> None:
    frame = wire.pack(kind, S, payload)
    assert Frames(CRC32, LIMIT).feed(frame) == [bytes.fromhex(body)]
    assert wire.unpack(bytes.fromhex(body)) == wire.Told(kind, S, payload)


def test_the_pages_examples_and_numbers() -> None:
    page_ = page("docs/serial-link.md")
    (block,) = [block for block in page_.blocks if "48 04 03" in block.text]
    hello, answer = (bytes.fromhex(line) for line in block.text.strip().splitlines())
    assert wire.pack(*BODIES["hello"][:1], S, BODIES["hello"][1]) == hello
    assert wire.pack(*BODIES["answer"][:1], S, BODIES["answer"][1]) == answer
    table = page_.text.partition("## Numbers")[2]
    numbers = dict(re.findall(r"^\| ([^|]+?) \| ([^|]*\d[^|]*?) \|$", table, re.MULTILINE))
    assert numbers == {
        "hello, not answered": f"every {wire.HELLO_NS // SECOND} s",
        "beat, ack": f"every {wire.BEAT_NS / SECOND:g} s",
        "silence that ends a session": f"{wire.SILENT_NS // SECOND} s",
        "messages without ack": f"{WINDOW}",
        "no receipt: sent again": "30 s",
        "frame": f"{LIMIT:,} bytes",
        "part of a message": f"{PART_MAX:,} bytes",
        "message": f"{MESSAGE_MAX:,} bytes",
        "command, reply": f"{TEXT_MAX:,} bytes",
    }


BROKEN = {  # which end hears it, and the body
    "an unknown kind": ("both", f"5a{HEX}00"),
    "no session": ("both", "44040302"),
    "nothing": ("both", ""),
    "an ack of three bytes": ("table", f"41{HEX}110400"),
    "an ack of five": ("table", f"41{HEX}1104000000"),
    "an answer of six": ("table", f"48{HEX}011104000000"),
    "an answer cut off": ("table", f"48{HEX}01"),
    "a beat of four": ("casino", f"42{HEX}11040000"),
    "a part of no bytes": ("casino", f"44{HEX}110400000001"),
    "a part of message 0": ("casino", f"44{HEX}0000000000017b7d"),
    "a part beyond the last": ("casino", f"44{HEX}1104000001017b7d"),
    "more parts than a message has": ("casino", f"44{HEX}1104000000417b7d"),
    "a hello cut off": ("casino", f"48{HEX}0101000000"),
    "a name that is not ASCII": ("casino", f"48{HEX}010100000010040000ff"),
    "what the other end says": ("casino", f"41{HEX}11040000"),
    "what this end says": ("table", f"42{HEX}1104000010040000"),
}


@pytest.mark.parametrize(("hearer", "body"), BROKEN.values(), ids=BROKEN)
def test_what_makes_no_sense_is_told_and_changes_nothing(hearer: str, body: str) -> None:
    table, casino = begun(Outbox(5)), CasinoEnd(lambda _: 0)
    said(table, 0)
    casino.hear(bytes.fromhex(BODIES["hello"][2]), 0)
    ends = {"table": [table], "casino": [casino], "both": [table, casino]}[hearer]
    for end in ends:
        with pytest.raises(WireError):
            end.hear(bytes.fromhex(body), 0)
    assert not table.up and not table.ended and casino.name == NAME


@pytest.mark.parametrize("length", [1, PART_MAX - 1, PART_MAX, PART_MAX + 1, MESSAGE_MAX])
def test_a_message_goes_in_parts_that_fit(length: int) -> None:
    data = bytes(length)
    parts = [wire.read_part(payload) for payload in wire.write_parts(3, data)]
    assert [part.place for part in parts] == list(range(parts[0].total))
    assert b"".join(part.data for part in parts) == data
    for payload in wire.write_parts(3, data):
        wire.pack(Kind.DATA, S, payload)


@pytest.mark.parametrize("length", [0, MESSAGE_MAX + 1])
def test_a_message_that_fits_nowhere_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="message 3 has"):
        wire.write_parts(3, bytes(length))


# --- the table's end, frame by frame --------------------------------------------------------------------------


class Note(NamedTuple):
    """A message of the feed as far as the link knows it."""

    seqno: int
    data: bytes


class Outbox:
    """Messages 1 to `count`, those up to `gone` pruned."""

    def __init__(self, count: int, gone: int = 0, make: Callable[[int], bytes] = lambda n: b"m%d" % n) -> None:
        self.messages = [Note(number, make(number)) for number in range(1, count + 1)]
        self.gone = gone

    @property
    def head(self) -> int:
        return len(self.messages)

    def read(self, after: int, limit: int) -> list[Note]:
        start = max(after, self.gone)
        return self.messages[start : start + limit]


def begun(outbox: Outbox, receipt: int = 0) -> TableEnd:
    return TableEnd(NAME, outbox, receipt=receipt, session=S, stall_ns=30 * SECOND, now=0)


def up(outbox: Outbox, receipt: int = 0, wanted: int = 0) -> TableEnd:
    """After hello, answer and the first beat."""
    end = begun(outbox, receipt)
    assert said(end, 0) == ["H"]
    hear(end, f"H{wanted}")
    return end


def hear(end: TableEnd, words: str, now: int = 0) -> list[wire.Told]:
    """Frames of the casino: `A3`, `N4`, `H7` (its answer), `?` (a hello of no session), `R`, `C`."""
    out = []
    for word in words.split():
        number = int(word[1:] or 0)
        answer = wire.write_answer(wire.Answer(1, number))
        kind, session, payload = {
            "A": (Kind.ACK, S, wire.write_number(number)),
            "N": (Kind.NAK, S, wire.write_number(number)),
            "H": (Kind.HELLO, S, answer),
            "?": (Kind.HELLO, 0, answer),
            "R": (Kind.RECEIPT, S, b"{}"),
            "C": (Kind.COMMAND, S, b"{}"),
        }[word[0]]
        told = end.hear(kind.value + session.to_bytes(4, "little") + payload, now)
        out += [told] if told else []
    return out


def said(end: TableEnd, now: int) -> list[str]:
    """All that it has to say now: `D3`, `D3.1` (of a message in parts), `B3/1`, `S2`, `Y`, `H`."""
    out, frames = [], Frames(CRC32, LIMIT)
    while frame := end.next(now):
        (body,) = frames.feed(frame)
        told = wire.unpack(body)
        word = told.kind.value.decode()
        if told.kind in (Kind.DATA, Kind.AGAIN):
            part = wire.read_part(told.payload)
            word += f"{part.number}.{part.place}" if part.total > 1 else f"{part.number}"
        elif told.kind is Kind.BEAT:
            word += "{}/{}".format(*wire.read_beat(told.payload))
        out.append(word)
    return out


def span(first: int, last: int) -> list[str]:
    return [f"D{number}" for number in range(first, last + 1)]


def test_hello_until_it_is_answered() -> None:
    end = begun(Outbox(3), receipt=1)
    assert [said(end, at * SECOND // 10) for at in range(21)] == [["H"], *[[]] * 9, ["H"], *[[]] * 9, ["H"]]
    hear(end, "H")
    assert end.up and said(end, 2 * SECOND) == ["B1/1", "D2", "D3"]


def test_sixteen_are_on_their_way_and_no_more() -> None:
    end = up(Outbox(40))
    assert said(end, 0) == ["B0/0", *span(1, WINDOW)]
    hear(end, "A3")
    assert said(end, 0) == span(WINDOW + 1, WINDOW + 3)
    hear(end, "A2 A3 A90")
    assert said(end, 0) == [], "an old acknowledgement, and one of what was never sent"
    assert end.acked == 3


def test_a_gap_is_gone_back_to() -> None:
    end = up(Outbox(9))
    assert said(end, 0)[1:] == span(1, 9)
    hear(end, "A2 N4")
    assert end.acked == 3 and said(end, 0) == span(4, 9)
    hear(end, "N10 N0 N77")
    assert said(end, 0) == []
    hear(end, "N9 A9")
    assert said(end, 0) == ["D9"], "what was taken back is not acknowledged before it is sent"
    end = up(Outbox(9), receipt=4)
    said(end, 0)
    hear(end, "N3 N4")
    assert said(end, 0) == [], "what is before the session's first message is not its matter"


@pytest.mark.parametrize(
    ("gone", "receipt", "wanted", "first"),
    [(0, 0, 0, 1), (0, 4, 0, 5), (0, 4, 3, 3), (0, 4, 7, 7), (0, 4, 10, 10), (6, 4, 0, 7), (6, 4, 3, 7), (9, 9, 0, 10)],
)
def test_where_it_begins(gone: int, receipt: int, wanted: int, first: int) -> None:
    end = up(Outbox(9, gone), receipt, wanted)
    assert said(end, 0) == [f"B{first - 1}/{receipt}", *span(first, 9)]


def test_a_line_of_another_table_does_not_come_up() -> None:
    end = up(Outbox(9), wanted=11)
    assert not end.up and "has message 10 of BAC-07/68f1c2d4-9be01a77, and the table only 9" in end.ended
    assert said(end, 0) == []


@pytest.mark.parametrize("session", [S, 0])
def test_another_version_is_told(session: int) -> None:
    end = begun(Outbox(1))
    end.hear(b"H" + session.to_bytes(4, "little") + b"\x02whatever", 0)
    assert not end.up and "version 2 of the serial link, the table version 1" in end.ended


def test_a_casino_that_begins_anew_ends_the_session() -> None:
    end = begun(Outbox(1))
    hear(end, "?")
    assert not end.ended, "it has not begun"
    hear(end, "H ?")
    assert end.ended == "the casino server begins anew" and said(end, 0) == []


def test_silence_ends_it() -> None:
    end = up(Outbox(0))
    assert said(end, 5 * SECOND - 1) == ["B0/0"] and end.up
    assert said(end, 5 * SECOND) == [] and end.ended.startswith("the casino server says nothing any more")
    end = begun(Outbox(0))
    assert said(end, 5 * SECOND) == [] and end.ended.startswith("no casino server answers")
    hear(end, "H R", 5 * SECOND)
    assert not end.up and said(end, 6 * SECOND) == [], "an answer that comes too late is to nobody"


def test_another_sessions_frames_are_no_sign_of_life() -> None:
    end = up(Outbox(3))
    end.hear(b"A" + (S + 1).to_bytes(4, "little") + wire.write_number(2), 4 * SECOND)
    assert end.acked == 0 and said(end, 5 * SECOND) == [] and end.ended


def test_without_a_receipt_all_is_sent_again() -> None:
    end = up(Outbox(3))
    assert said(end, 0) == ["B0/0", *span(1, 3)]
    hear(end, "A3")
    end.receipted(1, SECOND)
    for at in range(1, 31):
        hear(end, "A3", at * SECOND)
        assert said(end, at * SECOND) == ["B3/1"]
    assert said(end, 31 * SECOND) == ["B3/1", "D2", "D3"] and end.stalls == 1
    end.receipted(3, 32 * SECOND)
    hear(end, "A3", 90 * SECOND)
    assert said(end, 90 * SECOND) == ["B3/3"] and end.stalls == 1


def test_what_is_sent_again_keeps_to_the_window_and_ends_with_the_receipt() -> None:
    end = up(Outbox(60))
    for number in (16, 32, 48, 60):
        said(end, 0)
        hear(end, f"A{number}")
    hear(end, "A60", 29 * SECOND)
    said(end, 30 * SECOND)
    hear(end, "A60", 30 * SECOND)
    assert said(end, 30 * SECOND) == span(17, 32), "its acknowledgement is of before"
    end.receipted(50, 31 * SECOND)
    assert said(end, 31 * SECOND) == ["B50/50", *span(51, 60)]


def test_a_casino_that_has_all_and_no_receipt_any_more_hears_it_again() -> None:
    """It said what it wanted; the receipt of what was before is lost, and only what comes again brings another."""
    end = up(Outbox(9), receipt=4, wanted=7)
    assert said(end, 0) == ["B6/4", *span(7, 9)]
    hear(end, "A9", 29 * SECOND)
    assert said(end, 30 * SECOND) == ["B9/4", *span(5, 9)]
    hear(end, "N5 A9", 30 * SECOND)
    assert said(end, 30 * SECOND) == span(5, 9) and end.acked == 4
    end.receipted(9, 31 * SECOND)
    assert said(end, 31 * SECOND) == ["B9/9"]


def test_what_is_gone_from_the_journal_is_not_sent_again() -> None:
    end = up(Outbox(9, gone=5), receipt=4, wanted=7)
    assert said(end, 0) == ["B6/4", *span(7, 9)]
    hear(end, "A9", 29 * SECOND)
    assert said(end, 30 * SECOND) == ["B9/4", *span(6, 9)]


def test_a_gap_does_not_cut_off_what_a_command_asked_for() -> None:
    end = up(Outbox(2, make=lambda _: b"x" * (PART_MAX * 2)))
    assert said(end, 0) == ["B0/0", "D1.0", "D1.1", "D2.0", "D2.1"]
    end.reply(b"{}", range(1, 2))
    first = end.next(0)
    assert first is not None
    hear(end, "N2")
    assert said(end, 0) == ["S1.1", "D2.0", "D2.1", "Y"]


def test_a_message_in_parts_is_not_told_before_its_last() -> None:
    outbox = Outbox(2, make=lambda n: b"x" * (PART_MAX * 2 + n))
    end = up(outbox)
    frames = [end.next(0), end.next(0), end.next(0)]
    assert all(frames)
    assert said(end, SECOND // 2) == ["B0/0", "D1.2", "D2.0", "D2.1", "D2.2"], "a beat between the parts"
    hear(end, "N2")
    assert [said(end, SECOND)][0] == ["B1/0", "D2.0", "D2.1", "D2.2"]


def test_a_message_over_the_limit_stops_the_feed_at_itself() -> None:
    end = up(Outbox(3, make=lambda n: b"x" * (MESSAGE_MAX + 1) if n == 2 else b"m"))
    assert said(end, 0) == ["B0/0", "D1"]
    assert end.refused is not None and end.refused.seqno == 2
    assert said(end, SECOND) == ["B1/0"]


def test_what_is_gone_from_the_journal_ends_the_session() -> None:
    outbox = Outbox(40)
    end = up(outbox)
    said(end, 0)
    outbox.gone = 20
    hear(end, "A16")
    assert said(end, 0) == [] and end.ended == "message 17 is no longer in the journal"


def test_receipts_and_commands_are_for_others() -> None:
    end = begun(Outbox(0))
    assert hear(end, "R C") == [], "not before the answer"
    said(end, 0)
    hear(end, "H")
    assert [told.kind for told in hear(end, "R A0 C")] == [Kind.RECEIPT, Kind.COMMAND]


def test_replies_go_before_the_feed_and_what_is_sent_again_behind_it() -> None:
    end = up(Outbox(20))
    end.reply(b"1", range(4, 7))
    end.reply(b"2")
    assert said(end, 0) == ["B0/0", "Y", *span(1, WINDOW), "S4", "S5", "S6", "Y"]
    end.reply(b"3", range(19, 99))
    end.reply(b"4", range(50, 99))
    assert said(end, 0) == ["S19", "S20", "Y", "Y"]
    with pytest.raises(ValueError, match="a reply of 4097 bytes"):
        end.reply(bytes(TEXT_MAX + 1))


def test_commands_without_end_do_not_stop_the_feed() -> None:
    """F2: with the feed behind the replies no receipt would come, and round after round would be cancelled."""
    end = up(Outbox(3))
    for number in range(5):
        end.reply(b"%d" % number)
    assert end.unsent == 5
    assert said(end, 0) == ["B0/0", "Y", *span(1, 1), "Y", *span(2, 2), "Y", *span(3, 3), "Y", "Y"]
    assert end.unsent == 0


def test_a_line_that_gives_back_what_is_sent_does_not_come_up() -> None:
    end, frames = begun(Outbox(3)), Frames(CRC32, LIMIT)
    hello = end.next(0)
    assert hello is not None
    (body,) = frames.feed(hello)
    with pytest.raises(WireError, match="bytes where 5 belong"):
        end.hear(body, 0)
    assert not end.up
    end = up(Outbox(3))
    beat = end.next(0)
    assert beat is not None
    (body,) = frames.feed(beat)
    with pytest.raises(WireError, match="gives back what is sent"):
        end.hear(body, 0)


# --- the casino's end, frame by frame -------------------------------------------------------------------------

HELLO = bytes.fromhex(BODIES["hello"][2])  # with the receipt of message 1040

# What comes and when, in tenths of a second: `D1041`, `D1041.0/2` (a part), `B1050/1040`, `S7`, `-` nothing. What is
# taken, and what is said to it. Receipts are given at once; acknowledgements that are due by time are left out.
HEARD: dict[str, list[tuple[str, str, str]]] = {
    "in order": [("0 D1041", "1041", "A1041 R"), ("1 D1042", "1042", "A1042 R")],
    "a repeat is acknowledged and receipted": [("0 D1041", "1041", "A1041 R"), ("1 D1041", "", "A1041 R")],
    "a gap is asked for once": [("0 D1042", "", "N1041"), ("1 D1043", "", ""), ("2 D1041", "1041", "A1041 R")],
    "what was on its way comes first": [("0 D1043", "", "N1041"), ("8 D1044", "", ""), ("17 D1045", "", "")],
    "then it is asked for again": [("0 D1043", "", "N1041"), ("8 D1044", "", ""), ("18 D1045", "", "N1041")],
    "a gap behind a gap is another": [
        ("0 D1042", "", "N1041"),
        ("1 D1041", "1041", "A1041 R"),
        ("2 D1043", "", "N1042"),
    ],
    "the beat tells of the last one": [
        ("0 B1040/1040", "", ""),
        ("1 B1041/1040", "", "N1041"),
        ("6 B1041/1040", "", ""),
    ],
    "and again after a second": [("1 B1041/1040", "", "N1041"), ("11 B1041/1040", "", "N1041")],
    "the beat tells of a lost receipt": [
        ("0 D1041", "1041", "A1041 R"),
        ("1 B1041/1040", "", "R"),
        ("2 B1041/1041", "", ""),
    ],
    "parts": [("0 D1041.0/2", "", ""), ("1 D1041.1/2", "1041", "A1041 R")],
    "a part lost": [
        ("0 D1041.0/3", "", ""),
        ("1 D1041.2/3", "", "N1041"),
        ("2 D1041.1/3", "", ""),
        ("3 D1041.2/3", "", ""),
    ],
    "a message begun again": [("0 D1041.0/2", "", ""), ("1 D1041.0/2", "", ""), ("2 D1041.1/2", "1041", "A1041 R")],
    "a repeat in parts is one": [("0 D1040.0/2", "", ""), ("1 D1040.1/2", "", "A1040")],
    "asked for by a command": [
        ("0 S7", "7!", ""),
        ("1 D1041", "1041", "A1041 R"),
        ("2 S9.0/2", "", ""),
        ("3 S9.1/2", "9!", ""),
    ],
    "a part of it lost": [("0 S7.0/3", "", ""), ("1 S7.2/3", "", ""), ("2 S8.1/2", "", ""), ("3 S9", "9!", "")],
}


def frame_of(word: str) -> bytes:
    if word[0] == "B":
        sent, receipt = map(int, word[1:].split("/"))
        return b"B" + S.to_bytes(4, "little") + wire.write_beat(Beat(sent, receipt))
    number, _, rest = word[1:].partition(".")
    place, total = map(int, rest.split("/")) if rest else (0, 1)
    return word[0].encode() + S.to_bytes(4, "little") + int(number).to_bytes(4, "little") + bytes([place, total]) + b"x"


def answers(end: CasinoEnd, now: int) -> str:
    words, frames = [], Frames(CRC32, LIMIT)
    while frame := end.next(now):
        told = wire.unpack(*frames.feed(frame))
        number = wire.read_number(told.payload) if told.kind in (Kind.ACK, Kind.NAK) else ""
        words.append(f"{told.kind.value.decode()}{number}")
    return " ".join(words)


@pytest.mark.parametrize("story", HEARD.values(), ids=HEARD)
def test_what_the_casinos_end_makes_of_what_comes(story: list[tuple[str, str, str]]) -> None:
    end = CasinoEnd(lambda _: 0)
    end.hear(HELLO, 0)
    assert answers(end, 0) == "H A1040"
    last = 1040
    for step, taken, said_ in story:
        at, word = step.split()
        now = int(at) * SECOND // 10
        arrived = end.hear(frame_of(word), now)
        assert taken == (f"{arrived.number}{'!' * arrived.again}" if isinstance(arrived, Arrived) else "")
        if isinstance(arrived, Arrived) and not arrived.again:
            last = arrived.number
            end.receipt(last, b"{}")
        words = [each for each in answers(end, now).split() if each != f"A{last}" or each in said_.split()]
        assert " ".join(words) == said_, step


def test_the_casinos_end_acknowledges_each_half_second_and_asks_who_speaks_after_five() -> None:
    end = CasinoEnd(lambda _: 0)
    assert [answers(end, at * SECOND // 2) for at in range(4)] == ["H", "", "H", ""]
    end.hear(HELLO, 2 * SECOND)
    assert answers(end, 2 * SECOND) == "H A1040"
    assert [answers(end, 2 * SECOND + at * SECOND // 4) for at in range(1, 5)] == ["", "A1040", "", "A1040"]
    assert answers(end, 7 * SECOND) == "H" and end.name == ""
    assert end.hear(frame_of("D1041"), 7 * SECOND) is None, "of no session"


def test_a_receipt_outlives_the_session_and_not_the_generation() -> None:
    end = CasinoEnd(lambda _: 1042)
    end.hear(HELLO, 0)
    end.receipt(1041, b"{}")
    answers(end, 0)
    other = HELLO[:1] + (S + 1).to_bytes(4, "little") + HELLO[5:]
    end.hear(other, SECOND)
    assert "R" not in answers(end, SECOND)
    end.hear(frame_of("B1041/1040").replace(HELLO[1:5], other[1:5]), SECOND)
    assert answers(end, SECOND) == "R"
    end.hear(HELLO.replace(b"9be01a77", b"9be01a78"), 2 * SECOND)
    end.hear(frame_of("B1041/1040"), 2 * SECOND)
    assert "R" not in answers(end, 2 * SECOND)


def test_a_table_of_another_version_is_told_which_one_is_spoken() -> None:
    end = CasinoEnd(lambda _: 0)
    answers(end, 0)
    with pytest.raises(WireError, match="the table speaks version 2 of the serial link, this end 1"):
        end.hear(HELLO[:5] + b"\x02" + HELLO[6:], SECOND // 10)
    frame = end.next(SECOND // 10)
    assert frame is not None
    (body,) = Frames(CRC32, LIMIT).feed(frame)
    assert wire.unpack(body) == wire.Told(Kind.HELLO, 0, wire.write_answer(wire.Answer(1, 0)))


# --- both ends over a line ------------------------------------------------------------------------------------

KERNEL = 4_096  # bytes that a program may have written and the line not yet sent
STEP = SECOND // 200


class Way:
    """One direction: bytes wait for the line, travel `delay`, and may be spoiled."""

    def __init__(self, noise: Noise, baud: int, delay: int) -> None:
        self._noise, self._step, self._delay = noise, max(1, baud // 10 // 200), delay
        self._waiting = b""
        self._flying: list[tuple[int, bytes]] = []

    @property
    def free(self) -> bool:
        return len(self._waiting) < KERNEL

    @property
    def speed(self) -> int:
        """Bytes a second."""
        return self._step * SECOND // STEP

    def write(self, data: bytes) -> None:
        self._waiting += data

    def step(self, now: int) -> bytes:
        """What arrives now."""
        part, self._waiting = self._waiting[: self._step], self._waiting[self._step :]
        if part:
            self._flying.append((now + self._delay, self._noise.spoil(part)))
        out = b""
        while self._flying and self._flying[0][0] <= now:
            out += self._flying.pop(0)[1]
        return out

    def cut(self) -> None:
        self._waiting, self._flying = b"", []


class Casino:
    """The reference end with a store behind it: takes messages, gives the receipt of each."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.again: list[int] = []
        self.replies: list[bytes] = []
        self.restart()

    def restart(self) -> None:
        self.end = CasinoEnd(lambda _: len(self.taken) + 1)
        self.frames = Frames(CRC32, LIMIT)

    def feed(self, data: bytes, now: int) -> None:
        for body in self.frames.feed(data):
            match self.end.hear(body, now):
                case Arrived(again=True, number=number):
                    self.again.append(number)
                case Arrived(number=number, data=message):
                    assert number == len(self.taken) + 1, "in order, once"
                    self.taken.append(message)
                    self.end.receipt(number, json.dumps({"seqno": number}).encode())
                case Reply(data=reply):
                    self.replies.append(reply)

    def say(self, now: int, way: Way) -> None:
        while way.free and (frame := self.end.next(now)):
            way.write(frame)


class Stranger:
    """The same, as an integrator wrote it."""

    def __init__(self) -> None:
        self._consumer = SerialConsumer()
        self._out = b""
        self.taken = self._consumer.taken

    def restart(self) -> None:
        self._consumer.restart()

    def feed(self, data: bytes, now: int) -> None:
        self._out += self._consumer.feed(data, now / SECOND)

    def say(self, now: int, way: Way) -> None:
        way.write(self._out + self._consumer.tick(now / SECOND))
        self._out = b""


class Line:
    """A table and a casino at the two ends of a line; the table's session begins again as the publisher's does."""

    def __init__(
        self, outbox: Outbox, casino: Casino | Stranger, rng: random.Random, *, rate: float, baud: int, delay: int
    ) -> None:
        self.outbox, self.casino, self._rng = outbox, casino, rng
        self.noises = Noise(rng, rate), Noise(rng, rate)
        self.there, self.back = (Way(noise, baud, delay) for noise in self.noises)
        self.now = self.receipt = 0
        self._rest = 0
        self.sessions = 0
        self.ended: list[str] = []
        self.restart_table()

    def restart_table(self) -> None:
        self.sessions += 1
        self.frames = Frames(CRC32, LIMIT)
        session = self._rng.randrange(1, wire.SESSIONS)
        self.table = TableEnd(
            NAME, self.outbox, receipt=self.receipt, session=session, stall_ns=30 * SECOND, now=self.now
        )

    def step(self) -> None:
        self.now += STEP
        for body in self.frames.feed(self.back.step(self.now)):
            told = self.table.hear(body, self.now)
            if told is not None and told.kind is Kind.RECEIPT:
                payload = json.loads(told.payload)
                if payload["seqno"] > self.receipt:
                    self.receipt = payload["seqno"]
                    self.table.receipted(self.receipt, self.now)
            elif told is not None:
                self.table.reply(told.payload, range(1, 4))
        while self.there.free and (frame := self.table.next(self.now)):
            self.there.write(frame)
        if self.table.ended:
            self._rest += STEP
            if self._rest >= SECOND:
                self.ended.append(self.table.ended)
                self._rest = 0
                self.restart_table()
        self.casino.feed(self.there.step(self.now), self.now)
        self.casino.say(self.now, self.back)

    def until(self, true: Callable[[], bool], seconds: float) -> float:
        """Runs until it is true; how long that took, in seconds."""
        began = self.now
        while not true():
            self.step()
            assert self.now - began < seconds * SECOND, (len(self.casino.taken), self.receipt, self.ended[-3:])
        return (self.now - began) / SECOND

    def whole(self) -> bool:
        return len(self.casino.taken) == self.receipt == self.outbox.head

    def check(self) -> None:
        assert self.casino.taken == [message.data for message in self.outbox.messages]


def message(number: int) -> bytes:
    """Of the lengths of a feed, some in parts."""
    rng = random.Random(number)
    return b"%d" % number + rng.randbytes(rng.choice([300, 700, 1_000, 1_500, 2_500]))


@pytest.mark.parametrize("casino", [Casino, Stranger])
@pytest.mark.parametrize("baud", [9_600, 115_200, 230_400])
def test_a_good_line_carries_a_backlog_at_its_speed(casino: type[Casino | Stranger], baud: int) -> None:
    """In one session, no message twice, at nine tenths of what the line carries."""
    line = Line(Outbox(40, make=message), casino(), random.Random(1), rate=0, baud=baud, delay=SECOND // 100)
    took = line.until(line.whole, 600)
    line.check()
    size = sum(len(message.data) for message in line.outbox.messages)
    assert line.sessions == 1 and size / (took - 0.1) >= 0.9 * line.there.speed
    if isinstance(line.casino, Casino):
        assert line.casino.end.repeats == line.casino.end.gaps == 0


@pytest.mark.parametrize("baud", [9_600, 115_200])
def test_one_lost_message_is_noticed_within_two_seconds(baud: int) -> None:
    """The last one, behind which nothing comes, and its receipt, too (F2 gives three seconds)."""
    line = Line(Outbox(1), Casino(), random.Random(1), rate=0, baud=baud, delay=SECOND // 100)
    line.until(line.whole, 10)
    line.outbox.messages.append(Note(2, b"m2"))
    line.step()
    line.there.cut()
    assert line.until(line.whole, 10) < 1.2
    line.outbox.messages.append(Note(3, b"m3"))
    line.until(lambda: len(line.casino.taken) == 3, 10)
    line.back.cut()
    assert line.until(line.whole, 10) < 1.2
    line.check()


def test_a_command_is_answered_with_what_it_asked_for() -> None:
    line = Line(Outbox(5), casino := Casino(), random.Random(1), rate=0, baud=115_200, delay=SECOND // 100)
    line.until(line.whole, 10)
    casino.end.command(b'{"id":1}')
    line.until(lambda: bool(casino.replies), 10)
    assert casino.replies == [b'{"id":1}'] and casino.again == [1, 2, 3]
    with pytest.raises(ValueError, match="a command of 4097 bytes"):
        casino.end.command(bytes(TEXT_MAX + 1))


def soil(seed: int, casino: Casino | Stranger, messages: int) -> tuple[Line, int]:
    """A line of any speed and noise, on which both ends are restarted and plugs are pulled, until all is there."""
    rng = random.Random(seed)
    rate = rng.choice([0, 1e-5, 1e-4, 4e-4])
    baud = rng.choice([9_600, 57_600, 115_200])
    line = Line(Outbox(0), casino, rng, rate=rate, baud=baud, delay=rng.randrange(SECOND // 20))
    faults = 0
    while line.outbox.head < messages:
        for _ in range(rng.randrange(1, 12)):
            number = line.outbox.head + 1
            line.outbox.messages.append(Note(number, message(number)))
        for _ in range(rng.randrange(1, 800)):
            line.step()
        match rng.randrange(6):
            case 0:
                line.restart_table()
            case 1:
                casino.restart()
            case 2:
                line.there.cut()
                line.back.cut()
            case _:
                continue
        faults += 1
    line.until(line.whole, 2_000)
    line.check()
    return line, faults


@pytest.mark.parametrize("casino", [Casino, Stranger])
@given(seed=st.integers(0, 2**32))
def test_every_message_once_and_in_order_on_any_line(casino: type[Casino | Stranger], seed: int) -> None:
    soil(seed, casino(), 12)


def test_the_noise_is_no_fake() -> None:
    line, faults = soil(7, Casino(), 100)
    hits = sum(noise.hits for noise in line.noises)
    assert isinstance(line.casino, Casino)
    errors = sum(line.casino.frames.errors.values())
    print(
        f"{faults} faults, {hits} hits, {errors} damaged, {line.casino.end.repeats} repeats, {line.sessions} sessions"
    )
    assert faults and hits and errors and line.casino.end.repeats and line.sessions > 1
