"""Everything that may stand over the phase, one row a code (irregularities.md, device faults).

A row says what it stops, who may end it and how, and when it is over by itself. `decide` raises conditions as
facts; what is true of one row is said here and nowhere else.
"""

from collections.abc import Callable
from typing import NamedTuple

from . import facts as f
from .facts import Fact, Phase, Stops, Who
from .profile import Rescan
from .state import Condition, Fate, State

Exits = dict[str, Who]


class Refused(Exception):  # noqa: N818 - an answer to a person, not an error of the program
    """A person asked for what cannot be now. `key` is a message of the catalogue, `values` its values."""

    def __init__(self, key: str, **values: str) -> None:
        super().__init__(key)
        self.key = key
        self.values = values


class Row(NamedTuple):
    """What is true of one code.

    `over`: whether the condition has ended by itself in this state; `calls`: raising it calls the pit boss; `strip`: it
    is only a notice, the instruction stays; `waits`: a notice until it bars the next round, then a prompt; `deals`: a
    prompt while cards are dealt, and a notice in shoe work, which goes on;
    `scan_cures`: it stops cards but not their scans; `quiet`: it is for the record and no panel shows it; `buttons`:
    the choices that START and CONFIRM are while the panel asks for one.
    """

    stops: Stops
    exits: Exits
    over: Callable[[State, Condition], bool]
    calls: bool = False
    strip: bool = False
    waits: bool = False
    deals: bool = False
    scan_cures: bool = False
    quiet: bool = False
    buttons: tuple[str, str] | None = None


def _never(state: State, c: Condition) -> bool:
    """Only a person or the device's return ends it."""
    return False


def _card_settled(state: State, c: Condition) -> bool:
    """The card has a fate, or is set aside for the next round."""
    shoe = state.shoe
    if shoe is None:
        return True
    if "n" not in c.detail:
        return state.phase is not c.phase
    return shoe.fate(c.n) is not Fate.PENDING or shoe.aside == c.n


def _card_read(state: State, c: Condition) -> bool:
    """The card was read, or gone; without a number (no sensors), the next one was."""
    shoe = state.shoe
    if shoe is None:
        return True
    return c.n not in shoe.unread if "n" in c.detail else shoe.out > c.n or state.phase is not c.phase


def _all_read(state: State, c: Condition) -> bool:
    return state.shoe is None or all(surplus(state, n) for n in state.shoe.unread)


def _moved_on(state: State, c: Condition) -> bool:
    """The next card is out, or the table is in another phase."""
    return state.phase is not c.phase or (state.shoe is not None and state.shoe.out > c.n)


def _third_dealt(state: State, c: Condition) -> bool:
    return state.round is None or state.round.next != c.detail["slot"]


def _shoe_gone(state: State, c: Condition) -> bool:
    return state.shoe is None


def _pair_settled(state: State, c: Condition) -> bool:
    """The first of the two has a fate. How many moved, only people can say."""
    return state.shoe is None or ("n" in c.detail and _card_settled(state, c))


def _shoe_changes(state: State, c: Condition) -> bool:
    return state.shoe is None or state.phase is Phase.UNLOADING


def _cut_accounted(state: State, c: Condition) -> bool:
    """A cut card that was missing has come, or is in what is left."""
    return state.shoe is None or (c.detail["why"] == "missing" and (state.shoe.cut or _shoe_changes(state, c)))


def _left_phase(state: State, c: Condition) -> bool:
    return state.phase is not c.phase


def _nothing_open(state: State, c: Condition) -> bool:
    """The round or the burn that it asked about is gone."""
    return state.round is None and state.phase is not Phase.BURNING


def _link_up(state: State, c: Condition) -> bool:
    return state.link.up


def _no_round(state: State, c: Condition) -> bool:
    return state.round is None


def _link_up_or_over(state: State, c: Condition) -> bool:
    return state.link.up or state.phase is Phase.UNLOADING


def _not_empty(state: State, c: Condition) -> bool:
    """Cards are left by count, and one lies in the mouth or came out: the sensor that saw none was wrong."""
    shoe = state.shoe
    if shoe is None or state.round is None:
        return True
    return c.n - shoe.cut_numbers < shoe.profile.cards and (state.present or shoe.out > c.n)


SHOE_WORK = (Phase.CLOSED, Phase.PREPARING, Phase.UNLOADING)
_NOTHING, _ROUNDS, _CARDS = Stops.NOTHING, Stops.ROUNDS, Stops.CARDS
_RESCAN: Exits = {"rescan": Who.DEALER, "manual": Who.PIT}
_EXTRA: Exits = {"burn": Who.PIT, "next": Who.PIT, "dummy": Who.PIT}

ROWS: dict[str, Row] = {
    "I01": Row(_CARDS, _RESCAN, _card_read, scan_cures=True),
    "I02": Row(_CARDS, _RESCAN, _all_read, scan_cures=True),
    "I04": Row(_NOTHING, {}, _moved_on, strip=True),
    "I05": Row(_CARDS, {"finish": Who.PIT, "void": Who.PIT}, _shoe_gone, calls=True),
    "I06": Row(_CARDS, {"rescan": Who.PIT, "remove": Who.PIT, "void": Who.PIT}, _card_settled, calls=True),
    "I07": Row(
        _CARDS,
        {"void": Who.PIT, "burn": Who.PIT, "use": Who.PIT, "dummy": Who.PIT},
        _card_settled,
        calls=True,
    ),
    "I08": Row(
        _CARDS,
        {"order": Who.PIT, "void": Who.PIT, "no_card": Who.PIT, "one_card": Who.PIT, "two_cards": Who.PIT},
        _pair_settled,
        calls=True,
    ),
    "I09": Row(_ROUNDS, _EXTRA, _card_settled, calls=True),
    "I11": Row(_ROUNDS, _EXTRA, _card_settled, calls=True),
    "I13": Row(_NOTHING, {}, _third_dealt),
    "I16": Row(_CARDS, {"continue": Who.PIT, "void": Who.PIT}, _shoe_changes, calls=True),
    "I17": Row(_CARDS, {"out": Who.PIT, "void": Who.PIT}, _shoe_gone, calls=True),
    "I18": Row(_NOTHING, {}, _moved_on),
    "I19": Row(_NOTHING, {}, _moved_on),
    "I20": Row(_NOTHING, {}, _moved_on, strip=True),
    "I21": Row(_NOTHING, {"noted": Who.PIT}, _cut_accounted, strip=True),
    "I22": Row(_CARDS, {"yes": Who.DEALER, "no": Who.DEALER}, _shoe_changes, buttons=("no", "yes")),
    "I23": Row(_CARDS, {"void": Who.PIT}, _not_empty, calls=True),
    "I25": Row(_ROUNDS, {"accept": Who.PIT}, _left_phase),
    "I28": Row(_NOTHING, {}, _left_phase),
    "I31": Row(_NOTHING, {}, _moved_on, deals=True),
    "I32": Row(_NOTHING, {}, _link_up, strip=True),
    "I33": Row(_ROUNDS, {}, _link_up_or_over),
    "I34": Row(_ROUNDS, {}, _never, waits=True),
    "I35": Row(_CARDS, {"match": Who.PIT, "differ": Who.PIT}, _nothing_open),
    "I39": Row(_ROUNDS, {"closed": Who.PIT}, _shoe_changes, calls=True, waits=True),
    "I40": Row(_CARDS, {}, _never, deals=True),
    "I41": Row(_ROUNDS, {}, _never, waits=True),
    "I49": Row(_ROUNDS, {"recount": Who.DEALER, "accept": Who.PIT}, _left_phase, calls=True),
    "I52": Row(_NOTHING, {}, _left_phase, quiet=True),
    "I53": Row(_ROUNDS, {"stands": Who.PIT}, _never, calls=True, waits=True),
    "offline": Row(_ROUNDS, {}, _never, waits=True),
    "limits": Row(_ROUNDS, {}, _never, waits=True),
    "enrolment": Row(_ROUNDS, {}, _never, waits=True),
    "pause": Row(_ROUNDS, {"resume": Who.PIT}, _never, waits=True),
    "video": Row(_ROUNDS, {"back": Who.PIT}, _never, waits=True),
    "void_request": Row(_CARDS, {"void": Who.PIT, "refuse": Who.PIT}, _no_round, calls=True),
    "disk": Row(_ROUNDS, {}, _never, waits=True),
    "feed_refused": Row(_NOTHING, {}, _never, strip=True),
    "feed_file": Row(_NOTHING, {}, _never, strip=True),
    "lamps": Row(_NOTHING, {}, _never, strip=True),
    "buzzer": Row(_NOTHING, {}, _never, strip=True),
    "button": Row(_NOTHING, {}, _never, strip=True),
    "display": Row(_NOTHING, {}, _never, strip=True),
    "hand_scanner": Row(_NOTHING, {}, _never, strip=True),
}

_OTHER_FAULT = Row(_NOTHING, {}, _never, strip=True)  # a device that the game can do without


def row(code: str) -> Row:
    return ROWS.get(code, _OTHER_FAULT)


def standing(state: State) -> tuple[Condition, ...]:
    """All that stands, with what lacks between table and casino: these are levels, which no message reports."""
    if (state.link.up and not _awaits_casino(state)) or state.phase is Phase.CLOSED:
        return state.conditions
    lacks = {"limits": not state.limits, "enrolment": not state.enrolled}
    levels = [_level(state, code) for code in ("limits", "enrolment") if getattr(state.procedure, code) and lacks[code]]
    if not state.link.up:
        stops = _NOTHING if state.procedure.offline_rounds else _ROUNDS
        levels.insert(0, _level(state, "offline", {"text": state.link.reason})._replace(stops=stops))
    return (*state.conditions, *levels)


def _awaits_casino(state: State) -> bool:
    procedure = state.procedure
    return (procedure.limits and not state.limits) or (procedure.enrolment and not state.enrolled)


def _level(state: State, code: str, detail: dict[str, str] | None = None) -> Condition:
    n = state.shoe.out if state.shoe else 0
    return Condition(code, ROWS[code].stops, {}, detail or {}, state.seqno + 1, n, state.phase)


def strongest(state: State) -> Condition | None:
    """The condition that prompts: cards before rounds before nothing, then the earliest in card order."""
    shown = [c for c in standing(state) if prompts(state, c)]
    return min(shown, key=lambda c: (-c.stops, c.n, c.raised), default=None)


def prompts(state: State, c: Condition) -> bool:
    """Whether it may take the instruction's place; else it is a notice. Rounds and shoe work go on under a notice."""
    row_ = row(c.code)
    if row_.strip or row_.quiet or (row_.deals and state.phase in SHOE_WORK):
        return False
    return not row_.waits or (state.phase is Phase.READY and c.stops >= _ROUNDS)


def bars(state: State, stops: Stops) -> Condition | None:
    """A condition that stops at least this much."""
    return next((c for c in standing(state) if c.stops >= stops), None)


def cards_held(state: State) -> bool:
    """Whether a card that is read now must wait for its place; what is left at the shoe's end is only counted."""
    if not state.conditions or state.phase is Phase.UNLOADING:
        return False
    return any(c.stops is _CARDS and not row(c.code).scan_cures for c in state.conditions)


def find(state: State, code: str) -> Condition | None:
    """The one with this code that is about the earliest card."""
    found = [c for c in state.conditions if c.code == code] if state.conditions else None
    return min(found, key=lambda c: (c.n, c.raised)) if found else None


def about(state: State, n: int) -> bool:
    """Whether something stands about card `n` that people decide. One that only must be read keeps its turn."""
    return any(c.detail.get("n") == str(n) and not row(c.code).scan_cures for c in state.conditions)


def unclear(state: State) -> bool:
    """Whether something moved, and nobody has said yet how many cards left (I08)."""
    return any(c.code == "I08" and "n" not in c.detail for c in state.conditions)


# Parts of I41: without the one no card is seen to leave; beside the others one may leave unseen, or be told of later.
BLIND, DIM = ("chip",), ("exit_inner", "exit_outer", "head")
MOUTH = ("chip", "head", "present")  # with one of these at fault nobody knows whether a card lies in the mouth


def sees(state: State) -> bool:
    """Whether the shoe has sensors that can see a card leave: with their device gone one scan is one card (I41)."""
    return state.procedure.sensors and not _at_fault(state, BLIND)


def dim(state: State) -> bool:
    """Whether a card may have left without being seen by the shoe's sensors (I41)."""
    return _at_fault(state, DIM)


def sees_mouth(state: State) -> bool:
    """Whether an empty mouth is to be believed."""
    return not _at_fault(state, MOUTH)


def _at_fault(state: State, parts: tuple[str, ...]) -> bool:
    return any(c.code == "I41" and c.part in parts for c in state.conditions) if state.conditions else False


def surplus(state: State, n: int) -> Condition | None:
    """What stands about card `n` that came when no card was to be drawn (I09, I11)."""
    return next((c for c in state.conditions if c.code in ("I09", "I11") and c.n == n), None)


def raised(
    state: State, code: str, detail: dict[str, str] | None = None, without: tuple[str, ...] = ()
) -> tuple[Fact, ...]:
    """The facts that raise a condition, but for the exits `without`, and call the pit boss where its row says so."""
    row_ = ROWS[code]
    exits = {choice: who for choice, who in row_.exits.items() if choice not in without}
    fact = f.IrregularityRaised(code, row_.stops, exits, detail or {})
    return (fact, f.StaffCalled(())) if row_.calls and not state.called else (fact,)


def misread(state: State, code: str, detail: dict[str, str]) -> tuple[Fact, ...]:
    """The facts of a misread (I01, I02). Where no scanner can read the card again, the pit boss is called to key it."""
    if state.procedure.rescan is not Rescan.NONE:
        return raised(state, code, detail)
    called = () if state.called else (f.StaffCalled(()),)
    return (*raised(state, code, detail, ("rescan",)), *called)


def resolved(c: Condition, choice: str, by: tuple[str, ...] = ()) -> f.IrregularityResolved:
    return f.IrregularityResolved(c.code, c.raised, choice, by)


def over(state: State) -> tuple[Fact, ...]:
    """What has ended by itself."""
    return tuple(
        resolved(c, "rescan" if row(c.code).scan_cures else "automatic")
        for c in state.conditions
        if row(c.code).over(state, c)
    )


def authorise(by: tuple[str, ...], who: Who) -> None:
    """Refused unless these people may. A pit boss acts beside the dealer: two different people."""
    if who is Who.PIT and len(set(by)) < 2:
        raise Refused("needs_pit")
    if who is Who.TECHNICIAN and not by:
        raise Refused("needs_technician")
