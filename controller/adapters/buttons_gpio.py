"""The dealer's buttons and the pit boss's key switch: contacts to ground on pins, pulled up. Decides nothing.

gpiozero's InputDevice takes the pin, and the pin tells its edges with their time. Its Button would start a thread that
wakes ten times a second, tell its presses without a time, and swallow an edge that follows one of its own level.

START and CALL act when they go down. CONFIRM acts when it comes up, since only then is it known not to be a hold: at
once, it would announce the result that the hold was to take back (I47). A press has the time of its first edge, and
the one that CONFIRM tells late is no less old: what it confirms was read before.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from gpiozero import GPIOZeroError, InputDevice
from gpiozero.pins import Factory

from controller.core.events import (
    CallPressed,
    ConfirmHeld,
    ConfirmPressed,
    Event,
    FaultGone,
    FaultSeen,
    KeyTurned,
    StartPressed,
)
from controller.link.buttons import MS, STUCK_NS, Act, Button, Kind
from controller.ports import Submit

log = logging.getLogger(__name__)

CODE = "button"
TROUBLE = (OSError, GPIOZeroError, RuntimeError)  # how a pin says no; the last is RPi.GPIO's one word
LOOK_NS = 1_000 * MS  # every second each level is read: the one wake-up of a table at rest
DOUBT_NS = 50 * MS  # how long an edge may be on its way from another thread
EDGES_MAX = 1_000  # that wait for their turn: a second of the worst chatter; beyond it the oldest go, as in the kernel

NAMES = frozenset({"start", "confirm", "call", "key"})
EVENTS: dict[tuple[str, Kind], Callable[[int], Event]] = {
    ("start", Kind.DOWN): StartPressed,
    ("confirm", Kind.TAP): ConfirmPressed,
    ("confirm", Kind.HELD): ConfirmHeld,
    ("call", Kind.DOWN): CallPressed,
}


class _Contact:
    """One pin, the edges that it told and are not yet judged, and what is wrong with it."""

    def __init__(self, name: str, pin: int, heard: Callable[["_Contact", int, bool], None]) -> None:
        self.name = name
        self.pin = pin
        self.device: Any = None
        self.button: Button | None = None  # while the pin is open
        self.edges: deque[tuple[bool, int]] = deque(maxlen=EDGES_MAX)
        self.level = False  # the last one told
        self.told = 0  # edges that came by themselves
        self.doubt = self.deaf = -1  # `told` when a level was read that no edge had told: first, and once more
        self.lost = ""  # why the pin cannot be read
        self.faulty: bool | None = None  # whether a fault stands; None: not known yet
        self._heard = heard

    def changed(self, ticks: Any, level: bool) -> None:  # noqa: ANN401, FBT001 - gpiozero's own
        """The pin's edge, in whatever thread its factory has: it raises nothing, or no later edge might come."""
        self._heard(self, ticks, not level)

    @property
    def rests(self) -> bool:
        """Open and still, so that no fault is on its way; a key may stay turned."""
        return self.name == "key" or (self.button is not None and self.button.restless is None)

    def trouble(self, at: int) -> str:
        """What is wrong and what to do; empty while all is well."""
        where = f"button {self.name} on GPIO{self.pin}"
        if self.lost:
            return f"{where} cannot be read ({self.lost}): check that no other program has the pin"
        if self.deaf == self.told:
            return f"{where} changes and tells no edge: restart the program"
        restless = self.button.restless if self.button else None
        if self.name != "key" and restless is not None and at - restless >= STUCK_NS:
            return f"{where} has been closed or chattering for {(at - restless) // 1_000_000_000} s: free or replace it"
        return ""


class ButtonsGpio:
    """Source of the presses of `start`, `confirm`, `call`, BCM numbers, and of a fault `button` a part.

    `key` is the key switch: KeyTurned tells how it stands when its pin opens, and each turn. `now`: CLOCK_MONOTONIC ns.
    A button stuck for 30 s, one that cannot be read and one whose edges do not come are faults until they are cured; a
    lost pin is tried again every second. `tried` is set once all pins were tried.
    """

    def __init__(
        self,
        factory: Factory,
        *,
        start: int | None = None,
        confirm: int | None = None,
        call: int | None = None,
        key: int | None = None,
        now: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.tried = asyncio.Event()
        pins = {"start": start, "confirm": confirm, "call": call, "key": key}
        self._contacts = [_Contact(name, pin, self._heard) for name, pin in pins.items() if pin is not None]
        self._factory = factory
        self._now = now
        self._look_at = 0
        self._loop: asyncio.AbstractEventLoop | None = None  # while `run` runs
        self._woken: asyncio.Future[None] | None = None

    @property
    def pressed(self) -> dict[str, bool]:
        """What is down, settled, by name; a pin that is lost is missing."""
        return {contact.name: contact.button.pressed for contact in self._contacts if contact.button}

    def diag(self) -> dict[str, Any]:
        """For people: each of `pins` {name, pin, down, edges, trouble}; `down` is None while the pin is not open.

        `edges` counts those that came: also a press that is too short to be seen.
        """
        now = self._now()
        return {
            "pins": [
                {
                    "name": contact.name,
                    "pin": contact.pin,
                    "down": contact.button.pressed if contact.button else None,
                    "edges": contact.told,
                    "trouble": contact.trouble(now),
                }
                for contact in self._contacts
            ]
        }

    async def run(self, submit: Submit) -> None:
        self._loop = asyncio.get_running_loop()
        self._look_at = now = self._now()
        unwired = NAMES - {contact.name for contact in self._contacts}  # what it left, ends
        for name in unwired:
            submit(FaultGone(now, CODE, name))
        if "key" in unwired:
            submit(KeyTurned(now, turned=False))
        try:
            while True:
                now = self._now()
                looks = now >= self._look_at
                if looks:
                    self._look(now, submit)
                self._judge(now, submit)
                if looks:
                    self._report(now, submit)
                    self.tried.set()
                await self._rest()
        finally:
            self._loop = None
            for contact in self._contacts:
                self._close(contact)

    # --- presses ----------------------------------------------------------------------------------------

    def _judge(self, now: int, submit: Submit) -> None:
        """What hands did up to now, over all buttons in the order in which they did it (I46)."""
        done: list[tuple[Act, _Contact]] = []
        for contact in self._contacts:
            button = contact.button
            if button is None:
                continue
            acts: list[Act] = []
            while contact.edges:
                acts += button.edge(*contact.edges.popleft())
            done += [(act, contact) for act in (*acts, *button.elapsed(now))]
        for act, contact in sorted(done, key=lambda one: one[0].at):
            make = EVENTS.get((contact.name, act.kind))
            if make is not None:
                submit(make(act.at))
            elif contact.name == "key" and act.kind in (Kind.DOWN, Kind.UP):
                submit(KeyTurned(act.at, act.kind is Kind.DOWN))

    def _heard(self, contact: _Contact, ticks: Any, closed: bool) -> None:  # noqa: ANN401, FBT001
        """An edge, in any thread. Its age is all that a factory's ticks are good for; time is ours."""
        loop = self._loop
        if loop is None:
            log.debug("an edge of button %s came after the end", contact.name)
            return
        age = self._factory.ticks_diff(self._factory.ticks(), ticks)
        contact.edges.append((closed, self._now() - round(age * 1e9)))
        contact.level = closed
        contact.told += 1
        try:
            # From a foreign thread nothing else would wake the loop before its next timer (bug report 11).
            loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            log.debug("an edge of button %s came after the loop's end", contact.name)

    # --- the pins ---------------------------------------------------------------------------------------

    def _look(self, now: int, submit: Submit) -> None:
        """Reads every level: what edges do not tell is found out all the same (bug reports 4 and 12)."""
        self._look_at = now + LOOK_NS
        for contact in self._contacts:
            try:
                if contact.button is None:
                    self._open(contact, now)
                    if contact.name == "key":
                        submit(KeyTurned(now, contact.level))
                self._compare(contact, now, closed=bool(contact.device.value))
            except TROUBLE as error:
                self._close(contact)
                contact.lost = str(error)
                continue
            contact.lost = ""

    def _open(self, contact: _Contact, now: int) -> None:
        """TROUBLE. A button that is down already is not pressed by that."""
        contact.device = InputDevice(contact.pin, pull_up=True, pin_factory=self._factory)
        contact.edges.clear()
        contact.device.pin.edges = "both"
        contact.device.pin.when_changed = contact.changed  # a weak reference; `self._contacts` holds the contact
        contact.level = bool(contact.device.value)
        contact.button = Button(now, pressed=contact.level)
        contact.deaf = contact.doubt = -1

    def _compare(self, contact: _Contact, now: int, *, closed: bool) -> None:
        """A level that no edge tells within `DOUBT_NS` is taken for one, and the pin is deaf until it tells one."""
        if closed == contact.level:
            contact.doubt = -1
        elif contact.doubt != contact.told:
            contact.doubt = contact.told
            self._look_at = now + DOUBT_NS
        else:
            contact.deaf = contact.told
            contact.level = closed
            contact.edges.append((closed, now))

    def _close(self, contact: _Contact) -> None:
        device, contact.device, contact.button = contact.device, None, None
        try:
            if device is not None:
                device.close()
        except TROUBLE as error:
            log.warning("button %s on GPIO%d could not be closed: %s", contact.name, contact.pin, error)

    def _report(self, now: int, submit: Submit) -> None:
        for contact in self._contacts:
            trouble = contact.trouble(now)
            if trouble:
                if not contact.faulty:
                    log.warning("%s", trouble)
                    submit(FaultSeen(now, CODE, contact.name, trouble))
                contact.faulty = True
            elif contact.faulty or (contact.faulty is None and contact.rests):
                if contact.faulty:
                    log.warning("button %s is well again", contact.name)
                submit(FaultGone(now, CODE, contact.name))  # at first too: one of the run before may still stand
                contact.faulty = False

    # --- the task ---------------------------------------------------------------------------------------

    async def _rest(self) -> None:
        dues = [contact.button.due for contact in self._contacts if contact.button]
        due = min([self._look_at, *(at for at in dues if at is not None)])
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        timer = loop.call_later(max(0, due - self._now()) / 1e9, self._wake)
        try:
            await self._woken
        finally:
            self._woken = None
            timer.cancel()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)
