"""The shared vocabulary: frozen value types that every layer uses.

Knows nothing of files, trainers or screens.
"""

from __future__ import annotations

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
    json_escape,
)
from rltop.model.verdicts import (
    POISON_FAMILY,
    RESTART_RULE,
    Action,
    Advice,
    Algorithm,
    Direction,
    Event,
    EventState,
    Evidence,
    Incident,
    Level,
    Metric,
    Observation,
    Part,
    RunState,
    Settled,
    Signal,
    Span,
    SpanKind,
    StepTiming,
    TimedSpan,
    Traits,
    Unit,
    Verdict,
    VerdictState,
    explaining,
)
