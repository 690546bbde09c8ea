"""A table's devices as `diag` has them: what each part sees, and when it may be tested. Knows no device."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from controller.core.conditions import Refused
from controller.core.state import State

PARTS = ("scanner", "shoe", "lamps", "buzzer", "buttons", "display")
INNER = ("casino", "clock", "storage")  # no devices: the way of the results, time, the journal; of a table that runs

# Between two rounds, too, the panel tells the dealer what to do, and the shoe's sensors must see a card.
_HIDES = frozenset({"display", "shoe"})
PART_ACTS = ("test", "empty", "card", "cut_card", "keep")  # `test`, and the steps of the sensor head's calibration


class Part(NamedTuple):
    """One device: the driver of the configuration, what it tells for people, and its acts: `test`, where it has one.

    An act is begun, and says how long it lasts, ms. It ends by itself, and sooner when the table has more to say.
    """

    driver: str
    see: Callable[[], dict[str, Any]]
    acts: Mapping[str, Callable[[], int]] = MappingProxyType({})


def diag(parts: Mapping[str, Part], part: str, *, act: str = "", state: State | None) -> dict[str, Any]:
    """`part`, `driver`, what the part sees and, with an `act`, for how long that goes on now, `test_ms`.

    `state` is the table's; None: no table runs, and nobody reads its lamps. Refused says why not.
    """
    found = parts.get(part)
    if found is None:
        raise Refused("no_part", part=part)
    told = {"part": part, "driver": found.driver}
    if not act:
        return {**told, **found.see()}
    if act not in found.acts:
        raise Refused("no_test", part=part)
    if state is not None and state.round is not None:
        raise Refused("round_runs", part=part)
    if part in _HIDES and state is not None and state.shoe is not None:
        raise Refused("shoe_loaded", part=part)
    return {**told, "test_ms": found.acts[act](), **found.see()}
