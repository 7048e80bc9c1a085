"""Sparklines: no spike is lost, one record changes one cell, gaps are bridged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from fake_run import run_of, verl_lines
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.catalog.metrics import CATALOG
from rltop.model import Signal
from rltop.pages.signals import generic_signal, read_spark
from rltop.rows.glyphs import ASCII, UNICODE, Glyphs
from rltop.rows.sparkline import (
    SparkData,
    StepWindow,
    anchored_window,
    block_bars,
    fitted,
    spark_data,
    sparkline,
    tall_sparkline,
)
from rltop.run.snapshot import Snapshot
from rltop.store.series import Bucket

NAN = math.nan
ANY = st.floats(allow_nan=True, allow_infinity=False)


def draw(values: Sequence[float], glyphs: Glyphs = UNICODE, **more: object) -> str:
    data = SparkData(values, values, StepWindow(0, 1, len(values)), **more)  # type: ignore[arg-type]
    return "".join(piece.text for piece in sparkline(data, glyphs))


def test_merged_columns_of_the_largest_numbers_are_drawn() -> None:
    values = [1.5e308] * 30 + [1.6e308] * 30 + [1.7e308] * 30
    text = "".join(
        piece.text for piece in sparkline(fitted(SparkData(values, values, StepWindow(0, 1, 90)), 20), UNICODE)
    )
    assert text.strip() and list(text.strip()) == sorted(text.strip())


@given(st.lists(ANY, min_size=2, max_size=80), st.sampled_from([UNICODE, ASCII]), ANY)
def test_any_values_give_exactly_the_width(values: list[float], glyphs: Glyphs, reference: float) -> None:
    low = [min(a, b) if a == a and b == b else NAN for a, b in zip(values, reversed(values), strict=True)]
    high = [max(a, b) if a == a and b == b else NAN for a, b in zip(values, reversed(values), strict=True)]
    data = SparkData(low, high, StepWindow(0, 1, len(values)), reference=None if reference != reference else reference)
    for line in (sparkline(data, glyphs), *tall_sparkline(data, glyphs)):
        text = "".join(piece.text for piece in line)
        assert len(text) == len(values) // 2
        assert text.isascii() or not glyphs.is_ascii


def test_a_ramp_climbs_and_a_level_line_is_level() -> None:
    assert draw([level for level in range(7) for _ in range(2)]) == "▁▂▃▄▅▆▇"
    assert draw(range(8)) == "▁▃▅▇"
    assert draw([0.7] * 8) == "▃▃▃▃"
    assert draw(range(8), ASCII) == "_.-'"
    assert draw([NAN] * 8) == "    "


def test_the_rounding_of_single_precision_is_no_movement() -> None:
    rounded = [40.0, 39.99999237060547, 40.00000762939453, 40.0, 40.000003814697266, 39.99999237060547]
    assert draw(rounded) == draw([40.0] * len(rounded))
    assert draw([40.0, 40.001, 40.0, 40.0, 40.001, 40.0]) != draw([40.0] * 6)


def test_steps_without_a_value_are_bridged() -> None:
    assert draw([0, NAN, NAN, 1.3, NAN, NAN, NAN, 3]) == "▁▃▆▇"
    assert draw([NAN, NAN, 0, NAN, NAN, 3, NAN, NAN])[0] == " "
    assert draw([NAN, NAN, 0, NAN, NAN, 3, NAN, NAN])[-1] == " "


def test_one_value_or_two_make_no_line() -> None:
    for values, newest, drawn in (
        ([5.0], 0, "▃"),
        ([2.0, 1.0], 1, "▇▁"),
        ([1.0, *[NAN] * 9, 2.0, *[NAN] * 9], 19, f"▁{' ' * 9}▇"),
    ):
        data = fitted(SparkData(values, values, StepWindow(0, 1, len(values)), newest=newest), 40)
        assert "".join(piece.text for piece in sparkline(data, UNICODE)).rstrip() == drawn


def test_a_line_is_not_bridged_over_a_restart() -> None:
    text = draw([0, 0, NAN, NAN, NAN, NAN, 3, 3], restarts=frozenset({6}))
    assert text == "▁  ⟲"


def test_a_value_that_was_not_finite_is_marked() -> None:
    data = SparkData([1.0] * 8, [1.0] * 8, StepWindow(0, 1, 8), nonfinite=frozenset({4}))
    pieces = sparkline(data, UNICODE)
    assert [(piece.text, piece.role) for piece in pieces] == [("▃▃", "spark"), ("✕", "spark-mark"), ("▃", "spark")]


def test_what_is_past_a_threshold_since_the_alert_has_its_colour() -> None:
    values = [9.0, 9.0, 0.0, 0.0, 6.0, 6.0, 9.0, 9.0]
    data = SparkData(values, values, StepWindow(0, 1, 8), reference=5.0, is_threshold=True, onset=4)
    assert [tuple(piece) for piece in sparkline(data, UNICODE)] == [("▇▁", "spark"), ("▅▇", "threshold")]
    below = data._replace(is_floor=True, onset=0)
    assert [tuple(piece) for piece in sparkline(below, UNICODE)] == [
        ("▇", "spark"), ("▁", "threshold"), ("▅▇", "spark"),
    ]  # fmt: skip


def test_what_is_below_the_baseline_has_its_colour() -> None:
    values = [9.0, 9.0, 0.0, 0.0, 6.0, 6.0]
    data = SparkData(values, values, StepWindow(0, 1, 6), reference=5.0)
    assert [tuple(piece) for piece in sparkline(data, UNICODE)] == [("▇", "spark"), ("▁", "baseline"), ("▅", "spark")]


def test_two_rows_have_eight_dots_and_the_reference_where_the_line_is_not() -> None:
    values = [float(level) for level in range(8)]
    data = SparkData(values, values, StepWindow(0, 1, 8))
    assert ["".join(piece.text for piece in line) for line in tall_sparkline(data, UNICODE)] == ["  ⡠⠊", "⡠⠊  "]
    assert ["".join(piece.text for piece in line) for line in tall_sparkline(data, ASCII)] == ["  .'", ".'  "]
    level = data._replace(lows=[0.0] * 8, highs=[0.0] * 8, reference=7.0, is_threshold=True, newest=5)
    upper, lower = tall_sparkline(level, UNICODE)
    assert [tuple(piece) for piece in upper] == [("⠁⠁⠁", "threshold"), (" ", "spark")]
    assert [tuple(piece) for piece in lower] == [("⣀⣀⣀⣀", "spark")]


@each_row("values", [[1e308, -1e308] * 4, [5e-324, 0.0] * 4, [1e300, 1.1e300] * 4, [1e-310, 2e-310] * 4])
def test_extreme_numbers_are_drawn_from_bottom_to_top(values: list[float]) -> None:
    assert draw([value for value in values[:2] for _ in range(2)]) in ("▁▇", "▇▁")


@given(st.integers(0, 10_000), st.integers(0, 200_000), st.integers(1, 50), st.integers(2, 300))
def test_a_window_holds_the_run_and_fills_most_of_its_place(
    first: int, length: int, cadence: int, columns: int
) -> None:
    window = anchored_window(first, first + length, cadence, columns)
    assert window.start <= first
    assert window.start % window.stride == 0
    assert first + length < window.stop
    used = window.column(first + length) + 1
    assert window.stride <= 2 * cadence or used >= columns * 0.6 - 2


def test_windows_stay_where_they_are_while_records_come_in() -> None:
    windows = [anchored_window(1, last, 1, 60) for last in range(1, 4000)]
    changes = sum(a != b for a, b in pairwise(windows))
    assert changes == 12


def test_one_record_changes_one_cell() -> None:
    rows = [(step, {"loss": math.sin(step / 9)}) for step in range(1, 400)]
    signal = generic_signal("loss")
    texts = []
    for stop in range(380, 399):
        data = read_spark(Snapshot(run_of(verl_lines(rows[:stop]))), signal, 120)
        lines = (sparkline(data, UNICODE), *tall_sparkline(data, UNICODE))
        texts.append(["".join(piece.text for piece in line) for line in lines])
    for before, after in pairwise(texts):
        for old, new in zip(before, after, strict=True):
            assert sum(a != b for a, b in zip(old, new, strict=True)) <= 1


def test_no_spike_is_lost_in_a_long_noisy_run() -> None:
    rows = [(step, {"loss": 1.0 + 0.1 * math.sin(step * 1.7)}) for step in range(1, 3000)]
    rows[1499][1]["loss"] = 50.0
    data = read_spark(Snapshot(run_of(verl_lines(rows))), generic_signal("loss"), 60)
    assert max(value for value in data.highs if value == value) == 50.0
    calm = [high - low for low, high in zip(data.lows, data.highs, strict=True) if high == high]
    assert sorted(calm)[len(calm) // 2] == 0.0


def test_raw_values_are_read_in_the_metrics_unit() -> None:
    buckets = [Bucket(0, 0, -2.0, -1.0, -1.5, 1)]
    data = spark_data(buckets, StepWindow(0, 1, 2), Signal(CATALOG["loss"], "loss", scale=-10.0, shift=1.0))
    assert (data.lows[0], data.highs[0]) == (11.0, 21.0)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=120), st.integers(4, 60))
def test_a_fitted_line_keeps_its_extremes(values: list[float], columns: int) -> None:
    data = SparkData(values, values, StepWindow(0, 1, len(values)), newest=len(values) - 1)
    small = fitted(data, columns)
    assert len(small.lows) == len(small.highs) == columns
    assert max(value for value in small.highs if value == value) == max(values)
    assert min(value for value in small.lows if value == value) == min(values)


def test_block_bars_stand_on_zero() -> None:
    assert block_bars([0.0, 4.0, 8.0, NAN], UNICODE) == "▁▄█ "
    assert block_bars([], UNICODE) == ""
    assert block_bars([0.0, 0.0], ASCII) == "__"
    assert block_bars([1e308, 1.0], UNICODE, top=5e-324) == "██"
