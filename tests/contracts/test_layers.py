"""The house stands: a room knows only the rooms that the plan in pyproject.toml says, and the plan is what is built."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rltop"
PLAN: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["rltop"]["rooms"]
FOUNDATION = frozenset(PLAN["foundation"])
"""What every room may know: small modules that know no room."""
ROOMS = {name: frozenset(known) for name, known in PLAN.items() if name != "foundation"}


def test_import_contracts_are_kept() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [str(command), "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def room_of(module: str) -> str:
    """The room of a dotted module name; empty for what is not of the house."""
    parts = module.split(".")
    return parts[1] if parts[0] == "rltop" and len(parts) > 1 else ""


@cache
def tree_of(path: Path) -> ast.Module:
    """What a file says, read once; without a look for garbage among its many nodes, two thirds of the time."""
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for one in getattr(node, name, ()):
            yield one
            yield from _statements(one)


@cache
def nodes_of(path: Path) -> tuple[ast.stmt, ...]:
    """Every import, class and function of a file, anywhere in it."""
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return tuple(node for node in _statements(tree_of(path)) if isinstance(node, kinds))


def arrows() -> Iterator[tuple[str, str, str]]:
    """Every import from one room to another: from, to, the file that it stands in."""
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        room = place.parts[0].removesuffix(".py")
        for node in nodes_of(path):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom) and node.module == "rltop":
                names = [f"rltop.{alias.name}" for alias in node.names if alias.name != "__version__"]
            for name in names:
                if room_of(name) not in ("", room):
                    yield room, room_of(name), place.as_posix()


def test_a_room_knows_only_the_rooms_that_the_plan_says() -> None:
    strangers = {
        f"{file}: {room} → {other}"
        for room, other, file in arrows()
        if other not in FOUNDATION and room in ROOMS and other not in ROOMS[room]
    }
    assert not strangers


def test_the_plan_has_every_room_and_no_arrow_that_nobody_uses() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - FOUNDATION
    modules = {path.stem for path in PACKAGE.glob("*.py") if path.stem not in ("__init__", "__main__")} - FOUNDATION
    assert set(ROOMS) == rooms | modules
    used = {(room, other) for room, other, _ in arrows()}
    assert not {f"{room} → {other}" for room, known in ROOMS.items() for other in known if (room, other) not in used}


def test_no_two_rooms_know_each_other() -> None:
    TopologicalSorter(ROOMS).prepare()


def test_the_foundation_knows_no_room() -> None:
    assert not {f"{file} → {other}" for room, other, file in arrows() if room in FOUNDATION and other not in FOUNDATION}


def module_graph(*, has_types: bool) -> dict[str, set[str]]:
    """Module → modules that it imports anywhere; with or without those that only type checkers import."""
    modules = {_name(path): path for path in PACKAGE.rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        found = graph.setdefault(module, set())
        typing_only = {id(node) for block in _statements(tree_of(path)) if _is_typing(block) for node in block.body}
        for node in nodes_of(path):
            if (id(node) in typing_only and not has_types) or not isinstance(node, ast.ImportFrom):
                continue
            if (node.module or "").startswith("rltop"):
                wanted = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {one if one in modules else node.module or "" for one in wanted} - {module}
    return graph


def test_no_module_imports_in_a_circle() -> None:
    """Not even late, inside a function; what only type checkers import is no dependency."""
    TopologicalSorter(module_graph(has_types=False)).prepare()


def test_the_circles_of_types_are_those_of_the_plan() -> None:
    graph = module_graph(has_types=True)

    def reached(module: str) -> frozenset[str]:
        found, queue = set[str](), [module]
        while queue:
            new = graph.get(queue.pop(), set()) - found
            found |= new
            queue += new
        return frozenset(found)

    reach = {module: reached(module) for module in graph}
    circles = {
        frozenset(one for one in reach[module] if module in reach[one]) for module in graph if module in reach[module]
    }
    rows = re.findall(r"^\| `(\w+)/`: (.+?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    named = {frozenset(f"rltop.{room}.{name}" for name in re.findall(r"`(\w+)`", names)) for room, names in rows}
    assert circles == named


def _is_typing(node: ast.stmt) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path: Path) -> set[str]:
    """Top-level packages that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


HOMES: dict[str, tuple[str, ...]] = {
    "plotext": ("app/plot_pane.py",),
    "watchdog": ("sources/watch.py",),
    "orjson": ("formats/",),
    "textual": ("app/", "screen/"),
    "rich": ("app/", "screen/"),
    "numpy": (),
    "pandas": (),
}


def test_a_library_is_imported_at_home_only() -> None:
    strangers = [
        f"{place} imports {library}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for place in [path.relative_to(PACKAGE).as_posix()]
        for library in HOMES.keys() & imports_of(path)
        if not place.startswith(HOMES[library])
    ]
    assert not strangers


def test_integrations_need_nothing_but_the_standard_library() -> None:
    allowed = sys.stdlib_module_names | {"rltop"}
    for path in (PACKAGE / "integrations").glob("*.py"):
        assert imports_of(path) <= allowed, path.name


def test_no_file_class_or_function_is_larger_than_a_person_reads_at_once() -> None:
    most = {ast.ClassDef: 700, ast.FunctionDef: 60, ast.AsyncFunctionDef: 60}
    too_large = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place, lines = path.relative_to(PACKAGE), len(path.read_text().splitlines())
        too_large += [f"{place}: {lines} lines"] if lines > 900 else []
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                too_large += [f"{place}: {node.name}, {lines} lines"] if lines > most[type(node)] else []
    assert not too_large


def test_on_how_many_examples_a_property_is_tried_is_decided_in_one_place() -> None:
    tests = Path(__file__).parents[1]
    asks = re.compile(r"^from hypothesis import (\([^)]*|[^\n]*)\bsettings\b", re.MULTILINE)
    assert [path for path in tests.rglob("*.py") if asks.search(path.read_text())] == [tests / "examples.py"]
