"""Writes docs/rltop.1, which the wheel installs, by argparse-manpage: `python docs/generate_man.py`."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from pathlib import Path

from argparse_manpage.manpage import Manpage
from command_line import command_line

from rltop import __version__

TARGET = Path(__file__).with_name("rltop.1")


def page() -> str:
    """The whole page, in ASCII: what shows it may expect any encoding."""
    root, commands = command_line()
    notes = [f".nf\n{_roff(root)}\n.fi"]
    for parser in commands.values():
        parser.usage = _usage(parser)
        # The same for every command, and told once.
        parser._action_groups = [group for group in parser._action_groups if group.title != "settings"]
        if parser.epilog:
            notes.append(f".SS {parser.prog}\n" + _roff(parser).replace("\nexit codes", "\n.PP\nexit codes"))
    root.epilog = None
    man = Manpage(
        root,
        {
            "project_name": "rltop",
            "version": __version__,
            "date": " ",
            "manual_title": "User Commands",
            "description": "top for reinforcement-learning runs of language models",
        },
        format="single-commands-section",
    )
    man.add_section("synopsis", "=", ".B rltop\n[OPTION ...] [PATH ...]\n.br\n.B rltop\nCOMMAND ...")
    man.add_section("notes", "=", "\n".join(notes))
    return "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in str(man))


def _usage(parser: ArgumentParser) -> str:
    operands = (
        f" {one.metavar or one.dest.upper()}{' ...' * (one.nargs in ('*', '+'))}"
        for one in parser._get_positional_actions()
    )
    return f"{parser.prog} [OPTION ...]{''.join(operands)}"


def _roff(parser: ArgumentParser) -> str:
    text = (parser.epilog or "").replace("\\", "\\e").replace("-", r"\-")
    return re.sub(r"(?m)^(?=[.'])", r"\\&", text)


if __name__ == "__main__":
    TARGET.write_text(page())
