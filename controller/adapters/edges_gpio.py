"""The shoe's sensors on the header's GPIO lines, straight through gpiod: the kernel stamps and numbers their edges.

One request holds all lines, so that one count orders their edges; the event loop reads its descriptor, and there is no
thread. What the edges come to is `link.edges`' business: here they are read, in time, and told in the table's words.
"""

import asyncio
import errno
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import gpiod
from gpiod.line import Bias, Clock, Direction, Value
from gpiod.line import Edge as Detect

from controller.core.events import FaultGone, FaultSeen, MovementUnclear
from controller.link.chips import HEADERS, ChipError, find_chip
from controller.link.edges import EDGES, Edges
from controller.link.movements import Edge, Line, Report, Thresholds, Why
from controller.ports import Submit
from controller.retry import Retry
from controller.sensing import CODE, told

log = logging.getLogger(__name__)

CHIP = "chip"  # the part at fault when the lines cannot be read at all
HEAD = "head"  # what only a sensor head can have at fault: of a table that had one before
EVENTS_MAX = 128  # edges that wait in the kernel, which drops the oldest (its own choice is 16 a line): G6
LOOK_NS = 1_000_000_000  # Linux 6.1 wakes nobody whose chip goes: the levels are read so often, edges or none
READS_MAX = 8  # of so many edges in one turn of the loop: a line that chatters without end holds nothing else up
STICK = {line.value: line for line in (Line.INNER, Line.OUTER, Line.CUT)}  # those with a level that a fault may hold
INVERTED = (Line.PRESENT,)  # low means a card; a broken wire reads as an empty mouth, and everywhere else as True

# The chip says no in gpiod's calls (OSError), or there is not exactly one (ChipError).
TROUBLE = (OSError, ChipError)

ADVICE = {
    errno.ENOENT: "is not there",
    errno.EACCES: "may not be opened by this user: add the user to the group gpio",
    errno.EPERM: "may not be opened by this user: add the user to the group gpio",
    errno.ENODEV: "is gone: check its plug and power",
    errno.EIO: "fails: check its plug and power",
}


class _LostError(Exception):
    """gpiod's word, or ours, that the chip is of no use any more; its cause says why."""


def chip_paths() -> list[str]:
    return sorted(str(path) for path in Path("/dev").glob("gpiochip*"))


class EdgesGpio:
    """Source: the sensors of the shoe. `lines` are those fitted, and their offsets on the chip (BCM numbers on a Pi).

    ValueError for one exit beam without the other. All lines are pulled up; those `inverted` say True when they are
    low. `open_chip` opens a chip by its path, as `gpiod.Chip`; `paths` lists the chips; `labels` are those that the
    right one may have; `now` is CLOCK_MONOTONIC in ns, which the kernel's stamps must be of.

    A chip that is lost, or not there, is one fault I41 of the part `chip` until it is read again, and then it is not
    clear what moved meanwhile; `retry_s` is the first and the longest wait between two attempts. `opened` is set while
    the lines are read; `tried` is set once the first attempt is over, whatever its end. `sensors` holds the counts for
    whoever diagnoses.
    """

    def __init__(
        self,
        *,
        lines: Mapping[Line, int],
        inverted: Collection[Line] = INVERTED,
        limits: Thresholds | None = None,
        open_chip: Callable[[str], gpiod.Chip] = gpiod.Chip,
        paths: Callable[[], Iterable[str]] = chip_paths,
        labels: Collection[str] = HEADERS,
        retry_s: tuple[float, float] = (0.2, 2.0),
        now: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.sensors = Edges(lines, limits)
        self.opened = asyncio.Event()
        self.tried = asyncio.Event()
        self._offsets = dict(lines)
        self._lines = {offset: line for line, offset in lines.items()}
        self._inverted = inverted
        self._open_chip = open_chip
        self._paths = paths
        self._labels = labels
        self._retry_s = retry_s
        self._now = now
        self._fault: str | None = None  # the text of the chip's fault that stands; None: not known yet
        # Parts whose fault a run before this one may have left standing.
        self._inherited: set[str] = {*Line, EDGES, HEAD}
        self._troubles: dict[str, str] = {}  # those of the sensors' faults that stand, by part
        self._seen: Counter[Line] = Counter()  # edges
        self._look_at = 0
        self._timer: asyncio.TimerHandle | None = None

    def diag(self) -> dict[str, Any]:
        """For people: whether the lines are `open`, the `fault` that stands, each of `pins`, and what `moved`, by kind.

        A pin is {name, pin, active, edges, trouble}; `active` means what `Line` says, settled, and is None while the
        lines are not open. `edges` counts those that came by themselves. Nothing here knows a face (B10).
        """
        levels = self.sensors.levels if self.opened.is_set() else {}
        return {
            "open": self.opened.is_set(),
            "fault": self._fault or self._troubles.get(EDGES, ""),
            "pins": [
                {
                    "name": line.value,
                    "pin": offset,
                    "active": levels.get(line),
                    "edges": self._seen[line],
                    "trouble": self._troubles.get(line, ""),
                }
                for line, offset in self._offsets.items()
            ],
            "moved": dict(self.sensors.counts),
        }

    async def run(self, submit: Submit) -> None:
        retry = Retry(self._retry_s, self._now)
        while True:
            try:
                request = self._open()
            except TROUBLE as error:
                self._lost(submit, error)
            else:
                await self._read(request, submit)
            await retry.rest()

    def _open(self) -> gpiod.LineRequest:
        """All lines in one request, ours alone; any of TROUBLE."""
        path = self._find()
        settings: dict[Iterable[int | str] | int | str, gpiod.LineSettings | None] = {
            offset: gpiod.LineSettings(
                direction=Direction.INPUT,
                edge_detection=Detect.BOTH,
                bias=Bias.PULL_UP,
                active_low=line in self._inverted,
                event_clock=Clock.MONOTONIC,
            )
            for line, offset in self._offsets.items()
        }
        with self._open_chip(path) as chip:
            try:
                return chip.request_lines(
                    settings, consumer=f"baccarat-table {os.getpid()}", event_buffer_size=EVENTS_MAX
                )
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                held = [chip.get_line_info(offset) for offset in self._lines]
                names = [f"GPIO{info.offset} by {info.consumer or 'the kernel'}" for info in held if info.used]
                raise ChipError(
                    f"{path}: held is {', '.join(names)}: stop that program, or choose other pins"
                ) from error

    def _find(self) -> str:
        """The path of the header's chip. One may have two paths, as a Pi 5's gpiochip4 is a link; its name is one."""
        found: dict[str, tuple[str, str, int]] = {}
        closed: OSError | None = None
        for path in self._paths():
            try:
                with self._open_chip(path) as chip:
                    info = chip.get_info()
            except OSError as error:
                closed = error
            else:
                found.setdefault(info.name, (path, info.label, info.num_lines))
        try:
            path = find_chip({path: label for path, label, _ in found.values()}, self._labels)
        except ChipError as error:
            if closed is not None and not any(label in self._labels for _, label, _ in found.values()):
                raise closed from error  # perhaps the one
            raise
        (count,) = [lines for where, _, lines in found.values() if where == path]
        if max(self._lines) >= count:
            raise ChipError(f"{path} has no line {max(self._lines)}: it has {count}")
        return path

    # --- reading --------------------------------------------------------------------------------------------

    async def _read(self, request: gpiod.LineRequest, submit: Submit) -> None:
        """Reads until the chip is lost and reported; the lines are given back on every way out."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[BaseException | None] = loop.create_future()
        fd = request.fd
        try:
            self._ready(request, submit, over)  # reads the levels first
            if not over.done():
                loop.add_reader(fd, self._ready, request, submit, over)
                self._found(submit)
                self.opened.set()
            lost = await over
        finally:
            self.opened.clear()
            self._cancel()
            loop.remove_reader(fd)
            request.release()
            reports = self.sensors.forget(self._now())
        self._tell(submit, reports)
        self._lost(submit, lost)

    def _ready(self, request: gpiod.LineRequest, submit: Submit, over: "asyncio.Future[BaseException | None]") -> None:
        """The loop calls this when edges wait, when the chip is gone, and when time has come to a judgement.

        What ends `over` wakes `_read`, which gives the lines back in the next turn: a lost chip stays readable.
        """
        self._cancel()
        if over.done():
            return
        try:
            self._take(request, submit)
        except _LostError as error:
            over.set_result(error.__cause__)
        except Exception as error:  # noqa: BLE001 -- hides nothing: in a callback it would only be logged, so it ends `run`
            over.set_exception(error)
        else:
            due = min(self._look_at, self.sensors.due or self._look_at)
            wait = max(0, due - self._now()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(wait, self._ready, request, submit, over)

    def _take(self, request: gpiod.LineRequest, submit: Submit) -> None:
        """Tells the table what is sure by now; _LostError."""
        for _ in range(READS_MAX):
            at = self._now()  # before the look: when no edge waits, all of those up to here were handed over
            edges = self._waiting(request)
            for edge in edges:
                self._tell(submit, self.sensors.feed(edge))
            if not edges:
                self._tell(submit, self.sensors.elapse(at))
                break
        at = self._now()
        if self.sensors.wants_levels or at >= self._look_at:
            levels = self._levels(request)
            self._look_at = at + LOOK_NS
            if self.sensors.wants_levels:
                self._tell(submit, self.sensors.reread(levels, at))
        if self._inherited and not self.sensors.deaf:
            self._redeem(submit)

    def _waiting(self, request: gpiod.LineRequest) -> list[Edge]:
        try:
            events = request.read_edge_events(EVENTS_MAX) if request.wait_edge_events(0) else []
        except OSError as error:
            raise _LostError from error
        if events and max(event.timestamp_ns for event in events) > self._now():
            raise _LostError from OSError(errno.EPROTO, "its edges are not stamped by CLOCK_MONOTONIC")
        return [self._edge(event) for event in events]

    def _levels(self, request: gpiod.LineRequest) -> dict[Line, bool]:
        try:
            values = request.get_values(list(self._lines))
        except OSError as error:
            raise _LostError from error
        return {line: value is Value.ACTIVE for line, value in zip(self._offsets, values, strict=True)}

    def _edge(self, event: gpiod.EdgeEvent) -> Edge:
        level = event.event_type is gpiod.EdgeEvent.Type.RISING_EDGE
        line = self._lines[event.line_offset]
        self._seen[line] += 1
        return Edge(line, level, event.timestamp_ns, event.global_seqno, event.line_seqno)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- telling --------------------------------------------------------------------------------------------

    def _tell(self, submit: Submit, reports: Iterable[Report]) -> None:
        for report in reports:
            event = told(report)
            if isinstance(event, FaultSeen | FaultGone):
                self._inherited.discard(event.part)
            if isinstance(event, FaultSeen):
                log.warning("shoe sensors: %s", event.text)
                self._troubles[event.part] = event.text
            elif isinstance(event, FaultGone):
                self._troubles.pop(event.part, None)
            submit(event)

    def _found(self, submit: Submit) -> None:
        if self._fault:
            log.warning("shoe sensors: the chip is read again")
            if self.sensors.beams:
                submit(MovementUnclear(self._now(), str(Why.LOST)))  # nobody saw what was drawn meanwhile
        if self._fault != "":  # at first too: a fault of the run before may still stand
            submit(FaultGone(self._now(), CODE, CHIP))
        self._fault = ""
        self.tried.set()

    def _redeem(self, submit: Submit) -> None:
        """Ends what a run before this one found, but for what may be stuck still: that one ends when it is clear.

        A sensor that is blind is found out again by the next cards: without rounds none would ever prove it well.
        """
        levels = self.sensors.levels
        for part in sorted(self._inherited):
            if part not in STICK or not levels.get(STICK[part]):
                self._inherited.discard(part)
                submit(FaultGone(self._now(), CODE, part))

    def _lost(self, submit: Submit, error: BaseException | None) -> None:
        what = str(error)
        if isinstance(error, OSError):
            advice = ADVICE.get(error.errno or 0, f"fails ({error.strerror}): check its plug and power")
            what = f"the GPIO chip of the shoe's sensors {advice}"
        if what != self._fault:
            log.warning("shoe sensors: %s", what)
        if not self._fault:
            submit(FaultSeen(self._now(), CODE, CHIP, what))
        self._fault = what
        self.tried.set()
