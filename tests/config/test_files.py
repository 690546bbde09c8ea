"""The files that ship: sound, whole, explained, and so robust that any slip in them is told with its line."""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from controller import config
from controller.config.check import _model_in
from controller.core.bets import WHEN
from tests.config.cases import HOUSE, TABLE, Read, errors, whole

CONFIG = Path(__file__).parent.parent.parent / "config"
PROFILES = CONFIG / "profiles"


def switched_on() -> str:
    """table.yaml with every key that a # switches off; in its place, so that lines keep their numbers."""
    text = (CONFIG / "table.yaml").read_text(encoding="utf-8")
    return re.sub(r"^( *)#(?! \S|$)", r"\1", text, flags=re.MULTILINE)


def parse_profile(data: bytes, file: str) -> object:
    return config.parse_profile(data, Path(file))


def keys_of(model: type[BaseModel], above: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is None or name == "codes":
            yield above + name
        else:
            yield from keys_of(inner, f"{above}{name}.")


def paths_of(tree: object, above: str = "") -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from paths_of(value, f"{above}.{key}" if above else key)
    elif isinstance(tree, list) and any(isinstance(item, dict) for item in tree):
        yield from paths_of(tree[0], above)
    else:
        yield above


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_sound(path: Path) -> None:
    assert config.check(path, PROFILES) == []
    assert path.read_text().startswith("# yaml-language-server: $schema=table.schema.json\n")


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_profile_is_sound(path: Path) -> None:
    assert config.check_returns(config.load_profile(path.stem, PROFILES), path) == []


def test_table_yaml_has_every_key_once() -> None:
    assert errors(config.parse, switched_on()) == []
    assert sorted(paths_of(yaml.safe_load(switched_on()))) == sorted(keys_of(config.Config))


def test_table_yaml_says_what_a_key_is_when_left_out() -> None:
    """minimal.yaml leaves out all that may be; a key switched off says in its comment when it is no default."""
    assert config.load(CONFIG / "table.yaml") == config.load(CONFIG / "minimal.yaml")
    casino = config.parse(switched_on().encode(), "table.yaml").casino
    text = "mqtt: {host: broker.casino.example, tls: {ca: /x}}, serial: {port: /dev/serial/by-id/usb-casino}"
    bare = config.parse(whole(f"casino: {{primary: mqtt, {text}}}", TABLE).encode(), "bare").casino
    assert casino.mqtt is not None
    assert bare.mqtt is not None
    assert (casino.mqtt.host, casino.mqtt.port, casino.mqtt.prefix) == (
        bare.mqtt.host,
        bare.mqtt.port,
        bare.mqtt.prefix,
    )
    assert casino.serial == bare.serial


def test_the_profile_that_explains_the_keys_names_every_condition() -> None:
    text = (PROFILES / "seeds-classic.yaml").read_text()
    listed = text.split("# Conditions:")[1].split("(")[0].replace("#", "").split()
    assert sorted(listed) == sorted(WHEN)


# --- the schema -----------------------------------------------------------------------------------------------


def test_the_schema_is_fresh() -> None:
    made = json.dumps(config.schema(), indent=2, ensure_ascii=False) + "\n"
    assert (CONFIG / "table.schema.json").read_text(encoding="utf-8") == made, "write it anew: make generate"


@pytest.mark.parametrize("text", [switched_on(), whole("scanner: {codes: {table: {X: AS}}}", TABLE), whole("", TABLE)])
def test_the_schema_takes_a_sound_file(text: str) -> None:
    jsonschema.Draft202012Validator.check_schema(config.schema())
    jsonschema.validate(yaml.safe_load(text), config.schema())


@pytest.mark.parametrize(
    "extra",
    ["xyz: {}", "storage: {path: x}", "lamps: {timer: 5}", "lamps: {red: null}", "scanner: {codes: x}", "table: {}"],
)
def test_the_schema_refuses_what_the_loader_refuses(extra: str) -> None:
    assert errors(config.parse, whole(extra, TABLE)) != []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(whole(extra, TABLE)), config.schema())


# --- files as a whole -----------------------------------------------------------------------------------------


def test_confighash_is_that_of_the_bytes_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\n")
    (tmp_path / "b").write_bytes(b"two\n")
    assert config.confighash(tmp_path / "a") == sha256(b"one\n").hexdigest()
    assert config.confighash(tmp_path / "a", tmp_path / "b") == sha256(b"one\ntwo\n").hexdigest()


def test_check_reads_table_profile_and_returns(tmp_path: Path) -> None:
    path, house = tmp_path / "table.yaml", tmp_path / "house.yaml"
    path.write_text(whole("profile: house", TABLE))
    house.write_text(whole('bets:\n  b: {pays: [{when: tie, odds: "8"}], exact_return: "1.0000"}', HOUSE))
    assert [(problem.file, problem.line) for problem in config.check(path, tmp_path)] == [(str(house), 2)]
    house.write_text(whole("decks: 0", HOUSE))
    assert [(problem.file, problem.line) for problem in config.check(path, tmp_path)] == [(str(house), 1)]
    path.write_text(whole("xyz: 1", TABLE))
    assert [(problem.file, problem.line) for problem in config.check(path, tmp_path)] == [(str(path), 1)]


# --- any slip -----------------------------------------------------------------------------------------------


def mutants(text: str) -> Iterator[tuple[int, str, str]]:
    """Where, what was done, and the text: with each key dropped, doubled (where the second stands) and misspelt."""
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        match = re.match(r"( *)([a-z_]+):", line)
        if match is None:
            continue
        indent, end = len(match[1]), index + 1
        while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
            end += 1
        yield index + 1, "dropped", "".join(lines[:index] + lines[end:])
        yield end + 1, "doubled", "".join(lines[:end] + lines[index:end] + lines[end:])
        misspelt = line.replace(match[2], match[2] + "q", 1)
        yield index + 1, "misspelt", "".join([*lines[:index], misspelt, *lines[index + 1 :]])


def told(found: list[str], text: str) -> set[int]:
    """The lines that errors name, each of them in the file."""
    places = [re.match(r"(\d+):(\d+): .", error) for error in found]
    lines = {int(place[1]) for place in places if place is not None}
    assert all(places), found
    assert all(1 <= line <= text.count("\n") + 1 for line in lines), found
    return lines


@pytest.mark.parametrize(
    ("text", "read", "names"),
    [
        (switched_on(), config.parse, ()),
        ((PROFILES / "seeds-no-commission.yaml").read_text(), parse_profile, ("player", "banker", "tie", "lucky")),
    ],
    ids=["table", "profile"],
)
def test_a_key_dropped_doubled_or_misspelt(text: str, read: Read, names: tuple[str, ...]) -> None:
    """`names`: how keys begin that may have any name, so that nothing is wrong with a letter more."""
    count = 0
    for line, what, mutant in mutants(text):
        found = errors(read, mutant)
        lines = told(found, mutant)
        free = mutant.splitlines()[line - 1].strip().startswith(names) if names and what == "misspelt" else False
        if what == "doubled":
            assert any(error.startswith(f"{line}:") and "is given twice" in error for error in found), (line, found)
        elif what == "misspelt" and not free:
            assert any(error.startswith(f"{line}:") and "unknown key" in error for error in found), (line, found)
        else:
            assert free <= (not lines), found
        count += 1
    assert count > 60


KEY = st.sampled_from(sorted({key for path in keys_of(config.Config) for key in path.split(".")} | set(HOUSE)))
SCALAR = st.one_of(
    st.sampled_from(["no", "010", "12:30", "0.95", "~", "", "true", "&a x", "*a", "!t x", '"x"', "none", "gpio", "P1"]),
    st.text(max_size=8),
    st.integers(-5, 70_000).map(str),
)
FLOW = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(KEY, inner, max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"
        ),
    ),
    max_leaves=8,
)


@given(st.dictionaries(KEY, FLOW, max_size=6))
def test_no_tree_does_harm(tree: dict[str, str]) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in tree.items())
    assert errors(config.parse, text), "a configuration needs more than a few keys"
    told(errors(parse_profile, text), text)


@pytest.mark.parametrize(
    ("text", "read"),
    [(switched_on(), config.parse), ((PROFILES / "seeds-commission.yaml").read_text(), parse_profile)],
    ids=["table", "profile"],
)
@given(st.data())
def test_no_value_in_the_place_of_another_does_harm(text: str, read: Read, data: st.DataObject) -> None:
    lines = text.splitlines()
    places = [index for index, line in enumerate(lines) if re.match(r" *[a-z_]+: *[^ #]", line)]
    index = data.draw(st.sampled_from(places))
    lines[index] = f"{lines[index].split(':')[0]}: {data.draw(FLOW)}"
    changed = "\n".join(lines) + "\n"
    told(errors(read, changed), changed)
