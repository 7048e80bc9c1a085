"""`check`, `--once` and the screen of a file that has come to rest say the same of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded import REASON, runs_root
from run_folders import rlinf, trinity

from rltop.cli.once import read_run
from rltop.cli.open_session import direct, read_whole, runs_of
from rltop.clock import FakeClock
from rltop.config import load
from rltop.errors import RltopError
from rltop.report.document import check_document
from rltop.report.overview_document import once_document
from rltop.run.found import Found
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot

FIXTURES = Path(__file__).parents[2] / "fixtures"
CONFIG = load({}, {"HOME": "/nowhere"})
RECORDED = 24
"""Recorded runs of each folder that are compared, the first by name; all of them take minutes."""
LARGEST_BYTES = 2_000_000
LATER_S = 86_400.0
LATE = "L5"
"""That there is no record yet goes by the clock, which only a screen has."""
OF_THE_CLOCK = ("age_s", "behind_bytes", "loading")


def fixtures() -> list[Path]:
    return sorted(path for path in FIXTURES.rglob("*") if path.suffix not in {".md", ".toml", ".py"})


def recorded() -> list[Path]:
    """Metric files of the labelled runs, and of the folder `reality` beside them, if there is one."""
    root = runs_root()
    if root is None:
        return []
    found = []
    for each in (root, root.parent / "reality"):
        files = [path for label in sorted(each.rglob("label.json")) for path in sorted(label.parent.iterdir())]
        files = [path for path in files if path.name not in {"SOURCE.md", "label.json"} and path.is_file()]
        found += [path for path in files if path.stat().st_size < LARGEST_BYTES][:RECORDED]
    return found


def runs_behind(paths: list[Path]) -> Iterator[Found]:
    for path in paths:
        try:
            yield from runs_of(str(path))
        except RltopError:
            continue


def resting(found: Found) -> Session:
    """As a screen opens it, a day after it was written, until nothing moves any more."""
    clock = FakeClock((found.modified_s or time.time()) + LATER_S)
    session = Session([found], direct(clock), clock, CONFIG.ingest)
    still = 0
    while still < 8:
        still = 0 if session.step(1_000.0) else still + 1
        clock.advance(0.25)
    return session


def tidy(document: dict[str, Any]) -> Any:
    """What does not go by the clock, and is not said of the newest row alone: that it may change."""
    for part in (document, *document.get("streams", ())):
        for name in OF_THE_CLOCK:
            part.pop(name, None)
    for event in document["events"]:
        event.pop("is_provisional", None)
    document["verdicts"] = [each for each in document["verdicts"] if LATE not in (each["rule"], each.get("part"))]
    if document.get("counts"):
        # Rows that were shown before they were whole have been counted twice.
        document["counts"] = {name: each for name, each in document["counts"].items() if name not in ("lines", "rows")}
    return json.loads(json.dumps(document, default=str))


def assert_same(found: Found) -> None:
    sessions = [read_whole(found, CONFIG, FakeClock()), read_run(found, CONFIG, is_live=False), resting(found)]
    checked, once, screen = (Snapshot(session.runs[0]) for session in sessions)
    assert tidy(check_document(checked)) == tidy(check_document(once)), f"check and --once: {found.path}"
    assert tidy(check_document(screen)) == tidy(check_document(once)), f"screen and check: {found.path}"
    assert tidy(once_document(screen)) == tidy(once_document(once)), f"screen and --once: {found.path}"
    for session in sessions:
        session.close()


@pytest.mark.parametrize("folder", sorted({path.relative_to(FIXTURES).parts[0] for path in fixtures()}))
def test_what_is_said_of_a_fixture_is_the_same_everywhere(folder: str) -> None:
    paths = [path for path in fixtures() if path.relative_to(FIXTURES).parts[0] == folder]
    for found in {found.path: found for found in runs_behind(paths)}.values():
        assert_same(found)


@pytest.mark.parametrize("lay_out", [trinity, rlinf], ids=["streams", "ranks"])
def test_what_is_said_of_a_run_of_several_streams_is_the_same_everywhere(lay_out: Any, tmp_path: Path) -> None:
    (found,) = runs_of(str(lay_out(tmp_path)))
    assert_same(found)


def test_what_is_said_of_a_recorded_run_is_the_same_everywhere() -> None:
    if runs_root() is None:
        pytest.skip(REASON)
    compared = 0
    for found in runs_behind(recorded()):
        assert_same(found)
        compared += 1
    assert compared >= RECORDED // 2
