"""One run, written down in several formats, is one run."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
from recorded import REASON, paths_of, runs_root, whole

from rltop.run.discover import discover

FLOAT32 = 1e-6
"""What is left of a number in a TensorBoard file, relative."""


def root():
    found = runs_root()
    if found is None:
        pytest.skip(REASON)
    return found


def points(run, key):
    series = run.main.stream.series(key)
    return {step: value for step, value in zip(series.steps, series.values, strict=True) if value == value}


def agree(one, other, rel, *, leaving_out=()):
    """Every value that both have of a signal, on every step that both have."""
    compared = 0
    assert one.main.identity.dialect is other.main.identity.dialect
    assert one.main.identity.algorithm is other.main.identity.algorithm
    theirs = {(name, s.instance): s for name, signals in other.main.identity.signals.items() for s in signals}
    for name, signals in one.main.identity.signals.items():
        for signal in signals:
            match = theirs.get((name, signal.instance))
            if match is None or name in leaving_out:
                continue
            left, right = points(one, signal.key), points(other, match.key)
            for step in left.keys() & right.keys():
                a, b = signal.read(left[step]), match.read(right[step])
                assert math.isclose(a, b, rel_tol=rel, abs_tol=1e-15), (name, signal.instance, step, a, b)
                compared += 1
    return compared


@pytest.mark.parametrize("state", paths_of(lambda root: root.glob("trl/*/trainer_state.json")))
def test_a_trainer_state_says_what_the_rows_said(state):
    one, other = whole(state), whole(state.parent / "metrics.jsonl")
    assert one.main.stream.last_step == other.main.stream.last_step
    assert agree(one, other, 1e-9) > 1000


@pytest.mark.parametrize("events", paths_of(lambda root: root.glob("trl/*/tb")))
def test_event_files_say_what_the_rows_said(events):
    one, other = whole(events), whole(events.parent / "metrics.jsonl")
    assert one.main.stream.last_step == other.main.stream.last_step
    assert one.main.stream.restarts == other.main.stream.restarts
    assert agree(one, other, FLOAT32) > 1000


def test_two_event_files_of_one_folder_are_one_run_with_a_restart():
    (run,) = discover([str(root() / "trl" / "grpo_restart" / "tb")]).found
    assert len(run.earlier) == 1
    assert whole(root() / "trl" / "grpo_restart" / "tb").main.stream.restarts == (121,)


def test_a_console_log_and_a_wandb_file_of_one_run_agree():
    one = whole(next((root() / "public" / "wandb-offline" / "aopd-length-collapse-slow").glob("*.wandb")))
    other = whole(root() / "public" / "verl-console" / "aopd-length-collapse-slow" / "output.log")
    assert agree(one, other, FLOAT32) > 1000


def test_a_console_log_and_a_trainer_state_of_one_run_agree():
    one = whole(root() / "public" / "trl-dpo" / "clean-code-dpo" / "trainer_state.json")
    other = whole(root() / "public" / "trl-dpo-console" / "clean-code-dpo-log" / "dpo.log")
    assert list(one.main.stream.steps()) == list(other.main.stream.steps())
    # Epochs are printed with two decimals.
    assert agree(one, other, FLOAT32, leaving_out={"epoch"}) > 150


def test_a_table_and_an_event_file_of_one_run_agree():
    """One counts iterations and the other samples of the environment; rows come in the same order."""
    one = whole(root() / "public" / "rllib" / "halfcheetah-sac-progress-csv" / "progress.csv")
    other = whole(next((root() / "public" / "rllib" / "halfcheetah-sac-tfevents").glob("*tfevents*")))
    assert list(other.main.stream.steps()) == [int(step) for step in one.main.stream.series("timesteps_total").values]
    shared = [key for key in one.main.stream.keys if other.main.stream.has(f"ray/tune/{key}")]
    assert len(shared) > 30
    for key in shared:
        left, right = one.main.stream.series(key).values, other.main.stream.series(f"ray/tune/{key}").values
        assert len(left) == len(right) == 145
        for a, b in zip(left, right, strict=True):
            assert (a != a and b != b) or math.isclose(a, b, rel_tol=FLOAT32, abs_tol=1e-30), key


def test_a_run_directory_is_opened_by_its_folder():
    (run,) = discover([str(root() / "trl" / "grpo_straggler")]).found
    assert run.path.endswith("metrics.jsonl")


def test_a_log_that_comes_through_a_pipe_is_the_run_in_the_file():
    path = root() / "public" / "verl-console" / "aopd-healthy-51" / "output.log"
    command = [sys.executable, "-m", "rltop", "-", "--json"]
    with path.open("rb") as file:
        piped = subprocess.run(command, stdin=file, capture_output=True, check=True, timeout=60, env=os.environ)
    command[3] = str(path)
    direct = subprocess.run(command, capture_output=True, check=True, timeout=60, stdin=subprocess.DEVNULL)
    left, right = piped.stdout.split(b'"signals"')[1], direct.stdout.split(b'"signals"')[1]
    assert left == right
