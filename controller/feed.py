"""Facts into bytes: the rows of the journal, and the signed messages that casino IT reads (DESIGN 4 and 5).

Pure: the clock's readings and the signing function are arguments. All JSON is compact and ASCII, so that no transport,
locale or terminal changes a byte, and text that came as line noise cannot fail to be written.
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from .core import facts as f
from .core.events import Event
from .core.facts import PUBLIC, Fact, Phase
from .core.records import RecordError, dump, dump_event, dump_fact, load, load_event, load_fact
from .core.state import State
from .ports import Message, Sealed

Mode = Literal["live", "manual", "training", "demo"]


_PLAIN = {
    "table": re.compile(r"[A-Za-z0-9._-]+"),
    "source": re.compile(r"(/[A-Za-z0-9._-]+)+"),
    "mode": re.compile(r"live|manual|training|demo"),
    "keyid": re.compile(r"[0-9a-f]{16}"),
}


class FeedError(ValueError):
    """Bytes that are no message of a feed. The text says what is wrong with them."""


class Chain(NamedTuple):
    """Where both chains of a journal end: its last message and its last row."""

    generation: str
    seqno: int = 0
    message_hash: str = "0" * 64
    row: int = 0
    row_hash: bytes = bytes(32)


@dataclass(frozen=True, slots=True)
class Feed:
    """Who speaks: the table, its mode, its key. `sign` gives the raw Ed25519 signature, 64 bytes.

    FeedError where a text has another form than the schemas give it: none needs an escape in JSON or in a URI.
    """

    table: str
    source: str
    mode: Mode
    keyid: str
    sign: Callable[[bytes], bytes]

    def __post_init__(self) -> None:
        for name, pattern in _PLAIN.items():
            if not pattern.fullmatch(getattr(self, name)):
                raise FeedError(f"{getattr(self, name)!r} is no {name} of a table: it must match {pattern.pattern}")


class Entry(NamedTuple):
    """An event decided: its facts, and the states around them. `wall_ns` is UTC in ns at the event's `at`.

    `saved` is the State that the row keeps for the next boot, after a `shoe.opened`.
    """

    event: Event
    facts: tuple[Fact, ...]
    before: State
    after: State
    wall_ns: int
    synchronised: bool
    saved: State | None = None


class Row(NamedTuple):
    """What the body of a journal row says."""

    wall_ns: int
    synchronised: bool
    event: Event
    facts: tuple[Fact, ...]


# --- the journal -----------------------------------------------------------------------------------------


def seal(feed: Feed, chain: Chain, entry: Entry) -> tuple[Sealed, Chain]:
    """The journal row of an entry with the exact bytes of its messages, and the chains after it."""
    messages = _messages(feed, chain, entry)
    seqno, message_hash = (messages[-1].seqno, messages[-1].hash) if messages else (chain.seqno, chain.message_hash)
    assert seqno == entry.after.seqno, "the state counts the messages of its facts"
    event = dump_event(entry.event)
    facts = [dump_fact(fact) for fact in entry.facts]
    body = _encode({"wall": entry.wall_ns, "synchronised": entry.synchronised, "event": event, "facts": facts})
    saved = None if entry.saved is None else _encode(dump(entry.saved))
    digest = row_hash(chain.row_hash, body, [message.data for message in messages], saved)
    row = Sealed(chain.row + 1, chain.row_hash, body, messages, saved, entry.event.key, digest)
    return row, Chain(chain.generation, seqno, message_hash, row.id, digest)


def row_hash(previous: bytes, body: bytes, messages: Iterable[bytes], saved: bytes | None) -> bytes:
    """The hash of a row over its stored bytes (`ports.Sealed`)."""
    return sha256(b"".join((previous, body, *messages, saved or b""))).digest()


def message_hash(data: bytes) -> str:
    """The hash by which the next message names this one: hex, over its exact bytes."""
    return sha256(data).hexdigest()


def read_row(body: bytes) -> Row:
    """The body of a row as it was sealed; RecordError when this version cannot read it."""
    tree = _decode(body)
    try:
        wall_ns, synchronised, event, facts = (tree[name] for name in ("wall", "synchronised", "event", "facts"))
    except (KeyError, TypeError, ValueError):
        raise RecordError(f"no body of a journal row: {body!r:.80}") from None
    if type(wall_ns) is not int or type(synchronised) is not bool or not isinstance(facts, list):
        raise RecordError(f"a member of this journal row has a wrong type: {body!r:.80}")
    return Row(wall_ns, synchronised, load_event(event), tuple(load_fact(fact) for fact in facts))


def read_saved(saved: bytes) -> State:
    """The State that a row kept; RecordError when this version cannot read it."""
    return load(State, _decode(saved))


_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False, check_circular=False)


def _encode(tree: object) -> bytes:
    return _encoder.encode(tree).encode("ascii")


def _decode(data: bytes) -> Any:  # noqa: ANN401  # whatever JSON holds
    try:
        return json.loads(data)
    except ValueError as error:
        raise RecordError(f"no JSON: {error}: {data!r:.80}") from None


# --- the message -----------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where in the night a fact stands: what its message says beside the fact's own fields."""

    feed: Feed
    chain: Chain  # as it was before the entry
    entry: Entry
    time: str  # of the event
    shoe: int
    dummy: bool


def _messages(feed: Feed, chain: Chain, entry: Entry) -> tuple[Message, ...]:
    shoe, round_ = entry.before.shoe, entry.before.round
    number, dummy = shoe.number if shoe else 0, round_.dummy if round_ else False
    place = _Place(feed, chain, entry, utc(entry.wall_ns), number, dummy)
    made: list[Message] = []
    seqno, previous = chain.seqno, chain.message_hash
    for fact in entry.facts:
        place = _follow(place, fact)
        if type(fact) in PUBLIC:
            seqno += 1
            made.append(_message(fact, place, seqno, previous))
            previous = made[-1].hash
    return tuple(made)


def _follow(place: _Place, fact: Fact) -> _Place:
    """One entry may end a round and begin another, or open a shoe and then a round."""
    if isinstance(fact, f.ShoeOpened):
        return place._replace(shoe=fact.shoe)
    if isinstance(fact, (f.RoundBegun, f.RoundCompleted, f.RoundVoided)):
        return place._replace(dummy=fact.dummy)
    if isinstance(fact, f.BettingOpened):
        return place._replace(dummy=False)
    return place


def _type(fact: Fact) -> str:
    return f"baccarat.{PUBLIC[type(fact)]}.v1"


def _message(fact: Fact, place: _Place, seqno: int, previous: str) -> Message:
    """CloudEvents 1.0. What is written here without JSON's escapes needs none (`Feed`, `Chain.generation`)."""
    feed, generation, entry = place.feed, place.chain.generation, place.entry
    type_ = _type(fact)
    data = _DATA[type(fact)](fact, place)
    at = fact.at if isinstance(fact, f.BettingClosed) else entry.event.at  # the deadline's own instant
    time = place.time if at == entry.event.at else utc(entry.wall_ns + at - entry.event.at)
    mode = "dummy" if place.dummy and "roundid" in data else feed.mode
    unsigned = (
        f'{{"specversion":"1.0","id":"{feed.table}/{generation}/{seqno}","source":"{feed.source}","type":"{type_}",'
        f'"time":"{time}","datacontenttype":"application/json","generation":"{generation}","seqno":{seqno},'
        f'"prevhash":"{previous}","synchronised":{"true" if entry.synchronised else "false"},"mode":"{mode}",'
        f'"keyid":"{feed.keyid}","data":{_encoder.encode(data)}}}'
    ).encode("ascii")
    signed = join_signature(unsigned, feed.sign(unsigned))
    return Message(seqno, type_, signed, message_hash(signed))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(wall_ns: int) -> str:
    """RFC 3339 with milliseconds, cut off: a deadline is never told later than it is."""
    return (_EPOCH + timedelta(milliseconds=wall_ns // 1_000_000)).isoformat(timespec="milliseconds")[:-6] + "Z"


# --- the data of each type (DESIGN 5; the order of the members is part of the bytes) ---------------------

_Tree = dict[str, Any]


def _own(*names: str) -> Callable[[Any, _Place], _Tree]:
    """Fields of the fact, under their own names."""
    return lambda fact, _: {name: getattr(fact, name) for name in names}


def _of_round(*names: str, **constants: str) -> Callable[[Any, _Place], _Tree]:
    return lambda fact, place: _round(fact, place, {name: getattr(fact, name) for name in names} | constants)


def _round(fact: Any, place: _Place, own: _Tree) -> _Tree:  # noqa: ANN401  # any fact with a `round`
    """What every round message carries, around what is its own. `delayed`: the primary link was known to be down."""
    number, shoe = fact.round, place.shoe
    roundid = _roundid(place.feed, place.chain.generation, shoe, number)
    return {"roundid": roundid, "shoe": shoe, "round": number, **own, "delayed": not place.entry.after.link.up}


def _roundid(feed: Feed, generation: str, shoe: int, number: int) -> str:
    return f"{feed.table}/{generation}/{shoe}/{number}"


def _journal_opened(fact: f.JournalOpened, place: _Place) -> _Tree:
    previous = {
        "generation": fact.previous_generation,
        "seqno": fact.previous_seqno,
        "hash": fact.previous_hash,
    }
    return {
        "reason": fact.reason,
        "previous": None if fact.previous_generation is None else previous,
        "publickey": fact.publickey,
    }


def _table_opened(fact: f.TableOpened, place: _Place) -> _Tree:
    limits = {limit.bet: {"least": limit.least, "most": limit.most} for limit in fact.limits}
    return {"gaming_day": place.time[:10], "profile": fact.profile, "limits": limits}


def _shoe_opened(fact: f.ShoeOpened, place: _Place) -> _Tree:
    profile = fact.profile
    return {"shoe": fact.shoe, "profile": profile.name, "profilehash": profile.hash, "cards": profile.cards}


def _shoe_closed(fact: f.ShoeClosed, place: _Place) -> _Tree:
    names = ("shoe", "reason", "dealt", "burned", "left", "rounds", "misreads")
    return {name: getattr(fact, name) for name in names} | {"journalhash": place.chain.row_hash.hex()}


def _betting_opened(fact: f.BettingOpened, place: _Place) -> _Tree:
    own = {
        "stage": fact.stage,
        "seconds": fact.seconds,
        "closes": utc(place.entry.wall_ns + fact.closes_at - place.entry.event.at),
        "bets": fact.bets,
        "counted": fact.counted,
        "last_round": fact.last_round,
    }
    return _round(fact, place, own)


def _round_dealt(fact: f.RoundDealt, place: _Place) -> _Tree:
    """The outcome waits for its announcement (D9): it is in `round.completed`."""
    return _round(fact, place, {"slots": dict(zip(fact.slots, fact.cards, strict=True)), "outcome": "pending"})


def _hand(hand: f.HandResult) -> _Tree:
    return {"cards": hand.cards, "points": hand.points}


def _bet(bet: f.BetResult) -> _Tree:
    return {"result": bet.result} if bet.pays is None else {"result": bet.result, "pays": bet.pays}


def _round_completed(fact: f.RoundCompleted, place: _Place) -> _Tree:
    own = {
        "counted": fact.counted,
        "profile": {"name": fact.profile, "hash": fact.profilehash},
        "player": _hand(fact.player),
        "banker": _hand(fact.banker),
        "outcome": fact.outcome,
        "natural": {"player": fact.player.natural, "banker": fact.banker.natural},
        "pair": {"player": fact.player.pair, "banker": fact.banker.pair},
        "bets": {name: _bet(bet) for name, bet in fact.bets.items()},
        "last_round": fact.last_round,
    }
    return _round(fact, place, own)


def _round_voided(fact: f.RoundVoided, place: _Place) -> _Tree:
    own = {"reason": fact.reason, "cards": fact.cards, "refund": "all", "by": fact.by, "corrects": fact.corrects}
    return _round(fact, place, own)


def _irregularity_raised(fact: f.IrregularityRaised, place: _Place) -> _Tree:
    return {"code": fact.code, "stops": fact.stops.name.lower(), "detail": fact.detail}


_DATA: dict[type[Fact], Callable[[Any, _Place], _Tree]] = {
    f.JournalOpened: _journal_opened,
    f.TableStarted: _own("version", "boot", "clean", "confighash"),
    f.TableStopped: _own("reason"),
    f.TableOpened: _table_opened,
    f.TableClosed: _own("rounds", "shoes", "voids", "misreads"),
    f.ShoeOpened: _shoe_opened,
    f.ShoeClosed: _shoe_closed,
    f.CardBurned: _own("n", "card", "of"),
    f.BettingOpened: _betting_opened,
    f.BettingClosed: _of_round("stage", "reason"),
    f.CardDealt: _of_round("n", "slot", "card", "read"),
    f.CardCorrected: _of_round("n", "before", "after", "slots", "by", "reason"),
    f.CutCardDrawn: _own("where", "n_before", "last_round"),
    f.RoundDealt: _round_dealt,
    f.RoundCompleted: _round_completed,
    f.RoundVoided: _round_voided,
    f.RoundCancelled: _of_round("reason", refund="all"),
    f.IrregularityRaised: _irregularity_raised,
    f.IrregularityResolved: _own("raised", "choice", "by"),
    f.FaultRaised: _own("code", "part", "text"),
    f.FaultCleared: lambda fact, _: {"raised": fact.raised, "by": fact.by or None},
    f.StaffCalled: _own("by"),
    f.ConfigActivated: _own("hash", "changes", "by"),
    f.ClockSet: lambda fact, _: {
        "before": utc(fact.before),
        "after": utc(fact.after),
        "synchronised": fact.synchronised,
    },
}


# --- the signature ---------------------------------------------------------------------------------------

_BEFORE, _BEHIND = b',"signature":"', b'"}'
_TAIL = len(_BEFORE) + 86 + len(_BEHIND)  # 64 bytes are 86 characters of base64url


def join_signature(unsigned: bytes, signature: bytes) -> bytes:
    """The signed bytes of a JSON object: the signature is its last member."""
    if len(signature) != 64:
        raise FeedError(f"an Ed25519 signature is 64 bytes, not {len(signature)}")
    return unsigned[:-1] + _BEFORE + urlsafe_b64encode(signature)[:86] + _BEHIND


def split_signature(data: bytes) -> tuple[bytes, bytes]:
    """The bytes that were signed, and the raw signature (64 bytes), of a message or command as received.

    FeedError unless the message ends exactly as `join_signature` makes it: there is one way to write a signature.
    """
    tail = data[-_TAIL:]
    if len(data) <= _TAIL + 1 or not data.startswith(b"{") or not tail.startswith(_BEFORE):
        raise FeedError('no signed message: it must be one JSON object that ends with ,"signature":"<86 base64url>"}')
    text = tail[len(_BEFORE) : -len(_BEHIND)]
    try:
        signature = urlsafe_b64decode(text + b"==")
    except ValueError:
        signature = b""
    unsigned = data[:-_TAIL] + b"}"
    if len(signature) != 64 or join_signature(unsigned, signature) != data:
        raise FeedError("the signature is not 64 bytes in base64url without padding")
    return unsigned, signature


# --- the retained state: for who joins late, no evidence -------------------------------------------------


def state_message(state: State, feed: Feed, generation: str, *, offset_ns: int) -> bytes:
    """`…/state`: where the table is now. `offset_ns` is UTC less monotonic time.

    Faces are those of the round's slots, which their own messages have told already (B10).
    """
    shoe, round_ = state.shoe, state.round
    betting = round_.betting if round_ else None
    closes = utc(betting.closes_at + offset_ns) if betting and state.phase is Phase.BETTING else None
    return _encode(
        {
            "source": feed.source,
            "generation": generation,
            "seqno": state.seqno,
            "mode": "dummy" if round_ and round_.dummy else feed.mode,
            "phase": state.phase,
            "shoe": shoe.number if shoe else None,
            "round": round_.number if round_ else None,
            "stage": betting.stage if betting else None,
            "closes": closes,
            "slots": dict(zip(round_.slots, round_.cards, strict=True)) if round_ else {},
            "conditions": [condition.code for condition in state.conditions],
            "last": None if state.last is None else _last(state.last, feed, generation, state.shoes),
        }
    )


def _last(fact: f.RoundCompleted | f.RoundVoided | f.RoundCancelled, feed: Feed, generation: str, shoe: int) -> _Tree:
    """How the round before ended. It was of the shoe opened last: a new shoe forgets it."""
    roundid = _roundid(feed, generation, shoe, fact.round)
    head = {"type": _type(fact), "roundid": roundid, "round": fact.round}
    if isinstance(fact, f.RoundCancelled):
        return {**head, "dummy": False, "reason": fact.reason}
    if isinstance(fact, f.RoundVoided):
        return {**head, "dummy": fact.dummy, "reason": fact.reason}
    hands = {"player": _hand(fact.player), "banker": _hand(fact.banker)}
    return {**head, "dummy": fact.dummy, "outcome": fact.outcome, **hands}
