"""prime-rl: a trainer and an orchestrator that write to one file.

Both log `time/step`; the keys beside it tell which of the two a duration belongs to,
and the two run at the same time, so the orchestrator's stages have a lane of their own.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm
from rltop.trainers.setup_hints import RolloutHint, SetupHint

_OWN = (
    "mismatch_kl/*",
    "train/agg/*",
    "time/wait_for_batch",
    "time/wait_for_policy",
    "kl_ent_ratio/mean",
    "is_masked/mean",
    "masked_advantage_positive/mean",
)


def _trainer(name: str) -> Stage:
    return Stage(f"time/{name}", name=name)


def _orchestrator(name: str) -> Stage:
    return Stage(f"time/{name}", name=f"orchestrator: {name}", lane=1)


DIALECT = Dialect(
    name="prime-rl",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=28),
        Fingerprint(Algorithm.GRPO, all_of=("Loss", "Mismatch KL"), weight=24),
        Fingerprint(Algorithm.GRPO, all_of=("Reward", "Max Off-Policy"), weight=24),
        Fingerprint(Algorithm.GRPO, all_of=("Reward", "Seq. Length"), weight=24),
        Fingerprint(Algorithm.SFT, all_of=("loss/perplexity", "optim/lr", "time/forward_backward"), weight=26),
    ),
    aliases=(
        Alias("train/agg/effective/%/reward/mean", "reward_mean"),
        Alias("train/agg/effective/reward/mean", "reward_mean"),
        Alias("reward/all/mean", "reward_mean"),
        Alias("reward/mean", "reward_mean"),
        Alias("reward/%/mean", "reward_mean"),
        Alias("reward/std", "reward_std"),
        Alias("train/agg/all/%/solved_some", "mixed_group_frac"),
        Alias("train/agg/all/%/solved_some", "zero_std_frac", scale=-1.0, shift=1.0),
        Alias("train/agg/all/%/solved_all", "all_good_frac"),
        Alias("train/agg/all/%/solved_none", "all_bad_frac"),
        Alias("solve_all/all", "all_good_frac"),
        Alias("solve_none/all", "all_bad_frac"),
        Alias("batch/solve_all", "all_good_frac"),
        Alias("batch/solve_none", "all_bad_frac"),
        Alias("effective_batch_size/all", "zero_std_frac", scale=-1.0, shift=1.0),
        Alias("train/agg/effective/num_output_tokens/mean", "response_len_mean"),
        Alias("decode_len/all/mean", "response_len_mean"),
        Alias("decode_len/mean", "response_len_mean"),
        Alias("train/agg/effective/num_output_tokens/max", "response_len_max"),
        Alias("decode_len/all/max", "response_len_max"),
        Alias("train/agg/effective/num_output_tokens/min", "response_len_min"),
        Alias("train/agg/effective/num_output_tokens/p90", "response_len_p90"),
        Alias("seq_len/all/mean", "total_len_mean"),
        Alias("seq_len/mean", "total_len_mean"),
        Alias("train/agg/effective/num_input_tokens/mean", "prompt_len_mean"),
        Alias("prefill_len/all/mean", "prompt_len_mean"),
        Alias("train/agg/effective/%/is_truncated/mean", "truncated_frac"),
        Alias("train/agg/effective/is_truncated/mean", "truncated_frac"),
        Alias("is_truncated/all/mean", "truncated_frac"),
        Alias("is_truncated/mean", "truncated_frac"),
        Alias("train/agg/all/has_error/mean", "aborted_frac"),
        Alias("errored_rollouts/all", "aborted_frac"),
        Alias("train/agg/all/cancelled/mean", "cancelled_frac"),
        Alias("train/agg/effective/num_turns/mean", "num_turns_mean"),
        Alias("num_turns/all/mean", "num_turns_mean"),
        Alias("num_turns/mean", "num_turns_mean"),
        Alias("mismatch_kl/all/mean", "off_policy_kl"),
        Alias("mismatch_kl/mean", "off_policy_kl"),
        Alias("mismatch_kl/%/mean", "off_policy_kl"),
        Alias("mismatch_kl/all/max", "off_policy_kl_max"),
        Alias("entropy/all/mean", "entropy"),
        Alias("entropy/mean", "entropy"),
        Alias("entropy/%/mean", "entropy"),
        Alias("kl_ent_ratio/mean", "kl_ent_ratio"),
        Alias("teacher_kl/mean", "kl_teacher"),
        Alias("is_masked/mean", "clip_frac"),
        Alias("is_masked_low/mean", "clip_frac_low"),
        Alias("is_masked_high/mean", "clip_frac_high"),
        Alias("optim/grad_norm", "grad_norm"),
        Alias("optim/lr", "lr"),
        Alias("loss/mean", "loss"),
        # This trainer logs per cent.
        Alias("perf/mfu", "mfu", scale=0.01),
        Alias("perf/throughput", "throughput"),
        Alias("perf/throughput_per_gpu", "throughput_per_gpu"),
        Alias("perf/peak_memory", "mem_peak_gb"),
        Alias("time/step", "time_step"),
        Alias("time/forward_backward", "time_update_actor"),
        Alias("time/wait_for_batch", "time_wait_data"),
        Alias("time/wait_for_policy", "time_wait_policy"),
        Alias("time/wait_for_ckpt", "time_wait_policy"),
        Alias("time/broadcast_weights", "time_weight_sync"),
        Alias("time/save_ckpt", "time_save"),
        Alias("time/load_data", "time_load_data"),
        Alias("time/pack", "time_prepare"),
        Alias("time/generate_completions", "time_gen"),
        Alias("off_policy/mean", "staleness_mean"),
        Alias("batch/off_policy_level/mean", "staleness_mean"),
        Alias("off_policy/max", "staleness_max"),
        Alias("off_policy/dropped", "stale_count"),
        Alias("progress/total_tokens", "num_tokens"),
        Alias("Reward", "reward_mean"),
        Alias("Truncation", "truncated_frac"),
        Alias("Error", "aborted_frac"),
        Alias("Cancelled", "cancelled_frac"),
        Alias("Turns", "num_turns_mean"),
        Alias("Max Off-Policy", "staleness_max"),
        Alias("Max. Off-Policy Level", "staleness_max"),
        Alias("Seq. Length", "total_len_mean"),
        Alias("Loss", "loss"),
        Alias("Entropy", "entropy"),
        Alias("Mismatch KL", "off_policy_kl"),
        Alias("Grad. Norm", "grad_norm"),
        Alias("LR", "lr"),
        Alias("Throughput", "throughput"),
        Alias("MFU", "mfu"),
        Alias("Peak Mem.", "mem_peak_gb"),
        Alias("eval/%/effective/*/avg@*", "val_score"),
        Alias("eval/*/avg@*", "val_score"),
        Alias("val_reward/mean", "val_score"),
        Alias("eval/*/pass@*", "val_passk"),
        Alias("system/ckpt_disk_free_ratio", "disk_free_frac"),
    ),
    timing=TimingPlan(
        step_keys=("time/step",),
        stages=(
            _trainer("broadcast_weights"),
            _trainer("save_ckpt"),
            _trainer("wait_for_batch"),
            _trainer("load_data"),
            _trainer("forward_backward"),
            _orchestrator("wait_for_policy"),
            _orchestrator("wait_for_ckpt"),
            _orchestrator("generate_completions"),
            _orchestrator("teacher_logprobs"),
            _orchestrator("parallel_preprocess"),
            _orchestrator("pack"),
        ),
        namespace=("time/",),
    ),
    hidden=("progress/*",),
    training_keys=("optim/*", "loss/*", "time/forward_backward", "time/pack"),
    traits=(TraitEvidence("is_async", ("off_policy/*", "time/wait_for_batch", "batch/off_policy_level/*")),),
)

SETUP_HINT = SetupHint(
    "prime-rl",
    "",
    "outputs/<run>/metrics.jsonl",
    note="On by default. Trainer and orchestrator write to the same file; rows are merged by step. "
    "Both log `time/step`: the later row sets the step time.",
)

ROLLOUT_HINT = RolloutHint("prime-rl", "", "outputs/<run>/rollouts/step_<N>/train/{all,effective}/traces.jsonl")
