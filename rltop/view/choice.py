"""Which metrics the overview shows: the algorithm's row set, then everything else.

Owns the choice only; nothing is read here but the value beside a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rltop import units
from rltop.metrics.keys import is_bookkeeping_key
from rltop.metrics.rows import ROW_SETS
from rltop.model import Label, Signal
from rltop.structs import NamedTuple
from rltop.view.bands import families_of
from rltop.view.signals import generic_signal
from rltop.view.source import RunSource, step_in

_SHORT = {
    "mem_alloc_gb": "mem",
    "mem_peak_gb": "mem",
    "mem_reserved_gb": "mem",
    "dpo_rejected": "rejected",
    "logps_rejected": "rejected",
    "rm_reward_min": "min",
}
"""Names of the metrics beside a row, where their titles would not fit into the remarks."""


class Choice(NamedTuple):
    """A metric that gets a row.

    Attributes:
        title: what the row is called.
        signal: what it shows.
        others: further signals of the same metric.
        remark: what is said beside it; may be empty.
        stream: the stream of the run that logs it; "" is the main one.
    """

    title: str
    signal: Signal
    others: int = 0
    remark: str = ""
    stream: str = ""


def choose_key_metrics(run: RunSource, at: int | None) -> list[Choice]:
    """The rows of the algorithm's set for which the run logs a metric, in order.

    Where the main stream does not log it, another stream of the run may.
    """
    parts = [part for part in (run, *run.beside) if part.identity is not None and not part.is_rank]
    if not parts or parts[0].identity is None:
        return []
    chosen = []
    for wanted in ROW_SETS[parts[0].identity.algorithm]:
        for part in parts:
            signals = _logged(part, wanted.metrics)
            if signals:
                title = wanted.title or signals[0].metric.title
                name, here = signals[0].metric.name, step_in(part, run, at)
                remark = _remark(part, here, name, wanted.beside)
                chosen.append(Choice(title, signals[0], len(signals) - 1, remark, part.role))
                break
    return chosen


def _logged(run: RunSource, names: Sequence[str]) -> Sequence[Signal]:
    """The signals of the first of these metrics that the stream logs; none if it logs none."""
    signals = {} if run.identity is None else run.identity.signals
    return next((signals[name] for name in names if signals.get(name)), ())


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
    """Every other metric that the catalogue knows, then every other key, stream by stream; no bookkeeping, no ranks.

    Statistics of one metric get one row: that of the one which stands for them.
    """
    for part in (run, *run.beside):
        if not part.is_rank:
            yield from _others_of(part, shown)


def _others_of(run: RunSource, shown: Sequence[Choice]) -> Iterator[Choice]:
    known = {} if run.identity is None else run.identity.signals
    of_key = {signal.key: signal for signals in known.values() for signal in signals}
    first = [signals[0].key for signals in known.values() if signals and signals[0].metric.section != "timing"]
    families = families_of(run)
    done = {choice.signal.key for choice in shown if choice.stream == run.role}
    done |= {families[key].main.key for key in done if key in families}
    for each in [*first, *run.stream.keys]:
        key = families[each].main.key if each in families else each
        if key in done or is_bookkeeping_key(key):
            continue
        done.add(key)
        signal = of_key.get(key) or generic_signal(key)
        yield Choice(Label.of(signal.metric.title).display, signal, stream=run.role)
