"""The betting time and the wait for the first card (rules C1-C6, F1-F3)."""

from . import conditions, events
from . import facts as f
from .bets import open_bets
from .conditions import Refused
from .facts import Fact, Phase, Timer
from .profile import Opens
from .shoe import after_round, has_begun
from .state import Betting, State, round_of, shoe_of

SECOND = 1_000_000_000


def start(state: State, event: events.StartPressed) -> tuple[Fact, ...]:
    """INICIO in ready, where the house lets the dealer open."""
    opens = state.procedure.open_betting
    if opens is not Opens.DEALER:
        raise Refused("opens_itself", who=opens)
    return open_stage(state, event.at, 0)


def open_stage(state: State, at: int, index: int) -> tuple[Fact, ...]:
    """The betting time of a stage; its deadline is in the fact, durable before a lamp shows it (C1)."""
    shoe = shoe_of(state)
    stage = shoe.profile.stages[index]
    number = state.round.number if state.round else shoe.rounds + 1
    seconds = stage.seconds if stage.seconds is not None else state.procedure.betting_seconds
    return (
        f.BettingOpened(
            round=number,
            stage=index + 1,
            before=stage.before,
            seconds=seconds,
            opened_at=at,
            closes_at=at + seconds * SECOND,
            bets=open_bets(shoe.profile, shoe.counted, index),
            counted=shoe.counted,
            last_round=after_round(state, number) is Phase.UNLOADING,
        ),
    )


def close_early(state: State, event: events.CloseAsked) -> tuple[Fact, ...]:
    if not shoe_of(state).profile.early_close:
        raise Refused("no_early_close")
    return close(state, "casino" if event.casino else "early", event.at)


def close(state: State, reason: str, at: int) -> tuple[Fact, ...]:
    """No más apuestas. The card is asked for when the primary has the receipt and the players a picture (F2)."""
    round_ = round_of(state)
    stage = round_.betting.stage if round_.betting else 0
    draw = not waits_for_receipt(state) and not conditions.find(state, "video")
    grace = None if draw else at + state.procedure.link_grace_seconds * SECOND
    return (f.BettingClosed(round_.number, stage, reason, at, draw, grace),)


def waits_for_receipt(state: State) -> bool:
    """Whether the house lets no card be drawn before the primary has the receipts of the betting (DESIGN 6)."""
    return state.procedure.receipts and not state.procedure.offline_rounds


def undrawn(state: State) -> Betting | None:
    """The betting that has closed, and whose card is not asked for yet."""
    betting = state.round.betting if state.round else None
    return betting if betting and state.phase is Phase.CLOSING and not betting.draw else None


def receipt(state: State, event: events.Receipt) -> tuple[Fact, ...]:
    betting = undrawn(state)
    if betting is None or conditions.find(state, "video"):
        return ()  # the picture's return brings a message, and that one's receipt asks again
    assert betting.closed_seqno is not None
    return (f.DrawCalled(round_of(state).number),) if event.seqno >= betting.closed_seqno else ()


def draw_called(state: State) -> tuple[Fact, ...]:
    """The picture is back in time: the card may be asked for, unless a receipt is waited for, which will say so."""
    called = undrawn(state) is not None and not waits_for_receipt(state)
    return (f.DrawCalled(round_of(state).number),) if called else ()


def no_answer(state: State) -> tuple[Fact, ...]:
    """The grace after the deadline is over, without a receipt or a picture, and without a card (F2, I33)."""
    round_ = round_of(state)
    if conditions.unclear(state) or conditions.find(state, "I16") or conditions.find(state, "I22"):
        return (f.TimerSpent(Timer.GRACE),)  # `arm` sets it again when it is known whether a card left
    if has_begun(state):
        return (f.DrawCalled(round_.number),)  # it is played to its end (F1, F3)
    then = after_round(state, round_.number)
    if conditions.find(state, "video"):
        return (f.RoundCancelled(round_.number, "no_video", (), then),)
    return (f.RoundCancelled(round_.number, "no_answer", (), then), *conditions.raised(state, "I33"))
