"""What a file is, by its first bytes."""

from __future__ import annotations

import itertools
import struct

import pytest
from tables import each_row

from rltop.formats.decoder import DecoderOptions
from rltop.formats.kinds import (
    BINARY,
    CONSOLE,
    CSV,
    JSONL,
    TENSORBOARD,
    WANDB,
    WHOLE_JSON,
    AutoDecoder,
    bare_name,
    is_noise,
    kind_of,
)

EVENT = struct.pack("<QI", 24, 0) + b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2" + bytes(20)

HEADS = [
    (b'{"step": 1, "loss": 2.0}\n', "m.jsonl", JSONL),
    (b'\xef\xbb\xbf{"step": 1}\n', "m.jsonl", JSONL),
    (b'\0\0\0\0{"step": 1}\n', "m.jsonl", JSONL),
    (b'{"log_history": []}', "trainer_state.json", WHOLE_JSON),
    (b'{\n  "best_metric": null,\n', "state.json", WHOLE_JSON),
    (b'[{"step": 1}]', "steps.json", WHOLE_JSON),
    (EVENT, "run.bin", TENSORBOARD),
    (bytes(40), "events.out.tfevents.1.host", TENSORBOARD),
    (b":W&B\xe1\xbe\x00rest of the block", "run-x.wandb", WANDB),
    (b"step,loss,reward\n1,2,3\n", "table.txt", CSV),
    (b'"time/iterations","loss"\n1,2\n', "progress.csv", CSV),
    (b"Epoch\tAverageEpRet\tEpLen\n1\t10.5\t200\n", "progress.txt", CSV),
    (b"a b\t1\n1\t2\n", "table.tsv", CSV),
    (b"Driver\tVersion 1\n", "train.log", CONSOLE),
    (b'{"history": {"loss": [1, 0.5, 0.25, 0.2], "acc": [0, 0.1]}}', "history.json", WHOLE_JSON),
    (b"(TaskRunner pid=1) step:1 - actor/loss:0.5 - a:1\n", "slurm-1.out", CONSOLE),
    (b"Since 2.7.13, only severe bugs are fixed on the branch.\n", "NEWS.txt", CONSOLE),
    (b"Step,my first run - loss\n1,2\n", "-", CSV),
    (b"INFO starting, with commas, in a sentence: yes\n", "train.log", CONSOLE),
    (b"{'loss': 0.5, 'epoch': 0.1}\n", "train.log", CONSOLE),
    (b"{'loss': 0.5}\n", "m.jsonl", JSONL),
    (b"", "nothing.log", CONSOLE),
    (b'[1,2,3]\n{"step": 1, "loss": 2.0}\n', "m.jsonl", JSONL),
    (b'[1,2,3]\n{"step": 1, "loss": 2.0}\n', "-", JSONL),
    (b'[{"note": 1}]\n{"step": 1, "loss": 2.0}\n', "m.jsonl", JSONL),
    (b'[{"step": 1},\n{"step": 2}]\n', "m.jsonl", WHOLE_JSON),
    (b'{"reward": [0.1, 0.2, 0.3, 1e-1], "val": [0.1]}', "history.json", WHOLE_JSON),
    (b'{"log_history": [{"step": 1, "loss": 0.5}]}\n', "history.json", WHOLE_JSON),
    (b'{"rewards": [0.1, 0.2, 0.3, 0.4], "step": 1}\n{"step": 2}\n', "result.json", JSONL),
    (b'{"step": 1, "loss": 0.5}\n', "result.json", JSONL),
    (b'[{"step": 1}, {"step": 2}]\n', "m.jsonl", WHOLE_JSON),
    (b'[\n  {"step": 1}\n]', "steps.json", WHOLE_JSON),
    (b'[1, 2, 3\n{"step": 1, "loss": 2.0}\n', "m.jsonl", JSONL),
    (b'ss": 0.5}\n{"step": 1, "loss": 2.0}\n', "m.jsonl.1", JSONL),
    (b'null\n{"step": 1, "loss": 2.0}\n', "m.ndjson", JSONL),
    (b"[2026-01-05 12:00:01,123] [INFO] [launch.py:1:main] starting\nstep:1 - a/b:0.5\n", "train.log", CONSOLE),
    (b"[INFO] starting\n", "slurm-1.out", CONSOLE),
    (b"[rank0]: Traceback (most recent call last):\n", "slurm-1.out", CONSOLE),
    (b"[1/4] installing\n", "slurm-1.out", CONSOLE),
]
IDS = [f"{kind.name}{i}" for i, (_, _, kind) in enumerate(HEADS)]


@each_row(("head", "name", "kind"), HEADS, ids=[kind.name + str(i) for i, (_, _, kind) in enumerate(HEADS)])
def test_the_first_bytes_tell(head, name, kind):
    assert kind_of(head, name, is_all=True) is kind


@each_row(("head", "name", "kind"), HEADS, ids=[kind.name + str(i) for i, (_, _, kind) in enumerate(HEADS)])
def test_fewer_bytes_say_the_same_or_nothing(head, name, kind):
    for size in range(len(head) + 1):
        assert kind_of(head[:size], name) in (None, kind)


@each_row(
    ("name", "bare"),
    [
        ("x.jsonl", "x.jsonl"),
        ("x.jsonl.1", "x.jsonl"),
        ("x.jsonl.12.gz", "x.jsonl"),
        ("x.jsonl.zst", "x.jsonl"),
        ("slurm-123.out", "slurm-123.out"),
        ("v0.2", "v0.2"),
        ("events.out.tfevents.1.host.2.0", "events.out.tfevents.1.host"),
    ],
)
def test_rotation_and_compression_do_not_change_a_name(name, bare):
    assert bare_name(name) == bare


@each_row("first", [b"[1,2,3]", b"[]", b'["a"]', b"[[1]]", b'[{"a": 1}]', b'"x"', b"torn}"])
def test_rows_behind_a_first_line_that_is_no_row_are_read(first):
    data = first + b'\n{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n'
    for cuts in ([], range(1, len(data))):
        decoder = AutoDecoder("m.jsonl", DecoderOptions())
        records = [
            record
            for start, stop in itertools.pairwise([0, *cuts, len(data)])
            for record in decoder.feed(data[start:stop], start, 0)
        ]
        assert [record.step for record in records] == [1, 2]
        assert decoder.counts.bad_lines == 1


NOISE = bytes(range(256)) * 20
"""All bytes alike, as in what is encrypted, compressed or a program."""


@pytest.mark.parametrize(
    ("head", "is_none"),
    [
        (NOISE, True),
        (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\0>\0\x01\0\0\0\n" + NOISE, True),
        (b"\x89PNG\r\n\x1a\n" + NOISE, True),
        (b"step:1 - loss:0.5\n" * 4, False),
        (bytes(2048) + b"step:1 - loss:0.5\n" * 4, False),
        ("训练开始\n".encode("gbk") + b"step:1 - loss:0.5\n" * 4, False),
        (b"caf\xe9\nstep:1 - loss:0.5\n", False),
        (b"\x1b[1mstarting\x1b[0m\a\b\b\nstep:1 - loss:0.5\n", False),
        (b"one \x01 odd character in a log\n" + b"step:1 - loss:0.5\n" * 8, False),
    ],
)
def test_what_is_no_text_is_no_console_log(head, is_none):
    assert is_noise(head) is is_none
    for name in ("train.log", "-"):
        decoder = AutoDecoder(name, DecoderOptions())
        records = decoder.feed(head, 0, 0) + decoder.finish()
        assert (not records, decoder.stopped == BINARY) == (is_none, is_none)
        pieces = AutoDecoder(name, DecoderOptions())
        slow = [one for at in range(0, len(head), 7) for one in pieces.feed(head[at : at + 7], at, 0)]
        slow += pieces.finish()
        assert (len(slow), pieces.stopped) == (len(records), decoder.stopped)
