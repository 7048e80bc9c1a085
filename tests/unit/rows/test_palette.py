from __future__ import annotations

from pathlib import Path

import pytest
from tables import each_row

from rltop import resources
from rltop.errors import ThemeError
from rltop.rows.rows import ROLES
from rltop.rows.themes import PLAIN, RoleStyle, find_palettes, load_palette, look_of, read_palette

SHIPPED = sorted(path.stem for path in resources.folder("themes").glob("*.toml"))


def written(folder: Path, name: str, old: str, new: str) -> Path:
    text = (resources.folder("themes") / "dark.toml").read_text()
    assert old in text
    path = folder / f"{name}.toml"
    path.write_text(text.replace(old, new))
    return path


GRAPHIC = {"rule"}
"""Decoration: it says nothing."""

COLOURED = [name for name in SHIPPED if not name.startswith("terminal")]
"""Those whose colours are known; the sixteen are the terminal's own."""


def test_eight_themes_are_shipped() -> None:
    assert set(SHIPPED) == {
        "dark", "terminal", "terminal-light", "light", "contrast", "colour-blind", "colour-blind-light", "night",
    }  # fmt: skip


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@each_row("name", COLOURED)
def test_every_text_can_be_read_on_its_ground_and_selected(name: str) -> None:
    palette = load_palette(name, Path("/nowhere"))
    ground = palette.colours["background"]
    for role, style in palette.roles.items():
        if role in GRAPHIC:
            continue
        assert style.fg
        grounds = [style.bg] if style.bg else [ground, palette.selection.bg or ground]
        for under in grounds:
            assert contrast(style.fg, under) >= 4.5, (role, under)


@each_row("name", SHIPPED)
def test_no_stage_has_the_colour_of_an_alert(name: str) -> None:
    palette = load_palette(name, Path("/nowhere"))
    alerts = {palette.style(role).fg for role in ("warn", "crit")}
    stages = [palette.style(role).fg for role in ROLES if role.startswith("stage-")]
    assert len(set(stages)) == len(stages) == 8
    assert not alerts & set(stages)


@each_row("name", SHIPPED)
def test_every_role_is_styled(name: str) -> None:
    palette = load_palette(name, Path("/nowhere"))
    assert set(palette.roles) == set(ROLES)
    assert palette.summary


@each_row("name", SHIPPED)
def test_no_two_levels_look_the_same(name: str) -> None:
    palette = load_palette(name, Path("/nowhere"))
    assert len({palette.style(role) for role in ("ok", "warn", "crit", "text")}) == 4


def test_the_terminal_theme_uses_only_the_sixteen_colours() -> None:
    palette = load_palette("terminal", Path("/nowhere"))
    used = {colour for style in palette.roles.values() for colour in (style.fg, style.bg) if colour}
    used |= set(palette.colours.values())
    assert not [colour for colour in used if colour.startswith("#")]
    assert palette.uses_terminal_colours


@each_row(
    ("old", "new", "key", "remedy"),
    [
        ('dim = "#939da9"', "", "roles.dim", "missing"),
        ('dim = "#939da9"', 'dim = "greyish"', "roles.dim", "#rrggbb"),
        ('dim = "#939da9"', "dim = 3", "roles.dim", "write a colour"),
        ('dim = "#939da9"', 'dim = { fg = "red", bold = "yes" }', "roles.dim.bold", "true or false"),
        ('dim = "#939da9"', 'dim = { fgg = "red" }', "roles.dim.fgg", "no such key"),
        ('dim = "#939da9"', 'dim = "red"\nsparkle = "red"', "roles.sparkle", "no such key"),
        ('panel = "#1f262f"', "", "screen.panel", "missing"),
        ("is_dark = true", 'is_dark = "yes"', "is_dark", "true or false"),
        ("is_dark = true", "is_drak = true", "is_drak", "no such key"),
        ("[selection]\n", "[selected]\n", "selected", "no such key"),
    ],
)  # fmt: skip
def test_an_error_names_file_key_and_remedy(tmp_path: Path, old: str, new: str, key: str, remedy: str) -> None:
    path = written(tmp_path, "mine", old, new)
    with pytest.raises(ThemeError) as caught:
        read_palette(path)
    assert str(path) in caught.value.message
    assert f" {key}:" in caught.value.message
    assert remedy in caught.value.hint


def test_what_is_not_toml_is_said(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("roles = [")
    with pytest.raises(ThemeError, match="not valid TOML"):
        read_palette(path)


def test_an_unknown_theme_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ThemeError) as caught:
        load_palette("sunset", tmp_path)
    assert "sunset" in caught.value.message
    assert "dark, light, night, terminal" in caught.value.hint


def test_a_users_theme_is_found_and_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "rltop" / "themes"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    mine = written(folder, "mine", 'ok = "#63c98b"', 'ok = "bright-blue"')
    other = written(folder, "dark", 'ok = "#63c98b"', 'ok = "green"')
    found = find_palettes()
    assert found["mine"] == mine and found["dark"] == other
    assert load_palette("mine").style("ok") == RoleStyle(fg="bright-blue")


def test_a_relative_config_folder_is_ignored() -> None:
    assert resources.config_folder({"XDG_CONFIG_HOME": "here", "HOME": "/home/me"}) == Path("/home/me/.config/rltop")


@each_row("name", SHIPPED)
def test_without_colour_no_colour_is_left_and_the_selection_shows(name: str) -> None:
    palette = load_palette(name, Path("/nowhere")).without_colour()
    assert all(style == style.without_colour() for style in palette.roles.values())
    assert palette.selection.reverse and not palette.selection.bg
    for role in ROLES:
        codes = look_of(palette.style(role), palette).after(PLAIN).removeprefix("\x1b[").removesuffix("m").split(";")
        assert all(not code or int(code) < 10 for code in codes)


def test_escape_codes_of_a_style() -> None:
    palette = load_palette("terminal", Path("/nowhere"))
    assert look_of(RoleStyle(fg="red", bg="bright-blue", bold=True), palette).after(PLAIN) == "\x1b[1;31;104m"
    assert look_of(RoleStyle(fg="#ff8000", underline=True), palette).after(PLAIN) == "\x1b[4;38;2;255;128;0m"
    by_cube = look_of(RoleStyle(fg="#ff8700", reverse=True), palette, has_truecolour=False)
    assert by_cube.after(PLAIN) == "\x1b[7;38;5;208m"
    assert look_of(RoleStyle(fg="#303030"), palette, has_truecolour=False).after(PLAIN) == "\x1b[38;5;236m"
    assert look_of(RoleStyle()._replace(dim=True), palette).after(PLAIN) == "\x1b[2m"
