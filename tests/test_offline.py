"""What works with the daemon down: card scripts against the oracles, journals and exports, keys, configuration."""

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from controller import keys, offline, wiring
from controller.adapters.journal_sqlite import DATABASE, JournalSqlite
from controller.core.profile import Profile
from controller.offline import FailureError
from tests.profiles import CLASSIC, COMMISSION
from tests.schemas import check as check_schema
from tests.shoes import SHOES, Shoe, expected, told
from tests.table_rig import GENERATION, Rig

# --- card scripts ---------------------------------------------------------------------------------------------


def script_of(shoe: Shoe) -> str:
    return "\n".join("cut" if what == "cut" else code for what, code in shoe.events)


def rounds(script: str, profile: Profile = COMMISSION) -> list[dict[str, Any]]:
    return list(offline.deal(script, profile))


def lines(words: str) -> str:
    return "\n".join(words.split())


@pytest.mark.parametrize("shoe", SHOES, ids=lambda shoe: f"seed{shoe.seed}")
def test_the_shoes_of_the_oracle_give_the_oracles_rounds(shoe: Shoe) -> None:
    dealt = rounds(script_of(shoe))
    assert [told(data) for data in dealt] == [expected(hand) for hand in shoe.hands]
    assert [data["round"] for data in dealt if data["last_round"]] == [shoe.last] == [len(shoe.hands)]
    assert [data["counted"] for data in dealt] == list(range(len(dealt)))


def test_several_shoes_in_one_script_are_numbered() -> None:
    script = "\nshoe\n".join(script_of(shoe) for shoe in SHOES[:3])
    dealt = rounds(script)
    assert [(data["shoe"], data["round"]) for data in dealt] == [
        (number, hand["n"]) for number, shoe in enumerate(SHOES[:3], 1) for hand in shoe.hands
    ]
    assert dealt == rounds("shoe\n" + script)


def test_the_data_is_exactly_the_feeds(tmp_path: Path) -> None:
    """A free-running table's own message of the same cards, and its schema."""

    async def of_a_table() -> list[bytes]:
        async with Rig() as rig:
            await rig.load("AS", "2S")
            await rig.scan("2H TC 3D 5C 4S 6D 8H TC 2D 9C")
            return [m.data for m in rig.journal.messages if m.type == "baccarat.round.completed.v1"]

    messages = asyncio.run(of_a_table())
    dealt = rounds(lines("AS 2S 2H TC 3D 5C 4S 6D 8H TC 2D 9C"))
    assert len(dealt) == len(messages) == 2
    for data, message in zip(dealt, messages, strict=True):
        own = json.dumps(data, separators=(",", ":"))
        assert own.replace("SCRIPT/00000000-00000000", f"BAC-07/{GENERATION}").encode() in message
        check_schema({**json.loads(message), "data": data})


SCRIPTS = [  # words, profile, the rounds' (shoe, round, cards)
    ("", CLASSIC, []),
    ("shoe", CLASSIC, []),
    ("8H TC 2D 9C", CLASSIC, ["1/1 8H 2D TC 9C"]),
    ("shoe 8H TC 2D 9C", CLASSIC, ["1/1 8H 2D TC 9C"]),
    ("8H TC 2D 9C 8H TC 2D 9C", CLASSIC, ["1/1 8H 2D TC 9C", "1/2 8H 2D TC 9C"]),
    ("2H TC void 8H TC 2D 9C", CLASSIC, ["1/2 8H 2D TC 9C"]),
    ("8H TC 2D 9C shoe 8H TC 2D 9C", CLASSIC, ["1/1 8H 2D TC 9C", "2/1 8H 2D TC 9C"]),
    ("cut 8H TC 2D 9C shoe 8H TC 2D 9C", CLASSIC, ["1/1 8H 2D TC 9C", "2/1 8H 2D TC 9C"]),
    ("8H cut TC 2D 9C shoe", CLASSIC, ["1/1 8H 2D TC 9C"]),
    ("8H TC 2D 9C cut 8H TC 2D 9C", CLASSIC, ["1/1 8H 2D TC 9C", "1/2 8H 2D TC 9C"]),
    ("3H skip skip skip 8H TC 2D 9C", COMMISSION, ["1/1 8H 2D TC 9C"]),
    ("3H 9S skip 9S 8H TC 2D 9C", COMMISSION, ["1/1 8H 2D TC 9C"]),
    ("KH " + "skip " * 10 + "8H TC 2D 9C", COMMISSION, ["1/1 8H 2D TC 9C"]),
    ("AS 2S cut 8H TC 2D 9C", COMMISSION, ["1/1 8H 2D TC 9C"]),
    ("AS cut 2S 8H TC 2D 9C", COMMISSION, ["1/1 8H 2D TC 9C"]),
    ("AS shoe AS 2S 8H TC 2D 9C", COMMISSION, ["2/1 8H 2D TC 9C"]),
]


@pytest.mark.parametrize(("words", "profile", "wanted"), SCRIPTS)
def test_a_script_gives_its_rounds(words: str, profile: Profile, wanted: list[str]) -> None:
    def short(data: dict[str, Any]) -> str:
        cards = [*data["player"]["cards"], *data["banker"]["cards"]]
        return f"{data['shoe']}/{data['round']} {' '.join(cards)}"

    assert [short(data) for data in rounds(lines(words), profile)] == wanted


def test_comments_blank_lines_and_line_ends_are_as_people_write_them() -> None:
    plain = rounds(lines("8H TC 2D 9C"), CLASSIC)
    written = "# a round\r\n\r\n  8H   # Player\r\nTC\n\t2D\n\n#9D\n9C#Banker has nine"
    assert rounds(written, CLASSIC) == plain
    assert list(offline.deal(iter(written.splitlines(keepends=True)), CLASSIC)) == plain


EVERY_CARD = " ".join(rank + suit for suit in "SHDC" for rank in "A23456789TJQK")

MISTAKES = [  # words, profile, the line's number, what the error says
    ("8H TC 10D", CLASSIC, 3, "'10D' is no event: write a card (8H), cut, shoe, void or skip"),
    ("8h", CLASSIC, 1, "no event"),
    ("8H CUT", CLASSIC, 2, "no event"),
    ("8H \x00", CLASSIC, 2, "no event"),
    ("8H " + "Q" * 500, CLASSIC, 2, "no event"),
    ("void", CLASSIC, 1, "no round is in progress"),
    ("8H TC 2D 9C void", CLASSIC, 5, "no round is in progress"),
    ("skip", CLASSIC, 1, "skip is a burned card"),
    ("skip", COMMISSION, 1, "skip is a burned card that was not read, behind the one turned up"),
    ("AS 2S skip", COMMISSION, 3, "skip is a burned card"),
    ("8H TC skip", CLASSIC, 3, "skip is a burned card"),
    ("8H TC", CLASSIC, 2, "the script ends inside round 1, whose P2 is missing"),
    ("8H TC 2D 9C 2H TC 3D 7C", CLASSIC, 8, "the script ends inside round 2, whose P3 is missing"),
    ("8H TC shoe", CLASSIC, 3, "a new shoe inside round 1, whose P2 is missing"),
    ("5S 2S 2S", COMMISSION, 3, "the script ends inside the burn of shoe 1"),
    ("5S 2S shoe AS", COMMISSION, 4, "the script ends inside the burn of shoe 2"),
    ("cut cut", CLASSIC, 2, "the cut card of this shoe is out already"),
    ("cut 8H TC 2D 9C 8H", CLASSIC, 6, "the shoe ended with round 1: write `shoe` before 8H"),
    ("8H TC 2D 9C cut 8H TC 2D 9C cut", CLASSIC, 10, "out already"),
    ("8H " * 9, CLASSIC, 9, "8H is one more than 8 decks hold"),
    ("AS 8H TC", COMMISSION, 3, "whose B1 is missing"),
]


@pytest.mark.parametrize(("words", "profile", "line", "says"), MISTAKES)
def test_a_mistake_is_told_with_its_line_and_what_to_do(words: str, profile: Profile, line: int, says: str) -> None:
    script = words if "\x00" in words else lines(words)
    script = script.replace(" ", "\n")
    with pytest.raises(FailureError) as caught:
        rounds(script, profile)
    assert str(caught.value).startswith(f"line {line}: ")
    assert says in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_rounds_before_a_mistake_are_dealt() -> None:
    dealing = offline.deal(lines("8H TC 2D 9C joker"), CLASSIC)
    assert next(dealing)["round"] == 1
    with pytest.raises(FailureError, match="line 5"):
        next(dealing)


def test_a_shoe_that_runs_out_has_its_last_round_voided() -> None:
    """416 cards in one order; the round in progress at the last of them cannot be completed."""
    whole = f"{EVERY_CARD} " * 8
    with pytest.raises(FailureError, match="line 416: the script ends inside round"):
        rounds(lines(whole), CLASSIC)
    with pytest.raises(FailureError, match=r"line 417: all 416 cards of this shoe are out: write `void` and `shoe`"):
        rounds(lines(whole + " 8H"), CLASSIC)
    dealt = rounds(lines(whole + " void shoe 8H TC 2D 9C"), CLASSIC)
    assert (dealt[-1]["shoe"], dealt[-1]["round"]) == (2, 1)


# --- profiles, configuration, keys ----------------------------------------------------------------------------

CONFIG = """
table: {{id: BAC-07}}
profile: {profile}
casino: {{primary: file, file: {{path: {folder}/feed.jsonl}}}}
storage: {{path: {folder}, allow_volatile: true}}
control: {{socket: {folder}/control.sock}}
"""


def config(folder: Path, profile: str = "seeds-classic") -> Path:
    path = folder / "table.yaml"
    path.write_text(CONFIG.format(folder=folder, profile=profile))
    return path


def test_the_profile_is_named_or_the_configurations_or_the_seeds(tmp_path: Path) -> None:
    own = config(tmp_path)
    assert offline.profile_named(None, None).name == "seeds-commission"
    assert offline.profile_named("seeds-no-commission", None).name == "seeds-no-commission"
    assert offline.profile_named(None, own).name == "seeds-classic"
    assert offline.profile_named("seeds-commission", own).name == "seeds-commission"
    path = wiring.shipped_profiles() / "seeds-classic.yaml"
    assert offline.profile_named(str(path), None).name == "seeds-classic"
    with pytest.raises(FailureError, match="did you mean seeds-classic"):
        offline.profile_named("seeds-clasic", None)


def test_a_configuration_tells_where_things_are(tmp_path: Path) -> None:
    path = config(tmp_path)
    assert offline.socket_path(path) == f"{tmp_path}/control.sock"
    assert offline.journal_file(path) == tmp_path / "journal.db"
    assert offline.key_file(path) == tmp_path / "table.key"
    for function in (offline.socket_path, offline.journal_file, offline.key_file):
        with pytest.raises(FailureError, match="cannot be read"):
            function(tmp_path / "absent.yaml")


def test_a_configuration_is_checked_with_every_problem_at_once(tmp_path: Path) -> None:
    path = config(tmp_path)
    told = offline.config_check(path)
    assert (told["ok"], told["problems"]) == (True, [])
    assert [warning["line"] for warning in told["warnings"]] == [5]
    path.write_text(path.read_text().replace("BAC-07", "010").replace("storage", "storrage"))
    told = offline.config_check(path)
    assert (told["ok"], [problem["line"] for problem in told["problems"]], told["warnings"]) == (False, [2, 5], [])
    assert all(set(problem) == {"file", "line", "column", "text"} for problem in told["problems"])
    assert offline.config_schema()["$schema"].startswith("https://json-schema.org/")


def test_who_else_speaks_on_the_scanners_port_is_a_warning_at_its_place(tmp_path: Path) -> None:
    """Bug reports 30 (ModemManager), 31 (login shells); a port that is not on this machine is nobody's."""
    port = tmp_path / "ttyAMA0"
    port.touch()
    units = (f"serial-getty@{port}.service", "ModemManager.service")
    answers = {
        "systemctl": "\n".join(f"{unit} loaded active running x" for unit in units),
        "udevadm": "ID_BUS=usb",
    }
    path = config(tmp_path)
    text = path.read_text().replace("allow_volatile: true", "allow_volatile: false")
    path.write_text(f"{text}scanner: {{driver: serial, port: {port}}}\n")
    told = offline.config_check(path, ask=lambda command: answers[command[0]])
    assert told["ok"]
    login, modem = (warning["text"] for warning in sorted(told["warnings"], key=lambda each: "Modem" in each["text"]))
    assert login.startswith(f"serial-getty@{port}.service reads {port}, which is the scanner's port")
    assert login.endswith(f"run: sudo systemctl mask --now serial-getty@{port}.service")
    assert modem.startswith("ModemManager runs and may type AT commands at the scanner")
    assert {(warning["line"], warning["column"]) for warning in told["warnings"]} == {(7, 33)}
    port.unlink()
    assert offline.config_check(path, ask=lambda command: answers[command[0]])["warnings"] == []


# --- the configuration is shown and changed ---------------------------------------------------------------------


def test_the_configuration_is_shown_with_its_defaults(tmp_path: Path) -> None:
    path = config(tmp_path)
    text, values = offline.config_show(path)
    assert values["procedure"]["betting_seconds"] == 15
    shown = tmp_path / "shown.yaml"
    shown.write_text(text)
    assert offline.config_show(shown) == (text, values)
    with pytest.raises(FailureError, match="cannot be read"):
        offline.config_show(tmp_path / "absent.yaml")


def test_a_key_is_set_in_place(tmp_path: Path) -> None:
    """The file keeps its owner, mode and comments, a link stays a link, and nothing lies beside it afterwards."""
    path, link = config(tmp_path), tmp_path / "link.yaml"
    path.write_text(path.read_text() + "# the end\n")
    path.chmod(0o640)
    link.symlink_to(path)
    os.chown(path, -1, max(os.getgroups(), default=os.getgid()))
    there = path.stat()
    told = offline.config_set(link, "procedure.betting_seconds", "20")
    assert (told["ok"], told["changed"], told["before"], told["problems"]) == (True, True, None, [])
    assert [warning["file"] for warning in told["warnings"]] == [str(link)]
    assert link.is_symlink()
    now = path.stat()
    assert (now.st_mode, now.st_uid, now.st_gid) == (there.st_mode, there.st_uid, there.st_gid)
    assert "# the end" in path.read_text()
    assert offline.config_show(path)[1]["procedure"]["betting_seconds"] == 20
    assert offline.config_set(path, "procedure.betting_seconds", "25")["before"] == 20
    before = path.stat().st_ino
    again = offline.config_set(path, "procedure.betting_seconds", "25")
    assert (again["ok"], again["changed"], path.stat().st_ino) == (True, False, before)
    assert {each.name for each in tmp_path.iterdir()} == {"table.yaml", "link.yaml"}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("procedure.betting_seconds", "0", ["betting_seconds must be at least 1"]),
        ("procedure.beting_seconds", "9", ["unknown key 'beting_seconds': did you mean 'betting_seconds'?"]),
        ("casino.primary", "mqtt", ["primary is mqtt, which is not set up"]),
        ("lamps", "{driver: gpio}", ["lamps with gpio needs red", "lamps with gpio needs timer"]),
        ("table.id", "010", ["010: readers differ on this number"]),
        ("profile", "house", ["no such profile"]),
    ],
)
def test_a_file_that_would_not_be_good_is_not_written(tmp_path: Path, key: str, value: str, said: list[str]) -> None:
    path = config(tmp_path)
    before = path.read_bytes()
    told = offline.config_set(path, key, value)
    assert (told["ok"], told["changed"], path.read_bytes()) == (False, False, before)
    assert [each["text"][: len(text)] for each, text in zip(told["problems"], said, strict=True)] == said
    assert not any(".table-" in each["file"] or each["line"] > len(before.splitlines()) for each in told["problems"])
    assert [each.name for each in tmp_path.iterdir()] == ["table.yaml"]


def test_an_edit_that_comes_between_is_not_lost(tmp_path: Path) -> None:
    port, path = tmp_path / "port", config(tmp_path)
    port.touch()
    path.write_text(path.read_text() + f"scanner: {{driver: serial, port: {port}}}\n")

    def meanwhile(command: Sequence[str]) -> str:
        path.write_text(path.read_text().replace("BAC-07", "BAC-08"))
        return ""

    with pytest.raises(FailureError, match="changed by somebody else meanwhile: try again"):
        offline.config_set(path, "table.language", "en", ask=meanwhile)
    assert offline.config_show(path)[1]["table"] == {"id": "BAC-08", "language": "es"}


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Its name leaves no room for that of a draft: as good as a folder that is not ours."""
    path = tmp_path / f"{'t' * 250}.yaml"
    path.write_text(CONFIG.format(folder=tmp_path, profile="seeds-classic"))
    with pytest.raises(FailureError, match="cannot be changed: File name too long: run it as the file's owner"):
        offline.config_set(path, "table.language", "en")
    assert offline.config_set(tmp_path / "absent.yaml", "table.language", "en")["ok"] is False


def test_keys_are_made_once_and_shown_without_their_secret(tmp_path: Path) -> None:
    path = tmp_path / "table.key"
    made = offline.keys_new(path)
    assert made == offline.keys_show(path)
    assert made == {"file": str(path), "keyid": keys.keyid(made["public_key"]), "public_key": made["public_key"]}
    with pytest.raises(FailureError, match="never replaced"):
        offline.keys_new(path)
    with pytest.raises(FailureError, match="no key file"):
        offline.keys_show(tmp_path / "absent")


# --- the journal ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a journal of one shoe and its export."""
    folder = tmp_path_factory.mktemp("kept")

    async def table() -> None:
        journal = JournalSqlite(folder, allow_volatile=True, reserve_bytes=0)
        journal.open()
        try:
            async with Rig(journal=journal) as rig:
                await rig.load()
                await rig.scan("2H TC 3D 5C 4S 6D 8H TC 2D 9C")
                sent = journal.read(0, 1000)
        finally:
            journal.close()
        (folder / "feed.jsonl").write_bytes(b"".join(message.data + b"\n" for message in sent))

    asyncio.run(table())
    return folder


@pytest.fixture
def journal(kept: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy that may be harmed."""
    for path in kept.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path / DATABASE


def test_a_whole_journal_and_its_export_are_good(kept: Path) -> None:
    told_ = offline.journal_verify(kept / DATABASE)
    assert (told_["ok"], told_["fault"]) == (True, None)
    assert told_["rows"] > 10
    export = offline.journal_verify(kept / "feed.jsonl")
    assert export == {"ok": True, "rows": None, "messages": told_["messages"], "fault": None}
    public = json.loads((kept / "feed.jsonl").read_bytes().splitlines()[0])["data"]["publickey"]
    assert offline.journal_verify(kept / DATABASE, public)["ok"]
    assert not offline.journal_verify(kept / DATABASE, keys.ephemeral().public)["ok"]
    assert not offline.journal_verify(kept / "feed.jsonl", keys.ephemeral().public)["ok"]


def test_recall_reads_the_journal(kept: Path) -> None:
    told_ = offline.journal_rounds(kept / DATABASE, 10)
    assert [(one["shoe"], one["round"], one["outcome"]) for one in told_] == [(1, 1, "player"), (1, 2, "banker")]
    assert [one["round"] for one in offline.journal_rounds(kept / DATABASE, 1)] == [2]


def sql(text: str) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for trigger in ("row_update", "row_delete", "message_update", "message_delete"):
                connection.execute(f"DROP TRIGGER {trigger}")
            assert connection.execute(text).rowcount > 0
            connection.commit()

    return harm


HARM = [
    ("UPDATE message SET data = CAST(replace(data, '9C', '9D') AS BLOB) WHERE type LIKE '%completed%'", "message"),
    ("UPDATE message SET hash = 'x' WHERE seqno = 3", "message 3 does not match its hash"),
    ("DELETE FROM message WHERE seqno = 5", "5"),
    ("UPDATE row SET body = CAST(body || ' ' AS BLOB) WHERE id = 4", "row 4 does not match its hash"),
    ("DELETE FROM row WHERE id = 4", "row 4"),
]


@pytest.mark.parametrize(("statement", "fault"), HARM)
def test_what_was_changed_afterwards_is_named(journal: Path, statement: str, fault: str) -> None:
    sql(statement)(journal)
    told_ = offline.journal_verify(journal)
    assert not told_["ok"]
    assert fault in told_["fault"]


def test_what_is_no_journal_is_told(tmp_path: Path) -> None:
    with pytest.raises(FailureError, match="cannot be read"):
        offline.journal_verify(tmp_path / "absent")
    with pytest.raises(FailureError, match="cannot be read"):
        offline.journal_verify(tmp_path)
    (tmp_path / "other.db").write_bytes(b"")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE x (y)")
        connection.commit()
    with pytest.raises(FailureError, match="no journal"):
        offline.journal_verify(tmp_path / "other.db")
    (tmp_path / "huge").write_bytes(b"x" * (3 * offline.LINE_BYTES_MAX))
    assert "line 1" in offline.journal_verify(tmp_path / "huge")["fault"]
    with pytest.raises(FailureError, match="no file"):
        offline.journal_rounds(tmp_path / "absent", 1)
