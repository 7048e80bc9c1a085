"""transformers: the Trainer that TRL, LLaMA-Factory and others build on, where it logs nothing but its own keys.

A loss, a learning rate and an epoch say that it trains, and not who called it: no trainer on top of it is claimed.
The trainer that verifiers had (0.1.8 and 0.1.9) is another on top of it, with keys of its own.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, TimingPlan
from rltop.model import Algorithm
from rltop.structs import replace
from rltop.trainers import trl

FINGERPRINTS = (
    Fingerprint(Algorithm.SFT, all_of=("loss", "learning_rate", "epoch"), weight=6),
    Fingerprint(Algorithm.UNKNOWN, all_of=("epoch",), any_of=("eval_loss", "eval_runtime", "train_runtime"), weight=3),
)

DIALECT: Dialect = replace(
    trl.DIALECT,
    name="transformers",
    fingerprints=FINGERPRINTS,
    aliases=(
        Alias("loss", "loss"),
        Alias("grad_norm", "grad_norm"),
        Alias("learning_rate", "lr"),
        Alias("eval_loss", "val_loss"),
        Alias("eval_*_loss", "val_loss"),
        Alias("eval_accuracy", "val_acc"),
        Alias("eval_*_accuracy", "val_acc"),
        Alias("num_input_tokens_seen", "num_tokens"),
        Alias("epoch", "epoch"),
    ),
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
        Alias("reward", "reward_mean"),
        Alias("reward/std", "reward_std"),
        Alias("reward/%", "reward_component"),
        Alias("entropy", "entropy"),
        # Between the policy that is trained and the inference engine.
        Alias("mismatch_kl", "off_policy_kl"),
        Alias("importance_ratio", "is_ratio_mean"),
        Alias("tokens/completion", "response_len_mean"),
        Alias("wall_clock/generate_s", "time_gen"),
        Alias("timing/generation_ms", "time_gen_sample_mean", scale=0.001),
    ),
    timing=TimingPlan(statistics=("timing/*",)),
)
