"""Does one commit show what another one shows? Every document and every page, over every recorded run.

    python bench/kept.py OLD NEW [--stage structure|pages|wording] [--only PART] [--sizes 120x40] [--out FILE]

Each side is checked out by itself and shows what `bench/shown.py` of that side collects; an input that a side fails
on counts as not kept. A stage says what must be kept:

| stage | documents | pages |
|---|---|---|
| `structure` | identical | identical: text, roles, targets, selection |
| `pages` | identical | the same targets and levels; the same numbers, but for those of columns that a width drops |
| `wording` | identical but for headline, message, reasons in words and the names of evidence | not compared |

NEW may be `.`, the tree as it stands. What a commit shows is kept in `bench/data/shown/`, so that a baseline is drawn
once. Recorded runs are found through RLTOP_RUNS (and a folder `reality` beside it); the fixtures are always compared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
KEPT = HERE / "data" / "shown"
TOGETHER = ("fixtures/trinity", "fixtures/telescope/archives", "fixtures/trl", "fixtures/parquet")
"""Directories that are also shown as a whole: several streams, runs in a list."""
STAGES = ("structure", "pages", "wording")
WORDS = ("headline", "message", "evidence", "sentence", "why", "cause", "causes", "look_next", "state_note",
         "first_bad_reason", "first_unreadable")  # fmt: skip
LEVELS = {"ok", "info", "warn", "crit", "nodata"}
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
BATCH = 4
"""Inputs per process, because starting one costs half a second."""


def inputs(only: str) -> list[str]:
    """Every metric file of the labelled runs and the fixtures, and some directories."""
    found = [str(ROOT / each) for each in TOGETHER]
    skipped = {".md", ".toml", ".json", ".zip"}
    found += [
        str(path)
        for path in sorted((ROOT / "fixtures").rglob("*"))
        if path.is_file() and path.suffix not in skipped and "rollouts" not in path.name
    ]
    runs = os.environ.get("RLTOP_RUNS")
    folders = [Path(runs), Path(runs).parent / "reality"] if runs else []
    for folder in folders:
        for label in sorted(folder.rglob("label.json")):
            names = sorted(label.parent.iterdir())
            found += [str(one) for one in names if one.is_file() and one.name not in ("label.json", "SOURCE.md")]
    return [path for path in found if only in path]


def checked_out(commit: str, folder: Path) -> Path:
    """The tree of a commit, checked out into a folder; the working tree for `.`."""
    if commit == ".":
        return ROOT
    tree = folder / commit.replace("/", "_")
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", "--quiet", tree, commit], check=True)
    return tree


def revision(commit: str) -> str:
    """The cache name of a commit; empty for the working tree, which may change."""
    if commit == ".":
        return ""
    found = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short=12", f"{commit}^{{commit}}"],
        check=True,
        capture_output=True,
        text=True,
    )
    return found.stdout.strip()


def collect(tree: Path, paths: list[str], out: Path, jobs: int, sizes: str) -> None:
    """Let a tree show some inputs and save the output; both sides use the fixtures of the working tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "TZ": "UTC", "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
    # A hostile fixture may contain half of a surrogate pair.
    environment["PYTHONIOENCODING"] = "utf-8:surrogatepass"
    environment["XDG_STATE_HOME"] = str(tree / "bench" / "data" / "state")  # what a person keeps changes pages
    batches = [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]

    def shown(batch: list[str]) -> bytes:
        command = [sys.executable, str(tree / "bench" / "shown.py"), *batch, "--sizes", sizes]
        done = subprocess.run(command, check=False, capture_output=True, env=environment, cwd=tree)
        if not done.returncode:
            return done.stdout
        if len(batch) > 1:
            return b"".join([shown([one]) for one in batch])
        fault = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return json.dumps({"file": batch[0], "document": "fails", "says": fault}).encode() + b"\n"

    with ThreadPoolExecutor(jobs) as pool, out.open("wb") as file:
        file.writelines(pool.map(shown, batches))


def read(path: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """Saved lines by subject."""
    found = {}
    for line in path.read_bytes().decode("utf-8", "surrogatepass").split("\n")[:-1]:
        told = json.loads(line)
        where = (told.pop("file"), told.pop("document", ""), told.pop("page", ""), told.pop("size", ""))
        found[(*where, told.pop("at", ""))] = told
    return found


def differences(old: Mapping[str, Any], new: Mapping[str, Any], stage: str) -> list[str]:
    """What is not kept of a document or page; empty if all is."""
    if "says" in old or "says" in new:
        before, after = old.get("says"), new.get("says")
        if stage == "wording":
            before, after = _without_words(before), _without_words(after)
            if isinstance(before, str) and isinstance(after, str):
                return []  # why a path is refused, in words
        return [] if before == after else list(_paths(before, after))[:5]
    if stage == "structure":
        return [] if old == new else list(_rows_that_differ(old, new))[:4]
    return list(_not_kept(old, new)) if stage == "pages" else []


def _without_words(said: Any) -> Any:
    if isinstance(said, dict):
        return {name: _without_words(value) for name, value in said.items() if name not in WORDS}
    return [_without_words(one) for one in said] if isinstance(said, list) else said


def _paths(old: Any, new: Any, at: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from _paths(old.get(name), new.get(name), f"{at}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _paths(before, after, f"{at}[{number}]")
    elif old != new:
        yield f"{at}: {str(old)[:120]} → {str(new)[:120]}"


def _text(row: Mapping[str, Any]) -> str:
    return "".join(piece[0] for piece in row["pieces"])


def _rows_that_differ(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for part in ("rows", "detail", "status"):
        before, after = old.get(part, []), new.get(part, [])
        for number in range(max(len(before), len(after))):
            was, is_now = before[number : number + 1], after[number : number + 1]
            if was != is_now:
                texts = [_text(one[0]) if one and isinstance(one[0], dict) else str(one) for one in (was, is_now)]
                what = "roles or targets" if texts[0] == texts[1] else "text"
                yield f"{part} {number}, {what}:\n      - {texts[0]}\n      + {texts[1]}"
    if old.get("selected") != new.get("selected"):
        yield f"selected: {old.get('selected')} → {new.get('selected')}"


def _not_kept(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Report lost targets, levels and numbers."""
    for name, of in (("targets", _targets), ("levels", _levels)):
        lost, come = of(old) - of(new), of(new) - of(old)
        if lost or come:
            yield f"{name}: − {sorted(map(str, lost))[:6]} + {sorted(map(str, come))[:6]}"
    lost = _numbers(old) - _numbers(new)
    if lost:
        yield f"numbers gone: {sorted(lost.elements())[:12]}"


def _targets(page: Mapping[str, Any]) -> Counter[tuple[Any, ...]]:
    return Counter({tuple(hot[2:]) for row in page["rows"] for hot in row["targets"]})


def _levels(page: Mapping[str, Any]) -> Counter[str]:
    return Counter({role for row in page["rows"] for _, role in row["pieces"] if role in LEVELS})


def _numbers(page: Mapping[str, Any]) -> Counter[str]:
    return Counter(number for row in page["rows"] for number in _NUMBER.findall(_text(row)))


def main() -> int:
    """Compare two commits; returns 1 if something is not kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--stage", choices=STAGES, default=STAGES[0])
    parser.add_argument("--only", default="", help="inputs whose path has this part")
    parser.add_argument("--sizes", default="80x24,120x40,200x60", help="sizes of the screen")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="every difference, in full")
    arguments = parser.parse_args()
    paths = inputs(arguments.only)
    KEPT.mkdir(parents=True, exist_ok=True)
    sides = []
    with tempfile.TemporaryDirectory() as folder:
        for commit in (arguments.old, arguments.new):
            name = revision(commit)
            about = re.sub(r"[^\w-]+", "_", f"{arguments.only} {arguments.sizes}")
            kept = KEPT / f"{name or 'tree'} {about}.jsonl"
            if not name or not kept.exists():
                part = kept.with_suffix(".part")
                collect(checked_out(commit, Path(folder)), paths, part, arguments.jobs, arguments.sizes)
                part.replace(kept)
            sides.append(read(kept))
    subprocess.run(["git", "-C", ROOT, "worktree", "prune"], check=True)
    return report(sides[0], sides[1], arguments.stage, arguments.out)


def report(old: Mapping[Any, Any], new: Mapping[Any, Any], stage: str, out: Path | None) -> int:
    """Print what is not kept, and how much was compared."""
    lines, by_page = [], Counter[str]()
    for where in sorted({*old, *new}):
        missing = "only before" if where not in new else "only after" if where not in old else ""
        found = [missing] if missing else differences(old[where], new[where], stage)
        if found:
            by_page[where[1] or where[2]] += 1
            lines.append("  ".join(part for part in where if part) + "".join(f"\n    {one}" for one in found))
    if out is not None:
        out.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="backslashreplace")
    for line in lines[:20]:
        print(line.encode(errors="backslashreplace").decode())
    print(f"{len(old)} documents and pages before, {len(new)} after, {len(lines)} not kept ({stage}): {dict(by_page)}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
