"""One way of reading a file: the whole of it, or its last rows first; and how long reading will still take."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rltop.formats.kinds import Kind
from rltop.run.pipeline import Pipeline
from rltop.sources.feed import Feed
from rltop.sources.tail import LastRows
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.run.rule_runner import RuleRunner

FIRST_ROWS = 32
"""Rows at the end that are shown first of all: the steps of the timing strip, and about 10 ms."""
LONG_S = 1.0
"""What takes longer is worth a bar and the time left."""
_TELLING_S, _TELLING_SHARE = 0.4, 0.01
"""Before that nobody can tell how fast a file is read."""


def seconds_left(spent_s: float, share: float | None, from_share: float = 0.0) -> float | None:
    """How long reading will still take, at the pace so far; None where that is not known, or not worth a word.

    Args:
        spent_s: how long it has taken so far.
        share: how much of the whole has been done; None when all has.
        from_share: how much had been done at the beginning of that time.
    """
    if share is None or share - from_share < _TELLING_SHARE or spent_s < _TELLING_S:
        return None
    left_s = spent_s * (1.0 - share) / (share - from_share)
    return left_s if spent_s + left_s > LONG_S else None


def last_rows(kind: Kind, rows: int) -> LastRows | None:
    """The last rows of a file of this kind, to be shown before its history; None where they need all before them.

    Args:
        kind: of the file.
        rows: how many.
    """
    if not kind.is_line_based and kind.row_starts is None:
        return None
    return LastRows(rows, kind.row_starts, kind.head_bytes)


class ReadPath(NamedTuple):
    """One way of reading a file: the whole of it, or its last rows first.

    Attributes:
        feed: brings the bytes.
        pipeline: makes rows of them.
        rules: judge the rows; None where they are only to be shown.
    """

    feed: Feed
    pipeline: Pipeline
    rules: RuleRunner | None = None

    @property
    def is_read(self) -> bool:
        """Has everything been decoded that the feed has to give?"""
        return self.pipeline.has_read_all_of(self.feed)

    def at_end(self) -> ReadPath | None:
        """As if nothing more came; None where that would only close the open row."""
        ended = self.pipeline.at_end()
        if ended is None:
            return None
        return ReadPath(self.feed, ended, cast("RuleRunner | None", ended.sink if self.rules is not None else None))
