from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rltop.ui.widgets import plot_pane
from rltop.ui.widgets.chart import Chart, ChartLevel, ChartLine, ChartMark, nice_ticks, prepare, thin_out, tick_labels
from rltop.ui.widgets.plot_pane import paint_chart
from rltop.view.glyphs import ASCII, UNICODE
from rltop.view.lines import ROLES, Row
from rltop.view.widths import cell_width


def text(row: Row) -> str:
    return "".join(piece.text for piece in row.line)


def picture(chart: Chart, width: int = 80, height: int = 20) -> str:
    return "\n".join(text(row) for row in paint_chart(chart, width, height, UNICODE))


def curve(values: list[float], role: str = "spark") -> ChartLine:
    return ChartLine(range(len(values)), values, role, "raw")


def roles(rows: list[Row]) -> set[str]:
    return {piece.role for row in rows[1:] for piece in row.line if piece.text.strip()}


@given(
    st.lists(st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf]), max_size=40),
    st.integers(0, 90),
    st.integers(0, 30),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_any_numbers_on_any_size_are_drawn_without_an_error(
    values: list[float], width: int, height: int, is_log: bool
) -> None:
    chart = Chart(
        (curve(values), curve(values, "dim")),
        (ChartLevel(0.5, "threshold", "t"),),
        (ChartMark(3, "restart", "r"),),
        is_log=is_log,
    )
    rows = paint_chart(chart, width, height, UNICODE)
    assert len(rows) == height
    assert all(cell_width(text(row)) <= width for row in rows)
    assert {piece.role for row in rows for piece in row.line} <= set(ROLES)
    assert "cannot be drawn" not in "".join(map(text, rows))


def test_every_curve_level_and_mark_has_its_role() -> None:
    chart = Chart(
        (curve([1.0, 2.0, 3.0, 4.0] * 10, "dim"), curve([2.0] * 40)),
        (ChartLevel(3.5, "threshold", "threshold"), ChartLevel(1.5, "baseline", "baseline")),
        (ChartMark(20, "restart", "restart"), ChartMark(30, "warn", "O1")),
    )
    assert {"dim", "spark", "threshold", "baseline", "restart", "warn"} <= roles(paint_chart(chart, 100, 24, UNICODE))
    legend = text(paint_chart(chart, 100, 24, UNICODE)[0])
    for word in ("raw", "threshold 3.50", "baseline 1.50", "restart", "O1"):
        assert word in legend


def test_a_level_far_away_does_not_flatten_the_curve() -> None:
    chart = Chart((curve([1.0, 1.1, 1.2]),), (ChartLevel(1000.0, "threshold", "threshold"),))
    assert "threshold 1,000 above the chart" in picture(chart)
    prepared = prepare(chart, 60, 20)
    assert prepared is not None and prepared.high == 1.2


def test_a_logarithmic_axis_says_what_it_hides() -> None:
    assert "log scale, 2 not above zero" in picture(Chart((curve([0.0, -1.0, 1.0, 10.0, 100.0]),), is_log=True))
    assert "no value above zero" in picture(Chart((curve([0.0, -1.0]),), is_log=True))


def test_without_a_value_it_says_so() -> None:
    assert "no value to draw yet" in picture(Chart((curve([math.nan] * 3),)))


def test_where_there_is_no_room_it_says_so() -> None:
    assert "no room" in picture(Chart((curve([1.0, 2.0]),)), 22, 4)


def test_an_error_of_the_library_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise ValueError("math domain error")

    monkeypatch.setattr(plot_pane, "_draw", broken)
    assert "cannot be drawn at 80×20: math domain error" in picture(Chart((curve([1.0, 2.0]),)))


def test_ascii_means_ascii() -> None:
    chart = Chart(
        (curve([1.0, 3.0, 2.0]),), (ChartLevel(2.0, "baseline", "baseline"),), (ChartMark(1, "restart", "r"),)
    )
    assert all(text(row).isascii() for row in paint_chart(chart, 60, 14, ASCII))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400), st.integers(1, 30))
def test_thinning_keeps_every_extreme(values: list[float], columns: int) -> None:
    points = [(float(i), value) for i, value in enumerate(values)]
    thin = thin_out(points, columns)
    assert len(thin) <= max(2 * columns, len(points) if len(points) <= 2 * columns else 0)
    assert {min(values), max(values)} <= {value for _, value in thin}
    assert thin == sorted(thin, key=lambda point: point[0])


@pytest.mark.parametrize(
    ("low", "high", "wanted", "labels"),
    [
        (0.0, 1.0, 4, ["0", "0.5", "1.0"]),
        (-3.0, 7.0, 5, ["\N{MINUS SIGN}2", "0", "2", "4", "6"]),
        (1000.0, 3000.0, 2, ["1,000", "2,000", "3,000"]),
    ],
)
def test_ticks_are_round(low: float, high: float, wanted: int, labels: list[str]) -> None:
    assert tick_labels(nice_ticks(low, high, wanted)) == labels
