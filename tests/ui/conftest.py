"""How long a test waits until the application rests."""

from __future__ import annotations

import pytest
from textual import _wait

from rltop.resources import state_folder
from rltop.run import own_rules

LOOK_S = 1 / 100
"""Textual's pilot looks every fiftieth of a second, two or three times a key; it answers a new size after 1/120 s."""


@pytest.fixture(autouse=True)
def short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look twice as often; what counts as rest stays the same part of the time."""
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", LOOK_S)
    monkeypatch.setattr(_wait, "SLEEP_IDLE", LOOK_S / 20)


@pytest.fixture(autouse=True)
def no_own_rules() -> None:
    """What one test has muted is not muted in the next."""
    (state_folder() / own_rules.FILE_NAME).unlink(missing_ok=True)
