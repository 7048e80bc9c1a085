"""What the pen writes looks like what Rich would write, in fewer bytes."""

from __future__ import annotations

import pyte
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from rltop.screen.textual_shim import Pen

STYLES = st.builds(
    Style,
    color=st.sampled_from([None, "#c86432", "#0a0b0c", "red", "default"]),
    bgcolor=st.sampled_from([None, "#0f1318", "blue", "default"]),
    bold=st.sampled_from([None, True]),
    italic=st.sampled_from([None, True]),
    underline=st.sampled_from([None, True]),
    reverse=st.sampled_from([None, True, False]),
)
SEGMENTS = st.lists(st.builds(Segment, st.text("abc ░", max_size=4), st.none() | STYLES), max_size=12)
SYSTEMS = st.sampled_from([ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT, ColorSystem.STANDARD])


def cells(data: str) -> list[object]:
    screen = pyte.Screen(60, 2)
    pyte.Stream(screen).feed(data)
    return [*[seen(screen.buffer[0][x]) for x in range(60)], screen.cursor.attrs]


def seen(cell: pyte.screens.Char) -> pyte.screens.Char:
    """A cell without what is not to be seen on a blank."""
    is_blank = cell.data == " " and not (cell.underscore or cell.reverse)
    return cell._replace(fg="default", bold=False, italics=False) if is_blank else cell


@examples(75)
@given(SEGMENTS, SYSTEMS)
def test_it_looks_like_what_rich_writes_in_no_more_bytes(segments: list[Segment], system: ColorSystem) -> None:
    pen = Pen(system)
    plain = ""
    for text, style, _ in segments:
        pen.write(Segment(text, style))
        plain += text if style is None else style.render(text, color_system=system)
    written = pen.finish()
    assert cells(written) == cells(plain)
    assert len(written) <= len(plain)


def test_a_style_that_goes_on_is_not_said_again() -> None:
    style, other = Style(color="#c86432", bgcolor="#0f1318"), Style(color="#6fbf8b", bgcolor="#0f1318")
    pen = Pen(ColorSystem.TRUECOLOR)
    pen.write(Segment("a", style))
    pen.move_to(4, 1)
    pen.write(Segment("b", style))
    pen.write(Segment("c", other))
    assert pen.finish() == "\x1b[38;2;200;100;50;48;2;15;19;24ma\x1b[2;5Hb\x1b[38;2;111;191;139mc\x1b[0m"


def test_what_is_switched_off_is_off() -> None:
    pen = Pen(ColorSystem.TRUECOLOR)
    pen.write(Segment("a", Style(bold=True, color="#c86432")))
    pen.write(Segment("b", Style(color="#c86432")))
    assert pen.finish() == "\x1b[1;38;2;200;100;50ma\x1b[22mb\x1b[0m"


def test_blanks_take_the_ground_alone() -> None:
    pen = Pen(ColorSystem.TRUECOLOR)
    pen.write(Segment("a", Style(italic=True, color="#c86432", bgcolor="#0f1318")))
    pen.write(Segment("  ", Style(color="#6fbf8b", bgcolor="#0f1318")))
    pen.write(Segment("b", Style(italic=True, color="#c86432", bgcolor="#0f1318")))
    assert pen.finish() == "\x1b[3;38;2;200;100;50;48;2;15;19;24ma  b\x1b[0m"
