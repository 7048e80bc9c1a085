"""What to do about an alarm, and why: stop, go back to a checkpoint, watch, or (for a finished run) review.

The reasons are in `advice.txt`, by family of symptoms, and by rule where that differs; the run provides the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rltop.model import Action, Advice, Level, Verdict, VerdictState
from rltop.rules.words import words_of
from rltop.structs import NamedTuple


class _Reasons(NamedTuple):
    """The reason for the advice at each level.

    Attributes:
        is_in_weights: a CRIT has damaged the weights, so going back to a checkpoint helps.
        is_watched_settled: a CRIT that has settled is only watched, as its consequences would have shown by then.
    """

    crit: str
    warn: str
    is_in_weights: bool
    is_watched_settled: bool


@cache
def _table() -> Mapping[str, _Reasons]:
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").replace("\n    ", " ")
    rows = [line.split(" | ") for line in text.splitlines() if line and line[0] != "#"]
    return {
        name: _Reasons(crit, crit if warn == "-" else warn, "weights" in harm, "until settled" in harm)
        for name, crit, warn, harm in rows
    }


_FIRST_RECORDS = 2
_STOP_IF = "stop if "
_HARMLESS = frozenset({"performance", "straggler", "balance", "input"})


def advise(
    verdict: Verdict, checkpoint: int | None = None, *, is_followed: bool = False, comes_and_goes: bool = False
) -> Verdict:
    """The verdict, with advice if it is active at WARN or CRIT.

    Args:
        checkpoint: step of the last known checkpoint before its onset.
        is_followed: symptoms of another family have begun since and are still active.
        comes_and_goes: see `AlertState.comes_and_goes`.
    """
    if verdict.level < Level.WARN or not verdict.is_active:
        return verdict
    reasons = _reasons(verdict)
    is_calm = verdict.state is VerdictState.SETTLED and reasons.is_watched_settled and not is_followed
    if verdict.level < Level.CRIT or verdict.family in _HARMLESS or is_calm or comes_and_goes:
        return verdict._replace(advice=Advice(Action.WATCH, reasons.warn))
    if reasons.is_in_weights and checkpoint is not None:
        return verdict._replace(advice=Advice(Action.GO_BACK, reasons.crit, checkpoint))
    return verdict._replace(advice=Advice(Action.STOP, reasons.crit))


def review(verdict: Verdict) -> Verdict:
    """The verdict with advice for a finished run, where there is nothing left to stop or to watch."""
    advice = verdict.advice
    if advice is None or advice.action is Action.GO_BACK:
        return verdict
    reasons = _reasons(verdict)
    reason = reasons.crit if verdict.level is Level.CRIT else reasons.warn
    causes = words_of(verdict.raised_by).causes
    if reasons.is_in_weights and (verdict.level is Level.CRIT or _STOP_IF in reasons.warn):
        reason = "prefer a checkpoint from before the onset, if it is no worse in evaluation"
    elif causes and reasons.warn != reasons.crit and (verdict.level is Level.CRIT or " if " in reasons.warn):
        reason = f"before the next run, rule out the likeliest cause: {causes[0]}"
    return verdict._replace(advice=Advice(Action.REVIEW, reason))


def _reasons(verdict: Verdict) -> _Reasons:
    if verdict.family == "truncation" and verdict.since_record <= _FIRST_RECORDS:
        return _table()["truncated from the first record on"]
    table = _table()
    return table.get(f"rule {verdict.raised_by}") or table.get(verdict.family, table["other"])
