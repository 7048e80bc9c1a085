"""Long tables: one value in a row, the name of its metric in a column beside it.

`step,metric,value` is what pandas' `melt` and readers of event files write, mostly
metric after metric. Put together, the values of a step are one row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from rltop.formats.rows import RUN_KEYS, RecordBuilder, Row, Step, number_of, step_of
from rltop.model import FilePosition, Record
from rltop.model.keys import STEP_KEYS, TIME_KEYS

VALUE = "value"
"""The column of the values."""
NAMES = ("metric", "name", "tag", "key", "variable", "metric_name")
"""Columns that hold the metric's name; `variable` is pandas' own word."""
_PARTS = ("split", "phase")
"""Columns that tell the training loss from that of the evaluation."""
_BESIDE = frozenset({*STEP_KEYS, *TIME_KEYS, "epoch"})
"""Numbers that say when a value was logged; any other number is a metric, and the table is not long."""
_MOST_HELD = 500_000
_AT_ONCE = 500


def is_long(names: Collection[str]) -> bool:
    return VALUE in names and any(name in names for name in NAMES) and any(key in names for key in STEP_KEYS)


def widened(row: Row) -> Row | None:
    """A row of a long table with its value under the name of its metric; None where it is no such row.

    Args:
        row: `{"step": 3, "metric": "loss", "value": 0.5}`; stays as it is.
    """
    if not is_long(row):
        return None
    column = next(name for name in NAMES if name in row)
    metric = row[column]
    if not isinstance(metric, str) or not metric.strip() or number_of(metric) is not None:
        return None
    rest = {key: value for key, value in row.items() if key not in (column, VALUE)}
    if any(key not in _BESIDE and number_of(value) is not None for key, value in rest.items()):
        return None
    part = next((text for key in _PARTS if isinstance(text := rest.pop(key, None), str)), "")
    rest.setdefault(f"{part}/{metric}" if part else metric, row[VALUE])
    return rest


def put_together(rows: Sequence[object]) -> Sequence[object]:
    """The rows of a long table as one row per step, in the order of the steps; rows of any other table as they are."""
    found: dict[int, Row] = {}
    for row in rows:
        wide = widened(row) if isinstance(row, dict) else None
        step = next((step_of(wide[key]) for key in STEP_KEYS if key in wide), None) if wide is not None else None
        if wide is None or not isinstance(step, int):
            return rows
        found.setdefault(step, {}).update(wide)
    return [found[step] for step in sorted(found)]


_Steps = dict[int, tuple[Step, Row, FilePosition]]


class LongTable:
    """Holds the rows of a long table until no more come for a while, then gives them out step by step.

    Rows of several runs stay apart: those of the run that comes first are given out first.
    """

    def __init__(self, builder: RecordBuilder) -> None:
        self._builder = builder
        self._runs: dict[tuple[object, ...], _Steps] = {}
        self._held = 0
        self._ready: Iterator[Record] | None = None

    @property
    def is_full(self) -> bool:
        return self._held >= _MOST_HELD

    @property
    def has_more(self) -> bool:
        return self._ready is not None

    def take(self, row: Row, position: FilePosition) -> bool:
        wide = widened(row)
        step = self._builder.take_step(wide) if wide is not None else None
        if wide is None or step is None:
            return False
        run = tuple(wide.get(key) for key in RUN_KEYS)
        number = step[0] if isinstance(step, tuple) else step
        steps = self._runs.setdefault(run, {})
        if number in steps:
            steps[number][1].update(wide)
        else:
            steps[number] = (step, wide, position)
        self._held += 1
        return True

    def begin(self) -> list[Record]:
        """Begin to give out what is held; `go_on` gives the rest."""
        if self._held:
            rest = list(self._ready or ())
            self._ready = self._records(self._runs)
            self._runs, self._held = {}, 0
            return rest + self.go_on()
        return []

    def go_on(self) -> list[Record]:
        records = list(islice(self._ready or (), _AT_ONCE))
        if len(records) < _AT_ONCE:
            self._ready = None
        return records

    def to_end(self) -> list[Record]:
        records = self.begin()
        while self.has_more:
            records += self.go_on()
        return records

    def _records(self, runs: dict[tuple[object, ...], _Steps]) -> Iterator[Record]:
        for steps in runs.values():
            for number in sorted(steps):
                step, row, position = steps[number]
                yield self._builder.build(step, row, position)
