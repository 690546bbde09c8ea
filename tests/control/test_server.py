"""The control socket of a whole table in memory: what it answers, what it refuses, and what it survives."""

import asyncio
import json
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from controller.control import server as subject
from controller.control.audit import Verdict
from controller.control.messages import (
    FAILED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REFUSED,
    REQUEST_BYTES_MAX,
)
from controller.control.parts import Part
from controller.control.server import ControlError, ControlServer
from controller.core.events import FaultSeen, KeyTurned
from controller.core.facts import Phase
from controller.ports import JournalError, Message
from tests.control.served import Caller, Served, desk_of, run, serving, until
from tests.table_rig import BY_DEALER, FREE_RUNNING, TWO, MemoryJournal, Rig

Scenario = Callable[[Served, Caller], Awaitable[None]]


def check(folder: Path, scenario: Scenario, rig: Callable[[], Rig] = Rig, **other: Any) -> None:  # noqa: ANN401
    """A table, its socket, one caller."""

    async def whole() -> None:
        async with serving(folder, rig(), **other) as served:
            await scenario(served, await served.caller())

    run(whole)


# --- what it answers ------------------------------------------------------------------------------------------


def test_status_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        await served.rig.load()
        await served.rig.scan("8H TC")
        told = await caller.result("status")
        contract = "phase stage shoe round counted slots prompt conditions lamps link mode generation seqno public_key"
        assert set(told) == {*contract.split(), "backlog", "key_turned", "table", "version"}
        assert (told["phase"], told["shoe"], told["round"], told["counted"]) == ("dealing", 1, 1, 0)
        assert told["slots"] == {"P1": "8H", "B1": "TC"}
        assert told["prompt"] == {"strip": "", "headline": "PLAYER 2ND", "lines": ["DRAW A CARD", ""]}
        assert told["lamps"] == {"pattern": "off", "call": False, "closes_in_ms": None}
        assert told["link"] == {"up": True, "reason": ""}
        assert told["key_turned"] is False
        await served.rig.do(KeyTurned(served.rig.clock.now(), turned=True))
        assert (await caller.result("status"))["key_turned"] is True
        assert told["backlog"] == {"mqtt": served.rig.journal.head}
        assert told["seqno"] == served.rig.journal.head
        assert told["public_key"] == served.rig.key.public
        assert (told["table"], told["mode"], told["stage"], told["conditions"]) == ("BAC-07", "live", None, [])

    check(tmp_path, scenario)


def test_status_tells_the_lamps_by_the_clock_and_conditions_with_their_exits(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        rig = served.rig
        await rig.load()
        await caller.result("round.start")
        told = await caller.result("status")
        assert told["lamps"] == {"pattern": "betting", "call": False, "closes_in_ms": 15_000}
        assert (told["stage"], told["phase"]) == (1, "betting")
        rig.clock.now_ns += 15 * 10**9  # the deadline is there, and nobody has told the table yet
        told = await caller.result("status")
        assert told["lamps"] == {"pattern": "no_more", "call": False, "closes_in_ms": 0}
        rig.clock.now_ns -= 10 * 10**9
        await rig.scan("9D")
        told = await caller.result("status")
        who = {"void": "pit", "burn": "pit", "dummy": "pit"}
        assert told["conditions"] == [
            {"code": "I07", "stops": "cards", "exits": who, "detail": {"n": "3", "seen": "yes"}}
        ]
        assert told["lamps"]["call"] is True

    check(tmp_path, scenario, lambda: Rig(BY_DEALER))


NO_ANSWERS = [  # what is sent, the error's code, a word of its text
    (b"gibberish\n", PARSE_ERROR, "JSON"),
    (b"\x00\xff\xfe\x80\n", PARSE_ERROR, "JSON"),
    (b"\n", PARSE_ERROR, "JSON"),
    (b"[]\n", INVALID_REQUEST, "batch"),
    (b"3\n", INVALID_REQUEST, "object"),
    (b'{"jsonrpc":"2.0","id":9,"method":"open_the_safe"}\n', METHOD_NOT_FOUND, "round.void"),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":1}}\n', INVALID_PARAMS, "none"),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":[]}\n', INVALID_PARAMS, "object"),
    (b'{"jsonrpc":"2.0","id":9,"method":"recall","params":{"n":0}}\n', INVALID_PARAMS, "1 to 100"),
    (b'{"jsonrpc":"2.0","id":9,"method":"recall","params":{"n":101}}\n', INVALID_PARAMS, "1 to 100"),
    (b'{"jsonrpc":"2.0","id":9,"method":"recall","params":{"n":true}}\n', INVALID_PARAMS, "1 to 100"),
    (b'{"jsonrpc":"2.0","id":9,"method":"diag"}\n', INVALID_PARAMS, "one of scanner, shoe, lamps"),
    (b'{"jsonrpc":"2.0","id":9,"method":"diag","params":{"part":"safe"}}\n', INVALID_PARAMS, "one of scanner"),
    (b'{"jsonrpc":"2.0","id":9,"method":"diag","params":{"part":"lamps","act":"x"}}\n', INVALID_PARAMS, "or left out"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.void"}\n', INVALID_PARAMS, "reason"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.void","params":{"reason":"\\n"}}\n', INVALID_PARAMS, "printable"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.void","params":{"reason":"\\ud800"}}\n', INVALID_PARAMS, "printable"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.start","params":{"by":"ana"}}\n', INVALID_PARAMS, "list"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.start","params":{"by":["Ana Ruiz"]}}\n', INVALID_PARAMS, "staff"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.start","params":{"by":["a","b","c","d","e","f","g","h","i"]}}\n',
     INVALID_PARAMS, "8"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.start","params":{"id_key":"a b"}}\n', INVALID_PARAMS, "64"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.start","params":{"id_key":"\\ud800"}}\n', INVALID_PARAMS, "64"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.start","params":{"at":1}}\n', INVALID_PARAMS, "unknown"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.start","params":{"key":["head","1"]}}\n', INVALID_PARAMS, "unknown"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.resolve","params":{"code":"I07"}}\n', INVALID_PARAMS, "choice"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.resolve","params":{"code":"I07","choice":"use","card":"8h"}}\n',
     INVALID_PARAMS, "8H"),
    (b'{"jsonrpc":"2.0","id":9,"method":"shoe.left","params":{"left":-1}}\n', INVALID_PARAMS, "624"),
    (b'{"jsonrpc":"2.0","id":9,"method":"shoe.left","params":{"left":"2"}}\n', INVALID_PARAMS, "624"),
    (b'{"jsonrpc":"2.0","id":9,"method":"round.start"}\n', REFUSED, "CONFIRM"),
]  # fmt: skip


def test_garbage_is_answered_and_changes_nothing(tmp_path: Path) -> None:
    """Each on one and the same connection, which then still serves; nothing of it reaches the journal."""

    async def scenario(served: Served, caller: Caller) -> None:
        before = list(served.rig.journal.rows)
        for line, code, word in NO_ANSWERS[:-1]:
            await caller.say(line)
            answer = await caller.hear()
            assert answer["error"]["code"] == code, line
            assert word in answer["error"]["message"], answer
            assert answer["id"] == (9 if b'"id":9' in line else None)
        assert await caller.result("ping") == {"table": "BAC-07", "version": "0.1.0"}
        assert served.rig.journal.rows == before

    check(tmp_path, scenario)


def test_a_line_without_end_is_cut_off_and_the_others_are_served(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        other = await served.caller()
        caller.writer.write(b"x" * (REQUEST_BYTES_MAX * 3))
        answer = await caller.hear()
        assert answer["error"]["code"] == INVALID_REQUEST
        with pytest.raises((ConnectionError, AssertionError)):
            await caller.ask("ping")
        assert await other.result("ping")

    check(tmp_path, scenario)


@pytest.mark.parametrize("half", [b'{"jsonrpc":"2.0","id":1,"method":"shoe.load"}', b'{"jsonrpc":"2.0","id', b""])
def test_half_a_line_is_nobodys_request(tmp_path: Path, half: bytes) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        await caller.say(half)
        caller.writer.write_eof()
        assert await caller.hear() is None
        assert served.rig.phase is Phase.CLOSED

    check(tmp_path, scenario)


def test_a_request_in_single_bytes_is_a_request(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        for byte in b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n':
            await caller.say(bytes([byte]))
            await asyncio.sleep(0)
        assert (await caller.hear())["result"]["table"] == "BAC-07"

    check(tmp_path, scenario)


def test_a_notification_acts_and_is_not_answered(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        await caller.say(b'{"jsonrpc":"2.0","method":"shoe.load"}\n{"jsonrpc":"2.0","method":"nonsense"}\n')
        assert await caller.result("ping")  # the first line that comes back
        assert served.rig.phase is Phase.BURNING

    check(tmp_path, scenario)


def test_a_flood_of_lines_is_answered_in_order_and_others_get_their_turn(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        other = await served.caller()
        lines = [b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number for number in range(1500)]
        caller.writer.write(b"".join(lines))
        heard: list[int] = []

        async def listen() -> None:
            for _ in lines:
                heard.append((await caller.hear())["id"])  # noqa: PERF401 - how many so far is asked below

        listening = asyncio.create_task(listen())
        assert await other.result("ping")
        assert len(heard) < 1500
        await listening
        assert heard == list(range(1500))

    check(tmp_path, scenario)


def test_a_fault_of_a_method_is_told_and_the_table_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> Verdict:
        raise ZeroDivisionError

    def gone(count: int) -> list[dict[str, Any]]:
        raise JournalError("the disk under it is gone: look at the cable")

    async def scenario(served: Served, caller: Caller) -> None:
        answer = await caller.ask("journal.verify")
        assert answer["error"]["code"] == INTERNAL_ERROR
        answer = await caller.ask("recall")
        assert (answer["error"]["code"], answer["error"]["message"]) == (
            FAILED,
            "the disk under it is gone: look at the cable",
        )
        assert await caller.result("ping")

    check(tmp_path, scenario, verify=fail, recall=gone)
    assert "ZeroDivisionError" in caplog.text


# --- what it does ---------------------------------------------------------------------------------------------


def test_a_round_by_the_socket(tmp_path: Path) -> None:
    """All that the buttons do, each act answered with what the table shows from then on."""

    async def scenario(served: Served, caller: Caller) -> None:
        rig = served.rig
        assert (await caller.result("shoe.next"))["phase"] == "preparing"
        assert (await caller.result("shoe.load"))["phase"] == "burning"
        await rig.scan("AS")
        assert (await caller.result("shoe.next"))["phase"] == "ready"  # without sensors: all are burned
        told = await caller.result("round.start", by=["dealer"])
        assert (told["phase"], told["prompt"]["headline"], told["repeated"]) == ("betting", "BETTING", False)
        await rig.later(15)
        await rig.scan("8H TC 2D 9C")  # a natural
        assert rig.phase is Phase.RESULT
        assert (await caller.result("round.call"))["lamps"]["call"] is True
        assert (await caller.result("round.call"))["lamps"]["call"] is False
        rig.clock.now_ns += 10**9
        told = await caller.result("round.hold")
        assert (told["phase"], told["slots"]) == ("dealing", {"P1": "8H", "B1": "TC", "P2": "2D"})
        await rig.scan("9C")
        rig.clock.now_ns += 10**9
        assert (await caller.result("round.confirm"))["phase"] == "ready"
        await caller.result("round.start")
        told = await caller.result("round.void", reason="cards on the floor", by=TWO)
        assert (told["phase"], told["round"]) == ("ready", None)
        assert (await caller.result("shoe.end", reason="fault", by=TWO))["phase"] == "unloading"
        assert (await caller.result("shoe.left", left=410, by=TWO))["phase"] == "preparing"
        types = [message.type.split(".", 1)[1][:-3] for message in rig.journal.messages][3:]
        assert types == [
            "table.opened", "shoe.opened", "card.burned", "card.burned", "betting.opened", "betting.closed",
            "card.dealt", "card.dealt", "card.dealt", "card.dealt", "round.dealt", "staff.called", "card.corrected",
            "card.dealt", "round.dealt", "round.completed", "betting.opened", "round.cancelled", "shoe.closed",
        ]  # fmt: skip

    check(tmp_path, scenario, lambda: Rig(BY_DEALER))


def test_resolve_takes_choice_and_card(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        await served.rig.load()
        await caller.result("round.start")
        await served.rig.scan("9D")
        told = await caller.result("round.resolve", code="I07", choice="burn", by=TWO, reason="it lay face down")
        assert (told["phase"], told["conditions"]) == ("ready", [])
        answer = await caller.ask("round.resolve", code="I07", choice="burn", by=TWO)
        assert answer["error"]["data"]["key"] == "not_standing"

    check(tmp_path, scenario, lambda: Rig(BY_DEALER))


REFUSALS = [  # language, method, params, key, values, the text
    ("en", "round.confirm", {}, "not_now", {}, "That cannot be done now: follow what the panel asks for."),
    ("es", "round.confirm", {}, "not_now", {}, None),
    ("en", "round.start", {}, "opens_itself", {"who": "none"}, None),
    ("en", "round.void", {"reason": "x"}, "not_now", {}, None),
    ("en", "round.resolve", {"code": "I05", "choice": "void", "by": TWO}, "not_standing", {"code": "I05"},
     "I05 is not pending: tablectl status says what is."),
    ("en", "shoe.end", {"reason": "boredom", "by": TWO}, "end_reason", {"reasons": "discretion fault day_end"}, None),
    ("en", "shoe.end", {"by": ["dealer"]}, "needs_pit", {},
     "Two different people decide this, dealer and pit boss: repeat with --by DEALER,BOSS."),
    ("en", "shoe.end", {"by": ["dealer", "dealer"]}, "needs_pit", {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("language", "method", "params", "key", "values", "text"), REFUSALS)
def test_a_refusal_says_why_in_the_tables_language(
    tmp_path: Path,
    language: str,
    method: str,
    params: dict[str, Any],
    key: str,
    values: dict[str, str],
    text: str | None,
) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        await served.rig.load()
        before = list(served.rig.journal.rows)
        error = (await caller.ask(method, **params))["error"]
        assert error["code"] == REFUSED
        assert (error["data"]["key"], error["data"]["values"]) == (key, values)
        assert error["message"] == error["data"]["text"] != ""
        assert text in (None, error["message"])
        assert served.rig.journal.rows == before

    check(tmp_path, scenario, lambda: Rig(FREE_RUNNING), language=language)


def test_languages_differ() -> None:
    """Else the test above would pass with one language alone."""
    from controller.panel import Words

    assert Words("es").refused("not_now", {}) != Words("en").refused("not_now", {})


def test_an_act_under_a_key_that_was_is_done_once(tmp_path: Path) -> None:
    """CALL toggles, so a second act would show."""

    async def scenario(served: Served, caller: Caller) -> None:
        rig, other = served.rig, await served.caller()
        first = await caller.result("round.call", id_key="0a1b")
        again = await caller.result("round.call", id_key="0a1b")
        third = await other.result("round.call", id_key="0a1b")
        assert [told["repeated"] for told in (first, again, third)] == [False, True, True]
        assert rig.loop.state.called
        assert [row.key for row in rig.journal.rows if row.key] == [("control", "0a1b")]
        assert (await caller.result("round.call", id_key="0a1c"))["lamps"]["call"] is False

    check(tmp_path, scenario)


def test_a_refused_act_is_refused_again_under_its_key(tmp_path: Path) -> None:
    """Sent again by a line that lost the answer, it must not open the betting later; a new key is a new request."""

    async def scenario(served: Served, caller: Caller) -> None:
        first = await caller.ask("round.start", id_key="k")
        await served.rig.load()
        assert (await caller.ask("round.start", id_key="k"))["error"] == first["error"]
        assert served.rig.phase is Phase.READY
        assert (await caller.result("round.start", id_key="l"))["repeated"] is False
        assert served.rig.phase is Phase.BETTING

    check(tmp_path, scenario, lambda: Rig(BY_DEALER))


def test_shoe_next_never_confirms_a_result(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        rig = served.rig
        await rig.load()
        await rig.bet()
        await rig.scan("8H TC 2D 9C")
        rig.clock.now_ns += 10**9
        assert rig.phase is Phase.RESULT
        assert (await caller.ask("shoe.next"))["error"]["data"]["key"] == "not_now"
        assert rig.phase is Phase.RESULT
        assert (await caller.result("round.confirm"))["phase"] == "ready"

    check(tmp_path, scenario, lambda: Rig(BY_DEALER))


def test_an_act_is_answered_when_it_is_durable_and_not_before(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        rig, other = served.rig, await served.caller()
        rig.journal.broken = "the disk is full"
        asking = asyncio.create_task(caller.ask("shoe.load"))

        async def told() -> bool:
            return rig.panel.views[-1].prompt.headline.key.startswith("disk.stop")

        await until(told)
        assert not asking.done()
        assert (await other.result("status"))["phase"] == "closed"  # what is not durable is not told
        rig.journal.broken = ""
        assert (await asking)["result"]["phase"] == "burning"

    check(tmp_path, scenario)


def test_who_acts_is_in_the_log_as_the_kernel_tells_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(served: Served, caller: Caller) -> None:
        await caller.result("shoe.load", by=["dealer"], reason="first of the day")

    check(tmp_path, scenario)
    assert f"control: shoe.load by dealer (first of the day), uid {os.getuid()}, pid {os.getpid()}" in caplog.text


def test_recall_tells_the_last_rounds(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        await served.rig.load()
        assert await caller.result("recall") == {"recall": True, "rounds": []}
        await served.rig.scan("8H TC 2D 9C " * 3)
        told = await caller.result("recall", n=2)
        assert [one["round"] for one in told["rounds"]] == [2, 3]
        await served.rig.do(FaultSeen(served.rig.clock.now(), "I40", "scanner", "unplugged: look at the cable"))
        assert await caller.result("recall", n=2) == told  # works in a fault

    check(tmp_path, scenario)


def test_verify_tells_what_stands_up(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        journal = served.rig.journal
        whole = {"ok": True, "rows": len(journal.rows), "messages": journal.head, "fault": None}
        assert await caller.result("journal.verify") == whole
        journal.messages[2] = journal.messages[2]._replace(data=journal.messages[2].data.replace(b"live", b"LIVE"))
        told = await caller.result("journal.verify")
        assert (told["ok"], told["messages"]) == (False, 2)
        assert "line 3" in told["fault"]

    check(tmp_path, scenario)


# --- devices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "A round is in progress: test lamps when it is over."),
        ("es", "Hay una ronda en curso: pruebe lamps cuando termine."),
    ],
)
def test_diag_sees_a_part_at_any_time_and_tests_it_between_rounds(tmp_path: Path, language: str, sentence: str) -> None:
    begun: list[bool] = []

    async def scenario(served: Served, caller: Caller) -> None:
        def begin() -> int:
            begun.append(True)
            return 1_300

        rig = served.rig
        served.parts["lamps"] = Part("gpio", lambda: {"pins": []}, {"test": begin})
        await rig.load()
        assert await caller.result("diag", part="lamps") == {"part": "lamps", "driver": "gpio", "pins": []}
        assert begun == []
        assert (await caller.result("diag", part="lamps", act="test"))["test_ms"] == 1_300
        assert begun == [True]
        await rig.scan("8H")
        error = (await caller.ask("diag", part="lamps", act="test"))["error"]
        assert (error["code"], error["message"]) == (REFUSED, sentence)
        assert error["data"] == {"key": "round_runs", "values": {"part": "lamps"}, "text": sentence}
        assert begun == [True]
        assert (await caller.ask("diag", part="buzzer"))["error"]["data"]["key"] == "no_part"

    check(tmp_path, scenario, language=language)


# --- monitors -------------------------------------------------------------------------------------------------


def test_a_monitor_hears_every_batch_in_the_feeds_words(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        rig, watcher = served.rig, await served.caller()
        first = await watcher.result("monitor")
        assert first == await caller.result("status")
        await caller.result("shoe.load")
        await rig.scan("AS 2S 8H TC 2D 9C")
        facts: list[dict[str, Any]] = []
        phases: list[str] = []
        while not facts or facts[-1]["type"] != "baccarat.round.completed.v1":
            heard = await watcher.hear()
            assert (heard["jsonrpc"], heard["method"], "id" in heard) == ("2.0", "monitor", False)
            params = heard["params"]
            assert set(params) == (set(first) | {"facts"}) - {
                "table", "version", "mode", "generation", "public_key", "backlog",
            }  # fmt: skip
            facts += params["facts"]
            phases.append(params["phase"])
        assert phases == ["burning", "burning", "ready", *["dealing"] * 3, "ready"]
        sent = [json.loads(message.data) for message in rig.journal.messages[first["seqno"] :]]
        members = ("seqno", "time", "type", "mode", "data")
        assert facts == [{name: message[name] for name in members} for message in sent]
        assert await caller.result("ping")  # who did not ask hears nothing but answers

    check(tmp_path, scenario)


def test_a_monitor_sees_no_face_before_its_time(tmp_path: Path) -> None:
    """B10: a card drawn in the betting time is read, and its face is nobody's business."""

    async def scenario(served: Served, caller: Caller) -> None:
        watcher = await served.caller()
        heard = [await watcher.result("monitor")]
        await served.rig.load("AS", "KD")
        await caller.result("round.start")
        await served.rig.scan("9D")
        await caller.result("round.resolve", code="I07", choice="burn", by=TWO)
        heard += [await caller.result("status"), await caller.result("recall")]
        while heard[-1].get("params", {}).get("phase") != "ready" or not heard[-1]["params"]["facts"]:
            heard.append(await watcher.hear())
        while heard[-1]["params"]["facts"][-1]["type"] != "baccarat.round.voided.v1":
            heard.append(await watcher.hear())
        assert b"9D" not in json.dumps(heard).encode()
        assert b"KD" not in json.dumps(heard).encode()  # burned, not turned up
        assert b"AS" in json.dumps(heard).encode()  # turned up

    check(tmp_path, scenario, lambda: Rig(BY_DEALER))


def test_a_monitor_that_does_not_read_is_hung_up_and_the_table_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        line = socket.socket(socket.AF_UNIX)
        line.setblocking(False)
        line.connect(str(served.path))
        line.send(b'{"jsonrpc":"2.0","id":1,"method":"monitor"}\n')
        good = await served.caller()
        await good.result("monitor")
        await served.rig.load()

        async def read_on() -> int:
            count = 0
            while "hung up" not in caplog.text or count < 1500:
                await good.hear()
                count += 1
            return count

        reading = asyncio.create_task(read_on())
        for _ in range(400):
            if "hung up" in caplog.text:
                break
            for _ in range(10):
                await caller.result("round.call")
        assert caplog.text.count("does not keep up: hung up") == 1
        assert await caller.result("ping")
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        line.close()

    check(tmp_path, scenario)


def test_a_journal_that_cannot_be_read_costs_the_monitors_and_not_the_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Unreadable(MemoryJournal):
        def read(self, after: int, limit: int) -> list[Message]:
            raise JournalError("the medium fails")

    async def scenario(served: Served, caller: Caller) -> None:
        watcher = await served.caller()
        await watcher.result("monitor")
        await served.rig.load()
        with suppress(ConnectionError):
            assert await watcher.hear() is None
        assert (await caller.result("status"))["phase"] == "ready"

    check(tmp_path, scenario, outbox=Unreadable())
    assert "the medium fails" in caplog.text


def test_a_caller_that_does_not_read_its_answers_is_hung_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        line = socket.socket(socket.AF_UNIX)
        line.setblocking(False)
        line.connect(str(served.path))
        asking = b'{"jsonrpc":"2.0","id":1,"method":"status"}\n' * 64

        async def hung_up() -> bool:
            with suppress(BlockingIOError, ConnectionError):
                line.send(asking)
            return "does not read its answers: hung up" in caplog.text

        await until(hung_up)
        assert await caller.result("ping")
        line.close()

    check(tmp_path, scenario, unread_s=0.2)


def test_callers_come_and_go_in_the_middle_of_everything(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        for number in range(40):
            other = await served.caller()
            await other.say(
                b'{"jsonrpc":"2.0","id":1,"method":"%s"}\n' % (b"monitor", b"recall", b"status")[number % 3]
            )
            other.writer.transport.abort()
            await caller.result("round.call")
        assert await caller.result("ping")

    check(tmp_path, scenario)


def test_more_callers_than_there_is_room_for_are_told(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        others = [await served.caller() for _ in range(subject.CLIENTS_MAX - 1)]
        for other in others:
            assert await other.result("ping")
        late = await served.caller()
        assert (await late.hear())["error"]["code"] == FAILED
        assert await late.hear() is None
        assert await caller.result("ping")
        others[0].writer.close()
        await others[0].writer.wait_closed()

        async def room() -> bool:
            again = await served.caller()
            await again.say(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            return "result" in await again.hear()

        await until(room)

    check(tmp_path, scenario)


# --- the socket itself ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_socket_is_for_its_owner_and_group(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        server = ControlServer(tmp_path / "s", desk_of(Rig()))
        server.open()
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o660
        server.close()
    finally:
        os.umask(before)
    assert not (tmp_path / "s").exists()


def test_a_socket_left_by_a_program_that_was_killed_is_replaced_and_taken_away_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    assert path.exists()

    async def scenario(served: Served, caller: Caller) -> None:
        assert await caller.result("ping")

    check(tmp_path, scenario)
    assert not path.exists()


def test_a_socket_at_which_a_table_answers_is_left_alone(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        with pytest.raises(ControlError, match="another table answers there"):
            ControlServer(served.path, desk_of(served.rig)).open()
        assert await caller.result("ping")

    check(tmp_path, scenario)


def test_a_socket_of_somebody_else_is_not_taken_away(tmp_path: Path) -> None:
    async def scenario(served: Served, caller: Caller) -> None:
        assert await caller.result("ping")
        served.path.unlink()
        served.path.write_text("not ours")

    check(tmp_path, scenario)
    assert (tmp_path / "control.sock").read_text() == "not ours"


NO_PLACE = [("file", "no socket"), ("folder/x", "cannot be made"), ("x" * 120, "cannot be made"), (".", "no socket")]


@pytest.mark.parametrize(("name", "word"), NO_PLACE)
def test_where_no_socket_can_be_the_error_says_what_to_do(tmp_path: Path, name: str, word: str) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(ControlError, match=word) as caught:
        ControlServer(tmp_path / name, desk_of(Rig())).open()
    assert "control.socket" in str(caught.value)
    assert (tmp_path / "file").read_text() == "a file"
