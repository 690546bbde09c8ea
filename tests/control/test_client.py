"""The caller's side: what it says when nobody is there, and when somebody strange is."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.control.client import INVALID_PARAMS, REFUSED, RpcError, UnreachableError, connect
from tests.control.served import in_background
from tests.table_rig import Rig


async def nothing(rig: Rig) -> None:
    """Before the first shoe."""


async def load(rig: Rig) -> None:
    await rig.load()


def test_a_conversation(tmp_path: Path) -> None:
    with in_background(tmp_path, Rig, nothing) as (path, _), connect(str(path)) as table:
        assert table.call("ping") == {"table": "BAC-07", "version": "0.1.0"}
        assert table.call("status")["phase"] == "closed"
        assert table.call("shoe.load", by=["dealer"])["phase"] == "burning"
        with pytest.raises(RpcError, match="follow what the panel") as refused:
            table.call("shoe.load")
        assert refused.value.code == REFUSED
        with pytest.raises(RpcError, match="unknown param") as wrong:
            table.call("ping", loud=True)
        assert wrong.value.code == INVALID_PARAMS
        assert table.patient().call("journal.verify")["ok"]


def test_notifications_come_as_the_table_goes_on(tmp_path: Path) -> None:
    with in_background(tmp_path, Rig, nothing) as (path, act), connect(str(path)) as table:
        assert table.call("monitor")["phase"] == "closed"
        act(load)
        batches = table.notifications()
        assert [next(batches)["phase"] for _ in range(3)] == ["burning", "burning", "ready"]
        act(lambda rig: rig.scan("8H"))
        assert table.call("status")["slots"] == {"P1": "8H"}  # a notification before the answer is passed over


def test_nobody_is_there(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "stale"))
    left.close()
    for name in ("absent", "stale", "x" * 200):
        with pytest.raises(UnreachableError, match="start tabled, or name its socket"), connect(str(tmp_path / name)):
            pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else to be refused")
def test_who_may_not_use_it_is_told_so(tmp_path: Path) -> None:
    with in_background(tmp_path, Rig, nothing) as (path, _):
        for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
            folder.chmod(0o755)
        groups = os.getgroups()
        os.setgroups([])
        os.setegid(65534)
        os.seteuid(65534)
        try:
            with pytest.raises(UnreachableError, match="member of its group"), connect(str(path)):
                pass
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)


@contextmanager
def impostor(folder: Path, behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something that listens and behaves as it likes with its one caller."""
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(folder / "s"))
        line.listen()

        def serve() -> None:
            with line.accept()[0] as caller:
                behave(caller)

        thread = threading.Thread(target=serve)
        thread.start()
        yield str(folder / "s")
        thread.join(20)


def hangs_up(caller: socket.socket) -> None:
    caller.recv(1)


def tears(caller: socket.socket) -> None:
    caller.recv(100)
    caller.sendall(b'{"jsonrpc":"2.0","id":1,"resu')


def is_silent(caller: socket.socket) -> None:
    while caller.recv(100):
        pass


def answers_others(caller: socket.socket) -> None:
    caller.recv(100)
    caller.sendall(b'{"jsonrpc":"2.0","id":7,"result":"not yours"}\n')


@pytest.mark.parametrize("behave", [hangs_up, tears, is_silent, answers_others])
def test_what_is_not_answered_is_not_known_to_be_done(tmp_path: Path, behave: Callable[[socket.socket], None]) -> None:
    with (
        impostor(tmp_path, behave) as path,
        pytest.raises(UnreachableError, match="in mid-sentence"),
        connect(path, timeout_s=0.3) as table,
    ):
        table.call("ping")


def speaks_otherwise(caller: socket.socket) -> None:
    caller.recv(100)
    caller.sendall(b"220 mail.example.com ESMTP\n")


def test_what_speaks_another_language_is_told(tmp_path: Path) -> None:
    with (
        impostor(tmp_path, speaks_otherwise) as path,
        pytest.raises(RpcError, match="no JSON"),
        connect(path) as table,
    ):
        table.call("ping")
