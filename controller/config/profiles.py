"""Rule profiles: the house's rules as a file that a pit boss can read, and what makes one contradict itself.

Refuses what could run a shoe dry (B8), open a bet never or too late (C3, C5), or settle one in two ways (E).
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from controller.core import returns
from controller.core.bets import WHEN, Dealt
from controller.core.cards import Slot
from controller.core.profile import Bet, Burn, CutFirst, LastRound, Payout, Profile, Stage
from controller.core.rules import outcome

from .check import Check, Findings, validate
from .models import Section, kind
from .tree import ConfigError, Problem, read_bytes, read_tree

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
Step = Literal["inspect", "wash", "riffle", "cut", "cut_card", "load", "burn"]
Depth = Annotated[int, Field(ge=1, le=600)]

ROUND_CARDS = 6  # a round takes at most six cards


class FixedBurn(Section):
    fixed: int = Field(ge=1, le=30, description="how many cards a new shoe burns")


class CutCardKeys(Section):
    rule: LastRound = Field(description="what the cut card makes of the round in progress (B6)")
    outside_round: CutFirst = Field(
        description="what a cut card that appears between two rounds makes of the next one (B7)"
    )
    depth: Annotated[
        Annotated[Depth, Tag("<number>")]
        | Annotated[tuple[Depth, Depth], Tag("<list>")]
        | Annotated[Literal["none"], Tag("<text>")],
        Discriminator(kind),
    ] = Field(
        description="cards behind the cut card (B4): a number, [least, greatest], or none where the house states none"
    )


class StageKeys(Section):
    before: Literal["P1", "B1", "P2"] = Field(
        description="the card before which this betting time comes; with the second cards out a bet could be decided"
    )
    seconds: int | None = Field(None, ge=1, le=600, description="its length, where it is not the table's own")
    bets: tuple[Name, ...] | None = Field(
        None, min_length=1, description="the bets that open in it, where it is not all of them"
    )


class PayoutKeys(Section):
    when: str = Field(description="the condition under which this line pays")
    odds: str = Field(
        pattern=r"^((0|[1-9][0-9]{0,4})(\.[0-9]{0,7}[1-9])?|casino)$",
        description='what it pays net to one, exactly, as in "0.95" or "12"; or casino, where the server sets it',
    )


class BetKeys(Section):
    pays: tuple[PayoutKeys, ...] = Field(min_length=1, description="the pay table: the first line that applies pays")
    push: tuple[str, ...] = Field((), description="the conditions that return the stake")
    closes_after: Annotated[
        Annotated[Annotated[int, Field(ge=1, le=999)], Tag("<number>")] | Annotated[Literal["none"], Tag("<text>")],
        Discriminator(kind),
    ] = Field(
        "none", description="the bet is open for this many completed rounds of the shoe (C5, C6), or none: always"
    )
    exact_return: str | None = Field(
        None,
        pattern=r"^[0-9]{1,4}\.[0-9]{4}$",
        description='the exact return for a fresh shoe in percent with four places, as in "98.7649"',
    )


class ProfileKeys(Section):
    decks: int = Field(ge=1, le=12, description="decks in the shoe, 1 to 12 (A1)")
    shoe_steps: tuple[Step, ...] = Field(min_length=1, description="the work on a new shoe, in order (B12)")
    burn: Annotated[
        Annotated[Literal["first_card", "none"], Tag("<text>")] | Annotated[FixedBurn, Tag("<group>")],
        Discriminator(kind),
    ] = Field(description="cards burned at a new shoe (B5): first_card, none, or {fixed: 4}")
    cut_card: CutCardKeys = Field(description="where the cut card lies and what it does")
    stages: tuple[StageKeys, ...] = Field(
        min_length=1, description="the betting times of a round, as in [{before: P1}]"
    )
    early_close: bool = Field(default=False, description="whether the dealer may end the betting before its time (C1)")
    use_early_card: bool = Field(default=False, description="whether a card drawn before its time may be used (I07)")
    bets: dict[Name, BetKeys] = Field(
        min_length=1, description="the bets, in the order in which they are listed everywhere"
    )


def profile_path(name_or_path: str, search: Path) -> Path:
    """The file of a profile: a name means NAME.yaml in `search`; with a slash or .yaml it is a path."""
    if "/" in name_or_path or name_or_path.endswith(".yaml"):
        return Path(name_or_path)
    return search / f"{name_or_path}.yaml"


def load_profile(name_or_path: str, search: Path) -> Profile:
    """The profile of that name in the directory `search`, or at that path. Its name is that of its file.

    ConfigError with everything that is wrong, or with the names there are.
    """
    path = profile_path(name_or_path, search)
    try:
        return parse_profile(read_bytes(path), path)
    except ConfigError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
    names = sorted(other.stem for other in path.parent.glob("*.yaml"))
    hint = _meant(path.stem, names, "there are " + (", ".join(names) or "none there"))
    raise ConfigError([Problem(str(path), 0, 0, f"no such profile: {hint}")])


def _meant(name: str, known: Iterable[str], otherwise: str) -> str:
    near = get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise


def parse_profile(data: bytes, path: Path) -> Profile:
    """The profile in a file's bytes; `path` gives its name and the place of its errors."""
    tree, problems = read_tree(data, str(path))
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", path.stem):
        text = "a profile has its file's name, and every message carries it: use small letters, digits, `-` and `_`"
        problems.append(Problem(str(path), 0, 0, text))
    keys, more = validate(ProfileKeys, tree, problems, _CHECKS, _SOUND)
    if keys is None:
        raise ConfigError(more)
    return _profile(keys, path.stem, hashlib.sha256(data).hexdigest())


def check_returns(profile: Profile, path: Path) -> list[Problem]:
    """Where a profile's declared returns differ from the exact ones (E1). Takes a third of a second: not for boot."""
    tree, _ = read_tree(read_bytes(path), str(path))
    exact = {name: returns.percent(share) for name, share in returns.exact_returns(profile).items()}
    return [
        tree.problem(
            ("bets", bet.name, "exact_return"),
            f"with these odds and {profile.decks} decks {bet.name} returns exactly {exact[bet.name]} %, "
            f"not {bet.exact_return} %: correct the odds or the figure",
        )
        for bet in profile.bets
        if bet.name in exact and exact[bet.name] != bet.exact_return
    ]


def _profile(keys: ProfileKeys, name: str, digest: str) -> Profile:
    cut, burn = keys.cut_card, keys.burn
    return Profile(
        name=name,
        hash=digest,
        decks=keys.decks,
        shoe_steps=keys.shoe_steps,
        burn=Burn.FIXED if isinstance(burn, FixedBurn) else Burn(burn),
        burn_count=burn.fixed if isinstance(burn, FixedBurn) else 0,
        last_round=cut.rule,
        cut_first=cut.outside_round,
        cut_depth=_depth(keys),
        stages=tuple(Stage(Slot(stage.before), stage.seconds, stage.bets) for stage in keys.stages),
        bets=tuple(_bet(name, bet) for name, bet in keys.bets.items()),
        early_close=keys.early_close,
        use_early_card=keys.use_early_card,
    )


def _bet(name: str, keys: BetKeys) -> Bet:
    return Bet(
        name=name,
        pays=tuple(Payout(line.when, None if line.odds == "casino" else line.odds) for line in keys.pays),
        push=keys.push,
        closes_after=None if keys.closes_after == "none" else keys.closes_after,
        exact_return=keys.exact_return,
    )


def _depth(keys: ProfileKeys) -> tuple[int, int] | None:
    depth = keys.cut_card.depth
    if depth == "none":
        return None
    return (depth, depth) if isinstance(depth, int) else depth


# --- what makes a profile contradict itself --------------------------------------------------------------


def _steps(keys: ProfileKeys) -> Findings:
    steps = keys.shoe_steps
    for index, step in enumerate(steps):
        if step in steps[:index]:
            yield ("shoe_steps", index), f"{step} is listed twice: keep one"
    if "load" not in steps:
        yield ("shoe_steps",), "load is missing: without it no shoe is ever ready"
    elif [step for step in steps[steps.index("load") + 1 :] if step != "burn"]:
        yield ("shoe_steps",), "load must be last, or followed by burn alone: the cards are in the shoe then"
    if "burn" in steps and steps[-1] != "burn":
        yield ("shoe_steps", steps.index("burn")), "burn must be last: it comes out of the loaded shoe"


def _burn(keys: ProfileKeys) -> Findings:
    if "burn" in keys.shoe_steps and keys.burn == "none":
        yield ("burn",), "burn is none, but shoe_steps has the step burn: remove the step or say how many are burned"
    if "burn" not in keys.shoe_steps and keys.burn != "none":
        yield ("burn",), "cards are burned, but shoe_steps has no step burn: add it after load, or make this none"


def _cut_card(keys: ProfileKeys) -> Findings:
    where = ("cut_card", "depth")
    rounds = 2 if keys.cut_card.rule is LastRound.ONE_MORE else 1
    depth = _depth(keys)
    if depth is None:
        if rounds == 2:
            yield (
                where,
                "with one_more the depth must be stated (B8): without it the shoe may run out in the last round",
            )
        return
    least, greatest = depth
    if least > greatest:
        yield where, f"the least depth {least} is more than the greatest {greatest}: swap them"
    if greatest >= keys.decks * 52:
        yield where, f"the cut card would lie behind all {keys.decks * 52} cards: no round could be dealt"
    if least < rounds * ROUND_CARDS:
        what = "this round and one more take" if rounds == 2 else "a last round takes"
        most = rounds * ROUND_CARDS
        yield where, f"the depth must be at least {most} (B8): {what} up to {most} cards, and {least} can run out"


def _stages(keys: ProfileKeys) -> Findings:
    order = list(Slot)
    if keys.stages[0].before != "P1":
        yield ("stages", 0, "before"), "the first stage must be before P1 (C3)"
    for index, (one, other) in enumerate(zip(keys.stages, keys.stages[1:], strict=False), 1):
        if order.index(Slot(other.before)) <= order.index(Slot(one.before)):
            text = f"{other.before} does not come after {one.before}: list stages in the order of the deal"
            yield ("stages", index, "before"), text


def _stage_bets(keys: ProfileKeys) -> Findings:
    for index, stage in enumerate(keys.stages):
        for place, name in enumerate(stage.bets or ()):
            if name not in keys.bets:
                hint = _meant(name, keys.bets, "the bets are " + ", ".join(keys.bets))
                yield ("stages", index, "bets", place), f"this profile has no bet {name}: {hint}"
            elif name in (stage.bets or ())[:place]:
                yield ("stages", index, "bets", place), f"{name} is listed twice: keep one"
    if all(stage.bets is not None for stage in keys.stages):
        opened = {name for stage in keys.stages for name in stage.bets or ()}
        for name in keys.bets:
            if name not in opened:
                yield ("bets", name), f"{name} opens in no stage: list it in one, or remove it"


def _conditions(keys: ProfileKeys) -> Findings:
    for name, bet in keys.bets.items():
        places: list[tuple[tuple[str | int, ...], str]] = [
            *((("bets", name, "pays", index, "when"), line.when) for index, line in enumerate(bet.pays)),
            *((("bets", name, "push", index), when) for index, when in enumerate(bet.push)),
        ]
        for where, when in places:
            if when not in WHEN:
                hint = _meant(when, WHEN, "there are " + ", ".join(WHEN))
                yield where, f"no such condition {when}: {hint}"
        if all(when in WHEN for _, when in places):
            yield from _dead_lines(places)


def _dead_lines(places: list[tuple[tuple[str | int, ...], str]]) -> Findings:
    """Lines that never apply, because the lines above take every round in which they would."""
    for index, (where, when) in enumerate(places):
        above = [other for _, other in places[:index]]
        if all(any(WHEN[other](round_) for other in above) for round_ in _rounds() if WHEN[when](round_)):
            if when in above:
                yield where, f"{when} stands twice in this bet: it can only win or push once, keep one"
            else:
                yield where, f"{when} never applies: the lines above take every such round. Put it above them"


def _returns(keys: ProfileKeys) -> Findings:
    for name, bet in keys.bets.items():
        casino = any(line.odds == "casino" for line in bet.pays)
        if casino and bet.exact_return is not None:
            yield (
                ("bets", name, "exact_return"),
                f"{name} has odds that the casino sets: it has no exact return, remove this",
            )
        if not casino and bet.exact_return is None:
            text = "declares no exact_return (E1): state one, and `tablectl config check` says whether it is right"
            yield ("bets", name), f"{name} {text}"
        for index, line in enumerate(bet.pays):
            if line.odds == "0":
                yield (
                    ("bets", name, "pays", index, "odds"),
                    "a win that pays nothing is a push: list the condition under push",
                )


def _rounds() -> Iterator[Dealt]:
    """Every kind of round that there is, and some that there are not: enough to see whether a line can ever apply."""
    flags = ((False, False), (False, True), (True, False), (True, True))
    for player, banker, cards, pairs, naturals in product(range(10), range(10), (2, 3), flags, flags):
        if (naturals[0] and player < 8) or (naturals[1] and (banker < 8 or cards == 3)):
            continue
        yield Dealt(outcome(player, banker), player, banker, cards, *pairs, *naturals)


_CHECKS = (
    Check(("shoe_steps",), _steps),
    Check(("shoe_steps", "burn"), _burn),
    Check(("cut_card", "decks"), _cut_card),
    Check(("stages",), _stages),
    Check(("stages", "bets"), _stage_bets),
    Check(("bets",), _conditions),
    Check(("bets",), _returns),
)

_SOUND: dict[str, Any] = {
    "decks": 8,
    "shoe_steps": ["load"],
    "burn": "none",
    "cut_card": {"rule": "current_is_last", "outside_round": "play_as_last", "depth": "none"},
    "stages": [{"before": "P1"}],
    "bets": {"tie": {"pays": [{"when": "tie", "odds": "casino"}]}},
}
