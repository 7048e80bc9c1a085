"""Telescope's archives → records: zip files of parquet tables, rewritten every few seconds.

A step is emitted once the trainer has begun a later one, since its timing is final then; until then, `flush` returns
what is known of it. The archives overlap, and none is written atomically: one that cannot be opened is retried when it
is written again, and rows that were read are never taken back. Tables are decoded in Python, which takes seconds for a
large archive and therefore runs in a thread.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite

from rltop.errors import DecodeError, SourceError, refusing
from rltop.files import Worker
from rltop.formats.decoder import MEMORY_BYTES, Allowance, Decoder
from rltop.formats.parquet import ParquetTable, Value
from rltop.formats.rows import MAX_KEY_CHARS, RecordBuilder, clipped_key
from rltop.model import Counts, FilePosition, Record, TimedSpan
from rltop.model.completions import deviation, gini, length_ratio, mean_of

# -- samples of a step → aggregate metrics -------------------------------------------------------------------------
# Formulas only, no tables. They are those of the server of Telescope's own viewer, so that both show the same value
# under the same name.


def summary(name: str, values: Sequence[float]) -> dict[str, float]:
    """`name` with `_mean`, `_std`, `_min` and `_max`; std is the sample standard deviation, absent for one value."""
    if not values:
        return {}
    found = {f"{name}_mean": math.fsum(values) / len(values), f"{name}_min": min(values), f"{name}_max": max(values)}
    spread = deviation(values)
    return found if spread is None else {**found, f"{name}_std": spread}


def variation(values: Sequence[float]) -> float:
    """Coefficient of variation, with the sample standard deviation; 0 for one value or a mean that is not positive."""
    mean, spread = math.fsum(values) / len(values), deviation(values)
    return 0.0 if spread is None or not mean > 0.0 else spread / mean


def of_groups(groups: Mapping[object, Sequence[float]]) -> dict[str, float]:
    """Three measures of length inequality within groups, averaged over the groups of a step."""
    lengths = list(groups.values())
    found = {
        "group_length_cv_mean": mean_of(map(variation, lengths)),
        "group_length_gini_mean": mean_of(map(gini, lengths)),
        "group_length_max_median_ratio_mean": mean_of(map(length_ratio, lengths)),
    }
    return {name: value for name, value in found.items() if value is not None}


MAX_METRICS = 256
"""Most sample metrics of a step that are aggregated; an environment returns a handful."""

Row = tuple[Value, ...]


def rows_of(table: ParquetTable, *names: str) -> Iterable[Row]:
    """Rows of the columns `names`, in their order; missing columns are filled with None."""
    columns = table.read(names)
    empty: Sequence[Value] = [None] * table.rows
    return zip(*(columns.get(name, empty) for name in names), strict=True)


def number(value: Value) -> float | None:
    if isinstance(value, (int, float)) and isfinite(value):
        return float(value)
    return None


def whole(value: Value) -> int | None:
    """A non-negative integer, else None: -1 means "unknown"."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


@dataclass(slots=True)
class StepSamples:
    """The samples of one step, as far as known.

    Attributes:
        samples: sample → (group, reward, advantage, total tokens, steps off policy).
        cut: samples with a generation that was stopped by the length limit.
    """

    samples: dict[int, tuple[int | None, Value, Value, Value, Value]] = field(default_factory=dict)
    tokens: dict[int, tuple[int | None, float]] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)
    prompts: dict[int, float] = field(default_factory=dict)
    environments: dict[int, str] = field(default_factory=dict)
    metrics: dict[str, dict[int, float]] = field(default_factory=dict)

    def values(self) -> dict[str, float]:
        rewards = [(group, number(reward)) for group, reward, *_ in self.samples.values()]
        known = [reward for _, reward in rewards if reward is not None]
        columns = list(zip(*self.samples.values(), strict=True)) or [()] * 5
        lengths = [length for _, length in self.tokens.values()]
        found = summary("reward_sum", known)
        found |= summary("advantage", _numbers(columns[2]))
        found |= summary("length_sum", _numbers(columns[3]))
        found |= summary("off_policy_steps", _numbers(columns[4]))
        found |= summary("length_prompt", list(self.prompts.values()))
        found |= summary("length_completion", lengths)
        found |= of_groups(_by_group(self.tokens.values()))
        _put_gini(found, "reward_gini_mean", rewards)
        if self.tokens:
            found["stop_reason_length_pct"] = 100.0 * len(self.cut) / len(self.tokens)
        for name, by_sample in self.metrics.items():
            found |= summary(f"reward_{name}", list(by_sample.values()))
            grouped = [(self._group(sample), value) for sample, value in by_sample.items()]
            _put_gini(found, f"reward_{name}_gini_mean", grouped)
        return found | self._by_environment(rewards)

    @property
    def group_size(self) -> int | None:
        """Most frequent group size; None if no sample has a group."""
        sizes = Counter(Counter(group for group, *_ in self.samples.values() if group is not None).values())
        return max(sizes, key=lambda size: (sizes[size], size), default=None)

    def _group(self, sample: int) -> int | None:
        known = self.samples.get(sample)
        return None if known is None else known[0]

    def _by_environment(self, rewards: Iterable[tuple[int | None, float | None]]) -> dict[str, float]:
        split: dict[str, list[float]] = {}
        for group, reward in rewards:
            if group is not None and reward is not None and self.environments.get(group):
                split.setdefault(self.environments[group], []).append(reward)
        if len(split) < 2:
            return {}
        return {
            f"reward/{environment}/{name.removeprefix('_')}": value
            for environment, values in sorted(split.items())
            for name, value in summary("", values).items()
        }


def _numbers(column: Iterable[Value]) -> list[float]:
    return [value for value in map(number, column) if value is not None]


def _by_group(pairs: Iterable[tuple[int | None, float | None]]) -> dict[object, list[float]]:
    groups: dict[object, list[float]] = {}
    for group, value in pairs:
        if group is not None and value is not None:
            groups.setdefault(group, []).append(value)
    return groups


def _put_gini(found: dict[str, float], name: str, pairs: Iterable[tuple[int | None, float | None]]) -> None:
    mean = mean_of(map(gini, _by_group(pairs).values()))
    if mean is not None:
        found[name] = mean


class SampleTables:
    """Collects the tables of archives; a row that is already known changes nothing."""

    def __init__(self) -> None:
        self.steps: dict[int, StepSamples] = {}
        self._done: Container[int] = ()

    def take(self, name: str, table: ParquetTable, skip: int, done: Container[int]) -> None:
        """Add the rows of all steps after `skip` that are not in `done`."""
        self._done = done
        readers = {
            "samples_data": self._samples,
            "generations": self._generations,
            "prompts": self._prompts,
            "rollouts_metrics": self._metrics,
        }
        if name in readers:
            readers[name](table, skip)

    def _at(self, step: Value, skip: int) -> StepSamples | None:
        known = whole(step)
        if known is None or known <= skip or known in self._done:
            return None
        return self.steps.setdefault(known, StepSamples())

    def _samples(self, table: ParquetTable, skip: int) -> None:
        names = ("step", "sample_id", "group_id", "reward", "advantage", "total_tokens", "off_policy_steps")
        for step, sample, group, *rest in rows_of(table, *names):
            at = self._at(step, skip)
            if at is not None and isinstance(sample, int):
                reward, advantage, total, off_policy = rest
                at.samples[sample] = (whole(group), reward, advantage, total, off_policy)

    def _generations(self, table: ParquetTable, skip: int) -> None:
        tokens: dict[tuple[int, int], float] = {}
        for step, sample, group, count, reason in rows_of(
            table, "step", "sample_id", "group_id", "tokens", "stop_reason"
        ):
            at, length = self._at(step, skip), number(count)
            if at is None or not isinstance(sample, int) or not isinstance(step, int):
                continue
            # An archive holds all generations of a sample, so sums are computed per archive, not accumulated.
            total = tokens[step, sample] = tokens.get((step, sample), 0.0) + (length or 0.0)
            at.tokens[sample] = (whole(group), total)
            if reason == "length":
                at.cut.add(sample)

    def _prompts(self, table: ParquetTable, skip: int) -> None:
        for step, group, environment, tokens in rows_of(table, "step", "group_id", "env", "tokens_prompt"):
            at, number_of_group = self._at(step, skip), whole(group)
            if at is None or number_of_group is None:
                continue
            if (length := number(tokens)) is not None:
                at.prompts[number_of_group] = length
            if isinstance(environment, str) and environment:
                at.environments[number_of_group] = environment[:MAX_KEY_CHARS]

    def _metrics(self, table: ParquetTable, skip: int) -> None:
        for step, sample, name, value in rows_of(table, "step", "sample_id", "metric_name", "value"):
            at, known = self._at(step, skip), number(value)
            if at is None or known is None or not isinstance(name, str) or not isinstance(sample, int):
                continue
            if name in at.metrics or len(at.metrics) < MAX_METRICS:
                at.metrics.setdefault(name[:MAX_KEY_CHARS], {})[sample] = known


# -- records ----------------------------------------------------------------------------------------------------

TABLES = frozenset(
    {"metrics", "samples_data", "generations", "prompts", "rollouts_metrics", "trainer", "orchestrator",
     "events_infra", "samples_data_discarded"}
)  # fmt: skip
"""Tables that are read; the others hold texts and hardware metrics."""

AT_ONCE_BYTES = 256 * 1024
AT_ONCE_ROWS = 5_000
"""An archive up to this size, decompressed, is read without a thread; takes some 50 ms at worst."""
WAIT_S = 0.004
"""How long a call waits for the thread: one time slice of a session."""
STEPS_AT_ONCE = 32
"""Most steps emitted per call."""
_END = b"PK\x05\x06"
_END_BYTES = 22
_NOT_WHOLE = (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, RuntimeError, EOFError, OSError)
"""Exceptions caused by an archive that is still being written."""
_LATE_STEPS = 2
"""A step's events are no longer awaited once the trainer has metrics of a step this much later."""
_FIRST_STEPS = (0, 1)
"""Possible numbers of a run's first step; only that one begins with the training loop."""


class TelescopeDecoder(Decoder):
    """Rows of a run, from archives fed one after the other, with a `reset` in between.

    Attributes:
        group_size: most frequent group size in the newest complete step.
    """

    is_rewritten = True
    stopped = ""
    group_size: int | None = None

    def __init__(self) -> None:
        self.counts = Counts()
        self._builder = RecordBuilder(self.counts)
        self._archive = bytearray()
        self._is_taken = False
        self._reader, self._is_reading = Worker("archive"), False
        self._outcome: Exception | None = None
        self._giving: Iterator[Record] | None = None
        self._position = FilePosition(0, 0)
        self._metrics: dict[int, dict[str, float]] = {}
        self._samples = SampleTables()
        self._values: dict[int, dict[str, float]] = {}
        self._events = EventTables()
        self._given = -1
        self._shown: dict[str, float] = {}
        self._seen: tuple[int, int] = (-1, 0)
        self._before_s: float | None = None
        self._spans: list[TimedSpan] = []

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Collect data; read the tables once the archive is complete."""
        if self._is_taken:
            return []
        if len(self._archive) + len(data) > MEMORY_BYTES:
            self._is_taken, self._archive = True, bytearray()
            self.counts.refuse(self.counts.lines + 1, f"archive larger than the limit of {MEMORY_BYTES:,} bytes")
            return []
        if not self._archive:
            self._position = FilePosition(generation, offset)
        self._archive += data
        if not self._archive.startswith(_END, max(0, len(self._archive) - _END_BYTES)):
            return []
        if self._is_small():
            self._read()
            return self._give_on(self._whole_steps()) if self._has_read() else []
        self._reader.start(self._read)
        self._is_reading = True
        return self.decode_more()

    @property
    def has_more(self) -> bool:
        return self._is_reading or self._giving is not None

    def decode_more(self) -> list[Record]:
        """Emit some more steps, or wait briefly for the tables."""
        if self._giving is not None:
            return self._give_on(self._giving)
        return self._give_on(self._whole_steps()) if self._wait(WAIT_S) else []

    def _give_on(self, giving: Iterator[Record]) -> list[Record]:
        found = list(islice(giving, STEPS_AT_ONCE))
        self._giving = giving if len(found) == STEPS_AT_ONCE else None
        return found

    def _wait(self, most_s: float | None = None) -> bool:
        if not self._is_reading or not self._reader.join(most_s):
            return False
        self._is_reading = False
        return self._has_read()

    def flush(self) -> list[Record]:
        """Steps that are as complete as they will get, and what is known so far of the current one.

        Everything written has been read by now, so if events of a step are still
        missing while the trainer is well past it, it has none.
        """
        self._wait()
        return self._give_on(self._expected_steps())

    def _expected_steps(self) -> Iterator[Record]:
        trained = max(self._metrics, default=-1)
        ahead = _LATE_STEPS if self._events.newest >= 0 else 1
        while (step := self._next()) is not None and (self._events.newest > step or trained >= step + ahead):
            yield from self._give(step)
        if step is not None:
            yield from self._known_of(step)

    def _known_of(self, step: int) -> list[Record]:
        row = dict(self._metrics.get(step, {})) | self._values.get(step, {})
        samples = self._samples.steps.get(step)
        if samples is not None:
            # Samples are logged one by one: complete once the step has metrics or their number no longer changes.
            count = len(samples.samples)
            if row or self._seen == (step, count):
                row |= samples.values()
            self._seen = (step, count)
        new = {key: value for key, value in row.items() if key not in self._shown}
        self._shown.update(new)
        return self._record(step, new)

    @property
    def holds_back(self) -> bool:
        return self._next() is not None

    def finish(self) -> list[Record]:
        """Nothing more will come: emit every step as far as it is known."""
        self._wait()
        self._giving = None
        known = sorted({*self._metrics, *self._samples.steps, *self._values})
        return [record for step in known for record in self._give(step)]

    def reset(self, *, is_restart: bool = True) -> None:
        self._wait()
        self._archive = bytearray()
        self._is_taken = False

    def take_spans(self) -> list[TimedSpan]:
        spans, self._spans = self._spans, []
        return spans

    def _is_small(self) -> bool:
        if len(self._archive) > AT_ONCE_BYTES:
            return False
        try:
            with zipfile.ZipFile(io.BytesIO(self._archive)) as archive:
                if sum(info.file_size for info in _wanted(archive)) > AT_ONCE_BYTES:
                    return False
                tables = _tables(archive, lambda _: suppress(DecodeError))
                return sum(table.rows for table in tables.values()) <= AT_ONCE_ROWS
        except (DecodeError, *_NOT_WHOLE):
            return True

    def _read(self) -> None:
        """Read the tables of the archive; exceptions are kept for `_has_read`, which runs in the caller's thread."""
        try:
            with zipfile.ZipFile(io.BytesIO(self._archive)) as archive:
                self._take(_tables(archive, self._counting))
            self._outcome = None
        except Exception as error:
            self._outcome = error

    def _has_read(self) -> bool:
        error, self._outcome = self._outcome, None
        if isinstance(error, _NOT_WHOLE):
            return False
        self._is_taken = True
        if isinstance(error, SourceError):
            self.stopped = f"{error.message}: {error.hint}"
            return False
        if isinstance(error, DecodeError):
            self.counts.refuse(self.counts.lines + 1, error.message)
            return False
        if error is not None:
            raise error
        self._archive = bytearray()
        return True

    def _take(self, tables: Mapping[str, ParquetTable]) -> None:
        for name, table in tables.items():
            with self._counting(name):
                if name == "metrics":
                    self._take_metrics(table)
                self._samples.take(name, table, self._given, self._values)
                self._events.take(name, table, self._given)
        self._sum_up()

    def _sum_up(self) -> None:
        """Aggregate every step except the newest, whose samples may be incomplete."""
        newest = max(self._samples.steps, default=-1)
        for step in [known for known in self._samples.steps if known < newest]:
            samples = self._samples.steps.pop(step)
            self.group_size = samples.group_size or self.group_size
            self._values[step] = samples.values()

    def _take_metrics(self, table: ParquetTable) -> None:
        for step, section, group, metric, value in rows_of(table, "step", "section", "group", "metric", "value"):
            known = whole(step)
            if known is None or known <= self._given or not isinstance(metric, str) or not isinstance(value, float):
                continue
            levels = [part for part in (section, group, metric) if isinstance(part, str) and part]
            if len(levels) > 1 and levels[0] == "General":
                levels = levels[1:]
            self._metrics.setdefault(known, {}).setdefault(clipped_key("/".join(levels)), value)

    # -- giving out ------------------------------------------------------------------------------------------------

    def _next(self) -> int | None:
        return min((*self._metrics, *self._samples.steps, *self._values), default=None)

    def _whole_steps(self) -> Iterator[Record]:
        while (step := self._next()) is not None and self._events.newest > step:
            yield from self._give(step)

    def _give(self, step: int) -> list[Record]:
        row = dict(self._metrics.pop(step, {}))
        samples = self._samples.steps.pop(step, None)
        row |= self._values.pop(step, {}) if samples is None else samples.values()
        row |= self._timing(step)
        new = {key: value for key, value in row.items() if key not in self._shown}
        self._given, self._shown = step, {}
        return self._record(step, new)

    def _record(self, step: int, row: dict[str, float]) -> list[Record]:
        if not row:
            return []
        self.counts.lines += 1
        return [self._builder.build(step, row, self._position)]

    def _timing(self, step: int) -> dict[str, float]:
        """Timing and discards of a step; drops the events of this step and earlier ones."""
        events = self._events.steps.pop(step, StepEvents())
        is_first = self._given < 0 and step in _FIRST_STEPS
        before_s = self._events.loop_start_s if is_first else self._before_s
        row = events.timings(before_s)
        if self._events.has_discards and events.bounds is not None:
            row |= events.discards()
        self._spans += events.timed(step, before_s)
        self._before_s = None if events.bounds is None else events.bounds[1]
        if self._before_s is not None:
            row["timestamp"] = self._before_s
        for older in [known for known in self._events.steps if known < step]:
            del self._events.steps[older]
        return row

    @contextmanager
    def _counting(self, name: str) -> Iterator[None]:
        try:
            with refusing("damaged"):
                yield
        except DecodeError as error:
            self.counts.refuse(self.counts.lines + 1, f"{name}.parquet: {error.message}")


def _wanted(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    names = {f"{name}.parquet" for name in TABLES}
    return [info for info in archive.infolist() if info.filename in names]


def _tables(
    archive: zipfile.ZipFile, guarding: Callable[[str], AbstractContextManager[None]]
) -> dict[str, ParquetTable]:
    """The tables of an archive by name; the context manager `guarding(name)` handles damage of that table."""
    wanted, allowance = _wanted(archive), Allowance()
    for info in wanted:
        allowance.spend(info.file_size, info.filename)
    found = {}
    for info in wanted:
        name, data = info.filename.removesuffix(".parquet"), archive.read(info)
        with guarding(name):
            found[name] = ParquetTable(data)
    return found


TRAINER, INFERENCE = "trainer", "inference"
WEIGHT_SYNC = "weight_broadcast"
WAITING = "waiting_for_data"
INFERENCE_SYNC = "timing_weight_sync_inference_total"
MAX_EVENTS = 200_000
"""Most events held per step: 1,000 ranks, 64 microbatches and three stages."""

Key = tuple[str, int, float]
"""Operation, rank and start, which identify an event."""


def _metric(operation: str) -> str:
    name = operation.rpartition("/")[2]
    return "weight_sync_trainer" if name == WEIGHT_SYNC else name


@dataclass(slots=True)
class StepEvents:
    """Events of one step.

    Attributes:
        spans: key → (end, microbatch or -1).
        syncs: server → [start, end] of loading new weights.
        discarded: sample → (reason, reward).
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
        """Seconds by key; `before_s` is the end of the previous step, if known."""
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
        """Number of discarded samples, which may be 0, and the reasons in per cent of it."""
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
        """Every event as a span; the wait for data is a span of rank 0.

        Args:
            before_s: end of the previous step, in seconds since the epoch, if known.
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
    """Collects the event tables of archives; an event that is already known changes nothing.

    Attributes:
        newest: newest step with an event of rank 0; -1 if there is none.
        loop_start_s: start of the training loop, seconds since the epoch, if known.
        has_discards: there is a table of discarded samples.
    """

    def __init__(self) -> None:
        self.steps: dict[int, StepEvents] = {}
        self.newest = -1
        self.loop_start_s: float | None = None
        self.has_discards = False

    def take(self, name: str, table: ParquetTable, skip: int) -> None:
        """Add the rows of all steps after `skip`."""
        if name == "trainer":
            self._trainer(table, skip)
        elif name == "events_infra":
            self._infra(table, skip)
        elif name == "orchestrator" and self.loop_start_s is None:
            self._orchestrator(table)
        elif name == "samples_data_discarded":
            self.has_discards = True
            self._discarded(table, skip)

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
