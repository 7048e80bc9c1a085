"""The list of runs: order, filter, and rows that fit."""

from __future__ import annotations

import pytest

from rltop.model import Label, Level, RunState
from rltop.view.glyphs import glyph_set
from rltop.view.lines import TargetKind
from rltop.view.runs import HEAD_ROWS, RunEntry, in_order, list_runs, paint_runs
from rltop.view.widths import cell_width
from tests.fake_run import firing_run, run_of, verl_lines, verl_rows


def entry(name, level=Level.OK, state=RunState.LIVE, age_s=5.0, verdict=""):
    path = Label.of(f"/runs/{name}/metrics.jsonl")
    return RunEntry(Label.of(name), path, "veRL", "GRPO", 10, 100, 1, state, age_s, None, level, verdict, 0)


def names(entries):
    return [str(one.name) for one in entries]


def test_what_needs_attention_comes_first():
    entries = [
        entry("done", state=RunState.FINISHED, age_s=None),
        entry("live"),
        entry("info", Level.INFO),
        entry("silent", state=RunState.STALLED),
        entry("warned", Level.WARN, RunState.ENDED),
        entry("broken", Level.CRIT),
    ]
    assert names(in_order(entries))[:3] == ["broken", "warned", "silent"]
    assert names(in_order(entries))[-1] == "done"


def test_rows_do_not_change_places_with_every_record():
    first = [entry("a", age_s=3.0), entry("b", age_s=40.0)]
    later = [entry("a", age_s=50.0), entry("b", age_s=1.0)]
    assert names(in_order(first)) == names(in_order(later)) == ["a", "b"]


@pytest.mark.parametrize(
    ("query", "found"), [("gone", []), ("KL", ["drift"]), ("verl stalled", ["still"]), ("crit", ["drift"])]
)
def test_the_filter_looks_at_everything_that_a_row_says(query, found):
    entries = [entry("drift", Level.CRIT, verdict="KL drift"), entry("still", state=RunState.STALLED), entry("fine")]
    assert names(in_order(entries, query)) == found


def test_a_run_is_read_with_its_worst_verdict():
    healthy, ill = run_of(verl_lines(verl_rows(40)), "healthy"), firing_run()
    worst, other = list_runs([healthy, ill])
    assert (worst.level, worst.verdict, worst.more) == (Level.CRIT, "length", 3)
    assert (other.step, other.dialect) == (40, "veRL")


@pytest.mark.parametrize("width", [40, 56, 72, 80, 120, 200])
@pytest.mark.parametrize("is_ascii", [False, True])
def test_a_thousand_runs_fit_any_screen(width, is_ascii):
    entries = [entry(f"run-with-a-long-name-{i}", Level(i % 5), verdict="a rule that fires") for i in range(1_000)]
    rows = paint_runs(entries, width, 30, glyph_set(is_ascii=is_ascii), top=500)
    assert len(rows) == 30
    assert all(sum(cell_width(piece.text) for piece in row.line) <= width for row in rows)
    targets = [row.hot[0].target for row in rows[HEAD_ROWS:]]
    assert {target.kind for target in targets} == {TargetKind.RUN}
    assert targets[0].name == entries[500].path.raw


def test_an_empty_list_says_so():
    text = "".join(piece.text for row in paint_runs([], 80, 20, glyph_set(is_ascii=False)) for piece in row.line)
    assert "no run matches" in text
