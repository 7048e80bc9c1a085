"""`rltop callback`, `skill` and `completions`: files of the package, printed on standard output for others to read.

The writers for a trainer's environment as one file; a page for an agent that watches a run, and the JSON Schema; the
scripts that complete commands, options and files in a shell (written by docs/generate_completions.py).
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from rltop import __version__
from rltop.cli.output import say

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
    """Print the file; 0.

    Raises:
        OutputError: standard output cannot be written.
    """
    del arguments
    say(HEADER + files("rltop.integrations").joinpath("jsonl.py").read_text(encoding="utf-8"))
    return 0


def skill(arguments: Namespace) -> int:
    """Print the page, or the schema; 0.

    Raises:
        OutputError: standard output cannot be written.
    """
    schemas = {"check": "schema.json", "where": "where_schema.json"}
    name = ("report", schemas[arguments.schema]) if arguments.schema else ("cli", "skill.md")
    say(files("rltop").joinpath(*name).read_text(encoding="utf-8"))
    return 0


def completions(arguments: Namespace) -> int:
    """Print the script for a shell; 0.

    Raises:
        OutputError: standard output cannot be written.
    """
    say(files("rltop").joinpath("cli", "completions", f"rltop.{arguments.shell}").read_text(encoding="utf-8"))
    return 0
