"""The program as a user who is not root, run from a test suite that is.

The checkout and the interpreter may lie below directories that this user cannot enter, so
everything is imported first, and each command runs in a child that gives its rights up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

NOBODY = 65534

_PROGRAM = """
import importlib, json, os, pathlib, pkgutil, re, sys
import rltop, rltop.cli, zstandard
for module in pkgutil.walk_packages(rltop.__path__, "rltop."):
    if not module.name.startswith("rltop.app.") and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        text = pathlib.Path(sys.modules[module.name].__file__).read_text()
        for late in re.findall(r"^ +(?:import|from) (\\w+)", text, re.MULTILINE):
            if late in sys.stdlib_module_names:
                importlib.import_module(late)
user, home = int(sys.argv[1]), sys.argv[2]
os.environ["HOME"] = home
for name in ("XDG_CONFIG_HOME", "RLTOP_CONFIG"):
    os.environ.pop(name, None)
said = []
for words in json.loads(sys.argv[3]):
    out, err = os.memfd_create("out"), os.memfd_create("err")
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        os.dup2(out, 1)
        os.dup2(err, 2)
        code = 99
        try:
            code = rltop.cli.main(words)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said.append([code, *(os.pread(each, 1 << 20, 0).decode() for each in (out, err))])
print(json.dumps(said))
"""


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def as_nobody(commands: Sequence[Sequence[str]], home: str = "/root") -> list[Said]:
    """Run commands as a user who may do nothing, each to its end; skips where only root could arrange that."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    words = [sys.executable, "-c", _PROGRAM, str(NOBODY), home, json.dumps(commands)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    return [Said(*each) for each in json.loads(done.stdout)]


def open_folder() -> Iterator[Path]:
    """A directory that every user can enter, as those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="rltop-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
