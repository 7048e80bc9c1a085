"""A symptom answers from the run's numbers, whether or not an alert stands."""

from __future__ import annotations

import itertools

from fake_run import firing_run, run_of, verl_lines
from tables import each_row

from rltop.pages.page import Moment
from rltop.pages.verdict import DOORS, SymptomPage
from rltop.rows.glyphs import ASCII, UNICODE, cell_width
from rltop.rows.rows import TargetKind
from rltop.rules.diagnosis import chains
from rltop.run.snapshot import Snapshot


def test_every_chain_has_its_words_and_no_others() -> None:
    assert set(DOORS) == set(chains())


@each_row("chain", sorted(DOORS))
def test_every_symptom_of_a_run_that_fails_and_of_an_empty_one(chain: str) -> None:
    for run in (firing_run(), run_of(verl_lines([]))):
        for width, glyphs in itertools.product((40, 80, 200), (UNICODE, ASCII)):
            rows = SymptomPage(chain).rows(Moment(Snapshot(run), glyphs), width, 24)
            assert all(cell_width(row.text) <= width for row in rows)


def test_alerts_stand_first_and_metrics_without_one_are_still_shown() -> None:
    lines = verl_lines((n, {"actor/kl_loss": 0.01, "actor/lr": 1e-6, "actor/entropy": 0.5}) for n in range(1, 60))
    quiet = SymptomPage("kl").rows(Moment(Snapshot(run_of(lines)), UNICODE), 120, 40)
    text = [row.text for row in quiet]
    assert "no alert of this symptom" in text[1] and any("actor/lr" in line for line in text)
    assert any(line.startswith(" not logged:") and "clip fraction" in line for line in text)
    loud = SymptomPage("kl").rows(Moment(Snapshot(firing_run()), UNICODE), 120, 40)
    assert loud[1].links[0].target.kind is TargetKind.VERDICT
    assert any(link.target.kind is TargetKind.METRIC for row in loud for link in row.links)


def test_the_symptom_itself_stands_first_and_no_check_is_claimed_where_it_is_not_logged() -> None:
    def lines(data: dict[str, float]) -> list[str]:
        run = run_of(verl_lines((n, {"actor/lr": 1e-6, **data}) for n in range(1, 60)))
        rows = SymptomPage("kl").rows(Moment(Snapshot(run), UNICODE), 120, 40)
        return [row.text for row in rows]

    logged = lines({"actor/kl_loss": 0.01})
    assert logged[4].strip().startswith("KL to reference")
    without = lines({})
    assert "KL to reference is not logged" in without[1] and "no alert of this symptom" not in without[1]
