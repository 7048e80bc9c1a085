"""Every case of `cases/`: what fires a rule, at which level, and what does not.

A file for each family file of rules; in it a table for each rule: `healthy`, the courses of the metrics by their
canonical names, in the notation of `bench/courses.py`; then lists of changes to these by the level that they raise
(INFO, WARN, CRIT), and under `silent` those that raise nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

import pytest
from courses import RECORDS, Course
from observations import play
from rule_cases import FOLDER, cases, values
from sentences import lies

from rltop.model import Algorithm, Level
from rltop.rules.registry import HOMES, NAMED

SLACK = 3


@pytest.mark.parametrize(("rule", "level", "healthy", "change", "algorithm"), cases())
def test_case(
    rule: str, level: str, healthy: Mapping[str, str], change: Mapping[str, str], algorithm: str, not_beyond: list[str]
) -> None:
    engine = play(RECORDS, Algorithm(algorithm), **values(healthy, change))
    assert [*lies(engine.events, engine.verdicts), *not_beyond] == []
    said = [event for event in engine.events if event.raised_by == rule]
    if level == "silent":
        assert [(event.record, event.level) for event in said] == []
        return
    assert max(event.level for event in said) is Level[level]
    onset = min(Course.read(text).first for text in change.values())
    assert min(event.record for event in said) >= onset - SLACK


def test_every_case_lies_in_the_file_of_its_family() -> None:
    lying = {rule: path.stem for path in FOLDER.glob("*.toml") for rule in tomllib.loads(path.read_text())}
    assert lying.keys() <= NAMED.keys()
    assert lying == {rule: HOMES[rule] for rule in lying}
