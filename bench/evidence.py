"""On public logs that a person has judged: which rule is right, and in how many repositories?

    python bench/evidence.py [FOLDER …] [--mirror MIRROR] [--table CSV [--asked PROGRAM]]
        [--by repository|log] [--new] [--verbose]

A FOLDER holds one folder for each log: the file and a `label.json` (`class`, `records`,
`healthy`, and `useful`, `noise`, `false`, each a list of rule, family and level;
`missed`: families, any of which would do). MIRROR holds `owner+name/repo`, bare git
directories: the logs of `judged_logs.csv` are read out of them, at their commit, into
a folder that is removed; `--table` names another table of that form, `--asked` its
rows whose `judged_at` is that program, or one of several. Bytes that were
judged twice count once, the first judgement of a family holds.

An alarm is a WARN or CRIT that fires or escalates. On a log, an alarm takes the word
of the judgement that names its rule, else that of its family: right (useful, or what
was called missed), noise, false; otherwise it is unjudged, which counts as wrong.

The table by rule is of the levels that rules have themselves, before
`rltop/rules/levels.py` caps what is shown: that follows from it. The totals are of what is shown.

Counted by repository, because logs of one are alike: a repository counts once for a
rule and a word, however many of its logs say so, and may count under two words. In the
totals it counts once for a family and a word, and of what is useful in it the share of
its logs where it is raised counts as kept. `alone`: repositories where on some log no
other rule of what was right there was raised. `lost`: where a judgement calls the
rule's alarm useful and nothing of its family is raised. `crit`: where it is right and
CRIT as the judgement says; `too loud`: where it is CRIT and the judgement is WARN, or
that it is wrong.

`--new` leaves out the repositories that `judged_logs.csv` names: thresholds were set
with their logs in sight, and do worse on others.

Language models are `llm`, classic RL `classic`; a hand-written loop is the former
where its keys are of text (completions, tokens, a reference policy, groups, pairs) or
the judgement names it after a method of language models.
Written to `rltop/rules/evidence.csv`, counts alone, where a FOLDER and MIRROR are given and nothing
is left out. The totals of `unseen_logs.csv`, logs that were judged before the program read
them, are added to `unseen_score.csv` once for a program that was asked, where no FOLDER is
given: later programs may have been changed with these logs in sight. `unread` files gave no
record, of `deaf` ones no key is known to a rule.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.errors import RltopError
from rltop.model import EventState, Level
from rltop.rules import engine
from rltop.rules.levels import HIGHEST, is_of_text
from rltop.rules.registry import FORMER, NAMED
from rltop.rules.words import FIELDS

HERE = Path(__file__).resolve().parent
JUDGED, EVIDENCE = HERE / "judged_logs.csv", HERE.parent / "rltop" / "rules" / "evidence.csv"
WORDS = {"useful": "right", "noise": "noise", "false": "false"}
COUNTS = ("right", "noise", "false", "unjudged", "alone", "lost", "crit", "too loud")
COLUMNS = ("rule", "family", "field", *COUNTS)
ALARMS = frozenset({EventState.FIRING, EventState.ESCALATED})


class Log(NamedTuple):
    """A log and its judgement; `repository` without its owner, as in the names of logs."""

    name: str
    repository: str
    label: Mapping[str, Any]
    path: Path


class Alarm(NamedTuple):
    rule: str
    family: str
    level: Level


class Heard(NamedTuple):
    """The program's output for a log: each alarm once with its highest level; `firings` counts all of them.

    `own`: the same at the rules' own levels, without caps. `deaf`: no rule knows any of its keys.
    """

    log: Log
    field: str
    records: int
    alarms: tuple[Alarm, ...]
    firings: Counter[Level]
    own: tuple[Alarm, ...] = ()
    deaf: bool = False


def repository_of(name: str) -> str:
    """`trainer--Repository-1a2b` → `Repository`, as far as the folder's name shows it."""
    return name.partition("--")[2].rpartition("-")[0][:28]


def laid_out(folders: Iterable[Path]) -> Iterator[Log]:
    """The logs in folders."""
    for label in sorted(found for folder in folders for found in folder.rglob("label.json")):
        files = sorted(one for one in label.parent.iterdir() if one.name not in {"label.json", "SOURCE.md"})
        if files:
            name = label.parent.name
            yield Log(name, repository_of(name), json.loads(label.read_text()), files[0])


def table_rows(table: Path) -> list[dict[str, str]]:
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


def fetched(mirror: Path, table: Path, out: Path, asked: str = "") -> Iterator[Log]:
    """The logs of a table with fetched repositories, each written to `out` as in its commit."""
    for row in table_rows(table):
        if asked and row["judged_at"] not in asked.split():
            continue
        git = mirror / row["repository"].replace("/", "+", 1) / "repo"
        done = subprocess.run(
            ["git", "-C", git, "show", f"{row['commit']}:{row['path']}"], capture_output=True, check=False
        )
        if done.returncode:
            print(f"absent: {row['repository']} {row['path']}")
            continue
        folder = out / row["id"]
        folder.mkdir()
        path = folder / Path(row["path"]).name
        path.write_bytes(done.stdout)
        repository = repository_of(row["id"]) if table == JUDGED else row["repository"]
        yield Log(row["id"], repository, label_of(row), path)


def label_of(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of the table as a label: `T1:truncation:warn`, `reward+kl:crit`."""
    found: dict[str, Any] = {
        word: [dict(zip(("rule", "family", "level"), each.split(":"), strict=True)) for each in row[word].split()]
        for word in WORDS
    }
    missed = [each.rpartition(":") for each in row["missed"].split()]
    found["missed"] = [{"families": families.split("+"), "level": level} for families, _, level in missed]
    return found | {
        "class": row["class"],
        "trainer": row["trainer"],
        "records": int(row["records"]),
        "healthy": row["healthy"] == "true",
    }


def once(logs: Iterable[Log]) -> list[Log]:
    """Each log once; additions of later judgements of the same bytes are merged into the first."""
    kept: dict[bytes, Log] = {}
    for log in logs:
        digest = hashlib.sha256(log.path.read_bytes()).digest()
        first = kept.setdefault(digest, log)
        if first is not log:
            known = {entry["family"] for word in WORDS for entry in first.label[word]}
            known |= {family for entry in first.label["missed"] for family in entry["families"]}
            more = {word: [one for one in log.label[word] if one["family"] not in known] for word in WORDS}
            label = {**first.label, **{word: [*first.label[word], *more[word]] for word in WORDS}}
            kept[digest] = first._replace(label=label)
    return list(kept.values())


def field_of(label: Mapping[str, Any]) -> str:
    """The field named by the judgement, or "" if the keys have to decide."""
    if label["class"] in FIELDS:
        return str(label["class"])
    return "llm" if any(method in label["trainer"] for method in ("grpo", "dpo", "sft")) else ""


def hear(log: Log) -> Heard:
    """Run the current program on a log, with and without caps on levels."""
    with patch.object(engine, "HIGHEST", {field: {} for field in HIGHEST}):
        own = listen(log).alarms
    return listen(log)._replace(own=own)


def listen(log: Log) -> Heard:
    """Run the program on a log once."""
    levels: dict[tuple[str, str], Level] = {}
    firings = Counter[Level]()
    records, field, deaf = 0, field_of(log.label), False
    try:
        session = read_whole(str(log.path), Config(), FakeClock())
    except RltopError:
        return Heard(log, field or "classic", 0, (), firings)
    try:
        for run in session.runs[:1]:
            identity = run.main.identity
            deaf = identity is not None and not identity.signals
            is_text = identity is not None and is_of_text(identity)
            field, records = field or ("llm" if is_text else "classic"), run.main.stream.rows
            for event in run.events:
                if event.state in ALARMS and event.level >= Level.WARN:
                    key = event.raised_by, event.family
                    levels[key] = max(levels.get(key, event.level), event.level)
                    firings[event.level] += event.state is EventState.FIRING
    finally:
        session.close()
    alarms = tuple(Alarm(rule, family, level) for (rule, family), level in levels.items())
    return Heard(log, field or "classic", records, alarms, firings, deaf=deaf and records > 0)


def judged(alarm: Alarm, label: Mapping[str, Any]) -> tuple[str, str]:
    """The judgement of this alarm on this log: the word, and the expected level."""
    named = [(entry, word) for word in WORDS for entry in label[word]]
    for name, value in (("rule", alarm.rule), ("family", alarm.family)):
        for entry, word in named:
            if (FORMER.get(entry[name]) or entry[name]) == value and entry["family"] == alarm.family:
                return WORDS[word], entry["level"] if word == "useful" else "info"
    for entry in label["missed"]:
        if alarm.family in entry["families"]:
            return "right", entry["level"]
    return "unjudged", "info"


def by_rule(heard: Iterable[Heard]) -> list[dict[str, Any]]:
    """One row for each rule and field in which it fired or should have."""
    found: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in heard:
        label, repository = one.log.label, one.log.repository
        words = {alarm: judged(alarm, label) for alarm in one.own}
        wanted = [{entry["family"]} for entry in label["useful"]] + [set(one["families"]) for one in label["missed"]]
        for alarm, (word, level) in words.items():
            found[alarm.rule, one.field][word].add(repository)
            if alarm.level is Level.CRIT:
                found[alarm.rule, one.field]["crit" if level == "crit" else "too loud"].add(repository)
            for families in wanted:
                if word == "right" and {each.rule for each in words if each.family in families} == {alarm.rule}:
                    found[alarm.rule, one.field]["alone"].add(repository)
        raised = {alarm.family for alarm in one.own}
        for entry in label["useful"]:
            if entry["family"] not in raised:
                found[FORMER.get(entry["rule"]) or entry["rule"], one.field]["lost"].add(repository)
    return [
        {"rule": rule, "family": NAMED[rule].family if rule in NAMED else "", "field": field}
        | {name: len(words[name]) for name in COUNTS}
        for (rule, field), words in sorted(found.items(), key=lambda item: (item[0][1] != "llm", in_order(item[0][0])))
    ]


def in_order(rule: str) -> tuple[str, int, str]:
    """Sort key of rules: letter, then number."""
    letters = rule.rstrip("0123456789abcdefghijklmnopqrstuvwxyz")
    digits = "".join(each for each in rule[len(letters) :] if each.isdigit())
    return letters, int(digits or 0), rule


def totals(heard: Sequence[Heard], by: str) -> dict[str, Any]:
    """Kept, wrong and caught alarms of a field, by log or by repository."""
    raised: dict[str, set[tuple[str, str]]] = defaultdict(set)
    wanted: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    healthy = Counter[str]()
    for one in heard:
        place = one.log.repository if by == "repository" else one.log.name
        families: dict[str, set[str]] = defaultdict(set)
        for alarm in one.alarms:
            families[alarm.family].add(judged(alarm, one.log.label)[0])
        for family, words in families.items():
            for word in words:
                raised[word].add((place, family))
        for entry in one.log.label["useful"]:
            wanted["kept", place, entry["family"]].append(entry["family"] in families)
        for entry in one.log.label["missed"]:
            caught = not families.keys().isdisjoint(entry["families"])
            wanted["caught", place, "+".join(entry["families"])].append(caught)
        if one.log.label["healthy"]:
            healthy += Counter(logs=1, records=one.records, flagged=bool(one.alarms))
            healthy += Counter(warn=one.firings[Level.WARN], crit=one.firings[Level.CRIT])
    found = {word: len(raised[word]) for word in ("right", "noise", "false", "unjudged")}
    shares: dict[str, list[float]] = {"kept": [], "caught": []}
    for (kind, *_), hits in wanted.items():
        shares[kind].append(sum(hits) / len(hits))
    return {
        "logs": len(heard), "repositories": len({one.log.repository for one in heard}),
        "unread": sum(not one.records and bool(one.log.label["records"]) for one in heard),
        "deaf": sum(one.deaf for one in heard), **found,
        "precision": round(found["right"] / max(1, sum(found.values())), 3),
        "kept": f"{sum(shares['kept']):.1f}/{len(shares['kept'])}",
        "caught of missed": f"{sum(shares['caught']):.1f}/{len(shares['caught'])}",
        "healthy logs": healthy["logs"], "flagged": healthy["flagged"],
        "WARN/1,000": round(1000 * healthy["warn"] / max(1, healthy["records"]), 2), "CRIT on healthy": healthy["crit"],
    }  # fmt: skip


def written(rows: Sequence[Mapping[str, Any]]) -> str:
    head = tuple(rows[0])
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (head, *(row.values() for row in rows))]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def tell(heard: Iterable[Heard]) -> None:
    """Print each log with wrong, lost or missed alarms."""
    for one in heard:
        said = [f"{judged(alarm, one.log.label)[0]} {alarm.rule} {alarm.level.word}" for alarm in one.alarms]
        raised = {alarm.family for alarm in one.alarms}
        lost = [f"lost {each['rule']}" for each in one.log.label["useful"] if each["family"] not in raised]
        missed = [
            f"missed {'+'.join(each['families'])}"
            for each in one.log.label["missed"]
            if raised.isdisjoint(each["families"])
        ]
        unread = ["unread"] if not one.records and one.log.label["records"] else []
        if said or lost or missed or unread:
            sort = " healthy" if one.log.label["healthy"] else ""
            print(f"{one.log.name} ({one.field}{sort}): {'; '.join([*said, *lost, *missed, *unread])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--mirror", type=Path, help="fetched repositories, for the logs of judged_logs.csv")
    parser.add_argument("--table", type=Path, default=JUDGED, metavar="CSV", help="judged_logs.csv unless given")
    parser.add_argument(
        "--asked", default="", metavar="PROGRAM", help="only logs that this program, or these, were asked about"
    )
    parser.add_argument("--by", choices=("repository", "log"), default="repository", help="what the totals count")
    parser.add_argument("--new", action="store_true", help="leave out repositories that judged_logs.csv names")
    parser.add_argument("--verbose", action="store_true", help="tell each log that anything is said of")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as out:
        logs = list(laid_out(arguments.folders))
        if arguments.mirror:
            logs += fetched(arguments.mirror, arguments.table, Path(out), arguments.asked)
        if arguments.new:
            known = {repository_of(row["id"]) for row in table_rows(JUDGED)}
            logs = [log for log in logs if log.repository not in known]
        with Pool(arguments.jobs, maxtasksperchild=20) as pool:
            heard = pool.map(hear, once(logs), chunksize=1)
    if not heard:
        parser.error("no judged log there: name a FOLDER or a MIRROR")
    if arguments.verbose:
        tell(heard)
    rows = by_rule(heard)
    if rows:
        print(f"\nRepositories, by rule and field:\n\n{written(rows)}")
    groups = {name: [one for one in heard if one.field == field] for field, name in FIELDS.items()}
    parts = [(name, part) for name, part in (*groups.items(), ("all", heard)) if part]
    tables = {by: [{"field": name} | totals(part, by) for name, part in parts] for by in ("repository", "log")}
    print(f"\nTotals, by {arguments.by}:\n\n{written(tables[arguments.by])}")
    if arguments.folders and arguments.mirror and not arguments.new and arguments.table == JUDGED:
        write(EVIDENCE, COLUMNS, rows)
    score = arguments.table.with_name(arguments.table.name.replace("_logs", "_score"))
    if arguments.asked and arguments.mirror and not arguments.folders and score != arguments.table and score.exists():
        scored = table_rows(score)
        if {name for row in scored for name in row["asked"].split()}.isdisjoint(arguments.asked.split()):
            rows = [{"asked": arguments.asked, "by": by} | row for by, table in tables.items() for row in table]
            write(score, tuple(rows[0]), [*scored, *rows])


def write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
