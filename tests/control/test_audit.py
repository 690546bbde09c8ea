"""Messages and exports as an auditor holds them: whole, signed by whom they say, and nothing missing between them."""

import itertools
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from controller import keys
from controller.control.audit import Signatures, verify_export
from controller.core.events import LoadAsked
from tests.control.served import run
from tests.shoes import SHOES
from tests.table_rig import MemoryJournal, Rig

KEY, OTHER = keys.ephemeral(), keys.ephemeral()


class Feed(NamedTuple):
    lines: list[bytes]
    public: str


def feed(generation: str = "68f1c2d4-9be01a77") -> Feed:
    async def scenario() -> Feed:
        async with Rig(journal=MemoryJournal(generation), key=KEY) as rig:
            await rig.load()
            await rig.scan("8H TC 2D 9C " * 2)
        return Feed([message.data + b"\n" for message in rig.journal.messages], rig.key.public)

    return run(scenario)


FEED, NEXT = feed(), feed("68f1c2d5-00000001")


def check(lines: list[bytes], fault: str | None, good: int | None = None, key: str | None = None) -> None:
    verdict = verify_export(lines, Signatures(keys.verify, key))
    if fault is None:
        assert verdict == (None, len(set(lines)), None)
    else:
        assert verdict.fault is not None
        assert fault in verdict.fault
        assert good in (None, verdict.messages)


def test_a_whole_feed_is_good() -> None:
    check(FEED.lines, None)
    check(FEED.lines, None, key=FEED.public)
    check([line.rstrip(b"\n") for line in FEED.lines], None)


def bad_byte(export: bytes, at: int, to: int) -> str | None:
    """What `verify` says of an export whose byte `at` is `to`."""
    spoilt = export[:at] + bytes([to]) + export[at + 1 :]
    return verify_export(spoilt.splitlines(keepends=True), Signatures(keys.verify)).fault


def message_at(lines: list[bytes], at: int) -> int:
    """The number of the message that has the byte `at`; a line's end belongs to its message."""
    ends = itertools.accumulate(map(len, lines))
    return next(number for number, end in enumerate(ends, 1) if at < end)


def test_one_byte_changed_anywhere_is_found_and_its_message_named() -> None:
    """Each byte of an export, its line ends too, in two ways."""
    lines = FEED.lines[:4]
    export = b"".join(lines)
    assert verify_export(lines, Signatures(keys.verify)) == (None, 4, None)
    for at, byte in enumerate(export):
        number = message_at(lines, at)
        for to in {byte ^ 1, 0x20} - {byte}:
            fault = bad_byte(export, at, to)
            assert fault is not None, f"byte {at}, {byte} to {to}"
            named = f"line {number}, message {number}: "
            first = "line 1, " if number == 1 else named  # the first may be too broken to say its number
            assert fault.startswith((named, first)), f"byte {at}, {byte} to {to}: {fault}"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))])
def test_a_random_byte_of_a_long_export_is_found(seed: int) -> None:
    async def scenario() -> list[bytes]:
        async with Rig() as rig:
            await rig.do(LoadAsked(rig.clock.now()))
            await rig.scan(" ".join("cut" if what == "cut" else code for what, code in SHOES[seed].events))
            return [message.data + b"\n" for message in rig.journal.messages]

    lines, rng = run(scenario), random.Random(seed)
    export = b"".join(lines)
    assert len(lines) > 300
    for _ in range(15):
        at = rng.randrange(len(export))
        to = rng.choice([byte for byte in range(256) if byte != export[at]])
        fault, number = bad_byte(export, at, to), message_at(lines, at)
        assert fault is not None, f"seed {seed}: byte {at} to {to}"
        assert f", message {number}: " in fault or number == 1, f"seed {seed}: byte {at} to {to}: {fault}"


def test_a_span_needs_the_key() -> None:
    check(FEED.lines[3:], "--public-key", 0)
    check(FEED.lines[3:], None, key=FEED.public)


def test_another_key_is_told() -> None:
    check(FEED.lines, "not " + OTHER.public, 0, key=OTHER.public)
    check(FEED.lines[3:], "signature is not by", 0, key=OTHER.public)
    check(FEED.lines[3:], "no public key", 0, key="nonsense")


def test_a_message_that_comes_again_is_no_fault_and_a_changed_one_is() -> None:
    again = [line for line in FEED.lines for _ in range(2)]
    check(again, None)
    check([*FEED.lines[:9], *FEED.lines[3:]], None)  # after a lost connection, or a receipt that did not come
    check([*FEED.lines, *FEED.lines], None)
    check([*FEED.lines[3:], *FEED.lines[5:]], None, key=FEED.public)
    check([*FEED.lines[3:], *FEED.lines[2:]], "should follow", len(FEED.lines) - 3, key=FEED.public)
    other = FEED.lines[4].replace(b'"synchronised":true', b'"synchronised":false')
    assert other != FEED.lines[4]
    check([*FEED.lines[:5], other], "line 6, message 6: message 5 was there already, with other bytes", 5)
    check([*FEED.lines[:9], other], "line 10, message 10: message 5 was there already, with other bytes", 9)


def test_a_new_generation_begins_with_its_journal_opened_and_its_own_key() -> None:
    check([*FEED.lines, *NEXT.lines], None)
    check([*FEED.lines, *NEXT.lines, *FEED.lines[-1:]], "does not begin", len(FEED.lines) + len(NEXT.lines))
    check([*FEED.lines, *NEXT.lines[1:]], "does not begin with its journal.opened", len(FEED.lines))


FORGERIES: list[tuple[str, Callable[[list[bytes]], list[bytes]], str, int]] = [
    ("a missing message", lambda lines: lines[:3] + lines[4:], "line 4, message 4: message 4 should follow, not 5", 3),
    (
        "two swapped",
        lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
        "line 4, message 4: message 4 should follow",
        3,
    ),
    ("a changed face", lambda lines: [line.replace(b'"9C"', b'"9D"') for line in lines], "signature", 10),
    (
        "a changed mode",
        lambda lines: [lines[0].replace(b"live", b"demo"), *lines[1:]],
        "line 1, message 1: the signature",
        0,
    ),
    ("a torn line", lambda lines: [*lines[:-1], lines[-1][:-9]], "line 19", -1),
    ("an empty line", lambda lines: [*lines[:2], b"\n", *lines[2:]], "line 3", 2),
    ("a line of noise", lambda lines: [*lines[:2], b"\xff\xfe\x00\n"], "line 3", 2),
    ("deep nesting", lambda lines: [*lines[:2], b"[" * 100_000], "line 3", 2),
    ("no object", lambda lines: [*lines[:2], b"7\n"], "line 3, message 3: it is no JSON object", 2),
    ("no signature", lambda lines: [*lines[:2], b'{"seqno":3,"generation":"68f1c2d4-9be01a77"}\n'], "line 3", 2),
    ("no seqno", lambda lines: [*lines[:2], b"{}\n"], "line 3, message 3: it has no seqno", 2),
    ("nothing at all", lambda lines: lines[:0], "no message", 0),
    (
        "another signer",
        lambda lines: [*lines[:3], resigned(lines[3], OTHER), *lines[4:]],
        "line 4, message 4: the signature is not by",
        3,
    ),
    (
        "the signer's own, behind another message",
        lambda lines: [*lines[:3], resigned(lines[3], KEY, b'"prevhash":"', b'"prevhash":"0'), *lines[4:]],
        "line 4, message 4: message 4: prevhash should be",
        3,
    ),
    (
        "the signer's own, in place of the one that the next names",
        lambda lines: [*lines[:3], resigned(lines[3], KEY, b'"live"', b'"demo"'), *lines[4:]],
        "line 5, message 5: message 5: prevhash should be",
        4,
    ),
]


def resigned(line: bytes, key: keys.TableKey, old: bytes = b"", new: bytes = b"") -> bytes:
    from controller.feed import join_signature, split_signature

    unsigned = split_signature(line.rstrip(b"\n"))[0].replace(old, new, 1)
    return join_signature(unsigned, key.sign(unsigned)) + b"\n"


@pytest.mark.parametrize(("forge", "fault", "good"), [row[1:] for row in FORGERIES], ids=[row[0] for row in FORGERIES])
def test_a_forgery_is_found_where_it_is(forge: Callable[[list[bytes]], list[bytes]], fault: str, good: int) -> None:
    lines = forge(list(FEED.lines))
    assert lines != FEED.lines
    check(lines, fault, good if good >= 0 else len(FEED.lines) + good)


def test_the_first_message_follows_nothing() -> None:
    """One signed with the true key, but torn out of another place."""
    from controller.feed import join_signature, split_signature

    key = keys.ephemeral()
    unsigned, _ = split_signature(FEED.lines[0].rstrip(b"\n"))
    unsigned = unsigned.replace(b'"prevhash":"0', b'"prevhash":"1').replace(FEED.public.encode(), key.public.encode())
    check([join_signature(unsigned, key.sign(unsigned))], "first message has a prevhash", 0)
