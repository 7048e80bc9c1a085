"""How each trainer names things, one file each."""

from __future__ import annotations

from rltop.catalog.dialect import Dialect
from rltop.trainers import (
    areal,
    art,
    generic,
    llama_factory,
    ms_swift,
    nemo_rl,
    open_instruct,
    openrlhf,
    prime_rl,
    rlinf,
    roll,
    skyrl,
    slime,
    telescope,
    tinker,
    trinity,
    trl,
    verl,
)

GENERIC: Dialect = generic.DIALECT
"""Stands for every file that no trainer's fingerprint matches."""

ALL: tuple[Dialect, ...] = (
    verl.DIALECT,
    verl.V1,
    openrlhf.DIALECT,
    trl.DIALECT,
    trl.ASYNC,
    telescope.DIALECT,
    trinity.DIALECT,
    rlinf.EMBODIED,
    rlinf.DIALECT,
    ms_swift.DIALECT,
    llama_factory.DIALECT,
    tinker.DIALECT,
    skyrl.BACKEND,
    skyrl.DIALECT,
    prime_rl.DIALECT,
    slime.DIALECT,
    nemo_rl.DIALECT,
    areal.DIALECT,
    roll.DIALECT,
    open_instruct.DIALECT,
    art.DIALECT,
    GENERIC,
)
"""Every dialect; where two match equally well, the earlier one wins."""
