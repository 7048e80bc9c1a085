"""Training against inference, correction weights, staleness."""

from __future__ import annotations

import pytest
from observations import alarms, first, levels, noisy, play
from tables import each_row

from rltop.model import Level


def test_m2_reads_log_probabilities_where_no_kl_is_logged() -> None:
    engine = play(120, rollout_logp_diff_mean=lambda r: noisy(0.01 * (1 + r / 20), 0.02)(r))
    assert first(engine, "M2").level is Level.WARN


def test_m2_trap_a_flat_disagreement_is_left_alone() -> None:
    assert alarms(play(200, rollout_logp_diff_mean=noisy(0.02, 0.2))) == []


def test_m1_an_average_that_climbs_is_a_warning_and_a_spike_is_not() -> None:
    engine = play(80, mult_prob_error=lambda r: noisy(1.01 if r < 50 else 1.12, 0.005)(r))
    event = first(engine, "M1")
    assert event.level is Level.WARN
    assert 50 < event.record <= 62
    spiked = play(80, mult_prob_error=lambda r: 40.0 if r == 50 else 1.01)
    assert levels(spiked, "M1") == set()


def test_m1_far_off_is_critical() -> None:
    assert Level.CRIT in levels(play(60, mult_prob_error=lambda r: 1.01 if r < 30 else 1.6), "M1")


@pytest.mark.parametrize(
    ("rule", "metric", "healthy", "warn", "crit"),
    [
        ("M6", "is_ess", 0.9, 0.45, 0.2),
    ],
)
def test_correction_weights_against_their_lines(
    rule: str, metric: str, healthy: float, warn: float | None, crit: float | None
) -> None:
    assert alarms(play(60, **{metric: noisy(healthy)})) == []
    for level, bad in ((Level.WARN, warn), (Level.CRIT, crit)):
        if bad is not None:
            engine = play(60, **{metric: lambda r, bad=bad: noisy(healthy if r < 30 else bad, 0.02)(r)})
            assert first(engine, rule).record <= 36
            assert max(levels(engine, rule)) is level


def test_m6_recovers() -> None:
    engine = play(90, is_ess=lambda r: 0.4 if 30 <= r < 50 else 0.9)
    assert [event.state.value for event in engine.events if event.raised_by == "M6"] == ["firing", "recovered"]


def test_m8_staleness_that_climbs_is_a_warning_and_one_that_was_set_up_is_not() -> None:
    climbing = play(120, staleness_mean=lambda r: noisy(1.0 if r < 60 else 3.4, 0.02)(r))
    assert first(climbing, "M8").level is Level.WARN
    configured = play(120, staleness_mean=noisy(4.0))
    assert alarms(configured) == []
    assert levels(configured, "M8") == {Level.INFO}


def test_m8_rollouts_at_the_limit_that_are_thrown_away_are_critical() -> None:
    engine = play(60, staleness_mean=1.0, staleness_max=lambda r: 3.0 if r < 40 else 8.0, cancelled_frac=0.2)
    assert first(engine, "M8").level is Level.CRIT


def test_m9_a_policy_that_differs_from_itself_before_it_was_trained() -> None:
    assert first(play(5, kl_ref=2.5), "M9").record == 2
    assert "nats/token from" in first(play(5, kl_ref=2.5), "M9").message
    (of_a_loop,) = [event for event in play(5, traits={"is_generic": True}, kl_ref=2.5).events if event.rule == "M9"]
    assert "2.50 nats from" in of_a_loop.message, "a generic name may be a sum"


@each_row(
    ("healthy", "traits"),
    [
        ({"kl_ref": lambda r: 0.0001 * r}, {}),
        ({"kl_ref": lambda r: 0.4 if r == 1 else 0.001}, {}),
        ({"kl_ref": noisy(9.0)}, {"kl_is_sequence_sum": True}),
        ({"kl_old": lambda r: 0.327 if r == 1 else 0.002}, {}),
    ],
    ids=["starts at nothing", "one odd first record", "summed over the sequence", "toy first step"],
)
def test_m9_traps(healthy: dict, traits: dict) -> None:
    assert alarms(play(5, traits=traits, **healthy), "M9") == []


def test_trap_28_experts_disagree_more_from_the_start() -> None:
    engine = play(200, off_policy_kl=noisy(0.02, 0.15))
    assert alarms(engine) == []


def test_trap_29_correlation_says_nothing_at_very_low_entropy() -> None:
    assert alarms(play(100, rollout_prob_corr=0.7, entropy=0.004), "M1") == []
    assert first(play(100, rollout_prob_corr=0.7, entropy=0.4), "M1").level is Level.CRIT


def test_trap_30_the_largest_difference_of_a_batch_is_no_signal() -> None:
    engine = play(
        100, rollout_prob_diff_max=noisy(0.98, 0.01), rollout_logp_diff_max=noisy(9.0), off_policy_kl_max=noisy(7.0)
    )
    assert alarms(engine) == []
