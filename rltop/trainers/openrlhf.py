"""OpenRLHF: PPO and critic-free methods on Ray, and the offline trainers.

TensorBoard and W&B keys are the console's with the prefix `train/`; evaluations are `eval/…`. The KL to the reference
is logged as zeros if there is no reference model. DPO and reward-model runs log the same keys until the first
evaluation: only a reward model then logs its mean score.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, key_tables, spellings
from rltop.model import Algorithm

_CRITIC = ("critic_loss", "values", "critic_lr", "critic_grad_norm")
_ONLINE = ("ppo_clip_ratio", "timing/ppo_train", "timing/make_experience", "actor_lr", "response_clip_ratio")
_PREFERENCE = ("chosen_reward", "reject_reward")

DIALECT = Dialect(
    name="OpenRLHF",
    fingerprints=(
        Fingerprint(Algorithm.PPO, all_of=("policy_loss",), any_of=_CRITIC[:1], weight=33),
        Fingerprint(Algorithm.PPO, any_of=("critic_lr", "critic_grad_norm"), all_of=("actor_lr",), weight=33),
        Fingerprint(
            Algorithm.GRPO, all_of=("policy_loss", "group_reward_std"), any_of=_ONLINE, none_of=_CRITIC, weight=32
        ),
        Fingerprint(Algorithm.UNKNOWN, all_of=("policy_loss",), any_of=_ONLINE, none_of=_CRITIC, weight=31),
        Fingerprint(Algorithm.UNKNOWN, any_of=("timing/ppo_train",), weight=24),
        Fingerprint(Algorithm.REWARD, all_of=(*_PREFERENCE, "eval/reward_mean"), weight=31, is_late=True),
        Fingerprint(Algorithm.DPO, all_of=(*_PREFERENCE, "acc"), weight=30),
        Fingerprint(Algorithm.SFT, all_of=("gpt_loss",), weight=30),
    ),
    aliases=spellings(key_tables(__file__)["keys"]),
    # In synchronous runs the step is the sum of the four. In asynchronous runs it is wall time; generation overlaps
    # the rest, and the sum exceeds the step.
    timing=TimingPlan(
        step_keys=("timing/step_total", "train/timing/step_total"),
        stages=tuple(
            Stage(f"{prefix}timing/{name}", name=name)
            for name in ("generation", "make_experience", "ppo_train", "broadcast")
            for prefix in ("", "train/")
        ),
        namespace=("timing/", "train/timing/"),
    ),
    hidden=("train/global_step", "eval/global_step", "eval/epoch"),
    training_keys=("policy_loss", "actor_lr", "loss_mean", "gpt_loss", "timing/ppo_train"),
    prefixes=(("train/", ""),),
    traits=(
        TraitEvidence("has_critic", _CRITIC),
        TraitEvidence("kl_is_signed", ("ppo_kl",)),
    ),
    group_size_keys=("n_samples_per_prompt",),
)
