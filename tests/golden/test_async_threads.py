"""What threads report of asynchronous runs, replayed through files; page, document and alert say the same."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from courses import Course

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.model import Level
from rltop.pages.flow import WAITING, build_flow
from rltop.report.document import pipeline_document
from rltop.rules.registry import NAMED
from rltop.run.run import Run
from rltop.run.snapshot import Snapshot

_TABLE = tomllib.loads(Path(__file__).with_name("async_threads.toml").read_text())
CASES = {case["thread"]: case for case in _TABLE["case"]}
RECORDS = 120


def value(texts: str | list[str], record: int, draw: random.Random) -> float:
    """The course that holds at a record: the first one from the start, later ones where they say."""
    base, *changes = [texts] if isinstance(texts, str) else texts
    course = Course.read(base)._replace(first=1)
    for text in changes:
        later = Course.read(text)
        if later.first <= record <= later.last:
            course = later
    done = (record - course.first) / max(1, min(course.last, RECORDS) - course.first)
    return course.noisy(course.start + (course.end - course.start) * done, draw)


def replayed(case: Mapping[str, Any], folder: Path) -> Run:
    keys = {**_TABLE["trainer"][case["trainer"]], **case["keys"]}
    draws = {key: random.Random(key) for key in keys}
    path = folder / "metrics.jsonl"
    with path.open("w") as file:
        for record in range(1, RECORDS + 1):
            # A resume goes on from the last checkpoint, a few steps back.
            step = record if record < case.get("restart", RECORDS + 1) else record - 5
            row = {key: value(texts, record, draws[key]) for key, texts in keys.items()}
            file.write(json.dumps({"step": step, **row}) + "\n")
    if "settings" in case:
        (folder / "config.yaml").write_text(case["settings"])
    return read_whole(str(path), Config(), FakeClock()).runs[0]


@pytest.mark.parametrize("thread", CASES)
def test_a_thread_is_told_as_its_numbers_say(thread: str, tmp_path: Path) -> None:
    case = CASES[thread]
    run = replayed(case, tmp_path)
    snapshot = Snapshot(run)
    identity = snapshot.identity
    assert (identity.dialect.name, identity.traits.is_async) == (case["trainer"], True)
    events = [event for event in snapshot.source.events if event.rule in NAMED]
    if "rule" not in case:
        assert [(event.raised_by, event.message) for event in events if event.level >= Level.WARN] == []
        return
    said = [event for event in events if event.raised_by == case["rule"]]
    assert said, [(event.raised_by, event.level.word, event.message) for event in events]
    assert max(event.level for event in said) is Level[case["level"]], [event.message for event in said]
    standing = [one for one in snapshot.standing if one.raised_by == case["rule"] and one.is_active]
    messages = [event.message for event in said] + [one.headline for one in standing]
    assert any(all(part in text for part in case["says"]) for text in messages), messages


@pytest.mark.parametrize("thread", [name for name, case in CASES.items() if case.get("rule") == WAITING])
def test_page_document_and_alert_say_one_sentence(thread: str, tmp_path: Path) -> None:
    snapshot = Snapshot(replayed(CASES[thread], tmp_path))
    flow, document = build_flow(snapshot), pipeline_document(snapshot)
    (alert,) = [one for one in snapshot.firing if one.raised_by == WAITING]
    assert alert.headline.split(" (baseline")[0] == flow.waits.sentence == document["sentence"]
    assert alert.level is flow.level
    assert document["level"] == flow.level.word
