"""Which kinds of fault do the rules see at all, whoever logs them, and what do they say of runs without one?

    python bench/bench_simulated.py [--per-writer N] [--kind NAME] [--writer NAME] [--verbose]

Made runs (see `simulated`): of every kind of fault, in the keys, the precision and
the cadence of every trainer that could log it, short and long. A fault counts as
seen when an alarm of a family that explains it lies between its onset (less a slack)
and the record by which it plainly shows, plus 10 records or a tenth of the run. On
the same runs without the fault every alarm is false.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from simulated.faults import FAULTS, Fault, faulty
from simulated.series import healthy
from simulated.twins import TWINS, twin_of
from simulated.writers import Made, Plan, plans, text_of

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.model import Event, EventState, Level

PER_WRITER = 3
CONSOLE = ("console", "dict")


class Seen(NamedTuple):
    """The alarms of one run, and whether one of them was right and in time."""

    plan: Plan
    fault: str
    span: tuple[int, int]
    alarms: list[Event]
    is_caught: bool
    early: int
    delay: int


def alarms_of(made: Made, folder: Path) -> list[Event]:
    """WARN and CRIT of the run as its trainer writes it, in order."""
    path = folder / ("train.log" if made.plan.writer.form in CONSOLE else "metrics.jsonl")
    path.write_text(text_of(made))
    session = read_whole(str(path), Config(), FakeClock())
    try:
        return [
            event
            for event in session.runs[0].events
            if event.level >= Level.WARN and event.state in {EventState.FIRING, EventState.ESCALATED}
        ]
    finally:
        session.close()


def judge(made: Made, fault: Fault, folder: Path) -> Seen:
    """Judge a faulty run and compare the alarms with its label."""
    n = len(made.rows)
    slack, deadline = max(3, n // 20), made.last + max(10, n // 10)
    alarms = alarms_of(made, folder)
    early = sum(event.record < made.first - slack for event in alarms)
    hits = [
        event.record
        for event in alarms
        if event.family in fault.families and made.first - slack <= event.record <= deadline
    ]
    delay = max(0, hits[0] - made.first) if hits else 0
    return Seen(made.plan, fault.name, (made.first, made.last), alarms, bool(hits), early, delay)


def told(seen: Seen) -> str:
    """One run in a line, for finding what is missed."""
    said = " ".join(f"{event.level.word[0]}:{event.rule}@{event.record}" for event in seen.alarms[:6])
    writer, records, cadence, seed = seen.plan
    return f"{seen.fault or 'healthy'} | {writer.name} n={records} every={cadence} seed={seed} {seen.span}: {said}"


def row(name: str, seen: Sequence[Seen]) -> str:
    caught = [one for one in seen if one.is_caught]
    delays = sorted(one.delay for one in caught)
    missed = sorted({one.plan.writer.name for one in seen if not one.is_caught})
    return (
        f"| {name} | {len(seen)} | {len(caught)} | {len(caught) / max(len(seen), 1):.2f} "
        f"| {delays[len(delays) // 2] if delays else '–'} | {sum(one.early for one in seen)} "
        f"| {', '.join(missed[:4])}{' …' if len(missed) > 4 else ''} |"
    )


def twin_row(name: str, seen: Sequence[Seen]) -> str:
    alarms = [event for one in seen for event in one.alarms]
    warn = sum(event.level is Level.WARN for event in alarms)
    rules = ", ".join(sorted({event.rule for event in alarms}))
    records = sum(one.plan.records for one in seen)
    silent = sum(not one.alarms for one in seen)
    return f"| {name} | {len(seen)} | {records:,} | {silent} | {warn} | {len(alarms) - warn} | {rules} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-writer", type=int, default=PER_WRITER)
    parser.add_argument("--kind", default="", help="only faults whose name holds this; `healthy` for none")
    parser.add_argument("--writer", default="")
    parser.add_argument("--verbose", action="store_true", help="name what is missed, early or false")
    arguments = parser.parse_args()
    drawn = [plan for plan in plans(arguments.per_writer) if arguments.writer in plan.writer.name]
    by_kind: dict[str, list[Seen]] = defaultdict(list)
    false: list[Seen] = []
    twins: dict[str, list[Seen]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for plan in drawn:
            if arguments.kind in ("", "healthy"):
                false.append(Seen(plan, "", (0, 0), alarms_of(healthy(plan), folder), False, 0, 0))
            for twin in TWINS:
                if plan.writer.algorithm in twin.where and (
                    not arguments.kind or arguments.kind in f"twin {twin.name}"
                ):
                    made = twin_of(plan, twin)
                    if made is not None:
                        twins[twin.name].append(Seen(plan, "", (0, 0), alarms_of(made, folder), False, 0, 0))
            fits = [fault for fault in FAULTS if plan.writer.algorithm in fault.where and arguments.kind in fault.name]
            for fault in fits:
                made = faulty(plan, fault)
                if made is not None:
                    by_kind[fault.name].append(judge(made, fault, folder))
    report(by_kind, false, twins, is_verbose=arguments.verbose)


def report(
    by_kind: dict[str, list[Seen]], false: Sequence[Seen], twins: dict[str, list[Seen]], *, is_verbose: bool
) -> None:
    """The table, and the cases to look at when working on rules."""
    print("| fault | runs | seen | recall | median delay | early alarms | missed at |\n|---|---|---|---|---|---|---|")
    every = [one for seen in by_kind.values() for one in seen]
    for fault in FAULTS:
        if by_kind.get(fault.name):
            print(row(fault.name, by_kind[fault.name]))
    print(row("**all**", every))
    records = sum(one.plan.records for one in false)
    warn = sum(event.level is Level.WARN for one in false for event in one.alarms)
    crit = sum(event.level is Level.CRIT for one in false for event in one.alarms)
    print(
        f"\nWithout a fault: {len(false)} runs, {records:,} records, {sum(not one.alarms for one in false)} silent; "
        f"{1000 * warn / max(records, 1):.2f} WARN and {1000 * crit / max(records, 1):.2f} CRIT per 1,000 records "
        "(bound: 1 and 0). The series are made, not recorded: what is compared is kinds, trainers and rules, not runs."
    )
    alike = [one for seen in twins.values() for one in seen]
    print(f"\nHealthy ones that look like a fault: {len(alike)} runs, {sum(not one.alarms for one in alike)} silent.\n")
    print("| looks like | runs | records | silent | WARN | CRIT | rules |\n|---|---|---|---|---|---|---|")
    for name, seen in twins.items():
        print(twin_row(name, seen))
    if is_verbose:
        for one in (*every, *false, *alike):
            if one.early or (one.fault and not one.is_caught) or (not one.fault and one.alarms):
                print(
                    ("EARLY " if one.early and one.is_caught else "FALSE " if not one.fault else "MISSED ") + told(one)
                )


if __name__ == "__main__":
    main()
