"""Hanging, healthy, dead and finished jobs of many trainers: as their logs lie there, and played live."""

from __future__ import annotations

import itertools
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jobs_printed import CASES, case_name, printed, write
from jsonschema import Draft202012Validator
from tables import each_row

from rltop import resources
from rltop.cli import main
from rltop.live.judge import JobStatus, judge
from rltop.live.log import LogReader
from rltop.live.phases import Phases

SCHEMA = Draft202012Validator(
    json.loads((resources.folder("fixtures").parent / "rltop" / "report" / "where_schema.json").read_text())
)
QUOTED = tomllib.loads((Path(__file__).parent / "quoted.toml").read_text())["logs"]
CODES = {"running": 0, "finished": 0, "interrupted": 0, "stuck": 1, "dead": 1, "unknown": 3}


LOOKS = 6
"""So often at most is a silence judged."""


class GrowingLog:
    """A log that is read as it grows."""

    def __init__(self) -> None:
        self.phases, self.reader = Phases(), LogReader()

    def feed(self, data: bytes, seen_s: float) -> None:
        for event in self.reader.feed(data, seen_s, is_recorded=False):
            self.phases.take(event)

    def where(self, now_s: float) -> JobStatus:
        return judge(self.phases, now_s)._replace(last_line=self.reader.last_line)


ZONES_H = (8.0, -7.0, 5.75)


@each_row(
    ("case", "zone_h"),
    [*((case, 0.0) for case in CASES), *zip(CASES[::3], itertools.cycle(ZONES_H), strict=False)],
    ids=[*map(case_name, CASES), *(f"{case_name(case)}, elsewhere" for case in CASES[::3])],
)
def test_a_log_tells_where_its_job_is(
    case: dict[str, Any], zone_h: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, now_s = write(case, tmp_path, zone_h)
    code = main(["where", str(path), "--json", "--now", str(now_s)])
    found = json.loads(capsys.readouterr().out)
    SCHEMA.validate(found)
    assert (found["state"], found["phase_key"]) == (case["state"], case.get("phase"))
    assert code == CODES[found["state"]]
    assert case.get("cause", "") in (found["cause"] or "")
    for key in ("outstanding", "unusual"):
        if key in case:
            assert found[key] == case[key]


@each_row(
    ("case", "late_s"),
    [*((case, 0.0) for case in CASES), *((case, 98 * 86_400.0) for case in CASES[1::3])],
    ids=[*map(case_name, CASES), *(f"{case_name(case)}, late" for case in CASES[1::3])],
)
def test_a_job_that_is_followed_is_stuck_when_it_is_and_not_before(case: dict[str, Any], late_s: float) -> None:
    log = GrowingLog()
    pieces = [piece._replace(time_s=piece.time_s + late_s) for piece in printed(case)]
    times_s = [piece.time_s for piece in pieces[1:]] + [pieces[-1].time_s + case["silent"]]
    found = set()
    for piece, until_s in zip(pieces, times_s, strict=True):
        log.feed(piece.data, piece.time_s)
        now_s, every_s = piece.time_s, max(5.0, (until_s - piece.time_s) / LOOKS)
        while now_s < until_s:
            now_s = min(until_s, now_s + every_s)
            found.add(log.where(now_s).state)
    last = log.where(times_s[-1])
    assert (last.state, last.phase_key) == (case["state"], case.get("phase"))
    if case["state"] in ("running", "finished"):
        assert "stuck" not in found or case["silent"] > 1_000
        assert "dead" not in found


@each_row("quoted", QUOTED, ids=case_name)
def test_a_log_as_people_quote_it(quoted: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_text(quoted["log"])
    os.utime(path, (quoted["written"].timestamp(),) * 2)
    main(["where", "--json", "--now", str(quoted["now"].timestamp()), str(path)])
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["phase_key"] or "") == (quoted["state"], quoted["phase_key"])
