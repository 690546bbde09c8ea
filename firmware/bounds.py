"""The firmware's bounds, read from what was built: flash, memory, the deepest stack, the longest way of interrupts.

`python bounds.py BUILD` prints them, and fails over a limit. The stack is gcc's `-fstack-usage` along the deepest
way of calls, and under it the deepest interrupt, for none interrupts another. An interrupt's time is the longest way
through its instructions (AVR Instruction Set Manual DS40002198, AVRe+), so it must have no loop.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FLASH = 32 * 1024
RAM = 2 * 1024
TICK_CYCLES = 2000  # of 16 MHz, 8 kHz
FLASH_MOST, RAM_MOST, STACK_MOST, TICK_MOST = 0.60, 0.50, 0.65, 0.40  # STACK_MOST: of memory, all else in it

TICK = "__vector_11"  # TIMER1_COMPA of the ATmega328P
INTERRUPTS = {TICK: "tick", "__vector_18": "receive", "__vector_19": "send"}
ENTRY_CYCLES = 4 + 3  # to leave what runs, and the jump in the vector table

CYCLES = {
    1: "adc add and andi asr bclr bld bset bst clc cli clr cls clt clz cln com cp cpc cpi dec eor in inc ldi lsl lsr"
    " mov movw neg nop or ori out rol ror sbc sbci sec sei ser set sub subi swap tst wdr sez",
    2: "adiw cbi ld ldd lds mul muls mulsu pop push rjmp sbi sbiw st std sts",
    3: "jmp lpm rcall",
    4: "call ret reti",
}
TIME = {name: cycles for cycles, names in CYCLES.items() for name in names.split()}
SKIPS = ("cpse", "sbic", "sbis", "sbrc", "sbrs")
ENDS = ("ret", "reti", "jmp", "rjmp", "ijmp")
WORDS_2 = ("call", "jmp", "lds", "sts")


Above = tuple[tuple[int, bool], ...]


class BoundError(Exception):
    """What was built cannot be bounded. The text says where and why."""


class Instruction(NamedTuple):
    at: int
    name: str
    target: int | None  # of a jump, call or branch


class Function(NamedTuple):
    name: str
    code: list[Instruction]


Functions = dict[int, Function]  # by where they begin; the compiler's library has labels inside its own: such count too


def disassembled(elf: Path) -> Functions:
    command = ["avr-objdump", "-d", "--no-show-raw-insn", str(elf)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - as the Makefile does
    functions: Functions = {}
    code: list[Instruction] = []
    for line in text.splitlines():
        if label := re.fullmatch(r"([0-9a-f]+) <(.+)>:", line):
            code = []
            functions[int(label[1], 16)] = Function(label[2], code)
        elif step := re.match(r"\s+([0-9a-f]+):\s+(\S+)(.*)", line):
            goes = step[2].startswith("br") or step[2] in ("call", "rcall", "jmp", "rjmp")
            found = re.search(r"0x([0-9a-f]+)(?:\s+<.+>)?$", step[3]) if goes else None
            code.append(Instruction(int(step[1], 16), step[2], int(found[1], 16) if found else None))
    return functions


def stacks(build: Path) -> dict[str, int]:
    """Bytes of each C function's frame, its return address too; the most where two files have one of that name."""
    frames: dict[str, int] = {}
    for line in (line for file in build.glob("*.su") for line in file.read_text().splitlines()):
        place, size, kind = line.split("\t")
        if kind not in ("static", "dynamic,bounded"):
            raise BoundError(f"{place} has no bound on its stack: {kind}")
        name = place.rsplit(":", 1)[1].split(".")[0]
        frames[name] = max(frames.get(name, 0), int(size))
    return frames


def ways_out(begin: int, functions: Functions) -> Iterator[tuple[int, bool]]:
    """The functions that it goes on to, and whether it comes back: calls, jumps, and falling through its end."""
    name, code = functions[begin]
    for step in code:
        if step.name in ("icall", "ijmp") and name != "__tablejump2__":
            raise BoundError(f"{name} calls by a pointer at {step.at:#x}: nobody knows what")
        if step.target in functions:
            yield step.target, step.name in ("call", "rcall")
    starts = list(functions)
    if code[-1].name not in ENDS:
        yield starts[starts.index(begin) + 1], False


def deepest(begin: int, functions: Functions, frames: dict[str, int], above: Above = ()) -> int:
    """The most bytes of stack that it and what it calls take; BoundError where it calls itself.

    `above` is how it came to be: functions, and whether each called the next. A loop of jumps takes no more stack.
    """
    way = [each for each, _ in above]
    name, code = functions[begin]
    if begin in way:
        if any(called for _, called in above[way.index(begin) :]):
            raise BoundError(f"{name} calls itself")
        return 0
    frame = frames.get(name.split(".", maxsplit=1)[0])
    own = frame or 2 + sum(step.name == "push" for step in code)
    most = own
    for to, called in ways_out(begin, functions):
        stays = own if called or frame is None else 0  # a C function that jumps to another has given up its frame
        most = max(most, stays + deepest(to, functions, frames, (*above, (begin, called))))
    return most


def longest(begin: int, functions: Functions) -> int:
    """The cycles of its longest way, what it calls included; BoundError where it has a loop."""
    name, code = functions[begin]
    place = {step.at: index for index, step in enumerate(code)}
    most = [0] * (len(code) + 1)

    def onward(index: int, target: int | None) -> int:
        to = place.get(target if target is not None else -1, -1)
        if to < 0:
            raise BoundError(f"{name} leaves itself at {code[index].at:#x}")
        if to <= index:
            raise BoundError(f"{name} has a loop at {code[index].at:#x}")
        return most[to]

    for index in reversed(range(len(code))):
        step = code[index]
        after = most[index + 1]
        if step.name.startswith("br"):
            most[index] = max(1 + after, 2 + onward(index, step.target))
        elif step.name in SKIPS:
            over = 3 if code[index + 1].name in WORDS_2 else 2
            most[index] = max(1 + after, over + most[index + 2])
        elif step.name in ("jmp", "rjmp"):
            most[index] = TIME[step.name] + onward(index, step.target)
        elif step.name not in TIME:
            raise BoundError(f"{name}: nobody has said how long {step.name} takes")
        else:
            called = longest(step.target, functions) if step.name in ("call", "rcall") and step.target else 0
            most[index] = TIME[step.name] + called + (0 if step.name in ENDS else after)
    return most[0]


def sections(elf: Path) -> tuple[int, int]:
    """Bytes of flash and of memory that it takes."""
    command = ["avr-size", "-A", str(elf)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - as above
    sizes = {row[0]: int(row[1]) for line in text.splitlines() if len(row := line.split()) == 3 and row[1].isdigit()}
    return sizes[".text"] + sizes[".data"], sizes[".data"] + sizes[".bss"] + sizes[".noinit"]


def measured(build: Path) -> list[tuple[str, float, float, float]]:
    """What is bounded: its name, figure, limit and whole."""
    elf = build / "head.elf"
    functions, frames = disassembled(elf), stacks(build)
    named = {function.name: begin for begin, function in functions.items()}
    flash, static = sections(elf)
    stack = deepest(named["main"], functions, frames) + max(
        deepest(named[name], functions, frames) for name in INTERRUPTS
    )
    rows = [
        ("flash, bytes", flash, FLASH_MOST, FLASH),
        ("memory, bytes", static, RAM_MOST, RAM),
        (f"memory, with {stack} bytes of stack", static + stack, STACK_MOST, RAM),
    ]
    for name, what in INTERRUPTS.items():
        rows.append(
            (f"interrupt {what}, cycles", ENTRY_CYCLES + longest(named[name], functions), TICK_MOST, TICK_CYCLES)
        )
    return rows


def main(build: Path) -> int:
    rows = measured(build)
    for what, figure, most, whole in rows:
        print(f"{what:45} {figure:6.0f} of {whole:6.0f}  {figure / whole:6.1%}, at most {most:.0%}")
    over = [what for what, figure, most, whole in rows if figure > most * whole]
    for what in over:
        print(f"too much: {what}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except BoundError as error:
        sys.exit(f"the bounds are not known: {error}")
