"""From a verdict to what to look at next."""

from __future__ import annotations

from observations import noisy, play

from rltop.health.diagnosis import next_steps, reason
from rltop.health.registry import BY_ID


def test_a_crashed_reward_leads_to_entropy_clip_lr_mismatch_then_length() -> None:
    engine = play(90, reward_mean=lambda r: noisy(0.6, 0.03)(r) if r < 70 else 0.02)
    verdict = next(v for v in engine.verdicts if v.rule == "R1")
    order = [step.metric for step in next_steps(verdict)]
    wanted = ["entropy", "clip_frac", "lr", "off_policy_kl", "truncated_frac", "reward_component"]
    assert [name for name in order if name in wanted] == wanted
    assert all(step.reason for step in next_steps(verdict))


def test_a_slow_step_leads_to_the_tail() -> None:
    assert BY_ID["P1"].next[:2] == ("time_gen", "group_len_ratio")


def test_the_family_may_change_the_reason() -> None:
    assert reason("groups", "reward_mean") != reason("entropy", "reward_mean")
    assert reason("entropy", "nothing_known") == ""
