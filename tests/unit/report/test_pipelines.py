"""Asynchronous runs in reports and beside each other: who waits for whom, goodput, GPU-hours; one computation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tables import each_row

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.model import Level
from rltop.pages.compare import ComparePage
from rltop.pages.flow import build_flow
from rltop.pages.header import generation_text
from rltop.pages.page import Moment
from rltop.report.document import pipeline_document
from rltop.report.markdown import markdown
from rltop.report.run_report import Provenance, build_report, pipelines, text_of
from rltop.report.writers import html_page
from rltop.rows.glyphs import UNICODE
from rltop.run.options import IngestOptions
from rltop.run.session import with_run_settings
from rltop.run.snapshot import Snapshot

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
VERL = FIXTURES / "verl/fully_async/metrics.jsonl"
SYNC = FIXTURES / "trl/grpo_healthy/metrics.jsonl"
MADE = Provenance("rltop report a -o b.html", "9.9", "2026-01-02 03:04 UTC")
ALWAYS = {"actor/pg_loss": 0.1, "actor/grad_norm": 0.4, "critic/score/mean": 0.3, "critic/advantages/mean": 0.0}


def snapshot_of(path: Path, gpus: int | None = None) -> Snapshot:
    return Snapshot(read_whole(str(path), Config(ingest=IngestOptions(gpus=gpus)), FakeClock()).runs[0])


def starved(folder: Path, settings: str = "") -> Path:
    path = folder / "metrics.jsonl"
    own = {"fully_async/trainer/idle_ratio": 0.55, "fully_async/monitor/queue/mq_queue_size": 0, "timing_s/step": 60.0}
    lost = {"fully_async/rollouter/step_generated_samples": 100, "response/aborted_ratio": 0.25}
    rows = [{"step": step, **ALWAYS, **own, **lost} for step in range(1, 41)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if settings:
        (folder / "config.yaml").write_text(settings)
    return path


def test_a_report_tells_the_pipeline_as_its_page_does(tmp_path: Path) -> None:
    snapshot = snapshot_of(starved(tmp_path))
    report, flow = build_report(snapshot, has_charts=False), build_flow(snapshot)
    told = report.pipeline
    assert (told.waits, told.goodput, told.spent, told.level) == (flow.waits, flow.goodput, flow.spent, Level.WARN)
    assert [[fact.text for fact in box.facts] for box in told.boxes] == [
        [fact.text for fact in box.facts] for box in flow.boxes
    ]
    for text in (html_page([report], MADE), markdown([report], MADE)):
        assert flow.waits.sentence in text
        assert flow.waits.advice in text
        assert "at most 75 trained on, 25 failed" in text
    assert "Pipeline" not in markdown([build_report(snapshot_of(SYNC), has_charts=False)], MADE)


def test_runs_beside_each_other_have_a_table_of_their_pipelines(tmp_path: Path) -> None:
    reports = [build_report(snapshot_of(path), has_charts=False) for path in (starved(tmp_path), VERL, SYNC)]
    told = [[text_of(cell) for cell in row] for row in pipelines(reports).rows]
    assert len(told) == 2
    assert "trainer waits 55 % for rollouts" in told[0][2]
    assert told[0][3] == "≤75"
    assert "Pipelines" in html_page(reports, MADE)
    assert "Pipelines" not in markdown([reports[2], reports[2]], MADE)


def test_the_compare_page_tells_who_waits_in_each_run(tmp_path: Path) -> None:
    runs = [snapshot_of(path, gpus=16).run for path in (starved(tmp_path), SYNC)]
    for width, height in ((80, 24), (120, 40)):
        rows = ComparePage().rows(Moment(Snapshot(runs[0]), UNICODE, runs=runs), width, height)
        text = "\n".join(row.text for row in rows)
        assert "PIPELINE" in text
        assert "trainer waits 55 % for rollouts" in text
        assert "at most 75 trained on" in text
        assert text.count("waits") == 1
        assert all(sum(len(piece.text) for piece in row.line) <= width for row in rows)


def test_gpu_hours_are_told_where_the_number_of_gpus_is_known(tmp_path: Path) -> None:
    unknown = build_flow(snapshot_of(starved(tmp_path)))
    assert unknown.spent is None
    flow = build_flow(snapshot_of(tmp_path / "metrics.jsonl", gpus=16))
    assert flow.goodput is not None
    # 16 GPUs for 20 steps of a minute.
    assert flow.spent.hours == pytest.approx(16 * 20 / 60)
    assert "at least 1.33 for what was not trained on" in flow.spent.words(flow.goodput)
    document = pipeline_document(snapshot_of(tmp_path / "metrics.jsonl", gpus=16))
    assert document["goodput"]["gpus"] == 16


def test_gpus_and_bound_are_read_from_the_settings_beside_the_run(tmp_path: Path) -> None:
    settings = "trainer:\n  nnodes: 2\n  n_gpus_per_node: 8\nrollout:\n  nnodes: 1\n  n_gpus_per_node: 8\n"
    snapshot = snapshot_of(starved(tmp_path, settings))
    assert snapshot.identity.gpus == 24
    # veRL's bound is a share of samples, and no number of versions.
    assert snapshot.identity.staleness_bound is None
    (tmp_path / "config.yaml").write_text("trainer:\n  nnodes: 2\n  n_gpus_per_node: 8\n")
    assert with_run_settings(snapshot.identity, path=str(tmp_path / "metrics.jsonl"), gpus=None).gpus is None
    assert with_run_settings(snapshot.identity, path=str(tmp_path / "metrics.jsonl"), gpus=7).gpus == 7
    assert with_run_settings(snapshot.identity, path="-", gpus=None).gpus is None


@each_row(("written", "told"), [("4", "at most 4 versions"), ("1", "at most 1 version "), ("no", "")])
def test_the_bound_in_versions_stands_in_the_header(written: str, told: str, tmp_path: Path) -> None:
    rows = (FIXTURES / "trl/async_grpo/metrics.jsonl").read_text()
    (tmp_path / "metrics.jsonl").write_text(rows)
    (tmp_path / "config.yaml").write_text(f"max_staleness: {written}\n")
    text = generation_text(snapshot_of(tmp_path / "metrics.jsonl"))
    assert text == (f"async, {told.strip()} stale" if told else "async")


def test_the_stages_of_an_asynchronous_step_say_that_generation_overlaps() -> None:
    from rltop.pages.stages import BESIDE_GENERATION, build_timing, paint_stages

    for path, says in ((VERL, True), (SYNC, False)):
        view = build_timing(snapshot_of(path))
        assert view is not None
        for width in (80, 120, 160, 200):
            rows = paint_stages(view, width, 12, UNICODE)
            assert (BESIDE_GENERATION in rows[0].text) is says


def test_a_report_has_the_boxes_with_their_numbers_and_how_to_log_the_hollow_ones() -> None:
    report = build_report(snapshot_of(VERL), has_charts=False)
    assert report.pipeline is not None
    for text in (html_page([report], MADE), markdown([report], MADE)):
        for box in report.pipeline.boxes:
            assert box.name in text
            assert all(fact.reading.signal.key in text and fact.text in text for fact in box.facts)
        assert text.count("not logged; veRL would log it as") == 2
