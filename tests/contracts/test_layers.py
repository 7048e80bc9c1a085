"""The house stands: every room knows only the rooms to its left."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rltop"


def test_import_contracts_are_kept() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [str(command), "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_room_stands_in_a_layer() -> None:
    """A package that no contract names would be free to import anything."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    named = {
        name.strip() for contract in contracts for layer in contract.get("layers", ()) for name in layer.split("|")
    }
    named |= {name for contract in contracts for name in contract.get("source_modules", ())}
    rooms = {f"rltop.{path.parent.name}" for path in PACKAGE.glob("*/__init__.py")}
    assert rooms <= named


def imports_of(path: Path) -> set[str]:
    """Top-level packages that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("plotext", {"ui/widgets/plot_pane.py"}),
        ("watchdog", {"sources/watch.py"}),
        ("orjson", {"decode/", "report/"}),
        ("textual", {"ui/"}),
        ("rich", {"ui/"}),
        ("numpy", set()),
        ("pandas", set()),
    ],
)
def test_a_library_is_imported_at_home_only(library: str, homes: set[str]) -> None:
    users = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if library in imports_of(path)}
    assert not {user for user in users if not any(user.startswith(home) for home in homes)}


def test_integrations_need_nothing_but_the_standard_library() -> None:
    allowed = sys.stdlib_module_names | {"rltop"}
    for path in (PACKAGE / "integrations").glob("*.py"):
        assert imports_of(path) <= allowed, path.name
