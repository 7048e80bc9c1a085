"""A Telescope run on disk: archives and tables as its event logger writes them, with plausible numbers."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parquet_writer import parquet_bytes

Table = dict[str, list[object]]
WriteTable = Callable[[Mapping[str, Sequence[object]]], bytes]
START_S = 1_760_000_000.0
STAGES = ("prepare_data", "data_to_device", "forward", "backward", "grad_norm", "optimizer", "weight_broadcast")


def empty(*names: str) -> Table:
    return {name: [] for name in names}


@dataclass
class TelescopeRun:
    """Steps of a run as tables; `write` stores them as Telescope does."""

    groups: int = 4
    group_size: int = 4
    ranks: int = 2
    microbatches: int = 2
    environments: tuple[str, ...] = ("countdown", "wordle")
    slow_rank: int = -1
    seed: int = 7
    steps: Table = field(default_factory=lambda: empty("step", "section", "group", "metric", "value"))
    samples: Table = field(
        default_factory=lambda: empty(
            "step", "group_id", "sample_id", "reward", "advantage", "num_generations", "total_tokens", "raw_string",
            "compute_reward_time", "stop_reason", "off_policy_steps",
        )
    )  # fmt: skip
    generations: Table = field(
        default_factory=lambda: empty(
            "step", "group_id", "sample_id", "agent_id", "generation_idx", "content", "tokens", "prompt_tokens",
            "tool_call_count", "stop_reason",
        )
    )  # fmt: skip
    prompts: Table = field(default_factory=lambda: empty("step", "group_id", "env", "prompt", "tokens_prompt"))
    metrics: Table = field(default_factory=lambda: empty("step", "sample_id", "env", "metric_name", "value"))
    trainer: Table = field(
        default_factory=lambda: empty(
            "event_type", "step", "rank", "local_rank", "node_id", "gpu_index", "start_time", "end_time", "parent",
            "depth", "microbatch", "minibatch", "tail_idx",
        )
    )  # fmt: skip
    infra: Table = field(
        default_factory=lambda: empty("timestamp", "tail_idx", "event_type", "phase", "step", "server_id")
    )
    discarded: Table = field(
        default_factory=lambda: empty(
            "timestamp", "discard_reason", "trainer_step", "inference_step", "group_id", "sample_id", "reward"
        )
    )
    clock_s: float = START_S

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.sample = self.group = 0

    def add_steps(self, steps: Sequence[int]) -> TelescopeRun:
        """Add the tables of each step: generate, discard, train."""
        for step in steps:
            self._add_samples(step)
            self._add_metrics(step)
            self._add_discards(step)
            self._add_events(step)
        return self

    def _add_metrics(self, step: int) -> None:
        values = {
            ("", "", "grad_norm"): 0.4 + 0.2 * self.random.random(),
            ("", "", "entropy"): 0.9 * 0.98**step + 0.02 * self.random.random(),
            ("", "", "kl_divergence_inference"): 0.001 + 0.0004 * self.random.random(),
            ("", "", "learning_rate"): 1e-6,
            ("custom", "loss", "auxiliary"): 0.1 + 0.01 * self.random.random(),
        }
        for (section, group, metric), value in values.items():
            add(self.steps, step=step, section=section, group=group, metric=metric, value=value)

    def _add_samples(self, step: int) -> None:
        for _ in range(self.groups):
            environment = self.environments[self.group % len(self.environments)]
            tokens_prompt = self.random.randint(60, 140)
            add(self.prompts, step=step, group_id=self.group, env=environment, prompt="…", tokens_prompt=tokens_prompt)
            for _ in range(self.group_size):
                self._add_sample(step, environment, tokens_prompt)
            self.group += 1

    def _add_sample(self, step: int, environment: str, tokens_prompt: int) -> None:
        reward = float(self.random.random() < 0.3 + 0.01 * step)
        turns = 1 if environment == "countdown" else 2
        length = 0
        for turn in range(turns):
            tokens = int(self.random.lognormvariate(5.0, 0.5))
            length += tokens
            reason = "length" if tokens > 350 else "eos"
            add(
                self.generations, step=step, group_id=self.group, sample_id=self.sample, agent_id=0,
                generation_idx=turn, content=b"\x28\xb5", tokens=tokens, prompt_tokens=tokens_prompt,
                tool_call_count=0, stop_reason=reason,
            )  # fmt: skip
        add(
            self.samples, step=step, group_id=self.group, sample_id=self.sample, reward=reward, advantage=reward - 0.4,
            num_generations=turns, total_tokens=tokens_prompt + length, raw_string=b"\x28\xb5",
            compute_reward_time=0.01, stop_reason="final_answer", off_policy_steps=self.random.randint(0, 2),
        )  # fmt: skip
        for name, value in {"correct": reward, "format": float(self.random.random() < 0.9)}.items():
            add(self.metrics, step=step, sample_id=self.sample, env=environment, metric_name=name, value=value)
        self.sample += 1

    def _add_discards(self, step: int) -> None:
        for reason, count in (("zero_advantage", step % 3 * self.group_size), ("max_async", step % 2)):
            for _ in range(count):
                add(
                    self.discarded, timestamp=self.clock_s, discard_reason=reason, trainer_step=step,
                    inference_step=step + 1, group_id=10_000 + step, sample_id=1_000_000 + self.sample, reward=1.0,
                )  # fmt: skip
                self.sample += 1

    def _add_events(self, step: int) -> None:
        begin = self.clock_s + 2.0 + 0.5 * self.random.random()
        ends = []
        for rank in range(self.ranks):
            at = begin
            slow = 1.6 if rank == self.slow_rank else 1.0
            for micro in range(self.microbatches):
                for stage, seconds in (("data_to_device", 0.05), ("forward", 0.8 * slow)):
                    at = self._event(stage, step, rank, at, seconds, micro)
                inner = at
                for stage, seconds in (
                    ("loss_computation/prepare_tensors", 0.05),
                    ("loss_computation/compute_kl", 0.1),
                ):
                    inner = self._event(stage, step, rank, inner, seconds, micro)
                at = self._event("loss_computation", step, rank, at, 0.2, micro)
                at = self._event("backward", step, rank, at + 0.01, 1.5, micro)
            at = self._event("optimizer", step, rank, at, 0.3, -1)
            ends.append(self._event("weight_broadcast", step, rank, at, 0.4, -1))
        self.clock_s = ends[0]
        for server in range(2):
            for phase, at in (("start", self.clock_s - 0.35), ("end", self.clock_s + 0.05 * server)):
                add(
                    self.infra, timestamp=at, tail_idx=0, event_type="weight_sync", phase=phase, step=step,
                    server_id=server,
                )  # fmt: skip

    def _event(self, stage: str, step: int, rank: int, at: float, seconds: float, micro: int) -> float:
        seconds *= 0.95 + 0.1 * self.random.random()
        add(
            self.trainer, event_type=stage, step=step, rank=rank, local_rank=rank, node_id=0, gpu_index=rank,
            start_time=at, end_time=at + seconds, parent=stage.rpartition("/")[0] or None, depth=stage.count("/"),
            microbatch=micro, minibatch=-1, tail_idx=0,
        )  # fmt: skip
        return at + seconds

    # -- on disk -----------------------------------------------------------------------------------------------------

    def steps_zip(self, first: int = 0, last: int = 1 << 30, write: WriteTable = parquet_bytes) -> bytes:
        """One archive of samples and step metrics, of some steps."""
        tables = {
            "prompts": self.prompts,
            "generations": self.generations,
            "samples_data": self.samples,
            "rollouts_metrics": self.metrics,
            "metrics": self.steps,
        }
        return zipped({name: cut(table, "step", first, last) for name, table in tables.items()}, write)

    def events_zip(self, first: int = 0, last: int = 1 << 30, write: WriteTable = parquet_bytes) -> bytes:
        """One archive of events, of some steps."""
        start = {"timestamp": [START_S], "event_type": ["training_loop_start"], "step": [0], "node_id": [0]}
        tables = {
            "orchestrator": start,
            "trainer": cut(self.trainer, "step", first, last),
            "events_infra": cut(self.infra, "step", first, last),
            "samples_data_discarded": cut(self.discarded, "trainer_step", first, last),
        }
        return zipped(tables, write)

    def write(self, files: Path, first: int = 0, last: int = 1 << 30, write: WriteTable = parquet_bytes) -> Path:
        """All steps in the live blocks, the last five in the tails, under the `files` folder of a W&B run."""
        newest = min(last, max(self.steps["step"], default=0))
        for kind, archive in (("steps", self.steps_zip), ("events", self.events_zip)):
            (files / kind).mkdir(parents=True, exist_ok=True)
            (files / kind / "block_live.zip").write_bytes(archive(first, newest, write))
            (files / kind / "tail.zip").write_bytes(archive(max(first, newest - 4), newest, write))
        return files


def add(table: Table, **row: object) -> None:
    for name, column in table.items():
        column.append(row.get(name))


def cut(table: Mapping[str, Sequence[object]], key: str, first: int, last: int) -> Table:
    kept = [i for i, step in enumerate(table[key]) if isinstance(step, int) and first <= step <= last]
    return {name: [column[i] for i in kept] for name, column in table.items()}


def zipped(tables: Mapping[str, Mapping[str, Sequence[object]]], write: WriteTable = parquet_bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for name, table in tables.items():
            archive.writestr(f"{name}.parquet", write(table))
        archive.writestr("metadata.json", json.dumps({"table_schema_versions": {}}))
    return out.getvalue()
