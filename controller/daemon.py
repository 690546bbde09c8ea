"""`tabled`: one table, from its configuration to its last word. Signals, sd_notify, the watchdog, logging.

Boot order (DESIGN 4): configuration, journal, recovery, self-test, UP, and only then the network.
"""

import argparse
import asyncio
import gc
import io
import logging
import os
import signal
import sqlite3
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from . import __version__, wiring
from .config import ConfigError
from .control.server import ControlError, ControlServer
from .core.events import Elapsed, Stopped
from .keys import KeyFileError
from .loop import Loop
from .ports import JournalError
from .sdnotify import Notifier, watchdog_s

log = logging.getLogger(__name__)

LOOK_S = 5.0  # how often the disk and the loop's progress are looked at, where systemd does not ask sooner
SELF_TEST_S = 5.0
GOODBYE_S = 5.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)
EXIT_FAILED = 1
EXIT_CONFIG = 78  # EX_CONFIG of sysexits.h: systemd must not restart what only a technician can mend


def main(arguments: list[str] | None = None) -> int:
    """Exit codes: 0 stopped as asked, 1 it or its disk failed (start it again), 2 usage, 78 a technician must act."""
    options = _parser().parse_args(arguments)
    _log_to_stderr()
    if not __debug__:
        log.error("assertions are off: start without -O, for they guard the game")
        return EXIT_CONFIG
    if options.demo or options.training:
        from . import demo  # noqa: PLC0415 - a live table has no use for it, and starts without it

        return demo.main(options)
    for number in SIGNALS:  # until `serve` has its own: nothing is begun that needs a goodbye
        signal.signal(number, lambda *_: os._exit(0))  # at once: an exception could be swallowed by a library
    try:
        table, control = wiring.build(options.config)
        asyncio.run(serve(table, control, Notifier()))
    except (ConfigError, KeyFileError, wiring.WiringError, JournalError, ControlError) as error:
        log.error("%s", error)  # noqa: TRY400 - the text says what to do; a traceback would hide it
        return EXIT_FAILED if _may_pass(error) else EXIT_CONFIG
    except Exception:
        log.critical("the table failed", exc_info=True)  # here, so that each line has its level
        return EXIT_FAILED
    return 0


def _may_pass(error: Exception) -> bool:
    """Whether another start may find the journal well: a full disk, a lock, an I/O error. Damage stays damage."""
    return isinstance(error, JournalError) and isinstance(error.__cause__, OSError | sqlite3.OperationalError)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tabled", description="The baccarat table's controller.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--config", type=Path, default=Path("/etc/baccarat-table/table.yaml"), help="the configuration")
    parser.add_argument("--demo", action="store_true", help="a whole table on this machine: no hardware, no broker")
    parser.add_argument("--training", action="store_true", help="likewise, for a dealer's lessons")
    demo = parser.add_argument_group("with --demo or --training")
    demo.add_argument("--lang", choices=("es", "en"), default="es", help="the panel's language (es)")
    demo.add_argument("--speed", type=float, default=4.0, help="how many times faster than a dealer (4)")
    demo.add_argument("--seed", type=int, help="of the shuffle and the dealer's pace; told at the start")
    demo.add_argument("--rounds", type=int, help="stop after so many rounds (a whole shoe)")
    demo.add_argument("--profile", default="seeds-commission", help="the house's rules (seeds-commission)")
    demo.add_argument("--keys", action="store_true", help="the keyboard is the dealer")
    demo.add_argument("--broker", metavar="HOST[:PORT]", help="publish to this MQTT broker as well")
    return parser


def _log_to_stderr() -> None:
    """Under systemd each line carries its level, <N>, as sd-daemon(3) has it; UTF-8 whatever the locale."""
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")
    handler = logging.StreamHandler()
    handler.setFormatter(
        _Levels() if "JOURNAL_STREAM" in os.environ else logging.Formatter("%(levelname)s %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])


_PRIORITY = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}


class _Levels(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        mark = f"<{_PRIORITY.get(record.levelno, 6)}>"
        return "\n".join(mark + line for line in super().format(record).splitlines())


# --- a table's life -----------------------------------------------------------------------------------------


async def serve(table: wiring.Table, control: ControlServer, notifier: Notifier) -> None:
    """Brings the table up, keeps it until SIGTERM or SIGINT, and lets it say goodbye, at whatever point it is."""
    tasks = _Tasks()
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, tasks.stop)
    try:
        tasks.start("table", live(table, control, notifier, tasks))
        await tasks.over
        notifier.tell("STOPPING=1")
        await _say_goodbye(table)
    finally:
        await tasks.end()
        table.journal.close()


async def live(table: wiring.Table, control: ControlServer, notifier: Notifier, tasks: "_Tasks") -> None:
    """The boot order of DESIGN 4, then the watch. Between recovery and `begin` nothing else has its turn."""
    loop = table.recover()
    tasks.start("loop", loop.run())
    for source in table.sources:
        tasks.start(type(source).__name__, source.run(loop.submit))
    await asyncio.gather(*table.begin())
    await self_test(table)
    await loop.submit(Elapsed(table.clock.now()))  # behind what the devices have said: it is durable, and shown
    control.open()
    tasks.start("control", control.run())
    gc.freeze()  # what start-up made stays: no later collection need walk it while a card waits
    notifier.tell("READY=1", f"STATUS=table {table.speaker.table} is up")
    log.info("table %s is up, generation %s", table.speaker.table, table.journal.generation)
    for publisher in table.publishers:
        tasks.start(f"publisher {publisher.name}", publisher.run(table.journal, loop.submit))
    await watch(table, loop, notifier)


class _Tasks:
    """The tasks of a table. One that ends by itself is a failure of the program, whatever it returned.

    `over` ends with the first failure as its error, or well when the table is to stop.
    """

    def __init__(self) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def stop(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if not self.over.done():
            self.over.set_exception(error or RuntimeError(f"{task.get_name()} ended by itself"))
        elif error is not None:
            log.error("%s failed as the table ended", task.get_name(), exc_info=error)

    async def end(self) -> None:
        """The publishers first: they say goodbye; the loop last, for it answers them."""
        self.stop()
        for task in reversed(self._tasks):
            task.cancel()
            await asyncio.wait({task}, timeout=GOODBYE_S)


async def self_test(table: wiring.Table) -> None:
    """What must be known before the table says that it is up. A device that is absent is a fault, not a stop."""
    try:
        async with asyncio.timeout(SELF_TEST_S):
            for source in table.sources:
                if hasattr(source, "tried"):
                    await source.tried.wait()
    except TimeoutError:
        raise RuntimeError(f"not within {SELF_TEST_S:g} s: a device's first answer, good or bad") from None


async def watch(table: wiring.Table, loop: Loop, notifier: Notifier) -> None:
    """Feeds systemd's watchdog while the loop moves: a hang ends no task. Looks at disk and clock as often."""
    every = min(watchdog_s() or LOOK_S, LOOK_S)
    before = None
    while True:
        if not table.journal.alive:
            raise RuntimeError("the journal's writer has ended")
        now = loop.pulse if loop.busy else None
        if now is not None and now == before:
            log.error("the loop makes no progress: its disk does not answer")
        else:
            notifier.tell("WATCHDOG=1")
            loop.check_disk()
            table.clock.look()
        before = now
        await asyncio.sleep(every)


async def _say_goodbye(table: wiring.Table) -> None:
    """The last fact of a run: the next one knows by it that this one was stopped, and not cut off."""
    if table.loop is None:
        return
    try:
        async with asyncio.timeout(GOODBYE_S):
            await table.loop.submit(Stopped(table.clock.now(), "signal"))
    except TimeoutError:
        log.error("the disk did not take the last word within %g s", GOODBYE_S)  # noqa: TRY400 - no fault of ours


if __name__ == "__main__":
    sys.exit(main())
