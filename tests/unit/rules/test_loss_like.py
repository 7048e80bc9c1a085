"""L1 for losses that the catalogue lacks, from the file on: what is a loss, and what is an empty batch."""

from __future__ import annotations

from typing import Any

from observations import judged
from tables import each_row

from rltop.catalog.families import is_loss_like
from rltop.model import Event, Level


def events(rows: list[dict[str, Any]]) -> list[Event]:
    return [event for event in judged(rows) if event.raised_by == "L1" and event.level >= Level.WARN]


def rows(count: int, key: str, bad: set[int]) -> list[dict[str, Any]]:
    nan = float("nan")
    return [
        {"lr": 1e-5, "reward": 0.3 + i % 7 / 50, key: nan if i + 1 in bad else 0.5 + i % 5 / 100} for i in range(count)
    ]


@each_row("key", ["rm/loss", "loss/dpo", "critic/loss", "train/aux grad norm", "kl/teacher_student"])
def test_loss_without_a_metric_is_judged_when_it_becomes_nan(key: str) -> None:
    first = events(rows(40, key, {30, 31, 32}))[0]
    assert (first.level.word, first.step) == ("crit", 30)
    assert "is NaN at step 30" in first.message


def test_one_that_was_a_number_a_few_times_only_warns_first() -> None:
    found = events(rows(12, "rm/loss", {6, 7}))
    assert [(event.level.word, event.step) for event in found[:2]] == [("warn", 6), ("crit", 7)]


def test_an_evaluation_loss_that_is_nan_is_no_empty_batch() -> None:
    (found,) = [event for event in events(rows(40, "eval_loss", {30})) if event.state.value == "firing"]
    assert (found.level.word, found.step) == ("warn", 30) and "NaN at step 30" in found.message
    sparse = rows(100, "eval_loss", {30, 40, 50, 60})
    for step, row in enumerate(sparse, 1):
        if step % 10:
            del row["eval_loss"]
    assert [(one.state.value, one.step) for one in events(sparse)] == [("firing", 30), ("recovered", 72)]


def test_last_record_counts() -> None:
    assert events(rows(40, "rm/loss", {40}))


def test_never_a_number_is_no_divergence() -> None:
    assert not events(rows(40, "rm/loss", set(range(1, 41))))


def test_loss_of_a_kind_of_sample_that_some_batches_lack() -> None:
    """Undefined twice in the first records and back each time: INFO; three in a row are a divergence all the same."""
    bad = {2, 5, 9, 21, 30, 33}
    assert not [event for event in events(rows(40, "loss/safety", bad)) if event.step > 5]
    assert events(rows(40, "loss/safety", bad | {38, 39, 40}))[-1].level.word == "crit"


@each_row(
    "key",
    ["eval/dpo_loss", "loss/max", "kl_min", "grad_norm_std", "moe/expert_3/loss", "loss/class_2", "normal", "time/kl"],
)
def test_no_loss(key: str) -> None:
    assert not is_loss_like(key)


@each_row("key", ["rm/loss", "loss/dpo", "critic.loss", "actor-grad", "logp/chosen", "weight_norm"])
def test_loss(key: str) -> None:
    assert is_loss_like(key)


@each_row("key", ["experts/loss_3", "class/loss_2", "layers/kl_loss_7"])
def test_a_key_of_one_part_is_no_loss_of_the_run_even_where_its_name_suggests_one(key: str) -> None:
    found = judged(rows(60, key, set(range(40, 61))))
    assert [(event.rule, event.level.word) for event in found if event.level.word in ("warn", "crit")] == []
