"""A metric file for a training loop that leaves none.

Owns how a row is written; must not know how rltop reads it. Standard library
only, so that a trainer's environment needs nothing but this package.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rltop.clock import Clock, SystemClock


class JsonlWriter:
    """Appends one JSON object per step to a file.

    Every row is one write to a descriptor opened for appending, so a reader sees
    it at once, a crash loses no row that `write` returned from, and a run that is
    resumed continues in the same file. A half line that a killed process left
    behind is ended first, so that it spoils no row but itself.

    Numbers that are not finite are written as `NaN`, `Infinity` and `-Infinity`,
    the literals of Python's json module: `null` could not tell them apart, nor
    from a metric without a value. rltop reads both.

    Use one writer per file, from one process (rank zero of a distributed run).
    """

    def __init__(self, path: str | os.PathLike[str], clock: Clock | None = None) -> None:
        """Open `path` for appending; its folder is made when it is missing.

        Args:
            path: the file, usually `metrics.jsonl` in the run's folder.
            clock: where the time of a row comes from; the machine's by default.

        Raises:
            OSError: the file cannot be opened for writing.
        """
        self.path = Path(path)
        self._clock = clock or SystemClock()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if _ends_in_half_line(self._descriptor):
            os.write(self._descriptor, b"\n")

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Append the row of `step`.

        Args:
            step: the optimiser step; rows of one step may come in several calls.
            metrics: key to value. Scalars of array libraries become numbers; what
                JSON cannot say becomes its text. `step` and `time` (seconds since
                the epoch) are the writer's own and win over keys of that name.

        Raises:
            OSError: the row could not be written, for example on a full disk.
            ValueError: the writer is closed.
        """
        if self._descriptor is None:
            raise ValueError(f"{self.path} is closed")
        row = {"step": step, "time": self._clock.now()}
        row |= {str(key): value for key, value in metrics.items() if key not in row}
        line = json.dumps(row, default=_plain, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _ends_in_half_line(descriptor: int) -> bool:
    """Whether the file has content that does not end with a newline."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _plain(value: Any) -> Any:
    """What JSON can say of `value`: a scalar's number, an array's list, else its text."""
    for name in ("item", "tolist"):
        convert = getattr(value, name, None)
        if callable(convert):
            try:
                return convert()
            except (TypeError, ValueError, RuntimeError):  # `item` of an array with several elements
                continue
    return str(value)
