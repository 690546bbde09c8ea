"""A scanner that reads a card before it is out: what it says waits here until the card is (B10, `scanner.position`).

It waits in memory and nowhere else: in no state, no fact, no row of the journal, so that no door can let out a face
whose card is still in the shoe. A power cut takes it along, and its card is then one that was not read (I01).

One label lies before the scanner at a time, and only a card that leaves makes room for the next. So a reading belongs
to the movement that comes after it; the same label again is the same card (I04); another one, with no card gone
between, says that a movement was missed or a label misread: people say how many cards left, nobody guesses (I08).

Behind the exit a card is out before it is read, but its movement may be told late: a frame of the sensor head had to
be said again, or the scanner sits too near. Its scan is then nobody's (I04); and taken in order, the next card's scan
would be its own, and that one's face in its place. So what was read is kept in mind for as long as its movement may be
on its way. Where the stamps say that the movement was first, the two belong together as ever. Where they do not, a face
that is not the last card's again makes the card one to be read again, and by no other face unless people say so.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from . import conditions, upkeep
from . import events as e
from .events import Event
from .facts import Phase
from .profile import Position, Rescan
from .shoe import is_cut_doubtful
from .state import Shoe, State

Reading = e.CardScanned | e.CardUnread | e.CodeUnknown | e.CutCardSeen
UNREAD = ""  # the raw text of a card that left and of which the scanner has said nothing


class Ahead(NamedTuple):
    """What was read of the next thing out, and the shoe that it lay in (None: none was loaded yet).

    `doubtful`: two labels were seen for one card, and neither counts. With a scanner behind the exit: the movement of
    what was read came late; `asked`, whether people were asked about another face since; `again`, what was read before
    it and had the last card's face.
    """

    reading: Reading | None = None
    shoe: int | None = None
    doubtful: bool = False
    asked: bool = False
    again: e.CardScanned | None = None


Heard = tuple[Ahead, tuple[Event, ...]]
NOTHING = Ahead()


def hear(ahead: Ahead, state: State, event: Event) -> Heard:
    """What waits after `event`, and what the table hears of it, in order; without sensors, itself."""
    if not state.procedure.sensors:
        return NOTHING, (event,)
    handler = (_HEARD if state.procedure.reads_ahead else _HEARD_BEHIND).get(type(event))
    if handler is None:
        return ahead, (event,)
    shoe = state.shoe.number if state.shoe else None
    if ahead.shoe not in (None, shoe):
        ahead = NOTHING  # it was of a shoe that is gone
    return handler(ahead, state, event)


def _read(ahead: Ahead, state: State, event: Reading) -> Heard:
    if event.hand:
        return ahead, (event,)
    if type(event) is not e.CutCardSeen and _is_cure(state):
        return NOTHING, (event,)
    shoe = state.shoe.number if state.shoe else None
    if state.phase in conditions.SHOE_WORK:  # cards are put in and taken out: what lies there last is the next one
        in_shoe = state.procedure.position is Position.IN_SHOE
        return (Ahead(event, shoe), ()) if in_shoe or state.shoe else (NOTHING, (event,))
    if not conditions.sees(state):  # no movement will come: people say what left (I41)
        return NOTHING, (e.MovementUnclear(event.at, "scans"),)
    before = ahead.reading
    if ahead.doubtful:
        return ahead, ()
    if type(event) is e.CardUnread or before is None or type(before) is e.CardUnread:
        waits = (e.CutCardWaiting(event.at),) if type(event) is e.CutCardSeen else ()
        return Ahead(event, shoe), waits
    if _label(before) == _label(event):
        return ahead, (e.CardRepeated(event.at),)
    return Ahead(None, shoe, doubtful=True), (e.MovementUnclear(event.at, "scans"),)


def _is_cure(state: State) -> bool:
    """Whether the scanner is shown a card that is out: where it may read one again, and the panel asks for one."""
    if state.procedure.rescan is not Rescan.SAME or state.procedure.position is Position.IN_SHOE:
        return False
    shoe = state.shoe
    aside = shoe is not None and shoe.aside is not None
    return aside or bool(conditions.find(state, "I01") or conditions.find(state, "I02"))


def _label(reading: Reading | None) -> object:
    match reading:
        case e.CardScanned(card=card):
            return card
        case e.CodeUnknown(raw=raw):
            return raw
        case _:
            return type(reading)


def _moved(ahead: Ahead, state: State, event: e.CardMoved) -> Heard:
    """The reading is that of the card that is out now; without one, it was not read."""
    match ahead.reading:
        case e.CardScanned(card=card):
            return NOTHING, (replace(event, card=card),)
        case e.CutCardSeen(via=via):
            return NOTHING, (e.CutCardSeen(event.at, via, key=event.key),)  # no sensor told it from a card
        case None:
            return NOTHING, (event, e.CardUnread(event.at, UNREAD))
        case reading:
            return NOTHING, (event, replace(reading, at=event.at))


def _cut(ahead: Ahead, state: State, event: e.CutCardSeen) -> Heard:
    """The cut card's code is a reading; what the sensors say of it is that it left.

    Where a card was read instead, one of the two is wrong: the dealer says which (I22), as of a card scanned behind it.
    """
    if event.via == "code":
        return _read(ahead, state, event)
    doubted = (e.CardRepeated(event.at),) if type(ahead.reading) is e.CardScanned else ()
    return NOTHING, (event, *doubted)


# --- a scanner behind the exit ------------------------------------------------------------------------------


def _scanned(ahead: Ahead, state: State, event: e.CardScanned) -> Heard:
    shoe = state.shoe
    if event.hand or shoe is None:
        return NOTHING, (event,)
    if ahead.doubtful and conditions.find(state, "I01"):
        return _cures(ahead, state, event)
    if conditions.dim(state) or is_cut_doubtful(state) or upkeep.numbered(state, event.at):
        return NOTHING, (event,)  # people are asked about it, or it is a card's
    before = ahead.reading
    if before is None or ahead.doubtful or _is_late(state, before, event) or _label(before) == _label(event):
        return Ahead(event, shoe.number), (event,)
    if type(before) is e.CardScanned and _is_last(shoe, before) and not ahead.again:
        return Ahead(event, shoe.number, again=before), (event,)
    return NOTHING, ((event, e.MovementUnclear(event.at, "scans")) if _is_awaited(state, shoe) else (event,))


def _cures(ahead: Ahead, state: State, event: e.CardScanned) -> Heard:
    """What cures a card whose movement came late is the face that came before it."""
    answered = ahead.asked and not conditions.unclear(state)
    if answered or _label(event) == _label(ahead.reading):
        return NOTHING, (event,)
    return ahead._replace(asked=True), (e.MovementUnclear(event.at, "scans"),)


def _is_late(state: State, reading: Reading, event: Event) -> bool:
    """Whether so much time lies between the two that they have nothing to do with each other."""
    return abs(event.at - reading.at) > state.procedure.read_window_ms * upkeep.MILLISECOND


def _is_last(shoe: Shoe, reading: e.CardScanned) -> bool:
    return shoe.out > 0 and shoe.face(shoe.out) == reading.card


def _is_awaited(state: State, shoe: Shoe) -> bool:
    """Whether cards are turned up now, and none is collected."""
    first_burned = state.phase is Phase.BURNING and shoe.burn_of is None
    return first_burned or state.phase in (Phase.CLOSING, Phase.DEALING)


def _came_late(ahead: Ahead, state: State, event: e.CardMoved) -> Heard:
    read, shoe = ahead.reading, state.shoe
    if ahead.doubtful:
        return ahead, (event,)
    if type(read) is not e.CardScanned or shoe is None or _is_late(state, read, event):
        return NOTHING, (event,)
    if ahead.again and event.at < ahead.again.at:
        return ahead._replace(again=None), (replace(event, card=ahead.again.card),)
    if event.at < read.at:
        return NOTHING, (replace(event, card=read.card),)
    if _is_last(shoe, read) or not _is_awaited(state, shoe):
        return NOTHING, (event,)
    return ahead._replace(doubtful=True), (event, e.CardUnread(event.at, UNREAD))


def _doubted(ahead: Ahead, state: State, event: Event) -> Heard:
    """More or less than one card moved, or another scanner reads: whose reading it was is not known any more."""
    return NOTHING, (event,)


_HEARD: dict[type[Event], Callable[[Ahead, State, Any], Heard]] = {
    e.CardScanned: _read,
    e.CardUnread: _read,
    e.CodeUnknown: _read,
    e.CutCardSeen: _cut,
    e.CardMoved: _moved,
    e.TwoCardsMoved: _doubted,
    e.MovementUnclear: _doubted,
    e.CardReturned: _doubted,
    e.Configured: _doubted,
}

_HEARD_BEHIND: dict[type[Event], Callable[[Ahead, State, Any], Heard]] = {
    e.CardScanned: _scanned,
    e.CardMoved: _came_late,
}
