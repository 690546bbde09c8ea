"""A table's devices as `diag` has them: what each part sees, and when it may be tested. Knows no device."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from controller.core.conditions import Refused
from controller.core.facts import Phase
from controller.core.state import State

PARTS = ("scanner", "shoe", "lamps", "buzzer", "buttons", "display")
CASINO = "casino"  # the way of the results: no device, and there only while the table runs

_IN_ROUND = frozenset({Phase.BETTING, Phase.CLOSING, Phase.DEALING, Phase.RESULT})


class Part(NamedTuple):
    """One device: the driver of the configuration, what it tells for people, and its test, where it has one.

    `test` begins it and says how long it lasts, ms. It ends by itself, and sooner when the table has more to say.
    """

    driver: str
    see: Callable[[], dict[str, Any]]
    test: Callable[[], int] | None = None


def diag(parts: Mapping[str, Part], part: str, *, test: bool, state: State | None) -> dict[str, Any]:
    """`part`, `driver`, what the part sees and, with `test`, for how long its test runs now, `test_ms`.

    `state` is the table's; None: no table runs, and nobody reads its lamps. Refused says why not.
    """
    found = parts.get(part)
    if found is None:
        raise Refused("no_part", part=part)
    told = {"part": part, "driver": found.driver}
    if not test:
        return {**told, **found.see()}
    if found.test is None:
        raise Refused("no_test", part=part)
    if state is not None and (state.round is not None or state.phase in _IN_ROUND):
        raise Refused("round_runs", part=part)
    if part == "display" and state is not None and state.shoe is not None:
        raise Refused("shoe_loaded", part=part)  # between two rounds, too, it tells the dealer what to do
    return {**told, "test_ms": found.test(), **found.see()}
