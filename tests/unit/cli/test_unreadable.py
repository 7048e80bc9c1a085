"""Paths that cannot be read: a sentence with the path and the reason, exit code 2, never a traceback."""

from __future__ import annotations

import errno
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import NamedTuple

import pytest
import zstandard
from fake_filesystem import FakeFileSystem, os_error
from ptys import Terminal
from tables import each_row

from rltop.cli import main
from rltop.cli.open_session import reading_error
from rltop.clock import FakeClock
from rltop.errors import EXIT_NO_METRICS, EXIT_OK, EXIT_USAGE
from rltop.run.places import FoundRun, name_of
from rltop.run.session import Session
from rltop.sources.feed import DirectFeed

ROWS = "".join(json.dumps({"step": i, "loss": 1.0 / i}) + "\n" for i in range(1, 21)).encode()
COMMANDS = (["check"], ["check", "--json"], ["--once"], ["--json"], ["watch"], ["where"])
REPLAY = ["replay", "--once"]


NOBODY = """
import importlib, json, os, pathlib, pkgutil, re, sys
import rltop, rltop.cli, zstandard
for module in pkgutil.walk_packages(rltop.__path__, "rltop."):
    if not module.name.startswith("rltop.app.") and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        text = pathlib.Path(sys.modules[module.name].__file__).read_text()
        for late in re.findall(r"^ +(?:import|from) (\\w+)", text, re.MULTILINE):
            if late in sys.stdlib_module_names:
                importlib.import_module(late)
os.environ["HOME"] = "/root"
for name in ("XDG_CONFIG_HOME", "RLTOP_CONFIG"):
    os.environ.pop(name, None)
for line in sys.stdin:
    out, err = os.memfd_create("out"), os.memfd_create("err")
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        os.dup2(out, 1)
        os.dup2(err, 2)
        code = 99
        try:
            code = rltop.cli.main(json.loads(line))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([code, *(os.pread(each, 1 << 20, 0).decode() for each in (out, err))]), flush=True)
"""
"""Runs the command of each line as a user who may do nothing.

The checkout and the interpreter may lie below directories that this user cannot enter, so everything is imported first,
and each command runs in a child that gives its rights up.
"""


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


AsNobody = Callable[[Sequence[str]], Said]


@pytest.fixture(scope="module")
def as_nobody() -> Iterator[AsNobody]:
    """Runs a command to its end as a user who is not root; skips where only root could arrange that."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with subprocess.Popen([sys.executable, "-c", NOBODY], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def ended(words: Sequence[str]) -> Said:
            print(json.dumps(words), file=asked, flush=True)
            return Said(*json.loads(answers.readline()))

        yield ended


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that every user can enter, as those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="rltop-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def put(path: Path, data: bytes = ROWS, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_what_another_user_may_not_read_is_named_with_the_reason(folder: Path, as_nobody: AsNobody) -> None:
    closed = put(folder / "0700" / "m.jsonl")
    closed.parent.chmod(0o700)
    denied = put(folder / "denied.jsonl", mode=0o600)
    unlisted = put(folder / "unlisted" / "m.jsonl").parent
    unlisted.chmod(0o711)
    paths = [str(each) for each in (closed, closed.parent, f"{closed.parent}/*.jsonl", denied, unlisted)]
    commands = [["check", path] for path in paths] + [[*command, paths[0]] for command in COMMANDS[1:]]
    commands += [[*REPLAY, str(closed)], [*REPLAY, str(denied)]]
    for words in commands:
        said = as_nobody(words)
        assert said.code == EXIT_USAGE, (words, said)
        assert words[-1].removesuffix("/*.jsonl") in said.err, words
        assert "permission denied" in said.err, words
        assert said.out == "", words


def test_among_runs_it_is_left_out_and_named_and_the_others_are_judged(folder: Path, as_nobody: AsNobody) -> None:
    good = put(folder / "good" / "metrics.jsonl")
    denied = put(folder / "denied" / "metrics.jsonl", mode=0o600)
    put(folder / "closed" / "metrics.jsonl").parent.chmod(0o700)
    commands = [["check", f"{folder}/*/metrics.jsonl"], *([*command, str(folder)] for command in COMMANDS[:4])]
    both = str(good), str(denied)
    named = [["check", *both], ["--once", *both], ["watch", "--give-up", "0.001", *both]]
    for words in commands:
        said = as_nobody(words)
        assert said.code == EXIT_OK, (words, said)
        assert f"{denied}: permission denied" in said.err, words
        assert ("closed: permission denied" in said.err) is (words[-1] == str(folder)), words
    *shown, watched = map(as_nobody, named)
    for said in shown:
        assert said.code == EXIT_USAGE
        assert "good" in said.out
        assert f"cannot read {denied}: permission denied" in said.err
    assert "20 records up to step 20" in watched.out
    assert f"cannot read {denied}: permission denied" in watched.err


def impossible(tmp_path: Path) -> dict[str, tuple[str, str]]:
    """Paths that no user can read, each with the reason."""
    (tmp_path / "round.jsonl").symlink_to("round.jsonl")
    return {
        "long": (f"{tmp_path}/{'x' * 300}", "file name too long"),
        "very long": (f"{tmp_path}/{'xx/' * 3000}m.jsonl", "file name too long"),
        "round": (str(tmp_path / "round.jsonl"), "too many levels of symbolic links"),
        "below a file": (f"{put(tmp_path / 'm.jsonl')}/m.jsonl", "not a directory"),
        "failing": ("/proc/self/mem", "input/output error"),
    }


@each_row("which", ["long", "very long", "round", "below a file", "failing"])
@each_row("command", COMMANDS, ids=" ".join)
def test_what_nobody_can_read_is_named_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], which: str
) -> None:
    path, reason = impossible(tmp_path)[which]
    assert main([*command, path]) == EXIT_USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert path[:100] in said.err
    assert reason in said.err
    assert len(said.err) < 600


def test_a_link_to_nothing_is_named_with_where_it_leads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.jsonl"
    path.symlink_to("nowhere")
    for command in COMMANDS:
        code = main([*command, *(["--give-up", "0.001"] if command == ["watch"] else []), str(path)])
        said = capsys.readouterr()
        assert code == (EXIT_NO_METRICS if command == ["watch"] else EXIT_USAGE), command
        assert f"broken symlink: it leads to {tmp_path / 'nowhere'}, which does not exist" in said.out + said.err, (
            command
        )


def test_the_screen_says_it_on_the_terminal_and_leaves_that_as_it_was(tmp_path: Path) -> None:
    path, reason = impossible(tmp_path)["long"]
    terminal = Terminal.python("-m", "rltop", path, width=400)
    try:
        assert terminal.wait() == EXIT_USAGE
        assert reason in terminal.text
        terminal.assert_untouched()
    finally:
        terminal.close()


@each_row("number", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_a_file_that_fails_in_the_middle_is_not_judged_by_its_beginning(number: int) -> None:
    fs = FakeFileSystem()
    fs.write("/m.jsonl", ROWS)
    feed = DirectFeed("/m.jsonl", fs=fs, clock=FakeClock())
    session = Session([FoundRun("/m.jsonl", name_of("/m.jsonl"))], lambda _path, _lines: feed, FakeClock())
    session.step(1_000.0)
    fs.errors = [os_error(number)] * 3
    session.drain()
    trouble = reading_error(session.runs[0])
    assert trouble.message.startswith("cannot read /m.jsonl: ")
    assert "20 records read before that, up to step 20" in trouble.message


def spoilt(folder: Path) -> Path:
    """A directory with one good run among files of which each is unreadable in its own way."""
    nested = ROWS
    for _ in range(200):
        nested = gzip.compress(nested)
    put(folder / "nested" / "metrics.jsonl.gz", nested)
    put(folder / "damaged" / "metrics.jsonl.gz", gzip.compress(ROWS)[:20] + b"garbage" * 50)
    put(folder / "deep" / "metrics.jsonl", b"[" * 200_000 + b"\n")
    for name, to in (("dangling", "nowhere.jsonl"), ("round", "metrics.jsonl"), ("up", "..")):
        (folder / name).mkdir()
        (folder / name / "metrics.jsonl").symlink_to(to)
    os.mkfifo(folder / "up" / "train.log")
    put(folder / "packed" / "metrics.jsonl.zst", zstandard.ZstdCompressor().compress(ROWS))
    return put(folder / "good" / "metrics.jsonl")


@each_row("command", COMMANDS[:4], ids=" ".join)
def test_no_file_keeps_the_others_of_its_directory_from_being_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    spoilt(tmp_path)
    assert main([*command, str(tmp_path)]) == EXIT_OK
    said = capsys.readouterr()
    assert "(4)" in said.err
    for what in ("compressed more than 4 times", "is damaged", "broken symlink", "too many levels"):
        assert what in said.err
    assert said.out.count("good") and said.out.count("packed")


def test_without_the_package_only_what_needs_it_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    spoilt(tmp_path)
    assert main(["check", str(tmp_path)]) == EXIT_OK
    said = capsys.readouterr()
    assert "packed" not in said.out
    assert "metrics.jsonl.zst: compressed with zstd" in said.err
    for command in COMMANDS:
        assert main([*command, str(tmp_path / "packed" / "metrics.jsonl.zst")]) == EXIT_USAGE
        assert "zstandard cannot be imported" in capsys.readouterr().err


def test_a_directory_without_any_other_run_says_what_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("nowhere")
    for command in COMMANDS[:4]:
        assert main([*command, str(tmp_path)]) == EXIT_NO_METRICS
        assert "broken symlink" in capsys.readouterr().err


def test_what_a_run_says_of_its_rollouts_may_be_closed_to_who_looks(folder: Path, as_nobody: AsNobody) -> None:
    closed = put(folder / "closed" / "1.jsonl").parent
    closed.chmod(0o700)
    run = put(folder / "job" / "metrics.jsonl")
    put(run.parent / "config.yaml", f"trainer:\n  rollout_data_dir: {closed / 'below'}\n".encode())
    (run.parent / "files").mkdir(mode=0o700)
    said = [as_nobody(["--once", str(run), *more]) for more in (["--rollouts", f"{closed}/1.jsonl"], [])]
    assert [each.code for each in said] == [EXIT_USAGE, EXIT_OK]
    assert "1.jsonl: Permission denied" in said[0].err


@each_row(
    ("data", "reason"),
    [
        (None, "no such file or directory"),
        (bytes(range(256)) * 20, "binary data of no known format"),
        (b"starting\n", ""),
    ],
)
def test_the_console_log_that_is_named_is_a_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes | None, reason: str
) -> None:
    rows, log = put(tmp_path / "m.jsonl"), tmp_path / "train.log"
    if data is not None:
        log.write_bytes(data)
    for command in COMMANDS:
        if command == ["watch"] and not reason:
            continue
        code = main([*command, "--log", str(log), str(rows)])
        said = capsys.readouterr().err
        assert (code == EXIT_USAGE) == bool(reason), command
        assert f"--log {log}: {reason}" in said if reason else "--log" not in said, command


def test_what_does_not_exist_ends_with_one_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["--once"], ["--json"], ["check"]):
        for path in ("gone/", "gone", "gone/below/", "gone.jsonl", "gone/x.jsonl", "gone.db"):
            assert main([*command, path]) == EXIT_USAGE, (command, path)
            assert path in capsys.readouterr().err
        assert main([*command, "gone*.jsonl"]) == EXIT_NO_METRICS


def test_binary_data_is_neither_a_console_log_nor_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("program", "train.log", "metrics.jsonl"):
        path = put(tmp_path / name, bytes(range(256)) * 20)
        for command in COMMANDS:
            assert main([*command, str(path)]) == EXIT_USAGE, command
            said = capsys.readouterr()
            assert f"{path} is binary data of no known format" in said.err
            assert said.out == ""
