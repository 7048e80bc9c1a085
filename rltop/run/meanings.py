"""What a person has said of keys: what they mean, which rows they get; kept by project, in the user's state.

A project is a repository, or the folder above a run's own. What was said of it holds for
every run below it; a nearer project comes before one further up.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rltop.catalog.guesses import said_meaning
from rltop.catalog.row_sets import AS_FOUND, MOST_ROWS, Arrangement
from rltop.errors import ConfigError
from rltop.resources import is_file, keep, read_toml, state_folder
from rltop.run.places import home_of
from rltop.settings import METRICS_TABLE, ROWS_TABLE

FILE_NAME = "metrics.toml"
ROWS_FILE = "rows.toml"
NO_METRIC = ""
"""Said of a key that is no metric of the catalogue, whatever its name suggests."""
_HEAD = "# Written by rltop: {}, by project; printed by `rltop config`.\n"
_MARKS = (".git", ".hg", "pyproject.toml")

Meanings = Mapping[str, Mapping[str, str]]
"""Project → key → canonical name, with ` / 100` behind it where the key is logged in percent."""
NONE: Meanings = MappingProxyType({})


def project_of(path: str) -> str:
    """The project that a run at `path` belongs to: its repository, else the folder above its own."""
    home = home_of(Path(path).absolute().parent)
    user = Path("~").expanduser() if "HOME" in os.environ else None
    for folder in (home, *home.parents):
        if folder == user or not folder.name:
            break
        if any((folder / mark).exists() for mark in _MARKS):
            return str(folder)
    return str(home.parent if home.parent.name else home)


def of_path(path: str, meanings: Meanings) -> Mapping[str, str]:
    """What the keys of a run mean: what was said of any project above it, the nearest last and so strongest."""
    if not meanings:
        return {}
    above = {str(folder) for folder in Path(path).absolute().parents}
    found: dict[str, str] = {}
    for project in sorted((project for project in meanings if project in above), key=len):
        found.update(meanings[project])
    return found


def load(configured: Meanings, environment: Mapping[str, str] | None = None) -> Meanings:
    """What the config file says and what was said on the screen, which comes before it.

    Raises:
        ConfigError: the config file names something that is no metric.
    """
    for project, keys in configured.items():
        for key, name in keys.items():
            if name != NO_METRIC and said_meaning(name) is None:
                raise ConfigError(
                    f"`metrics.{project}.{key}` is {name}: no such metric",
                    "docs/metrics.md has the canonical names; `success_frac / 100` is a key that is logged in percent",
                )
    told = said_in(FILE_NAME, METRICS_TABLE, environment)
    if not told:
        return configured or NONE
    found = {project: dict(keys) for project, keys in configured.items()}
    for project, keys in told.items():
        texts = {key: name for key, name in keys.items() if isinstance(name, str)}
        known = {key: name for key, name in texts.items() if name == NO_METRIC or said_meaning(name) is not None}
        found.setdefault(project, {}).update(known)
    return found


def said_in(name: str, table: str, environment: Mapping[str, str] | None) -> dict[str, dict[str, Any]]:
    """The tables of a state file by project, or by run; none of a file that cannot be read, or is none.

    A person may have written it with the heads of the config file, where all of them are in one table.
    """
    file = state_folder(environment) / name
    if not is_file(file):
        return {}
    try:
        told = read_toml(file)
    except ConfigError:
        return {}
    below = told.pop(table, {})
    return {
        key: value
        for key, value in (told | (below if isinstance(below, dict) else {})).items()
        if isinstance(value, dict)
    }


def with_one(meanings: Meanings, project: str, key: str, metric: str | None) -> Meanings:
    """The same with one key more.

    Args:
        metric: canonical name, `NO_METRIC`, or None to forget what was said.

    Returns:
        New tables; a project of which nothing is said any more is left out.
    """
    own = {name: each for name, each in meanings.get(project, {}).items() if name != key}
    if metric is not None:
        own[key] = metric
    rest = {name: each for name, each in meanings.items() if name != project}
    return {**rest, project: own} if own else rest


def save(meanings: Meanings, environment: Mapping[str, str] | None = None) -> Path:
    """Write everything that was said, in place of what the file held.

    Raises:
        OSError: it cannot be written.
    """
    return keep(FILE_NAME, _HEAD.format("what keys mean") + text(meanings), environment)


def text(meanings: Meanings, prefix: str = "") -> str:
    """The tables as TOML: a table of each project, a line of each key."""
    lines = []
    for project, keys in sorted(meanings.items()):
        lines.append(f"[{prefix}{quoted(project)}]")
        lines += [f"{quoted(key)} = {quoted(name)}" for key, name in sorted(keys.items())]
        lines.append("")
    return "\n".join(lines)


def quoted(text: str) -> str:
    """A TOML string; control characters are written as escapes."""
    body = "".join(
        f"\\u{ord(char):04x}" if ord(char) < 0x20 or ord(char) == 0x7F else {'"': '\\"', "\\": "\\\\"}.get(char, char)
        for char in text
    )
    return f'"{body}"'


Arrangements = Mapping[str, Arrangement]
"""Project → which rows its runs get."""


def arrangement_of(table: object) -> Arrangement | None:
    """What a table of the config file or of the state file says; None where it is no such table."""
    if not isinstance(table, dict) or not table.keys() <= {"pinned", "hidden", "names"}:
        return None
    pinned, hidden, names = table.get("pinned", []), table.get("hidden", []), table.get("names", {})
    if not (isinstance(pinned, list) and isinstance(hidden, list) and isinstance(names, dict)):
        return None
    if not all(isinstance(one, str) for one in (*pinned, *hidden, *names.values())):
        return None
    found = AS_FOUND
    for key, name in list(names.items())[:MOST_ROWS]:
        found = found.with_name(key, name)
    pinned, hidden = list(dict.fromkeys(pinned))[:MOST_ROWS], list(dict.fromkeys(hidden))[:MOST_ROWS]
    return found._replace(pinned=tuple(pinned), hidden=tuple(one for one in hidden if one not in pinned))


def rows_of_path(path: str, rows: Arrangements) -> Arrangement:
    """Which rows a run gets: what was said of the nearest project above it."""
    if not rows:
        return AS_FOUND
    above = (str(folder) for folder in Path(path).absolute().parents)
    return next((rows[folder] for folder in above if folder in rows), AS_FOUND)


def load_rows(
    configured: Mapping[str, Mapping[str, object]], environment: Mapping[str, str] | None = None
) -> Arrangements:
    """What the config file says and what was arranged on the screen, which comes before it, project by project.

    Raises:
        ConfigError: a table of the config file is none of rows.
    """
    found = {}
    for project, table in configured.items():
        said = arrangement_of(table)
        if said is None:
            raise ConfigError(
                f"`rows.{project}` must have lists of keys `pinned` and `hidden`, and a table `names`",
                'for example pinned = ["reward", "grad_norm"]',
            )
        found[project] = said
    told = said_in(ROWS_FILE, ROWS_TABLE, environment)
    return found | {project: said for project, table in told.items() if (said := arrangement_of(table)) is not None}


def save_rows(rows: Arrangements, environment: Mapping[str, str] | None = None) -> Path:
    """Write every arrangement, in place of what the file held.

    Raises:
        OSError: it cannot be written.
    """
    return keep(ROWS_FILE, _HEAD.format("pinned, hidden and renamed rows") + rows_text(rows), environment)


def rows_text(rows: Arrangements, prefix: str = "") -> str:
    lines = []
    for project, one in sorted(rows.items()):
        lines.append(f"[{prefix}{quoted(project)}]")
        lines += [
            f"{name} = [{', '.join(quoted(key) for key in keys)}]"
            for name, keys in (("pinned", one.pinned), ("hidden", one.hidden))
        ]
        if one.names:
            lines += ["", f"[{prefix}{quoted(project)}.names]"]
            lines += [f"{quoted(key)} = {quoted(name)}" for key, name in sorted(one.names)]
        lines.append("")
    return "\n".join(lines)
