"""Rules on clipping, KL control, entropy levels and losses: each fires on its fault and keeps quiet in its traps."""

from __future__ import annotations

import math

from observations import alarms, first, infos, noisy, play
from tables import each_row

from rltop.model import Algorithm, Level


def test_o3_a_norm_that_stands_at_its_limit_is_logged_after_clipping() -> None:
    engine = play(60, grad_norm=lambda r: 1.0 if r % 20 else 0.6)
    assert [e.rule for e in engine.events if e.rule == "O3"] == ["O3"]
    assert alarms(engine) == []


def test_o3_a_norm_that_moves_is_not() -> None:
    assert "O3" not in infos(play(200, grad_norm=noisy(1.0)))
    for nothing in (0.0, 1e-9):
        assert "O3" not in infos(play(200, grad_norm=nothing))


def test_o3_counts_anew_from_a_higher_value() -> None:
    engine = play(50, grad_norm=lambda r: 1.0 if r <= 20 else 2.0)
    assert next(e.record for e in engine.events if e.rule == "O3") == 47


def test_o14_a_policy_that_never_leaves_its_reference() -> None:
    still = {"kl_ref": 3e-8, "lr": 1e-6}
    flat = play(120, traits={"has_reference": True}, reward_mean=noisy(0.3), **still)
    assert first(flat, "O14").record >= 50
    rising = play(120, traits={"has_reference": True}, reward_mean=lambda r: r / 120, **still)
    assert alarms(rising) == []
    assert "O14" in infos(rising)


@each_row("muted", [{"lr": 0.0}, {"kl_ref": lambda r: 1e-4 * r}])
def test_o14_a_rate_of_zero_or_a_kl_that_grows_is_another_matter(muted: dict) -> None:
    metrics = {"kl_ref": 3e-8, "lr": 1e-6, "reward_mean": noisy(0.3)} | muted
    assert "O14" not in {e.rule for e in play(120, traits={"has_reference": True}, **metrics).events}


def test_o16_a_supervised_loss_above_where_it_began() -> None:
    falling_then_not = lambda r: noisy(2.0 * 0.98**r if r < 80 else 1.0 * 1.05 ** (r - 80))(r)  # noqa: E731
    assert 80 < first(play(160, Algorithm.SFT, loss=falling_then_not), "O5").record < 130
    assert alarms(play(200, Algorithm.SFT, loss=lambda r: noisy(2.0 * 0.99**r)(r)), "O5") == []
    assert alarms(play(200, Algorithm.GRPO, loss=lambda r: 1e-4 * r), "O5") == []


def test_o12_far_from_the_reference_for_nothing_in_a_short_run() -> None:
    drifting = lambda r: noisy(0.01 + 0.015 * max(0, r - 20))(r)  # noqa: E731
    assert first(play(60, kl_ref=drifting, reward_mean=noisy(0.3, 0.1)), "O12").record < 60
    assert alarms(play(60, kl_ref=drifting, reward_mean=lambda r: r / 60)) == []
    summed = {"traits": {"kl_is_sequence_sum": True}, "reward_mean": noisy(0.3, 0.1)}
    assert alarms(play(60, kl_ref=drifting, **summed)) == []
    assert first(play(200, kl_ref=lambda r: noisy(2.0 + max(0, r - 50) / 5)(r), **summed), "O12").record < 150


def test_o12_a_single_token_makes_a_huge_mean_now_and_then() -> None:
    assert (
        alarms(play(100, kl_ref=lambda r: 8.0 if r % 9 == 0 else noisy(0.02)(r), reward_mean=noisy(0.3)), "O12") == []
    )


def test_o1_what_is_huge_needs_no_ten_records() -> None:
    assert first(play(8, grad_norm=[1.0, 1.1, 0.9, 1.0, 1.2, 90.0, 95.0, 1.0]), "O1").record == 7
    assert alarms(play(4, grad_norm=[0.01, 0.02, 5.0, 6.0]), "O1") == []


def test_o1_a_loss_in_some_records_only_has_a_usual_value_too() -> None:
    gradient = lambda r: 8.0 if r == 150 else noisy(0.5, 0.05)(r)  # noqa: E731
    loss = lambda r: None if r % 10 else 3.0 if r == 150 else noisy(0.1, 0.005)(r)  # noqa: E731
    assert first(play(160, grad_norm=gradient, loss=loss), "O1").record == 150


def test_e3_is_a_warning_only_where_validation_stands_still_too() -> None:
    every_tenth = lambda values: lambda r: values(r) if r % 10 == 0 else None  # noqa: E731
    reward = noisy(0.4, 0.2)
    stuck = play(120, entropy=0.01, reward_mean=reward, val_score=every_tenth(lambda r: 0.3))
    assert first(stuck, "E3").level is Level.WARN
    luck = play(125, entropy=0.01, reward_mean=reward, val_score=every_tenth(lambda r: 0.3 if r < 120 else 0.36))
    (said,) = [verdict.headline for verdict in luck.verdicts if verdict.rule == "E3"]
    assert "; 0 evaluations" not in said
    moving = play(120, entropy=0.01, reward_mean=reward, val_score=every_tenth(lambda r: r / 200))
    assert alarms(moving, "E3") == []


def test_e4_high_and_far_above_the_start() -> None:
    assert first(play(120, entropy=lambda r: 0.4 * 1.012**r), "E4").level is Level.WARN
    assert alarms(play(120, entropy=lambda r: 1.2 + r / 1000)) == []
    assert alarms(play(120, entropy=lambda r: 0.1 * 1.012**r), "E4") == []


def test_e7_entropy_that_bought_nothing() -> None:
    spent = lambda r: 1.0 * 0.985**r  # noqa: E731
    assert first(play(300, entropy=spent, reward_mean=noisy(0.3, 0.05)), "E2").record < 160
    assert alarms(play(300, entropy=spent, reward_mean=lambda r: r / 300), "E2") == []
    assert alarms(play(300, Algorithm.DISTILL, entropy=spent, reward_mean=0.0), "E2") == []


def test_o6_sequences_are_judged_by_lines_of_their_own_and_robots_have_none() -> None:
    clipped = {"clip_frac": lambda r: 0.15 if r < 60 else 0.5, "kl_old": 1e-4}
    assert first(play(100, **clipped), "O6").record == 63
    assert alarms(play(100, **clipped | {"clip_frac": 0.15})) == []
    assert alarms(play(100, Algorithm.EMBODIED, **clipped), "O6") == []


def test_a1_the_bound_of_a_group_is_kept_by_a_healthy_run_and_said_of_another() -> None:
    bound = 4 / math.sqrt(5)
    healthy = play(60, group_size=5, adv_max=bound, adv_min=-1.5, adv_mean=0.01)
    assert healthy.events == []
    beyond = play(60, group_size=5, adv_max=2.4, adv_min=-1.5, adv_mean=0.01)
    assert alarms(beyond) == []
    assert "A1" in infos(beyond)


def test_a1_advantages_that_are_suddenly_huge() -> None:
    engine = play(80, adv_max=lambda r: 40.0 if r in {60, 63, 66} else noisy(1.5)(r), adv_min=-1.0)
    assert (first(engine, "A1").record, first(engine, "A1").level) == (66, Level.WARN)
    assert alarms(play(80, adv_max=lambda r: 40.0 if r == 60 else noisy(1.5)(r), adv_min=-1.0)) == []


def test_a2_no_advantage_at_all() -> None:
    gone = {"adv_max": lambda r: 1.5 if r < 40 else 0.0, "adv_min": lambda r: -1.5 if r < 40 else 0.0}
    dead = play(60, reward_mean=noisy(0.4, 0.1), **gone)
    assert first(dead, "A1").record == 43
    assert "advantages" in first(dead, "A1").message
    solved = play(60, reward_mean=lambda r: min(1.0, r / 38), **gone)
    assert alarms(solved) == []
    assert alarms(play(60, adv_max=0.0, adv_min=0.0, reward_mean=0.0)) == []


def test_a2_no_advantage_from_the_first_record_on_beside_a_gradient_of_the_kl() -> None:
    flat = {"reward_mean": noisy(0.5), "grad_norm": noisy(0.3), "kl_ref": noisy(0.01)}
    found = alarms(play(200, adv_max=0.0, adv_min=0.0, **flat))
    assert [(one.raised_by, one.record, one.since_step, one.level) for one in found] == [("A1", 60, 1, Level.WARN)]
    now_and_then = play(200, adv_max=lambda r: 1.5 if r % 60 == 30 else 0.0, adv_min=0.0, **flat)
    assert [(one.raised_by, one.since_step) for one in alarms(now_and_then)] == [("G8", 1)]
    rises = {**flat, "reward_mean": lambda r: 0.2 + r / 300}
    assert alarms(play(200, adv_max=0.0, adv_min=0.0, **rises), "A1") == []
    assert alarms(play(200, adv_max=0.3, adv_min=0.3, **flat), "A1") == [], "not 0, but alike"


@each_row(("usual", "level"), [(0.01, Level.WARN), (0.15, Level.WARN), (1.0, Level.CRIT)])
def test_o1_repeated_spikes_of_a_small_gradient_are_not_critical(usual: float, level: Level) -> None:
    spikes = play(120, grad_norm=lambda r: usual * (14.0 if r >= 60 and r % 3 == 0 else noisy(1.0)(r)))
    assert max(event.level for event in alarms(spikes, "O1")) is level
