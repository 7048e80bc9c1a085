"""OpenRLHF: PPO and its critic-free relatives on Ray, and the offline trainers.

TensorBoard and W&B put `train/` in front of what the console prints; evaluations are written as `eval/…`. The KL to a
reference is logged as zeros where there is no reference model. The tags of DPO and of reward models are the same until
the first evaluation, which only a reward model follows up with the mean of its scores.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm

_PAIRS = frozenset({Algorithm.DPO, Algorithm.KTO})
_REWARD = frozenset({Algorithm.REWARD})
_CRITIC = ("critic_loss", "values", "critic_lr", "critic_grad_norm")
_ONLINE = ("ppo_clip_ratio", "timing/ppo_train", "timing/make_experience", "actor_lr", "response_clip_ratio")
_PREFERENCE = ("chosen_reward", "reject_reward")

_POLICY = (
    Alias("policy_loss", "policy_loss"),
    Alias("ppo_clip_ratio", "clip_frac"),
    Alias("ppo_kl", "kl_old"),
    Alias("kl", "kl_ref"),
    Alias("vllm_kl", "off_policy_kl"),
    # Named a loss, but it is the mean entropy of the policy.
    Alias("entropy_loss", "entropy"),
    Alias("actor_grad_norm", "grad_norm"),
    Alias("grad_norm", "grad_norm"),
    Alias("actor_lr", "lr"),
    Alias("lr", "lr"),
    Alias("critic_loss", "value_loss"),
    Alias("values", "value_mean"),
    Alias("critic_grad_norm", "grad_norm_critic"),
    Alias("critic_lr", "lr_critic"),
    # The mean over the accumulated batch says more than its last part.
    Alias("loss_mean", "loss"),
    Alias("loss", "loss"),
    Alias("gpt_loss", "loss"),
    Alias("nll_loss", "nll_loss"),
    Alias("aux_loss", "aux_loss"),
)

_REWARDS = (
    # Over all rollouts, before filtering; the plain names are means over the training pass.
    Alias("rollout/reward_mean", "reward_mean"),
    Alias("reward", "reward_mean"),
    Alias("score", "score_mean"),
    Alias("group_reward_std", "reward_std"),
    Alias("rollout/reward_std", "reward_std"),
    Alias("return", "return_mean"),
    # Samples kept per prompt consumed, in per cent: above 100 with several samples to a prompt.
    Alias("dynamic_filtering_pass_rate", "filter_pass_rate", scale=0.01),
    Alias("rollout/num_samples", "sample_count"),
    Alias("rollout/response_length_mean", "response_len_mean"),
    Alias("response_length", "response_len_mean"),
    Alias("total_length", "total_len_mean"),
    Alias("rollout/truncated_rate", "truncated_frac"),
    Alias("truncated", "truncated_frac"),
    Alias("response_clip_ratio", "truncated_frac"),
)

_PAIRWISE = (
    Alias("acc_mean", "dpo_accuracy", algorithms=_PAIRS),
    Alias("acc", "dpo_accuracy", algorithms=_PAIRS),
    Alias("chosen_reward", "dpo_chosen", algorithms=_PAIRS),
    Alias("reject_reward", "dpo_rejected", algorithms=_PAIRS),
    Alias("chosen_reward − reject_reward", "dpo_margin", algorithms=_PAIRS),
    Alias("acc_mean", "rm_accuracy", algorithms=_REWARD),
    Alias("acc", "rm_accuracy", algorithms=_REWARD),
    Alias("chosen_reward", "rm_chosen", algorithms=_REWARD),
    Alias("reject_reward", "rm_rejected", algorithms=_REWARD),
    Alias("chosen_reward − reject_reward", "rm_margin", algorithms=_REWARD),
)

_EVALUATION = (
    Alias("eval/eval_*_pass1", "val_score"),
    Alias("eval_*_pass1", "val_score"),
    Alias("eval/eval_*_pass*", "val_passk"),
    Alias("eval_*_pass*", "val_passk"),
    Alias("eval/eval_response_length_mean", "val_response_len"),
    Alias("eval_response_length_mean", "val_response_len"),
    Alias("eval/eval_truncated_rate", "val_truncated_frac"),
    Alias("eval_truncated_rate", "val_truncated_frac"),
    Alias("eval/eval_loss", "val_loss"),
    Alias("eval_loss", "val_loss"),
    Alias("eval/eval gpt_loss", "val_loss"),
    Alias("eval gpt_loss", "val_loss"),
    Alias("eval/acc_mean", "val_acc"),
    Alias("eval/reward_mean", "rm_reward_mean"),
)

_PROGRESS = (
    Alias("timing/step_total", "time_step"),
    Alias("timing/generation", "time_gen"),
    Alias("timing/make_experience", "time_make_experience"),
    # Policy and critic are updated in this stage, one after the other or at once.
    Alias("timing/ppo_train", "time_update_actor"),
    Alias("timing/broadcast", "time_weight_sync"),
)

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
    aliases=(*_POLICY, *_REWARDS, *_PAIRWISE, *_EVALUATION, *_PROGRESS),
    # The step is the sum of the four while they take turns; in asynchronous runs it is wall time,
    # generation runs beside the rest, and the sum is larger than the step.
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
