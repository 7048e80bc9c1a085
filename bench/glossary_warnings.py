"""Of what five glossaries of metrics warn of, how much is raised, and does it still stand while the fault stands?

    python bench/glossary_warnings.py [--seeds N] [--only TEXT] [--verbose] [--keep FOLDER]

Runs of 200 records in the trainers' own keys, made from `glossary_warnings.toml`: what
changes at record 100, and which family of rules a reader of the glossary would expect.
*raised*: a WARN or CRIT of such a family at the change or after it (three records
early at most). *stands*: one of such a family at WARN or CRIT is active at the last
record. *early*: alarms before the change. A control is a healthy run: any alarm is
false. The same seed makes the same run. `--verbose` tells every run, `--keep` leaves
their files in a folder.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

from courses import RECORDS, Course, changed, worked_out

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.errors import RltopError
from rltop.model import EventState, Level

TABLE = Path(__file__).resolve().with_suffix(".toml")
SLACK = 3
ALARMS = frozenset({EventState.FIRING, EventState.ESCALATED})
Courses = Mapping[str, str]


class Case(NamedTuple):
    """One run of the table; a control expects no family."""

    trainer: str
    page: str
    line: int
    says: str
    families: frozenset[str]
    keys: Courses
    changes: Courses
    seed: int


class Played(NamedTuple):
    """The rules' verdict on a run: `raised` and `stands` for the expected families, and all alarms."""

    case: Case
    raised: str
    stands: bool
    early: int
    alarms: tuple[str, ...]
    standing: tuple[str, ...]


def cases(seeds: int) -> Iterator[Case]:
    """Every run of the table, `seeds` times."""
    table = tomllib.loads(TABLE.read_text())
    for seed in range(seeds):
        for trainer, line, says, families, changes in table["list"]["warnings"]:
            yield _case(table, (trainer, line, says), frozenset(families.split()), changes, seed)
        for trainer, line, says, changes in table["list"]["controls"]:
            yield _case(table, (trainer, line, says), frozenset(), changes, seed)


def _case(
    table: Mapping[str, Any], told: tuple[str, int, str], families: frozenset[str], changes: Courses, seed: int
) -> Case:
    trainer = table["trainer"][told[0]]
    keys = _keys(table["trainer"], told[0])
    if strange := changes.keys() - keys.keys():
        raise ValueError(f"{told}: {', '.join(strange)} not logged by this trainer")
    return Case(told[0], table["page"][trainer["page"]], told[1], told[2], families, keys, changes, seed)


def _keys(trainers: Mapping[str, Any], name: str) -> dict[str, str]:
    """All keys of a trainer, after those of the trainer it is based on."""
    own = dict(trainers[name])
    like, without = own.pop("like", None), tuple(own.pop("without", ()))
    del own["page"]
    taken = _keys(trainers, like) if like else {}
    return (
        {key: course for key, course in taken.items() if not key.startswith(without)} | own if without else taken | own
    )


@cache
def _drawn(name: str, course: str, change: str) -> Sequence[float]:
    """A key over the whole run; keys unaffected by the fault are drawn once for all cases."""
    base = Course.read(course)._replace(first=1)
    new, draw = Course.read(change) if change else None, random.Random(name)
    values = []
    for record in range(1, RECORDS + 1):
        value = base.noisy(base.at(record), draw)
        if new is not None and new.first <= record <= new.last:
            value = changed(value, new, base, record, draw)
        values.append(value)
    return values


def rows(case: Case) -> Iterator[dict[str, float]]:
    """The run, record by record."""
    named = {key: f"{case.seed}/{case.trainer}/{key}" for key in case.keys}
    drawn = {
        key: _drawn(named[key], text, case.changes.get(key, ""))
        for key, text in case.keys.items()
        if not text.startswith("=")
    }
    every = {key: Course.read(case.keys[key]).every for key in drawn}
    others = {key: (text, random.Random(named[key])) for key, text in case.keys.items() if key not in drawn}
    changes = {key: Course.read(text) for key, text in case.changes.items() if key in others}
    for record in range(1, RECORDS + 1):
        row = {key: values[record - 1] for key, values in drawn.items()}
        for key, (text, draw) in others.items():
            row[key] = worked_out(text, row)
            change = changes.get(key)
            if change is not None and change.first <= record <= change.last:
                row[key] = changed(row[key], change, None, record, draw)
        # An evaluation is drawn on every record although logged on some, so that later draws stay the same.
        yield {key: row[key] for key in case.keys if record % every.get(key, 1) == 0}


def text_of(case: Case) -> str:
    """The run as JSON lines; veRL's keys are nested one level."""
    is_nested = case.trainer.startswith("veRL")
    lines = [
        {"step": step, "data": row} if is_nested else {"step": step, **row} for step, row in enumerate(rows(case), 1)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def play(case: Case, keep: Path | None = None) -> Played:
    """Judge the run."""
    with tempfile.TemporaryDirectory() as folder:
        place = keep or Path(folder)
        if keep is not None:
            place = keep / re.sub(r"\W+", "-", f"{case.trainer} {case.line} {case.says} {case.seed}")
            place.mkdir(parents=True, exist_ok=True)
        path = place / "metrics.jsonl"
        path.write_text(text_of(case))
        try:
            session = read_whole(str(path), Config(), FakeClock())
        except RltopError as error:
            return Played(case, "", stands=False, early=0, alarms=(f"not read: {error}",), standing=())
    try:
        run = session.runs[0]
        loud = [event for event in run.events if event.level >= Level.WARN and event.state in ALARMS]
        verdicts = [one for one in run.verdicts if one.level >= Level.WARN and one.state != "recovered"]
    finally:
        session.close()
    first = min((Course.read(text).first for text in case.changes.values()), default=1) if case.families else 1
    right = [event for event in loud if event.family in case.families and event.record >= first - SLACK]
    return Played(
        case,
        right[0].rule if right else "",
        any(one.family in case.families for one in verdicts),
        sum(event.record < first - SLACK for event in loud),
        tuple(f"{event.level.word[0].upper()}:{event.rule}@{event.record}" for event in loud),
        tuple(f"{one.level.word[0].upper()}:{one.rule}" for one in verdicts),
    )


def tell(played: Iterable[Played]) -> None:
    """Print one line per run: what is expected, what was raised, what is active at the end."""
    for one in played:
        case, said = one.case, " ".join(one.alarms) or "silent"
        if not case.families:
            word = "FALSE" if one.alarms else "quiet"
        else:
            word = "MISSED" if not one.raised else "stands" if one.stands else "FADES"
        wanted = "+".join(sorted(case.families)) or "healthy"
        print(
            f"{word:6} {case.page}:{case.line} {case.trainer}: {case.says} ({wanted}): {said}"
            f"{'; at the end ' + ' '.join(one.standing) if one.standing else ''}{' EARLY' if one.early else ''}"
        )


def report(played: Iterable[Played]) -> str:
    """A table, one line for each page."""
    pages: dict[str, list[Played]] = {}
    for one in played:
        pages.setdefault(one.case.page, []).append(one)
    lines = [
        "| page | warnings | raised | still standing | early | controls | silent |",
        "|---|---|---|---|---|---|---|",
    ]
    for page, some in (*pages.items(), ("all", [one for each in pages.values() for one in each])):
        asked = [one for one in some if one.case.families]
        controls = [one for one in some if not one.case.families]
        raised = [one for one in asked if one.raised]
        lines.append(
            f"| {page} | {len(asked)} | {len(raised)} | {sum(one.stands for one in raised)} "
            f"| {sum(bool(one.early) for one in asked)} | {len(controls)} | {sum(not one.alarms for one in controls)} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="only runs whose page, trainer or warning holds this")
    parser.add_argument("--verbose", action="store_true", help="tell every run")
    parser.add_argument("--keep", type=Path, help="leave the files there")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    wanted = [
        one for one in cases(arguments.seeds) if arguments.only in f"{one.page}:{one.line} {one.trainer}: {one.says}"
    ]
    with Pool(arguments.jobs) as pool:
        played = pool.starmap(play, [(case, arguments.keep) for case in wanted])
    if arguments.verbose:
        tell(played)
        print()
    print(report(played))


if __name__ == "__main__":
    main()
