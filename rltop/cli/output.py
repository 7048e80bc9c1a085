"""All text that goes to standard output and standard error.

Without a screen, only this module writes to the terminal: it escapes text from outside (paths, arguments, messages of
the operating system), and reports a failed write as a message, not as an internal error.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypedDict

from rltop.errors import RltopError

if TYPE_CHECKING:
    from rltop.config import Config

DEFAULT_WIDTH = 100
MIN_WIDTH = 40
MAX_WIDTH = 10_000
"""No terminal is wider; a larger request is a typo."""
_LONGEST = 4_096
_DIGITS = 5
DEBUG_VARIABLE = "RLTOP_DEBUG"
_LONGEST_FAULT = 300
_LAST_STANDARD = 2


class OutputStyle(TypedDict):
    use_color: bool
    is_ascii: bool


class OutputError(RltopError):
    """Standard output is closed, or can no longer be written."""


def print_error(*lines: str) -> None:
    """Write a message of one or more lines to standard error, with control characters escaped.

    A line break inside one of `lines` is escaped too, so that a path with a line break cannot pass for a second
    message.
    """
    if sys.stderr is None:
        return
    from rltop.model import Label

    text = "rltop: " + "\n".join(Label.of(shortened(line)).display for line in lines)
    # If even standard error fails, there is nowhere left to report it.
    with contextlib.suppress(OSError, ValueError):
        try:
            print(text, file=sys.stderr, flush=True)  # noqa: T201
        except (UnicodeError, LookupError):
            os.write(sys.stderr.fileno(), f"{text}\n".encode("ascii", "backslashreplace"))


class ProgressLine:
    """A line of standard error that is overwritten in place: a name, a bar, and the remaining time."""

    _CELLS = 24

    def __init__(self, columns: int, *, is_ascii: bool) -> None:
        from rltop.rows.glyphs import glyph_set

        self._columns = columns
        self._glyphs = glyph_set(is_ascii=is_ascii)
        self._is_drawn = False

    @classmethod
    def of_terminal(cls) -> ProgressLine | None:
        """A line of standard error; None if that is not a terminal, or one without escape codes."""
        from rltop.config import is_plain_terminal

        try:
            if sys.stderr is None or not sys.stderr.isatty() or is_plain_terminal(os.environ):
                return None
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
        except (OSError, ValueError):
            return None
        return cls(columns or DEFAULT_WIDTH, is_ascii=not _is_utf8(sys.stderr))

    def show(self, what: str, share: float, rest: str) -> None:
        from rltop.model import Label
        from rltop.rows.rows import clip
        from rltop.units import share as share_text

        end = f"{self._glyphs.partial_bar(share, self._CELLS)} {share_text(share)}, {rest}"
        room = self._columns - 1 - len(end) - 1
        name = clip(Label.of(what).display, room) if room > 0 else ""
        text = f"{name} {end}" if name else end[: self._columns - 1]
        self._write(f"\r\x1b[K{self._glyphs.to_ascii(text) if self._glyphs.is_ascii else text}")
        self._is_drawn = True

    def close(self) -> None:
        if self._is_drawn:
            self._write("\r\x1b[K")
            self._is_drawn = False

    @staticmethod
    def _write(text: str) -> None:
        # If even standard error fails, there is nowhere left to report it.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()


def shortened(line: str) -> str:
    """A line with its middle cut out if it is longer than any path."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} … {line[-_LONGEST // 2 :]}"


def print_exception(error: RltopError) -> None:
    print_error(error.message, *([f"  {error.hint}"] if error.hint else []))


def write_output(text: str) -> None:
    """Write already escaped text to standard output; characters that its encoding lacks are escaped too.

    Raises:
        OutputError: it is closed, or cannot be written.
        BrokenPipeError: its reader is gone.
    """
    if sys.stdout is None:
        raise OutputError("standard output is closed", "redirect it to a file: rltop … > FILE")
    with _said():
        try:
            sys.stdout.write(text)
        except (UnicodeError, LookupError):
            sys.stdout.write(_within(sys.stdout.encoding, text))


def _within(encoding: str, text: str) -> str:
    """Escape the characters that an encoding lacks, as in JSON, so that a document stays valid."""
    from rltop.model import json_escape

    def has(character: str) -> bool:
        try:
            character.encode(encoding)
        except UnicodeError:
            return False
        return True

    return "".join(each if each.isascii() or has(each) else json_escape(each) for each in text)


def flush_output() -> None:
    """Flush: a full disk is only noticed here.

    Raises:
        OutputError: standard output cannot be written.
        BrokenPipeError: its reader is gone.
    """
    if sys.stdout is not None:
        with _said():
            sys.stdout.flush()


def discard_output() -> None:
    """Discard unwritten output, so that the interpreter does not retry at exit."""
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def hold_standard_streams() -> None:
    """Occupy the descriptors of closed standard streams, so that no file opened later gets them."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        pass
    os.close(descriptor)


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def text_width(wanted: int | None) -> int:
    """Width in columns: the requested one, else the terminal's, else 100; limited to 40 to 10,000."""
    if wanted is None and is_terminal():
        wanted = _terminal_columns()
    return min(MAX_WIDTH, max(MIN_WIDTH, wanted or DEFAULT_WIDTH))


def _terminal_columns() -> int:
    """Like `shutil.get_terminal_size`, but `shutil` imports archive modules and is slow to load; 0: unknown."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and len(said) <= _DIGITS and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


def output_style(config: Config) -> OutputStyle:
    """Whether text on standard output may use colours and non-ASCII characters."""
    return {"use_color": config.use_color(is_terminal()), "is_ascii": config.ui.is_ascii or not _is_utf8(sys.stdout)}


def _is_utf8(stream: object) -> bool:
    encoding = getattr(stream, "encoding", None) or "ascii"
    return encoding.lower().replace("-", "").startswith("utf")


@contextlib.contextmanager
def _said() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        what = f"cannot write to standard output: {error.strerror or error}"
        raise OutputError(what, "free some space there, or redirect it elsewhere") from error
    except (UnicodeError, LookupError) as error:
        what = f"cannot write to standard output in its encoding {sys.stdout.encoding}: {error}"
        raise OutputError(what, "unset PYTHONIOENCODING, or set it to utf-8") from error


# -- internal errors and operating system errors: a traceback only helps whoever fixes the program ----------------


def describe_fault(error: Exception, environ: Mapping[str, str]) -> list[str]:
    """Message about an internal error: what, where, and what to do; with the traceback if requested.

    Args:
        environ: `RLTOP_DEBUG` set to anything requests the traceback.
    """
    import rltop
    from rltop.model import Label

    what = Label.of(f"{type(error).__name__}: {error}"[:_LONGEST_FAULT]).display
    lines = _traceback(error, environ)
    lines.append(f"internal error in rltop {rltop.__version__}, not in your run: {what}{_place(error)}")
    lines.append("  your run is not affected: rltop only reads its files")
    if environ.get(DEBUG_VARIABLE):
        lines.append("  please report the traceback above, with the line of the metric file that triggered it")
    else:
        lines.append(f"  please report it, with the traceback that {DEBUG_VARIABLE}=1 prints")
    return lines


def exhausted_resource(error: Exception) -> tuple[str, str]:
    """The exhausted resource, and what to do; both empty if it is another error."""
    import errno

    handles = (errno.EMFILE, errno.ENFILE)
    # If a compiled module cannot be opened, it is an ImportError with only the text of the error.
    is_said = isinstance(error, ImportError) and any(os.strerror(number) in str(error) for number in handles)
    if is_said or (isinstance(error, OSError) and error.errno in handles):
        return "too many open files", "raise the limit: ulimit -n 256"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "cannot start another thread", "raise the process limit: ulimit -u, or the limit of the job or container"
    return "", ""


def describe_refusal(error: Exception, environ: Mapping[str, str]) -> list[str]:
    """Message about an operating system error and what to do; with the traceback if requested."""
    what = str(error)
    if isinstance(error, OSError) and error.strerror:
        what = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    archive = _archive()
    if isinstance(error, NotADirectoryError) and archive:
        return [
            *_traceback(error, environ),
            f"it runs from inside of {archive}, where the files that it brings along cannot be opened",
            "  install it (pip, pipx, uv), or pack it so that it is unpacked to run, as shiv does",
        ]
    return [
        *_traceback(error, environ),
        f"operating system error: {what}",
        f"  check the path, its permissions and the limits (ulimit -a); {DEBUG_VARIABLE}=1 prints the traceback",
    ]


def _archive() -> str:
    """The archive (zipapp) that contains this package; empty if it is installed."""
    from pathlib import Path

    inside = Path(__file__).parents[2]
    return str(inside) if inside.is_file() else ""


def _traceback(error: Exception, environ: Mapping[str, str]) -> list[str]:
    if not environ.get(DEBUG_VARIABLE):
        return []
    import traceback

    return ["traceback:", *"".join(traceback.format_exception(error)).splitlines(), ""]


def _place(error: Exception) -> str:
    import traceback
    from pathlib import Path

    root = Path(__file__).parents[1]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(root):
            return f" ({path.relative_to(root.parent)}:{frame.lineno})"
    return ""
