"""The casino's end of a serial line as a program: the reference for who writes their own (docs/serial-link.md).

One thread, no loop: it waits for the port, reads, answers, and hands out each message once. It judges none of them.
"""

import json
import logging
import select
import time
from collections.abc import Iterator

from .feed import message_hash
from .link.frame import CRC32, Frames
from .link.wire import LIMIT, SECOND, WireError
from .link.wire_casino import Arrived, CasinoEnd
from .tty import LOST, TROUBLE, Tty, advise

RETRY_S = 1.0
PIECE_S = 0.5  # waiting is never longer in one piece

log = logging.getLogger(__name__)


class Listener:
    """`port` at `baud`; a port that is lost is opened again when it is back."""

    def __init__(self, port: str, baud: int) -> None:
        self._port, self._baud = port, baud
        self._kept: dict[str, tuple[int, str]] = {}  # table/generation -> number and hash of the newest that is kept
        self._end = CasinoEnd(lambda name: self._kept[name][0] + 1 if name in self._kept else 0)
        self._frames = Frames(CRC32, LIMIT)
        self._name, self._told = "", ""

    def has(self, name: str, number: int, digest: str) -> None:
        """The messages of `table/generation` are kept up to that number, whose hash is `digest`.

        The table is asked for the next one, and given the receipt of this one: an earlier one may never have arrived.
        """
        self._kept[name] = number, digest

    def messages(self) -> Iterator[bytes]:
        """Each message's exact bytes, once and in order, without end.

        Its receipt goes out when the next one is asked for: keep it before.
        """
        while True:
            try:
                tty = Tty(self._port, self._baud)
            except TROUBLE as error:
                self._lost(error)
            else:
                try:
                    yield from self._listen(tty)
                except LOST as error:
                    self._lost(error)
                finally:
                    tty.close()
            time.sleep(RETRY_S)

    def _lost(self, error: Exception) -> None:
        why = advise(error, check="the cable to the table", key="the line")
        if why != self._told:
            log.warning("%s %s", self._port, why)
        self._told = why

    def _listen(self, tty: Tty) -> Iterator[bytes]:
        self._frames.restart()
        self._told = ""
        out = b"\0"  # ends what a program before this one may have left unended
        while True:
            out = self._write(tty, out)
            wait = (self._end.due(time.monotonic_ns()) - time.monotonic_ns()) / SECOND
            ready, _, _ = select.select([tty.fd], [tty.fd] if out else [], [], min(PIECE_S, max(0.0, wait)))
            for body in self._frames.feed(tty.read()) if ready else ():
                yield from self._hear(body)
                out = self._write(tty, out)

    def _write(self, tty: Tty, out: bytes) -> bytes:
        """What the port would not take."""
        while out := out or self._end.next(time.monotonic_ns()) or b"":
            written = tty.write(out)
            out = out[written:]
            if not written:
                break
        return out

    def _hear(self, body: bytes) -> Iterator[bytes]:
        try:
            arrived = self._end.hear(body, time.monotonic_ns())
        except WireError as error:
            log.warning("%s: %s", self._port, error)
            return
        if self._end.name != self._name:
            self._name = self._end.name
            log.info("%s: %s", self._port, self._name)
            self._give_receipt(self._name)
        if isinstance(arrived, Arrived) and not arrived.again:
            yield arrived.data
            self.has(arrived.name, arrived.number, message_hash(arrived.data))
            self._give_receipt(arrived.name)

    def _give_receipt(self, name: str) -> None:
        if name in self._kept:
            number, digest = self._kept[name]
            receipt = {"generation": name.partition("/")[2], "seqno": number, "hash": digest}
            self._end.receipt(number, json.dumps(receipt, separators=(",", ":")).encode())
