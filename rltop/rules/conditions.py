"""Conditions that several rules ask for, each by a name.

Owns no state: each is a function of the record and of what has gone before it, or makes one from a number.
"""

from __future__ import annotations

from collections.abc import Callable

from rltop.rules.context import RuleContext

Condition = Callable[[RuleContext], bool]


def is_at_top(context: RuleContext) -> bool:
    """The task is saturated, or the reward is at its top: what fades now has done its work."""
    return context.reward.is_high or context.reward.is_solved


def is_paused(context: RuleContext) -> bool:
    """The learning rate is exactly 0: nothing is meant to move."""
    return context.lr == 0.0


def has_teacher(context: RuleContext) -> bool:
    """A teacher stands in for the reward, which then never moves."""
    return "kl_teacher" in context.values


def has_less_entropy(line: float) -> Condition:
    """Entropy, in nats per token, is logged and below `line`: all probabilities are 1."""
    return lambda context: context.values.get("entropy", 1.0) < line


def is_after(records: float) -> Condition:
    """More than so many records of the segment have passed."""
    return lambda context: context.record > records
