"""What the machine says of a serial port: asked of its programs, which may not be there. Bug reports 30 and 31."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from controller import machine
from controller.link.hosts import Status

MODEM = "ModemManager.service loaded active running Modem Manager"


class Programs:
    """systemctl and udevadm, and how they were asked."""

    def __init__(self, listing: str, properties: str) -> None:
        self.answers = {"systemctl": listing, "udevadm": properties}
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, command: Sequence[str]) -> str:
        self.asked.append(tuple(command))
        return self.answers[command[0]]


@pytest.mark.parametrize(
    ("cmdline", "listing", "properties", "bad"),
    [
        ("quiet", "", "", {}),
        ("console={port},115200 quiet", "", "", {"scanner.console": Status.FAIL}),
        ("quiet", "serial-getty@{port}.service loaded active running x", "", {"scanner.login": Status.FAIL}),
        ("quiet", MODEM, "ID_BUS=usb\n", {"scanner.modemmanager": Status.WARN}),
        ("quiet", MODEM, "ID_BUS=usb\nID_MM_DEVICE_IGNORE=1\n", {}),
    ],
)
def test_who_else_speaks_on_a_port(
    tmp_path: Path, cmdline: str, listing: str, properties: str, bad: dict[str, Status]
) -> None:
    """By the name that the configuration has, which may be a link, and by the one that it leads to."""
    port, link, told = tmp_path / "ttyAMA0", tmp_path / "serial0", tmp_path / "cmdline"
    port.touch()
    link.symlink_to(port)
    told.write_text(cmdline.format(port=port), encoding="ascii")
    programs = Programs(listing.format(port=port), properties)
    for name in (port, link):
        rows = machine.serial_rows(name, "scanner", ask=programs, cmdline=told)
        assert {row.check: row.status for row in rows if row.status is not Status.OK} == bad
        assert programs.asked[-1] == ("udevadm", "info", "--query=property", f"--name={name}")
    programs.asked.clear()
    assert machine.serial_rows(tmp_path / "unplugged", "scanner", ask=programs, cmdline=told) == []
    assert programs.asked == []


def test_a_program_is_asked() -> None:
    assert machine.ask(("echo", "ID_BUS=usb")) == "ID_BUS=usb\n"
    assert machine.ask(("no-such-program-on-any-machine",)) == ""


def test_a_program_that_never_answers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ANSWER_S", 0.05)
    with pytest.raises(machine.MachineError, match=r"sleep gives no answer within 0\.05 s: try again"):
        machine.ask(("sleep", "60"))
