"""Mistakes made on purpose in the firmware, one by one: the tests must find each. `python -m firmware.mutants [WORD]`.

A mutant is one change of one line. It lives when the firmware still builds within its bounds and every test passes; so
it shows what no test looks at. WORD picks those whose place or text has it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent
TESTS = ("tests/firmware/test_judge.py", "tests/firmware/test_chip.py", "tests/firmware/test_passages.py")
SECONDS = 600


class Mutant(NamedTuple):
    file: str
    before: str
    after: str


MUTANTS = (
    # debounce: a plain counter, a change at its last sample, one tick less
    Mutant("debounce.c", "line->away--;", "line->away = 0;"),
    Mutant("debounce.c", "line->since = line->began;", "line->since += 0;"),
    Mutant("debounce.c", "if (++line->away < line->settle)", "if (++line->away < line->settle - 1)"),
    Mutant("debounce.c", "if (!line->open)\n        line->began = now;", "line->began = now;"),
    # passages
    Mutant("passages.c", "if (covered > TWO_LAGS * slower)", "if (covered > 2u * TWO_LAGS * slower)"),
    Mutant("passages.c", "if (covered <= PULL)", "if (covered <= 2u * PULL)"),
    Mutant("passages.c", "if (inner_short && outer_short)", "if (inner_short || outer_short)"),
    Mutant(
        "passages.c",
        "exit->entered_known = false;\n    return ENTERING;\n}\n\nstatic enum place reach_again",
        "return ENTERING;\n}\n\nstatic enum place reach_again",
    ),
    Mutant("passages.c", "at - exit->doubt < CARD_MIN", "at - exit->doubt < 1u"),
    Mutant("passages.c", "if (way <= FOLLOW && ", "if ("),
    Mutant("passages.c", "times->count == HEAD_FLICKER_COUNT &&", "true &&"),
    Mutant(
        "passages.c",
        "case POKED:\n        return inner ? push(exit, at)",
        "case POKED:\n        return inner ? (push(exit, at), enter(exit, at))",
    ),
    Mutant("passages.c", "if (!exit->touched)\n", ""),
    Mutant("passages.c", "exit->entered_known = exit->touched = false;", "exit->touched = false;"),
    # the cut card
    Mutant("cutcard.c", "if (seen <= window / CUT_PARTS)", "if (seen <= window / 2u)"),
    Mutant("cutcard.c", "larger(1u, passed(begin, end));", "2u * larger(1u, passed(begin, end));"),
    Mutant("cutcard.c", "passed(cut->told_at, since) > 0;", "report->at - cut->told_at > report->at - since;"),
    Mutant("cutcard.c", "    forget(cut, now);", "    (void)forget;"),
    Mutant("cutcard.c", "cut->left = cut->level;", "cut->left = false;"),
    Mutant("cutcard.c", "alone && full && cut->rose_full &&", "alone && full &&"),
    # sensors: order, deadlines, faults
    Mutant("sensors.c", "|| now - line->began >= CHATTER ||", "|| now - line->began >= 4u * CHATTER ||"),
    Mutant("sensors.c", "place > 0 && before(&change, &sensors->changes[place - 1u])", "false"),
    Mutant("sensors.c", "!(due && later(change->at, (uint16_t)deadline))", "true"),
    Mutant(
        "sensors.c",
        "now - smaller(now - whole(sensors->changes[0].at, now), now - sensors->judged_to)",
        "whole(sensors->changes[0].at, now)",
    ),
    Mutant("sensors.c", "    sensors->changes_count = 0;\n", ""),
    Mutant(
        "sensors.c",
        "        if (!sensors->lines[part].level)\n            ledger_well(ledger, part, HEAD_WHY_STUCK, now);",
        "",
    ),
    Mutant("sensors.c", "&& (!waits || later(first.at, (uint16_t)deadline))", ""),
    Mutant("sensors.c", "sensors->restless_at[beam] = now + 1u;", "sensors->restless_at[beam] = now;"),
    Mutant("sensors.c", "now - line->since >= STUCK", "now - line->since >= 2u * STUCK"),
    Mutant("sensors.c", "now - exit->judged + MOUTH_EARLY", "now - exit->judged"),
    Mutant("sensors.c", "now - mouth->since <", "at - mouth->since <"),
    Mutant("sensors.c", "sensors->told_level[part] == level", "true"),
    # the line of events
    Mutant("ledger.c", "spare < HEAD_SPARE_EVENTS", "spare < 1"),
    Mutant("ledger.c", "if (spare == 1)", "if (spare == 0)"),
    Mutant("ledger.c", "covered == 0 || covered > ledger->count", "covered == 0"),
    Mutant("ledger.c", "if (ledger->troubles[part] == 0)\n        ledger_tell", "ledger_tell"),
    # levels
    Mutant("levels.c", "threshold > other ? level >= threshold", "threshold > other ? level > threshold"),
    Mutant("levels.c", "lines = (uint8_t)(lines & ~bit);", ";"),
    Mutant("reflect.c", "(uint8_t)((reflect->full + 1u) / 2u)", "reflect->full"),
    Mutant("reflect.c", "reflect->width = (uint16_t)(2u * reflect->width);", ""),
    # frames
    Mutant("frame.c", "reader->begun && good(reader)", "good(reader)"),
    Mutant("frame.c", "if (reader->size < sizeof reader->body)", "if (reader->size <= sizeof reader->body)"),
    Mutant("frame.c", "reader->block != 0 ||", ""),
    Mutant("frame.c", "(uint16_t)((uint16_t)x << 12)", "(uint16_t)((uint16_t)x << 11)"),
    # memory
    Mutant("record.c", "> 0 ? 1 : 0;", "> 0 ? 0 : 1;"),
    Mutant("record.c", "high <= HEAD_LEVEL_MAX && ", ""),
    Mutant("record.c", "record->protocol == HEAD_PROTOCOL && ", ""),
    Mutant("store.c", "(uint8_t)(SLOTS - 1u - store->slot)", "store->slot"),
    Mutant("store.c", "generation != 0 ? generation : 1u", "generation"),
    Mutant("store.c", "if (memcmp(back, &store->writing, sizeof *back) != 0)\n        return false;", ""),
    Mutant("survivor.c", "power_came || (!first && !second)", "(power_came && !first) || (!first && !second)"),
    Mutant("survivor.c", "copies[survivor->turn % COPIES]", "copies[0]"),
    # the head's half of the talk
    Mutant("head.c", "if (head->boot == 0 && asked->boots == head->boots)", "if (asked->boots == head->boots)"),
    Mutant("head.c", "if (head->boot == 0 || ack->boot != head->boot)", "if (head->boot == 0)"),
    Mutant("head.c", "head->store.busy || in_passage(head)", "head->store.busy"),
    Mutant("head.c", "head->sent > 0 && head->now - head->sent_at >= RESEND", "false"),
    Mutant("head.c", "head->boot != 0 && head->sent < head->ledger.count", "head->sent < head->ledger.count"),
    Mutant("head.c", ".last_ms = head->boot != 0 ? head->uptime_ms : head->last_ms,", ".last_ms = head->uptime_ms,"),
    Mutant("head.c", "+ (moving(head) ? 1u : 0u)", ""),
    Mutant("head.c", "head->sent = head->sent > gone ? (uint8_t)(head->sent - gone) : 0;", ""),
    Mutant("head.c", "head->tried = head->tried > gone ? (uint8_t)(head->tried - gone) : 0;", ""),
    Mutant("head.c", "    head->now += samples;\n", ""),
    Mutant(
        "head.c", ".boot = head->boot,\n        .next = head->ledger.seq,", ".boot = head->boot,\n        .next = 1,"
    ),
    Mutant("head.c", "    if (head->test_ticks != 0)\n        return;\n", ""),
    Mutant("head.c", "head->store.busy || in_passage(head)", "in_passage(head)"),
    Mutant("head.c", "    head->sampled = false;\n", ""),
    Mutant("head.c", "head->test_ticks == 0 || head->test_ticks >= TEST_LIGHT", "head->test_ticks < 200"),
    Mutant("head.c", "if (head->test_ticks != 0)\n        test_step", "if (head->test_ticks > 200)\n        test_step"),
    # the chip
    Mutant("hal.c", "LID_PORT |= LID;", ""),
    Mutant("hal.c", "UCSR0A = _BV(U2X0);", "UCSR0A = 0;"),
    Mutant("hal.c", "UCSR0A & (_BV(FE0) | _BV(DOR0))", "UCSR0A & _BV(DOR0)"),
    Mutant(
        "hal.c", "supply_runs = of == PART_PRESENT && supply_conversions > 0;", "supply_runs = supply_conversions > 0;"
    ),
    Mutant(
        "hal.c",
        "ADMUX = source(channel);\n    ADCSRA |= _BV(ADSC);",
        "ADCSRA |= _BV(ADSC);\n    ADMUX = source(channel);",
    ),
    Mutant("hal.c", "#define SAMPLES 8u ", "#define SAMPLES 2u "),
    Mutant("hal.c", "if (EEDR == byte)\n        return;", ""),
    Mutant("main.c", "        hal_feed();\n    }\n", "    }\n    hal_feed();\n"),
    Mutant("main.c", "        hal_feed();\n    }\n", "    }\n"),
    Mutant("main.c", "    frame[0] = 0; /* ends what a reset may have cut off */\n    hal_send(frame, 1);\n", ""),
    Mutant("main.c", "        if (head.now % SAVE_TICKS == 0)\n            survive();\n", ""),
    Mutant("main.c", "    survivor_turn = before.turn;\n", ""),
    Mutant("main.c", "(hal_reset_cause & HEAD_CAUSE_POWER) != 0", "false"),
    Mutant("reset.c", "    MCUSR = 0;\n", ""),
    Mutant("reset.c", "wdt_enable(WDTO_120MS);", "wdt_enable(WDTO_8S);"),
)


def made(mutant: Mutant | None, directory: Path) -> Path:
    """A firmware of its own with that mistake in it; None: with none."""
    firmware = directory / "firmware"
    shutil.copytree(HERE, firmware, ignore=shutil.ignore_patterns("build", "__pycache__"))
    if mutant is None:
        return firmware
    path = firmware / "src" / mutant.file
    text = path.read_text()
    if text.count(mutant.before) != 1:
        raise SystemExit(f"{mutant.file} has not one place with {mutant.before!r}: the mutant is to be made anew")
    path.write_text(text.replace(mutant.before, mutant.after))
    return firmware


def killed_by(firmware: Path) -> str:
    """What found the mistake; nothing did: an empty word."""
    environment = os.environ | {"HEAD_FIRMWARE": str(firmware), "HYPOTHESIS_PROFILE": "quick"}
    make = ["make", "--silent", "-C", str(firmware)]
    tests = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS]
    steps = (
        ("the compiler or the bounds", [*make, "all"]),
        ("the C tests", [*make, "test"]),
        ("the chip's tests", tests),
    )
    for name, command in steps:
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=SECONDS)  # noqa: S603
        except subprocess.TimeoutExpired:
            return f"{name}, which hung"
        if done.returncode:
            return name
    return ""


def tried(mutant: Mutant | None) -> str:
    with tempfile.TemporaryDirectory() as directory:
        return killed_by(made(mutant, Path(directory)))


def survivors(mutants: list[Mutant]) -> Iterator[Mutant]:
    for mutant in mutants:
        by = tried(mutant)
        print(f"{mutant.file:12} {mutant.before[:60]!r:64} {by or 'LIVES'}", flush=True)
        if not by:
            yield mutant


def main(word: str) -> int:
    chosen = [mutant for mutant in MUTANTS if word in mutant.file or word in mutant.before]
    if by := tried(None):
        raise SystemExit(f"the firmware itself does not pass {by}: see to that first")
    living = list(survivors(chosen))
    print(f"{len(chosen) - len(living)} of {len(chosen)} mutants are found")
    return 1 if living or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
