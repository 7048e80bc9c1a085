"""What is known of each trainer, one file each: how it names things; and how its stream is turned on."""

from __future__ import annotations

from rltop.catalog.dialect import Dialect
from rltop.trainers import (
    areal,
    art,
    classic,
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
    transformers,
    trinity,
    trl,
    verl,
)

GENERIC: Dialect = generic.DIALECT
"""Stands for every file that no trainer's fingerprint matches."""

BASE: Dialect = transformers.DIALECT
"""Whose keys others write as well: who trains may show later."""

ALL: tuple[Dialect, ...] = (
    verl.DIALECT,
    verl.V1,
    verl.EASYR1,
    verl.RLLM,
    openrlhf.DIALECT,
    trl.DIALECT,
    trl.ASYNC,
    transformers.DIALECT,
    transformers.VERIFIERS,
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
    slime.MILES,
    slime.DIALECT,
    nemo_rl.DIALECT,
    areal.DIALECT,
    roll.DIALECT,
    open_instruct.DIALECT,
    art.DIALECT,
    classic.STABLE_BASELINES3,
    classic.RLLIB,
    classic.CLEANRL,
    classic.BASELINES,
    GENERIC,
)
"""Every dialect; where two match equally well, the earlier one wins."""
