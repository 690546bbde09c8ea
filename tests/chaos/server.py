"""A casino server that keeps to the integrator's guide, and comes and goes.

Its shelf is a `Consumer`: a message is stored, then acknowledged. A repeat is dropped and the newest acknowledged
again; of what comes behind a gap nothing is stored: the rest is asked for with `resend`, or waited for.
"""

import contextlib
import json
import queue
import random
import time
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from controller import feed
from tests import schemas
from tests.broker import HOST
from tests.casino import command
from tests.consumer import Consumer

TOPIC = "baccarat/BAC-07"
REPLIES = f"{TOPIC}/replies/server"
STATUS = "casino/status"
AGAIN_S = 2.0  # a command without a reply is sent again
EXPIRES_S = 3_600
SESSION_S = 3_600
NAP_S = 1  # between its tries to reach the broker


class CasinoServer:
    """`tick` does its work. `gaps` and `resends` count what it missed and how often it asked for it.

    While `mute` it takes and acknowledges nothing.
    """

    def __init__(self, port: int, chance: random.Random) -> None:
        self.consumer = Consumer()
        self.gaps = self.resends = 0
        self.mute = False
        self._port, self._random = port, chance
        self._inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._client: mqtt.Client | None = None
        self._generation = ""
        self._missed = 0  # the number of a message that came behind a gap; 0: none is missing
        self._asks = False  # whether it asks for what is missing, or waits
        self._command: tuple[str, bytes] | None = None  # its id and bytes, until its reply is here
        self._again_at = 0.0

    @property
    def taken(self) -> int:
        """The newest message that it has with all before it."""
        return len(self.consumer.raw)

    @property
    def misses(self) -> bool:
        """Whether something came behind a gap that is not filled yet."""
        return bool(self._missed)

    # --- coming and going -------------------------------------------------------------------------------------

    def arrive(self, *, keeps_session: bool) -> None:
        """A new process; without its session the broker has forgotten what it held for it."""
        assert self._client is None, "it is here already"
        client = mqtt.Client(CallbackAPIVersion.VERSION2, "casino-server", protocol=mqtt.MQTTv5)
        client.on_connect = self._on_connect
        client.on_message = lambda _c, _u, message: self._inbox.put(bytes(message.payload))
        client.reconnect_delay_set(NAP_S, NAP_S)
        client.will_set(STATUS, b"offline", qos=1, retain=True)
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = SESSION_S
        start = False if keeps_session else mqtt.MQTT_CLEAN_START_FIRST_ONLY
        client.connect_async(HOST, self._port, 10, clean_start=start, properties=properties)
        client.loop_start()
        self._client = client

    def leave(self) -> None:
        """In order: it says so, and goes."""
        client = self._gone()
        if client.is_connected():
            client.publish(STATUS, b"offline", qos=1, retain=True)
            client.disconnect()
        client.loop_stop()

    def crash(self) -> None:
        """Its connection ends without a word; what had come and was not yet stored is lost with it."""
        client = self._gone()
        client.loop_stop()
        if (sock := client.socket()) is not None:
            sock.close()
        with contextlib.suppress(queue.Empty):
            while True:
                self._inbox.get_nowait()

    def _gone(self) -> mqtt.Client:
        assert self._client is not None, "it is here"
        client, self._client = self._client, None
        return client

    def _on_connect(self, client: mqtt.Client, *_: object) -> None:
        client.subscribe([(f"{TOPIC}/feed", 1), (f"{TOPIC}/replies/#", 1)])
        client.publish(STATUS, b"online", qos=1, retain=True)

    # --- its work -----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Takes what has come, acknowledges it, asks for what is missing."""
        came = False
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._inbox.get_nowait())
                came = True
        if came and self.taken and not self.mute:
            self._publish("ack", self.consumer.receipt)
        if self._missed and self._missed <= self.taken:
            self._missed = 0
        if self._missed and self._asks and time.monotonic() > self._again_at:
            self._ask()

    def _take(self, payload: bytes) -> None:
        told = json.loads(payload)
        if "jsonrpc" in told:
            self._on_reply(schemas.validate_as("reply", payload.removesuffix(b"\n")))
        elif told["seqno"] <= self.taken + 1:
            self.consumer.take([payload])
        else:
            if not self._missed:
                self.gaps += 1
                self._asks = self._random.random() < 0.5
            self._missed, self._generation = told["seqno"], told["generation"]

    def _on_reply(self, told: dict[str, Any]) -> None:
        if self._command is not None and told["id"] == self._command[0]:
            assert "result" in told, told
            self._command, self._again_at = None, 0.0

    def _ask(self) -> None:
        """`resend` from the first message that is missing; the same bytes again until there is a reply."""
        if self._command is None:
            expires = feed.utc(time.time_ns() + EXPIRES_S * 10**9)
            data = command("resend", {"generation": self._generation, "from": self.taken + 1}, expires=expires)
            self._command = json.loads(data)["id"], data
        self.resends += 1
        self._publish("commands", self._command[1], reply=True)
        self._again_at = time.monotonic() + AGAIN_S

    def _publish(self, leaf: str, data: bytes, *, reply: bool = False) -> None:
        if self._client is None or not self._client.is_connected():
            return
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if reply:
            properties.ResponseTopic = REPLIES
        self._client.publish(f"{TOPIC}/{leaf}", data, qos=1, properties=properties)
