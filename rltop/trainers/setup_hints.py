"""How to turn a metric stream on in each trainer: what to say when none is found.

Owns one line per trainer, as data; the message "no metrics here" and the page
`docs/trainers.md` are made of it. Knows nothing of files that exist.
"""

from __future__ import annotations

import enum

from rltop.structs import NamedTuple, Struct


class StreamKind(enum.StrEnum):
    """What a trainer can be made to write."""

    JSONL = "JSONL"
    TENSORBOARD = "TensorBoard events"
    WANDB = "W&B file"
    TABLES = "W&B file and parquet tables"
    NONE = "no local file"


class HowTo(Struct):
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


CALLBACK_LINE = (
    'from rltop.integrations import JsonlCallback; trainer.add_callback(JsonlCallback("logs/metrics.jsonl"))'
)
"""For everything that is a transformers Trainer."""

HOWTO: tuple[HowTo, ...] = (
    HowTo(
        "veRL",
        'trainer.logger=\'["console","file"]\'',
        "$VERL_FILE_LOGGER_ROOT/<project_name>/<experiment_name>.jsonl",
        note=(
            "Since 0.6.0. Set VERL_FILE_LOGGER_ROOT to an absolute folder on a shared file system, in the runtime "
            "environment of the Ray job too: a relative path ends up where the task runner happens to work. "
            "A relaunch under the same name truncates the file."
        ),
        leaves="the job's console output, and a W&B run where that is logged in",
    ),
    HowTo(
        "TRL",
        CALLBACK_LINE,
        "logs/metrics.jsonl",
        note=(
            "For every TRL trainer: GRPO, RLOO, PPO, DPO, KTO, Reward, SFT. Set logging_steps=1 to see every step. "
            "TRL itself leaves trainer_state.json, and that only at checkpoints."
        ),
        leaves="<output_dir>/checkpoint-<N>/trainer_state.json at checkpoints, and the console output",
    ),
    HowTo("transformers", CALLBACK_LINE, "logs/metrics.jsonl", note="Any transformers Trainer; set logging_steps=1."),
    HowTo(
        "unsloth",
        CALLBACK_LINE,
        "logs/metrics.jsonl",
        note="unsloth patches TRL's trainers and switches reporting off; the callback still hears every log.",
    ),
    HowTo(
        "tinker",
        "log_path=/shared/run",
        "<log_path>/metrics.jsonl",
        note="tinker-cookbook always writes it; log_path is an argument of every recipe.",
    ),
    HowTo(
        "prime-rl",
        "",
        "outputs/<run>/metrics.jsonl",
        note="Written by default, by trainer and orchestrator into one file; rows are merged by step. "
        "Both log `time/step`: the step time is that of the row that came last.",
    ),
    HowTo(
        "ART",
        "",
        ".art/<project>/models/<model>/history.jsonl",
        note="Written by default since 0.5.",
    ),
    HowTo("LLaMA-Factory", "", "<output_dir>/trainer_log.jsonl", note="Written by default."),
    HowTo(
        "ms-swift",
        "",
        "<output_dir>/v<N>-<time>/logging.jsonl",
        note="Written by default; completions.jsonl beside it holds answers, not metrics.",
    ),
    HowTo(
        "torchtune",
        "metric_logger._component_=torchtune.training.metric_logging.DiskLogger metric_logger.output_fmt=jsonl",
        "${output_dir}/logs/log_<time>.*",
        note="The default format of DiskLogger is plain text.",
    ),
    HowTo(
        "Stable-Baselines3",
        'model.set_logger(stable_baselines3.common.logger.configure("logs", ["stdout", "json"]))',
        "logs/progress.json",
        note="One row per line despite the name: pass the file itself and --step-key time/total_timesteps.",
    ),
    HowTo(
        "RLlib",
        "",
        "<trial_dir>/result.json",
        note="Written by default, one row per line despite the name: pass the file and --step-key training_iteration.",
    ),
    HowTo(
        "OpenRLHF",
        "--logger.tensorboard_dir /shared/run/tb",
        "/shared/run/tb/<run_name>/events.out.tfevents.*",
        StreamKind.TENSORBOARD,
        note="Up to 0.10 the flag was --use_tensorboard. OpenRLHF writes no JSONL.",
        leaves="the job's console output",
    ),
    HowTo(
        "Trinity-RFT",
        "monitor: {monitor_type: tensorboard}",
        "<checkpoint_root_dir>/<project>/<group>/<name>/monitor/tensorboard/{explorer,trainer}/",
        StreamKind.TENSORBOARD,
        note="The default. Explorer and trainer count steps of their own.",
        leaves="the event files, and <checkpoint_root_dir>/<project>/<group>/<name>/log/{explorer,trainer}.log",
    ),
    HowTo(
        "RLinf",
        'runner.logger.logger_backends=["tensorboard"]',
        "<log_path>/tensorboard/",
        StreamKind.TENSORBOARD,
        note="The default; runner.logger.log_path says where.",
        leaves="the event files; with runner.per_worker_log one more folder for each rank under worker_logs/",
    ),
    HowTo(
        "slime",
        "--use-tensorboard",
        "$TENSORBOARD_DIR or tensorboard_log/<project>/<experiment>/",
        StreamKind.TENSORBOARD,
    ),
    HowTo(
        "NeMo-RL",
        "logger.tensorboard_enabled=true",
        "logs/exp_<N>/tensorboard/",
        StreamKind.TENSORBOARD,
        note="train_data_step<N>.jsonl beside it holds answers, not metrics.",
    ),
    HowTo("AReaL", "stats_logger.tensorboard.path=/shared/run/tb", "/shared/run/tb/", StreamKind.TENSORBOARD),
    HowTo("SkyRL", "trainer.logger=tensorboard", "$TENSORBOARD_DIR or tensorboard_log/", StreamKind.TENSORBOARD),
    HowTo("ROLL", "track_with: tensorboard", "the log_dir of tracker_kwargs", StreamKind.TENSORBOARD),
    HowTo(
        "Telescope",
        "use_wandb: true",
        "wandb/run-<time>-<id>/run-<id>.wandb and files/{steps,events}/*.zip",
        StreamKind.TABLES,
        note=(
            "Everything goes through W&B. Rewards, lengths, groups and the timeline stand in the archives, which are "
            "rewritten in place every 5 seconds; the .wandb file holds a handful of scalars."
        ),
        leaves="nothing where W&B is off",
    ),
    HowTo(
        "open-instruct",
        "--with_tracking",
        "wandb/run-<time>-<id>/run-<id>.wandb",
        StreamKind.WANDB,
        note="Metrics go to W&B and to the console only.",
        leaves="the console output",
    ),
    HowTo(
        "your own loop",
        'from rltop.integrations import JsonlWriter; log = JsonlWriter("logs/metrics.jsonl"); log.log(step, metrics)',
        "logs/metrics.jsonl",
        note="Standard library only: one dictionary of numbers per step, from one process.",
    ),
)
"""In the order in which the message names them: what is followed first."""


def followed() -> tuple[HowTo, ...]:
    """The trainers whose stream rltop follows today."""
    return tuple(entry for entry in HOWTO if entry.is_followed)


class RolloutHowTo(NamedTuple):
    """What makes a trainer write down its completions one by one.

    Attributes:
        trainer: the name of a `Dialect`.
        line: the exact line; empty where nothing is to be done.
        writes: what appears.
    """

    trainer: str
    line: str
    writes: str


ROLLOUTS: tuple[RolloutHowTo, ...] = (
    RolloutHowTo("veRL", "trainer.rollout_data_dir=rollouts", "rollouts/<step>.jsonl"),
    RolloutHowTo("TRL", "log_completions=True", "<output_dir>/completions/completions_<step>.parquet"),
    RolloutHowTo(
        "Trinity-RFT",
        "data_processor.experience_pipeline.input_save_path=<job>/buffer/explorer_output.jsonl",
        "one line per experience, with lengths; the default is a database beside it",
    ),
    RolloutHowTo("Telescope", "use_wandb: true", "wandb/run-<time>-<id>/files/steps/*.zip"),
    RolloutHowTo(
        "any other",
        "one JSON line per completion: step, group, reward, completion_tokens, completion",
        "rollouts.jsonl",
    ),
)
"""Where the pages of groups and completions come from; the format of the last is docs/rollouts.md."""
