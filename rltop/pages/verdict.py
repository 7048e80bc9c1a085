"""The page of one verdict; the menu of its rule; and the page of a symptom, with or without an alert.

Owns the layout of these pages, and the words under which a symptom is searched for. A verdict's wording comes from its
rule; `chain` says what to look at next.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from rltop import units
from rltop.model import Event, Label, Level, Signal, Unit, Verdict, VerdictState
from rltop.pages.alerts import as_known, origin, paint_events, rule_name, standing_verdict
from rltop.pages.chain import ChainView, build_chain, line_cells, paint_chain
from rltop.pages.key_metrics import MetricRow, change_cell, row_sign, value_cell
from rltop.pages.metric import read_statistics
from rltop.pages.page import Acknowledge, Ask, Effect, Moment, Open, Page, Push, Redraw, Say, SetRule
from rltop.pages.signals import catalogue_title, evidence_parts, primary, rate_jumped, read_signal, signal_of
from rltop.regex import regex
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs, cell_width
from rltop.rows.keys import NO_KEYS, KeyNames
from rltop.rows.rows import (
    Row,
    RowBuilder,
    Target,
    TargetKind,
    clip_middle,
    labelled_rows,
    rule_row,
    signed_rows,
    text_row,
    text_rows,
)
from rltop.rows.sparkline import fitted, sparkline
from rltop.rows.table import Column, Fit, Table, paint_table
from rltop.rules import registry
from rltop.rules.diagnosis import Fact, Link, chain_of, chains
from rltop.rules.options import EngineOptions
from rltop.rules.rule import RuleSpec
from rltop.rules.words import words_of
from rltop.run.preferences import MUTE, RuleScope, RuleValue, own_rules_of
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple, Struct, replace

_LABEL = 11
_RATE = "a learning-rate change"
"""The name of this cause in the rules' words."""
_COPIED_WIDTH = 100


class VerdictView(Struct):
    """Everything the page of one verdict shows.

    Attributes:
        verdict: the verdict, or None if the rule has none at this step.
        records: number of records it has lasted, or None.
        chain: what to look at next, and what moved when; None without a verdict.
        events: events of this rule, newest first; `log`: those of all.
        stream: the stream that it is about; "" is the main one.
        condition: the clauses that concern the alert, of the rule or of the part of it that fires.
        causes: likely causes, without a learning-rate change if the rate only decays or warms up.
    """

    verdict: Verdict | None
    rule: str
    records: int | None
    chain: ChainView | None
    events: Sequence[Event]
    log: Sequence[Event]
    stream: str = ""
    is_muted: bool = False
    is_acknowledged: bool = False
    condition: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()


def rule_titles() -> list[tuple[str, str]]:
    return [(spec.id, spec.title) for spec in registry.DOCUMENTED]


def build_verdict(snapshot: Snapshot, rule: str, *, width: int = 120) -> VerdictView:
    verdict = standing_verdict(snapshot, rule)
    spec = registry.NAMED.get(rule)
    if verdict is not None:
        spec = registry.NAMED.get(verdict.raised_by, spec)
    events = [event for event in snapshot.past_events if event.rule == rule and not event.stream]
    empty = VerdictView(
        verdict=verdict,
        rule=rule,
        records=None,
        chain=None,
        events=as_known(snapshot, events[::-1]),
        log=snapshot.source.events,
        stream=snapshot.role,
        is_muted=rule in snapshot.part.judging.muted,
        condition=() if spec is None else raised_when(snapshot, spec, verdict),
    )
    if verdict is None or snapshot.step is None:
        return empty
    chain = build_chain(snapshot, verdict, line_cells(width))
    records = _records(snapshot, verdict) if snapshot.at_step is None else None
    is_quiet = verdict in snapshot.set_aside and not empty.is_muted
    causes = words_of(verdict.raised_by).causes
    if _RATE in causes and not rate_jumped(snapshot, verdict.since_step):
        causes = tuple(one for one in causes if one != _RATE)
    return replace(empty, is_acknowledged=is_quiet, records=records, chain=chain, causes=causes)


def _records(snapshot: Snapshot, verdict: Verdict) -> int | None:
    if snapshot.part.is_preview or verdict.state is not VerdictState.FIRING:
        return None
    return max(0, snapshot.stream.rows - verdict.since_record + 1) or None


def paint_verdict(view: VerdictView, width: int, glyphs: Glyphs, keys: KeyNames = NO_KEYS) -> list[Row]:
    verdict = view.verdict
    if verdict is None:
        rows = [text_row(f"rule {view.rule}  {rule_name(view.rule)}", width, glyphs, "title"), Row(())]
        text = _muted_words(keys) if view.is_muted else "no alert from this rule at this step"
        rows += text_rows(text, width, glyphs, "dim", lines=4)
        return [*rows, *_paint_rule(view, view.rule, width, glyphs), *_paint_events(view, width, glyphs)]
    rows = _paint_head(view, verdict, width, glyphs)
    if view.is_muted:
        rows += text_rows(_muted_words(keys), width, glyphs, "dim", lines=4)
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
    rows += _paint_rule(view, verdict.raised_by, width, glyphs)
    if verdict.also:
        rows += _paragraph("also", ", ".join(one.words for one in verdict.also), width, glyphs)
    rows += _paragraph("why", words_of(verdict.raised_by).why, width, glyphs)
    if view.chain is not None:
        rows += [*paint_chain(view.chain, width, glyphs), Row(())]
    for i, cause in enumerate(view.causes):
        rows += _paragraph("causes" if i == 0 else "", f"{i + 1}  {cause}", width, glyphs)
    return [*rows, *_paint_events(view, width, glyphs)]


def _muted_words(keys: KeyNames) -> str:
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
        word += " · NEW LEVEL"
    elif verdict.worst_level > verdict.level:
        word += f" · eased, was {verdict.worst_level.word.upper()}"
    if view.is_muted or view.is_acknowledged:
        facts += " · muted" if view.is_muted else " · acknowledged"
        role = "dim"
    if verdict.is_provisional:
        facts += " · not yet confirmed: still reading history"
    first = RowBuilder(width, glyphs).add(" ").add(f"{glyphs.levels[verdict.level]} {word}", role)
    first.add("  ").add(Label.of(verdict.title).display, "strong")
    headline = text_rows(Label.of(verdict.headline).display, width, glyphs)
    if first.room < len(facts) + 3:
        lines = text_rows(facts, width, glyphs, "dim", lines=2)
        return [first.row(), *headline, *lines]
    return [first.pad_to(width - len(facts) - 1).add(facts, "dim").row(), *headline]


def _paint_evidence(view: VerdictView, verdict: Verdict, width: int, glyphs: Glyphs) -> list[Row]:
    # The evidence of a settled verdict is that of its onset.
    label = "key" if not verdict.evidence else "raised by" if verdict.state is VerdictState.SETTLED else "evidence"
    builder = RowBuilder(width, glyphs).add(" ").left(label, _LABEL, "dim")
    if verdict.key:
        target = Target(TargetKind.METRIC, verdict.key, stream=view.stream)
        builder.add(clip_middle(Label.of(verdict.key).display, max(width - 40, min(24, builder.room))), "key", target)
    elif not verdict.evidence:
        return []
    rows = []
    for i, (name, value) in enumerate(evidence_parts(verdict.evidence, verdict.key)):
        if builder.room < cell_width(name) + len(value) + 5:
            rows.append(builder.row())
            builder = RowBuilder(width, glyphs).add(" ").left("", _LABEL)
        elif i or verdict.key:
            builder.add("   " if name else " ")
        builder.add(f"{name} " if name else "", "dim").add(value, "value")
    return [*rows, builder.row()]


def _paint_rule(view: VerdictView, rule: str, width: int, glyphs: Glyphs) -> list[Row]:
    if rule not in registry.NAMED or view.stream:
        return []
    builder = RowBuilder(width, glyphs).add(" ").left("rule", _LABEL, "dim")
    builder.add(rule, "text", Target(TargetKind.RULE, rule)).add("   set thresholds, mute", "dim")
    return [builder.row(), *(row for one in view.condition for row in _paragraph("", one, width, glyphs, lines=40))]


def _paragraph(label: str, text: str, width: int, glyphs: Glyphs, lines: int = 6) -> list[Row]:
    return labelled_rows(label, _LABEL, Label.of(text).display, width, glyphs, lines=lines)


def _paint_events(view: VerdictView, width: int, glyphs: Glyphs) -> list[Row]:
    if not view.events:
        return []
    rows = [Row(()), text_row("events of this rule", width, glyphs, "dim")]
    muted = {view.rule} if view.is_muted else ()
    shown = paint_events(view.events[:12], width, glyphs, view.log, muted=muted)
    return rows + [row._replace(links=()) for row in shown]


class VerdictPage(Page):
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
        if target.kind is not TargetKind.RULE:
            return (Open(target),)
        found = standing_verdict(self._snapshot(moment), self.rule)
        key = "" if found is None else found.key
        return (Open(Target(TargetKind.METRIC, key, stream=self.stream)),) if key else ()

    def text_to_copy(self, moment: Moment) -> str:
        rows = self.rows(moment, _COPIED_WIDTH, self.least[1])
        return "\n".join(row.text.rstrip() for row in rows).strip()


_MARGIN = 12
_RANGE = ("last", "min", "max", "median")
_LEVELS = ("info", "warn", "crit")
_ACKNOWLEDGE, _RESET, _SCOPE = "acknowledge", "reset", "for "


class Threshold(NamedTuple):
    """A threshold of a rule.

    Attributes:
        name: its name in the settings.
        value: in force for the run.
        usual: the value without what was set on the screen.
        scope: the scope it was set for; None if it was not set.
    """

    name: str
    value: float
    usual: float
    scope: RuleScope | None


def thresholds_of(snapshot: Snapshot, spec: RuleSpec) -> list[Threshold]:
    """Every threshold of a rule as in force for a run, those of its levels first."""
    rules, profiles = snapshot.part.known.rules, snapshot.part.judging.now.profiles
    options = EngineOptions() if rules is None else rules.options
    now, usual = options.thresholds(spec.id, profiles), replace(options, own={}).thresholds(spec.id, profiles)
    own = own_settings_of(snapshot, spec.id)
    names = sorted(now, key=lambda name: _LEVELS.index(name) if name in _LEVELS else len(_LEVELS))
    return [Threshold(name, now[name], usual[name], own[name][1] if name in own else None) for name in names]


def own_settings_of(snapshot: Snapshot, rule: str) -> Mapping[str, tuple[RuleValue, RuleScope]]:
    return own_rules_of(snapshot.run.path.raw, snapshot.run.own_rules).get(rule, {})


def raised_when(snapshot: Snapshot, spec: RuleSpec, verdict: Verdict | None = None) -> tuple[str, ...]:
    """The clauses of a rule's condition with the thresholds in force: `WARN: more than 25 % (costs) of the time`.

    Args:
        verdict: limits them to its level and, among those, to clauses that name the threshold it crossed.
    """
    found = thresholds_of(snapshot, spec)
    clauses = words_of(spec.id).condition
    if verdict is not None:
        line, base = verdict.threshold, verdict.baseline
        lines = [] if line is None else [line, line / base] if base else [line]
        crossed = [one.name for one in found if any(math.isclose(one.value, each, rel_tol=1e-6) for each in lines)]
        of_line = [one for one in clauses if any(f"`{name}`" in one for name in crossed)]
        of_level = [one for one in clauses if one.startswith(f"{verdict.level.word.upper()}: ")]
        clauses = tuple([one for one in of_level if one in of_line] or of_level or of_line or clauses)
    named, unit = {one.name: one for one in found}, spec.evidence.unit
    texts = [
        _NAMED.sub(lambda place: _worded(named.get(place[1]), unit, *place.groups()), one).replace("`", "")
        for one in clauses
    ]
    own = [one for one in found if one.scope is not None and not any(f"({one.name}, yours" in text for text in texts)]
    return (*texts, *(f"{one.name} {one.value:g} (yours, default {one.usual:g})" for one in own))


_NAMED = regex(r"`(\w+)`(×?)(?= ?(of (?:0|ln)\b|\w*))")
"""A threshold in a condition, with the text after it that shows what its number means."""


def _worded(one: Threshold | None, unit: Unit, name: str, times: str, after: str) -> str:
    if one is None:
        return name
    is_part = 0.0 < one.value < 1.0 and (after == "of" or (unit is Unit.FRACTION and not times and after != "nats"))
    number = f"{100.0 * one.value:g} %" if is_part else re.sub(r"e\+?(-?)0", r"e\1", f"{one.value:g}")
    seconds = " s" if name.endswith("_s") and after != "seconds" else ""
    said = [] if after == name else [name]
    said += [] if one.scope is None else ["yours", f"default {one.usual:g}"]
    return f"{number.replace('-', units.MINUS)}{times}{seconds} ({', '.join(said)})".removesuffix(" ()")


class RuleMenuPage(Page):
    least = (40, 8)
    footer: ClassVar[Sequence[str]] = ("open", "acknowledge", "mute")

    def __init__(self, rule: str, stream: str = "") -> None:
        super().__init__(stream)
        self._spec = registry.NAMED[rule]
        self.rule = self._spec.rule
        self._scope = RuleScope.RUN
        self._asked = ""

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        snapshot, glyphs = moment.snapshot, moment.glyphs
        verdict = standing_verdict(snapshot, self.rule)
        rows = [text_row(f"RULE {self._spec.id}  {self._spec.title}", width, glyphs, "title")]
        if verdict is not None:
            level, since = verdict.level, units.step(verdict.since_step)
            words = f"{glyphs.levels[level]} {level.word.upper()} since {since}: {Label.of(verdict.headline).display}"
            rows += text_rows(words, width, glyphs, LEVEL_ROLES[verdict.level])
        for name, text in self._numbers(snapshot, verdict):
            rows += labelled_rows(name, _MARGIN, text, width, glyphs, lines=4)
        rows += [rule_row(width, glyphs), *self._choices(snapshot, verdict, width, glyphs), Row(())]
        found = thresholds_of(snapshot, self._spec)
        table = Table(_COLUMNS, found, target=lambda one: _choice(one.name), sign=lambda one: (" ", "text"))
        rows += paint_table(table, width, glyphs) if found else ()
        rows.append(Row(()))
        for number, text in enumerate(raised_when(snapshot, self._spec)):
            rows += labelled_rows("" if number else "in full", _MARGIN, text, width, glyphs, lines=40)
        return rows

    def _numbers(self, snapshot: Snapshot, verdict: Verdict | None) -> Iterator[tuple[str, str]]:
        key = verdict.key if verdict is not None and verdict.key else ""
        logged = primary(snapshot, *self._spec.metrics)
        key = key or ("" if logged is None else logged.key)
        if verdict is not None and verdict.evidence:
            yield "alert", "   ".join(f"{name} {value}" for name, value in evidence_parts(verdict.evidence))
        if key and key in snapshot.stream.keys:
            reading = read_signal(snapshot, signal_of(snapshot, key), 0)
            found = {one.name: one for one in read_statistics(snapshot, reading)}
            shown = [found[name] for name in _RANGE if name in found]
            values = "   ".join(f"{one.name} {one.value} {one.unit}".strip() for one in shown)
            yield "this run", f"{Label.of(key).display}   {values}"
        for number, text in enumerate(raised_when(snapshot, self._spec, verdict)):
            yield "" if number else "raised when", text

    def _choices(self, snapshot: Snapshot, verdict: Verdict | None, width: int, glyphs: Glyphs) -> Iterator[Row]:
        is_muted = self.rule in snapshot.part.judging.muted
        builder = RowBuilder(width, glyphs).add("   ").left("for", _MARGIN - 2, "dim")
        for scope in RuleScope:
            sign = "(*)" if scope is self._scope else "( )"
            builder.add(f"{sign} {scope.words}", "value" if scope is self._scope else "text", _choice(_SCOPE + scope))
            builder.add("   ")
        is_folder = self._scope is RuleScope.PROJECT
        place = Label.of(self._scope.place(snapshot.run.path.raw)).display if is_folder else ""
        yield builder.add(place, "dim").row()
        if verdict is not None and not is_muted:
            is_quiet = verdict in snapshot.set_aside
            text = "acknowledged: undo" if is_quiet else "acknowledge: quiet until it gets worse"
            yield RowBuilder(width, glyphs).add("   ").add(text, "text", _choice(_ACKNOWLEDGE)).row()
        own = own_settings_of(snapshot, self.rule)
        where = f", muted for {own[MUTE][1].words}" if is_muted and MUTE in own else ""
        text = f"unmute for {self._scope.words}{where}" if is_muted else f"mute for {self._scope.words}"
        yield RowBuilder(width, glyphs).add("   ").add(text, "text", _choice(MUTE)).row()
        if any(scope is self._scope for _, scope in own_settings_of(snapshot, self._spec.id).values()):
            text = f"take back everything that was set for {self._scope.words}"
            yield RowBuilder(width, glyphs).add("   ").add(text, "text", _choice(_RESET)).row()

    def open(self, target: Target, moment: Moment) -> Effect | None:
        if target.kind is not TargetKind.CHOICE:
            return super().open(target, moment)
        name = target.name
        if name.startswith(_SCOPE):
            self._scope = RuleScope(name.removeprefix(_SCOPE))
            return Redraw()
        if name == _ACKNOWLEDGE:
            return Acknowledge(self.rule)
        if name == MUTE:
            return SetRule(self.rule, self._scope, MUTE, self.rule not in moment.snapshot.run.main.judging.muted)
        if name == _RESET:
            return SetRule(self._spec.id, self._scope, "", None)
        one = next(each for each in thresholds_of(moment.snapshot, self._spec) if each.name == name)
        self._asked = name
        hint = f"{name} for {self._scope.words}, {one.value:g} now; nothing for the default"
        return Ask(hint, f"{one.value:g}" if one.scope is self._scope else "")

    def answer(self, text: str, moment: Moment) -> Effect | None:
        beside = {one.name: one.value for one in thresholds_of(moment.snapshot, self._spec)}
        return _set(self._spec.id, self._scope, self._asked, text.strip().replace(",", ""), beside)


def _set(rule: str, scope: RuleScope, name: str, text: str, beside: Mapping[str, float]) -> Effect:
    if not text or text == "default":
        return SetRule(rule, scope, name, None)
    try:
        value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        value = math.nan
    if math.isnan(value) or (math.isinf(value) and "inf" not in text.lower()):
        return Say(f"{name} must be a number, such as 0.5 or 5%; inf never raises it; nothing is the default")
    if why := registry.without_effect(rule, name):
        return Say(f"{name} has no effect: {why}")
    fault = registry.threshold_fault(rule, name, value, beside)
    return SetRule(rule, scope, name, value) if fault is None else Say(f"{name} {fault[0]}; nothing is the default")


def _choice(name: str) -> Target:
    return Target(TargetKind.CHOICE, name)


_COLUMNS: Sequence[Column[Threshold]] = (
    Column("threshold", lambda one: (one.name, "text"), Fit.NAME, least=12),
    Column("now", lambda one: (f"{one.value:g}", "value" if one.scope is None else "note"), least=8),
    Column("default", lambda one: (f"{one.usual:g}", "dim"), least=8),
    Column("set for", lambda one: ("" if one.scope is None else one.scope.words, "note"), Fit.TEXT, least=12),
)


DOORS: Mapping[str, str] = MappingProxyType(
    {
        "slow": "slow: steps take longer",
        "memory": "out of memory (OOM)",
        "kl": "KL spike",
        "eval": "evaluation flat while reward rises",
        "stuck": "reward stuck at 0, not learning",
        "length": "lengths explode or collapse, truncated",
        "reward": "reward falls",
        "entropy": "entropy collapse",
        "gradient": "gradient spike, loss explodes",
        "nonfinite": "NaN or Inf",
        "collapse": "the policy collapses",
        "mismatch": "rollout and training probabilities differ",
        "turns": "tools or multi-turn rollouts fail",
        "critic": "the critic does not fit",
        "preference": "preference training fails (DPO, KTO)",
        "rm": "the reward model does not rank",
    }
)
"""Chain → the words under which its symptom is searched for."""

_SEEN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "slow": ("time_step",),
        "kl": ("kl_ref", "kl_reward"),
        "eval": ("val_score", "val_acc"),
        "length": ("response_len_mean", "terminated_len_mean"),
        "reward": ("score_mean", "reward_mean", "success_frac"),
        "entropy": ("entropy",),
        "gradient": ("grad_norm",),
        "mismatch": ("off_policy_kl", "rollout_logp_diff_mean", "rollout_prob_diff_mean", "is_ratio_mean"),
    }
)
"""Chain → metrics that show the symptom itself, the best first, if the links are only other metrics."""

_CURVE_CELLS = 24


def alerts_of_symptom(snapshot: Snapshot, chain: str) -> list[Verdict]:
    """The active alerts with this symptom, worst first."""
    return [one for one in snapshot.firing if chain_of(one.raised_by, one.family) is chains()[chain]]


def _readings(snapshot: Snapshot, chain: str) -> Iterator[tuple[Link, Signal | None]]:
    """The symptom itself, then the metrics to check, in order, each with its signal; None if not logged."""
    seen = (Link(_SEEN[chain], "the symptom itself"),) if chain in _SEEN else ()
    for link in (*seen, *chains()[chain].links):
        if link.fact is None:
            yield link, primary(snapshot, *link.metrics)


def _facts(snapshot: Snapshot, chain: str) -> Iterator[str]:
    stream, at = snapshot.stream, snapshot.at_step
    for link in chains()[chain].links:
        if link.fact is Fact.RESTART:
            steps = [step for step in stream.seen_restarts if at is None or step <= at]
            yield f"restarts: {', '.join(units.step(step) for step in steps[-3:])}" if steps else "no restart"
        elif link.fact is Fact.NONFINITE:
            marks = [mark.step for key in stream.keys for mark in stream.marks(key) if at is None or mark.step <= at]
            yield f"first NaN or Inf at step {units.step(min(marks))}" if marks else "no NaN or Inf"


def paint_symptom(snapshot: Snapshot, chain: str, width: int, glyphs: Glyphs) -> list[Row]:
    title = RowBuilder(width, glyphs).add(" ").add(chains()[chain].symptom, "title")
    title.add(f"   step {units.step(snapshot.step)}" if snapshot.step is not None else "", "dim")
    rows = [title.row()]
    alerts = alerts_of_symptom(snapshot, chain)
    for one in alerts:
        words = f"{one.title} since {units.step(one.since_step)}: {one.headline}"
        target = Target(TargetKind.VERDICT, one.rule, stream=one.stream)
        rows += signed_rows(
            glyphs.levels[one.level], words, LEVEL_ROLES[one.level], width, glyphs, lines=2, target=target
        )
    found, missing = [], []
    for link, signal in _readings(snapshot, chain):
        if signal is None:
            missing.append(catalogue_title(link.metrics[0]))
            continue
        reading = read_signal(snapshot, signal, 2 * _CURVE_CELLS)
        found.append((MetricRow(signal.metric.title, reading), link.question))
    if not alerts:
        text, role = f"{glyphs.levels[Level.OK]} no alert of this symptom at this step", "ok"
        if not found:
            text, role = "nothing that would tell is logged", "dim"
        elif chain in _SEEN and catalogue_title(_SEEN[chain][0]) in missing:
            text, role = f"{missing[0]} is not logged: no alert can stand on it", "dim"
        rows.append(text_row(text, width, glyphs, role))
    facts = ", ".join(_facts(snapshot, chain))
    rows += [text_row(facts, width, glyphs, "text")] if facts else []
    rows.append(rule_row(width, glyphs))
    rows += paint_table(
        Table(
            _columns(glyphs),
            found,
            target=lambda one: Target(TargetKind.METRIC, one[0].reading.signal.key, stream=snapshot.role),
            sign=lambda one: row_sign(one[0], glyphs),
        ),
        width,
        glyphs,
    )
    return rows + (text_rows(f"not logged: {', '.join(missing)}", width, glyphs, "dim") if missing else [])


def _columns(glyphs: Glyphs) -> Sequence[Column[tuple[MetricRow, str]]]:
    return (
        Column("check in order", lambda one: (one[0].title, "text"), Fit.NAME, least=17),
        Column("key", lambda one: (one[0].reading.key.display, "key"), Fit.NAME, least=12, priority=3),
        Column("last", lambda one: value_cell(one[0]), least=8, is_right=False),
        Column("vs base", lambda one: change_cell(one[0]), least=8, priority=1),
        Column(
            "whole run", lambda one, cells: sparkline(fitted(one[0].reading.line(), 2 * cells), glyphs), Fit.DRAWN,
            least=10, most=_CURVE_CELLS, priority=2, drawn_width=lambda _: _CURVE_CELLS,
        ),
        Column("what it tells", lambda one: (one[1], "note"), least=24, priority=4, is_right=False),
    )  # fmt: skip


class SymptomPage(Page):
    footer: ClassVar[Sequence[str]] = ("step-back", "step-on", "change")
    search_hint = "a metric, or a part of what is said"

    def __init__(self, chain: str, stream: str = "") -> None:
        super().__init__(stream)
        self._chain = chain

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        return paint_symptom(moment.snapshot, self._chain, width, moment.glyphs)
