"""Claims in sentences of the rules that contradict their own numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rltop.model import Event, Verdict
from rltop.rules.registry import NAMED

BELOW = frozenset({"M6"})
"""Rules that fire below the threshold they quote."""
_LATE = 10**9

_NUMBER = r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
_UNIT = r"(?: ?%| ?(?:ms|s|min|h|d|GB|tok/s|nats/token|nats/action|nats|tokens)\b)?"
_VALUE = rf"(?P<{{}}>{_NUMBER})(?P<{{}}_unit>{_UNIT})"
_ARROW = re.compile(_VALUE.format("old", "old") + " → " + _VALUE.format("new", "new"))
_BESIDE = re.compile(
    _VALUE.format("value", "value") + r"[^();:→]{0,40}\((?:baseline|best) " + _VALUE.format("base", "base")
)
_QUOTED = re.compile(r"\((?:baseline|best) ")
_THRESHOLD = re.compile(_VALUE.format("value", "value") + r"[^;:→]*?threshold " + _VALUE.format("line", "line"))
_OF_THE_LAST = re.compile(rf"({_NUMBER}) of (?:the last |the newest )?({_NUMBER}) (?:records|steps|batches)")
_SHARE = re.compile(
    rf"({_NUMBER}) % of (?:the )?(?:tokens|completions|rollouts|groups|prompts|tool calls|batches|value)"
)
_RECORDS = re.compile(rf"({_NUMBER}) records")
_STEP = re.compile(rf"(?:at|since|from) step ({_NUMBER})")
_RISES = re.compile(r"\b(?:rises|rose|up|higher)\b[^→;]{0,20}$")
_FALLS = re.compile(r"\b(?:falls|fell|lost|down|lower)\b[^→;]{0,20}$")
_WITHIN = "within the threshold again"
_CENTRE = re.compile(rf"expected near ({_NUMBER})")
_ENDS = "left behind by a restart"
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _read(number: str, unit: str = "") -> float:
    return float(number.replace(",", "").replace("−", "-")) * _SECONDS.get(unit.strip(), 1.0)


def denied(text: str, *, step: int, records: int, is_below: bool = False) -> Iterator[str]:
    """Contradictions between a sentence and its numbers, in words.

    Args:
        text: the sentence.
        step: step of the record that it was said at.
        records: number of records so far.
        is_below: the sentence is about a value below the threshold.
    """
    for found in _ARROW.finditer(text):
        old, new = (_read(found[name], found[f"{name}_unit"]) for name in ("old", "new"))
        if found["old"] == found["new"] and found["old_unit"].strip() in {"", found["new_unit"].strip()}:
            yield f"nothing moved: {found[0]}"
        before = text[: found.start()]
        if found["old_unit"].strip() in {"", found["new_unit"].strip()}:
            if _RISES.search(before) and new < old:
                yield f"it did not rise: {found[0]}"
            if _FALLS.search(before) and new > old:
                yield f"it did not fall: {found[0]}"
    for found in _BESIDE.finditer(text):
        if (found["value"], found["value_unit"].strip()) == (found["base"], found["base_unit"].strip()):
            yield f"no other than the baseline: {found[0]}"
    if "no healthy baseline" in text and _QUOTED.search(text) is not None:
        yield "a baseline beside none"
    found = _THRESHOLD.search(text)
    if found is not None and _WITHIN not in text:
        value, line = (_read(found[name], found[f"{name}_unit"]) for name in ("value", "line"))
        centre = _CENTRE.search(text)
        if centre is not None:
            value, line = (
                abs(one - _read(centre[1])) for one in (value, abs(line) if _read(centre[1]) == 0.0 else line)
            )
        if value > line if is_below else value < line:
            yield f"within the threshold: {found[0]}"
    for part, whole in _OF_THE_LAST.findall(text):
        if _read(part) > _read(whole):
            yield f"more than all of them: {part} of {whole}"
    yield from (f"more than the whole: {share} %" for share in _SHARE.findall(text) if _read(share) > 100.0)
    yield from (f"more records than there are: {count}" for count in _RECORDS.findall(text) if _read(count) > records)
    if _ENDS not in text:
        yield from (f"in the future: step {at}" for at in _STEP.findall(text) if _read(at) > step)


def lies(events: Iterable[Event], verdicts: Iterable[Verdict]) -> Iterator[str]:
    """Contradictions in the sentences of a run."""
    for event in events:
        below = event.raised_by in BELOW
        for denial in denied(event.message, step=event.step, records=event.record, is_below=below):
            yield f"{event.raised_by} at step {event.step}: {denial} in {event.message!r}"
        if event.record < NAMED[event.raised_by].warm_up:
            yield f"{event.raised_by} at record {event.record}, within its warm-up"
    for verdict in verdicts:
        for denial in denied(verdict.headline, step=_LATE, records=_LATE, is_below=verdict.raised_by in BELOW):
            yield f"{verdict.raised_by} at the end: {denial} in {verdict.headline!r}"
