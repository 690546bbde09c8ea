"""What `tablectl` prints for people: lines of plain text, from the plain values that the table answers with."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

_TELLS = (
    "slot",
    "card",
    "n",
    "round",
    "stage",
    "outcome",
    "seconds",
    "closes",
    "reason",
    "code",
    "choice",
    "last_round",
)
"""Members of a message's data that one line has room for, in this order."""


def prompt(shown: dict[str, Any]) -> str:
    """The panel on one line."""
    parts = [shown["headline"], *shown["lines"]]
    text = " / ".join(part for part in parts if part)
    return f"{text}   [{shown['strip']}]" if shown["strip"] else text


def status(told: dict[str, Any]) -> Iterator[str]:
    """The table at a glance: what it shows first, what holds it next, then the feed."""
    yield f"table {told['table']}, {told['mode']}, version {told['version']}"
    yield f"panel     {prompt(told['prompt'])}"
    where = [f"{name} {told[name]}" for name in ("shoe", "round", "stage", "counted") if told[name] is not None]
    yield f"phase     {', '.join([told['phase'], *where])}"
    if told["slots"]:
        yield f"cards     {_slots(told['slots'].items())}"
    yield f"lamps     {_lamps(told['lamps'])}"
    for condition in told["conditions"]:
        yield f"standing  {_condition(condition)}"
    if told["key_turned"]:
        yield "switch    the key is turned"
    link = told["link"]
    yield f"link      {'up' if link['up'] else 'down: ' + (link['reason'] or 'not connected yet')}"
    yield f"feed      generation {told['generation']}, message {told['seqno']}, {_backlog(told['backlog'])}"
    yield f"key       {told['public_key']}"


def _lamps(lamps: dict[str, Any]) -> str:
    left, call = lamps["closes_in_ms"], ", call" if lamps["call"] else ""
    time = "" if left is None else f", {left / 1000:.1f} s left"
    return f"{lamps['pattern']}{time}{call}"


def _condition(c: dict[str, Any]) -> str:
    exits = ", ".join(f"{choice} ({who})" for choice, who in c["exits"].items()) or "ends by itself"
    detail = " ".join(f"{name}={value}" for name, value in c["detail"].items())
    return f"{c['code']} stops {c['stops']}: {exits}" + (f"  ({detail})" if detail else "")


def _backlog(backlog: dict[str, int]) -> str:
    return ", ".join(f"{name} has {count} to go" for name, count in backlog.items()) or "no publisher"


def _slots(cards: Any) -> str:  # noqa: ANN401 - pairs of slot and card
    return "  ".join(f"{slot} {card}" for slot, card in cards)


def batch(told: dict[str, Any]) -> Iterator[str]:
    """What a durable batch brought: its messages, then what the panel says now."""
    for fact in told["facts"]:
        data = fact["data"]
        tells = " ".join(f"{name}={data[name]}" for name in _TELLS if data.get(name) not in (None, False))
        kind = fact["type"].removeprefix("baccarat.").removesuffix(".v1")
        yield f"{fact['time'][11:-1]}  {fact['seqno']:>7}  {kind:<22} {tells}"
    yield f"{told['phase']:>21}  {prompt(told['prompt'])}"


def recalled(rounds: list[dict[str, Any]]) -> Iterator[str]:
    """Each round card by card, and as it was picked up (D10)."""
    for one in rounds:
        yield f"RECALL shoe {one['shoe']} round {one['round']}  {one['time']}  {_ending(one)}"
        for card in one["cards"]:
            yield f"  {card['slot']} {card['card']}  card {card['n']}, {card['read']}, {card['time']}"
        pickup = "  ".join(f"{card['card']} ({card['slot']})" for card in one["pickup"])
        yield f"  picked up right to left: {pickup or 'no card'}"
    if not rounds:
        yield "RECALL no round has ended yet"


def _ending(one: dict[str, Any]) -> str:
    dummy = ", without bets" if one["dummy"] else ""
    if one["ended"] != "completed":
        by = f" by {', '.join(one['by'])}" if one["by"] else ""
        return f"{one['ended']}: {one['reason']}{by}{dummy}"
    last = ", last of the shoe" if one["last_round"] else ""
    return f"{one['outcome']}, player {one['player']['points']}, banker {one['banker']['points']}{last}{dummy}"


def verdict(told: dict[str, Any], what: str) -> str:
    rows = "" if told["rows"] is None else f"{told['rows']} rows and "
    if told["ok"]:
        return f"{what}: good: {rows}{told['messages']} messages, chain and signatures"
    return f"{what}: NOT good: {told['fault']} (good before it: {rows}{told['messages']} messages)"


def stats(told: dict[str, Any]) -> Iterator[str]:
    """A shoe a line, and all of them; then what was raised, by code."""
    total = told["total"]
    yield f"{'shoe':<6}{'opened':<25}{'closed':<25}" + "".join(f"{name:>10}" for name in total)
    for shoe in told["shoes"]:
        times = f"{shoe['opened'] or 'before this span':<25}{shoe['closed'] or 'open':<25}"
        yield f"{shoe['shoe']:<6}{times}" + "".join(f"{shoe[name]:>10}" for name in total)
    yield f"{'all':<56}" + "".join(f"{count:>10}" for count in total.values())
    for title in ("codes", "faults"):
        yield f"{title:<10}{_counts(told[title]) or 'none'}"


def checked(told: dict[str, Any], file: str) -> Iterator[str]:
    """What is wrong and what is odd in a file, in its order; then whether it is good."""
    found = [(one, "") for one in told["problems"]] + [(one, "warning: ") for one in told["warnings"]]
    for one, level in sorted(found, key=lambda each: (each[0]["file"], each[0]["line"], each[0]["column"])):
        yield _problem(one, level)
    if told["ok"]:
        count = len(told["warnings"])
        yield f"{file}: good" + (f", {count} warning{'s' * (count > 1)}" if count else "")


def changed(told: dict[str, Any], file: str, value: str) -> Iterator[str]:
    """What a key was and is, or why it stays as it was."""
    yield from checked(told, file)
    if not told["ok"]:
        yield f"{file}: not changed"
    elif not told["changed"]:
        yield f"{told['key']} is {value} already"
    else:
        before = "left out" if told["before"] is None else json.dumps(told["before"], ensure_ascii=False).strip('"')
        yield f"{told['key']} is {value} now, and was {before}; in force with: sudo systemctl restart baccarat-table"


def rows(told: list[dict[str, str]]) -> Iterator[str]:
    """Each check on a line, and under it what to do; then how many are not well."""
    for row in told:
        yield f"{row['status']:<5} {row['check']:<20} {row['text']}"
        if row["cure"]:
            yield f"{'':<26} do: {row['cure']}"
    count = {status: sum(row["status"] == status for row in told) for status in ("fail", "warn")}
    yield f"{len(told)} checks: {count['fail']} fail, {count['warn']} to know of"


def _problem(told: dict[str, Any], level: str) -> str:
    """As compilers write it, so that editors find the place."""
    place = f"{told['file']}:{told['line']}:{told['column']}" if told["line"] else told["file"]
    return f"{place}: {level}{told['text']}"


def part(told: dict[str, Any]) -> Iterator[str]:
    """A device as `diag` has it: what it is, its pins or lines, then what is wrong with it."""
    yield f"{told['part']:<10}{told['driver']}" + _state_of(told)
    yield from _INNER.get(told["part"], _nothing)(told)
    for name in ("port", "place"):
        if name in told:
            yield f"{name:<10}{told[name]}"
    if "counted" in told:
        yield f"lines     {_counts(told['counted'])}"
    if "last" in told:
        last = [line["kind"] if line["text"] is None else f"{line['kind']} {line['text']}" for line in told["last"]]
        yield f"last      {', '.join(last) or 'none yet'}"
    if "errors" in told:
        yield f"errors    {told['errors']}"
    if "moved" in told:
        moved = [f"{name} {count}" for name, count in sorted(told["moved"].items()) if count]
        yield f"moved     {', '.join(moved) or 'nothing yet'}"
    yield from _head(told)
    yield from map(_pin, told.get("pins", ()))
    if told.get("fault"):
        yield f"fault     {told['fault']}"
    if "hand" in told:
        first, *rest = part({"part": "hand", **told["hand"]})
        yield from (first, *[f"{'':<10}{line}" for line in rest])  # no line is one of the other scanner's
    if "test_ms" in told:
        yield f"test      begun, {told['test_ms'] / 1000:.1f} s"


def _counts(counted: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counted.items())


def _nothing(_told: dict[str, Any]) -> Iterator[str]:
    return iter(())


def _casino(told: dict[str, Any]) -> Iterator[str]:
    """The primary's link, each publisher with its place in the feed, and the newest commands that were none."""
    yield f"link      {told['link']}"
    for one in told["publishers"]:
        flying = f", {one['flying']} of {one['window']} on their way" if "window" in one else ""
        place = f"receipt for {one['receipt']} of {one['head']}{flying}"
        yield f"{one['name']:<10}{'primary, ' * (one['name'] == told['driver'])}{place}"
        yield f"{'':<10}{one['port']}, {'down: ' + one['fault'] if 'fault' in one else 'up'}"
        if "counted" in one:
            yield f"{'':<10}{_counts(one['counted'])}"
    refused = ", ".join(f"{one['why']} {one['time']}" for one in told["refused"])
    yield f"refused   {refused or 'no command'}"


def _clock(told: dict[str, Any]) -> Iterator[str]:
    held = ", held at the journal's last record: the clock is behind it" if told["held"] else ""
    yield f"wall      {_utc(told['wall'])}{held}"
    yield f"monotonic {told['monotonic'] / 1e9:.3f} s"
    yield f"set       {'by the network' if told['synchronised'] else 'by nobody: messages say synchronised false'}"
    step = told["step"]
    yield f"step      {'none since the start' if step is None else f'from {_utc(step[0])} to {_utc(step[1])}'}"


def _utc(ns: int) -> str:
    whole = datetime.fromtimestamp(ns // 1_000_000_000, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{ns // 1_000_000 % 1_000:03d}Z"


def _storage(told: dict[str, Any]) -> Iterator[str]:
    yield f"path      {told['path']}, {told['free_bytes'] >> 20} MiB free"
    yield f"holds     generation {told['generation']}, {told['rows']} rows, {told['messages']} messages"
    yield f"commit    the last took {told['commit_ms']:.1f} ms"


_INNER = {"casino": _casino, "clock": _clock, "storage": _storage}


def _state_of(told: dict[str, Any]) -> str:
    for name, yes, no in (("open", "open", "not open"), ("shows", "shows", "does not show")):
        if name in told:
            return f", {yes if told[name] else no}"
    return ""


_LEVELS = {  # how a level is called: by its pin, else by what kind of pin it is
    "lit": ("on", "off"),
    "down": ("down", "up"),
    "active": ("covered", "clear"),
    "cut": ("cut card", "no cut card"),
    "present": ("card", "empty"),
    "lid": ("open", "closed"),
}


def _head(told: dict[str, Any]) -> Iterator[str]:
    """What only a sensor head has."""
    if told.get("firmware"):
        yield f"firmware  {firmware(told['firmware'])}"
    if told.get("thresholds"):
        yield f"thresholds {told['thresholds']}"
    if told.get("head"):
        yield f"counted   {', '.join(f'{name} {count}' for name, count in told['head'].items())}"
    if "frames" in told:
        yield f"frames    {', '.join(f'{name} {count}' for name, count in told['frames'].items())}"
    if told.get("says"):
        yield f"failed    {told['says']}"


def firmware(told: dict[str, Any]) -> str:
    cause = " and ".join(told["cause"]) or "an unknown cause"
    return f"{told['version']}, build {told['build']}, protocol {told['protocol']}, start {told['boots']} by {cause}"


def _pin(told: dict[str, Any]) -> str:
    name = next(name for name in ("lit", "down", "active") if name in told)
    on, (yes, no) = told[name], _LEVELS.get(told["name"], _LEVELS[name])
    state = "not open" if on is None else yes if on else no
    edges = f", {told['edges']} edges" if "edges" in told else ""
    trouble = f"   {told['trouble']}" if told["trouble"] else ""
    place = f"GPIO{told['pin']:<6}" if "pin" in told else " " * 10
    return f"{place}{told['name']:<14} {state}{edges}{_channel(told, yes, no)}{trouble}"


def _channel(told: dict[str, Any], yes: str, no: str) -> str:
    """What a sensor of the head reads, and its thresholds, in ADC counts; then what its self-test said."""
    level = f", reads {told['level']}" if "level" in told else ""
    limits = f", {yes} from {told['on']}, {no} from {told['off']}" if "on" in told else ""
    test = f", test {told['test']}" if "test" in told else ""
    return f"{level}{limits}{test}"
