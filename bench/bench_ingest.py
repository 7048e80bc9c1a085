"""What does reading a whole history cost, against a bare parse of the same lines?

Data: 300 keys a row, veRL envelope, 14 KB a line. The base, 1.00, is `orjson.loads`
per line in the same process and the same round.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson
from made import made_file

from rltop.decode.jsonl import JsonlDecoder
from rltop.health.options import EngineOptions
from rltop.ingest.judge import Judge
from rltop.ingest.pipeline import Pipeline
from rltop.store.series import StoreOptions
from rltop.store.stream import Stream

ROUNDS = 5
PIECE = 64 * 1024


def cpu_s(work: Callable[[bytes], object], data: bytes) -> float:
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


def store(data: bytes, options: StoreOptions | None = None) -> None:
    decoder, stream = JsonlDecoder(), Stream("", options)
    for start in range(0, len(data), PIECE):
        for record in decoder.feed(data[start : start + PIECE], start, 0):
            stream.append(record)
            stream.closed.clear()


def store_folded(data: bytes) -> None:
    store(data, StoreOptions(memory_bytes=2 * 1024 * 1024))


def judged(data: bytes) -> None:
    pipeline = Pipeline(JsonlDecoder(), Stream(), Judge(EngineOptions()))
    for start in range(0, len(data), PIECE):
        pipeline.take_bytes(data[start : start + PIECE], start, 0)
    pipeline.finish()


WORK = {
    "`orjson.loads` per line": parse,
    "decode": decode,
    "decode + store, all rows raw": store,
    "decode + store, 9 rows in 10 folded": store_folded,
    "decode + store + every rule": judged,
}


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else made_file()
    data = path.read_bytes()
    times: dict[str, list[float]] = {name: [] for name in WORK}
    for _ in range(ROUNDS):
        for name, work in WORK.items():
            times[name].append(cpu_s(work, data))
    base = times["`orjson.loads` per line"]
    lines = data.count(b"\n")
    print(f"| work on {lines:,} rows, {len(data) / 1e6:.0f} MB | × parse, median | least | most | µs per row, median |")
    print("|---|---|---|---|---|")
    for name, found in times.items():
        ratios = sorted(each / b for each, b in zip(found, base, strict=True))
        print(
            f"| {name} | {statistics.median(ratios):.2f} | {ratios[0]:.2f} | {ratios[-1]:.2f} "
            f"| {statistics.median(found) / lines * 1e6:.0f} |"
        )


if __name__ == "__main__":
    main()
