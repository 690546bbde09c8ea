"""Whether what speaks on a scanner's port is a scanner of ours: judged by what it sends, knowing no code itself."""

STRANGE_AFTER = 5  # lines or pieces of noise: a boot banner has more, and nobody lays so many foreign cards in a row


class Doubt:
    """Counts what came since the port was opened, until the first code: from then on the device is trusted.

    `strange` from the `limit`th line or piece of noise on, if none was a code, until one is: a modem, a receiver, a
    sensor head, the wrong speed or the wrong code table.
    """

    def __init__(self, limit: int = STRANGE_AFTER) -> None:
        self._limit = limit
        self.restart()

    def restart(self) -> None:
        """The port is opened, perhaps on another device."""
        self._heard = 0
        self._trusted = False

    @property
    def strange(self) -> bool:
        return not self._trusted and self._heard >= self._limit

    def hear(self, *, known: bool) -> None:
        """A line that ended, or noise that was dropped; `known`: it is a clean code, be it that of a misread."""
        self._trusted = self._trusted or known
        self._heard += 1
