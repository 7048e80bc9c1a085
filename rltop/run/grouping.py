"""Files → runs: which files of a directory are one and the same run.

A run directory often holds a run several times over: rows as JSON lines, the
same as TensorBoard events, and a checkpoint's `trainer_state.json`. It is shown
once, from the most complete, freshest file; the others are named as passed
over. Rotated history and one event file per start are one stream; parts that count
their own steps are streams side by side in one run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rltop.formats.kinds import KINDS, TABLES, TELESCOPE, TENSORBOARD, WANDB, WHOLE_JSON, bare_name
from rltop.model import Label
from rltop.model.table_rows import split_member
from rltop.regex import regex
from rltop.run.found import Found, name_of, titled, whole_path
from rltop.run.places import INNER_FOLDERS, home_of
from rltop.run.sniff import DIED
from rltop.structs import NamedTuple

MAIN_ROLES = ("trainer", "train", "learner", "actor", "all")
"""The parts whose steps are the run's, most trusted first: they make the optimiser's updates."""
_ROLES = frozenset(
    {*MAIN_ROLES, "explorer", "rollout", "rollouter", "generator", "sampler", "orchestrator", "inference", "env",
     "critic", "reward", "eval", "evaluator", "val", "valid", "validation", "test", "bench"}
)  # fmt: skip
_RANK_FOLDER = regex(r"rank[_-]?(\d+)$", re.IGNORECASE)
_BEGUN = regex(r"tfevents\.(\d{9,11})\.")
_SLACK_S = 60
_RANK_STEM = regex(r"(.*?)[._-]?rank[_-]?(\d+)$", re.IGNORECASE)

MAX_STREAMS = 1_024
"""Streams of one run that are followed; a job of more ranks is judged by its first ones."""
_WANDB_FOLDER = regex(r"(?:offline-)?run-(\d{8}_\d{6})-(.+)$")


@dataclass(slots=True)
class Grouped:
    """Runs, newest first, and the files that say the same again."""

    runs: list[Found] = field(default_factory=list)
    repeated: list[tuple[str, str]] = field(default_factory=list)


def group(files: Iterable[Found], titles: Mapping[str, str] | None = None, died: Sequence[Found] = ()) -> Grouped:
    """Make runs of the metric files below one directory.

    Args:
        titles: path → what the run calls itself in the file, where it does.
        died: console logs without a row, each a run where its folder has no metrics.
    """
    grouped = Grouped()
    by_home: dict[Path, list[tuple[Found, Placement]]] = {}
    titles = dict(titles or {})
    files = _without_shared(list(files), titles, grouped)
    for each, spot in place(_sequences(files, titles), titles):
        by_home.setdefault(spot.home, []).append((each, spot))
    traces = _take_traces(by_home)
    for home, streams in by_home.items():
        _add_home(grouped, home, streams)
        _put_beside(grouped, traces.get(home), streams)
    for each in died:
        if home_of(Path(each.path).parent) in by_home:
            grouped.repeated.append((each.path, DIED))
        else:
            grouped.runs.append(each)
    grouped.runs.sort(key=lambda found: (-_newest_s(found), found.path))
    return grouped


def _without_shared(files: list[Found], titles: dict[str, str], grouped: Grouped) -> list[Found]:
    """Pass over the file of a W&B run that parts share: it names the run, the rows stand in theirs."""
    parts: dict[tuple[Path, str], list[str]] = {}
    for each in files:
        if titled_part(titles.get(each.path, "")):
            parts.setdefault(_wandb_run(each), []).append(each.path)
    kept = []
    for each in files:
        own = parts.get(_wandb_run(each), ()) if each.kind is WANDB else ()
        if not own or each.path in own:
            kept.append(each)
            continue
        grouped.repeated.append((each.path, "the run that its parts share"))
        if titles.get(each.path):
            titles.update({path: f"{titles[each.path]}_{titled_part(titles[path])}" for path in own})
    return kept


def _wandb_run(found: Found) -> tuple[Path, str]:
    path = Path(found.path)
    return path.parent.parent, path.name


def _add_home(grouped: Grouped, home: Path, streams: Sequence[tuple[Found, Placement]]) -> None:
    """The runs of one folder: the most complete file of the whole, with parts and ranks beside it."""
    wholes = _best([one for one in streams if not one[1].is_rank], grouped)
    ranks = _best([one for one in streams if one[1].is_rank], grouped)
    parts: dict[str, Found] = {}
    for each, spot in sorted(wholes, key=lambda one: -_newest_s(one[0])):
        if any(other.role for _, other in wholes) and spot.role not in parts:
            parts[spot.role] = each._replace(role=spot.role)
        else:
            grouped.runs.append(each)
    beside = [
        each._replace(role=spot.role, is_rank=True)
        for each, spot in sorted(ranks, key=lambda one: _natural(one[1].role))
    ]
    if parts:
        main, *others = sorted(parts.values(), key=_precedence)
        grouped.runs.append(_joined(main, [*others, *beside], home))
    elif beside:
        own = [run for run in grouped.runs if any(run is each for each, _ in wholes)]
        main = max(own, key=_newest_s) if own else beside[0]._replace(is_rank=False)
        grouped.runs = [run for run in grouped.runs if run is not main]
        grouped.runs.append(_joined(main, beside, home))


def _take_traces(by_home: dict[Path, list[tuple[Found, Placement]]]) -> dict[Path, Found]:
    """Take traces out that stand in, or one or two folders below, the folder of a run: the newest one each."""
    found: dict[Path, Found] = {}
    for home, streams in list(by_home.items()):
        traces = [each for each, _ in streams if not _is_metrics(each)]
        above = next((one for one in (home, *home.parents[:2]) if _has_metrics(by_home.get(one, ()))), None)
        if not traces or above is None:
            continue
        by_home[home] = [one for one in streams if _is_metrics(one[0])]
        if not by_home[home]:
            del by_home[home]
        known = [found[above]] if above in found else []
        found[above] = max([*traces, *known], key=_newest_s)
    return found


def _has_metrics(streams: Iterable[tuple[Found, Placement]]) -> bool:
    return any(_is_metrics(each) for each, _ in streams)


def _is_metrics(found: Found) -> bool:
    """Does it hold more than times? What does not is shown beside the run in whose folder it lies."""
    return found.kind is None or found.kind.has_metrics


def _put_beside(grouped: Grouped, trace: Found | None, streams: Sequence[tuple[Found, Placement]]) -> None:
    if trace is None:
        return
    paths = {each.path for each, _ in streams}
    own = [run for run in grouped.runs if run.path in paths]
    if not own:
        return
    main = max(own, key=_newest_s)
    joined = main._replace(beside=(trace._replace(role="trace"), *main.beside)[: MAX_STREAMS - 1])
    grouped.runs = [joined if run is main else run for run in grouped.runs]


def _joined(main: Found, beside: Sequence[Found], home: Path) -> Found:
    name = whole_path(home).name
    return main._replace(name=Label.of(name) if name else main.name, beside=tuple(beside[: MAX_STREAMS - 1]))


def _best(streams: list[tuple[Found, Placement]], grouped: Grouped) -> list[tuple[Found, Placement]]:
    """Those of the most complete kind; the others hold the same again."""
    if not streams:
        return []
    best = min(_rank(each) for each, _ in streams)
    kept = [one for one in streams if _rank(one[0]) == best]
    if best == KINDS.index(WHOLE_JSON):
        states = [one for one in kept if Path(one[0].path).name == "trainer_state.json"]
        newest = max(states, key=lambda one: (one[0].modified_s or 0.0, one[0].path), default=None)
        kept = [one for one in kept if one not in states or one is newest]
    same = f"the same run as {kept[0][0].path}"
    copies = [each for each, spot in streams if (each, spot) not in kept]
    grouped.repeated += [(each.path, same) for each in copies]
    first, spot = kept[0]
    kept[0] = first._replace(copies=tuple(path for each in copies for path in each.paths)), spot
    return kept


def _newest_s(found: Found) -> float:
    return max(each.modified_s or 0.0 for each in (found, *found.beside))


def _precedence(found: Found) -> tuple[int, str]:
    """The part that makes the updates comes first: its steps are the run's."""
    if not found.role:
        return -1, ""
    order = MAIN_ROLES.index(found.role) if found.role in MAIN_ROLES else len(MAIN_ROLES)
    return order, found.role


def _natural(role: str) -> list[tuple[int, str]]:
    """Rank 10 comes after rank 9."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", role)]


def _rank(found: Found) -> int:
    return KINDS.index(found.kind) if found.kind is not None else len(KINDS)


def _sequences(files: Iterable[Found], titles: Mapping[str, str]) -> list[Found]:
    parts: dict[tuple[Path, str], list[Found]] = {}
    archives: dict[Path, list[Found]] = {}
    for each in files:
        path = Path(each.path)
        if each.kind is TELESCOPE:
            archives.setdefault(path.parent.parent, []).append(each)
            continue
        name = (
            "tfevents"
            if each.kind is TENSORBOARD
            else path.name
            if split_member(each.path) or each.kind is TABLES
            else bare_name(path.name)
        )
        folder = path.parent
        if each.kind is WANDB and _WANDB_FOLDER.match(folder.name):
            folder = folder.parent
            name = f"{titled_part(titles.get(each.path, ''))} {name}"
        parts.setdefault((folder, name), []).append(each)
    own = {Path(path).parent: title for path, title in titles.items() if title}
    return [
        *map(join, parts.values()),
        *(_folder(folder, found, own.get(folder.parent, "")) for folder, found in archives.items()),
    ]


def _folder(folder: Path, files: list[Found], title: str) -> Found:
    """The folder above archives that are written anew: it is followed as one stream, called as its W&B run is."""
    size = sum(each.size for each in files)
    modified_s = max((each.modified_s or 0.0 for each in files), default=None)
    name = titled(title, str(folder / "metrics"))
    return Found(str(folder), name, size, modified_s, TELESCOPE)


def join(files: list[Found]) -> Found:
    """One stream of the files of one name: event files by name, rotated ones by number, resumed W&B runs by date."""
    if len(files) == 1:
        return files[0]
    *earlier, last = sorted(files, key=lambda each: (_started(each.path), -_rotation(each.path), Path(each.path).name))
    name = last.name if last.kind is not TENSORBOARD else name_of(str(Path(last.path).parent / "metrics"))
    return last._replace(name=name, earlier=tuple(each.path for each in earlier))


def _started(path: str) -> str:
    """When a W&B run was begun or resumed, as its folder says; empty for anything else."""
    found = _WANDB_FOLDER.match(Path(path).parent.name)
    return found[1] if found else ""


def _rotation(path: str) -> int:
    """How often a file was moved out of the way: 2 for `x.jsonl.2.gz`, 0 for the one that is written."""
    name = Path(path).name
    number = re.search(r"\.(\d+)(\.(gz|bz2|zst))?$", name)
    return int(number[1]) if number and "tfevents" not in name else 0


class Placement(NamedTuple):
    """Where a file belongs.

    Attributes:
        home: the run's own folder, above those that a trainer makes in it.
        role: the part that wrote it; empty for the whole trainer.
    """

    home: Path
    role: str = ""
    is_rank: bool = False


def place(files: Iterable[Found], titles: dict[str, str]) -> list[tuple[Found, Placement]]:
    """Every file with its place; a part is believed only where another part of the same run stands beside it.

    Args:
        titles: path → what the run calls itself in the file, where it does.
    """
    files = list(files)
    event_folders = {Path(each.path).parent: each for each in files if each.kind is TENSORBOARD}
    spots = [
        (each, _rank_spot(each.path) or _below_spot(each, event_folders), _role_spot(each.path, titles))
        for each in files
    ]
    parts: dict[Path, set[str]] = {}
    for _, sure, guess in spots:
        if sure is None and guess is not None:
            parts.setdefault(guess.home, set()).add(guess.role)
    placed = []
    for each, sure, guess in spots:
        if each.kind is TABLES or split_member(each.path) is not None:
            # A tracker keeps the runs of many trainers: each is one of its own, whatever stands beside it.
            placed.append((each, Placement(Path(each.path))))
        elif sure is not None:
            placed.append((each, sure))
        elif guess is not None and len(parts[guess.home]) > 1:
            placed.append((each, guess))
        else:
            placed.append((each, Placement(home_of(Path(each.path).parent))))
    return placed


def _rank_spot(path: str) -> Placement | None:
    where = Path(path)
    stem = _RANK_STEM.fullmatch(Path(bare_name(where.name)).stem)
    if stem is not None and "tfevents" not in where.name:
        return Placement(home_of(where.parent), f"rank {int(stem[2])}", is_rank=True)
    if not any(map(_RANK_FOLDER.fullmatch, where.parts)):
        return None
    for folder in where.parents:
        found = _RANK_FOLDER.fullmatch(folder.name)
        if found is None:
            continue
        above = folder.parent
        if above.parent.name in INNER_FOLDERS and above.name not in INNER_FOLDERS:
            return Placement(home_of(above.parent), f"{above.name} rank {int(found[1])}", is_rank=True)
        return Placement(home_of(above), f"rank {int(found[1])}", is_rank=True)
    return None


def _below_spot(found: Found, event_folders: dict[Path, Found]) -> Placement | None:
    folder = Path(found.path).parent
    if found.kind is not TENSORBOARD:
        return None
    for above in folder.parents:
        parent = event_folders.get(above)
        if parent is not None and _is_begun_during(found, parent):
            return Placement(home_of(above), str(folder.relative_to(above)))
    return None


def _is_begun_during(inner: Found, outer: Found) -> bool:
    """Was the first file of one stream begun while the other was written, as the names of event files say?"""
    begun_s, from_s = _begun_s(inner.paths[0]), _begun_s(outer.paths[0])
    if begun_s is None or from_s is None:
        return True
    return from_s - _SLACK_S <= begun_s <= (outer.modified_s or begun_s) + _SLACK_S


def _begun_s(path: str) -> int | None:
    """When an event file was begun: seconds since the epoch in its name."""
    found = _BEGUN.search(Path(path).name)
    return int(found[1]) if found else None


def titled_part(title: str) -> str:
    """The part that a W&B run is called after, as in `grpo_trainer`; empty for a whole run."""
    name, _, last = title.rpartition("_")
    return last if name and last in _ROLES else ""


def _role_spot(path: str, titles: dict[str, str]) -> Placement | None:
    where = Path(path)
    title = titles.get(path, "")
    if part := titled_part(title):
        return Placement(home_of(where.parent) / title.removesuffix(f"_{part}"), part)
    stem = Path(bare_name(where.name)).stem
    if stem in _ROLES and "tfevents" not in where.name:
        return Placement(home_of(where.parent), stem)
    folder = where.parent
    if folder.name in _ROLES or (folder.parent.name == "tensorboard" and folder.parent.parent.name == "monitor"):
        return Placement(home_of(folder.parent), folder.name)
    return None
