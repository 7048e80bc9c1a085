"""Reading a row: whatever the rows before it were like, it holds what it holds."""

from __future__ import annotations

import math
from array import array

from hypothesis import given
from hypothesis import strategies as st
from observations import identity
from stores import stream_of

from rltop.catalog.metrics import CATALOG
from rltop.model import Signal
from rltop.run.rule_runner import Observer
from rltop.store.stream import ClosedRow, RawRow

CELLS = st.sampled_from([math.nan, math.nan, 0.0, 1.5, -2.0, math.inf, -math.inf])
ROWS = st.integers(1, 6).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=12))


@given(rows=ROWS, scale=st.sampled_from([1.0, -1.0, 0.01]))
def test_the_gaps_of_other_rows_leave_no_trace(rows: list[list[float]], scale: float) -> None:
    names = list(CATALOG)[: len(rows[0]) if rows else 0]
    scales = [scale if column % 2 else 1.0 for column in range(len(names))]
    signals = {name: [Signal(CATALOG[name], name, by)] for name, by in zip(names, scales, strict=True)}
    observer = Observer(stream_of([(0, dict.fromkeys(names, 1.0))]), identity()._replace(signals=signals))
    for step, row in enumerate(rows):
        raw = RawRow(array("d", row), (), None, True)
        cells = zip(names, scales, row, strict=True)
        expected = {name: by * value for name, by, value in cells if not math.isnan(value)}
        assert observer.observation(ClosedRow(0, step), raw, step + 1).values == expected
        wanted = {name: value for name, value in expected.items() if name in names[:1] + names[2:3]}
        assert observer.observation(ClosedRow(0, step, (0, 2)), raw, step + 1).values == wanted
