"""A real `tabled` in a directory of its own: its configuration, a pty for its scanner, its control socket.

What the programs' users have and nothing else: no import of the daemon, no look into its memory.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from tests import published

DEADLINE_S = 30.0  # generous: what is waited for is nearly always there in milliseconds

FREE_RUNNING = {"open_betting": "none", "confirm_result": "none"}


def wait_for(true: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:  # noqa: ANN401 - what `true` gives
    """The first true value; AssertionError names what did not come."""
    end = time.monotonic() + deadline_s
    while True:
        value = true()
        if value:
            return value
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what}"
        time.sleep(0.005)


class RefusedError(Exception):
    """The table said no."""


class LiveTable:
    """`procedure` and `casino` are sections of table.yaml, `devices` more of them; `preload` is for LD_PRELOAD.

    At its end every message in its journals is held against its schema, unless the test `spoiled` them.
    """

    spoiled = False

    def __init__(
        self,
        folder: Path,
        *,
        casino: dict[str, Any],
        procedure: dict[str, Any] | None = None,
        profile: str = "seeds-commission",
        preload: Path | None = None,
        devices: dict[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        (folder / "state").mkdir(parents=True, exist_ok=True)
        self._master, slave = os.openpty()
        tty.setraw(slave)
        self._slave = slave  # held open, so that the line outlives the daemon
        self.port = os.ttyname(slave)
        self.socket = folder / "control.sock"
        self._preload = preload
        self.config = folder / "table.yaml"
        config = {
            "table": {"id": "BAC-07"},
            "profile": profile,
            "procedure": procedure or FREE_RUNNING,
            "scanner": {"driver": "serial", "port": self.port},
            "casino": casino,
            "storage": {"path": str(folder / "state"), "allow_volatile": True},
            "control": {"socket": str(self.socket)},
            **(devices or {}),
        }
        self.config.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "tabled.log"

    # --- the daemon ---------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts the daemon and returns when it says that it is up."""
        environ = dict(os.environ) | ({"LD_PRELOAD": str(self._preload)} if self._preload else {})
        with self._notified() as up:
            environ["NOTIFY_SOCKET"] = up.getsockname()
            with self.log.open("ab") as log:
                command = [sys.executable, "-m", "controller", "--config", str(self.config)]
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ)
            end = time.monotonic() + DEADLINE_S
            while True:
                with contextlib.suppress(TimeoutError):
                    if b"READY=1" in up.recv(4096):
                        return self
                assert self._process.poll() is None, f"tabled ended: {self.said()}"
                assert time.monotonic() < end, f"tabled is not up: {self.said()}"

    @contextlib.contextmanager
    def _notified(self) -> Iterator[socket.socket]:
        path = self.folder / "notify.sock"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as up:
            up.bind(str(path))
            up.settimeout(0.2)
            yield up

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]

    @property
    def pid(self) -> int:
        assert self._process is not None, "it runs"
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: a power cut as far as the program can tell."""
        assert self._process is not None, "it runs"
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(DEADLINE_S)
        self._process = None
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()
        for fd in (self._master, self._slave):
            os.close(fd)
        if not self.spoiled:
            published.hold_journal(self.folder / "state")

    # --- the dealer and the technician --------------------------------------------------------------------

    def scan(self, *codes: str, end: str = "\r\n") -> None:
        """Types codes as fast as the line takes them."""
        data = "".join(code + end for code in codes).encode("ascii")
        while data:
            data = data[os.write(self._master, data) :]

    def write(self, data: bytes) -> None:
        """Raw bytes on the scanner's line."""
        while data:
            data = data[os.write(self._master, data) :]

    def call(self, method: str, **params: Any) -> Any:  # noqa: ANN401 - whatever the method gives
        """One request on the control socket; `RefusedError` where the table says no."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(DEADLINE_S)
            line.connect(str(self.socket))
            request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer = json.loads(answers.readline())
        if "error" in answer:
            raise RefusedError(answer["error"])
        return answer["result"]

    def status(self) -> dict[str, Any]:
        result: dict[str, Any] = self.call("status")
        return result
