"""What a person may ask of the table over the control socket: each method, what it must say, the event it makes."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from controller.core import events as e
from controller.core.cards import Card
from controller.core.events import Event
from controller.core.facts import Phase

from .messages import INVALID_PARAMS, RpcError
from .parts import INNER, PART_ACTS, PARTS
from .recall import ROUNDS_MAX

TEXT_MAX, STAFF_MAX = 200, 8  # a reason that a person typed; people who sign one act
CARDS_MAX = 12 * 52  # the largest shoe (A1)
SEQNO_MAX = 2**53  # the largest whole number that every reader of JSON holds exactly (RFC 8259, 6)

Reader = Callable[[Any], Any]
"""The value that a param holds; ValueError says what it must be."""


class Act(NamedTuple):
    """`kind` is the event; the params that it needs and takes are its fields of the same name.

    `takes` has what stands for those that are not given; `phases` are those in which the button is this one's.
    """

    kind: Callable[..., Event]
    needs: tuple[str, ...] = ()
    takes: Mapping[str, Any] = MappingProxyType({})
    phases: frozenset[Phase] = frozenset(Phase)


_SHOE_WORK = frozenset({Phase.CLOSED, Phase.PREPARING, Phase.BURNING, Phase.UNLOADING})

ACTS: dict[str, Act] = {
    "round.start": Act(e.StartPressed),
    "round.close": Act(e.CloseAsked),
    "round.confirm": Act(e.ConfirmPressed),
    "round.hold": Act(e.ConfirmHeld),
    "round.call": Act(e.CallPressed),
    "round.void": Act(e.VoidAsked, needs=("reason",)),
    "round.report": Act(e.ReportAsked, needs=("code",)),
    "round.resolve": Act(e.ResolveAsked, needs=("code", "choice"), takes={"card": None, "reason": ""}),
    "shoe.next": Act(e.ConfirmPressed, phases=_SHOE_WORK),
    "shoe.load": Act(e.LoadAsked),
    "shoe.left": Act(e.LeftCounted, needs=("left",)),
    "shoe.end": Act(e.EndShoeAsked, takes={"reason": "discretion"}),
}
COMMON = ("by", "reason", "id_key")
"""What every act may say. A reason for which the event has no place is told in the log."""


def event(method: str, params: dict[str, Any], at: int) -> Event:
    """The event of an act whose params `read` has read, at `at` (monotonic ns)."""
    act = ACTS[method]
    own = {**act.takes, **{name: params[name] for name in (*act.needs, *act.takes) if name in params}}
    key = ("control", params["id_key"]) if "id_key" in params else None
    return act.kind(at, **own, by=params.get("by", ()), key=key)


def read(params: dict[str, Any], needs: tuple[str, ...], takes: tuple[str, ...]) -> dict[str, Any]:
    """The params as values; RpcError INVALID_PARAMS says what is missing, unknown or wrong."""
    known = dict.fromkeys((*needs, *takes))
    for name in params:
        if name not in known:
            raise RpcError(INVALID_PARAMS, f"unknown param {name!r:.60}: known here are {', '.join(known) or 'none'}")
    for name in needs:
        if name not in params:
            raise RpcError(INVALID_PARAMS, f"{name} is missing: {_PARAMS[name][1]}")
    return {name: _read(name, value) for name, value in params.items()}


def _read(name: str, value: Any) -> Any:  # noqa: ANN401 - what JSON holds
    reader, what = _PARAMS[name]
    try:
        return reader(value)
    except (ValueError, TypeError):
        raise RpcError(INVALID_PARAMS, f"{name} must be {what}, not {value!r:.60}") from None


def pattern(text: str) -> Reader:
    pattern = re.compile(text)

    def read_text(value: Any) -> str:  # noqa: ANN401 - what JSON holds
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError
        return value

    return read_text


def between(least: int, greatest: int) -> Reader:
    def read_number(value: Any) -> int:  # noqa: ANN401 - what JSON holds
        if type(value) is not int or not least <= value <= greatest:
            raise ValueError
        return value

    return read_number


def text(value: Any) -> str:  # noqa: ANN401 - what JSON holds
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value.strip()) <= TEXT_MAX:
        raise ValueError
    return value.strip()


_staff_id = pattern(r"[A-Za-z0-9._-]{1,32}")


def _staff(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - what JSON holds
    if not isinstance(value, list) or len(value) > STAFF_MAX:
        raise ValueError
    return tuple(_staff_id(each) for each in value)


_PARAMS: dict[str, tuple[Reader, str]] = {
    "by": (_staff, f"a list of at most {STAFF_MAX} staff ids of letters, digits, `.`, `_`, `-`"),
    "reason": (text, f"printable text of at most {TEXT_MAX} characters"),
    "id_key": (pattern(r"[A-Za-z0-9._:-]{1,64}"), "text of at most 64 letters, digits, `.`, `_`, `:`, `-`"),
    "code": (pattern(r"[A-Za-z0-9_]{1,32}"), "a code, as in I07"),
    "choice": (pattern(r"[a-z_]{1,32}"), "one of its choices, as in burn"),
    "card": (Card.parse, "a card: rank A 2-9 T J Q K, then suit S H D C, as in 8H"),
    "left": (between(0, CARDS_MAX), f"the number of cards counted, 0 to {CARDS_MAX}"),
    "part": (pattern("|".join((*PARTS, *INNER))), f"one of {', '.join((*PARTS, *INNER))}"),
    "from": (between(1, SEQNO_MAX), "a message's number, from 1"),
    "publisher": (pattern("mqtt|serial|file"), "mqtt, serial or file"),
    "act": (pattern("|".join(PART_ACTS)), f"one of {', '.join(PART_ACTS)}, or left out"),
    "n": (between(1, ROUNDS_MAX), f"a number of rounds, 1 to {ROUNDS_MAX}"),
}
