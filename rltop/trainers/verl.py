"""veRL: PPO and group methods at scale, and the trainers that kept its keys.

Versions differ in what they log and in what a key means; where the meaning of one key changes (truncation in the
trainer that became the default with 0.9), a variant of the dialect leaves it out instead of reading it wrongly.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm
from rltop.structs import replace

_CRITIC = (
    *("critic/values/mean", "critic/value/mean", "critic/vf_loss", "critic/vf_explained_var", "critic/vpred_mean"),
    *("critic/lr(1e-4)", "timing_s/update_critic", "timing/update_critic"),
)
"""Keys that only a trained value function of this trainer leaves."""
_CRITIC_ANYWHERE = ("critic/lr", "critic/loss")
"""Keys of a critic that loops of other kinds have too: they count beside keys of this trainer's own."""
_OWN = ("actor/pg_loss", "actor/ppo_kl", "critic/advantages/mean", "critic/score/mean", "timing_s/step")
_UPDATE = ("actor/pg_loss", "actor/ppo_kl", "actor/grad_norm", "timing_s/update_actor", "critic/advantages/mean")
_V1 = ("training/off_policy/trajectory_staleness/%", "training/off_policy/trajectory_spans/%")


def _fingerprints(weight: int, extra: tuple[str, ...] = ()) -> tuple[Fingerprint, ...]:
    own = ("actor/*", *extra[:1])
    return (
        Fingerprint(Algorithm.DISTILL, all_of=own, any_of=("actor/distillation/loss",), weight=weight + 4),
        Fingerprint(Algorithm.PPO, all_of=own, any_of=_CRITIC, weight=weight + 3),
        *(Fingerprint(Algorithm.PPO, (*own, key), any_of=_OWN, weight=weight + 3) for key in _CRITIC_ANYWHERE),
        Fingerprint(
            Algorithm.DPO, all_of=own, any_of=("actor/rewards_accuracies", "actor/dpo_loss"), weight=weight + 2
        ),
        Fingerprint(Algorithm.GRPO, all_of=own, any_of=_UPDATE, none_of=_CRITIC, weight=weight + 1),
    )


_FINGERPRINTS = (
    *_fingerprints(20),
    Fingerprint(
        Algorithm.SFT,
        any_of=("train/total_tokens(B)", "train/lr(1e-3)", "train/global_tokens"),
        none_of=("actor/*",),
        weight=20,
    ),
    Fingerprint(
        Algorithm.UNKNOWN,
        any_of=(
            *("val-core/*", "val-aux/*", "val/test_score/*", "timing_s/step", "global_seqlen/mean", "fully_async/*"),
            *("perf/total_num_tokens", "perf/mfu/actor", "timing_s/agent_loop/*"),
        ),
        weight=8,
    ),
)


def _both(metric: str, *patterns: str) -> tuple[Alias, ...]:
    return tuple(Alias(pattern, metric) for pattern in patterns)


def _borrowed(metric: str, *patterns: str) -> tuple[Alias, ...]:
    return tuple(Alias(pattern, metric, is_borrowed=True) for pattern in patterns)


_REWARD = (
    *_both("reward_mean", "critic/score/mean", "critic/rewards/mean", "actor/rewards_mean"),
    *_both("score_mean", "critic/score/mean"),
    *_both("reward_final", "critic/rewards/mean"),
    *_both("reward_max", "critic/score/max", "critic/rewards/max"),
    *_both("reward_min", "critic/score/min", "critic/rewards/min"),
    *_both("adv_mean", "critic/advantages/mean"),
    *_both("adv_max", "critic/advantages/max"),
    *_both("adv_min", "critic/advantages/min"),
    *_both("adv_std", "critic/advantages/std"),
    *_both("return_mean", "critic/returns/mean"),
    *_both("success_frac", "critic/success_rate/mean"),
    *_both("reward_component", "gdpo/%/mean"),
    *_both("reward_component_std", "gdpo/%/std"),
    *_both("val_score", "val-core/*/acc/mean@*", "val-core/*/reward/mean@*", "val-core/*/mean@*", "val/test_score/*"),
    *_both("val_best", "val-core/*/best@*/mean"),
    *_both("val_turns_mean", "val-aux/num_turns/mean"),
    *_both("val_turns_max", "val-aux/num_turns/max"),
    *_both("val_turns_min", "val-aux/num_turns/min"),
    *_both("val_reward", "val-aux/*/reward/mean@*"),
    *_both("val_best", "val-aux/*/best@*/mean"),
    *_both("val_worst", "val-aux/*/worst@*/mean"),
    *_both("val_std", "val-core/*/std@*", "val-aux/*/std@*"),
    *_both("val_aux", "val-aux/*", "val-core/*"),
    *_both("val_loss", "val/loss"),
    # Of reward functions and validations of one's own.
    *_both("sample_metric", "reward/*"),
    *_both("val_aux", "val/*"),
)

_POLICY = (
    *_both("loss", "actor/loss", "train/loss"),
    *_both("policy_loss", "actor/pg_loss"),
    *_both("grad_norm", "actor/grad_norm", "train/grad_norm"),
    *_both("lr", "actor/lr", "train/lr"),
    Alias("actor/lr(1e-4)", "lr", scale=1e-4),
    Alias("train/lr(1e-3)", "lr", scale=1e-3),
    *_both("lr_scheduler", "lr_scheduler/*"),
    *_both("entropy", "actor/entropy", "actor/entropy_loss"),
    *_both("clip_frac", "actor/pg_clipfrac"),
    *_both("clip_frac_lower", "actor/pg_clipfrac_lower"),
    *_both("kl_old", "actor/ppo_kl", "actor/approx_kl"),
    *_both("kl_ref", "actor/kl_loss", "actor/reward_kl_penalty", "critic/kl"),
    *_both("kl_coef", "actor/kl_coef", "actor/reward_kl_penalty_coeff", "critic/kl_coeff"),
    *_both("distill_loss", "actor/distillation/loss"),
    *_both("moe_max_vio", "rollout/moe/max_vio/max"),
    *_both("value_loss", "critic/vf_loss", "critic/loss"),
    *_both("value_mean", "critic/values/mean", "critic/value/mean", "critic/vpred_mean"),
    *_both("explained_var", "critic/vf_explained_var"),
    *_both("clip_frac_value", "critic/vf_clipfrac"),
    *_both("grad_norm_critic", "critic/grad_norm"),
    *_both("lr_critic", "critic/lr"),
    Alias("critic/lr(1e-4)", "lr_critic", scale=1e-4),
    *_both("dpo_accuracy", "actor/rewards_accuracies"),
    *_both("dpo_margin", "actor/rewards_margins"),
)

_TRUNCATION = (
    *_both("truncated_frac", "response_length_non_aborted/clip_ratio", "response_length/clip_ratio"),
    *_both("prompt_clip_frac", "prompt_length/clip_ratio"),
)

_ROLLOUT = (
    *_both("response_len_mean", "response_length_non_aborted/mean", "response_length/mean"),
    *_both("response_len_max", "response_length_non_aborted/max", "response_length/max"),
    *_both("response_len_min", "response_length_non_aborted/min", "response_length/min"),
    *_both("aborted_frac", "response/aborted_ratio"),
    *_both("prompt_len_mean", "prompt_length/mean"),
    *_both("prompt_len_max", "prompt_length/max"),
    *_both("prompt_len_min", "prompt_length/min"),
    *_both("num_turns_mean", "num_turns/mean", "training/num_turns/mean"),
    *_both("num_turns_max", "num_turns/max", "training/num_turns/max"),
    *_both("num_turns_min", "num_turns/min", "training/num_turns/min"),
    *_both("tool_calls_mean", "tool_call_counts/mean"),
    *_borrowed("group_len_ratio", "group_length_max_median_ratio_mean", "group_length_max_median_ratio"),
    *_borrowed("group_len_ratio", "*/group_length_max_median_ratio_mean", "*/group_length_max_median_ratio"),
    *_borrowed("group_len_gini", "group_length_gini_mean", "*/group_length_gini_mean"),
    *_both("zero_std_count", "training/filter_groups/evicted_samples"),
    *_both("evicted_samples", "training/off_policy/evicted_samples"),
    *_both("rollout_failures", "training/rollout_failure/evicted_samples"),
)

_CORRECTION = {
    "off_policy_kl": ("k3_kl", "kl"),
    "is_ratio_mean": ("rollout_is_mean",),
    "is_ratio_min": ("rollout_is_min",),
    "is_ratio_max": ("rollout_is_max",),
    "is_ratio_std": ("rollout_is_std",),
    "is_ess": ("rollout_is_eff_sample_size",),
    "is_chi2": ("chi2_token",),
    "ppl_ratio": ("ppl_ratio",),
    "rollout_masked_frac": ("rollout_rs_masked_fraction",),
    "rollout_masked_seq_frac": ("rollout_rs_seq_masked_fraction",),
}
"""Metric → names below `rollout_corr/`; the prefix depends on mode and version."""

_MISMATCH = (
    *(
        Alias(f"{prefix}{name}", metric)
        for metric, names in _CORRECTION.items()
        for name in names
        for prefix in ("rollout_corr/", "actor/rollout_corr/", "mismatch/", "mismatch/mismatch_")
    ),
    *_both("rollout_prob_diff_mean", "training/rollout_probs_diff_mean"),
    *_both("rollout_prob_diff_max", "training/rollout_probs_diff_max"),
    *_both("rollout_prob_diff_std", "training/rollout_probs_diff_std"),
    *_both("rollout_prob_corr", "training/rollout_actor_probs_pearson_corr"),
    *_both("staleness_mean", "training/off_policy/trajectory_staleness/mean"),
    *_both("staleness_max", "training/off_policy/trajectory_staleness/max"),
    *_both("staleness_worst_max", "training/off_policy/trajectory_staleness_worst/max"),
    *_both("traj_span_mean", "training/off_policy/trajectory_spans/mean"),
    *_both("stale_count", "fully_async/count/stale_trajectory_processed"),
    *_both("dropped_stale", "fully_async/count/dropped_stale_samples"),
    *_both("trainer_idle_frac", "fully_async/trainer/idle_ratio"),
    *_both("rollouter_idle_frac", "fully_async/rollouter/idle_ratio"),
    *_both("param_version", "fully_async/count/current_param_version"),
    *_both("queue_size", "fully_async/monitor/queue/mq_queue_size"),
    *_both("partial_frac", "fully_async/partial/partial_ratio"),
)

_PIPELINE = (
    Alias("training/off_policy/trajectory_staleness/min", "staleness_min"),
    Alias("training/off_policy/trajectory_spans/max", "traj_span_max"),
    Alias("training/off_policy/evicted_samples_staleness/mean", "staleness_dropped_mean"),
    Alias("training/off_policy/evicted_samples_staleness/max", "staleness_dropped_max"),
    Alias("training/filter_groups/discarded_surplus_samples", "dropped_surplus"),
    Alias("separate_async/switch/wait_samples", "queue_missing"),
    Alias("separate_async/switch/idle", "mode_flag"),
    Alias("separate_async/decision/sampleable_count", "queue_size"),
    Alias("separate_async/decision/remaining", "queue_missing"),
    Alias("separate_async/decision/should_switch_to_rollout", "mode_flag"),
    Alias("separate_async/decision/per_sample_time_seconds", "time_wait_sample"),
    Alias("separate_async/decision/effective_switch_cost_seconds", "time_switch"),
    Alias("fully_async/monitor/active_tasks_size", "inflight_count"),
    Alias("fully_async/monitor/queue/pending_queue_size", "gen_queue_size"),
    Alias("dynamic_resource/mq_size", "queue_size"),
    Alias("fully_async/static/max_queue_size", "queue_limit"),
    Alias("fully_async/static/max_concurrent_samples", "inflight_limit"),
    Alias("fully_async/static/staleness_threshold", "staleness_share_limit"),
    Alias("fully_async/processing_time/avg", "time_gen_sample_mean"),
    Alias("fully_async/processing_time/max", "time_gen_sample_max"),
    Alias("fully_async/processing_time/min", "time_gen_sample_min"),
    Alias("fully_async/processing_time/tp%", "time_gen_sample_high"),
    Alias("fully_async/partial/total_partial_num", "partial_count"),
    Alias("fully_async/partial/max_partial_span", "traj_span_max"),
    Alias("fully_async/rollouter/active_time", "time_gen_active"),
    Alias("fully_async/rollouter/version_time", "time_version"),
    Alias("fully_async/rollouter/step_generated_samples", "generated_count"),
    Alias("fully_async/count/staleness_samples", "stale_held"),
    Alias("fully_async/static/max_required_samples", "stale_held_limit"),
    Alias("dynamic_resource/train_compute_time_s", "time_trainer_active"),
    Alias("dynamic_resource/train_allocated_time_s", "time_trainer_held"),
    Alias("dynamic_resource/train_resource_utilization", "trainer_idle_frac", scale=-1.0, shift=1.0),
    Alias("dynamic_resource/rollout_resource_utilization", "rollouter_idle_frac", scale=-1.0, shift=1.0),
    Alias("dynamic_resource/resource_utilization", "gpu_busy_frac"),
    Alias("rollout/spec_accept_length", "spec_accept_len"),
)
"""Of the trainers that generate beside the training: fully asynchronous, and V1 with separate engines."""

_AGENT = "timing_s/agent_loop"
_SYSTEM = (
    *_both("seqlen_min", "global_seqlen/min"),
    *_both("seqlen_max", "global_seqlen/max"),
    *_both("seqlen_mean", "global_seqlen/mean"),
    *_both("seqlen_minmax_diff", "global_seqlen/minmax_diff"),
    *_both("seqlen_balanced_min", "global_seqlen/balanced_min"),
    *_both("seqlen_balanced_max", "global_seqlen/balanced_max"),
    *_both("time_step", "timing_s/step", "perf/time_per_step"),
    *_both("time_gen", "timing_s/gen", "timing_s/generate_async", "timing/gen"),
    *_both("time_reward", "timing_s/reward"),
    *_both("time_old_log_prob", "timing_s/old_log_prob", "timing/old_log_prob"),
    *_both("time_ref", "timing_s/ref", "timing/ref"),
    *_both("time_values", "timing_s/values", "timing/values"),
    *_both("time_adv", "timing_s/adv", "timing/adv"),
    *_both("time_update_critic", "timing_s/update_critic", "timing/update_critic"),
    *_both("time_update_actor", "timing_s/update_actor", "timing/update_actor"),
    *_both(
        "time_weight_sync", "timing_s/update_weights", "timing_s/sync_rollout_weights", "timing_s/timing_s/param_sync"
    ),
    *_both("time_weight_sync", "timing_s/param_sync"),
    *_both("time_save", "timing_s/save_checkpoint"),
    *_both("time_eval", "timing_s/testing", "timing/testing", "rollouter/validate_time"),
    *_both("time_dump", "timing_s/dump_rollout_generations"),
    *_both("time_switch", "timing_s/switch_to_trainer", "timing_s/switch_to_rollout"),
    *_both("time_wait_data", "timing_s/switch_wait", "timing_s/wait_for_enough_samples", "fully_async/total_wait_time"),
    *_both("time_gen_sample_mean", f"{_AGENT}/generate_sequences/mean"),
    *_both("time_gen_sample_max", f"{_AGENT}/generate_sequences/max", "timing_s/generation_timing/max"),
    *_both("time_gen_sample_min", f"{_AGENT}/generate_sequences/min"),
    *_both("time_tool_sample_mean", f"{_AGENT}/tool_calls/mean"),
    *_both("time_tool_sample_min", f"{_AGENT}/tool_calls/min"),
    *_both("time_tool_sample_max", f"{_AGENT}/tool_calls/max"),
    *_both("slowest_gen", f"{_AGENT}/slowest/generate_sequences"),
    *_both("slowest_tool", f"{_AGENT}/slowest/tool_calls"),
    *_both("slowest_score", f"{_AGENT}/slowest/compute_score"),
    *_both("slowest_response_len", f"{_AGENT}/slowest/response_length"),
    *_both("slowest_prompt_len", f"{_AGENT}/slowest/prompt_length"),
    *_both("preempted_max", f"{_AGENT}/num_preempted/max"),
    *_both("preempted_mean", f"{_AGENT}/num_preempted/mean"),
    *_both("time_per_token_gen", "timing_per_token_ms/gen", "timing_per_token/gen"),
    *_both("time_per_token_ref", "timing_per_token_ms/ref", "timing_per_token/ref"),
    *_both("time_per_token_values", "timing_per_token_ms/values", "timing_per_token/values"),
    *_both("time_per_token_adv", "timing_per_token_ms/adv", "timing_per_token/adv"),
    *_both("time_per_token_update_critic", "timing_per_token_ms/update_critic", "timing_per_token/update_critic"),
    *_both("time_per_token_update_actor", "timing_per_token_ms/update_actor", "timing_per_token/update_actor"),
    *_both("throughput_per_gpu", "perf/throughput"),
    *_both("total_tokens", "perf/total_num_tokens"),
    *_both("mfu", "perf/mfu/actor", "mfu/actor", "train/mfu"),
    *_both("mfu_infer", "perf/mfu/actor_infer"),
    *_both("mfu_critic", "perf/mfu/critic", "mfu/critic"),
    *_both("spec_accept_rate", "rollout/spec_accept_rate"),
    *_both("mem_alloc_gb", "perf/max_memory_allocated_gb", "actor/perf/max_memory_allocated_gb"),
    *_both("mem_reserved_gb", "perf/max_memory_reserved_gb", "actor/perf/max_memory_reserved_gb"),
    *_both("mem_cpu_gb", "perf/cpu_memory_used_gb", "actor/perf/cpu_memory_used_gb"),
    *_both("epoch", "training/epoch"),
)


def _stage(name: str, *, fits_inside: bool = False, is_outside: bool = False, lane: int = 0) -> Stage:
    return Stage(
        f"timing_s/{name}",
        name=name,
        lane=lane,
        fits_inside=fits_inside,
        is_outside=is_outside,
        per_token_key=f"timing_per_token_ms/{name}",
    )


_SLOWEST = (
    Stage(f"{_AGENT}/slowest/generate_sequences", name="slowest rollout: generate", parent="gen", lane=1),
    Stage(f"{_AGENT}/slowest/tool_calls", name="slowest rollout: tools", parent="gen", lane=1),
    Stage(f"{_AGENT}/slowest/compute_score", name="slowest rollout: score", parent="gen", lane=1),
    Stage(f"{_AGENT}/generate_sequences/mean", name="mean rollout: generate", parent="gen", lane=2),
    Stage(f"{_AGENT}/tool_calls/mean", name="mean rollout: tools", parent="gen", lane=2),
    Stage(f"{_AGENT}/compute_score/mean", name="mean rollout: score", parent="gen", lane=2),
    Stage("timing_s/generate_sequences", name="inference engine", parent="gen", lane=3),
)
"""Statistics over rollouts, shown beside `gen`: they run at the same time and never stack."""

_OLD = tuple(
    Stage(f"timing/{name}", name=name)
    for name in ("gen", "ref", "values", "adv", "update_critic", "update_actor", "testing")
)
"""Spelling of 2024, which logs no step time."""

_TIMING = TimingPlan(
    step_keys=("timing_s/step", "perf/time_per_step"),
    stages=(
        _stage("start_profile", is_outside=True),
        _stage("wait_for_enough_samples"),
        _stage("switch_to_trainer"),
        _stage("switch_wait"),
        _stage("generate_async", lane=1),
        _stage("gen"),
        *_SLOWEST,
        _stage("gen_max"),
        _stage("reward"),
        _stage("old_log_prob"),
        _stage("ref"),
        _stage("values"),
        _stage("adv"),
        _stage("update_critic"),
        _stage("update_actor"),
        _stage("save_checkpoint", fits_inside=True),
        _stage("update_weights"),
        _stage("sync_rollout_weights"),
        Stage("timing_s/timing_s/param_sync", name="param_sync"),
        _stage("param_sync"),
        _stage("switch_to_rollout"),
        _stage("dump_rollout_generations"),
        _stage("testing", fits_inside=True),
        _stage("stop_profile", is_outside=True),
        *_OLD,
    ),
    counts=(
        f"{_AGENT}/slowest/prompt_length",
        f"{_AGENT}/slowest/response_length",
        f"{_AGENT}/*num_preempted*",
        "timing_s/generation_timing/topk_ratio",
    ),
    statistics=(f"{_AGENT}/*", "timing_s/generation_timing/*"),
    namespace=("timing_s/",),
)

DIALECT = Dialect(
    name="veRL",
    fingerprints=_FINGERPRINTS,
    aliases=(*_REWARD, *_POLICY, *_TRUNCATION, *_ROLLOUT, *_MISMATCH, *_SYSTEM, *_PIPELINE),
    timing=_TIMING,
    hidden=("training/global_step", "training/epoch", "fully_async/count/current_param_version"),
    training_keys=("actor/*", "critic/*", "timing_s/step", "train/loss", "timing/update_actor"),
    traits=(
        TraitEvidence("has_critic", (*_CRITIC, *_CRITIC_ANYWHERE)),
        TraitEvidence("is_async", ("fully_async/*", "training/separate_async/*", "separate_async/*")),
        TraitEvidence(
            "is_async", ("timing_s/generate_async", "training/off_policy/evicted_samples", "dynamic_resource/*")
        ),
        TraitEvidence("kl_is_signed", ("actor/ppo_kl",)),
    ),
    group_size_keys=("rollout/n", "actor_rollout_ref/rollout/n", "training/rollout_n"),
    gpus=(("trainer.nnodes", "trainer.n_gpus_per_node"), ("rollout.nnodes", "rollout.n_gpus_per_node")),
    advantage_keys=("critic/advantages/max", "critic/advantages/min"),
)

PADDED = (
    *(
        (
            key,
            "Share of completions as long as the longest of their batch, to which this trainer pads: at least one "
            "in every batch; it says nothing about truncation.",
        )
        for key in ("response_length/clip_ratio", "response_length_non_aborted/clip_ratio")
    ),
    (
        "prompt_length/clip_ratio",
        "Share of prompts as long as the longest of their batch, to which this trainer pads; "
        "it says nothing about truncation.",
    ),
)
"""What a clip ratio of lengths is where batches are padded to their longest member."""

V1 = replace(
    DIALECT,
    variant="trainer since 0.9",
    staleness_bounds=("max_off_policy_threshold",),
    misleading=PADDED,
    fingerprints=tuple(fp for pattern in _V1 for fp in _fingerprints(30, (pattern,))),
    aliases=tuple(alias for alias in DIALECT.aliases if alias not in _TRUNCATION),
)
"""The trainer that is the default since 0.9: it pads to the longest completion of the
batch, so the logged clip ratio is at least one completion in every batch and says nothing
about truncation."""


# -- EasyR1 ------------------------------------------------------------------------------------------------------
# veRL for vision-language models, with an outer loop and a metric file of its own. Completions are padded to the
# length that is set, so the clip ratio of lengths is truncation; `reward/…` are what a reward function returns, of
# which `overall` is the reward; `pg_clipfrac_higher` counts tokens that the ordinary bound clips, on either side.

_EASYR1_OWN = (
    "val/reward_score",
    "actor/pg_clipfrac_higher",
    "perf/mfu_actor",
    "timing_s/old",
    "val_response_length/mean",
)
_EASYR1_CRITIC = (*_CRITIC, "perf/mfu_critic")


_EASYR1_NEVER = (
    *("actor/dist", "actor/perf/", "actor/rewards_", "actor/rollout_corr/", "fully_async/", "gdpo/", "mfu/"),
    *("mismatch/", "num_turns/", "perf/mfu/", "response/", "response_length_non_aborted/", "rollout/", "rollout_corr/"),
    *("rollouter/", "timing/", "timing_s/agent", "timing_per_token/", "tool_call", "train/", "training/", "val-"),
    *("reward/", "val/", "*/group", "group"),
)
"""Beginnings of veRL's keys that this trainer never logs, or means otherwise."""


def _easyr1_stage(name: str, *, fits_inside: bool = False) -> Stage:
    return Stage(f"timing_s/{name}", name=name, fits_inside=fits_inside, per_token_key=f"timing_per_token_ms/{name}")


EASYR1: Dialect = replace(
    DIALECT,
    name="EasyR1",
    fingerprints=(
        Fingerprint(Algorithm.PPO, all_of=("actor/*", "perf/mfu_critic"), any_of=_EASYR1_OWN, weight=39),
        Fingerprint(Algorithm.GRPO, all_of=("actor/*",), any_of=_EASYR1_OWN, none_of=_EASYR1_CRITIC, weight=38),
    ),
    aliases=(
        Alias("val/reward_score", "val_score"),
        Alias("val/overall_reward", "val_reward"),
        Alias("val/*_reward", "val_aux"),
        Alias("val_response_length/mean", "val_response_len"),
        Alias("val_response_length/clip_ratio", "val_truncated_frac"),
        Alias("reward/overall", "score_mean"),
        Alias("reward/%", "reward_component"),
        Alias("actor/pg_clipfrac_higher", "clip_frac"),
        Alias("actor/kl_penalty", "kl_ref"),
        Alias("perf/mfu_actor", "mfu"),
        Alias("perf/mfu_critic", "mfu_critic"),
        Alias("timing_s/old", "time_old_log_prob"),
        Alias("timing_s/validation", "time_eval"),
        *(alias for alias in DIALECT.aliases if not alias.pattern.startswith(_EASYR1_NEVER)),
    ),
    timing=replace(
        _TIMING, stages=(*_TIMING.stages, _easyr1_stage("old"), _easyr1_stage("validation", fits_inside=True))
    ),
)


# -- rLLM --------------------------------------------------------------------------------------------------------
# Agents on veRL or on tinker; keys of its own for groups, advantages and episodes beside those of the backend. They
# name the role of an agent (`reward/solver/mean`); a run with one calls it `default` or by its class. On tinker,
# `kl_sample_train_v1` is a mean absolute difference of log-probabilities, and `v2` half its square.

_RLLM_OWN = (
    "batch/solve_partial",
    "batch/%/fractions/effective",
    "advantage/%/fraction_zero",
    "groups/num_trajs_*_filter",
)
_RLLM_STATISTICS = ("mean", "std", "max", "min")

_RLLM_ALIASES = (
    *(Alias(f"reward/%/{each}", f"reward_{each}") for each in _RLLM_STATISTICS),
    *(Alias(f"advantage/%/{each}", f"adv_{each}") for each in _RLLM_STATISTICS),
    Alias("episode/correct", "success_frac"),
    Alias("batch/%/fractions/effective", "zero_std_frac", scale=-1.0, shift=1.0),
    # Of completions rather than groups: where groups have one size it is the same share.
    Alias("advantage/%/fraction_zero", "zero_std_frac"),
    Alias("batch/%/fractions/too_easy", "all_good_frac"),
    Alias("batch/%/fractions/too_hard", "all_bad_frac"),
    Alias("batch/solve_all", "all_good_frac"),
    Alias("batch/solve_none", "all_bad_frac"),
    Alias("batch/solve_partial", "mixed_group_frac"),
    Alias("groups/dropped_zero_adv", "zero_std_count"),
    Alias("groups/num_trajs_after_filter", "sample_count"),
    *(
        Alias(f"{prefix}/{reason}", metric)
        for prefix in ("batch/termination_reason", "episode/termination_reason", "batch")
        for reason, metric in (("max_response_length_exceeded", "truncated_frac"), ("error", "aborted_frac"))
    ),
    Alias("batch/termination_reason/%", "sample_metric"),
    Alias("episode/termination_reason/%", "sample_metric"),
    *(Alias(f"batch/steps_per_traj/{each}", f"num_turns_{each}") for each in ("mean", "max", "min")),
    Alias("episode/num_turns", "num_turns_mean"),
    Alias("batch/%/group_reward_std/p50", "reward_std"),
    Alias("batch/%/group_reward_mean/%", "sample_metric"),
    Alias("batch/%/group_reward_std/%", "sample_metric"),
    Alias("val/*/pass@1", "val_score"),
    Alias("val/*/pass@*", "val_passk"),
    Alias("val/reward/%/mean", "val_reward"),
    Alias("train/kl_sample_train_v2", "off_policy_kl"),
    Alias("train/kl_sample_train_v1", "rollout_logp_diff_mean"),
    Alias("train/entropy", "entropy"),
    Alias("progress/lr", "lr"),
    Alias("progress/done_frac", "progress"),
    *(
        Alias(f"{prefix}/{name}", metric)
        for prefix in ("rollout_correction", "offpolicy")
        for metric, names in _CORRECTION.items()
        for name in names
    ),
    Alias("async/staleness_mean", "staleness_mean"),
    Alias("async/staleness_max", "staleness_max"),
    Alias("async/buffer_qsize", "queue_size"),
    Alias("async/weight_version", "param_version"),
    Alias("async/trainer_idle_ratio", "trainer_idle_frac"),
    Alias("time/step", "time_step"),
    Alias("time/buffer_wait", "time_wait_data"),
    Alias("time/weight_sync", "time_weight_sync"),
    Alias("time/forward_backward", "time_update_actor"),
    Alias("time/fused_forward_backward_and_optim_step", "time_update_actor"),
    Alias("time/save_checkpoint", "time_save"),
    Alias("time/testing", "time_eval"),
    Alias("timing_s/old_log_probs", "time_old_log_prob"),
    Alias("timing_s/weight_sync", "time_weight_sync"),
    Alias("episode/time/rollout_s", "time_gen_sample_mean"),
)
# What veRL logs too, and what only stands in for it.
_RLLM_INSTEAD = (
    *(Alias(f"batch/step_response_length/{each}", f"response_len_{each}") for each in ("mean", "max", "min")),
    Alias("episode/response_tokens", "response_len_mean"),
    Alias("episode/prompt_tokens", "prompt_len_mean"),
)


def _rllm_stage(key: str, *, fits_inside: bool = False, is_outside: bool = False) -> Stage:
    return Stage(key, name=key.partition("/")[2], fits_inside=fits_inside, is_outside=is_outside)


_RLLM_STAGES = (
    _rllm_stage("time/buffer_wait"),
    _rllm_stage("time/forward_backward"),
    _rllm_stage("time/optim_step"),
    Stage("time/fused_forward_backward_and_optim_step", name="forward_backward_optim"),
    _rllm_stage("time/weight_sync", fits_inside=True),
    _rllm_stage("time/save_checkpoint", fits_inside=True),
    _rllm_stage("time/testing", is_outside=True),
    _rllm_stage("timing_s/old_log_probs"),
    _rllm_stage("timing_s/rollout_correction"),
    _rllm_stage("timing_s/weight_sync", fits_inside=True),
)

RLLM: Dialect = replace(
    DIALECT,
    name="rLLM",
    fingerprints=(
        *(Fingerprint(Algorithm.PPO, all_of=(own,), any_of=_CRITIC, weight=49) for own in _RLLM_OWN),
        Fingerprint(Algorithm.GRPO, any_of=_RLLM_OWN, none_of=_CRITIC, weight=48),
    ),
    aliases=(*_RLLM_ALIASES, *(alias for alias in DIALECT.aliases if alias.pattern != "reward/*"), *_RLLM_INSTEAD),
    timing=replace(
        _TIMING,
        step_keys=(*_TIMING.step_keys, "time/step"),
        stages=(*_TIMING.stages, *_RLLM_STAGES),
        statistics=(*_TIMING.statistics, "episode/time/*"),
        namespace=(*_TIMING.namespace, "time/"),
    ),
    hidden=(
        *DIALECT.hidden,
        *("batch/num_tasks", "batch/%/total", "batch/%/informative", "batch/groups_*", "groups/num_groups"),
        *("groups/num_trajs_before_filter", "groups/%_group_size", "async/buffer_consumed", "async/buffer_filtered"),
        *("async/groups_consumed", "async/quota_used", "async/max_rollout_quota", "async/total_syncs"),
        *("async/dispatched_since_sync", "async/steps_since_sync"),
    ),
    group_size_keys=(*DIALECT.group_size_keys, "groups/avg_group_size"),
    training_keys=(*DIALECT.training_keys, "advantage/*", "progress/lr"),
    traits=(*DIALECT.traits, TraitEvidence("is_async", ("async/*",))),
)
