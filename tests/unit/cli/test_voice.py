"""What is said where there is no screen: harmless, and never a fault where it cannot be written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from programs import said_here
from tables import each_row

from rltop.cli import main

FIRING = Path(__file__).parents[3] / "fixtures" / "incidents" / "masked_nan" / "metrics.jsonl"
EVIL = "e\033[31mvil\033]0;x\007\nrltop: all is well \u202e"

INTERRUPTED = """
import os, runpy, signal, sys

wanted = sys.argv.pop(1)

class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupts())
runpy.run_module("rltop", run_name="__main__", alter_sys=True)
"""
"""Interrupts the program as it begins to import the module that is named first."""


def said(*argv: str, pipe: bytes = b"") -> tuple[int, str, str]:
    """Exit code and both outputs of the program."""
    command = [sys.executable, "-m", "rltop", *argv]
    done = subprocess.run(command, input=pipe, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def texts_in(document: object) -> list[str]:
    """Every text of a JSON document."""
    if isinstance(document, dict):
        return [*document, *texts_in(list(document.values()))]
    if isinstance(document, list):
        return [text for each in document for text in texts_in(each)]
    return [document] if isinstance(document, str) else []


def in_shell(words: str) -> tuple[int, str]:
    """Exit code and standard error of the program with its streams as a shell sets them."""
    command = ["sh", "-c", f'exec "$0" -m rltop {words}', sys.executable, str(FIRING)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stderr.decode()


@each_row(
    "argv",
    [
        ["check", f"{EVIL}.jsonl"],
        ["check", f"{EVIL}*.jsonl"],
        ["check", f"{EVIL}1.jsonl", f"{EVIL}2.jsonl"],
        ["check", "--explain", EVIL],
        ["check", "--theme", EVIL, str(FIRING)],
        ["--config", EVIL],
        [f"--{EVIL}"],
        ["--once", f"{EVIL}/"],
        ["--once", f"{EVIL}.jsonl"],
        ["replay", EVIL],
        ["watch", "--give-up", EVIL, "x"],
        ["callback", EVIL],
        ["demo", EVIL],
        ["replay", EVIL, EVIL],
        ["replay", "--from", EVIL, "x"],
        ["check", "--width", EVIL],
        ["check", "--profile", EVIL, str(FIRING)],
    ],
)
def test_nothing_that_was_typed_reaches_the_terminal_raw(argv: list[str], tmp_path: Path) -> None:
    code, out, err = said_here(*argv)
    assert code in {2, 3}
    assert not [char for char in out + err if char in "\033\007\u202e"]
    assert "\nrltop: all is well" not in out + err
    assert "\\x1b[31mvil" in out + err


def test_what_was_passed_over_is_said_harmlessly(tmp_path: Path) -> None:
    (tmp_path / f"{EVIL.replace('/', '')}.jsonl").write_text("nothing here\n")
    for argv in (["--once"], ["watch", "--give-up", "0.1"]):
        code, out, err = said_here(*argv, str(tmp_path))
        assert code == 3
        assert "\033" not in out + err and "\\x1b[31mvil" in out + err


@each_row("argv", [["--once", "--json"], ["check", "--json"], ["watch", "--json", "--give-up", "0.1"]])
def test_a_document_shows_no_character_that_commands_a_terminal_and_loses_none(argv: list[str], tmp_path: Path) -> None:
    key = "k\x00\x1b[31m\x7f\x9b31m\x9d0;\u200b\u2028\u2029\u202e\u2066\ufeff\U000e0001 é\U0001f600"
    path = tmp_path / f"{key[1:].replace(chr(0), '')}.jsonl"
    rows = [{"step": step, "loss": 1.0, key: float("nan") if step > 30 else 1.0} for step in range(1, 41)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = said_here(*argv, str(path))
    assert code in {0, 1, 4} and err == ""
    assert not [char for char in out if unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"} and char != "\n"]
    documents = [json.loads(line) for line in out.splitlines()] if argv[0] == "watch" else [json.loads(out)]
    assert {key, path.name} & {text.removeprefix(f"{tmp_path}/") for text in texts_in(documents)}


@each_row(
    "argv",
    [
        ["--once", str(FIRING)],
        ["check", str(FIRING)],
        ["check", "--json", str(FIRING)],
        ["callback"],
        ["check", "--rules"],
        ["--help"],
        ["--version"],
        ["check", "--help"],
    ],
    ids=" ".join,
)
def test_an_output_that_is_closed_or_full_is_no_fault_of_the_program(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("w") as full:
        for output, what in ((None, "closed"), (full, "No space left")):
            monkeypatch.setattr(sys, "stdout", output)
            code, err = main(argv), capsys.readouterr().err
            assert (code, err.count("\n")) == (2, 2), err
            assert what in err and "fault" not in err


def test_the_screen_and_the_end_of_the_program_bear_a_closed_and_a_full_output() -> None:
    for words, what in (('"$1" >&-', "closed"), ('"$1" >/dev/full', "No space left"), ('check "$1" >/dev/full', "No")):
        code, err = in_shell(words)
        assert (code, err.count("\n")) == (2, 2), err
        assert what in err and "fault" not in err


def test_streams_that_are_closed_are_done_without() -> None:
    assert in_shell('--once "$1" <&- >/dev/null') == (0, "")
    assert in_shell('check "$1" 2>&- >/dev/null') == (1, "")
    assert in_shell("check nothing 2>&- >&-") == (2, "")
    assert in_shell('watch --give-up 0.1 --from-now "$1" >&-')[1] == ""


def test_an_output_that_knows_only_ascii_gets_only_that(tmp_path: Path) -> None:
    path = tmp_path / "é\U0001f600.jsonl"
    path.write_bytes(FIRING.read_bytes())
    watch = ["watch", "--give-up", "0.1"]
    for argv in (["check"], ["check", "--json"], ["--once"], ["--json"], watch, [*watch, "--json"], ["callback"]):
        code, out, err = said_here(*argv, *([] if argv == ["callback"] else [str(path)]), encoding="ascii")
        assert code in {0, 1, 4} and err == ""
        assert out.isascii()
        if argv[-1] == "--json":
            shown = [json.loads(line) for line in out.splitlines()] if argv[0] == "watch" else [json.loads(out)]
            assert any("é\U0001f600" in str(each) for each in shown)


@pytest.mark.parametrize(("encoding", "code"), [("undefined", 2), ("ascii:nonsense", 1)])
def test_an_output_of_an_odd_encoding_is_no_fault_of_the_program(
    monkeypatch: pytest.MonkeyPatch, encoding: str, code: int
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    ended, _, err = said("check", str(FIRING))
    assert (ended, "PYTHONIOENCODING" in err) == (code, code == 2)


@pytest.mark.parametrize("module", ["rltop.cli", "argparse", "rltop.run.session"])
def test_an_interrupt_while_modules_are_imported_is_quiet(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, "check", "--ever", str(FIRING)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_an_interrupt_that_is_ignored_stays_ignored() -> None:
    ignoring = INTERRUPTED.replace("signal.default_int_handler", "signal.SIG_IGN")
    done = subprocess.run(
        [sys.executable, "-c", ignoring, "rltop.model", "check", str(FIRING)],
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and done.stdout


def test_standard_input_is_judged_as_a_file_that_nobody_writes_any_more(tmp_path: Path) -> None:
    file = tmp_path / FIRING.name
    file.write_bytes(FIRING.read_bytes())
    os.utime(file, (1e9, 1e9))
    through_pipe, as_file = said("check", "-", pipe=FIRING.read_bytes()), said_here("check", str(file))
    assert through_pipe[0] == as_file[0] == 1
    assert through_pipe[1].splitlines()[1:] == as_file[1].splitlines()[1:]
    code, out, _ = said("--once", "-", pipe=FIRING.read_bytes())
    assert code == 0 and "standard input" in out
    assert said("check", "-")[0] == 3


def test_standard_input_among_files(tmp_path: Path) -> None:
    code, out, _ = said("check", "-", str(FIRING), pipe=FIRING.read_bytes())
    assert code == 1 and out.count("since") >= 2
    code, _, err = said("--once", "-", str(FIRING), pipe=b"")
    assert code == 2 and "alone" in err


@each_row("argv", [["check"], ["--once"], ["replay", "--once"]])
def test_a_pipe_that_is_named_is_refused_at_once(argv: list[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    code, _, err = said_here(*argv, str(tmp_path / "fifo"))
    assert code == 2 and "not a regular file" in err
