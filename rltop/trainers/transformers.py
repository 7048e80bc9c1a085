"""transformers: the Trainer under TRL, LLaMA-Factory and others, for logs with no keys but its own.

A loss, a learning rate and an epoch show that it is used, not by which trainer, so none is named.
The trainer of verifiers (0.1.8 and 0.1.9) also builds on it, with keys of its own.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, key_tables, spellings
from rltop.model import Algorithm
from rltop.structs import replace
from rltop.trainers import trl

_TABLES = key_tables(__file__)

_SAMPLES = ("*reward*", "*advantage*", "rollout/*", "policy_loss", "loss/policy*")
"""Keys of a custom policy trainer built on it."""
FINGERPRINTS = (
    Fingerprint(Algorithm.SFT, all_of=("loss", "learning_rate", "epoch"), none_of=_SAMPLES, weight=6),
    Fingerprint(Algorithm.UNKNOWN, all_of=("epoch",), any_of=("eval_loss", "eval_runtime", "train_runtime"), weight=3),
)

DIALECT: Dialect = replace(
    trl.DIALECT,
    name="transformers",
    fingerprints=FINGERPRINTS,
    aliases=spellings(_TABLES["keys"]),
    timing=None,
    traits=(),
    group_size_keys=(),
)

VERIFIERS: Dialect = replace(
    DIALECT,
    name="verifiers",
    fingerprints=(
        Fingerprint(
            Algorithm.GRPO,
            all_of=("mismatch_kl", "importance_ratio"),
            any_of=("reward/std", "advantage/absmean", "wall_clock/generate_s"),
            weight=33,
        ),
    ),
    aliases=(
        *DIALECT.aliases,
        *spellings(_TABLES["verifiers"]),
    ),
    timing=TimingPlan(statistics=("timing/*",)),
)
