"""Every kind of fault: its name, the families that detect it, and the algorithms it occurs in."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from rltop.model import Algorithm
from simulated import learning_faults as learning
from simulated import other_faults as other
from simulated.series import healthy
from simulated.writers import ONLINE, PAIRS, Made, Plan, Row, keys_of


class Fault(NamedTuple):
    """A kind of fault.

    Attributes:
        name: name in labels.
        families: families of alarms that count as detecting it.
        shows: canonical metrics, at least one of which must be logged for it to be visible.
        where: algorithms that it occurs in.
        apply: changes rows from index `onset` on; returns the index by which it is plainly visible.
        is_from_start: there is no healthy part.
    """

    name: str
    families: frozenset[str]
    shows: tuple[str, ...]
    where: frozenset[Algorithm]
    apply: Callable[[random.Random, list[Row], int], int]
    is_from_start: bool = False


_LEARNING = frozenset(
    {"gradient", "clip", "ratio", "kl", "lr", "loss", "entropy", "reward", "groups", "length", "truncation", "mismatch",
     "critic", "preference", "rm", "validation", "collapse", "advantage", "nonfinite"}
)  # fmt: skip
_SLOW = frozenset({"performance", "straggler"})
_FLAT = frozenset({"groups", "reward", "advantage"})
_GROUPS = frozenset({Algorithm.GRPO, Algorithm.RLOO})
_ALL = ONLINE | PAIRS | {Algorithm.SFT}
_DPO = frozenset({Algorithm.DPO})
_RM = frozenset({Algorithm.REWARD})

FAULTS: tuple[Fault, ...] = (
    Fault("nan", frozenset({"nonfinite"}), ("grad_norm", "loss", "policy_loss"), _ALL, learning.nan),
    Fault("nan, masked", frozenset({"nonfinite"}), ("grad_norm",), PAIRS | {Algorithm.SFT}, learning.masked_nan),
    Fault("nan, then the end", frozenset({"nonfinite"}), ("grad_norm", "loss"), _ALL, learning.nan_crash),
    Fault("reward missing", frozenset({"nonfinite", "reward"}), ("reward_mean",), ONLINE, learning.reward_missing),
    Fault(
        "reward no longer logged", frozenset({"nonfinite", "reward"}), ("reward_mean",), ONLINE, learning.reward_gone
    ),
    Fault("gradient spike", frozenset({"gradient", "loss"}), ("grad_norm",), _ALL, learning.grad_spike),
    Fault("gradient climbs", frozenset({"gradient", "loss"}), ("grad_norm",), ONLINE, learning.grad_climb),
    Fault("clip fraction high", frozenset({"clip", "kl", "ratio"}), ("clip_frac",), ONLINE, learning.clip),
    Fault("lr jump", _LEARNING, ("lr", "kl_ref", "reward_mean"), _ALL - _RM - {Algorithm.SFT}, learning.lr_jump),
    Fault("entropy collapse", _LEARNING, ("entropy",), ONLINE, learning.entropy_falls),
    Fault("entropy collapse from the start", _LEARNING, ("entropy",), ONLINE, learning.entropy_from_start, True),
    Fault(
        "entropy explosion",
        frozenset({"entropy", "length", "truncation", "reward", "collapse"}),
        ("entropy",),
        ONLINE,
        learning.entropy_explodes,
    ),
    Fault(
        "reward crash",
        frozenset({"reward", "collapse", "kl", "entropy"}),
        ("reward_mean",),
        ONLINE,
        learning.reward_crash,
    ),
    Fault(
        "length explosion",
        frozenset({"truncation", "length"}),
        ("response_len_mean",),
        ONLINE,
        learning.length_explodes,
    ),
    Fault(
        "length hack",
        frozenset({"length", "reward", "entropy", "collapse"}),
        ("response_len_mean",),
        ONLINE,
        learning.length_hack,
    ),
    Fault("truncation", frozenset({"truncation", "length"}), ("truncated_frac",), ONLINE, learning.truncation),
    Fault("zero variance", _FLAT, ("reward_std", "zero_std_frac", "reward_max"), _GROUPS, learning.zero_variance),
    Fault("zero variance, nearly", _FLAT, ("zero_std_frac",), _GROUPS, learning.zero_variance_sparse),
    Fault(
        "dead from the start",
        _LEARNING,
        ("zero_std_frac", "truncated_frac", "reward_std"),
        _GROUPS,
        learning.dead,
        True,
    ),
    Fault("no gradient", _LEARNING, ("grad_norm",), ONLINE, learning.frozen),
    Fault("KL drift", _LEARNING, ("kl_ref",), ONLINE, learning.kl_drift),
    Fault("KL blow-up", _LEARNING, ("kl_ref", "kl_old"), ONLINE, learning.kl_spike),
    Fault(
        "mismatch",
        frozenset({"mismatch", "offpolicy", "ratio", "kl"}),
        ("off_policy_kl", "rollout_prob_diff_mean"),
        ONLINE,
        learning.mismatch,
    ),
    Fault("gaming", _LEARNING, ("val_score",), ONLINE, learning.gaming),
    Fault(
        "value loss",
        frozenset({"critic", "gradient", "loss"}),
        ("value_loss", "explained_var"),
        frozenset({Algorithm.PPO}),
        other.value_loss,
    ),
    Fault("slower", _SLOW, ("time_step", "throughput"), ONLINE, other.slow),
    Fault("slower, slowly", frozenset({"performance"}), ("time_step", "throughput"), ONLINE, other.slow_drift),
    Fault("slower, now and then", _SLOW, ("time_step", "throughput"), ONLINE, other.slow_now_and_then),
    Fault(
        "straggler",
        _SLOW | {"truncation"},
        ("group_len_ratio", "time_gen_sample_max", "time_step"),
        ONLINE,
        other.straggler,
    ),
    Fault("collapse", _LEARNING, ("entropy", "reward_mean"), ONLINE, learning.collapse),
    Fault(
        "random labels",
        frozenset({"rm", "preference"}),
        ("rm_margin", "dpo_margin"),
        _RM | _DPO,
        other.dead_margin,
        True,
    ),
    Fault(
        "labels flip",
        frozenset({"preference", "rm", "loss"}),
        ("rm_margin", "dpo_margin"),
        _RM | _DPO,
        other.labels_flip,
    ),
    Fault("overfit", frozenset({"preference", "rm", "validation"}), ("val_loss", "val_acc"), _RM | _DPO, other.overfit),
    Fault(
        "overfit from the start",
        frozenset({"preference", "rm", "validation"}),
        ("val_loss", "val_acc"),
        _RM | _DPO,
        other.overfit_from_start,
        True,
    ),
    Fault(
        "worn out, unchecked",
        frozenset({"preference", "rm", "validation"}),
        ("epoch",),
        _RM | _DPO,
        other.worn_out,
        True,
    ),
    Fault(
        "preference fades",
        frozenset({"preference", "rm", "loss"}),
        ("rm_margin", "dpo_margin"),
        _RM | _DPO,
        other.fades,
    ),
    Fault("no gradient, a loss left", _LEARNING, ("grad_norm",), PAIRS | {Algorithm.SFT}, learning.frozen),
    Fault("rate cut to 0", _LEARNING, ("lr",), _ALL, other.rate_cut),
    Fault("one reward for all", _FLAT, ("reward_std", "zero_std_frac", "reward_max"), _GROUPS, learning.one_reward),
    Fault(
        "class missing",
        frozenset({"preference", "loss", "nonfinite"}),
        ("dpo_chosen",),
        frozenset({Algorithm.KTO}),
        other.class_missing,
    ),
    Fault("likelihood lost", _LEARNING, ("logps_chosen",), _DPO, other.likelihood_lost),
    Fault("loss diverges", _LEARNING, ("loss",), PAIRS | {Algorithm.SFT}, other.diverges),
)


_EARLY, _MIDDLE, _LATE = (0.06, 0.15), (0.15, 0.8), (0.8, 0.95)


def _onset(rng: random.Random, n: int) -> int:
    """An onset, mostly in the middle, sometimes in the first or last tenth; at least 3 records before, 6 after it."""
    low, high = rng.choice([_EARLY, *[_MIDDLE] * 5, _LATE])
    return max(min(int(rng.uniform(low, high) * n), n - 6), 3)


def faulty(plan: Plan, fault: Fault) -> Made | None:
    """The plan's healthy run with the fault; None if the writer logs nothing that would show it."""
    made = healthy(plan)
    rng = random.Random(f"{fault.name}/{plan.writer.name}/{plan.seed}")
    logged = keys_of(plan.writer)
    seen = {name for row in made.rows for name in row if name in logged}
    if not seen.intersection(fault.shows):
        return None
    n = plan.records
    onset = 0 if fault.is_from_start else _onset(rng, n)
    last = fault.apply(rng, made.rows, onset)
    return made._replace(first=onset + 1, last=min(last + 1, len(made.rows)))
