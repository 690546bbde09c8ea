"""The casino server's commands over a real mosquitto: asked, answered, then acknowledged; its status is the link."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from controller.adapters.publisher_mqtt import COMMANDS_MAX
from controller.core.events import LinkChanged
from controller.ports import Answer
from tests.adapters.test_publisher_mqtt import TABLE, Table, ack, proxied, published, run
from tests.broker import Broker, Got, Subscriber, until
from tests.fault_proxy import FaultProxy, Kind

COMMANDS, REPLIES = f"{TABLE}/commands", f"{TABLE}/replies/server"
STATUS = "casino/status"


def check(folder: Path, story: Callable[[Table, Subscriber, FaultProxy], Awaitable[None]], **how: str) -> None:
    """A table behind a proxy, and the casino's server beside it, which reads the replies."""

    async def whole() -> None:
        async with proxied(folder) as (broker, proxy):
            with Subscriber(broker.port, f"{TABLE}/replies/#", made_up=True) as server:
                async with Table(proxy.port, **how) as table:  # type: ignore[arg-type]
                    if "server_status" not in how:
                        await table.up()
                    await story(table, server, proxy)

    run(whole())


async def asked(table: Table, times: int = 1) -> list[bytes]:
    await until(lambda: len(table.asked) >= times, f"{times} commands; there are {len(table.asked)}")
    return [data for data, _, _ in table.asked]


async def replied(server: Subscriber, times: int = 1) -> list[Got]:
    await until(lambda: len(server.got) >= times, f"{times} replies; there are {len(server.got)}")
    return list(server.got)


def acknowledged(proxy: FaultProxy) -> int:
    """How many PUBACKs the table has sent."""
    return sum(packet.from_client and packet.kind is Kind.PUBACK for packet in proxy.log)


def test_a_command_is_answered_where_its_sender_says_with_its_tag(tmp_path: Path) -> None:
    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        server.publish(COMMANDS, b"pause", reply_to=REPLIES, tag=b"c-1")
        assert await asked(table) == [b"pause"]
        table.asked[0][2].set_result(Answer(b"done"))
        (got,) = await replied(server)
        assert (got.topic, got.payload, got.retain) == (REPLIES, b"done", False)
        assert got.properties is not None
        assert got.properties.CorrelationData == b"c-1"

    check(tmp_path, story)


def test_a_command_is_acknowledged_only_with_its_answer(tmp_path: Path) -> None:
    """bug_reports D47: what it does is durable before the broker may forget it."""

    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        server.publish(COMMANDS, b"pause")
        await asked(table)
        await asyncio.sleep(0.2)
        assert acknowledged(proxy) == 0
        table.asked[0][2].set_result(Answer(b"done"))
        await until(lambda: acknowledged(proxy) == 1, "the PUBACK")
        assert server.got == []  # it named no response topic

    check(tmp_path, story)


def test_a_command_cut_off_before_its_answer_comes_again(tmp_path: Path) -> None:
    """bug_reports D47. The broker keeps it for a table that went away, whoever killed the connection."""

    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        server.publish(COMMANDS, b"pause", reply_to=REPLIES)
        await asked(table)
        proxy.cut()
        assert await asked(table, 2) == [b"pause", b"pause"]
        for _, _, done in table.asked:
            done.set_result(Answer(b"done"))
        assert [got.payload for got in await replied(server)] == [b"done"]

    check(tmp_path, story)


def test_a_command_sent_while_the_table_was_away_is_kept(tmp_path: Path) -> None:
    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        await table.stop()
        server.publish(COMMANDS, b"pause")
        async with Table(proxy.port, table.outbox) as again:
            assert await asked(again) == [b"pause"]

    check(tmp_path, story)


def test_a_command_kept_while_the_clock_stood_still_is_not_done_late(tmp_path: Path) -> None:
    """By such a clock nothing has expired: what the broker kept is forgotten, and its sender says it again (I52)."""

    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        await table.stop()
        server.publish(COMMANDS, b"stale")
        async with Table(proxy.port, table.outbox, time_lost=True) as again:
            await again.up()
            server.publish(COMMANDS, b"new")
            assert await asked(again) == [b"new"]
            proxy.cut()
            await again.up(2)
            assert await asked(again, 2) == [b"new", b"new"], "from now on the broker keeps them again"

    check(tmp_path, story)


def test_commands_are_asked_in_order_and_no_more_at_once_than_fit(tmp_path: Path) -> None:
    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        sent = [str(number).encode() for number in range(COMMANDS_MAX + 10)]
        for data in sent:
            server.publish(COMMANDS, data)
        await asked(table, COMMANDS_MAX)
        await asyncio.sleep(0.2)
        assert len(table.asked) == COMMANDS_MAX
        for index in range(len(sent)):
            await asked(table, index + 1)
            table.asked[index][2].set_result(Answer(b"done"))
        assert await asked(table, len(sent)) == sent

    check(tmp_path, story)


def test_resent_messages_come_before_the_reply_as_they_were(tmp_path: Path) -> None:
    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        table.outbox.add(200)
        await table.drained()
        server.publish(COMMANDS, b"resend", reply_to=REPLIES, tag=b"r")
        await asked(table)
        table.asked[0][2].set_result(Answer(b"that was it", range(3, 180)))
        got = await replied(server, 178)
        assert [each.payload for each in got[:-1]] == [table.outbox.messages[n - 1].data for n in range(3, 180)]
        assert got[-1].payload == b"that was it"
        assert all(each.properties is not None and each.properties.CorrelationData == b"r" for each in got)

    check(tmp_path, story)


@pytest.mark.parametrize("topic", ["casino/elsewhere", f"{TABLE}/feed", "baccarat/BAC-08/replies/x"])
def test_no_reply_leaves_the_tables_own_topics(tmp_path: Path, topic: str) -> None:
    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        server.publish(COMMANDS, b"pause", reply_to=topic)
        await asked(table)
        table.asked[0][2].set_result(Answer(b"done"))
        await until(lambda: acknowledged(proxy) == 1, "the PUBACK")
        assert proxy.sent(topic.removeprefix(f"{TABLE}/")) == []

    check(tmp_path, story)


def test_a_retained_command_is_told_to_be_one(tmp_path: Path) -> None:
    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        server.publish(COMMANDS, b"pause", retain=True)
        await asked(table)
        assert [kept for _, kept, _ in table.asked] == [True]

    check(tmp_path, story)


def test_a_command_retained_before_we_came_is_nobodys(tmp_path: Path) -> None:
    async def whole() -> None:
        with Broker(tmp_path) as broker, Subscriber(broker.port, made_up=True) as server:
            server.publish(COMMANDS, b"pause", retain=True)
            async with Table(broker.port) as table:
                await table.up()
                await asyncio.sleep(0.2)
                assert table.asked == []

    run(whole())


def test_what_is_larger_than_any_command_does_not_come(tmp_path: Path) -> None:
    """bug_reports D44. The broker leaves it out, as the table asks of it, and the next command comes."""

    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        server.publish(COMMANDS, bytes(1 << 20))
        server.publish(COMMANDS, b"\xff{", reply_to=REPLIES)
        assert await asked(table) == [b"\xff{"]
        table.asked[0][2].set_result(Answer(b"done"))
        assert [got.payload for got in await replied(server)] == [b"done"]

    check(tmp_path, story)


def test_an_answer_that_comes_after_the_connection_is_dropped(tmp_path: Path) -> None:
    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        server.publish(COMMANDS, b"pause")
        await asked(table)
        await table.stop()
        table.asked[0][2].set_result(Answer(b"done"))
        await asyncio.sleep(0.05)
        assert acknowledged(proxy) == 0

    check(tmp_path, story)


def test_replies_and_the_feed_share_a_narrow_window(tmp_path: Path) -> None:
    """A broker that takes three packets at a time gets all of both."""

    async def whole() -> None:
        topics = f"{TABLE}/replies/#", f"{TABLE}/feed"
        with (
            Broker(tmp_path, "max_inflight_messages 3") as broker,
            Subscriber(broker.port, *topics, made_up=True) as server,
        ):
            async with Table(broker.port) as table:
                await table.up()
                for number in range(50):
                    table.outbox.add()
                    server.publish(COMMANDS, b"ping", reply_to=REPLIES)
                    await asked(table, number + 1)
                    table.asked[number][2].set_result(Answer(b"pong"))
                await table.drained()
                await until(lambda: len(server.got) == 100, "everything")

    run(whole())


def test_a_reply_over_the_brokers_limit_poisons_no_connection(tmp_path: Path) -> None:
    """bug_reports D47. With its command's own tag the reply is larger than what the broker takes."""

    async def whole() -> None:
        with (
            Broker(tmp_path, "max_packet_size 20000") as broker,
            Subscriber(broker.port, f"{TABLE}/replies/#", made_up=True) as server,
        ):
            async with Table(broker.port) as table:
                await table.up()
                server.publish(COMMANDS, b"long", reply_to=REPLIES, tag=b"x" * 19_000)
                server.publish(COMMANDS, b"short", reply_to=REPLIES)
                await asked(table, 2)
                for _, _, done in table.asked:
                    done.set_result(Answer(b"y" * 2_000))
                assert [len(got.payload) for got in await replied(server)] == [2_000]
                table.outbox.add()
                await table.drained()
                assert [data for data, _, _ in table.asked] == [b"long", b"short"]
                assert [link.up for link in table.heard.of(LinkChanged)] == [True]

    run(whole())


def test_a_command_that_cannot_be_read_poisons_no_session(tmp_path: Path) -> None:
    """bug_reports D47. The broker would send it again first thing on every connection, and nothing behind it."""

    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        server.publish(COMMANDS, b"bad", reply_to=f"{REPLIES}\ufeff")
        assert await table.down() == "the broker breaks the MQTT protocol"
        await table.up(2)
        server.publish(COMMANDS, b"good", reply_to=REPLIES)
        assert await asked(table) == [b"good"]
        proxy.cut()  # from here on the broker keeps commands again
        assert await asked(table, 2) == [b"good", b"good"]

    check(tmp_path, story)


# --- the casino server's own status: the link is up only while it is --------------------------------------------------

SAYINGS = [
    (b"online", True),
    (b'{"status":"online","version":"3"}', True),
    (b"offline", False),
    (b'{"status":"offline"}', False),
    (b"", False),
    (b"{", False),
    (b"[" * 9_000, False),
    (b"\xff", False),
]


@pytest.mark.parametrize(("said", "up"), SAYINGS)
def test_the_link_is_what_the_server_says(tmp_path: Path, said: bytes, *, up: bool) -> None:
    async def whole() -> None:
        with Broker(tmp_path) as broker, Subscriber(broker.port, made_up=True) as server:
            server.publish(STATUS, said, retain=bool(said))
            async with Table(broker.port, server_status=STATUS) as table:
                if not said:
                    server.publish(STATUS, said)
                    await asyncio.sleep(0.3)
                    server.publish(STATUS, said)
                await until(lambda: table.heard.of(LinkChanged), "the link")
                assert next(link.up for link in table.heard.of(LinkChanged)) is up

    run(whole())


def test_a_server_that_leaves_and_returns_takes_the_link_along(tmp_path: Path) -> None:
    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        server.publish(STATUS, b"online", retain=True)
        await table.up()
        for _ in range(3):  # as a server whose status is its heartbeat
            server.publish(STATUS, b"online", retain=True)
        server.publish(STATUS, b"offline", retain=True)
        assert await table.down() == "the casino server says on casino/status that it is offline"
        server.publish(STATUS, b"online", retain=True)
        await table.up(2)
        assert [link.up for link in table.heard.of(LinkChanged)] == [True, False, True]

    check(tmp_path, story, server_status=STATUS)


def test_a_server_that_returns_gets_at_once_what_it_has_given_no_receipt_for(tmp_path: Path) -> None:
    """Its session may be gone: else it would hear nothing for half a minute, and the table have no link so long."""

    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        server.publish(STATUS, b"online", retain=True)
        await table.up()
        table.outbox.add(5)
        await published(proxy, "feed", 5)
        server.publish(f"{TABLE}/ack", ack(table.outbox, 2))
        await until(lambda: table.cursor == 2, "the receipt")
        server.publish(STATUS, b"offline", retain=True)
        await table.down()
        server.publish(STATUS, b"online", retain=True)
        await published(proxy, "feed", 8)
        assert [packet.payload for packet in proxy.sent("feed")[5:]] == [m.data for m in table.outbox.messages[2:]]

    check(tmp_path, story, server_status=STATUS, receipt="server")


def test_a_broker_alone_is_no_link(tmp_path: Path) -> None:
    async def whole() -> None:
        with Broker(tmp_path) as broker:
            async with Table(broker.port, server_status=STATUS, connect_s=0.5) as table:
                reason = await table.down()
                assert reason == "the casino server has said nothing on casino/status: is it running?"

    run(whole())


def test_after_a_lost_connection_the_server_is_asked_anew(tmp_path: Path) -> None:
    async def story(table: Table, server: Subscriber, proxy: FaultProxy) -> None:
        server.publish(STATUS, b"online", retain=True)
        await table.up()
        proxy.cut()
        await table.up(2)
        assert [link.up for link in table.heard.of(LinkChanged)] == [True, False, True]

    check(tmp_path, story, server_status=STATUS)
