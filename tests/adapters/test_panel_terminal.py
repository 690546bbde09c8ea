"""The table in a terminal: lamps on their deadlines, the picture as a person sees it, nothing that is not public."""

import asyncio
import codecs
import contextlib
import fcntl
import os
import re
import struct
import termios
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, Self

import pytest

from controller import frame
from controller.adapters import panel_terminal as pt
from controller.adapters.panel_terminal import Caption, Lit, TerminalPanel, has_pixels, lit, may_draw
from controller.core import facts as f
from controller.core.cards import Card
from controller.core.conditions import Refused
from controller.core.facts import PUBLIC, Fact, Phase
from controller.core.table import play
from controller.core.view import Lamps, Pattern, View, view
from controller.panel import Words
from tests import panel_states
from tests.broker import until

SECOND = 1_000_000_000
LANGUAGES = ("es", "en")
CAPTION = Caption("DEMO", "A demonstration · ×4", "feed.jsonl", "q: quit")


class Time:
    """The table's clock, moved by hand."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.ns = int(seconds * SECOND)

    def __call__(self) -> int:
        return self.ns


class Told(panel_states.Table):
    """A table of words that tells a terminal what the loop would: each view, then the facts of its batch."""

    def __init__(self, terminal: TerminalPanel, time: Time, options: str = "") -> None:
        self.terminal, self.time = terminal, time
        self.views: list[View] = []
        self.facts: list[Fact] = []
        super().__init__(options)

    def submit(self, event: Any) -> None:  # noqa: ANN401 - any event
        facts: list[Fact] = []
        for _, told, after in play(self.state, event):
            self.state = after
            facts += told
        self.views.append(view(self.state))
        self.facts += facts
        self.time.ns = self.now
        self.terminal.show(self.views[-1])
        self.terminal.hear(facts)

    def tell(self, script: str) -> Self:
        for word in script.split():
            self.do(word)
        return self


def terminal(
    fd: int, *, language: str = "es", draws: bool = True, pixels: bool = True, time: Time | None = None
) -> TerminalPanel:
    now = Time() if time is None else time
    return TerminalPanel(fd, CAPTION, Words(language), draws=draws, pixels=pixels, now=now, speed=1.0, sent=lambda: 12)


def size(columns: int, lines: int) -> os.terminal_size:
    return os.terminal_size((columns, lines))


def text_of(picture: list[pt.Row]) -> list[str]:
    return ["".join(text for text, _ in row).rstrip() for row in picture]


# --- the lamps ------------------------------------------------------------------------------------------------

BET = Lamps(Pattern.BETTING, 0, 12 * SECOND)
OVER = Lamps(Pattern.NO_MORE, 0, 12 * SECOND)


@pytest.mark.parametrize(
    ("lamps", "at_s", "speed", "expected"),
    [
        (BET, 0.0, 1.0, Lit(4, red=False, change_s=3.0)),
        (BET, 2.0, 1.0, Lit(4, red=False, change_s=1.0)),
        (BET, 3.0, 1.0, Lit(3, red=False, change_s=3.0)),
        (BET, 7.0, 1.0, Lit(2, red=False, change_s=2.0)),
        (BET, 7.0, 4.0, Lit(2, red=False, change_s=0.5)),
        (BET, 11.0, 1.0, Lit(1, red=False, change_s=1.0)),
        (BET, 12.0, 1.0, Lit(4, red=True, change_s=0.25)),  # at the deadline, by itself
        (BET, 12.25, 1.0, Lit(0, red=False, change_s=0.25)),
        (BET, 12.5, 1.0, Lit(4, red=True, change_s=0.25)),
        (BET, 13.0, 4.0, Lit(0, red=False, change_s=0.25)),  # 2 Hz of the eye's time
        (OVER, 12.0, 1.0, Lit(4, red=True, change_s=0.25)),
        (OVER, 9.0, 1.0, Lit(4, red=True, change_s=0.25)),  # closed before its time (I07)
        (Lamps(Pattern.HELD), 5.0, 1.0, Lit(0, red=True)),
        (Lamps(Pattern.OFFLINE), 0.0, 1.0, Lit(0, red=True, change_s=1.0)),
        (Lamps(Pattern.OFFLINE), 1.5, 1.0, Lit(0, red=False, change_s=0.5)),
        (Lamps(), 5.0, 1.0, Lit(0, red=False)),
    ],
)
def test_lamps_are_lit(lamps: Lamps, at_s: float, speed: float, expected: Lit) -> None:
    assert lit(lamps, int(at_s * SECOND), speed) == expected


def test_the_bar_goes_out_lamp_by_lamp() -> None:
    seen = [lit(BET, at, 1.0).bar for at in range(0, 12 * SECOND, SECOND // 100)]
    assert seen == sorted(seen, reverse=True)
    assert [seen.count(count) for count in (4, 3, 2, 1, 0)] == [300, 300, 300, 300, 0]


# --- the picture ------------------------------------------------------------------------------------------------

FRAME = """
 A demonstration · ×4
 ┌─────────────────────┐    TIEMPO ○ ○ ○ ○   ROJO ○   LLAMAR ○
 │                     │
 │                     │    JUGADOR 5                 BANCA   6
 │     JUGADOR 3ª      │    ┌───┐┌───┐                ┌───┐┌───┐
 │                     │    │ 2♥││ 3♦│                │ K♠││ 6♣│
 │      J 5: PIDE      │    └───┘└───┘                └───┘└───┘
 │       cruzada       │    zapato 1 · ronda 4
 └─────────────────────┘
 [INICIO] [CONFIRMAR] [LLAMAR]
  Nº  JUGADOR         BANCA           RESULTADO     PAGA A UNO
      zapato 1: 416 cartas
   1  9♥ 10♦     9    2♠  4♣     6   GANA JUGADOR  player 1
   2  2♥  J♦  6♣ 8    K♥  6♥  2♦ 8   EMPATE A 8    tie 8
   3  2♥         2                   ANULADA       MOTIVO caída






 Eso no se puede hacer ahora: siga lo que pide la pantalla.
 12 mensajes en feed.jsonl
 q: quit
"""

PLAYED = """
    load start tick 9H 2S TD 4C confirm start tick 2H KH JD 6H 6C 2D confirm start tick 2H void:caída
    start tick 2H KS 3D 6C
"""


def test_the_picture_is_what_lies_on_the_table() -> None:
    time = Time()
    screen = terminal(-1, time=time)
    Told(screen, time).tell(PLAYED)
    screen.refused("not_now", {})
    assert text_of(screen.picture(time())) == [line.rstrip() for line in FRAME.strip("\n").split("\n")]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("options", "script"),
    [
        ("", PLAYED),
        ("work", "confirm confirm"),
        ("burn sensors", "load move 6H move"),
        ("", "load start tick 2H KS 3D 6C 2S start"),
        ("", "load start 2H"),
        ("", "load start tick 2H cut KS 3D 6C 2S confirm left:410"),
        ("", "load start down tick"),
        ("", "load start tick TH 2S QD 4C KS 5D"),
    ],
)
def test_the_picture_fits_a_terminal(language: str, options: str, script: str) -> None:
    time = Time()
    screen = terminal(-1, language=language, time=time)
    told = Told(screen, time, options)
    for word in script.split():
        with contextlib.suppress(Refused):
            told.do(word)
        for later_s in (0.0, 0.2, 7.0):
            picture = text_of([pt._cut(row, pt.WIDTH) for row in screen.picture(time() + int(later_s * SECOND))])
            assert len(picture) == pt.HEIGHT
            assert max(map(len, picture)) <= pt.WIDTH
            assert [line[1] + line[23] for line in picture[1:9]] == ["┌┐", *["││"] * 6, "└┘"]


IN_PIXELS = [  # how large a terminal is, and how many lines the panel has in it: in blocks, in dots, in words
    (185, 46, 32),
    (260, 70, 32),
    (184, 46, 16),
    (185, 45, 16),
    (121, 30, 16),
    (120, 30, 6),
    (121, 29, 6),
    (80, 24, 6),
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("columns", "lines", "height"), IN_PIXELS)
def test_a_large_terminal_shows_the_panels_own_pixels(language: str, columns: int, lines: int, height: int) -> None:
    time = Time()
    screen = terminal(-1, language=language, time=time)
    told = Told(screen, time)
    for word in ("", "load", "start", "tick", "9H", "cut", "2S", "TD", "4C", "confirm"):  # a last hand's notice, too
        if word:
            told.do(word)
        panel = Words(language).panel(told.views[-1], CAPTION.table)
        pixels = frame.draw(panel, idle=told.views[-1].phase is Phase.CLOSED)
        words = [text for text, _ in pt._written(panel)]
        drawn = {32: frame.blocks(pixels), 16: frame.dots(pixels), 6: words}[height]
        picture = text_of(screen.picture(time(), size(columns, lines)))
        assert len(picture) == lines
        assert max(map(len, picture)) <= columns
        width = len(drawn[0])
        assert [line[2 : 2 + width] for line in picture[2 : 2 + height]] == drawn
        assert [line[1] + line[2 + width] for line in picture[1 : height + 3]] == ["┌┐", *["││"] * height, "└┘"]
        assert (panel.strip in picture[1]) == (height > 6 or not panel.strip)


def test_without_utf8_the_panel_is_in_words() -> None:
    time = Time()
    screen = terminal(-1, pixels=False, time=time)
    Told(screen, time).tell("load")
    large, small = (text_of(screen.picture(time(), size(*of))) for of in ((260, 70), (80, 24)))
    assert large[:10] == small[:10]


def test_languages_have_the_same_labels() -> None:
    es, en = (pt.LABELS[language] for language in LANGUAGES)
    values = re.compile(r"{\w+}")
    assert {key: values.findall(text) for key, text in es.items()} == {
        key: values.findall(text) for key, text in en.items()
    }


def test_a_higher_terminal_shows_more_results() -> None:
    time = Time()
    screen = terminal(-1, time=time)
    told = Told(screen, time).tell("load")
    for suit in "SHDC" * 5:
        told.tell(f"start tick 9{suit} 2{suit} T{suit} 4{suit} confirm")
    pictures = [text_of(screen.picture(time(), size(80, height))) for height in (24, 34)]
    rounds = [[line for line in picture if "GANA" in line[30:]] for picture in pictures]
    assert [len(lines) for lines in rounds] == [10, 20]
    assert [lines[-1].split()[0] for lines in rounds] == ["20", "20"]


SECRET = Card.parse("AS")
SILENT: dict[type[Fact], Fact] = {  # what holds a face, and is nobody's business
    f.CardRead: f.CardRead(1, SECRET),
}


def test_it_says_no_face_that_the_feed_has_not() -> None:
    """B10: of what is not public nothing is laid, said or drawn."""
    with_face = {kind for kind in vars(f).values() if isinstance(kind, type) and issubclass(kind, Fact)
                 and "card" in getattr(kind, "__slots__", ()) and kind not in PUBLIC}  # fmt: skip
    assert with_face == set(SILENT)
    for fact in SILENT.values():
        screen = terminal(-1, draws=False)
        screen.hear([fact])
        assert list(screen._lines) == [CAPTION.title, CAPTION.feed]
        assert "A♠" not in "".join(text_of(screen.picture(0)))


def test_burned_cards_stay_face_down() -> None:
    time = Time()
    screen = terminal(-1, draws=False, time=time)
    told = Told(screen, time, "burn sensors").tell("load move 2D move 7C move 8C")
    assert f.CardRead in map(type, told.facts), "the scanner has read them"
    said = "\n".join(screen._lines)
    assert "2♦" in said
    assert "♣" not in said


# --- on a terminal ----------------------------------------------------------------------------------------------


class Emulator:
    """As much of a terminal as the panel uses; anything else is an error. It reads from a pty, in a thread."""

    TOKENS = re.compile(
        r"\x1b\[(?P<row>\d+);(?P<column>\d+)H|(?P<clear>\x1b\[2J)|(?P<rest>\x1b\[K)|\x1b\[(?P<style>[\d;]+)m"
        r"|(?P<mode>\x1b\[\?(?:1049|25)[hl])|(?P<bell>\a)|(?P<newline>\r?\n)|(?P<text>[^\x1b\a\r\n]+)"
    )

    def __init__(self, columns: int = 80, lines: int = 24) -> None:
        self.master, self.slave = os.openpty()
        self.resize(columns, lines)
        self.cells: dict[tuple[int, int], str] = {}
        self.at = (1, 1)
        self.bells = 0
        self.cursor, self.alternate, self.style = True, False, "0"
        self.after: list[str] = []  # on the terminal as it was
        self._left = ""
        self._decode = codecs.getincrementaldecoder("utf-8")().decode  # what is read may end inside a character
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while data := os.read(self.master, 65536):
                self._feed(data)

    def _feed(self, data: bytes) -> None:
        text = self._left + self._decode(data)
        whole = max(text.rfind("\x1b"), 0) if re.search(r"\x1b[^A-Za-z]*$", text) else len(text)
        text, self._left = text[:whole], text[whole:]
        end = 0
        for token in self.TOKENS.finditer(text):
            assert token.start() == end, f"unknown to this terminal: {text[end : end + 20]!r}"
            end = token.end()
            self._take(token)

    def _take(self, token: re.Match[str]) -> None:
        kind = token.lastgroup
        if kind == "column":
            self.at = int(token["row"]), int(token["column"])
        elif kind == "clear":
            self.cells = {}
        elif kind == "rest":
            self.cells = {place: cell for place, cell in self.cells.items() if not self._behind(place)}
        elif kind == "style":
            self.style = token["style"]
        elif kind == "mode":
            self.cursor = {"\x1b[?25h": True, "\x1b[?25l": False}.get(token["mode"], self.cursor)
            self.alternate = {"\x1b[?1049h": True, "\x1b[?1049l": False}.get(token["mode"], self.alternate)
        elif kind == "bell":
            self.bells += 1
        elif kind == "text" and self.alternate:
            row, column = self.at
            self.cells |= {(row, column + i): cell for i, cell in enumerate(token["text"])}
            self.at = row, column + len(token["text"])
        elif kind == "text":
            self.after.append(token["text"])

    def _behind(self, place: tuple[int, int]) -> bool:
        return place[0] == self.at[0] and place[1] >= self.at[1]

    def screen(self, lines: int = 24, columns: int = 80) -> list[str]:
        rows = [
            "".join(self.cells.get((row, column), " ") for column in range(1, columns + 1))
            for row in range(1, lines + 1)
        ]
        return [row.rstrip() for row in rows]

    def close(self) -> None:
        os.close(self.slave)
        self._thread.join(10)
        os.close(self.master)


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    seen = Emulator()
    yield seen
    seen.close()


def shown(panel: TerminalPanel, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a story while the panel draws; an error of the panel is raised here."""

    async def run() -> None:
        with panel:
            drawing = asyncio.create_task(panel.run())
            try:
                await asyncio.wait_for(story(), 60)
            finally:
                drawing.cancel()
                await asyncio.gather(drawing, return_exceptions=True)
        if not drawing.cancelled():
            drawing.result()

    asyncio.run(run())


def test_the_terminal_shows_the_picture_at_every_step(emulator: Emulator) -> None:
    time = Time()
    screen = terminal(emulator.slave, time=time)

    async def story() -> None:
        told = Told(screen, time)
        for word in PLAYED.split():
            told.do(word)
            expected = text_of([pt._cut(row, 80) for row in screen.picture(time())])
            await until(lambda want=expected: emulator.screen() == want, f"the picture after {word}")
        assert not emulator.cursor

    shown(screen, story)
    assert emulator.bells > 0


def test_another_size_is_drawn_anew(emulator: Emulator) -> None:
    time = Time()
    screen = terminal(emulator.slave, time=time)

    async def story() -> None:
        Told(screen, time).tell(PLAYED)
        for columns, lines in ((80, 24), (120, 40), (30, 10), (130, 40), (200, 50), (80, 24)):
            emulator.resize(columns, lines)
            screen.redraw()
            want = text_of([pt._cut(row, columns) for row in screen.picture(time(), size(columns, lines))[:lines]])
            await until(lambda want=want, seen=(lines, columns): emulator.screen(*seen) == want, "all anew")

    shown(screen, story)


def test_red_flashes_by_itself_at_the_deadline_and_the_bell_rings_once(emulator: Emulator) -> None:
    time = Time()
    screen = terminal(emulator.slave, time=time)

    async def story() -> None:
        Told(screen, time).tell("load start")
        screen.show(replace(screen._view, lamps=replace(screen._view.lamps, closes_at=time() + SECOND // 5)))  # type: ignore[type-var, union-attr]
        begun = asyncio.get_running_loop().time()
        start_ns = time()
        for on in (True, False, True, False):

            def passes(want: bool = on) -> bool:
                time.ns = start_ns + int((asyncio.get_running_loop().time() - begun) * SECOND)
                return ("NO MÁS APUESTAS" in emulator.screen()[2][25:]) == want

            await until(passes, f"the red lamps {'on' if on else 'off'}")
        await until(lambda: emulator.bells, "the bell")

    shown(screen, story)
    assert emulator.bells == 1


def test_a_pressed_button_lights_and_a_note_stands_for_a_while(emulator: Emulator) -> None:
    time = Time()
    screen = terminal(emulator.slave, time=time)

    async def story() -> None:
        screen.press("confirm")
        screen.note("a note")
        await until(lambda: emulator.screen()[21] == " a note", "the note")
        assert ("[CONFIRMAR]", pt.INVERSE) in screen._buttons(time())
        time.ns += int(pt.PRESS_S * SECOND)
        assert ("[CONFIRMAR]", pt.DIM) in screen._buttons(time())
        time.ns += int(pt.NOTE_S * SECOND)
        screen.redraw()
        await until(lambda: emulator.screen()[21] == "", "the note to go")

    shown(screen, story)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, LookupError])
def test_the_terminal_is_left_as_it_was(emulator: Emulator, error: type[BaseException] | None) -> None:
    screen = terminal(emulator.slave)
    with contextlib.suppress(KeyboardInterrupt, LookupError), screen:
        assert until_now(lambda: emulator.alternate and not emulator.cursor)
        if error is not None:
            raise error
    assert until_now(lambda: emulator.cursor and not emulator.alternate and emulator.style == "0")
    screen.farewell(["Good-bye"])
    assert until_now(lambda: emulator.after[-1:] == ["Good-bye"])
    assert emulator.after[0] == " A demonstration · ×4", "the last picture stays"


def until_now(true: Callable[[], object]) -> bool:
    asyncio.run(until(true, "what was waited for"))
    return True


def test_a_terminal_that_is_gone_ends_the_drawing_and_nothing_else() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        for draws in (True, False):
            screen = terminal(writer, draws=draws)
            if draws:
                with pytest.raises(BrokenPipeError):
                    screen.__enter__()
            else:
                screen.__enter__()
                asyncio.run(asyncio.wait_for(screen.run(), 20))
            screen.__exit__()
    finally:
        os.close(writer)


# --- a line a change --------------------------------------------------------------------------------------------

LINES = """
A demonstration · ×4
feed.jsonl
| DEMO / MESA CERRADA / pulse CONFIRMAR
zapato 1: 416 cartas
| RONDA NUEVA / PULSE INICIO / abre apuestas
[INICIO]
| APUESTAS / ABIERTAS / no saque cartas
TIEMPO ● ● ● ●
TIEMPO ● ○ ○ ○
ROJO ●  NO MÁS APUESTAS
| JUGADOR 1ª / SAQUE CARTA   [NO MÁS APUESTAS]
JUGADOR 1ª  9♥
| BANCA 1ª / SAQUE CARTA
BANCA 1ª  2♠
| JUGADOR 2ª / SAQUE CARTA
JUGADOR 2ª  10♦
| BANCA 2ª / SAQUE CARTA
BANCA 2ª  4♣
| GANA JUGADOR / J 9   B 6 / CONFIRME
   1  9♥ 10♦     9    2♠  4♣     6   GANA JUGADOR  player 1
| RECOJA / DCHA. A IZQDA. / al descarte
Good-bye
"""


def test_each_change_is_a_line_where_nothing_can_be_drawn() -> None:
    reader, writer = os.pipe()
    time, told = Time(), b""
    screen = terminal(writer, draws=False, time=time)

    async def settled() -> None:
        """The panel has looked at the lamps, and written."""
        screen._changed.set()
        await until(lambda: not (screen._changed.is_set() or screen._lines), "its lines")

    async def story() -> None:
        table = Told(screen, time).tell("load")
        await settled()
        screen.press("start")
        table.do("start")
        await settled()
        for later_s in (12, 15):
            time.ns = table.now + later_s * SECOND
            await settled()
        for word in ("tick", "9H", "2S", "TD", "4C", "confirm"):
            table.do(word)
            await settled()

    shown(screen, story)
    screen.farewell(["Good-bye"])
    os.close(writer)
    while data := os.read(reader, 65536):
        told += data
    os.close(reader)
    assert told.decode().splitlines() == LINES.strip("\n").splitlines()


@pytest.mark.parametrize(
    ("environment", "tty", "draws"),
    [
        ({"TERM": "xterm-256color"}, True, True),
        ({"TERM": "linux", "NO_COLOR": ""}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({}, True, False),
        ({"TERM": "xterm"}, False, False),
    ],
)
def test_it_draws_where_it_may(emulator: Emulator, environment: dict[str, str], *, tty: bool, draws: bool) -> None:
    reader, writer = os.pipe()
    assert may_draw(emulator.slave if tty else writer, environment) == draws
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize(
    ("environment", "pixels"),
    [
        ({"LANG": "es_ES.UTF-8"}, True),
        ({"LANG": "C.utf8"}, True),
        ({"LANG": "es_ES.UTF-8@euro"}, True),
        ({"LANG": "es_ES"}, False),
        ({"LANG": "es_ES.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "C.UTF-8", "LC_ALL": ""}, True),
        ({}, False),
    ],
)
def test_pixels_are_for_a_locale_that_has_their_characters(environment: dict[str, str], *, pixels: bool) -> None:
    assert has_pixels(environment) == pixels
