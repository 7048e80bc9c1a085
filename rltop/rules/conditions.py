"""Conditions that several rules ask for, each by a name: functions of the record and of what has gone before it."""

from __future__ import annotations

from collections.abc import Mapping

from rltop.rules.context import FLAT_REWARD_STD, RuleContext


def is_at_top(context: RuleContext) -> bool:
    """The task is saturated, or the reward is at its top: what fades now has done its work."""
    return context.reward.is_high or context.reward.is_solved


def is_paused(context: RuleContext) -> bool:
    """The learning rate is exactly 0: nothing is meant to move."""
    return context.lr == 0.0


def has_teacher(context: RuleContext) -> bool:
    """A teacher stands in for the reward, which then never moves."""
    return "kl_teacher" in context.values


def earn_the_same(values: Mapping[str, float]) -> bool | None:
    """All completions of the batch do, up to rounding; None where neither spread nor extremes are logged."""
    if "reward_std" in values:
        return values["reward_std"] < FLAT_REWARD_STD
    if "reward_max" in values and "reward_min" in values:
        return values["reward_max"] - values["reward_min"] < FLAT_REWARD_STD
    return None
