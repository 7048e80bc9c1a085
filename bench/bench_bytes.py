"""What does watching cost: processor time and bytes to the terminal, idle and per record?

A veRL-shaped file of 300 keys × 2,000 steps in a pseudo-terminal of 120×40. `--flat` watches for 600 s while 20 rows a
second arrive, and prints what each minute of them cost.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import made
from bounds import stands
from screened import HELLO, RLTOP, Screened

SETTLE_S = 4.0
IDLE_S = 10.0
LIVE_S = 8.0


def measure(program: Screened, lines: Sequence[bytes], path: Path, rate: float, seconds: float) -> tuple[float, float]:
    """CPU share in per cent and bytes per second while `rate` rows per second arrive."""
    cpu_s, size, start_s = program.cpu_s, len(program.output), time.perf_counter()
    with path.open("ab", buffering=0) as file:
        for i, line in enumerate(lines):
            file.write(line)
            program.read_for(max(0.0, start_s + (i + 1) / rate - time.perf_counter()))
    program.read_for(max(0.0, start_s + seconds - time.perf_counter()))
    elapsed_s = time.perf_counter() - start_s
    return 100 * (program.cpu_s - cpu_s) / elapsed_s, (len(program.output) - size) / elapsed_s


def show(what: str, cpu: float, size: float, most_size: int) -> None:
    print(f"| rltop | {what} | {cpu:.2f} | {size:.0f} | {most_size:,} | {stands(size, most_size)} |")


def flat() -> None:
    """Print the cost of a row minute by minute, which should stay constant."""
    print("| minute at 20 records/s | % of a core | B/s | MB |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        path.write_bytes(b"".join(made.lines(300, 2000)))
        rows = list(made.lines(300, 12_000, first_step=2001))
        with Screened((*RLTOP, str(path))) as program:
            program.read_for(SETTLE_S)
            for minute in range(10):
                cpu, size = measure(program, rows[1_200 * minute : 1_200 * (minute + 1)], path, 20.0, 60.0)
                print(f"| {minute + 1} | {cpu:.2f} | {size:.0f} | {program.memory_mb():.1f} |", flush=True)


def main() -> None:
    if "--flat" in sys.argv:
        return flat()
    print("| program | what happens | % of a core | B/s | bound | |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        with Screened((sys.executable, "-c", HELLO)) as hello:
            hello.read_for(2.0)
            cpu, size = measure(hello, (), path, 1.0, IDLE_S)
            print(f"| Textual hello world | nothing | {cpu:.2f} | {size:.0f} | | |")
        shutil.copyfile(made.made_file(300, 2000), path)
        rows = list(made.lines(300, 200, first_step=2001))
        with Screened((*RLTOP, str(path))) as program:
            program.read_for(SETTLE_S)
            cpu, size = measure(program, rows[:8], path, 1.0, LIVE_S)
            show("1 record/s", cpu, size, 4_000)
            cpu, size = measure(program, rows[8:88], path, 10.0, LIVE_S)
            show("10 records/s", cpu, size, 14_000)
            program.read_for(2.0)
            cpu, size = measure(program, (), path, 1.0, IDLE_S)
            show("nothing", cpu, size, 30)
    return None


if __name__ == "__main__":
    main()
