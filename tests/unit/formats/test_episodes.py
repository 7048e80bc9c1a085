"""Episodes of verifiers, as prime-rl lays them out: the answers of the policy, step by step."""

from __future__ import annotations

import shutil
from pathlib import Path

from rltop.formats.rollouts.files import EpisodeFiles, dumps_in
from rltop.run.rollouts import dumps_near

RUN = Path(__file__).parents[3] / "fixtures" / "prime_rl"


def test_the_files_beside_a_run_are_found(tmp_path: Path) -> None:
    shutil.copytree(RUN / "rollouts", tmp_path / "rollouts")
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"step": 1, "loss/mean": 0.5}\n')
    (source,) = dumps_near(str(metrics))
    assert isinstance(source, EpisodeFiles)
    source.refresh()
    assert list(source.steps) == [1, 2, 3]


def test_what_was_trained_on_is_read_and_else_all() -> None:
    (source,) = dumps_in(str(RUN / "rollouts"))
    source.refresh()
    trained, generated = source.read(1), source.read(3)
    assert [each.number for each in trained] == [f"1-{group}-{i}" for group in range(2) for i in range(3)]
    assert len(generated) == 8
    assert [each.discarded for each in generated] == ["", "", "", "ToolError"] * 2
    assert not source.notes


def test_the_numbers_of_an_answer_are_those_of_its_trace() -> None:
    (source,) = dumps_in(str(RUN / "rollouts"))
    source.refresh()
    answers = source.read(2)[3:]
    assert [each.group for each in answers] == ["group-1"] * 3
    assert [each.reward for each in answers] == [0.1, 1.1, 0.1]
    assert [each.tokens for each in answers] == [14.0, 18.0, 22.0]
    assert [each.is_truncated for each in answers] == [False, False, True]
    assert [each.stop for each in answers] == ["stop", "stop", "length"]
    assert {each.turns for each in answers} == {2}
    assert {each.tool_calls for each in answers} == {1.0}
    assert source.read(3)[3].reward is None


def test_the_text_is_that_of_the_trace() -> None:
    (source,) = dumps_in(str(RUN / "rollouts"))
    source.refresh()
    text = source.text(source.read(2)[4])
    assert [passage.heading for passage in text.passages] == [
        "prompt: system", "prompt: user", "completion: assistant", "completion: tool", "completion: assistant",
    ]  # fmt: skip
    assert text.passages[1].text == "What is 1 + 2?"
    assert text.passages[-1].text == "The answer is 3."
    assert dict(text.facts)["agent_name"] == "solver"


def test_a_file_that_is_written_moves_the_stamp(tmp_path: Path) -> None:
    place = tmp_path / "rollouts" / "step_7" / "train" / "all" / "traces.jsonl"
    place.parent.mkdir(parents=True)
    lines = (RUN / "rollouts/step_3/train/all/traces.jsonl").read_bytes().splitlines(keepends=True)
    place.write_bytes(lines[0] + lines[1][:50])
    source = EpisodeFiles(str(tmp_path / "rollouts"))
    source.refresh()
    before = source.stamp(7)
    assert len(source.read(7)) == 1
    place.write_bytes(b"".join(lines[:2]) + b"no episode\n{}\n")
    assert source.stamp(7) != before
    assert len(source.read(7)) == 2
