"""Reading a row: whatever the rows before it were like, it holds what it holds."""

from __future__ import annotations

import math
from array import array

from hypothesis import given
from hypothesis import strategies as st

from rltop.run.observe import _Columns

CELLS = st.sampled_from([math.nan, math.nan, 0.0, 1.5, -2.0, math.inf, -math.inf])
ROWS = st.integers(1, 6).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=12))


@given(rows=ROWS, scale=st.sampled_from([1.0, -1.0, 0.01]))
def test_the_gaps_of_other_rows_leave_no_trace(rows: list[list[float]], scale: float) -> None:
    width = len(rows[0]) if rows else 0
    columns = _Columns([(f"m{column}", column, scale if column % 2 else 1.0, 0.0) for column in range(width)])
    for row in rows:
        expected = {
            f"m{column}": value * (scale if column % 2 else 1.0)
            for column, value in enumerate(row)
            if not math.isnan(value)
        }
        assert columns.read(array("d", row)) == expected
        only = frozenset({0, 2})
        wanted = {name: value for name, value in expected.items() if int(name[1:]) in only}
        assert columns.read(array("d", row), only) == wanted
