"""The settings of the screen, and the choice of theme; assembled by `config`, without Textual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rltop.resources import THEME, save_state
from rltop.rows.themes import Palette, find_palettes, load_palette
from rltop.structs import NamedTuple


class UiOptions(NamedTuple):
    """How the screen looks and which keys it takes.

    Attributes:
        themes_folder: folder of the user's themes; None is the one in the XDG folder.
        has_colour: False if NO_COLOR is set.
        keymap: binding id → keys, comma separated, in Textual's spelling; ids are in docs/keys.md.
        refresh_hz: most frames per second for new data, 1 to 4.
        has_title: show state and worst alert in the window title.
        has_mouse: handle clicks and the wheel; off leaves them to the terminal.
        keeps_theme: save the theme chosen on the screen for the next time.
        theme_origin: flag or variable that sets the theme and overrides the saved one; may be empty.
        lists_first: begin with the list if there are several runs; else with the first run.
        marked: paths of the runs marked for comparison from the start.
        baseline: path of the run that the others are compared with; empty without one.
        played: note that a recording is played back, and how fast; empty if a live run is followed.
        has_details: show what is selected next to lists on a wide screen.
        has_hints: first start: show a line on the basic keys, once.
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
    played: str = ""


TERMINAL, TERMINAL_LIGHT = "terminal", "terminal-light"
"""The theme of the terminal's own colours, and its variant for a light background."""


class ThemeChoice:
    """The available themes and the current one.

    Raises:
        ThemeError: the theme of the options cannot be used.
    """

    def __init__(self, options: UiOptions) -> None:
        self._options = options
        self.palette = self._load(options.theme)

    @property
    def names(self) -> list[str]:
        return sorted(find_palettes(self._options.themes_folder))

    @property
    def next_name(self) -> str:
        names = self.names
        at = names.index(self.palette.name) if self.palette.name in names else -1
        return names[(at + 1) % len(names)]

    def take(self, name: str) -> None:
        """Switch to another theme.

        Raises:
            ThemeError: it cannot be used; the current one stays.
        """
        self.palette = self._load(name)

    def save(self) -> str:
        """Save the theme for the next time; returns a message on whether that worked."""
        if not self._options.keeps_theme:
            return f'theme = "{self.palette.name}" in the config file keeps it'
        try:
            save_state(THEME, f"{self.palette.name}\n")
        except OSError as error:
            return f"cannot be kept: {error.strerror or error}"
        return f"kept, but {self._options.theme_origin} comes first" if self._options.theme_origin else "kept"

    def _load(self, name: str) -> Palette:
        palette = load_palette(name, self._options.themes_folder)
        return palette if self._options.has_colour else palette.without_colour()
