"""Files of settings: what trainers write is understood, and nothing in them is executed, expanded or waited for."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest
from binary_files import event, frame, integer, span, version_event
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop import units
from rltop.errors import DecodeError
from rltop.formats.settings import MAX_SETTINGS, flat, read_settings, read_yaml
from rltop.resources import folder

OMEGACONF = b"""\
actor:
  optim:
    lr: 1.0e-06
    betas:
    - 0.9
    - 0.999
  model: {path: 'Qwen/Qwen2.5: 7B', "trust": true}   # the policy
  clip_ratio: 0.2
data:
  files: [/a.parquet, /b.parquet]
  prompt: 'a long text that is wrapped
    by the program'
  template: |
    first
      second
  envs:
  - name: math
    weight: 1
  - name: code
    weight: 2.5
trainer:
  resume: null
  name: !!python/object:os.system it's
"""


def test_yaml_as_programs_write_it() -> None:
    assert read_settings("config.yaml", OMEGACONF) == {
        "actor.optim.lr": 1e-6,
        "actor.optim.betas": "[0.9, 0.999]",
        "actor.model.path": "Qwen/Qwen2.5: 7B",
        "actor.model.trust": True,
        "actor.clip_ratio": 0.2,
        "data.files": "[/a.parquet, /b.parquet]",
        "data.prompt": "a long text that is wrapped by the program",
        "data.template": "first\n  second\n",
        "data.envs.0.name": "math",
        "data.envs.0.weight": 1,
        "data.envs.1.name": "code",
        "data.envs.1.weight": 2.5,
        "trainer.resume": None,
        "trainer.name": "it's",
    }


@each_row(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n", None),
        ("---\na: 1\n---\nb: 2\n", {"a": 1}),
        ("a:\n- 1\n-\n  - 2\n- - 3\n  - x: 4\n    y: 5\n", {"a": [1, [2], [3, {"x": 4, "y": 5}]]}),
        ('"a b": "\\u00e9 \\"x\\""\n', {"a b": 'é "x"'}),
        ("a: b # c\nd: 'e # f'\n", {"a": "b", "d": "e # f"}),
        ("a: {b: [1, 2,\n  3], c: }\n", {"a": {"b": [1, 2, 3], "c": None}}),
        ("base: &b\n  x: 1\nother: *b\n", {"base": {"x": 1}, "other": "*b"}),
        ("url: http://host:80/x\n", {"url": "http://host:80/x"}),
        ("n: 1_000\nf: -.5\ni: .inf\nt: 12:30\n", {"n": 1000, "f": -0.5, "i": float("inf"), "t": "12:30"}),
    ],
)
def test_yaml_in_small_pieces(text: str, value: object) -> None:
    assert read_yaml(text) == value


@each_row(
    "text",
    ["[" * 9_000, "{a: " * 9_000, "- " * 9_000, "".join(f"{' ' * n}a:\n" for n in range(2_000)), "a: [1",
     "a: b\n" * 60_000, "a: [\n" + "x,\n" * 120_000, "? [a]\n: b\n", "a:\n  b: 1\n c: 2\n"],
)  # fmt: skip
def test_yaml_that_is_too_much_or_none_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        read_yaml(text)


@each_row(
    "text",
    ["x" + " " * 200_000 + "y", "k" * 300_000, " :" * 100_000, "a: " + '\\"' * 100_000],
    ids=["blanks", "letters", "colons", "quotes"],
)
def test_no_line_of_yaml_takes_long(text: str) -> None:
    begin_s = time.perf_counter()
    with contextlib.suppress(DecodeError):
        read_yaml(text)
    assert time.perf_counter() - begin_s < 5


@given(st.text(alphabet="ab:-[]{}'\"\n  #,|>!&*?%\t\\0", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(DecodeError):
        read_yaml(text)


def test_other_files_of_settings() -> None:
    assert read_settings("training_args.json", b'{"learning_rate": 5e-05, "lora": {"r": 16}}') == {
        "learning_rate": 5e-5,
        "lora.r": 16,
    }
    assert read_settings("config.toml", b"[trainer.optim]\nlr = 1e-6\n") == {"trainer.optim.lr": 1e-6}
    wandb = b"_wandb:\n  value: {cli_version: 1}\nlr:\n  desc: null\n  value: 1e-5\n"
    assert read_settings("config.yaml", wandb) == {"lr": 1e-5}
    state = {"max_steps": 800, "log_history": [{"loss": 1.0}], "global_step": 800}
    assert read_settings("trainer_state.json", json.dumps(state).encode()) == {"max_steps": 800}
    assert read_settings("overrides.yaml", b"- actor.lr=1e-6\n- +extra.x=on\n- ~gone\n") == {
        "actor.lr": 1e-6,
        "extra.x": "on",
    }
    assert read_settings("config.json", b"[1, 2]") == {}


@each_row(("name", "data"), [("config.json", b"{"), ("config.toml", b"= 1"), ("config.json", b"[" * 99_999)])
def test_a_file_that_is_not_what_it_is_called_is_refused(name: str, data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_settings(name, data)


def test_settings_in_a_file_of_wandb() -> None:
    path = Path(str(folder("fixtures"))) / "wandb" / "row_step.wandb"
    assert read_settings(path.name, path.read_bytes()) == {
        "trainer.total_training_steps": 40,
        "actor_rollout_ref.rollout.n": 16,
    }


def test_what_is_flattened_is_bounded() -> None:
    assert len(flat({str(number): number for number in range(MAX_SETTINGS * 2)})) == MAX_SETTINGS
    deep: dict[str, object] = {}
    for _ in range(100):
        deep = {"a": deep}
    assert flat(deep) == {}
    assert flat({"n": 10**400})["n"] == "a very large number"
    assert flat({"l": list(range(40))})["l"] == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … 40 in all]"


@each_row(
    ("value", "text"),
    [(1e-6, "1e-6"), (1.0, "1"), (0.1, "0.1"), (True, "true"), (None, "null"), (1e22, "1e+22"), ("a", "a"), (7, "7")],
)
def test_a_value_reads_as_it_was_written(value: str | float | None, text: str) -> None:
    assert units.setting(value) == text


@each_row("tag", ["args/text_summary", "hparams/text_summary", "notes/text_summary"])
def test_settings_in_the_first_event_file_of_transformers(tag: str) -> None:
    text = span(1, span(1, tag.encode()) + span(8, integer(1, 7) + span(8, b'{"lr": 1e-4, "model": {"size": 7}}')))
    other = span(1, span(1, b"loss/text_summary") + span(9, b""))
    data = frame(version_event()) + frame(event(0, other)) + frame(event(0, text))
    settings = read_settings("events.out.tfevents.1.host", data)
    assert settings == ({} if tag.startswith("notes") else {"lr": 1e-4, "model.size": 7})
