"""The table is total, its diagram true, its handlers pure; and replay is having been there.

The corpus is every script under `tests/table`: rounds that people would recognise, each played with `watch.py` looking.
"""

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from controller.core import records
from controller.core import state as state_module
from controller.core.events import CardKnown, CardUnseen, CutCardPlaced, Elapsed, Event, ResolveAsked
from controller.core.facts import PUBLIC, Fact, Phase
from controller.core.records import EVENTS, FACTS
from controller.core.state import LEADS_TO, State, evolve, fold
from controller.core.table import TABLE, decide
from tests.core.watch import Watch
from tests.table.driver import Mismatch
from tests.table.language import SCRIPTS, Script, check

NOTHING_STANDS = {  # no condition with a choice and no deadline is there without a round or a shoe
    (Phase.CLOSED, ResolveAsked),
    (Phase.CLOSED, Elapsed),
    (Phase.PREPARING, ResolveAsked),
    (Phase.PREPARING, Elapsed),
    (Phase.UNLOADING, Elapsed),
}
BY_CORE = (CardKnown, CardUnseen, CutCardPlaced)  # asked by core itself, within a step


class Step(NamedTuple):
    """One event decided."""

    before: State
    event: Event
    facts: tuple[Fact, ...]
    after: State


@cache
def night(script: Script) -> tuple[Step, ...]:
    """A script's steps; as far as it goes, where it does not hold: test_scripts.py says what it is that fails."""
    played: list[Step] = []
    state = State()

    def observe(event: Event, facts: tuple[Fact, ...], after: State) -> None:
        nonlocal state
        played.append(Step(state, event, facts, after))
        state = after

    with contextlib.suppress(Mismatch):
        check(script, observe)
    return tuple(played)


def steps() -> Iterator[Step]:
    return (step for script in SCRIPTS for step in night(script))


# --- the table is total ------------------------------------------------------------------------------------


def test_every_phase_answers_every_event() -> None:
    assert set(TABLE) == set(Phase)
    for phase, row in TABLE.items():
        assert set(row) == set(EVENTS.values()), phase


def test_every_fact_is_evolved() -> None:
    assert set(state_module._EVOLVE) == set(FACTS.values())


def test_what_is_public_is_a_fact() -> None:
    assert set(PUBLIC) <= set(FACTS.values())
    assert len(set(PUBLIC.values())) == len(PUBLIC), "one type, one class"


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("event", EVENTS)
def test_a_cell_yields_facts_that_there_are(phase: Phase, event: str) -> None:
    assert TABLE[phase][EVENTS[event]].yields <= set(FACTS.values())


# --- the diagram is true -----------------------------------------------------------------------------------


def moves() -> dict[type[Fact], set[Phase]]:
    """Where each fact has led, by the scripts."""
    led: dict[type[Fact], set[Phase]] = defaultdict(set)
    for step in steps():
        state = step.before
        for fact in step.facts:
            after = evolve(state, fact)
            if after.phase is not state.phase:
                led[type(fact)].add(after.phase)
            state = after
    return led


def test_a_fact_leads_where_the_diagram_says_and_nowhere_else() -> None:
    led = {fact: frozenset(phases) for fact, phases in moves().items()}
    assert led == LEADS_TO, "every arrow is walked by a script, and no script walks another"


def test_a_phase_changes_only_by_an_arrow_of_its_cell() -> None:
    for step in steps():
        if step.before.phase is step.after.phase:
            continue
        movers = {type(fact) for fact in step.facts} & set(LEADS_TO)
        assert movers, f"{type(step.event).__name__} moved {step.before.phase} without a fact that moves"


# --- handlers are pure, and replay is having been there ----------------------------------------------------


@pytest.mark.parametrize("script", [script for script in SCRIPTS if not script.defect], ids=str)
def test_every_step_of_every_script_is_lawful(script: Script) -> None:
    watch = Watch(State())
    for step in night(script):
        watch.see(step.event, step.facts, step.after)
    watch.close(State())


def test_decide_answers_the_same_twice_and_touches_nothing() -> None:
    for step in steps():
        kept = json.dumps(records.dump(step.before))
        assert decide(step.before, step.event) == step.facts
        assert json.dumps(records.dump(step.before)) == kept


def test_each_state_comes_back_from_what_is_written_of_it() -> None:
    """A saved State at any step, and the facts after it, make the night as it was (DESIGN 4)."""
    for script in SCRIPTS:
        played = night(script)
        for step in played[:: max(1, len(played) // 5)]:
            saved = json.dumps(records.dump(step.before))
            state = records.load(State, json.loads(saved))
            assert fold(state, step.facts) == step.after


def test_a_journal_row_gives_back_its_facts() -> None:
    for step in steps():
        plain = [records.dump_fact(fact) for fact in step.facts]
        assert tuple(records.load_fact(json.loads(json.dumps(fact))) for fact in plain) == step.facts
        event = records.load_event(json.loads(json.dumps(records.dump_event(step.event))))
        assert event == step.event


def test_the_corpus_hears_every_cell_that_can_answer() -> None:
    """No handler is there for nothing: each cell that may yield facts has yielded some; one for all phases, in one."""
    heard = {id(TABLE[step.before.phase][type(step.event)]) for step in steps() if step.facts}
    silent = {
        (phase, event)
        for phase, row in TABLE.items()
        for event, cell in row.items()
        if cell.yields and event not in BY_CORE and id(cell) not in heard
    }
    assert silent == NOTHING_STANDS
