"""What do the rules cost per record, against a bare parse of the line?

Observations of healthy runs, so that nothing fires: the price that every record
pays, on which every rule is asked. The bound is 50 µs on average; `clone` is what a look at the open step costs.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Sequence

import orjson
from made import lines

from rltop.model import Observation
from rltop.rules.engine import Engine
from rltop.trainers.identify import identify

ROUNDS = 7
RECORDS = 2000
BOUND_US = 50.0

GROUP = {
    "actor/grad_norm": 0.4, "actor/entropy": 0.2, "actor/pg_loss": 0.01, "actor/kl_loss": 0.05, "actor/lr": 1e-6,
    "actor/pg_clipfrac": 0.003, "actor/pg_clipfrac_lower": 1e-6, "actor/ppo_kl": 1e-4, "critic/score/mean": 0.6,
    "critic/score/max": 1.0, "critic/score/min": 0.0, "critic/rewards/mean": 0.6, "critic/rewards/max": 1.0,
    "critic/rewards/min": 0.0, "response_length/mean": 900.0, "response_length/max": 4096.0,
    "response_length/clip_ratio": 0.01, "prompt_length/mean": 200.0, "prompt_length/clip_ratio": 0.0,
    "global_seqlen/mean": 1e5, "global_seqlen/balanced_min": 99990.0, "global_seqlen/balanced_max": 100010.0,
    "global_seqlen/minmax_diff": 9000.0, "timing_s/gen": 30.0, "timing_s/reward": 1.0, "timing_s/old_log_prob": 3.0,
    "timing_s/ref": 3.0, "timing_s/adv": 0.1, "timing_s/update_actor": 8.0, "timing_s/step": 46.0,
    "timing_s/agent_loop/generate_sequences/max": 29.0, "timing_s/agent_loop/generate_sequences/mean": 15.0,
    "perf/total_num_tokens": 8e5, "perf/throughput": 1000.0, "perf/mfu/actor": 0.4,
}  # fmt: skip
CRITIC = {"critic/vf_loss": 0.1, "critic/vf_explained_var": 0.7, "critic/vf_clipfrac": 0.0, "critic/values/mean": 0.5}
FLAT = {
    "loss": 0.01, "grad_norm": 0.4, "learning_rate": 1e-6, "kl": 0.01, "entropy": 0.5, "reward": 0.6,
    "reward_std": 0.2, "frac_reward_zero_std": 0.1, "completions/mean_length": 300.0, "completions/max_length": 900.0,
    "completions/clipped_ratio": 0.02, "clip_ratio/region_mean": 0.002, "num_tokens": 1e6, "step_time": 12.0,
    "rewards/accuracy/mean": 0.6,
}  # fmt: skip
PAIRS = {
    "loss": 0.5, "grad_norm": 0.6, "learning_rate": 1e-6, "rewards/chosen": 0.1, "rewards/rejected": -0.4,
    "rewards/accuracies": 0.75, "rewards/margins": 0.5, "logps/chosen": -50.0, "logps/rejected": -60.0,
    "entropy": 0.5, "num_tokens": 1e6,
}  # fmt: skip
RUNS = {"veRL GRPO": GROUP, "veRL PPO": {**GROUP, **CRITIC}, "TRL GRPO": FLAT, "TRL DPO": PAIRS}
STAGES = ("gen", "reward", "old_log_prob", "ref", "adv", "update_actor")


def observations(centres: dict[str, float], seed: int = 7) -> tuple[Engine, list[Observation]]:
    """An engine and healthy records around `centres`, 5 % of noise."""
    source = random.Random(seed)
    samples = {key: [value] * 20 for key, value in centres.items()}
    identity = identify(list(centres), samples)
    made = []
    for record in range(1, RECORDS + 1):
        raw = {key: value * source.gauss(1.0, 0.05) for key, value in centres.items()}
        values = {
            name: signals[0].read(raw[signals[0].key]) for name, signals in identity.signals.items() if "lr" not in name
        }
        values["lr"] = 1e-6
        if "seqlen_mean" in values:
            values |= {
                "seqlen_balanced_min": values["seqlen_mean"] - 10,
                "seqlen_balanced_max": values["seqlen_mean"] + 10,
            }
        stages = {name: raw.get(f"timing_s/{name}", 0.0) for name in STAGES}
        made.append(Observation(record, record, 0, float(record), values, {}, {}, stages))
    return Engine(identity), made


def cost_us(engine: Engine, records: Sequence[Observation]) -> float:
    start = time.process_time()
    for record in records:
        engine.observe(record)
    return (time.process_time() - start) / len(records) * 1e6


def parse_us() -> float:
    held = list(lines(300, 500))
    start = time.process_time()
    for line in held:
        orjson.loads(line)
    return (time.process_time() - start) / len(held) * 1e6


def main() -> None:
    parse = min(parse_us() for _ in range(ROUNDS))
    print("| run | rules | median µs/record | minimum | of a 300-key parse | clone µs |")
    print("|---|---|---|---|---|---|")
    for name, centres in RUNS.items():
        times, fired = [], 0
        for _ in range(ROUNDS):
            engine, made = observations(centres)
            times.append(cost_us(engine, made))
            fired = len(engine.events)
        if fired:
            print(f"{name}: {fired} events on a healthy run", file=sys.stderr)
        start = time.process_time()
        for _ in range(100):
            engine.clone()
        clone = (time.process_time() - start) * 1e4
        print(
            f"| {name} | {len(engine.active)} | {statistics.median(times):.1f} | {min(times):.1f} "
            f"| {min(times) / parse:.2f} | {clone:.0f} |"
        )
    print(f"| bound | | {BOUND_US:.1f} | | | |")


if __name__ == "__main__":
    main()
