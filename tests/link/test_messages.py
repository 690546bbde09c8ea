"""The sensor head's messages against known answers: hand-written bodies, frames of the packages cobs and fastcrc."""

import tomllib
from pathlib import Path
from typing import Any

import fastcrc
import pytest
from cobs import cobs
from hypothesis import given
from hypothesis import strategies as st

from controller.link import frame, messages
from controller.link.frame import CRC16, Frames
from controller.link.messages import BODY_BYTES, FRAME_BYTES, FromHead, Message, MessageError, decode, encode

VECTORS = tomllib.loads((Path(__file__).parents[2] / "firmware" / "protocol" / "vectors.toml").read_text())
KINDS: dict[str, type] = {kind.__name__: kind for kind in messages._LAYOUTS}


def named(name: str) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in VECTORS[name]]


def message(vector: dict[str, Any]) -> Message:
    return KINDS[vector["message"].title().replace("_", "")](**vector["fields"])


@pytest.mark.parametrize("vector", [*named("good"), *named("wrong")])
def test_a_vector_is_framed_by_independent_packages(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["body"])
    check = fastcrc.crc16.ibm_3740(body).to_bytes(2, "little")
    assert cobs.encode(body + check).hex() + "00" == vector["frame"]


@pytest.mark.parametrize("vector", named("good"))
def test_good(vector: dict[str, Any]) -> None:
    body, framed = bytes.fromhex(vector["body"]), bytes.fromhex(vector["frame"])
    assert encode(message(vector)) == body
    assert frame.encode(body, CRC16, FRAME_BYTES) == framed
    assert Frames(CRC16, FRAME_BYTES).feed(framed) == [body]
    read = decode(body)
    assert read == message(vector)
    assert type(read) is type(message(vector))


@pytest.mark.parametrize("vector", named("bad"))
def test_bad_is_no_frame(vector: dict[str, Any]) -> None:
    frames = Frames(CRC16, FRAME_BYTES)
    assert frames.feed(b"\0" + bytes.fromhex(vector["frame"])) == []
    assert frames.errors == {kind: int(kind == vector["error"]) for kind in frame.KINDS}


@pytest.mark.parametrize("vector", named("wrong"))
def test_wrong_is_a_frame_and_no_message_for_its_side(vector: dict[str, Any]) -> None:
    (body,) = Frames(CRC16, FRAME_BYTES).feed(bytes.fromhex(vector["frame"]))
    assert body == bytes.fromhex(vector["body"])
    if vector["to"] == "table" or vector["refusal"] == "LENGTH":
        with pytest.raises(MessageError):
            decode(body)


def test_the_vectors_have_every_message_and_every_kind() -> None:
    assert {vector["message"].title().replace("_", "") for vector in VECTORS["good"]} == set(KINDS)
    events = [message(vector) for vector in VECTORS["good"] if vector["message"] == "EVENT"]
    assert {messages.Kind(event.kind) for event in events if isinstance(event, messages.Event)} == set(messages.Kind)


def test_nothing_is_no_message() -> None:
    with pytest.raises(MessageError, match="nothing"):
        decode(b"")


@pytest.mark.parametrize(
    "over",
    [messages.Ack(1, 1 << 32), messages.Ack(-1, 1), messages.Name(1 << 16, 1), messages.Levels(0, 0, 0, 1024, 0, 0)],
)
def test_a_field_over_its_limit_is_not_sent(over: Message) -> None:
    with pytest.raises(ValueError, match=r"is -?\d+, and at most"):
        encode(over)


@st.composite
def any_message(draw: st.DrawFn) -> Message:
    layout = draw(st.sampled_from(list(messages._LAYOUTS.values())))
    values = []
    for kind, most in zip(layout.types, layout.most, strict=True):
        if issubclass(kind, messages.IntFlag):
            values.append(kind(draw(st.integers(0, sum(kind)))))
        else:
            values.append(draw(st.integers(0, most) if kind is int else st.sampled_from(list(kind))))
    return layout.make(*values)


@given(any_message())
def test_what_is_sent_is_what_is_read(sent: Message) -> None:
    framed = frame.encode(encode(sent), CRC16, FRAME_BYTES)
    assert len(encode(sent)) <= BODY_BYTES
    assert [decode(body) for body in Frames(CRC16, FRAME_BYTES).feed(framed)] == [sent]


@given(st.binary(max_size=BODY_BYTES))
def test_any_body_is_a_message_or_an_error(body: bytes) -> None:
    try:
        read = decode(body)
    except MessageError:
        return
    assert encode(read) == body


def test_the_sides_share_no_message() -> None:
    low = {layout.make for layout in messages._LAYOUTS.values() if layout.number < 0x80}
    assert low == set(FromHead.__args__)
