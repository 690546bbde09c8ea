"""A `tabled` that may fail to start, hang or be stopped at any moment: what it says to systemd, its log, its end."""

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.live import LiveTable, wait_for

FILE_FIRST = {"primary": "file"}


@functools.cache
def bytecode() -> "tempfile.TemporaryDirectory[str]":
    """Where the programs of one test run keep their bytecode: an installed one has it, a checkout may not."""
    return tempfile.TemporaryDirectory(prefix="tabled-bytecode-")


class Tabled(LiveTable):
    """`sections` replace those of table.yaml; `through` is a command that runs it.

    `module` is the daemon, or one like it. `words` is what systemd hears, in order.
    """

    def __init__(
        self,
        folder: Path,
        *,
        env: dict[str, str] | None = None,
        through: Sequence[str] = (),
        module: str = "controller",
        procedure: dict[str, Any] | None = None,
        **sections: Any,  # noqa: ANN401 - sections of table.yaml
    ) -> None:
        casino = FILE_FIRST | {"file": {"path": str(folder / "feed.jsonl")}}
        super().__init__(folder, casino=sections.pop("casino", casino), procedure=procedure)
        self.change(**sections)
        self.words: list[str] = []
        self._command = [*through, sys.executable, "-m", module, "--config", str(self.config)]
        self._env = env or {}
        self._closed = False

    def change(self, **sections: Any) -> None:  # noqa: ANN401 - sections of table.yaml
        tree = json.loads(self.config.read_text())
        self.config.write_text(json.dumps(tree | sections), encoding="utf-8")

    @property
    def said_up(self) -> bool:
        return "READY=1" in self.words

    @property
    def is_there(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def wake_ups(self) -> int:
        """How often its threads have gone to sleep so far, once a wake-up (proc(5), status)."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            lines = (task / "status").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
        return total

    def launch(self) -> Self:
        """Starts the process and returns at once."""
        own = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode().name}
        own["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # as the unit has it
        path = self.folder / "notify.sock"
        path.unlink(missing_ok=True)
        hears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        hears.bind(str(path))
        self.words.clear()
        env = {**os.environ, **own, "NOTIFY_SOCKET": str(path), **self._env}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        threading.Thread(target=self._hear, args=(hears, self._process), daemon=True).start()
        return self

    def _hear(self, hears: socket.socket, process: "subprocess.Popen[bytes]") -> None:
        hears.settimeout(0.1)
        with hears:
            while True:
                try:
                    self.words += hears.recv(4096).decode().split("\n")
                except TimeoutError:
                    if process.poll() is not None:
                        return

    def start(self) -> Self:
        self.launch()
        wait_for(lambda: self.said_up or not self.is_there, "READY=1")
        assert self.is_there, f"tabled ended: {self.said()}"
        return self

    def close(self) -> None:
        """Ends it the hard way where it still runs; may be called twice."""
        if not self._closed:
            self._closed = True
            super().__exit__()

    def __exit__(self, *_: object) -> None:
        self.close()

    def terminate(self) -> None:
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """Waits for the end; the exit code, negative for a signal."""
        assert self._process is not None, "it ran"
        code = self._process.wait(30)
        self._process = None
        return code

    def run(self) -> tuple[int, str]:
        """For one that ends by itself: its exit code and all that it said."""
        return self.launch().ended(), self.said()
