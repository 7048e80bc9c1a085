"""Classic RL: whose file it is, which algorithm, and what its keys mean."""

from __future__ import annotations

from tables import each_row

from rltop.catalog.dialect import Identity
from rltop.model import Algorithm
from rltop.trainers.identify import identify

SB3 = ["rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps", "time/iterations", "time/time_elapsed"]
SB3_PPO = [
    *SB3, "train/approx_kl", "train/clip_fraction", "train/clip_range", "train/entropy_loss", "train/loss",
    "train/explained_variance", "train/policy_gradient_loss", "train/value_loss", "train/learning_rate",
]  # fmt: skip
SB3_A2C = [*SB3, "train/entropy_loss", "train/explained_variance", "train/policy_loss", "train/value_loss"]
SB3_SAC = [*SB3, "train/actor_loss", "train/critic_loss", "train/ent_coef", "train/ent_coef_loss"]
SB3_TD3 = [*SB3, "train/actor_loss", "train/critic_loss", "train/n_updates"]
SB3_DQN = [*SB3, "rollout/exploration_rate", "train/loss"]
RLLIB = ["episode_reward_mean", "episode_len_mean", "timesteps_total", "time_this_iter_s", "episodes_total"]
LEARNER = "info/learner/default_policy/learner_stats"
SPINNING_UP = ["AverageEpRet", "MaxEpRet", "EpLen", "LossPi", "LossV", "Entropy", "KL", "ClipFrac", "StopIter", "Time"]
CLEANRL = ["charts/episodic_return", "charts/SPS", "losses/approx_kl", "losses/clipfrac", "losses/value_loss"]


def found(keys: list[str]) -> Identity:
    return identify(keys, {})


def read(identity: Identity, metric: str, raw: float) -> tuple[str, float]:
    signal = identity.primary(metric)
    assert signal is not None, f"nothing is read as {metric}"
    return signal.key, signal.read(raw)


@each_row(
    ("keys", "dialect", "algorithm"),
    [
        (SB3_PPO, "Stable-Baselines3", Algorithm.PPO),
        (SB3_A2C, "Stable-Baselines3", Algorithm.A2C),
        (SB3_SAC, "Stable-Baselines3", Algorithm.SAC),
        (SB3_TD3, "Stable-Baselines3", Algorithm.UNKNOWN),
        (SB3_DQN, "Stable-Baselines3", Algorithm.DQN),
        (SB3, "Stable-Baselines3", Algorithm.UNKNOWN),
        (RLLIB, "RLlib", Algorithm.UNKNOWN),
        ([*RLLIB, f"{LEARNER}/cur_kl_coeff", f"{LEARNER}/vf_loss"], "RLlib", Algorithm.PPO),
        ([*RLLIB, f"{LEARNER}/alpha_value", f"{LEARNER}/critic_loss"], "RLlib", Algorithm.SAC),
        ([*RLLIB, "config/optimization/entropy_learning_rate", f"{LEARNER}/actor_loss"], "RLlib", Algorithm.SAC),
        ([*RLLIB, f"{LEARNER}/mean_q", f"{LEARNER}/cur_lr"], "RLlib", Algorithm.DQN),
        ([*RLLIB, f"{LEARNER}/mean_q", f"{LEARNER}/actor_loss"], "RLlib", Algorithm.UNKNOWN),
        ([f"ray/tune/{key}" for key in [*RLLIB, f"{LEARNER}/policy_entropy"]], "RLlib", Algorithm.A2C),
        (CLEANRL, "CleanRL", Algorithm.PPO),
        ([*CLEANRL[:2], "losses/td_loss", "losses/q_values"], "CleanRL", Algorithm.DQN),
        (["r", "l", "t"], "Baselines", Algorithm.UNKNOWN),
        (SPINNING_UP, "Spinning Up", Algorithm.PPO),
        (["AverageEpRet", "AverageTestEpRet", "LossQ", "LossPi", "AverageLogPi"], "Spinning Up", Algorithm.SAC),
        (["AverageEpRet", "AverageTestEpRet", "LossQ", "LossPi"], "Spinning Up", Algorithm.UNKNOWN),
        (["mean 100 episode reward", "policy loss", "value loss", "kl"], "Baselines", Algorithm.UNKNOWN),
        (["mean 100 episode reward", "% time spent exploring", "episodes"], "Baselines", Algorithm.DQN),
        (["epsilon", "loss", "episode_reward"], "generic", Algorithm.DQN),
        (["actor_loss", "critic_loss", "alpha_loss", "reward"], "generic", Algorithm.SAC),
    ],
)
def test_each_is_known_with_its_algorithm(keys: list[str], dialect: str, algorithm: Algorithm) -> None:
    identity = found(keys)
    assert (identity.dialect.name, identity.algorithm) == (dialect, algorithm)


def test_the_entropy_loss_of_stable_baselines3_is_minus_the_entropy() -> None:
    assert read(found(SB3_PPO), "action_entropy", -1.38) == ("train/entropy_loss", 1.38)
    assert "entropy" not in found(SB3_PPO).signals, "it is not that of tokens, and falls to 0 where a task is solved"


@each_row(
    ("keys", "metric", "key"),
    [
        (SB3_PPO, "episode_len", "rollout/ep_len_mean"),
        (SB3_PPO, "samples_per_s", "time/fps"),
        ([*SB3_PPO, "rollout/success_rate"], "success_frac", "rollout/success_rate"),
        ([*SB3_PPO, "eval/mean_reward"], "val_return", "eval/mean_reward"),
        ([f"ray/tune/{key}" for key in RLLIB], "reward_mean", "ray/tune/episode_reward_mean"),
        ([f"ray/tune/{key}" for key in RLLIB], "time_step", "ray/tune/time_this_iter_s"),
        (["env_runners/episode_return_mean", "time_this_iter_s"], "reward_mean", "env_runners/episode_return_mean"),
        ([*RLLIB, f"{LEARNER}/grad_gnorm"], "grad_norm", f"{LEARNER}/grad_gnorm"),
        (
            ["episode_reward_mean", "time_this_iter_s", f"{LEARNER}/kl", f"{LEARNER}/vf_loss"],
            "value_loss",
            f"{LEARNER}/vf_loss",
        ),
        (["charts/episodic_return", "losses/grad_norm"], "grad_norm", "losses/grad_norm"),
        (["reward", "eval/reward", "eval/aime/reward"], "val_score", "eval/reward"),
        (["reward", "rollout_train_kl"], "off_policy_kl", "rollout_train_kl"),
        (["r", "l", "t"], "episode_return", "r"),
        (["r", "l", "t"], "episode_len", "l"),
        (["mean 100 episode reward", "value loss"], "value_loss", "value loss"),
        (SPINNING_UP, "reward_mean", "AverageEpRet"),
        (SPINNING_UP, "reward_max", "MaxEpRet"),
        (SPINNING_UP, "kl_old", "KL"),
        (SPINNING_UP, "action_entropy", "Entropy"),
    ],
)
def test_what_the_keys_mean(keys: list[str], metric: str, key: str) -> None:
    assert read(found(keys), metric, 1.0)[0] == key


@each_row("keys", [SB3_SAC, SB3_TD3, [*RLLIB, f"{LEARNER}/alpha_value", f"{LEARNER}/critic_loss"]])
def test_the_losses_of_a_q_function_are_no_losses_of_ppo(keys: list[str]) -> None:
    identity = found(keys)
    assert not identity.traits.has_critic
    assert {"value_loss", "policy_loss"}.isdisjoint(identity.signals)


@each_row(
    ("keys", "key", "metric", "raw", "value"),
    [
        (SB3_PPO, "time/fps", "samples_per_s", 900.0, 900.0),
        (SB3_PPO, "rollout/ep_len_mean", "episode_len", 20.0, 20.0),
        (SB3_PPO, "train/entropy_loss", "action_entropy", -1.5, 1.5),
        ([*SB3, "rollout/success_rate"], "rollout/success_rate", "success_frac", 0.5, 0.5),
        (["loss", "reward/mean"], "reward/mean", "reward_mean", 0.5, 0.5),
        (["loss", "policy/entropy"], "policy/entropy", "entropy", 0.5, 0.5),
        (["env/all/reward/total", "env/all/format_eos"], "env/all/format_eos", "truncated_frac", 0.75, 0.25),
        ([f"ray/tune/{key}" for key in RLLIB], "ray/tune/episode_reward_mean", "reward_mean", 5.0, 5.0),
        (["loss", "episode_reward"], "episode_reward", "reward_mean", 5.0, 5.0),
        (["loss", "return"], "return", "reward_mean", 5.0, 5.0),
        (["loss", "total_reward"], "total_reward", "reward_mean", 5.0, 5.0),
        (["loss", "val/success_rate"], "val/success_rate", "val_acc", 0.5, 0.5),
        (["loss", "eval/mean_reward"], "eval/mean_reward", "val_score", 0.5, 0.5),
        (["loss", "completion_len"], "completion_len", "response_len_mean", 50.0, 50.0),
        (["r", "l", "t"], "l", "episode_len", 50.0, 50.0),
        (["r", "l", "t"], "r", "episode_return", 50.0, 50.0),
        (["dpo/loss", "dpo/accuracy"], "dpo/accuracy", "dpo_accuracy", 0.5, 0.5),
        (["loss", "unclipped_grad_l2:mean"], "unclipped_grad_l2:mean", "grad_norm", 0.5, 0.5),
        (["loss", "policy/clip_frac"], "policy/clip_frac", "clip_frac", 0.5, 0.5),
        (["loss", "train/logps/clip_ratio"], "train/logps/clip_ratio", "clip_frac", 0.5, 0.5),
        (["loss", "mean_clip_fraction"], "mean_clip_fraction", "clip_frac", 0.5, 0.5),
    ],
)
def test_keys_that_real_logs_show(keys: list[str], key: str, metric: str, raw: float, value: float) -> None:
    assert read(found(keys), metric, raw) == (key, value)


def test_what_else_is_clipped_is_no_clip_fraction_of_the_policy() -> None:
    others = ["prompt/clip_ratio", "completions/clip_ratio", "value_clip_frac", "critic/clip_frac", "grad_clip_frac"]
    assert "clip_frac" not in found(["loss", "policy_loss", "clip_ratio_max", "frac_clipped", *others]).signals


def test_the_clip_range_is_a_setting_and_no_clip_fraction() -> None:
    identity = found(SB3_PPO)
    assert "train/clip_range" in identity.dialect.hidden
    assert [signal.key for signal in identity.signals["clip_frac"]] == ["train/clip_fraction"]
