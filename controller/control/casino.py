"""What the casino server may ask, whatever carries it: signed JSON-RPC 2.0, checked, made events (DESIGN 5).

Decides nothing: the table's answer is the reply. What is no command for this table now is refused with a word, which
goes on record (I52), and nothing is done.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from json import loads
from types import MappingProxyType
from typing import Any, NamedTuple

from controller import feed
from controller.core import events as e
from controller.core.events import Event
from controller.core.profile import Limit
from controller.core.shoe import END_REASONS
from controller.panel import Words
from controller.ports import Answer, Outbox, Outcome, Submit

from .acts import SEQNO_MAX, TEXT_MAX, Reader, between, pattern, text
from .again import missing
from .messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_BYTES_MAX,
    Id,
    Reply,
    RpcError,
    dump_error,
    dump_reply,
    parse,
    refusal,
)

log = logging.getLogger(__name__)

LIFETIME_S_MAX = 86_400  # how far ahead `expires` may lie: what was kept back longer than a day is nobody's wish now
REFUSED_KEPT = 8
RESEND_MAX = 1_000  # messages an answer: some half a megabyte; the asker comes again for the rest


REFUSALS = (
    "malformed",
    "oversized",
    "retained",
    "unsigned",
    "wrong_table",
    "unknown_key",
    "bad_signature",
    "expired",
    "too_far",
    "id_used",
    "unknown_method",
    "bad_params",
)


class NoCommandError(Exception):
    """`why` is a word of the integrator's guide; `error` is the reply, its id told where it could be read."""

    def __init__(self, why: str, code: int, text: str) -> None:
        assert why in REFUSALS
        super().__init__(text)
        self.why, self.error = why, RpcError(code, text)


class Command(NamedTuple):
    """A command that may be obeyed: its method and params are known, and `by` is the key that signed, if any."""

    id: str
    method: str
    params: dict[str, Any]
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CasinoDesk:
    """What the casino's commands may see and do of a table.

    `keys`: whose commands are obeyed, public key by keyid; `verify` whether such a key signed these bytes; `seen`
    the journal's row of the event with that key. `now` is monotonic ns, `wall` UTC ns. `refused` are the newest
    commands that were none: UTC ns, and why (of REFUSALS).
    """

    table: str
    version: str
    public_key: str
    keys: Mapping[str, str]
    verify: Callable[[str, bytes, bytes], bool]
    words: Words
    outbox: Outbox
    submit: Submit
    seen: Callable[[tuple[str, str]], bytes | None]
    now: Callable[[], int]
    wall: Callable[[], int]
    refused: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=REFUSED_KEPT))

    def ask(self, data: bytes, kept: bool) -> "asyncio.Future[Answer]":  # noqa: FBT001 - ports.Ask
        """Answers a command as it came (`ports.Ask`). Its event is in line when this returns."""
        loop = asyncio.get_running_loop()
        id_: Id = None
        try:
            command = self.read(data, kept=kept)
            id_ = command.id
            event = METHODS[command.method].event
            if event is None:
                done: asyncio.Future[Answer] = loop.create_future()
                done.set_result(_QUESTIONS[command.method](self, command))
                return done
            log.info("casino: %s %s by %s", command.method, command.id, *command.by)
            self._check(command)
            asked = event(self.now(), by=command.by, key=_key(command.id), **command.params)
            self._check_id(command.id, asked)
            return loop.create_task(self._answer(command, self.submit(asked)))
        except NoCommandError as no:
            self.refused.append((self.wall(), no.why))
            log.warning("casino: refused a command, %s: %s: %r", no.why, no, data[:200])
            no.error.id = _id(data) if id_ is None else id_
            return loop.create_task(_after(self.submit(e.CommandRefused(self.now(), no.why)), no.error))
        except Exception:  # a fault of ours is told and logged: the same bytes would come again after a restart
            log.exception("casino: a command could not be looked at: %r", data[:200])
            failed: asyncio.Future[Answer] = loop.create_future()
            failed.set_result(
                Answer(dump_error(RpcError(INTERNAL_ERROR, "a fault of the program: see its log", id_=id_)))
            )
            return failed

    def read(self, data: bytes, *, kept: bool = False) -> Command:
        """The command in these bytes; NoCommandError says why there is none that this table obeys now."""
        if kept:
            raise NoCommandError("retained", INVALID_REQUEST, "a command is not published as retained")
        if len(data) > REQUEST_BYTES_MAX:
            raise NoCommandError("oversized", INVALID_REQUEST, f"a command has at most {REQUEST_BYTES_MAX} bytes")
        told = _envelope(data)
        method: str = told["method"]
        if method not in METHODS:
            known = ", ".join(METHODS)
            raise NoCommandError("unknown_method", METHOD_NOT_FOUND, f"no method {method!r:.60}: known are {known}")
        by = () if method == "ping" else self._signer(data, told)
        return Command(told["id"], method, _params(method, told.get("params", {})), by)

    def _signer(self, data: bytes, told: dict[str, Any]) -> tuple[str, ...]:
        """Whose key signed: for this table, by a key that it obeys, and still in force."""
        missing = [name for name in ("table", "expires", "keyid", "signature") if not isinstance(told.get(name), str)]
        if missing:
            raise NoCommandError("unsigned", INVALID_REQUEST, f"a command carries {', '.join(missing)} as text")
        if told["table"] != self.table:
            raise NoCommandError("wrong_table", INVALID_REQUEST, f"this is {self.table}, not {told['table']!r:.60}")
        key = self.keys.get(told["keyid"])
        if key is None:
            text_ = f"the table obeys no key {told['keyid']!r:.60}: see casino.command_keys"
            raise NoCommandError("unknown_key", INVALID_REQUEST, text_)
        try:
            good = self.verify(key, *feed.split_signature(data))
        except feed.FeedError as error:
            raise NoCommandError("bad_signature", INVALID_REQUEST, str(error)) from None
        if not good:
            raise NoCommandError("bad_signature", INVALID_REQUEST, "the key did not sign these bytes")
        left = _seconds(told["expires"]) - self.wall() / 1e9
        if not 0 < left <= LIFETIME_S_MAX and self.seen(_key(told["id"])) is None:  # else it was answered, and is again
            why = "expired" if left <= 0 else "too_far"
            raise NoCommandError(why, INVALID_REQUEST, f"expires is {left:.0f} s from now, by the table's clock")
        return (f"casino-{told['keyid']}",)

    def _check(self, command: Command) -> None:
        """What only the messages sent can tell of a command's params."""
        if command.method == "enrol" and command.params["publickey"] != self.public_key:
            raise _bad("publickey is not this table's: compare it with the technician's")
        if command.method == "dispute":
            seqno, outcome = command.params["seqno"], command.params["outcome"]
            found = self.outbox.read(seqno - 1, 1)
            told = loads(found[0].data) if found and found[0].seqno == seqno else {}
            if told.get("type") != "baccarat.round.completed.v1":
                raise _bad(f"message {seqno} completes no round")
            if told["data"]["outcome"] == outcome:
                raise _bad(f"message {seqno} says {outcome}, too: there is nothing to dispute")

    def _check_id(self, id_: str, asked: Event) -> None:
        """A repeat asks for the same: who gives an id to two commands would hear that the second was done."""
        before = self.seen(_key(id_))
        if before is not None and replace(feed.read_row(before).event, at=asked.at) != asked:
            raise NoCommandError("id_used", INVALID_REQUEST, f"id {id_} was another command's: give each its own")

    async def _answer(self, command: Command, decided: "asyncio.Future[Outcome]") -> Answer:
        outcome = await decided
        if outcome.refused is None:
            return Answer(dump_reply(Reply(command.id, {"repeated": outcome.repeated, "seqno": self.outbox.head})))
        key, values = outcome.refused
        said = self.words.refused(key, values)
        log.info("casino: %s %s was refused: %s", command.method, command.id, said)
        return Answer(dump_error(refusal(key, values, said, command.id)))


def _key(id_: str) -> tuple[str, str]:
    """What makes a command one event, on whatever way and however often it comes."""
    return e.CASINO, id_


async def _after(recorded: "asyncio.Future[Outcome]", error: RpcError) -> Answer:
    await recorded
    return Answer(dump_error(error))


# --- questions: answered from what is durable, and nothing happens --------------------------------------------


def _ping(desk: CasinoDesk, command: Command) -> Answer:
    told = {"table": desk.table, "version": desk.version, "generation": desk.outbox.generation}
    return Answer(dump_reply(Reply(command.id, {**told, "seqno": desk.outbox.head})))


def _resend(desk: CasinoDesk, command: Command) -> Answer:
    """The messages from a number on, as they were sent, as many as one answer holds."""
    first, head = command.params["from"], desk.outbox.head
    if command.params["generation"] != desk.outbox.generation:
        raise _bad(f"this table's generation is {desk.outbox.generation}")
    if why := missing(desk.outbox, first):
        raise _bad(why)
    last = min(head, first + RESEND_MAX - 1)
    return Answer(dump_reply(Reply(command.id, {"from": first, "to": last, "head": head})), range(first, last + 1))


_QUESTIONS: dict[str, Callable[[CasinoDesk, Command], Answer]] = {"ping": _ping, "resend": _resend}


# --- the methods and their params -------------------------------------------------------------------------------


def _flag(value: Any) -> bool:  # noqa: ANN401 - what JSON holds
    if type(value) is not bool:
        raise ValueError
    return value


_amount = pattern(r"[0-9]{1,7}|[0-9]{1,5}\.[0-9]{2}")
_bet = pattern(r"[a-z][a-z0-9_]{0,31}")


def _limits(value: Any) -> tuple[Limit, ...]:  # noqa: ANN401 - what JSON holds
    if not isinstance(value, dict) or not 0 < len(value) <= 64:
        raise ValueError
    limits = [Limit(_bet(bet), *map(_amount, _pair(each))) for bet, each in value.items()]
    if any(float(limit.least) > float(limit.most) for limit in limits):
        raise ValueError
    return tuple(limits)


def _pair(value: Any) -> tuple[Any, Any]:  # noqa: ANN401 - what JSON holds
    if not isinstance(value, dict) or value.keys() != {"least", "most"}:
        raise ValueError
    return value["least"], value["most"]


_PARAMS: dict[str, tuple[Reader, str]] = {
    "reason": (text, f"printable text of at most {TEXT_MAX} characters"),
    "end_shoe.reason": (pattern("|".join(END_REASONS)), f"one of {', '.join(END_REASONS)}"),
    "up": (_flag, "true or false"),
    "limits": (_limits, 'an object of bets, each {"least": "10", "most": "5000"} with least <= most'),
    "generation": (text, "the generation that the messages name"),
    "from": (between(1, SEQNO_MAX), "a message's number, from 1"),
    "seqno": (between(1, SEQNO_MAX), "the number of a round.completed"),
    "outcome": (pattern("player|banker|tie"), "player, banker or tie"),
    "publickey": (pattern(r"[A-Za-z0-9_-]{43}"), "the table's public key, 43 characters of base64url"),
}


class _Method(NamedTuple):
    """`event` takes the params under their own names, None where nothing happens.

    `takes` may be left out, and has what stands for them then.
    """

    event: Callable[..., Event] | None
    needs: tuple[str, ...] = ()
    takes: Mapping[str, Any] = MappingProxyType({})


def _close(at: int, **said: Any) -> Event:  # noqa: ANN401 - by and key
    return e.CloseAsked(at, casino=True, **said)


def _end(at: int, *, reason: str, **said: Any) -> Event:  # noqa: ANN401 - by and key
    return e.EndShoeAsked(at, reason, casino=True, **said)


def _enrolled(at: int, *, publickey: str, **said: Any) -> Event:  # noqa: ANN401 - by and key
    return e.Enrolled(at, **said)


METHODS: dict[str, _Method] = {
    "ping": _Method(None),
    "open_betting": _Method(e.OpenAsked),
    "close_betting": _Method(_close),
    "pause": _Method(e.PauseAsked, takes={"reason": "casino"}),
    "resume": _Method(e.ResumeAsked),
    "video": _Method(e.VideoChanged, needs=("up",)),
    "end_shoe": _Method(_end, takes={"reason": "discretion"}),
    "void_round": _Method(e.VoidRequested, needs=("reason",)),
    "limits": _Method(e.LimitsGiven, needs=("limits",)),
    "resend": _Method(None, needs=("generation", "from")),
    "dispute": _Method(e.ResultDisputed, needs=("seqno", "outcome")),
    "enrol": _Method(_enrolled, needs=("publickey",)),
}


def _params(method: str, params: object) -> dict[str, Any]:
    row = METHODS[method]
    if not isinstance(params, dict):
        raise _bad("params must be an object with names")
    known = (*row.needs, *row.takes)
    if unknown := [name for name in params if name not in known]:
        raise _bad(f"unknown param {unknown[0]!r:.60}: {method} knows {', '.join(known) or 'none'}")
    if lacking := [name for name in row.needs if name not in params]:
        raise _bad(f"{lacking[0]} is missing: {_PARAMS[lacking[0]][1]}")
    return {**row.takes, **{name: _param(method, name, value) for name, value in params.items()}}


def _param(method: str, name: str, value: object) -> Any:  # noqa: ANN401 - what JSON holds
    reader, what = _PARAMS.get(f"{method}.{name}") or _PARAMS[name]
    try:
        return reader(value)
    except (ValueError, TypeError):
        raise _bad(f"{name} must be {what}, not {value!r:.60}") from None


def _bad(text_: str) -> NoCommandError:
    return NoCommandError("bad_params", INVALID_PARAMS, text_)


# --- the envelope ------------------------------------------------------------------------------------------------

_MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "table", "expires", "keyid", "signature"})
_read_id = pattern(r"[A-Za-z0-9._:-]{1,64}")
_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")


def _envelope(data: bytes) -> dict[str, Any]:
    try:
        told = parse(data)
    except RpcError as error:
        raise NoCommandError("malformed", PARSE_ERROR, str(error)) from None
    if not isinstance(told, dict) or told.get("jsonrpc") != "2.0" or not told.keys() <= _MEMBERS:
        raise NoCommandError("malformed", INVALID_REQUEST, f"a command is one object with {', '.join(_MEMBERS)}")
    try:
        _read_id(told.get("id"))
    except ValueError:
        text_ = "id must be text of at most 64 letters, digits, `.`, `_`, `:`, `-`"
        raise NoCommandError("malformed", INVALID_REQUEST, text_) from None
    if not isinstance(told.get("method"), str):
        raise NoCommandError("malformed", INVALID_REQUEST, "method must be text")
    return told


def _id(data: bytes) -> str | None:
    """The id of what was refused, where it can be told, so that its sender knows what the reply is to."""
    try:
        return str(_envelope(data[:REQUEST_BYTES_MAX])["id"])
    except NoCommandError:
        return None


def _seconds(text_: str) -> float:
    """UTC in RFC 3339, as the feed's own times, in seconds since 1970."""
    if not _UTC.fullmatch(text_):
        raise NoCommandError("malformed", INVALID_REQUEST, "expires must be UTC, as in 2026-11-29T21:04:05Z")
    try:
        return datetime.fromisoformat(text_.removesuffix("Z")).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise NoCommandError("malformed", INVALID_REQUEST, f"expires {text_!r} is no time") from None
