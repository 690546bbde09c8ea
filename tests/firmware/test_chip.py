"""The real firmware on the simulated ATmega328P, in lock step: starts, resets, memory, line, wires, and its bounds."""

import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from controller.link import messages
from controller.link.frame import CRC16, encode
from controller.link.messages import (
    FRAME_BYTES,
    PASSAGE_MS,
    SWING_MIN,
    AskHello,
    AskLevels,
    AskThresholds,
    Cause,
    Event,
    Flag,
    Heartbeat,
    Hello,
    Kind,
    Levels,
    Refusal,
    Refused,
    Seen,
    SelfTest,
    SetThresholds,
    Thresholds,
    Why,
)
from controller.link.movements import Line
from firmware import bounds
from firmware.sim.bench import BUILD, LineFault, Pin, Way
from firmware.sim.bench import Cause as Reset
from tests.firmware.chip import BYTE_US, DARK, Chip, elf, symbols
from tests.passages import MS, Pull, Scene, edges

VECTORS: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (Path(__file__).parents[2] / "firmware" / "protocol" / "vectors.toml").read_text()
)
HANG = 0xCFFF  # rjmp to itself
TIMSK1 = 0x6F
EEPROM_BYTE_US = 3_400
WISHED = SetThresholds(700, 300, 650, 350, 750, 300, 350, 800)


def a_card(chip: Chip, covered_ms: int = 60) -> None:
    """Draws one, from now on."""
    scene = Scene()
    scene.card(Pull(5 * MS, covered_ms * MS))
    chip.play(edges(scene.spans), chip.bench.now)
    chip.run(covered_ms * 1_000 + 100_000)


def kinds(chip: Chip) -> list[Kind]:
    return [event.kind for _, event in chip.events]


# --- start and reset -----------------------------------------------------------------------------------------


def test_a_head_that_starts_says_who_it_is_until_it_has_a_name() -> None:
    with Chip(boot=0) as chip:
        chip.run(900_000)
        hellos = [(at, message) for at, message in chip.heard if isinstance(message, Hello)]
        assert len(hellos) == 5
        assert hellos[0][0] < 20_000
        first = hellos[0][1]
        assert (first.cause, first.boots, first.boot, first.next) == (Cause.POWER, 1, 0, 1)
        assert (first.last_ms, first.lost) == (0xFFFFFFFF, 255)
        assert chip.events == []
        chip.boot = 77
        chip.run(400_000)
        assert chip.last(Hello).boot == 77
        assert kinds(chip) == [Kind.PRESENT, Kind.LID]
        assert [event.flags for _, event in chip.events] == [Flag.ON, Flag(0)]


RESETS = {  # cause; whether memory is kept
    "reset pin": (Reset.EXTERNAL, Cause.EXTERNAL, True),
    "brown-out": (Reset.BROWNOUT, Cause.BROWNOUT, True),
    "power": (Reset.POWER, Cause.POWER, False),
    "a dip of the power": (Reset.DIP, Cause.POWER | Cause.BROWNOUT, False),
}


@pytest.mark.parametrize("name", RESETS)
def test_what_a_reset_keeps(name: str) -> None:
    by, cause, kept = RESETS[name]
    with Chip() as chip:
        chip.run(50_000)
        a_card(chip)
        chip.run(500_000)
        uptime = chip.bench.now / 1_000
        chip.bench.reset(by, chip.bench.now)
        chip.run(700_000)
        hello = chip.last(Hello)
        assert (hello.cause, hello.boots) == (cause, 2 if kept else 1)
        assert chip.last(Heartbeat).cards == (1 if kept else 0)
        assert hello.lost == (0 if kept else 255)
        if kept:
            assert uptime - 10 <= hello.last_ms <= uptime
        assert kinds(chip) == [Kind.PRESENT, Kind.LID]


def test_resets_that_follow_at_once_are_counted() -> None:
    with Chip(boot=0) as chip:
        chip.run(150_000)  # so that what is kept first after a reset is not the newer by its number alone
        for _ in range(3):
            chip.run(1_500)
            chip.bench.reset(Reset.EXTERNAL, chip.bench.now, hold=0)
        chip.run(100_000)
        hello = chip.last(Hello)
        assert (hello.boots, hello.lost, hello.last_ms) == (4, 255, 0xFFFFFFFF)


def test_a_reset_in_a_passage_is_told_as_one_lost() -> None:
    with Chip() as chip:
        chip.run(50_000)
        chip.change(0, Line.INNER, on=True)
        chip.run(20_000)
        chip.bench.reset(Reset.BROWNOUT, chip.bench.now)
        chip.run(300_000)
        assert chip.last(Hello).lost == 1
        assert Seen.MOVING in chip.last(Hello).seen


def test_what_was_not_acknowledged_is_lost_and_told() -> None:
    with Chip(acknowledge=False) as chip:
        chip.run(50_000)
        a_card(chip)
        assert kinds(chip)[-1] is Kind.CARD
        chip.bench.reset(Reset.EXTERNAL, chip.bench.now)
        chip.run(300_000)
        assert chip.last(Hello).lost == 3  # the mouth, the lid, the card


def test_a_reset_in_the_middle_of_a_frame_leaves_the_next_one_whole() -> None:
    """A half frame on the line would swallow HELLO: the head begins with a zero."""
    for late in range(0, 5_000, 700):
        with Chip(boot=0) as chip:
            chip.run(200_000)
            chip.bench.reset(Reset.EXTERNAL, chip.bench.now + late)
            chip.heard.clear()
            chip.run(100_000)
            assert chip.last(Hello).boots == 2
            assert chip.last(Hello).uptime_ms < 10


WAYS_TO_HANG = ["the main loop hangs", "the timer is dead", "the timer is dead, and the table talks on"]


@pytest.mark.parametrize("how", WAYS_TO_HANG)
def test_the_watchdog_bites_where_sampling_stands_still(how: str) -> None:
    with Chip() as chip:
        chip.run(100_000)
        a_card(chip)
        assert chip.bench.resets == 0
        whole = chip.bench.word(symbols()["hal_rest"])
        if "loop" in how:
            chip.bench.patch(symbols()["hal_rest"], HANG)
        else:
            chip.bench.poke(TIMSK1, 0)
        for _ in range(40):
            if "talks" in how:
                chip.say(AskHello())
            chip.run(5_000)
            if chip.bench.resets:
                break
        assert chip.bench.resets == 1
        chip.bench.patch(symbols()["hal_rest"], whole)
        chip.run(700_000)
        hello = chip.last(Hello)
        assert (hello.cause, hello.boots, hello.lost) == (Cause.WATCHDOG, 2, 0)
        assert chip.last(Heartbeat).cards == 1
        assert chip.bench.resets == 1


def test_a_program_that_was_away_says_that_it_lost_samples() -> None:
    with Chip() as chip:
        chip.run(100_000)
        address = symbols()["hal_rest"]
        whole = chip.bench.word(address)
        chip.bench.patch(address, HANG)
        chip.run(20_000)
        chip.bench.patch(address, whole)
        chip.run(500_000)
        assert chip.bench.resets == 0
        assert [(event.kind, event.why) for _, event in chip.events[2:]] == [(Kind.AMBIGUOUS, Why.LOST)]
        # Of 40, those that had room were judged; while they are, a few more have none.
        assert 30 <= chip.last(Heartbeat).late_ticks <= 37
        a_card(chip)
        assert kinds(chip)[-1] is Kind.CARD


def test_one_that_hangs_for_good_is_reset_again_and_again() -> None:
    with Chip() as chip:
        chip.run(100_000)
        chip.bench.patch(symbols()["hal_rest"], HANG)
        chip.run(1_000_000)
        assert chip.bench.resets >= 5
        assert not chip.bench.crashed


# --- thresholds and the EEPROM -------------------------------------------------------------------------------


def test_thresholds_are_kept_over_a_power_cut() -> None:
    with Chip() as chip:
        chip.run(50_000)
        own = chip.ask(AskThresholds(), Thresholds)
        assert (own.kept, own.generation) == (0, 0)
        begun = chip.bench.now
        kept = chip.ask(WISHED, Thresholds, 200_000)
        assert kept == Thresholds(1, 1, *WISHED)
        took = next(at for at, message in chip.heard if message == kept) - begun
        assert 15 * EEPROM_BYTE_US < took < 30 * EEPROM_BYTE_US  # a byte that is there already is not written
        begun = chip.bench.now
        assert chip.ask(WISHED, Thresholds) == kept  # the same again wears nothing
        chip.bench.reset(Reset.POWER, chip.bench.now)
        chip.run(100_000)
        assert chip.ask(AskThresholds(), Thresholds) == kept
        a_card(chip)
        assert kinds(chip)[-1] is Kind.CARD


def test_a_byte_that_is_right_already_is_not_written_again() -> None:
    with Chip() as chip:
        chip.run(50_000)
        for generation, inner_on in enumerate((700, 710, 720), 1):
            begun = chip.bench.now
            kept = chip.ask(WISHED._replace(inner_on=inner_on), Thresholds, 200_000)
            assert kept.generation == generation
            took = next(at for at, message in chip.heard if message == kept) - begun
        assert took < 12 * EEPROM_BYTE_US  # the generation, one threshold, the check


@pytest.mark.parametrize("at_byte", [0, 1, 3, 9, 21])
def test_a_torn_write_leaves_what_was(at_byte: int) -> None:
    with Chip() as chip:
        chip.run(50_000)
        kept = chip.ask(WISHED, Thresholds, 200_000)
        chip.say(WISHED._replace(inner_on=800, present_off=900))
        chip.run(3_000 + at_byte * EEPROM_BYTE_US * 0.7)
        chip.bench.reset(Reset.BROWNOUT, chip.bench.now)
        chip.run(100_000)
        found = chip.ask(AskThresholds(), Thresholds)
        assert found == kept
        assert chip.ask(WISHED._replace(inner_on=800), Thresholds, 200_000).generation == 2


def test_an_eeprom_that_keeps_nothing_is_told() -> None:
    with Chip() as chip:
        chip.run(50_000)
        chip.say(WISHED)
        chip.run(40_000)
        chip.bench.eeprom[4] ^= 0x40  # worn out
        chip.run(200_000)
        assert chip.last(Refused) == Refused(0x85, Refusal.STORE)
        assert chip.ask(AskThresholds(), Thresholds).kept == 0


def test_a_head_whose_beam_is_stuck_can_be_tested_and_calibrated() -> None:
    """What covers it is no card: wrong thresholds, or a dead emitter. It would never be mended else."""
    with Chip() as chip:
        chip.run(50_000)
        chip.change(0, Line.INNER, on=True)
        chip.run(10_000)
        assert chip.ask(SelfTest(), Refused, us=200_000) == Refused(0x87, Refusal.BUSY)
        chip.run(31_000_000)
        assert Seen.INNER in chip.last(Heartbeat).faults
        assert chip.ask(WISHED, Thresholds, us=400_000)[2:] == WISHED
        chip.ask(SelfTest(), messages.Tested, us=200_000)


def test_thresholds_do_not_change_under_a_card() -> None:
    with Chip() as chip:
        chip.run(50_000)
        chip.change(0, Line.INNER, on=True)
        chip.run(10_000)
        assert chip.ask(WISHED, Refused) == Refused(0x85, Refusal.BUSY)


# --- the line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS["good"] if int(v["body"][:2], 16) >= 0x80], ids=lambda v: v["name"]
)
def test_good_vectors_are_understood(vector: dict[str, Any]) -> None:
    with Chip() as chip:
        chip.run(50_000)
        chip.bench.receive(bytes.fromhex(vector["frame"]))
        chip.run(600_000)
        assert chip.last(Heartbeat).bad_frames == 0


@pytest.mark.parametrize("vector", VECTORS["bad"], ids=lambda v: v["name"])
def test_bad_vectors_are_counted_and_not_answered(vector: dict[str, Any]) -> None:
    with Chip() as chip:
        chip.run(50_000)
        chip.bench.receive(bytes.fromhex(vector["frame"]))
        chip.run(600_000)
        assert chip.last(Heartbeat).bad_frames == 1
        assert chip.count(Refused) == 0


@pytest.mark.parametrize("vector", [v for v in VECTORS["wrong"] if v["to"] == "head"], ids=lambda v: v["name"])
def test_wrong_vectors_are_refused(vector: dict[str, Any]) -> None:
    with Chip() as chip:
        chip.run(50_000)
        chip.bench.receive(bytes.fromhex(vector["frame"]))
        chip.run(600_000)
        body = bytes.fromhex(vector["body"])
        assert chip.last(Refused) == Refused(body[0], Refusal[vector["refusal"]])
        counted = 0 if vector["refusal"] == "RANGE" else 1
        assert chip.last(Heartbeat).bad_frames == counted


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("fault", LineFault)
def test_a_fault_on_the_line_loses_no_card(way: Way, fault: LineFault) -> None:
    with Chip() as chip:
        chip.run(50_000)
        chip.bench.fault(way, fault)
        a_card(chip)
        chip.run(300_000)
        assert kinds(chip).count(Kind.CARD) == 1
        if way is Way.TO_HEAD:
            chip.run(500_000)
            assert chip.last(Heartbeat).bad_frames >= 1
            assert chip.last(Heartbeat).waiting == 0


def test_one_byte_in_a_hundred_is_broken_both_ways_and_every_card_counts_once() -> None:
    with Chip() as chip:
        chip.run(50_000)
        for way in Way:
            chip.bench.errors(way, 10_000)
        for _ in range(40):
            a_card(chip)
        for way in Way:
            chip.bench.errors(way, 0)
        chip.run(1_000_000)
        assert kinds(chip).count(Kind.CARD) == 40
        assert chip.last(Heartbeat).cards == 40
        assert chip.last(Heartbeat).bad_frames > 0
        assert chip.last(Heartbeat).waiting == 0


def test_a_flood_of_junk_does_no_harm() -> None:
    rng = random.Random(7)
    with Chip() as chip:
        chip.run(50_000)
        chip.bench.receive(rng.randbytes(4_096))
        a_card(chip)
        chip.run(4_100 * BYTE_US)
        assert kinds(chip)[-1] is Kind.CARD
        assert chip.last(Heartbeat).late_ticks == 0
        assert (chip.bench.overruns, chip.bench.resets) == (0, 0)
        chip.bench.receive(b"\0")
        assert chip.ask(AskHello(), Hello).boot == chip.boot


def test_a_broken_byte_is_counted_once() -> None:
    with Chip() as chip:
        chip.run(50_000)
        chip.bench.fault(Way.TO_HEAD, LineFault.FRAMING)
        chip.bench.receive(b"\x55")
        chip.run(600_000)
        assert chip.last(Heartbeat).bad_frames == 1


# --- wires ---------------------------------------------------------------------------------------------------


def test_levels_are_what_the_channels_read() -> None:
    with Chip() as chip:
        chip.run(1_200_000)
        levels = chip.ask(AskLevels(), Levels)
        for got, mv in zip(levels[:4], (400, 400, 900, 900), strict=True):
            assert abs(got - mv * 1_023 / 5_000) <= 2
        assert levels.seen == Seen.PRESENT
        assert abs(levels.supply_mv - 5_000) < 30
        chip.bench.supply(0, 4_600)
        chip.run(1_200_000)
        assert abs(chip.last(Heartbeat).supply_mv - 4_600) < 30


@pytest.mark.parametrize(("pin", "is_open"), [(Pin.LOW, False), (Pin.HIGH, True), (Pin.FLOAT, True)])
def test_a_torn_wire_is_an_open_lid(pin: Pin, is_open: bool) -> None:
    with Chip() as chip:
        chip.bench.lid(0, pin)
        chip.run(100_000)
        assert (Flag.ON in chip.events[1][1].flags) is is_open
        assert (Seen.LID in chip.ask(AskHello(), Hello).seen) is is_open


def test_the_self_test_finds_a_dead_sensor_and_is_blind_for_less_than_a_card() -> None:
    with Chip() as chip:
        chip.bench.dark([DARK, DARK, DARK, 900])  # the mouth's does not see its emitter
        chip.run(100_000)
        dark = []
        chip.say(SelfTest())
        for _ in range(60):
            chip.run(1_000)
            dark.append(not chip.bench.emitters)
        tested = chip.last(messages.Tested)
        assert tested.passed == Seen.INNER | Seen.OUTER | Seen.CUT
        assert abs(tested.inner_dark - tested.inner_lit) > 800
        assert abs(tested.present_dark - tested.present_lit) < SWING_MIN
        assert 0 < sum(dark) < PASSAGE_MS
        assert [event.kind for _, event in chip.events[2:]] == []
        chip.run(500_000)
        assert chip.last(Heartbeat).seen == Seen.PRESENT


def test_a_sensor_that_is_stuck_is_told_and_cleared() -> None:
    with Chip() as chip:
        chip.run(50_000)
        chip.change(0, Line.OUTER, on=True)
        chip.run(30_500_000)
        assert (chip.events[-1][1].kind, chip.events[-1][1].why) == (Kind.STUCK, Why.STUCK)
        chip.change(0, Line.OUTER, on=False)
        chip.run(100_000)
        assert chip.events[-1][1].kind is Kind.CLEAR


def test_a_supply_that_sags_in_a_passage_loses_nothing_unsaid() -> None:
    """The voltage falls, the brown-out detector bites, and the card has left when the chip is back."""
    with Chip() as chip:
        chip.run(50_000)
        chip.change(0, Line.INNER, on=True)
        chip.run(20_000)
        chip.bench.supply(chip.bench.now, 3_900)
        chip.bench.reset(Reset.BROWNOUT, chip.bench.now, hold=120_000)
        chip.change(chip.bench.now + 60_000, Line.INNER, on=False)
        chip.bench.supply(chip.bench.now + 90_000, 5_000)
        chip.run(500_000)
        hello = chip.last(Hello)
        assert (hello.cause, hello.lost) == (Cause.BROWNOUT, 1)
        assert kinds(chip) == [Kind.PRESENT, Kind.LID]


# --- bounds --------------------------------------------------------------------------------------------------


def test_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    elf()
    assert bounds.main(BUILD) == 0
    with capsys.disabled():
        print("\n" + capsys.readouterr().out, end="")


def test_the_stack_is_never_deeper_than_it_was_computed() -> None:
    elf()
    computed = next(what for what, *_ in bounds.measured(BUILD) if "stack" in what)
    most = int("".join(filter(str.isdigit, computed)))
    with Chip(acknowledge=False) as chip:
        chip.run(50_000)
        for _ in range(4):
            a_card(chip)
            chip.bench.receive(encode(b"\x99", CRC16, FRAME_BYTES))
        chip.say(WISHED)
        chip.run(500_000)
        assert 60 < chip.bench.stack <= most


def test_the_chip_has_time_to_spare() -> None:
    with Chip() as chip:
        chip.run(1_000_000)
        slept = chip.bench.slept
        chip.run(1_000_000)
        assert chip.bench.slept - slept > 400_000


def test_every_event_says_how_it_was_seen() -> None:
    with Chip() as chip:
        chip.run(50_000)
        a_card(chip, 120)
        event = chip.events[-1][1]
        assert isinstance(event, Event)
        assert abs(event.covered_ms - 120) <= 1
        assert abs(event.lag_100us - 10 * 120 * 15 / 88) <= 10
        assert abs(event.reflected - 900 * 1_023 / 5_000) <= 3
