"""Messages of the feed once more, because somebody at the casino wants them: from a number on, by one publisher."""

from collections.abc import Callable, Mapping
from typing import Any

from controller.core.conditions import Refused
from controller.core.state import State
from controller.ports import Outbox

from .messages import FAILED, RpcError


def missing(outbox: Outbox, first: int) -> str:
    """Why sending cannot begin with message `first`; empty where it can."""
    if first > outbox.head:
        return f"the newest message is {outbox.head}"
    oldest = outbox.read(first - 1, 1)[0].seqno
    if oldest > first:
        return f"the oldest message here is {oldest}: what was before it is in the exported journals"
    return ""


Resend = Callable[[range], bool]
"""Sends these messages again; False where its line is down, and nobody would hear it."""


def resend(
    outbox: Outbox, doors: Mapping[str, Resend | None], primary: str, state: State, *, first: int, publisher: str | None
) -> dict[str, Any]:
    """From message `first` to the newest, by `publisher` or the primary: {publisher, from, to}. No cursor moves.

    `doors` has each publisher of the table, None for one that cannot. Refused where a round that waits for receipts
    would wait behind them; RpcError says why not.
    """
    name, head = publisher or primary, outbox.head
    if name not in doors:
        raise RpcError(FAILED, f"this table does not publish by {name}: it has {', '.join(doors)}")
    door = doors[name]
    if door is None:
        raise RpcError(FAILED, f"a {name} keeps what was written to it: copy it, or use tablectl journal export")
    if why := missing(outbox, first):
        raise RpcError(FAILED, why)
    if name == primary and state.round is not None:
        raise Refused("not_now")
    if not door(range(first, head + 1)):
        raise RpcError(FAILED, f"{name} is down: ask again when tablectl diag casino says that it is up")
    return {"publisher": name, "from": first, "to": head}
