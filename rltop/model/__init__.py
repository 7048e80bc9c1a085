"""The words of the house: frozen values that every layer shares.

Owns the vocabulary; knows nothing of files, trainers or screens.
"""

from __future__ import annotations

from rltop.model.meaning import (
    Algorithm,
    Direction,
    Metric,
    Observation,
    Signal,
    Span,
    SpanKind,
    StepTiming,
    TimedSpan,
    Traits,
    Unit,
)
from rltop.model.rows import (
    GAP,
    RECENT_LINES,
    CellMark,
    Counts,
    FilePosition,
    Label,
    NonFinite,
    Record,
    Schema,
    is_unsafe,
    spelled,
)
from rltop.model.verdicts import (
    POISON_FAMILY,
    Action,
    Advice,
    Event,
    EventState,
    Evidence,
    Incident,
    Level,
    RunState,
    Settled,
    Verdict,
    VerdictState,
)

__all__ = [
    "GAP",
    "POISON_FAMILY",
    "RECENT_LINES",
    "Action",
    "Advice",
    "Algorithm",
    "CellMark",
    "Counts",
    "Direction",
    "Event",
    "EventState",
    "Evidence",
    "FilePosition",
    "Incident",
    "Label",
    "Level",
    "Metric",
    "NonFinite",
    "Observation",
    "Record",
    "RunState",
    "Schema",
    "Settled",
    "Signal",
    "Span",
    "SpanKind",
    "StepTiming",
    "TimedSpan",
    "Traits",
    "Unit",
    "Verdict",
    "VerdictState",
    "is_unsafe",
    "spelled",
]
