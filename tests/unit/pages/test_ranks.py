"""The page of the ranks fits any screen and says who is slow."""

from __future__ import annotations

from painted import check_rows
from tables import each_row

from rltop.pages.stragglers import paint_rank_line, paint_ranks, rank_stages
from rltop.rows.glyphs import glyph_set
from rltop.run.snapshot import Snapshot
from rltop.stats.ranks import RankHistory
from tests.fake_run import run_of, verl_lines, verl_rows


def slow_run():
    history = RankHistory()
    for step in range(1, 20):
        history.push(step, {f"actor rank {i}": {"update": 15.0 if i == 3 else 10.0, "sync": 1.0} for i in range(16)})
    return run_of(verl_lines(verl_rows(20)), ranks=history)


@each_row("width", [40, 48, 56, 72, 76, 80, 100, 120, 200])
@each_row("is_ascii", [False, True])
def test_no_row_is_wider_than_the_screen_and_no_number_is_cut(width, is_ascii):
    glyphs, snapshot = glyph_set(is_ascii=is_ascii), Snapshot(slow_run())
    stages = rank_stages(snapshot)
    rows = [*paint_ranks(snapshot, stages, width, glyphs), paint_rank_line(stages[0], width, glyphs)]
    check_rows(rows, width, glyphs)
    table = next(row.text for row in rows if "update" in row.text)
    assert "5.00 s" in table
    assert not table.rstrip().endswith(("…", "~"))


def test_a_run_whose_ranks_say_nothing_says_so():
    snapshot = Snapshot(run_of(verl_lines(verl_rows(20))))
    rows = paint_ranks(snapshot, rank_stages(snapshot), 80, glyph_set(is_ascii=False))
    assert "No per-rank timing in this run" in "".join(piece.text for row in rows for piece in row.line)
