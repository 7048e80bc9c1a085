"""Evidence counts repositories, not logs; and the table of warnings makes the runs that it describes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rltop.rules.registry import NAMED

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"


@pytest.fixture(scope="module")
def warnings() -> Iterator[Any]:
    sys.path.insert(0, str(BENCH))
    import glossary_warnings

    yield glossary_warnings
    sys.path.remove(str(BENCH))


ONSET = 100
"""The record at which a fault begins, where its line says nothing else."""


def case_of(warnings: Any, trainer: str, line: int) -> Any:
    return next(case for case in warnings.cases(1) if (case.trainer, case.line) == (trainer, line))


def test_each_warning_expects_families_that_exist(warnings: Any) -> None:
    families = {spec.family for spec in NAMED.values()}
    found = list(warnings.cases(1))
    assert {case.page for case in found if case.families} == {case.page for case in found if not case.families}
    for case in found:
        assert case.families <= families, case.says
        assert bool(case.changes) or not case.families, case.says


def test_a_warning_is_the_healthy_run_until_its_onset(warnings: Any) -> None:
    fault, healthy = case_of(warnings, "TRL GRPO", 77), case_of(warnings, "TRL GRPO", 0)
    assert warnings.text_of(fault) == warnings.text_of(fault)
    bad, good = list(warnings.rows(fault)), list(warnings.rows(healthy))
    assert bad[: ONSET - 1] == good[: ONSET - 1]
    differs = {key for one, other in zip(bad, good, strict=True) for key in one if one[key] != other[key]}
    assert differs == set(fault.changes)
    assert all(0.5 < row["completions/clipped_ratio"] < 0.9 for row in bad[ONSET - 1 :])


def test_what_is_worked_out_follows_its_parts(warnings: Any) -> None:
    for row in warnings.rows(case_of(warnings, "veRL GRPO", 153)):
        assert row["perf/throughput"] == pytest.approx(row["perf/total_num_tokens"] / row["timing_s/step"] / 8)
        assert row["perf/time_per_step"] == row["timing_s/step"] > row["timing_s/gen"] + row["timing_s/update_actor"]


def test_a_fault_is_raised_and_a_healthy_run_is_not(warnings: Any) -> None:
    raised = warnings.play(case_of(warnings, "TRL GRPO", 77))
    assert raised.raised
    assert raised.stands
    assert not raised.early
    quiet = warnings.play(case_of(warnings, "TRL GRPO", 0))
    assert (quiet.raised, quiet.stands, quiet.alarms) == ("", False, ())


def label(**words: Any) -> str:
    found = {"class": "llm", "trainer": "trl-grpo", "records": 200, "healthy": False}
    return json.dumps(found | {"useful": [], "noise": [], "false": [], "missed": []} | words)


def evidence(*arguments: str | Path) -> list[list[str]]:
    """The cells of all tables that are printed."""
    asked = [sys.executable, str(BENCH / "evidence.py"), *map(str, arguments), "--jobs", "1"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]


def test_a_repository_counts_once_for_a_rule_and_a_word(warnings: Any, tmp_path: Path) -> None:
    fault, clean = case_of(warnings, "TRL GRPO", 77), case_of(warnings, "TRL GRPO", 0)
    truncation = {"rule": "T1", "family": "truncation", "level": "warn"}
    collapse = {"rule": "X1", "family": "collapse", "level": "crit"}
    logs = {
        "trl-grpo--alpha-1111": (fault, label(useful=[truncation])),
        "trl-grpo--alpha-2222": (fault._replace(seed=1), label(useful=[truncation, collapse])),
        "trl-grpo--beta-3333": (fault._replace(seed=2), label(false=[truncation])),
        # The bytes of the first log once more: nothing counts twice, and the first judgement holds.
        "trl-grpo--gamma-4444": (fault, label(noise=[truncation])),
        "trl-grpo--delta-5555": (clean, label(healthy=True)),
    }
    for name, (case, judgement) in logs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text(warnings.text_of(case))
        (tmp_path / name / "label.json").write_text(judgement)
    tables = evidence(tmp_path)
    head, *rows = [cells for cells in tables if len(cells) == len(tables[0])]
    found = {cells[0]: dict(zip(head, cells, strict=True)) for cells in rows}
    assert [found["T1"][name] for name in ("field", "right", "noise", "false", "alone")] == ["llm", "1", "0", "1", "1"]
    assert found["X1"]["lost"] == "1"
    totals = dict(zip(*[cells for cells in tables if "precision" in cells or cells[0] == "all"], strict=True))
    assert [totals[name] for name in ("logs", "repositories", "right", "false", "precision", "kept")] == [
        "4", "3", "1", "1", "0.5", "1.0/2",
    ]  # fmt: skip
    assert (totals["healthy logs"], totals["flagged"], totals["CRIT on healthy"]) == ("1", "0", "0")
    by_log = evidence(tmp_path, "--by", "log")
    totals = dict(zip(*[cells for cells in by_log if "precision" in cells or cells[0] == "all"], strict=True))
    assert (totals["right"], totals["false"], totals["kept"]) == ("2", "1", "2.0/3")


def test_a_table_of_its_own_is_read_out_of_a_repository(warnings: Any, tmp_path: Path) -> None:
    repository = tmp_path / "mirror" / "owner+name" / "repo"
    repository.mkdir(parents=True)
    names = ["fault.jsonl", "healthy.jsonl", "nothing.jsonl", "foreign.jsonl"]
    texts = [*(warnings.text_of(case_of(warnings, "TRL GRPO", line)) for line in (77, 0)), "", '{"qqzz": 1.5}\n' * 30]
    for name, text in zip(names, texts, strict=True):
        (repository / name).write_text(text)

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", "-C", repository, *who, *arguments], check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "logs")
    commit = git("rev-parse", "HEAD").strip()
    columns = "id,class,trainer,records,healthy,repository,path,commit,useful,noise,false,missed"
    due = ["truncation+length:warn", "", "reward:warn", ""]
    lines = [
        f"trl-grpo--name-{number},llm,trl-grpo,200,{str(not missed).lower()},owner/name,{name},{commit},,,,{missed}"
        for number, (name, missed) in enumerate(zip(names, due, strict=True))
    ]
    table = tmp_path / "table.csv"
    table.write_text("\n".join([columns, *lines, ""]))
    found = evidence("--mirror", tmp_path / "mirror", "--table", table, "--by", "log")
    totals = dict(zip(*[cells for cells in found if "precision" in cells or cells[0] == "all"], strict=True))
    assert [totals[name] for name in ("logs", "repositories", "unread", "deaf", "right", "caught of missed")] == [
        "4", "1", "1", "1", "1", "1.0/2",
    ]  # fmt: skip
    # What a set has scored once stays: later programs have had its logs in sight.
    unseen, score = tmp_path / "unseen_logs.csv", tmp_path / "unseen_score.csv"
    asked = ["judged_at", "old", "older", "new", "new"]
    unseen.write_text("".join(f"{line},{by}\n" for line, by in zip([columns, *lines], asked, strict=True)))
    score.write_text("asked,by\nold older,log\n")
    for programs in ("old", "old older", "new", "new"):
        evidence("--mirror", tmp_path / "mirror", "--table", unseen, "--asked", programs)
    assert [row.split(",")[0] for row in score.read_text().splitlines()] == ["asked", "old older", *["new"] * 4]


def test_a_rule_that_is_a_note_keeps_its_evidence(tmp_path: Path) -> None:
    folder = tmp_path / "sb3-csv--alpha-1111"
    folder.mkdir()
    rows = [f"{512 * number},{50 + number % 5 if number < 120 else 5},200" for number in range(1, 160)]
    (folder / "progress.csv").write_text("\n".join(["time/total_timesteps,some_reward,rollout/ep_len_mean", *rows, ""]))
    guessed = {"rule": "U1", "family": "guessed", "level": "warn"}
    (folder / "label.json").write_text(label(**{"class": "classic", "noise": [guessed]}))
    tables = evidence(tmp_path)
    (by_rule,) = (dict(zip(tables[0], cells, strict=True)) for cells in tables if cells[0] == "U1")
    assert (by_rule["field"], by_rule["noise"]) == ("classic", "1")
    totals = dict(zip(*[cells for cells in tables if "precision" in cells or cells[0] == "all"], strict=True))
    assert totals["noise"] == "0"
