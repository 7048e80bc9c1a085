"""Alerts that somebody has acknowledged: quiet until they get worse; kept for the run, in the user's state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from rltop.model import Level, Verdict
from rltop.resources import keep
from rltop.run.meanings import quoted, said_in
from rltop.structs import NamedTuple

T = TypeVar("T")

FILE_NAME = "acknowledged.toml"
_HEAD = "# Written by rltop: acknowledged alerts, by run.\n"
_FARTHER = 1.5
_MOST_RUNS = 200


class Acknowledged(NamedTuple):
    """An alert as it was when somebody acknowledged it.

    Attributes:
        since_step: where it began; one that begins elsewhere is another.
        reach: how far its metric was from its baseline; None where it has none.
    """

    level: Level
    since_step: int
    reach: float | None

    def covers(self, verdict: Verdict) -> bool:
        """Is it this alert, and no worse: of no higher level, nor half as far again from its baseline?"""
        if not verdict.is_active or verdict.since_step != self.since_step or verdict.level > self.level:
            return False
        reach = _reach(verdict)
        return self.reach is None or reach is None or reach <= _FARTHER * self.reach


Acknowledgements = Mapping[str, Acknowledged]
"""Rule → its alert."""


def acknowledged(verdict: Verdict) -> Acknowledged:
    return Acknowledged(verdict.level, verdict.since_step, _reach(verdict))


def _reach(verdict: Verdict) -> float | None:
    if verdict.settled is not None:
        return abs(verdict.settled.value - verdict.settled.before)
    return None if verdict.lately is None or verdict.baseline is None else abs(verdict.lately - verdict.baseline)


def load(environment: Mapping[str, str] | None = None) -> Mapping[str, Acknowledgements]:
    """What the state file says, by absolute path of the run; nothing of what is no acknowledged alert."""
    found = {}
    for path, table in said_in(FILE_NAME, "", environment).items():
        alerts = {rule: one for rule, said in table.items() if (one := _read(said)) is not None}
        if alerts:
            found[path] = alerts
    return found


def _read(said: object) -> Acknowledged | None:
    if not isinstance(said, dict) or not isinstance(said.get("since"), int):
        return None
    level = next((one for one in (Level.INFO, Level.WARN, Level.CRIT) if one.word == said.get("level")), None)
    reach = said.get("reach")
    if level is None or not (reach is None or isinstance(reach, float)):
        return None
    return Acknowledged(level, said["since"], reach)


def of_path(path: str, told: Mapping[str, Acknowledgements]) -> Acknowledgements:
    return told.get(str(Path(path).absolute()), {}) if told else {}


def with_run(told: Mapping[str, T], path: str, said: T | None) -> Mapping[str, T]:
    """What is kept by run, with what is said of one in place of what it had; the runs said longest ago go."""
    own = str(Path(path).absolute())
    rest = [(name, each) for name, each in told.items() if name != own]
    return dict(rest[1 - _MOST_RUNS :] + ([(own, said)] if said else []))


def save(told: Mapping[str, Acknowledgements], environment: Mapping[str, str] | None = None) -> Path:
    """Write all of them, in place of what the file held.

    Raises:
        OSError: it cannot be written.
    """
    lines = []
    for path, alerts in told.items():
        lines.append(f"[{quoted(path)}]")
        for rule, one in sorted(alerts.items()):
            reach = "" if one.reach is None else f", reach = {one.reach!r}"
            lines.append(f'{quoted(rule)} = {{ level = "{one.level.word}", since = {one.since_step}{reach} }}')
        lines.append("")
    return keep(FILE_NAME, _HEAD + "\n".join(lines), environment)
