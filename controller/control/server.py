"""The table's side of the control socket: who may write to the file may ask. Decides nothing: acts become events.

JSON-RPC 2.0, an object a line (`messages`). Every line is answered in its turn; no line, client or flood of them can
stop the table. A client that does not read what it asked for is hung up on.
"""

import asyncio
import json
import logging
import os
import socket
import stat
import struct
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from controller.core.conditions import Refused
from controller.core.records import RecordError
from controller.core.state import State
from controller.core.view import View
from controller.panel import Words
from controller.ports import JournalError, Outbox, Submit

from . import acts
from .audit import Verdict
from .levels import levels
from .messages import (
    FAILED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_BYTES_MAX,
    Notification,
    Reply,
    Request,
    RpcError,
    dump_error,
    dump_notification,
    dump_reply,
    load_request,
    refusal,
)

log = logging.getLogger(__name__)

CLIENTS_MAX = 32
BEHIND_BYTES_MAX = 256 * 1024  # what a monitor may have unread: some hundred rounds
MODE = 0o660  # the owner and the group; nobody else has a say at a table
READ_MESSAGES = 256  # messages taken from the outbox at a time

T = TypeVar("T")


class ControlError(Exception):
    """The socket cannot be made. The text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the socket may see and do of a table. `state` and `view` are those of the last durable batch.

    `now`: monotonic ns. `watch` takes what is called after every durable batch. `backlog`: messages not yet receipted,
    by publisher. `recall` and `verify` read the journal through a connection of their own and may take long.
    `diag` tells of a part by its name and, where one is named, begins an act of it; Refused says why not.
    """

    table: str
    mode: str
    version: str
    public_key: str
    words: Words
    outbox: Outbox
    submit: Submit
    now: Callable[[], int]
    state: Callable[[], State]
    view: Callable[[], View]
    backlog: Callable[[], dict[str, int]]
    watch: Callable[[Callable[[object], None]], None]
    recall: Callable[[int], list[dict[str, Any]]]
    resend: Callable[[int, str | None], dict[str, Any]]
    verify: Callable[[], Verdict]
    diag: Callable[[str, str], dict[str, Any]]


class _Peer(NamedTuple):
    """Who is at the other end, as the kernel tells it (unix(7), SO_PEERCRED)."""

    pid: int
    uid: int
    gid: int


class ControlServer:
    """Serves `path` from `run` on; `open` makes the socket sooner, where somebody must know that it is there.

    `unread_s`: how long an answer may lie unread.
    """

    def __init__(self, path: Path, desk: Desk, *, unread_s: float = 30.0) -> None:
        self._path, self._desk, self._unread_s = path, desk, unread_s
        self._socket: socket.socket | None = None
        self._inode = 0
        self._clients: set[asyncio.Task[None]] = set()
        self._monitors: dict[asyncio.StreamWriter, _Peer] = {}
        self._over = False
        self._told = 0  # seqno of the last message that the monitors know
        self._verifying = asyncio.Lock()
        self._methods: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
            "ping": self._ping,
            "status": self._status,
            "recall": self._recall,
            "journal.verify": self._verify,
            "diag": self._diag,
            "casino.resend": self._resend,
        }

    def open(self) -> None:
        """Makes the socket; ControlError where it cannot be made, or another table answers there."""
        if self._socket is None:
            self._socket = _listening(self._path)
            self._inode = self._path.stat().st_ino

    def close(self) -> None:
        """Takes the socket away, unless somebody else's is there by now."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            with suppress(FileNotFoundError):
                if self._path.stat().st_ino == self._inode:
                    self._path.unlink()

    async def run(self) -> None:
        """Serves until cancelled; then hangs up and takes the socket away."""
        self.open()
        assert self._socket is not None
        server = await asyncio.start_unix_server(self._accept, sock=self._socket, limit=REQUEST_BYTES_MAX)
        self._told = self._desk.state().seqno
        self._desk.watch(self._tell)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._over = True
            server.close()
            for task in self._clients:
                task.cancel()
            await asyncio.gather(*self._clients)
            self.close()

    # --- a client ---------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        peer = _peer(writer)
        log.debug("control: uid %d, pid %d is here", peer.uid, peer.pid)
        self._clients.add(task)
        try:
            if self._over:
                return
            if len(self._clients) > CLIENTS_MAX:
                writer.write(dump_error(RpcError(FAILED, f"{CLIENTS_MAX} others are connected: hang up one of them")))
                return
            await self._converse(reader, writer, peer)
        except ConnectionError as error:
            log.debug("control: uid %d, pid %d: %s", peer.uid, peer.pid, error)
        except asyncio.CancelledError:
            if not self._over:
                raise  # at the end of `run` it goes no further: asyncio 3.11 would report it as an error of ours
        finally:
            self._clients.discard(task)
            self._monitors.pop(writer, None)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: _Peer) -> None:
        """One line, one answer. Half a line at the end is nobody's request."""
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                text = f"a request has at most {REQUEST_BYTES_MAX} bytes"
                writer.write(dump_error(RpcError(INVALID_REQUEST, text)))
                return
            if answer := await self._answer(line, writer, peer):
                writer.write(answer)
            try:
                async with asyncio.timeout(self._unread_s):
                    await writer.drain()
            except TimeoutError:
                log.warning("control: uid %d, pid %d does not read its answers: hung up", peer.uid, peer.pid)
                writer.transport.abort()
                return
            await asyncio.sleep(0)  # neither of the above yields while lines wait: the table has its turn between them

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter, peer: _Peer) -> bytes:
        """The answer to a line; empty where none is wanted."""
        request = Request("", {}, None)
        try:
            request = load_request(line)
            result = await self._result(request, writer, peer)
            answer = dump_reply(Reply(request.id, result))
        except RpcError as error:
            error.id = request.id if request.method else error.id
            answer = dump_error(error)
        except Refused as no:
            answer = dump_error(self._refusal(request, no.key, no.values))
        except (JournalError, RecordError) as error:
            answer = dump_error(RpcError(FAILED, str(error), id_=request.id))
        except Exception:  # a fault of this socket's is told and logged, and is none of the table's
            log.exception("control: %s failed", request.method)
            answer = dump_error(RpcError(INTERNAL_ERROR, "this is a fault of the program: see its log", id_=request.id))
        return answer if request.answered else b""

    async def _result(self, request: Request, writer: asyncio.StreamWriter, peer: _Peer) -> Any:  # noqa: ANN401 - JSON
        if request.method in acts.ACTS:
            return await self._act(request, peer)
        if request.method == "monitor":
            acts.read(request.params, (), ())
            self._monitors[writer] = peer
            return self._whole()
        if request.method not in self._methods:
            known = ", ".join(sorted((*self._methods, "monitor", *acts.ACTS)))
            raise RpcError(METHOD_NOT_FOUND, f"unknown method {request.method!r:.60}: known are {known}")
        return await self._methods[request.method](request.params)

    # --- methods ----------------------------------------------------------------------------------------

    async def _act(self, request: Request, peer: _Peer) -> dict[str, Any]:
        """What a button does. Answered when it is durable, with what the table shows from then on."""
        method, desk = request.method, self._desk
        act = acts.ACTS[method]
        read = acts.read(request.params, act.needs, (*act.takes, *acts.COMMON))
        who, why = ",".join(read.get("by", ())) or "-", read.get("reason", "-")
        log.info("control: %s by %s (%s), uid %d, pid %d", method, who, why, peer.uid, peer.pid)
        if desk.state().phase not in act.phases:
            raise Refused("not_now")
        outcome = await desk.submit(acts.event(method, read, desk.now()))
        if outcome.refused is not None:
            raise self._refusal(request, *outcome.refused)
        return {"repeated": outcome.repeated, **self._levels()}

    def _refusal(self, request: Request, key: str, values: dict[str, str]) -> RpcError:
        return refusal(key, values, self._desk.words.refused(key, values), request.id)

    async def _ping(self, params: dict[str, Any]) -> dict[str, Any]:
        acts.read(params, (), ())
        return {"table": self._desk.table, "version": self._desk.version}

    async def _status(self, params: dict[str, Any]) -> dict[str, Any]:
        acts.read(params, (), ())
        return self._whole()

    async def _recall(self, params: dict[str, Any]) -> dict[str, Any]:
        count = acts.read(params, (), ("n",)).get("n", 10)
        return {"recall": True, "rounds": await _aside(lambda: self._desk.recall(count))}

    async def _verify(self, params: dict[str, Any]) -> dict[str, Any]:
        """One at a time: it reads the whole journal."""
        acts.read(params, (), ())
        async with self._verifying:
            verdict = await _aside(self._desk.verify)
        return {"ok": verdict.fault is None, **verdict._asdict()}

    async def _diag(self, params: dict[str, Any]) -> dict[str, Any]:
        read = acts.read(params, ("part",), ("act",))
        part, act = read["part"], read.get("act", "")
        told = self._desk.diag(part, act)
        if act:
            log.info("control: %s of %s begins", act, part)
        return told

    async def _resend(self, params: dict[str, Any]) -> dict[str, Any]:
        read = acts.read(params, ("from",), ("publisher",))
        told = self._desk.resend(read["from"], read.get("publisher"))
        log.info("control: %s sends messages %d to %d again", told["publisher"], told["from"], told["to"])
        return told

    def _levels(self) -> dict[str, Any]:
        desk = self._desk
        return levels(desk.state(), desk.view(), desk.words, desk.table, desk.now())

    def _whole(self) -> dict[str, Any]:
        desk = self._desk
        own = {"table": desk.table, "version": desk.version, "mode": desk.mode, "generation": desk.outbox.generation}
        return {**self._levels(), **own, "public_key": desk.public_key, "backlog": desk.backlog()}

    # --- monitors ---------------------------------------------------------------------------------------

    def _tell(self, _durable: object) -> None:
        """After every durable batch: what the table shows, and the messages that came with it, as the feed has them."""
        before, self._told = self._told, self._desk.state().seqno
        if not self._monitors:
            return
        try:
            line = dump_notification(Notification("monitor", {**self._levels(), "facts": self._facts(before)}))
        except Exception:  # as in `_answer`: the table that calls us here goes on
            log.exception("control: the monitors cannot be told what happened: hung up")
            self._hang_up(*self._monitors)
            return
        for writer, peer in list(self._monitors.items()):
            if writer.transport.get_write_buffer_size() + len(line) > BEHIND_BYTES_MAX:
                log.warning("control: the monitor of uid %d, pid %d does not keep up: hung up", peer.uid, peer.pid)
                self._hang_up(writer)
            else:
                writer.write(line)

    def _hang_up(self, *writers: asyncio.StreamWriter) -> None:
        for writer in writers:
            del self._monitors[writer]
            writer.transport.abort()

    def _facts(self, after: int) -> list[dict[str, Any]]:
        facts: list[dict[str, Any]] = []
        while messages := self._desk.outbox.read(after, READ_MESSAGES):
            for message in messages:
                told = json.loads(message.data)
                facts.append({name: told[name] for name in ("seqno", "time", "type", "mode", "data")})
            after = messages[-1].seqno
        return facts


# --- helpers ------------------------------------------------------------------------------------------------


def _listening(path: Path) -> socket.socket:
    """A socket bound to `path`, for its owner and group from the first moment on."""
    _clear(path)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.setblocking(False)  # noqa: FBT003 - its name says it
        os.fchmod(line.fileno(), MODE & 0o600)  # else it would be made for all whom the umask lets in (unix(7))
        line.bind(str(path))
        path.chmod(MODE)
        line.listen()
    except OSError as error:
        line.close()
        raise ControlError(
            f"{path}: the control socket cannot be made: {error.strerror or error}. Its folder must exist and belong "
            "to the user that runs the table; the path is control.socket of the configuration"
        ) from error
    return line


def _clear(path: Path) -> None:
    """Takes away a socket that a program which was killed has left; ControlError where something else is there."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ControlError(f"{path} is no socket: move it away, or give control.socket another path")
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
            probe.settimeout(1.0)
            probe.connect(str(path))
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
        return
    except OSError as error:
        raise ControlError(f"{path}: it cannot be told whether a table answers there: {error.strerror}") from error
    raise ControlError(f"{path}: another table answers there: stop it, or give control.socket another path")


def _peer(writer: asyncio.StreamWriter) -> _Peer:
    line = writer.get_extra_info("socket")
    size = struct.calcsize("3i")
    return _Peer(*struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)))


async def _aside(work: Callable[[], T]) -> T:
    """What takes long, in a thread of its own, for which a table that stops does not wait."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(end: Callable[[], None]) -> None:
        if not done.done():
            end()

    def run() -> None:
        try:
            end = partial(done.set_result, work())
        except Exception as error:  # noqa: BLE001 - it is raised where it is awaited
            end = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            loop.call_soon_threadsafe(settle, end)

    threading.Thread(target=run, name="control", daemon=True).start()
    return await done
