"""What publishers owe the table: link, receipts, backlog and refusals, told once; a receipt weighed before it counts.

Knows no transport. Adapters do not know each other: what two of them say in the same words is said here.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from .core.events import BacklogChanged, FaultGone, FaultSeen, LinkChanged, Receipt
from .ports import Outbox, Submit

ACK_MAX = 1_024  # bytes: a receipt is some 130
HIGH, LOW = 5_000, 4_000  # messages without a receipt: the backlog's marks (I34)

log = logging.getLogger(__name__)


class Report:
    """What the table hears of the publisher `name`. Link, receipts and backlog are the primary's alone to tell.

    `high` and `low` are the backlog's marks in messages (I34).
    """

    def __init__(self, name: str, outbox: Outbox, submit: Submit, *, primary: bool, high: int, low: int) -> None:
        self._name, self._primary = name, primary
        self._log = log.getChild(name)
        self._marks = high, low
        self._outbox, self._submit = outbox, submit
        self._told: set[str] = set()  # the reasons of this outage: each is told once, however often it returns
        self._high: bool | None = None
        self.trouble = "not connected yet"  # why the link is down; empty while it is up
        self._connected = False
        self._silent = ""  # why there is no link although there may be a connection, until the next receipt
        self._refused: int | None = 0  # the message that is refused; 0: what a run before this one saw is unknown

    async def run(self, carry: Coroutine[Any, Any, None], turn: Callable[[], None]) -> None:
        """Runs `carry`, which keeps a connection, and calls `turn` when there is something new, until cancelled."""
        self.backlog()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(turn))
            group.create_task(carry)

    async def _follow(self, turn: Callable[[], None]) -> None:
        seen = 0
        while True:
            await self._outbox.wait(seen)
            seen = self._outbox.head
            turn()
            self.backlog()

    def up(self) -> None:
        """There is a connection. After a time without receipts that alone is no link: the next one is waited for."""
        self._connected = True
        if self._silent and self._owed:
            self._tell_down(self._silent)
        else:
            self._tell_up()

    def down(self, reason: str) -> None:
        self._connected = False
        self._tell_down(reason)

    def stalled(self, reason: str) -> None:
        """No receipt came for too long, or none can: what the table says is not heard (F2). The next one ends that."""
        if not self._owed:
            return  # only what somebody wants once more is stuck, and no receipt would ever end it
        self._silent = reason
        if self._connected:
            self._tell_down(reason)

    @property
    def _owed(self) -> int:
        """How many messages wait for their receipts."""
        return self._outbox.head - self._outbox.cursor(self._name)

    def _tell_up(self) -> None:
        self._log.info("connected")
        self.trouble = self._silent = ""
        self._told.clear()
        if self._primary:
            self._submit(LinkChanged(time.monotonic_ns(), up=True))

    def _tell_down(self, reason: str) -> None:
        self.trouble = reason
        if reason in self._told:
            return
        self._log.warning("not connected: %s", reason)
        self._told.add(reason)
        if self._primary:
            self._submit(LinkChanged(time.monotonic_ns(), up=False, reason=reason))

    def receipt(self, seqno: int) -> None:
        held_up = self._refused is not None and seqno < self._refused  # what is behind that one does not arrive
        if self._silent and not held_up:
            self._silent = ""
            if self._connected:
                self._tell_up()
        if self._primary:
            self._submit(Receipt(time.monotonic_ns(), seqno))
        self.backlog()

    def backlog(self) -> None:
        """Tells of a mark passed; the first call tells where the backlog stands, since a condition outlives us."""
        depth = self._owed
        high = is_high(depth, self._marks, self._high)
        if high is None or high == self._high:
            return
        self._high = high
        if self._primary:
            self._submit(BacklogChanged(time.monotonic_ns(), high=high, depth=depth))

    def refused(self, seqno: int, text: str) -> None:
        if seqno != self._refused:
            self._log.error("%s", text)
            self._submit(FaultSeen(time.monotonic_ns(), code="feed_refused", part=self._name, text=text))
        self._refused = seqno
        self.stalled(text)

    def passed(self, seqno: int) -> None:
        """Everything up to `seqno` was taken."""
        if self._refused is not None and seqno >= self._refused:
            self._refused = None
            self._submit(FaultGone(time.monotonic_ns(), code="feed_refused", part=self._name))


def is_high(depth: int, marks: tuple[int, int], before: bool | None) -> bool | None:  # noqa: FBT001 - what it was
    """Whether a backlog of so many messages is high: from the upper mark on until it is at the lower (I34)."""
    high, low = marks
    return True if depth >= high else False if depth <= low else before


def no_receipt(seconds: float) -> str:
    return f"no receipt from the casino server for {seconds:g} s: ask casino IT whether it takes what the table sends"


class _Ack(NamedTuple):
    generation: str
    seqno: int
    hash: str


def receipted(payload: bytes, outbox: Outbox, after: int) -> int | None:
    """The number up to which the casino server has all, by its receipt; None where that is none, or not over `after`.

    It is right in generation, number and hash (DESIGN 5), or it is nothing, and the log says why.
    """
    ack = _parse(payload)
    if ack is None:
        log.warning("ignored a malformed receipt: %r", payload[:200])
        return None
    if ack.generation != outbox.generation:
        log.warning("ignored a receipt for generation %r: this is %s", ack.generation, outbox.generation)
        return None
    if ack.seqno <= after:
        return None
    found = outbox.read(ack.seqno - 1, 1) if ack.seqno <= outbox.head else []
    if not found or (found[0].seqno, found[0].hash) != (ack.seqno, ack.hash):
        log.warning("ignored a receipt for message %d: its hash %r is not the message's", ack.seqno, ack.hash)
        return None
    return ack.seqno


def _parse(payload: bytes) -> _Ack | None:
    """The receipt in `payload`; None where it is none: the casino's side may send anything."""
    if len(payload) > ACK_MAX:
        return None
    try:
        told = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    ack = _Ack(told.get("generation", ""), told.get("seqno", 0), told.get("hash", ""))
    return ack if isinstance(ack.generation, str) and type(ack.seqno) is int and isinstance(ack.hash, str) else None
