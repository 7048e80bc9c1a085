"""The list of runs: order, filter, and rows that fit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from painted import check_rows
from tables import each_row

from rltop.model import Label, Level, RunState, Unit
from rltop.pages.alerts import alert_name
from rltop.pages.run_entry import REWARDS, VALIDATIONS, Entries, RunEntry, Value, best, read_entry
from rltop.pages.runs import HEAD_ROWS, by_attention, matching, paint_runs, read_query, run_columns
from rltop.rows.glyphs import UNICODE, cell_width, glyph_set
from rltop.rows.rows import TargetKind
from rltop.rows.table import Sorting, heads_of, sort_items
from rltop.run.past import Alert
from rltop.run.run import is_judged
from rltop.run.session import CROWD
from rltop.run.snapshot import Snapshot
from tests.fake_run import FakeRun, firing_run, run_of, verl_lines, verl_rows
from tests.screens import session_over


def entry(name, level=Level.OK, state=RunState.LIVE, age_s=5.0, verdict="", step=10, total=100, more=0, loading=None):
    path = Label.of(f"/runs/{name}/metrics.jsonl")
    return RunEntry(Label.of(name), path, "veRL", "GRPO", step, total, 1, state, age_s, loading, level, verdict, more)


def names(entries):
    return [str(one.name) for one in entries]


def found_by(query, entries):
    run = run_of(verl_lines(verl_rows(1)))
    return names(by_attention(matching([(one, run) for one in entries], read_query(query))))


def test_what_needs_attention_comes_first():
    entries = [
        entry("done", state=RunState.FINISHED, age_s=None),
        entry("live"),
        entry("info", Level.INFO),
        entry("silent", state=RunState.STUCK),
        entry("warned", Level.WARN, RunState.ENDED),
        entry("broken", Level.CRIT),
    ]
    assert names(by_attention(entries))[:3] == ["broken", "warned", "silent"]
    assert names(by_attention(entries))[-1] == "done"


def test_while_runs_are_read_the_title_says_how_many_have_been():
    entries = [entry("a"), entry("b", state=RunState.LOADING, loading=0.5), entry("c")]
    assert "read 2 of 3" in paint_runs(entries, 80, 24, UNICODE)[0].text
    unjudged = [replace(one, is_judged=False) for one in entries[::2]]
    assert "judged 0 of 2" in paint_runs(unjudged, 80, 24, UNICODE)[0].text
    assert " of " not in paint_runs(entries[::2], 80, 24, UNICODE)[0].text


def test_the_title_counts_the_stuck_ones() -> None:
    title, *_ = paint_runs([entry("a", state=RunState.STUCK), entry("b")], 100, 12, glyph_set(is_ascii=False))
    assert title.text.split("   ")[1:] == ["▲ 1 stuck", "● 1 live"]


def test_rows_do_not_change_places_with_every_record():
    first = [entry("a", age_s=3.0), entry("b", age_s=40.0)]
    later = [entry("a", age_s=50.0), entry("b", age_s=1.0)]
    assert names(by_attention(first)) == names(by_attention(later)) == ["a", "b"]
    # Printed, they are read one after the other, and the ages of runs that fell silent together are not equal.
    silent = [replace(entry(name, age_s=age_s), newest_s=960.0) for name, age_s in (("a", 121.0), ("b", 119.0))]
    assert names(by_attention(reversed(silent))) == ["a", "b"]


@each_row(
    "head",
    [
        "2026-11-29 01:51:04,910 [rank0]:[E1129 01:50:33.995 ProcessGroupNCCL.cpp:607] ", "[rank3]: ",
        "[2026-11-29 01:51:04,910][trainer][ERROR] - ", "(TaskRunner pid=17) 2026-11-29T01:51:04Z ", "",
    ],
)  # fmt: skip
def test_what_a_run_died_of_stands_in_the_list_without_the_clock_of_the_log(head):
    run = run_of(verl_lines(verl_rows(20)), state=RunState.DIED)
    run.failure = Label.of(f"{head}ValueError: 2026-11-29 is out of range")
    assert read_entry(Snapshot(run)).verdict == "ValueError: 2026-11-29 is out of range"


def test_a_stuck_run_whose_phase_nobody_knows_says_that_no_record_comes():
    run = run_of(verl_lines(verl_rows(20)), state=RunState.STUCK)
    assert read_entry(Snapshot(run)).verdict == "no new record"


@each_row(("query", "found"), [("gone", []), ("KL", ["drift"]), ("verl stuck", ["still"]), ("crit", ["drift"])])
def test_the_filter_looks_at_everything_that_a_row_says(query, found):
    entries = [entry("drift", Level.CRIT, verdict="KL drift"), entry("still", state=RunState.STUCK), entry("fine")]
    assert found_by(query, entries) == found


def test_a_run_is_read_with_its_worst_verdict():
    healthy, ill = run_of(verl_lines(verl_rows(40)), "healthy"), firing_run()
    worst, other = by_attention(read_entry(Snapshot(run)) for run in (healthy, ill))
    assert (worst.level, worst.verdict, worst.more) == (Level.CRIT, "length", 3)
    assert (other.step, other.dialect) == (40, "veRL")


@pytest.mark.parametrize("width", [40, 56, 72, 80, 120, 200])
@pytest.mark.parametrize("is_ascii", [False, True])
def test_a_thousand_runs_fit_any_screen(width, is_ascii):
    entries = [entry(f"run-with-a-long-name-{i}", Level(i % 5), verdict="a rule that fires") for i in range(1_000)]
    glyphs = glyph_set(is_ascii=is_ascii)
    rows = paint_runs(entries, width, 30, glyphs, top=500)
    assert len(rows) == 30
    check_rows(rows, width, glyphs)
    targets = [row.links[0].target for row in rows[HEAD_ROWS:]]
    assert {target.kind for target in targets} == {TargetKind.RUN}
    assert targets[0].name == entries[500].path.raw


def test_an_empty_list_says_so():
    text = "".join(piece.text for row in paint_runs([], 80, 20, glyph_set(is_ascii=False)) for piece in row.line)
    assert "no run matches" in text


UNEVEN = [
    entry("a", Level.CRIT, RunState.ENDED, 41 * 60.0, "gradient spike", step=7, total=None),
    entry(
        "grpo-qwen2.5-7b-math-lr1e-6-seed42",
        Level.WARN,
        RunState.FINISHED,
        119 * 60.0,
        "KL drift",
        1_234_567,
        9_999_999,
        12,
    ),
    entry("長い名前の実験" * 6, Level.OK, RunState.QUIET, 12.0, "", step=None),
    entry("old", Level.WARN, RunState.STUCK, 86_400.0 * 1_234, "unexplained time", step=123_456, total=None),
]


def test_columns_never_run_together_and_numbers_are_never_cut():
    for width in range(40, 201):
        painted = paint_runs(UNEVEN, width, 12, glyph_set(is_ascii=False))
        head, *rows = [row.text for row in painted][1 : len(UNEVEN) + 2]
        columns = head.split()
        assert columns[:2] == ["now", "run"] and "state" in columns
        for shown, one in zip(rows, UNEVEN, strict=True):
            assert cell_width(shown) <= width
            said = {cell.strip() for cell in shown[5:].split("  ")}
            assert any(cell.endswith(one.state.value) for cell in said), shown
            if "age" in columns:
                assert said & {"41 min ago", "119 min ago", "10 s ago", "1,234 d ago"}, shown
            if "step" in columns:
                assert said & {"7", "1,234,567 / 9,999,999", "—", "123,456"}, shown


def test_columns_leave_by_what_they_are_worth():
    def columns(width):
        return paint_runs(UNEVEN, width, 12, glyph_set(is_ascii=False))[1].text.split()

    seen = [columns(width) for width in range(40, 201)]
    order = [("now", "run", "state")]
    for now in seen:
        if set(now) != set(order[-1]):
            assert set(now) > set(order[-1])
            order.append(tuple(now))
    assert [set(now) - set(before) for before, now in pairwise(order)] == [
        {"alerts"}, {"step"}, {"age"}, {"algorithm"}, {"trainer"},
    ]  # fmt: skip


@each_row("is_ascii", [False, True])
def test_a_died_run_is_shown_as_such_and_first(is_ascii):
    glyphs = glyph_set(is_ascii=is_ascii)
    entries = by_attention(
        [entry("fine"), entry("ill", Level.CRIT), entry("dead", state=RunState.DIED, verdict="CUDA error")]
    )
    assert names(entries)[0] == "dead"
    title, _, row, *_ = paint_runs(entries, 100, 12, glyphs)
    assert f"{glyphs.states[RunState.DIED]} 1 died" in title.text
    assert row.text.startswith(f" {glyphs.levels[Level.CRIT]}   dead")
    assert "CUDA error" in row.text
    roles = {piece.role for piece in row.line}
    assert "crit" in roles and "ok" not in roles and "live" not in roles


def test_a_run_that_died_says_what_of():
    run = FakeRun(**{**vars(firing_run()), "state": RunState.DIED, "failure": Label.of("exit code 137")})
    one = read_entry(Snapshot(run))
    assert (one.verdict, one.more, one.attention) == ("exit code 137", 4, Level.CRIT)


@each_row(("level", "shown"), [("none", ("ConnectionError", 0, Level.WARN)), ("crit", (None, 3, Level.CRIT))])
def test_an_error_after_the_last_step_is_said_where_nothing_is_worse(level, shown):
    base = firing_run() if level == "crit" else run_of(verl_lines(verl_rows(1)))
    ended = FakeRun(**{**vars(base), "state": RunState.FINISHED, "failure": Label.of("ConnectionError")})
    before, one = read_entry(Snapshot(base)), read_entry(Snapshot(ended))
    what, more, attention = shown
    assert (one.verdict, one.more, one.attention) == (what or before.verdict, more, attention)


def test_runs_are_sorted_by_any_column_and_then_by_what_needs_attention_again():
    def heads(width):
        return [one.head for one in heads_of(paint_runs(UNEVEN, width, 12, glyph_set(is_ascii=False)))]

    assert heads(160) == ["run", "step", "state", "age", "alerts", "algorithm", "trainer"]
    assert heads(60) == ["run", "state", "alerts"]  # a column that is not shown sorts nothing
    columns = run_columns((), UNICODE)
    assert [one.step for one in sort_items(UNEVEN, columns, Sorting("step"))] == [1_234_567, 123_456, 7, None]
    assert next(one.age_s for one in sort_items(UNEVEN, columns, Sorting("age", is_falling=False))) == 12.0
    assert sort_items(UNEVEN, columns, None) == UNEVEN
    head = paint_runs(UNEVEN, 120, 12, glyph_set(is_ascii=False), sorting=Sorting("step"))[1].text
    assert f"{glyph_set(is_ascii=False).fall}step" in head


def test_runs_whose_names_are_alike_can_be_told_apart():
    entries = [entry(f"experiments/2026-11/qwen-grpo-lr1e-6-seed{i}/metrics") for i in range(12)]
    for width in (60, 80, 120):
        rows = paint_runs(entries, width, None, glyph_set(is_ascii=False))[HEAD_ROWS:]
        assert len({row.text for row in rows}) == 12


def test_a_run_that_stands_in_several_files_says_how_many_more():
    run = run_of(verl_lines(verl_rows(3)))
    assert "copies" not in row_of(read_entry(Snapshot(run)))
    run.copies = ("/runs/a/trainer_state.json", "/runs/a/tb/events.out.tfevents.1")
    assert f"{run.name} (+2 copies) " in row_of(read_entry(Snapshot(run)))


def past(level=Level.CRIT, *, is_earlier=False):
    return Alert("X1", "collapse", level, 122, 126, 146, is_earlier=is_earlier)


def row_of(one, width=120):
    return paint_runs([one], width, 12, glyph_set(is_ascii=False))[2].text


def test_a_run_that_is_well_again_says_what_it_has_had():
    well = entry("well", state=RunState.FINISHED)
    once_ill = replace(well, name=Label.of("once"), worst=past())
    assert "was collapse @122" in row_of(once_ill)
    assert names(by_attention([well, once_ill])) == ["once", "well"]
    assert found_by("collapse", [well, once_ill]) == ["once"]
    left_behind = replace(well, worst=past(is_earlier=True))
    assert "earlier attempt collapse @122" in row_of(left_behind)
    pieces = paint_runs([left_behind], 120, 12, glyph_set(is_ascii=False))[2].line
    assert not {"crit", "warn"} & {piece.role for piece in pieces}


def test_a_title_in_capitals_keeps_its_own() -> None:
    assert alert_name(past()) == "COLLAPSE"
    assert alert_name(Alert("L1", "NaN/Inf", Level.CRIT, 122, 126, 146)) == "NaN/Inf"
    assert alert_name(Alert("O11", "KL to reference", Level.CRIT, 122, 126, 146)) == "KL TO REFERENCE"


def test_a_narrow_list_says_what_was_an_alert_before_what_is_none():
    plateau = replace(entry("run", Level.INFO, verdict="plateau"), worst=past())
    assert "plateau · was collapse @122" in row_of(plateau)
    narrow = row_of(plateau, 52)
    assert "was collapse" in narrow and "plateau" not in narrow
    # However narrow: the step is whole.
    assert "@122" in row_of(plateau, 46)
    firing = replace(entry("run", Level.WARN, verdict="truncation"), worst=past())
    assert "truncation" in row_of(firing, 52)


def test_the_worst_level_that_is_over_stands_beside_that_of_now():
    glyphs = glyph_set(is_ascii=False)
    crit, warn = glyphs.levels[Level.CRIT], glyphs.levels[Level.WARN]
    over = replace(entry("over", Level.WARN, verdict="now"), worst=past())
    assert row_of(over).startswith(f" {warn}   {crit}    over")
    earlier = replace(entry("earlier", Level.WARN, verdict="now"), worst=past(is_earlier=True))
    still = replace(entry("still", Level.CRIT, verdict="now"), worst=past())
    assert crit not in row_of(earlier)
    assert row_of(still).count(crit) == 1


def test_an_entry_is_read_again_where_the_run_has_changed_and_where_time_may_have():
    run = FakeRun(**{**vars(firing_run()), "state": RunState.LIVE, "age_s": 12.0})
    book = Entries()
    first = book.of(run)
    run.age_s = 12.1
    assert book.of(run) == replace(first, age_s=12.1)
    run.verdicts = ()
    assert book.of(run).level == first.level, "neither rows nor time have moved"
    run.age_s = 25.0
    assert book.of(run).level is Level.OK
    run.state = RunState.DIED
    assert book.of(run).attention is Level.CRIT


def test_a_run_with_steps_to_go_says_when_it_will_be_over():
    rows = verl_lines(
        (n, {"critic/rewards/mean": 0.5, "timing_s/step": 2.0, "timing_s/gen": 2.0}) for n in range(1, 41)
    )
    run = run_of(rows, total_steps=100, state=RunState.LIVE)
    assert read_entry(Snapshot(run)).eta_s == pytest.approx(120.0)
    run.state = RunState.FINISHED
    assert read_entry(Snapshot(run)).eta_s is None


def test_the_best_value_of_a_long_run_carries_its_own_step():
    run = run_of(verl_lines((n, {"critic/rewards/mean": 0.5 + (n == 1777)}) for n in range(1, 2001)))
    found = best(Snapshot(run), REWARDS)
    assert found is not None and (found.value, found.step) == (1.5, 1777)


def test_the_best_evaluation_is_of_a_data_set_that_moves_as_on_the_overview():
    run = run_of(
        verl_lines(
            (n, {"val/test_score/a": 0.0, "val/reward/accuracy": 0.3 + n / 100, "critic/rewards/mean": 0.5})
            for n in range(1, 11)
        )
    )
    found = best(Snapshot(run), VALIDATIONS)
    assert found is not None and (found.value, found.step) == (0.4, 10)


def crowded():
    """Runs with something in every column, and long names of alerts."""
    value = Value(0.9, Unit.FRACTION, 122)
    past = Alert("O11", "kl", Level.CRIT, 122, 122, recovered_step=240)
    ill = entry("grpo-entropy-collapse-7b", Level.WARN, verdict="zero reward variance", more=2)
    ill = replace(ill, reward=value, best=value, pace_s=67.0, eta_s=4_000.0, speed=Value(50.0, Unit.NONE, 10))
    return [ill, replace(ill, level=Level.OK, verdict="", more=0, worst=past)]


@each_row("width", [80, 100, 120, 160, 200])
def test_alerts_have_room_before_numbers_do_and_are_cut_at_their_end(width):
    head, *rows = [row.text for row in paint_runs(crowded(), width, 12, glyph_set(is_ascii=False))][1:4]
    assert "zero reward variance +2" in rows[0]
    assert "was KL to reference @122" in rows[1]
    assert head.split()[:3] == ["now", "was", "run"]


def test_a_speed_has_its_unit():
    shown = paint_runs(crowded(), 240, 12, glyph_set(is_ascii=False))[2].text
    assert "50.0 samples/s" in shown


def test_many_runs_are_listed_before_they_are_judged_and_say_the_same_in_the_end(tmp_path: Path):
    paths = [tmp_path / f"{number}.jsonl" for number in range(CROWD + 1)]
    rows = verl_lines(verl_rows(12))
    for path in paths:
        path.write_bytes(rows)
    paths[-1].write_bytes(b"")
    session, book = session_over(*paths), Entries()

    def listed() -> list[RunEntry]:
        return [book.of(run, is_crowd=True) for run in session.runs]

    session.read_newest(1000.0)
    before = listed()
    assert not any(one.is_judged for one in before)
    assert not any(is_judged(run) for run in session.runs), "to list them asks no rule"
    assert f"read 0 of {CROWD + 1}" in paint_runs(before, 120, 20, UNICODE)[0].text
    while session.step(100.0):
        pass
    assert all(is_judged(run) for run in session.runs)
    assert listed() == [read_entry(Snapshot(run)) for run in session.runs]
