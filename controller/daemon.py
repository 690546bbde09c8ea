"""`tabled`: one table, from its configuration to its last word. Signals, sd_notify, the watchdog, logging.

Boot order (DESIGN 4): configuration, journal, recovery, self-test, UP, and only then the network.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from . import __version__, wiring
from .config import ConfigError
from .control.server import ControlError, ControlServer
from .core.events import Stopped
from .keys import KeyFileError
from .ports import JournalError
from .sdnotify import Notifier, watchdog_s

log = logging.getLogger(__name__)

LOOK_S = 5.0  # how often the disk is looked at, and every task where systemd does not ask
SELF_TEST_S = 5.0
GOODBYE_S = 5.0
EXIT_CONFIG = 78  # EX_CONFIG of sysexits.h: systemd must not restart what only a technician can mend


def main(arguments: list[str] | None = None) -> int:
    """Exit codes: 0 stopped as asked, 1 the program failed (restart it), 2 usage, 78 a technician must act first."""
    options = _parser().parse_args(arguments)
    _log_to_stderr()
    if not __debug__:
        log.error("assertions are off: start without -O, for they guard the game")
        return EXIT_CONFIG
    if options.demo or options.training:
        from . import demo  # noqa: PLC0415 - a live table has no use for it, and starts without it

        return demo.main(options)
    try:
        table, control = wiring.build(options.config)
        asyncio.run(serve(table, control, Notifier()))
    except (ConfigError, KeyFileError, wiring.WiringError, JournalError, ControlError) as error:
        log.error("%s", error)  # noqa: TRY400 - the text says what to do; a traceback would hide it
        return EXIT_CONFIG
    return 0


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
    if isinstance(sys.stderr, object) and hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")
    handler = logging.StreamHandler()
    handler.setFormatter(
        _Levels() if "JOURNAL_STREAM" in os.environ else logging.Formatter("%(levelname)s %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _Levels(logging.Formatter):
    _PRIORITY = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}

    def format(self, record: logging.LogRecord) -> str:
        mark = f"<{self._PRIORITY.get(record.levelno, 6)}>"
        return "\n".join(mark + line for line in super().format(record).splitlines())


# --- a table's life -----------------------------------------------------------------------------------------


async def serve(table: wiring.Table, control: ControlServer, notifier: Notifier) -> None:
    """Brings the table up, keeps it until SIGTERM or SIGINT, and lets it say goodbye."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    loop = table.recover()
    try:
        tasks = _Tasks()
        tasks.start("loop", loop.run())
        for source in table.sources:
            tasks.start(type(source).__name__, source.run(loop.submit))
        begun = table.begin()
        await tasks.unless_one_ends(asyncio.gather(*begun))
        await tasks.unless_one_ends(self_test(table))
        loop.watchers.extend(wiring.wakers(table))
        control.open()
        tasks.start("control", control.run())
        notifier.tell("READY=1", f"STATUS=table {table.speaker.table} is up")
        log.info("table %s is up, generation %s", table.speaker.table, table.journal.generation)
        for publisher in table.publishers:
            tasks.start(f"publisher {publisher.name}", publisher.run(table.journal, loop.submit))
        tasks.start("watchdog", watch(table, tasks, notifier))
        await tasks.unless_one_ends(stop.wait())
        notifier.tell("STOPPING=1")
        await asyncio.wait_for(loop.submit(Stopped(table.clock.now(), "signal")), GOODBYE_S)
        await tasks.end()
    finally:
        table.journal.close()


class _Tasks:
    """The tasks of a table. One that ends by itself is a failure of the program, whatever it returned."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    def ended(self) -> list[str]:
        return [task.get_name() for task in self._tasks if task.done()]

    async def unless_one_ends(self, wanted: Any) -> None:  # noqa: ANN401 - any awaitable
        """Waits for `wanted`, but not beyond the end of a task: its error is raised here."""
        goal = asyncio.ensure_future(wanted)
        try:
            await asyncio.wait({goal, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks:
                if task.done():
                    task.result()
                    raise RuntimeError(f"{task.get_name()} ended by itself")
            goal.result()
        finally:
            goal.cancel()

    async def end(self) -> None:
        """The publishers first: they say goodbye; the loop last, for it answers them."""
        for task in reversed(self._tasks):
            task.cancel()
            await asyncio.wait({task}, timeout=GOODBYE_S)


async def self_test(table: wiring.Table) -> None:
    """What must be known before the table says that it is up. A device that is absent is a fault, not a stop."""
    tried = [source.tried.wait() for source in table.sources if hasattr(source, "tried")]
    await asyncio.wait_for(asyncio.gather(*tried), SELF_TEST_S)
    if not table.journal.alive:
        raise JournalError("the journal's writer did not start: restart the program")


async def watch(table: wiring.Table, tasks: _Tasks, notifier: Notifier) -> None:
    """Feeds systemd's watchdog from a look at every task, the journal's thread and the loop's progress."""
    assert table.loop is not None
    every = watchdog_s()
    pulse = -1
    while True:
        await asyncio.sleep(min(every or LOOK_S, LOOK_S))
        if ended := tasks.ended():
            raise RuntimeError(f"ended by itself: {', '.join(ended)}")
        stuck = table.loop.busy and table.loop.pulse == pulse
        pulse = table.loop.pulse
        if stuck or not table.journal.alive:
            log.error("the %s makes no progress", "loop" if stuck else "journal's writer")
            continue
        notifier.tell("WATCHDOG=1")
        table.loop.check_disk()


if __name__ == "__main__":
    sys.exit(main())
