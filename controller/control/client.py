"""The caller's side of the control socket: blocking, one question at a time. Never tries anything twice by itself."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from typing import Any, BinaryIO

from .messages import ANSWER_BYTES_MAX, INVALID_PARAMS, REFUSED, Notification, Request, RpcError, dump_request
from .messages import load_answer as _load

__all__ = ["ANSWER_S", "INVALID_PARAMS", "REFUSED", "Client", "RpcError", "UnreachableError", "connect"]

ANSWER_S = 10.0  # a table answers in milliseconds; one whose disk fails answers when it works again


class UnreachableError(Exception):
    """No table answers at that socket. The text says what to do."""


@contextmanager
def connect(path: str, timeout_s: float = ANSWER_S) -> Iterator["Client"]:
    """A conversation with the table whose socket is `path`; no answer may take longer than `timeout_s` seconds."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as line:
        line.settimeout(timeout_s)
        try:
            line.connect(path)
        except PermissionError:
            raise UnreachableError(f"you may not use {path}: become a member of its group, or use sudo") from None
        except OSError as error:
            raise UnreachableError(
                f"no table answers at {path} ({error.strerror or error}): "
                "start tabled, or name its socket with --socket"
            ) from None
        with line.makefile("rb") as answers:
            yield Client(line, answers, path)


class Client:
    """Made by `connect`. RpcError is the table's own no.

    UnreachableError means that it is not known whether what was asked is done: with the same `id_key` it may be asked
    again, and is done once.
    """

    def __init__(self, line: socket.socket, answers: BinaryIO, path: str) -> None:
        self._line, self._answers, self._path = line, answers, path
        self._ids = count(1)

    def call(self, method: str, **params: Any) -> Any:  # noqa: ANN401 - what JSON holds
        """The result of a method. Notifications that come before it are of no use here and are passed over."""
        id_ = next(self._ids)
        try:
            self._line.sendall(dump_request(Request(method, params, id_)))
        except OSError as error:
            raise self._gone(error.strerror or str(error)) from None
        while True:
            answer = _load(self._read())
            if not isinstance(answer, Notification) and answer.id == id_:
                return answer.result

    def notifications(self) -> Iterator[dict[str, Any]]:
        """The params of every notification to come, however long it takes; ends with UnreachableError."""
        self._line.settimeout(None)
        while True:
            answer = _load(self._read())
            if isinstance(answer, Notification):
                yield answer.params

    def patient(self) -> "Client":
        """Itself; from here on an answer may take as long as it takes."""
        self._line.settimeout(None)
        return self

    def _read(self) -> bytes:
        try:
            line = self._answers.readline(ANSWER_BYTES_MAX + 1)
        except TimeoutError:
            raise self._gone("no answer in time: look at the panel, its disk may be failing") from None
        except OSError as error:
            raise self._gone(error.strerror or str(error)) from None
        if not line.endswith(b"\n"):
            raise self._gone("an answer without an end" if line else "it hung up")
        return line

    def _gone(self, why: str) -> UnreachableError:
        return UnreachableError(f"the table at {self._path} went away in mid-sentence ({why}): ask tablectl status")
