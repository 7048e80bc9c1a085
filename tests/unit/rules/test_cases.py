"""Every case of `cases/`: what fires a rule, at which level, and what does not.

A file for each family file of rules; in it a table for each rule: `healthy`, the courses of the metrics by their
canonical names, in the notation of `bench/courses.py`; then lists of changes to these by the level that they raise
(INFO, WARN, CRIT), and under `silent` those that raise nothing.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from courses import RECORDS, Course, changed
from observations import play

from rltop.model import Algorithm, Level
from rltop.rules.registry import HOMES, NAMED

FOLDER = Path(__file__).with_name("cases")
SLACK = 3


def cases() -> Iterator[tuple[str, str, Mapping[str, str], Mapping[str, str], str]]:
    for path in sorted(FOLDER.glob("*.toml")):
        for rule, table in tomllib.loads(path.read_text()).items():
            for level in ("INFO", "WARN", "CRIT", "silent"):
                for change in table.get(level, ()):
                    yield rule, level, table["healthy"], change, table.get("algorithm", "grpo")


def values(healthy: Mapping[str, str], change: Mapping[str, str]) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for name in healthy.keys() | change.keys():
        draw = random.Random(name)
        base = Course.read(healthy[name])._replace(first=1) if name in healthy else None
        new = Course.read(change[name]) if name in change else None
        found[name] = []
        for record in range(1, RECORDS + 1):
            value = base.noisy(base.at(record), draw) if base else None
            if new is not None and new.first <= record <= new.last:
                value = changed(value or 0.0, new, base, record, draw)
            found[name].append(value if base is None or record % base.every == 0 else None)
    return found


@pytest.mark.parametrize(("rule", "level", "healthy", "change", "algorithm"), cases())
def test_case(rule: str, level: str, healthy: Mapping[str, str], change: Mapping[str, str], algorithm: str) -> None:
    engine = play(RECORDS, Algorithm(algorithm), **values(healthy, change))
    said = [event for event in engine.events if event.said_by == rule]
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
