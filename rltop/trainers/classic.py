"""Classic RL in simulators: Stable-Baselines3, RLlib, CleanRL, OpenAI Baselines, its monitor files, and Spinning Up.

Their PPO is clipped, but its metrics behave as in robotics, not as with language models; A2C, SAC, TD3 and DQN have
no clip range and no comparable critic loss. Returns are per episode, and lengths count environment steps.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, key_tables, spellings
from rltop.model import Algorithm

_TABLES = key_tables(__file__)

_ACTOR = "Minus the value of the policy's own actions: its size is that of the returns."
_CRITIC = "Squared error of the Q-function: it grows with the returns."
_SB3_EPISODES = ("rollout/ep_rew_mean", "rollout/ep_len_mean", "time/total_timesteps", "time/fps")
_SB3_PPO = ("train/policy_gradient_loss", "train/clip_fraction", "train/clip_range")

STABLE_BASELINES3 = Dialect(
    name="Stable-Baselines3",
    fingerprints=(
        Fingerprint(Algorithm.PPO, all_of=("train/policy_gradient_loss", "train/clip_fraction"), weight=16),
        Fingerprint(Algorithm.PPO, any_of=_SB3_EPISODES, all_of=("train/clip_fraction",), weight=16),
        Fingerprint(
            Algorithm.A2C,
            all_of=("train/policy_loss", "train/value_loss"),
            any_of=(*_SB3_EPISODES, "train/n_updates"),
            none_of=_SB3_PPO,
            weight=15,
        ),
        Fingerprint(Algorithm.SAC, all_of=("train/actor_loss", "train/critic_loss", "train/ent_coef"), weight=15),
        Fingerprint(Algorithm.DQN, all_of=("rollout/exploration_rate",), weight=15),
        Fingerprint(Algorithm.UNKNOWN, any_of=("rollout/ep_rew_mean", "rollout/ep_len_mean"), weight=9),
    ),
    aliases=spellings(_TABLES["Stable-Baselines3"]),
    hidden=("time/*", "train/n_updates", "train/clip_range", "train/clip_range_vf"),
    training_keys=("rollout/*", "train/*"),
    traits=(TraitEvidence("has_critic", ("train/explained_variance",)),),
    misleading=(("train/actor_loss", _ACTOR), ("train/critic_loss", _CRITIC)),
)

_LEARNER = ("info/learner/*/", "info/learner/", "learners/*/")
_EPISODES = ("episode_reward_mean", "env_runners/episode_return_mean", "env_runners/episode_reward_mean")
_SAC_SETTINGS = ("config/initial_alpha", "config/optimization/entropy_learning_rate")
_COUNTS = ("timesteps_total", "num_env_steps_sampled_lifetime", "timesteps_this_iter", "episodes_this_iter")


def _any(*names: str) -> tuple[str, ...]:
    return tuple(f"{place}{name}" for name in names for place in _LEARNER)


RLLIB = Dialect(
    name="RLlib",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_any("cur_kl_coeff", "curr_kl_coeff"), weight=17),
        Fingerprint(Algorithm.PPO, any_of=_any("kl", "mean_kl_loss"), all_of=("time_this_iter_s",), weight=10),
        Fingerprint(Algorithm.SAC, any_of=_any("alpha_value", "alpha_loss", "target_entropy"), weight=16),
        # Until 2020 the SAC learner logged the same keys as DDPG; only the logged settings tell them apart.
        Fingerprint(Algorithm.SAC, any_of=_SAC_SETTINGS, all_of=("time_this_iter_s",), weight=16),
        Fingerprint(Algorithm.A2C, all_of=("timesteps_total",), any_of=_any("policy_entropy"), weight=15),
        Fingerprint(
            Algorithm.DQN,
            all_of=("info/learner/*",),
            any_of=_any("mean_q", "max_q", "qf_mean"),
            none_of=_any("actor_loss", "policy_loss", "vf_loss"),
            weight=15,
        ),
        Fingerprint(Algorithm.UNKNOWN, any_of=_EPISODES, all_of=("time_this_iter_s",), weight=9),
        Fingerprint(Algorithm.UNKNOWN, any_of=_COUNTS, all_of=("episode_reward_mean",), weight=9),
    ),
    aliases=spellings(_TABLES["RLlib"].replace("{at}", f"{{{','.join(_LEARNER)}}}")),
    timing=TimingPlan(step_keys=("time_this_iter_s", "ray/tune/time_this_iter_s")),
    hidden=(
        *("episodes_this_iter", "num_healthy_workers", "timesteps_total", "agent_timesteps_total"),
        *("info/num_steps_sampled", "info/num_agent_steps_sampled", "info/num_agent_steps_trained"),
        *("info/last_target_update_ts", "info/num_target_updates"),
        *("config/*", "pid", "done", "experiment_tag", "date", "hostname", "node_ip", "trial_id", "experiment_id"),
        *("learners/*/num_trainable_parameters", "learners/*/num_non_trainable_parameters"),
        *("time_since_restore", "timesteps_since_restore", "iterations_since_restore", "warmup_time"),
    ),
    training_keys=(*_EPISODES, "info/*", "learners/*"),
    # The TensorBoard logger of Ray Tune prefixes the same keys with `ray/tune/`.
    prefixes=(("ray/tune/", ""),),
    traits=(TraitEvidence("has_critic", _any("vf_explained_var")),),
    misleading=(("info/learner/*actor_loss", _ACTOR), ("info/learner/*critic_loss", _CRITIC)),
)

_CLEANRL_OWN = ("charts/episodic_return", "charts/SPS", "charts/episodic_length")

CLEANRL = Dialect(
    name="CleanRL",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CLEANRL_OWN, all_of=("losses/clipfrac",), weight=16),
        Fingerprint(Algorithm.SAC, any_of=_CLEANRL_OWN, all_of=("losses/alpha",), weight=16),
        Fingerprint(
            Algorithm.DQN, any_of=_CLEANRL_OWN, all_of=("losses/td_loss",), none_of=("losses/actor_loss",), weight=16
        ),
        Fingerprint(Algorithm.UNKNOWN, any_of=_CLEANRL_OWN, weight=9),
    ),
    aliases=spellings(_TABLES["CleanRL"]),
    training_keys=("charts/*", "losses/*"),
    traits=(TraitEvidence("has_critic", ("losses/explained_variance",)),),
    misleading=(("losses/actor_loss", _ACTOR), ("losses/qf*_loss", _CRITIC)),
)

_MEANS = ("eprewmean", "EpRewMean", "mean 100 episode reward", "mean_100ep_reward")

BASELINES = Dialect(
    name="Baselines",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=(*_MEANS, "nupdates"), all_of=("loss/clipfrac",), weight=16),
        Fingerprint(
            Algorithm.PPO, any_of=(*_MEANS, "nupdates", "n_updates"), all_of=("clipfrac", "approxkl"), weight=16
        ),
        Fingerprint(Algorithm.DQN, all_of=("% time spent exploring", "steps"), weight=15),
        Fingerprint(Algorithm.DQN, any_of=_MEANS, all_of=("% time spent exploring",), weight=15),
        Fingerprint(
            Algorithm.A2C, all_of=("nupdates", "policy_entropy", "value_loss"), none_of=("approxkl",), weight=14
        ),
        Fingerprint(Algorithm.UNKNOWN, any_of=_MEANS, weight=9),
        # The monitor file of one environment: return, length and time of each episode.
        Fingerprint(Algorithm.UNKNOWN, all_of=("r", "l", "t"), none_of=("loss", "step"), weight=9),
    ),
    aliases=spellings(_TABLES["Baselines"]),
    hidden=("nupdates", "serial_timesteps", "total_timesteps", "TimestepsSoFar", "EpThisIter"),
    training_keys=(*_MEANS, "loss", "r"),
    traits=(TraitEvidence("has_critic", ("explained_variance", "misc/explained_variance", "ev")),),
)

SPINNING_UP = Dialect(
    name="Spinning Up",
    fingerprints=(
        Fingerprint(Algorithm.PPO, all_of=("AverageEpRet", "LossPi", "ClipFrac"), weight=16),
        Fingerprint(Algorithm.SAC, all_of=("AverageEpRet", "LossQ", "AverageLogPi"), weight=16),
        Fingerprint(Algorithm.UNKNOWN, any_of=("AverageEpRet",), weight=9),
    ),
    aliases=spellings(_TABLES["Spinning Up"]),
    hidden=("StopIter", "DeltaLossPi", "DeltaLossV"),
    training_keys=("AverageEpRet", "LossPi", "LossQ"),
    traits=(TraitEvidence("has_critic", ("LossV",)),),
    misleading=(("LossQ", _CRITIC),),
)
