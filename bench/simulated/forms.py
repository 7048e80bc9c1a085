"""The files that trainers and users write: keys, units, layout, and the notation of non-finite values.

Keys are copied from the trainers' sources and not taken from rltop, so that errors there
become visible.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from simulated.writers import Row

Cell = float | str | None
Spelling = str | tuple[str, float, float]
"""A key, or a key with the scale and shift that convert our value into the logged one."""

OWN = "="
"""Prefix of names that are literal keys for every writer."""
DIGITS = 7
"""Significant digits of written values: float32 precision, and the same on every machine."""


class Form(NamedTuple):
    """One way to write a run.

    Attributes:
        name: name in the table and of the file.
        of: `llm`, `classic` or `custom`.
        story: the kind of series it logs: `online`, `ppo`, `pairs`, `supervised`, `control`, `embodied` or `q`.
        layout: a function of `LAYOUTS`.
        keys: canonical name → its spelling.
        step: key of the step.
        stride: steps between two records.
        fixed: keys that are the same in every row.
        bad: notation of non-finite values: `NaN`, `null` or `drop`.
        apart: prefixes of keys that are written in a row of their own.
    """

    name: str
    of: str
    story: str
    layout: str
    keys: Mapping[str, Spelling]
    step: str = "step"
    stride: int = 1
    fixed: Mapping[str, Cell] = {}
    bad: str = "NaN"
    apart: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Name of the file, as its trainer calls it."""
        return _FILES[self.layout]


_FILES = {
    "lines": "metrics.jsonl", "verl": "metrics.jsonl", "list": "log.json", "columns": "history.json",
    "csv": "progress.csv", "rllib": "result.json", "console": "train.log", "dicts": "train.log",
    "wrapped": "train.log", "pipes": "train.log", "brackets": "train.log",
}  # fmt: skip

_VERL: dict[str, Spelling] = {
    "score_mean": "critic/score/mean", "reward_max": "critic/score/max", "reward_min": "critic/score/min",
    "reward_mean": "critic/rewards/mean", "adv_max": "critic/advantages/max", "adv_min": "critic/advantages/min",
    "entropy": "actor/entropy", "policy_loss": "actor/pg_loss", "grad_norm": "actor/grad_norm",
    "clip_frac": "actor/pg_clipfrac", "kl_old": "actor/ppo_kl", "kl_ref": "actor/kl_loss", "lr": "actor/lr",
    "response_len_mean": "response_length/mean", "response_len_max": "response_length/max",
    "response_len_min": "response_length/min", "truncated_frac": "response_length/clip_ratio",
    "turns_mean": "num_turns/mean", "turns_max": "num_turns/max",
    "off_policy_kl": "rollout_corr/kl", "rollout_prob_diff_mean": "training/rollout_probs_diff_mean",
    "is_ratio_mean": "rollout_corr/rollout_is_mean", "is_ratio_max": "rollout_corr/rollout_is_max",
    "time_step": "timing_s/step", "time_gen": "timing_s/gen", "time_save": "timing_s/save_checkpoint",
    "time_eval": "timing_s/testing", "throughput": "perf/throughput", "total_tokens": "perf/total_num_tokens",
    "val_score": "val-core/openai/gsm8k/reward/mean@1",
}  # fmt: skip
_CRITIC: dict[str, Spelling] = {
    "value_loss": "critic/vf_loss", "explained_var": "critic/vf_explained_var", "value_mean": "critic/values/mean",
    "return_mean": "critic/returns/mean",
}  # fmt: skip
_TRL: dict[str, Spelling] = {
    "loss": "loss", "grad_norm": "grad_norm", "lr": "learning_rate", "num_tokens": "num_tokens",
    "response_len_mean": "completions/mean_length", "response_len_min": "completions/min_length",
    "response_len_max": "completions/max_length", "truncated_frac": "completions/clipped_ratio",
    "terminated_len_mean": "completions/mean_terminated_length", "score_mean": "rewards/accuracy_reward/mean",
    "reward_mean": "reward", "reward_std": "reward_std", "zero_std_frac": "frac_reward_zero_std", "kl_ref": "kl",
    "entropy": "entropy", "clip_frac": "clip_ratio/region_mean", "time_step": "step_time",
    "rollout_prob_diff_mean": "sampling/sampling_logp_difference/mean",
    "is_ratio_mean": "sampling/importance_sampling_ratio/mean",
    "is_ratio_max": "sampling/importance_sampling_ratio/max", "val_score": "eval_reward",
}  # fmt: skip
_TINKER: dict[str, Spelling] = {
    "reward_mean": "env/all/reward/total", "zero_std_frac": ("env/all/by_group/frac_mixed", -1.0, 1.0),
    "response_len_mean": "env/all/ac_tokens_per_turn", "truncated_frac": ("env/all/format_eos", -1.0, 1.0),
    "turns_mean": "env/all/turns_per_episode", "lr": "optim/lr", "entropy": "optim/entropy",
    "off_policy_kl": "optim/kl_sample_train_v1", "kl_ref": "kl_policy_base", "grad_norm": "unclipped_grad_l2:mean",
    "time_step": "time/total", "val_score": "test/env/all/reward/total",
}  # fmt: skip
_PRIME: dict[str, Spelling] = {
    "loss": "loss/mean", "entropy": "entropy/all/mean", "off_policy_kl": "mismatch_kl/all/mean",
    "grad_norm": "optim/grad_norm", "lr": "optim/lr", "time_step": "time/step", "throughput": "perf/throughput",
    "reward_mean": "reward/all/mean", "response_len_mean": "seq_len/all/mean",
    "truncated_frac": "is_truncated/all/mean", "val_score": "eval/gsm8k/avg@1",
    "stale_frac": ("train/agg/all/cancelled/mean", 0.5, 0.0),
}  # fmt: skip
_TELESCOPE: dict[str, Spelling] = {
    "grad_norm": "grad_norm", "entropy": "entropy", "off_policy_kl": "kl_divergence_inference", "lr": "learning_rate",
    "reward_mean": "reward_sum_mean", "reward_std": "reward_sum_std", "reward_max": "reward_sum_max",
    "reward_min": "reward_sum_min", "response_len_mean": "length_completion_mean",
    "response_len_max": "length_completion_max", "truncated_frac": ("stop_reason_length_pct", 100.0, 0.0),
    "group_len_ratio": "group_length_max_median_ratio_mean", "staleness": "off_policy_steps_mean",
    "time_step": "timing_step_total", "time_wait": "timing_waiting_for_data", "val_score": "eval/gsm8k/reward_mean",
}  # fmt: skip
_TRL_PPO: dict[str, Spelling] = {
    "kl_ref": ("objective/kl", 90.0, 0.0), "score_mean": "objective/scores", "reward_mean": "objective/rlhf_reward",
    "entropy": ("objective/entropy", 90.0, 0.0), "kl_old": "policy/approxkl_avg", "clip_frac": "policy/clipfrac_avg",
    "policy_loss": "loss/policy_avg", "value_loss": "loss/value_avg", "ratio_mean": "val/ratio", "lr": "lr",
}  # fmt: skip
_OPENRLHF: dict[str, Spelling] = {
    "policy_loss": "policy_loss", "lr": "actor_lr", "grad_norm": "actor_grad_norm", "kl_old": "ppo_kl",
    "clip_frac": "ppo_clip_ratio", "kl_ref": "kl", "reward_mean": "reward", "return_mean": "return",
    "response_len_mean": "response_length", "truncated_frac": "truncated", "value_loss": "critic_loss",
    "off_policy_kl": "vllm_kl", "time_step": "timing/step_total", "time_gen": "timing/generation",
    "val_score": "eval_gsm8k_pass1",
}  # fmt: skip
_TRINITY: dict[str, Spelling] = {
    **{name: key for name, key in _VERL.items() if not str(key).startswith(("timing_s", "val-", "num_turns"))},
    "time_step": "time/train_step", "time_read": "time/read_experience", "staleness": "sample/model_version_drift/mean",
    "version": "sample/model_version/mean", "val_score": "eval/gsm8k/accuracy/mean@1",
}  # fmt: skip
_DPO: dict[str, Spelling] = {
    "loss": "loss", "grad_norm": "grad_norm", "lr": "learning_rate", "dpo_chosen": "rewards/chosen",
    "dpo_rejected": "rewards/rejected", "dpo_accuracy": "rewards/accuracies", "dpo_margin": "rewards/margins",
    "logps_chosen": "logps/chosen", "logps_rejected": "logps/rejected", "val_loss": "eval_loss",
    "val_acc": "eval_rewards/accuracies",
}  # fmt: skip
_SB3: dict[str, Spelling] = {
    "reward_mean": "rollout/ep_rew_mean", "ep_len": "rollout/ep_len_mean", "fps": "time/fps",
    "entropy": ("train/entropy_loss", -1.0, 0.0), "kl_old": "train/approx_kl", "clip_frac": "train/clip_fraction",
    "value_loss": "train/value_loss", "explained_var": "train/explained_variance", "loss": "train/loss",
    "policy_loss": "train/policy_gradient_loss", "lr": "train/learning_rate", "val_score": "eval/mean_reward",
}  # fmt: skip
_RLLIB: dict[str, Spelling] = {
    "reward_mean": "episode_reward_mean", "episode_max": "episode_reward_max", "episode_min": "episode_reward_min",
    "ep_len": "episode_len_mean", "time_step": "time_this_iter_s", "trained": "info/num_steps_trained",
    "val_score": "evaluation/episode_reward_mean",
}  # fmt: skip
_RLLIB_PPO: dict[str, Spelling] = {
    **_RLLIB, "kl_old": "info/learner/default_policy/learner_stats/kl",
    "entropy": "info/learner/default_policy/learner_stats/entropy",
    "value_loss": "info/learner/default_policy/learner_stats/vf_loss",
    "explained_var": "info/learner/default_policy/learner_stats/vf_explained_var",
    "policy_loss": "info/learner/default_policy/learner_stats/policy_loss",
    "loss": "info/learner/default_policy/learner_stats/total_loss",
    "grad_norm": "info/learner/default_policy/learner_stats/grad_gnorm",
    "lr": "info/learner/default_policy/learner_stats/cur_lr",
}  # fmt: skip
_RLLIB_Q: dict[str, Spelling] = {
    **_RLLIB, "loss": "info/learner/default_policy/learner_stats/mean_td_error",
    "critic_loss": "info/learner/default_policy/learner_stats/critic_loss",
    "q_mean": "info/learner/default_policy/learner_stats/mean_q",
    "grad_norm": "info/learner/default_policy/learner_stats/grad_gnorm",
}  # fmt: skip
_CLEAN: dict[str, Spelling] = {
    "reward_mean": "charts/episodic_return", "ep_len": "charts/episodic_length", "lr": "charts/learning_rate",
    "value_loss": "losses/value_loss", "policy_loss": "losses/policy_loss", "entropy": "losses/entropy",
    "kl_old": "losses/approx_kl", "clip_frac": "losses/clipfrac", "explained_var": "losses/explained_variance",
    "fps": "charts/SPS", "grad_norm": "losses/grad_norm", "val_score": "eval/mean_reward",
}  # fmt: skip
_SB3_Q: dict[str, Spelling] = {
    "reward_mean": "rollout/ep_rew_mean", "ep_len": "rollout/ep_len_mean", "fps": "time/fps", "loss": "train/loss",
    "explore": "rollout/exploration_rate", "lr": "train/learning_rate", "val_score": "eval/mean_reward",
}  # fmt: skip
_OWN: dict[str, Spelling] = {
    "reward_mean": "reward_mean", "reward_std": "reward_std", "loss": "loss", "kl_ref": "kl", "entropy": "entropy",
    "grad_norm": "grad_norm", "lr": "lr", "response_len_mean": "completion_len", "clip_frac": "clip_frac",
    "truncated_frac": "truncated_frac", "zero_std_frac": "zero_std_frac", "time_step": "step_time",
    "is_ratio_mean": "importance_ratio", "rollout_prob_diff_mean": "rollout_train_logp_diff",
    "off_policy_kl": "rollout_train_kl", "val_score": "eval/reward",
}  # fmt: skip
_SHORT: dict[str, Spelling] = {
    "reward_mean": "reward", "loss": "loss", "grad_norm": "grad_norm", "entropy": "entropy", "kl_ref": "kl", "lr": "lr",
    "response_len_mean": "len", "val_score": "val/success_rate", "time_step": "time",
}  # fmt: skip

_EPOCH: dict[str, Cell] = {"epoch": 0.1}

FORMS: tuple[Form, ...] = (
    Form("veRL", "llm", "online", "verl", _VERL, bad="null"),
    Form("veRL, with a critic", "llm", "ppo", "verl", {**_VERL, **_CRITIC}, bad="null"),
    Form("veRL, console", "llm", "online", "console", _VERL),
    Form("TRL", "llm", "online", "lines", _TRL, fixed=_EPOCH, apart=("eval_",)),
    Form("TRL, console", "llm", "online", "dicts", _TRL, fixed=_EPOCH, apart=("eval_",)),
    Form("TRL, wrapped", "llm", "online", "wrapped", _TRL, fixed=_EPOCH, apart=("eval_",)),
    Form("TRL PPO", "llm", "ppo", "lines", _TRL_PPO, stride=64, step="episode", fixed={"eps": 2.0}),
    Form("tinker", "llm", "online", "lines", _TINKER, fixed={"env/all/total_episodes": 1024.0}),
    Form("prime-rl", "llm", "online", "lines", _PRIME, bad="drop", fixed={"perf/mfu": 31.5}),
    Form("Telescope", "llm", "online", "lines", _TELESCOPE),
    Form("OpenRLHF", "llm", "ppo", "lines", _OPENRLHF, step="global_step"),
    Form("Trinity-RFT", "llm", "online", "lines", _TRINITY, fixed={"sample/task_count": 64.0}),
    Form("TRL DPO", "llm", "pairs", "lines", _DPO, stride=10, fixed=_EPOCH, apart=("eval_",)),
    Form("TRL SFT", "llm", "supervised", "lines", {"loss": "loss", "grad_norm": "grad_norm", "lr": "learning_rate",
         "token_accuracy": "mean_token_accuracy", "val_loss": "eval_loss"}, stride=10, fixed=_EPOCH, apart=("eval_",)),
    Form("SB3", "classic", "control", "csv", _SB3, step="time/total_timesteps", stride=2048),
    Form("SB3, lines", "classic", "control", "lines", _SB3, step="time/total_timesteps", stride=2048),
    Form("RLlib", "classic", "control", "rllib", _RLLIB_PPO, step="training_iteration"),
    Form("RLlib, table", "classic", "control", "csv", _RLLIB_PPO, step="training_iteration"),
    Form("cleanrl", "classic", "control", "lines", _CLEAN, step="global_step", stride=2048),
    Form("RLinf", "classic", "embodied", "lines", {"reward_mean": "env/success_once", "ep_len": "env/episode_len",
         "policy_loss": "train/actor/policy_loss", "kl_old": "train/actor/approx_kl",
         "clip_frac": "train/actor/clip_fraction", "entropy": "train/actor/entropy_loss",
         "grad_norm": "train/actor/grad_norm", "lr": "train/actor/lr", "value_loss": "train/critic/value_loss",
         "explained_var": "train/critic/explained_variance", "time_step": "time/step",
         "val_score": "eval/success_once"}),
    Form("SB3 DQN", "classic", "q", "csv", _SB3_Q, step="time/total_timesteps", stride=4000),
    Form("RLlib DQN", "classic", "q", "rllib", _RLLIB_Q, step="training_iteration"),
    Form("own lines", "custom", "online", "lines", _OWN),
    Form("own lines, few", "custom", "online", "lines", _SHORT),
    Form("own list", "custom", "online", "list", _OWN),
    Form("own columns", "custom", "online", "columns", _OWN, step="steps"),
    Form("own table", "custom", "online", "csv", _OWN),
    Form("own pipes", "custom", "online", "pipes", _SHORT),
    Form("own brackets", "custom", "online", "brackets", _SHORT),
    Form("own DPO", "custom", "pairs", "lines", {"loss": "dpo/loss", "dpo_accuracy": "dpo/accuracy",
         "dpo_margin": "dpo/margin", "lr": "lr", "val_loss": "eval/loss"}),
    Form("own SFT", "custom", "supervised", "lines", {"loss": "loss", "grad_norm": "grad_norm", "lr": "lr",
         "val_loss": "val_loss"}, stride=100),
)  # fmt: skip


def text_of(form: Form, rows: Sequence[Row]) -> str:
    """The text of the run's file."""
    return LAYOUTS[form.layout](form, [(int(row.get("step", n * form.stride)), row) for n, row in enumerate(rows, 1)])


def _cells(form: Form, row: Row) -> dict[str, Cell]:
    found: dict[str, Cell] = dict(form.fixed)
    for name, value in row.items():
        spelled = name[1:] if name.startswith(OWN) else form.keys.get(name)
        if spelled is None:
            continue
        key, scale, shift = (spelled, 1.0, 0.0) if isinstance(spelled, str) else spelled
        if math.isfinite(value):
            found[key] = float(f"{shift + scale * value:.{DIGITS}g}")
        elif form.bad != "drop":
            found[key] = value if form.bad == "NaN" else None
    return found


Steps = Sequence[tuple[int, Row]]


def _split(form: Form, rows: Steps) -> Iterator[tuple[int, dict[str, Cell]]]:
    """Rows as logged, with the keys of `apart` in rows of their own."""
    for step, row in rows:
        cells = _cells(form, row)
        late = {key: value for key, value in cells.items() if form.apart and key.startswith(form.apart)}
        yield step, {key: value for key, value in cells.items() if key not in late}
        if late:
            yield step, {**form.fixed, **late}


def _lines(form: Form, rows: Steps) -> str:
    return "".join(json.dumps({form.step: step, **cells}) + "\n" for step, cells in _split(form, rows))


def _verl(form: Form, rows: Steps) -> str:
    return "".join(json.dumps({"step": step, "data": cells}) + "\n" for step, cells in _split(form, rows))


def _list(form: Form, rows: Steps) -> str:
    return json.dumps([{form.step: step, **cells} for step, cells in _split(form, rows)], indent=1)


def _columns(form: Form, rows: Steps) -> str:
    split = list(_split(form, rows))
    keys = dict.fromkeys(key for _, cells in split for key in cells)
    body = {key: [cells[key] for _, cells in split if key in cells] for key in keys}
    return json.dumps({"config": {"seed": 1}, form.step: [step for step, _ in split], **body})


def _csv(form: Form, rows: Steps) -> str:
    split = list(_split(form, rows))
    out = io.StringIO()
    names = [form.step, *dict.fromkeys(key for _, cells in split for key in cells)]
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({form.step: step, **cells} for step, cells in split)
    return out.getvalue()


def _rllib(form: Form, rows: Steps) -> str:
    lines = []
    for step, cells in _split(form, rows):
        whole: dict[str, object] = {form.step: step, "done": False, "config": {"gamma": 0.99, "lr": 5e-05}}
        for key, value in cells.items():
            *path, leaf = key.split("/")
            box = whole
            for part in path:
                box = box.setdefault(part, {})  # type: ignore[assignment]
            box[leaf] = value
        lines.append(json.dumps(whole) + "\n")
    return "".join(lines)


def _console(form: Form, rows: Steps) -> str:
    return "Training from scratch\n" + "".join(
        f"(TaskRunner pid=4711) step:{step} - " + " - ".join(f"{key}:{value}" for key, value in cells.items()) + "\n"
        for step, cells in _split(form, rows)
    )


def _dicts(form: Form, rows: Steps) -> str:
    return "".join(f"{cells}\n" for _, cells in _split(form, rows))


def _wrapped(form: Form, rows: Steps) -> str:
    """A recording of a terminal with 180 columns, which breaks lines within numbers."""
    text = [str(cells) for _, cells in _split(form, rows)]
    return "".join("\n".join(line[at : at + 180] for at in range(0, len(line), 180)) + "\n" for line in text)


def _pipes(form: Form, rows: Steps) -> str:
    return "".join(
        f"Step {step}/{rows[-1][0]} | " + " | ".join(f"{key}: {value}" for key, value in cells.items()) + "\n"
        for step, cells in _split(form, rows)
    )


def _brackets(form: Form, rows: Steps) -> str:
    return "".join(
        f"[train] epoch={step // 100} step={step} " + " ".join(f"{key}={value}" for key, value in cells.items()) + "\n"
        for step, cells in _split(form, rows)
    )


LAYOUTS = {
    "lines": _lines, "verl": _verl, "list": _list, "columns": _columns, "csv": _csv, "rllib": _rllib,
    "console": _console, "dicts": _dicts, "wrapped": _wrapped, "pipes": _pipes, "brackets": _brackets,
}  # fmt: skip
