"""What the table shows, for programs: phase, slots, prompt, conditions, lamps as plain values; public things (B10)."""

from typing import Any

from controller.core import conditions
from controller.core.state import Condition, State
from controller.core.view import Lamps, Pattern, View
from controller.panel import Words


def levels(state: State, view: View, words: Words, table: str, now: int) -> dict[str, Any]:
    """Of one moment: `state` and its `view`, at `now` (monotonic ns). Faces are those of the round's slots."""
    shoe, round_ = state.shoe, state.round
    dealt = zip(round_.slots, round_.cards, strict=True) if round_ else ()
    return {
        "phase": state.phase.value,
        "stage": round_.betting.stage if round_ and round_.betting else None,
        "shoe": shoe.number if shoe else None,
        "round": round_.number if round_ else None,
        "counted": shoe.counted if shoe else None,
        "slots": {slot.value: str(card) for slot, card in dealt},
        "prompt": prompt(view, words, table),
        "conditions": [_condition(c) for c in conditions.standing(state)],
        "lamps": _lamps(view.lamps, now),
        "key_turned": state.key_turned,
        "link": {"up": state.link.up, "reason": state.link.reason},
        "seqno": state.seqno,
    }


def prompt(view: View, words: Words, table: str) -> dict[str, Any]:
    """The panel's text in the table's language; empty where a line is."""
    shown = words.panel(view, table)
    return {"strip": shown.strip, "headline": shown.headline, "lines": list(shown.lines)}


def _condition(c: Condition) -> dict[str, Any]:
    exits = {choice: who.value for choice, who in c.exits.items()}
    return {"code": c.code, "stops": c.stops.name.lower(), "exits": exits, "detail": dict(c.detail)}


def _lamps(lamps: Lamps, now: int) -> dict[str, Any]:
    betting = lamps.pattern is Pattern.BETTING
    return {
        "pattern": lamps.pattern_at(now).value,
        "call": lamps.call,
        "closes_in_ms": max(0, lamps.closes_at - now) // 1_000_000 if betting else None,
    }
