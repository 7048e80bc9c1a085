"""Messages for internal errors and for errors of the operating system.

Owns the message only. A traceback helps only whoever fixes the program, so it is printed on request.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Mapping
from pathlib import Path

import rltop
from rltop.model import Label

DEBUG_VARIABLE = "RLTOP_DEBUG"

_LONGEST = 300


def describe_fault(error: Exception, environ: Mapping[str, str]) -> list[str]:
    """What happened, where, and what to do about it; with the traceback if it was asked for.

    Args:
        environ: the environment; `RLTOP_DEBUG` set to anything asks for the traceback.
    """
    what = Label.of(f"{type(error).__name__}: {error}"[:_LONGEST]).display
    lines = _traceback(error, environ)
    lines.append(f"internal error in rltop {rltop.__version__}, not in your run: {what}{_place(error)}")
    lines.append("  your run is not affected: rltop only reads its files")
    if environ.get(DEBUG_VARIABLE):
        lines.append("  please report the traceback above, with the line of the metric file that triggered it")
    else:
        lines.append(f"  please report it, with the traceback that {DEBUG_VARIABLE}=1 prints")
    return lines


def what_ran_out(error: Exception) -> tuple[str, str]:
    """Which resource ran out, and what to do; both empty if none did."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many open files", "raise the limit: ulimit -n 256"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "cannot start another thread", "raise the process limit: ulimit -u, or the limit of the job or container"
    return "", ""


def describe_refusal(error: Exception, environ: Mapping[str, str]) -> list[str]:
    """The operating system's error, and what to do; with the traceback if it was asked for."""
    what = str(error)
    if isinstance(error, OSError) and error.strerror:
        what = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    return [
        *_traceback(error, environ),
        f"operating system error: {what}",
        f"  check the path, its permissions and the limits (ulimit -a); {DEBUG_VARIABLE}=1 prints the traceback",
    ]


def _traceback(error: Exception, environ: Mapping[str, str]) -> list[str]:
    if not environ.get(DEBUG_VARIABLE):
        return []
    return ["traceback:", *"".join(traceback.format_exception(error)).splitlines(), ""]


def _place(error: Exception) -> str:
    root = Path(rltop.__file__).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(root):
            return f" ({path.relative_to(root.parent)}:{frame.lineno})"
    return ""
