"""Does rltop work with the lowest and with the newest release that each dependency may have?

    python tests/dependency_bounds.py --environments FOLDER [--python NAME ...] [--only lowest|newest]

`make bounds` calls it. For every interpreter and for both ends of the bounds in
pyproject.toml it makes an environment below FOLDER, from wheels only because nodes may
have no compiler. In each it runs the part of the suite that starts the program in a
terminal, draws every page, quits, and reads every format. Missing interpreters are
named and skipped.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PYTHONS = ("python3.11", "python3.12", "python3.13")
"""The interpreters that pyproject.toml supports."""

ENDS = ("lowest", "newest")

COMMANDS = (
    (
        "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "tests/e2e/test_terminal_app.py",      # Textual in a real terminal: starts, draws every page, quits
        "tests/ui/test_runs.py",               # pages and keys, pytest-asyncio
        "tests/ui/test_chart.py",              # plotext
        "tests/golden/test_cases.py",          # every format of the fixtures, orjson
        "tests/unit/formats/test_compressed.py",
        "tests/unit/formats/test_parquet.py",   # zstandard
        "tests/unit/sources/test_watch.py",    # watchdog
        "tests/property/test_formats_split.py", # hypothesis
        "tests/contracts/test_wheel.py",       # hatchling
    ),
    ("-m", "ruff", "check", "."),
    ("-m", "mypy"),
    ("-c", "from importlinter.cli import lint_imports_command as run; run()"),
)  # fmt: skip
"""Commands run in every environment, by its interpreter."""

_LOWEST = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\w.]+)")


def requirements(end: str) -> Iterator[str]:
    """Every dependency of pyproject.toml, including optional ones, as written or pinned to its lowest release.

    Raises:
        SystemExit: a dependency has no lowest release.
    """
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = document["project"]
    for every in (document["build-system"]["requires"], project["dependencies"],
                  *project["optional-dependencies"].values()):  # fmt: skip
        for requirement in every:
            found = _LOWEST.match(requirement)
            if found is None:
                raise SystemExit(f"pyproject.toml: {requirement!r} does not say its lowest release")
            yield requirement if end == "newest" else f"{found['name']}=={found['version']}"


def is_here(python: str) -> bool:
    """Whether an interpreter is installed; a pyenv shim without an interpreter does not count."""
    if shutil.which(python) is None:
        return False
    return subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0


def install(python: str, end: str, home: Path) -> Path:
    """Make a fresh environment with one end of the bounds; returns its interpreter.

    Raises:
        CalledProcessError: it cannot be installed.
    """
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", home], check=True)
    own = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(own), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--only-binary", ":all:", *sorted(set(requirements(end)))], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", str(ROOT)], check=True)
    return own


def is_good(python: str, end: str, home: Path) -> bool:
    """Whether one end of the bounds can be installed and passes; prints what fails."""
    print(f"\n== {end} releases, {python}", flush=True)
    try:
        own = install(python, end, home)
    except subprocess.CalledProcessError:
        print(f"{end} releases cannot be installed for {python}", flush=True)
        return False
    # Run every command, so that one run shows all failures.
    codes = [subprocess.run([own, *command], cwd=ROOT, check=False).returncode for command in COMMANDS]
    return not any(codes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if an end of the bounds fails with an installed interpreter."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--environments", type=Path, required=True, help="folder in which they are made")
    parser.add_argument("--python", action="append", metavar="NAME", help="an interpreter; may be repeated")
    parser.add_argument("--only", choices=ENDS, help="one end of the bounds")
    options = parser.parse_args(arguments)
    said = []
    for python in options.python or PYTHONS:
        if not is_here(python):
            said.append(f"{python}: not on this machine, not tried")
            continue
        for end in [options.only] if options.only else ENDS:
            home = options.environments.resolve() / f"{Path(python).name}-{end}"
            said.append(f"{python}, {end} releases: {'good' if is_good(python, end, home) else 'NOT GOOD'}")
    print("", *said, sep="\n")
    return int(any(line.endswith("NOT GOOD") for line in said))


if __name__ == "__main__":
    sys.exit(main())
