"""What rltop says on standard output and standard error.

The one place that writes there when there is no screen: text from outside (paths,
arguments, what the operating system says) cannot reach the terminal but through it,
and an output that cannot be written is a message, not a fault.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from rltop.errors import RltopError

DEFAULT_WIDTH = 100
MIN_WIDTH = 40
MAX_WIDTH = 10_000
"""No terminal is wider; what is asked for beyond that is a slip."""
_LONGEST = 4_096
_DIGITS = 5
_LAST_STANDARD = 2


class OutputError(RltopError):
    """Standard output is closed, or what is behind it takes no more."""


def complain(*lines: str) -> None:
    """Write a message of one or more lines to standard error, made harmless.

    A line break inside one of `lines` is shown as its escape: a path with a line
    break in it cannot pass for a second message.
    """
    if sys.stderr is None:
        return
    from rltop.model import Label

    text = "rltop: " + "\n".join(Label.of(shortened(line)).display for line in lines)
    # Nothing is left to be said where even this cannot be written.
    with contextlib.suppress(OSError, ValueError):
        try:
            print(text, file=sys.stderr, flush=True)  # noqa: T201
        except (UnicodeError, LookupError):
            os.write(sys.stderr.fileno(), f"{text}\n".encode("ascii", "backslashreplace"))


def shortened(line: str) -> str:
    """A line without its middle where it is longer than any path: a value of a megabyte helps nobody."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} … {line[-_LONGEST // 2 :]}"


def complain_of(error: RltopError) -> None:
    """Say what went wrong, and the remedy under it."""
    complain(error.message, *([f"  {error.hint}"] if error.hint else []))


def say(text: str) -> None:
    """Write to standard output what has been made harmless before; what its encoding lacks is escaped.

    Raises:
        OutputError: it is closed, or takes no more.
        BrokenPipeError: whoever read it has gone.
    """
    if sys.stdout is None:
        raise OutputError("standard output is closed", "open it, or send it to a file: rltop … > FILE")
    with _said():
        try:
            sys.stdout.write(text)
        except (UnicodeError, LookupError):
            sys.stdout.write(_within(sys.stdout.encoding, text))


def _within(encoding: str, text: str) -> str:
    """`text` with escapes for what an encoding lacks: those of JSON, so that a document stays one."""
    from rltop.model import spelled

    def has(character: str) -> bool:
        try:
            character.encode(encoding)
        except UnicodeError:
            return False
        return True

    return "".join(each if each.isascii() or has(each) else spelled(each) for each in text)


def finish_saying() -> None:
    """Hand on what still waits to be written: only then does a full disk show.

    Raises:
        OutputError: standard output takes no more.
        BrokenPipeError: whoever read it has gone.
    """
    if sys.stdout is not None:
        with _said():
            sys.stdout.flush()


def stop_saying() -> None:
    """Let go of what could not be written, so that the interpreter does not try again at its end."""
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def hold_standard_streams() -> None:
    """Keep the places of standard streams that are closed from being taken by a file that is opened later."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        pass
    os.close(descriptor)


def is_terminal() -> bool:
    """Does standard output go to a terminal?"""
    return sys.stdout is not None and sys.stdout.isatty()


def text_width(wanted: int | None) -> int:
    """Columns for a text: those asked for, else the terminal's, else 100; 40 to 10,000."""
    if wanted is None and is_terminal():
        wanted = _terminal_columns()
    return min(MAX_WIDTH, max(MIN_WIDTH, wanted or DEFAULT_WIDTH))


def _terminal_columns() -> int:
    """As `shutil` tells it, which reads and writes archives besides, and is imported accordingly long; 0: unknown."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and len(said) <= _DIGITS and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


def is_ascii_only() -> bool:
    """Can standard output say nothing but ASCII?"""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return not encoding.lower().replace("-", "").startswith("utf")


@contextlib.contextmanager
def _said() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        what = f"standard output cannot be written: {error.strerror or error}"
        raise OutputError(what, "make room where it goes, or send it elsewhere") from error
    except (UnicodeError, LookupError) as error:
        what = f"standard output cannot be written in its encoding {sys.stdout.encoding}: {error}"
        raise OutputError(what, "unset PYTHONIOENCODING, or set it to utf-8") from error
