"""The margin between chosen and rejected completions, where a trainer logs only the two.

Owns which keys are such a pair and what the difference is called: by its formula,
so that whoever reads it sees that nobody logged it. It becomes a key of the row
before the row is stored, and is from there on a metric like any other.
"""

from __future__ import annotations

import math
from array import array

from rltop.model import GAP, Record, Schema
from rltop.model.keys import is_evaluation_key
from rltop.regex import regex

_REWARD = regex(r"reward|score")
_SIDE = regex(r"(?<![a-z])(chosen|rejected|reject)(?![a-z])")
_SCHEMAS_KEPT = 1024


def margin_key(chosen: str, rejected: str) -> str:
    """What the difference of two keys is called: `rewards/chosen − rejected`.

    Args:
        chosen: key of the chosen completions' reward.
        rejected: key of the others'.
    """
    return f"{chosen} − {rejected.rpartition('/')[2]}"


def side_of(key: str) -> tuple[str, bool] | None:
    """The key of the chosen completions' reward that a key belongs to, and whether it is that one; else None."""
    word = _SIDE.search(key) if _REWARD.search(key) and not is_evaluation_key(key) else None
    if word is None:
        return None
    return f"{key[: word.start()]}chosen{key[word.end() :]}", word[1] == "chosen"


class _Plan:
    """Where the two stand in rows of one schema, and the schema with their difference behind them."""

    __slots__ = ("chosen", "rejected", "schema")

    def __init__(self, chosen: str, rejected: str, schema: Schema) -> None:
        self.chosen = chosen, schema.index.get(chosen)
        self.rejected = rejected, schema.index.get(rejected)
        self.schema = Schema((*schema.keys, margin_key(chosen, rejected)))


class Margins:
    """Puts the difference of chosen and rejected behind the cells of a row, where no margin is ever logged.

    Rows pass here between decoder and store, whatever file they come from.
    """

    def __init__(self) -> None:
        self._plans: dict[Schema, _Plan | None] = {}
        self._plain: Schema | None = None
        self._has_margin = False
        self._halves: dict[str, dict[bool, str]] = {}
        self._newest: dict[str, tuple[int, float]] = {}

    def added(self, record: Record) -> Record:
        """The row with its margin; the row itself where it has none, or logs one."""
        if self._has_margin or record.schema is self._plain:
            return record
        plan = self._plan(record.schema)
        return record if plan is None else self._widened(record, plan)

    def _plan(self, schema: Schema) -> _Plan | None:
        if schema not in self._plans:
            if len(self._plans) >= _SCHEMAS_KEPT:
                self._plans.clear()
            planned = self._planned(schema)
            self._plans[schema] = planned
        plan = self._plans[schema]
        if plan is None:
            self._plain = schema
        return plan

    def _planned(self, schema: Schema) -> _Plan | None:
        """The first pair of which a row of this schema has a part; None where there is none, or a margin is logged."""
        self._has_margin = any("margin" in key and not is_evaluation_key(key) for key in schema.keys)
        if self._has_margin:
            return None
        sides = [(key, side) for key in schema.keys if (side := side_of(key)) is not None]
        for key, (name, is_chosen) in sides:
            halves = self._halves.setdefault(name, {})
            if is_chosen not in halves:
                halves[is_chosen] = key
                # Rows that had only the other half, and were left as they are, are half of a pair from now on.
                self._plans.clear()
                self._plain = None
        both = next((halves for _, (name, _) in sides if len(halves := self._halves[name]) == 2), None)
        return None if both is None else _Plan(both[True], both[False], schema)

    def _widened(self, record: Record, plan: _Plan) -> Record:
        margin = self._half(record, *plan.chosen) - self._half(record, *plan.rejected)
        if not math.isfinite(margin):
            return record
        return record._replace(schema=plan.schema, values=record.values + array("d", (margin,)))

    def _half(self, record: Record, key: str, cell: int | None) -> float:
        """The value of one of the two on the record's step: from this row, or from its part that came before."""
        if cell is not None:
            value = record.values[cell]
            self._newest[key] = record.step, value
            return value
        step, value = self._newest.get(key, (record.step, GAP))
        return value if step == record.step else GAP
