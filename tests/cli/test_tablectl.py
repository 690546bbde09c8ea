"""`tablectl` as a technician has it: what it prints, where, and its exit codes (DESIGN 7)."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller import keys
from controller.adapters.journal_sqlite import JournalSqlite, claim
from controller.cli import show, tablectl
from controller.control.parts import INNER, PARTS
from tests.control.served import in_background
from tests.pages import page
from tests.shoes import SHOES, expected, told
from tests.table_rig import BY_DEALER, FREE_RUNNING, Rig
from tests.technician import Ran, run

DONE, NO, USAGE, ABSENT, REFUSED = 0, 1, 2, 3, 4
REPO = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _nobody_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No table of this machine is asked, and no configuration of it is read."""
    monkeypatch.delenv("BACCARAT_SOCKET", raising=False)
    monkeypatch.setattr(tablectl, "DEFAULT_SOCKET", str(tmp_path / "default.sock"))
    monkeypatch.setattr(tablectl, "DEFAULT_CONFIG", tmp_path / "default.yaml")


def start(*arguments: str | Path, **environ: str) -> "subprocess.CompletedProcess[bytes]":
    """The program itself, its output a pipe."""
    command = [sys.executable, "-m", "controller.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=REPO, env=os.environ | environ)


async def nothing(rig: Rig) -> None:
    """Before the first shoe."""


async def a_round(rig: Rig) -> None:
    await rig.load()
    await rig.scan("2H TC 3D 5C 4S 6D 8H")


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[Path]:
    """A free-running table in its second round."""
    with in_background(tmp_path, Rig, a_round) as (path, _):
        yield path


CONFIG = """
table: {{id: BAC-07}}
profile: seeds-commission
casino: {{primary: file, file: {{path: {folder}/feed.jsonl}}}}
storage: {{path: {folder}, allow_volatile: true}}
control: {{socket: {folder}/control.sock}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "table.yaml"
    path.write_text(CONFIG.format(folder=tmp_path))
    return path


@pytest.fixture
def kept(tmp_path: Path, config: Path) -> Path:
    """The configuration of a table that is down, with a journal of two rounds and its export."""

    async def table() -> None:
        journal = JournalSqlite(tmp_path, allow_volatile=True, reserve_bytes=0)
        journal.open()
        try:
            async with Rig(FREE_RUNNING, journal=journal) as rig:
                await rig.load()
                await rig.scan("2H TC 3D 5C 4S 6D 8H TC 2D 9C")
                sent = journal.read(0, 1000)
        finally:
            journal.close()
        (tmp_path / "feed.jsonl").write_bytes(b"".join(message.data + b"\n" for message in sent))

    asyncio.run(table())
    return config


# --- look -----------------------------------------------------------------------------------------------------


def test_status(socket: Path) -> None:
    ran = run("--socket", socket, "status")
    assert (ran.code, ran.err) == (DONE, "")
    said = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert said["panel"] == "BANKER 1ST / DRAW A CARD"
    assert said["phase"] == "dealing, shoe 1, round 2, counted 1"
    assert said["cards"] == "P1 8H"
    assert said["lamps"] == "off"
    assert said["link"] == "up"
    assert said["feed"].startswith("generation 68f1c2d4-9be01a77, message ")
    told_ = run("--socket", socket, "status", "--json").json
    assert (told_["phase"], told_["slots"], told_["counted"]) == ("dealing", {"P1": "8H"}, 1)


def test_status_tells_that_the_key_is_turned(socket: Path) -> None:
    told_ = run("--socket", socket, "status", "--json").json
    assert not any(line.startswith("switch") for line in show.status(told_))
    assert "switch    the key is turned" in list(show.status(told_ | {"key_turned": True}))


def test_status_tells_what_stands_and_who_may_resolve_it(tmp_path: Path) -> None:
    async def early(rig: Rig) -> None:
        await rig.load()
        await rig.bet_early("9D")

    with in_background(tmp_path, lambda: Rig(BY_DEALER), early) as (path, _):
        out = run("--socket", path, "status").out
    assert "standing  I07 stops cards: void (pit), burn (pit), dummy (pit)  (n=3 seen=yes)" in out
    assert re.search(r"^lamps +no_more, call$", out, re.MULTILINE)


def test_recall_is_marked_and_in_both_orders(socket: Path) -> None:
    ran = run("--socket", socket, "recall", "5")
    assert ran.code == DONE
    assert ran.out.splitlines()[0] == ("RECALL shoe 1 round 1  2026-11-29T21:04:05.008Z  player, player 9, banker 1")
    assert "  P1 2H  card 3, scan, 2026-11-29T21:04:05.003Z" in ran.out
    assert "  picked up right to left: 6D (B3)  5C (B2)  TC (B1)  4S (P3)  3D (P2)  2H (P1)" in ran.out
    assert run("--socket", socket, "recall", "--json").json["rounds"][0]["outcome"] == "player"


def test_recall_and_verify_read_the_journal_when_the_daemon_is_down(kept: Path) -> None:
    ran = run("--config", kept, "recall", "1", "--json")
    assert ran.code == DONE
    assert [one["round"] for one in ran.json["rounds"]] == [2]
    assert "the daemon is not there: this is from" in ran.err
    ran = run("--config", kept, "journal", "verify")
    assert ran.code == DONE
    assert re.fullmatch(r"the journal: good: \d+ rows and \d+ messages, chain and signatures\n", ran.out)


def test_a_named_socket_is_not_taken_for_another_tables_journal(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tablectl, "DEFAULT_CONFIG", kept)
    assert run("recall", "--json").json["rounds"]
    for arguments in (("recall",), ("journal", "verify")):
        assert run("--socket", kept.parent / "absent", *arguments).code == ABSENT


def test_monitor_prints_as_it_happens(tmp_path: Path) -> None:
    with in_background(tmp_path, Rig, nothing) as (path, act):
        command = [sys.executable, "-m", "controller.cli", "--socket", str(path), "monitor"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPO) as program:
            assert program.stdout is not None
            first = program.stdout.readline()
            assert first == b"table BAC-07, live, version 0.1.0\n"
            act(a_round)
            heard = [first]
            while b"round.completed" not in heard[-1]:
                heard.append(program.stdout.readline())
            assert b"outcome=player" in heard[-1]
            assert any(b"card.dealt" in line and b"slot=P1 card=2H" in line for line in heard)
            program.terminate()
        with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, cwd=REPO) as program:
            assert program.stdout is not None
            assert json.loads(program.stdout.readline())["phase"] == "dealing"
            act(lambda rig: rig.scan("TC"))
            assert json.loads(program.stdout.readline())["facts"][0]["data"]["card"] == "TC"
            program.send_signal(signal.SIGINT)  # Ctrl-C
            assert program.wait(30) == DONE


def test_a_monitor_whose_table_goes_away_says_so(tmp_path: Path) -> None:
    with in_background(tmp_path, Rig, nothing) as (path, _):
        command = [sys.executable, "-m", "controller.cli", "--socket", str(path), "monitor", "--json"]
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPO)
        assert program.stdout is not None
        program.stdout.readline()
    _, err = program.communicate(timeout=30)
    assert program.returncode == ABSENT
    assert b"it hung up" in err


# --- act ------------------------------------------------------------------------------------------------------


def test_a_shoe_and_a_round_by_hand(tmp_path: Path) -> None:
    with in_background(tmp_path, lambda: Rig(BY_DEALER), nothing) as (path, act):

        def do(*arguments: str) -> Ran:
            ran = run("--socket", path, *arguments)
            assert ran.code == DONE, ran
            return ran

        do("shoe", "next", "--by", "dealer")
        assert "BURN" in do("shoe", "load").out
        act(lambda rig: rig.scan("AS 2S"))
        assert do("round", "start", "--json").json["phase"] == "betting"
        act(lambda rig: rig.scan("9D"))
        do("round", "resolve", "I07", "burn", "--by", "dealer, boss", "--reason", "face down")
        do("round", "report", "I16", "--by", "dealer")
        do("round", "resolve", "I16", "continue", "--by", "dealer,boss")
        do("round", "call")
        do("round", "start")
        act(lambda rig: rig.later(15))
        act(lambda rig: rig.scan("8H TC 2D 9C"))
        do("round", "hold")
        act(lambda rig: rig.scan("9C"))
        act(lambda rig: rig.later(1))
        assert do("round", "confirm", "--json").json["counted"] == 1
        do("round", "start")
        do("round", "void", "--by", "dealer,boss", "--reason", "a card fell")
        do("shoe", "end", "--by", "dealer,boss")
        assert do("shoe", "left", "409", "--by", "dealer,boss", "--json").json["phase"] == "preparing"
        rounds = do("recall", "--json").json["rounds"]
        ended = [(one["ended"], one.get("reason"), one.get("by")) for one in rounds]
        assert ended == [
            ("voided", "card_before_time", ["dealer", "boss"]),
            ("completed", None, None),
            ("cancelled", "a card fell", ["dealer", "boss"]),
        ]


CODES = [  # arguments, exit code, where it is said, what
    (("round", "start"), REFUSED, "err", "follow what the panel asks for"),
    (("round", "confirm"), REFUSED, "err", "follow what the panel asks for"),
    (("round", "close"), REFUSED, "err", "follow what the panel asks for"),
    (("round", "void", "--reason", "x"), REFUSED, "err", "--by DEALER,BOSS"),
    (("round", "void", "--reason", "x", "--by", "dealer"), REFUSED, "err", "--by DEALER,BOSS"),
    (("round", "resolve", "I05", "void"), REFUSED, "err", "I05 is not pending"),
    (("round", "report", "I07"), REFUSED, "err", "what people report is: I16"),
    (("round", "report"), USAGE, "err", "CODE"),
    (("shoe", "load"), REFUSED, "err", "follow what the panel asks for"),
    (("shoe", "left", "3"), REFUSED, "err", "follow what the panel asks for"),
    (("shoe", "end", "--reason", "lunch", "--by", "a,b"), REFUSED, "err", "discretion fault day_end"),
    (("round", "void"), USAGE, "err", "--reason"),
    (("round", "start", "--by", "Ana María"), USAGE, "err", "staff ids"),
    (("round", "resolve", "I01", "manual", "--card", "8h"), USAGE, "err", "as in 8H"),
    (("round", "resolve", "I01"), USAGE, "err", "CHOICE"),
    (("shoe", "left", "-1"), USAGE, "err", ""),
    (("shoe", "left", "many"), USAGE, "err", ""),
    (("shoe", "left"), USAGE, "err", "N"),
    (("recall", "0"), USAGE, "err", ""),
    (("recall", "101"), USAGE, "err", ""),
    (("stattus",), USAGE, "err", "stattus"),
    (("status", "--jsn"), USAGE, "err", "--jsn"),
    ((), USAGE, "", "Usage"),
    (("--help",), DONE, "out", "Exit codes"),
    (("round", "--help"), DONE, "out", "resolve"),
    (("status", "-h"), DONE, "out", "--json"),
    (("journal", "verify"), DONE, "out", "good"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "where", "said"), CODES)
def test_exit_codes(socket: Path, arguments: tuple[str, ...], code: int, where: str, said: str) -> None:
    before = run("--socket", socket, "status", "--json").json["seqno"]
    ran = run("--socket", socket, *arguments)
    assert ran.code == code, ran
    assert said in (ran.out + ran.err if not where else getattr(ran, where))
    assert "Traceback" not in ran.out + ran.err
    assert run("--socket", socket, "status", "--json").json["seqno"] == before


def test_a_refusal_as_json(socket: Path) -> None:
    ran = run("--socket", socket, "shoe", "end", "--json")
    assert ran.code == REFUSED
    assert ran.json["refused"]["key"] == "needs_pit"
    assert ran.json["refused"]["text"] in ran.err


ASKING = (("status",), ("monitor",), ("recall",), ("round", "start"), ("shoe", "next"), ("journal", "verify"))


@pytest.mark.parametrize("arguments", ASKING)
def test_the_daemon_is_not_there(arguments: tuple[str, ...], tmp_path: Path) -> None:
    for before in ((), ("--socket", str(tmp_path / "absent"))):
        ran = run(*before, *arguments)
        assert (ran.code, ran.out) == (ABSENT, "")
        assert "start tabled, or name its socket with --socket" in ran.err


def test_the_socket_comes_from_the_option_the_variable_the_configuration_or_the_default(
    socket: Path, config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run("--config", config, "status").code == DONE  # its control.socket is `socket`
    assert run("status").code == ABSENT
    monkeypatch.setattr(tablectl, "DEFAULT_CONFIG", config)
    assert run("status").code == DONE
    monkeypatch.setattr(tablectl, "DEFAULT_CONFIG", tmp_path / "absent.yaml")
    monkeypatch.setattr(tablectl, "DEFAULT_SOCKET", str(socket))
    assert run("status").code == DONE
    monkeypatch.setenv("BACCARAT_SOCKET", str(tmp_path / "elsewhere"))
    assert run("status").code == ABSENT
    assert run("--socket", socket, "status").code == DONE
    monkeypatch.setenv("BACCARAT_SOCKET", str(socket))
    assert run("--config", tmp_path / "absent.yaml", "status").code == DONE


def test_a_configuration_that_cannot_be_used_says_why(config: Path) -> None:
    config.write_text(config.read_text().replace("primary", "primry"))
    ran = run("--config", config, "status")
    assert ran.code == NO
    assert "did you mean 'primary'" in ran.err


# --- with the daemon down -------------------------------------------------------------------------------------


def test_deal_gives_the_oracles_rounds(tmp_path: Path) -> None:
    """The last of the ten; `tests/test_offline.py` has them all."""
    shoe = SHOES[-1]
    script = tmp_path / "shoe.txt"
    script.write_text("\n".join("cut" if what == "cut" else code for what, code in shoe.events))
    ran = run("deal", script)
    assert ran.code == DONE, ran.err
    assert [told(json.loads(line)) for line in ran.out.splitlines()] == [expected(hand) for hand in shoe.hands]
    assert run("deal", script, "--profile", "seeds-commission", "--json") == ran


def test_deal_reads_a_pipe_and_takes_a_profile() -> None:
    command = [sys.executable, "-m", "controller.cli", "deal", "-", "--profile", "seeds-classic"]
    ran = subprocess.run(command, input=b"8H\nTC\n2D\n9C\n", capture_output=True, timeout=60, check=False, cwd=REPO)
    assert ran.returncode == DONE, ran.stderr
    assert list(json.loads(ran.stdout)["bets"]) == ["player", "banker", "tie"]


def test_deal_prints_what_was_right_and_names_the_line_that_is_not(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("8H\nTC\n2D\n9C\nXX\n")
    ran = run("deal", script, "--profile", "seeds-classic")
    assert ran.code == NO
    assert json.loads(ran.out)["outcome"] == "banker"
    assert ran.err.startswith("tablectl: line 5: 'XX' is no event")
    assert run("deal", tmp_path / "absent").code == USAGE
    ran = run("deal", script, "--profile", "seeds-clasic")
    assert ran.code == NO
    assert "did you mean seeds-classic" in ran.err


def test_journal_verify_of_a_file(kept: Path) -> None:
    folder = kept.parent
    public = json.loads((folder / "feed.jsonl").read_bytes().splitlines()[0])["data"]["publickey"]
    for name in ("journal.db", "feed.jsonl"):
        told_ = run("journal", "verify", folder / name, "--public-key", public, "--json")
        assert (told_.code, told_.json["ok"]) == (DONE, True)
    ran = run("journal", "verify", folder / "feed.jsonl", "--public-key", keys.ephemeral().public)
    assert ran.code == NO
    assert "NOT good: line 1, message 1: journal.opened announces the key" in ran.out
    ran = run("journal", "verify", folder / "absent")
    assert (ran.code, ran.out) == (NO, "")
    assert "cannot be read" in ran.err


def test_config_check_and_schema(config: Path) -> None:
    config.write_text(config.read_text().replace("allow_volatile: true", "allow_volatile: false"))
    ran = run("--config", config, "config", "check")
    assert (ran.code, ran.out) == (DONE, f"{config}: good\n")
    assert run("--config", config, "config", "check", "--json").json == {"ok": True, "problems": [], "warnings": []}
    config.write_text(config.read_text().replace("BAC-07", "no").replace("storage", "storrage"))
    ran = run("--config", config, "config", "check")
    assert ran.code == NO
    assert [line.split(": ")[0] for line in ran.out.splitlines()] == [f"{config}:2:13", f"{config}:5:1"]
    problems = run("--config", config, "config", "check", "--json").json["problems"]
    assert [problem["line"] for problem in problems] == [2, 5]
    assert run("config", "schema").json == run("config", "schema", "--json").json
    assert run("--config", config.parent / "absent", "config", "check").code == NO


def test_config_check_warns_and_says_yes(config: Path) -> None:
    ran = run("--config", config, "config", "check")
    volatile, good = ran.out.splitlines()
    assert ran.code == DONE
    assert volatile.startswith(f"{config}:5:") and ": warning: a journal in memory" in volatile
    assert good == f"{config}: good, 1 warning"
    with config.open("a") as file:
        file.write("scanner: {driver: serial, port: /dev/ttyUSB77}\n")
    assert run("--config", config, "config", "check").out.splitlines()[-1] == f"{config}: good, 2 warnings"
    told_ = run("--config", config, "config", "check", "--json")
    assert (told_.code, told_.json["ok"], len(told_.json["warnings"])) == (DONE, True, 2)


def test_config_show_and_set(config: Path) -> None:
    shown = run("--config", config, "config", "show")
    assert shown.code == DONE
    assert "  betting_seconds: 15\n" in shown.out
    assert run("--config", config, "config", "show", "--json").json["procedure"]["betting_seconds"] == 15
    ran = run("--config", config, "config", "set", "procedure.betting_seconds", "20")
    assert ran.code == DONE
    assert ran.out.splitlines()[-1] == (
        "procedure.betting_seconds is 20 now, and was left out; in force with: sudo systemctl restart baccarat-table"
    )
    assert run("--config", config, "config", "show", "--json").json["procedure"]["betting_seconds"] == 20
    ran = run("--config", config, "config", "set", "procedure.betting_seconds", "20")
    assert ran.out.splitlines()[-1] == "procedure.betting_seconds is 20 already"
    told_ = run("--config", config, "config", "set", "table.id", "BAC-08", "--json").json
    assert (told_["ok"], told_["key"], told_["before"], told_["changed"]) == (True, "table.id", "BAC-07", True)
    ran = run("--config", config, "config", "set", "table.id", "no")
    assert (ran.code, ran.out.splitlines()[-1]) == (NO, f"{config}: not changed")
    assert ran.out.startswith("the new value: no: some readers take this for yes or no")
    assert run("--config", config, "config", "set", "table.id").code == USAGE
    assert run("--config", config.parent / "absent", "config", "show").code == NO


def test_keys(config: Path, tmp_path: Path) -> None:
    made = run("--config", config, "keys", "new", "--json")
    assert made.code == DONE
    assert made.json["file"] == str(tmp_path / "table.key")
    assert run("--config", config, "keys", "show", "--json").json == made.json
    assert run("keys", "show", "--file", tmp_path / "table.key").out.splitlines()[2].split() == [
        "public_key",
        made.json["public_key"],
    ]
    ran = run("--config", config, "keys", "new")
    assert (ran.code, ran.out) == (NO, "")
    assert "never replaced" in ran.err
    assert "PRIVATE" not in made.out + made.err


# --- devices --------------------------------------------------------------------------------------------------

LAMPS = ((5, "timer lamp 1  "), (6, "timer lamp 2  "), (26, "red lamp      "))
PINS = """
gpio: {pin_factory: mock}
lamps: {driver: gpio, timer: [5, 6], red: 26}
buzzer: {driver: gpio, pin: 12}
buttons: {driver: gpio, start: 16, confirm: 20, call: 21}
shoe: {driver: gpio, exit_inner: 17, exit_outer: 27, lid: 23}
display: {driver: ssd1309, interface: i2c, bus: 22, address: 60}
scanner: {driver: serial, port: /dev/serial/by-id/absent}
"""
DIRECT = "tablectl: the daemon is not there, and cannot start until this ends\n"
SEEN = [
    ("buttons", ["buttons   gpio", "GPIO16    start          up, 0 edges", "GPIO20    confirm        up, 0 edges"]),
    ("lamps", ["lamps     gpio", *(f"GPIO{pin:<6}{name} off" for pin, name in LAMPS)]),
    ("scanner", ["scanner   serial, not open", "port      /dev/serial/by-id/absent", "lines     clean 0, dirty 0"]),
    ("shoe", ["shoe      gpio, not open", "moved     nothing yet", "GPIO17    exit_inner     not open, 0 edges"]),
    ("display", ["display   ssd1309, does not show", "place     0x3C on /dev/i2c-22"]),
]


@pytest.fixture
def devices(config: Path) -> Path:
    """The configuration of a table with devices, which is down."""
    config.write_text(config.read_text() + PINS)
    return config


@pytest.mark.parametrize(("part", "lines"), SEEN)
def test_diag_with_the_daemon_down(devices: Path, part: str, lines: list[str]) -> None:
    ran = run("--config", devices, "diag", part)
    assert (ran.code, ran.err) == (DONE, DIRECT)
    for said, line in zip(ran.out.splitlines(), lines, strict=False):
        assert said.startswith(line)
    assert ("fault     " in ran.out) == (part in ("scanner", "shoe", "display"))
    told_ = run("--config", devices, "diag", part, "--json").json
    assert told_["part"] == part


def test_how_two_scanners_are_told() -> None:
    """The one for the hand under the other, and no line of it like one of that one's: `--watch` tells what changed."""
    lines = ["clean", "dirty", "halves", "overlong", "repeats"]
    counted = {**dict.fromkeys(lines, 0), "clean": 1}
    said = {"open": True, "fault": "", "counted": counted, "last": [{"kind": "card", "text": "8H"}]}
    one = {"part": "scanner", "driver": "serial", "port": "/dev/serial/by-id/usb-ACME_Scanner_0001-if00", **said}
    two = {"driver": "hid", "port": "/dev/input/by-id/usb-ACME_Hand_0002-event-kbd", **said}
    told_ = list(show.part({**one, "hand": {**two, "fault": "scanner port … is gone", "open": False}}))
    assert told_[4:] == ["hand      hid, not open", *told_[5:-1], "          fault     scanner port … is gone"]
    assert len(told_) == len(set(told_)) == 9
    transcript = "\n".join(show.part({**one, "hand": two}))
    assert f"```text\n{transcript}\n```" in page("docs/devices/scanner.md").text


def test_how_the_shoe_is_told() -> None:
    """Each sensor in the words of what it sees, and what moved; the adapter's own telling is tested with it."""
    pins = [
        {"name": "exit_inner", "pin": 17, "active": False, "edges": 4, "trouble": ""},
        {"name": "exit_outer", "pin": 27, "active": True, "edges": 3, "trouble": "exit_outer has been covered …"},
        {"name": "cut", "pin": 22, "active": False, "edges": 0, "trouble": ""},
        {"name": "lid", "pin": 23, "active": True, "edges": 1, "trouble": ""},
        {"name": "present", "pin": 18, "active": True, "edges": 0, "trouble": ""},
    ]
    told_ = {"part": "shoe", "driver": "gpio", "open": True, "fault": "", "pins": pins}
    assert list(show.part({**told_, "moved": {"slow": 0, "pullback": 1, "card": 2}})) == [
        "shoe      gpio, open",
        "moved     card 2, pullback 1",
        "GPIO17    exit_inner     clear, 4 edges",
        "GPIO27    exit_outer     covered, 3 edges   exit_outer has been covered …",
        "GPIO22    cut            no cut card, 0 edges",
        "GPIO23    lid            open, 1 edges",
        "GPIO18    present        card, 0 edges",
    ]


def test_diag_tests_and_waits_for_the_end(devices: Path) -> None:
    began = time.monotonic()
    ran = run("--config", devices, "diag", "buzzer", "--test")
    assert ran.out == "buzzer    gpio\nGPIO12    buzzer         off\ntest      begun, 1.3 s\n"
    assert time.monotonic() - began >= 1.3


NOT_DIAGNOSED = [
    (("lamps", "--test"), "", REFUSED, "Esta mesa no tiene lamps: la sección lamps de table.yaml dice driver: none."),
    (("scanner", "--test"), PINS, REFUSED, "No hay prueba de scanner: sígalo con tablectl diag scanner --watch."),
    (("safe",), PINS, USAGE, "'safe' is not one of"),
    (("lamps",), PINS.replace("mock", "abacus"), NO, "pin_factory must be"),
]


@pytest.mark.parametrize(("arguments", "sections", "code", "text"), NOT_DIAGNOSED)
def test_what_cannot_be_diagnosed(
    config: Path, arguments: tuple[str, ...], sections: str, code: int, text: str
) -> None:
    config.write_text(config.read_text() + sections)
    ran = run("--config", config, "diag", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert text in ran.err


def test_diag_never_fights_a_daemon_that_holds_the_folder(devices: Path, tmp_path: Path) -> None:
    held = claim(tmp_path)
    try:
        ran = run("--config", devices, "diag", "lamps")
    finally:
        os.close(held)
    assert (ran.code, ran.out) == (NO, "")
    assert f"in use by process {os.getpid()}: one table has one daemon, stop it first" in ran.err


def test_a_span_of_the_journal_is_exported_counted_and_proved(kept: Path, tmp_path: Path) -> None:
    feed = tmp_path / "feed.jsonl"
    whole = feed.read_text()
    ran = run("--config", kept, "journal", "export")
    assert (ran.code, ran.out) == (DONE, whole), "the exact bytes"
    assert run("journal", "export", feed, "--json").out == whole
    ran = run("--config", kept, "journal", "export", "--from", "5", "--to", "9")
    assert ran.out.splitlines() == whole.splitlines()[4:9]
    (span := tmp_path / "span.jsonl").write_text(ran.out)
    assert "--public-key" in run("journal", "verify", span).out
    key = json.loads(whole.splitlines()[0])["data"]["publickey"]
    assert (
        run("journal", "verify", span, "--public-key", key).out == f"{span}: good: 5 messages, chain and signatures\n"
    )
    span.write_text(ran.out.replace('"seqno":7', '"seqno":8', 1))
    assert "line 3, message 7: " in run("journal", "verify", span, "--public-key", key).out
    ended = run("--config", kept, "journal", "export", "--format", "csv").out.splitlines()
    assert len(ended) == 1 + whole.count("round.completed")
    (script := tmp_path / "shoe.txt").write_text(run("--config", kept, "journal", "export", "--format", "script").out)
    assert len(run("deal", script).out.splitlines()) == whole.count("round.completed")
    told = run("--config", kept, "journal", "stats", "--json").json
    assert told["total"]["completed"] == whole.count("round.completed")
    assert run("--config", kept, "journal", "stats").out.splitlines()[-1] == "faults    none"


def test_an_export_with_repeats_counts_each_message_once(kept: Path, tmp_path: Path) -> None:
    feed = tmp_path / "feed.jsonl"
    once = run("journal", "stats", feed, "--json").json
    feed.write_text(feed.read_text() * 2)
    assert run("journal", "stats", feed, "--json").json == once
    feed.write_text("hello\n")
    ran = run("journal", "stats", feed)
    assert (ran.code, ran.err) == (
        NO,
        f"tablectl: {feed}, line 1: no message: run tablectl journal verify {feed}\n",
    )
    assert run("journal", "export", tmp_path / "gone").code == NO


@pytest.mark.parametrize(
    ("told", "lines"),
    [
        (
            {
                "part": "casino",
                "driver": "mqtt",
                "link": "down",
                "fault": "h:1 does not answer: check cable, address and firewall",
                "publishers": [
                    {"name": "mqtt", "receipt": 3, "head": 9, "port": "h:1", "fault": "no", "flying": 2, "window": 16},
                    {"name": "serial", "receipt": 9, "head": 9, "port": "/dev/x", "counted": {"frames": 4, "crc": 1}},
                ],
                "refused": [{"why": "expired", "time": "2026-11-30T06:28:14.484Z"}],
            },
            [
                "casino    mqtt",
                "link      down",
                "mqtt      primary, receipt for 3 of 9, 2 of 16 on their way",
                "          h:1, down: no",
                "serial    receipt for 9 of 9",
                "          /dev/x, up",
                "          frames 4, crc 1",
                "refused   expired 2026-11-30T06:28:14.484Z",
                "fault     h:1 does not answer: check cable, address and firewall",
            ],
        ),
        (
            {
                "part": "clock",
                "driver": "system",
                "wall": 1_795_986_245_000_000_000,
                "monotonic": 8_123_456_000_000,
                "synchronised": False,
                "held": True,
                "step": [1_795_986_245_999_999_999, 1_795_986_240_000_000_000],
            },
            [
                "clock     system",
                "wall      2026-11-29T21:04:05.000Z, held at the journal's last record: the clock is behind it",
                "monotonic 8123.456 s",
                "set       by nobody: messages say synchronised false",
                "step      from 2026-11-29T21:04:05.999Z to 2026-11-29T21:04:00.000Z",
            ],
        ),
    ],
)
def test_the_parts_that_are_no_devices(told: dict[str, Any], lines: list[str]) -> None:
    assert list(show.part(told)) == lines


def test_diag_knows_every_part() -> None:
    assert tuple(part.value for part in tablectl.PartName) == (*PARTS, *INNER)


def test_diag_without_a_daemon_or_a_configuration(tmp_path: Path) -> None:
    assert run("--socket", tmp_path / "none.sock", "diag", "lamps").code == ABSENT


def test_diag_through_the_daemon_is_refused_in_its_words(socket: Path) -> None:
    ran = run("--socket", socket, "diag", "lamps", "--test", "--json")
    assert (ran.code, ran.json["refused"]["key"]) == (REFUSED, "no_part")
    assert ran.err == "tablectl: This table has no lamps: section lamps of table.yaml says driver: none.\n"


@pytest.mark.parametrize("shoe", [False, True], ids=["closed", "a shoe in play"])
def test_a_scanner_is_followed_with_the_daemon_down(shoe: bool, request: pytest.FixtureRequest) -> None:
    """B10 holds without the daemon, too: the journal says whether cards may be in play."""
    config: Path = request.getfixturevalue("kept" if shoe else "config")
    master, slave = os.openpty()
    config.write_text(f"{config.read_text()}scanner: {{driver: serial, port: {os.ttyname(slave)}}}\n")
    command = [sys.executable, "-m", "controller.cli", "--config", str(config), "diag", "scanner", "--watch"]
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert follower.stdout.readline() == "scanner   serial, open\n"
        os.write(master, b"8H\rTC\r")
        lines = iter(follower.stdout.readline, "")
        last = next(line for line in lines if line.count("card") == 2)
        assert last == ("last      card, card\n" if shoe else "last      card 8H, card TC\n")
        follower.send_signal(signal.SIGINT)
        assert (follower.wait(30), follower.stderr.read()) == (DONE, DIRECT)
    os.close(master)
    os.close(slave)


# --- the program in its world ---------------------------------------------------------------------------------

LOCALES = [
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "iso-8859-1"},
    {"LC_ALL": "C.UTF-8"},
]


@pytest.mark.parametrize("environ", LOCALES, ids=lambda environ: " ".join(map("=".join, environ.items())))
def test_any_locale_and_a_pipe(tmp_path: Path, environ: dict[str, str]) -> None:
    """Bug report 64: `BANCA 1ª` and a suit in a terminal that has neither."""
    with in_background(tmp_path, Rig, a_round, "es") as (path, _):
        for arguments in (("status",), ("recall",), ("round", "confirm"), ("status", "--json")):
            ran = start("--socket", path, *arguments, **environ)
            assert ran.returncode == (REFUSED if "confirm" in arguments else DONE), ran.stderr
            assert b"Traceback" not in ran.stderr
            assert ran.stdout or ran.stderr
        assert json.loads(ran.stdout)["prompt"]["headline"] == "BANCA 1ª"


def test_a_reader_that_stops_reading_is_no_fault(socket: Path) -> None:
    command = f"{sys.executable} -m controller.cli --socket {socket} status | head -c 1"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60, check=False, cwd=REPO)
    assert (ran.stdout, ran.stderr) == (b"t", b"")


def test_what_a_command_does_not_need_is_not_imported(socket: Path) -> None:
    """`tablectl status` on a Raspberry Pi starts in a moment, not in three."""
    code = (
        "import sys\nfrom controller.cli import main\n"
        f"try: main(['--socket', {str(socket)!r}, 'status', '--json'])\n"
        "except SystemExit as end: assert end.code == 0, end\n"
        "print(' '.join(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True, cwd=REPO)
    modules = set(ran.stderr.decode().split())
    unwanted = {"asyncio", "sqlite3", "paho", "serial", "yaml", "cryptography", "rich", "controller.config"}
    assert not modules & (unwanted | {"controller.offline", "controller.wiring", "controller.core.state"})
    assert "controller.control.client" in modules
