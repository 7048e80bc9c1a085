"""Thresholds and mutes set on the screen: what holds for a run, what is kept, and what every command goes by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.cli import main
from rltop.run import preferences
from rltop.run.preferences import MUTE, RuleScope

RULES = st.sampled_from(["O1", "T2", "O11"])
SAID = st.tuples(st.sampled_from([MUTE, "warn"]), st.floats(1e-9, 1e9), st.booleans())


@examples(20)
@given(st.lists(st.tuples(st.sampled_from(list(RuleScope)), RULES, SAID), max_size=12))
def test_what_is_set_is_kept_and_the_nearest_wins(tmp_path_factory: pytest.TempPathFactory, said: list) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}
    path = '/home/a "b"/chess/run/metrics.jsonl'
    expected: dict = {}
    for scope, rule, (name, number, switch) in said:
        value = switch if name == MUTE else number
        told = preferences.with_rule(preferences.load_rules(environment), scope.place(path), rule, name, value)
        preferences.save_rules(told, environment)
        expected[rule, name, scope] = value
    found = preferences.own_rules_of(path, preferences.load_rules(environment))
    for rule, name in {(rule, name) for rule, name, _ in expected}:
        nearest = next(scope for scope in RuleScope if (rule, name, scope) in expected)
        assert found[rule][name] == (expected[rule, name, nearest], nearest)
    assert sum(map(len, found.values())) == len({(rule, name) for rule, name, _ in expected})


def test_what_is_taken_back_is_gone_and_nothing_else(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    told = preferences.with_rule({}, "everywhere", "O1", "warn", 8.0)
    told = preferences.with_rule(told, "/a/b", "O1", MUTE, True)
    preferences.save_rules(told, environment)
    assert preferences.load_rules(environment) == {"everywhere": {"O1": {"warn": 8.0}}, "/a/b": {"O1": {MUTE: True}}}
    assert preferences.with_rule(told, "/a/b", "O1", MUTE, None) == {"everywhere": {"O1": {"warn": 8.0}}}
    assert preferences.with_rule(told, "everywhere", "O1", "", None) == {"/a/b": {"O1": {MUTE: True}}}


@each_row(
    "text",
    ["", "[everywhere", "everywhere = 3", '[everywhere.O1]\nwarn = "8"\nno_such = 1\n', "[everywhere.NO]\nwarn = 1\n",
     "[everywhere.O1]\nmute = 1\nwarn = nan\n", "[everywhere]\nO1 = 2\n"],
)  # fmt: skip
def test_what_is_no_threshold_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "rltop").mkdir()
    (tmp_path / "rltop" / preferences.RULES_FILE).write_text(text)
    assert not preferences.load_rules({"XDG_STATE_HOME": str(tmp_path)})


def test_what_was_set_of_a_former_rule_holds_for_its_heir_or_is_said_to_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "rltop").mkdir()
    text = (
        "[everywhere.M3]\nwarn = 0.5\n[everywhere.T7]\nmute = true\nrise = 2\n[everywhere.O7]\nmute = true\nwarn = 3\n"
    )
    (tmp_path / "rltop" / preferences.RULES_FILE).write_text(text)
    assert preferences.load_rules() == {"everywhere": {"M1": {"prob_warn": 0.5}}}
    assert main(["config"]) == 0
    told = capsys.readouterr().err
    assert "T7 mute (everywhere) has no effect: T7 is part of T4 now: set mute of T4, for both" in told
    assert "T7 rise" in told and "O7 warn (everywhere) has no effect: there is no rule O7 any more" in told
    assert "O7 mute (everywhere) has no effect: there is no rule O7 any more" in told
    assert "M3" not in told and told.count("has no effect") == 4


def test_a_number_that_is_none_for_its_threshold_is_said_to_be_lost(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    (tmp_path / "rltop").mkdir()
    text = "[everywhere.P1]\nwarn = 0\ncreep = 9\n[everywhere.T4]\ncrit = 0.5\n[everywhere.R4]\nlong = -5\n"
    (tmp_path / "rltop" / preferences.RULES_FILE).write_text(f"{text}[everywhere.R1]\nlasts = inf\n")
    assert preferences.load_rules(environment) == {"everywhere": {"P1": {"creep": 9.0}}}
    _, (zero, unshown, negative, endless) = preferences.read_rules(environment)
    assert zero == "P1 warn (everywhere) has no effect: it is 0, but must be greater than 0"
    assert unshown == "T4 crit (everywhere) has no effect: T4 is never shown above WARN"
    assert negative.startswith("R4 long (everywhere) has no effect: it is -5, but must be a whole number from 1")
    assert endless.startswith("R1 lasts (everywhere) has no effect: it is inf")


def test_what_no_rule_goes_by_is_said_to_be_lost(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    (tmp_path / "rltop").mkdir()
    text = "[everywhere.ZZ]\nmute = true\n[everywhere.R1]\nnone = 1\nmute = 3\n[everywhere.O3]\nn = 31\nm = 40\n"
    (tmp_path / "rltop" / preferences.RULES_FILE).write_text(f"{text}[everywhere.P16]\nn = 9\nm = 5\n")
    found, lost = preferences.read_rules(environment)
    assert found == {"everywhere": {"O3": {"n": 31, "m": 40}}}
    assert [line.replace(" (everywhere) has no effect", "") for line in lost] == [
        "ZZ mute: ZZ is no rule",
        "R1 none: R1 does not go by none",
        "R1 mute: it must be true or false",
        "P16 n: it is 9, but n cannot be more than m",
        "P16 m: it is 5, but n cannot be more than m",
    ]


def test_of_very_many_places_those_set_longest_ago_go(tmp_path: Path) -> None:
    told = preferences.with_rule({}, "everywhere", "O1", "warn", 8.0)
    for number in range(600):
        told = preferences.with_rule(told, f"/runs/{number}", "O1", MUTE, True)
    assert len(told) <= 500 and "everywhere" in told and "/runs/599" in told and "/runs/0" not in told


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of which the gradient norm jumps to 12 times its median."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "one" / "metrics.jsonl"
    file.parent.mkdir()
    rows = [
        {"step": n, "reward": 0.5 + n / 100, "loss": 0.2 + n % 5 / 50, "grad_norm": (12 if n >= 30 else 1) + n % 7 / 20}
        for n in range(36)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def told_by(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    main(arguments)
    return capsys.readouterr().out


def test_check_once_and_report_go_by_them_and_say_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "gradient spike" in told_by(["check", str(run)], capsys)
    preferences.save_rules({RuleScope.RUN.place(str(run)): {"O1": {"warn": 50.0, "info": 50.0}}})
    report = tmp_path / "report.md"
    for arguments in (["check", str(run)], ["--once", str(run)], ["report", str(run), "-o", str(report)]):
        text = told_by(arguments, capsys) + (report.read_text() if report.exists() else "")
        assert "gradient spike" not in text, arguments
        assert "thresholds of your own: O1 info 50 (this run), O1 warn 50 (this run)" in text, arguments
    document = json.loads(told_by(["check", "--json", str(run)], capsys))
    assert document["own_rules"]["O1"]["warn"] == {"value": 50.0, "for": "run"}
    assert "warn = 50 (default 5)" in told_by(["check", "--explain", "O1", str(run)], capsys)
    assert "# warn = 50.0" in told_by(["config"], capsys)


def test_a_mute_holds_for_the_project_and_not_for_another(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preferences.save_rules({RuleScope.PROJECT.place(str(run)): {"O1": {MUTE: True}}})
    assert "no alerts at the end" in told_by(["check", str(run)], capsys)
    assert "muted on the screen: O1" in told_by(["check", str(run)], capsys)
    preferences.save_rules({str(tmp_path / "elsewhere"): {"O1": {MUTE: True}}})
    assert "gradient spike" in told_by(["check", str(run)], capsys)
