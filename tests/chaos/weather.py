"""What may happen between a table, its broker and the casino server, one thing after the other, in an order of chance.

Each fault is a generator that waits by yielding, so that the dealer deals on meanwhile. It begins and ends in fair
weather: the proxy lets everything pass, the broker runs and grants every right, the server is there.
"""

import asyncio
import contextlib
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from tests.broker import Broker
from tests.chaos.server import TOPIC, CasinoServer
from tests.fault_proxy import FaultProxy, Kind, Packet
from tests.live import LiveTable

DEADLINE_S = 90.0  # the table gives a silent broker 30 s, and a refused message as long
RIGHTS = "topic readwrite #\nuser table\n{}topic readwrite #\n"
CLIENT, BROKER = True, False  # who sent a packet
MANY = 20  # messages that pass while something stands

# Every packet that an MQTT 5 table and its broker exchange with QoS 1; PINGREQ and PINGRESP need a silence.
CUTS = [
    (Kind.CONNECT, CLIENT),
    (Kind.CONNACK, BROKER),
    (Kind.SUBSCRIBE, CLIENT),
    (Kind.SUBACK, BROKER),
    (Kind.PUBLISH, CLIENT),
    (Kind.PUBACK, BROKER),
    (Kind.PUBLISH, BROKER),
    (Kind.PUBACK, CLIENT),
    (Kind.DISCONNECT, CLIENT),
]
PINGS = [(Kind.PINGREQ, CLIENT), (Kind.PINGRESP, BROKER)]
OPENING = {Kind.CONNECT, Kind.CONNACK, Kind.SUBSCRIBE, Kind.SUBACK}

Fault = Iterator[None]


class Proxy:
    """A fault proxy on a loop and a thread of its own, for a test that waits for processes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ready: Future[FaultProxy] = Future()
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))

    async def _run(self) -> None:
        async with FaultProxy(self._port) as proxy:
            self._ready.set_result(proxy)
            await self._done.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        self.proxy = self._ready.result(DEADLINE_S)
        return self

    @property
    def port(self) -> int:
        return self.proxy.port

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()
        self._loop.close()

    def do(self, act: Callable[[FaultProxy], object]) -> Any:  # noqa: ANN401 - what `act` gives
        """Does it in the proxy's own loop."""

        async def done() -> object:
            return act(self.proxy)

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(DEADLINE_S)

    def cut(self, *, fair: bool = False) -> None:
        """With `fair` the next connection has no rule."""

        def cut(proxy: FaultProxy) -> None:
            proxy.cut()
            if fair:
                proxy.rule = lambda packet: packet.raw

        self.do(cut)

    def later_cut(self) -> None:
        """From within a rule: when the packet that it judges has passed."""
        self._loop.call_soon(self.proxy.cut)


class Weather:
    """`happened` counts the faults by name. `quiet`: the dealer rests. `restarted` is called after every new start.

    `folder` holds the broker's file of rights and its memory.
    """

    def __init__(
        self,
        folder: Path,
        broker: Broker,
        proxy: Proxy,
        table: LiveTable,
        server: CasinoServer,
        chance: random.Random,
        restarted: Callable[[], None],
    ) -> None:
        self.broker, self.proxy, self.table, self.server = broker, proxy, table, server
        self.quiet = False
        self.happened: Counter[str] = Counter()
        self._rights, self._memory = folder / "rights", folder / "mosquitto.db"
        self._random, self._restarted = chance, restarted

    def blow(self, *, cycles: int, patient: bool, without: Collection[str] = (), most: int | None = None) -> Fault:
        """Every fault once a cycle, or `most` of them. `patient` adds those that the table's own clock ends."""
        faults: list[Callable[[], Fault]] = [
            *[self._cut_at(kind, sender) for kind, sender in CUTS],
            self.puback_withheld,
            self.half_open,
            self.refused,
            self.slow,
            self.broker_restarts,
            self.broker_forgets,
            self.feed_denied,
            self.receipts_denied,
            self.receipts_lost,
            self.server_leaves,
            self.server_forgets,
            *[self.power_cut] * (10 if patient else 2),
        ]
        if patient:
            faults += [self._cut_at(kind, sender) for kind, sender in PINGS]
            faults += [self.puback_never, self.half_open_for_long, self.denied_for_long, self.receipts_lost_for_long]
        faults = [fault for fault in faults if fault.__name__ not in without]
        for _ in range(cycles):
            self._random.shuffle(faults)
            for fault in faults[:most]:
                yield from self._for(0.0, 0.2)
                yield from fault()
                self.happened[fault.__name__] += 1

    # --- waiting ------------------------------------------------------------------------------------------------

    def _for(self, least_s: float, most_s: float) -> Fault:
        end = time.monotonic() + self._random.uniform(least_s, most_s)
        while time.monotonic() < end:
            yield

    def _until(self, true: Callable[[], object], what: str) -> Fault:
        end = time.monotonic() + DEADLINE_S
        while not true():
            assert time.monotonic() < end, f"not within {DEADLINE_S:g} s: {what}: {self._tells()}"
            yield

    def _tells(self) -> str:
        """How things stand, for who must find out why something did not come."""
        status = self.table.status()
        last = [f"{p.connection} {'>' if p.from_client else '<'} {p.kind.name}" for p in self.proxy.proxy.log[-20:]]
        stands = status["link"], status["backlog"], sorted(self._codes())
        return f"{stands}, the server has {self.server.taken}; {last}; {self.table.said()[-2000:]}"

    def _taken(self, messages: int) -> Fault:
        """Until the broker has taken so many more, whoever hears them."""
        wanted = self._feed_pubacks() + messages
        yield from self._until(lambda: self._feed_pubacks() >= wanted, f"{messages} more PUBACKs")

    def _feed_pubacks(self) -> int:
        return sum(not p.from_client and p.kind is Kind.PUBACK for p in list(self.proxy.proxy.log))

    @contextlib.contextmanager
    def _rule(self, rule: Callable[[Packet], bytes | None]) -> Iterator[None]:
        self.proxy.proxy.rule = rule
        try:
            yield
        finally:
            self.proxy.proxy.rule = lambda packet: packet.raw

    # --- the line -----------------------------------------------------------------------------------------------

    def _cut_at(self, kind: Kind, sender: bool) -> Callable[[], Fault]:
        """The connection is reset at the next packet of that kind, before it passes or behind it."""
        passes = self._random.random() < 0.5
        struck = threading.Event()

        def rule(packet: Packet) -> bytes | None:
            if struck.is_set() or (packet.kind, packet.from_client) != (kind, sender):
                return packet.raw
            struck.set()
            if passes:
                self.proxy.later_cut()
                return packet.raw
            self.proxy.proxy.cut()
            return None

        def fault() -> Fault:
            struck.clear()
            with self._rule(rule):
                if kind in OPENING:
                    self.proxy.cut()
                self.quiet = (kind, sender) in PINGS
                goodbye = self._goodbyes() if kind is Kind.DISCONNECT else itertools.repeat(None)
                yield from self._until(lambda: struck.is_set() or next(goodbye), f"a {kind.name}")
                self.quiet = False

        fault.__name__ = f"cut at {kind.name} of the {'table' if sender is CLIENT else 'broker'}"
        return fault

    def _goodbyes(self) -> Fault:
        """The table is stopped in order, whenever it has a link that it could say goodbye on."""
        while True:
            if self.table.status()["link"]["up"]:
                self.table.stop()
                self._start()
            yield

    def puback_withheld(self) -> Fault:
        with self._rule(lambda packet: None if packet.kind is Kind.PUBACK and not packet.from_client else packet.raw):
            yield from self._for(0.3, 1.0)
            self.proxy.cut(fair=True)

    def puback_never(self) -> Fault:
        """Until the table gives the connection up."""
        before = self.proxy.proxy.connections
        with self._rule(lambda packet: None if packet.kind is Kind.PUBACK and not packet.from_client else packet.raw):
            yield from self._until(lambda: self.proxy.proxy.connections > before, "another connection")

    def half_open(self) -> Fault:
        self.proxy.do(lambda proxy: setattr(proxy, "hold", True))
        yield from self._for(0.3, 1.0)
        if self._random.random() < 0.5:
            self.proxy.cut()
        self.proxy.do(lambda proxy: setattr(proxy, "hold", False))

    def half_open_for_long(self) -> Fault:
        """Until the table finds it dead; what was held arrives late, from a client that is gone."""
        self.proxy.do(lambda proxy: setattr(proxy, "hold", True))
        yield from self._until(lambda: not self.table.status()["link"]["up"], "the link is down")
        yield from self._for(0.3, 3.0)
        self.proxy.do(lambda proxy: setattr(proxy, "hold", False))

    def refused(self) -> Fault:
        self.proxy.proxy.refuse = True
        self.proxy.cut()
        yield from self._for(0.3, 1.0)
        self.proxy.proxy.refuse = False

    def slow(self) -> Fault:
        self.proxy.proxy.delay_s = 0.03
        yield from self._for(0.5, 1.5)
        self.proxy.proxy.delay_s = 0.0

    # --- the broker ---------------------------------------------------------------------------------------------

    def broker_restarts(self) -> Fault:
        """In order, and it keeps its sessions."""
        self.broker.stop()
        yield from self._for(0.1, 0.8)
        self.broker.start()

    def broker_forgets(self) -> Fault:
        """Its power goes, and its memory with it: sessions, retained topics, what was on its way."""
        self.broker.kill()
        self._memory.unlink(missing_ok=True)
        yield from self._for(0.1, 0.8)
        self.broker.start()

    def _grant(self, denied: str = "") -> None:
        """Every right but those that the lines `denied` take from the table."""
        self._rights.write_text(RIGHTS.format(denied))
        self.broker.reload()

    def feed_denied(self) -> Fault:
        """A refused message stops the feed at itself; a new connection tries again."""
        self._grant(f"topic deny {TOPIC}/feed\n")
        yield from self._until(lambda: "feed_refused" in self._codes(), "the refusal on the table's panel")
        self._grant()
        self.proxy.cut()

    def denied_for_long(self) -> Fault:
        """Until the table tries again by itself, on the same connection."""
        self._grant(f"topic deny {TOPIC}/feed\n")
        yield from self._until(lambda: "feed_refused" in self._codes(), "the refusal on the table's panel")
        self._grant()
        yield from self._until(lambda: "feed_refused" not in self._codes(), "the end of the refusal")

    def receipts_denied(self) -> Fault:
        """The table may not hear the server: a connection that cannot do its work is none."""
        self._grant(f"topic deny {TOPIC}/ack\n")
        self.proxy.cut()
        yield from self._for(0.5, 1.5)
        self._grant()
        self.proxy.cut()

    def _codes(self) -> set[str]:
        return {condition["code"] for condition in self.table.status()["conditions"]}

    # --- the casino server --------------------------------------------------------------------------------------

    def receipts_lost(self) -> Fault:
        """The server has what the table does not know that it has: it must drop it when it comes again."""
        yield from self._until(lambda: self.table.status()["link"]["up"], "the link: without it no betting opens")
        self.server.mute = True
        yield from self._until(self._server_follows(), "a message that the server has taken")
        self.proxy.cut()
        yield from self._repeated()
        self.server.mute = False

    def receipts_lost_for_long(self) -> Fault:
        """Until the table sends again by itself, on the same connection."""
        yield from self._until(lambda: self.table.status()["link"]["up"], "the link: without it no betting opens")
        self.server.mute = True
        yield from self._until(self._server_follows(), "a message that the server has taken")
        yield from self._repeated()
        self.server.mute = False

    def _server_follows(self) -> Callable[[], bool]:
        taken = self.server.taken
        return lambda: self.server.taken > taken

    def _repeated(self) -> Fault:
        repeats = self.server.consumer.repeats
        yield from self._until(lambda: self.server.consumer.repeats > repeats, "a message that comes again")

    def server_leaves(self) -> Fault:
        """It comes back to its session: the broker has kept what it missed, and what the broker lost is asked for."""
        self._server_goes()
        yield from self._for(0.2, 1.5)
        self.server.arrive(keeps_session=True)

    def server_forgets(self) -> Fault:
        """It comes back without its session, when the broker has taken messages that nobody heard: a gap.

        Unless it is filled before it shows: half a minute after its last receipt the table sends again.
        """
        if self.server.misses:
            self.proxy.cut()
        yield from self._until(lambda: not self.server.misses, "the end of the gap before")
        gaps = self.server.gaps
        self._server_goes()
        yield from self._taken(MANY)
        head = self.table.status()["seqno"]
        self.server.arrive(keeps_session=False)
        yield from self._until(lambda: self.server.gaps > gaps or self.server.taken >= head, "the gap")

    def _server_goes(self) -> None:
        if self._random.random() < 0.5:
            self.server.crash()
        else:
            self.server.leave()

    # --- the table ----------------------------------------------------------------------------------------------

    def power_cut(self) -> Fault:
        time.sleep(self._random.uniform(0, 0.03))  # the last scan is on its way
        self.table.kill()
        self._start()
        yield

    def _start(self) -> None:
        self.table.start()
        self._restarted()
