"""The publisher at a real mosquitto: a backlog beside bare paho's of the same window, and many tables at one broker.

The ratio of many tables to few needs a machine that does nothing else: what others run delays the many more.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from controller.adapters.journal_sqlite import JournalSqlite
from controller.adapters.publisher_mqtt import FEED_TYPE, WINDOW, PublisherMqtt
from controller.adapters.publisher_mqtt import Broker as Where
from controller.feed import row_hash
from controller.ports import Message, Sealed
from tests.bench.report import Figure
from tests.broker import Broker, until
from tests.outbox import FakeOutbox, Heard

MESSAGES, RUNS, BATCH = 10_000, 5, 1_000
TEXT = "x" * 400  # the usual size of a message
PROCESSES, FEW, MANY = 4, 20, 200
HERE = Path(__file__).parent


# --- a backlog ------------------------------------------------------------------------------------------------


async def filled(folder: Path) -> JournalSqlite:
    """A journal with so many messages, two in three rows as a shoe has them."""
    outbox = FakeOutbox()
    outbox.add(MESSAGES, TEXT)
    journal = JournalSqlite(folder, allow_volatile=True, reserve_bytes=0)
    journal.open()
    previous, rows = bytes(32), []
    for message in outbox.messages:
        digest = row_hash(previous, b"{}", [message.data], None)
        rows.append(Sealed(message.seqno, previous, b"{}", (message,), None, None, digest))
        previous = digest
        if len(rows) == BATCH:
            await journal.commit(rows)
            rows = []
    return journal


async def drained(journal: JournalSqlite, port: int, name: str) -> float:
    """Messages a second of the real publisher, from its first packet to the last receipt."""
    publisher = PublisherMqtt(
        Where("127.0.0.1", port, "BENCH", name),
        primary=True,
        receipt="broker",
        state=lambda: b"{}",
        status=dict,
        ask=lambda _data, _retained: asyncio.get_running_loop().create_future(),
    )
    publisher.name = name  # a cursor of its own
    began = time.perf_counter()
    running = asyncio.create_task(publisher.run(journal, Heard()))
    await until(lambda: journal.cursor(name) == journal.head, "the last receipt", 120)
    took = time.perf_counter() - began
    running.cancel()
    await asyncio.wait({running})
    return MESSAGES / took


def bare(messages: list[Message], port: int) -> float:
    """Messages a second of paho alone: its own queue, thread and window."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, "bare", protocol=mqtt.MQTTv5)
    client.max_inflight_messages_set(WINDOW)
    done = threading.Event()
    left = len(messages)

    def on_publish(*_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    client.on_publish = on_publish
    began = time.perf_counter()
    client.connect("127.0.0.1", port)
    client.loop_start()
    for message in messages:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.ContentType = FEED_TYPE
        properties.UserProperty = ("type", message.type)
        client.publish("baccarat/BARE/feed", message.data, qos=1, properties=properties)
    assert done.wait(120), "bare paho drains"
    took = time.perf_counter() - began
    client.disconnect()
    client.loop_stop()
    return len(messages) / took


async def backlog(folder: Path, port: int) -> tuple[list[float], list[float]]:
    journal = await filled(folder)
    messages = journal.read(0, MESSAGES)
    ours, floor = [], []
    for run in range(RUNS):
        ours.append(await drained(journal, port, f"run-{run}"))
        floor.append(bare(messages, port))
    journal.close()
    return ours, floor


# --- many tables ----------------------------------------------------------------------------------------------


def latencies_ms(count: int, port: int) -> list[float]:
    """From outbox to PUBACK, of so many tables in four processes."""
    each = count // PROCESSES
    command = [sys.executable, str(HERE / "tables.py"), str(port)]
    feeding = [subprocess.Popen([*command, str(n * each), str(each)], stdout=subprocess.PIPE) for n in range(PROCESSES)]
    told = [process.communicate()[0] for process in feeding]
    assert all(process.returncode == 0 for process in feeding)
    return [ms for each_told in told for ms in json.loads(each_told)]


def measure() -> list[Figure]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "broker").mkdir()
        with Broker(folder / "broker") as broker:
            ours, floor = asyncio.run(backlog(folder, broker.port))
            few, many = latencies_ms(FEW, broker.port), latencies_ms(MANY, broker.port)
    p99_few, p99_many = (quantiles(taken, n=100)[98] for taken in (few, many))
    return [
        Figure("a backlog of 10,000: the publisher, median of 5", median(ours), "messages/s"),
        Figure("a backlog of 10,000: bare paho, median of 5", median(floor), "messages/s"),
        Figure("a backlog: publisher / bare paho", median(ours) / median(floor), "x", "at least 0.6"),
        Figure("20 tables at one broker: outbox to PUBACK, p99", p99_few, "ms"),
        Figure("200 tables at one broker: outbox to PUBACK, p99", p99_many, "ms"),
        Figure("200 tables / 20 tables, p99", p99_many / p99_few, "x", "at most 3"),
    ]
