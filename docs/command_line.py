"""The command line as one parser with subcommands, which is what `shtab` and `argparse-manpage` read.

The program itself builds only the parser of the command that was typed (`rltop.cli.arguments`).
"""

from __future__ import annotations

from argparse import ArgumentParser

from rltop.cli.arguments import every_parser


def command_line() -> tuple[ArgumentParser, dict[str, ArgumentParser]]:
    """The parser of `rltop` with those of its commands below it; these by name."""
    parsers = every_parser()
    root = parsers.pop("")
    commands = root.add_subparsers(
        title="commands", metavar="COMMAND", prog="rltop", parser_class=lambda prog: parsers[prog.split()[-1]]
    )
    for name in parsers:
        commands.add_parser(name, help="")
    return root, parsers
