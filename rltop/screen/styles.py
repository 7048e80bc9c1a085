"""Palettes as Textual sees them: a theme for its widgets, a style for each role.

Owns the translation; what a theme file may say is `view.palette`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rich.color import Color
from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

from rltop.rows.rows import ROLES
from rltop.rows.themes import Palette, RoleStyle


class RoleStyles:
    """The Rich style of every role, plain and selected; each has a ground.

    A segment without a style crashes Textual's monochrome filter, so there is none: an unknown role looks like text.
    """

    def __init__(self, palette: Palette) -> None:
        self._text = rich_style(palette.style("text"), palette)
        self._plain = {role: rich_style(palette.style(role), palette) for role in ROLES}
        over = _overlay(palette.selection)
        self._selected = {role: style + over for role, style in self._plain.items()}
        self._selected_text = self._text + over

    @property
    def ground(self) -> Style:
        return self._text

    def of(self, role: str, is_selected: bool = False) -> Style:
        if is_selected:
            return self._selected.get(role, self._selected_text)
        return self._plain.get(role, self._text)


@lru_cache(16)
def _colour(name: str) -> Color:
    return Color.parse(name.replace("-", "_"))


def rich_style(style: RoleStyle, palette: Palette) -> Style:
    return Style(
        color=_colour(style.fg or palette.colours["foreground"]),
        bgcolor=_colour(style.bg or palette.colours["background"]),
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        reverse=style.reverse,
    )


def _overlay(style: RoleStyle) -> Style:
    return Style(
        color=_colour(style.fg) if style.fg else None,
        bgcolor=_colour(style.bg) if style.bg else None,
        bold=style.bold or None,
        dim=style.dim or None,
        italic=style.italic or None,
        underline=style.underline or None,
        reverse=style.reverse or None,
    )


def textual_theme(palette: Palette) -> Theme:
    """The palette for Textual's own widgets: footer, input, command palette."""
    colours = {key: _css(value) for key, value in palette.colours.items()}
    roles = {
        role: _css(palette.style(role).fg or palette.colours["foreground"])
        for role in ("ok", "warn", "crit", "info", "dim")
    }
    variables: dict[str, str] = {"text-dim": roles["dim"]}
    if palette.uses_terminal_colours:
        variables |= _TERMINAL_VARIABLES
    return Theme(
        name=palette.name,
        primary=colours["primary"],
        secondary=roles["info"],
        accent=colours["primary"],
        success=roles["ok"],
        warning=roles["warn"],
        error=roles["crit"],
        foreground=colours["foreground"],
        background=colours["background"],
        surface=colours["surface"],
        panel=colours["panel"],
        dark=palette.is_dark,
        ansi=palette.uses_terminal_colours,
        variables=variables,
    )


_TERMINAL_VARIABLES: Mapping[str, str] = {
    **BUILTIN_THEMES["ansi-dark"].variables,
    "block-cursor-foreground": "ansi_default",
    "block-cursor-background": "ansi_default",
    "block-cursor-text-style": "reverse",
    "block-cursor-blurred-text-style": "reverse",
    "input-cursor-text-style": "reverse",
    "input-cursor-background": "ansi_default",
    "input-cursor-foreground": "ansi_default",
}
"""What Textual's style sheets ask of such a theme, and cursors that show on any ground."""


def _css(colour: str) -> str:
    return colour if colour.startswith("#") else f"ansi_{colour.replace('-', '_')}"
