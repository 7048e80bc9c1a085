"""ART: several rows per step (training, validation, checkpoints), by `train/`, `val/` and `loss/`.

The idle times of trainer and rollout workers are seconds, although they stand under
`throughput/`.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm

_OWN = ("time/step_wall_s", "time/step_trainer_s", "data/step_num_groups_submitted", "train/reward_std_dev")

DIALECT = Dialect(
    name="ART",
    fingerprints=(Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=36),),
    aliases=(
        Alias("train/reward", "reward_mean"),
        Alias("train/reward_std_dev", "reward_std"),
        Alias("train/exception_rate", "aborted_frac"),
        Alias("loss/train", "policy_loss"),
        Alias("loss/kl_policy_ref", "kl_ref"),
        Alias("loss/kl_div", "kl_ref"),
        Alias("loss/entropy", "entropy"),
        Alias("loss/grad_norm", "grad_norm"),
        Alias("loss/learning_rate", "lr"),
        Alias("train/steps_off_policy", "staleness_mean"),
        Alias("train/discarded_stale_groups", "stale_count"),
        Alias("data/step_num_groups_submitted", "sample_count"),
        Alias("time/step_wall_s", "time_step"),
        Alias("time/step_trainer_s", "time_update_actor"),
        Alias("time/step_actor_s", "time_gen"),
        Alias("time/step_eval_s", "time_eval"),
        Alias("throughput/step_trainer_idle_s", "time_wait_data"),
        Alias("throughput/step_actor_idle_s", "time_wait_policy"),
        Alias("throughput/avg_trainer_tok_per_s", "throughput"),
        Alias("throughput/avg_actor_tok_per_s", "gen_throughput"),
        Alias("time/wall_clock_sec", "time_elapsed"),
        Alias("val/reward", "val_score"),
        Alias("val/reward_std_dev", "val_aux"),
    ),
    # Training and rollouts may run at the same time; then the two add up to more than the step.
    timing=TimingPlan(
        step_keys=("time/step_wall_s",),
        stages=(
            Stage("time/step_actor_s", name="rollouts"),
            Stage("time/step_trainer_s", name="training"),
            Stage("time/step_eval_s", name="evaluation", fits_inside=True),
            Stage("throughput/step_trainer_idle_s", name="trainer idle", lane=1),
            Stage("throughput/step_actor_idle_s", name="samplers idle", lane=2),
        ),
    ),
    hidden=("training_step",),
    training_keys=("loss/*", "train/reward", "time/step_trainer_s"),
    traits=(TraitEvidence("is_async", ("train/steps_off_policy", "throughput/step_trainer_idle_s")),),
)
