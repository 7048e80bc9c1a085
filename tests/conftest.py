"""Fixtures and hooks for all tests: state folder, temporary folders, garbage collection, tests that run alone."""

from __future__ import annotations

import fcntl
import gc
import itertools
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples import EXPLORED_S, EXPLORES

HERE = Path(__file__)

gc.disable()  # what is collected stays to the end

_STATE = tempfile.TemporaryDirectory(prefix="rltop-state-")
"""Keeps the program's state out of the user's; not a first start, so that no hints are shown."""
os.environ["XDG_STATE_HOME"] = _STATE.name
(Path(_STATE.name) / "rltop").mkdir()
(Path(_STATE.name) / "rltop" / "hinted").touch()


def pytest_runtest_setup() -> None:
    """Remove state saved by the previous test, such as a theme or a mute."""
    folder = Path(_STATE.name) / "rltop"
    for name in os.listdir(folder):  # noqa: PTH208 - before each of thousands of tests, and mostly of one file
        if name != "hinted":
            # A program that is still running may have removed it itself.
            (folder / name).unlink(missing_ok=True)


_NUMBERS = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replaces pytest's own, which scans all folders of the session for a free number: 2 ms and more."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}{next(_NUMBERS)}", numbered=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests marked `alone` last, so that workers do not wait for each other before."""
    items.sort(key=lambda item: item.get_closest_marker("alone") is not None)
    for item in items if EXPLORES else ():
        item.add_marker(pytest.mark.timeout(EXPLORED_S), append=False)


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection and collect rarely, which saves a fifth of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run a test marked `alone` while all other workers pause.

    The first lock is a turnstile that one worker passes at a time. A worker waiting for the second lock holds the
    turnstile, so that others cannot starve a test that has to be alone.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    with HERE.open() as door, HERE.with_name("recorded.py").open() as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        return (yield)
