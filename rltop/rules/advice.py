"""What to do about an alarm: stop, go back to a checkpoint, watch, or review what is over, and why.

Data by family of symptoms, and by rule where that differs; a checkpoint comes from the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rltop.model import Action, Advice, Level, Verdict, VerdictState
from rltop.rules.words import words_of
from rltop.structs import NamedTuple


class _Reasons(NamedTuple):
    """Why, for each level, and whether a CRIT has spoilt the weights: then an earlier checkpoint helps."""

    crit: str
    warn: str
    is_in_weights: bool = True


_HARMED = "every update after the onset builds on a policy that has been harmed"
_TIME = _Reasons(
    "it costs time, the weights are unharmed", "it costs time, the weights are unharmed", is_in_weights=False
)
_REASONS: Mapping[str, _Reasons] = MappingProxyType(
    {
        "nonfinite": _Reasons(
            "an update that is not a number stays in the weights", "one skipped update is harmless, a second is not"
        ),
        "collapse": _Reasons(_HARMED, "stop if evaluation falls too"),
        "gradient": _Reasons(
            "an update of this size may have moved the weights far off",
            "one update may be harmless; stop if loss, KL or reward follows",
        ),
        "loss": _Reasons("the objective has left its range", "stop if gradient, KL or reward follows"),
        "kl": _Reasons("the policy has left the region where its reward means anything", "stop if reward follows"),
        "ratio": _Reasons("updates leave the trust region", "stop if KL or entropy follows"),
        "clip": _Reasons("most of each update is clipped away", "lower the learning rate if KL rises", False),
        "entropy": _Reasons(
            "a policy that has lost, or drowned in, its randomness rarely comes back",
            "stop if reward or evaluation follows",
        ),
        "reward": _Reasons(_HARMED, "stop if evaluation falls too"),
        "guessed": _Reasons(_HARMED, "say what the key is, and the rules of that metric judge it", False),
        "validation": _Reasons(
            "held-out results are worse than before: the later weights are not better",
            "keep the checkpoint of the best evaluation",
        ),
        "groups": _Reasons(
            "groups without contrast give no gradient: compute is spent for nothing",
            "these groups give no gradient: mix in other prompts if it lasts",
            False,
        ),
        "advantage": _Reasons("such advantages make the update arbitrary", "stop if the gradient follows", False),
        "length": _Reasons("completions of this length no longer solve the task", "stop if reward or evaluation falls"),
        "truncation": _Reasons(
            "truncated completions are scored unfinished", "raise the length limit if it goes on", False
        ),
        "agentic": _Reasons(
            "failing rollouts or tools are learned as failures of the policy", "check tools and environment", False
        ),
        "mismatch": _Reasons(
            "updates are computed from probabilities that the sampler did not have",
            "stop if the gradient or KL follows",
            False,
        ),
        "offpolicy": _Reasons("rollouts this old bias every update", "stop if KL or reward follows", False),
        "critic": _Reasons("advantages from such a critic are noise", "stop if reward follows"),
        "preference": _Reasons("the objective no longer separates the pairs", "compare with an evaluation"),
        "rm": _Reasons("the scores no longer separate the pairs", "compare with held-out pairs"),
        "lr": _Reasons("nothing is learned at this learning rate", "check the schedule", False),
        "memory": _Reasons("running out of memory ends the run without a checkpoint", "save a checkpoint soon", False),
        "performance": _TIME,
        "straggler": _TIME,
        "balance": _TIME,
        "liveness": _Reasons(
            "nothing is written any more: look at the process", "nothing is written: look at the process", False
        ),
        "input": _Reasons("what cannot be read cannot be judged", "what cannot be read is not judged", False),
        "embodied": _Reasons(_HARMED, "stop if success falls too"),
    }
)
_OTHER = _Reasons("no result of this run can be trusted until it is explained", "see what it should be", False)
_NOT_MOVED = "nothing moved: check which parameters are trainable and, where groups are compared, their contrast"
_NEVER_LEARNED = "nothing was learned: check the reward function, the chat template, and that groups have contrast"
_BY_RULE: Mapping[str, _Reasons] = MappingProxyType(
    {
        "L3": _Reasons(_NOT_MOVED, _NOT_MOVED, False),
        "R13": _Reasons(_NEVER_LEARNED, _NEVER_LEARNED, False),
    }
)
"""Nothing has been harmed here, so that no checkpoint is better."""
_CUT = "completions have been truncated from the first record on: raise the length limit, or check EOS and stop tokens"
_FROM_START = _Reasons(_CUT, _CUT, False)
_FIRST_RECORDS = 2
_HARMLESS = frozenset({"performance", "straggler", "balance", "input"})


def advise(verdict: Verdict, checkpoint: int | None = None) -> Verdict:
    """The verdict with advice, if it stands at WARN or CRIT.

    Args:
        verdict: any.
        checkpoint: step of the last known checkpoint before its onset, or None.
    """
    if verdict.level < Level.WARN or not verdict.is_active:
        return verdict
    reasons = _reasons(verdict)
    if verdict.state is VerdictState.SETTLED:
        return verdict._replace(advice=Advice(Action.WATCH, "it no longer moves, but it has not come back"))
    if verdict.level < Level.CRIT or verdict.family in _HARMLESS:
        return verdict._replace(advice=Advice(Action.WATCH, reasons.warn))
    if reasons.is_in_weights and checkpoint is not None:
        return verdict._replace(advice=Advice(Action.GO_BACK, reasons.crit, checkpoint))
    return verdict._replace(advice=Advice(Action.STOP, reasons.crit))


def review(verdict: Verdict) -> Verdict:
    """The verdict of a run that is over: there is nothing to stop or to watch any more.

    Args:
        verdict: with the advice that held while the run went on.
    """
    advice = verdict.advice
    if advice is None or advice.action is Action.GO_BACK:
        return verdict
    reasons = _reasons(verdict)
    reason = reasons.crit
    if "stop if" not in reasons.warn:
        reason = reasons.warn
    elif reasons.is_in_weights:
        reason = "prefer a checkpoint from before the onset, if it is no worse in evaluation"
    elif causes := words_of(verdict.said_by).causes:
        reason = f"before the next run look for this first: {causes[0]}"
    return verdict._replace(advice=Advice(Action.REVIEW, reason))


def _reasons(verdict: Verdict) -> _Reasons:
    if verdict.family == "truncation" and verdict.since_record <= _FIRST_RECORDS:
        return _FROM_START
    return _BY_RULE.get(verdict.said_by) or _REASONS.get(verdict.family, _OTHER)
