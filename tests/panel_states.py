"""Tables that are driven by a line of words, for what their panels say on the way.

A script is words between blanks; each is one event, a second after the last: `load start tick 9H 2S`. `WORDS` explains
them. A table's options are words too (`OPTIONS`). It knows the core's doors and no rule of the game.
"""

from collections.abc import Callable
from dataclasses import replace

from controller.core import events as e
from controller.core.cards import DECK, Card, Slot
from controller.core.profile import (
    Bet,
    Burn,
    Confirms,
    CutFirst,
    LastRound,
    Limit,
    Opens,
    Payout,
    Procedure,
    Profile,
    Rescan,
    Stage,
)
from controller.core.state import State
from controller.core.table import due, play
from tests.profiles import CLASSIC

SECOND = 1_000_000_000
BOTH = ("D1", "J1")  # a dealer and a pit boss: who may do anything

PLAIN = Procedure(receipts=False)
READY_MADE = replace(CLASSIC, shoe_steps=("load",), cut_depth=None)

SIDE = {
    "natural": Bet("n", (Payout("banker_natural", None),), (), 2),
    "pair": Bet("p", (Payout("player_pair", None),), (), 2),
    "six": Bet("s", (Payout("banker_wins_with_6_on_2", None), Payout("banker_wins_with_6_on_3", None)), (), 2),
}


def _closing(what: Profile, kind: str) -> Profile:
    """With a side bet that closes after the second round."""
    return replace(what, bets=(*what.bets, SIDE[kind]))


OPTIONS: dict[str, Callable[[Procedure, Profile], tuple[Procedure, Profile]]] = {
    "sensors": lambda how, what: (replace(how, sensors=True), what),
    "window:9": lambda how, what: (replace(how, read_window_ms=9_000), what),
    "rescan:hand": lambda how, what: (replace(how, rescan=Rescan.HAND), what),
    "rescan:none": lambda how, what: (replace(how, rescan=Rescan.NONE), what),
    "receipts": lambda how, what: (replace(how, receipts=True), what),
    "limits": lambda how, what: (replace(how, limits=True), what),
    "enrolment": lambda how, what: (replace(how, enrolment=True), what),
    "allow": lambda how, what: (replace(how, offline_rounds=True), what),
    "opens:auto": lambda how, what: (replace(how, open_betting=Opens.AUTO), what),
    "opens:server": lambda how, what: (replace(how, open_betting=Opens.SERVER), what),
    "opens:none": lambda how, what: (replace(how, open_betting=Opens.NONE), what),
    "confirms:auto": lambda how, what: (replace(how, confirm_result=Confirms.AUTO), what),
    "confirms:none": lambda how, what: (replace(how, confirm_result=Confirms.NONE), what),
    "work": lambda how, what: (how, replace(what, shoe_steps=CLASSIC.shoe_steps)),
    "burn": lambda how, what: (how, replace(what, shoe_steps=("load", "burn"), burn=Burn.FIRST_CARD)),
    "burn:30": lambda how, what: (how, replace(what, shoe_steps=("load", "burn"), burn=Burn.FIXED, burn_count=30)),
    "one_deck": lambda how, what: (how, replace(what, decks=1)),
    "one_more": lambda how, what: (how, replace(what, last_round=LastRound.ONE_MORE)),
    "shuffle_now": lambda how, what: (how, replace(what, cut_first=CutFirst.SHUFFLE_NOW)),
    "depth": lambda how, what: (how, replace(what, cut_depth=(7, 14))),
    "late": lambda how, what: (how, replace(what, cut_depth=(22, 30))),
    "closes:natural": lambda how, what: (how, _closing(what, "natural")),
    "closes:pair": lambda how, what: (how, _closing(what, "pair")),
    "closes:six": lambda how, what: (how, _closing(what, "six")),
    "stages": lambda how, what: (how, replace(what, stages=(Stage(Slot.P1), Stage(Slot.B1), Stage(Slot.P2)))),
    "lenient": lambda how, what: (how, replace(what, early_close=True, use_early_card=True)),
}

Maker = Callable[["Table", list[str]], e.Event]


def _scan(card: Card) -> Maker:
    return lambda table, _: e.CardScanned(table.now, card)


WORDS: dict[str, Maker] = (
    {str(card): _scan(card) for card in DECK}
    | {
        "move": lambda t, _: e.CardMoved(t.now),
        "noread": lambda t, _: e.CardUnread(t.now, "NOREAD"),
        "alien": lambda t, _: e.CodeUnknown(t.now, "JOKER"),
        "cut": lambda t, _: e.CutCardSeen(t.now, "code"),
        "beams": lambda t, _: e.CutCardSeen(t.now, "beams"),
        "empty": lambda t, _: e.MouthChanged(t.now, present=False),
        "full": lambda t, _: e.MouthChanged(t.now, present=True),
        "two": lambda t, _: e.TwoCardsMoved(t.now),
        "unclear": lambda t, _: e.MovementUnclear(t.now, "dragged"),
        "back": lambda t, _: e.CardReturned(t.now),
        "again": lambda t, _: e.CardRepeated(t.now),
        "sighted": lambda t, _: e.CutCardWaiting(t.now),
        "opened": lambda t, _: e.LidChanged(t.now, is_open=True),
        "shut": lambda t, _: e.LidChanged(t.now, is_open=False),
        "key": lambda t, _: e.KeyTurned(t.now, turned=True),
        "start": lambda t, _: e.StartPressed(t.now, by=BOTH),
        "confirm": lambda t, _: e.ConfirmPressed(t.now, by=BOTH),
        "hold": lambda t, _: e.ConfirmHeld(t.now, by=BOTH),
        "call": lambda t, _: e.CallPressed(t.now, by=BOTH),
        "close": lambda t, _: e.CloseAsked(t.now, by=BOTH),
        "load": lambda t, _: e.LoadAsked(t.now, by=BOTH),
        "void": lambda t, of: e.VoidAsked(t.now, *of, by=BOTH),  # void:REASON
        "left": lambda t, of: e.LeftCounted(t.now, int(of[0]), by=BOTH),  # left:N
        "end": lambda t, of: e.EndShoeAsked(t.now, *of, by=BOTH),  # end:REASON
        "report": lambda t, of: e.ReportAsked(t.now, *of, by=BOTH),  # report:CODE
        "resolve": lambda t, of: e.ResolveAsked(  # resolve:CODE:CHOICE, and the card where one is keyed in
            t.now, of[0], of[1], Card.parse(of[2]) if of[2:] else None, by=BOTH
        ),
        "tick": lambda t, _: e.Elapsed(t.next_deadline()),  # the next thing that the table waits for
        "up": lambda t, _: e.LinkChanged(t.now, up=True),
        "down": lambda t, _: e.LinkChanged(t.now, up=False, reason="no route"),
        "receipt": lambda t, _: e.Receipt(t.now, t.state.seqno),
        "backlog": lambda t, _: e.BacklogChanged(t.now, high=True, depth=9000),
        "drained": lambda t, _: e.BacklogChanged(t.now, high=False, depth=0),
        "fault": lambda t, of: e.FaultSeen(t.now, of[0], of[1], "what to do"),  # fault:CODE:PART
        "mended": lambda t, of: e.FaultGone(t.now, *of),  # mended:CODE:PART
        "opens": lambda t, _: e.OpenAsked(t.now),
        "dispute": lambda t, of: e.ResultDisputed(t.now, int(of[0]), of[1]),  # dispute:SEQNO:OUTCOME
        "pause": lambda t, of: e.PauseAsked(t.now, *of),  # pause:REASON
        "resume": lambda t, _: e.ResumeAsked(t.now),
        "unseen": lambda t, _: e.VideoChanged(t.now, up=False),
        "seen": lambda t, _: e.VideoChanged(t.now, up=True),
        "ask_void": lambda t, of: e.VoidRequested(t.now, *of),  # ask_void:REASON
        "limits": lambda t, of: e.LimitsGiven(t.now, (Limit("player", *of),)),  # limits:LEAST:MOST
        "enrol": lambda t, _: e.Enrolled(t.now),
        "nonsense": lambda t, _: e.CommandRefused(t.now, "malformed"),
        "restart": lambda t, _: e.Restarted(t.now, "another boot", "1.0", "config"),
        "stop": lambda t, _: e.Stopped(t.now, "asked"),
    }
)


class Table:
    """A table in memory, its link up. `seen` are the states that it has been in."""

    def __init__(self, options: str = "") -> None:
        how, what = PLAIN, READY_MADE
        for option in options.split():
            how, what = OPTIONS[option](how, what)
        self.state, self.now = State(), 100 * SECOND
        self.seen = [self.state]
        self.submit(e.Restarted(self.now, "boot", "1.0", "config"))
        self.submit(e.Configured(self.now, "config", (), how, what))
        self.submit(e.LinkChanged(self.now, up=True))

    def submit(self, event: e.Event) -> None:
        """What the loop does with an event. Raises `Refused` as the core does."""
        for _, _, after in play(self.state, event):
            self.state = after
            self.seen.append(after)

    def next_deadline(self) -> int:
        """Moves the clock to it; where there is none, time only passes."""
        self.now = max(self.now, due(self.state) or 0)
        return self.now

    def do(self, word: str) -> None:
        """One word of a script."""
        self.now += SECOND
        name, *of = word.split(":")
        self.submit(WORDS[name](self, of))


def played(options: str, script: str) -> Table:
    """The table at the end of a script. It must take every word."""
    table = Table(options)
    for word in script.split():
        table.do(word)
    return table
