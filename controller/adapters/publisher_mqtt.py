"""The feed to an MQTT 5 broker: the journal's exact bytes, at least once, in one order (DESIGN 5).

Keeps no message of its own: each connection is a fresh paho client, so that only the outbox sends again, and nothing
but a PUBACK's reason code is success. paho is driven by the running loop, one `turn` at a time; a thread exists only
while a connection is made, because name lookup, TCP and TLS block. What the network or the broker does wrong ends the
connection; what a handler of ours raises ends `run`, so that the daemon restarts.
"""

import asyncio
import contextlib
import errno
import json
import logging
import random
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from controller.link.certificates import alert, hung_up, not_accepted
from controller.ports import Answer, Ask, Message, Outbox, Submit
from controller.reporting import HIGH, LOW, Report, no_receipt, receipted

FEED_TYPE = "application/cloudevents+json; charset=utf-8"
LEVEL_TYPE = "application/json"

WINDOW = 16  # messages without a PUBACK; two more packets stay free for state and status (mosquitto grants 20)
PACKET_MAX = 65_536  # bytes: what the broker may send us
OVERHEAD = 9  # bytes of a PUBLISH beside topic, properties and payload: fixed header 5, topic length 2, packet id 2
COMMANDS_MAX = 16  # packets of the broker without our acknowledgement: bounds what commands may cost at once
REPLIES_MAX = 2  # packets of replies on their way: what the feed's window leaves free
KEPT_S = 3_600  # the broker keeps commands for a table that is away so long; what has expired is refused
RESENT = 64  # messages read at a time to be sent again
STEADY_S = 5.0  # a connection that held so long starts the back-off anew
BRIEF = 3  # so many in a row that held less: perhaps two machines with one id, where the broker does not say so
LEVEL_DELAY_S = 0.02  # state and status wait so long for a newer one, and never stand before the feed
TLS_READS = 64  # packets a turn takes from TLS's own buffer before others get theirs
CREDENTIALS = (0x86, 0x87, 0x8C)  # MQTT 5, 3.2.2.2: bad user name or password, not authorized, bad method
UNREADABLE = "Protocol error"  # paho's word for a packet that it cannot read
TAKEN_OVER = 0x8E  # MQTT 5, 3.14.2.1: another client came with our client id

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files: the authority that signed the broker's certificate (None: the system's), our certificate and key."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is, and as whom the table comes. `machine` keeps two machines with one table id apart.

    A dead connection is found within two `keepalive_s` (whole seconds); lookup, TCP and TLS have `connect_s` together,
    and so have CONNACK and SUBACK.
    """

    host: str
    port: int
    table: str
    machine: str
    prefix: str = "baccarat"
    tls: Tls | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    keepalive_s: int = 10
    connect_s: float = 10.0

    def topic(self, leaf: str) -> str:
        return f"{self.prefix}/{self.table}/{leaf}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds; `high` and `low` are the backlog's marks in messages (I34).

    `stall_s` without progress sends again; a refused message is tried again after `refused_s`; `taken_over_s` is the
    rest after another client came with our id; `farewell_s` bounds the goodbye of a clean stop; `backoff_s` is the
    first and the longest rest between connections: the first delivery after an outage waits for no more.
    """

    stall_s: float = 30.0
    refused_s: float = 30.0
    taken_over_s: float = 30.0
    farewell_s: float = 2.0
    backoff_s: tuple[float, float] = (0.1, 2.0)
    high: int = HIGH
    low: int = LOW


class PublisherMqtt:
    """`state` gives the bytes of `…/state`, `status` what `…/status` says beside status, backlog and generation.

    `receipt`: with `broker` a PUBACK is the receipt; with `server` it is the casino server's word on `…/ack`, and a
    PUBACK only slides the window. `ask` answers what comes on `…/commands`. With `server_status`, the topic on which
    the casino server says online or offline, the link is up only while it is. `synchronised`: whether anybody has set
    the wall clock; `time_lost`: whether it may have stood still before this run, so that nobody can tell which of the
    commands that the broker has kept are still in force. All belongs to the loop's own thread.
    """

    name = "mqtt"

    def __init__(
        self,
        broker: Broker,
        *,
        primary: bool,
        receipt: Literal["broker", "server"],
        state: Callable[[], bytes],
        status: Callable[[], dict[str, Any]],
        ask: Ask,
        server_status: str | None = None,
        synchronised: Callable[[], bool] = lambda: True,
        time_lost: Callable[[], bool] = lambda: False,
        limits: Limits = Limits(),
    ) -> None:
        if set("+#\0") & set(broker.topic("")):
            raise ValueError(f"{broker.topic('')!r} is no MQTT topic: prefix and table id hold no '+', '#' or NUL")
        self.broker, self.receipt, self.limits = broker, receipt, limits
        self.state, self.status = state, status
        self.ask, self.server_status, self.synchronised = ask, server_status, synchronised
        self.time_lost = time_lost
        self.again = range(0)  # messages that somebody wants again, as far as the broker has not taken them again
        self._primary = primary
        self._session: _Session | None = None
        self._report: Report | None = None

    def diag(self) -> dict[str, Any]:
        """For people: where the broker is, `fault` (why the link is down), and how much of the window is in use."""
        fault = self._report.trouble if self._report is not None else "not begun yet"
        return {
            "port": f"{self.broker.host}:{self.broker.port}",
            **({"fault": fault} if fault else {}),
            "flying": 0 if self._session is None else self._session.flying,
            "window": WINDOW,
        }

    def resend(self, numbers: range) -> bool:
        """Sends these messages, up to the newest, again and in order, then goes on; the cursor stays. Always True.

        What comes new waits behind them. A lost connection does not end it, the end of the program does.
        """
        self.again = range(min(numbers.start, self.again.start) if self.again else numbers.start, numbers.stop)
        if self._session is not None:
            self._session.rewind()
        return True

    def wake_state(self) -> None:
        """Says that state or status may have changed; what did is published, the newest only."""
        if self._session is not None:
            self._session.wake_levels()

    async def run(self, outbox: Outbox, submit: Submit) -> None:
        """Publishes until cancelled; then says goodbye, within `farewell_s`."""
        report = Report(self.name, outbox, submit, primary=self._primary, high=self.limits.high, low=self.limits.low)
        self._report = report
        await report.run(self._stay_connected(outbox, report), self._turn)

    def _turn(self) -> None:
        if self._session is not None:
            self._session.wire.turn()

    async def _stay_connected(self, outbox: Outbox, report: Report) -> None:
        loop = asyncio.get_running_loop()
        first, longest = self.limits.backoff_s
        delay, brief, fresh = first, 0, self.time_lost()
        while True:
            began = loop.time()
            session = self._session = _Session(self, outbox, report)
            try:
                end = await session.run(fresh=fresh)
            finally:
                self._session = None
            fresh = end.unreadable or (fresh and not session.up)
            steady = loop.time() - began > STEADY_S
            delay = first if steady else min(longest, delay * 2)
            brief = brief + 1 if session.up and not steady else 0
            again = f", again and again: {_taken_over(self.broker)}" if brief >= BRIEF else ""
            report.down(end.reason + again)
            await asyncio.sleep(max(end.rest_s, delay * random.uniform(0.5, 1.0)))  # noqa: S311 - jitter is no secret


class _End(NamedTuple):
    """Why a connection ended, and the least time before the next.

    `unreadable`: the broker sent a packet that is none for paho, as it makes one of a property that holds U+FEFF. What
    it keeps for the table it would send again first thing: the next connection has it forget that. A command that is
    lost with it was never acknowledged, and its sender says it again until it has the reply.
    """

    reason: str
    rest_s: float = 0.0
    unreadable: bool = False


class _Level:
    """A retained topic: the newest value wins. `key` is what counts as a change; `mid` is the packet on its way."""

    __slots__ = ("key", "make", "mid", "refused", "topic")

    def __init__(self, topic: str, make: Callable[[], tuple[bytes, bytes]]) -> None:
        self.topic, self.make = topic, make
        self.key: bytes | None = None
        self.mid: int | None = None
        self.refused = False


class _Caller:
    """One connection up to the broker's word that the table is let in and may read its topics: then `_come_up`.

    `_routes` says what becomes of a message, by the topics that are subscribed.
    """

    def __init__(
        self,
        client: mqtt.Client,
        broker: Broker,
        limits: Limits,
        server_status: str | None,
        synchronised: Callable[[], bool],
    ) -> None:
        self._client, self._broker, self._limits = client, broker, limits
        self._server_status, self._synchronised = server_status, synchronised
        self._loop = asyncio.get_running_loop()
        self.wire = _Wire(client, self._settle)
        self._routes: dict[str, Callable[[mqtt.MQTTMessage], None]] = {}
        self._complaint = ""
        self._receive_max = self._packet_max = 0

    def _come_up(self) -> None:
        raise NotImplementedError

    def _settle(self) -> None:
        """The end of every turn."""

    def _acknowledges(self, route: Callable[[mqtt.MQTTMessage], None] | None) -> bool:
        """Whether a message is acknowledged as soon as it is looked at."""
        return True

    def _note_packets(self) -> None:
        client, note = self._client, self.wire.note
        client.on_log = self._on_log
        client.on_connect = lambda _c, _u, _flags, code, said: note(partial(self._on_connack, code, said))
        client.on_subscribe = lambda _c, _u, _mid, codes, _said: note(partial(self._on_suback, codes))
        client.on_message = lambda _c, _u, message: note(partial(self._on_message, message))
        client.on_disconnect = lambda _c, _u, flags, code, said: note(partial(self._on_disconnect, flags, code, said))

    def _on_log(self, _client: mqtt.Client, _userdata: object, level: int, text: str) -> None:
        """Only in its log paho tells why a read failed: with TLS 1.3 a refused certificate shows as that."""
        if level == mqtt.MQTT_LOG_ERR:
            self._complaint = text

    def _clock(self) -> str:
        """What our clock says, where nobody has set it."""
        return "" if self._synchronised() else time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())

    def _on_connack(self, code: ReasonCode, said: Properties | None) -> None:
        host = self._broker.host
        if code.is_failure:
            hint = (
                "check casino.mqtt.username and password_file" if code.value in CREDENTIALS else "see the broker's log"
            )
            self.wire.end(f"{host} refuses the table: {_words(code, said)}: {hint}")
        elif getattr(said, "MaximumQoS", 2) < 1 or not getattr(said, "RetainAvailable", 1):
            self.wire.end(f"{host} lacks QoS 1 or retained messages, which the table needs: configure the broker")
        else:
            self._receive_max = getattr(said, "ReceiveMaximum", 65_535)
            self._packet_max = getattr(said, "MaximumPacketSize", 2**28)
            self._client.subscribe([(topic, self._options(topic)) for topic in self._routes])

    def _options(self, topic: str) -> SubscribeOptions:
        """Of a status the retained one is wanted; a command or receipt that somebody retained must show that it is."""
        wanted = topic == self._server_status
        handling = SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE if wanted else SubscribeOptions.RETAIN_DO_NOT_SEND
        return SubscribeOptions(qos=1, retainAsPublished=not wanted, retainHandling=handling)

    def _on_suback(self, codes: list[ReasonCode]) -> None:
        refused = [f"{topic}: {code}" for topic, code in zip(self._routes, codes, strict=False) if code.is_failure]
        if refused or len(codes) != len(self._routes):
            topics = ", ".join(refused) or "its answer is not to what was asked"
            self.wire.end(f"{self._broker.host} refuses to subscribe the table: {topics}: give it the right to read")
        else:
            self._come_up()

    def _on_message(self, message: mqtt.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        route = self._routes.get(topic)
        if route is None:
            log.warning("ignored a message on a topic that the table did not ask for: %r", topic)
        else:
            route(message)
        if self._acknowledges(route):
            self._client.ack(message.mid, message.qos)

    def _on_disconnect(self, flags: mqtt.DisconnectFlags, code: ReasonCode, said: Properties | None) -> None:
        if not flags.is_disconnect_packet_from_server:
            self.wire.end(self._lost() or _LOST.get(str(code), str(code)), unreadable=str(code) == UNREADABLE)
        elif code.value == TAKEN_OVER:
            self.wire.end(f"{code}: {_taken_over(self._broker)}", self._limits.taken_over_s)
        else:
            self.wire.end(f"{self._broker.host} ended the connection: {_words(code, said)}")

    def _lost(self) -> str | None:
        """What the end of a connection says of a certificate, where it may be of one."""
        broker = self._broker
        where = f"{broker.host}:{broker.port}"
        if told := alert(where, self._complaint):
            return told
        if broker.tls is None or self._receive_max:
            return None  # it had answered
        return hung_up(where, shown=broker.tls.cert is not None)


class _Session(_Caller):
    """One connection's part of the feed: what is sent, what of it is acknowledged, when to send again.

    `_sent` is the last message sent and `_flights` (packet id -> seqno) those of them without a PUBACK, oldest first,
    so that everything up to `_taken()` has one.
    """

    def __init__(self, owner: PublisherMqtt, outbox: Outbox, report: Report) -> None:
        broker = owner.broker
        super().__init__(
            _new_client(broker, _client_id(broker)), broker, owner.limits, owner.server_status, owner.synchronised
        )
        self._owner, self._outbox, self._report = owner, outbox, report
        self._status = _Level(self._broker.topic("status"), partial(self._make_status, "online"))
        self._state = _Level(self._broker.topic("state"), self._make_state)
        will = _properties("", PacketTypes.WILLMESSAGE)
        self._client.will_set(self._status.topic, self._make_status("offline")[1], qos=1, retain=True, properties=will)
        self._commands = _Commands(self._client, self.wire, self._broker, owner.ask, outbox)
        self._routes = {
            self._broker.topic("commands"): self._commands.take,
            **({self._broker.topic("ack"): self._on_ack} if owner.receipt == "server" else {}),
            **({owner.server_status: self._on_server_status} if owner.server_status else {}),
        }
        self._server_up: bool | None = None if owner.server_status else True
        self._levels = (self._status, self._state)
        self.up = self._leaving = False
        self._base = self._sent = 0
        self._flights: dict[int, int] = {}
        self._rewinds = False  # as soon as nothing is on its way: order is that of one stream
        self._blocked: int | None = None  # a message the broker refused: nothing after it is sent
        self._server_receipt = 0
        self._begun_at = self._moved_at = self._receipt_at = self._refused_at = self._loop.time()
        self._levels_due = False
        self._levels_timer: asyncio.TimerHandle | None = None

    async def run(self, *, fresh: bool) -> _End:
        """From the first packet to the loss of the connection; cancelled, to the goodbye. `fresh` is `_connect`'s."""
        self._note_packets()
        try:
            await self.wire.open(self._broker, fresh=fresh)
        except (OSError, UnicodeError) as error:
            return _End(_why(error, self._broker, self._clock()))
        self._begun_at = self._loop.time()
        tick = min(1.0, self._limits.stall_s / 4, self._limits.refused_s / 4)
        try:
            while not self.wire.closed.done():
                await asyncio.wait({self.wire.closed}, timeout=tick)
                self.wire.turn(self._tick)
            return self.wire.closed.result()
        except asyncio.CancelledError:
            await self._farewell()
            raise
        finally:
            self._leaving = True
            if self._levels_timer is not None:
                self._levels_timer.cancel()
            self.wire.hang_up()

    def wake_levels(self) -> None:
        if self._levels_timer is None and not self._leaving:
            self._levels_timer = self._loop.call_later(LEVEL_DELAY_S, self._levels_changed)

    def _levels_changed(self) -> None:
        self._levels_timer = None
        self._levels_due = True
        self.wire.turn()

    # --- what the broker says -----------------------------------------------------------------------

    def _note_packets(self) -> None:
        super()._note_packets()
        note = self.wire.note
        self._client.on_publish = lambda _c, _u, mid, code, said: note(partial(self._on_puback, mid, code, said))

    def _acknowledges(self, route: Callable[[mqtt.MQTTMessage], None] | None) -> bool:
        return route != self._commands.take  # which acknowledges what it has answered

    def _come_up(self) -> None:
        if self.up:
            self.wire.end(_LOST[UNREADABLE])
            return
        self._base = self._sent = self._behind()
        self.up = self._levels_due = True
        self._tell_link()

    def _on_server_status(self, message: mqtt.MQTTMessage) -> None:
        """`online` or `offline`, bare or as the member `status` of an object, as the table's own status is."""
        online = _is_online(bytes(message.payload))
        if online is self._server_up:  # one that says so every second says nothing new
            return
        if online and self._server_up is False and self._owner.receipt == "server" and self._sent > self._cursor():
            self._rewinds = True  # it may have missed what it gave no receipt for
        self._server_up = online
        self._tell_link()

    def _tell_link(self) -> None:
        if not self.up or self._server_up is None:
            return
        if self._server_up:
            self._report.up()
        else:
            self._report.down(f"the casino server says on {self._owner.server_status} that it is offline")

    def _on_puback(self, mid: int, code: ReasonCode, said: Properties) -> None:
        seqno = self._flights.pop(mid, None)
        if seqno is not None:
            self._moved_at = self._loop.time()
            if code.is_failure:
                self._refuse(seqno, _words(code, said))
            return
        if self._commands.taken(mid, _words(code, said) if code.is_failure else ""):
            return
        for level in self._levels:
            if mid == level.mid:
                level.mid, level.refused = None, code.is_failure
                self._levels_due = True
                if code.is_failure:
                    log.error("the broker refuses %s: %s", level.topic, _words(code, said))

    def _refuse(self, seqno: int, why: str) -> None:
        """Stops the feed at this message; the clock or a new connection tries again."""
        if self._blocked is not None and self._blocked < seqno:
            return  # sent before the first refusal came back; it is sent again after it
        self._blocked, self._refused_at = seqno, self._loop.time()
        what = f"the broker refuses message {seqno} on {self._broker.topic('feed')}: {why}"
        self._report.refused(seqno, f"{what}: let it take what the table publishes; the feed waits")

    def _on_ack(self, message: mqtt.MQTTMessage) -> None:
        """The casino server's receipt, cumulative: right in generation, number and hash, or it is nothing."""
        payload = bytes(message.payload)
        if message.retain:
            log.warning("ignored a retained receipt: %r", payload[:200])
            return
        found = receipted(payload, self._outbox, max(self._cursor(), self._server_receipt))
        self._server_receipt = found or self._server_receipt

    # --- what goes out ------------------------------------------------------------------------------

    def _cursor(self) -> int:
        return self._outbox.cursor(self._owner.name)

    def _taken(self) -> int:
        """The message up to which the broker has all."""
        first = next(iter(self._flights.values()), self._sent + 1)
        return min(first, self._blocked or first) - 1

    def _settle(self) -> None:
        """The end of every turn: move the cursor, fill the window, then the levels."""
        if not self.up or self.wire.closed.done():
            return
        taken = self._taken()
        if taken > self._base:
            self._report.passed(taken)
        receipt = taken if self._owner.receipt == "broker" else self._server_receipt
        if receipt > self._cursor():
            self._receipt_at = self._loop.time()
            self._outbox.advance(self._owner.name, receipt)
            self._report.receipt(receipt)
            self._report.passed(receipt)
        self._sent_again(taken)
        if not self._owner.again:
            self._sent = max(self._sent, receipt)
        if not self._leaving:
            self._pump()
            self._send_levels()
            self._commands.pump(self._free, self._packet_max)

    @property
    def flying(self) -> int:
        """Messages of the feed on their way."""
        return len(self._flights)

    def rewind(self) -> None:
        """Goes back for what is wanted again."""
        self._rewinds = True
        self.wire.turn()

    def _sent_again(self, taken: int) -> None:
        """What the broker has taken again is wanted no more."""
        again = self._owner.again
        if again and not self._rewinds:
            self._owner.again = range(max(again.start, taken + 1), again.stop)

    def _behind(self) -> int:
        """The message behind which sending begins: that of the receipt, or before what is wanted again."""
        again = self._owner.again
        return min(self._cursor(), again.start - 1) if again else self._cursor()

    def _pump(self) -> None:
        if self._rewinds:
            if self._flights:
                return
            self._rewinds = False
            self._restart()
        while self._blocked is None and self._outbox.head > self._sent:
            window = max(1, min(WINDOW, self._receive_max - len(self._levels)))
            room = min(self._free(), window - (self._sent - self._taken()))
            if room < 1:
                return
            batch = self._outbox.read(self._sent, room)
            assert batch, "what is up to the head can be read"
            if not all(self._publish(message) for message in batch):
                return

    def _free(self) -> int:
        """How many more packets the broker takes at once."""
        levels = sum(level.mid is not None for level in self._levels)
        return self._receive_max - len(self._flights) - levels - self._commands.flying

    def _publish(self, message: Message) -> bool:
        """Sends one message of the feed; False when it may not or cannot go."""
        topic, properties = self._broker.topic("feed"), _properties(message.type, PacketTypes.PUBLISH)
        size = _packet_size(topic, message.data, properties)
        if size > self._packet_max:
            self._refuse(message.seqno, f"its packet of {size} bytes is over the broker's limit of {self._packet_max}")
            return False
        if message.seqno != self._sent + 1:
            log.warning("messages %d to %d are no longer in the journal: skipped", self._sent + 1, message.seqno - 1)
        now = self._loop.time()
        if not self._flights:
            self._moved_at = now
        if self._sent <= self._cursor():
            self._receipt_at = now
        mid = self.wire.send(topic, message.data, properties)
        if mid is None:
            return False
        self._flights[mid] = self._sent = message.seqno
        return True

    def _send_levels(self) -> None:
        if not self._levels_due:
            return
        self._levels_due = False
        for level in self._levels:
            if self._free() < 1:
                self._levels_due = True  # the next turn with room
            elif level.mid is None:  # else its PUBACK looks again
                key, data = level.make()
                if key != level.key:
                    level.key = key
                    self._send_level(level, data)

    def _send_level(self, level: _Level, data: bytes) -> None:
        level.mid = self.wire.send(level.topic, data, _properties("", PacketTypes.PUBLISH), retain=True)

    def _make_state(self) -> tuple[bytes, bytes]:
        state = self._owner.state()
        return state, state

    def _make_status(self, word: str) -> tuple[bytes, bytes]:
        """What counts as a change, and the whole: the backlog alone is none."""
        told = {"status": word, **self._owner.status(), "generation": self._outbox.generation}
        whole = {**told, "backlog": self._outbox.head - self._cursor()}
        return _json(told), _json(whole)

    # --- time, and the end --------------------------------------------------------------------------

    def _tick(self) -> None:
        """About once a second: paho's keepalive, then what has waited too long."""
        self._client.loop_misc()
        now, limits = self._loop.time(), self._limits
        if not self.up:
            if now - self._begun_at > self._broker.connect_s:
                self.wire.end(_silent(self._broker))
        elif self._server_up is None and now - self._begun_at > self._broker.connect_s:
            self._server_up = False
            self._report.down(f"the casino server has said nothing on {self._owner.server_status}: is it running?")
        elif self._flights and now - self._moved_at > limits.stall_s:
            reason = f"no acknowledgement from {self._broker.host} for {limits.stall_s:g} s"
            self._report.stalled(reason)
            self.wire.end(reason)
        elif self._blocked is not None:
            if now - self._refused_at > limits.refused_s:
                self._refused_at, self._rewinds = now, True
        elif self._sent > self._cursor() and now - self._receipt_at > limits.stall_s:
            log.warning("no receipt from the casino server for %g s: the feed is sent again", limits.stall_s)
            self._receipt_at, self._rewinds = now, True
            self._report.stalled(no_receipt(limits.stall_s))

    def _restart(self) -> None:
        """Sends again from receipt + 1, or from before it where that is wanted."""
        self._blocked = None
        self._base = self._sent = self._behind()

    async def _farewell(self) -> None:
        """The last messages, then `offline` in place of the will, then a normal DISCONNECT."""
        self.wire.turn()
        self._leaving = True
        if not self.up or self.wire.closed.done():
            return
        status, until = self._status, self._loop.time() + self._limits.farewell_s
        self._send_level(status, self._make_status("offline")[1])
        self.wire.turn()
        while (self._flights or status.mid is not None) and not self.wire.closed.done() and self._loop.time() < until:
            await asyncio.wait({self.wire.closed}, timeout=0.01)
        told = status.mid is None and not status.refused
        word = "Normal disconnection" if told else "Disconnect with will message"
        self.wire.turn(partial(self._client.disconnect, ReasonCode(PacketTypes.DISCONNECT, word)))


class Trial(NamedTuple):
    """What a broker does with who comes as the table: why it does not let the table in; empty where it does.

    `online`: what the casino server says of itself, None where it says nothing.
    """

    fault: str
    online: bool | None


async def trial(
    broker: Broker,
    *,
    receipt: Literal["broker", "server"],
    server_status: str | None,
    synchronised: Callable[[], bool],
) -> Trial:
    """Comes to the broker as the table would, under a client id of its own, reads what the table may read, and goes.

    Publishes nothing, leaves no will and no session: a table that is connected meanwhile does not notice.
    """
    leaves = ("commands", "ack") if receipt == "server" else ("commands",)
    return await _Visitor(broker, [*map(broker.topic, leaves)], server_status, synchronised).run()


class _Visitor(_Caller):
    def __init__(
        self, broker: Broker, topics: list[str], server_status: str | None, synchronised: Callable[[], bool]
    ) -> None:
        client = _new_client(broker, f"{_client_id(broker)}-doctor")
        super().__init__(client, broker, Limits(), server_status, synchronised)
        self._routes = dict.fromkeys(topics, lambda _message: None)
        if server_status is not None:
            self._routes[server_status] = self._on_server_status
        self._online: bool | None = None
        self._in = False
        self._seen: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> Trial:
        self._note_packets()
        try:
            await self.wire.open(self._broker, kept_s=0, fresh=True)
        except (OSError, UnicodeError) as error:
            return Trial(_why(error, self._broker, self._clock()), None)
        try:
            ends: set[asyncio.Future[Any]] = {self.wire.closed, self._seen}
            await asyncio.wait(ends, timeout=self._broker.connect_s, return_when=asyncio.FIRST_COMPLETED)
            if self.wire.closed.done():
                alerted = "" if self._receive_max else await asyncio.to_thread(_alert_of, self._broker, self._clock())
                return Trial(alerted or self.wire.closed.result().reason, None)
            self.wire.turn(self._client.disconnect)
            return Trial("" if self._in else _silent(self._broker), self._online)
        finally:
            self.wire.hang_up()

    def _come_up(self) -> None:
        self._in = True
        self._look()

    def _on_server_status(self, message: mqtt.MQTTMessage) -> None:
        self._online = _is_online(bytes(message.payload))
        self._look()

    def _look(self) -> None:
        all_told = self._in and (self._server_status is None or self._online is not None)
        if all_told and not self._seen.done():
            self._seen.set_result(None)


class _Out(NamedTuple):
    """The packets of an answer, with its command, which is acknowledged when they are gone."""

    command: mqtt.MQTTMessage
    topic: str
    packets: Iterator[tuple[bytes, Properties]]


class _Commands:
    """The casino server's commands on one connection: asked as they come, each acknowledged with its answer.

    What was not acknowledged comes again after a restart or a lost connection, and `ask` knows a repeat by its key.
    """

    def __init__(self, client: mqtt.Client, wire: "_Wire", broker: Broker, ask: Ask, outbox: Outbox) -> None:
        self._client, self._wire, self._broker, self._ask, self._outbox = client, wire, broker, ask, outbox
        self._out: deque[_Out] = deque()
        self._mids: set[int] = set()

    @property
    def flying(self) -> int:
        return len(self._mids)

    def take(self, message: mqtt.MQTTMessage) -> None:
        answer = self._ask(bytes(message.payload), message.retain)
        answer.add_done_callback(lambda done: self._wire.turn(partial(self._answered, message, done)))

    def _answered(self, message: mqtt.MQTTMessage, done: "asyncio.Future[Answer]") -> None:
        """Puts the answer in line; an error of `ask` is one of ours and ends `run`."""
        answer = done.result()
        topic = _reply_topic(self._broker, message)
        packets = self._packets(answer, message) if topic else iter(())
        self._out.append(_Out(message, topic, packets))

    def _packets(self, answer: Answer, message: mqtt.MQTTMessage) -> Iterator[tuple[bytes, Properties]]:
        correlation = getattr(message.properties, "CorrelationData", None)
        after, last = answer.resend.start - 1, answer.resend.stop - 1
        while after < last and (batch := self._outbox.read(after, min(RESENT, last - after))):
            for resent in batch:
                yield resent.data, _reply_properties(correlation, resent.type)
            after = batch[-1].seqno
        yield answer.reply, _reply_properties(correlation)

    def pump(self, free: Callable[[], int], packet_max: int) -> None:
        """Sends what there is room for, one answer after the other.

        A packet over the broker's limit is left out: sent, it would end the connection, and its command, which nobody
        had acknowledged then, would come again and end the next one.
        """
        while self._out and len(self._mids) < REPLIES_MAX and free() > 0:
            out = self._out[0]
            packet = next(out.packets, None)
            if packet is None:
                self._out.popleft()
                self._client.ack(out.command.mid, out.command.qos)
                continue
            data, properties = packet
            size = _packet_size(out.topic, data, properties)
            if size > packet_max:
                log.error(
                    "no reply to %r: %d bytes are over the broker's limit of %d", out.topic[:200], size, packet_max
                )
                continue
            mid = self._wire.send(out.topic, data, properties)
            if mid is None:
                return
            self._mids.add(mid)

    def taken(self, mid: int, refused: str) -> bool:
        """Whether the packet with this id was a reply's; the broker has it, or says why not."""
        if mid not in self._mids:
            return False
        self._mids.discard(mid)
        if refused:
            log.error("the broker refuses a reply: %s", refused)
        return True


class _Wire:
    """One paho client, driven by the running loop.

    paho's callbacks only take notes (`note`); `turn` works them off when paho is done. So `closed` ends with a reason
    when the network or the broker ended the connection, and with an exception when something of ours is wrong.
    """

    def __init__(self, client: mqtt.Client, settle: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._client, self._settle = client, settle
        self.closed: asyncio.Future[_End] = self._loop.create_future()
        self._notes: deque[Callable[[], None]] = deque()
        self._fd = -1
        self._opened = self._writing = self._turning = False

    def note(self, note: Callable[[], None]) -> None:
        self._notes.append(note)

    def end(self, reason: str, rest_s: float = 0.0, *, unreadable: bool = False) -> None:
        """Ends the connection; the first reason counts."""
        if not self.closed.done():
            self.closed.set_result(_End(reason, rest_s, unreadable))

    async def open(self, broker: Broker, kept_s: int = KEPT_S, *, fresh: bool) -> None:
        """Connects in a thread of its own; OSError and UnicodeError say why it could not."""
        loop, client = self._loop, self._client
        done: asyncio.Future[None] = loop.create_future()
        client.on_socket_open = partial(_prepare, done)

        def hand_over(error: BaseException | None) -> None:
            if done.done():
                _close(client)
            elif error is not None:
                done.set_exception(error)
            else:
                done.set_result(None)

        def connect() -> None:
            error: BaseException | None = None
            try:
                _connect(client, broker, kept_s, fresh=fresh)
            except OSError as raised:
                error = raised.with_traceback(None)  # its frames hold the socket of a TLS handshake that failed
            except BaseException as raised:  # noqa: BLE001 - it is raised where `done` is awaited
                error = raised
            try:
                loop.call_soon_threadsafe(hand_over, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                _close(client)

        # A daemon thread: a name lookup that hangs holds up neither the loop's pool nor the program's end.
        threading.Thread(target=connect, name="mqtt-connect", daemon=True).start()
        try:
            async with asyncio.timeout(broker.connect_s):
                await done
        except BaseException:
            _close(client)  # given up, it may have connected all the same
            raise
        self._attach()

    def _attach(self) -> None:
        self._opened = True
        client, sock = self._client, self._client.socket()
        if sock is not None:
            client.on_socket_close = lambda *_: self._detach()
            client.on_socket_register_write = lambda *_: self._arm()
            self._fd = sock.fileno()
            self._loop.add_reader(self._fd, self.turn, self._read)
        self._loop.call_soon(self.turn)

    def turn(self, step: Callable[[], object] | None = None) -> None:
        """Lets paho do `step`, works off what it noted, settles, and writes what is to be written."""
        if self._turning or self.closed.done() or not self._opened:
            return
        self._turning = True
        try:
            if step is not None:
                step()
            self._work_off()
            self._settle()
            if self._client.want_write():
                self._client.loop_write()
            self._work_off()
            if self._client.socket() is None:
                self.end("connection lost")
            self._watch_writing()
        except Exception as error:  # noqa: BLE001 - a reader has no caller: `run` raises it from `closed`
            if not self.closed.done():
                self.closed.set_exception(error)
        finally:
            self._turning = False

    def _work_off(self) -> None:
        while self._notes:
            self._notes.popleft()()

    def _read(self) -> None:
        """TLS may keep whole packets in a buffer of its own, of which the socket never tells."""
        for _ in range(TLS_READS):
            self._client.loop_read()
            sock = self._client.socket()
            if not isinstance(sock, ssl.SSLSocket) or not sock.pending():
                return
        self._loop.call_soon(self.turn, self._read)

    def _arm(self) -> None:
        """Something waits to be sent: this turn sends it, or the next."""
        if not self._turning:
            self._loop.call_soon(self.turn)

    def _watch_writing(self) -> None:
        want = self._fd >= 0 and self._client.want_write()
        if want and not self._writing:
            self._loop.add_writer(self._fd, self.turn, self._client.loop_write)
        elif self._writing and not want and self._fd >= 0:
            self._loop.remove_writer(self._fd)
        self._writing = want

    def _detach(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
        self._fd = -1

    def send(self, topic: str, data: bytes, properties: Properties, *, retain: bool = False) -> int | None:
        """Puts a PUBLISH with QoS 1 in line: its packet id; None when the connection is gone, which `closed` tells."""
        info = self._client.publish(topic, data, qos=1, retain=retain, properties=properties)
        if info.rc == mqtt.MQTT_ERR_NO_CONN:
            return None
        assert info.rc == mqtt.MQTT_ERR_SUCCESS, mqtt.error_string(info.rc)
        return info.mid

    def hang_up(self) -> None:
        """Closes without a DISCONNECT, where the connection still stands: the broker then publishes the will."""
        self._detach()
        _close(self._client)


def _is_online(payload: bytes) -> bool:
    """Whether a status says so; what says anything else is offline."""
    if payload == b"online":
        return True
    try:
        told = json.loads(payload)
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and told.get("status") == "online"


def _reply_topic(broker: Broker, message: mqtt.MQTTMessage) -> str:
    """Where the asker wants its reply: below `…/replies/`, where the table may write; empty where it wants none."""
    topic = str(getattr(message.properties, "ResponseTopic", ""))
    if topic and (not topic.startswith(broker.topic("replies/")) or set("+#") & set(topic)):
        log.warning("no reply to %r: a response topic begins with %s", topic[:200], broker.topic("replies/"))
        return ""
    return topic


def _reply_properties(correlation: bytes | None, message_type: str = "") -> Properties:
    properties = _described(Properties(PacketTypes.PUBLISH), message_type)  # type: ignore[no-untyped-call]
    if correlation is not None:
        properties.CorrelationData = correlation
    return properties


def _described(properties: Properties, message_type: str) -> Properties:
    """With what says what the payload is: a message of the feed, of that type, or with no type other JSON."""
    properties.ContentType = FEED_TYPE if message_type else LEVEL_TYPE
    if message_type:
        properties.UserProperty = ("type", message_type)
    return properties


def _packet_size(topic: str, data: bytes, properties: Properties) -> int:
    """The bytes of a PUBLISH with QoS 1, at most (MQTT 5, 3.3)."""
    return len(topic.encode()) + len(data) + len(properties.pack()) + OVERHEAD  # type: ignore[no-untyped-call]


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class _Packed(Properties):
    """Packed once: paho packs anew for every PUBLISH, which is half of what a PUBLISH costs."""

    def pack(self) -> bytes:
        if "packed" not in vars(self):
            vars(self)["packed"] = super().pack()  # type: ignore[no-untyped-call]
        packed: bytes = vars(self)["packed"]
        return packed


@cache
def _properties(message_type: str, packet: int) -> Properties:
    """A feed message's properties, or with no type those of state, status and will; not changed once sent."""
    return _described(_Packed(packet), message_type)  # type: ignore[no-untyped-call]


def _alert_of(broker: Broker, clock: str) -> str:
    """What the broker says to our certificate when it hears nothing else; empty where it has nothing to say.

    With TLS 1.3 it looks at it after the handshake, and its alert is lost where it hangs up on a CONNECT not yet read.
    """
    if broker.tls is None:
        return ""
    try:
        with (
            socket.create_connection((broker.host, broker.port), broker.connect_s) as raw,
            _tls_context(broker.tls).wrap_socket(raw, server_hostname=broker.host) as line,
        ):
            line.recv(1)
    except ssl.SSLError as error:
        return _why(error, broker, clock)
    except OSError as error:
        log.debug("%s:%d: %s", broker.host, broker.port, error)  # the first attempt has said more
    return ""


def _silent(broker: Broker) -> str:
    return f"{broker.host}:{broker.port} takes the connection and does not answer: is it an MQTT broker?"


def _client_id(broker: Broker) -> str:
    return f"{broker.table}-{broker.machine}"


def _taken_over(broker: Broker) -> str:
    return f"does another machine connect as {_client_id(broker)}? Only one may be table {broker.table}"


def _new_client(broker: Broker, name: str) -> mqtt.Client:
    version = CallbackAPIVersion.VERSION2
    client = mqtt.Client(version, name, protocol=mqtt.MQTTv5, reconnect_on_failure=False, manual_ack=True)
    client.max_inflight_messages = 0  # no window of paho's: it would queue, and send in its own time
    client.connect_timeout = broker.connect_s
    if broker.username is not None:
        client.username_pw_set(broker.username, broker.password)
    return client


def _connect(client: mqtt.Client, broker: Broker, kept_s: int, *, fresh: bool) -> None:
    """Blocks: files, name lookup, TCP, TLS; sends the CONNECT. `kept_s`: how long the broker keeps the session.

    `fresh`: it forgets what it kept until now.
    """
    if broker.tls is not None:
        client.tls_set_context(_tls_context(broker.tls))
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.MaximumPacketSize = PACKET_MAX
    properties.ReceiveMaximum = COMMANDS_MAX
    properties.SessionExpiryInterval = kept_s
    client.connect(broker.host, broker.port, broker.keepalive_s, clean_start=fresh, properties=properties)


def _tls_context(tls: Tls) -> ssl.SSLContext:
    """TLS 1.2 or newer, the broker's certificate and name checked. Read anew each time: certificates are renewed."""
    for path in (tls.ca, tls.cert, tls.key):
        if path is not None:
            Path(path).open("rb").close()  # ssl's own error does not name the file
    context = ssl.create_default_context(cafile=tls.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key, password="")  # none at all, and OpenSSL would ask the terminal
    return context


def _prepare(done: "asyncio.Future[None]", _client: mqtt.Client, _userdata: object, sock: socket.socket) -> None:
    """Between TLS and CONNECT: a connection given up must not come late with our client id, and be the one kept."""
    if done.done():
        raise ConnectionAbortedError(errno.ECONNABORTED, "given up")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _close(client: mqtt.Client) -> None:
    sock = client.socket()
    client.on_socket_close = client.on_socket_register_write = client.on_disconnect = None
    if sock is not None:
        with contextlib.suppress(OSError):  # closing: the peer may be gone
            sock.close()


_LOST = {  # paho's words for what it found out by itself
    "Unspecified error": "connection lost",
    "Keep alive timeout": "the broker does not answer any more",
    UNREADABLE: "the broker breaks the MQTT protocol",
}


def _words(code: ReasonCode, said: Properties | None) -> str:
    """The broker's reason, with its own sentence where it sent one."""
    sentence = getattr(said, "ReasonString", "")
    return f"{code} ({sentence})" if sentence else str(code)


def _why(error: OSError | UnicodeError, broker: Broker, clock: str = "") -> str:
    """A sentence for the technician: what is wrong, and what to look at. `clock` as `not_accepted` has it."""
    where = f"{broker.host}:{broker.port}"
    match error:
        case UnicodeError():
            return f"{broker.host!r} is no host name: correct casino.mqtt.host"
        case socket.gaierror():
            return f"no address for {broker.host}: check the name, the network and the name server"
        case ConnectionRefusedError():
            return f"{where} refuses: is the broker running, and listening on this address and port?"
        case TimeoutError():
            return f"{where} does not answer: check cable, address and firewall"
        case ssl.SSLCertVerificationError():
            return not_accepted(where, error.verify_code, error.verify_message, clock=clock)
        case ssl.SSLError():
            reason = error.reason or str(error)
            return alert(where, reason) or f"TLS with {where} failed: {reason}: check casino.mqtt.tls and the port"
        case OSError(filename=str(path)):
            return f"cannot read {path}: {error.strerror}: correct casino.mqtt.tls"
        case _:
            return f"{where}: {error.strerror or error}"
