"""The four shapes that the world may have: Source, Panel, Journal, Publisher.

A port says what; an adapter (one file each in `adapters/`, wired only by `wiring.py`) says how.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .core.events import Event
from .core.facts import Fact
from .core.view import View


class JournalError(Exception):
    """The journal could not make a batch durable, or is not fit for use. The text says what to do."""


class Message(NamedTuple):
    """A public message: its number in the feed, type (`baccarat.card.dealt.v1`), exact bytes and their hash (hex)."""

    seqno: int
    type: str
    data: bytes
    hash: str


class Sealed(NamedTuple):
    """One journal row, ready to store: an event, its facts, the bytes of their messages (DESIGN 4).

    The row's hash is the SHA-256 over `previous`, `body`, each message's bytes and `saved`, in this order; `previous`
    is the hash of the row before (32 zero bytes for row 1). `saved` is the State after a `shoe.opened`.
    """

    id: int
    previous: bytes
    body: bytes
    messages: tuple[Message, ...]
    saved: bytes | None
    key: tuple[str, str] | None
    hash: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a submitted event, told when it is durable. `refused` is a prompt key and its values."""

    facts: tuple[Fact, ...] = ()
    refused: tuple[str, dict[str, str]] | None = None
    repeated: bool = False


Submit = Callable[[Event], "asyncio.Future[Outcome]"]
"""Puts an event in line at once, in the order of the calls; the future resolves when its facts are durable."""


class Source(Protocol):
    """Something that tells the table what happened: a scanner, a button, a clock, the control socket."""

    async def run(self, submit: Submit) -> None:
        """Reports until cancelled. Survives the loss and the return of its device, and reports both."""


class Panel(Protocol):
    """Something that shows the table: lamps, a display. Levels: every call may repeat the last."""

    def show(self, view: View) -> None:
        """Takes the newest view; never blocks and never raises."""


class Outbox(Protocol):
    """The durable messages of this generation and each publisher's place in them."""

    @property
    def generation(self) -> str: ...

    @property
    def head(self) -> int:
        """The seqno of the newest durable message; 0 before the first."""

    def read(self, after: int, limit: int) -> list[Message]:
        """The messages with `seqno` > after, in order, at most `limit`."""

    def cursor(self, publisher: str) -> int:
        """The seqno up to which this publisher has receipts; 0 at first."""

    def advance(self, publisher: str, seqno: int) -> None:
        """Moves the publisher's cursor. Cheap: it becomes durable with the next commit, or within a second.

        After a crash the cursor may stand lower: messages are sent at least once.
        """

    async def wait(self, after: int) -> None:
        """Returns when `head` > after."""


class Answer(NamedTuple):
    """To a command: the reply's bytes (JSON-RPC 2.0), and the messages to send its asker before it, by seqno."""

    reply: bytes
    resend: range = range(0)


Ask = Callable[[bytes, bool], "asyncio.Future[Answer]"]
"""Puts a command of the casino server, its bytes as they came, in line at once, in the order of the calls.

The flag says that the transport kept it for whoever comes late (MQTT's retained): such a command is refused. The future
resolves when what it came to is durable: only then may the transport acknowledge it.
"""


class Publisher(Protocol):
    """Something that carries the feed away, in order, from its cursor on."""

    name: str

    async def run(self, outbox: Outbox, submit: Submit) -> None:
        """Publishes until cancelled.

        The primary reports `LinkChanged` when its link comes up or goes down, and a `Receipt` when its cursor moves.
        """


class Recovered(NamedTuple):
    """What the journal brings back: the last saved State's bytes (None: none yet), and the bodies of the rows since."""

    saved: bytes | None
    bodies: tuple[bytes, ...]


class Journal(Outbox, Protocol):
    """The append-only truth. Durable before visible."""

    @property
    def last(self) -> tuple[int, bytes]:
        """Id and hash of the last row; (0, 32 zero bytes) in a new journal."""

    @property
    def last_message(self) -> tuple[int, str]:
        """Seqno and hash (hex) of the last message; (0, 64 zeros) in a new journal."""

    def recover(self) -> Recovered:
        """The saved State and the rows since it, their chain checked; JournalError names the first bad row."""

    def seen(self, key: tuple[str, str]) -> bytes | None:
        """The body of the row whose event has this key; None where none has."""

    async def commit(self, rows: Sequence[Sealed]) -> None:
        """Makes the rows durable, all or none; JournalError when it could not, and then nothing was stored."""

    @property
    def ailing(self) -> str:
        """Why no new round should begin on this disk, and what to do; empty while it is well."""


class Clock(Protocol):
    """Time, and who wakes the loop when core wants it (also a Source: it submits `Elapsed`)."""

    def now(self) -> int:
        """Monotonic nanoseconds."""

    def wall(self, at: int) -> tuple[int, bool]:
        """UTC nanoseconds at that monotonic instant, and whether the clock is synchronised."""

    def not_before(self, utc: int) -> None:
        """No wall time is told before this, UTC ns, until the clock is synchronised."""

    def look(self) -> None:
        """Called every few seconds: tells of a wall clock that was set (also a Source of `ClockStepped`)."""

    def wake_at(self, at: int | None) -> None:
        """The next `Elapsed` is due then; None: none is."""
