"""What a person is told when rltop itself is at fault, or the operating system refuses.

Owns the message only. A traceback in the middle of a training night helps nobody
but the one who mends the program, so it is printed on request.
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
        error: what nothing has caught.
        environ: the environment; `RLTOP_DEBUG` set to anything asks for the traceback.
    """
    what = Label.of(f"{type(error).__name__}: {error}"[:_LONGEST]).display
    lines = _traceback(error, environ)
    lines.append(f"this is a fault of rltop {rltop.__version__}, not of your run: {what}{_place(error)}")
    lines.append("  the run goes on: rltop only reads its files")
    if environ.get(DEBUG_VARIABLE):
        lines.append("  please report the above where you got rltop from, with the line of the file that it stopped at")
    else:
        lines.append(f"  please report it where you got rltop from, with the traceback that {DEBUG_VARIABLE}=1 prints")
    return lines


def what_ran_out(error: Exception) -> tuple[str, str]:
    """What this machine, or its limits, had too little of, and what to do; both empty where it was not that."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many open files", "allow more: ulimit -n 256"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "no more threads may be started", "allow more processes: ulimit -u, or the limit of the job or container"
    return "", ""


def describe_refusal(error: Exception, environ: Mapping[str, str]) -> list[str]:
    """What the operating system refused, and what to do about it; with the traceback if it was asked for."""
    what = str(error)
    if isinstance(error, OSError) and error.strerror:
        what = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    return [
        *_traceback(error, environ),
        f"the operating system refuses: {what}",
        f"  check the path, its permissions and the limits (ulimit -a); {DEBUG_VARIABLE}=1 prints where it happened",
    ]


def _traceback(error: Exception, environ: Mapping[str, str]) -> list[str]:
    """The traceback by lines, if it was asked for."""
    if not environ.get(DEBUG_VARIABLE):
        return []
    return ["the traceback:", *"".join(traceback.format_exception(error)).splitlines(), ""]


def _place(error: Exception) -> str:
    """The innermost line of rltop's own code on the way to the error."""
    root = Path(rltop.__file__).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(root):
            return f" ({path.relative_to(root.parent)}:{frame.lineno})"
    return ""
