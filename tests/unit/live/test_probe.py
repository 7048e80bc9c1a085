"""Sources that answer, fail and hang, asked beside each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ptys import PATIENCE_S
from tables import each_row

from rltop.clock import Clock, FakeClock
from rltop.live.probe import Fact, Job, ProbeError, Probes, Process


class Source:
    """A source that does what it is told."""

    every_s, patience_s = 5.0, 2.0

    def __init__(self, name: str, answer: Callable[[float], Sequence[Fact]]) -> None:
        self.source, self.answer, self.asked, self.closed = name, answer, 0, 0

    def ask(self, now_s: float) -> Sequence[Fact]:
        self.asked += 1
        return self.answer(now_s)

    def close(self) -> None:
        self.closed += 1


def told(now_s: float) -> Sequence[Fact]:
    return [Job("slurm", now_s, "17")]


def until(what: Callable[[], Any], probes: Probes) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < ends
        probes.poll()
        time.sleep(0.002)


def raising(error: Exception) -> Callable[[float], Sequence[Fact]]:
    def ask(now_s: float) -> Sequence[Fact]:
        raise error

    return ask


def test_a_source_that_hangs_holds_nobody_and_answers_when_it_can() -> None:
    clock, gate = FakeClock(), threading.Event()

    def hang(now_s: float) -> Sequence[Fact]:
        assert gate.wait(PATIENCE_S)
        return told(now_s)

    hung, well = Source("hung", hang), Source("well", told)
    probes = Probes([hung, well], clock)
    until(lambda: probes.facts.all and hung.asked, probes)
    assert [each.source for each in probes.silences] == []
    began_s = clock.wall()
    clock.advance(6.0)
    until(lambda: well.asked == 2, probes)
    assert [(each.source, each.since_s, each.reason) for each in probes.silences] == [
        ("hung", began_s, "does not answer")
    ]
    assert hung.asked == 1
    gate.set()
    # Both answers may still be under way.
    until(lambda: [fact.time_s for fact in probes.facts.all] == [began_s, clock.wall()], probes)
    assert not probes.silences
    probes.close()
    assert (hung.closed, well.closed) == (1, 1)


@each_row(
    ("error", "reason"),
    [
        (ProbeError("401: token missing"), "401: token missing"),
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (ValueError("no number"), "ValueError: no number"),
    ],
)
def test_what_was_said_last_stays_where_a_source_fails(error: Exception, reason: str) -> None:
    clock = FakeClock()
    source = Source("slurm", told)
    probes = Probes([source], clock)
    until(lambda: probes.facts.all, probes)
    first_s = clock.wall()
    source.answer = raising(error)
    clock.advance(5.0)
    until(lambda: probes.silences, probes)
    assert [(each.since_s, each.reason) for each in probes.silences] == [(first_s + 5.0, reason)]

    def is_asked_a_fourth_time() -> bool:
        """Only after what it said to the third has been taken."""
        clock.advance(5.0)
        return source.asked > 3

    until(is_asked_a_fourth_time, probes)
    assert [each.since_s for each in probes.silences] == [first_s + 5.0]
    assert [fact.time_s for fact in probes.facts.all] == [first_s]


def test_processes_that_another_source_tells_of_by_now_are_told_once() -> None:
    """Which of them stand twice is kept while no source tells of others, whoever does."""
    clock = FakeClock()

    def of(source: str, *pids: int) -> Callable[[float], Sequence[Fact]]:
        return lambda now_s: [Process(source, now_s, "Worker", "generate", pid=pid, host="node-1") for pid in pids]

    def pids() -> list[int | None]:
        return [each.pid for each in probes.facts.processes]

    first, second = Source("a", of("a")), Source("b", of("b", 1, 2, 3))
    probes = Probes([first, second], clock)
    probes.gather(PATIENCE_S)
    assert pids() == [1, 2, 3]
    for told, others, moves, expected in (
        ((), (1, 2), 1, [1, 2]),
        ((7,), (), 2, [7]),
        ((7, 1), (1, 2), 2, [7, 1, 2]),
    ):
        first.answer, second.answer = of("a", *told), of("b", *others)
        clock.advance(5.0)
        moved = probes.version + moves
        probes.gather(PATIENCE_S)
        assert (probes.version, pids()) == (moved, expected)


def test_whoever_waits_waits_no_longer_than_the_patience_of_the_sources() -> None:
    gate = threading.Event()

    def hang(now_s: float) -> Sequence[Fact]:
        gate.wait(30.0)
        return []

    hung = Source("hung", hang)
    hung.patience_s = 0.2
    probes = Probes([hung, Source("well", told)], Clock())
    began = time.monotonic()
    probes.gather(20.0)
    assert time.monotonic() - began < 5.0
    assert len(probes.facts.all) == 1
    assert [each.source for each in probes.silences] == ["hung"]
    gate.set()
