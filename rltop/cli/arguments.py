"""The command line: what may be typed, and which command that is."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from rltop import __version__
from rltop.cli.importing import importing
from rltop.cli.output import shortened, text_width
from rltop.cli.plain import COMMANDS, nearest_of, refuse_mistyped, show
from rltop.settings import add_flags

_COMMANDS = """\
commands:
  rltop [PATH ...]        watch runs: files, directories or globs; nothing: the current directory
  rltop watch FILE ...    no screen: run a command when a verdict fires, end with the run
  rltop check FILE ...    replay the whole file through the rules and say what fires
  rltop replay FILE       play a recording as if it were being written
  rltop demo              a bundled recording in which something goes wrong
  rltop callback          print a writer for trainers that leave no file: rltop callback > rltop_callback.py
"""
_CODES = "exit codes: 0 nothing firing, 1 something is (check), 2 usage or unreadable, 3 no metrics found"

_WATCH_NOTES = """\
A command runs at most once per verdict. It learns of it from its environment: RLTOP_RULE, RLTOP_TITLE, RLTOP_FAMILY,
RLTOP_LEVEL, RLTOP_STEP, RLTOP_SINCE_STEP, RLTOP_METRIC, RLTOP_KEY, RLTOP_HEADLINE, RLTOP_RUN, RLTOP_PATH.
exit codes: 0 the run is over, 1 a CRIT has fired, 2 usage, 3 given up without a record, 4 the run died or was given
up, 128 + N stopped by signal N"""


class _Parser(argparse.ArgumentParser):
    """Refuses what was typed without handing its control characters on to the terminal."""

    def error(self, message: str) -> NoReturn:
        from rltop.model import Label

        super().error(Label.of(shortened(message)).display)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does; of what it does not know it is said here what may have been meant.

        Raises:
            RltopError: a command was mistyped, or does not stand first.
            SystemExit: for what argparse refuses, and for options that there are not.
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
    """Arguments as a namespace whose `command` runs them.

    Raises:
        SystemExit: for --help and --version, and for what argparse refuses.
    """
    parsers = dict(
        zip(COMMANDS, (_callback_parser, _check_parser, _watch_parser, _replay_parser, _demo_parser), strict=True)
    )
    if argv and argv[0] in parsers:
        return parsers[argv[0]]().parse_args(argv[1:])
    return _show_parser().parse_args(argv)


class _Help(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal, asked without `shutil`: argparse makes one for every option that it is told of."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=text_width(None) - 2)


def _parser(prog: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    parser = _Parser(prog=prog, description=description, epilog=epilog, formatter_class=_Help)
    parser.add_argument("--config", metavar="FILE", help="config file (default: ~/.config/rltop/config.toml)")
    return parser


def _show_parser() -> argparse.ArgumentParser:
    parser = _parser(
        "rltop",
        "top for reinforcement-learning runs of language models.",
        f"{_COMMANDS}\n{_CODES}",
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="metric files, run directories or globs; - is standard input"
    )
    _add_once(parser)
    parser.add_argument("--version", action="version", version=f"rltop {__version__}")
    add_flags(parser)
    parser.set_defaults(command=show)
    return parser


def _add_once(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="print the overview once and leave")
    parser.add_argument("--json", action="store_true", help="the same as one JSON document")
    parser.add_argument("--live", action="store_true", help="with --once: judge silence by the clock too")
    parser.add_argument(
        "--width", type=int, metavar="N", help="with --once: columns (default: the terminal's, else 100)"
    )


def _check_parser() -> argparse.ArgumentParser:
    parser = _parser(
        "rltop check",
        "Replay whole files through the rules and say what fires at their end.",
        f"{_CODES};\nof several files the worst: 1, then 2, then 3",
    )
    parser.add_argument(
        "paths", nargs="*", metavar="FILE", help="metric files, or directories of one run each; - is standard "
        "input",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true",
        help="verdicts and every transition, as one JSON document; of several files an array of them",
    )  # fmt: skip
    parser.add_argument(
        "--explain", metavar="RULE", help="explain a rule, and with a file what it saw there; no file needed"
    )
    parser.add_argument("--rules", action="store_true", help="the table of all rules; no file needed")
    parser.add_argument(
        "--since", type=_step, metavar="STEP", help="only events from this step on, with --ever for the exit code too"
    )
    parser.add_argument("--fail-on", choices=("warn", "crit"), default="crit", help="level that makes the exit code 1")
    parser.add_argument("--ever", action="store_true", help="exit 1 also for what has recovered by the end")
    parser.add_argument("--width", type=int, metavar="N", help="columns (default: the terminal's, else 100)")
    add_flags(parser)
    parser.set_defaults(command=_check)
    return parser


def _watch_parser() -> argparse.ArgumentParser:
    parser = _parser(
        "rltop watch",
        "Watch runs without a screen: run a command when a verdict fires, log what happens, end with the run.",
        _WATCH_NOTES,
    )
    parser.add_argument(
        "paths", nargs="+", metavar="FILE", help="metric files, which need not exist yet, or run directories; - is "
        "standard input",
    )  # fmt: skip
    for flag, what in (
        ("--on-crit", "shell command to run when a CRIT verdict fires"),
        ("--on-warn", "the same for WARN; also for CRIT where there is no --on-crit"),
        ("--on-stall", "the same when the run has fallen silent, whatever the level"),
    ):
        parser.add_argument(flag, type=_command, metavar="CMD", help=what)
    parser.add_argument("--json", action="store_true", help="log JSON objects, one a line")
    parser.add_argument(
        "--from-now", action="store_true", help="run nothing for what already fires at the end of the history"
    )
    parser.add_argument("--pid", type=_pid, metavar="N", help="the run is over when this process has ended")
    parser.add_argument(
        "--give-up", type=_seconds, metavar="S", help="end after so many seconds without a record (default: never)"
    )
    parser.add_argument(
        "--timeout", dest="hook_timeout", type=_seconds, default=60.0, metavar="S",
        help="seconds after which a command is ended (default 60)",
    )  # fmt: skip
    parser.add_argument(
        "--per-hour", type=_whole, default=20, metavar="N", help="how often each command runs at most (default 20)"
    )
    add_flags(parser)
    parser.set_defaults(command=_watch)
    return parser


def _replay_parser() -> argparse.ArgumentParser:
    parser = _parser("rltop replay", "Play a recorded run as if it were being written now.")
    parser.add_argument("path", metavar="FILE", help="a metric file")
    _add_speed(parser, 60.0)
    add_flags(parser)
    parser.set_defaults(command=_replay)
    return parser


def _demo_parser() -> argparse.ArgumentParser:
    parser = _parser("rltop demo", "Play a bundled recording in which something goes wrong.")
    _add_speed(parser, None)
    add_flags(parser)
    parser.set_defaults(command=_demo)
    return parser


def _callback_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="rltop callback",
        description="Print JsonlCallback (transformers, TRL, unsloth) and JsonlWriter (a loop of your own) as one file "
        "that needs nothing but Python 3.9: rltop callback > rltop_callback.py",
    )
    parser.set_defaults(command=_callback)
    return parser


def _add_speed(parser: argparse.ArgumentParser, default: float | None) -> None:
    parser.add_argument("--speed", type=_speed, default=default, metavar="X", help="times as fast as it was recorded")
    parser.add_argument(
        "--from", dest="warm_start", type=_fraction, default=0.5, metavar="F",
        help="fraction of the recording that is there from the start (default 0.5)",
    )  # fmt: skip
    _add_once(parser)


def _speed(text: str) -> float:
    value = _number(text)
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1,000,000")
    return value


def _command(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError("there is no command in it")
    return text


def _seconds(text: str) -> float:
    value = _number(text)
    if not 0 < value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _step(text: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 18:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a step")
    return int(text)


def _pid(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a process")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _fraction(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def _check(arguments: argparse.Namespace) -> int:
    with importing():
        from rltop.cli.check import check

    return check(arguments)


def _callback(arguments: argparse.Namespace) -> int:
    with importing():
        from rltop.cli.callback import callback

    return callback(arguments)


def _watch(arguments: argparse.Namespace) -> int:
    with importing():
        from rltop.cli.watch import watch

    return watch(arguments)


def _replay(arguments: argparse.Namespace) -> int:
    with importing():
        from rltop.cli.show import replay

    return replay(arguments)


def _demo(arguments: argparse.Namespace) -> int:
    with importing():
        from rltop.cli.show import demo

    return demo(arguments)
