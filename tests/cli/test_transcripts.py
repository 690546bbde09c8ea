"""What the technician's pages show of `tablectl`, played again at a real table: a page that is out of date fails.

A `console` block holds commands and what they print. Between the blocks, comments that no reader sees tell what happens
at the table: `<!-- story: scan 9H 2S -->` (`Stage` has the words). Names of files stand for those of the test's table,
and what differs each time (keys, hashes, times) is compared by its form.
"""

import io
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml

from controller.cli import main, tablectl
from controller.control.parts import INNER
from tests.fake_head import PtyHead
from tests.live import LiveTable, wait_for
from tests.pages import ROOT, Page, page

GUIDE = page("docs/technician.md")
DEVICES = [page(f"docs/devices/{path.name}") for path in sorted((ROOT / "docs/devices").glob("*.md"))]
PLAYED = [page_ for page_ in DEVICES if "```console" in page_.text]
NO_BUS = 22  # the number of an I2C bus that no machine has: what is tried on it disturbs nobody's panel

PINS = {
    "gpio": {"pin_factory": "mock"},
    "lamps": {"driver": "gpio", "timer": [5, 6, 13, 19], "red": 26, "call": 14},
    "buzzer": {"driver": "gpio", "pin": 12},
    "buttons": {"driver": "gpio", "start": 16, "confirm": 20, "call": 21, "key": 4},
}

STEP = re.compile(r"^<!-- story: (?P<story>[^\n]+) -->$|^```console\n(?P<console>.*?)^```$", re.MULTILINE | re.DOTALL)
FORMS = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{8}\b", "<generation>"),
    (r"\b[0-9a-f]{64}\b", "<hash>"),
    (r"\b[0-9a-f]{16}\b", "<keyid>"),
    (r"(?<![\w-])[\w-]{43}(?![\w-])", "<key>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "<time>"),
    (r"\b\d\d:\d\d:\d\d\.\d{3}\b", "<time>"),
    (r"\bversion \d\S+", "version <version>"),
    (r"\b\d+ MiB free", "<number> MiB free"),
    (r"\bmonotonic \d+\.\d{3} s", "monotonic <time>"),
    (r"\bset       by .*", "set       by <who sets this machine's clock>"),
    (r"\btook \d+\.\d ms", "took <time>"),
    (r"\berrors    \d+", "errors    <number>"),
    (r"\b(uptime_ms|frames    good) \d+", r"\1 <number>"),
    (r"(?<=pinctrl-bcm2835: ).*", "<chips of this machine>"),
)


def form(text: str) -> str:
    """The text with what differs each time replaced by what it is."""
    for pattern, name in FORMS:
        text = re.sub(pattern, name, text)
    return text


class Stage:
    """A table in a folder, and a page's own names for what lies in it. Public methods are the words of the story."""

    def __init__(self, folder: Path, page_: Page, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "state").mkdir()
        self.page = page_
        self.folder = folder
        feed = {"primary": "file", "file": {"path": str(folder / "state/feed.jsonl")}}
        self.table = LiveTable(folder, casino=feed, procedure={"betting_seconds": 1}, devices=PINS)
        self.names = {
            str(self.table.config): "/etc/baccarat-table/table.yaml",
            str(self.table.socket): "/run/baccarat-table/control.sock",
            str(folder / "state"): "/var/lib/baccarat-table",
            self.table.port: "/dev/serial/by-id/usb-ACME_Scanner_0001-if00",
            f"/dev/i2c-{NO_BUS}": "/dev/i2c-1",
        }
        self.devices = ExitStack()
        self.code = 0
        self.members: set[str] = set()
        self._monitored = ""
        monkeypatch.delenv("BACCARAT_SOCKET", raising=False)
        monkeypatch.setattr(tablectl, "DEFAULT_CONFIG", self.table.config)
        monkeypatch.setattr(tablectl, "DEFAULT_SOCKET", str(self.table.socket))

    def file(self, name: str) -> None:
        """The next block is this file's content."""
        (self.folder / name).write_text(self._block_after(f"file {name}"))
        self.names[str(self.folder / name)] = name

    def fit(self) -> None:
        """The next block's sections stand in the table's file; the pins are mock ones, and the panel's bus has none."""
        sections = yaml.safe_load(self._block_after("fit"))
        if "display" in sections:
            sections["display"]["bus"] = NO_BUS
        config = json.loads(self.table.config.read_text())
        self.table.config.write_text(json.dumps({**config, **sections, "gpio": PINS["gpio"]}))

    def head(self) -> None:
        """The next block's sensor head stands in the table's file, and is plugged in."""
        sections = yaml.safe_load(self._block_after("head"))
        bench = PtyHead(self.folder / "head")
        self.devices.enter_context(bench)
        self.names[str(bench.path)] = sections["shoe"]["port"]
        sections["shoe"]["port"] = str(bench.path)
        config = json.loads(self.table.config.read_text())
        self.table.config.write_text(json.dumps({**config, **sections}))

    def heard(self) -> None:
        """Waits for the sensor head's first heartbeat."""
        wait_for(lambda: self.table.call("diag", part="shoe")["head"], "the head's counters")
        self._settle()

    def _block_after(self, story: str) -> str:
        behind = self.page.text.partition(f"<!-- story: {story} -->\n")[2]
        return re.findall(r"^```\w+\n(.*?)^```$", behind, re.MULTILINE | re.DOTALL)[0]

    def start(self) -> None:
        self.table.start()
        wait_for(lambda: self.table.status()["link"]["up"], "the feed's file")
        self._settle()
        self.members = set(self.table.status())

    def stop(self) -> None:
        assert self.table.stop() == 0

    def scan(self, *codes: str) -> None:
        self.table.scan(*codes)

    def until(self, phase: str, *words: str) -> None:
        """Waits for this phase with these words on the panel."""
        wait_for(lambda: self._shows(phase, " ".join(words)), f"{phase} {' '.join(words)}")
        self._settle()

    def _shows(self, phase: str, words: str) -> bool:
        told = self.table.status()
        shown = " ".join([told["prompt"]["headline"], *told["prompt"]["lines"]])
        return told["phase"] == phase and words in shown

    def _settle(self) -> None:
        wait_for(lambda: self.table.status()["backlog"] == {"file": 0}, "every message in the feed's file")

    def stands(self, code: str) -> None:
        """Waits for this condition."""
        wait_for(lambda: code in [c["code"] for c in self.table.status()["conditions"]], code)
        self._settle()

    def lines(self, count: str) -> None:
        """Waits for so many clean lines of the scanner."""
        wait_for(lambda: self.table.call("diag", part="scanner")["counted"]["clean"] == int(count), f"{count} lines")

    def rest(self) -> None:
        """Long enough for a CONFIRM to be meant (0.7 s); longer is no harm."""
        time.sleep(0.8)
        self._settle()

    def meanwhile(self, button: str) -> None:
        """What the next block's monitor sees: this button."""
        command = [sys.executable, "-m", "controller.cli", "--socket", str(self.table.socket), "monitor"]
        lines: list[str] = []
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as monitor:
            assert monitor.stdout is not None
            reader = threading.Thread(target=lines.extend, args=(monitor.stdout,))
            reader.start()
            wait_for(lambda: any(line.startswith("key ") for line in lines), "the monitor's first picture")
            self.table.call(f"round.{button}")
            wait_for(lambda: "RECOJA" in "".join(lines), "what the monitor is told")
            monitor.send_signal(signal.SIGINT)
            reader.join()
        self._monitored = "".join(lines)
        self._settle()

    def console(self, block: str) -> str:
        """The block as it reads when its commands run now."""
        said = ""
        for line in block.splitlines():
            if line.startswith("$ "):
                said += f"{line}\n{self._run(line.removeprefix('$ '))}"
        return said

    def _run(self, command: str) -> str:
        if command == "echo $?":
            return f"{self.code}\n"
        if command == "tablectl monitor":
            return self._named(self._monitored)
        for real, name in self.names.items():
            command = command.replace(name, real)
        program, *arguments = re.sub(r"^sudo (-u baccarat-table )?", "", command).split()
        assert program == "tablectl", f"a console block runs tablectl and nothing else: {command}"
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said), pytest.raises(SystemExit) as ended:
            main(arguments)
        self.code = int(ended.value.code or 0)
        return self._named(said.getvalue())

    def _named(self, text: str) -> str:
        for real, name in self.names.items():
            text = text.replace(real, name)
        return text


def play(stage: Stage, text: str) -> Iterator[tuple[str, str]]:
    """Each console block of a page: as it stands, and as it is."""
    for step in STEP.finditer(text):
        if step["console"] is not None:
            yield step["console"], stage.console(step["console"])
        else:
            word, *arguments = step["story"].split()
            getattr(stage, word)(*arguments)


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage(tmp_path, getattr(request, "param", GUIDE), monkeypatch)
    try:
        yield stage
    finally:
        stage.table.__exit__()
        stage.devices.close()


def test_the_technicians_guide_shows_what_tablectl_prints(stage: Stage) -> None:
    blocks = [(form(written), form(said)) for written, said in play(stage, GUIDE.text)]
    assert len(blocks) == GUIDE.text.count("```console")
    assert [said for _, said in blocks] == [written for written, _ in blocks]
    listed = re.search(r"\*\*`status --json`\*\* has these members: (.*?)\.\n", GUIDE.text, re.DOTALL)
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1])) == stage.members


@pytest.mark.parametrize("stage", PLAYED, ids=lambda page_: page_.path.stem, indirect=True)
def test_a_devices_page_shows_what_tablectl_prints(stage: Stage) -> None:
    blocks = [(form(written), form(said)) for written, said in play(stage, stage.page.text)]
    assert [said for _, said in blocks] == [written for written, _ in blocks]


def test_every_device_has_its_page_and_transcript() -> None:
    """The shoe's sensors have two: on pins, and on a head of their own. The casino is no device."""
    assert {page_.path.stem for page_ in PLAYED} == {part.value for part in tablectl.PartName} - set(INNER) | {"head"}


def test_a_page_out_of_date_is_found(stage: Stage) -> None:
    text = "```console\n$ tablectl status\ntablectl: all is well\n```\n"
    ((written, said),) = play(stage, text)
    assert form(said) != form(written)
    assert said.startswith("$ tablectl status\ntablectl: no table answers at /run/baccarat-table/control.sock")
