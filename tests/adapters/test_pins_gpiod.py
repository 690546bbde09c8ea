"""gpiozero's devices on our gpiod factory, on chips in memory; which factory is had, and which is refused.

Bug reports 1, 2, 4, 9, 11 (there is no thread to wake the loop from), 12; libraries.md G1, G2, G6, G7, G10, G11.
"""

import asyncio
import errno
import gc
import inspect
import os
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpiod
import gpiozero
import pytest
from gpiod.line import Bias, Clock, Direction, Edge
from gpiozero.pins.mock import MockFactory

from controller.adapters import pins_gpiod
from controller.adapters.pins_gpiod import EVENTS_MAX, GpiodFactory, PinsError, factory, header_chip
from tests import virtual_time
from tests.gpio_chips import Bank, FakeChip, FakeRequest, Machine

ROOT = Path(__file__).parents[2]
PI4, PI5, PI3 = "pinctrl-bcm2711", "pinctrl-rp1", "pinctrl-bcm2835"
MS = 1_000_000


def pi(label: str = PI4, **others: str) -> tuple[Machine, Bank]:
    """A Pi with its header's chip as gpiochip0, and others."""
    bank = Bank("gpiochip0", label)
    return Machine(gpiochip0=bank, **{name: Bank(name, text) for name, text in others.items()}), bank


def on(machine: Machine, now: Callable[[], int] = time.monotonic_ns) -> GpiodFactory:
    return GpiodFactory(open_chip=machine.open, paths=machine.paths, now=now)


# --- the chip -----------------------------------------------------------------------------------------------

BROADCOM = "gpio-brcmstb@107d508500"


@pytest.mark.parametrize(
    ("chips", "path"),
    [
        ({"gpiochip0": PI4, "gpiochip1": "raspberrypi-exp-gpio"}, "/dev/gpiochip0"),
        ({"gpiochip0": "raspberrypi-exp-gpio", "gpiochip1": PI3}, "/dev/gpiochip1"),
        ({"gpiochip0": BROADCOM, "gpiochip1": BROADCOM, "gpiochip4": PI5}, "/dev/gpiochip4"),  # before kernel 6.6.45
        ({"gpiochip0": PI5, "gpiochip10": BROADCOM, "gpiochip11": BROADCOM}, "/dev/gpiochip0"),  # since: bug report 2
        ({"gpiochip0": "mcp23017", "gpiochip1": PI4, "gpiochip2": "mcp23017"}, "/dev/gpiochip1"),
    ],
)
def test_the_chip_is_found_by_its_label(chips: dict[str, str], path: str) -> None:
    machine = Machine(**{name: Bank(name, label) for name, label in chips.items()})
    assert header_chip(machine.open, machine.paths) == (path, machine.banks[path].info.label)
    with gpiozero.LED(5, pin_factory=on(machine)):
        assert machine.opened[-1] == path


def test_one_chip_by_two_paths_is_one() -> None:
    """Raspberry Pi OS makes gpiochip4 a link to gpiochip0."""
    machine, bank = pi(PI5)
    machine.banks["/dev/gpiochip4"] = bank
    assert header_chip(machine.open, machine.paths) == ("/dev/gpiochip0", PI5)


@pytest.mark.parametrize(
    ("chips", "says"),
    [
        ({}, ("no GPIO chip", "there is none", "Raspberry Pi?")),
        ({"gpiochip0": "gpio-sim.0-node0"}, ("no GPIO chip", "/dev/gpiochip0 (gpio-sim.0-node0)", *pins_gpiod.BOARDS)),
        ({"gpiochip0": PI4, "gpiochip3": PI5}, ("more than one", f"/dev/gpiochip0 ({PI4})", f"/dev/gpiochip3 ({PI5})")),
        ({"gpiochip0": PI4, "gpiochip3": PI4}, ("more than one", f"/dev/gpiochip3 ({PI4})")),
    ],
)
def test_none_or_two_are_an_error_that_says_so(chips: dict[str, str], says: tuple[str, ...]) -> None:
    machine = Machine(**{name: Bank(name, label) for name, label in chips.items()})
    with pytest.raises(PinsError) as error:
        gpiozero.LED(5, pin_factory=on(machine))
    assert [text for text in says if text not in str(error.value)] == []


def test_a_chip_that_may_not_be_opened_is_named_with_the_cure() -> None:
    machine, bank = pi()
    bank.denied = True
    with pytest.raises(PinsError, match=r"/dev/gpiochip0 \(not for this user: add the user to the group gpio\)"):
        gpiozero.LED(5, pin_factory=on(machine))


def test_the_real_gpiod_refuses_what_is_no_chip_as_we_expect() -> None:
    with pytest.raises(PinsError, match=r"Raspberry Pi.*/dev/null.*/dev/nothing"):
        header_chip(gpiod.Chip, lambda: ["/dev/null", "/dev/nothing"])


def test_making_a_factory_opens_nothing() -> None:
    machine, _ = pi()
    on(machine)
    assert machine.opened == []


# --- outputs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", pins_gpiod.BOARDS)
@pytest.mark.parametrize("device", [gpiozero.LED, gpiozero.Buzzer])
def test_an_output_is_on_off_and_off_before_its_release(label: str, device: Callable[..., Any]) -> None:
    """G10: a line that is given back may float; its last driven level is off. BCM numbers are the chip's offsets."""
    machine, bank = pi(label)
    pins = on(machine)
    for number in range(28):
        bank.log.clear()
        output = device(number, pin_factory=pins)
        output.on()
        assert output.value == 1
        output.off()
        output.on()
        output.close()
        expected = [(number, level) for level in (False, True, False, True, False, "released")]
        assert bank.log == expected
        assert not bank.lines[number].holder


def test_closing_the_factory_puts_every_output_off() -> None:
    machine, bank = pi()
    pins = on(machine)
    lamps = [gpiozero.LED(number, initial_value=True, pin_factory=pins) for number in (5, 6)]
    pins.close()
    assert [entry for entry in bank.log if entry[0] == 6] == [(6, True), (6, False), (6, "released")]
    for lamp in lamps:
        lamp.close()


def test_an_output_is_never_on_on_its_way_to_off() -> None:
    machine, bank = pi()
    bank.lines[5].outside = True  # a line that is pulled up while it is nobody's
    with gpiozero.LED(5, active_high=False, initial_value=False, pin_factory=on(machine)):
        assert bank.log == [(5, True)]
    assert bank.log[1:] == [(5, False), (5, "released")]


@pytest.mark.parametrize(
    ("act", "error", "says"),
    [
        (lambda pin: pin.output_with_state(True) or setattr(pin, "frequency", 100), gpiozero.PinPWMUnsupported, "PWM"),
        (lambda pin: pin.output_with_state(False) or setattr(pin, "state", 0.5), gpiozero.PinInvalidState, "no PWM"),
        (lambda pin: setattr(pin, "state", 1), gpiozero.PinSetInput, "is an input"),
        (lambda pin: setattr(pin, "function", "i2c"), gpiozero.PinInvalidFunction, "input or output"),
        (lambda pin: setattr(pin, "pull", "sideways"), gpiozero.PinInvalidPull, "up, down or floating"),
        (lambda pin: pin.output_with_state(True) or setattr(pin, "pull", "up"), gpiozero.PinFixedPull, "is an output"),
        (lambda pin: setattr(pin, "edges", "odd"), gpiozero.PinInvalidEdges, "none, rising, falling or both"),
        (lambda pin: setattr(pin, "bounce", 0.01), gpiozero.PinInvalidBounce, "leave bounce_time out"),
    ],
)
def test_what_a_pin_cannot_is_said_with_its_place(
    act: Callable[[Any], None], error: type[Exception], says: str
) -> None:
    machine, _ = pi()
    pin = on(machine).pin(16)
    with pytest.raises(error) as caught:
        act(pin)
    assert says in str(caught.value)
    assert "GPIO16" in str(caught.value)
    pin.close()


# --- one owner a line (bug report 9, G11) -------------------------------------------------------------------


def test_a_busy_line_names_who_has_it() -> None:
    machine, bank = pi()
    bank.lines[26].holder = "gpio-fan"
    with pytest.raises(gpiozero.GPIOPinInUse, match=r"GPIO26 \(pin 37 of the header J8\) is held by gpio-fan: stop"):
        gpiozero.LED(26, pin_factory=on(machine))


def test_another_table_names_its_process() -> None:
    machine, bank = pi()
    with gpiozero.LED(26, pin_factory=on(machine)):
        assert bank.lines[26].holder == f"baccarat-table {os.getpid()}"
        with pytest.raises(gpiozero.GPIOPinInUse, match=f"held by baccarat-table {os.getpid()}: stop that program"):
            gpiozero.LED(26, pin_factory=on(machine))


def test_a_pin_used_twice_in_one_program_names_its_device() -> None:
    machine, _ = pi()
    pins = on(machine)
    with gpiozero.LED(26, pin_factory=pins), pytest.raises(gpiozero.GPIOPinInUse, match=r"GPIO26.*gpiozero\.LED"):
        gpiozero.Buzzer(26, pin_factory=pins)


def test_a_line_once_refused_is_ours_when_it_is_free() -> None:
    """A device that could not be made must not close, when it is collected, the line of the one that could."""
    machine, bank = pi()
    pins = on(machine)
    bank.lines[26].holder = "gpio-fan"
    with pytest.raises(gpiozero.GPIOPinInUse):
        gpiozero.LED(26, pin_factory=pins)
    bank.lines[26].holder = ""
    with gpiozero.LED(26, pin_factory=pins) as lamp:
        gc.collect()
        lamp.on()
        assert bank.lines[26].level is True


def test_other_refusals_keep_their_reason_and_say_where() -> None:
    machine, bank = pi()
    bank.refuses = errno.EINVAL
    with pytest.raises(OSError, match=r"GPIO5 \(pin 29 of the header J8\) of /dev/gpiochip0: Invalid argument"):
        gpiozero.LED(5, pin_factory=on(machine))


# --- inputs and edges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pull_up", "bias", "rest"),
    [(True, Bias.PULL_UP, True), (False, Bias.PULL_DOWN, False), (None, Bias.DISABLED, False)],
)
def test_an_input_is_pulled_and_read(pull_up: bool | None, bias: Bias, rest: bool) -> None:
    machine, bank = pi()
    active = None if pull_up is not None else True
    with gpiozero.InputDevice(16, pull_up=pull_up, active_state=active, pin_factory=on(machine)) as device:
        settings = bank.lines[16].settings
        assert (settings.direction, settings.bias) == (Direction.INPUT, bias)
        assert device.pin.state is rest
        bank.drive(16, 0, level=not rest)
        assert device.pin.state is not rest
        assert device.pull_up is pull_up


def test_a_resistor_on_the_board_is_respected() -> None:
    machine, _ = pi()
    pins = on(machine)
    with gpiozero.InputDevice(2, pull_up=True, pin_factory=pins):
        pass
    with pytest.raises(gpiozero.PinFixedPull, match=r"GPIO2.*resistor that pulls it up"):
        gpiozero.InputDevice(2, pull_up=False, pin_factory=pins)


Told = list[tuple[int, bool]]


class Ear:
    """Keeps what a pin tells; gpiozero refers to it weakly (G8), so that a test holds it."""

    def __init__(self, fails: int = 0) -> None:
        self.told: Told = []
        self.fails = fails

    def hear(self, ticks: int, level: bool) -> None:
        if self.fails:
            self.fails -= 1
            raise RuntimeError("the handler's own fault")
        self.told.append((ticks, level))


def watched(pins: GpiodFactory, ear: Ear) -> gpiozero.InputDevice:
    device = gpiozero.InputDevice(16, pull_up=True, pin_factory=pins)
    device.pin.edges = "both"
    device.pin.when_changed = ear.hear
    return device


async def turn() -> None:
    """The loop reads what is readable, and what follows from it."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_edges_come_with_the_kernels_stamps_and_without_a_thread() -> None:
    """G7: the very nanoseconds of CLOCK_MONOTONIC that the kernel wrote."""
    machine, bank = pi()
    ear = Ear()

    async def main(loop: virtual_time.VirtualLoop) -> None:
        threads = threading.enumerate()
        with watched(on(machine), ear) as device:
            settings = bank.lines[16].settings
            assert (settings.edge_detection, settings.event_clock) == (Edge.BOTH, Clock.MONOTONIC)
            bank.drive(16, 123_456_789_012_345_678, level=False)
            bank.drive(16, 123_456_789_012_345_679, level=True)
            await turn()
            assert ear.told == [(123_456_789_012_345_678, False), (123_456_789_012_345_679, True)]
            assert threading.enumerate() == threads
            device.pin.when_changed = None
            bank.drive(16, 1, level=False)
            await turn()
            assert len(ear.told) == 2

    virtual_time.run(main)


def test_gpiozeros_button_works_through_its_own_api() -> None:
    machine, bank = pi()
    done: list[str] = []

    async def main(loop: virtual_time.VirtualLoop) -> None:
        with gpiozero.Button(20, pin_factory=on(machine, loop.now)) as button:
            button.when_pressed = lambda: done.append("pressed")
            button.when_released = lambda: done.append(f"released, pressed before {button.active_time is None}")
            bank.drive(20, loop.now() - 5 * MS, level=False)
            await turn()
            assert button.is_pressed
            assert button.active_time == pytest.approx(0.005)
            bank.drive(20, loop.now(), level=True)
            await turn()

    virtual_time.run(main)
    assert done == ["pressed", "released, pressed before True"]


def test_edges_need_the_running_loop() -> None:
    machine, _ = pi()
    with pytest.raises(gpiozero.PinEdgeDetectUnsupported, match=r"GPIO16.*running asyncio loop"):
        watched(on(machine), Ear())


def test_more_edges_than_wait_end_on_the_right_level() -> None:
    """Bug report 4, G6: the kernel drops the oldest; the last one told is the level, and the gap is counted."""
    machine, bank = pi()
    ear = Ear()

    async def main(loop: virtual_time.VirtualLoop) -> None:
        with watched(on(machine), ear) as device:
            bank.drive(16, 1, level=False)
            await turn()
            for at in range(2, 2 * EVENTS_MAX):
                bank.drive(16, at, level=at % 2 == 0)
            await turn()
            await turn()
            assert len(ear.told) == 1 + EVENTS_MAX
            assert ear.told[-1] == (2 * EVENTS_MAX - 1, False)
            assert device.pin.gaps == 1

    virtual_time.run(main)


def test_a_loss_before_the_first_edge_is_a_gap_too() -> None:
    machine, bank = pi()

    async def main(loop: virtual_time.VirtualLoop) -> None:
        with watched(on(machine), Ear()) as device:
            for at in range(1, 2 * EVENTS_MAX):
                bank.drive(16, at, level=at % 2 == 0)
            await turn()
            await turn()
            assert device.pin.gaps == 1

    virtual_time.run(main)


def test_the_level_is_read_again_after_a_gap() -> None:
    """Bug report 4: two edges of one direction in a row, and the last edge lost as well."""
    machine, bank = pi()
    ear = Ear()

    async def main(loop: virtual_time.VirtualLoop) -> None:
        with watched(on(machine, loop.now), ear) as device:
            bank.drive(16, 10, level=False)
            bank.drive(16, 20, level=True, lose=True)
            bank.drive(16, 30, level=False)
            bank.drive(16, 40, level=True, lose=True)
            await turn()
            assert ear.told == [(10, False), (30, False), (loop.now(), True)]
            assert device.pin.gaps == 1
            bank.drive(16, 50, level=False)  # the edge lost before it is a gap of its own; the level agrees
            await turn()
            assert ear.told[3:] == [(50, False)]
            assert device.pin.gaps == 2

    virtual_time.run(main)


def test_a_handler_that_fails_keeps_no_later_edge_from_being_told() -> None:
    """Bug report 12, G4: the error is reported by the loop, and the rest of the same reading still comes."""
    machine, bank = pi()
    ear = Ear(fails=1)
    escaped: list[BaseException] = []

    async def main(loop: virtual_time.VirtualLoop) -> None:
        loop.set_exception_handler(lambda _, context: escaped.append(context["exception"]))
        with watched(on(machine), ear):
            for at, level in ((1, False), (2, True), (3, False)):
                bank.drive(16, at, level=level)
            await turn()
            assert ear.told == [(2, True), (3, False)]
            bank.drive(16, 4, level=True)
            await turn()
            assert ear.told[2:] == [(4, True)]

    virtual_time.run(main)
    assert [str(error) for error in escaped] == ["the handler's own fault"]


def test_a_chip_that_goes_is_never_just_silent() -> None:
    """Its descriptor is readable without end: it is read once, and every later use says what happened."""
    machine, bank = pi()
    ear = Ear()

    async def main(loop: virtual_time.VirtualLoop) -> None:
        pins = on(machine)
        device = watched(pins, ear)
        request = bank.lines[16].request
        assert request is not None
        request.hang_up()
        await turn()
        assert not loop.remove_reader(request._read_fd), "it is not read any more"
        bank.gone = False  # a line that came back does not know our request
        with pytest.raises(OSError, match=f"GPIO16 .*{os.strerror(errno.ENODEV)}"):
            device.pin.state  # noqa: B018
        device.close()
        with watched(pins, ear):
            bank.drive(16, 7, level=False)
            await turn()
            assert ear.told == [(7, False)]

    virtual_time.run(main)


def test_an_output_whose_chip_is_gone_closes_and_says_that_it_may_burn(caplog: pytest.LogCaptureFixture) -> None:
    machine, bank = pi()
    lamp = gpiozero.LED(5, initial_value=True, pin_factory=on(machine))
    bank.gone = True
    with pytest.raises(OSError, match=os.strerror(errno.ENODEV)):
        lamp.off()
    lamp.close()
    assert "GPIO5 (pin 29 of the header J8) could not be switched off" in caplog.text
    bank.gone = False
    with gpiozero.LED(5, pin_factory=on(machine)) as again:
        again.on()
        assert bank.lines[5].level is True


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_nothing_is_left_open() -> None:
    machine, bank = pi()

    async def main(loop: virtual_time.VirtualLoop) -> None:
        before = descriptors()
        pins = on(machine)
        devices = [gpiozero.LED(5, pin_factory=pins), gpiozero.Button(6, pin_factory=pins), watched(on(machine), ear)]
        assert descriptors() != before
        for device in devices:
            device.close()
        assert descriptors() == before

    ear = Ear()
    virtual_time.run(main)
    assert not any(line.holder for line in bank.lines)


# --- which factory ------------------------------------------------------------------------------------------


def test_a_factory_is_had_by_its_name() -> None:
    machine, _ = pi()
    assert type(factory("gpiod", open_chip=machine.open, paths=machine.paths)) is GpiodFactory
    assert type(factory("mock")) is MockFactory
    with pytest.raises(PinsError, match="'lgpio' is not known: write gpiod, rpigpio or mock"):
        factory("lgpio")


def test_rpigpio_on_a_pi_5_is_refused_with_the_way_out() -> None:
    machine, _ = pi(PI5, gpiochip10=BROADCOM)
    with pytest.raises(PinsError, match="Raspberry Pi 5: write gpiod"):
        factory("rpigpio", open_chip=machine.open, paths=machine.paths)


RPI_GPIO = """
BCM = 11; OUT, IN = 0, 1; LOW, HIGH = 0, 1; PUD_OFF, PUD_DOWN, PUD_UP = 20, 21, 22; RISING, FALLING, BOTH = 31, 32, 33
I2C, SPI, HARD_PWM, SERIAL, UNKNOWN = 42, 41, 43, 40, -1
def setmode(mode): print("setmode", mode)
def setwarnings(on): pass
"""

CHOOSE = """
import sys
from controller.adapters import pins_gpiod
try:
    print(type(pins_gpiod.factory("rpigpio", paths=list)).__name__)
except pins_gpiod.PinsError as error:
    print("refused:", error)
import gpiozero
assert gpiozero.Device.pin_factory is None
print(sorted({"lgpio", "gpiozero.pins.lgpio", "gpiozero.pins.native"} & {*sys.modules}))
"""


def with_rpi_gpio(folder: Path, module: str | None, program: str) -> str:
    """What a program says where RPi.GPIO is this module; None: it is not installed."""
    if module is not None:
        (folder / "RPi").mkdir()
        (folder / "RPi" / "__init__.py").touch()
        (folder / "RPi" / "GPIO.py").write_text(module)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-W", "error", "-c", program]
    run = subprocess.run(command, env=env, cwd=folder, check=False, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (
            None,
            [
                "refused: ",
                "needs the package RPi.GPIO",
                "No module named 'RPi'",
                "pip install RPi.GPIO, or write gpiod",
            ],
        ),
        ("import os.nothing", ["refused: ", "No module named 'os.nothing'"]),
        ("raise ImportError('libgpio.so: wrong ELF class')", ["refused: ", "libgpio.so: wrong ELF class"]),
        ("raise RuntimeError('This module can only be run on a Raspberry Pi!')", ["refused: ", "only be run on a"]),
        (RPI_GPIO, ["setmode 11", "RPiGPIOFactory"]),
    ],
)
def test_rpigpio_or_the_reason_why_not_and_no_other(tmp_path: Path, module: str | None, says: list[str]) -> None:
    """Bug report 1, G1: what fails inside the import is named, and no other factory is even imported."""
    said = with_rpi_gpio(tmp_path, module, CHOOSE)
    assert [text for text in says if text not in said] == []
    assert said.splitlines()[-1] == "[]"


AT_WORK = """
import asyncio, logging
from controller.adapters import buttons_gpio, lamps_gpio, pins_gpiod
async def main():
    logging.disable()
    pins = pins_gpiod.factory("rpigpio", paths=list)
    type(pins)._get_revision = lambda _: 0xC03111  # a Pi 4's, of which this machine's /proc knows nothing
    lamps, buttons = lamps_gpio.LampsGpio(pins, red=26), buttons_gpio.ButtonsGpio(pins, start=16)
    def submit(event):
        if hasattr(event, "text"):
            print(event.part, event.text)
        return asyncio.get_running_loop().create_future()
    tasks = [asyncio.create_task(device.run(submit)) for device in (lamps, buttons)]
    await asyncio.wait([*tasks, asyncio.create_task(lamps.tried.wait())], return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait([*tasks, asyncio.create_task(buttons.tried.wait())], return_when=asyncio.FIRST_COMPLETED)
    print("at work", not any(task.done() for task in tasks))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    try:
        pins_gpiod.output(pins, 24)
    except OSError as error:
        print("output", error)
asyncio.run(main())
"""
NO_MEMORY = """
def setup(*_, **__): raise RuntimeError("No access to /dev/mem.  Try running as root!")
def cleanup(*_): pass
"""
NO_EDGES = """
def setup(*_, **__): pass
def cleanup(*_): pass
def gpio_function(pin): return IN if pin == 16 else OUT
def input(pin): return 1
def output(pin, value): pass
def add_event_detect(*_, **__): raise RuntimeError("Failed to add edge detection")
def remove_event_detect(*_): pass
"""


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (NO_MEMORY, ["lamps red lamp on GPIO26 fails (No acc", "start button start on GPIO16 cannot be read (No acc"]),
        (NO_EDGES, ["start button start on GPIO16 cannot be read (Failed to add edge detection)"]),
    ],
    ids=["no memory", "no edges"],
)
def test_what_rpi_gpio_refuses_is_a_fault_and_ends_no_table(tmp_path: Path, module: str, says: list[str]) -> None:
    """Its one word is RuntimeError: without /dev/gpiomem for all, on Linux 6.6 and newer for edges (gpiozero#1136)."""
    said = with_rpi_gpio(tmp_path, RPI_GPIO + module, AT_WORK)
    lines = [line for line in said.splitlines() if not line.startswith("setmode")]
    assert lines.pop() == "output No access to /dev/mem.  Try running as root!" if module is NO_MEMORY else True
    assert lines.pop() == "at work True"
    assert [line[: len(text)] for line, text in zip(lines, says, strict=True)] == says


def test_gpiozeros_fallback_is_an_error_in_tests_and_never_taken() -> None:
    """Bug report 1: in tests a warning, as PinFactoryFallback is one, is an error; and ours is always explicit."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert settings["filterwarnings"][0] == "error"
    assert issubclass(gpiozero.PinFactoryFallback, Warning)
    assert gpiozero.Device.pin_factory is None


# --- the fake is shaped as the real one ---------------------------------------------------------------------


@pytest.mark.parametrize(("fake", "real"), [(FakeChip, gpiod.Chip), (FakeRequest, gpiod.LineRequest)])
def test_the_fake_has_the_signatures_of_the_installed_gpiod(fake: type, real: type) -> None:
    ours = {"apply", "notice", "hang_up"}  # what the outside of a line does
    used = [name for name in vars(fake) if not name.startswith("_") and name not in ours]
    assert len(used) >= 4
    for name in used:
        one, other = inspect.getattr_static(fake, name), inspect.getattr_static(real, name)
        assert type(one) is type(other), name
        if inspect.isfunction(one):
            shape = [
                [(par.name, par.kind, par.default) for par in inspect.signature(each).parameters.values()]
                for each in (one, other)
            ]
            assert shape[0] == shape[1], name


def test_a_chip_is_opened_by_its_path_alone() -> None:
    assert list(inspect.signature(gpiod.Chip).parameters) == ["path"]
