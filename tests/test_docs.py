"""The guides say what is: every panel, command, code, key, message and link in them exists, and none is left out.

What is between backquotes is taken at its word. What `tablectl` prints is played again in cli/test_transcripts.py.
"""

import ast
import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from babel.messages.pofile import read_po
from pydantic import BaseModel

from controller import daemon
from controller.adapters.panel_terminal import SCREENS
from controller.adapters.publisher_mqtt import Broker
from controller.cli import tablectl
from controller.config.models import Config
from controller.control import casino
from controller.core.cards import DECK
from controller.core.conditions import ROWS
from controller.core.facts import PUBLIC, Who
from controller.panel import LOCALE, SUITS
from tests import schemas
from tests.pages import ROOT, Page, page, spans_of
from tests.table_rig import GENERATION, Rig
from tests.test_consumers import recorded, resigned, respelt

OPERATOR = {"es": page("docs/operator.md"), "en": page("docs/operator.en.md")}
TECHNICIAN, INTEGRATOR = page("docs/technician.md"), page("docs/integrator.md")
DEVICES = [page(f"docs/devices/{path.name}") for path in sorted((ROOT / "docs/devices").glob("*.md"))]
SERIAL = page("docs/serial-link.md")
PAGES = [
    *OPERATOR.values(),
    TECHNICIAN,
    INTEGRATOR,
    SERIAL,
    *map(page, ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/schemas/README.md")),
    *DEVICES,
]

every_page = pytest.mark.parametrize("page_", PAGES, ids=[page.name for page in PAGES])


# --- links ----------------------------------------------------------------------------------------------------


def broken(page_: Page) -> list[str]:
    """Links to files that are not there, or to headings that no page has."""
    found = []
    for link in page_.links:
        target, _, anchor = link.partition("#")
        path = (page_.path.parent / target).resolve()
        there = not target or path.exists()
        anchors = (
            page_.anchors if not target else Page(path, path.read_text(encoding="utf-8")).anchors if anchor else ()
        )
        if not there or (anchor and anchor not in anchors):
            found.append(link)
    return found


@every_page
def test_every_link_leads_somewhere(page_: Page) -> None:
    assert broken(page_) == []


def test_a_broken_link_is_found() -> None:
    page_ = Page(
        ROOT / "x.md", "# A title: one\n[a](README.md) [b](no.md) [c](#a-title-one) [d](#two) [e](README.md#x)"
    )
    assert broken(page_) == ["no.md", "#two", "README.md#x"]


# --- commands -------------------------------------------------------------------------------------------------


def commands(page_: Page) -> Iterator[str]:
    """What a reader may type: spans, and the lines of blocks; what a shell puts around it is taken off."""
    lines = [line for block in page_.blocks if block.language == "sh" for line in block.text.splitlines()]
    typed = [line[2:] for block in page_.blocks for line in block.text.splitlines() if line.startswith("$ ")]
    for line in (*page_.spans, *lines, *typed):
        command = re.sub(r"^sudo (-u \S+ )?", "", line).split(" < ")[0]
        if re.match(r"(tablectl|tabled|make) ", command):
            yield command


STAND_IN = {"FILE": "-", "night.txt": "-"}  # a file to be read is opened with the usage: this one is always there


def wrong(command: str) -> str:
    """Why a program would not take this; empty where it does. Nothing is run."""
    program, *words = [part.strip("'") for part in re.findall(r"(?:[^\s']|'[^']*')+", command)]
    if program == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        options = [word.removeprefix("ARGS='").split() for word in words[1:] if word.startswith("ARGS=")]
        if words[0] not in targets:
            return f"make has no {words[0]}"
        return "".join(wrong(f"tabled --demo {' '.join(each)}") for each in options)
    try:
        if program == "tabled":
            daemon._parser().parse_args(words)
        else:
            _parse_tablectl([STAND_IN.get(word, word) for word in words])
    except SystemExit:
        return f"tabled does not take {words}"
    except typer.Abort as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - typer's own classes of usage errors are private; each is a no
        return f"{type(error).__name__}: {error}"
    return ""


def _parse_tablectl(words: list[str]) -> None:
    command: Any = typer.main.get_command(tablectl.app)
    context = command.make_context("tablectl", words)
    while hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]  # what the group leaves to its command
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


@every_page
def test_every_command_is_one(page_: Page) -> None:
    assert {command: why for command in commands(page_) if (why := wrong(command))} == {}


@pytest.mark.parametrize(
    ("command", "good"),
    [
        ("tablectl status --json", True),
        ("tablectl round resolve I07 burn --by D12,J3", True),
        ("tablectl deal night.txt", True),
        ("tablectl round resolve I07", False),
        ("tablectl round pause", False),
        ("tablectl status --quick", False),
        ("tablectl shoe left many", False),
        ("tablectl round void --by D12,J3", False),  # without a reason
        ("tabled --training --keys", True),
        ("tabled --no-such", False),
        ("make demo ARGS='--lang en --keys'", True),
        ("make demo ARGS='--lang fr'", False),
        ("make coffee", False),
    ],
)
def test_what_is_a_command(command: str, *, good: bool) -> None:
    assert (wrong(command) == "") == good


def test_the_technician_reads_of_every_verb() -> None:
    verbs: set[str] = set()
    for name, command in typer.main.get_command(tablectl.app).commands.items():  # type: ignore[attr-defined]
        verbs |= {f"{name} {verb}" for verb in getattr(command, "commands", {})} or {name}
    text = TECHNICIAN.text.replace("**`", "tablectl ")
    assert [verb for verb in sorted(verbs) if f"tablectl {verb}" not in text] == []


# --- configuration --------------------------------------------------------------------------------------------


def model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for arg in get_args(annotation) if (model := model_in(arg))), None)


def keys(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[tuple[str, bool]]:
    """Every key of table.yaml, and whether it is a group of others."""
    for name, field in model.model_fields.items():
        inner = model_in(field.annotation)
        yield prefix + name, inner is not None
        if inner is not None:
            yield from keys(inner, f"{prefix}{name}.")


KEYS = dict(keys())
FILES = {"table.yaml", "table.key"}
MESSAGES = set(PUBLIC.values())
CHECKS = set(re.findall(r'"([a-z_]+\.[a-z_.]+)"', (ROOT / "controller" / "doctor.py").read_text()))  # its rows


def named_keys(page_: Page) -> set[str]:
    found = {span.split(": ")[0] for span in page_.spans if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+(: \S+)?", span)}
    return {
        name for name in found - FILES - MESSAGES - (CHECKS - set(KEYS)) if name.split(".")[0] in Config.model_fields
    }


@every_page
def test_every_configuration_key_is_one(page_: Page) -> None:
    assert named_keys(page_) - set(KEYS) == set()


def test_the_technician_reads_of_every_key_in_use() -> None:
    unused = ("shoe.port", "shoe.baud")  # no part for them yet
    listed = set().union(*map(named_keys, (TECHNICIAN, *DEVICES))) | {"profile"}
    leaves = {name for name, group in KEYS.items() if not group and not name.startswith(unused)}
    below = {"scanner.codes.table", "casino.command_keys.keyid", "casino.command_keys.publickey"}
    assert leaves - below - listed == set()
    assert "driver: none" in TECHNICIAN.text


KINDS = ("edges", "order", "passages", "cutcard", "session")


def test_the_technician_reads_what_each_count_of_the_shoe_means() -> None:
    """The kinds are whatever these count: each stands in the page's table, and no other does."""
    link = ROOT / "controller" / "link"
    sources = [(link / f"{name}.py").read_text(encoding="utf-8") for name in KINDS]
    counted = {kind for text in sources for kind in re.findall(r'counts\["(\w+)"\]', text)} | {"card", "two"}
    table = TECHNICIAN.text.partition("what `moved` counts |\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) == counted


# --- panels ---------------------------------------------------------------------------------------------------

LANGUAGES = ("es", "en")

FACES = "|".join(("10" if card[0] == "T" else card[0]) + SUITS[card[1]] for card in DECK)
VALUES = {
    "card": rf"({FACES})",
    "player": rf"(\d|-|({FACES})( ({FACES}))*)",
    "banker": rf"(\d|-|({FACES})( ({FACES}))*)",
    "table": "BAC-07",
    "reason": r"\S+",
    "key": r"\S+",
    "least": r"[\d,.]+",
    "most": r"[\d,.]+",
}


@cache
def catalogue(language: str) -> dict[str, re.Pattern[str]]:
    """The words of each key as what they may become: every slot, any card, any number."""
    with (LOCALE / language / "LC_MESSAGES" / "panel.po").open("rb") as file:
        words = {str(entry.id): str(entry.string) for entry in read_po(file) if entry.id}
    slots = "|".join(re.escape(text) for key, text in words.items() if key.startswith("slot."))

    parts = "|".join(["[a-z_]+", *(re.escape(text) for key, text in words.items() if key.startswith("part."))])

    def value(name: re.Match[str]) -> str:
        if name[1] in ("slot", "part"):
            return f"({slots if name[1] == 'slot' else parts})"
        return VALUES.get(name[1], r"\d+")

    return {key: re.compile(re.sub(r"\\{(\w+)\\}", value, re.escape(text))) for key, text in words.items()}


@cache
def prompts(language: str) -> dict[str, re.Pattern[str]]:
    """Each prompt as the guides write it: headline / line / line, blank lines left out."""
    words = catalogue(language)
    found = {}
    for stem in [key.removesuffix(".headline") for key in words if key.endswith(".headline")]:
        parts = [words[key].pattern for part in ("headline", "line1", "line2") if (key := f"{stem}.{part}") in words]
        found[stem] = re.compile(" / ".join(part for part in parts if part.strip("\\ ")))
    return found


def kinds(language: str, span: str) -> set[str]:
    """The keys of the catalogue that can become this: prompts for what has a slash, else single texts."""
    table = prompts(language) if " / " in span else catalogue(language)
    return {key for key, pattern in table.items() if pattern.fullmatch(span)}


CHOICES = {choice for row in ROWS.values() for choice in row.exits}
OTHER: tuple[Callable[[str], object], ...] = (  # what is no panel and may stand in the guides of the table all the same
    lambda span: span in ROWS or span in CHOICES,
    lambda span: span in ("D12", "J3", "--by", "--by D12,J3"),  # the staff of the examples
    lambda span: re.match(r"(tablectl|make) ", span),
    lambda span: span in KEYS,
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_panel_in_the_guide_can_be_shown(language: str) -> None:
    spans = OPERATOR[language].spans
    assert [span for span in spans if not kinds(language, span) and not any(is_(span) for is_ in OTHER)] == []


@pytest.mark.parametrize("page_", DEVICES, ids=[page.name for page in DEVICES])
def test_every_notice_on_a_devices_page_can_be_shown(page_: Page) -> None:
    notices = [span for span in page_.spans if re.fullmatch(r"[A-Z]+:?( [A-Z]+)+", span)]
    assert [span for span in notices if not kinds("en", span)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_panel_is_in_the_guide(language: str) -> None:
    shown = set().union(*(kinds(language, span) for span in OPERATOR[language].spans))
    strips = {key for key in catalogue(language) if key.startswith(("strip.", "missing.strip"))}
    assert set(prompts(language)) - shown == set()
    assert strips - shown == set()


@pytest.mark.parametrize(
    ("span", "key"),
    [
        ("JUGADOR 1ª / SAQUE CARTA", "draw"),
        ("SOBRA UN 10♣ / NO LA MUEVA / LLAME AL JEFE", "I05"),
        ("¿COINCIDE? / J 8♥ 3♠ / B -", "I35"),
        ("ZAPATO VACÍO / LLAME AL JEFE", "I23"),
        ("JUGADOR 4ª / SAQUE CARTA", ""),
        ("SOBRA UN 11♣ / NO LA MUEVA / LLAME AL JEFE", ""),
        ("NO LEÍDA / PASE BANCA 2ª", ""),
        ("RETIRE / LA CARTA DE CORTE / a su derecha", ""),
    ],
)
def test_what_is_a_panel(span: str, key: str) -> None:
    assert (key in kinds("es", span)) if key else kinds("es", span) == set()


# --- what may stand over a round ------------------------------------------------------------------------------


@cache
def cases(language: str) -> dict[str, Page]:
    """The section of each code: its title begins with it."""
    sections = OPERATOR[language].sections(3)
    return {title.split(" · ")[0]: section for title, section in sections.items() if " · " in title}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_guide_has_every_condition_and_no_other(language: str) -> None:
    assert list(cases(language)) == list(ROWS)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", ROWS)
def test_a_section_shows_its_panel_and_every_way_out(language: str, code: str) -> None:
    section, exits = cases(language)[code], ROWS[code].exits
    shown = {key for span in section.spans for key in kinds(language, span)}
    assert ROWS[code].quiet or any(re.match(rf"(strip\.)?{code}(\.|$)", key) for key in shown)
    resolves = dict(re.findall(rf"`tablectl round resolve {code} (\w+) .*?--by (\S+)`", section.text))
    cures = {"rescan"} if ROWS[code].scan_cures else set()  # the scan itself, no command
    assert set(resolves) | cures == set(exits)
    assert {choice: len(by.split(",")) for choice, by in resolves.items()} == {
        choice: 2 if exits[choice] is Who.PIT else 1 for choice in resolves
    }
    hands, ends = {"es": ("**Manos:**", "**Termina"), "en": ("**Hands:**", "**Ends")}[language]
    assert hands in section.text
    assert ends in section.text


def test_both_languages_say_the_same() -> None:
    spanish, english = ([span for span in OPERATOR[each].spans if " / " not in span] for each in LANGUAGES)
    typed = [[span for span in spans if span.startswith("tablectl ")] for spans in (spanish, english)]
    assert [span.replace("derrame", "spill") for span in typed[0]] == typed[1]


# --- what the program says when something fails ----------------------------------------------------------------


@cache
def sentences() -> tuple[str, ...]:
    """Every text in the program, with … for each value in it."""
    found = set()
    for path in sorted((ROOT / "controller").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(re.sub(r"%[sdgr]", "…", node.value))
            elif isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                found.add("".join(map(str, parts)))
    return tuple(found)


def is_said(message: str) -> bool:
    pattern = re.compile(".*".join(map(re.escape, message.split("…"))), re.DOTALL)
    return any(pattern.fullmatch(sentence) for sentence in sentences())


def test_every_message_in_the_technicians_guide_is_said() -> None:
    rows = list(TECHNICIAN.sections(2)["Messages and what to do"].rows())
    messages = [span for row in rows for span in spans_of(row[0])]
    assert len(messages) > 50
    assert [message for message in messages if not is_said(message)] == []


def test_a_message_that_nobody_says_is_found() -> None:
    assert is_said("table … is up, generation …")
    assert not is_said("table … is down, generation …")


# --- the feed -------------------------------------------------------------------------------------------------


def test_the_integrator_reads_of_every_message_and_no_other() -> None:
    rows = list(INTEGRATOR.sections(2)["The messages"].rows())
    named = [spans_of(row[0])[0] for row in rows]
    assert sorted(named) == sorted(MESSAGES)
    assert [row[0] for row in rows] == [f"[`{name}`](schemas/baccarat.{name}.v1.json)" for name in named]


def test_the_integrator_reads_of_every_topic() -> None:
    named = [spans_of(row[0])[0] for row in INTEGRATOR.sections(2)["Topics"].rows()]
    broker = Broker("localhost", 1883, "BAC-07", "machine")
    topics = [broker.topic(leaf) for leaf in ("feed", "state", "status", "ack", "commands", "replies/…")]
    assert named == [*topics, "casino.mqtt.server_status"]


def test_the_integrator_reads_of_every_command() -> None:
    section = INTEGRATOR.sections(2)["Commands"]
    named = [word for row in section.rows() for word in spans_of(row[0])]
    assert [word for word in named if word in casino.METHODS] == list(casino.METHODS)
    assert set(casino.REFUSALS) <= set(section.spans)


def test_the_integrators_example_is_a_message() -> None:
    example = next(block.text for block in INTEGRATOR.blocks if block.language == "json")
    schemas.validate(example.strip().encode())


VERIFY = INTEGRATOR.sections(2)["Verify"]


async def _feed() -> tuple[str, list[bytes]]:
    """A table's public key and its first messages."""
    async with Rig() as rig:
        await rig.load()
        await rig.scan("2H TC 3D 5C 4S 6D 8H TC 2D 9C")
        return rig.key.public, [message.data for message in rig.journal.messages]


def _changed(lines: list[bytes], at: int, old: bytes, new: bytes) -> list[bytes]:
    assert old in lines[at]
    return [*lines[:at], lines[at].replace(old, new), *lines[at + 1 :]]


FEEDS: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "whole": (lambda lines: lines, ""),
    "repeats": (lambda lines: [*lines[:6], *lines[3:]], ""),
    "a span": (lambda lines: [*lines[4:], *lines[6:]], ""),
    "a card changed": (lambda lines: _changed(lines, 8, b'"TC"', b'"9C"'), "line 9: not what the table signed"),
    "one dropped": (lambda lines: [*lines[:5], *lines[6:]], "message 6 is missing"),
    "two exchanged": (lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]], "message 6 is missing"),
    "what is before the span": (lambda lines: [*lines[4:], lines[3]], "is missing"),
    "a signature spelt otherwise": (lambda lines: [*lines[:-1], respelt(lines[-1])], "no signature"),
    "no base64": (lambda lines: [*lines[:5], lines[5][:-9] + b"=" + lines[5][-8:]], "line 6: no signature"),
    "no signature": (lambda lines: [*lines[:5], lines[5][:-103] + b"}"], "no signature"),
}


@pytest.mark.parametrize(("change", "said"), FEEDS.values(), ids=FEEDS)
def test_the_integrators_program_verifies_a_feed(
    change: Callable[[list[bytes]], list[bytes]], said: str, tmp_path: Path
) -> None:
    (program,) = [block.text for block in VERIFY.blocks if block.language == "python"]
    (tmp_path / "verify.py").write_text(program, encoding="utf-8")
    public_key, messages = asyncio.run(_feed())
    feed = b"".join(line + b"\n" for line in change(messages))
    command = [sys.executable, str(tmp_path / "verify.py"), public_key]
    ran = subprocess.run(command, input=feed, capture_output=True, timeout=60, check=False)
    assert (ran.returncode == 0) == (said == "")
    assert said.encode() in ran.stderr
    first = messages.index(feed.split(b"\n")[0]) + 1
    assert ran.returncode or ran.stdout == f"{GENERATION}: messages {first} to {len(messages)}\n".encode()


def test_the_integrators_program_follows_the_chain() -> None:
    """What the table's own key signed may still be another night's."""
    (program,) = [block.text for block in VERIFY.blocks if block.language == "python"]
    key, lines = recorded()[0], [*recorded()[1]]
    lines[8] = resigned(lines[8], b'"prevhash":"', b'"prevhash":"0', key)
    feed, command = b"".join(line + b"\n" for line in lines), [sys.executable, "-c", program, key.public]
    ran = subprocess.run(command, input=feed, capture_output=True, timeout=60, check=False)
    assert b"line 9: it does not follow the one before" in ran.stderr


def test_the_integrators_program_knows_whose_key_it_is(tmp_path: Path) -> None:
    (program,) = [block.text for block in VERIFY.blocks if block.language == "python"]
    (_, messages), (stranger, _) = asyncio.run(_feed()), asyncio.run(_feed())
    command = [sys.executable, "-c", program, stranger]
    ran = subprocess.run(command, input=messages[0] + b"\n", capture_output=True, timeout=60, check=False)
    assert b"line 1: not what the table signed" in ran.stderr


SIGNED: dict[str, tuple[Callable[[bytes], bytes], bool, bool]] = {  # whether it is signed, and so to the last byte
    "as it came": (lambda message: message, True, True),
    "changed": (lambda message: message.replace(b'"live"', b'"demo"'), False, True),
    "a signature spelt otherwise": (respelt, True, False),
    "another end": (lambda message: message[:-2] + b'"]', True, False),
}


@pytest.mark.parametrize(("change", "signed", "whole"), SIGNED.values(), ids=SIGNED)
def test_the_integrators_recipe_verifies_a_message_with_openssl(
    change: Callable[[bytes], bytes], signed: bool, whole: bool, tmp_path: Path
) -> None:
    (recipe,) = [block.text for block in VERIFY.blocks if block.language == "sh"]
    public_key, messages = asyncio.run(_feed())
    (tmp_path / "message.json").write_bytes(change(messages[7]))
    environ = os.environ | {"KEY": public_key}
    ran = subprocess.run(
        ["sh", "-c", recipe], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert ("Signature Verified Successfully" in ran.stdout) == signed, ran
    assert ("differ" not in ran.stdout) == whole, ran
    digest = json.loads(messages[8])["prevhash"]
    assert (digest in ran.stdout) == (signed and whole)


# --- the map --------------------------------------------------------------------------------------------------


def test_the_map_has_every_module_and_no_other() -> None:
    rows = list(page("ARCHITECTURE.md").sections(2)["Map"].rows())
    here = ROOT / "controller"
    apart = ("__init__", "__main__", "sdnotify")  # they have nothing to find in them
    for row in rows[:2]:
        named = {word for span in spans_of(row[2]) for word in span.split()}
        folder = here / spans_of(row[0])[0]
        assert named == {path.stem for path in folder.glob("*.py")} - set(apart), folder.name
    named = {span.rstrip("/") for row in rows for span in spans_of(row[0])}
    folders = {path.name for path in here.iterdir() if (path / "__init__.py").exists()}
    assert named == folders | {path.name for path in here.glob("*.py") if path.stem not in apart}


# --- the picture ----------------------------------------------------------------------------------------------


def test_the_readme_has_the_sizes_that_show_the_panels_pixels() -> None:
    text = page("README.md").text
    assert [size for screen in SCREENS if (size := f"{screen.columns}×{screen.lines}") not in text] == []


def test_the_picture_of_the_demo_is_true() -> None:
    readme = page("README.md")
    command = re.search(r"`make demo ARGS='(--lang en .*?)'` ends like this", readme.text)
    assert command is not None
    (picture,) = [block.text for block in readme.blocks if block.language == "text"]
    results = re.findall(r"^ +\d+  \S.*$", picture, re.MULTILINE)
    played = [sys.executable, "-m", "controller", "--demo", *command[1].split(), "--speed", "200"]
    ran = subprocess.run(
        played, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True, stdin=subprocess.DEVNULL
    )
    assert len(results) == 4
    assert [line for line in ran.stdout.splitlines() if re.match(r" +\d+  \S", line)] == results
