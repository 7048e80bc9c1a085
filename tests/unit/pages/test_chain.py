"""The chain of a verdict: what moved first is found, and nothing is claimed that the series do not say."""

from __future__ import annotations

import json
import random
from copy import copy
from functools import cache

import pytest
from painted import check_rows, text_of
from tables import each_row

from rltop.model import RunState, Verdict
from rltop.pages.chain import ChainView, build_chain, line_cells, paint_chain
from rltop.pages.verdict import build_verdict
from rltop.report.text import check_text
from rltop.rows.glyphs import ASCII, UNICODE
from rltop.rows.rows import TargetKind
from rltop.run.snapshot import Snapshot
from tests.fake_run import FakeRun, a_verdict, run_of

ONSET = 200
FINGERPRINT = {"frac_reward_zero_std": 0.0, "completions/mean_length": 120.0, "reward_std": 0.2}
"""What only TRL's GRPO writes together."""


@cache
def trl_run(steps: int = 240, nan_at: int | None = None, faint: float = 4.0, **moves: int) -> FakeRun:
    """A GRPO run of TRL in which each metric named jumps to four times its level at its step; `faint`: the entropy."""
    dice = random.Random(7)
    levels = {"reward": 0.5, "entropy": 1.2, "grad_norm": 0.4, "learning_rate": 1e-6, "completions/mean_length": 120.0}
    lines = []
    for step in range(1, steps + 1):
        row: dict[str, object] = {"step": step, "reward_std": 0.2, "kl": 0.01, "num_tokens": step * 1000.0}
        for key, level in levels.items():
            noise = 1.0 if key == "learning_rate" else 1 + dice.gauss(0, 0.03)
            began = moves.get(key.rsplit("/", 1)[-1])
            jump = faint if key == "entropy" else 4.0
            row[key] = level * noise * (jump if began is not None and step >= began else 1)
        if nan_at is not None and step >= nan_at:
            row["loss"] = float("nan")
        else:
            row["loss"] = dice.gauss(0, 0.01)
        lines.append(json.dumps(row))
    return run_of("\n".join(lines).encode() + b"\n")


def crash(**changes: object) -> Verdict:
    return a_verdict(
        "R1",
        family="reward",
        metric="reward_mean",
        key="reward",
        since_step=ONSET,
        since_record=ONSET,
        **changes,
    )


def chain(run: FakeRun, at: int | None = None, cells: int = 60) -> ChainView:
    return build_chain(Snapshot(run, at), crash(), cells)


def by_title(view: ChainView) -> dict[str, int | None]:
    return {link.title: link.records for link in view.links}


@pytest.mark.parametrize("lead", [3, 12, 25])
def test_what_moved_first_is_first_and_by_how_many_records(lead: int) -> None:
    view = chain(trl_run(reward=ONSET, entropy=ONSET - lead, mean_length=ONSET + 6))
    records = by_title(view)
    assert records["entropy"] == pytest.approx(-lead, abs=1)
    assert records["response length"] == pytest.approx(6, abs=1)
    assert records["learning rate"] is None
    assert view.first is not None
    assert view.links[view.first].title == "entropy"
    assert view.conclusion.startswith("entropy moved")
    assert "before reward" in view.conclusion


def test_what_moved_on_the_same_record_has_no_order() -> None:
    view = chain(trl_run(reward=ONSET, entropy=ONSET, grad_norm=ONSET))
    assert view.first is None
    assert "no telling which came first" in view.conclusion


def test_what_only_followed_is_no_cause() -> None:
    view = chain(trl_run(reward=ONSET, mean_length=ONSET + 9))
    assert view.first is None
    assert "none of these metrics moved before reward did" in view.conclusion
    assert "response length" in view.conclusion


def test_a_symptom_alone_is_said_to_be_alone() -> None:
    view = chain(trl_run(reward=ONSET))
    assert "none of these metrics clearly left" in view.conclusion
    assert not any(by_title(view).values())


def test_a_nan_before_is_a_link_of_its_own() -> None:
    view = chain(trl_run(reward=ONSET, nan_at=ONSET - 4))
    first = view.links[0]
    assert (first.title, first.records) == ("NaN/Inf", -4)
    assert first.signal.key == "loss"
    assert view.conclusion.startswith("NaN/Inf came 4 records before reward")


def test_a_learning_rate_that_changed_is_found() -> None:
    view = chain(trl_run(reward=ONSET, learning_rate=ONSET - 8))
    assert by_title(view)["learning rate"] == -8


def test_a_learning_rate_that_decays_is_no_cause() -> None:
    rows = [
        {"step": step, "reward": 0.8 if step < ONSET else 0.1, **FINGERPRINT,
         "learning_rate": 1e-6 if step < ONSET - 8 else 5e-7}
        for step in range(1, 241)
    ]  # fmt: skip
    run = run_of("".join(json.dumps(row) + "\n" for row in rows).encode())
    assert by_title(chain(run))["learning rate"] is None


def test_a_collapse_has_one_order_and_no_cause_that_did_not_move() -> None:
    dice = random.Random(3)

    def row(step: int, jumps: float) -> dict[str, object]:
        ill = step >= ONSET + 4
        return FINGERPRINT | {
            "step": step,
            "grad_norm": (40.0 if ONSET <= step < ONSET + 3 else 0.4) * (1 + dice.gauss(0, 0.05)),
            "reward": 0.05 if ill else 0.2 + step / 400 + dice.gauss(0, 0.02),
            "entropy": 3.0 if ill else 0.5 + dice.gauss(0, 0.01),
            "kl": 0.01 if step < ONSET + 1 else 0.03,
            "learning_rate": 1e-6 * (1 - step / 300) * (jumps if step >= ONSET else 1.0),
        }

    for jumps in (1.0, 1.8):
        run = run_of("".join(json.dumps(row(step, jumps)) + "\n" for step in range(1, 241)).encode())
        view = build_verdict(Snapshot(run), "X1")
        assert view.verdict.headline.endswith(": gradient, then reward, entropy")
        assert f"gradient norm at {ONSET}, then reward, entropy at {ONSET + 4}" in view.chain.conclusion
        assert "together" not in view.chain.conclusion
        named = [f"{one.name} {one.value:.0f}" for one in view.verdict.evidence if "from step" in one.name]
        assert [one for one in named if not one.startswith("lr")] == [
            f"grad_norm from step {ONSET}", f"reward_mean from step {ONSET + 4}", f"entropy from step {ONSET + 4}"
        ]  # fmt: skip
        is_told = jumps > 1.0
        assert ("a learning-rate change" in view.causes) is is_told
        assert ("learning_rate:" in check_text(Snapshot(run), width=200)) is is_told


def test_a_symptom_does_not_move_after_its_own_onset() -> None:
    view = chain(trl_run(reward=ONSET + 7, entropy=ONSET - 8))
    assert (view.subject.moved.step, view.subject.records) == (ONSET, 0)


def test_a_symptom_has_its_numbers_of_its_own_onset_not_of_an_earlier_move() -> None:
    rows = [
        {"step": step, "reward": (10.0 if step < ONSET - 25 else 90.0 if step < ONSET else 20.0) + step % 3}
        for step in range(1, 241)
    ]
    view = chain(run_of("".join(json.dumps(row) + "\n" for row in rows).encode()))
    moved = view.subject.moved
    assert (round(moved.before, -1), round(moved.after, -1), moved.step) == (90.0, 20.0, ONSET) and moved.score < 0.0


def test_a_young_run_says_that_it_cannot_tell() -> None:
    run = trl_run(steps=12)
    view = build_chain(
        Snapshot(run), a_verdict("R1", family="reward", metric="reward_mean", key="reward", since_step=4), 60
    )
    assert "not enough history" in view.conclusion
    assert view.first is None


def test_the_time_cursor_hides_what_came_after_it() -> None:
    run = trl_run(reward=ONSET, entropy=ONSET + 5)
    assert by_title(chain(run))["entropy"] == pytest.approx(5, abs=1)
    assert by_title(chain(run, at=ONSET + 3))["entropy"] is None


def test_what_is_not_logged_is_named_and_not_shown() -> None:
    view = chain(trl_run(reward=ONSET))
    assert "clip fraction" in view.missing
    assert "clip fraction" not in by_title(view)
    rows = [{"step": step, "reward": min(step, 60) / 60} for step in range(1, 241)]
    alone = chain(run_of("".join(json.dumps(row) + "\n" for row in rows).encode()))
    assert alone.subject is not None and not alone.links
    assert alone.conclusion == "this run logs no other related metric"


def test_a_metric_that_is_shown_is_not_said_to_be_missing_under_the_same_name() -> None:
    rows = [
        {"step": step, "loss": 1 / step, "rewards/accuracies": 1 - 1 / step, "eval_loss": 0.5 + step / 300}
        for step in range(1, 241)
    ]
    run = run_of("".join(json.dumps(row) + "\n" for row in rows).encode())
    alert = a_verdict("D3", family="validation", metric="val_loss", key="eval_loss", since_step=ONSET)
    view = build_chain(Snapshot(run), alert, 60)
    assert "pair accuracy" in by_title(view) and "pair accuracy" not in view.missing


@each_row("width", [40, 56, 60, 80, 100, 104, 120, 150, 200])
@each_row("glyphs", [UNICODE, ASCII])
def test_charts_stand_under_one_another_and_rows_fit(width: int, glyphs: object) -> None:
    cells = line_cells(width)
    view = build_chain(Snapshot(trl_run(reward=ONSET, entropy=ONSET - 12)), crash(), cells)
    rows = paint_chain(view, width, glyphs)  # type: ignore[arg-type]
    check_rows(rows, width, glyphs)
    upright = "│" if glyphs is UNICODE else ":"
    charts = [row.text for row in rows if row.links]
    places = {text.rindex(upright) for text in charts} if cells else set()
    assert len(places) <= 1
    assert bool(places) == bool(cells)


@each_row(
    ("at", "state", "end"), [(None, RunState.LIVE, "now"), (None, RunState.ENDED, "end"), (220, RunState.LIVE, "220")]
)
def test_the_charts_end_now_only_where_rows_go_on_coming(at: int | None, state: RunState, end: str) -> None:
    run = copy(trl_run(reward=ONSET))
    run.state = state
    (head,) = [row for row in paint_chain(chain(run, at), 120, UNICODE) if " 200 " in row.text]
    assert head.text.endswith(f"─ {end}")


def test_enter_opens_each_link() -> None:
    view = chain(trl_run(reward=ONSET))
    hot = [hot.target for row in paint_chain(view, 120, UNICODE) for hot in row.links]
    assert [target.name for target in hot] == ["reward", *(link.signal.key for link in view.links if link.signal)]
    assert {target.kind for target in hot} == {TargetKind.METRIC}


def test_a_line_that_drifts_is_neither_unchanged_nor_first() -> None:
    dice = random.Random(3)
    rows = [
        {"step": step, "reward": 0.5 + dice.gauss(0, 0.01), "entropy": 3.0 - 0.012 * step + dice.gauss(0, 0.01),
         "completions/clipped_ratio": 0.5 if step >= 180 else 0.0}
        for step in range(1, 241)
    ]  # fmt: skip
    run = run_of("".join(json.dumps(row) + "\n" for row in rows).encode())
    verdict = a_verdict("E1", family="entropy", metric="entropy", key="entropy", since_step=ONSET)
    view = build_chain(Snapshot(run), verdict, 60)
    assert view.subject.moved.is_drift
    assert view.first is None
    assert "truncated moved 20 records before the onset" in view.conclusion
    assert "entropy was already drifting" in view.conclusion
    text = text_of(paint_chain(view, 120, UNICODE))
    assert "drifting" in text
    assert "σ" in text


@pytest.mark.parametrize("late", [0, 20])
def test_a_reward_of_one_part_is_said_once(late: int) -> None:
    lines = []
    dice = random.Random(2)
    for step in range(1, 241):
        reward = (0.8 if step < ONSET + late else 0.1) + dice.gauss(0, 0.01)
        row = {"step": step, "reward": reward, "rewards/right/mean": reward, "entropy": 1.0, **FINGERPRINT}
        lines.append(json.dumps(row) + "\n")
    run = run_of("".join(lines).encode())
    assert run.identity.primary("reward_component") is not None
    view = chain(run)
    assert "reward component" not in by_title(view)
    assert "none of these metrics clearly left" in view.conclusion


def test_two_that_stand_still_are_still_two() -> None:
    view = chain(trl_run(reward=ONSET))
    assert {"entropy", "learning rate", "gradient norm"} <= set(by_title(view)) | {"gradient norm"}
    assert "learning rate" in by_title(view)


def test_a_symptom_whose_line_shows_nothing_is_never_said_to_have_moved() -> None:
    run = trl_run(entropy=ONSET)
    view = chain(run)
    assert view.subject.records is None
    assert "with the onset" in view.conclusion
    text = text_of(paint_chain(view, 120, UNICODE))
    assert "no clear change" in text


def test_a_learning_rate_that_changed_with_it_is_no_consequence() -> None:
    view = chain(trl_run(reward=ONSET, learning_rate=ONSET))
    assert "no telling which came first" in view.conclusion
    assert "it did not follow" in view.conclusion


def test_the_part_of_a_reward_that_fell_is_the_subject() -> None:
    lines = []
    for step in range(1, 241):
        row = {"step": step, "reward": 0.5, "rewards/format/mean": 0.5, "rewards/right/mean": 0.6, **FINGERPRINT}
        lines.append(json.dumps(row) + "\n")
    verdict = a_verdict("R10", family="reward", metric="reward_component", key="rewards/right/mean", since_step=ONSET)
    view = build_chain(Snapshot(run_of("".join(lines).encode())), verdict, 60)
    assert (view.subject.title, view.subject.signal and view.subject.signal.key) == ("right", "rewards/right/mean")


@each_row(("early", "other"), [(4, 4), (9, 5)])
def test_a_symptom_does_not_move_before_its_own_onset(early: int, other: int) -> None:
    view = chain(trl_run(reward=ONSET - early, entropy=ONSET - other, mean_length=ONSET + 6))
    assert (view.subject.moved.step, view.subject.records) == (ONSET, 0)
    assert by_title(view)["entropy"] == pytest.approx(-other, abs=1)
    assert view.conclusion.startswith(f"entropy moved {other} records before reward")


def test_every_page_of_an_incident_has_the_steps_at_which_the_rules_date_it() -> None:
    dice = random.Random(5)

    def row(step: int) -> dict[str, object]:
        return FINGERPRINT | {
            "step": step,
            "grad_norm": (0.35 if step < ONSET else 2.9) * (1 + dice.gauss(0, 0.05)),
            "entropy": (0.5 if step < ONSET + 3 else 0.25 if step < ONSET + 9 else 0.01) * (1 + dice.gauss(0, 0.02)),
            "reward": (0.5 if step < ONSET + 6 else 0.04) + dice.gauss(0, 0.02),
            "kl": (0.014 if step < ONSET + 4 else 0.05 if step < ONSET + 12 else 1.9) * (1 + dice.gauss(0, 0.05)),
        }

    run = run_of("".join(json.dumps(row(step)) + "\n" for step in range(1, 261)).encode())
    alone = [one for one in run.verdicts if one.family != "collapse" and one.since_step >= ONSET]
    since = {one.metric: one.since_step for one in reversed(alone)}
    assert {"grad_norm", "entropy", "reward_mean"} <= since.keys()
    for verdict in alone:
        view = build_chain(Snapshot(run), verdict, 60)
        assert view.subject.records == 0
        for link in view.links:
            if link.signal is not None and link.moved.step is not None and link.signal.metric.name in since:
                assert link.moved.step == since[link.signal.metric.name], (verdict.rule, link.title)
                assert link.records == link.moved.step - verdict.since_step


def test_a_faint_move_before_is_not_nothing() -> None:
    view = chain(trl_run(reward=ONSET, entropy=ONSET - 8, faint=1.15))
    assert "entropy moved, but by less than 6 sigma" in view.conclusion
    view = chain(trl_run(reward=ONSET, entropy=ONSET - 8, mean_length=ONSET + 6, faint=1.15))
    assert "entropy moved 8 records before reward, but by less than" in view.conclusion
    assert "none of these metrics moved before" not in view.conclusion
