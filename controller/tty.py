"""A serial line, opened and configured by pyserial: raw, 8N1, ours alone, and never waited for.

What an adapter makes of the bytes is its own. Opening, losing and closing are the same for each device on such a line.
"""

import errno
import fcntl
import os
import termios

import serial

CHUNK = 4096  # bytes: what the kernel holds for a tty
PTY_MAJORS = range(136, 144)  # Unix98 pseudo-terminals (Linux, Documentation/admin-guide/devices.txt)

# How an open port is lost: OSError (serial.SerialException is one); termios.error, which is none (bug reports 22, 23).
LOST = (OSError, termios.error)
# How a port says no: ValueError, too, for a baud rate that it has not.
TROUBLE = (*LOST, ValueError)


def advise(error: Exception, *, check: str, key: str) -> str:
    """What to do of any of TROUBLE, after the port's name. `check` is what may be loose, `key` the section."""
    match error.args[0] if error.args else None:  # termios.error has its number nowhere else
        case errno.ENOENT:
            return f"is not there: check {check}, and the name in {key}.port"
        case errno.EACCES | errno.EPERM:
            return "may not be opened by this user: add the user to the port's group (dialout)"
        case errno.EBUSY | errno.EAGAIN:
            return "is held by another program: find it with `fuser -v` and the port's name, and stop it"
        case errno.EIO | errno.ENXIO | errno.ENODEV:
            return f"is gone: check {check}"
        case _:
            return f"failed ({error}): check {key}.port and {key}.baud"


class Tty:
    """`port`, open at `baud`: any of TROUBLE. Each method but `close` raises any of LOST when it is lost."""

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
        """Throws away what waits to be read; how many bytes that was."""
        waiting: int = self._port.in_waiting
        self._port.reset_input_buffer()
        return waiting

    def read(self) -> bytes:
        """What came; nothing where another program took it. OSError with ENODEV at the end of the file."""
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            raise OSError(errno.ENODEV, "end of file")
        return data

    def write(self, data: bytes) -> int:
        """How many bytes the line took: none while it is full."""
        try:
            return os.write(self.fd, data)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Lets go of it; never raises."""
        self._port.close()
