"""The code tables: DESIGN 8, field report 4. Known answers are typed in here, not derived from the tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.cards import Card
from controller.core.codes import TABLES, Codes, CodesError, Scans, Sign
from controller.core.events import CardRepeated, CardScanned, CardUnread, CodeUnknown, CutCardSeen, Event

RANKS = ["A", "2", "3", "4", "5", "6", "7", "8", "9", "T", "J", "Q", "K"]
NUMBERS = ["01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13"]
PLAIN = {rank + suit: rank + suit for suit in "SHDC" for rank in RANKS}
SRR0 = {
    digit + number + "0": rank + suit
    for digit, suit in (("1", "S"), ("2", "H"), ("3", "C"), ("4", "D"))
    for number, rank in zip(NUMBERS, RANKS, strict=True)
}
LETTER = {
    letter + number: rank + suit
    for letter, suit in (("A", "S"), ("B", "H"), ("C", "C"), ("D", "D"))
    for number, rank in zip(NUMBERS, RANKS, strict=True)
}
OWN = {f"LOT7-{number}": name for number, name in enumerate(PLAIN, start=100)}

WHOLE = {"plain": PLAIN, "srr0": SRR0, "letter": LETTER}


@pytest.mark.parametrize(("table", "cards"), [*WHOLE.items(), (OWN, OWN)], ids=["plain", "srr0", "letter", "own"])
def test_a_table_names_each_of_the_52_cards_by_one_code(table: str | dict[str, str], cards: dict[str, str]) -> None:
    codes = Codes.of(table)
    assert {code: codes.classify(code) for code in cards} == {code: Card.parse(name) for code, name in cards.items()}
    assert len(set(cards.values())) == len(codes.reads) == 52


LINES = """
plain   8H      8H
plain   TC      TC
plain   AS      AS
plain   KD      KD
plain   CUT     cut
plain   NOREAD  no_read
plain   8h      unknown
plain   10C     unknown
plain   1C      unknown
plain   H8      unknown
plain   8       unknown
plain   H       unknown
plain   8HH     unknown
plain   8H8H    unknown
plain   _8H     unknown
plain   8H_     unknown
plain   1010    unknown
plain   A01     unknown
plain   AT      unknown
plain   cut     unknown
plain   UT      unknown
plain   NOREA   unknown
srr0    1010    AS
srr0    1130    KS
srr0    2010    AH
srr0    2080    8H
srr0    3100    TC
srr0    4120    QD
srr0    4130    KD
srr0    CUT     cut
srr0    0000    unknown
srr0    1000    unknown
srr0    1140    unknown
srr0    1011    unknown
srr0    5010    unknown
srr0    101     unknown
srr0    010     unknown
srr0    10100   unknown
srr0    8H      unknown
letter  A01     AS
letter  A13     KS
letter  B01     AH
letter  C10     TC
letter  D12     QD
letter  D13     KD
letter  a01     unknown
letter  A00     unknown
letter  A14     unknown
letter  A1      unknown
letter  E01     unknown
letter  01      unknown
letter  NOREAD  no_read
"""


@pytest.mark.parametrize("case", LINES.strip().splitlines())
def test_a_line_is_one_of_four_things(case: str) -> None:
    table, line, expected = case.split()
    read = Codes.of(table, cut="CUT", noread="NOREAD").classify(line.replace("_", " "))
    assert (read.value if isinstance(read, Sign) else read) == expected


def test_without_a_cut_code_and_a_no_read_code_neither_is_known() -> None:
    codes = Codes.of("plain")
    assert [codes.classify(line) for line in ("CUT", "NOREAD", "None", "")] == [Sign.UNKNOWN] * 4


@given(st.sampled_from(sorted(TABLES)), st.text(max_size=8))
def test_never_a_card_but_by_its_own_code(table: str, line: str) -> None:
    read = Codes.of(table, cut="CUT", noread="NOREAD").classify(line)
    known: dict[str, Card | Sign] = {code: Card.parse(name) for code, name in WHOLE[table].items()}
    assert read == (known | {"CUT": Sign.CUT, "NOREAD": Sign.NO_READ}).get(line, Sign.UNKNOWN)


TAILS = [
    ("plain", "CUT", "NOREAD", {"AD"}),
    ("plain", "CUT", "?", set()),
    ("srr0", "CUT", "NOREAD", set()),
    ("letter", "XA01", None, {"A01"}),
    (dict(zip([str(number) for number in range(1, 53)], PLAIN, strict=True)), None, None, set("123456789")),
]


@pytest.mark.parametrize(("table", "cut", "noread", "tails"), TAILS)
def test_a_code_that_another_ends_in_is_known_for_one(
    table: str | dict[str, str], cut: str | None, noread: str | None, tails: set[str]
) -> None:
    assert Codes.of(table, cut=cut, noread=noread).tails == tails


def without(code: str) -> dict[str, str]:
    return {other: card for other, card in SRR0.items() if other != code}


BAD = [
    # table, cut code, no-read code, the keys with a problem, and what the first one says
    ("srr1", None, None, ["codes"], "'srr1' is no code table: use plain, srr0, letter, or write"),
    (without("1010"), None, None, ["codes"], "no code for AS: a table names all 52 cards"),
    ({}, None, None, ["codes"], "no code for AS 2S 3S"),
    ({**SRR0, "9999": "8H"}, None, None, ["codes.9999"], "8H already has the code '2080': a card has one code"),
    ({**SRR0, "1010": "KD"}, None, None, ["codes.4130", "codes"], "KD already has the code '1010'"),
    ({**SRR0, "9999": "JOKER"}, None, None, ["codes.9999"], "'JOKER' is no card: write rank A 2-9 T J Q K"),
    ({**SRR0, "1010": "as"}, None, None, ["codes.1010", "codes"], "'as' is no card"),
    ({**without("1010"), "": "AS"}, None, None, ["codes."], "'' is no code: write 1 to 64 printable ASCII"),
    ({**without("1010"), "1 ": "AS"}, None, None, ["codes.1 "], "no blank at the ends"),
    ({**without("1010"), "ä": "AS"}, None, None, ["codes.ä"], "printable ASCII"),
    ({**without("1010"), "A\r": "AS"}, None, None, ["codes.A\r"], "printable ASCII"),
    ({**without("1010"), "A" * 65: "AS"}, None, None, ["codes." + "A" * 65], "1 to 64"),
    ("plain", "8H", None, ["cut_code"], "'8H' is already the code of the card 8H: choose one no card has"),
    ("srr0", None, "4130", ["noread_code"], "'4130' is already the code of the card KD"),
    ("plain", "CUT", "CUT", ["noread_code"], "'CUT' is already the code of the cut card"),
    ("plain", "", "\x18", ["cut_code", "noread_code"], "'' is no code"),
    (SRR0, "1010", "1020", ["cut_code", "noread_code"], "'1010' is already the code of the card AS"),
    ("nosuch", "A\n", "A\n", ["codes", "cut_code", "noread_code", "noread_code"], "'nosuch' is no code table"),
]


@pytest.mark.parametrize(("table", "cut", "noread", "keys", "says"), BAD)
def test_contradictions_are_refused_with_every_reason(
    table: str | dict[str, str], cut: str | None, noread: str | None, keys: list[str], says: str
) -> None:
    with pytest.raises(CodesError) as caught:
        Codes.of(table, cut=cut, noread=noread)
    assert [problem.key for problem in caught.value.problems] == keys
    assert says in caught.value.problems[0].text
    assert all(text in str(caught.value) for _, text in caught.value.problems)


def named(event: Event) -> str:
    match event:
        case CardRepeated():
            return "-"
        case CardScanned(card=card):
            return card
        case CutCardSeen(via=via):
            return f"cut:{via}"
        case CardUnread(raw=raw):
            return f"unread:{raw}"
        case CodeUnknown(raw=raw):
            return f"unknown:{raw}"
        case _:
            raise AssertionError(event)


# repeat_ms; lines as `ms text`, `!` before a line that is not clean, `~` before one after something lost; the events
SIGHTS = """
0    0 8H, 0 8H, 1 8H             8H 8H 8H               # equal codes in a row are cards (bug report 37)
0    0 CUT, 0 CUT                 cut:code cut:code
0    0 JOKER, 0 JOKER             unknown:JOKER unknown:JOKER
0    0 NOREAD, 1 NOREAD           unread:NOREAD unread:NOREAD
0    0 !8H, 1 8H                  unread:8H 8H           # a dirty line is never a card
0    0 !JOKER                     unread:JOKER
0    0 ~8H                        8H                     # a card is a card, whatever came before it
0    0 ~CUT                       cut:code
0    0 ~H                         unread:H               # half a code is no foreign card (I06 calls a person)
0    0 ~H, 1 H                    unread:H unknown:H
0    0 ~AD, 1 AD                  unread:AD AD           # perhaps the rest of NOREAD
0    0 AD                         AD
500  0 8H, 500 8H                 8H -
500  0 8H, 501 8H                 8H 8H
500  0 8H, 400 8H, 800 8H         8H - -                 # measured from the last sight
500  0 8H, 400 8H, 901 8H         8H - 8H
500  0 8H, 100 KD, 200 8H         8H KD -                # it stayed in sight as another passed
500  0 8H, 100 8S                 8H 8S
500  0 CUT, 100 CUT               cut:code -
500  0 JOKER, 9 JOKER             unknown:JOKER -
500  0 NOREAD, 1 NOREAD, 2 8H     unread:NOREAD unread:NOREAD 8H
500  0 8H, 1 !8H, 2 8H            8H unread:8H -
"""


@pytest.mark.parametrize("case", SIGHTS.strip().splitlines())
def test_what_the_table_is_told_of_a_line(case: str) -> None:
    case = case.partition("#")[0].strip()
    repeat_ms, _, rest = case.partition("  ")
    steps, _, expected = rest.strip().partition("  ")
    scans = Scans(Codes.of("plain", cut="CUT", noread="NOREAD"), int(repeat_ms))
    events = []
    for step in steps.split(", "):
        ms, text = step.split()
        at = int(ms) * 1_000_000
        event = scans.event(text.lstrip("!~"), at, clean=text[0] != "!", torn=text[0] == "~")
        assert event.at == at
        events.append(named(event))
    assert events == expected.split()
    assert scans.repeats == events.count("-")


@pytest.mark.parametrize("line", ["8H", "CUT", "NOREAD", "JOKER"])
def test_what_the_scanner_for_the_hand_reads_says_so(line: str) -> None:
    codes = Codes.of("plain", cut="CUT", noread="NOREAD")
    for hand in (False, True):
        event = Scans(codes, hand=hand).event(line, 0)
        assert isinstance(event, CardScanned | CutCardSeen | CardUnread | CodeUnknown)
        assert event.hand is hand


def test_a_long_foreign_label_is_told_in_part() -> None:
    scans = Scans(Codes.of("plain"))
    assert [named(scans.event("x" * 100, 1)), named(scans.event("x" * 100, 1, clean=False))] == [
        "unknown:" + "x" * 64,
        "unread:" + "x" * 64,
    ]


def test_what_is_remembered_of_repeats_is_bounded() -> None:
    scans = Scans(Codes.of("plain"), repeat_ms=1000)
    for number in range(1000):
        scans.event(f"foreign {number}", number)
    assert len(scans._seen) == 64
    assert named(scans.event("foreign 999", 1000)) == "-"


@given(st.lists(st.sampled_from([*PLAIN, "NR", "joker"]), max_size=30))
def test_without_repeat_ms_every_line_is_told(lines: list[str]) -> None:
    """Bug report 37: an eight-deck shoe holds eight of each card, and all may come at one instant."""
    scans = Scans(Codes.of("plain", noread="NR"))
    told = [scans.event(line, 7) for line in lines]
    assert not any(isinstance(event, CardRepeated) for event in told)
    assert [event.card for event in told if isinstance(event, CardScanned)] == [line for line in lines if line in PLAIN]
