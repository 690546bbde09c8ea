"""The sensor head's port against a pseudo-terminal with a fake head behind it: events, receipts, plugs pulled."""

import asyncio
import fcntl
import os
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller.adapters.head_serial import AskError, HeadSerial
from controller.core.events import (
    CardMoved,
    Event,
    FaultGone,
    FaultSeen,
    LidChanged,
    MouthChanged,
    MovementUnclear,
)
from controller.link import messages
from controller.link.messages import (
    AskLevels,
    AskThresholds,
    Flag,
    Kind,
    Levels,
    Line,
    Refusal,
    Refused,
    Seen,
    SelfTest,
    SetThresholds,
    Thresholds,
    Why,
)
from controller.link.movements import Line as Edge
from controller.link.movements import Why as Reason
from controller.ports import Outcome
from controller.sensing import TEXTS
from tests.adapters.scanned import until
from tests.fake_head import FakeHead, PtyHead


class Table:
    """Takes what the head reports, as the loop does; while it is `slow` nothing becomes durable."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.slow = False
        self.waiting: list[asyncio.Future[Outcome]] = []

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.events.append(event)
        if self.slow:
            self.waiting.append(answer)
        else:
            answer.set_result(Outcome())
        return answer

    def of(self, *kinds: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kinds)]

    def faults(self) -> list[str]:
        """Those of the head: what it says, and `gone`."""
        return [
            event.text if isinstance(event, FaultSeen) else "gone"
            for event in self.events
            if isinstance(event, FaultSeen | FaultGone) and (event.code, event.part) == ("I41", "head")
        ]


def make(path: Path) -> HeadSerial:
    return HeadSerial(port=str(path), retry_s=(0.005, 0.02))


@asynccontextmanager
async def running(path: Path, table: Table, *, up: bool = True) -> AsyncIterator[HeadSerial]:
    head = make(path)
    task = asyncio.create_task(head.run(table.submit))
    try:
        await until(lambda: head.opened.is_set() if up else head.tried.is_set() or task.done())
        yield head
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled(), task.exception()


@pytest.fixture
def port(tmp_path: Path) -> Path:
    return tmp_path / "head"


def test_events_reach_the_table_under_keys_of_their_own_and_are_acknowledged(port: Path) -> None:
    async def main() -> None:
        table = Table()
        with PtyHead(port) as bench:
            async with running(port, table) as head:
                cards = 3 * messages.QUEUE_EVENTS
                for _ in range(cards):
                    bench.happens(Kind.CARD, covered_ms=60)
                    await until(lambda: bench.waiting == 0)
                moved = table.of(CardMoved)
                keys = [("head", f"{bench.head.boot:08x}:{seq}") for seq in range(1, cards + 1)]
                assert [event.key for event in moved] == keys
                assert head.session.counts["card"] == cards
                for event, (at, _) in zip(moved, bench.head.made, strict=True):
                    assert event.at >= at - 10_000_000  # its ms, and the line's time that a pty does not take

    asyncio.run(main())


def test_no_acknowledgement_before_the_event_is_durable(port: Path) -> None:
    async def main() -> None:
        table = Table()
        with PtyHead(port) as bench:
            async with running(port, table) as head:
                table.slow = True
                bench.happens(Kind.CARD)
                await until(lambda: head.session.counts["repeat"] >= 3)
                assert bench.waiting == 1
                assert len(table.of(CardMoved)) == 1
                for answer in table.waiting:
                    answer.set_result(Outcome())
                await until(lambda: bench.waiting == 0)

    asyncio.run(main())


def test_an_event_that_no_table_made_durable_comes_to_the_next_one(port: Path) -> None:
    """The daemon died between hearing and acknowledging: the same key again, and the journal knows it or not."""

    async def main() -> None:
        first, second = Table(), Table()
        with PtyHead(port) as bench:
            async with running(port, first):
                first.slow = True
                bench.happens(Kind.CARD)
                await until(lambda: first.of(CardMoved))
            assert bench.waiting == 1
            async with running(port, second):
                await until(lambda: bench.waiting == 0)
        assert [event.key for event in second.of(CardMoved)] == [event.key for event in first.of(CardMoved)]

    asyncio.run(main())


def test_an_answer_that_never_came_acknowledges_nothing(port: Path) -> None:
    """The loop ended: its futures are cancelled, or hold what ended it."""

    async def main() -> None:
        table = Table()
        with PtyHead(port) as bench:
            async with running(port, table) as head:
                table.slow = True
                bench.happens(Kind.CARD)
                bench.happens(Kind.TWO)
                await until(lambda: len(table.waiting) >= 2)
                one, two = table.waiting[-2:]
                one.cancel()
                two.set_exception(RuntimeError("the loop ended"))
                before = head.session.counts["repeat"]
                await until(lambda: head.session.counts["repeat"] >= before + 4)
                assert bench.waiting == 2

    asyncio.run(main())


def test_levels_and_faults_stand_as_the_head_has_them(port: Path) -> None:
    async def main() -> None:
        table = Table()
        with PtyHead(port, FakeHead(seen=Seen.PRESENT | Seen.LID, faults=Seen.CUT)) as bench:
            async with running(port, table) as head:
                await until(lambda: table.of(LidChanged))
                await until(lambda: any(event.part == "cut" for event in table.of(FaultSeen)))
                assert [event.present for event in table.of(MouthChanged)] == [True]
                assert [event.is_open for event in table.of(LidChanged)] == [True]
                ended = {event.part for event in table.of(FaultGone)}
                assert ended == {"head", "edges", "chip", "exit_inner", "exit_outer", "present"}
                assert head.diag()["pins"][2]["trouble"] == TEXTS[Edge.CUT, Reason.STUCK]
                bench.happens(Kind.CLEAR, line=Line.CUT)
                bench.happens(Kind.STUCK, line=Line.LID, why=Why.FLICKERS)
                await until(lambda: head.diag()["pins"][4]["trouble"])
                assert head.diag()["pins"][2]["trouble"] == ""

    asyncio.run(main())


def test_a_head_that_is_back_tells_first_what_it_kept(port: Path) -> None:
    """Whoever counts cards once its fault is over counts none that is still to be told."""

    async def main() -> None:
        table = Table()
        with PtyHead(port) as bench:
            async with running(port, table):
                await until(lambda: table.faults() == ["gone"])
                bench.unplug(power=False)
                await until(lambda: len(table.faults()) == 2)
                bench.happens(Kind.CARD)
                bench.happens(Kind.CARD)
                bench.plug(power=False)
                await until(lambda: len(table.faults()) == 3)
                assert len(table.of(CardMoved)) == 2
                assert isinstance(table.of(CardMoved, FaultGone)[-1], FaultGone)

    asyncio.run(main())


# --- the plug -------------------------------------------------------------------------------------------------


def test_unplugged_and_plugged_in_again(port: Path) -> None:
    async def main() -> None:
        table = Table()
        with PtyHead(port) as bench:
            async with running(port, table) as head:
                await until(lambda: table.faults() == ["gone"])
                bench.unplug()
                await until(lambda: not head.opened.is_set() and table.faults()[1:])
                bench.plug()
                await until(lambda: head.opened.is_set() and table.faults()[2:])
                first, lost, back = table.faults()
                assert (first, back) == ("gone", "gone")
                assert "head's plug and power" in lost
                assert [event.why for event in table.of(MovementUnclear)] == ["lost"]
                bench.happens(Kind.CARD)
                await until(lambda: table.of(CardMoved))

    asyncio.run(main())


def test_a_short_reset_with_nothing_under_way_holds_nobody_up(port: Path) -> None:
    """On a machine under load a frame is read late, and the head seems blind for longer: one of so many is in time."""

    async def main() -> None:
        table = Table()
        with PtyHead(port) as bench:
            async with running(port, table) as head:
                for count in range(1, 21):
                    await until(lambda: head.session.beat and head.opened.is_set())
                    unclear = len(table.of(MovementUnclear))
                    bench.reset()
                    await until(lambda count=count: head.session.counts["restart"] == count)
                    await until(head.opened.is_set)
                    if len(table.of(MovementUnclear)) == unclear:
                        break
                else:
                    pytest.fail("each short reset holds the table")
                bench.happens(Kind.CARD)
                await until(lambda: table.of(CardMoved))
                await until(lambda: table.faults() == ["gone"])

    asyncio.run(main())


def test_the_port_is_not_there(port: Path) -> None:
    async def main() -> None:
        table = Table()
        async with running(port, table, up=False) as head:
            says = f"sensor head port {port} is not there: check the sensor head's plug and power, and the name in "
            says += "shoe.port"
            assert table.faults() == [says]
            assert head.diag()["fault"] == says
            with pytest.raises(AskError, match="is not there"):
                await head.ask(AskLevels())
            with PtyHead(port):
                await until(lambda: table.faults() == [says, "gone"])
                assert head.opened.is_set()

    asyncio.run(main())


def test_the_port_is_left_so_that_the_next_one_who_opens_it_resets_no_nano(port: Path) -> None:
    """DTR falls at the last close where HUPCL stands (termios(3)), and its next rise is a reset."""

    async def main() -> None:
        with PtyHead(port):
            line = os.open(port, os.O_RDWR | os.O_NOCTTY)
            found = termios.tcgetattr(line)
            found[2] |= termios.HUPCL
            termios.tcsetattr(line, termios.TCSANOW, found)
            async with running(port, Table()):
                assert not termios.tcgetattr(line)[2] & termios.HUPCL
            os.close(line)

    asyncio.run(main())


def test_another_program_has_the_port(port: Path) -> None:
    async def main() -> None:
        table = Table()
        with PtyHead(port):
            other = os.open(port, os.O_RDWR | os.O_NOCTTY)
            fcntl.flock(other, fcntl.LOCK_EX)
            async with running(port, table, up=False) as head:
                assert "is held by another program" in table.faults()[0]
                os.close(other)
                await until(head.opened.is_set)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fake", "says"),
    [
        (FakeHead(protocol=2), "speaks another protocol than 1: bring its firmware"),
        (FakeHead(deaf=True), "does not hear the table: check its RX wire"),
    ],
)
def test_a_head_that_is_no_use(port: Path, fake: FakeHead, says: str) -> None:
    async def main() -> None:
        table = Table()
        with PtyHead(port, fake):
            async with running(port, table, up=False):
                await until(table.faults)
                assert says in table.faults()[0]

    asyncio.run(main())


def test_a_port_with_something_else_behind_it(port: Path) -> None:
    async def main() -> None:
        table, silent = Table(), FakeHead()
        with PtyHead(port, silent) as bench:
            with bench.hand:
                silent.stop()
            async with running(port, table, up=False):
                await until(table.faults)
                assert "says nothing that is the sensor head's" in table.faults()[0]

    asyncio.run(main())


def test_dtr_stays_up_when_the_port_is_closed(port: Path) -> None:
    """Or each start of the program would reset a Nano: its next rise does."""

    async def main() -> None:
        with PtyHead(port):
            async with running(port, Table()):
                fd = os.open(port, os.O_RDWR | os.O_NOCTTY)
                try:
                    assert not termios.tcgetattr(fd)[2] & termios.HUPCL
                finally:
                    os.close(fd)

    asyncio.run(main())


def test_a_fault_of_the_program_ends_it(port: Path) -> None:
    async def main() -> None:
        def submit(event: Event) -> "asyncio.Future[Outcome]":
            raise LookupError("a fault of ours")

        with PtyHead(port), pytest.raises(LookupError, match="a fault of ours"):
            await asyncio.wait_for(make(port).run(submit), 30)

    asyncio.run(main())


# --- questions ------------------------------------------------------------------------------------------------


def test_questions(port: Path) -> None:
    async def main() -> None:
        with PtyHead(port) as bench:
            async with running(port, Table()) as head:
                assert isinstance(await head.ask(AskLevels()), Levels)
                wanted = (700, 300, 710, 310, 200, 400, 600, 200)
                for _ in range(2):
                    assert await head.ask(SetThresholds(*wanted)) == Thresholds(1, 1, *wanted)
                assert await head.ask(AskThresholds()) == Thresholds(1, 1, *wanted)
                assert bench.head.writes == 1
                near = await head.ask(SetThresholds(700, 680, *wanted[2:]))
                assert isinstance(near, Refused)
                assert near.why is Refusal.RANGE
                assert isinstance(await head.ask(SelfTest()), messages.Tested)

    asyncio.run(main())


def test_who_asked_and_went_away_leaves_the_way_free(port: Path) -> None:
    async def main() -> None:
        with PtyHead(port) as bench:
            async with running(port, Table()) as head:
                with bench.hand:
                    bench.head.deaf = True
                gone = asyncio.create_task(head.ask(SelfTest()))
                await until(lambda: head.session._question)
                gone.cancel()
                next_one = asyncio.create_task(head.ask(AskLevels()))
                with bench.hand:
                    bench.head.deaf = False
                assert isinstance(await next_one, Levels)

    asyncio.run(main())


def test_a_head_that_is_pulled_out_answers_nobody(port: Path) -> None:
    async def main() -> None:
        with PtyHead(port) as bench:
            async with running(port, Table()) as head:
                with bench.hand:
                    bench.head.deaf = True
                asked = asyncio.create_task(head.ask(AskLevels()))
                await until(lambda: head.session._question)
                bench.unplug()
                with pytest.raises(AskError, match=r"did not answer|is gone"):  # as it is found out
                    await asked

    asyncio.run(main())


def test_who_looks_once_sees_the_counters_too(port: Path) -> None:
    """They come with a heartbeat, behind the first levels."""

    async def main() -> None:
        with PtyHead(port) as bench:
            async with running(port, Table()):
                pass  # from now on the head has its name, and beats in its own time
            async with running(port, Table()) as head:
                await head.tried.wait()
                told = head.diag()
                assert told["head"]["supply_mv"] == 4987
                assert told["pins"][0]["level"] == bench.head.levels["inner"]

    asyncio.run(main())


def test_what_diag_tells(port: Path) -> None:
    async def main() -> None:
        with PtyHead(port) as bench:
            async with running(port, Table()) as head:
                bench.happens(Kind.CARD, flags=Flag.SLOW)
                await until(lambda: head.session.beat and head.session.beat.cards == 1)
                told = head.diag()
                assert told["firmware"] == {
                    "version": "1.2.3",
                    "build": "c0ffee01",
                    "protocol": 1,
                    "boots": 1,
                    "cause": ["power"],
                }
                assert (told["port"], told["open"], told["fault"]) == (str(port), True, "")
                assert told["moved"]["card"] == told["moved"]["slow"] == 1
                assert told["head"]["supply_mv"] == 4987
                assert [pin["active"] for pin in told["pins"]] == [False, False, False, True, False]
                bench.unplug()
                await until(lambda: not head.opened.is_set())
                assert [pin["active"] for pin in head.diag()["pins"]] == [None] * 5

    asyncio.run(main())
