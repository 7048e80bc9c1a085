from __future__ import annotations

from rltop.rows.rows import Piece, Row, RowLink, Target, TargetKind
from rltop.rows.selection import Selection


def target(name: str) -> Target:
    return Target(TargetKind.METRIC, name)


def row(*hot: tuple[int, int, str]) -> Row:
    return Row((Piece(" " * 40),), tuple(RowLink(start, stop, target(name)) for start, stop, name in hot))


BADGES = row((0, 9, "a"), (12, 20, "b"), (30, 39, "c"))
GRID = [BADGES, Row(()), row((0, 40, "d")), row((0, 40, "e")), Row(()), row((0, 10, "f"), (20, 40, "g"))]


def chosen(selection: Selection) -> str | None:
    return selection.target.name if selection.target else None


def test_nothing_to_select() -> None:
    selection = Selection()
    selection.update([Row(())])
    assert selection.target is None
    assert not (selection.vertical(1) or selection.horizontal(1) or selection.edge(True) or selection.at(0, 0))


def test_down_and_up_keep_the_column() -> None:
    selection = Selection()
    selection.update(GRID)
    assert chosen(selection) == "a"
    assert selection.horizontal(1) and selection.horizontal(1) and chosen(selection) == "c"
    assert not selection.horizontal(1)
    names = []
    while selection.vertical(1):
        names.append(chosen(selection))
    assert names == ["d", "e", "g"]
    while selection.vertical(-1):
        pass
    assert chosen(selection) == "c"


def test_a_page_goes_to_the_last_row_and_stops() -> None:
    selection = Selection()
    selection.update(GRID)
    assert selection.vertical(100) and selection.spot is not None and selection.spot.y == 5
    assert not selection.vertical(100)
    assert selection.vertical(-3) and chosen(selection) == "d"


def test_new_rows_keep_the_target_wherever_it_went() -> None:
    selection = Selection()
    selection.update(GRID)
    assert selection.select(target("e"))
    selection.update([Row(()), *GRID])
    assert chosen(selection) == "e" and selection.spot is not None and selection.spot.y == 4


def test_a_target_that_is_gone_leaves_the_nearest() -> None:
    selection = Selection()
    selection.update(GRID)
    selection.select(target("e"))
    selection.update([*GRID[:3], Row(()), Row(()), GRID[5]])
    assert chosen(selection) == "d"


def test_a_metric_that_is_gone_leaves_a_metric() -> None:
    selection = Selection()
    selection.update([Row(()), row((0, 40, "val-aux"))])
    alert = Row((Piece(" " * 40),), (RowLink(0, 9, Target(TargetKind.VERDICT, "P12")),))
    selection.update([Row(()), alert, Row(()), row((0, 40, "reward")), row((0, 40, "val-core"))])
    assert chosen(selection) == "reward"


def test_of_two_spots_of_one_target_the_near_one_stays() -> None:
    rows = [row((0, 5, "x")), row((0, 5, "y")), row((0, 5, "x"))]
    selection = Selection()
    selection.update(rows)
    selection.vertical(5)
    selection.update(list(rows))
    assert selection.spot is not None and selection.spot.y == 2


def test_a_click_selects_what_is_there() -> None:
    selection = Selection()
    selection.update(GRID)
    assert selection.at(15, 0) and chosen(selection) == "b"
    assert not selection.at(10, 0)
    assert chosen(selection) == "b"
