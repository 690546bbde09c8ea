"""A card scanner on a serial line: `Tty` opens it, `Reading` makes lines and events of its bytes."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from controller.core.codes import Codes
from controller.ports import Submit
from controller.reading import Piece, Reading, never
from controller.tty import TROUBLE, Tty
from controller.tty import advise as advise_of

advise = partial(advise_of, check="the scanner's plug and power", key="scanner")


class SerialDevice(Tty):
    """The line as `Reading` takes it. Each method raises any of TROUBLE when it is lost."""

    def begin(self) -> bool:
        """A line knows nothing of what is under way: the pause before tells."""
        return False

    def take(self, now: int) -> tuple[Piece, ...]:
        data = self.read()  # where another program took bytes, what is left of the line will not pass for a code
        return ((now, data),) if data else ()


class ScannerSerial:
    """Source: the scanner on `port` (best a path under /dev/serial/by-id) at `baud`; else as `Reading` has it."""

    def __init__(
        self,
        *,
        port: str,
        baud: int,
        codes: Codes,
        repeat_ms: int = 0,
        idle_ms: int = 200,
        retry_s: tuple[float, float] = (0.2, 2.0),
        in_clear: Callable[[], bool] = never,
        now: Callable[[], int] = time.monotonic_ns,
        hand: bool = False,
    ) -> None:
        self._reading = Reading(
            port=port,
            connect=lambda: SerialDevice(port, baud),
            trouble=TROUBLE,
            advice=advise,
            codes=codes,
            repeat_ms=repeat_ms,
            idle_ms=idle_ms,
            retry_s=retry_s,
            in_clear=in_clear,
            now=now,
            hand=hand,
        )
        self.lines, self.scans = self._reading.lines, self._reading.scans
        self.opened, self.tried = self._reading.opened, self._reading.tried

    def diag(self) -> dict[str, Any]:
        return self._reading.diag()

    async def run(self, submit: Submit) -> None:
        await self._reading.run(submit)
