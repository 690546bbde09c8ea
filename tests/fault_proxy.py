"""A TCP proxy that knows MQTT 5 packets, in front of a real broker on the loopback: it shows and spoils what passes.

    async with FaultProxy(broker.port) as proxy:
        proxy.rule = lambda packet: None if packet.kind is Kind.PUBACK else packet.raw    # drop every PUBACK
        ...
        proxy.cut()

`log` holds every whole packet of both directions in the order of arrival, dropped or not.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

HOST = "127.0.0.1"
LET_IN_TURNS = 8  # of the loop: who was let in a moment ago has its task then, and is cut with the others


class Kind(IntEnum):
    """Control packet types, MQTT 5 2.1.2."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet: the connection's number (from 1), whether the client sent it, its bytes."""

    connection: int
    from_client: bool
    raw: bytes

    @property
    def kind(self) -> Kind:
        return Kind(self.raw[0] >> 4)

    @property
    def body(self) -> bytes:
        """What follows the fixed header."""
        return self.raw[1 + _varint(self.raw, 1)[1] :]

    @property
    def topic(self) -> str:
        """A PUBLISH's topic."""
        assert self.kind is Kind.PUBLISH
        (length,) = struct.unpack_from("!H", self.body)
        return self.body[2 : 2 + length].decode()

    @property
    def mid(self) -> int:
        """The packet id of a PUBLISH of QoS 1 or 2, or of a PUBACK."""
        at = 2 + len(self.topic.encode()) if self.kind is Kind.PUBLISH else 0
        mid: int = struct.unpack_from("!H", self.body, at)[0]
        return mid

    @property
    def payload(self) -> bytes:
        """A PUBLISH's payload."""
        at = 2 + len(self.topic.encode()) + (2 if self.raw[0] & 0x06 else 0)
        length, size = _varint(self.body, at)
        return self.body[at + size + length :]

    @property
    def retain(self) -> bool:
        return bool(self.raw[0] & 0x01)

    @property
    def dup(self) -> bool:
        return bool(self.raw[0] & 0x08)

    @property
    def reason(self) -> int:
        """The reason code of a CONNACK, PUBACK or DISCONNECT; 0 where it is left out (MQTT 5, 3.4.2.1)."""
        at = {Kind.CONNACK: 1, Kind.PUBACK: 2, Kind.DISCONNECT: 0}[self.kind]
        return self.body[at] if len(self.body) > at else 0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A variable byte integer and its length (MQTT 5, 1.5.5)."""
    value = 0
    for size in range(4):
        value |= (data[at + size] & 0x7F) << (7 * size)
        if not data[at + size] & 0x80:
            return value, size + 1
    raise ValueError(f"no variable byte integer at {at}")


async def _packets(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Whole packets until the end of the stream, or its loss."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readexactly(2)
            while head[-1] & 0x80:
                head += await reader.readexactly(1)
            yield head + await reader.readexactly(_varint(head, 1)[0])


class FaultProxy:
    """`rule` gives the bytes to pass on for a packet, or None to drop it; `delay_s` waits before each.

    `refuse`: new connections are closed at once. `hold`: nothing passes in either direction, and nobody is told:
    the half-open connection of a pulled cable. With `tls` the client's side speaks TLS.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.rule: Callable[[Packet], bytes | None] = lambda packet: packet.raw
        self.delay_s = 0.0
        self.refuse = False
        self.log: list[Packet] = []
        self.connections = 0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._broker_port, self._tls = port, tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None, "the proxy runs"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def hold(self) -> bool:
        return not self._flowing.is_set()

    @hold.setter
    def hold(self, value: bool) -> None:
        if value:
            self._flowing.clear()
        else:
            self._flowing.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for _ in range(LET_IN_TURNS):
            await asyncio.sleep(0)
        self.hold, self.delay_s = False, 0.0
        self.cut()
        await asyncio.gather(*self._tasks)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Resets every connection, both sides, at once; what was on its way is lost."""
        for writer in self._writers:
            sock: socket.socket = writer.get_extra_info("socket")
            if sock.fileno() >= 0:  # else its other end was first
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def sent(self, leaf: str, connection: int | None = None) -> list[Packet]:
        """What clients published on topics that end in `/leaf`."""
        return [
            packet
            for packet in self.log
            if packet.from_client
            and packet.kind is Kind.PUBLISH
            and packet.topic.endswith(f"/{leaf}")
            and connection in (None, packet.connection)
        ]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if not self.refuse:
                self.connections += 1
                await self._join(self.connections, reader, writer)
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _join(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection(HOST, self._broker_port)
        except OSError:
            return  # the broker is down: the client is closed too
        self._writers.add(broker_writer)
        pumps = [
            asyncio.ensure_future(self._pump(number, reader, broker_writer, from_client=True)),
            asyncio.ensure_future(self._pump(number, broker_reader, writer, from_client=False)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._writers.discard(broker_writer)
            broker_writer.close()

    async def _pump(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, from_client: bool
    ) -> None:
        async for raw in _packets(reader):
            packet = Packet(number, from_client, raw)
            self.log.append(packet)
            await self._flowing.wait()
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            passed = self.rule(packet)
            if passed is not None:
                writer.write(passed)
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
