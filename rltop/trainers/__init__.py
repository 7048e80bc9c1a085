"""What is known about each trainer, one module each: its metric keys, its timing, how to turn on its metric stream."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rltop.catalog.dialect import Dialect
from rltop.resources import read_toml
from rltop.structs import NamedTuple, Struct
from rltop.trainers import (
    areal,
    art,
    classic,
    generic,
    llama_factory,
    ms_swift,
    nemo_rl,
    open_instruct,
    openrlhf,
    prime_rl,
    rlinf,
    roll,
    skyrl,
    slime,
    telescope,
    tinker,
    transformers,
    trinity,
    trl,
    verl,
)

GENERIC: Dialect = generic.DIALECT
"""Used when no trainer's fingerprint matches."""

BASE: Dialect = transformers.DIALECT
"""The dialect whose keys other trainers log too: later keys may show that it is one of those."""

ALL: tuple[Dialect, ...] = (
    verl.DIALECT,
    verl.V1,
    verl.EASYR1,
    verl.RLLM,
    openrlhf.DIALECT,
    trl.DIALECT,
    trl.ASYNC,
    transformers.DIALECT,
    transformers.VERIFIERS,
    telescope.DIALECT,
    trinity.DIALECT,
    rlinf.EMBODIED,
    rlinf.DIALECT,
    ms_swift.DIALECT,
    llama_factory.DIALECT,
    tinker.DIALECT,
    skyrl.BACKEND,
    skyrl.DIALECT,
    prime_rl.DIALECT,
    slime.MILES,
    slime.DIALECT,
    nemo_rl.DIALECT,
    areal.DIALECT,
    roll.DIALECT,
    open_instruct.DIALECT,
    art.DIALECT,
    classic.STABLE_BASELINES3,
    classic.RLLIB,
    classic.CLEANRL,
    classic.BASELINES,
    classic.SPINNING_UP,
    GENERIC,
)
"""Every dialect; of those that match equally well, the first wins."""


class StreamKind(enum.StrEnum):
    JSONL = "JSONL"
    TENSORBOARD = "TensorBoard events"
    WANDB = "W&B file"
    CONSOLE = "console log"
    TABLES = "W&B file and parquet tables"
    NONE = "no local file"


class SetupHint(Struct):
    """The line that turns on a trainer's metric stream.

    Attributes:
        trainer: its usual name; the dialect's name if there is one.
        line: the exact line: a flag, a config key or Python code; empty if the stream is on by default.
        leaves: what a run leaves on disk without this line; empty if that equals `writes`.
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
        """What to set and where the file appears, in one line."""
        done = self.line or "on by default"
        return f"{done}  ->  {self.writes}" if self.writes else done


class RolloutHint(NamedTuple):
    """The line that makes a trainer dump its completions.

    Attributes:
        line: the exact line; empty if the dump is on by default.
    """

    trainer: str
    line: str
    writes: str


@cache
def _tables() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    return read_toml(Path(__file__).with_name("setup_hints.toml"))


@cache
def setup_hints() -> tuple[SetupHint, ...]:
    """The hints, in the order of the message "no metrics here": streams that rltop can follow come first."""
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
    """The hints for dumping rollouts; the last one is the format of docs/rollouts.md."""
    return tuple(RolloutHint(trainer, own["line"], own["writes"]) for trainer, own in _tables()["rollouts"].items())
