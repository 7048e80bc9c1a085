"""Runs the rules on one stream: raw rows → observations in canonical metrics → verdicts; also tracks gaps between rows.

Numbers the training rows, resolves the columns of every signal once per set of keys, and copies the rules' state to
evaluate the open row. Imported only when something is judged, as the rules are the largest part of the program.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping, Sequence
from copy import copy
from math import isnan
from operator import itemgetter
from typing import Any, TypeAlias, cast

from rltop.catalog.aliases import spelling_of
from rltop.catalog.dialect import Identity, PatternSet
from rltop.catalog.families import is_loss_like, is_of_a_part, rank_keys
from rltop.model import Counts, Event, NonFinite, Observation, Verdict
from rltop.rules.advice import advise
from rltop.rules.engine import WARM_UP_RECORDS, Engine
from rltop.rules.liveness import (
    TWO_WRITERS,
    UNREADABLE,
    Liveness,
    first_record_late,
    two_writers,
    unreadable,
)
from rltop.rules.options import EngineOptions
from rltop.rules.registry import NAMED
from rltop.run.past import LIVENESS_RULE
from rltop.run.run_stream import Judgement
from rltop.stats.timing import stage_keys
from rltop.store.stream import ClosedRow, RawRow, Stream
from rltop.structs import NamedTuple

COLLAPSE_RULE = "X1"


class RuleRunner:
    """Runs the rules on one stream: consumes its closed rows, in the order of the file.

    Attributes:
        collapses: number of transitions of the collapse rule.
        event_times: when each event's row was written, in seconds since the epoch, or None if not logged.
    """

    sees_open_row = True

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.records = 0
        self.liveness = Liveness(options.thresholds(LIVENESS_RULE))
        self._engine: Engine | None = None
        self._observer: Observer | None = None
        self._kept: _Kept | None = None
        self._known_keys = 0
        self._segment = 0
        self._muted: set[str] = set()
        self._checkpoints: tuple[int, ...] = ()
        self.collapses = 0
        self.events: list[Event] = []
        self.event_times: list[float | None] = []
        self._last_time_s: float | None = None

    def take(self, stream: Stream, identity: Identity, arrived_s: float | None = None) -> None:
        if self._engine is None or self._observer is None:
            self._engine = self._new_engine(identity)
            self.events = self._engine.events
            self._observer = Observer(stream, identity)
        elif len(stream.keys) != self._known_keys or identity is not self._engine.rules.identity:
            self._observer.use(identity)
            self._engine.identified(identity)
            self._date_events(self._last_time_s)
        self._known_keys = len(stream.keys)
        while stream.closed:
            observation = self._observe(stream, stream.closed.popleft())
            if observation.segment != self._segment and not observation.is_late:
                self._segment = observation.segment
                self.liveness.restart()
            self.liveness.observe(observation, arrived_s)
            happened = self._engine.observe(observation)
            self._last_time_s = observation.time_s
            if happened:
                self.collapses += any(event.rule == COLLAPSE_RULE for event in happened)
                self._date_events(observation.time_s)

    def fork(self, stream: Stream) -> RuleRunner:
        """An independent copy, for a copy of the stream; events that it adds are provisional."""
        twin = copy(self)
        twin.liveness, twin._muted = self.liveness.clone(), self._muted.copy()
        twin.event_times = self.event_times.copy()
        if self._engine is not None:
            twin._engine = self._engine.clone()
            twin._engine.events = twin.events = self.events.copy()
            twin._observer = Observer(stream, self._engine.rules.identity)
        return twin

    def close(self, stream: Stream, seen: Judgement) -> None:
        """Drop the detectors and keep their results: there will be no more rows, and nothing is muted or unmuted.

        Args:
            seen: from `peek`.
        """
        self._kept = _Kept(seen, self.settled(stream))
        self._engine = self._observer = None

    def _new_engine(self, identity: Identity) -> Engine:
        engine = Engine(identity, self.options)
        for rule in self._muted:
            engine.mute(rule)
        engine.take_checkpoints(self._checkpoints)
        return engine

    def _date_events(self, time_s: float | None) -> None:
        assert self._engine is not None
        new = len(self._engine.events) - len(self.event_times)
        if new:
            self.event_times += [time_s] * new

    def _observe(self, stream: Stream, row: ClosedRow) -> Observation:
        raw = stream.raw_row(row)
        if raw.is_training and row.columns is None:
            self.records += 1
        assert self._observer is not None
        return self._observer.observation(row, raw, self.records)

    def mute(self, rule: str, is_muted: bool = True) -> None:
        if self._engine is not None:
            self._engine.mute(rule, is_muted)
        (self._muted.add if is_muted else self._muted.discard)(rule)

    def take_checkpoints(self, steps: Sequence[int]) -> None:
        """Set the steps with a checkpoint on disk; a collapse names the last one before it."""
        self._checkpoints = tuple(steps)
        if self._engine is not None:
            self._engine.take_checkpoints(self._checkpoints)

    @property
    def muted(self) -> frozenset[str]:
        return frozenset(self._muted)

    def is_silent(self, rule: str) -> bool:
        """Whether a rule, or a part of one, is muted, on the screen or by the settings."""
        is_muted = rule in self._muted or NAMED[rule].rule in self._muted
        return is_muted or not self.options.is_enabled(rule, self._names())

    def limits(self, rule: str) -> Mapping[str, float]:
        return self.options.thresholds(rule, self._names())

    def _names(self) -> Sequence[str]:
        if self._kept is not None:
            return self._kept.settled.profiles
        return [] if self._engine is None else [profile.name for profile in self._engine.rules.profiles]

    def silence_verdict(self, age_s: float, lag_s: float, identity: Identity | None) -> Verdict | None:
        """The verdict on a stream with a newest row `age_s` seconds old; None if that is not silence."""
        if self.is_silent(LIVENESS_RULE):
            return None
        step_time = None if identity is None else identity.primary("time_step")
        found = self.liveness.verdict(age_s, lag_s, "" if step_time is None else step_time.key)
        return None if found is None else advise(found)

    def input_verdict(
        self, counts: Counts, steps: Sequence[int], waited_s: float | None, overwritten: int = 0
    ) -> Verdict | None:
        """The verdict on unreadable lines, or on a file without a record so far.

        Args:
            steps: the steps in the store, oldest first.
            waited_s: seconds without a first record; None if there is one.
            overwritten: rows that changed values of an existing step.
        """
        found = None
        if waited_s is not None:
            found = first_record_late(waited_s, self.limits(LIVENESS_RULE))
        else:
            found = unreadable(counts, steps, self.limits(UNREADABLE)) or two_writers(
                counts, self.limits(TWO_WRITERS), len(steps), overwritten
            )
        return None if found is None or self.is_silent(found.raised_by) else advise(found)

    def settled(self, stream: Stream) -> Judgement:
        """What the closed rows say, without verdicts."""
        if self._kept is not None:
            return self._kept.settled
        warm_up = (stream.rows, WARM_UP_RECORDS) if self._engine is None else self._engine.warm_up
        return Judgement((), self.events, self.event_times, (), self._names(), warm_up)

    def peek(self, stream: Stream, identity: Identity) -> Judgement:
        """Verdicts as if the open row were closed, with only the events that this adds; does not change the state."""
        if self._kept is not None:
            return self._kept.seen
        if self._engine is None or self._observer is None:
            return self._peek_unsettled(stream, identity)
        open_row = stream.open_row()
        if open_row is None:
            return _seen(self._engine, [], [])
        raw = stream.raw_row(open_row)
        observation = self._observer.observation(open_row, raw, self.records + raw.is_training)
        after = self._engine.after(observation)
        return _seen(after, after.events, [observation.time_s] * len(after.events))

    def _peek_unsettled(self, stream: Stream, identity: Identity) -> Judgement:
        engine, observer, records = self._new_engine(identity), Observer(stream, identity), 0
        times: list[float | None] = []
        open_row = stream.open_row()
        for row in [*stream.closed, *([] if open_row is None else [open_row])]:
            raw = stream.raw_row(row)
            records += raw.is_training and row.columns is None
            observation = observer.observation(row, raw, records)
            engine.observe(observation)
            times += [observation.time_s] * (len(engine.events) - len(times))
        return _seen(engine, engine.events, times)


class _Kept(NamedTuple):
    """What the rules had found when their detectors were dropped; `seen` includes the open row."""

    seen: Judgement
    settled: Judgement


def _seen(engine: Engine, events: Sequence[Event], times: Sequence[float | None]) -> Judgement:
    provisional = [event._replace(is_provisional=True) for event in events]
    names = [profile.name for profile in engine.rules.profiles]
    return Judgement(engine.verdicts, provisional, times, engine.muted_verdicts, names, engine.warm_up)


_Source = tuple[str, int, float, float]
"""Instance, column, scale, shift."""


class _Instances(Mapping[str, Mapping[str, float]]):
    """Values of metrics with several keys, computed on access: most are never used."""

    __slots__ = ("_cells", "_only", "_sources")

    def __init__(self, sources: Mapping[str, _Columns], cells: array[float], only: frozenset[int] | None) -> None:
        self._sources = sources
        self._cells = cells
        self._only = only

    def __getitem__(self, name: str) -> Mapping[str, float]:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return cast("Mapping[str, float]", found)

    def get(self, name: str, default: Any = None) -> Any:
        """Overridden because rules look up many metrics that are absent, and an exception for each would be slow."""
        columns = self._sources.get(name)
        return default if columns is None else columns.read(self._cells, self._only) or default

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._sources if self.get(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


_Pick: TypeAlias = "Callable[[array[float]], tuple[float, ...]]"


def _picker(columns: Sequence[int]) -> _Pick | None:
    # With a single item, `itemgetter` returns it bare: naming a column twice ensures a tuple.
    return cast("_Pick", itemgetter(*columns, columns[0])) if columns else None


_OF_ROLLOUTS = ("zero_std_count", "score_mean", "reward_mean")


class _Gaps(NamedTuple):
    """Which of some columns have a value in a row.

    Attributes:
        names: of the present columns.
        present, absent: getters for the present and the absent columns; None if there are none.
        blank: a template: copying a dictionary of the final size takes two thirds of the time of filling a new one.
    """

    names: Sequence[str]
    present: _Pick | None
    absent: _Pick | None
    blank: dict[str, float]


class _Columns:
    """Some columns of a row by name, in their metrics' units, without gaps.

    A row mostly has gaps in the same columns as the previous one, or as the last different one (evaluations). These two
    layouts are cached, and a row that fits one needs no check of single values.
    """

    __slots__ = ("_all", "_gaps", "_is_plain", "_other_gaps", "_scaled", "_sources", "_width")

    def __init__(self, sources: Sequence[_Source]) -> None:
        self._sources = sources
        self._width = max((column for _, column, _, _ in sources), default=-1) + 1
        self._scaled = [(name, scale, shift) for name, _, scale, shift in sources if (scale, shift) != (1.0, 0.0)]
        self._all = _picker([column for _, column, _, _ in sources])
        self._is_plain = bool(sources) and not self._scaled and len({name for name, *_ in sources}) == len(sources)
        names = [name for name, _, _, _ in sources]
        self._gaps = self._other_gaps = _Gaps(names, self._all, None, dict.fromkeys(names, 0.0))

    def read(self, cells: array[float], only: frozenset[int] | None = None) -> dict[str, float]:
        """The values in the row; `only` restricts the columns."""
        if self._all is None:
            return {}
        if only is not None or len(cells) < self._width:
            return {
                name: scale * cells[column] + shift
                for name, column, scale, shift in self._sources
                if column < len(cells) and (only is None or column in only) and cells[column] == cells[column]
            }
        logged = self._logged(cells)  # may switch to another layout
        if not logged:
            return {}
        values = self._gaps.blank.copy()
        values.update(zip(self._gaps.names, logged, strict=False))
        for name, scale, shift in self._scaled:
            if name in values:
                values[name] = scale * values[name] + shift
        return values

    def numbers(self, cells: array[float]) -> Collection[float]:
        """The values of `read` without their names."""
        if not self._is_plain or len(cells) < self._width:
            return self.read(cells).values()
        logged = self._logged(cells)
        return logged[: len(self._gaps.names)]

    def _logged(self, cells: array[float]) -> tuple[float, ...]:
        for _ in range(2):
            _, present, absent, _ = self._gaps
            logged = () if present is None else present(cells)
            if not isnan(sum(logged)) and (absent is None or all(map(isnan, absent(cells)))):
                return logged
            self._gaps, self._other_gaps = self._other_gaps, self._gaps
        here = [(name, column) for name, column, _, _ in self._sources if cells[column] == cells[column]]
        absent = _picker([column for _, column, _, _ in self._sources if cells[column] != cells[column]])
        present = _picker([column for _, column in here])
        names = [name for name, _ in here]
        self._other_gaps, self._gaps = self._gaps, _Gaps(names, present, absent, dict.fromkeys(names, 0.0))
        return () if present is None else present(cells)


class _LazyRow(Mapping[str, float]):
    """Values of a row, read on access.

    Hundreds of stages may be logged, but only a slow step is explained; losses without a metric are only checked for
    being finite.
    """

    __slots__ = ("_cells", "_columns", "_numbers", "_values")

    def __init__(self, columns: _Columns, cells: array[float]) -> None:
        self._columns = columns
        self._cells = cells
        self._values: dict[str, float] | None = None
        self._numbers: Collection[float] | None = None

    @property
    def _read(self) -> dict[str, float]:
        if self._values is None:
            self._values = self._columns.read(self._cells)
        return self._values

    def __getitem__(self, name: str) -> float:
        return self._read[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self._read.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self.values())

    def values(self) -> Collection[float]:  # type: ignore[override] # a tuple is not a view
        """The values alone, without a lookup for each and without names unless these were already read."""
        if self._numbers is None:
            self._numbers = self._columns.numbers(self._cells)
        return self._numbers

    def items(self) -> ItemsView[str, float]:
        """Names and values, without a lookup for each."""
        return self._read.items()


_OF_THE_UPDATE = frozenset({"kl_ref", "entropy", "loss"})
"""Guesses that are non-finite only if something is wrong, unlike the reward or the length of an empty batch."""


class Observer:
    """Converts closed rows of one stream to observations, for a given identity."""

    def __init__(self, stream: Stream, identity: Identity) -> None:
        self._stream = stream
        self.use(identity)

    def use(self, identity: Identity) -> None:
        """Resolve the columns again after keys or identity have changed."""
        self._names: dict[int, str] = {}
        primary: list[tuple[str, int, float, float]] = []
        instances: dict[str, list[_Source]] = {}
        for name, signals in identity.signals.items():
            for i, signal in enumerate(signals):
                column = self._stream.column(signal.key)
                if column is None:
                    continue
                if i == 0:
                    primary.append((name, column, signal.scale, signal.shift))
                    self._names.setdefault(column, name)
                if len(signals) > 1 or signal.instance:
                    source = (signal.instance or signal.key, column, signal.scale, signal.shift)
                    instances.setdefault(name, []).append(source)
        stages: list[_Source] = []
        if identity.dialect.timing is not None:
            for stage, key, scale in stage_keys(identity.dialect.timing, self._stream.keys):
                column = self._stream.column(key)
                if column is not None:
                    stages.append((stage, column, scale, 0.0))
        ranks: dict[tuple[str, str], list[_Source]] = {}
        for one in rank_keys(tuple(self._stream.keys)):
            column = self._stream.column(one.key)
            if column is not None:
                ranks.setdefault((one.group, one.stage), []).append((one.rank, column, one.scale, 0.0))
        self._ranks = {place: _Columns(sources) for place, sources in ranks.items()}
        self._primary, self._stages = _Columns(primary), _Columns(stages)
        self._group_count = identity.group_count if "zero_std_count" in identity.signals else None
        self._instances = {name: _Columns(sources) for name, sources in instances.items()}
        guessed = {
            name: [one.key for one in found if not is_of_a_part(one.key)] for name, found in identity.guesses.items()
        }
        guesses = {key: name for name, keys in guessed.items() for key in keys}
        self._loss_like = _Columns([
            (key, column, 1.0, 0.0)
            for key in self._stream.keys
            if (is_loss_like(key) or guesses.get(key) in _OF_THE_UPDATE)
            and (column := self._stream.column(key)) is not None
            and column not in self._names
        ])  # fmt: skip

        hidden, spelling = PatternSet(identity.dialect.hidden), spelling_of(identity.dialect)
        self._bookkeeping = frozenset(
            column
            for column, key in enumerate(self._stream.keys)
            if column not in self._names
            and (key in hidden or ((plain := spelling.plain(key)) != key and plain in hidden))
        )
        self._guessed = _Columns([
            (name, column, 1.0, 0.0)
            for name, keys in guessed.items()
            if name not in identity.signals and keys and (column := self._stream.column(keys[0])) is not None
        ])  # fmt: skip

    def observation(self, row: ClosedRow, raw: RawRow, record: int) -> Observation:
        """Convert a row to an observation.

        Args:
            row: if some of its columns arrived late, only these are included.
            record: number of the training row in the run, from 1; other rows have that of the one before.
        """
        cells = raw.cells
        only = None if row.columns is None else frozenset(row.columns)
        values, instances = self._primary.read(cells, only), _Instances(self._instances, cells, only)
        if self._group_count and "zero_std_frac" not in values and not values.keys().isdisjoint(_OF_ROLLOUTS):
            # A count of 0 may be left out of the log.
            values["zero_std_frac"] = min(1.0, values.get("zero_std_count", 0.0) / self._group_count)
        nonfinite = self._nonfinite(raw, only) if raw.marks else {}
        other_run = self._stream.other_runs.get(row.segment, "")
        if only is not None:
            return Observation(
                record, row.step, row.segment, raw.time_s, values, instances, nonfinite, {}, is_late=True,
                other_run=other_run, script_alerts=row.script_alerts,
            )  # fmt: skip
        return Observation(
            record,
            row.step,
            row.segment,
            raw.time_s,
            values,
            instances,
            nonfinite,
            _LazyRow(self._stages, cells),
            False,
            {place: _LazyRow(columns, cells) for place, columns in self._ranks.items()},
            loss_like=_LazyRow(self._loss_like, cells),
            other_run=other_run,
            guessed=self._guessed.read(cells),
            script_alerts=row.script_alerts,
        )

    def _nonfinite(self, raw: RawRow, only: frozenset[int] | None) -> Mapping[str, NonFinite]:
        keys = self._stream.keys
        return {
            self._names.get(column, keys[column]): kind
            for column, kind in raw.marks
            if (only is None or column in only) and column not in self._bookkeeping
        }
