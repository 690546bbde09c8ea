"""docs/asyncapi.yaml says what the table says: held to its meta schema, to the program's own lists, and to the schemas.

The meta schema is AsyncAPI's own (vectors/asyncapi-3.0.0.json), so that no test needs the network.
"""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator, ValidationError

from controller import keys
from controller.adapters import publisher_mqtt
from controller.control import casino
from controller.control.messages import REQUEST_BYTES_MAX
from controller.core.facts import PUBLIC
from controller.panel import Words
from tests import schemas
from tests.casino import FAR, OURS, command, signed
from tests.outbox import FakeOutbox, Heard
from tests.pages import ROOT

DOCS = ROOT / "docs"
FORMAT = "application/schema+json;version=draft-2020-12"
FEED = {name: f"baccarat.{name}.v1" for name in PUBLIC.values()}
BESIDE = ("state", "status", "receipt", "command", "reply")

OPERATIONS = {  # DESIGN 5: who says it, where, with which QoS, kept by the broker or not
    "publishFeed": ("send", "feed", 1, False),
    "keepState": ("send", "state", 1, True),
    "keepStatus": ("send", "status", 1, True),
    "takeReceipt": ("receive", "ack", 1, False),
    "obeyCommand": ("receive", "commands", 1, False),
    "followServer": ("receive", "serverStatus", 1, True),
}


@cache
def document() -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load((DOCS / "asyncapi.yaml").read_text(encoding="utf-8"))
    return tree


def refs(tree: Any) -> Iterator[str]:  # noqa: ANN401  # any YAML
    if isinstance(tree, dict):
        if isinstance(tree.get("$ref"), str):
            yield tree["$ref"]
        for inside in tree.values():
            yield from refs(inside)
    elif isinstance(tree, list):
        for inside in tree:
            yield from refs(inside)


def found(ref: str) -> Any:  # noqa: ANN401  # any YAML
    """What a reference leads to: a file beside the document, or a place in it."""
    if not ref.startswith("#/"):
        return json.loads((DOCS / ref).read_text(encoding="utf-8"))
    tree: Any = document()
    for step in ref[2:].split("/"):
        tree = tree[step]
    return tree


def messages() -> dict[str, Any]:
    tree: dict[str, Any] = document()["components"]["messages"]
    return tree


def judge(message: dict[str, Any]) -> Draft202012Validator:
    """The schema of a message's payload."""
    payload = message["payload"]
    if "schema" not in payload:
        return Draft202012Validator(payload)
    assert payload["schemaFormat"] == FORMAT
    return schemas.validator(payload["schema"]["$ref"].removeprefix("schemas/"))


EXAMPLES = [
    pytest.param(name, example["payload"], id=f"{name} {example.get('name', '')}")
    for name, message in messages().items()
    for example in message.get("examples", ())
]


# --- the document ------------------------------------------------------------------------------------------------


def complaints(tree: dict[str, Any]) -> list[str]:
    meta = json.loads((ROOT / "tests" / "vectors" / "asyncapi-3.0.0.json").read_text(encoding="utf-8"))
    return [f"{list(error.absolute_path)}: {error.message:.200}" for error in Draft7Validator(meta).iter_errors(tree)]


def test_it_is_an_asyncapi_3_document() -> None:
    assert document()["asyncapi"] == "3.0.0"
    assert complaints(document()) == []


@pytest.mark.parametrize("wrong", [{"asyncapi": "2.6.0"}, {"topics": {}}, {"channels": {"feed": {"adress": "x"}}}])
def test_what_is_none_is_found(wrong: dict[str, Any]) -> None:
    assert complaints(document() | wrong) != []


def test_every_reference_leads_somewhere() -> None:
    assert len(set(refs(document()))) > 2 * len(PUBLIC)
    for ref in refs(document()):
        assert isinstance(found(ref), dict), ref


def test_every_message_type_is_in_it_and_no_other() -> None:
    beside = {*BESIDE, "serverStatus", "serverWord"}
    assert set(messages()) == set(FEED) | beside
    assert list(document()["channels"]["feed"]["messages"]) == list(FEED)
    for name, kind in FEED.items():
        assert messages()[name]["name"] == kind
        assert messages()[name]["payload"]["schema"]["$ref"] == f"schemas/{kind}.json"
    for name in BESIDE:
        assert messages()[name]["payload"]["schema"]["$ref"] == f"schemas/{name}.json"


def test_each_channel_is_a_topic_of_the_table() -> None:
    channels = document()["channels"]
    broker = publisher_mqtt.Broker("localhost", 1883, "{table}", "machine", prefix="{prefix}")
    own = {name: channel["address"] for name, channel in channels.items() if name not in ("replies", "serverStatus")}
    assert own == {name: broker.topic(name) for name in ("feed", "state", "status", "ack", "commands")}
    assert channels["replies"]["address"] == broker.topic("replies/{asker}")
    assert channels["feed"]["parameters"]["prefix"]["default"] == publisher_mqtt.Broker("", 0, "", "").prefix
    assert list(channels["replies"]["messages"]) == ["reply", *FEED]  # a resend brings any of the feed's


def test_each_operation_is_as_the_design_has_it() -> None:
    told = {
        name: (
            operation["action"],
            operation["channel"]["$ref"].removeprefix("#/channels/"),
            operation["bindings"]["mqtt"]["qos"],
            operation["bindings"]["mqtt"]["retain"],
        )
        for name, operation in document()["operations"].items()
    }
    assert told == OPERATIONS
    assert document()["operations"]["obeyCommand"]["reply"]["channel"]["$ref"] == "#/channels/replies"


def test_the_session_and_the_content_types_are_the_publishers() -> None:
    broker = publisher_mqtt.Broker("localhost", 1883, "{table}", "{machine}", prefix="{prefix}")
    for server in document()["servers"].values():
        session = server["bindings"]["mqtt"]
        assert session["clientId"] == publisher_mqtt._client_id(broker)
        assert session["keepAlive"] == broker.keepalive_s
        assert session["sessionExpiryInterval"] == publisher_mqtt.KEPT_S
        assert session["maximumPacketSize"] == publisher_mqtt.PACKET_MAX
        assert session["lastWill"]["topic"] == broker.topic("status")
    traits = document()["components"]["messageTraits"]
    assert traits["event"]["contentType"] == publisher_mqtt.FEED_TYPE
    assert traits["level"]["contentType"] == traits["answer"]["contentType"] == publisher_mqtt.LEVEL_TYPE
    assert f"{REQUEST_BYTES_MAX} bytes" in document()["channels"]["commands"]["description"]


@pytest.mark.parametrize(("name", "payload"), EXAMPLES)
def test_every_example_is_valid(name: str, payload: object) -> None:
    judge(messages()[name]).validate(payload)


def test_every_kind_of_what_the_casino_says_has_an_example() -> None:
    assert {param.values[0] for param in EXAMPLES} == {"receipt", "command", "reply", "serverStatus", "serverWord"}
    named = [example["name"] for example in messages()["command"]["examples"]]
    assert named == list(casino.METHODS)


# --- the commands' schema, and the table that reads them -------------------------------------------------------------

BRANCHES = {each["properties"]["method"]["const"]: each for each in schemas.schemas()["command.json"]["oneOf"]}
SIGNED = {"table", "expires", "keyid", "signature"}


def test_the_schema_knows_every_command_and_no_other() -> None:
    assert list(BRANCHES) == list(casino.METHODS)


@pytest.mark.parametrize("method", casino.METHODS)
def test_the_schema_asks_for_what_the_table_asks_for(method: str) -> None:
    row, branch = casino.METHODS[method], BRANCHES[method]
    params = branch["properties"]["params"]
    assert set(params["properties"]) == {*row.needs, *row.takes}
    assert set(params["required"]) == set(row.needs)
    assert params["additionalProperties"] is False
    assert set(branch["required"]) == (SIGNED if method != "ping" else set()) | ({"params"} if row.needs else set())


def desk() -> casino.CasinoDesk:
    return casino.CasinoDesk(
        table="BAC-07",
        version="0.1.0",
        public_key=OURS.public,
        keys={OURS.keyid: OURS.public},
        verify=keys.verify,
        words=Words("en"),
        outbox=FakeOutbox(),
        submit=Heard(),
        seen=lambda _key: None,
        now=lambda: 0,
        wall=lambda: 1_795_986_245_000_000_000,  # 2026-11-29 21:04:05 UTC
    )


GOOD = [
    (each["payload"]["method"], each["payload"].get("params", {})) for each in messages()["command"]["examples"]
] + [
    ("pause", {}),
    ("end_shoe", {}),
    ("void_round", {"reason": "El vídeo: 8♥ 3♠"}),
    ("void_round", {"reason": "x"}),
    ("limits", {"limits": {"tie": {"least": "1.50", "most": "99999.99"}, "player": {"least": "0", "most": "9999999"}}}),
    ("dispute", {"seqno": 2**53, "outcome": "player"}),
]


@pytest.mark.parametrize(("method", "params"), GOOD)
def test_what_the_schema_takes_the_table_takes(method: str, params: dict[str, Any]) -> None:
    data = command(method, params)
    schemas.validate_as("command", data)
    told = desk().read(data)
    assert told.method == method
    assert told.params.keys() >= params.keys()


BAD = [
    ("video", {}),
    ("video", {"up": "true"}),
    ("video", {"up": 1}),
    ("open_betting", {"seconds": 5}),
    ("pause", {"reason": ""}),
    ("pause", {"reason": "   "}),
    ("pause", {"reason": "a\nb"}),
    ("pause", {"reason": "x" * 201}),
    ("end_shoe", {"reason": "cut_card"}),
    ("void_round", {}),
    ("limits", {}),
    ("limits", {"limits": {}}),
    ("limits", {"limits": {"player": {"least": "10"}}}),
    ("limits", {"limits": {"player": {"least": 10, "most": 5000}}}),
    ("limits", {"limits": {"player": {"least": "1.5", "most": "5000"}}}),
    ("limits", {"limits": {"player": {"least": "1", "most": "10000000"}}}),
    ("limits", {"limits": {"Player": {"least": "1", "most": "2"}}}),
    ("limits", {"limits": {"p" * 33: {"least": "1", "most": "2"}}}),
    ("limits", {"limits": {f"bet{n}": {"least": "1", "most": "2"} for n in range(65)}}),
    ("resend", {"generation": "68f1c2d4-9be01a77"}),
    ("resend", {"generation": "68f1c2d4-9be01a77", "from": 0}),
    ("resend", {"generation": "68f1c2d4-9be01a77", "from": "1"}),
    ("dispute", {"seqno": 1041, "outcome": "banco"}),
    ("dispute", {"seqno": 2**53 + 1, "outcome": "tie"}),
    ("enrol", {"publickey": "A" * 42}),
    ("settle", {}),
]


@pytest.mark.parametrize(("method", "params"), BAD)
def test_what_the_table_refuses_the_schema_refuses(method: str, params: dict[str, Any]) -> None:
    data = command(method, params)
    with pytest.raises(ValidationError):
        schemas.validate_as("command", data)
    with pytest.raises(casino.NoCommandError):
        desk().read(data)


@pytest.mark.parametrize(
    "wrong",
    [
        {"jsonrpc": "1.0"},
        {"id": None},
        {"id": 7},
        {"id": "a b"},
        {"id": "x" * 65},
        {"table": None},
        {"expires": None},
        {"expires": "2026-11-29 21:05:05"},
        {"expires": "2026-11-29T21:05:05+00:00"},
        {"keyid": None},
        {"keyid": "0BA7"},
        {"urgent": True},
    ],
)
def test_an_envelope_that_is_none_is_refused_by_both(wrong: dict[str, Any]) -> None:
    data = command("resume", **wrong)
    with pytest.raises(ValidationError):
        schemas.validate_as("command", data)
    with pytest.raises(casino.NoCommandError):
        desk().read(data)


def test_an_unsigned_command_is_refused_by_both_and_a_ping_is_not() -> None:
    tree = {"jsonrpc": "2.0", "id": "c-1", "method": "resume", "table": "BAC-07", "expires": FAR, "keyid": OURS.keyid}
    unsigned = json.dumps(tree, separators=(",", ":")).encode()
    with pytest.raises(ValidationError):
        schemas.validate_as("command", unsigned)
    with pytest.raises(casino.NoCommandError):
        desk().read(unsigned)
    ping = signed({"jsonrpc": "2.0", "id": "c-2", "method": "ping"})
    for data in (ping, b'{"jsonrpc":"2.0","id":"c-2","method":"ping"}'):
        schemas.validate_as("command", data)
        assert desk().read(data).method == "ping"


# --- the answers' and the receipts' ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "payload"), [param for param in EXAMPLES if param.values[0] in ("receipt", "reply")])
def test_an_answer_or_receipt_with_one_thing_wrong_is_not_valid(name: str, payload: dict[str, Any]) -> None:
    schema = schemas.validator(f"{name}.json")
    assert not schema.is_valid(payload | {"extra": "x"})
    for member in payload:
        assert not schema.is_valid({key: value for key, value in payload.items() if key != member}), member
        assert not schema.is_valid(payload | {member: 0.5}), member
