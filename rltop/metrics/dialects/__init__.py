"""How each trainer names things, one file each."""

from __future__ import annotations

from rltop.metrics.dialect import Dialect
from rltop.metrics.dialects import generic, llama_factory, ms_swift, prime_rl, skyrl, tinker, trl, verl

GENERIC: Dialect = generic.DIALECT
"""Stands for every file that no trainer's fingerprint matches."""

ALL: tuple[Dialect, ...] = (
    verl.DIALECT,
    verl.V1,
    trl.DIALECT,
    ms_swift.DIALECT,
    llama_factory.DIALECT,
    tinker.DIALECT,
    skyrl.BACKEND,
    skyrl.DIALECT,
    prime_rl.DIALECT,
    GENERIC,
)
"""Every dialect; where two match equally well, the earlier one wins."""
