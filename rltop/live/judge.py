"""Is a job running, stuck, dead or done? What it says of itself, held against what it usually takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from rltop import units
from rltop.formats.console.failures import is_interruption
from rltop.live.phases import Failure, Phase, Phases
from rltop.structs import NamedTuple

UNUSUAL, STUCK = 3.0, 6.0
"""So many times what is usual."""
UNUSUAL_FLOOR_S, STUCK_FLOOR_S = 60.0, 300.0
"""Sooner nothing is unusual, and nothing stuck."""
NO_USUAL_S = 1_800.0
"""Stuck after so long without progress where nothing tells what is usual."""
LEAST_TIMES = 2
"""So many times tell what is usual; of more the first, with its compilation, does not count."""
_BETWEEN_STEPS = ("setup", "validation", "checkpoint")
DEAD_S = 30.0
"""After a fatal line so long without progress."""


class Where(NamedTuple):
    """Where a job is.

    Attributes:
        state: running, stuck, dead, finished, interrupted or unknown.
        phase: in words, or None.
        phase_key: one of `lines.PHASES`, or None.
        since: when the phase began; of a job that has ended, when it did.
        usual_s: what the phase, or a step where no phase is seen, usually takes in this run.
        unusual: it takes three times as long already.
        outstanding: what is missing of how much.
        cause: what the job died of.
        accuracy_s: how far `since` may be off.
        source: the file that tells.
        step: the newest one that has ended.
        moved_s: when something last went on.
        ranks: phases of several processes.
        engines: as they were told last.
        job: number of the job in a scheduler.
        last_line: of the log.
    """

    state: str
    phase: str | None = None
    phase_key: str | None = None
    since: float | None = None
    usual_s: float | None = None
    unusual: bool = False
    outstanding: str | None = None
    cause: str | None = None
    accuracy_s: float | None = None
    source: str = ""
    step: int | None = None
    moved_s: float | None = None
    ranks: Sequence[dict[str, Any]] = ()
    engines: Sequence[dict[str, Any]] = ()
    job: str | None = None
    last_line: str = ""


def judge(phases: Phases, now_s: float) -> Where:
    """Where a job is at a given time."""
    if phases.begun_s is None or phases.moved_s is None:
        return Where("unknown")
    failure = phases.failure
    about = Where(
        "running", step=phases.step, moved_s=phases.moved_s, ranks=_ranks(phases), engines=_engines(phases, now_s)
    )
    if failure is not None and now_s - failure.time_s >= DEAD_S:
        return _ended(phases, failure, about)
    if phases.finished_s is not None:
        return about._replace(state="finished", since=phases.finished_s, accuracy_s=1.0)
    if phases.step is None and not phases.open and not phases.took_s:
        return about._replace(state="unknown")
    return _going(phases, now_s, about)


def _ended(phases: Phases, failure: Failure, about: Where) -> Where:
    text = failure.error.text.raw
    phase = failure.phase
    return about._replace(
        state="interrupted" if is_interruption(text) else "dead",
        since=failure.time_s,
        accuracy_s=1.0,
        cause=failure.error.words
        if failure.rank is None or "rank" in failure.error.words
        else f"{failure.error.words} (rank {failure.rank})",
        phase=None if phase is None else phase.words,
        phase_key=None if phase is None else phase.key or None,
        usual_s=None if phase is None else usual_s(phases, phase.name),
        outstanding=None if phase is None else _outstanding(phase),
    )


def _going(phases: Phases, now_s: float, about: Where) -> Where:
    inner = phases.innermost()
    inner = [each for each in inner if not each.is_wrap] or inner
    if not inner:
        since_s = phases.moved_s if phases.stepped_s is None else phases.stepped_s
        assert since_s is not None and phases.moved_s is not None
        usual, quiet_s = usual_s(phases, ""), now_s - max(since_s, phases.moved_s)
        return about._replace(
            since=since_s,
            usual_s=usual,
            accuracy_s=1.0,
            unusual=_is_unusual(now_s - since_s, usual),
            state="stuck" if quiet_s >= stuck_after_s(phases, "") else "running",
        )

    def lateness(phase: Phase) -> tuple[float, float]:
        share = (now_s - phase.moved_s) / stuck_after_s(phases, phase.name, phase.key)
        return (share if share >= 1.0 else 0.0, phase.begun_s)

    worst = max(inner, key=lateness)
    usual = usual_s(phases, worst.name)
    return about._replace(
        state="stuck" if lateness(worst)[0] else "running",
        phase=worst.words,
        phase_key=worst.key or None,
        since=worst.begun_s,
        usual_s=usual,
        unusual=_is_unusual(now_s - worst.begun_s, usual),
        outstanding=next(
            filter(None, map(_outstanding, (worst, *(each for each in inner if each.key == worst.key)))), None
        ),
        accuracy_s=max(1.0, worst.doubt_s),
    )


def usual_s(phases: Phases, name: str) -> float | None:
    """What a phase usually takes, or with an empty name a step; None where too few tell it."""
    took_s = list(phases.took_s.get(name, ()))
    if len(took_s) < LEAST_TIMES:
        return None
    return median(took_s[1:] if len(took_s) > LEAST_TIMES else took_s)


def stuck_after_s(phases: Phases, name: str, key: str = "") -> float:
    """How long a phase may be without progress, or with an empty name a step.

    A part of the step of which nothing tells how long it takes is held against the step.
    """
    if usual_s(phases, name) is None and key not in _BETWEEN_STEPS:
        name = ""
    usual, longest = usual_s(phases, name), max(phases.took_s.get(name, ()), default=0.0)
    return max(longest, NO_USUAL_S if usual is None else max(STUCK * usual, STUCK_FLOOR_S))


def _is_unusual(elapsed_s: float, usual: float | None) -> bool:
    return usual is not None and elapsed_s >= max(UNUSUAL * usual, UNUSUAL_FLOOR_S)


def _outstanding(phase: Phase) -> str | None:
    if phase.done is None or phase.of is None or phase.of < 2:
        return None
    return f"{max(0, phase.of - phase.done)} of {phase.of}"


def _ranks(phases: Phases) -> list[dict[str, Any]]:
    """The phases of processes that tell their rank."""
    found = [each for each in phases.innermost() if each.rank is not None]
    return [
        {"rank": each.rank, "phase": each.words, "phase_key": each.key or None, "since": each.begun_s}
        for each in sorted(found, key=lambda each: each.rank or 0)
    ]


def _engines(phases: Phases, now_s: float) -> list[dict[str, Any]]:
    return [
        {
            "engine": name,
            "running": int(state[0]),
            "waiting": int(state[1]),
            "tokens_per_s": state[2],
            "cache": None if math.isnan(state[3]) else state[3],
            "age_s": max(0.0, now_s - time_s),
        }
        for name, (time_s, state) in sorted(phases.engines.items())
    ]


def sentence(where: Where, now_s: float) -> str:
    """Where a job is, as one says it: `training for 14 min (usually 90 s), 8 of 512 outstanding`."""
    if where.state in ("dead", "interrupted"):
        what = f"{where.state}, {units.duration(now_s - (where.since or now_s))} ago"
        during = f", while {where.phase}" if where.phase else ""
        return f"{what}{during}: {where.cause}"
    if where.state in ("finished", "unknown") or where.since is None:
        return where.state
    least = "≥ " if (where.accuracy_s or 0.0) >= 60.0 else ""
    usually = "" if where.usual_s is None else f" (usually {units.duration(where.usual_s)})"
    left = f", {where.outstanding} outstanding" if where.outstanding else ""
    what = where.phase or "no step"
    lasted = f"for {least}{units.duration(max(0.0, now_s - where.since))}"
    return f"{where.state}: {what} {lasted}{usually}{left}"
