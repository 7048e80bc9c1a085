"""What a kind of made run is: how it comes about, where it occurs, and what a person would say of it.

The kinds themselves are in `look_alikes` (what was called false on real logs, each
beside what is right), `dead` (what nobody was told of) and `ends` (how it goes on).
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
"""Of every kind, class and split."""
LEARNING = frozenset(
    {"nonfinite", "gradient", "loss", "lr", "clip", "kl", "ratio", "entropy", "reward", "length", "truncation",
     "groups", "advantage", "validation", "mismatch", "offpolicy", "critic", "preference", "rm", "embodied",
     "collapse", "agentic"}
)  # fmt: skip
SYSTEM = frozenset({"performance", "straggler", "balance", "memory", "offpolicy", "truncation", "length", "agentic"})

STAYS, RECOVERS, EASES = "stays", "recovers", "eases"
"""How a verdict ends: never (it settles at most), by coming back, or by falling to a lower level."""

Span = tuple[int, int]
Apply = Callable[[random.Random, list[Row], Form], Span | None]


class Kind(NamedTuple):
    """A kind of run.

    Attributes:
        name: for the table.
        area: the module that it is in.
        of: the classes that it occurs in.
        apply: changes healthy rows; returns the indices at which a fault begins and plainly shows.
        families: what an alarm may be of to count as seeing it; none where the run is healthy.
        also: what else may be alarmed about beside it.
        level: the highest level that a person would give, `loud` where WARN and CRIT are both right.
        end: how its verdict ends, or "" where that is open.
        needs: canonical metrics that the form has to log, all of them.
        stories: which stories it is made of.
        forms: the only forms that write it, by name; any where empty.
        records: lengths that are drawn from.
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
        """What a person would say, in a few words."""
        if not self.families:
            return "healthy"
        level = "WARN or CRIT" if self.level == "loud" else self.level.upper()
        return f"{level} {'/'.join(sorted(self.families))}"


class Case(NamedTuple):
    """One run: its text as it lies on disk, and where its fault begins and plainly shows (records from 1)."""

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
    """The list of an area, and what puts a healthy and a faulty kind into it."""
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
    """The runs of a kind in a class; those of one split say nothing about those of the other."""
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
    """Move the evaluations with the reward; what is a share by the part of the range that the reward moves."""
    evaluated = [(row, _reward(row) - was) for row, was in before if "val_score" in row]
    are_shares = all(0.0 <= row["val_score"] <= 1.0 for row, _ in evaluated)
    for row, moved in evaluated:
        if are_shares:
            size = row.get("reward_max", 1.0) - row.get("reward_min", 0.0)
            row["val_score"] = min(max(row["val_score"] + moved / (size or 1.0), 0.0), 1.0)
        else:
            row["val_score"] += moved


def digest(runs: Iterable[Case]) -> str:
    """What tells whether a kind still makes the runs that it made."""
    found = hashlib.sha256()
    for case in runs:
        found.update(f"{case.form.file} {case.first} {case.last}\n{case.text}".encode())
    return found.hexdigest()[:16]
