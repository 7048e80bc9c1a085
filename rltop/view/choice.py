"""Which metrics the overview shows: the algorithm's row set, then everything else.

Owns the choice only; nothing is read here but the value beside a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rltop import units
from rltop.metrics.keys import is_bookkeeping_key
from rltop.metrics.rows import ROW_SETS
from rltop.model import Label, Signal
from rltop.view.bands import families_of
from rltop.view.signals import generic_signal
from rltop.view.source import RunSource

_SHORT = {
    "mem_alloc_gb": "mem",
    "mem_peak_gb": "mem",
    "mem_reserved_gb": "mem",
    "dpo_rejected": "rejected",
    "logps_rejected": "rejected",
    "rm_reward_min": "min",
}
"""Names of the metrics beside a row, where their titles would not fit into the remarks."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A metric that gets a row.

    Attributes:
        title: what the row is called.
        signal: what it shows.
        others: further signals of the same metric.
        remark: what is said beside it; may be empty.
    """

    title: str
    signal: Signal
    others: int = 0
    remark: str = ""


def choose_key_metrics(run: RunSource, at: int | None) -> list[Choice]:
    """The rows of the algorithm's set for which the run logs a metric, in order."""
    identity = run.identity
    if identity is None:
        return []
    chosen = []
    for wanted in ROW_SETS[identity.algorithm]:
        name = next((name for name in wanted.metrics if identity.signals.get(name)), None)
        if name is not None:
            signals = identity.signals[name]
            title = wanted.title or signals[0].metric.title
            chosen.append(Choice(title, signals[0], len(signals) - 1, _remark(run, at, name, wanted.beside)))
    return chosen


def _remark(run: RunSource, at: int | None, name: str, beside: Sequence[str]) -> str:
    """A second metric in the remarks of a row, such as memory beside MFU."""
    for other in beside:
        signal = None if run.identity is None or other == name else run.identity.primary(other)
        raw = None if signal is None else run.stream.latest(signal.key, at)
        if signal is not None and raw is not None:
            title = _SHORT.get(other, signal.metric.title)
            return f"{title} {units.measure(signal.read(raw.value), signal.metric.unit)}"
    return ""


def choose_others(run: RunSource, shown: Sequence[Choice]) -> Iterator[Choice]:
    """Every other metric that the catalogue knows, then every other key; bookkeeping is left out.

    Statistics of one metric get one row: that of the one which stands for them.
    """
    known = {} if run.identity is None else run.identity.signals
    of_key = {signal.key: signal for signals in known.values() for signal in signals}
    first = [signals[0].key for signals in known.values() if signals and signals[0].metric.section != "timing"]
    families = families_of(run)
    done = {choice.signal.key for choice in shown}
    done |= {families[key].main.key for key in done if key in families}
    for each in [*first, *run.stream.keys]:
        key = families[each].main.key if each in families else each
        if key in done or is_bookkeeping_key(key):
            continue
        done.add(key)
        signal = of_key.get(key) or generic_signal(key)
        yield Choice(Label.of(signal.metric.title).display, signal)
