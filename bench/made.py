"""Files made for load: veRL-shaped, of any size, the same on every machine.

    python bench/made.py OUT.jsonl [--keys 300] [--steps 5000] [--repeated]
    python bench/made.py OUT.wandb|OUT.tfevents|OUT.csv [--keys 300] [--steps 5000]

300 keys make 13 KB a line, with every digit of a value, as trainers write them. Real
key names come first, then per-rank timings up to the number asked for. The values
wander like a run's and mean nothing: such a file measures speed and must never be
used to judge a rule.
"""

from __future__ import annotations

import argparse
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import orjson

from rltop.formats.protobuf import encode_varint
from rltop.formats.tensorboard import masked_crc32c
from rltop.formats.wandb import BLOCK_BYTES, MAGIC

DATA = Path(__file__).resolve().parent / "data"
SEED = 7

BLOCK_ROWS = 256
"""Rows that a repeated stream cycles through: drawing new values takes longer than the program takes to read them."""

_STATISTICS = ("mean", "max", "min")
_FAMILIES = (
    "critic/score", "critic/rewards", "critic/advantages", "critic/returns", "response_length", "prompt_length",
    "num_turns", "timing_s/agent_loop/generate_sequences", "timing_s/agent_loop/tool_calls",
)  # fmt: skip
_SINGLES = (
    "training/global_step", "training/epoch", "actor/pg_loss", "actor/kl_loss", "actor/entropy", "actor/grad_norm",
    "actor/pg_clipfrac", "actor/pg_clipfrac_lower", "actor/ppo_kl", "actor/lr", "response_length/clip_ratio",
    "global_seqlen/min", "global_seqlen/max", "global_seqlen/minmax_diff", "global_seqlen/balanced_min",
    "global_seqlen/balanced_max", "global_seqlen/mean", "timing_s/gen", "timing_s/reward", "timing_s/old_log_prob",
    "timing_s/ref", "timing_s/adv", "timing_s/update_actor", "timing_s/update_weights", "timing_s/step",
    "timing_per_token_ms/gen", "timing_per_token_ms/ref", "timing_per_token_ms/update_actor",
    "perf/total_num_tokens", "perf/time_per_step", "perf/throughput", "perf/mfu/actor",
)  # fmt: skip
_SCORE = "critic/score/mean"
_EVALUATIONS = tuple(f"val-core/set{i}/acc/mean@1" for i in range(6))
_STAGES = ("gen", "reward", "old_log_prob", "ref", "adv", "update_actor", "update_weights")


def key_names(count: int) -> list[str]:
    """`count` distinct keys, real ones first."""
    names = [*_SINGLES, *(f"{family}/{name}" for family in _FAMILIES for name in _STATISTICS)]
    rank = 0
    while len(names) < count:
        names += [f"timing_s/rank{rank:03d}/{name}" for name in ("gen", "ref", "update_actor")]
        rank += 1
    return names[:count]


def lines(keys: int, steps: int, first_step: int = 1, evaluations: int = 0) -> Iterator[bytes]:
    """Every line of such a file, newline included.

    With `evaluations` every n-th row has six more keys, and reward and evaluations rise as in a learning run.
    """
    names = key_names(keys)
    rng = random.Random(SEED)
    levels = [rng.uniform(0.05, 5.0) for _ in names]
    values = list(levels)
    gen = [i for i, name in enumerate(names) if name.removeprefix("timing_s/") in _STAGES]
    total = names.index("timing_s/step") if "timing_s/step" in names else -1
    for step in range(first_step, first_step + steps):
        draw = rng.random
        values = [
            0.9 * value + 0.1 * level + 0.08 * level * (draw() - 0.5)
            for value, level in zip(values, levels, strict=True)
        ]
        shown = list(values)
        if total >= 0:
            shown[total] = sum(shown[i] for i in gen) + 0.4
        row = dict(zip(names, shown, strict=True))
        if evaluations:
            learned = 0.3 + 0.4 * (step - first_step) / steps
            row[_SCORE] = learned + 0.02 * (draw() - 0.5)
            if step % evaluations == 0:
                row |= {key: learned + 0.01 * draw() for key in _EVALUATIONS}
        yield orjson.dumps({"step": step, "data": row}) + b"\n"


def repeated_lines(keys: int, steps: int, first_step: int = 1) -> Iterator[bytes]:
    """The same, but repeating the values of `BLOCK_ROWS` rows; steps keep rising."""
    tails = [line[line.index(b",") :] for line in lines(keys, BLOCK_ROWS)]
    for step in range(first_step, first_step + steps):
        yield b'{"step":%d' % step + tails[step % BLOCK_ROWS]


def write_repeated(path: Path, steps: int, keys: int = 300, first_step: int = 1) -> None:
    """Append `steps` repeated rows to `path`, in constant memory."""
    rows = repeated_lines(keys, steps, first_step)
    with path.open("ab") as file:
        while block := b"".join(islice(rows, BLOCK_ROWS)):
            file.write(block)


def write_as(path: Path, steps: int, keys: int = 300) -> None:
    """Write `steps` repeated rows in the format of the suffix of `path`."""
    if path.suffix == ".jsonl":
        return write_repeated(path, steps, keys)
    rows = [orjson.loads(line)["data"] for line in lines(keys, BLOCK_ROWS)]
    framed = {".wandb": _as_wandb, ".tfevents": _as_events, ".csv": _as_csv}[path.suffix](rows)
    with path.open("wb") as file:
        for step in range(1, steps + 1):
            file.write(framed(step))
    return None


Rows = list[dict[str, float]]


def _as_csv(rows: Rows) -> Callable[[int], bytes]:
    head = ("step," + ",".join(rows[0]) + "\n").encode()
    tails = [("," + ",".join(map(repr, row.values())) + "\n").encode() for row in rows]
    return lambda step: (head if step == 1 else b"") + b"%d" % step + tails[step % BLOCK_ROWS]


def _span(number: int, data: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def _as_events(rows: Rows) -> Callable[[int], bytes]:
    """An event per value, as `add_scalar` writes them; payload checksums are wrong, because they are not verified."""
    summaries = [
        [_span(5, _span(1, _span(1, key.encode()) + b"\x15" + struct.pack("<f", value))) for key, value in row.items()]
        for row in rows
    ]

    def framed(step: int) -> bytes:
        head = b"\x09" + struct.pack("<d", 1.7e9 + 10 * step) + b"\x10" + encode_varint(step)
        events = []
        for summary in summaries[step % BLOCK_ROWS]:
            length = len(head) + len(summary)
            if length not in headers:
                packed = struct.pack("<Q", length)
                headers[length] = packed + struct.pack("<I", masked_crc32c(packed))
            events += (headers[length], head, summary, b"made")
        return b"".join(events)

    headers: dict[int, bytes] = {}
    return framed


def _as_wandb(rows: Rows) -> Callable[[int], bytes]:
    """A history record per row, in blocks, as W&B writes them offline."""
    items = [
        b"".join(_span(1, _span(2, key.encode()) + _span(16, repr(value).encode())) for key, value in row.items())
        for row in rows
    ]
    place = 0

    def framed(step: int) -> bytes:
        nonlocal place
        own = _span(1, _span(2, b"_step") + _span(16, b"%d" % step))
        own += _span(1, _span(2, b"_timestamp") + _span(16, b"%d.5" % (1_700_000_000 + 10 * step)))
        rest = b"\x08" + encode_varint(step) + _span(2, items[step % BLOCK_ROWS] + own)
        out = bytearray() if place else bytearray(MAGIC)
        is_first = True
        while is_first or rest:
            room = BLOCK_BYTES - (place + len(out)) % BLOCK_BYTES
            if room < 7:
                out += bytes(room)
                continue
            part, rest = rest[: room - 7], rest[room - 7 :]
            sealed = bytes(((1 if is_first else 4) if not rest else (2 if is_first else 3),)) + part
            out += struct.pack("<IH", zlib.crc32(sealed), len(part)) + sealed
            is_first = False
        place += len(out)
        return bytes(out)

    return framed


def made_file(keys: int = 300, steps: int = 5000) -> Path:
    """Path of such a file, written on first use."""
    path = DATA / f"metrics_{keys}x{steps}.jsonl"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            file.writelines(lines(keys, steps))
        unfinished.rename(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--keys", type=int, default=300)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument(
        "--repeated", action="store_true", help="the values of 256 rows over and over: large files soon"
    )
    arguments = parser.parse_args()
    if arguments.out.suffix != ".jsonl":
        write_as(arguments.out, arguments.steps, arguments.keys)
        print(f"{arguments.out}: {arguments.out.stat().st_size:,} bytes")
        return
    rows = repeated_lines if arguments.repeated else lines
    with arguments.out.open("wb") as file:
        file.writelines(rows(arguments.keys, arguments.steps))
    print(f"{arguments.out}: {arguments.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
