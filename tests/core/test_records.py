"""The form in which a night is written down: it comes back as it was, from this version and from every one before."""
# ruff: noqa: ANN401  # the values here are those of any record, right and wrong

import json
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core import records
from controller.core.cards import DECK, Card, Slot
from controller.core.events import CardScanned
from controller.core.facts import CardDealt, CardOut, Deadline, IrregularityRaised, Stops, Timer
from controller.core.profile import Procedure, Profile
from controller.core.records import EVENTS, FACTS, RecordError
from controller.core.state import State

OLD_NIGHTS = [
    json.loads(line)
    for path in sorted(Path(__file__).parent.glob("records_v*.jsonl"))
    for line in path.read_text("ascii").splitlines()
]
PLAIN = (dict, list, str, int, bool, type(None))


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type, each field drawn whether it has a default or not."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Card:
        return st.sampled_from(DECK)
    if hint in (str, int, bool, type(None)):
        return {str: st.text(max_size=5), int: st.integers(), bool: st.booleans(), type(None): st.none()}[hint]
    if origin is tuple and arguments[-1] is ...:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, arguments))
    if origin is dict:
        return st.dictionaries(st.text(max_size=4), values(arguments[1]), max_size=2)
    if arguments:
        return st.one_of(*map(values, arguments))
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    return st.builds(hint, **{name: values(each) for name, each in get_type_hints(hint).items()})


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down: "8H" is not the card."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(each, other[key]) for key, each in one.items())
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if is_dataclass(one):
        return all(same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    return bool(one == other)


def plain(tree: Any) -> bool:
    """Of the six plain types exactly; members are text."""
    inside = list(tree.values()) if type(tree) is dict else tree if type(tree) is list else []
    keys = all(type(key) is str for key in tree) if type(tree) is dict else True
    return type(tree) in PLAIN and keys and all(map(plain, inside))


def dumped(value: Any) -> Any:
    name = type(value).__name__
    if name in FACTS:
        return records.dump_fact(value)
    return records.dump_event(value) if name in EVENTS else records.dump(value)


def loaded(tree: Any) -> Any:
    tag = tree.get("t") if isinstance(tree, dict) else None
    return records.load_fact(tree) if tag in FACTS else records.load_event(tree) if tag else records.load(State, tree)


@pytest.mark.parametrize("cls", [*FACTS.values(), *EVENTS.values(), State], ids=lambda cls: cls.__name__)
def test_whatever_is_written_comes_back(cls: type) -> None:
    @settings(max_examples=max(8, settings().max_examples // 5))  # by some eighty classes
    @given(values(cls))
    def check(value: Any) -> None:
        tree = dumped(value)
        assert plain(tree)
        assert same(loaded(json.loads(json.dumps(tree))), value)

    check()


def kept(old: Any, new: Any) -> bool:
    """Whether all that was written is written still; a member that came later has its default."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(name in new and kept(old[name], new[name]) for name in old)
    if isinstance(old, list):
        return isinstance(new, list) and len(old) == len(new) and all(map(kept, old, new))
    return bool(old == new)


@pytest.mark.parametrize("tree", OLD_NIGHTS, ids=lambda tree: tree.get("t", "State"))
def test_old_nights_still_read(tree: Any) -> None:
    read = loaded(tree)
    assert kept(tree, dumped(read))
    assert same(loaded(dumped(read)), read)


def test_every_kind_of_record_is_among_the_old_nights() -> None:
    assert {tree.get("t") for tree in OLD_NIGHTS} == {*FACTS, *EVENTS, None}


def test_facts_and_events_share_no_name() -> None:
    assert not FACTS.keys() & EVENTS.keys()


SCANNED = {"t": "CardScanned", "at": 5, "card": "8H"}
DEALT = {"t": "CardDealt", "round": 3, "n": 17, "slot": "P1", "card": "8H", "read": "scan", "next": None}


@pytest.mark.parametrize(
    ("value", "tree"),
    [
        (CardScanned(5, Card.parse("8H")), SCANNED),
        (CardScanned(5, Card.parse("8H"), key=("head", "1f:7")), {**SCANNED, "key": ["head", "1f:7"]}),
        (CardOut(17, 5), {"t": "CardOut", "n": 17, "at": 5}),
        (CardDealt(3, 17, Slot.P1, Card.parse("8H"), "scan", None), DEALT),
        (CardDealt(3, 17, Slot.P1, Card.parse("8H"), "scan", Slot.B1, 0), {**DEALT, "next": "B1", "ms_after_close": 0}),
        (
            IrregularityRaised("I04", Stops.NOTHING, {}, {"n": "17"}),
            {"t": "IrregularityRaised", "code": "I04", "stops": 0, "exits": {}, "detail": {"n": "17"}},
        ),
    ],
)
def test_the_form_of_a_record(value: Any, tree: Any) -> None:
    assert dumped(value) == tree
    assert same(loaded(tree), value)


def test_a_default_that_someone_chose_is_always_written() -> None:
    """The next version may choose another; an old night must not change with it."""
    tree = records.dump(Procedure())
    assert isinstance(tree, dict)
    assert tree["betting_seconds"] == 15
    assert tree["receipts"] is True
    assert "sensors" not in tree


def test_untagged_records_and_deadlines() -> None:
    assert records.dump(Deadline(7, Timer.READ)) == {"at": 7, "timer": "read"}
    assert records.load(Deadline, {"at": 7, "timer": "read"}) == Deadline(7, Timer.READ)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({**DEALT, "t": "CardBlessed"}, r"no record is called 'CardBlessed' here: written by a newer version"),
        ({**DEALT, "t": "CardScanned"}, r"no record is called 'CardScanned' here"),
        ({**DEALT, "luck": 7}, r"CardDealt has no field 'luck': written by a newer version"),
        ({**DEALT, "card": "1H"}, r"CardDealt\.card: '1H' is no card: write rank A 2-9 T J Q K"),
        ({**DEALT, "card": 8}, r"CardDealt\.card: a card is wanted, not 8"),
        ({**DEALT, "slot": "P4"}, r"CardDealt\.slot: one of P1, B1, P2, B2, P3, B3 is wanted, not 'P4'"),
        ({**DEALT, "slot": None}, r"CardDealt\.slot: one of .* is wanted, not None"),
        ({**DEALT, "slot": ["P1"]}, r"CardDealt\.slot: one of .* is wanted, not \['P1'\]"),
        ({**DEALT, "n": "17"}, r"CardDealt\.n: a value of type int is wanted, not '17'"),
        ({**DEALT, "n": True}, r"CardDealt\.n: a value of type int is wanted, not True"),
        ({**DEALT, "n": 1.0}, r"CardDealt\.n: a value of type int is wanted, not 1\.0"),
        ({**DEALT, "n": None}, r"CardDealt\.n: a value of type int is wanted, not None"),
        ({key: DEALT[key] for key in DEALT if key != "next"}, r"CardDealt lacks its field 'next', which has no"),
        ({key: DEALT[key] for key in DEALT if key != "t"}, r'an object with the member "t" is wanted'),
        ({**DEALT, "t": 7}, r'an object with the member "t" is wanted'),
        (["CardDealt"], r"an object is wanted, not \['CardDealt'\]"),
        (None, r"an object is wanted, not None"),
        ({"t": "CardLeft", 7: 7}, r"an object is wanted"),
        ({"t": "MouthSeen", "present": 1}, r"MouthSeen\.present: a value of type bool is wanted, not 1"),
        ({"t": "StaffCalled", "by": "d12"}, r"StaffCalled\.by: a list is wanted, not 'd12'"),
        ({"t": "StaffCalled", "by": ["d12", 4]}, r"StaffCalled\.by: a value of type str is wanted, not 4"),
        (
            {"t": "IrregularityRaised", "code": "I01", "stops": True, "exits": {}, "detail": {}},
            r"IrregularityRaised\.stops: one of 0, 1, 2 is wanted, not True",
        ),
        (
            {"t": "IrregularityRaised", "code": "I01", "stops": 0, "exits": {"burn": "dog"}, "detail": {}},
            r"IrregularityRaised\.exits: one of automatic, dealer, pit, technician is wanted, not 'dog'",
        ),
    ],
)
def test_a_fact_that_is_none_says_why(tree: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        records.load_fact(tree)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({**SCANNED, "key": ["head"]}, r"CardScanned\.key: a list of 2 is wanted, not \['head'\]"),
        ({**SCANNED, "key": ["head", 7]}, r"CardScanned\.key: a value of type str is wanted, not 7"),
        (DEALT, r"no record is called 'CardDealt' here"),
    ],
)
def test_an_event_that_is_none_says_why(tree: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        records.load_event(tree)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mood": "calm"}, r"State has no field 'mood'"),
        ({"phase": "asleep"}, r"State\.phase: one of closed, .* is wanted, not 'asleep'"),
        ({"last": {"t": "CardDealt"}}, r"State\.last: no record is called 'CardDealt' here"),
        ({"deadlines": [{"at": 7}]}, r"State\.deadlines: Deadline lacks its field 'timer'"),
        ({"profile": {"name": "x"}}, r"State\.profile: Profile lacks its field 'hash'"),
    ],
)
def test_a_state_that_is_none_says_which_field(change: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        records.load(State, records.dump(State()) | change)


class Secret:
    pass


@dataclass(frozen=True)
class Strange:
    when: float


@dataclass(frozen=True)
class Named:
    t: str


class Loose(NamedTuple):
    anything: set[int]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Secret(), "Secret has no plain form: it is neither a dataclass nor a named tuple"),
        (Strange(1.0), "float has no plain form"),
        (Named("x"), r"Named\.t: in a record this name is the class's own"),
        (Loose(set()), r"set\[int\] has no plain form"),
    ],
)
def test_a_class_without_a_plain_form_is_the_programs_error(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        records.dump(value)


def test_profiles_come_back_whole() -> None:
    """The profile in force is in the journal: the one place where a nested class with everything in it matters most."""
    tree = next(tree["profile"] for tree in OLD_NIGHTS if tree.get("t") == "ShoeOpened" and tree["shoe"] == 13)
    profile = records.load(Profile, tree)
    assert profile.bets[1].pays[1].odds == "20"
    assert profile.stages[1].before is Slot.B1
    assert profile.cut_depth == (14, 20)
