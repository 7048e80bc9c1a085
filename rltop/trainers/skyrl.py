"""SkyRL: its own keys, and the tinker-like keys of its training backend."""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, key_tables, spellings, stages
from rltop.model import Algorithm
from rltop.structs import replace
from rltop.trainers import tinker

BACKEND: Dialect = replace(
    tinker.DIALECT,
    name="SkyRL",
    variant="tinker backend",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, all_of=("skyrl.ai/*", "env/*"), weight=40),
        Fingerprint(Algorithm.UNKNOWN, all_of=("skyrl.ai/*",), weight=35),
    ),
    aliases=(
        *spellings("grad_norm | skyrl.ai/grad_norm"),
        *tinker.DIALECT.aliases,
        *spellings("lr | skyrl.ai/learning_rate"),
    ),
    training_keys=("optim/kl_*", "optim/entropy", "skyrl.ai/*"),
)
"""A run with tinker's keys on SkyRL's backend."""

_ROLLOUT = ("generate/avg_num_tokens", "reward/avg_raw_reward")
_CRITIC = ("timing/critic_train", "critic/critic_loss", "critic/values_mean")

DIALECT = Dialect(
    name="SkyRL",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CRITIC, all_of=("policy/policy_loss",), weight=27),
        Fingerprint(Algorithm.GRPO, any_of=_ROLLOUT, none_of=_CRITIC, weight=26),
    ),
    aliases=spellings(key_tables(__file__)["keys"]),
    timing=TimingPlan(
        step_keys=("timing/step",),
        stages=(
            *stages("timing/{}", "wait_for_generation_buffer", "generate", "convert_to_training_input"),
            *stages("timing/{}", "fwd_logprobs_values_reward", "apply_reward_kl_penalty"),
            *stages("timing/{}", "compute_advantages_and_returns", "train_critic_and_policy"),
            *stages("timing/{}", "critic_train", "policy_train", parent="train_critic_and_policy"),
            *stages("timing/{}", "sync_weights"),
            *stages("timing/{}", "save_checkpoints", "eval", fits_inside=True),
        ),
        namespace=("timing/",),
    ),
    hidden=("trainer/*",),
    staleness_bounds=("max_staleness_steps",),
    group_counts=("trainer.train_batch_size",),
    training_keys=("policy/*", "timing/step"),
    traits=(
        TraitEvidence("has_critic", _CRITIC),
        TraitEvidence("is_async", ("async/*", "timing/wait_for_generation_buffer")),
    ),
)
