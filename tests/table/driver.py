"""A live table and a clock, as every test of whole rounds plays it: the loop without its disk and its devices."""

from collections.abc import Callable, Iterator

from controller.core import ahead
from controller.core import events as e
from controller.core.cards import DECK, Card
from controller.core.conditions import Refused
from controller.core.facts import Fact, Phase
from controller.core.profile import Confirms, Opens, Procedure, Profile
from controller.core.state import State
from controller.core.table import due, play
from tests.profiles import COMMISSION

SECOND = 1_000_000_000
ZERO = 1_000 * SECOND  # the machine has been up for a while when a script begins
BOOTED = 20 * SECOND  # and for less when it begins again
READ_NS = 300_000_000  # from a card's movement to its scan
PACE_NS = SECOND  # from card to card
STEPS_MAX = 1_000  # deadlines in one wait: more is a clock that never stops


class Mismatch(AssertionError):  # noqa: N818 - what a script and the table say of each other
    """The table did what the script does not say. The text is for a reader of the script."""


Observer = Callable[[e.Event, tuple[Fact, ...], State], None]


class Table:
    """A live table and a clock. `told` are the facts since the beginning; `refused` answers the last event.

    `observer` hears every step from the first on: an event, its facts, the state after them.
    """

    def __init__(
        self, profile: Profile = COMMISSION, procedure: Procedure | None = None, observer: Observer | None = None
    ) -> None:
        self.observer = observer
        self.state, self.now, self.boot = State(), ZERO, 1
        self.ahead = ahead.NOTHING
        self.told: list[Fact] = []
        self.scanned: list[Card] = []
        self.refused: Refused | None = None
        self.submit(e.JournalMade(self.now, "first", "key"))
        self.submit(e.Configured(self.now, "config", (), procedure or Procedure(), profile))
        self.restart()
        self.submit(e.LinkChanged(self.now, up=True))

    def submit(self, event: e.Event) -> tuple[Fact, ...]:
        """What the event comes to, with the deadlines before it: exactly what the loop does."""
        begun = len(self.told)
        self.refused = None
        self.ahead, heard = ahead.hear(self.ahead, self.state, event)
        try:
            for each in heard:
                self._play(each)
        except Refused as refused:
            self.refused = refused
        return tuple(self.told[begun:])

    def _play(self, event: e.Event) -> None:
        for happened, facts, after in play(self.state, event):
            self.state = after
            self.told += facts
            if self.observer:
                self.observer(happened, facts, after)

    def wait(self, span: int) -> None:
        """Time passes, and the loop wakes the core at every deadline."""
        until = self.now + span
        for _ in range(STEPS_MAX):
            at = due(self.state)
            if at is None or at > until:
                self.now = until
                return
            self.now = max(self.now, at)
            self.submit(e.Elapsed(self.now))
        raise Mismatch("deadline after deadline, without end")

    def restart(self, *, other: bool = False) -> None:
        """The program starts again, and what it had in memory is gone; on another boot so is the machine's clock."""
        self.ahead = ahead.NOTHING
        if other:
            self.boot, self.now = self.boot + 1, BOOTED
        self.submit(e.Restarted(self.now, boot=f"boot{self.boot}", version="1.0", confighash="config"))

    def scan(self, card: Card) -> None:
        self.scanned.append(card)
        self.submit(e.CardScanned(self.now, card))

    def deal(self, card: Card) -> None:
        """A card at the dealer's pace: moved where the shoe has sensors, and scanned before or after that."""
        procedure = self.state.procedure
        self.wait(PACE_NS)
        if procedure.reads_ahead:
            self.scan(card)
            self.wait(READ_NS)
        if procedure.sensors:
            self.submit(e.CardMoved(self.now))
        if not procedure.reads_ahead:
            self.wait(READ_NS if procedure.sensors else 0)
            self.scan(card)

    def until_card(self) -> None:
        """START where the dealer has it, the betting time, the receipts: up to the card."""
        opens, phase = self.state.procedure.open_betting, self.state.phase
        if phase is Phase.READY and opens is Opens.DEALER:
            self.submit(e.StartPressed(self.now))
        if self.state.phase is Phase.BETTING:
            self.wait((due(self.state) or self.now) - self.now)
        if self.state.phase is Phase.CLOSING:
            self.submit(e.Receipt(self.now, self.state.seqno))

    def announce(self) -> None:
        """CONFIRM a second later, or the time after which the table confirms by itself."""
        if self.state.phase is Phase.RESULT:
            auto = self.state.procedure.confirm_result is Confirms.AUTO
            self.wait((due(self.state) or self.now) - self.now if auto else SECOND)
            if not auto:
                self.submit(e.ConfirmPressed(self.now))

    def round(self, cards: Iterator[Card]) -> None:
        """A whole round with as many of these cards as it needs; StopIteration where they do not suffice."""
        self.until_card()
        while True:
            self.deal(next(cards))
            if self.state.round is None or self.state.round.next is None:
                break
            self.until_card()
        self.announce()

    def pack(self) -> Iterator[Card]:
        """Cards that are still in the shoe, for rounds of which a script only wants the number."""
        decks = self.state.shoe.profile.decks if self.state.shoe else 0
        while len(self.scanned) < decks * 52:
            start = len(self.scanned) * 17  # any order will do; 17 and 52 have no common factor
            spread = (DECK[(start + 17 * i) % 52] for i in range(52))
            yield next(card for card in spread if self.scanned.count(card) < decks)
