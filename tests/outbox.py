"""An Outbox in memory, filled by hand: messages in the shape of the feed, cursors, and every move of them."""

import asyncio
import hashlib
import json
from typing import TypeVar

from controller.core.events import Event
from controller.ports import Message, Outcome

ZERO = "0" * 64

E = TypeVar("E", bound=Event)


class FakeOutbox:
    """`moves` is every `advance`, in order; `dropped` messages from the front are gone, as after pruning."""

    def __init__(self, generation: str = "68f1c2d4-9be01a77", source: str = "/tables/BAC-07") -> None:
        self.generation = generation
        self.moves: list[tuple[str, int]] = []
        self.messages: list[Message] = []
        self.dropped = 0
        self._source = source
        self._cursors: dict[str, int] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def head(self) -> int:
        return len(self.messages)

    def read(self, after: int, limit: int) -> list[Message]:
        assert after >= 0 and limit >= 0
        start = max(after, self.dropped)
        return self.messages[start : start + limit]

    def cursor(self, publisher: str) -> int:
        return self._cursors.get(publisher, 0)

    def advance(self, publisher: str, seqno: int) -> None:
        assert self.cursor(publisher) < seqno <= self.head, "a cursor moves forward, and to what there is"
        self._cursors[publisher] = seqno
        self.moves.append((publisher, seqno))

    def forget(self, publisher: str, seqno: int) -> None:
        """As after a crash: the cursor stands lower than it did."""
        self._cursors[publisher] = seqno

    async def wait(self, after: int) -> None:
        if self.head <= after:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((after, future))
            await future

    def add(self, count: int = 1, text: str = "") -> None:
        """Appends messages of a few types; `text` makes them longer."""
        for _ in range(count):
            self._add(text)
        due = [future for after, future in self._waiting if after < self.head]
        self._waiting = [(after, future) for after, future in self._waiting if after >= self.head]
        for future in due:
            if not future.done():
                future.set_result(None)

    def _add(self, text: str) -> None:
        seqno = self.head + 1
        kind = f"baccarat.{('betting.opened', 'card.dealt', 'round.completed')[seqno % 3]}.v1"
        message = {
            "specversion": "1.0",
            "id": f"{self._source.rpartition('/')[2]}/{self.generation}/{seqno}",
            "source": self._source,
            "type": kind,
            "generation": self.generation,
            "seqno": seqno,
            "prevhash": self.messages[-1].hash if self.messages else ZERO,
            "data": {"text": text or "Señal ♠"},
        }
        data = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        self.messages.append(Message(seqno, kind, data, hashlib.sha256(data).hexdigest()))


class Heard:
    """A `submit` that keeps what it is given, or raises LookupError when `broken`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.broken = False

    def __call__(self, event: Event) -> "asyncio.Future[Outcome]":
        if self.broken:
            raise LookupError("broken")
        self.events.append(event)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        future.set_result(Outcome())
        return future

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]
