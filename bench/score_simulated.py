"""Of runs that were made to look right and runs that were made to fail, what do the rules say, and when does it end?

    python bench/score_simulated.py [--split tune] [--kind PART] [--of CLASS] [--verbose] [--keep FOLDER] [--freeze]

Runs of every kind (`simulated/kinds.py`) in every class, ten for each of two splits.
Thresholds may be set on `tune`, which is told kind by kind; of `proof` only totals are
shown. `--kind` takes a part of a name, `--verbose` tells each run of `tune` that is
not as a person would have it, `--keep` leaves their files in a folder. A whole score
is written to `simulated.csv` and to the section `simulated kinds` of `RESULTS.md`.
What is made is frozen (`simulated/frozen.csv`): a kind that makes other runs than it
did is named and counts for nothing until `--freeze`.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import run as results
from simulated.dead import DEAD
from simulated.ends import ENDS
from simulated.kinds import CLASSES, EASES, RECOVERS, SPLITS, STAYS, Case, Kind, cases, digest
from simulated.look_alikes import LOOK_ALIKES

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.model import Event, Level

HERE = Path(__file__).resolve().parent
FROZEN, SCORE = HERE / "simulated" / "frozen.csv", HERE / "simulated.csv"
KINDS = (*LOOK_ALIKES, *DEAD, *ENDS)
ALARMS = ("firing", "escalated")
COUNTS = ("runs", "read", "clean", "caught", "level", "wrong", "early", "ends", "ended", "records", "warn", "crit")
COLUMNS = ("area", "kind", "class", "split", "expects", "end", *COUNTS, "rules")
SECTION = "simulated kinds"


class Part(NamedTuple):
    """A kind in a class and a split."""

    kind: Kind
    name: str
    split: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.kind.area, self.kind.name, self.name, self.split


def judge(case: Case, folder: Path) -> tuple[Counter[str], Counter[str], list[Event]]:
    """Counts of one run; rules with false alarms; all events at WARN or above."""
    path = folder / case.form.file
    path.write_text(case.text)
    session = read_whole(str(path), Config(), FakeClock())
    try:
        run = session.runs[0]
        events, read = list(run.events), run.main.stream.rows
    finally:
        session.close()
    kind = case.kind
    loud = [event for event in events if event.level >= Level.WARN and event.state in ALARMS]
    slack, deadline = max(3, case.records // 20), case.last + max(10, case.records // 10)
    early = [event for event in loud if kind.families and event.record < case.first - slack]
    fitting = [event for event in loud if event.family in kind.families and event not in early]
    wrong = [event for event in loud if event.family not in kind.families | kind.also]
    is_caught = any(event.record <= deadline for event in fitting)
    expected = {"warn": {Level.WARN}, "crit": {Level.CRIT}}.get(kind.level, {Level.WARN, Level.CRIT})
    counts = Counter(
        runs=1, read=read >= 0.8 * case.steps, records=read, early=bool(early), wrong=bool(wrong),
        clean=not kind.families and not loud, caught=is_caught,
        level=is_caught and max(event.level for event in fitting) in expected, ends=bool(kind.end) and is_caught,
        ended=bool(kind.end) and is_caught and ends_well(kind.end, events, fitting),
        warn=sum(event.level is Level.WARN for event in (loud if not kind.families else wrong)),
        crit=sum(event.level is Level.CRIT for event in (loud if not kind.families else wrong)),
    )  # fmt: skip
    return counts, Counter({event.rule for event in (*wrong, *early)}), loud


def ends_well(end: str, events: Sequence[Event], fitting: Sequence[Event]) -> bool:
    """Whether the verdicts on the fault end as the fault does."""
    rules = {event.rule for event in fitting}
    last = {event.rule: event for event in events if event.rule in rules}.values()
    if end == RECOVERS:
        return all(event.state == "recovered" for event in last)
    if end == STAYS:
        return any(event.state != "recovered" for event in last)
    assert end == EASES
    return all(event.state == "recovered" or event.level < Level.CRIT for event in last)


def score(part: Part, is_verbose: bool, keep: Path | None) -> tuple[dict[str, Any], str, list[str]]:
    """One row of the table, the digest of its runs, and lines to print."""
    total, rules, told = Counter[str](), Counter[str](), []
    made = list(cases(*part))
    with tempfile.TemporaryDirectory() as name:
        for number, case in enumerate(made):
            counts, found, loud = judge(case, Path(name))
            total += counts
            rules += found
            is_right = counts["read"] and not counts["wrong"] and not counts["early"]
            is_right = is_right and (counts["caught"] or not case.kind.families) and counts["ended"] == counts["ends"]
            if not is_right and is_verbose and part.split == "tune":
                said = " ".join(f"{e.level.word[0].upper()}:{e.rule}@{e.record}" for e in loud[:8]) or "silent"
                what = f"{case.kind.expects} {case.first}..{case.last} {case.kind.end}".strip()
                told.append(
                    f"{part.kind.name} / {part.name} #{number} {case.form.name}, n={case.records} ({what}): {said}"
                )
                if keep is not None:
                    place = keep / f"{part.kind.name} {part.name} {number}".replace(" ", "-").replace("/", "-")
                    place.mkdir(parents=True, exist_ok=True)
                    (place / case.form.file).write_text(case.text)
    row = {"area": part.kind.area, "kind": part.kind.name, "class": part.name, "split": part.split,
           "expects": part.kind.expects, "end": part.kind.end, **{name: total[name] for name in COUNTS},
           "rules": " ".join(f"{rule}×{count}" for rule, count in rules.most_common(4))}  # fmt: skip
    return row, digest(made), told


def frozen() -> dict[tuple[str, ...], str]:
    """Frozen digests: part → digest of all its runs."""
    if not FROZEN.exists():
        return {}
    with FROZEN.open(newline="") as file:
        return {(row["area"], row["kind"], row["class"], row["split"]): row["all"] for row in csv.DictReader(file)}


def freeze(parts: Iterable[Part]) -> None:
    """Save the digests of every part."""
    with FROZEN.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("area", "kind", "class", "split", "first", "all"))
        for part in parts:
            writer.writerow((*part.key, digest(cases(*part, 1)), digest(cases(*part))))


def added(rows: Iterable[dict[str, Any]], by: tuple[str, ...]) -> list[dict[str, Any]]:
    """Sum rows with the same `by`, healthy and faulty ones separately."""
    found: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for row in rows:
        sort = "healthy" if row["expects"] == "healthy" else "faulty"
        found[(*(str(row[name]) for name in by), sort)].update({name: int(row[name]) for name in COUNTS})
    return [dict(zip((*by, "expects"), key, strict=True)) | counts for key, counts in found.items()]


def share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "–"


def line(row: dict[str, Any], names: Sequence[str]) -> str:
    """A row of a table: caught, wrong, early, and ended right."""
    is_healthy = row["expects"] == "healthy"
    cells = [str(row[name]) for name in (*names, "expects", "runs", "read")]
    cells.append(share(row["clean"], row["runs"]) if is_healthy else share(row["caught"], row["runs"]))
    cells += ["–" if is_healthy else share(row["level"], row["caught"]), str(row["wrong"]), str(row["early"])]
    cells += [
        share(row["ended"], row["ends"]),
        *(f"{1000 * row[name] / max(row['records'], 1):.2f}" for name in ("warn", "crit")),
    ]
    return "| " + " | ".join([*cells, str(row.get("rules", ""))]) + " |"


def table(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    head = [*names, "expected", "runs", "read", "right", "level right", "wrong", "early", "end right",
            "false WARN/1,000", "CRIT/1,000", "rules that are wrong"]  # fmt: skip
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(line(row, names) for row in rows)])


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Totals of both splits, then every kind of `tune`."""
    totals = added(rows, ("split", "area", "class")) + added(rows, ("split",))
    for row in totals:
        row.setdefault("area", "**all**")
        row.setdefault("class", "")
    kinds = [row for row in rows if row["split"] == "tune"]
    return f"{table(totals, ('split', 'area', 'class'))}\n\nKinds of `tune`:\n\n{table(kinds, ('kind', 'class'))}"


def write(rows: Sequence[dict[str, Any]], text: str) -> None:
    """Save a whole score: kinds of `tune`, and sums of `proof`."""
    kept = [row for row in rows if row["split"] == "tune"]
    kept += added([row for row in rows if row["split"] == "proof"], ("split", "area", "class"))
    with SCORE.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
    stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    question = (__doc__ or "").partition("\n")[0]
    head = f"## {SECTION}\n\n{question}\n\n`make score-simulated` · {stamp} · {results.commit()}\n{results.machine()}\n"
    results.replace_section(SECTION, f"{head}\n{text}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=SPLITS)
    parser.add_argument("--kind", default="")
    parser.add_argument("--of", choices=CLASSES)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--freeze", action="store_true")
    arguments = parser.parse_args()
    parts = [
        Part(kind, name, split)
        for split in SPLITS
        for kind in KINDS
        for name in kind.of
        if arguments.kind in kind.name and arguments.of in (None, name) and arguments.split in (None, split)
    ]
    if arguments.freeze:
        freeze(parts)
        return 0
    rows, known, changed = [], frozen(), []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        waiting = [pool.submit(score, part, arguments.verbose, arguments.keep) for part in parts]
        for part, answer in zip(parts, waiting, strict=True):
            row, made, told = answer.result()
            print(*told, sep="\n", end="\n" * bool(told), flush=True)
            if known.get(part.key) == made:
                rows.append(row)
            else:
                changed.append(" / ".join(part.key))
    text = report(rows)
    print(text)
    if changed:
        print(f"made otherwise than when they were frozen, not counted: {', '.join(changed)}", file=sys.stderr)
        return 1
    if len(parts) == len(SPLITS) * sum(len(kind.of) for kind in KINDS):
        write(rows, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
