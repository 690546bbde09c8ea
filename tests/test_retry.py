"""The rests between attempts: the first, then longer ones, and the first again behind an attempt that held."""

import pytest

from controller.retry import Retry
from tests.virtual_time import VirtualLoop, run

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("held_s", "rests_s"),
    [
        ([0, 0, 0, 0, 0, 0], [0.25, 0.5, 1, 2, 2, 2]),
        ([0, 0, 3, 0, 0], [0.25, 0.5, 0.25, 0.5, 1]),
        ([1, 1, 1, 1, 1], [0.25, 0.5, 1, 2, 2]),  # it comes and goes, and is rested from as if it were not there
    ],
)
def test_an_attempt_that_held_begins_the_rests_anew(held_s: list[int], rests_s: list[float]) -> None:
    async def main(loop: VirtualLoop) -> list[float]:
        retry, rests = Retry((0.25, 2.0), loop.now), []
        for held in held_s:
            loop.stall(held * SECOND)
            before = loop.now()
            await retry.rest()
            rests.append((loop.now() - before) / SECOND)
        return rests

    assert run(main) == pytest.approx(rests_s, abs=1e-6)
