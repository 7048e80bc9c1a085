"""Make the veRL-shaped fixture: a GRPO run with tools in which the sandbox slows down.

    python bench/make_fixtures/tool_slowdown.py OUT.jsonl [--writer verl/utils/tracking.py] [--rollouts OUT.jsonl]

The rows are made here, from one seed: smooth random walks around the levels of
an ordinary 7B run, every key that veRL 0.8.0's synchronous trainer logs, totals
that add up. The bytes are veRL's: with --writer they go through the FileLogger
class of that source file, without it through the one call that class makes.
Both give the same file. With --rollouts some completions of every tenth step up to 70 are
made too, around the rewards and lengths of the rows; `rltop demo` shows them.

The story: up to step 89 all is well. From step 90 the tool sandbox slows down,
and generation, the slowest tool call and the step grow with it. From step 130
answers that ran out of tool time teach the policy the wrong thing: the KL to
the reference leaves its level, then reward and validation follow.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import random
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import orjson

SEED = 20_260_821
LAST_STEP = 150
SLOWDOWN_STEP = 90
DRIFT_STEP = 130
VALIDATE_EVERY = 10
SAVE_EVERY = 50
STEPS_PER_EPOCH = 58
LR_WARMUP_STEPS = 10

PROMPTS = 128
GROUP_SIZE = 8
RESPONSES = PROMPTS * GROUP_SIZE
MAX_RESPONSE_TOKENS = 8192
MAX_TURNS = 16
GPUS = 8
ROLLOUT_EVERY, ROLLOUT_LAST, ROLLOUT_GROUPS = 10, 70, 8

MATH = "DigitalLearningGmbH/MATH-lighteval"
AIME = "math-ai/aime24"

Data = dict[str, float]


class Walk:
    """A value that fluctuates around a level: a first-order autoregressive process."""

    def __init__(self, rng: random.Random, scale: float, memory: float = 0.8) -> None:
        self._rng, self._scale, self._memory, self._at = rng, scale, memory, 0.0

    def step(self) -> float:
        """The next deviation; its standard deviation is `scale`."""
        fresh = self._rng.gauss(0.0, self._scale * math.sqrt(1.0 - self._memory**2))
        self._at = self._memory * self._at + fresh
        return self._at


def ramp(step: int, start: int, length: int) -> float:
    """0 before `start`, 1 after `start + length`, smooth between."""
    x = min(1.0, max(0.0, (step - start) / length))
    return x * x * (3.0 - 2.0 * x)


def digits(value: float, count: int = 6) -> float:
    """`value` with `count` significant digits, so that the file stays small."""
    return float(f"{value:.{count}g}")


class Run:
    """The run: its random walks, and the keys derived from them."""

    def __init__(self, seed: int = SEED) -> None:
        self.rng = random.Random(seed)
        walk = self._walk
        self.score, self.entropy, self.kl = walk(0.012), walk(0.03, 0.9), walk(0.06, 0.9)
        self.length, self.prompt = walk(0.02), walk(0.012, 0.2)
        self.grad, self.clip, self.step_kl, self.loss = (
            walk(0.13, 0.5),
            walk(0.18, 0.5),
            walk(1.4e-4, 0.3),
            walk(0.011, 0.1),
        )
        self.machine, self.tools, self.tail = walk(0.012, 0.6), walk(0.08, 0.5), walk(0.09, 0.3)
        self.mismatch, self.balance = walk(0.05, 0.9), walk(0.25, 0.1)
        self.peak_gb = 48.1

    def _walk(self, scale: float, memory: float = 0.8) -> Walk:
        return Walk(self.rng, scale, memory)

    def rows(self) -> Iterator[tuple[int, Data]]:
        """Every line of the run as (step, data), validation before training first."""
        yield 0, self.validation(0)
        for step in range(1, LAST_STEP + 1):
            yield step, self.training(step)

    def skill(self, step: int) -> float:
        """Expected mean score of the policy, in [0, 1]."""
        learned = 0.36 + 0.33 * (1.0 - math.exp(-step / 55.0))
        return learned - 0.21 * ramp(step, DRIFT_STEP + 6, 26)

    def training(self, step: int) -> Data:
        """One training row."""
        slow, drift = ramp(step, SLOWDOWN_STEP, 18), ramp(step, DRIFT_STEP, 22)
        growth = 1.0 - math.exp(-step / 70.0)
        prompt_tokens = round(RESPONSES * 214.0 * math.exp(self.prompt.step()))
        response_tokens = round(RESPONSES * (1340.0 + 330.0 * growth - 120.0 * drift) * math.exp(self.length.step()))
        total = prompt_tokens + response_tokens

        data = self.balance_stats(total)
        data |= self.policy(step, drift)
        checks = step % VALIDATE_EVERY == 0
        if checks:
            data |= self.validation(step)
        data |= {"training/global_step": step, "training/epoch": (step - 1) // STEPS_PER_EPOCH}
        data |= self.rewards(step)
        data |= self.lengths(prompt_tokens, response_tokens, slow)
        stages, loop = self.stages(step, total, response_tokens, slow)
        data |= {f"timing_s/{name}": value for name, value in (loop | stages).items()}
        if checks:
            data["timing_s/testing"] = digits(61.0 * (1.0 + 0.9 * slow) * math.exp(self.machine.step()))
        data["timing_s/stop_profile"] = digits(1.1e-05 * math.exp(self.machine.step()), 3)
        data |= self.rates(stages, total, response_tokens)
        return data

    def balance_stats(self, total: int) -> Data:
        mean = total / GPUS
        low, high = (
            round(mean * (0.93 + 0.01 * self.balance.step())),
            round(mean * (1.075 + 0.015 * self.balance.step())),
        )
        spread = round(9 + 6 * abs(self.balance.step()))
        return {
            "global_seqlen/min": low,
            "global_seqlen/max": high,
            "global_seqlen/minmax_diff": high - low,
            "global_seqlen/balanced_min": math.floor(mean) - spread,
            "global_seqlen/balanced_max": math.ceil(mean) + spread,
            "global_seqlen/mean": mean,
        }

    def policy(self, step: int, drift: float) -> Data:
        """Metrics of the optimiser; from DRIFT_STEP on the reference KL grows more than tenfold."""
        entropy = (0.27 + 0.19 * math.exp(-step / 60.0)) * math.exp(self.entropy.step()) * (1.0 + 0.25 * drift)
        settled = 0.052 * (1.0 - math.exp(-step / 35.0)) + 2e-4
        kl = settled * math.exp(self.kl.step()) * math.exp(4.1 * ramp(step, DRIFT_STEP, 20))
        grad = 0.24 * math.exp(self.grad.step()) * (1.0 + 1.4 * drift)
        clip = 0.0021 * math.exp(self.clip.step()) * (1.0 + 1.6 * drift)
        diff = 0.0031 * math.exp(self.mismatch.step())
        loss = self.loss.step()
        self.peak_gb = max(self.peak_gb, 51.5 + 0.6 * self.rng.gauss(0.0, 1.0) - 2.4 * math.exp(-step / 8.0))
        return {
            "actor/entropy": digits(entropy),
            "perf/mfu/actor_infer": digits(0.331 * math.exp(self.machine.step())),
            "training/rollout_probs_diff_valid": 1,
            "training/rollout_probs_diff_max": digits(min(1.0, 0.83 + 0.06 * self.rng.gauss(0.0, 1.0))),
            "training/rollout_probs_diff_mean": digits(diff),
            "training/rollout_probs_diff_std": digits(3.7 * diff),
            "training/rollout_actor_probs_pearson_corr": digits(1.0 - 0.32 * diff),
            "actor/pg_loss": digits(loss),
            "actor/kl_loss": digits(kl),
            "actor/kl_coef": 0.001,
            "actor/loss": digits(loss + 0.001 * kl),
            "actor/pg_clipfrac": digits(clip),
            "actor/ppo_kl": digits(1.6e-4 + self.step_kl.step() + 9e-4 * drift),
            "actor/pg_clipfrac_lower": digits(2.2e-6 * math.exp(2.0 * self.clip.step()), 3),
            "actor/grad_norm": digits(grad),
            "actor/lr": digits(1e-6 * min(1.0, step / LR_WARMUP_STEPS)),
            "actor/perf/max_memory_allocated_gb": digits(self.peak_gb),
            "actor/perf/max_memory_reserved_gb": digits(self.peak_gb + 8.4),
            "actor/perf/cpu_memory_used_gb": digits(412.0 + 0.05 * step + 1.5 * self.machine.step()),
            "perf/mfu/actor": digits(0.384 * math.exp(self.machine.step())),
        }

    def rewards(self, step: int) -> Data:
        """Scores are 0 or 1 per answer, so the mean is a count over the batch."""
        mean = round(RESPONSES * min(1.0, max(0.0, self.skill(step) + self.score.step()))) / RESPONSES
        # With one success in a group of 8 the normalised advantage reaches (8 - 1) / sqrt(8).
        bound = (GROUP_SIZE - 1) / math.sqrt(GROUP_SIZE)
        data: Data = {}
        for name in ("score", "rewards"):
            data |= {f"critic/{name}/mean": mean, f"critic/{name}/max": 1.0, f"critic/{name}/min": 0.0}
        centre = -0.05 + 0.015 * self.rng.gauss(0.0, 1.0)
        for name in ("advantages", "returns"):
            data |= {
                f"critic/{name}/mean": digits(centre),
                f"critic/{name}/max": digits(bound),
                f"critic/{name}/min": digits(-bound),
            }
        return data

    def lengths(self, prompt_tokens: int, response_tokens: int, slow: float) -> Data:
        shortest = round(170 + 40 * self.rng.random())
        cut = round(RESPONSES * max(0.0, 0.009 + 0.003 * self.rng.gauss(0.0, 1.0))) / RESPONSES
        data: Data = {}
        for name in ("response_length", "response_length_non_aborted"):
            data |= {
                f"{name}/mean": response_tokens / RESPONSES,
                f"{name}/max": MAX_RESPONSE_TOKENS,
                f"{name}/min": shortest,
                f"{name}/clip_ratio": cut,
            }
        turns = 5.4 + 0.25 * self.rng.gauss(0.0, 1.0) - 0.3 * slow
        return data | {
            "response/aborted_ratio": 0.0,
            "prompt_length/mean": prompt_tokens / RESPONSES,
            "prompt_length/max": 1000 + self.rng.randrange(24),
            "prompt_length/min": 58 + self.rng.randrange(9),
            "prompt_length/clip_ratio": 0.0,
            "num_turns/min": 2,
            "num_turns/max": MAX_TURNS,
            "num_turns/mean": digits(turns),
            "tool_call_counts/min": 0,
            "tool_call_counts/max": MAX_TURNS // 2 - 1,
            "tool_call_counts/mean": digits((turns - 2.0) / 2.0),
        }

    def stages(self, step: int, total: int, response_tokens: int, slow: float) -> tuple[Data, Data]:
        """The stages of one step, which add up to it, and the statistics of the agent loop."""
        load = total / 1.75e6
        loop = self.agent_loop(response_tokens, slow)
        slowest = sum(
            loop[f"agent_loop/slowest/{part}"] for part in ("generate_sequences", "tool_calls", "compute_score")
        )
        parts = {
            "gen": slowest + 1.9 * math.exp(self.machine.step()),
            "reward": 0.041 * math.exp(self.machine.step()),
            "old_log_prob": 5.7 * load * math.exp(self.machine.step()),
            "ref": 5.2 * load * math.exp(self.machine.step()),
            "adv": 0.23 * math.exp(self.machine.step()),
            "update_actor": 21.4 * load * math.exp(self.machine.step()),
        }
        if step % SAVE_EVERY == 0:
            parts["save_checkpoint"] = 47.0 * math.exp(self.machine.step())
        parts["update_weights"] = 2.3 * math.exp(self.machine.step())
        parts = {name: digits(value) for name, value in parts.items()}
        unexplained = 0.85 * math.exp(self.machine.step())
        parts["step"] = digits(sum(parts.values()) + unexplained)
        return parts, {"start_profile": digits(1.4e-05 * math.exp(self.machine.step()), 3)} | loop

    def agent_loop(self, response_tokens: int, slow: float) -> Data:
        """Per-answer statistics; from SLOWDOWN_STEP on the slowest answers wait for their tools."""
        size = response_tokens / RESPONSES / 1500.0
        generate_mean = 17.5 * size * math.exp(self.machine.step())
        generate_max = 36.0 * size * math.exp(self.tail.step())
        tool_mean = (3.1 + 10.5 * slow) * math.exp(self.tools.step())
        tool_max = (9.0 + 96.0 * slow) * math.exp(self.tail.step())
        score_mean = 0.012 * math.exp(self.machine.step())
        # While tools are fast the slowest answer is the longest one; later it is the one waiting for its tool.
        slowest_generate = generate_max * (1.0 - 0.35 * slow)
        slowest_tool = tool_max * (0.55 + 0.45 * slow)
        tokens = round(MAX_RESPONSE_TOKENS * (1.0 - 0.62 * slow) - 220 * self.rng.random())
        values = {
            "num_preempted/min": 0,
            "num_preempted/max": 1 if self.rng.random() < 0.06 else 0,
            "generate_sequences/min": 1.6 + 0.3 * self.rng.random(),
            "generate_sequences/max": generate_max,
            "generate_sequences/mean": generate_mean,
            "tool_calls/min": 0.0,
            "tool_calls/max": tool_max,
            "tool_calls/mean": tool_mean,
            "compute_score/min": 0.002 + 0.001 * self.rng.random(),
            "compute_score/max": 0.21 + 0.06 * self.rng.random(),
            "compute_score/mean": score_mean,
            "slowest/generate_sequences": slowest_generate,
            "slowest/tool_calls": slowest_tool,
            "slowest/compute_score": 0.011 + 0.004 * self.rng.random(),
            "slowest/num_preempted": 0,
            "slowest/prompt_length": 180 + self.rng.randrange(90),
            "slowest/response_length": tokens,
        }
        values["num_preempted/mean"] = values["num_preempted/max"] / RESPONSES
        return {f"agent_loop/{name}": digits(value) for name, value in values.items()}

    def rates(self, stages: Data, total: int, response_tokens: int) -> Data:
        data: Data = {"timing_per_token_ms/gen": digits(1000.0 * stages["gen"] / response_tokens)}
        data |= {
            f"timing_per_token_ms/{name}": digits(1000.0 * stages[name] / total)
            for name in ("ref", "adv", "update_actor")
        }
        step = stages["step"]
        return data | {
            "perf/total_num_tokens": total,
            "perf/time_per_step": step,
            "perf/throughput": digits(total / (step * GPUS)),
        }

    def validation(self, step: int) -> Data:
        """Two sets with four answers per question; `acc` is the core variable of both."""
        skill = self.skill(step)
        data: Data = {}
        for source, level, questions in ((MATH, 0.30 + 0.62 * skill, 500), (AIME, 0.02 + 0.33 * skill, 30)):
            noise = math.sqrt(level * (1.0 - level) / (4 * questions)) * self.rng.gauss(0.0, 1.0)
            mean = min(1.0, max(0.0, round(4 * questions * (level + noise)) / (4 * questions)))
            for name in ("reward", "acc"):
                spread = 0.42 * math.sqrt(mean * (1.0 - mean))
                core = "val-core" if name == "acc" else "val-aux"
                data |= {
                    f"{core}/{source}/{name}/mean@4": mean,
                    f"val-aux/{source}/{name}/std@4": digits(spread),
                    f"val-aux/{source}/{name}/best@2/mean": digits(mean + 0.5 * spread),
                    f"val-aux/{source}/{name}/worst@2/mean": digits(mean - 0.5 * spread),
                    f"{core}/{source}/{name}/best@4/mean": digits(mean + 0.9 * spread),
                    f"{core}/{source}/{name}/best@4/std": digits(0.2 * spread),
                    f"val-aux/{source}/{name}/worst@4/mean": digits(mean - 0.9 * spread),
                }
        return data | {
            "val-aux/num_turns/min": 2,
            "val-aux/num_turns/max": MAX_TURNS,
            "val-aux/num_turns/mean": digits(5.2 + 0.2 * self.rng.gauss(0.0, 1.0)),
        }


def write_plainly(rows: Iterator[tuple[int, Data]], path: Path) -> None:
    """Write the same bytes as veRL's FileLogger, with the call that it makes."""
    with path.open("wb", buffering=0) as file:
        for step, data in rows:
            file.write(orjson.dumps({"step": step, "data": data}, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def write_with(rows: Iterator[tuple[int, Data]], path: Path, source: Path) -> None:
    """The same through the FileLogger class defined in `source`."""
    spec = importlib.util.spec_from_file_location("verl_tracking", source)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{source} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    os.environ["VERL_FILE_LOGGER_PATH"] = str(path)
    with Path(os.devnull).open("w") as quiet, redirect_stdout(quiet):
        logger = module.FileLogger("rltop", "fixture")
    for step, data in rows:
        logger.log(data=data, step=step)
    logger.finish()


def completions(rows: Iterator[tuple[int, Data]]) -> Iterator[dict[str, object]]:
    """Some groups of every tenth step, up to where `rltop demo` begins: a dump has no completions of later steps."""
    rng = random.Random(SEED)
    for step, data in rows:
        if step % ROLLOUT_EVERY or not 0 < step <= ROLLOUT_LAST:
            continue
        for group in range(ROLLOUT_GROUPS):
            a, b, c = rng.randrange(12, 99), rng.randrange(12, 99), rng.randrange(2, 60)
            hard = rng.gauss(0.0, 0.25)
            for sample in range(GROUP_SIZE):
                is_right = rng.random() < data["critic/score/mean"] - hard
                is_stuck = rng.random() < data["response_length/clip_ratio"]
                length = data["response_length/mean"] * math.exp(rng.gauss(-0.1, 0.45) + hard)
                calls = rng.randrange(1, 4) + (4 if is_stuck else 0)
                answer = a * b - c if is_right and not is_stuck else a * b + c
                used = f"calculator({a} * {b}) -> {a * b}"
                told = " calculator: no answer for 30 s, once more." * (calls - 2) if is_stuck else ""
                end = "" if is_stuck else f" So the result is \\boxed{{{answer}}}."
                yield {
                    "step": step,
                    "group": group,
                    "sample": sample,
                    "reward": float(is_right and not is_stuck),
                    "completion_tokens": MAX_RESPONSE_TOKENS if is_stuck else max(40, round(length)),
                    "stop_reason": "length" if is_stuck else "stop",
                    "tool_calls": calls,
                    "prompt": f"What is {a} times {b}, less {c}?",
                    "completion": f"First the product.{told} {used}.{end}",
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--writer", type=Path, help="a checkout's verl/utils/tracking.py, to write with its FileLogger")
    parser.add_argument("--rollouts", type=Path, help="where some completions go")
    arguments = parser.parse_args()
    if arguments.rollouts:
        with arguments.rollouts.open("wb") as file:
            file.writelines(orjson.dumps(one) + b"\n" for one in completions(Run().rows()))
    rows = Run().rows()
    if arguments.writer:
        write_with(rows, arguments.out, arguments.writer)
    else:
        write_plainly(rows, arguments.out)
    print(f"{arguments.out}: {arguments.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
