"""The drill-down pages: one metric, step timing, one verdict."""

from __future__ import annotations

import json
import math
import re
import statistics
from copy import copy
from functools import cache

import pytest
from fake_run import FakeRun, a_verdict, run_of, verl_lines, verl_rows
from hypothesis import given
from hypothesis import strategies as st
from painted import check_rows, text_of
from screens import RECORDED, session_over
from tables import each_row

from rltop.model import Action, Advice, Event, EventState, Evidence, Incident, Level, Unit, VerdictState
from rltop.pages.alerts import build_badges
from rltop.pages.chart import Zoom, build_plot
from rltop.pages.metric import MetricPage, build_metric, paint_metric_details
from rltop.pages.overview import build_overview, paint_overview
from rltop.pages.page import Moment
from rltop.pages.run_entry import read_entry
from rltop.pages.signals import beginning_of, read_signal, signal_of
from rltop.pages.stages import BESIDE
from rltop.pages.timing import build_timing_page, paint_timing
from rltop.pages.verdict import build_verdict, paint_verdict, raised_when
from rltop.rows.glyphs import UNICODE
from rltop.rows.rows import TargetKind
from rltop.rules.registry import DOCUMENTED, NAMED
from rltop.run.snapshot import Snapshot

# -- one metric -------------------------------------------------------------------------------------------------------


def test_statistics_are_those_of_every_row(run: FakeRun) -> None:
    values = [data["actor/entropy"] for _, data in verl_rows(is_ill=True)]
    view = build_metric(Snapshot(run), "actor/entropy")
    table = {one.name: one for one in view.statistics}
    assert table["min"].value == f"{min(values):.3f}"
    assert table["max"].value == f"{max(values):.3f}"
    assert table["mean"].value == f"{sum(values) / len(values):.3f}"
    assert table["mean"].remark == "of 1,204 values"
    recent = sorted(values[-50:])
    assert table["median"].value == f"{(recent[24] + recent[25]) / 2:.3f}"
    assert table["baseline"].value == f"{statistics.median(values[3:33]):.3f}"
    assert table["last"].remark == "step 1,204"
    assert table["NaN/Inf"].value == "0"


def test_a_metric_says_where_it_was_not_finite() -> None:
    rows = verl_rows(60)
    for step in (10, 40):
        rows[step - 1][1]["actor/grad_norm"] = None
    view = build_metric(Snapshot(run_of(verl_lines(rows))), "actor/grad_norm")
    (entry,) = [one for one in view.statistics if one.name == "NaN/Inf"]
    assert (entry.value, entry.remark, entry.role) == ("2", "at null 10, null 40", "crit")
    assert [mark.step for mark in view.plot.marks if mark.role == "spark-mark"] == [10, 40]


def test_a_metric_says_what_it_means_and_links_its_relatives(run: FakeRun) -> None:
    view = build_metric(Snapshot(run), "actor/kl_loss")
    rows = MetricPage("actor/kl_loss").rows(Moment(Snapshot(run), UNICODE), 120, 40)
    assert "reference" in text_of(rows)
    targets = [hot.target for row in rows for hot in row.links]
    related = {target.name for target in targets if target.kind is TargetKind.METRIC}
    assert related == {reading.signal.key for reading in view.related}
    assert "critic/score/mean" in related
    assert any(target.kind is TargetKind.VERDICT and target.name == "O11" for target in targets)


def test_hot_ranges_stay_in_their_column(run: FakeRun) -> None:
    rows = paint_metric_details(build_metric(Snapshot(run), "actor/kl_loss"), 120, UNICODE)
    hot = [one for row in rows for one in row.links]
    assert hot
    assert all(one.start >= 40 and one.stop <= 120 for one in hot)


def test_an_unknown_key_has_a_page_too(run: FakeRun) -> None:
    text = text_of(MetricPage("no/such/key").rows(Moment(Snapshot(run), UNICODE), 80, 24))
    assert "Not in the catalogue" in text
    assert "—" in text


def test_the_cursor_limits_the_numbers(run: FakeRun) -> None:
    values = [data["actor/kl_loss"] for _, data in verl_rows(is_ill=True)]
    view = build_metric(Snapshot(run, 600), "actor/kl_loss")
    table = {one.name: one for one in view.statistics}
    assert table["last"].value == f"{values[599]:.3g}"
    assert table["max"].value == f"{max(values[:600]):.3g}"
    assert any(mark.role == "cursor" for mark in view.plot.marks)


def test_a_step_before_the_first_one_has_no_numbers_and_ends_nothing(run: FakeRun) -> None:
    view = build_metric(Snapshot(run, -1), "critic/score/mean")
    assert [one.name for one in view.statistics if one.name in ("min", "max", "mean")] == []
    assert MetricPage("critic/score/mean").rows(Moment(Snapshot(run, -1), UNICODE), 120, 40)


def test_a_chart_gets_at_most_two_points_a_column_and_keeps_every_extreme(run: FakeRun) -> None:
    values = [data["actor/grad_norm"] for _, data in verl_rows(is_ill=True)]
    plot = build_metric(Snapshot(run), "actor/grad_norm", columns=100).plot
    assert len(plot.raw.steps) <= 200
    assert max(plot.raw.values) == max(values)
    assert min(plot.raw.values) == min(values)
    assert list(plot.raw.steps) == sorted(plot.raw.steps)
    assert all(math.isfinite(value) for value in (*plot.raw.values, *plot.smooth.values))


def test_a_zoomed_chart_shows_every_record_of_its_stretch(run: FakeRun) -> None:
    values = [data["actor/grad_norm"] for _, data in verl_rows(is_ill=True)]
    plot = build_metric(Snapshot(run), "actor/grad_norm", columns=100, zoom=Zoom(101, 150)).plot
    assert plot.raw.steps == tuple(range(101, 151))
    assert plot.raw.values == tuple(values[100:150])


def test_smoothing_is_a_mean_over_records(run: FakeRun) -> None:
    signal = signal_of(Snapshot(run), "actor/grad_norm")
    reading = read_signal(Snapshot(run), signal, 2)
    smooth = build_plot(Snapshot(run), reading, columns=2000, smoothing=0.5).smooth.values
    values = [data["actor/grad_norm"] for _, data in verl_rows(is_ill=True)]
    assert smooth[0] == pytest.approx(values[0])
    assert smooth[1] == pytest.approx((0.5 * values[0] + values[1]) / 1.5)


def test_a_window_shows_the_average_that_the_whole_run_has_there(run: FakeRun) -> None:
    reading = read_signal(Snapshot(run), signal_of(Snapshot(run), "actor/grad_norm"), 2)
    whole, part = (
        build_plot(Snapshot(run), reading, columns=2000, zoom=zoom).smooth for zoom in (None, Zoom(101, 150))
    )
    values = dict(zip(whole.steps, whole.values, strict=True))
    assert part.steps == tuple(range(101, 151))
    assert part.values == pytest.approx([values[step] for step in part.steps], rel=0.05)


def test_thresholds_baselines_and_restarts_are_lines_of_the_chart(run: FakeRun) -> None:
    plot = build_metric(Snapshot(run), "actor/kl_loss").plot
    start = beginning_of(Snapshot(run), signal_of(Snapshot(run), "actor/kl_loss")).baseline
    assert {level.role: level.value for level in plot.levels} == {"threshold": 0.2, "baseline": start}
    assert [(mark.step, mark.role) for mark in plot.marks] == [(1187, "warn")]
    again = run_of(verl_lines([*verl_rows(60), *verl_rows(80, seed=3, from_step=41)]))
    assert (41, "restart") in [
        (mark.step, mark.role) for mark in build_metric(Snapshot(again), "actor/entropy").plot.marks
    ]


def test_a_logarithmic_chart_needs_a_value_above_zero() -> None:
    run = run_of(verl_lines([(step, {"loss": -1.0, "up": float(step)}) for step in range(40)]))
    assert not build_metric(Snapshot(run), "loss", is_log=True).plot.is_log
    assert build_metric(Snapshot(run), "up", is_log=True).plot.is_log


@given(st.integers(0, 500), st.integers(1, 500), st.floats(0.1, 4), st.floats(-2, 2))
def test_zooming_stays_inside_the_run(first: int, length: int, factor: float, share: float) -> None:
    whole = Zoom(0, 999)
    zoom = Zoom(first, first + length - 1)
    for moved in (zoom.scaled(factor, whole), zoom.moved(share, whole), zoom.scaled(factor, whole, first)):
        assert whole.first <= moved.first <= moved.last <= whole.last
    assert zoom.scaled(1000, whole) == whole


# -- step timing ------------------------------------------------------------------------------------------------------


def test_stages_add_up_to_the_step(run: FakeRun) -> None:
    view = build_timing_page(Snapshot(run))
    stacked = sum(stage.duration_s for stage in view.timing.top)
    assert stacked == pytest.approx(view.timing.total_s, rel=0.01)


def test_the_page_names_the_stage_behind_a_slow_down(run: FakeRun) -> None:
    text = text_of(paint_timing(build_timing_page(Snapshot(run)), 120, 38, UNICODE)).replace("\n", " ")
    assert ", gen +27.4 s;" in text
    assert "mostly gen" in text


def test_what_explains_little_of_a_slow_down_is_not_named_and_a_short_step_is_not_close_to_the_median() -> None:
    rows = [
        (step, {"timing_s/step": 100.0 + 0.5 * step, "timing_s/gen": 60.0, "timing_s/adv": 0.1 + 0.01 * step})
        for step in range(1, 91)
    ]
    rows.append((91, {"timing_s/step": 40.0, "timing_s/gen": 30.0, "timing_s/adv": 1.0}))
    text = text_of(paint_timing(build_timing_page(Snapshot(run_of(verl_lines(rows)))), 120, 38, UNICODE))
    assert "mostly other" in text
    assert "this step −82.5 s vs median 122 s" in text


def test_a_step_that_a_rare_stage_made_long_is_explained_by_that_stage() -> None:
    rows = [(step, {"timing_s/step": 10.0, "timing_s/gen": 9.0, "timing_s/adv": 0.5}) for step in range(1, 51)]
    rows[-1][1].update({"timing_s/step": 415.0, "timing_s/gen": 12.0, "timing_s/testing": 400.0})
    text = text_of(paint_timing(build_timing_page(Snapshot(run_of(verl_lines(rows)))), 120, 38, UNICODE))
    assert "this step +405 s vs median 10.0 s, testing 400 s" in text


def test_a_run_that_is_as_fast_as_at_first_is_not_called_steady_if_it_was_slower_between() -> None:
    times = [10.0] * 20 + [20.0] * 40 + [10.0] * 20
    rows = [(step, {"timing_s/step": took_s, "timing_s/gen": 9.0}) for step, took_s in enumerate(times, 1)]
    said = build_timing_page(Snapshot(run_of(verl_lines(rows)))).explanation.raw
    assert "steady" not in said and "take as long as around step 1, those between 20.0 s (median)" in said


def test_a_steady_run_is_said_to_be_steady() -> None:
    rows = verl_rows(90)
    for _, data in rows:
        data.pop("timing_s/save_checkpoint", None)
    text = text_of(paint_timing(build_timing_page(Snapshot(run_of(verl_lines(rows)))), 120, 38, UNICODE))
    assert "steady since step 1" in text


def test_the_table_has_last_median_and_percentile(run: FakeRun) -> None:
    view = build_timing_page(Snapshot(run))
    gen = next(one for one in view.table if one.name.raw == "gen")
    values = sorted(data["timing_s/gen"] for _, data in verl_rows(is_ill=True)[-200:])
    assert gen.median_s == pytest.approx((values[99] + values[100]) / 2)
    assert gen.p95_s == values[189]
    assert gen.last_s == verl_rows(is_ill=True)[-1][1]["timing_s/gen"]
    assert gen.trend is not None
    assert gen.trend > 0.4
    saves = next(one for one in view.table if one.name.raw == "save_checkpoint")
    assert saves.runs == 2
    assert math.isnan(saves.last_s)


def test_any_past_step_has_its_page(run: FakeRun) -> None:
    view = build_timing_page(Snapshot(run, 1100))
    assert (view.timing.step, view.timing.is_older) == (1100, False)
    text = text_of(paint_timing(view, 120, 38, UNICODE))
    assert "save_checkpoint" in text
    assert "STEP 1,100" in text


def test_a_run_without_timing_says_so() -> None:
    def text(data: bytes) -> str:
        return " ".join(text_of(paint_timing(build_timing_page(Snapshot(run_of(data))), 80, 24, UNICODE)).split())

    timeless = verl_lines((step, {"loss": 1.0}) for step in range(40))
    assert "this run logs no durations: log the seconds of each step as step_time" in text(timeless)
    timed = [json.dumps({"step": step, "time": 1.7e9 + 0.35 * step, "loss": 1.0}) + "\n" for step in range(40)]
    known = "this run logs no durations (by the times of its rows a step takes 350 ms): log the seconds"
    assert known in text("".join(timed).encode())
    assert "not enough records" in text(b"")
    tune = "ray/tune/"  # what Tune writes for TensorBoard
    rows = [
        {
            "step": 1000 * n,
            f"{tune}episode_reward_mean": n,
            f"{tune}time_this_iter_s": 56.0,
            f"{tune}training_iteration": n,
        }
        for n in range(1, 40)
    ]
    assert "STEP 39,000 56.0 s logged" in text("".join(json.dumps(row) + "\n" for row in rows).encode())


def test_a_step_without_stages_is_one_row_and_no_culprit() -> None:
    logged = {"reward": 0.5, "kl": 0.01, "completions/mean_length": 40.0, "frac_reward_zero_std": 0.1}
    rows = [{"step": step, **logged, "step_time": 2.0 if step > 60 else 1.0} for step in range(1, 81)]
    run = run_of(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    view = build_timing_page(Snapshot(run))
    assert [one.name.raw for one in view.table] == ["step"]
    said = view.explanation.raw
    assert "no stages logged" in said and "most of it in" not in said and "step alone" not in said
    assert "2.00× as long as" in said


def test_a_stage_that_is_longer_than_the_step_is_no_percentage_of_it() -> None:
    timings = {"timing_s/gen": 98.24, "timing_s/update_actor": 0.3, "timing_s/step": 1.0}
    run = run_of(verl_lines([(step, {"critic/score/mean": 0.5, **timings}) for step in range(1, 60)]))
    view = build_timing_page(Snapshot(run))
    assert "gen took 98.2 s, longer than the whole step (1.00 s)" in view.explanation.raw
    for width in (40, 56, 64, 80, 120, 200):
        for rows in (
            paint_timing(view, width, 24, UNICODE),
            paint_overview(build_overview(Snapshot(run)), width, 24, UNICODE),
        ):
            text = text_of(rows)
            assert "9,824" not in text and ">10×" in text
    assert "overlap" in text_of(paint_timing(view, 64, 24, UNICODE))


@each_row("width", range(40, 101, 4))
def test_the_table_of_stages_has_whole_columns(run: FakeRun, width: int) -> None:
    text = text_of(paint_timing(build_timing_page(Snapshot(run)), width, None, UNICODE))
    table = text[text.index("─\n") + 2 :].splitlines()
    assert "trend" in table[0]
    # The name may be cut where it is longer than its column.
    assert not [line for line in table if "…" in line[12 if width < 44 else 16 :]]


# -- one verdict ------------------------------------------------------------------------------------------------------


def test_conditions_are_whole_however_narrow_the_page_is(run: FakeRun) -> None:
    view = build_verdict(Snapshot(run), "O11")
    text = " ".join(text_of(paint_verdict(view, 44, UNICODE)).split())
    assert view.condition and all(one in text for one in view.condition)


def test_the_verdict_page_tells_everything_that_the_rule_says(run: FakeRun) -> None:
    rows = paint_verdict(build_verdict(Snapshot(run), "O11"), 120, UNICODE)
    text = text_of(rows)
    for part in (
        "▲ WARN",
        "rule O11 · since 1,187 · 18 records",
        "9.8× its value",
        "KL 0.550 nats",
        "usually generates garbage",
        "1  learning rate too high",
        "3  no KL term",
        "not logged by this run",
    ):
        assert part in text, part
    links = [hot.target.name for row in rows for hot in row.links if hot.target.kind is TargetKind.METRIC]
    assert links[:4] == ["actor/kl_loss", "actor/kl_loss", "actor/lr", "actor/grad_norm"]
    assert "response_length/mean" in links
    assert links.count("actor/kl_loss") == 2


def test_what_moved_before_the_onset_is_said(run: FakeRun) -> None:
    chain = build_verdict(Snapshot(run), "O11").chain
    records = {link.title: link.records for link in chain.links}
    assert records["learning rate"] is None
    assert records["gradient norm"] is None
    assert records["response length"] is not None
    assert records["response length"] < 0


def test_a_recovered_verdict_says_when(run: FakeRun) -> None:
    over = a_verdict(state=VerdictState.RECOVERED, recovered_step=1200)
    text = text_of(
        paint_verdict(build_verdict(Snapshot(FakeRun(**{**vars(run), "verdicts": [over]})), "O11"), 120, UNICODE)
    )
    assert "RECOVERED" in text
    assert "recovered 1,200" in text


def test_a_rule_that_does_not_stand_says_so(run: FakeRun) -> None:
    text = text_of(paint_verdict(build_verdict(Snapshot(run, 1100), "O11"), 80, UNICODE))
    assert "no alert from this rule at this step" in text
    assert "1,187" not in text


def test_a_past_verdict_is_the_one_of_the_time(run: FakeRun) -> None:
    view = build_verdict(Snapshot(run, 1170), "T2")
    assert (view.verdict.level, view.verdict.since_step) == (Level.WARN, 1165)
    assert view.verdict.headline == "answers are 1.6× as long as at the start, as of step 1,165"
    begun = build_verdict(Snapshot(run, 1165), "T2").verdict
    assert begun is not None and begun.headline == "answers are 1.6× as long as at the start"


@pytest.mark.parametrize("width", [56, 80, 100])
def test_stages_whose_names_begin_alike_are_told_apart(width: int) -> None:
    session = session_over(RECORDED)
    session.drain()
    rows = paint_timing(build_timing_page(Snapshot(session.runs[0])), width, 40, UNICODE)
    names = [line.split("  ")[2] for line in text_of(rows).splitlines() if BESIDE in line]
    assert len(names) == len(set(names)) == 6, names


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_pages_keep_to_their_size(run: FakeRun, width: int) -> None:
    timing = paint_timing(build_timing_page(Snapshot(run)), width, 20, UNICODE)
    assert len(timing) == 20
    for rows in (timing, paint_verdict(build_verdict(Snapshot(run), "O11"), width, UNICODE)):
        check_rows(rows, width)


def test_a_rule_that_the_settings_mute_is_no_rule_that_is_well(run: FakeRun) -> None:
    plain = build_badges(Snapshot(run), run.verdicts)[0]
    muted = build_badges(Snapshot(FakeRun(**{**vars(run), "silenced": frozenset({"L1"})})), run.verdicts)[0]
    assert (muted.quiet, muted.muted) == (plain.quiet - 1, 1)


def test_a_past_step_knows_nothing_of_what_stood_there_before_a_restart() -> None:
    run = run_of(verl_lines(verl_rows(120)))
    run.events = [
        Event(50, 50, "E1", "entropy", Level.WARN, EventState.FIRING, "entropy fell", since_step=48),
        Event(80, 80, "E1", "entropy", Level.WARN, EventState.RECOVERED, "entropy crash, since step 48"),
        Event(90, 10, "L6", "liveness", Level.INFO, EventState.FACT, "restarted at step 10 (was at 89)"),
        Event(100, 20, "O1", "gradient", Level.WARN, EventState.FIRING, "gradient norm 9", since_step=20),
    ]
    assert [verdict.rule for verdict in Snapshot(run, 60).standing] == ["O1"]
    assert [verdict.rule for verdict in Snapshot(run, 9).standing] == []


@cache
def _of_300_steps() -> FakeRun:
    return run_of(verl_lines(verl_rows(300)))


def _once_ill(*, is_redone: bool = False) -> FakeRun:
    run = copy(_of_300_steps())
    run.verdicts, run.warm_up = (), None
    run.events = [
        Event(126, 126, "X1", "collapse", Level.CRIT, EventState.FIRING, "collapse", since_step=122),
        Event(146, 146, "X1", "collapse", Level.CRIT, EventState.RECOVERED, "collapse, since step 122", since_step=122),
    ]
    if is_redone:
        message = "restarted at step 100 (was at 146)"
        run.events.append(Event(147, 100, "L6", "schedule", Level.INFO, EventState.FACT, message))
    return run


def test_the_headline_does_not_forget_the_worst() -> None:
    view = build_overview(Snapshot(_once_ill()))
    assert view.sentence.text.raw.startswith("no alerts now · earlier: COLLAPSE, steps 122–146, over")
    assert (view.sentence.target.name, view.sentence.target.step) == ("X1", 126)
    badges = text_of(paint_overview(view, 120, 40, UNICODE)[:5])
    assert "◇ COLLAPSE @122–146" in badges
    # Before it began, nobody knows of it.
    assert "worst" not in build_overview(Snapshot(_once_ill(), 110)).sentence.text.raw


def test_an_alert_that_is_acknowledged_and_stands_is_not_over() -> None:
    run = _once_ill()
    run.events[1] = run.events[1]._replace(state=EventState.SETTLED)
    assert build_overview(Snapshot(run)).sentence.text.raw.startswith("no alerts now · earlier: COLLAPSE at 122")
    run.set_aside = (a_verdict("X1", Level.CRIT),)
    assert build_overview(Snapshot(run)).sentence.text.raw.startswith("no other alerts · stands: COLLAPSE at 122")
    run.events = run.events[:1]
    assert build_overview(Snapshot(run)).sentence.text.raw.startswith("no other alerts; ")


def test_an_attempt_that_was_left_behind_is_no_alarm() -> None:
    view = build_overview(Snapshot(_once_ill(is_redone=True)))
    assert "earlier attempt: COLLAPSE at 122" in view.sentence.text.raw
    roles = {piece.role for row in paint_overview(view, 120, 40, UNICODE)[1:4] for piece in row.line}
    assert not {"crit", "warn"} & roles


def test_a_worse_past_stands_behind_a_milder_present() -> None:
    run = _once_ill()
    run.verdicts = (a_verdict("O1", Level.WARN),)
    assert build_overview(Snapshot(run)).sentence.text.raw.endswith("earlier: COLLAPSE, steps 122–146, over")
    run.muted = frozenset({"X1"})
    assert "COLLAPSE" not in build_overview(Snapshot(run)).sentence.text.raw


def test_a_metric_has_the_baseline_of_its_alert_also_when_that_is_acknowledged() -> None:
    level = lambda step: 0.43 if step < 152 else 0.25 if step < 160 else 0.02  # noqa: E731
    rows = [(step, {"actor/entropy": level(step) * (1 + step % 7 / 100)}) for step in range(1, 201)]
    run = run_of(verl_lines([(step, {**row, "critic/score/mean": 0.5 + step % 5 / 100}) for step, row in rows]))
    (base,) = [one for verdict in run.verdicts for one in verdict.evidence if one.name == "median before"]
    entropy = signal_of(Snapshot(run), "actor/entropy")
    beginning = beginning_of(Snapshot(run), entropy)
    assert (beginning.baseline, beginning.steps) == (base.value, base.steps)
    run.set_aside, run.verdicts = run.verdicts, ()
    assert beginning_of(Snapshot(run), entropy) == beginning


def test_a_baseline_is_that_of_the_segment_and_of_what_was_known_at_the_step() -> None:
    lines = [json.dumps({"step": step, "loss": 1.0 + step / 100, "reward": 1.0}) for step in range(1, 61)]
    lines += [json.dumps({"step": step, "loss": 9.0, "reward": 1.0}) for step in range(40, 101)]
    run = run_of("\n".join(lines).encode() + b"\n")
    loss = signal_of(Snapshot(run), "loss")
    assert beginning_of(Snapshot(run), loss).baseline == pytest.approx(9.0)
    assert beginning_of(Snapshot(run, 80), loss).baseline == pytest.approx(9.0)
    # Before the restart the run had begun elsewhere, and at 20 nobody knew of more than 20 values.
    assert beginning_of(Snapshot(run, 39), loss).baseline == pytest.approx(1.185)
    assert beginning_of(Snapshot(run, 20), loss).baseline == pytest.approx(1.12)


def test_a_metric_has_one_baseline_in_its_alert_and_on_its_page() -> None:
    # The length falls while its baseline is still learned.
    lengths = [400.0] * 14 + [150.0] * 30
    lines = [
        json.dumps({"training/global_step": step, "critic/score/mean": 0.5, "response_length/mean": length})
        for step, length in enumerate(lengths, 1)
    ]
    snapshot = Snapshot(run_of("\n".join(lines).encode() + b"\n"))
    (alert,) = [one for one in snapshot.standing if one.rule == "T3"]
    assert {one.name: one.value for one in alert.evidence}["baseline"] == alert.baseline == 400.0
    assert beginning_of(snapshot, signal_of(snapshot, "response_length/mean")).baseline == 400.0
    assert beginning_of(snapshot, signal_of(snapshot, "critic/score/mean")).baseline == 0.5


def test_the_pace_and_the_time_to_the_end_are_of_now_and_say_so(run: FakeRun) -> None:
    now = build_overview(Snapshot(run)).header
    then = build_overview(Snapshot(run, 600)).header
    assert (then.step_s, then.eta_s) == (now.step_s, now.eta_s)
    (row,) = paint_overview(build_overview(Snapshot(run, 600)), 160, 40, UNICODE)[:1]
    assert "at step 600 of 1,204   now " in text_of([row])


def test_the_value_that_was_judged_stands_in_its_row() -> None:
    rows = verl_rows(120)
    rows[99][1]["actor/pg_clipfrac"] = 0.31
    for step in range(100, 110):
        rows[step][1]["actor/pg_clipfrac"] = 0.0
    run = run_of(verl_lines(rows))
    message = "clip fraction 31.0 %"
    told = a_verdict(
        "O6", metric="clip_frac", key="actor/pg_clipfrac", since_step=100, threshold=0.2,
        evidence=(Evidence("clip_frac", 0.31, Unit.FRACTION),), headline=message,
    )  # fmt: skip
    run.verdicts = (told,)
    run.events = [Event(100, 100, "O6", "clip", Level.WARN, EventState.FIRING, message, since_step=100,
                        metric="clip_frac", key="actor/pg_clipfrac")]  # fmt: skip
    past = Snapshot(run, 105)
    reading = read_signal(past, signal_of(past, "actor/pg_clipfrac"), 0)
    assert reading.point is not None and reading.point.value == 0.0
    assert reading.judged is not None and (reading.judged.step, reading.judged.value) == (100, pytest.approx(0.31))
    text = text_of(paint_overview(build_overview(past), 160, 50, UNICODE))
    assert "31.0 % @100" in text
    assert "clip fraction 31.0 %, as of step 100; clip fraction 0 % at 105" in text


def test_what_an_alert_compares_with_is_drawn_and_called_as_in_its_sentence() -> None:
    run = copy(_of_300_steps())
    best = Evidence("best median of ten", 0.9, steps=(120, 129))
    run.verdicts = (
        a_verdict(
            "R1", family="reward", metric="score_mean", key="critic/score/mean", since_step=200, threshold=0.7,
            baseline=0.9, evidence=(Evidence("critic/score/mean", 0.1), best), headline="reward 0.9 → 0.1",
        ),
    )  # fmt: skip
    view = build_metric(Snapshot(run), "critic/score/mean")
    assert [level.label for level in view.plot.levels] == ["threshold 0.700", "best median of ten 0.900"]
    rows = {one.name: (one.value, one.remark) for one in view.statistics}
    assert rows["alert"] == ("0.900", "best median of ten") and rows["baseline"][1] == "steps 4–33"


def test_the_row_of_a_rule_names_the_threshold_that_the_level_goes_by() -> None:
    snapshot = Snapshot(_of_300_steps())
    for rule, more, said in (
        ("P16", {}, "WARN: slow steps cost more than 25 % (costs) of the step time, unless"),
        ("P16", {"level": Level.INFO}, "INFO: slow steps cost more than 8 % (info) of the step time"),
        ("O1", {"level": Level.CRIT, "threshold": 1e8}, "CRIT: from the first record on, above 1e8 (absurd_crit)"),
        ("O6", {"level": Level.CRIT, "threshold": 0.4}, "CRIT: above 40 % (alone_crit), in 4 of 8 records"),
        ("T3", {"level": Level.CRIT, "threshold": 50.0, "baseline": 500.0}, "CRIT: below 10 % (crit) of its baseline"),
        ("P1", {}, "WARN: step time without checkpoint and validation above 1.3× (warn) the baseline"),
        (
            "RM2",
            {},
            "WARN: from 20 (wait) records after the learning rate's warm-up on, the margin of a reward model is "
            "within 0.02 (warn) of 0",
        ),
        ("X1", {}, "CRIT: at least 3 (families) of these kinds of alerts began or escalated within 5 records: "),
    ):
        assert raised_when(snapshot, NAMED[rule], a_verdict(rule, **more))[0].startswith(said), rule
    nameless = []
    for spec in DOCUMENTED:
        for level in (Level.INFO, Level.WARN, Level.CRIT):
            text = "\n".join(raised_when(snapshot, spec, a_verdict(spec.id, level=level)))
            assert "`" not in text
            is_of_others = re.search(r"as in a \w+ of [A-Z]+\d", text)  # goes by the thresholds of another rule
            is_named = is_of_others or {*re.findall(r"\((\w+)\)", text)} & {*spec.thresholds}
            if spec.thresholds and not spec.is_fact and not is_named:
                nameless.append(f"{spec.id} {level.word}")
    assert nameless == [], "what goes by no threshold"


def test_the_evidence_of_an_alert_names_its_key_once() -> None:
    run = copy(_of_300_steps())
    noise = Evidence("baseline", 0.9)
    for key, name, said in (
        ("actor/grad_norm", "actor/grad_norm", "actor/grad_norm 9.55   baseline 0.9"),
        ("actor/grad_norm", "actor/grad_norm, last 3", "actor/grad_norm   last 3 9.55   baseline 0.9"),
        ("actor/grad_norm", "grad_norm", "actor/grad_norm   gradient norm 9.55   baseline 0.9"),
    ):
        run.verdicts = (a_verdict("O1", key=key, evidence=(Evidence(name, 9.55), noise)),)
        assert f"evidence   {said}" in text_of(paint_verdict(build_verdict(Snapshot(run), "O1"), 120, UNICODE))
    narrow = text_of(paint_verdict(build_verdict(Snapshot(run), "O1"), 40, UNICODE))
    assert "evidence   actor/grad_norm\n            gradient norm 9.55" in narrow, "the key has room"
    run.verdicts = (a_verdict("O1", key="actor/grad_norm", evidence=()),)
    text = text_of(paint_verdict(build_verdict(Snapshot(run), "O1"), 120, UNICODE))
    assert "key        actor/grad_norm\n" in text, "of a past step the numbers are not kept"


def test_what_recovered_has_its_sign_in_every_list_of_events() -> None:
    run = copy(_of_300_steps())
    run.events = [Event(85, 85, "E1", "entropy", Level.WARN, EventState.RECOVERED, "entropy", since_step=81)]
    sign = f" {UNICODE.recovered} "
    for rows in (paint_overview(build_overview(Snapshot(run)), 160, 50, UNICODE),
                 paint_verdict(build_verdict(Snapshot(run), "E1"), 120, UNICODE)):  # fmt: skip
        (line,) = [line for line in text_of(rows).splitlines() if "recovered" in line and " 85 " in line]
        assert line.startswith(sign)


def test_a_settled_alert_and_an_incident_are_said() -> None:
    run = copy(_of_300_steps())
    run.warm_up = None
    crash = a_verdict("E1", Level.CRIT, title="entropy crash", family="entropy", incident=Incident(1, "O5", 101),
                      advice=Advice(Action.GO_BACK, "the weights are poisoned", 100))  # fmt: skip
    jump = a_verdict("O5", title="loss blow-up", family="loss", since_step=101, incident=Incident(1, "O5", 101))
    run.verdicts = (crash, jump)
    view = build_overview(Snapshot(run))
    assert "began with: loss blow-up at 101; go back to checkpoint 100" in view.sentence.text.raw
    entry = read_entry(Snapshot(run))
    assert (entry.verdict, entry.more) == ("loss blow-up, entropy crash", 0)
    text = text_of(paint_verdict(build_verdict(Snapshot(run), "E1"), 120, UNICODE))
    assert "began with: loss blow-up at 101" in text
    assert "do         go back to checkpoint 100: the weights are poisoned" in text
    flat = a_verdict("E1", title="entropy crash", state=VerdictState.SETTLED, since_step=81)
    firing = a_verdict("O5", title="loss blow-up", since_step=190, since_record=190)
    run.verdicts = (firing, flat)
    badges = build_badges(Snapshot(run), run.verdicts)[0].badges
    assert [one.verdict for one in badges] == [firing, flat]
    assert "▲ entropy crash: new level since 81" in text_of(
        paint_overview(build_overview(Snapshot(run)), 160, 40, UNICODE)
    )
    mild = flat._replace(level=Level.INFO)
    run.verdicts = (mild,)
    run.events = [
        Event(85, 85, "E1", "entropy", Level.WARN, EventState.FIRING, "entropy 0.02", since_step=81),
        Event(120, 120, "E1", "entropy", Level.INFO, EventState.SETTLED, "settled at 0.02", since_step=81),
    ]
    entry = read_entry(Snapshot(run))
    assert (entry.verdict, entry.past) == ("entropy crash (new level)", "was WARN")
