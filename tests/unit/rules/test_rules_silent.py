"""What the data shout where rules with a baseline are silent: dead, absurd or mute from the first record on."""

from __future__ import annotations

import random

from observations import alarms, alone, every, first, judged, noisy, play, step_up
from tables import each_row

from rltop.model import Algorithm, EventState, Level, NonFinite

DEAD = {"reward_mean": 0.0, "lr": 1e-6, "response_len_mean": noisy(300.0)}


@each_row(
    ("signs", "record"),
    [
        ({"grad_norm": 0.0}, 20),
        ({"reward_std": 0.0}, 15),
        ({"zero_std_frac": 1.0}, 15),
        ({"zero_std_frac": 1.0, "grad_norm": 0.0}, 15),
        ({"reward_std": 0.0, "grad_norm": noisy(0.02), "kl_ref": noisy(0.001)}, 15),
        ({"reward_max": -1.0, "reward_min": -1.0, "reward_mean": -1.0, "reward_std": 1e-9, "kl_ref": noisy(0.001)}, 15),
    ],
)
def test_r13_dead_from_the_first_record(signs, record: int) -> None:
    found = alarms(play(80, **{**DEAD, **signs}), "R13")
    assert [(event.level, event.record) for event in found] == [(Level.WARN, record), (Level.CRIT, 50)]


def test_r22_most_batches_score_the_same() -> None:
    def batch(value: float, share: float, seed: str):
        same = lambda r: r > 5 and random.Random(f"{seed}/{r}").random() < share  # noqa: E731
        return {
            "reward_mean": lambda r: value if same(r) else noisy(0.5, 0.2)(r),
            "reward_std": lambda r: 0.0 if same(r) else 0.2,
        }

    assert first(play(60, **batch(0.64, 0.8, "mid")), "R22").record <= 40
    assert alarms(play(200, **batch(0.0, 0.6, "chance")), "R22") == [], "prompts too hard, by chance"
    assert first(play(80, **batch(0.0, 0.96, "floor")), "R22").record <= 50
    assert alarms(play(200, **batch(1.0, 0.9, "top")), "R22") == [], "solved"
    few = {"reward_mean": lambda r: 0.2 * (r % 12 == 4), "loss": lambda r: -1.0 * (r % 12 == 4)}
    assert first(play(60, **few), "R22").record <= 30


def test_r22_ends_where_batches_differ_again() -> None:
    rewards = {
        "reward_mean": lambda r: 0.64 if 10 <= r < 60 and r % 4 else noisy(0.5, 0.2)(r),
        "reward_std": lambda r: 0.0 if 10 <= r < 60 and r % 4 else 0.2,
    }
    engine = play(120, **rewards)
    assert first(engine, "R22").record <= 40
    assert [event for event in engine.events if event.raised_by == "R22"][-1].state.value == "recovered"


def test_a_dead_start_is_one_alert() -> None:
    for more in ({"zero_std_frac": 1.0, "grad_norm": 0.0}, {"zero_std_frac": 1.0}):
        told = [(event.rule, event.record, event.level) for event in alarms(play(120, **DEAD, **more))]
        assert told == [("R13", 15, Level.WARN), ("R13", 50, Level.CRIT)]


def test_r13_ends_with_the_first_reward() -> None:
    alive = play(60, **{**DEAD, "reward_mean": lambda r: 0.0 if r < 30 else 0.1}, zero_std_frac=lambda r: float(r < 30))
    assert first(alive, "R13").record == 15
    assert [event for event in alive.events if event.rule == "R13"][-1].state.value == "recovered"


def test_r13_goes_on_where_the_reward_only_drops_to_another_constant() -> None:
    engine = play(300, **{**DEAD, "reward_mean": lambda r: 0.0 if r < 150 else -0.0112}, zero_std_frac=1.0)
    (verdict,) = [one for one in engine.verdicts if one.rule == "R13"]
    assert (verdict.level, verdict.recovered_step) == (Level.CRIT, None)
    assert verdict.headline.startswith("reward 0, then −0.0112 on each of 151 records")
    alive = play(300, **{**DEAD, "reward_mean": lambda r: 0.0 if r < 150 else noisy(-0.01)(r)}, zero_std_frac=1.0)
    assert [one.state.value for one in alive.events if one.rule == "R13"][-1] == "recovered"


def test_r13_reward_that_never_moved() -> None:
    assert first(play(60, reward_mean=-1.0, response_len_mean=noisy(200.0), grad_norm=noisy(0.5)), "R13").record == 50
    assert first(play(60, Algorithm.PPO, lr=1e-4, reward_mean=0.0, grad_norm=noisy(0.5)), "R13").record == 50


def test_r13_a_return_above_0_that_never_moves_is_no_solved_task_where_lengths_differ() -> None:
    control = {"lr": 1e-4, "grad_norm": noisy(0.5)}
    assert first(play(60, Algorithm.PPO, reward_mean=0.25, episode_len=noisy(125.0), **control), "R13").record == 50
    assert alarms(play(60, Algorithm.PPO, reward_mean=500.0, episode_len=500.0, **control), "R13") == []
    assert alarms(play(60, Algorithm.PPO, reward_mean=1.0, episode_len=noisy(20.0), **control), "R13") == []
    assert first(play(60, Algorithm.EMBODIED, success_frac=0.0, grad_norm=0.0, lr=1e-4), "R13").record == 20


@each_row(
    "healthy",
    [
        {"lr": 0.0},
        {"kl_teacher": noisy(0.4)},
        {"algorithm": Algorithm.DISTILL},
        {"algorithm": Algorithm.SFT},
        {"algorithm": Algorithm.DPO},
        {"reward_mean": 1.0},
        {"reward_mean": lambda r: float(r % 15 == 14) / 8},
    ],
)
def test_r13_trap_no_reward_is_wanted_or_it_is_sparse(healthy) -> None:
    run = play(120, **{**DEAD, "zero_std_frac": 1.0, "grad_norm": 0.0, **healthy})
    assert alarms(run, "R13") == []
    assert "reward_mean" in healthy or alarms(run, "X2") == []


def test_r13_trap_a_critic_is_warmed_up_first() -> None:
    actor = lambda r: None if r <= 40 else 0.5  # noqa: E731
    run = play(
        60, algorithm=Algorithm.PPO, traits={"has_critic": True}, reward_mean=0.0, reward_std=0.0,
        value_loss=noisy(0.1), grad_norm=actor,
    )  # fmt: skip
    assert alarms(run, "R13") == []


def test_r13_trap_dense_rewards_of_a_classic_task() -> None:
    """The reward per step of CartPole is always 1."""
    assert alarms(play(300, algorithm=Algorithm.PPO, reward_mean=1.0, reward_std=0.0, grad_norm=noisy(0.4))) == []


def test_r13_trap_an_unlabelled_teacher_moves_the_weights() -> None:
    distilled = play(200, **DEAD, zero_std_frac=1.0, grad_norm=noisy(0.4))
    assert Level.CRIT not in {event.level for event in alarms(distilled)}
    assert first(distilled, "R13").record == 50


def test_o18_gradient_norm_that_is_absurd_from_the_start() -> None:
    found = first(play(30, grad_norm=noisy(3e9)), "O1")
    assert (found.level, found.record) == (Level.CRIT, 2)
    assert play(30, grad_norm=noisy(2e5)).events == [], "a loss summed over the tokens of a batch"
    unclipped = play(30, grad_norm=noisy(2e6))
    assert alarms(unclipped) == []
    assert [event.level for event in unclipped.events if event.raised_by == "O1"] == [Level.INFO]
    assert alarms(play(30, grad_norm=lambda r: 2e8 if r == 5 else noisy(3e4)(r)), "O1") == []


@each_row("ratio", [2.6, 5e3, 0.04])
def test_o10_ratio_that_is_absurd_from_the_start(ratio: float) -> None:
    found = alarms(play(40, ratio_mean=noisy(ratio)), "O10")
    assert [(event.level, event.record) for event in found] == [(Level.WARN, 3)]


@each_row("ratio", [0.5, 0.97, 1.0, 0.0])
def test_o10_trap_ratios_that_trainers_log_by_construction(ratio: float) -> None:
    assert alarms(play(40, ratio_mean=noisy(ratio, 0.01)), "O10") == []
    assert alarms(play(40, algorithm=Algorithm.UNKNOWN, ratio_mean=16.0), "O10") == []


def test_p5_group_ratio_that_is_high_from_the_start_does_not_become_usual() -> None:
    run = play(80, group_size=8, group_len_ratio=noisy(6.0))
    assert first(run, "P5").record <= 6
    assert "baseline" not in next(verdict for verdict in run.verdicts if verdict.rule == "P5").headline
    assert [event for event in run.events if event.rule == "P5" and event.state.value == "recovered"] == []
    assert alarms(play(80, group_size=8, group_len_ratio=noisy(2.4)), "P5") == []


def test_t9_no_completion_has_ever_ended() -> None:
    never = play(40, terminated_len_mean=0.0, truncated_frac=1.0, response_len_mean=512.0, rules=alone("T9"))
    assert first(never, "T9").record == 24
    differ = play(40, stop_count=0.0, response_len_min=noisy(20.0), response_len_max=noisy(90.0))
    assert first(differ, "T9").record == 24


def test_t9_none_ever_is_refuted_by_the_first_that_ends() -> None:
    ended = lambda r: 360.0 if r in (33, 34, 41, 48) else 0.0  # noqa: E731
    engine = play(120, terminated_len_mean=ended, truncated_frac=0.98, rules=alone("T9"))
    events = [(event.state, event.record) for event in engine.events if event.raised_by == "T9"]
    assert events[:2] == [(EventState.FIRING, 24), (EventState.RECOVERED, 33)]
    assert [verdict.since_record for verdict in engine.verdicts if verdict.raised_by == "T9"] == [35]


def test_t9_trap_generation_of_a_fixed_length() -> None:
    fixed = play(80, algorithm=Algorithm.PPO, stop_count=0.0)
    assert alarms(fixed) == []
    assert "T9" in {event.raised_by for event in fixed.events}
    assert alarms(play(80, stop_count=0.0, response_len_min=53.0, response_len_max=53.0), "T9") == []


def _logged(**gone):
    """A healthy run; a metric of `gone` is missing on the records that its value says."""
    metrics = {
        "lr": 1e-6, "grad_norm": noisy(0.3), "policy_loss": noisy(0.01), "entropy": noisy(0.5), "kl_ref": noisy(0.01),
        "reward_mean": noisy(0.4), "response_len_mean": noisy(300.0), "time_step": noisy(20.0),
    }  # fmt: skip
    for name, missing in gone.items():
        source = metrics[name]
        metrics[name] = lambda r, s=source, m=missing: None if m(r) else (s(r) if callable(s) else s)
    return metrics


@each_row("name", ["grad_norm", "policy_loss", "entropy", "kl_ref"])
def test_l11_one_key_that_was_on_every_record_vanishes(name: str) -> None:
    found = first(play(60, **_logged(**{name: lambda r: r >= 40})), "L11")
    assert (found.level, found.record, found.since_step, found.metric) == (Level.WARN, 42, 40, name)


def test_l11_loss_and_gradient_together_are_a_nan_that_the_writer_drops() -> None:
    gone = play(60, **_logged(grad_norm=lambda r: r >= 40, policy_loss=lambda r: r >= 40))
    found = alarms(gone, "L11")
    assert [(event.level, event.record) for event in found] == [(Level.WARN, 40), (Level.CRIT, 41)]
    assert "NaN" in found[0].message
    back = play(60, **_logged(grad_norm=lambda r: 40 <= r < 43, policy_loss=lambda r: 40 <= r < 43))
    assert [event for event in back.events if event.rule == "L11"][-1].state.value == "recovered"


@each_row(
    "gone",
    [
        {"entropy": lambda r: r % 5 != 0},
        {"grad_norm": lambda r: r in {30, 45}},
        {"grad_norm": lambda r: r >= 15},
        {"grad_norm": lambda r: r >= 40, "policy_loss": lambda r: r >= 40, "lr": lambda r: r >= 40},
    ],
)
def test_l11_trap_cadence_single_gaps_and_rollouts_without_an_update(gone) -> None:
    assert alarms(play(80, **_logged(**gone)), "L11") == []


def test_l11_trap_filtered_batches_summaries_and_nan_that_is_written() -> None:
    gap = lambda r: r >= 40  # noqa: E731
    flat = _logged(grad_norm=gap, policy_loss=gap)
    assert alarms(play(60, **flat, zero_std_frac=lambda r: float(r >= 40)), "L11") == []
    summary = {"epoch": 3.0, "lr": 1e-6}
    rows = [{"loss": 0.5 - r / 500, "grad_norm": 1.0, "mean_token_accuracy": 0.5, "num_tokens": r, **summary}
            for r in range(40)]  # fmt: skip
    assert [event for event in judged([*rows, *[summary] * 4]) if event.rule == "L11"] == []
    nan = play(60, **{**_logged(), "grad_norm": lambda r: NonFinite.NAN if r >= 40 else 0.3})
    assert alarms(nan, "L11") == []
    assert alarms(nan, "L1") != []


def test_tinker_completions_that_do_not_end_are_truncated() -> None:
    drawn = random.Random(4)

    def row(format_eos: float) -> dict[str, float]:
        return {
            "env/all/reward/total": drawn.gauss(0.2, 0.02), "env/all/by_group/frac_mixed": 0.6, "optim/lr": 1e-5,
            "env/all/format_eos": format_eos + drawn.gauss(0.0, 0.01), "optim/entropy": 0.4,
        }  # fmt: skip

    found = [event for event in judged([row(0.46) for _ in range(25)]) if event.rule == "T1"]
    assert [event.level for event in found] == [Level.WARN]
    assert not [event for event in judged([row(0.97) for _ in range(25)]) if event.rule == "T1"]


def test_t1_trap_the_share_of_a_small_batch_wanders() -> None:
    def share(record: int) -> float:
        centre = 0.35 if (record // 6) % 3 == 2 else 0.22
        return min(0.48, max(0.02, random.Random(record).gauss(centre, 0.12)))

    assert alarms(play(60, truncated_frac=share), "T1") == []
    assert alarms(play(60, truncated_frac=lambda r: share(r) * (0.3 if r < 30 else 1.0)), "T1") != []


def test_l11_trap_updates_that_are_left_out_now_and_then() -> None:
    left_out = lambda r: r > 30 and r % 10 < 3  # noqa: E731
    found = alarms(play(200, **_logged(entropy=left_out, kl_ref=left_out)), "L11")
    assert len(found) <= 1
    solved = _logged(policy_loss=lambda r: r >= 60, kl_ref=lambda r: r >= 60)
    solved["reward_mean"] = lambda r: min(1.0, r / 40)
    assert alarms(play(120, **solved), "L11") == []


def test_r13_a_policy_that_always_does_the_same_at_the_floor_of_its_task() -> None:
    entropy = lambda r: 0.07 if r < 9 else 0.0  # noqa: E731
    certain = {"lr": 1e-4, "action_entropy": entropy, "kl_old": lambda r: 1e-3 if r < 9 else 0.0}
    found = [event.level for event in alarms(play(70, reward_mean=-21.0, **certain), "R13")]
    assert found == [Level.WARN, Level.CRIT]
    assert alarms(play(45, reward_mean=-21.0, **{**certain, "action_entropy": 0.8}), "R13") == []
    assert alarms(play(70, reward_mean=21.0, **certain), "R13") == [], "solved from the start"


def test_l3_without_groups_every_return_has_a_gradient() -> None:
    lost = {"reward_mean": noisy(0.5, 0.2), "lr": 1e-4, "grad_norm": step_up(1.0, 0.0, 40, 0.1)}
    assert first(play(60, algorithm=Algorithm.DQN, **lost), "L3").level is Level.CRIT
    assert first(play(60, **{**lost, "grad_norm": step_up(1.0, 0.0, 15, 0.1)}), "L3").level is Level.WARN


@each_row(("metric", "scale"), [("val_acc", 1.0), ("val_return", 300.0)])
def test_r6_accuracy_and_return_of_evaluations_are_judged(metric: str, scale: float) -> None:
    held = every(5, [scale * value for value in (0.70, 0.71, 0.69, 0.70, 0.72, 0.70, 0.71, 0.70, 0.71, *[0.2] * 8)])
    found = play(80, reward_mean=noisy(scale * 0.7, 0.05), **{metric: held})
    assert any(event.family == "validation" for event in alarms(found))
    wavy = every(5, [scale * value for value in (0.70, 0.3, 0.69, 0.5, 0.72, 0.2, 0.71, 0.6, 0.3, 0.6, 0.2, 0.7, 0.5)])
    found = play(65, reward_mean=noisy(scale * 0.7, 0.05), val_return=wavy)
    assert not [event for event in alarms(found) if event.family == "validation"], "a few episodes are noisy"


def test_l11_trap_what_is_logged_now_and_then_has_long_rows_by_chance() -> None:
    there = lambda r: r % 12 == 0 or 60 < r <= 82  # noqa: E731
    some = {
        "loss": lambda r: noisy(0.3)(r) if there(r) else None,
        "grad_norm": lambda r: noisy(1.0)(r) if there(r) else None,
    }
    assert alarms(play(120, lr=1e-5, reward_mean=noisy(0.4), response_len_mean=noisy(200.0), **some), "L11") == []
    always = {name: lambda r, of=of: of(r) if r <= 60 else None for name, of in (("loss", noisy(0.3)),)}
    gone = play(90, lr=1e-5, reward_mean=noisy(0.4), response_len_mean=noisy(200.0), **always)
    assert first(gone, "L11").record == 63


def test_a_dead_start_after_a_warm_up_counts_from_there() -> None:
    warm = lambda record: 0.0 if record < 30 else 1e-6  # noqa: E731
    found = first(play(60, reward_mean=0.0, grad_norm=0.0, response_len_mean=noisy(200.0), lr=warm), "R13")
    assert (found.record, found.since_step) == (49, 30)
    assert "on each of 20 records" in found.message
    assert "the first" not in found.message
