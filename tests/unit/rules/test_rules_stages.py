"""Waiting, side stages, utilisation, memory."""

from __future__ import annotations

import re

from observations import alarms, first, levels, noisy, play

from rltop.model import Level
from rltop.rules.engine import Engine

ASYNC = {"is_async": True}


# -- P3, P7 ------------------------------------------------------------------------------------------------------


def test_p3_utilisation_falls() -> None:
    assert first(play(90, mfu=lambda r: noisy(0.4 if r < 60 else 0.2, 0.02)(r)), "P3").level is Level.WARN


def test_p3_utilisation_of_next_to_nothing_from_the_start() -> None:
    alarm = first(play(90, mfu=noisy(0.025, 0.05)), "P3")
    assert (alarm.level, alarm.since_step) == (Level.WARN, 1)
    assert "from the start" in alarm.message
    assert first(play(90, mfu=noisy(0.025, 0.05), time_eval=130.0), "P3").level is Level.WARN


def test_p3_traps_level_unknown_machine_and_fewer_tokens() -> None:
    assert alarms(play(90, mfu=noisy(0.043, 0.05))) == []
    assert play(90, mfu=0.0).events == []
    shorter = play(
        90, mfu=lambda r: noisy(0.4 if r < 60 else 0.2, 0.02)(r), total_tokens=lambda r: 1e6 if r < 60 else 3e5
    )
    assert alarms(shorter, "P3") == []
    assert levels(shorter, "P3") == {Level.INFO}


def test_p3_fewer_tokens_in_steps_of_the_same_length_are_no_slower_machine() -> None:
    """A step costs some time whatever is in it: shorter answers lower the tokens per second by themselves."""

    def run(tokens: float, seconds: float) -> Engine:
        after = lambda low: lambda r: noisy(1.0 if r < 60 else low, 0.02)(r)  # noqa: E731
        pace = lambda r: 1e3 * after(tokens)(r) / after(seconds)(r)  # noqa: E731
        total = lambda r: 1e5 * after(tokens)(r)  # noqa: E731
        return play(90, throughput=pace, total_tokens=total)

    engine = run(tokens=0.5, seconds=1.1)
    assert levels(engine, "P3") == {Level.INFO}
    assert engine.events[-1].message.endswith("since the baseline: fewer tokens per step")
    assert first(run(tokens=0.5, seconds=1.6), "P3").level is Level.WARN
    assert first(run(tokens=1.0, seconds=1.6), "P3").level is Level.WARN


def test_p7_lengths_grow_uneven() -> None:
    engine = play(90, group_len_gini=lambda r: noisy(0.15 if r < 50 else 0.35, 0.02)(r))
    assert levels(engine, "P7") == {Level.INFO}
    assert levels(play(90, group_len_gini=noisy(0.2)), "P7") == set()


# -- P9 to P14 ---------------------------------------------------------------------------------------------------


def test_p9_the_trainer_begins_to_wait() -> None:
    engine = play(120, traits=ASYNC, time_step=100.0, time_wait_data=lambda r: noisy(15.0 if r < 60 else 50.0)(r))
    assert first(engine, "P9").level is Level.WARN
    worse = play(120, traits=ASYNC, trainer_idle_frac=lambda r: 0.2 if r < 60 else 0.8)
    assert first(worse, "P9").record <= 64


def test_p9_a_trainer_that_waited_most_of_the_time_does_hardly_anything_now() -> None:
    waited = lambda r: noisy(15.0 if r < 60 else 290.0, 0.1)(r)  # noqa: E731
    engine = play(120, traits=ASYNC, time_step=noisy(8.0, 0.2), time_wait_between=waited)
    assert [event.level for event in alarms(engine, "P9")] == [Level.WARN]
    assert engine.verdicts[0].headline.startswith("trainer waits 97 % for rollouts")
    assert alarms(play(120, traits=ASYNC, time_step=noisy(8.0, 0.2), time_wait_between=noisy(15.0, 0.2))) == []


def test_p9_traps_one_pool_of_machines_and_a_share_that_was_set_up() -> None:
    together = {"time_step": 100.0, "time_wait_data": lambda r: noisy(15.0 if r < 60 else 60.0)(r)}
    assert alarms(play(120, **together)) == []
    configured = play(120, traits=ASYNC, trainer_idle_frac=noisy(0.6))
    assert alarms(configured) == []
    assert levels(configured, "P9") == {Level.INFO}


def test_p10_the_samplers_begin_to_wait() -> None:
    engine = play(120, traits=ASYNC, rollouter_idle_frac=lambda r: 0.1 if r < 60 else 0.5)
    assert "generation waits 30 %" in first(engine, "P9").message
    assert "(baseline 10 %)" in first(engine, "P9").message


def test_p9_is_about_the_side_that_waits() -> None:
    waits = {"trainer_idle_frac": 0.05, "time_wait_data": 0.5}
    engine = play(120, traits=ASYNC, rollouter_idle_frac=lambda r: 0.1 if r < 60 else 0.6, **waits)
    (verdict,) = [one for one in engine.verdicts if one.rule == "P9"]
    assert (verdict.metric, "generation waits 60 %" in verdict.headline) == ("rollouter_idle_frac", True), (
        verdict.headline
    )


def test_p12_weight_sync_jumps_or_grows() -> None:
    jumped = play(90, time_step=100.0, time_weight_sync=lambda r: noisy(4.0 if r < 60 else 30.0)(r))
    assert first(jumped, "P12").record <= 66
    configured = play(90, time_step=10.0, time_weight_sync=noisy(3.0))
    assert alarms(configured) == []
    assert levels(configured, "P12") == {Level.INFO}


def test_p12_a_slow_sync_is_seen_wherever_the_step_is_told() -> None:
    """In every fourth row, as of four updates a step, and beside a step time that leaves it out."""
    sync, begins = (lambda r: noisy(4.0 if r < 160 else 60.0)(r)), lambda r: r % 4 == 1
    rare = {"time_step": lambda r: 100.0 if begins(r) else None, "time_weight_sync": lambda r: begins(r) and sync(r)}
    assert first(play(400, **rare), "P12").record <= 200
    beside = play(300, time_step=noisy(40.0, 0.02), time_weight_sync=sync)
    assert re.search(r": [56]\d\S* % of step time at step \d+$", first(beside, "P12").message)


def test_p12_a_side_stage_takes_over() -> None:
    slow_judge = play(90, time_step=lambda r: 40.0 if r < 60 else 90.0, time_reward=lambda r: 2.0 if r < 60 else 52.0)
    assert "reward 5" in first(slow_judge, "P12").message
    absurd = play(40, time_step=11000.0, time_adv=10752.0)
    assert "adv 2 h" in first(absurd, "P12").message


def test_p12_traps_a_pass_over_the_batch_is_a_quarter_of_the_step_by_nature() -> None:
    assert play(90, time_step=100.0, time_ref=22.0, time_old_log_prob=24.0, time_reward=5.0).events == []


def test_p14_time_that_no_stage_explains() -> None:
    engine = play(60, time_step=100.0, stages=lambda r: {"gen": 40.0, "update_actor": 20.0})
    assert levels(engine, "P14") == {Level.INFO}
    verdict = next(verdict for verdict in engine.verdicts if verdict.rule == "P14")
    said = re.fullmatch(r"40\.0 % of step (\d+) unaccounted for: 40\.0 s", verdict.headline)
    assert said and int(said[1]) % 4 == 0, "every fourth record is looked at, and the newest may differ"
    assert play(60, time_step=100.0, stages=lambda r: {"gen": 70.0, "update_actor": 29.8}).events == []


def test_trap_13_stages_that_overlap_explain_more_than_the_step() -> None:
    overlap = play(60, traits=ASYNC, time_step=100.0, stages=lambda r: {"gen": 95.0, "update_actor": 80.0})
    assert overlap.events == []


def test_trap_2_a_checkpoint_inside_the_step_is_no_unexplained_time() -> None:
    def save(record: int) -> float:
        return 2396.0 if record % 4 == 0 else 0.0

    engine = play(
        80,
        time_step=lambda r: 150.0 + save(r),
        time_save=lambda r: save(r) or None,
        stages=lambda r: {"gen": 100.0, "update_actor": 49.0} | ({"save_checkpoint": save(r)} if save(r) else {}),
    )
    assert levels(engine, "P14") == set()
    assert alarms(engine) == []


# -- memory ------------------------------------------------------------------------------------------------------


def test_h1_only_where_the_size_is_known() -> None:
    rising = lambda r: 70.0 + max(0, r - 40) * 0.8  # noqa: E731
    known = play(52, mem_reserved_gb=rising, rules={"H1": {"size_gb": 80.0}})
    assert first(known, "H1").level is Level.WARN
    assert Level.CRIT in levels(known, "H1")
    assert alarms(play(52, mem_reserved_gb=rising)) == []
    assert alarms(play(60, mem_reserved_gb=204.9)) == []


def test_h1_trap_an_allocator_fills_the_device_by_design() -> None:
    assert play(60, mem_reserved_gb=77.0, rules={"H1": {"size_gb": 80.0}}).events == []


def test_trap_14_peak_memory_is_a_ratchet_not_a_leak() -> None:
    ratchet = play(200, mem_alloc_gb=lambda r: 40.0 + 0.5 * (r // 10))
    assert alarms(ratchet) == []


def test_h2_host_memory_climbs() -> None:
    climbing = lambda r: 100.0 * (1 + r / 200)  # noqa: E731
    assert first(play(140, mem_cpu_gb=climbing), "H2").level is Level.WARN
    near = play(140, mem_cpu_gb=climbing, rules={"H2": {"size_gb": 170.0}})
    assert first(near, "H2").level is Level.CRIT
    assert alarms(play(300, mem_cpu_gb=noisy(300.0, 0.1))) == []
