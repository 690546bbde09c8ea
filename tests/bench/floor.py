"""The floor: what "journal durably, then publish" costs with nothing around it. `floor.py TTY DATABASE PORT`."""

import os
import sqlite3
import sys

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion


def main(tty: str, database: str, port: str) -> None:
    db = sqlite3.connect(database, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE row (line BLOB)")
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.connect("127.0.0.1", int(port))
    client.loop_start()
    line = os.open(tty, os.O_RDWR | os.O_NOCTTY)
    number = 0
    print("up", flush=True)
    while True:
        for code in os.read(line, 4096).split():
            db.execute("INSERT INTO row VALUES (?)", (code,))
            if code != b"NOREAD":
                number += 1
                client.publish("floor/feed", b'{"n":%d}' % number, qos=1)


main(*sys.argv[1:])
