"""The integrator's two consumers, in Python and in JavaScript, as the guide prints them: both say the same of one feed.

What they must say is typed in here, after the guide's table of repeats, gaps and generations.
"""

import asyncio
import json
import subprocess
import sys
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from controller import keys
from controller.core.events import Elapsed
from controller.core.facts import Fact, JournalOpened, Phase
from controller.core.state import Link, Shoe, State
from controller.feed import Chain, Entry, Feed, Mode, join_signature, seal, split_signature
from tests.pages import page
from tests.table_rig import GENERATION, WALL_NS, Rig
from tests.test_schemas import PROFILE, sampled

SECTION = page("docs/integrator.md").sections(2)["A consumer"]
PROGRAMS = {block.language: block.text for block in SECTION.blocks if block.language in ("python", "javascript")}
RUN = {"python": [sys.executable, "consumer.py"], "javascript": ["node", "consumer.js"]}
EARLIER, LATER = "68f1c2d3-00000001", "68f1c2d5-00000001"
STRANGER = keys.ephemeral()


class Told(NamedTuple):
    """What a consumer said, and in it its words, the rounds that it settled, its last receipt; exit code; its file."""

    said: list[str]
    words: list[str]
    ends: list[str]
    receipt: dict[str, object]
    code: int
    stored: bytes


@cache
def recorded() -> tuple[keys.TableKey, tuple[bytes, ...]]:
    """A table's key, and its messages from the first to the end of its second round: 21."""

    async def whole() -> tuple[keys.TableKey, tuple[bytes, ...]]:
        async with Rig() as rig:
            await rig.load()
            await rig.scan("2H TC 3D 5C 4S 6D 8H TC 2D 9C")
            return rig.key, tuple(message.data for message in rig.journal.messages)

    return asyncio.run(whole())


def feed() -> list[bytes]:
    return list(recorded()[1])


def sealed(facts: Sequence[Fact], generation: str, mode: Mode = "live") -> list[bytes]:
    """A generation of these facts, by the recorded table's key."""
    key, chain, made = recorded()[0], Chain(generation), []
    for seqno, fact in enumerate(facts):
        before = State(seqno=seqno, phase=Phase.READY, shoe=Shoe(12, PROFILE), link=Link(up=True))
        entry = Entry(Elapsed(0), (fact,), before, before._replace(seqno=seqno + 1), WALL_NS, synchronised=True)
        row, chain = seal(Feed("BAC-07", "/tables/BAC-07", mode, key.keyid, key.sign), chain, entry)
        made += [message.data for message in row.messages]
    return made


def every_type(mode: Mode = "live", generation: str = LATER) -> list[bytes]:
    first, *others = sorted(sampled(), key=lambda fact: not isinstance(fact, JournalOpened))
    return sealed([first, *(fact for fact in others if not isinstance(fact, JournalOpened))], generation, mode)


def run(language: str, folder: Path, lines: Sequence[bytes], stored: bytes = b"") -> Told:
    home = folder / language
    home.mkdir()
    program, *_ = RUN[language][1:]
    (home / program).write_text(PROGRAMS[language], encoding="utf-8")
    (home / "taken.jsonl").write_bytes(stored)
    command = [*RUN[language], recorded()[0].public, "taken.jsonl"]
    data = b"".join(line + b"\n" for line in lines)
    ran = subprocess.run(command, cwd=home, input=data, capture_output=True, timeout=60, check=False)
    assert ran.stderr == b"", ran.stderr.decode()
    said = ran.stdout.decode("ascii").splitlines()
    receipts = [json.loads(line) for line in said if line.startswith("{")]
    words = [line.strip() for line in said if line[0] not in "{sr" or line.startswith("repeat")]
    ends = [line for line in said if line.startswith(("settle", "refund"))]
    return Told(
        said, words, ends, receipts[-1] if receipts else {}, ran.returncode, (home / "taken.jsonl").read_bytes()
    )


def both(folder: Path, lines: Sequence[bytes], stored: bytes = b"") -> Told:
    """What both say; they must not differ in a byte."""
    python, javascript = (run(language, folder, lines, stored) for language in RUN)
    assert python == javascript
    return python


def taken(*numbers: int) -> list[str]:
    return [f"take {number}" for number in numbers]


def resigned(message: bytes, old: bytes, new: bytes, key: keys.TableKey) -> bytes:
    """The message with other content, and a signature that holds for it: by this key."""
    unsigned, _ = split_signature(message)
    assert old in unsigned
    return join_signature(unsigned.replace(old, new), key.sign(unsigned.replace(old, new)))


def respelt(message: bytes) -> bytes:
    """The same signature, written otherwise: the last of its 86 characters has four bits that say nothing."""
    other = message[:-3] + bytes([message[-3] + 1]) + message[-2:]
    assert urlsafe_b64decode(other[-88:-2] + b"==") == urlsafe_b64decode(message[-88:-2] + b"==")
    return other


ALL = range(1, 22)
BETS = "player banker tie player_pair banker_pair lucky_six player_natural banker_natural"
LOST = dict.fromkeys(BETS.split(), "lose:")
SETTLED = [  # by hand: 5 and 5, Player draws 4S, Banker 6D; then nothing against a natural nine
    f"settle BAC-07/{GENERATION}/1/{number} " + " ".join(f"{bet}={how}" for bet, how in bets.items())
    for number, bets in (
        (1, LOST | {"player": "win:1"}),
        (2, LOST | {"banker": "win:0.95", "banker_natural": "win:3.5"}),
    )
]

Change = Callable[[list[bytes]], list[bytes]]

WHOLE: dict[str, tuple[Change, list[str]]] = {
    "in order": (lambda f: f, taken(*ALL)),
    "repeats": (
        lambda f: [*f[:6], *f[3:6], *f[6:], f[0]],
        [*taken(*range(1, 7)), "repeat 4", "repeat 5", "repeat 6", *taken(*range(7, 22)), "repeat 1"],
    ),
    "a gap, then sent again": (
        lambda f: [*f[:8], *f[9:11], *f[8:]],
        [*taken(*range(1, 9)), "gap 9 10", "gap 9 11", *taken(*range(9, 22))],
    ),
    "both, and in disorder": (
        lambda f: [*f[:5], f[7], f[2], f[6], *f[5:9], f[20], *f[6:]],
        [
            *taken(*range(1, 6)),
            *("gap 6 8", "repeat 3", "gap 6 7"),
            *taken(*range(6, 10)),
            *("gap 10 21", "repeat 7", "repeat 8", "repeat 9"),
            *taken(*range(10, 22)),
        ],
    ),
    "a stranger's message": (
        lambda f: [*f[:8], resigned(f[8], b'"live"', b'"demo"', STRANGER), *f[8:]],
        [*taken(*range(1, 9)), "alien", *taken(*range(9, 22))],
    ),
    "a byte changed on the way": (
        lambda f: [*f[:8], f[8].replace(b'"live"', b'"demo"'), b"", b"{}", f[8][:-1], f[8][:-103] + b"}", *f[8:]],
        [*taken(*range(1, 9)), *["alien"] * 5, *taken(*range(9, 22))],
    ),
    "a signature spelt otherwise, of a message to come and of one that was": (
        lambda f: [*f[:8], respelt(f[8]), *f[8:15], respelt(f[8]), *f[15:]],
        [*taken(*range(1, 9)), "alien", *taken(*range(9, 16)), "alien", *taken(*range(16, 22))],
    ),
    "other bytes behind the signature": (
        lambda f: [*f[:8], f[8][:-2] + b'"]', f[8][:-2] + b"}}", f[8] + b" ", f[8][:-9] + b"=" + f[8][-8:], *f[8:]],
        [*taken(*range(1, 9)), *["alien"] * 4, *taken(*range(9, 22))],
    ),
}


@pytest.mark.parametrize(("change", "words"), WHOLE.values(), ids=WHOLE)
def test_every_message_is_taken_once_and_in_order(change: Change, words: list[str], tmp_path: Path) -> None:
    told = both(tmp_path, change(feed()))
    assert told.words == words
    assert told.ends == SETTLED
    assert told.stored == b"".join(line + b"\n" for line in feed())
    assert told.receipt == {"generation": GENERATION, "seqno": 21, "hash": sha256(feed()[-1]).hexdigest()}
    assert told.code == 0


STOPPED: dict[str, tuple[Change, str]] = {
    "a number again with other bytes": (
        lambda f: [*f[:9], resigned(f[8], b'"live"', b'"demo"', recorded()[0]), *f[9:]],
        "STOP 9 came with other bytes 9",
    ),
    "not the one before": (
        lambda f: [*f[:9], resigned(f[9], b'"prevhash":"', b'"prevhash":"0', recorded()[0]), *f[9:]],
        "STOP 10 does not follow the one before 10",
    ),
    "a generation without a beginning": (
        lambda f: [*f[:9], resigned(f[9], GENERATION.encode(), LATER.encode(), recorded()[0])],
        f"STOP {LATER} is neither in force nor begun 10",
    ),
    "a generation from before the one in force, kept by somebody": (
        lambda f: [*f[:9], every_type(generation=EARLIER)[0]],
        f"STOP {EARLIER} is neither in force nor begun 1",
    ),
    "an old generation that goes on": (
        lambda f: [*f[:9], every_type()[0], f[9]],
        f"STOP {GENERATION} is neither in force nor begun 10",
    ),
}


@pytest.mark.parametrize(("change", "last"), STOPPED.values(), ids=STOPPED)
def test_what_no_honest_table_sends_stops_it(change: Change, last: str, tmp_path: Path) -> None:
    told = both(tmp_path, change(feed()))
    assert told.words[:9] == taken(*range(1, 10))
    assert told.words[-1] == last
    assert told.code == 1
    assert told.stored.startswith(b"".join(line + b"\n" for line in feed()[:9]))
    assert feed()[9] not in told.stored


def test_a_late_joiner_without_a_beginning_takes_nothing(tmp_path: Path) -> None:
    told = both(tmp_path, feed()[4:])
    assert (told.words, told.code, told.stored) == ([f"STOP {GENERATION} is neither in force nor begun 5"], 1, b"")


@pytest.mark.parametrize("torn", [b"", b'{"specversion":"1.0"', b"\xff"])
def test_it_goes_on_where_it_was_stopped(torn: bytes, tmp_path: Path) -> None:
    """What it had stored is not settled again; what was not stored whole comes again."""
    stored = b"".join(line + b"\n" for line in feed()[:15])
    told = both(tmp_path, feed()[12:], stored + torn)
    assert told.words == ["repeat 13", "repeat 14", "repeat 15", *taken(*range(16, 22))]
    assert told.ends == SETTLED[1:]
    assert told.stored == b"".join(line + b"\n" for line in feed())


def test_a_new_generation_follows_the_old_and_every_type_is_taken(tmp_path: Path) -> None:
    """Ends of rounds for stakes are told, those of a round without bets are not."""
    later = every_type()
    told = both(tmp_path, [*feed(), *later, feed()[3]])
    assert told.words == [*taken(*ALL), *taken(*range(1, len(later) + 1)), "repeat 4"]
    ended = [message for message in map(json.loads, later) if message["type"].split(".")[1] == "round"]
    played = [m for m in ended if m["mode"] == "live" and not m["type"].endswith(".dealt.v1")]
    assert len(played) >= 3
    assert len(told.ends) == 2 + len(played)
    assert {line.split()[0] for line in told.ends} == {"settle", "refund"}
    for line, message in zip(told.ends[2:], played, strict=True):
        assert line.startswith("settle" if message["type"].endswith("completed.v1") else "refund")
        assert line.split()[1] == message["data"]["roundid"]
    assert told.receipt["generation"] == LATER


@pytest.mark.parametrize("mode", ["demo", "training"])
def test_nothing_is_settled_for_a_table_that_is_not_live(mode: Mode, tmp_path: Path) -> None:
    told = both(tmp_path, every_type(mode))
    assert (told.ends, told.code) == ([], 0)
    assert len(told.words) == len(every_type(mode))


def test_they_are_short() -> None:
    lines = {language: len([line for line in text.splitlines() if line]) for language, text in PROGRAMS.items()}
    assert all(count <= 48 for count in lines.values()), lines
