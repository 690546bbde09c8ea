"""What an integrator's consumer checks, written from docs and schemas alone: order, gaps, chain, signatures.

It applies the feed's promise: at least once, in one order. A repeat must be the same bytes; anything else is a fault.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tests import schemas


class Consumer:
    """`messages` are those accepted, parsed, in order; `repeats` counts what was dropped as seen before."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.repeats = 0
        self._key = ""

    def take(self, payloads: Iterable[bytes]) -> "Consumer":
        for payload in payloads:
            self._take(payload)
        return self

    def _take(self, payload: bytes) -> None:
        message = json.loads(payload)
        seqno = message["seqno"]
        if seqno <= len(self.raw):
            assert self.raw[seqno - 1] == payload, f"message {seqno} came again with other bytes"
            self.repeats += 1
            return
        assert seqno == len(self.raw) + 1, f"message {len(self.raw) + 1} is missing: {seqno} came"
        before = sha256(self.raw[-1]).hexdigest() if self.raw else "0" * 64
        assert message["prevhash"] == before, f"message {seqno} does not follow the one before"
        schemas.validate(payload)
        if message["type"] == "baccarat.journal.opened.v1":
            self._key = message["data"]["publickey"]
        _verify(self._key, payload)
        self.messages.append(message)
        self.raw.append(payload)

    @property
    def receipt(self) -> bytes:
        """The casino server's receipt for all of them, as it is published on `…/ack`."""
        newest, digest = self.messages[-1], sha256(self.raw[-1]).hexdigest()
        told = {"generation": newest["generation"], "seqno": newest["seqno"], "hash": digest}
        receipt = json.dumps(told, separators=(",", ":")).encode()
        schemas.validate_as("receipt", receipt)
        return receipt

    def data(self, kind: str) -> list[dict[str, Any]]:
        """The data of every message of a type, `round.completed` for `baccarat.round.completed.v1`."""
        return [message["data"] for message in self.messages if message["type"] == f"baccarat.{kind}.v1"]


def _verify(public: str, payload: bytes) -> None:
    """InvalidSignature, or an AssertionError: these are not the bytes that the key's holder signed."""
    signature = urlsafe_b64decode(payload[-88:-2] + b"==")
    assert payload[-102:] == b',"signature":"' + urlsafe_b64encode(signature)[:-2] + b'"}', "one spelling only"
    Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(public + "=")).verify(signature, payload[:-102] + b"}")
