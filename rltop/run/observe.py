"""Raw rows → observations: the same row in canonical terms.

Owns the columns of every signal, worked out once per set of keys; knows no rule.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from math import isnan
from operator import itemgetter
from typing import Any, TypeAlias, cast

from rltop.catalog.aliases import spelling_of
from rltop.catalog.dialect import Identity, PatternSet
from rltop.catalog.families import is_loss_like, is_of_a_part
from rltop.model import NonFinite, Observation
from rltop.stats.timing import stage_keys
from rltop.store.stream import ClosedRow, RawRow, Stream

_Source = tuple[str, int, float, float]
"""Instance, column, scale, shift."""


class _Instances(Mapping[str, Mapping[str, float]]):
    """Values of metrics with several keys, worked out when a rule asks: most never do."""

    __slots__ = ("_cells", "_only", "_sources")

    def __init__(
        self, sources: Mapping[str, Sequence[_Source]], cells: array[float], only: frozenset[int] | None
    ) -> None:
        self._sources = sources
        self._cells = cells
        self._only = only

    def __getitem__(self, name: str) -> Mapping[str, float]:
        cells, width, only = self._cells, len(self._cells), self._only
        found = {
            instance: scale * cells[column] + shift
            for instance, column, scale, shift in self._sources[name]
            if column < width and cells[column] == cells[column] and (only is None or column in only)
        }
        if not found:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """Rules ask every row for what most runs never log: without an exception for each."""
        return super().get(name, default) if name in self._sources else default

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._sources if self.get(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


_Pick: TypeAlias = "Callable[[array[float]], tuple[float, ...]]"


def _picker(columns: Sequence[int]) -> _Pick | None:
    """Reads `columns` of a row at once; None where there are none."""
    # A picker of one item gives the bare item: a column named twice keeps it a tuple.
    return cast("_Pick", itemgetter(*columns, columns[0])) if columns else None


class _Columns:
    """Some columns of a row by name, in their metrics' units; gaps are left out.

    Rows have their gaps in the same columns as the row before, mostly: those of the
    last one are remembered, and a row like it costs no look at any single value.
    """

    __slots__ = ("_absent", "_all", "_present", "_present_names", "_scaled", "_sources", "_width")

    def __init__(self, sources: Sequence[_Source]) -> None:
        self._sources = sources
        self._width = max((column for _, column, _, _ in sources), default=-1) + 1
        self._scaled = [(name, scale, shift) for name, _, scale, shift in sources if (scale, shift) != (1.0, 0.0)]
        self._all = _picker([column for _, column, _, _ in sources])
        self._present, self._present_names = self._all, [name for name, _, _, _ in sources]
        self._absent: _Pick | None = None

    def read(self, cells: array[float], only: frozenset[int] | None = None) -> dict[str, float]:
        """What the row holds of them; `only` are the columns that count, where not all do."""
        if self._all is None:
            return {}
        if only is not None or len(cells) < self._width:
            return {
                name: scale * cells[column] + shift
                for name, column, scale, shift in self._sources
                if column < len(cells) and (only is None or column in only) and cells[column] == cells[column]
            }
        present = () if self._present is None else self._present(cells)
        if isnan(sum(present)) or (self._absent is not None and not all(map(isnan, self._absent(cells)))):
            self._look_for_gaps(cells)
            present = () if self._present is None else self._present(cells)
        values = dict(zip(self._present_names, present, strict=False))
        for name, scale, shift in self._scaled:
            if name in values:
                values[name] = scale * values[name] + shift
        return values

    def _look_for_gaps(self, cells: array[float]) -> None:
        here = [(name, column) for name, column, _, _ in self._sources if cells[column] == cells[column]]
        self._present_names = [name for name, _ in here]
        self._present = _picker([column for _, column in here])
        self._absent = _picker([column for _, column, _, _ in self._sources if cells[column] != cells[column]])


class _Asked(Mapping[str, float]):
    """Values of a row, read when a rule asks.

    Hundreds of stages may be logged, and only a slow step is explained; losses without a metric
    are only looked at to learn that they are numbers.
    """

    __slots__ = ("_cells", "_columns", "_values")

    def __init__(self, columns: _Columns, cells: array[float]) -> None:
        self._columns = columns
        self._cells = cells
        self._values: dict[str, float] | None = None

    @property
    def _read(self) -> dict[str, float]:
        if self._values is None:
            self._values = self._columns.read(self._cells)
        return self._values

    def __getitem__(self, name: str) -> float:
        return self._read[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Without an exception for what the row has not got."""
        return self._read.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)

    def values(self) -> ValuesView[float]:
        """The durations; without a look-up for each."""
        return self._read.values()

    def items(self) -> ItemsView[str, float]:
        """Names and durations; without a look-up for each."""
        return self._read.items()


_OF_THE_UPDATE = frozenset({"kl_ref", "entropy", "loss"})
"""Guesses that are no numbers only where something is wrong; a reward or a length of an empty batch is none either."""


class Observer:
    """Reads closed rows of one stream under one identity.

    Args:
        stream: that the rows are in.
        identity: who wrote it, and which metrics its keys are.
    """

    def __init__(self, stream: Stream, identity: Identity) -> None:
        self._stream = stream
        self.use(identity)

    def use(self, identity: Identity) -> None:
        """Look columns up again: keys or identity have changed."""
        self._names: dict[int, str] = {}
        primary: list[tuple[str, int, float, float]] = []
        self._instances: dict[str, list[_Source]] = {}
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
                    self._instances.setdefault(name, []).append(source)
        stages: list[_Source] = []
        if identity.dialect.timing is not None:
            for stage, key, scale in stage_keys(identity.dialect.timing, self._stream.keys):
                column = self._stream.column(key)
                if column is not None:
                    stages.append((stage, column, scale, 0.0))
        self._primary, self._stages = _Columns(primary), _Columns(stages)
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
            if column not in self._names and (key in hidden or spelling.plain(key) in hidden)
        )
        self._guessed = _Columns([
            (name, column, 1.0, 0.0)
            for name, keys in guessed.items()
            if name not in identity.signals and keys and (column := self._stream.column(keys[0])) is not None
        ])  # fmt: skip

    def observation(self, row: ClosedRow, raw: RawRow, record: int) -> Observation:
        """The row as rules see it.

        Args:
            row: which one; where some of its columns came late, only these are seen.
            raw: what it holds.
            record: its number in the run, from 1: of training rows; any other has that of the one before it.
        """
        cells = raw.cells
        only = None if row.columns is None else frozenset(row.columns)
        return Observation(
            record,
            row.step,
            row.segment,
            raw.time_s,
            self._primary.read(cells, only),
            _Instances(self._instances, cells, only),
            self._nonfinite(raw, only),
            _Asked(self._stages, cells) if only is None else {},
            only is not None,
            loss_like=_Asked(self._loss_like, cells) if only is None else {},
            other_run=self._stream.other_runs.get(row.segment, ""),
            guessed=self._guessed.read(cells) if only is None else {},
            said=row.said,
        )

    def _nonfinite(self, raw: RawRow, only: frozenset[int] | None) -> Mapping[str, NonFinite]:
        if not raw.marks:
            return {}
        keys = self._stream.keys
        return {
            self._names.get(column, keys[column]): kind
            for column, kind in raw.marks
            if (only is None or column in only) and column not in self._bookkeeping
        }
