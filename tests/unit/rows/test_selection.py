"""What the status line says of what is selected."""

from __future__ import annotations

import pytest

from rltop.rows.rows import Target, TargetKind
from rltop.rows.selection import target_text


@pytest.mark.parametrize("kind", TargetKind)
def test_whatever_can_be_selected_is_named(kind: TargetKind) -> None:
    assert target_text(Target(kind, "what"))
