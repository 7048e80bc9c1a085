"""The command line: commands, options and their help."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from rltop import __version__
from rltop.cli.output import MAX_WIDTH, MIN_WIDTH, flush_output, shortened, text_width, write_output
from rltop.cli.plain import COMMANDS, check, importing, nearest_of, refuse_mistyped, show
from rltop.settings import add_flags


class _Parser(argparse.ArgumentParser):
    """Escapes control characters in usage errors, and reports failed writes of help and version."""

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse ignores errors such as a full disk or a closed output here.
        if file is sys.stdout:
            write_output(message)
            flush_output()
        else:
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        from rltop.model import Label

        super().error(Label.of(shortened(message)).display)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, with a suggestion for a mistyped option.

        Raises:
            RltopError: a command was mistyped, or is not the first word.
            SystemExit: for what argparse refuses, and for unknown options.
        """
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            if known.command is show:
                refuse_mistyped(known.paths)
            option = next((word.partition("=")[0] for word in unknown if word.startswith("--")), "")
            close = nearest_of(option, self._option_string_actions) if option else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}" + (f"; did you mean {close}?" if close else ""))
        return known, unknown


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse arguments into a namespace; its `command` runs them.

    Raises:
        SystemExit: for --help and --version, and for what argparse refuses.
    """
    if argv and argv[0] in COMMANDS:
        return _command_parser(argv[0]).parse_args(argv[1:])
    return _show_parser().parse_args(argv)


class _Help(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal, without `shutil`; argparse creates a formatter for every option added."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=text_width(None) - 2)


def _parser(prog: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    # `--step 50` is no `--step-key 50`.
    return _Parser(prog=prog, description=description, epilog=epilog, formatter_class=_Help, allow_abbrev=False)


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        every_parser()[parser.prog.removeprefix("rltop").strip()].print_help()
        parser.exit()


def _add_settings(parser: argparse.ArgumentParser, *, is_whole: bool) -> None:
    about = "config file (default: ~/.config/rltop/config.toml)"
    parser.add_argument("--config", type=_PATH, metavar="FILE", help=about if is_whole else argparse.SUPPRESS)
    add_flags(parser, is_shown=is_whole)
    parser.add_argument(
        "--help-all", action=_HelpAll, nargs=0, help="list the settings too (--theme, --ascii, …), and exit"
    )


def _show_parser(*, is_whole: bool = False) -> argparse.ArgumentParser:
    parser = _parser("rltop", *_about("rltop"))
    if not is_whole:
        parser.usage = "rltop [OPTION ...] [PATH ...]"
    _add(parser, "rltop", is_whole=is_whole)
    parser.add_argument("--version", action="version", version=f"rltop {__version__}")
    _add_settings(parser, is_whole=is_whole)
    parser.set_defaults(command=show)
    return parser


def _number(low: float, high: float, what: str, *, is_above: bool = False) -> Callable[[str], float]:
    """Argument type for a number; `what` describes the valid ones, with `{}` for the input."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None
        if not low <= value <= high or (is_above and value == low):
            raise argparse.ArgumentTypeError(f"must be {what.format(text)}")
        return value

    return number


def _whole(least: int, most: int, what: str) -> Callable[[str], int]:
    """Argument type for an integer; `what` describes the valid ones."""

    def whole(text: str) -> int:
        digits = text.removeprefix("-") if least < 0 else text
        is_whole = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(most))
        if not is_whole or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be {what}, not {text!r}")
        return int(text)

    return whole


_SECONDS = _number(0, 1e9, "a number of seconds above 0, not {}", is_above=True)


def _seconds_or_never(text: str) -> float:
    return math.inf if text == "never" else _SECONDS(text)


def _filled(what: str) -> Callable[[str], str]:
    def filled(text: str) -> str:
        if not text.strip():
            raise argparse.ArgumentTypeError(f"is empty, but must be {what}")
        return text

    return filled


def _command(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError("must be a shell command, not empty and without NUL characters")
    return text


_PATH = _filled("a path")
_GIVEN: Mapping[str, Callable[[str], Any] | None] = {
    "text": None,
    "path": _PATH,
    "value": _filled("a value"),
    "rule": _filled("the id of a rule"),
    "command": _command,
    "step": _whole(-(10**18) + 1, 10**18 - 1, "a step number"),
    "width": _whole(MIN_WIDTH, MAX_WIDTH, f"a number of columns from {MIN_WIDTH} to {MAX_WIDTH:,}"),
    "process": _whole(1, 2**31 - 1, "a process id"),
    "times": _whole(1, 1_000_000, "a whole number from 1 to 1,000,000"),
    "seconds": _SECONDS,
    "patience": _seconds_or_never,
    "wait": _number(0, 3600, "a number of seconds from 0 to 3,600, not {}"),
    "time": _number(0, 1e11, "seconds since the epoch, not {}"),
    "speed": _number(0, 1e6, "above 0 and at most 1,000,000, not {}", is_above=True),
    "share": _number(0, 1, "between 0 and 1, not {}"),
}
"""Types of option values, by their names in `options.txt`."""


@cache
def _sections(file: str) -> Mapping[str, Sequence[str]]:
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    sections = [section.splitlines() for section in text.split("\n\n[")[1:]]
    return {head.removesuffix("]"): lines for head, *lines in sections}


def _add(parser: argparse.ArgumentParser, section: str, *, is_whole: bool) -> None:
    """Add the options of a section to a parser; unless `is_whole`, some of them are hidden from its help."""
    into: Any = parser
    if section == "sources":
        about = "asked beside the files; nothing is contacted that is not named here" if is_whole else None
        into = parser.add_argument_group("sources", about)
    either: Any = None
    for names, *row in (line.split(" | ") for line in _sections("options.txt").get(section, ())):
        if names.startswith("@"):
            inner, _, whole = names[1:].partition(" ")
            _add(parser, inner, is_whole=is_whole or bool(whole))
            continue
        given, metavar, more, text = row
        said = dict(one.partition(" ")[::2] for one in more.split("; "))
        if "or" in said:
            either = either or parser.add_mutually_exclusive_group()
        text += " (repeatable)" if "many" in said else ""
        shown = argparse.SUPPRESS if "more" in said and not is_whole else text
        (either if "or" in said else into).add_argument(
            *names.split(), **_argument_options(given, metavar, said), help=shown
        )


def _argument_options(given: str, metavar: str, words: Mapping[str, str]) -> dict[str, Any]:
    if given == "flag":
        return {"action": "store_true"}
    read, default = _GIVEN[given], words.get("default")
    found: dict[str, Any] = {
        "type": read,
        "metavar": metavar if metavar != "-" else None,
        "default": [] if "many" in words else default if default is None or read is None else read(default),
        "action": "append" if "many" in words else "store",
        "nargs": next((sign for sign in "*+?" if sign in words), None),
        "const": words.get("?"),
        "choices": tuple(words["of"].split()) if "of" in words else None,
        "dest": words.get("to"),
        "required": "needed" in words or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _late(path: str) -> Callable[[argparse.Namespace], int]:
    """A function that runs a command and imports its module only then."""

    def run(arguments: argparse.Namespace) -> int:
        module, _, name = path.partition(".")
        with importing():
            command = getattr(import_module(f"rltop.cli.{module}"), name)
        return int(command(arguments))

    return run


def _about(name: str) -> tuple[str, str]:
    """The description of a command, and the notes below its options."""
    about, *notes = _sections("commands.txt")[name]
    return about, "\n".join(notes)


def _command_parser(name: str, *, is_whole: bool = False) -> argparse.ArgumentParser:
    about, notes = _about(name)
    has_settings = name not in _ALONE
    parser = _parser(f"rltop {name}", about, notes) if has_settings else _Parser(f"rltop {name}", description=about)
    _add(parser, name, is_whole=is_whole)
    if has_settings:
        _add_settings(parser, is_whole=is_whole)
    parser.set_defaults(command=check if name == "check" else _late(_RUN_BY.get(name, f"{name}.{name}")))
    return parser


_ALONE = frozenset({"callback", "skill", "completions"})
"""Commands without the flags for settings."""
_RUN_BY = {
    "replay": "show.replay", "demo": "show.demo", "config": "printing.print_config", "callback": "printing.callback",
    "skill": "printing.skill", "completions": "printing.completions",
}  # fmt: skip
"""Functions of commands, unless module and function are named after the command."""


def every_parser() -> dict[str, argparse.ArgumentParser]:
    """Command → its parser, with every option; "" is `rltop` itself."""
    return {"": _show_parser(is_whole=True), **{name: _command_parser(name, is_whole=True) for name in COMMANDS}}
