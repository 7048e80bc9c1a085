"""A metric file for a training loop that writes none: JSON lines, appended.

    trainer.add_callback(JsonlCallback("logs/metrics.jsonl"))  # transformers, TRL, unsloth
    log = JsonlWriter("logs/metrics.jsonl"); log.log(step, {"loss": 0.5})  # your own loop
    with log.phase("rollout"): ...  # rltop then says where the loop is

Knows nothing of how rltop reads the rows. Uses only the standard library and the syntax of Python 3.9, because this
file is copied unchanged into environments without rltop.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

DEFAULT_PATH = "logs/metrics.jsonl"
_ERROR_CHARS = 300


class JsonlWriter:
    """Appends one JSON object per step to a file.

    Each row is a single write to a descriptor opened for appending: readers see it at once, a crash loses no logged
    row, and a resumed run continues the same file. If a killed process or a full disk has left a partial last line, it
    is ended first, so only that row is lost. A deleted file is created again.

    Non-finite numbers are written as `NaN`, `Infinity` and `-Infinity`, the literals of Python's json module: `null`
    could stand for any of them, or for a missing value. rltop reads both.

    Use one writer per file, in one process (rank zero of a distributed run); threads may share it.

    Attributes:
        path: the file.
        lost: number of rows that could not be written.
    """

    _lock = threading.RLock()  # shared by all writers: with a lock of its own a writer could not be copied

    def __init__(
        self,
        path: str | os.PathLike[str] = DEFAULT_PATH,
        now: Callable[[], float] = time.time,  # noqa: TID251 - this file has no access to `rltop.clock`
    ) -> None:
        """Open `path` for appending; a missing folder is created.

        Args:
            path: the file, usually `metrics.jsonl` in the run's folder.
            now: clock for row times, in seconds since the epoch.

        Raises:
            OSError: the file cannot be opened for writing.
        """
        self.path = Path(path)
        self.lost = 0
        self._now = now
        self._is_failing = False
        self._place = Path(os.path.abspath(self.path))  # noqa: PTH100 - stays valid after a chdir
        self._is_torn = False
        self._newest: Any = None
        self._steps = 0
        self._descriptor: int | None = None
        self._open()

    def _open(self) -> int:
        self._place.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        descriptor = self._descriptor = os.open(self._place, flags, 0o644)
        self._is_torn = _ends_in_half_line(descriptor)
        return descriptor

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Append the row of `step`. Never raises: rows that cannot be written are counted in `lost`, with one warning.

        Only KeyboardInterrupt and SystemExit pass. If warnings are errors (`-W error`), the warning goes to standard
        error instead.

        Args:
            step: the optimiser step; a step may be logged in several calls.
            metrics: key → value. Scalars of array libraries become numbers; other values that JSON lacks become text.
                `step` and `time` (seconds since the epoch) are set by the writer and override keys of that name.
        """
        try:
            own = {"step": step, "time": self._now()}
            row = {**own, **{_text(key): value for key, value in metrics.items()}, **own}
        except Exception as error:
            self._lose(f"step {_text(step)}", error)
        else:
            self._write(row, f"step {_text(step)}")
            self._steps += _text(step) != _text(self._newest)
            self._newest = step

    def phase(self, name: str, rank: int | None = None) -> JsonlPhase:
        """A context manager that writes a line at the beginning and at the end of a phase of the loop.

            with log.phase("rollout"):
                samples = generate(prompts)

        A process that hangs or is killed inside writes only the first line, so `rltop where` can name the open phase.
        Never raises; an exception of the block passes through and is noted in the second line.

        Args:
            name: `rollout`, `reward`, `logprob`, `train`, `weight_sync`, `validation`, `checkpoint`, or any other.
            rank: rank of this process, if several write phases: each to its own file next to the metrics, such as
                `phases-3.jsonl`, or on a local disk all to the same file.
        """
        return JsonlPhase(self, name or "phase", rank)

    def _write(self, row: dict[str, Any], what: str) -> None:
        """Append a row; never raises."""
        try:
            line = _line_of(row)
            with self._lock:
                self._append(line)
        except Exception as error:
            self._lose(what, error)
        else:
            self._is_failing = False

    def _lose(self, what: str, error: Exception) -> None:
        self.lost += 1
        if not self._is_failing:
            self._is_failing = True
            _warn("{} could not be written to {}: {}; later rows will still be tried", what, self.path, error)

    def close(self) -> None:
        """Write a line that ends the run, so that rltop can tell it from one that hangs, and close the file.

        The line is omitted while an exception propagates (a failing `with` block), after an uncaught exception (a call
        by `atexit`), and if only a single step was logged, as by a loop that opens a writer for each step.
        """
        # In a notebook a failed cell is not the end.
        is_uncaught = hasattr(sys, "last_type") and not hasattr(sys, "ps1")
        if self._descriptor is not None and self._steps > 1 and sys.exc_info()[0] is None and not is_uncaught:
            JsonlPhase(self, "", None)._tell(is_end=True)
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                os.close(descriptor)
            except OSError as error:
                _warn("could not close {}: {}", self.path, error)

    def _append(self, line: bytes) -> None:
        """Write a whole line; if it raises, remember that part of the line may have been written.

        Raises:
            ValueError: the writer is closed.
            OSError: the file cannot be written.
        """
        descriptor = self._descriptor
        if descriptor is None:
            raise ValueError("the writer is closed")
        if not os.fstat(descriptor).st_nlink:
            deleted, descriptor = descriptor, self._open()
            os.close(deleted)
        rest = b"\n" + line if self._is_torn else line
        while rest:
            written = os.write(descriptor, rest)
            self._is_torn = self._is_torn or written < len(rest)
            rest = rest[written:]
        self._is_torn = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path, so that a copy opens the file itself: its descriptor is not valid in another process."""
        return type(self), (self.path, self._now)

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class JsonlPhase:
    """A phase of the loop, as a context manager; see `JsonlWriter.phase`.

    Its lines have `rltop_phase` as first key, which distinguishes them from rows, and no step. The phase without a name
    marks the end of the run and has the newest step.
    """

    def __init__(self, writer: JsonlWriter, name: str, rank: int | None) -> None:
        self._writer, self._name, self._rank = writer, name, rank
        self._begun: float | None = None

    def __enter__(self) -> JsonlPhase:
        self._tell()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = kind is not None and issubclass(kind, (Exception, KeyboardInterrupt))
        self._tell(f"{getattr(kind, '__name__', kind)}: {_text(error)}" if failed else "", is_end=True)

    def _tell(self, error: str = "", is_end: bool = False) -> None:
        writer = self._writer
        try:
            now = writer._now()
            self._begun = now if self._begun is None or not is_end else self._begun
            row: dict[str, Any] = {"rltop_phase": _text(self._name), "begin": self._begun}
            if not self._name:
                row["step"] = writer._newest
            if is_end:
                row["end"] = now
            if self._rank is not None:
                row["rank"] = self._rank
            row.update(pid=os.getpid(), host=os.uname().nodename)
            identity = _identity(row["pid"])
            if identity:
                row["process"] = identity
            if threading.current_thread() is not threading.main_thread():
                row["thread"] = threading.get_ident()
            if error:
                row["error"] = error[:_ERROR_CHARS]
        except Exception as fault:
            writer._lose(f"phase {_text(self._name)}", fault)
        else:
            writer._write(row, f"phase {_text(self._name)}")


_IDENTITIES: dict[int, str] = {}


def _identity(pid: int) -> str:
    # Boot, process namespace and start of this process: its id may be another's elsewhere, or later.
    if pid not in _IDENTITIES:
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
            namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")  # noqa: PTH115 - Path.readlink is new
            begun = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
            _IDENTITIES[pid] = f"{boot}-{namespace}-{begun}"
        except (OSError, IndexError):
            _IDENTITIES[pid] = ""  # not Linux
    return _IDENTITIES[pid]


def _renew_lock() -> None:
    """Replace the lock after a fork: the child has no thread that could release it."""
    JsonlWriter._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class LogRows:
    """Turns a trainer's events into rows; `JsonlCallback` adds the base class of transformers.

    A row has everything that the trainer logs, plus `step`, `time` and, if known, `total_steps`. Only the process that
    the trainer calls world process zero opens the file. Failing to open it causes one warning and never stops training.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = DEFAULT_PATH,
        now: Callable[[], float] = time.time,  # noqa: TID251 - this file has no access to `rltop.clock`
    ) -> None:
        """The file is opened with the first row.

        Args:
            path: the file to append to.
            now: clock for row times, in seconds since the epoch.
        """
        super().__init__()
        self._path = path
        self._now = now
        self._writer: JsonlWriter | None = None
        self._has_failed = False

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Append the trainer's log at the state's global step; never raises.

        Args:
            args: ignored.
            state: the trainer's state: global step, max steps, whether this is the main process.
            control: ignored.
            logs: metric → value; without any, nothing is written.
            **kwargs: ignored.
        """
        if self._has_failed:
            return
        try:
            if not logs or not state.is_world_process_zero:
                return
            if self._writer is None:
                self._writer = JsonlWriter(self._path, self._now)
            total = getattr(state, "max_steps", 0) or 0
            row = {"total_steps": total} if total > 0 else {}
            row.update(logs)
            step = state.global_step
        except Exception as error:
            self._has_failed = True
            _warn("metrics are not being written to {}: {}", self._path, error)
            return
        self._writer.log(step, row)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the file; a later log opens it again.

        Args:
            args: ignored.
            state: ignored.
            control: ignored.
            **kwargs: ignored.
        """
        if self._writer is not None:
            self._writer.close()
            self._writer = None


if TYPE_CHECKING:

    class JsonlCallback(LogRows):
        """Writes every log of a transformers or TRL trainer to a file that rltop follows."""


def __getattr__(name: str) -> Any:
    """Create `JsonlCallback` on first use, so that only its users need transformers.

    Raises:
        ImportError: transformers is not installed.
        AttributeError: any other name.
    """
    if name != "JsonlCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        base = importlib.import_module("transformers").TrainerCallback
    except ImportError as error:
        raise ImportError(
            "JsonlCallback needs transformers, which is not installed in this environment; "
            "JsonlWriter works without it: log = JsonlWriter(path), log.log(step, metrics)"
        ) from error
    made = type(
        name,
        (LogRows, base),
        {
            "__module__": __name__,
            "__doc__": "Writes every log of a transformers or TRL trainer to a file that rltop follows.",
        },
    )
    globals()[name] = made
    return made


def _warn(message: str, *details: object) -> None:
    """Issue a warning, or print to standard error if warnings are errors; never raises."""
    try:
        text = "rltop: " + message.format(*map(_text, details))
        try:
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        except Exception:
            sys.stderr.write(text + "\n")
    except Exception:
        return


def _ends_in_half_line(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _line_of(row: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(row, default=_plain, separators=(",", ":"))
    except Exception:  # e.g. tuple keys, a recursive object, or one with methods that raise
        text = "{" + ",".join(f"{json.dumps(key)}:{_json_of(value)}" for key, value in row.items()) + "}"
    return text.encode() + b"\n"


def _json_of(value: Any) -> str:
    for said in (_plain, _text):
        try:
            return json.dumps(said(value), default=_plain, separators=(",", ":"))
        except Exception:
            continue
    return "null"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict)):
        return value
    for name in ("item", "tolist", "__float__"):
        try:
            convert = getattr(value, name, None)
            if callable(convert):
                return convert()
        except Exception:  # e.g. `item` of an array with several elements, or a tensor whose device has failed
            continue
    return _text(value)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} object>"
