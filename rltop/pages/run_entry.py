"""What the list of runs says of one run, worked out anew only where it may have changed."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

from rltop import units
from rltop.model import Label, Level, RunState, Verdict, VerdictState
from rltop.pages.header import BROKEN_OFF, UNDER_WAY, eta_of, pace_of
from rltop.pages.past_alerts import alert_name, incident_count, origin, worse_before
from rltop.pages.run_numbers import REWARDS, SPEEDS, VALIDATIONS, Value, best, newest
from rltop.run.run import Run, is_judged
from rltop.run.snapshot import Snapshot
from rltop.run.worst import Alert

_GONE = frozenset({RunState.DIED, RunState.LOST})
_AGEING = UNDER_WAY | {RunState.STALLED, RunState.WAITING}
"""States in which time alone may raise an alert."""
_A_DOUBLING = 6
"""How often a silent run is looked at again while the silence gets twice as long."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run in a list of runs.

    Attributes:
        name: as shown.
        path: where it is read from; tells runs of one name apart.
        dialect: whose keys, empty while unknown.
        algorithm: what is being trained, empty while unknown.
        step: the newest one, or None.
        total_steps: where the run says it.
        streams: how many streams it has, ranks aside.
        state: the state word.
        age_s: age of the newest record, or None.
        loading: fraction of the history that was read, None when complete.
        level: the worst that fires, NO_DATA without a row.
        verdict: what a run died of; else the title of the worst verdict, empty where none fires.
        more: further incidents: alerts that began together are one.
        worst: the worst alert that is over, where it was worse than what fires; None without one.
        is_milder: that alert is the one shown, which has settled at a lower level.
        reward, best: the newest reward; the best validation and where it was.
        pace_s: seconds a step takes now.
        speed: throughput.
        eta_s: time to the last step at that pace.
        is_judged: level, verdict and alerts are known; else they are of rows before, or not known yet.
    """

    name: Label
    path: Label
    dialect: str
    algorithm: str
    step: int | None
    total_steps: int | None
    streams: int
    state: RunState
    age_s: float | None
    loading: float | None
    level: Level
    verdict: str
    more: int
    worst: Alert | None = None
    is_milder: bool = False
    reward: Value | None = None
    best: Value | None = None
    pace_s: float | None = None
    speed: Value | None = None
    eta_s: float | None = None
    is_judged: bool = True

    @property
    def attention(self) -> Level:
        """How much it wants to be looked at: a dead run, as much as the worst verdict."""
        return Level.CRIT if self.state in _GONE else self.level

    @property
    def ever(self) -> Level:
        """The worst level of an alert that is over, where it is worse than what fires; else OK."""
        if self.worst is None or self.worst.is_earlier or self.worst.level <= self.attention:
            return Level.OK
        return self.worst.level

    @property
    def past(self) -> str:
        """The worst alert that is over, in words; may be empty."""
        if self.worst is None:
            return ""
        if self.is_milder:
            return f"was {self.worst.level.word.upper()}"
        return f"{'earlier attempt' if self.worst.is_earlier else 'was'} {past_name(self.worst)}"


def read_entry(snapshot: Snapshot) -> RunEntry:
    """What the list says of a run."""
    firing = [verdict for verdict in snapshot.verdicts.standing if verdict.is_active]
    worst = max(firing, key=lambda verdict: (verdict.level, verdict.state is not VerdictState.SETTLED), default=None)
    level = max((verdict.level for verdict in firing), default=Level.OK)
    what = "" if worst is None else _what(worst)
    more = max(0, incident_count(firing) - 1)
    if snapshot.source.state in BROKEN_OFF and snapshot.source.failure.raw:
        what, more = snapshot.source.failure.display, incident_count(firing)
    past = worse_before(snapshot.verdicts.history, max(level, Level.INFO))
    is_milder = worst is not None and past is not None and (past.rule, past.stream) == (worst.rule, worst.stream)
    has_rows = any(each.stream.has_values for each in snapshot.streams)
    return replace(
        unjudged_entry(snapshot),
        level=level if has_rows or firing else Level.NO_DATA,
        verdict=what,
        more=more,
        worst=past,
        is_milder=is_milder and past is not None and past.recovered_step is None and not past.is_earlier,
        is_judged=True,
    )


def unjudged_entry(snapshot: Snapshot) -> RunEntry:
    """What the list says of a run without asking the rules, which takes most of the time."""
    identity = snapshot.identity
    pace = pace_of(snapshot)
    return RunEntry(
        name=snapshot.name,
        path=snapshot.path,
        dialect="" if identity is None else identity.dialect.name,
        algorithm="" if identity is None else identity.algorithm.display_name,
        step=snapshot.stream.last_step,
        total_steps=snapshot.stream.total_steps or None,
        streams=sum(not part.source.is_rank for part in snapshot.streams),
        state=snapshot.source.state,
        age_s=snapshot.part.age_s,
        loading=snapshot.source.loading,
        level=Level.NO_DATA,
        verdict="",
        more=0,
        reward=newest(snapshot, REWARDS),
        best=best(snapshot, VALIDATIONS),
        pace_s=pace,
        speed=newest(snapshot, SPEEDS),
        eta_s=eta_of(snapshot, pace),
        is_judged=False,
    )


def _with_verdicts_of(before: RunEntry, entry: RunEntry) -> RunEntry:
    """The entry with what the rules said of the rows before."""
    return replace(
        entry,
        level=before.level,
        verdict=before.verdict,
        more=before.more,
        worst=before.worst,
        is_milder=before.is_milder,
        is_judged=True,
    )


def _what(worst: Verdict) -> str:
    """The worst alert, behind the one that began its incident."""
    settled = " (settled)" if worst.state is VerdictState.SETTLED else ""
    began = origin(worst)
    return Label.of(f"{'' if began is None else f'{began.title}, '}{worst.title}{settled}").display


def past_name(alert: Alert) -> str:
    """What an alert that is over is called, and where it began."""
    return f"{alert_name(alert, is_loud=False)} @{units.step(alert.since_step)}"


class Entries:
    """The rows of a list of runs that is painted again and again, most of which say what they said."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Run, Hashable, RunEntry]] = {}

    def of(self, run: Run, *, is_crowd: bool = False) -> RunEntry:
        """What the list says of a run; of one that has not changed only its age is read again.

        Args:
            run: one of them.
            is_crowd: there are so many that none is judged for the list: what is not known yet stays as it was.
        """
        state, age_s = run.state, run.main.age_s
        aged = round(_A_DOUBLING * math.log2(1.0 + age_s)) if age_s is not None and state in _AGEING else None
        has_verdicts = not is_crowd or is_judged(run)
        version = run.version, state, aged, run.muted, has_verdicts
        known = self._known.get(id(run))
        if known is not None and known[0] is run and known[1] == version:
            entry = known[2]
            return entry if entry.age_s == age_s else replace(entry, age_s=age_s)
        if has_verdicts:
            entry = read_entry(Snapshot(run))
        else:
            entry = unjudged_entry(Snapshot(run))
            if known is not None and known[0] is run and known[2].is_judged:
                entry = _with_verdicts_of(known[2], entry)
        self._known[id(run)] = (run, version, entry)
        return entry

    def keep(self, runs: int) -> None:
        """Forget what has been let go, where more is known than there are runs."""
        if len(self._known) > 2 * runs + 16:
            self._known.clear()
