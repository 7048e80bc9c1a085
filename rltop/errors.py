"""Errors that a user can act on, and the exit codes of the program.

    RltopError            what went wrong, and a hint: what to do about it
    ├── ConfigError       a flag, an environment variable or a key of the config file
    ├── SourceError       a path that cannot be read
    │   ├── NoMetricsError  a directory or a pattern without metric files
    │   └── NoAnswerError   a file system that does not answer
    ├── DecodeError       a file that is not what it claims to be
    └── ThemeError        a theme file

A bad line in a metric file is not an error: it is counted and shown.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager

EXIT_OK = 0
EXIT_FIRING = 1
EXIT_USAGE = 2
EXIT_NO_METRICS = 3
EXIT_DIED = 4
"""`rltop watch`: the run died or was interrupted, or went silent for longer than `--give-up`."""
EXIT_FAULT = 70
"""An internal error (`EX_SOFTWARE` of sysexits.h); says nothing about the run."""


def worst_code(codes: Collection[int]) -> int:
    """The exit code for several files: the first of 1, 2 and 3 that occurs, else 0."""
    return next((code for code in (EXIT_FIRING, EXIT_USAGE, EXIT_NO_METRICS) if code in codes), EXIT_OK)


_FAILING = frozenset({errno.EIO, errno.ESTALE, errno.EREMOTEIO, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN})
_LONGEST_PATH = 300
"""Longer paths are shortened in the middle, so that the reason stays visible."""


class RltopError(Exception):
    """A message for the user, a hint on what to do, and the exit code.

    Args:
        hint: what to do about it; empty if there is no advice.
    """

    exit_code = EXIT_USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ConfigError(RltopError):
    """An invalid setting; names the file, the key and the remedy."""


class SourceError(RltopError):
    """A path that cannot be read."""


class NoMetricsError(SourceError):
    exit_code = EXIT_NO_METRICS


def reason_of(error: Exception) -> str:
    """A short reason for an error, from the operating system or the error itself."""
    if isinstance(error, OSError):
        text = error.strerror or str(error) or type(error).__name__
        return text[:1].lower() + text[1:]
    if isinstance(error, RltopError):
        return error.message
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "not enough memory"
    return f"{type(error).__name__}: {error}"


def cannot_write(path: str, error: OSError) -> RltopError:
    """The error for a file that cannot be written, with path, reason and remedy."""
    hint = "check that the folder exists and that you may write there"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space there, or write to another disk"
    return RltopError(f"cannot write {_shown(path)}: {reason_of(error)}", hint)


def _shown(path: str) -> str:
    return path if len(path) <= _LONGEST_PATH else f"{path[: _LONGEST_PATH // 2]}…{path[-_LONGEST_PATH // 2 :]}"


def cannot_read(path: str, error: Exception) -> SourceError:
    """The error for a path that cannot be read, with path, reason and remedy."""
    shown = _shown(path)
    hint = "check the path and its permissions"
    if isinstance(error, OSError) and error.errno in _FAILING:
        hint = "file system error: try again, or copy the file to another disk"
    elif isinstance(error, OSError) and error.errno == errno.EINVAL:
        hint = "it cannot be read from its end, as files below /proc: copy it to a disk with `cat`, and name the copy"
    elif isinstance(error, RltopError):
        hint = error.hint or "the file may be damaged: unpack or repair it, or name another file"
    reason = reason_of(error)
    if isinstance(error, FileNotFoundError) and os.path.islink(path):  # noqa: PTH114 - a Path may raise
        reason = f"broken symlink: it leads to {_shown(os.path.realpath(path))}, which does not exist"
    return SourceError(f"cannot read {shown}: {reason}", hint)


class NoAnswerError(SourceError):
    """A file system that did not answer before the timeout."""


class DecodeError(RltopError):
    """A file with content that does not match its format."""


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn any exception that a parser raises inside into a `DecodeError` about `what`.

    One flipped bit can make any line of a parser raise, so no list of exceptions is
    complete. rltop's own errors and `OSError` pass through.
    """
    try:
        yield
    except (RltopError, OSError):
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__} {error}"
        raise DecodeError(f"{what}: {reason}".removesuffix(" ")) from error


class ThemeError(RltopError):
    """A theme that cannot be loaded; names the file, the key and the remedy."""
