"""docs/schemas is a contract: every message type has its schema, and a schema says no to anything else."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from controller.core.cards import DECK, Slot
from controller.core.events import Elapsed
from controller.core.facts import PUBLIC, Fact, JournalOpened, Phase, Stops, Who
from controller.core.records import FACTS, load_fact
from controller.core.state import Betting, Condition, Link, Round, Shoe, State
from controller.feed import Chain, Entry, Feed, seal, state_message
from tests import schemas
from tests.profiles import CLASSIC

HASH = "ab" * 32
FEED = Feed("BAC-07", "/tables/BAC-07", "live", "0123456789abcdef", lambda _: bytes(64))
PROFILE = replace(CLASSIC, hash=HASH, bets=())


def sampled() -> Iterator[Fact]:
    """The public facts among the committed lines of old nights."""
    for line in (Path(__file__).parent / "core" / "records_v1.jsonl").read_text("ascii").splitlines():
        tree = json.loads(line)
        if tree.get("t") in FACTS and type(fact := load_fact(tree)) in PUBLIC:
            yield fact


def sealed(fact: Fact) -> bytes:
    first = isinstance(fact, JournalOpened)
    before = State(seqno=0 if first else 1040, phase=Phase.READY, shoe=Shoe(12, PROFILE), link=Link(up=True))
    entry = Entry(Elapsed(0), (fact,), before, before._replace(seqno=before.seqno + 1), 10**18, synchronised=True)
    chain = Chain("68f1c2d4-9be01a77") if first else Chain("68f1c2d4-9be01a77", 1040, HASH, 7, bytes(32))
    (message,) = seal(FEED, chain, entry)[0].messages
    return message.data


def states() -> Iterator[bytes]:
    """The retained topic, with each of its members once in use."""
    lasts = [None, *(fact for fact in sampled() if PUBLIC[type(fact)].startswith("round.") and hasattr(fact, "then"))]
    condition = Condition("I01", Stops.CARDS, {"rescan": Who.DEALER}, {"n": "1"}, 1040, 1, Phase.BETTING)
    round_ = Round(37, ("tie",), last=False, betting=Betting(1, 0, 10**9), slots=(Slot.P1,), cards=DECK[:1])
    for last in lasts:
        for playing in (None, round_):
            state = State(
                seqno=1040,
                phase=Phase.BETTING if playing else Phase.CLOSED,
                shoe=Shoe(12, PROFILE) if playing else None,
                round=playing,
                last=last,  # type: ignore[arg-type]  # these are the three ends of a round
                conditions=(condition,) if playing else (),
                shoes=12,
            )
            yield state_message(state, FEED, "68f1c2d4-9be01a77", offset_ns=10**18)


STATUS = (
    b'{"status":"online","version":"0.1.0","public_key":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",'
    b'"faults":["I40","disk"],"generation":"68f1c2d4-9be01a77","backlog":3}'
)


# --- the files -----------------------------------------------------------------------------------------------


def test_every_public_type_has_a_schema_and_every_schema_a_use() -> None:
    types = {f"baccarat.{name}.v1.json" for name in PUBLIC.values()}
    others = {"envelope.json", "state.json", "status.json", "receipt.json", "command.json", "reply.json"}
    assert set(schemas.schemas()) == types | others


def test_every_public_type_has_a_sample() -> None:
    assert {type(fact) for fact in sampled()} == set(PUBLIC)


@pytest.mark.parametrize("name", schemas.schemas())
def test_each_file_is_a_schema_of_the_draft_it_names(name: str) -> None:
    schema = schemas.schemas()[name]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)
    assert schema["title"]


@pytest.mark.parametrize("name", [name for name in schemas.schemas() if name.startswith("baccarat.")])
def test_each_message_has_the_one_envelope(name: str) -> None:
    schema = schemas.schemas()[name]
    assert schema["$ref"] == "envelope.json"
    assert schema["properties"]["type"] == {"const": name.removesuffix(".json")}
    assert schema["properties"]["data"]["additionalProperties"] is False


def test_the_readme_names_every_file() -> None:
    text = (schemas.FOLDER / "README.md").read_text("utf-8")
    assert [name for name in schemas.schemas() if f"({name})" not in text] == []


# --- what they accept ------------------------------------------------------------------------------------------

MESSAGES = [sealed(fact) for fact in sampled()]
OPEN = {"limits", "detail", "bets"}  # objects whose member names are data
OPTIONAL = {"pays", "P1", "B1", "P2", "B2", "P3", "B3"}  # P1 to B2: in `…/state` only
NEEDED = {"P1", "B1", "P2", "B2"}  # in round.dealt


@pytest.mark.parametrize("data", MESSAGES, ids=lambda data: json.loads(data)["type"])
def test_what_the_table_sends_is_valid(data: bytes) -> None:
    schemas.validate(data)


def test_what_the_table_retains_is_valid() -> None:
    for data in states():
        schemas.validate_as("state", data)
    schemas.validate_as("status", STATUS)


# --- what they refuse ------------------------------------------------------------------------------------------


def objects(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401  # any JSON
    """The path of every object in it, the whole included."""
    if isinstance(tree, dict):
        yield path
        for name, inside in tree.items():
            yield from objects(inside, (*path, name))
    elif isinstance(tree, list):
        for index, inside in enumerate(tree):
            yield from objects(inside, (*path, index))


def at(tree: Any, path: tuple[Any, ...]) -> Any:  # noqa: ANN401  # any JSON
    for step in path:
        tree = tree[step]
    return tree


def spoiled(tree: dict[str, Any], needed: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tree with one thing wrong: a member more, a member less, a member of a type that none has."""
    for path in objects(tree):
        is_open = bool(path) and path[-1] in OPEN
        if not is_open:
            changed = deepcopy(tree)
            at(changed, path)["extra"] = "x"
            yield f"{path} with a member more", changed
        for name in at(tree, path):
            if not is_open and (name not in OPTIONAL or name in needed):
                changed = deepcopy(tree)
                del at(changed, path)[name]
                yield f"{path} without {name}", changed
            changed = deepcopy(tree)
            at(changed, path)[name] = 0.5
            yield f"{path} with 0.5 for {name}", changed


def is_valid(name: str, tree: dict[str, Any]) -> bool:
    """What both validators say: the one that looks at every message of the tests, and the one with words."""
    fast, slow = schemas.fast(name).is_valid(tree), schemas.validator(name).is_valid(tree)
    assert fast == slow, tree
    return fast


@pytest.mark.parametrize("data", MESSAGES, ids=lambda data: json.loads(data)["type"])
def test_a_message_with_one_thing_wrong_is_not_valid(data: bytes) -> None:
    tree = json.loads(data)
    for wrong, changed in spoiled(tree, NEEDED):
        assert not is_valid(f"{tree['type']}.json", changed), wrong


def test_a_retained_topic_with_one_thing_wrong_is_not_valid() -> None:
    for name, bodies in (("state.json", states()), ("status.json", [STATUS])):
        for data in bodies:
            for wrong, changed in spoiled(json.loads(data), set()):
                assert not is_valid(name, changed), wrong


RESULT = next(json.loads(data) for data in MESSAGES if b'"baccarat.round.completed.v1"' in data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("specversion",), "1.1"),
        (("id",), "BAC-07/1041"),
        (("source",), "BAC-07"),
        (("time",), "2026-11-29T21:04:05Z"),
        (("time",), "2026-11-29T21:04:05.123+00:00"),
        (("time",), "2026-13-29T21:04:05.123Z"),
        (("seqno",), 0),
        (("seqno",), "1041"),
        (("prevhash",), HASH.upper()),
        (("mode",), "test"),
        (("keyid",), "0123456789abcde"),
        (("signature",), "A" * 85),
        (("data", "roundid"), "BAC-07/12/37"),
        (("data", "shoe"), 0),
        (("data", "round"), 0),
        (("data", "counted"), -1),
        (("data", "player", "cards"), ["8H"]),
        (("data", "player", "cards"), ["8H", "3S", "KD", "2C"]),
        (("data", "player", "cards"), ["10H", "3S"]),
        (("data", "player", "cards"), ["8h", "3S"]),
        (("data", "player", "points"), 10),
        (("data", "outcome"), "pending"),
        (("data", "bets", "banker", "pays"), 0.95),
        (("data", "bets", "banker", "pays"), ".95"),
        (("data", "bets", "banker", "pays"), "0,95"),
        (("data", "bets", "banker", "result"), "lose"),
        (("data", "bets", "banker", "result"), "won"),
        (("data", "bets", "Lucky Six"), {"result": "lose"}),
        (("data", "profile", "hash"), "ab"),
    ],
)
def test_a_result_with_a_wrong_value_is_not_valid(path: tuple[str, ...], value: object) -> None:
    tree = deepcopy(RESULT)
    schemas.check(tree)
    at(tree, path[:-1])[path[-1]] = value
    with pytest.raises(ValidationError):
        schemas.check(tree)


@pytest.mark.parametrize(
    "data",
    [
        MESSAGES[0] + b"\n",
        MESSAGES[0].replace(b'"seqno":1', b'"seqno": 1'),
        MESSAGES[0].replace(b'"seqno":1', b'"seqno":1,"seqno":1'),
        MESSAGES[0].replace(b'"reason":"new"', '"reason":"nueva señal"'.encode()),
        b'{"signature":"' + b"A" * 86 + b'",' + MESSAGES[0].partition(b',"signature"')[0][1:] + b"}",
        MESSAGES[0].replace(b"journal.opened.v1", b"journal.opened.v2"),
    ],
)
def test_bytes_that_no_table_sends_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        schemas.validate(data)


@pytest.mark.parametrize("kind", ["round.cancelled", "round.voided"])
def test_a_reason_that_a_person_typed_is_text(kind: str) -> None:
    """The pit boss voids in his own words; with no card out the round is cancelled, with one it is voided (I31)."""
    (tree,) = [tree for tree in map(json.loads, MESSAGES) if tree["type"] == f"baccarat.{kind}.v1"][:1]
    tree["data"]["reason"] = "Un jugador reclama: 8♥"
    schemas.check(tree)
    tree["data"]["reason"] = ""
    with pytest.raises(ValidationError):
        schemas.check(tree)
