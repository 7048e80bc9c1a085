"""No painted row is wider than the screen, whatever a file, a run or a person is called."""

from __future__ import annotations

import json

from examples import examples
from fake_run import FakeRun, a_verdict, run_of
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from painted import check_rows, is_harmless

from rltop.model import Label, RunState, Verdict
from rltop.pages.metric import MetricPage
from rltop.pages.metrics import MetricsPage
from rltop.pages.overview import build_overview, paint_overview
from rltop.pages.page import Moment
from rltop.pages.timing import TimingPage
from rltop.pages.verdict import VerdictPage
from rltop.report.document import check_document, dumps
from rltop.report.overview_document import once_document
from rltop.report.text import check_text, once_text
from rltop.rows.glyphs import ASCII, UNICODE, Glyphs
from rltop.run.snapshot import Snapshot

TEXT = st.text(max_size=30) | st.sampled_from(
    [
        "\x1b[2J",
        "\x1b]0;x\x07",
        "a\nb",
        "\u202egnp.exe",
        "長" * 30,
        "e\u0301" * 9,
        "👩‍👩‍👧",
        "❤\ufe0f",
        "\t",
        "🇩🇪",
        "\x00",
        "%s{}",
    ]
)
CELL = st.floats() | st.integers(-(10**18), 10**18) | st.none() | st.text(max_size=5) | st.booleans()
PREFIX = st.sampled_from(["", "actor/", "timing_s/", "critic/score/", "val-core/", "response_length/"])
KNOWN = st.sampled_from(["actor/grad_norm", "timing_s/step", "timing_s/gen", "critic/score/mean", "actor/kl_loss"])
KEY = st.builds(str.__add__, PREFIX, TEXT) | KNOWN


@st.composite
def hostile_runs(draw: st.DrawFn) -> FakeRun:
    keys = draw(st.lists(KEY, min_size=1, max_size=6, unique=True))
    lines = []
    for step in range(draw(st.integers(0, 14))):
        data = {"loss": 1.0, **{key: draw(CELL) for key in keys}}
        lines.append(json.dumps({"step": step, "data": data}).encode("utf-8", "surrogatepass"))
    run = run_of(b"\n".join(lines) + b"\n", draw(TEXT))
    run.state = draw(st.sampled_from(RunState))
    run.state_note = Label.of(draw(TEXT)).display
    run.verdicts = [_hostile_verdict(draw(TEXT), draw(KEY))] if draw(st.booleans()) else []
    run.loading = draw(st.none() | st.floats(0, 1))
    run.left_s = draw(st.none() | st.floats(0))
    run.age_s = draw(st.none() | st.floats(0, 1e9))
    run.group_size = draw(st.none() | st.integers(1, 64))
    return run


def _hostile_verdict(text: str, key: str) -> Verdict:
    return a_verdict(title=text, headline=text * 5, key=key, since_step=3, since_record=3)


@given(hostile_runs(), st.integers(1, 130), st.integers(1, 50), st.sampled_from([UNICODE, ASCII]))
@examples(30, suppress_health_check=[HealthCheck.too_slow])
def test_no_row_exceeds_the_screen(run: FakeRun, width: int, height: int, glyphs: Glyphs) -> None:
    at = run.stream.last_step if run.age_s is None else None
    rows = paint_overview(build_overview(Snapshot(run, at), width=width, height=height), width, height, glyphs)
    assert len(rows) == height
    check_rows(rows, width, glyphs)
    metrics = [MetricPage(key) for key in (*run.stream.keys[:2], "no such key")]
    for page in (TimingPage(), VerdictPage("O11"), MetricsPage(), *metrics):
        check_rows(page.paint(Moment(Snapshot(run, at), glyphs), width, height), width, glyphs)


def test_the_largest_numbers_have_a_page() -> None:
    for sign in (1, -1):
        rows = [json.dumps({"step": step, "data": {"x": 1.7e308 * sign**step}}) for step in range(200)]
        run = run_of("\n".join(rows).encode() + b"\n")
        check_rows(MetricPage("x").paint(Moment(Snapshot(run), UNICODE), 100, 40), 100)
        assert "1.70e+308" in once_text(Snapshot(run), 80)


@given(hostile_runs())
@examples(20, suppress_health_check=[HealthCheck.too_slow])
def test_reports_of_hostile_runs_are_clean(run: FakeRun) -> None:
    for use_color in (False, True):
        text = once_text(Snapshot(run), 80, use_color=use_color) + check_text(Snapshot(run), use_color=use_color)
        assert is_harmless(text.replace("\n", "").replace("\x1b", ""))
        assert use_color or "\x1b" not in text
    assert json.loads(dumps(check_document(Snapshot(run))))["records"] == run.stream.rows
    assert set(json.loads(dumps(once_document(Snapshot(run))))["counts"]) >= set(run.counts.names())
