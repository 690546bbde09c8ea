"""What the casino server says to the table (DESIGN 5): it opens, pauses, limits, asks; the table stays the judge (F3).

Who may speak for it is settled before an event is made (`control/casino.py`); `by` names the key that signed.
"""

from . import conditions, events
from . import facts as f
from .betting import draw_called, open_stage
from .conditions import Refused
from .facts import Fact
from .profile import Opens
from .state import State


def open_betting(state: State, event: events.OpenAsked) -> tuple[Fact, ...]:
    opens = state.procedure.open_betting
    if opens is not Opens.SERVER:
        raise Refused("opens_itself", who=opens)
    return open_stage(state, event.at, 0)


def pause(state: State, event: events.PauseAsked) -> tuple[Fact, ...]:
    """It acts after the round in progress (DESIGN 6)."""
    return () if conditions.find(state, "pause") else conditions.raised(state, "pause", {"reason": event.reason})


def resume(state: State, event: events.ResumeAsked) -> tuple[Fact, ...]:
    standing = conditions.find(state, "pause")
    return () if standing is None else (conditions.resolved(standing, "resume", event.by),)


def video(state: State, event: events.VideoChanged) -> tuple[Fact, ...]:
    """Without a picture no round begins; one that has begun is played to its end (F1, F2)."""
    standing = conditions.find(state, "video")
    if not event.up:
        return () if standing else conditions.raised(state, "video")
    if standing is None:
        return ()
    back = conditions.resolved(standing, "automatic", event.by)
    return (back, *draw_called(state))


def request_void(state: State, event: events.VoidRequested) -> tuple[Fact, ...]:
    if conditions.find(state, "void_request"):
        return ()
    return conditions.raised(state, "void_request", {"reason": event.reason})


def dispute(state: State, event: events.ResultDisputed) -> tuple[Fact, ...]:
    """One at a time: the pit boss looks at it before the next round (I53)."""
    if conditions.find(state, "I53"):
        raise Refused("held", code="I53")
    return conditions.raised(state, "I53", {"seqno": str(event.seqno), "outcome": event.outcome})


def limits(state: State, event: events.LimitsGiven) -> tuple[Fact, ...]:
    return () if event.limits == state.limits else (f.LimitsSet(event.limits, event.by),)


def enrol(state: State, event: events.Enrolled) -> tuple[Fact, ...]:
    return () if state.enrolled else (f.TableEnrolled(event.by),)


def refused(state: State, event: events.CommandRefused) -> tuple[Fact, ...]:
    """On record once a phase (I52): a server gone mad must not fill the journal."""
    return () if conditions.find(state, "I52") else conditions.raised(state, "I52", {"why": event.why})
