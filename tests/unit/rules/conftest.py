"""What the tests of rules watch while a run is judged."""

from __future__ import annotations

import pytest

from rltop.model import Event, EventState
from rltop.rules.alert_state import AlertState
from rltop.rules.context import RuleContext
from rltop.rules.rule import Finding
from rltop.rules.standing import is_absolute


@pytest.fixture
def not_beyond(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Findings that raise an alert although their value is not beyond their threshold."""
    found: list[str] = []
    advance = AlertState.advance

    def watched(state: AlertState, context: RuleContext, seen: Finding) -> Event | None:
        event, finding = advance(state, context, seen), state.finding
        if event is None or event.state not in {EventState.FIRING, EventState.ESCALATED}:
            return event
        value, base, line = finding.value, finding.baseline, finding.threshold
        if state.spec.measures or state.spec.evidence.threshold not in {"", "threshold"}:
            # A count that is reached, or the value at which it would end.
            return event
        if line is not None and value == line:
            found.append(f"{event.raised_by}: {value} is its threshold: {event.message}")
        elif None in {line, base} or is_absolute(state.detector, finding):
            return event
        elif (line - base) * (value - line) < 0.0:
            found.append(f"{event.raised_by}: {value} does not pass {line} from {base}: {event.message}")
        return event

    monkeypatch.setattr(AlertState, "advance", watched)
    return found
