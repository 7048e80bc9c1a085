"""Where the files that ship with the program are: themes and fixtures.

In a checkout they stand at the top level; in the wheel under `rltop/_data`.
Owns that one difference; knows nothing of what is in the files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rltop.errors import SourceError

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The shipped folder `name`: `themes` or `fixtures`.

    Raises:
        SourceError: the installation lacks it.
    """
    for candidate in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise SourceError(f"this installation has no {name}/ folder", "install rltop again: the wheel brings it along")


def config_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where a person keeps their own settings: `$XDG_CONFIG_HOME/rltop`.

    The XDG base directory specification: a relative value is to be ignored.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("XDG_CONFIG_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path(environment.get("HOME") or "~").expanduser() / ".config"
    return base / "rltop"
