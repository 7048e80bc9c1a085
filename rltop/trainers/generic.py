"""Names that many training loops use, for files of unknown trainers.

It has only names whose meaning hardly varies; every other metric is shown under its own key.
"""

from __future__ import annotations

from collections.abc import Iterable

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, key_tables, spellings
from rltop.model import Algorithm

_TABLES = key_tables(__file__)

_PAIRS = frozenset({Algorithm.DPO})
_ROLLOUTS = frozenset(Algorithm) - _PAIRS
_NO_JUDGE = frozenset(Algorithm) - {Algorithm.REWARD}
_ACCURACY = ("accuracy", "acc", "train_accuracy", "mean_accuracy")
_DPO = ("rewards/accuracies", "rewards/accuracy", "rewards/margins", "dpo/*", "dpo_loss", "loss/dpo")
_CHOSEN = (
    *("chosen_reward", "chosen_rewards", "chosen_reward_mean"),
    *("reward_chosen", "rewards_chosen", "rewards/chosen", "reward/chosen"),
)
"""Reward of the chosen completions, as custom loops log it next to that of the rejected ones."""
_SCORES = (
    *(("chosen_score", "rejected_score"), ("chosen_scores", "rejected_scores")),
    *(("positive_score", "negative_score"), ("Positive Score", "Negative Score")),
)
"""Scores that a reward model gives to the two completions of a pair."""
_Q = ("q_loss", "qf_loss", "qf1_loss", "td_loss", "td_error", "q_values", "mean_q", "q_mean", "epsilon")
"""Keys of DQN, SAC and the like, whose critic is not PPO's value function."""
_POLICY = (
    *("actor/*", "policy/*", "policy_loss", "loss/policy*", "objective/*", "rollout/*"),
    *("reward", "reward_mean", "kl", "entropy", "completions/*", "response_length*"),
)
"""Keys of a policy; with them, a reward model is only part of the run."""
_NO_PAIRS = ("rm/*", "policy_loss", "actor/*", "completions/*", "acc_mean")
"""Keys of a policy that samples, or of a reward model trained on pairs."""
_CRITIC = ("value_loss", "critic_loss", "cri_loss", "Critic Loss", "vf_loss", "explained_variance")
_CLIPPED = ("*clip*", "*kl*", "*KL*", "ratio", "ratio_mean", "importance_ratio", "ppo_*")
"""Keys of an update kept close to the previous policy. A2C, DDPG and others have a critic, but none of these."""
_STAGES: tuple[tuple[str, ...], ...] = (
    ("data", "load_data", "data_loading"),
    ("gen", "generate", "generation", "rollout", "rollouts", "sample", "sampling", "inference", "collect"),
    ("reward", "rewards", "score", "scoring", "verify"),
    ("ref", "ref_logprob", "ref_logprobs", "logprob", "logprobs", "old_log_prob", "adv", "advantage", "advantages"),
    ("train", "training", "update", "policy_update", "learn", "optimize"),
    ("sync", "sync_weights", "weight_sync", "broadcast"),
)
"""Names of the stages of a step, in the order in which they run."""
_INSIDE = ("forward", "backward", "forward_backward", "optimizer", "optim")
_SOMETIMES = ("eval", "evaluation", "validation", "val", "save", "checkpoint", "save_checkpoint")
_TIMES = ("time/", "timing/", "timing_s/", "times/", "time_")
_OFTEN_TOTALS = ("train", "training", "learn")
"""With the suffix `_time`, these are often the total time since the start."""


def _stages() -> Iterable[Stage]:
    for words in _STAGES:
        for word in words:
            yield from (Stage(f"{space}{word}", name=word) for space in _TIMES)
            if word not in _OFTEN_TOTALS:
                yield from (Stage(f"{word}_time{unit}", name=word) for unit in ("", "_s"))
    for word in _INSIDE:
        yield from (Stage(f"{space}{word}", name=word, parent="train") for space in _TIMES)
    for word in _SOMETIMES:
        yield from (Stage(f"{space}{word}", name=word, fits_inside=True) for space in _TIMES)


DIALECT = Dialect(
    name="generic",
    is_any_case=True,
    fingerprints=(
        Fingerprint(Algorithm.EMBODIED, any_of=("env/success_once",), weight=3),
        *(Fingerprint(Algorithm.PPO, all_of=(key,), any_of=_CLIPPED, none_of=_Q, weight=2) for key in _CRITIC),
        Fingerprint(Algorithm.REWARD, any_of=("rm/accuracy", "rm/reward_margin", "rm/loss"), none_of=_POLICY, weight=5),
        *(Fingerprint(Algorithm.REWARD, all_of=pair, none_of=_POLICY, weight=7) for pair in _SCORES),
        Fingerprint(Algorithm.DPO, any_of=_DPO, weight=4),
        *(
            Fingerprint(Algorithm.DPO, all_of=(chosen, chosen.replace("chosen", rejected)), none_of=_NO_PAIRS, weight=7)
            for chosen in _CHOSEN
            for rejected in ("rejected", "reject")
        ),
        Fingerprint(Algorithm.SAC, any_of=("alpha_loss", "ent_coef_loss", "loss/alpha"), weight=3),
        Fingerprint(Algorithm.DQN, any_of=_Q, none_of=("actor_loss", "policy_loss", "value_loss"), weight=3),
        Fingerprint(Algorithm.UNKNOWN, any_of=_Q, all_of=("actor_loss",), weight=3),
        Fingerprint(
            Algorithm.GRPO,
            any_of=("frac_reward_zero_std", "group_reward_std", "group_length_*", "rollout/*_group_relative_*"),
            none_of=_CRITIC,
            weight=2,
        ),
        Fingerprint(Algorithm.UNKNOWN, weight=1),
    ),
    aliases=(
        *spellings(_TABLES["loops"]),
        *(Alias(pattern, "success_frac", algorithms=_ROLLOUTS) for pattern in _ACCURACY),
        *(Alias(pattern, "dpo_accuracy", algorithms=_PAIRS) for pattern in _ACCURACY),
        # The reward model is the run itself, or is trained next to a policy (`rm/`).
        *spellings("{loss,grad_norm} REWARD | rm/{}"),
        *(alias._replace(algorithms=_NO_JUDGE) for alias in spellings("rm_{loss,grad_norm} | rm/{}")),
        # Hardware metrics, as trackers name them; the keys of several GPUs are instances of one metric.
        *spellings(_TABLES["machine"]),
    ),
    timing=TimingPlan(
        step_keys=("step_time", "time_per_step", "step_time_s", "time/step", "time/total", "timing/step_total"),
        stages=tuple(_stages()),
    ),
    training_keys=("loss", "policy_loss", "lr", "learning_rate", "grad_norm", "reward", "mean_reward"),
    prefixes=(("train/", ""), ("training/", "")),
    traits=(TraitEvidence("has_critic", _CRITIC),),
    group_size_keys=("group_size", "num_generations", "rollout/n", "samples_per_prompt", "n_samples_per_prompt"),
)
