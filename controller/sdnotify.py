"""What systemd wants to hear: READY=1, STATUS=, WATCHDOG=1, STOPPING=1 (sd_notify(3)).

Thirty lines instead of a library, because the libraries hide every error; here a failure is told once and is no more
than a missed word: systemd itself judges a service that stays silent.
"""

import logging
import os
import socket

# Non-blocking: a systemd that froze reads no more, and the table must go on when its queue is full.
KIND = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK

log = logging.getLogger(__name__)


class Notifier:
    """Speaks to the socket that systemd names in `NOTIFY_SOCKET`; without one it says nothing."""

    def __init__(self, address: str | None = None) -> None:
        given = os.environ.get("NOTIFY_SOCKET") if address is None else address
        self._address = "\0" + given[1:] if given and given.startswith("@") else given
        self._failed = False

    def tell(self, *words: str) -> None:
        """One datagram of assignments, as in `tell("READY=1", "STATUS=up")`."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, KIND) as sender:
                sender.sendto("\n".join(words).encode(), self._address)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("systemd does not hear us at %r: %s", self._address, error)
            self._failed = True


def watchdog_s() -> float | None:
    """How often systemd wants to hear WATCHDOG=1 (a third of its limit), or None where it does not ask."""
    usec, pid = os.environ.get("WATCHDOG_USEC"), os.environ.get("WATCHDOG_PID")
    if not usec or not usec.isdecimal() or int(usec) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(usec) / 3_000_000
