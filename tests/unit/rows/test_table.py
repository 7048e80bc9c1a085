"""The one table: nothing collides, no number is cut, names can be told apart, columns leave by priority."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltop.rows.glyphs import glyph_set
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.table import Column, Kind, Sorting, Table, in_order, lay_out, paint_table, told_apart
from rltop.rows.widths import cell_width

GLYPHS = glyph_set(is_ascii=False)


class Item(NamedTuple):
    name: str
    value: float | None
    note: str = ""


COLUMNS = (
    Column("name", lambda item: (item.name, "key"), Kind.NAME, least=6, sort=lambda item: item.name),
    Column("value", lambda item: (f"{item.value:,.3f}" if item.value is not None else "–", "value"),
           sort=lambda item: item.value),
    Column("bar", lambda item, cells: ("█" * cells, "spark"), Kind.DRAWN, least=4, most=10, priority=3),
    Column("note", lambda item: (item.note, "dim"), Kind.TEXT, least=5, priority=2),
)  # fmt: skip


def text(row: Row) -> str:
    return "".join(piece.text for piece in row.line)


items = st.builds(
    Item,
    st.text("abc/é日", min_size=1, max_size=30),
    st.none() | st.floats(-1e9, 1e9, allow_nan=False),
    st.text("xyz ", max_size=40),
)


@given(st.lists(items, max_size=8), st.integers(30, 120))
def test_no_row_is_wider_and_no_number_is_cut(found: list[Item], width: int) -> None:
    rows = paint_table(Table(COLUMNS, found), width, GLYPHS)
    for item, row in zip(found, rows[1:], strict=True):
        assert cell_width(text(row)) <= width
        if item.value is not None:
            assert re.search(rf"(?<![^ ]){re.escape(f'{item.value:,.3f}')}(?![^ ])", text(row))


@given(st.lists(items, min_size=1, max_size=8), st.integers(30, 120))
def test_columns_stand_in_the_same_cells_of_every_row(found: list[Item], width: int) -> None:
    wanted = [12, 8, 10, 20]
    layout = lay_out(wanted, COLUMNS, width)
    assert sum(layout.cells) + sum(COLUMNS[one].gap for one in layout.columns[1:]) <= width
    assert list(layout.columns) == sorted(layout.columns)


def test_columns_leave_by_priority_and_what_has_none_stays() -> None:
    heads = []
    for width in (60, 24, 16):
        rows = paint_table(Table(COLUMNS, [Item("loss", 1.5, "a remark")]), width, GLYPHS)
        heads.append(text(rows[0]).split())
    assert heads == [["name", "value", "bar", "note"], ["name", "value", "note"], ["name", "value"]]


@given(st.lists(st.text("ab/", min_size=1, max_size=24), unique=True, max_size=6), st.integers(1, 30))
def test_names_keep_to_their_width_and_short_ones_stay_whole(names: list[str], width: int) -> None:
    for name, shown in zip(names, told_apart(names, width), strict=True):
        assert cell_width(shown) <= width
        assert shown == name or cell_width(name) > width


@pytest.mark.parametrize("width", [10, 14, 20, 30])
def test_the_part_that_tells_names_apart_survives(width: int) -> None:
    names = [
        "experiments/2026-11/qwen-grpo-lr1e-6-seed1/metrics.jsonl",
        "experiments/2026-11/qwen-grpo-lr1e-6-seed2/metrics.jsonl",
        "experiments/2026-11/llama-grpo-lr1e-6-seed2/metrics.jsonl",
    ]
    assert len(set(told_apart(names, width))) == 3


def test_a_table_sorts_by_any_column_and_what_has_no_value_stands_last() -> None:
    found = [Item("b", 1.0), Item("a", None), Item("c", 2.0)]
    assert [one.name for one in in_order(found, COLUMNS, Sorting("value"))] == ["c", "b", "a"]
    assert [one.name for one in in_order(found, COLUMNS, Sorting("value", is_falling=False))] == ["b", "c", "a"]
    assert [one.name for one in in_order(found, COLUMNS, Sorting("name", is_falling=False))] == ["a", "b", "c"]
    head = text(paint_table(Table(COLUMNS, found, sorting=Sorting("value")), 60, GLYPHS)[0])
    assert f"{GLYPHS.fall}value" in head


def test_rows_and_heads_lead_somewhere() -> None:
    table = Table(
        COLUMNS,
        [Item("loss", 1.0)],
        target=lambda item: Target(TargetKind.METRIC, item.name),
        head_target=lambda head: Target(TargetKind.SECTION, head),
    )
    head, row = paint_table(table, 60, GLYPHS)
    assert [hot.target.name for hot in head.hot] == ["name", "value"]
    assert row.hot[0].target == Target(TargetKind.METRIC, "loss")
