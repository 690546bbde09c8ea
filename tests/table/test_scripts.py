"""Whole rounds as text: every script of this directory through one `check` (README.txt says how to read them)."""

import pytest

from tests.table.driver import Mismatch
from tests.table.language import SCRIPTS, Script, check


def params() -> list[object]:
    """A script that shows a known defect must fail, until the defect is gone and its line `defect:` with it."""
    return [
        pytest.param(
            script,
            id=str(script),
            marks=[pytest.mark.xfail(reason=script.defect, strict=True, raises=Mismatch)] if script.defect else [],
        )
        for script in SCRIPTS
    ]


@pytest.mark.parametrize("script", params())
def test_the_table_does_what_the_script_says(script: Script) -> None:
    __tracebackhide__ = True
    check(script)
