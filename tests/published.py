"""Whatever a table of the tests publishes is held against docs/schemas: every message, none sampled.

`conftest` puts `judged` around what makes the bytes in this process; a `tabled` of its own leaves them in its journal
(`hold_journal`) and on its topics (`hold`).
"""

import functools
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

from controller.adapters import journal_sqlite
from controller.feed import Chain
from controller.ports import Sealed
from tests import schemas

P = ParamSpec("P")

held: Counter[str] = Counter()  # how many were looked at, by where they were said

TOPIC = re.compile(r"[^/]+/[^/]+/(feed|state|status|replies)(/.+)?")


def judged_seal(seal: Callable[P, tuple[Sealed, Chain]]) -> Callable[P, tuple[Sealed, Chain]]:
    """`feed.seal`, whose messages are all looked at."""

    @functools.wraps(seal)
    def judged(*args: P.args, **kwargs: P.kwargs) -> tuple[Sealed, Chain]:
        row, chain = seal(*args, **kwargs)
        for message in row.messages:
            schemas.validate(message.data)
        held["made"] += len(row.messages)
        return row, chain

    return judged


def judged_state(state_message: Callable[P, bytes]) -> Callable[P, bytes]:
    """`feed.state_message`, whose bytes are looked at."""

    @functools.wraps(state_message)
    def judged(*args: P.args, **kwargs: P.kwargs) -> bytes:
        data = state_message(*args, **kwargs)
        schemas.validate_as("state", data)
        held["states"] += 1
        return data

    return judged


def hold(topic: str, payload: bytes) -> None:
    """What a table said on a topic of its own; what others say is not looked at."""
    found = TOPIC.fullmatch(topic)
    if found is None:
        return
    if found[1] == "feed" or payload.startswith(b'{"specversion"'):  # a reply may be a message that was asked for again
        schemas.validate(payload)
    else:
        schemas.validate_as({"replies": "reply"}.get(found[1], found[1]), payload.removesuffix(b"\n"))
    held["on topics"] += 1


def hold_journal(folder: Path) -> int:
    """Every message of the journals that a table has left in its folder; how many there were."""
    before = held["in journals"]
    for path in sorted(folder.glob("*.db")):
        for message in journal_sqlite.messages(path):
            schemas.validate(message.data)
            held["in journals"] += 1
    return held["in journals"] - before
