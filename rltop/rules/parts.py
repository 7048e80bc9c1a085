"""One alert for a rule of several parts: what of their transitions is told, and which of them is shown.

Each part judges for itself (`alert_state`). What is told is the worst level at which any of them stands: a part that
begins no worse than another one stands is not told, nor is one that ends while another stands as bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rltop.model import Event, EventState, Level
from rltop.rules.alert_state import AlertState, sentence
from rltop.rules.context import RuleContext
from rltop.rules.registry import PARTS
from rltop.structs import Cloned

_NOTHING = (Level.OK, Level.OK)


class Told(Cloned):
    """The level that each rule with parts was last told to stand at, and the worst of this alert."""

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        self._levels: dict[str, tuple[Level, Level]] = {}

    def tell(
        self, event: Event, state: AlertState, others: Sequence[AlertState], context: RuleContext
    ) -> tuple[Event, AlertState] | None:
        """What the rule has to tell of a transition of a part, and of which part; None where it stands as before."""
        if event.state is EventState.FACT:
            return event, state
        before, worst = self._levels.get(event.rule, _NOTHING)
        own = state.level if state.is_firing else Level.OK
        beside = max((one.level for one in others), default=Level.OK)
        now = max(own, beside)
        if event.state is EventState.FIRING and not others:
            worst = now
        self._levels[event.rule] = (now, max(worst, now))
        if now > before and others:
            event = event._replace(state=EventState.ESCALATED if now > worst else EventState.RESUMED)
        elif not others:
            if now <= Level.OK:
                del self._levels[event.rule]
            if event.state is EventState.ESCALATED and now <= worst:
                event = event._replace(state=EventState.RESUMED)
        elif own < now:
            return _inherited(event, [one for one in others if one.level == now], context) if now < before else None
        elif now == before and beside == now and not (state.is_settled and _have_settled(others, now)):
            return None
        return event, state


def _inherited(event: Event, heirs: Sequence[AlertState], context: RuleContext) -> tuple[Event, AlertState]:
    """The worst part has eased or ended: the rule stands at the level of the others."""
    heir = shown(heirs)[0]
    eased = event._replace(part=heir.spec.part, family=heir.spec.family, level=heir.level, state=EventState.EASED)
    return eased._replace(message=sentence(heir, context), since_step=heir.since_step), heir


def shown(states: Iterable[AlertState]) -> list[AlertState]:
    """One of each rule: the worst that stands, of equals what still moves, then the oldest; else what ended last."""
    found: dict[str, AlertState] = {}
    for state in states:
        rule = state.spec.rule
        known = found.get(rule)
        if known is None or (rule in PARTS and _place(state) < _place(known)):
            found[rule] = state
    return list(found.values())


def _have_settled(others: Iterable[AlertState], level: Level) -> bool:
    return all(one.is_settled for one in others if one.level == level)


def _place(state: AlertState) -> tuple[bool, int, int, bool, int]:
    ended = 0 if state.is_firing else -state.recovered_record
    return not state.is_firing, ended, -state.level, state.is_settled, state.since_record
