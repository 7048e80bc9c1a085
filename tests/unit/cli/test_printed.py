"""What the program prints for others to read: completions, the man page, the page for an agent, the short help."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rltop.cli import main
from rltop.cli.arguments import every_parser
from rltop.cli.completions import SHELLS, completions, flags_of, man_page
from rltop.cli.plain import COMMANDS

COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
compopt() { :; }
_rltop; printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(script: Path, *words: str) -> set[str]:
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", str(script), *words],
        capture_output=True, text=True, check=True, cwd=script.parent, timeout=20,
    )  # fmt: skip
    return set(done.stdout.split())


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    assert main(["completions", "bash"]) == 0
    path = tmp_path / "rltop.bash"
    path.write_text(capsys.readouterr().out)
    return path


def test_bash_completes_commands_options_values_and_files(script: Path) -> None:
    (script.parent / "metrics.jsonl").write_text("")
    assert {"check", "completions"} <= completed(script, "rltop", "c")
    assert {"--ever", "--explain"} <= completed(script, "rltop", "check", "--e")
    assert "--on-crit" not in completed(script, "rltop", "check", "--o")
    assert completed(script, "rltop", "check", "--fail-on", "") == {"warn", "crit"}
    assert completed(script, "rltop", "completions", "") == set(SHELLS)
    assert "metrics.jsonl" in completed(script, "rltop", "metr")
    assert "--theme" in completed(script, "rltop", "--th")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_is_completed_in_every_shell(shell: str) -> None:
    parsers = every_parser()
    text = completions(shell, parsers)
    names = {name for parser in parsers.values() for flag in flags_of(parser) for name in flag.names}
    assert {"--fail-on", "--on-crit", "--theme", "--schema"} <= names
    if shell == "fish":
        names = {f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in names}
    assert not [name for name in names if name not in text]
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, text=True, check=True, timeout=20)


def test_the_man_page_has_every_command_and_is_clean() -> None:
    page = man_page(every_parser(), "1.0")
    assert all(f".B rltop {command}" in page for command in COMMANDS)
    if shutil.which("groff"):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww"], input=page, text=True, capture_output=True, check=True, timeout=20
        )
        assert not done.stderr
        assert "--fail-on" in re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout)


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
    options = {name for parser in every_parser().values() for flag in flags_of(parser) for name in flag.names}
    assert not set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page)) - options
    assert main(["skill", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    keys = set(schema["$defs"]["check"]["properties"]) | set(schema["$defs"]["verdict"]["properties"])
    assert {"level", "worst", "incidents", "verdicts", "advice", "headline", "since_step", "schema"} <= keys
