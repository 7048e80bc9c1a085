"""From settings to the options of the layers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tables import each_row

from rltop.cli import main
from rltop.config import Config, load
from rltop.errors import ConfigError
from rltop.rules import registry
from rltop.screen.environment import WEB_DRIVER

RULE = registry.SPECS[0]


def home(folder: Path, text: str | None = None) -> dict[str, str]:
    """An environment whose config folder is `folder`, with a config file if there is text."""
    (folder / "rltop").mkdir(exist_ok=True)
    if text is not None:
        (folder / "rltop" / "config.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(folder), "HOME": str(folder), "TERM": "xterm-256color"}


def test_without_anything_every_layer_has_its_own_defaults(tmp_path: Path) -> None:
    found, bare = load({}, home(tmp_path)), Config()
    assert (found.reader, found.ingest) == (bare.reader, bare.ingest)
    assert found.ui.theme == bare.ui.theme
    assert found.ui.refresh_hz == bare.ui.refresh_hz
    assert found.file is None


def test_the_usual_file_is_read(tmp_path: Path) -> None:
    found = load(
        {}, home(tmp_path, "theme = 'terminal'\nmemory_mb = 2\nstep_key = 'it'\ngroup_size = 8\nwatch = false\n")
    )
    assert found.ui.theme == "terminal"
    assert found.ingest.store.memory_bytes == 2 * 1024 * 1024
    assert found.ingest.decoder.step_key == "it"
    assert found.ingest.rules.group_size == 8
    assert found.reader.use_watcher is False
    assert found.file == tmp_path / "rltop" / "config.toml"


def test_a_named_file_wins_and_must_exist(tmp_path: Path) -> None:
    environ = home(tmp_path, "refresh_hz = 1\n")
    by_variable, by_flag = tmp_path / "variable.toml", tmp_path / "flag.toml"
    by_variable.write_text("refresh_hz = 2\n")
    by_flag.write_text("refresh_hz = 3\n")
    named = environ | {"RLTOP_CONFIG": str(by_variable)}
    assert load({}, named).ui.refresh_hz == 2
    assert load({}, named, by_flag).ui.refresh_hz == 3
    with pytest.raises(ConfigError, match="No such file"):
        load({}, environ, tmp_path / "none.toml")


def test_themes_of_ones_own_stand_beside_the_config_file(tmp_path: Path) -> None:
    assert load({}, home(tmp_path)).ui.themes_folder == tmp_path / "rltop" / "themes"
    elsewhere = tmp_path / "elsewhere" / "my.toml"
    elsewhere.parent.mkdir()
    elsewhere.write_text("")
    assert load({}, home(tmp_path), elsewhere).ui.themes_folder == tmp_path / "elsewhere" / "themes"


@each_row(
    ("color", "no_color", "on_screen", "in_terminal", "in_pipe"),
    [
        ("auto", "", True, True, False),
        ("auto", "1", False, False, False),
        ("always", "1", True, True, True),
        ("never", "", False, False, False),
    ],
)
def test_colour(tmp_path: Path, color: str, no_color: str, on_screen: bool, in_terminal: bool, in_pipe: bool) -> None:
    found = load({"color": color}, home(tmp_path) | {"NO_COLOR": no_color})
    assert found.ui.has_colour is on_screen
    assert found.use_color(is_terminal=True) is in_terminal
    assert found.use_color(is_terminal=False) is in_pipe


@each_row("term", ["", "dumb", "unknown", "emacs", None])
def test_a_terminal_of_mere_lines_has_no_colour(tmp_path: Path, term: str | None) -> None:
    environ = {name: value for name, value in (home(tmp_path) | {"TERM": term}).items() if value is not None}
    assert not load({}, environ).use_color(is_terminal=True)
    assert load({"color": "always"}, environ).use_color(is_terminal=True)
    assert load({}, environ | {"TERM": "never-heard-of"}).use_color(is_terminal=True)
    # In a browser it does not matter in what the server was started.
    assert load({}, environ | {"TEXTUAL_DRIVER": WEB_DRIVER}).ui.has_colour


def test_rules_are_muted_and_their_thresholds_moved(tmp_path: Path) -> None:
    threshold = next(iter(RULE.thresholds), None)
    lines = [f"[rules.{RULE.id}]", "mute = true"] + ([f"{threshold} = 12.5"] if threshold else [])
    found = load({}, home(tmp_path, "\n".join(lines)))
    settings = found.ingest.rules.rules[RULE.id]
    assert settings["enabled"] is False
    assert "mute" not in settings
    if threshold:
        assert settings[threshold] == 12.5


def test_what_a_version_before_knew_of_rules_has_no_effect_and_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[rules.T5]\nmute = true\n[rules.O7]\nwarn = 2\n[rules.M3]\nwarn = 0.5\n[profiles.moe.E7]\nenabled = false\n"
    text += "[rules.M6]\ncrit = 3\nwarn = 0.2\n[rules.P10]\ncrit = 0.9\n"
    for name, value in home(tmp_path, text).items():
        monkeypatch.setenv(name, value)
    assert main(["config"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"rltop: {tmp_path}/rltop/config.toml:",
        "[rules.T5] mute has no effect: T5 is part of T1 now: set mute of T1, for both",
        "[rules.O7] warn has no effect: there is no rule O7 any more",
        "[rules.M6] crit has no effect: M6 is never shown above WARN",
        "[rules.P10] crit has no effect: P10 is part of P9 now, which does not go by crit",
        "[profiles.moe.E7] enabled has no effect: E7 is part of E2 now: set enabled of E2, for both",
    ]
    assert load({}, home(tmp_path)).ingest.rules.rules == {"M3": {"warn": 0.5}, "M6": {"warn": 0.2}}


@each_row(
    ("text", "parts"),
    [
        ("[rules.ZZ9]\nmute = true", ["rules.ZZ9", "unknown rule"]),
        (f"[rules.{RULE.id}]\nmute = 1", [f"rules.{RULE.id}.mute", "true or false"]),
        (f"[rules.{RULE.id}]\nno_such_threshold = 1", [f"rules.{RULE.id}", "no_such_threshold"]),
        ("[rules.o1]\nwarn = 3", ["rules.o1", "did you mean O1?"]),
        ("[rules.O1]\nwarn = nan", ["rules.O1", "warn", "must be a number"]),
        ("[rules.O1]\nwarn = 1e400", ["1e400 is too large for a number"]),
        ("[profiles.moe.O1]\nwarn = nan", ["profiles.moe.O1", "must be a number"]),
    ],
)
def test_an_error_in_a_rule_names_the_file_too(tmp_path: Path, text: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load({}, home(tmp_path, text))
    assert str(tmp_path / "rltop" / "config.toml") in caught.value.message
    assert caught.value.hint
    for part in parts:
        assert part in str(caught.value)


def test_keys_reach_the_screen(tmp_path: Path) -> None:
    assert load({}, home(tmp_path, '[keys]\nquit = "x"\n')).ui.keymap == {"quit": "x"}


def test_how_many_steps_are_meant(tmp_path: Path) -> None:
    assert load({"total_steps": "2000"}, home(tmp_path)).ingest.total_steps == 2000


@each_row(
    ("environ", "theme", "is_ascii"),
    [
        ({"TERM": "xterm-256color"}, "dark", False),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "dark", False),
        ({"TERM": "xterm"}, "terminal", False),
        ({"TERM": "screen"}, "terminal", False),
        ({"TERM": "linux"}, "terminal", True),
        ({"TERM": "linux", "RLTOP_THEME": "dark", "RLTOP_ASCII": "no"}, "dark", False),
        ({"TERM": "something-new"}, "dark", False),
        ({"TERM": "linux", "TEXTUAL_DRIVER": WEB_DRIVER}, "dark", False),
    ],
)
def test_a_terminal_of_few_colours_gets_its_own_unless_told_otherwise(
    environ: dict[str, str], theme: str, is_ascii: bool, tmp_path: Path
) -> None:
    config = load({}, {**environ, "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)})
    assert (config.ui.theme, config.ui.is_ascii) == (theme, is_ascii)
