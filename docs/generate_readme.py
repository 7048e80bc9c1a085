"""Renews the tables of README.md that come from the code: `python docs/generate_readme.py`.

A table stands between `<!-- begin: name -->` and `<!-- end: name -->`; the words around it are
written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path

from rltop.app.bindings import spell
from rltop.errors import EXIT_DIED, EXIT_FAULT, EXIT_FIRING, EXIT_NO_METRICS, EXIT_OK, EXIT_USAGE
from rltop.rows.keys import KEYS, Where
from rltop.rules.registry import ALL_SPECS
from rltop.rules.rule import Group, RuleSpec
from rltop.trainers import ALL, GENERIC, SETUP_HINTS

TARGET = Path(__file__).parents[1] / "README.md"

_BLOCK = re.compile(r"(<!-- begin: (\w+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)
_ALIAS_OF_LIVE = "live-end"

FAMILIES: Mapping[str, str] = {
    "nonfinite": "values that are not numbers",
    "gradient": "gradient norm",
    "loss": "loss",
    "lr": "learning rate",
    "clip": "clip fraction",
    "kl": "KL to the old policy and to the reference",
    "ratio": "importance ratio",
    "entropy": "entropy",
    "reward": "reward",
    "length": "answer length",
    "truncation": "cut-off answers and prompts",
    "groups": "groups without contrast",
    "advantage": "advantages",
    "validation": "evaluations",
    "mismatch": "training against inference",
    "offpolicy": "age of the rollouts",
    "critic": "critic",
    "preference": "DPO and its kin",
    "rm": "reward model",
    "embodied": "success of embodied policies",
    "collapse": "several of the above at once",
    "liveness": "silence and restarts",
    "performance": "step time, with the stage named; throughput, utilisation, waiting, single stages",
    "straggler": "slow answers in a group, slow tail of a batch",
    "balance": "work per rank",
    "memory": "memory of devices and host",
    "agentic": "failed rollouts, turns, tools",
    "facts": "new phases, checkpoints, evaluations, new metrics: never an alarm",
}
"""Family → what its rules look at."""


def keys() -> str:
    """What every screen takes, and what some screens take besides."""
    everywhere = (key for key in KEYS[Where.EVERYWHERE] if key.id != _ALIAS_OF_LIVE)
    lines = ["| key | |", "|---|---|", *(f"| {_as_code(each.keys)} | {each.tooltip} |" for each in everywhere)]
    for where, keys in KEYS.items():
        if where is not Where.EVERYWHERE:
            listed = (f"{_as_code(key.keys)} {key.footer.lower()}" for key in keys)
            lines.append(f"| {where.value.lower()} | {', '.join(listed)} |")
    return "\n".join(lines)


def _as_code(key: str) -> str:
    return " ".join(f"`{each}`" for each in spell(key))


def rules() -> str:
    """One row for each family, every rule by id and name."""
    lines = ["| looks at | rules |", "|---|---|"]

    def place(spec: RuleSpec) -> tuple[int, int]:
        return list(Group).index(spec.group), list(FAMILIES).index(spec.family)

    for _, specs in groupby(sorted(ALL_SPECS, key=place), key=place):
        listed = list(specs)
        names = " · ".join(f"[{spec.id}](docs/rules.md#{_anchor(spec)}) {spec.title}" for spec in listed)
        lines.append(f"| {FAMILIES[listed[0].family]} | {names} |")
    return "\n".join(lines)


def _anchor(spec: RuleSpec) -> str:
    """Of the rule's heading, as GitHub makes it."""
    heading = f"{spec.id}: {spec.title}".lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def trainers() -> str:
    """What is read today, and what its users do for it."""
    named = {dialect.name for dialect in ALL if dialect is not GENERIC}
    lines = ["| trainer | what you do | keys known by name |", "|---|---|---|"]
    followed = [entry for entry in SETUP_HINTS if entry.is_followed]
    for line, entries in groupby(followed, key=lambda entry: entry.line or entry.writes):
        listed = list(entries)
        names = ", ".join(entry.trainer for entry in listed)
        what = f"`{line}`" if listed[0].line else f"nothing: `{line}` is there by default"
        lines.append(f"| {names} | {what} | {'yes' if listed[0].trainer in named else '–'} |")
    others = ", ".join(entry.trainer for entry in SETUP_HINTS if not entry.is_followed)
    if others:
        lines += ["", f"No file of their own that rltop reads yet, but for their console log: {others}."]
    return "\n".join(lines)


def codes() -> str:
    """What `rltop check` and `rltop watch` answer a script."""
    rows = {
        EXIT_OK: "nothing at or above `--fail-on` (default `crit`) fires at the end; with `--ever`: fired at any time; "
        "`watch`: the run is over, and no CRIT has fired",
        EXIT_FIRING: "something does; `watch`: a CRIT has fired",
        EXIT_USAGE: "wrong usage, or a file that cannot be read",
        EXIT_NO_METRICS: "no metrics in it",
        EXIT_DIED: "`watch`: the run has died, or was given up",
        EXIT_FAULT: "a fault of rltop itself; says nothing about the run",
    }
    return "\n".join(["| exit code | |", "|---|---|", *(f"| {code} | {meaning} |" for code, meaning in rows.items())])


BLOCKS: Mapping[str, Callable[[], str]] = {"keys": keys, "rules": rules, "trainers": trainers, "codes": codes}


def page() -> str:
    """The README with its tables renewed."""
    return _BLOCK.sub(lambda block: f"{block[1]}{BLOCKS[block[2]]()}\n{block[3]}", TARGET.read_text())


if __name__ == "__main__":
    TARGET.write_text(page())
