"""Run the test suite: what can run at once in parallel, then one after the other what must have the machine to itself.

    python tests/suite.py [--workers N] [FOLDER ...]

`make test` and `make unit` call it. A failure in one part does not keep the next from
running; the last line is the total of all of them. Ends with 1 when a test failed or a
part did not come to its end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent

TOGETHER = ("tests/unit", "tests/property", "tests/golden")
"""Run in parallel, a file at a time; tests marked `alone` have the machine to themselves."""

ONE_BY_ONE = ("tests/ui", "tests/e2e", "tests/contracts")
"""Screens, programs in a terminal, costs: they wait for something, or count it."""


COMPILED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of every part. Where modules may not be kept compiled, as in many images of Python, pytest rewrites
every test and each of four hundred programs compiles all that it imports: a third of the time of the suite."""


def outcomes(report: Path) -> Counter[str]:
    """How the tests of a part ended, counted by `passed`, `failed` and `skipped`, of pytest's XML report.

    A test that passes and then fails to tear down counts once, as failed.

    Raises:
        OSError: pytest has not written a report.
        ElementTree.ParseError: nor has it finished it.
    """
    found: dict[tuple[str, str], str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = (case.get("classname", ""), case.get("name", ""))
        tags = {each.tag for each in case}
        ended = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        if found.get(name) != "failed":
            found[name] = ended
    return Counter(found.values())


def run_part(arguments: Sequence[str]) -> tuple[int, Counter[str]]:
    """Run pytest once.

    Args:
        arguments: what pytest is told, beside where to write its report.

    Returns:
        Its exit code, and how its tests ended. A part that broke off has at least one failure.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        told = ["-q", f"--junit-xml={report}", "-o", "junit_family=xunit1"]  # the newer one refuses record_property
        command = [sys.executable, "-m", "pytest", *told, *arguments]
        code = subprocess.run(command, cwd=ROOT, env=COMPILED, check=False).returncode
        try:
            counts = outcomes(report)
        except (OSError, ElementTree.ParseError):
            counts = Counter()
    if code and not counts["failed"]:
        counts["failed"] = 1
    return code, counts


def parts(folders: Sequence[str], workers: int) -> list[list[str]]:
    """What to tell pytest, part by part; folders that neither list names run one by one.

    Args:
        folders: below the root of the checkout; all of the suite when there are none.
        workers: how many processes share what runs in parallel.
    """
    chosen = [folder.rstrip("/") for folder in folders] or [*TOGETHER, *ONE_BY_ONE]
    parallel = [each for each in chosen if each.startswith(TOGETHER)]
    serial = [each for each in chosen if each not in parallel]
    found = [["-n", str(workers), "--dist", "loadfile", *parallel]] if parallel else []
    return [*found, serial] if serial else found


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a test failed, or a part broke off; prints the total last."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2, help="processes for what runs in parallel (2)")
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="a part of tests/; all of it when none is named")
    options = parser.parse_args(arguments)
    began_s, codes, total = time.monotonic(), [], Counter[str]()
    for part in parts(options.folders, options.workers):
        code, counts = run_part(part)
        codes.append(code)
        total += counts
    counted = ", ".join(f"{total[ended]} {ended}" for ended in ("passed", "failed", "skipped"))
    print(f"\n{counted} in {time.monotonic() - began_s:.0f} s", flush=True)
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
