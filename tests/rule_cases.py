"""Cases of the rules, `unit/rules/cases/*.toml`: courses of metrics, and the level that a change in them raises."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from courses import RECORDS, Course, changed

FOLDER = Path(__file__).parent / "unit" / "rules" / "cases"


def cases() -> Iterator[tuple[str, str, Mapping[str, str], Mapping[str, str], str]]:
    for path in sorted(FOLDER.glob("*.toml")):
        for rule, table in tomllib.loads(path.read_text()).items():
            for level in ("INFO", "WARN", "CRIT", "silent"):
                for change in table.get(level, ()):
                    yield rule, level, table["healthy"], change, table.get("algorithm", "grpo")


def values(healthy: Mapping[str, str], change: Mapping[str, str]) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for name in healthy.keys() | change.keys():
        draw = random.Random(name)
        base = Course.read(healthy[name])._replace(first=1) if name in healthy else None
        new = Course.read(change[name]) if name in change else None
        found[name] = []
        for record in range(1, RECORDS + 1):
            value = base.noisy(base.at(record), draw) if base else None
            if new is not None and new.first <= record <= new.last:
                value = changed(value or 0.0, new, base, record, draw)
            found[name].append(value if base is None or record % base.every == 0 else None)
    return found
