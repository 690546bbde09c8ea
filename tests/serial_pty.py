"""A bad serial line between two pseudo-terminals: what one program writes the other reads, spoiled.

    line = PtyLine(tmp_path, Noise(rng, 1e-3), Noise(rng, 1e-3))
    table opens line.table_port, casino opens line.casino_port

Each port is a link to a pty, as a name under /dev/serial/by-id is: `unplug` closes its master, so that the program sees
the device go, and takes the name away; `plug` brings another pty under the same name (bug report 28).
"""

import asyncio
import contextlib
import os
import threading
import time
import tty
from collections.abc import Iterator
from pathlib import Path

from tests.serial_noise import Noise

HELD_MAX = 65_536  # bytes on their way: more are lost, as without flow control


class End:
    """One port: the master of a pty, and the name under which its slave is found."""

    def __init__(self, name: Path) -> None:
        self.name = name
        self.master = -1

    @property
    def plugged(self) -> bool:
        return self.master >= 0

    def plug(self) -> None:
        self.master, slave = os.openpty()
        tty.setraw(slave)
        os.set_blocking(self.master, False)
        self.name.symlink_to(os.ttyname(slave))
        os.close(slave)

    def unplug(self) -> None:
        self.name.unlink(missing_ok=True)  # before its number can be another terminal's
        if self.plugged:
            os.close(self.master)
        self.master = -1

    def read(self) -> bytes:
        """Nothing while no program has the port open: the kernel says EIO then."""
        try:
            return os.read(self.master, 65_536)
        except (BlockingIOError, OSError):
            return b""

    def write(self, data: bytes) -> bytes:
        """What did not fit."""
        with contextlib.suppress(BlockingIOError, OSError):
            return data[os.write(self.master, data) :]
        return data


class PtyLine:
    """`to_casino` and `to_table` spoil the bytes of one direction each.

    `carry` carries until cancelled; `carrying` does in a thread of its own, for tests that wait for programs.
    """

    def __init__(self, folder: Path, to_casino: Noise, to_table: Noise) -> None:
        self.noises = {"casino": to_casino, "table": to_table}
        self.ends = {"table": End(folder / "usb-table"), "casino": End(folder / "usb-casino")}
        self._held = {"table": b"", "casino": b""}  # for that end
        self.carried = self.lost = 0
        self._lock = threading.Lock()

    @property
    def table_port(self) -> str:
        return str(self.ends["table"].name)

    @property
    def casino_port(self) -> str:
        return str(self.ends["casino"].name)

    def plug(self, *ends: str) -> None:
        with self._lock:
            for end in ends:
                self.ends[end].plug()

    def unplug(self, *ends: str) -> None:
        with self._lock:
            for end in ends:
                self.ends[end].unplug()
                self._held[end] = b""

    def close(self) -> None:
        self.unplug(*[name for name, end in self.ends.items() if end.plugged])

    async def carry(self) -> None:
        while True:  # noqa: ASYNC110 - no event tells that a program has written to a pty
            await asyncio.sleep(0 if self._move_both() else 0.002)

    @contextlib.contextmanager
    def carrying(self) -> Iterator[None]:
        done = threading.Event()

        def carry() -> None:
            while not done.is_set():
                time.sleep(0 if self._move_both() else 0.002)

        thread = threading.Thread(target=carry, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _move_both(self) -> int:
        with self._lock:
            return self._move("table", "casino") + self._move("casino", "table")

    def _move(self, source: str, target: str) -> int:
        from_, to = self.ends[source], self.ends[target]
        data = from_.read() if from_.plugged else b""
        self.carried += len(data)
        held = self._held[target] + self.noises[target].spoil(data)
        if not to.plugged or len(held) > HELD_MAX:
            self.lost += len(held)
            held = b""
        self._held[target] = to.write(held) if held else b""
        return len(data) + len(held) - len(self._held[target])
