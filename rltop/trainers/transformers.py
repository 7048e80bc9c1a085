"""transformers: the Trainer that TRL, LLaMA-Factory and others build on, where it logs nothing but its own keys.

A loss, a learning rate and an epoch say that it trains, and not who called it: no trainer on top of it is claimed.
The trainer that verifiers had (0.1.8 and 0.1.9) is another on top of it, with keys of its own.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, spellings
from rltop.model import Algorithm
from rltop.structs import replace
from rltop.trainers import trl

_SAMPLES = ("*reward*", "*advantage*", "rollout/*", "policy_loss", "loss/policy*")
"""Keys of somebody's own trainer of a policy on top of it."""
FINGERPRINTS = (
    Fingerprint(Algorithm.SFT, all_of=("loss", "learning_rate", "epoch"), none_of=_SAMPLES, weight=6),
    Fingerprint(Algorithm.UNKNOWN, all_of=("epoch",), any_of=("eval_loss", "eval_runtime", "train_runtime"), weight=3),
)

DIALECT: Dialect = replace(
    trl.DIALECT,
    name="transformers",
    fingerprints=FINGERPRINTS,
    aliases=spellings("""
        loss | loss
        grad_norm | grad_norm
        lr | learning_rate
        val_loss | eval_loss | eval_*_loss
        val_acc | eval_accuracy | eval_*_accuracy
        num_tokens | num_input_tokens_seen
        epoch | epoch
    """),
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
        *spellings("""
            reward_mean | reward
            reward_std | reward/std
            reward_component | reward/%
            entropy | entropy
            # Between the policy that is trained and the inference engine.
            off_policy_kl | mismatch_kl
            is_ratio_mean | importance_ratio
            response_len_mean | tokens/completion
            time_gen | wall_clock/generate_s
            time_gen_sample_mean ×0.001 | timing/generation_ms
        """),
    ),
    timing=TimingPlan(statistics=("timing/*",)),
)
