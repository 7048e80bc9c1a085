"""What of the screen can be set; assembled by `config`, without Textual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rltop.structs import NamedTuple


class UiOptions(NamedTuple):
    """How the screen looks and which keys it takes.

    Attributes:
        theme: name of a theme file, shipped or the user's own.
        themes_folder: the user's themes; None is the one of the XDG folder.
        has_colour: False where NO_COLOR is set.
        keymap: binding id → keys, comma separated, in Textual's spelling; ids are in docs/keys.md.
        refresh_hz: how often the screen follows new data at most, 1 to 4.
        has_title: say state and worst alert in the title of the window.
        has_mouse: take clicks and the wheel; off leaves them to the terminal.
        keeps_theme: the theme that is chosen on the screen is kept for the next time.
        theme_origin: flag or variable that sets the theme, and wins over the one that is kept; may be empty.
        lists_first: of several runs show the list first; else the first of them.
        marked: paths of the runs that are marked for comparison from the start.
        baseline: path of the run with which the others are compared; empty where there is none.
        has_details: on a wide screen what is selected stands beside lists.
        has_hints: nobody has used the screen before: say in one line how it is used, once.
    """

    theme: str = "dark"
    themes_folder: Path | None = None
    is_ascii: bool = False
    has_colour: bool = True
    keymap: Mapping[str, str] = MappingProxyType({})
    refresh_hz: float = 4.0
    has_mouse: bool = True
    has_bell: bool = True
    has_title: bool = True
    keeps_theme: bool = False
    theme_origin: str = ""
    has_hints: bool = False
    has_details: bool = True
    lists_first: bool = True
    marked: Sequence[str] = ()
    baseline: str = ""
