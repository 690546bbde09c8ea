"""What works with the daemon down: card scripts, the configuration, keys, the journal and its exports.

Nothing here speaks to a running table. Whatever cannot be done is a `FailureError` that says what to do; the errors of
the parts below do not get past this file.
"""

import asyncio
import json
import logging
import os
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from . import config, doctor, feed, keys, listener, machine, wiring
from .config import ConfigError
from .control import audit, export, parts
from .core import events as e
from .core import facts as f
from .core import rules, table
from .core.cards import Card
from .core.conditions import Refused
from .core.facts import Phase, Stops
from .core.profile import Confirms, Opens, Procedure, Profile
from .core.records import RecordError
from .core.shoe import counts
from .core.state import State, round_of, shoe_of
from .disk import sync_folder
from .keys import KeyFileError, TableKey
from .link.hosts import Status
from .ports import JournalError, Outcome, Source

LINE_BYTES_MAX = 1 << 20  # of an export; the longest message has a few thousand
TRIED_S = 5.0  # a device's first answer, good or bad
SETTLE_S = 1.0  # a panel that is written, or fails twice
SQLITE = b"SQLite format 3\0"  # how every SQLite database begins (sqlite.org/fileformat.html)


T = TypeVar("T")


class FailureError(Exception):
    """What was asked for cannot be done. The text says why, and what to do."""


class RefusalError(FailureError):
    """The table's own no, in its language."""


@contextmanager
def _told() -> Iterator[None]:
    """The errors of the parts below, as one kind."""
    try:
        yield
    except (ConfigError, KeyFileError, JournalError, RecordError, machine.MachineError, wiring.WiringError) as error:
        raise FailureError(str(error)) from error


# --- the configuration ----------------------------------------------------------------------------------------


def socket_path(path: Path) -> str:
    """Where the table of this configuration file listens."""
    with _told():
        return config.load(path).control.socket


def config_check(path: Path, ask: machine.Ask = machine.ask) -> dict[str, Any]:
    """All `problems` of a configuration file, its `warnings`, and whether it is `ok`: a table runs with warnings.

    Each is {file, line, column, text}; line 0 is the file as a whole. `ask` asks this machine's programs.
    """
    problems = config.check(path, wiring.profiles_beside(path))
    with _told():
        warnings = config.warnings(path, partial(_intruders, ask=ask))
    return {
        "ok": not problems,
        "problems": [problem._asdict() for problem in problems],
        "warnings": [warning._asdict() for warning in warnings],
    }


def _intruders(cfg: config.Config, ask: machine.Ask) -> config.Findings:
    """Who else speaks on the serial ports that are plugged in here (bug reports 30 and 31)."""
    for where, part, driver, port in config.ports(cfg):
        for row in machine.serial_rows(Path(port), part, ask=ask) if driver == "serial" else ():
            if row.status is not Status.OK:
                yield where, f"{row.text}: {row.cure}"


def config_show(path: Path) -> tuple[str, dict[str, Any]]:
    """The configuration of a file with its defaults: as YAML, and as plain values."""
    from .config import edit  # noqa: PLC0415 - ruamel.yaml takes longer to load than most verbs take

    with _told():
        cfg = config.load(path)
    return edit.dump(cfg), edit.values(cfg)


def config_set(path: Path, key: str, value: str, ask: machine.Ask = machine.ask) -> dict[str, Any]:
    """Sets a key of a configuration file, its comments kept, if what comes out passes `config_check`: that, and more.

    `key`, what it was `before` (None: not there), whether the file `changed`. Its owner and mode stay, and at no moment
    is there half a file.
    """
    from .config import edit  # noqa: PLC0415 - as above

    told: dict[str, Any] = {"key": key, "before": None, "changed": False}
    try:
        data = config.read_bytes(path)
        new, told["before"] = edit.changed(data, str(path), key, value)
    except ConfigError as error:
        problems = [problem._asdict() for problem in error.errors]
        return {"ok": False, "problems": problems, "warnings": [], **told}
    checked: dict[str, Any] = {}
    old_lines, new_lines = data.splitlines(), new.splitlines()

    def check(draft: Path) -> bool:
        checked.update(config_check(draft, ask))
        for one in (*checked["problems"], *checked["warnings"]):
            if one["file"] == str(draft):
                one["file"] = str(path)
                if old_lines[one["line"] - 1 : one["line"]] != new_lines[one["line"] - 1 : one["line"]]:
                    one["line"] = one["column"] = 0  # of a line that nobody has seen
        return bool(checked["ok"])

    try:
        told["changed"] = _replaced(path.resolve(), data, new, check)
    except OSError as error:
        raise FailureError(
            f"{path} cannot be changed: {error.strerror}: run it as the file's owner, as in sudo tablectl"
        ) from error
    return {**checked, **told}


def _replaced(path: Path, old: bytes, new: bytes, check: Callable[[Path], bool]) -> bool:
    """Whether the file was replaced: if its draft beside it passes the check, and says something new."""
    there = path.stat()
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    draft = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(new)
            file.flush()
            os.fchown(number, there.st_uid, there.st_gid)
            os.fchmod(number, stat.S_IMODE(there.st_mode))
            os.fsync(number)
        if not check(draft) or new == old:
            return False
        if path.read_bytes() != old:
            raise FailureError(f"{path} was changed by somebody else meanwhile: try again")
        draft.replace(path)
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)
    return True


def config_schema() -> dict[str, Any]:
    return config.schema()


def profile_named(name: str | None, path: Path | None) -> Profile:
    """The profile of that name or path; None: the one of the configuration file `path`, else seeds-commission."""
    with _told():
        search = wiring.shipped_profiles() if path is None else wiring.profiles_beside(path)
        own = "seeds-commission" if path is None or name else config.load(path).profile
        return config.load_profile(name or own, search)


# --- keys -----------------------------------------------------------------------------------------------------


def key_file(path: Path) -> Path:
    """Where the table of this configuration file keeps its key."""
    with _told():
        return Path(config.load(path).storage.path) / wiring.KEY_FILE


def keys_new(path: Path) -> dict[str, str]:
    """A new key pair in a new file, never over an old one: {file, keyid, public_key}."""
    with _told():
        return _public(path, keys.make(path))


def keys_show(path: Path) -> dict[str, str]:
    with _told():
        return _public(path, keys.load(path))


def _public(path: Path, key: TableKey) -> dict[str, str]:
    return {"file": str(path), "keyid": key.keyid, "public_key": key.public}


# --- the journal ----------------------------------------------------------------------------------------------


def journal_file(path: Path) -> Path:
    """The journal of the table of this configuration file."""
    with _told():
        return wiring.journal_file(config.load(path))


def journal_rounds(path: Path, count: int) -> list[dict[str, Any]]:
    """The last rounds in a journal file, oldest first, as the control socket's `recall` tells them."""
    with _told():
        return wiring.journal_rounds(path, count)


def journal_verify(path: Path, public_key: str | None = None) -> dict[str, Any]:
    """A journal file, or an export with a message a line: {ok, rows, messages, fault}. `rows` is None of an export.

    Signatures are held against `public_key`, or the key that `journal.opened` announces.
    """
    with _told():
        if not _is_journal(path):
            with path.open("rb") as file:
                lines = iter(lambda: file.readline(LINE_BYTES_MAX), b"")
                verdict = audit.verify_export(lines, audit.Signatures(keys.verify, public_key))
        else:
            verdict = wiring.verify_journal(path, public_key)
    return {"ok": verdict.fault is None, **verdict._asdict()}


def casino_listen(
    port: str, baud: int, *, file: Path | None, public_key: str | None, tell: Callable[[str], None]
) -> None:
    """Receives from the table on that serial line, until interrupted: tells each message, once and in order.

    A message's receipt goes out when it is in `file`, synced, and told. A file that is there is gone through first, and
    the table asked for what follows it. FailureError at the first message whose chain or signature is not right: it is
    neither kept nor receipted.
    """
    logging.basicConfig(format="tablectl: %(message)s", level=logging.INFO)
    ear = listener.Listener(port, baud)

    def told() -> Iterator[bytes]:
        """Who judges comes back for the next one only where this one is good."""
        for message in ear.messages():
            yield message
            tell(message.decode("ascii"))

    try:
        copy = None if file is None else file.open("a+b")
    except OSError as error:
        raise FailureError(f"{file} cannot be written: {error.strerror}: name another file") from error
    with copy or nullcontext():
        messages = told() if copy is None else _kept(copy, ear, told())
        verdict = audit.verify_export(messages, audit.Signatures(keys.verify, public_key))
    raise FailureError(f"after {verdict.messages} good messages: {verdict.fault}: tell the auditor")


def _kept(copy: BinaryIO, ear: listener.Listener, messages: Iterator[bytes]) -> Iterator[bytes]:
    """The messages that the file has, then those that come, each in the file before the next one is asked for."""
    copy.seek(0)
    end = 0
    while (line := copy.readline(LINE_BYTES_MAX)).endswith(b"\n"):
        end += len(line)
        yield line.removesuffix(b"\n")
        name, _, number = json.loads(line)["id"].rpartition("/")
        ear.has(name, int(number), feed.message_hash(line.removesuffix(b"\n")))
    copy.truncate(end)  # half a line, of a power cut
    os.fsync(copy.fileno())  # it may have come before what was written last was on the disk: now its receipt may go
    for message in messages:
        yield message
        copy.write(message + b"\n")
        copy.flush()
        os.fsync(copy.fileno())


def journal_export(path: Path, form: str, first: int = 1, last: int | None = None) -> Iterator[str]:
    """The messages `first` to `last` of a journal file, or of an export of one, line by line as `form` has them.

    `jsonl`: the exact bytes, a message a line; `csv`: the rounds that ended (`export.rounds`); `script`: the shoes that
    began (`export.script`).
    """
    span = _messages(path, first, last)
    with _told():
        yield from {"jsonl": _as_sent, "csv": export.rounds, "script": export.script}[form](span)


def _as_sent(messages: Iterable[bytes]) -> Iterator[str]:
    return (message.decode("ascii") for message in messages)


def journal_stats(path: Path, first: int = 1, last: int | None = None) -> dict[str, Any]:
    """What the messages of a span count up to (`export.stats`)."""
    with _told():
        return export.stats(_messages(path, first, last))


def _messages(path: Path, first: int, last: int | None) -> Iterator[bytes]:
    """By their numbers, repeats left out; of an export of several generations every one that has such a number."""
    if _is_journal(path):
        for message in wiring.journal_messages(path, after=first - 1):
            if last is not None and message.seqno > last:
                return
            yield message.data
        return
    seen: dict[str, int] = {}
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES_MAX), b""), 1):
            data = line.removesuffix(b"\n")
            try:
                told = json.loads(data)
                generation, seqno = str(told["generation"]), int(told["seqno"])
            except (ValueError, LookupError, TypeError):
                raise FailureError(f"{path}, line {number}: no message: run tablectl journal verify {path}") from None
            if seqno > seen.get(generation, 0):
                seen[generation] = seqno
                if first <= seqno and (last is None or seqno <= last):
                    yield data


def _is_journal(path: Path) -> bool:
    """Whether it is a database, and no export of its messages."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError as error:
        raise FailureError(
            f"{path} cannot be read: {error.strerror}: name a journal or an export of its feed"
        ) from error


def examine(path: Path, socket: str | None, host: doctor.Host | None = None) -> list[dict[str, str]]:
    """Every row of `tablectl doctor`, {check, status, text, cure}: of the machine, and of the table that runs or not.

    `socket` stands for the one that the configuration file names.
    """
    with _told():
        return [row._asdict() for row in doctor.look(path, socket, host or doctor.Host())]


# --- the devices ----------------------------------------------------------------------------------------------


@contextmanager
def bench(path: Path, part: str) -> Iterator[Callable[[str], dict[str, Any]]]:
    """One device of the table of this configuration file, without its daemon, which cannot start meanwhile.

    What it yields tells what the device sees, and begins the act that it is given, if any. FailureError; RefusalError
    where the part is not there or has no such act.
    """
    logging.getLogger("controller").addHandler(logging.NullHandler())  # what it tells has the faults: not twice
    with _told(), wiring.bench(path, part) as held:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name=f"bench of {part}")
        thread.start()

        def within(work: Coroutine[Any, Any, T]) -> T:
            return asyncio.run_coroutine_threadsafe(work, loop).result()

        async def begin() -> list[asyncio.Task[None]]:
            parts.diag(held.devices.parts, part, state=None)
            tasks = _started(held.devices)
            await _tried(held.devices.sources)
            return tasks

        async def see(act: str) -> dict[str, Any]:
            for task in tasks:
                if task.done():
                    task.result()
            return parts.diag(held.devices.parts, part, act=act, state=None)

        async def end() -> None:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        tasks: list[asyncio.Task[None]] = []
        try:
            tasks = within(begin())
            yield lambda act: within(see(act))
        except Refused as refused:
            raise RefusalError(held.words.refused(refused.key, refused.values)) from None
        finally:
            within(end())
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def _started(devices: wiring.Devices) -> list[asyncio.Task[None]]:
    submit = partial(_nobody, clear=devices.in_clear())
    return [asyncio.create_task(source.run(submit)) for source in devices.sources]


async def _tried(sources: list[Source]) -> None:
    """Waits for each device's first answer, good or bad."""
    for source in sources:
        tried = getattr(source, "tried", None)  # a display has no such moment: it is given as long
        if tried is None:
            await asyncio.sleep(SETTLE_S)
        else:
            try:
                await asyncio.wait_for(tried.wait(), TRIED_S)
            except TimeoutError:
                raise FailureError(f"no answer of the device within {TRIED_S:g} s, good or bad: try again") from None


def _nobody(event: e.Event, *, clear: bool) -> "asyncio.Future[Outcome]":
    """No table hears what the device reports; `diag` tells it.

    Unless it is `clear` that no card is in play, no answer comes: a sensor head keeps its events for the table.
    """
    heard: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    if clear:
        heard.set_result(Outcome())
    return heard


def head_flash(path: Path, firmware: Path, *, programmer: str, baud: int) -> None:
    """Writes the firmware of the sensor head of this configuration file, with avrdude, which says how it goes.

    No daemon can start meanwhile. `programmer` is avrdude's name for it; with `arduino` a boot loader takes the
    firmware on the head's own port, at `baud`. Fuses and EEPROM are left as they are, where the fuse EESAVE is set.
    """
    try:
        if not firmware.read_bytes().startswith(b":"):
            raise FailureError(f"{firmware} is no Intel HEX file: name the .hex that `make -C firmware` made")
    except OSError as error:
        raise FailureError(f"{firmware} cannot be read: {error.strerror}: make it with `make -C firmware`") from error
    avrdude = shutil.which("avrdude")
    if avrdude is None:
        raise FailureError("avrdude is not installed: sudo apt-get install -y avrdude")
    with _told(), wiring.held(path) as cfg:
        if cfg.shoe.driver != "head":
            raise FailureError(f"{path}: this table has no sensor head: shoe.driver is {cfg.shoe.driver}")
        serial = ["-P", str(cfg.shoe.port), "-b", str(baud), "-D"] if programmer == "arduino" else []
        command = [avrdude, "-p", "m328p", "-c", programmer, *serial, "-U", f"flash:w:{firmware}:i"]
        code = subprocess.run(command, check=False).returncode  # noqa: S603 - no shell, and the words are the technician's
    if code:
        raise FailureError(
            f"avrdude failed ({code}): see what it says above; check --programmer, its plug, and the cable"
        )


# --- card scripts ---------------------------------------------------------------------------------------------

FREE_RUNNING = Procedure(
    open_betting=Opens.NONE, confirm_result=Confirms.NONE, offline_rounds=True, receipts=False, sensors=False
)
TWO = ("script-1", "script-2")  # a script stands for the dealer and the pit boss
COMPLETED = "baccarat.round.completed.v1"
WORDS = "a card (8H), cut, shoe, void or skip"


def deal(script: str | Iterable[str], profile: Profile) -> Iterator[dict[str, Any]]:
    """A card script through the rules: the `data` of each `round.completed`, as the feed would have it.

    One event a line (DESIGN 7); `#` begins a comment. FailureError names the line and what to do about it.
    """
    lines = script.splitlines() if isinstance(script, str) else script
    felt = _Felt(profile)
    number = 0
    for number, line in enumerate(lines, 1):
        word = line.partition("#")[0].strip()
        if word:
            yield from felt.read(number, word)
    felt.end(number)


class _Felt:
    """A free-running table in memory. The line's number is its time and stands in its errors."""

    def __init__(self, profile: Profile) -> None:
        key = keys.ephemeral()
        self._speaker = feed.Feed("SCRIPT", "/tables/SCRIPT", "demo", key.keyid, key.sign)
        self._state = State()
        self._line = 0
        self._do(e.Configured(0, "", (), FREE_RUNNING, profile))
        self._do(e.LinkChanged(0, up=True))

    def read(self, line: int, word: str) -> list[dict[str, Any]]:
        """What the word on that line completes."""
        self._line = line
        if word == "shoe":
            return self._new_shoe()
        if self._state.shoe is None:
            self._open_shoe()
        own = {"void": self._void, "cut": self._cut, "skip": self._skip}.get(word)
        return own() if own else self._scan(word)

    def end(self, line: int) -> None:
        """After the last line."""
        self._line = line
        state = self._state
        if state.round is not None:
            raise self._failure(f"the script ends inside round {self._lacks()}: write it, or `void`")
        if state.phase is Phase.BURNING:
            raise self._failure(
                f"the script ends inside the burn of shoe {state.shoes}: write its cards, or `skip` each"
            )

    def _void(self) -> list[dict[str, Any]]:
        if self._state.round is None:
            raise self._failure("no round is in progress, so there is none to void: remove this line")
        return self._do(e.VoidAsked(self._line, "script", by=TWO))

    def _cut(self) -> list[dict[str, Any]]:
        if shoe_of(self._state).cut:
            raise self._failure("the cut card of this shoe is out already: remove this line")
        self._must_not_be_over("cut")
        return self._do(e.CutCardSeen(self._line, "manual"))

    def _skip(self) -> list[dict[str, Any]]:
        if self._state.phase is not Phase.BURNING or shoe_of(self._state).burn_of is None:
            raise self._failure("skip is a burned card that was not read, behind the one turned up: name the card")
        return self._do(e.CardMoved(self._line))

    def _scan(self, word: str) -> list[dict[str, Any]]:
        try:
            card = Card.parse(word)
        except ValueError:
            raise self._failure(
                f"{word!r:.40} is no event: write {WORDS}, a card with rank first and T for 10"
            ) from None
        self._must_not_be_over(word)
        shoe = shoe_of(self._state)
        if shoe.out == shoe.profile.cards:
            void = "`void` and `shoe`" if self._state.round else "`shoe`"
            raise self._failure(f"all {shoe.out} cards of this shoe are out: write {void} before {word}")
        return self._do(e.CardScanned(self._line, card))

    def _must_not_be_over(self, word: str) -> None:
        if self._state.phase is Phase.UNLOADING:
            rounds = shoe_of(self._state).rounds
            raise self._failure(f"the shoe ended with round {rounds}: write `shoe` before {word}, or remove this line")

    def _new_shoe(self) -> list[dict[str, Any]]:
        """Ends the one before at discretion, with what is left in it."""
        state = self._state
        if state.round is not None:
            raise self._failure(f"a new shoe inside round {self._lacks()}: write it, or `void`, before `shoe`")
        done: list[dict[str, Any]] = []
        if state.shoe is not None:
            if state.phase is not Phase.UNLOADING:
                done += self._do(e.EndShoeAsked(self._line, "discretion", by=TWO))
            tally = counts(state.shoe)
            left = state.shoe.profile.cards - tally.burned - tally.dealt
            done += self._do(e.LeftCounted(self._line, left, by=TWO))
        self._open_shoe()
        return done

    def _open_shoe(self) -> None:
        while self._state.shoe is None:
            self._do(e.ConfirmPressed(self._line, by=TWO))

    def _lacks(self) -> str:
        round_ = round_of(self._state)
        return f"{round_.number}, whose {rules.next_slot(round_.cards)} is missing"

    def _do(self, event: e.Event) -> list[dict[str, Any]]:
        """Plays an event; the data of the rounds that it completes. Only their rows are sealed: nobody reads others."""
        done: list[dict[str, Any]] = []
        try:
            for happened, facts, after in table.play(self._state, event):
                if any(isinstance(fact, f.RoundCompleted) for fact in facts):
                    chain = feed.Chain("00000000-00000000", self._state.seqno)
                    entry = feed.Entry(happened, facts, self._state, after, 0, synchronised=False)
                    row, _ = feed.seal(self._speaker, chain, entry)
                    done += [json.loads(message.data)["data"] for message in row.messages if message.type == COMPLETED]
                self._state = after
        except Refused as refused:
            raise self._failure(f"the table refuses this: {refused.key} {refused.values or ''}".rstrip()) from None
        self._must_go_on()
        return done

    def _must_go_on(self) -> None:
        """A hold is a mistake of the script: nobody is there to resolve it; want of cards has `void`."""
        held = next((c for c in self._state.conditions if c.stops > Stops.NOTHING and c.code != "I23"), None)
        if held is None:
            return
        if held.code == "I05":
            card, decks = held.detail["card"], shoe_of(self._state).profile.decks
            raise self._failure(f"{card} is one more than {decks} decks hold: correct it, or write `shoe` before it")
        raise self._failure(f"{held.code} {held.detail}: a script cannot resolve this, correct the line")

    def _failure(self, why: str) -> FailureError:
        return FailureError(f"line {self._line}: {why}")
