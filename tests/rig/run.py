"""`make rig`, the host's side: boots the guest, is its hands (plugs, types, sends), prints what its checks found.

The guest leads: it writes a JSON object a line on its second serial port, and reads one for each that asks for
something. {"say": text} is printed; {"do": name of one of HANDS, …} is done; {"failed": n} ends the run.
"""

import json
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GUEST_PYTHON = (3, 11)  # Debian 12's: it imports the packages of the Python that runs this
SILENCE_S = 300.0  # how long a guest without hardware virtualisation may say nothing
HELD_MAX = 16  # events that QEMU's keyboard holds
SHIFTED = dict(zip('!@#$%^&*()"', "1234567890'", strict=True))
KEYS = {"\r": "ret", " ": "spc", "\x14": "caps_lock"}  # what is not its own name on a QEMU keyboard


class Qmp:
    """QEMU's monitor, as far as it is needed: a command, its answer; events pass unheard."""

    def __init__(self, connection: socket.socket) -> None:
        self._lines = connection.makefile("rw", encoding="utf-8")
        self._read()  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: object) -> None:
        self._lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._lines.flush()
        while True:
            answer = self._read()
            if "return" in answer:
                return
            if "error" in answer:
                raise RuntimeError(f"{command} {arguments}: {answer['error']['desc']}")

    def _read(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._lines.readline())
        return answer


class Hands:
    """What is done to the guest from outside. Each public method is a `do` of the guest."""

    def __init__(self, qmp: Qmp, scanner: Path) -> None:
        self._qmp = qmp
        self._scanner = scanner
        self._wire: socket.socket | None = None

    def plug_keyboard(self) -> None:
        self._qmp.execute(
            "device_add", driver="usb-kbd", bus="xhci.0", port="2", id="keyboard"
        )  # its name has the port

    def unplug_keyboard(self) -> None:
        self._qmp.execute("device_del", id="keyboard")

    def type(self, text: str) -> None:
        """Each character's strokes, with shift where it needs one, all at once: the keyboard holds 16 for the guest."""
        strokes: list[dict[str, object]] = []
        for sign in text:
            shifted = sign.isupper() or sign in SHIFTED
            key = KEYS.get(sign) or SHIFTED.get(sign, sign.lower())
            pressed = [(key, True), (key, False)]
            if shifted:
                pressed = [("shift", True), *pressed, ("shift", False)]
            strokes += [_stroke(name, down=down) for name, down in pressed]
        assert len(strokes) <= HELD_MAX, f"{text!r} is more than the keyboard holds"
        self._qmp.execute("input-send-event", events=strokes)

    def plug_serial(self) -> None:
        """QEMU's serial adapter is plugged in while somebody holds its other end."""
        self._wire = socket.socket(socket.AF_UNIX)
        self._wire.connect(str(self._scanner))

    def unplug_serial(self) -> None:
        assert self._wire is not None
        self._wire.close()
        self._wire = None

    def send(self, text: str) -> None:
        assert self._wire is not None
        self._wire.sendall(text.encode())


def _stroke(key: str, *, down: bool) -> dict[str, object]:
    return {"type": "key", "data": {"down": down, "key": {"type": "qcode", "data": key}}}


def command(build: Path, sockets: Path, names: list[str]) -> list[str]:
    """QEMU with one processor and no disk: the archive is the root file system, checkout and packages are shares.

    The guest's time is that of its instructions, 4 ns each, and jumps on where it only waits (`-icount`): a busy host
    does not show in it, and the seconds of the host do not in the guest.
    """
    shares = {"checkout": ROOT, "packages": Path(sysconfig.get_path("purelib"))}
    share = "local,path={},mount_tag={},security_model=none,readonly=on,multidevs=remap"
    return [
        *("qemu-system-x86_64", "-accel", "tcg", "-icount", "shift=2,sleep=off", "-smp", "1", "-m", "1024"),
        *("-nodefaults", "-display", "none", "-no-reboot"),
        *("-kernel", str(build / "vmlinuz"), "-initrd", str(build / "guest.cpio")),
        *("-append", " ".join(["console=ttyS0 panic=-1 rdinit=/init --", *names])),
        *(word for tag, path in shares.items() for word in ("-virtfs", share.format(path, tag))),
        *("-device", "qemu-xhci,id=xhci"),
        *("-chardev", f"socket,id=scanner,path={sockets}/scanner,server=on,wait=off"),
        *("-device", "usb-serial,bus=xhci.0,chardev=scanner"),
        *("-serial", f"file:{build}/console.log"),
        *("-chardev", f"socket,id=talk,path={sockets}/talk", "-serial", "chardev:talk"),
        *("-chardev", f"socket,id=monitor,path={sockets}/monitor", "-mon", "chardev=monitor,mode=control"),
    ]


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.settimeout(SILENCE_S)
    listener.bind(str(path))
    listener.listen(1)
    return listener


def accept(listener: socket.socket) -> socket.socket:
    with listener:
        connection, _ = listener.accept()
    connection.settimeout(SILENCE_S)
    return connection


def serve(talk: socket.socket, hands: Hands) -> int:
    """Does what the guest asks until it is done; how many of its checks failed."""
    lines = talk.makefile("rw", encoding="utf-8", newline="\n")
    for line in lines:
        asked: dict[str, Any] = json.loads(line)
        if "failed" in asked:
            return int(asked["failed"])
        if "say" in asked:
            print(asked["say"], flush=True)
        else:
            act: Callable[..., None] = getattr(hands, asked.pop("do"))
            act(**asked)
            lines.write("{}\n")
            lines.flush()
    raise RuntimeError("the guest went without a word")


def main(build: Path, names: list[str]) -> int:
    if sys.version_info[:2] != GUEST_PYTHON:
        print("make rig lends its packages to Debian 12: run it with Python 3.11, as in make PYTHON=python3.11 rig")
        return 2
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        sockets = Path(name)
        monitor, talk = listen(sockets / "monitor"), listen(sockets / "talk")
        with subprocess.Popen(command(build, sockets, names)) as qemu:
            try:
                wire = accept(talk)
                failed = serve(wire, Hands(Qmp(accept(monitor)), sockets / "scanner"))
                qemu.wait(SILENCE_S)
            except (OSError, RuntimeError, ValueError) as error:
                print(f"the guest failed ({error}); its last words, of {build / 'console.log'}:", file=sys.stderr)
                print((build / "console.log").read_text(errors="replace")[-4_000:], file=sys.stderr)
                failed = 1
            finally:
                qemu.kill()
    print(f"{'failed' if failed else 'all is well'}, {time.monotonic() - began:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
