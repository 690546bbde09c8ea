"""What an auditor asks of messages, one after the other: the signature, and for an export the chain as well.

Reads bytes as they were sent and changes none. How a signature is verified is an argument (`keys.verify`).
"""

import json
import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from controller import feed

Verify = Callable[[str, bytes, bytes], bool]
OPENED = "baccarat.journal.opened.v1"


class Verdict(NamedTuple):
    """What stands up: so many journal rows and messages. `fault` is what does not, None where all does.

    `rows` is None of an export, which has none.
    """

    rows: int | None
    messages: int
    fault: str | None


class Signatures:
    """Whether each message is signed by the key that `journal.opened` announced, or by `public_key` where one is given.

    Called with messages in their order; tells what is wrong with one, None where nothing is.
    """

    def __init__(self, verify: Verify, public_key: str | None = None) -> None:
        self._verify, self._pinned, self._key = verify, public_key, public_key

    def __call__(self, data: bytes) -> str | None:
        try:
            unsigned, signature = feed.split_signature(data)
            return self._fault(_members(data), unsigned, signature)
        except (ValueError, RecursionError) as error:  # FeedError is a ValueError
            return str(error)

    def _fault(self, told: dict[str, Any], unsigned: bytes, signature: bytes) -> str | None:
        if told.get("type") == OPENED:
            announced = _announced(told)
            if self._pinned not in (None, announced):
                return f"journal.opened announces the key {announced}, not {self._pinned}"
            self._key = announced
        if self._key is None:
            return "no journal.opened before it says who signs: give the table's public key with --public-key"
        if self._verify(self._key, unsigned, signature):
            return None
        return (
            f"the signature is not by the key {self._key} of this journal (the message names keyid {told.get('keyid')})"
        )


class _Generation:
    """What was read of the one in force: the digests of its messages from number `first` on, without a gap."""

    def __init__(self, name: str, first: int) -> None:
        self.name, self._first = name, first
        self._digests = bytearray()  # 32 bytes each: a feed has millions

    @property
    def next(self) -> int:
        return self._first + len(self._digests) // 32

    def add(self, data: bytes) -> None:
        self._digests += sha256(data).digest()

    def digest(self, seqno: int) -> bytes | None:
        """Of a message that was read; None where it was not."""
        at = 32 * (seqno - self._first)
        return bytes(self._digests[at : at + 32]) if self._first <= seqno < self.next else None


def verify_export(lines: Iterable[bytes], check: Callable[[bytes], str | None]) -> Verdict:
    """The messages of a feed file or an export, one a line, from any of them on: chain and signatures.

    A message that comes again is no fault if it is the same to the byte: they are sent at least once.
    """
    force: _Generation | None = None
    good = 0
    for number, line in enumerate(lines, 1):
        data, told = line.removesuffix(b"\n"), dict[str, Any]()
        try:
            told = _members(data)
            fault = _chain_fault(force, told, data) or check(data)
        except (ValueError, RecursionError) as error:
            fault = str(error)
        if fault is not None:
            return Verdict(None, good, f"line {number}, {_name(force, told, data)}: {fault}")
        if force is None or told["generation"] != force.name:
            force = _Generation(told["generation"], told["seqno"])
        if told["seqno"] == force.next:
            force.add(data)
            good += 1
    return Verdict(None, good, None if good else "it holds no message")


def _name(force: _Generation | None, told: dict[str, Any], data: bytes) -> str:
    """Which message a bad line is: the one that should follow, whatever the line says; else what it says."""
    if force is not None and told.get("generation", force.name) == force.name:
        return f"message {force.next}"
    found = re.search(rb'"seqno":(\d+)', data)
    return f"message {int(found[1])}" if found else "the first message"


def _chain_fault(force: _Generation | None, told: dict[str, Any], data: bytes) -> str | None:
    """What is wrong with a message behind those of `force`."""
    seqno, generation, previous = told.get("seqno"), told.get("generation"), told.get("prevhash")
    if type(seqno) is not int or seqno < 1 or not isinstance(generation, str):
        return "it has no seqno or no generation"
    if force is None:
        return "the first message has a prevhash" if seqno == 1 and previous != "0" * 64 else None
    if generation != force.name:
        if (seqno, told.get("type"), previous) != (1, OPENED, "0" * 64):
            return f"generation {generation} does not begin with its journal.opened"
        return None
    before = force.digest(seqno)
    if before is not None:
        return None if before == sha256(data).digest() else f"message {seqno} was there already, with other bytes"
    last = force.digest(force.next - 1)
    if seqno != force.next or last is None:
        return f"message {force.next} should follow, not {seqno}"
    if previous != last.hex():
        return f"message {seqno}: prevhash should be {last.hex()}, not {previous}"
    return None


def _announced(told: dict[str, Any]) -> str:
    data = told.get("data")
    key = data.get("publickey") if isinstance(data, dict) else None
    if not isinstance(key, str):
        raise feed.FeedError("journal.opened announces no public key")
    return key


def _members(data: bytes) -> dict[str, Any]:
    tree = json.loads(data.decode("ascii"))
    if not isinstance(tree, dict):
        raise feed.FeedError("it is no JSON object")
    return tree
