"""The table in a terminal: the dealer's panel, its lamps and buttons, the cards on the felt, the results as they come.

Where the terminal has the room, the panel is the frame that an OLED would have, pixel by pixel; else its words. Draws
with plain ANSI where it may, else says each change on a line of its own. It is told views, and facts of which it keeps
the public ones: what it shows, the feed has said (B10).
"""

import asyncio
import contextlib
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import NamedTuple, Self

from controller import frame
from controller.core import facts as f
from controller.core.cards import Card, Slot, total
from controller.core.facts import PUBLIC, Fact, Phase
from controller.core.view import Lamps, Pattern, Text, View
from controller.panel import FACES, STRIP, Panel21, Words

WIDTH, HEIGHT = 80, 24  # the least that the picture is made for
SIZE = os.terminal_size((WIDTH, HEIGHT))
FRAME_S = 0.04  # between two pictures: more would only tire the line
FLASH_HZ = 2.0  # of the red lamps (C1); of the eye's time, however fast the table's runs
PRESS_S = 0.6  # a pressed button stays lit so long
NOTE_S = 5.0  # a note stays so long
BELL_S = 1.0  # between two bells
LINES_MAX = 10_000  # waiting to be written where nobody reads
TIMER_LAMPS = 4
SECOND = 1_000_000_000

BOLD, DIM, INVERSE = "1", "2", "7"
RED, GREEN, YELLOW, BLUE = "31", "32", "33", "34"
ALARM = "1;97;41"
OUTCOMES = {"player": BLUE, "banker": RED, "tie": GREEN}
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l\x1b[2J", "\x1b[0m\x1b[?25h\x1b[?1049l"

LABELS: dict[str, dict[str, str]] = {
    "es": {
        "timer": "TIEMPO",
        "red": "ROJO",
        "player": "JUGADOR",
        "banker": "BANCA",
        "start": "INICIO",
        "confirm": "CONFIRMAR",
        "call": "LLAMAR",
        "shoe": "zapato {shoe}",
        "round": "ronda {round}",
        "burn": "quema {card}: {of} más",
        "cut": "carta de corte: la última es la ronda {last}",
        "header": "  Nº  JUGADOR         BANCA           RESULTADO     PAGA A UNO",
        "opened": "zapato {shoe}: {cards} cartas",
        "closed": "zapato {shoe}: {rounds} rondas; {burned} quemadas + {dealt} repartidas + {left} restantes = {cards}",
        "pit": "El jefe decide {code}: {choice}",
        "feed": "{messages} mensajes en {feed}",
    },
    "en": {
        "timer": "TIMER",
        "red": "RED",
        "player": "PLAYER",
        "banker": "BANKER",
        "start": "START",
        "confirm": "CONFIRM",
        "call": "CALL",
        "shoe": "shoe {shoe}",
        "round": "round {round}",
        "burn": "burn {card}: {of} more",
        "cut": "cut card: the last one is round {last}",
        "header": "  No  PLAYER          BANKER          RESULT        PAYS TO ONE",
        "opened": "shoe {shoe}: {cards} cards",
        "closed": "shoe {shoe}: {rounds} rounds; {burned} burned + {dealt} dealt + {left} left = {cards}",
        "pit": "The pit boss decides {code}: {choice}",
        "feed": "{messages} messages in {feed}",
    },
}

Span = tuple[str, str]
"""A text and how it looks: the numbers of ECMA-48's SGR, empty for plain."""
Row = tuple[Span, ...]


def may_draw(fd: int, environment: Mapping[str, str]) -> bool:
    """Whether the picture may be drawn there: on a terminal that can, for a person who did not ask for plain text."""
    able = environment.get("TERM", "") not in ("", "dumb")
    return able and not environment.get("NO_COLOR") and os.isatty(fd)


def has_pixels(environment: Mapping[str, str]) -> bool:
    """Whether block and braille characters come through: the terminal's locale is one of UTF-8."""
    names = (environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return "utf8" in next(filter(None, names), "").lower().replace("-", "")


class Screen(NamedTuple):
    """A way to draw the panel's pixels, for terminals of at least this size."""

    columns: int
    lines: int
    draw: Callable[[bytes], list[str]]


SCREENS = (Screen(185, 46, frame.blocks), Screen(121, 30, frame.dots))  # six results and more under each


# --- the lamps ------------------------------------------------------------------------------------------------


class Lit(NamedTuple):
    """Which lamps are lit: so many of the timer's bar, and the red one; they change by themselves in `change_s`."""

    bar: int
    red: bool
    change_s: float | None = None


def lit(lamps: Lamps, now: int, speed: float) -> Lit:
    """The lamps at an instant of the table's clock, of which `speed` seconds pass in one of the eye's."""
    pattern = lamps.pattern_at(now)
    if pattern is Pattern.BETTING:
        left, span = lamps.closes_at - now, max(1, lamps.closes_at - lamps.opened_at)
        bar = min(TIMER_LAMPS, -(-left * TIMER_LAMPS // span))
        return Lit(bar, red=False, change_s=max(0.0, (left - span * (bar - 1) / TIMER_LAMPS) / SECOND / speed))
    if pattern is Pattern.NO_MORE:
        on, change_s = _beat((now - lamps.closes_at) / SECOND / speed, FLASH_HZ)
        return Lit(TIMER_LAMPS if on else 0, on, change_s)
    if pattern is Pattern.OFFLINE:
        on, change_s = _beat(now / SECOND / speed, FLASH_HZ / 4)
        return Lit(0, on, change_s)
    if pattern is Pattern.MANUAL:
        on, change_s = _beat(now / SECOND / speed, FLASH_HZ / 8)
        return Lit(0, on, change_s)
    return Lit(0, pattern is Pattern.HELD)


def _beat(since_s: float, hz: float) -> tuple[bool, float]:
    """Whether a flash is on, and when it changes."""
    beats = since_s * hz * 2
    return math.floor(beats) % 2 == 0, (1 - beats % 1) / (hz * 2)


def _flashes(lamps: Lamps, now: int) -> bool:
    """NO MÁS APUESTAS."""
    return lamps.pattern_at(now) is Pattern.NO_MORE


# --- the felt ---------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A line of the list of results: a round that ended, or with no number something about the shoe."""

    text: str
    style: str = ""
    number: int = 0
    player: tuple[Card, ...] = ()
    banker: tuple[Card, ...] = ()
    pays: str = ""


class Felt:
    """What lies on the felt, and how the rounds before it ended, as the public facts have it."""

    def __init__(self, words: Words) -> None:
        self._words, self._labels = words, LABELS[words.language]
        self.shoe = self.round = self.cards = 0
        self.burn = ""
        self.hands: dict[Slot, Card] = {}
        self.entries: deque[Entry] = deque(maxlen=100)

    def hear(self, fact: Fact) -> str:
        """Lays it out; what there is to say of it on a line, or nothing."""
        if type(fact) not in PUBLIC:
            return ""
        match fact:
            case f.ShoeOpened():
                self.shoe, self.round, self.cards, self.burn = fact.shoe, 0, fact.profile.cards, ""
                self._clear()
                return self._enter(self._label("opened", shoe=fact.shoe, cards=self.cards))
            case f.CardBurned(card=Card() as card):
                self.burn = self._label("burn", card=FACES[card], of=fact.of)
                return self.burn
            case f.BettingOpened():
                if fact.round != self.round:
                    self._clear()
                self.round, self.burn = fact.round, ""
            case f.CardDealt():
                return self._lay(fact)
            case f.CardCorrected(after=None):
                for slot in fact.slots:
                    self.hands.pop(slot, None)
            case f.CutCardDrawn():
                return self._enter(self._label("cut", last=fact.last_round), YELLOW)
            case f.RoundCompleted() | f.RoundVoided() | f.RoundCancelled():
                return self._end(fact)
            case f.ShoeClosed():
                tally = {"burned": fact.burned, "dealt": fact.dealt, "left": fact.left}
                self._clear()
                return self._enter(
                    self._label("closed", shoe=fact.shoe, rounds=fact.rounds, cards=sum(tally.values()), **tally)
                )
            case _:
                pass
        return ""

    def hand(self, side: str) -> tuple[Card, ...]:
        """The Player's (P) or the Banker's (B) cards."""
        return tuple(self.hands[slot] for slot in Slot if slot[0] == side and slot in self.hands)

    def _label(self, key: str, **values: object) -> str:
        return self._labels[key].format_map(values)

    def _clear(self) -> None:
        self.hands = {}

    def _lay(self, fact: f.CardDealt) -> str:
        if fact.round != self.round:  # a round without a betting time: a dummy hand
            self._clear()
            self.round = fact.round
        self.hands[fact.slot] = fact.card
        return f"{self._words.word(f'slot.{fact.slot}')}  {FACES[fact.card]}"

    def _end(self, fact: f.RoundCompleted | f.RoundVoided | f.RoundCancelled) -> str:
        if isinstance(fact, f.RoundCompleted):
            values = {"player": fact.player.points, "banker": fact.banker.points}
            text = self._words.word(f"result.{fact.outcome}.headline").format_map(values)
            won = [f"{bet} {how.pays or ''}".strip() for bet, how in fact.bets.items() if how.result == "win"]
            entry = Entry(
                text, OUTCOMES[fact.outcome], fact.round, fact.player.cards, fact.banker.cards, " · ".join(won)
            )
        else:
            key = "I31.headline" if isinstance(fact, f.RoundVoided) else "I33.headline"
            entry = Entry(
                self._words.word(key), YELLOW, fact.round, self.hand("P"), self.hand("B"), self._why(fact.reason)
            )
        self.entries.append(entry)
        return _plain(_entry(entry))

    def _why(self, reason: str) -> str:
        return self._words.text(Text("I31.line2", {"reason": reason}))

    def _enter(self, text: str, style: str = DIM) -> str:
        self.entries.append(Entry(text, style))
        return text


def _suit(card: Card) -> str:
    return RED if card[1] in "HD" else ""


def _entry(entry: Entry) -> Row:
    if not entry.number:
        return ((f"      {entry.text}", entry.style),)
    row: list[Span] = [(f"{entry.number:>4} ", "")]
    for cards in (entry.player, entry.banker):
        row += [(f"{FACES[card]:>4}" if at else f"{FACES[card]:>3}", _suit(card)) for at, card in enumerate(cards)]
        gap = " " * (11 - 4 * len(cards) + (1 if cards else 0))
        row += [(gap, ""), (f"{total(cards) if cards else '':>2}   ", BOLD)]
    return (*row, (f"{entry.text:<14}", entry.style), (entry.pays, DIM))


# --- the picture ------------------------------------------------------------------------------------------------


class Caption(NamedTuple):
    """What stands around the table: its number, a line over it, where the feed goes, and what the keys do."""

    table: str
    title: str
    feed: str
    keys: str = ""


class TerminalPanel:
    """`ports.Panel` on a terminal or a pipe, `fd`. `hear` takes the facts of each durable batch.

    `now` is the table's clock, of which `speed` seconds pass in one of the eye's; `sent` counts the messages published.
    `pixels`: the characters of SCREENS may be used. One task, `run`, writes; it ends by itself only where there
    is nobody to write to.
    """

    def __init__(
        self,
        fd: int,
        caption: Caption,
        words: Words,
        *,
        draws: bool,
        pixels: bool,
        now: Callable[[], int],
        speed: float,
        sent: Callable[[], int],
    ) -> None:
        self._fd, self._caption, self._words, self.draws, self._pixels = fd, caption, words, draws, pixels
        self._now, self._speed, self._sent = now, speed, sent
        self._labels = LABELS[words.language]
        self._felt = Felt(words)
        self._view: View | None = None
        self._shown: Panel21 | None = None
        self._due = ""
        self._note, self._note_ends = "", 0
        self._pressed: dict[str, int] = {}
        self._lines: deque[str] = deque(() if draws else (caption.title, caption.feed), LINES_MAX)
        self._changed = asyncio.Event()
        self._drawn: list[str] = []
        self._buzzed, self._belled_at = "", 0
        self._open = False
        self._writing = threading.Lock()

    # --- what it is told ----------------------------------------------------------------------------------

    def show(self, view: View) -> None:
        self._view = view
        panel = self._words.panel(view, self._caption.table)
        self._say_due()
        if panel != self._shown:
            self._due = _as_line(panel)
        self._shown = panel
        self._changed.set()

    def hear(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            self._say(self._felt.hear(fact))
        self._say_due()
        self._changed.set()

    def note(self, text: str) -> None:
        """Something for the person before the terminal, which is not the dealer's panel."""
        self._note, self._note_ends = text, self._now() + int(NOTE_S * self._speed * SECOND)
        self._say(text)
        self._changed.set()

    def refused(self, key: str, values: Mapping[str, str]) -> None:
        """The table's answer to a button."""
        self.note(self._words.refused(key, values))

    def decided(self, code: str, choice: str) -> None:
        """The pit boss was here."""
        self.note(self._labels["pit"].format(code=code, choice=self._words.word(f"choice.{choice}")))

    def press(self, button: str) -> None:
        """A button was pressed: start, confirm or call."""
        if self.draws:
            self._pressed[button] = self._now() + int(PRESS_S * self._speed * SECOND)
        self._say(f"[{self._labels[button]}]")
        self._changed.set()

    def redraw(self) -> None:
        """The terminal may show something else by now: another size, or another program was there."""
        self._drawn = []
        self._changed.set()

    def _say_due(self) -> None:
        """A prompt comes after what brought it, of which the watchers hear behind the panels."""
        self._say(self._due)
        self._due = ""

    def _say(self, line: str) -> None:
        if line and not self.draws:
            self._lines.append(line)

    # --- the terminal -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._open = True
        if self.draws:
            self._write(ENTER)
            self.redraw()
        return self

    def __exit__(self, *_: object) -> None:
        """The terminal as it was, whatever happened."""
        if self.draws:
            with contextlib.suppress(OSError):  # nobody is there to see it
                self._write(LEAVE)
        self._open = False

    def farewell(self, lines: Iterable[str]) -> None:
        """The last picture, and what is to be said after it, on the terminal as it was."""
        size = self._size()
        last = (
            [_plain(_cut(row, size.columns)) for row in self.picture(self._now(), size)[:-1]]
            if self.draws
            else self._lines
        )
        self._open = True
        self._write("".join(f"{line}\n" for line in (*last, *lines)))
        self._open = False

    def _write(self, text: str) -> None:
        """UTF-8 whatever the locale. OSError where nobody reads any more, but not after the end."""
        data = text.encode()
        with self._writing:
            while data and self._open:
                try:
                    data = data[os.write(self._fd, data) :]
                except OSError:
                    self._open = False
                    raise

    # --- time ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        said = ""
        while True:
            self._changed.clear()
            now = self._now()
            lamps = self._view.lamps if self._view else Lamps()
            if self.draws:
                text = self._bell(lamps, now) + self._redrawn(now)
            else:
                self._say_due()
                lamp_line = self._lamp_line(lamps, now)
                if lamp_line != said:
                    self._say(lamp_line)
                said = lamp_line
                text = "".join(f"{line}\n" for line in self._lines)
                self._lines.clear()
            try:
                await self._write_aside(text)
            except OSError:
                return
            await self._until_changed(lamps, now)

    async def _write_aside(self, text: str) -> None:
        """In a thread: a terminal that is held (^S) must not hold the table. What is begun is written to its end."""
        if not text:
            return
        writing = asyncio.ensure_future(asyncio.to_thread(self._write, text))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):  # nobody reads, and nobody asked
                await writing
            raise

    async def _until_changed(self, lamps: Lamps, now: int) -> None:
        change_s = lit(lamps, now, self._speed).change_s
        ends = [(end - now) / SECOND / self._speed for end in (*self._pressed.values(), self._note_ends) if end > now]
        if self.draws:
            await asyncio.sleep(FRAME_S)
        try:
            async with asyncio.timeout(min([*ends, *([] if change_s is None else [change_s])], default=None)):
                await self._changed.wait()
        except TimeoutError:
            return

    def _bell(self, lamps: Lamps, now: int) -> str:
        """Once for each closing (C1)."""
        if not lamps.buzz or lamps.buzz == self._buzzed or not _flashes(lamps, now):
            return ""
        self._buzzed = lamps.buzz
        if now - self._belled_at < BELL_S * SECOND * self._speed:
            return ""
        self._belled_at = now
        return "\a"

    def _lamp_line(self, lamps: Lamps, now: int) -> str:
        """The lamps where each change is a line: a flash is one."""
        if _flashes(lamps, now):
            return f"{self._labels['red']} ●  {self._no_more}"
        bar = lit(lamps, now, self._speed).bar
        return f"{self._labels['timer']} {_bar(bar)}" if bar else ""

    @property
    def _no_more(self) -> str:
        return f"{self._words.word('no_more.headline')} {self._words.word('no_more.line1')}"

    # --- the picture --------------------------------------------------------------------------------------

    def _redrawn(self, now: int) -> str:
        """What must be written so that the terminal shows the picture: the lines that changed, or all."""
        size = self._size()
        rows = [_painted(_cut(row, size.columns)) for row in self.picture(now, size)[: size.lines]]
        clear = "" if len(rows) == len(self._drawn) else "\x1b[2J"
        before: list[str | None] = [None] * len(rows) if clear else [*self._drawn]
        fresh = [f"\x1b[{at + 1};1H{row}\x1b[K" for at, row in enumerate(rows) if row != before[at]]
        self._drawn = rows
        return clear + "".join(fresh)

    def _size(self) -> os.terminal_size:
        """Some terminals do not know theirs."""
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(self._fd)
            if size.columns and size.lines:
                return size
        return SIZE

    def picture(self, now: int, size: os.terminal_size = SIZE) -> list[Row]:
        """The whole; a higher terminal shows more results, a wider one longer ones, a large one the panel's pixels."""
        lamps = self._view.lamps if self._view else Lamps()
        light = lit(lamps, now, self._speed)
        flash = light.red and _flashes(lamps, now)
        left, right = self._box(size, flash=flash), self._table(lamps, light, flash=flash)
        middle = [(*a, ("  ", ""), *b) for a, b in zip_longest(left, right, fillvalue=())]
        room = max(size.lines, HEIGHT) - len(middle) - 6
        results = [_entry(entry) for entry in list(self._felt.entries)[-room:]]
        results += [()] * (room - len(results))
        feed = self._labels["feed"].format(messages=self._sent(), feed=self._caption.feed)
        return [
            ((f" {self._caption.title}", DIM),),
            *middle,
            self._buttons(now),
            ((self._labels["header"], DIM),),
            *results,
            ((f" {self._note}" if now < self._note_ends else "", YELLOW),),
            ((f" {feed}", DIM),),
            ((f" {self._caption.keys}", DIM),),
        ]

    def _box(self, size: os.terminal_size, *, flash: bool) -> list[Row]:
        """The dealer's panel: its pixels where there is room for them, with the notice in the frame; else its words."""
        shown = self._shown or Panel21("", "", ("", ""))
        edge = ALARM if flash else ""
        large = [screen for screen in SCREENS if size.columns >= screen.columns and size.lines >= screen.lines]
        if large and self._pixels:
            idle = self._view is not None and self._view.phase is Phase.CLOSED
            inside = [(line, "") for line in large[0].draw(frame.draw(shown, idle=idle))]
            notice = f" {shown.strip} " if shown.strip else ""  # small dots can hardly be read
        else:
            inside, notice = _written(shown), ""
        width = len(inside[0][0])
        rows = [((" ", ""), ("│", edge), line, ("│", edge)) for line in inside]
        return [((" ", ""), (f"┌{notice:─^{width}}┐", edge)), *rows, ((" ", ""), (f"└{'─' * width}┘", edge))]

    def _table(self, lamps: Lamps, light: Lit, *, flash: bool) -> list[Row]:
        """The lamps, and the felt under them: eight rows beside the box."""
        colour = RED if _flashes(lamps, self._now()) else GREEN
        lights: Row = (
            (f"  {self._labels['timer']} ", DIM),
            (_bar(light.bar), colour),
            (f"   {self._labels['red']} ", DIM),
            ("●" if light.red else "○", RED if light.red else ""),
            (f"   {self._labels['call']} ", DIM),
            ("●" if lamps.call else "○", YELLOW if lamps.call else ""),
        )
        announced: Row = (("  ", ""), (f"  {self._no_more}  ", ALARM)) if flash else ()
        names: list[Span] = []
        for side, label in (("P", "player"), ("B", "banker")):
            cards = self._felt.hand(side)
            points = f"{total(cards)}" if cards else ""
            names += [(f"  {self._labels[label]:<8}", BLUE if side == "P" else RED), (f"{points:<16}", BOLD)]
        hands = [(*a, *b) for a, b in zip(_laid(self._felt.hand("P")), _laid(self._felt.hand("B")), strict=True)]
        felt = self._felt
        numbers = {"shoe": felt.shoe, "round": felt.round}
        where = [self._labels[key].format(**numbers) for key, number in numbers.items() if number]
        below = " · ".join([*where, *filter(None, [felt.burn])])
        return [lights, announced, tuple(names), *hands, ((f"  {below}", DIM),), ()]

    def _buttons(self, now: int) -> Row:
        self._pressed = {button: end for button, end in self._pressed.items() if end > now}
        row: list[Span] = []
        for button in ("start", "confirm", "call"):
            pressed = button in self._pressed
            row += [(" ", ""), (f"[{self._labels[button]}]", INVERSE if pressed else DIM)]
        return tuple(row)


def _written(shown: Panel21) -> list[Span]:
    """A strip, a headline and two lines, as wide as the strip."""
    first, second = shown.lines
    return [
        (f"{shown.strip:<{STRIP}}", ""),
        (" " * STRIP, ""),
        (f"{shown.headline:^{STRIP}}", BOLD),
        (" " * STRIP, ""),
        (f"{first:^{STRIP}}", ""),
        (f"{second:^{STRIP}}", ""),
    ]


def _bar(count: int) -> str:
    return " ".join("●" * count + "○" * (TIMER_LAMPS - count))


def _laid(cards: tuple[Card, ...]) -> list[Row]:
    """A hand in three rows of 26 columns; the third card lies across it (D6)."""
    rows: list[list[Span]] = [[("  ", "")], [("  ", "")], [("  ", "")]]
    for at, card in enumerate(cards):
        width = 5 if at == 2 else 3
        gap = " " if at == 2 else ""
        rows[0].append((f"{gap}┌{'─' * width}┐", ""))
        rows[1] += [
            (f"{gap}│", ""),
            (f"{FACES[card]:^{width}}" if at == 2 else f"{FACES[card]:>3}", _suit(card)),
            ("│", ""),
        ]
        rows[2].append((f"{gap}└{'─' * width}┘", ""))
    return [(*row, (" " * (26 - sum(len(text) for text, _ in row)), "")) for row in rows]


def _as_line(panel: Panel21) -> str:
    prompt = " / ".join(filter(None, (panel.headline, *panel.lines)))
    return f"| {prompt}" + (f"   [{panel.strip}]" if panel.strip else "")


def _plain(row: Row) -> str:
    return "".join(text for text, _ in row).rstrip()


def _cut(row: Row, width: int) -> Row:
    """What fits; an ellipsis says that there was more."""
    if len(_plain(row)) <= width:
        return row
    kept: list[Span] = []
    room = width - 1
    for text, style in row:
        kept.append((text[:room], style))
        room -= len(kept[-1][0])
    return (*kept, ("…", ""))


def _painted(row: Row) -> str:
    return "".join(f"\x1b[{style}m{text}\x1b[0m" if style and text else text for text, style in row)
