"""A metric file for transformers and TRL, as a trainer callback.

    from rltop.integrations.transformers import RltopCallback

    trainer.add_callback(RltopCallback("logs/metrics.jsonl"))

Owns what of a trainer's log reaches the file. transformers is imported only
when `RltopCallback` is asked for, never by rltop itself.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import TYPE_CHECKING, Any

from rltop.errors import RltopError
from rltop.integrations.jsonl import JsonlWriter

if TYPE_CHECKING:
    from rltop.clock import Clock

DEFAULT_PATH = "logs/metrics.jsonl"


class LogRows:
    """The events of a trainer that become rows; `RltopCallback` adds transformers' base class.

    A row is what the trainer logs, with `step`, `time` and, when the trainer knows
    it, `total_steps`. Only the process that the trainer calls world process zero
    opens the file. A write that fails is a warning, once: watching a run must not
    end it.
    """

    def __init__(self, path: str | os.PathLike[str] = DEFAULT_PATH, clock: Clock | None = None) -> None:
        """Nothing is opened before the first row.

        Args:
            path: the file to append to.
            clock: where the time of a row comes from; the machine's by default.
        """
        super().__init__()
        self._path = path
        self._clock = clock
        self._writer: JsonlWriter | None = None
        self._has_failed = False

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Append what the trainer has just logged, under the state's global step."""
        if not logs or self._has_failed or not state.is_world_process_zero:
            return
        total = getattr(state, "max_steps", 0) or 0
        row = ({"total_steps": total} if total > 0 else {}) | logs
        try:
            if self._writer is None:
                self._writer = JsonlWriter(self._path, self._clock)
            self._writer.write(state.global_step, row)
        except OSError as error:
            self._has_failed = True
            warnings.warn(f"rltop: no more metrics are written to {self._path}: {error}", RuntimeWarning, stacklevel=2)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the file; a log that comes later opens it again."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


if TYPE_CHECKING:

    class RltopCallback(LogRows):
        """Writes every log of a transformers or TRL trainer to a file that rltop follows."""


def __getattr__(name: str) -> Any:
    """Make `RltopCallback` when it is first asked for.

    Raises:
        RltopError: transformers is not installed.
        AttributeError: any other name.
    """
    if name != "RltopCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        base = importlib.import_module("transformers").TrainerCallback
    except ImportError as error:
        raise RltopError(
            "RltopCallback needs transformers, which is not installed in this environment",
            "install rltop into the trainer's environment, or write rows yourself with "
            "rltop.integrations.jsonl.JsonlWriter, which needs nothing else",
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
