"""What pip installs is the whole program: code, themes, fixtures, stylesheets."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of a wheel built from this checkout, without network or isolation."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: the wheel cannot be built offline")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_themes_and_fixtures_are_in_the_wheel(names: set[str]) -> None:
    for folder in ("themes", "fixtures"):
        shipped = {
            f"rltop/_data/{path.relative_to(ROOT)}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and path.suffix in {".toml", ".jsonl"}
        }
        assert shipped
        assert shipped <= names


def test_every_file_of_the_package_is_in_the_wheel(names: set[str]) -> None:
    here = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "rltop").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert here <= names


def test_nothing_else_is_in_the_wheel(names: set[str]) -> None:
    beside = {name for name in names if name.split("/")[0] != "rltop" and ".dist-info/" not in name}
    assert {name.partition(".data/")[2] for name in beside} == {"data/share/man/man1/rltop.1"}
    assert not [name for name in names if "__pycache__" in name]


def test_the_command_and_the_licence_are_in_the_wheel(names: set[str]) -> None:
    assert any(name.endswith(".dist-info/entry_points.txt") for name in names)
    assert any("LICENSE" in name for name in names)
