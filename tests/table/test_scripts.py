"""Whole rounds as text: every script of this directory through one `check` (README.txt says how to read them)."""

from pathlib import Path

import pytest

from tests.table.driver import Mismatch
from tests.table.language import Script, check, read

FILES = [path for path in sorted(Path(__file__).parent.glob("*.txt")) if path.stem != "README"]
SCRIPTS = [script for path in FILES for script in read(path)]


def params() -> list[object]:
    """A script that shows a known defect must fail, until the defect is gone and its line `defect:` with it."""
    return [
        pytest.param(
            script,
            id=f"{script.file}: {script.title}",
            marks=[pytest.mark.xfail(reason=script.defect, strict=True, raises=Mismatch)] if script.defect else [],
        )
        for script in SCRIPTS
    ]


@pytest.mark.parametrize("script", params())
def test_the_table_does_what_the_script_says(script: Script) -> None:
    __tracebackhide__ = True
    check(script)
