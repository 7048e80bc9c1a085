"""The one table: nothing collides, no number is cut, names can be told apart, columns leave by priority."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.rows.glyphs import cell_width, glyph_set
from rltop.rows.rows import Line, Piece, Target, TargetKind, clip, clip_distinct
from rltop.rows.table import (
    Column,
    Fit,
    Sorting,
    Table,
    TablePainter,
    heads_of,
    lay_out,
    next_sorting,
    paint_table,
    sort_items,
)

GLYPHS = glyph_set(is_ascii=False)


class Item(NamedTuple):
    name: str
    value: float | None
    note: str = ""


COLUMNS: Sequence[Column[Item]] = (
    Column("name", lambda item: (item.name, "key"), Fit.NAME, least=6, sort=lambda item: item.name),
    Column("value", lambda item: (f"{item.value:,.3f}" if item.value is not None else "–", "value"),
           sort=lambda item: item.value),
    Column("bar", lambda item, cells: ("█" * cells, "spark"), Fit.DRAWN, least=4, most=10, priority=3),
    Column("note", lambda item: (item.note, "dim"), Fit.TEXT, least=5, priority=2),
)  # fmt: skip


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
        assert cell_width(row.text) <= width
        if item.value is not None:
            assert re.search(rf"(?<![^ ]){re.escape(f'{item.value:,.3f}')}(?![^ ])", row.text)


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
        heads.append(rows[0].text.split())
    assert heads == [["name", "value", "bar", "note"], ["name", "value", "note"], ["name", "value"]]


@given(st.lists(st.text("ab/", min_size=1, max_size=24), unique=True, max_size=6), st.integers(1, 30))
def test_names_keep_to_their_width_and_short_ones_stay_whole(names: list[str], width: int) -> None:
    for name, shown in zip(names, clip_distinct(names, width), strict=True):
        assert cell_width(shown) <= width
        assert shown == name or cell_width(name) > width


@each_row("width", [10, 14, 20, 30])
def test_the_part_that_tells_names_apart_survives(width: int) -> None:
    names = [
        "experiments/2026-11/qwen-grpo-lr1e-6-seed1/metrics.jsonl",
        "experiments/2026-11/qwen-grpo-lr1e-6-seed2/metrics.jsonl",
        "experiments/2026-11/llama-grpo-lr1e-6-seed2/metrics.jsonl",
    ]
    assert len(set(clip_distinct(names, width))) == 3


def test_a_table_sorts_by_any_column_and_what_has_no_value_stands_last() -> None:
    found = [Item("b", 1.0), Item("a", None), Item("c", 2.0)]
    assert [one.name for one in sort_items(found, COLUMNS, Sorting("value"))] == ["c", "b", "a"]
    assert [one.name for one in sort_items(found, COLUMNS, Sorting("value", is_falling=False))] == ["b", "c", "a"]
    assert [one.name for one in sort_items(found, COLUMNS, Sorting("name", is_falling=False))] == ["a", "b", "c"]
    head = paint_table(Table(COLUMNS, found, sorting=Sorting("value")), 60, GLYPHS)[0].text
    assert f"{GLYPHS.fall}value" in head


def test_rows_and_heads_lead_somewhere() -> None:
    table = Table(
        COLUMNS,
        [Item("loss", 1.0)],
        target=lambda item: Target(TargetKind.METRIC, item.name),
        is_sortable=True,
    )
    head, row = paint_table(table, 60, GLYPHS)
    assert heads_of([head, row]) == [Sorting("name", is_falling=False), Sorting("value")]
    again = paint_table(table._replace(sorting=Sorting("value")), 60, GLYPHS)
    assert heads_of(again) == [Sorting("name", is_falling=False), Sorting("value", is_falling=False)]
    assert row.links[0].target == Target(TargetKind.METRIC, "loss")


def test_of_names_in_a_row_the_number_that_differs_is_whole() -> None:
    names = [f"prompt-{number:05d}-of-the-dataset" for number in range(200)]
    for width in (9, 12, 20):
        shown = clip_distinct(names, width)
        assert len(set(shown)) == 200
        assert all(f"{number:03d}" in text for number, text in enumerate(shown))


def test_a_name_that_looks_like_no_other_keeps_what_its_cut_leaves() -> None:
    assert clip_distinct(["response length", "loss"], 10) == ["res…length", "loss"]
    assert clip_distinct(["response length", "loss"], 10, clip) == ["response …", "loss"]


def test_a_longer_number_moves_nothing_while_its_column_has_room() -> None:
    columns: Sequence[Column[Item]] = (COLUMNS[0], Column("value", COLUMNS[1].cell, least=10), COLUMNS[3])
    places = {
        TablePainter(Table(columns, [Item("loss", value, "a remark")]), 40, GLYPHS).place(2)
        for value in (1.0, -123.5, 99_999.25, None)
    }
    assert len(places) == 1


def test_what_never_leaves_is_narrowed_and_a_number_is_whole_or_gone() -> None:
    kept = (COLUMNS[0], COLUMNS[1]._replace(least=8), COLUMNS[2]._replace(priority=0))
    for width in range(1, 40):
        layout = lay_out([20, 12, 4], kept, width)
        assert sum(layout.cells) + 2 * (len(layout.cells) - 1) <= width
        assert layout.of(1) in (0, 12)


def test_a_column_that_says_nothing_leaves_with_its_head() -> None:
    rows = paint_table(Table(COLUMNS, [Item("loss", 1.0), Item("reward", 2.0)]), 60, GLYPHS)
    assert rows[0].text.split() == ["name", "value", "bar"]


def test_what_stands_behind_a_name_is_never_cut() -> None:
    def cell(item: Item) -> Line:
        return Piece(item.name, "key"), Piece(" (3 streams)", "dim")

    table = Table((Column("run", cell, Fit.NAME, least=18), COLUMNS[1]), [Item("grpo-qwen2.5-7b-math", 1.0)])
    assert " (3 streams)" in paint_table(table, 32, GLYPHS)[1].text


def test_the_last_column_wraps_below_itself() -> None:
    columns: Sequence[Column[Item]] = (
        COLUMNS[1],
        Column("what", lambda item: (item.note, "text"), Fit.TEXT, least=12, lines=3),
    )
    rows = paint_table(Table(columns, [Item("", 1.0, "one two three four five six seven")]), 30, GLYPHS)
    start = rows[1].text.index("one")
    assert [row.text[start:].strip() for row in rows[1:]] == ["one two three four", "five six seven"]
    assert all(row.text[:start].isspace() for row in rows[2:])


def test_the_next_order_goes_through_the_heads_and_back() -> None:
    heads = [Sorting("name", is_falling=False), Sorting("value")]
    seen, now = [], next_sorting(heads, None)
    while now is not None:
        seen.append(now)
        now = next_sorting(heads, now)
    assert seen == heads
    assert next_sorting(heads, Sorting("gone")) is None


def test_a_column_gets_the_cells_it_likes_before_those_that_matter_less() -> None:
    def cell(item: str) -> tuple[str, str]:
        return item, "text"

    columns = [
        Column("name", cell, Fit.NAME, least=10),
        Column("alerts", cell, Fit.TEXT, least=10, priority=1, wanted_width=20),
        Column("age", cell, priority=2),
    ]
    wanted = [10, 30, 8]
    assert lay_out(wanted, columns, 42).cells == (10, 20, 8)
    assert lay_out(wanted, columns, 41).columns == (0, 1), "the age leaves"
    assert lay_out(wanted, columns, 25).cells == (10, 13), "less than it likes, where nothing else leaves"
    assert lay_out(wanted, columns, 21).columns == (0,)
