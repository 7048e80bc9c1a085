"""slime: three step axes (training, rollouts, evaluations) in one stream.

`train/entropy_loss` is the mean entropy; `rollout/rewards` is normalised, the raw one
beside it is what was earned; the mismatch is an absolute difference of
log-probabilities, not a KL.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm
from rltop.trainers.setup_hints import SetupHint, StreamKind

_CRITIC = ("train/critic-*", "train/value_loss")
_OWN = (
    "train/train_rollout_logprob_abs_diff",
    "train/lr-pg_0",
    "rollout/raw_reward",
    "perf/longest_sample_tokens_per_sec",
    "perf/actor_train_time",
)


def _stage(name: str, parent: str = "") -> Stage:
    return Stage(f"perf/{name}_time", name=name, parent=parent)


DIALECT = Dialect(
    name="slime",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CRITIC, all_of=("train/ppo_kl",), weight=37),
        Fingerprint(Algorithm.GRPO, any_of=_OWN, none_of=_CRITIC, weight=36),
    ),
    aliases=(
        Alias("rollout/raw_reward", "reward_mean"),
        Alias("rollout/rewards", "reward_final"),
        Alias("rollout/response_len/mean", "response_len_mean"),
        Alias("rollout/response_len/max", "response_len_max"),
        Alias("rollout/response_len/min", "response_len_min"),
        Alias("rollout/response_lengths", "response_len_mean"),
        Alias("rollout/truncated_ratio", "truncated_frac"),
        Alias("rollout/truncated", "truncated_frac"),
        Alias("rollout/repetition_frac", "repetition_frac"),
        Alias("rollout/zero_std/count_*", "zero_std_count"),
        Alias("rollout/advantages", "adv_mean"),
        Alias("rollout/prefix_cache_hit_rate", "prefix_cache_hit"),
        Alias("train/ppo_kl", "kl_old"),
        Alias("train/kl_loss", "kl_ref"),
        Alias("train/pg_clipfrac", "clip_frac"),
        Alias("train/entropy_loss", "entropy"),
        Alias("train/pg_loss", "policy_loss"),
        Alias("train/loss", "loss"),
        Alias("train/value_loss", "value_loss"),
        Alias("train/grad_norm", "grad_norm"),
        Alias("train/critic-grad_norm", "grad_norm_critic"),
        Alias("train/lr-pg_*", "lr"),
        Alias("train/critic-lr-pg_*", "lr_critic"),
        Alias("train/train_rollout_logprob_abs_diff", "rollout_logp_diff_mean"),
        Alias("train/tis", "is_ratio_mean"),
        Alias("train/tis_clipfrac", "is_clip_frac"),
        Alias("perf/step_time", "time_step"),
        Alias("perf/rollout_time", "time_gen"),
        Alias("perf/actor_train_time", "time_update_actor"),
        Alias("perf/train_wait_time", "time_wait_data"),
        Alias("perf/log_probs_time", "time_old_log_prob"),
        Alias("perf/ref_log_probs_time", "time_ref"),
        Alias("perf/update_weights_time", "time_weight_sync"),
        Alias("perf/data_preprocess_time", "time_prepare"),
        Alias("perf/save_model_time", "time_save"),
        Alias("perf/tokens_per_gpu_per_sec", "throughput_per_gpu"),
        Alias("perf/actor_train_tok_per_s", "throughput"),
        Alias("perf/actor_train_tflops", "tflops_train"),
        Alias("eval/%-truncated_ratio", "val_truncated_frac"),
        Alias("eval/%/response_len/mean", "val_response_len"),
        Alias("eval/%", "val_score"),
    ),
    # The step is waiting plus training; the single passes lie inside the training time.
    timing=TimingPlan(
        step_keys=("perf/step_time",),
        stages=(
            _stage("train_wait"),
            _stage("train"),
            *(_stage(name, "train") for name in ("data_preprocess", "ref_log_probs", "log_probs", "actor_train")),
            _stage("update_weights", "train_wait"),
            _stage("rollout", "train_wait"),
            _stage("save_model", "train_wait"),
        ),
    ),
    hidden=("train/step", "rollout/step", "eval/step"),
    training_keys=("train/*",),
    traits=(TraitEvidence("has_critic", _CRITIC), TraitEvidence("kl_is_signed", ("train/ppo_kl",))),
    group_size_keys=("n_samples_per_prompt",),
)

SETUP_HINT = SetupHint(
    "slime",
    "--use-tensorboard",
    "$TENSORBOARD_DIR or tensorboard_log/<project>/<experiment>/",
    StreamKind.TENSORBOARD,
)
