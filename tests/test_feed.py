"""The bytes that leave the table and the rows that stay (DESIGN 4 and 5): fields, order, chains, signatures, clocks."""
# ruff: noqa: ANN401  # keywords are handed through, and the values are those of any message

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import keys
from controller.core import events, facts
from controller.core.cards import LETTER, Card, Slot
from controller.core.events import Elapsed, Event
from controller.core.facts import PUBLIC, BetResult, Fact, HandResult, Phase, Stops, Who
from controller.core.profile import Procedure
from controller.core.records import RecordError
from controller.core.state import Betting, Condition, Link, Round, Shoe, State
from controller.feed import (
    Chain,
    Entry,
    Feed,
    FeedError,
    Row,
    join_signature,
    message_hash,
    read_row,
    read_saved,
    seal,
    split_signature,
    state_message,
    utc,
)
from controller.ports import Message, Sealed
from tests import schemas
from tests.profiles import COMMISSION

GENERATION = "68f1c2d4-9be01a77"
HASH, OTHER = "ab" * 32, "cd" * 32
KEYID = "0123456789abcdef"
AT = 3_700_000_000_000  # the event, on the monotonic clock
WALL = 1_795_986_245_123_456_789  # the same instant: 2026-11-29T21:04:05.123456789Z
PROFILE = replace(COMMISSION, hash=HASH, bets=())
FEED = Feed("BAC-07", "/tables/BAC-07", "live", KEYID, lambda _: bytes(64))
CHAIN = Chain(GENERATION, 1040, OTHER, 512, bytes.fromhex(HASH))
PLAYING = State(phase=Phase.READY, shoe=Shoe(12, PROFILE), shoes=12, link=Link(up=True), seqno=1040)


def cards(text: str) -> tuple[Card, ...]:
    return tuple(map(Card.parse, text.split()))


COMPLETED = facts.RoundCompleted(
    round=37,
    counted=36,
    profile="seeds-commission",
    profilehash=HASH,
    player=HandResult(cards("8H 3S KD"), 1, natural=False, pair=False),
    banker=HandResult(cards("TC 6D"), 6, natural=False, pair=False),
    slots=(Slot.P1, Slot.B1, Slot.P2, Slot.B2, Slot.P3),
    outcome="banker",
    bets={
        "player": BetResult("lose"),
        "banker": BetResult("win", "0.95"),
        "tie": BetResult("lose"),
        "player_pair": BetResult("lose"),
        "banker_pair": BetResult("lose"),
        "lucky_six": BetResult("win", "12"),
        "player_natural": BetResult("lose"),
        "banker_natural": BetResult("lose"),
    },
    last_round=False,
    dummy=False,
    then=Phase.READY,
)


def entry(
    *happened: Fact, event: Event | None = None, before: State = PLAYING, up: bool = True, saved: State | None = None
) -> Entry:
    """An entry whose states say what a seal asks of them."""
    told = sum(type(fact) in PUBLIC for fact in happened)
    after = before._replace(seqno=before.seqno + told, link=Link(up))
    return Entry(event or Elapsed(AT), happened, before, after, WALL, synchronised=True, saved=saved)


def sealed(*happened: Fact, **how: Any) -> Sealed:
    return seal(FEED, CHAIN, entry(*happened, **how))[0]


def messages(*happened: Fact, **how: Any) -> list[dict[str, Any]]:
    """The messages of these facts, each held against its schema."""
    return [schemas.validate(message.data) for message in sealed(*happened, **how).messages]


# --- the envelope ----------------------------------------------------------------------------------------

# DESIGN 5's example with its three hashes and its signature filled in.
EXAMPLE = (
    '{"specversion":"1.0","id":"BAC-07/68f1c2d4-9be01a77/1041","source":"/tables/BAC-07",'
    '"type":"baccarat.round.completed.v1","time":"2026-11-29T21:04:05.123Z","datacontenttype":"application/json",'
    '"generation":"68f1c2d4-9be01a77","seqno":1041,"prevhash":"<prevhash>","synchronised":true,"mode":"live",'
    '"keyid":"<keyid>","data":{"roundid":"BAC-07/68f1c2d4-9be01a77/12/37","shoe":12,"round":37,"counted":36,'
    '"profile":{"name":"seeds-commission","hash":"<hash>"},"player":{"cards":["8H","3S","KD"],"points":1},'
    '"banker":{"cards":["TC","6D"],"points":6},"outcome":"banker","natural":{"player":false,"banker":false},'
    '"pair":{"player":false,"banker":false},"bets":{"player":{"result":"lose"},"banker":{"result":"win","pays":"0.95"},'
    '"tie":{"result":"lose"},"player_pair":{"result":"lose"},"banker_pair":{"result":"lose"},'
    '"lucky_six":{"result":"win","pays":"12"},"player_natural":{"result":"lose"},"banker_natural":{"result":"lose"}},'
    '"last_round":false,"delayed":false},"signature":"<signature>"}'
)


def test_a_result_is_byte_for_byte_the_contracts_example() -> None:
    expected = (
        EXAMPLE.replace("<prevhash>", OTHER)
        .replace("<keyid>", KEYID)
        .replace("<hash>", HASH)
        .replace("<signature>", "A" * 86)
    )
    (message,) = sealed(COMPLETED).messages
    assert message.data.decode("ascii") == expected
    assert message == Message(1041, "baccarat.round.completed.v1", message.data, message_hash(message.data))
    schemas.validate(message.data)


def test_the_signature_is_over_the_message_without_it() -> None:
    key = keys.ephemeral()
    feed = replace(FEED, keyid=key.keyid, sign=key.sign)
    (message,) = seal(feed, CHAIN, entry(COMPLETED))[0].messages
    before, _, after = message.data.partition(b',"signature":"')
    assert split_signature(message.data)[0] == before + b"}"
    assert after.endswith(b'"}')
    assert keys.verify(key.public, *split_signature(message.data))
    assert not keys.verify(key.public, before + b" }", split_signature(message.data)[1])


# --- the data of each type -------------------------------------------------------------------------------

ROUND = '{"roundid":"BAC-07/68f1c2d4-9be01a77/12/37","shoe":12,"round":37,%s,"delayed":false}'
OPENED = facts.BettingOpened(37, 1, Slot.P1, 15, AT, AT + 15_000_000_000, ("player", "tie"), 36, last_round=False)
CLOSED = facts.BettingClosed(37, 1, "timer", AT - 2_000_000, draw=False)
EIGHT, KING = Card.parse("8H"), Card.parse("KD")
FOUR = (Slot.P1, Slot.B1, Slot.P2, Slot.B2)

DATA: list[tuple[Fact, str]] = [
    (
        facts.JournalOpened("new", "A" * 43),
        '{"reason":"new","previous":null,"publickey":"<key>"}',
    ),
    (
        facts.JournalOpened("restored", "A" * 43, "68f1c2d4-00000000", 7, HASH),
        '{"reason":"restored","previous":{"generation":"68f1c2d4-00000000","seqno":7,"hash":"<hash>"},"publickey":"<key>"}',
    ),
    (
        facts.TableStarted("0.1.0", "b-1", clean=True, confighash=HASH),
        '{"version":"0.1.0","boot":"b-1","clean":true,"confighash":"<hash>"}',
    ),
    (facts.TableStopped("signal"), '{"reason":"signal"}'),
    (
        facts.TableOpened("seeds-commission", ("d12",)),
        '{"gaming_day":"2026-11-29","profile":"seeds-commission","limits":{}}',
    ),
    (facts.TableClosed(212, 3, 1, 4), '{"rounds":212,"shoes":3,"voids":1,"misreads":4}'),
    (
        facts.ShoeOpened(12, PROFILE, None, Phase.BURNING, ("d12",)),
        '{"shoe":12,"profile":"seeds-commission","profilehash":"<hash>","cards":416}',
    ),
    (
        facts.ShoeClosed(12, "cut_card", 395, 7, 14, 70, 2, ("d12",), Phase.PREPARING),
        '{"shoe":12,"reason":"cut_card","dealt":395,"burned":7,"left":14,"rounds":70,"misreads":2,"journalhash":"<hash>"}',
    ),
    (facts.CardBurned(1, Card.parse("6D"), 6, 0), '{"n":1,"card":"6D","of":6}'),
    (facts.CardBurned(2, None, 6, 1), '{"n":2,"card":null,"of":6}'),
    (
        OPENED,
        ROUND % '"stage":1,"seconds":15,"closes":"2026-11-29T21:04:20.123Z","bets":["player","tie"],"counted":36,'
        '"last_round":false',
    ),
    (CLOSED, ROUND % '"stage":1,"reason":"timer"'),
    (
        facts.CardDealt(37, 17, Slot.P1, EIGHT, "scan", Slot.B1, 1500),
        ROUND % '"n":17,"slot":"P1","card":"8H","read":"scan"',
    ),
    (
        facts.CardCorrected(37, 17, EIGHT, None, (Slot.P1,), ("d12",), "taken_back"),
        ROUND % '"n":17,"before":"8H","after":null,"slots":["P1"],"by":["d12"],"reason":"taken_back"',
    ),
    (
        facts.CardCorrected(37, 17, EIGHT, KING, (Slot.P1, Slot.P3), ("d12", "p4"), "wrong face"),
        ROUND % '"n":17,"before":"8H","after":"KD","slots":["P1","P3"],"by":["d12","p4"],"reason":"wrong face"',
    ),
    (facts.CutCardDrawn("round", "code", 402, 70), '{"where":"round","n_before":402,"last_round":70}'),
    (
        facts.RoundDealt(37, FOUR, cards("8H TC 9S 6D"), AT, AT + 1),
        ROUND % '"slots":{"P1":"8H","B1":"TC","P2":"9S","B2":"6D"},"outcome":"pending"',
    ),
    (
        facts.RoundVoided(37, "shoe empty", cards("8H TC"), (17, 18), ("d12", "p4"), Phase.READY),
        ROUND % '"reason":"shoe empty","cards":["8H","TC"],"refund":"all","by":["d12","p4"],"corrects":null',
    ),
    (
        facts.RoundVoided(37, "dispute", (), (), (), Phase.READY, corrects=1031),
        ROUND % '"reason":"dispute","cards":[],"refund":"all","by":[],"corrects":1031',
    ),
    (facts.RoundCancelled(37, "no_answer", (), Phase.READY), ROUND % '"reason":"no_answer","refund":"all"'),
    (
        facts.IrregularityRaised("I09", Stops.ROUNDS, {"burn": Who.PIT}, {"n": "22", "seen": "no"}),
        '{"code":"I09","stops":"rounds","detail":{"n":"22","seen":"no"}}',
    ),
    (facts.IrregularityRaised("I04", Stops.NOTHING, {}, {}), '{"code":"I04","stops":"nothing","detail":{}}'),
    (facts.IrregularityRaised("I01", Stops.CARDS, {}, {}), '{"code":"I01","stops":"cards","detail":{}}'),
    (
        facts.IrregularityResolved("I09", 1031, "burn", ("d12", "p4")),
        '{"raised":1031,"choice":"burn","by":["d12","p4"]}',
    ),
    (
        facts.FaultRaised("disk", "storage", "señal ♠", Stops.ROUNDS, {}),
        '{"code":"disk","part":"storage","text":"se\\u00f1al \\u2660"}',
    ),
    (facts.FaultCleared("disk", "storage", 1031, ()), '{"raised":1031,"by":null}'),
    (facts.FaultCleared("disk", "storage", 1031, ("t3",)), '{"raised":1031,"by":["t3"]}'),
    (facts.StaffCalled(()), '{"by":[]}'),
    (
        facts.ClockSet(WALL, WALL + 90 * 10**9, synchronised=True),
        '{"before":"2026-11-29T21:04:05.123Z","after":"2026-11-29T21:05:35.123Z","synchronised":true}',
    ),
    (
        facts.ConfigActivated(HASH, ("procedure.betting_seconds",), ("t3",), Procedure(), PROFILE),
        '{"hash":"<hash>","changes":["procedure.betting_seconds"],"by":["t3"]}',
    ),
]


@pytest.mark.parametrize(("fact", "data"), DATA, ids=lambda value: type(value).__name__)
def test_the_data_of_each_type(fact: Fact, data: str) -> None:
    made, _ = seal(FEED, Chain(GENERATION, row_hash=bytes.fromhex(HASH)), entry(fact, before=PLAYING._replace(seqno=0)))
    (message,) = made.messages
    assert message.type == f"baccarat.{PUBLIC[type(fact)]}.v1"
    made_data = message.data.partition(b',"data":')[2].rpartition(b',"signature":"')[0]
    assert made_data.decode("ascii") == data.replace("<hash>", HASH).replace("<key>", "A" * 43)
    schemas.validate(message.data)


def test_every_public_fact_is_in_this_table() -> None:
    assert {type(fact) for fact, _ in DATA} | {facts.RoundCompleted} == set(PUBLIC)


# --- where a fact stands in the night ----------------------------------------------------------------------


def test_a_shoe_and_a_round_of_one_entry_belong_together() -> None:
    """A table that opens its betting by itself opens shoe and round with one event; another may end both."""
    closed = PLAYING._replace(phase=Phase.PREPARING, shoe=None, shoes=11)
    opened = facts.ShoeOpened(12, PROFILE, 0, Phase.READY)
    assert messages(opened, OPENED, before=closed)[1]["data"]["shoe"] == 12
    ended = facts.ShoeClosed(12, "fault", 0, 0, 416, 37, 0, (), Phase.PREPARING)
    assert messages(COMPLETED, ended)[0]["data"]["roundid"] == "BAC-07/68f1c2d4-9be01a77/12/37"


BEGUN = facts.RoundBegun(37, 36, (), last_round=False, next=Slot.P1)
DEALT = facts.CardDealt(37, 17, Slot.P1, EIGHT, "scan", Slot.B1)
VOIDED = facts.RoundVoided(37, "x", (), (), (), Phase.READY)
RAISED = facts.IrregularityRaised("I01", Stops.CARDS, {}, {})
CALLED = facts.StaffCalled(())
DUMMY = replace(BEGUN, dummy=True)
IN_DUMMY = PLAYING._replace(phase=Phase.DEALING, round=Round(37, (), last=False, dummy=True))
IN_ROUND = IN_DUMMY._replace(round=Round(37, (), last=False))


@pytest.mark.parametrize(
    ("before", "happened", "modes"),
    [
        (PLAYING, (BEGUN, DEALT), ["live"]),
        (PLAYING, (DUMMY, DEALT), ["dummy"]),
        (IN_DUMMY, (DEALT, RAISED, CALLED), ["dummy", "live", "live"]),
        (IN_DUMMY, (DEALT, replace(COMPLETED, dummy=True), OPENED), ["dummy", "dummy", "live"]),
        (IN_DUMMY, (replace(VOIDED, dummy=True), BEGUN, DEALT), ["dummy", "live"]),
        (IN_ROUND, (DEALT, COMPLETED, DUMMY, DEALT), ["live", "live", "dummy"]),
        (IN_ROUND, (VOIDED,), ["live"]),
    ],
)
def test_the_messages_of_a_dummy_round_say_so(before: State, happened: Sequence[Fact], modes: list[str]) -> None:
    assert [message["mode"] for message in messages(*happened, before=before)] == modes


@pytest.mark.parametrize("mode", ["live", "manual", "training", "demo"])
def test_a_feed_says_its_mode(mode: Any) -> None:
    (message,) = seal(replace(FEED, mode=mode), CHAIN, entry(DEALT))[0].messages
    assert schemas.validate(message.data)["mode"] == mode


@pytest.mark.parametrize("up", [True, False])
def test_delayed_means_that_the_loss_was_known(up: bool) -> None:
    """The state after the entry decides: the event that tells of the loss may be the one that is journalled."""
    before = PLAYING._replace(link=Link(up=not up))
    (message,) = messages(DEALT, before=before, up=up)
    assert message["data"]["delayed"] is not up


def test_private_facts_send_nothing() -> None:
    row, chain = seal(FEED, CHAIN, entry(facts.CardOut(17, AT), facts.CardRead(17, EIGHT), facts.DrawCalled(37)))
    assert row.messages == ()
    assert chain == Chain(GENERATION, 1040, OTHER, 513, row.hash)


def test_the_state_counts_the_messages() -> None:
    wrong = entry(DEALT)
    with pytest.raises(AssertionError, match="the state counts the messages of its facts"):
        seal(FEED, CHAIN, wrong._replace(after=wrong.after._replace(seqno=1040)))


# --- clocks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wall_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (999_999, "1970-01-01T00:00:00.000Z"),
        (1_000_000, "1970-01-01T00:00:00.001Z"),
        (1_709_251_199_999_999_999, "2024-02-29T23:59:59.999Z"),
        (1_709_251_200_000_000_000, "2024-03-01T00:00:00.000Z"),
        (WALL, "2026-11-29T21:04:05.123Z"),
        (4_102_444_800_000_000_000, "2100-01-01T00:00:00.000Z"),
    ],
)
def test_times_are_utc_in_milliseconds_cut_off(wall_ns: int, text: str) -> None:
    assert utc(wall_ns) == text


def test_each_message_has_the_time_of_its_event_and_the_close_its_own() -> None:
    times = [message["time"] for message in messages(OPENED, CLOSED, DEALT)]
    assert times == ["2026-11-29T21:04:05.123Z", "2026-11-29T21:04:05.121Z", "2026-11-29T21:04:05.123Z"]


def test_a_clock_that_is_not_synchronised_is_told() -> None:
    row, _ = seal(FEED, CHAIN, entry(DEALT)._replace(synchronised=False))
    assert schemas.validate(row.messages[0].data)["synchronised"] is False
    assert read_row(row.body).synchronised is False


# --- the two chains ----------------------------------------------------------------------------------------


def test_both_chains_hold_over_many_entries() -> None:
    """Hashes are reckoned here from the bytes alone, by the words of ports.Sealed and DESIGN 4."""
    chain, state = Chain(GENERATION), PLAYING._replace(seqno=0)
    nights = [(DEALT, RAISED, CALLED), (facts.CardOut(17, AT),), (COMPLETED,), (), (OPENED, CLOSED)]
    previous_row, previous_message, seqno = bytes(32), "0" * 64, 0
    for number, happened in enumerate(nights, 1):
        one = entry(*happened, before=state, saved=state if number == 3 else None)
        row, chain = seal(FEED, chain, one)
        state = one.after
        assert (row.id, row.previous) == (number, previous_row)
        content = row.previous + row.body
        for message in row.messages:
            seqno += 1
            tree = schemas.validate(message.data)
            assert (tree["seqno"], tree["prevhash"]) == (seqno, previous_message)
            assert tree["id"] == f"BAC-07/{GENERATION}/{seqno}"
            previous_message = hashlib.sha256(message.data).hexdigest()
            content += message.data
        previous_row = hashlib.sha256(content + (row.saved or b"")).digest()
        assert row.hash == previous_row
        assert (row.saved is not None) == (number == 3)
        assert chain == Chain(GENERATION, seqno, previous_message, number, previous_row)
    assert seqno == 6


# --- the body of a row ---------------------------------------------------------------------------------------


def test_a_row_reads_back() -> None:
    scanned = events.CardScanned(AT, EIGHT, key=("head", "1f:7"))
    row = sealed(facts.CardOut(17, AT), DEALT, event=scanned, saved=PLAYING)
    assert row.key == ("head", "1f:7")
    assert read_row(row.body) == Row(WALL, True, scanned, (facts.CardOut(17, AT), DEALT))
    assert row.saved is not None
    assert read_saved(row.saved) == PLAYING
    assert row.body.startswith(b'{"wall":1795986245123456789,"synchronised":true,"event":{"t":"CardScanned","at":')


@given(st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF, exclude_categories=[])))
def test_noise_can_always_be_written_down(raw: str) -> None:
    """Lone surrogates and control characters too: a scanner's line may hold any byte."""
    row = sealed(event=events.CodeUnknown(AT, raw))
    assert row.body.isascii()
    assert read_row(row.body).event == events.CodeUnknown(AT, raw)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[]", "no body of a journal row"),
        (b"null", "no body of a journal row"),
        (b'{"wall":1,"synchronised":true,"event":{}}', "no body of a journal row"),
        (b'{"wall":"1","synchronised":true,"event":{},"facts":[]}', "a member of this journal row has a wrong type"),
        (b'{"wall":1,"synchronised":1,"event":{},"facts":[]}', "a member of this journal row has a wrong type"),
        (b'{"wall":1,"synchronised":true,"event":{},"facts":{}}', "a member of this journal row has a wrong type"),
        (b'{"wall":1,"synchronised":true,"event":{"t":"Dawn","at":1},"facts":[]}', "no record is called 'Dawn'"),
        (
            b'{"wall":1,"synchronised":true,"event":{"t":"Elapsed","at":1},"facts":[{"t":"Dusk"}]}',
            "no record is called 'Dusk'",
        ),
    ],
)
def test_a_body_that_is_none_says_why(body: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read_row(body)


def test_a_saved_state_that_is_none_says_why() -> None:
    with pytest.raises(RecordError, match="no JSON"):
        read_saved(b"\x00\x00")
    with pytest.raises(RecordError, match="State has no field 'mood'"):
        read_saved(b'{"mood":1}')


# --- the signature, strictly -----------------------------------------------------------------------------------

SIGNED = join_signature(b'{"id":1}', bytes(range(64)))


def test_a_signature_is_taken_out_as_it_was_put_in() -> None:
    text = urlsafe_b64encode(bytes(range(64))).rstrip(b"=")
    assert b'{"id":1,"signature":"' + text + b'"}' == SIGNED
    assert split_signature(SIGNED) == (b'{"id":1}', bytes(range(64)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"id":1}',
        b"[" + SIGNED[1:],
        SIGNED + b"\n",
        SIGNED[:-1],
        SIGNED[1:],
        SIGNED.replace(b',"signature":', b', "signature":'),
        SIGNED.replace(b'"}', b'" }'),
        SIGNED.replace(b"signature", b"Signature"),
        SIGNED[:-2] + b"=" + SIGNED[-2:],
        SIGNED[:-3] + b"x" + SIGNED[-2:],  # other spare bits: the same 64 bytes, spelled otherwise
        SIGNED[:-3] + SIGNED[-2:],
        SIGNED[:-10] + b"+" + SIGNED[-9:],
        SIGNED[:-10] + b"\n" + SIGNED[-9:],
        b'{"signature":"' + SIGNED[len(b'{"id":1,"signature":"') :],
        b'{,"signature":"' + SIGNED[len(b'{"id":1,"signature":"') :],
    ],
)
def test_a_signature_has_one_place_and_one_spelling(data: bytes) -> None:
    with pytest.raises(FeedError):
        split_signature(data)


KEY = keys.ephemeral()
(RESULT,) = seal(replace(FEED, sign=KEY.sign), CHAIN, entry(COMPLETED))[0].messages


@given(st.integers(0, len(RESULT.data) - 1), st.integers(1, 255))
def test_no_byte_of_a_signed_message_can_be_another(index: int, flip: int) -> None:
    changed = bytearray(RESULT.data)
    changed[index] ^= flip
    try:
        unsigned, signature = split_signature(bytes(changed))
    except FeedError:
        return
    assert not keys.verify(KEY.public, unsigned, signature)


def test_a_signature_that_is_none_is_never_written() -> None:
    with pytest.raises(FeedError, match="an Ed25519 signature is 64 bytes, not 63"):
        seal(replace(FEED, sign=lambda _: bytes(63)), CHAIN, entry(DEALT))


@pytest.mark.parametrize(
    "change",
    [
        {"table": ""},
        {"table": "BAC/07"},
        {"table": 'BAC"07'},
        {"table": "BAC-07\n"},
        {"table": "Mesa ñ"},
        {"source": "tables"},
        {"source": "/tables/"},
        {"mode": "dummy"},
        {"keyid": "0123456789ABCDEF"},
        {"keyid": ""},
    ],
)
def test_a_feed_that_would_need_escapes_is_refused(change: dict[str, Any]) -> None:
    (name,) = change
    with pytest.raises(FeedError, match=f"is no {name} of a table: it must match"):
        replace(FEED, **change)


# --- the retained state ----------------------------------------------------------------------------------------


def now(state: State, **feed: Any) -> dict[str, Any]:
    return schemas.validate_as("state", state_message(state, replace(FEED, **feed), GENERATION, offset_ns=WALL - AT))


def test_the_state_of_a_closed_table() -> None:
    assert state_message(State(), FEED, GENERATION, offset_ns=0) == (
        b'{"source":"/tables/BAC-07","generation":"68f1c2d4-9be01a77","seqno":0,"mode":"live","phase":"closed",'
        b'"shoe":null,"round":null,"stage":null,"closes":null,"slots":{},"conditions":[],"last":null}'
    )
    assert now(State())["phase"] == "closed"


BETTING = PLAYING._replace(
    phase=Phase.BETTING, round=Round(37, ("tie",), last=False, betting=Betting(1, AT, AT + 15_000_000_000))
)


def test_the_state_tells_when_the_betting_closes_while_it_is_open() -> None:
    tree = now(BETTING)
    assert (tree["shoe"], tree["round"], tree["stage"]) == (12, 37, 1)
    assert tree["closes"] == "2026-11-29T21:04:20.123Z"
    assert now(BETTING._replace(phase=Phase.CLOSING))["closes"] is None


def test_the_state_tells_only_the_faces_of_slots() -> None:
    """B10: a card that is read and not placed, or burned, or left, has a face in the ledger and nowhere else."""
    ledger = "".join(LETTER[card] for card in cards("QS 8H JC 2D"))
    shoe = Shoe(12, PROFILE, faces=ledger, fates="bsbp", unread=(4,), waiting=(4,))
    round_ = Round(37, (), last=False, next=Slot.B1, numbers=(2,), slots=(Slot.P1,), cards=(EIGHT,))
    data = state_message(PLAYING._replace(phase=Phase.DEALING, shoe=shoe, round=round_), FEED, GENERATION, offset_ns=0)
    tree = schemas.validate_as("state", data)
    assert tree["slots"] == {"P1": "8H"}
    for hidden in ("QS", "JC", "2D", ledger):
        assert hidden.encode() not in data


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (
            COMPLETED,
            {
                "type": "baccarat.round.completed.v1",
                "roundid": "BAC-07/68f1c2d4-9be01a77/12/37",
                "round": 37,
                "dummy": False,
                "outcome": "banker",
                "player": {"cards": ["8H", "3S", "KD"], "points": 1},
                "banker": {"cards": ["TC", "6D"], "points": 6},
            },
        ),
        (
            replace(VOIDED, dummy=True),
            {
                "type": "baccarat.round.voided.v1",
                "roundid": "BAC-07/68f1c2d4-9be01a77/12/37",
                "round": 37,
                "dummy": True,
                "reason": "x",
            },
        ),
        (
            facts.RoundCancelled(37, "no_answer", (), Phase.READY),
            {
                "type": "baccarat.round.cancelled.v1",
                "roundid": "BAC-07/68f1c2d4-9be01a77/12/37",
                "round": 37,
                "dummy": False,
                "reason": "no_answer",
            },
        ),
    ],
)
def test_the_state_tells_how_the_round_before_ended(last: Any, told: dict[str, Any]) -> None:
    assert now(PLAYING._replace(last=last))["last"] == told
    unloaded = PLAYING._replace(phase=Phase.PREPARING, shoe=None, last=last)
    assert now(unloaded)["last"] == told, "the shoe it was of may be gone"


def test_the_state_tells_what_stands_and_whether_the_round_counts() -> None:
    conditions = (
        Condition("I01", Stops.CARDS, {}, {"n": "5"}, 1039, 5, Phase.DEALING),
        Condition("disk", Stops.ROUNDS, {}, {}, 1040, 0, Phase.READY),
    )
    tree = now(IN_DUMMY._replace(conditions=conditions), mode="training")
    assert (tree["mode"], tree["conditions"]) == ("dummy", ["I01", "disk"])
    assert now(IN_ROUND, mode="training")["mode"] == "training"
