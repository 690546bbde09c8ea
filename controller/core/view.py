"""What the table shows: one instruction, one strip, the lamps. Keys and values; words live in the catalogues.

`view` is a pure function of the state: levels, drawn again freely. The panel's grammar is at the top of
irregularities.md: a strip of 21 characters, a headline of 12, two lines of 16.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from . import conditions
from .betting import undrawn
from .cards import Card, Slot, total
from .facts import Phase, RoundCancelled, RoundCompleted, Stops
from .profile import Confirms, Limit, Opens, Rescan
from .rules import next_slot, outcome, split
from .shoe import in_sequence, pending_unread
from .state import Condition, Round, Shoe, State, round_of, shoe_of


@dataclass(frozen=True, slots=True)
class Text:
    """A message of the catalogue and its values: slots (`P1`), cards (`8H`), numbers."""

    key: str
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the hands do next. `strip` holds the notices, most important first: it never replaces the instruction."""

    headline: Text
    lines: tuple[Text, ...] = ()
    strip: tuple[Text, ...] = ()


class Pattern(StrEnum):
    """What the lamps say."""

    OFF = "off"
    BETTING = "betting"  # the bar goes out lamp by lamp
    NO_MORE = "no_more"  # all red, 2 Hz, until the first card
    HELD = "held"
    MANUAL = "manual"  # a card of the round in progress was keyed in (I42)
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Lamps:
    """`opened_at` and `closes_at` bound the betting time, monotonic ns.

    `buzz` names the closing whose sound is due, at `closes_at` while betting, else now; each name sounds once.
    """

    pattern: Pattern = Pattern.OFF
    opened_at: int = 0
    closes_at: int = 0
    call: bool = False
    buzz: str = ""

    def pattern_at(self, at: int) -> Pattern:
        """The pattern at that instant: betting ends at its deadline by itself, no disk is waited for (DESIGN 6)."""
        return Pattern.NO_MORE if self.pattern is Pattern.BETTING and at >= self.closes_at else self.pattern


@dataclass(frozen=True, slots=True)
class View:
    phase: Phase
    prompt: Prompt
    lamps: Lamps = Lamps()


def view(state: State) -> View:
    """What to show of a state: the strongest condition's prompt, else the phase's own, under one strip."""
    top = conditions.strongest(state)
    instruction = _of_condition(state, top) if top else _INSTRUCTIONS[state.phase](state)
    prompt = Prompt(instruction.headline, instruction.lines, _strip(state, top))
    return View(state.phase, prompt, _lamps(state, top))


def of_start(state: State) -> View:
    """Before the start is durable. Of what the run before showed a betting may be over, a sound made, a time gone."""
    return View(state.phase, _prompt("disk.wait"))


def of_disk(shown: View, key: str) -> View:
    """The loop's own views: `wait` while a commit takes long (ESPERE), `stop` while it fails (ALTO: DISCO)."""
    lamps = shown.lamps
    if lamps.pattern not in (Pattern.BETTING, Pattern.NO_MORE):  # the end of the betting waits for no disk (C1)
        lamps = Lamps(Pattern.HELD, call=lamps.call)
    return View(shown.phase, _prompt(f"disk.{key}"), lamps)


# --- the prompt of a condition ----------------------------------------------------------------------------

Variant = tuple[str, dict[str, str]]
"""What is added to the code to make the key, and the values that the state has beside the condition's detail."""


def _of_condition(state: State, c: Condition) -> Prompt:
    if c.code == "I02" and state.shoe and state.shoe.unsure is not None:
        return _prompt("unsure")  # scans are on their way, and it is not known yet what is to be read again
    about = _ABOUT.get(c.code)
    variant, values = about(state, c) if about else ("", {})
    return _prompt(c.code + variant, c.detail | values)


def _unread(state: State, c: Condition) -> Variant:
    """Those before it may have been read, and wait for their places. The hands must know where it is read again."""
    where = {Rescan.HAND: ".hand", Rescan.NONE: ".key"}.get(state.procedure.rescan, "")
    if state.round is None:
        return where, {}
    cards = state.round.cards
    for waiting in in_sequence(state):
        face = shoe_of(state).face(waiting.n)
        if face is None:
            break
        cards = (*cards, face)
    slot = next_slot(cards)
    return where, {"slot": slot.value} if slot else {}


def _surplus(state: State, c: Condition) -> Variant:
    return ".cards" if c.detail["why"] == "cards" else "", {}


def _moved(state: State, c: Condition) -> Variant:
    return "" if "n" in c.detail else ".unclear", {}


def _extra(state: State, c: Condition) -> Variant:
    """With the result announced, or no round, there is nothing to confirm."""
    return "" if state.phase is Phase.RESULT else ".ready", {}


def _missing_third(state: State, c: Condition) -> Variant:
    return f".{c.detail['slot']}", _points(state.round)


def _burned(state: State, c: Condition) -> Variant:
    shoe = shoe_of(state)
    return "", {"of": str(shoe.burn_of), "done": str(shoe.burn_done)}


def _unconfirmed(state: State, c: Condition) -> Variant:
    return "", _points(state.round)


def _recovered(state: State, c: Condition) -> Variant:
    if state.round is not None:
        return "", _hands(state.round)
    return (".first", {}) if shoe_of(state).burn_of is None else (".burn", _burned(state, c)[1])


def _lid(state: State, c: Condition) -> Variant:
    return "" if state.lid_open else ".closed", {}


def _count(state: State, c: Condition) -> Variant:
    return ".missing" if "missing" in c.detail else ".extra", {}


_ABOUT: dict[str, Callable[[State, Condition], Variant]] = {
    "I01": _unread,
    "I02": _unread,
    "I05": _surplus,
    "I08": _moved,
    "I09": _extra,
    "I11": _extra,
    "I13": _missing_third,
    "I25": _burned,
    "I28": _unconfirmed,
    "I35": _recovered,
    "I39": _lid,
    "I49": _count,
}


def _prompt(key: str, values: dict[str, str] | None = None, *, lines: int = 2) -> Prompt:
    values = values or {}
    texts = tuple(Text(f"{key}.line{i + 1}", values) for i in range(lines))
    return Prompt(Text(f"{key}.headline", values), texts)


# --- the phase's own instruction ----------------------------------------------------------------------------


def _closed(state: State) -> Prompt:
    return _prompt("closed")


def _preparing(state: State) -> Prompt:
    return _prompt(f"step.{state.step}")


def _burning(state: State) -> Prompt:
    shoe = shoe_of(state)
    if shoe.burn_of is None:
        return _prompt("burn.first")
    counted = state.procedure.sensors or state.procedure.confirm_result is Confirms.NONE  # else one CONFIRM tells all
    key = "burn.count" if counted else "burn.blind"
    return _prompt(key, {"of": str(shoe.burn_of), "done": str(shoe.burn_done)})


def _ready(state: State) -> Prompt:
    opens = state.procedure.open_betting
    if opens is Opens.NONE:
        return _draw(state, Slot.P1)
    if opens is Opens.SERVER:
        return _prompt("ready.server")
    if _is_last_next(state):
        return _prompt("ready.last")
    key = {RoundCompleted: "ready.collect", RoundCancelled: "ready.cancelled"}
    return _prompt(key.get(type(state.last), "ready"))


def _betting(state: State) -> Prompt:
    return _prompt("betting")


def _closing(state: State) -> Prompt:
    following = round_of(state).next
    return _prompt("no_more") if following is None or undrawn(state) else _draw(state, following)


def _dealing(state: State) -> Prompt:
    round_, unsure = state.round, shoe_of(state).unsure
    if round_ is not None and round_.next is not None:
        return _draw(state, round_.next)
    return _result(state) if unsure is None else _prompt("unsure")


def _draw(state: State, slot: Slot) -> Prompt:
    """Whose card is next and, for a third card, why."""
    shoe, round_ = shoe_of(state), state.round
    if shoe.aside is not None and (round_ is None or not round_.numbers):
        return _prompt("draw.aside", {"slot": slot})
    if pending_unread(state) and not conditions.sees(state):
        return _prompt("draw.again", {"slot": slot})
    values = {"slot": slot.value, **_points(round_)}
    if slot is Slot.P3:
        return _prompt("draw.P3", values)
    if slot is not Slot.B3 or round_ is None:
        return _prompt("draw", values, lines=1)
    player, _ = split(round_.slots, round_.cards)
    if len(player) == 3:
        return _prompt("draw.B3.with", values | {"third": str(player[2].points)})
    return _prompt("draw.B3.stood", values)


def _result(state: State) -> Prompt:
    values = _points(state.round)
    who = outcome(int(values["player"]), int(values["banker"]))
    confirms = state.procedure.confirm_result is Confirms.DEALER or state.called
    return _prompt(f"result.{who}" if confirms else f"result.{who}.auto", values)


def _unloading(state: State) -> Prompt:
    return _prompt("unload.draw" if state.procedure.sensors else "unload.count")


_INSTRUCTIONS: dict[Phase, Callable[[State], Prompt]] = {
    Phase.CLOSED: _closed,
    Phase.PREPARING: _preparing,
    Phase.BURNING: _burning,
    Phase.READY: _ready,
    Phase.BETTING: _betting,
    Phase.CLOSING: _closing,
    Phase.DEALING: _dealing,
    Phase.RESULT: _result,
    Phase.UNLOADING: _unloading,
}


def _points(round_: Round | None) -> dict[str, str]:
    """Each hand's point count on its first two cards and after; `-` without a card."""
    player, banker = split(round_.slots, round_.cards) if round_ else ((), ())
    return {"player": str(total(player)) if player else "-", "banker": str(total(banker)) if banker else "-"}


def _hands(round_: Round) -> dict[str, str]:
    player, banker = split(round_.slots, round_.cards)
    return {"player": _cards(player), "banker": _cards(banker)}


def _cards(cards: tuple[Card, ...]) -> str:
    return " ".join(cards) or "-"


def _is_last_next(state: State) -> bool:
    shoe = state.shoe
    return shoe is not None and shoe.last_round is not None and shoe.last_round == shoe.rounds + 1


# --- the strip and the lamps ----------------------------------------------------------------------------------


def _strip(state: State, top: Condition | None) -> tuple[Text, ...]:
    """Notices, most important first: the link, what waits for the round's end, the last round, the cut card, a call."""
    notices: list[Text] = []
    for c in conditions.standing(state):
        row = conditions.row(c.code)
        notice = row.waits or not (row.quiet or conditions.prompts(state, c))
        if c != top and c.code != "I21" and notice:  # I21 comes after the last round
            known = c.code if c.code in conditions.ROWS else "fault"
            notices.append(Text(f"strip.{known}", dict(c.detail)))
    shoe, round_ = state.shoe, state.round
    if round_ and round_.next is None and round_.slots[4:] == (Slot.B3,):
        notices.append(Text("strip.B3", {"card": round_.cards[-1]}))  # wherever the dealer laid it (I10)
    if round_ and round_.dummy:
        notices.append(Text("strip.dummy"))
    if (round_ and round_.last) or (round_ is None and _is_last_next(state)):
        notices.append(Text("strip.last"))
    if round_ and round_.manual:
        notices.append(Text("strip.manual"))
    if misplaced := conditions.find(state, "I21"):
        notices.append(Text(f"strip.I21.{misplaced.detail['why']}"))
    if shoe and shoe.cut_waits == shoe.out and not (shoe.cut or shoe.cut_passed):
        notices.append(Text("strip.cut_waits"))
    if shoe and shoe.end and round_:
        notices.append(Text("strip.end"))
    if state.phase is Phase.CLOSING and round_ and round_.betting and round_.betting.draw:
        notices.append(Text("strip.no_more"))
    if state.called:
        notices.append(Text("strip.called"))
    if state.key_turned:
        notices.append(Text("strip.key"))
    if shoe and state.phase in (Phase.READY, Phase.BETTING) and state.procedure.open_betting is not Opens.NONE:
        notices += _closing_bets(shoe)
    if state.limits and state.phase in (Phase.CLOSED, Phase.READY):
        notices.append(_limits(state.limits))
    return tuple(notices)


_SIDE_BETS = {  # by the last line of a bet's pay table
    "player_natural": "natural",
    "banker_natural": "natural",
    "player_pair": "pair",
    "banker_pair": "pair",
    "banker_wins_with_6": "six",
    "banker_wins_with_6_on_2": "six",
    "banker_wins_with_6_on_3": "six",
}


def _closing_bets(shoe: Shoe) -> list[Text]:
    """The side bets that are open for the last time, and those closed for the rest of the shoe (C5, I50)."""
    named: dict[str, set[str]] = {"last": set(), "closed": set()}
    for bet in shoe.profile.bets:
        kind = _SIDE_BETS.get(bet.pays[-1].when)
        if kind and bet.closes_after is not None and bet.closes_after - shoe.counted <= 1:
            named["last" if bet.closes_after > shoe.counted else "closed"].add(kind)
    return [Text(f"strip.I50.{word}.{'.'.join(sorted(kinds))}") for word, kinds in named.items() if kinds]


def _limits(limits: tuple[Limit, ...]) -> Text:
    """What may be staked on Player and Banker, or on the first bet told, in US format (C7, G5)."""
    shown = next((limit for limit in limits if limit.bet in ("player", "banker")), limits[0])
    return Text("strip.limits_are", {"least": _us(shown.least), "most": _us(shown.most)})


def _us(amount: str) -> str:
    return f"{Decimal(amount):,f}".removesuffix(".00")


def _lamps(state: State, top: Condition | None) -> Lamps:
    round_ = state.round
    betting = round_.betting if round_ else None
    if round_ and betting and state.phase in (Phase.BETTING, Phase.CLOSING):
        pattern = Pattern.BETTING if state.phase is Phase.BETTING else Pattern.NO_MORE
        buzz = "" if betting.heard else f"{shoe_of(state).number}/{round_.number}/{betting.stage}"
        return Lamps(pattern, betting.opened_at, betting.closes_at, state.called, buzz)
    if top and top.stops is Stops.CARDS:
        return Lamps(Pattern.HELD, call=state.called)
    if round_ and round_.manual:
        return Lamps(Pattern.MANUAL, call=state.called)
    offline = not state.link.up and state.phase is not Phase.CLOSED
    return Lamps(Pattern.OFFLINE if offline else Pattern.OFF, call=state.called)
