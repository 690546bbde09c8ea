"""The casino server's commands: what each does to a whole table in memory, and what is refused, with nothing done."""

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import keys
from controller.adapters.memory import MemoryJournal
from controller.control.casino import LIFETIME_S_MAX, RESEND_MAX, CasinoDesk
from controller.control.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REFUSED,
    REQUEST_BYTES_MAX,
)
from controller.core import events as e
from controller.core.facts import Phase
from controller.core.profile import Opens, Procedure
from controller.loop import IDLE_MAX, IDLE_NS
from controller.panel import Words
from controller.ports import Answer, Sealed
from tests import schemas
from tests.casino import FAR, OURS, STRANGER, command, signed
from tests.control.served import run
from tests.pages import page
from tests.table_rig import BY_DEALER, GENERATION, TWO, WALL_NS, Rig

BY_SERVER = replace(BY_DEALER, open_betting=Opens.SERVER)
Act = Callable[["House"], Awaitable[None]]


class House:
    """A loaded table and the desk at which its casino asks."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.desk = CasinoDesk(
            table=rig.speaker.table,
            version="0.1.0",
            public_key=rig.key.public,
            keys={OURS.keyid: OURS.public},
            verify=keys.verify,
            words=Words("en"),
            outbox=rig.journal,
            submit=rig.loop.submit,
            seen=rig.journal.seen,
            now=rig.clock.now,
            wall=lambda: rig.clock.wall(rig.clock.now())[0],
        )

    async def answer(self, data: bytes, *, kept: bool = False) -> Answer:
        return await self.desk.ask(data, kept)

    async def ask(self, method: str, params: dict[str, Any] | None = None, **other: Any) -> dict[str, Any]:  # noqa: ANN401
        return reply(await self.answer(command(method, params, **other)))

    async def does(self, method: str, params: dict[str, Any] | None = None) -> None:
        told = await self.ask(method, params)
        assert told.get("result") == {"repeated": False, "seqno": self.rig.journal.head}, told

    async def refuses(self, data: bytes, why: str, code: int, *, kept: bool = False) -> None:
        """A reply that says why, one line on record, and nothing else."""
        state = self.rig.loop.state
        told = reply(await self.answer(data, kept=kept))["error"]
        assert told["code"] == code
        assert self.desk.refused[-1][1] == why, "for tablectl diag casino"
        after = self.rig.loop.state
        known = [c for c in state.conditions if c.code == "I52"]
        assert [c.detail["why"] for c in after.conditions if c.code == "I52"] == [
            *(c.detail["why"] for c in known),
            why,
        ][:1]
        assert [c for c in after.conditions if c.code != "I52"] == [c for c in state.conditions if c.code != "I52"]
        assert after._replace(seqno=0, conditions=()) == state._replace(seqno=0, conditions=())

    def stands(self) -> list[str]:
        return [c.code for c in self.rig.loop.state.conditions]


def reply(answer: Answer) -> dict[str, Any]:
    return schemas.validate_as("reply", answer.reply.removesuffix(b"\n"))


def check(act: Act, procedure: Procedure = BY_DEALER) -> None:
    async def whole() -> None:
        async with Rig(procedure) as rig:
            await rig.load()
            await act(House(rig))

    run(whole)


# --- what each method does --------------------------------------------------------------------------------------


def test_ping_needs_no_key() -> None:
    async def act(house: House) -> None:
        told = reply(await house.answer(b'{"jsonrpc":"2.0","id":"1","method":"ping"}'))
        head = house.rig.journal.head
        result = {"table": "BAC-07", "version": "0.1.0", "generation": GENERATION, "seqno": head}
        assert told == {"jsonrpc": "2.0", "id": "1", "result": result}

    check(act)


def test_the_server_opens_pauses_and_goes_on() -> None:
    async def act(house: House) -> None:
        await house.does("pause", {"reason": "maintenance"})
        told = await house.ask("open_betting")
        assert told["error"]["code"] == REFUSED
        assert told["error"]["data"]["values"] == {"code": "pause"}
        await house.does("resume")
        await house.does("open_betting")
        assert house.rig.phase is Phase.BETTING
        assert reply(await house.answer(command("open_betting")))["error"]["data"]["key"] == "not_now"
        assert reply(await house.answer(command("close_betting")))["error"]["data"]["key"] == "no_early_close"

    check(act, BY_SERVER)


def test_limits_and_enrolment_come_from_the_server() -> None:
    async def act(house: House) -> None:
        limits = {"player": {"least": "10", "most": "5000"}, "tie": {"least": "1.50", "most": "99999.99"}}
        await house.does("limits", {"limits": limits})
        assert [limit.bet for limit in house.rig.loop.state.limits] == ["player", "tie"]
        await house.refuses(command("enrol", {"publickey": STRANGER.public}), "bad_params", INVALID_PARAMS)
        await house.does("enrol", {"publickey": house.rig.key.public})
        assert house.rig.loop.state.enrolled

    check(act)


def test_video_void_and_end_of_shoe() -> None:
    async def act(house: House) -> None:
        await house.does("video", {"up": False})
        assert house.stands() == ["video"]
        await house.does("video", {"up": True})
        await house.rig.bet()
        await house.rig.scan("8H")
        await house.does("void_round", {"reason": "a player complains"})
        assert house.stands() == ["void_request"]
        await house.does("end_shoe")
        assert house.rig.loop.state.shoe is not None
        assert house.rig.loop.state.shoe.end == "discretion"
        await house.refuses(command("end_shoe", {"reason": "tired"}), "bad_params", INVALID_PARAMS)

    check(act)


def test_a_dispute_names_a_round_that_says_otherwise() -> None:
    async def act(house: House) -> None:
        await house.rig.bet()
        await house.rig.scan("8H KD KS 2C")
        await house.rig.confirm()
        seqno = house.rig.journal.head
        for number, outcome in ((seqno, "player"), (seqno - 1, "tie"), (seqno + 1, "tie")):
            told = await house.ask("dispute", {"seqno": number, "outcome": outcome})
            assert told["error"]["code"] == INVALID_PARAMS, number
        await house.does("dispute", {"seqno": seqno, "outcome": "tie"})
        assert "I53" in house.stands()
        await house.rig.do(e.ResolveAsked(house.rig.clock.now(), "I53", "stands", by=TWO))
        assert "I53" not in house.stands()

    check(act)


def test_who_asked_is_on_record_by_the_key() -> None:
    async def act(house: House) -> None:
        await house.does("pause")
        await house.does("resume")
        told = json.loads(house.rig.journal.read(house.rig.journal.head - 1, 1)[0].data)
        assert told["data"]["by"] == [f"casino-{OURS.keyid}"]

    check(act)


# --- resend ------------------------------------------------------------------------------------------------------


def test_resend_names_the_messages_from_there_on() -> None:
    async def act(house: House) -> None:
        head = house.rig.journal.head
        answer = await house.answer(command("resend", {"generation": GENERATION, "from": 2}))
        assert reply(answer)["result"] == {"from": 2, "to": head, "head": head}
        assert answer.resend == range(2, head + 1)
        for params in ({"generation": "other", "from": 2}, {"generation": GENERATION, "from": head + 9}):
            await house.refuses(command("resend", params), "bad_params", INVALID_PARAMS)

    check(act)


def test_resend_is_bounded() -> None:
    async def act(house: House) -> None:
        while house.rig.journal.head < RESEND_MAX + 5:
            await house.rig.do(e.CallPressed(house.rig.clock.now()))
        answer = await house.answer(command("resend", {"generation": GENERATION, "from": 1}))
        assert answer.resend == range(1, RESEND_MAX + 1)
        assert reply(answer)["result"]["head"] == house.rig.journal.head

    check(act)


# --- what is refused, logged, and done by nobody (I52) --------------------------------------------------------------

_PAUSE = {"jsonrpc": "2.0", "id": "1", "method": "pause", "params": {}}
_PAUSE |= {"table": "BAC-07", "expires": "2026-11-29T21:05:05Z", "keyid": OURS.keyid}

REFUSED_BYTES: dict[str, tuple[bytes, str, int]] = {
    "not UTF-8": (b"\xff\xfe", "malformed", PARSE_ERROR),
    "no JSON": (b"{", "malformed", PARSE_ERROR),
    "nested": (b"[" * 9_000, "malformed", PARSE_ERROR),
    "a batch": (b"[]", "malformed", INVALID_REQUEST),
    "a name twice": (b'{"jsonrpc":"2.0","id":"1","id":"2","method":"ping"}', "malformed", PARSE_ERROR),
    "no id": (signed({k: v for k, v in _PAUSE.items() if k != "id"}), "malformed", INVALID_REQUEST),
    "an id that is a number": (signed(_PAUSE | {"id": 7}), "malformed", INVALID_REQUEST),
    "a method that is none": (signed(_PAUSE | {"method": 7}), "malformed", INVALID_REQUEST),
    "another member": (signed(_PAUSE | {"urgent": True}), "malformed", INVALID_REQUEST),
    "oversized": (command("pause", {"reason": "x" * REQUEST_BYTES_MAX}), "oversized", INVALID_REQUEST),
    "an unknown method": (command("pay"), "unknown_method", METHOD_NOT_FOUND),
    "unsigned": (json.dumps(_PAUSE).encode(), "unsigned", INVALID_REQUEST),
    "no expiry": (command("pause", expires=None), "unsigned", INVALID_REQUEST),  # type: ignore[arg-type]
    "another table": (command("pause", table="BAC-08"), "wrong_table", INVALID_REQUEST),
    "a stranger's key": (command("pause", key=STRANGER), "unknown_key", INVALID_REQUEST),
    "a stranger in our name": (command("pause", key=STRANGER, keyid=OURS.keyid), "bad_signature", INVALID_REQUEST),
    "signed, then changed": (command("pause").replace(b'"pause"', b'"video"'), "bad_signature", INVALID_REQUEST),
    "a signature that is none": (signed(_PAUSE)[:-5] + b'=="}', "bad_signature", INVALID_REQUEST),
    "a blank behind it": (signed(_PAUSE) + b" ", "bad_signature", INVALID_REQUEST),
    "expired": (command("pause", expires="2026-11-29T21:04:04.9Z"), "expired", INVALID_REQUEST),
    "for ever": (command("pause", expires=FAR), "too_far", INVALID_REQUEST),
    "an expiry without a zone": (command("pause", expires="2026-11-29T21:05:05"), "malformed", INVALID_REQUEST),
    "an expiry that never is": (command("pause", expires="2026-13-29T21:05:05Z"), "malformed", INVALID_REQUEST),
    "params in a list": (command("pause", [1]), "bad_params", INVALID_PARAMS),  # type: ignore[arg-type]
    "an unknown param": (command("pause", {"until": "noon"}), "bad_params", INVALID_PARAMS),
    "a missing param": (command("video"), "bad_params", INVALID_PARAMS),
    "a flag that is text": (command("video", {"up": "yes"}), "bad_params", INVALID_PARAMS),
    "limits of nothing": (command("limits", {"limits": {}}), "bad_params", INVALID_PARAMS),
    "limits upside down": (
        command("limits", {"limits": {"tie": {"least": "9", "most": "1"}}}),
        "bad_params",
        INVALID_PARAMS,
    ),
    "a bare number": (command("limits", {"limits": {"tie": {"least": 1, "most": 9}}}), "bad_params", INVALID_PARAMS),
}


@pytest.mark.parametrize("case", REFUSED_BYTES)
def test_what_is_no_command_is_refused_and_on_record(case: str) -> None:
    data, why, code = REFUSED_BYTES[case]
    check(lambda house: house.refuses(data, why, code))


def test_the_integrators_recipe_signs_a_command(tmp_path: Path) -> None:
    (recipe,) = [
        block.text for block in page("docs/integrator.md").sections(2)["Commands"].blocks if block.language == "sh"
    ]
    for _ in range(2):  # it makes no second key
        ran = subprocess.run(
            ["sh", "-ec", recipe], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        )
    told = re.fullmatch(r"\{keyid: ([0-9a-f]{16}), publickey: ([A-Za-z0-9_-]{43})\}\n", ran.stdout)
    assert told is not None and told[1] == keys.keyid(told[2])

    async def act(house: House) -> None:
        house.desk = replace(house.desk, keys={told[1]: told[2]}, wall=time.time_ns)
        answer = reply(await house.answer((tmp_path / "command.json").read_bytes()))
        assert answer["result"]["repeated"] is False
        assert house.stands() == ["video"]

    check(act)


def test_a_retained_command_is_refused() -> None:
    check(lambda house: house.refuses(command("pause"), "retained", INVALID_REQUEST, kept=True))


def test_the_reply_names_the_id_where_it_can_be_told() -> None:
    async def act(house: House) -> None:
        told = reply(await house.answer(command("pay", id="c-pay")))
        assert told["id"] == "c-pay"
        assert reply(await house.answer(b"{"))["id"] is None

    check(act)


def test_without_keys_only_ping_is_answered() -> None:
    async def act(house: House) -> None:
        house.desk = replace(house.desk, keys={})
        await house.refuses(command("pause"), "unknown_key", INVALID_REQUEST)
        assert "result" in await house.ask("ping")

    check(act)


def test_the_last_second_counts_and_a_day_is_the_most() -> None:
    async def act(house: House) -> None:
        for seconds, word in ((1, "result"), (LIFETIME_S_MAX, "result"), (LIFETIME_S_MAX + 1, "error")):
            told = await house.ask("resume", expires=_utc(WALL_NS // 10**9 + seconds))
            assert word in told, seconds

    check(act)


def _utc(seconds: int) -> str:
    from controller.feed import utc

    return utc(seconds * 10**9)


def test_an_id_is_that_of_one_command() -> None:
    """A server that counts its ids anew must not hear that it was done (I52)."""

    async def act(house: House) -> None:
        await house.answer(command("pause", id="1"))
        await house.refuses(command("resume", id="1"), "id_used", INVALID_REQUEST)
        assert "pause" in house.stands()
        sooner = command("pause", id="1", expires=_utc(WALL_NS // 10**9 + 5))
        assert reply(await house.answer(sooner))["result"]["repeated"] is True, "its time is not what it asks"
        for most, word in (("5000", "result"), ("5000", "result"), ("9000", "error")):
            limits = {"limits": {"player": {"least": "10", "most": most}}}
            assert word in await house.ask("limits", limits, id="2"), most

    check(act)


# --- exactly once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(lambda: command("pause"), id="obeyed"),
        pytest.param(lambda: command("close_betting"), id="told no"),
        pytest.param(lambda: command("resume"), id="nothing to do"),
        pytest.param(lambda: b"{", id="no command"),
    ],
)
def test_no_answer_before_it_is_on_the_disk(asked: Callable[[], bytes]) -> None:
    """bug_reports D47. With its answer a transport acknowledges the command, and the broker forgets it."""

    async def whole() -> None:
        async with Rig(BY_DEALER, journal=Slow(GENERATION)) as rig:
            await rig.load()
            disk = rig.journal
            assert isinstance(disk, Slow)
            disk.turns.clear()
            answer, rows = House(rig).desk.ask(asked(), False), disk.last[0]
            for _ in range(50):
                await asyncio.sleep(0)
            assert not answer.done()
            disk.turns.set()
            await answer
            assert disk.last[0] == rows + 1

    run(whole)


class Slow(MemoryJournal):
    """It stores nothing while its disk does not turn."""

    def __init__(self, generation: str) -> None:
        super().__init__(generation)
        self.turns = asyncio.Event()
        self.turns.set()

    async def commit(self, rows: Sequence[Sealed]) -> None:
        await self.turns.wait()
        await super().commit(rows)


def test_a_command_that_comes_again_does_nothing_again() -> None:
    async def act(house: House) -> None:
        pause, resume = command("pause"), command("resume")
        for data, repeated in ((pause, False), (pause, True), (resume, False), (pause, True), (resume, True)):
            assert reply(await house.answer(data))["result"]["repeated"] is repeated
        assert house.stands() == []

    check(act)


def test_nor_after_a_restart() -> None:
    async def whole() -> None:
        async with Rig(BY_DEALER) as rig:
            await rig.load()
            pause = command("pause")
            await House(rig).answer(pause)
            await House(rig).answer(command("resume"))
            journal = rig.journal
        async with Rig(BY_DEALER, journal=journal) as rig:
            house = House(rig)
            assert reply(await house.answer(pause))["result"]["repeated"] is True
            assert "pause" not in house.stands()

    run(whole)


def test_what_was_obeyed_in_time_is_answered_so_when_it_comes_again_too_late() -> None:
    """bug_reports D47. Killed before the reply, the table gets it again when it has expired."""

    async def act(house: House) -> None:
        pause = command("pause")
        await house.answer(pause)
        await house.answer(command("resume"))
        house.desk = replace(house.desk, wall=lambda: WALL_NS + 3_600 * 10**9)
        assert reply(await house.answer(pause))["result"]["repeated"] is True
        assert house.stands() == []
        await house.refuses(command("pause"), "expired", INVALID_REQUEST)

    check(act)


def test_a_command_that_was_refused_is_not_obeyed_late() -> None:
    """Who was told no must not get a yes from the same bytes when the table has moved on."""

    async def act(house: House) -> None:
        opening = command("open_betting")
        await house.does("pause")
        assert "error" in reply(await house.answer(opening))
        await house.does("resume")
        await house.answer(opening)
        assert house.rig.phase is Phase.READY

    check(act, BY_SERVER)


IDLE = [  # what comes to nothing, and what would let it act later
    ("open_betting", {}, ["pause"], ["resume"], "held"),
    ("pause", {}, ["pause"], ["resume"], ""),
    ("video", {"up": True}, [], ["video"], ""),
]


@pytest.mark.parametrize(("method", "params", "before", "after", "key"), IDLE)
def test_nor_after_a_restart_what_came_to_nothing(
    method: str, params: dict[str, Any], before: list[str], after: list[str], key: str
) -> None:
    """The same bytes, still in force, from whoever kept them: a broker's old memory, or a stranger. Same answer."""
    needs = {"video": {"up": False}}

    async def whole() -> None:
        asked = command(method, params)
        async with Rig(BY_SERVER) as rig:
            await rig.load()
            house = House(rig)
            for each in before:
                await house.does(each)
            first = reply(await house.answer(asked))
            for each in after:
                await house.does(each, needs.get(each))
            journal = rig.journal
        async with Rig(BY_SERVER, journal=journal) as rig:
            house = House(rig)
            stands, head = house.stands(), rig.journal.head
            for wall in (house.desk.wall, lambda: WALL_NS + 3_600 * 10**9):  # in force, and expired
                house.desk = replace(house.desk, wall=wall)
                again = reply(await house.answer(asked))
                assert (house.stands(), rig.phase, rig.journal.head) == (stands, Phase.READY, head)
                if key:
                    assert first["error"]["data"]["key"] == key
                    assert again == first
                else:
                    assert again["result"] == {"repeated": True, "seqno": head}

    run(whole)


def test_a_server_gone_mad_fills_no_journal() -> None:
    """What is over the day's measure is not decided: it is said so, and the same bytes may come again."""

    async def act(house: House) -> None:
        rows = house.rig.journal.last[0]
        submit, now = house.rig.loop.submit, house.rig.clock.now()
        await asyncio.gather(*[submit(e.ResumeAsked(now, key=(e.CASINO, str(n)))) for n in range(IDLE_MAX)])
        assert house.rig.journal.last[0] == rows + IDLE_MAX
        late = command("resume")
        for _ in range(2):
            assert reply(await house.answer(late))["error"]["data"]["key"] == "too_many"
        assert house.rig.journal.last[0] == rows + IDLE_MAX
        await house.does("pause")
        assert reply(await house.answer(late))["result"]["repeated"] is False
        assert house.stands() == []
        house.rig.clock.now_ns += IDLE_NS
        assert "result" in await house.ask("resume", expires=_utc(house.desk.wall() // 10**9 + 60))

    check(act)


def test_commands_act_in_the_order_of_their_arrival() -> None:
    async def act(house: House) -> None:
        asked = [house.desk.ask(command(method), False) for method in ("pause", "resume", "pause", "resume", "pause")]
        await asyncio.gather(*asked)
        assert house.stands() == ["pause"]

    check(act)


def test_a_flood_of_nonsense_is_one_line_on_record() -> None:
    async def act(house: House) -> None:
        before = house.rig.journal.head
        for _ in range(50):
            await house.answer(b"{")
        assert house.rig.journal.head == before + 1

    check(act)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_desk(data: bytes) -> None:
    check(lambda house: _is_answered(house, data))


async def _is_answered(house: House, data: bytes) -> None:
    told = reply(await house.answer(data))
    assert "error" in told


@given(st.integers(0, 2**31), st.integers(0, 255))
def test_no_changed_byte_of_a_command_is_obeyed(place: int, value: int) -> None:
    """Whatever byte is another one, the key did not sign it."""

    async def act(house: House) -> None:
        data = bytearray(command("pause"))
        place_ = place % len(data)
        if data[place_] != value:
            data[place_] = value
            assert "error" in reply(await house.answer(bytes(data)))
            assert house.stands() == ["I52"]

    check(act)
