"""slime: three step axes (training, rollouts, evaluations) in one stream.

`train/entropy_loss` is the mean entropy; `rollout/rewards` is normalised, `rollout/raw_reward` is the reward earned;
the mismatch is an absolute difference of log-probabilities, not a KL.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, key_tables, spellings, stages
from rltop.model import Algorithm
from rltop.structs import replace

_TABLES = key_tables(__file__)

_CRITIC = ("train/critic-*", "train/value_loss")
_OWN = (
    "train/train_rollout_logprob_abs_diff",
    "train/lr-pg_0",
    "rollout/raw_reward",
    "perf/longest_sample_tokens_per_sec",
    "perf/actor_train_time",
)

DIALECT = Dialect(
    name="slime",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CRITIC, all_of=("train/ppo_kl",), weight=37),
        Fingerprint(Algorithm.GRPO, any_of=_OWN, none_of=_CRITIC, weight=36),
    ),
    aliases=spellings(_TABLES["keys"]),
    # The step is waiting plus training time; the forward passes are part of the training time.
    timing=TimingPlan(
        step_keys=("perf/step_time",),
        stages=(
            *stages("perf/{}_time", "train_wait", "train"),
            *stages("perf/{}_time", "data_preprocess", "ref_log_probs", "log_probs", "actor_train", parent="train"),
            *stages("perf/{}_time", "update_weights", "rollout", "save_model", parent="train_wait"),
        ),
    ),
    hidden=("train/step", "rollout/step", "eval/step"),
    training_keys=("train/*",),
    traits=(TraitEvidence("has_critic", _CRITIC), TraitEvidence("kl_is_signed", ("train/ppo_kl",))),
    group_size_keys=("n_samples_per_prompt",),
    group_counts=("rollout_batch_size",),
    gpus=(("actor_num_nodes", "actor_num_gpus_per_node"), ("rollout_num_gpus",)),
)

# -- miles -------------------------------------------------------------------------------------------------------
# A fork with slime's keys; it also logs the policy versions of its samples, and generates during training.

_MILES_OWN = (
    *("rollout/weight_version/*", "rollout/fully_async/*", "perf/fully_async/*", "%/perf/queue_length"),
    *("rollout/zero_std/all_zero_percentage", "rollout/tito_session_mismatch_rate/*", "perf/mfu_peak_tflops"),
    *("perf/update_weights_implementation_time", "perf/finalize_and_resume_engines_time"),
)

# Versions count the process's weight updates, not steps, so step minus version is not the staleness.
MILES: Dialect = replace(
    DIALECT,
    name="miles",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CRITIC, all_of=("train/ppo_kl", "rollout/weight_version/*"), weight=41),
        Fingerprint(Algorithm.GRPO, any_of=_MILES_OWN, none_of=_CRITIC, weight=40),
    ),
    aliases=(*DIALECT.aliases, *spellings(_TABLES["miles"])),
    staleness_bounds=("max_weight_staleness",),
    traits=(*DIALECT.traits, TraitEvidence("is_async", ("rollout/fully_async/*", "perf/fully_async/*"))),
)
