from __future__ import annotations

import pytest
from fake_run import FakeRun, firing_run


@pytest.fixture(scope="module")
def run() -> FakeRun:
    """A run in which several rules fire."""
    return firing_run()
