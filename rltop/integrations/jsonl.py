"""A metric file for a training loop that leaves none: JSON lines, appended.

    trainer.add_callback(JsonlCallback("logs/metrics.jsonl"))  # transformers, TRL, unsloth
    log = JsonlWriter("logs/metrics.jsonl"); log.log(step, {"loss": 0.5})  # a loop of your own

Owns how a row is written; must not know how rltop reads it. Nothing is imported
but the standard library, and the syntax is that of Python 3.9: this file is
copied as it is into environments in which rltop is not installed.
"""

from __future__ import annotations

import importlib
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

DEFAULT_PATH = "logs/metrics.jsonl"


class JsonlWriter:
    """Appends one JSON object per step to a file.

    Every row is one write to a descriptor opened for appending, so a reader sees
    it at once, a crash loses no row that `log` has taken, and a run that is
    resumed continues in the same file. A half line that a killed process or a full
    disk left behind is ended first, so that it spoils no row but itself.

    Numbers that are not finite are written as `NaN`, `Infinity` and `-Infinity`,
    the literals of Python's json module: `null` could not tell them apart, nor
    from a metric without a value. rltop reads both.

    Use one writer per file, from one process (rank zero of a distributed run).

    Attributes:
        path: the file.
        lost: rows that could not be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = DEFAULT_PATH,
        now: Callable[[], float] = time.time,  # noqa: TID251 - stands alone: there is no other clock
    ) -> None:
        """Open `path` for appending; its folder is made when it is missing.

        Args:
            path: the file, usually `metrics.jsonl` in the run's folder.
            now: where the time of a row comes from, in seconds since the epoch.

        Raises:
            OSError: the file cannot be opened for writing.
        """
        self.path = Path(path)
        self.lost = 0
        self._now = now
        self._is_failing = False
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._descriptor: int | None = os.open(self.path, flags, 0o644)
        self._is_torn = _ends_in_half_line(self._descriptor)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Append the row of `step`; what goes wrong with the file is a warning, never the end of the training.

        Args:
            step: the optimiser step; rows of one step may come in several calls.
            metrics: key to value. Scalars of array libraries become numbers; what
                JSON cannot say becomes its text. `step` and `time` (seconds since
                the epoch) are the writer's own and win over keys of that name.

        Raises:
            ValueError: the writer is closed.
        """
        if self._descriptor is None:
            raise ValueError(f"{self.path} is closed")
        row = {"step": step, "time": self._now()}
        row.update((str(key), value) for key, value in metrics.items() if key not in ("step", "time"))
        try:
            self._append(self._descriptor, _line_of(row))
        except OSError as error:
            self.lost += 1
            if not self._is_failing:
                self._is_failing = True
                _warn(f"the row of step {step} could not be written to {self.path}: {error}; the next ones are tried")
        else:
            self._is_failing = False

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _append(self, descriptor: int, line: bytes) -> None:
        """Write a whole line, or raise OSError and remember that a part of it may stand there."""
        rest = b"\n" + line if self._is_torn else line
        while rest:
            written = os.write(descriptor, rest)
            self._is_torn = self._is_torn or written < len(rest)
            rest = rest[written:]
        self._is_torn = False

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LogRows:
    """The events of a trainer that become rows; `JsonlCallback` adds the base class of transformers.

    A row is all that the trainer logs, with `step`, `time` and, when the trainer
    knows it, `total_steps`. Only the process that the trainer calls world process
    zero opens the file. Watching a run must not end it: a file that cannot be
    opened is a warning, once.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = DEFAULT_PATH,
        now: Callable[[], float] = time.time,  # noqa: TID251 - stands alone: there is no other clock
    ) -> None:
        """Nothing is opened before the first row.

        Args:
            path: the file to append to.
            now: where the time of a row comes from, in seconds since the epoch.
        """
        super().__init__()
        self._path = path
        self._now = now
        self._writer: JsonlWriter | None = None
        self._has_failed = False

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Append what the trainer has just logged, under the state's global step."""
        if not logs or self._has_failed or not state.is_world_process_zero:
            return
        try:
            if self._writer is None:
                self._writer = JsonlWriter(self._path, self._now)
        except OSError as error:
            self._has_failed = True
            _warn(f"no metrics are written to {self._path}: {error}")
            return
        total = getattr(state, "max_steps", 0) or 0
        row = {"total_steps": total} if total > 0 else {}
        row.update(logs)
        self._writer.log(state.global_step, row)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the file; a log that comes later opens it again."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


if TYPE_CHECKING:

    class JsonlCallback(LogRows):
        """Writes every log of a transformers or TRL trainer to a file that rltop follows."""


def __getattr__(name: str) -> Any:
    """Make `JsonlCallback` when it is first asked for: a loop of its own need not have transformers.

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
            "JsonlCallback is for trainers of transformers, which is not installed in this environment; "
            "JsonlWriter needs nothing else: log = JsonlWriter(path), log.log(step, metrics)"
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


def _warn(message: str) -> None:
    warnings.warn(f"rltop: {message}", RuntimeWarning, stacklevel=3)


def _ends_in_half_line(descriptor: int) -> bool:
    """Whether the file has content that does not end with a newline."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _line_of(row: dict[str, Any]) -> bytes:
    """A row as one line; a value that JSON cannot take apart is written as its text."""
    try:
        text = json.dumps(row, default=_plain, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):  # keys that are tuples, an object that holds itself
        text = json.dumps({key: _plain(value) for key, value in row.items()}, default=str, separators=(",", ":"))
    return text.encode() + b"\n"


def _plain(value: Any) -> Any:
    """What JSON can say of `value`: a scalar's number, an array's list, else its text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    for name in ("item", "tolist", "__float__"):
        convert = getattr(value, name, None)
        if callable(convert):
            try:
                return convert()
            except (TypeError, ValueError, RuntimeError):  # `item` of an array with several elements
                continue
    return str(value)
