"""A card scanner that types like a keyboard: grabbed, so that no console hears it; `Reading` makes events of its lines.

The path in the configuration chooses it, never a search: the technician's keyboard is not touched.
"""

import errno
import fcntl
import logging
import os
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Unpack

from controller.link import keys
from controller.link.keys import Keys
from controller.reading import Piece, Reading, Reads, gone

log = logging.getLogger(__name__)

CHUNK = 64 * keys.EVENT.size  # bytes: what the kernel holds for one reader
CHUNKS_MAX = 16  # thrown away at a time: a device that never ends must not hold the loop
NAME_MAX = 80  # bytes of the device's own name

# linux/input.h, with the numbers of asm-generic/ioctl.h: way, size, the letter E, number
_WRITE, _READ = 1 << 30 | ord("E") << 8, 2 << 30 | ord("E") << 8
KEY_BYTES = keys.KEY_MAX // 8 + 1
EVIOCGNAME = _READ | NAME_MAX << 16 | 0x06
EVIOCGKEY = _READ | KEY_BYTES << 16 | 0x18  # the keys that are down; takes their waiting events out of the queue
EVIOCGBIT_KEY = _READ | KEY_BYTES << 16 | 0x20 + keys.EV_KEY  # the keys that it has
EVIOCGRAB = _WRITE | 4 << 16 | 0x90
EVIOCSCLOCKID = _WRITE | 4 << 16 | 0xA0


class Kernel(NamedTuple):
    """The calls to the kernel, so that a test can stand in its place."""

    open: Callable[[str, int], int] = os.open
    read: Callable[[int, int], bytes] = os.read
    write: Callable[[int, bytes], int] = os.write
    ioctl: Callable[[int, int, Any], Any] = fcntl.ioctl


class NoKeyboardError(Exception):
    """What the path names is no keyboard, and is not grabbed."""


TROUBLE = (OSError, NoKeyboardError)

_BY_ID = "name the scanner's file in /dev/input/by-id that ends in -event-kbd"
_FORBIDDEN = "may not be opened by this user: add the user to the group input"
_GONE = "is gone: check the scanner's plug and power"
_NO_INPUT = f"is no input device: {_BY_ID}"
NO_KEYBOARD = f"is no keyboard: {_BY_ID}"
ADVICE: dict[object, str] = {
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EBUSY: "is held by another program: find it with `fuser -v` and the port's name, and stop it",
    errno.EIO: _GONE,
    errno.ENXIO: _GONE,
    errno.ENODEV: _GONE,
    errno.EINVAL: _NO_INPUT,
    errno.EISDIR: _NO_INPUT,
    errno.ENOTTY: _NO_INPUT,
}


def advise(error: Exception, key: str) -> str:
    if isinstance(error, NoKeyboardError):
        return NO_KEYBOARD
    number = error.args[0] if error.args else None
    if number == errno.ENOENT:
        return f"is not there: check the scanner's plug and power, and the name in {key}.port"
    return ADVICE.get(number, f"failed ({error}): check {key}.port")


class HidDevice:
    """The keyboard at `port`, grabbed. Each method raises any of TROUBLE when it is lost; closing it ends the grab."""

    def __init__(self, port: str, kernel: Kernel) -> None:
        self._kernel = kernel
        self._keys = Keys()
        self._locks: tuple[bool, bool] | None = None  # CapsLock, NumLock: what the scanner's lamps were told last
        self.fd = kernel.open(port, os.O_RDWR | os.O_NONBLOCK)
        try:
            if keys.TYPES - self._bits(EVIOCGBIT_KEY):
                raise NoKeyboardError
            kernel.ioctl(self.fd, EVIOCGRAB, 1)
            self._monotonic = self._set_clock(port)
            name = self._ask(EVIOCGNAME, NAME_MAX).rstrip(b"\0").decode("utf-8", "backslashreplace")
        except TROUBLE:
            self.close()
            raise
        log.info("scanner port %s is %r", port, name)

    def discard(self) -> int:
        came = 0
        for _ in range(CHUNKS_MAX):
            data = self._read()
            came += len(data)
            if not data:
                break
        return came

    def begin(self) -> bool:
        """A key that is down was pressed before anyone listened."""
        down = self._bits(EVIOCGKEY)
        self._keys.restart(down)
        self._tell_locks()
        return bool(down)

    def take(self, now: int) -> list[Piece]:
        typed = self._keys.feed(self._read())
        if self._keys.lost:
            self._keys.resync(self._bits(EVIOCGKEY))
        self._tell_locks()
        return [(min(at, now) if self._monotonic else now, data) for at, data in typed]

    def close(self) -> None:
        os.close(self.fd)

    def _read(self) -> bytes:
        """What waits; nothing is b"" here, for the end of the file is an error."""
        try:
            data = self._kernel.read(self.fd, CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            raise gone()
        return data

    def _ask(self, request: int, size: int) -> bytes:
        answer = self._kernel.ioctl(self.fd, request, bytes(size))
        assert isinstance(answer, bytes)
        return answer

    def _bits(self, request: int) -> frozenset[int]:
        return keys.bits(self._ask(request, KEY_BYTES))

    def _set_clock(self, port: str) -> bool:
        """Whether the kernel stamps events by our clock from now on; else the time of reading has to do."""
        try:
            self._kernel.ioctl(self.fd, EVIOCSCLOCKID, struct.pack("i", time.CLOCK_MONOTONIC))
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTTY):
                raise
            log.warning("scanner port %s has no monotonic clock: a card's time is when it is read", port)
            return False
        return True

    def _tell_locks(self) -> None:
        """Lights the lock lamps by which we read: some scanners type by them, or press the lock's key to set them."""
        locks = self._keys.caps, self._keys.num
        if locks != self._locks:
            lamps = zip((keys.LED_CAPSL, keys.LED_NUML), locks, strict=True)
            events = [keys.EVENT.pack(0, 0, keys.EV_LED, lamp, lit) for lamp, lit in lamps]
            end = keys.EVENT.pack(0, 0, keys.EV_SYN, keys.SYN_REPORT, 0)
            self._kernel.write(self.fd, b"".join([*events, end]))
        self._locks = locks


class ScannerHid(Reading):
    """Source: the scanner at `port` (best a path under /dev/input/by-id); else as `Reading` has it."""

    def __init__(
        self,
        *,
        port: str,
        kernel: Kernel = Kernel(),  # noqa: B008 - a tuple of functions, the same for all
        **reads: Unpack[Reads],
    ) -> None:
        super().__init__(port=port, connect=lambda: HidDevice(port, kernel), trouble=TROUBLE, advice=advise, **reads)
