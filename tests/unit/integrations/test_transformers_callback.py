"""The trainer callback, against a stand-in for transformers."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class TrainerCallback:
    """As transformers': every event exists and does nothing."""

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...


@pytest.fixture
def integration(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    stand_in = ModuleType("transformers")
    stand_in.TrainerCallback = TrainerCallback  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    module = importlib.import_module("rltop.integrations.jsonl")
    vars(module).pop("JsonlCallback", None)
    yield module
    vars(module).pop("JsonlCallback", None)


def state(step: int, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(**({"global_step": step, "is_world_process_zero": True, "max_steps": 0} | more))


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_is_a_trainer_callback_and_has_the_other_events(integration: ModuleType, tmp_path: Path) -> None:
    callback = integration.JsonlCallback(tmp_path / "metrics.jsonl")
    assert isinstance(callback, TrainerCallback)
    assert callback.on_save(None, state(1), None) is None
    assert type(callback) is integration.JsonlCallback


def test_every_log_is_a_row_under_the_global_step(integration: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.jsonl"
    callback = integration.JsonlCallback(path, lambda: 100.0)
    callback.on_log(None, state(1), None, logs={"loss": 0.5, "epoch": 0.1})
    callback.on_log(None, state(2), None, logs={"eval_loss": float("nan")}, model=object())
    assert rows_of(path)[0] == {"step": 1, "time": 100.0, "loss": 0.5, "epoch": 0.1}
    assert '"eval_loss":NaN' in path.read_text()


def test_the_number_of_steps_goes_along_when_it_is_known(integration: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    callback = integration.JsonlCallback(path)
    callback.on_log(None, state(1, max_steps=240), None, logs={"loss": 0.5})
    callback.on_log(None, state(2, max_steps=-1), None, logs={"loss": 0.5})
    assert [row.get("total_steps") for row in rows_of(path)] == [240, None]


def test_only_world_process_zero_writes(integration: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    callback = integration.JsonlCallback(path)
    callback.on_log(None, state(1, is_world_process_zero=False), None, logs={"loss": 0.5})
    assert not path.exists()


def test_logs_after_the_end_of_training_still_arrive(integration: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    callback = integration.JsonlCallback(path)
    callback.on_log(None, state(1), None, logs={"loss": 0.5})
    callback.on_train_end(None, state(1), None)
    callback.on_log(None, state(1), None, logs={"eval_loss": 0.4})
    assert len(rows_of(path)) == 2


def test_a_file_that_cannot_be_written_warns_once_and_lets_the_run_go_on(
    integration: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    callback = integration.JsonlCallback(tmp_path / "taken" / "metrics.jsonl")
    with pytest.warns(RuntimeWarning, match="metrics are not being written"):
        callback.on_log(None, state(1), None, logs={"loss": 0.5})
    callback.on_log(None, state(2), None, logs={"loss": 0.5})


def test_without_transformers_the_message_says_what_to_do(
    integration: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"transformers, which is not installed.*JsonlWriter"):
        _ = integration.JsonlCallback


def test_another_name_is_an_ordinary_attribute_error(integration: ModuleType) -> None:
    with pytest.raises(AttributeError, match="no attribute 'Rltop'"):
        _ = integration.Rltop
