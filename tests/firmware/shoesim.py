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
        for line in (Line.INNER, Line.OUTER, Line.CUT, Line.PRESENT):
            self.change(0, line, on=line is Line.PRESENT)

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

    def command(self, *words: object, after_us: float = 0) -> str:
        """Says a line and returns its answer; ValueError where it is an error."""
        said = " ".join(str(word) for word in words)
        self._connection.sendall(f"+{max(0, round(after_us))} {said}\n".encode())
        answer = b""
        while not answer.endswith(b"\n"):
            answer += self._connection.recv(4096)
        if answer.startswith(b"error"):
            raise ValueError(answer.decode())
        return answer.decode().strip()

    def stats(self) -> dict[str, int]:
        words = (word.split("=") for word in self.command("stats").split())
        return {name: int(value) for name, value in words}

    def change(self, after_us: float, line: Line, *, on: bool, ramp: float = 0) -> None:
        if line is Line.LID:
            self.command("lid", "high" if on else "low", after_us=after_us)
        else:
            self.command("level", CHANNELS.index(line), MV[line][on], round(ramp), after_us=after_us)

    def play(self, levels: Iterable[Level], after_us: float = 20_000) -> None:
        """Puts the changes in line, from then on; each command is taken a little later than the one before it."""
        begin = self.stats()["now_us"] + after_us
        for at, line, level in levels:
            now = self.stats()["now_us"]
            self.change(begin + at / 1_000 - RAMP_US / 2 - now, line, on=level, ramp=RAMP_US)
