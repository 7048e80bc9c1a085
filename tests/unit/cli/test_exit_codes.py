"""Exit code 70 is for faults of the program: nothing that is typed, set or lies on a disk leads to it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from ptys import Terminal
from tables import each_row

from rltop import resources
from rltop.cli import main
from rltop.settings import SETTINGS

LONG = "x" * 100_000
DIGITS = "9" * 5_000
TEXTS = [
    "", " ", "0", "-1", "1.5", "nan", "-inf", "1e999", "²", "true", "None", "a,b,,", "../../etc/passwd", "~nobody/x",
    "[", "**/*", "%s{0}", "\x1b[31m\u202e", "\udcff", "é\U0001f600", "\0", DIGITS, LONG,
]  # fmt: skip
"""What may stand where a value is expected, in a flag or, NUL aside, in the environment."""
LITERALS = [
    '""', '"\\u0000"', '"\\u001b[31m"', f'"{"x" * 200_000}"', "0", "-1", "9" * 400, DIGITS, "0x" + "f" * 5_000, "nan",
    "-inf", "1e999", "true", "[]", "[" * 300 + "]" * 300, "[" * 20_000, "{a = {b = 1}}", "1979-05-27", "07:32:00",
]  # fmt: skip
"""What TOML lets stand there."""
SMALL = [text for text in TEXTS if len(text) < 100]
CODES = {0, 1, 2, 3, 4}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": i, "loss": 0.1, "reward": 0.5}) + "\n" for i in range(1, 6)))
    return path


@pytest.fixture(autouse=True)
def files_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand where a word may mean files of every format, and always the same ones."""
    monkeypatch.chdir(resources.folder("fixtures"))


@contextlib.contextmanager
def environment(**changes: str | None) -> Iterator[None]:
    """Variables set, or taken away where they are None."""
    before = dict(os.environ)
    try:
        for name, value in changes.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def ended(*argv: object) -> tuple[int, str]:
    """Exit code and standard error of the program, run in this process."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            code = main([str(each) for each in argv])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    return code, said.getvalue()


def assert_no_fault(*argv: object) -> int:
    """The exit code, which is not that of a fault; what is said of it is short and has no escapes."""
    code, said = ended(*argv)
    assert code in CODES, f"{str(argv)[:300]}: {code}\n{said[:2_000]}"
    assert "Traceback" not in said and "\033" not in said
    assert len(said) < 20_000
    return code


def unread(name: str, text: str) -> bool:
    """Is this a value that is looked for as a file of completions, which has tests of its own?"""
    return name == "rollouts" and ("\\u0000" in text or "\0" in text or len(text) > 100)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_setting_of_any_value_from_anywhere_is_no_fault(setting: object, rows: Path, tmp_path: Path) -> None:
    name, flag, variable = (getattr(setting, each) for each in ("name", "flag", "variable"))
    commands = (["check"], ["--once"], ["--json"])
    # Flag and variable take turns: what they say is read by the same reader.
    for number, text in enumerate(TEXTS, SETTINGS.index(setting)):
        if unread(name, text):
            continue
        if number % 2 or "\0" in text:
            assert_no_fault(*commands[number % 3], rows, f"{flag}={text}")
        else:
            with environment(**{variable: text}):
                assert_no_fault(*commands[number % 3], rows)
    config = tmp_path / "config.toml"
    for number, literal in enumerate(LITERALS):
        if not unread(name, literal):
            config.write_text(f"{name} = {literal}\n")
            assert_no_fault(*commands[number % 3], rows, "--config", config)


TABLES = [
    ("rules", "O1"), ("rules.L4", "warn_s"), ("rules.L4", "mute"), ("rules.L4", "enabled"), ("rules.O11.level", "mute"),
    ("profiles", "moe"), ("profiles.moe", "M1"), ("keys", "quit"), ("keys", '"\\u0000"'), ("a.b", "c"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "key"), TABLES)
def test_a_table_of_any_content_is_no_fault(table: str, key: str, rows: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    for literal in [*LITERALS, '"q"\n' + ".".join(["deep"] * 2_000) + " = 1"]:
        config.write_text(f"[{table}]\n{key} = {literal}\n")
        assert_no_fault("check", rows, "--config", config)


FLAGS = [
    (["check"], ["--width", "--fail-on", "--since", "--explain", "--config"]),
    (["watch", "--give-up=0.01"], ["--on-crit", "--pid", "--timeout"]),
    (["replay", "--once"], ["--speed", "--from", "--width"]),
]


@pytest.mark.parametrize(("command", "flags"), FLAGS)
def test_an_option_of_any_value_is_no_fault(command: list[str], flags: list[str], rows: Path) -> None:
    for flag in flags:
        for text in TEXTS:
            assert_no_fault(*command, rows, f"{flag}={text}")


def test_giving_up_after_anything_is_no_fault(rows: Path) -> None:
    for text in ("", "0", "-1", "nan", "²", "0.01", DIGITS, LONG):
        assert_no_fault("watch", rows, f"--give-up={text}")


WORDS = [
    "check", "watch", "replay", "demo", "callback", "--once", "--json", "--live", "--rules", "--explain", "O11",
    "--ever", "--since", "3", "--width", "-h", "--version", "--", "--no-mouse", "--ascii", "--speed", "--from", "0.5",
    "--theme", "terminal", "--profile", "moe", "--color", "always", "nothing.jsonl", "nothing/", "*.nothing", "--chek",
    "-x", *SMALL,
]  # fmt: skip


@examples(30)
@given(words=st.lists(st.sampled_from([word for word in WORDS if "\0" not in word]), max_size=6))
def test_words_in_any_order_are_no_fault(words: list[str], rows: Path) -> None:
    if "watch" in words[:1]:
        words = [*words, "--give-up=0.01"]
    looks_here = not any(word and not word.startswith("-") for word in words)
    assert_no_fault(*words, *([rows] if looks_here or words[:1] in (["check"], ["watch"], ["replay"]) else []))


@each_row("what", ["fifo", "folder", "loop", "long", "huge", "binary", "/dev/zero", "/dev/null", "-"])
def test_a_config_file_of_any_kind_is_no_fault(what: str, rows: Path, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    if what == "fifo":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "loop":
        path.symlink_to(path)
    elif what == "huge":
        with path.open("wb") as file:
            file.truncate(10**11)
    elif what == "binary":
        path.write_bytes(bytes(range(256)))
    elif what == "long":
        path = tmp_path / ("x" * 5_000)
    else:
        path = Path(what)
    assert assert_no_fault("check", rows, "--config", path) == (0 if what == "/dev/null" else 2)
    with environment(RLTOP_CONFIG=str(path)):
        assert assert_no_fault("--once", rows) == (0 if what == "/dev/null" else 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"HOME": None},
        {"HOME": ""},
        {"HOME": "relative"},
        {"HOME": "/dev/null"},
        {"HOME": "x" * 5_000},
        {"XDG_CONFIG_HOME": "relative"},
        {"XDG_CONFIG_HOME": "/dev/null"},
        {"XDG_CONFIG_HOME": "/" + "x" * 5_000},
        {"XDG_CONFIG_HOME": "/\n\033[31m"},
        {"RLTOP_CONFIG": "~nobody-of-this-name/config.toml"},
        {"RLTOP_": "x"},
        {"RLTOP_TEHME": "x"},
        {"RLTOP_DEBUG": "1", "RLTOP_THEME": LONG},
        {"COLUMNS": DIGITS},
        {"COLUMNS": "²"},
        {"COLUMNS": "1000000000", "LINES": "-1"},
        {"TERM": "x" * 5_000},
        {"LC_ALL": "xx_YY.nonsense", "LANGUAGE": "/etc"},
        {"TZ": "x" * 5_000},
        {"TMPDIR": "/nowhere"},
    ],
)
def test_an_environment_of_any_kind_is_no_fault(changes: dict[str, str | None], rows: Path) -> None:
    with environment(**changes):
        for argv in (["check"], ["--once"], ["check", "--theme", "nope"], ["watch", "--give-up", "0.01"]):
            assert_no_fault(*argv, rows)


def state_tables(place: str, words: str, rows: Path, **variables: str) -> tuple[int, str]:
    """Exit code and standard error of the program as a shell starts it after `place`."""
    done = subprocess.run(
        ["sh", "-c", f'{place}; exec "$0" -m rltop {words}', sys.executable, str(rows)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), **variables},
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("words", ["--once x.jsonl", "watch --give-up 0.1 ."])
def test_a_relative_path_in_a_directory_that_was_deleted_is_said(words: str, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    code, said = state_tables(f"cd {tmp_path}/gone; rmdir {tmp_path}/gone", words, rows)
    assert code == 2 and "the current directory cannot be used" in said


def test_a_whole_path_needs_no_directory_to_stand_in(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    assert state_tables(f"cd {tmp_path}/gone; rmdir {tmp_path}/gone", 'check "$1"', rows)[0] == 0


def test_an_output_without_a_locale_is_no_fault(rows: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in ('--once "$1"', "watch --give-up 0.1 é"):
        assert state_tables(":", words, rows, **plain)[0] in CODES


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_folders_that_another_user_may_not_read_are_no_fault(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "rltop" / "themes").mkdir(parents=True)
    (tmp_path / "rltop" / "config.toml").write_text("")
    tmp_path.chmod(0o700)
    script = f"""
import os
from rltop.cli import main
for each in (["check"], ["--once", "--theme", "nope"], ["--once", "--config", "{tmp_path}/rltop/config.toml"]):
    main([*each, "/dev/null"])  # as root: another user need not be able to import anything
    pid = os.fork()
    if not pid:
        os.setgid(65534); os.setuid(65534)
        os._exit(main([*each, "/dev/null"]))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2, each
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "refuses" not in done.stderr and "Permission denied" in done.stderr


def test_the_screen_stands_whatever_the_environment_says(rows: Path) -> None:
    variables = {
        "TEXTUAL_COLOR_SYSTEM": "x", "TEXTUAL_FPS": "9" * 400, "TEXTUAL": "headless,devtools", "TEXTUAL_PRESS": "q",
        "TEXTUAL_LOG": "/nowhere/log", "TEXTUAL_DRIVER": "x:y", "ESCDELAY": "9" * 400, "COLUMNS": "²", "LINES": DIGITS,
    }  # fmt: skip
    with contextlib.closing(Terminal.python("-m", "rltop", str(rows), **variables)) as terminal:
        terminal.until_text("Help")
        terminal.press("?")
        terminal.until_still(0.3)
        terminal.press("\x1b")
        terminal.until_still(0.3)
        terminal.quit("q")
