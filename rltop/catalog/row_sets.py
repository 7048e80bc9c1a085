"""Which metrics the overview shows, in order, for each algorithm, and what a person has changed of that.

Data, not code: a row names a metric and what may stand in for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rltop.model import Algorithm
from rltop.structs import NamedTuple


class OverviewRow(NamedTuple):
    """One row of the overview.

    Attributes:
        metrics: canonical names; the first that the run logs stands in the row.
        beside: metrics of which the first that the run logs is shown at the end of the row.
        title: what the row is called instead of the metric's own title, or "".
    """

    metrics: tuple[str, ...]
    beside: tuple[str, ...] = ()
    title: str = ""


def _row(*metrics: str, beside: str = "") -> OverviewRow:
    return OverviewRow(metrics, tuple(beside.split()))


_VALIDATION = _row("val_score", "val_acc", "val_passk", "val_return", "val_reward", "val_loss")
_REWARD = _row("reward_mean", "score_mean", "success_frac")
_OBJECTIVE = _row("reward_final")
_PENALTY = _row("kl_reward")
_PARTS = _row("reward_component", "sample_metric")
_ADVANTAGE = _row("adv_std", "adv_mean", "adv_max")
_BALANCE = _row("seqlen_balanced_max", "seqlen_minmax_diff")
_DISCARDED = _row(
    "discarded_count", "evicted_samples", "dropped_stale", "filter_pass_rate", beside="discarded_zero_frac"
)
_REFERENCE = _row("kl_ref")
_STEP_KL = _row("kl_old")
_CLIP = _row("clip_frac", "clip_frac_high")
_ENTROPY = _row("entropy", "entropy_seq", "action_entropy")
_GRADIENT = _row("grad_norm")
_LENGTH = _row("response_len_mean", "terminated_len_mean", "total_len_mean")
_TRUNCATED = _row("truncated_frac", "aborted_frac", "stop_count")
_CONTRAST = _row("zero_std_frac", "reward_std", "zero_std_count")
_SPEED = _row("throughput", "throughput_per_gpu", "gen_throughput", "samples_per_s", "time_step", "time_wait_explore")
_USE = _row("mfu", "mem_alloc_gb", "mem_peak_gb", "mem_reserved_gb", beside="mem_alloc_gb mem_peak_gb mem_reserved_gb")
_MISMATCH = _row("off_policy_kl", "rollout_prob_diff_mean", "rollout_logp_diff_mean", "is_ratio_mean")
_VALUE = (_row("value_loss"), _row("explained_var"))
_LOSS = _row("loss", "policy_loss", "nll_loss")
_RATE = _row("lr")
_CHOSEN = _row("dpo_chosen", beside="dpo_rejected")
_LIKELIHOOD = _row("logps_chosen", beside="logps_rejected")

_GROUP = (
    *(_VALIDATION, _REWARD, _REFERENCE, _CLIP, _ENTROPY, _GRADIENT, _LENGTH, _TRUNCATED),
    *(_SPEED, _USE, _CONTRAST, _MISMATCH, _STEP_KL, _RATE, _LOSS, _row("staleness_mean")),
    *(_PARTS, _DISCARDED, _ADVANTAGE, _BALANCE, _OBJECTIVE, _PENALTY),
)

_PPO = (
    *(_VALIDATION, _REWARD, _REFERENCE, _CLIP, _ENTROPY, *_VALUE, _GRADIENT, _LENGTH, _TRUNCATED),
    *(_row("ratio_mean"), _STEP_KL, _OBJECTIVE, _PENALTY, _MISMATCH, _SPEED, _USE, _RATE, _LOSS),
    *(_PARTS, _ADVANTAGE, _BALANCE, _DISCARDED),
)

_PAIRS = (
    *(_row("dpo_margin"), _row("dpo_accuracy"), _row("val_acc"), _LOSS, _row("val_loss"), _CHOSEN, _LIKELIHOOD),
    *(_GRADIENT, _ENTROPY, _row("val_margin"), _row("dpo_rejected"), _row("token_accuracy"), _RATE, _SPEED, _USE),
)

_LABELS = (
    *(_row("dpo_margin"), _row("val_loss"), _LOSS, _CHOSEN, _REFERENCE, _LIKELIHOOD, _GRADIENT, _ENTROPY),
    *(_row("dpo_rejected"), _row("val_margin"), _RATE, _SPEED, _USE),
)

_JUDGE = (
    *(_row("rm_accuracy"), _row("rm_margin"), _row("val_acc"), _LOSS, _row("val_loss"), _row("val_margin")),
    *(_row("rm_chosen", beside="rm_rejected"), _row("rm_reward_mean", "rm_reward_max")),
    *(_GRADIENT, _RATE, _SPEED, _USE),
)

_SUPERVISED = (
    *(_LOSS, _row("token_accuracy"), _row("val_loss"), _row("val_acc"), _GRADIENT, _ENTROPY, _RATE, _SPEED, _USE),
    _row("num_tokens"),
)

_DISTILL = (
    *(_VALIDATION, _row("kl_teacher", "distill_loss"), _ENTROPY, _LENGTH, _TRUNCATED, _MISMATCH, _GRADIENT),
    *(_LOSS, _REWARD, _CLIP, _SPEED, _USE, _RATE, _PARTS, _BALANCE, _OBJECTIVE),
)

_EMBODIED = (
    *(_row("success_frac"), _VALIDATION, _row("reward_mean", "score_mean"), _row("episode_return"), _CLIP, _STEP_KL),
    *(_row("ratio_mean"), _ENTROPY, *_VALUE, _GRADIENT, _row("episode_len", "num_turns_mean"), _row("env_reward")),
    *(_SPEED, _USE, _RATE, _LOSS, _row("queue_size"), _ADVANTAGE),
)

_CLASSIC = (
    *(_VALIDATION, _row("reward_mean", "score_mean", "episode_return"), _row("success_frac"), _row("episode_len")),
    *(_LOSS, _ENTROPY),
    *(_STEP_KL, _CLIP, *_VALUE, _GRADIENT, _SPEED, _USE, _RATE, _row("time_elapsed")),
)

_ANY = (
    *(_VALIDATION, _row("reward_mean", "score_mean", "episode_return"), _LOSS),
    *(_row("dpo_margin", "rm_margin"),),
    *(_row("dpo_accuracy", "rm_accuracy", "token_accuracy", "success_frac"), _REFERENCE, _STEP_KL, _CLIP, _ENTROPY),
    *(_GRADIENT, *_VALUE, _LENGTH, _TRUNCATED, _CONTRAST, _MISMATCH, _SPEED, _USE, _RATE, _row("time_elapsed")),
    *(_PARTS, _OBJECTIVE, _PENALTY, _DISCARDED, _ADVANTAGE, _BALANCE),
)

ROW_SETS: Mapping[Algorithm, tuple[OverviewRow, ...]] = {
    Algorithm.PPO: _PPO,
    Algorithm.GRPO: _GROUP,
    Algorithm.RLOO: _GROUP,
    Algorithm.DPO: _PAIRS,
    Algorithm.KTO: _LABELS,
    Algorithm.REWARD: _JUDGE,
    Algorithm.SFT: _SUPERVISED,
    Algorithm.DISTILL: _DISTILL,
    Algorithm.EMBODIED: _EMBODIED,
    Algorithm.A2C: _CLASSIC,
    Algorithm.SAC: _CLASSIC,
    Algorithm.DQN: _CLASSIC,
    Algorithm.UNKNOWN: _ANY,
}
"""Rows of each algorithm, most important first; no metric stands in two rows of a set, nor do statistics of one."""


class Arrangement(NamedTuple):
    """Which rows a person wants to see of a run's metrics.

    Attributes:
        pinned: the trainer's own keys that come first, in order.
        names: key and what it is called instead of its title.
    """

    pinned: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()

    @property
    def is_as_found(self) -> bool:
        return not (self.pinned or self.hidden or self.names)

    @property
    def is_full(self) -> bool:
        return len(self.pinned) >= MOST_ROWS

    def name_of(self, key: str) -> str:
        """What a person calls a key; empty where nobody has said."""
        return next((name for named, name in self.names if named == key), "") if self.names else ""

    def with_pin_toggled(self, key: str) -> Arrangement:
        """The same with a key pinned behind the others, or pinned no more; what is pinned is not hidden."""
        if key in self.pinned:
            return self._replace(pinned=tuple(one for one in self.pinned if one != key))
        hidden = tuple(one for one in self.hidden if one != key)
        return self._replace(pinned=(*self.pinned, key)[:MOST_ROWS], hidden=hidden)

    def with_pin_moved(self, key: str, by: int) -> Arrangement:
        """The same with a pinned key at another place."""
        rest = [one for one in self.pinned if one != key]
        rest.insert(max(0, self.pinned.index(key) + by), key)
        return self._replace(pinned=tuple(rest))

    def with_hiding_toggled(self, key: str) -> Arrangement:
        """The same with a key hidden, or shown again; what is hidden is not pinned."""
        if key in self.hidden:
            return self._replace(hidden=tuple(one for one in self.hidden if one != key))
        pinned = tuple(one for one in self.pinned if one != key)
        return self._replace(pinned=pinned, hidden=(*self.hidden, key)[:MOST_ROWS])

    def with_name(self, key: str, name: str) -> Arrangement:
        names = tuple(one for one in self.names if one[0] != key)
        name = " ".join(name.split())[:LONGEST_NAME]
        return self._replace(names=(*names, (key, name))[-MOST_ROWS:] if name else names)

    def merged(self, before: Arrangement, other: Arrangement) -> Arrangement:
        """What `self` has changed of `before`, done to `other`, which somebody else has made of it meanwhile.

        Args:
            before: what both began with.
        """
        was, now, own = dict(before.names), dict(other.names), dict(self.names)
        newly_hidden = set(self.hidden) - set(before.hidden)
        pinned = _merged(before.pinned, self.pinned, other.pinned)
        pinned = [key for key in pinned if key not in newly_hidden][:MOST_ROWS]
        hidden = [key for key in _merged(before.hidden, self.hidden, other.hidden) if key not in pinned]
        names = {key: name for key, name in now.items() if key in own or key not in was}
        names.update((key, name) for key, name in own.items() if name != was.get(key))
        return Arrangement(tuple(pinned), tuple(hidden[:MOST_ROWS]), tuple(names.items())[-MOST_ROWS:])


def _merged(before: Sequence[str], mine: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Keys in my order, without those that only they took away, and behind them those that only they have added."""
    kept = [key for key in mine if key in theirs or key not in before]
    return kept + [key for key in theirs if key not in before and key not in mine]


MOST_ROWS = 200
"""Keys that are pinned, hidden or named at most."""
LONGEST_NAME = 40
AS_FOUND = Arrangement()
