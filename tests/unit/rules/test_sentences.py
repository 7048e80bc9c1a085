"""No sentence says what its numbers deny, whichever rule says it.

Over the cases, the glossaries, fixtures and recorded runs, two checks: of the words
(`sentences.denied`), and of the finding behind them, whose value
must lie beyond the threshold that it names, seen from the baseline that it is compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pytest
from courses import RECORDS
from fake_run import run_of
from glossary_warnings import cases as warnings_of_glossaries
from glossary_warnings import text_of
from observations import play
from recorded import RecordedRun, each_jsonl_run
from rule_cases import cases, values
from sentences import denied

from rltop.model import Algorithm, Event, EventState, Level, Verdict
from rltop.resources import folder
from rltop.rules import alert_state
from rltop.rules.alert_state import AlertState
from rltop.rules.baseline import is_absolute
from rltop.rules.registry import NAMED
from rltop.rules.rule import Finding

BELOW = {"M4", "M6b"}
LATE = 10**9
FIXTURES = sorted((folder("fixtures")).rglob("metrics.jsonl"))
GLOSSARIES = [(f"{one.page}:{one.line} {one.says}", one) for one in warnings_of_glossaries(1)]


@pytest.fixture
def not_beyond(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Findings that raise an alert although their value is not beyond their threshold."""
    found: list[str] = []
    raise_alert = AlertState._raise

    def watched(state: AlertState, context, how: EventState, finding: Finding, level: Level) -> Event:
        value, base, line = finding.value, finding.baseline, finding.threshold
        event = raise_alert(state, context, how, finding, level)
        if state.spec.measures or state.spec.evidence.threshold not in {"", "threshold"}:
            # A count that is reached, or the value at which it would end.
            return event
        if line is not None and value == line:
            found.append(f"{event.said_by}: {value} is its threshold: {event.message}")
        elif None in {line, base} or is_absolute(state.detector, finding):
            return event
        elif (line - base) * (value - line) < 0.0:
            found.append(f"{event.said_by}: {value} does not pass {line} from {base}: {event.message}")
        return event

    monkeypatch.setattr(alert_state.AlertState, "_raise", watched)
    return found


def lies(events: Iterable[Event], verdicts: Iterable[Verdict]) -> Iterator[str]:
    """What sentences of a run deny."""
    for event in events:
        below = event.said_by in BELOW
        for denial in denied(event.message, step=event.step, records=event.record, is_below=below):
            yield f"{event.said_by} at step {event.step}: {denial} in {event.message!r}"
    for verdict in verdicts:
        for denial in denied(verdict.headline, step=LATE, records=LATE, is_below=verdict.said_by in BELOW):
            yield f"{verdict.said_by} at the end: {denial} in {verdict.headline!r}"


@pytest.mark.parametrize(("rule", "level", "healthy", "change", "algorithm"), cases())
def test_of_a_case(
    rule: str, level: str, healthy: Mapping[str, str], change: Mapping[str, str], algorithm: str, not_beyond: list[str]
) -> None:
    engine = play(RECORDS, Algorithm(algorithm), **values(healthy, change))
    assert [*lies(engine.events, engine.verdicts), *not_beyond] == []


@pytest.mark.parametrize("case", [one for _, one in GLOSSARIES], ids=[name for name, _ in GLOSSARIES])
def test_of_what_a_glossary_warns_of(case, not_beyond: list[str]) -> None:
    run = run_of(text_of(case).encode())
    assert [*lies(run.events, run.verdicts), *not_beyond] == []


@pytest.mark.parametrize("path", FIXTURES, ids=[str(path.relative_to(folder("fixtures")).parent) for path in FIXTURES])
def test_of_a_fixture(path, not_beyond: list[str]) -> None:
    run = run_of(path.read_bytes())
    assert [*lies(run.events, run.verdicts), *not_beyond] == []


@each_jsonl_run()
def test_of_a_recorded_run(run: RecordedRun, not_beyond: list[str]) -> None:
    played = run_of(run.metrics.read_bytes())
    assert [*lies(played.events, played.verdicts), *not_beyond] == []


@pytest.mark.parametrize(
    ("text", "is_denied"),
    [
        ("truncated 4.2 % (threshold 5.0 %)", True),
        ("truncated 5.2 % (threshold 5.0 %)", False),
        ("mean advantage −0.33, expected near 0 (threshold 0.3)", False),
        ("importance ratio 0.05, expected near 1 (threshold 0.1)", False),
        ("weight sync 20.0 s (baseline 20.0 s): 30 % of step time", True),
        ("reward 0.5 → 0.5 (vs best 10-record average)", True),
        ("training reward rose 0.9 → 0.4", True),
        ("not learning for 934 records: no gradient", True),
        ("not learning for 20 records: no gradient", False),
        ("12 of the last 10 records", True),
        ("120 % of completions truncated", True),
        ("entropy crash, since step 900", True),
    ],
)
def test_what_numbers_deny_is_seen(text: str, is_denied: bool) -> None:
    assert bool(list(denied(text, step=100, records=100))) is is_denied


def test_every_rule_that_quotes_a_threshold_below_its_value_is_known() -> None:
    assert NAMED.keys() >= BELOW
