"""`rltop callback`, `skill`, `completions` and `config`: text on standard output for other programs and people.

The writers for a trainer's environment as a single file; a page for an agent that watches a run, and the JSON Schema;
shell completion scripts (written by docs/generate_completions.py); the effective settings, and the meanings given to
keys, as a config file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltop import __version__
from rltop.cli.output import write_output
from rltop.cli.resolve_paths import load_config
from rltop.config import in_force
from rltop.resources import state_folder
from rltop.run import preferences
from rltop.settings import KEYS_TABLE, METRICS_TABLE, PROFILES_TABLE, ROWS_TABLE, RULES_TABLE, SETTINGS, toml_text

if TYPE_CHECKING:
    from argparse import Namespace

HEADER = f"""\
# rltop_callback.py: printed by `rltop callback` of rltop {__version__}; copy it anywhere. Python 3.9 or newer.
#
#     from rltop_callback import JsonlCallback  # transformers, TRL, unsloth
#     trainer.add_callback(JsonlCallback("logs/metrics.jsonl"))
#
#     from rltop_callback import JsonlWriter  # your own training loop
#     log = JsonlWriter("logs/metrics.jsonl")
#     log.log(step, {{"loss": 0.5}})
#     with log.phase("rollout"):  # `rltop where logs/metrics.jsonl` names the phase in which a loop hangs
#         ...
#
# Then, on any machine that sees the file: rltop logs/metrics.jsonl
"""


def callback(arguments: Namespace) -> int:
    write_output(HEADER + files("rltop.integrations").joinpath("jsonl.py").read_text(encoding="utf-8"))
    return 0


def skill(arguments: Namespace) -> int:
    schemas = {"check": "schema.json", "where": "where_schema.json"}
    name = ("report", schemas[arguments.schema]) if arguments.schema else ("cli", "skill.md")
    write_output(files("rltop").joinpath(*name).read_text(encoding="utf-8"))
    return 0


def completions(arguments: Namespace) -> int:
    write_output(files("rltop").joinpath("cli", "completions", f"rltop.{arguments.shell}").read_text(encoding="utf-8"))
    return 0


def print_config(arguments: Namespace) -> int:
    """Print every setting with its origin, and the meanings of keys by project; returns 0.

    Raises:
        ConfigError: a setting is invalid.
    """
    config = load_config(arguments)
    found = in_force(vars(arguments), os.environ, Path(arguments.config) if arguments.config else None)
    lines = [f"# config file: {found.file or 'none'}"]
    for setting in SETTINGS:
        value, origin = found.values[setting.name], found.origins.get(setting.name)
        line = f"{setting.name} = {toml_text(value)}"
        lines.append(f"# {line}  (default)" if origin is None or value is None else f"{line}  # {origin}")
    lines += _rules(RULES_TABLE, found.rules)
    for profile, rules in found.profiles.items():
        lines += _rules(f"{PROFILES_TABLE}.{profile}", rules)
    if found.keymap:
        lines += ["", f"[{KEYS_TABLE}]", *(f"{name} = {toml_text(keys)}" for name, keys in found.keymap.items())]
    lines += ["", f"# what keys mean, by project; said on the screen: {_state(preferences.MEANINGS_FILE)}"]
    lines.append(
        preferences.meanings_text(config.ingest.meanings, f"{METRICS_TABLE}.").rstrip() or "# nothing was said"
    )
    lines += [
        "",
        f"# pinned, hidden and renamed rows, by project; arranged on the screen: {_state(preferences.ROWS_FILE)}",
    ]
    lines.append(preferences.rows_text(config.ingest.rows, f"{ROWS_TABLE}.").rstrip() or "# nothing was arranged")
    lines += [
        "",
        f"# thresholds and mutes, by run, project or everywhere; set on the screen: {_state(preferences.RULES_FILE)}",
    ]
    own = preferences.rules_text(config.ingest.own_rules).rstrip()
    # Commented out: scopes of run and project have no tables in the config file.
    lines += [f"# {line}".rstrip() for line in own.splitlines()] or ["# nothing was set"]
    write_output("\n".join(lines) + "\n")
    return 0


def _state(name: str) -> Path:
    return state_folder() / name


def _rules(table: str, rules: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for rule, entries in rules.items():
        yield ""
        yield f"[{table}.{rule}]"
        yield from (f"{name} = {toml_text(value)}" for name, value in entries.items())
