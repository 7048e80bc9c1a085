"""Rules on where the time goes: slow steps, stragglers, balance."""

from __future__ import annotations

import random
import re

import pytest
from observations import alarms, first, identity, learning, noisy, observation, play, series
from tables import each_row

from rltop.model import Algorithm, EventState, Level, Traits
from rltop.rules.context import RuleContext
from rltop.rules.engine import Engine
from rltop.rules.registry import NAMED
from rltop.rules.rule import QUIET
from rltop.rules.standing import own_time
from rltop.rules.straggler import RankStraggler

STAGES = {"gen": 30.0, "reward": 1.0, "old_log_prob": 3.0, "update_actor": 6.0}


def stages(record: int, **changed: float) -> dict[str, float]:
    return {name: noisy(changed.get(name, value), 0.02)(record) for name, value in STAGES.items()}


# -- P1, P3 ------------------------------------------------------------------------------------------------------


def test_p1_names_the_stage_that_grew() -> None:
    slow = lambda r: {"gen": 60.0} if r >= 60 else {}  # noqa: E731
    engine = play(
        80,
        time_step=lambda r: noisy(70.0 if r >= 60 else 40.0, 0.02)(r),
        stages=lambda r: stages(r, **slow(r)),
        response_len_mean=noisy(300.0),
    )
    event = first(engine, "P1")
    assert (event.record, event.level) == (64, Level.WARN)
    assert "gen accounts for +" in event.message
    verdict = next(v for v in engine.verdicts if v.rule == "P1")
    assert {e.name for e in verdict.evidence} >= {"step time", "baseline", "gen", "gen, baseline"}


def test_p1_names_no_stage_that_grew_by_more_than_the_step() -> None:
    grown = lambda r: 60.0 + 4.0 * max(0, r - 60)  # noqa: E731
    engine = play(
        90,
        time_step=lambda r: noisy(10.0 + grown(r) if r >= 60 else 40.0, 0.02)(r),
        stages=lambda r: stages(r, **({"gen": grown(r)} if r >= 60 else {})),
    )
    verdict = next(v for v in engine.verdicts if v.rule == "P1")
    share = re.search(r"gen accounts for .* \((\d+) %\)", verdict.headline)
    assert share is not None and int(share[1]) <= 100, verdict.headline


def test_p1_names_the_share_of_the_steps_whose_time_it_names() -> None:
    grown = lambda r: 90.0 if 60 <= r < 70 else 15.0 if r >= 70 else 0.0  # noqa: E731
    engine = play(
        120,
        time_step=lambda r: noisy(40.0 + grown(r), 0.01)(r),
        stages=lambda r: stages(r, gen=30.0 + grown(r)),
    )
    (verdict,) = [one for one in engine.verdicts if one.rule == "P1"]
    said = r"step time 4.\.. s → 1.. s; gen accounts for \+(8|9).\.. s \((9.|100) %\); step time now 5.\.. s"
    assert re.fullmatch(said, verdict.headline), verdict.headline
    before, after = [
        next(one.value for one in verdict.evidence if one.name == name) for name in ("gen, baseline", "gen")
    ]
    assert before == pytest.approx(30.0, rel=0.05) and after == pytest.approx(120.0, rel=0.05)


def test_p1_trap_a_slow_step_does_not_become_the_usual_one() -> None:
    engine = play(300, time_step=lambda r: noisy(70.0 if r >= 60 else 40.0, 0.02)(r))
    assert [v.rule for v in engine.verdicts] == ["P1"]
    assert len(alarms(engine)) == 1


def test_p1_trap_the_first_records_compile() -> None:
    assert alarms(play(80, time_step=lambda r: 400.0 if r <= 3 else noisy(40.0, 0.03)(r))) == []


def test_p1_trap_a_checkpoint_inside_the_step_is_not_slowness() -> None:
    def save(record: int) -> float | None:
        return 2396.0 if record % 5 == 0 else None

    engine = play(
        120,
        time_step=lambda r: noisy(40.0, 0.02)(r) + (save(r) or 0.0),
        time_save=save,
        stages=lambda r: stages(r) | ({"save_checkpoint": 2396.0} if save(r) else {}),
        throughput=lambda r: 61.0 if save(r) else noisy(1065.0, 0.02)(r),
    )
    assert alarms(engine) == []


def test_p1_dates_slower_steps_without_the_validation_before_them_and_says_how_long_they_are_now() -> None:
    slow = lambda record: noisy(38.0 if record <= 150 else 100.0 + record / 20, 0.03)(record)  # noqa: E731
    tested = lambda record: 60.0 if record % 10 == 0 else None  # noqa: E731
    engine = play(
        170,
        time_step=lambda r: slow(r) + (tested(r) or 0.0),
        time_eval=tested,
        stages=lambda r: {"gen": 0.7 * slow(r), "update_actor": 0.3 * slow(r), "testing": tested(r) or 0.0},
    )
    (verdict,) = [one for one in engine.verdicts if one.raised_by == "P1"]
    assert verdict.since_step == 151
    assert "now 16" not in verdict.headline, "with validation it would be 168 s"


@each_row(("step", "expected"), [(194.6, 150.8), (150.8, 150.8)])
def test_p1_trap_validation_is_taken_out_only_where_it_fits_inside(step: float, expected: float) -> None:
    values = {"time_step": step, "time_eval": 43.8, "stages": {"gen": 100.0, "update_actor": 50.7, "testing": 43.8}}
    assert own_time(observation(1, values)) == pytest.approx(expected)


def test_p1_trap_reused_rollouts_make_two_kinds_of_records() -> None:
    generates = lambda r: r % 2 == 1  # noqa: E731
    metrics = {
        "time_step": lambda r: noisy(238.0 if generates(r) else 22.0, 0.05)(r),
        "reward_mean": lambda r: 0.5 if generates(r) else None,
        "response_len_mean": lambda r: noisy(300.0)(r) if generates(r) else None,
        "clip_frac": lambda r: 0.0 if generates(r) else 0.012,
    }
    assert alarms(play(200, **metrics)) == []
    slower = metrics | {
        "time_step": lambda r: noisy((238.0 if generates(r) else 22.0) * (2 if r > 120 else 1), 0.05)(r)
    }
    assert first(play(200, **slower), "P1").record <= 135


@each_row(
    "metric, words",
    [
        ("total_tokens", "tokens per step"),
        ("response_len_mean", "completion length"),
        ("total_len_mean", "sequence length"),
    ],
)
def test_p1_trap_longer_answers_take_longer(metric: str, words: str) -> None:
    # Twice, not more: completions three times as long are an alarm of their own.
    work = {metric: lambda r: noisy(1000 if r < 60 else 1950, 0.02)(r)}
    engine = play(120, time_step=lambda r: noisy(40.0 if r < 60 else 78.0, 0.02)(r), **work)
    assert alarms(engine) == []
    (longer,) = [event for event in engine.events if event.rule == "P1"]
    assert longer.level is Level.INFO
    assert f"{words} 1.9" in longer.message


def test_p1_counts_tokens_from_a_running_total_too() -> None:
    def total(record: int) -> float:
        return 1e5 * min(record, 60) + 2e5 * max(0, record - 60)

    engine = play(120, time_step=lambda r: noisy(40.0 if r <= 60 else 80.0, 0.02)(r), num_tokens=total)
    assert alarms(engine) == []


def test_p1_trap_steps_of_a_fraction_of_a_second_wobble_with_the_machine() -> None:
    wobble = lambda r: noisy(0.06 * (2.4 if 80 < r < 120 else 1.0), 0.2)(r)  # noqa: E731
    assert alarms(play(200, time_step=wobble)) == []
    assert first(play(200, time_step=lambda r: noisy(0.06 if r < 100 else 0.25, 0.2)(r)), "P1").record <= 110


def test_p1_trap_a_run_that_is_noisy_from_the_start_gets_a_wider_line() -> None:
    engine = play(300, time_step=lambda r: 40.0 * (1.0, 1.6, 0.8, 2.0, 1.2)[r % 5])
    assert alarms(engine) == []


def test_p3_throughput_falls() -> None:
    assert first(play(80, throughput=lambda r: noisy(1000.0 if r < 60 else 600.0, 0.02)(r)), "P3").record == 64
    assert alarms(play(80, throughput=noisy(1000.0, 0.1))) == []


# -- P5, P6 ------------------------------------------------------------------------------------------------------


def test_p5_fires_within_five_records() -> None:
    ratio = lambda r: noisy(1.4, 0.1)(r) if r < 121 else noisy(12.0, 0.2)(r)  # noqa: E731
    for size in (None, 8, 16):
        event = first(play(140, group_size=size, group_len_ratio=ratio), "P5")
        assert 121 <= event.record <= 126
    assert "its group's median" in event.message


def test_p5_a_moderate_straggler_takes_five_of_ten() -> None:
    ratio = lambda r: noisy(1.5, 0.05)(r) if r < 100 else noisy(4.6, 0.02)(r)  # noqa: E731
    assert first(play(130, group_len_ratio=ratio), "P5").record == 104


@each_row(("size", "level"), [(4, 2.4), (8, 3.0), (16, 3.5), (64, 4.5)])
def test_p5_trap_what_is_usual_depends_on_the_group_size(size: int, level: float) -> None:
    assert alarms(play(100, group_size=size, group_len_ratio=noisy(level, 0.03))) == []


def test_p5_trap_reasoning_has_natural_tails() -> None:
    assert alarms(play(100, group_size=8, group_len_ratio=noisy(3.6, 0.05)), "P5")[1:] == []


def test_p6_nobody_waits_longer_where_only_the_others_become_shorter() -> None:
    metrics = {
        "time_gen_sample_mean": lambda r: noisy(9.0 if r < 60 else 3.0)(r),
        "time_gen_sample_max": noisy(15.0),
        "time_gen": 16.0,
        "time_step": 30.0,
    }
    assert alarms(play(120, **metrics), "P6") == []


def test_p6_the_batch_waits_for_its_slowest() -> None:
    metrics = {
        "time_gen_sample_mean": noisy(30.0),
        "time_gen_sample_max": lambda r: noisy(60.0 if r < 60 else 212.0)(r),
        "time_gen": lambda r: 61.0 if r < 60 else 213.0,
        "time_step": lambda r: 100.0 if r < 60 else 252.0,
        "slowest_tool": lambda r: 5.0 if r < 60 else 129.0,
    }
    event = first(play(80, **metrics), "P6")
    assert event.record == 64
    assert "in tool calls" in event.message


def test_p6_trap_generation_that_is_a_small_part_of_the_step_does_not_matter() -> None:
    metrics = {"time_gen_sample_mean": 1.0, "time_gen_sample_max": lambda r: 2.0 if r < 60 else 9.0, "time_gen": 9.0}
    assert alarms(play(80, time_step=100.0, **metrics)) == []


def test_p6_trap_longest_over_mean_length_is_never_a_warning() -> None:
    assert alarms(play(100, response_len_mean=300.0, response_len_max=lambda r: 500.0 if r < 50 else 8192.0)) == []


# -- P8 ----------------------------------------------------------------------------------------------------------


def test_p8_balanced_spread_counts() -> None:
    metrics = {"seqlen_mean": 458966.0, "seqlen_min": 400000.0, "seqlen_max": 500000.0}
    bad = metrics | {"seqlen_balanced_min": 400100.0, "seqlen_balanced_max": 470000.0}
    assert first(play(20, **bad), "P8").record == 5


def test_p8_trap_the_spread_before_balancing_is_not_imbalance() -> None:
    metrics = {"seqlen_mean": 458966.0, "seqlen_minmax_diff": 78170.0}
    assert alarms(play(20, seqlen_balanced_min=458959.0, seqlen_balanced_max=458974.0, **metrics)) == []
    assert alarms(play(20, **metrics)) == []
    assert alarms(play(20, seqlen_mean=1000.0, seqlen_minmax_diff=500.0)) == []


def test_p8_balancing_that_is_off() -> None:
    off = {"seqlen_mean": 1000.0, "seqlen_min": 700.0, "seqlen_max": 1300.0}
    assert first(play(20, seqlen_balanced_min=700.0, seqlen_balanced_max=1300.0, **off), "P8").level is Level.WARN


def test_p6_a_tail_of_tool_calls_is_seen_where_only_their_longest_is_logged() -> None:
    engine = play(
        79,
        time_step=noisy(400.0, 0.01),
        time_gen=noisy(330.0, 0.01),
        time_gen_sample_max=lambda r: 20.0,
        time_gen_sample_mean=lambda r: 10.0,
        time_tool_sample_max=lambda r: 3.0 if r < 40 else 300.0,
        time_tool_sample_mean=lambda r: 1.0 if r < 40 else 6.0,
    )
    verdict = next(v for v in engine.verdicts if v.rule == "P6")
    assert verdict.since_step == 40
    assert "mean 16.0 s, 100 % of it in tool calls" in verdict.headline


def test_p6_quotes_no_baseline_where_the_tail_was_there_from_the_start() -> None:
    metrics = {"time_step": 10.0, "time_gen_sample_max": 400.0, "time_gen_sample_mean": 20.0}
    engine = play(60, traits={"is_async": True}, **metrics)
    verdict = next(v for v in engine.verdicts if v.rule == "P6")
    assert "no healthy baseline" in verdict.headline
    assert [each.name for each in verdict.evidence] == ["slowest / mean", "threshold", "slowest", "mean"]


def test_p1_adds_up_what_stays_below_its_line() -> None:
    engine = play(160, time_step=lambda r: noisy(40.0 if r < 60 else 47.0, 0.03)(r))
    assert alarms(engine) == []
    creeping = [event for event in engine.events if event.rule == "P1"]
    assert creeping[0].level is Level.INFO
    assert 60 <= creeping[0].record <= 75
    assert "up over many steps" in creeping[0].message
    # Longer completions are why it is no alarm; the step has not become slightly slower.
    grown = {
        "time_step": lambda r: 40.0 + 0.1 * r,
        "response_len_mean": lambda r: 300 + 2 * r,
        "num_tokens": lambda r: r,
    }
    (slower,) = [one for one in play(600, **grown).verdicts if one.rule == "P1"]
    assert slower.level is Level.INFO and "slightly" not in slower.headline and "→ 100 s" in slower.headline
    assert not play(400, time_step=noisy(40.0, 0.03)).events


def test_p1_says_nothing_of_what_nobody_would_notice() -> None:
    engine = play(400, time_step=lambda r: 0.019 if r < 60 else noisy(0.0202, 0.03)(r))
    assert [event for event in engine.events if event.rule == "P1"] == []
    gone = play(200, time_step=lambda r: 40.0 if r < 60 else 47.0 if r < 120 else 40.4)
    assert [event.state.value for event in gone.events if event.rule == "P1"] == ["firing", "recovered"]
    assert [verdict for verdict in gone.verdicts if verdict.rule == "P1" and verdict.is_active] == []


def test_p1_does_not_learn_from_steps_that_are_slow_already() -> None:
    young = play(24, time_step=lambda r: noisy(40.0, 0.03)(r) * (2.5 if r >= 11 else 1.0))
    assert first(young, "P1").record <= 19
    drifting = play(26, time_step=lambda r: noisy(40.0, 0.03)(r) * (1.0 + 0.06 * max(r - 12, 0)))
    assert first(drifting, "P1").record <= 26
    assert alarms(play(60, time_step=lambda r: noisy(40.0, 0.03)(r) * (2.5 if r in {2, 9, 15, 22} else 1.0))) == []


def test_p16_sees_one_slow_step_in_four() -> None:
    slow = lambda r: noisy(40.0, 0.05)(r) * (3.0 if r > 60 and r % 4 == 0 else 1.0)  # noqa: E731
    event = first(play(120, time_step=slow), "P16")
    assert event.record <= 76
    assert event.since_step == 64
    assert {one.raised_by for one in alarms(play(120, time_step=slow))} == {"P16"}


@pytest.mark.parametrize("after", [165.0, 185.0, 230.0])
def test_p1_a_policy_that_is_updated_after_its_critic_has_warmed_up_is_no_slower_step(after) -> None:
    """veRL's `critic_warmup`: no metric of the policy until then."""
    engine = play(
        90, time_step=lambda r: noisy(138.0 if r < 30 else after)(r), value_loss=noisy(0.5), reward_mean=noisy(0.3),
        policy_loss=lambda r: None if r < 30 else noisy(0.02)(r), grad_norm=lambda r: None if r < 30 else noisy(0.4)(r),
    )  # fmt: skip
    assert alarms(engine, "P1") == []
    told = [event.message for event in engine.events if event.rule == "P1"]
    assert all("since training began" in one for one in told)
    assert told or after < 200.0


def _after_the_critic(began: int, slower: int, before: float = 10.0, after: float = 30.0):
    """A policy that is trained from record `began` on, in steps that take three times as long from `slower` on."""
    return play(
        130, Algorithm.PPO, value_loss=noisy(0.5), policy_loss=lambda r: None if r < began else noisy(0.02)(r),
        time_step=lambda r: noisy((before if r < began else after) * (1.0 if r < slower else 3.0), 0.02)(r),
    )  # fmt: skip


@pytest.mark.parametrize("slower", [24, 25, 27, 41, 81])
def test_p1_after_a_critic_has_warmed_up_quotes_what_training_took(slower) -> None:
    engine = _after_the_critic(21, slower)
    event = first(engine, "P1")
    assert event.since_step == slower
    assert event.record <= slower + 5
    assert event.message.startswith(("step time 29", "step time 30"))
    (verdict,) = [one for one in engine.verdicts if one.rule == "P1"]
    assert 29.0 < verdict.baseline < 31.0
    assert all(one.steps is None or one.steps[0] > 20 for one in verdict.evidence)


@pytest.mark.parametrize("slower", [23, 24, 25, 27])
def test_p1_a_slowdown_right_after_training_has_begun_in_steps_as_long_as_before_is_told(slower) -> None:
    event = first(_after_the_critic(21, slower, 10.0, 10.0), "P1")
    assert event.since_step == slower
    assert event.message.startswith(("step time 10.", "step time 9.9"))


def test_p16_every_second_step_is_told() -> None:
    slow = lambda r: noisy(600.0 if r > 50 and r % 2 else 60.0, 0.02)(r)  # noqa: E731
    (event,) = alarms(play(200, time_step=slow))
    assert (event.raised_by, event.since_step) == ("P16", 51)
    assert event.message.startswith("every 2nd step takes ")


def test_p16_every_fifth_step_at_two_and_a_half_times_is_a_note() -> None:
    usual = lambda r: noisy(40.0, 0.05)(r) * (2.5 if r % 5 == 0 else 1.0)  # noqa: E731
    assert alarms(play(200, time_step=usual)) == []


def test_p16_trap_evaluations_and_longer_answers_explain_a_slow_step() -> None:
    late = lambda r: r > 60 and r % 5 == 0  # noqa: E731
    time_step = lambda r: noisy(40.0, 0.05)(r) * (2.5 if late(r) else 1.0)  # noqa: E731
    assert alarms(play(200, time_step=time_step, val_score=lambda r: 0.5 if late(r) else None)) == []
    tokens = lambda r: noisy(1e5, 0.05)(r) * (2.5 if late(r) else 1.0)  # noqa: E731
    assert alarms(play(200, time_step=time_step, total_tokens=tokens)) == []


def test_p16_counts_steps_with_an_evaluation_where_the_step_time_does_not_contain_it() -> None:
    slow = lambda r: noisy(40.0, 0.05)(r) * (3.0 if r > 24 and r % 5 == 0 else 1.0)  # noqa: E731
    engine = play(60, time_step=slow, val_score=lambda r: 0.5 if r % 5 == 0 else None)
    assert first(engine, "P16").record <= 40


def test_p16_judges_in_retrospect_the_steps_by_which_it_learned_what_is_usual() -> None:
    slow = lambda r: noisy(40.0, 0.05)(r) * (4.5 if r in {11, 16, 21} else 1.0)  # noqa: E731
    assert first(play(24, time_step=slow), "P16").record == 21
    once = lambda r: noisy(40.0, 0.05)(r) * (2.5 if r in {2, 16, 21} else 1.0)  # noqa: E731
    assert alarms(play(60, time_step=once)) == []


@each_row("seed", [1, 2, 3, 4])
def test_p16_counts_stalls_that_are_far_apart_by_what_they_cost(seed: int) -> None:
    draw = random.Random(seed)
    at = [draw.randrange(first, first + 10) for first in (20, 41, 62, 83)]
    stalled = lambda r: noisy(280.0, 0.1, seed)(r) * (5.0 + 25.0 * (r in at[1:]) if r in at else 1.0)  # noqa: E731
    told = [event for event in play(110, time_step=stalled, reward_mean=learning).events if event.raised_by == "P16"]
    assert [(event.record, event.level) for event in told[:1]] == [(at[2], Level.INFO)], "fewer than one in ten: a note"
    assert told[0].message.startswith(f"3 of the last {at[2] - at[0] + 1} steps took ")
    # The same steps five times as long cost too little, and one long pause is not now and then.
    assert not alarms(play(110, time_step=lambda r: noisy(280.0, 0.1, seed)(r) * (5.0 if r in at else 1.0)))
    once = lambda r: noisy(280.0, 0.1, seed)(r) * (900.0 if r == at[1] else 1.7 if r in at else 1.0)  # noqa: E731
    assert not alarms(play(110, time_step=once))
    tokens = {"total_tokens": lambda r: 1e5 * stalled(r)}
    assert not alarms(play(110, time_step=stalled, **tokens))
    written = {"time_save": lambda r: 280.0 * 4 if r in at else None}
    assert not alarms(play(110, time_step=stalled, **written), "P16")


@each_row("logged", [{"time_save": 2.5}, {"time_eval": 4e-5}, {"time_eval": 4e-5, "val_score": 0.5}])
def test_p16_a_moment_logged_for_a_save_or_an_evaluation_on_each_step_explains_no_stall(logged: dict) -> None:
    """tinker logs the time of a save on every step."""
    at = {20, 27, 33, 41, 48, 55}
    stalled = lambda r: noisy(280.0, 0.1)(r) * (12.0 if r in at else 1.0)  # noqa: E731
    assert first(play(60, time_step=stalled, reward_mean=learning, **logged), "P16").record <= 41
    assert not alarms(play(60, time_step=stalled, time_eval=lambda r: 2_000.0 if r in at else 4e-5), "P16")


@each_row("every", [1, 5])
def test_p12_an_evaluation_that_takes_most_of_the_time_is_a_warning(every: int) -> None:
    seconds = lambda r: noisy(180.0 * every, 0.05)(r) if r % every == 0 else None  # noqa: E731
    whole = lambda r: noisy(75.0, 0.05)(r) + (seconds(r) or 0.0)  # noqa: E731
    event = first(play(60, time_step=whole, time_eval=seconds, time_gen=40.0, stages={"time_gen": 40.0}), "P12")
    assert event.record <= 30 and event.metric == "time_eval" and "evaluation" in event.message
    # A fifth of it is none, nor is one long evaluation before training.
    short = lambda r: noisy(20.0 * every, 0.05)(r) if r % every == 0 else None  # noqa: E731
    assert not alarms(play(60, time_step=lambda r: noisy(75.0, 0.05)(r) + (short(r) or 0.0), time_eval=short), "P12")
    once = lambda r: 6_000.0 if r == 1 else None  # noqa: E731
    assert not alarms(play(60, time_step=lambda r: noisy(75.0, 0.05)(r) + (once(r) or 0.0), time_eval=once), "P12")


def test_p2_measures_by_the_mean_answer_where_no_tokens_are_counted() -> None:
    engine = play(
        120,
        time_step=lambda r: noisy(40.0 if r < 60 else 70.0, 0.02)(r),
        response_len_mean=lambda r: noisy(300.0 if r < 60 else 540.0, 0.02)(r),
    )
    assert alarms(engine) == []
    assert "completion length 1.75×" in next(event for event in engine.events if event.rule == "P1").message


@each_row("gap", [1, 2, 7])
def test_a_rank_that_falls_behind_is_found_in_its_fifth_step_whenever_it_does(gap: int) -> None:
    for begins in range(11, 17):
        detector, context = RankStraggler(NAMED["P15"].thresholds), RuleContext(Algorithm.GRPO, Traits(), None)
        found = []
        for step in range(1, 31 * gap):
            usual = {str(rank): 1.0 + 0.01 * (rank * step % 5) for rank in range(8)} if step % gap == 0 else {}
            slow = {"3": 2.0} if usual and step >= begins * gap else {}
            context.advance(observation(step, {})._replace(ranks={("", "gen"): usual | slow}))
            if detector.detect(context) not in (QUIET, None):
                found.append((step // gap, detector.since))
        assert found[0] == (begins + 4, (begins * gap, begins * gap))
        assert [step for step, _ in found] == list(range(begins + 4, 31))


@pytest.mark.parametrize("factor", [2.0, 3.0])
@pytest.mark.parametrize("share", [0.3, 0.5, 1.0])
def test_steps_of_which_more_and_more_are_slow_are_one_alert(factor: float, share: float) -> None:
    """P16 sees the first ones, P1 the slowdown that they become."""
    draw = random.Random(3)
    slow = [draw.random() < share * min(1.0, (record - 60) / 40) for record in range(301)]
    engine = Engine(identity(names=["time_step"]))
    for one in series(200, time_step=lambda r: noisy(40.0, 0.05)(r) * (factor if r > 60 and slow[r] else 1.0)):
        engine.observe(one)
        assert len(engine.verdicts) <= 1
    told = [event for event in engine.events if event.state is EventState.FIRING]
    assert [event.rule for event in told] == ["P1"]
