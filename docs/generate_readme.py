"""Renews the table of trainers in README.md, which comes from the code: `python docs/generate_readme.py`.

It stands between `<!-- begin: trainers -->` and `<!-- end: trainers -->`; the words around
it are written by hand.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from rltop.trainers import ALL, GENERIC, SETUP_HINTS

TARGET = Path(__file__).parents[1] / "README.md"

_BLOCK = re.compile(r"(<!-- begin: trainers -->\n).*?(<!-- end: trainers -->)", re.DOTALL)


def trainers() -> str:
    """What is read today, and what its users do for it."""
    named = {dialect.name for dialect in ALL if dialect is not GENERIC}
    lines = ["| trainer | what you do | keys known by name |", "|---|---|---|"]
    followed = [entry for entry in SETUP_HINTS if entry.is_followed]
    for line, entries in groupby(followed, key=lambda entry: entry.line or entry.writes):
        listed = list(entries)
        names = ", ".join(entry.trainer for entry in listed)
        what = f"`{line}`" if listed[0].line else f"nothing: `{line}` is there by default"
        lines.append(f"| {names} | {what} | {'yes' if listed[0].trainer in named else '–'} |")
    others = ", ".join(entry.trainer for entry in SETUP_HINTS if not entry.is_followed)
    if others:
        lines += ["", f"No file of their own that rltop reads yet, but for their console log: {others}."]
    return "\n".join(lines)


def page() -> str:
    """The README with its table renewed."""
    return _BLOCK.sub(lambda block: f"{block[1]}{trainers()}\n{block[2]}", TARGET.read_text())


if __name__ == "__main__":
    TARGET.write_text(page())
