"""The keyboard as the dealer's buttons: each key does what `keys` says, nothing waits for Enter, nothing is echoed.

The terminal is as before when the block ends, whatever ended it.
"""

import asyncio
import contextlib
import os
import re
import termios
import tty
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from controller.ports import Submit

WAITING_MAX = 16  # keys: a key that is held down must not draw cards long after it is let go
SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|.)?")  # an arrow, a function key, Alt: their letters are not ours


class Keyboard:
    """A Source on the terminal `fd`. Its interrupt key still interrupts; what has no meaning is passed over."""

    def __init__(
        self, fd: int, keys: Mapping[str, Callable[[], Awaitable[None]]], *, ended: Callable[[], None]
    ) -> None:
        """`ended` hears that the terminal is gone."""
        self._fd, self._keys, self._ended = fd, keys, ended
        self._before: list[Any] | None = None
        self._waiting: asyncio.Queue[str] = asyncio.Queue(WAITING_MAX)

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            with contextlib.suppress(termios.error):  # a terminal that is gone has no mode to restore
                termios.tcsetattr(self._fd, termios.TCSAFLUSH, self._before)

    async def run(self, submit: Submit) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._fd, self._read)
        try:
            while True:
                await self._keys[await self._waiting.get()]()
        finally:
            loop.remove_reader(self._fd)

    def _read(self) -> None:
        try:
            typed = os.read(self._fd, 64)
        except OSError:
            typed = b""
        if not typed:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._ended()
        for key in SEQUENCE.sub("", typed.decode("ascii", "ignore")).lower():
            if key in self._keys and not self._waiting.full():
                self._waiting.put_nowait(key)
