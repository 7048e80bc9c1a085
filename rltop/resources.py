"""Locations of shipped files and of the user's own; reading of TOML files.

In a checkout, themes and fixtures are at the top level; in the wheel, under `rltop/_data`. Only this module knows.
"""

from __future__ import annotations

import errno
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltop.errors import ConfigError, SourceError
from rltop.files import open_regular, replace_file

_PACKAGE = Path(__file__).resolve().parent
_LARGEST_TOML = 256 * 1024
_LONGEST_KEPT = 256
THEME, HINTED, DETAILS = "theme", "hinted", "details"
"""What the screen remembers: the theme chosen last, that the first-start hints were shown, and whether the details
pane is hidden."""


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
    """The folder of the user's settings: `$XDG_CONFIG_HOME/rltop`.

    A relative value is ignored, as the XDG base directory specification demands.
    """
    return _own_folder("XDG_CONFIG_HOME", ".config", environment)


def state_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The folder for state between sessions: `$XDG_STATE_HOME/rltop`; a relative value is ignored."""
    return _own_folder("XDG_STATE_HOME", ".local/state", environment)


def _own_folder(variable: str, usual: str, environment: Mapping[str, str] | None) -> Path:
    environment = os.environ if environment is None else environment
    home = environment.get(variable, "")
    if not Path(home).is_absolute():
        # Not `Path.expanduser`, which raises for a user without a home, common in containers.
        home = os.path.join(os.path.expanduser(environment.get("HOME") or "~"), usual)  # noqa: PTH111, PTH118
    return Path(home) / "rltop"


def load_state(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """One line of state, such as the theme; None if there is none or it cannot be read."""
    try:
        with open_regular(state_folder(environment) / name) as file:
            return file.read(_LONGEST_KEPT).decode("utf-8", "replace").partition("\n")[0].strip()
    except (OSError, ValueError):
        return None


def save_state(name: str, text: str, environment: Mapping[str, str] | None = None) -> Path:
    """Store a text in the state folder, replacing the former one.

    Raises:
        OSError: it cannot be written.
    """
    folder = state_folder(environment)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        # For example a project path that is not UTF-8.
        raise OSError(errno.EILSEQ, "a name in it is not UTF-8", str(folder / name)) from error
    replace_file(folder / name, data)
    return folder / name


def is_file(path: Path) -> bool:
    """Is it a file? False if that cannot be found out: name too long, folder not searchable."""
    return os.path.isfile(path)  # noqa: PTH113 - `Path.is_file` raises in these cases


def toml_files(place: Path) -> dict[str, Path]:
    """The TOML files of a folder by stem; empty if it cannot be listed."""
    try:
        return {path.stem: path for path in sorted(place.glob("*.toml"))}
    except (OSError, ValueError):
        return {}


def read_toml(file: Path) -> dict[str, Any]:
    """Read a user's TOML file; `/dev/null` counts as empty.

    Raises:
        ConfigError: it cannot be read, is not a regular file, or not valid TOML.
    """
    try:
        info = file.stat()
        if not stat.S_ISREG(info.st_mode) and str(file) != os.devnull:
            what = "a directory" if stat.S_ISDIR(info.st_mode) else "not a regular file"
            raise ConfigError(f"{file} is {what}", "name a TOML file")
        with file.open("rb") as opened:
            data = opened.read(_LARGEST_TOML + 1)
    except (OSError, ValueError) as error:
        refusal = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{file}: {refusal}", "name another file, or make this one readable") from error
    if len(data) > _LARGEST_TOML:
        raise ConfigError(f"{file}: larger than {_LARGEST_TOML // 1024} KiB", "name a TOML file of settings")
    try:
        text = data.decode("utf-8")
        simple = simple_toml(text)
        if simple is not None:
            return simple
        import tomllib  # noqa: PLC0415 - themes are read without it

        return tomllib.loads(text, parse_float=_float)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text: byte {error.start}", "save the file as UTF-8") from error
    except RecursionError as error:
        raise ConfigError(
            f"{file}: nested too deeply", "no setting needs more than three tables in one another"
        ) from error
    except ValueError as error:  # includes integers with more digits than Python converts
        raise ConfigError(
            f"{file}: not valid TOML: {error}", "every line is `key = value` or `[table]`; texts are quoted"
        ) from error


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value) and "inf" not in text:
        raise ValueError(f"{text} is too large for a number; inf is without end")
    return value


def simple_toml(text: str) -> dict[str, Any] | None:
    """Parse TOML tables of strings and booleans, such as a theme; None if it contains anything else.

    Importing `tomllib` takes a twentieth of the time to the first frame, which needs only a theme.
    """
    found: dict[str, Any] = {}
    table = found
    for line in text.split("\n"):
        if not line or (line.startswith("#") and line.isprintable()):
            continue
        if line.startswith("[") and line.endswith("]") and _is_bare(line[1:-1]) and line[1:-1] not in found:
            table = found[line[1:-1]] = {}
            continue
        key, equals, written = line.partition(" = ")
        value = _inline(written) if written.startswith("{") else _text_or_flag(written)
        if not equals or value is None or key in table or not _is_bare(key):
            return None
        table[key] = value
    return found


def _is_bare(key: str) -> bool:
    return key.isascii() and key.replace("-", "").replace("_", "").isalnum()


def _text_or_flag(written: str) -> str | bool | None:
    if written in ("true", "false"):
        return written == "true"
    inside = written[1:-1]
    is_text = len(written) > 1 and written[0] == written[-1] == '"' and inside.isprintable()
    return inside if is_text and '"' not in inside and "\\" not in inside else None


def _inline(written: str) -> dict[str, Any] | None:
    """Parse `{ a = "text", b = true }`."""
    found: dict[str, Any] = {}
    if not (written.startswith("{ ") and written.endswith(" }")):
        return None
    for pair in written[2:-2].split(", "):
        key, _, setting = pair.partition(" = ")
        value = _text_or_flag(setting)
        if value is None or key in found or not _is_bare(key):
            return None
        found[key] = value
    return found
