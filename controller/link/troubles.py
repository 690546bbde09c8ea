"""Which sensors are at fault, whatever found it."""

from .movements import Fault, Report, Well, Why


class Troubles:
    """A part may be at fault for more than one reason: the first that comes is reported, and the last that goes."""

    def __init__(self, reports: list[Report]) -> None:
        self._reports = reports
        self._why: dict[str, set[Why]] = {}

    def has(self, part: str, why: Why | None = None) -> bool:
        standing = self._why.get(part, set())
        return bool(standing) if why is None else why in standing

    def begin(self, at: int, part: str, why: Why) -> None:
        standing = self._why.setdefault(part, set())
        if not standing:
            self._reports.append(Fault(at, part, why))
        standing.add(why)

    def end(self, at: int, part: str, why: Why) -> None:
        standing = self._why.get(part, set())
        if why in standing:
            standing.remove(why)
            if not standing:
                self._reports.append(Well(at, part))
