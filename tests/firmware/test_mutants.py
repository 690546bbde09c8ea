"""The mistakes of firmware/mutants.py: each is still one that can be made, and the tests find it."""

import pytest

from firmware import mutants


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: f"{mutant.file} {mutant.before[:40]}")
def test_a_mistake_has_its_one_place(mutant: mutants.Mutant) -> None:
    assert (mutants.HERE / "src" / mutant.file).read_text().count(mutant.before) == 1
    assert mutant.before != mutant.after


def test_every_module_has_its_mistakes() -> None:
    modules = {path.name for path in (mutants.HERE / "src").glob("*.c")}
    assert {mutant.file for mutant in mutants.MUTANTS} == modules
    assert len(set(mutants.MUTANTS)) == len(mutants.MUTANTS) >= 20


@pytest.mark.soak
def test_every_mistake_is_found() -> None:
    assert mutants.main("") == 0
