"""A whole `tabled` whose lamps and panel write one line a change to a file: a tracer sees their order from outside.

`CHANGES=FILE python -m tests.written_changes --config FILE`. With MUTANT it is the same program with its order turned
round: `early` shows before the disk has it, `unsynced` never asks the disk.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpiozero.pins.mock import MockFactory, MockPin

from controller import daemon, wiring
from controller.adapters.edges_gpio import INVERTED, EdgesGpio
from controller.adapters.journal_sqlite import JournalSqlite
from controller.config.models import Display
from controller.link.movements import Line
from controller.ports import Sealed
from controller.sdnotify import Notifier
from tests.fake_panel import FakeBus, FakeI2c, FakePanel
from tests.gpio_request import Bank, Chips

CHIP = "ssd1309"


class Pin(MockPin):  # type: ignore[misc] # gpiozero has no types
    """`lamp 26 1`: a pin that is written."""

    def _set_state(self, value: bool) -> None:
        self.factory.tell(f"lamp {self._number} {int(value)}")
        super()._set_state(value)


class Pins(MockFactory):  # type: ignore[misc] # gpiozero has no types
    def __init__(self, ground: "Ground") -> None:
        super().__init__(pin_class=Pin)
        self.tell = ground.tell


class Bus(FakeBus):
    """`panel 33`: a transfer that begins, and its bytes."""

    def __init__(self, ground: "Ground") -> None:
        super().__init__(FakePanel(CHIP))
        self._tell = ground.tell

    def _transfer(self, address: int, data: bytes) -> None:
        self._tell(f"panel {len(data)}")
        super()._transfer(address, data)


class Ground(wiring.Ground):
    """Sensors of a shoe from which no card comes; pins and panel tell what they do in the file `changes`."""

    def __init__(self, changes: Path) -> None:
        self._fd = os.open(changes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.bus = Bus(self)
        self.bank = Bank()
        self._chips = Chips(gpiochip0=self.bank)

    def tell(self, line: str) -> None:
        os.write(self._fd, line.encode() + b"\n")

    def pins(self, name: str) -> Pins:
        return Pins(self)

    def sensors(self, lines: Mapping[Line, int]) -> EdgesGpio:
        opens: Any = self._chips.open
        for line, offset in lines.items():
            self.bank.volts[offset] = line in INVERTED
        return EdgesGpio(lines=lines, open_chip=opens, paths=self._chips.paths, now=self.now)

    def panel(self, display: Display, pins: object) -> FakeI2c:
        return FakeI2c(self.bus)


class Early(JournalSqlite):
    """Says that it is durable while the disk is at work."""

    async def commit(self, rows: Sequence[Sealed]) -> None:
        self.running = asyncio.create_task(super().commit(rows))


class Unsynced(JournalSqlite):
    """Never asks the disk whether it has it."""

    def open(self) -> None:
        super().open()
        self._writer.execute("PRAGMA synchronous=OFF")


MUTANTS: dict[str, type[JournalSqlite]] = {"early": Early, "unsynced": Unsynced}


def main() -> None:
    assert sys.argv[1] == "--config", sys.argv
    table, control = wiring.build(Path(sys.argv[2]), Ground(Path(os.environ["CHANGES"])))
    if mutant := os.environ.get("MUTANT"):
        table.journal.__class__ = MUTANTS[mutant]
    asyncio.run(daemon.serve(table, control, Notifier()))


if __name__ == "__main__":
    main()
