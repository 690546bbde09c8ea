"""The table's side of the sensor head's protocol: who speaks, what is told once, and what a restart may have hidden.

A script is a talk: `>` from the head, `<` to it, `=` what the table is told, each at its ms. Messages are written as
their names and the fields that differ from those in HEAD.
"""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.link import frame, messages
from controller.link.frame import CRC16, Frames
from controller.link.messages import Cause, Flag, Kind
from controller.link.movements import (
    MS,
    Ambiguous,
    CardOut,
    CutOut,
    CutWaiting,
    Fault,
    Lid,
    Mouth,
    Returned,
    TwoOut,
    Well,
)
from controller.link.session import Answered, Down, Output, Session, Told, Up
from tests.fake_head import FakeHead

ENUMS: dict[str, Any] = {
    "kind": messages.Kind,
    "line": messages.Line,
    "why": messages.Why,
    "flags": messages.Flag,
    "cause": messages.Cause,
    "seen": messages.Seen,
    "faults": messages.Seen,
    "passed": messages.Seen,
}
HEAD: dict[str, dict[str, int]] = {
    "Hello": {"protocol": 1, "major": 1, "cause": 1, "boots": 1, "next": 1, "last_ms": 0xFFFFFFFF, "lost": 255},
    "Event": {"kind": 1, "covered_ms": 60, "lag_100us": 100},
    "Heartbeat": {"next": 1, "supply_mv": 5000},
}
NAMES = iter(range(7, 1 << 32))


def message(words: list[str]) -> messages.Message:
    kind = getattr(messages, words[0])
    said = dict(word.split("=") for word in words[1:])
    fields = dict.fromkeys(kind._fields, 0) | HEAD.get(words[0], {})
    for name, text in said.items():
        members = ENUMS.get(name)
        number = text.isdigit() or text.startswith("0x")
        fields[name] = int(text, 0) if number or members is None else sum(members[one] for one in text.split("|"))
    return kind(*[ENUMS[name](value) if name in ENUMS else value for name, value in fields.items()])


def said(output: Output) -> str:
    match output:
        case Up():
            return "up"
        case Down(trouble=trouble):
            return f"down {trouble}"
        case Answered(answer=answer):
            return f"answered {type(answer).__name__}"
        case Told(report=report, key=key):
            return f"{word(report)}{'' if key is None else f' {key[1]}'}"


def word(report: object) -> str:
    match report:
        case CardOut() | TwoOut() | CutOut() | CutWaiting() | Returned():
            return type(report).__name__
        case Ambiguous(why=why):
            return f"Ambiguous-{why}"
        case Mouth(full=full):
            return f"mouth-{'full' if full else 'empty'}"
        case Lid(is_open=is_open):
            return f"lid-{'open' if is_open else 'closed'}"
        case Fault(part=part, why=why):
            return f"fault-{part}-{why}"
        case Well(part=part):
            return f"well-{part}"
        case _:
            raise AssertionError(report)


WELL = "well-exit_inner, well-exit_outer, well-cut, well-present"
NAMED = """
    0 open
    0 < AskHello
   10 > Hello boots=3
   10 < Name boots=3 boot=7
   20 > Hello boots=3 boot=7 uptime_ms=200
   20 = up
"""

TALKS = {
    "a boot is named": NAMED,
    "a boot that another run of the program named goes on at the event that waits": """
        0 open
        0 < AskHello
       10 > Hello boot=99 next=5
       10 = up
       20 > Event seq=5
       20 = CardOut 5
       21 durable 99 5
       21 < Ack boot=99 seq=5
    """,
    "an event is acknowledged when it is durable, not before, and again when it comes again": NAMED
    + """
       30 > Event seq=1
       30 = CardOut 1
       60 > Event seq=1
      130 > Event seq=1
      131 durable 7 1
      131 < Ack boot=7 seq=1
      140 > Event seq=1
      140 < Ack boot=7 seq=1
    """,
    "an acknowledgement covers no event before which one is not durable": NAMED
    + """
       30 > Event seq=1
       30 = CardOut 1
       31 > Event seq=2 kind=TWO
       31 = TwoOut 2
       32 > Event seq=3 kind=CUT
       32 = CutOut 3
       40 durable 7 3
       41 durable 7 1
       41 < Ack boot=7 seq=1
       42 durable 7 2
       42 < Ack boot=7 seq=3
    """,
    "events are taken in order: one that comes early waits for its next sending": NAMED
    + """
       30 > Event seq=2
       40 > Event seq=1
       40 = CardOut 1
       50 > Event seq=2
       50 = CardOut 2
    """,
    "evidence is counted, told to nobody and acknowledged at once": NAMED
    + """
       30 > Event seq=1 kind=GLITCH line=INNER
       30 < Ack boot=7 seq=1
       31 > Event seq=2 kind=PULLBACK
       31 < Ack boot=7 seq=2
       32 > Event seq=3 kind=CARD flags=SLOW
       32 = CardOut 3
    """,
    "every kind in the words of the sensors": NAMED
    + """
       30 > Event seq=1 kind=WAITING
       30 = CutCardWaiting 1
       31 > Event seq=2 kind=REVERSE
       31 = Returned 2
       32 > Event seq=3 kind=AMBIGUOUS why=TIGHT
       32 = Ambiguous-tight 3
       33 > Event seq=4 kind=STUCK line=OUTER why=FLICKERS
       33 = fault-exit_outer-flickers 4
       34 > Event seq=5 kind=CLEAR line=OUTER
       34 = well-exit_outer 5
       35 > Event seq=6 kind=LID flags=ON
       35 = lid-open 6
       36 > Event seq=7 kind=PRESENT
       36 = mouth-empty 7
    """.replace("CutCardWaiting", "CutWaiting"),
    "an acknowledgement of another boot acknowledges nothing": NAMED
    + """
       30 > Event seq=1
       30 = CardOut 1
       31 durable 6 1
    """,
    "lid, mouth and faults as they stand, once": NAMED
    + f"""
       30 > Heartbeat seen=PRESENT uptime_ms=210
       30 = mouth-full, lid-closed, {WELL}
      530 > Heartbeat seen=PRESENT uptime_ms=710
      531 > Event seq=1 kind=LID flags=ON
      531 = lid-open 1
      532 durable 7 1
      532 < Ack boot=7 seq=1
     1030 > Heartbeat seen=PRESENT|LID faults=CUT next=2 uptime_ms=1210
     1030 = fault-cut-stuck
     1040 > Heartbeat faults=PRESENT next=2 uptime_ms=1220
     1040 = mouth-empty, lid-closed, well-cut, fault-present-blind
    """,
    "levels are compared when no event waits": NAMED
    + """
       30 > Heartbeat seen=PRESENT waiting=1 uptime_ms=210
    """,
    "the queue ran over: the head says it itself, in its order": NAMED
    + """
       30 > Event seq=1 kind=AMBIGUOUS why=LOST
       30 = Ambiguous-lost 1
    """,
    "a head that sends no more what was never taken": NAMED
    + """
       30 > Heartbeat next=3 uptime_ms=210
       30 = Ambiguous-lost, mouth-empty, lid-closed, """
    + WELL
    + """
       40 > Event seq=3
       40 = CardOut 3
       41 durable 7 3
       41 < Ack boot=7 seq=3
    """,
    # --- restarts: last heartbeat at 30 ms, when the head's clock was at 210 ms, so that its clock is 180 ms ahead
    "a restart that took 20 ms hid nothing": NAMED
    + f"""
       30 > Heartbeat uptime_ms=210
       30 = mouth-empty, lid-closed, {WELL}
       40 > Event seq=1
       40 = CardOut 1
       41 durable 7 1
       41 < Ack boot=7 seq=1
      150 > Hello boots=4 cause=EXTERNAL lost=0 uptime_ms=30 last_ms=280
      150 < Name boots=4 boot=8
      160 > Hello boots=4 boot=8 cause=EXTERNAL lost=0 uptime_ms=40 last_ms=280
      160 = up
      170 > Event seq=1
      170 = CardOut 1
    """,
    "a restart that took 30 ms may have hidden a card": NAMED
    + """
      150 > Hello boots=4 cause=EXTERNAL lost=0 uptime_ms=20 last_ms=280
      150 < Name boots=4 boot=8
      150 = Ambiguous-lost
      160 > Hello boots=4 boot=8 lost=0 uptime_ms=30 last_ms=280
      160 = up
    """,
    "so may one whose clocks contradict each other: it ran on after it is said to have begun anew": NAMED
    + """
       30 > Heartbeat waiting=1 uptime_ms=210
      150 > Hello boots=4 cause=EXTERNAL lost=0 uptime_ms=80 last_ms=280
      150 < Name boots=4 boot=8
      150 = Ambiguous-lost
    """,
    "so may the watchdog, which waits for 120 ms": NAMED
    + """
      250 > Hello boots=4 cause=WATCHDOG lost=0 uptime_ms=20 last_ms=280
      250 < Name boots=4 boot=8
      250 = Ambiguous-lost
    """,
    "a short restart that lost an event": NAMED
    + """
      150 > Hello boots=4 cause=EXTERNAL lost=1 uptime_ms=30 last_ms=280
      150 < Name boots=4 boot=8
      150 = Ambiguous-lost
    """,
    "what of one boot is durable acknowledges nothing of the next": NAMED
    + """
       30 > Event seq=1
       30 = CardOut 1
       31 > Event seq=2
       31 = CardOut 2
       32 durable 7 2
      150 > Hello boots=4 cause=EXTERNAL lost=2 uptime_ms=30 last_ms=280
      150 < Name boots=4 boot=8
      150 = Ambiguous-lost
      160 > Hello boots=4 boot=8 cause=EXTERNAL lost=2 uptime_ms=40 last_ms=280
      160 = up
      170 > Event seq=1
      170 = CardOut 1
      171 > Event seq=2
      171 = CardOut 2
      172 durable 7 1
      173 durable 8 1
      173 < Ack boot=8 seq=1
    """,
    "two restarts, of which one was not heard": NAMED
    + """
      150 > Hello boots=5 cause=EXTERNAL lost=0 uptime_ms=30 last_ms=280
      150 < Name boots=5 boot=8
      150 = Ambiguous-lost
    """,
    "a power cut, though its counters look the same": NAMED.replace("boots=3", "boots=1")
    + """
      900 > Hello boots=1 uptime_ms=0
      900 < Name boots=1 boot=8
      900 = Ambiguous-lost
    """,
    "a power cut before the boot had a name": """
        0 open
        0 < AskHello
       10 > Hello uptime_ms=100
       10 < Name boots=1 boot=7
      100 > Hello uptime_ms=3
      100 < Name boots=1 boot=8
      100 = Ambiguous-lost
    """,
    "power that was away before the boot had a name, as while a plug goes in: its first HELLO is the same": """
        0 open
        0 < AskHello
       10 > Hello uptime_ms=1
       10 < Name boots=1 boot=7
       20 close
     3000 open
     3000 < AskHello
     3010 > Hello uptime_ms=1
     3010 < Name boots=1 boot=8
     3010 = Ambiguous-lost
     3020 > Hello boot=8 uptime_ms=11
     3020 = up
    """,
    "nor did it come again, if its clock went on: its name was lost, and the table read a little late": """
        0 open
        0 < AskHello
       10 > Hello uptime_ms=1
       10 < Name boots=1 boot=7
      350 > Hello uptime_ms=201
      350 < Name boots=1 boot=7
   600000 > Hello uptime_ms=597000
   600000 < Name boots=1 boot=7
   600000 = down deaf
    """,
    "a restart is told once, however often its HELLO comes": NAMED
    + """
      150 > Hello boots=4 lost=255 uptime_ms=0
      150 < Name boots=4 boot=8
      150 = Ambiguous-lost
      190 > Hello boots=4 lost=255 uptime_ms=200
      190 < Name boots=4 boot=8
    """,
    "the first HELLO of a run tells nothing: the table has its own way after a restart (I35)": """
        0 open
        0 < AskHello
       10 > Hello boots=9 lost=255
       10 < Name boots=9 boot=7
    """,
    "nor one that says that nothing is lost": """
        0 open
        0 < AskHello
       10 > Hello boots=9 lost=0
       10 < Name boots=9 boot=7
    """,
    "but what the head knows that it lost, while no table was there, no journal will ever have": """
        0 open
        0 < AskHello
       10 > Hello boots=9 lost=3
       10 < Name boots=9 boot=7
       10 = Ambiguous-lost
       20 > Hello boots=9 lost=3 uptime_ms=10
       20 < Name boots=9 boot=7
       30 > Hello boots=9 boot=7 lost=3 uptime_ms=20
       30 = up
    """,
    "of which another run was told, when it named the boot": """
        0 open
        0 < AskHello
       10 > Hello boots=9 boot=99 lost=3
       10 = up
    """,
    "unplugged and plugged in again": NAMED
    + """
       40 close
     9000 open
     9000 < AskHello
     9010 > Hello boots=1 uptime_ms=100
     9010 < Name boots=1 boot=8
     9010 = Ambiguous-lost
     9020 > Hello boots=1 boot=8 uptime_ms=110
     9020 = up
    """,
    "power that was away while nobody listened, and has been back for longer than it was there before": NAMED.replace(
        "boots=3", "boots=1"
    )
    + """
       40 close
     9000 open
     9000 < AskHello
     9010 > Hello boots=1 uptime_ms=8000
     9010 < Name boots=1 boot=8
     9010 = Ambiguous-lost
    """,
    "a cable that was out, with a head that was not": NAMED
    + """
       40 close
     9000 open
     9000 < AskHello
     9010 > Hello boots=3 boot=7 uptime_ms=9190 next=1
     9010 = up
     9020 > Event seq=1
     9020 = CardOut 1
    """,
    # The table looked away from 35 ms on, while the head hung at 240 ms and began anew at 360 ms, and read all at once.
    "a restart while the table was busy: what it reads late did not happen late": NAMED
    + f"""
       30 > Heartbeat uptime_ms=210
       30 = mouth-empty, lid-closed, {WELL}
      700 > Heartbeat uptime_ms=410
      700 > Hello boots=4 cause=WATCHDOG lost=0 uptime_ms=1 last_ms=420
      700 < Name boots=4 boot=8
      700 = Ambiguous-lost
    """,
    # --- what is no use
    "silence": NAMED
    + """
     1625 wait
     1626 wait
     1626 < AskHello
     1626 = down silent
     1825 wait
     1826 wait
     1826 < AskHello
     1900 > Hello boots=3 boot=7 uptime_ms=2080
     1900 = up
    """,
    "a port with nothing behind it": """
        0 open
        0 < AskHello
      200 wait
      200 < AskHello
     1600 wait
     1600 < AskHello
     1600 = down silent
    """,
    "a head that does not hear its name": """
        0 open
        0 < AskHello
      100 > Hello
      100 < Name boots=1 boot=7
     1699 > Hello uptime_ms=1599
     1699 < Name boots=1 boot=7
     1700 > Hello uptime_ms=1600
     1700 < Name boots=1 boot=7
     1700 = down deaf
     1710 > Hello boot=7 uptime_ms=1610
     1710 = up
    """,
    "a head that restarts again and again, as with too little supply, is not deaf": """
        0 open
        0 < AskHello
      100 > Hello boots=1
      100 < Name boots=1 boot=7
      500 > Hello boots=2 cause=BROWNOUT lost=0
      500 < Name boots=2 boot=8
      500 = Ambiguous-lost
      800 > Hello boots=3 cause=BROWNOUT lost=0
      800 < Name boots=3 boot=9
      800 = Ambiguous-lost
     1100 > Hello boots=4 cause=BROWNOUT lost=0
     1100 < Name boots=4 boot=10
     1100 = Ambiguous-lost
     1400 > Hello boots=5 cause=BROWNOUT lost=0
     1400 < Name boots=5 boot=11
     1400 = Ambiguous-lost
     1600 > Hello boots=6 cause=BROWNOUT lost=0
     1600 < Name boots=6 boot=12
     1600 = Ambiguous-lost, down restarts
     1700 > Hello boots=6 cause=BROWNOUT lost=0 uptime_ms=100
     1700 < Name boots=6 boot=12
    """,
    "nor is one that has its name each time: people would be asked for ever, and nobody told why": NAMED
    + """
     1000 > Hello boots=4 cause=BROWNOUT lost=0
     1000 < Name boots=4 boot=8
     1000 = Ambiguous-lost
     1010 > Hello boots=4 boot=8 lost=0 uptime_ms=10
     1010 = up
     8000 > Hello boots=5 cause=BROWNOUT lost=0
     8000 < Name boots=5 boot=9
     8000 = Ambiguous-lost
     8010 > Hello boots=5 boot=9 lost=0 uptime_ms=10
     8010 = up
     9000 > Hello boots=6 cause=BROWNOUT lost=0
     9000 < Name boots=6 boot=10
     9000 = Ambiguous-lost
     9010 > Hello boots=6 boot=10 lost=0 uptime_ms=10
     9010 = up
    20000 > Hello boots=7 cause=BROWNOUT lost=0
    20000 < Name boots=7 boot=11
    20000 = Ambiguous-lost
    20010 > Hello boots=7 boot=11 lost=0 uptime_ms=10
    20010 = up
    30900 > Hello boots=8 cause=BROWNOUT lost=0
    30900 < Name boots=8 boot=12
    30900 = Ambiguous-lost, down restarts
    30910 > Hello boots=8 boot=12 lost=0 uptime_ms=10
    30911 > Event seq=1
    30911 = CardOut 1
    30999 > Hello boots=8 boot=12 lost=0 uptime_ms=99
    31000 > Hello boots=8 boot=12 lost=0 uptime_ms=100
    31000 = up
    """,
    "a head that does not hear its acknowledgements": NAMED
    + """
       30 > Event seq=1
       30 = CardOut 1
       31 durable 7 1
       31 < Ack boot=7 seq=1
      100 > Heartbeat next=1 waiting=1 uptime_ms=280
      100 < Ack boot=7 seq=1
      600 > Heartbeat next=1 waiting=1 uptime_ms=780
      600 < Ack boot=7 seq=1
     1100 > Heartbeat next=1 waiting=1 uptime_ms=1280
     1100 < Ack boot=7 seq=1
     1700 > Heartbeat next=1 waiting=1 uptime_ms=1880
     1700 < Ack boot=7 seq=1
     1700 = down deaf
    """,
    "a head that is slow to hear, and does": NAMED
    + """
       30 > Event seq=1
       30 = CardOut 1
       31 > Event seq=2
       31 = CardOut 2
       32 durable 7 1
       32 < Ack boot=7 seq=1
       33 durable 7 2
       33 < Ack boot=7 seq=2
      100 > Heartbeat next=1 waiting=2 uptime_ms=280
      100 < Ack boot=7 seq=2
     1000 > Heartbeat next=2 waiting=1 uptime_ms=1180
     1000 < Ack boot=7 seq=2
     1900 > Heartbeat next=2 waiting=1 uptime_ms=2080
     1900 < Ack boot=7 seq=2
     2700 > Heartbeat next=2 waiting=1 uptime_ms=2880
     2700 < Ack boot=7 seq=2
     2700 = down deaf
    """,
    "a head that another run of the program named, and that never heard this one": """
        0 open
        0 < AskHello
      100 > Heartbeat uptime_ms=5000
      200 wait
      200 < AskHello
      300 > Event seq=1
     1600 > Heartbeat uptime_ms=6500
     1700 > Heartbeat uptime_ms=6600
     1700 = down deaf
     1800 wait
     1800 < AskHello
     1900 > Heartbeat uptime_ms=6800
     1910 > Hello boot=99 uptime_ms=6810
     1910 = up
    """,
    "a head that took its name, and whose answer never came": """
        0 open
        0 < AskHello
       10 > Hello boots=3 uptime_ms=100
       10 < Name boots=3 boot=7
      200 > Heartbeat uptime_ms=290
     1500 > Heartbeat uptime_ms=1590
     1700 > Heartbeat uptime_ms=1790
     1700 = down deaf
    """,
    "an event that never comes whole: nobody would hear of those behind it": NAMED
    + """
       30 > Heartbeat waiting=1 uptime_ms=210
      130 body 02 01000000 00000000 ff 000000 0000 0000 0000
     1000 > Heartbeat waiting=1 uptime_ms=1180
     1629 > Heartbeat waiting=1 uptime_ms=1809
     1631 > Heartbeat waiting=1 uptime_ms=1811
     1631 = down strange
     1640 > Hello boots=3 boot=7 uptime_ms=1820
     1900 > Event seq=1
     1900 = CardOut 1
     1910 > Hello boots=3 boot=7 uptime_ms=2090
     1910 = up
    """,
    "an event that comes whole at last": NAMED
    + """
       30 > Heartbeat waiting=1 uptime_ms=210
     1500 > Event seq=1
     1500 = CardOut 1
     1510 > Heartbeat waiting=1 uptime_ms=1690
     1640 > Event seq=2
     1640 = CardOut 2
     1650 > Heartbeat waiting=3 uptime_ms=1830
     1660 > Event seq=3
     1660 = CardOut 3
     1700 > Heartbeat waiting=4 uptime_ms=1880
    """,
    "another protocol, whose HELLO may be of any length": """
        0 open
        0 < AskHello
       10 body 01 02 010000 00000000 01 0100
       10 = down version
     9999 wait
     9999 < AskHello
    """,
    "what is not of the protocol, five times in a row": NAMED
    + """
       30 body ff
       30 body 0200
       30 body 81
       30 body 0102010000
       31 > Heartbeat waiting=1 uptime_ms=211
       32 body ff
       33 body ff
       34 body ff
       35 body ff
       36 body ff
       36 = down strange
    """,
    # --- questions
    "a question has its answer": NAMED
    + """
       30 ask AskLevels
       30 < AskLevels
       40 > Thresholds
       41 > Levels inner=80
       41 = answered Levels
       42 > Levels inner=80
    """,
    "a question is asked three times": NAMED
    + """
       30 ask SelfTest
       30 < SelfTest
      430 > Heartbeat waiting=1 uptime_ms=610
      430 wait
      430 < SelfTest
      830 wait
      830 < SelfTest
     1230 > Heartbeat waiting=1 uptime_ms=1410
     1230 wait
     1230 = answered NoneType
    """,
    "a refusal is an answer, if it is of that question": NAMED
    + """
       30 ask SelfTest
       30 < SelfTest
       40 > Refused message=0x85 why=4
       41 > Refused message=0x87 why=4
       41 = answered Refused
    """,
    "a port that is lost answers": NAMED
    + """
       30 ask AskThresholds
       30 < AskThresholds
       40 close
       40 = answered NoneType
    """,
}


class Desk:
    """Runs a talk, and holds what was sent and told against it."""

    def __init__(self) -> None:
        names = iter(range(7, 100))
        self.session = Session(lambda: next(names))
        self.got: list[str] = []
        self._sent = Frames(CRC16, messages.FRAME_BYTES)

    def run(self, at: int, verb: str, words: list[str]) -> None:
        session, now = self.session, at * MS
        match verb:
            case "open":
                session.connect(now)
            case "close":
                self._told(at, session.disconnect())
            case ">":
                body = messages.encode(message(words))
                self._feed(at, body)
            case "body":
                self._feed(at, bytes.fromhex("".join(words)))
            case "wait":
                self._told(at, session.elapse(now))
            case "durable":
                session.durable((int(words[0]), int(words[1])))
            case "ask":
                session.ask(message(words), now)  # type: ignore[arg-type]
        for body in self._sent.feed(session.take()):
            self.got.append(f"{at} < {messages.decode(body)}")

    def play(self, talk: str) -> list[str]:
        """Runs it; what it wants to be sent and told."""
        wanted = []
        for line in filter(str.strip, talk.splitlines()):
            at, verb, *words = line.split()
            if verb == "<":
                wanted.append(f"{at} < {message(words)}")
            elif verb == "=":
                wanted.append(f"{at} = {' '.join(words)}")
            else:
                self.run(int(at), verb, words)
        return wanted

    def _feed(self, at: int, body: bytes) -> None:
        framed = frame.encode(body, CRC16, messages.FRAME_BYTES)
        wire = (len(body) + 4) * 10 * 1_000_000_000 // messages.BAUD
        self._told(at, self.session.feed(framed, at * MS + wire))

    def _told(self, at: int, outputs: list[Output]) -> None:
        self.outputs = outputs
        if outputs:
            self.got.append(f"{at} = {', '.join(said(output) for output in outputs)}")


@pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS)
def test_talk(talk: str) -> None:
    desk = Desk()
    wanted = desk.play(talk)
    assert sorted(desk.got, key=order) == sorted(wanted, key=order)


def order(line: str) -> tuple[int, str]:
    at, _, rest = line.partition(" ")
    return int(at), rest


@pytest.mark.parametrize(
    ("age", "at"),
    [(0, 1000), (1, 999), (250, 750), (5000, 0)],  # 5000: before the machine started; its clock has no such time
)
def test_an_event_has_the_time_at_which_it_happened(age: int, at: int) -> None:
    """Its frame's own time on the line is taken off, and its age at the frame's begin."""
    desk = Desk()
    desk.play(NAMED)
    desk.run(1000, ">", ["Event", "seq=1", f"age_ms={age}"])
    (told,) = desk.outputs
    assert isinstance(told, Told)
    assert told.report == CardOut(at * MS, 60 * MS, 10 * MS)


def test_a_head_that_is_back_has_told_what_it_kept_when_nothing_waits_that_was_not_taken() -> None:
    """Before that, whoever counts cards would count one that is told yet (I08, I41)."""
    desk = Desk()
    desk.play(NAMED)
    caught_up = []
    for at, event in enumerate(("", "Event seq=1", "Event seq=2 kind=TWO"), 30):
        if event:
            desk.run(at, ">", event.split())
        desk.run(at, ">", ["Heartbeat", "waiting=2", "uptime_ms=210"])
        caught_up.append(desk.session.caught_up)
    assert caught_up == [False, False, True]
    desk.run(40, "close", [])
    assert not desk.session.caught_up


def test_no_event_comes_before_the_last() -> None:
    desk = Desk()
    desk.play(NAMED)
    reports = []
    for seq, age in ((1, 0), (2, 100)):
        desk.run(1000, ">", ["Event", f"seq={seq}", f"age_ms={age}"])
        reports += [told.report for told in desk.outputs if isinstance(told, Told)]
    assert [report.at for report in reports] == [1000 * MS, 1000 * MS]


def test_an_entry_not_seen_has_no_measures() -> None:
    desk = Desk()
    desk.play(NAMED)
    desk.run(1000, ">", ["Event", "seq=1", "covered_ms=65535", "lag_100us=65535"])
    (told,) = desk.outputs
    assert isinstance(told, Told)
    assert told.report == CardOut(1000 * MS, None, None)


# --- whole nights: a lossy line, a slow journal, restarts of both ----------------------------------------

STEP = 5 * MS
MOVES = [Kind.CARD] * 6 + [Kind.TWO, Kind.CUT, Kind.REVERSE, Kind.AMBIGUOUS, Kind.LID, Kind.PRESENT, Kind.GLITCH]


class Night:
    """A head, a line that loses, flips and invents bytes, and a table that takes its time and now and then dies."""

    def __init__(self, rng: random.Random, noise: float) -> None:
        self.rng, self.noise = rng, noise
        self.head, self.now = FakeHead(), 0
        self.head.start(0)
        self.journal: dict[tuple[int, int], object] = {}  # what is durable
        self.order: list[tuple[int, int]] = []
        self.unclear = 0  # movements that the table was told to be unclear, and by which restart
        self.deciding: list[tuple[int, tuple[int, int], object]] = []
        self.made: dict[tuple[int, int], Kind] = {}  # by the head, and numbered
        self.names = iter(range(1, 1 << 32))
        self.session = self.begin()

    def begin(self) -> Session:
        session = Session(lambda: next(self.names))
        session.connect(self.now)
        self.deciding.clear()
        return session

    def damaged(self, data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            if self.rng.random() >= self.noise:
                out.append(byte)
                continue
            match self.rng.randrange(4):
                case 0:
                    out.append(byte ^ 1 << self.rng.randrange(8))
                case 1:
                    out += bytes([byte, byte])
                case 2:
                    out += bytes([byte, self.rng.randrange(256)])
        return bytes(out)

    def step(self) -> None:
        self.now += STEP
        self.head.elapse(self.now)
        self.session_told(self.session.feed(self.damaged(self.head.take()), self.now))
        self.session_told(self.session.elapse(self.now))
        for when, key, report in list(self.deciding):
            if when <= self.now:
                self.deciding.remove((when, key, report))
                if key not in self.journal:  # as the loop drops a repeat
                    self.journal[key] = report
                    self.order.append(key)
                self.session.durable(key)
        self.head.feed(self.damaged(self.session.take()), self.now)

    def session_told(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Told(report=Ambiguous(), key=None):
                    self.unclear += 1
                case Told(report=report, key=(boot, seq)):
                    ready = max([self.now, *(when for when, _, _ in self.deciding)])
                    self.deciding.append((ready + self.rng.randrange(60) * MS, (boot, seq), report))

    def happens(self) -> None:
        kind = self.rng.choice(MOVES)
        before, dropped = self.head._next, self.head.dropped
        flags = {"flags": Flag(self.rng.choice([0, 2]))} if kind in (Kind.LID, Kind.PRESENT) else {}
        self.head.happens(kind, self.now, **flags)
        if self.head._next > before:
            told = kind if self.head.dropped == dropped else Kind.AMBIGUOUS
            self.made[id(self.head) ^ self.head.boots, before] = told

    def settle(self) -> None:
        """A quiet line, until nothing waits."""
        self.noise = 0.0
        for _ in range(1000):
            self.step()
            if not self.head._queue and not self.deciding and self.session.up:
                return
        raise AssertionError("it does not come to rest")


def numbered(night: Night) -> Iterator[tuple[int, Kind]]:
    for (_, seq), kind in night.made.items():
        if kind is not Kind.GLITCH:
            yield seq, kind


@given(seed=st.integers(0, 1 << 32), noise=st.sampled_from([0.0, 0.002, 0.01, 0.03]), dies=st.booleans())
def test_every_event_is_in_the_journal_once_and_in_order(seed: int, noise: float, dies: bool) -> None:
    """Whatever the line loses, and however often the table dies between hearing and acknowledging."""
    rng = random.Random(seed)
    night = Night(rng, noise)
    for _ in range(rng.randrange(50, 400)):
        night.step()
        if rng.random() < 0.06:
            night.happens()
        if dies and rng.random() < 0.01:
            night.session = night.begin()
    night.settle()
    assert [seq for _, seq in night.order] == [seq for seq, _ in numbered(night)]
    assert len({boot for boot, _ in night.order}) <= 1
    assert night.unclear == 0
    words = {Kind.CARD: CardOut, Kind.TWO: TwoOut, Kind.CUT: CutOut, Kind.REVERSE: Returned, Kind.AMBIGUOUS: Ambiguous}
    for (_, report), (_, kind) in zip(night.journal.items(), numbered(night), strict=True):
        assert kind not in words or isinstance(report, words[kind])


@given(seed=st.integers(0, 1 << 32), noise=st.sampled_from([0.0, 0.01]))
def test_a_restart_of_the_head_loses_nothing_that_is_not_told(seed: int, noise: float) -> None:
    """After each restart: all that was made is journalled, or the table was told that something is unclear."""
    rng = random.Random(seed)
    night = Night(rng, 0.0)
    for _ in range(rng.randrange(1, 5)):
        night.settle()
        night.noise = noise
        for _ in range(rng.randrange(40, 200)):
            night.step()
            if rng.random() < 0.06:
                night.happens()
        hidden = {key for key in night.made if night.made[key] is not Kind.GLITCH}
        journalled, unclear = len(night.order), night.unclear
        stopped = night.now
        power, blind = rng.random() < 0.3, rng.choice([5, 15, 120, 900])
        night.head.stop()
        for _ in range(blind * MS // STEP):
            night.step()
        lost = len(hidden) - len(night.order)
        night.head.start(night.now, Cause.POWER if power else Cause.EXTERNAL, stopped=None if power else stopped)
        night.settle()
        assert len(night.order) >= journalled
        if power or blind > 100 or lost > 0:
            assert night.unclear == unclear + 1
        elif not night.noise and blind < 20 and not night.head._lost:
            assert night.unclear == unclear
        night.made.clear()
        night.order.clear()
