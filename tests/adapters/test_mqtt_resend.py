"""What somebody wants again: once more in order, the same bytes, whatever happens; the cursor never goes back."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from controller.core.events import FaultGone, FaultSeen, Receipt
from tests.adapters.test_publisher_mqtt import QUICK, TABLE, Table, ack, drop_pubacks, proxied, refuse, run
from tests.broker import Subscriber, until
from tests.fault_proxy import FaultProxy, Kind, Packet


def numbers_of(table: Table, packet: Packet) -> int:
    return next(message.seqno for message in table.outbox.messages if message.data == packet.payload)


def numbers(table: Table, proxy: FaultProxy) -> list[int]:
    """The messages that the broker was sent, in order."""
    return [numbers_of(table, packet) for packet in proxy.sent("feed")]


def never_back(table: Table) -> None:
    """Receipts and cursor only rise, and each number is told once."""
    moves = [seqno for _, seqno in table.outbox.moves]
    assert moves == sorted(set(moves)) == [receipt.seqno for receipt in table.heard.of(Receipt)]


@pytest.mark.parametrize("first", [1, 7, 40])
def test_from_a_number_to_the_newest_and_on(first: int, tmp_path: Path) -> None:
    async def story() -> None:
        async with proxied(tmp_path) as (_, proxy), Table(proxy.port) as table:
            table.outbox.add(40)
            await table.drained()
            table.publisher.resend(range(first, 41))
            await until(lambda: not table.publisher.again, "all again")
            table.outbox.add(3)
            await table.drained()
            assert numbers(table, proxy) == [*range(1, 41), *range(first, 44)]
            never_back(table)

    run(story())


def test_what_is_on_its_way_comes_first(tmp_path: Path) -> None:
    """The order on the wire is that of one stream: it goes back once, and only when every PUBACK is there."""

    async def story() -> None:
        async with proxied(tmp_path) as (_, proxy), Table(proxy.port) as table:
            table.outbox.add(2)
            await table.drained()
            proxy.rule = drop_pubacks
            table.outbox.add(10)
            await until(lambda: len(numbers(table, proxy)) == 12, "ten on their way")
            table.publisher.resend(range(1, 13))
            await asyncio.sleep(0.2)
            assert len(numbers(table, proxy)) == 12
            proxy.rule = lambda packet: packet.raw
            proxy.cut()
            await table.drained()
            await until(lambda: not table.publisher.again, "all again")
            assert numbers(table, proxy) == [*range(1, 13), *range(1, 13)], "on the new connection, from the lower"
            never_back(table)

    run(story())


def test_a_lost_connection_does_not_end_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with proxied(tmp_path) as (_, proxy), Table(proxy.port) as table:
            table.outbox.add(60)
            await table.drained()
            told = 0

            def stop_after_20(packet: Packet) -> bytes | None:
                nonlocal told
                if packet.kind is Kind.PUBACK and packet.connection == 1:
                    told += 1
                    return packet.raw if told <= 20 else None
                return packet.raw

            proxy.rule = stop_after_20
            table.publisher.resend(range(11, 61))
            await until(lambda: told > 20 and table.publisher.again.start == 31, "twenty of them taken")
            proxy.cut()
            await until(lambda: not table.publisher.again, "all again")
            second = [numbers_of(table, packet) for packet in proxy.sent("feed", connection=2)]
            assert second == [*range(31, 61)], "from behind what the broker had taken again"
            assert [seqno for _, seqno in table.outbox.moves][-1] == 60
            never_back(table)

    run(story())


@pytest.mark.parametrize("told", [True, False])
def test_the_casino_servers_receipts_do_not_cut_it_short(told: bool, tmp_path: Path) -> None:
    """A receipt says what is safe, not what is wanted: the server acknowledges its newest at every repeat."""

    async def story() -> None:
        async with proxied(tmp_path) as (broker, proxy), Table(proxy.port, receipt="server") as table:
            await table.up()
            table.outbox.add(30)
            with Subscriber(broker.port) as server:
                await until(lambda: len(numbers(table, proxy)) == 30, "all sent")
                server.publish(f"{TABLE}/ack", ack(table.outbox, 25))
                await until(lambda: table.cursor == 25, "receipts")
                table.publisher.resend(range(5, 31))
                if told:
                    server.publish(f"{TABLE}/ack", ack(table.outbox, 30))
                await until(lambda: not table.publisher.again, "all again")
                assert numbers(table, proxy) == [*range(1, 31), *range(5, 31)]
                server.publish(f"{TABLE}/ack", ack(table.outbox, 30))
                await table.drained()
            never_back(table)

    run(story())


def test_a_refused_message_is_tried_again_and_the_rest_follows(tmp_path: Path) -> None:
    async def story() -> None:
        async with proxied(tmp_path) as (_, proxy):
            limits = replace(QUICK, refused_s=0.2)
            async with Table(proxy.port, limits=limits) as table:
                table.outbox.add(20)
                await table.drained()
                proxy.rule = refuse(table.outbox, 12)
                table.publisher.resend(range(10, 21))
                await until(lambda: table.heard.of(FaultSeen), "the fault")
                proxy.rule = lambda packet: packet.raw
                await until(lambda: not table.publisher.again, "all again")
                await until(lambda: table.heard.of(FaultGone)[1:], "the fault gone")
                assert sorted(set(numbers(table, proxy)[20:])) == [*range(10, 21)]
                never_back(table)

    run(story())


def test_asked_twice_it_goes_back_to_the_lower_number(tmp_path: Path) -> None:
    async def story() -> None:
        async with proxied(tmp_path) as (_, proxy), Table(proxy.port) as table:
            table.outbox.add(20)
            await table.drained()
            proxy.hold = True
            for first in (15, 3, 18):
                table.publisher.resend(range(first, 21))
            proxy.hold = False
            await until(lambda: not table.publisher.again, "all again")
            table.outbox.add(1)
            await table.drained()
            sent = numbers(table, proxy)[20:]
            assert sent[sent.index(3) :][:18] == [*range(3, 21)]
            assert sent[-1] == 21
            never_back(table)

    run(story())
