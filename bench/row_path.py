"""How many files and functions of the project stand between a row's arrival and the cell that shows it?

    python bench/row_path.py [COMMIT ...] [--names]

Counted, not timed: the application runs without a terminal over a recorded run, rows are appended to its file one by
one, and a profiler notes every function of `rltop/` that is called until the row's step is drawn, and every file that
one of them stands in. Those count that are called for each of the rows: what a timer or the first row alone calls
(looks for logs, imports, the first picture) is not on a row's way. Without COMMIT: the tree as it stands; each commit
is checked out by itself. `--names` lists the functions, a file at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
SIZE = (120, 40)
ROWS = 5


def package_of(root: Path) -> Path:
    """The folder `rltop/` of a checkout; modules are imported from there from now on."""
    sys.path[:0] = [str(root), str(root / "tests")]
    import rltop

    package = Path(rltop.__file__ or "").parent
    if package.parent != root:
        raise SystemExit(f"imported {package}, not {root}")
    return package


def called_for_a_row(root: Path) -> dict[str, list[str]]:
    """The functions called for each of the last rows, by file of `rltop/`.

    Args:
        root: the checkout to import modules and `tests/screens.py` from.
    """
    package = package_of(root)
    import screens

    from rltop.clock import FakeClock

    called: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{package}/"):
            code = frame.f_code
            if not code.co_name.startswith("<") or code.co_name == "<lambda>":
                called.add((code.co_filename, code.co_qualname))

    async def watch(path: Path, rows: Sequence[bytes]) -> set[tuple[str, str]]:
        for_each: set[tuple[str, str]] = set()
        clock = FakeClock()
        app = screens.app_over(path, clock=clock)
        async with app.run_test(size=SIZE) as pilot:
            for row in rows:
                clock.advance(10.0)  # what a timer asks for comes before the row
                await pilot.pause(0.5)
                wanted = f"step {json.loads(row)['step']}"
                if wanted in screens.page_text(app):
                    raise SystemExit(f"{wanted!r} was there before its row")
                clock.advance(0.5)  # the pace of pictures allows the next one
                called.clear()
                threading.setprofile(note)
                sys.setprofile(note)
                try:
                    with path.open("ab") as file:
                        file.write(row)
                    app.session.notifier.notify()
                    for _ in range(200):
                        await asyncio.sleep(0.02)
                        sys.setprofile(None)
                        is_shown = wanted in screens.page_text(app)
                        sys.setprofile(note)
                        if is_shown:
                            break
                finally:
                    sys.setprofile(None)
                    threading.setprofile(None)
                if not is_shown:
                    raise SystemExit(f"{wanted!r} did not come")
                for_each = for_each & called if for_each else set(called)
        return for_each

    rows = screens.RECORDED.read_bytes().splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        path.write_bytes(b"".join(rows[:-ROWS]))
        found: dict[str, list[str]] = defaultdict(list)
        for file, name in sorted(asyncio.run(watch(path, rows[-ROWS:]))):
            found[str(Path(file).relative_to(package))].append(name)
    return found


def called_in(root: Path) -> dict[str, list[str]]:
    """The same in a separate process, so that another checkout can be imported."""
    done = subprocess.run(
        [sys.executable, str(HERE), "--root", str(root)], check=True, stdout=subprocess.PIPE, cwd=root
    )
    counted: dict[str, list[str]] = json.loads(done.stdout)
    return counted


def called_at(commit: str) -> dict[str, list[str]]:
    """The same for a commit, which is checked out temporarily; `.` is the working tree."""
    if commit == ".":
        return called_in(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            return called_in(tree)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commits", nargs="*", metavar="COMMIT")
    parser.add_argument("--names", action="store_true", help="list the functions")
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.root:
        print(json.dumps(called_for_a_row(options.root.resolve())))
        return
    print("| tree | files | rooms | functions |\n|---|---|---|---|")
    for commit in options.commits or ["."]:
        counted = called_at(commit)
        rooms = {file.partition("/")[0] for file in counted}
        print(f"| {commit} | {len(counted)} | {len(rooms)} | {sum(map(len, counted.values()))} |", flush=True)
        if options.names:
            for file, names in counted.items():
                print(f"  {file}: {', '.join(names)}", file=sys.stderr)


if __name__ == "__main__":
    main()
