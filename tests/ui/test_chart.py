from __future__ import annotations

import math
import pkgutil
from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from painted import check_rows, text_of
from tables import each_row

from rltop.app.plot_pane import paint_chart
from rltop.model import Unit
from rltop.pages.chart import Curve, Marker, MarkerKind, PlotData, PlotLevel, PlotMark, PlottedSeries, Zoom
from rltop.pages.chart_axes import (
    axes_of,
    log_ticks,
    nice_ticks,
    tick_labels,
    value_labels,
    value_ticks,
)
from rltop.rows.glyphs import ASCII, UNICODE, Glyphs, cell_width
from rltop.rows.rows import Row

BUILD = "plotext._figure._figure_class.build"
"""The library's drawing of a figure."""


def test_the_values_beside_a_constant_stand_at_equal_distances() -> None:
    rows = picture(plot([0.0] * 40), height=12).splitlines()
    at = {row.split("┤")[0].split("├")[0].strip(): y for y, row in enumerate(rows) if "┤" in row or "├" in row}
    assert at["1.0"] == 1 and at["0"] == 9 and at["0.5"] == 5


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(8, 40))
def test_an_axis_has_values_at_the_bottom_in_the_middle_and_at_the_top(low: float, span: float, rows: int) -> None:
    ticks = value_ticks(low, low + span, rows)
    assert 3 <= len(ticks) <= rows
    assert ticks[0] <= low + 0.4 * span and ticks[-1] >= low + 0.6 * span


def plot(
    values: list[float],
    *,
    smooth: list[float] | None = None,
    levels: tuple[PlotLevel, ...] = (),
    marks: tuple[PlotMark, ...] = (),
    is_log: bool = False,
) -> PlotData:
    zoom = Zoom(0, max(0, len(values) - 1))
    steps = tuple(float(i) for i in range(len(values)))
    smoothed = () if smooth is None else tuple(smooth)
    curves = Curve(steps, tuple(values)), Curve(steps[: len(smoothed)], smoothed)
    return PlotData(zoom, *curves, levels, marks, is_log)


def picture(data: PlotData, width: int = 80, height: int = 20) -> str:
    return "\n".join(row.text for row in paint_chart(data, width, height, UNICODE))


def roles(rows: list[Row]) -> set[str]:
    return {piece.role for row in rows[1:] for piece in row.line if piece.text.strip()}


@given(
    st.lists(st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf]), max_size=40),
    st.integers(0, 90),
    st.integers(0, 30),
    st.booleans(),
)
@examples(80)
def test_any_numbers_on_any_size_are_drawn_without_an_error(
    values: list[float], width: int, height: int, is_log: bool
) -> None:
    data = plot(
        values,
        smooth=values,
        levels=(PlotLevel(0.5, "threshold", "t"), PlotLevel(math.nan, "baseline", "b")),
        marks=(PlotMark(3, "restart", "r"),),
        is_log=is_log,
    )
    rows = paint_chart(data, width, height, UNICODE)
    assert len(rows) == height
    check_rows(rows, width)
    assert "cannot be drawn" not in text_of(rows)


def test_every_curve_level_and_mark_has_its_role() -> None:
    data = plot(
        [1.0, 2.0, 3.0, 4.0] * 10,
        smooth=[2.0] * 40,
        levels=(PlotLevel(3.5, "threshold", "threshold 3.50"), PlotLevel(1.5, "baseline", "baseline 1.50")),
        marks=(PlotMark(20, "restart", "restart at 20"), PlotMark(30, "warn", "O1 since 30")),
    )
    rows = paint_chart(data, 100, 24, UNICODE)
    assert {"dim", "spark", "threshold", "baseline", "restart", "warn"} <= roles(rows)
    for word in ("raw", "smoothed", "threshold 3.50", "baseline 1.50", "restart at 20", "O1 since 30"):
        assert word in rows[0].text


def test_the_smoothed_curve_can_be_left_out() -> None:
    data = plot([1.0, 2.0, 3.0] * 10, smooth=[2.0] * 30)
    assert "smoothed" not in paint_chart(data, 80, 20, UNICODE, has_smooth=False)[0].text


def test_a_level_far_away_does_not_flatten_the_curve() -> None:
    data = plot([1.0, 1.1, 1.2], levels=(PlotLevel(1000.0, "threshold", "threshold 1,000"),))
    assert "threshold 1,000 above the chart" in picture(data)
    axes = axes_of(data, 60, 20)
    assert axes is not None and axes.high == 1.2


def test_a_logarithmic_axis_says_what_it_hides() -> None:
    assert "log scale, 2 values ≤ 0 not shown" in picture(plot([0.0, -1.0, 1.0, 10.0, 100.0], is_log=True))


def test_without_a_value_it_says_so() -> None:
    assert "no values yet" in picture(plot([math.nan] * 3))


def test_where_there_is_no_room_it_says_so() -> None:
    assert "too small" in picture(plot([1.0, 2.0]), 22, 4)


def test_an_error_of_the_library_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise ValueError("math domain error")

    monkeypatch.setattr(BUILD, broken)
    assert "cannot be drawn at 80×20: math domain error" in picture(plot([1.0, 2.0]))


def test_ascii_means_ascii() -> None:
    data = plot([1.0, 3.0, -2.0], levels=(PlotLevel(2.0, "baseline", "b"),), marks=(PlotMark(1, "restart", "r"),))
    assert all(row.text.isascii() for row in paint_chart(data, 60, 14, ASCII))


@each_row(
    ("low", "high", "wanted", "labels"),
    [
        (0.0, 1.0, 4, ["0", "0.5", "1.0"]),
        (-3.0, 7.0, 5, ["\N{MINUS SIGN}2", "0", "2", "4", "6"]),
        (1000.0, 3000.0, 2, ["1,000", "2,000", "3,000"]),
        (0.5, 0.5, 3, ["0.500"]),
    ],
)
def test_ticks_are_round(low: float, high: float, wanted: int, labels: list[str]) -> None:
    assert tick_labels(nice_ticks(low, high, wanted)) == labels


@each_row("columns", [24, 30, 37, 44])
@each_row("last", [38, 121, 250, 390, 900, 3_900])
def test_the_steps_of_a_narrow_chart_have_more_than_one_number(columns: int, last: int) -> None:
    axes = axes_of(replace(plot([0.0, 1.0]), zoom=Zoom(1, last)), columns, 8)
    assert axes is not None and len(axes.x_ticks) > 1


def test_logarithmic_ticks_are_powers_of_ten() -> None:
    assert log_ticks(1e-6, 1e6, 10) == tuple(pytest.approx(10.0**power) for power in (-6, -3, 0, 3, 6))
    assert [round(tick, 3) for tick in log_ticks(0.9, 60.0, 10)] == [1, 2, 5, 10, 20, 50]


def test_fractions_are_written_as_per_cent() -> None:
    assert value_labels((0.0, 0.005, 0.01), Unit.FRACTION) == ["0 %", "0.5 %", "1.0 %"]
    assert value_labels((0.0, 0.005, 0.01), Unit.NATS) == ["0", "0.005", "0.010"]


def test_labels_of_neighbouring_ticks_differ() -> None:
    assert tick_labels((1e-4, 1.00002e-4, 1.00004e-4)) == ["0.0001", "0.000100002", "0.000100004"]
    assert tick_labels((-1e-7, 0.0, 1e-7)) == ["−1e-07", "0", "1e-07"]


def test_the_cursor_moves_over_a_picture_that_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, draw = [], pkgutil.resolve_name(BUILD)

    def counted(figure: object) -> str:
        drawn.append(figure)
        return draw(figure)  # type: ignore[no-any-return]

    monkeypatch.setattr(BUILD, counted)
    # Drawn by no other test before.
    values = [n % 7 + 0.125 for n in range(60)]
    at = {}
    for step in (0, 15, 30, 59):
        data = plot(values, marks=(PlotMark(15, "restart", "r"), PlotMark(step, "cursor", f"step {step}", value=3.0)))
        named = PlottedSeries("1", f"run {step}", "stage-0", data.raw)
        data = replace(data, series=(named,))
        rows = paint_chart(data, 80, 20, UNICODE)
        assert f"step {step}" in rows[0].text and f"run {step}" in rows[0].text
        found = {row.text.index(piece.text) for row in rows[1:] for piece in row.line if piece.role == "cursor"}
        crossed = [y for y, row in enumerate(rows[1:]) for piece in row.line if piece == ("┼", "cursor")]
        assert len(found) >= 1 and len(crossed) == 1
        at[step] = crossed[0]
        assert all(cell_width(row.text) <= 80 for row in rows)
    assert len(drawn) == 1
    assert len(set(at.values())) == 1, "the same value is in the same row everywhere"


def test_the_cursor_stands_below_the_sign_of_its_step() -> None:
    for step in (0, 7, 31, 59):
        data = plot([float(n) for n in range(60)], marks=(PlotMark(step, "cursor", ""),))
        rows = paint_chart(data, 80, 20, UNICODE, markers=(Marker(step, MarkerKind.RESTART),))
        rail = rows[-2].text
        cursors = {
            sum(len(one.text) for one in row.line[:number])
            for row in rows[1:]
            for number, piece in enumerate(row.line)
            if piece.role == "cursor"
        }
        assert cursors == {len(rail) - len(rail.lstrip())}


def test_two_units_have_an_axis_each_and_every_curve_its_sign() -> None:
    steps = tuple(float(n) for n in range(50))
    low = PlottedSeries(
        "A", "entropy 0.5 nats", "stage-0", Curve(steps, tuple(n / 100 for n in range(50))), (49.0, 0.9)
    )
    high = PlottedSeries(
        "B", "length 900", "stage-1", Curve(steps, tuple(900.0 - n for n in range(50))), None, is_right=True
    )
    data = PlotData(Zoom(0, 49), series=(low, high), right=Unit.TOKENS)
    rows = paint_chart(data, 100, 20, UNICODE)
    assert "A entropy 0.5 nats (left)" in rows[0].text and "B length 900 (right)" in rows[0].text
    lines = [row.text for row in rows[1:]]
    assert any(line.rstrip().endswith("900") for line in lines) and any("0.8" in line[:8] for line in lines)
    signs = {piece.role for row in rows[1:] for piece in row.line if set(piece.text) & {"A", "B"}}
    assert signs == {"stage-0", "stage-1"}
    # The newest value stands above its average, which never reaches it.
    assert any("A" in line for line in lines[:4])


@pytest.mark.parametrize(("glyphs", "curve", "dash"), [(UNICODE, "○", "╌"), (ASCII, "s", "=")])
def test_without_colour_too_every_line_is_told_apart(glyphs: Glyphs, curve: str, dash: str) -> None:
    levels = (PlotLevel(0.3, "baseline", "base 0.3"), PlotLevel(0.7, "threshold", "limit 0.7"))
    data = plot([n / 40 for n in range(40)], smooth=[0.9 - n / 80 for n in range(40)], levels=levels)
    legend, *rows = (row.text for row in paint_chart(data, 80, 20, glyphs))
    assert f"{curve} smoothed" in legend and f"{dash * 2} limit 0.7" in legend and f"{dash * 2} base" not in legend
    assert sum(curve in row for row in rows) >= 2 and sum(row.count(dash) > 20 for row in rows) == 1
    band = (Curve(data.raw.steps, tuple(one + 0.2 for one in data.raw.values)),)
    legend, *rows = (row.text for row in paint_chart(replace(data, band=band, band_label="max"), 80, 20, glyphs))
    assert "+ max" in legend and sum("+" in row for row in rows) >= 2


@each_row(("width", "told"), [(240, "a-long-name-1 0.5"), (100, "…1 0.5"), (60, "1 0.5"), (40, "1 ")])
def test_the_legend_has_every_run_in_as_many_words_as_fit(width: int, told: str) -> None:
    curve = Curve((0.0, 49.0), (0.0, 0.5))
    series = tuple(
        PlottedSeries(
            str(n), f"a-long-name-{n} 0.5", f"stage-{n}", curve, shorter=(f"…{n} 0.5", "0.5", ""), range=(0.0, 0.5)
        )
        for n in range(1, 8)
    )
    data = PlotData(Zoom(0, 49), series=series)
    legend = paint_chart(data, width, 12, UNICODE)[0]
    assert told in legend.text
    signs = [piece.text.strip() for piece in legend.line if piece.role.startswith("stage-")]
    assert signs == [str(n) for n in range(1, 8)]
