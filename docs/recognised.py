"""How much of a recorded run is recognised: the table in docs/trainers.md, and what the tests ask of runs elsewhere."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rltop.catalog.aliases import spelling_of
from rltop.catalog.dialect import PatternSet
from rltop.catalog.families import place_of
from rltop.catalog.metrics import CATALOG
from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.model import SpanKind
from rltop.model.keys import is_bookkeeping_key, is_evaluation_key
from rltop.run.run import Run
from rltop.stats.timing import step_timing
from rltop.trainers import GENERIC

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
TOLERANCE = 0.02
"""Stages may miss this share of a step and still explain it."""

WITHOUT_A_CASE = {
    "console/verl_slurm.log": ("veRL", "grpo"),
    "console/easyr1.log": ("EasyR1", "grpo"),
    "console/trinity.log": ("Trinity-RFT", "grpo"),
    "telescope/archives": ("Telescope", "grpo"),
}
"""Files without a `case.toml` of their own → trainer and algorithm; logs of too few keys to tell are left out."""


class Recognised(NamedTuple):
    """What was recognised of one run.

    Attributes:
        logged: keys of training, without bookkeeping, evaluations and the machine's own.
        known: those of them whose meaning is known.
        sections: of the metrics that they are, in the order of the catalogue.
        timed, right: steps with a timing tree, and those whose stages add up to the step.
    """

    logged: tuple[str, ...]
    known: tuple[str, ...]
    sections: tuple[str, ...]
    timed: int
    right: int

    @property
    def share(self) -> float:
        """Part of the logged keys that is known; 1.0 where nothing is logged."""
        return len(self.known) / len(self.logged) if self.logged else 1.0


def recognised(run: Run) -> Recognised:
    """Read off a run what is recognised of its main stream."""
    identity, keys = run.main.identity, tuple(run.main.stream.keys)
    if identity is None:
        return Recognised((), (), (), 0, 0)
    dialect, spelling = identity.dialect, spelling_of(identity.dialect)
    plan = dialect.timing
    aside = PatternSet(dialect.hidden)
    stages = PatternSet(
        (*plan.step_keys, *(stage.pattern for stage in plan.stages), *plan.counts, *plan.statistics) if plan else ()
    )
    metrics = {signal.key: signal.metric for signals in identity.signals.values() for signal in signals}

    def is_training(key: str) -> bool:
        is_aside = key in aside or spelling.plain(key) in aside or key.startswith("system/")
        return not (is_aside or is_bookkeeping_key(key) or is_evaluation_key(key))

    def is_known(key: str) -> bool:
        if key in metrics or key in stages or spelling.caution(key) or spelling_of(GENERIC).find(key):
            return True
        place = place_of(key)
        return place is not None and any(
            other is not None and other[0] == place[0] for other in map(place_of, metrics) if other
        )

    logged = tuple(key for key in keys if is_training(key))
    found = {metric.section for metric in metrics.values()}
    order = dict.fromkeys(metric.section for metric in CATALOG.values())
    timed, right = _timings(run)
    return Recognised(
        logged, tuple(filter(is_known, logged)), tuple(one for one in order if one in found), timed, right
    )


def _timings(run: Run) -> tuple[int, int]:
    """Steps with a timing tree, and those whose stages fill the step without going beyond it."""
    plan = None if run.main.identity is None else run.main.identity.dialect.timing
    timed = right = 0
    for step in run.main.stream.steps() if plan is not None else ():
        timing = step_timing(plan, step, run.main.stream.row(step))
        if timing is None or not timing.spans:
            continue
        timed += 1
        inside = sum(span.duration_s for span in timing.spans if span.kind is not SpanKind.OVERLAPPING)
        right += timing.is_overlapping or abs(inside - timing.total_s) <= TOLERANCE * timing.total_s
    return timed, right


def cases() -> Iterator[tuple[Path, str, str]]:
    """Every recorded or written file of a trainer that ships: path, trainer, algorithm."""
    for case in sorted(FIXTURES.glob("*/*/case.toml")):
        told = tomllib.loads(case.read_text())
        if case.parent.parent.name != "incidents":
            expected = told["expected"]
            yield case.parent / told.get("file", "metrics.jsonl"), expected["dialect"], expected["algorithm"]
    for name, (trainer, algorithm) in WITHOUT_A_CASE.items():
        yield FIXTURES / name, trainer, algorithm


def opened(path: Path) -> Run:
    """A file, read to its end."""
    return read_whole(str(path), Config(), FakeClock()).runs[0]


def table() -> str:
    """The rows of the table, by trainer."""
    lines = [
        "| trainer | file | format | keys known / logged | trainer and algorithm | sections | step time adds up |",
        "|---|---|---|---|---|---|---|",
    ]
    for path, trainer, algorithm in sorted(cases(), key=lambda case: (case[1].lower(), str(case[0]))):
        run = opened(path)
        found, identity = recognised(run), run.main.identity
        told = ("none", "none") if identity is None else (identity.dialect.name, identity.algorithm.value)
        is_right = "right" if told == (trainer, algorithm) else f"wrong: {' '.join(told)}"
        lines.append(
            f"| {trainer} | `{path.relative_to(FIXTURES)}` | {run.main.kind_title} "
            f"| {len(found.known)} / {len(found.logged)} | {is_right} ({algorithm}) | {', '.join(found.sections)} "
            f"| {f'{found.right} of {found.timed} steps' if found.timed else 'not logged'} |"
        )
    return "\n".join(lines) + "\n"
