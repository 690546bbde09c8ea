"""`tabled --demo` and `--training`: a whole table in this terminal, without hardware and without a broker.

The loop, the journal and the publishers are the real ones; the ends are simulated (`wiring.build_demo`). It parses
nothing, and leaves behind what the table wrote: the feed is there to be read and verified.
"""

import argparse
import asyncio
import contextlib
import logging
import math
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import feed, wiring
from .config import ConfigError
from .core.events import EndShoeAsked, Stopped
from .core.facts import RoundCompleted, ShoeClosed
from .loop import Durable, Loop
from .panel import LanguageError

log = logging.getLogger(__name__)

DONE, FAILED, USAGE = 0, 1, 2
PATIENCE_S = 1.0  # at the end, with a publisher that makes no progress
SPEED_MAX = 1000.0  # above it the machine's own delays are long beside a dealer's pause

TEXTS: dict[str, dict[str, str]] = {
    "es": {
        "demo": "DEMOSTRACIÓN, no es una mesa en vivo",
        "training": "PRÁCTICA, no es una mesa en vivo",
        "seed": "semilla {seed}",
        "keys": "espacio: carta · Entrar: CONFIRMAR (h: 2 s) · s: INICIO · c: LLAMAR · q: fin",
        "no_keys": "Ctrl-C: fin",
        "played": "Rondas: {rounds}. El feed, un mensaje por línea: {feed}",
        "verify": "Cadena y firmas: {tablectl} journal verify {feed}",
        "behind": "al archivo le faltan {missing} mensajes de {head}: mire el disco",
    },
    "en": {
        "demo": "DEMONSTRATION, not a live table",
        "training": "TRAINING, not a live table",
        "seed": "seed {seed}",
        "keys": "space: card · Enter: CONFIRM (h: 2 s) · s: START · c: CALL · q: quit",
        "no_keys": "Ctrl-C: quit",
        "played": "Rounds: {rounds}. The feed, a message a line: {feed}",
        "verify": "Chain and signatures: {tablectl} journal verify {feed}",
        "behind": "{missing} messages of {head} are not in the file: look at the disk",
    },
}


def main(options: argparse.Namespace) -> int:
    """Exit codes: 0 played to the end or stopped by a person, 1 feed or picture could not be written, 2 usage."""
    if not (math.isfinite(options.speed) and 0.1 <= options.speed <= SPEED_MAX):
        log.error("--speed %s: say how many times faster than a dealer, from 0.1 to %g", options.speed, SPEED_MAX)
        return USAGE
    if options.rounds is not None and options.rounds < 1:
        log.error("--rounds %s: say after how many rounds to stop, 1 or more", options.rounds)
        return USAGE
    mode: feed.Mode = "demo" if options.demo else "training"
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    texts, stop = TEXTS[options.lang], asyncio.Event()
    parts = (texts[mode], options.profile, f"×{options.speed:g}", texts["seed"].format(seed=seed))
    folder = Path(tempfile.mkdtemp(prefix=f"baccarat-{mode}-"))
    try:
        demo = wiring.build_demo(
            folder,
            mode=mode,
            language=options.lang,
            speed=options.speed,
            seed=seed,
            profile=options.profile,
            broker=options.broker,
            title=" · ".join(parts),
            keyboard=options.keys,
            keys_say=texts["keys" if options.keys else "no_keys"],
            stop=stop.set,
        )
    except (ConfigError, LanguageError, wiring.WiringError) as error:
        folder.rmdir()
        log.error("%s", error)  # noqa: TRY400 - the text says what to do; a traceback would hide it
        return USAGE
    return asyncio.run(_Play(demo, options.rounds, stop).play(texts))


class _Play:
    """One evening: until so many rounds are completed (None: until the shoe is closed), or a person stops it."""

    def __init__(self, demo: wiring.Demo, rounds: int | None, stop: asyncio.Event) -> None:
        self._demo, self._rounds, self._stop = demo, rounds, stop
        self._completed = 0
        self._shoe_done = False
        self._held = contextlib.ExitStack()  # the terminal, while it is ours

    async def play(self, texts: dict[str, str]) -> int:
        demo, journal = self._demo, self._demo.table.journal
        loop = demo.table.recover()
        demo.table.watch(self._watch)
        try:
            with _logged_to(demo, demo.feed.with_name("tabled.log")), self._held:
                self._take_terminal()
                self._on_signals()
                seen = await self._run(loop)
        finally:
            journal.close()
        missing = journal.head - journal.cursor("file")
        lines = [
            texts["played"].format(rounds=self._completed, feed=demo.feed),
            texts["verify"].format(tablectl=_tablectl(), feed=demo.feed),
        ]
        if missing:
            lines = [texts["behind"].format(missing=missing, head=journal.head)]
        with contextlib.suppress(OSError):  # who does not look any more is not told
            demo.screen.farewell(lines)
        return DONE if seen and not missing else FAILED

    def _watch(self, durable: Durable) -> None:
        self._demo.screen.hear(durable.facts)
        self._completed += sum(isinstance(fact, RoundCompleted) for fact in durable.facts)
        if self._rounds is None:
            self._shoe_done = self._shoe_done or any(isinstance(fact, ShoeClosed) for fact in durable.facts)
        if self._shoe_done or self._completed == self._rounds:
            self._stop.set()

    async def _run(self, loop: Loop) -> bool:
        """Whether the picture was seen to the end."""
        demo, table = self._demo, self._demo.table
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(loop.run()), *[group.create_task(s.run(loop.submit)) for s in table.sources]]
            await asyncio.gather(*table.begin())
            submit = demo.clock.stamping(loop.submit)
            publishers = [group.create_task(p.run(table.journal, submit)) for p in table.publishers]
            screen = group.create_task(demo.screen.run())
            people = [group.create_task(person.run(loop.submit)) for person in demo.people]
            stop = group.create_task(self._stop.wait())
            await asyncio.wait({screen, stop}, return_when=asyncio.FIRST_COMPLETED)
            seen = not screen.done()
            await _end(people)
            await self._close(loop)
            await _end(publishers)
            await _end([*parts, screen, stop])
        return seen

    async def _close(self, loop: Loop) -> None:
        """The table's last words, and time for what is not published yet."""
        table = self._demo.table
        if self._shoe_done:
            await loop.submit(EndShoeAsked(table.clock.now(), "day_end", by=wiring.DEMO_STAFF))
        await loop.submit(Stopped(table.clock.now(), table.speaker.mode))
        left, until = math.inf, 0.0
        while backlog := sum(wiring.backlog(table.journal, table.publishers).values()):
            now = asyncio.get_running_loop().time()
            if backlog < left:
                left, until = backlog, now + PATIENCE_S
            if now > until:
                return
            await asyncio.sleep(0.01)

    # --- the terminal -------------------------------------------------------------------------------------

    def _take_terminal(self) -> None:
        self._held.enter_context(self._demo.screen)
        if self._demo.keyboard is not None:
            self._held.enter_context(self._demo.keyboard)

    def _on_signals(self) -> None:
        loop, stops = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        acts = dict.fromkeys(stops, self._stop.set)
        acts |= {signal.SIGWINCH: self._demo.screen.redraw, signal.SIGTSTP: self._suspend}
        for number, act in acts.items():
            loop.add_signal_handler(number, act)

    def _suspend(self) -> None:
        """The shell gets its terminal as it was, and we take it back when it continues us."""
        self._held.close()
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        self._take_terminal()


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _tablectl() -> str:
    """The program as it may be typed here."""
    own = Path(sys.executable).with_name("tablectl")
    if not own.exists() or shutil.which("tablectl") == str(own):
        return "tablectl"
    here = Path.cwd()
    return str(own.relative_to(here)) if own.is_relative_to(here) else str(own)


# --- the log ----------------------------------------------------------------------------------------------------


class _Noting(logging.Handler):
    """Warnings become notes on the screen."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        self._note(record.getMessage())


@contextlib.contextmanager
def _logged_to(demo: wiring.Demo, path: Path) -> Iterator[None]:
    """While the picture is drawn the log goes to a file, and what matters of it is noted under the picture."""
    if not demo.screen.draws:
        yield
        return
    root = logging.getLogger()
    before, to_file = root.handlers[:], logging.FileHandler(path, encoding="utf-8")
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root.handlers[:] = [to_file, _Noting(demo.screen.note)]
    try:
        yield
    finally:
        root.handlers[:] = before
        to_file.close()
