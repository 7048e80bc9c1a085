"""What else happened on the steps of a chart: under its step, named, and never a wall of signs."""

from __future__ import annotations

import json

import pytest
from tables import each_row

from rltop.model import Event, EventState, Level
from rltop.pages.chain import frame_around
from rltop.pages.chart import Marker, MarkerKind
from rltop.pages.chart_axes import add_rail, paint_marker_legend, read_markers
from rltop.rows.glyphs import ASCII, UNICODE, Glyphs, cell_width
from rltop.rows.rows import RowBuilder
from rltop.run.snapshot import Snapshot
from rltop.store.series import StoreOptions
from tests.fake_run import FakeRun, run_of, verl_lines, verl_rows


@pytest.fixture(scope="module")
def run() -> FakeRun:
    ill = run_of(verl_lines(verl_rows(400)))
    ill.events = [
        Event(50, 50, "O1", "gradient", Level.WARN, EventState.FIRING, "gradient"),
        Event(60, 60, "O1", "gradient", Level.WARN, EventState.RECOVERED, "over"),
        Event(70, 70, "P6", "straggler", Level.INFO, EventState.FIRING, "no more than a note"),
        Event(80, 80, "R1", "reward", Level.CRIT, EventState.FIRING, "reward"),
        Event(90, 90, "R1", "reward", Level.CRIT, EventState.FIRING, "elsewhere", "explorer"),
    ]
    return ill


def rail(markers: tuple[Marker, ...], glyphs: Glyphs = UNICODE) -> str:
    row = add_rail(RowBuilder(120, glyphs), markers, 101, lambda step: step, glyphs).row()
    return row.text


def legend(markers: tuple[Marker, ...], width: int = 120, glyphs: Glyphs = UNICODE) -> str:
    return paint_marker_legend(markers, 2, width, glyphs).text


def test_rules_checkpoints_and_validations_stand_under_their_steps(run: FakeRun) -> None:
    markers = read_markers(Snapshot(run), 0, 100, "grad_norm")
    signs = rail(markers)
    assert (signs[50], signs[60], signs[80]) == ("▲", "◇", "◆")
    assert [i for i, sign in enumerate(signs) if sign == "v"] == [20, 40]
    assert signs[100] == "c", "a checkpoint is seen over the validation on the same step"
    assert signs[70] == signs[90] == " ", "notes and other streams have no sign here"


def test_the_legend_names_steps_and_puts_the_metrics_own_rules_first(run: FakeRun) -> None:
    text = legend(read_markers(Snapshot(run), 0, 100, "grad_norm"))
    assert text.index("gradient spike 50") < text.index("reward crash 80")
    assert "checkpoint 100" in text
    assert "validation every 20, last 100" in text


def test_what_is_muted_is_not_marked(run: FakeRun) -> None:
    quiet = FakeRun(**{**vars(run), "muted": frozenset({"R1"})})
    assert "R1" not in {marker.rule for marker in read_markers(Snapshot(quiet), 0, 100)}


def test_only_what_lies_in_the_picture_is_marked(run: FakeRun) -> None:
    assert {marker.step for marker in read_markers(Snapshot(run), 55, 79)} == {60}


def test_a_validation_on_every_step_is_said_and_not_drawn() -> None:
    markers = tuple(Marker(step, MarkerKind.VALIDATION) for step in range(101))
    assert rail(markers).strip() == ""
    assert "validation every 1, last 100" in legend(markers)


def test_a_beginning_is_seen_over_everything_else() -> None:
    markers = tuple(Marker(7, kind, Level.WARN) for kind in MarkerKind)
    assert rail(markers)[7] == "▲"


def test_a_restart_is_marked() -> None:
    again = run_of(verl_lines([*verl_rows(60), *verl_rows(80, from_step=41, seed=2)]))
    assert [marker.step for marker in read_markers(Snapshot(again), 0, 99) if marker.kind is MarkerKind.RESTART] == [41]


def test_steps_are_those_of_the_rows_however_long_the_picture_is(run: FakeRun) -> None:
    markers = read_markers(Snapshot(run), 0, 100_000)
    assert "checkpoint every 100, last 400" in legend(markers)
    assert "validation every 20, last 400" in legend(markers)


@each_row(("saved_s", "idle_s", "steps"), [(2.0, 2.0, [*range(40)]), (40.0, 0.2, [*range(9, 40, 10)])])
def test_one_checkpoint_that_took_minutes_hides_no_other_and_no_window_adds_one(
    saved_s: float, idle_s: float, steps: list[int]
) -> None:
    rows = [
        (step, {**row, "timing_s/save_checkpoint": saved_s if number % 10 == 9 else idle_s})
        for number, (step, row) in enumerate(verl_rows(40))
    ]
    rows[9][1]["timing_s/save_checkpoint"] = 308.0
    snapshot = Snapshot(run_of(verl_lines(rows)))
    for first in (0, 15):
        marked = [one.step - 1 for one in read_markers(snapshot, first + 1, 40) if one.kind is MarkerKind.CHECKPOINT]
        assert marked == [step for step in steps if step >= first]


def test_downsampled_validations_are_marked_where_their_buckets_begin() -> None:
    rows = [(step, {"loss": 1.0, "eval_loss": 2.0} if step % 50 == 0 else {"loss": 1.0}) for step in range(6000)]
    lines = b"".join(json.dumps({"step": step, **row}).encode() + b"\n" for step, row in rows)
    short = run_of(lines, options=StoreOptions(memory_bytes=60_000))
    assert short.stream.downsampled_range(500) is not None
    marked = [marker.step for marker in read_markers(Snapshot(short), 0, 6000) if marker.kind is MarkerKind.VALIDATION]
    assert marked[-1] == 5950
    assert len(marked) > 50


@each_row("width", [24, 40, 80, 120])
@each_row("glyphs", [UNICODE, ASCII])
def test_legends_fit_whatever_there_is(width: int, glyphs: Glyphs) -> None:
    markers = tuple(Marker(step * 1000, MarkerKind.ONSET, Level.CRIT, f"RULE{step}") for step in range(50))
    text = legend(markers, width, glyphs)
    assert cell_width(text) <= width
    assert "+" in text
    assert glyphs is UNICODE or text.isascii()


def test_markers_stand_under_the_aligned_charts(run: FakeRun) -> None:
    frame = frame_around(Snapshot(run), 80, 61)
    assert frame.cell(79) == frame.left - 1
    assert frame.cell(80) == frame.left + 1
    cells = [frame.cell(step) for step in range(frame.first, frame.last + 1)]
    assert cells == sorted(cells)
    assert cells[0] >= 0 and cells[-1] < frame.cells
    assert frame.left not in cells
