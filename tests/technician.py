"""A technician at `tablectl`, in this process: types a verb and reads what it says; moves cards, then presses Enter."""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller.cli import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever was printed
        return json.loads(self.out)


def run(*arguments: str | Path) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    code = ended.value.code
    return Ran(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())


class Hand(io.StringIO):
    """Before each Enter the next of `moves`."""

    def __init__(self, *moves: Callable[[], None]) -> None:
        super().__init__()
        self.moves = iter(moves)

    def readline(self, size: int | None = -1, /) -> str:
        next(self.moves)()
        return "\n"
