"""Lines of styled text, before anything knows how a terminal draws them.

A view is painted once, as rows; the Textual widget, the early paint and the
one-shot report turn the same rows into cells, escape codes or plain text.
"""

from __future__ import annotations

import enum

from rltop.structs import NamedTuple


class Piece(NamedTuple):
    """A stretch of text with one role; the theme decides what a role looks like."""

    text: str
    role: str = "text"


Line = tuple[Piece, ...]


class TargetKind(enum.StrEnum):
    """What Enter can open."""

    METRIC = "metric"
    VERDICT = "verdict"
    TIMING = "timing"
    FLOW = "flow"
    STRAGGLERS = "stragglers"
    SECTION = "section"
    STEP = "step"
    EVENT = "event"
    RANKS = "ranks"
    RUN = "run"
    GROUP = "group"
    COMPLETION = "completion"
    HEAD = "head"
    BAR = "bar"
    COMPARE = "compare"
    MEANING = "meaning"
    GRID = "grid"
    LINE = "line"
    LOG = "log"
    SETTING = "setting"
    SYMPTOM = "symptom"
    WHERE = "where"
    RULE = "rule"
    CHOICE = "choice"
    NUMBERED = "numbered"


POINTED = frozenset({TargetKind.HEAD, TargetKind.BAR})
"""What a click opens at once, and keys pass over: heads of tables, bars of steps."""


class Target(NamedTuple):
    """Where a row leads: the metric's key, the rule's id, the section's name, the run's path.

    A head leads to its table sorted by it, see `table.Sorting`; a meaning is a canonical name.

    `step` is the step to go to; of an event or a line, its number in the log. `stream`
    names the stream of the run that it is in; "" is the main one.
    """

    kind: TargetKind
    name: str = ""
    step: int | None = None
    stream: str = ""


class RowLink(NamedTuple):
    """Cells `start` to `stop` (exclusive) of a row that can be selected."""

    start: int
    stop: int
    target: Target


class Row(NamedTuple):
    """One line on the screen and what can be selected in it."""

    line: Line
    links: tuple[RowLink, ...] = ()


ROLES = (
    "text", "dim", "strong", "title", "key", "value", "unit", "rule", "note",
    "ok", "info", "warn", "crit", "nodata", "live", "paused",
    "spark", "spark-mark", "baseline", "threshold", "restart", "cursor",
    "stage-0", "stage-1", "stage-2", "stage-3", "stage-4", "stage-5", "stage-6", "stage-7", "other",
)  # fmt: skip
"""Every role a piece may have; a theme gives each a style."""
