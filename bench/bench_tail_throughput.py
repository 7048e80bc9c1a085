"""What does following a file cost, against bare reads of the same bytes?

Data: the cached veRL-shaped file, repeated up to 100 MB, in the page cache. The
base, 1.00, is `os.pread` of 1 MiB until the end, in the same process and the same
round.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from made import made_file

from rltop.sources.events import Chunk, TailOptions
from rltop.sources.reader import Reader, ReaderOptions
from rltop.sources.tail import Tail

ROUNDS = 7
SIZE = 100_000_000
READ = 1024 * 1024


def bare(path: str) -> int:
    handle = os.open(path, os.O_RDONLY)
    done = 0
    while data := os.pread(handle, READ, done):
        done += len(data)
    os.close(handle)
    return done


def tail(path: str, read_bytes: int = READ, *, is_network: bool = False) -> int:
    source = Tail(path, options=TailOptions(is_network=is_network))
    done = 0
    while events := source.poll(read_bytes):
        done += sum(len(event.data) for event in events if isinstance(event, Chunk))
    source.close()
    return done


def threaded(path: str) -> int:
    reader = Reader(ReaderOptions(use_watcher=False))
    feed = reader.follow(path)
    done = 0
    while not feed.is_exhausted:
        events = feed.take(READ)
        done += sum(len(event.data) for event in events if isinstance(event, Chunk))
        if not events:
            time.sleep(0.0002)
    reader.close()
    return done


WORK: dict[str, Callable[[str], int]] = {
    "`os.pread`, 1 MiB each": bare,
    "`Tail.poll`, local, 1 MiB a poll": tail,
    "`Tail.poll`, local, 64 KiB a poll": lambda path: tail(path, 64 * 1024),
    "`Tail.poll`, network rules, 1 MiB a poll": lambda path: tail(path, is_network=True),
    "`Reader` thread and queue, 1 MiB a take": threaded,
}


def idle_us(path: str) -> float:
    source = Tail(path)
    while source.poll():
        pass
    start = time.process_time()
    for _ in range(2000):
        source.poll()
    source.close()
    return (time.process_time() - start) / 2000 * 1e6


def main() -> None:
    piece = (Path(sys.argv[1]) if len(sys.argv) > 1 else made_file()).read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "metrics.jsonl")
        Path(path).write_bytes((piece * (SIZE // len(piece) + 1))[:SIZE])
        times: dict[str, list[float]] = {name: [] for name in WORK}
        for _ in range(ROUNDS):
            for name, work in WORK.items():
                start = time.perf_counter()
                assert work(path) == SIZE, name
                times[name].append(time.perf_counter() - start)
        base = times["`os.pread`, 1 MiB each"]
        print(f"one idle poll of a local file: {idle_us(path):.1f} µs", file=sys.stderr)
    print("| what, 100 MB | median ms | min ms | x bare read (median of rounds) |")
    print("|---|---|---|---|")
    for name, measured in times.items():
        ratio = statistics.median(a / b for a, b in zip(measured, base, strict=True))
        print(f"| {name} | {statistics.median(measured) * 1e3:.1f} | {min(measured) * 1e3:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
