"""ART: several rows per step (training, validation, checkpoints), with keys under `train/`, `val/` and `loss/`.

The idle times of trainer and rollout workers are seconds, although their keys start with `throughput/`.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, key_tables, spellings
from rltop.model import Algorithm

_OWN = ("time/step_wall_s", "time/step_trainer_s", "data/step_num_groups_submitted", "train/reward_std_dev")

DIALECT = Dialect(
    name="ART",
    fingerprints=(Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=36),),
    aliases=spellings(key_tables(__file__)["keys"]),
    # Training and rollouts may overlap; then their sum exceeds the step time.
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
