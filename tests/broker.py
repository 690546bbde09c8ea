"""A real mosquitto on a free loopback port, in a directory of its own, and a subscriber that keeps what it gets."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests import published

HOST = "127.0.0.1"
DEADLINE_S = 20.0  # generous: what is waited for is nearly always there in milliseconds


def free_port() -> int:
    """One that no connection gets by chance (ip_local_port_range begins above), nor a test beside this one."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind((HOST, port))
            return port


async def until(true: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Waits for a condition; AssertionError names it when it does not come."""
    end = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what}"
        await asyncio.sleep(0.005)


class Broker:
    """`config` are lines beside the listener; `listener` are lines that belong to it (TLS). Starts at once.

    Anonymous clients are welcome unless `config` says otherwise. `log` is what mosquitto said.
    """

    def __init__(self, folder: Path, *config: str, listener: tuple[str, ...] = ()) -> None:
        program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        assert program is not None, "these tests need the broker: apt-get install mosquitto"
        self.port = free_port()
        self._command = [program, "-c", str(folder / "mosquitto.conf")]
        self._log = folder / "mosquitto.log"
        lines = ["per_listener_settings false", f"listener {self.port} {HOST}", *listener, *config]
        lines.append("max_queued_messages 100000")  # a subscriber may have to wait for its turn
        if not any(line.startswith("allow_anonymous") for line in config):
            lines.append("allow_anonymous true")
        if os.geteuid() == 0:
            lines.append("user root")  # else it gives up its rights, and with them this folder
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        """Starts on the same port as ever; returns when it accepts."""
        assert self._process is None, "it runs already"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + DEADLINE_S
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection((HOST, self.port), timeout=1):
                return
            assert self._process.poll() is None, f"mosquitto ended: {self.log}"
            assert time.monotonic() < end, f"mosquitto does not listen: {self.log}"
            time.sleep(0.01)

    def stop(self) -> None:
        """Ends it the friendly way; it saves what its configuration lets it save."""
        self._end(subprocess.Popen.terminate)

    def kill(self) -> None:
        """SIGKILL: a power cut as far as the broker can tell."""
        self._end(subprocess.Popen.kill)

    def _end(self, how: Callable[["subprocess.Popen[bytes]"], None]) -> None:
        if self._process is not None:
            how(self._process)
            self._process.wait(DEADLINE_S)
            self._process = None

    def reload(self) -> None:
        """SIGHUP: mosquitto reads its files of rights and passwords again."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGHUP)

    def restart(self) -> None:
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Got(NamedTuple):
    topic: str
    payload: bytes
    retain: bool
    properties: Properties | None
    at: float  # time.monotonic()


class Subscriber:
    """Keeps every message on `topics` (QoS 1) in `got`, from the moment it is made until closed; may publish too.

    It returns to a broker that comes back, as a client with a session of an hour: nothing acknowledged to a publisher
    is lost to it while the broker lives. When it is closed all that a table said is held against the schemas, unless
    the test made it up (`made_up`).
    """

    def __init__(
        self,
        port: int,
        *topics: str,
        name: str = "casino",
        user: tuple[str, str] | None = None,
        made_up: bool = False,
    ) -> None:
        self.got: list[Got] = []
        self._made_up = made_up
        self._topics = topics
        self._ready = threading.Event()
        client = mqtt.Client(CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5)
        client.on_connect = self._on_connect
        client.on_subscribe = lambda *_: self._ready.set()
        client.on_message = self._on_message
        client.reconnect_delay_set(1, 1)
        if user is not None:
            client.username_pw_set(*user)
        self.client = client
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 3_600
        client.connect(HOST, port, 30, clean_start=mqtt.MQTT_CLEAN_START_FIRST_ONLY, properties=properties)
        client.loop_start()
        assert self._ready.wait(DEADLINE_S), "the subscriber found no broker"

    def _on_connect(self, client: mqtt.Client, *_: object) -> None:
        if self._topics:
            client.subscribe([(topic, 1) for topic in self._topics])
        else:
            self._ready.set()

    def _on_message(self, _client: mqtt.Client, _userdata: object, message: mqtt.MQTTMessage) -> None:
        self.got.append(
            Got(message.topic, bytes(message.payload), message.retain, message.properties, time.monotonic())
        )

    def returns(self) -> threading.Event:
        """Set when it has subscribed again, to a broker that was stopped before this call."""
        self._ready.clear()
        return self._ready

    def on(self, leaf: str) -> list[Got]:
        """What came on topics that end in `/leaf`."""
        return [got for got in list(self.got) if got.topic.endswith(f"/{leaf}")]

    def wait(self, true: Callable[[], object], what: str) -> None:
        """Blocks until a condition holds; AssertionError names it when it does not come."""
        end = time.monotonic() + DEADLINE_S
        while not true():
            assert time.monotonic() < end, f"not within {DEADLINE_S:g} s: {what}"
            time.sleep(0.005)

    def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, qos: int = 1, reply_to: str = "", tag: bytes = b""
    ) -> None:
        """Returns when the broker has it. `reply_to` and `tag`: MQTT 5's response topic and correlation data."""
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if reply_to:
            properties.ResponseTopic = reply_to
        if tag:
            properties.CorrelationData = tag
        self.client.publish(topic, payload, qos, retain, properties).wait_for_publish(DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()
        # paho closes its sockets when it is deleted; in a cycle, they may be deleted first, in some later test.
        self.client.on_connect = self.client.on_subscribe = self.client.on_message = None
        for got in () if self._made_up else self.got:
            published.hold(got.topic, got.payload)
