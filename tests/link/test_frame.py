"""Frames on a serial line: published vectors, and noise that may cost frames and never changes one (bug report 38)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.link.frame import CRC16, CRC32, Check, FrameError, Frames, decode, encode, room, stuff, unstuff


def span(first: int, last: int) -> str:
    return bytes(range(first, last + 1)).hex()


# The examples of Wikipedia's article on COBS, hex, without the zero at the end; the last five are runs of 254.
COBS = [
    ("00", "0101"),
    ("0000", "010101"),
    ("001100", "01021101"),
    ("11220033", "0311220233"),
    ("11223344", "0511223344"),
    ("11000000", "0211010101"),
    (span(0x01, 0xFE), "ff" + span(0x01, 0xFE)),
    (span(0x00, 0xFE), "01ff" + span(0x01, 0xFE)),
    (span(0x01, 0xFF), "ff" + span(0x01, 0xFE) + "02ff"),
    (span(0x02, 0xFF) + "00", "ff" + span(0x02, 0xFF) + "0101"),
    (span(0x03, 0xFF) + "0001", "fe" + span(0x03, 0xFF) + "0201"),
]


@pytest.mark.parametrize(("data", "stuffed"), COBS)
def test_stuffing_is_that_of_the_paper(data: str, stuffed: str) -> None:
    assert stuff(bytes.fromhex(data)).hex() == stuffed
    assert unstuff(bytes.fromhex(stuffed)).hex() == data


CHECKS = [  # the catalogue's check values (reveng, CRC-16/IBM-3740 and CRC-32/ISO-HDLC), and of no bytes at all
    (CRC16, b"123456789", 0x29B1),
    (CRC16, b"", 0xFFFF),
    (CRC32, b"123456789", 0xCBF43926),
    (CRC32, b"", 0),
]


@pytest.mark.parametrize(("check", "data", "value"), CHECKS)
def test_the_checks_are_those_of_the_catalogue(check: Check, data: bytes, value: int) -> None:
    assert check.of(data) == value


@pytest.mark.parametrize(
    ("check", "frame"),
    [(CRC16, "0c313233343536373839b12900"), (CRC32, "0e3132333435363738392639f4cb00")],
    ids=["head", "casino"],
)
def test_a_whole_frame(check: Check, frame: str) -> None:
    assert encode(b"123456789", check, 64).hex() == frame
    assert Frames(check, 64).feed(bytes.fromhex(frame)) == [b"123456789"]


BAD = {
    "a block past the end": ("05112233", "stuffing"),
    "a code byte alone": ("02", "stuffing"),
    "a zero inside": ("0311002233", "stuffing"),
    "a check and no body": ("03ffff", "short"),
    "half a check": ("02ff", "short"),
    "no bytes": ("01", "short"),
    "another check": ("0c313233343536373839b128", "check"),
    "the check's bytes the other way round": ("0c31323334353637383929b1", "check"),
    "a changed byte": ("0c313233343536373838b129", "check"),
}


@pytest.mark.parametrize(("stuffed", "kind"), BAD.values(), ids=BAD)
def test_what_is_no_frame(stuffed: str, kind: str) -> None:
    with pytest.raises(FrameError, match=f"^{kind}$"):
        decode(bytes.fromhex(stuffed), CRC16)


A, B = encode(b"A", CRC16, 16), encode(b"B", CRC16, 16)

# A stream in chunks; the bodies that come out; the errors.
STREAMS: dict[str, tuple[list[bytes], list[bytes], dict[str, int]]] = {
    "two in one chunk": ([A + B], [b"A", b"B"], {}),
    "one in pieces": ([A[:2], A[2:3], b"", A[3:]], [b"A"], {}),
    "zeros between are nothing": ([b"\0\0" + A + b"\0\0", b"\0" + B], [b"A", b"B"], {}),
    "opened in the middle of one": ([A[2:] + B], [b"B"], {}),
    "opened in the middle of a long one": ([b"x" * 99, b"\0" + B], [b"B"], {}),
    "opened at a whole one": ([A + b"\x05\0"], [b"A"], {"stuffing": 1}),
    "only the first broken one is free": ([A[2:] + A[2:] + B], [b"B"], {"stuffing": 1}),
    "a byte lost": ([A + A[1:] + B], [b"A", b"B"], {"stuffing": 1}),
    "the zero between two lost": ([b"\0" + A[:-1] + B + A], [b"A"], {"check": 1}),
    "16 bytes fit, the zero counted": ([b"\0" + encode(b"x" * 12, CRC16, 16)], [b"x" * 12], {}),
    "17 do not": ([b"\0" + encode(b"x" * 13, CRC16, 17) + A], [b"A"], {"overlong": 1}),
    "nor in pieces": ([b"\0", b"x" * 15, b"x", b"x" * 40, b"\0" + A], [b"A"], {"overlong": 1}),
    "too short for a check": ([A + b"\x02\xff\0" + B], [b"A", b"B"], {"short": 1}),
}


@pytest.mark.parametrize(("chunks", "bodies", "errors"), STREAMS.values(), ids=STREAMS)
def test_stream(chunks: list[bytes], bodies: list[bytes], errors: dict[str, int]) -> None:
    frames = Frames(CRC16, 16)
    assert [body for chunk in chunks for body in frames.feed(chunk)] == bodies
    assert {kind: count for kind, count in frames.errors.items() if count} == errors
    assert frames.good == len(bodies)


def test_after_a_restart_the_first_broken_one_is_free_again() -> None:
    frames = Frames(CRC16, 16)
    assert frames.feed(A + A[:2]) == [b"A"]
    frames.restart()
    assert frames.feed(A[2:] + B) == [b"B"]
    assert frames.errors == {"stuffing": 0, "short": 0, "check": 0, "overlong": 0}


@pytest.mark.parametrize("check", [CRC16, CRC32])
@pytest.mark.parametrize("limit", [16, 64, 255, 256, 257, 510, 511, 512, 8192])
def test_every_body_that_has_room_fits(check: Check, limit: int) -> None:
    longest = room(limit, check)
    for fill in (b"x", b"\0", b"x" * 253 + b"\0", b"x" * 254 + b"\0"):
        body = (fill * limit)[:longest]
        assert len(encode(body, check, limit)) <= limit
        assert Frames(check, limit).feed(encode(body, check, limit)) == [body]
    for body in (b"", b"x" * (longest + 1)):
        with pytest.raises(ValueError, match=f"is not 1 to {longest}"):
            encode(body, check, limit)
    fullest = len(stuff(b"x" * (longest + check.size))) + 1
    assert fullest <= limit < fullest + 2, "no more than a code byte is left over"


BODIES = st.binary(min_size=1, max_size=600) | st.lists(st.sampled_from([0, 1, 255]), min_size=1, max_size=600).map(
    bytes
)


@given(data=st.binary(max_size=1100), zeros=st.lists(st.integers(0, 1099)))
def test_stuffing_comes_back_without_a_zero(data: bytes, zeros: list[int]) -> None:
    data = bytes(0 if at in zeros else byte or 7 for at, byte in enumerate(data))
    stuffed = stuff(data)
    assert 0 not in stuffed and unstuff(stuffed) == data
    assert len(stuffed) <= len(data) + max(1, -(-len(data) // 254))


@given(bodies=st.lists(BODIES, max_size=6), cuts=st.lists(st.integers(1, 40), min_size=1))
def test_every_cut_gives_the_same_bodies(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(encode(body, CRC32, 1024) for body in bodies)
    frames, out, at = Frames(CRC32, 1024), [], 0
    for number in range(len(stream)):
        step = cuts[number % len(cuts)]
        out += frames.feed(stream[at : at + step])
        at += step
    assert out == bodies and not any(frames.errors.values())


@given(
    bodies=st.lists(BODIES, min_size=3, max_size=8),
    hits=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(["flip", "drop", "add"]), st.integers(1, 255)), max_size=4
    ),
)
def test_noise_costs_the_frames_that_it_touches_and_the_next_one(
    bodies: list[bytes], hits: list[tuple[float, str, int]]
) -> None:
    """A hit costs the frame it falls into; where it falls on the zero between two, both. Nothing comes out changed."""
    parts = [bytearray(encode(body, CRC32, 1024)) for body in bodies]
    hurt: set[int] = set()
    for where, what, value in hits:
        number = int(where * (len(parts) - 1))
        part = parts[number]
        at = int(where * 7919) % max(1, len(part))
        hurt |= {number, number + 1}
        if what == "flip" and part:
            part[at] ^= value
        elif what == "drop" and part:
            del part[at]
        else:
            part.insert(at, value)
    frames = Frames(CRC32, 1024)
    frames.feed(b"\0")
    out = frames.feed(b"".join(parts) + b"\0")
    left = iter(bodies)
    assert all(body in left for body in out), "what comes out was sent, in that order"
    whole = [body for number, body in enumerate(bodies) if number not in hurt]
    assert len(out) >= len(whole)
    rest = iter(out)
    assert all(body in rest for body in whole)


@given(st.lists(st.binary(max_size=200), max_size=30))
def test_noise_is_never_an_exception_and_never_kept(chunks: list[bytes]) -> None:
    frames = Frames(CRC16, 32)
    for chunk in chunks:
        for body in frames.feed(chunk):
            assert 0 < len(body) <= room(32, CRC16) + 2
        assert len(frames._held) < 32
