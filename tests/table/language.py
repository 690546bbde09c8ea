"""The language of the scripts in this directory: rounds told as a pit boss would tell them. README.txt explains it.

It knows the core's doors (`play`, `due`, `view`) and no rule of the game: what should come of it is in the script.
"""

import difflib
import shlex
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from controller.core import conditions
from controller.core import events as e
from controller.core import facts as f
from controller.core.cards import Card, Slot
from controller.core.conditions import Refused
from controller.core.facts import PUBLIC, Fact, Phase
from controller.core.profile import (
    Burn,
    Confirms,
    CutFirst,
    LastRound,
    Limit,
    Opens,
    Position,
    Procedure,
    Profile,
    Rescan,
    Stage,
)
from controller.core.state import State, fold
from controller.core.table import due
from controller.core.view import Text, view
from tests.profiles import COMMISSION, PROFILES
from tests.table.driver import SECOND, ZERO, Mismatch, Observer, Table

# --- the words of a script: what happens -------------------------------------------------------------------


def ns(text: str) -> int:
    """`15s`, `300ms`, `1ns`, `-100ms`."""
    for unit, size in (("ns", 1), ("ms", 1_000_000), ("s", SECOND)):
        if text.endswith(unit):
            return int(Decimal(text.removesuffix(unit)) * size)
    raise ValueError(f"{text!r} is no time: write 15s, 300ms or 1ns")


class Said(NamedTuple):
    """A line of a script, taken apart: the words behind its verb, the time it is stamped with, who does it."""

    table: Table
    words: list[str]
    at: int = 0
    by: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        return self.words[0]

    @property
    def all(self) -> str:
        return " ".join(self.words)

    @property
    def rest(self) -> str:
        return " ".join(self.words[1:])


def _card(said: Said) -> e.Event:
    card = Card.parse(said.word)
    said.table.scanned.append(card)
    return e.CardScanned(said.at, card)


def _hand(said: Said) -> e.Event:
    if said.word == "cut":
        return e.CutCardSeen(said.at, "code", hand=True)
    return e.CardScanned(said.at, Card.parse(said.word), hand=True)


def _resolve(said: Said) -> e.Event:
    code, choice, *card = said.words
    return e.ResolveAsked(said.at, code, choice, Card.parse(card[0]) if card else None, by=said.by)


def _receipt(said: Said) -> e.Event:
    """Of every message so far; `receipt but 1`: of all but the last."""
    but = int(said.words[1]) if said.words else 0
    return e.Receipt(said.at, said.table.state.seqno - but)


def _limits(said: Said) -> e.Event:
    """`limits player=10-5000 tie=5-100`."""
    parts = [word.replace("-", "=").split("=") for word in said.words]
    return e.LimitsGiven(said.at, tuple(Limit(bet, least, most) for bet, least, most in parts), by=said.by)


EVENTS: dict[str, Callable[[Said], e.Event]] = {
    "card": _card,
    "move": lambda said: e.CardMoved(said.at),
    "hand": _hand,
    "noread": lambda said: e.CardUnread(said.at, " ".join(said.words) or "?"),
    "code": lambda said: e.CodeUnknown(said.at, said.word),
    "cut": lambda said: e.CutCardSeen(said.at, said.words[0] if said.words else "code"),
    "two": lambda said: e.TwoCardsMoved(said.at),
    "unclear": lambda said: e.MovementUnclear(said.at, said.word),
    "back": lambda said: e.CardReturned(said.at),
    "again": lambda said: e.CardRepeated(said.at),
    "sighted": lambda said: e.CutCardWaiting(said.at),
    "lid": lambda said: e.LidChanged(said.at, {"open": True, "closed": False}[said.word]),
    "key": lambda said: e.KeyTurned(said.at, {"turned": True, "back": False}[said.word]),
    "mouth": lambda said: e.MouthChanged(said.at, {"card": True, "empty": False}[said.word]),
    "start": lambda said: e.StartPressed(said.at, by=said.by),
    "confirm": lambda said: e.ConfirmPressed(said.at, by=said.by),
    "hold": lambda said: e.ConfirmHeld(said.at, by=said.by),
    "call": lambda said: e.CallPressed(said.at, by=said.by),
    "close": lambda said: e.CloseAsked(said.at, by=said.by),
    "void": lambda said: e.VoidAsked(said.at, said.word, by=said.by),
    "report": lambda said: e.ReportAsked(said.at, said.word, by=said.by),
    "resolve": _resolve,
    "load": lambda said: e.LoadAsked(said.at, by=said.by),
    "left": lambda said: e.LeftCounted(said.at, int(said.word), by=said.by),
    "end": lambda said: e.EndShoeAsked(said.at, said.word, by=said.by),
    "link": lambda said: e.LinkChanged(said.at, said.word == "up", said.rest),
    "receipt": _receipt,
    "backlog": lambda said: e.BacklogChanged(said.at, said.word == "high", int(said.rest)),
    "fault": lambda said: e.FaultSeen(said.at, said.word, said.words[1], " ".join(said.words[2:])),
    "mended": lambda said: e.FaultGone(said.at, said.word, said.rest, by=said.by),
    "server-opens": lambda said: e.OpenAsked(said.at, by=said.by),
    "server-closes": lambda said: e.CloseAsked(said.at, casino=True, by=said.by),
    "server-ends": lambda said: e.EndShoeAsked(said.at, said.word, casino=True, by=said.by),
    "pause": lambda said: e.PauseAsked(said.at, said.all, by=said.by),
    "resume": lambda said: e.ResumeAsked(said.at, by=said.by),
    "video": lambda said: e.VideoChanged(said.at, {"up": True, "down": False}[said.word], by=said.by),
    "ask-void": lambda said: e.VoidRequested(said.at, said.all, by=said.by),
    "dispute": lambda said: e.ResultDisputed(said.at, int(said.word), said.words[1], by=said.by),
    "limits": _limits,
    "enrol": lambda said: e.Enrolled(said.at, by=said.by),
    "bad-command": lambda said: e.CommandRefused(said.at, said.word),
    "clock-set": lambda said: e.ClockStepped(said.at, ns(said.word), ns(said.words[1]), synchronised=True),
    "stop": lambda said: e.Stopped(said.at, said.word),
}


def _as_it_stands(said: Said) -> None:
    """A section may begin with what is expected of all that came before it."""


def _deal(said: Said) -> None:
    for name in said.words:
        said.table.deal(Card.parse(name))


def _round(said: Said) -> None:
    cards = iter([Card.parse(name) for name in said.words])
    try:
        said.table.round(cards)
    except StopIteration:
        raise Mismatch("the round wants more cards than these") from None
    if left := " ".join(cards):
        raise Mismatch(f"the round was over before {left}")


def _rounds(said: Said) -> None:
    for _ in range(int(said.word)):
        said.table.round(said.table.pack())
        if said.table.state.phase is not Phase.READY:
            raise Mismatch(f"a round ended in {said.table.state.phase}")


def _late(said: Said) -> None:
    """The loop was away: one Elapsed for all deadlines that have passed."""
    said.table.now += ns(said.word)
    said.table.submit(e.Elapsed(said.table.now))


def _configure(said: Said) -> None:
    table = said.table
    profile, procedure = table.state.profile or COMMISSION, table.state.procedure
    for word in said.words:
        profile, procedure = setting(profile, procedure, word)
    table.submit(e.Configured(table.now, f"config {table.now}", tuple(said.words), procedure, profile))


DOERS: dict[str, Callable[[Said], None]] = {
    "as": _as_it_stands,
    "deal": _deal,
    "round": _round,
    "rounds": _rounds,
    "until": lambda said: said.table.until_card(),
    "restart": lambda said: said.table.restart(other=said.words == ["other", "boot"]),
    "late": _late,
    "configure": _configure,
}


def act(table: Table, text: str) -> None:
    """One line of a script: perhaps a step of the clock, then what happens."""
    words = shlex.split(text)
    if words[0].startswith("+"):
        span, words = ns(words[0][1:]), words[1:]
        if not words:
            table.wait(span)
            return
        table.now += span
    at = table.now
    by: tuple[str, ...] = ()
    if "by" in words:
        words, by = words[:-2], tuple(words[-1].split(","))
    if "stamped" in words:
        words, at = words[:-2], at + ns(words[-1])
    verb, *words = words
    said = Said(table, words, at, by)
    if verb in DOERS:
        DOERS[verb](said)
    else:
        table.submit(EVENTS[verb](said))


# --- the words of a script: the house ----------------------------------------------------------------------


def _stages(text: str) -> tuple[Stage, ...]:
    """`P1,B1:10,P2`: before which card, and the seconds where they differ."""
    parts = [part.partition(":") for part in text.split(",")]
    return tuple(Stage(Slot(slot), int(seconds) if seconds else None) for slot, _, seconds in parts)


def _burn(text: str) -> dict[str, Any]:
    if text.isdigit():
        return {"burn": Burn.FIXED, "burn_count": int(text)}
    return {"burn": Burn(text), "burn_count": 0}


_FLAGS: dict[str, dict[str, Any]] = {
    "one_more": {"last_round": LastRound.ONE_MORE},
    "shuffle_now": {"cut_first": CutFirst.SHUFFLE_NOW},
    "early_close": {"early_close": True},
    "use_early_card": {"use_early_card": True},
}
_RULES: dict[str, Callable[[str], dict[str, Any]]] = {
    "decks": lambda text: {"decks": int(text)},
    "steps": lambda text: {"shoe_steps": tuple(text.split(","))},
    "stages": lambda text: {"stages": _stages(text)},
    "burn": _burn,
    "depth": lambda text: {"cut_depth": None if text == "none" else tuple(map(int, text.split("-")))},
}
_KINDS: dict[str, Callable[[str], object]] = {
    "open_betting": Opens,
    "confirm_result": Confirms,
    "position": Position,
    "rescan": Rescan,
}
_YES = {"yes": True, "no": False, "allow": True, "refuse": False}


def setting(profile: Profile, procedure: Procedure, word: str) -> tuple[Profile, Procedure]:
    """One word of a `rules` or `table` line; KeyError for a word that is none."""
    name, _, text = word.partition("=")
    if name in PROFILES:
        return PROFILES[name], procedure
    if name in _FLAGS:
        return replace(profile, **_FLAGS[name]), procedure
    if name in _RULES:
        return replace(profile, **_RULES[name](text)), procedure
    if name not in {field.name for field in fields(Procedure)}:
        raise KeyError(f"{word!r} is no setting of the rules or the table")
    value: Any = int(text) if text.isdigit() else _KINDS.get(name, _YES.__getitem__)(text)
    return profile, replace(procedure, **{name: value})


# --- the words of a script: what is expected ---------------------------------------------------------------


def told(value: object) -> str:
    """A value as scripts write it."""
    if value is None or value in ((), ""):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, f.Stops):
        return value.name.lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, f.BetResult):
        return value.result if value.pays is None else f"{value.result}:{value.pays}"
    if isinstance(value, Profile):
        return value.name
    if isinstance(value, tuple):
        return ",".join(map(told, value))
    return str(value)


def seconds(at: int) -> str:
    """An instant as the seconds since the script began."""
    return f"{(Decimal(at - ZERO) / SECOND).normalize():f}s"


def flat(record: object, prefix: str = "") -> dict[str, str]:
    """The fields of a fact, `player.cards` and `detail.slot` among them."""
    members: dict[str, str] = {}
    pairs = record.items() if isinstance(record, dict) else ((x.name, getattr(record, x.name)) for x in fields(record))  # type: ignore[arg-type]
    for key, value in pairs:
        name = prefix + key
        if value == {}:
            members[name] = "-"
        elif isinstance(value, dict) or (is_dataclass(value) and not isinstance(value, (Profile, f.BetResult))):
            members |= flat(value, f"{name}.")
        elif isinstance(value, int) and (key == "at" or key.endswith("_at")):
            members[name] = seconds(value)
        else:
            members[name] = told(value)
    return members


BRIEF = {"code", "round", "n", "slot", "card", "reason", "choice", "last_round", "then"}


class Message(NamedTuple):
    """A public fact, or what a script says of one."""

    type: str
    members: dict[str, str]

    def line(self, only: set[str] | None = None) -> str:
        shown = {k: v for k, v in self.members.items() if only is None or k in only}
        return " ".join([self.type, *(f"{k}={shlex.quote(v) if ' ' in v else v}" for k, v in shown.items())])

    def fits(self, actual: "Message") -> bool:
        return self.type == actual.type and self.members.items() <= actual.members.items()


ANY = Message("...", {})  # any messages here


def message(text: str) -> Message:
    word, *pairs = shlex.split(text)
    return Message(word, dict(pair.split("=", 1) for pair in pairs))


def public(facts: tuple[Fact, ...]) -> list[Message]:
    return [Message(PUBLIC[type(fact)], flat(fact)) for fact in facts if type(fact) in PUBLIC]


def matches(expected: list[Message], actual: list[Message]) -> bool:
    if not expected:
        return not actual
    if expected[0] == ANY:
        return any(matches(expected[1:], actual[i:]) for i in range(len(actual) + 1))
    return bool(actual) and expected[0].fits(actual[0]) and matches(expected[1:], actual[1:])


def check_facts(expected: list[Message], actual: list[Message]) -> None:
    if matches(expected, actual):
        return
    named: dict[str, set[str]] = {}
    for each in expected:
        named.setdefault(each.type, set()).update(each.members)
    want = [each.line() for each in expected] or ["nothing"]
    have = [each.line(named.get(each.type)) for each in actual] or ["nothing"]
    diff = difflib.ndiff(want, have)
    raise Mismatch("- the script's messages, + the table's:\n" + "\n".join(line for line in diff if line[0] != "?"))


def _text(text: Text, names: list[str]) -> str:
    key = text.key.removesuffix(".headline")
    return " ".join([key, *(f"{name}={text.values.get(name, '?')}" for name in names)])


def _fate(said: Said) -> str:
    shoe, n = said.table.state.shoe, int(said.word)
    if shoe is None or n > shoe.out:
        return f"{n} in the shoe"
    face = [told(shoe.face(n))] if len(said.words) > 2 else []
    return " ".join([str(n), shoe.fate(n).name.lower(), *face])


def _slots(said: Said) -> str:
    round_ = said.table.state.round
    return " ".join(f"{s}={c}" for s, c in zip(round_.slots, round_.cards, strict=True)) or "-" if round_ else "-"


def _lamps(said: Said) -> str:
    lamps = view(said.table.state).lamps
    return " ".join([lamps.pattern, *(["call"] if lamps.call else [])])


def _due(said: Said) -> str:
    at = due(said.table.state)
    return "-" if at is None else f"{(Decimal(at - said.table.now) / SECOND).normalize():f}s"


def _exits(said: Said) -> str:
    standing = conditions.find(said.table.state, said.word)
    return " ".join([said.word, *(standing.exits if standing else ["does not stand"])])


def _prompt(said: Said) -> str:
    names = [word.partition("=")[0] for word in said.words[1:]]
    return _text(view(said.table.state).prompt.headline, names)


def _strip(said: Said) -> str:
    return " ".join([text.key for text in view(said.table.state).prompt.strip]) or "-"


def _of_round(name: str) -> Callable[[Said], str]:
    return lambda said: told(getattr(said.table.state.round, name, None))


def _of_shoe(name: str) -> Callable[[Said], str]:
    return lambda said: told(getattr(said.table.state.shoe, name, None))


LEVELS: dict[str, Callable[[Said], str]] = {
    "phase": lambda said: told(said.table.state.phase),
    "prompt": _prompt,
    "strip": _strip,
    "stands": lambda said: " ".join([c.code for c in conditions.standing(said.table.state)]) or "-",
    "exits": _exits,
    "lamps": _lamps,
    "buzz": lambda said: view(said.table.state).lamps.buzz or "-",
    "due": _due,
    "fate": _fate,
    "slots": _slots,
    "round": _of_round("number"),
    "next": _of_round("next"),
    "counted": _of_shoe("counted"),
    "last_round": _of_shoe("last_round"),
    "step": lambda said: told(said.table.state.step),
    "link": lambda said: "up" if said.table.state.link.up else "down",
}


def check_level(table: Table, text: str) -> None:
    level, *words = shlex.split(text)
    actual = LEVELS[level](Said(table, words))
    if actual != " ".join(words):
        raise Mismatch(f"{level}: the script says {' '.join(words)!r}, the table {actual!r}")


def check_refusal(expected: str | None, refused: Refused | None) -> None:
    want = message(expected) if expected else None
    have = Message(refused.key, refused.values) if refused else None
    if (want is None) != (have is None) or (want and have and not want.fits(have)):
        raise Mismatch(f"refused: the script says {want and want.line()}, the table {have and have.line()}")


# --- reading and playing a script --------------------------------------------------------------------------


class Step(NamedTuple):
    """What happens, and what is expected of it: (line, sign, text), where the sign is > ! or =."""

    line: int
    text: str
    expected: tuple[tuple[int, str, str], ...]


class Script(NamedTuple):
    """One section of a file, what stands above the first section before it."""

    file: str
    title: str
    defect: str | None
    settings: tuple[str, ...]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"


class _Part(NamedTuple):
    title: str
    defect: list[str]
    settings: list[str]
    steps: list[Step]


def _read_line(part: _Part, number: int, line: str) -> None:
    text = line.strip()
    head, sep, rest = text.partition(": ")
    if text[0] in ">!=":
        if not part.steps:
            part.steps.append(Step(number, "as it stands", ()))
        step = part.steps[-1]
        part.steps[-1] = step._replace(expected=(*step.expected, (number, text[0], text[1:].strip())))
    elif sep and head in ("rules", "table"):
        part.settings.extend(rest.split())
    elif sep and head == "defect":
        part.defect.append(rest)
    else:
        event, *said = text.split("  ", 1)
        part.steps.append(Step(number, event, ()))
        if said:
            _read_line(part, number, said[0])


def read(path: Path) -> list[Script]:
    """The scripts of a file. ValueError names the line that is no sentence of the language."""
    parts = [_Part("", [], [], [])]
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        plain = line.split("#")[0].rstrip()
        if plain.startswith("== "):
            parts.append(_Part(plain[3:], [], [], []))
        elif plain.strip():
            _read_line(parts[-1], number, plain)
    first, *sections = parts
    return [
        Script(
            path.name,
            part.title,
            " ".join(part.defect) or None,
            (*first.settings, *part.settings),
            (*first.steps, *part.steps),
        )
        for part in sections
    ]


def _play(table: Table, step: Step) -> None:
    before, table.refused = len(table.told), None
    try:
        act(table, step.text)
    except AssertionError as broken:
        if isinstance(broken, Mismatch):
            raise
        raise Mismatch(f"the core broke: {broken}") from broken
    facts = [message(text) for _, sign, text in step.expected if sign == ">"]
    if facts:
        check_facts([x for x in facts if x.type != "nothing"], public(tuple(table.told[before:])))
    check_refusal(next((text for _, sign, text in step.expected if sign == "!"), None), table.refused)
    for _, sign, text in step.expected:
        if sign == "=":
            check_level(table, text)


def check(script: Script, observer: Observer | None = None) -> None:
    """Plays a script. Mismatch where the table does other than it says, with the story so far."""
    __tracebackhide__ = True
    profile, procedure = COMMISSION, Procedure()
    for word in script.settings:
        profile, procedure = setting(profile, procedure, word)
    table = Table(profile, procedure, observer)
    story: list[str] = []
    for step in script.steps:
        before = len(table.told)
        story.append(f"{step.line:5}  {step.text}")
        try:
            _play(table, step)
        except Mismatch as wrong:
            story += [f"           {each.line()}" for each in public(tuple(table.told[before:]))]
            raise Mismatch("\n".join([str(script), *story, "", str(wrong)])) from None
        story += [f"           {each.line(BRIEF)}" for each in public(tuple(table.told[before:]))]
    assert fold(State(), tuple(table.told)) == table.state, "what was told makes the table that there is"


SCRIPTS = [
    script for path in sorted(Path(__file__).parent.glob("*.txt")) if path.stem != "README" for script in read(path)
]
