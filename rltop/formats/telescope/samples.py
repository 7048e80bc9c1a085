"""Samples of a step → aggregate metrics.

Owns the formulas; knows nothing of tables. Source of all of them: the server of
Telescope's own interface, so that both show the same value under the same name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from rltop.formats.parquet import ParquetTable, Value
from rltop.formats.rows import MAX_KEY_CHARS
from rltop.model.completions import gini, length_ratio


def summary(name: str, values: Sequence[float]) -> dict[str, float]:
    """`name` with `_mean`, `_std`, `_min` and `_max`; std is that of a sample, and absent for a single value."""
    if not values:
        return {}
    mean = math.fsum(values) / len(values)
    found = {f"{name}_mean": mean, f"{name}_min": min(values), f"{name}_max": max(values)}
    if len(values) > 1:
        found[f"{name}_std"] = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return found


def variation(values: Sequence[float]) -> float:
    """Standard deviation of a sample over the mean; 0 for a single value or a mean that is not positive."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2 or not mean > 0.0:
        return 0.0
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1)) / mean


def mean_over_groups(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def of_groups(groups: Mapping[object, Sequence[float]]) -> dict[str, float]:
    """The three readings of how uneven the completions of a group are, averaged over the groups of a step."""
    lengths = list(groups.values())
    found = {
        "group_length_cv_mean": mean_over_groups(map(variation, lengths)),
        "group_length_gini_mean": mean_over_groups(map(gini, lengths)),
        "group_length_max_median_ratio_mean": mean_over_groups(map(length_ratio, lengths)),
    }
    return {name: value for name, value in found.items() if value is not None}


MAX_METRICS = 256
"""Sample metrics of one step that are aggregated; an environment returns a handful."""

Row = tuple[Value, ...]


def rows_of(table: ParquetTable, *names: str) -> Iterable[Row]:
    """Rows of some columns; a column that the table does not have holds None.

    Args:
        *names: the columns, in the order in which a row shall have them.
    """
    columns = table.read(names)
    empty: Sequence[Value] = [None] * table.rows
    return zip(*(columns.get(name, empty) for name in names), strict=True)


def number(value: Value) -> float | None:
    if isinstance(value, (int, float)) and isfinite(value):
        return float(value)
    return None


def whole(value: Value) -> int | None:
    """A whole number that is not negative, or None: -1 stands for "not known"."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


@dataclass(slots=True)
class StepSamples:
    """What is known of the samples of one step.

    Attributes:
        samples: by sample: group, reward, advantage, total tokens, steps off policy.
        cut: samples of which a generation was stopped by the length limit.
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
        """Samples of most groups; None where no sample names its group."""
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
    mean = mean_over_groups(map(gini, _by_group(pairs).values()))
    if mean is not None:
        found[name] = mean


class SampleTables:
    """Takes the tables of one archive in; a row that was there before changes nothing."""

    def __init__(self) -> None:
        self.steps: dict[int, StepSamples] = {}
        self._done: Container[int] = ()

    def take(self, tables: Mapping[str, ParquetTable], skip: int, done: Container[int] = ()) -> None:
        """Add the rows of every step after `skip` that is not among those that are `done`."""
        self._done = done
        readers = (
            ("samples_data", self._samples),
            ("generations", self._generations),
            ("prompts", self._prompts),
            ("rollouts_metrics", self._metrics),
        )
        for name, read in readers:
            if name in tables:
                read(tables[name], skip)

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
            # One archive holds all generations of a sample: sums are made anew, never added to.
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
