"""How long from an appended line, and from a key, to a changed screen?

A veRL-shaped file of 300 keys × 2,000 steps in a pseudo-terminal of 120×40; the
first byte that the program writes afterwards counts. Rows come 0.6 s apart: each
is a first change after a rest.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import made
from screened import RLTOP, Screened

ROUNDS = 15


def times_ms(program: Screened, causes: list[Callable[[], object]], rest_s: float) -> list[float]:
    """Milliseconds from each cause to the first byte that follows it."""
    found = []
    for cause in causes:
        program.read_for(rest_s)
        size, start_s = len(program.output), time.perf_counter()
        cause()
        while len(program.output) == size and time.perf_counter() - start_s < 3.0:
            program.read(0.5)
        found.append((time.perf_counter() - start_s) * 1e3)
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        shutil.copyfile(made.made_file(300, 2000), path)
        rows = list(made.lines(300, ROUNDS, first_step=2001))
        with Screened((*RLTOP, str(path))) as program, path.open("ab", buffering=0) as file:
            program.read_for(5.0)

            def press(keys: str) -> list[Callable[[], object]]:
                return [lambda key=key: program.press(key.encode()) for key in keys]  # type: ignore[misc]

            appended = times_ms(program, [lambda row=row: file.write(row) for row in rows], 0.6)  # type: ignore[misc]
            moved = times_ms(program, press("jk" * 8), 0.15)
            travelled = times_ms(program, press("," * 8), 0.3)
            program.press(b"L")
            opened = times_ms(program, press("\r\x1b" * 8), 0.6)[::2]
            paged = times_ms(program, press("t\x1b" * 6), 0.6)[::2]
    print("| from | to | median ms | worst ms | bound for the median |\n|---|---|---|---|---|")
    for name, to, found, bound in (
        ("a line appended", "its first change on the screen", appended, 60),
        ("a key that moves the selection", "the screen", moved, 20),
        ("a key that moves the time cursor", "the screen", travelled, 20),
        ("Enter on a metric", "its page begins to show", opened, 120),
        ("the key of the timing page", "the page begins to show", paged, 120),
    ):
        print(f"| {name} | {to} | {median(found):.0f} | {max(found):.0f} | {bound} |")


if __name__ == "__main__":
    main()
