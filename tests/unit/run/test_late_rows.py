"""A row that comes late says nothing about the order of training steps, whatever happened since."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from rltop.formats.jsonl import JsonlDecoder
from rltop.formats.tensorboard import TensorBoardDecoder
from rltop.model import Event
from rltop.resources import folder
from rltop.rules.options import EngineOptions
from rltop.run.pipeline import Pipeline
from rltop.run.rule_runner import RuleRunner
from rltop.store.stream import Stream
from tests.run_folders import write_events

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
        told = [event for event in judged([*rows[:after], late, *rows[after:60]]) if event.raised_by == "F3"]
        assert [event.step for event in told].count(3) == 1


def test_event_files_with_tags_in_groups_have_no_restart_however_they_arrive(tmp_path: Path) -> None:
    tags = (("train/loss", 0), ("train/kl", 3), ("rollout/reward", 6))
    groups = [(step + off, step, {tag: float(step)}) for tag, off in tags for step in range(100, 900, 10)]
    path = write_events(tmp_path, [(step, 1.7e9 + at, row) for step, at, row in groups])
    data = path.read_bytes()
    for piece in (len(data), 700):
        rules = RuleRunner(EngineOptions())
        pipeline = Pipeline(TensorBoardDecoder(), Stream(), rules)
        for at in range(0, len(data), piece):
            pipeline.take_bytes(data[at : at + piece], at, 0)
            pipeline.flush()
        pipeline.finish()
        assert pipeline.stream.restarts == ()
        assert [event for event in rules.events if event.rule == "L6"] == []
        assert pipeline.stream.value("rollout/reward", 106) == 100.0
