"""The table's side of a scanner in a test: takes what it reports as the loop does, and sees what is left open."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, TypeVar

import pytest

from controller.core.events import (
    CardRepeated,
    CardScanned,
    CardUnread,
    CodeUnknown,
    CutCardSeen,
    Event,
    FaultGone,
    FaultSeen,
)
from controller.ports import Outcome, Source

DEADLINE_S = 30.0  # how long a test waits for what must happen: generous, and reached only when it does not
S = TypeVar("S", bound=Source)


async def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < end, "what was waited for did not happen"
        await asyncio.sleep(0.002)


def said(event: Event) -> str:
    match event:
        case CardScanned(card=card):
            return card
        case CardRepeated():
            return "again"
        case CutCardSeen():
            return "cut"
        case CardUnread(raw=raw):
            return f"unread:{raw}"
        case CodeUnknown(raw=raw):
            return f"unknown:{raw}"
        case FaultSeen(code="I40", part="scanner"):
            return "fault"
        case FaultGone(code="I40", part="scanner"):
            return "gone"
        case _:
            raise AssertionError(event)


class Table(Generic[S]):
    """Takes what a scanner reports, as the loop does. `said` is all of it, in order.

    What ends a fault that it never saw, of a run of the program before, is only counted, in `unknown`.
    """

    def __init__(self, scanner: S) -> None:
        self.scanner = scanner
        self.events: list[Event] = []
        self.unknown = 0

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        assert event.at <= time.monotonic_ns()
        assert not self.events or event.at >= self.events[-1].at
        if isinstance(event, FaultGone) and not any(isinstance(seen, FaultSeen) for seen in self.events):
            self.unknown += 1
        else:
            self.events.append(event)
        return asyncio.get_running_loop().create_future()

    @property
    def said(self) -> list[str]:
        return [said(event) for event in self.events]

    @property
    def fault(self) -> str:
        """The text of the only fault."""
        (text,) = [event.text for event in self.events if isinstance(event, FaultSeen)]
        return text


@asynccontextmanager
async def reading(scanner: S) -> AsyncIterator[Table[S]]:
    """The scanner at work; at the end it is cancelled, and nothing may have escaped from a callback."""
    escaped: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))
    table = Table(scanner)
    task = asyncio.create_task(scanner.run(table.submit))
    try:
        yield table
        assert not task.done(), "a source reports until it is cancelled"
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert escaped == []


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Runs it, and sees that every descriptor is closed again."""
    before = descriptors()
    asyncio.run(asyncio.wait_for(scenario(), 2 * DEADLINE_S))
    assert set(descriptors()) <= set(before)


def descriptors() -> dict[str, list[int]]:
    """The open ports, pipes and sockets of this process, and their numbers. pyserial makes pipes."""
    found: dict[str, list[int]] = {}
    for path in Path("/proc/self/fd").iterdir():
        try:
            link = str(path.readlink())
        except FileNotFoundError:  # the listing's own
            continue
        if link.startswith(("/dev/pts/", "/dev/ptmx", "pipe:", "socket:")):
            found.setdefault(link, []).append(int(path.name))
    return found


def descriptor_count() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
