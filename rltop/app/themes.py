"""The themes of the application, and how it changes them."""

from __future__ import annotations

from abc import abstractmethod

from rltop.app.options import UiOptions
from rltop.app.page_screen import PageScreen
from rltop.errors import ThemeError
from rltop.resources import THEME, keep
from rltop.rows.themes import Palette, find_palettes, load_palette
from rltop.screen.styles import textual_theme
from rltop.screen.textual_shim import FaultKeeper, SingleParseApp

TERMINAL, TERMINAL_LIGHT = "terminal", "terminal-light"
"""The theme of the terminal's own colours, and what takes its place on a light ground."""


class Themes(SingleParseApp, FaultKeeper):
    """An application in one of several themes."""

    options: UiOptions
    palette: Palette

    @property
    def theme_names(self) -> list[str]:
        """Every theme there is, the user's own included."""
        return sorted(find_palettes(self.options.themes_folder))

    @abstractmethod
    def tell(self, text: str) -> None:
        """Say something in the line above the footer, until the next key."""

    def action_next_theme(self) -> None:
        """Switch to the theme after the present one."""
        names = self.theme_names
        at = names.index(self.palette.name) if self.palette.name in names else -1
        self.set_theme(names[(at + 1) % len(names)])

    def set_theme(self, name: str) -> None:
        """Switch to the theme called `name`, say so and keep it; a broken one is reported and left."""
        try:
            self._take_theme(name)
        except ThemeError as error:
            self.notify(str(error), title="theme", severity="error", markup=False)
            return
        self.tell(f"theme {self.palette.name}: {self.palette.summary}   ({self._keep_theme()})")

    def _take_theme(self, name: str) -> None:
        self.palette = self._load_theme(name)
        self.register_theme(textual_theme(self.palette))
        self.theme = self.palette.name
        for screen in self.screen_stack:
            if isinstance(screen, PageScreen) and screen.is_mounted:
                screen.set_palette()

    def _keep_theme(self) -> str:
        """Keep the theme for the next time, and say whether it will be there."""
        if not self.options.keeps_theme:
            return f'theme = "{self.palette.name}" in the config file keeps it'
        try:
            keep(THEME, f"{self.palette.name}\n")
        except OSError as error:
            return f"cannot be kept: {error.strerror or error}"
        return f"kept, but {self.options.theme_origin} comes first" if self.options.theme_origin else "kept"

    def _load_theme(self, name: str) -> Palette:
        palette = load_palette(name, self.options.themes_folder)
        return palette if self.options.has_colour else palette.without_colour()
