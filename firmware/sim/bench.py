"""The simulated head for Python, in lock step: libbench by ctypes. Time is in microseconds of the chip.

`build` makes what is needed. A `Bench` lets time pass only in `run`: the same inputs give the same bytes, as fast as
this machine can.
"""

import ctypes
import fcntl
import os
import subprocess
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

FIRMWARE = Path(os.environ.get("HEAD_FIRMWARE", Path(__file__).parents[1]))  # mutants.py tries others
BUILD = FIRMWARE / "build"
CYCLES_PER_US = 16
BYTES_AT_ONCE = 4096


class Pin(IntEnum):
    LOW = 0
    HIGH = 1
    FLOAT = 2


class Cause(IntEnum):
    POWER = 1
    EXTERNAL = 2
    BROWNOUT = 4
    DIP = 5  # power was away for so short a time that memory kept what it held


class Way(IntEnum):
    TO_HEAD = 0
    FROM_HEAD = 1


class LineFault(IntEnum):
    FLIP = 0
    DROP = 1
    DOUBLE = 2
    FRAMING = 3


class Byte(NamedTuple):
    at: float  # us, when its last bit was over
    byte: int


class _Byte(ctypes.Structure):
    _fields_: Sequence[tuple[str, type]] = [("at", ctypes.c_uint64), ("byte", ctypes.c_uint8)]


def build(*targets: str, directory: Path = BUILD, source: Path = FIRMWARE) -> Path:
    """Makes the targets, one make at a time in a directory; returns that. The error is make's own."""
    directory.mkdir(parents=True, exist_ok=True)
    command = ["make", "--silent", "-C", str(source), f"BUILD={directory.absolute()}", *targets]
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(  # noqa: S603 - our own Makefile
            command, capture_output=True, text=True, check=False, env={**os.environ, "MAKEFLAGS": ""}
        )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return directory


@cache
def library() -> ctypes.CDLL:
    """libbench, its functions with their types."""
    lib = ctypes.CDLL(str(build("sim") / "libbench.so"))
    bench, u64, unsigned = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint
    types: dict[str, tuple[type | None, list[type]]] = {
        "new": (bench, [ctypes.c_char_p]),
        "free": (None, []),
        "now": (u64, []),
        "run": (None, [u64]),
        "level": (None, [u64, unsigned, unsigned, u64]),
        "dark": (None, [unsigned, unsigned]),
        "noise": (None, [unsigned]),
        "lid": (None, [u64, unsigned]),
        "supply": (None, [u64, unsigned]),
        "receive": (None, [u64, ctypes.c_uint8]),
        "sent": (ctypes.c_size_t, [ctypes.POINTER(_Byte), ctypes.c_size_t]),
        "fault": (None, [unsigned, unsigned]),
        "errors": (None, [unsigned, unsigned]),
        "seed": (None, [u64]),
        "reset": (None, [u64, unsigned, u64]),
        "patch": (None, [unsigned, unsigned]),
        "word": (unsigned, [unsigned]),
        "peek": (unsigned, [unsigned]),
        "poke": (None, [unsigned, unsigned]),
        "eeprom": (ctypes.POINTER(ctypes.c_uint8), [ctypes.POINTER(ctypes.c_size_t)]),
        "emitters": (ctypes.c_bool, []),
        "resets": (unsigned, []),
        "overruns": (unsigned, []),
        "slept": (u64, []),
        "stack": (unsigned, []),
        "crashed": (ctypes.c_bool, []),
    }
    for name, (result, arguments) in types.items():
        function = getattr(lib, f"bench_{name}")
        function.restype = result
        function.argtypes = arguments if name == "new" else [bench, *arguments]
    return lib


class Bench:
    """One chip with its wires. Inputs happen at `at` us, or now where that is over; levels are mV."""

    def __init__(self, elf: Path) -> None:
        self._lib = library()
        self._bench = self._lib.bench_new(str(elf).encode())
        if not self._bench:
            raise FileNotFoundError(f"{elf} is no firmware for the simulator")

    def close(self) -> None:
        self._lib.bench_free(self._bench)

    @property
    def now(self) -> float:
        return float(self._lib.bench_now(self._bench)) / CYCLES_PER_US

    def run(self, us: float) -> None:
        """Lets so much time pass."""
        self._lib.bench_run(self._bench, self._lib.bench_now(self._bench) + round(us * CYCLES_PER_US))

    def level(self, at: float, channel: int, mv: int, ramp: float = 0) -> None:
        self._lib.bench_level(self._bench, _cycles(at), channel, mv, _cycles(ramp))

    def dark(self, levels: Iterable[int]) -> None:
        """What the channels read while the emitters are off."""
        for channel, mv in enumerate(levels):
            self._lib.bench_dark(self._bench, channel, mv)

    def noise(self, mv: int) -> None:
        self._lib.bench_noise(self._bench, mv)

    def lid(self, at: float, level: Pin) -> None:
        self._lib.bench_lid(self._bench, _cycles(at), level)

    def supply(self, at: float, mv: int) -> None:
        self._lib.bench_supply(self._bench, _cycles(at), mv)

    def receive(self, data: bytes) -> None:
        """Bytes from the table, from now on."""
        now = self._lib.bench_now(self._bench)
        for byte in data:
            self._lib.bench_receive(self._bench, now, byte)

    def sent(self) -> list[Byte]:
        """What the head has sent since the last call."""
        bytes_ = (_Byte * BYTES_AT_ONCE)()
        taken: list[Byte] = []
        while count := self._lib.bench_sent(self._bench, bytes_, BYTES_AT_ONCE):
            taken += [Byte(each.at / CYCLES_PER_US, each.byte) for each in bytes_[:count]]
        return taken

    def fault(self, way: Way, fault: LineFault) -> None:
        """To the next byte that way."""
        self._lib.bench_fault(self._bench, way, fault)

    def errors(self, way: Way, per_million: int) -> None:
        self._lib.bench_errors(self._bench, way, per_million)

    def seed(self, seed: int) -> None:
        self._lib.bench_seed(self._bench, seed)

    def reset(self, cause: Cause, at: float = 0, hold: float = 65_000) -> None:
        """The chip stands still for `hold` us: the start-up time that its fuses set."""
        self._lib.bench_reset(self._bench, _cycles(at), cause, _cycles(hold))

    def patch(self, address: int, word: int) -> None:
        self._lib.bench_patch(self._bench, address, word)

    def word(self, address: int) -> int:
        """Of flash."""
        return int(self._lib.bench_word(self._bench, address))

    def peek(self, address: int) -> int:
        return int(self._lib.bench_peek(self._bench, address))

    def poke(self, address: int, byte: int) -> None:
        self._lib.bench_poke(self._bench, address, byte)

    @property
    def eeprom(self) -> ctypes.Array[ctypes.c_uint8]:
        """Its bytes, to be read and changed."""
        size = ctypes.c_size_t()
        first = self._lib.bench_eeprom(self._bench, ctypes.byref(size))
        return ctypes.cast(first, ctypes.POINTER(ctypes.c_uint8 * size.value)).contents

    @property
    def emitters(self) -> bool:
        return bool(self._lib.bench_emitters(self._bench))

    @property
    def resets(self) -> int:
        """By the watchdog."""
        return int(self._lib.bench_resets(self._bench))

    @property
    def overruns(self) -> int:
        return int(self._lib.bench_overruns(self._bench))

    @property
    def slept(self) -> float:
        """How many us of all that passed."""
        return float(self._lib.bench_slept(self._bench)) / CYCLES_PER_US

    @property
    def stack(self) -> int:
        """The most bytes since power came."""
        return int(self._lib.bench_stack(self._bench))

    @property
    def crashed(self) -> bool:
        return bool(self._lib.bench_crashed(self._bench))


def _cycles(us: float) -> int:
    return max(0, round(us * CYCLES_PER_US))
