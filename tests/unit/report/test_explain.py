"""Rules in words: complete for every rule, true to the configuration, and to what a run showed."""

from __future__ import annotations

import json
import math

import pytest
from fake_run import firing_run, run_of
from tables import each_row

from rltop.errors import RltopError
from rltop.report.document import dumps
from rltop.report.explain import algorithms, applies_to, explain_text, find_rule, rule_document
from rltop.report.text import check_text
from rltop.rows.glyphs import cell_width
from rltop.rules.options import EngineOptions
from rltop.rules.registry import ALL_SPECS, BY_ID, DOCUMENTED
from rltop.rules.rule import RuleSpec
from rltop.rules.words import words_of
from rltop.run.snapshot import Snapshot

OPTIONS = EngineOptions()


def flat(text: str) -> str:
    """Without the line breaks that the width made."""
    return " ".join(text.split())


@each_row("spec", ALL_SPECS, ids=lambda spec: spec.id)
def test_every_rule_explains_itself(spec: RuleSpec) -> None:
    text = explain_text(spec, OPTIONS, width=80)
    assert all(cell_width(line) <= 80 and line == line.rstrip() for line in text.splitlines())
    said = flat(text)
    words = words_of(spec.id)
    texts = (*words.condition, words.why, words.sources, *words.causes, *words.next)
    for part in (spec.id, spec.title, *spec.metrics, *texts):
        assert flat(part) in said
    for name, value in spec.thresholds.items():
        assert f"{name} = {value:g}" in said
    lasting = said.partition("must last ")[2].partition("; recovers")[0]
    assert all(level in " ".join(words.condition) for level in ("INFO", "WARN", "CRIT") if level in lasting)
    assert algorithms(spec)
    assert json.loads(dumps(dict(rule_document(spec, OPTIONS))))["rule"] == spec.id


def test_a_rule_says_whether_it_judges_unknown_algorithms() -> None:
    assert " DQN and unknown algorithms: the policy" in applies_to(BY_ID["E4"])
    assert "reward model" in applies_to(BY_ID["D1"]) and "unknown" not in applies_to(BY_ID["D1"])


def test_the_table_has_every_rule_in_order() -> None:
    lines = explain_text(None, OPTIONS, width=100).splitlines()
    assert [line.split()[0] for line in lines if line[1:4].strip()] == ["rule", *(spec.id for spec in DOCUMENTED)]
    assert all(cell_width(line) <= 100 for line in lines)


def test_thresholds_are_those_of_the_configuration() -> None:
    changed = EngineOptions(rules={"O1": {"warn": 7.5}, "P1": {"enabled": False}})
    usual = BY_ID["O1"].thresholds["warn"]
    assert f"warn = 7.5 (default {usual:g})" in explain_text(BY_ID["O1"], changed)
    assert "disabled" in explain_text(BY_ID["P1"], changed).splitlines()[0]
    assert rule_document(BY_ID["O1"], changed)["thresholds"]["warn"] == 7.5


def test_a_profile_shows_in_the_thresholds() -> None:
    moe, gspo = EngineOptions(profiles=("moe",)), EngineOptions(profiles=("gspo",))
    assert f"warn = 0.02 (default {BY_ID['M1'].thresholds['warn']:g})" in explain_text(BY_ID["M1"], moe)
    assert "warn = inf (default 0.05)" in explain_text(BY_ID["O6"], gspo)


@each_row(("typed", "rule"), [("O1", "O1"), ("o1", "O1"), ("l1B", "L1")])
def test_a_rule_is_found_by_its_id(typed: str, rule: str) -> None:
    assert find_rule(typed).id == rule


@each_row(("typed", "hint"), [("O111", "O1"), ("gradient spik", "O1"), ("\x1b[2J", "--rules")])
def test_a_rule_that_does_not_exist_is_refused_with_the_nearest(typed: str, hint: str) -> None:
    with pytest.raises(RltopError) as refused:
        find_rule(typed)
    assert hint in str(refused.value) and "\x1b" not in str(refused.value)


def test_what_a_rule_saw_is_told_with_the_keys_of_the_trainer() -> None:
    text = explain_text(BY_ID["T2"], OPTIONS, Snapshot(firing_run()), width=200)
    said = flat(text.partition(" in ")[2])
    assert "response_length/mean" in said and "1,204 values" in said
    assert "alert CRIT" in said and "evidence" in said and "raised" in said


def test_a_rule_that_says_nothing_of_a_run_says_why() -> None:
    rows = [{"step": i, "loss": 0.1, "grad_norm": math.nan if i == 25 else 1.0} for i in range(1, 41)]
    run = run_of("".join(json.dumps(row) + "\n" for row in rows).encode())
    assert "1 not finite" in flat(explain_text(BY_ID["O1"], OPTIONS, Snapshot(run), width=200))
    assert "not logged truncated_frac" in flat(explain_text(BY_ID["T1"], OPTIONS, Snapshot(run), width=200))
    assert "its metrics are not logged" in explain_text(None, OPTIONS, Snapshot(run))
    assert "no metrics found" in explain_text(BY_ID["O1"], OPTIONS, Snapshot(run_of(b"no\n")))


def test_a_rule_that_is_not_for_a_run_says_for_which_it_is() -> None:
    said = {rule: flat(explain_text(BY_ID[rule], OPTIONS, Snapshot(firing_run()), width=200)) for rule in ("C3", "D1")}
    assert said["C3"].endswith(
        "applies no: the rule is for any algorithm: there is a critic (or the algorithm is unknown)"
    )
    assert said["D1"].endswith("applies no: the algorithm is GRPO; the rule is for DPO, KTO, reward model")
    rows = "".join(f'{{"step": {i}, "loss": 0.1, "kl": NaN, "grad_norm": NaN}}\n' for i in range(1, 41))
    blank = explain_text(BY_ID["O1"], OPTIONS, Snapshot(run_of(rows.encode())), width=200)
    assert "grad_norm (grad_norm): no finite value, 40 NaN, Inf or null" in flat(blank)
    with pytest.raises(RltopError, match="rule O7 is gone"):
        find_rule("o7")


def test_a_verdict_comes_with_its_numbers_and_with_what_to_look_at() -> None:
    text = check_text(Snapshot(firing_run()))
    verdict = text[text.index("CRIT T2") :].split("\n ◆")[0]
    assert "evidence" in verdict and "check" in verdict


def test_events_before_a_step_are_left_out_and_what_fires_is_not() -> None:
    run = firing_run()
    late = max(event.step for event in run.events)
    text = check_text(Snapshot(run), since=late)
    assert f"events since step {late:,}: 1" in text
    assert "CRIT T2" in text
    assert f"events since step {late + 1:,}: 0" in check_text(Snapshot(run), since=late + 1)
