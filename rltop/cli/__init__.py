"""Arguments → configuration → the screen or the report.

Owns the order of things at start-up; everything heavy is imported by the command
that needs it, so that `--help` and `check` never pay for the screen.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from rltop.errors import EXIT_FAULT, EXIT_USAGE, RltopError

_CLOSED_PIPE = 141
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the exit codes are in `errors`."""
    from rltop.cli.arguments import parse

    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        return int(arguments.command(arguments))
    except RltopError as error:
        print(f"rltop: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter must not try to flush to it again.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        # The one place that catches everything: by now the terminal is its owner's again.
        from rltop.cli.fault import describe_fault

        print(describe_fault(error, os.environ), file=sys.stderr)  # noqa: T201
        return EXIT_FAULT
