"""What does it cost to list and to follow a thousand files to which nothing happens?

    python bench/bench_quiet_files.py [--files 1000]

Runs of 20 steps and 30 keys, in a folder each and all in one folder, in a
pseudo-terminal of 120×40; beside them a single such file and a Textual hello world.
`table` is the processor time until the first table of runs is on the terminal, and how
long that took; `keys` are the median time from a key to the screen, and the longest,
once all is quiet.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import made
from bounds import stands
from screened import HELLO, RLTOP, Screened

LONGEST_SETTLE_S = 60.0
IDLE_S = 15.0
KEYS, LONGEST_KEY_S = 20, 5.0
DOWN, UP = b"\x1b[B", b"\x1b[A"
BOUND, TABLE_BOUND_S = 1.0, 1.0


def share_idle(program: Screened) -> tuple[float, float]:
    """Per cent of a core and bytes per second while idle."""
    cpu_s, size, start_s = program.cpu_s, len(program.output), time.perf_counter()
    program.read_for(IDLE_S)
    took_s = time.perf_counter() - start_s
    return 100 * (program.cpu_s - cpu_s) / took_s, (len(program.output) - size) / took_s


def settle(program: Screened) -> float:
    """Wait until less than 5 % of a core has been used for two seconds; returns the CPU seconds until then."""
    end_s, quiet = time.perf_counter() + LONGEST_SETTLE_S, 0
    while quiet < 2 and time.perf_counter() < end_s:
        before_s = program.cpu_s
        program.read_for(1.0)
        quiet = quiet + 1 if program.cpu_s - before_s < 0.05 else 0
    return program.cpu_s


def first_table(program: Screened) -> tuple[float, float]:
    """Wall seconds and CPU seconds until the list of runs is shown."""
    took_s = program.until(lambda: b"RUNS" in (shown := program.text()) and b"run_0" in shown)
    return took_s, program.cpu_s


def key_times(program: Screened) -> list[float]:
    """Milliseconds from each of several keys, a moment apart, to the change on the screen."""
    found = []
    for number in range(KEYS):
        size, start_s = len(program.output), time.perf_counter()
        program.press(UP if number % 8 > 3 else DOWN)
        while len(program.output) == size and time.perf_counter() - start_s < LONGEST_KEY_S:
            program.read(0.02)
        found.append(1000 * (time.perf_counter() - start_s))
        program.read_for(0.3)
    return found


def place_quiet_file(path: Path, rows: bytes) -> None:
    """Write a file dated an hour ago, because a file written just now is not quiet yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(rows)
    long_ago_s = time.time() - 3600
    os.utime(path, (long_ago_s, long_ago_s))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    arguments = parser.parse_args()
    heads = "table s | CPU s | bound | | CPU s until quiet | % of a core | bound | | keys ms | B/s | MB"
    print(f"| program | files | {heads} |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
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
                table, keys = "| | |", ""
                if files > 1:
                    took_s, cpu_s = first_table(program)
                    table = f"{took_s:.2f} | {cpu_s:.2f} | {TABLE_BOUND_S:g} | {stands(took_s, TABLE_BOUND_S)}"
                program.read_for(3.0)
                cpu_s = settle(program)
                share, rate = share_idle(program)
                if files > 1:
                    times = key_times(program)
                    keys = f"{median(times):.0f}, {max(times):.0f}"
                quiet = f"{BOUND:g} | {stands(share, BOUND)}" if files else "|"
                figures = f"{cpu_s:.1f} | {share:.2f} | {quiet} | {keys} | {rate:.0f} | {program.memory_mb():.0f}"
                print(f"| {name} | {files:,} | {table} | {figures} |")


if __name__ == "__main__":
    main()
