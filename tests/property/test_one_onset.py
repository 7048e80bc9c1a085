"""Every sentence about an incident names one onset, whatever began when, and on every recorded run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from observations import identity as identity_of
from observations import learning, series, step_up
from recorded import RecordedRun, each_jsonl_run, whole

from rltop.model import Verdict
from rltop.pages.alerts import build_banner, movers_of
from rltop.pages.overview import build_overview
from rltop.pages.verdict import build_verdict, paint_verdict
from rltop.report.document import incidents
from rltop.report.markdown import markdown
from rltop.report.run_report import Provenance, build_report
from rltop.rows.glyphs import UNICODE
from rltop.rules.collapse import story
from rltop.rules.engine import Engine
from rltop.rules.options import EngineOptions
from rltop.run.snapshot import Snapshot

_MADE = Provenance("rltop report", "1", "2026-01-02 03:04 UTC")
_BEGAN = re.compile(r"began with: (?P<title>.+?) at (?P<step>[\d,]+)")
_COLLAPSE = re.compile(r"policy collapse began at step (?P<step>[\d,]+)")


def steps_of(pattern: re.Pattern[str], text: str) -> set[int]:
    return {int(found["step"].replace(",", "")) for found in pattern.finditer(text)}


def assert_one_onset(verdicts: Iterable[Verdict]) -> None:
    begun: dict[int, tuple[str, int]] = {}
    for one in verdicts:
        if one.incident is None:
            continue
        place = begun.setdefault(one.incident.number, (one.incident.rule, one.incident.step))
        assert place == (one.incident.rule, one.incident.step)
        assert one.since_step >= one.incident.step
        told = story(one)
        if told is not None:
            assert steps_of(_COLLAPSE, one.headline) == {told.onset_step} == {one.since_step} == {one.incident.step}
            assert told.last_good_step is None or told.last_good_step < one.incident.step
            banner = build_banner([one])
            assert banner is None or banner.story.onset_step == one.incident.step <= min(
                (step for _, step in movers_of(banner.story)), default=one.incident.step
            )


_ONSETS = st.integers(70, 110)


@examples(12)
@given(_ONSETS, _ONSETS, _ONSETS, _ONSETS, _ONSETS)
def test_made_incidents_have_one_onset(reward: int, entropy: int, gradient: int, length: int, gap: int) -> None:
    engine = Engine(identity_of(), EngineOptions())
    metrics = {
        "reward_mean": lambda record: learning(record) if record < reward else 0.01,
        "entropy": step_up(0.5, 0.02, entropy), "grad_norm": step_up(0.5, 60.0, gradient),
        "truncated_frac": step_up(0.02, 0.95, length), "rollout_prob_diff_mean": step_up(0.003, 0.08, gap),
        "time_step": step_up(30.0, 90.0, length),
    }  # fmt: skip
    for one in series(130, **metrics):
        engine.observe(one)
        assert_one_onset(engine.verdicts)


@each_jsonl_run(every=2)
def test_each_recorded_run_has_one_onset_an_incident(run: RecordedRun) -> None:
    snapshot = Snapshot(whole(run.metrics))
    verdicts = snapshot.standing
    assert_one_onset(verdicts)
    begun = {one.incident.step for one in verdicts if one.incident is not None}
    texts = [build_overview(snapshot).sentence.text.raw, markdown([build_report(snapshot, has_charts=False)], _MADE)]
    for one in verdicts:
        view = build_verdict(snapshot, one.rule)
        rows = paint_verdict(view, 200, UNICODE)
        text = "\n".join(row.text for row in rows)
        assert steps_of(_BEGAN, text) <= ({one.incident.step} if one.incident is not None else set())
        texts.append(text)
    for text in texts:
        assert steps_of(_BEGAN, text) | steps_of(_COLLAPSE, text) <= begun
    assert {one["since_step"] for one in json.loads(json.dumps(incidents(verdicts)))} <= begun
