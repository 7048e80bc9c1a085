"""What the sentences of the rules on reward, evaluations, lengths, groups and entropy say is what their numbers say.

Driven by every case of a rule, every incident, and runs that wander: a value is on the alarm side of the threshold
beside it, also as both are written, nothing goes "from 5 to 5", and a metric has one start and one baseline.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from engine_output import wandering
from examples import EXPLORES
from fake_run import run_of
from observations import identity, series
from tables import each_row

from rltop.model import Algorithm, Verdict
from rltop.resources import folder
from rltop.rules.engine import Engine
from rltop.rules.registry import HOMES
from rltop.units import measure

sys.path.append(str(Path(__file__).parent.parent / "unit" / "rules"))
from test_cases import RECORDS, cases, values

FILES = frozenset({
    "collapse", "dead_start", "entropy", "groups", "held_out", "integrity", "length", "progress", "reward",
    "reward_hacking", "validation",
})  # fmt: skip
_MOVE = re.compile(r"([\d.,]+)( %)? → ([\d.,]+)( %)?")
_EARLY = ("start", "baseline")


def said(engine: Engine, observations: Iterator) -> Iterator[Sequence[Verdict]]:
    """The verdicts after each record on which something happened."""
    for one in observations:
        if engine.observe(one):
            yield engine.verdicts


def check(verdicts: Sequence[Verdict]) -> None:
    early = defaultdict(set)
    for verdict in verdicts:
        if HOMES.get(verdict.raised_by) not in FILES:
            continue
        for before, _, after, _ in _MOVE.findall(verdict.headline):
            assert before != after, verdict.headline
        check_side(verdict)
        for one in verdict.evidence:
            if one.name in _EARLY:
                early[verdict.metric, verdict.evidence[0].name, one.name].add(one.value)
    assert all(len(found) == 1 for found in early.values()), early


def check_side(verdict: Verdict) -> None:
    """The first number of the evidence and the threshold in it."""
    named = {one.name: one for one in verdict.evidence}
    line = named.get("threshold")
    if line is None or verdict.threshold is None or "within the threshold" in verdict.headline:
        return
    value = verdict.evidence[0]
    assert measure(value.value, value.unit) != measure(line.value, line.unit), verdict.headline
    if verdict.baseline is not None and verdict.baseline != line.value:
        assert (value.value > line.value) == (line.value > verdict.baseline), (verdict.headline, verdict.evidence)


@each_row("case", [one for one in cases() if HOMES[one[0]] in FILES and one[1] != "silent"])
def test_cases(case) -> None:
    _, _, healthy, change, algorithm = case
    engine = Engine(identity(Algorithm(algorithm)))
    for verdicts in said(engine, series(RECORDS, **values(healthy, change))):
        check(verdicts)


@each_row("path", sorted((folder("fixtures") / "incidents").glob("*/metrics.jsonl")), ids=str)
def test_incidents(path) -> None:
    check(run_of(path.read_bytes()).verdicts)


@pytest.mark.parametrize("seed", range(200 if EXPLORES else 6))
def test_wandering_runs(seed) -> None:
    engine = Engine(identity(group_size=8))
    for verdicts in said(engine, wandering(seed)):
        check(verdicts)
