"""How hard the properties are tried: `quick` by default, `soak` by HYPOTHESIS_PROFILE=soak (`make soak`).

Each run draws a seed of its own and says it first; `--hypothesis-seed` repeats a run, and the line that a failing
property prints (`@reproduce_failure`) repeats that one example.

Every message that a table makes in this process is held against its schema (`tests.published`).
"""

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from controller import feed
from tests import published

# Before any test imports them: the bytes of the feed and of the retained state are made here and nowhere else.
feed.seal = published.judged_seal(feed.seal)
feed.state_message = published.judged_state(feed.state_message)

# No deadline and no complaint of slowness: how long an example takes belongs to the machine.
settings.register_profile(
    "quick",
    settings.get_profile("default"),
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", settings.get_profile("quick"), max_examples=5_000, stateful_step_count=200)

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(PROFILE)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))


def pytest_report_header(config: pytest.Config) -> str:
    return f"hypothesis: profile {PROFILE}; --hypothesis-seed={config.option.hypothesis_seed} repeats this run"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker's counts go to the one who sums up."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["held"] = dict(published.held)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which may be switched off
def pytest_testnodedown(node: object) -> None:
    published.held.update(getattr(node, "workeroutput", {}).get("held", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = ", ".join(f"{count} {where}" for where, count in published.held.items())
    terminalreporter.write_line(f"messages held against docs/schemas: {told or 'none'}")


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A folder in memory, for whole shoes: each is a thousand commits, and what a power cut leaves is not looked at."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)
