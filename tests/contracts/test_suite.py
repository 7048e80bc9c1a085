"""`make test` runs every test once, fails when any part fails, and its last line is the total."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import suite

ROOT = Path(__file__).resolve().parents[2]


def test_every_folder_of_tests_is_in_one_part() -> None:
    folders = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if any(path.rglob("test_*.py"))}
    together, one_by_one = suite.parts([], 2)
    named = [each for each in (*together, *one_by_one) if each.startswith("tests/")]
    assert sorted(named) == sorted(folders)
    assert "-n" in together and "-n" not in one_by_one


def test_a_part_of_the_suite_can_be_named() -> None:
    assert suite.parts(["tests/unit/stats/"], 3) == [["-n", "3", "--dist", "loadfile", "tests/unit/stats"]]
    assert suite.parts(["tests/ui"], 2) == [["tests/ui"]]


GOOD = "def test_good(record_property):\n    record_property('took_s', 1)\n"
BAD = GOOD + "def test_bad():\n    assert False\n"
TORN = """
import pytest
@pytest.fixture
def torn():
    yield
    raise RuntimeError
def test_torn(torn): pass
@pytest.mark.skip(reason="not here")
def test_skipped(): pass
"""


@pytest.mark.parametrize(
    ("parts", "code", "total"),
    [
        ((GOOD, GOOD), 0, "2 passed, 0 failed, 0 skipped in "),
        ((BAD, GOOD), 1, "2 passed, 1 failed, 0 skipped in "),
        ((GOOD, BAD), 1, "2 passed, 1 failed, 0 skipped in "),
        ((GOOD, TORN), 1, "1 passed, 1 failed, 1 skipped in "),
        (("import nothing_of_that_name", GOOD), 1, "1 passed, 1 failed, 0 skipped in "),
        (("import os; os._exit(9)", GOOD), 1, "1 passed, 1 failed, 0 skipped in "),
        (("", GOOD), 1, "1 passed, 1 failed, 0 skipped in "),
    ],
    ids=["good", "first-fails", "last-fails", "torn", "not-collected", "broken-off", "empty"],
)
def test_a_failure_of_any_part_fails_the_whole(tmp_path: Path, parts: tuple[str, str], code: int, total: str) -> None:
    script = "import sys; from tests import suite\n"
    files = []
    for number, text in enumerate(parts):
        files.append(tmp_path / f"test_part_{number}.py")
        files[-1].write_text(text)
    script += f"suite.parts = lambda *_: {[['-p', 'no:cacheprovider', str(file)] for file in files]!r}\n"
    script += "sys.exit(suite.main([]))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(total), done.stdout
