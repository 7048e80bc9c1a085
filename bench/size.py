"""How large is the project? Files, lines and lines of docstrings of each room of `rltop/`.

    python bench/size.py [COMMIT ...]

Without COMMIT: the tree as it stands. Lines are those of Python files that are no docstring: comments and blank lines
count. Lines of TOML, text and CSV stand beside them.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
DATA = (".toml", ".txt", ".csv")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def files_of(commit: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Each file below `rltop/` with its text; from the working tree if `commit` is empty."""
    if not commit:
        for path in sorted((ROOT / "rltop").rglob("*")):
            if path.suffix in (".py", *DATA):
                yield PurePosixPath(path.relative_to(ROOT / "rltop").as_posix()), path.read_text(encoding="utf-8")
        return
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit, "rltop"], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            path = PurePosixPath(member.name).relative_to("rltop")
            file = tar.extractfile(member) if path.suffix in (".py", *DATA) else None
            if file is not None:
                yield path, file.read().decode()


def docstring_lines(text: str) -> int:
    found = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Documented) and ast.get_docstring(node, clean=False) is not None:
            said = node.body[0]
            found += (said.end_lineno or said.lineno) - said.lineno + 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commits", nargs="*", default=[""])
    for commit in parser.parse_args().commits:
        rooms: dict[str, Counter[str]] = {}
        for path, text in files_of(commit):
            counts = rooms.setdefault(path.parts[0] if len(path.parts) > 1 else "top level", Counter())
            lines = len(text.splitlines())
            if path.suffix != ".py":
                counts["data"] += lines
                continue
            said = docstring_lines(text)
            counts.update(files=1, lines=lines - said, docstrings=said)
        print(f"| {commit or 'as it stands'} | files | lines | docstrings | data |\n|---|---|---|---|---|")
        for room, counts in [*sorted(rooms.items()), ("**all**", sum(rooms.values(), Counter()))]:
            print(
                f"| {room} | {' | '.join(f'{counts[name]:,}' for name in ('files', 'lines', 'docstrings', 'data'))} |"
            )


if __name__ == "__main__":
    main()
