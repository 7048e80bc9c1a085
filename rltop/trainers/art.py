"""ART: several rows per step (training, validation, checkpoints), by `train/`, `val/` and `loss/`.

The idle times of trainer and rollout workers are seconds, although they stand under `throughput/`.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, spellings
from rltop.model import Algorithm

_OWN = ("time/step_wall_s", "time/step_trainer_s", "data/step_num_groups_submitted", "train/reward_std_dev")

DIALECT = Dialect(
    name="ART",
    fingerprints=(Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=36),),
    aliases=spellings("""
        reward_mean | train/reward
        reward_std | train/reward_std_dev
        aborted_frac | train/exception_rate
        policy_loss | loss/train
        kl_ref | loss/kl_policy_ref | loss/kl_div
        entropy | loss/entropy
        grad_norm | loss/grad_norm
        lr | loss/learning_rate
        staleness_mean | train/steps_off_policy
        evicted_samples | train/discarded_stale_groups
        sample_count | data/step_num_groups_submitted
        time_step | time/step_wall_s
        time_update_actor | time/step_trainer_s
        time_gen | time/step_actor_s
        time_eval | time/step_eval_s
        time_wait_data | throughput/step_trainer_idle_s
        time_wait_policy | throughput/step_actor_idle_s
        throughput | throughput/avg_trainer_tok_per_s
        gen_throughput | throughput/avg_actor_tok_per_s
        time_elapsed | time/wall_clock_sec
        val_score | val/reward
        val_aux | val/reward_std_dev
    """),
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
