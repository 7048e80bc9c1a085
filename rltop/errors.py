"""Errors that a person can act on, and the exit codes of the program.

    RltopError            what went wrong, and a hint: what to do about it
    ├── ConfigError       a flag, an environment variable or a key of the config file
    ├── SourceError       a path that cannot be followed
    │   └── NoMetricsError  a directory or a pattern without a metric stream
    ├── DecodeError       a file that is not what it claims to be
    └── ThemeError        a theme file

A bad line in a metric file is not an error: it is data, counted and shown.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_OK = 0
EXIT_FIRING = 1
EXIT_USAGE = 2
EXIT_NO_METRICS = 3
EXIT_DIED = 4
"""A run that was watched has died, or was given up (`rltop watch`)."""
EXIT_FAULT = 70
"""A fault of the program itself (`EX_SOFTWARE` of sysexits.h); never to be taken for a verdict."""

_FAILING = frozenset({errno.EIO, errno.ESTALE, errno.EREMOTEIO, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN})
_LONGEST_PATH = 300
"""Of a longer path both ends are shown: one that is refused for its length must not bury the reason."""


class RltopError(Exception):
    """A message for a person, with the remedy beside it, and the code that the program ends with."""

    exit_code = EXIT_USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ConfigError(RltopError):
    """A setting that cannot be used; names the file, the key and the remedy."""


class SourceError(RltopError):
    """A path that cannot be followed."""


class NoMetricsError(SourceError):
    """A directory or a pattern in which there is no metric stream yet."""

    exit_code = EXIT_NO_METRICS


def reason_of(error: Exception) -> str:
    """Why something could not be read, in a few words: as the operating system, or the error itself, says it."""
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


def cannot_read(path: str, error: Exception) -> SourceError:
    """What to raise where a path cannot be read: names the path and the reason, and says what to do."""
    shown = path if len(path) <= _LONGEST_PATH else f"{path[: _LONGEST_PATH // 2]}…{path[-_LONGEST_PATH // 2 :]}"
    hint = "check the path and its permissions"
    if isinstance(error, OSError) and error.errno in _FAILING:
        hint = "the file system fails: try again, or read a copy on another disk"
    elif isinstance(error, RltopError):
        hint = error.hint or "unpack or mend it, or name another file"
    return SourceError(f"cannot read {shown}: {reason_of(error)}", hint)


class DecodeError(RltopError):
    """A file whose content is not what its kind promises."""


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """The boundary around whatever takes bytes apart: damage that it trips over is a `DecodeError` of `what`.

    A flipped bit reaches every line of a reader, so that no list of what it may raise
    is complete. What is said already, and what the operating system says, goes through.
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
