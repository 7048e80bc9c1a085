"""Programs that stand in PATH for what cannot be installed, and processes that are called as those of a job."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def in_path(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> Path:
    """Put a script first in PATH that keeps what it was called with.

    Args:
        folder: where it is to lie.
        monkeypatch: takes it away again.
        name: what it is called.
        script: for `sh`; `$0.words` gets the words it was called with, a line each.

    Returns:
        The file with the words.
    """
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word" >> "$0.words"; done\n{script}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder / f"{name}.words"


@contextmanager
def titled(*words: str) -> Iterator[int]:
    """A process that is called so; its arguments stand behind the title."""
    process = subprocess.Popen([words[0], "-c", "read line", *words[1:]], executable="/bin/sh", stdin=subprocess.PIPE)
    try:
        ends = time.monotonic() + 10.0
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(words[0].encode()):
            assert time.monotonic() < ends
            time.sleep(0.01)
        yield process.pid
    finally:
        process.communicate()
