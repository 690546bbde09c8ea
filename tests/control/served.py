"""The rig's table behind a real control socket, and a caller that can also say what no honest client says."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from controller import keys
from controller.control import again, audit, parts, recall
from controller.control.parts import Part
from controller.control.server import ControlServer, Desk
from controller.panel import Words
from tests.table_rig import Rig

WAIT_S = 20.0  # generous: what is waited for comes in milliseconds

T = TypeVar("T")


def run(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(WAIT_S * 3):
            return await scenario()

    return asyncio.run(bounded())


async def until(true: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await true():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.005)


def desk_of(rig: Rig, language: str = "en", have: Mapping[str, Part] | None = None) -> Desk:
    """As the wiring makes it, but for a journal in memory; `have` are its devices, none at first.

    What is asked for again from message 2 on finds its line down.
    """
    journal = rig.journal
    return Desk(
        table=rig.speaker.table,
        mode=rig.speaker.mode,
        version="0.1.0",
        public_key=rig.key.public,
        words=Words(language),
        outbox=journal,
        submit=rig.loop.submit,
        now=rig.clock.now,
        state=lambda: rig.loop.state,
        view=lambda: rig.loop.view,
        backlog=lambda: {"mqtt": journal.head - journal.cursor("mqtt")},
        watch=rig.loop.watchers.append,
        recall=lambda count: recall.rounds((row.body for row in reversed(journal.rows)), count),
        verify=lambda: verdict_of(rig),
        resend=lambda first, publisher: again.resend(
            journal,
            {"mqtt": lambda numbers: numbers.start != 2, "file": None},
            "mqtt",
            rig.loop.state,
            first=first,
            publisher=publisher,
        ),
        diag=lambda part, act: parts.diag({} if have is None else have, part, act=act, state=rig.loop.state),
    )


def verdict_of(rig: Rig) -> audit.Verdict:
    lines = [message.data + b"\n" for message in rig.journal.messages]
    found = audit.verify_export(lines, audit.Signatures(keys.verify))
    return found._replace(rows=len(rig.journal.rows))


class Caller:
    """One connection. `say` sends bytes as they are; `hear` gives the next line, None when the table has hung up."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._id = 0

    async def say(self, line: bytes) -> None:
        self.writer.write(line)
        await self.writer.drain()

    async def hear(self) -> Any:  # noqa: ANN401 - what JSON holds
        line = await asyncio.wait_for(self._reader.readline(), WAIT_S)
        return json.loads(line) if line else None

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - what JSON holds
        """The answer to a request, notifications before it left out."""
        self._id += 1
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        await self.say(json.dumps(request).encode() + b"\n")
        while True:
            answer = await self.hear()
            assert answer is not None, "it hung up"
            if answer.get("id") == self._id:
                return dict(answer)

    async def result(self, method: str, **params: Any) -> Any:  # noqa: ANN401 - what JSON holds
        answer = await self.ask(method, **params)
        assert "error" not in answer, answer
        return answer["result"]


class Served:
    """A table and its socket, while `serving` lasts."""

    def __init__(self, rig: Rig, path: Path) -> None:
        self.rig, self.path = rig, path
        self.parts: dict[str, Part] = {}
        self._callers: list[Caller] = []

    async def caller(self) -> Caller:
        caller = Caller(*await asyncio.open_unix_connection(str(self.path), limit=1 << 22))
        self._callers.append(caller)
        return caller

    def hang_up(self) -> None:
        for caller in self._callers:
            caller.writer.close()


@asynccontextmanager
async def serving(
    folder: Path,
    rig: Rig,
    language: str = "en",
    unread_s: float = 30.0,
    **desk: Any,  # noqa: ANN401 - members of the desk that are other than the rig's
) -> AsyncIterator[Served]:
    path = folder / "control.sock"
    async with rig:
        served = Served(rig, path)
        server = ControlServer(path, replace(desk_of(rig, language, served.parts), **desk), unread_s=unread_s)
        server.open()
        task = asyncio.create_task(server.run())
        try:
            yield served
        finally:
            served.hang_up()
            ended = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if ended:
                task.result()


@contextmanager
def in_background(
    folder: Path, rig_of: Callable[[], Rig], prepare: Callable[[Rig], Coroutine[Any, Any, None]], language: str = "en"
) -> Iterator[tuple[Path, Callable[[Callable[[Rig], Coroutine[Any, Any, T]]], T]]]:
    """The same in a thread of its own, for callers that block: the socket's path, and a way to act on the rig."""
    loop = asyncio.new_event_loop()
    up, over = threading.Event(), asyncio.Event()
    found: list[Rig] = []

    async def live() -> None:
        rig = rig_of()
        async with serving(folder, rig, language):
            await prepare(rig)
            found.append(rig)
            up.set()
            await over.wait()

    def act(what: Callable[[Rig], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run_coroutine_threadsafe(what(found[0]), loop).result(WAIT_S)

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()))
    thread.start()
    try:
        assert up.wait(WAIT_S), "the table did not come up"
        yield folder / "control.sock", act
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(WAIT_S)
        loop.close()
