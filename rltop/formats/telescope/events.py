"""Telescope's tables of events → the timing of each step, and its true spans.

Owns the names under which durations go and what a step is: from the end of the
one before to its own end, waiting for data and active. Source of the definitions:
the server of Telescope's own interface; the values are those of rank 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rltop.formats.parquet.table import ParquetTable
from rltop.formats.telescope.samples import number, rows_of, summary, whole
from rltop.model import TimedSpan

TRAINER, INFERENCE = "trainer", "inference"
WEIGHT_SYNC = "weight_broadcast"
WAITING = "waiting_for_data"
INFERENCE_SYNC = "timing_weight_sync_inference_total"
MAX_EVENTS = 200_000
"""Events of one step that are held: 1,000 ranks, 64 microbatches and three stages."""

Key = tuple[str, int, float]
"""Operation, rank and start: what tells one event from another."""


def _metric(operation: str) -> str:
    """What an operation is called among the metrics: by its own name, wherever it is nested."""
    name = operation.rpartition("/")[2]
    return "weight_sync_trainer" if name == WEIGHT_SYNC else name


@dataclass(slots=True)
class StepEvents:
    """Events of one step.

    Attributes:
        spans: by what tells them apart: the end, and the microbatch (-1: none).
        syncs: by server: when the weights began to be taken over, and when they were there.
        discarded: by sample: why it was thrown away, and its reward.
    """

    spans: dict[Key, tuple[float, int]] = field(default_factory=dict)
    syncs: dict[int, list[float | None]] = field(default_factory=dict)
    discarded: dict[int, tuple[str, float | None]] = field(default_factory=dict)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """First start and last end on rank 0, in seconds since the epoch."""
        own = [(start, end) for (_, rank, start), (end, _) in self.spans.items() if rank == 0]
        return (min(own)[0], max(end for _, end in own)) if own else None

    def timings(self, before_s: float | None) -> dict[str, float]:
        """Seconds by name; `before_s` is when the step before ended, where that is known."""
        bounds = self.bounds
        found: dict[str, float] = {}
        if bounds is not None:
            start_s, end_s = bounds
            found["timing_step_active"] = end_s - start_s
            if before_s is not None and start_s >= before_s:
                found["timing_step_total"] = end_s - before_s
                found[f"timing_{WAITING}"] = start_s - before_s
        found |= self._operations()
        sync = self._inference_sync()
        if sync is not None:
            found[INFERENCE_SYNC] = sync[1] - sync[0]
        return found

    def _operations(self) -> dict[str, float]:
        each: dict[str, list[float]] = {}
        has_microbatches: set[str] = set()
        for (operation, rank, start), (end, microbatch) in self.spans.items():
            if rank == 0:
                name = _metric(operation)
                each.setdefault(name, []).append(end - start)
                if microbatch >= 0:
                    has_microbatches.add(name)
        found: dict[str, float] = {}
        for name, seconds in each.items():
            found[f"timing_{name}_total"] = sum(seconds)
            if name in has_microbatches:
                found |= summary(f"timing_{name}_microbatch", seconds)
        if "forward" in has_microbatches:
            found["timing_microbatch_count"] = float(len(each["forward"]))
        return found

    def _inference_sync(self) -> tuple[float, float] | None:
        done = [(start, end) for start, end in self.syncs.values() if start is not None and end is not None]
        if not done:
            return None
        begin, end = min(start for start, _ in done), max(end for _, end in done)
        return (begin, end) if end >= begin else None

    def discards(self) -> dict[str, float]:
        """How many samples were thrown away and why, in percent of them; the count may be 0."""
        count = len(self.discarded)
        found = {"discarded_count": float(count)}
        reasons = [reason for reason, _ in self.discarded.values()]
        if count:
            for reason in ("zero_advantage", "max_async"):
                found[f"discarded_{reason}_pct"] = 100.0 * reasons.count(reason) / count
        rewards = [
            reward for reason, reward in self.discarded.values() if reason == "zero_advantage" and reward is not None
        ]
        if rewards:
            found["discarded_zero_advantage_mean_reward"] = sum(rewards) / len(rewards)
            found["discarded_zero_advantage_all_zero_pct"] = 100.0 * sum(r == 0 for r in rewards) / len(rewards)
        return found

    def timed(self, step: int, before_s: float | None) -> list[TimedSpan]:
        """Every event as a span; the wait for data is one of rank 0.

        Args:
            step: the step that the events belong to.
            before_s: when the step before ended, in seconds since the epoch; None where that is not known.
        """
        spans = [
            TimedSpan(step, TRAINER, rank, operation, start, end, f"timing_{_metric(operation)}_total")
            for (operation, rank, start), (end, _) in self.spans.items()
        ]
        bounds = self.bounds
        if bounds is not None and before_s is not None and bounds[0] > before_s:
            spans.append(TimedSpan(step, TRAINER, 0, WAITING, before_s, bounds[0], f"timing_{WAITING}"))
        spans += [
            TimedSpan(step, INFERENCE, server, "weight_sync", start, end, INFERENCE_SYNC)
            for server, (start, end) in self.syncs.items()
            if start is not None and end is not None and end >= start
        ]
        return spans


class EventTables:
    """Takes the tables of one archive in; an event that was there before changes nothing.

    Attributes:
        steps: what is known, by step.
        newest: the newest step of which rank 0 has an event; -1 if there is none.
        loop_start_s: when training began, seconds since the epoch; None if nothing says.
        has_discards: is there a table that says what was thrown away?
    """

    def __init__(self) -> None:
        self.steps: dict[int, StepEvents] = {}
        self.newest = -1
        self.loop_start_s: float | None = None
        self.has_discards = False

    def take(self, tables: Mapping[str, ParquetTable], skip: int) -> None:
        """Add the rows of every step after `skip`.

        Args:
            tables: by name, those that the archive holds.
            skip: steps up to this one have been given out.
        """
        if "trainer" in tables:
            self._trainer(tables["trainer"], skip)
        if "events_infra" in tables:
            self._infra(tables["events_infra"], skip)
        if "orchestrator" in tables and self.loop_start_s is None:
            self._orchestrator(tables["orchestrator"])
        if "samples_data_discarded" in tables:
            self.has_discards = True
            self._discarded(tables["samples_data_discarded"], skip)

    def _at(self, step: int | None, skip: int) -> StepEvents | None:
        if step is None or step <= skip:
            return None
        return self.steps.setdefault(step, StepEvents())

    def _trainer(self, table: ParquetTable, skip: int) -> None:
        names = ("step", "event_type", "rank", "start_time", "end_time", "microbatch")
        for step, operation, rank, start, end, microbatch in rows_of(table, *names):
            at = self._at(whole(step), skip)
            begin, stop, who = number(start), number(end), whole(rank)
            if at is None or begin is None or stop is None or who is None or not isinstance(operation, str):
                continue
            if stop < begin or len(at.spans) >= MAX_EVENTS:
                continue
            at.spans.setdefault((operation, who, begin), (stop, microbatch if isinstance(microbatch, int) else -1))
            if who == 0 and isinstance(step, int):
                self.newest = max(self.newest, step)

    def _infra(self, table: ParquetTable, skip: int) -> None:
        names = ("step", "event_type", "phase", "server_id", "timestamp")
        for step, kind, phase, server, at_s in rows_of(table, *names):
            at, when, who = self._at(whole(step), skip), number(at_s), whole(server)
            if at is None or when is None or kind != "weight_sync" or phase not in ("start", "end"):
                continue
            sync = at.syncs.setdefault(who or 0, [None, None])
            if phase == "start":
                sync[0] = when if sync[0] is None else min(sync[0], when)
            else:
                sync[1] = when if sync[1] is None else max(sync[1], when)

    def _orchestrator(self, table: ParquetTable) -> None:
        times = [
            at_s
            for kind, when in rows_of(table, "event_type", "timestamp")
            if kind == "training_loop_start" and (at_s := number(when)) is not None
        ]
        self.loop_start_s = min(times, default=None)

    def _discarded(self, table: ParquetTable, skip: int) -> None:
        for step, sample, reason, reward in rows_of(table, "trainer_step", "sample_id", "discard_reason", "reward"):
            at = self._at(whole(step), skip)
            if at is not None and isinstance(sample, int) and isinstance(reason, str):
                at.discarded[sample] = (reason, number(reward))
