"""What metrics endpoints expose → engines, devices and phases, and which of them are in trouble."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from lying_servers import page, serving
from tables import each_row

from rltop.live.endpoint import Endpoint, EndpointError, MetricsProbe, address_of
from rltop.live.engines import HUNG_S, LINES, NAMES, MetricsReader, compared, plain_name, samples
from rltop.live.judge import engine_in_words
from rltop.live.probe import Device, Fact, InferenceEngine, ProbeError, Process

HERE = Path(__file__).parent / "exposition"
START_S = 1_787_190_000.0


def vllm(
    running: float = 8, made: float = 1000, waiting: float = 0, cache: float = 0.4, engine: int = 0, extra: str = ""
) -> bytes:
    """As vLLM writes it."""
    labels = f'engine="{engine}",model_name="Qwen/Qwen3-8B"'
    return (
        f"# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
        f"# TYPE vllm:num_requests_running gauge\n"
        f"vllm:num_requests_running{{{labels}}} {running}\n"
        f"vllm:num_requests_waiting{{{labels}}} {waiting}\n"
        f"vllm:kv_cache_usage_perc{{{labels}}} {cache}\n"
        f"vllm:prompt_tokens_total{{{labels}}} 512.0\n"
        f"vllm:generation_tokens_total{{{labels}}} {made}\n{extra.replace('LABELS', labels)}"
    ).encode()


def play(*answers: tuple[float, bytes], place: str = "node-3:8000") -> list[Fact]:
    reader = MetricsReader(f"http://{place}/metrics", place)
    for at_s, text in answers:
        reader.take(samples(text, LINES, NAMES), START_S + at_s)
    return reader.facts(START_S + answers[-1][0])


def engines(facts: Sequence[Fact]) -> list[InferenceEngine]:
    return [fact for fact in facts if isinstance(fact, InferenceEngine)]


def test_what_sglang_exposes_is_one_engine() -> None:
    (engine,) = engines(play((0, (HERE / "sglang_0.5.23.prom").read_bytes())))
    assert engine.name == "SGLang node-3:8000"
    assert (engine.running, engine.waiting, engine.cache, engine.tokens_per_s) == (48, 16, 0.62, 3120.5)
    assert (engine.aborts, engine.trouble, engine.host) == (1, "", "node-3")


def test_an_engine_that_makes_no_token_hangs() -> None:
    (before,) = engines(play((0, vllm()), (HUNG_S - 1, vllm())))
    assert before.trouble == ""
    (hung,) = engines(play((0, vllm()), (HUNG_S - 1, vllm()), (HUNG_S + 12, vllm(waiting=3))))
    assert hung.trouble == "hangs: 8 running, no new tokens for 42.0 s"
    assert hung.tokens_per_s == 0.0


def test_sglang_hangs_although_its_last_rate_still_stands_there() -> None:
    text = (HERE / "sglang_0.5.23.prom").read_bytes()
    (hung,) = engines(play((0, text), (31, text)))
    assert (hung.trouble, hung.tokens_per_s) == ("hangs: 48 running, no new tokens for 31.0 s", 0.0)
    (well,) = engines(play((0, text), (31, text.replace(b"3120.5", b"3119.25"))))
    assert well.trouble == ""


@each_row(
    "held",
    [
        'vllm:engine_sleep_state{LABELS,sleep_state="weights_offloaded"} 1.0\n',
        'vllm:rl_weight_update_operations_in_flight{operation="update"} 1.0\n',
        'vllm:sleep_mode_operations_in_flight{operation="sleep"} 1.0\n',
    ],
)
def test_an_engine_that_is_asleep_or_takes_weights_does_not_hang(held: str) -> None:
    (engine,) = engines(play(*((at_s, vllm(extra=held)) for at_s in range(0, 300, 30))))
    assert engine.trouble == ""
    assert engine.is_asleep != engine.is_syncing


def test_it_hangs_from_when_it_was_let_go() -> None:
    syncing = 'vllm:rl_weight_update_operations_in_flight{operation="update"} 1.0\n'
    (engine,) = engines(play((0, vllm(extra=syncing)), (60, vllm()), (89, vllm())))
    assert engine.trouble == ""
    (engine,) = engines(play((0, vllm(extra=syncing)), (60, vllm()), (91, vllm())))
    assert engine.trouble.startswith("hangs: ")


def test_paused_requests_of_sglang_do_not_hang() -> None:
    text = (HERE / "sglang_0.5.23.prom").read_bytes()
    paused = b"\n".join(line[:-3] + b"48.0" if line.startswith(b"sglang:num_paused_reqs") else line
                        for line in text.split(b"\n"))  # fmt: skip
    assert paused != text
    assert engines(play((0, paused), (100, paused)))[0].trouble == ""


def test_an_idle_engine_does_not_hang() -> None:
    assert engines(play((0, vllm(running=0)), (3600, vllm(running=0))))[0].trouble == ""


def test_tokens_a_second_follow_from_two_answers() -> None:
    (engine,) = engines(play((0, vllm(made=1000)), (5, vllm(made=11_000))))
    assert engine.tokens_per_s == 2000.0
    assert math.isnan(engines(play((0, vllm())))[0].tokens_per_s)


def test_asleep_with_requests_that_wait() -> None:
    asleep = 'vllm:engine_sleep_state{LABELS,sleep_state="awake"} 0.0\n' \
             'vllm:engine_sleep_state{LABELS,sleep_state="discard_all"} 1.0\n'  # fmt: skip
    (engine,) = engines(play((0, vllm(running=0, waiting=12, extra=asleep))))
    assert engine.trouble == "asleep with 12 waiting"


def test_a_full_cache_with_a_queue() -> None:
    (engine,) = engines(play(*((at_s, vllm(made=at_s, waiting=40, cache=0.99)) for at_s in range(0, 60, 5))))
    assert engine.trouble == "KV cache full, 40 waiting"


def test_storms_are_told_from_one_burst_of_aborts() -> None:
    def aborted(count: int, finished: int) -> str:
        return (
            f'vllm:request_success_total{{LABELS,finished_reason="abort"}} {count}\n'
            f'vllm:request_success_total{{LABELS,finished_reason="stop"}} {finished}\n'
        )

    storm = [(at_s, vllm(made=at_s, extra=aborted(10 * at_s, at_s))) for at_s in range(0, 60, 5)]
    assert engines(play(*storm))[0].trouble == "abort storm: 550 in 60.0 s"
    burst = [(at_s, vllm(made=at_s, extra=aborted(512 if at_s > 30 else 0, at_s))) for at_s in range(0, 60, 5)]
    assert engines(play(*burst))[0].trouble == ""
    preempted = [
        (at_s, vllm(made=at_s, extra=f"vllm:num_preemptions_total{{LABELS}} {4 * at_s}\n")) for at_s in range(0, 60, 5)
    ]
    assert engines(play(*preempted))[0].trouble == "preemption storm: 220 in 60.0 s"


def test_one_engine_far_below_the_others() -> None:
    def engine(number: int, rate: float, running: float = 8) -> InferenceEngine:
        return InferenceEngine("metrics", START_S, f"engine {number}", running=running, tokens_per_s=rate)

    even = [engine(n, 1000.0 + n) for n in range(4)]
    assert compared(even) == even
    found = compared([*even, engine(4, 100.0)])
    assert [each.trouble for each in found] == ["", "", "", "", "10 % of the tokens per request that the others make"]
    # One with few requests makes few tokens, and is not slow.
    assert not any(each.trouble for each in compared([*even, engine(4, 130.0, running=1)]))
    assert not any(each.trouble for each in compared([engine(0, 1000.0), engine(1, 1.0)]))


def test_several_engines_of_one_address_are_told_apart() -> None:
    text = vllm(engine=0, made=1) + vllm(engine=1, running=3)
    assert [(each.name, each.running) for each in engines(play((0, text)))] == [
        ("vLLM node-3:8000 0", 8),
        ("vLLM node-3:8000 1", 3),
    ]


@each_row("prefix", [b"ray_vllm:", b"ray_vllm_", b"vllm_"])
def test_ray_hands_on_what_vllm_exposes(prefix: bytes) -> None:
    (engine,) = engines(play((0, vllm().replace(b"vllm:", prefix))))
    assert (engine.running, engine.cache) == (8, 0.4)


def test_older_names_of_vllm() -> None:
    text = b'vllm:gpu_cache_usage_perc{model_name="m"} 0.25\nvllm:num_requests_running{model_name="m"} 2.0\n'
    assert [(each.running, each.cache) for each in engines(play((0, text)))] == [(2, 0.25)]


def test_routers_tell_of_their_workers() -> None:
    text = (
        b'sgl_router_running_requests{worker="http://node-1:30000"} 12\n'
        b'sgl_router_worker_health{worker="http://node-1:30000"} 1\n'
        b'smg_worker_requests_active{worker="http://node-2:30000"} 3\n'
        b'smg_worker_health{worker="http://node-2:30000"} 0\n'
        b'vllm_router_running_requests{worker="http://node-4:8000"} 7\n'
    )
    assert [(each.name, each.running, each.trouble) for each in engines(play((0, text), (90, text)))] == [
        ("router node-3:8000 http://node-1:30000", 12, ""),
        ("router node-3:8000 http://node-2:30000", 3, "not healthy"),
        ("router node-3:8000 http://node-4:8000", 7, ""),
    ]


@each_row("label", ["Hostname", "hostname"])
def test_devices_of_dcgm(label: str) -> None:
    text = "".join(
        f'{name}{{gpu="3",UUID="GPU-x",device="nvidia3",modelName="NVIDIA H100",{label}="node-7"}} {value}\n'
        for name, value in (
            ("DCGM_FI_DEV_GPU_UTIL", 4), ("DCGM_FI_DEV_FB_USED", 40_960), ("DCGM_FI_DEV_FB_FREE", 40_960),
            ("DCGM_FI_DEV_POWER_USAGE", 123.5), ("DCGM_FI_DEV_GPU_TEMP", 41), ("DCGM_FI_DEV_XID_ERRORS", 79),
        )
    ).encode()  # fmt: skip
    (device,) = play((0, text))
    assert isinstance(device, Device)
    assert (device.host, device.number, device.use, device.power_w) == ("node-7", "3", 0.04, 123.5)
    assert (device.memory_bytes, device.memory_total_bytes) == (40_960 * 2**20, 81_920 * 2**20)
    assert (device.temperature_c, device.trouble) == (41, "Xid 79")


def test_a_ray_cluster_tells_which_calls_run_and_since_when_at_least() -> None:
    def tasks(count: int) -> bytes:
        return (
            f'ray_tasks{{Name="WorkerDict.actor_rollout_update_actor",State="RUNNING",IsRetry="0"}} {count}\n'
            'ray_tasks{Name="WorkerDict.actor_rollout_update_actor",State="FINISHED",IsRetry="0"} 40\n'
        ).encode()

    (call,) = play((0, tasks(0)), (5, tasks(8)), (50, tasks(8)))
    assert isinstance(call, Process)
    assert (call.name, call.phase, call.key) == ("WorkerDict × 8", "actor_rollout_update_actor", "train")
    assert (call.since_s, call.is_seen, call.time_s) == (START_S + 5, True, START_S + 50)
    assert not play((0, tasks(8)), (5, tasks(0)))


def test_a_gauge_of_skyrl_tells_the_phase() -> None:
    def at(phase: str) -> bytes:
        phases = ("generating", "run_training", "sync_weights")
        return "".join(
            f'ray_skyrl_training_phase{{phase="{name}",WorkerId="a"}} {float(name == phase)}\n' for name in phases
        ).encode()

    facts = play((0, at("run_training")), (60, at("sync_weights")), (400, at("sync_weights")))
    assert [(each.phase, each.key, each.since_s) for each in facts if isinstance(each, Process)] == [
        ("sync_weights", "weight_sync", START_S + 60)
    ]


def test_the_trainer_of_prime_rl_tells_its_step() -> None:
    text = b"trainer_step 180.0\ntrainer_last_step_timestamp_seconds 1.787189e+09\ntrainer_loss 0.5\n"
    (trainer,) = play((0, text))
    assert isinstance(trainer, Process)
    assert (trainer.name, trainer.phase, trainer.since_s) == ("trainer", "step 181", 1.787189e9)


def test_a_cell_of_miles_that_is_dead() -> None:
    text = b'miles_rollout_cell_alive{session_id="s",cell_id="cell-1"} 0.0\n'
    assert [(each.name, each.trouble) for each in engines(play((0, text)))] == [
        ("miles cell node-3:8000 cell-1", "not healthy")
    ]


def test_lines_that_are_none_are_passed_over() -> None:
    text = b"vllm:num_requests_running{ 3\nvllm:num_requests_running\nvllm:num_requests_running NaN\n" + vllm()
    text += b'vllm:num_requests_waiting{a="' + b"x" * 100_000 + b'"} 1\n\xff\xfevllm 1\n'
    assert [each.running for each in engines(play((0, text)))] == [8]


@each_row("value", ["+Inf", "-Inf", "1e999"])
def test_what_is_no_number_is_passed_over(value: str) -> None:
    text = (
        vllm() + f'vllm:num_requests_running{{engine="1"}} {value}\nDCGM_FI_DEV_GPU_UTIL{{gpu="0"}} {value}\n'.encode()
    )
    assert [engine_in_words(each) for each in engines(play((0, text)))] == [
        "vLLM node-3:8000: 8 running, 0 waiting, KV cache 40 %"
    ]


def test_names_are_spelled_once() -> None:
    assert plain_name("ray_vllm:num_requests_running") == plain_name("vllm:num_requests_running")
    assert plain_name("ray_tasks") == "ray_tasks"
    assert all(plain_name(name) == name for name in NAMES)
    assert all(LINES.findall(b"\n" + name.encode() + b"{} 1") for name in NAMES)


def test_two_megabytes_cost_a_fraction_of_parsing_them_whole() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    other = "".join(f'ray_component_cpu_percentage{{Component="worker",pid="{n}"}} {n}\n' for n in range(6_000))
    text = other.encode() + vllm() + (HERE / "sglang_0.5.23.prom").read_bytes()
    list(samples(text, LINES, NAMES))
    began = time.thread_time()
    found = list(samples(text, LINES, NAMES))
    chosen_s = time.thread_time() - began
    began = time.thread_time()
    list(text_string_to_metric_families(text.decode()))
    whole_s = time.thread_time() - began
    assert len(found) > 10
    assert chosen_s < whole_s / 8


def test_an_endpoint_is_asked_again_and_again() -> None:
    answers = iter([vllm(made=0), vllm(made=500)])
    with serving(page(lambda: next(answers))) as server:
        probe = MetricsProbe(Endpoint(address_of(server.url, "--metrics", "/metrics")))
        assert probe.ask(START_S)
        (engine,) = engines(probe.ask(START_S + 5))
        assert (engine.tokens_per_s, engine.source) == (100.0, f"{server.url}/metrics")
        assert server.heads[1].startswith(b"GET /metrics ")


def test_an_endpoint_of_something_else_says_so() -> None:
    with serving(page(b"go_goroutines 7\n")) as server:
        probe = MetricsProbe(Endpoint(address_of(server.url, "--metrics", "/metrics")))
        with pytest.raises(ProbeError, match="tells of no engine"):
            probe.ask(START_S)
    with pytest.raises(EndpointError, match="connection refused"):
        probe.ask(START_S)


def test_what_the_front_of_sglang_counts_belongs_to_its_only_rank() -> None:
    front = (
        b'sglang:generation_tokens_total{model_name="m"} 2000\nsglang:num_aborted_requests_total{model_name="m"} 3\n'
    )
    ranks = [
        b'sglang:num_running_reqs{dp_rank="%d",tp_rank="%d"} 4\nsglang:gen_throughput{dp_rank="%d",tp_rank="%d"} 50\n'
        % (dp, tp, dp, tp)
        for dp, tp in ((0, 0), (0, 1), (1, 0))
    ]
    (one,) = engines(play((0, front + ranks[0] + ranks[1])))
    assert (one.name, one.running, one.aborts) == ("SGLang node-3:8000", 4, 3)
    both = engines(play((0, front + b"".join(ranks))))
    assert [each.name for each in both] == ["SGLang node-3:8000 0", "SGLang node-3:8000 1"]
    asleep = vllm(running=0, extra='vllm:engine_sleep_state{LABELS,sleep_state="weights_offloaded"} 1.0\n')
    assert ": asleep, 0 running, 0 waiting" in engine_in_words(engines(play((0, asleep)))[0])
