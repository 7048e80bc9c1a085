"""A rule over one segment: findings become an alert that begins, escalates and recovers.

Owns persistence, warm-up and hysteresis; what is found in a record is the
detector's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Event, EventState, Level, Verdict, VerdictState
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, OK, QUIET, WARN, Finding, RuleSpec
from rltop.stats.persistence import NOfMCounter

SHOWN_RECORDS = 20
"""For how many records a recovered verdict stays visible."""
COOLDOWN_RECORDS = 20
"""For how many records after recovery the same rule stays silent at the same level."""


class AlertState:
    """One rule at work on one segment: a detector and the state of its alert.

    Level L is established while at least n of the last m findings were L or
    worse. An alert is raised when a level above OK is first established, is
    escalated when a worse one is, keeps its worst level, and ends after
    max(`clear_after`, m) better findings in a row. It then stays visible for 20
    records, and is not raised again at the same level within 20 records.

    Attributes:
        spec: what the rule is.
        detector: what looks at the records.
        is_firing: the alert is active.
        is_idle: no bad record is counted, so that a QUIET finding changes nothing.
        level: OK, or the worst level of the alert, also after it recovered.
        finding: the finding that the alert is based on.
        since_step, since_record: where it began.
        recovered_step, recovered_record: where it ended; the step is None while it fires.
    """

    __slots__ = (
        "_better", "_cool", "_counters", "_recent", "detector", "finding", "is_firing", "is_idle", "level",
        "recovered_record", "recovered_step", "since_record", "since_step", "spec",
    )  # fmt: skip

    def __init__(self, spec: RuleSpec, thresholds: Mapping[str, float]) -> None:
        """Start with no records.

        Args:
            spec: what the rule is.
            thresholds: by name, as they hold in this run.

        Raises:
            ValueError: the rule has no detector: something else than records decides it.
        """
        if spec.detector is None:
            raise ValueError(f"rule {spec.id} does not judge records")
        self.spec = spec
        self.detector = spec.detector(thresholds)
        self._counters = {level: NOfMCounter(*spec.n_of_m_for(level)) for level in (INFO, WARN, CRIT)}
        self._recent: deque[tuple[int, int]] = deque(maxlen=max(map(self._clear_after, self._counters)))
        self._better = 0
        self.is_firing = False
        self.is_idle = True
        self._cool: dict[Level, int] = {}
        self.level = OK
        self.finding = QUIET
        self.since_step = self.since_record = 0
        self.recovered_step: int | None = None
        self.recovered_record = 0

    def _clear_after(self, level: Level) -> int:
        """Better findings in a row that end an alert of `level`."""
        return max(self.spec.clear_after, self._counters[level].m)

    def observe(self, context: RuleContext) -> Event | None:
        """Judge one record; returns the transition that it caused, if any."""
        finding = self.detector.detect(context)
        if finding is None or (finding is QUIET and self.is_idle):
            return None
        return self.advance(context, finding)

    def advance(self, context: RuleContext, finding: Finding) -> Event | None:
        """Move the alert on by one finding.

        Args:
            context: the record that was looked at.
            finding: what the detector says of it; QUIET may be left out while `is_idle`.

        Returns:
            The transition that it caused, if any.
        """
        level, seen = finding.level, context.observation
        self._recent.append((seen.record, seen.step))
        # A record counts for every level, whichever of them is established.
        established = OK
        self.is_idle = not self.is_firing
        for one, counter in self._counters.items():
            if counter.push(level >= one):
                established = one
            if counter.bits:
                self.is_idle = False
        if self.spec.is_fact and level == INFO:
            return self._event(context, EventState.FACT, INFO, self.detector.headline(finding))
        if self.is_firing:
            return self._while_firing(context, finding, established)
        return self._begin(context, finding, established)

    def _begin(self, context: RuleContext, finding: Finding, established: Level) -> Event | None:
        if finding.level == OK or (self.spec.is_fact and established == INFO):
            return None
        record = context.observation.record
        while established > OK and self._cool.get(established, 0) > record:
            established = Level(established - 1)
        if established <= OK:
            return None
        self._mark_beginning(established)
        self.level, self.finding, self.recovered_step = established, finding, None
        self._better = 0
        self.is_firing = True
        self.detector.is_firing = established >= WARN
        return self._event(context, EventState.FIRING, established, self.detector.headline(finding))

    def _while_firing(self, context: RuleContext, finding: Finding, established: Level) -> Event | None:
        level = self.level
        if finding.level >= level or finding.level >= WARN:
            self._better = 0
        else:
            self._better += 1
        if established > level and self._cool.get(established, 0) <= context.observation.record:
            if level == INFO:
                self._mark_beginning(established)
            self.level, self.finding = established, finding
            self.detector.is_firing = established >= WARN
            return self._event(context, EventState.ESCALATED, established, self.detector.headline(finding))
        if finding.level >= level:
            self.finding = finding
        if self._better >= self._clear_after(level):
            return self.recover(context)
        return None

    def _mark_beginning(self, level: Level) -> None:
        dated = self.detector.began()
        if dated is not None:
            self.since_record, self.since_step = dated
            return
        behind = min(self._counters[level].oldest, len(self._recent) - 1)
        self.since_record, self.since_step = self._recent[-1 - behind]

    def recover(self, context: RuleContext) -> Event:
        """End the alert at this record."""
        self.detector.is_firing = self.is_firing = False
        self.is_idle = False
        self.recovered_step = context.observation.step
        self.recovered_record = context.observation.record
        for level in (INFO, WARN, CRIT):
            if level <= self.level:
                self._cool[level] = self.recovered_record + COOLDOWN_RECORDS
        message = f"{self.spec.title}, since step {self.since_step:,}"
        return self._event(context, EventState.RECOVERED, self.level, message)

    def _event(self, context: RuleContext, state: EventState, level: Level, message: str) -> Event:
        seen = context.observation
        since = None if state is EventState.FACT else self.since_step
        return Event(seen.record, seen.step, self.spec.id, self.spec.family, level, state, message, since_step=since)

    def is_shown(self, record: int) -> bool:
        """Whether the verdict is still visible after `record`."""
        if self.level <= OK:
            return False
        return self.recovered_step is None or record - self.recovered_record < SHOWN_RECORDS

    def verdict(self, metric: str, key: str) -> Verdict:
        """The alert in words; only meaningful while `is_shown`.

        Args:
            metric: canonical name of the metric it is about.
            key: the trainer's key of that metric, or "".
        """
        spec, finding = self.spec, self.finding
        return Verdict(
            rule=spec.id,
            title=spec.title,
            family=spec.family,
            group=spec.group.value,
            level=self.level,
            state=VerdictState.FIRING if self.recovered_step is None else VerdictState.RECOVERED,
            metric=metric,
            key=key,
            since_step=self.since_step,
            since_record=self.since_record,
            headline=self.detector.headline(finding),
            evidence=self.detector.evidence(finding, spec.evidence),
            why=spec.why,
            causes=spec.causes,
            next=spec.next,
            threshold=None if spec.measures else finding.threshold,
            baseline=None if spec.measures else finding.baseline,
            recovered_step=self.recovered_step,
        )

    def begin_anew(self, thresholds: Mapping[str, float]) -> None:
        """Drop baselines and pending counts; an active alert stays until records clear it."""
        assert self.spec.detector is not None
        is_firing = self.detector.is_firing
        self.detector = self.spec.detector(thresholds)
        self.detector.is_firing = is_firing
        for counter in self._counters.values():
            counter.clear()
        self.is_idle = not self.is_firing

    def clone(self) -> AlertState:
        """An independent copy: judging a record on it leaves this one as it was."""
        twin = AlertState.__new__(AlertState)
        for name in AlertState.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.detector = self.detector.clone()
        twin._recent = self._recent.copy()
        twin._cool = self._cool.copy()
        twin._counters = {level: counter.clone() for level, counter in self._counters.items()}
        return twin
