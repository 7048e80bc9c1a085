"""What does it cost to follow a thousand files to which nothing happens?

    python bench/bench_quiet_files.py [--files 1000]

Runs of 20 steps and 30 keys, in a folder each and all in one folder, in a
pseudo-terminal of 120×40; beside them a single such file and a Textual hello world.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import made
from bounds import stands
from screened import HELLO, RLTOP, Screened

LONGEST_SETTLE_S = 60.0
IDLE_S = 15.0
BOUND = 1.0


def share_idle(program: Screened) -> tuple[float, float]:
    """Per cent of a core and bytes a second while nothing happens."""
    cpu_s, size, start_s = program.cpu_s, len(program.output), time.perf_counter()
    program.read_for(IDLE_S)
    took_s = time.perf_counter() - start_s
    return 100 * (program.cpu_s - cpu_s) / took_s, (len(program.output) - size) / took_s


def settle(program: Screened) -> float:
    """Wait until less than a twentieth of a core has been used for two seconds; processor seconds until then."""
    end_s, quiet = time.perf_counter() + LONGEST_SETTLE_S, 0
    while quiet < 2 and time.perf_counter() < end_s:
        before_s = program.cpu_s
        program.read_for(1.0)
        quiet = quiet + 1 if program.cpu_s - before_s < 0.05 else 0
    return program.cpu_s


def place_quiet_file(path: Path, rows: bytes) -> None:
    """As old as a run that ended an hour ago: a file that has just been written is not quiet yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(rows)
    long_ago_s = time.time() - 3600
    os.utime(path, (long_ago_s, long_ago_s))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    arguments = parser.parse_args()
    print(
        "| program | files | CPU s until quiet | % of a core | bound | | B/s | MB |\n|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        rows = b"".join(made.lines(30, 20))
        apart, together = Path(folder) / "apart", Path(folder) / "together"
        for number in range(arguments.files):
            place_quiet_file(apart / f"run_{number:04d}" / "metrics.jsonl", rows)
            place_quiet_file(together / f"run_{number:04d}.jsonl", rows)
        single = str(apart / "run_0000" / "metrics.jsonl")
        for name, files, command in (
            ("Textual hello world", 0, (sys.executable, "-c", HELLO)),
            ("rltop", 1, (*RLTOP, single)),
            ("rltop, a folder each", arguments.files, (*RLTOP, str(apart))),
            ("rltop, all in one folder", arguments.files, (*RLTOP, str(together))),
        ):
            with Screened(command) as program:
                program.read_for(3.0)
                cpu_s = settle(program)
                share, rate = share_idle(program)
                bound, word = ("", "") if not files else (f"{BOUND:g}", stands(share, BOUND))
                figures = f"{cpu_s:.1f} | {share:.2f} | {bound} | {word} | {rate:.0f} | {program.memory_mb():.0f}"
                print(f"| {name} | {files:,} | {figures} |")


if __name__ == "__main__":
    main()
