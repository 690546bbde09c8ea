"""`tablectl`: ask the table, act on it as its buttons do, and look at what is on disk when it is down.

Prints and exits; knows no rule. Each command imports what it needs, so that `tablectl status` starts at once.
Exit codes: 0 done, 1 the answer is no, 2 usage, 3 the daemon is not there, 4 refused.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from controller.control import client
from controller.control.client import Client, RpcError, UnreachableError

from . import head, show

DEFAULT_CONFIG = Path("/etc/baccarat-table/table.yaml")
DEFAULT_SOCKET = "/run/baccarat-table/control.sock"
NO, USAGE, ABSENT, REFUSED = 1, 2, 3, 4


class Options(NamedTuple):
    """What stands before the command."""

    config: Path | None
    socket: str | None


def _program(help_: str) -> typer.Typer:
    return typer.Typer(
        help=help_,
        epilog="Exit codes: 0 done, 1 the answer is no, 2 usage, 3 the daemon is not there, 4 refused.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


app = _program("Ask a baccarat table, and act on it as its buttons do.")
round_app = _program("What the buttons do to the round.")
shoe_app = _program("Shoe work.")
journal_app = _program("The journal: the table's unalterable record.")
config_app = _program("The configuration file.")
keys_app = _program("The table's key pair.")
casino_app = _program("The casino's end of the table's messages.")
head_app = _program("The shoe's sensor head.")
for _name, _sub in {
    "round": round_app,
    "shoe": shoe_app,
    "journal": journal_app,
    "config": config_app,
    "keys": keys_app,
    "casino": casino_app,
    "head": head_app,
}.items():
    app.add_typer(_sub, name=_name)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
By = Annotated[str, typer.Option("--by", metavar="STAFF[,STAFF]", help="Who acts: the dealer, and the pit boss.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")]
KeyFile = Annotated[Path | None, typer.Option("--file", help="The key file (of the table of --config).")]


def main(arguments: list[str] | None = None) -> NoReturn:
    """The program; it ends in SystemExit with its exit code."""
    for stream in (sys.stdout, sys.stderr):  # a pipe under LC_ALL=C can still not stop a suit from being printed
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app(args=arguments, prog_name="tablectl")
    raise AssertionError("a program of typer's ends in SystemExit")


@app.callback()
def _options(
    context: typer.Context,
    *,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help=f"The configuration ({DEFAULT_CONFIG}).")
    ] = None,
    socket: Annotated[
        str | None,
        typer.Option("--socket", metavar="PATH", envvar="BACCARAT_SOCKET", help="The table's control socket."),
    ] = None,
) -> None:
    context.obj = Options(config, socket)


# --- the two doors --------------------------------------------------------------------------------------------


@contextmanager
def _table(context: typer.Context) -> Iterator[Client]:
    """The running table; that it is not there becomes an exit code here."""
    try:
        with _connected(context) as table:
            yield table
    except UnreachableError as error:
        _stop(ABSENT, str(error))


@contextmanager
def _connected(context: typer.Context) -> Iterator[Client]:
    """The running table, whose refusals become exit codes; UnreachableError where there is none."""
    try:
        with client.connect(_socket(context.obj)) as table:
            yield table
    except RpcError as error:
        if error.code == client.REFUSED and context.params.get("as_json"):
            _print_json({"refused": error.data})
        _stop({client.REFUSED: REFUSED, client.INVALID_PARAMS: USAGE}.get(error.code, NO), str(error))


def _socket(options: Options) -> str:
    """By --socket or its variable; else by --config; else where a table listens that was told nothing else.

    The default configuration is read only if nobody listens there: that takes longer than all the rest.
    """
    if options.socket is not None:
        return options.socket
    if options.config is None:
        try:
            with client.connect(DEFAULT_SOCKET):
                return DEFAULT_SOCKET
        except UnreachableError:
            if not DEFAULT_CONFIG.exists():
                raise
    with _offline() as offline:
        path: str = offline.socket_path(_config(options))
        return path


def _asked_or_read(
    context: typer.Context, ask: Callable[[Client], Any], read: Callable[[ModuleType, Path], Any]
) -> Any:  # noqa: ANN401 - what JSON holds
    """The running table's answer; with the daemon down, what the journal of the configuration says."""
    options: Options = context.obj
    try:
        with _connected(context) as table:
            return ask(table)
    except UnreachableError as error:
        if not _knows_its_configuration(options):
            _stop(ABSENT, str(error))
    with _offline() as offline:
        path = offline.journal_file(_config(options))
        print(f"tablectl: the daemon is not there: this is from {path}", file=sys.stderr)
        return read(offline, path)


def _knows_its_configuration(options: Options) -> bool:
    return options.config is not None or (options.socket is None and DEFAULT_CONFIG.exists())


@contextmanager
def _offline() -> Iterator[ModuleType]:
    """What works with the daemon down."""
    from controller import offline

    try:
        yield offline
    except offline.RefusalError as error:
        _stop(REFUSED, str(error))
    except offline.FailureError as error:
        _stop(NO, str(error))


def _config(options: Options) -> Path:
    return options.config or DEFAULT_CONFIG


def _stop(code: int, text: str) -> NoReturn:
    print(f"tablectl: {text}", file=sys.stderr)
    raise typer.Exit(code)


def _print_json(value: object) -> None:
    print(json.dumps(value, separators=(",", ":")), flush=True)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def _tell(told: object, lines: Iterable[str], *, as_json: bool) -> None:
    """As JSON for programs, or in lines for people."""
    if as_json:
        _print_json(told)
    else:
        _print(lines)


# --- look -----------------------------------------------------------------------------------------------------


@app.command()
def status(context: typer.Context, *, as_json: AsJson = False) -> None:
    """What the table is doing now."""
    with _table(context) as table:
        told = table.call("status")
    _tell(told, show.status(told), as_json=as_json)


@app.command()
def monitor(context: typer.Context, *, as_json: AsJson = False) -> None:
    """What happens at the table, as it happens; Ctrl-C ends it."""
    with suppress(KeyboardInterrupt), _table(context) as table:
        told = table.call("monitor")
        _tell(told, show.status(told), as_json=as_json)
        for batch in table.notifications():
            _tell(batch, show.batch(batch), as_json=as_json)


@app.command()
def recall(
    context: typer.Context,
    count: Annotated[int, typer.Argument(metavar="N", min=1, max=100, help="How many rounds.")] = 10,
    *,
    as_json: AsJson = False,
) -> None:
    """The last N rounds, card by card, and in the order in which they were picked up."""
    rounds = _asked_or_read(
        context,
        lambda table: table.call("recall", n=count)["rounds"],
        lambda offline, path: offline.journal_rounds(path, count),
    )
    _tell({"recall": True, "rounds": rounds}, show.recalled(rounds), as_json=as_json)


class PartName(StrEnum):
    """The parts that `diag` knows."""

    SCANNER = "scanner"
    SHOE = "shoe"
    LAMPS = "lamps"
    BUZZER = "buzzer"
    BUTTONS = "buttons"
    DISPLAY = "display"
    CASINO = "casino"
    CLOCK = "clock"
    STORAGE = "storage"


INNER = (PartName.CASINO, PartName.CLOCK, PartName.STORAGE)  # no devices: only a running table has them


@app.command()
def diag(
    context: typer.Context,
    part: Annotated[PartName, typer.Argument(metavar="PART", help=", ".join(each.value for each in PartName))],
    *,
    test: Annotated[bool, typer.Option("--test", help="Test it: lamps, buzzer, display, sensor head.")] = False,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Set the sensor head's thresholds, guided.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it; Ctrl-C ends it.")] = False,
    as_json: AsJson = False,
) -> None:
    """What one device sees, and its test: through the table, or by itself where no table runs.

    casino (the way of the results), clock and storage are of a running table alone.
    """
    said: list[str] = []

    def tell(told: dict[str, Any]) -> None:
        lines = [json.dumps(told, separators=(",", ":"))] if as_json else list(show.part(told))
        _print(line for line in lines if line not in said)  # of what is followed, what changed
        said[:] = lines

    with suppress(KeyboardInterrupt), _seeing(context, part.value) as see:
        if calibrate:
            _calibrate(see)
        told = see("test" if test else "")
        tell(told if watch or not test else head.finished(see, told))
        while watch:
            time.sleep(head.LOOK_S)
            tell(see(""))


@contextmanager
def _seeing(context: typer.Context, part: str) -> Iterator[head.See]:
    """A device: through the table, or by itself where none runs and the configuration is known."""
    options: Options = context.obj
    connected = False
    try:
        with _connected(context) as table:
            connected = True
            yield lambda act: table.call("diag", part=part, **({"act": act} if act else {}))
            return
    except UnreachableError as error:
        if connected or part in INNER or not _knows_its_configuration(options):
            _stop(ABSENT, str(error))
    print("tablectl: the daemon is not there, and cannot start until this ends", file=sys.stderr)
    with _offline() as offline, offline.bench(_config(options), part) as see:
        yield see


def _calibrate(see: head.See) -> None:
    try:
        for line in head.calibrate(see, input):
            print(line)
    except head.CalibrationError as error:
        _stop(NO, str(error))
    except EOFError:
        _stop(NO, "the calibration is guided: start it in a terminal")


# --- the sensor head ------------------------------------------------------------------------------------------


@head_app.command("version")
def head_version(context: typer.Context, *, as_json: AsJson = False) -> None:
    """What the sensor head says that it is."""
    with _seeing(context, PartName.SHOE.value) as see:
        told = see("")
    if told["driver"] != "head":
        _stop(NO, f"this table has no sensor head: section shoe of table.yaml says driver: {told['driver']}")
    if told["firmware"] is None:
        _stop(NO, told["fault"] or "the sensor head is not there")
    _tell(told["firmware"], [show.firmware(told["firmware"])], as_json=as_json)
    if told["fault"]:
        _stop(NO, told["fault"])


@head_app.command("flash")
def head_flash(
    context: typer.Context,
    firmware: Annotated[
        Path, typer.Argument(metavar="FILE", help="The firmware, Intel HEX, as `make -C firmware` made it.")
    ],
    *,
    programmer: Annotated[
        str, typer.Option("--programmer", help="As avrdude calls it; arduino: a boot loader on the head's own port.")
    ] = "usbasp",
    baud: Annotated[int, typer.Option("--baud", help="Of the boot loader: 115200, of old Nanos 57600.")] = 115200,
) -> None:
    """Writes the sensor head's firmware with avrdude, while no table runs; the thresholds stay."""
    with _offline() as offline:
        offline.head_flash(_config(context.obj), firmware, programmer=programmer, baud=baud)


@app.command()
def doctor(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Looks at all that a table needs, and says what to do: disk, key, clock, devices, the way to the casino.

    Disturbs nothing: what only the running table knows it is asked. 1 where a check fails; warnings are none.
    """
    options: Options = context.obj
    with _offline() as offline:
        rows = offline.examine(_config(options), options.socket)
    _tell(rows, show.rows(rows), as_json=as_json)
    if any(row["status"] == "fail" for row in rows):
        raise typer.Exit(NO)


# --- act ------------------------------------------------------------------------------------------------------


def _act(context: typer.Context, method: str, **own: Any) -> None:  # noqa: ANN401 - params of the method
    """Asks once, under a key of its own, and prints what the table shows then."""
    by = [staff.strip() for staff in context.params["by"].split(",") if staff.strip()]
    said = {"by": by, "reason": context.params["reason"], "id_key": os.urandom(12).hex(), **own}
    with _table(context) as table:
        told = table.call(method, **{name: value for name, value in said.items() if value not in ("", [], None)})
    _tell(told, [show.prompt(told["prompt"])], as_json=context.params["as_json"])


@round_app.command("start")
def round_start(context: typer.Context, *, by: By = "", reason: Reason = "", as_json: AsJson = False) -> None:
    """INICIO: opens the betting."""
    _act(context, "round.start")


@round_app.command("close")
def round_close(context: typer.Context, *, by: By = "", reason: Reason = "", as_json: AsJson = False) -> None:
    """Closes the betting before its time, where the profile lets the dealer."""
    _act(context, "round.close")


@round_app.command("confirm")
def round_confirm(context: typer.Context, *, by: By = "", reason: Reason = "", as_json: AsJson = False) -> None:
    """CONFIRMAR: what the panel asks for, as a rule the result."""
    _act(context, "round.confirm")


@round_app.command("call")
def round_call(context: typer.Context, *, by: By = "", reason: Reason = "", as_json: AsJson = False) -> None:
    """LLAMAR: calls the pit boss, or cancels the call."""
    _act(context, "round.call")


@round_app.command("hold")
def round_hold(context: typer.Context, *, by: By = "", reason: Reason = "", as_json: AsJson = False) -> None:
    """CONFIRMAR held for two seconds: takes back the last scan."""
    _act(context, "round.hold")


@round_app.command("void")
def round_void(
    context: typer.Context,
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")],
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Voids the round in progress: every stake goes back. The dealer and the pit boss do it."""
    _act(context, "round.void")


@round_app.command("report")
def round_report(
    context: typer.Context,
    code: Annotated[str, typer.Argument(metavar="CODE", help="What happened: I16, a card on the floor.")],
    *,
    by: By = "",
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Reports what no sensor sees: the table holds until the pit boss has decided."""
    _act(context, "round.report", code=code)


@round_app.command("resolve")
def round_resolve(
    context: typer.Context,
    code: Annotated[str, typer.Argument(metavar="CODE", help="What stands, as status shows it: I07.")],
    choice: Annotated[str, typer.Argument(metavar="CHOICE", help="One of its choices: burn.")],
    *,
    card: Annotated[str, typer.Option("--card", metavar="CARD", help="The card that is keyed in: 8H.")] = "",
    by: By = "",
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Decides what stands."""
    _act(context, "round.resolve", code=code, choice=choice, card=card)


@shoe_app.command("next")
def shoe_next(context: typer.Context, *, by: By = "", reason: Reason = "", as_json: AsJson = False) -> None:
    """Confirms the step of shoe work that the panel shows."""
    _act(context, "shoe.next")


@shoe_app.command("load")
def shoe_load(context: typer.Context, *, by: By = "", reason: Reason = "", as_json: AsJson = False) -> None:
    """The shoe is loaded and closed."""
    _act(context, "shoe.load")


@shoe_app.command("left")
def shoe_left(
    context: typer.Context,
    count: Annotated[int, typer.Argument(metavar="N", min=0, help="The cards counted in the shoe.")],
    *,
    by: By = "",
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Enters the number of cards that are left at the end of the shoe."""
    _act(context, "shoe.left", left=count)


@shoe_app.command("end")
def shoe_end(context: typer.Context, *, by: By = "", reason: Reason = "discretion", as_json: AsJson = False) -> None:
    """Ends the shoe after this round: --reason discretion, fault or day_end. The dealer and the pit boss do it."""
    _act(context, "shoe.end")


# --- what works with the daemon down --------------------------------------------------------------------------


@app.command()
def deal(
    context: typer.Context,
    file: Annotated[typer.FileText, typer.Argument(metavar="FILE", encoding="utf-8", help="The script; - is stdin.")],
    *,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="P", help="The house's rules: name or file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A card script through the rules: the data of each completed round, a line of JSON each."""
    with _offline() as offline:
        rules = offline.profile_named(profile, context.obj.config)
        for data in offline.deal(file, rules):
            _print_json(data)


@journal_app.command("verify")
def journal_verify(
    context: typer.Context,
    export: Annotated[
        Path | None, typer.Argument(metavar="EXPORT", help="A feed file, an export or a copy of a journal.")
    ] = None,
    *,
    public_key: Annotated[
        str | None, typer.Option("--public-key", metavar="KEY", help="The table's key, 43 characters, if you know it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Whether the journal is whole: its database, its chains and every signature. Reads all of it."""
    if export is not None:
        with _offline() as offline:
            told = offline.journal_verify(export, public_key)
    else:
        told = _asked_or_read(
            context,
            lambda table: table.patient().call("journal.verify"),
            lambda offline, path: offline.journal_verify(path, public_key),
        )
    _tell(told, [show.verdict(told, str(export or "the journal"))], as_json=as_json)
    if not told["ok"]:
        raise typer.Exit(NO)


class Form(StrEnum):
    """What an export is made of."""

    JSONL = "jsonl"
    CSV = "csv"
    SCRIPT = "script"


Source = Annotated[Path | None, typer.Argument(metavar="FILE", help="A journal or an export (this table's journal).")]
First = Annotated[int, typer.Option("--from", metavar="N", min=1, help="The number of the first message.")]
Last = Annotated[int | None, typer.Option("--to", metavar="N", min=1, help="The number of the last one.")]


@journal_app.command("export")
def journal_export(
    context: typer.Context,
    file: Source = None,
    *,
    first: First = 1,
    last: Last = None,
    form: Annotated[
        Form, typer.Option("--format", help="The messages as sent, the rounds for a spreadsheet, or a card script.")
    ] = Form.JSONL,
    as_json: AsJson = False,
) -> None:
    """A span of the feed, from the journal: with the table running or stopped. `journal verify` proves what it prints.

    jsonl: the exact bytes, a message a line. csv: a line for each round that ended. script: the shoes that began in the
    span, for tablectl deal.
    """
    with _offline() as offline:
        whole = Form.JSONL if as_json else form
        for line in offline.journal_export(_journal(context, file), whole.value, first, last):
            print(line)


@journal_app.command("stats")
def journal_stats(
    context: typer.Context, file: Source = None, *, first: First = 1, last: Last = None, as_json: AsJson = False
) -> None:
    """Rounds, misreads and cards keyed in by hand, shoe by shoe; irregularities and faults by their code."""
    with _offline() as offline:
        told = offline.journal_stats(_journal(context, file), first, last)
    _tell(told, show.stats(told), as_json=as_json)


def _journal(context: typer.Context, file: Path | None) -> Path:
    """The file that was named, or this table's journal."""
    if file is not None:
        return file
    with _offline() as offline:
        path: Path = offline.journal_file(_config(context.obj))
    return path


@config_app.command("check")
def config_check(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Everything that is wrong with the configuration, each with its place and what to do. Warnings are no errors."""
    path = _config(context.obj)
    with _offline() as offline:
        told = offline.config_check(path)
    _tell(told, show.checked(told, str(path)), as_json=as_json)
    if not told["ok"]:
        raise typer.Exit(NO)


@config_app.command("show")
def config_show(context: typer.Context, *, as_json: AsJson = False) -> None:
    """The configuration in force at the next start: every key that is set, and the defaults of the others."""
    with _offline() as offline:
        text, values = offline.config_show(_config(context.obj))
    _tell(values, [text.removesuffix("\n")], as_json=as_json)


@config_app.command("set")
def config_set(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key and its groups: procedure.betting_seconds.")],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="As it is written in the file: 20, '[5, 6]', '\"010\"'.")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Sets one key of the configuration and keeps every comment; refused where the file would not be good then."""
    path = _config(context.obj)
    with _offline() as offline:
        told = offline.config_set(path, key, value)
    _tell(told, show.changed(told, str(path), value), as_json=as_json)
    if not told["ok"]:
        raise typer.Exit(NO)


@config_app.command("schema")
def config_schema(*, as_json: AsJson = False) -> None:
    """The JSON Schema of the configuration, for editors."""
    with _offline() as offline:
        schema = offline.config_schema()
    print(json.dumps(schema, separators=(",", ":")) if as_json else json.dumps(schema, indent=2))


@casino_app.command("listen")
def casino_listen(
    *,
    serial: Annotated[str, typer.Option("--serial", metavar="PORT", help="The line to the table.")],
    baud: Annotated[int, typer.Option("--baud", metavar="N", help="Its speed, as in table.yaml.")] = 115_200,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Keep the messages here too, and go on behind its last."),
    ] = None,
    public_key: Annotated[
        str | None, typer.Option("--public-key", metavar="KEY", help="The table's key, 43 characters, if you know it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Is the casino's end of a serial line: each message a line, checked, then its receipt; Ctrl-C ends it.

    The table takes for delivered what has its receipt: at a real table keep it with --file.
    """
    with suppress(KeyboardInterrupt), _offline() as offline:  # a message is JSON, with and without --json
        offline.casino_listen(
            serial, baud, file=file, public_key=public_key, tell=lambda message: print(message, flush=True)
        )


@casino_app.command("resend")
def casino_resend(
    context: typer.Context,
    *,
    first: Annotated[int, typer.Option("--from", metavar="N", min=1, help="The number of the first message.")],
    publisher: Annotated[
        str | None, typer.Option("--publisher", metavar="NAME", help="mqtt or serial, where it is not the primary.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sends the messages from N on once more, to the newest, with the same bytes; receipts stay as they are."""
    with _table(context) as table:
        told = table.call("casino.resend", **{"from": first}, **({"publisher": publisher} if publisher else {}))
    _tell(told, [f"{told['publisher']}: messages {told['from']} to {told['to']} are sent again"], as_json=as_json)


@keys_app.command("new")
def keys_new(context: typer.Context, *, file: KeyFile = None, as_json: AsJson = False) -> None:
    """Makes a key pair, never over an old one, and prints what the casino may know of it."""
    with _offline() as offline:
        _print_key(offline.keys_new(file or offline.key_file(_config(context.obj))), as_json=as_json)


@keys_app.command("show")
def keys_show(context: typer.Context, *, file: KeyFile = None, as_json: AsJson = False) -> None:
    """What the casino may know of the table's key."""
    with _offline() as offline:
        _print_key(offline.keys_show(file or offline.key_file(_config(context.obj))), as_json=as_json)


def _print_key(key: dict[str, str], *, as_json: bool) -> None:
    _tell(key, (f"{name:<10}  {value}" for name, value in key.items()), as_json=as_json)
