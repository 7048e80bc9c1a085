"""What every test shares: how hypothesis chooses its examples."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1_000)
settings.load_profile(os.environ.get("RLTOP_HYPOTHESIS", "same"))
