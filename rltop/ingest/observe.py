"""Raw rows → observations: the same row in canonical terms.

Owns the columns of every signal, worked out once per set of keys; knows no rule.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence

from rltop.derive.timing import stage_keys
from rltop.metrics.dialect import Identity
from rltop.model import NonFinite, Observation
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

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._sources if self.get(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Observer:
    """Reads closed rows of one stream with the eyes of one identity."""

    def __init__(self, stream: Stream, identity: Identity) -> None:
        self._stream = stream
        self.use(identity)

    def use(self, identity: Identity) -> None:
        """Look columns up again: keys or identity have changed."""
        self._primary: list[tuple[str, int, float, float]] = []
        self._instances: dict[str, list[_Source]] = {}
        self._names: dict[int, str] = {}
        for name, signals in identity.signals.items():
            for i, signal in enumerate(signals):
                column = self._stream.column(signal.key)
                if column is None:
                    continue
                if i == 0:
                    self._primary.append((name, column, signal.scale, signal.shift))
                    self._names.setdefault(column, name)
                if len(signals) > 1 or signal.instance:
                    source = (signal.instance or signal.key, column, signal.scale, signal.shift)
                    self._instances.setdefault(name, []).append(source)
        self._stages: list[tuple[str, int, float]] = []
        if identity.dialect.timing is not None:
            for stage, key, scale in stage_keys(identity.dialect.timing, self._stream.keys):
                column = self._stream.column(key)
                if column is not None:
                    self._stages.append((stage, column, scale))

    def observation(self, row: ClosedRow, raw: RawRow, record: int) -> Observation:
        """The row as rules see it; `record` is its number in the run, from 1."""
        cells, width = raw.cells, len(raw.cells)
        only = None if row.columns is None else frozenset(row.columns)
        values: dict[str, float] = {}
        for name, column, scale, shift in self._primary:
            if column < width and (only is None or column in only):
                value = cells[column]
                if value == value:
                    values[name] = scale * value + shift
        instances = _Instances(self._instances, cells, only)
        stages: dict[str, float] = {}
        for stage, column, scale in self._stages:
            if column < width and only is None and cells[column] == cells[column]:
                stages[stage] = scale * cells[column]
        return Observation(
            record,
            row.step,
            row.segment,
            raw.time_s,
            values,
            instances,
            self._nonfinite(raw, only),
            stages,
            only is not None,
        )

    def _nonfinite(self, raw: RawRow, only: frozenset[int] | None) -> Mapping[str, NonFinite]:
        if not raw.marks:
            return {}
        keys = self._stream.keys
        return {
            self._names.get(column, keys[column]): kind for column, kind in raw.marks if only is None or column in only
        }
