"""What others make of a feed's messages: rounds as a table for spreadsheets, a card script, counts. Changes no byte.

Each takes messages in their order, as they were sent.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

COLUMNS = (
    *("seqno", "time", "mode", "roundid", "shoe", "round", "counted", "ended", "outcome", "reason", "by", "corrects"),
    *("player", "player_points", "banker", "banker_points", "natural", "pair", "last_round", "delayed", "bets"),
)
"""Of a line of `rounds`: the message that ended the round, then what it says; lists are parted by blanks."""

_ENDED = {"round.completed": "completed", "round.voided": "voided", "round.cancelled": "cancelled"}
_SLOTS = (("player", 0), ("banker", 0), ("player", 1), ("banker", 1), ("player", 2), ("banker", 2))


class _Said(NamedTuple):
    kind: str  # without `baccarat.` and `.v1`
    seqno: int
    time: str
    mode: str
    data: dict[str, Any]


def _read(messages: Iterable[bytes]) -> Iterator[_Said]:
    for message in messages:
        told = json.loads(message)
        kind = told["type"].removeprefix("baccarat.").removesuffix(".v1")
        yield _Said(kind, told["seqno"], told["time"], told["mode"], told["data"])


# --- rounds -----------------------------------------------------------------------------------------------------


def rounds(messages: Iterable[bytes]) -> Iterator[str]:
    """Each ending of a round, a line of CSV (RFC 4180 but for the line's end), behind a line with COLUMNS."""
    yield _line(dict(zip(COLUMNS, COLUMNS, strict=True)))
    for said in _read(messages):
        if said.kind in _ENDED:
            yield _line(_ending(said))


def _line(values: dict[str, Any]) -> str:
    text = io.StringIO()
    csv.DictWriter(text, COLUMNS, restval="", extrasaction="ignore", lineterminator="").writerow(values)
    return text.getvalue()


def _ending(said: _Said) -> dict[str, Any]:
    data = said.data
    told = {**data, **said._asdict(), "ended": _ENDED[said.kind], "by": " ".join(data.get("by", ()))}
    if said.kind != "round.completed":
        return told
    for side in ("player", "banker"):
        told[f"{side}_points"] = data[side]["points"]
        told[side] = " ".join(data[side]["cards"])
    for name in ("natural", "pair"):
        told[name] = " ".join(side for side, true in data[name].items() if true)
    bets = (f"{bet}={one['result']}{':' * ('pays' in one)}{one.get('pays', '')}" for bet, one in data["bets"].items())
    return {**told, "bets": " ".join(bets)}


# --- a card script ----------------------------------------------------------------------------------------------


class _Script:
    """One shoe on its way into a script. What a script cannot say stands in it as a comment."""

    def __init__(self, said: _Said) -> None:
        self.lines = [f"# {said.time}, shoe {said.data['shoe']}, profile {said.data['profile']}", "shoe"]
        self.burning = True
        self._dealt: dict[int, str] = {}  # of the round, by number out of the shoe
        self._cut: int | None = None  # the cut card came out in this round, behind that card

    def take(self, said: _Said) -> None:
        data = said.data
        if said.kind == "card.burned":
            self._burned(data)
        elif said.kind == "card.dealt":
            self.burning = False
            self._dealt[data["n"]] = data["card"]
        elif said.kind == "cutcard.drawn" and self._dealt:
            self._cut = data["n_before"]
        elif said.kind == "cutcard.drawn":
            self.lines.append("cut")
        elif said.kind in _ENDED:
            self._ended(said)

    def deny(self) -> None:
        """What the sensors took for the cut card was none (I22)."""
        if self._cut is not None:
            self._cut = None
        elif "cut" in self.lines:
            self.lines.remove("cut")

    def _burned(self, data: dict[str, Any]) -> None:
        if self.burning:
            self.lines.append(data["card"] or "skip")
        else:
            self.lines.append(f"# card {data['n']} out of the shoe was burned")

    def _ended(self, said: _Said) -> None:
        data = said.data
        self.lines.append(f"# round {data['round']}, {_ENDED[said.kind]}")
        cards = data.get("cards", [])
        if said.kind == "round.completed":
            hands = {side: data[side]["cards"] for side in ("player", "banker")}
            cards = [hands[side][n] for side, n in _SLOTS if n < len(hands[side])]
        if self._cut is not None:
            place = sum(n <= self._cut for n in self._dealt)
            cards = [*cards[:place], "cut", *cards[place:]]
        self.lines += cards
        if said.kind == "round.voided":
            self.lines.append("void")
        if said.mode == "dummy":
            self.lines.append("# without bets")
        self._dealt, self._cut, self.burning = {}, None, False


def script(messages: Iterable[bytes]) -> Iterator[str]:
    """The shoes that begin in a span, as `tablectl deal` reads them: the same rounds come out, but for their ids."""
    shoe: _Script | None = None
    doubted: set[int] = set()
    for said in _read(messages):
        if said.kind == "shoe.opened":
            yield from [] if shoe is None else shoe.lines
            shoe = _Script(said)
        elif said.kind == "irregularity.raised" and said.data["code"] == "I22":
            doubted.add(said.seqno)
        elif said.kind == "irregularity.resolved" and said.data["raised"] in doubted and said.data["choice"] == "no":
            if shoe is not None:
                shoe.deny()
        elif shoe is not None:
            shoe.take(said)
    yield from [] if shoe is None else shoe.lines


# --- counts -----------------------------------------------------------------------------------------------------

COUNTS = ("completed", "voided", "cancelled", "dealt", "misreads", "manual", "corrected")


def stats(messages: Iterable[bytes]) -> dict[str, Any]:
    """`shoes`, one after the other: shoe, opened, closed (None: not yet) and COUNTS; `total`; `codes` and `faults`.

    `misreads` are the cards that the scanner could not read (I01, I02), `manual` those that a person keyed in,
    `corrected` the scans taken back. A span may begin within a shoe: `opened` is None.
    """
    shoes: list[dict[str, Any]] = []
    codes: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for said in _read(messages):
        data = said.data
        if said.kind == "shoe.opened" or (not shoes and "roundid" in data):
            opened = said.time if said.kind == "shoe.opened" else None
            shoes.append({"shoe": data["shoe"], "opened": opened, "closed": None, **dict.fromkeys(COUNTS, 0)})
        if said.kind == "irregularity.raised":
            codes[data["code"]] += 1
        elif said.kind == "fault.raised":
            faults[f"{data['code']} {data['part']}"] += 1
        if shoes:
            _count(shoes[-1], said)
    total = {name: sum(shoe[name] for shoe in shoes) for name in COUNTS}
    return {
        "shoes": shoes,
        "total": total,
        "codes": dict(sorted(codes.items())),
        "faults": dict(sorted(faults.items())),
    }


def _count(shoe: dict[str, Any], said: _Said) -> None:
    kind, data = said.kind, said.data
    if kind in _ENDED:
        shoe[_ENDED[kind]] += 1
    elif kind == "card.dealt":
        shoe["dealt"] += 1
        shoe["manual"] += data["read"] == "manual"
    elif kind == "card.corrected":
        shoe["corrected"] += 1
        shoe["dealt"] -= 1  # it is dealt again when it is read again
    elif kind == "irregularity.raised":
        shoe["misreads"] += data["code"] in ("I01", "I02")
    elif kind == "shoe.closed":
        shoe["closed"] = said.time
