"""Runs the program in this process; puts scripts into PATH; starts processes with the titles of a job's."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from rltop.cli import main


def in_path(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> Path:
    """Put a script first in PATH that records its arguments.

    Args:
        folder: where to write it.
        monkeypatch: restores PATH afterwards.
        name: name of the command.
        script: for `sh`; `$0.words` receives the arguments, one per line.

    Returns:
        The file with the arguments.
    """
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word" >> "$0.words"; done\n{script}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder / f"{name}.words"


@contextmanager
def titled(*words: str) -> Iterator[int]:
    """A process with this title and arguments; yields its id."""
    process = subprocess.Popen([words[0], "-c", "read line", *words[1:]], executable="/bin/sh", stdin=subprocess.PIPE)
    try:
        ends = time.monotonic() + 10.0
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(words[0].encode()):
            assert time.monotonic() < ends
            time.sleep(0.01)
        yield process.pid
    finally:
        process.communicate()


def said_here(*argv: str, encoding: str = "utf-8") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the program, run in this process with its output in files."""
    with (
        tempfile.TemporaryFile("w+", encoding=encoding) as out,
        tempfile.TemporaryFile("w+", encoding=encoding, errors="backslashreplace") as err,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            code = main(argv)
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()
