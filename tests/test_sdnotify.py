"""sd_notify(3): datagrams to the socket that systemd names, by path or in the abstract namespace."""

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.sdnotify import Notifier, watchdog_s


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """What NOTIFY_SOCKET says, and the socket that hears."""
    name = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hears:
        hears.bind(name if request.param == "path" else f"\0{name}")
        hears.settimeout(5)
        yield (name if request.param == "path" else f"@{name}"), hears


def test_it_tells_what_it_is_given_in_one_datagram(systemd: tuple[str, socket.socket]) -> None:
    address, hears = systemd
    notifier = Notifier(address)
    notifier.tell("READY=1", "STATUS=mesa BAC-07 ♠")
    notifier.tell("WATCHDOG=1")
    assert hears.recv(4096).decode() == "READY=1\nSTATUS=mesa BAC-07 ♠"
    assert hears.recv(4096) == b"WATCHDOG=1"


def test_the_address_is_systemds(systemd: tuple[str, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    address, hears = systemd
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    Notifier().tell("READY=1")
    assert hears.recv(4096) == b"READY=1"


@pytest.mark.parametrize("address", [None, ""])
def test_without_systemd_it_says_nothing(
    address: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    Notifier(address).tell("READY=1")
    assert not caplog.records


def test_a_lost_word_is_told_once_and_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "notify"
    notifier = Notifier(str(path))
    with caplog.at_level(logging.WARNING):
        notifier.tell("WATCHDOG=1")
        notifier.tell("WATCHDOG=1")
        assert len(caplog.records) == 1 and str(path) in caplog.text
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hears:
            hears.bind(str(path))
            notifier.tell("WATCHDOG=1")
            assert hears.recv(64) == b"WATCHDOG=1", "it tries each time"
        notifier.tell("WATCHDOG=1")
        assert len(caplog.records) == 2, "a new silence is a new word"


def test_a_systemd_that_does_not_read_holds_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hears:
        hears.bind(str(path))
        notifier = Notifier(str(path))
        for _ in range(1_000):  # its queue holds far fewer (unix(7), net.unix.max_dgram_qlen)
            notifier.tell("WATCHDOG=1")
        assert len(caplog.records) == 1


def test_it_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    notifier = Notifier(str(tmp_path / "nobody"))
    for _ in range(10):
        notifier.tell("WATCHDOG=1")
    assert len([*Path("/proc/self/fd").iterdir()]) == before


@pytest.mark.parametrize(
    ("usec", "pid", "seconds"),
    [
        (None, None, None),
        ("", None, None),
        ("30000000", None, 10.0),
        ("30000000", "own", 10.0),
        ("30000000", "1", None),
        ("30000000", "", 10.0),
        ("0", None, None),
        ("-1", None, None),
        ("soon", None, None),
    ],
)
def test_the_watchdog_wants_a_word_three_times_in_its_limit(
    usec: str | None, pid: str | None, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sd_watchdog_enabled(3): unset, 0, or meant for another process is no watchdog."""
    for name, value in (("WATCHDOG_USEC", usec), ("WATCHDOG_PID", str(os.getpid()) if pid == "own" else pid)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert watchdog_s() == seconds
