from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyte
import pytest
from ptys import PATIENCE_S

from rltop.pages.header import body_height
from rltop.rows.keys import KEYS, Scope
from rltop.rows.rows import Piece, Row, RowLink, Target, TargetKind
from rltop.rows.themes import load_palette
from rltop.screen.early import HARMLESS, QUIT, EarlyPicture, paint_early
from rltop.screen.guard import TerminalGuard
from rltop.screen.modes import LEAVE

PALETTE = load_palette("dark", Path("/nonexistent"))


class Pipe:
    """A guard whose terminal is a pipe."""

    def __init__(self) -> None:
        self.read_fd, write_fd = os.pipe()
        self.guard = TerminalGuard(self.read_fd, write_fd)
        self.guard.enter()
        self.read()

    def read(self) -> str:
        os.set_blocking(self.read_fd, False)
        try:
            return os.read(self.read_fd, 1 << 20).decode()
        except BlockingIOError:
            return ""


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    for end in (made.guard.input_fd, made.guard.output_fd):
        os.close(end)


def screen(data: bytes, width: int = 20, height: int = 5) -> pyte.Screen:
    made = pyte.Screen(width, height)
    pyte.ByteStream(made).feed(data)
    return made


def test_rows_are_drawn_from_the_top_on_the_themes_ground() -> None:
    drawn = screen(
        EarlyPicture([Row((Piece("one", "warn"), Piece(" two")))], 20, 5, PALETTE, {"COLORTERM": "truecolor"}).frame()
    )
    assert drawn.display == ["one two".ljust(20), *[" " * 20] * 4]
    assert drawn.buffer[0][0].fg == "f0b429" and drawn.buffer[0][0].bold
    assert drawn.buffer[4][19].bg == "0f1318"


def test_a_row_that_fills_the_line_does_not_scroll() -> None:
    rows = [Row((Piece(str(i) * 20),)) for i in range(4)]
    picture = EarlyPicture(rows, 20, 5, PALETTE, keys="4" * 20)
    assert screen(picture.frame()).display == [str(i) * 20 for i in range(5)]


def test_more_rows_than_lines_are_left_out() -> None:
    rows = [Row((Piece(str(i)),)) for i in range(9)]
    assert [line.strip() for line in screen(EarlyPicture(rows, 20, 5, PALETTE).frame()).display] == [*"0123", ""]


def test_no_control_character_gets_through() -> None:
    data = EarlyPicture([Row((Piece("a\x1b[2Jb\x07\x9b31mc\n"),))], 40, 5, PALETTE).frame()
    assert screen(data, 40).display[0].strip() == "a?[2Jb??31mc?"


def test_without_colour_no_colour_is_sent() -> None:
    data = EarlyPicture(
        [Row((Piece("x", "crit"),))], 20, 2, PALETTE.without_colour(), {"COLORTERM": "truecolor"}
    ).frame()
    assert b"38;" not in data and b"48;" not in data and b"\x1b[1m" in data


def test_the_rows_get_the_body_of_the_screen(pipe: Pipe) -> None:
    sizes = []

    def build(width: int, height: int) -> Sequence[Row]:
        sizes.append((width, height))
        return [Row((Piece("hello"),))]

    assert paint_early(pipe.guard, build, PALETTE, deadline_s=5)
    assert sizes == [(80, body_height(24))]
    assert "hello" in pipe.read()


def test_the_last_line_offers_the_key_that_works_before_there_is_a_footer(pipe: Pipe) -> None:
    assert paint_early(pipe.guard, lambda _width, _height: [Row((Piece("hello"),))], PALETTE, deadline_s=5)
    assert "q quits" in pipe.read()
    assert paint_early(pipe.guard, lambda _width, _height: [], PALETTE, takes_keys=False, deadline_s=5)
    assert "q quits" not in pipe.read()


def test_an_error_leaves_an_empty_frame(pipe: Pipe) -> None:
    def build(width: int, height: int) -> Sequence[Row]:
        raise ValueError("unreadable")

    assert not paint_early(pipe.guard, build, PALETTE, deadline_s=0.05)
    assert "reading …" in pipe.read()


def test_rows_that_come_late_are_drawn_until_the_screen_is_handed_over(pipe: Pipe) -> None:
    go, went = threading.Event(), threading.Event()

    def build(width: int, height: int) -> Sequence[Row]:
        go.wait(PATIENCE_S)
        went.set()
        return [Row((Piece("late"),))]

    assert not paint_early(pipe.guard, build, PALETTE, deadline_s=0.01)
    assert "reading …" in pipe.read()
    go.set()
    went.wait(PATIENCE_S)
    _join("early-paint")
    assert "late" in pipe.read()

    go.clear()
    assert not paint_early(pipe.guard, build, PALETTE, deadline_s=0.01)
    pipe.guard.hand_over()
    pipe.read()
    go.set()
    _join("early-paint")
    assert pipe.read() == ""


def test_nothing_is_written_after_the_terminal_was_restored(pipe: Pipe) -> None:
    pipe.guard.restore()
    assert LEAVE.decode() in pipe.read()
    assert not pipe.guard.write(b"x")
    pipe.guard.restore()
    assert pipe.read() == ""


def test_a_terminal_that_is_gone_is_reported_once_and_not_written_to(pipe: Pipe) -> None:
    asked = []
    pipe.guard.on_leave(lambda: asked.append(True))
    broken_read, broken_write = os.pipe()
    os.close(broken_read)
    os.dup2(broken_write, pipe.guard.output_fd)
    os.close(broken_write)
    assert not pipe.guard.write(b"x")
    assert not pipe.guard.write(b"y")
    assert pipe.guard.is_lost and asked == [True]


def _join(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(PATIENCE_S)


def chosen(data: bytes, made: pyte.Screen) -> list[str]:
    """The highlighted text of each line, after `data`."""
    pyte.ByteStream(made).feed(data)
    ground = made.buffer[0][19].bg
    lines = (
        "".join(made.buffer[y][x].data for x in range(20) if made.buffer[y][x].bg != ground) for y in range(made.lines)
    )
    return [line for line in lines if line]


def test_the_first_that_can_be_selected_is_lit_as_it_will_be_later() -> None:
    names = ["title", "alpha", "beta", "gamma"]
    rows = [
        Row((Piece(name),), (RowLink(0, 7, Target(TargetKind.METRIC, name)),) if name != "title" else ())
        for name in names
    ]
    made = pyte.Screen(20, 5)
    assert chosen(EarlyPicture(rows, 20, 5, PALETTE, {"COLORTERM": "truecolor"}).frame(), made) == ["alpha  "]
    assert [line.rstrip() for line in made.display] == [*names, ""]


def test_early_keys_are_those_of_the_key_table() -> None:
    keys = {each.id: set(each.keys.split(",")) for each in (*KEYS[Scope.LIST], *KEYS[Scope.EVERYWHERE])}
    assert keys["quit"] == {QUIT.decode()}
    letters = {key.decode() for key in HARMLESS if not key.startswith(b"\x1b")}
    assert letters | {"up", "down"} == keys["up"] | keys["down"]
