"""Lines of the control socket: what is a request, what is none, and what each answer looks like."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.control.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Notification,
    Reply,
    Request,
    RpcError,
    dump_error,
    dump_notification,
    dump_reply,
    dump_request,
    load_answer,
    load_request,
)

NO_REQUEST = [  # line, code, id
    (b"", PARSE_ERROR, None),
    (b"\n", PARSE_ERROR, None),
    (b"hello\n", PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"pi\n', PARSE_ERROR, None),
    (b"\xff\xfe\x00", PARSE_ERROR, None),
    (b'{\x00"\x00i\x00', PARSE_ERROR, None),
    (b"[" * 10_000, PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":NaN}}', PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"shoe.end"}', PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"recall","params":{"n":1,"n":2}}', PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":' + b"9" * 9999 + b',"method":"ping"}', PARSE_ERROR, None),
    (b"[]", INVALID_REQUEST, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST, None),
    (b"7", INVALID_REQUEST, None),
    (b"null", INVALID_REQUEST, None),
    (b'"ping"', INVALID_REQUEST, None),
    (b"{}", INVALID_REQUEST, None),
    (b'{"id":3,"method":"ping"}', INVALID_REQUEST, 3),
    (b'{"jsonrpc":"1.0","id":3,"method":"ping"}', INVALID_REQUEST, 3),
    (b'{"jsonrpc":2.0,"id":3,"method":"ping"}', INVALID_REQUEST, 3),
    (b'{"jsonrpc":"2.0","id":"a"}', INVALID_REQUEST, "a"),
    (b'{"jsonrpc":"2.0","id":3,"method":7}', INVALID_REQUEST, 3),
    (b'{"jsonrpc":"2.0","id":3,"method":"ping","param":{}}', INVALID_REQUEST, 3),
    (b'{"jsonrpc":"2.0","id":3,"method":"ping","result":{}}', INVALID_REQUEST, 3),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":3,"method":"ping","params":[1]}', INVALID_PARAMS, 3),
    (b'{"jsonrpc":"2.0","id":3,"method":"ping","params":"n"}', INVALID_PARAMS, 3),
    (b'{"jsonrpc":"2.0","id":3,"method":"ping","params":null}', INVALID_PARAMS, 3),
]


@pytest.mark.parametrize(("line", "code", "id_"), NO_REQUEST)
def test_what_is_no_request_is_told_why(line: bytes, code: int, id_: object) -> None:
    with pytest.raises(RpcError) as caught:
        load_request(line)
    assert (caught.value.code, caught.value.id) == (code, id_)
    assert str(caught.value)


REQUESTS = [
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', Request("ping", {}, 1)),
    (b'{"method":"ping","params":{},"id":"x","jsonrpc":"2.0"}\r\n', Request("ping", {}, "x")),
    (b'{"jsonrpc":"2.0","method":"ping"}', Request("ping", {}, None, answered=False)),
    ('{"jsonrpc":"2.0","id":0,"method":"m","params":{"a":"Señal ♠"}}'.encode(), Request("m", {"a": "Señal ♠"}, 0)),
]


@pytest.mark.parametrize(("line", "request_"), REQUESTS)
def test_a_request_is_read_and_written(line: bytes, request_: Request) -> None:
    assert load_request(line) == request_
    assert load_request(dump_request(request_)) == request_


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_an_rpc_error(line: bytes) -> None:
    for load in (load_request, load_answer):
        with suppress(RpcError):
            load(line)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=8), PLAIN, max_size=4), st.integers() | st.text(max_size=9))
def test_every_message_is_one_line_of_ascii_and_comes_back(params: dict[str, Any], id_: int | str) -> None:
    if isinstance(id_, int):
        id_ %= 2**60
    pairs = [
        (dump_request(Request("m", params, id_)), load_request, Request("m", params, id_)),
        (dump_reply(Reply(id_, params)), load_answer, Reply(id_, params)),
        (dump_notification(Notification("m", params)), load_answer, Notification("m", params)),
    ]
    for line, load, message in pairs:
        assert line.isascii() and line.endswith(b"\n") and line.count(b"\n") == 1
        assert load(line) == message


def test_an_error_comes_back_with_its_data() -> None:
    with pytest.raises(RpcError) as caught:
        load_answer(dump_error(RpcError(-32000, "no", {"key": "held"}, "a")))
    assert (caught.value.code, str(caught.value), caught.value.data, caught.value.id) == (
        -32000,
        "no",
        {"key": "held"},
        "a",
    )


@pytest.mark.parametrize(
    "line", [b"7", b"{}", b'{"error":{}}', b'{"error":{"code":"x","message":"y"}}', b'{"error":7}']
)
def test_what_is_no_answer_is_an_error_of_the_other_side(line: bytes) -> None:
    with pytest.raises(RpcError, match="does not speak"):
        load_answer(line)
