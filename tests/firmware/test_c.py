"""The C tests of the pure modules: on this machine under the sanitizers, and unchanged on the simulated chip.

An int has 16 bits there, which no sanitizer here would see.
"""

from pathlib import Path

import pytest

from firmware.sim.bench import FIRMWARE, Bench, build

NAMES = sorted(path.stem.removeprefix("test_") for path in (FIRMWARE / "test").glob("test_*.c"))
CHIP_SECONDS = 60  # of the chip's own time


def test_on_this_machine() -> None:
    assert NAMES
    directory = build("test")
    assert all((directory / f"test_{name}.passed").exists() for name in NAMES)


@pytest.fixture(scope="module")
def programs() -> Path:
    return build("chip_tests")


@pytest.mark.parametrize("name", NAMES)
def test_on_the_chip(name: str, programs: Path) -> None:
    bench = Bench(programs / f"chip_{name}.elf")
    said = bytearray()
    for _ in range(CHIP_SECONDS):
        bench.run(1_000_000)
        said += bytes(byte.byte for byte in bench.sent())
        if b"not so: " in said and said.endswith(b"\n"):
            break
    bench.close()
    assert said.decode() == "not so: 0\n"
