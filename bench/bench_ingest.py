"""What does reading a whole history cost, against a bare parse of the same lines?

    python bench/bench_ingest.py [--rounds 5] [--long 100000]

Data: 300 keys a row, veRL envelope, 13 KB a line. The base, 1.00, is `orjson.loads`
per line in the same process and the same round. The short run is read as a whole,
several times; of the long one, which no memory should hold, every block of 5,000 rows
is parsed, stored and judged in turn, and a block is a round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import islice

import orjson
from bounds import stands
from made import made_file, repeated_lines

from rltop.formats.jsonl import JsonlDecoder
from rltop.rules.options import EngineOptions
from rltop.run.pipeline import Pipeline
from rltop.run.rule_runner import RuleRunner
from rltop.store.series import StoreOptions
from rltop.store.stream import Stream

PIECE = 64 * 1024
BLOCK_ROWS = 5000

Work = Callable[[bytes], object]


def cpu_s(work: Work, data: bytes) -> float:
    start = time.process_time()
    work(data)
    return time.process_time() - start


def parse(data: bytes) -> None:
    for line in data.split(b"\n"):
        if line:
            orjson.loads(line)


def decode(data: bytes) -> None:
    decoder = JsonlDecoder()
    for start in range(0, len(data), PIECE):
        decoder.feed(data[start : start + PIECE], start, 0)


class Storing:
    """Decodes and stores block by block."""

    def __init__(self, options: StoreOptions | None = None) -> None:
        self._decoder, self._stream, self._offset = JsonlDecoder(), Stream("", options), 0

    def __call__(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE):
            for record in self._decoder.feed(data[start : start + PIECE], self._offset + start, 0):
                self._stream.append(record)
                self._stream.closed.clear()
        self._offset += len(data)


class Judging:
    """Decodes, stores and judges by every rule, block by block."""

    def __init__(self) -> None:
        self._pipeline, self._offset = Pipeline(JsonlDecoder(), Stream(), RuleRunner(EngineOptions())), 0

    def __call__(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE):
            self._pipeline.take_bytes(data[start : start + PIECE], self._offset + start, 0)
        self._offset += len(data)


SHORT: dict[str, tuple[Callable[[], Work], float | None]] = {
    "`orjson.loads` per line": (lambda: parse, None),
    "decode": (lambda: decode, None),
    "decode + store, all rows raw": (Storing, 2.0),
    "decode + store, 9 rows in 10 downsampled": (lambda: Storing(StoreOptions(memory_bytes=2 * 1024 * 1024)), None),
    "decode + store + every rule": (Judging, None),
}
LONG: dict[str, tuple[Callable[[], Work], float | None]] = {
    "`orjson.loads` per line": (lambda: parse, None),
    "decode + store, what the ring drops downsampled": (Storing, 3.0),
    "decode + store + every rule": (Judging, None),
}
"""What is measured, its function, and its bound in times of the bare parse."""


def show(rows: int, times: dict[str, list[float]], bounds: dict[str, float | None], rows_a_round: int) -> None:
    base = next(iter(times.values()))
    for name, found in times.items():
        ratios = sorted(each / b for each, b in zip(found, base, strict=True))
        middle, bound = statistics.median(ratios), bounds[name]
        print(
            f"| {name} | {rows:,} | {middle:.2f} | {'' if bound is None else f'{bound:.1f}'} | {stands(middle, bound)} "
            f"| {ratios[0]:.2f} | {ratios[-1]:.2f} | {statistics.median(found) / rows_a_round * 1e6:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long", type=int, default=100_000, metavar="STEPS")
    arguments = parser.parse_args()
    print("| work | rows | × parse, median | bound | | least | most | µs per row, median |")
    print("|---|---|---|---|---|---|---|---|")

    data = made_file().read_bytes()
    times: dict[str, list[float]] = {name: [] for name in SHORT}
    for _ in range(arguments.rounds):
        for name, (begin, _bound) in SHORT.items():
            times[name].append(cpu_s(begin(), data))
    lines = data.count(b"\n")
    show(lines, times, {name: bound for name, (_, bound) in SHORT.items()}, lines)
    del data

    works = {name: begin() for name, (begin, _) in LONG.items()}
    times = {name: [] for name in LONG}
    rows, done = repeated_lines(300, arguments.long), 0
    while block := b"".join(islice(rows, BLOCK_ROWS)):
        for name, work in works.items():
            times[name].append(cpu_s(work, block))
        done += block.count(b"\n")
    show(done, times, {name: bound for name, (_, bound) in LONG.items()}, BLOCK_ROWS)


if __name__ == "__main__":
    main()
