"""Updates the drawing of the rooms in docs/architecture.md: `python docs/generate_architecture.py`.

The drawing and the table come from `[tool.rltop.rooms]` in pyproject.toml, against which
a test checks every import, and from the first line of each room's docstring.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "architecture.md"
_BLOCK = re.compile(r"(<!-- begin: rooms -->\n).*?(<!-- end: rooms -->)", re.DOTALL)
FOUNDATION = "foundation"


def plan() -> Mapping[str, Sequence[str]]:
    """Room → the rooms that it may know, as pyproject.toml says."""
    found: Mapping[str, Sequence[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["rltop"]["rooms"]
    return found


def floors(rooms: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Rooms by floor, the highest first: a room is one floor above the highest room that it imports."""
    heights: dict[str, int] = {}

    def height(room: str) -> int:
        if room not in heights:
            heights[room] = 1 + max((height(other) for other in rooms[room]), default=-1)
        return heights[room]

    for room in rooms:
        height(room)
    return [[room for room in rooms if heights[room] == floor] for floor in range(max(heights.values()), -1, -1)]


def purpose(room: str) -> str:
    """The first line of a room's docstring."""
    place = ROOT / "rltop" / room
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]


def drawing() -> str:
    """The floors as text, then each room with its purpose and its imports."""
    planned = plan()
    rooms = {room: known for room, known in planned.items() if room != FOUNDATION}
    drawn = ["   ".join(f"[ {room} ]" for room in floor) for floor in floors(rooms)]
    lines = ["```", *(line.center(100).rstrip() for line in drawn)]
    ground = " · ".join(f"{one}/" if (ROOT / "rltop" / one).is_dir() else one for one in planned[FOUNDATION])
    lines += ["─" * 100, ground.center(100).rstrip(), "```", "", "| room | purpose | may import |", "|---|---|---|"]
    for floor in floors(rooms):
        for room in floor:
            known = ", ".join(f"`{other}`" for other in rooms[room])
            lines.append(
                f"| `{room}{'/' if (ROOT / 'rltop' / room).is_dir() else '.py'}` | {purpose(room)} | {known} |"
            )
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with an updated drawing."""
    return _BLOCK.sub(lambda found: found[1] + drawing() + found[2], TARGET.read_text())


if __name__ == "__main__":
    TARGET.write_text(page())
