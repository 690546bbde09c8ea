"""An event loop whose time passes at once: when all wait, its clock goes on to the next timer.

`run(main)` gives a coroutine its own such loop; `now` is its clock in ns; `wakes` counts how often it waited. While
`held` says so, threads and the kernel are at work in no time: the clock stands still until they are done.
"""

import asyncio
import math
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

START_NS = 1_000_000_000_000
HELD_S = 0.0005  # how soon it is looked whether those at work are done
IDLE_S = 30.0  # how long real time may pass while nothing is due: reached only by a test that waits for nothing


class _Selector(selectors.DefaultSelector):
    """Real descriptors, virtual timeouts."""

    def __init__(self) -> None:
        super().__init__()
        self.ns = START_NS
        self.wakes = 0
        self.held: Callable[[], bool] = lambda: False
        self._held_since: float | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.held():
            self._held_since = self._held_since or time.monotonic()
            assert time.monotonic() - self._held_since < IDLE_S, "what the clock waits for does not happen"
            return super().select(HELD_S)
        self._held_since = None
        self.wakes += 1
        if timeout is None:
            ready = super().select(IDLE_S)
            assert ready, "the loop waits for nothing"
            return ready
        self.ns += max(1, math.ceil(timeout * 1e9))
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = _Selector()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.ns / 1e9

    def now(self) -> int:
        return self.clock.ns

    @property
    def wakes(self) -> int:
        return self.clock.wakes

    def stall(self, ns: int) -> None:
        """Time passes while the loop does nothing: something in it takes so long."""
        self.clock.ns += ns


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Runs `main(loop)`; what escaped from a callback fails it."""
    escaped: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        loop.set_exception_handler(lambda _, context: escaped.append(context))
        result = runner.run(main(loop))
    assert escaped == []
    return result
