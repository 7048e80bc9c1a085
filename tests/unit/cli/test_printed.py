"""What the program prints for others to read: completions, the man page, the page for an agent, the short help."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from rltop.cli import main
from rltop.cli.arguments import every_parser
from rltop.cli.plain import COMMANDS

MAN = Path(__file__).resolve().parents[3] / "docs" / "rltop.1"
SHELLS = ("bash", "zsh", "fish")

COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
compopt() { :; }
_shtab_rltop; printf '%s\\n' "${COMPREPLY[@]}"
"""


def options() -> dict[str, set[str]]:
    """Command → its options, as they are typed."""
    return {
        name: {option for action in parser._actions for option in action.option_strings}
        for name, parser in every_parser().items()
    }


@pytest.fixture
def scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with what completes in each shell, and a few files."""
    for shell in SHELLS:
        assert main(["completions", shell]) == 0
        (tmp_path / f"rltop.{shell}").write_text(capsys.readouterr().out)
    for name in ("metrics.jsonl", "checkpoints/a", "runs/a.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def in_bash(folder: Path, line: str) -> set[str]:
    command = ["bash", "-c", COMPLETE, "bash", "rltop.bash", *line.split(" ")]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout.split())


def in_fish(folder: Path, line: str) -> set[str]:
    command = ["fish", "--no-config", "-c", f"source rltop.fish; complete -C {line!r}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return {one.split("\t")[0].rstrip("/") for one in done.stdout.splitlines()}


@pytest.mark.parametrize(("shell", "complete"), [("bash", in_bash), ("fish", in_fish)])
def test_commands_options_values_and_files_are_completed(
    shell: str, complete: Callable[[Path, str], set[str]], scripts: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    assert complete(scripts, "rltop c") == {"callback", "check", "checkpoints", "completions", "config"}
    assert "metrics.jsonl" in complete(scripts, "rltop metr")
    assert "--theme" in complete(scripts, "rltop --th")
    assert complete(scripts, "rltop metrics.jsonl --on") == {"--once"}
    assert complete(scripts, "rltop check --e") == {"--ever", "--explain"}
    assert not complete(scripts, "rltop check --on-c")
    assert complete(scripts, "rltop check --fail-on ") == {"warn", "crit"}
    assert complete(scripts, "rltop --color ") == {"auto", "always", "never"}
    assert complete(scripts, "rltop check --log metr") == {"metrics.jsonl"}
    assert complete(scripts, "rltop check metrics.jsonl runs/") == {"runs/a.jsonl"}
    assert complete(scripts, "rltop completions ") == set(SHELLS)


@pytest.mark.parametrize(
    "load", ["source rltop.zsh", 'eval "$(cat rltop.zsh)"', "fpath=($PWD/functions $fpath); compinit -D"]
)
def test_zsh_completes_them_however_it_has_got_the_script(load: str, scripts: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh")
    (scripts / "functions").mkdir()
    shutil.copy(scripts / "rltop.zsh", scripts / "functions" / "_rltop")
    shell = pexpect.spawn(
        "zsh", ["-f", "-i"], cwd=scripts, encoding="utf-8", timeout=10, env=os.environ | {"TERM": "dumb"}
    )
    shell.sendline(
        f"autoload -Uz compinit; compinit -u -D; {load}; rltop() {{ print -rl - '<' $@ '>' }}; print rea''dy"
    )
    shell.expect("ready\r\n")
    for typed, words in {
        "chec": ["check"],
        "metr": ["metrics.jsonl"],
        "metrics.jsonl --on": ["metrics.jsonl", "--once"],
        "check --ev": ["check", "--ever"],
        "check --fail-on c": ["check", "--fail-on", "crit"],
        "check --log metr": ["check", "--log", "metrics.jsonl"],
        "check metrics.jsonl runs/": ["check", "metrics.jsonl", "runs/a.jsonl"],
        "completions fi": ["completions", "fish"],
    }.items():
        shell.send(f"rltop {typed}\t\r")
        shell.expect_exact("\r\n".join(["\n<", *words, ">"]))
    shell.close(force=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_is_completed_in_every_shell(shell: str, scripts: Path) -> None:
    text = (scripts / f"rltop.{shell}").read_text()
    names = set.union(*options().values())
    assert {"--fail-on", "--on-crit", "--theme", "--schema"} <= names
    if shell == "fish":
        names = {f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in names}
    assert not [name for name in names if name not in text]


def test_the_man_page_has_every_command_and_option_and_is_clean() -> None:
    page = MAN.read_text()
    assert page.isascii()
    assert all(rf".SS \fBrltop {command}\fR" in page for command in COMMANDS)
    if shutil.which("groff"):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww"], input=page, text=True, capture_output=True, check=True, timeout=20
        )
        assert not done.stderr
        shown = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout)
        assert not [name for name in set.union(*options().values()) - {"-h", "--help"} if name not in shown]


def test_the_help_fits_one_screen_and_the_whole_help_has_the_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--help"])
    short = capsys.readouterr().out
    assert len(short.splitlines()) <= 24
    assert max(map(len, short.splitlines())) <= 90
    assert "--theme TEXT" not in short
    assert all(command in short for command in COMMANDS)
    for words in ([], ["check"], ["watch"], ["replay"], ["demo"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--help-all"])
        assert ended.value.code == 0
        assert "--theme TEXT" in capsys.readouterr().out


def test_the_page_for_an_agent_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill"]) == 0
    page = capsys.readouterr().out
    assert not set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page)) - set.union(*options().values())
    assert main(["skill", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    keys = set(schema["$defs"]["check"]["properties"]) | set(schema["$defs"]["verdict"]["properties"])
    assert {"level", "worst", "incidents", "verdicts", "advice", "headline", "since_step", "schema"} <= keys
