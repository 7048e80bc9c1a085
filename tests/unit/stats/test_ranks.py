"""Who makes the other ranks wait."""

from __future__ import annotations

import pytest
from tables import each_row

from rltop.model import TimedSpan
from rltop.stats.ranks import SUMMED_STEPS, RankHistory, SpanBook, by_stage, compare, group_of, measured_ranks


def times(slow=None, ranks=8, by=1.5, stage="update"):
    return {f"actor rank {i}": {stage: 10.0 * (by if i == slow else 1.0), "other": 1.0} for i in range(ranks)}


@each_row(
    ("rank", "group"),
    [("actor rank 3", "actor"), ("EnvGroup rank 12", "EnvGroup"), ("rank 0", ""), ("Actor:7", "Actor"), ("a", "a")],
)
def test_the_group_is_the_name_without_its_number(rank, group):
    assert group_of(rank) == group


@each_row("ranks", [2, 3, 8, 64])
def test_one_slow_rank_does_not_move_what_is_usual(ranks):
    worst = max(compare(by_stage(times(slow=1, ranks=ranks))), key=lambda lag: lag.behind_s)
    assert (worst.rank, worst.stage) == ("actor rank 1", "update")
    assert (worst.usual_s, worst.behind_s, worst.step_s) == (10.0, 5.0, 11.0)


def test_groups_are_not_compared_with_each_other():
    both = {"env rank 0": {"run": 1.0}, "env rank 1": {"run": 1.0}, "actor rank 0": {"run": 9.0}}
    assert {lag.rank for lag in compare(by_stage(both))} == {"env rank 0", "env rank 1"}


def test_the_summary_speaks_of_the_newest_steps_and_of_the_past_when_asked():
    history = RankHistory()
    for step in range(100):
        history.push(step, times(slow=2 if step >= 60 else 5))
    now, before = history.summary()[0], history.summary(at=55)[0]
    assert (now.slowest, now.often, now.behind_s) == ("actor rank 2", 1.0, 5.0)
    assert before.slowest == "actor rank 5"
    assert len(now.history) == SUMMED_STEPS


def test_history_is_bounded_for_any_number_of_ranks_and_begins_anew_when_steps_go_back():
    history = RankHistory()
    for step in range(100):
        history.push(step, times(ranks=4096))
    assert len(history.steps) < 64
    history.push(3, times())
    assert history.steps == (3,)


def test_measured_spans_are_compared_as_logged_durations_are():
    book = SpanBook()
    for step in range(4):
        begun = 100.0 * step
        book.add(
            TimedSpan(step, "actor", rank, "update", begun, begun + (15.0 if rank == 2 else 10.0)) for rank in range(4)
        )
    history = measured_ranks(book)
    assert history.is_measured
    (stage,) = history.summary()
    assert (stage.slowest, stage.behind_s) == ("actor rank 2", pytest.approx(5.0))
    alone = SpanBook()
    alone.add([TimedSpan(1, "actor", 0, "update", 0.0, 1.0)])
    assert measured_ranks(alone) is None
