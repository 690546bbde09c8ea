"""The simulated head as a process: the firmware behind a terminal, in real time, its wires moved through a socket."""

import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from controller.link.movements import Line
from firmware.sim.bench import build
from tests.firmware.chip import CHANNELS, MV, RAMP_US, elf
from tests.passages import Level

AHEAD_US = 50_000  # the chip goes on while we speak
START_SECONDS = 20.0  # generous: the machine may be busy


class ShoeSim:
    """A head with a full mouth, a free exit and a closed lid; `port` is its terminal. `options` are shoesim's own."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.port = directory / "head"
        self._socket = directory / "head.control"
        program = build("sim") / "shoesim"
        arguments = [str(elf()), "--pty", str(self.port), "--control", str(self._socket), *options]
        self.process = subprocess.Popen([str(program), *arguments], stdout=subprocess.DEVNULL)
        self._connection = self._connected()
        self._said([wire(line, on=line is Line.PRESENT) for line in Line])

    def _connected(self) -> socket.socket:
        end = time.monotonic() + START_SECONDS
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(self._socket))
            except OSError:
                connection.close()
                if self.process.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.01)
            else:
                connection.settimeout(START_SECONDS)
                return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self.process.terminate()
        self.process.wait(START_SECONDS)

    def command(self, *words: object) -> str:
        """Says a line and returns its answer; ValueError where it is an error."""
        return self._said([" ".join(str(word) for word in words)])[0]

    def _said(self, lines: list[str]) -> list[str]:
        """The answers to lines that are taken in one piece."""
        self._connection.sendall("".join(line + "\n" for line in lines).encode())
        answers = b""
        while answers.count(b"\n") < len(lines):
            answers += self._connection.recv(4096)
        wrong = [answer for answer in answers.decode().splitlines() if answer.startswith("error")]
        if wrong:
            raise ValueError(wrong[0])
        return answers.decode().splitlines()

    def stats(self) -> dict[str, int]:
        words = (word.split("=") for word in self.command("stats").split())
        return {name: int(value) for name, value in words}

    def change(self, line: Line, *, on: bool) -> None:
        self.command(wire(line, on=on))

    def play(self, levels: Iterable[Level]) -> None:
        """The changes, from a little later on."""
        begin = self.stats()["now_us"] + AHEAD_US
        self._said([f"@{round(begin + at / 1_000)} {wire(line, on=level, ramp=RAMP_US)}" for at, line, level in levels])


def wire(line: Line, *, on: bool, ramp: int = 0) -> str:
    """The command that makes the line so."""
    if line is Line.LID:
        return f"lid {'high' if on else 'low'}"
    return f"level {CHANNELS.index(line)} {MV[line][on]} {ramp}"
