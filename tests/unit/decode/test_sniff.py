"""What a file is, by how it begins."""

from __future__ import annotations

import bz2
import gzip

import pytest
from binary_files import block_log, frame, history, scalar_events, version_event

from rltop.decode.sniff import kind_of


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        (frame(version_event()), "anything", "tfevents"),
        (scalar_events((1, "a", 1.0)), "", "tfevents"),
        (frame(version_event())[:5], "events.out.tfevents.1.host.2.0", "tfevents"),
        (bytes(64), "events.out.tfevents.1.host", "tfevents"),
        (b"", "events.out.tfevents.1.host", "tfevents"),
        (bytes(64), "x", "empty"),
        (block_log(history({"a": 1})), "x", "wandb"),
        (b"", "run-abc.wandb", "wandb"),
        (gzip.compress(b"{}"), "m.jsonl.gz", "gzip"),
        (bz2.compress(b"{}"), "m.jsonl.bz2", "bzip2"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "m.zst", "zstd"),
        (b"PK\x03\x04rest", "tail.zip", "zip"),
        (b"PAR1rest", "x.parquet", "parquet"),
        (b'{"step": 1, "a": 2}\n{"step"', "m", "jsonl"),
        (b'{"step": 1, "a": NaN}\n', "m.log", "jsonl"),
        (b'\xef\xbb\xbf{"step": 1}\n', "m", "jsonl"),
        (b'{"step": 1, "half', "m.jsonl", "jsonl"),
        (b'{\n  "log_history": [', "trainer_state.json", "json"),
        (b'{"epoch": 1, "log_history": [', "trainer_state.json", "json"),
        (b'[{"a": 1}, ', "step_logs.json", "json"),
        (b"[2026-01-01 12:00:00] starting\n", "train.log", "text"),
        (b"{'loss': 1.0, 'epoch': 0.1}\n{'loss'", "train.log", "text"),
        (b"\x1b[36m(TaskRunner pid=1)\x1b[0m step:1 - a:2\n", "slurm-1.out", "text"),
        (b"step,loss\n1,2\n", "progress.csv", "csv"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00", "a.out", "binary"),
        (b"", "m.jsonl", "empty"),
    ],
)
def test_the_kind_of_a_file(head, name, kind):
    assert kind_of(head, name) == kind
