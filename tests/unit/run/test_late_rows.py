"""A row that comes late says nothing about the order of training steps, whatever happened since."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from rltop.formats.jsonl import JsonlDecoder
from rltop.model import Event
from rltop.resources import folder
from rltop.rules.options import EngineOptions
from rltop.run.pipeline import Pipeline
from rltop.run.rule_runner import RuleRunner
from rltop.store.stream import Stream

RECORDED = Path(str(folder("fixtures"))) / "verl" / "tool_slowdown" / "metrics.jsonl"


def judged(lines: Iterable[bytes]) -> list[Event]:
    rules = RuleRunner(EngineOptions())
    pipeline = Pipeline(JsonlDecoder(), Stream(), rules)
    pipeline.take_bytes(b"".join(lines), 0, 0)
    pipeline.finish()
    return list(rules.events)


def test_a_late_evaluation_of_the_part_before_a_restart_changes_no_verdict() -> None:
    rows = RECORDED.read_bytes().splitlines(keepends=True)
    moved = []
    for line in rows[39:]:
        row = json.loads(line)
        row["data"]["actor/grad_norm"] = row["data"].get("actor/grad_norm", 0.2) * 1.001
        moved.append(json.dumps(row).encode() + b"\n")
    late = b'{"step": 20, "data": {"val-aux/late/num_turns/mean": 2.0}}\n'
    plain = judged([*rows[:60], *moved])
    assert [event.rule for event in plain].count("L6") == 1
    assert len(plain) > 5
    for after in (45, 70, 90):
        without_news = [
            event
            for event in judged([*rows[:60], *moved[:after], late, *moved[after:]])
            if event.step != 20 or event.record == 20
        ]
        assert [event for event in without_news if "new key" not in event.message] == [
            event for event in plain if "new key" not in event.message
        ]


def test_a_late_evaluation_is_told_once_also_while_it_is_not_known_who_writes() -> None:
    rows = RECORDED.read_bytes().splitlines(keepends=True)
    late = b'{"step": 3, "data": {"val-core/DigitalLearningGmbH/MATH-lighteval/acc/mean@4": 0.5}}\n'
    for after in (5, 40):
        told = [event for event in judged([*rows[:after], late, *rows[after:60]]) if event.said_by == "F3"]
        assert [event.step for event in told].count(3) == 1
