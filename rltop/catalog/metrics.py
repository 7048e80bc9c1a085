"""The catalogue: every quantity that rltop knows by meaning.

`metrics.txt` has a line for each metric, in the order in which a reference lists them;
`texts/` has what a reader of one metric sees, a file for each section, read when
somebody asks. Owns the canonical names, which rules, configuration and JSON use. Knows
nothing of trainers: how they spell a metric stands in `trainers/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from rltop.model import Direction, Metric, Unit
from rltop.resources import read_toml
from rltop.structs import NamedTuple

_HERE = Path(__file__).parent


class MetricText(NamedTuple):
    """What a reader of one metric is told.

    Attributes:
        help: what it is and how to read it, in two sentences; empty where the catalogue does not know the metric.
        related: canonical names of other metrics, in the order to check.
    """

    help: str = ""
    related: tuple[str, ...] = ()


def text_of(metric: Metric) -> MetricText:
    """The text of a metric; an empty one for a key that the catalogue does not know."""
    return _texts(metric.section)[metric.name] if metric.name in CATALOG else MetricText()


@cache
def _texts(section: str) -> Mapping[str, MetricText]:
    tables = read_toml(_HERE / "texts" / f"{section.replace(' ', '_')}.toml")
    return {
        name: MetricText(" ".join(own["help"].split()), tuple(own.get("related", "").split()))
        for name, own in tables.items()
    }


def _read_catalog() -> Mapping[str, Metric]:
    """The metrics of `metrics.txt`.

    Raises:
        ValueError: a line is not of six columns, or of an unknown unit or direction, or two have one name.
    """
    units, directions = {each.value: each for each in Unit}, {each.value: each for each in Direction}
    units["-"] = Unit.NONE
    found: dict[str, Metric] = {}
    section = ""
    for line in (_HERE / "metrics.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line[1:-1]
        elif line and line[0] != "#":
            name, title, unit, direction, low, high = map(str.strip, line.split("|"))
            if name in found or unit not in units or direction not in directions:
                raise ValueError(f"metrics.txt: {name}: named twice, or of an unknown unit or direction")
            bounds = (float(low) if low else None, float(high) if high else None)
            found[name] = Metric(name, title, section, units[unit], directions[direction], *bounds)
    return MappingProxyType(found)


CATALOG: Mapping[str, Metric] = _read_catalog()
"""Canonical name → metric, in the order in which a reference lists them."""
