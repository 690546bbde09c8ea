"""What the shoe's sensors report, in the table's words, whoever reads them: the pins' lines or the sensor head."""

from .core.events import (
    CardMoved,
    CardReturned,
    CutCardSeen,
    CutCardWaiting,
    Event,
    FaultGone,
    FaultSeen,
    LidChanged,
    MouthChanged,
    MovementUnclear,
    TwoCardsMoved,
)
from .link.edges import EDGES
from .link.movements import (
    Ambiguous,
    CardOut,
    CutOut,
    CutWaiting,
    Fault,
    Lid,
    Line,
    Mouth,
    Report,
    Returned,
    TwoOut,
    Well,
    Why,
)

CODE = "I41"

_COVERED = "free the exit, clean the sensor, check its wire: a broken one looks the same"
TEXTS: dict[tuple[str, Why], str] = {
    (Line.INNER, Why.STUCK): f"exit_inner has been covered for too long: {_COVERED}",
    (Line.OUTER, Why.STUCK): f"exit_outer has been covered for too long: {_COVERED}",
    (Line.INNER, Why.FLICKERS): "exit_inner flickers: check its plug and supply, and keep other light off it",
    (Line.OUTER, Why.FLICKERS): "exit_outer flickers: check its plug and supply, and keep other light off it",
    (Line.INNER, Why.BLIND): "exit_inner does not see what exit_outer sees: check that it sees a card held in it",
    (Line.OUTER, Why.BLIND): "exit_outer does not see what exit_inner sees: check that it sees a card held in it",
    (Line.PRESENT, Why.BLIND): "present saw an empty mouth when cards came out: clean it, check that it sees a card",
    (Line.CUT, Why.STUCK): "cut sees the cut card after it left: clean it, check its wire; report the cut card by hand",
    (EDGES, Why.LOST): "changes of the shoe's sensors were lost: count the cards; see which sensor flickers",
}


def told(report: Report) -> Event:
    """A report of the sensors in the table's words."""
    match report:
        case CardOut(at=at):
            return CardMoved(at)
        case TwoOut(at=at):
            return TwoCardsMoved(at)
        case CutOut(at=at, via=via):
            return CutCardSeen(at, via)
        case CutWaiting(at=at):
            return CutCardWaiting(at)
        case Returned(at=at):
            return CardReturned(at)
        case Ambiguous(at=at, why=why):
            return MovementUnclear(at, str(why))
        case Mouth(at=at, full=full):
            return MouthChanged(at, full)
        case Lid(at=at, is_open=is_open):
            return LidChanged(at, is_open)
        case Fault(at=at, part=part, why=why):
            text = TEXTS.get(
                (part, why), f"{part} cannot be trusted ({why}): clean the sensor, check its plug and wire"
            )
            return FaultSeen(at, CODE, str(part), text)
        case Well(at=at, part=part):
            return FaultGone(at, CODE, str(part))
