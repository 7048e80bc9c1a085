"""Several runs in one console log, one mark in front of the lines of each."""

from __future__ import annotations

import io

import pytest

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.errors import SourceError
from rltop.formats.console.writers import writers_in
from rltop.run.discover import discover

STEPS = 30


def sweep(*marks, steps=STEPS):
    lines = ["launching", "(setup, pid=1) installing loss: none"]
    for step in range(1, steps + 1):
        lines += [
            f"({mark}) step {step}/{STEPS} | loss: 0.5 | reward: {at + step / 64}" for at, mark in enumerate(marks)
        ]
    return "".join(f"{line}\n" for line in lines)


def test_each_mark_is_a_run_of_its_own(tmp_path):
    log = tmp_path / "sweep.log"
    log.write_text(sweep(*(f"lr-{at}, pid={2710 + at}" for at in range(16))) + "(lr-3, pid=2713) ValueError: nan\n")
    for path in (log, tmp_path):
        found = discover([str(path)])
        assert sorted(each.name.raw for each in found.found) == sorted(f"lr-{at}" for at in range(16))
        assert found.may_grow
    for at in (3, 15):
        (run,) = read_whole(f"{log}::lr-{at}", Config(), FakeClock()).runs
        assert run.stream.last_step == STEPS
        assert run.stream.value("reward", 8) == at + 8 / 64
        assert run.counts.crossed_rows == run.counts.repeated_rows == 0
        assert bool(run.main.failure.raw) == (at == 3)


def test_a_run_that_is_not_in_the_log_is_named_with_those_that_are(tmp_path):
    log = tmp_path / "sweep.log"
    log.write_text(sweep("a, pid=1", "b, pid=2"))
    with pytest.raises(SourceError, match="no run c"):
        discover([f"{log}::c"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (sweep("a, pid=1", "b, pid=2, ip=10.0.0.7"), ("a", "b")),
        (sweep("a, pid=1"), ()),
        (sweep("a, pid=1") + sweep("a, pid=2"), ()),
        (sweep("a, pid=1", "a, pid=2"), ("a, pid=1", "a, pid=2")),
        (sweep("head, rank=0, pid=1", "worker1, rank=1, pid=2"), ()),
        (sweep("WorkerDict pid=1", "WorkerDict pid=2"), ()),
        (sweep("a, pid=1") + "(b, pid=2) downloading\n", ()),
        ("", ()),
    ],
    ids=range(8),
)
def test_what_makes_several_runs(text, expected):
    assert tuple(writers_in(io.BytesIO(text.encode()))) == expected


def test_marks_are_found_however_large_the_log_is():
    filler = "(a, pid=1) " + "x" * 4000 + "\n"
    text = sweep("a, pid=1") + filler * 600 + sweep("b, pid=2")
    assert tuple(writers_in(io.BytesIO(text.encode()))) == ("a", "b")
