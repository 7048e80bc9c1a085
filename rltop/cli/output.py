"""All text that goes to standard output and standard error.

The one place that writes there when there is no screen: text from outside (paths, arguments, what the operating system
says) cannot reach the terminal but through it, and an output that cannot be written is a message, not a fault.
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


class Looks(TypedDict):
    use_color: bool
    is_ascii: bool


class OutputError(RltopError):
    """Standard output is closed, or can no longer be written."""


def complain(*lines: str) -> None:
    """Write a message of one or more lines to standard error, control characters escaped.

    A line break inside one of `lines` is shown as its escape: a path with a line
    break in it cannot pass for a second message.
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
    """A line of standard error that is written over itself: a name, a bar, and what is said of the rest."""

    _CELLS = 24

    def __init__(self, columns: int, *, is_ascii: bool) -> None:
        from rltop.rows.glyphs import glyph_set

        self._columns = columns
        self._glyphs = glyph_set(is_ascii=is_ascii)
        self._is_drawn = False

    @classmethod
    def of_terminal(cls) -> ProgressLine | None:
        """A line of standard error; None where that is no terminal, or one without escape codes."""
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

        end = f"{self._glyphs.partly(share, self._CELLS)} {share_text(share)}, {rest}"
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


def complain_of(error: RltopError) -> None:
    complain(error.message, *([f"  {error.hint}"] if error.hint else []))


def say(text: str) -> None:
    """Write already escaped text to standard output; characters that its encoding lacks are escaped too.

    Raises:
        OutputError: it is closed, or cannot be written.
        BrokenPipeError: whoever read it has gone.
    """
    if sys.stdout is None:
        raise OutputError("standard output is closed", "redirect it to a file: rltop … > FILE")
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
    """Flush: a full disk only shows here.

    Raises:
        OutputError: standard output cannot be written.
        BrokenPipeError: whoever read it has gone.
    """
    if sys.stdout is not None:
        with _said():
            sys.stdout.flush()


def stop_saying() -> None:
    """Drop unwritten output, so that the interpreter does not try again at exit."""
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def hold_standard_streams() -> None:
    """Reserve the descriptors of closed standard streams, so that no later file gets them."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        pass
    os.close(descriptor)


def is_terminal() -> bool:
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


def looks(config: Config) -> Looks:
    """How a text on standard output may look: with colours, and with signs beyond ASCII."""
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


# -- internal errors, and those of the operating system: a traceback helps only whoever fixes the program ---------


def describe_fault(error: Exception, environ: Mapping[str, str]) -> list[str]:
    """What happened, where, and what to do about it; with the traceback if it was asked for.

    Args:
        environ: the environment; `RLTOP_DEBUG` set to anything asks for the traceback.
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


def what_ran_out(error: Exception) -> tuple[str, str]:
    """Which resource ran out, and what to do; both empty if none did."""
    import errno

    handles = (errno.EMFILE, errno.ENFILE)
    # A compiled module that cannot be opened is an ImportError, which has only the words of it.
    is_said = isinstance(error, ImportError) and any(os.strerror(number) in str(error) for number in handles)
    if is_said or (isinstance(error, OSError) and error.errno in handles):
        return "too many open files", "raise the limit: ulimit -n 256"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "cannot start another thread", "raise the process limit: ulimit -u, or the limit of the job or container"
    return "", ""


def describe_refusal(error: Exception, environ: Mapping[str, str]) -> list[str]:
    """The operating system's error, and what to do; with the traceback if it was asked for."""
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
    """The file of which this package is a part, as of a zipapp; empty where it is installed."""
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
