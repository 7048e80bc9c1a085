"""What somebody wants of a run: the step to reach, and when it has to stop; kept for the run, in the user's state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rltop.resources import keep
from rltop.run.acknowledged import with_run
from rltop.run.meanings import quoted, said_in
from rltop.structs import NamedTuple

FILE_NAME = "goals.toml"
_HEAD = "# Written by rltop: target steps and limits, by run.\n"


class Goal(NamedTuple):
    """What somebody wants of one run.

    Attributes:
        target: the step to reach, in place of what the run says; None for that.
        until_s: when it has to stop, in seconds since the epoch; None for no limit.
    """

    target: int | None = None
    until_s: float | None = None


NO_GOAL = Goal()


def load(environment: Mapping[str, str] | None = None) -> Mapping[str, Goal]:
    """What the state file says, by absolute path of the run; nothing of what is no goal."""
    found = {}
    for path, table in said_in(FILE_NAME, "", environment).items():
        target, until_s = table.get("target"), table.get("until")
        goal = Goal(
            target if isinstance(target, int) and not isinstance(target, bool) and target > 0 else None,
            float(until_s) if isinstance(until_s, (int, float)) and not isinstance(until_s, bool) else None,
        )
        if goal != NO_GOAL:
            found[path] = goal
    return found


def of_path(path: str, told: Mapping[str, Goal]) -> Goal:
    return told.get(str(Path(path).absolute()), NO_GOAL) if told else NO_GOAL


def save(path: str, goal: Goal, environment: Mapping[str, str] | None = None) -> Path:
    """Keep the goal of the run at `path`, beside those of others.

    Raises:
        OSError: it cannot be written.
    """
    told = with_run(load(environment), path, goal if goal != NO_GOAL else None)
    lines = []
    for name, one in told.items():
        lines.append(f"[{quoted(name)}]")
        lines += [] if one.target is None else [f"target = {one.target}"]
        lines += [] if one.until_s is None else [f"until = {one.until_s!r}"]
        lines.append("")
    return keep(FILE_NAME, _HEAD + "\n".join(lines), environment)
