"""Theme files, read, validated and converted to styles and SGR codes.

Defines the format of `themes/*.toml`. Knows nothing of Textual: the first frame and the one-shot report use the same
palette as the screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rltop import resources
from rltop.errors import ConfigError, ThemeError
from rltop.regex import regex
from rltop.rows.rows import ROLES
from rltop.structs import NamedTuple, Struct, replace

NAMED_COLOURS = (
    "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
    "bright-black", "bright-red", "bright-green", "bright-yellow",
    "bright-blue", "bright-magenta", "bright-cyan", "bright-white",
)  # fmt: skip
"""The terminal's own sixteen colours; `default` is its own foreground or background."""

SCREEN_KEYS = ("foreground", "background", "surface", "panel", "primary")
"""Colours of everything that is not painted from rows: footer, palette, input, help."""

_HEX = regex(r"#[0-9a-fA-F]{6}")


class RoleStyle(NamedTuple):
    """Style of one role; a colour of None means that of the screen."""

    fg: str | None = None
    bg: str | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False

    def overlaid_by(self, overlay: RoleStyle) -> RoleStyle:
        return RoleStyle._make(over or own for own, over in zip(self, overlay, strict=True))

    def without_colour(self) -> RoleStyle:
        return self._replace(fg=None, bg=None)


class Palette(Struct):
    """A theme: a style for every role, and the colours of everything else.

    Attributes:
        name: what the user types; the stem of the file.
        has_colour: False under NO_COLOR.
    """

    name: str
    summary: str
    is_dark: bool
    colours: Mapping[str, str]
    roles: Mapping[str, RoleStyle]
    selection: RoleStyle
    has_colour: bool = True

    @property
    def uses_terminal_colours(self) -> bool:
        return not self.has_colour or self.colours["background"] == "default"

    def style(self, role: str) -> RoleStyle:
        return self.roles.get(role) or self.roles["text"]

    def without_colour(self) -> Palette:
        """The same palette for NO_COLOR: colours are removed, emphasis stays.

        The selection becomes reverse video: without its background colour it could be invisible.
        """
        selection = self.selection.without_colour()
        return replace(
            self,
            colours=MappingProxyType(dict.fromkeys(SCREEN_KEYS, "default")),
            roles=MappingProxyType({role: style.without_colour() for role, style in self.roles.items()}),
            selection=selection._replace(reverse=True),
            has_colour=False,
        )


def user_folder() -> Path:
    return resources.config_folder() / "themes"


def find_palettes(extra: Path | None = None) -> dict[str, Path]:
    """Theme files by name; the user's own replace shipped ones of the same name."""
    found: dict[str, Path] = {}
    for place in (resources.folder("themes"), extra if extra is not None else user_folder()):
        found.update(resources.toml_files(place))
    return found


def load_palette(name: str, extra: Path | None = None) -> Palette:
    """Load the theme called `name`.

    Raises:
        ThemeError: there is none of that name, or its file is invalid.
    """
    found = find_palettes(extra)
    if name not in found:
        raise ThemeError(
            f"no theme called {name!r}", f"there are: {', '.join(sorted(found))}; or write {user_folder()}/{name}.toml"
        )
    return read_palette(found[name])


def read_palette(path: Path) -> Palette:
    """Read and validate one theme file.

    Raises:
        ThemeError: names the file, the key and the remedy.
    """
    try:
        document = resources.read_toml(path)
    except ConfigError as error:
        raise ThemeError(error.message, error.hint) from error
    return _Reader(path, document).palette()


class _Reader:
    """Validates one document; every error names file and key."""

    def __init__(self, path: Path, document: Mapping[str, Any]) -> None:
        self._path = path
        self._document = document

    def palette(self) -> Palette:
        self._known("", self._document, ("summary", "is_dark", "screen", "roles", "selection"))
        screen, roles = self._table("screen"), self._table("roles")
        for name, table, wanted in (("screen", screen, SCREEN_KEYS), ("roles", roles, ROLES)):
            self._known(f"{name}.", table, wanted)
            missing = [key for key in wanted if key not in table]
            if missing:
                raise self._wrong(f"{name}.{missing[0]}", f"missing; also write: {', '.join(missing)}")
        is_dark = self._document.get("is_dark", True)
        if not isinstance(is_dark, bool):
            raise self._wrong("is_dark", "write true or false")
        return Palette(
            name=self._path.stem,
            summary=str(self._document.get("summary", "")),
            is_dark=is_dark,
            colours=MappingProxyType({key: self._colour(f"screen.{key}", screen[key]) for key in SCREEN_KEYS}),
            roles=MappingProxyType({role: self._style(f"roles.{role}", roles[role]) for role in ROLES}),
            selection=self._style("selection", self._table("selection")),
        )

    def _wrong(self, key: str, remedy: str) -> ThemeError:
        return ThemeError(f"{self._path}: {key}: cannot be used", remedy)

    def _table(self, key: str) -> Mapping[str, Any]:
        table = self._document.get(key)
        if not isinstance(table, dict):
            raise self._wrong(key, f"add a table [{key}]")
        return table

    def _known(self, prefix: str, table: Mapping[str, Any], allowed: Iterable[str]) -> None:
        for key in table:
            if key not in allowed:
                raise self._wrong(f"{prefix}{key}", f"no such key; there are: {', '.join(allowed)}")

    def _colour(self, key: str, value: Any) -> str:
        if isinstance(value, str) and (value == "default" or value in NAMED_COLOURS or _HEX.fullmatch(value)):
            return value
        raise self._wrong(key, f'write "#rrggbb", "default" or one of: {", ".join(NAMED_COLOURS)}')

    def _style(self, key: str, value: Any) -> RoleStyle:
        if isinstance(value, str):
            return RoleStyle(fg=self._colour(key, value))
        if not isinstance(value, dict):
            raise self._wrong(key, 'write a colour, or a table such as { fg = "#rrggbb", bold = true }')
        names = RoleStyle._fields
        self._known(f"{key}.", value, names)
        chosen: dict[str, Any] = {}
        for name, setting in value.items():
            if name in ("fg", "bg"):
                chosen[name] = self._colour(f"{key}.{name}", setting)
            elif isinstance(setting, bool):
                chosen[name] = setting
            else:
                raise self._wrong(f"{key}.{name}", "write true or false")
        return RoleStyle(**chosen)


class SgrState(NamedTuple):
    """Active SGR attribute codes and colour codes; an empty colour is the terminal's own."""

    attributes: frozenset[str] = frozenset()
    foreground: str = ""
    background: str = ""

    @lru_cache(maxsize=4096)  # noqa: B019 - looks are immutable, and few
    def after(self, old: SgrState) -> str:
        """The shortest escape code that switches to this look from `old`; empty if they are equal."""
        if self == old:
            return ""
        gone = old.attributes - self.attributes
        off = {_OFF.get(each, "") for each in gone}
        anew = ";".join(["0", *self._changes(PLAIN)])
        # A code that ends one attribute may end another as well, which must be set again.
        kept = SgrState(frozenset([each for each in old.attributes if _OFF.get(each) not in off]), *old[1:])
        added = ";".join([*sorted(off), *self._changes(kept)])
        return f"\x1b[{anew if '' in off else min(added, anew, key=len)}m"

    def of_blanks(self, old: SgrState) -> SgrState:
        """The look for blanks after another one: only the background matters, unless e.g. an underline is visible."""
        is_seen = not (self.attributes <= _OF_LETTERS and old.attributes <= _OF_LETTERS)
        return self if is_seen else old._replace(background=self.background)

    def _changes(self, old: SgrState) -> list[str]:
        codes = sorted(self.attributes - old.attributes)
        if self.foreground != old.foreground:
            codes.append(self.foreground or "39")
        if self.background != old.background:
            codes.append(self.background or "49")
        return codes


_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27"}
"""Code that ends a single attribute; other attributes need a full reset."""
_OF_LETTERS = frozenset("123")
PLAIN = SgrState()


def look_of(style: RoleStyle, palette: Palette, has_truecolour: bool = True) -> SgrState:
    """Convert a style to terminal codes.

    Args:
        has_truecolour: the terminal supports 24-bit colours; otherwise the 256-colour palette is used.
    """
    flags = ((style.bold, "1"), (style.dim, "2"), (style.italic, "3"), (style.underline, "4"), (style.reverse, "7"))
    foreground = background = ""
    if palette.has_colour:
        foreground = _colour_code(style.fg or palette.colours["foreground"], 30, has_truecolour)
        background = _colour_code(style.bg or palette.colours["background"], 40, has_truecolour)
    return SgrState(frozenset([code for is_set, code in flags if is_set]), foreground, background)


def _colour_code(colour: str, base: int, has_truecolour: bool) -> str:
    """SGR parameters of a colour; `base` is 30 for the foreground, 40 for the background."""
    if colour == "default":
        return ""
    if colour in NAMED_COLOURS:
        index = NAMED_COLOURS.index(colour)
        return str(base + index if index < 8 else base + 60 + index - 8)
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    if has_truecolour:
        return f"{base + 8};2;{red};{green};{blue}"
    return f"{base + 8};5;{_cube_index(red, green, blue)}"


def _cube_index(red: int, green: int, blue: int) -> int:
    """The nearest of xterm's 256 colours: from the 6×6×6 cube or the 24 greys."""
    levels = (0, 95, 135, 175, 215, 255)
    near = [min(range(6), key=lambda i, v=value: abs(levels[i] - v)) for value in (red, green, blue)]  # type: ignore[misc]
    cube = [levels[i] for i in near]
    grey = max(0, min(23, round(((red + green + blue) / 3 - 8) / 10)))
    shade = 8 + 10 * grey
    wanted = (red, green, blue)
    cube_error = sum((a - b) ** 2 for a, b in zip(cube, wanted, strict=True))
    grey_error = sum((shade - b) ** 2 for b in wanted)
    return 232 + grey if grey_error < cube_error else 16 + 36 * near[0] + 6 * near[1] + near[2]
