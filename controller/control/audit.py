"""What an auditor asks of messages, one after the other: the signature, and for an export the chain as well.

Reads bytes as they were sent and changes none. How a signature is verified is an argument (`keys.verify`).
"""

import json
import re
from collections.abc import Callable, Iterable
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


class _Place(NamedTuple):
    generation: str
    seqno: int
    data: bytes


def verify_export(lines: Iterable[bytes], check: Callable[[bytes], str | None]) -> Verdict:
    """The messages of a feed file or an export, one a line, from any of them on: chain and signatures.

    A message that comes again is no fault if it is the same to the byte: they are sent at least once.
    """
    place: _Place | None = None
    good = 0
    for number, line in enumerate(lines, 1):
        data, told = line.removesuffix(b"\n"), dict[str, Any]()
        try:
            told = _members(data)
            fault = _chain_fault(place, told, data) or check(data)
        except (ValueError, RecursionError) as error:
            fault = str(error)
        if fault is not None:
            return Verdict(None, good, f"line {number}, {_name(place, told, data)}: {fault}")
        if place is None or data != place.data:
            good += 1
        place = _Place(told["generation"], told["seqno"], data)
    return Verdict(None, good, None if good else "it holds no message")


def _name(place: _Place | None, told: dict[str, Any], data: bytes) -> str:
    """Which message a bad line is: the one that should follow, whatever the line says; else what it says."""
    if place is not None and told.get("generation", place.generation) == place.generation:
        return f"message {place.seqno + 1}"
    found = re.search(rb'"seqno":(\d+)', data)
    return f"message {int(found[1])}" if found else "the first message"


def _chain_fault(place: _Place | None, told: dict[str, Any], data: bytes) -> str | None:
    """What is wrong with a message behind `place`."""
    seqno, generation = told.get("seqno"), told.get("generation")
    if type(seqno) is not int or seqno < 1 or not isinstance(generation, str):
        return "it has no seqno or no generation"
    if place is None:
        return "the first message has a prevhash" if seqno == 1 and told.get("prevhash") != "0" * 64 else None
    if data == place.data:
        return None
    if generation != place.generation:
        if (seqno, told.get("type"), told.get("prevhash")) != (1, OPENED, "0" * 64):
            return f"generation {generation} does not begin with its journal.opened"
        return None
    if seqno != place.seqno + 1:
        return f"message {place.seqno + 1} should follow, not {seqno}"
    expected = feed.message_hash(place.data)
    if told.get("prevhash") != expected:
        return f"message {seqno}: prevhash should be {expected}, not {told.get('prevhash')}"
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
