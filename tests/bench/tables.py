"""Many tables in one process: the real publisher, fed three messages a second each. `tables.py PORT FIRST COUNT`.

Prints, as JSON, the milliseconds from each message in the outbox to its PUBACK, the first seconds aside.
"""

import asyncio
import json
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from controller.adapters.publisher_mqtt import Broker, PublisherMqtt
from controller.ports import Answer
from tests.broker import until
from tests.outbox import FakeOutbox, Heard

EVERY_S = 1 / 3
WARM_S, MEASURED_S = 5.0, 20.0
TEXT = "x" * 400  # the usual size of a message


class Timed(FakeOutbox):
    """Notes how long each message waits for its receipt."""

    def __init__(self) -> None:
        super().__init__()
        self.taken_ms: list[tuple[float, float]] = []  # when it was added, and how long it took
        self._added: list[float] = []

    def feed(self) -> None:
        self._added.append(time.monotonic())
        self.add(text=TEXT)

    def advance(self, publisher: str, seqno: int) -> None:
        before, now = self.cursor(publisher), time.monotonic()
        super().advance(publisher, seqno)
        self.taken_ms += [(at, (now - at) * 1_000) for at in self._added[before:seqno]]


def no_command(_data: bytes, _retained: bool) -> "asyncio.Future[Answer]":
    raise AssertionError("nobody commands these tables")


async def table(number: int, port: int, outbox: Timed) -> None:
    publisher = PublisherMqtt(
        Broker("127.0.0.1", port, f"BENCH-{number}", "bench"),
        primary=True,
        receipt="broker",
        state=lambda: b"{}",
        status=dict,
        ask=no_command,
    )
    running = asyncio.create_task(publisher.run(outbox, Heard()))
    await asyncio.sleep(random.uniform(0, WARM_S - 1))
    end = time.monotonic() + WARM_S + MEASURED_S
    while time.monotonic() < end:
        outbox.feed()
        await asyncio.sleep(EVERY_S)
    await until(lambda: outbox.cursor("mqtt") == outbox.head, "the last receipt")
    running.cancel()
    await asyncio.wait({running})


async def main(port: int, first: int, count: int) -> None:
    began = time.monotonic()
    outboxes = [Timed() for _ in range(count)]
    await asyncio.gather(*[table(first + n, port, outbox) for n, outbox in enumerate(outboxes)])
    taken = [
        ms for outbox in outboxes for at, ms in outbox.taken_ms if began + WARM_S < at < began + WARM_S + MEASURED_S
    ]
    print(json.dumps(taken))


asyncio.run(main(*map(int, sys.argv[1:])))
