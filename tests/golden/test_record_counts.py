"""How many records a recorded run has, and on which steps: as said beside it, not by us."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from recorded import jsonl_runs, paths_of, whole
from tables import each_row

from rltop.cli import main

ASIDE = {"SOURCE.md", "label.json", "expected.json", "rollouts.jsonl"}
PARSED = re.compile(
    r"^- parsed: (?P<rows>\d+) rows, (?P<keys>\d+) keys, step key `(?P<key>[^`]+)` (?P<first>[\d.]+|None)\.\."
    r"(?P<last>[\d.]+|None) \((?P<distinct>\d+) distinct\), duplicate (?P<duplicate>\d+), backward (?P<backward>\d+);"
    r".*string-valued keys (?P<strings>\[[^\]]*\]); list-valued (?P<lists>\[[^\]]*\]); parser notes (?P<notes>.*)$",
    re.MULTILINE,
)
BESIDE = {"trl-dpo-console/clean-code-dpo-log": "trl-dpo/clean-code-dpo"}
"""A log whose rows name no step: the same run with its steps."""


class Said(NamedTuple):
    """What stands in a SOURCE.md, read out of the file by another program."""

    rows: int
    keys: int | None
    first: int | None
    last: int | None
    steps: int
    restarts: int


def said_of(folder: Path) -> Said:
    found = PARSED.search((folder / "SOURCE.md").read_text())
    assert found is not None, folder
    rows, duplicate, backward = int(found["rows"]), int(found["duplicate"]), int(found["backward"])
    # A line cut in half lost the key of its step, but not the step that it begins with; W&B's first row has none.
    is_complete = not duplicate and not backward
    is_plain = found["strings"] == "[]" and found["lists"] == "[]"
    named = found["first"] != "None"
    return Said(
        rows,
        int(found["keys"]) - named if is_plain else None,
        int(float(found["first"])) if named and int(found["distinct"]) == rows else None,
        int(float(found["last"])) if named and not backward else None,
        rows if is_complete else int(found["distinct"]),
        backward,
    )


ROUNDED = {"verl-console/logic-rl-10-steps-noise"}
"""Their learning rate is printed as 0.000 throughout: a key without a value."""


@each_row("folder", paths_of(lambda root: {path.parent for path in (root / "public").rglob("SOURCE.md")}))
def test_a_public_run_has_the_records_that_its_source_says(folder: Path) -> None:
    (path,) = (each for each in folder.iterdir() if each.name not in ASIDE)
    run, said = whole(path), said_of(folder)
    assert run.counts.rows == said.rows
    assert run.counts.no_step_lines == run.counts.oversize_lines == 0
    assert len(run.main.stream.restarts) == said.restarts
    if said.rows == 0:
        assert run.main.identity is None
        assert run.failure
        return
    assert run.main.identity is not None
    other = BESIDE.get(f"{folder.parent.name}/{folder.name}")
    if other is None:
        assert said.restarts or len(run.main.stream.steps()) == said.steps
    else:
        (beside,) = (each for each in (folder.parent.parent / other).iterdir() if each.name not in ASIDE)
        assert list(run.main.stream.steps()) == list(whole(beside).main.stream.steps())
    if said.first is not None:
        assert run.main.stream.first_step == said.first
    if said.last is not None:
        assert run.main.stream.last_step == said.last
    if said.keys is not None:
        count = len([key for key in run.main.stream.keys if not key.startswith("system/")])
        count += f"{folder.parent.name}/{folder.name}" in ROUNDED
        # What a cut took from a row of veRL stands in the validation that is printed beside it.
        assert count > said.keys if run.counts.cut_evaluations else count == said.keys


@pytest.mark.parametrize("folder", paths_of(lambda root: {path.parent for path in root.glob("trl/*/label.json")}))
def test_a_labelled_run_has_the_records_that_its_label_says(folder: Path) -> None:
    said = json.loads((folder / "label.json").read_text())["file"]
    run = whole(folder / "metrics.jsonl")
    assert run.counts.rows == run.counts.lines == said["n_lines"]
    assert run.main.stream.rows == said["n_train"]
    assert (run.main.stream.first_step, run.main.stream.last_step) == (said["first_step"], said["last_step"])
    assert list(run.main.stream.restarts) == [to for _, to in said["step_goes_back"]]
    assert run.counts.nonfinite_values == sum(said["non_finite_values"].values())
    steps = list(run.main.stream.steps())

    state = folder / "trainer_state.json"
    if state.exists():
        document = whole(state)
        assert document.counts.rows == len(json.loads(state.read_text())["log_history"])
        assert list(document.main.stream.steps()) == steps
    if (folder / "tb").is_dir():
        events = whole(folder / "tb")
        assert events.main.stream.rows == said["n_train"]
        assert (list(events.main.stream.steps()), events.main.stream.restarts) == (steps, run.main.stream.restarts)


def every_file(root: Path) -> set[Path]:
    found = {path for folder in ("public", "trl") for path in (root / folder).rglob("*") if path.is_file()}
    # Metrics beside a label are checked by `test_recorded_runs.py`.
    return {path for path in found if path.suffix != ".md"} - {each.metrics for each in jsonl_runs()}


@pytest.mark.parametrize("path", paths_of(every_file))
def test_check_has_an_answer_for_every_file_and_calls_keys_what_they_are(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["check", str(path)])
    told = capsys.readouterr()
    assert code in (0, 1, 3) or (code == 2 and told.err.startswith("rltop: "))
    assert "internal error" not in told.err
    if code == 2:
        return
    identity = whole(path).main.identity
    if identity is None or identity.dialect.name == "generic":
        return
    named = {signal.key: name for name, signals in identity.signals.items() for signal in signals}
    assert named.get("perf/throughput", "throughput_per_gpu") == "throughput_per_gpu"
    assert not any(key.startswith(("val-aux/", "val-core/")) and name == "reward_mean" for key, name in named.items())
    if identity.dialect.name == "veRL" and any(key.startswith("critic/vf_") for key in identity.keys):
        assert identity.algorithm.value == "ppo"
