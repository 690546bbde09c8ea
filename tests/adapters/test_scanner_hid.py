"""The scanner that types, against a kernel of our own: sockets for devices, a table of what ioctl answers.

Bug reports 34 (modifiers, in full in tests/link/test_keys.py), 35 (unplugged, torn records, cancelled), 28, 32.
"""

import asyncio
import errno
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from controller.adapters import scanner_hid
from controller.adapters.scanner_hid import CHUNK, Kernel, ScannerHid
from controller.core.codes import TABLES, Codes
from controller.link.keys import TYPES
from tests.adapters.scanned import DEADLINE_S, Table, descriptor_count, reading, run, until

CODES = Codes.of("plain", cut="CUT", noread="NOREAD")
ROWS = ("1234567890", "QWERTYUIOP", "ASDFGHJKL", "ZXCVBNM")  # the keys from 2, 16, 30 and 44 on
KEY = {sign: first + index for first, row in zip((2, 16, 30, 44), ROWS, strict=True) for index, sign in enumerate(row)}
ENTER, SHIFT, CAPS, NUM = 28, 42, 58, 69

# linux/input.h on every machine that numbers its ioctls as asm-generic does: x86, ARM
GRAB, SET_CLOCK, GET_KEYS, HAS_KEYS, GET_NAME = 0x40044590, 0x400445A0, 0x80604518, 0x80604521, 0x80504506


def event(kind: int, code: int, value: int, at: int | None = None) -> bytes:
    at = time.monotonic_ns() if at is None else at
    return struct.pack("llHHi", at // 10**9, at % 10**9 // 1000, kind, code, value)


def report(*changes: int, at: int | None = None) -> bytes:
    """Keys that go down, and with a minus keys that go up, in one report."""
    keys = [event(4, 4, 0x70000) + event(1, abs(change), change > 0, at) for change in changes]
    return b"".join([*keys, event(0, 0, 0, at)])


def typed(text: str, end: int = ENTER, at: int | None = None) -> bytes:
    reports = b""
    for sign in text:
        reports += report(SHIFT, KEY[sign], at=at) + report(-KEY[sign], -SHIFT, at=at) if sign.isalpha() else b""
        reports += report(KEY[sign], at=at) + report(-KEY[sign], at=at) if sign.isdigit() else b""
    return reports + (report(end, at=at) + report(-end, at=at) if end else b"")


class Keyboard:
    """A device: `far` is the scanner's end. What ioctl answers, and what it was asked for."""

    def __init__(self, *, has: frozenset[int] = TYPES, name: bytes = b"ACME Scanner") -> None:
        self.far, self.near = socket.socketpair()
        self.far.setblocking(False)
        self.near.setblocking(False)
        self.has, self.name = has, name
        self.down: set[int] = set()
        self.grabbed = self.clock = False
        self.asked = 0  # how often which keys are down
        self.refuse: dict[int, int] = {}  # request -> errno
        self.dead = 0  # the errno with which it reads, once it is gone

    async def send(self, data: bytes) -> None:
        while data:
            try:
                data = data[self.far.send(data) :]
            except BlockingIOError:
                await asyncio.sleep(0.001)

    async def type(self, text: str) -> None:
        await self.send(typed(text))

    def lamps(self) -> list[tuple[int, int]]:
        """What was written to it since the last look: the lamps and whether they are lit."""
        try:
            data = self.far.recv(4096)
        except BlockingIOError:
            return []
        return [(code, value) for *_, kind, code, value in struct.iter_unpack("llHHi", data) if kind == 0x11]

    def unplug(self, error: int = errno.ENODEV) -> None:
        """With 0 it ends as a pipe does."""
        self.dead = error
        self.far.close()

    def close(self) -> None:
        self.far.close()
        self.near.close()

    def ioctl(self, request: int, arg: bytes | int) -> bytes | int:
        if self.dead or request in self.refuse:
            raise OSError(self.refuse.get(request, errno.ENODEV), "refused")
        match request:
            case 0x80604521 | 0x80604518:
                self.asked += request == GET_KEYS
                numbers = self.has if request == HAS_KEYS else self.down
                return sum(1 << number for number in numbers).to_bytes(96, "little")
            case 0x80504506:
                return self.name.ljust(80, b"\0")
            case 0x40044590:
                self.grabbed = arg == 1
                return 0
            case 0x400445A0:
                self.clock = arg == struct.pack("i", time.CLOCK_MONOTONIC)
                return arg
            case _:
                raise OSError(errno.EINVAL, "what is that?")


class Machine:
    """The kernel: devices by their true path, found through links, and by their descriptor."""

    def __init__(self) -> None:
        self.plugged: dict[str, Keyboard] = {}
        self.open: dict[int, Keyboard] = {}
        self.refuse: dict[str, int] = {}
        self.made: list[Keyboard] = []

    def kernel(self) -> Kernel:
        return Kernel(self._open, self._read, os.write, self._ioctl)

    def _open(self, path: str, flags: int) -> int:
        assert flags == os.O_RDWR | os.O_NONBLOCK
        true = os.path.realpath(path)
        if true in self.refuse or true not in self.plugged:
            raise OSError(self.refuse.get(true, errno.ENOENT), "refused", path)
        keyboard = self.plugged[true]
        fd = os.dup(keyboard.near.fileno())
        self.open[fd] = keyboard
        return fd

    def _read(self, fd: int, size: int) -> bytes:
        try:
            data = os.read(fd, size)
        except ConnectionResetError:  # a socket's end where it has unread bytes
            data = b""
        if not data and self.open[fd].dead:
            raise OSError(self.open[fd].dead, "gone")
        return data

    def _ioctl(self, fd: int, request: int, arg: bytes | int) -> bytes | int:
        return self.open[fd].ioctl(request, arg)


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    yield machine
    for keyboard in machine.made:
        keyboard.close()


def plug(machine: Machine, path: Path, keyboard: Keyboard | None = None) -> Keyboard:
    """A keyboard whose device file is `path`."""
    keyboard = keyboard or Keyboard()
    machine.made.append(keyboard)
    machine.plugged[str(path)] = keyboard
    return keyboard


def make(machine: Machine, path: Path, *, repeat_ms: int = 0, idle_ms: int = 3_600_000) -> ScannerHid:
    return ScannerHid(
        port=str(path),
        codes=CODES,
        repeat_ms=repeat_ms,
        idle_ms=idle_ms,
        retry_s=(0.005, 0.02),
        kernel=machine.kernel(),
    )


def check(machine: Machine, path: Path, data: bytes, expected: list[str], *, repeat_ms: int = 0) -> None:
    """What events, sent in one piece and byte by byte, come to; a cut card at their end tells that all were read."""
    for size in (len(data) or 1, 7):

        async def scenario(size: int = size) -> None:
            keyboard = plug(machine, path)
            async with reading(make(machine, path, repeat_ms=repeat_ms)) as table:
                await table.scanner.opened.wait()
                for start in range(0, len(data), size):
                    await keyboard.send(data[start : start + size])
                await keyboard.type("CUT")
                await until(lambda: "cut" in table.said)
                assert table.said == [*expected, "cut"]
            keyboard.close()

        run(scenario)


def keys(*signs: str) -> bytes:
    """Each down and up, as it is on the key: letters without a shift."""
    return b"".join([report(KEY[sign]) + report(-KEY[sign]) for sign in signs])


PROGRAMS = {
    "a card": (typed("8H"), ["8H"]),
    "Enter of the keypad": (typed("8H", 96), ["8H"]),
    "two Enters are one (37)": (typed("8H") + typed(""), ["8H"]),
    "two equal codes are two cards (37)": (typed("8H") * 2, ["8H", "8H"]),
    "no-read": (typed("NOREAD") + typed("8H"), ["unread:NOREAD", "8H"]),
    "a foreign code": (typed("JOKER"), ["unknown:JOKER"]),
    "a letter without its shift (34)": (keys("8", "H") + typed(""), ["unknown:8h"]),
    "a stroke that is no character": (report(59) + typed("8H"), ["unread:\\x1a8H"]),
    "Ctrl-J for an end is none": (report(29) + keys("J") + report(-29) + typed("8H"), ["unread:\\x1a\\x1a8H"]),
    "two keys in one report (34)": (report(KEY["8"], KEY["9"]) + typed("H"), ["unread:\\x18H"]),
}


@pytest.mark.parametrize(("data", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_events_become_cards(machine: Machine, tmp_path: Path, data: bytes, expected: list[str]) -> None:
    check(machine, tmp_path / "event5", data, expected)


def test_every_code_of_every_table(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "event5"

    async def scenario(table: str) -> None:
        keyboard = plug(machine, path)
        scanner = ScannerHid(port=str(path), codes=Codes.of(table), idle_ms=60_000, kernel=machine.kernel())
        async with reading(scanner) as got:
            await scanner.opened.wait()
            await keyboard.send(b"".join(map(typed, TABLES[table])))
            await until(lambda: len(got.events) == 52)
            assert got.said == list(TABLES[table].values())
        keyboard.close()

    for name in TABLES:
        run(partial(scenario, name))


def test_bug_37_repeats_are_no_cards_only_where_asked(machine: Machine, tmp_path: Path) -> None:
    check(machine, tmp_path / "event5", typed("8H") * 3 + typed("TC"), ["8H", "again", "again", "TC"], repeat_ms=30_000)


# --- times ------------------------------------------------------------------------------------------------


def test_a_card_has_the_time_of_the_kernels_event(machine: Machine, tmp_path: Path) -> None:
    at = time.monotonic_ns() // 1000 * 1000

    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        async with reading(make(machine, tmp_path / "event5")) as table:
            await table.scanner.opened.wait()
            assert keyboard.clock
            await keyboard.send(typed("8H", at=at) + typed("TC", at=at + 10**15))  # from a clock that is ahead
            await until(lambda: len(table.events) == 2)
            assert table.events[0].at == at < table.events[1].at <= time.monotonic_ns()
        keyboard.close()

    run(scenario)


def test_without_the_kernels_clock_it_has_the_time_of_reading(machine: Machine, tmp_path: Path) -> None:
    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        keyboard.refuse = {SET_CLOCK: errno.EINVAL}
        async with reading(make(machine, tmp_path / "event5")) as table:
            await table.scanner.opened.wait()
            before = time.monotonic_ns()
            await keyboard.send(typed("8H", at=1_700_000_000 * 10**9))
            await until(lambda: table.events)
            assert before <= table.events[0].at
        keyboard.close()

    run(scenario)


# --- whose keyboard ---------------------------------------------------------------------------------------


def test_it_is_grabbed_and_let_go_when_the_source_is_cancelled(machine: Machine, tmp_path: Path) -> None:
    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        async with reading(make(machine, tmp_path / "event5")) as table:
            await table.scanner.opened.wait()
            assert keyboard.grabbed
            count = descriptor_count()
        assert descriptor_count() == count - 1, "the kernel ends the grab of a descriptor that is closed"
        keyboard.close()

    run(scenario)


def test_only_the_configured_path_is_touched(machine: Machine, tmp_path: Path) -> None:
    async def scenario() -> None:
        keyboard, technicians = plug(machine, tmp_path / "event5"), plug(machine, tmp_path / "event0")
        async with reading(make(machine, tmp_path / "event5")) as table:
            await table.scanner.opened.wait()
            keyboard.unplug()
            await until(lambda: "fault" in table.said)
            await asyncio.sleep(0.1)
            assert not technicians.grabbed and table.said == ["fault"]
        keyboard.close()
        technicians.close()

    run(scenario)


NOT_KEYBOARDS = {
    "a power button": frozenset((116,)),
    "a mouse": frozenset((272, 273, 274)),
    "a remote control without letters": TYPES - set(KEY.values()),
    "a keypad without Enter": TYPES - {ENTER},
    "nothing at all": frozenset(),
}


@pytest.mark.parametrize("has", NOT_KEYBOARDS.values(), ids=NOT_KEYBOARDS)
def test_what_is_no_keyboard_is_not_grabbed(machine: Machine, tmp_path: Path, has: frozenset[int]) -> None:
    path = tmp_path / "event3"

    async def scenario() -> None:
        device = plug(machine, path, Keyboard(has=has))
        count = descriptor_count()
        async with reading(make(machine, path)) as table:
            await table.scanner.tried.wait()
            await asyncio.sleep(0.1)
            assert table.said == ["fault"] and not device.grabbed and descriptor_count() <= count + 1
            assert table.fault == (
                f"scanner port {path} is no keyboard: name the scanner's file in /dev/input/by-id "
                "that ends in -event-kbd"
            )
        device.close()

    run(scenario)


def test_what_types_no_codes_is_doubted(machine: Machine, tmp_path: Path) -> None:
    """The technician's keyboard, under a wrong name."""

    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        async with reading(make(machine, tmp_path / "event5")) as table:
            await table.scanner.opened.wait()
            for word in ("SUDO", "APT", "UPDATE", "LS", "TOP", "EXIT"):
                await keyboard.type(word)
            await until(lambda: "fault" in table.said)
            assert "sends nothing that is a code: check that it is the scanner" in table.fault
            await keyboard.type("8H")
            await until(lambda: table.said[-2:] == ["gone", "8H"])
        keyboard.close()

    run(scenario)


REFUSALS = [  # what open or an ioctl says, and the words of the fault
    (0, errno.ENOENT, "is not there: check the scanner's plug and power, and the name in scanner.port"),
    (0, errno.EACCES, "may not be opened by this user: add the user to the group input"),
    (GRAB, errno.EBUSY, "is held by another program"),
    (HAS_KEYS, errno.ENOTTY, "is no input device: name the scanner's file in /dev/input/by-id"),
    (HAS_KEYS, errno.ENODEV, "is gone: check the scanner's plug and power"),
    (GRAB, errno.ENODEV, "is gone"),
    (SET_CLOCK, errno.ENODEV, "is gone"),
    (GET_NAME, errno.ENODEV, "is gone"),
    (GET_KEYS, errno.ENODEV, "is gone"),
    (HAS_KEYS, errno.EPIPE, "failed ([Errno 32] refused): check scanner.port"),
]


@pytest.mark.parametrize(("request_", "number", "words"), REFUSALS)
def test_a_refusal_is_one_fault_that_says_what_to_do(
    machine: Machine, tmp_path: Path, request_: int, number: int, words: str
) -> None:
    path = tmp_path / "event5"

    async def scenario() -> None:
        keyboard = plug(machine, path)
        keyboard.refuse = {request_: number} if request_ else {}
        machine.refuse = {} if request_ else {str(path): number}
        count = descriptor_count()
        async with reading(make(machine, path)) as table:
            await table.scanner.tried.wait()
            await asyncio.sleep(0.15)
            assert table.said == ["fault"] and table.fault.startswith(f"scanner port {path} {words}")
            assert descriptor_count() <= count + 1
            keyboard.refuse, machine.refuse = {}, {}
            await table.scanner.opened.wait()
            await keyboard.type("8H")
            await until(lambda: table.said == ["fault", "gone", "8H"])
        keyboard.close()

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("null", "is no input device"),
        ("file", "is no input device"),
        ("fifo", "is no input device"),
        ("folder", "is no"),
    ],
)
def test_the_true_kernel_refuses_what_is_no_input_device(tmp_path: Path, kind: str, words: str) -> None:
    path = Path("/dev/null") if kind == "null" else tmp_path / kind
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "file":
        path.touch()

    async def scenario() -> None:
        async with reading(ScannerHid(port=str(path), codes=CODES)) as table:
            await table.scanner.tried.wait()
            assert table.fault.startswith(f"scanner port {path} is no input device: name the scanner's file in")

    run(scenario)


def test_the_requests_have_the_numbers_of_the_kernels_header() -> None:
    ours = scanner_hid.EVIOCGRAB, scanner_hid.EVIOCSCLOCKID, scanner_hid.EVIOCGKEY, scanner_hid.EVIOCGBIT_KEY
    assert (*ours, scanner_hid.EVIOCGNAME) == (GRAB, SET_CLOCK, GET_KEYS, HAS_KEYS, GET_NAME)


# --- a keyboard that is lost ------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.ENODEV, errno.EIO, 0])
@pytest.mark.parametrize("rest", [0, 1, 23, 24, 30])
def test_bug_35_unplugged_in_the_middle_of_a_record_is_one_fault(
    machine: Machine, tmp_path: Path, error: int, rest: int
) -> None:
    path = tmp_path / "event5"

    async def scenario() -> None:
        keyboard = plug(machine, path)
        async with reading(make(machine, path)) as table:
            await table.scanner.opened.wait()
            await keyboard.send(typed("8H") + typed("T", 0) + typed("C")[:rest])
            await until(lambda: table.said == ["8H"])
            del machine.plugged[str(path)]
            keyboard.unplug(error)
            await until(lambda: "fault" in table.said)
            assert table.fault == f"scanner port {path} is gone: check the scanner's plug and power"
            assert not table.scanner.opened.is_set()
            await asyncio.sleep(0.1)
            assert table.said == ["8H", "fault"]
            keyboard.close()
            fresh = plug(machine, path)
            await table.scanner.opened.wait()
            await fresh.type("C")  # no half of before is the head of what comes now
            await fresh.type("KD")
            await until(lambda: len(table.events) == 5)
            assert table.said[2:] == ["gone", "unread:C", "KD"]
        fresh.close()

    run(scenario)


def test_bug_28_it_comes_back_under_another_number(machine: Machine, tmp_path: Path) -> None:
    link = tmp_path / "usb-ACME-event-kbd"

    async def scenario() -> None:
        async with reading(make(machine, link)) as table:
            for number in range(5, 10):
                path = tmp_path / f"event{number}"
                keyboard = plug(machine, path)
                link.symlink_to(path)
                await table.scanner.opened.wait()
                await keyboard.type("8H")
                await until(lambda: table.said[-1:] == ["8H"])
                link.unlink()
                keyboard.unplug()
                await until(lambda: table.said[-1] == "fault")
                keyboard.close()
            assert table.said == (["gone", "8H", "fault"] * 5)[1:]

    run(scenario)


@pytest.mark.parametrize("turns", range(8))
def test_bug_35_cancelled_at_any_moment_within_100_ms(machine: Machine, tmp_path: Path, turns: int) -> None:
    """The bound is tenfold for a machine that does other things too; nothing is left open."""
    path = tmp_path / "event5"

    async def scenario() -> None:
        keyboard = plug(machine, path)
        scanner = make(machine, path)
        count = descriptor_count()
        task = asyncio.create_task(scanner.run(Table(scanner).submit))
        await asyncio.sleep(0.012 * turns)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 1.0
        assert descriptor_count() == count
        keyboard.close()

    run(scenario)


def test_a_lost_keyboard_costs_no_processor_time(machine: Machine, tmp_path: Path) -> None:
    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        scanner = ScannerHid(port=str(tmp_path / "event5"), codes=CODES, kernel=machine.kernel())
        async with reading(scanner) as table:
            await scanner.opened.wait()
            machine.plugged.clear()
            keyboard.unplug()
            await until(lambda: table.events)
            before, began = time.process_time(), time.monotonic()
            await asyncio.sleep(1.0)
            assert time.process_time() - before < (time.monotonic() - began) / 4
        keyboard.close()

    run(scenario)


# --- events that were lost, what came before ----------------------------------------------------------------


def dropped() -> bytes:
    return event(0, 3, 0)


def test_bug_34_after_dropped_events_the_line_is_noise_and_the_keys_are_asked_for(
    machine: Machine, tmp_path: Path
) -> None:
    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        async with reading(make(machine, tmp_path / "event5")) as table:
            await table.scanner.opened.wait()
            asked = keyboard.asked
            keyboard.down = {SHIFT}  # its press was among the lost
            await keyboard.send(report(KEY["8"]) + report(-KEY["8"]) + dropped() + report(KEY["J"]))
            await until(lambda: keyboard.asked == asked + 1)
            await keyboard.send(report(KEY["H"]) + report(-KEY["H"]) + report(-SHIFT) + typed(""))
            await keyboard.type("8H")
            await until(lambda: len(table.events) == 3)
            assert table.said == ["unread:8\\x18", "unread:\\x18H", "8H"]
        keyboard.close()

    run(scenario)


def test_dropped_events_are_told_though_nothing_comes_after_them(machine: Machine, tmp_path: Path) -> None:
    """Whole codes and their Enters may be among them, and a line without end would only be noise in the log."""

    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        async with reading(make(machine, tmp_path / "event5", idle_ms=100)) as table:
            await table.scanner.opened.wait()
            await keyboard.send(dropped())
            await until(lambda: table.said == ["unread:\\x18"])
            await until(lambda: table.scanner.lines.halves)
            await keyboard.type("8H")
            await until(lambda: table.said == ["unread:\\x18", "8H"])
        keyboard.close()

    run(scenario)


def test_lost_while_it_is_asked_after_dropped_events(machine: Machine, tmp_path: Path) -> None:
    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        async with reading(make(machine, tmp_path / "event5")) as table:
            await table.scanner.opened.wait()
            keyboard.refuse = {GET_KEYS: errno.ENODEV, HAS_KEYS: errno.ENODEV}
            await keyboard.send(dropped())
            await until(lambda: table.said == ["fault"])
            assert "is gone" in table.fault
        keyboard.close()

    run(scenario)


def test_what_was_typed_before_it_was_ours_is_not_taken(machine: Machine, tmp_path: Path) -> None:
    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        await keyboard.send(typed("8H") + typed("NORE", 0))
        async with reading(make(machine, tmp_path / "event5")) as table:
            await table.scanner.opened.wait()
            await keyboard.type("KD")
            await until(lambda: table.said == ["KD"])
        keyboard.close()

    run(scenario)


def test_a_key_that_is_down_as_it_opens_belongs_to_a_line_begun_unseen(machine: Machine, tmp_path: Path) -> None:
    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        keyboard.down = {KEY["E"]}
        async with reading(make(machine, tmp_path / "event5")) as table:
            await table.scanner.opened.wait()
            await keyboard.send(report(-KEY["E"]) + typed("AD") + typed("8H"))
            await until(lambda: table.said == ["8H"])
        keyboard.close()

    run(scenario)


def test_a_device_that_never_pauses_is_read_from_its_next_line(machine: Machine, tmp_path: Path) -> None:
    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        async with reading(make(machine, tmp_path / "event5")) as table:
            while not table.scanner.opened.is_set():
                await keyboard.send(typed("X", 0))
                await asyncio.sleep(0.005)
            await keyboard.send(typed("AD") + typed("8H"))
            await until(lambda: table.said == ["8H"])
        keyboard.close()

    run(scenario)


def test_a_device_without_end_does_not_hold_the_loop(machine: Machine, tmp_path: Path) -> None:
    """Reading at the opening is bounded, however fast it types."""
    zeros = bytes(CHUNK)
    kernel = machine.kernel()._replace(read=lambda *_: zeros)

    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        scanner = ScannerHid(port=str(tmp_path / "event5"), codes=CODES, kernel=kernel)
        async with reading(scanner):
            await asyncio.wait_for(scanner.opened.wait(), DEADLINE_S)
        keyboard.close()

    run(scenario)


# --- locks ------------------------------------------------------------------------------------------------


def test_the_locks_are_ours_and_the_scanner_sees_them(machine: Machine, tmp_path: Path) -> None:
    """Some scanners type by their lamps, some press the lock's key: either way the code is the label's (34)."""

    async def scenario() -> None:
        keyboard = plug(machine, tmp_path / "event5")
        async with reading(make(machine, tmp_path / "event5")) as table:
            await table.scanner.opened.wait()
            assert keyboard.lamps() == [(1, 0), (0, 1)], "CapsLock dark, NumLock lit"
            seen: list[tuple[int, int]] = []

            def all_lamps() -> list[tuple[int, int]]:
                seen.extend(keyboard.lamps())
                return seen

            async def lamps(expected: list[tuple[int, int]]) -> None:
                await until(lambda: all_lamps() == expected)
                seen.clear()

            await keyboard.send(report(CAPS) + report(-CAPS))
            await lamps([(1, 1), (0, 1)])
            await keyboard.send(report(KEY["8"]) + report(-KEY["8"]) + report(KEY["H"]) + report(-KEY["H"]) + typed(""))
            await keyboard.send(report(CAPS) + report(-CAPS))
            await lamps([(1, 0), (0, 1)])
            await keyboard.send(report(80) + report(-80) + report(ENTER) + report(-ENTER))  # 2 on the keypad
            await keyboard.send(report(NUM) + report(-NUM))
            await lamps([(1, 0), (0, 0)])
            await keyboard.send(dropped())
            await lamps([(1, 0), (0, 1)])
            assert table.said == ["8H", "unknown:2", "unread:\\x18"]
        keyboard.close()

    run(scenario)


def test_a_defect_of_ours_ends_the_source(machine: Machine, tmp_path: Path) -> None:
    """It is no fault of the device, and it must not be one line in a log."""

    async def scenario() -> None:
        def refuse(event: object) -> "asyncio.Future[object]":
            raise OSError("a defect")

        keyboard = plug(machine, tmp_path / "event5")
        scanner = make(machine, tmp_path / "event5")
        submit: Callable[..., asyncio.Future[object]] = refuse
        task = asyncio.create_task(scanner.run(submit))  # type: ignore[arg-type]
        await scanner.opened.wait()
        await keyboard.type("8H")
        with pytest.raises(OSError, match="a defect"):
            await asyncio.wait_for(task, DEADLINE_S)
        keyboard.close()

    run(scenario)
