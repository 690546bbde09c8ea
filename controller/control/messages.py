"""JSON-RPC 2.0, one object a line: what the two sides of the control socket say. Does no I/O and knows no table.

A request may not be part of a batch: one line, one request, one answer. Answers are ASCII, so that no locale, pipe or
terminal changes them.
"""

import json
from typing import Any, NamedTuple, TypeAlias

REQUEST_BYTES_MAX = 16 * 1024  # the longest real one, a void with its reason, has some hundred
ANSWER_BYTES_MAX = 4 * 1024 * 1024  # the longest real one, a recall of 100 rounds, has some hundred thousand

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REFUSED = -32000  # the table says no: `data` has key, values and text
FAILED = -32001  # the table could not: the text says why and what to do

Id: TypeAlias = "str | int | None"


class RpcError(Exception):
    """An answer that is no result. `data` of a REFUSED is {key, values, text}; `id` is the request's, where known."""

    def __init__(self, code: int, text: str, data: dict[str, Any] | None = None, id_: Id = None) -> None:
        super().__init__(text)
        self.code, self.data, self.id = code, data, id_


def refusal(key: str, values: dict[str, str], text: str, id_: Id = None) -> RpcError:
    """The table's own no: the key of its answer, the values, and `text`, that answer in the table's language."""
    return RpcError(REFUSED, text, {"key": key, "values": values, "text": text}, id_)


class Request(NamedTuple):
    """`answered` is false for a notification: it has no id, and nobody waits for what becomes of it."""

    method: str
    params: dict[str, Any]
    id: Id = None
    answered: bool = True


class Reply(NamedTuple):
    id: Id
    result: Any


class Notification(NamedTuple):
    method: str
    params: dict[str, Any]


def dump_request(request: Request) -> bytes:
    own = {"id": request.id} if request.answered else {}
    return _line({"jsonrpc": "2.0", "method": request.method, "params": request.params, **own})


def dump_reply(reply: Reply) -> bytes:
    return _line({"jsonrpc": "2.0", "id": reply.id, "result": reply.result})


def dump_error(error: RpcError) -> bytes:
    told: dict[str, Any] = {"code": error.code, "message": str(error)}
    if error.data is not None:
        told["data"] = error.data
    return _line({"jsonrpc": "2.0", "id": error.id, "error": told})


def dump_notification(notification: Notification) -> bytes:
    return _line({"jsonrpc": "2.0", "method": notification.method, "params": notification.params})


def load_request(line: bytes) -> Request:
    """The request in a line; RpcError, with the request's id where it can be told, when it is none."""
    tree = parse(line)
    if isinstance(tree, list):
        raise RpcError(INVALID_REQUEST, "batches are not taken: write one request a line")
    if not isinstance(tree, dict):
        raise RpcError(INVALID_REQUEST, "a request is a JSON object, as in " + _EXAMPLE)
    id_ = tree.get("id")
    if "id" in tree and type(id_) not in (str, int):
        raise RpcError(INVALID_REQUEST, "the id must be text or a whole number")
    method, params = tree.get("method"), tree.get("params", {})
    if tree.get("jsonrpc") != "2.0" or not isinstance(method, str) or not tree.keys() <= _MEMBERS:
        raise RpcError(INVALID_REQUEST, "this is no request of JSON-RPC 2.0: write it as in " + _EXAMPLE, id_=id_)
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params must be an object with names, as in " + _EXAMPLE, id_=id_)
    return Request(method, params, id_, "id" in tree)


def load_answer(line: bytes) -> Reply | Notification:
    """What the table said in a line; RpcError where it is an error, or no answer at all."""
    tree = parse(line)
    if isinstance(tree, dict) and "result" in tree:
        return Reply(tree.get("id"), tree["result"])
    if isinstance(tree, dict) and isinstance(tree.get("method"), str) and isinstance(tree.get("params"), dict):
        return Notification(tree["method"], tree["params"])
    error = tree.get("error") if isinstance(tree, dict) else None
    if not isinstance(error, dict) or type(error.get("code")) is not int or not isinstance(error.get("message"), str):
        raise RpcError(INTERNAL_ERROR, f"the other side does not speak JSON-RPC 2.0: {line!r:.80}")
    raise RpcError(error["code"], error["message"], error.get("data"), tree.get("id"))


_EXAMPLE = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}'
_MEMBERS = {"jsonrpc", "id", "method", "params"}
_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _line(tree: dict[str, Any]) -> bytes:
    return _encoder.encode(tree).encode("ascii") + b"\n"


def parse(line: bytes) -> Any:  # noqa: ANN401 - whatever JSON holds
    """What the JSON says; RpcError where it is none, or says something twice."""
    try:
        return json.loads(line.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise RpcError(PARSE_ERROR, "this is nested far too deep") from None
    except ValueError as error:
        raise RpcError(PARSE_ERROR, f"this line is no JSON: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which a name stands twice says two things: whom it would void depends on the reader."""
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return tree


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
