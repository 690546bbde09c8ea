"""Edges back into the order in which they happened, and the signs that some are missing.

The kernel stamps and numbers an edge in the interrupt, and hands it over in a thread of its line (Linux,
drivers/gpio/gpiolib-cdev.c). So two lines' edges may come in the wrong order; and two interrupts before the thread ran
are one edge, whose level is right, and a hole in the numbers of the request. Where the full buffer dropped an edge, its
line's own numbers have a hole too, as soon as that line has another one.
"""

from collections import Counter

from .movements import Edge, Line

HELD_MAX = 128  # as many as the kernel holds


class Order:
    """`take` and `until` return edges in order. `lost`: edges of a line were dropped; `hole`: perhaps they were.

    The first edge of all, and of each line, has the number 1. `counts` gets `hole`, and `late` for each edge that came
    after its place had been given up.
    """

    def __init__(self, counts: Counter[str]) -> None:
        self.lost = self.hole = False
        self._counts = counts
        self._held: dict[int, Edge] = {}
        self._next = 1  # the number of the edge that is to come
        self._seen: dict[Line, int] = {}  # the last of each line's own numbers
        self._missing = 0  # numbers that did not come, of the request and then of lines, since `restart`
        self._known = 0  # those of before it that no line has shown yet
        self._fresh: set[Line] = set()  # the lines whose next edge may show them

    def forget(self) -> None:
        """What comes next is numbered anew."""
        self.lost = self.hole = False
        self._held.clear()
        self._next = 1
        self._seen.clear()
        self._missing = self._known = 0

    def restart(self) -> None:
        """Whatever was missing is made up for, and nothing waits any more.

        A loss that the request's numbers told may show again in its line's own: once, and no greater.
        """
        self.lost = self.hole = False
        if self._held:
            last = max(self._held)
            self._missing += last + 1 - self._next - len(self._held)
            self._next = last + 1
            self._held.clear()
        self._known, self._missing = max(0, self._missing), 0
        self._fresh = set(Line)

    @property
    def due(self) -> int | None:
        """The time of the first edge that waits for one before it."""
        return self._held[min(self._held)].at if self._held else None

    def take(self, edge: Edge) -> list[Edge]:
        """What is in order with this edge."""
        missed = edge.line_seq - self._seen.get(edge.line, 0) - 1
        if edge.line in self._fresh and 0 <= missed <= self._known:
            self._known -= missed
        elif missed:
            self._missing -= missed
            self.lost = True
        self._seen[edge.line] = edge.line_seq
        self._fresh.discard(edge.line)
        if edge.seq < self._next:
            self._counts["late"] += 1
            return [edge]
        self._held[edge.seq] = edge
        return (self._give_up() if len(self._held) > HELD_MAX else []) + self._ready()

    def until(self, at: int) -> list[Edge]:
        """Waits no longer for what would come before an edge that happened up to `at`."""
        ready: list[Edge] = []
        while (due := self.due) is not None and due <= at:
            ready += self._give_up()
        return ready

    def _give_up(self) -> list[Edge]:
        self.hole = True
        self._counts["hole"] += 1
        self._missing += min(self._held) - self._next
        self._next = min(self._held)
        return self._ready()

    def _ready(self) -> list[Edge]:
        ready: list[Edge] = []
        while self._next in self._held:
            ready.append(self._held.pop(self._next))
            self._next += 1
        return ready
