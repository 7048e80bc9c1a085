"""Themes, colours and signs, and the footer as it is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from screens import NO_THEMES, RECORDED, app_over, page_text, press, session_over

from rltop.app.app import RltopApp
from rltop.app.key_line import KeyHint, KeyLine
from rltop.app.options import UiOptions
from rltop.errors import ThemeError
from rltop.rows.rows import Target, TargetKind
from rltop.rows.widths import cell_width

WIDE = (120, 40)


async def test_the_theme_switches_live() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        assert app.palette.name == "dark"
        before = app.screen.board.render_line(1)  # type: ignore[attr-defined]
        await press(pilot, "T")
        assert app.palette.name == "terminal" and app.theme == "terminal"
        after = app.screen.board.render_line(1)  # type: ignore[attr-defined]
        assert before.text == after.text and list(before) != list(after)
        await press(pilot, "T")
        assert app.palette.name == "dark"


async def test_a_broken_theme_is_reported_and_left(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("[roles]\n")
    app = app_over(RECORDED, options=UiOptions(themes_folder=tmp_path))
    async with app.run_test(size=WIDE) as pilot:
        app.dress_in("broken")
        await pilot.pause()
        assert app.palette.name == "dark"
        assert "broken.toml" in next(iter(app._notifications)).message


@pytest.mark.parametrize("theme", ["dark", "terminal"])
async def test_without_colour_every_page_runs_and_shows_none(theme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = app_over(RECORDED, options=UiOptions(theme=theme, has_colour=False, themes_folder=NO_THEMES))
    async with app.run_test(size=WIDE) as pilot:
        for key in ("t", "m", "T", "slash", "escape", "escape", "a", "question_mark", "ctrl+p"):
            await press(pilot, key)
            assert app.is_running
        await press(pilot, "escape", "escape", "escape")
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                assert segment.style is not None
                for colour in (segment.style.color, segment.style.bgcolor):
                    assert colour is None or colour.is_default


async def test_ascii_means_ascii() -> None:
    app = app_over(RECORDED, options=UiOptions(is_ascii=True, themes_folder=NO_THEMES))
    async with app.run_test(size=WIDE) as pilot:
        for keys in ((), ("t",), ("m",), ("a",), ("escape", "escape", "enter")):
            await press(pilot, *keys)
            assert page_text(app).isascii()


def test_an_unknown_theme_is_refused() -> None:
    with pytest.raises(ThemeError, match="sunset"):
        RltopApp(session_over(RECORDED), UiOptions(theme="sunset", themes_folder=NO_THEMES))


async def test_ascii_reaches_the_footer_and_the_palette() -> None:
    app = app_over(RECORDED, options=UiOptions(themes_folder=NO_THEMES, is_ascii=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "ctrl+p")
        await pilot.pause()
        lines = ["".join(segment.text for segment in line) for line in app.screen._compositor.render_strips()]
        assert [line for line in lines if not line.isascii()] == []


@pytest.mark.parametrize("width", [60, 80, 120, 200])
async def test_no_key_of_the_footer_is_cut(width: int) -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=(width, 24)) as pilot:
        app.screen.board.select(Target(TargetKind.METRIC, "actor/kl_loss"))  # type: ignore[attr-defined]
        await press(pilot, "enter", "comma")
        await pilot.pause()
        line = app.screen.query_one(KeyLine)
        assert len(line.parts) > 3
        text = line.render_line(0).text
        assert text.rstrip() == " ".join("".join(_said(hint) for hint in part) for part in line.parts)
        assert cell_width(text) == width


def _said(hint: KeyHint) -> str:
    return f"{hint.shown} {hint.words}".strip()


async def test_a_key_of_the_footer_is_pressed_by_a_click_and_explained_under_the_mouse() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=(120, 40)) as pilot:
        line = app.screen.query_one(KeyLine)
        at = line.render_line(0).text.index("Pause")
        await pilot.hover(KeyLine, offset=(at, 0))
        assert line.tooltip == "Freeze the picture; reading goes on"
        await pilot.click(KeyLine, offset=(at, 0))
        await pilot.pause()
        assert not app.is_live
        await pilot.hover(KeyLine, offset=(119, 0))
        assert line.tooltip is None


async def test_the_footer_is_drawn_anew_only_when_other_keys_do_something() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=(120, 40)) as pilot:
        line, drawn = app.screen.query_one(KeyLine), 0
        await pilot.pause()
        before = list(app.screen.walk_children())

        def count() -> None:
            nonlocal drawn
            drawn += 1

        line.refresh = count  # type: ignore[method-assign, assignment]
        app.refresh_bindings()
        await pilot.pause()
        assert drawn == 0
        await press(pilot, "space")
        await pilot.pause()
        assert drawn == 1 and "Live" in line.render_line(0).text
        assert list(app.screen.walk_children()) == before
