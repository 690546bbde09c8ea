"""`tablectl doctor`: each thing that can be wrong has its row, with what to do; a table at work notices nothing."""

import asyncio
import datetime as dt
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller import keys, offline
from controller.adapters.journal_sqlite import JournalSqlite
from controller.control.parts import PARTS
from controller.doctor import Host
from controller.link import hosts
from tests.adapters.test_mqtt_tls import CASES, Casino
from tests.authority import DAY, NOW, Authority, listener
from tests.broker import HOST, Broker, Subscriber, free_port
from tests.live import LiveTable, wait_for
from tests.pages import ROOT, page, spans_of
from tests.table_rig import FREE_RUNNING, WALL_NS, Rig

MEMBERS = {"check", "status", "text", "cure"}


def worst_last(row: dict[str, str]) -> int:
    return ("ok", "warn", "fail").index(row["status"])


def silent(_command: Sequence[str]) -> str:
    """A machine without systemd and udev."""
    return ""


class Patient:
    """A table's folder and configuration; `look` is what the doctor finds, by check."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.state = folder, folder / "table.yaml", folder / "state"
        self.state.mkdir(mode=0o700)
        self.host: dict[str, Any] = {"ask": silent, "synchronised": lambda: True}
        self.config: dict[str, Any] = {
            "table": {"id": "BAC-07"},
            "profile": "seeds-commission",
            "casino": {"primary": "file", "file": {"path": str(self.state / "feed.jsonl")}},
            "storage": {"path": str(self.state), "allow_volatile": True},
            "control": {"socket": str(folder / "control.sock")},
        }

    def mqtt(self, port: int, **more: Any) -> None:  # noqa: ANN401 - any key
        self.config["casino"] = {"primary": "mqtt", "mqtt": {"host": HOST, "port": port, **more}}

    def journal(self) -> None:
        """A table has begun on it, an hour ago."""
        self.host["now"] = lambda: dt.datetime.fromtimestamp(WALL_NS / 1e9 + 3_600, dt.UTC)

        async def table() -> None:
            key = keys.make(self.state / "table.key")
            journal = JournalSqlite(self.state, allow_volatile=True, reserve_bytes=0)
            journal.open()
            try:
                async with Rig(FREE_RUNNING, journal=journal, key=key) as rig:
                    await rig.load()
            finally:
                journal.close()

        asyncio.run(table())

    def look(self) -> dict[str, dict[str, str]]:
        if not self.path.exists():
            self.path.write_text(json.dumps(self.config), encoding="utf-8")
        rows = offline.examine(self.path, None, Host(**self.host))
        assert all(row.keys() == MEMBERS for row in rows)
        assert [row for row in rows if row["status"] != "ok" and not row["cure"]] == []
        assert {row["check"] for row in rows if not listed(row["check"])} == set()
        return {row["check"]: row for row in sorted(rows, key=worst_last)}


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    return Patient(tmp_path)


GUIDE = page("docs/technician.md").sections(2)["The doctor"]
CHECKS = [span for row in GUIDE.rows() for span in spans_of(row[0])]


def listed(check: str) -> bool:
    """Whether the guide has it; … stands for a name."""
    return any(check == name or ("…" in name and check.startswith(name.partition("…")[0])) for name in CHECKS)


def test_the_guide_has_no_check_that_is_none() -> None:
    said = set(re.findall(r'"([a-z_.]+)"', (ROOT / "controller" / "doctor.py").read_text()))
    named = {"backlog.…", "standing.…", *PARTS, *(f"{part}.…" for part in hosts.PARTS)}
    assert set(CHECKS) - said - named == set()


# --- what is well -----------------------------------------------------------------------------------------------


def test_a_table_that_is_well_and_stopped(patient: Patient) -> None:
    patient.journal()
    found = patient.look()
    assert {check for check, row in found.items() if row["status"] == "fail"} == set()
    assert {check for check, row in found.items() if row["status"] == "warn"} == {"config", "table", "storage.disk"} - (
        set() if found["storage.disk"]["status"] == "warn" else {"storage.disk"}
    )
    assert found["storage.journal"]["text"].endswith("messages")
    assert found["key"]["text"].startswith("keyid ")


# --- what can be wrong ------------------------------------------------------------------------------------------


def no_folder(patient: Patient) -> None:
    patient.config["storage"]["path"] = str(patient.folder / "gone")


def a_file_for_a_folder(patient: Patient) -> None:
    (patient.folder / "file").touch()
    patient.config["storage"]["path"] = str(patient.folder / "file")


def open_folder(patient: Patient) -> None:
    patient.state.chmod(0o777)


def shut_folder(patient: Patient) -> None:
    patient.state.chmod(0o500)


def open_key(patient: Patient) -> None:
    patient.journal()
    (patient.state / "table.key").chmod(0o644)


def another_key(patient: Patient) -> None:
    patient.journal()
    (patient.state / "table.key").unlink()
    keys.make(patient.state / "table.key")


def no_key_at_all(patient: Patient) -> None:
    (patient.state / "table.key").write_text("hello")
    (patient.state / "table.key").chmod(0o600)


def damaged(patient: Patient) -> None:
    (patient.state / "journal.db").write_bytes(b"x" * 5_000)


def torn(patient: Patient) -> None:
    patient.journal()
    with sqlite3.connect(patient.state / "journal.db") as line:
        line.execute("DROP TRIGGER row_update")
        line.execute("UPDATE row SET body = CAST(body || ' ' AS BLOB) WHERE id = (SELECT max(id) FROM row)")
    line.close()


def a_clock_that_was_ahead(patient: Patient) -> None:
    patient.journal()
    patient.host["now"] = lambda: dt.datetime(2001, 1, 1, tzinfo=dt.UTC)


def a_clock_in_the_past(patient: Patient) -> None:
    patient.journal()
    patient.host["synchronised"] = lambda: False
    patient.host["now"] = lambda: dt.datetime(2001, 1, 1, tzinfo=dt.UTC)


def nobody_sets_the_clock(patient: Patient) -> None:
    patient.host["synchronised"] = lambda: False


def a_clock_that_may_not_be_asked(patient: Patient) -> None:
    def denied() -> bool:
        raise OSError(1, "adjtimex: Operation not permitted: the unit must allow this call")

    patient.host["synchronised"] = denied


def no_scanner(patient: Patient) -> None:
    patient.config["scanner"] = {"driver": "serial", "port": str(patient.folder / "scanner")}


def a_login_on_the_scanner(patient: Patient) -> None:
    no_scanner(patient)
    (patient.folder / "scanner").touch()
    patient.host["ask"] = lambda command: (
        f"getty@{patient.folder}/scanner.service loaded active running x" if "systemctl" in command[0] else ""
    )


def no_pins(patient: Patient) -> None:
    (patient.folder / "dev").mkdir()
    patient.host["dev"] = patient.folder / "dev"
    patient.config["buttons"] = {"driver": "gpio", "start": 16, "confirm": 20, "call": 21}


def no_panel(patient: Patient) -> None:
    no_pins(patient)
    patient.config["display"] = {"driver": "ssd1309", "interface": "i2c", "bus": 1}


def no_feed_folder(patient: Patient) -> None:
    patient.config["casino"]["file"]["path"] = str(patient.folder / "gone" / "feed.jsonl")


def a_feed_that_is_no_file(patient: Patient) -> None:
    patient.config["casino"]["file"]["path"] = str(patient.state)


def nobody_listens(patient: Patient) -> None:
    patient.mqtt(free_port())


def no_such_host(patient: Patient) -> None:
    patient.mqtt(1883, host="no-such-host.invalid")


def no_authority(patient: Patient) -> None:
    patient.mqtt(free_port(), tls={"ca": str(patient.folder / "ca.pem")})


def an_open_password(patient: Patient) -> None:
    path = patient.folder / "password"
    path.write_text("secret")
    path.chmod(0o644)
    patient.mqtt(free_port(), username="table", password_file=str(path))


def certificate(patient: Patient, **dates: Any) -> None:  # noqa: ANN401 - of Authority.issue
    authority = Authority(patient.folder)
    cert, key = authority.issue("table", **dates)
    patient.mqtt(free_port(), tls={"ca": authority.ca, "cert": cert, "key": key})


def a_certificate_that_ends_soon(patient: Patient) -> None:
    certificate(patient, days=29)


def a_certificate_that_has_ended(patient: Patient) -> None:
    certificate(patient, begins=NOW - 9 * DAY)


def a_certificate_from_tomorrow_on(patient: Patient) -> None:
    certificate(patient, begins=NOW + DAY)


def no_certificate(patient: Patient) -> None:
    certificate(patient)
    Path(patient.config["casino"]["mqtt"]["tls"]["cert"]).write_text("none")


def no_configuration(patient: Patient) -> None:
    patient.config["table"]["langauge"] = "es"


def no_profile(patient: Patient) -> None:
    patient.config["profile"] = "house"


class Ill(NamedTuple):
    how: Callable[[Patient], None]
    check: str
    status: str
    text: str
    cure: str


ILLS = [
    Ill(no_configuration, "config", "fail", "unknown key 'langauge': did you mean 'language'?", "correct {table}:1:"),
    Ill(no_profile, "config", "fail", "no such profile", "correct "),
    Ill(no_folder, "storage.folder", "fail", "gone: No such file", "make it"),
    Ill(a_file_for_a_folder, "storage.folder", "fail", "is no folder", "make the folder"),
    Ill(open_folder, "storage.folder", "warn", "others than its owner may write in it", "sudo chmod go-w"),
    Ill(shut_folder, "storage.folder", "fail", "its owner may not write", "sudo chmod u+rwx"),
    Ill(damaged, "storage.journal", "fail", "is damaged", "tablectl journal verify"),
    Ill(torn, "storage.journal", "fail", "does not match its hash", "tablectl journal verify"),
    Ill(open_key, "key.file", "fail", "mode 0644", "sudo chmod 600"),
    Ill(another_key, "key", "fail", "table.key is not the key of this journal", "put that key back"),
    Ill(no_key_at_all, "key", "fail", "holds no unencrypted key in PEM", "make a new one"),
    Ill(a_clock_in_the_past, "clock.journal", "fail", "the clock says 2001-01-01 00:00:00 UTC", "set the clock"),
    Ill(a_clock_that_was_ahead, "clock.journal", "warn", "the clock says 2001-01-01 00:00:00 UTC", "tell casino IT"),
    Ill(nobody_sets_the_clock, "clock.synchronised", "warn", "nobody sets the clock", "start chrony"),
    Ill(a_clock_that_may_not_be_asked, "clock.synchronised", "warn", "not permitted", "must allow this call"),
    Ill(no_scanner, "scanner.port", "fail", "scanner is not there", "check plug and power"),
    Ill(a_login_on_the_scanner, "scanner.login", "fail", "takes bytes that are the table's", "systemctl mask"),
    Ill(no_pins, "gpio", "fail", "/dev/gpiochip* is not there", "Raspberry Pi"),
    Ill(no_panel, "display", "fail", "/dev/i2c-1 is not there", "dtparam=i2c=on"),
    Ill(no_feed_folder, "casino.file", "fail", "gone is no folder", "casino.file.path"),
    Ill(a_feed_that_is_no_file, "casino.file", "fail", "is no regular file", "casino.file.path"),
    Ill(nobody_listens, "casino.mqtt", "fail", "refuses", "is the broker running"),
    Ill(no_such_host, "casino.mqtt", "fail", "no address for no-such-host.invalid", "check the name"),
    Ill(no_authority, "casino.mqtt", "fail", "cannot read", "correct casino.mqtt.tls"),
    Ill(an_open_password, "casino.password.file", "fail", "mode 0644", "sudo chmod 600"),
    Ill(a_certificate_that_ends_soon, "casino.tls_cert", "warn", "expires on", "ask casino IT"),
    Ill(a_certificate_that_has_ended, "casino.tls_cert", "fail", "has expired on", "ask casino IT"),
    Ill(a_certificate_from_tomorrow_on, "casino.tls_cert", "fail", "is not valid before", "set the clock"),
    Ill(no_certificate, "casino.tls_cert", "fail", "holds no certificate in PEM", "ask casino IT"),
]


@pytest.mark.parametrize("ill", ILLS, ids=[ill.how.__name__ for ill in ILLS])
def test_each_ill_has_its_row_and_its_cure(ill: Ill, patient: Patient) -> None:
    ill.how(patient)
    row = patient.look()[ill.check]
    assert row["status"] == ill.status
    assert ill.text in row["text"]
    assert ill.cure.format(table=patient.path) in row["cure"]


def test_the_journal_was_read_and_left_as_it_was(patient: Patient) -> None:
    patient.journal()
    before = {path.name: path.read_bytes() for path in patient.state.iterdir()}
    patient.look()
    after = {path.name: path.read_bytes() for path in patient.state.iterdir() if path.suffix != ".db-shm"}
    assert {name: data for name, data in after.items() if data} == before, "SQLite leaves a WAL with nothing in it"


# --- the broker -------------------------------------------------------------------------------------------------

TLS = {  # what the doctor says of each certificate of the publisher's own tests
    "a wrong authority": "is signed by an authority that casino.mqtt.tls.ca does not hold",
    "another address": "is for another address",
    "another name": "is for another address",
    "expired": "has expired",
    "not yet valid": "is not valid yet",
    "a clock that nobody set": "is not valid yet by this table's clock, which nobody has set: it says 20",
    "no certificate of ours": "asks for this table's certificate",
    "a revoked one": "says that this table's certificate is revoked",
    "an expired one": "says that this table's certificate has expired",
    "one of a stranger": "does not know who signed this table's certificate",
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # paho drops the socket of a failed TLS handshake
def test_each_certificate_that_is_wrong_has_its_own_sentence(name: str, patient: Patient) -> None:
    case = CASES[name]
    casino = Casino(patient.folder, case)
    tls = casino.tls
    own = {} if tls.cert is None else {"cert": tls.cert, "key": tls.key}
    with Broker(patient.folder, listener=casino.listener) as broker:
        patient.mqtt(broker.port, tls={"ca": tls.ca, **own})
        patient.host["synchronised"] = lambda: case.clock_is_set
        row = patient.look()["casino.mqtt"]
    assert row["status"] == "fail"
    said = row["text"].removeprefix("the certificate of ").partition(" ")[2]
    assert said.startswith(TLS[name])
    assert ("this table's clock" in said) == ("this table's clock" in TLS[name])


def test_a_broker_that_lets_the_table_in(patient: Patient) -> None:
    (patient.folder / "ours").mkdir()
    ours = Authority(patient.folder / "ours")
    cert, key = ours.issue("table", days=99)
    Path(key).chmod(0o600)
    lines = listener(ours, *ours.issue("broker"), "require_certificate true")
    with Broker(patient.folder, listener=lines) as broker:
        patient.mqtt(broker.port, tls={"ca": ours.ca, "cert": cert, "key": key})
        found = patient.look()
    assert [found[f"casino.{check}"]["status"] for check in ("mqtt", "tls_cert", "tls_key.file")] == ["ok"] * 3


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [(b"online", "ok", "is online on"), (b'{"status":"offline"}', "fail", "says that it is offline on")],
)
def test_what_the_casino_server_says_of_itself(said: bytes, status: str, words: str, patient: Patient) -> None:
    with Broker(patient.folder) as broker:
        with Subscriber(broker.port, name="server") as server:
            server.publish("casino/status", said, retain=True)
        patient.mqtt(broker.port, server_status="casino/status")
        row = patient.look()["casino.server"]
    assert row["status"] == status
    assert words in row["text"]


# --- beside a table at work -------------------------------------------------------------------------------------


def doctor(table: LiveTable) -> tuple[int, dict[str, dict[str, str]]]:
    command = [sys.executable, "-m", "controller.cli", "--config", str(table.config), "doctor", "--json"]
    ran = subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=ROOT, text=True)
    assert ran.stderr == ""
    rows = json.loads(ran.stdout)
    assert {row["check"] for row in rows if not listed(row["check"])} == set()
    return ran.returncode, {row["check"]: row for row in sorted(rows, key=worst_last)}


REFUSED = ["a wrong authority", *(pytest.param(name, marks=pytest.mark.soak) for name in list(CASES)[1:])]


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_is_refused_keeps_dealing(name: str, tmp_path: Path) -> None:
    """The primary is a file, and no certificate fits at the broker: rounds go on, and the doctor names it."""
    casino = Casino(tmp_path, CASES[name])
    own = {} if casino.tls.cert is None else {"cert": casino.tls.cert, "key": casino.tls.key}
    if casino.tls.key is not None:
        Path(casino.tls.key).chmod(0o600)
    with Broker(tmp_path, listener=casino.listener) as broker:
        mqtt = {"host": HOST, "port": broker.port, "tls": {"ca": casino.tls.ca, **own}}
        sections = {"primary": "file", "file": {"path": str(tmp_path / "feed.jsonl")}, "mqtt": mqtt}
        with LiveTable(tmp_path, casino=sections) as table:
            table.call("shoe.load")
            table.scan("AS", "2S", "2H", "TC", "3D", "5C", "4S")
            code, found = doctor(table)
            table.scan("6D", "8H")
            wait_for(lambda: table.status()["slots"] == {"P1": "8H"}, "the second round")
            wait_for(lambda: table.status()["backlog"]["file"] == 0, "the feed in its file")
            assert table.stop() == 0
    assert code == 1
    ours = {"casino.tls_cert"} if CASES[name].expired else set()
    assert {check for check, row in found.items() if row["status"] == "fail"} == {"casino.mqtt"} | ours
    assert TLS[name].partition(" by this table's clock")[0] in found["casino.mqtt"]["text"]
    assert [found[check]["status"] for check in ("table", "link", "scanner", "casino.file")] == ["ok"] * 4
    assert re.fullmatch(r"[1-9]\d* messages without a receipt", found["backlog.mqtt"]["text"])
    completed = [json.loads(line)["type"] for line in (tmp_path / "feed.jsonl").read_bytes().splitlines()]
    assert completed.count("baccarat.round.completed.v1") == 1


def test_a_table_that_is_connected_does_not_notice(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Subscriber(broker.port, "baccarat/#") as casino:
        mqtt = {"primary": "mqtt", "receipt": "broker", "mqtt": {"host": HOST, "port": broker.port}}
        with LiveTable(tmp_path, casino=mqtt) as table:
            wait_for(lambda: table.status()["link"]["up"], "the link")
            wait_for(lambda: table.status()["backlog"] == {"mqtt": 0}, "every receipt")
            casino.wait(lambda: casino.on("status"), "online")
            heard = len(casino.got)
            code, found = doctor(table)
            assert doctor(table)[0] == code
            table.call("shoe.load")
            wait_for(lambda: table.status()["backlog"] == {"mqtt": 0}, "every receipt")
            assert table.status()["link"]["up"]
            told = [json.loads(got.payload)["status"] for got in casino.on("status")]
            assert "not connected" not in table.said()
            assert table.stop() == 0
        log = broker.log
    assert (code, found["casino.mqtt"]["status"], found["link"]["status"]) == (0, "ok", "ok")
    assert told == ["online"]
    assert {got.topic.rpartition("/")[2] for got in casino.got[heard:]} <= {"feed", "state", "status"}
    assert log.count("-doctor") >= 2
    assert "already connected" not in log


def test_what_people_read(tmp_path: Path) -> None:
    """And what stands over the table is told, with who ends it."""
    sections = {"primary": "file", "file": {"path": str(tmp_path / "feed.jsonl")}}
    with LiveTable(tmp_path, casino=sections) as table:
        table.call("shoe.load")
        table.scan("AS", "2S", "2H", "NOREAD")
        wait_for(lambda: table.status()["conditions"], "a misread")
        command = [sys.executable, "-m", "controller.cli", "--config", str(table.config), "doctor"]
        ran = subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=ROOT, text=True)
        assert table.stop() == 0
    assert ran.returncode == 0
    lines = ran.stdout.splitlines()
    place = next(n for n, line in enumerate(lines) if line.split()[:2] == ["warn", "standing.I01"])
    assert lines[place].endswith("I01 stands and stops cards")
    assert lines[place + 1].strip() == "do: the table's people choose: rescan (dealer), manual (pit)"
    assert lines[-1].endswith(" to know of")


def test_a_table_whose_configuration_is_lost_is_asked_by_its_socket(tmp_path: Path) -> None:
    sections = {"primary": "file", "file": {"path": str(tmp_path / "feed.jsonl")}}
    with LiveTable(tmp_path, casino=sections) as table:
        rows = offline.examine(tmp_path / "gone.yaml", str(table.socket))
        assert table.stop() == 0
    assert [row["status"] for row in rows if row["check"] == "config"] == ["fail"]
    assert [row["status"] for row in rows if row["check"] == "table"] == ["ok"]
