"""A `.swanlab` file: what SwanLab wrote is what is read, however it is cut."""

from __future__ import annotations

import json
import math
import struct
import zlib
from pathlib import Path

from tables import each_row

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.formats.protobuf import encode_varint
from rltop.formats.wandb import SWANLAB_MAGIC as MAGIC
from rltop.formats.wandb import SwanLabDecoder
from rltop.run.discover import discover

FIXTURES = Path(__file__).parents[3] / "fixtures" / "trackers"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())["swanlab"]


@each_row("name", EXPECTED)
def test_every_number_that_was_logged_is_there(name: str) -> None:
    (found,) = discover([str(FIXTURES / f"{name}.swanlab")]).found
    assert found.name.raw == name
    run = read_whole(found, Config(), FakeClock()).runs[0]
    told = EXPECTED[name]
    assert list(run.main.stream.steps()) == [step for step, _ in told]
    for step, row in told:
        for key, value in row.items():
            number = float(value)
            seen = run.main.stream.value(key, step)
            assert seen == number if math.isfinite(number) else seen is None, (step, key)
    assert run.counts.nonfinite_values == 2
    assert run.counts.bad_lines == 0


def test_how_a_run_ended_is_known() -> None:
    ends = {}
    for name in EXPECTED:
        decoder = SwanLabDecoder()
        decoder.feed((FIXTURES / f"{name}.swanlab").read_bytes(), 0, 0)
        assert decoder.is_finished
        ends[name] = decoder.failure
    assert ends == {"finished": "", "crashed": "RuntimeError: out of memory"}


def test_a_row_is_held_until_its_step_is_over_or_nothing_comes() -> None:
    data = (FIXTURES / "finished.swanlab").read_bytes()
    whole, pieces = SwanLabDecoder(), SwanLabDecoder()
    records = [*whole.feed(data, 0, 0), *whole.finish()]
    cut = [record for at in range(len(data)) for record in pieces.feed(data[at : at + 1], at, 0)] + pieces.finish()
    assert [(each.step, each.schema.keys, bytes(each.values)) for each in records] == [
        (each.step, each.schema.keys, bytes(each.values)) for each in cut
    ]
    assert pieces.framer.held_bytes == pieces.framer.bad_bytes == 0


def field(number: int, value: bytes | int | float) -> bytes:
    if isinstance(value, float):
        return encode_varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return encode_varint(number << 3) + encode_varint(value)
    return encode_varint(number << 3 | 2) + encode_varint(len(value)) + value


def file_of(*payloads: bytes) -> bytes:
    chunks = (struct.pack("<IHB", zlib.crc32(b"\1" + each), len(each), 1) + each for each in payloads)
    return MAGIC + b"".join(chunks)


def scalar(key: str, step: int, value: float) -> bytes:
    number = field(1, value) if value else b""
    at = field(2, step) if step else b""
    return field(13, field(1, key.encode()) + at + field(5, number))


def test_samples_of_the_machine_are_means_of_the_row_that_follows() -> None:
    column = field(12, field(1, 2) + field(3, b"__swanlab__.gpu.0.pct"))
    samples = [scalar("__swanlab__.gpu.0.pct", i, 50.0 + 10 * i) for i in range(3)]
    decoder = SwanLabDecoder()
    data = file_of(scalar("loss", 0, 1.0), column, *samples, scalar("loss", 1, 0.0))
    first, second = [*decoder.feed(data, 0, 0), *decoder.finish()]
    assert (first.step, first.schema.keys) == (0, ("loss",))
    assert (second.step, second.schema.keys) == (1, ("system/__swanlab__.gpu.0.pct", "loss"))
    assert list(second.values) == [60.0, 0.0]


def test_another_version_says_so() -> None:
    decoder = SwanLabDecoder()
    assert not decoder.feed(b":SWL\xd6\xe1\x09" + bytes(100), 0, 0)
    assert decoder.stopped
