"""Messages once more, because somebody asks for them: from where, by whom, and when not (`tablectl casino resend`)."""

from pathlib import Path
from typing import Any

import pytest

from tests.control.served import run, serving
from tests.table_rig import Rig

FAILED, REFUSED, INVALID = -32001, -32000, -32602


@pytest.mark.parametrize(
    ("params", "code", "text"),
    [
        ({"from": 1}, 0, ""),
        ({"from": 3, "publisher": "mqtt"}, 0, ""),
        ({"from": 2}, FAILED, "mqtt is down: ask again when tablectl diag casino says that it is up"),
        ({"from": 99}, FAILED, "the newest message is {head}"),
        ({"from": 1, "publisher": "file"}, FAILED, "a file keeps what was written to it: copy it"),
        ({"from": 1, "publisher": "serial"}, FAILED, "this table does not publish by serial: it has mqtt, file"),
        ({"from": 0}, INVALID, "from must be a message's number, from 1"),
        ({"from": True}, INVALID, "from must be a message's number, from 1"),
        ({"from": 2**53 + 1}, INVALID, "from must be a message's number, from 1"),
        ({"from": 1, "publisher": "pigeon"}, INVALID, "publisher must be mqtt, serial or file"),
        ({}, INVALID, "from is missing: a message's number, from 1"),
    ],
)
def test_what_is_answered(tmp_path: Path, params: dict[str, Any], code: int, text: str) -> None:
    async def story() -> None:
        rig = Rig()
        async with serving(tmp_path, rig) as served:
            await rig.load()
            caller = await served.caller()
            head, answer = rig.journal.head, await caller.ask("casino.resend", **params)
            if code:
                assert answer["error"]["code"] == code
                assert text.format(head=head) in answer["error"]["message"]
            else:
                assert answer["result"] == {"publisher": "mqtt", "from": params["from"], "to": head}
            assert rig.journal.head == head, "it is no fact"

    run(story)


def test_a_round_does_not_wait_behind_old_messages(tmp_path: Path) -> None:
    """Its receipts would come late, and the round would be cancelled (F2)."""

    async def story() -> None:
        rig = Rig()
        async with serving(tmp_path, rig) as served:
            await rig.load()
            caller = await served.caller()
            await rig.scan("8H")
            answer = await caller.ask("casino.resend", **{"from": 1})
            assert (answer["error"]["code"], answer["error"]["data"]["key"]) == (REFUSED, "not_now")
            await rig.scan("TC 2D 9C")
            assert (await caller.ask("casino.resend", **{"from": 1}))["result"]["from"] == 1

    run(story)
