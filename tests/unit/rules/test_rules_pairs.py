"""Preference training in small print, critics, embodied policies."""

from __future__ import annotations

import math
import random

from observations import alarms, first, levels, noisy, play
from tables import each_row

from rltop.model import Algorithm, Level, VerdictState

CRITIC = {"has_critic": True}


# -- pairs -------------------------------------------------------------------------------------------------------


def test_d4_a_margin_that_evaluation_does_not_share() -> None:
    engine = play(
        80,
        Algorithm.DPO,
        dpo_margin=lambda r: 0.1 * r,
        val_margin=lambda r: 0.4 if r % 20 == 0 else None,
    )
    assert first(engine, "D4").level is Level.WARN
    (stands,) = [verdict for verdict in engine.verdicts if verdict.rule == "D4"]
    assert stands.baseline is None, "the margin of other pairs is not what it was before"
    assert stands.state is VerdictState.FIRING
    shared = play(80, Algorithm.DPO, dpo_margin=lambda r: 0.1 * r, val_margin=lambda r: 0.08 * r)
    assert alarms(shared) == []


def test_d4_without_evaluation_it_informs() -> None:
    engine = play(150, Algorithm.DPO, dpo_margin=lambda r: 0.1 * r)
    assert levels(engine, "D4") == {Level.INFO}


def test_d1_a_kto_loss_that_stays_where_it_began() -> None:
    stuck = {"loss": noisy(0.5, 0.002), "dpo_margin": 0.001, "lr": 1e-6}
    assert first(play(80, Algorithm.KTO, **stuck), "D1").record >= 50
    assert alarms(play(80, Algorithm.KTO, **(stuck | {"loss": lambda r: 0.5 - r / 1000})), "D1") == []


def test_trap_7_losses_of_tiny_batches_spike() -> None:
    engine = play(
        120,
        Algorithm.DPO,
        loss=lambda r: (1.15, 2.11, 0.0076, 3.95)[r % 4],
        dpo_accuracy=lambda r: (0.5, 0.5, 1.0, 0.5)[r % 4],
        dpo_margin=lambda r: (0.1, -1.2, 3.0, -2.0)[r % 4] + 0.5,
    )
    assert alarms(engine) == []


# -- critic ------------------------------------------------------------------------------------------------------


def test_c2_a_critic_that_stands_still() -> None:
    stuck = {"value_loss": noisy(2.0, 0.05)}
    alone = {"C1": {"enabled": False}}
    engine = play(160, Algorithm.PPO, traits=CRITIC, rules=alone, explained_var=0.02, **stuck)
    assert first(engine, "C2").record >= 100
    assert alarms(play(160, Algorithm.PPO, traits=CRITIC, explained_var=0.8, **stuck)) == []
    assert levels(play(160, Algorithm.PPO, traits=CRITIC, **stuck), "C2") == {Level.INFO}


def test_c4_values_leave_the_scale_of_the_returns() -> None:
    engine = play(
        120, Algorithm.PPO, traits=CRITIC, value_mean=lambda r: 0.5 if r < 60 else 4.0, return_mean=noisy(0.5, 0.1)
    )
    assert first(engine, "C4").level is Level.WARN
    early = play(
        120, Algorithm.PPO, traits=CRITIC, value_mean=lambda r: -1.8 if r < 15 else 0.5, return_mean=noisy(0.5)
    )
    assert alarms(early) == []


def test_c5_value_updates_cut_off_for_good() -> None:
    assert first(play(80, Algorithm.PPO, traits=CRITIC, clip_frac_value=noisy(0.6)), "C4").level is Level.WARN
    first_steps = play(80, Algorithm.PPO, traits=CRITIC, clip_frac_value=lambda r: 0.45 if r < 25 else 0.0)
    assert levels(first_steps, "C4") == set()


# -- embodied ----------------------------------------------------------------------------------------------------


def test_r1_embodied_success_is_lost() -> None:
    engine = play(90, Algorithm.EMBODIED, success_frac=lambda r: noisy(min(0.5, r / 50), 0.05)(r) if r < 70 else 0.0)
    assert first(engine, "R1").record <= 73
    assert alarms(engine, "R1")[-1].level is Level.CRIT


@each_row(
    "success",
    [noisy(0.4, 0.2), lambda r: min(0.9, r / 80), 0.0, lambda r: 0.1 if r == 40 else 0.5],
    ids=["noise", "rising", "never", "one bad evaluation"],
)
def test_r1_embodied_traps(success: object) -> None:
    assert alarms(play(100, Algorithm.EMBODIED, success_frac=success)) == []


@each_row("seed", [1, 2, 3, 4, 5])
def test_d1_a_loss_that_stays_above_that_of_chance(seed: int) -> None:
    draw = random.Random(seed)
    noise = [draw.gauss(0.0, 1.0) for _ in range(80)]
    run = {
        "dpo_accuracy": lambda r: 0.49 + 0.03 * noise[r - 1],
        "dpo_margin": lambda r: 0.03 * noise[-r],
        "lr": lambda r: 1e-7 * min(1.0, r / 5),
    }
    above = lambda r: math.log(2.0) + (0.028 + 0.008 * noise[r - 1]) * min(1.0, r / 5)  # noqa: E731
    event = first(play(20, Algorithm.DPO, loss=above, **run), "D1")
    assert event.record <= 18 and "above ln 2" in event.message
    # A batch noise of 0.05 about ln 2 is none, learned late or soon, nor is a loss that starts elsewhere.
    for begins in (10, 45):
        learned = lambda r: max(0, r - begins) / 80  # noqa: B023, E731
        loss = lambda r: math.log(2.0) - 0.2 * learned(r) + 0.05 * noise[r - 1]  # noqa: B023, E731
        healthy = run | {"dpo_margin": lambda r: learned(r) + 0.03 * noise[-r]}  # noqa: B023
        assert "above ln 2" not in str(alarms(play(80, Algorithm.DPO, loss=loss, **healthy), "D1"))
    other = lambda r: math.log(2.0) + 0.08 + 0.008 * noise[r - 1]  # noqa: E731
    assert alarms(play(20, Algorithm.DPO, loss=other, **run), "D1") == []
    # Wherever it starts, fifty records whose accuracy is that of chance are enough; sums of four losses are learned.
    assert "above ln 2" in first(play(80, Algorithm.DPO, loss=other, **run), "D1").message
    # A loss of KTO starts at a half: one above that is not above ln 2.
    assert alarms(play(80, Algorithm.KTO, loss=lambda r: other(r) - 0.2, **run), "D1") == []
    summed = run | {"dpo_accuracy": lambda r: 0.5 + r / 300 + 0.03 * noise[r - 1]}
    assert alarms(play(80, Algorithm.DPO, loss=lambda r: 4.0 * other(r), **summed), "D1") == []
