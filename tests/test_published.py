"""What holds every published message against the schemas does find a wrong one, wherever a test's table says it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from jsonschema import ValidationError

from controller import feed
from controller.adapters.journal_sqlite import DATABASE
from controller.core import facts as f
from controller.core.cards import DECK, Slot
from controller.core.events import Elapsed
from controller.core.facts import Phase
from controller.core.state import Link, Shoe, State
from tests import published
from tests.broker import Broker, Subscriber
from tests.live import LiveTable, wait_for
from tests.test_schemas import FEED, HASH, MESSAGES, PROFILE, STATUS, states

GENERATION = "68f1c2d4-9be01a77"
FEED_TOPIC = "baccarat/BAC-07/feed"


def entry(read: str) -> feed.Entry:
    fact = f.CardDealt(37, 5, Slot.P1, DECK[0], read, Slot.B1)
    before = State(seqno=1040, phase=Phase.DEALING, shoe=Shoe(12, PROFILE), link=Link(up=True))
    return feed.Entry(Elapsed(0), (fact,), before, before._replace(seqno=1041), 10**18, synchronised=True)


CHAIN = feed.Chain(GENERATION, 1040, HASH, 7, bytes(32))


def test_a_message_is_held_against_its_schema_as_it_is_made() -> None:
    row, _ = feed.seal(FEED, CHAIN, entry("scan"))
    assert [message.seqno for message in row.messages] == [1041]
    with pytest.raises(ValidationError, match="guess"):
        feed.seal(FEED, CHAIN, entry("guess"))


def test_a_state_is_held_against_its_schema_as_it_is_made() -> None:
    feed.state_message(State(), FEED, GENERATION, offset_ns=10**18)
    with pytest.raises(ValidationError, match="no generation"):
        feed.state_message(State(), FEED, "no generation", offset_ns=10**18)


STATE = next(states())
REPLY = b'{"jsonrpc":"2.0","id":"c-1","result":{"repeated":false,"seqno":1042}}\n'

SAID = [
    (FEED_TOPIC, MESSAGES[0], b'"mode":"live"', b'"mode":"lively"'),
    ("baccarat/BAC-07/state", STATE, b'"phase":"closed"', b'"phase":"shut"'),
    ("baccarat/BAC-07/status", STATUS, b'"backlog":3', b'"backlog":-3'),
    ("baccarat/BAC-07/replies/server", REPLY, b'"repeated":false', b'"repeated":0'),
    ("baccarat/BAC-07/replies/server/2", MESSAGES[0], b'"mode":"live"', b'"mode":"lively"'),
]


@pytest.mark.parametrize(("topic", "payload", "old", "new"), SAID)
def test_what_a_table_says_on_a_topic_is_held(topic: str, payload: bytes, old: bytes, new: bytes) -> None:
    published.hold(topic, payload)
    assert old in payload
    with pytest.raises(ValidationError):
        published.hold(topic, payload.replace(old, new))


@pytest.mark.parametrize("topic", ["casino/status", "baccarat/BAC-07/ack", "baccarat/BAC-07/commands", "late/end"])
def test_what_others_say_is_not(topic: str) -> None:
    published.hold(topic, b"online")


def test_a_subscriber_holds_what_it_got(tmp_path: Path) -> None:
    def hear(payload: bytes) -> None:
        with Subscriber(broker.port, FEED_TOPIC) as casino:
            casino.publish(FEED_TOPIC, payload)
            casino.wait(lambda: casino.got, "the message")

    with Broker(tmp_path) as broker:
        hear(MESSAGES[0])
        with pytest.raises(ValidationError):
            hear(MESSAGES[0].replace(b'"mode":"live"', b'"mode":"lively"'))


def test_a_tables_journals_are_held_at_its_end(tmp_path: Path) -> None:
    table = LiveTable(tmp_path, casino={"primary": "file", "file": {"path": str(tmp_path / "feed.jsonl")}})
    with table:
        wait_for(lambda: table.status()["seqno"] >= 3, "a few messages")
    path = tmp_path / "state" / DATABASE
    assert published.hold_journal(path.parent) >= 3
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TRIGGER message_update")
        database.execute(
            """UPDATE message SET data = CAST(replace(data, '"mode":"live"', '"mode":"lively"') AS BLOB)"""
        )
        database.commit()
    with pytest.raises(ValidationError, match="lively"):
        published.hold_journal(path.parent)
