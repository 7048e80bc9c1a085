"""Silence: judged when asked with a time, against the gaps so far."""

from __future__ import annotations

import json

import pytest
from observations import observation
from recorded import recorded_run
from tables import each_row

from rltop.model import Level
from rltop.rules.liveness import LIMITS, Liveness


def heard(gap_s: float, records: int = 50, *, save_every: int = 0, save_s: float = 0.0) -> tuple[Liveness, float]:
    """A run with a record every `gap_s` seconds; returns it and the time of the last one."""
    liveness, now_s = Liveness(), 0.0
    for record in range(1, records + 1):
        is_save = save_every > 0 and record % save_every == 0
        now_s += gap_s + (save_s if is_save else 0.0)
        values = {"time_step": gap_s} | ({"time_save": save_s} if is_save else {})
        liveness.observe(observation(record, values)._replace(time_s=now_s))
    return liveness, now_s


def test_silence_grows_from_quiet_to_stalled() -> None:
    liveness, _ = heard(66.0, save_every=10, save_s=60.0)
    assert liveness.level(60.0) is Level.OK
    assert liveness.level(150.0) is Level.INFO
    assert liveness.level(200.0) is Level.WARN
    assert liveness.level(599.0) is Level.WARN
    assert liveness.level(700.0) is Level.CRIT


def test_a_stall_is_seen_within_three_usual_gaps() -> None:
    liveness, _ = heard(120.0)
    assert liveness.level(3 * 120.0) is Level.OK or liveness.level(3 * 120.0) is Level.INFO
    assert liveness.level(3 * 120.0 + 1) is Level.WARN


def test_trap_until_a_checkpoint_was_seen_it_is_only_a_warning() -> None:
    liveness, _ = heard(66.0)
    assert liveness.level(86400.0) is Level.WARN
    verdict = liveness.verdict(3000.0)
    assert "first checkpoint" in verdict.headline


def test_trap_a_checkpoint_of_forty_minutes_is_part_of_what_is_usual() -> None:
    liveness, _ = heard(150.0, records=60, save_every=20, save_s=2396.0)
    assert liveness.level(2500.0) < Level.WARN
    assert liveness.level(8000.0) is Level.CRIT


def test_trap_the_lag_of_a_network_file_system_is_allowed_for() -> None:
    liveness, _ = heard(30.0)
    assert liveness.level(95.0) is Level.WARN
    assert liveness.level(95.0, lag_s=30.0) < Level.WARN


def test_fast_runs_are_not_stalled_after_a_second() -> None:
    liveness, _ = heard(0.06)
    assert liveness.level(59.0) < Level.WARN
    assert liveness.level(61.0) is Level.WARN


def test_the_verdict_says_how_long_and_what_is_usual() -> None:
    liveness, _ = heard(66.0, save_every=10, save_s=114.0)
    verdict = liveness.verdict(840.0, key="timing_s/step")
    assert verdict.headline == "no new record for 14 m (median gap 66.0 s, p99 180 s)"
    assert (verdict.rule, verdict.family, verdict.group, verdict.since_record) == ("L4", "liveness", "system", 50)
    assert verdict.key == "timing_s/step"
    assert next(e.value for e in verdict.evidence) == 840.0


def test_arrival_counts_before_the_time_in_the_row() -> None:
    liveness = Liveness()
    for record, arrived_s in enumerate((100.0, 110.0, 120.0, 130.0), 1):
        liveness.observe(observation(record, {})._replace(time_s=5.0 * record), arrived_s)
    assert len(liveness.gaps_s) == 3
    assert liveness.silence().warn_s == LIMITS["warn_s"]
    assert liveness.silence().quiet_s == pytest.approx(15.0)


def test_without_times_the_step_time_stands_in() -> None:
    liveness = Liveness()
    for record in range(1, 11):
        liveness.observe(observation(record, {"time_step": 100.0})._replace(time_s=None))
    assert liveness.silence().warn_s == pytest.approx(300.0)


def test_the_first_record_may_take_its_time() -> None:
    liveness = Liveness()
    assert liveness.verdict(1000.0) is None
    liveness.observe(observation(1, {}))
    assert liveness.level(1000.0) is Level.OK
    assert liveness.level(2000.0) is Level.WARN


def test_the_gap_across_a_restart_does_not_count() -> None:
    liveness, now_s = heard(30.0)
    known = len(liveness.gaps_s)
    liveness.restart()
    liveness.observe(observation(51, {})._replace(time_s=now_s + 50000.0))
    assert len(liveness.gaps_s) == known


def test_a_clone_goes_its_own_way_and_limits_can_be_moved() -> None:
    liveness, _ = heard(30.0)
    twin = liveness.clone()
    twin.observe(observation(51, {"time_step": 1.0}))
    assert len(liveness.gaps_s) < len(twin.gaps_s)
    assert Liveness({"warn_s": 5.0}).thresholds["warn_s"] == 5.0


def paused(records: int, every: int, pause_s: float, *, is_named: bool) -> Liveness:
    """A record every 30 s, and a pause before each `every`-th one, longer than p99 can see."""
    liveness, now_s = Liveness(), 0.0
    for record in range(1, records + 1):
        is_pause = record % every == 0
        now_s += 30.0 + (pause_s if is_pause else 0.0)
        values = {"time_step": 30.0} | ({"time_save": pause_s} if is_pause and is_named else {})
        liveness.observe(observation(record, values)._replace(time_s=now_s))
    return liveness


@each_row("is_named", [True, False], ids=["with its own key", "seen by its length"])
@each_row("pauses", [1, 3])
def test_trap_a_pause_that_comes_back_is_waited_for_when_it_is_due(pauses: int, is_named: bool) -> None:
    due = paused(200 * (pauses + 1) - 1, 200, 1200.0, is_named=is_named)
    assert due.level(1230.0) < Level.WARN
    assert due.level(1900.0) >= Level.WARN
    between = paused(200 * pauses + 90, 200, 1200.0, is_named=is_named)
    assert between.level(95.0) is Level.WARN


@each_row("name", ["grpo_healthy_set_kl04", "ppo_healthy", "dpo_healthy", "rm_healthy_eval"])
def test_no_gap_of_a_recorded_healthy_run_is_a_stall(name: str) -> None:
    """Against a floor of 2 s: these runs are tiny, and 60 s would see nothing."""
    liveness, before_s = Liveness(LIMITS | {"warn_s": 2.0}), None
    for line in recorded_run(f"trl/{name}").metrics.read_text().splitlines():
        row = json.loads(line)
        if "loss" not in row and "objective/kl" not in row:
            continue
        if before_s is not None and len(liveness.gaps_s) > 20:
            assert liveness.level(row["time"] - before_s) < Level.WARN
        before_s = row["time"]
        liveness.observe(observation(row["step"], {})._replace(time_s=row["time"]))
