"""The protocol's definition: what generate.py makes of it, what it refuses, and what must hold between its numbers."""

import dataclasses
import subprocess
from pathlib import Path

import pytest

from controller.link.frame import CRC16, room
from controller.link.movements import Thresholds
from firmware.protocol import generate

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / generate.SOURCE).read_text()
DEFINITION = generate.load(TEXT)
LIMITS = {name: limit["value"] for name, limit in DEFINITION["limits"].items()}

BAD = [
    ("number = 0x02", "number = 0x01", "message: each number is one of its own"),
    ("TWO = { value = 2,", "TWO = { value = 1,", "kind: each number is one of its own"),
    ("TWO = { value = 2,", "TWO = { value = 256,", "kind: each number is one of its own"),
    ('name = "seq", type = "u32"', 'name = "seq", type = "u64"', "EVENT.seq: there is no type u64"),
    ("body_bytes = { value = 40", "body_bytes = { value = 29", "HELLO has 30 bytes, more than body_bytes"),
]


@pytest.mark.parametrize(("before", "after", "says"), BAD)
def test_a_definition_that_contradicts_itself(before: str, after: str, says: str) -> None:
    assert before in TEXT
    with pytest.raises(generate.DefinitionError, match=says):
        generate.load(TEXT.replace(before, after, 1))


def test_the_numbers_fit_each_other() -> None:
    assert LIMITS["body_bytes"] == room(LIMITS["frame_bytes"], CRC16)
    for message in DEFINITION["message"]:
        assert (message["number"] < 0x80) == (message["from"] == "head")
    byte_us = 10 * 1_000_000 / LIMITS["baud"]
    event = next(message for message in DEFINITION["message"] if message["name"] == "EVENT")
    queue_us = LIMITS["queue_events"] * (generate.body_bytes(event) + 4) * byte_us
    assert queue_us * 2 < LIMITS["resend_ms"] * 1000
    assert LIMITS["silence_ms"] >= 8 * LIMITS["beat_ms"]  # each may be broken on the line


@pytest.mark.parametrize(("name", "value"), DEFINITION["thresholds"].items())
def test_the_head_judges_as_the_table_does(name: str, value: int) -> None:
    """Two sets of sensors, one set of thresholds: controller/link/movements.py has the reasons."""
    ours = dataclasses.asdict(Thresholds())
    stem, _, unit = name.rpartition("_")
    scale = {"us": (f"{stem}_ns", 1000), "percent": (stem, 0.01), "count": (name, 1)}
    key, factor = scale[unit]
    assert value * factor == pytest.approx(ours[key])


CHECK_C = """
#include "protocol.h"
_Static_assert(HEAD_PROTOCOL == 1u, "");
_Static_assert(sizeof(head_event_t) == 19u, "");
_Static_assert(HEAD_KIND_AMBIGUOUS == 7u && HEAD_SEEN_LID == 16u && HEAD_SETTLE_US == 2000u, "");
int main(void) { return 0; }
"""


def test_the_header_is_c_without_a_warning(tmp_path: Path) -> None:
    source = tmp_path / "check.c"
    source.write_text(CHECK_C)
    warnings = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion", "-Wundef", "-Wpedantic"]
    command = ["gcc", *warnings, f"-I{ROOT / generate.HERE}", "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
