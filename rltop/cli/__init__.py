"""Arguments → configuration → the screen or the report.

Defines the start-up order: each command imports its heavy dependencies itself, so that `--help` and `check` do not
import the screen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltop.errors import EXIT_FAULT, EXIT_USAGE, RltopError

if TYPE_CHECKING:
    from argparse import Namespace

_CLOSED_PIPE = 141
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the exit codes are in `errors`."""
    from rltop.cli import output
    from rltop.cli.plain import plain

    output.hold_standard_streams()
    try:
        words = sys.argv[1:] if argv is None else argv
        arguments = plain(words) or _parsed(words)
        code = int(arguments.command(arguments))
        output.flush_output()
    except output.OutputError as error:
        output.print_exception(error)
        output.discard_output()
        return EXIT_USAGE
    except RltopError as error:
        output.print_exception(error)
        return error.exit_code
    except BrokenPipeError:
        output.discard_output()
        return _CLOSED_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        # The only catch-all: the terminal has been restored by now.
        return _end_after(error)
    return code


def _end_after(error: Exception) -> int:
    from rltop.cli import output
    from rltop.cli.output import describe_fault, describe_refusal, exhausted_resource

    what, remedy = exhausted_resource(error)
    if what:
        output.print_error(what, f"  {remedy}")
        return EXIT_USAGE
    if isinstance(error, OSError):
        # An OSError means a limit, a deleted folder or a failing device, not an internal error.
        output.print_error(*describe_refusal(error, os.environ))
        return EXIT_USAGE
    output.print_error(*describe_fault(error, os.environ))
    return EXIT_FAULT


def _parsed(words: Sequence[str]) -> Namespace:
    from rltop.cli.arguments import parse

    return parse(words)
