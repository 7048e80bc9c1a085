"""TRL: GRPO, RLOO, PPO, DPO, KTO, reward models and SFT on the transformers Trainer.

Keys are flat, with an `epoch`; in TensorBoard and the trackers the same
keys are `train/…` and `eval/…`.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, key_tables, spellings
from rltop.model import Algorithm
from rltop.structs import replace

_TABLES = key_tables(__file__)

FINGERPRINTS = (
    Fingerprint(Algorithm.PPO, all_of=("objective/kl", "policy/approxkl_avg", "loss/value_avg"), weight=24),
    Fingerprint(Algorithm.RLOO, all_of=("objective/kl", "policy/approxkl_avg"), none_of=("loss/value_avg",), weight=23),
    # Both trainers log the same keys. RLOO subtracts the KL from the reward, so it logs
    # the KL before the reward; GRPO adds it to the loss and logs it after the reward. `loss` first
    # rules out files with sorted keys; lengths next rule out a log that starts between generations.
    Fingerprint(Algorithm.RLOO, in_order=("loss", "completions/mean_length", "kl", "reward"), weight=22),
    Fingerprint(
        Algorithm.GRPO,
        any_of=("frac_reward_zero_std", "completions/mean_length", "completions/clipped_ratio"),
        weight=21,
    ),
    Fingerprint(Algorithm.GRPO, all_of=("reward", "reward_std", "completion_length"), weight=20),
    Fingerprint(Algorithm.GRPO, any_of=("clip_ratio/region_mean", "clip_ratio/low_mean"), weight=18),
    # The only keys left if a user logs other metrics.
    Fingerprint(Algorithm.GRPO, any_of=("profiling/Time taken: GRPOTrainer.*",), weight=6),
    Fingerprint(Algorithm.RLOO, any_of=("profiling/Time taken: RLOOTrainer.*",), weight=6),
    Fingerprint(Algorithm.DPO, all_of=("rewards/accuracies",), weight=20),
    Fingerprint(
        Algorithm.KTO,
        all_of=("kl",),
        any_of=("rewards/margins", "rewards/chosen", "rewards/rejected", "logps/chosen", "logps/rejected"),
        none_of=("rewards/accuracies",),
        weight=20,
    ),
    Fingerprint(Algorithm.REWARD, all_of=("margin", "mean_reward", "accuracy"), weight=20),
    Fingerprint(Algorithm.REWARD, all_of=("min_reward", "mean_reward", "max_reward", "epoch"), weight=19),
    Fingerprint(Algorithm.SFT, all_of=("loss", "mean_token_accuracy"), weight=12),
    # A log in which few keys were kept: among trainers that log an epoch, those that sample log a reward.
    Fingerprint(
        Algorithm.GRPO,
        all_of=("epoch", "reward"),
        any_of=("learning_rate", "grad_norm"),
        none_of=("rewards/chosen", "mean_reward"),
        weight=7,
    ),
)

_SYNC = ("pause", "barrier", "transfer")
_ASYNC_KEYS = (
    "weight_sync_time_s", "queue_wait_time_s", "sample/staleness_mean", "perf/weight_sync_s", "perf/rollout_wait_s",
)  # fmt: skip

_TIMING = TimingPlan(step_keys=("step_time", "train/step_time"), namespace=("profiling/Time taken: ",))
DIALECT = Dialect(
    name="TRL",
    fingerprints=FINGERPRINTS,
    aliases=spellings(_TABLES["keys"]),
    timing=_TIMING,
    hidden=("epoch", "train_*", "total_flos", "eval_runtime", "eval_*_per_second", "num_input_tokens_seen"),
    training_keys=("loss", "grad_norm", "learning_rate", "lr"),
    prefixes=(("train/", ""), ("eval/", "eval_")),
    traits=(
        TraitEvidence("has_critic", ("loss/value_avg",)),
        TraitEvidence("is_async", _ASYNC_KEYS),
        TraitEvidence("kl_is_sequence_sum", ("objective/kl",)),
    ),
    group_size_keys=("num_generations", "group_size"),
)

ASYNC = replace(
    DIALECT,
    variant="async GRPO",
    fingerprints=(Fingerprint(Algorithm.GRPO, all_of=("reward",), any_of=_ASYNC_KEYS, weight=26),),
    aliases=(
        *spellings("off_policy_kl | kl"),
        *(alias for alias in DIALECT.aliases if alias.pattern != "kl"),
        *spellings(_TABLES["asynchronous"]),
    ),
    staleness_bounds=("max_staleness",),
    timing=TimingPlan(
        step_keys=("step_time", "perf/step_s"),
        stages=(
            Stage("perf/rollout_wait_s", name="rollout_wait"),
            Stage("perf/fwd_bwd_s", name="fwd_bwd"),
            Stage("perf/fwd_s", name="fwd", parent="fwd_bwd"),
            Stage("perf/optimizer_s", name="optimizer"),
            Stage("perf/weight_sync_s", name="weight_sync", fits_inside=True),
            *(Stage(f"perf/weight_sync_{name}_s", name=name, parent="weight_sync") for name in _SYNC),
        ),
        namespace=_TIMING.namespace,
    ),
)
"""The asynchronous trainer; its `kl` is measured against the policy that sampled, not against a reference model."""
