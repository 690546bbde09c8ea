"""A card scanner on a serial port: its lines become cards, the cut card, misreads and foreign codes.

pyserial opens and configures; the event loop reads the descriptor itself, one wake-up a chunk, so that nothing ever
waits for a scanner. Log lines hold counts and never a code: no face leaves by any door before its card is placed (B10).
"""

import asyncio
import errno
import fcntl
import logging
import os
import termios
import time
from collections.abc import Callable

import serial

from controller.core.codes import Codes, Scans
from controller.core.events import FaultGone, FaultSeen
from controller.link.lines import Lines
from controller.ports import Submit

log = logging.getLogger(__name__)

CODE = "I40"
PART = "scanner"
LINE_MAX = 128  # bytes: more than any code of ours, so that a foreign label is told whole (I06)
CHUNK = 4096  # bytes: what the kernel holds for a tty
SETTLE_S = 0.05  # six characters at 1200 baud, three packets of a USB adapter that sends each 16 ms
SETTLE_TRIES = 20  # a second: what never pauses is no scanner at our baud rate
NOISE_LOG_S = 10.0  # the noise of so long is one line in the log
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


class ScannerSerial:
    """Source: `port` (a path, best under /dev/serial/by-id) at `baud`, 8N1; `codes`, `repeat_ms` as `Scans` has them.

    Half a line is noise after `idle_ms` of silence. A port that is lost, or not there, is one fault I40 until it is
    read again; `retry_s` is the first and the longest wait between two attempts to open it. `opened` is set while the
    port is read: what was sent before is not taken. `tried` is set once the first attempt is over, whatever its end.
    """

    def __init__(
        self,
        *,
        port: str,
        baud: int,
        codes: Codes,
        repeat_ms: int = 0,
        idle_ms: int = 200,
        on_repeat: Callable[[int], None] | None = None,
        retry_s: tuple[float, float] = (0.2, 2.0),
    ) -> None:
        self.lines = Lines(LINE_MAX, idle_ms * 1_000_000)
        self.scans = Scans(codes, repeat_ms, on_repeat)
        self.opened = asyncio.Event()
        self.tried = asyncio.Event()
        self._port = port
        self._baud = baud
        self._retry_s = retry_s
        self._fault = ""  # the text of the fault that stands
        self._timer: asyncio.TimerHandle | None = None  # set while half a line waits
        self._dropped = 0  # `lines.dropped` at the last line
        self._logged = 0  # `lines.dropped` at the last word about it in the log
        self._logged_at = -NOISE_LOG_S

    async def run(self, submit: Submit) -> None:
        wait, longest = self._retry_s
        while True:
            began = time.monotonic()
            try:
                port = self._open()
            except TROUBLE as error:
                self._lost(submit, error)
            else:
                await self._read(port, submit)
            # A port that comes and goes is not opened more often than one that is not there.
            if time.monotonic() - began > longest:
                wait = self._retry_s[0]
            await asyncio.sleep(wait)
            wait = min(2 * wait, longest)

    def _open(self) -> serial.Serial:
        """The port, configured and ours alone; any of TROUBLE.

        With an inter-byte timeout of 0 pyserial sets VMIN to 1: then no byte is EAGAIN, and b"" is a lost device only.
        """
        port = serial.Serial(self._port, self._baud, timeout=0, inter_byte_timeout=0, exclusive=True)
        try:
            # `exclusive` is flock: it keeps out those who ask, and the kernel frees it when its holder is killed.
            # TIOCEXCL keeps out all but root. A pty (socat, ser2net) stays so marked when we are killed, and would
            # never open again; a real port forgets the mark at its last close.
            if os.major(os.fstat(port.fd).st_rdev) not in PTY_MAJORS:
                fcntl.ioctl(port.fd, termios.TIOCEXCL)
        except TROUBLE:
            port.close()
            raise
        return port

    async def _read(self, port: serial.Serial, submit: Submit) -> None:
        """Reads until the device is lost and reported; the port is closed on every way out."""
        try:
            await self._settle(port)
        except TROUBLE as error:
            lost: Exception = error
        else:
            loop = asyncio.get_running_loop()
            over: asyncio.Future[Exception] = loop.create_future()
            loop.add_reader(port.fd, self._readable, port.fd, submit, over)
            self._await_rest()
            self.opened.set()
            self._found(submit)
            lost = await over
        finally:
            self._close(port)
        self._lost(submit, lost)

    async def _settle(self, port: serial.Serial) -> None:
        """Drops what came before the port was ours; any of TROUBLE.

        A card scanned while nobody read has no number, and its dealer is asked to scan it again (I35): taken late, it
        would stand twice. A code under way as the port opens comes without its head, and the tail of one may be
        another: NOREAD ends in the ace of diamonds. Hence a pause; without one, the line under way is dropped.
        """
        came = 0
        for _ in range(SETTLE_TRIES):
            await asyncio.sleep(SETTLE_S)
            waiting = port.in_waiting
            port.reset_input_buffer()
            came += waiting
            if not waiting:
                break
        if came:
            log.warning("scanner port %s: %d bytes that came as it opened are not taken", self._port, came)
        self.lines.restart(time.monotonic_ns(), midline=waiting > 0)

    def _readable(self, fd: int, submit: Submit, over: "asyncio.Future[Exception]") -> None:
        """The loop calls this when the device has bytes, and when it is gone.

        What ends `over` wakes `_read`, which closes the port in the next turn: a lost device is readable without end.
        """
        at = time.monotonic_ns()
        if over.done():
            return
        try:
            lost = self._take(fd, at, submit)
        except Exception as error:  # noqa: BLE001 -- hides nothing: in a callback it would only be logged, so it ends `run`
            over.set_exception(error)
            return
        if lost is not None:
            over.set_result(lost)

    def _take(self, fd: int, at: int, submit: Submit) -> Exception | None:
        """Tells the table what came; returns why the device is lost, when it is."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return None  # another program took the bytes; what is left of the line will not pass for a code
        except OSError as error:
            return error
        if not data:
            return OSError(errno.ENODEV, "end of file")
        for line in self.lines.feed(data, at):
            torn, self._dropped = self.lines.dropped != self._dropped, self.lines.dropped
            event = self.scans.event(line.text, line.at, clean=line.clean, torn=torn)
            if event is not None:
                submit(event)
        self._await_rest()
        return None

    def _await_rest(self) -> None:
        """Sees to it that half a line does not wait for ever, and that noise is heard of."""
        due = self.lines.due
        if due is None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None:
            wait = max(0, due - time.monotonic_ns()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(wait, self._silent)
        if self.lines.dropped != self._logged:
            self._log_noise()

    def _silent(self) -> None:
        self._timer = None
        self.lines.idle(time.monotonic_ns())
        self._await_rest()

    def _log_noise(self) -> None:
        now = time.monotonic()
        if now - self._logged_at < NOISE_LOG_S:
            return
        pieces = self.lines.dropped - self._logged
        log.warning("scanner port %s: %d pieces of noise: check the cable and scanner.baud", self._port, pieces)
        self._logged, self._logged_at = self.lines.dropped, now

    def _close(self, port: serial.Serial) -> None:
        self.opened.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        asyncio.get_running_loop().remove_reader(port.fd)
        port.close()

    def _found(self, submit: Submit) -> None:
        if self._fault:
            log.warning("scanner port %s is read again", self._port)
            submit(FaultGone(time.monotonic_ns(), CODE, PART))
        self._fault = ""
        self.tried.set()

    def _lost(self, submit: Submit, error: Exception) -> None:
        number = error.args[0] if error.args else None  # termios.error has it nowhere else
        advice = ADVICE.get(number, f"failed ({error}): check scanner.port and scanner.baud")
        text = f"scanner port {self._port} {advice}"
        if text != self._fault:
            log.warning("%s", text)
        if not self._fault:
            submit(FaultSeen(time.monotonic_ns(), CODE, PART, text))
        self._fault = text
        self.tried.set()
