"""How to turn on a metric stream: what to say when none is found.

The hints themselves are in `setup_hints.toml`, read when one is shown. Knows nothing of files that exist.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rltop.resources import read_toml
from rltop.structs import NamedTuple, Struct


class StreamKind(enum.StrEnum):
    """What a trainer can be made to write."""

    JSONL = "JSONL"
    TENSORBOARD = "TensorBoard events"
    WANDB = "W&B file"
    CONSOLE = "console log"
    TABLES = "W&B file and parquet tables"
    NONE = "no local file"


class SetupHint(Struct):
    """The line that turns on one trainer's metric stream.

    Attributes:
        trainer: its usual name; for a trainer with a `Dialect`, that dialect's name.
        line: the exact line: a flag, a config key, a line of Python; empty if it is on by default.
        leaves: what any run leaves on disk without this line; empty if that is what `writes` says.
    """

    trainer: str
    line: str
    writes: str
    kind: StreamKind = StreamKind.JSONL
    note: str = ""
    leaves: str = ""

    @property
    def is_followed(self) -> bool:
        return self.kind is not StreamKind.NONE

    @property
    def summary(self) -> str:
        """One line for a terminal: what to set, and where the file appears."""
        done = self.line or "on by default"
        return f"{done}  ->  {self.writes}" if self.writes else done


class RolloutHint(NamedTuple):
    """The line that makes a trainer dump its completions.

    Attributes:
        line: the exact line; empty if it is on by default.
    """

    trainer: str
    line: str
    writes: str


@cache
def _tables() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    return read_toml(Path(__file__).with_suffix(".toml"))


@cache
def setup_hints() -> tuple[SetupHint, ...]:
    """In the order in which the message "no metrics here" names them: what is followed first."""
    return tuple(
        SetupHint(
            trainer,
            own["line"],
            own["writes"],
            StreamKind(own.get("kind", StreamKind.JSONL)),
            " ".join(own.get("note", "").split()),
            own.get("leaves", ""),
        )
        for trainer, own in _tables()["metrics"].items()
    )


@cache
def rollout_hints() -> tuple[RolloutHint, ...]:
    """Where the pages of groups and completions come from; the format of the last is docs/rollouts.md."""
    return tuple(RolloutHint(trainer, own["line"], own["writes"]) for trainer, own in _tables()["rollouts"].items())
