"""`rltop` and `python -m rltop`: the first code that runs.

Sets the SIGINT behaviour before it imports anything slow.
"""

# `import signal` takes milliseconds, during which Ctrl-C would print a traceback.
import _signal  # type: ignore[import-not-found]
import sys


def main() -> int:
    """Run the program; the exit codes are in `errors`.

    During the imports there is nothing to clean up, so SIGINT gets its default action: the process ends without a
    traceback. The terminal guard and `watch` install their own handlers later. If SIGINT is ignored (`nohup`, a
    background job), it stays ignored.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from rltop.cli import main as run  # noqa: PLC0415 - after the SIGINT behaviour is set

    return run()


if __name__ == "__main__":
    sys.exit(main())
