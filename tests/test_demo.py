"""`tabled --demo` as a person starts it: it plays, its feed is a true one, and it never speaks as a live table."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.daemon import main
from tests.broker import HOST, Broker, Subscriber, free_port
from tests.consumer import Consumer
from tests.core import oracle
from tests.live import wait_for

TABLED = (sys.executable, "-m", "controller")
DEADLINE_S = 60


def environment(folder: Path, **more: str) -> dict[str, str]:
    """A machine in another locale, with a folder of its own for temporary files."""
    kept = {name: value for name, value in os.environ.items() if name not in ("TERM", "NO_COLOR", "PYTHONUTF8")}
    return kept | {"LC_ALL": "C", "TMPDIR": str(folder)} | more


def tabled(folder: Path, *options: str, deadline_s: float = DEADLINE_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TABLED, *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=deadline_s,
        env=environment(folder),
        check=False,
    )


def feed_in(folder: Path) -> Path:
    (feed,) = folder.glob("baccarat-*/feed.jsonl")
    return feed


def consumed(feed: Path) -> Consumer:
    """The whole feed through a consumer: schemas, order, chain, signatures."""
    return Consumer().take(feed.read_bytes().splitlines())


def check_rounds(consumer: Consumer) -> list[dict[str, Any]]:
    """Every result, from the cards as they were dealt, by the tableau as it was typed in."""
    rounds = consumer.data("round.completed")
    dealt: dict[str, list[str]] = {}
    for data in consumer.data("card.dealt"):
        dealt.setdefault(data["roundid"], []).append(data["card"])
    for data in rounds:
        cards = dealt[data["roundid"]]
        assert oracle.following(cards) is None
        assert (data["player"]["cards"], data["banker"]["cards"]) == oracle.hands(cards)
        assert (data["player"]["points"], data["banker"]["points"]) == tuple(map(oracle.points, oracle.hands(cards)))
        assert data["outcome"] == oracle.outcome(cards)
    return rounds


def check_own(consumer: Consumer, mode: str) -> None:
    """It can never be taken for a live table."""
    assert {message["mode"] for message in consumer.messages} == {mode}
    assert {message["source"] for message in consumer.messages} == {"/tables/DEMO"}
    assert not any(message["synchronised"] for message in consumer.messages)


# --- played by itself ---------------------------------------------------------------------------------------

ANNOUNCED = {"es": ("NO MÁS APUESTAS", "JUGADOR 1ª"), "en": ("NO MORE BETS", "PLAYER 1ST")}


@pytest.mark.parametrize(
    ("language", "mode", "profile"),
    [("es", "demo", "seeds-commission"), ("en", "training", "seeds-classic")],
)
def test_it_plays_rounds(tmp_path: Path, language: str, mode: str, profile: str) -> None:
    options = ("--speed", "200", "--seed", "7", "--rounds", "12", "--lang", language, "--profile", profile)
    done = tabled(tmp_path, f"--{mode}", *options)
    assert done.returncode == 0, done.stderr
    feed = feed_in(tmp_path)
    consumer = consumed(feed)
    check_own(consumer, mode)
    rounds = check_rounds(consumer)
    assert [data["round"] for data in rounds] == list(range(1, 13))
    assert {data["profile"]["name"] for data in rounds} == {profile}
    assert consumer.messages[-1]["type"] == "baccarat.table.stopped.v1"
    for words in ANNOUNCED[language]:
        assert words in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stdout.splitlines()[1] == str(feed), "where the feed goes is told at the start, and at the end"
    assert done.stdout.splitlines()[-1].endswith(f"journal verify {feed}")
    assert not list(feed.parent.glob("*.key")), "its key was never on a disk"


def test_a_seed_is_an_evening_and_is_told(tmp_path: Path) -> None:
    cards: list[list[str]] = []
    seeds: list[str] = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = tabled(
            folder, "--demo", "--speed", "500", "--rounds", "1", *(("--seed", seeds[0]) if number == 1 else ())
        )
        assert done.returncode == 0, done.stderr
        (seed,) = re.findall(r"semilla (\d+)$", done.stdout.splitlines()[0])
        seeds.append(seed)
        cards.append([data["card"] for data in consumed(feed_in(folder)).data("card.dealt")])
    assert seeds[0] == seeds[1] != seeds[2]
    assert cards[0] == cards[1] != cards[2]


@pytest.mark.parametrize(
    "profile",
    [
        "seeds-commission",
        pytest.param("seeds-classic", marks=pytest.mark.soak),
        pytest.param("seeds-no-commission", marks=pytest.mark.soak),
    ],
)
def test_it_plays_a_whole_shoe(tmp_path: Path, profile: str) -> None:
    done = tabled(tmp_path, "--demo", "--speed", "1000", "--seed", "3", "--profile", profile, deadline_s=110)
    assert done.returncode == 0, done.stderr
    consumer = consumed(feed_in(tmp_path))
    rounds = check_rounds(consumer)
    (closed,) = consumer.data("shoe.closed")
    assert closed["reason"] == "cut_card"
    assert closed["burned"] + closed["dealt"] + closed["left"] == 416
    assert closed["rounds"] == len(rounds) > 60
    assert closed["misreads"] > 0, "a viewer sees the prompts for it"
    assert [data["last_round"] for data in rounds] == [False] * (len(rounds) - 1) + [True]
    assert [data["rounds"] for data in consumer.data("table.closed")] == [len(rounds)]
    raised = {data["code"] for data in consumer.data("irregularity.raised")}
    assert {"I01", "I04", "I13"} <= raised <= {"I01", "I04", "I13", "I18", "I19", "I28"}


def test_the_feed_is_verified_as_it_says(tmp_path: Path) -> None:
    done = tabled(tmp_path, "--demo", "--speed", "500", "--rounds", "1")
    *_, journal, verify, path = done.stdout.split()
    command = [sys.executable, "-m", "controller.cli", journal, verify, path]
    said = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr
    assert f"{len(consumed(feed_in(tmp_path)).messages)} messages" in said.stdout


# --- asked wrongly ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--speed", "0"), "from 0.1 to 1000"),
        (("--speed", "nan"), "from 0.1 to 1000"),
        (("--speed", "1e9"), "from 0.1 to 1000"),
        (("--rounds", "0"), "1 or more"),
        (("--profile", "seeds-comission"), "did you mean seeds-commission?"),
        (("--broker", "mqtt://here"), "write HOST or HOST:PORT"),
        (("--broker", "here:port"), "write HOST or HOST:PORT"),
        (("--broker", "user@here"), "write HOST or HOST:PORT"),
        (("--broker", ""), "write HOST or HOST:PORT"),
    ],
)
def test_what_cannot_be_is_refused_with_a_word(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["--demo", *options]) == 2
    assert told in caplog.text
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_without_a_keyboard_nobody_deals(tmp_path: Path) -> None:
    done = tabled(tmp_path, "--demo", "--keys")
    assert done.returncode == 2
    assert "--keys needs a keyboard" in done.stderr
    assert "Traceback" not in done.stderr


# --- stopped ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def started(folder: Path, *options: str, **how: Any) -> Iterator["subprocess.Popen[bytes]"]:  # noqa: ANN401
    how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    environ = environment(folder, **how.pop("more", {}))
    with subprocess.Popen([*TABLED, "--demo", *options], env=environ, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def types_in(folder: Path) -> list[str]:
    """The types of the messages that are in the feed file by now."""
    feeds = list(folder.glob("baccarat-*/feed.jsonl"))
    lines = feeds[0].read_bytes().splitlines() if feeds else []
    return [json.loads(line)["type"].split(".", 1)[1].removesuffix(".v1") for line in lines if line.endswith(b"}")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, "--speed", "100") as process:
        wait_for(lambda: "card.dealt" in types_in(tmp_path), "a card")
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, err
    assert b"journal verify" in out.splitlines()[-1]
    assert consumed(feed_in(tmp_path)).messages[-1]["type"] == "baccarat.table.stopped.v1"


def test_nobody_reads_any_more(tmp_path: Path) -> None:
    with started(tmp_path, "--speed", "100") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(DEADLINE_S) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert consumed(feed_in(tmp_path)).messages[-1]["type"] == "baccarat.table.stopped.v1"


# --- on a terminal ------------------------------------------------------------------------------------------


class Terminal:
    """A pty with a person before it: `screen` is all that was written to it."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (24, 80))
        os.set_blocking(self.master, False)
        self.mode = termios.tcgetattr(self.slave)
        self.screen = b""

    def read(self) -> bytes:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.master, 65536):
                self.screen += data
        return self.screen

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def shows(self, words: str) -> None:
        """Waits until it has been written since the last time, on one line."""
        wait_for(lambda: words.encode() in self.read(), f"{words} on the screen")
        self.screen = self.screen.partition(words.encode())[2]


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    there = Terminal()
    yield there
    os.close(there.master)
    os.close(there.slave)


def on(there: Terminal) -> dict[str, Any]:
    return {"stdin": there.slave, "stdout": there.slave, "stderr": there.slave, "start_new_session": True}


def draw_until(there: Terminal, words: str, folder: Path) -> None:
    """Cards one by one, each when the one before is taken and what follows from it is on the screen."""
    while words.encode() not in there.read():
        cards = cards_in(folder)
        there.type(" ")
        wait_for(lambda before=cards: cards_in(folder) > before, "the card")
        time.sleep(0.3)


def cards_in(folder: Path) -> int:
    return sum(name in ("card.burned", "card.dealt") for name in types_in(folder))


def test_the_keyboard_deals_a_round(tmp_path: Path, terminal: Terminal) -> None:
    options = ("--keys", "--speed", "40", "--seed", "5", "--profile", "seeds-no-commission")
    with started(tmp_path, *options, more={"TERM": "xterm"}, **on(terminal)) as process:
        terminal.shows("MESA CERRADA")
        terminal.type("\r")
        terminal.shows("ZAPATO Y TAPA")
        terminal.type("\r")
        terminal.shows("DESTAPE LA 1")
        draw_until(terminal, "PULSE INICIO", tmp_path)
        terminal.type("s")
        terminal.shows("SAQUE CARTA")
        draw_until(terminal, "CONFIRME", tmp_path)
        time.sleep(0.05)  # CONFIRM is deaf for 0.7 s of the table's after the last card
        terminal.type("\r")
        wait_for(lambda: "round.completed" in types_in(tmp_path), "the result")
        terminal.type("c")
        wait_for(lambda: "staff.called" in types_in(tmp_path), "the call")
        terminal.type("h")
        terminal.shows("siga lo que pide la pantalla")
        terminal.type("q")
        wait_for(lambda: terminal.read() and process.poll() is not None, "the end")
        assert process.returncode == 0, terminal.screen
        assert b"journal verify" in terminal.read()
        assert termios.tcgetattr(terminal.slave) == terminal.mode
    assert len(check_rounds(consumed(feed_in(tmp_path)))) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_terminal_is_given_back(tmp_path: Path, terminal: Terminal, number: signal.Signals) -> None:
    """But for SIGKILL, which shows that the test would see it."""
    with started(tmp_path, "--keys", more={"TERM": "xterm"}, **on(terminal)) as process:
        terminal.shows("\x1b[?25l")
        terminal.shows("MESA CERRADA")
        process.send_signal(number)
        wait_for(lambda: terminal.read() and process.poll() is not None, "the end")
        given_back = number is not signal.SIGKILL
        assert (b"\x1b[?25h\x1b[?1049l" in terminal.read()) == given_back
        assert (termios.tcgetattr(terminal.slave) == terminal.mode) == given_back


def test_a_pause_gives_the_terminal_back_for_a_while(tmp_path: Path, terminal: Terminal) -> None:
    with started(tmp_path, "--keys", more={"TERM": "xterm"}, **on(terminal)) as process:
        terminal.shows("MESA CERRADA")
        process.send_signal(signal.SIGTSTP)  # without a shell to continue it, the kernel does not stop it
        terminal.shows("\x1b[?25h\x1b[?1049l")
        terminal.shows("\x1b[?1049h\x1b[?25l")
        terminal.shows("MESA CERRADA")
        terminal.type("q")
        wait_for(lambda: terminal.read() and process.poll() is not None, "the end")
        assert process.returncode == 0
        assert termios.tcgetattr(terminal.slave) == terminal.mode


# --- with a broker ------------------------------------------------------------------------------------------


def test_a_broker_gets_the_same_bytes_under_a_prefix_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    with Broker(tmp_path / "broker") as broker, Subscriber(broker.port, "#") as subscriber:
        options = ("--speed", "200", "--rounds", "2", "--broker", f"{HOST}:{broker.port}")
        done = tabled(tmp_path, "--demo", *options)
        assert done.returncode == 0, done.stderr
        lines = feed_in(tmp_path).read_bytes().splitlines()
        subscriber.wait(lambda: len(subscriber.on("feed")) >= len(lines), "the feed")
        subscriber.wait(lambda: json.loads(subscriber.on("status")[-1].payload)["status"] == "offline", "the goodbye")
        assert [got.payload for got in subscriber.on("feed")] == lines
        assert {got.topic.rpartition("/")[0] for got in subscriber.got} == {"baccarat-demo/DEMO"}
        assert {json.loads(got.payload)["mode"] for got in subscriber.on("state")} == {"demo"}


def test_without_its_broker_it_plays_and_says_so(tmp_path: Path) -> None:
    done = tabled(tmp_path, "--demo", "--speed", "500", "--rounds", "1", "--broker", f"{HOST}:{free_port()}")
    assert done.returncode == 0
    assert "refuses: is the broker running" in done.stderr
    assert len(consumed(feed_in(tmp_path)).data("round.completed")) == 1
