"""What is a casino server's receipt, and what a publisher tells the table, how often."""

import asyncio
import json
from typing import Any

import pytest

from controller.core.events import BacklogChanged, FaultGone, FaultSeen, LinkChanged, Receipt
from controller.reporting import Report, receipted
from tests.outbox import FakeOutbox, Heard

OUTBOX = FakeOutbox()
OUTBOX.add(5)
GOOD = {"generation": OUTBOX.generation, "seqno": 3, "hash": OUTBOX.messages[2].hash}


@pytest.mark.parametrize(
    ("payload", "seqno", "said"),
    [
        (GOOD, 3, ""),
        (GOOD | {"more": [1]}, 3, ""),
        (GOOD | {"seqno": 2, "hash": OUTBOX.messages[1].hash}, None, ""),  # not over 2, which is receipted already
        (GOOD | {"hash": OUTBOX.messages[3].hash}, None, "its hash"),
        (GOOD | {"seqno": 4}, None, "its hash"),
        (GOOD | {"seqno": 6}, None, "its hash"),
        (GOOD | {"seqno": 2**70}, None, "its hash"),
        (GOOD | {"generation": "00000000-00000000"}, None, "for generation"),
        (GOOD | {"seqno": "3"}, None, "malformed"),
        (GOOD | {"seqno": True}, None, "malformed"),
        (GOOD | {"hash": None}, None, "malformed"),
        (GOOD | {"generation": 1}, None, "malformed"),
        ([3], None, "malformed"),
        (GOOD | {"more": "x" * 1024}, None, "malformed"),
    ],
)
def test_a_receipt(payload: Any, seqno: int | None, said: str, caplog: pytest.LogCaptureFixture) -> None:  # noqa: ANN401
    assert receipted(json.dumps(payload).encode(), OUTBOX, 2) == seqno
    assert said in caplog.text and bool(said) == bool(caplog.text)


@pytest.mark.parametrize("payload", [b"", b"\xff", b"{", b"[" * 1000, b"null"])
def test_what_is_no_json_is_no_receipt(payload: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert receipted(payload, OUTBOX, 0) is None
    assert "malformed" in caplog.text


def told(*, primary: bool) -> list[str]:
    heard = Heard()

    async def story() -> None:
        outbox = FakeOutbox()
        report = Report("serial", outbox, heard, primary=primary, high=3, low=1)
        report.backlog()
        for reason in ("unplugged", "unplugged", "silent", "unplugged"):
            report.down(reason)
        report.up()
        report.down("unplugged")
        outbox.add(3)
        report.backlog()
        outbox.advance("serial", 2)
        report.receipt(2)
        report.passed(1)
        report.refused(3, "too long")
        report.refused(3, "too long")
        report.passed(2)
        assert len(heard.of(FaultGone)) == 1, "message 3 is refused still"
        report.passed(3)
        report.passed(4)

    asyncio.run(story())
    names = []
    for event in heard.events:
        match event:
            case LinkChanged(up=up, reason=reason):
                names.append("up" if up else f"down: {reason}")
            case BacklogChanged(high=high, depth=depth):
                names.append(f"{'high' if high else 'low'} {depth}")
            case Receipt(seqno=seqno):
                names.append(f"receipt {seqno}")
            case FaultSeen(code=code, part=part, text=text):
                names.append(f"{code} {part}: {text}")
            case FaultGone(code=code, part=part):
                names.append(f"{code} {part} gone")
    return names


FAULTS = ["feed_refused serial gone", "feed_refused serial: too long", "feed_refused serial gone"]


def test_the_primary_tells_each_thing_once() -> None:
    """The first `passed` ends what a run before this one may have left standing."""
    link = ["low 0", "down: unplugged", "down: silent", "up", "down: unplugged", "high 3", "low 1", "receipt 2"]
    said = told(primary=True)
    assert said[-3:] == FAULTS
    assert sorted(said[:-3]) == sorted(link)


def test_who_is_not_primary_tells_of_refusals_alone() -> None:
    assert told(primary=False) == FAULTS


def links(steps: str, *, primary: bool = True) -> list[str]:
    """What the table hears of the link, by what comes to the report; `drained`: a receipt for all there is."""
    heard, outbox = Heard(), FakeOutbox()

    async def story() -> None:
        outbox.add(3)
        report = Report("mqtt", outbox, heard, primary=primary, high=9, low=1)

        def receipt(seqno: int) -> None:
            outbox.advance("mqtt", seqno)
            report.receipt(seqno)

        acts = {
            "up": report.up,
            "cable": lambda: report.down("cable"),
            "stalled": lambda: report.stalled("silent"),
            "refused": lambda: report.refused(2, "refused"),
            "receipt": lambda: receipt(outbox.cursor("mqtt") + 1),
            "drained": lambda: receipt(3),
        }
        for step in steps.split():
            acts[step]()

    asyncio.run(story())
    return ["up" if link.up else link.reason for link in heard.of(LinkChanged)]


def test_a_casino_that_gives_no_receipt_is_a_link_that_is_down_until_it_gives_one() -> None:
    """Else betting would open and be cancelled for ever, and nobody be told (F2, I33)."""
    assert links("up stalled stalled receipt receipt") == ["up", "silent", "up"]
    assert links("up stalled receipt stalled") == ["up", "silent", "up", "silent"]
    assert links("up stalled cable up") == ["up", "silent", "cable"], "another connection is no receipt"
    assert links("up stalled cable up receipt") == ["up", "silent", "cable", "up"]
    assert links("up stalled cable receipt") == ["up", "silent", "cable"], "a receipt is no connection"
    assert links("up stalled cable receipt up") == ["up", "silent", "cable", "up"]
    assert links("up stalled drained cable up") == ["up", "silent", "up", "cable", "up"]
    assert links("up refused refused drained") == ["up", "refused", "up"], "the feed waits, and so does the betting"
    assert links("up refused receipt") == ["up", "refused"], "it is for what was before the refused one"
    assert links("up refused receipt receipt") == ["up", "refused", "up"]
    assert links("up drained stalled refused") == ["up"], "nothing is waited for: nothing would end it"
    assert links("cable stalled up receipt") == ["cable", "silent", "up"]
    assert links("up stalled receipt", primary=False) == []
