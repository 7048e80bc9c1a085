"""The alerts that a run has ever had, and the worst of them: what recovers is not forgotten.

Pure: folds the event log. Owns which attempt an alert belongs to; titles are the rules'.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rltop.model import POISON_FAMILY, Event, EventState, Level
from rltop.run.past import RESTART_RULE
from rltop.structs import Struct, replace

_FIRST = (POISON_FAMILY, "collapse")
"""Of CRIT alerts those that explain the others come first."""


class Alert(Struct):
    """One alert from the event log, standing or over.

    Attributes:
        rule, family: as in its events.
        level: the worst that it reached.
        since_step: where it began.
        step: where it reached that level.
        recovered_step: where it ended; None while it stands.
        settled_step: where its metric settled at another level; None where it has not.
        stream: the stream of the run that it is about; "" is the main one.
        is_earlier: a restart went back to before it began: it belongs to an attempt that was left behind.
        is_muted: its rule is muted: it counts for nothing.
        part: id of the part of the rule that reached that level; "" where it is the rule itself.
    """

    rule: str
    family: str
    level: Level
    since_step: int
    step: int
    recovered_step: int | None = None
    settled_step: int | None = None
    stream: str = ""
    is_earlier: bool = False
    is_muted: bool = False
    part: str = ""

    @property
    def said_by(self) -> str:
        """Id of the part that reached its worst level, else of the rule."""
        return self.part or self.rule

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Sorts alerts: those of this attempt, then the worst, then what poisons the weights, then a collapse."""
        is_first = self.level is Level.CRIT and self.family in _FIRST
        return self.is_earlier, -self.level, _FIRST.index(self.family) if is_first else len(_FIRST)


class History(Struct):
    """What a run's alerts were.

    Attributes:
        alerts: WARN and CRIT in the order in which they began, those of muted rules too.
    """

    alerts: tuple[Alert, ...] = ()

    def of_group(self, group_of: Callable[[Alert], str], name: str) -> History:
        """Those of one group of rules.

        Args:
            group_of: alert → group of its rule.
            name: of the group.
        """
        return History(tuple(one for one in self.alerts if group_of(one) == name))

    @property
    def muted(self) -> int:
        """How many count for nothing because their rule is muted."""
        return sum(one.is_muted for one in self.alerts)

    @property
    def worst(self) -> Alert | None:
        """The worst alert of this attempt; else that of an earlier attempt; None if there never was one."""
        return min((one for one in self.alerts if not one.is_muted), key=lambda one: one.rank, default=None)

    @property
    def level(self) -> Level:
        """The worst level of this attempt; OK if it never had a WARN or a CRIT."""
        return max((one.level for one in self.alerts if not one.is_earlier and not one.is_muted), default=Level.OK)


def history_of(events: Sequence[Event], muted: Collection[str] = ()) -> History:
    """Fold the event log into alerts.

    Args:
        events: in the order of the file.
        muted: ids of rules that count for nothing.
    """
    found: list[Alert] = []
    standing: dict[tuple[str, str], int] = {}
    for event in events:
        if event.rule == RESTART_RULE:
            found = [_left_behind(one, event) for one in found]
        if event.state is EventState.FACT:
            continue
        whose = (event.rule, event.stream)
        number = standing.get(whose)
        if event.state is EventState.RECOVERED:
            if number is not None:
                found[number] = replace(found[number], recovered_step=event.step)
                del standing[whose]
        elif number is None or event.state is EventState.FIRING:
            standing[whose] = len(found)
            since = event.step if event.since_step is None else event.since_step
            found.append(
                Alert(event.rule, event.family, event.level, since, event.step, stream=event.stream, part=event.part)
            )
        else:
            found[number] = _moved_on(found[number], event)
    alerts = (one for one in found if one.level >= Level.WARN)
    return History(
        tuple(replace(one, is_muted=True) if one.rule in muted or one.said_by in muted else one for one in alerts)
    )


def _left_behind(alert: Alert, restart: Event) -> Alert:
    """The alert after a restart: one that began on a step that is made anew belongs to an earlier attempt."""
    if alert.is_earlier or alert.stream != restart.stream or alert.since_step < restart.step:
        return alert
    return replace(alert, is_earlier=True)


def _moved_on(alert: Alert, event: Event) -> Alert:
    if event.level > alert.level:
        # What began as INFO is dated anew where it became an alert.
        is_new = alert.level < Level.WARN and event.since_step is not None
        since = event.since_step if is_new and event.since_step is not None else alert.since_step
        return replace(alert, level=event.level, step=event.step, since_step=since, part=event.part)
    if event.state is EventState.SETTLED:
        return replace(alert, settled_step=event.step)
    return alert
