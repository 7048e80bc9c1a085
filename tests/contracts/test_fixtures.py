"""Every fixture says where it comes from and what must be made of it."""

from __future__ import annotations

import hashlib
import json
import runpy
import tomllib
from pathlib import Path
from typing import Any

from tables import each_row

from rltop.cli.show import DEMO, DEMO_ROLLOUTS
from rltop.model import Algorithm

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
MAX_BYTES = 600_000
CASES = sorted(path.parent for path in FIXTURES.glob("*/*/case.toml"))
HOSTILE = FIXTURES / "hostile"
IDS = [str(case.relative_to(FIXTURES)) for case in CASES]
WRITTEN_BY = {"the trainer's own logger", "the documented shape"}
SIX = {"veRL", "OpenRLHF", "TRL", "Telescope", "Trinity-RFT", "RLinf"}


def described(case: Path) -> dict[str, Any]:
    return tomllib.loads((case / "case.toml").read_text())


def test_there_is_a_healthy_a_failing_a_restarted_run_and_a_verl_shaped_one() -> None:
    found = [described(case)["expected"] for case in CASES]
    assert {entry["dialect"] for entry in found} >= SIX
    assert any(entry["restarts"] for entry in found)
    assert any(entry["is_quiet"] and not entry["restarts"] for entry in found)
    assert any(entry.get("verdicts") for entry in found)


def test_no_metric_file_is_without_a_case() -> None:
    assert {path.parent for path in FIXTURES.glob("*/*/metrics.jsonl")} <= set(CASES)


@each_row("case", CASES, ids=IDS)
def test_a_case_is_complete(case: Path) -> None:
    told = described(case)
    assert set(told) <= {"title", "file", "provenance", "story", "expected"}
    assert told["title"]
    assert (case / told.get("file", "metrics.jsonl")).stat().st_size < MAX_BYTES
    assert set(told["provenance"]) == {"how", "trainer", "version", "seed", "written_by"}
    assert told["provenance"]["written_by"] in WRITTEN_BY
    assert told["story"]["what"]
    expected = told["expected"]
    required = {"dialect", "algorithm", "last_step", "records", "lines", "restarts", "is_quiet"}
    assert required <= set(expected) <= required | {"verdicts", "first"}
    assert expected["algorithm"] in {algorithm.value for algorithm in Algorithm}
    assert expected["is_quiet"] != bool(expected.get("verdicts"))
    for verdict in expected.get("verdicts", ()):
        assert set(verdict) == {"rule", "level", "first_step"}
        assert verdict["level"] in {"info", "warn", "crit"}
        earliest, latest = verdict["first_step"]
        assert told["story"]["from_step"] <= earliest <= latest <= expected["last_step"]


def test_the_verl_run_is_what_its_generator_makes(tmp_path: Path) -> None:
    made = runpy.run_path(str(ROOT / "bench" / "make_fixtures" / "tool_slowdown.py"))
    path = tmp_path / "metrics.jsonl"
    made["write_plainly"](made["Run"]().rows(), path)
    shipped = FIXTURES / "verl" / "tool_slowdown" / "metrics.jsonl"
    assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(shipped.read_bytes()).digest()


def test_the_incidents_are_what_their_generator_makes() -> None:
    made = runpy.run_path(str(ROOT / "bench" / "make_fixtures" / "incidents.py"))
    folder = FIXTURES / "incidents"
    assert {path.name for path in folder.iterdir()} == set(made["CASES"])
    for name, make in made["CASES"].items():
        assert (folder / name / "metrics.jsonl").read_text().splitlines() == list(make())


def test_every_hostile_file_is_described() -> None:
    files = {path.name for path in HOSTILE.glob("*.jsonl")}
    readme = (HOSTILE / "README.md").read_text()
    assert {line.split("`")[1] for line in readme.splitlines() if line.startswith("| `")} == files
    cases = tomllib.loads((HOSTILE / "cases.toml").read_text())
    assert {case["file"] for case in cases.values()} == files


def within(count: int, expected: int | list[int]) -> bool:
    least, most = (expected, expected) if isinstance(expected, int) else expected
    return least <= count <= most


@each_row("name", sorted(tomllib.loads((HOSTILE / "cases.toml").read_text())))
@each_row("piece", [1, 7, 1 << 20], ids=["byte by byte", "in sevens", "at once"])
def test_a_hostile_file_is_decoded_as_described(name: str, piece: int) -> None:
    from rltop.formats.jsonl import JsonlDecoder

    case = tomllib.loads((HOSTILE / "cases.toml").read_text())[name]
    data = (HOSTILE / case["file"]).read_bytes()
    decoder = JsonlDecoder()
    records = []
    for start in range(0, len(data), piece):
        records += decoder.feed(data[start : start + piece], start, 0)
    records += decoder.finish()
    assert within(len(records), case["rows"])
    assert within(decoder.counts.bad_lines, case["bad_lines"])
    if "steps" in case:
        assert [record.step for record in records] == case["steps"]


def test_the_completions_of_the_demo_are_of_its_run_and_of_steps_that_it_begins_with() -> None:
    made = runpy.run_path(str(ROOT / "bench" / "make_fixtures" / "tool_slowdown.py"))
    told = [json.loads(line) for line in (FIXTURES / DEMO_ROLLOUTS).read_bytes().splitlines()]
    assert told == json.loads(json.dumps(list(made["completions"](made["Run"]().rows()))))
    logged = {row["step"]: row["data"] for row in map(json.loads, (FIXTURES / DEMO).read_bytes().splitlines())}
    steps = sorted({one["step"] for one in told})
    assert set(steps) <= set(logged) and steps[-1] < len(logged) / 2
    for step in steps:
        here = [one for one in told if one["step"] == step]
        mean = sum(one["completion_tokens"] for one in here) / len(here)
        assert 0.6 < mean / logged[step]["response_length/mean"] < 1.6
