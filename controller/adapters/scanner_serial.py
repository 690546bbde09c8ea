"""A card scanner on a serial port: pyserial opens and configures it, `Reading` makes lines and events of its bytes."""

import errno
import fcntl
import os
import termios
from collections.abc import Callable
from typing import Any

import serial

from controller.core.codes import Codes
from controller.ports import Submit
from controller.reading import Piece, Reading, gone, never

CHUNK = 4096  # bytes: what the kernel holds for a tty
PTY_MAJORS = range(136, 144)  # Unix98 pseudo-terminals (Linux, Documentation/admin-guide/devices.txt)

# How a port says no: OSError (serial.SerialException is one); termios.error, which is none (bug reports 22, 23);
# ValueError for a baud rate that it has not.
TROUBLE = (OSError, termios.error, ValueError)

_FOREIGN = "is held by another program: find it with `fuser -v` and the port's name, and stop it"
_FORBIDDEN = "may not be opened by this user: add the user to the port's group (dialout)"
_GONE = "is gone: check the scanner's plug and power"
ADVICE: dict[object, str] = {
    errno.ENOENT: "is not there: check the scanner's plug and power, and the name in scanner.port",
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EBUSY: _FOREIGN,
    errno.EAGAIN: _FOREIGN,
    errno.EIO: _GONE,
    errno.ENXIO: _GONE,
    errno.ENODEV: _GONE,
}


def advise(error: Exception) -> str:
    number = error.args[0] if error.args else None  # termios.error has it nowhere else
    return ADVICE.get(number, f"failed ({error}): check scanner.port and scanner.baud")


class SerialDevice:
    """`port`, open at `baud`, 8N1, and ours alone. Each method raises any of TROUBLE when it is lost."""

    def __init__(self, port: str, baud: int) -> None:
        # With an inter-byte timeout of 0 pyserial sets VMIN to 1: no byte is EAGAIN, and b"" is a lost device only.
        self._port = serial.Serial(port, baud, timeout=0, inter_byte_timeout=0, exclusive=True)
        self.fd: int = self._port.fd
        try:
            # `exclusive` is flock: it keeps out those who ask, and the kernel frees it when its holder is killed.
            # TIOCEXCL keeps out all but root. A pty (socat, ser2net) stays so marked when we are killed, and would
            # never open again; a real port forgets the mark at its last close.
            if os.major(os.fstat(self.fd).st_rdev) not in PTY_MAJORS:
                fcntl.ioctl(self.fd, termios.TIOCEXCL)
        except TROUBLE:
            self.close()
            raise

    def discard(self) -> int:
        waiting: int = self._port.in_waiting
        self._port.reset_input_buffer()
        return waiting

    def begin(self) -> bool:
        """A port knows nothing of what is under way: the pause before tells."""
        return False

    def take(self, now: int) -> tuple[Piece, ...]:
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return ()  # another program took the bytes; what is left of the line will not pass for a code
        if not data:
            raise gone()
        return ((now, data),)

    def close(self) -> None:
        self._port.close()


class ScannerSerial:
    """Source: the scanner on `port` (best a path under /dev/serial/by-id) at `baud`; else as `Reading` has it."""

    def __init__(
        self,
        *,
        port: str,
        baud: int,
        codes: Codes,
        repeat_ms: int = 0,
        idle_ms: int = 200,
        retry_s: tuple[float, float] = (0.2, 2.0),
        in_clear: Callable[[], bool] = never,
    ) -> None:
        self._reading = Reading(
            port=port,
            connect=lambda: SerialDevice(port, baud),
            trouble=TROUBLE,
            advice=advise,
            codes=codes,
            repeat_ms=repeat_ms,
            idle_ms=idle_ms,
            retry_s=retry_s,
            in_clear=in_clear,
        )
        self.lines, self.scans = self._reading.lines, self._reading.scans
        self.opened, self.tried = self._reading.opened, self._reading.tried

    def diag(self) -> dict[str, Any]:
        return self._reading.diag()

    async def run(self, submit: Submit) -> None:
        await self._reading.run(submit)
