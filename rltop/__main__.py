"""`rltop` and `python -m rltop`: the first code that runs.

Imports nothing that costs time before it has settled what Ctrl-C does.
"""

# `signal` itself takes milliseconds to import, in which an interrupt would end in a traceback.
import _signal  # type: ignore[import-not-found]
import sys


def main() -> int:
    """Run the program; the exit codes are in `errors`.

    A program that is interrupted while it is still importing has nothing to tidy up, and a traceback would be all that
    Python has to say. So an interrupt ends it at once, as it ends a program that never heard of signals, until the
    terminal guard or `watch` have something to restore and ask to be told instead. One that is ignored (`nohup`, a job
    in the background) stays ignored.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from rltop.cli import main as run  # noqa: PLC0415 - an interrupt may come at any time

    return run()


if __name__ == "__main__":
    sys.exit(main())
