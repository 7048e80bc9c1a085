"""open-instruct: `val/…` holds training statistics; evaluations are under `eval/`.

`global_step` counts episodes, `training_step` is the step; utilisation is per cent; `objective/kl0_avg` to `kl3_avg`
are four estimators of the same KL, the third of which is positive and has low variance.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, key_tables, spellings
from rltop.model import Algorithm

_OWN = (
    "val/sequence_lengths",
    "objective/kl0_avg",
    "val/stop_rate",
    "debug/vllm_vs_local_logprob_diff_mean",
    "learner_tokens_per_second_step",
)
_VERIFIABLE = ("objective/verifiable_reward", "objective/verifiable_correct_rate")

DIALECT = Dialect(
    name="open-instruct",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=36),
        Fingerprint(Algorithm.PPO, any_of=_VERIFIABLE, all_of=("loss/value_avg",), weight=35),
        Fingerprint(Algorithm.UNKNOWN, any_of=_VERIFIABLE, weight=20),
        Fingerprint(Algorithm.DPO, all_of=("rewards/accuracy", "rewards/margin"), weight=32),
    ),
    aliases=spellings(key_tables(__file__)["keys"]),
    timing=TimingPlan(
        step_keys=("time/total",),
        stages=(
            Stage("time/trainer_waiting_for_data", name="waiting for data"),
            Stage("time/training", name="training"),
            Stage("time/weight_sync", name="weight sync"),
            Stage("time/saving", name="saving", fits_inside=True),
            Stage("time/health_check", name="health check", fits_inside=True),
            Stage("time/generation_waiting_for_trainer", name="samplers wait for the trainer", lane=1),
        ),
        statistics=("time/group_generation_*", "time/%_mean", "time/%_max", "time/%_min", "time/getting_response"),
        namespace=("time/",),
    ),
    hidden=("global_step", "training_step", "model_step_min", "model_step_max", "batch/no_resampled_prompts"),
    training_keys=("loss/*", "policy/*", "optim/grad_norm", "train_loss"),
    traits=(
        TraitEvidence("is_async", ("num_steps_off_policy",)),
        TraitEvidence("has_critic", ("loss/value_avg",)),
        TraitEvidence("kl_is_sequence_sum", ("objective/kl",)),
    ),
    group_size_keys=("num_samples_per_prompt_rollout",),
    misleading=(
        ("val/sequence_lengths_solved", "Mean length of the completions that are right; 0 where none is."),
        ("val/sequence_lengths_unsolved", "Mean length of the completions that are wrong; 0 where none is."),
        ("loss/kl_avg", "The KL term of the loss: the KL to the reference times its coefficient."),
        ("batch/filtered_prompts_solved", "How many prompts were left out because every completion was right."),
    ),
)
