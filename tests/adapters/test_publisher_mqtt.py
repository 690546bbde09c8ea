"""The MQTT publisher against a real mosquitto, mostly through the fault proxy. Bug reports 39-48, 60; M1-M14."""

import asyncio
import contextlib
import gc
import json
import random
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Literal, Self

import paho.mqtt.client as mqtt
import pytest

from controller.adapters.publisher_mqtt import Broker as Address
from controller.adapters.publisher_mqtt import Limits, PublisherMqtt, Tls, _why
from controller.core.events import BacklogChanged, FaultGone, FaultSeen, LinkChanged, Receipt
from controller.ports import Answer
from tests.authority import Authority, listener
from tests.broker import HOST, Broker, Subscriber, free_port, until
from tests.fault_proxy import FaultProxy, Kind, Packet
from tests.outbox import FakeOutbox, Heard

TABLE = "baccarat/BAC-07"
QUICK = Limits(backoff_s=(0.05, 0.2))  # the rest as in the field: what a test waits for, it sets
DENIED = 0x87  # Not authorized


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 90))


class Table:
    """A running publisher: its outbox, what it reported, and what it is asked for."""

    def __init__(
        self,
        port: int,
        outbox: FakeOutbox | None = None,
        *,
        primary: bool = True,
        receipt: Literal["broker", "server"] = "broker",
        limits: Limits = QUICK,
        server_status: str | None = None,
        synchronised: Callable[[], bool] = lambda: True,
        time_lost: bool = False,
        **address: object,
    ) -> None:
        self.outbox = outbox or FakeOutbox()
        self.heard = Heard()
        self.state = b'{"phase":"closed"}'
        self.status: dict[str, Any] = {"version": "1.0", "public_key": "k", "faults": []}
        address = {"host": HOST, "port": port, "table": "BAC-07", "machine": "m1", **address}
        where = Address(**address)  # type: ignore[arg-type]
        self.asked: list[tuple[bytes, bool, asyncio.Future[Answer]]] = []
        self.publisher = PublisherMqtt(
            where,
            primary=primary,
            receipt=receipt,
            state=lambda: self.state,
            status=lambda: self.status,
            ask=self.ask,
            server_status=server_status,
            synchronised=synchronised,
            time_lost=lambda: time_lost,
            limits=limits,
        )

    def ask(self, data: bytes, kept: bool) -> "asyncio.Future[Answer]":
        """Keeps what was asked, with the future that a test answers."""
        done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.asked.append((data, kept, done))
        return done

    async def __aenter__(self) -> Self:
        self.task = asyncio.ensure_future(self.publisher.run(self.outbox, self.heard))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """The clean stop; what `run` raised beside its cancellation is raised here."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    @property
    def cursor(self) -> int:
        return self.outbox.cursor("mqtt")

    def change(self, state: bytes) -> None:
        self.state = state
        self.publisher.wake_state()

    async def up(self, times: int = 1) -> None:
        await until(
            lambda: len([1 for link in self.heard.of(LinkChanged) if link.up]) >= times, f"link up {times} times"
        )

    async def down(self) -> str:
        await until(lambda: [link for link in self.heard.of(LinkChanged) if not link.up], "link down")
        return next(link.reason for link in self.heard.of(LinkChanged) if not link.up)

    async def drained(self) -> None:
        await until(lambda: self.cursor == self.outbox.head, f"the cursor at the head; it is at {self.cursor}")


@contextlib.asynccontextmanager
async def proxied(folder: Path, *config: str) -> AsyncIterator[tuple[Broker, FaultProxy]]:
    with Broker(folder, *config) as broker:
        async with FaultProxy(broker.port) as proxy:
            yield broker, proxy


def drop_pubacks(packet: Packet) -> bytes | None:
    return None if packet.kind is Kind.PUBACK else packet.raw


async def published(proxy: FaultProxy, leaf: str, times: int) -> None:
    await until(lambda: len(proxy.sent(leaf)) == times, f"{times} messages on {leaf}")


def refuse(outbox: FakeOutbox, *seqnos: int) -> Callable[[Packet], bytes | None]:
    """A proxy's rule: the broker's PUBACK for these messages of the feed says Not authorized, with its own words."""
    waiting: set[tuple[int, int]] = set()
    datas = {outbox.messages[seqno - 1].data for seqno in seqnos}

    def rule(packet: Packet) -> bytes | None:
        if packet.kind is Kind.PUBLISH and packet.from_client and packet.payload in datas:
            waiting.add((packet.connection, packet.mid))
        if packet.kind is Kind.PUBACK and (packet.connection, packet.mid) in waiting:
            waiting.discard((packet.connection, packet.mid))
            words = b"\x1f\x00\x05quota"
            return b"\x40" + bytes([4 + len(words)]) + packet.body[:2] + bytes([DENIED, len(words)]) + words
        return packet.raw

    return rule


def check_feed(proxy: FaultProxy, outbox: FakeOutbox, window: int = 16) -> int:
    """What the broker got is the journal: exact bytes, each at least once, in order on each connection, no gap.

    Returns the greatest number of messages that were without a PUBACK at one time.
    """
    numbers = {message.data: message.seqno for message in outbox.messages}
    topic, seen, widest = f"{TABLE}/feed", set(), 0
    for connection in range(1, proxy.connections + 1):
        last, flying = None, set()
        for packet in proxy.log:
            if packet.connection != connection:
                continue
            if packet.from_client and packet.kind is Kind.PUBLISH and packet.topic == topic:
                seqno = numbers[packet.payload]
                assert last is None or seqno == last + 1, f"{seqno} follows {last} on connection {connection}"
                assert not packet.dup and not packet.retain, "only the outbox sends again, and nothing is retained"
                last = seqno
                seen.add(seqno)
                flying.add(packet.mid)
                widest = max(widest, len(flying))
            elif not packet.from_client and packet.kind is Kind.PUBACK:
                flying.discard(packet.mid)
    assert seen == set(numbers.values()), f"never sent: {sorted(set(numbers.values()) - seen)}"
    assert widest <= window
    return widest


def check_receipts(table: Table) -> None:
    """Receipts rise to the head, and each is a move of the cursor."""
    receipts = [receipt.seqno for receipt in table.heard.of(Receipt)]
    assert receipts == [seqno for _, seqno in table.outbox.moves] == sorted(set(receipts))
    assert receipts[-1] == table.outbox.head


# --- order, and no gaps --------------------------------------------------------------------------------


async def kill_broker(broker: Broker, proxy: FaultProxy, table: Table) -> None:
    await asyncio.to_thread(broker.kill)
    table.outbox.add(20)
    await table.down()
    await asyncio.to_thread(broker.start)


async def restart_broker(broker: Broker, proxy: FaultProxy, table: Table) -> None:
    await asyncio.to_thread(broker.stop)
    table.outbox.add(20)
    await table.down()
    await asyncio.to_thread(broker.start)


async def cut(broker: Broker, proxy: FaultProxy, table: Table) -> None:
    table.outbox.add(20)
    await until(lambda: len(proxy.sent("feed")) > 30, "messages on their way")
    proxy.cut()


async def cut_four_times(broker: Broker, proxy: FaultProxy, table: Table) -> None:
    for times in range(1, 5):
        await table.up(times)
        table.outbox.add(5)
        proxy.cut()


async def withhold_pubacks(broker: Broker, proxy: FaultProxy, table: Table) -> None:
    """The broker has the messages and we do not know: they are sent again (41)."""
    await table.drained()
    at, proxy.rule = table.cursor, drop_pubacks
    table.outbox.add(20)
    await until(lambda: len(proxy.sent("feed")) == at + 16, "a full window")
    assert table.cursor == at
    proxy.rule = lambda packet: packet.raw
    proxy.cut()


async def refuse_connections(broker: Broker, proxy: FaultProxy, table: Table) -> None:
    proxy.refuse = True
    proxy.cut()
    table.outbox.add(20)
    await table.down()
    proxy.refuse = False


async def delay(broker: Broker, proxy: FaultProxy, table: Table) -> None:
    proxy.delay_s = 0.005
    table.outbox.add(20)


@pytest.mark.parametrize(
    "outage", [kill_broker, restart_broker, cut, cut_four_times, withhold_pubacks, refuse_connections, delay]
)
def test_the_feed_outlives(outage: Callable[[Broker, FaultProxy, Table], Awaitable[None]], tmp_path: Path) -> None:
    async def story() -> None:
        async with proxied(tmp_path) as (broker, proxy), Table(proxy.port) as table:
            table.outbox.add(30)
            await table.up()
            await outage(broker, proxy, table)
            table.outbox.add(10)
            await table.drained()
            check_feed(proxy, table.outbox)
            check_receipts(table)
            for before, after in zip(links := table.heard.of(LinkChanged), links[1:], strict=False):
                assert before.up != after.up, "the link is told when it changes"

    run(story())


def test_a_subscriber_gets_the_bytes_their_type_and_their_content_type(tmp_path: Path) -> None:
    async def story() -> None:
        with Broker(tmp_path) as broker, Subscriber(broker.port, f"{TABLE}/feed", made_up=True) as casino:
            async with Table(broker.port) as table:
                table.outbox.add(40)
                await until(lambda: len(casino.got) == 40, "40 messages")
                assert [got.payload for got in casino.got] == [message.data for message in table.outbox.messages]
                for got, message in zip(casino.got, table.outbox.messages, strict=True):
                    assert (got.topic, got.retain) == (f"{TABLE}/feed", False)
                    assert got.properties is not None
                    assert vars(got.properties)["ContentType"] == "application/cloudevents+json; charset=utf-8"
                    assert vars(got.properties)["UserProperty"] == [("type", message.type)]

    run(story())


def test_what_came_while_down_drains_in_order_through_the_window(tmp_path: Path) -> None:
    """300 messages in the outage (43, 45); the marks of the backlog are told once each, and at the start (I34)."""

    async def story() -> None:
        async with proxied(tmp_path) as (broker, proxy):
            await asyncio.to_thread(broker.kill)
            async with Table(proxy.port, limits=Limits(backoff_s=(0.05, 0.2), high=200, low=100)) as table:
                for _ in range(30):
                    await asyncio.sleep(0.001)
                    table.outbox.add(10)
                await table.down()
                marks = table.heard.of(BacklogChanged)
                assert [(mark.high, mark.depth) for mark in marks] == [(False, 0), (True, 200)]
                await asyncio.to_thread(broker.start)
                await table.drained()
                assert check_feed(proxy, table.outbox) == 16
                check_receipts(table)
                marks = table.heard.of(BacklogChanged)
                assert [mark.high for mark in marks] == [False, True, False]
                assert 85 <= marks[-1].depth <= 100, "at the first burst below the mark"

    run(story())


def test_a_broker_that_takes_little_at_once_is_not_overrun(tmp_path: Path) -> None:
    """CONNACK's Receive Maximum bounds feed, state and status together (MQTT 5, 4.9)."""

    async def story() -> None:
        async with proxied(tmp_path, "max_inflight_messages 4") as (_, proxy), Table(proxy.port) as table:
            table.outbox.add(50)
            await table.up()
            for number in range(30):
                table.change(b"%d" % number)
                await asyncio.sleep(0.005)
            await table.drained()
            assert check_feed(proxy, table.outbox, window=2) == 2
            flying, widest = set(), 0
            for packet in proxy.log:
                if packet.kind is Kind.PUBLISH:
                    flying.add(packet.mid)
                elif packet.kind is Kind.PUBACK:
                    flying.discard(packet.mid)
                widest = max(widest, len(flying))
            assert widest <= 4
            assert len(proxy.sent("state")) > 1

    run(story())


def client(table: Table) -> mqtt.Client:
    assert table.publisher._session is not None
    return table.publisher._session._client


def client_socket(table: Table) -> Any:  # noqa: ANN401 - paho's own type is private
    return client(table).socket()


def test_what_the_network_does_not_take_at_once_follows(tmp_path: Path) -> None:
    async def story() -> None:
        async with proxied(tmp_path) as (_, proxy), Table(proxy.port) as table:
            await table.up()
            client_socket(table).setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
            proxy.hold = True
            table.outbox.add(16, text="x" * 200_000)
            await until(client(table).want_write, "a full socket")
            proxy.hold = False
            await table.drained()
            check_feed(proxy, table.outbox)
            assert proxy.connections == 1

    run(story())


def test_no_packet_waits_for_another_to_share_its_segment(tmp_path: Path) -> None:
    async def story() -> None:
        with Broker(tmp_path) as broker:
            async with Table(broker.port) as table:
                await table.up()
                assert client_socket(table).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(story())


def test_messages_pruned_before_the_first_start_are_skipped(tmp_path: Path) -> None:
    async def story() -> None:
        with Broker(tmp_path) as broker, Subscriber(broker.port, f"{TABLE}/feed", made_up=True) as casino:
            outbox = FakeOutbox()
            outbox.add(30)
            outbox.dropped = 10
            async with Table(broker.port, outbox) as table:
                await table.drained()
                await until(lambda: len(casino.got) == 20, "the 20 that are left")
                assert [got.payload for got in casino.got] == [message.data for message in outbox.messages[10:]]

    run(story())


def test_who_is_not_primary_publishes_and_reports_nothing_but_faults(tmp_path: Path) -> None:
    async def story() -> None:
        limits = Limits(high=2, low=1, backoff_s=(0.05, 0.2))
        async with proxied(tmp_path) as (_, proxy), Table(proxy.port, primary=False, limits=limits) as table:
            table.outbox.add(5)
            proxy.rule = refuse(table.outbox, 5)
            await until(lambda: table.heard.of(FaultSeen), "the fault")
            assert table.cursor == 4
            assert {type(event) for event in table.heard.events} <= {FaultSeen, FaultGone}

    run(story())


# --- refused messages (39, 40) ---------------------------------------------------------------------------


def test_an_acl_that_denies_the_feed_stops_it_and_loses_nothing(tmp_path: Path) -> None:
    rights = tmp_path / "acl"
    levels = "topic readwrite baccarat/+/status\ntopic readwrite baccarat/+/state\ntopic read baccarat/+/feed\n"
    rights.write_text(levels)

    async def story() -> None:
        limits = Limits(refused_s=0.2, backoff_s=(0.05, 0.2))
        async with (
            proxied(tmp_path, f"acl_file {rights}") as (broker, proxy),
            Table(proxy.port, limits=limits) as table,
        ):
            table.outbox.add(3)
            await until(lambda: len(proxy.sent("feed")) > 6, "more than one try")
            await until(lambda: table.heard.of(FaultSeen), "the fault")
            (fault,) = table.heard.of(FaultSeen)
            assert (fault.code, fault.part) == ("feed_refused", "mqtt")
            assert "message 1" in fault.text
            assert "Not authorized" in fault.text
            assert f"{TABLE}/feed" in fault.text
            assert (table.cursor, table.heard.of(FaultGone)) == (0, [])
            links = [link.reason or link.up for link in table.heard.of(LinkChanged)]
            assert links == [True, fault.text], "who does not get the feed does not hear the table (F2)"
            assert proxy.connections == 1
            rights.write_text(levels + "topic write baccarat/+/feed\n")
            broker.reload()
            await table.drained()
            await until(lambda: table.heard.of(FaultGone), "the end of the fault")
            table.outbox.add(3)
            await table.drained()
            assert len(table.heard.of(FaultSeen)) == len(table.heard.of(FaultGone)) == 1

    run(story())


@pytest.mark.parametrize("way", ["its time comes", "a new connection"])
def test_a_refused_message_stops_the_feed_at_itself_until(way: str, tmp_path: Path) -> None:
    async def story() -> None:
        limits = Limits(refused_s=0.3 if way == "its time comes" else 3_600, backoff_s=(0.05, 0.2))
        async with proxied(tmp_path) as (_, proxy), Table(proxy.port, limits=limits) as table:
            table.outbox.add(5)
            proxy.rule = refuse(table.outbox, 3)
            await until(lambda: table.heard.of(FaultSeen), "the fault")
            assert table.cursor == 2, "what follows it has a PUBACK, and is no receipt"
            table.outbox.add(5)
            table.change(b"and this passes")
            await published(proxy, "state", 2)
            assert len(proxy.sent("feed")) == 5, "nothing of the feed follows"
            assert table.cursor == 2
            assert "(quota)" in table.heard.of(FaultSeen)[0].text, "the broker's own words"
            before = len(proxy.log)
            proxy.rule = lambda packet: packet.raw
            if way == "a new connection":
                proxy.cut()
            await table.drained()
            again = [p.payload for p in proxy.log[before:] if p.kind is Kind.PUBLISH and p.topic == f"{TABLE}/feed"]
            assert again[-8:] == [message.data for message in table.outbox.messages[2:]]
            check_receipts(table)
            faults = [type(event) for event in table.heard.events if isinstance(event, FaultSeen | FaultGone)]
            assert faults[-2:] == [FaultSeen, FaultGone]
            assert faults[:-2] in ([], [FaultGone]), "the first message taken clears what a run before this one raised"

    run(story())


def test_a_message_over_the_brokers_packet_size_is_refused_not_sent_for_ever(tmp_path: Path) -> None:
    async def story() -> None:
        async with proxied(tmp_path, "max_packet_size 1000") as (_, proxy), Table(proxy.port) as table:
            table.outbox.add(1)
            table.outbox.add(1, text="x" * 1_000)
            table.outbox.add(1)
            await until(lambda: table.heard.of(FaultSeen), "the fault")
            assert "limit of 1000" in table.heard.of(FaultSeen)[0].text
            await until(lambda: table.cursor == 1, "what comes before it to be taken")
            assert (proxy.connections, len(proxy.sent("feed"))) == (1, 1)

    run(story())


@pytest.mark.parametrize(("size", "sent"), [(1_000, True), (1_001, False)])
def test_the_size_of_a_packet_is_counted_to_the_byte(size: int, sent: bool, tmp_path: Path) -> None:
    """A packet of 128 to 16,383 bytes has a fixed header of 3; the count allows 5 (MQTT 5, 2.1.4)."""

    async def story() -> None:
        async with proxied(tmp_path, "max_packet_size 1000") as (_, proxy), Table(proxy.port) as table:
            spare = FakeOutbox()
            spare.add(1, text="x")
            whole = len(spare.messages[0].data) + len(f"{TABLE}/feed") + len(spare.messages[0].type) + 65
            table.outbox.add(1, text="x" * (1 + size - whole))
            await until(lambda: table.heard.of(FaultSeen) or table.cursor, "an end")
            assert (table.cursor == 1) is sent
            if sent:
                assert len(proxy.sent("feed")[0].raw) == size - 2

    run(story())


# --- the casino server's receipts (receipt: server) -----------------------------------------------------


def ack(outbox: FakeOutbox, seqno: int, /, **changes: object) -> bytes:
    told = {"generation": outbox.generation, "seqno": seqno, "hash": outbox.messages[seqno - 1].hash, **changes}
    return json.dumps(told).encode()


# What the server says of 20 messages (`ack(o, n)` is the right receipt for n), and where the cursor stands then.
ACKS: dict[str, tuple[Callable[[FakeOutbox], list[bytes]], int]] = {
    "each": (lambda o: [ack(o, 1), ack(o, 2), ack(o, 3)], 3),
    "cumulative": (lambda o: [ack(o, 5), ack(o, 20)], 20),
    "an old one after a new one": (lambda o: [ack(o, 9), ack(o, 4)], 9),
    "more fields than asked": (lambda o: [ack(o, 4, at="now")], 4),
    "wrong hash": (lambda o: [ack(o, 4), ack(o, 6, hash=o.messages[4].hash)], 4),
    "a hash in capitals": (lambda o: [ack(o, 4), ack(o, 6, hash=o.messages[5].hash.upper())], 4),
    "wrong generation": (lambda o: [ack(o, 4), ack(o, 6, generation="68f1c2d4-00000000")], 4),
    "after the head": (lambda o: [ack(o, 4), ack(o, 20, seqno=21)], 4),
    "far after the head": (lambda o: [ack(o, 4), ack(o, 20, seqno=2**63)], 4),
    "nothing": (lambda o: [ack(o, 4), ack(o, 6, seqno=0)], 4),
    "negative": (lambda o: [ack(o, 4), ack(o, 6, seqno=-1)], 4),
    "a number that is none": (
        lambda o: [ack(o, 4), ack(o, 6, seqno=True), ack(o, 6, seqno=6.0), ack(o, 6, seqno="6")],
        4,
    ),
    "a field missing": (lambda o: [ack(o, 4), b'{"seqno":6}', b'{"generation":"x"}', b"{}"], 4),
    "null": (lambda o: [ack(o, 4), ack(o, 6, hash=None), ack(o, 6, generation=None), ack(o, 6, seqno=None)], 4),
    "no object": (lambda o: [ack(o, 4), b"[]", b"6", b"null", b'"6"'], 4),
    "no JSON": (lambda o: [ack(o, 4), b"", b"{", b"nonsense", b"\x00"], 4),
    "no UTF-8": (lambda o: [ack(o, 4), b'{"generation":"\xff\xfe"}', b"\xff" * 100], 4),
    "a megabyte": (lambda o: [ack(o, 4), b"[" * 2**20, ack(o, 6) + b" " * 2**20], 4),
    "nested deep": (lambda o: [ack(o, 4), b"[" * 1_000], 4),
    "a number of a thousand digits": (lambda o: [ack(o, 4), b'{"seqno":' + b"9" * 1_000 + b"}"], 4),
}


@pytest.mark.parametrize("case", ACKS)
def test_the_servers_receipt_moves_the_cursor_if_it_is_right(case: str, tmp_path: Path) -> None:
    """Whatever comes, the next right receipt counts (44)."""
    said, expected = ACKS[case]

    async def story() -> None:
        async with proxied(tmp_path) as (broker, proxy), Table(proxy.port, receipt="server") as table:
            with Subscriber(broker.port, made_up=True) as casino:
                table.outbox.add(20)
                await published(proxy, "feed", 20)
                assert table.cursor == 0, "a PUBACK is no receipt here"
                for payload in said(table.outbox):
                    casino.publish(f"{TABLE}/ack", payload)
                await until(lambda: table.cursor == expected, f"the cursor at {expected}")
                if expected < 20:
                    casino.publish(f"{TABLE}/ack", ack(table.outbox, expected + 1))
                    await until(lambda: table.cursor == expected + 1, "the next receipt")
                    casino.publish(f"{TABLE}/ack", ack(table.outbox, 20))
                await table.drained()
                check_receipts(table)
                assert proxy.connections == 1, "nothing that was said cost the connection"

    run(story())


def test_a_retained_receipt_is_none(tmp_path: Path) -> None:
    """Neither asked of the broker, nor believed of one that sends it all the same (M13)."""

    def retained(packet: Packet) -> bytes:
        spoil = packet.kind is Kind.PUBLISH and not packet.from_client
        return bytes([packet.raw[0] | 1]) + packet.raw[1:] if spoil else packet.raw

    async def story() -> None:
        async with proxied(tmp_path) as (broker, proxy):
            outbox = FakeOutbox()
            outbox.add(3)
            with Subscriber(broker.port, made_up=True) as casino:
                casino.publish(f"{TABLE}/ack", ack(outbox, 3), retain=True)
                async with Table(proxy.port, outbox, receipt="server") as table:
                    await published(proxy, "feed", 3)
                    proxy.rule = retained
                    casino.publish(f"{TABLE}/ack", ack(outbox, 2))
                    await until(lambda: [p for p in proxy.log if p.from_client and p.kind is Kind.PUBACK], "it taken")
                    acks = [p for p in proxy.log if not p.from_client and p.kind is Kind.PUBLISH]
                    assert (table.cursor, len(acks)) == (0, 1), "the broker sent only the live one"
                    proxy.rule = lambda packet: packet.raw
                    casino.publish(f"{TABLE}/ack", ack(outbox, 1))
                    await until(lambda: table.cursor == 1, "the cursor")

    run(story())


def test_without_receipts_the_feed_is_sent_again_from_the_receipt_on(tmp_path: Path) -> None:
    async def story() -> None:
        limits = Limits(stall_s=0.4, backoff_s=(0.05, 0.2))
        async with proxied(tmp_path) as (broker, proxy):
            async with Table(proxy.port, receipt="server", limits=limits) as table:
                table.outbox.add(20)
                await until(lambda: len(proxy.sent("feed")) >= 40, "all of it twice")
                with Subscriber(broker.port, made_up=True) as casino:
                    casino.publish(f"{TABLE}/ack", ack(table.outbox, 12))
                    await until(lambda: table.cursor == 12, "the cursor")
                    before = len(proxy.sent("feed"))
                    await until(lambda: len(proxy.sent("feed")) >= before + 16, "the rest twice")
                    numbers = [json.loads(packet.payload)["seqno"] for packet in proxy.sent("feed")]
                    assert numbers[:40] == [*range(1, 21), *range(1, 21)]
                    assert numbers[-1 - numbers[::-1].index(13) :][:8] == list(range(13, 21))
                    assert min(numbers[before + 20 :], default=13) == 13
                    casino.publish(f"{TABLE}/ack", ack(table.outbox, 20))
                    await table.drained()
                links = [link.reason or link.up for link in table.heard.of(LinkChanged)]
                silent = (
                    "no receipt from the casino server for 0.4 s: ask casino IT whether it takes what the table sends"
                )
                assert links[:3] == [True, silent, True], "nobody hears the table until a receipt comes (F2)"
            assert proxy.connections == 1, "the connection was never in doubt"

    run(story())


def test_a_broker_that_takes_connections_and_no_messages_is_no_link(tmp_path: Path) -> None:
    """Else each new connection would let a betting open, which nobody hears of (F2)."""

    async def story() -> None:
        limits = Limits(stall_s=0.3, backoff_s=(0.05, 0.2))
        async with proxied(tmp_path) as (_, proxy), Table(proxy.port, limits=limits) as table:
            await table.up()
            proxy.rule = drop_pubacks
            table.outbox.add(3)
            await until(lambda: proxy.connections >= 4, "new connections")
            assert await table.down() == f"no acknowledgement from {HOST} for 0.3 s"
            assert [link.up for link in table.heard.of(LinkChanged)].count(True) == 1
            assert table.publisher.diag()["fault"]
            proxy.rule = lambda packet: packet.raw
            await table.up(2)
            await table.drained()

    run(story())


def test_a_feed_that_is_always_under_way_hides_no_missing_receipt(tmp_path: Path) -> None:
    """A broker far away: there is no moment at which all has its PUBACK."""

    async def story() -> None:
        async with proxied(tmp_path) as (_, proxy):
            limits = Limits(stall_s=0.8, backoff_s=(0.05, 0.2))
            async with Table(proxy.port, receipt="server", limits=limits) as table:
                await table.up()
                proxy.delay_s, idle = 0.1, 0
                for _ in range(200):
                    table.outbox.add()
                    await asyncio.sleep(0.05)
                    idle += not table.publisher.diag()["flying"]
                    if len(table.heard.of(LinkChanged)) > 1:
                        break
                else:
                    raise AssertionError("nobody is told while the feed goes on")
                assert idle <= 1, "else this shows nothing"
                assert (await table.down()).startswith("no receipt from the casino server for 0.8 s")
                proxy.delay_s = 0.0
                first = table.outbox.messages[0].data
                await until(lambda: [p.payload for p in proxy.sent("feed")].count(first) > 1, "the feed again")
                assert proxy.connections == 1

    run(story())


@pytest.mark.parametrize("way", ["on this connection", "on the next"])
def test_a_receipt_for_what_a_run_before_sent_saves_sending_it(way: str, tmp_path: Path) -> None:
    """After a crash the cursor stands lower than what the server has."""
    kept: list[bytes] = []

    def withhold(packet: Packet) -> bytes | None:
        """PUBACKs wait until the server's receipt has passed, or for ever."""
        if packet.from_client:
            return packet.raw
        if packet.kind is Kind.PUBACK:
            kept.append(packet.raw)
            return None
        return b"".join([packet.raw, *kept]) if way == "on this connection" else packet.raw

    async def story() -> None:
        async with proxied(tmp_path) as (broker, proxy):
            outbox = FakeOutbox()
            outbox.add(100)
            proxy.rule = withhold
            async with Table(proxy.port, outbox, receipt="server") as table:
                await until(lambda: len(kept) == 18, "a full window, state and status")
                with Subscriber(broker.port, made_up=True) as casino:
                    casino.publish(f"{TABLE}/ack", ack(outbox, 90))
                    await until(lambda: table.cursor == 90, "the cursor")
                proxy.rule = lambda packet: packet.raw
                if way == "on the next":
                    proxy.cut()
                rest = [message.data for message in outbox.messages[90:]]
                await until(lambda: [p.payload for p in proxy.sent("feed")][16:] == rest, "the rest and no more")

    run(story())


# --- state and status (48, M12) --------------------------------------------------------------------------


def retained(broker: Broker, leaf: str) -> bytes | None:
    """What a late joiner sees on this topic; None where nothing is retained."""
    with Subscriber(broker.port, f"{TABLE}/{leaf}", "late/end", name="late", made_up=True) as late:
        late.publish("late/end", b"")
        late.wait(lambda: late.on("end"), "what is retained comes before what is published after")
        found = [got.payload for got in late.on(leaf) if got.retain]
        return found[-1] if found else None


async def status_is(broker: Broker, word: str) -> dict[str, Any]:
    """The status that a late joiner sees, once it says `word`."""
    for _ in range(200):
        seen = await asyncio.to_thread(retained, broker, "status")
        told: dict[str, Any] = json.loads(seen or b"{}")
        if told.get("status") == word:
            return told
        await asyncio.sleep(0.05)
    raise AssertionError(f"the status is never {word}: {seen!r}")


def test_who_joins_late_sees_the_right_status(tmp_path: Path) -> None:
    """After a start, a crash, a return, a broker that lost all, a second return, a clean stop."""

    async def story() -> None:
        async with proxied(tmp_path) as (broker, proxy):
            async with Table(proxy.port) as table:
                table.outbox.add(2)
                told = await status_is(broker, "online")
                assert told == {
                    "status": "online",
                    "version": "1.0",
                    "public_key": "k",
                    "faults": [],
                    "generation": table.outbox.generation,
                    "backlog": 2,
                }
                proxy.refuse = True
                proxy.cut()  # a crash, to the broker
                told = await status_is(broker, "offline")
                assert (told["version"], told["generation"]) == ("1.0", table.outbox.generation)
                proxy.refuse = False
                await status_is(broker, "online")
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
                await status_is(broker, "online")
                proxy.cut()
                await table.up(4)
                await status_is(broker, "online")
            await status_is(broker, "offline")
            last = [packet for packet in proxy.log if packet.from_client][-2:]
            assert [packet.kind for packet in last] == [Kind.PUBLISH, Kind.DISCONNECT], (
                "offline first, then the goodbye"
            )
            assert json.loads(last[0].payload)["status"] == "offline"
            assert last[0].retain
            assert last[1].reason == 0, "normal: no will is needed"

    run(story())


def test_a_stop_that_cannot_say_offline_leaves_it_to_the_will(tmp_path: Path) -> None:
    async def story() -> None:
        limits = Limits(farewell_s=0.2, backoff_s=(0.05, 0.2))
        async with proxied(tmp_path) as (broker, proxy):
            async with Table(proxy.port, limits=limits):
                await status_is(broker, "online")
                proxy.rule = lambda packet: None if packet.kind is Kind.PUBLISH and packet.from_client else packet.raw
            await until(lambda: proxy.log[-1].kind is Kind.DISCONNECT, "the goodbye")
            assert proxy.log[-1].reason == 0x04, "disconnect with will (MQTT 5, 3.14.2.1)"
            await status_is(broker, "offline")

    run(story())


def test_a_clean_stop_sends_what_is_durable_and_waits_for_its_receipts(tmp_path: Path) -> None:
    async def story() -> None:
        async with proxied(tmp_path) as (_, proxy), Table(proxy.port) as table:
            await table.up()
            proxy.delay_s = 0.02
            table.task.cancel()
            table.outbox.add(10)
            await table.stop()
            assert table.cursor == 10
            check_feed(proxy, table.outbox)

    run(story())


def gone(broker: Broker) -> bool:
    """Whether every client that the broker's log names has left."""
    left = [line for line in broker.log.splitlines() if line.endswith(("disconnected.", "closed its connection."))]
    return broker.log.count("New client connected") == len([line for line in left if "<unknown>" not in line])


def test_a_stop_at_any_moment_leaves_no_client_behind(tmp_path: Path) -> None:
    """In the thread that connects, before the CONNACK, before the first status, after it: offline, and no socket."""

    async def story() -> None:
        with Broker(tmp_path) as broker:
            for step in range(30):
                async with Table(broker.port):
                    await asyncio.sleep(step * 0.0004)
                gc.collect()  # a socket left behind is a ResourceWarning, and so a failure
            await status_is(broker, "offline")
            await until(lambda: gone(broker), "every client gone")

    run(story())


def test_state_is_retained_sent_on_change_alone_and_the_newest_wins(tmp_path: Path) -> None:
    async def story() -> None:
        async with proxied(tmp_path) as (broker, proxy), Table(proxy.port) as table:
            await until(lambda: len([p for p in proxy.log if p.kind is Kind.PUBACK]) == 2, "the first state and status")
            table.publisher.wake_state()
            proxy.rule = drop_pubacks
            for number in range(50):
                table.change(b"%d" % number)
                await asyncio.sleep(0.001)
            await published(proxy, "state", 2)
            table.change(b"last")
            table.outbox.add(1)
            await published(proxy, "feed", 1)
            assert len(proxy.sent("state")) == 2, "one at a time: the others are overtaken"
            proxy.rule = lambda packet: packet.raw
            proxy.cut()
            await until(lambda: proxy.sent("state")[-1].payload == b"last", "the newest")
            table.publisher.wake_state()
            table.outbox.add(1)
            await table.drained()
            assert [packet.payload for packet in proxy.sent("state", 2)] == [b"last"]
            assert all(packet.retain for packet in proxy.sent("state"))
            assert await asyncio.to_thread(retained, broker, "state") == b"last"

    run(story())


def test_the_feed_goes_before_the_state_that_changed_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with proxied(tmp_path) as (_, proxy), Table(proxy.port) as table:
            await published(proxy, "state", 1)
            for number in range(1, 6):
                table.change(b"%d" % number)
                table.outbox.add(1)
                await published(proxy, "state", number + 1)
            sent = [packet.topic for packet in proxy.log if packet.from_client and packet.kind is Kind.PUBLISH]
            assert sent[2:] == [f"{TABLE}/feed", f"{TABLE}/state"] * 5

    run(story())


def test_status_follows_what_it_tells_but_not_the_backlog(tmp_path: Path) -> None:
    async def story() -> None:
        async with proxied(tmp_path) as (_, proxy), Table(proxy.port) as table:
            await published(proxy, "status", 1)
            for _ in range(5):
                table.outbox.add(3)
                table.publisher.wake_state()
                await table.drained()
            table.status = {**table.status, "faults": ["scanner"]}
            table.change(b"new")
            await published(proxy, "status", 2)
            await published(proxy, "state", 2)
            assert json.loads(proxy.sent("status")[-1].payload)["faults"] == ["scanner"]

    run(story())


# --- links that are no links ------------------------------------------------------------------------------


@pytest.mark.parametrize("found_by", ["keepalive", "no progress"])
def test_a_half_open_connection_is_found_by(found_by: str, tmp_path: Path) -> None:
    async def story() -> None:
        by_keepalive = found_by == "keepalive"
        limits = Limits(stall_s=3_600 if by_keepalive else 0.4, backoff_s=(0.05, 0.2))
        async with (
            proxied(tmp_path) as (_, proxy),
            Table(proxy.port, limits=limits, keepalive_s=1 if by_keepalive else 60, connect_s=1.0) as table,
        ):
            table.outbox.add(5)
            await table.drained()
            proxy.hold = True
            table.outbox.add(5)
            reason = await table.down()
            assert ("does not answer any more" if by_keepalive else "no acknowledgement") in reason
            proxy.hold = False
            await table.drained()
            check_receipts(table)
            numbers = {json.loads(packet.payload)["seqno"] for packet in proxy.sent("feed")}
            assert numbers == set(range(1, 11))

    run(story())


def test_two_machines_with_one_id_are_suspected(tmp_path: Path) -> None:
    """A broker that does not say "taken over" leaves short connections as the only sign (M11)."""

    def suspects(table: Table) -> bool:
        return any("connect as BAC-07-m1?" in link.reason for link in table.heard.of(LinkChanged))

    async def story() -> None:
        with Broker(tmp_path) as broker:
            async with Table(broker.port) as first, Table(broker.port) as second:
                await until(lambda: suspects(first) and suspects(second), "the suspicion")

    run(story())


@pytest.mark.parametrize(("rest_s", "comes_back"), [(0.0, True), (3_600.0, False)])
def test_who_was_thrown_out_by_another_says_so_and_rests(rest_s: float, comes_back: bool) -> None:
    """DISCONNECT 0x8E, Session taken over (M11): no fight of two machines with one id."""

    async def story() -> None:
        served = 0

        async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            served += 1
            writer.write(bytes([0x20, 3, 0, 0, 0, 0xE0, 1, 0x8E]))
            await reader.read()

        limits = Limits(taken_over_s=rest_s, backoff_s=(0.01, 0.01))
        async with serving(taken) as port, Table(port, limits=limits) as table:
            reason = await table.down()
            assert "Session taken over" in reason
            assert "connect as BAC-07-m1?" in reason
            if comes_back:
                await until(lambda: served > 3, "it back")
            else:
                await asyncio.sleep(0.5)
                assert served == 1

    run(story())


def test_a_password_file_decides_who_comes_in(tmp_path: Path) -> None:
    """Refused, the table says so once, tries on, and comes in when the password is right."""

    async def story() -> None:
        passwords = tmp_path / "passwords"
        passwords.touch()
        with Broker(tmp_path, "allow_anonymous false", f"password_file {passwords}") as broker:
            async with Table(broker.port, username="bac07", password="right") as table:
                reason = await table.down()
                assert "Not authorized: check casino.mqtt.username and password_file" in reason
                assert "right" not in f"{reason} {table.publisher.broker}", "no password in words"
                await asyncio.sleep(0.5)
                assert len(table.heard.of(LinkChanged)) == 1, "told once, however often it is tried"
                command = ("mosquitto_passwd", "-b", str(passwords), "bac07", "right")
                assert await (await asyncio.create_subprocess_exec(*command)).wait() == 0
                broker.reload()
                await table.up()

    run(story())


Server = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(server: Server | None) -> AsyncIterator[int]:
    """The port of a server that is no broker; with None nobody listens there."""
    tasks: set[asyncio.Task[None]] = set()
    port = free_port()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None and server is not None
        tasks.add(task)
        with contextlib.suppress(ConnectionError):
            await server(reader, writer)
        writer.close()

    if server is None:
        yield port
        return
    async with await asyncio.start_server(accept, HOST, port):
        yield port
    await asyncio.gather(*tasks)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 100)


async def poor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A broker without QoS 1: Maximum QoS 0 in its CONNACK."""
    writer.write(bytes([0x20, 5, 0, 0, 2, 0x24, 0]))
    await reader.read()


@pytest.mark.parametrize(
    ("server", "tls", "words"),
    [
        (None, None, "is the broker running"),
        (silent, None, "does not answer: is it an MQTT broker?"),
        (silent, Tls(), "does not answer: check"),
        (rude, None, "connection lost"),
        (web, None, "breaks the MQTT protocol"),
        (web, Tls(), "TLS with"),
        (poor, None, "lacks QoS 1"),
        (silent, Tls(ca="/nowhere/ca.pem"), "cannot read /nowhere/ca.pem: No such file"),
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # paho drops the socket of a failed TLS handshake
def test_a_link_that_is_down_says_why(server: Server | None, tls: Tls | None, words: str) -> None:
    async def story() -> None:
        connect_s = 0.5 if server is silent else 20
        async with serving(server) as port, Table(port, tls=tls, connect_s=connect_s) as table:
            assert words in await table.down()

    run(story())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "no address for mq.casino: check the name"),
        (TimeoutError(), "mq.casino:8883 does not answer: check cable"),
        (UnicodeError("label too long"), "'mq.casino' is no host name"),
        (OSError(101, "Network is unreachable"), "mq.casino:8883: Network is unreachable"),
        (PermissionError(13, "Permission denied", "/etc/key.pem"), "cannot read /etc/key.pem: Permission denied"),
    ],
)
def test_errors_of_the_network_in_words(error: OSError | UnicodeError, words: str) -> None:
    assert words in _why(error, Address("mq.casino", 8883, "BAC-07", "m1"))


def test_a_broker_that_talks_nonsense_costs_the_connection_and_nothing_else() -> None:
    """Random packets of every type, some after a good CONNACK: never an exception of ours (44)."""
    dice = random.Random(20261129)
    connack = bytes([0x20, 3, 0, 0, 0])

    def nonsense(number: int) -> bytes:
        body = dice.randbytes(dice.randrange(40))
        packets = b"".join(bytes([dice.randrange(256), len(body)]) + body for _ in range(3))
        return (connack if number % 4 else b"") + packets

    async def story() -> None:
        served = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            served += 1
            writer.write(nonsense(served))
            await reader.read(1)

        limits = Limits(backoff_s=(0.001, 0.001), stall_s=0.2)
        async with serving(serve) as port, Table(port, receipt="server", limits=limits, connect_s=0.2) as table:
            table.outbox.add(20)
            await until(lambda: served >= 150 or table.task.done(), "150 connections", 60)
            assert not table.task.done(), table.task.exception()
            assert table.cursor == 0

    run(story())


# --- TLS ------------------------------------------------------------------------------------------------------


def test_both_sides_show_their_certificates(tmp_path: Path) -> None:
    async def story() -> None:
        authority = Authority(tmp_path)
        ours = Tls(authority.ca, *authority.issue("table"))
        lines = listener(authority, *authority.issue("broker"), "require_certificate true", "tls_version tlsv1.2")
        with Broker(tmp_path, listener=lines) as broker:
            async with Table(broker.port, tls=ours) as table:
                table.outbox.add(300, text="x" * 5_000)
                await table.drained()
                check_receipts(table)
        assert "CN = table" not in broker.log
        assert "as BAC-07-m1" in broker.log

    run(story())


def test_packets_that_share_a_tls_record_are_all_read(tmp_path: Path) -> None:
    """The socket tells of a record once; what paho leaves of it must not wait for the next."""
    kept: list[bytes] = []

    def join(packet: Packet) -> bytes | None:
        if packet.from_client or packet.kind is not Kind.PUBLISH:
            return packet.raw
        kept.append(packet.raw)
        return b"".join(kept) if len(kept) == 6 else None

    async def story() -> None:
        authority = Authority(tmp_path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("broker"))
        with Broker(tmp_path) as broker:
            async with (
                FaultProxy(broker.port, context) as proxy,
                Table(proxy.port, tls=Tls(authority.ca), receipt="server") as table,
            ):
                table.outbox.add(6)
                await until(lambda: len([p for p in proxy.log if p.kind is Kind.PUBACK]) >= 8, "all acknowledged")
                proxy.rule = join
                with Subscriber(broker.port, made_up=True) as casino:
                    for seqno in range(1, 7):
                        casino.publish(f"{TABLE}/ack", ack(table.outbox, seqno))
                await table.drained()
                assert len(table.heard.of(Receipt)) == 1, "one receipt a burst"

    run(story())


# --- faults of our own -------------------------------------------------------------------------------------


def broken_submit(table: Table) -> None:
    table.heard.broken = True


def broken_read(table: Table) -> None:
    def read(after: int, limit: int) -> None:
        raise LookupError("broken")

    table.outbox.read = read  # type: ignore[assignment,method-assign]


def broken_state(table: Table) -> None:
    def state() -> bytes:
        raise LookupError("broken")

    table.publisher.state = state


def broken_advance(table: Table) -> None:
    def advance(publisher: str, seqno: int) -> None:
        raise LookupError("broken")

    table.outbox.advance = advance  # type: ignore[method-assign]


@pytest.mark.parametrize("breaks", [broken_submit, broken_read, broken_state, broken_advance])
def test_what_is_wrong_with_us_ends_the_run(breaks: Callable[[Table], None], tmp_path: Path) -> None:
    """Never a publisher that is dead and looks alive (44, M8)."""

    async def story() -> None:
        with Broker(tmp_path) as broker:
            async with Table(broker.port) as table:
                await table.up()
                breaks(table)
                table.outbox.add(1)
                table.change(b"new")
                with pytest.raises(ExceptionGroup) as caught:
                    await table.task
                assert caught.group_contains(LookupError, match="broken")
                table.task = asyncio.ensure_future(asyncio.sleep(0))

    run(story())


@pytest.mark.parametrize(("prefix", "table"), [("baccarat/#", "BAC-07"), ("baccarat", "BAC+07"), ("a\0b", "BAC-07")])
def test_a_name_that_is_no_topic_is_refused(prefix: str, table: str) -> None:
    with pytest.raises(ValueError, match="no MQTT topic"):
        Table(1883, prefix=prefix, table=table)
