"""What is said first where several things are as bad: what poisons the weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_run import a_verdict, run_of, verl_lines, verl_rows
from screens import session_over

from rltop import resources
from rltop.model import Level, VerdictState
from rltop.pages.alerts import build_badges
from rltop.pages.overview import build_overview, build_sentence
from rltop.run.snapshot import Snapshot

FIRING = resources.folder("fixtures") / "trl" / "grpo_straggler" / "metrics.jsonl"


@pytest.mark.parametrize("written", ["NaN", "Infinity"])
def test_a_loss_that_is_not_a_number_is_said_before_an_older_collapse(written: str, tmp_path: Path) -> None:
    lines = FIRING.read_text().splitlines()
    row = json.loads(lines[-1])
    next_row = json.dumps({**row, "step": row["step"] + 1, "loss": 17.125}).replace("17.125", written)
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join([*lines, next_row]) + "\n")
    session = session_over(path)
    session.drain()
    run = session.runs[0]
    standing = [verdict.rule for verdict in run.verdicts if verdict.level is Level.CRIT]
    assert standing[0] == "L1" and "R1" in standing
    for at in (None, row["step"] + 1):
        view = build_overview(Snapshot(run, at))
        assert view.sentence.target is not None and view.sentence.target.name == "L1"
        assert view.badges[0].badges[0].verdict.rule == "L1"


def test_order_among_equals() -> None:
    older = a_verdict("R1", Level.CRIT, since_record=5)
    poison = a_verdict("L1", Level.CRIT, family="nonfinite", since_record=50)
    mild = a_verdict("L1", Level.INFO, family="nonfinite", since_record=1)
    over = poison._replace(state=VerdictState.RECOVERED, recovered_step=60)
    collapse = a_verdict("X1", Level.CRIT, family="collapse", since_record=20)
    stays = a_verdict("R1", Level.CRIT, state=VerdictState.SETTLED, since_record=1)
    other = older._replace(stream="explorer", since_record=1)
    warned = a_verdict("X1", Level.WARN, family="collapse", since_record=20)
    begun = a_verdict("T1", Level.WARN, since_record=3)
    later = begun._replace(rule="O1", since_record=4)
    away = poison._replace(is_away=True)
    order = [poison, collapse, older, other, stays, away, warned, begun, later, mild, over]
    assert sorted(order[6:] + order[:6], key=lambda verdict: verdict.urgency) == order


def test_the_sentence_and_the_badges_do_not_depend_on_the_order_of_verdicts() -> None:
    run = run_of(verl_lines(verl_rows(60)))
    poison = a_verdict("L1", Level.CRIT, family="nonfinite", since_record=50)
    run.verdicts = [a_verdict("R1", Level.CRIT), poison]
    verdicts = Snapshot(run).standing
    said = build_sentence(Snapshot(run), verdicts, None, None)
    assert said.target is not None and said.target.name == "L1"
    assert build_badges(Snapshot(run), verdicts)[0].badges[0].verdict.rule == "L1"


def test_what_somebody_has_acknowledged_comes_behind_what_is_new() -> None:
    run = run_of(verl_lines(verl_rows(60)))
    run.verdicts = [a_verdict("O1", Level.WARN)]
    run.set_aside = [a_verdict("R1", Level.CRIT)]
    (learning, _) = build_badges(Snapshot(run), Snapshot(run).standing)
    assert [(badge.verdict.rule, badge.aside) for badge in learning.badges] == [("O1", ""), ("R1", " acknowledged")]
