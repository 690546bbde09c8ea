"""How long a device that is not there is left alone before it is tried again."""

import asyncio
from collections.abc import Callable


class Retry:
    """`retry_s`: the first and the longest rest between two attempts, of which the first begins now, by `now` (ns)."""

    def __init__(self, retry_s: tuple[float, float], now: Callable[[], int]) -> None:
        self._first, self._longest = retry_s
        self._now = now
        self._rest = self._first
        self._began = now()

    async def rest(self) -> None:
        """After an attempt that has ended; then the next one begins.

        Each rest is twice the last, but for an attempt that held: one that comes and goes is not opened more often than
        one that is not there.
        """
        if self._now() - self._began > self._longest * 1e9:
            self._rest = self._first
        await asyncio.sleep(self._rest)
        self._rest = min(2 * self._rest, self._longest)
        self._began = self._now()
