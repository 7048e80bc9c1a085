"""ROLL: keys like veRL's, some with other meanings.

`actor/policykl` is the signed step KL and `actor/approxkl` a squared estimator of it;
`critic/kl` is the KL in the reward; the entropy is under `critic/`.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, key_tables, spellings, stages
from rltop.model import Algorithm

_OWN = ("time/step_total", "actor/policykl", "actor/ppo_ratio_clipfrac", "system/tps", "token/response_length/mean")
_CRITIC = ("critic/loss", "critic/clipfrac", "critic/vpred", "critic/lr")
_PREFERENCE = ("actor/chosen_reward", "actor/reject_reward")

DIALECT = Dialect(
    name="ROLL",
    fingerprints=(
        Fingerprint(Algorithm.DPO, all_of=_PREFERENCE, weight=38),
        Fingerprint(Algorithm.PPO, any_of=_OWN, all_of=("critic/loss", "critic/rewards/mean"), weight=37),
        Fingerprint(
            Algorithm.GRPO, any_of=_OWN, all_of=("actor/pg_loss",), none_of=(*_CRITIC, *_PREFERENCE), weight=36
        ),
        Fingerprint(Algorithm.UNKNOWN, any_of=_OWN, weight=28),
    ),
    aliases=spellings(key_tables(__file__)["keys"]),
    timing=TimingPlan(
        step_keys=("time/step_total",),
        stages=(
            *stages("time/{}", "step_model_update", "step_generate", "step_rollout"),
            *stages("time/{}", "val_step", fits_inside=True),
            *stages("time/{}", "ref_log_probs_values", "old_log_probs", "reward_postprocess", "compute_advantage"),
            *stages("time/{}", "step_train"),
        ),
        namespace=("time/",),
    ),
    hidden=("system/step",),
    misleading=(("token/*_response_length/clip", "How many completions of the batch were cut, not their share."),),
    training_keys=("actor/*", "actor_train/*", "critic/*", "time/step_train"),
    traits=(
        TraitEvidence("has_critic", ("critic/loss",)),
        TraitEvidence("kl_is_signed", ("actor/policykl",)),
        TraitEvidence("is_async", ("time/step_shrink", "shrink/*", "expand/*")),
    ),
    group_size_keys=("num_return_sequences_in_group",),
    wait_keys=("time/step_generate", "time/step_rollout"),
    staleness_bounds=("async_generation_ratio",),
    gpus=(("num_nodes", "num_gpus_per_node"),),
    advantage_keys=("critic/advantages/max", "critic/advantages/min"),
)
