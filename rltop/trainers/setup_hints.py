"""How to turn on a metric stream: what to say when none is found.

Owns the form of such a hint, and the hints for trainers without a dialect of their own.
Every other trainer has its hint in its own file, next to its dialect;
`trainers/__init__.py` puts them in order. Knows nothing of files that exist.
"""

from __future__ import annotations

import enum

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
        writes: the file that appears, with the trainer's defaults.
        kind: what that file is.
        note: pitfalls; one or two sentences.
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
        """Whether rltop follows this kind of file as it grows."""
        return self.kind is not StreamKind.NONE

    @property
    def summary(self) -> str:
        """One line for a terminal: what to set, and where the file appears."""
        done = self.line or "on by default"
        return f"{done}  ->  {self.writes}" if self.writes else done


class RolloutHint(NamedTuple):
    """The line that makes a trainer dump its completions.

    Attributes:
        trainer: the name of a `Dialect`.
        line: the exact line; empty if it is on by default.
        writes: what appears.
    """

    trainer: str
    line: str
    writes: str


CALLBACK_LINE = (
    'from rltop.integrations import JsonlCallback; trainer.add_callback(JsonlCallback("logs/metrics.jsonl"))'
)
"""For every transformers Trainer."""

TRANSFORMERS = SetupHint(
    "transformers", CALLBACK_LINE, "logs/metrics.jsonl", note="Any transformers Trainer; set logging_steps=1."
)
UNSLOTH = SetupHint(
    "unsloth",
    CALLBACK_LINE,
    "logs/metrics.jsonl",
    note="unsloth patches TRL's trainers and turns reporting off; the callback still gets every log.",
)
VERIFIERS = SetupHint(
    "verifiers",
    CALLBACK_LINE,
    "logs/metrics.jsonl",
    note="Its own trainer, RLTrainer of 0.1.8 and 0.1.9; newer versions train with prime-rl. results.jsonl of an "
    "evaluation holds completions, not metrics.",
)
TORCHTUNE = SetupHint(
    "torchtune",
    "metric_logger._component_=torchtune.training.metric_logging.DiskLogger",
    "${output_dir}/logs/log_<time>.txt",
    StreamKind.CONSOLE,
    note="The default of most recipes. Up to 0.6.1 DiskLogger writes text only, and ignores output_fmt.",
)
STABLE_BASELINES3 = SetupHint(
    "Stable-Baselines3",
    'model.set_logger(stable_baselines3.common.logger.configure("logs", ["stdout", "json"]))',
    "logs/progress.json",
    note="JSON lines despite the name: pass the file itself and --step-key time/total_timesteps.",
)
RLLIB = SetupHint(
    "RLlib",
    "",
    "<trial_dir>/result.json",
    note="On by default; JSON lines despite the name: pass the file itself and --step-key training_iteration.",
)
OWN_LOOP = SetupHint(
    "your own loop",
    'from rltop.integrations import JsonlWriter; log = JsonlWriter("logs/metrics.jsonl"); log.log(step, metrics)',
    "logs/metrics.jsonl",
    note="Standard library only. Log one dictionary of numbers per step, from one process.",
)
ANY_OTHER_ROLLOUTS = RolloutHint(
    "any other",
    "one JSON line per completion: step, group, reward, completion_tokens, completion",
    "rollouts.jsonl",
)
