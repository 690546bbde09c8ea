"""What this machine says of itself: who else speaks on a serial port, who a user is. Reads and asks, changes nothing.

The texts come from here, what they mean from `link/hosts.py`.
"""

import pwd
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from .link import hosts

Ask = Callable[[Sequence[str]], str]
"""Runs a program and gives what it prints; empty where this machine has no such program or it has no answer."""

CMDLINE = Path("/proc/cmdline")
ANSWER_S = 10.0  # systemd and udev answer in milliseconds


class MachineError(Exception):
    """This machine does not answer. The text says what to do."""


def ask(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=False).stdout  # noqa: S603
    except FileNotFoundError:  # no systemd and no udev: then none of their services is in the way either
        return ""
    except subprocess.TimeoutExpired:
        text = f"{command[0]} gives no answer within {ANSWER_S:g} s: try again, or start the machine anew"
        raise MachineError(text) from None


def user_name(uid: int) -> str:
    """The user's name; the number where this machine has no name for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def serial_rows(port: Path, part: str, *, ask: Ask = ask, cmdline: Path = CMDLINE) -> list[hosts.Row]:
    """Who else speaks on this port of a part (of `hosts.PARTS`): kernel, login shells, ModemManager, brltty.

    Empty where there is no such port. MachineError.
    """
    if not port.exists():
        return []
    names = {str(port), str(port.resolve())}
    return hosts.serial_rows(
        names,
        cmdline=cmdline.read_text(encoding="ascii"),
        listing=ask(("systemctl", "list-units", "--all", "--plain", "--no-legend")),
        properties=ask(("udevadm", "info", "--query=property", f"--name={port}")),
        part=part,
    )
