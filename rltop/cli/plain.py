"""The command line as it is typed most: `rltop`, or `rltop PATH ...`, and no option.

`argparse`, with what it imports to translate its messages and to measure the
terminal, takes a tenth of the time to the first frame, and has nothing to do here.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from rltop.cli.importing import importing

if TYPE_CHECKING:
    from argparse import Namespace

COMMANDS = ("callback", "check", "watch", "replay", "demo")
"""First words that are not paths."""


def plain(argv: Sequence[str]) -> Namespace | None:
    """What `arguments.parse` makes of paths alone; None where there is anything else."""
    if any(word.startswith("-") for word in argv) or (argv and argv[0] in COMMANDS):
        return None
    found = SimpleNamespace(command=show, paths=list(argv), config=None, once=False, json=False, live=False, width=None)
    return cast("Namespace", found)


def show(arguments: Namespace) -> int:
    """Watch what was named, or what the current directory has."""
    with importing():
        from rltop.cli import show as screen_or_text

    return screen_or_text.show(arguments)
