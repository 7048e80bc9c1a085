"""How long until the newest step's true values are on the screen, and until the whole history is?

A veRL-shaped file of 300 keys × 5,000 steps in a pseudo-terminal of 120×40, while
another process appends ten rows a second; beside it a Textual program that says hello.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import made
from screened import HELLO, RLTOP, Screened

ROUNDS = 5
APPENDER = """
import sys, time
import made
with open(sys.argv[1], "ab", buffering=0) as file:
    for line in made.lines(300, 600, first_step=5001):
        file.write(line)
        time.sleep(0.1)
"""
FIRST_VALUE = b"actor/grad_norm"
"""A key of the data: its row stands on the screen only with its value."""
COMPLETE = b"whole run"
"""Heads the lines once they cover the whole history; before that they cover the newest rows."""


def one_round(path: Path) -> tuple[float, float, float, float]:
    """Seconds to hello, to the first value, to Textual having taken over, to completeness."""
    with Screened((sys.executable, "-c", HELLO)) as hello:
        hello_s = hello.until(lambda: b"hello, world" in hello.output)
    with Screened((*RLTOP, str(path))) as program:
        first_s = program.until(lambda: FIRST_VALUE in program.output)
        ready_s = program.until(lambda: b"Quit" in program.output)
        whole_s = program.until(lambda: COMPLETE in program.output)
    return hello_s, first_s, ready_s, whole_s


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        shutil.copyfile(made.made_file(300, 5000), path)
        writer = subprocess.Popen([sys.executable, "-c", APPENDER, str(path)], cwd=Path(made.__file__).parent)
        try:
            time.sleep(0.5)
            one_round(path)
            rounds = [one_round(path) for _ in range(ROUNDS)]
        finally:
            writer.kill()
            writer.wait()
    names = (
        "Textual hello world (floor)",
        "rltop: first true value",
        "rltop: keys answered",
        "rltop: history complete",
    )
    bounds = ("", "0.50", "", "5.00")
    print("| from exec to | median s | minimum s | × hello world | bound s |\n|---|---|---|---|---|")
    base = median(times[0] for times in rounds)
    for i, name in enumerate(names):
        times = [one[i] for one in rounds]
        print(f"| {name} | {median(times):.2f} | {min(times):.2f} | {median(times) / base:.2f} | {bounds[i]} |")


if __name__ == "__main__":
    main()
