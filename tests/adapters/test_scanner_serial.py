"""The serial scanner against pseudo-terminals: whole programs of bytes, plugs pulled, holders killed.

Bug reports 22, 23, 25, 26, 28, 32, 37. A device is the master of a pty; unplugging it closes the master.
"""

import asyncio
import fcntl
import logging
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import ClassVar

import pytest

from controller.adapters.scanner_serial import ScannerSerial, SerialDevice, advise
from controller.core.codes import TABLES, Codes
from controller.core.events import CardScanned, Event, FaultGone, FaultSeen
from controller.ports import Outcome
from controller.tty import LOST, TROUBLE
from tests.adapters.scanned import DEADLINE_S, Table, descriptor_count, descriptors, reading, run, until

ROOT = Path(__file__).parents[2]
CODES = Codes.of("plain", cut="CUT", noread="NOREAD")


class Device:
    """A scanner on a pty. `path` is the port: a name of its own, for a pty's may soon be that of another test's."""

    folder: ClassVar[Path]
    count: ClassVar[int] = 0

    def __init__(self) -> None:
        Device.count += 1
        self.master, slave = os.openpty()
        self.pty = os.ttyname(slave)
        os.close(slave)
        os.set_blocking(self.master, False)
        self._name = self.folder / f"scanner{self.count}"
        self._name.symlink_to(self.pty)
        self.path = str(self._name)

    async def send(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self.master, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.001)

    def unplug(self) -> None:
        self._name.unlink()
        os.close(self.master)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    Device.folder = tmp_path


def make(
    path: str | Path,
    *,
    repeat_ms: int = 0,
    idle_ms: int = 30_000,
    retry_s: tuple[float, float] = (0.005, 0.02),
) -> ScannerSerial:
    return ScannerSerial(
        port=str(path),
        baud=9600,
        codes=CODES,
        repeat_ms=repeat_ms,
        idle_ms=idle_ms,
        retry_s=retry_s,
    )


async def until_held(device: Device) -> None:
    await until(lambda: holds(device))


async def until_dropped(scanner: ScannerSerial, count: int) -> None:
    await until(lambda: scanner.lines.dropped == count)


def holds(device: Device) -> int:
    """How often this process has its port open."""
    return len(descriptors().get(device.pty, []))


# --- bytes in, events out --------------------------------------------------------------------------------


def check(chunks: list[bytes], expected: list[str], *, pause_s: float = 0.0, repeat_ms: int = 0) -> ScannerSerial:
    """What chunks of bytes, sent with pauses, come to; a cut card at their end tells that all were read."""
    device, scanner = Device(), None

    async def scenario() -> None:
        nonlocal scanner
        scanner = make(device.path, repeat_ms=repeat_ms)
        async with reading(scanner) as table:
            await scanner.opened.wait()
            for chunk in chunks:
                await device.send(chunk)
                await asyncio.sleep(pause_s)
            await device.send(b"CUT\r")
            await until(lambda: "cut" in table.said)
            assert table.said == [*expected, "cut"]
            device.unplug()
            await until(lambda: "fault" in table.said)

    run(scenario)
    assert scanner is not None
    return scanner


PROGRAMS = {
    "a card": ([b"8H\r"], ["8H"]),
    "LF": ([b"8H\n"], ["8H"]),
    "CR LF is one line (37)": ([b"8H\r\nTC\r\n"], ["8H", "TC"]),
    "a doubled CR is one line (37)": ([b"8H\r\rTC\r\r"], ["8H", "TC"]),
    "two equal codes in a row are two cards (37)": ([b"8H\r8H\r"], ["8H", "8H"]),
    "eight are eight": ([b"8H\r" * 8], ["8H"] * 8),
    "no-read": ([b"NOREAD\r8H\r"], ["unread:NOREAD", "8H"]),
    "a foreign code": ([b"JOKER\r8H\r"], ["unknown:JOKER", "8H"]),
    "a code of another table": ([b"1010\r"], ["unknown:1010"]),
    "a terminated line with other bytes (26)": ([b"8\x00H\rTC\r"], ["unread:8\\x00H", "TC"]),
    "high bytes (26)": ([b"\xff\xfe8H\rTC\r"], ["unread:\\xff\\xfe8H", "TC"]),
    "a long foreign label is told in part": ([b"x" * 100 + b"\r"], ["unknown:" + "x" * 64]),
    "an over-long line is dropped whole": ([b"x" * 129 + b"8H\rTC\r"], ["TC"]),
    "what follows it, if no code, is read again": ([b"x" * 129 + b"\rX\rX\r"], ["unread:X", "unknown:X"]),
    "64 KiB without a terminator (26)": ([b"\x55" * 65_536, b"\r8H\r"], ["8H"]),
    "64 KiB of terminators (26)": ([b"\r\n" * 32_768, b"8H\r"], ["8H"]),
}


@pytest.mark.parametrize(("chunks", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_bytes_become_events(chunks: list[bytes], expected: list[str]) -> None:
    check(chunks, expected)


@pytest.mark.parametrize("ending", [b"\r", b"\n", b"\r\n", b"\r\r"])
def test_bug_25_a_code_split_at_every_byte_with_pauses_is_one_card(ending: bytes) -> None:
    whole = [code + ending for code in (b"8H", b"TC", b"8H", b"NOREAD")]
    chunks = [part for code in whole for cut in range(1, len(code)) for part in (code[:cut], code[cut:])]
    expected = [card for card, code in zip(["8H", "TC", "8H", "unread:NOREAD"], whole, strict=True) for _ in code[1:]]
    check(chunks, expected, pause_s=0.003)


def test_bug_25_byte_by_byte() -> None:
    check([bytes([byte]) for byte in b"8H\r\nTC\r8H\r\r8H\n"], ["8H", "TC", "8H", "8H"], pause_s=0.003)


def test_bug_26_every_byte_in_the_middle_of_a_code() -> None:
    """The tty is raw: no byte is eaten, made into another, or a signal."""
    others = [byte for byte in range(256) if byte not in b"\r\n"]
    escaped = [chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in others]
    expected = [
        event
        for byte, text in zip(others, escaped, strict=True)
        for event in (f"{'unknown' if 0x20 <= byte < 0x7F else 'unread'}:8{text}H", "TC")
    ]
    check([b"8" + bytes([byte]) + b"H\rTC\r" for byte in others], expected)


@pytest.mark.parametrize("table", TABLES)
def test_every_code_of_every_table_through_a_port(table: str) -> None:
    codes, device = Codes.of(table), Device()

    async def scenario() -> None:
        scanner = ScannerSerial(port=device.path, baud=9600, codes=codes)
        async with reading(scanner) as got:
            await scanner.opened.wait()
            await device.send("".join([f"{code}\r" for code in TABLES[table]]).encode())
            await until(lambda: len(got.events) == 52)
            assert got.said == list(TABLES[table].values())
            device.unplug()
            await until(lambda: len(got.events) == 53)

    run(scenario)


def test_bug_37_with_repeat_ms_the_same_code_again_is_no_card_but_told_and_counted() -> None:
    scanner = check(
        [b"8H\r8H\r", b"8H\rTC\r8H\r", b"NOREAD\rNOREAD\r"],
        ["8H", "again", "again", "TC", "again", *["unread:NOREAD"] * 2],
        repeat_ms=30_000,
    )
    assert scanner.scans.repeats == 3


def test_the_time_of_an_event_is_when_its_line_ended() -> None:
    device = Device()

    async def scenario() -> None:
        scanner = make(device.path)
        async with reading(scanner) as table:
            await scanner.opened.wait()
            await device.send(b"8H")
            await until(lambda: scanner.lines.held == 2)
            before = time.monotonic_ns()
            await device.send(b"\r")
            await until(lambda: table.events)
            assert before <= table.events[0].at <= time.monotonic_ns()
            device.unplug()

    run(scenario)


# --- halves and noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [b"8", b"8H", b"NORE", b"\xff" * 40, b"x" * 4000])
def test_bug_25_half_a_line_is_dropped_after_the_idle_time_and_logged_without_its_text(
    half: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    device = Device()

    async def scenario() -> None:
        scanner = make(device.path, idle_ms=60)
        async with reading(scanner) as table:
            await scanner.opened.wait()
            await device.send(half)
            await until(lambda: scanner.lines.dropped and scanner.lines.due is None)
            assert table.events == []
            await device.send(b"8H\r")
            await until(lambda: table.events)
            assert table.said == ["8H"]
            await device.send(half)
            await until(lambda: scanner.lines.dropped == 2 and scanner.lines.due is None)
            device.unplug()

    with caplog.at_level(logging.DEBUG):
        run(scenario)
    words = [record.getMessage() for record in caplog.records if "noise" in record.getMessage()]
    assert len(words) == 1 and "1 pieces of noise" in words[0]
    assert not any(text in record.getMessage() for record in caplog.records for text in ("8H", "NORE", "xxx"))


def test_bug_25_26_half_lines_with_pauses_at_every_split_make_no_card() -> None:
    device = Device()

    async def scenario() -> None:
        scanner = make(device.path, idle_ms=20)
        async with reading(scanner) as table:
            await scanner.opened.wait()
            await device.send(b"2C\r")  # so that it is known for a scanner, whatever comes
            whole = (b"8H\r", b"TC\r\n", b"NOREAD\r")
            splits = [(code[:cut], code[cut:]) for code in whole for cut in range(1, len(code.strip()) + 1)]
            for count, (half, rest) in enumerate(splits, start=1):
                await device.send(half)
                await until_dropped(scanner, count)
                await device.send(rest)
            await device.send(b"KD\r")
            await until(lambda: "KD" in table.said)
            rests = ["H", "C", "OREAD", "READ", "EAD", "AD", "D"]  # AD is the ace of diamonds
            assert table.said == ["2C", *[f"unread:{rest}" for rest in rests], "KD"]
            device.unplug()

    run(scenario)


# --- a port that is lost ---------------------------------------------------------------------------------


def test_bug_22_23_unplugged_while_reading_is_one_fault_and_the_port_is_closed() -> None:
    device = Device()

    async def scenario() -> None:
        async with reading(make(device.path)) as table:
            await table.scanner.opened.wait()
            await device.send(b"8H\rT")
            await until(lambda: table.said == ["8H"] and table.scanner.lines.held)
            device.unplug()
            await until(lambda: len(table.events) > 1)
            assert holds(device) == 0 and not table.scanner.opened.is_set()
            await asyncio.sleep(0.2)  # some ten attempts
            assert table.said == ["8H", "fault"]
            assert table.fault == f"scanner port {device.path} is gone: check the scanner's plug and power"
            assert table.scanner.lines.held == 0 or table.scanner.lines.due is not None

    run(scenario)


def test_what_was_scanned_before_the_plug_was_pulled_is_told_before_the_fault() -> None:
    device = Device()

    async def scenario() -> None:
        async with reading(make(device.path)) as table:
            await table.scanner.opened.wait()
            await until(lambda: holds(device) == 1)
            os.write(device.master, b"8H\rTC\r")
            await until(lambda: len(table.events) == 2)
            device.unplug()
            await until(lambda: len(table.events) == 3)
            assert table.said == ["8H", "TC", "fault"]

    run(scenario)


@pytest.mark.parametrize("wait_s", [0.0, 0.01, 0.04, 0.06])
def test_bug_22_unplugged_as_it_opens_is_one_fault(wait_s: float) -> None:
    """In the pause after the opening it is an ioctl that fails, with OSError or termios.error."""
    device = Device()

    async def scenario() -> None:
        async with reading(make(device.path)) as table:
            await until_held(device)
            await asyncio.sleep(wait_s)
            device.unplug()
            await until(lambda: table.events)
            await asyncio.sleep(0.1)
            assert table.said == ["fault"] and holds(device) == 0

    run(scenario)


def test_bug_28_it_comes_back_under_another_name(tmp_path: Path) -> None:
    link, first, second = tmp_path / "by-id", Device(), Device()
    link.symlink_to(first.path)

    async def scenario() -> None:
        async with reading(make(link)) as table:
            await table.scanner.opened.wait()
            await first.send(b"8H\rT")
            await until(lambda: table.scanner.lines.held)
            link.unlink()
            first.unplug()
            await until(lambda: "fault" in table.said)
            link.symlink_to(second.path)
            await table.scanner.opened.wait()
            assert table.said == ["8H", "fault", "gone"]
            await second.send(b"C\r8H\r")  # no half of before is the head of what comes now
            await until(lambda: len(table.events) == 5)
            assert table.said[3:] == ["unread:C", "8H"]
            assert holds(second) == 1
            second.unplug()

    run(scenario)


def test_bug_32_twenty_unplugs_leave_no_descriptor(tmp_path: Path) -> None:
    link = tmp_path / "by-id"

    async def scenario() -> None:
        counts = set()
        async with reading(make(link)) as table:
            for _ in range(20):
                device = Device()
                link.symlink_to(device.path)
                await table.scanner.opened.wait()
                await device.send(b"8H\r")
                await until(lambda: table.said[-1:] == ["8H"])
                assert holds(device) == 1
                counts.add(descriptor_count())
                link.unlink()
                device.unplug()
                await until(lambda: table.said[-1] == "fault")
            assert table.said == (["gone", "8H", "fault"] * 20)[1:]
        assert len(counts) == 1

    run(scenario)


def test_bug_32_cancelled_at_any_moment_it_leaves_no_descriptor() -> None:
    for turns in range(12):
        device = Device()

        async def scenario(device: Device = device, turns: int = turns) -> None:
            async with reading(make(device.path)):
                for _ in range(turns):
                    await asyncio.sleep(0.008)
            assert holds(device) == 0
            device.unplug()

        run(scenario)


def test_cancelled_in_the_very_turn_in_which_the_device_is_lost() -> None:
    device = Device()
    other = os.open(device.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        escaped: list[object] = []
        loop.set_exception_handler(lambda _, context: escaped.append(context))
        scanner = make(device.path)
        table = Table(scanner)
        task = asyncio.create_task(scanner.run(table.submit))
        await scanner.opened.wait()
        loop.add_reader(other, task.cancel)  # the kernel wakes the newest waiter first
        device.unplug()
        with pytest.raises(asyncio.CancelledError):
            await task
        loop.remove_reader(other)
        os.close(other)
        assert (table.events, escaped) == ([], [])

    run(scenario)


def test_absent_at_the_start_is_the_same_fault_until_it_is_there(tmp_path: Path) -> None:
    link, device = tmp_path / "by-id", Device()

    async def scenario() -> None:
        async with reading(make(link)) as table:
            await table.scanner.tried.wait()
            assert table.said == ["fault"]
            assert table.fault.startswith(f"scanner port {link} is not there: check the scanner's plug")
            link.symlink_to(device.path)
            await table.scanner.opened.wait()
            await device.send(b"8H\r")
            await until(lambda: len(table.events) == 3)
            assert table.said == ["fault", "gone", "8H"]
            device.unplug()

    run(scenario)


def test_a_fault_that_an_earlier_run_left_standing_is_over_once_the_port_is_read(tmp_path: Path) -> None:
    """The program may have ended while the scanner was gone: the journal still holds the fault. Only the first reading
    tells, and a port that is not there tells nothing."""
    link, device = tmp_path / "by-id", Device()

    async def scenario() -> None:
        link.symlink_to(device.path)
        async with reading(make(link)) as table:
            await table.scanner.opened.wait()
            await device.send(b"8H\rTC\r")
            await until(lambda: table.said == ["8H", "TC"])
            assert table.unknown == 1
        link.unlink()
        device.unplug()
        async with reading(make(link)) as table:
            await table.scanner.tried.wait()
            assert (table.unknown, table.said) == (0, ["fault"])

    run(scenario)


def test_a_port_that_is_no_serial_port_is_a_fault_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("8H\n")

    async def scenario() -> None:
        async with reading(make(path)) as table:
            await asyncio.sleep(0.1)
            assert table.said == ["fault"]
            assert "check scanner.port and scanner.baud" in table.fault

    run(scenario)


def test_bug_22_a_read_that_fails_is_one_fault_and_tiocexcl_holds_the_port() -> None:
    """The other end of a pty gives EIO where this one gives an end of file; and it is no pty slave, so it is marked."""
    port = "/dev/ptmx"

    taken = set(descriptors().get(port, []))  # the other ends of the terminals that pytest or we have

    async def scenario() -> None:
        async with reading(make(port)) as table:
            await table.scanner.opened.wait()
            (fd,) = set(descriptors()[port]) - taken
            assert struct.unpack("i", fcntl.ioctl(fd, TIOCGEXCL, b"\0" * 4)) == (1,)
            fcntl.ioctl(fd, TIOCSPTLCK, struct.pack("i", 0))
            (number,) = struct.unpack("I", fcntl.ioctl(fd, TIOCGPTN, b"\0" * 4))
            os.close(os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY))
            await until(lambda: table.said[:2] == ["fault", "gone"])
            assert table.fault == f"scanner port {port} is gone: check the scanner's plug and power"

    run(scenario)


TIOCGEXCL, TIOCGPTN, TIOCSPTLCK = 0x80045440, 0x80045430, 0x40045431  # Linux, asm-generic/ioctls.h


def test_bug_23_a_port_that_is_lost_between_its_question_and_its_flush_is_lost() -> None:
    """What pyserial raises then is termios.error, which is no OSError, and has its number nowhere else (S1)."""
    master, slave = os.openpty()
    device = SerialDevice(os.ttyname(slave), 9600)
    os.close(slave)
    os.close(master)
    with pytest.raises(termios.error) as raised:
        device._port.reset_input_buffer()
    assert isinstance(raised.value, LOST)
    assert isinstance(raised.value, TROUBLE)
    assert advise(raised.value, "scanner") == "is gone: check the scanner's plug and power"
    device.close()


def test_bug_23_a_lost_port_costs_no_processor_time() -> None:
    device = Device()

    async def scenario() -> None:
        async with reading(make(device.path, retry_s=(0.2, 2.0))) as table:
            await table.scanner.opened.wait()
            device.unplug()
            await until(lambda: table.events)
            before, began = time.process_time(), time.monotonic()
            await asyncio.sleep(1.0)
            assert time.process_time() - before < (time.monotonic() - began) / 4

    run(scenario)


def test_a_port_that_comes_and_goes_is_tried_ever_more_seldom(tmp_path: Path) -> None:
    """Each coming and going is told to the table and kept for ever: so they must not be many."""
    link = tmp_path / "by-id"
    came: list[float] = []

    async def scenario() -> None:
        async with reading(make(link, retry_s=(0.02, 0.64))) as table:
            for _ in range(6):
                device = Device()
                link.symlink_to(device.path)
                await until_held(device)
                came.append(time.monotonic())
                link.unlink()
                device.unplug()
            await until(lambda: not table.scanner.opened.is_set())

    run(scenario)
    assert came[-1] - came[0] >= 0.02 + 0.04 + 0.08 + 0.16 + 0.32


# --- a device that is no scanner --------------------------------------------------------------------------

STRANGERS = {  # what it sends, and what the table hears of it
    "a boot banner (27)": (b"\r\nBoard v2.1\r\nself test\r\nram ok\r\nflash ok\r\nready\r\nidle\r\n", 4),
    "a modem that answers (30)": (b"OK\rERROR\rOK\rERROR\rOK\rERROR\rOK\r", 4),
    "a receiver": (b"$GPGGA,,,,,,0,00,,,M,0.0,M,,0000*48\r\n" * 50, 4),
    "another code table": (b"1080\r2080\r3080\r4080\r1010\r2010\r", 4),
    "the wrong speed": (b"\xf8\x00\xe0\r" * 20, 4),
    "lines that are too long": ((b"x" * 200 + b"\r") * 20, 0),
}


@pytest.mark.parametrize(("data", "heard"), STRANGERS.values(), ids=STRANGERS)
def test_bug_27_30_what_never_sends_a_code_is_one_fault_and_not_line_for_line(data: bytes, heard: int) -> None:
    device = Device()

    async def scenario() -> None:
        async with reading(make(device.path)) as table:
            await table.scanner.opened.wait()
            await device.send(data)
            await until(lambda: "fault" in table.said)
            await device.send(b"?\r")
            assert "sends nothing that is a code: check that it is the scanner" in table.fault
            await device.send(b"8H\rX\r")  # now it is known for a scanner, and a foreign card is one again (I06)
            await until(lambda: table.said[-1] == "unknown:X")
            assert table.said[heard:] == ["fault", "gone", "8H", "unknown:X"]
            device.unplug()

    run(scenario)


def test_halves_that_never_make_a_code_are_that_fault_too() -> None:
    """A scanner without a suffix, or at another speed: each scan is half a line."""
    device = Device()

    async def scenario() -> None:
        scanner = make(device.path, idle_ms=20)
        async with reading(scanner) as table:
            await scanner.opened.wait()
            for count in range(1, 6):
                await device.send(b"8H")
                await until_dropped(scanner, count)
            await until(lambda: table.events)
            assert table.said == ["fault"]
            device.unplug()

    run(scenario)


def test_a_stranger_that_is_pulled_out_and_a_scanner_that_comes_are_one_fault() -> None:
    device = Device()

    async def scenario() -> None:
        async with reading(make(device.path)) as table:
            await table.scanner.opened.wait()
            await device.send(b"OK\r" * 9)
            await until(lambda: "fault" in table.said)
            device.unplug()
            await until(lambda: holds(device) == 0)
            assert table.said.count("fault") == 1

    run(scenario)


def test_a_scanner_that_was_known_may_send_foreign_codes_without_end() -> None:
    check([b"NOREAD\r", b"X\r" * 20], ["unread:NOREAD", *["unknown:X"] * 20])


# --- what came before, who else holds it -------------------------------------------------------------------


def test_what_was_sent_before_the_port_was_read_is_not_taken() -> None:
    """Its card has no number and will be scanned again (I35)."""
    device = Device()
    os.write(device.master, b"8H\rTC\rNORE")

    async def scenario() -> None:
        async with reading(make(device.path)) as table:
            await table.scanner.opened.wait()
            await device.send(b"KD\r")
            await until(lambda: table.events)
            assert table.said == ["KD"]
            device.unplug()

    run(scenario)


def test_a_line_under_way_as_the_port_opens_is_not_taken_for_its_tail() -> None:
    device = Device()

    async def scenario() -> None:
        scanner = make(device.path)
        async with reading(scanner) as table:
            await until_held(device)
            await device.send(b"NORE")
            assert not scanner.opened.is_set()
            await scanner.opened.wait()
            await device.send(b"KD\r")
            await until(lambda: table.events)
            assert table.said == ["KD"]
            device.unplug()

    run(scenario)


def test_a_device_that_never_pauses_is_read_from_its_next_line() -> None:
    device = Device()

    async def scenario() -> None:
        async with reading(make(device.path)) as table:
            while not table.scanner.opened.is_set():
                await device.send(b"x")
                await asyncio.sleep(0.005)
            await device.send(b"AD\r8H\r")
            await until(lambda: table.events)
            assert table.said == ["8H"]
            device.unplug()

    run(scenario)


def test_a_device_that_pauses_at_last_is_read_from_its_next_line() -> None:
    device = Device()

    async def scenario() -> None:
        scanner = make(device.path, idle_ms=50)
        async with reading(scanner) as table:
            while not scanner.opened.is_set():
                await device.send(b"x")
                await asyncio.sleep(0.005)
            await until(lambda: scanner.lines.due is None)
            await device.send(b"8H\r")
            await until(lambda: table.events)
            assert table.said == ["8H"]
            device.unplug()

    run(scenario)


def test_bug_30_another_program_that_takes_bytes_is_no_lost_device() -> None:
    """Both are woken by the same bytes, and whoever comes second finds none: that is not the end of the file."""
    device = Device()
    taken = bytearray()
    rivals = [os.open(device.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK) for _ in range(2)]

    def take(rival: int) -> None:
        try:
            taken.extend(os.read(rival, 1))
        except BlockingIOError:
            return

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(rivals[0], take, rivals[0])
        async with reading(make(device.path)) as table:
            await table.scanner.opened.wait()
            loop.add_reader(rivals[1], take, rivals[1])
            for _ in range(50):
                await device.send(b"\r")
                await asyncio.sleep(0.001)
            for rival in rivals:
                loop.remove_reader(rival)
                os.close(rival)
            await device.send(b"\r8H\r")
            await until(lambda: table.events)
            assert table.said == ["8H"]
            device.unplug()

    run(scenario)
    assert taken


HOLDER = """
import asyncio, sys
from controller.adapters.scanner_serial import ScannerSerial
from controller.core.codes import Codes

async def hold():
    scanner = ScannerSerial(port=sys.argv[1], baud=9600, codes=Codes.of("plain"))
    task = asyncio.create_task(scanner.run(lambda event: None))
    await scanner.opened.wait()
    print("open", flush=True)
    await task

asyncio.run(hold())
"""


def test_bug_32_a_port_is_held_alone_and_its_killed_holder_does_not_hold_it() -> None:
    device = Device()
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, device.path], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None

    async def scenario() -> None:
        async with reading(make(device.path)) as table:
            await table.scanner.tried.wait()
            assert "is held by another program" in table.fault
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            await table.scanner.opened.wait()
            await device.send(b"8H\r")
            await until(lambda: len(table.events) == 3)
            assert table.said == ["fault", "gone", "8H"]
            device.unplug()

    with holder, holder.stdout:
        assert holder.stdout.readline() == "open\n"
        run(scenario)


def test_a_defect_of_ours_ends_the_source() -> None:
    """It is no fault of the device, and it must not be one line in a log."""
    device = Device()

    async def scenario() -> None:
        def refuse(event: Event) -> "asyncio.Future[Outcome]":
            raise OSError("a defect")

        scanner = make(device.path)
        task = asyncio.create_task(scanner.run(refuse))
        await scanner.opened.wait()
        await device.send(b"8H\r")
        with pytest.raises(OSError, match="a defect"):
            await asyncio.wait_for(task, DEADLINE_S)
        assert holds(device) == 0
        device.unplug()

    run(scenario)


# --- the scanner for the hand ---------------------------------------------------------------------------


def test_the_scanner_for_the_hand_says_so_of_its_cards_and_has_a_fault_of_its_own() -> None:
    """The game goes on without it: its fault is not I40."""
    device = Device()

    async def scenario() -> None:
        told: list[Event] = []

        def submit(event: Event) -> "asyncio.Future[Outcome]":
            told.append(event)
            done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            done.set_result(Outcome())
            return done

        scanner = ScannerSerial(port=device.path, baud=9600, codes=CODES, retry_s=(0.005, 0.02), hand=True)
        task = asyncio.create_task(scanner.run(submit))
        await scanner.opened.wait()
        await device.send(b"8H\r")
        await until(lambda: any(isinstance(event, CardScanned) for event in told))
        device.unplug()
        await until(lambda: any(isinstance(event, FaultSeen) for event in told))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        gone, card, lost = told
        assert isinstance(gone, FaultGone)
        assert isinstance(card, CardScanned)
        assert isinstance(lost, FaultSeen)
        assert card.hand
        assert (gone.code, gone.part) == (lost.code, lost.part) == ("hand_scanner", "scanner.hand")

    run(scenario)


# --- what a technician sees (B10) ------------------------------------------------------------------------


def test_diag_tells_no_face_that_came_with_a_shoe_in_play_nor_while_one_is() -> None:
    device, clear = Device(), True

    async def scenario() -> None:
        nonlocal clear
        scanner = ScannerSerial(
            port=device.path, baud=9600, codes=CODES, idle_ms=30_000, retry_s=(0.005, 0.02), in_clear=lambda: clear
        )
        assert (scanner.diag()["open"], scanner.diag()["last"]) == (False, [])
        async with reading(scanner) as table:
            await scanner.opened.wait()
            await device.send(b"8H\rJOKER\r")
            await until(lambda: len(table.said) == 2)
            told = scanner.diag()
            assert told["last"] == [{"kind": "card", "text": "8H"}, {"kind": "unknown", "text": "JOKER"}]
            assert (told["port"], told["open"], told["fault"]) == (device.path, True, "")
            assert told["counted"] == {"clean": 2, "dirty": 0, "halves": 0, "overlong": 0, "repeats": 0}
            clear = False
            await device.send(b"TC\rCUT\rNOREAD\rQ\x00D\r1010\r")
            await until(lambda: len(table.said) == 7)
            kinds = ["card", "unknown", "card", "cut card", "misread", "noise", "unknown"]
            assert scanner.diag()["last"] == [{"kind": kind, "text": None} for kind in kinds]
            clear = True
            texts = [line["text"] for line in scanner.diag()["last"]]
            assert texts == ["8H", "JOKER", *[None] * 5]
            device.unplug()
            await until(lambda: "fault" in table.said)
            told = scanner.diag()
            assert (told["open"], "check the scanner's plug" in told["fault"]) == (False, True)

    run(scenario)


def test_diag_keeps_texts_to_itself_unless_told_otherwise() -> None:
    scanner = check([b"8H\r" * 20], ["8H"] * 20)
    assert {line["text"] for line in scanner.diag()["last"]} == {None}
    assert len(scanner.diag()["last"]) == 8
