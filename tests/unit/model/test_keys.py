from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.model.keys import (
    GENERAL,
    STEP_KEYS,
    TIME_KEYS,
    TOTAL_KEYS,
    is_bookkeeping_key,
    is_evaluation_key,
    is_training_row,
    split_key,
)


@each_row(
    ("key", "parts"),
    [
        ("system/disk./.usageGB", ("system", "", "disk./.usageGB")),
        ("system/disk./home/data.usageGB", ("system", "", "disk./home/data.usageGB")),
        ("train_speed(iter/s)", (GENERAL, "", "train_speed(iter/s)")),
        ("perf/speed(tokens/s)", ("perf", "", "speed(tokens/s)")),
        ("perf/gpu/rate (token/s/GPU)", ("perf", "gpu", "rate (token/s/GPU)")),
        ("loss", (GENERAL, "", "loss")),
        ("actor/pg_loss", ("actor", "", "pg_loss")),
        ("critic/score/mean", ("critic", "score", "mean")),
        ("val-core/openai/gsm8k/acc/mean@1", ("val-core", "openai", "gsm8k/acc/mean@1")),
        ("/odd", (GENERAL, "", "odd")),
        ("", (GENERAL, "", '""')),
        ("//", (GENERAL, "", '"//"')),
        ("actor/", ("actor", "", '"actor/"')),
    ],
)
def test_split_key(key: str, parts: tuple[str, str, str]) -> None:
    assert tuple(split_key(key)) == parts


@given(st.text("ab/", max_size=12))
def test_splitting_loses_no_text(key: str) -> None:
    section, group, name = split_key(key)
    if name == f'"{key}"':
        assert not key.split("/", 2)[-1].strip("/") and group == ""
        return
    rebuilt = {0: name, 1: f"{section}/{name}", 2: f"{section}/{group}/{name}"}[min(key.count("/"), 2)]
    assert rebuilt == key or section == GENERAL
    assert name == key.split("/", 2)[-1]


@each_row(
    "key",
    [
        "eval_loss", "eval_rewards/accuracies", "eval/reward", "val-core/gsm8k/acc/mean@1", "val-aux/num_turns/mean",
        "val/test_score/gsm8k", "val/loss", "val/reward", "test/env/all/reward/total", "validation/accuracy",
        "bench/aime/mean@4", "val_loss",
    ],
)  # fmt: skip
def test_evaluation_keys(key: str) -> None:
    assert is_evaluation_key(key)


@each_row(
    "key",
    [
        "val/ratio", "val/ratio_var", "val/clipfrac_avg", "val/num_eos_tokens", "val/sequence_lengths",
        "val/advantages_mean", "value_loss", "evaluator_calls", "env/all/reward/total", "testing", "timing_s/gen",
        "critic/values/mean",
    ],
)  # fmt: skip
def test_training_keys_that_look_like_evaluation(key: str) -> None:
    assert not is_evaluation_key(key)


@each_row(
    "key",
    [
        "epoch", "training/global_step", "training/epoch", "train_runtime", "train_loss", "total_flos",
        "eval_runtime", "eval_samples_per_second", "eval_gsm8k_runtime", "progress/batch", "percentage", "_runtime",
    ],
)  # fmt: skip
def test_bookkeeping_keys(key: str) -> None:
    assert is_bookkeeping_key(key)


@each_row("key", ["loss", "train/loss", "eval_loss", "step_time", "num_tokens", "progress_reward"])
def test_keys_that_are_no_bookkeeping(key: str) -> None:
    assert not is_bookkeeping_key(key)


def test_key_lists_prefer_what_they_promise() -> None:
    assert STEP_KEYS[0] == "step"
    assert STEP_KEYS.index("training_step") < STEP_KEYS.index("global_step")
    assert {"current_steps", "global_step/max_steps", "train/global_step"} <= set(STEP_KEYS)
    assert TIME_KEYS[0] == "time"
    assert TOTAL_KEYS[0] == "total_steps"
    assert all(len(keys) == len(set(keys)) for keys in (STEP_KEYS, TIME_KEYS, TOTAL_KEYS))


def test_the_loss_of_a_step_is_training_and_the_mean_of_a_run_is_not() -> None:
    assert is_training_row(["epoch", "train_loss"]) and is_training_row(["train_loss", "val_loss"])
    assert not is_training_row(["epoch", "train_loss", "train_runtime", "total_flos"])
    assert not is_training_row(["train/train_loss", "train/train_runtime"]) and not is_training_row(["eval_loss"])
