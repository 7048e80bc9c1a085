"""The command line: commands, options and their help."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from rltop import __version__
from rltop.cli.output import MAX_WIDTH, MIN_WIDTH, finish_saying, say, shortened, text_width
from rltop.cli.plain import COMMANDS, check, importing, nearest_of, refuse_mistyped, show
from rltop.settings import add_flags
from rltop.structs import NamedTuple

_COMMANDS = """\
commands (rltop COMMAND --help says more):
  watch FILE ...      no screen: run a command on alerts, exit with the run
  check FILE ...      apply all rules to whole files and print the alerts
  where PATH ...      in which phase a job is, since when, and whether it is stuck
  report RUN ...      write runs to a file to share: -o report.html, .md, .svg, .csv
  replay FILE, demo   play back a recorded run as if it were live; a bundled one
  config, callback, skill, completions  settings; a metrics writer; for agents; for shells
"""
_CODES = "exit codes: 0 no alerts, 1 alerts or the run died (check), 2 usage error or unreadable file, 3 no metrics"

_WATCH_NOTES = """\
A command runs once per incident (alerts that begin within a few records of one another), and again if that gets from
WARN to CRIT, with these environment variables: RLTOP_RULE, RLTOP_TITLE, RLTOP_FAMILY, RLTOP_LEVEL, RLTOP_STEP,
RLTOP_SINCE_STEP, RLTOP_METRIC, RLTOP_KEY, RLTOP_HEADLINE, RLTOP_RUN, RLTOP_PATH, RLTOP_INCIDENT, RLTOP_ADVICE,
RLTOP_PART.
exit codes: 0 the run is complete, 1 a CRIT alert was raised, 2 usage error, 3 gave up without a single record, 4 the
run died or went silent (--give-up), 128 + N stopped by signal N"""


class _Parser(argparse.ArgumentParser):
    """Reports usage errors with control characters escaped, and an output that cannot be written."""

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse passes over what a full disk or a closed output says of help and version.
        if file is sys.stdout:
            say(message)
            finish_saying()
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
    """Arguments as a namespace whose `command` runs them.

    Raises:
        SystemExit: for --help and --version, and for what argparse refuses.
    """
    if argv and argv[0] in _TABLE:
        return _TABLE[argv[0]].parser(argv[0]).parse_args(argv[1:])
    return _show_parser().parse_args(argv)


class _Help(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal, asked without `shutil`: argparse makes one for every option that it is told of."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=text_width(None) - 2)


def _parser(prog: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    return _Parser(prog=prog, description=description, epilog=epilog, formatter_class=_Help)


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
    parser = _parser(
        "rltop",
        "top for reinforcement-learning runs of language models.",
        f"{_COMMANDS}exit codes: 0 fine, 1 alerts or died (check), 2 usage or unreadable file, 3 no metrics",
    )
    if not is_whole:
        parser.usage = "rltop [OPTION ...] [PATH ...]"
    parser.add_argument(
        "paths",
        type=_PATH,
        nargs="*",
        metavar="PATH",
        help="files, run directories, globs, - for standard input (default: .)",
    )
    parser.add_argument(
        "--baseline", type=_PATH, metavar="RUN", help="compare the others with this run: a file or run directory"
    )
    parser.add_argument("--newest", action="store_true", help="of several runs open the newest, not the list of runs")
    _add_once(parser, is_whole=is_whole)
    _add_sources(parser, is_whole=is_whole)
    parser.add_argument("--version", action="version", version=f"rltop {__version__}")
    _add_settings(parser, is_whole=is_whole)
    parser.set_defaults(command=show)
    return parser


def _add_once(parser: argparse.ArgumentParser, *, is_whole: bool) -> None:
    parser.add_argument("--once", action="store_true", help="print the overview once and exit")
    parser.add_argument("--json", action="store_true", help="print the overview as JSON and exit")
    parser.add_argument(
        "--live", action="store_true",
        help="with --once: use the current time, so that a silent run is reported" if is_whole else argparse.SUPPRESS,
    )  # fmt: skip
    parser.add_argument(
        "--width", type=_WIDTH, metavar="N",
        help="with --once: columns (default: terminal width, else 100)" if is_whole else argparse.SUPPRESS,
    )  # fmt: skip


def _add_check(parser: argparse.ArgumentParser, *, is_whole: bool) -> None:
    del is_whole
    parser.add_argument(
        "paths", type=_PATH, nargs="*", metavar="FILE",
        help="metric files, run directories or globs; - for standard input",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true",
        help="print alerts and events as a JSON document; an array of documents for several files",
    )  # fmt: skip
    parser.add_argument(
        "--explain",
        type=_filled("the id of a rule"),
        metavar="RULE",
        help="explain a rule; with a file, also what it found there",
    )
    parser.add_argument(
        "--rules", action="store_true", help="list all rules; with a file, also which could be evaluated"
    )
    parser.add_argument("--since", type=_STEP, metavar="STEP", help="only events from this step on, for --ever too")
    parser.add_argument(
        "--fail-on", choices=("warn", "crit"), default="crit", help="level that sets exit code 1 (default: crit)"
    )
    parser.add_argument("--ever", action="store_true", help="also exit with 1 for alerts that have recovered")
    parser.add_argument("--width", type=_WIDTH, metavar="N", help="columns (default: terminal width, else 100)")
    parser.add_argument(
        "--summary", type=_PATH, metavar="FILE", help="also write the result to FILE as Markdown, for a CI job"
    )


def _add_watch(parser: argparse.ArgumentParser, *, is_whole: bool) -> None:
    parser.add_argument(
        "paths", type=_PATH, nargs="+", metavar="FILE",
        help="metric files (need not exist yet) or run directories; - for standard input",
    )  # fmt: skip
    for flag, what in (
        ("--on-crit", "shell command to run on a CRIT alert"),
        ("--on-warn", "the same for WARN, and for CRIT if --on-crit is not given"),
        ("--on-stall", "the same when the run has gone silent, whatever the level"),
        ("--on-stuck", "the same when the job is stuck in a phase, by its console log, as rltop where tells"),
    ):
        parser.add_argument(flag, type=_command, metavar="CMD", help=what)
    parser.add_argument("--json", action="store_true", help="log as JSON lines")
    parser.add_argument(
        "--from-now", action="store_true", help="no commands for alerts that are already active at the start"
    )
    parser.add_argument(
        "--pid", type=_whole(1, 2**31 - 1, "a process id"), metavar="N", help="exit when process N has ended"
    )
    parser.add_argument(
        "--give-up",
        type=_seconds_or_never,
        metavar="S",
        help="exit after S seconds without a record, or never (default: when the run has ended, as rltop where tells: "
        "silent for 2 h, or for two days in the middle of a phase; without a record, after two days)",
    )
    parser.add_argument(
        "--timeout", dest="hook_timeout", type=_SECONDS, default=60.0, metavar="S",
        help="kill a command after S seconds (default 60)",
    )  # fmt: skip
    parser.add_argument(
        "--per-hour",
        type=_whole(1, 1_000_000, "a whole number from 1 to 1,000,000"),
        default=20,
        metavar="N",
        help="maximum runs of each command per hour (default 20)",
    )
    _add_sources(parser, is_whole=is_whole)


_WHERE_NOTES = """\
It reads the log, the traces beside it, the times of the rows, the titles of your own processes on this node, and what
squeue says about the job in the name of a log such as slurm-123.out; nothing else is contacted unless you name it.
exit codes: 0 running, finished, interrupted or ended, 1 stuck or dead, 2 usage error or unreadable file, 3 unknown"""


def _add_sources(parser: argparse.ArgumentParser, *, is_whole: bool) -> None:
    about = "asked beside the files; nothing is contacted that is not named here" if is_whole else None
    group = parser.add_argument_group("sources", about)

    def add(flag: str, metavar: str, text: str, *, several: bool = False) -> None:
        action = "append" if several else "store"
        group.add_argument(
            flag, type=_filled("a value"), metavar=metavar, action=action, default=[] if several else None,
            help=text + (" (repeatable)" if several else "") if is_whole else argparse.SUPPRESS,
        )  # fmt: skip

    add("--metrics", "URL", "a metrics endpoint: vLLM, SGLang, a router, DCGM, Ray, prime-rl, miles", several=True)
    add("--prometheus", "URL", "a server with Prometheus' HTTP API that collects these", several=True)
    add("--ray", "ADDRESS", "the dashboard of a Ray cluster, for example 127.0.0.1:8265", several=True)
    add("--nodes", "NAMES", "other nodes, over ssh: node[1-8],node11")
    add("--via", "CMD", "how to reach a node instead: 'kubectl exec -i {node} --'")
    add("--job", "ID", "a Slurm job: its limit, and its nodes by one srun --overlap", several=True)
    add("--token-file", "HOST:PORT=FILE", "the token of one of these addresses, sent there alone", several=True)
    add("--cacert", "FILE", "certificates that are trusted besides those of the system")


def _add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait", type=_number(0, 3600, "a number of seconds from 0 to 3,600, not {}"), default=35.0, metavar="S",
        help="with --metrics: look for at most S seconds whether busy engines make tokens (default 35; 0: once)",
    )  # fmt: skip


def _add_where(parser: argparse.ArgumentParser, *, is_whole: bool) -> None:
    parser.add_argument(
        "paths", type=_PATH, nargs="*", metavar="PATH", help="console logs, run directories, metric files or traces"
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON document; an array of documents for several paths"
    )
    parser.add_argument(
        "--now", type=_number(0, 1e11, "seconds since the epoch, not {}"), metavar="EPOCH",
        help="judge as of this time, in seconds since the epoch (default: now); only files are read",
    )  # fmt: skip
    _add_wait(parser)
    _add_sources(parser, is_whole=True)


def _add_replay(parser: argparse.ArgumentParser, *, is_whole: bool) -> None:
    parser.add_argument("path", type=_PATH, metavar="FILE", help="a metric file")
    _add_speed(parser, is_whole=is_whole, default=60.0)


_REPORT_NOTES = """\
The format follows the name of FILE: .html (charts, light and dark, printable; no scripts, nothing from the network),
.md, .svg, .json (the documents of --once --json) or .csv (a row for each logged metric). An existing FILE is replaced.
exit codes: 0 written, 2 usage error, unreadable run or unwritable file, 3 no metrics found"""


def _add_report(parser: argparse.ArgumentParser, *, is_whole: bool) -> None:
    parser.add_argument(
        "paths",
        type=_PATH,
        nargs="+",
        metavar="RUN",
        help="metric files, run directories or globs; - for standard input",
    )
    parser.add_argument("-o", "--output", type=_PATH, required=True, metavar="FILE", help="the file to write")
    parser.add_argument(
        "--align",
        choices=("step", "time", "tokens", "samples", "epoch"),
        default="step",
        help="in HTML: align the runs in one chart by this (default: step)",
    )
    parser.add_argument(
        "--baseline", type=_PATH, metavar="RUN", help="say how the others differ from this run, and from which step"
    )
    window = parser.add_mutually_exclusive_group()
    window.add_argument("--steps", metavar="A-B", help="only these steps: 300-350, 300- or -350; as it was at the last")
    window.add_argument("--since", type=_STEP, metavar="STEP", help="only from this step on")
    parser.add_argument("--curves", action="store_true", help="in CSV: a row for each point of the charts instead")
    parser.add_argument("--live", action="store_true", help="use the current time, so that a silent run is reported")
    parser.add_argument(
        "--evidence", action="store_true",
        help="write what maintainers ask for when a job hangs or dies, with secrets blanked, to a file ending in .md",
    )  # fmt: skip
    parser.add_argument("--stack", action="store_true", help="with --evidence: stacks of your processes, by py-spy")
    parser.add_argument(
        "--with-text", action="store_true", help="with --evidence: keep lines that may be prompts and completions"
    )
    _add_wait(parser)
    _add_sources(parser, is_whole=is_whole)


def _add_skill(parser: argparse.ArgumentParser, *, is_whole: bool) -> None:
    del is_whole
    parser.add_argument(
        "--schema", nargs="?", const="check", choices=("check", "where"),
        help="print the JSON Schema of `rltop check --json`, or of `rltop where --json`, instead",
    )  # fmt: skip


def _add_completions(parser: argparse.ArgumentParser, *, is_whole: bool) -> None:
    del is_whole
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to print it for")


def _add_speed(parser: argparse.ArgumentParser, *, is_whole: bool, default: float | None = None) -> None:
    speed = _number(0, 1e6, "above 0 and at most 1,000,000, not {}", is_above=True)
    parser.add_argument("--speed", type=speed, default=default, metavar="X", help="times the recorded speed")
    parser.add_argument(
        "--from", dest="warm_start", type=_number(0, 1, "between 0 and 1, not {}"), default=0.5, metavar="F",
        help="start with this fraction of the recording already written (default 0.5)",
    )  # fmt: skip
    _add_once(parser, is_whole=is_whole)


def _number(low: float, high: float, what: str, *, is_above: bool = False) -> Callable[[str], float]:
    """The type of an option that is a number; `what` says which, `{}` stands for what was typed."""

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
    """The type of an option that is a whole number; `what` says which."""

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


_STEP = _whole(-(10**18) + 1, 10**18 - 1, "a step number")


_WIDTH = _whole(MIN_WIDTH, MAX_WIDTH, f"a number of columns from {MIN_WIDTH} to {MAX_WIDTH:,}")


def _filled(what: str) -> Callable[[str], str]:
    def filled(text: str) -> str:
        if not text.strip():
            raise argparse.ArgumentTypeError(f"is empty, but must be {what}")
        return text

    return filled


_PATH = _filled("a path")


def _command(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError("must be a shell command, not empty and without NUL characters")
    return text


def _late(module: str, name: str) -> Callable[[argparse.Namespace], int]:
    """What runs a command; its module is imported when it does."""

    def run(arguments: argparse.Namespace) -> int:
        with importing():
            command = getattr(import_module(f"rltop.cli.{module}"), name)
        return int(command(arguments))

    return run


class _Command(NamedTuple):
    """What a command is for, what runs it, and its options.

    Attributes:
        has_settings: it takes the flags of the settings.
    """

    about: str
    runs: Callable[[argparse.Namespace], int]
    add: Callable[..., None] = lambda _, **__: None
    notes: str = ""
    has_settings: bool = True

    def parser(self, name: str, *, is_whole: bool = False) -> argparse.ArgumentParser:
        if self.has_settings:
            parser = _parser(f"rltop {name}", self.about, self.notes)
        else:
            parser = _Parser(prog=f"rltop {name}", description=self.about)
        self.add(parser, is_whole=is_whole)
        if self.has_settings:
            _add_settings(parser, is_whole=is_whole)
        parser.set_defaults(command=self.runs)
        return parser


_TABLE = {
    "callback": _Command(
        "Print JsonlCallback (transformers, TRL, unsloth) and JsonlWriter (your own training loop) as one file that "
        "needs only Python 3.9 or newer: rltop callback > rltop_callback.py",
        _late("printing", "callback"), has_settings=False,
    ),
    "check": _Command(
        "Apply all rules to whole files and print the alerts that are active at their end.",
        check, _add_check, f"{_CODES};\nwith several files, the first of 1, 2, 3 that applies",
    ),
    "watch": _Command(
        "Watch runs without a screen: log events, run a command on each alert, exit when the run ends.",
        _late("watch", "watch"), _add_watch, _WATCH_NOTES,
    ),
    "replay": _Command("Play back a recorded run as if it were live.", _late("show", "replay"), _add_replay),
    "demo": _Command("Play back a bundled run in which things go wrong.", _late("show", "demo"), _add_speed),
    "skill": _Command(
        "Print one page for an agent that watches a run: commands, exit codes, what the JSON says.",
        _late("printing", "skill"), _add_skill, has_settings=False,
    ),
    "completions": _Command(
        "Print what completes commands, options and files: source <(rltop completions bash)",
        _late("printing", "completions"), _add_completions, has_settings=False,
    ),
    "config": _Command(
        "Print the settings in force with where they come from, and what keys were said to mean, as a config file.",
        _late("printing", "print_config"),
    ),
    "report": _Command(
        "Write one or several runs to a file to keep, print or share.",
        _late("report", "report"), _add_report, _REPORT_NOTES,
    ),
    "where": _Command(
        "Tell in which phase a job is, since when, what that usually takes, and whether it is stuck or dead.",
        _late("where", "where"), _add_where, _WHERE_NOTES,
    ),
}  # fmt: skip
assert tuple(_TABLE) == COMMANDS


def every_parser() -> dict[str, argparse.ArgumentParser]:
    """Command → its parser, with every option; "" is `rltop` itself."""
    return {"": _show_parser(is_whole=True), **{name: one.parser(name, is_whole=True) for name, one in _TABLE.items()}}
