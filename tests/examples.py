"""Settings of hypothesis: the choice and number of examples."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("explore", deadline=None, max_examples=1_000)
PROFILE = os.environ.get("RLTOP_HYPOTHESIS", "same")
settings.load_profile(PROFILE)

EXPLORES = PROFILE != "same"
EXPLORED_S = 3_600
"""Longest time of a test that explores new examples."""


def examples(count: int, **options: Any) -> settings:
    """Settings of a property with `count` examples: few because they are expensive, or more than sixty."""
    return settings(**options) if EXPLORES else settings(max_examples=count, **options)
