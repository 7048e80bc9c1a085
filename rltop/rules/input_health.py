"""Input health: unreadable lines, and a file without a record; counts and waiting times are passed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rltop.model import RECENT_LINES, Counts, Evidence, Level, Unit, Verdict, VerdictState
from rltop.rules.registry import NAMED
from rltop.units import duration, percent

UNREADABLE = "L7"
FIRST_RECORD = "L5"
TWO_WRITERS = "L12"
_FEWEST = 20
_FIRST, _BAD, _WRITERS = (NAMED[rule].thresholds for rule in (FIRST_RECORD, UNREADABLE, TWO_WRITERS))
_LOCKSTEP = 0.8
"""Rows that overwrite a step, for each step: nearly every one is written twice."""


def unreadable(counts: Counts, steps: Sequence[int], thresholds: Mapping[str, float] = _BAD) -> Verdict | None:
    """WARN while more than `warn` of the newest 100 lines are unreadable; INFO where `info` of the rows are cut."""
    read = min(counts.lines, RECENT_LINES)
    bad = sorted(line for line in counts.recent_bad if line > counts.lines - read)
    if read < _FEWEST or len(bad) <= thresholds["warn"] * read:
        return _in_part(counts, thresholds)
    # Where the first of them stands among the rows, if rows are spread evenly over lines.
    behind = round((counts.lines - bad[0]) * counts.rows / counts.lines)
    text = f"{len(bad):,} of the last {read:,} lines ({percent(len(bad) / read)}) unreadable"
    evidence = (Evidence("unreadable lines", float(len(bad))), Evidence("lines", float(read)))
    step = steps[max(0, len(steps) - 1 - behind)] if len(steps) else 0
    return _verdict(UNREADABLE, Level.WARN, text, evidence, max(1, counts.rows - behind), step)


def _in_part(counts: Counts, thresholds: Mapping[str, float]) -> Verdict | None:
    partial, rows = counts.partial_lines, counts.rows
    if rows < _FEWEST or partial <= thresholds["info"] * rows:
        return None
    text = f"{partial:,} of {rows:,} metric lines could be read only in part: the metrics at their ends are missing"
    evidence = (Evidence("lines read in part", float(partial)), Evidence("rows", float(rows)))
    return _verdict(UNREADABLE, Level.INFO, text, evidence, 1, 0)


def two_writers(
    counts: Counts, thresholds: Mapping[str, float] = _WRITERS, steps: int = 0, overwritten: int = 0
) -> Verdict | None:
    """INFO once the file has gone back `info` times to a run id that it had left, or most steps are `overwritten`."""
    if counts.interleaved_rows < thresholds["info"]:
        return _in_lockstep(steps, overwritten)
    text = (
        f"two writers in one file: its rows go back {counts.interleaved_rows:,} times to a run id that they had left; "
        "give each run its own file"
    )
    evidence = (Evidence("returns to an earlier run id", float(counts.interleaved_rows)),)
    return _verdict(TWO_WRITERS, Level.INFO, text, evidence, 1, 0)


def _in_lockstep(steps: int, overwritten: int) -> Verdict | None:
    """INFO where every step is written several times, by several writers or by one that cannot decide."""
    if overwritten < _FEWEST or overwritten < steps * _LOCKSTEP:
        return None
    rows = (steps + overwritten) / steps
    text = (
        f"steps are written {rows:.1f} times on average, each with other values: two writers in one file, or parts "
        "of a step; the last values are shown; give each writer its own file"
    )
    evidence = (Evidence("steps", float(steps)), Evidence("rows with other values", float(overwritten)))
    return _verdict(TWO_WRITERS, Level.INFO, text, evidence, 1, 0)


def first_record_late(waited_s: float, thresholds: Mapping[str, float] = _FIRST) -> Verdict | None:
    """INFO once a file has been without a record for long."""
    if waited_s <= thresholds["first_s"]:
        return None
    text = f"no record yet after {duration(waited_s)}: first validation or compilation?"
    return _verdict(FIRST_RECORD, Level.INFO, text, (Evidence("waited", waited_s, Unit.SECONDS),), 0, 0)


def _verdict(rule: str, level: Level, text: str, evidence: tuple[Evidence, ...], record: int, step: int) -> Verdict:
    spec = NAMED[rule]
    return Verdict(
        rule=spec.rule,
        title=spec.title,
        family=spec.family,
        group=spec.group.value,
        level=level,
        state=VerdictState.FIRING,
        metric="",
        key="",
        since_step=step,
        since_record=record,
        headline=text,
        evidence=evidence,
        threshold=None,
        baseline=None,
        part=spec.part,
    )
