"""The shoe's sensors against a request of lines in memory, in virtual time; the kernel drops, chips come and go.

Bug reports 2 (renumbered chips), 4 (lost edges), 9 (lines held), 11 (foreign threads), 12 (dead dispatchers); G6, G7.
"""

import asyncio
import errno
import inspect
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import gpiod
import pytest
from gpiod.line import Bias, Clock, Direction
from gpiod.line import Edge as Detect
from hypothesis import given
from hypothesis import strategies as st

from controller.adapters.edges_gpio import EVENTS_MAX, INVERTED, LOOK_NS, EdgesGpio
from controller.cli import show
from controller.core.events import (
    CardMoved,
    CardReturned,
    CutCardSeen,
    CutCardWaiting,
    Event,
    FaultGone,
    FaultSeen,
    LidChanged,
    MouthChanged,
    MovementUnclear,
    TwoCardsMoved,
)
from controller.link.movements import Line, Why
from controller.ports import Outcome
from controller.sensing import TEXTS
from tests.gpio_request import Bank, Chips, FakeChip, FakeRequest
from tests.pages import page
from tests.passages import MS, Level, Pull, Scene, chatter, edges, night
from tests.virtual_time import VirtualLoop, run

INNER, OUTER, CUT, PRESENT, LID = Line
LINES = {INNER: 17, OUTER: 27, CUT: 22, PRESENT: 18, LID: 23}
BEAMS = {INNER: 17, OUTER: 27}
DEADLINE_S = 30.0


def said(event: Event) -> str:
    match event:
        case CardMoved():
            return "card"
        case TwoCardsMoved():
            return "two"
        case CutCardSeen(via=via):
            return f"cut:{via}"
        case CutCardWaiting():
            return "waiting"
        case CardReturned():
            return "returned"
        case MovementUnclear(_, why):
            return f"unclear:{why}"
        case MouthChanged(present=present):
            return "full" if present else "empty"
        case LidChanged(_, is_open):
            return "open" if is_open else "closed"
        case FaultSeen(code="I41", part=part):
            return f"fault:{part}"
        case FaultGone(code="I41", part=part):
            return f"gone:{part}"
        case _:
            raise AssertionError(event)


class Table:
    """Takes what the sensors report, as the loop does: the end of a fault that does not stand is no news.

    `standing`: the parts of faults that the run before this one left.
    """

    def __init__(self, standing: Iterable[str] = ()) -> None:
        self.events: list[Event] = []
        self.standing = set(standing)

    def submit(self, event: Event) -> "asyncio.Future[Outcome]":
        if isinstance(event, FaultSeen | FaultGone):
            if (event.part in self.standing) is isinstance(event, FaultSeen):
                return asyncio.get_running_loop().create_future()
            self.standing ^= {event.part}
        self.events.append(event)
        return asyncio.get_running_loop().create_future()

    @property
    def said(self) -> list[str]:
        return [said(event) for event in self.events]

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, FaultSeen)]


class Rig:
    """The sensors at work on a bank of lines, in a loop whose time passes at once."""

    def __init__(
        self, loop: VirtualLoop, bank: Bank, lines: dict[Line, int], standing: Iterable[str] = (), **more: Bank
    ) -> None:
        self.loop = loop
        self.bank = bank
        self.lines = lines
        self.chips = Chips(**{bank.info.name: bank}, **more)
        self.table = Table(standing)
        opens: Any = self.chips.open
        self.sensors = EdgesGpio(lines=lines, open_chip=opens, paths=self.chips.paths, now=loop.now)
        for line, offset in lines.items():
            bank.volts[offset] = line in INVERTED
        if PRESENT in lines:
            bank.volts[lines[PRESENT]] = False  # a card lies in the mouth

    def put(self, line: Line, level: bool) -> None:
        self.bank.drive(self.lines[line], level is not (line in INVERTED), self.loop.now())

    async def play(self, levels: Iterable[Level]) -> None:
        """What happens, from now on."""
        start = self.loop.now()
        for at, line, level in levels:
            await self.until(start + at)
            if line in self.lines:
                self.put(line, level)

    async def until(self, at: int) -> None:
        if at > self.loop.now():
            await asyncio.sleep((at - self.loop.now()) / 1e9)

    async def rest(self, ms: int = 1_000) -> None:
        await self.until(self.loop.now() + ms * MS)


@asynccontextmanager
async def reading(rig: Rig) -> AsyncIterator[Table]:
    """The sensors at work; cancelled at the end, and then no line is held and no timer left."""
    task = asyncio.create_task(rig.sensors.run(rig.table.submit))
    try:
        await rig.sensors.tried.wait()
        yield rig.table
        assert not task.done(), "a source reports until it is cancelled"
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert rig.bank.request is None
        assert not rig.sensors.opened.is_set()


def table(
    scenario: Callable[[Rig], Awaitable[None]],
    lines: dict[Line, int] = LINES,
    bank: Bank | None = None,
    standing: Iterable[str] = (),
    **more: Bank,
) -> Table:
    """What a table was told in a scenario."""

    async def main(loop: VirtualLoop) -> Table:
        rig = Rig(loop, bank or Bank(), lines, standing, **more)
        async with reading(rig):
            await scenario(rig)
        return rig.table

    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    told = run(main)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    return told


# --- what the sensors see, in the table's words ----------------------------------------------------------------

CARD = edges(Pull(10 * MS, 60 * MS).spans())


def story(text: str) -> list[Level]:
    """`ms` and the lines that change then: Inner, Outer, Cut, Present, Lid; True in capitals."""
    letters = dict(zip("IOCPL", Line, strict=True))
    steps = [(word.rstrip("IOCPLiocpl"), word[-1]) for word in text.split()]
    return [Level(int(at) * MS, letters[letter.upper()], letter.isupper()) for at, letter in steps]


WORDS = {
    "a card": ("10I 20O 70i 80o", "card@80"),
    "two at once (I08)": ("10I 20O 130i 140o", "two@140"),
    "the cut card": ("10I 15C 20O 70i 75c 80o", "cut:beams@80"),
    "the cut card waits": ("10C", "waiting@310"),
    "put back (I17)": ("10O 20I 70o 80i", "returned@70"),
    "pulled back": ("10I 110i", ""),
    "not to be told": ("10O 20I 80i 90o", "unclear:outside@90"),
    "the mouth": ("100p 300P", "empty@100 full@300"),
    "the lid (I39)": ("100L 300l", "open@100 closed@300"),
    "a beam stuck (I41)": ("100I 31000i", "fault:exit_inner@30100 gone:exit_inner@31000"),
}


@pytest.mark.parametrize(("happens", "expected"), WORDS.values(), ids=WORDS)
def test_what_is_seen_is_told_with_its_time(happens: str, expected: str) -> None:
    began = 0

    async def scenario(rig: Rig) -> None:
        nonlocal began
        began = rig.loop.now()
        await rig.play(story(happens))
        await rig.rest()

    first, second, *rest = table(scenario).events
    assert [said(first), said(second)] == ["full", "closed"]
    assert " ".join(f"{said(event)}@{(event.at - began) // MS}" for event in rest) == expected


@pytest.mark.parametrize("bursts", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_night_is_told_as_it_was(seed: int, bursts: bool) -> None:
    rng = random.Random(seed)
    scene = night(rng, 40)
    levels = chatter(edges(scene.spans), rng, 3 * MS) if bursts else edges(scene.spans)
    began = 0

    async def scenario(rig: Rig) -> None:
        nonlocal began
        began = rig.loop.now()
        await rig.play(levels)
        await rig.rest()

    told = table(scenario).events[2:]
    assert [said(event).removesuffix(":beams") for event in told] == [what for what, _ in scene.truth]
    for event, (_, at) in zip(told, scene.truth, strict=True):
        assert abs(event.at - began - at) < 1_000  # the loop's clock is a float


def test_a_card_is_told_within_milliseconds() -> None:
    """Before its scan can be: the beam settles for 2 ms, and 1 ms is left to the kernel."""
    late: list[int] = []

    async def scenario(rig: Rig) -> None:
        began = rig.loop.now()
        moved = asyncio.create_task(rig.play(CARD))
        while "card" not in rig.table.said:
            await rig.until(rig.loop.now() + MS // 10)
        late.append(rig.loop.now() - began - Pull(10 * MS, 60 * MS).out)
        await moved

    table(scenario, BEAMS)
    assert 3 * MS <= late[0] <= 4 * MS


def test_every_fault_has_its_words() -> None:
    assert all(text.startswith((part, "changes")) and ": " in text for (part, _), text in TEXTS.items())
    seen = {(part, why) for part in (INNER, OUTER) for why in (Why.STUCK, Why.FLICKERS, Why.BLIND)}
    assert set(TEXTS) == seen | {(PRESENT, Why.BLIND), (CUT, Why.STUCK), ("edges", Why.LOST)}


# --- what a run before this one left ----------------------------------------------------------------------------


PARTS = ("chip", "edges", "exit_inner", "exit_outer", "cut", "present", "head")


@pytest.mark.parametrize("lines", [LINES, BEAMS], ids=["all", "beams"])
def test_every_fault_of_an_earlier_run_ends_with_sensors_that_are_well(lines: dict[Line, int]) -> None:
    """Also that of a sensor which is not fitted any more, and of a sensor head that the pins took the place of."""

    async def scenario(rig: Rig) -> None:
        assert rig.table.standing == set()
        await rig.play(CARD)
        await rig.rest()

    told = table(scenario, lines, standing=PARTS)
    assert sorted(word for word in told.said if word.startswith("gone")) == sorted(f"gone:{part}" for part in PARTS)
    assert told.said[-1] == "card"


def test_a_fault_of_an_earlier_run_stands_while_its_chip_is_lost_or_its_beam_covered() -> None:
    bank = Bank()
    bank.unplug()

    async def scenario(rig: Rig) -> None:
        await rig.rest(5_000)
        assert rig.table.standing == set(PARTS)
        bank.plug()
        rig.put(OUTER, True)
        await rig.rest(40_000)  # by now it is stuck in this run, too
        assert rig.table.standing == {"exit_outer"}
        rig.put(OUTER, False)
        await rig.rest()
        assert rig.table.standing == set()
        rig.put(OUTER, True)
        await rig.rest(31_000)
        assert rig.table.standing == {"exit_outer"}

    table(scenario, bank=bank, standing=PARTS)


def test_a_sensor_that_clears_before_it_is_stuck_ends_its_old_fault() -> None:
    bank = Bank()
    bank.unplug()

    async def scenario(rig: Rig) -> None:
        rig.put(INNER, True)
        rig.put(CUT, True)
        bank.plug()
        await rig.rest(5_000)
        assert rig.table.standing == {"exit_inner", "cut"}
        rig.put(INNER, False)
        rig.put(CUT, False)
        await rig.rest()
        assert rig.table.standing == set()

    assert not [word for word in table(scenario, bank=bank, standing=PARTS).said if word.startswith("fault")]


# --- what `diag` has ---------------------------------------------------------------------------------------------


def seen(rig: Rig) -> dict[str, Any]:
    """`diag`, its pins in one line each: level, edges, the first words of a trouble."""
    told = rig.sensors.diag()
    told["pins"] = {pin["name"]: (pin["active"], pin["edges"], pin["trouble"][:10]) for pin in told["pins"]}
    return told


def test_diag_tells_levels_movements_and_faults() -> None:
    """Of what moved it tells kinds and never a face: it knows none (B10)."""
    looks: list[dict[str, Any]] = []

    async def scenario(rig: Rig) -> None:
        looks.append(seen(rig))
        await rig.play(CARD)
        await rig.play(story("200I 400i 500L"))  # pulled back, and the lid
        await rig.rest()
        looks.append(seen(rig))
        await rig.play(story("0I"))
        await rig.rest(31_000)
        looks.append(seen(rig))
        rig.put(INNER, False)
        await rig.rest()
        rig.bank.unplug()
        await rig.rest()
        looks.append(seen(rig))

    table(scenario)
    begun, moved, stuck, lost = looks
    assert begun["pins"] == {
        "exit_inner": (False, 0, ""),
        "exit_outer": (False, 0, ""),
        "cut": (False, 0, ""),
        "present": (True, 0, ""),
        "lid": (False, 0, ""),
    }
    assert (begun["open"], begun["fault"], begun["moved"]) == (True, "", {})
    assert {kind: count for kind, count in moved["moved"].items() if count} == {"card": 1, "pullback": 1}
    assert moved["pins"]["exit_inner"] == (False, 4, "")
    assert moved["pins"]["lid"] == (True, 1, "")
    assert stuck["pins"]["exit_inner"] == (True, 5, "exit_inner")
    assert lost["pins"]["exit_inner"] == (None, 6, "")
    assert lost["open"] is False
    assert "chip" in lost["fault"]


def test_diag_tells_of_edges_that_were_lost() -> None:
    async def scenario(rig: Rig) -> None:
        for _ in range(EVENTS_MAX):
            rig.put(LID, True)
            rig.put(LID, False)
        await rig.rest()
        assert "were lost" in seen(rig)["fault"]
        await rig.rest(12_000)
        assert seen(rig)["fault"] == ""

    table(scenario)


def test_the_page_shows_a_shoe_that_is_well() -> None:
    page_ = page("docs/devices/shoe.md")
    (block,) = [block.text for block in page_.blocks if block.language == "text"]

    async def scenario(rig: Rig) -> None:
        await rig.play(CARD)
        await rig.play(CARD)
        await rig.play(story("200I 400i"))
        await rig.rest()
        told = {"part": "shoe", "driver": "gpio", **rig.sensors.diag()}
        assert list(show.part(told)) == block.splitlines()

    table(scenario)


# --- the request ------------------------------------------------------------------------------------------------


def test_all_lines_are_one_request() -> None:
    bank = Bank()

    async def scenario(rig: Rig) -> None:
        await rig.rest()

    table(scenario, bank=bank)
    [(config, consumer, size)] = bank.asked
    assert list(config) == [17, 27, 22, 18, 23]
    assert size == EVENTS_MAX == 128
    assert consumer is not None
    assert consumer.startswith("baccarat-table ")
    for offset, settings in config.items():
        assert settings == gpiod.LineSettings(
            direction=Direction.INPUT,
            edge_detection=Detect.BOTH,
            bias=Bias.PULL_UP,
            active_low=offset == 18,
            event_clock=Clock.MONOTONIC,
        )


SHAPES: list[tuple[Callable[..., object], Callable[..., object]]] = [
    (gpiod.Chip.__init__, FakeChip.__init__),
    (gpiod.Chip.get_info, FakeChip.get_info),
    (gpiod.Chip.get_line_info, FakeChip.get_line_info),
    (gpiod.Chip.request_lines, FakeChip.request_lines),
    (gpiod.LineRequest.wait_edge_events, FakeRequest.wait_edge_events),
    (gpiod.LineRequest.read_edge_events, FakeRequest.read_edge_events),
    (gpiod.LineRequest.get_values, FakeRequest.get_values),
    (gpiod.LineRequest.release, FakeRequest.release),
]


@pytest.mark.parametrize(("real", "fake"), SHAPES, ids=[real.__qualname__ for real, _ in SHAPES])
def test_the_fake_has_the_shape_of_the_installed_package(
    real: Callable[..., object], fake: Callable[..., object]
) -> None:
    shape = [(name, one.default) for name, one in inspect.signature(real).parameters.items()]
    ours = [(name, one.default) for name, one in inspect.signature(fake).parameters.items()]
    assert ours[: len(shape)] == [*shape[: len(ours)]]
    assert all(name == "bank" for name, _ in ours[len(shape) :])


def test_the_descriptor_is_a_property_as_in_the_installed_package() -> None:
    for kind in (gpiod.LineRequest, FakeRequest):
        assert isinstance(inspect.getattr_static(kind, "fd"), property)


# --- edges that are lost (4, G6) --------------------------------------------------------------------------------


def test_what_the_full_buffer_dropped_is_a_fault_and_never_a_guess() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.play(CARD)
        await rig.rest()
        for _ in range(100):  # nobody reads meanwhile: 200 edges, of which the kernel keeps 128
            rig.put(INNER, level=True)
            rig.put(INNER, level=False)
        for _, line, level in CARD:
            rig.put(line, level)
        await rig.rest()
        await rig.play(CARD)
        await rig.rest(11_000)

    told = table(scenario, BEAMS)
    assert told.said == ["card", "fault:edges", "unclear:lost", "card", "gone:edges"]
    assert "count the cards" in told.texts[0]


def test_the_levels_are_read_again_after_a_loss() -> None:
    """The mouth emptied and the lid was opened among what was lost."""

    async def scenario(rig: Rig) -> None:
        rig.put(LID, level=True)
        rig.put(PRESENT, level=False)
        for _ in range(100):
            rig.put(INNER, level=True)
            rig.put(INNER, level=False)
        await rig.rest()

    assert table(scenario).said == ["full", "closed", "fault:edges", "unclear:lost", "empty", "open"]


def test_a_stall_without_a_loss_changes_nothing() -> None:
    """A card passes while the loop does something else for a second: its edges have their own times."""

    async def scenario(rig: Rig) -> None:
        began = rig.loop.now()
        rig.loop.stall(1_000 * MS)
        for at, line, level in CARD:
            rig.bank.drive(rig.lines[line], level, began + at)
        await rig.rest()
        assert rig.table.events[0].at == began + Pull(10 * MS, 60 * MS).out

    assert table(scenario, BEAMS).said == ["card"]


def test_stamps_of_another_clock_are_a_fault() -> None:
    """G7: they would be compared with ours."""

    async def scenario(rig: Rig) -> None:
        rig.bank.drive(17, high=True, at=time.time_ns())
        await rig.rest(100)

    told = table(scenario, BEAMS)
    assert told.said[0] == "fault:chip"
    assert "CLOCK_MONOTONIC" in told.texts[0]


# --- chips that come and go ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENODEV, errno.EIO])
def test_a_lost_chip_is_one_fault_and_is_read_again(number: int) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.play(CARD)
        await rig.rest()
        rig.bank.unplug(number)
        await rig.rest(60_000)
        rig.bank.volts[18] = True  # the mouth emptied meanwhile
        rig.bank.plug()
        await rig.rest(5_000)
        rig.put(PRESENT, level=True)
        await rig.rest()
        await rig.play(CARD)
        await rig.rest()

    told = table(scenario)
    assert told.said == ["full", "closed", "card", "fault:chip", "empty", "unclear:lost", "gone:chip", "full", "card"]
    assert "check its plug and power" in told.texts[0]


def test_a_chip_that_goes_without_waking_anyone_is_found_out() -> None:
    """As Linux 6.1 does it (`make rig`): the descriptor stays quiet, and every use of it fails."""

    async def scenario(rig: Rig) -> None:
        await rig.rest(10_000)
        rig.bank.unplug(wakes=False)
        await rig.rest(1_001)
        assert "fault:chip" in rig.table.said
        rig.bank.plug()
        await rig.rest(5_000)
        await rig.play(CARD)
        await rig.rest()

    assert table(scenario, BEAMS).said == ["fault:chip", "unclear:lost", "gone:chip", "card"]


def test_a_card_in_the_exit_as_the_chip_is_lost_is_unclear() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.play(CARD[:2])
        await rig.rest(20)
        rig.bank.unplug()
        await rig.rest(10)
        rig.bank.volts[17] = rig.bank.volts[27] = False
        rig.bank.plug()
        await rig.rest(5_000)
        await rig.play(CARD)
        await rig.rest()

    assert table(scenario, BEAMS).said == ["unclear:lost", "fault:chip", "unclear:lost", "gone:chip", "card"]


def test_attempts_are_bounded() -> None:
    opened: list[int] = []

    async def scenario(rig: Rig) -> None:
        rig.bank.unplug()
        rig.bank.trouble = errno.EACCES
        await rig.rest(60_000)
        opened.append(rig.chips.opened)

    assert table(scenario, BEAMS).said == ["fault:chip"]
    assert 30 <= opened[0] <= 36


def test_a_chip_that_comes_and_goes_is_not_opened_more_often() -> None:
    opened: list[int] = []

    async def scenario(rig: Rig) -> None:
        rig.bank.broken = errno.EIO
        rig.bank.request.wake() if rig.bank.request else None
        await rig.rest(60_000)
        opened.append(rig.chips.opened)

    told = table(scenario, BEAMS)
    assert told.said == ["fault:chip"]
    assert 30 <= opened[0] <= 72  # twice an attempt: to look for it, and to request its lines


PLACES: dict[str, tuple[dict[str, Any], int, str]] = {
    "not there": ({}, errno.ENOENT, "no GPIO chip is labelled"),
    "not ours to open": ({}, errno.EACCES, "add the user to the group gpio"),
    "another label": ({"label": "raspberrypi-exp-gpio"}, 0, "no GPIO chip is labelled pinctrl-rp1 or"),
    "too small": ({"lines": 20}, 0, "/dev/gpiochip0 has no line 27"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_chip_that_cannot_be_had_is_a_fault_that_says_why(name: str) -> None:
    how, trouble, text = PLACES[name]
    bank = Bank(**how)
    bank.trouble = trouble

    async def scenario(rig: Rig) -> None:
        await rig.rest(10_000)

    told = table(scenario, BEAMS, bank)
    assert told.said == ["fault:chip"]
    assert text in told.texts[0]


def test_held_lines_say_by_whom() -> None:
    """Bug report 9."""
    bank = Bank()
    bank.held = {27: "gpiomon", 22: ""}

    async def scenario(rig: Rig) -> None:
        await rig.rest(1_000)
        bank.held = {}
        await rig.rest(5_000)

    told = table(scenario, BEAMS, bank)
    assert told.said == ["fault:chip", "unclear:lost", "gone:chip"]
    assert "GPIO27 by gpiomon" in told.texts[0]


def test_the_chip_is_found_by_its_label_and_once_though_it_has_two_paths() -> None:
    """Bug report 2; Raspberry Pi OS links gpiochip4 to gpiochip0."""
    bank = Bank("gpiochip0", "pinctrl-rp1")

    async def scenario(rig: Rig) -> None:
        await rig.play(CARD)
        await rig.rest()

    told = table(scenario, BEAMS, bank, gpiochip4=bank, gpiochip10=Bank("gpiochip10", "gpio-brcmstb"))
    assert told.said == ["card"]


def test_a_chip_that_does_not_open_is_told_where_no_other_is_the_one() -> None:
    """The header's own is refused, and another opens."""
    bank = Bank()
    bank.trouble = errno.EACCES

    async def scenario(rig: Rig) -> None:
        await rig.rest(1_000)

    told = table(scenario, BEAMS, bank, gpiochip1=Bank("gpiochip1", "raspberrypi-exp-gpio"))
    assert "add the user to the group gpio" in told.texts[0]


def test_two_chips_of_the_header_are_a_fault() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.rest(1_000)

    told = table(scenario, BEAMS, gpiochip1=Bank("gpiochip1"))
    assert told.said == ["fault:chip"]
    assert "more than one GPIO chip" in told.texts[0]


@given(seed=st.integers(0, 2**32))
def test_unplugged_at_any_moment_no_card_is_invented_or_lost_in_silence(seed: int) -> None:
    rng = random.Random(seed)
    scene = Scene()
    for _ in range(10):
        scene.card(Pull(scene.end + rng.randint(300, 900) * MS, rng.randint(25, 300) * MS))
    gone, back = rng.randint(0, scene.end), rng.randint(0, 400 * MS)
    began = 0

    async def scenario(rig: Rig) -> None:
        nonlocal began
        began = rig.loop.now()
        plays = asyncio.create_task(rig.play(edges(scene.spans)))
        await rig.until(began + gone)
        rig.bank.unplug()
        await rig.until(began + gone + back)
        rig.bank.plug()
        await plays
        await rig.rest(3_000)

    told = table(scenario, BEAMS)
    cards = [event.at - began for event in told.events if isinstance(event, CardMoved)]
    true = [at for _, at in scene.truth]
    near = [min(true, key=lambda out: abs(out - at)) for at in cards]
    assert all(abs(at - out) < 1_000 for at, out in zip(cards, near, strict=True))
    assert len(set(near)) == len(cards)
    down = next(event.at for event in told.events if isinstance(event, FaultSeen)) - began
    up = next(event.at for event in told.events if isinstance(event, FaultGone)) - began
    assert all(down - 400 * MS <= at <= up + 400 * MS for at in true if at not in near)
    for at in true:
        if at not in near and not down <= at <= up:  # it was in the exit as the fault came or went
            assert any(isinstance(event, MovementUnclear) for event in told.events)


# --- one loop, no thread --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("from the table"), OSError(errno.ENODEV, "from the table")])
def test_a_failing_submit_ends_run_and_is_not_swallowed(error: Exception) -> None:
    """Bug report 12: a dispatcher that died in silence would leave a table that looks well and counts nothing."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop, Bank(), BEAMS)

        def submit(event: Event) -> "asyncio.Future[Outcome]":
            if isinstance(event, CardMoved):
                raise error
            return rig.table.submit(event)

        task = asyncio.create_task(rig.sensors.run(submit))
        await rig.sensors.tried.wait()
        await rig.play(CARD)
        with pytest.raises(type(error), match="from the table"):
            await task
        assert rig.bank.request is None

    run(main)


def test_an_idle_loop_is_woken_by_edges_of_a_foreign_thread() -> None:
    """Bug report 11: here the kernel; nothing else goes on in the loop."""

    async def scenario() -> None:
        bank = Bank()
        chips, told = Chips(gpiochip0=bank), Table()
        opens: Any = chips.open
        sensors = EdgesGpio(lines=BEAMS, open_chip=opens, paths=chips.paths)
        task = asyncio.create_task(sensors.run(told.submit))
        await sensors.opened.wait()

        def kernel() -> None:
            for line, level, wait in ((17, True, 0.01), (27, True, 0.05), (17, False, 0.01), (27, False, 0.0)):
                bank.drive(line, level, time.monotonic_ns())
                time.sleep(wait)

        thread = threading.Thread(target=kernel)
        thread.start()
        end = time.monotonic() + DEADLINE_S
        while told.said != ["card"]:
            assert time.monotonic() < end, "what was waited for did not happen"
            await asyncio.sleep(0.1)
        thread.join()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_table_at_rest_is_woken_for_the_look_alone() -> None:
    woken: list[int] = []

    async def scenario(rig: Rig) -> None:
        await rig.play(CARD)
        await rig.rest()
        before = rig.loop.wakes
        await rig.rest(3_600_000)
        woken.append(rig.loop.wakes - before)

    table(scenario)
    assert woken[0] <= 3_600 * 1e9 / LOOK_NS + 1  # and once by the scenario itself


def test_a_line_that_never_rests_stops_neither_the_loop_nor_time() -> None:
    """60 edges at every look, for a second: the other tasks' turns come, and the beam is found to flicker."""

    async def scenario(rig: Rig) -> None:
        for _ in range(1_000):
            for _ in range(30):
                rig.put(INNER, level=True)
                rig.put(INNER, level=False)
            await rig.rest(1)
        await rig.rest(5_000)

    assert table(scenario, BEAMS).said == ["fault:exit_inner", "gone:exit_inner"]
