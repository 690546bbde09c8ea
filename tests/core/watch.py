"""What must be true of every step of every table, whoever plays it: checked fact by fact, from outside the core.

A `Watch` follows a table and keeps its own books: which numbers there are and what became of them, which rounds began
and ended, which faces may be known. It asks the state only where it checks that both say the same.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from controller.core import conditions, records
from controller.core import events as e
from controller.core import facts as f
from controller.core.facts import PUBLIC, Fact, Phase, Stops, Timer
from controller.core.profile import Confirms, Opens
from controller.core.state import LEADS_TO, Fate, Shoe, State, evolve
from controller.core.table import due
from controller.core.view import Text, view
from controller.panel import Words
from tests.core import oracle

FACE = re.compile(r"\b[A2-9TJQK][SHDC]\b")
DEAF_NS = 700_000_000
SECOND = 1_000_000_000
MAY_BECOME = {  # what a settled card may still become, and by which fact
    (Fate.SLOT, Fate.VOID): f.RoundVoided,
    (Fate.DUMMY, Fate.VOID): f.RoundVoided,
    (Fate.SLOT, Fate.PENDING): f.CardCorrected,
    (Fate.DUMMY, Fate.PENDING): f.CardCorrected,
    (Fate.LEFT, Fate.CUT): f.CutCardNumbered,
}
WORDS = (Words("es"), Words("en"))
CROSSED = {e.CardMoved: 1, e.TwoCardsMoved: 2, e.CardReturned: -1}  # cards, out of the shoe
CURED = ("I01", "I02")  # the scan that cures them takes its slot


def texts(value: object) -> Iterator[str]:
    """Every text inside a fact or a prompt."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from texts(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from texts(getattr(value, field.name))


def faces(value: object) -> set[str]:
    return {face for text in texts(value) for face in FACE.findall(text)}


class Watch:
    """The books of one table. `see` checks one event's facts; `close` what only the whole night can show."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.told: list[Fact] = []
        self.hand: list[str] = []  # the cards of the round in progress, in order
        self.shown: set[str] = set()  # the faces that have been public since the shoe was loaded
        self.bets: set[str] = set()  # open in the round in progress
        self.numbers: list[int] = []  # and their numbers out of the shoe
        self.seen: set[int] = set()  # the numbers whose faces were known before the round in progress began
        self.cut = 0  # the number of the card before the cut card
        self.counted = 0  # completed rounds of this shoe
        self.begun = 0  # the number of the round begun last in this shoe
        self.open = False  # whether it has not ended
        self.dealt_at = 0  # when the result was there to see
        self.loaded_at = 0  # when this shoe was: the head may tell later what left the one before
        self.people_at = 0  # when people last counted what left, of which the sensors may tell later

    def see(self, event: e.Event, facts: tuple[Fact, ...], after: State) -> None:
        before = self.state
        for fact in facts:
            self._fact(fact, event)
        assert self.state == after, "the facts make the state"
        self._scan(before, event, facts)
        self._moves(before, event)
        self._people(before, event, facts)
        if type(event) is e.Elapsed:
            at = due(after)
            assert at is None or at > event.at, "after Elapsed nothing is due any more"
        self._view(after)
        self._waits(after)

    # --- one fact ----------------------------------------------------------------------------------------

    def _fact(self, fact: Fact, event: e.Event) -> None:
        before = self.state
        self._rules(before, fact)
        after = evolve(before, fact)
        self.told.append(fact)
        if after.phase is not before.phase:
            assert after.phase in LEADS_TO[type(fact)], "the diagram shows where a fact leads"
        if before.shoe and after.shoe:
            self._ledger(before.shoe, after.shoe, fact)
        self._rounds(before, fact)
        self._secrecy(before, fact)
        self._result(before, fact, event)
        self.state = after

    def _ledger(self, before: Shoe, after: Shoe, fact: Fact) -> None:
        """B11: numbers count up by one; a card has one fate, and a face once known only changes by a correction."""
        assert after.out - before.out in (0, 1), "at most one card a fact"
        for n in range(1, before.out + 1):
            was, is_ = before.fate(n), after.fate(n)
            if was is not is_ and was is not Fate.PENDING:
                assert type(fact) is MAY_BECOME.get((was, is_)), f"card {n} was {was.name}, and is {is_.name}"
            if before.face(n) is not None and before.face(n) != after.face(n):
                assert type(fact) is f.CardCorrected, f"card {n} has another face"
        if after.out > before.out:
            assert getattr(fact, "n", None) == after.out, "a new card is named by the fact that numbers it"

    def _rounds(self, before: State, fact: Fact) -> None:
        """A round has one end, the next one the next number."""
        shoe = before.shoe
        if isinstance(fact, (f.ShoeClosed, f.ShoeOpened)):
            assert not self.open, "a shoe ends after its last round has"
            self.begun, self.counted, self.open = 0, 0, False
        if isinstance(fact, f.CutCardDrawn):
            self.cut = fact.n_before
        if isinstance(fact, f.RoundBegun) or (isinstance(fact, f.BettingOpened) and fact.stage == 1):
            self._begins(shoe, fact)
        if isinstance(fact, (f.RoundBegun, f.BettingOpened)):
            assert fact.counted == self.counted, "counted are the completed rounds (C6)"
            self.bets |= set(fact.bets)
        if isinstance(fact, (f.RoundCompleted, f.RoundVoided, f.RoundCancelled)):
            assert self.open and fact.round == self.begun, "what ends had begun, and ends once"
            self.open = False
            self.counted += isinstance(fact, f.RoundCompleted) and not fact.dummy
        if isinstance(fact, f.RoundCancelled):
            assert not self.hand and not self._out(before, fact), "cancelled: no card of it has left the shoe (F2)"
        if isinstance(fact, f.ShoeClosed) and shoe is not None:
            self._closes(shoe, fact)

    def _begins(self, shoe: Shoe | None, fact: f.RoundBegun | f.BettingOpened) -> None:
        assert shoe is not None
        assert not self.open, "one round at a time"
        assert fact.round == self.begun + 1, "round numbers neither skip nor repeat"
        assert shoe.last_round is None or fact.round <= shoe.last_round, "after the last round none begins (B6)"
        self.begun, self.open, self.hand, self.numbers, self.bets = fact.round, True, [], [], set()
        with_bets = isinstance(fact, f.BettingOpened)
        self.seen = {n for n in range(1, shoe.out + 1) if shoe.face(n)} if with_bets else set()

    def _out(self, before: State, fact: f.RoundCancelled) -> list[int]:
        """The cards that are out and for this round; of one that the cut card ended, those before the cut card."""
        shoe = before.shoe
        assert shoe is not None
        cut = self.cut if fact.reason == "cut_card" else shoe.out
        extra = {c.detail["n"] for c in before.conditions if c.code in ("I09", "I11")}
        return [w.n for w in shoe.waiting if w.n <= cut and w.n != shoe.aside and str(w.n) not in extra]

    def _closes(self, shoe: Shoe, fact: f.ShoeClosed) -> None:
        """B11: burned + dealt + left = cards loaded, unless two people took the count as it is (I49)."""
        fates = [shoe.fate(n) for n in range(1, shoe.out + 1)]
        assert fact.burned == fates.count(Fate.BURNED)
        assert fact.dealt == len(fates) - sum(fates.count(fate) for fate in (Fate.BURNED, Fate.LEFT, Fate.CUT))
        told = self.told[-2]
        accepted = isinstance(told, f.IrregularityResolved) and told.choice == "accept"
        assert accepted or fact.burned + fact.dealt + fact.left == shoe.profile.cards, "B11"

    def _rules(self, before: State, fact: Fact) -> None:
        """What conditions keep from happening."""
        if type(fact) is f.CardDealt:
            holds = [c.code for c in before.conditions if c.stops is Stops.CARDS and c.code not in CURED]
            assert not holds, f"no card takes a slot while {holds} stand"
            assert before.phase is not Phase.BETTING, "no card is dealt while bets are open (C3)"
        bars = [c.code for c in conditions.standing(before) if c.stops >= Stops.ROUNDS]
        if type(fact) is f.BettingOpened and fact.stage == 1:
            assert not bars, f"no betting opens while {bars} stand"
        if type(fact) is f.RoundBegun and not fact.dummy:
            free = [code for code in bars if code not in (*CURED, "offline")]
            assert not free, f"no round begins while {free} stand"
            assert before.procedure.open_betting is Opens.NONE

    def _secrecy(self, before: State, fact: Fact) -> None:
        """B10: a public face is that of a card in a hand of the round, or of the one turned up for the burn."""
        allowed = set(self.hand)
        if type(fact) is f.CardDealt:
            allowed.add(str(fact.card))
        if type(fact) is f.CardBurned and before.phase is Phase.BURNING and before.shoe and before.shoe.burn_of is None:
            allowed.add(str(fact.card))
        if type(fact) in PUBLIC:
            assert faces(fact) <= allowed, "no face before its card is in a hand (B10)"
            self.shown = set() if type(fact) is f.ShoeOpened else self.shown | allowed

    def _result(self, before: State, fact: Fact, event: e.Event) -> None:
        """The tableau, the outcome and the bets, by the oracle; and that a result is not final too soon."""
        if type(fact) is f.CardDealt:
            assert fact.slot == oracle.following(self.hand), "the tableau says whose card it is"
            self.hand.append(str(fact.card))
            assert fact.n not in self.seen, "what was seen never becomes a card of a later round (I09)"
            assert not self.numbers or fact.n > self.numbers[-1], "cards take their places as they left the shoe"
            self.numbers.append(fact.n)
            assert fact.next == oracle.following(self.hand), "and whose is the next"
        if type(fact) is f.CardCorrected:
            assert (self.numbers.pop(), self.hand.pop()) == (fact.n, fact.before), "the last scan is taken back"
        if type(fact) is f.RoundVoided:
            assert [str(card) for card in fact.cards] == self.hand, "a voided round tells its cards"
        if type(fact) is f.RoundDealt:
            assert [str(card) for card in fact.cards] == self.hand
            self.dealt_at = event.at
        if type(fact) is f.TableStarted and fact.boot != before.boot:
            self.dealt_at = event.at  # the times of another boot mean nothing
        if type(fact) is f.RoundCompleted:
            self._completed(before, fact, event)

    def _completed(self, before: State, fact: f.RoundCompleted, event: e.Event) -> None:
        player, banker = oracle.hands(self.hand)
        assert oracle.following(self.hand) is None, "a completed round has all its cards"
        for told, hand in ((fact.player, player), (fact.banker, banker)):
            assert [str(card) for card in told.cards] == hand
            assert (told.points, told.natural, told.pair) == (
                oracle.points(hand),
                oracle.is_natural(hand),
                oracle.is_pair(hand),
            )
        assert fact.outcome == oracle.outcome(self.hand)
        due_bets = oracle.bets(self.hand, commission=fact.profile != "seeds-no-commission")
        told_bets = {name: ":".join(filter(None, (bet.result, bet.pays))) for name, bet in fact.bets.items()}
        assert told_bets == {name: result for name, result in due_bets.items() if name in self.bets}
        confirms = before.procedure.confirm_result
        if type(event) is e.ConfirmPressed:
            assert event.at >= self.dealt_at + DEAF_NS, "a CONFIRM this soon was not meant for the result"
        elif confirms is Confirms.AUTO:
            assert event.at >= self.dealt_at + before.procedure.confirm_seconds * SECOND, "no result before its time"

    # --- one event, one state ----------------------------------------------------------------------------

    def _scan(self, before: State, event: e.Event, facts: tuple[Fact, ...]) -> None:
        """A scanned card is one card: exactly one number gets its face, or it is told as no card (I04)."""
        shoe, after = before.shoe, self.state.shoe
        if type(event) is not e.CardScanned or shoe is None or before.phase is Phase.UNLOADING:
            return
        assert after is not None
        if known := self._learnt(before):
            assert [after.face(n) for n in known] == [event.card], "one scan, one number"
        else:
            assert conditions.sees(before), "without sensors one scan is one card"
            told = conditions.find(self.state, "I04") or conditions.find(self.state, "I22")
            told = told or conditions.unclear(self.state)
            assert told, "a scan that is no card's is told (I04), or asked about (I08, I22)"
            assert after.fates == shoe.fates

    def _learnt(self, before: State) -> list[int]:
        """The numbers whose faces are known since then."""
        was, is_ = before.shoe, self.state.shoe
        assert was is not None and is_ is not None
        return [n for n in range(1, is_.out + 1) if is_.face(n) and (n > was.out or not was.face(n))]

    def _moves(self, before: State, event: e.Event) -> None:
        """What goes out of the shoe is one number, or one that was pushed back and has its number (B11, I17).

        A card that was read before it was out has that reading, and no other card has it.
        """
        crossed = CROSSED.get(type(event))
        shoe, after = before.shoe, self.state.shoe
        if crossed is None or shoe is None:
            return
        assert after is not None
        if crossed < 0 and shoe.back == shoe.out:
            crossed = 0  # what never left cannot have gone back
        if event.at < max(self.loaded_at, self.people_at if crossed > 0 else 0) and not getattr(event, "card", None):
            crossed = 0  # it is of the shoe before, or people have counted it
        assert (after.out - after.back) - (shoe.out - shoe.back) == crossed, "outside is what left and did not go back"
        if type(event) is e.CardMoved:
            faces_ = {n: after.face(n) for n in self._learnt(before)}
            read = {after.out: event.card} if event.card and not shoe.back else {}
            assert faces_ == read or (not faces_ and before.phase is Phase.UNLOADING), "what is left is only counted"

    def _people(self, before: State, event: e.Event, facts: tuple[Fact, ...]) -> None:
        """What the sensors tell late: of the shoe before, or counted by people (I08, I41)."""
        if facts and isinstance(event, e.ResolveAsked) and event.choice in ("one_card", "two_cards"):
            self.people_at = event.at
        anew = any(type(fact) is f.TableStarted and fact.boot != before.boot for fact in facts)
        if any(type(fact) is f.ShoeOpened for fact in facts):
            self.loaded_at, self.people_at = event.at, 0
        if anew:
            self.loaded_at = self.people_at = 0

    def _waits(self, state: State) -> None:
        """Who waits for the casino, or for a time, does not wait for ever (F2)."""
        round_, held = state.round, any(c.stops is Stops.CARDS for c in state.conditions)
        timers = {deadline.timer for deadline in state.deadlines}
        if round_ is None or held:
            return
        if state.phase is Phase.BETTING:
            assert Timer.BETTING in timers, "a betting time ends"
        if state.phase is Phase.CLOSING and round_.betting is not None and not round_.betting.draw:
            assert Timer.GRACE in timers, "without a receipt or a picture the round is cancelled (F2)"
        if state.phase is Phase.RESULT and state.procedure.confirm_result is Confirms.AUTO and not state.called:
            assert Timer.CONFIRM in timers, "a result that confirms itself does"

    def _view(self, state: State) -> None:
        """What the panel asks for may be done, in words that there are."""
        prompt, round_ = view(state).prompt, state.round
        key = prompt.headline.key
        if key.startswith("draw."):
            holds = [c.code for c in state.conditions if c.stops is Stops.CARDS]
            assert not holds, f"a card is asked for while {holds} stand"
            asked = round_ is None or round_.betting is None or round_.betting.draw or state.phase is Phase.DEALING
            assert asked, "a card is asked for when the casino knows of the close (F3)"
        if key.startswith("ready."):
            bars = [c.code for c in conditions.standing(state) if c.stops >= Stops.ROUNDS]
            assert not bars, f"the betting is asked for while {bars} stand"
        for text in (prompt.headline, *prompt.lines, *prompt.strip):
            for words in WORDS:
                words.text(Text(text.key, text.values | {"table": "BAC-07"}))
            assert faces(text.values) <= self.shown, "no face on the panel that was not on the felt (B10)"

    def close(self, start: State) -> None:
        """The whole night again, from its facts: as they are, and as they are written down."""
        state, read = start, start
        for fact in self.told:
            state = evolve(state, fact)
            read = evolve(read, records.load_fact(json.loads(json.dumps(records.dump_fact(fact)))))
        assert state == self.state, "replay is having been there"
        assert read == self.state, "and so is the replay of what was written"
        assert records.load(State, json.loads(json.dumps(records.dump(self.state)))) == self.state
