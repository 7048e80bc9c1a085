"""Does it keep up with 5,000 records a second for half a minute, and answer keys meanwhile?

    python bench/bench_flood.py [--rate 5000] [--seconds 30] [--keys 30,300]

Another process appends to the file; every second a key moves the selection. Records
of 30 keys (1.3 MB/s a thousand) and of 300. "Behind" is how much later than it was
written the last record stands in the header.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import made
from bounds import stands
from pictures import Pictures, selection_ms, step_shown
from screened import RLTOP, Screened

FIRST_STEPS = 500
BEHIND_S = 1.0
KEY_MS = 50.0
PATIENCE_S = 90.0
WRITER = """
import sys, time
from itertools import islice
import made
path, keys, rate, seconds, first = sys.argv[1], *map(int, sys.argv[2:])
rows = made.repeated_lines(keys, rate * seconds, first)
next_s = time.perf_counter()
with open(path, "ab", buffering=0) as file:
    while block := b"".join(islice(rows, rate // 100)):
        file.write(block)
        next_s += 0.01
        time.sleep(max(0.0, next_s - time.perf_counter()))
"""


def flood(folder: Path, keys: int, rate: int, seconds: int) -> tuple[float, float, float, list[float]]:
    """Records a second written, seconds behind at the end, share of a core, milliseconds of each key."""
    path = folder / f"{keys}.jsonl"
    made.write_repeated(path, FIRST_STEPS, keys)
    last = FIRST_STEPS + rate * seconds
    with Screened((*RLTOP, str(path))) as program:
        program.until(lambda: b"Quit" in program.output)
        program.read_for(1.5)
        # Down among the metrics: what is selected at first may be a badge, which has no key.
        program.press(b"jjjj")
        program.read_for(0.5)
        cpu_s, start_s, pressed = program.cpu_s, time.perf_counter(), []
        command = [sys.executable, "-c", WRITER, *map(str, (path, keys, rate, seconds, FIRST_STEPS + 1))]
        with subprocess.Popen(command, cwd=Path(made.__file__).parent) as writer:
            while writer.poll() is None:
                pressed.append(time.perf_counter())
                program.press(b"k" if len(pressed) % 2 == 0 else b"j")
                program.read_for(1.0)
            share = (program.cpu_s - cpu_s) / (time.perf_counter() - start_s)
            written_s = _written_s(path)
        program.read_for(1.0)
        pictures, shown_s, end_s = Pictures(program), None, time.perf_counter() + PATIENCE_S
        while shown_s is None and time.perf_counter() < end_s:
            shown_s = pictures.when(lambda lines: step_shown(lines) >= last)
            program.read_for(0.5)
        took = selection_ms(program, pressed)
    path.unlink()
    behind_s = float("inf") if shown_s is None else max(0.0, shown_s - written_s)
    return rate * seconds / (written_s - start_s), behind_s, 100 * share, took


def _written_s(path: Path) -> float:
    """When the file was last written, on the clock of `time.perf_counter`."""
    return path.stat().st_mtime - time.time() + time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--keys", default="30,300", metavar="N,N…")
    arguments = parser.parse_args()
    print(
        "| keys a record | records/s written | s behind at the end | bound | | % of a core | key: median ms | bound | |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for keys in map(int, arguments.keys.split(",")):
            rate, behind_s, share, took = flood(Path(folder), keys, arguments.rate, arguments.seconds)
            late = f"{behind_s:.1f}" if behind_s < PATIENCE_S else f"> {PATIENCE_S:.0f}"
            key_ms = median(took) if took else float("inf")
            print(
                f"| {keys} | {rate:,.0f} | {late} | {BEHIND_S:.0f} | {stands(behind_s, BEHIND_S)} | {share:.0f} "
                f"| {key_ms:.0f} (of {len(took)}) | {KEY_MS:.0f} | {stands(key_ms, KEY_MS)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
