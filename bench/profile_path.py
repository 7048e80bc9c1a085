"""Where the time of a hot path goes.

    python bench/profile_path.py ingest|judge|first_frame|once|check [FILE] [--rows 25] [--sort tottime|cumulative]

`ingest` decodes and stores, `judge` does so with every rule, `first_frame` is what is
done between the command and the first picture, `once` and `check` are those commands.
Without FILE: the made run of 300 keys × 5,000 steps. The profiler makes every call
dearer: shares are to be compared, not seconds; those are the benchmarks'.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import os
import pstats
import sys
from collections.abc import Callable
from pathlib import Path

from made import made_file

PIECE = 64 * 1024


def ingest(path: Path) -> Callable[[], object]:
    return _reading(path, is_judged=False)


def judge(path: Path) -> Callable[[], object]:
    return _reading(path, is_judged=True)


def _reading(path: Path, *, is_judged: bool) -> Callable[[], object]:
    from rltop.formats.jsonl import JsonlDecoder
    from rltop.rules.options import EngineOptions
    from rltop.run.pipeline import Pipeline
    from rltop.run.rule_runner import RuleRunner
    from rltop.store.stream import Stream

    pipeline = Pipeline(JsonlDecoder(), Stream(), RuleRunner(EngineOptions()) if is_judged else None)
    data = path.read_bytes()

    def work() -> None:
        for start in range(0, len(data), PIECE):
            pipeline.take_bytes(data[start : start + PIECE], start, 0)
        pipeline.finish()

    return work


def command(*arguments: str) -> Callable[[Path], Callable[[], object]]:
    """A command of the program, its imports included; what it prints is not shown."""

    def prepare(path: Path) -> Callable[[], object]:
        def work() -> None:
            from rltop.cli import main

            sys.argv = ["rltop", *arguments, str(path)]
            main()

        return work

    return prepare


def first_frame(path: Path) -> Callable[[], object]:
    """From the imports to the rows of the first picture, at 120×40."""

    def work() -> None:
        from rltop.cli.early import early_rows
        from rltop.clock import SystemClock
        from rltop.config import Config
        from rltop.model import Label
        from rltop.run.found import Found

        early_rows(Found(str(path), Label.of(path.stem)), Config(), SystemClock(), 120, 40)

    return work


PATHS: dict[str, Callable[[Path], Callable[[], object]]] = {
    "ingest": ingest,
    "judge": judge,
    "first_frame": first_frame,
    "once": command("--once"),
    "check": command("check"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", choices=PATHS)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--rows", type=int, default=25)
    parser.add_argument("--sort", default="tottime", choices=("tottime", "cumulative", "ncalls"))
    arguments = parser.parse_args()
    work = PATHS[arguments.path](arguments.file or made_file())
    profile = cProfile.Profile()
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.suppress(SystemExit):
        profile.runcall(work)
    pstats.Stats(profile, stream=sys.stdout).sort_stats(arguments.sort).print_stats(arguments.rows)


if __name__ == "__main__":
    main()
