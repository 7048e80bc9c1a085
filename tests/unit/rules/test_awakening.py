"""Runs that come to life late, and batches so small that everything jumps: nothing of it is a fault."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from observations import alarms, first, noisy, play

from rltop.model import Level

_BEGIN = 13


def part(record: int) -> float:
    """How far a run has come up from its dead start."""
    return min(max(record - _BEGIN, 0) / 25, 1.0)


def climb(value: float, faint: float = 0.004):  # type: ignore[no-untyped-def]
    return lambda record: noisy(value, 0.15)(record) * (faint + (1.0 - faint) * part(record))


def test_o1_a_gradient_that_comes_to_life_is_no_spike() -> None:
    engine = play(160, grad_norm=climb(0.5), reward_mean=lambda r: 0.01 + 0.3 * part(r))
    assert alarms(engine) == []
    assert any(event.rule == "O1" and event.level is Level.INFO for event in engine.events)


def test_o1_groups_without_variance_say_the_same_of_norms_above_one() -> None:
    engine = play(
        160,
        grad_norm=climb(4.0, 0.01),
        zero_std_frac=lambda r: 0.95 - 0.8 * part(r),
        reward_mean=lambda r: 0.01 + 0.3 * part(r),
    )
    assert alarms(engine) == []


def test_o1_a_spike_is_heard_while_the_gradient_comes_to_life() -> None:
    wild = lambda r: 60.0 + 1e5 * (r - 30) if 30 <= r <= 34 else climb(0.5)(r)  # noqa: E731
    assert first(play(80, grad_norm=wild, reward_mean=0.3), "O1").record == 31


def test_o1_a_rise_beyond_the_usual_norm_to_clip_at_is_a_spike_from_any_start() -> None:
    wild = lambda r: noisy(0.002)(r) if r < 20 else noisy(30.0)(r)  # noqa: E731
    assert alarms(play(60, grad_norm=wild, reward_mean=noisy(0.3)), "O1")[-1].level is Level.CRIT


def test_o2_a_gradient_that_rises_from_nothing_needs_no_reward_to_be_no_drift() -> None:
    faint = lambda r: noisy(0.002)(r) if r <= 12 else noisy(0.0008 * r)(r)  # noqa: E731
    assert alarms(play(160, grad_norm=faint), "O2") == []
    assert alarms(play(160, grad_norm=lambda r: noisy(0.8 + 0.08 * r)(r)), "O2")


def test_g1_groups_that_only_begin_to_differ_have_twenty_records() -> None:
    share = lambda r: 0.93 if r < 15 else max(0.93 - 0.03 * (r - 15), 0.3)  # noqa: E731
    assert alarms(play(80, zero_std_frac=share, reward_mean=lambda r: 0.02 + 0.004 * r), "G1") == []
    assert alarms(play(80, zero_std_frac=0.93, reward_mean=noisy(0.05)), "G1")


def test_e2_batches_of_one_prompt_are_as_far_apart_as_a_collapse() -> None:
    source = random.Random(3)
    jumps = [math.exp(source.uniform(math.log(8e-4), math.log(0.18))) for _ in range(240)]
    jumps[:5] = [0.08, 0.12, 0.09, 0.15, 0.07]
    engine = play(240, entropy=jumps, reward_mean=[source.choice([0.0, 0.25, 0.5, 0.75]) for _ in range(240)])
    assert alarms(engine) == []
    fall = lambda r: noisy(0.6 * math.exp(-max(r - 5, 0) / 8) + 0.01)(r)  # noqa: E731
    assert alarms(play(80, entropy=fall, reward_mean=noisy(0.3)), "E2")


def test_p16_steps_as_long_as_the_baseline_are_not_slow_now_and_then() -> None:
    filled = lambda r: noisy(13.5, 0.02)(r) if r < 16 else noisy(53.0, 0.03)(r)  # noqa: E731
    engine = play(120, time_step=filled, steps_trained=lambda r: 0.0 if r < 16 else 32000.0 * r)
    assert alarms(engine, "P16") == []


def test_g8_batches_without_any_gradient_among_others_are_counted() -> None:
    def empty_on(records: int, of: int, least: float = 0.3) -> Callable[[int], float]:
        return lambda record: 0.0 if record % of < records else noisy(0.5, 0.3)(record) + least

    half = play(120, grad_norm=empty_on(3, 5), reward_mean=noisy(0.3))
    (raised,) = alarms(half)
    assert (raised.rule, raised.part, raised.record) == ("G1", "G8", 50)
    assert "no gradient from rewards on 30 of the last 50 steps" in raised.message
    assert raised.since_step == 1, "the first of them"
    assert alarms(play(120, grad_norm=empty_on(1, 3), reward_mean=noisy(0.3))) == [], "a third: a note"
    assert alarms(play(120, grad_norm=empty_on(2, 5), reward_mean=noisy(0.3)))
    assert alarms(play(120, grad_norm=empty_on(3, 5), reward_mean=lambda r: 0.3 + 0.004 * r)) == [], "it learns"
    warmed_up = play(120, grad_norm=lambda r: 0.0 if r <= 40 else 0.5, reward_mean=noisy(0.3))
    assert [event for event in warmed_up.events if event.part == "G8"] == [], "one stretch, as of a critic's warm-up"
    for seed in range(2):
        draw = random.Random(seed)
        solved = [
            sum(draw.random() < share for _ in range(8)) / 8 for share in draw.choices((0.0, 0.02, 0.6, 1.0), k=300)
        ]
        alone = [0.0 if one in (0.0, 1.0) else draw.uniform(0.3, 0.5) for one in solved]
        said = {(one.rule, one.part) for one in alarms(play(300, grad_norm=alone, reward_mean=solved))}
        assert said == {("G1", "G8")}, (seed, "however many in a row, they are what they were")
        flat = [float(norm == 0.0) for norm in alone]
        said = {one.rule for one in alarms(play(300, grad_norm=alone, reward_mean=solved, zero_std_frac=flat))}
        assert said == {"G1"}, (seed, "and the share of flat groups says the same")
    dead = play(200, grad_norm=lambda r: 0.5 * noisy(1.0, 0.2)(r) * (r < 150), reward_mean=noisy(0.3))
    assert {(one.rule, one.level) for one in alarms(dead)} == {("L3", Level.CRIT)}, "said once"
    draw = empty_on(3, 5)
    level = {"grad_norm": noisy(0.01, 0.3), "adv_max": draw, "adv_min": lambda r: -draw(r), "reward_mean": noisy(0.3)}
    assert {one.part for one in alarms(play(120, **level))} == {"G8"}, "the KL has a gradient, or the console rounds"
    rounded = play(120, grad_norm=lambda r: round(0.002 * noisy(0.5, 1.9)(r), 3), reward_mean=noisy(0.3))
    assert [event for event in rounded.events if event.part == "G8"] == []
