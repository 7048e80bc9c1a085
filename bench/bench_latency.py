"""How long from an appended line, and from a key, to a changed screen: at rest, and while a long history is being read?

    python bench/bench_latency.py [--rounds 100] [--history 20000]

300 keys × 2,000 steps in a pseudo-terminal of 120×40. A line counts as shown when its
step stands in the header, a key when the selection has moved or, where a page opens,
with the first byte of it. Lines come 0.6 s apart, so that each is a first change
after a rest. The history that is read behind the keys has 300 × 20,000 values, 280 MB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import made
from bounds import percentile, stands
from pictures import Pictures, selection_ms, step_shown
from screened import RLTOP, Screened

STEPS = 2000
REST_S = 0.6
COMPLETE = b"whole run"
PAGES = 10


class Found(NamedTuple):
    """Milliseconds of one kind of change, with bounds for the median and the 99th percentile."""

    name: str
    to: str
    times_ms: Sequence[float]
    median_ms: float
    p99_ms: float | None


def first_byte_ms(program: Screened, causes: Sequence[Callable[[], object]], rest_s: float) -> list[float]:
    """Milliseconds from each cause to the next byte of output."""
    found = []
    for cause in causes:
        program.read_for(rest_s)
        size, start_s = len(program.output), time.perf_counter()
        cause()
        while len(program.output) == size and time.perf_counter() - start_s < 3.0:
            program.read(0.5)
        found.append((time.perf_counter() - start_s) * 1e3)
    return found


def moves_ms(program: Screened, rounds: int, rest_s: float, is_over: Callable[[], bool] = lambda: False) -> list[float]:
    """Milliseconds from an arrow key to the moved selection, down and up in turn."""
    pressed = []
    for number in range(rounds):
        if is_over():
            break
        pressed.append(time.perf_counter())
        program.press(b"k" if number % 2 else b"j")
        program.read_for(rest_s)
    return selection_ms(program, pressed)


def appended_ms(program: Screened, path: Path, rounds: int) -> list[float]:
    """Milliseconds from an appended line to its step in the header."""
    written, pictures = [], Pictures(program)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        for line in made.repeated_lines(300, rounds, STEPS + 1):
            written.append(time.perf_counter())
            os.write(handle, line)
            program.read_for(REST_S)
    finally:
        os.close(handle)
    found = []
    for step, start_s in enumerate(written, start=STEPS + 1):
        shown_s = pictures.when(lambda lines, step=step: step_shown(lines) >= step, start_s)  # type: ignore[misc]
        if shown_s is None:
            raise TimeoutError(f"step {step:,} was never shown: {pictures.lines[0]}")
        found.append((shown_s - start_s) * 1e3)
    return found


def at_rest(folder: Path, rounds: int) -> list[Found]:
    path = folder / "metrics.jsonl"
    shutil.copyfile(made.made_file(300, STEPS), path)
    with Screened((*RLTOP, str(path))) as program:
        program.until(lambda: COMPLETE in program.output)
        program.read_for(1.5)

        def keys(text: str) -> list[Callable[[], object]]:
            return [partial(program.press, key.encode()) for key in text]

        moved = moves_ms(program, rounds, 0.1)
        appended = appended_ms(program, path, rounds)
        travelled = first_byte_ms(program, keys("," * (rounds // 2)), 0.2)
        program.press(b"L")
        opened = first_byte_ms(program, keys("\r\x1b" * PAGES), 0.5)[::2]
        paged = first_byte_ms(program, keys("t\x1b" * PAGES), 0.5)[::2]
    return [
        Found("a line appended", "its step in the header", appended, 60, 300),
        Found("a key that moves the selection", "the selection", moved, 20, 50),
        Found("a key that moves the time cursor", "the screen", travelled, 20, 50),
        Found("Enter on a metric", "its page begins to show", opened, 120, None),
        Found("the key of the timing page", "the page begins to show", paged, 120, None),
    ]


def while_reading(folder: Path, rounds: int, steps: int) -> Found:
    """Move the selection while the history is being read, at most `rounds` times."""
    path, times = folder / "history.jsonl", list[float]()
    made.write_repeated(path, steps)
    for _ in range(3):
        with Screened((*RLTOP, str(path))) as program:
            program.until(lambda: b"Quit" in program.output)
            program.read_for(0.3)
            times += moves_ms(program, rounds, 0.2, lambda: COMPLETE in program.output)
    path.unlink()
    return Found("the same while history is read", "the selection", times, 20, 50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--history", type=int, default=20_000, metavar="STEPS")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = at_rest(Path(name), arguments.rounds)
        found.insert(2, while_reading(Path(name), arguments.rounds, arguments.history))
    print("| from | to | times | median ms | bound | | p99 ms | bound | | worst ms |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, to, times, median_ms, p99_ms in found:
        middle, slow = median(times), percentile(times, 0.99)
        print(
            f"| {name} | {to} | {len(times)} | {middle:.0f} | {median_ms:.0f} | {stands(middle, median_ms)} "
            f"| {slow:.0f} | {'' if p99_ms is None else f'{p99_ms:.0f}'} | {stands(slow, p99_ms)} | {max(times):.0f} |"
        )


if __name__ == "__main__":
    main()
