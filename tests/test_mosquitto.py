"""The rights that `config/mosquitto` gives, on a real mosquitto: each user has its own topics and not one more."""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from controller.adapters.publisher_mqtt import Tls
from controller.ports import Answer
from tests.adapters.test_publisher_mqtt import Table, ack, run
from tests.authority import Authority
from tests.broker import DEADLINE_S, HOST, Broker, Subscriber, until
from tests.pages import ROOT

CONFIG = ROOT / "config" / "mosquitto"
OWN, OTHER, SERVER, ADMIN = "BAC-07", "BAC-08", "casino-server", "admin"
LEAVES = ("feed", "state", "status", "replies/casino", "ack", "commands")
TOPICS = [f"baccarat/{table}/{leaf}" for table in (OWN, OTHER) for leaf in LEAVES]
TOPICS += ["baccarat/feed", "elsewhere", "casino/status"]
WRITES = {
    OWN: {f"baccarat/{OWN}/{leaf}" for leaf in ("feed", "state", "status", "replies/casino")},
    SERVER: {f"baccarat/{table}/{leaf}" for table in (OWN, OTHER) for leaf in ("ack", "commands")} | {"casino/status"},
}
READS = {
    OWN: {f"baccarat/{OWN}/ack", f"baccarat/{OWN}/commands", "casino/status"},
    SERVER: {f"baccarat/{table}/{leaf}" for table in (OWN, OTHER) for leaf in LEAVES[:4]} | {"casino/status"},
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """With the shipped rights, a password for each user, and one user beside them who may do all."""
    passwords, acl = tmp_path / "passwords", tmp_path / "acl"
    passwords.touch(mode=0o600)
    for user in (OWN, OTHER, SERVER, ADMIN):
        subprocess.run(["mosquitto_passwd", "-b", passwords, user, f"secret of {user}"], check=True, timeout=60)
    shutil.copyfile(CONFIG / "baccarat.acl", acl)
    with acl.open("a") as file:
        file.write(f"user {ADMIN}\ntopic readwrite #\n")
    acl.chmod(0o600)
    with Broker(tmp_path, "allow_anonymous false", f"password_file {passwords}", f"acl_file {acl}") as broker:
        yield broker


def signed_in(user: str) -> tuple[str, str]:
    return user, f"secret of {user}"


@pytest.mark.parametrize("user", WRITES)
def test_what_each_may_write(user: str, broker: Broker) -> None:
    """The broker says no to the rest: MQTT 5 has a word for it, and nobody receives it."""
    with (
        Subscriber(broker.port, "#", name="all", user=signed_in(ADMIN), made_up=True) as everybody,
        Subscriber(broker.port, name=f"{user}-x", user=signed_in(user), made_up=True) as own,
    ):
        codes: dict[int, bool] = {}
        answered = threading.Event()

        def on_publish(_client: mqtt.Client, _userdata: object, mid: int, code: Any, _said: object) -> None:  # noqa: ANN401
            codes[mid] = not code.is_failure
            if len(codes) == len(TOPICS):
                answered.set()

        own.client.on_publish = on_publish
        sent = {own.client.publish(topic, b"x", qos=1).mid: topic for topic in TOPICS}
        assert answered.wait(DEADLINE_S)
        everybody.wait(lambda: len(everybody.got) >= len(WRITES[user]), "what is allowed")
        assert {sent[mid] for mid, good in codes.items() if good} == WRITES[user]
        assert {got.topic for got in everybody.got} == WRITES[user]


@pytest.mark.parametrize("user", READS)
def test_what_each_may_read(user: str, broker: Broker) -> None:
    with (
        Subscriber(broker.port, "#", name=f"{user}-x", user=signed_in(user), made_up=True) as own,
        Subscriber(broker.port, name="writer", user=signed_in(ADMIN), made_up=True) as everybody,
    ):
        for topic in TOPICS:  # the last one all may read: what comes before it would have come
            everybody.publish(topic, b"x")
        own.wait(lambda: own.on("status") and own.got[-1].topic == "casino/status", "the last")
        assert {got.topic for got in own.got} == READS[user]


def test_nobody_is_let_in_without_a_password(broker: Broker) -> None:
    refused: list[str] = []
    ended = threading.Event()
    client = mqtt.Client(CallbackAPIVersion.VERSION2, "guest", protocol=mqtt.MQTTv5)
    client.on_connect = lambda _c, _u, _flags, code, _said: (refused.append(str(code)), ended.set())
    client.connect(HOST, broker.port)
    client.loop_start()
    assert ended.wait(DEADLINE_S)
    client.disconnect()
    client.loop_stop()
    assert refused[0] == "Not authorized"


def test_a_table_and_its_casino_server_work_with_them(broker: Broker) -> None:
    """Feed, levels, receipts, commands, replies, and the server's own status."""

    async def story() -> None:
        topics = [f"baccarat/+/{leaf}" for leaf in ("feed", "replies/#", "status")]
        with Subscriber(broker.port, *topics, user=signed_in(SERVER), made_up=True) as server:
            server.publish("casino/status", b"online", retain=True)
            name, password = signed_in(OWN)
            signed = {"username": name, "password": password}
            async with Table(broker.port, receipt="server", server_status="casino/status", **signed) as table:
                await table.up()
                table.outbox.add(20)
                await until(lambda: len(server.on("feed")) == 20, "the feed")
                server.publish(f"baccarat/{OWN}/ack", ack(table.outbox, 20))
                await table.drained()
                reply_to = f"baccarat/{OWN}/replies/casino"
                server.publish(f"baccarat/{OWN}/commands", b'{"ping":1}', reply_to=reply_to)
                await until(lambda: table.asked, "the command")
                table.asked[0][2].set_result(Answer(b'{"result":{}}'))
                await until(lambda: [got for got in server.got if got.topic == reply_to], "the reply")
            await until(lambda: json.loads(server.on("status")[-1].payload)["status"] == "offline", "the goodbye")

    run(story())


@pytest.mark.parametrize("certificates", [False, True])
def test_the_shipped_broker_takes_a_table_by_password_or_by_certificate(certificates: bool, tmp_path: Path) -> None:
    """`mosquitto.conf` as it stands, and with the lines for certificates switched on; only paths and port are ours."""
    authority = Authority(tmp_path)
    broker_cert = authority.issue("broker")
    for name, issued in zip(("broker.pem", "broker.key"), broker_cert, strict=True):
        assert Path(issued) == tmp_path / name
    shutil.copyfile(CONFIG / "baccarat.acl", tmp_path / "baccarat.acl")
    (tmp_path / "passwords").touch(mode=0o600)
    subprocess.run(["mosquitto_passwd", "-b", tmp_path / "passwords", OWN, "secret"], check=True, timeout=60)
    own = authority.issue(OWN)
    authority.issue("stranger")
    authority.revoke("stranger")
    text = (CONFIG / "mosquitto.conf").read_text()
    lines = [line.removeprefix("#") if certificates else line for line in text.splitlines()]
    lines = [
        re.sub(r"/(etc|var/lib)/mosquitto", str(tmp_path), line) for line in lines if re.match(r"[a-z_]+ \S+$", line)
    ]
    kept = [line for line in lines if not line.startswith(("per_listener", "listener"))]
    if certificates:
        kept = [line for line in kept if not line.startswith("password_file")]

    async def story() -> None:
        tls = {"tls": Tls(authority.ca, *own)} if certificates else {"tls": Tls(authority.ca)}
        who = {} if certificates else {"username": OWN, "password": "secret"}
        with Broker(tmp_path, listener=tuple(kept)) as broker:
            async with Table(broker.port, server_status="casino/status", **tls, **who) as table:
                table.outbox.add(5)
                await table.drained()

    run(story())
