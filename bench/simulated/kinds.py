"""Kinds of simulated runs: how they are made, where they occur, and how a human would judge them.

The kinds themselves are in `look_alikes` (false alarms on real logs, each with a true
counterpart), `dead` (failures without an alert) and `ends` (what follows an alarm).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from simulated.control import story
from simulated.forms import FORMS, Form, text_of
from simulated.writers import Row

CLASSES = ("llm", "classic", "custom")
SPLITS = ("tune", "proof")
RUNS = 10
"""Runs per kind, class and split."""
LEARNING = frozenset(
    {"nonfinite", "gradient", "loss", "lr", "clip", "kl", "ratio", "entropy", "reward", "length", "truncation",
     "groups", "advantage", "validation", "mismatch", "offpolicy", "critic", "preference", "rm", "embodied",
     "collapse", "agentic"}
)  # fmt: skip
SYSTEM = frozenset({"performance", "straggler", "balance", "memory", "offpolicy", "truncation", "length", "agentic"})

STAYS, RECOVERS, EASES = "stays", "recovers", "eases"
"""How a verdict ends: never (it may settle), by recovering, or by easing to a lower level."""

Span = tuple[int, int]
Apply = Callable[[random.Random, list[Row], Form], Span | None]


class Kind(NamedTuple):
    """A kind of run.

    Attributes:
        name: name in the table.
        area: the module that defines it.
        of: the classes that it occurs in.
        apply: changes healthy rows; returns the indices at which a fault begins and is plainly visible.
        families: families of alarms that count as detecting it; empty for a healthy run.
        also: further families that may raise alarms.
        level: the highest level a human would give; `loud` if WARN and CRIT are both right.
        end: how its verdict ends, or "" if open.
        needs: canonical metrics that the form must log, all of them.
        stories: the stories it can be made from.
        forms: names of the only forms that write it; any if empty.
        records: lengths to draw from.
    """

    name: str
    area: str
    of: tuple[str, ...]
    apply: Apply
    families: frozenset[str]
    also: frozenset[str]
    level: str
    end: str
    needs: tuple[str, ...]
    stories: tuple[str, ...]
    forms: tuple[str, ...]
    records: tuple[int, ...]

    @property
    def expects(self) -> str:
        """The expected judgement, in a few words."""
        if not self.families:
            return "healthy"
        level = "WARN or CRIT" if self.level == "loud" else self.level.upper()
        return f"{level} {'/'.join(sorted(self.families))}"


class Case(NamedTuple):
    """One run: the text of its file, and the records (from 1) at which its fault begins and is plainly visible."""

    kind: Kind
    form: Form
    text: str
    records: int
    steps: int
    first: int
    last: int


_RL = ("online", "ppo", "control", "embodied", "q")
_RECORDS = (80, 120, 160, 240)


def kinds(
    area: str,
) -> tuple[list[Kind], Callable[..., Callable[[Apply], Apply]], Callable[..., Callable[[Apply], Apply]]]:
    """The list of an area's kinds, and decorators that add a healthy or a faulty kind to it."""
    listed: list[Kind] = []

    def add(
        name: str, of: str, needs: str = "reward_mean", *, families: str = "", level: str = "", end: str = "",
        also: frozenset[str] | None = None, stories: tuple[str, ...] = _RL, forms: tuple[str, ...] = (),
        records: tuple[int, ...] = _RECORDS,
    ) -> Callable[[Apply], Apply]:  # fmt: skip
        def put(apply: Apply) -> Apply:
            named = frozenset(families.split())
            beside = also if also is not None else (LEARNING if named & LEARNING - SYSTEM else SYSTEM)
            listed.append(
                Kind(name, area, tuple(of.split()), apply, named, beside if named else frozenset(), level, end,
                     tuple(needs.split()), stories, forms, records)
            )  # fmt: skip
            return apply

        return put

    def fault(
        name: str, of: str, families: str, level: str, end: str, needs: str = "reward_mean", **more: object
    ) -> Callable[[Apply], Apply]:
        return add(name, of, needs, families=families, level=level, end=end, **more)  # type: ignore[arg-type]

    return listed, add, fault


def forms_of(kind: Kind, name: str) -> list[Form]:
    """The forms of a class that can show the kind."""
    return [
        form
        for form in FORMS
        if form.of == name
        and form.story in kind.stories
        and (form.name in kind.forms if kind.forms else form.layout != "wrapped")
        and all(metric in form.keys for metric in kind.needs)
    ]


def cases(kind: Kind, name: str, split: str, count: int = RUNS) -> Iterator[Case]:
    """The runs of a kind in a class; the splits are independent of each other."""
    able = forms_of(kind, name)
    for number in range(count):
        rng = random.Random(f"{split}/{kind.area}/{kind.name}/{name}/{number}")
        form = able[number % len(able)]
        rows = story(form, rng.choice(kind.records), rng)
        before = [(row, _reward(row)) for row in rows]
        span = kind.apply(rng, rows, form)
        if "val_score" not in kind.needs:
            _follow(before)
        first, last = (0, 0) if span is None else (span[0] + 1, min(span[1] + 1, len(rows)))
        steps = len({row.get("step", number) for number, row in enumerate(rows)})
        yield Case(kind, form, text_of(form, rows), len(rows), steps, first, last)


def _reward(row: Row) -> float:
    return row.get("score_mean", row.get("reward_mean", 0.0))


def _follow(before: Iterable[tuple[Row, float]]) -> None:
    """Move the evaluations with the reward; shares by the fraction of its range that the reward moves."""
    evaluated = [(row, _reward(row) - was) for row, was in before if "val_score" in row]
    are_shares = all(0.0 <= row["val_score"] <= 1.0 for row, _ in evaluated)
    for row, moved in evaluated:
        if are_shares:
            size = row.get("reward_max", 1.0) - row.get("reward_min", 0.0)
            row["val_score"] = min(max(row["val_score"] + moved / (size or 1.0), 0.0), 1.0)
        else:
            row["val_score"] += moved


def digest(runs: Iterable[Case]) -> str:
    """A digest that shows whether a kind still makes the same runs."""
    found = hashlib.sha256()
    for case in runs:
        found.update(f"{case.form.file} {case.first} {case.last}\n{case.text}".encode())
    return found.hexdigest()[:16]
