"""Runs every benchmark and writes bench/RESULTS.md.

    python bench/run.py [NAME…] [--out FILE] [--timeout SECONDS]

With names only these are run, and only their sections are replaced. What a
benchmark is: bench/README.md.
"""

from __future__ import annotations

import argparse
import ast
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "RESULTS.md"
PREFIX = "bench_"

WRITTEN_ELSEWHERE = ("beside", "fuzz", "score", "simulated kinds", "viewers")
"""Sections written by the scripts of these names, not by benchmarks."""

KEPT_BECAUSE = {
    "latency": "The slowest key in a hundred meets a full collection of garbage; the time cursor paints every row of "
    "the page. Both are below what a person sees as a delay, and stay as the aim.",
    "quiet_files": "Every quiet file costs one `stat` in some seconds, on a network file system more seldom; the bound "
    "stays because a thousand runs in one list are wanted.",
}
"""Why a missed bound is kept, printed below the section; a section without a reason has to meet its bounds."""

HEAD = """\
# Results

Written by `make bench`; every section says when, where and how it was measured. Numbers of different machines are not
comparable; ratios within a table are.
"""


def benchmarks() -> dict[str, Path]:
    return {path.stem.removeprefix(PREFIX): path for path in sorted(HERE.glob(f"{PREFIX}*.py"))}


def question(path: Path) -> str:
    """First line of the script's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.partition("\n")[0]


def machine() -> str:
    """CPU, usable cores, memory, system, Python, load."""
    model = "unknown CPU"
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
        memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (OSError, ValueError):
        memory_gb = float("nan")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{model}, {cores} cores, {memory_gb:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )


def commit() -> str:
    """Short hash of the checkout, marked if files differ from it."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "no git"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def section(name: str, path: Path, timeout_s: float) -> tuple[str, bool]:
    """Run one benchmark; returns its section of the results, and whether it succeeded."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    head = f"## {name}\n\n{question(path)}\n\n`python {path.relative_to(ROOT)}` · {stamp} · {commit()}\n{machine()}\n\n"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]).rstrip(":")
    }
    try:
        done = subprocess.run(
            [sys.executable, str(path)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{head}did not finish within {timeout_s:.0f} s\n", False
    if done.returncode:
        return f"{head}failed with exit code {done.returncode}\n", False
    return f"{head}{done.stdout.strip()}\n", True


def sections_of(text: str) -> dict[str, str]:
    """The sections of an earlier RESULTS.md by name."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {part[3:].partition("\n")[0].strip(): part.rstrip() + "\n" for part in parts}


def explained(name: str, text: str) -> str:
    """A section with the reason for keeping a bound that it misses."""
    text = text.partition(_WHY)[0].rstrip() + "\n"
    if "**missed**" not in text or name not in KEPT_BECAUSE:
        return text
    return f"{text}\n{_WHY}{KEPT_BECAUSE[name]}\n"


_WHY = "Why a missed bound is kept: "


def replace_section(name: str, text: str, out: Path = RESULTS) -> None:
    """Replace the section of this name and leave the others unchanged."""
    kept = sections_of(out.read_text()) if out.exists() else {}
    out.write_text("\n".join([HEAD, *(explained(*each) for each in sorted((kept | {name: text}).items()))]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; all without")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS", help="per benchmark")
    arguments = parser.parse_args()
    known = benchmarks()
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known) or 'none'}")
    kept = sections_of(arguments.out.read_text()) if arguments.out.exists() else {}
    if not arguments.names:
        kept = {name: text for name, text in kept.items() if name in WRITTEN_ELSEWHERE}
    is_good = True
    for name in arguments.names or known:
        print(f"{name} …", file=sys.stderr, flush=True)
        kept[name], went_well = section(name, known[name], arguments.timeout)
        is_good &= went_well
    body = [explained(name, kept[name]) for name in sorted(kept) if name in known or name in WRITTEN_ELSEWHERE]
    arguments.out.write_text("\n".join([HEAD, *body]))
    print(f"{arguments.out} written", file=sys.stderr)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
