"""Which metrics the overview shows, in order, for each algorithm.

Data, not code: a row names a metric and what may stand in for it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from rltop.model import Algorithm


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """One row of the overview.

    Attributes:
        metrics: canonical names; the first that the run logs stands in the row.
        beside: a second metric whose value is shown at the end of the row, or "".
    """

    metrics: tuple[str, ...]
    beside: str = ""

    def pick(self, logged: Container[str]) -> str | None:
        """The metric that stands in the row, given what the run logs; None leaves the row out."""
        return next((name for name in self.metrics if name in logged), None)


def _row(*metrics: str, beside: str = "") -> OverviewRow:
    return OverviewRow(metrics, beside)


_VALIDATION = _row("val_score", "val_acc", "val_passk", "val_loss")
_REWARD = _row("reward_mean", "score_mean", "reward_final", "success_frac")
_STEP_KL = _row("kl_old", "off_policy_kl", "ratio_mean")
_CLIP = _row("clip_frac", "clip_frac_high")
_ENTROPY = _row("entropy", "entropy_seq")
_GRADIENT = _row("grad_norm", beside="lr")
_LENGTH = _row("response_len_mean", "terminated_len_mean", "total_len_mean")
_TRUNCATED = _row("truncated_frac", "aborted_frac", "stop_count")
_CONTRAST = _row("zero_std_frac", "reward_std", "zero_std_count")
_SPEED = _row("throughput", "throughput_per_gpu", "gen_throughput", "samples_per_s", "time_step")
_USE = _row("mfu", "mem_alloc_gb", "mem_peak_gb", "mem_reserved_gb", beside="mem_alloc_gb")
_MISMATCH = _row("off_policy_kl", "rollout_prob_diff_mean", "rollout_logp_diff_mean", "is_ratio_mean")
_LOSS = _row("loss", "policy_loss", "nll_loss")
_RATE = _row("lr")
_STEP_TIME = _row("time_step")

_GROUP = (
    _VALIDATION, _REWARD, _row("kl_ref"), _CLIP, _ENTROPY, _GRADIENT, _LENGTH, _TRUNCATED,
    _CONTRAST, _MISMATCH, _row("kl_old"), _SPEED, _USE, _row("group_len_ratio"), _LOSS, _row("staleness_mean"),
)  # fmt: skip

_PPO = (
    _VALIDATION, _REWARD, _row("kl_ref"), _CLIP, _ENTROPY, _row("value_loss"), _row("explained_var"), _GRADIENT,
    _LENGTH, _TRUNCATED, _row("ratio_mean"), _row("kl_old"), _MISMATCH, _SPEED, _USE, _LOSS, _RATE,
)  # fmt: skip

_CHOSEN = _row("dpo_chosen", beside="dpo_rejected")
_LIKELIHOOD = _row("logps_chosen", beside="logps_rejected")

_PAIRS = (
    _row("dpo_margin"), _row("dpo_accuracy"), _row("val_acc", "val_loss"), _LOSS, _CHOSEN, _LIKELIHOOD,
    _GRADIENT, _ENTROPY, _row("val_loss"), _row("val_margin"), _row("dpo_rejected"), _row("token_accuracy"),
    _SPEED, _USE, _RATE,
)  # fmt: skip

_KTO = (
    _row("dpo_margin"), _CHOSEN, _row("val_loss", "val_margin"), _LOSS, _row("kl_ref"), _LIKELIHOOD,
    _GRADIENT, _ENTROPY, _row("dpo_rejected"), _SPEED, _USE, _RATE,
)  # fmt: skip

_JUDGE = (
    _row("rm_accuracy"), _row("rm_margin"), _row("val_acc"), _LOSS, _row("val_loss"), _row("val_margin"),
    _row("rm_reward_mean"), _row("rm_reward_max", beside="rm_reward_min"), _GRADIENT, _SPEED, _USE, _RATE,
)  # fmt: skip

_SUPERVISED = (
    _LOSS, _row("token_accuracy"), _row("val_loss"), _row("val_acc"), _GRADIENT, _ENTROPY, _RATE, _SPEED, _USE,
    _row("num_tokens"),
)  # fmt: skip

_DISTILL = (
    _VALIDATION, _row("kl_teacher", "distill_loss"), _ENTROPY, _LENGTH, _TRUNCATED, _MISMATCH, _GRADIENT, _LOSS,
    _REWARD, _CLIP, _SPEED, _USE, _RATE,
)  # fmt: skip

_EMBODIED = (
    _row("success_frac"), _VALIDATION, _REWARD, _CLIP, _row("kl_old"), _ENTROPY, _row("value_loss"),
    _row("explained_var"), _GRADIENT, _row("num_turns_mean"), _SPEED, _USE, _LOSS,
)  # fmt: skip

_ANY = (
    _VALIDATION, _REWARD, _LOSS, _row("dpo_margin", "rm_margin"),
    _row("dpo_accuracy", "rm_accuracy", "token_accuracy", "success_frac"), _row("kl_ref"), _STEP_KL, _CLIP, _ENTROPY, _GRADIENT, _row("value_loss"), _LENGTH, _TRUNCATED, _CONTRAST,
    _STEP_TIME, _SPEED, _USE, _row("mem_peak_gb"), _RATE, _row("time_elapsed"),
)  # fmt: skip

ROW_SETS: Mapping[Algorithm, tuple[OverviewRow, ...]] = {
    Algorithm.PPO: _PPO,
    Algorithm.GRPO: _GROUP,
    Algorithm.RLOO: _GROUP,
    Algorithm.DPO: _PAIRS,
    Algorithm.KTO: _KTO,
    Algorithm.REWARD: _JUDGE,
    Algorithm.SFT: _SUPERVISED,
    Algorithm.DISTILL: _DISTILL,
    Algorithm.EMBODIED: _EMBODIED,
    Algorithm.UNKNOWN: _ANY,
}
"""Rows of each algorithm, most important first. Two rows may pick the same metric: show it once."""


def overview_metrics(algorithm: Algorithm, logged: Container[str]) -> list[tuple[str, str]]:
    """The metrics to show, each once, with the metric beside it (or "").

    Args:
        algorithm: whose row set.
        logged: canonical names that the run logs, for example `identity.signals`.
    """
    shown: dict[str, str] = {}
    for row in ROW_SETS[algorithm]:
        name = row.pick(logged)
        if name is not None and name not in shown:
            shown[name] = row.beside if row.beside != name and row.beside in logged else ""
    return list(shown.items())
