"""Classic RL in simulators: Stable-Baselines3, RLlib, CleanRL, OpenAI Baselines and the monitor files of its tasks.

Their PPO is clipped and moves as robots' does, not as language models'; A2C, SAC, TD3 and DQN have neither a clip
range nor a critic whose loss can be compared. Returns are per episode, and lengths count environment steps.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, TimingPlan, TraitEvidence
from rltop.model import Algorithm

_ON_POLICY = frozenset({Algorithm.PPO, Algorithm.A2C})
_PPO = frozenset({Algorithm.PPO})
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
        Fingerprint(
            Algorithm.SAC,
            all_of=("train/actor_loss", "train/critic_loss", "train/ent_coef"),
            weight=15,
        ),
        Fingerprint(Algorithm.DQN, all_of=("rollout/exploration_rate",), weight=15),
        Fingerprint(Algorithm.UNKNOWN, any_of=("rollout/ep_rew_mean", "rollout/ep_len_mean"), weight=9),
    ),
    aliases=(
        Alias("rollout/ep_rew_mean", "reward_mean"),
        Alias("rollout/ep_len_mean", "episode_len"),
        Alias("rollout/success_rate", "success_frac"),
        Alias("eval/mean_reward", "val_return"),
        Alias("eval/success_rate", "val_acc"),
        Alias("eval/mean_ep_length", "val_aux"),
        Alias("train/loss", "loss"),
        Alias("train/policy_gradient_loss", "policy_loss"),
        Alias("train/policy_loss", "policy_loss"),
        Alias("train/value_loss", "value_loss", algorithms=_ON_POLICY),
        Alias("train/explained_variance", "explained_var"),
        # Minus the entropy: it is a term of the loss.
        Alias("train/entropy_loss", "action_entropy", scale=-1.0, algorithms=_ON_POLICY),
        Alias("train/approx_kl", "kl_old"),
        Alias("train/clip_fraction", "clip_frac"),
        Alias("train/learning_rate", "lr"),
        Alias("time/fps", "samples_per_s"),
        Alias("time/time_elapsed", "time_elapsed"),
        Alias("time/episodes", "episode"),
    ),
    hidden=("time/*", "train/n_updates", "train/clip_range", "train/clip_range_vf"),
    training_keys=("rollout/*", "train/*"),
    traits=(TraitEvidence("has_critic", ("train/explained_variance",)),),
    misleading=(("train/actor_loss", _ACTOR), ("train/critic_loss", _CRITIC)),
)

_LEARNER = ("info/learner/*/", "info/learner/", "learners/*/")
_EPISODES = ("episode_reward_mean", "env_runners/episode_return_mean", "env_runners/episode_reward_mean")
_SAC_SETTINGS = ("config/initial_alpha", "config/optimization/entropy_learning_rate")
_COUNTS = ("timesteps_total", "num_env_steps_sampled_lifetime", "timesteps_this_iter", "episodes_this_iter")


def _learned(metric: str, *names: str, algorithms: frozenset[Algorithm] = frozenset()) -> tuple[Alias, ...]:
    return tuple(Alias(f"{place}{name}", metric, algorithms=algorithms) for name in names for place in _LEARNER)


def _any(*names: str) -> tuple[str, ...]:
    return tuple(f"{place}{name}" for name in names for place in _LEARNER)


def _episodes(metric: str, *names: str) -> tuple[Alias, ...]:
    return tuple(
        Alias(f"{place}{name}", metric) for name in names for place in ("", "env_runners/", "sampler_results/")
    )


RLLIB = Dialect(
    name="RLlib",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_any("cur_kl_coeff", "curr_kl_coeff"), weight=17),
        Fingerprint(Algorithm.PPO, any_of=_any("kl", "mean_kl_loss"), all_of=("time_this_iter_s",), weight=10),
        Fingerprint(Algorithm.SAC, any_of=_any("alpha_value", "alpha_loss", "target_entropy"), weight=16),
        # Until 2020 the learner logged of SAC what it logs of DDPG; the settings stand beside it.
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
    aliases=(
        *_episodes("reward_mean", "episode_return_mean", "episode_reward_mean"),
        *_episodes("reward_max", "episode_return_max", "episode_reward_max"),
        *_episodes("reward_min", "episode_return_min", "episode_reward_min"),
        *_episodes("episode_len", "episode_len_mean"),
        Alias("evaluation/episode_reward_mean", "val_return"),
        Alias("evaluation/env_runners/episode_return_mean", "val_return"),
        Alias("evaluation/sampler_results/episode_reward_mean", "val_return"),
        Alias("evaluation/episode_len_mean", "val_aux"),
        *_learned("loss", "total_loss", algorithms=_ON_POLICY),
        *_learned("policy_loss", "policy_loss", algorithms=_PPO),
        *_learned("value_loss", "vf_loss", algorithms=_PPO),
        *_learned("explained_var", "vf_explained_var", algorithms=_ON_POLICY),
        *_learned("action_entropy", "entropy", algorithms=_PPO),
        *_learned("kl_old", "kl", "mean_kl_loss", algorithms=_PPO),
        *_learned("kl_coef", "cur_kl_coeff", "curr_kl_coeff", algorithms=_PPO),
        *_learned("grad_norm", "grad_gnorm", "gradients_default_optimizer_global_norm"),
        *_learned("loss", "mean_td_error", algorithms=frozenset({Algorithm.DQN})),
        *_learned("lr", "cur_lr", "default_optimizer_learning_rate"),
        *_learned("td_error", "mean_td_error", "td_error", algorithms=frozenset({Algorithm.SAC})),
        *_learned("q_mean", "mean_q", "qf_mean"),
        *_learned("q_max", "max_q", "qf_max"),
        *_learned("q_min", "min_q", "qf_min"),
        *_learned("sac_alpha", "alpha_value"),
        *_learned("sac_alpha_loss", "alpha_loss"),
        *_learned("sac_target_entropy", "target_entropy"),
        Alias("time_this_iter_s", "time_step"),
        Alias("time_total_s", "time_elapsed"),
        Alias("episodes_total", "episode"),
        Alias("timers/*_ms", "time_worker"),
        Alias("sampler_perf/*_ms", "time_worker"),
        Alias("timers/*_throughput", "stage_rate"),
        Alias("perf/cpu_util_percent", "cpu_util", scale=0.01),
        Alias("perf/ram_util_percent", "ram_util", scale=0.01),
    ),
    timing=TimingPlan(step_keys=("time_this_iter_s",)),
    hidden=(
        *("episodes_this_iter", "num_healthy_workers", "timesteps_total", "agent_timesteps_total"),
        *("info/num_steps_sampled", "info/num_agent_steps_sampled", "info/num_agent_steps_trained"),
        *("info/last_target_update_ts", "info/num_target_updates"),
        *("config/*", "pid", "done", "experiment_tag", "date", "hostname", "node_ip", "trial_id", "experiment_id"),
        *("learners/*/num_trainable_parameters", "learners/*/num_non_trainable_parameters"),
        *("time_since_restore", "timesteps_since_restore", "iterations_since_restore", "warmup_time"),
    ),
    training_keys=(*_EPISODES, "info/*", "learners/*"),
    # The TensorBoard logger of Tune writes the same keys below a name of its own.
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
    aliases=(
        Alias("charts/episodic_return", "reward_mean"),
        Alias("charts/episodic_length", "episode_len"),
        Alias("charts/learning_rate", "lr"),
        Alias("charts/SPS", "samples_per_s"),
        Alias("losses/policy_loss", "policy_loss"),
        Alias("losses/value_loss", "value_loss", algorithms=_ON_POLICY),
        Alias("losses/td_loss", "loss"),
        Alias("losses/grad_norm", "grad_norm"),
        Alias("losses/entropy", "action_entropy"),
        Alias("losses/approx_kl", "kl_old"),
        Alias("losses/old_approx_kl", "kl_old"),
        Alias("losses/clipfrac", "clip_frac"),
        Alias("losses/explained_variance", "explained_var"),
        Alias("eval/episodic_return", "val_return"),
        Alias("eval/mean_reward", "val_return"),
    ),
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
        # A file of one task: return, length and time of each episode.
        Fingerprint(Algorithm.UNKNOWN, all_of=("r", "l", "t"), none_of=("loss", "step"), weight=9),
    ),
    aliases=(
        *(Alias(key, "reward_mean") for key in _MEANS),
        # Of one episode, so that it says little alone.
        Alias("r", "episode_return"),
        Alias("max 100 episode reward", "reward_max"),
        Alias("min 100 episode reward", "reward_min"),
        *(Alias(key, "episode_len") for key in ("eplenmean", "EpLenMean", "l")),
        *(Alias(key, "policy_loss") for key in ("loss/policy_loss", "policy_loss", "policy loss")),
        *(Alias(key, "value_loss") for key in ("loss/value_loss", "value_loss", "value loss")),
        *(Alias(key, "action_entropy") for key in ("loss/policy_entropy", "policy_entropy")),
        *(Alias(key, "kl_old") for key in ("loss/approxkl", "approxkl", "meankl")),
        *(Alias(key, "clip_frac") for key in ("loss/clipfrac", "clipfrac")),
        *(Alias(key, "explained_var") for key in ("misc/explained_variance", "explained_variance", "ev")),
        *(Alias(key, "episode") for key in ("episodes", "num episodes", "EpisodesSoFar")),
        Alias("fps", "samples_per_s"),
        *(Alias(key, "time_elapsed") for key in ("time_elapsed", "misc/time_elapsed", "TimeElapsed", "t")),
        Alias("lr", "lr"),
        Alias("loss", "loss"),
        Alias("success_rate", "success_frac"),
    ),
    hidden=("nupdates", "serial_timesteps", "total_timesteps", "TimestepsSoFar", "EpThisIter"),
    training_keys=(*_MEANS, "loss", "r"),
    traits=(TraitEvidence("has_critic", ("explained_variance", "misc/explained_variance", "ev")),),
)
