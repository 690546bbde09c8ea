"""TLS on a real mosquitto: each thing that can be wrong has its own sentence, and put right it needs no restart."""

import asyncio
import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from controller.adapters.publisher_mqtt import Tls
from tests.adapters.test_publisher_mqtt import Table, run
from tests.authority import DAY, NOW, Authority, listener
from tests.broker import HOST, Broker


class Case(NamedTuple):
    """What the broker shows: a certificate for `host` from `begins` on, of our authority or of another; what it asks.

    `shows`: our own certificate's name, empty for none; `ends` when it ends; `revoked`: whether it is on the list.
    """

    words: str
    host: str = HOST
    begins: dt.datetime = NOW - DAY
    other: bool = False
    clock_is_set: bool = True
    asks: bool = False
    shows: str = ""
    by_other: bool = False
    expired: bool = False
    revoked: bool = False


CASES = {
    "a wrong authority": Case("signed by an authority that casino.mqtt.tls.ca does not hold", other=True),
    "another address": Case("is for another address: correct casino.mqtt.host", host="127.0.0.2"),
    "another name": Case("is for another address: correct casino.mqtt.host", host="elsewhere.casino"),
    "expired": Case("has expired: let the casino renew it", begins=NOW - 9 * DAY),
    "not yet valid": Case("is not valid yet: let the casino renew it", begins=NOW + DAY),
    "a clock that nobody set": Case(
        "is not valid yet by this table's clock, which nobody has set: it says 20",
        begins=NOW + DAY,
        clock_is_set=False,
    ),
    "no certificate of ours": Case("certificate: set casino.mqtt.tls.cert and key", asks=True),
    "a revoked one": Case("this table's certificate", asks=True, shows="table", revoked=True),
    "an expired one": Case("this table's certificate", asks=True, shows="table", expired=True),
    "one of a stranger": Case("this table's certificate", asks=True, shows="table", by_other=True),
}


class Casino:
    """Two authorities, the broker's listener and our own side, as a case wants them."""

    def __init__(self, folder: Path, case: Case) -> None:
        for name in ("ours", "theirs"):
            (folder / name).mkdir()
        self.ours, theirs = Authority(folder / "ours"), Authority(folder / "theirs")
        self.shown = (theirs if case.other else self.ours).issue("broker", case.host, case.begins)
        self.own: tuple[str, str] | tuple[()] = ()
        if case.shows:
            begins = NOW - 9 * DAY if case.expired else NOW - DAY
            self.own = (theirs if case.by_other else self.ours).issue(case.shows, begins=begins)
        lines = ["require_certificate true"] if case.asks else []
        if case.revoked:
            lines.append(f"crlfile {self.ours.revoke(case.shows)}")
        self.listener = listener(self.ours, *self.shown, *lines)
        self.tls = Tls(self.ours.ca, *self.own)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # paho drops the socket of a failed TLS handshake
def test_what_is_wrong_is_named(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    casino = Casino(tmp_path, case)

    async def story() -> None:
        with Broker(tmp_path, listener=casino.listener) as broker:
            async with Table(broker.port, tls=casino.tls, synchronised=lambda: case.clock_is_set) as table:
                assert case.words in await table.down()

    run(story())


def _renew_the_brokers(casino: Casino) -> None:
    for old, new in zip(casino.shown, casino.ours.issue("good"), strict=True):
        shutil.copyfile(new, old)


def _renew_ours(casino: Casino) -> None:
    for old, new in zip(casino.own, casino.ours.issue("new"), strict=True):
        shutil.copyfile(new, old)


@pytest.mark.parametrize(
    ("name", "cure"),
    [("expired", _renew_the_brokers), ("a wrong authority", _renew_the_brokers), ("a revoked one", _renew_ours)],
)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_put_right_it_needs_no_restart(name: str, cure: Callable[[Casino], None], tmp_path: Path) -> None:
    """Report 60: what is not yet right keeps the table offline, and trying."""
    casino = Casino(tmp_path, CASES[name])

    async def story() -> None:
        with Broker(tmp_path, listener=casino.listener) as broker:
            async with Table(broker.port, tls=casino.tls) as table:
                await table.down()
                cure(casino)
                await asyncio.to_thread(broker.restart)
                await table.up()

    run(story())


def test_all_that_is_right_lets_the_table_in(tmp_path: Path) -> None:
    casino = Casino(tmp_path, Case("", asks=True, shows="table"))

    async def story() -> None:
        with Broker(tmp_path, listener=casino.listener) as broker:
            async with Table(broker.port, tls=casino.tls) as table:
                table.outbox.add(3)
                await table.drained()

    run(story())
