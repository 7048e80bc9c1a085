import math
import time

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.catalog.dialect import Stage, TimingPlan
from rltop.model import Span, SpanKind, StepTiming
from rltop.stats.timing import stage_keys, step_timing
from rltop.trainers import prime_rl, skyrl, tinker, trl, verl

VERL = verl.DIALECT.timing
assert VERL is not None
ROW = {
    "actor/pg_loss": 0.1,
    "timing_s/step": 100.0,
    "timing_s/update_actor": 20.0,
    "timing_s/gen": 60.0,
    "timing_s/old_log_prob": 8.0,
    "timing_s/ref": 6.0,
    "timing_s/adv": 0.5,
    "timing_per_token_ms/gen": 0.4,
    "timing_s/agent_loop/slowest/generate_sequences": 30.0,
    "timing_s/agent_loop/slowest/tool_calls": 25.0,
    "timing_s/agent_loop/slowest/response_length": 8096.0,
    "timing_s/agent_loop/slowest/prompt_length": 300.0,
    "timing_s/agent_loop/num_preempted/max": -1.0,
    "timing_s/agent_loop/generate_sequences/mean": 20.0,
    "timing_s/agent_loop/generate_sequences/max": 30.0,
    "timing_s/generation_timing/topk_ratio": 0.3,
}


def of(row: dict[str, float], plan: TimingPlan = VERL) -> StepTiming:
    timing = step_timing(plan, 7, row)
    assert timing is not None
    return timing


def named(spans: tuple[Span, ...]) -> dict[str, Span]:
    return {span.name: span for span in spans}


def counted(timing: StepTiming) -> float:
    return sum(span.duration_s for span in timing.spans if span.kind is not SpanKind.OVERLAPPING)


def every(spans: tuple[Span, ...]) -> list[Span]:
    return [span for top in spans for span in (top, *every(top.children))]


def test_stages_stand_in_execution_order_and_add_up() -> None:
    timing = of(ROW)
    assert [span.name for span in timing.spans] == ["gen", "old_log_prob", "ref", "adv", "update_actor", "other"]
    assert [span.start_s for span in timing.spans] == pytest.approx([0.0, 60.0, 68.0, 74.0, 74.5, 94.5])
    assert timing.spans[-1].duration_s == pytest.approx(5.5)
    assert counted(timing) == pytest.approx(timing.total_s)
    assert timing.step == 7
    assert not timing.is_overlapping
    assert not any(span.is_start_logged for span in timing.spans)


def test_time_per_token_is_attached() -> None:
    spans = named(of(ROW).spans)
    assert spans["gen"].ms_per_token == 0.4
    assert spans["ref"].ms_per_token is None


def test_statistics_of_rollouts_are_beside_generation_and_never_stacked() -> None:
    inner = named(of(ROW).spans)["gen"].children
    assert all(span.kind is SpanKind.OVERLAPPING for span in inner)
    slow = named(inner)
    assert slow["slowest: generate"].lane == slow["slowest: tools"].lane
    assert slow["slowest: tools"].start_s == pytest.approx(30.0)
    assert slow["mean: generate"].lane != slow["slowest: generate"].lane


def test_counts_in_the_namespace_are_no_durations() -> None:
    assert not {8096.0, 300.0, -1.0, 0.3} & {span.duration_s for span in every(of(ROW).spans)}


def test_a_key_that_no_stage_claims_is_shown_but_not_counted() -> None:
    timing = of(ROW | {"timing_s/brand_new": 4.0})
    other = named(timing.spans)["other"]
    assert other.duration_s == pytest.approx(5.5)
    assert [(span.name, span.key, span.duration_s) for span in other.children] == [
        ("brand_new", "timing_s/brand_new", 4.0)
    ]


def test_checkpoints_and_validation_are_inside_only_if_they_fit() -> None:
    inside = of(ROW | {"timing_s/save_checkpoint": 5.0})
    assert "save_checkpoint" in named(inside.spans)
    assert counted(inside) == pytest.approx(100.0)
    outside = of(ROW | {"timing_s/testing": 44.0})
    assert "testing" not in named(outside.spans)
    assert named(outside.outside)["testing"].duration_s == 44.0
    assert named(outside.spans)["other"].duration_s == pytest.approx(5.5)
    older = of(ROW | {"timing_s/step": 144.0, "timing_s/testing": 44.0})
    assert "testing" in named(older.spans)
    assert named(older.spans)["other"].duration_s == pytest.approx(5.5)


def test_profiling_is_between_steps() -> None:
    timing = of(ROW | {"timing_s/start_profile": 1.0, "timing_s/stop_profile": 2.0})
    assert [span.name for span in timing.outside] == ["start_profile", "stop_profile"]
    assert counted(timing) == pytest.approx(100.0)


def test_stages_longer_than_the_step_ran_at_the_same_time() -> None:
    timing = of({"timing_s/step": 100.0, "timing_s/gen": 90.0, "timing_s/update_actor": 60.0, "timing_s/adv": 1.0})
    assert timing.is_overlapping
    assert all(span.kind is SpanKind.OVERLAPPING for span in timing.spans)
    spans = named(timing.spans)
    assert spans["gen"].lane != spans["update_actor"].lane
    assert max(span.start_s + span.duration_s for span in timing.spans) <= 100.0


def test_rounding_is_no_overlap() -> None:
    timing = of({"timing_s/step": 100.0, "timing_s/gen": 81.0, "timing_s/update_actor": 20.0})
    assert not timing.is_overlapping
    assert named(timing.spans)["other"].duration_s == 0.0


def test_generation_of_the_next_step_has_a_lane_of_its_own() -> None:
    timing = of(ROW | {"timing_s/gen": 2.0, "timing_s/generate_async": 90.0})
    ahead = named(timing.spans)["generate_async"]
    assert (ahead.kind, ahead.lane > 0) == (SpanKind.OVERLAPPING, True)
    assert timing.is_overlapping
    assert counted(timing) == pytest.approx(100.0)


def test_no_step_time_is_the_sum_of_the_stages() -> None:
    timing = of({"timing/gen": 30.0, "timing/ref": 2.0, "timing/update_actor": 8.0})
    assert timing.total_s == pytest.approx(40.0)
    assert [span.name for span in timing.spans] == ["gen", "ref", "update_actor", "other"]


@each_row("row", [{}, {"loss": 1.0}, {"timing_s/step": 0.0}, {"timing_s/step": -1.0}, {"timing_s/testing": 40.0}])
def test_no_tree_without_a_duration(row: dict[str, float]) -> None:
    assert step_timing(VERL, 1, row) is None


def test_a_trainer_that_logs_one_duration_has_one_span() -> None:
    assert trl.DIALECT.timing is not None
    (span,) = of({"step_time": 2.5, "loss": 1.0}, trl.DIALECT.timing).spans
    assert (span.name, span.duration_s, span.kind, span.is_start_logged) == ("step", 2.5, SpanKind.SEQUENTIAL, True)


def test_nested_stages_are_promoted_where_the_enclosing_one_is_not_traced() -> None:
    flat = of({"time/total": 20.0, "time/train": 8.0, "time/save_checkpoint": 2.0}, tinker.TIMING)
    assert [span.name for span in flat.spans] == ["train", "save_checkpoint", "other"]
    nested = of(
        {
            "time/total": 1000.0,
            "time/sampling": 400.0,
            "time/policy_sample:max": 390.0,
            "time/policy_sample:total": 90000.0,
            "time/policy_sample:count": 1024.0,
            "time/do_train_step_and_get_sampling_client": 590.0,
            "time/prepare_minibatch": 1.0,
            "time/assemble_training_data": 0.9,
            "time/train_step": 580.0,
            "time/save_checkpoint": 4.0,
        },
        tinker.TIMING,
    )
    assert [span.name for span in nested.spans] == ["sampling", "do_train_step_and_get_sampling_client", "other"]
    outer = nested.spans[1]
    assert [span.name for span in outer.children] == ["prepare_minibatch", "train_step", "save_checkpoint"]
    assert outer.children[0].children[0].name == "assemble_training_data"
    assert nested.spans[0].children[0].kind is SpanKind.OVERLAPPING
    assert not nested.spans[-1].children
    assert not nested.is_overlapping


def test_two_writers_in_one_file_have_lanes() -> None:
    assert prime_rl.DIALECT.timing is not None
    timing = of(
        {
            "time/step": 50.0,
            "time/wait_for_batch": 10.0,
            "time/forward_backward": 35.0,
            "time/generate_completions": 45.0,
        },
        prime_rl.DIALECT.timing,
    )
    beside = [span for span in timing.spans if span.kind is SpanKind.OVERLAPPING]
    assert [span.name for span in beside] == ["orchestrator: generate_completions"]
    assert counted(timing) == pytest.approx(50.0)


def test_children_of_a_stage_stay_inside_it() -> None:
    assert skyrl.DIALECT.timing is not None
    row = {
        "timing/step": 10.0,
        "timing/train_critic_and_policy": 6.0,
        "timing/critic_train": 2.0,
        "timing/policy_train": 4.0,
    }
    outer = named(of(row, skyrl.DIALECT.timing).spans)["train_critic_and_policy"]
    assert [span.start_s for span in outer.children] == pytest.approx([0.0, 2.0])


def test_units_are_scaled_and_wildcards_name_their_stage() -> None:
    plan = TimingPlan(("ms/step",), (Stage("ms/*/total", scale=0.001),), namespace=("ms/",))
    timing = of({"ms/step": 3.0, "ms/fwd/total": 1000.0, "ms/bwd/total": 1500.0}, plan)
    assert [(span.name, span.duration_s) for span in timing.spans[:2]] == [("fwd", 1.0), ("bwd", 1.5)]


def test_stage_keys_are_the_top_level_ones() -> None:
    keys = [*ROW, "timing_s/testing", "timing_s/start_profile"]
    assert [name for name, _, _ in stage_keys(VERL, keys)] == [
        "gen", "old_log_prob", "ref", "adv", "update_actor", "testing",
    ]  # fmt: skip
    assert ("gen", "timing_s/gen", 1.0) in stage_keys(VERL, keys)


@examples(150)
@given(
    st.dictionaries(
        st.sampled_from(
            ["gen", "reward", "old_log_prob", "ref", "adv", "update_actor", "update_weights", "save_checkpoint",
             "testing", "agent_loop/slowest/tool_calls", "agent_loop/num_preempted/mean", "new/thing", "start_profile"]
        ),
        st.floats(0.0, 1e5),
    ),
    st.floats(1e-3, 1e5),
)  # fmt: skip
def test_nothing_is_counted_twice(stages: dict[str, float], total_s: float) -> None:
    timing = of({"timing_s/step": total_s} | {f"timing_s/{name}": value for name, value in stages.items()})
    if all(span.kind is not SpanKind.OVERLAPPING for span in timing.spans):
        assert timing.total_s * (1 - 1e-9) <= counted(timing) <= timing.total_s * 1.0200001
    assert all(span.duration_s >= 0.0 and math.isfinite(span.start_s) for span in every(timing.spans))
    keys = [span.key for span in every((*timing.spans, *timing.outside)) if span.key]
    assert len(keys) == len(set(keys))


def test_a_wide_row_is_read_fast_after_the_first() -> None:
    row = ROW | {f"own/metric{i}": float(i) for i in range(280)}
    of(row)
    began = time.thread_time()
    for _ in range(200):
        of(row)
    assert (time.thread_time() - began) / 200 < 0.001


def test_of_what_no_stage_claims_the_longest_are_kept() -> None:
    row = {"timing_s/step": 10.0, "timing_s/gen": 6.0, **{f"timing_s/own_{i}": float(i) for i in range(5)}}
    everything = step_timing(VERL, 1, row)
    two = step_timing(VERL, 1, row, 2)
    none = step_timing(VERL, 1, row, 0)
    assert [span.name for span in everything.spans[-1].children] == [f"own_{i}" for i in range(5)]
    assert [span.name for span in two.spans[-1].children] == ["own_3", "own_4"]
    assert none.spans[-1].children == ()
    assert {(span.name, span.duration_s) for span in none.spans} == {
        (span.name, span.duration_s) for span in everything.spans
    }
