"""Rollout dumps as trainers write them, for tests of their readers and pages."""

from __future__ import annotations

import json
import pickle
import sqlite3
import sys
import types
from collections.abc import Iterable, Mapping
from pathlib import Path

from parquet_writer import parquet_bytes


def lines_of(rows: Iterable[Mapping[str, object]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def plain_rows(steps: Iterable[int], groups: int = 3, size: int = 4) -> list[dict[str, object]]:
    """The documented format: the last answer of group 0 is `step` times as long as the others."""
    return [
        {
            "step": step, "group": group, "sample": i, "reward": float(i % 2), "advantage": i % 2 - 0.5,
            "completion_tokens": 10 * step if (group, i) == (0, size - 1) else 10, "stop_reason": "stop",
            "prompt": f"question {group} of step {step}", "completion": f"answer {i}\nof group {group}",
        }
        for step in steps
        for group in range(groups)
        for i in range(size)
    ]  # fmt: skip


def write_verl(folder: Path, steps: Iterable[int], *, has_uid: bool) -> Path:
    """veRL's `rollout_data_dir`: one file per step; prompts alternate, as after balancing."""
    folder.mkdir(parents=True, exist_ok=True)
    for step in steps:
        rows = []
        for i in range(8):
            prompt = i % 2
            row = {"input": f"user\nprompt {prompt}", "output": "x" * (10 + 30 * (i == 6)), "gts": "42", "score": 0.5,
                   "step": step, "acc": i % 2}  # fmt: skip
            rows.append(row | {"uid": f"0f-{prompt}_{i // 2}_0"} if has_uid else row)
        (folder / f"{step}.jsonl").write_bytes(lines_of(rows))
    return folder


def write_trl(folder: Path, steps: Iterable[int], **more: list[float]) -> Path:
    """TRL's tables of completions: two prompts, two answers each."""
    folder.mkdir(parents=True, exist_ok=True)
    for step in steps:
        table: dict[str, list[object]] = {
            "step": [step] * 4, "prompt": ["a?", "a?", "b?", "b?"], "completion": ["1", "12345", "", "1\n2"],
            "accuracy": [1.0, 0.0, 0.5, None], "advantage": [0.5, -0.5, 0.1, -0.1], **more,
        }  # fmt: skip
        (folder / f"completions_{step:05d}.parquet").write_bytes(parquet_bytes(table))
    return folder


def trinity_rows(batch: int) -> list[dict[str, object]]:
    """Two tasks, two runs each; run 1 of task 0 takes two steps."""
    found = []
    for task, run, step, length in ((0, 0, 0, 20), (0, 1, 0, 30), (0, 1, 1, 50), (1, 0, 0, 10), (1, 1, 0, 10)):
        eid = {"batch": batch, "task": task, "run": run, "step": step, "suffix": f"{run}{step}"}
        found.append(
            {"eid": eid, "type": "single_turn", "prompt_length": 5, "response_length": length, "info": {},
             "metrics": {}, "prompt_text": f"task {task}", "response_text": f"answer {run}.{step}",
             "reward": float(run)}
        )  # fmt: skip
    return found


def experience_blob(prompt: str, response: str, prompt_length: int, tokens: int) -> bytes:
    """A pickle in the trainer's form: an object with a tensor that is rebuilt from storage, size and stride.

    The classes exist only while it is written, so loading it would fail.
    """
    module = types.ModuleType("made_up_trainer")

    def rebuild(*args: object) -> None:
        raise AssertionError("a pickle was loaded")

    class Tensor:
        def __reduce__(self) -> tuple[object, ...]:
            return rebuild, (b"storage", 0, (tokens,), (1,), False, {})

    class Experience:
        pass

    for made in (rebuild, Experience):
        made.__module__, made.__qualname__ = module.__name__, made.__name__
        setattr(module, made.__name__, made)
    sys.modules[module.__name__] = module
    try:
        experience = Experience()
        experience.__dict__ = {
            "tokens": Tensor(), "prompt_length": prompt_length, "reward": 1.0, "response_text": response,
            "prompt_text": prompt,
        }  # fmt: skip
        return pickle.dumps(experience)
    finally:
        del sys.modules[module.__name__]


def write_sqlite(path: Path, batches: Iterable[int]) -> sqlite3.Connection:
    """Trinity's buffer in WAL mode, held open by the returned writer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(
        "CREATE TABLE explorer_output (id INTEGER PRIMARY KEY, timestamp FLOAT, task_id TEXT, run_id TEXT, "
        "msg_id TEXT, model_version INTEGER, reward FLOAT, consumed INTEGER, experience_bytes BLOB)"
    )
    add_experiences(connection, batches)
    return connection


def add_experiences(connection: sqlite3.Connection, batches: Iterable[int]) -> None:
    for batch in batches:
        for row in trinity_rows(batch):
            eid = row["eid"]
            assert isinstance(eid, dict)
            task = f"{batch}/{eid['task']}"
            length = row["response_length"]
            assert isinstance(length, int)
            blob = experience_blob(str(row["prompt_text"]), str(row["response_text"]), 5, 5 + length)
            connection.execute(
                "INSERT INTO explorer_output (timestamp, task_id, run_id, msg_id, model_version, reward, consumed, "
                "experience_bytes) VALUES (0, ?, ?, ?, ?, ?, 0, ?)",
                (task, f"{task}/{eid['run']}", f"{task}/{eid['run']}/{eid['step']}/ab", batch - 1, row["reward"], blob),
            )
    connection.commit()


def write_nemo(folder: Path, steps: Iterable[int], kind: str = "train") -> Path:
    """Samples of NeMo-RL's logger: one file per step, every value in a list of one, validation without tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    for step in steps:
        rows: list[dict[str, object]] = []
        for i in range(8):
            row: dict[str, object] = {"content": [f"question {i // 4}\nanswer {i}"], "rewards": [float(i % 2)]}
            if kind == "train":
                row |= {"input_lengths": [10 + i], "token_ids": [[i // 4] * (10 + i)], "sample_loss_mask": [1.0]}
                row |= {"token_loss_mask": [[0] * 4 + [1] * (6 + i)], "advantages": [[0.5] * (10 + i)]}
            rows.append({**row, "idx": i})
        (folder / f"{kind}_data_step{step}.jsonl").write_bytes(lines_of(rows))
    return folder
