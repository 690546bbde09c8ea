"""`tabled` as systemd, the technician and a bad night see it: start, refusals, signals, watchdog, disk (DESIGN 4, 7).

Real processes, each in a folder of its own, on their own storage, scanner (a pty) and control socket.
"""

import asyncio
import contextlib
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from controller import daemon, feed, wiring
from controller.adapters.journal_sqlite import JournalSqlite
from controller.ports import JournalError
from controller.sdnotify import Notifier
from tests.adapters.test_publisher_mqtt import Authority
from tests.broker import Broker, free_port, until
from tests.consumer import Consumer
from tests.live import FREE_RUNNING, RefusedError, wait_for
from tests.tabled import Tabled

HERE = Path(__file__).parent
CONFIG, FAILED, STOPPED = 78, 1, 0
NOT_YET_OURS = -signal.SIGTERM  # stopped while the interpreter still loads: nothing is begun
BURN = ("AS", "2S")
ROUND = ("8H", "2D", "KS", "3C")  # P1 B1 P2 B2: the Player's natural eight
BY_DEALER = {"betting_seconds": 1}


@pytest.fixture(scope="session")
def bad_sync(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes a disk hang or fail; preloaded."""
    library = tmp_path_factory.mktemp("shim") / "bad_sync.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "bad_sync.c", "-ldl"], check=True)
    return library


class Disk:
    """A disk that can hang, or fail."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._stuck, self._failing = folder / "disk-hangs", folder / "disk-fails"
        self.env = {
            "LD_PRELOAD": str(library),
            "STUCK_SYNC": str(self._stuck),
            "FAILING_SYNC": str(self._failing),
        }

    def hangs(self) -> None:
        self._stuck.touch()

    def fails(self) -> None:
        self._failing.touch()

    def works(self) -> None:
        self._stuck.unlink(missing_ok=True)
        self._failing.unlink(missing_ok=True)


@pytest.fixture
def disk(bad_sync: Path, tmp_path: Path) -> Disk:
    return Disk(bad_sync, tmp_path)


def consumed(table: Tabled) -> Consumer:
    """What the casino has of the feed: every message, in order, signed, no gap."""
    return Consumer().take((table.folder / "feed.jsonl").read_bytes().splitlines())


def panel(table: Tabled) -> str:
    prompt = table.status()["prompt"]
    return " / ".join([prompt["strip"], prompt["headline"], *prompt["lines"]])


def codes(table: Tabled) -> list[str]:
    return [condition["code"] for condition in table.status()["conditions"]]


# --- start ------------------------------------------------------------------------------------------------


def test_up_is_said_after_recovery_and_self_test_and_before_the_network(tmp_path: Path) -> None:
    """In the order of its system calls: folder, journal, first rows durable, scanner read, socket, READY, network."""
    port = free_port()
    casino = {"primary": "mqtt", "receipt": "broker", "mqtt": {"host": "127.0.0.1", "port": port}}
    trace = tmp_path / "trace"
    calls = "flock,fdatasync,bind,sendto,connect,ioctl,openat"
    through = ("strace", "-f", "-o", str(trace), "-e", f"trace={calls}", "-s", "200")
    with Tabled(tmp_path / "table", casino=casino, through=through) as table:
        told = lambda: f"htons({port})" in trace.read_text()  # noqa: E731 - a name for the wait
        wait_for(told, "the first try to connect")
        subprocess.run(["pkill", "-TERM", "-P", str(table.pid)], check=True)
        table.ended()
    lines = trace.read_text().splitlines()
    steps = {
        "the folder is ours": lambda line: "flock(" in line and "LOCK_EX" in line,
        "the first rows are durable": lambda line: "fdatasync(" in line,
        "the scanner's old bytes are dropped": lambda line: "TCFLSH" in line,
        "the socket is there": lambda line: "bind(" in line and "control.sock" in line,
        "up": lambda line: "READY=1" in line,
        "the network": lambda line: "connect(" in line and f"htons({port})" in line,
    }
    at = {name: next(i for i, line in enumerate(lines) if true(line)) for name, true in steps.items()}
    assert [*sorted(at, key=lambda name: at[name])] == [*steps]


def test_a_clean_run_says_nothing_strange(tmp_path: Path) -> None:
    with Tabled(tmp_path, procedure=FREE_RUNNING) as table:
        table.call("shoe.load")
        table.scan(*BURN, *ROUND)
        wait_for(lambda: table.status()["counted"] == 1, "a round")
        assert table.stop() == STOPPED
    lines = table.said().splitlines()
    known = (
        r"WARNING \S+table.key: made a new table key, [0-9a-f]{16}\. Give its public key to the casino: \S{43}",
        r"INFO table BAC-07 is up, generation [0-9a-f]{8}-[0-9a-f]{8}",
        r"INFO control: shoe.load by - \(-\), uid \d+, pid \d+",
    )
    assert all(re.fullmatch("|".join(known), line) for line in lines), lines
    assert table.words[0] == "READY=1" and "STOPPING=1" in table.words
    consumer = consumed(table)
    assert [data["clean"] for data in consumer.data("table.started")] == [True]
    assert len(consumer.data("table.stopped")) == 1, "its last word went out too"


def test_a_stop_is_told_from_a_power_cut(tmp_path: Path) -> None:
    with Tabled(tmp_path) as table:
        assert table.stop() == STOPPED
        table.start()
        table.kill()
        table.start()
        assert table.stop() == STOPPED
    started = consumed(table).data("table.started")
    assert [data["clean"] for data in started] == [True, True, False]
    assert not table.socket.exists()


def test_after_ten_kills_while_it_starts_it_recovers(tmp_path: Path) -> None:
    """Bug report 62: a crash at each of ten starts, then it is up with what it knew. The seed is told on failure."""
    seed = random.SystemRandom().getrandbits(32)
    chance = random.Random(seed)
    with Tabled(tmp_path, procedure=FREE_RUNNING) as table:
        table.call("shoe.load")
        table.scan(*BURN, *ROUND[:2])
        wait_for(lambda: len(table.status()["slots"]) == 2, "two cards")
        before = table.status()
        table.kill()
        for _ in range(10):
            table.launch()
            time.sleep(chance.uniform(0, 0.4))
            table.kill()
        table.start()
        after = table.status()
        assert after["slots"] == before["slots"], f"seed {seed}"
        assert "I35" in codes(table), f"seed {seed}"
        wait_for(lambda: not after["backlog"]["file"] or not table.status()["backlog"]["file"], "the feed's end")
    numbers = [message["seqno"] for message in consumed(table).messages]
    assert numbers == [*range(1, len(numbers) + 1)], f"seed {seed}"


# --- what only a technician can mend ------------------------------------------------------------------------


def refused(table: Tabled, *words: str, code: int = CONFIG) -> str:
    """It ends by itself with this code, says all these words and never that it is up."""
    ended, log = table.run()
    assert (ended, table.said_up) == (code, False), log
    for word in words:
        assert word in log, log
    assert "Traceback" not in log, log
    return log


def test_every_error_of_the_configuration_has_its_place(tmp_path: Path) -> None:
    table = Tabled(tmp_path)
    table.config.write_text(
        "table: {id: 007}\n"
        "profile: seeds-commission\n"
        "procedure:\n"
        "  beting_seconds: 15\n"
        "  confirm_result: no\n"
        "casino:\n"
        "  primary: mqtt\n"
    )
    with closing(table):
        log = refused(table)
    lines = [line for line in log.splitlines() if str(table.config) in line]
    places = {re.search(r"table\.yaml:(\d+:\d+): ", line)[1] for line in lines}  # type: ignore[index]
    assert {place.split(":")[0] for place in places} == {"1", "4", "5", "7"}, log
    assert "betting_seconds" in log, "an unknown key comes with a suggestion"


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"profile": "seeds-nowhere"}, ("seeds-nowhere", "seeds-commission")),
        ({"storage": {"path": "/nowhere/at/all", "allow_volatile": True}}, ("/nowhere/at/all",)),
        ({"control": {"socket": "/nowhere/at/all.sock"}}, ("/nowhere/at/all.sock", "control.socket")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_the_configuration_names_must_be_there(
    tmp_path: Path, sections: dict[str, object], words: tuple[str, ...]
) -> None:
    with closing(Tabled(tmp_path, **sections)) as table:
        refused(table, *words)


def test_there_must_be_a_configuration(tmp_path: Path) -> None:
    table = Tabled(tmp_path)
    table.config.unlink()
    with closing(table):
        refused(table, f"{table.config}: cannot be read: No such file or directory")


@pytest.mark.parametrize(("mode", "word"), [(0o644, "chmod 600"), (None, "No such file")])
def test_a_password_is_for_the_table_alone(tmp_path: Path, mode: int | None, word: str) -> None:
    secret = tmp_path / "password"
    if mode is not None:
        secret.write_text("hunter2\n")
        secret.chmod(mode)
    mqtt = {"host": "127.0.0.1", "port": free_port(), "username": "table", "password_file": str(secret)}
    with closing(Tabled(tmp_path, casino={"primary": "mqtt", "mqtt": mqtt})) as table:
        log = refused(table, str(secret), word)
    assert "hunter2" not in log


def test_a_key_that_others_may_read_signs_nothing(tmp_path: Path) -> None:
    with Tabled(tmp_path) as table:
        assert table.stop() == STOPPED
        key = tmp_path / "state" / "table.key"
        key.chmod(0o640)
        refused(table, str(key), "chmod 600")


def test_storage_that_forgets_is_refused(tmp_path: Path) -> None:
    """Bug report 57. /dev/shm is a tmpfs on every Debian and Raspberry Pi OS."""
    folder = Path("/dev/shm") / f"tabled-{os.getpid()}"
    folder.mkdir()
    try:
        with closing(Tabled(tmp_path, storage={"path": str(folder)})) as table:
            refused(table, "tmpfs", "allow_volatile")
            assert [path.name for path in folder.iterdir()] in ([], ["table.key"]), "no journal is begun there"
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def test_a_second_daemon_on_the_same_storage_goes_away(tmp_path: Path) -> None:
    with Tabled(tmp_path / "one") as table, closing(Tabled(tmp_path / "two")) as other:
        other.change(storage={"path": str(tmp_path / "one" / "state"), "allow_volatile": True})
        refused(other, f"is in use by process {table.pid}", "stop it first")
        assert table.call("ping")["table"] == "BAC-07"


def test_a_second_daemon_on_the_same_socket_goes_away(tmp_path: Path) -> None:
    with Tabled(tmp_path / "one") as table, closing(Tabled(tmp_path / "two")) as other:
        other.change(control={"socket": str(table.socket)})
        refused(other, str(table.socket), "another table answers there")
        assert table.call("ping")["table"] == "BAC-07"
        assert table.socket.exists()


def _database(table: Tabled) -> Path:
    return table.folder / "state" / "journal.db"


def _dealt(table: Tabled) -> None:
    """A shoe with some cards, then a power cut."""
    table.start()
    table.call("shoe.load")
    table.scan(*BURN, *ROUND[:2])
    wait_for(lambda: len(table.status()["slots"]) == 2, "two cards")
    table.kill()


def test_a_journal_that_was_changed_is_not_gone_on_with(tmp_path: Path) -> None:
    """A restart would find the same: the table stays down, and the log says what to keep and what to move away."""
    with closing(Tabled(tmp_path, procedure=FREE_RUNNING)) as table:
        _dealt(table)
        with closing(sqlite3.connect(_database(table))) as db:
            db.execute("DROP TRIGGER message_update")
            # With its quotes: without them a table's key has it, too, now and then.
            db.execute("""UPDATE message SET data = CAST(replace(CAST(data AS TEXT), '"8H"', '"9H"') AS BLOB)""")
            db.commit()
        refused(table, "does not match its hash", "tablectl journal verify", "begins a new generation")
        for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
            (tmp_path / "state" / name).unlink(missing_ok=True)
        table.start()
        assert table.status()["phase"] == "closed", "as it said"


def test_a_byte_that_the_medium_lost_is_found(tmp_path: Path) -> None:
    """In the file itself, behind SQLite's back: the last row's page."""
    with closing(Tabled(tmp_path, procedure=FREE_RUNNING)) as table:
        _dealt(table)
        with closing(sqlite3.connect(_database(table))) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (body,) = db.execute("SELECT body FROM row ORDER BY id DESC LIMIT 1").fetchone()
        data = bytearray(_database(table).read_bytes())
        at = data.index(bytes(body)) + len(body) // 2
        data[at] ^= 1
        with _database(table).open("r+b") as file:  # the same file: a new one would be a copy, and known for one
            file.write(data)
        refused(table, "does not match its hash", "tablectl journal verify")


def test_a_journal_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    with closing(Tabled(tmp_path, procedure=FREE_RUNNING)) as table:
        _dealt(table)
        with closing(sqlite3.connect(_database(table))) as db:
            number, previous = db.execute("SELECT id, hash FROM row ORDER BY id DESC LIMIT 1").fetchone()
            body = b'{"wall":0,"synchronised":true,"event":{"t":"Elapsed","at":0},"facts":[{"t":"OfTomorrow"}]}'
            row = (number + 1, previous, body, None, feed.row_hash(previous, body, [], None))
            db.execute("INSERT INTO row VALUES (?, ?, ?, ?, ?)", row)
            db.commit()
        before = sha256(_database(table).read_bytes()).digest()
        refused(table, "OfTomorrow", "the version that wrote it")
        assert sha256(_database(table).read_bytes()).digest() == before


def test_optimised_python_is_refused(tmp_path: Path) -> None:
    """Whoever asks for it: `python -O` is the same as this variable."""
    with closing(Tabled(tmp_path, env={"PYTHONOPTIMIZE": "1"})) as table:
        refused(table, "assertions are off")


def test_a_word_that_it_does_not_know_is_usage(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "controller", "--confg", "x"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, "usage: tabled" in ended.stderr) == (2, True)


# --- devices ------------------------------------------------------------------------------------------------


def test_a_scanner_may_come_after_the_start(tmp_path: Path) -> None:
    """I40: up all the same, the panel says why no card is taken, and the plug is all it needs (bug report 28)."""
    plug = tmp_path / "by-id"
    with closing(Tabled(tmp_path, procedure=FREE_RUNNING)) as table:
        port = os.ttyname(table._slave)
        table.change(scanner={"driver": "serial", "port": str(plug)})
        table.start()
        assert codes(table) == ["I40"]
        assert "SIN ESCÁNER" in panel(table)
        plug.symlink_to(port)
        wait_for(lambda: not codes(table), "the scanner")
        table.call("shoe.load")
        table.scan(*BURN)
        wait_for(lambda: table.status()["phase"] == "ready", "the burn")


# --- SIGTERM ------------------------------------------------------------------------------------------------


def _stopped_at(tmp_path: Path, times: int) -> None:
    seed = random.SystemRandom().getrandbits(32)
    chance = random.Random(seed)
    with closing(Tabled(tmp_path)) as table:
        for number in range(times):
            table.launch()
            time.sleep(chance.uniform(0.0, 0.7) if number else 0.0)
            table.terminate()
            code = table.ended()
            told = f"seed {seed}, stop {number}: {table.said()}"
            assert code == STOPPED or (code == NOT_YET_OURS and not table.words), told
            assert "Traceback" not in table.said(), told
        table.start()
        assert table.stop() == STOPPED
    consumer = consumed(table)
    started, stopped = consumer.data("table.started"), consumer.data("table.stopped")
    assert len(started) == len(stopped) and all(data["clean"] for data in started), f"seed {seed}"
    assert consumer.messages[0]["type"] == "baccarat.journal.opened.v1", f"seed {seed}"


def test_stopped_at_any_moment_of_its_start_it_ends_at_once(tmp_path: Path) -> None:
    _stopped_at(tmp_path, 6)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_stopped_two_hundred_times_at_any_moment_of_its_start(tmp_path: Path) -> None:
    _stopped_at(tmp_path, 200)


@contextmanager
def _deaf() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(8)
        yield sock.getsockname()[1]


@contextmanager
def _closed() -> Iterator[int]:
    yield free_port()


@pytest.mark.parametrize(("peer", "tls"), [(_deaf, True), (_closed, False)])
def test_it_stops_while_no_broker_answers(
    tmp_path: Path, peer: Callable[[], AbstractContextManager[int]], tls: bool
) -> None:
    authority = Authority(tmp_path)
    with peer() as port:
        mqtt = {"host": "127.0.0.1", "port": port} | ({"tls": {"ca": str(authority.ca)}} if tls else {})
        with Tabled(tmp_path / "table", casino={"primary": "mqtt", "mqtt": mqtt}) as table:
            time.sleep(0.2)
            assert table.stop() == STOPPED
    assert "STOPPING=1" in table.words and "Traceback" not in table.said()


def test_it_stops_while_its_first_rows_wait_for_the_disk(tmp_path: Path, disk: Disk) -> None:
    """Not up yet, told to stop: it says so at once, and ends when the disk has answered."""
    with closing(Tabled(tmp_path / "table", env=disk.env)) as table:
        table.start()
        assert table.stop() == STOPPED
        disk.hangs()
        table.launch()
        wait_for(lambda: table.is_there and _in_a_commit(table), "the first commit")
        table.terminate()
        wait_for(lambda: "STOPPING=1" in table.words, "STOPPING=1")
        disk.works()
        assert table.ended() == STOPPED
        assert not table.said_up and "Traceback" not in table.said()


def _in_a_commit(table: Tabled) -> bool:
    """The writer thread exists and the scanner's port is open: only then the first rows are in line."""
    tasks = Path(f"/proc/{table.pid}/task")
    names = [(task / "comm").read_text().strip() for task in tasks.iterdir()]
    return len(names) > 1 and any("/pts/" in target for target in _open_files(table))


def _open_files(table: Tabled) -> Iterator[str]:
    for fd in Path(f"/proc/{table.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            yield str(fd.readlink())


# --- the watchdog -------------------------------------------------------------------------------------------


def _fed(table: Tabled) -> int:
    return table.words.count("WATCHDOG=1")


def test_the_watchdog_is_fed_while_the_loop_moves(tmp_path: Path, disk: Disk) -> None:
    """A disk that hangs feeds nobody, and says so at every look; when it answers, the table is as it was."""
    env = disk.env | {"WATCHDOG_USEC": "600000"}
    with Tabled(tmp_path / "table", env=env, procedure=FREE_RUNNING) as table:
        table.call("shoe.load")
        table.scan(*BURN)
        wait_for(lambda: table.status()["phase"] == "ready", "the burn")
        fed = _fed(table)
        wait_for(lambda: _fed(table) > fed + 2, "an idle table to feed it")
        assert "no progress" not in table.said()
        disk.hangs()
        table.scan("8H")
        stuck = lambda: table.said().count("the loop makes no progress")  # noqa: E731 - a name for the wait
        wait_for(stuck, "the first look that finds it stuck")
        fed = _fed(table)
        seen = stuck()
        wait_for(lambda: stuck() >= seen + 3, "three looks more")
        assert _fed(table) == fed, "nobody is told that all is well"
        wait_for(lambda: "ESPERE" in panel(table), "the panel to say it")
        assert table.status()["slots"] == {}, "what is not on the disk is not shown"
        disk.works()
        wait_for(lambda: table.status()["slots"] == {"P1": "8H"}, "the card")
        wait_for(lambda: _fed(table) > fed, "the watchdog to be fed again")
        assert table.stop() == STOPPED


def test_a_medium_that_fails_stops_the_table_and_costs_nothing(tmp_path: Path, disk: Disk) -> None:
    """An I/O error at each sync: ALTO: DISCO until it works, then the fault stands until the next look."""
    env = disk.env | {"WATCHDOG_USEC": "900000"}
    with Tabled(tmp_path / "table", env=env, procedure=FREE_RUNNING) as table:
        table.call("shoe.load")
        table.scan(*BURN, ROUND[0])
        wait_for(lambda: table.status()["slots"], "a card")
        wait_for(lambda: not table.status()["backlog"]["file"], "the feed's file, which is on that disk, too")
        disk.fails()
        table.scan(*ROUND[1:3])
        wait_for(lambda: "NO SAQUE CARTAS" in panel(table), "ALTO: DISCO")
        assert table.status()["slots"] == {"P1": ROUND[0]}
        fed = _fed(table)
        wait_for(lambda: _fed(table) > fed, "a table that tries again is not stuck")
        disk.works()
        wait_for(lambda: len(table.status()["slots"]) == 3, "the cards")
        wait_for(lambda: not codes(table), "the end of the fault")
        assert table.stop() == STOPPED
    consumer = consumed(table)
    assert [data["card"] for data in consumer.data("card.dealt")] == [*ROUND[:3]]
    faults = [fault["text"] for fault in consumer.data("fault.raised")]
    assert len(faults) == 1 and "see `dmesg`" in faults[0], faults


@pytest.mark.soak
def test_told_to_stop_it_does_not_wait_for_a_medium_that_fails(tmp_path: Path, disk: Disk) -> None:
    with Tabled(tmp_path / "table", env=disk.env) as table:
        disk.fails()
        table.call("ping")
        assert table.stop() == STOPPED
        assert "the disk did not take the last word" in table.said() and "Traceback" not in table.said()
        disk.works()
        table.start()
        assert table.stop() == STOPPED
    assert len(consumed(table).data("table.started")) == 2


def test_without_a_watchdog_none_is_in_a_hurry(tmp_path: Path) -> None:
    """WATCHDOG_PID names another process: its limit is not ours."""
    with Tabled(tmp_path, env={"WATCHDOG_USEC": "30000", "WATCHDOG_PID": "1"}) as table:
        time.sleep(0.3)
        assert _fed(table) <= 1


# --- the environment ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "", "LANG": "es_ES.ISO-8859-1"},
    ],
    ids=["C", "ISO-8859-1"],
)
def test_the_locale_changes_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    """Bug report 64."""
    with Tabled(tmp_path, env=env) as table:
        with pytest.raises(RefusedError) as told:
            table.call("round.void", reason="Señal perdida ♠", by=["a", "b"])
        assert "Señal perdida ♠" in table.said()
        assert told.value.args[0]["data"]["key"] == "not_now"
        assert table.stop() == STOPPED
    assert "Traceback" not in table.said()


def test_under_systemd_each_line_has_its_level(tmp_path: Path) -> None:
    env = {"JOURNAL_STREAM": "8:1"}
    with closing(Tabled(tmp_path, env=env)) as table:
        table.change(lamp={}, beting={})
        _, log = table.run()
        assert len(log.splitlines()) > 1 and all(line.startswith("<3>") for line in log.splitlines()), log
    with Tabled(tmp_path / "well", env=env) as table:
        assert table.stop() == STOPPED
    assert {line[:3] for line in table.said().splitlines()} == {"<4>", "<6>"}


# --- what ends a table from within ----------------------------------------------------------------------------


class Part:
    """A source or a publisher that runs until cancelled, or until it has done `act`; `log`: the order of the ends."""

    name = "file"

    def __init__(self, what: str, log: list[str], act: Callable[[], object] | None = None) -> None:
        self._what, self._log, self._act = what, log, act

    async def run(self, first: object, _submit: object = None) -> None:
        try:
            if self._act is not None:
                await asyncio.sleep(0.05)
                self._act()
                return
            await asyncio.get_running_loop().create_future()
        finally:
            if isinstance(first, JournalSqlite):
                assert first.read(0, 1), "the journal is open until the last publisher has said goodbye"
            self._log.append(self._what)


def _fails(tmp_path: Path, act: Callable[[], object]) -> tuple[object, list[str]]:
    """Serves a table with a source that does `act` and ends: the error that ended it all, and the order of the ends."""
    with closing(Tabled(tmp_path, scanner={"driver": "none"})) as files:
        table, control = wiring.build(files.config)
    log: list[str] = []
    table.sources += [Part("source", log), Part("bad source", log, act)]
    table.publishers = [Part("publisher", log)]

    async def night() -> list[object]:
        return await asyncio.gather(daemon.serve(table, control, Notifier("")), return_exceptions=True)

    (error,) = asyncio.run(night())
    assert not table.journal.alive
    return error, log


def test_a_part_that_fails_ends_the_table_with_its_error(tmp_path: Path) -> None:
    """STYLE 7: the program is wrong, so it ends, in order, and systemd starts it again."""
    broken = ZeroDivisionError("a bug")

    def act() -> None:
        raise broken

    error, log = _fails(tmp_path, act)
    assert error is broken
    assert log == ["bad source", "publisher", "source"]


def test_a_part_that_ends_is_a_failure_whatever_it_returned(tmp_path: Path) -> None:
    error, _ = _fails(tmp_path, lambda: None)
    assert (type(error), str(error)) == (RuntimeError, "Part ended by itself")


def test_a_journal_without_its_writer_ends_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    with closing(Tabled(tmp_path, scanner={"driver": "none"})) as files:
        table, control = wiring.build(files.config)

    async def night() -> None:
        served = asyncio.create_task(daemon.serve(table, control, Notifier("")))
        await until(lambda: table.loop is not None and not table.loop.busy, "the table")
        table.journal._queue.put(None)
        await served

    with pytest.raises(RuntimeError, match="the journal's writer has ended"):
        asyncio.run(night())


class Silent:
    """A source whose device neither comes nor says that it does not."""

    def __init__(self) -> None:
        self.tried = asyncio.Event()

    async def run(self, _submit: object) -> None:
        await asyncio.get_running_loop().create_future()


def test_a_device_that_never_answers_does_not_keep_a_table_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "SELF_TEST_S", 0.1)
    with closing(Tabled(tmp_path, scanner={"driver": "none"})) as files:
        table, control = wiring.build(files.config)
    table.sources.append(Silent())
    with pytest.raises(RuntimeError, match=r"not within 0\.1 s: a device's first answer"):
        asyncio.run(daemon.serve(table, control, Notifier("")))


def _caused(error: Exception, cause: Exception | None) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JournalError("damaged"), CONFIG),
        (_caused(JournalError("damaged"), sqlite3.DatabaseError("malformed")), CONFIG),
        (_caused(JournalError("full"), sqlite3.OperationalError("full")), FAILED),
        (_caused(JournalError("full"), OSError(28, "No space left on device")), FAILED),
        (_caused(wiring.WiringError("a key"), OSError(13, "Permission denied")), CONFIG),
        (ZeroDivisionError("a bug"), FAILED),
    ],
    ids=lambda value: f"{value!r} {getattr(value, '__cause__', '')!r}",
)
def test_an_error_has_the_exit_code_of_who_can_mend_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, code: int
) -> None:
    """78 keeps systemd from starting again: right for damage, wrong for what passes (DESIGN 4: it loses nothing)."""

    async def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(daemon, "serve", fails)
    handlers = {number: signal.getsignal(number) for number in daemon.SIGNALS}
    try:
        with closing(Tabled(tmp_path)) as files:
            assert daemon.main(["--config", str(files.config)]) == code
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    bug = isinstance(error, ZeroDivisionError)
    assert [record.exc_info is not None for record in caplog.records if record.name == daemon.__name__] == [bug]


# --- for nights on end ----------------------------------------------------------------------------------------


def test_idle_tables_sleep(tmp_path: Path) -> None:
    """Bug report 14. A look every 5 s, and with MQTT one every second: 3 wake-ups a second at most."""
    (tmp_path / "broker").mkdir()
    with Broker(tmp_path / "broker") as broker:
        mqtt = {"primary": "mqtt", "receipt": "broker", "mqtt": {"host": "127.0.0.1", "port": broker.port}}
        with Tabled(tmp_path / "mqtt", casino=mqtt) as over_mqtt, Tabled(tmp_path / "file") as over_file:
            both = (over_mqtt, over_file)
            for table in both:
                wait_for(lambda table=table: not any(table.status()["backlog"].values()), "the link")
            time.sleep(1.5)  # the cursor goes to the disk, the last levels to the broker
            before = [table.wake_ups for table in both]
            time.sleep(3)
            woken = [table.wake_ups - earlier for table, earlier in zip(both, before, strict=True)]
            assert max(woken) <= 3 * 3, woken


def _fds(table: Tabled) -> int:
    return len([*Path(f"/proc/{table.pid}/fd").iterdir()])


def _reconnects(tmp_path: Path, times: int) -> None:
    """A broker that is killed again and again leaves no descriptor and no thread behind."""
    with Broker(tmp_path) as broker:
        casino = {"primary": "mqtt", "receipt": "broker", "mqtt": {"host": "127.0.0.1", "port": broker.port}}
        with Tabled(tmp_path / "table", casino=casino) as table:
            up = lambda: table.status()["link"]["up"]  # noqa: E731 - a name for the wait
            wait_for(up, "the link")
            before = _fds(table)
            for _ in range(times):
                broker.kill()
                wait_for(lambda: not up(), "the loss of the link")
                broker.start()
                wait_for(up, "the link again")
            wait_for(lambda: _fds(table) <= before, f"{before} descriptors as before")
            tasks = Path(f"/proc/{table.pid}/task")
            wait_for(lambda: len([*tasks.iterdir()]) == 2, "two threads: the loop's and the journal's")
            assert table.stop() == STOPPED
    assert "Traceback" not in table.said()


@pytest.mark.timeout(60)
def test_a_few_reconnects_leave_nothing_behind(tmp_path: Path) -> None:
    _reconnects(tmp_path, 3)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_twenty_reconnects_leave_nothing_behind(tmp_path: Path) -> None:
    _reconnects(tmp_path, 20)


# --- a disk that is full --------------------------------------------------------------------------------------

MIB = 1 << 20
AS_ROOT = os.geteuid() == 0
UNSHARE = ("unshare", "--mount", *(() if AS_ROOT else ("--map-root-user",)))
ENTER = ("nsenter", "--mount", *(() if AS_ROOT else ("--user", "--preserve-credentials")), "--wd", "--target")


class SmallDisk:
    """A disk of `mib` in a mount namespace of its own, where `table` lives; `files` is how others reach it."""

    def __init__(self, folder: Path, mib: int) -> None:
        disk = folder / "disk"
        disk.mkdir()
        mount = f'mount -t tmpfs -o size={mib}m none "{disk}" && echo mounted && exec sleep infinity'
        self._holder = subprocess.Popen([*UNSHARE, "sh", "-c", mount], stdout=subprocess.PIPE)
        assert self._holder.stdout is not None and self._holder.stdout.readline() == b"mounted\n"
        self.files = Path(f"/proc/{self._holder.pid}/root{disk}")
        self._through = (*ENTER, str(self._holder.pid))
        self._storage = {"path": str(disk), "allow_volatile": True}
        self._folder = folder / "table"

    def table(self, procedure: dict[str, object]) -> Tabled:
        env = {"WATCHDOG_USEC": "900000"}  # it is looked at three times a second
        return Tabled(self._folder, procedure=procedure, through=self._through, storage=self._storage, env=env)

    def fill(self) -> None:
        """To the last byte."""
        with (self.files / "filler").open("wb", buffering=0) as file:
            for size in (MIB, 4096):
                with contextlib.suppress(OSError):  # ENOSPC
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        (self.files / "filler").unlink()

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


def test_a_disk_that_fills_up_in_a_round_lets_it_end_and_no_other_begin(tmp_path: Path) -> None:
    """DESIGN 4: the reserve pays for the round; the panel says what stops; with space it goes on by itself."""
    with closing(SmallDisk(tmp_path, 128)) as disk, disk.table(BY_DEALER) as table:
        table.call("shoe.load")
        table.scan(*BURN)
        wait_for(lambda: table.status()["phase"] == "ready" and table.status()["link"]["up"], "the burn")
        table.call("round.start")
        wait_for(lambda: "SAQUE" in panel(table), "the end of the betting")
        table.scan(*ROUND[:2])
        wait_for(lambda: len(table.status()["slots"]) == 2, "two cards")
        disk.fill()
        table.scan(*ROUND[2:])
        wait_for(lambda: table.status()["phase"] == "result", "the round's end on a full disk")
        wait_for(lambda: "disk" in codes(table), "the disk's fault")
        wait_for(lambda: _accepted(table, "round.confirm"), "the result's 0.7 s")
        assert "ALTO: DISCO" in panel(table)
        with pytest.raises(RefusedError, match="disk"):
            table.call("round.start")
        time.sleep(2)  # nothing is to be stored any more, the publisher's cursor included
        disk.free()
        wait_for(lambda: not codes(table), "the fault to end by itself")
        assert (disk.files / "reserve").stat().st_size == 16 * MIB, "the reserve is there again"
        table.call("round.start")
        assert table.stop() == STOPPED
    (completed,) = consumed(table).data("round.completed")
    assert (completed["player"]["cards"], completed["banker"]["cards"]) == (["8H", "KS"], ["2D", "3C"])
    faults = consumed(table).data("fault.raised"), consumed(table).data("fault.cleared")
    assert [len(each) for each in faults] == [1, 1]


def _accepted(table: Tabled, method: str) -> bool:
    try:
        table.call(method)
    except RefusedError:
        return False
    return True


def test_a_disk_without_a_byte_left_shows_alto_and_loses_nothing(tmp_path: Path) -> None:
    """No reserve either: the card waits in line, shown nowhere, until there is space."""
    with closing(SmallDisk(tmp_path, 128)) as disk, disk.table(FREE_RUNNING) as table:
        table.call("shoe.load")
        table.scan(*BURN, ROUND[0])
        wait_for(lambda: table.status()["slots"], "a card")
        (disk.files / "reserve").unlink()
        disk.fill()
        table.scan(*ROUND[1:3])
        wait_for(lambda: "NO SAQUE CARTAS" in panel(table), "ALTO: DISCO")
        before = table.status()
        assert len(before["slots"]) < 3, "what is not on the disk is not shown"
        wait_for(lambda: table.said().count("could not commit") == 1, "one word about it in the log")
        disk.free()
        wait_for(lambda: len(table.status()["slots"]) == 3, "the table to go on")
        assert table.stop() == STOPPED
    assert [data["card"] for data in consumed(table).data("card.dealt")] == [*ROUND[:3]]


def test_a_full_disk_at_the_start_is_tried_again(tmp_path: Path) -> None:
    """Exit 1: systemd starts it again, and it is up as soon as there is space; 78 would leave the table dark."""
    with closing(SmallDisk(tmp_path, 40)) as disk, disk.table(FREE_RUNNING) as table:
        assert table.stop() == STOPPED
        for name in ("reserve", "journal.db-shm", "journal.db-wal"):
            (disk.files / name).unlink(missing_ok=True)
        disk.fill()
        refused(table, "the disk under", "is full", "free space there", code=FAILED)
        disk.free()
        table.start()
        assert table.stop() == STOPPED
