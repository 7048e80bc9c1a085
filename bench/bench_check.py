"""What does `rltop check` cost, against a bare parse of the lines, and how soon does it begin?

    python bench/bench_check.py [--steps 20000] [--rounds 3]

300 keys × 20,000 steps, 280 MB. The base, 1.00, is an interpreter of its own that
calls `orjson.loads` for each line of the same file, in the same round. What
`check` takes on a file of one row is its start.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import made
from screened import RLTOP

PARSE = """
import sys, orjson
with open(sys.argv[1], "rb") as file:
    for line in file:
        orjson.loads(line)
"""
MODULES = """
import sys
sys.argv = ["rltop", "check", sys.argv[1]]
from rltop.cli import main
main()
print("textual" in sys.modules, file=sys.stderr)
"""
START_ROUNDS = 15
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Allows compiled modules to be cached, as in an installed program."""


def spent(command: Sequence[str]) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak megabytes of a command with discarded output.

    Raises:
        RuntimeError: it failed; the exit code of `check` for alerts is no failure.
    """
    start_s = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 1}:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start_s, usage.ru_maxrss * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "metrics.jsonl", Path(folder) / "one.jsonl"
        made.write_repeated(path, arguments.steps)
        made.write_repeated(small, 1)
        programs = {
            "`orjson.loads` per line": (sys.executable, "-c", PARSE, str(path)),
            "`rltop check`": (*RLTOP, "check", str(path)),
            "`rltop check --json`": (*RLTOP, "check", "--json", str(path)),
        }
        times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in programs}
        for _ in range(arguments.rounds):
            for name, command in programs.items():
                times[name].append(spent(command))
        starts = {
            name: [spent(command)[1] for _ in range(START_ROUNDS)]
            for name, command in (
                ("an interpreter that does nothing", (sys.executable, "-c", "")),
                ("`rltop check`", (*RLTOP, "check", str(small))),
            )
        }
        probe = subprocess.run(
            [sys.executable, "-c", MODULES, str(small)],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            check=False,
        )
    base = [one[0] for one in times["`orjson.loads` per line"]]
    print("| program | on | CPU s | s | MB | × parse |\n|---|---|---|---|---|---|")
    for name, found in times.items():
        cpu, took, held = (median(column) for column in zip(*found, strict=True))
        ratio = median(one[0] / parse for one, parse in zip(found, base, strict=True))
        print(f"| {name} | {arguments.steps:,} rows | {cpu:.2f} | {took:.2f} | {held:.0f} | {ratio:.2f} |")
    for name, start in starts.items():
        print(f"| {name} | one row | | {median(start):.3f} | | |")
    has_textual = probe.stderr.strip().endswith("True")
    print(f"\nTextual is {'**imported**' if has_textual else 'not imported'}.")


if __name__ == "__main__":
    main()
