"""How to turn a metric stream on: what to say when none is found.

Owns the form of such a hint, and the hints for what has no dialect of its own. Every other
trainer has its hint in its own file, beside its dialect; `trainers/__init__.py` puts them
in order. Knows nothing of files that exist.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from rltop.structs import Struct


class StreamKind(enum.StrEnum):
    """What a trainer can be made to write."""

    JSONL = "JSONL"
    TENSORBOARD = "TensorBoard events"
    WANDB = "W&B file"
    TABLES = "W&B file and parquet tables"
    NONE = "no local file"


class SetupHint(Struct):
    """What turns one trainer's metric stream on.

    Attributes:
        trainer: as people call it; where it is the name of a `Dialect`, spelled the same.
        line: the exact line: a flag, a config key, a line of Python; empty where nothing is to be done.
        writes: the file that appears, with the trainer's defaults.
        kind: what that file is.
        note: what a person would otherwise trip over; one or two sentences.
        leaves: what stays on disk of any run, without asking; empty where that is what `writes` says.
    """

    trainer: str
    line: str
    writes: str
    kind: StreamKind = StreamKind.JSONL
    note: str = ""
    leaves: str = ""

    @property
    def is_followed(self) -> bool:
        """Whether rltop follows this kind of file as it grows."""
        return self.kind is not StreamKind.NONE

    @property
    def summary(self) -> str:
        """One line for a terminal: what to do, and where the file appears."""
        done = self.line or "nothing to do"
        return f"{done}  ->  {self.writes}" if self.writes else done


class RolloutHint(NamedTuple):
    """What makes a trainer write down its completions one by one.

    Attributes:
        trainer: the name of a `Dialect`.
        line: the exact line; empty where nothing is to be done.
        writes: what appears.
    """

    trainer: str
    line: str
    writes: str


CALLBACK_LINE = (
    'from rltop.integrations import JsonlCallback; trainer.add_callback(JsonlCallback("logs/metrics.jsonl"))'
)
"""For everything that is a transformers Trainer."""

TRANSFORMERS = SetupHint(
    "transformers", CALLBACK_LINE, "logs/metrics.jsonl", note="Any transformers Trainer; set logging_steps=1."
)
UNSLOTH = SetupHint(
    "unsloth",
    CALLBACK_LINE,
    "logs/metrics.jsonl",
    note="unsloth patches TRL's trainers and switches reporting off; the callback still hears every log.",
)
TORCHTUNE = SetupHint(
    "torchtune",
    "metric_logger._component_=torchtune.training.metric_logging.DiskLogger metric_logger.output_fmt=jsonl",
    "${output_dir}/logs/log_<time>.*",
    note="The default format of DiskLogger is plain text.",
)
STABLE_BASELINES3 = SetupHint(
    "Stable-Baselines3",
    'model.set_logger(stable_baselines3.common.logger.configure("logs", ["stdout", "json"]))',
    "logs/progress.json",
    note="One row per line despite the name: pass the file itself and --step-key time/total_timesteps.",
)
RLLIB = SetupHint(
    "RLlib",
    "",
    "<trial_dir>/result.json",
    note="Written by default, one row per line despite the name: pass the file and --step-key training_iteration.",
)
OWN_LOOP = SetupHint(
    "your own loop",
    'from rltop.integrations import JsonlWriter; log = JsonlWriter("logs/metrics.jsonl"); log.log(step, metrics)',
    "logs/metrics.jsonl",
    note="Standard library only: one dictionary of numbers per step, from one process.",
)
ANY_OTHER_ROLLOUTS = RolloutHint(
    "any other",
    "one JSON line per completion: step, group, reward, completion_tokens, completion",
    "rollouts.jsonl",
)
