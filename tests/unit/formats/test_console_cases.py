"""The console logs that ship with the program, and recorded ones."""

from __future__ import annotations

import json
import pprint
import textwrap
import tomllib
from pathlib import Path

import pytest
from recorded import REASON, runs_root
from stores import cells_of, read_in_pieces
from tables import each_row

from rltop.formats.console.decoder import ConsoleDecoder
from rltop.formats.decoder import DecoderOptions
from rltop.formats.kinds import CONSOLE, AutoDecoder

FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "console"
CASES = tomllib.loads((FOLDER / "case.toml").read_text())["case"]


def decode(data, decoder=None, size=65536):
    decoder = decoder or ConsoleDecoder()
    return read_in_pieces(decoder, data, size), decoder


def test_every_log_has_a_case():
    assert {path.name for path in FOLDER.glob("*.log")} == {case["file"] for case in CASES}


@each_row("case", CASES, ids=[case["file"] for case in CASES])
def test_a_case_is_read_as_it_says(case):
    records, decoder = decode((FOLDER / case["file"]).read_bytes())
    assert [record.step for record in records] == case["steps"]
    assert len({key for record in records for key in record.schema.keys}) == case["keys"]
    assert decoder.counts.rows == len(case["steps"])
    assert decoder.counts.bad_lines == case["bad_lines"]
    if records:
        assert records[-1].total_steps == case.get("total_steps")
    error = decoder.last_error
    assert (error and (error.line, error.text.raw)) == (
        ("error" in case and (case["error_line"], case["error"])) or None
    )


def test_an_output_in_blocks_holds_what_a_flushed_one_holds():
    flushed, blocks = (
        cells_of(decode((FOLDER / name).read_bytes())[0]) for name in ("trl_flushed.log", "trl_blocks.log")
    )
    assert flushed == blocks


def test_a_recorded_crash_before_the_first_step():
    root = runs_root()
    if root is None:
        pytest.skip(REASON)
    (path,) = (root / "public" / "verl-console" / "crashed-before-step-1").glob("*.log")
    records, decoder = decode(path.read_bytes())
    assert records == []
    assert decoder.counts.bad_lines == 0
    error = decoder.last_error
    assert error.is_exception
    assert error.text.raw.startswith("RuntimeError: XLA:TPU compile permanent error. Ran out of memory")
    assert path.read_bytes().split(b"\n")[error.line - 1].decode().strip().endswith(error.text.raw[-40:])


@pytest.mark.parametrize(
    "stamp",
    [
        b"2026-11-23T17:30:0%d.576283569Z ",
        b"Nov  3 19:00:0%d node3 train[123]: ",
        b"Nov 13 19:00:0%d.576283 node3 train@a.service[123]: ",
        b"2026-11-23T17:30:0%d+0100 node3 train[123]: ",
        b"[1,%d]<stdout>:",
        b"[prterun-node3-4242@1,%d]<stdout>:",
        b"2026-11-23T17:30:0%d.576283569Z stdout F ",
    ],
)
@each_row("case", CASES, ids=[case["file"] for case in CASES])
def test_what_a_container_the_journal_or_mpirun_puts_before_each_line_changes_nothing(case, stamp):
    data = (FOLDER / case["file"]).read_bytes()
    stamped = b"".join(stamp % (number % 9) + line for number, line in enumerate(data.splitlines(keepends=True)))
    (records, decoder), (again, other) = decode(data), decode(stamped)
    assert cells_of(again) == cells_of(records)
    assert other.failure == decoder.failure


def _rows_over_several_lines():
    rows = [{"loss": 0.5 / step, "grad_norm": 1.25 * step, "completions/mean_length": 100.0 + step, "step": step}
            for step in (1, 2, 3)]  # fmt: skip
    wide = [f"step:{row['step']} - " + " - ".join(f"{key}:{value:.4f}" for key, value in row.items()) for row in rows]
    tensors = [f"{{'loss': tensor([[0.5, 0.25],\n        [0.125, 0.5]], device='cuda:0'), 'step': {row['step']}}}"
               for row in rows]  # fmt: skip
    trees = [f"Step {row['step']}\nactor:\n  loss: {row['loss']}\n  kl: 0.1\n  entropy: 0.5\n" for row in rows]
    return {
        "pprint": [pprint.pformat(row) for row in rows],
        "JSON": [json.dumps({"step": row["step"], "metrics": row}, indent=2) for row in rows],
        "JSON behind a clock": [f"[10:00:01] INFO - {json.dumps(row, indent=4)}" for row in rows],
        "a dictionary cut at a width": ["\n".join(textwrap.wrap(str(row), 40)) for row in rows],
        "pairs cut at a width": ["\n".join(textwrap.wrap(row, 64)) for row in wide],
        "tensors": tensors,
        "trees": trees,
    }


@pytest.mark.parametrize(
    "front",
    [
        "2026-11-23T17:30:0%d.576283569Z ",
        "2026-11-23T17:30:0%d.576283569Z stdout F ",
        "Nov 13 19:00:0%d.576283 node3 train@a.service[123]: ",
        "[1,%d]<stdout>:",
        "(Worker pid=12%.0s) ",
        "\x1b[36m(Worker pid=12%.0s)\x1b[0m ",
        "2026-11-23T17:30:0%d.576283569Z (Worker pid=12) ",
        "[rank0%.0s]: ",
        "[pod/trainer-0/main%.0s] ",
        "trainer-1%.0s  | ",
        "[0%.0s] ",
    ],
)
@each_row("form", _rows_over_several_lines())
def test_a_row_of_several_lines_is_read_behind_what_stands_before_each(form, front):
    text = "noise\n".join(f"{each}\n" for each in _rows_over_several_lines()[form])
    fronted = "".join(front % (number % 9) + line for number, line in enumerate(text.splitlines(keepends=True)))
    records, decoder = decode(text.encode())
    assert [record.step for record in records] == [1, 2, 3]
    for size in (1, 50, 65536):
        again, other = decode(fronted.encode(), size=size)
        assert cells_of(again) == cells_of(records)
        assert (other.counts.lines, other.counts.bad_lines) == (decoder.counts.lines, 0)
        rows = fronted.encode().split(b"\n")
        begins = {sum(len(row) + 1 for row in rows[:at]) for at in range(len(rows))}
        assert {record.position.offset for record in again} <= begins


@each_row("size", [1, 50, 65536])
def test_lines_of_other_processes_between_those_of_a_row_are_read_too(size):
    text = (
        "(Worker pid=12) {'loss': 0.5,\n(Reader pid=9) step:1 - reward:0.25 - reward/max:1.0\n"
        "(Worker pid=12)  'grad_norm': 1.5,\n(Reader pid=9) step:2 - reward:0.5 - reward/max:1.0\n"
        "(Worker pid=12)  'step': 2}\n(Worker pid=12) {'config': {\n(Reader pid=9) step:3 - reward:0.5 - kl:0.5\n"
    )
    records, decoder = decode(text.encode(), size=size)
    assert [record.step for record in records] == [2, 1, 2, 3]
    assert decoder.counts.lines == 7


@each_row("size", [1, 50, 65536])
def test_what_containerd_has_parted_is_one_line(size):
    front = "2026-11-23T17:30:00.576283569Z stdout %s "
    text = "".join(
        f"{front % 'F'}{'x' * 60}\n{front % 'P'}step:{step} - loss:0.5 - rew\n{front % 'P'}ard:0.25 - kl:0.\n"
        f"{front % 'F'}125\n" for step in (1, 2)
    )  # fmt: skip
    records, decoder = decode(text.encode(), size=size)
    assert cells_of(records) == cells_of(
        decode(b"step:1 - loss:0.5 - reward:0.25 - kl:0.125\nstep:2 - loss:0.5 - reward:0.25 - kl:0.125\n")[0]
    )
    assert decoder.counts.lines == 8


def of_docker(data: bytes) -> bytes:
    """A log as Docker's `json-file` keeps it: 16 KiB at a time, `<`, `>` and `&` escaped (moby, jsonlog)."""
    kept = []
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n")[:-1]):
        for at in range(0, max(1, len(line)), 16_384):
            piece = line[at : at + 16_384]
            text = json.dumps(piece + "\n" * (at + len(piece) == len(line)), ensure_ascii=False)
            for sign in "<>&":
                text = text.replace(sign, f"\\u{ord(sign):04x}")
            stream, time = (
                ("stdout", "stderr")[number % 3 == 2],
                f"2026-11-28T06:{number // 60 % 60:02}:{number % 60:02}.5Z",
            )
            kept.append(f'{{"log":{text},"stream":"{stream}","time":"{time}"}}\n')
    return "".join(kept).encode()


@pytest.mark.parametrize("size", [977, 1 << 20])
@each_row("case", CASES, ids=[case["file"] for case in CASES])
def test_a_log_that_docker_keeps_is_the_log(case, size):
    data = (FOLDER / case["file"]).read_bytes()
    kept = of_docker(data if data.endswith(b"\n") else data + b"\n")
    plain, plain_decoder = decode(data)
    decoder = AutoDecoder("0f3a-json.log", DecoderOptions())
    records, _ = decode(kept, decoder, size)
    assert cells_of(records) == cells_of(plain)
    assert decoder.kind is CONSOLE
    assert decoder.counts.bad_lines == plain_decoder.counts.bad_lines
    assert decoder.failure == plain_decoder.failure
    begins = {0, *(at + 1 for at, byte in enumerate(kept) if byte == 0x0A)}
    assert {record.position.offset for record in records} <= begins or b"\r" in data


def test_rows_with_a_log_of_their_own_are_rows():
    decoder = AutoDecoder("rows.jsonl", DecoderOptions())
    records, _ = decode(b'{"log":"a","stream":"b","step":1,"loss":0.5}\n{"log":"a","step":2,"loss":0.4}\n', decoder)
    assert [record.step for record in records] == [1, 2]
