"""OpenRLHF: PPO and its critic-free relatives on Ray, and the offline trainers.

TensorBoard and W&B put `train/` in front of what the console prints; evaluations are written as `eval/…`. The KL to a
reference is logged as zeros where there is no reference model. The tags of DPO and of reward models are the same until
the first evaluation, which only a reward model follows up with the mean of its scores.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, spellings
from rltop.model import Algorithm

_CRITIC = ("critic_loss", "values", "critic_lr", "critic_grad_norm")
_ONLINE = ("ppo_clip_ratio", "timing/ppo_train", "timing/make_experience", "actor_lr", "response_clip_ratio")
_PREFERENCE = ("chosen_reward", "reject_reward")

_ALIASES = spellings("""
    policy_loss | policy_loss
    clip_frac | ppo_clip_ratio
    kl_old | ppo_kl
    kl_ref | kl
    off_policy_kl | vllm_kl
    # Named a loss, but it is the mean entropy of the policy.
    entropy | entropy_loss
    grad_norm | actor_grad_norm | grad_norm
    lr | actor_lr | lr
    value_loss | critic_loss
    value_mean | values
    grad_norm_critic | critic_grad_norm
    lr_critic | critic_lr
    # The mean over the accumulated batch says more than its last part.
    loss | loss_mean | loss | gpt_loss
    nll_loss | nll_loss
    aux_loss | aux_loss
    # Over all rollouts, before filtering; the plain names are means over the training pass.
    reward_mean | rollout/reward_mean | reward
    score_mean | score
    reward_std | group_reward_std | rollout/reward_std
    return_mean | return
    # Samples kept per prompt consumed, in per cent: above 100 with several samples to a prompt.
    filter_pass_rate ×0.01 | dynamic_filtering_pass_rate
    sample_count | rollout/num_samples
    response_len_mean | rollout/response_length_mean | response_length
    total_len_mean | total_length
    truncated_frac | rollout/truncated_rate | truncated | response_clip_ratio
    dpo_accuracy DPO KTO | acc_mean | acc
    dpo_chosen DPO KTO | chosen_reward
    dpo_rejected DPO KTO | reject_reward
    dpo_margin DPO KTO | chosen_reward − reject_reward
    rm_accuracy REWARD | acc_mean | acc
    rm_chosen REWARD | chosen_reward
    rm_rejected REWARD | reject_reward
    rm_margin REWARD | chosen_reward − reject_reward
    val_score | eval/eval_*_pass1 | eval_*_pass1
    val_passk | eval/eval_*_pass* | eval_*_pass*
    val_response_len | eval/eval_response_length_mean | eval_response_length_mean
    val_truncated_frac | eval/eval_truncated_rate | eval_truncated_rate
    val_loss | eval/eval_loss | eval_loss | eval/eval gpt_loss | eval gpt_loss
    val_acc | eval/acc_mean
    rm_reward_mean | eval/reward_mean
    time_step | timing/step_total
    time_gen | timing/generation
    time_make_experience | timing/make_experience
    # Policy and critic are updated in this stage, one after the other or at once.
    time_update_actor | timing/ppo_train
    time_weight_sync | timing/broadcast
""")


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
    aliases=_ALIASES,
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
