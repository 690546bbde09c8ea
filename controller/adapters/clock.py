"""The machine's clocks, and the alarm that core asks for (CLOCK_MONOTONIC for every interval; wall time is a label)."""

import asyncio
import ctypes
import logging
import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from controller.core.events import ClockStepped, Elapsed
from controller.ports import Submit

log = logging.getLogger(__name__)

SYNC_LOOK_NS = 5_000_000_000
STEP_NS = 500_000_000  # no daemon slews so much between two looks: half of the second that video allows (I38)
UNSYNCHRONISED_US = 16_000_000  # the kernel's NTP_PHASE_LIMIT: what `maxerror` grows to when nobody sets the clock


class _Timex(ctypes.Structure):
    """The head of `struct timex` (adjtimex(2)), and room for its rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("rest", ctypes.c_byte * 512),
    )


@cache
def _adjtimex() -> Callable[..., int]:
    call: Callable[..., int] = ctypes.CDLL(None, use_errno=True).adjtimex
    return call


def kernel_is_synchronised() -> bool:
    """Whether chrony, timesyncd or another daemon keeps the clock, as timedatectl tells it; OSError: not allowed.

    The kernel's bound of the error tells, not the flag STA_UNSYNC, which only says who may write the clock chip.
    """
    told = _Timex()
    if _adjtimex()(ctypes.byref(told)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"adjtimex: {os.strerror(number)}: the unit must allow this call")
    return bool(told.maxerror < UNSYNCHRONISED_US)


class SystemClock:
    """`ports.Clock` over the machine's own clocks, and the Source of `Elapsed` and `ClockStepped`."""

    def __init__(
        self,
        now: Callable[[], int] = time.monotonic_ns,
        utc: Callable[[], int] = time.time_ns,
        synchronised: Callable[[], bool] = kernel_is_synchronised,
    ) -> None:
        """`now` is CLOCK_MONOTONIC and `utc` CLOCK_REALTIME, both ns; `synchronised` is asked every few seconds."""
        self.now = now
        self._utc, self._ask = utc, synchronised
        self._looked = -SYNC_LOOK_NS
        self._synchronised = self._refused = False
        self._floor: int | None = None  # as `_offset`
        self._offset: int | None = None  # UTC less monotonic time, as it was at the last look
        self._at: int | None = None
        self._stepped: tuple[int, int] | None = None  # the last step, UTC ns before and after
        self._submit: Submit | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def not_before(self, utc: int) -> None:
        """No time is told before `utc`, UTC ns, until the clock is synchronised.

        A board without a clock chip wakes up in the past; and one that once woke up in the future comes back from it.
        """
        self._floor = utc - self.now()

    def wall(self, at: int) -> tuple[int, bool]:
        now = self.now()
        if now - self._looked >= SYNC_LOOK_NS:
            self._looked, self._synchronised = now, self._is_synchronised()
        offset = self._utc() - now
        if self._floor is not None and offset < self._floor and not self._synchronised:
            return at + self._floor, False
        return at + offset, self._synchronised

    def _is_synchronised(self) -> bool:
        try:
            return self._ask()
        except OSError as error:  # the table deals on, and its messages say that nobody vouches for their time
            if not self._refused:
                log.warning("whether the clock is synchronised cannot be told: %s", error)
            self._refused = True
            return False

    def look(self) -> None:
        """Tells of a wall clock that somebody has set since the last look (I38)."""
        now = self.now()
        told, synchronised = self.wall(now)
        before, self._offset = self._offset, told - now
        if self._submit is not None and before is not None and abs(self._offset - before) >= STEP_NS:
            self._stepped = now + before, told
            self._submit(ClockStepped(now, now + before, told, synchronised))

    def diag(self) -> dict[str, Any]:
        """For people: `wall` (UTC ns) at `monotonic` (ns), whether somebody sets the clock, and its last `step`.

        `held`: the clock is behind the journal's last record, and time is counted on from there.
        """
        now = self.now()
        wall, synchronised = self.wall(now)
        held = not synchronised and self._floor is not None and self._utc() - now < self._floor
        return {"wall": wall, "monotonic": now, "synchronised": synchronised, "held": held, "step": self._stepped}

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
