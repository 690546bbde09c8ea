"""A card scanner on a serial line: `Tty` opens it, `Reading` makes lines and events of its bytes."""

from typing import Unpack

from controller.reading import Piece, Reading, Reads
from controller.tty import TROUBLE, Tty
from controller.tty import advise as advise_of


def advise(error: Exception, key: str) -> str:
    return advise_of(error, check="the scanner's plug and power", key=key)


class SerialDevice(Tty):
    """The line as `Reading` takes it. Each method raises any of TROUBLE when it is lost."""

    def begin(self) -> bool:
        """A line knows nothing of what is under way: the pause before tells."""
        return False

    def take(self, now: int) -> tuple[Piece, ...]:
        data = self.read()  # where another program took bytes, what is left of the line will not pass for a code
        return ((now, data),) if data else ()


class ScannerSerial(Reading):
    """Source: the scanner on `port` (best a path under /dev/serial/by-id) at `baud`; else as `Reading` has it."""

    def __init__(self, *, port: str, baud: int, **reads: Unpack[Reads]) -> None:
        super().__init__(port=port, connect=lambda: SerialDevice(port, baud), trouble=TROUBLE, advice=advise, **reads)
