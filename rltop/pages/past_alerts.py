"""Alerts that a run once had, in words: the worst of them is said beside what stands now.

Owns the wording; which alert is the worst is `run.worst`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltop import units
from rltop.model import Level, Verdict
from rltop.rows.glyphs import LEVEL_ROLES
from rltop.rows.rows import Target, TargetKind
from rltop.run.worst import Alert, History
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.rules.rule import RuleSpec


def _spec_of(rule: str) -> RuleSpec | None:
    from rltop.rules import registry  # noqa: PLC0415 - whoever has an alert has the rules; the first frame has neither

    return registry.NAMED.get(rule)


def alert_group(alert: Alert) -> str:
    """The group of its rule: learning or system."""
    spec = _spec_of(alert.rule)
    return "learning" if spec is None else spec.group.value


def alert_title(alert: Alert) -> str:
    """The name of the symptom."""
    spec = _spec_of(alert.said_by)
    return spec.title if spec is not None else alert.family


def alert_name(alert: Alert, *, is_loud: bool = True) -> str:
    """The symptom, and the stream where it is not the main one.

    Args:
        is_loud: a CRIT is in capitals; not so where a sign beside the name says its level.
    """
    title = alert_title(alert)
    title = title.upper() if is_loud and alert.level is Level.CRIT else title
    return f"{alert.stream} {title}" if alert.stream else title


def alert_words(alert: Alert) -> str:
    """What it was, where it began and how it ended: `COLLAPSE @122 (recovered @146)`."""
    text = f"{alert_name(alert)} @{units.step(alert.since_step)}"
    if alert.is_earlier:
        return f"{text} (earlier attempt)"
    if alert.recovered_step is not None:
        return f"{text} (recovered @{units.step(alert.recovered_step)})"
    return f"{text} (settled @{units.step(alert.settled_step)})" if alert.settled_step is not None else text


def alert_role(alert: Alert) -> str:
    """The role of its level; an earlier attempt is no alarm, nor is what is muted."""
    return "dim" if alert.is_earlier or alert.is_muted else LEVEL_ROLES[alert.level]


def alert_target(alert: Alert) -> Target:
    """Its page, at the step where it was at its worst."""
    return Target(TargetKind.VERDICT, alert.rule, alert.step, alert.stream)


def worse_before(history: History, level: Level) -> Alert | None:
    """The worst alert that was, where it is over and was worse than `level`, the worst that stands; else None.

    Args:
        level: the worst that stands.
    """
    worst = history.worst
    return worst if worst is not None and worst.level > level and _is_over(worst) else None


def muted_before(history: History) -> Alert | None:
    """The worst alert of all, where it is over and its rule is muted; else None."""
    worst = min(history.alerts, key=lambda one: one.rank, default=None)
    return worst if worst is not None and worst.is_muted and _is_over(worst) else None


def _is_over(alert: Alert) -> bool:
    return alert.is_earlier or alert.recovered_step is not None or alert.settled_step is not None


def worst_words(history: History, level: Level) -> str:
    """`worst so far: …` or `earlier attempt: …`; empty where nothing that is over was worse than `level`.

    Args:
        level: the worst that stands.
    """
    found = worse_before(history, level)
    muted = f", {units.count(history.muted)} muted" if history.muted else ""
    if found is None:
        return ""
    if found.is_earlier:
        return f"earlier attempt: {alert_name(found)} @{units.step(found.since_step)}{muted}"
    return f"worst so far: {alert_words(found)}{muted}"


class Origin(NamedTuple):
    """The alert with which an incident began.

    Attributes:
        rule, title: which.
        step: of its onset.
    """

    rule: str
    title: str
    step: int

    @property
    def words(self) -> str:
        """`began with: loss blow-up at 101`."""
        return f"began with: {self.title} at {units.step(self.step)}"


def origin(verdict: Verdict) -> Origin | None:
    """With what the incident of an alert began: whatever says so asks here; None where it is that alert itself."""
    incident = verdict.incident
    if incident is None or incident.rule == verdict.rule:
        return None
    spec = _spec_of(incident.rule)
    return Origin(incident.rule, incident.rule if spec is None else spec.title, incident.step)


def incident_count(verdicts: Sequence[Verdict]) -> int:
    """How many things are wrong: alerts of one incident are one."""
    return len({(v.stream, v.rule if v.incident is None else v.incident.number) for v in verdicts})
