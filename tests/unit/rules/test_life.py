"""The life of an alert on whole series: what came back, what stays elsewhere, what belongs together."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from observations import alarms, alone, identity, judged, learning, noisy, observation, play, series, step_up, the
from tables import each_row

from rltop.model import Action, Algorithm, EventState, Level, NonFinite, VerdictState
from rltop.rules.advice import review
from rltop.rules.engine import Engine
from rltop.rules.options import EngineOptions
from rltop.rules.registry import PARTS, SPECS
from rltop.rules.rule import Detector, RuleSpec

LEARNING = {"reward_mean": noisy(0.5, 0.05, 7)}


def said(engine: Engine, rule: str) -> list[tuple[int, str, str]]:
    return [(one.record, one.state.value, one.level.word) for one in engine.events if rule in {one.rule, one.part}]


@each_row(
    ("rule", "metrics"),
    [
        ("E1", {"entropy": step_up(0.253, 0.02, 81)}),
        ("O5", {"loss": step_up(0.05, 5.0, 81)}),
        ("E4", {"entropy": step_up(0.4, 1.6, 81)}),
        ("T2", {"response_len_mean": step_up(300.0, 1500.0, 81)}),
        ("O11", {"kl_ref": step_up(0.05, 1.5, 81)}),
        ("T6", {"num_turns_mean": step_up(3.0, 12.0, 81)}),
        ("A1", {"adv_max": step_up(2.0, 30.0, 81), "adv_min": noisy(-2.0)}),
    ],
)
def test_what_does_not_come_back_settles_and_is_never_called_recovered(rule: str, metrics: dict[str, Any]) -> None:
    engine = play(240, rules=alone(rule) if rule in PARTS else None, **metrics, **LEARNING)
    assert alarms(engine, rule), "it is raised"
    states = [state for _, state, _ in said(engine, rule)]
    assert "settled" in states
    assert "recovered" not in states
    verdict = the(engine, rule)
    assert verdict.state is VerdictState.SETTLED
    assert verdict.settled is not None
    assert " has stayed at " in verdict.headline and f"since step {verdict.since_step:,} (before: " in verdict.headline
    assert verdict.worst >= Level.WARN


def test_a_settled_one_keeps_its_level() -> None:
    entropy = step_up(0.253, 0.02, 81)
    kept = the(play(160, entropy=entropy, reward_mean=noisy(0.5, 0.05, 7)), "E1")
    assert (kept.state, kept.level) == (VerdictState.SETTLED, Level.CRIT)
    assert "has stayed at 0.0" in kept.headline
    assert "(before: 0.25" in kept.headline
    assert kept.headline.endswith("since step 81 (before: 0.255 nats)")


def test_a_logged_load_excuses_a_step_time_that_has_settled_and_is_said() -> None:
    throughput = {"throughput": step_up(1000.0, 480.0, 81)}
    engine = play(200, **throughput, **LEARNING)
    (rule,) = {one.rule for one in engine.events if one.state.value == "settled" and one.metric == "throughput"}
    assert the(engine, rule).level is Level.WARN
    busy = play(200, **throughput, response_len_mean=step_up(300.0, 620.0, 81), **LEARNING)
    (settled,) = [one for one in busy.events if rule in {one.rule, one.part} and one.state.value == "settled"]
    assert settled.level is Level.INFO
    assert "completion length 2" in settled.message


def test_what_comes_back_recovers_and_only_when_it_does() -> None:
    dip = {"entropy": lambda record: noisy(0.02 if 81 <= record < 105 else 0.25)(record)}
    states = said(play(160, **dip, **LEARNING), "E1")
    ended = next(record for record, state, _ in states if state == "recovered")
    assert 105 < ended < 115


def test_a_tenth_of_a_huge_jump_is_not_back() -> None:
    """Of a jump by 250, half of the way is 16 × the level before, not the rule's line for CRIT."""
    norm = noisy(0.24)
    engine = play(200, grad_norm=lambda r: norm(r) * (250 if 80 <= r < 84 else 33 if r >= 84 else 1), **LEARNING)
    states = [state for _, state, _ in said(engine, "O1")]
    assert "settled" in states
    assert "recovered" not in states


def test_a_settled_one_recovers_when_the_level_of_before_is_back() -> None:
    engine = play(240, entropy=lambda record: noisy(0.02 if 81 <= record < 160 else 0.25)(record), **LEARNING)
    assert [state for _, state, _ in said(engine, "E1")][-2:] == ["settled", "recovered"]


def test_leaving_a_settled_level_is_a_new_alarm() -> None:
    engine = play(
        240, loss=lambda record: noisy(0.05 if record < 81 else 5.0 if record < 150 else 900.0)(record), **LEARNING
    )
    assert [record for record, state, _ in said(engine, "O5") if state == "firing"] == [83, 153]


def test_a_crit_whose_condition_is_over_is_eased_and_coming_back_is_no_new_alarm() -> None:
    def cut(record: int) -> float:
        return 0.96 if 40 <= record < 60 or record >= 100 else 0.3 if record >= 60 else 0.05

    engine = play(130, truncated_frac=cut, **LEARNING)
    states = [(state, level) for _, state, level in said(engine, "T1")]
    assert states.count(("eased", "warn")) == 1
    assert ("resumed", "crit") in states
    assert [state for state, level in states if level == "crit"].count("escalated") <= 1
    assert len(alarms(engine, "T1")) <= 2


def test_the_sentence_has_the_present_value() -> None:
    engine = play(85, entropy=lambda record: 0.25 if record < 81 else 0.02 - record / 1e4, **LEARNING)
    assert "; now 0.01" in the(engine, "E1").headline


def test_a_rule_that_flaps_is_held_at_info() -> None:
    engine = play(1200, kl_old=lambda record: 0.05 if record % 150 < 8 and record > 50 else 0.001, **LEARNING)
    assert len(alarms(engine, "O9")) == 3
    later = [level for record, state, level in said(engine, "O9") if state == "firing" and record > 550]
    assert later
    assert set(later) == {"info"}


@pytest.mark.parametrize(("back_to", "ended"), [(100, False), (70, True)])
def test_a_restart_after_the_onset_keeps_what_was_before(back_to: int, ended: bool) -> None:
    engine = Engine(identity(), EngineOptions())
    for one in series(104, entropy=step_up(0.25, 0.02, 81), **LEARNING):
        engine.observe(one)
    for record in range(105, 160):
        values = {"entropy": noisy(0.02)(record), "reward_mean": noisy(0.5, 0.05, 7)(record)}
        engine.observe(observation(record, values, segment=1, step=back_to + record - 105))
    states = [state for _, state, _ in said(engine, "E1")]
    assert ("recovered" in states) is ended
    assert any("left behind by a restart" in one.message for one in engine.events) is ended
    assert (states[-1] == "settled") is not ended


def test_alarms_that_begin_together_are_one_incident_with_the_first_mover() -> None:
    engine = play(
        110, entropy=step_up(0.5, 0.02, 81), grad_norm=step_up(0.5, 60.0, 82), truncated_frac=step_up(0.02, 0.95, 84),
        kl_old=step_up(0.001, 0.3, 104), **LEARNING,
    )  # fmt: skip
    numbers = {one.rule: one.incident for one in alarms(engine)}
    assert numbers["E1"] == numbers["O1"] == numbers["T1"] == 1
    assert numbers["O9"] == 2
    incident = the(engine, "T1").incident
    assert (incident.rule, incident.step) == ("E1", 81)


def test_advice_names_the_checkpoint_before_the_onset() -> None:
    entropy = step_up(0.25, 0.02, 81)
    engine = play(90, entropy=entropy, time_step=30.0, time_save=lambda r: 5.0 if r % 25 == 0 else 0.0, **LEARNING)
    advice = the(engine, "E1").advice
    assert (advice.action, advice.checkpoint) == (Action.GO_BACK, 75)
    assert advice.text.startswith("go back to checkpoint 75: ")
    without = the(play(90, entropy=entropy, **LEARNING), "E1").advice
    assert without.action is Action.STOP


def test_every_alarm_has_advice() -> None:
    engine = play(
        92, Algorithm.PPO, entropy=step_up(0.5, 0.02, 81), grad_norm=step_up(0.5, 60.0, 82),
        time_step=step_up(30.0, 90.0, 81), value_loss=step_up(0.1, 40.0, 81), **LEARNING,
    )  # fmt: skip
    standing = [one for one in engine.verdicts if one.is_active and one.level >= Level.WARN]
    assert len(standing) >= 3
    assert all(one.advice is not None for one in standing)


def test_an_absolute_line_is_quoted_without_a_baseline_that_is_beyond_it_too() -> None:
    ill = the(play(40, truncated_frac=noisy(0.7, 0.02), **LEARNING), "T1")
    assert "baseline 0" not in ill.headline
    assert ill.headline.endswith("; no healthy baseline")
    assert ill.baseline is None
    fallen_ill = the(play(60, truncated_frac=step_up(0.02, 0.7, 41), **LEARNING), "T1")
    assert "(baseline 2.0 %)" in fallen_ill.headline


def test_a_copy_settles_without_the_original() -> None:
    engine = play(109, entropy=step_up(0.25, 0.02, 81), **LEARNING)
    shown = engine.verdicts
    twin = engine.clone()
    for one in list(series(160, entropy=step_up(0.25, 0.02, 81), **LEARNING))[109:]:
        twin.observe(one)
    assert the(twin, "E1").state is VerdictState.SETTLED
    assert engine.verdicts == shown
    for one in list(series(160, entropy=step_up(0.25, 0.02, 81), **LEARNING))[109:]:
        engine.observe(one)
    assert engine.verdicts == twin.verdicts


def test_a_settled_alert_is_left_out_while_it_is_muted_and_no_longer() -> None:
    engine = play(160, entropy=step_up(0.25, 0.02, 81), **LEARNING)
    before = the(engine, "E1")
    engine.mute("E1")
    assert not [one for one in engine.verdicts if one.rule == "E1"]
    assert [one.rule for one in engine.muted_verdicts] == ["E1"]
    engine.mute("E1", False)
    assert the(engine, "E1") == before


# -- what a sentence says ----------------------------------------------------------------------------------------------


def test_an_alert_at_info_has_the_present_value_too() -> None:
    cut = [0.02] * 12 + [0.45, 0.22, 0.41, 0.25, 0.44, 0.43] * 3 + [0.05] * 3
    engine = play(len(cut), rules={"T1": {"rise": 1.0}}, truncated_frac=cut, **LEARNING)
    verdict = the(engine, "T1")
    assert verdict.level is Level.INFO
    assert verdict.headline.endswith("; now 5.0 %"), verdict.headline


def test_durations_of_one_sentence_are_in_one_unit() -> None:
    seconds = lambda r: noisy(350.0, 0.02)(r) if r < 60 else 580.0 if r < 70 else 765.0  # noqa: E731
    headline = the(play(75, time_step=seconds, **LEARNING), "P1").headline
    assert "; now 765 s" in headline, headline
    at_once = the(play(70, time_step=lambda r: noisy(350.0, 0.02)(r) if r < 60 else 765.0, **LEARNING), "P1").headline
    assert "→ 765 s" in at_once, at_once


@each_row("first_ill", [5, 60])
def test_beside_an_absolute_line_stands_only_what_was_healthy_before(first_ill: int) -> None:
    """The thresholds of a profile are absolute lines as well."""
    rules = {"O6": {"alone_warn": 0.6, "alone_crit": 0.8}}
    clipped = lambda r: noisy(0.05, 0.05)(r) if r < first_ill else noisy(0.7, 0.05)(r)  # noqa: E731
    headline = the(play(first_ill + 45, rules=rules, clip_frac=clipped, **LEARNING), "O6").headline
    if first_ill == 5:
        assert "no healthy baseline" in headline, headline
        assert "baseline " not in headline.replace("no healthy baseline", ""), headline
    else:
        assert "baseline 5.0 %" in headline or "baseline 4.9 %" in headline, headline


def test_the_line_of_a_level_that_is_not_reached_is_not_lowered() -> None:
    """31 % and then 36.6 % are above the line of WARN (30 %), and never above that of CRIT (40 %)."""
    rules = {"O6": {"alone_warn": 0.3, "alone_crit": 0.4}}
    engine = play(60, rules=rules, clip_frac=lambda r: 0.1 if r < 30 else 0.31 if r < 40 else 0.366, **LEARNING)
    assert {one.level for one in alarms(engine, "O6")} == {Level.WARN}


def test_a_value_that_holds_an_alert_from_below_its_line_is_said_so() -> None:
    rules = {"O6": {"alone_warn": 0.3, "alone_crit": 0.9}}
    engine = play(60, rules=rules, clip_frac=lambda r: 0.1 if r < 30 else 0.35 if r < 40 else 0.27, **LEARNING)
    assert "clip fraction 35.0 % (baseline 10.0 %, threshold 30.0 %)" in (headline := the(engine, "O6").headline), (
        headline
    )
    assert headline.endswith("now 27.0 %"), headline


# -- settled -----------------------------------------------------------------------------------------------------------


def test_what_still_falls_has_not_settled_and_the_level_is_the_one_that_stays() -> None:
    def surge(record: int) -> float:
        level = 0.25 if record < 80 else 0.7 if record < 90 else 0.45 + 0.25 * 0.95 ** (record - 90)
        return level * noisy(1.0, 0.04)(record)

    engine = play(240, entropy=surge, reward_mean=noisy(0.5, 0.05, 7))
    settled = [one.record for one in engine.events if (one.rule, one.state.value) == ("E4", "settled")]
    assert settled
    assert settled[0] > 115
    levels = the(engine, "E4").settled
    assert levels.value == pytest.approx(0.45, rel=0.04)


# -- onsets and cooldown -----------------------------------------------------------------------------------------------


def test_an_alert_does_not_begin_at_a_lone_outlier() -> None:
    slow = {50: 1700.0}
    engine = play(70, time_step=lambda r: slow.get(r, noisy(350.0, 0.03)(r) if r < 54 else 640.0), **LEARNING)
    assert the(engine, "P1").since_record == 54


@each_row(("again", "how"), [(0.03, "resumed"), (0.3, "escalated")])
def test_only_what_is_worse_soon_after_a_recovery_is_a_new_alarm(again: float, how: str) -> None:
    step_kl = lambda r: 0.024 if 40 <= r < 46 else again if 56 <= r < 62 else 0.004  # noqa: E731
    told = said(play(62, kl_old=step_kl, **LEARNING), "O9")
    assert [(record, state) for record, state, _ in told if record >= 56] == [(57, how)]


def test_a_sentence_that_has_the_present_value_has_it_once() -> None:
    seconds = lambda r: noisy(10.0, 0.01)(r) if r < 60 else 11.0 if r < 90 else 10.02  # noqa: E731
    verdict = the(play(92, time_step=seconds, **LEARNING), "P1")
    assert verdict.headline.count("now ") == 1, verdict.headline
    assert "now 10.0 s" in verdict.headline


@pytest.mark.parametrize(("reward", "level"), [(0.0, Level.CRIT), (1.0, Level.INFO)])
def test_entropy_that_settles_at_nothing_is_harmless_only_with_the_reward_at_its_top(
    reward: float, level: Level
) -> None:
    metrics = {"reward_mean": learning, "zero_std_frac": lambda r: 0.1 if r < 81 else reward}
    verdict = the(play(200, entropy=step_up(0.253, 0.001, 81), **metrics), "E1")
    assert (verdict.state, verdict.level) == (VerdictState.SETTLED, level)


# -- what to do --------------------------------------------------------------------------------------------------------


def advice_of(engine: Engine, rule: str) -> str:
    advice = the(engine, rule).advice
    return advice.text


def test_a_gradient_norm_that_has_settled_beside_a_reward_that_rises_is_no_reason_to_stop() -> None:
    metrics = {"reward_mean": learning, "loss": 0.1, "kl_ref": 0.02}
    engine = play(200, grad_norm=step_up(0.5, 60.0, 81), **metrics)
    verdict = the(engine, "O1")
    assert (verdict.state, verdict.level) == (VerdictState.SETTLED, Level.CRIT)
    assert advice_of(engine, "O1").startswith("one update may be harmless; stop if loss"), verdict.advice


def test_where_nothing_moved_no_checkpoint_is_better() -> None:
    metrics = {"loss": 0.6, "time_step": 30.0, "time_save": lambda r: 5.0 if r == 2 else 0.0}
    text = advice_of(play(30, Algorithm.SFT, grad_norm=lambda r: 0.5 if r < 8 else 0.0, **metrics), "L3")
    assert text.startswith("stop the run: nothing moved"), text
    assert "trainable" in text


def test_what_was_cut_off_from_the_first_record_needs_a_limit_and_no_checkpoint() -> None:
    cut = {"truncated_frac": 1.0, "terminated_len_mean": 0.0, "response_len_mean": 384.0, "reward_mean": noisy(0.5)}
    for rule in ("T1", "T9"):
        engine = play(40, rules=alone(rule), **cut)
        assert "raise the length limit" in advice_of(engine, rule)
        after = review(the(engine, rule)).advice
        assert after.text.startswith("review: completions have been truncated")
        assert the(engine, rule).since_record == 1


def test_what_settled_keeps_the_advice_of_its_level() -> None:
    engine = play(200, reward_mean=step_up(0.9, -0.9, 81))
    assert the(engine, "R1").state is VerdictState.SETTLED
    assert advice_of(engine, "R1").startswith("stop")


def test_the_advice_after_a_critical_alert_is_not_that_of_a_warning() -> None:
    engine = play(60, Algorithm.DPO, grad_norm=lambda r: NonFinite.NAN if r > 40 else 0.5, loss=noisy(0.5))
    assert the(engine, "L1").level is Level.CRIT
    after = review(the(engine, "L1")).advice
    assert "harmless" not in after.text


def test_nothing_ends_since_something_should_have_ended() -> None:
    cut = {"truncated_frac": lambda r: 0.0 if r < 12 else 1.0, "terminated_len_mean": 0.0, "response_len_mean": 384.0}
    assert the(play(40, rules=alone("T9"), **cut, **LEARNING), "T9").since_record == 12


def test_what_is_over_is_reviewed_and_not_stopped() -> None:
    engine = play(90, entropy=step_up(0.25, 0.02, 81), truncated_frac=step_up(0.02, 0.95, 84), **LEARNING)
    for one in engine.verdicts:
        if one.advice is not None:
            after = review(one).advice
            assert after.action is Action.REVIEW
            assert "stop" not in after.text.split(":")[0]


# -- one fault, one alert ----------------------------------------------------------------------------------------------


def test_nothing_is_learned_by_heart_where_nothing_moves() -> None:
    def rules(gradient: float) -> set[str]:
        metrics = {"loss": 0.6, "dpo_accuracy": 1.0, "dpo_margin": noisy(0.2), "grad_norm": gradient}
        return {one.rule for one in play(60, Algorithm.DPO, **metrics).verdicts}

    assert "D2" in rules(0.5)
    assert "D2" not in rules(0.0)
    assert "L3" in rules(0.0)


@each_row(("also", "unit"), [({"episode_len": 20.0}, "nats/action"), ({}, "nats/token")])
def test_step_kl_of_a_policy_that_acts_is_per_action(also: dict[str, float], unit: str) -> None:
    engine = play(60, kl_old=step_up(0.004, 0.3, 40), **also, **LEARNING)
    assert unit in the(engine, "O9").headline


def test_a_column_that_names_another_run_is_no_restart() -> None:
    reward = noisy(0.5)
    rows = [{"algo": name, "step": step, "reward_mean": reward(step)} for name in ("PPO", "GRPO") for step in range(30)]
    rows = [{**row, "reward_mean": row["reward_mean"] + i / 1e3} for i, row in enumerate(rows)]
    said_of = [one.message for one in judged(rows) if one.rule == "L6"]
    assert said_of == ["another run begins at step 0: algo GRPO (was at 29)"]
    changing = [{"note": f"row {step}", "step": step % 30, "reward_mean": reward(step)} for step in range(60)]
    assert ["restarted" in one.message for one in judged(changing) if one.rule == "L6"] == [True]


def test_m9_the_second_run_of_a_file_has_a_first_update_too() -> None:
    rows = [
        {"algo": name, "step": step, "reward_mean": noisy(0.5)(step), "kl": 3.6 + wave + step / 1e3}
        for name, wave in (("PPO", 0.0), ("GRPO", 0.4))
        for step in range(30)
    ]
    raised = [one.step for one in judged(rows) if one.rule == "M9" and one.state is EventState.FIRING]
    assert raised == [1, 1]
    resumed = [{key: value for key, value in row.items() if key != "algo"} for row in rows]
    assert len([one for one in judged(resumed) if one.rule == "M9" and one.state is EventState.FIRING]) == 1


def test_the_lowest_reward_is_no_level_to_come_back_to() -> None:
    rewards = lambda r: noisy(-0.55, 0.01)(r) if r >= 110 else -0.7 if r % 5 == 0 else noisy(-0.66, 0.01)(r)  # noqa: E731
    engine = play(150, reward_mean=rewards, entropy=noisy(0.5, 0.01), response_len_mean=noisy(200.0, 0.01))
    states = [state for _, state, _ in said(engine, "R21")]
    assert states
    assert "settled" not in states


def test_what_comes_back_from_an_illness_is_no_new_departure() -> None:
    """Lengths, entropy: low from 120 to 145, then where they were. No rule compares them with the illness."""
    ill = range(120, 146)
    engine = play(
        260,
        entropy=lambda record: 0.005 if record in ill else noisy(0.3)(record),
        response_len_mean=lambda record: 60.0 if record in ill else noisy(800.0)(record),
        grad_norm=lambda record: 60.0 if record in ill else noisy(0.5, 0.1)(record),
        reward_mean=lambda record: 0.0 if record in ill else noisy(0.5, 0.05, 7)(record),
    )
    assert {one.rule for one in alarms(engine)} >= {"E1", "R1", "T3"}
    assert not [one.rule for one in alarms(engine) if one.record >= 146]
    assert all(one.level < Level.WARN for one in engine.verdicts if one.state is not VerdictState.RECOVERED)


def test_beyond_the_level_of_before_is_a_new_departure() -> None:
    low = range(120, 146)
    lengths = lambda record: 60.0 if record in low else noisy(800.0 if record < 146 else 3200.0)(record)  # noqa: E731
    engine = play(260, response_len_mean=lengths, **LEARNING)
    assert [one.rule for one in alarms(engine) if one.record >= 146] == ["T2"]


def test_noise_around_a_settled_level_is_no_new_crash_and_the_reward_stays_what_it_was() -> None:
    reward = lambda record: noisy(0.5, 0.04, 7)(record) if record < 121 else abs(noisy(0.0001, 100.0)(record))  # noqa: E731
    engine = play(300, reward_mean=reward)
    assert [one.state.value for one in alarms(engine, "R1")] == ["firing"], "one crash, told once"
    assert (the(engine, "R1").state, the(engine, "R1").level) == (VerdictState.SETTLED, Level.CRIT)


def test_a_success_rate_that_stands_in_for_the_reward_stays_what_it_was() -> None:
    engine = play(200, success_frac=step_up(0.7, 0.05, 101))
    assert (the(engine, "R1").state, the(engine, "R1").level) == (VerdictState.SETTLED, Level.CRIT)


def test_what_still_grows_by_the_same_amount_has_not_settled() -> None:
    """A linear creep becomes slower in proportion, and is none the flatter for it."""
    growing = lambda record: 60.0 + 0.95 * record + random.Random(record).gauss(0, 2)  # noqa: E731
    engine = play(300, time_step=growing, **LEARNING)
    assert alarms(engine, "P1")
    assert "settled" not in [state for _, state, _ in said(engine, "P1")]


def test_a_gradient_that_stays_at_nothing_is_no_harmless_level() -> None:
    engine = play(200, grad_norm=lambda r: 0.3 if r < 80 else 0.0, zero_std_frac=0.85, **LEARNING)
    assert (the(engine, "O4").state, the(engine, "O4").level) == (VerdictState.SETTLED, Level.WARN)


def test_a_critic_that_explains_its_returns_is_learning() -> None:
    metrics: dict[str, Any] = {"value_loss": noisy(30.0, 0.1), "reward_mean": lambda r: 20.0 + 0.8 * r}
    metrics["traits"] = {"has_critic": True}
    assert said(play(160, Algorithm.PPO, explained_var=noisy(0.6), **metrics), "C2") == []
    assert said(play(160, Algorithm.PPO, explained_var=noisy(0.05), rules={"C1": {"enabled": False}}, **metrics), "C2")


def test_step_kl_of_actions_at_the_first_update_is_no_mismatch() -> None:
    kl = noisy(0.0125)
    assert said(play(20, Algorithm.PPO, kl_old=kl, episode_len=20.0, reward_mean=noisy(20.0)), "M9") == []
    assert said(play(20, kl_old=kl, **LEARNING), "M9")


def test_a_stage_that_explains_nothing_is_not_blamed() -> None:
    stages = lambda record: {"time_gen": 5.0 + 0.01 * record}  # noqa: E731
    engine = play(80, time_step=lambda r: 8.0 if r < 40 else 40.0, stages=stages, **LEARNING)
    assert alarms(engine, "P1")
    assert "accounts for" not in alarms(engine, "P1")[0].message


@each_row("spec", SPECS, ids=lambda spec: spec.id)
def test_no_two_detectors_share_what_they_remember(spec: RuleSpec) -> None:
    assert spec.detector is not None
    one, other = spec.detector(spec.thresholds), spec.detector(spec.thresholds)
    twin = one.clone()

    def held(detector: Detector) -> dict[str, object]:
        """What may change: containers, and what has `clone` and is not final; also those within a tuple."""
        every = {name: getattr(detector, name) for name in dir(detector) if not name.startswith("__")}
        parts = {
            f"{name}/{i}": part for name, value in every.items() if type(value) is tuple for i, part in enumerate(value)
        }
        return {
            name: value
            for name, value in (every | parts).items()
            if isinstance(value, list | dict | set | deque) or (hasattr(value, "clone") and not isinstance(value, type))
        }

    for others in (other, twin):
        shared = {name for name, value in held(one).items() if value is held(others).get(name)}
        assert shared <= {"thresholds"}


def test_a_note_has_not_recovered_while_its_metric_is_where_it_was() -> None:
    back = lambda r: noisy(0.2 + 0.3 * min(r, 160) / 160 - 0.3 * max(0, min(r - 160, 60)) / 60, 0.02)(r)  # noqa: E731
    engine = play(300, response_len_mean=step_up(300.0, 700.0, 121), reward_mean=back)
    assert {level for _, _, level in said(engine, "R8")} == {"info"}
    assert "recovered" not in {state for _, state, _ in said(engine, "R8")}
    # Beside the crash it says nothing.
    assert {one.rule for one in engine.verdicts} & {"R1", "R8"} == {"R1"}


def test_what_a_rule_judges_harmless_by_now_is_a_note_and_not_recovered() -> None:
    def cut(record: int) -> float:
        return max(0.22, 0.68 - record / 650.0)

    events = said(play(300, truncated_frac=cut, **LEARNING), "T1")
    assert [(state, level) for _, state, level in events] == [("firing", "warn"), ("eased", "info")]


def test_a_plateau_ends_with_a_better_reward_only() -> None:
    def reward(record: int) -> float:
        return noisy(min(0.6, record / 100.0) if record < 250 else 0.1, 0.01)(record)

    engine = play(400, reward_mean=reward, rules={})
    assert [state for _, state, _ in said(engine, "R3")] == ["firing"]
    better = play(400, reward_mean=lambda r: reward(min(r, 249)) + (0.2 if r > 300 else 0.0), rules={})
    assert [state for _, state, _ in said(better, "R3")] == ["firing", "recovered"]


def fallen(back: int) -> Callable[[int], float]:
    """An entropy that is lost at record 101, is back after six records for so many, and is lost again."""
    return lambda record: noisy(0.05 if 101 <= record < 107 or record >= 107 + back else 0.6)(record)


@pytest.mark.parametrize("back", [3, 5, 8, 12, 19])
def test_what_leaves_again_soon_after_a_recovery_and_stays_away_is_told(back: int) -> None:
    engine = play(250, entropy=fallen(back), **LEARNING)
    verdict = the(engine, "E1")
    assert (verdict.level, verdict.recovered_step, verdict.since_step) == (Level.CRIT, None, 107 + back)
    (again,) = [record for record, state, _ in said(engine, "E1") if state in {"firing", "resumed"} and record > 107]
    assert again <= 107 + back + 10
    assert "has stayed at 0.0" in verdict.headline or back > 15
    shown = next(one.value for one in verdict.evidence if one.name == "entropy")
    assert shown == pytest.approx(0.05, rel=0.2)


def test_what_flickers_after_a_recovery_is_no_new_alarm() -> None:
    def entropy(record: int) -> float:
        return noisy(0.05 if 101 <= record < 107 or 114 <= record < 118 else 0.6)(record)

    told = [state for _, state, _ in said(play(250, entropy=entropy, **LEARNING), "E1")]
    assert told == ["firing", "recovered", "resumed", "eased", "recovered"]


EPISODES = {
    "entropy": (0.6, 0.05, 0.05),
    "reward_mean": (0.6, 0.15, 0.05),
    "kl_ref": (0.02, 0.6, 0.15),
    "truncated_frac": (0.02, 0.5, 0.1),
    "time_step": (12.0, 30.0, 0.05),
    "grad_norm": (0.5, 12.0, 0.15),
    "response_len_mean": (300.0, 1500.0, 0.05),
}
"""Canonical name: level of a healthy run, of an ill one, relative noise."""
_AT_LEAST = 120


@examples(15)
@given(
    st.sampled_from(sorted(EPISODES)),
    st.integers(60, 150),
    st.lists(st.sampled_from([2, 3, 4, 6, 9, 13, 20, 30, 45, 70]), min_size=1, max_size=6),
    st.integers(0, 10_000),
)
def test_what_stands_at_the_end_is_what_is_ill_at_the_end(name: str, first: int, lasting: list[int], seed: int) -> None:
    """However often it was ill and well again before."""
    well, ill, noise = EPISODES[name]
    levels = [well] * first
    for turn, count in enumerate(lasting):
        levels += [well if turn % 2 else ill] * count
    levels += [levels[-1]] * _AT_LEAST
    metrics = {"reward_mean": noisy(0.5, 0.05, 7), name: lambda record: noisy(levels[record - 1], noise, seed)(record)}
    engine = play(len(levels), **metrics)
    stands = [one for one in engine.verdicts if one.recovered_step is None and one.metric in {name, "score_mean"}]
    assert any(one.level >= Level.WARN for one in stands) == (levels[-1] == ill)


def optimiser() -> dict[str, Callable[[int], float]]:
    """Witnesses of a new phase (F1), which stay where they are."""
    return {
        "grad_norm": noisy(0.5, 0.15, 11), "entropy": noisy(0.6, 0.05, 12), "kl_ref": noisy(0.02, 0.1, 13),
        "clip_frac": noisy(0.003, 0.3, 14),
    }  # fmt: skip


def test_a_reward_that_is_lost_is_no_new_phase_whatever_moves_with_it() -> None:
    broken = {
        "response_len_mean": step_up(300.0, 105.0, 150), "reward_mean": step_up(0.75, 0.04, 150),
        "time_step": step_up(12.0, 6.0, 150, 0.04),
    }  # fmt: skip
    engine = play(250, **broken, **optimiser())
    assert not said(engine, "F1")
    assert (the(engine, "R1").level, the(engine, "R1").since_step) == (Level.CRIT, 150)


def test_what_stands_when_a_new_phase_begins_still_stands() -> None:
    longer = {"response_len_mean": step_up(300.0, 660.0, 200), "time_step": step_up(12.0, 24.0, 200, 0.04)}

    def reward(record: int) -> float:
        return noisy(0.766 if record < 120 else 0.04 if record < 200 else 0.147)(record)

    engine = play(320, reward_mean=reward, **longer, **optimiser())
    assert said(engine, "F1")
    verdict = the(engine, "R1")
    assert (verdict.level, verdict.recovered_step, verdict.since_step) == (Level.CRIT, None, 120)


@pytest.mark.parametrize("name", sorted(EPISODES))
def test_a_rule_that_flapped_tells_what_lasts_at_last(name: str) -> None:
    well, ill, noise = EPISODES[name]

    def course(record: int) -> float:
        is_ill = record >= 280 or any(first <= record < first + 15 for first in (100, 160, 220))
        return noisy(ill if is_ill else well, noise)(record)

    engine = play(400, **{"reward_mean": noisy(0.5, 0.05, 7), name: course})
    stands = [one for one in engine.verdicts if one.recovered_step is None and one.metric in {name, "score_mean"}]
    assert any(one.level >= Level.WARN and one.since_step in {160, 280} for one in stands)


def test_an_alert_that_gets_worse_counts_once_towards_flapping() -> None:
    def cut(record: int) -> float:
        since = record % 180
        return 0.03 if since < 150 else 0.3 if since < 160 else 0.97

    engine = play(540, truncated_frac=cut, **LEARNING)
    levels = [(state, level) for _, state, level in said(engine, "T1") if state in {"firing", "escalated"}]
    assert levels == [("firing", "warn"), ("escalated", "crit")] * 3


def test_a_second_crash_is_as_grave_as_the_first() -> None:
    def reward(record: int) -> float:
        return noisy(0.03 if 120 <= record < 150 or record >= 180 else min(0.7, 0.2 + record / 200))(record)

    verdict = the(play(300, reward_mean=reward), "R1")
    assert (verdict.level, verdict.since_step) == (Level.CRIT, 180)


def test_a_length_that_comes_back_to_a_growing_course_is_no_explosion() -> None:
    def length(record: int) -> float:
        return noisy((0.3 if 120 <= record < 190 else 1.0) * (300.0 + record), 0.04)(record)

    engine = play(400, response_len_mean=length, **LEARNING)
    assert not alarms(engine, "T2")
    assert [state for _, state, _ in said(engine, "T3")][-1] == "recovered"


def test_a_block_of_slow_steps_is_not_also_one_of_slow_steps_now_and_then() -> None:
    engine = play(300, time_step=lambda r: noisy(102.0 if 120 <= r < 160 else 54.0)(r), **LEARNING)
    assert alarms(engine, "P1")
    assert not alarms(engine, "P16")


def test_a_fault_that_a_restart_to_before_it_takes_along_is_told_again() -> None:
    engine = Engine(identity(), EngineOptions())
    for record in range(1, 241):
        step, segment = (record, 0) if record <= 180 else (record - 80, 1)
        values = {
            "time_step": noisy(12.0 if record < 120 else 36.0)(record),
            "reward_mean": noisy(0.5, 0.05, 7)(record),
        }
        engine.observe(observation(record, values, segment=segment, step=step))
    assert "recovered" in {state for _, state, _ in said(engine, "P1")}
    assert the(engine, "P1").recovered_step is None


@each_row(
    "level, resumed, ends",
    [(0.2, 181, False), (0.3, 181, False), (0.4, 200, False), (0.55, 135, False), (0.8, 181, True)],
)
def test_a_crash_stands_over_a_restart_until_the_reward_is_back(level: float, resumed: int, ends: bool) -> None:
    """0.8 → 0.1, and the run resumes on the way back: the root of the ratio is no recovery."""
    engine = play(199, reward_mean=lambda r: (0.8 if r < 131 else 0.1) + noisy(1.0, 0.01)(r) - 1.0)
    assert the(engine, "R1").level is Level.CRIT
    for record in range(200, 330):
        values = {"reward_mean": level + noisy(1.0, 0.01)(record) - 1.0}
        engine.observe(observation(record, values, segment=1, step=record - 200 + resumed))
    assert any(one.state == "recovered" and one.rule == "R1" for one in engine.events) is ends
    assert [one.since_step for one in engine.verdicts if one.rule == "R1" and one.is_active] == ([] if ends else [131])


def test_what_was_elsewhere_meanwhile_has_not_stayed() -> None:
    course = ((129, 0.73), (199, 0.045), (279, 0.25), (340, 0.5), (460, 0.05))
    told = play(
        460, reward_mean=lambda r: next(level for end, level in course if r <= end) + noisy(1.0, 0.015)(r) - 1.0
    )
    assert the(told, "R1").since_step == 130
    assert "stayed" not in the(told, "R1").headline


@each_row("step", [1, 20])
def test_a_policy_that_begins_anew_after_a_crash_has_not_crashed_again(step: int) -> None:
    engine = play(300, reward_mean=lambda r: noisy(0.6 if r < 150 else 0.15, 0.04)(r))
    assert the(engine, "R1").level is Level.CRIT
    for record in range(301, 401):
        at = record - 301 + step
        learned = noisy(0.2 + 0.6 * (1.0 - math.exp(-at / 150)), 0.04)(at)
        engine.observe(observation(record, {"reward_mean": learned}, segment=1, step=at))
        assert [one for one in engine.verdicts if one.is_active and one.level > Level.INFO] == [], at


@each_row("rule, metric, usual, ill", [("E4", "entropy", 0.8, 4.0), ("T2", "response_len_mean", 300.0, 9_000.0)])
def test_what_no_learning_explains_is_told_again_where_a_run_begins_anew_with_it(rule, metric, usual, ill) -> None:
    engine = play(300, reward_mean=0.5, **{metric: lambda r: noisy(usual if r < 150 else ill, 0.04)(r)})
    assert the(engine, rule).is_active
    for record in range(301, 361):
        values = {"reward_mean": 0.5, metric: noisy(ill, 0.04)(record)}
        engine.observe(observation(record, values, segment=1, step=record - 300))
    assert the(engine, rule).is_active


@pytest.mark.parametrize(
    ("rule", "metrics"),
    [
        ("T1", {"truncated_frac": step_up(0.03, 0.97, 110)}),
        ("O9", {"kl_old": step_up(0.001, 0.2, 110)}),
        ("G1", {"zero_std_frac": step_up(0.1, 0.95, 110)}),
    ],
)
def test_what_is_beyond_a_line_of_the_rule_stands_over_a_restart_in_the_middle(rule: str, metrics: Any) -> None:
    engine = Engine(identity(), EngineOptions())
    for record in range(1, 151):
        step, segment = (record, 0) if record <= 135 else (record - 5, 1)
        values = {name: course(record) for name, course in metrics.items()}
        engine.observe(
            observation(record, values | {"reward_mean": LEARNING["reward_mean"](record)}, segment=segment, step=step)
        )
    assert "recovered" not in {state for _, state, _ in said(engine, rule)}
    assert the(engine, rule).since_step == 110


@pytest.mark.parametrize("every", [1, 10])
def test_an_entropy_that_comes_back_from_a_slow_fall_is_no_surge(every: int) -> None:
    def entropy(record: int) -> float | None:
        at = record // every
        course = 0.6 * max(0.1, 1.0 - max(0, at - 60) / 60.0) if at < 140 else 0.6
        return noisy(course)(at) if record % every == 0 else None

    rising = {"reward_mean": lambda record: noisy(0.2 + record / (600.0 * every), 0.03, 7)(record)}
    engine = play(230 * every, entropy=entropy, **rising)
    assert not alarms(engine, "E4")


def test_a_kl_that_is_paid_for_by_now_has_not_recovered() -> None:
    far = lambda r: noisy(0.02 + 0.005 * max(0, min(r - 100, 120)))(r)  # noqa: E731
    engine = play(380, kl_ref=far, reward_mean=step_up(0.1, 0.6, 260, 0.04))
    assert [(state, level) for _, state, level in said(engine, "O11")][-2:] == [
        ("escalated", "warn"),
        ("eased", "info"),
    ]
    assert "no reward gain" not in the(engine, "O11").headline


def test_a_critic_far_worse_than_none_stays_critical() -> None:
    engine = play(
        200, Algorithm.PPO, traits={"has_critic": True}, explained_var=noisy(-1.6, 0.1), reward_mean=noisy(0.3, 0.05, 7)
    )
    assert the(engine, "C1").level is Level.CRIT


@each_row(
    ("worse", "noise", "level"),
    [(-3.0, 0.08, Level.CRIT), (-1.0, 0.02, Level.WARN), (-0.8, 0.02, Level.WARN), (-0.3, 0.02, Level.INFO)],
)
def test_a_critic_worse_than_none_stands_while_the_reward_rises(worse: float, noise: float, level: Level) -> None:
    """A noisy reward has gained only after the alert, another one before it."""
    lost = lambda r: noisy(0.5 if r < 100 else worse, 0.1, 3)(r)  # noqa: E731
    rising = lambda r: noisy(0.25 + 0.35 * r / 600, noise, 7)(r)  # noqa: E731
    engine = play(600, Algorithm.PPO, traits={"has_critic": True}, explained_var=lost, reward_mean=rising)
    assert the(engine, "C1").level is level
    assert not {"eased", "resumed", "recovered"} & {state for _, state, _ in said(engine, "C1")}


def test_a_copy_waits_for_what_was_silenced_without_the_original() -> None:
    whole = play(250, entropy=fallen(5), **LEARNING)
    rows = list(series(250, entropy=fallen(5), **LEARNING))
    engine = Engine(identity(), EngineOptions())
    for one in rows[:115]:
        engine.observe(one)
    for one in rows[115:]:
        engine.clone().observe(one)
        engine.observe(one)
    assert said(engine, "E1") == said(whole, "E1")


@pytest.mark.parametrize("back", [3, 5])
def test_what_has_been_back_meanwhile_has_not_stayed(back: int) -> None:
    def reward(record: int) -> float:
        return noisy(0.2 if 101 <= record < 107 or record >= 107 + back else 0.62, 0.02)(record)

    (settled,) = [one.message for one in play(250, reward_mean=reward).events if one.state is EventState.SETTLED]
    assert "stayed" not in settled
    assert "since step 101" in settled


@pytest.mark.parametrize("seed", range(6))
def test_noise_at_a_settled_level_is_no_new_alarm(seed: int) -> None:
    engine = play(
        400, reward_mean=lambda r: noisy(0.57 if r < 121 else 0.2, 0.02 / (0.57 if r < 121 else 0.2), seed)(r)
    )
    assert [state for _, state, _ in said(engine, "R1")] == ["firing", "settled"]


@pytest.mark.parametrize(
    ("rule", "metrics"),
    [
        ("T1", {"truncated_frac": lambda record: noisy(0.01 + max(0, record - 150) * 0.002)(record)}),
        ("O2", {"grad_norm": lambda record: noisy(0.5 * math.exp(max(0, record - 120) * 0.016))(record)}),
        ("P1", {"time_step": lambda record: noisy(12.0 + max(0, record - 150) * 0.15)(record)}),
    ],
)
def test_what_goes_up_steadily_has_not_settled(rule: str, metrics: dict[str, Any]) -> None:
    engine = play(300, **metrics, **LEARNING)
    assert alarms(engine, rule)
    assert "settled" not in {state for _, state, _ in said(engine, rule)}


def test_an_alert_does_not_begin_before_the_one_before_it_ended() -> None:
    """What it crosses then may lie below all that the recovered one has seen."""
    engine = play(300, truncated_frac=lambda r: 0.9 if r < 40 else 0.3 if r < 120 else 0.95, **LEARNING)
    ended = [one.step for one in engine.events if one.rule == "T1" and one.state is EventState.RECOVERED]
    begun = [one.since_step for one in engine.events if one.rule == "T1" and one.state is EventState.FIRING]
    for end, begin in zip(ended, begun[1:], strict=False):
        assert begin is not None and begin > end


def test_what_is_just_inside_the_line_holds_an_alert_of_a_rule_with_further_statistics() -> None:
    def levels(last: float) -> list[Level]:
        engine = play(140, truncated_frac=lambda r: 0.42 if r < 40 else 0.6 if r < 60 else last)
        return [event.level for event in engine.events if event.rule == "T1"]

    assert levels(0.43) == [Level.INFO, Level.WARN], "half of all completions is the line, and four fifths of it hold"
    assert levels(0.38) == [Level.INFO, Level.WARN, Level.INFO]
