"""The shape of table.yaml (DESIGN 8): every key, what it may be, what it is when left out, and what it is for.

The descriptions are the words of the error messages and of the editor's help (`table.schema.json`). A model says what
one key may be; what keys must be to each other stands in `checks.py`. Lengths of time are in the unit of their name.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from controller.core.profile import Confirms, Opens, Position, Rescan


class Section(BaseModel):
    """A group of keys: no others, no conversions, no changes after it is read."""

    # Built when it is first asked: each would be built for itself, and again within the whole.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


def kind(value: object) -> str:
    """Which branch of a choice a value belongs to. The brackets keep a branch apart from any key of a file."""
    if isinstance(value, Mapping | BaseModel):
        return "<group>"
    if isinstance(value, list | tuple):
        return "<list>"
    return "<text>" if isinstance(value, str) else "<number>"


# Where GPIO0, GPIO1, … of a Raspberry Pi's 40-pin header are to be counted on the board (BCM numbers are GPIO numbers).
HEADER = (27, 28, 3, 5, 7, 29, 31, 26, 24, 21, 19, 23, 32, 33, 8, 10, 36, 11, 12, 35, 38, 40, 15, 16, 18, 22, 37, 13)


def _on_header(pin: int) -> int:
    """Who writes a number that no GPIO has has often counted the pins of the board."""
    if not 0 <= pin < len(HEADER):
        meant = f"; pin {pin} of the header is GPIO{HEADER.index(pin)}" if pin in HEADER else ""
        raise ValueError(f"must be the number of a GPIO of the header, 0 to {len(HEADER) - 1}{meant}")
    return pin


Pin = Annotated[int, AfterValidator(_on_header), Field(json_schema_extra={"minimum": 0, "maximum": len(HEADER) - 1})]
File = Annotated[str, Field(pattern=r"^/[^\x00-\x1f]*[^\x00-\x1f/]$")]
TOPIC = r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$"  # legal in MQTT topics and in URIs; no wildcards, no empty levels
Baud = Literal[1200, 2400, 4800, 9600, 19200, 38400, 57600, 115200]
Code = Annotated[str, Field(pattern=r"^[\x21-\x7e]([\x20-\x7e]{0,62}[\x21-\x7e])?$")]


class Table(Section):
    id: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$",
        description="the table's number given by the casino (G1): up to 32 letters, digits, `.`, `_`, `-`",
    )
    language: Literal["es", "en"] = Field(default="es", description="the language of the dealer's panel")


class ProcedureKeys(Section):
    open_betting: Opens = Field(
        default=Opens.DEALER, description="who opens the betting; none: there is no betting time"
    )
    betting_seconds: int = Field(default=15, ge=1, le=600, description="the betting time (C1)")
    confirm_result: Confirms = Field(default=Confirms.DEALER, description="what makes a dealt round final (D9)")
    confirm_seconds: int = Field(
        default=3, ge=1, le=60, description="confirm_result auto: the time in which CALL stops it"
    )
    offline_rounds: Literal["refuse", "allow"] = Field(
        default="refuse", description="whether betting may open while the primary link is down (F2)"
    )
    idle_lock_minutes: int = Field(
        default=5, ge=1, le=240, description="a signed-in person is signed out after this time"
    )


class Gpio(Section):
    pin_factory: Literal["gpiod", "rpigpio", "mock"] = Field(
        default="gpiod", description="the way to lamps, buzzer and buttons; rpigpio: Pi 4 and older; mock: tests"
    )


class CodeTable(Section):
    table: dict[Code, str] = Field(description="the house's own codes, one `CODE: 8H` a line; every face needs one")


class HandScanner(Section):
    driver: Literal["serial", "hid"] = Field(description="how the scanner for the hand is connected")
    port: File = Field(description="the scanner: its path under /dev/serial/by-id or /dev/input/by-id")
    baud: Baud = Field(default=9600, description="speed of the line")


class Scanner(Section):
    driver: Literal["serial", "hid", "none"] = Field(default="none", description="how the card scanner is connected")
    port: File | None = Field(
        default=None, description="the scanner: its path under /dev/serial/by-id or /dev/input/by-id"
    )
    baud: Baud = Field(default=9600, description="speed of the line")
    codes: Annotated[
        Annotated[Literal["plain", "srr0", "letter"], Tag("<text>")] | Annotated[CodeTable, Tag("<group>")],
        Discriminator(kind),
    ] = Field(default="plain", description="how it spells a card: plain (8H), srr0 (2080), letter (B08), {table: {…}}")
    cut_code: Code = Field(default="CUT", description="what the scanner sends for the cut card")
    noread_code: Code = Field(default="NOREAD", description="what the scanner sends for a card that it cannot read")
    position: Position = Field(
        default=Position.AFTER_EXIT,
        description="where it reads a card: out of the shoe, drawn but not past the exit sensors, or lying in the shoe",
    )
    rescan: Rescan = Field(
        default=Rescan.SAME,
        description="where a card that was not read is read again (D8): the same scanner, `hand`, or nowhere",
    )
    hand: HandScanner | None = Field(default=None, description="the scanner for the hand: it reads cards that are out")
    repeat_ms: int = Field(default=0, ge=0, le=2000, description="drops a code repeated within this time; 0: never")
    max_pending: int = Field(
        default=2, ge=1, le=4, description="cards out of the shoe that may wait for their scan (I02)"
    )


class Shoe(Section):
    driver: Literal["gpio", "head", "none"] = Field(
        default="none", description="sensors on pins, or the sensor head on a line"
    )
    exit_inner: Pin | None = Field(default=None, description="the exit sensor nearer the cards")
    exit_outer: Pin | None = Field(default=None, description="the exit sensor at the mouth: tells direction")
    cut: Pin | None = Field(default=None, description="the cut-card sensor")
    lid: Pin | None = Field(default=None, description="the lid switch (G3)")
    present: Pin | None = Field(default=None, description="the sensor that sees a card in the mouth")
    port: File | None = Field(default=None, description="the sensor head's device: its path under /dev/serial/by-id")
    baud: Literal[57600] = Field(default=57600, description="speed of the sensor head's line: its firmware has one")


class Lamps(Section):
    driver: Literal["gpio", "none"] = Field(default="none", description="how the lamps are connected")
    timer: tuple[Pin, ...] = Field(default=(), max_length=12, description="the timer bar's lamps, as they go out")
    amber: Pin | None = Field(
        default=None,
        description="the amber lamps that burn in the last quarter of the betting time, where there are some",
    )
    red: Pin | None = Field(default=None, description="the red lamps that flash when betting ends (C1)")
    call: Pin | None = Field(default=None, description="the lamp that calls the pit boss")


class Buzzer(Section):
    driver: Literal["gpio", "none"] = Field(default="none", description="how the buzzer is connected")
    pin: Pin | None = Field(default=None, description="the buzzer that sounds when betting ends (C1)")


class Buttons(Section):
    driver: Literal["gpio", "none"] = Field(default="none", description="how the buttons are connected")
    start: Pin | None = Field(default=None, description="INICIO")
    confirm: Pin | None = Field(default=None, description="CONFIRMAR")
    call: Pin | None = Field(default=None, description="LLAMAR")
    key: Pin | None = Field(default=None, description="the pit boss's key switch")


class Display(Section):
    driver: Literal["ssd1306", "ssd1309", "sh1106", "none"] = Field(
        default="none", description="the panel's controller chip"
    )
    interface: Literal["i2c", "spi"] = Field(default="i2c", description="how the panel is connected")
    bus: int = Field(default=1, ge=0, le=22, description="i2c: the number N of /dev/i2c-N")
    address: int = Field(default=0x3C, ge=0x08, le=0x77, description="i2c: the panel's address, 0x3C or 0x3D as a rule")
    device: Literal[0, 1] = Field(default=0, description="spi: the chip select line, CE0 or CE1")
    dc: Pin | None = Field(default=None, description="spi: the pin of the panel's D/C line")
    reset: Pin | None = Field(default=None, description="spi: the pin of the panel's reset line")
    column_offset: int | None = Field(
        default=None, ge=0, le=4, description="sh1106: the column of its memory where the glass begins, 2 as a rule"
    )
    rotate: Literal[0, 2] = Field(default=0, description="2 turns the picture upside down")


class Tls(Section):
    ca: File = Field(description="the file of the certificate authority that signed the broker's certificate")
    cert: File | None = Field(default=None, description="the table's own certificate, where the broker asks for one")
    key: File | None = Field(default=None, description="the private key of `cert`")


class Mqtt(Section):
    host: str = Field(
        pattern=r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)$",
        description="the broker's host name or address, without mqtt:// and without a port",
    )
    port: int = Field(default=8883, ge=1, le=65535, description="the broker's port: 8883 with TLS, 1883 without")
    prefix: str = Field(
        default="baccarat",
        pattern=TOPIC,
        max_length=128,
        description="the topics' beginning: letters, digits, `.`, `_`, `-`, levels parted by /",
    )
    tls: Tls | None = Field(
        default=None, description="how the broker proves itself; without it the line is not encrypted"
    )
    username: str | None = Field(
        default=None, min_length=1, max_length=128, description="the table's name at the broker"
    )
    password_file: File | None = Field(default=None, description="the file that holds the password and nothing else")
    server_status: str | None = Field(
        default=None,
        pattern=TOPIC,
        max_length=128,
        description="the topic on which the casino server says online or offline",
    )


class Serial(Section):
    port: File = Field(description="the line to the casino server: its path under /dev/serial/by-id")
    baud: Literal[9600, 19200, 38400, 57600, 115200, 230400] = Field(default=115200, description="speed of the line")


class FeedFile(Section):
    path: File = Field(description="the file that takes one message a line")


class CommandKey(Section):
    keyid: str = Field(pattern=r"^[0-9a-f]{16}$", description="the key's id: 16 hexadecimal digits, small letters")
    publickey: str = Field(
        pattern=r"^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$",
        description="the Ed25519 public key in base64url: 43 characters",
    )


class Casino(Section):
    primary: Literal["mqtt", "serial", "file"] = Field(
        description="mqtt, serial or file: the transport whose receipts decide; the others that are set up follow"
    )
    receipt: Literal["broker", "server"] = Field(
        default="server", description="whose receipt counts: the casino server's own, or the broker's"
    )
    link_grace_seconds: int = Field(
        default=3,
        ge=1,
        le=30,
        description="how long after the end of betting the receipt may take before the round is cancelled (F2)",
    )
    mqtt: Mqtt | None = Field(default=None, description="the MQTT broker")
    serial: Serial | None = Field(default=None, description="the serial line to the casino server")
    file: FeedFile | None = Field(default=None, description="the feed as a file")
    command_keys: tuple[CommandKey, ...] = Field(
        default=(), max_length=16, description="whose commands the table obeys; without keys only ping is answered"
    )
    limits: Literal["required", "none"] | None = Field(
        default=None,
        description="whether betting waits for the casino's limits (C7); not set: where there are command_keys",
    )
    enrolment: Literal["none", "required"] = Field(
        default="none", description="whether betting waits for the casino's enrol command"
    )


class Storage(Section):
    path: File = Field(
        default="/var/lib/baccarat-table",
        description="the directory of the journal, on a disk that survives a power cut",
    )
    allow_volatile: bool = Field(
        default=False, description="true only where losing the journal at a power cut is no matter, as in tests"
    )


class Control(Section):
    socket: Annotated[File, Field(max_length=100)] = Field(
        default="/run/baccarat-table/control.sock",
        description="the socket that tablectl speaks to: at most 100 characters",
    )


class Config(Section):
    """One dealer table's configuration."""

    table: Table = Field(description="who this table is")
    profile: str = Field(
        pattern=r"^([a-z0-9][a-z0-9_-]{0,63}|/[^\x00-\x1f]*\.yaml)$",
        description="the house's rules: the name of a file in profiles/ without .yaml, or the whole path of one",
    )
    procedure: ProcedureKeys = Field(default=ProcedureKeys(), description="how the table is run")
    gpio: Gpio = Field(default=Gpio(), description="the pins of the Raspberry Pi")
    scanner: Scanner = Field(default=Scanner(), description="the card scanner")
    shoe: Shoe = Field(default=Shoe(), description="the sensors of the dealing shoe")
    lamps: Lamps = Field(default=Lamps(), description="the timer bar and the signal lamps")
    buzzer: Buzzer = Field(default=Buzzer(), description="the sound of the timer")
    buttons: Buttons = Field(default=Buttons(), description="the dealer's buttons and the key switch")
    display: Display = Field(default=Display(), description="the dealer's panel")
    casino: Casino = Field(description="where the results go")
    storage: Storage = Field(default=Storage(), description="where the journal lives")
    control: Control = Field(default=Control(), description="the way in for tablectl")
