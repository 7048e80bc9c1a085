"""Liveness: is the run still writing?

Owns the history of gaps between records and what counts as a stall. It is the
one detector that needs a time, and it is given one: there is no clock here.
`check` and replayed recordings never ask it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Evidence, Level, Observation, Unit, Verdict, VerdictState
from rltop.rules.registry import NAMED
from rltop.rules.rule import State
from rltop.stats.rolling import Window, median_of
from rltop.structs import Struct
from rltop.units import duration

_HELD_GAPS = 512
_MIN_GAPS = 2
_SAVE_SHARE = 0.01
_HELD_PAUSES = 8
_USUAL_GAPS = 32

SPEC = NAMED["L4"]
LIMITS = SPEC.thresholds


class SilenceLimits(Struct):
    """How long is too long, in seconds since the newest record."""

    quiet_s: float
    warn_s: float
    crit_s: float


class _Pauses(State):
    """Recurring gaps far above the median: checkpoints and validations, with their own key or without."""

    records = 0
    _usual = Window(_USUAL_GAPS)
    _held: deque[tuple[int, float]] = deque(maxlen=_HELD_PAUSES)

    def push(self, gap_s: float, factor: float, *, is_named: bool) -> None:
        """Take a gap in; `is_named`: the row says that it saved or evaluated."""
        usual = self._usual
        self.records += 1
        if is_named or (usual.count >= _MIN_GAPS and gap_s > factor * usual.median):
            self._held.append((self.records, gap_s))
        usual.push(gap_s)

    @property
    def due_s(self) -> float:
        """The longest pause so far if one is due, by the last interval, before the next record or nearly; else 0."""
        if not self._held:
            return 0.0
        last = self._held[-1][0]
        interval = last - self._held[-2][0] if len(self._held) > 1 else last
        if abs(self.records + 1 - last - interval) > 1:
            return 0.0
        return max(gap for _, gap in self._held)


class Liveness(State):
    """Gaps between records; before a checkpoint `has_saved`, a silence may be the first one, and is no CRIT."""

    has_saved = is_finished = False
    _gaps: deque[float] = deque(maxlen=_HELD_GAPS)
    _last_time_s: float | None = None
    _last_arrived_s: float | None = None
    _last: Observation | None = None
    _pauses = _Pauses()

    def __init__(self, thresholds: Mapping[str, float] | None = None) -> None:
        super().__init__()
        self.thresholds = {**LIMITS, **(thresholds or {})}

    @property
    def gaps(self) -> int:
        return len(self._gaps)

    @property
    def longest_s(self) -> float:
        """The longest gap that is known; 0 without any."""
        return max(self._gaps, default=0.0)

    @property
    def knows_pace(self) -> bool:
        """Are enough gaps known to say what is usual?"""
        return len(self._gaps) >= _MIN_GAPS

    def observe(self, observation: Observation, arrived_s: float | None = None, is_finished: bool = False) -> None:
        """Take a record in; `is_finished`: the row says that the run is over."""
        gap = _between(arrived_s, self._last_arrived_s)
        if gap is None:
            gap = _between(observation.time_s, self._last_time_s)
        if gap is None or gap <= 0.0:
            gap = observation.values.get("time_step")
        values = observation.values
        save = values.get("time_save", 0.0)
        is_named = save > 0.0 or values.get("time_eval", 0.0) > 0.0
        if gap is not None and gap > 0.0:
            self._gaps.append(gap)
            self._pauses.push(gap, self.thresholds["warn_median"], is_named=is_named)
        self._last_arrived_s = arrived_s
        if observation.time_s is not None:
            self._last_time_s = observation.time_s
        if save > 0.0 and save > _SAVE_SHARE * values.get("time_step", 0.0):
            self.has_saved = True
        self._last = observation
        self.is_finished = is_finished

    def restart(self) -> None:
        """A new segment: the gap across the cut does not count."""
        self._last_time_s = self._last_arrived_s = None
        self.is_finished = False

    def silence(self, lag_s: float = 0.0) -> SilenceLimits:
        """The thresholds for the current gap; `lag_s` is what a network file system may hold back.

        W: max(60 s, 3 medians, 1.5 × p99); C: max(10 min, 8 medians, 3 × p99). Where a pause that comes back
        (a checkpoint, a validation) is due, W waits for 1.5 and C for 3 times the longest of them.
        """
        thresholds = self.thresholds
        if not self.knows_pace:
            first = thresholds["first_record_s"] + lag_s
            return SilenceLimits(first, first, float("inf"))
        ordered = sorted(self._gaps)
        median = median_of(ordered)
        p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        due = thresholds["pause"] * self._pauses.due_s
        warn = max(thresholds["warn_s"], thresholds["warn_median"] * median, thresholds["warn_p99"] * p99, due) + lag_s
        crit = (
            max(thresholds["crit_s"], thresholds["crit_median"] * median, thresholds["crit_p99"] * p99, 2.0 * due)
            + lag_s
        )
        quiet = min(warn, max(thresholds["quiet_s"], thresholds["quiet_median"] * median, p99) + lag_s)
        return SilenceLimits(quiet, warn, max(crit, warn))

    def level(self, age_s: float, lag_s: float = 0.0) -> Level:
        """How bad a silence of `age_s` seconds is: OK, INFO (quiet), WARN or CRIT; `lag_s`: what a mount holds back."""
        if self.is_finished:
            return Level.OK
        lines = self.silence(lag_s)
        if age_s > lines.crit_s and self.has_saved:
            return Level.CRIT
        if age_s > lines.warn_s:
            return Level.WARN
        return Level.INFO if age_s > lines.quiet_s else Level.OK

    def verdict(self, age_s: float, lag_s: float = 0.0, key: str = "") -> Verdict | None:
        """The verdict on a silence of `age_s` seconds, or None while it is ordinary; `lag_s` as for `silence`."""
        level = self.level(age_s, lag_s)
        if level < Level.WARN or self._last is None:
            return None
        lines = self.silence(lag_s)
        ordered = sorted(self._gaps) or [0.0]
        median = median_of(ordered)
        p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        usual = f"median gap {duration(median)}, p99 {duration(p99)}" if self._gaps else "only one record so far"
        hint = "" if self.has_saved else "; a first checkpoint or validation may be running"
        return Verdict(
            rule=SPEC.id,
            title=SPEC.title,
            family=SPEC.family,
            group=SPEC.group.value,
            level=level,
            state=VerdictState.FIRING,
            metric="time_step",
            key=key,
            since_step=self._last.step,
            since_record=self._last.record,
            headline=f"no new record for {duration(age_s)} ({usual}){hint}",
            evidence=(
                Evidence("silence", age_s, Unit.SECONDS),
                Evidence("median gap", median, Unit.SECONDS),
                Evidence("p99 gap", p99, Unit.SECONDS),
            ),
            threshold=lines.crit_s if level is Level.CRIT else lines.warn_s,
            baseline=median,
        )


def _between(now_s: float | None, before_s: float | None) -> float | None:
    return now_s - before_s if now_s is not None and before_s is not None else None
