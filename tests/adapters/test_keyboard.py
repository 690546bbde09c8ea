"""The keyboard as the dealer: keys do what they should, one at a time, and the terminal is as before."""

import asyncio
import contextlib
import fcntl
import os
import termios
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import pytest

from controller.adapters.keyboard import WAITING_MAX, Keyboard
from tests.broker import until


class Pty(NamedTuple):
    """`master` is what a person types into, `slave` the program's terminal."""

    master: int
    slave: int

    def mode(self) -> list[Any]:
        return termios.tcgetattr(self.slave)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())


@pytest.fixture
def pty() -> Iterator[Pty]:
    ends = Pty(*os.openpty())
    yield ends
    for fd in ends:
        with contextlib.suppress(OSError):  # a test has closed it
            os.close(fd)


class Dealer:
    """Keeps what was done. While `busy` is not set, an act takes its time."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.free = asyncio.Event()
        self.free.set()
        self.ended = False

    def act(self, name: str) -> Callable[[], Awaitable[None]]:
        async def do() -> None:
            self.done.append(name)
            await self.free.wait()

        return do

    def keyboard(self, pty: Pty) -> Keyboard:
        names = {" ": "card", "\n": "confirm", "s": "start"}
        keyboard = Keyboard(pty.slave, {key: self.act(name) for key, name in names.items()}, ended=self._end)
        self.waiting = keyboard._waiting
        return keyboard

    def _end(self) -> None:
        self.ended = True


async def _nothing(event: object) -> None:
    raise AssertionError("a keyboard submits nothing itself")


def play(pty: Pty, story: Callable[[Dealer], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        dealer = Dealer()
        keyboard = dealer.keyboard(pty)
        with keyboard:
            task = asyncio.create_task(keyboard.run(_nothing))  # type: ignore[arg-type]
            try:
                await asyncio.wait_for(story(dealer), 30)
            finally:
                task.cancel()
                await asyncio.wait({task})

    asyncio.run(run())


@pytest.mark.parametrize(
    ("typed", "done"),
    [
        ("s", ["start"]),
        ("s  \r", ["start", "card", "card", "confirm"]),
        ("s\n", ["start", "confirm"]),
        ("S", ["start"]),
        ("xyz1\tñs", ["start"]),
        ("\x1b[s ", ["card"]),
        ("\x1b[1;5s\x1bOs\x1bs ", ["card"]),
        (" \x1b", ["card"]),
    ],
)
def test_a_key_does_what_it_should(pty: Pty, typed: str, done: list[str]) -> None:
    async def story(dealer: Dealer) -> None:
        pty.type(typed)
        await until(lambda: dealer.done == done, f"{done}")

    play(pty, story)


def test_a_key_held_down_draws_no_cards_long_after(pty: Pty) -> None:
    async def story(dealer: Dealer) -> None:
        dealer.free.clear()
        pty.type(" ")
        await until(lambda: dealer.done, "the first card")
        pty.type(" " * 60)
        await until(dealer.waiting.full, "keys that wait")
        await until(lambda: fcntl.ioctl(pty.slave, termios.FIONREAD, bytes(4)) == bytes(4), "everything to be read")
        dealer.free.set()
        await until(lambda: len(dealer.done) >= 1 + WAITING_MAX, "those that wait")
        pty.type("s")
        await until(lambda: dealer.done[-1] == "start", "the key after them")
        assert len(dealer.done) == 2 + WAITING_MAX

    play(pty, story)


def test_nothing_is_echoed_and_no_line_is_waited_for_and_then_all_is_as_before(pty: Pty) -> None:
    before = pty.mode()

    async def story(dealer: Dealer) -> None:
        flags = pty.mode()[3]
        assert not flags & (termios.ECHO | termios.ICANON)
        assert flags & termios.ISIG, "the interrupt key interrupts"
        pty.type("s")
        await until(lambda: dealer.done, "the key")

    play(pty, story)
    assert pty.mode() == before


def test_whatever_happens_the_terminal_is_as_before(pty: Pty) -> None:
    before = pty.mode()

    async def story(dealer: Dealer) -> None:
        raise LookupError("anything")

    with pytest.raises(LookupError):
        play(pty, story)
    assert pty.mode() == before


def test_a_terminal_that_is_gone_is_told(pty: Pty) -> None:
    async def story(dealer: Dealer) -> None:
        os.close(pty.master)
        await until(lambda: dealer.ended, "the end")

    play(pty, story)
