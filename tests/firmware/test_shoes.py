"""Whole shoes over the real firmware: the ten vectors' cards are drawn past its sensors, and the table hears of it.

The chip, the line with one byte in a hundred broken both ways, the session, the core. Pull-backs between: B7, I17.
Nothing is lost or counted twice, and every result is the vector's.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from controller.core import events as e
from controller.core import facts as f
from controller.core.cards import Card
from controller.core.facts import Phase
from controller.core.profile import Procedure
from controller.link.movements import Ambiguous, CardOut, CutOut, Returned, TwoOut
from controller.link.session import Session, Told
from controller.sensing import told
from firmware.sim.bench import Bench, Way
from tests.core.test_vectors import QUIET, in_file_words
from tests.firmware.chip import Chip
from tests.passages import MS, Pull, Scene, edges, pulls
from tests.shoes import SHOES, Shoe, expected
from tests.table.driver import PACE_NS, READ_NS, Table

BROKEN_PER_MILLION = 10_000
LISTEN_US = 2_000
SETTLED_US = 30_000
PULLBACKS = 0.05
PATIENCE_US = 3_000_000
MOVEMENTS = (Ambiguous, CardOut, CutOut, Returned, TwoOut)


class Head:
    """The chip and the session that the table has with it; what is reported is durable at once."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.chip = Chip(boot=0, acknowledge=False)
        self.session = Session(lambda: rng.randrange(1, 1 << 32))
        self.keys: list[tuple[int, int]] = []
        self.session.connect(0)
        for way in Way:
            self.bench.errors(way, BROKEN_PER_MILLION)
        self.bench.seed(rng.getrandbits(64))

    @property
    def bench(self) -> Bench:
        return self.chip.bench

    def listen(self, us: float) -> list[Told]:
        """Time passes for both; what the head reported, in the order in which the session gave it out."""
        reports: list[Told] = []
        end = self.bench.now + us
        while self.bench.now < end:
            self.bench.run(LISTEN_US)
            at = round(self.bench.now * 1_000)
            data = bytes(byte.byte for byte in self.bench.sent())
            outputs = self.session.feed(data, at) if data else []
            if self.session.due is not None and at >= self.session.due:
                outputs += self.session.elapse(at)
            for output in outputs:
                if isinstance(output, Told):
                    reports.append(output)
                    if output.key is not None:
                        self.keys.append(output.key)
                        self.session.durable(output.key)
            self.bench.receive(self.session.take())
        return reports

    def draw(self, scene: Scene, reports: int) -> list[Told]:
        """What is reported of it: so much, however long a broken line takes, and then a while longer."""
        self.chip.play(edges(scene.spans), self.bench.now)
        heard = self.listen(scene.end / 1_000)
        end = self.bench.now + PATIENCE_US
        while len(_movements(heard)) < reports and self.bench.now < end:
            heard += self.listen(LISTEN_US)
        return _movements(heard + self.listen(SETTLED_US))


def _movements(heard: list[Told]) -> list[Told]:
    return [told for told in heard if isinstance(told.report, MOVEMENTS)]


class Dealt(Table):
    """The table whose cards are drawn past the chip's sensors before they are scanned."""

    def __init__(self, head: Head) -> None:
        self.head = head
        super().__init__(procedure=Procedure(sensors=True))

    def deal(self, card: Card) -> None:
        self.wait(PACE_NS)
        self.move(Scene.card)
        self.wait(READ_NS)
        self.scan(card)

    def move(self, passage: Callable[[Scene, Pull], None]) -> None:
        """One card, or the cut card; now and then it is drawn half out and put back first."""
        rng = self.head.rng
        scene = Scene(end=10 * MS)
        if rng.random() < PULLBACKS:
            scene.back(scene.end, 20 * MS, 60 * MS, 40 * MS)
        passage(scene, pulls(rng, scene.end + 60 * MS))
        for report in self.head.draw(scene, 1):
            self.submit(replace(told(report.report), at=self.now))


def cut_card(scene: Scene, pull: Pull) -> None:
    scene.cut(pull, sensor=-8.0)


def deal(table: Dealt, events: Sequence[tuple[str, str]]) -> None:
    for what, code in events:
        if what == "cut":
            table.move(cut_card)
            table.submit(e.CutCardSeen(table.now, "code"))
        elif what == "burn":
            table.move(Scene.card)
        else:
            if what == "P1":
                table.until_card()
            table.deal(Card.parse(code))
            table.announce()


def check(shoe: Shoe, events: Sequence[tuple[str, str]]) -> int:
    """How many rounds were completed."""
    head = Head(random.Random(shoe.seed))
    with head.chip:
        heard: list[Told] = []
        while not heard:  # the first words may be broken, too
            heard = head.listen(SETTLED_US)
            assert head.bench.now < PATIENCE_US
        table = Dealt(head)
        table.submit(e.LoadAsked(table.now))
        deal(table, events)
        rounds = [fact for fact in table.told if type(fact) is f.RoundCompleted]
        assert [in_file_words(fact) for fact in rounds] == [expected(hand) for hand in shoe.hands[: len(rounds)]]
        if events == shoe.events:
            assert len(rounds) == len(shoe.hands)
            assert [fact.round for fact in rounds if fact.last_round] == [shoe.last]
            assert table.state.phase is Phase.UNLOADING
        raised = [fact.code for fact in table.told if type(fact) is f.IrregularityRaised]
        assert [code for code in raised if code not in QUIET] == []
        head.listen(1_000_000)
        assert len(set(head.keys)) == len(head.keys)
        assert {boot for boot, _ in head.keys} == {head.keys[0][0]}
        beat = head.session.beat
        assert beat is not None
        assert beat.cards == sum(what != "cut" for what, _ in events)
        assert beat.resent > 0 < beat.bad_frames
        assert sum(head.session.frames.errors.values()) > 0
        return len(rounds)


def test_the_first_rounds_of_a_shoe() -> None:
    assert check(SHOES[0], SHOES[0].events[:70]) > 8


@pytest.mark.soak
@pytest.mark.parametrize("shoe", SHOES, ids=lambda shoe: f"seed {shoe.seed}")
def test_every_shoe_gives_exactly_its_rounds(shoe: Shoe) -> None:
    assert check(shoe, shoe.events) == len(shoe.hands)
