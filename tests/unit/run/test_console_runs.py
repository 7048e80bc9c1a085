"""Several runs in one console log, one mark in front of the lines of each."""

from __future__ import annotations

import io

import pytest
from tables import each_row

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
        assert run.main.stream.last_step == STEPS
        assert run.main.stream.value("reward", 8) == at + 8 / 64
        assert run.counts.crossed_rows == run.counts.repeated_rows == 0
        assert bool(run.main.failure.raw) == (at == 3)


def test_a_run_that_is_not_in_the_log_is_named_with_those_that_are(tmp_path):
    log = tmp_path / "sweep.log"
    log.write_text(sweep("a, pid=1", "b, pid=2"))
    with pytest.raises(SourceError, match="no run c"):
        discover([f"{log}::c"])


@each_row(
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


def lines(*fronts, apart=1.0, first=0, keys="loss={loss:.4f} reward={reward:.4f}"):
    """Rows of several writers in turn, whose results are so far apart."""
    text = ""
    for step in range(1, STEPS + 1):
        for at, front in enumerate(fronts):
            row = keys.format(loss=(1 + at * apart) / step, reward=step / 64 + at * apart)
            text += f"{front} step {step + first * at} {row}\n"
    return text


@pytest.mark.parametrize(
    ("fronts", "expected"),
    [
        (("[run-a]", "[run-b]"), ("run-a", "run-b")),
        (("\x1b[36m[lr=1e-5]\x1b[0m", "\x1b[36m[lr=1e-6]\x1b[0m"), ("lr=1e-5", "lr=1e-6")),
        (("(PPO pid=1234)", "(PPO pid=1235)"), ("PPO pid=1234", "PPO pid=1235")),
        (("(PPO pid=1234, ip=10.0.0.7)", "(DPO pid=1235)"), ("PPO", "DPO")),
        (("(a, rank=0, pid=2710)", "(b, rank=0, pid=2711)"), ("a", "b")),
        (("(a, rank=0, pid=1)", "(a, rank=0, pid=2)"), ("a, rank=0, pid=1", "a, rank=0, pid=2")),
        (("run0:", "run1:"), ("run0", "run1")),
        (("seed1 |", "seed2 |"), ("seed1", "seed2")),
        (("(a, rank=0, pid=1)", "(a, rank=1, pid=2)"), ()),
        (("(WorkerDict pid=1)", "(WorkerDict pid=2)"), ()),
        (("(TaskRunner pid=1)", "(WorkerDict pid=2)", "(WorkerDict pid=3)"), ()),
        (("[rank0]:", "[rank1]:"), ()),
        (("[default0]:", "[default1]:"), ()),
        (("[train]", "[eval]"), ()),
        (("(train_fn pid=1)", "(train_fn pid=2)"), ("train_fn pid=1", "train_fn pid=2")),
        (("(train_a pid=97)", "(train_b pid=98)"), ("train_a", "train_b")),
        (("(train_0 pid=97)", "(train_1 pid=98)"), ()),
        (("(train_policy pid=97)", "(train_value pid=98)"), ()),
        (("[INFO]", "[WARNING]"), ()),
        (("[run-a]",), ()),
    ],
    ids=range(20),
)
def test_marks_with_steps_of_their_own_are_runs_and_parts_of_one_are_not(tmp_path, fronts, expected):
    log = tmp_path / "train.log"
    log.write_text("starting\n" + lines(*fronts))
    for path in (log, tmp_path):
        found = discover([str(path)]).found
        assert sorted(each.path.partition("::")[2] for each in found) == (sorted(expected) or [""])
    for at, name in enumerate(expected):
        (run,) = read_whole(f"{log}::{name}", Config(), FakeClock()).runs
        assert run.main.stream.last_step == STEPS
        assert run.main.stream.value("reward", 8) == pytest.approx(at + 8 / 64)
        assert run.counts.crossed_rows == run.counts.repeated_rows == 0


def test_marks_that_say_the_same_or_take_turns_or_differ_in_keys_are_of_one_run():
    assert not writers_in(io.BytesIO(lines("train:", "val:").encode()))
    assert not writers_in(io.BytesIO(lines("[node-a]", "[node-b]").encode()))
    assert not writers_in(io.BytesIO(lines("(Fit pid=1)", "(Fit pid=2)", apart=0.0).encode())), "all-reduced"
    assert not writers_in(io.BytesIO(lines("[one]", "[two]", apart=1e-5).encode())), "about the same"
    turns = "".join(f"[{'one' if step % 2 else 'two'}] step {step} loss={1 / step:.4f}\n" for step in range(1, 40))
    assert not writers_in(io.BytesIO(turns.encode())), "one sequence of steps"
    keys = lines("[one]").splitlines() + lines("[two]", keys="entropy={loss:.3f} kl={reward:.3f}").splitlines()
    assert not writers_in(io.BytesIO("\n".join(keys).encode())), "parts that print other things"
    assert tuple(writers_in(io.BytesIO(lines("[one]", "[two]", first=1000).encode()))) == ("one", "two"), "resumed"
    assert tuple(writers_in(io.BytesIO((lines("[one]") + lines("[zero]", "[two]")).encode()))) == ("one", "two")


@each_row(
    ("fronts", "expected"),
    [
        (("(train_a pid=97)", "(train_b pid=98)"), ("train_a", "train_b")),
        (("[seed1]", "[seed2]"), ("seed1", "seed2")),
        (("(WorkerDict pid=97)", "(WorkerDict pid=98)"), ()),
        (("[rank0]:", "[rank1]:"), ()),
    ],
)
@each_row("more", ["", ", 'grad_norm': 1.0, 'epoch': {epoch}"], ids=["loop", "trainer"])
def test_rows_without_a_step_are_counted_for_each_run_and_once_for_all_ranks(tmp_path, fronts, expected, more):
    log = tmp_path / "train.log"
    rows = [
        f"{front} {{'loss': {(1 + at * ('Worker' not in front)) / step}{more.format(epoch=step / 8)}}}\n"
        for step in range(1, STEPS + 1)
        for at, front in enumerate(fronts)
    ]
    log.write_text("".join(rows))
    assert tuple(writers_in(io.BytesIO(log.read_bytes()))) == expected
    for name in expected or ("",):
        (run,) = read_whole(f"{log}::{name}" if name else str(log), Config(), FakeClock()).runs
        assert (run.main.stream.rows, run.main.stream.last_step) == (STEPS, STEPS)


def test_a_worker_that_goes_on_after_another_and_equal_losses_are_counted_on(tmp_path):
    log = tmp_path / "train.log"
    for text in (
        "".join(f"(Task pid={1 + (step > 9)}) {{'loss': {1 / step}}}\n" for step in range(1, 21)),
        "".join("(Task pid=1) {'loss': 0.5}\n" for _ in range(20)),
    ):
        log.write_text(text)
        assert read_whole(str(log), Config(), FakeClock()).runs[0].main.stream.last_step == 20


def test_marks_are_found_however_large_the_log_is():
    filler = "(a, pid=1) " + "x" * 4000 + "\n"
    text = sweep("a, pid=1") + filler * 600 + sweep("b, pid=2")
    assert tuple(writers_in(io.BytesIO(text.encode()))) == ("a", "b")
