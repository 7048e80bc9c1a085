"""Composites: what several symptoms together say, when it began, and muting."""

from __future__ import annotations

from observations import alarms, first, identity, noisy, observation, play, series, the
from tables import each_row

from rltop.model import Algorithm, EventState, Level
from rltop.rules.collapse import Collapse, Mover, story
from rltop.rules.engine import Engine
from rltop.rules.rule import Finding

BREAKS = 120


def collapsing(records: int = 130, **more: object) -> Engine:
    """Entropy goes at record 120, length and reward two records later."""
    return play(
        records,
        entropy=lambda r: noisy(0.11 if r < BREAKS else 0.002)(r),
        reward_mean=lambda r: noisy(0.2 + r / 400 if r < BREAKS + 2 else 0.01)(r),
        response_len_mean=lambda r: noisy(900.0 if r < BREAKS + 2 else 7700.0)(r),
        truncated_frac=lambda r: 0.01 if r < BREAKS + 2 else 0.97,
        **more,
    )


def test_x1_dates_the_collapse_by_its_first_symptom_and_names_the_order() -> None:
    engine = collapsing()
    event = first(engine, "X1")
    assert event.level is Level.CRIT
    assert BREAKS < event.record <= BREAKS + 8
    told = story(the(engine, "X1"))
    assert (told.onset_step, told.last_good_step, told.checkpoint_step) == (BREAKS, BREAKS - 1, None)
    assert told.movers[0] == Mover("entropy", BREAKS)
    assert len(told.movers) >= 3
    assert [mover.step for mover in told.movers] == sorted(mover.step for mover in told.movers)
    assert the(engine, "X1").since_step == BREAKS
    assert f"began at step {BREAKS}; last good step {BREAKS - 1}" in event.message
    assert ": entropy, then" in event.message


def test_x1_names_the_last_checkpoint_before_the_onset() -> None:
    saves = lambda r: 30.0 if r % 25 == 0 else None  # noqa: E731
    engine = collapsing(time_save=saves, time_step=lambda r: 40.0 + (saves(r) or 0.0))
    assert story(the(engine, "X1")).checkpoint_step == 100  # type: ignore[union-attr]


def test_x1_takes_checkpoints_that_lie_on_disk_also_after_it_fired() -> None:
    engine = collapsing()
    engine.take_checkpoints([60, 125, 110])
    assert story(the(engine, "X1")).checkpoint_step == 110  # type: ignore[union-attr]
    assert "checkpoint 110" in the(engine, "X1").headline


def test_x1_trap_two_families_are_not_a_collapse() -> None:
    engine = play(
        140,
        entropy=lambda r: noisy(0.11 if r < BREAKS else 0.002)(r),
        reward_mean=lambda r: noisy(0.5 if r < BREAKS + 2 else 0.01)(r),
    )
    assert alarms(engine, "X1") == []


def test_story_of_any_other_verdict_is_none() -> None:
    engine = play(60, clip_frac=0.3)
    assert story(the(engine, "O6")) is None


def test_x2_alive_but_learning_nothing() -> None:
    engine = play(
        120,
        reward_mean=lambda r: noisy(0.25)(r) if r < 40 else 0.0,
        zero_std_frac=lambda r: 0.2 if r < 40 else 1.0,
        grad_norm=lambda r: noisy(0.4)(r) if r < 60 else 0.0,
    )
    event = first(engine, "X2")
    assert event.level is Level.CRIT
    assert 79 <= event.record <= 82
    assert "no gradient" in event.message


def test_x2_counts_on_over_a_record_that_had_a_gradient() -> None:
    dead = lambda r: r >= 60 and r % 40 != 1  # noqa: E731
    engine = play(
        85,
        reward_mean=noisy(0.25),
        zero_std_frac=lambda r: 1.0 if dead(r) else 0.2,
        grad_norm=lambda r: 0.0 if dead(r) else 0.4,
    )
    found = the(engine, "X2")
    assert (found.is_active, found.since_step) == (True, 60)
    assert found.headline.startswith("not learning for 25 records")


def test_x2_ends_where_gradients_are_back_whatever_the_reward_is_by_then() -> None:
    dead = lambda r: 60 <= r < 120  # noqa: E731
    metrics = {
        "reward_mean": lambda r: noisy(0.5)(r) if r < 60 else 0.1 + noisy(0.001)(r) * max(0, r - 120),
        "zero_std_frac": lambda r: 1.0 if dead(r) else 0.2,
        "grad_norm": lambda r: 0.0 if dead(r) else noisy(0.4)(r),
    }
    standing = the(play(119, **metrics), "X2")
    assert standing.headline.startswith("not learning for 60 records: no gradient, zero-variance groups")
    later = play(150, **metrics)
    assert (the(later, "X2").is_active, the(later, "R1").is_active) == (False, True)


def test_x2_every_batch_is_filtered_and_no_update_is_logged_any_more() -> None:
    batches = {"reward_mean": lambda r: noisy(1.5, 0.3)(r) if r < 6 else 0.0}
    event = first(play(30, **batches, policy_loss=lambda r: 0.2 if r < 6 else None), "X2")
    assert (event.record, event.level, event.since_step) == (25, Level.CRIT, 6)
    assert "no update, constant reward" in event.message
    assert alarms(play(30, **batches, policy_loss=lambda r: 0.2 if r % 3 == 0 else None), "X2") == []
    assert alarms(play(60, reward_mean=noisy(1.5, 0.3), policy_loss=lambda r: 0.2 if r < 6 else None), "X2") == []


@each_row(
    "healthy",
    [
        {"reward_mean": 0.0, "zero_std_frac": 1.0, "grad_norm": noisy(0.4)},
        {"reward_mean": 0.0, "zero_std_frac": 1.0, "grad_norm": 0.0},
        {
            "reward_mean": lambda r: min(1.0, 0.4 + r / 60),
            "zero_std_frac": lambda r: 0.3 if r < 36 else 1.0,
            "grad_norm": lambda r: 0.4 if r < 36 else 0.0,
        },
        {"reward_mean": noisy(0.4), "zero_std_frac": 0.3, "grad_norm": noisy(0.1)},
    ],
    ids=["distillation", "constant since the start", "solved", "learning"],
)
def test_x2_traps(healthy: dict) -> None:
    assert alarms(play(160, **healthy), "X2") == []


def test_x3_trap_a_gradient_that_came_first_is_not_driven_by_mismatch() -> None:
    engine = play(
        160,
        grad_norm=lambda r: noisy(0.3)(r) * (12 if r >= 90 and r % 2 else 1),
        off_policy_kl=lambda r: noisy(0.001 if r < 115 else 0.05)(r),
        entropy=lambda r: noisy(0.3 if r < 130 else 0.01)(r),
    )
    assert alarms(engine, "X3") == []


# -- mute --------------------------------------------------------------------------------------------------------


def test_a_muted_rule_goes_on_judging_and_comes_back() -> None:
    engine = Engine(identity(Algorithm.GRPO))
    engine.mute("O6")
    for one in series(40, clip_frac=0.3):
        engine.observe(one)
    assert "O6" not in {one.rule for one in engine.verdicts}
    assert [event.state for event in engine.events if event.rule == "O6"] == [EventState.FIRING]
    assert engine.muted == {"O6"}
    assert "O6" not in {one.rule for one in engine.after(observation(41, {"clip_frac": 0.3})).verdicts}
    engine.mute("O6", is_muted=False)
    assert "O6" in {one.rule for one in engine.verdicts}
    assert engine.muted == frozenset()


def test_muting_changes_no_event() -> None:
    plain, muted = Engine(identity()), Engine(identity())
    muted.mute("E1")
    muted.mute("X1")
    for one in series(
        130,
        entropy=lambda r: noisy(0.11 if r < BREAKS else 0.002)(r),
        reward_mean=lambda r: noisy(0.2 + r / 400 if r < BREAKS + 2 else 0.01)(r),
        response_len_mean=lambda r: noisy(900.0 if r < BREAKS + 2 else 7700.0)(r),
        truncated_frac=lambda r: 0.01 if r < BREAKS + 2 else 0.97,
    ):
        plain.observe(one)
        muted.observe(one)
    assert first(plain, "X1") and muted.events == plain.events


def test_x1_stands_while_the_symptoms_do_and_recovers_with_them() -> None:
    assert "X1" in {one.rule for one in collapsing(180).verdicts}
    healed = play(
        260,
        entropy=lambda r: noisy(0.11 if not BREAKS <= r < 140 else 0.002)(r),
        reward_mean=lambda r: noisy(0.2 + r / 400 if not BREAKS + 2 <= r < 140 else 0.01)(r),
        response_len_mean=lambda r: noisy(900.0 if not BREAKS + 2 <= r < 140 else 7700.0)(r),
        truncated_frac=lambda r: 0.01 if not BREAKS + 2 <= r < 140 else 0.97,
    )
    states = [event.state for event in healed.events if event.rule == "X1"]
    assert states == [EventState.FIRING, EventState.RECOVERED]


def test_symptoms_that_began_at_once_have_no_first() -> None:
    judge = Collapse({"families": 3, "records": 5, "lead": 60, "holds": 2})
    apart = Finding(Level.CRIT, 3.0, None, 3.0, (5.0, 6.0, 7.0), ("kl", "entropy", "reward"))
    together = Finding(Level.CRIT, 3.0, None, 3.0, (5.0, 5.0, 7.0), ("entropy", "length", "reward"))
    assert judge.headline(apart).endswith(": KL, then entropy, reward")
    assert judge.headline(together).endswith(": entropy and length together, then reward")
