"""How many faulty runs are caught, how late, and how often are healthy ones accused?

    python bench/score.py [--tool rltop|rlwatch|rl-doctor] [--peer-python PYTHON]

Runs an outside scorer over the folder of labelled runs, in the halves that it knows
(`tune`, on which thresholds may be set, and `proof`), and keeps four things: the
totals in `bench/score.csv`, the firing rate of every rule in `bench/firing_rates.csv`,
the line of each tool in the comparison (`bench/peers.csv`: all runs together, and real
logs whose verdicts a person has judged, where a folder `reality` lies beside the runs),
and the section `score` of `bench/RESULTS.md` that is drawn from the first. Each tool
replaces only its own rows. Without a folder of runs, or without the scorer, it says
so and changes nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import run as results

HERE = Path(__file__).resolve().parent
RUNS_VARIABLE, SCORER_VARIABLE = "RLTOP_RUNS", "RLTOP_SCORER"
SECTION = "score"
SCORES, RATES, PEERS = HERE / "score.csv", HERE / "firing_rates.csv", HERE / "peers.csv"
PARTS = ("tune", "proof")
TOOLS = ("rltop", "rlwatch", "rl-doctor")

TOTALS = (
    "faulty", "caught", "recall", "early", "median_delay_steps", "off_family", "healthy", "clean", "healthy_records",
    "false_warn", "false_warn_per_1000", "false_crit", "false_crit_per_1000", "errors",
)  # fmt: skip
RATE_COLUMNS = (
    "tool", "rule", "healthy_runs", "healthy_fired", "healthy_records", "healthy_warn", "healthy_crit", "faulty_runs",
    "faulty_fired",
)  # fmt: skip
PEER_COLUMNS = (
    "tool", "faulty", "caught", "recall", "early", "delay", "healthy_records", "warn_per_1000", "crit_per_1000",
    "real_logs", "real_raised", "real_right", "real_precision", "real_useful", "real_warn_per_1000",
    "real_crit_per_1000",
)  # fmt: skip
TARGETS = "recall ≥ 0.95, 0 CRIT and ≤ 1 WARN per 1,000 healthy records, nothing early, median delay ≤ 5 records"

HEALTHY, FAULTY = "healthy", "faulty"
_NOT_SCORED = frozenset({"borderline", "interrupted", "format sample", "no metrics", "not learning"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=TOOLS, default="rltop")
    parser.add_argument("--peer-python", help="the interpreter that has the peer")
    arguments = parser.parse_args()
    found = places(os.environ)
    if isinstance(found, str):
        print(f"not scored: {found}", file=sys.stderr)
        return 0
    runs, scorer = found
    with tempfile.TemporaryDirectory() as answers:
        asked = [sys.executable, str(HERE / "score_answer.py"), answers]
        if arguments.tool != "rltop":
            asked += ["--peer", arguments.tool, "--peer-python", arguments.peer_python or sys.executable]
        totals = {
            (folder.name, part): score(scorer, folder, part, shlex.join(asked))
            for folder in sorted(path for path in runs.iterdir() if any(path.rglob("label.json")))
            for part in PARTS
        }
        documents = [json.loads(path.read_text()) for path in sorted(Path(answers).glob("*.json"))]
        # The answers recorded so far are reused here.
        together = score(scorer, runs, None, shlex.join(asked))
        compared = peer_row(arguments.tool, together, real(scorer, runs.parent / "reality", shlex.join(asked)))
    replace_rows(SCORES, arguments.tool, ("tool", "runs", "part", *TOTALS), score_rows(arguments.tool, totals))
    replace_rows(RATES, arguments.tool, RATE_COLUMNS, rate_rows(arguments.tool, documents))
    replace_rows(PEERS, arguments.tool, PEER_COLUMNS, [compared])
    write_section()
    return 0


def places(environ: Mapping[str, str]) -> tuple[Path, Path] | str:
    """The folder of runs and the scorer, or a message on what is missing."""
    if not environ.get(RUNS_VARIABLE):
        return f"{RUNS_VARIABLE} is not set (see CONTRIBUTING.md)"
    runs = Path(environ[RUNS_VARIABLE])
    scorer = Path(environ.get(SCORER_VARIABLE) or runs.parent / "tools" / "score_health.py")
    if not runs.is_dir():
        return f"{RUNS_VARIABLE} is {runs}, which is no folder"
    return (runs, scorer) if scorer.is_file() else f"no scorer at {scorer}; {SCORER_VARIABLE} names another"


def score(scorer: Path, runs: Path, part: str | None, tool: str) -> dict[str, Any]:
    """Totals of one part of a folder, or of all; prints lines on single runs for `tune` only."""
    done = subprocess.run(
        [sys.executable, str(scorer), str(runs), *(("--part", part) if part else ()), "--rltop", tool],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    *lines, last = done.stdout.splitlines()
    for line in lines if part == "tune" else ():
        print(f"{runs.name}: {line}", file=sys.stderr)
    print(f"{runs.name} {part or 'all'}: {last}", file=sys.stderr)
    return dict(json.loads(last))


def real(scorer: Path, logs: Path, tool: str) -> dict[str, Any]:
    """Totals of the judged real logs; empty if they or their scorer are missing."""
    judge = scorer.with_name("score_reality.py")
    if not (logs.is_dir() and judge.is_file()):
        print(f"real logs are not scored: no {logs if judge.is_file() else judge}", file=sys.stderr)
        return {}
    done = subprocess.run(
        [sys.executable, str(judge), str(logs), "--rltop", tool], stdout=subprocess.PIPE, text=True, check=True
    )
    *_, last = done.stdout.splitlines()
    print(f"{logs.name}: {last}", file=sys.stderr)
    return dict(json.loads(last))


def peer_row(tool: str, runs: Mapping[str, Any], logs: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a tool in the comparison: labelled runs, and real logs if scored."""
    found = {
        "tool": tool, "delay": runs.get("median_delay_steps"), "warn_per_1000": runs.get("false_warn_per_1000"),
        "crit_per_1000": runs.get("false_crit_per_1000"),
        **{name: runs.get(name) for name in ("faulty", "caught", "recall", "early", "healthy_records")},
    }  # fmt: skip
    if logs:
        right = logs["kept"] + logs["missed_caught"]
        raised = right + sum(logs[name] for name in ("false_raised", "noise_raised", "unjudged"))
        found |= {
            "real_logs": logs["logs"], "real_right": right, "real_raised": raised,
            "real_precision": round(right / raised, 3) if raised else None,
            "real_useful": logs["useful"] + logs["missed"], "real_warn_per_1000": logs["warn_per_1000"],
            "real_crit_per_1000": logs["crit_per_1000"],
        }  # fmt: skip
    return {name: _written(found.get(name)) for name in PEER_COLUMNS}


def score_rows(tool: str, totals: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each folder and part."""
    return [
        {"tool": tool, "runs": runs, "part": part, **{name: _written(found.get(name)) for name in TOTALS}}
        for (runs, part), found in totals.items()
    ]


def _written(value: object) -> object:
    return "" if value is None else value


def kind_of(label: Mapping[str, Any]) -> str | None:
    """Healthy or faulty by the label; None if the rules are not scored on it."""
    fault = label.get("fault")
    verdict = label.get("verdict", "failed" if fault else "healthy")
    if verdict in _NOT_SCORED or fault == "stalled" or label.get("visible") is False:
        return None
    # A restart is not a training fault: it must not raise an alarm.
    return HEALTHY if verdict == "healthy" or fault == "restart" else FAULTY


def rate_rows(tool: str, documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Number of runs of each kind in which each rule fired at WARN or above; `*` is any rule."""
    runs, records = Counter[str](), Counter[str]()
    fired: dict[tuple[str, str], int] = defaultdict(int)
    events: dict[tuple[str, str], int] = defaultdict(int)
    for document in documents:
        kind = kind_of(document["label"])
        if kind is None:
            continue
        runs[kind] += 1
        records[kind] += int(document.get("records") or 0)
        alarms = [
            event
            for event in document.get("events", ())
            if event["level"] in ("warn", "crit") and event["state"] not in ("recovered", "fact")
        ]
        for rule in {event.get("part", event["rule"]) for event in alarms} | ({"*"} if alarms else set()):
            fired[rule, kind] += 1
        for event in alarms if kind == HEALTHY else ():
            events[event.get("part", event["rule"]), event["level"]] += 1
            events["*", event["level"]] += 1
    rules = sorted({rule for rule, _ in fired} | {"*"})
    return [
        {
            "tool": tool,
            "rule": rule,
            "healthy_runs": runs[HEALTHY],
            "healthy_fired": fired[rule, HEALTHY],
            "healthy_records": records[HEALTHY],
            "healthy_warn": events[rule, "warn"],
            "healthy_crit": events[rule, "crit"],
            "faulty_runs": runs[FAULTY],
            "faulty_fired": fired[rule, FAULTY],
        }
        for rule in rules
    ]


def replace_rows(path: Path, tool: str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Replace the rows of one tool."""
    kept: list[dict[str, Any]] = []
    if path.exists():
        with path.open(newline="") as file:
            kept = [dict(row) for row in csv.DictReader(file) if row["tool"] != tool]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(sorted(kept + rows, key=lambda row: TOOLS.index(row["tool"])))


def table() -> str:
    """The totals of every tool, as a Markdown table."""
    names = {
        "faulty": "faulty", "caught": "caught", "recall": "recall", "early": "early", "median_delay_steps": "delay",
        "off_family": "off-family", "healthy": "healthy", "clean": "clean", "healthy_records": "records",
        "false_warn_per_1000": "WARN/1,000", "false_crit_per_1000": "CRIT/1,000", "errors": "errors",
    }  # fmt: skip
    lines = [f"| tool | runs | part | {' | '.join(names.values())} |", f"|{'---|' * (len(names) + 3)}"]
    with SCORES.open(newline="") as file:
        lines += [
            f"| {row['tool']} | {row['runs']} | {row['part']} | {' | '.join(row[name] for name in names)} |"
            for row in csv.DictReader(file)
        ]
    return "\n".join(lines)


def write_section() -> None:
    """Write the section of RESULTS.md from the totals."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    question = (__doc__ or "").partition("\n")[0]
    text = (
        f"## {SECTION}\n\n{question}\n\n`make score`, `make score-peer` · {stamp} · {results.commit()}\n"
        f"{results.machine()}\n\n{table()}\n\nTargets: {TARGETS}. Thresholds are set on `tune` alone.\n"
    )
    results.replace_section(SECTION, text)


if __name__ == "__main__":
    sys.exit(main())
