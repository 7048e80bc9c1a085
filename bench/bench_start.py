"""How long until the newest values are on the screen, whatever the size of the file, and until keys are answered?

    python bench/bench_start.py [--sizes 1,70,280,4000] [--formats wandb,tfevents,csv] [--steps 10500] [--rounds 5]

Files of JSON lines, 300 keys a row, of 1 MB to 4 GB in a pseudo-terminal of 120×40, and
the same run of 10,500 steps in other formats; beside each a Textual program that says
hello, in the same round. "Keys answered" is a key pressed the moment the values are
there, until the selection has moved. The whole history is waited for at the second size.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median

import orjson
from bounds import stands
from made import repeated_lines, write_as
from pictures import Pictures, chosen
from screened import HELLO, RLTOP, Screened

ROW_BYTES = 13_200
FIRST = "critic/score/mean"
SECOND = "actor/kl_loss"
"""The keys of the first two rows of the overview of this data."""
PATIENCE_S = 10.0
COMPLETE = b"whole run"
"""Heading of the sparklines once they cover the whole history instead of the newest rows."""

FIRST_OF_HELLO = 0.6
SAME = 1.10


def newest_value(steps: int) -> re.Pattern[bytes]:
    """Pattern of the overview's first row with the value of the newest step."""
    last = orjson.loads(next(islice(repeated_lines(300, steps), steps - 1, None)))
    return re.compile(rf"{FIRST}\s+{last['data'][FIRST]:#.3g}\b".encode())


def hello_s() -> float:
    with Screened((sys.executable, "-c", HELLO)) as hello:
        return hello.until(lambda: b"hello, world" in hello.output)


def first_and_keys_s(path: Path, value: re.Pattern[bytes], step: bytes) -> tuple[float, float]:
    """Seconds from exec to the newest values, and from a key to its effect."""
    with Screened((*RLTOP, str(path))) as program:

        def is_there() -> bool:
            text = program.text()
            return step in text and value.search(text) is not None

        first_s = program.until(is_there)
        program.press(b"j")
        pictures, moved_s, end_s = Pictures(program), None, time.perf_counter() + PATIENCE_S
        while moved_s is None:
            if time.perf_counter() > end_s:
                raise TimeoutError(f"the key never moved the selection: {pictures.lines[-4:]}")
            program.read_for(0.5)
            moved_s = pictures.when(lambda lines: chosen(lines) == SECOND)
        return first_s, moved_s - program.started_s


def whole_s(path: Path) -> float:
    with Screened((*RLTOP, str(path))) as program:
        return program.until(lambda: COMPLETE in program.output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1,70,280,4000", metavar="MB,MB…")
    parser.add_argument("--formats", default="wandb,tfevents,csv", metavar="SUFFIX,SUFFIX…")
    parser.add_argument("--steps", type=int, default=10_500, help="of the files of other formats")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    runs = [(f"{float(size):g}.jsonl", round(float(size) * 1e6 / ROW_BYTES)) for size in arguments.sizes.split(",")]
    of_lines = [name for name, _ in runs]
    runs += [(f"run.{suffix}", arguments.steps) for suffix in arguments.formats.split(",") if suffix]
    hello, whole = [], []
    first: dict[str, list[float]] = {name: [] for name, _ in runs}
    keys: dict[str, list[float]] = {name: [] for name, _ in runs}
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, steps in runs:
            path = Path(folder) / name
            write_as(path, steps)
            files.append((name, path, newest_value(steps), f"step {steps:,}".encode()))
        title = {name: f"{path.stat().st_size / 1e6:,.0f} MB {path.suffix}" for name, path, _, _ in files}
        for attempt in range(arguments.rounds + 1):
            hello_now = hello_s()
            times = [(name, *first_and_keys_s(path, value, step)) for name, path, value, step in files]
            if attempt:  # the first one fills the caches
                hello.append(hello_now)
                for name, first_now, keys_now in times:
                    first[name].append(first_now)
                    keys[name].append(keys_now)
        measured = files[min(1, len(of_lines) - 1)]
        whole = [whole_s(measured[1]) for _ in range(3)]
    base = median(hello)
    print("| from exec to | file | median s | least s | × hello world | bound | |\n|---|---|---|---|---|---|---|")

    def row(name: str, size: str, found: list[float], bound: float | None = None) -> None:
        ratio, shown = median(found) / base, "" if bound is None else f"{bound:.2f} ×"
        print(
            f"| {name} | {size} | {median(found):.3f} | {min(found):.3f} | {ratio:.2f} | {shown} "
            f"| {stands(ratio, bound)} |"
        )

    row("Textual hello world (floor)", "", hello)
    for name, found in first.items():
        row("the newest values", title[name], found, FIRST_OF_HELLO)
    for name, found in keys.items():
        row("a key answered", title[name], found)
    row("the whole history judged", title[measured[0]], whole)
    spread = max(median(first[name]) for name in of_lines) / min(median(first[name]) for name in of_lines)
    print(
        f"\nThe slowest size of JSON lines takes {spread:.2f} × the fastest (bound {SAME:.2f}: {stands(spread, SAME)})."
    )


if __name__ == "__main__":
    main()
