"""Every way in which a tail may follow a file, for each test that asks for a `scene`."""

from __future__ import annotations

import pytest
from tail_scene import Scene


@pytest.fixture(params=["held", "reopened", "handles are scarce"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(is_network=request.param == "reopened", has_room=request.param != "handles are scarce")


@pytest.fixture
def held() -> Scene:
    return Scene(is_network=False)


@pytest.fixture
def reopened() -> Scene:
    return Scene(is_network=True)
