"""The theme that is shown, the others there are, and what keeps the one that was chosen."""

from __future__ import annotations

from rltop.app.options import UiOptions
from rltop.resources import THEME, keep
from rltop.rows.themes import Palette, find_palettes, load_palette

TERMINAL, TERMINAL_LIGHT = "terminal", "terminal-light"
"""The theme of the terminal's own colours, and what takes its place on a light ground."""


class ThemeChoice:
    """The themes of the application and the one it is in.

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
        """Take another theme.

        Raises:
            ThemeError: it cannot be used; the present one stays.
        """
        self.palette = self._load(name)

    def keep(self) -> str:
        """Keep the theme for the next time, and say whether it will be there."""
        if not self._options.keeps_theme:
            return f'theme = "{self.palette.name}" in the config file keeps it'
        try:
            keep(THEME, f"{self.palette.name}\n")
        except OSError as error:
            return f"cannot be kept: {error.strerror or error}"
        return f"kept, but {self._options.theme_origin} comes first" if self._options.theme_origin else "kept"

    def _load(self, name: str) -> Palette:
        palette = load_palette(name, self._options.themes_folder)
        return palette if self._options.has_colour else palette.without_colour()
