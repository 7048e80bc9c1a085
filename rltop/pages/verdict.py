"""The page of one verdict: what, since when, on which numbers, and what to look at next.

Owns the order of the page; the words are the rule's own, and what to look at next is `chain`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rltop import units
from rltop.model import Event, Label, Verdict, VerdictState
from rltop.pages.alerts import origin, standing_verdict
from rltop.pages.chain import ChainView, build_chain, line_cells, paint_chain
from rltop.pages.events import as_known, paint_events
from rltop.pages.moment import Moment
from rltop.pages.page import Open, Page, Push
from rltop.pages.rule_menu import threshold_words
from rltop.rows.cells import RowBuilder, clip, clip_middle, labelled_rows, rule_row, text_row, text_rows
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.keys import NO_KEYS, KeyNames
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rules import registry
from rltop.rules.words import words_of
from rltop.run.snapshot import Snapshot

_LABEL = 11
_COPIED_WIDTH = 100


@dataclass(frozen=True, slots=True)
class VerdictView:
    """Everything the page of one verdict shows.

    Attributes:
        verdict: the verdict, or None if the rule does not stand at this step.
        records: for how many records it has lasted, or None.
        chain: what to look at next, and what moved when; None where the rule does not stand.
        events: what happened with this rule, newest first.
        stream: the stream of the run that it is about; "" is the main one.
        thresholds: those of the rule, or of the part that speaks, in words.
    """

    verdict: Verdict | None
    rule: str
    title: str
    records: int | None
    chain: ChainView | None
    events: Sequence[Event]
    stream: str = ""
    is_muted: bool = False
    is_acknowledged: bool = False
    thresholds: str = ""


def rule_titles() -> list[tuple[str, str]]:
    return [(spec.id, spec.title) for spec in registry.DOCUMENTED]


def titled(rule: str) -> str:
    """A rule as a person reads it: `KL to reference (O11)`."""
    spec = registry.NAMED.get(rule)
    return rule if spec is None else f"{spec.title} ({rule})"


def build_verdict(snapshot: Snapshot, rule: str, *, width: int = 120) -> VerdictView:
    verdict = standing_verdict(snapshot, rule)
    spec = registry.NAMED.get(rule)
    if verdict is not None:
        spec = registry.NAMED.get(verdict.said_by, spec)
    events = [event for event in snapshot.past_events if event.rule == rule and not event.stream]
    empty = VerdictView(
        verdict=verdict,
        rule=rule,
        title=registry.NAMED[rule].title if rule in registry.NAMED else rule,
        records=None,
        chain=None,
        events=as_known(snapshot, events[::-1]),
        stream=snapshot.role,
        is_muted=rule in snapshot.source.muted,
        thresholds="" if spec is None else threshold_words(snapshot, spec, verdict),
    )
    if verdict is None or snapshot.step is None:
        return empty
    chain = build_chain(snapshot, verdict, line_cells(width))
    records = _records(snapshot, verdict) if snapshot.at_step is None else None
    is_quiet = verdict in snapshot.verdicts.set_aside and not empty.is_muted
    return replace(empty, is_acknowledged=is_quiet, records=records, chain=chain)


def _records(snapshot: Snapshot, verdict: Verdict) -> int | None:
    """For how many records a verdict has stood; unknown while only the newest rows are held."""
    if snapshot.part.is_preview or verdict.state is not VerdictState.FIRING:
        return None
    return max(0, snapshot.stream.rows - verdict.since_record + 1) or None


def paint_verdict(view: VerdictView, width: int, glyphs: Glyphs, keys: KeyNames = NO_KEYS) -> list[Row]:
    verdict = view.verdict
    if verdict is None:
        rows = [text_row(f"rule {view.rule}  {view.title}", width, glyphs, "title"), Row(())]
        text = _muted_words(view, keys) if view.is_muted else "no alert from this rule at this step"
        rows += text_rows(text, width, glyphs, "dim", lines=4)
        return [*rows, *_paint_rule(view, view.rule, width, glyphs), *_paint_events(view, width, glyphs)]
    rows = _paint_head(view, verdict, width, glyphs)
    if view.is_muted:
        rows += text_rows(_muted_words(view, keys), width, glyphs, "dim", lines=4)
    elif view.is_acknowledged:
        rows.append(
            text_row(f"quiet until it gets worse{keys.clause('acknowledge', ' ({} undoes it)')}", width, glyphs, "dim")
        )
    rows.append(rule_row(width, glyphs))
    began = origin(verdict)
    if began is not None:
        target = Target(TargetKind.VERDICT, began.rule, stream=view.stream)
        rows.append(RowBuilder(width, glyphs).add(" ").add(began.words, "text", target).row())
    if verdict.advice is not None:
        rows += _paragraph("do", verdict.advice.text, width, glyphs)
    rows += _paint_evidence(view, verdict, width, glyphs)
    rows += _paint_rule(view, verdict.said_by, width, glyphs)
    if verdict.also:
        rows += _paragraph("also", ", ".join(one.words for one in verdict.also), width, glyphs)
    words = words_of(verdict.said_by)
    rows += _paragraph("why", words.why, width, glyphs)
    if view.chain is not None:
        rows += [*paint_chain(view.chain, width, glyphs), Row(())]
    for i, cause in enumerate(words.causes):
        rows += _paragraph("causes" if i == 0 else "", f"{i + 1}  {cause}", width, glyphs)
    return [*rows, *_paint_events(view, width, glyphs)]


def _muted_words(view: VerdictView, keys: KeyNames) -> str:
    undo = keys.clause("mute", " ({} unmutes it)")
    return f"this rule is muted, here and in check, watch and reports{undo}"


def _paint_head(view: VerdictView, verdict: Verdict, width: int, glyphs: Glyphs) -> list[Row]:
    role = LEVEL_ROLES[verdict.level]
    word = verdict.level.word.upper()
    whose = f"steps of {Label.of(view.stream)} · " if view.stream else ""
    facts = f"{whose}rule {verdict.rule_words} · since {units.step(verdict.since_step)}"
    if view.records is not None:
        facts += f" · {units.counted(view.records, 'record')}"
    if verdict.state is VerdictState.RECOVERED and verdict.recovered_step is not None:
        word = "RECOVERED"
        role = "dim"
        facts += f" · recovered {units.step(verdict.recovered_step)}"
    if verdict.state is VerdictState.SETTLED and verdict.settled is not None:
        word += " · SETTLED"
    elif verdict.worst_level > verdict.level:
        word += f" · eased, was {verdict.worst_level.word.upper()}"
    if view.is_muted or view.is_acknowledged:
        facts += " · muted" if view.is_muted else " · acknowledged"
        role = "dim"
    if verdict.is_provisional:
        facts += " · not yet confirmed: still reading history"
    first = RowBuilder(width, glyphs).add(" ").add(f"{glyphs.level(verdict.level)} {word}", role)
    first.add("  ").add(Label.of(verdict.title).display, "strong")
    headline = text_rows(Label.of(verdict.headline).display, width, glyphs)
    if first.room < len(facts) + 3:
        lines = text_rows(facts, width, glyphs, "dim", lines=2)
        return [first.row(), *headline, *lines]
    return [first.to(width - len(facts) - 1).add(facts, "dim").row(), *headline]


def _paint_evidence(view: VerdictView, verdict: Verdict, width: int, glyphs: Glyphs) -> list[Row]:
    builder = RowBuilder(width, glyphs).add(" ").left("evidence", _LABEL, "dim")
    if verdict.key:
        target = Target(TargetKind.METRIC, verdict.key, stream=view.stream)
        builder.add(clip_middle(Label.of(verdict.key).display, max(8, width - 40)), "key", target)
    elif not verdict.evidence:
        return []
    rows, key = [], verdict.key or ""
    for i, one in enumerate(verdict.evidence):
        # What stands beside the key itself does not name it once more.
        is_own = not i and one.name == key
        name = "" if is_own else f"{Label.of(one.name if i else one.name.removeprefix(f'{key}, '))} "
        value = units.measure(one.value, one.unit)
        if builder.room < len(name) + len(value) + 4:
            rows.append(builder.row())
            builder = RowBuilder(width, glyphs).add(" ").left("", _LABEL)
        elif i or key:
            builder.add(" " if is_own else "   ")
        builder.add(name, "dim").add(value, "value")
    return [*rows, builder.row()]


def _paint_rule(view: VerdictView, rule: str, width: int, glyphs: Glyphs) -> list[Row]:
    if rule not in registry.NAMED or view.stream:
        return []
    builder = RowBuilder(width, glyphs).add(" ").left("rule", _LABEL, "dim")
    words = f"{rule}: {view.thresholds}" if view.thresholds else rule
    builder.add(clip(words, max(8, width - 44)), "text", Target(TargetKind.RULE, rule))
    return [builder.add("   set thresholds, mute", "dim").row()]


def _paragraph(label: str, text: str, width: int, glyphs: Glyphs) -> list[Row]:
    return labelled_rows(label, _LABEL, Label.of(text).display, width, glyphs)


def _paint_events(view: VerdictView, width: int, glyphs: Glyphs) -> list[Row]:
    if not view.events:
        return []
    rows = [Row(()), text_row("events of this rule", width, glyphs, "dim")]
    muted = {view.rule} if view.is_muted else ()
    return rows + [row._replace(links=()) for row in paint_events(view.events[:12], width, glyphs, muted=muted)]


class VerdictPage(Page):
    """One verdict: what, since when, on which numbers, why it matters, what to look at next."""

    details = frozenset({TargetKind.METRIC, TargetKind.VERDICT, TargetKind.RULE})
    footer: ClassVar[Sequence[str]] = ("alerts", "acknowledge", "mute", "change")
    search_hint = "a part of what is said of the alert"

    def __init__(self, rule: str, step: int | None = None, stream: str = "") -> None:
        super().__init__(stream)
        named = registry.NAMED.get(rule)
        self.rule = rule if named is None else named.rule
        self._step = step

    def _snapshot(self, moment: Moment) -> Snapshot:
        snapshot = moment.snapshot
        return snapshot.at(self._step) if snapshot.at_step is None else snapshot

    def since_step(self, moment: Moment) -> int | None:
        found = standing_verdict(self._snapshot(moment), self.rule)
        return None if found is None else found.since_step

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        view = build_verdict(self._snapshot(moment), self.rule, width=width)
        return paint_verdict(view, width, moment.glyphs, moment.keys)

    def details_of(self, target: Target, moment: Moment, height: int) -> Sequence[Open | Push]:
        del height
        if target.kind is not TargetKind.RULE:
            return (Open(target),)
        found = standing_verdict(self._snapshot(moment), self.rule)
        key = "" if found is None else found.key
        return (Open(Target(TargetKind.METRIC, key, stream=self.stream)),) if key else ()

    def text_to_copy(self, moment: Moment) -> str:
        rows = self.rows(moment, _COPIED_WIDTH, self.least[1])
        return "\n".join("".join(piece.text for piece in row.line).rstrip() for row in rows).strip()
