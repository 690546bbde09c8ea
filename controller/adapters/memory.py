"""A table without hardware: a shoe with its scanner, a dealer, a pit boss, a fast clock, and a journal in memory.

For the demo, the trainer and tests. The people see the panel and nothing else: they act on its prompts as their keys
have them, and on what their hands feel in the shoe. No rule of the game is here: whatever they do wrong, the table
must cope with.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

from controller.core import events as e
from controller.core.cards import DECK, Card
from controller.core.events import Event
from controller.core.facts import Phase
from controller.core.profile import Profile
from controller.core.view import View
from controller.ports import JournalError, Message, Recovered, Sealed, Submit

DEALER, PIT = "demo-dealer", "demo-pit"
SECOND = 1_000_000_000
NEAR_THE_BOTTOM = (12, 20)  # cards behind the cut card where the house states no depth: enough for one round more (B8)

# --- time ---------------------------------------------------------------------------------------------------


class FastClock:
    """`ports.Clock` whose seconds pass `speed` times as fast from now on, and the Source of `Elapsed`.

    Its wall clock starts right and runs ahead, so it never says that it is synchronised.
    """

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._began, self._began_wall = time.monotonic_ns(), time.time_ns()
        self._at: int | None = None
        self._set = asyncio.Event()

    def now(self) -> int:
        return self.of(time.monotonic_ns())

    def of(self, monotonic: int) -> int:
        """The machine's monotonic time on this clock."""
        return self._began + int((monotonic - self._began) * self.speed)

    def wall(self, at: int) -> tuple[int, bool]:
        return self._began_wall + at - self._began, False

    def not_before(self, utc: int) -> None:
        self._began_wall = max(self._began_wall, utc)

    def look(self) -> None:
        """Nobody sets this clock."""

    def wake_at(self, at: int | None) -> None:
        self._at = at
        self._set.set()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)

    async def run(self, submit: Submit) -> None:
        while True:
            self._set.clear()
            left = None if self._at is None else max(0, self._at - self.now()) / SECOND / self.speed
            try:
                async with asyncio.timeout(left):
                    await self._set.wait()
            except TimeoutError:
                now = self.now()
                if self._at is not None and now >= self._at:
                    self._at = None  # the batch that the event comes to sets the next one
                    submit(e.Elapsed(now))

    def stamping(self, submit: Submit) -> Submit:
        """A `submit` for those who read the machine's own clock: their events get their time on this one."""
        return lambda event: submit(replace(event, at=self.of(event.at)))


# --- the shoe and its scanner -----------------------------------------------------------------------------


class SimulatedShoe:
    """A shoe that sees each card leave it, and a scanner behind its mouth (a Source).

    `load` fills it with the profile's decks, shuffled, the cut card at the profile's depth (B4). The same `seed` gives
    the same shoes and faults: `misread` and `double` are the chances that a passage is not read, or read twice.
    """

    def __init__(
        self, profile: Profile, now: Callable[[], int], *, seed: int, misread: float = 0.0, double: float = 0.0
    ) -> None:
        self._profile, self._now = profile, now
        self._shuffle, self._faults = random.Random(f"{seed} shuffle"), random.Random(f"{seed} scanner")
        self._misread, self._double = misread, double
        self._cards: list[Card | None] = []  # the next one last; None is the cut card
        self._unread: Card | None = None
        self._submit: Submit | None = None

    def load(self) -> None:
        cards: list[Card | None] = [*DECK * self._profile.decks]
        self._shuffle.shuffle(cards)
        cards.insert(self._shuffle.randint(*self._profile.cut_depth or NEAR_THE_BOTTOM), None)
        self._cards, self._unread = cards, None

    @property
    def empty(self) -> bool:
        return not self._cards

    async def run(self, submit: Submit) -> None:
        self._submit = submit
        await asyncio.get_running_loop().create_future()

    async def draw(self) -> None:
        """What a hand does when it takes a card: the next one, or once more the last one while that is not read."""
        if self._unread is not None:
            card, self._unread = self._unread, None
            await self._tell(e.CardScanned(self._now(), card))
        elif self._cards:
            await self._pass(self._cards.pop())

    async def _pass(self, card: Card | None) -> None:
        at = self._now()
        if card is None:
            await self._tell(e.CutCardSeen(at, "code"))
            return
        scanned = e.CardScanned(at, card)
        fault = self._faults.random()
        if fault < self._misread:
            self._unread = card
            await self._tell(e.CardMoved(at), e.CardUnread(at, "NOREAD"))
        elif fault < self._misread + self._double:
            await self._tell(e.CardMoved(at), scanned, scanned)
        else:
            await self._tell(e.CardMoved(at), scanned)

    async def _tell(self, *events: Event) -> None:
        assert self._submit is not None, "the shoe is plugged in before a card is drawn"
        await asyncio.gather(*[self._submit(event) for event in events])


# --- what hands can do --------------------------------------------------------------------------------------


class Hands:
    """A dealer's hands at this table: its buttons and its shoe. They belong to a simulated dealer, or to a keyboard.

    A Panel, because what CONFIRMAR is pressed for depends on the prompt: the cards go in before it, the pit boss signs
    with the dealer where the step is theirs together. `pressed` hears each button's name, `refused` the table's answer.
    """

    def __init__(
        self,
        shoe: SimulatedShoe,
        now: Callable[[], int],
        *,
        pressed: Callable[[str], None],
        refused: Callable[[str, dict[str, str]], None],
    ) -> None:
        self.shoe = shoe
        self._now, self._pressed, self._refused = now, pressed, refused
        self._prompt = ""
        self._submit: Submit | None = None

    def show(self, view: View) -> None:
        self._prompt = prompt_of(view)

    async def run(self, submit: Submit) -> None:
        self._submit = submit
        await asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        await self._press("start", e.StartPressed(self._now(), by=(DEALER,)))

    async def confirm(self) -> None:
        if self._prompt == "step.load":
            self.shoe.load()
        by = (DEALER, PIT) if self._prompt == "step.inspect" else (DEALER,)
        await self._press("confirm", e.ConfirmPressed(self._now(), by=by))

    async def hold(self) -> None:
        """CONFIRMAR for 2 s."""
        await self._press("confirm", e.ConfirmHeld(self._now(), by=(DEALER,)))

    async def call(self) -> None:
        await self._press("call", e.CallPressed(self._now(), by=(DEALER,)))

    async def draw(self) -> None:
        await self.shoe.draw()

    async def resolve(self, code: str, choice: str) -> None:
        """The pit boss decides, the dealer beside him."""
        await self._do(e.ResolveAsked(self._now(), code, choice, by=(DEALER, PIT)))

    async def _press(self, button: str, event: Event) -> None:
        self._pressed(button)
        await self._do(event)

    async def _do(self, event: Event) -> None:
        assert self._submit is not None, "the buttons are plugged in before one is pressed"
        outcome = await self._submit(event)
        if outcome.refused is not None:
            self._refused(*outcome.refused)


def prompt_of(view: View) -> str:
    """The key of what a view asks for: `draw.P3` for `draw.P3.headline`."""
    return view.prompt.headline.key.removesuffix(".headline")


# --- who acts on what the panel says ----------------------------------------------------------------------


class Move(NamedTuple):
    """What a person is about to do, and how many of the table's seconds it takes, at least and at most."""

    seconds: tuple[float, float]
    do: Callable[[], Awaitable[None]]


class Person:
    """Sees the panel, takes a person's time, and acts if what was seen still stands (Source and Panel).

    `sees` names what this person goes by; `moves` says what follows from it, None to wait for another view.
    """

    def __init__(
        self,
        clock: FastClock,
        *,
        seed: int,
        sees: Callable[[View], str],
        moves: Callable[[View], Move | None],
    ) -> None:
        self._clock, self._sees, self._moves = clock, sees, moves
        self._pace = random.Random(f"{seed} pace")
        self._view: View | None = None
        self._changed = asyncio.Event()

    def show(self, view: View) -> None:
        self._view = view
        self._changed.set()

    async def run(self, submit: Submit) -> None:
        while True:
            self._changed.clear()
            seen = self._view
            move = None if seen is None else self._moves(seen)
            if seen is None or move is None:
                await self._changed.wait()
                continue
            await self._clock.sleep(self._pace.uniform(*move.seconds))
            if self._view is not None and self._sees(self._view) == self._sees(seen):
                await move.do()


class DealerMoves:
    """What a dealer does on each prompt. `slips` is the chance to press CONFIRMAR with a third card still to come."""

    def __init__(self, hands: Hands, *, seed: int, slips: float = 0.0) -> None:
        self._hands, self._slips = hands, slips
        self._chance = random.Random(f"{seed} dealer")

    def __call__(self, view: View) -> Move | None:
        act = _by_prompt(prompt_of(view))
        if act is _draw_third and self._chance.random() < self._slips:
            act = _confirm
        return None if act is None else act(self._hands, view)


Act = Callable[[Hands, View], Move | None]


def _confirm(hands: Hands, view: View) -> Move | None:
    return Move((2.0, 3.5), hands.confirm)


def _start(hands: Hands, view: View) -> Move | None:
    return Move((2.5, 4.0), hands.start)


def _burn(hands: Hands, view: View) -> Move | None:
    return Move((0.7, 1.1), hands.draw)


def _draw(hands: Hands, view: View) -> Move | None:
    """The first card comes after the announcement."""
    return Move((2.5, 3.5) if view.phase is Phase.CLOSING else (1.0, 1.6), hands.draw)


def _draw_third(hands: Hands, view: View) -> Move | None:
    return Move((1.0, 1.8), hands.draw)


def _again(hands: Hands, view: View) -> Move | None:
    return Move((2.0, 3.0), hands.draw)


def _unload(hands: Hands, view: View) -> Move | None:
    """Draws what is left, and confirms when the hand finds nothing more."""
    return Move((2.0, 3.0), hands.confirm) if hands.shoe.empty else Move((0.3, 0.5), hands.draw)


def _go_on(hands: Hands, view: View) -> Move | None:
    """A notice took the instruction's place: a dealer does what it says, and goes on with what was going on."""
    act = {
        Phase.READY: _start,
        Phase.CLOSING: _again,
        Phase.DEALING: _again,
        Phase.RESULT: _confirm,
        Phase.UNLOADING: _unload,
    }.get(view.phase)
    return None if act is None else act(hands, view)


# By the first words of a prompt's key, the longest that is here. None, and whatever is not here: wait.
DEALER_ACTS: dict[str, Act | None] = {
    "closed": _confirm,
    "step": _confirm,
    "burn": _burn,
    "ready": _start,
    "ready.auto": None,
    "ready.server": None,
    "draw": _draw,
    "draw.P3": _draw_third,
    "draw.B3": _draw_third,
    "result": _confirm,
    "unload": _unload,
    "I01": _again,
    "I02": _again,
    "I09": _confirm,
    "I09.ready": None,
    "I11": _confirm,
    "I11.ready": None,
    "I13": _draw,
    "I18": _go_on,
    "I19": _go_on,
    "I22": _confirm,
    "I25": _burn,
    "I28": _confirm,
    "I31": _go_on,
    "I49": _unload,
}


def _by_prompt(key: str) -> Act | None:
    while key not in DEALER_ACTS and "." in key:
        key = key.rpartition(".")[0]
    return DEALER_ACTS.get(key)


# What a pit boss chooses where only he may, by code.
PIT_CHOICES = {
    "I05": "finish",
    "I06": "remove",
    "I07": "burn",
    "I08": "order",
    "I09": "burn",
    "I11": "burn",
    "I16": "continue",
    "I17": "out",
    "I23": "void",
    "I25": "accept",
    "I35": "match",
    "I39": "closed",
    "I53": "stands",
    "pause": "resume",
    "video": "back",
    "void_request": "refuse",
}


class PitMoves:
    """The pit boss comes where the panel calls him, and ends a call that has no reason left.

    `decided` hears the code and the choice.
    """

    def __init__(self, hands: Hands, decided: Callable[[str, str], None]) -> None:
        self._hands, self._decided = hands, decided

    @staticmethod
    def sees(view: View) -> str:
        """The code that waits for him, `called`, or nothing."""
        code = prompt_of(view).partition(".")[0]
        if code in PIT_CHOICES:
            return code
        return "called" if any(text.key == "strip.called" for text in view.prompt.strip) else ""

    def __call__(self, view: View) -> Move | None:
        code = self.sees(view)
        if code == "called":
            return Move((3.0, 5.0), self._hands.call)
        return Move((5.0, 8.0), lambda: self._decide(code)) if code else None

    async def _decide(self, code: str) -> None:
        self._decided(code, PIT_CHOICES[code])
        await self._hands.resolve(code, PIT_CHOICES[code])


# --- the journal --------------------------------------------------------------------------------------------


class MemoryJournal:
    """`ports.Journal` in two lists: gone with the program, and as strict about its chains as one on disk.

    While `broken` holds a text, every commit fails with it.
    """

    def __init__(self, generation: str = "00000000-00000000") -> None:
        self.generation = generation
        self.rows: list[Sealed] = []
        self.messages: list[Message] = []
        self.broken = self.ailing = ""
        self._keys: set[tuple[str, str]] = set()
        self._cursors: dict[str, int] = {}
        self._grown = asyncio.Event()

    @property
    def last(self) -> tuple[int, bytes]:
        return (self.rows[-1].id, self.rows[-1].hash) if self.rows else (0, bytes(32))

    @property
    def last_message(self) -> tuple[int, str]:
        return (self.head, self.messages[-1].hash) if self.messages else (0, "0" * 64)

    @property
    def head(self) -> int:
        return len(self.messages)

    def recover(self) -> Recovered:
        saved = next((at for at in reversed(range(len(self.rows))) if self.rows[at].saved is not None), None)
        since = self.rows if saved is None else self.rows[saved + 1 :]
        return Recovered(None if saved is None else self.rows[saved].saved, tuple([row.body for row in since]))

    def seen(self, key: tuple[str, str]) -> bytes | None:
        return next((row.body for row in self.rows if row.key == key), None) if key in self._keys else None

    def read(self, after: int, limit: int) -> list[Message]:
        return self.messages[after : after + max(0, limit)]

    def cursor(self, publisher: str) -> int:
        return self._cursors.get(publisher, 0)

    def advance(self, publisher: str, seqno: int) -> None:
        """A lower seqno changes nothing, receipts are cumulative; ValueError for one beyond `head`."""
        if seqno > self.head:
            raise ValueError(f"{publisher} has a receipt for {seqno}, but {self.generation} ends at {self.head}")
        self._cursors[publisher] = max(seqno, self.cursor(publisher))

    async def wait(self, after: int) -> None:
        while self.head <= after:
            self._grown.clear()
            await self._grown.wait()

    async def commit(self, rows: Sequence[Sealed]) -> None:
        """AssertionError for rows that do not follow the last one, or whose hashes are wrong; then none is stored."""
        if self.broken:
            raise JournalError(self.broken)
        (id_, hash_), seqno, keys = self.last, self.head, set(self._keys)
        for row in rows:
            assert (row.id, row.previous) == (id_ + 1, hash_), f"row {row.id} does not follow row {id_}"
            for message in row.messages:
                seqno += 1
                whole = (seqno, sha256(message.data).hexdigest())
                assert (message.seqno, message.hash) == whole, f"row {row.id}: message {message.seqno} is not {whole}"
            parts = (row.previous, row.body, *[message.data for message in row.messages], row.saved or b"")
            assert row.hash == sha256(b"".join(parts)).digest(), f"row {row.id} does not match its hash"
            if row.key is not None:
                assert row.key not in keys, f"row {row.id}: {row.key} is in the journal"
                keys.add(row.key)
            id_, hash_ = row.id, row.hash
        self.rows += rows
        self.messages += [message for row in rows for message in row.messages]
        self._keys = keys
        self._grown.set()
