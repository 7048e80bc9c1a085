"""The pages of groups, completions and texts, as rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_run import FakeRun, run_of, verl_lines, verl_rows
from painted import check_rows, text_of
from rollout_dumps import lines_of, plain_rows, write_verl
from tables import each_row

from rltop.model import Level
from rltop.pages.completions import (
    build_completions,
    paint_completion,
    paint_completions,
    place_of,
)
from rltop.pages.rollouts import build_rollouts, paint_rollouts
from rltop.pages.stragglers import build_stragglers, paint_stragglers
from rltop.pages.timing import build_timing_page, paint_timing
from rltop.resources import folder
from rltop.rows.glyphs import ASCII, UNICODE, Glyphs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.table import Sorting, heads_of, next_sorting
from rltop.run.rollouts import RolloutShelf
from rltop.run.snapshot import Snapshot
from rltop.stats.groups import GroupSummary

FIXTURE = folder("fixtures") / "trl" / "grpo_straggler"
METRICS = b"".join(b'{"step": %d, "loss": 1.0, "reward": 0.5}\n' % step for step in range(1, 31))


def run_with(path: Path, data: bytes = METRICS, at: int | None = None) -> FakeRun:
    """A run with the rollouts in a file or a folder, read up to a step."""
    run = run_of(data)
    run.rollouts = RolloutShelf("metrics.jsonl", str(path), lambda: None)
    run.rollouts.settle(at)
    return run


def targets_of(rows: list[Row]) -> list[Target]:
    return [hot.target for row in rows for hot in row.links if hot.target.kind is not TargetKind.HEAD]


def pages(run: FakeRun, width: int, glyphs: Glyphs) -> list[list[Row]]:
    """Every page of the first group and its first completion."""
    view = build_rollouts(Snapshot(run))
    group = build_completions(view, "")
    painted = [paint_rollouts(view, width, glyphs), paint_completions(group, width, glyphs)]
    completion = group.completions[0] if group.completions else None
    shelf = run.rollouts
    if completion is not None and shelf is not None:
        shelf.text(completion)
        shelf.settle()
        text = shelf.text(completion)
        assert text is not None
        painted.append(paint_completion(group, 0, text, width, glyphs))
    return painted


def test_the_numbers_of_a_step_say_that_discarded_completions_are_not_in_them() -> None:
    run = run_with(folder("fixtures") / "prime_rl" / "rollouts", at=3)
    text = text_of(paint_rollouts(build_rollouts(Snapshot(run)), 80, UNICODE))
    assert "2 groups of 3 · 6 completions + 2 discarded" in text
    assert "discarded, not in these numbers: ToolError 2" in text


def test_the_most_uneven_group_is_first_and_leads_to_its_completions() -> None:
    run = run_with(FIXTURE / "rollouts.jsonl", at=125)
    view = build_rollouts(Snapshot(run, 125))
    ratios = [group.ratio for group in view.groups]
    assert ratios == sorted(ratios, key=lambda ratio: -(ratio or 0)) and (ratios[0] or 0) > 8
    rows = paint_rollouts(view, 120, UNICODE)
    assert "step 125   4 groups of 8 · 32 completions" in text_of(rows)
    targets = targets_of(rows)
    assert [target.name for target in targets] == [group.name for group in view.groups]
    assert {target.kind for target in targets} == {TargetKind.GROUP}
    group = build_completions(view, targets[0].name)
    rows = paint_completions(group, 120, UNICODE)
    assert "█" * 16 in text_of(rows) and "length" in text_of(rows)
    leads = targets_of(rows)
    assert {target.kind for target in leads} == {TargetKind.COMPLETION} and len(leads) == 8
    for i, target in enumerate(leads):
        assert group.find(place_of(target.name)) == (i, group.completions[i])


GROUP_VALUES: dict[str, Callable[[GroupSummary], object]] = {
    "ratio": lambda one: one.ratio,
    "max": lambda one: max(one.lengths),
    "reward": lambda one: one.reward_mean,
    "std": lambda one: one.reward_std,
    "trunc": lambda one: one.cut,
    "median": lambda one: one.middle,
    "group": lambda one: one.name,
}


@each_row("is_falling", [True, False])
@each_row("head", GROUP_VALUES)
def test_groups_are_sorted_by_any_column(head: str, is_falling: bool) -> None:
    run = run_with(FIXTURE / "rollouts.jsonl", at=125)
    view = build_rollouts(Snapshot(run, 125), Sorting(head, is_falling))
    values = [GROUP_VALUES[head](group) for group in view.groups]
    assert len(values) > 1 and values == sorted(values, reverse=is_falling)  # type: ignore[type-var]


@each_row("head", ["tokens", "reward", "advantage"])
def test_completions_are_sorted_by_any_column(tmp_path: Path, head: str) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(plain_rows([30])))
    group = build_completions(build_rollouts(Snapshot(run_with(path))), "0", Sorting(head))
    values = [getattr(each, head) for each in group.completions]
    assert values == sorted(values, reverse=True)


@each_row(
    ("width", "heads"),
    [(120, "group n ratio max median Gini reward std trunc"), (56, "group n ratio max median Gini reward trunc")],
)
def test_the_order_key_passes_over_columns_that_are_not_shown(width: int, heads: str) -> None:
    view = build_rollouts(Snapshot(run_with(FIXTURE / "rollouts.jsonl", at=125), 125))
    shown = heads_of(paint_rollouts(view, width, UNICODE))
    seen, order = [], next_sorting(shown, None)
    while order is not None:
        seen.append(order.head)
        order = next_sorting(shown, order)
    assert seen == heads.split()


def test_on_80_columns_every_completion_of_a_group_of_eight_has_its_bar() -> None:
    view = build_rollouts(Snapshot(run_with(FIXTURE / "rollouts.jsonl", at=125), 125))
    rows = paint_rollouts(view, 80, UNICODE)
    bars = [piece.text for row in rows for piece in row.line if piece.role == "spark"]
    assert len(bars) == 4 and all(len(each.strip()) == 8 for each in bars)


HOSTILE = [
    {"step": 30, "group": "a\x1b[31m\nb\u202e", "sample": "\x07", "reward": 1, "stop_reason": "\x1b]0;x\x07",
     "completion_tokens": 5, "completion": "\x1b[2J\tred\r\nnext\u2028line 漢字" * 30,
     "prompt": "e\u0301" * 40 + "\n\n"},
    {"step": 30, "group": "a\x1b[31m\nb\u202e", "reward": -1e300, "completion_tokens": 10**12,
     "completion": "w" * 5000},
    {"step": 30, "group": "a\x1b[31m\nb\u202e", "reward": 1e99, "completion_tokens": 0},
    {"step": 30, "completion": "", "messages": [{"role": "\x1b", "content": None}], "reward": None},
]  # fmt: skip


@each_row("width", [40, 52, 80, 97, 120, 200])
@each_row("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_no_row_is_wider_than_the_screen_and_nothing_hostile_is_drawn(
    tmp_path: Path, width: int, glyphs: Glyphs
) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(HOSTILE))
    dumps = [path, FIXTURE / "rollouts.jsonl", write_verl(tmp_path / "verl", [1], has_uid=True)]
    for dump in dumps:
        for rows in pages(run_with(dump), width, glyphs):
            check_rows(rows, width, glyphs)


def test_a_text_keeps_its_line_breaks_and_loses_no_character(tmp_path: Path) -> None:
    words = " ".join(f"word{i}" for i in range(300)) + "\n\n  indented\n" + "x" * 333
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of([{"step": 1, "group": "g", "prompt": "p", "completion": words}]))
    for width in (40, 80, 133):
        rows = text_of(pages(run_with(path), width, UNICODE)[2]).splitlines()
        start = next(i for i, row in enumerate(rows) if "── completion" in row)
        shown = [row[1:] for row in rows[start + 1 :]]
        assert "".join("".join(shown).split()) == "".join(words.split())
        assert "" in shown and "  indented" in shown


def test_of_a_text_without_end_the_beginning_and_the_end_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of([{"step": 1, "group": "g", "completion": "begin " + "y" * 900_000 + " end"}]))
    text = text_of(pages(run_with(path), 120, UNICODE)[2])
    assert "begin" in text and text.endswith("end") and "500,010 characters omitted" in text


def test_characters_are_said_to_be_characters(tmp_path: Path) -> None:
    run = run_with(write_verl(tmp_path / "dump", [30], has_uid=True))
    text = text_of(paint_rollouts(build_rollouts(Snapshot(run)), 80, UNICODE))
    assert "are in characters" in text
    texts = ["word " * 10] * 7
    rows = [
        {"input": group, "output": text} for group in "ab" for text in (*texts, "word " * (126 if group == "b" else 12))
    ]
    path = tmp_path / "uneven" / "30.jsonl"
    path.parent.mkdir()
    path.write_bytes(lines_of(rows))
    rows_of_page = paint_rollouts(build_rollouts(Snapshot(run_with(path.parent))), 80, UNICODE)
    (flagged,) = [line for line in text_of(rows_of_page).splitlines() if "▲" in line]
    assert "12.6" in flagged


def test_where_nothing_is_found_it_says_how_to_get_it(tmp_path: Path) -> None:
    run = run_of((FIXTURE / "metrics.jsonl").read_bytes())
    assert "looking for" in text_of(paint_rollouts(build_rollouts(Snapshot(run)), 80, UNICODE))
    run.rollouts = RolloutShelf(str(tmp_path / "metrics.jsonl"), "", lambda: None)
    run.rollouts.settle()
    rows = paint_rollouts(build_rollouts(Snapshot(run)), 80, UNICODE)
    text = text_of(rows)
    assert text.index("log_completions=True") < text.index("trainer.rollout_data_dir") and "--rollouts" in text
    assert re.search(r"prime-rl +on by default\n", text)
    run.rollouts = RolloutShelf(str(tmp_path / "metrics.jsonl"), "nowhere/*.jsonl", lambda: None)
    run.rollouts.settle()
    assert "nothing matches nowhere/*.jsonl" in text_of(paint_rollouts(build_rollouts(Snapshot(run)), 80, UNICODE))


def test_another_step_than_the_cursors_says_so(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(plain_rows([10, 20])))
    run = run_with(path, at=17)
    assert "nearest to step 17" in text_of(paint_rollouts(build_rollouts(Snapshot(run, 17)), 80, UNICODE))
    run = run_with(path)
    assert "newest step of the dump" in text_of(paint_rollouts(build_rollouts(Snapshot(run)), 80, UNICODE))


def test_the_overview_takes_its_measure_from_the_completions_where_nobody_logs_one(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(plain_rows([30])))
    run = run_with(path)
    found = build_stragglers(Snapshot(run))
    assert found is not None and found.is_from_rollouts and found.group_size == 4
    assert found.reading.ratio == pytest.approx((30 + 1 + 1) / 3)
    rows = paint_stragglers(found, 80, 2, UNICODE)
    assert "from rollouts" in text_of(rows)
    measured = found._replace(unit="characters", is_older=True, level=Level.WARN, since_step=12_345, start=2.5)
    for width in (70, 80, 100, 120):
        assert "in characters" in text_of(paint_stragglers(measured, width, 2, UNICODE))
    assert {target.kind for target in targets_of(rows)} == {TargetKind.STRAGGLERS}


def test_what_the_trainer_logs_goes_before_the_completions() -> None:
    run = run_with(FIXTURE / "rollouts.jsonl", (FIXTURE / "metrics.jsonl").read_bytes(), 125)
    found = build_stragglers(Snapshot(run, 125))
    assert found is not None and not found.is_from_rollouts and found.has_rollouts and found.key
    view = build_rollouts(Snapshot(run, 125))
    assert found.reading.ratio == pytest.approx(view.shelved.summary.ratio_mean, rel=1e-6)


def test_what_the_trainer_logs_is_held_against_what_is_usual_for_the_groups_of_the_dump(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(plain_rows([30], size=8)))
    lines = b"".join(
        b'{"step": %d, "loss": 1.0, "reward": 0.5, "group_length_max_median_ratio_mean": 2.0}\n' % step
        for step in range(1, 31)
    )
    found = build_stragglers(Snapshot(run_with(path, lines)))
    assert found is not None and not found.is_from_rollouts and found.group_size == 8
    text = text_of(paint_stragglers(found, 120, 2, UNICODE))
    assert "typical for group size 8" in text and "set group_size" not in text


def test_a_dump_that_is_far_behind_does_not_speak_for_the_step(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(plain_rows([30])))
    keys = '"completions/mean_length": 10, "completions/max_length": 40, "completions/clipped_ratio": 0.0, "reward": 1'
    for last, is_from_rollouts in ((45, True), (90, False)):
        rows = "".join(f'{{"step": {step}, "epoch": 0.1, {keys}}}\n' for step in range(1, last + 1))
        found = build_stragglers(Snapshot(run_with(path, rows.encode())))
        assert found is not None and found.has_rollouts and found.is_from_rollouts is is_from_rollouts


def test_prompts_are_shown_where_they_differ(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    frame = "system\nYou solve problems, step by step. " * 20, "\nanswer\n"
    rows = [
        {"step": 1, "prompt": f"{frame[0]}What is {number} + 1?{frame[1]}", "completion": str(i)}
        for number in (17, 23, 5)
        for i in range(2)
    ]
    path.write_bytes(lines_of(rows))
    view = build_rollouts(Snapshot(run_with(path)))
    assert sorted(view.prompts.values()) == ["17", "23", "5"]
    text = text_of(paint_rollouts(view, 80, UNICODE))
    assert "helpful" not in text and all(f" {number}\n" in text + "\n" for number in (17, 23, 5))


def test_short_prompts_are_shown_whole(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of([{"step": 1, "prompt": f"add {i} and 1", "completion": "?"} for i in range(3)]))
    assert set(build_rollouts(Snapshot(run_with(path))).prompts.values()) == {f"add {i} and 1" for i in range(3)}


def test_the_timing_page_leads_to_the_completions_where_there_are_any(tmp_path: Path) -> None:
    data = verl_lines(verl_rows(30))
    for run, has_row in ((run_of(data), False), (run_with(FIXTURE / "rollouts.jsonl", data), True)):
        targets = targets_of(paint_timing(build_timing_page(Snapshot(run)), 80, None, UNICODE))
        assert (Target(TargetKind.STRAGGLERS) in targets) is has_row
