"""SIGKILL at random moments of running shoes: nothing shown is lost, no card has two numbers, no seqno two meanings."""

import random
from pathlib import Path

import pytest

from tests.chaos.night import Night, check


def _cut_power(folder: Path, times: int) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    night = Night(folder, seed)
    for _ in range(times):
        night.deal_until_killed()
    night.deal_to_the_end()
    check(night)


@pytest.mark.timeout(180)
def test_twenty_power_cuts_lose_nothing(tmp_path: Path) -> None:
    _cut_power(tmp_path, 20)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_hundred_power_cuts_lose_nothing(tmp_path: Path) -> None:
    _cut_power(tmp_path, 200)
