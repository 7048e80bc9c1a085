"""NeMo-RL: `train/…`, `performance/…`, `timing/train/…` and `validation/…` tags.

`baseline_reward/pct_*` are per cent; `kl_penalty` is already divided by its coefficient;
with several microbatches, the gradient norm is their sum.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, key_tables, spellings, stages
from rltop.model import Algorithm

_OWN = ("train/token_mult_prob_error", "train/gen_kl_error", "train/probs_ratio", "train/approx_entropy")
_CHOSEN = ("train/rewards_chosen_mean", "train/rewards_rejected_mean")

_STAGE, _PREPARE = "timing/train/{}", "prepare_for_generation/total"
_SINCE_START = (
    "Its seconds are those of one step and it is divided by the time since the start, so it falls as the run goes on."
)


DIALECT = Dialect(
    name="NeMo-RL",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=37),
        Fingerprint(Algorithm.DPO, all_of=(*_CHOSEN, "train/preference_loss"), weight=36),
        Fingerprint(Algorithm.REWARD, all_of=_CHOSEN, none_of=("train/preference_loss",), weight=35),
        Fingerprint(Algorithm.UNKNOWN, any_of=("timing/train/total_step_time",), weight=25),
    ),
    aliases=spellings(key_tables(__file__)["keys"]),
    timing=TimingPlan(
        step_keys=("timing/train/total_step_time",),
        stages=(
            *stages(_STAGE, "data_processing", _PREPARE),
            *stages(_STAGE, "prepare_for_generation/transfer_and_update_weights", parent=_PREPARE),
            *stages(_STAGE, "exposed_generation", "generation", "reward_calculation", "logprob_inference_prep"),
            *stages(_STAGE, "policy_and_reference_logprobs", "advantage_calculation", "training_prep"),
            *stages(_STAGE, "policy_training", "weight_sync"),
            *stages(_STAGE, "checkpointing", fits_inside=True),
        ),
        namespace=("timing/train/",),
    ),
    training_keys=("train/loss", "train/grad_norm", "train/lr", "timing/train/*"),
    traits=(
        TraitEvidence(
            "is_async",
            ("train/avg_trajectory_age", "timing/train/exposed_generation", "train/evicted_stale_prompt_groups"),
        ),
    ),
    group_size_keys=("num_generations_per_prompt",),
    staleness_bounds=("max_trajectory_age_steps",),
    gpus=(("cluster.num_nodes", "cluster.gpus_per_node"),),
    misleading=(
        ("efficiency/idle/*_pct", _SINCE_START),
        ("efficiency/efficiency_pct", _SINCE_START),
        ("efficiency/productive_time_s", "The time since the start less what one step waited."),
    ),
)
