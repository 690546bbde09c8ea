"""The words of the table: keys and values of the core become prompts, notices and answers in the house's language.

The one home of gettext. The words are in `locale/<language>/LC_MESSAGES/panel.po`, the msgids are the keys. Nothing
here decides what is shown: `core/view.py` does. A key without words is a fault of the program, found by the tests; at a
table it is logged, and the panel says that its text is missing and whom to call, because a table must go on.
"""

import gettext
import logging
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from .core.cards import DECK
from .core.facts import Phase
from .core.view import Text, View

log = logging.getLogger(__name__)

STRIP, HEADLINE, LINE = 21, 12, 16  # characters of a 128 x 64 panel at 6 x 12, 10 x 20 and 8 x 16 pixels
LOCALE = Path(__file__).parent / "locale"
DOMAIN = "panel"
BETWEEN = " · "  # notices on the strip
NO_PROMPT = ("missing.headline", "missing.line1", "missing.line2")  # shown where words are missing
NO_NOTICE, NO_ANSWER = "missing.strip", "missing.refused"
CUT = "…"  # ends what a person or a device wrote and a panel has no room for
SUITS = {"S": "♠", "H": "♥", "D": "♦", "C": "♣"}
FACES = {str(card): ("10" if card.rank == "T" else card.rank) + SUITS[card[1]] for card in DECK}
FOREIGN = re.compile(f"[^ -~\u00a1-\u00ac\u00ae-\u017f{''.join(SUITS.values())}{CUT}]")
"""What no panel may show: all but Latin letters and signs, one column each, and the suits (libraries.md O8)."""


class LanguageError(Exception):
    """There are no words in that language. The text names those that there are."""


class MissingWordsError(LookupError):
    """A key has no words in the catalogue, or its words need a value that did not come with it."""


class Panel21(NamedTuple):
    """What fits on a panel: a strip of at most 21 characters, a headline of 12, two lines of 16, one column each."""

    strip: str
    headline: str
    lines: tuple[str, str]


def languages(locale: Path = LOCALE) -> tuple[str, ...]:
    """The languages that there are words in."""
    return tuple(sorted(path.parts[-3] for path in locale.glob(f"*/LC_MESSAGES/{DOMAIN}.mo")))


class Words:
    """The words of one language. Read once, here. LanguageError where there are none."""

    def __init__(self, language: str, locale: Path = LOCALE) -> None:
        if language not in languages(locale):
            has = ", ".join(languages(locale)) or "none: the installation is not whole"
            raise LanguageError(f"no words in language {language!r}: table.language may be {has}")
        self.language = language
        self._catalogue = gettext.translation(DOMAIN, locale, [language])
        self._catalogue.add_fallback(_Missing())
        self._told: set[str] = set()
        for key in (*NO_PROMPT, NO_NOTICE, NO_ANSWER):  # these at least must be there
            self.word(key)

    def word(self, key: str) -> str:
        """The catalogue's words for a key, values not yet put in. MissingWordsError where there are none."""
        return self._catalogue.gettext(key)

    def text(self, text: Text) -> str:
        """A prompt, notice or answer, its values put in. A blank line of the catalogue is a space, and empty here."""
        return self.word(text.key).format_map(_Values(self, text)).strip()

    def panel(self, view: View, table: str) -> Panel21:
        """A view as it shows at the table of that number (G7). Never raises, whatever the view holds.

        Only what people and devices wrote is ever cut; the tests see to it that our own words fit. Of the notices the
        first shows, then as many as fit, the more important before the less.
        """
        prompt, at = view.prompt, {"table": table}
        strip = [self._notice(text) for text in prompt.strip]
        try:
            headline, *lines = [self.text(Text(t.key, t.values | at)) for t in (prompt.headline, *prompt.lines)]
        except MissingWordsError as error:
            self._tell(error)
            key = {"key": prompt.headline.key}
            headline, *lines = [self.text(Text(part, key)) for part in NO_PROMPT]
        if view.phase is Phase.CLOSED and headline == table and len(table) > HEADLINE:
            headline, *lines = lines[0], table[:LINE], table[LINE:]
        first, second, *_ = (*lines, "", "")
        return Panel21(_join(strip), _fit(headline, HEADLINE), (_fit(first, LINE), _fit(second, LINE)))

    def refused(self, key: str, values: Mapping[str, str]) -> str:
        """The sentence that answers a person who asked for what cannot be now: what to do instead."""
        try:
            return self.text(Text(f"refused.{key}", dict(values)))
        except MissingWordsError as error:
            self._tell(error)
            return self.text(Text(NO_ANSWER, {"key": key}))

    def _notice(self, text: Text) -> str:
        try:
            return self.text(text)
        except MissingWordsError as error:
            self._tell(error)
            return self.word(NO_NOTICE)

    def _tell(self, error: MissingWordsError) -> None:
        """Once a fault: a panel is drawn many times a second."""
        if str(error) not in self._told:
            self._told.add(str(error))
            log.error("%s (language %s): install the same version again", error, self.language)


class _Missing(gettext.NullTranslations):
    """Stands behind a catalogue, which would otherwise answer a key that it has not with the key itself."""

    def gettext(self, message: str) -> str:
        raise MissingWordsError(f"no words for {message}")


class _Values:
    """The values of a text, each in the form in which a person reads it."""

    def __init__(self, words: Words, text: Text) -> None:
        self._words, self._text = words, text

    def __getitem__(self, name: str) -> str:
        value = self._text.values.get(name)
        if value is None:
            raise MissingWordsError(f"the words for {self._text.key} need the value {name}")
        form = _FORMS.get(name)
        return form(self._words, value) if form else value


def _slot(words: Words, slot: str) -> str:
    return words.word(f"slot.{slot}")


def _step(words: Words, step: str) -> str:
    return words.word(f"step.{step}.headline")


def _cards(words: Words, cards: str) -> str:
    """`8H TC` as 8♥ 10♣; a point count, or the `-` of a hand without cards, stays as it is."""
    return " ".join([FACES.get(card, card) for card in cards.split(" ")])


def _reason(words: Words, reason: str) -> str:
    """Core's own reasons have words; a person's are that person's."""
    try:
        return words.word(f"reason.{reason}")
    except MissingWordsError:
        return reason


def _part(words: Words, part: str) -> str:
    """A part of a device by the word that is engraved on it, where it has one."""
    try:
        return words.word(f"part.{part}")
    except MissingWordsError:
        return part


def _choices(words: Words, choices: str) -> str:
    """Each choice as it is typed, and what it does."""
    if choices == "-":
        return words.word("choice.none")
    return ", ".join(f"{choice} ({words.word(f'choice.{choice}')})" for choice in choices.split(" "))


_FORMS: dict[str, Callable[[Words, str], str]] = {
    "slot": _slot,
    "step": _step,
    "card": _cards,
    "player": _cards,
    "banker": _cards,
    "reason": _reason,
    "part": _part,
    "choices": _choices,
}


def _join(notices: list[str]) -> str:
    """The strip: the first notice, then each that still fits; the same one once."""
    strip = ""
    for notice in dict.fromkeys(map(_clean, notices)):
        longer = strip + BETWEEN + notice if strip else _fit(notice, STRIP)
        if len(longer) <= STRIP:
            strip = longer
    return strip


def _fit(text: str, width: int) -> str:
    text = _clean(text)
    return text if len(text) <= width else text[: width - 1].rstrip() + CUT


def _clean(text: str) -> str:
    """Composed, on one line, and of characters that every panel has: people and devices write anything."""
    return FOREIGN.sub("?", unicodedata.normalize("NFC", text)).strip()
