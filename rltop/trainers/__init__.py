"""What is known of each trainer, one file each: how it names things, and how its stream is turned on."""

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
    setup_hints,
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

SETUP_HINTS: tuple[setup_hints.SetupHint, ...] = (
    verl.SETUP_HINT,
    verl.EASYR1_HINT,
    verl.RLLM_HINT,
    trl.SETUP_HINT,
    setup_hints.TRANSFORMERS,
    setup_hints.UNSLOTH,
    setup_hints.VERIFIERS,
    tinker.SETUP_HINT,
    prime_rl.SETUP_HINT,
    art.SETUP_HINT,
    llama_factory.SETUP_HINT,
    ms_swift.SETUP_HINT,
    setup_hints.TORCHTUNE,
    setup_hints.STABLE_BASELINES3,
    setup_hints.RLLIB,
    openrlhf.SETUP_HINT,
    trinity.SETUP_HINT,
    rlinf.SETUP_HINT,
    slime.SETUP_HINT,
    slime.MILES_HINT,
    nemo_rl.SETUP_HINT,
    areal.SETUP_HINT,
    skyrl.SETUP_HINT,
    roll.SETUP_HINT,
    telescope.SETUP_HINT,
    open_instruct.SETUP_HINT,
    setup_hints.OWN_LOOP,
)
"""In the order in which the message "no metrics here" names them: what is followed first."""

ROLLOUT_HINTS: tuple[setup_hints.RolloutHint, ...] = (
    verl.ROLLOUT_HINT,
    trl.ROLLOUT_HINT,
    trinity.ROLLOUT_HINT,
    telescope.ROLLOUT_HINT,
    prime_rl.ROLLOUT_HINT,
    setup_hints.ANY_OTHER_ROLLOUTS,
)
"""Where the pages of groups and completions come from; the format of the last is docs/rollouts.md."""
