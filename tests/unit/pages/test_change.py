"""What changed around a step: the key that moved is first, and a long run costs no more than a short one."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import count

import pytest
from painted import check_rows, text_of
from tables import each_row

from rltop.model import NonFinite
from rltop.pages.chain import sigma_text
from rltop.pages.changes import build_change, paint_change
from rltop.rows.glyphs import ASCII, UNICODE, Glyphs, cell_width
from rltop.rows.rows import TargetKind
from rltop.run.snapshot import Snapshot
from rltop.store.series import StoreOptions
from tests.fake_run import FakeRun, Label, run_of, verl_lines, verl_rows
from tests.stores import stream_of


@cache
def run_with_a_jump(at: int = 300, steps: int = 400, factor: float = 4.0) -> FakeRun:
    rows = verl_rows(steps)
    for step, row in rows:
        if step >= at:
            row["actor/grad_norm"] = float(row["actor/grad_norm"]) * factor  # type: ignore[arg-type]
    return run_of(verl_lines(rows))


def test_the_key_that_jumped_is_first_and_says_from_where_to_where() -> None:
    view = build_change(Snapshot(run_with_a_jump(), 300))
    first = view.rows[0]
    assert first.signal.key == "actor/grad_norm"
    assert first.shift.before == pytest.approx(0.4, rel=0.1)
    assert first.shift.after == pytest.approx(1.6, rel=0.1)
    assert first.is_outside


def test_a_quiet_step_has_few_that_moved() -> None:
    view = build_change(Snapshot(run_with_a_jump(), 250))
    assert "actor/grad_norm" not in [one.signal.key for one in view.rows if one.is_outside]
    assert view.moved <= 2
    assert len(view.rows) >= 5


def test_what_is_not_finite_comes_first_and_is_named() -> None:
    noise = random.Random(1)
    rows = [(step, {"a": 1 + noise.gauss(0, 0.1), "b": 1.0 + (step >= 90)}) for step in range(100)]
    rows[90][1]["a"] = NonFinite.NAN
    run = FakeRun(Label.of("run"), stream_of(rows))
    view = build_change(Snapshot(run, 90))
    assert [one.signal.key for one in view.rows[:2]] == ["a", "b"]
    text = text_of(paint_change(view, 120, UNICODE))
    assert "NaN/Inf" in text


def test_what_was_not_finite_before_has_not_changed() -> None:
    noise = random.Random(1)
    rows: list[tuple[int, dict[str, object]]] = [
        (step, {"a": NonFinite.NAN if step >= 50 else noise.gauss(1, 0.1), "b": noise.gauss(1, 0.1)})
        for step in range(200)
    ]
    run = FakeRun(Label.of("run"), stream_of(rows))
    assert [one.signal.key for one in build_change(Snapshot(run, 50)).rows if one.is_outside] == ["a"]
    view = build_change(Snapshot(run, 199))
    assert (view.moved, view.judged) == (0, 1)
    said = "".join(piece.text for row in paint_change(view, 120, UNICODE) for piece in row.line)
    assert "0 of 1 key outside the usual range (4 sigma) of the 32 records before; 1 NaN/Inf there and before" in said


def test_too_little_before_is_said() -> None:
    run = FakeRun(Label.of("run"), stream_of((step, {"a": float(step)}) for step in range(5)))
    view = build_change(Snapshot(run))
    assert (view.judged, view.unknown) == (0, 1)
    assert "not enough history: no key has the 8 values" in "".join(
        piece.text for row in paint_change(view, 80, UNICODE) for piece in row.line
    )
    empty = FakeRun(Label.of("run"), stream_of([]))
    assert "no metrics yet" in paint_change(build_change(Snapshot(empty)), 80, UNICODE)[0].text


@each_row("width", [40, 60, 80, 100, 120, 140, 200])
@each_row("glyphs", [UNICODE, ASCII])
def test_no_row_is_wider_than_the_screen(width: int, glyphs: Glyphs) -> None:
    view = build_change(Snapshot(run_with_a_jump(), 300), width=width)
    check_rows(paint_change(view, width, glyphs), width, glyphs)


def test_cells_read_do_not_grow_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded by what is read, not by a stopwatch: the same rows whether 2,000 or 20,000 were logged."""
    options = StoreOptions(memory_bytes=400_000)
    read = []
    for steps in (2_000, 20_000):
        stream = stream_of(((step, {"a": float(step % 7), "b": 1.0}) for step in range(steps)), options)
        at = steps // 2
        rows = stream.around(at, 160, 8).rows
        read.append(sum(map(len, rows)))
        counter = count()
        monkeypatch.setattr(type(stream), "series", lambda *_, counter=counter: next(counter))
        assert build_change(Snapshot(FakeRun(Label.of("run"), stream), at)).judged
        assert next(counter) == 0, "a whole series was read"
    assert read[0] == read[1]


def test_sigmas_are_cut() -> None:
    assert [sigma_text(x) for x in (8.24, -12.6, 1e9, -1e9)] == ["+8.2", "−13", ">+99", "<−99"]


@pytest.mark.parametrize("has_std", [False, True])
def test_parts_of_a_reward_go_by_their_own_names(has_std: bool) -> None:
    dice = random.Random(4)
    rows = []
    for step in range(60):
        right = (0.6 if step < 40 else 0.1) + dice.gauss(0, 0.01)
        row = {"reward": 0.5, "rewards/format/mean": 0.5, "rewards/right/mean": right}
        row |= {"rewards/format/std": 0.1, "rewards/right/std": 0.3 * right} if has_std else {}
        rows.append({"step": step, **row, "frac_reward_zero_std": 0.0, "completions/mean_length": 9.0})
    run = run_of("".join(json.dumps(row) + "\n" for row in rows).encode())
    text = text_of(paint_change(build_change(Snapshot(run, 40)), 80, UNICODE))
    assert " right  " in text and (" right std " in text) is has_std
    assert "reward component" not in text


def test_a_narrow_page_keeps_the_new_level_and_the_distance() -> None:
    run = run_with_a_jump()
    rows = paint_change(build_change(Snapshot(run, 300), width=40), 40, UNICODE)
    painted = [row for row in rows if row.links and row.links[0].target.kind is TargetKind.METRIC]
    line = painted[0].text
    assert cell_width(line) <= 40
    assert "gradient norm" in line
    assert "+" in line and "…" not in line


def test_the_step_above_the_lines_is_whole_however_large() -> None:
    run = run_of(verl_lines([(step * 12_345, row) for step, row in verl_rows(200)]))
    rows = paint_change(build_change(Snapshot(run), width=80), 80, UNICODE)
    head = next(text for row in rows if " before " in (text := row.text))
    assert head.rstrip().endswith(f"{run.stream.last_step:,}") and cell_width(head) <= 80


def test_the_page_shows_the_value_of_its_step_beside_the_window_that_is_judged() -> None:
    rows = verl_rows(400)
    for step, row in rows:
        # On the step itself nothing: it is the steps after it that moved.
        if step >= 301:
            row["actor/grad_norm"] = float(row["actor/grad_norm"]) * 4  # type: ignore[arg-type]
    run = run_of(verl_lines(rows))
    view = build_change(Snapshot(run, 300))
    (one,) = [one for one in view.rows if one.signal.key == "actor/grad_norm"]
    assert one.here == pytest.approx(0.4, rel=0.2) and one.shift.after == pytest.approx(1.6, rel=0.2)
    assert view.until == 304
    text = text_of(paint_change(view, 120, UNICODE))
    assert "at 300" in text and "median of steps 300–304" in text
    # At the newest step there is nothing but the step.
    last = build_change(Snapshot(run, 400))
    assert last.until is None
    assert "median" not in "".join(piece.text for row in paint_change(last, 120, UNICODE) for piece in row.line)
