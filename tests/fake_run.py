"""A run for tests of views: real decoder, store and rules, everything else set by hand."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rltop.catalog.dialect import Identity
from rltop.catalog.metrics import NO_RANGES, Ranges
from rltop.catalog.row_sets import AS_FOUND, Arrangement
from rltop.formats.decoder import DecoderOptions
from rltop.formats.jsonl import JsonlDecoder
from rltop.model import Counts, Event, EventState, Evidence, Label, Level, RunState, Unit, Verdict, VerdictState
from rltop.rules.options import EngineOptions
from rltop.run.past import standing_at, step_at_same_time, verdicts_of_stream, worst_first
from rltop.run.pipeline import Pipeline
from rltop.run.preferences import NO_GOAL, Goal, OwnRules
from rltop.run.rollouts import RolloutShelf
from rltop.run.rule_runner import RuleRunner
from rltop.run.run_settings import RunSettings
from rltop.run.snapshot import Memo
from rltop.run.whereabouts import Whereabouts
from rltop.stats.ranks import RankHistory, SpanBook
from rltop.store.stream import Stream


@lru_cache(maxsize=8)
def memo_of(stream: Stream) -> Memo:
    return Memo(stream)


@dataclass(eq=False)
class FakeRun:
    """The part of a run, or of one of its streams, that a `Snapshot` reads."""

    name: Label
    stream: Stream
    path: Label = field(default_factory=lambda: Label.of("logs/metrics.jsonl"))
    identity: Identity | None = None
    spans: SpanBook | None = None
    ranges: Ranges = NO_RANGES
    verdicts: Sequence[Verdict] = ()
    events: Sequence[Event] = ()
    muted: frozenset[str] = frozenset()
    silenced: frozenset[str] = frozenset()
    set_aside: Sequence[Verdict] = ()
    warm_up: tuple[int, int] | None = None
    state: RunState = RunState.LIVE
    state_note: str = ""
    failure: Label = field(default_factory=lambda: Label.of(""))
    failure_log: str = ""
    ending: None = None
    lagging: Sequence[str] = ()
    job: None = None
    is_in_log: bool = False
    kind_note: str = ""
    kind_title: str = ""
    age_s: float | None = 12.0
    silent_s: float | None = None
    behind_bytes: int = 0
    loading: float | None = None
    has_caught_up: bool = True
    left_s: float | None = None
    is_awaited: bool = False
    is_folded: bool = False
    is_preview: bool = False
    is_emptied: bool = False
    counts: Counts = field(default_factory=Counts)
    group_size: int | None = None
    records: int = 0
    role: str = ""
    is_rank: bool = False
    other_streams: Sequence[FakeRun] = ()
    rank_paths: Mapping[str, str] = field(default_factory=dict)
    failed_rank: str = ""
    arrangement: Arrangement = AS_FOUND
    goal: Goal = NO_GOAL
    own_rules: OwnRules = field(default_factory=dict)
    rules: RuleRunner | None = None
    ranks: RankHistory | None = None
    profiles: Sequence[str] = ()
    rollouts: RolloutShelf | None = None
    settings: RunSettings | None = None
    has_job: bool = True
    copies: Sequence[str] = ()
    whereabouts: Whereabouts | None = None
    arrived_s: float | None = None

    @property
    def main(self) -> FakeRun:
        return self

    is_dated_by_file = False

    @property
    def newest_s(self) -> float | None:
        """When its newest row was written."""
        return self.stream.last_time_s

    @property
    def judging(self) -> FakeRun:
        return self

    @property
    def shown(self) -> FakeRun:
        return self

    @property
    def known(self) -> FakeRun:
        return self

    @property
    def pipeline(self) -> FakeRun:
        return self

    @property
    def now(self) -> FakeRun:
        return self

    @property
    def memo(self) -> Memo:
        """Cached values computed from its rows."""
        return memo_of(self.stream)

    @property
    def version(self) -> int:
        """Changes with every row."""
        return self.stream.version

    def muted_at(self, step: int | None) -> tuple[Verdict, ...]:
        """As in `Run`: returns `set_aside`."""
        return tuple(self.set_aside)

    def verdicts_at(self, step: int | None) -> tuple[Verdict, ...]:
        """As in `Run`: its own verdicts and those of its other streams."""
        if step is None:
            return tuple(self.verdicts)
        found = standing_at(self.events, step, self.muted, self.identity)
        for part in self.other_streams:
            found += verdicts_of_stream(part.verdicts_at(step_at_same_time(self.stream, step, part.stream)), part.role)
        return worst_first(found)


def run_of(data: bytes, name: str = "qwen2.5-7b-gsm8k", **settings: Any) -> FakeRun:
    """Decode, store and judge `data` as a finished file."""
    stream = Stream("", settings.pop("options", None))
    stream.total_steps = settings.pop("total_steps", None)
    rules = RuleRunner(EngineOptions())
    pipeline = Pipeline(JsonlDecoder(DecoderOptions()), stream, rules)
    pipeline.take_bytes(data, 0, 0)
    pipeline.finish()
    counts = Counts()
    counts.add(pipeline.decoder.counts)
    counts.add(stream.counts)
    identity = pipeline.current_identity()
    run = FakeRun(
        Label.of(name),
        stream,
        identity=identity,
        counts=counts,
        verdicts=[] if identity is None else rules.peek(stream, identity).verdicts,
        events=rules.events,
        warm_up=rules.settled(stream).warm_up,
        group_size=identity.group_size if identity is not None else None,
        records=stream.rows,
    )
    for key, value in settings.items():
        setattr(run, key, value)
    return run


def run_of_file(path: Path, **settings: Any) -> FakeRun:
    return run_of(path.read_bytes(), path.parent.name, **settings)


def verl_lines(rows: Iterable[tuple[int, Mapping[str, object]]]) -> bytes:
    return b"".join(json.dumps({"step": step, "data": data}).encode() + b"\n" for step, data in rows)


def verl_rows(
    steps: int = 1204, *, seed: int = 1, is_ill: bool = False, from_step: int = 1
) -> list[tuple[int, dict[str, object]]]:
    """A veRL run: healthy, or one whose tools slow down and whose KL climbs over the last 60 steps."""
    dice = random.Random(seed)
    rows = []
    for step in range(from_step, steps + 1):
        done = step / steps
        ill = max(0.0, (step - (steps - 60)) / 60) if is_ill else 0.0
        rows.append((step, _verl_row(step, done, ill, dice)))
    return rows


def _verl_row(step: int, done: float, ill: float, dice: random.Random) -> dict[str, object]:
    def noise(scale: float = 0.05) -> float:
        return 1 + dice.gauss(0, scale)

    length = (620 + 300 * done) * noise(0.03) * (1 + 1.5 * ill)
    gen = 22 * noise() * (1 + 1.2 * ill)
    stages = {
        "gen": gen,
        "reward": 1.2 * noise(),
        "old_log_prob": 3.0 * noise(),
        "adv": 0.05 * noise(),
        "update_actor": 8.1 * noise(),
        "update_weights": 1.4 * noise(),
    }
    if step % 100 == 0:
        stages["save_checkpoint"] = 31.0 * noise()
    step_s = sum(stages.values()) + 0.9
    row: dict[str, object] = {
        "training/global_step": step,
        "training/epoch": step // 100,
        "critic/score/mean": 0.2 + 0.5 * (1 - math.exp(-4 * done)) + dice.gauss(0, 0.02),
        "critic/score/max": 1.0,
        "critic/score/min": 0.0,
        "critic/rewards/mean": 0.2 + 0.5 * (1 - math.exp(-4 * done)) + dice.gauss(0, 0.02),
        "critic/advantages/mean": dice.gauss(0, 0.01),
        "critic/advantages/max": 2.2,
        "critic/advantages/min": -2.2,
        "actor/kl_loss": 0.02 * (1 + 2 * done) * noise() * (1 + 9 * ill),
        "actor/pg_clipfrac": 0.003 * noise(0.1),
        "actor/ppo_kl": 0.0004 * noise(0.2),
        "actor/entropy": 0.28 * math.exp(-0.4 * done) * noise(0.02),
        "actor/grad_norm": 0.4 * noise(0.1),
        "actor/lr": 1e-6,
        "actor/pg_loss": dice.gauss(0, 0.01),
        "response_length/mean": length,
        "response_length/max": 4096.0,
        "response_length/min": 90.0,
        "response_length/clip_ratio": 0.007 * noise(0.3) + 0.2 * ill,
        "prompt_length/mean": 180.0,
        "global_seqlen/mean": 250_000 * noise(0.01),
        "global_seqlen/min": 240_000.0,
        "global_seqlen/max": 262_000.0,
        "global_seqlen/minmax_diff": 22_000.0,
        "global_seqlen/balanced_min": 249_900.0,
        "global_seqlen/balanced_max": 250_150.0,
        "perf/throughput": 1065 * noise() / (1 + ill),
        "perf/mfu/actor": 0.41 * noise(0.01),
        "perf/max_memory_allocated_gb": 62.0,
        "perf/total_num_tokens": 1_000_000.0,
        "perf/time_per_step": step_s,
        "timing_s/step": step_s,
        "timing_per_token_ms/gen": gen / length,
        "timing_per_token_ms/update_actor": 0.09,
        "timing_s/agent_loop/generate_sequences/mean": 9 * noise(),
        "timing_s/agent_loop/generate_sequences/max": 20 * noise() * (1 + ill),
        "timing_s/agent_loop/tool_calls/mean": 2 * noise(),
        "timing_s/agent_loop/tool_calls/max": 6 * noise() * (1 + 6 * ill),
        "timing_s/agent_loop/slowest/generate_sequences": 14 * noise(),
        "timing_s/agent_loop/slowest/tool_calls": 6 * noise() * (1 + 6 * ill),
        "timing_s/agent_loop/slowest/response_length": 3000,
    }
    row.update({f"timing_s/{name}": seconds for name, seconds in stages.items()})
    if step % 20 == 0:
        row["val-core/gsm8k/acc/mean@1"] = 0.45 + 0.16 * (1 - math.exp(-3 * done)) + dice.gauss(0, 0.004)
        row["timing_s/testing"] = 17.0
    return row


def a_verdict(rule: str = "O11", level: Level = Level.WARN, **changes: Any) -> Verdict:
    """A verdict with every field set, for tests of views."""
    base = Verdict(
        rule=rule,
        title="KL drift",
        family="kl",
        group="learning",
        level=level,
        state=VerdictState.FIRING,
        metric="kl_ref",
        key="actor/kl_loss",
        since_step=1187,
        since_record=1187,
        headline="KL to the reference is 9.8× its value at the start, reward flat",
        evidence=(Evidence("KL", 0.55, Unit.NATS), Evidence("baseline", 0.056, Unit.NATS)),
        threshold=0.2,
        baseline=0.056,
    )
    return base._replace(**changes)


@cache
def _ill_run() -> FakeRun:
    return run_of(verl_lines(verl_rows(is_ill=True)), total_steps=2000)


def firing_run() -> FakeRun:
    """The faulty veRL run with verdicts set by hand, so that no change of a rule affects what is shown.

    It is judged once, because that takes as long as a hundred tests of views; each caller gets its own run over the
    same rows.
    """
    run = replace(_ill_run(), warm_up=None, group_size=8)
    run.verdicts = [
        a_verdict(
            "T2",
            Level.CRIT,
            title="length",
            family="length",
            metric="response_len_mean",
            key="response_length/mean",
            since_step=1160,
            headline="answers are 3.7× as long as at the start, 20 % of them cut off",
            threshold=None,
            baseline=640.0,
        ),
        a_verdict(),
        a_verdict(
            "P1",
            title="step slower",
            family="performance",
            group="system",
            metric="time_step",
            key="timing_s/step",
            since_step=1172,
            headline="steps take 64.2 s instead of 36.4 s: gen +27.0 s",
            threshold=47.4,
            baseline=36.4,
        ),
        a_verdict(
            "P6",
            title="stragglers",
            family="straggler",
            group="system",
            metric="time_gen_sample_max",
            key="timing_s/agent_loop/generate_sequences/max",
            since_step=1173,
            headline="the slowest rollout takes 39.4 s against a mean of 9.4 s",
            threshold=None,
            baseline=2.2,
        ),
    ]
    run.events = [
        Event(1165, 1165, "T2", "length", Level.WARN, EventState.FIRING, "answers are 1.6× as long as at the start"),
        Event(1172, 1172, "P1", "performance", Level.WARN, EventState.FIRING, "steps take 47.5 s instead of 36.4 s"),
        Event(1173, 1173, "P6", "straggler", Level.WARN, EventState.FIRING, "slowest rollout 27.0 s, mean 9.4 s"),
        Event(1180, 1180, "E1", "entropy", Level.WARN, EventState.RECOVERED, "entropy, since step 1,170"),
        Event(1187, 1187, "O11", "kl", Level.WARN, EventState.FIRING, "KL to the reference is 3.6× its start"),
        Event(1190, 1190, "T2", "length", Level.CRIT, EventState.ESCALATED, "answers are 2.9× as long as at the start"),
    ]
    return run
