"""Liveness: is the run still writing, and can what it writes be read?

Owns the history of gaps between records and what counts as a stall, and faults of the file itself: unreadable lines,
two writers, no record yet. Times and counts are passed in: there is no clock here, and `check` and replayed recordings
never ask about silence.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from rltop.model import RECENT_LINES, Counts, Evidence, Level, Observation, Unit, Verdict, VerdictState
from rltop.rules.context import SAVE_SHARE
from rltop.rules.registry import NAMED
from rltop.rules.rule import State
from rltop.stats.rolling import Window, median_of
from rltop.structs import Struct
from rltop.units import duration, percent

_HELD_GAPS = 512
_MIN_GAPS = 2
_HELD_PAUSES = 8
_USUAL_GAPS = 32
_HELD_RESTS, _REST = 16, 20.0
"""If the run's own clock restarted, a gap above this multiple of the usual one is a pause, not a step."""

SPEC = NAMED["L4"]
LIMITS = SPEC.thresholds


class SilenceLimits(Struct):
    """Limits on the silence since the newest record, in seconds."""

    quiet_s: float
    warn_s: float
    crit_s: float


class _Pauses(State):
    """Recurring gaps far above the median: checkpoints and validations, whether logged as such or not."""

    records = 0
    _usual = Window(_USUAL_GAPS)
    _held: deque[tuple[int, float]] = deque(maxlen=_HELD_PAUSES)

    def push(self, gap_s: float, factor: float, *, is_named: bool) -> None:
        """Add a gap; `is_named`: the row says that it saved or evaluated."""
        usual = self._usual
        self.records += 1
        is_long = gap_s > factor * usual.least and usual.count >= _MIN_GAPS and gap_s > factor * usual.median
        if is_named or is_long:
            self._held.append((self.records, gap_s))
        usual.push(gap_s)

    @property
    def due_s(self) -> float:
        """The longest pause so far, if by the last interval one is due within a record of the next; else 0."""
        if not self._held:
            return 0.0
        last = self._held[-1][0]
        interval = last - self._held[-2][0] if len(self._held) > 1 else last
        if abs(self.records + 1 - last - interval) > 1:
            return 0.0
        return max(gap for _, gap in self._held)


class Liveness(State):
    """Gaps between records. Until a checkpoint was written (`has_saved`), a silence may be one and is never CRIT.

    Attributes:
        gaps_s: the newest gaps between records, in seconds.
        resumed: steps before which the run paused: its clock restarted although its steps went on.
    """

    has_saved = False
    resumed: deque[int] = deque(maxlen=_HELD_RESTS)
    gaps_s: deque[float] = deque(maxlen=_HELD_GAPS)
    _elapsed_s = -math.inf
    _last_time_s: float | None = None
    _last_arrived_s: float | None = None
    _last: Observation | None = None
    _pauses = _Pauses()

    def __init__(self, thresholds: Mapping[str, float] | None = None) -> None:
        super().__init__()
        self.thresholds = {**LIMITS, **(thresholds or {})}

    @property
    def longest_s(self) -> float:
        """The longest known gap; 0 without any."""
        return max(self.gaps_s, default=0.0)

    @property
    def knows_pace(self) -> bool:
        """Whether enough gaps are known to say what is usual."""
        return len(self.gaps_s) >= _MIN_GAPS

    def observe(self, observation: Observation, arrived_s: float | None = None) -> None:
        if (gap := _between(arrived_s, self._last_arrived_s)) is None:
            gap = _between(observation.time_s, self._last_time_s)
        if gap is None or gap <= 0.0:
            gap = observation.values.get("time_step")
        values = observation.values
        elapsed_s = values.get("time_elapsed", self._elapsed_s)
        if elapsed_s < self._elapsed_s and gap is not None and self.knows_pace and gap > _REST * self._usual_gaps()[0]:
            self.resumed.append(observation.step)
            gap = None
        self._elapsed_s = elapsed_s
        save = values.get("time_save", 0.0)
        is_named = save > 0.0 or values.get("time_eval", 0.0) > 0.0
        if gap is not None and gap > 0.0:
            self.gaps_s.append(gap)
            self._pauses.push(gap, self.thresholds["warn_median"], is_named=is_named)
        self._last_arrived_s = arrived_s
        if observation.time_s is not None:
            self._last_time_s = observation.time_s
        if save > 0.0 and save > SAVE_SHARE * values.get("time_step", 0.0):
            self.has_saved = True
        self._last = observation

    @property
    def usual_s(self) -> float | None:
        """The median gap in seconds; None while too few are known."""
        return self._usual_gaps()[0] if self.knows_pace else None

    def restart(self) -> None:
        """Begin a new segment: the gap to the previous one does not count."""
        self._last_time_s = self._last_arrived_s = None

    def silence(self, lag_s: float = 0.0) -> SilenceLimits:
        """The thresholds for the current gap; `lag_s`: seconds that a network file system may delay rows.

        WARN: max(60 s, 3 medians, 1.5 × p99); CRIT: max(10 min, 8 medians, 3 × p99). If a recurring pause (a
        checkpoint, a validation) is due, also at least 1.5 (WARN) or 3 (CRIT) times the longest of these.
        """
        thresholds = self.thresholds
        if not self.knows_pace:
            first = thresholds["first_record_s"] + lag_s
            return SilenceLimits(first, first, float("inf"))
        median, p99 = self._usual_gaps()
        due = thresholds["pause"] * self._pauses.due_s
        warn, crit = (
            max(thresholds[f"{name}_s"], thresholds[f"{name}_median"] * median, thresholds[f"{name}_p99"] * p99, pause)
            for name, pause in (("warn", due), ("crit", 2.0 * due))
        )
        quiet = min(warn, max(thresholds["quiet_s"], thresholds["quiet_median"] * median, p99))
        return SilenceLimits(quiet + lag_s, warn + lag_s, max(crit, warn) + lag_s)

    def _usual_gaps(self) -> tuple[float, float]:
        ordered = sorted(self.gaps_s) or [0.0]
        return median_of(ordered), ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]

    def level(self, age_s: float, lag_s: float = 0.0) -> Level:
        """How bad a silence of `age_s` seconds is: OK, INFO (quiet), WARN or CRIT; `lag_s` as for `silence`."""
        lines = self.silence(lag_s)
        if age_s > lines.crit_s and self.has_saved:
            return Level.CRIT
        if age_s > lines.warn_s:
            return Level.WARN
        return Level.INFO if age_s > lines.quiet_s else Level.OK

    def verdict(self, age_s: float, lag_s: float = 0.0, key: str = "") -> Verdict | None:
        """The verdict on a silence of `age_s` seconds, or None below WARN; `lag_s` as for `silence`."""
        level = self.level(age_s, lag_s)
        if level < Level.WARN or self._last is None:
            return None
        lines, (median, p99) = self.silence(lag_s), self._usual_gaps()
        usual = f"median gap {duration(median)}, p99 {duration(p99)}" if self.gaps_s else "only one record so far"
        hint = "" if self.has_saved else "; a first checkpoint or validation may be running"
        text = f"no new record for {duration(age_s)} ({usual}){hint}"
        line = lines.crit_s if level is Level.CRIT else lines.warn_s
        # The silence is no value of the step time, so its threshold is no line in a chart of that.
        numbers = {"silence": age_s, "median gap": median, "p99 gap": p99, "threshold": line}
        found = _verdict(SPEC.id, level, text, numbers, (self._last.record, self._last.step))
        return found._replace(metric="time_step", key=key, baseline=median)


def _between(now_s: float | None, before_s: float | None) -> float | None:
    return now_s - before_s if now_s is not None and before_s is not None else None


UNREADABLE = "L7"
TWO_WRITERS = "L12"
_FEWEST = 20
_BAD, _WRITERS = (NAMED[rule].thresholds for rule in (UNREADABLE, TWO_WRITERS))
_LOCKSTEP = 0.8
"""Overwriting rows per step: from here on nearly every step is written twice."""


def unreadable(counts: Counts, steps: Sequence[int], thresholds: Mapping[str, float] = _BAD) -> Verdict | None:
    """WARN while a share above `warn` of the newest 100 lines is unreadable; INFO if a share `info` of rows is cut."""
    read = min(counts.lines, RECENT_LINES)
    bad = sorted(line for line in counts.recent_bad if line > counts.lines - read)
    if read < _FEWEST or len(bad) <= thresholds["warn"] * read:
        return _in_part(counts, thresholds)
    # Position of the first bad line among the rows, assuming that rows are spread evenly over lines.
    behind = round((counts.lines - bad[0]) * counts.rows / counts.lines)
    text = f"{len(bad):,} of the last {read:,} lines ({percent(len(bad) / read)}) unreadable"
    step = steps[max(0, len(steps) - 1 - behind)] if len(steps) else 0
    numbers = {"unreadable lines": len(bad), "lines": read}
    return _verdict(UNREADABLE, Level.WARN, text, numbers, (max(1, counts.rows - behind), step))


def _in_part(counts: Counts, thresholds: Mapping[str, float]) -> Verdict | None:
    partial, rows = counts.partial_lines, counts.rows
    if rows < _FEWEST or partial <= thresholds["info"] * rows:
        return None
    text = f"{partial:,} of {rows:,} metric lines could be read only in part: the metrics at their ends are missing"
    return _verdict(UNREADABLE, Level.INFO, text, {"lines read in part": partial, "rows": rows})


def two_writers(
    counts: Counts, thresholds: Mapping[str, float] = _WRITERS, steps: int = 0, overwritten: int = 0
) -> Verdict | None:
    """INFO once the file has returned `info` times to an earlier run id, or most steps are `overwritten`."""
    if counts.interleaved_rows < thresholds["info"]:
        return _in_lockstep(steps, overwritten)
    text = (
        f"two writers in one file: its rows go back {counts.interleaved_rows:,} times to a run id that they had left; "
        "give each run its own file"
    )
    return _verdict(TWO_WRITERS, Level.INFO, text, {"returns to an earlier run id": counts.interleaved_rows})


def _in_lockstep(steps: int, overwritten: int) -> Verdict | None:
    """INFO if nearly every step is written several times: by several writers, or in parts."""
    if overwritten < _FEWEST or overwritten < steps * _LOCKSTEP:
        return None
    rows = (steps + overwritten) / steps
    text = (
        f"steps are written {rows:.1f} times on average, each with other values: two writers in one file, or parts "
        "of a step; the last values are shown; give each writer its own file"
    )
    return _verdict(TWO_WRITERS, Level.INFO, text, {"steps": steps, "rows with other values": overwritten})


def first_record_late(waited_s: float, thresholds: Mapping[str, float] = LIMITS) -> Verdict | None:
    """INFO once a file has had no record for `first_record_s` seconds."""
    if waited_s <= thresholds["first_record_s"]:
        return None
    text = f"no record yet after {duration(waited_s)}: first validation or compilation?"
    return _verdict(SPEC.id, Level.INFO, text, {"waited": waited_s}, (0, 0))


def _verdict(rule: str, level: Level, text: str, numbers: Mapping[str, float], at: tuple[int, int] = (1, 0)) -> Verdict:
    spec, unit = NAMED[rule], Unit.SECONDS if rule == SPEC.id else Unit.NONE
    return Verdict(
        rule=spec.rule,
        title=spec.title,
        family=spec.family,
        group=spec.group.value,
        level=level,
        state=VerdictState.FIRING,
        metric="",
        key="",
        since_step=at[1],
        since_record=at[0],
        headline=text,
        evidence=tuple([Evidence(name, float(number), unit) for name, number in numbers.items()]),
        part=spec.part,
    )
