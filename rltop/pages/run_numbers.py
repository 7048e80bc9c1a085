"""The few numbers by which runs are told apart: reward, best validation, pace, throughput."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rltop import units
from rltop.model import Direction, Signal, Unit
from rltop.pages.header import pace_of
from rltop.pages.query import TEXTS
from rltop.pages.signals import generic_signal
from rltop.run.snapshot import Snapshot
from rltop.store.series import Bucket
from rltop.structs import NamedTuple

REWARDS = ("reward_mean", "score_mean", "reward_final", "episode_return", "success_frac")
VALIDATIONS = ("val_score", "val_acc", "val_passk", "val_return", "val_loss")
SPEEDS = ("throughput", "throughput_per_gpu", "gen_throughput", "samples_per_s")
_BUCKETS = 400
"""Into how many stretches a long history is looked at for its best value."""


class Value(NamedTuple):
    """A number of a run, in the unit of its metric."""

    value: float
    unit: Unit
    step: int


def newest(snapshot: Snapshot, names: Sequence[str]) -> Value | None:
    """The newest value of the first of the metrics that the run logs.

    Args:
        snapshot: the run, and its step.
        names: of the catalogue, the best one first.
    """
    signal = first_signal(snapshot, names)
    point = None if signal is None else snapshot.stream.latest(signal.key, snapshot.at_step)
    if signal is None or point is None:
        return None
    return Value(signal.read(point.value), signal.metric.unit, point.step)


def speed_text(speed: Value | None) -> str:
    """A throughput with its unit; of `SPEEDS` only samples have none of their own."""
    if speed is None:
        return ""
    return units.measure(speed.value, speed.unit) + ("" if units.unit_suffix(speed.unit) else " samples/s")


def best(snapshot: Snapshot, names: Sequence[str]) -> Value | None:
    """The best value so far of the first of the metrics that the run logs, and where it was.

    Args:
        snapshot: the run, and its step.
        names: of the catalogue, the best one first.

    Returns:
        None where the run logs none of them, or where no direction of it is the good one.
    """
    signal = first_signal(snapshot, names)
    first, last = snapshot.stream.first_step, snapshot.step
    if signal is None or first is None or last is None or signal.metric.direction not in _SIDES:
        return None
    stride = max(1, -(-(last - first + 1) // _BUCKETS))
    buckets = snapshot.part.memo.buckets(signal.key, stride, first - first % stride, last + 1)
    is_up = signal.metric.direction is Direction.UP
    pick = max if is_up else min

    def end(bucket: Bucket) -> float:
        return pick(signal.read(bucket.low), signal.read(bucket.high))

    found = pick((one for one in buckets if one.count), key=end, default=None)
    if found is None:
        return None
    if found.first_step != found.last_step:
        inside = snapshot.stream.buckets(signal.key, 1, found.first_step, found.last_step + 1)
        found = pick((one for one in inside if one.count), key=end, default=found)
    return Value(end(found), signal.metric.unit, found.first_step)


_SIDES = (Direction.UP, Direction.DOWN)


def first_signal(snapshot: Snapshot, names: Sequence[str]) -> Signal | None:
    """The first of the metrics that the run logs.

    Args:
        snapshot: the run.
        names: of the catalogue, the best one first.
    """
    identity = snapshot.identity
    if identity is None:
        return None
    return next((signal for name in names if (signal := identity.primary(name)) is not None), None)


class AskedRun(NamedTuple):
    """A run as a query sees it.

    Attributes:
        snapshot: the run; None where only its row is known.
        told: what its row in the list says, by the names in `query.TEXTS`.
        words: everything that a word without a sign is looked for in.
    """

    snapshot: Snapshot | None
    told: dict[str, Sequence[str]]
    words: str

    def texts(self, name: str) -> Sequence[str]:
        """What the row says of one of `query.TEXTS`."""
        assert name in TEXTS
        return self.told.get(name, ())

    def number(self, name: str) -> float | None:
        """The newest value of a metric of the catalogue, of a logged key, or of a column of the list."""
        run, lowered = self.snapshot, name.casefold()
        if run is None:
            return None
        if lowered.startswith(SETTINGS_PREFIX):
            return self._set_number(name)
        if lowered in _COLUMNS:
            value = _COLUMNS[lowered](run)
            return value.value if isinstance(value, Value) else value
        signal = None if run.identity is None else run.identity.primary(lowered)
        if signal is None:
            key = name if run.stream.has(name) else _key_ending_in(run, lowered)
            signal = generic_signal(key) if key else None
        point = None if signal is None else run.stream.latest(signal.key)
        return self._set_number(name) if signal is None or point is None else signal.read(point.value)

    def settings(self, name: str) -> Sequence[str]:
        """The settings that a name means, as text."""
        return [units.setting(value) for value in self._set(name)]

    def _set(self, name: str) -> Sequence[str | float | None]:
        settings = None if self.snapshot is None else self.snapshot.run.settings
        bare = name[len(SETTINGS_PREFIX) :] if name.casefold().startswith(SETTINGS_PREFIX) else name
        return [] if settings is None else [settings.values[one] for one in settings.find(bare)]

    def _set_number(self, name: str) -> float | None:
        """The first setting of a name that is a number."""
        return next((float(one) for one in self._set(name) if isinstance(one, int | float)), None)


SETTINGS_PREFIX = "cfg."


def _key_ending_in(run: Snapshot, name: str) -> str:
    """The key whose last part is what was typed: `lr` finds `actor/lr`."""
    return next((key for key in run.stream.keys if key.casefold().rpartition("/")[2] == name), "")


_COLUMNS: Mapping[str, Callable[[Snapshot], Value | float | None]] = {
    "step": lambda run: run.stream.last_step,
    "records": lambda run: float(run.stream.rows),
    "age": lambda run: run.part.age_s,
    "reward": lambda run: newest(run, REWARDS),
    "val": lambda run: newest(run, VALIDATIONS),
    "best": lambda run: best(run, VALIDATIONS),
    "s/step": pace_of,
    "speed": lambda run: newest(run, SPEEDS),
}
"""Columns that a query can ask for; ages and paces in seconds."""
