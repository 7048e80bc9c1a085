"""What the cells of a row mean: metrics, the run they come from, the time of a step."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

from rltop.model.rows import NonFinite
from rltop.structs import NamedTuple


class Direction(enum.StrEnum):
    """Which way of a metric is good."""

    UP = "up"
    DOWN = "down"
    TARGET = "target"
    NONE = "none"


class Unit(enum.StrEnum):
    """How a value is written."""

    NONE = ""
    SECONDS = "s"
    MILLISECONDS = "ms"
    TOKENS = "tokens"
    TOKENS_PER_S = "tok/s"
    FRACTION = "fraction"
    PERCENT = "%"
    NATS = "nats"
    GIGABYTES = "GB"
    WATTS = "W"
    COUNT = "count"


class Algorithm(enum.StrEnum):
    """What kind of training the keys speak of."""

    PPO = "ppo"
    GRPO = "grpo"
    RLOO = "rloo"
    DPO = "dpo"
    KTO = "kto"
    REWARD = "reward"
    SFT = "sft"
    DISTILL = "distill"
    EMBODIED = "embodied"
    A2C = "a2c"
    SAC = "sac"
    DQN = "dqn"
    UNKNOWN = "unknown"

    @property
    def display_name(self) -> str:
        return {
            "reward": "reward model",
            "distill": "distillation",
            "embodied": "embodied",
            "unknown": "unknown algorithm",
        }.get(self.value, self.value.upper())


class Metric(NamedTuple):
    """What a quantity is, whoever logs it and under whatever key.

    Attributes:
        low, high: bounds that hold by definition, or None.
    """

    name: str
    title: str
    section: str
    unit: Unit
    direction: Direction
    low: float | None = None
    high: float | None = None


class Signal(NamedTuple):
    """A metric found in a stream: `value = scale * raw + shift`.

    `instance` tells apart several keys of one metric: the reward function, the
    validation set, the stage. The first signal of a metric is its primary one.
    """

    metric: Metric
    key: str
    scale: float = 1.0
    shift: float = 0.0
    instance: str = ""

    def read(self, raw: float) -> float:
        """The value in the metric's own unit and sign."""
        return self.scale * raw + self.shift


class Traits(NamedTuple):
    """What kind of run this is, as far as the keys tell (None: not known yet).

    Attributes:
        is_group_relative: advantages come from the other completions of the prompt.
        has_reference: KL to a reference policy is part of the objective.
        is_single_update: one optimiser update per rollout: ratio is 1, clip is 0.
        kl_is_signed: the step KL is the k1 estimator, which may be negative.
        is_generic: read by names that many loops use; what a KL is summed over is not known.
    """

    has_critic: bool = False
    is_group_relative: bool = False
    has_reference: bool = False
    is_single_update: bool | None = None
    is_preference: bool = False
    is_async: bool = False
    kl_is_sequence_sum: bool = False
    kl_is_signed: bool = False
    is_generic: bool = False


class Observation(NamedTuple):
    """One closed step, in canonical terms: what a rule sees.

    Attributes:
        record: number of this row in the run, from 1.
        segment: number of the segment, from 0; a new one means a restart.
        values: canonical name → value; a metric that was not logged on this step is absent.
        instances: canonical name → instance → value, for metrics with several keys.
        nonfinite: canonical name or raw key → kind, for cells that held no finite number.
        stages: stage name → seconds, top-level stages of the step.
        is_late: the row belongs to an earlier step (an evaluation that took its time).
        ranks: group of ranks and stage → rank → seconds, where each rank says what it did.
        loss_like: key → value, for losses, gradients and KLs that no metric of the catalogue stands for.
        other_run: what names the run of this segment, where a column says that it is another one than before.
        guessed: canonical name → value, for keys that may be that metric by their names.
        said: alerts that the training script raised through its tracker, one line each.
    """

    record: int
    step: int
    segment: int
    time_s: float | None
    values: Mapping[str, float]
    instances: Mapping[str, Mapping[str, float]]
    nonfinite: Mapping[str, NonFinite]
    stages: Mapping[str, float]
    is_late: bool = False
    ranks: Mapping[tuple[str, str], Mapping[str, float]] = MappingProxyType({})
    loss_like: Mapping[str, float] = MappingProxyType({})
    other_run: str = ""
    guessed: Mapping[str, float] = MappingProxyType({})
    said: tuple[str, ...] = ()


class SpanKind(enum.StrEnum):
    """How a span relates to its siblings."""

    SEQUENTIAL = "sequential"
    OVERLAPPING = "overlapping"
    OTHER = "other"


class Span(NamedTuple):
    """A stretch of a step's time.

    Attributes:
        key: the trainer's key; empty for "other".
        lane: 0 for the sequential lane; overlapping spans have their own.
        is_start_logged: False where the position is assumed from the order.
        children: spans inside this one; their time is part of its time.
        parts: where the start is logged and the span was interrupted: each stretch
            as (start, end) in seconds from the start of the step, in order.
    """

    name: str
    key: str
    start_s: float
    duration_s: float
    kind: SpanKind = SpanKind.SEQUENTIAL
    lane: int = 0
    is_start_logged: bool = False
    ms_per_token: float | None = None
    children: tuple[Span, ...] = ()
    parts: tuple[tuple[float, float], ...] = ()


class TimedSpan(NamedTuple):
    """A stretch of time of one worker, as a trainer measured it.

    A named tuple, because there is one for every microbatch of every rank.

    Attributes:
        role: what kind of worker it is: trainer, inference, rollout, …
        name: the stage; what is inside another one is written `outer/inner`.
        key: under which the seconds of the stage are found among the metrics; empty if they are not.
    """

    step: int
    role: str
    rank: int
    name: str
    start_s: float
    end_s: float
    key: str = ""


class StepTiming(NamedTuple):
    """The timing tree of one step.

    `total_s` is what the step took; top-level sequential spans and the span of
    kind OTHER add up to it. `outside` holds what the trainer does between steps.
    """

    step: int
    total_s: float
    spans: tuple[Span, ...]
    outside: tuple[Span, ...] = ()
    is_overlapping: bool = False
