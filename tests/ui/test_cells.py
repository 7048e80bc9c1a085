from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rltop.rows.rows import Line, Piece
from rltop.screen.row_view import cells_of, changed_spans

ALPHABET = "ab ▁█⣿漢字e\u0301"
LINES = st.lists(st.builds(Piece, st.text(ALPHABET, max_size=6), st.sampled_from(["text", "warn"])), max_size=5).map(
    tuple
)


def line(*pieces: str) -> Line:
    return tuple(Piece(text) for text in pieces)


def test_equal_lines_have_no_span() -> None:
    assert changed_spans(line("abc"), line("abc"), 80) == []
    assert changed_spans(line("abc"), line("ab", "c"), 80) == []


def test_one_cell() -> None:
    assert changed_spans(line("abcdef"), line("abcXef"), 80) == [(3, 4)]


def test_a_role_alone_is_a_change() -> None:
    assert changed_spans((Piece("abc"),), (Piece("a"), Piece("bc", "warn")), 80) == [(1, 3)]


def test_near_changes_are_one_span_and_far_ones_are_two() -> None:
    assert changed_spans(line("a" * 40), line("b" + "a" * 5 + "b" + "a" * 33), 80) == [(0, 7)]
    assert changed_spans(line("a" * 40), line("b" + "a" * 30 + "b" + "a" * 8), 80) == [(0, 1), (31, 32)]


def test_what_was_longer_is_blanked() -> None:
    assert changed_spans(line("abcdef"), line("abc"), 80) == [(3, 6)]
    assert changed_spans(line("abc   "), line("abc"), 80) == []


def test_a_span_never_cuts_a_wide_character() -> None:
    assert changed_spans(line("漢b"), line("xab"), 80) == [(0, 2)]
    assert changed_spans(line("x漢"), line("xa漢"), 80) == [(1, 4)]


@given(LINES, LINES)
def test_patching_the_spans_gives_the_new_line(old: Line, new: Line) -> None:
    before, after = cells_of(old), cells_of(new)
    length = max(len(before), len(after))
    before += [(" ", "text")] * (length - len(before))
    after += [(" ", "text")] * (length - len(after))
    for start, stop in changed_spans(old, new, 80):
        before[start:stop] = after[start:stop]
    assert before == after


def test_uncertain_places_refresh_the_whole_line() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert changed_spans(line(f"{family} x"), line(f"{family} y"), 30) == [(0, 30)]


def test_nothing_beyond_the_width_counts() -> None:
    assert changed_spans(line("a" * 30 + "b"), line("a" * 30 + "c"), 30) == []
