"""The machine's clocks, and the alarm that core asks for (CLOCK_MONOTONIC for every interval; wall time is a label)."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from controller.core.events import Elapsed
from controller.ports import Submit

SYNC_MARK = Path("/run/systemd/timesync/synchronized")  # systemd-timesyncd makes it at the first synchronisation
SYNC_LOOK_NS = 5_000_000_000


class SystemClock:
    """`ports.Clock` over the machine's own clocks, and the Source of `Elapsed`."""

    def __init__(self, mark: Path = SYNC_MARK, now: Callable[[], int] = time.monotonic_ns) -> None:
        """`mark` is the file whose existence says that the wall clock is synchronised; `now` is CLOCK_MONOTONIC, ns."""
        self.now = now
        self._mark = mark
        self._looked = -SYNC_LOOK_NS
        self._synchronised = False
        self._at: int | None = None
        self._submit: Submit | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def wall(self, at: int) -> tuple[int, bool]:
        now = self.now()
        if now - self._looked >= SYNC_LOOK_NS:
            self._looked, self._synchronised = now, self._mark.exists()
        return time.time_ns() - (now - at), self._synchronised

    def wake_at(self, at: int | None) -> None:
        if at != self._at:
            self._at = at
            self._arm()

    async def run(self, submit: Submit) -> None:
        self._submit = submit
        self._arm()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._submit = None
            self._arm()

    def _arm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._at is not None and self._submit is not None:
            delay = max(0, self._at - self.now()) / 1e9
            self._alarm = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        """The loop's own clock is coarser than the deadline: an alarm that comes too soon is set again."""
        self._alarm = None
        now = self.now()
        if self._submit is None or self._at is None:
            return
        if now < self._at:
            self._arm()
            return
        self._at = None  # the batch that the event comes to sets the next one
        self._submit(Elapsed(now))
